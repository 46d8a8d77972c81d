/* flight.c - dumps of PyTorch's flight recorder (TORCH_FR_DUMP_TEMP_FILE,
 * /tmp/nccl_trace_rank_<rank>), pickled or JSON: the last operations of every
 * process group, which is what is left of a job that hangs.
 *
 * When an operation began and ended was noticed by a thread that looks now
 * and then, so these times are late; when it was enqueued is exact. */
#include "trace/formats/flight.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/builder.h"
#include "trace/format.h"
#include "trace/inputs.h"
#include "trace/json/items.h"
#include "trace/stream.h"
#include "trace/tree.h"

#define BYTES_MAX ((size_t)1 << 30)
#define SIZES_MAX 4096	   /* of the sizes of one operation */
#define GROUPS_MAX 4096	   /* that have entries */
#define CONFIG_MAX 65536   /* of which something is told */

enum state { SCHEDULED, STARTED, COMPLETED };
static const char *const state_names[] = { "scheduled", "started",
	"completed" };

struct group {
	const char *name, *desc;
	const char *ranks; /* as text */
	int64_t id;
	int64_t last[3]; /* sequence number, by state */
	int64_t end_ns;	 /* of its last operation */
	uint32_t lane;
};

struct flight {
	struct tauti_builder *builder;
	struct taut_error *err;
	struct taut_arena *arena; /* of the tree */
	const struct tauti_value *root;
	TAUT_VEC(struct group) groups;
	int64_t latest_ns; /* of all times in the dump */
	uint64_t discovered, untimed;
};

/* One entry, read out. */
struct entry {
	const struct tauti_value *value;
	const char *name; /* "nccl:all_reduce", "nccl:send 0->1" */
	struct group *group;
	enum state state;
	bool finished, p2p;
	int64_t created_ns, started_ns, completed_ns, seq;
};

static taut_status no_memory(struct flight *f)
{
	return taut_error_set(f->err, TAUT_ENOMEM, -1,
		"%s: no memory to read it", f->builder->path);
}

/* --- groups -------------------------------------------------------------- */

static int64_t count_ranks(const char *ranks)
{
	int64_t n = 0;
	for (; *ranks; ranks++)
		n += *ranks >= '0' && *ranks <= '9' &&
			!(ranks[1] >= '0' && ranks[1] <= '9');
	return n;
}

/* Rank number i of "[0, 1, 2, 3]"; -1: it has fewer. */
static int64_t rank_in(const char *ranks, int64_t i)
{
	for (const char *at = ranks; *at && i >= 0; at++) {
		if (*at < '0' || *at > '9')
			continue;
		char *end;
		long long rank = strtoll(at, &end, 10);
		if (i-- == 0)
			return rank;
		at = end - 1;
	}
	return -1;
}

static taut_status name_lane(struct flight *f, struct group *g)
{
	struct tauti_builder *b = f->builder;
	char text[160];
	int len = snprintf(text, sizeof text, "group %.40s%s%.80s%s", g->name,
		*g->desc ? " (" : "", g->desc, *g->desc ? ")" : "");
	g->lane = tauti_lanes_add(&b->lanes, TAUTI_ROLE_THREAD, 1, g->id);
	uint32_t name = taut_names_add(b->names, text, (size_t)len);
	if (g->lane == TAUT_NONE || name == TAUT_NONE)
		return no_memory(f);
	b->lanes.all.data[g->lane].name = name;
	return TAUT_OK;
}

/* The group of an entry: (name, description), in older versions its id. */
static taut_status find_group(struct flight *f,
	const struct tauti_value *entry, struct group **ret_group)
{
	const struct tauti_value *pair =
		tauti_tree_get(entry, "process_group");
	struct group g = {
		.name = tauti_tree_text(tauti_tree_item(pair, 0)),
		.desc = tauti_tree_text(tauti_tree_item(pair, 1)),
		.id = tauti_tree_int(tauti_tree_get(entry, "pg_id"), 0),
		.last = { -1, -1, -1 }, .end_ns = INT64_MIN,
	};
	for (size_t i = 0; i < f->groups.count; i++) {
		*ret_group = &f->groups.data[i];
		if ((*ret_group)->id == g.id &&
			strcmp((*ret_group)->name, g.name) == 0)
			return TAUT_OK;
	}
	*ret_group = NULL;
	if (f->groups.count == GROUPS_MAX)
		return TAUT_OK;
	g.ranks = tauti_tree_text(tauti_tree_get(tauti_tree_find(
		tauti_tree_get(f->root, "pg_config"), g.name, CONFIG_MAX),
		"ranks"));
	if (strcmp(g.desc, "undefined") == 0)
		g.desc = "";
	taut_status status = name_lane(f, &g);
	if (status == TAUT_OK && !taut_vec_push(&f->groups, g))
		status = no_memory(f);
	if (status == TAUT_OK)
		*ret_group = &f->groups.data[f->groups.count - 1];
	return status;
}

/* --- one entry ----------------------------------------------------------- */

static int64_t time_of(const struct tauti_value *entry, const char *key)
{
	int64_t ns = tauti_tree_int(tauti_tree_get(entry, key), 0);
	return ns > 0 && ns < TAUTI_TIME_LIMIT_NS ? ns : 0;
}

static enum state state_of(const struct tauti_value *entry)
{
	const char *text = tauti_tree_text(tauti_tree_get(entry, "state"));
	for (int i = COMPLETED; i > SCHEDULED; i--)
		if (strcmp(text, state_names[i]) == 0)
			return (enum state)i;
	return SCHEDULED;
}

/* Back ends without a watchdog never say more than "scheduled", but retire
 * what has ended. */
static taut_status read_entry(struct flight *f,
	const struct tauti_value *value, struct entry *ret_entry)
{
	struct entry e = {
		.value = value,
		.name = tauti_tree_text(
			tauti_tree_get(value, "profiling_name")),
		.state = state_of(value),
		.p2p = tauti_tree_int(tauti_tree_get(value, "is_p2p"), 0) == 1,
		.created_ns = time_of(value, "time_created_ns"),
		.started_ns = time_of(value, "time_discovered_started_ns"),
		.completed_ns =
			time_of(value, "time_discovered_completed_ns"),
	};
	e.seq = tauti_tree_int(tauti_tree_get(value,
		e.p2p ? "p2p_seq_id" : "collective_seq_id"),
		tauti_tree_int(tauti_tree_get(value, "seq_id"), -1));
	if (tauti_tree_int(tauti_tree_get(value, "retired"), 0) == 1)
		e.state = COMPLETED;
	e.finished = e.state == COMPLETED;
	*ret_entry = e;
	return find_group(f, value, &ret_entry->group);
}

static int64_t elements(const struct tauti_value *sizes)
{
	int64_t sum = 0, left = SIZES_MAX;
	for (uint32_t i = 0; tauti_tree_item(sizes, i); i++) {
		const struct tauti_value *shape = tauti_tree_item(sizes, i);
		int64_t product = 1;
		for (uint32_t k = 0; tauti_tree_item(shape, k); k++)
			if (left-- <= 0 || __builtin_mul_overflow(product,
				tauti_tree_int(tauti_tree_item(shape, k), -1),
				&product) || product < 0)
				return -1;
		if (left-- <= 0 ||
			__builtin_add_overflow(sum, product, &sum))
			return -1;
	}
	return tauti_tree_item(sizes, 0) ? sum : -1;
}

/* "nccl:send 0->1" sends from 0 to 1; "nccl:recv 1<-0" too. These are numbers
 * in the group, so without its ranks nothing is known, unless it is everybody. */
static void take_peers(const struct entry *e, struct taut_comm_args *args)
{
	const char *space = strchr(e->name, ' ');
	long long a, b;
	if (!space || !e->p2p)
		return;
	bool sends = strstr(space, "->") != NULL;
	if (sscanf(space, sends ? " %9lld->%9lld" : " %9lld<-%9lld", &a, &b) !=
		2)
		return;
	if (*e->group->ranks) {
		a = rank_in(e->group->ranks, a);
		b = rank_in(e->group->ranks, b);
	} else if (strcmp(e->group->desc, "default_pg") != 0) {
		return;
	}
	args->src_rank = (int32_t)(sends ? a : b);
	args->dst_rank = (int32_t)(sends ? b : a);
}

static bool intern(struct flight *f, const char *text, size_t len,
	uint32_t *ret_id)
{
	*ret_id = taut_names_add(f->builder->names, text, len);
	return *ret_id != TAUT_NONE;
}

static taut_status add_comm(
	struct flight *f, const struct entry *e, struct tauti_row *row)
{
	const char *colon = strchr(e->name, ':');
	const char *what = colon ? colon + 1 : e->name;
	const char *dtype = tauti_tree_text(tauti_tree_item(
		tauti_tree_get(e->value, "input_dtypes"), 0));
	const struct group *g = e->group;
	struct taut_comm_args args = {
		.in_elements = elements(
			tauti_tree_get(e->value, "input_sizes")),
		.out_elements = elements(
			tauti_tree_get(e->value, "output_sizes")),
		.seq = e->p2p ? -1 : e->seq, .comms_id = -1,
		.local_group = g->id, .group_size = -1,
		.src_rank = -1, .dst_rank = -1,
		.rank_start = -1, .rank_stride = -1,
	};
	int64_t size = count_ranks(g->ranks);
	if (size > 0 && size <= INT32_MAX)
		args.group_size = (int32_t)size;
	take_peers(e, &args);
	row->args = (uint32_t)f->builder->comms.count;
	if (!intern(f, what, strcspn(what, " "), &args.collective) ||
		!intern(f, dtype, strlen(dtype), &args.dtype) ||
		!intern(f, g->name, strlen(g->name), &args.group_name) ||
		!intern(f, g->desc, strlen(g->desc), &args.group_desc) ||
		!intern(f, g->ranks, strlen(g->ranks), &args.group_ranks) ||
		!taut_vec_push(&f->builder->comms, args))
		return no_memory(f);
	return TAUT_OK;
}

/* --- rows ---------------------------------------------------------------- */

/* The call that enqueued it; how long that took is not recorded. */
static taut_status add_call(struct flight *f, const struct entry *e)
{
	struct tauti_builder *b = f->builder;
	struct tauti_row *row = tauti_builder_row(b);
	const char *thread =
		tauti_tree_text(tauti_tree_get(e->value, "thread_name"));
	if (!row)
		return no_memory(f);
	row->kind = TAUT_KIND_OP;
	row->start_ns = e->created_ns;
	row->lane = tauti_lanes_add(&b->lanes, TAUTI_ROLE_THREAD, 0,
		tauti_tree_int(tauti_tree_get(e->value, "thread_id"), 0));
	uint32_t name = taut_names_add(b->names, thread, strlen(thread));
	if (row->lane == TAUT_NONE || name == TAUT_NONE ||
		!intern(f, e->name, strlen(e->name), &row->name))
		return no_memory(f);
	b->lanes.all.data[row->lane].name = name;
	return TAUT_OK;
}

/* From when to when it ran, as far as that is known. A group does one thing
 * after the other, so nothing begins before what went before has ended. */
static void set_times(
	struct flight *f, const struct entry *e, struct tauti_row *row)
{
	const struct tauti_value *ms = tauti_tree_get(e->value, "duration_ms");
	int64_t start = e->started_ns ? e->started_ns : e->created_ns;
	int64_t end = e->completed_ns;
	if (end && ms && ms->number > 0 && ms->number < 1e9)
		start = end - (int64_t)(ms->number * 1e6);
	if (!end)
		end = e->finished ? start : f->latest_ns;
	if (start < e->created_ns)
		start = e->created_ns;
	if (!e->p2p && start < e->group->end_ns && e->group->end_ns <= end)
		start = e->group->end_ns;
	if (end < start)
		end = start;
	row->start_ns = start;
	row->dur_ns = end - start;
	if (end > e->group->end_ns)
		e->group->end_ns = end;
	f->discovered += e->completed_ns > 0;
	f->untimed += e->finished && !e->completed_ns;
	if (!e->finished)
		row->flags |= TAUT_EVENT_CUT;
}

static taut_status add_entry(
	struct flight *f, const struct tauti_value *value)
{
	struct entry e;
	f->builder->events_seen++;
	taut_status status = read_entry(f, value, &e);
	if (status != TAUT_OK)
		return status;
	if (!e.created_ns || !e.group) {
		tauti_builder_lose(f->builder, TAUTI_LOST_TIME, 0);
		return TAUT_OK;
	}
	for (int i = SCHEDULED; !e.p2p && i <= (int)e.state; i++)
		if (e.seq > e.group->last[i])
			e.group->last[i] = e.seq;
	status = add_call(f, &e);
	struct tauti_row *row =
		status == TAUT_OK ? tauti_builder_row(f->builder) : NULL;
	if (!row)
		return no_memory(f);
	row->kind = TAUT_KIND_COMM;
	row->lane = e.group->lane;
	if (!intern(f, e.name, strlen(e.name), &row->name))
		return no_memory(f);
	set_times(f, &e, row);
	return add_comm(f, &e, row);
}

/* --- the whole dump ------------------------------------------------------ */

static void find_latest(struct flight *f, const struct tauti_value *entries)
{
	static const char *const keys[] = { "time_created_ns",
		"time_discovered_started_ns", "time_discovered_completed_ns" };
	for (uint32_t i = 0; tauti_tree_item(entries, i); i++)
		for (int k = 0; k < 3; k++) {
			int64_t ns = time_of(
				tauti_tree_item(entries, i), keys[k]);
			if (ns > f->latest_ns)
				f->latest_ns = ns;
		}
}

/* No dump tells its rank. */
static int32_t rank_of_name(const char *path)
{
	int32_t rank = tauti_rank_of_path(path);
	return rank >= 0 ? rank : tauti_rank_at_end(path);
}

/* What the groups themselves say may be newer than their entries. */
static void take_status(struct flight *f)
{
	static const char *const keys[] = { "last_enqueued_collective",
		"last_started_collective", "last_completed_collective" };
	const struct tauti_value *all = tauti_tree_get(f->root, "pg_status");
	for (size_t i = 0; i < f->groups.count; i++) {
		struct group *g = &f->groups.data[i];
		char id[32];
		snprintf(id, sizeof id, "%" PRId64, g->id);
		const struct tauti_value *own =
			tauti_tree_find(all, id, CONFIG_MAX);
		for (int k = 0; k < 3; k++) {
			int64_t last = tauti_tree_int(
				tauti_tree_get(own, keys[k]), -1);
			if (last > g->last[k])
				g->last[k] = last;
		}
	}
}

static taut_status tell_groups(struct flight *f)
{
	for (size_t i = 0; i < f->groups.count; i++) {
		const struct group *g = &f->groups.data[i];
		char key[256], value[256];
		snprintf(key, sizeof key, TAUTI_FLIGHT_GROUP "%.200s",
			g->name);
		int len = snprintf(value, sizeof value,
			"%" PRId64 " %" PRId64 " %" PRId64 " %.150s",
			g->last[0], g->last[1], g->last[2], g->desc);
		if (tauti_builder_fact(f->builder, key, value, (size_t)len) !=
			TAUT_OK)
			return no_memory(f);
		if (strcmp(g->desc, "default_pg") == 0 && *g->ranks)
			f->builder->world_size =
				(int32_t)count_ranks(g->ranks);
	}
	return TAUT_OK;
}

/* What the notes on all dumps together are made of; see flight_compare.c. */
static taut_status tell_times(
	struct flight *f, const struct tauti_value *entries)
{
	const struct tauti_value *first = tauti_tree_item(entries, 0);
	int64_t before = tauti_tree_int(tauti_tree_get(first, "record_id"), 0);
	char value[96];
	int len = snprintf(value, sizeof value,
		"%" PRIu64 " %" PRIu64 " %" PRId64, f->discovered, f->untimed,
		before > 0 ? before : 0);
	return tauti_builder_fact(f->builder, TAUTI_FLIGHT_TIMES, value,
		(size_t)len) == TAUT_OK ? TAUT_OK : no_memory(f);
}

static taut_status read_dump(struct flight *f)
{
	const struct tauti_value *entries =
		tauti_tree_get(f->root, "entries");
	taut_status status = TAUT_OK;
	if (!tauti_tree_get(f->root, "version") ||
		(!entries && !tauti_tree_get(f->root, "pg_status"))) {
		f->builder->other_kind = true;
		return taut_error_set(f->err, TAUT_EFORMAT, -1,
			"%s: no dump of PyTorch's flight recorder: it has no "
			"entries and no version", f->builder->path);
	}
	find_latest(f, entries);
	for (uint32_t i = 0;
		status == TAUT_OK && tauti_tree_item(entries, i); i++)
		status = add_entry(f, tauti_tree_item(entries, i));
	if (status == TAUT_OK &&
		f->builder->n_rows == f->builder->first_row)
		return taut_error_set(f->err, TAUT_EFORMAT, -1,
			"%s: a flight recorder's dump without an operation",
			f->builder->path);
	if (status != TAUT_OK)
		return status;
	take_status(f);
	status = tell_groups(f);
	return status == TAUT_OK ? tell_times(f, entries) : status;
}

/* --- pickle and JSON ----------------------------------------------------- */

static taut_status too_large(struct flight *f)
{
	return taut_error_set(f->err, TAUT_EFORMAT, -1,
		"%s: larger than 1 GiB, which no flight recorder's dump is",
		f->builder->path);
}

static taut_status read_bytes(struct flight *f, struct tauti_stream *stream,
	char **ret_bytes, size_t *ret_len)
{
	size_t room = (size_t)64 << 10, len = 0, got = 0;
	char *bytes = malloc(room);
	taut_status status = bytes ? TAUT_OK : no_memory(f);
	while (status == TAUT_OK) {
		status = tauti_stream_read(
			stream, bytes + len, room - len, &got, f->err);
		len += status == TAUT_OK ? got : 0;
		if (status != TAUT_OK || len < room)
			break;
		char *more = room < BYTES_MAX ? realloc(bytes, room * 2) : NULL;
		if (room >= BYTES_MAX)
			status = too_large(f);
		else if (!more)
			status = no_memory(f);
		bytes = more ? more : bytes;
		room *= 2;
	}
	*ret_bytes = bytes;
	*ret_len = len;
	return status;
}

static taut_status load_pickle(struct flight *f, struct tauti_stream *stream,
	struct tauti_value **ret_root)
{
	char *bytes = NULL;
	size_t len = 0;
	taut_status status = read_bytes(f, stream, &bytes, &len);
	f->builder->bytes_read = len;
	if (status == TAUT_OK)
		status = tauti_tree_unpickle(f->builder->path,
			(const unsigned char *)bytes, len, f->arena, ret_root,
			f->err);
	free(bytes);
	return status;
}

/* The root, entry after entry: all of them may be more than a window holds. */
struct json {
	struct flight *f;
	struct tauti_value *root, *entries;
	bool deep, large; /* a value that is refused */
};

/* False, as where there is no memory: reading ends. */
static bool take_value(struct json *j, const struct tauti_window *w,
	uint32_t i, struct tauti_value *to)
{
	struct tauti_value *value;
	j->large = w->offset + w->at[i] > BYTES_MAX;
	if (j->large || !tauti_tree_of_token(j->f->arena, w, i, &value))
		return false;
	j->deep = !value;
	return value && tauti_tree_push(j->f->arena, to, value);
}

static bool take_item(void *context, const struct tauti_window *w,
	uint32_t i, uint64_t offset)
{
	struct json *j = context;
	(void)offset;
	return take_value(j, w, i, j->entries);
}

static bool push_key(struct json *j, struct tauti_text text)
{
	struct tauti_value *key =
		tauti_tree_add(j->f->arena, TAUTI_VALUE_TEXT);
	return key && tauti_tree_set_text(
			j->f->arena, key, text.at, text.len) &&
		tauti_tree_push(j->f->arena, j->root, key);
}

static bool take_other(void *context, const struct tauti_window *w,
	struct tauti_text key, uint32_t i)
{
	struct json *j = context;
	return push_key(j, key) && take_value(j, w, i, j->root);
}

static taut_status json_fault(const struct json *j,
	const struct tauti_items *items, taut_status status)
{
	const char *path = j->f->builder->path;
	if (j->large)
		return too_large(j->f);
	if (status != TAUT_OK && !j->deep)
		return status == TAUT_ENOMEM ? no_memory(j->f) : status;
	if (j->deep)
		return taut_error_set(j->f->err, TAUT_EFORMAT, -1,
			"%s: a flight recorder's dump that is nested too "
			"deeply", path);
	return taut_error_set(j->f->err, TAUT_EFORMAT, (int64_t)items->end_at,
		"%s: byte %" PRIu64 ": a flight recorder's dump that %s", path,
		items->end_at, items->end == TAUTI_ITEMS_CUT ? "is cut" :
							       "is no JSON");
}

static taut_status load_json(struct flight *f, struct tauti_stream *stream,
	struct tauti_value **ret_root)
{
	static const char key[] = "entries";
	struct json j = {
		.f = f,
		.root = tauti_tree_add(f->arena, TAUTI_VALUE_DICT),
		.entries = tauti_tree_add(f->arena, TAUTI_VALUE_LIST),
	};
	struct tauti_items items = { .key = key, .item = take_item,
		.other = take_other, .context = &j };
	if (!j.root || !j.entries)
		return no_memory(f);
	taut_status status = tauti_items_read(
		&items, stream, f->builder->window_bytes, f->err);
	f->builder->bytes_read = items.bytes;
	if (status != TAUT_OK || items.end != TAUTI_ITEMS_WHOLE)
		return json_fault(&j, &items, status);
	if (items.found && (!push_key(&j, (struct tauti_text){ key,
			sizeof key - 1 }) ||
		!tauti_tree_push(f->arena, j.root, j.entries)))
		return no_memory(f);
	*ret_root = j.root;
	return TAUT_OK;
}

static taut_status read_flight(struct tauti_stream *stream,
	struct tauti_builder *builder, struct taut_error *err)
{
	struct flight f = { .builder = builder, .err = err };
	struct tauti_value *root = NULL;
	const char *head;
	size_t len;
	taut_status status = tauti_stream_peek(stream, &head, &len, err);
	if (status != TAUT_OK)
		return status;
	f.arena = taut_arena_create();
	if (!f.arena)
		return no_memory(&f);
	status = *head == '\x80' ? load_pickle(&f, stream, &root) :
				   load_json(&f, stream, &root);
	f.root = root;
	builder->rank = rank_of_name(builder->path);
	if (status == TAUT_OK)
		status = read_dump(&f);
	taut_vec_free(&f.groups);
	taut_arena_destroy(f.arena);
	return status;
}

static bool has_any(const char *head, size_t len, const char *const *keys)
{
	for (; *keys; keys++)
		if (memmem(head, len, *keys, strlen(*keys)))
			return true;
	return false;
}

/* A pickle of protocol 2 to 5, or JSON, with such keys early. A Kineto trace
 * says pg_config too, in its distributedInfo, which may lie far before the
 * events. */
static bool probe(const char *head, size_t len)
{
	static const char *const pickled[] = { "version", "pg_config",
		"pg_status", "entries", NULL };
	static const char *const quoted[] = { "\"collective_seq_id\"",
		"\"pg_status\"", "\"pg_config\"", "\"comm_lib_version\"",
		NULL };
	static const char *const kineto[] = { "\"traceEvents\"",
		"\"schemaVersion\"", "\"distributedInfo\"",
		"\"deviceProperties\"", "\"baseTimeNanoseconds\"",
		"\"displayTimeUnit\"", NULL };
	if (len > 3 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5)
		return has_any(head, len, pickled);
	return len && *head == '{' && has_any(head, len, quoted) &&
		!has_any(head, len, kineto);
}

const struct tauti_format tauti_format_flight = {
	.name = "flight",
	.probe = probe,
	.read = read_flight,
};

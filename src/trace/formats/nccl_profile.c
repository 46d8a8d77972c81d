/* nccl_profile.c - what NCCL's example profiler plugin writes at the end of a
 * process (NCCL_PROFILE_DUMP_FILE): an array of begins and ends, each pair
 * told by category, id and name.
 *
 * Times are microseconds since the plugin's own start, so dumps of several
 * ranks have no common clock. A time of 0 was never set. Older builds write
 * some values without quotes. */
#include "trace/builder.h"
#include "trace/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/lanes.h"
#include "trace/tree.h"

enum category { CALL, LAUNCH, COLL, P2P, PROXY, NET, OTHER };
static const struct {
	const char *name;
	enum category category;
} categories[] = {
	{ "GROUP_API", CALL }, { "COLL_API", CALL }, { "P2P_API", CALL },
	{ "KERNEL_LAUNCH", LAUNCH }, { "COLL", COLL }, { "P2P", P2P },
	{ "PROXY", PROXY }, { "NET", NET }, { "GROUP", OTHER },
	{ "GPU", OTHER }, { "NET_IB", OTHER }, { "NET_SOCK", OTHER },
};

struct begun {
	enum category category;
	uint32_t name, row; /* row: TAUT_NONE: nothing is kept of it */
	int64_t at_ns;      /* 0: not told */
	uint32_t key, before; /* the one that began before it, place + 1 */
};

struct profile {
	struct tauti_builder *builder;
	struct taut_error *err;
	TAUT_VEC(struct begun) open; /* and places that are free */
	uint32_t vacant;             /* the first of these, place + 1 */
	struct tauti_lanes keys;     /* category, id and name: a number */
	TAUT_VEC(uint32_t) last;     /* by key: of open, place + 1; 0: none */
	uint64_t offset;             /* of the event, about */
	struct taut_chunk_args proxy; /* of the proxy operation begun last */
	uint32_t chunk;		      /* row of the step that goes on */
	int64_t chunk_id;
	int64_t rank; /* -1: none said, -2: several */
	int64_t latest_ns;
	uint64_t one_ended; /* begin or end was never set */
};

struct event {
	const struct tauti_value *args;
	const char *name;
	enum category category;
	int64_t id, pid, at_ns;
};

static taut_status no_memory(struct profile *p)
{
	return taut_error_set(p->err, TAUT_ENOMEM, -1, "%s: no memory",
		p->builder->path);
}

static int64_t number(const struct tauti_value *args, const char *key)
{
	return tauti_tree_int(tauti_tree_get(args, key), -1);
}

static int32_t number32(const struct tauti_value *args, const char *key)
{
	int64_t value = number(args, key);
	return value < 0 || value > INT32_MAX ? -1 : (int32_t)value;
}

static bool intern(struct profile *p, const char *text, uint32_t *ret_id)
{
	*ret_id = taut_names_add(p->builder->names, text, strlen(text));
	return *ret_id != TAUT_NONE;
}

/* --- collectives --------------------------------------------------------- */

/* The rank in its communicators, when it is the same in all. */
static void learn_rank(struct profile *p, int64_t rank)
{
	if (p->rank == -1)
		p->rank = rank;
	else if (p->rank != rank)
		p->rank = -2;
}

/* A communicator counts each function's operations apart. */
static taut_status add_comm(
	struct profile *p, const struct event *e, struct tauti_row *row)
{
	struct tauti_builder *b = p->builder;
	char group[96], lane[64];
	const char *dtype =
		tauti_tree_text(tauti_tree_get(e->args, "Datatype"));
	uint64_t hash = (uint64_t)number(e->args, "CommHash");
	struct taut_comm_args args = {
		.in_elements = number(e->args, "Count"), .out_elements = -1,
		.seq = number(e->args, "SeqNum"), .comms_id = -1,
		.local_group = -1, .group_size = -1, .src_rank = -1,
		.dst_rank = -1, .rank_start = -1, .rank_stride = -1,
	};
	uint32_t lane_name;
	learn_rank(p, number(e->args, "Rank"));
	snprintf(group, sizeof group, "%" PRIx64 "/%.40s", hash, e->name);
	snprintf(lane, sizeof lane, "communicator %" PRIx64, hash);
	row->kind = TAUT_KIND_COMM;
	row->args = (uint32_t)b->comms.count;
	if (!intern(p, e->name, &args.collective) ||
		!intern(p, group, &args.group_name) ||
		!intern(p, lane, &lane_name) ||
		!intern(p, dtype + (strncmp(dtype, "nccl", 4) ? 0 : 4),
			&args.dtype) || !taut_vec_push(&b->comms, args))
		return no_memory(p);
	row->lane = tauti_lanes_add(
		&b->lanes, TAUTI_ROLE_THREAD, e->pid, lane_name);
	if (row->lane == TAUT_NONE)
		return no_memory(p);
	b->lanes.all.data[row->lane].name = lane_name;
	return TAUT_OK;
}

/* --- the proxy's steps --------------------------------------------------- */

static void begin_proxy(struct profile *p, const struct event *e)
{
	p->proxy = (struct taut_chunk_args){
		.channel = number32(e->args, "Channel"),
		.peer = number32(e->args, "Peer"),
		.bytes = number(e->args, "ChunkSize"),
		.sends = strstr(e->name, "Send") != NULL,
		.step = -1, .gpu_late_ns = -1, .peer_late_ns = -1,
		.network_ns = -1,
	};
	p->chunk = TAUT_NONE;
}

/* The waits of one step follow each other under one id; they are one chunk. */
static taut_status begin_step(
	struct profile *p, const struct event *e, struct begun *begun)
{
	struct tauti_builder *b = p->builder;
	if (p->chunk != TAUT_NONE && p->chunk_id == e->id) {
		begun->row = p->chunk;
		return TAUT_OK;
	}
	struct taut_chunk_args args = p->proxy;
	struct tauti_row *row = tauti_builder_row(b);
	if (!row)
		return no_memory(p);
	args.step = number32(e->args, "Step");
	row->kind = TAUT_KIND_CHUNK;
	row->start_ns = e->at_ns;
	row->args = (uint32_t)b->chunks.count;
	row->lane = tauti_lanes_add(
		&b->lanes, TAUTI_ROLE_OTHER, e->pid, args.channel);
	if (row->lane == TAUT_NONE || !taut_vec_push(&b->chunks, args) ||
		!intern(p, args.sends ? "chunk sent" : "chunk received",
			&row->name))
		return no_memory(p);
	begun->row = p->chunk = (uint32_t)b->n_rows - 1;
	p->chunk_id = e->id;
	return TAUT_OK;
}

/* Which wait it was decides who was late. */
static void end_step(struct profile *p, const struct begun *begun,
	int64_t end_ns)
{
	struct tauti_row *row =
		tauti_builder_row_at(p->builder, begun->row);
	struct taut_chunk_args *args =
		&p->builder->chunks.data[row->args];
	const char *name = taut_names_text(p->builder->names, begun->name);
	int64_t took = end_ns - begun->at_ns;
	if (!begun->at_ns || took < 0)
		return;
	int64_t *part = strstr(name, "GpuWait") ? &args->gpu_late_ns :
		strstr(name, "PeerWait") ? &args->peer_late_ns :
		&args->network_ns;
	*part = *part < 0 ? took : *part + took;
	if (end_ns > row->start_ns + row->dur_ns)
		row->dur_ns = end_ns - row->start_ns;
}

/* --- begins and ends ----------------------------------------------------- */

static int64_t key_of(enum category category, uint32_t name)
{
	return (int64_t)name << 8 | category;
}

static bool open_one(
	struct profile *p, const struct event *e, struct begun begun)
{
	uint32_t at = p->vacant;
	begun.key = tauti_lanes_add(&p->keys, TAUTI_ROLE_OTHER, e->id,
		key_of(e->category, begun.name));
	if (begun.key == TAUT_NONE)
		return false;
	while (p->last.count <= begun.key)
		if (!taut_vec_push(&p->last, 0))
			return false;
	begun.before = p->last.data[begun.key];
	if (!at) {
		if (!taut_vec_push(&p->open, begun))
			return false;
		at = (uint32_t)p->open.count;
	} else {
		p->vacant = p->open.data[at - 1].before;
		p->open.data[at - 1] = begun;
	}
	p->last.data[begun.key] = at;
	return true;
}

/* The begin of e, of several the last; false: there is none. */
static bool close_one(struct profile *p, const struct event *e, uint32_t name,
	struct begun *ret_begun)
{
	uint32_t key = tauti_lanes_find(&p->keys, TAUTI_ROLE_OTHER, e->id,
		key_of(e->category, name));
	uint32_t at = key == TAUT_NONE ? 0 : p->last.data[key];
	struct begun *begun = at ? &p->open.data[at - 1] : NULL;
	if (!begun)
		return false;
	*ret_begun = *begun;
	p->last.data[key] = begun->before;
	*begun = (struct begun){ .row = TAUT_NONE, .before = p->vacant };
	p->vacant = at;
	return true;
}

static taut_status begin_call(
	struct profile *p, const struct event *e, struct tauti_row *row)
{
	row->kind = e->category == LAUNCH ? TAUT_KIND_RUNTIME : TAUT_KIND_OP;
	row->lane = tauti_lanes_add(
		&p->builder->lanes, TAUTI_ROLE_THREAD, e->pid, 0);
	return row->lane == TAUT_NONE ? no_memory(p) : TAUT_OK;
}

static taut_status begin(struct profile *p, const struct event *e)
{
	struct begun begun = { .category = e->category,
		.at_ns = e->at_ns, .row = TAUT_NONE };
	taut_status status = TAUT_OK;
	struct tauti_row *row = NULL;
	if (!intern(p, e->name, &begun.name))
		return no_memory(p);
	if (e->category == PROXY)
		begin_proxy(p, e);
	if (e->category == NET)
		status = begin_step(p, e, &begun);
	if (e->category <= P2P) {
		row = tauti_builder_row(p->builder);
		if (!row)
			return no_memory(p);
		begun.row = (uint32_t)p->builder->n_rows - 1;
		row->name = begun.name;
		row->start_ns = e->at_ns;
		row->flags = TAUT_EVENT_CUT; /* until it ends */
		status = e->category >= COLL ? add_comm(p, e, row) :
					       begin_call(p, e, row);
	}
	if (status == TAUT_OK && !open_one(p, e, begun))
		status = no_memory(p);
	return status;
}

static void end_row(struct profile *p, const struct begun *begun,
	int64_t end_ns)
{
	struct tauti_row *row =
		tauti_builder_row_at(p->builder, begun->row);
	if (!begun->at_ns || !end_ns) {
		p->one_ended++;
		if (end_ns)
			row->start_ns = end_ns;
		return;
	}
	row->dur_ns = end_ns > begun->at_ns ? end_ns - begun->at_ns : 0;
	if (end_ns >= begun->at_ns)
		row->flags = 0;
}

static taut_status end(struct profile *p, const struct event *e)
{
	struct begun begun;
	uint32_t name;
	if (!intern(p, e->name, &name))
		return no_memory(p);
	if (!close_one(p, e, name, &begun))
		tauti_builder_lose(p->builder, TAUTI_LOST_NO_BEGIN, p->offset);
	else if (begun.row != TAUT_NONE && e->category == NET)
		end_step(p, &begun, e->at_ns);
	else if (begun.row != TAUT_NONE)
		end_row(p, &begun, e->at_ns);
	return TAUT_OK;
}

static int64_t time_of(const struct tauti_value *ts)
{
	double us = ts ? ts->number : 0;
	return us > 0 && us < 2e15 ? (int64_t)(us * 1000 + 0.5) : 0;
}

static taut_status add_value(
	struct profile *p, const struct tauti_value *value)
{
	struct event e = {
		.args = tauti_tree_get(value, "args"),
		.name = tauti_tree_text(tauti_tree_get(value, "name")),
		.category = OTHER,
		.id = number(value, "id"),
		.pid = number(value, "pid"),
		.at_ns = time_of(tauti_tree_get(value, "ts")),
	};
	const char *category =
		tauti_tree_text(tauti_tree_get(value, "cat"));
	const char *phase = tauti_tree_text(tauti_tree_get(value, "ph"));
	for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
		if (strcmp(category, categories[i].name) == 0)
			e.category = categories[i].category;
	if (!*phase)
		return TAUT_OK; /* the empty object at the end */
	p->builder->events_seen++;
	if (e.at_ns > p->latest_ns)
		p->latest_ns = e.at_ns;
	if (e.category == OTHER)
		return TAUT_OK;
	if (strcmp(phase, "b") == 0)
		return begin(p, &e);
	return strcmp(phase, "e") == 0 ? end(p, &e) : TAUT_OK;
}

/* --- the whole file ------------------------------------------------------ */

/* Rows of which neither end was set would stand at the beginning of time. */
static void place_timeless(struct tauti_builder *b)
{
	int64_t first_ns = INT64_MAX;
	for (uint32_t i = (uint32_t)b->first_row; i < b->n_rows; i++) {
		int64_t at = tauti_builder_row_at(b, i)->start_ns;
		if (at && at < first_ns)
			first_ns = at;
	}
	for (uint32_t i = (uint32_t)b->first_row; i < b->n_rows; i++) {
		struct tauti_row *row = tauti_builder_row_at(b, i);
		if (!row->start_ns)
			row->start_ns = first_ns == INT64_MAX ? 0 : first_ns;
	}
}

/* What nobody ended ends with the dump. */
static void close_open(struct profile *p)
{
	for (size_t i = 0; i < p->open.count; i++) {
		const struct begun *begun = &p->open.data[i];
		if (begun->row != TAUT_NONE && begun->at_ns &&
			begun->category <= P2P)
			tauti_builder_row_at(p->builder, begun->row)->dur_ns =
				p->latest_ns - begun->at_ns;
	}
}

static const char *const lost_text[TAUTI_LOST_COUNT] = {
	[TAUTI_LOST_NO_BEGIN] = "an end without its begin",
};

static taut_status finish(
	struct profile *p, const struct tauti_values *values)
{
	struct tauti_builder *b = p->builder;
	bool ok = true;
	if (b->n_rows == b->first_row)
		return taut_error_set(p->err, TAUT_EFORMAT,
			(int64_t)values->offset, "%s: a dump of NCCL's "
			"profiler without an event that could be read",
			b->path);
	close_open(p);
	place_timeless(b);
	b->rank = p->rank >= 0 && p->rank <= INT32_MAX ? (int32_t)p->rank :
							 -1;
	if (values->cut || values->broken) {
		b->truncated = true;
		ok = tauti_builder_note(b, "byte %" PRIu64 ": %s; what stands "
			"behind it is left out", values->offset,
			values->cut ? "the text ends before its array does" :
				      "is no JSON") == TAUT_OK;
	}
	if (ok)
		ok = tauti_builder_note_lost(b, "event", lost_text) == TAUT_OK;
	if (ok && p->one_ended)
		ok = tauti_builder_note(b, "%" PRIu64 " events have a begin or "
			"an end of 0, which was never set: they are points",
			p->one_ended) == TAUT_OK;
	if (ok)
		ok = tauti_builder_note(b, "a dump of NCCL's profiler: times "
			"count from its own start, so dumps of several ranks "
			"are on no common clock") == TAUT_OK;
	return ok ? TAUT_OK : no_memory(p);
}

static taut_status read_values(struct profile *p, struct tauti_values *values)
{
	taut_status status = TAUT_OK;
	while (status == TAUT_OK) {
		struct taut_arena *arena = taut_arena_create();
		struct tauti_value *value = NULL;
		if (!arena)
			return no_memory(p);
		status = tauti_values_next(values, arena, &value, p->err);
		bool more = value != NULL;
		if (status == TAUT_OK && more)
			status = add_value(p, value);
		if (more)
			p->offset = values->window.offset +
				values->window.at[values->i];
		taut_arena_destroy(arena);
		if (!more)
			break;
	}
	return status;
}

static taut_status read_profile(struct tauti_stream *stream,
	struct tauti_builder *builder, struct taut_error *err)
{
	struct profile p = { .builder = builder, .err = err, .rank = -1,
		.chunk = TAUT_NONE, .proxy = { .peer = -1, .channel = -1,
		.step = -1, .bytes = -1, .gpu_late_ns = -1,
		.peer_late_ns = -1, .network_ns = -1 } };
	struct tauti_values values;
	taut_status status = tauti_values_init(
		&values, stream, builder->window_bytes, err);
	if (status == TAUT_OK)
		status = read_values(&p, &values);
	builder->bytes_read = values.window.offset + values.window.span;
	if (status == TAUT_OK)
		status = finish(&p, &values);
	tauti_values_fini(&values);
	taut_vec_free(&p.open);
	taut_vec_free(&p.last);
	tauti_lanes_fini(&p.keys);
	return status;
}

/* The array, and early in it a category that only this plugin writes. */
static bool probe(const char *head, size_t len)
{
	static const char *const keys[] = { "\"cat\": \"GROUP_API\"",
		"\"cat\": \"COLL_API\"", "\"cat\": \"P2P_API\"",
		"\"cat\": \"KERNEL_LAUNCH\"", "\"cat\": \"PROXY\"",
		"\"cat\": \"GROUP\"", "\"cat\": \"COLL\"",
		"\"cat\": \"P2P\"" };
	size_t at = 0;
	while (at < len && strchr(" \t\r\n", head[at] ? head[at] : 'x'))
		at++;
	for (size_t i = 0; i < sizeof keys / sizeof *keys && at < len &&
		head[at] == '['; i++)
		if (memmem(head, len, keys[i], strlen(keys[i])))
			return true;
	return false;
}

const struct tauti_format tauti_format_nccl_profile = {
	.name = "nccl-profile",
	.probe = probe,
	.read = read_profile,
};

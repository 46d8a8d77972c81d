/* kineto_event.c - one event. */
#include "trace/formats/kineto.h"

#include <string.h>

#include "trace/formats/chrome_event.h"
#include "trace/json/items.h"
#include "trace/json/number.h"
#include "trace/json/string.h"

#define LONGEST_SIZES 400 /* bytes of text, of one operator's inputs */

/* --- categories ---------------------------------------------------------- */

static const struct category {
	const char *text;
	uint32_t len;
	enum taut_kind kind;
} categories[] = { /* the frequent ones first */
#define CATEGORY(text, kind) { text, sizeof(text) - 1, TAUT_KIND_##kind }
	CATEGORY("cpu_op", OP),
	CATEGORY("python_function", PYTHON),
	CATEGORY("cuda_runtime", RUNTIME),
	CATEGORY("kernel", KERNEL),
	CATEGORY("Operator", OP),
	CATEGORY("Runtime", RUNTIME),
	CATEGORY("Kernel", KERNEL),
	CATEGORY("cuda_driver", RUNTIME),
	CATEGORY("user_annotation", ANNOTATION),
	CATEGORY("gpu_user_annotation", GPU_RANGE),
	CATEGORY("gpu_memcpy", MEMCPY),
	CATEGORY("gpu_memset", MEMSET),
	CATEGORY("cuda_sync", SYNC),
	CATEGORY("Memcpy", MEMCPY),
	CATEGORY("Memset", MEMSET),
	CATEGORY("overhead", OVERHEAD),
	CATEGORY("python_func", PYTHON),
	CATEGORY("concurrent_kernel", KERNEL),
	CATEGORY("hip_runtime", RUNTIME),
	CATEGORY("hip_driver", RUNTIME),
	CATEGORY("xpu_runtime", RUNTIME),
	CATEGORY("xpu_driver", RUNTIME),
	CATEGORY("mtia_runtime", RUNTIME),
	CATEGORY("glow_runtime", RUNTIME),
	CATEGORY("privateuse1_runtime", RUNTIME),
	CATEGORY("privateuse1_driver", RUNTIME),
#undef CATEGORY
};

enum taut_kind tauti_kineto_kind(struct tauti_text text)
{
	for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
		if (categories[i].len == text.len &&
			memcmp(categories[i].text, text.at, text.len) == 0)
			return categories[i].kind;
	return TAUT_KIND_OTHER;
}

static bool starts_with(struct tauti_text text, const char *start)
{
	size_t len = strlen(start);
	return text.len >= len && memcmp(text.at, start, len) == 0;
}

/* In 2021 the marks of steps, optimisers and loaders were operators. */
static bool is_mark(struct tauti_text name)
{
	switch (name.len ? name.at[0] : 0) {
	case 'P':
		return starts_with(name, "ProfilerStep#");
	case 'O':
		return starts_with(name, "Optimizer.");
	case 'e':
		return starts_with(name, "enumerate(DataLoader)");
	default:
		return false;
	}
}

/* An operator may be a range: marks, and calls of modules as Taut's own
 * recorder writes them, which takes the cheapest way there is. */
static enum taut_kind kind_of_op(struct tauti_text name)
{
	if (starts_with(name, "nn.Module: "))
		return TAUT_KIND_PYTHON;
	return is_mark(name) ? TAUT_KIND_ANNOTATION : TAUT_KIND_OP;
}

/* --- texts, places, times ------------------------------------------------ */

uint32_t tauti_kineto_text(struct kineto *k, struct tauti_text text)
{
	if (tauti_string_is_plain(text.at, text.len))
		return taut_names_add(k->builder->names, text.at, text.len);
	taut_vec_clear(&k->scratch);
	if (!taut_vec_reserve(&k->scratch, TAUTI_STRING_ROOM(text.len)))
		return TAUT_NONE;
	size_t len = tauti_string_decode(text.at, text.len, k->scratch.data);
	return taut_names_add(k->builder->names, k->scratch.data, len);
}

/* A pid or tid. */
struct place {
	int64_t number;
	bool is_text; /* number is -1 - the id of the text */
};

static bool all_digits(struct tauti_text text)
{
	uint32_t i = text.len > 1 && text.at[0] == '-';
	if (i == text.len)
		return false;
	for (; i < text.len; i++)
		if (text.at[i] < '0' || text.at[i] > '9')
			return false;
	return true;
}

static bool text_place(
	struct kineto *k, struct tauti_text text, struct place *ret_place)
{
	while (text.len && text.at[text.len - 1] == ' ')
		text.len--;
	if (starts_with(text, "stream ")) { /* as 2021 wrote them */
		text.at += 7;
		text.len -= 7;
	}
	if (all_digits(text))
		return tauti_number_int(text.at, &ret_place->number);
	uint32_t id = tauti_kineto_text(k, text);
	ret_place->number = -1 - (int64_t)id;
	ret_place->is_text = true;
	return id != TAUT_NONE;
}

static bool read_place(
	struct kineto *k, uint32_t token, struct place *ret_place)
{
	struct tauti_text text;
	*ret_place = (struct place){ 0 };
	if (!token)
		return false;
	if (tauti_token_string(&k->window, token, &text))
		return text_place(k, text, ret_place);
	return tauti_number_int(
		tauti_token_at(&k->window, token), &ret_place->number);
}

/* Remembers what tells unpadded nanoseconds from decimals. */
static void note_fraction(struct kineto *k, int64_t ns, unsigned digits)
{
	unsigned n = digits & TAUTI_NUMBER_DIGITS;
	k->fractions += n >= 2;
	k->short_fractions += n == 1 || n == 2;
	if (digits & TAUTI_NUMBER_ZERO || n > 3)
		k->padded = true;
	else if (n == 2 && ns % 100 == 0)
		k->unpadded = true;
}

static bool read_time(struct kineto *k, uint32_t token, int64_t limit,
	int64_t *ret_ns, unsigned *ret_digits)
{
	unsigned digits;
	if (!tauti_number_us(
		    tauti_token_at(&k->window, token), ret_ns, &digits))
		return false;
	if (digits)
		note_fraction(k, *ret_ns, digits);
	*ret_digits = digits & TAUTI_NUMBER_DIGITS;
	return *ret_ns <= limit && *ret_ns >= -limit;
}

static bool read_times(
	struct kineto *k, const struct tauti_chrome_event *e, struct tauti_row *row)
{
	unsigned start_digits, dur_digits = 0;
	if (!e->ts || !read_time(k, e->ts, TAUTI_TIME_LIMIT_NS,
			      &row->start_ns, &start_digits))
		return false;
	if (e->dur && !read_time(k, e->dur, TAUTI_TIME_LIMIT_NS / 2,
			      &row->dur_ns, &dur_digits))
		return false;
	if (row->dur_ns < 0) {
		row->dur_ns = 0;
		row->flags |= TAUT_EVENT_CUT;
		k->negative++;
	}
	row->digits = (uint8_t)(start_digits | dur_digits << 4);
	return true;
}

static enum tauti_role role_of(enum taut_kind kind)
{
	switch (kind) {
	case TAUT_KIND_OP:
	case TAUT_KIND_ANNOTATION:
	case TAUT_KIND_PYTHON:
	case TAUT_KIND_RUNTIME:
	case TAUT_KIND_STEP:
		return TAUTI_ROLE_THREAD;
	case TAUT_KIND_KERNEL:
	case TAUT_KIND_MEMCPY:
	case TAUT_KIND_MEMSET:
		return TAUTI_ROLE_STREAM;
	case TAUT_KIND_SYNC:
		return TAUTI_ROLE_SYNC;
	case TAUT_KIND_GPU_RANGE:
		return TAUTI_ROLE_RANGE;
	case TAUT_KIND_OVERHEAD:
		return TAUTI_ROLE_OVERHEAD;
	default:
		return TAUTI_ROLE_OTHER;
	}
}

static uint32_t add_lane(
	struct kineto *k, enum tauti_role role, struct place pid,
	struct place tid)
{
	struct tauti_builder *b = k->builder;
	if (pid.is_text || tid.is_text)
		role = TAUTI_ROLE_TEXT;
	uint32_t id = tauti_lanes_add(&b->lanes, role, pid.number, tid.number);
	if (role == TAUTI_ROLE_TEXT && id != TAUT_NONE)
		b->lanes.all.data[id].name = (uint32_t)(-1 -
			(tid.is_text ? tid.number : pid.number));
	return id;
}

/* "ProfilerStep#12" is step 12; *ret_sequence is its number + 1. */
static bool is_step(struct tauti_text name, uint32_t *ret_sequence)
{
	static const char prefix[] = "ProfilerStep#";
	uint32_t number = 0;
	size_t at = sizeof prefix - 1;
	if (!starts_with(name, prefix))
		return false;
	for (; at < name.len && name.at[at] >= '0' &&
		name.at[at] <= '9' && number < 100000000; at++)
		number = number * 10 + (uint32_t)(name.at[at] - '0');
	*ret_sequence = number + 1;
	return true;
}

/* --- complete events ----------------------------------------------------- */

/* The kinds whose args tell something that is kept. */
static bool wants_args(enum taut_kind kind, struct tauti_text name)
{
	switch (kind) {
	case TAUT_KIND_OP:
	case TAUT_KIND_RUNTIME:
	case TAUT_KIND_KERNEL:
	case TAUT_KIND_MEMCPY:
	case TAUT_KIND_MEMSET:
	case TAUT_KIND_SYNC:
		return true;
	case TAUT_KIND_ANNOTATION:
		return tauti_kineto_is_comm(name);
	default:
		return false;
	}
}

/* A device item says itself where it ran. */
static void device_place(struct kineto *k, const struct kineto_args *args,
	enum taut_kind kind, struct place *pid, struct place *tid)
{
	const struct tauti_window *w = &k->window;
	int64_t device = tauti_kineto_number(w, args, ARG_DEVICE, -1);
	int64_t stream = tauti_kineto_number(w, args, ARG_STREAM, -1);
	if (device >= 0)
		*pid = (struct place){ .number = device };
	if (stream >= 0 && kind != TAUT_KIND_SYNC)
		*tid = (struct place){ .number = stream };
	if (kind == TAUT_KIND_SYNC && kineto_has(args, ARG_STREAM))
		*tid = (struct place){
			.number = tauti_kineto_sync_stream(stream) };
	else if (kind == TAUT_KIND_SYNC && !tid->is_text)
		tid->number = tauti_kineto_sync_stream(tid->number);
}

/* The sizes of its inputs; lists of hundreds of tensors are not worth it. */
static bool keep_sizes(struct kineto *k, struct tauti_row *row,
	const struct kineto_args *args)
{
	const struct tauti_window *w = &k->window;
	struct tauti_text text;
	if (!kineto_has(args, ARG_INPUT_DIMS))
		return true;
	uint32_t i = args->token[ARG_INPUT_DIMS], end = i;
	if (tauti_token_byte(w, i) != '[' || !tauti_token_skip(w, &end))
		return true;
	text.at = tauti_token_at(w, i);
	text.len = w->at[end - 1] + 1 - w->at[i];
	if (text.len <= strlen("[[]]") || text.len > LONGEST_SIZES)
		return true;
	row->sizes = tauti_kineto_text(k, text);
	return row->sizes != TAUT_NONE;
}

static bool add_args(struct kineto *k, struct tauti_row *row,
	const struct kineto_args *args, int64_t tid, struct tauti_text name)
{
	const struct tauti_window *w = &k->window;
	row->correlation = (uint32_t)tauti_kineto_number(
		w, args, ARG_CORRELATION, 0);
	switch (row->kind) {
	case TAUT_KIND_SYNC:
		return tauti_kineto_add_sync(k, row, args, tid, name);
	case TAUT_KIND_MEMCPY:
	case TAUT_KIND_MEMSET:
		return tauti_kineto_add_copy(k, row, args);
	case TAUT_KIND_OP:
		row->sequence = (uint32_t)(tauti_kineto_number(
			w, args, ARG_SEQUENCE, -1) + 1);
		if (tauti_kineto_number(w, args, ARG_FWD_THREAD, 0) != 0)
			row->flags |= TAUT_EVENT_BACKWARD;
		if (kineto_has(args, ARG_CONCRETE_INPUTS) &&
			tauti_kineto_is_frozen(w, args, name))
			row->flags |= TAUT_EVENT_FROZEN;
		if (!keep_sizes(k, row, args))
			return false;
		return tauti_kineto_add_comm(k, row, args, name) &&
		       tauti_kineto_add_tensor(k, row, args, name);
	case TAUT_KIND_ANNOTATION:
	case TAUT_KIND_KERNEL:
		return tauti_kineto_add_comm(k, row, args, name);
	case TAUT_KIND_RUNTIME:
		return tauti_kineto_keep_bytes(k, row, args);
	default:
		return true;
	}
}

/* Strings may be absent: an empty text then. */
static struct tauti_text string_or_empty(struct kineto *k, uint32_t token)
{
	struct tauti_text text;
	if (!token || !tauti_token_string(&k->window, token, &text))
		return (struct tauti_text){ "", 0 };
	return text;
}

static uint64_t offset_of(const struct kineto *k, uint32_t token)
{
	return k->window.offset + k->window.at[token];
}

static enum kineto_result keep(struct kineto *k, const struct tauti_row *row)
{
	struct tauti_row *kept = tauti_builder_row(k->builder);
	if (!kept)
		return KINETO_NO_MEMORY;
	*kept = *row;
	return KINETO_OK;
}

static uint32_t id_of(const struct kineto *k, uint32_t args, const char *key)
{
	int64_t number;
	uint32_t at = tauti_items_value(&k->window, args, key);
	if (!at || !tauti_number_int(tauti_token_at(&k->window, at), &number) ||
		number < 0 || number >= TAUT_NONE)
		return TAUT_NONE;
	return (uint32_t)number;
}

/* For another file of the rank that calls operators by number. */
static bool keep_ids(struct kineto *k, uint32_t args, enum taut_kind kind)
{
	struct tauti_builder *b = k->builder;
	if (!b->wants_op_ids || !args ||
		(kind != TAUT_KIND_OP && kind != TAUT_KIND_ANNOTATION &&
			kind != TAUT_KIND_STEP))
		return true;
	struct tauti_op_id id = {
		.row = (uint32_t)b->n_rows,
		.record = id_of(k, args, "Record function id"),
		.index = id_of(k, args, "Ev Idx"),
		.external = id_of(k, args, "External id"),
	};
	return taut_vec_push(&b->op_ids, id);
}

static enum kineto_result lose(
	struct kineto *k, uint32_t token, enum tauti_lost why)
{
	tauti_builder_lose(k->builder, why, offset_of(k, token));
	return KINETO_OK;
}

static enum kineto_result complete_event(
	struct kineto *k, const struct tauti_chrome_event *e, uint32_t begin)
{
	struct tauti_row row = { .args = TAUT_NONE };
	struct kineto_args args = { .seen = 0 };
	struct place pid, tid;
	struct tauti_text name = string_or_empty(k, e->name);
	enum taut_kind kind =
		tauti_kineto_kind(string_or_empty(k, e->category));
	if (kind == TAUT_KIND_OP)
		kind = kind_of_op(name);
	if (kind == TAUT_KIND_ANNOTATION && is_step(name, &row.sequence))
		kind = TAUT_KIND_STEP;
	row.kind = (uint8_t)kind;
	if (!read_times(k, e, &row))
		return lose(k, begin, TAUTI_LOST_TIME);
	if (!read_place(k, e->pid, &pid) || !read_place(k, e->tid, &tid))
		return lose(k, begin, TAUTI_LOST_PLACE);
	if (e->args && wants_args(kind, name)) {
		int64_t said_tid = tid.number;
		if (!tauti_kineto_args(&k->window, e->args, &args))
			return lose(k, begin, TAUTI_LOST_BROKEN);
		if (role_of(kind) == TAUTI_ROLE_STREAM ||
			kind == TAUT_KIND_SYNC)
			device_place(k, &args, kind, &pid, &tid);
		if (!add_args(k, &row, &args, said_tid, name))
			return KINETO_NO_MEMORY;
	}
	row.name = tauti_kineto_text(k, name);
	row.lane = add_lane(k, role_of(kind), pid, tid);
	if (row.name == TAUT_NONE || row.lane == TAUT_NONE ||
		!keep_ids(k, e->args, kind))
		return KINETO_NO_MEMORY;
	return keep(k, &row);
}

/* --- begin and end ------------------------------------------------------- */

/* The lane on which an event of (pid, tid) is open; E has no category. */
static struct tauti_lane *open_lane(
	struct kineto *k, struct place pid, struct place tid)
{
	struct tauti_lanes *lanes = &k->builder->lanes;
	for (int role = 0; role <= TAUTI_ROLE_TEXT; role++) {
		uint32_t id = tauti_lanes_find(lanes, (enum tauti_role)role,
			pid.number, tid.number);
		if (id != TAUT_NONE && lanes->all.data[id].open != TAUT_NONE)
			return &lanes->all.data[id];
	}
	return NULL;
}

static void see_time(struct tauti_lane *lane, int64_t ns)
{
	if (ns > lane->last_ns)
		lane->last_ns = ns;
}

static enum kineto_result begin_event(
	struct kineto *k, const struct tauti_chrome_event *e, uint32_t begin)
{
	struct tauti_builder *b = k->builder;
	uint32_t row_number = (uint32_t)b->n_rows;
	struct tauti_chrome_event start = *e;
	start.dur = start.args = 0;
	uint64_t lost = b->lost[TAUTI_LOST_TIME] + b->lost[TAUTI_LOST_PLACE];
	enum kineto_result result = complete_event(k, &start, begin);
	if (result != KINETO_OK ||
		lost != b->lost[TAUTI_LOST_TIME] + b->lost[TAUTI_LOST_PLACE])
		return result;
	struct tauti_row *row = tauti_builder_row_at(b, row_number);
	struct tauti_lane *lane = &b->lanes.all.data[row->lane];
	row->args = lane->open;
	lane->open = row_number;
	see_time(lane, row->start_ns);
	return KINETO_OK;
}

static enum kineto_result end_event(
	struct kineto *k, const struct tauti_chrome_event *e, uint32_t begin)
{
	struct place pid, tid;
	int64_t end_ns;
	unsigned digits;
	if (!e->ts ||
		!read_time(k, e->ts, TAUTI_TIME_LIMIT_NS, &end_ns, &digits))
		return lose(k, begin, TAUTI_LOST_TIME);
	if (!read_place(k, e->pid, &pid) || !read_place(k, e->tid, &tid))
		return lose(k, begin, TAUTI_LOST_PLACE);
	struct tauti_lane *lane = open_lane(k, pid, tid);
	if (!lane)
		return lose(k, begin, TAUTI_LOST_NO_BEGIN);
	struct tauti_row *row = tauti_builder_row_at(k->builder, lane->open);
	lane->open = row->args;
	row->args = TAUT_NONE;
	see_time(lane, end_ns);
	row->dur_ns = end_ns - row->start_ns;
	if (row->dur_ns < 0 || row->dur_ns > TAUTI_TIME_LIMIT_NS / 2) {
		row->dur_ns = 0;
		row->flags |= TAUT_EVENT_CUT;
		k->negative++;
	}
	return KINETO_OK;
}

void tauti_kineto_close_open(struct kineto *k)
{
	struct tauti_builder *b = k->builder;
	for (size_t i = 0; i < b->lanes.all.count; i++) {
		struct tauti_lane *lane = &b->lanes.all.data[i];
		while (lane->open != TAUT_NONE) {
			struct tauti_row *row =
				tauti_builder_row_at(b, lane->open);
			int64_t dur = lane->last_ns - row->start_ns;
			lane->open = row->args;
			row->args = TAUT_NONE;
			row->flags |= TAUT_EVENT_CUT;
			row->dur_ns = dur > TAUTI_TIME_LIMIT_NS / 2 ?
				TAUTI_TIME_LIMIT_NS / 2 : dur;
		}
	}
}

/* --- allocations ---------------------------------------------------------- */

enum { DEVICE_HOST = 0 }; /* of "Device Type": c10's CPU */

/* No block is larger, and no sum of 2^32 of a plausible size overflows. */
#define MEMORY_LIMIT_BYTES ((int64_t)1 << 47)

static bool plausible(int64_t bytes)
{
	return bytes <= MEMORY_LIMIT_BYTES && bytes >= -MEMORY_LIMIT_BYTES;
}

/* What the allocator gave or took: an instant, kept beside the events. Those
 * without a readable size tell nothing. */
static enum kineto_result memory_event(
	struct kineto *k, const struct tauti_chrome_event *e, uint32_t begin)
{
	const struct tauti_window *w = &k->window;
	struct taut_memory_event memory;
	struct kineto_args args;
	struct place pid, tid;
	unsigned digits;
	if (!e->args || !tauti_kineto_args(w, e->args, &args))
		return lose(k, begin, TAUTI_LOST_BROKEN);
	if (!e->ts || !read_time(k, e->ts, TAUTI_TIME_LIMIT_NS,
			      &memory.at_ns, &digits))
		return lose(k, begin, TAUTI_LOST_TIME);
	if (!read_place(k, e->pid, &pid) || !read_place(k, e->tid, &tid))
		return lose(k, begin, TAUTI_LOST_PLACE);
	memory.bytes = tauti_kineto_number(w, &args, ARG_BYTES, 0);
	if (!memory.bytes || !plausible(memory.bytes))
		return KINETO_OK;
	memory.total = tauti_kineto_number(w, &args, ARG_TOTAL_ALLOCATED, -1);
	if (!plausible(memory.total))
		memory.total = -1;
	memory.address = (uint64_t)tauti_kineto_number(
		w, &args, ARG_ADDRESS, 0);
	memory.device = tauti_kineto_number(w, &args, ARG_DEVICE_TYPE,
		DEVICE_HOST) == DEVICE_HOST ? -1 :
		(int32_t)(tauti_kineto_number(
			w, &args, ARG_DEVICE_ID, 0) & INT16_MAX);
	memory.lane = add_lane(k, TAUTI_ROLE_THREAD, pid, tid);
	if (memory.lane == TAUT_NONE ||
		!taut_vec_push(&k->builder->memory, memory))
		return KINETO_NO_MEMORY;
	return KINETO_OK;
}

static bool is_memory(struct kineto *k, uint32_t name)
{
	return name && TAUTI_TOKEN_IS(tauti_token_at(&k->window, name),
			       "\"[memory]\"");
}

/* --- metadata ------------------------------------------------------------ */

static enum kineto_result name_lane(
	struct kineto *k, const struct tauti_chrome_event *e)
{
	struct place pid, tid;
	struct kineto_args args;
	struct tauti_text text;
	if (!e->args || !read_place(k, e->pid, &pid) ||
		!read_place(k, e->tid, &tid))
		return KINETO_OK;
	if (!tauti_kineto_args(&k->window, e->args, &args) ||
		!kineto_has(&args, ARG_NAME) ||
		!tauti_token_string(&k->window, args.token[ARG_NAME], &text))
		return KINETO_OK;
	while (text.len && text.at[text.len - 1] == ' ')
		text.len--;
	struct kineto_lane_name name = { pid.number, tid.number,
		tauti_kineto_text(k, text) };
	if (name.name == TAUT_NONE || !taut_vec_push(&k->lane_names, name))
		return KINETO_NO_MEMORY;
	return KINETO_OK;
}

static bool is_thread_name(struct kineto *k, uint32_t name)
{
	return name && TAUTI_TOKEN_IS(tauti_token_at(&k->window, name),
			       "\"thread_name\"");
}

enum kineto_result tauti_kineto_event(struct kineto *k, uint32_t *ret_i)
{
	uint32_t begin = *ret_i;
	struct tauti_chrome_event e = { 0 };
	if (!tauti_chrome_fields(&k->window, ret_i, &e))
		return KINETO_BROKEN;
	k->builder->events_seen++;
	switch (e.phase) {
	case 'X':
		return complete_event(k, &e, begin);
	case 'B':
		return begin_event(k, &e, begin);
	case 'E':
		return end_event(k, &e, begin);
	case 'M':
		return is_thread_name(k, e.name) ? name_lane(k, &e) :
						   KINETO_OK;
	case 'i':
		return is_memory(k, e.name) ? memory_event(k, &e, begin) :
					      KINETO_OK;
	default: /* other instants, counters, flows: nothing that is kept */
		return KINETO_OK;
	}
}

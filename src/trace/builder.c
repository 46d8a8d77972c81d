/* builder.c - rows in, columns out. */
#include "trace/builder.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

taut_status tauti_builder_init(struct tauti_builder *b, const char *path)
{
	memset(b, 0, sizeof *b);
	b->path = path;
	b->rank = b->world_size = -1;
	b->host = b->clock = "";
	b->arena = taut_arena_create();
	b->names = taut_names_create();
	if (b->arena && b->names)
		return TAUT_OK;
	tauti_builder_fini(b);
	return TAUT_ENOMEM;
}

static void free_rows(struct tauti_builder *b)
{
	for (size_t i = 0; i < b->blocks.count; i++)
		free(b->blocks.data[i]);
	taut_vec_free(&b->blocks);
	taut_vec_free(&b->syncs);
	taut_vec_free(&b->comms);
	taut_vec_free(&b->copies);
	taut_vec_free(&b->tensors);
	taut_vec_free(&b->loads);
	taut_vec_free(&b->chunks);
	taut_vec_free(&b->memory);
	taut_vec_free(&b->clock_samples);
	taut_vec_free(&b->facts);
	taut_vec_free(&b->devices);
	taut_vec_free(&b->op_ids);
	taut_vec_free(&b->ids);
	taut_vec_free(&b->waits);
	tauti_lanes_fini(&b->lanes);
}

void tauti_builder_drop_shapes(struct tauti_builder *b)
{
	if (!b->shapes)
		return;
	free_rows(b->shapes);
	taut_vec_free(&b->shapes->notes);
	free(b->shapes);
	b->shapes = NULL;
}

static void free_one(struct tauti_builder *b)
{
	tauti_builder_drop_shapes(b);
	free_rows(b);
	taut_vec_free(&b->notes);
	taut_arena_destroy(b->arena);
	taut_names_destroy(b->names);
	b->arena = NULL;
	b->names = NULL;
}

static void free_list(struct tauti_builder *next)
{
	while (next) {
		struct tauti_builder *after = next->next;
		free_one(next);
		free(next);
		next = after;
	}
}

void tauti_builder_fini(struct tauti_builder *b)
{
	free_one(b);
	free_list(b->next);
	b->next = NULL;
}

struct tauti_builder *tauti_builder_another(struct tauti_builder *b)
{
	struct tauti_builder *another = malloc(sizeof *another);
	if (!another)
		return NULL;
	if (tauti_builder_init(another, b->path) != TAUT_OK) {
		free(another);
		return NULL;
	}
	another->window_bytes = b->window_bytes;
	while (b->next)
		b = b->next;
	b->next = another;
	return another;
}

static bool add_block(struct tauti_builder *b)
{
	if (b->n_rows >= TAUT_NONE - TAUTI_ROW_BLOCK)
		return false; /* rows have 32-bit numbers */
	struct tauti_row *block = malloc(TAUTI_ROW_BLOCK * sizeof *block);
	if (!block)
		return false;
	if (taut_vec_push(&b->blocks, block))
		return true;
	free(block);
	return false;
}

struct tauti_row *tauti_builder_row(struct tauti_builder *b)
{
	size_t at = b->n_rows & (TAUTI_ROW_BLOCK - 1);
	if (at == 0 && !add_block(b))
		return NULL;
	struct tauti_row *row = &b->blocks.data[b->blocks.count - 1][at];
	*row = (struct tauti_row){ .args = TAUT_NONE };
	b->n_rows++;
	return row;
}

void tauti_builder_lose(
	struct tauti_builder *b, enum tauti_lost why, uint64_t offset)
{
	if (b->lost[why]++ == 0)
		b->lost_at[why] = offset;
}

taut_status tauti_builder_note(struct tauti_builder *b, const char *fmt, ...)
{
	char text[400];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	const char *note =
		taut_arena_printf(b->arena, "%s: %s", b->path, text);
	if (!note || !taut_vec_push(&b->notes, note))
		return TAUT_ENOMEM;
	return TAUT_OK;
}

taut_status tauti_builder_note_lost(struct tauti_builder *b, const char *what,
	const char *const reasons[TAUTI_LOST_COUNT])
{
	taut_status status = TAUT_OK;
	for (int i = 0; i < TAUTI_LOST_COUNT && status == TAUT_OK; i++)
		if (b->lost[i] && reasons[i])
			status = tauti_builder_note(b,
				"%llu %s%s left out (%s), the first at byte "
				"%llu", (unsigned long long)b->lost[i], what,
				b->lost[i] == 1 ? "" : "s", reasons[i],
				(unsigned long long)b->lost_at[i]);
	return status;
}

taut_status tauti_builder_fact(struct tauti_builder *b, const char *key,
	const char *value, size_t value_len)
{
	struct taut_fact fact = {
		taut_arena_strndup(b->arena, key, strlen(key)),
		taut_arena_strndup(b->arena, value, value_len),
	};
	if (!fact.key || !fact.value || !taut_vec_push(&b->facts, fact))
		return TAUT_ENOMEM;
	return TAUT_OK;
}

taut_status tauti_builder_device(
	struct tauti_builder *b, const struct taut_device *device)
{
	for (size_t i = 0; i < b->devices.count; i++)
		if (b->devices.data[i].id == device->id)
			return TAUT_OK;
	return taut_vec_push(&b->devices, *device) ? TAUT_OK : TAUT_ENOMEM;
}

/* --- finishing ----------------------------------------------------------- */

/* Read as a decimal, "5.7" gave 5700 ns and was meant as 5007. */
static int64_t unpad(int64_t ns, unsigned digits)
{
	static const int64_t unit[] = { 1, 100, 10, 1 };
	int64_t part = ns % 1000;
	return digits > 3 ? ns : ns - part + part / unit[digits];
}

/* Nothing is known yet of the source that is read next. */
static void begin_source(struct tauti_builder *b)
{
	b->first_row = b->n_rows;
	b->first_note = b->notes.count;
	b->first_memory = b->memory.count;
	for (struct tauti_builder *next = b->next; next; next = next->next)
		b->last = next;
	b->base_ns = 0;
	b->nano_unpadded = false;
	b->events_seen = b->bytes_read = 0;
	b->truncated = false;
	memset(b->lost, 0, sizeof b->lost);
}

void tauti_builder_next_source(struct tauti_builder *b)
{
	for (size_t i = b->first_row; i < b->n_rows; i++) {
		struct tauti_row *row = tauti_builder_row_at(b, (uint32_t)i);
		if (b->nano_unpadded) {
			row->start_ns = unpad(row->start_ns, row->digits & 15);
			row->dur_ns = unpad(row->dur_ns, row->digits >> 4);
		}
		row->start_ns += b->base_ns;
	}
	for (size_t i = b->first_memory; i < b->memory.count; i++)
		b->memory.data[i].at_ns += b->base_ns;
	b->before.events_seen += b->events_seen;
	b->before.bytes_read += b->bytes_read;
	b->before.truncated |= b->truncated;
	for (int i = 0; i < TAUTI_LOST_COUNT; i++)
		b->before.events_lost += b->lost[i];
	begin_source(b);
}

static void shorten(struct tauti_builder *b, size_t n_rows)
{
	size_t blocks = (n_rows + TAUTI_ROW_BLOCK - 1) >> TAUTI_ROW_BITS;
	while (b->blocks.count > blocks)
		free(b->blocks.data[--b->blocks.count]);
	b->n_rows = n_rows;
	while (b->op_ids.count &&
		b->op_ids.data[b->op_ids.count - 1].row >= n_rows)
		b->op_ids.count--;
}

void tauti_builder_keep_around(
	struct tauti_builder *b, size_t begin, size_t end)
{
	int64_t first = INT64_MAX, last = INT64_MIN;
	size_t kept = 0;
	for (size_t i = begin; i < end; i++) {
		struct tauti_row *row = tauti_builder_row_at(b, (uint32_t)i);
		if (row->start_ns < first)
			first = row->start_ns;
		if (row->start_ns + row->dur_ns > last)
			last = row->start_ns + row->dur_ns;
	}
	for (size_t i = 0; i < b->n_rows && begin < end; i++) {
		struct tauti_row *row = tauti_builder_row_at(b, (uint32_t)i);
		if ((i < begin || i >= end) && (row->start_ns > last ||
				row->start_ns + row->dur_ns < first))
			continue;
		*tauti_builder_row_at(b, (uint32_t)kept++) = *row;
	}
	b->op_ids.count = 0; /* their rows have moved */
	if (begin < end && kept < b->n_rows)
		b->ids.count = b->waits.count = 0;
	if (begin < end)
		shorten(b, kept);
	b->first_row = b->n_rows;
}

void tauti_builder_drop_source(struct tauti_builder *b)
{
	struct tauti_builder **behind = b->last ? &b->last->next : &b->next;
	shorten(b, b->first_row);
	b->notes.count = b->first_note;
	b->memory.count = b->first_memory;
	free_list(*behind);
	*behind = NULL;
	begin_source(b);
}

static int64_t first_time(struct tauti_builder *b)
{
	int64_t first = INT64_MAX;
	for (size_t i = 0; i < b->n_rows; i++) {
		int64_t at = tauti_builder_row_at(b, (uint32_t)i)->start_ns;
		if (at < first)
			first = at;
	}
	return b->n_rows ? first : 0;
}

struct columns {
	int64_t *start_ns, *dur_ns;
	uint32_t *name, *lane, *correlation, *sequence, *args, *lane_begin;
	uint8_t *kind, *flags;
	uint32_t *sizes;
	struct taut_lane *lanes;
	struct taut_sync_args *syncs;
	struct taut_comm_args *comms;
	struct taut_copy_args *copies;
	struct taut_chunk_args *chunks;
	struct taut_memory_event *memory;
	struct taut_tensor_args *tensors;
	struct taut_load_args *loads;
	struct taut_clock_sample *clock_samples;
	struct taut_fact *facts;
	struct taut_device *devices;
	struct taut_ref *ids, *waits;
};

static bool alloc_columns(struct tauti_builder *b, struct columns *c)
{
	size_t n = b->n_rows;
	struct taut_arena *arena = b->arena;
	c->start_ns = TAUT_ARENA_ARRAY(arena, int64_t, n);
	c->dur_ns = TAUT_ARENA_ARRAY(arena, int64_t, n);
	c->name = TAUT_ARENA_ARRAY(arena, uint32_t, n);
	c->lane = TAUT_ARENA_ARRAY(arena, uint32_t, n);
	c->correlation = TAUT_ARENA_ARRAY(arena, uint32_t, n);
	c->sequence = TAUT_ARENA_ARRAY(arena, uint32_t, n);
	c->args = TAUT_ARENA_ARRAY(arena, uint32_t, n);
	c->kind = TAUT_ARENA_ARRAY(arena, uint8_t, n);
	c->flags = TAUT_ARENA_ARRAY(arena, uint8_t, n);
	c->sizes = TAUT_ARENA_ARRAY(arena, uint32_t, n);
	c->syncs = TAUT_ARENA_ARRAY(
		arena, struct taut_sync_args, b->syncs.count);
	c->comms = TAUT_ARENA_ARRAY(
		arena, struct taut_comm_args, b->comms.count);
	c->copies = TAUT_ARENA_ARRAY(
		arena, struct taut_copy_args, b->copies.count);
	c->chunks = TAUT_ARENA_ARRAY(
		arena, struct taut_chunk_args, b->chunks.count);
	c->memory = TAUT_ARENA_ARRAY(
		arena, struct taut_memory_event, b->memory.count);
	c->tensors = TAUT_ARENA_ARRAY(
		arena, struct taut_tensor_args, b->tensors.count);
	c->loads = TAUT_ARENA_ARRAY(
		arena, struct taut_load_args, b->loads.count);
	c->clock_samples = TAUT_ARENA_ARRAY(
		arena, struct taut_clock_sample, b->clock_samples.count);
	c->facts = TAUT_ARENA_ARRAY(arena, struct taut_fact, b->facts.count);
	c->devices = TAUT_ARENA_ARRAY(
		arena, struct taut_device, b->devices.count);
	c->ids = TAUT_ARENA_ARRAY(arena, struct taut_ref, b->ids.count);
	c->waits = TAUT_ARENA_ARRAY(arena, struct taut_ref, b->waits.count);
	c->lane_begin =
		TAUT_ARENA_ARRAY(arena, uint32_t, b->lanes.all.count + 1);
	return c->start_ns && c->dur_ns && c->name && c->lane &&
	       c->correlation && c->sequence && c->args && c->kind &&
	       c->flags && c->sizes && c->syncs && c->comms && c->copies &&
	       c->chunks && c->tensors && c->loads && c->memory &&
	       c->clock_samples &&
	       c->facts && c->devices && c->ids && c->waits &&
	       c->lane_begin;
}

/* The side-table row of an event moves to where the events' order puts it.
 * Returns its new number. */
static uint32_t move_args(struct tauti_builder *b, struct columns *c,
	struct taut_trace *trace, const struct tauti_row *row, uint32_t event)
{
	if (row->flags & TAUT_EVENT_TENSOR) {
		c->tensors[trace->n_tensors] = b->tensors.data[row->args];
		c->tensors[trace->n_tensors].event = event;
		return (uint32_t)trace->n_tensors++;
	}
	if (row->flags & TAUT_EVENT_LOAD) {
		c->loads[trace->n_loads] = b->loads.data[row->args];
		c->loads[trace->n_loads].event = event;
		return (uint32_t)trace->n_loads++;
	}
	switch (row->kind) {
	case TAUT_KIND_SYNC:
		c->syncs[trace->n_syncs] = b->syncs.data[row->args];
		c->syncs[trace->n_syncs].event = event;
		return (uint32_t)trace->n_syncs++;
	case TAUT_KIND_MEMCPY:
	case TAUT_KIND_MEMSET:
		c->copies[trace->n_copies] = b->copies.data[row->args];
		c->copies[trace->n_copies].event = event;
		return (uint32_t)trace->n_copies++;
	case TAUT_KIND_CHUNK:
		c->chunks[trace->n_chunks] = b->chunks.data[row->args];
		c->chunks[trace->n_chunks].event = event;
		return (uint32_t)trace->n_chunks++;
	default:
		c->comms[trace->n_comms] = b->comms.data[row->args];
		c->comms[trace->n_comms].event = event;
		return (uint32_t)trace->n_comms++;
	}
}

static void write_columns(struct tauti_builder *b, struct columns *c,
	const uint32_t *order, const uint32_t *new_lane, int64_t first_ns,
	struct taut_trace *trace)
{
	for (uint32_t i = 0; i < b->n_rows; i++) {
		const struct tauti_row *row =
			tauti_builder_row_at(b, order[i]);
		c->start_ns[i] = row->start_ns - first_ns;
		c->dur_ns[i] = row->dur_ns;
		c->name[i] = row->name;
		c->lane[i] = new_lane[row->lane];
		c->correlation[i] = row->correlation;
		c->sequence[i] = row->sequence;
		c->kind[i] = row->kind;
		c->flags[i] = row->flags;
		c->sizes[i] = row->sizes;
		c->args[i] = row->args == TAUT_NONE ?
			TAUT_NONE : move_args(b, c, trace, row, i);
		c->lane_begin[c->lane[i] + 1]++;
	}
	for (size_t i = 0; i < b->lanes.all.count; i++)
		c->lane_begin[i + 1] += c->lane_begin[i];
}

static int by_time(const void *a, const void *b)
{
	const struct taut_clock_sample *x = a, *y = b;
	return x->at_ns < y->at_ns ? -1 : x->at_ns > y->at_ns;
}

/* By time; of one instant in the order of the input, which is that of their
 * places in from. */
static int by_instant(const void *a, const void *b)
{
	const struct taut_memory_event *const *x = a, *const *y = b;
	if ((*x)->at_ns != (*y)->at_ns)
		return (*x)->at_ns < (*y)->at_ns ? -1 : 1;
	return *x < *y ? -1 : *x > *y;
}

static bool copy_memory(const struct tauti_builder *b, struct columns *c,
	const uint32_t *new_lane, int64_t first_ns, struct taut_trace *trace)
{
	size_t n = b->memory.count;
	const struct taut_memory_event **from = malloc((n + 1) * sizeof *from);
	if (!from)
		return false;
	for (size_t i = 0; i < n; i++)
		from[i] = &b->memory.data[i];
	qsort(from, n, sizeof *from, by_instant);
	for (size_t i = 0; i < n; i++) {
		c->memory[i] = *from[i];
		c->memory[i].at_ns -= first_ns;
		c->memory[i].lane = new_lane[from[i]->lane];
	}
	free(from);
	trace->n_memory = n;
	trace->memory = c->memory;
	return true;
}

static int by_event(const void *a, const void *b)
{
	const struct taut_ref *x = a, *y = b;
	if (x->event != y->event)
		return x->event < y->event ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* Rows become events. */
static void move_refs(const struct taut_ref *from, size_t n,
	const uint32_t *event_of, struct taut_ref *to)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (struct taut_ref){ event_of[from[i].event],
			from[i].id };
	if (n)
		qsort(to, n, sizeof *to, by_event);
}

/* The ids of events, and what they wait for. */
static taut_status write_refs(const struct tauti_builder *b,
	const struct columns *c, const uint32_t *order,
	struct taut_trace *trace)
{
	uint32_t *event_of;
	trace->is_table = b->is_table;
	if (!b->ids.count && !b->waits.count)
		return TAUT_OK;
	event_of = malloc((b->n_rows + 1) * sizeof *event_of);
	if (!event_of)
		return TAUT_ENOMEM;
	for (uint32_t i = 0; i < b->n_rows; i++)
		event_of[order[i]] = i;
	move_refs(b->ids.data, b->ids.count, event_of, c->ids);
	move_refs(b->waits.data, b->waits.count, event_of, c->waits);
	free(event_of);
	trace->n_ids = b->ids.count;
	trace->ids = c->ids;
	trace->n_waits = b->waits.count;
	trace->waits = c->waits;
	return TAUT_OK;
}

/* What stands beside the events. */
static void copy_sidelines(const struct tauti_builder *b, struct columns *c,
	struct taut_trace *trace)
{
	trace->n_clock_samples = b->clock_samples.count;
	for (size_t i = 0; i < b->clock_samples.count; i++)
		c->clock_samples[i] = b->clock_samples.data[i];
	qsort(c->clock_samples, trace->n_clock_samples,
		sizeof *c->clock_samples, by_time);
	trace->clock_samples = c->clock_samples;
	trace->n_facts = b->facts.count;
	for (size_t i = 0; i < b->facts.count; i++)
		c->facts[i] = b->facts.data[i];
	trace->facts = c->facts;
	trace->n_devices = b->devices.count;
	for (size_t i = 0; i < b->devices.count; i++)
		c->devices[i] = b->devices.data[i];
	trace->devices = c->devices;
}

static void publish(const struct tauti_builder *b, const struct columns *c,
	int64_t first_ns, struct taut_trace *trace)
{
	trace->path = b->path;
	trace->host = b->host;
	trace->clock = b->clock;
	trace->rank = b->rank;
	trace->world_size = b->world_size;
	trace->process_groups = b->process_groups;
	trace->base_ns = first_ns;
	trace->sizes_lent = b->sizes_lent;
	trace->n_events = b->n_rows;
	trace->start_ns = c->start_ns;
	trace->dur_ns = c->dur_ns;
	trace->name = c->name;
	trace->lane = c->lane;
	trace->correlation = c->correlation;
	trace->sequence = c->sequence;
	trace->args = c->args;
	trace->kind = c->kind;
	trace->flags = c->flags;
	trace->sizes = c->sizes;
	trace->n_lanes = (uint32_t)b->lanes.all.count;
	trace->lanes = c->lanes;
	trace->lane_begin = c->lane_begin;
	trace->syncs = c->syncs;
	trace->comms = c->comms;
	trace->copies = c->copies;
	trace->chunks = c->chunks;
	trace->tensors = c->tensors;
	trace->loads = c->loads;
	trace->names = b->names;
	trace->bytes_read = b->before.bytes_read;
	trace->events_seen = b->before.events_seen;
	trace->events_lost = b->before.events_lost;
	trace->truncated = b->before.truncated;
}

taut_status tauti_builder_finish(struct tauti_builder *b,
	struct taut_trace *ret_trace, struct taut_error *err)
{
	struct columns c = { 0 };
	struct taut_trace trace = { 0 };
	uint32_t *order = NULL;
	uint32_t *new_lane =
		malloc((b->lanes.all.count + 1) * sizeof *new_lane);
	taut_status status = TAUT_ENOMEM;

	c.lanes = TAUT_ARENA_ARRAY(
		b->arena, struct taut_lane, b->lanes.all.count);
	if (!new_lane || !c.lanes)
		goto out;
	tauti_builder_next_source(b);
	int64_t first_ns = first_time(b);
	status = tauti_lanes_finish(&b->lanes, c.lanes, new_lane);
	if (status == TAUT_OK)
		status = tauti_builder_order(b, new_lane, &order);
	if (status == TAUT_OK && !alloc_columns(b, &c))
		status = TAUT_ENOMEM;
	if (status == TAUT_OK)
		status = write_refs(b, &c, order, &trace);
	if (status != TAUT_OK)
		goto out;
	write_columns(b, &c, order, new_lane, first_ns, &trace);
	publish(b, &c, first_ns, &trace);
	copy_sidelines(b, &c, &trace);
	if (!copy_memory(b, &c, new_lane, first_ns, &trace)) {
		status = TAUT_ENOMEM;
		goto out;
	}
	*ret_trace = trace;
	free_rows(b);
out:
	free(order);
	free(new_lane);
	if (status != TAUT_OK)
		return taut_error_set(err, status, -1,
			"%s: no memory for %zu events", b->path, b->n_rows);
	return TAUT_OK;
}

/* edit_rows.c - events for operations that the recording does not have, put
 * between those that it has. */
#include "graph/edit_rows.h"

#include <stdlib.h>
#include <string.h>

/* --- which ----------------------------------------------------------------------------- */

static bool is_pair(const struct taut_graph *g, uint32_t op)
{
	return g->kind[op] == TAUT_OP_ARRIVE &&
		op + 1 < g->lane_begin[g->lane[op] + 1] &&
		g->kind[op + 1] == TAUT_OP_TRANSFER;
}

static uint8_t kind_of(const struct taut_graph *g, uint32_t op)
{
	bool device = g->lanes[g->lane[op]].kind == TAUT_LANE_STREAM;

	switch (g->kind[op]) {
	case TAUT_OP_KERNEL:
		return TAUT_KIND_KERNEL;
	case TAUT_OP_COPY:
		return TAUT_KIND_MEMCPY;
	case TAUT_OP_LAUNCH:
	case TAUT_OP_RETURN:
		return TAUT_KIND_RUNTIME;
	case TAUT_OP_ARRIVE:
	case TAUT_OP_TRANSFER:
		return device ? TAUT_KIND_KERNEL : TAUT_KIND_COMM;
	default:
		return device ? TAUT_KIND_KERNEL : TAUT_KIND_OP;
	}
}

static bool add_row(const struct taut_graph *g, uint32_t trace,
	const struct taut_trace *t, struct tauti_rows *rows, uint32_t op)
{
	uint32_t last = op + is_pair(g, op);
	int64_t end = g->start_ns[last] + g->dur_ns[last];
	int64_t guess = g->start_ns[op] + g->origin_ns - t->base_ns;
	struct tauti_new_row row = {
		.start = tauti_own_time(g, trace, guess, g->start_ns[op]),
		.lane = g->lanes[g->lane[op]].trace_lane, .op = op,
		.kind = kind_of(g, op) };

	if (end <= g->start_ns[op])
		return true; /* nothing to be seen */
	row.dur = tauti_own_time(g, trace, row.start + (end - g->start_ns[op]),
		end) - row.start;
	if (!rows->names) {
		rows->names = taut_names_create();
		for (uint32_t i = 0; rows->names &&
			i < taut_names_count(t->names); i++)
			if (taut_names_add(rows->names,
				taut_names_text(t->names, i),
				taut_names_length(t->names, i)) == TAUT_NONE)
				return false;
	}
	row.name = rows->names ? taut_names_add(rows->names,
		taut_names_text(g->names, g->name[op]),
		taut_names_length(g->names, g->name[op])) : TAUT_NONE;
	return row.name != TAUT_NONE && taut_vec_push(&rows->fresh, row);
}

static bool find(const struct tauti_owned_graph *owned, uint32_t trace,
	const struct taut_trace *t, struct tauti_rows *rows)
{
	const struct taut_graph *g = &owned->graph;

	for (uint32_t l = 0; l < g->n_lanes; l++) {
		if (g->lanes[l].trace != trace ||
			g->lanes[l].trace_lane >= t->n_lanes)
			continue;
		for (uint32_t i = g->lane_begin[l]; i < g->lane_begin[l + 1];
			i++) {
			if (owned->like[i] != TAUT_NONE ||
				g->kind[i] == TAUT_OP_MARK)
				continue;
			if (!add_row(g, trace, t, rows, i))
				return false;
			i += is_pair(g, i);
		}
	}
	return true;
}

/* --- between the others ------------------------------------------------------------------ */

static int compare_rows(const void *a, const void *b)
{
	const struct tauti_new_row *x = a, *y = b;

	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->dur != y->dur)
		return x->dur > y->dur ? -1 : 1;
	return x->op < y->op ? -1 : x->op > y->op;
}

/* Rows are by (start, longer first). */
static bool is_before(const struct tauti_new_row *row,
	const struct taut_trace *t, uint32_t old)
{
	return row->start < t->start_ns[old] ||
		(row->start == t->start_ns[old] && row->dur > t->dur_ns[old]);
}

static void number(const struct taut_trace *t, struct tauti_rows *rows,
	uint32_t *lane_begin)
{
	struct tauti_new_row *fresh = rows->fresh.data;
	uint32_t at = 0, next = 0;

	for (uint32_t l = 0; l < t->n_lanes; l++) {
		lane_begin[l] = at;
		for (uint32_t i = t->lane_begin[l]; i < t->lane_begin[l + 1];
			i++) {
			for (; next < rows->fresh.count &&
				fresh[next].lane == l &&
				is_before(&fresh[next], t, i); next++)
				fresh[next].row = at++;
			rows->row_of[i] = at++;
		}
		for (; next < rows->fresh.count && fresh[next].lane == l;
			next++)
			fresh[next].row = at++;
	}
	lane_begin[t->n_lanes] = at;
}

struct columns {
	int64_t *start, *dur;
	uint32_t *name, *lane, *correlation, *sequence, *args, *lane_begin;
	uint8_t *kind, *flags;
};

static bool allocate(struct columns *c, struct taut_arena *arena, size_t n,
	uint32_t n_lanes)
{
	c->start = TAUT_ARENA_ARRAY(arena, int64_t, n);
	c->dur = TAUT_ARENA_ARRAY(arena, int64_t, n);
	c->name = TAUT_ARENA_ARRAY(arena, uint32_t, n);
	c->lane = TAUT_ARENA_ARRAY(arena, uint32_t, n);
	c->correlation = TAUT_ARENA_ARRAY(arena, uint32_t, n);
	c->sequence = TAUT_ARENA_ARRAY(arena, uint32_t, n);
	c->args = TAUT_ARENA_ARRAY(arena, uint32_t, n);
	c->lane_begin = TAUT_ARENA_ARRAY(arena, uint32_t, n_lanes + 1);
	c->kind = TAUT_ARENA_ARRAY(arena, uint8_t, n);
	c->flags = TAUT_ARENA_ARRAY(arena, uint8_t, n);
	return c->start && c->dur && c->name && c->lane && c->correlation &&
		c->sequence && c->args && c->lane_begin && c->kind && c->flags;
}

static void fill(const struct columns *c, const struct taut_trace *t,
	const struct tauti_rows *rows)
{
	for (uint32_t i = 0; i < t->n_events; i++) {
		uint32_t at = rows->row_of[i];

		c->start[at] = t->start_ns[i];
		c->dur[at] = t->dur_ns[i];
		c->name[at] = t->name[i];
		c->lane[at] = t->lane[i];
		c->correlation[at] = t->correlation[i];
		c->sequence[at] = t->sequence[i];
		c->args[at] = t->args[i];
		c->kind[at] = t->kind[i];
		c->flags[at] = t->flags[i];
	}
	for (uint32_t i = 0; i < rows->fresh.count; i++) {
		const struct tauti_new_row *row = &rows->fresh.data[i];

		c->start[row->row] = row->start;
		c->dur[row->row] = row->dur;
		c->name[row->row] = row->name;
		c->lane[row->row] = row->lane;
		c->args[row->row] = TAUT_NONE;
		c->kind[row->row] = row->kind;
	}
}

/* What describes rows, for the numbers that they have now. */
#define COPY_ARGS(type, field, n) \
	static bool copy_##field(struct taut_arena *arena, \
		struct taut_trace *t, const uint32_t *row_of) \
	{ \
		type *to = TAUT_ARENA_ARRAY(arena, type, t->n + 1); \
\
		if (!to) \
			return false; \
		for (size_t i = 0; i < t->n; i++) { \
			to[i] = t->field[i]; \
			to[i].event = row_of[to[i].event]; \
		} \
		t->field = to; \
		return true; \
	}
COPY_ARGS(struct taut_sync_args, syncs, n_syncs)
COPY_ARGS(struct taut_comm_args, comms, n_comms)
COPY_ARGS(struct taut_copy_args, copies, n_copies)
COPY_ARGS(struct taut_chunk_args, chunks, n_chunks)
COPY_ARGS(struct taut_load_args, loads, n_loads)

bool tauti_rows_add(const struct tauti_owned_graph *owned,
	struct taut_arena *arena, uint32_t trace, struct taut_trace *t,
	struct tauti_rows *rows)
{
	struct columns c;
	size_t n;

	if (!find(owned, trace, t, rows))
		return false;
	if (!rows->fresh.count)
		return true;
	n = t->n_events + rows->fresh.count;
	rows->row_of = malloc((t->n_events + 1) * sizeof *rows->row_of);
	if (!rows->row_of || !allocate(&c, arena, n, t->n_lanes))
		return false;
	qsort(rows->fresh.data, rows->fresh.count, sizeof *rows->fresh.data,
		compare_rows);
	number(t, rows, c.lane_begin);
	fill(&c, t, rows);
	if (!copy_syncs(arena, t, rows->row_of) ||
		!copy_comms(arena, t, rows->row_of) ||
		!copy_copies(arena, t, rows->row_of) ||
		!copy_chunks(arena, t, rows->row_of) ||
		!copy_loads(arena, t, rows->row_of))
		return false;
	t->n_events = n;
	t->start_ns = c.start;
	t->dur_ns = c.dur;
	t->name = c.name;
	t->lane = c.lane;
	t->correlation = c.correlation;
	t->sequence = c.sequence;
	t->args = c.args;
	t->kind = c.kind;
	t->flags = c.flags;
	t->lane_begin = c.lane_begin;
	t->names = rows->names;
	return true;
}

void tauti_rows_apply(struct taut_graph *graph, uint32_t trace,
	const struct tauti_rows *rows)
{
	uint32_t *event = (uint32_t *)graph->event;

	if (!rows->row_of)
		return;
	for (uint32_t l = 0; l < graph->n_lanes; l++)
		for (uint32_t i = graph->lane_begin[l];
			i < graph->lane_begin[l + 1] &&
			graph->lanes[l].trace == trace; i++)
			if (event[i] != TAUT_NONE)
				event[i] = rows->row_of[event[i]];
	for (uint32_t i = 0; i < rows->fresh.count; i++) {
		uint32_t op = rows->fresh.data[i].op;

		event[op] = rows->fresh.data[i].row;
		if (is_pair(graph, op))
			event[op + 1] = event[op];
	}
}

void tauti_rows_fini(struct tauti_rows *rows)
{
	taut_vec_free(&rows->fresh);
	free(rows->row_of);
	rows->row_of = NULL;
}

/* layout.c - the columns of the graph, from the ranks' operations. */
#include <stdlib.h>
#include <string.h>

#include "graph/builder.h"

static bool allocate(struct builder *b)
{
	struct taut_graph *g = b->g;
	size_t n = g->n_ops + 1;

	b->start = TAUT_ARENA_ARRAY(b->arena, int64_t, n);
	b->dur = TAUT_ARENA_ARRAY(b->arena, int64_t, n);
	b->gap = TAUT_ARENA_ARRAY(b->arena, int64_t, n);
	b->lane = TAUT_ARENA_ARRAY(b->arena, uint32_t, n);
	b->name = TAUT_ARENA_ARRAY(b->arena, uint32_t, n);
	b->event = TAUT_ARENA_ARRAY(b->arena, uint32_t, n);
	b->collective = TAUT_ARENA_ARRAY(b->arena, uint32_t, n);
	b->kind = TAUT_ARENA_ARRAY(b->arena, uint8_t, n);
	b->edge_begin = TAUT_ARENA_ARRAY(b->arena, uint32_t, n + 1);
	b->lanes = TAUT_ARENA_ARRAY(b->arena, struct taut_graph_lane,
		g->n_lanes + 1);
	b->lane_begin = TAUT_ARENA_ARRAY(b->arena, uint32_t, g->n_lanes + 2);
	b->steps = TAUT_ARENA_ARRAY(b->arena, struct taut_step, g->n_steps + 1);
	b->member_arrive = TAUT_ARENA_ARRAY(b->arena, uint32_t,
		b->match.member_comm.count + 1);
	return b->start && b->dur && b->gap && b->lane && b->name && b->event &&
		b->collective && b->kind && b->edge_begin && b->lanes &&
		b->lane_begin && b->steps && b->member_arrive;
}

/* Counts ops, lanes and steps; gives each rank its range of op ids. */
static void count(struct builder *b)
{
	struct taut_graph *g = b->g;
	size_t joins = b->match.collectives.count;

	for (uint32_t i = 0; i < b->n_ranks; i++) {
		const struct tauti_rank *r = &b->ranks[i];

		b->op_base[i] = g->n_ops;
		g->n_ops += (uint32_t)r->ops.count;
		g->n_steps += (uint32_t)r->marks.count;
		for (uint32_t l = 0; l < r->trace->n_lanes; l++)
			g->n_lanes += r->lane_begin[l] < r->lane_begin[l + 1];
		g->n_launches_cut += r->n_launches_cut;
	}
	g->n_ops += (uint32_t)joins;
	g->n_lanes += joins > 0;
	g->n_collectives = (uint32_t)joins;
}

uint32_t tauti_graph_name(struct builder *b, uint32_t rank, uint32_t name)
{
	const struct taut_names *from = b->run->traces[rank].names;
	uint32_t *to = &b->names[rank][name];

	if (*to == TAUT_NONE)
		*to = taut_names_add(b->all_names, taut_names_text(from, name),
			taut_names_length(from, name));
	return *to;
}

static bool map_names(struct builder *b)
{
	for (uint32_t i = 0; i < b->n_ranks; i++) {
		uint32_t n = taut_names_count(b->run->traces[i].names);

		b->names[i] = malloc((n + 1) * sizeof **b->names);
		if (!b->names[i])
			return false;
		memset(b->names[i], 0xff, (n + 1) * sizeof **b->names);
	}
	return true;
}

/* Names that operations use, in the order of the ranks. */
static bool take_names(struct builder *b, uint32_t rank)
{
	const struct tauti_rank *r = &b->ranks[rank];

	for (size_t i = 0; i < r->ops.count; i++)
		if (r->ops.data[i].event != TAUT_NONE && tauti_graph_name(b,
			rank, r->trace->name[r->ops.data[i].event]) == TAUT_NONE)
			return false;
	return true;
}

/* Time that only the step accounts for is no event's: it has no name. */
static uint32_t name_of(const struct builder *b, uint32_t rank,
	const struct tauti_op *op)
{
	const struct taut_trace *t = b->ranks[rank].trace;

	if (op->event == TAUT_NONE || (op->kind != TAUT_OP_MARK &&
		t->kind[op->event] == TAUT_KIND_STEP))
		return 0;
	return b->names[rank][t->name[op->event]];
}

static void fill_op(struct builder *b, uint32_t rank, uint32_t id,
	const struct tauti_op *op)
{
	const struct tauti_rank *r = &b->ranks[rank];

	b->start[id] = tauti_common_time(b, rank, op->start);
	b->dur[id] = tauti_common_time(b, rank, op->end) - b->start[id];
	b->kind[id] = op->kind;
	b->event[id] = op->event;
	b->collective[id] = op->comm == TAUT_NONE ? TAUT_NONE :
		r->comms.data[op->comm].match;
	b->name[id] = name_of(b, rank, op);
}

/* The columns of one rank, whose own operations are then of no more use. */
static taut_status fill_rank(void *context, size_t rank, struct taut_error *err)
{
	struct builder *b = context;
	struct tauti_rank *r = &b->ranks[rank];
	uint32_t base = b->op_base[rank], lane = b->lane_base[rank];

	(void)err;
	for (uint32_t l = 0; l < r->trace->n_lanes; l++) {
		if (r->lane_begin[l] == r->lane_begin[l + 1])
			continue;
		for (uint32_t i = r->lane_begin[l]; i < r->lane_begin[l + 1]; i++) {
			b->lane[base + i] = lane;
			fill_op(b, (uint32_t)rank, base + i, &r->ops.data[i]);
		}
		lane++;
	}
	taut_vec_free(&r->ops);
	return TAUT_OK;
}

static void fill_lanes(struct builder *b, uint32_t rank, uint32_t *lane,
	uint32_t *step)
{
	const struct tauti_rank *r = &b->ranks[rank];
	uint32_t base = b->op_base[rank];

	b->lane_base[rank] = *lane;
	for (uint32_t l = 0; l < r->trace->n_lanes; l++) {
		if (r->lane_begin[l] == r->lane_begin[l + 1])
			continue;
		b->lanes[*lane] = (struct taut_graph_lane) { rank, l,
			r->trace->lanes[l].kind, l == r->main_lane,
			r->comm_lane[l] };
		b->lane_begin[(*lane)++] = base + r->lane_begin[l];
	}
	for (size_t i = 0; i < r->marks.count; i++) {
		const struct tauti_mark *m = &r->marks.data[i];

		b->steps[(*step)++] = (struct taut_step) { rank, m->id,
			tauti_common_time(b, rank, m->start),
			tauti_common_time(b, rank, m->end),
			base + m->begin_op, base + m->end_op };
	}
}

bool tauti_lay_ops(struct builder *b)
{
	uint32_t lane = 0, step = 0;

	count(b);
	if (!allocate(b) || !map_names(b))
		return false;
	for (uint32_t i = 0; i < b->n_ranks; i++) {
		if (!take_names(b, i))
			return false;
		fill_lanes(b, i, &lane, &step);
	}
	return !taut_parallel_for(b->n_ranks, b->options.threads, fill_rank, b,
		NULL);
}

struct by_join {
	int64_t at;
	uint32_t index;
};

static int compare_join(const void *a, const void *b)
{
	const struct by_join *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* Collectives in the order in which their last rank arrived. */
bool tauti_lay_collectives(struct builder *b)
{
	size_t n = b->g->n_collectives;
	struct by_join *order = malloc((n + 1) * sizeof *order);
	uint32_t *place = malloc((n + 1) * sizeof *place);
	struct taut_collective *sorted = TAUT_ARENA_ARRAY(b->arena,
		struct taut_collective, n + 1);
	bool ok = order && place && sorted;

	for (uint32_t i = 0; ok && i < n; i++)
		order[i] = (struct by_join) {
			b->start[b->match.collectives.data[i].join_op], i };
	if (ok)
		qsort(order, n, sizeof *order, compare_join);
	for (uint32_t i = 0; ok && i < n; i++) {
		sorted[i] = b->match.collectives.data[order[i].index];
		place[order[i].index] = i;
	}
	for (uint32_t i = 0; ok && i < b->g->n_ops; i++)
		if (b->collective[i] != TAUT_NONE)
			b->collective[i] = place[b->collective[i]];
	b->g->collectives = sorted;
	free(order);
	free(place);
	return ok;
}

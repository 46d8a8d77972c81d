/* build.c - joins the ranks and lays out the graph's arrays. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

enum {
	ROUNDING_NS = 2000,      /* of two stamps, each to 1 us */
	WORKER_LAG_NS = 200000,  /* a worker thread wakes up within */
};

struct builder {
	const struct taut_run *run;
	struct taut_graph_options options;
	uint32_t n_ranks;
	struct tauti_rank *ranks;
	struct tauti_match match;
	struct taut_clock_row *clocks;
	int64_t raw_origin, origin; /* absolute ns, before and after alignment */
	uint32_t *op_base;  /* by rank: first op id */
	uint32_t **names;   /* by rank: trace name -> graph name */
	TAUT_VEC(struct tauti_edge) edges;

	struct taut_graph *g; /* the arrays below are g's, writable */
	struct taut_arena *arena;
	struct taut_names *all_names;
	int64_t *start, *dur, *gap, *lag;
	uint32_t *lane, *name, *event, *collective, *edge_begin, *edge_to;
	uint8_t *kind, *edge_kind;
	struct taut_graph_lane *lanes;
	uint32_t *lane_begin;
	struct taut_step *steps;
	uint32_t *member_arrive;
};

struct owned_graph { /* what taut_graph_destroy frees */
	struct taut_graph graph;
	struct taut_arena *arena;
	struct taut_names *names;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for the graph");
}

/* --- each rank alone ----------------------------------------------------------*/

static taut_status build_rank(void *context, size_t i, struct taut_error *err)
{
	static taut_status (*const stages[])(struct tauti_rank *,
		struct taut_error *) = {
		tauti_steps_find, tauti_comm_find, tauti_device_link,
		tauti_comm_describe, tauti_host_waits, tauti_slices_cut,
		tauti_handoffs,
	};
	struct builder *b = context;
	struct tauti_rank *rank = &b->ranks[i];
	taut_status status = tauti_rank_init(rank, &b->run->traces[i],
		(uint32_t)i, &b->options, err);

	for (size_t s = 0; !status && s < sizeof stages / sizeof stages[0]; s++)
		status = stages[s](rank, err);
	return status;
}

/* --- one clock ------------------------------------------------------------------*/

static int64_t first_event(const struct taut_trace *t)
{
	int64_t first = INT64_MAX;

	for (uint32_t l = 0; l < t->n_lanes; l++)
		if (t->lanes[l].kind != TAUT_LANE_OTHER &&
			t->lane_begin[l] < t->lane_begin[l + 1] &&
			t->start_ns[t->lane_begin[l]] < first)
			first = t->start_ns[t->lane_begin[l]];
	return first == INT64_MAX ? t->base_ns : t->base_ns + first;
}

static taut_status align(struct builder *b, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	b->raw_origin = INT64_MAX;
	for (uint32_t i = 0; i < b->n_ranks; i++) {
		int64_t first = first_event(&b->run->traces[i]);

		b->clocks[i] = (struct taut_clock_row) { .trace = i };
		if (first < b->raw_origin)
			b->raw_origin = first;
	}
	if (!b->options.no_clock_alignment)
		status = tauti_clock_align(b->ranks, b->n_ranks, &b->match,
			b->raw_origin, b->clocks, err);
	b->origin = INT64_MAX;
	for (uint32_t i = 0; i < b->n_ranks; i++) {
		int64_t first = tauti_clock_apply(&b->clocks[i],
			first_event(&b->run->traces[i]), b->raw_origin);

		if (first < b->origin)
			b->origin = first;
	}
	return status;
}

/* A rank's own time on the graph's clock. */
static int64_t common(const struct builder *b, uint32_t rank, int64_t t)
{
	return tauti_clock_apply(&b->clocks[rank],
		t + b->run->traces[rank].base_ns, b->raw_origin) - b->origin;
}

/* --- arrays ------------------------------------------------------------------------*/

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

static uint32_t graph_name(struct builder *b, uint32_t rank, uint32_t name)
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

static bool fill_op(struct builder *b, uint32_t rank, uint32_t id,
	const struct tauti_op *op)
{
	const struct tauti_rank *r = &b->ranks[rank];

	b->start[id] = common(b, rank, op->start);
	b->dur[id] = common(b, rank, op->end) - b->start[id];
	b->kind[id] = op->kind;
	b->event[id] = op->event;
	b->collective[id] = op->comm == TAUT_NONE ? TAUT_NONE :
		r->comms.data[op->comm].match;
	if (op->event != TAUT_NONE)
		b->name[id] = graph_name(b, rank, r->trace->name[op->event]);
	return b->name[id] != TAUT_NONE;
}

static bool fill_rank(struct builder *b, uint32_t rank, uint32_t *lane,
	uint32_t *step)
{
	const struct tauti_rank *r = &b->ranks[rank];
	uint32_t base = b->op_base[rank];

	for (uint32_t l = 0; l < r->trace->n_lanes; l++) {
		if (r->lane_begin[l] == r->lane_begin[l + 1])
			continue;
		b->lanes[*lane] = (struct taut_graph_lane) { rank, l,
			r->trace->lanes[l].kind, l == r->main_lane,
			r->comm_lane[l] };
		b->lane_begin[*lane] = base + r->lane_begin[l];
		for (uint32_t i = r->lane_begin[l]; i < r->lane_begin[l + 1]; i++) {
			b->lane[base + i] = *lane;
			if (!fill_op(b, rank, base + i, &r->ops.data[i]))
				return false;
		}
		++*lane;
	}
	for (size_t i = 0; i < r->marks.count; i++) {
		const struct tauti_mark *m = &r->marks.data[i];

		b->steps[(*step)++] = (struct taut_step) { rank, m->id,
			common(b, rank, m->start), common(b, rank, m->end),
			base + m->begin_op, base + m->end_op };
	}
	return true;
}

/* --- edges ---------------------------------------------------------------------------*/

static bool add_edge(struct builder *b, uint32_t from, uint32_t to, int64_t lag,
	uint8_t kind)
{
	struct tauti_edge e = { from, to, lag, kind };

	b->g->edges_of[kind & ~TAUT_EDGE_FROM_START]++;
	return taut_vec_push(&b->edges, e);
}

/* Work -> every device row it launched: from the call's start with the usual
 * lag, or from the end of the part that is known to come before. */
static bool launch_edges(struct builder *b, uint32_t rank)
{
	const struct tauti_rank *r = &b->ranks[rank];
	const struct taut_trace *t = r->trace;
	uint32_t base = b->op_base[rank];

	for (uint32_t i = 0; i < t->n_events; i++) {
		const struct tauti_call *call;
		int64_t lag;
		uint8_t kind = TAUT_EDGE_LAUNCH | TAUT_EDGE_FROM_START;

		if (r->op_of[i] == TAUT_NONE || r->launch_of[i] == TAUT_NONE ||
			r->call_of[r->launch_of[i]] == TAUT_NONE)
			continue;
		call = &r->calls.data[r->call_of[r->launch_of[i]]];
		if (call->launch_op == TAUT_NONE)
			continue;
		lag = tauti_is_device(t->kind[i]) ? r->launch_lag :
			WORKER_LAG_NS;
		if (call->submit != INT64_MIN)
			kind = TAUT_EDGE_LAUNCH;
		if (!add_edge(b, base + call->launch_op, base + r->op_of[i],
			lag, kind))
			return false;
	}
	return true;
}

static bool other_edges(struct builder *b, uint32_t rank)
{
	const struct tauti_rank *r = &b->ranks[rank];
	uint32_t base = b->op_base[rank];

	for (size_t i = 0; i < r->calls.count; i++) {
		const struct tauti_call *c = &r->calls.data[i];

		if (c->return_op != TAUT_NONE && !add_edge(b,
			base + tauti_op_out(r, c->waited), base + c->return_op,
			0, TAUT_EDGE_SYNC))
			return false;
	}
	for (size_t i = 0; i < r->stream_waits.count; i++) {
		const struct tauti_stream_wait *w = &r->stream_waits.data[i];

		if (!add_edge(b, base + tauti_op_out(r, w->before),
			base + r->op_of[w->row], 0, TAUT_EDGE_STREAM))
			return false;
	}
	for (size_t i = 0; i < r->edges.count; i++) {
		const struct tauti_edge *e = &r->edges.data[i];

		if (!add_edge(b, base + e->from, base + e->to, e->lag, e->kind))
			return false;
	}
	return true;
}

/* A recording without steps ends when its last lane does. */
static bool end_edges(struct builder *b, uint32_t rank)
{
	const struct tauti_rank *r = &b->ranks[rank];
	uint32_t base = b->op_base[rank];

	if (r->marks.count != 1 || r->marks.data[0].row != TAUT_NONE)
		return true;
	for (uint32_t l = 0; l < r->trace->n_lanes; l++)
		if (l != r->main_lane && r->lane_begin[l] < r->lane_begin[l + 1]
			&& !add_edge(b, base + r->lane_begin[l + 1] - 1,
			base + r->marks.data[0].end_op, 0, TAUT_EDGE_THREAD))
			return false;
	return true;
}

static void note_backward(struct builder *b, int64_t by)
{
	b->g->n_backward++;
	if (by > b->g->worst_backward_ns)
		b->g->worst_backward_ns = by;
}

/* Arrivals -> join -> transfers. A member that was done before the last one
 * came (the root of a broadcast, say) does not wait for the join. */
static bool join_members(struct builder *b, uint32_t index, uint32_t join)
{
	struct taut_collective *c = &b->match.collectives.data[index];
	int64_t at = INT64_MIN;

	for (uint32_t i = 0; i < c->n_members; i++) {
		uint32_t id = b->member_arrive[c->first_member + i];

		if (b->start[id] > at)
			at = b->start[id];
	}
	b->start[join] = at;
	b->name[join] = b->name[b->member_arrive[c->first_member]];
	for (uint32_t i = 0; i < c->n_members; i++) {
		uint32_t id = b->member_arrive[c->first_member + i];
		uint32_t rank = b->match.member_rank.data[c->first_member + i];
		int64_t end = b->start[id + 1] + b->dur[id + 1];
		int64_t unsure = ROUNDING_NS + (int64_t)(1e3 *
			b->clocks[rank].uncertainty_us);

		if (!add_edge(b, id, join, 0, TAUT_EDGE_COMM))
			return false;
		if (end < at) {
			if (taut_coll_levels(c->kind) && at - end > unsure)
				note_backward(b, at - end);
			continue;
		}
		b->start[id + 1] = at;
		b->dur[id + 1] = end - at;
		if (!add_edge(b, join, id + 1, 0, TAUT_EDGE_COMM))
			return false;
	}
	return true;
}

static bool join_ranks(struct builder *b)
{
	struct tauti_match *m = &b->match;
	uint32_t id = b->g->n_ops - b->g->n_collectives;
	uint32_t lane = b->g->n_lanes - 1;

	if (!b->g->n_collectives)
		return true;
	b->lanes[lane] = (struct taut_graph_lane) { TAUT_NONE, TAUT_NONE,
		TAUT_LANE_OTHER, 0, 1 };
	b->lane_begin[lane] = id;
	for (size_t i = 0; i < m->member_comm.count; i++) {
		uint32_t rank = m->member_rank.data[i];

		b->member_arrive[i] = b->op_base[rank] + b->ranks[rank].comms
			.data[m->member_comm.data[i]].arrive;
	}
	for (uint32_t i = 0; i < b->g->n_collectives; i++, id++) {
		struct taut_collective *c = &m->collectives.data[i];
		uint32_t first = b->member_arrive[c->first_member];
		uint32_t rank = m->member_rank.data[c->first_member];
		uint32_t group = b->ranks[rank].comms.data[
			m->member_comm.data[c->first_member]].group;

		b->kind[id] = TAUT_OP_JOIN;
		b->lane[id] = lane;
		b->event[id] = TAUT_NONE;
		b->collective[id] = i;
		c->join_op = id;
		c->name = b->name[first];
		c->group = group ? graph_name(b, rank, group) : 0;
		if (c->group == TAUT_NONE || !join_members(b, i, id))
			return false;
	}
	return true;
}

/* Takes from each edge's lag what the recording contradicts. */
static void fit_lags(struct builder *b)
{
	for (size_t i = 0; i < b->edges.count; i++) {
		struct tauti_edge *e = &b->edges.data[i];
		int64_t at = b->start[e->from] + e->lag, late;

		if (!(e->kind & TAUT_EDGE_FROM_START))
			at += b->dur[e->from];
		late = at - b->start[e->to];
		if (late <= 0)
			continue;
		e->lag -= late;
		if ((e->kind & TAUT_EDGE_FROM_START) ? e->lag < -ROUNDING_NS :
			late > ROUNDING_NS &&
			(e->kind & ~TAUT_EDGE_FROM_START) != TAUT_EDGE_LAUNCH)
			note_backward(b, late);
	}
}

/* Lanes whose first operation waits for nothing hang on the main thread. */
static bool hang_lanes(struct builder *b, const uint8_t *has_edge)
{
	for (uint32_t l = 0; l < b->g->n_lanes; l++) {
		uint32_t first = b->lane_begin[l], main;

		if (b->lanes[l].trace == TAUT_NONE || b->lanes[l].is_main ||
			has_edge[first])
			continue;
		main = b->op_base[b->lanes[l].trace] + b->ranks[
			b->lanes[l].trace].lane_begin[
			b->ranks[b->lanes[l].trace].main_lane];
		if (b->start[main] <= b->start[first] && !add_edge(b, main,
			first, b->start[first] - b->start[main],
			TAUT_EDGE_START | TAUT_EDGE_FROM_START))
			return false;
	}
	return true;
}

static bool all_edges(struct builder *b)
{
	uint8_t *has_edge;
	bool ok = true;

	for (uint32_t i = 0; ok && i < b->n_ranks; i++)
		ok = launch_edges(b, i) && other_edges(b, i) && end_edges(b, i);
	ok = ok && join_ranks(b);
	has_edge = calloc(b->g->n_ops + 1, 1);
	for (size_t i = 0; has_edge && i < b->edges.count; i++)
		has_edge[b->edges.data[i].to] = 1;
	ok = ok && has_edge && hang_lanes(b, has_edge);
	free(has_edge);
	if (ok)
		fit_lags(b);
	return ok;
}

/* --- CSR, gaps ------------------------------------------------------------------------*/

static bool lay_edges(struct builder *b)
{
	struct taut_graph *g = b->g;
	size_t n = b->edges.count;

	g->n_edges = (uint32_t)n;
	b->edge_to = TAUT_ARENA_ARRAY(b->arena, uint32_t, n + 1);
	b->lag = TAUT_ARENA_ARRAY(b->arena, int64_t, n + 1);
	b->edge_kind = TAUT_ARENA_ARRAY(b->arena, uint8_t, n + 1);
	if (!b->edge_to || !b->lag || !b->edge_kind)
		return false;
	for (size_t i = 0; i < n; i++)
		b->edge_begin[b->edges.data[i].from + 2]++;
	for (size_t i = 2; i < (size_t)g->n_ops + 2; i++)
		b->edge_begin[i] += b->edge_begin[i - 1];
	for (size_t i = 0; i < n; i++) {
		const struct tauti_edge *e = &b->edges.data[i];
		uint32_t at = b->edge_begin[e->from + 1]++;

		b->edge_to[at] = e->to;
		b->lag[at] = e->lag;
		b->edge_kind[at] = e->kind;
	}
	return true;
}

/* What is left of each start when all known waits are taken away. */
static bool find_gaps(struct builder *b)
{
	struct taut_graph *g = b->g;
	int64_t *known = malloc((g->n_ops + 1) * sizeof *known);

	if (!known)
		return false;
	for (uint32_t i = 0; i < g->n_ops; i++) {
		uint32_t l = b->lane[i];
		bool follows = i > b->lane_begin[l] &&
			b->lanes[l].trace != TAUT_NONE;

		known[i] = follows ? b->start[i - 1] + b->dur[i - 1] : INT64_MIN;
	}
	for (size_t i = 0; i < b->edges.count; i++) {
		const struct tauti_edge *e = &b->edges.data[i];
		int64_t at = b->start[e->from] + e->lag;

		if (!(e->kind & TAUT_EDGE_FROM_START))
			at += b->dur[e->from];
		if (at > known[e->to])
			known[e->to] = at;
	}
	for (uint32_t i = 0; i < g->n_ops; i++)
		b->gap[i] = known[i] == INT64_MIN ? b->start[i] :
			b->start[i] - known[i];
	free(known);
	return true;
}

static taut_status sort_collectives(struct builder *b);

static void publish(struct builder *b)
{
	struct taut_graph *g = b->g;

	g->run = b->run;
	g->names = b->all_names;
	g->start_ns = b->start;
	g->dur_ns = b->dur;
	g->gap_ns = b->gap;
	g->lane = b->lane;
	g->name = b->name;
	g->event = b->event;
	g->collective = b->collective;
	g->kind = b->kind;
	g->edge_begin = b->edge_begin;
	g->edge_to = b->edge_to;
	g->edge_lag_ns = b->lag;
	g->edge_kind = b->edge_kind;
	g->lanes = b->lanes;
	b->lane_begin[g->n_lanes] = g->n_ops;
	g->lane_begin = b->lane_begin;
	g->steps = b->steps;
	g->member_arrive = b->member_arrive;
	g->clocks = b->clocks;
	g->clock_origin_ns = b->raw_origin;
	g->origin_ns = b->origin;
	g->n_unmatched = b->match.n_unmatched;
	g->groups_by_time = b->match.groups_by_time;
}

/* --- the whole ---------------------------------------------------------------------------*/

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
static taut_status sort_collectives(struct builder *b)
{
	size_t n = b->g->n_collectives;
	struct by_join *order = malloc((n + 1) * sizeof *order);
	uint32_t *place = malloc((n + 1) * sizeof *place);
	struct taut_collective *sorted = TAUT_ARENA_ARRAY(b->arena,
		struct taut_collective, n + 1);
	taut_status status = order && place && sorted ? TAUT_OK : TAUT_ENOMEM;

	for (uint32_t i = 0; !status && i < n; i++)
		order[i] = (struct by_join) {
			b->start[b->match.collectives.data[i].join_op], i };
	if (!status)
		qsort(order, n, sizeof *order, compare_join);
	for (uint32_t i = 0; !status && i < n; i++) {
		sorted[i] = b->match.collectives.data[order[i].index];
		place[order[i].index] = i;
	}
	for (uint32_t i = 0; !status && i < b->g->n_ops; i++)
		if (b->collective[i] != TAUT_NONE)
			b->collective[i] = place[b->collective[i]];
	b->g->collectives = sorted;
	free(order);
	free(place);
	return status;
}

static bool lay_out(struct builder *b)
{
	uint32_t lane = 0, step = 0;

	count(b);
	if (!allocate(b) || !map_names(b))
		return false;
	for (uint32_t i = 0; i < b->n_ranks; i++)
		if (!fill_rank(b, i, &lane, &step))
			return false;
	if (!all_edges(b) || !lay_edges(b) || !find_gaps(b) ||
		sort_collectives(b))
		return false;
	publish(b);
	if (b->match.unmatched[0]) {
		b->g->unmatched = taut_arena_strndup(b->arena,
			b->match.unmatched, strlen(b->match.unmatched));
		return b->g->unmatched != NULL;
	}
	return true;
}

static taut_status build(struct builder *b, struct taut_error *err)
{
	struct taut_names *keys = taut_names_create();
	taut_status status = keys ? TAUT_OK : no_memory(err);

	if (!status)
		status = taut_parallel_for(b->n_ranks, b->options.threads,
			build_rank, b, err);
	if (!status)
		status = tauti_match(b->ranks, b->n_ranks, keys, &b->match, err);
	if (!status)
		status = align(b, err);
	if (!status && !lay_out(b))
		status = no_memory(err);
	taut_names_destroy(keys);
	return status;
}

static void builder_fini(struct builder *b)
{
	for (uint32_t i = 0; b->ranks && i < b->n_ranks; i++)
		tauti_rank_fini(&b->ranks[i]);
	for (uint32_t i = 0; b->names && i < b->n_ranks; i++)
		free(b->names[i]);
	free(b->ranks);
	free(b->names);
	free(b->op_base);
	taut_vec_free(&b->edges);
	tauti_match_fini(&b->match);
}

static bool builder_init(struct builder *b, const struct taut_run *run,
	const struct taut_graph_options *options)
{
	struct owned_graph *owned;

	b->run = run;
	b->n_ranks = run->n_traces;
	if (options)
		b->options = *options;
	b->arena = taut_arena_create();
	b->all_names = taut_names_create();
	if (!b->arena || !b->all_names)
		return false;
	owned = TAUT_ARENA_ARRAY(b->arena, struct owned_graph, 1);
	b->clocks = TAUT_ARENA_ARRAY(b->arena, struct taut_clock_row,
		b->n_ranks + 1);
	b->ranks = calloc(b->n_ranks + 1, sizeof *b->ranks);
	b->names = calloc(b->n_ranks + 1, sizeof *b->names);
	b->op_base = calloc(b->n_ranks + 1, sizeof *b->op_base);
	if (!owned || !b->clocks || !b->ranks || !b->names || !b->op_base)
		return false;
	owned->arena = b->arena;
	owned->names = b->all_names;
	b->g = &owned->graph;
	return true;
}

taut_status taut_graph_build(const struct taut_run *run,
	const struct taut_graph_options *options, struct taut_graph **ret_graph,
	struct taut_error *reterr)
{
	struct builder b = { 0 };
	taut_status status = builder_init(&b, run, options) ?
		build(&b, reterr) : no_memory(reterr);

	builder_fini(&b);
	if (status) {
		taut_names_destroy(b.all_names);
		taut_arena_destroy(b.arena);
		return status;
	}
	*ret_graph = b.g;
	return TAUT_OK;
}

int64_t taut_graph_time(const struct taut_graph *graph, uint32_t trace,
	int64_t trace_ns)
{
	return tauti_clock_apply(&graph->clocks[trace],
		trace_ns + graph->run->traces[trace].base_ns,
		graph->clock_origin_ns) - graph->origin_ns;
}

void taut_graph_destroy(struct taut_graph *graph)
{
	struct owned_graph *owned = (struct owned_graph *)graph;
	struct taut_arena *arena;

	if (!graph)
		return;
	arena = owned->arena;
	taut_names_destroy(owned->names);
	taut_arena_destroy(arena);
}

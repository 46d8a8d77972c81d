/* chakra_plan.c - which nodes there will be, and in which order. */
#include <stdlib.h>
#include <string.h>

#include "report/chakra.h"
#include "report/tables.h"

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1,
		"no memory for the Chakra traces");
}

/* --- order ---------------------------------------------------------------- */

static uint32_t trace_of(const struct taut_graph *g, uint32_t op)
{
	return g->lanes[g->lane[op]].trace;
}

/* An operation comes after all that it waits for. */
static taut_status find_order(struct tauti_chakra *c, struct taut_error *err)
{
	const struct taut_graph *g = c->g;
	uint32_t n_ranks = g->run->n_traces;
	struct taut_timeline timeline = { 0 };
	taut_status status = taut_timeline_init(&timeline, g, err);
	uint32_t *next;

	if (status)
		return status;
	status = taut_replay(g, NULL, &timeline, err);
	next = calloc(n_ranks + 1, sizeof *next);
	if (!status && !next)
		status = no_memory(err);
	for (uint32_t op = 0; !status && op < g->n_ops; op++)
		if (trace_of(g, op) != TAUT_NONE)
			c->rank_begin[trace_of(g, op) + 1]++;
	for (uint32_t i = 0; !status && i < n_ranks; i++) {
		c->rank_begin[i + 1] += c->rank_begin[i];
		next[i] = c->rank_begin[i];
	}
	for (uint32_t i = 0; !status && i < timeline.n_run; i++) {
		uint32_t rank = trace_of(g, timeline.order[i]);

		if (rank != TAUT_NONE)
			c->order[next[rank]++] = timeline.order[i];
	}
	free(next);
	taut_timeline_fini(&timeline);
	return status;
}

/* --- waits ---------------------------------------------------------------- */

/* What a collective's members wait for in each other, its node says. */
static bool is_within(const struct taut_graph *g, uint32_t from, uint32_t to)
{
	return g->kind[from] == TAUT_OP_JOIN || g->kind[to] == TAUT_OP_JOIN;
}

/* Nodes cannot wait for those of another rank: see wait_for_gap(). */
static bool is_across(struct tauti_chakra *c, uint32_t from, uint32_t to)
{
	if (trace_of(c->g, from) == trace_of(c->g, to))
		return false;
	c->across[to] = 1;
	return true;
}

static int64_t moment_us(const struct taut_graph *g, uint32_t from, uint32_t e)
{
	int64_t at = g->start_ns[from] + g->edge_lag_ns[e];

	if (!(g->edge_kind[e] & TAUT_EDGE_FROM_START))
		at += g->dur_ns[from];
	return chakra_us(at);
}

static void find_waits(struct tauti_chakra *c)
{
	const struct taut_graph *g = c->g;

	for (uint32_t op = 0; op < g->n_ops; op++)
		for (uint32_t e = g->edge_begin[op]; e < g->edge_begin[op + 1];
			e++)
			if (!is_within(g, op, g->edge_to[e]) &&
				!is_across(c, op, g->edge_to[e]))
				c->in_begin[g->edge_to[e] + 2]++;
	for (uint32_t op = 2; op < g->n_ops + 2; op++)
		c->in_begin[op] += c->in_begin[op - 1];
	for (uint32_t op = 0; op < g->n_ops; op++)
		for (uint32_t e = g->edge_begin[op]; e < g->edge_begin[op + 1];
			e++) {
			uint32_t at;

			if (is_within(g, op, g->edge_to[e]) ||
				is_across(c, op, g->edge_to[e]))
				continue;
			at = c->in_begin[g->edge_to[e] + 1]++;
			c->in_from[at] = op;
			c->in_at_us[at] = moment_us(g, op, e);
		}
}

/* --- cuts ----------------------------------------------------------------- */

static bool is_cut(const struct taut_graph *g, uint32_t op, int64_t at_us)
{
	return !chakra_is_comm(g, op) && at_us < chakra_end_us(g, op);
}

static int by_place(const void *a, const void *b)
{
	const struct chakra_cut *x = a, *y = b;

	if (x->op != y->op)
		return x->op < y->op ? -1 : 1;
	return (x->at_us > y->at_us) - (x->at_us < y->at_us);
}

static void add_cut(struct tauti_chakra *c, uint32_t op, int64_t at_us)
{
	if (is_cut(c->g, op, at_us))
		c->cuts[c->n_cuts++] = (struct chakra_cut){ op, at_us };
}

/* Room for every wait and every operation is there. */
static void find_cuts(struct tauti_chakra *c)
{
	const struct taut_graph *g = c->g;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < c->in_begin[g->n_ops]; i++)
		add_cut(c, c->in_from[i], c->in_at_us[i]);
	for (uint32_t op = 1; op < g->n_ops; op++)
		if (g->gap_ns[op] < 0 && g->lane[op] == g->lane[op - 1] &&
			trace_of(g, op) != TAUT_NONE)
			add_cut(c, op - 1, chakra_us(g->start_ns[op]));
	qsort(c->cuts, c->n_cuts, sizeof *c->cuts, by_place);
	for (uint32_t i = 0; i < c->n_cuts; i++)
		if (!i || by_place(&c->cuts[i], &c->cuts[i - 1]))
			c->cuts[kept++] = c->cuts[i];
	c->n_cuts = kept;
	for (uint32_t i = 0; i < kept; i++)
		c->cut_begin[c->cuts[i].op + 1]++;
	for (uint32_t op = 0; op < g->n_ops; op++)
		c->cut_begin[op + 1] += c->cut_begin[op];
}

/* --- the whole ------------------------------------------------------------ */

static bool allocate(struct tauti_chakra *c)
{
	const struct taut_graph *g = c->g;
	size_t n = (size_t)g->n_ops + 3, edges = (size_t)g->n_edges + 1;

	c->arena = taut_arena_create();
	if (!c->arena)
		return false;
	c->order = TAUT_ARENA_ARRAY(c->arena, uint32_t, n);
	c->rank_begin = TAUT_ARENA_ARRAY(
		c->arena, uint32_t, (size_t)g->run->n_traces + 2);
	c->in_begin = TAUT_ARENA_ARRAY(c->arena, uint32_t, n);
	c->in_from = TAUT_ARENA_ARRAY(c->arena, uint32_t, edges);
	c->in_at_us = TAUT_ARENA_ARRAY(c->arena, int64_t, edges);
	c->across = TAUT_ARENA_ARRAY(c->arena, uint8_t, n);
	c->cuts = TAUT_ARENA_ARRAY(c->arena, struct chakra_cut, edges + n);
	c->cut_begin = TAUT_ARENA_ARRAY(c->arena, uint32_t, n);
	c->node = TAUT_ARENA_ARRAY(c->arena, uint32_t, n);
	return c->order && c->rank_begin && c->in_begin && c->in_from &&
		c->in_at_us && c->across && c->cuts && c->cut_begin && c->node;
}

taut_status tauti_chakra_open(const struct taut_report *report,
	struct tauti_chakra **ret_chakra, struct taut_error *reterr)
{
	struct tauti_chakra *c = calloc(1, sizeof *c);
	taut_status status = TAUT_OK;

	if (!c)
		return no_memory(reterr);
	c->report = report;
	c->g = report->graph;
	if (!allocate(c))
		status = no_memory(reterr);
	if (!status)
		status = find_order(c, reterr);
	if (!status) {
		find_waits(c);
		find_cuts(c);
		status = tauti_groups_name(
			c->g, c->arena, &c->groups, reterr);
	}
	if (status)
		tauti_chakra_close(c);
	else
		*ret_chakra = c;
	return status;
}

void tauti_chakra_close(struct tauti_chakra *c)
{
	if (!c)
		return;
	taut_arena_destroy(c->arena);
	free(c);
}

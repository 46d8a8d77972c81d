/* within.c - see within.h.
 *
 * Gradients of weights are wanted when all of them are there: nothing of the
 * forward or backward pass waits for their sum and goes on. What a layer sums
 * over the ranks that hold it together is wanted by the next layer. So an
 * all-reduce is within a pass where computation of its step waits for it, and
 * behind that another gradient becomes ready or another sum is handed over. */
#include "whatif/within.h"

#include <stdlib.h>
#include <string.h>

#include "whatif/exchanged.h"

static const char accumulate[] = "torch::autograd::AccumulateGrad";
static const char hook[] =
	"autograd::engine::evaluate_function: torch::autograd::AccumulateGrad";

/* When the host asked for it. */
static int64_t handed_over(const struct tauti_within *in, uint32_t op)
{
	uint32_t by = in->launch_of[op];

	return in->graph->start_ns[by == TAUT_NONE ? op : by];
}

static bool is_told(const struct tauti_within *in, uint32_t op)
{
	return in->spans[in->graph->lanes[in->graph->lane[op]].trace]
		.has_backward;
}

/* Where nothing tells backward, names do, and badly: forward alone counts. */
static bool is_of_pass(const struct tauti_within *in, uint32_t op)
{
	uint8_t phase = in->job->phase[op];

	return phase == TAUTI_PHASE_FORWARD ||
		(phase == TAUTI_PHASE_BACKWARD && is_told(in, op));
}

static uint32_t arrive_of(
	const struct taut_graph *g, const struct taut_collective *c, uint32_t i)
{
	return g->member_arrive[c->first_member + i];
}

/* By step: when its last gradient was ready, or its last sum handed over. */
static void find_last(const struct tauti_within *in, int64_t *last)
{
	const struct taut_graph *g = in->graph;
	uint32_t name = taut_names_find(
		g->names, accumulate, sizeof accumulate - 1);

	for (uint32_t s = 0; s < g->n_steps; s++)
		last[s] = INT64_MIN;
	for (uint32_t op = 0; op < g->n_ops; op++) {
		uint32_t s = in->job->step_of[op];

		if (s == TAUT_NONE)
			continue;
		if (g->kind[op] == TAUT_OP_ARRIVE ? is_of_pass(in, op) &&
			g->collective[op] != TAUT_NONE &&
			g->collectives[g->collective[op]].kind ==
			TAUT_COLL_ALLREDUCE :
			name != TAUT_NONE && g->name[op] == name) {
			if (handed_over(in, op) > last[s])
				last[s] = handed_over(in, op);
		}
	}
}

/* Does a pass go on behind op, which waits for a sum of that step? */
static bool goes_on(const struct tauti_within *in, uint32_t op, uint32_t step,
	const int64_t *last)
{
	uint8_t kind = in->graph->kind[op];

	return (kind == TAUT_OP_KERNEL || kind == TAUT_OP_COPY ||
		kind == TAUT_OP_HOST || kind == TAUT_OP_LAUNCH ||
		kind == TAUT_OP_RETURN) &&
		in->job->step_of[op] == step && is_of_pass(in, op) &&
		handed_over(in, op) <= last[step];
}

static bool is_waited_for(const struct tauti_within *in, uint32_t arrive,
	const int64_t *last)
{
	const struct taut_graph *g = in->graph;
	uint32_t lane = g->lane[arrive], transfer = arrive + 1;
	uint32_t step = in->job->step_of[arrive];

	if (step == TAUT_NONE || transfer >= g->lane_begin[lane + 1] ||
		g->kind[transfer] != TAUT_OP_TRANSFER)
		return false;
	for (uint32_t e = g->edge_begin[transfer];
		e < g->edge_begin[transfer + 1]; e++)
		if ((g->edge_kind[e] & ~TAUT_EDGE_FROM_START) !=
			TAUT_EDGE_SYNC && goes_on(in, g->edge_to[e], step, last))
			return true;
	return !g->lanes[lane].is_comm &&
		transfer + 1 < g->lane_begin[lane + 1] &&
		goes_on(in, transfer + 1, step, last);
}

/* Handed over by the hook of a gradient that has just become ready: that is
 * DDP's, also where the next micro-batch comes behind it. */
static bool is_hooked(const struct tauti_within *in, uint32_t arrive)
{
	const struct taut_graph *g = in->graph;
	uint32_t by = in->launch_of[arrive], row;
	const struct taut_trace *t;

	if (by == TAUT_NONE || g->event[by] == TAUT_NONE)
		return false;
	t = &g->run->traces[g->lanes[g->lane[by]].trace];
	row = tauti_row_around(t, g->event[by], hook);
	return !strncmp(taut_trace_name(t, row), hook, sizeof hook - 1);
}

static bool is_within(const struct tauti_within *in,
	const struct taut_collective *c, const int64_t *last)
{
	bool waited = false;

	if (tauti_exchanged_sum(in->graph, c))
		return false; /* of gradients, as is told */
	for (uint32_t i = 0; i < c->n_members && !waited; i++)
		waited = is_waited_for(in, arrive_of(in->graph, c, i), last);
	return waited && !is_hooked(in, arrive_of(in->graph, c, 0));
}

/* --- groups ----------------------------------------------------------------------- */

struct of_group {
	uint32_t group, n, ranks[3], collective;
};

static uint32_t rank_of(const struct taut_graph *g, uint32_t op)
{
	return g->lanes[g->lane[op]].trace;
}

/* The two lowest ranks and the highest tell groups of a grid apart. */
static struct of_group group_of(const struct taut_graph *g, uint32_t c)
{
	const struct taut_collective *coll = &g->collectives[c];
	struct of_group of = { coll->group, coll->n_members,
		{ TAUT_NONE, TAUT_NONE, 0 }, c };

	for (uint32_t i = 0; i < coll->n_members; i++) {
		uint32_t rank = rank_of(g, arrive_of(g, coll, i));

		if (rank < of.ranks[0]) {
			of.ranks[1] = of.ranks[0];
			of.ranks[0] = rank;
		} else if (rank < of.ranks[1]) {
			of.ranks[1] = rank;
		}
		if (rank > of.ranks[2])
			of.ranks[2] = rank;
	}
	return of;
}

static int by_group(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	for (size_t i = 0; i < sizeof(struct of_group) / sizeof *x; i++)
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	return 0;
}

static bool same_group(const struct of_group *a, const struct of_group *b)
{
	struct of_group c = *b;

	c.collective = a->collective;
	return !by_group(a, &c);
}

/* The last sum of a pass has none behind it. Where backward is not told, it is
 * as the others of its group are, of which at least half are within. */
static bool complete_groups(const struct tauti_within *in, uint8_t *within)
{
	const struct taut_graph *g = in->graph;
	struct of_group *all = malloc((g->n_collectives + 1) * sizeof *all);
	uint32_t n = 0;

	for (uint32_t c = 0; all && c < g->n_collectives; c++)
		if (g->collectives[c].kind == TAUT_COLL_ALLREDUCE &&
			g->collectives[c].n_members &&
			!is_told(in, arrive_of(g, &g->collectives[c], 0)))
			all[n++] = group_of(g, c);
	if (n)
		qsort(all, n, sizeof *all, by_group);
	for (uint32_t i = 0, end; i < n; i = end) {
		uint32_t found = 0;

		for (end = i; end < n && same_group(&all[i], &all[end]); end++)
			found += within[all[end].collective];
		for (uint32_t k = i; 2 * found >= end - i && k < end; k++)
			within[all[k].collective] = 1;
	}
	free(all);
	return all != NULL;
}

bool tauti_within_find(const struct tauti_within *in, uint8_t *ret_within)
{
	const struct taut_graph *g = in->graph;
	int64_t *last = malloc(((size_t)g->n_steps + 1) * sizeof *last);

	if (!last)
		return false;
	find_last(in, last);
	for (uint32_t c = 0; c < g->n_collectives; c++)
		ret_within[c] = g->collectives[c].kind == TAUT_COLL_ALLREDUCE &&
			is_within(in, &g->collectives[c], last);
	free(last);
	return complete_groups(in, ret_within);
}

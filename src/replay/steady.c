/* steady.c - the one figure by which a job is judged: its usual step. */
#include <stdbool.h>
#include <stdlib.h>

#include <taut/replay.h>

static int by_ns(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

/* Its first step warms a rank up. */
static int is_warmup(const struct taut_graph *graph, uint32_t step)
{
	uint32_t trace = graph->steps[step].trace;
	int first = !step || graph->steps[step - 1].trace != trace;
	int more = step + 1 < graph->n_steps &&
		graph->steps[step + 1].trace == trace;
	return first && more;
}

/* The median of took_ns (by step; overwritten) over all steps but each rank's
 * first, where it has more. -1: there are no steps. */
static int64_t steady(const struct taut_graph *graph, int64_t *took_ns)
{
	size_t n = 0;
	for (uint32_t i = 0; i < graph->n_steps; i++) {
		if (!is_warmup(graph, i))
			took_ns[n++] = took_ns[i];
	}
	if (!n)
		return -1;
	qsort(took_ns, n, sizeof *took_ns, by_ns);
	return took_ns[n / 2];
}

/* --- what a step put on a device ------------------------------------------------ */

struct marks {
	const struct taut_graph *graph;
	const int64_t *start_ns, *end_ns; /* by op */
	uint32_t *first_step; /* by trace, and one more */
	uint32_t *launcher;   /* by op; TAUT_NONE */
	int64_t *device_ns;   /* by step: the end of what it launched */
};

static void find_launchers(struct marks *m)
{
	const struct taut_graph *g = m->graph;

	for (uint32_t op = 0; op < g->n_ops; op++)
		m->launcher[op] = TAUT_NONE;
	for (uint32_t op = 0; op < g->n_ops; op++)
		for (uint32_t e = g->edge_begin[op]; e < g->edge_begin[op + 1];
			e++)
			if ((g->edge_kind[e] & ~TAUT_EDGE_FROM_START) ==
				TAUT_EDGE_LAUNCH)
				m->launcher[g->edge_to[e]] = op;
}

/* The last step of a trace that had begun. */
static uint32_t step_at(const struct marks *m, uint32_t trace, int64_t at)
{
	uint32_t first = m->first_step[trace], lo = first;
	uint32_t hi = m->first_step[trace + 1];

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (m->start_ns[m->graph->steps[mid].begin_op] <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo == first ? TAUT_NONE : lo - 1;
}

static void find_device_ends(struct marks *m, uint32_t n_traces)
{
	const struct taut_graph *g = m->graph;

	for (uint32_t i = 0; i < g->n_steps; i++)
		m->device_ns[i] = INT64_MIN;
	for (uint32_t op = 0; op < g->n_ops; op++) {
		const struct taut_graph_lane *lane = &g->lanes[g->lane[op]];
		uint32_t by = m->launcher[op], step;

		if (lane->kind != TAUT_LANE_STREAM || lane->trace >= n_traces)
			continue;
		if (by == TAUT_NONE && g->kind[op] == TAUT_OP_TRANSFER && op)
			by = m->launcher[op - 1];
		step = step_at(m, lane->trace,
			m->start_ns[by == TAUT_NONE ? op : by]);
		if (step != TAUT_NONE && m->end_ns[op] > m->device_ns[step])
			m->device_ns[step] = m->end_ns[op];
	}
}

/* How late the device of a rank is when a step has ended for its host. */
static int64_t late_after(const struct marks *m, uint32_t step)
{
	int64_t end = m->end_ns[m->graph->steps[step].end_op];

	return m->device_ns[step] > end ? m->device_ns[step] - end : 0;
}

/* A host may run ahead of its device. What that adds up to is the steps', all
 * alike: the device would be late by as much more after each further one. One
 * that catches up is the faster of the two, and makes no step shorter. */
static void time_rank(const struct marks *m, uint32_t first, uint32_t end,
	int64_t *took_ns)
{
	uint32_t n = end - first;
	int64_t more = 0;

	for (uint32_t i = first + 1; i < end; i++)
		if (m->device_ns[i] < m->device_ns[i - 1])
			m->device_ns[i] = m->device_ns[i - 1];
	if (n == 1)
		more = late_after(m, first);
	else if (n)
		more = (late_after(m, end - 1) - late_after(m, first)) /
			(int64_t)(n - 1);
	if (more < 0)
		more = 0;
	for (uint32_t i = first; i < end; i++)
		took_ns[i] = m->end_ns[m->graph->steps[i].end_op] -
			m->start_ns[m->graph->steps[i].begin_op] + more;
}

static void number_steps(struct marks *m, uint32_t n_traces)
{
	uint32_t s = 0;

	for (uint32_t i = 0; i <= n_traces; i++) {
		while (s < m->graph->n_steps && m->graph->steps[s].trace < i)
			s++;
		m->first_step[i] = s;
	}
}

/* Those that have steps. */
static uint32_t count_traces(const struct taut_graph *g)
{
	return g->n_steps ? g->steps[g->n_steps - 1].trace + 1 : 0;
}

taut_status taut_steady_step(const struct taut_graph *graph,
	const int64_t *start_ns, const int64_t *end_ns, int64_t *ret_ns,
	struct taut_error *reterr)
{
	uint32_t n_traces = count_traces(graph);
	size_t n_steps = (size_t)graph->n_steps + 1;
	struct marks m = { graph, start_ns, end_ns,
		malloc(((size_t)n_traces + 2) * sizeof *m.first_step),
		malloc(((size_t)graph->n_ops + 1) * sizeof *m.launcher),
		malloc(n_steps * sizeof *m.device_ns) };
	int64_t *took_ns = malloc(n_steps * sizeof *took_ns);
	bool ok = m.first_step && m.launcher && m.device_ns && took_ns;

	if (ok) {
		number_steps(&m, n_traces);
		find_launchers(&m);
		find_device_ends(&m, n_traces);
		for (uint32_t i = 0; i < n_traces; i++)
			time_rank(&m, m.first_step[i], m.first_step[i + 1],
				took_ns);
		*ret_ns = steady(graph, took_ns);
	}
	free(m.first_step);
	free(m.launcher);
	free(m.device_ns);
	free(took_ns);
	return ok ? TAUT_OK : taut_error_set(reterr, TAUT_ENOMEM, -1,
		"no memory for the times of %u steps",
		(unsigned)graph->n_steps);
}

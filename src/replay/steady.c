/* steady.c - when the steps of a rank are done, and the one figure by which a job
 * is judged: its usual step. */
#include <stdbool.h>
#include <stdlib.h>

#include <taut/replay.h>

/* A device that is faster than its host by more than this works on what was left
 * from before. */
static const double catching_up = 0.9;

static int by_ns(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

static int64_t median(int64_t *ns, size_t n)
{
	qsort(ns, n, sizeof *ns, by_ns);
	return ns[n / 2];
}

/* --- what a step put on a device ------------------------------------------------ */

struct marks {
	const struct taut_graph *graph;
	const int64_t *start_ns, *end_ns; /* by op */
	uint32_t *first_step; /* by trace, and one more */
	uint32_t *before;     /* by op: the call that put it on a device, or the
	                         device's work that a call waited for; TAUT_NONE */
	int64_t *device_ns;   /* by step: the end of what it launched */
	int64_t *waited_ns;   /* by step: of its host, for the device */
	int64_t *sorted_ns;   /* room for a time by step */
	int64_t *begin_ns, *done_ns; /* by step */
};

static enum taut_lane_kind lane_kind(const struct marks *m, uint32_t op)
{
	return m->graph->lanes[m->graph->lane[op]].kind;
}

static void find_before(struct marks *m)
{
	const struct taut_graph *g = m->graph;

	for (uint32_t op = 0; op < g->n_ops; op++)
		m->before[op] = TAUT_NONE;
	for (uint32_t op = 0; op < g->n_ops; op++)
		for (uint32_t e = g->edge_begin[op]; e < g->edge_begin[op + 1];
			e++) {
			int kind = g->edge_kind[e] & ~TAUT_EDGE_FROM_START;

			if (kind == TAUT_EDGE_LAUNCH ||
				(kind == TAUT_EDGE_SYNC &&
				lane_kind(m, op) == TAUT_LANE_STREAM))
				m->before[g->edge_to[e]] = op;
		}
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

static void find_device_end(struct marks *m, uint32_t op, uint32_t trace)
{
	uint32_t by = m->before[op], step;

	if (by == TAUT_NONE && m->graph->kind[op] == TAUT_OP_TRANSFER && op)
		by = m->before[op - 1];
	step = step_at(m, trace, m->start_ns[by == TAUT_NONE ? op : by]);
	if (step != TAUT_NONE && m->end_ns[op] > m->device_ns[step])
		m->device_ns[step] = m->end_ns[op];
}

/* The hole in front of what was left of a call when the device was done. */
static void find_wait(struct marks *m, uint32_t op, uint32_t trace)
{
	int64_t hole;
	uint32_t step;

	if (m->before[op] == TAUT_NONE || !op ||
		m->graph->lane[op - 1] != m->graph->lane[op])
		return;
	hole = m->start_ns[op] - m->end_ns[op - 1];
	step = step_at(m, trace, m->end_ns[op - 1]);
	if (step != TAUT_NONE && hole > 0)
		m->waited_ns[step] += hole;
}

/* Sums of a step may go on under the next, whose work waits for them. */
static void look_at_ops(struct marks *m, uint32_t n_traces)
{
	const struct taut_graph *g = m->graph;

	for (uint32_t i = 0; i < g->n_steps; i++) {
		m->device_ns[i] = INT64_MIN;
		m->waited_ns[i] = 0;
	}
	for (uint32_t op = 0; op < g->n_ops; op++) {
		const struct taut_graph_lane *lane = &g->lanes[g->lane[op]];

		if (lane->trace >= n_traces || lane->is_comm)
			continue;
		if (lane->kind == TAUT_LANE_STREAM)
			find_device_end(m, op, lane->trace);
		else if (lane->kind == TAUT_LANE_THREAD)
			find_wait(m, op, lane->trace);
	}
}

/* --- when a step is done ---------------------------------------------------------- */

static int64_t host_begin(const struct marks *m, uint32_t step)
{
	return m->start_ns[m->graph->steps[step].begin_op];
}

static int64_t host_end(const struct marks *m, uint32_t step)
{
	return m->end_ns[m->graph->steps[step].end_op];
}

/* A host may run ahead of its device: a step is done when both are, and the next
 * is later by as much. What lies between a rank's steps stays out of them. */
static void time_by_device(struct marks *m, uint32_t first, uint32_t end)
{
	int64_t late = 0;

	for (uint32_t i = first; i < end; i++) {
		int64_t done = m->device_ns[i];

		m->begin_ns[i] = host_begin(m, i) + late;
		if (i > first && done < m->device_ns[i - 1])
			done = m->device_ns[i] = m->device_ns[i - 1];
		if (done < host_end(m, i))
			done = host_end(m, i);
		if (done < m->begin_ns[i])
			done = m->begin_ns[i];
		m->done_ns[i] = done;
		late = done - host_end(m, i);
	}
}

/* Is the device done sooner than the host alone, without its waits for the
 * device, would be? Then it was late when the recording began, and the host is
 * what the next steps will take. */
static bool catches_up(struct marks *m, uint32_t first, uint32_t end)
{
	uint32_t n = 0;
	int64_t device, host;

	if (end - first < 2)
		return false;
	for (uint32_t i = first + 1; i < end; i++)
		m->sorted_ns[n++] = m->done_ns[i] - m->begin_ns[i];
	device = median(m->sorted_ns, n);
	n = 0;
	for (uint32_t i = first + 1; i < end; i++)
		m->sorted_ns[n++] = host_end(m, i) - host_begin(m, i) -
			m->waited_ns[i];
	host = median(m->sorted_ns, n);
	return (double)device < catching_up * (double)host;
}

static void time_rank(struct marks *m, uint32_t first, uint32_t end)
{
	time_by_device(m, first, end);
	if (!catches_up(m, first, end))
		return;
	for (uint32_t i = first; i < end; i++) {
		m->begin_ns[i] = host_begin(m, i);
		m->done_ns[i] = host_end(m, i);
	}
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

static bool marks_init(struct marks *m, uint32_t n_traces)
{
	size_t n_steps = (size_t)m->graph->n_steps + 1;

	m->first_step = malloc(((size_t)n_traces + 2) * sizeof *m->first_step);
	m->before = malloc(((size_t)m->graph->n_ops + 1) * sizeof *m->before);
	m->device_ns = malloc(n_steps * sizeof *m->device_ns);
	m->waited_ns = malloc(n_steps * sizeof *m->waited_ns);
	m->sorted_ns = malloc(n_steps * sizeof *m->sorted_ns);
	return m->first_step && m->before && m->device_ns && m->waited_ns &&
		m->sorted_ns;
}

static void marks_fini(struct marks *m)
{
	free(m->first_step);
	free(m->before);
	free(m->device_ns);
	free(m->waited_ns);
	free(m->sorted_ns);
}

static taut_status no_memory(
	const struct taut_graph *graph, struct taut_error *reterr)
{
	return taut_error_set(reterr, TAUT_ENOMEM, -1,
		"no memory for the times of %u steps",
		(unsigned)graph->n_steps);
}

taut_status taut_step_times(const struct taut_graph *graph,
	const int64_t *start_ns, const int64_t *end_ns, int64_t *ret_begin_ns,
	int64_t *ret_done_ns, struct taut_error *reterr)
{
	struct marks m = { .graph = graph, .start_ns = start_ns,
		.end_ns = end_ns, .begin_ns = ret_begin_ns,
		.done_ns = ret_done_ns };
	uint32_t n_traces = count_traces(graph);
	bool ok = marks_init(&m, n_traces);

	if (ok) {
		number_steps(&m, n_traces);
		find_before(&m);
		look_at_ops(&m, n_traces);
		for (uint32_t i = 0; i < n_traces; i++)
			time_rank(&m, m.first_step[i], m.first_step[i + 1]);
	}
	marks_fini(&m);
	return ok ? TAUT_OK : no_memory(graph, reterr);
}

/* --- the usual step --------------------------------------------------------------- */

/* Its first step warms a rank up. */
static bool is_warmup(const struct taut_graph *graph, uint32_t step)
{
	uint32_t trace = graph->steps[step].trace;
	bool first = !step || graph->steps[step - 1].trace != trace;
	bool more = step + 1 < graph->n_steps &&
		graph->steps[step + 1].trace == trace;

	return first && more;
}

taut_status taut_steady_step(const struct taut_graph *graph,
	const int64_t *start_ns, const int64_t *end_ns, int64_t *ret_ns,
	struct taut_error *reterr)
{
	size_t room = (size_t)graph->n_steps + 1, n = 0;
	int64_t *begin_ns = malloc(room * sizeof *begin_ns);
	int64_t *done_ns = malloc(room * sizeof *done_ns);
	taut_status status = begin_ns && done_ns ?
		taut_step_times(graph, start_ns, end_ns, begin_ns, done_ns,
			reterr) : no_memory(graph, reterr);

	for (uint32_t i = 0; !status && i < graph->n_steps; i++)
		if (!is_warmup(graph, i))
			done_ns[n++] = done_ns[i] - begin_ns[i];
	if (!status)
		*ret_ns = n ? median(done_ns, n) : -1;
	free(begin_ns);
	free(done_ns);
	return status;
}

/* doubt.c - how far a prediction may be off: costs that may be otherwise, and
 * the scatter of the steps. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "whatif/predict.h"

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory for an interval");
}

/* --- another drag ----------------------------------------------------------------- */

/* When the recorded operations run where nothing is shared, and for how
 * long. */
static taut_status replay_recorded(const struct taut_graph *g,
	struct taut_timeline *timeline, int64_t *span_ns,
	struct taut_error *err)
{
	const struct taut_replay_edit edit = { .unordered = 1 };
	taut_status status = taut_timeline_init(timeline, g, err);

	if (!status)
		status = taut_replay(g, &edit, timeline, err);
	for (uint32_t op = 0; !status && op < g->n_ops; op++)
		span_ns[op] = timeline->end_ns[op] - timeline->start_ns[op];
	return status;
}

struct measured { /* arrays of malloc */
	struct taut_transfer *transfers;
	int64_t *dur_ns, *span_ns, *latency_ns;
	double *amount;
};

static bool has_flow(const struct taut_transfer *t)
{
	return t->amount > 0 || t->latency_ns > 0;
}

/* What the transfers moved and the operations did, were the cores slowed down
 * by so much: the recorded times read once more. */
static taut_status measure(const struct taut_costs *costs, struct measured *m,
	struct taut_error *err)
{
	const struct taut_graph *g = costs->graph;
	struct taut_sharing *sharing = NULL;
	struct taut_timeline timeline = { 0 };
	uint32_t flow = 0;
	taut_status status = replay_recorded(g, &timeline, m->span_ns, err);

	if (!status)
		status = taut_sharing_create(
			g, &costs->site, m->transfers, &sharing, err);
	if (!status)
		status = taut_sharing_measure(g, sharing, timeline.start_ns,
			m->span_ns, m->amount, m->latency_ns, m->dur_ns, err);
	for (uint32_t i = 0; !status && i < g->n_collectives; i++) {
		if (!has_flow(&m->transfers[i]))
			continue;
		m->transfers[i].amount = m->amount[flow];
		m->transfers[i].latency_ns = m->latency_ns[flow++];
	}
	taut_timeline_fini(&timeline);
	taut_sharing_destroy(sharing);
	return status;
}

static void scale_cores(const struct taut_costs *costs, double drag,
	struct taut_transfer *transfers)
{
	for (uint32_t i = 0; i < costs->graph->n_collectives; i++)
		transfers[i].core = costs->drag > 0 ?
			transfers[i].core * (drag / costs->drag) : drag;
}

/* More latency, less to move, or the other way round. */
static void shift_latencies(const struct taut_costs *costs, double errors,
	struct taut_transfer *transfers)
{
	for (uint32_t i = 0; i < costs->graph->n_collectives; i++) {
		struct taut_transfer *t = &transfers[i];
		const struct taut_line *line;
		double whole = t->amount + (double)t->latency_ns, latency;

		if (costs->class_of[i] == TAUT_NONE)
			continue;
		line = &costs->classes[costs->class_of[i]].line;
		latency = (double)t->latency_ns + errors * line->alpha_error;
		latency = fmin(fmax(latency, 0), whole);
		t->latency_ns = (int64_t)latency;
		t->amount = whole - (double)t->latency_ns;
	}
}

taut_status tauti_costs_vary(const struct taut_costs *costs, double drag_errors,
	double latency_errors, struct taut_costs *ret_costs,
	struct taut_error *err)
{
	double drag = fmax(0, costs->drag + drag_errors * costs->drag_error);
	const struct taut_graph *g = costs->graph;
	size_t n = (size_t)g->n_collectives + 1, ops = (size_t)g->n_ops + 1;
	struct measured m = { malloc(n * sizeof *m.transfers),
		malloc(ops * sizeof *m.dur_ns), malloc(ops * sizeof *m.span_ns),
		malloc(n * sizeof *m.latency_ns), malloc(n * sizeof *m.amount) };
	taut_status status;

	if (m.transfers && m.dur_ns && m.span_ns && m.latency_ns && m.amount) {
		memcpy(m.transfers, costs->transfers,
			g->n_collectives * sizeof *m.transfers);
		memcpy(m.dur_ns, costs->dur_ns, g->n_ops * sizeof *m.dur_ns);
		if (drag_errors != 0)
			scale_cores(costs, drag, m.transfers);
		if (latency_errors != 0)
			shift_latencies(costs, latency_errors, m.transfers);
		status = drag_errors != 0 || latency_errors != 0 ?
			measure(costs, &m, err) : TAUT_OK;
	} else {
		status = no_memory(err);
	}
	free(m.span_ns);
	free(m.latency_ns);
	free(m.amount);
	if (status) {
		free(m.transfers);
		free(m.dur_ns);
		return status;
	}
	*ret_costs = *costs;
	ret_costs->transfers = m.transfers;
	ret_costs->dur_ns = m.dur_ns;
	ret_costs->drag = drag;
	return TAUT_OK;
}

void tauti_costs_unvary(struct taut_costs *costs)
{
	free(costs->transfers);
	free(costs->dur_ns);
}

/* --- scatter ------------------------------------------------------------------------- */

enum { RESAMPLES = 400 };

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static int64_t median(int64_t *values, size_t n)
{
	qsort(values, n, sizeof *values, by_value);
	return values[n / 2];
}

/* xorshift64*: the same numbers in every run. */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1du;
}

/* In rows of so many, the first behind the last: the circular block bootstrap
 * (Politis, Romano 1992). */
static void draw(const int64_t *steps, size_t n, size_t row, uint64_t *state,
	int64_t *drawn)
{
	size_t from = 0;

	for (size_t k = 0; k < n; k++) {
		if (k % row == 0)
			from = next_random(state) % n;
		drawn[k] = steps[(from + k % row) % n];
	}
}

/* Standard deviation of the median, by drawing the steps again. With few of
 * them that is too small by the root of n / (n - 1). */
static double spread(
	const int64_t *steps, size_t n, size_t row, int64_t *drawn)
{
	uint64_t state = 0x9e3779b97f4a7c15u;
	double sum = 0, squares = 0, first = (double)steps[0];

	for (int i = 0; i < RESAMPLES; i++) {
		double value;

		draw(steps, n, row, &state, drawn);
		value = (double)median(drawn, n) - first;
		sum += value;
		squares += value * value;
	}
	squares = squares / RESAMPLES - sum / RESAMPLES * (sum / RESAMPLES);
	return sqrt(fmax(squares, 0) * (double)n / (double)(n - 1));
}

/* What slows a step down often lasts longer than it: in rows, of the cube root
 * of their number, steps scatter more then. */
static double widest(const int64_t *steps, size_t n, int64_t *drawn)
{
	size_t row = (size_t)ceil(cbrt((double)n));

	return fmax(spread(steps, n, 1, drawn), spread(steps, n, row, drawn));
}

/* The steps of a kind, over all ranks: the kth of each rank but the first. */
struct steps {
	TAUT_VEC(int64_t) medians; /* over the ranks, by k */
	TAUT_VEC(int64_t) of_one;
};

static bool is_kth(const struct taut_graph *g, uint32_t s, uint32_t k)
{
	return s >= k && g->steps[s - k].trace == g->steps[s].trace &&
		(s == k || g->steps[s - k - 1].trace != g->steps[s].trace);
}

/* took_ns: by step. */
static bool gather(const struct taut_graph *g, const int64_t *took_ns,
	struct steps *steps)
{
	for (uint32_t k = 1;; k++) {
		taut_vec_clear(&steps->of_one);
		for (uint32_t s = 0; s < g->n_steps; s++)
			if (is_kth(g, s, k) && !taut_vec_push(
				&steps->of_one, took_ns[s]))
				return false;
		if (!steps->of_one.count)
			return true;
		if (!taut_vec_push(&steps->medians, median(
			steps->of_one.data, steps->of_one.count)))
			return false;
	}
}

/* Half the width of the interval of 95 %; -1: of less than two steps. */
static taut_status find_half(const struct taut_graph *g,
	const int64_t *took_ns, int64_t *ret_half_ns, struct taut_error *err)
{
	struct steps steps = { .medians = { 0 } };
	bool ok = gather(g, took_ns, &steps);
	size_t n = steps.medians.count;
	int64_t *drawn = ok ? calloc(n + 1, sizeof *drawn) : NULL;

	/* What a prediction is compared with is a median of as many steps,
	 * which scatters as much again: the variances add up. */
	if (drawn)
		*ret_half_ns = n < 2 ? -1 : (int64_t)(1.96 * sqrt(2) *
			widest(steps.medians.data, n, drawn) + 0.5);
	free(drawn);
	taut_vec_free(&steps.medians);
	taut_vec_free(&steps.of_one);
	return drawn ? TAUT_OK : no_memory(err);
}

taut_status tauti_scatter(const struct taut_graph *graph,
	const int64_t *start_ns, const int64_t *end_ns, int64_t *ret_half_ns,
	struct taut_error *err)
{
	size_t room = ((size_t)graph->n_steps + 1) * sizeof(int64_t);
	int64_t *begin_ns = malloc(room), *took_ns = malloc(room);
	taut_status status = begin_ns && took_ns ?
		taut_step_times(graph, start_ns, end_ns, begin_ns, took_ns,
			err) : no_memory(err);

	for (uint32_t s = 0; !status && s < graph->n_steps; s++)
		took_ns[s] -= begin_ns[s];
	if (!status)
		status = find_half(graph, took_ns, ret_half_ns, err);
	free(begin_ns);
	free(took_ns);
	return status;
}

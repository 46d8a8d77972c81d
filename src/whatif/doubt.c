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

/* What the transfers moved and the operations did, were the cores slowed down
 * by so much: the recorded times read once more. */
static taut_status measure(const struct taut_costs *costs,
	struct taut_transfer *transfers, int64_t *dur_ns, double *amount,
	int64_t *latency_ns, struct taut_error *err)
{
	const struct taut_graph *g = costs->graph;
	struct taut_sharing *sharing = NULL;
	taut_status status = taut_sharing_create(
		g, &costs->site, transfers, &sharing, err);

	if (!status && sharing->n_flows != g->n_collectives)
		status = taut_error_set(err, TAUT_EINVAL, -1,
			"a collective has not one flow");
	if (!status)
		status = taut_sharing_measure(g, sharing, g->start_ns,
			g->dur_ns, amount, latency_ns, dur_ns, err);
	for (uint32_t i = 0; !status && i < g->n_collectives; i++) {
		transfers[i].amount = amount[i];
		transfers[i].latency_ns = latency_ns[i];
	}
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

taut_status tauti_costs_vary(const struct taut_costs *costs, double drag,
	struct taut_costs *ret_costs, struct taut_error *err)
{
	const struct taut_graph *g = costs->graph;
	size_t n = (size_t)g->n_collectives + 1;
	struct taut_transfer *transfers = malloc(n * sizeof *transfers);
	int64_t *dur_ns = malloc(((size_t)g->n_ops + 1) * sizeof *dur_ns);
	double *amount = malloc(n * sizeof *amount);
	int64_t *latency_ns = malloc(n * sizeof *latency_ns);
	taut_status status = no_memory(NULL);

	if (drag < 0)
		drag = 0;
	if (transfers && dur_ns && amount && latency_ns) {
		memcpy(transfers, costs->transfers,
			g->n_collectives * sizeof *transfers);
		scale_cores(costs, drag, transfers);
		status = measure(
			costs, transfers, dur_ns, amount, latency_ns, err);
	} else {
		no_memory(err);
	}
	free(amount);
	free(latency_ns);
	if (status) {
		free(transfers);
		free(dur_ns);
		return status;
	}
	*ret_costs = *costs;
	ret_costs->transfers = transfers;
	ret_costs->dur_ns = dur_ns;
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

/* Standard deviation of the median, by drawing the steps again. With few of
 * them that is too small by the root of n / (n - 1). */
static double spread(const int64_t *steps, size_t n, int64_t *drawn)
{
	uint64_t state = 0x9e3779b97f4a7c15u;
	double sum = 0, squares = 0, first = (double)steps[0];

	for (int i = 0; i < RESAMPLES; i++) {
		double value;

		for (size_t k = 0; k < n; k++)
			drawn[k] = steps[next_random(&state) % n];
		value = (double)median(drawn, n) - first;
		sum += value;
		squares += value * value;
	}
	squares = squares / RESAMPLES - sum / RESAMPLES * (sum / RESAMPLES);
	return sqrt(fmax(squares, 0) * (double)n / (double)(n - 1));
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

static bool gather(const struct taut_graph *g, const int64_t *start_ns,
	const int64_t *end_ns, struct steps *steps)
{
	for (uint32_t k = 1;; k++) {
		taut_vec_clear(&steps->of_one);
		for (uint32_t s = 0; s < g->n_steps; s++)
			if (is_kth(g, s, k) && !taut_vec_push(&steps->of_one,
				end_ns[g->steps[s].end_op] -
				start_ns[g->steps[s].begin_op]))
				return false;
		if (!steps->of_one.count)
			return true;
		if (!taut_vec_push(&steps->medians, median(
			steps->of_one.data, steps->of_one.count)))
			return false;
	}
}

taut_status tauti_scatter(const struct taut_graph *graph,
	const int64_t *start_ns, const int64_t *end_ns, int64_t *ret_half_ns,
	struct taut_error *err)
{
	struct steps steps = { .medians = { 0 } };
	bool ok = gather(graph, start_ns, end_ns, &steps);
	size_t n = steps.medians.count;
	int64_t *drawn = ok ? calloc(n + 1, sizeof *drawn) : NULL;

	/* What a prediction is compared with is a median of as many steps,
	 * which scatters as much again: the variances add up. */
	if (drawn)
		*ret_half_ns = n < 2 ? -1 : (int64_t)(1.96 * sqrt(2) *
			spread(steps.medians.data, n, drawn) + 0.5);
	free(drawn);
	taut_vec_free(&steps.medians);
	taut_vec_free(&steps.of_one);
	return drawn ? TAUT_OK : no_memory(err);
}

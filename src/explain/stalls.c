/* stalls.c - slices of the main threads that took far longer than their like.
 *
 * An operator that takes microseconds a thousand times and once takes twenty
 * milliseconds did not compute: its thread did not run (descheduled, waiting
 * for the interpreter lock, page faults). What is usual is the median of the
 * name's slices, to a quarter of an octave, found in one pass. */
#include <stdlib.h>
#include <string.h>

#include "explain/explain.h"

enum {
	STALL_NS = 1000000, /* shorter ones are not worth a name */
	STALL_TIMES = 20,   /* this many times the usual */
	MIN_SLICES = 8,     /* below there is no usual */
	BINS = 192,         /* four an octave, to 2^48 ns */
};

static uint32_t bin_of(int64_t ns)
{
	uint32_t octave = 0;

	if (ns < 4)
		return 0;
	for (int64_t v = ns; v >= 8; v >>= 1)
		octave++;
	octave = 4 * octave + (uint32_t)((ns >> octave) & 3);
	return octave < BINS ? octave : BINS - 1;
}

static int64_t bin_start(uint32_t bin)
{
	return bin ? (int64_t)(4 + bin % 4) << (bin / 4) : 0;
}

static bool counts(const struct tauti_explain *x, uint32_t op)
{
	return x->op_category[op] == TAUT_CAT_HOST_BOUND &&
		tauti_is_host_op(x->g->kind[op]) &&
		x->g->lanes[x->g->lane[op]].is_main;
}

/* Median of a histogram; INT64_MAX where there are too few to tell. */
static int64_t median(const uint32_t *bins)
{
	uint64_t total = 0, seen = 0;

	for (uint32_t i = 0; i < BINS; i++)
		total += bins[i];
	if (total < MIN_SLICES)
		return INT64_MAX;
	for (uint32_t i = 0; i < BINS; i++) {
		seen += bins[i];
		if (2 * seen >= total)
			return bin_start(i);
	}
	return INT64_MAX;
}

bool tauti_is_stall(const struct tauti_explain *x, uint32_t op,
	int64_t *ret_usual)
{
	int64_t usual = x->usual_ns[x->g->name[op]];

	if (!counts(x, op) || x->g->dur_ns[op] < STALL_NS ||
		x->g->dur_ns[op] / STALL_TIMES < usual)
		return false;
	*ret_usual = usual;
	return true;
}

/* Histograms only of the names that have a long slice. */
static bool find_usual(struct tauti_explain *x)
{
	const struct taut_graph *g = x->g;
	uint32_t n_names = taut_names_count(g->names), n = 0;
	uint32_t *place = malloc((n_names + 1) * sizeof *place), *bins;

	if (!place)
		return false;
	memset(place, 0xff, (n_names + 1) * sizeof *place);
	for (uint32_t op = 0; op < g->n_ops; op++)
		if (g->dur_ns[op] >= STALL_NS && counts(x, op) &&
			place[g->name[op]] == TAUT_NONE)
			place[g->name[op]] = n++;
	bins = calloc((size_t)n * BINS + 1, sizeof *bins);
	for (uint32_t op = 0; bins && op < g->n_ops; op++)
		if (place[g->name[op]] != TAUT_NONE && counts(x, op))
			bins[(size_t)place[g->name[op]] * BINS +
				bin_of(g->dur_ns[op])]++;
	for (uint32_t i = 0; bins && i < n_names; i++)
		x->usual_ns[i] = place[i] == TAUT_NONE ? INT64_MAX :
			median(bins + (size_t)place[i] * BINS);
	free(place);
	free(bins);
	return bins != NULL;
}

taut_status tauti_stalls_find(struct tauti_explain *x, struct taut_error *err)
{
	int64_t usual;

	x->usual_ns = malloc((taut_names_count(x->g->names) + 1) *
		sizeof *x->usual_ns);
	if (!x->usual_ns || !find_usual(x))
		return tauti_explain_no_memory(err);
	for (uint32_t op = 0; op < x->g->n_ops; op++)
		if (tauti_is_stall(x, op, &usual)) {
			x->report->stall_count++;
			x->report->stall_ns += x->g->dur_ns[op] - usual;
		}
	return TAUT_OK;
}

/* fit.c - see fit.h. */
#include "stalls/fit.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum {
	MOST_SERVED = 64,
	PLAYED = TAUTI_FIT_SIZES,
	EACH_SERVED = 8, /* each number up to this is tried, of larger ones each fourth */
};

static const double alike = 4; /* two stores: squared deviations of all points differ by less */

/* --- sizes ---------------------------------------------------------------------------*/

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double mean_of(const uint64_t *bytes, uint32_t n)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += (double)bytes[i];
	return sum / n;
}

/* In steps that are prime to all counts: small and large ones then take turns. */
static void mix_up(struct tauti_fit_point *point, const double *sorted)
{
	enum { STEP = 97 };

	for (uint32_t i = 0; i < point->n_sizes; i++)
		point->sizes[i] = sorted[point->n_sizes % STEP ?
			(uint64_t)i * STEP % point->n_sizes : i];
}

void tauti_fit_sizes(struct tauti_fit_point *point, uint64_t *bytes, uint32_t n)
{
	double sorted[TAUTI_FIT_SIZES], mean = mean_of(bytes, n), sum = 0;

	qsort(bytes, n, sizeof *bytes, compare);
	point->n_sizes = n < TAUTI_FIT_SIZES ? n : TAUTI_FIT_SIZES;
	for (uint32_t i = 0; i < point->n_sizes; i++) {
		uint64_t at = ((uint64_t)i * 2 + 1) * n / (2 * point->n_sizes);

		sorted[i] = (double)bytes[at];
		sum += sorted[i];
	}
	for (uint32_t i = 0; i < point->n_sizes && sum > 0; i++)
		sorted[i] *= mean * point->n_sizes / sum;
	mix_up(point, sorted);
}

/* --- a store, played -----------------------------------------------------------------*/

/* Read k begins when read k - n has ended; its bytes come when those of k - 1 have. */
double tauti_fit_reads_s(
	const struct tauti_fit *store, const struct tauti_fit_point *point)
{
	uint32_t n = point->n_threads < store->n_served ? point->n_threads :
		store->n_served;
	double ns_byte = 1e9 / store->rate_bytes_s, free_ns = 0, first_ns = 0;
	double end_ns[MOST_SERVED] = { 0 };

	n = n < 1 ? 1 : n < MOST_SERVED ? n : MOST_SERVED;
	for (uint32_t k = 0, slot = 0, size = 0; k < PLAYED + n; k++) {
		double begin_ns = end_ns[slot] > free_ns ? end_ns[slot] : free_ns;

		free_ns = begin_ns + point->sizes[size] * ns_byte;
		end_ns[slot] = free_ns + store->latency_ns;
		if (k == n - 1)
			first_ns = end_ns[slot];
		slot = slot + 1 < n ? slot + 1 : 0;
		size = size + 1 < point->n_sizes ? size + 1 : 0;
	}
	return PLAYED * 1e9 / (free_ns + store->latency_ns - first_ns);
}

/* --- the nearest -----------------------------------------------------------------------*/

/* What one read takes alone, and how much of that are its bytes: what one thread's speed
 * says, and what that of many does. */
struct guess {
	double log_ns, part; /* of part: log(p / (1 - p)) */
};

struct search {
	const struct tauti_fit_point *points;
	uint32_t n;
	double mean_bytes; /* of the first */
};

static struct tauti_fit store_of(
	const struct search *s, struct guess guess, uint32_t n_served)
{
	double ns = exp(guess.log_ns), part = 1 / (1 + exp(-guess.part));

	return (struct tauti_fit){ .rate_bytes_s = s->mean_bytes / (ns * part) * 1e9,
		.latency_ns = ns * (1 - part), .n_served = n_served };
}

static double distance(const struct search *s, const struct tauti_fit *store)
{
	double sum = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		double d = log(tauti_fit_reads_s(store, &s->points[i]) /
			s->points[i].reads_s) / s->points[i].doubt;

		sum += d * d;
	}
	return sum;
}

static double distance_of(const struct search *s, struct guess guess, uint32_t n_served)
{
	struct tauti_fit store = store_of(s, guess, n_served);

	return distance(s, &store);
}

/* Goes where it gets nearer, in smaller and smaller steps. */
static double descend(const struct search *s, struct guess *guess, uint32_t n_served)
{
	static const struct guess ways[] = { { 1, 0 }, { -1, 0 }, { 0, 2 }, { 0, -2 } };
	double best = distance_of(s, *guess, n_served);

	for (double step = 0.5; step > 1e-3;) {
		bool better = false;

		for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
			struct guess next = { guess->log_ns + step * ways[w].log_ns,
				guess->part + step * ways[w].part };
			double there = fabs(next.part) > 12 ? best :
				distance_of(s, next, n_served);

			if (there >= best)
				continue;
			best = there;
			*guess = next;
			better = true;
		}
		if (!better)
			step /= 2;
	}
	return best;
}

static double best_of(const struct search *s, uint32_t n_served, const struct guess *near,
	struct guess *ret_guess)
{
	const struct guess starts[] = { { near->log_ns, near->part },
		{ near->log_ns, 4 }, { near->log_ns, 0 }, { near->log_ns, -4 } };
	double best = INFINITY;

	for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
		struct guess guess = starts[i];
		double there = descend(s, &guess, n_served);

		if (!(there < best))
			continue;
		best = there;
		*ret_guess = guess;
	}
	return best;
}

static double error_of(const struct search *s, const struct tauti_fit *store)
{
	double sum = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		if (s->points[i].is_part)
			continue;
		sum += fabs(tauti_fit_reads_s(store, &s->points[i]) /
			s->points[i].reads_s - 1);
		n++;
	}
	return n ? sum / n : 0;
}

/* How many are served at a time: from as many as were tried down, fewer only if that is
 * nearer by more than doubt. */
struct tauti_fit tauti_fit_store(const struct tauti_fit_point *points, uint32_t n)
{
	struct search s = { points, n, 0 };
	struct guess best = { log(1e9 / points[0].reads_s), -2 }, guess = best;
	uint32_t most = 1, n_served;
	struct tauti_fit store;
	double nearest;

	for (uint32_t i = 0; i < points[0].n_sizes; i++)
		s.mean_bytes += points[0].sizes[i] / points[0].n_sizes;
	for (uint32_t i = 0; i < n; i++)
		most = points[i].n_threads > most ? points[i].n_threads : most;
	most = most < MOST_SERVED ? most : MOST_SERVED;
	n_served = most;
	nearest = best_of(&s, most, &guess, &best);
	for (uint32_t k = most - 1; k; k--) {
		double there = INFINITY;

		if (k <= EACH_SERVED || k % 4 == 0)
			there = best_of(&s, k, &best, &guess);
		if (!(there + alike < nearest))
			continue;
		nearest = there;
		n_served = k;
		best = guess;
	}
	store = store_of(&s, best, n_served);
	store.error = error_of(&s, &store);
	return store;
}

/* --- bursts ----------------------------------------------------------------------------*/

bool tauti_fit_burst(const double *ns, const double *bytes, uint32_t n,
	double *ret_burst_bytes, double *ret_quick_ns)
{
	double sum_ns = 0, sum_bytes = 0, quick_ns = 0;
	uint32_t n_quick = 0, n_slow = 0;

	for (uint32_t i = 0; i < n; i++) {
		sum_ns += ns[i];
		sum_bytes += bytes[i];
	}
	for (uint32_t i = 0; i < n; i++) {
		n_slow += ns[i] * n > sum_ns;
		if (ns[i] * n * 3 > sum_ns)
			continue;
		n_quick++;
		quick_ns += ns[i];
	}
	if (!n_slow || 2 * n_quick <= n)
		return false;
	*ret_burst_bytes = sum_bytes / n_slow;
	*ret_quick_ns = quick_ns / n_quick;
	return true;
}

/* The numbers of a made-up store are found again from how fast it was read. The store is
 * played event by event, by code that the fit does not have. */
#include "tests/support/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "load/draw.h"
#include "stalls/fit.h"

enum { N_READS = 1500, MOST_THREADS = 32 };

struct store {
	double rate_bytes_s, latency_s;
	uint32_t n_served;
	double spread; /* sizes: mean * (1 - spread .. 1 + spread) */
	double noise;  /* of what is measured */
};

static const double mean_bytes = 110000;
static const uint32_t counts[] = { 1, 2, 4, 8, 16, 32 };
enum { N_COUNTS = sizeof counts / sizeof counts[0] };

/* --- a store ------------------------------------------------------------------------------*/
struct thread {
	enum { ASKS, MOVES, ENDS } state;
	double at, asked, bytes; /* until when it moves or ends */
};

static struct thread *earliest(struct thread *threads, uint32_t n, int state)
{
	struct thread *found = NULL;

	for (uint32_t i = 0; i < n; i++)
		if ((int)threads[i].state == state &&
			(!found || (state == ASKS ? threads[i].asked < found->asked :
				threads[i].at < found->at)))
			found = &threads[i];
	return found;
}

/* Lets the store take the longest asked, if it serves fewer than it can, and moves the bytes
 * of one at a time. */
static void take_next(const struct store *store, struct thread *threads, uint32_t n,
	uint32_t *served, double *free_at, double now)
{
	struct thread *next;

	while (*served < store->n_served && (next = earliest(threads, n, ASKS))) {
		next->state = ENDS;
		*free_at = (*free_at > now ? *free_at : now) +
			next->bytes / store->rate_bytes_s;
		next->at = *free_at + store->latency_s;
		++*served;
	}
}

static double draw_bytes(const struct store *store, struct tauti_draw *draw)
{
	return floor(mean_bytes * tauti_draw_between(
		draw, 1 - store->spread, 1 + store->spread));
}

/* Reads a second of n threads, each of which asks anew when its read has ended. */
static double measure(const struct store *store, uint32_t n, struct tauti_draw *draw,
	uint64_t *bytes, double *seconds)
{
	struct thread threads[MOST_THREADS];
	uint32_t served = 0;
	double now = 0, free_at = 0, begin = 0;

	for (uint32_t i = 0; i < n; i++)
		threads[i] = (struct thread){ ASKS, 0, i * 1e-9, draw_bytes(store, draw) };
	for (uint32_t k = 0; k < N_READS; k++) {
		struct thread *over;

		take_next(store, threads, n, &served, &free_at, now);
		over = earliest(threads, n, ENDS);
		now = over->at;
		served--;
		bytes[k] = (uint64_t)over->bytes;
		seconds[k] = now - over->asked;
		if (k == 2 * n)
			begin = now;
		*over = (struct thread){ ASKS, 0, now, draw_bytes(store, draw) };
	}
	return (N_READS - 1 - 2 * n) / (now - begin);
}

/* --- finding it -----------------------------------------------------------------------------*/

static double noisy(const struct store *store, double value, struct tauti_draw *draw)
{
	return value * tauti_draw_between(draw, 1 - store->noise, 1 + store->noise);
}

/* Small and large, as one thread read them. */
static void add_halves(const struct store *store, struct tauti_draw *draw,
	const uint64_t *bytes, const double *seconds, struct tauti_fit_point *points)
{
	static uint64_t part[N_READS];

	for (int large = 0; large < 2; large++) {
		uint32_t n = 0;
		double sum = 0;

		for (uint32_t i = 1; i < N_READS; i++)
			if ((bytes[i] > mean_bytes) == large) {
				part[n++] = bytes[i];
				sum += seconds[i];
			}
		points[large] = (struct tauti_fit_point){ .n_threads = 1,
			.reads_s = noisy(store, n / sum, draw), .doubt = 0.01,
			.is_part = true };
		tauti_fit_sizes(&points[large], part, n);
	}
}

static struct tauti_fit find(const struct store *store, uint64_t seed)
{
	static struct tauti_fit_point points[TAUTI_FIT_POINTS];
	static uint64_t bytes[N_READS];
	static double seconds[N_READS];
	struct tauti_draw draw = tauti_draw_begin(seed, 1, 2);
	uint32_t n = 0;

	for (size_t i = 0; i < N_COUNTS; i++) {
		double reads_s = measure(store, counts[i], &draw, bytes, seconds);

		points[n] = (struct tauti_fit_point){ .n_threads = counts[i],
			.reads_s = noisy(store, reads_s, &draw), .doubt = 0.01 };
		if (counts[i] == 1 && store->spread > 0) {
			add_halves(store, &draw, bytes, seconds, &points[n + 1]);
			tauti_fit_sizes(&points[n], bytes, N_READS);
			n += 3;
			continue;
		}
		tauti_fit_sizes(&points[n++], bytes, N_READS);
	}
	return tauti_fit_store(points, n);
}

static void assert_near(double a, double b, double share)
{
	if (fabs(a / b - 1) > share)
		print_error("%g is not %g to %g %%\n", a, b, share * 100);
	assert_true(fabs(a / b - 1) <= share);
}

static void a_disk_is_found(void **state)
{
	struct store disk = { 150e6, 0.008, 1, 0.6, 0.01 };

	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct tauti_fit fit = find(&disk, seed);

		assert_int_equal(fit.n_served, 1);
		assert_near(fit.latency_ns, 8e6, 0.05);
		assert_near(fit.rate_bytes_s, 150e6, 0.6); /* 8 % of the time are bytes */
		assert_true(fit.error < 0.03);
	}
}

static void a_fast_store_is_found(void **state)
{
	struct store store = { 900e6, 0.0004, 64, 0.6, 0.01 };

	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct tauti_fit fit = find(&store, seed);

		assert_int_equal(fit.n_served, 32); /* as many as asked */
		assert_near(fit.latency_ns, 4e5, 0.05);
		assert_near(fit.rate_bytes_s, 900e6, 0.03);
		assert_true(fit.error < 0.03);
	}
}

static void what_is_served_at_a_time_is_found(void **state)
{
	struct store store = { 5e9, 0.0009, 6, 0.6, 0.01 };

	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct tauti_fit fit = find(&store, seed);

		assert_in_range(fit.n_served, 5, 7);
		assert_near(fit.latency_ns, 9e5, 0.15);
		assert_true(fit.error < 0.04);
	}
}

/* A limit of so many bytes a second, and nearly no latency. */
static void a_limit_is_found(void **state)
{
	struct store store = { 8e6, 0.0002, 64, 0.6, 0.01 };
	struct tauti_fit fit = find(&store, 1);

	(void)state;
	assert_near(fit.rate_bytes_s, 8e6, 0.02);
	assert_true(fit.latency_ns < 1.5e6);
	assert_true(fit.error < 0.02);
}

/* Of files that are all alike: what they do not tell apart is the rate. */
static void files_that_are_all_alike(void **state)
{
	struct store store = { 600e6, 0.002, 64, 0, 0 };
	struct tauti_fit fit = find(&store, 1);

	(void)state;
	assert_near(fit.rate_bytes_s, 600e6, 0.01);
	assert_near(fit.latency_ns, 2e6, 0.01);
	assert_true(fit.error < 0.002);
}

static void one_point_is_enough_for_a_number(void **state)
{
	static struct tauti_fit_point point = { .n_threads = 1, .reads_s = 100,
		.doubt = 0.01 };
	uint64_t bytes[] = { 1000 };
	struct tauti_fit fit;

	(void)state;
	tauti_fit_sizes(&point, bytes, 1);
	fit = tauti_fit_store(&point, 1);
	assert_near(tauti_fit_reads_s(&fit, &point), 100, 0.001);
	assert_true(isfinite(fit.rate_bytes_s) && fit.latency_ns >= 0);
	assert_int_equal(fit.n_served, 1);
}

static void sizes_keep_their_mean(void **state)
{
	static struct tauti_fit_point point;
	static uint64_t bytes[5000];

	(void)state;
	for (uint32_t n = 1; n <= 5000; n += 311) {
		double sum = 0, mean = 0;

		for (uint32_t i = 0; i < n; i++) {
			bytes[i] = 100 + i * (uint64_t)i;
			sum += (double)bytes[i] / n;
		}
		tauti_fit_sizes(&point, bytes, n);
		assert_int_equal(point.n_sizes, n < TAUTI_FIT_SIZES ? n : TAUTI_FIT_SIZES);
		for (uint32_t i = 0; i < point.n_sizes; i++)
			mean += point.sizes[i] / point.n_sizes;
		assert_near(mean, sum, 1e-9);
	}
}

/* --- bursts -----------------------------------------------------------------------------*/

/* 3 MB at once every 100 ms: 30 reads of a quarter of a ms, and then the rest of it. */
static void a_burst_is_found(void **state)
{
	double ns[300], bytes[300], burst, quick;

	(void)state;
	for (int i = 0; i < 300; i++) {
		bytes[i] = 100000;
		ns[i] = i % 30 < 29 ? 250000 : 92750000;
	}
	assert_true(tauti_fit_burst(ns, bytes, 300, &burst, &quick));
	assert_true(fabs(burst / 3e6 - 1) < 0.01);
	assert_true(fabs(quick / 250000 - 1) < 0.01);
}

/* A line, and one whose reads differ by chance as much as waits of a queue do. */
static void chance_is_no_burst(void **state)
{
	struct tauti_draw draw = tauti_draw_begin(1, 2, 3);
	double ns[300], bytes[300], burst = -1, quick = -1;

	(void)state;
	for (int i = 0; i < 300; i++) {
		bytes[i] = 100000;
		ns[i] = 3000000;
	}
	assert_false(tauti_fit_burst(ns, bytes, 300, &burst, &quick));
	for (int i = 0; i < 300; i++)
		ns[i] = -3e6 * log(1 - tauti_draw_unit(&draw));
	assert_false(tauti_fit_burst(ns, bytes, 300, &burst, &quick));
	assert_true(burst == -1 && quick == -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_disk_is_found),
		cmocka_unit_test(a_fast_store_is_found),
		cmocka_unit_test(what_is_served_at_a_time_is_found),
		cmocka_unit_test(a_limit_is_found),
		cmocka_unit_test(files_that_are_all_alike),
		cmocka_unit_test(one_point_is_enough_for_a_number),
		cmocka_unit_test(sizes_keep_their_mean),
		cmocka_unit_test(a_burst_is_found),
		cmocka_unit_test(chance_is_no_burst),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

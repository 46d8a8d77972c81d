#include "tests/support/unit.h"

#include <math.h>
#include <stdlib.h>

#include <taut/cost.h>

#include "tests/support/alloc_fail.h"

static struct taut_line fit(const double *x, const double *y, uint32_t n)
{
	struct taut_line line;
	struct taut_error err;

	if (taut_line_fit(x, y, n, &line, &err))
		fail_msg("%s", err.message);
	assert_int_equal(line.n, n);
	return line;
}

static void near(double got, double expected, double within)
{
	if (!(fabs(got - expected) <= within))
		fail_msg("%.17g, expected %.17g", got, expected);
}

static double sum_of(const double *x, const double *y, uint32_t n, double a,
	double b)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += fabs(y[i] - a - b * x[i]);
	return sum;
}

/* By trying all lines through two points, through one point and the origin, and
 * flat ones: one of them is best. */
static double least_sum(const double *x, const double *y, uint32_t n)
{
	double least = INFINITY;

	for (uint32_t i = 0; i < n; i++) {
		least = fmin(least, sum_of(x, y, n, y[i], 0));
		if (x[i] > 0)
			least = fmin(least,
				sum_of(x, y, n, 0, y[i] / x[i]));
		for (uint32_t k = 0; k < i; k++) {
			double b = (y[i] - y[k]) / (x[i] - x[k]);
			double a = y[i] - b * x[i];

			if (x[i] != x[k] && b >= 0 && a >= 0)
				least = fmin(least, sum_of(x, y, n, a, b));
		}
	}
	return least;
}

static void test_exact_line(void **state)
{
	(void)state;
	double x[] = { 4, 1e3, 1e6, 25e6, 7e5 }, y[5];
	for (int i = 0; i < 5; i++)
		y[i] = 120e3 + 2.5 * x[i];
	struct taut_line line = fit(x, y, 5);
	near(line.alpha, 120e3, 1e-6);
	near(line.beta, 2.5, 1e-12);
	near(line.scatter, 0, 1e-12);
	near(line.beta_error, 0, 1e-3);
}

static void test_outliers_do_not_move_it(void **state)
{
	(void)state;
	double x[21], y[21];
	for (int i = 0; i < 21; i++) {
		x[i] = 1000.0 * (i + 1);
		y[i] = 50 + 3 * x[i];
	}
	y[3] *= 40;
	y[11] *= 100;
	y[20] = 0;
	y[7] = 1;
	struct taut_line line = fit(x, y, 21);
	near(line.alpha, 50, 1e-6);
	near(line.beta, 3, 1e-9);
}

static void test_never_below_zero(void **state)
{
	(void)state;
	/* the best line of any sign would be y = 2x - 3, and y = 9 - x */
	double x[] = { 2, 3, 4, 5 }, rising[] = { 1, 3, 5, 7 };
	double falling[] = { 7, 6, 5, 4 };
	struct taut_line line = fit(x, rising, 4);
	near(line.alpha, 0, 0);
	near(sum_of(x, rising, 4, line.alpha, line.beta),
		least_sum(x, rising, 4), 1e-12);
	line = fit(x, falling, 4);
	near(line.beta, 0, 0);
	near(sum_of(x, falling, 4, line.alpha, line.beta),
		least_sum(x, falling, 4), 1e-12);
}

static double noise(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state / 4294967296.0;
}

/* Points in general position, points of few sizes, and points on a coarse grid,
 * where many lines are as good. */
static void test_is_the_least(void **state)
{
	(void)state;
	uint32_t seed = 7;
	for (int round = 0; round < 1500; round++) {
		double x[24], y[24];
		uint32_t n = 3 + round % 22;
		for (uint32_t i = 0; i < n; i++) {
			x[i] = 1e6 * noise(&seed);
			if (round % 3)
				x[i] = 1 + floor(x[i] * 4e-6);
			y[i] = 5 * noise(&seed) + 2 * x[i] * noise(&seed);
			if (round % 3 == 2)
				y[i] = floor(y[i]);
		}
		struct taut_line line = fit(x, y, n);
		int sizes = 0;
		for (uint32_t i = 0; i < n; i++) {
			uint32_t k = 0;
			while (x[k] != x[i])
				k++;
			sizes += k == i;
		}
		if (sizes < 3)
			continue;
		double least = least_sum(x, y, n);
		near(sum_of(x, y, n, line.alpha, line.beta), least,
			1e-9 * (1 + least));
	}
}

static void test_one_size_only(void **state)
{
	(void)state;
	double x[] = { 100, 100, 100 }, y[] = { 210, 200, 190 };
	struct taut_line line = fit(x, y, 3);
	near(line.alpha, 0, 0);
	near(line.alpha_error, 190, 0);
	near(line.beta, 2, 1e-12);
	assert_true(line.beta_error > 0.01 && line.beta_error < 0.1);
	near(line.scatter, 0.05, 1e-12);
	line = fit(x, y, 1);
	near(line.beta, 2.1, 1e-12);
	near(line.alpha_error, 210, 0);
}

static void test_two_sizes(void **state)
{
	(void)state;
	double x[] = { 100, 200, 200 }, y[] = { 150, 250, 250 };
	struct taut_line line = fit(x, y, 3);
	near(line.alpha, 0, 0);
	near(line.beta, 1.25, 1e-12);
	near(line.alpha_error, 150, 0);
}

static void test_no_size_at_all(void **state)
{
	(void)state;
	double x[] = { 0, 0, 0, 0, 0 }, y[] = { 3, 9, 5, 4, 700 };
	struct taut_line line = fit(x, y, 5);
	near(line.alpha, 5, 0);
	near(line.beta, 0, 0);
	line = fit(x, y, 0);
	near(line.alpha + line.beta + line.alpha_error, 0, 0);
	double zero[] = { 0, 0, 0 }, some[] = { 1, 2, 3 };
	line = fit(some, zero, 3);
	near(line.alpha + line.beta + line.scatter, 0, 0);
}

static void test_what_is_no_measurement(void **state)
{
	(void)state;
	double bad[] = { -1, NAN, INFINITY }, good = 1;
	for (int i = 0; i < 3; i++) {
		struct taut_line line;
		struct taut_error err;
		assert_int_equal(taut_line_fit(&bad[i], &good, 1, &line, &err),
			TAUT_EINVAL);
		assert_int_equal(taut_line_fit(&good, &bad[i], 1, &line, &err),
			TAUT_EINVAL);
	}
}

/* The errors say how far fits of other draws of the same noise lie apart. */
static void test_errors_tell_the_scatter(void **state)
{
	(void)state;
	enum { DRAWS = 60, N = 80 };
	double mean = 0, square = 0, told = 0;
	uint32_t seed = 99;
	for (int d = 0; d < DRAWS; d++) {
		double x[N], y[N];
		for (int i = 0; i < N; i++) {
			x[i] = 1000 * noise(&seed);
			y[i] = 100 + x[i] + 60 * (noise(&seed) - 0.5);
		}
		struct taut_line line = fit(x, y, N);
		mean += line.beta / DRAWS;
		square += line.beta * line.beta / DRAWS;
		told += line.beta_error / DRAWS;
	}
	double really = sqrt(square - mean * mean);
	near(mean, 1, 0.01);
	assert_true(told > really * 0.6 && told < really * 1.7);
}

static void test_the_same_every_time(void **state)
{
	(void)state;
	enum { N = 5000 };
	double *x = malloc(2 * N * sizeof *x), *y = x + N;
	uint32_t seed = 3;
	assert_non_null(x);
	for (int i = 0; i < N; i++) {
		x[i] = 1e6 * noise(&seed);
		y[i] = 1e4 + x[i] * (0.8 + 0.4 * noise(&seed));
	}
	struct taut_line a = fit(x, y, N), b = fit(x, y, N);
	assert_memory_equal(&a, &b, sizeof a);
	near(a.beta, 1, 0.02);
	free(x);
}

static void test_no_memory(void **state)
{
	(void)state;
	double x[] = { 1, 2, 3, 4 }, y[] = { 2, 4, 7, 8 };
	struct taut_line line;
	struct taut_error err;
	taut_status status = TAUT_ENOMEM;
	for (uint32_t n = 1; n <= 4; n += 3)
		for (long k = 0; k < 1000; k++) {
			alloc_fail_after(k);
			status = taut_line_fit(x, y, n, &line, &err);
			alloc_fail_never();
			if (!status)
				break;
			assert_int_equal(status, TAUT_ENOMEM);
		}
	assert_int_equal(status, TAUT_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exact_line),
		cmocka_unit_test(test_outliers_do_not_move_it),
		cmocka_unit_test(test_never_below_zero),
		cmocka_unit_test(test_is_the_least),
		cmocka_unit_test(test_one_size_only),
		cmocka_unit_test(test_two_sizes),
		cmocka_unit_test(test_no_size_at_all),
		cmocka_unit_test(test_what_is_no_measurement),
		cmocka_unit_test(test_errors_tell_the_scatter),
		cmocka_unit_test(test_the_same_every_time),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

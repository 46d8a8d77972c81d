/* Is the deal as good as chance? Each statistic has a distribution that is known for
 * permutations that are all equally likely; a test fails where its probability, on either
 * side, is below 1e-6. The seeds are fixed, some 30 numbers are looked at: a good deal
 * would have failed with a probability of 6e-5 when the seeds were chosen, and cannot
 * since. Two bad deals have to fail. */
#include "tests/support/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "load/draw.h"
#include "load/order.h"

#define UNLIKELY 1e-6

typedef uint64_t (*deal_fn)(uint64_t n, uint64_t epoch, uint64_t position);

static uint64_t ours(uint64_t n, uint64_t epoch, uint64_t position)
{
	struct tauti_deal deal = { n, 2026, true };

	return tauti_deal_item(&deal, epoch, position);
}

/* Of seed 0, 1, 2, ..., all in their first epoch. */
static uint64_t ours_by_seed(uint64_t n, uint64_t epoch, uint64_t position)
{
	struct tauti_deal deal = { n, epoch, true };

	return tauti_deal_item(&deal, 0, position);
}

/* a * position + b, n is a prime: each item is at each position as often as at others. */
static uint64_t affine(uint64_t n, uint64_t epoch, uint64_t position)
{
	struct tauti_draw draw = tauti_draw_begin(1, epoch, 0);
	uint64_t a = 1 + tauti_draw_below(&draw, n - 1);

	return (a * position + tauti_draw_below(&draw, n)) % n;
}

/* As a Feistel network would: odd ones are made even by a last swap. n <= 8. */
static uint64_t even(uint64_t n, uint64_t epoch, uint64_t position)
{
	uint64_t items[8], odd = 0;

	for (uint64_t i = 0; i < n; i++)
		items[i] = ours(n, epoch, i);
	for (uint64_t i = 0; i < n; i++)
		for (uint64_t j = i + 1; j < n; j++)
			odd ^= items[i] > items[j];
	if (odd && position + 2 >= n)
		return items[2 * n - 3 - position];
	return items[position];
}

/* --- what is likely ----------------------------------------------------------------*/

/* Upper tail of the gamma distribution: a series below its middle, a continued fraction
 * (Lentz) above. */
static double gamma_tail(double a, double x)
{
	double scale = exp(a * log(x) - x - lgamma(a)), sum = 1 / a, term = sum;
	double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;

	if (x < a + 1) {
		for (int n = 1; n < 100000 && term > sum * 1e-15; n++) {
			term *= x / (a + n);
			sum += term;
		}
		return 1 - scale * sum;
	}
	for (int n = 1; n < 100000; n++) {
		double an = -n * (n - a), step;

		b += 2;
		d = 1 / (an * d + b);
		c = b + an / c;
		step = d * c;
		h *= step;
		if (fabs(step - 1) < 1e-15)
			break;
	}
	return scale * h;
}

static double chi_tail(double chi2, double freedom)
{
	return chi2 <= 0 ? 1 : gamma_tail(freedom / 2, chi2 / 2);
}

static double normal_tail(double z)
{
	return erfc(z / sqrt(2)) / 2;
}

static double chi_of(const uint32_t *seen, const double *expected, size_t n)
{
	double chi2 = 0;

	for (size_t i = 0; i < n; i++)
		chi2 += (seen[i] - expected[i]) * (seen[i] - expected[i]) /
			expected[i];
	return chi2;
}

static double chi_of_equal(const uint32_t *seen, size_t n, double each)
{
	double chi2 = 0;

	for (size_t i = 0; i < n; i++)
		chi2 += (seen[i] - each) * (seen[i] - each) / each;
	return chi2;
}

static bool is_likely(double tail)
{
	return tail > UNLIKELY && tail < 1 - UNLIKELY;
}

static void expect_likely(const char *what, uint64_t n, double tail)
{
	if (!is_likely(tail))
		fail_msg("%s, n %llu: tail probability %g", what,
			(unsigned long long)n, tail);
}

static void test_tails(void **state)
{
	(void)state;
	for (double x = 0.5; x < 60; x *= 1.3) {
		double two = exp(-x / 2), four = two * (1 + x / 2);

		assert_true(fabs(chi_tail(x, 2) - two) <= 1e-11);
		assert_true(fabs(chi_tail(x, 4) - four) <= 1e-11);
		assert_true(fabs(chi_tail(x, 1) - 2 * normal_tail(sqrt(x))) <=
			1e-11);
	}
	/* Near normal when there is much freedom: median n - 2/3, next term 1/n. */
	assert_true(fabs(chi_tail(5039 - 2.0 / 3, 5039) - 0.5) < 1e-4);
}

/* --- all permutations --------------------------------------------------------------*/

static uint32_t number_of(const uint64_t *items, uint64_t n)
{
	uint32_t number = 0;

	for (uint64_t i = 0; i < n; i++) {
		uint32_t less = 0;

		for (uint64_t j = i + 1; j < n; j++)
			less += items[j] < items[i];
		number = number * (uint32_t)(n - i) + less;
	}
	return number;
}

static double tail_of_permutations(deal_fn deal, uint64_t n, uint32_t each)
{
	uint32_t n_kinds = 1, *seen;
	uint64_t items[8];
	double tail;

	for (uint32_t i = 2; i <= n; i++)
		n_kinds *= i;
	seen = calloc(n_kinds, sizeof *seen);
	assert_non_null(seen);
	for (uint64_t epoch = 0; epoch < (uint64_t)n_kinds * each; epoch++) {
		for (uint64_t i = 0; i < n; i++)
			items[i] = deal(n, epoch, i);
		seen[number_of(items, n)]++;
	}
	tail = chi_tail(chi_of_equal(seen, n_kinds, each), n_kinds - 1);
	free(seen);
	return tail;
}

static void test_all_permutations(void **state)
{
	(void)state;
	for (uint64_t n = 2; n <= 6; n++) {
		expect_likely("permutations of epochs", n,
			tail_of_permutations(ours, n, 200));
		expect_likely("permutations of seeds", n,
			tail_of_permutations(ours_by_seed, n, 200));
	}
	expect_likely("permutations of epochs", 7,
		tail_of_permutations(ours, 7, 30));
	assert_false(is_likely(tail_of_permutations(affine, 5, 200)));
	assert_false(is_likely(tail_of_permutations(even, 5, 200)));
}

/* --- items and positions -----------------------------------------------------------*/

/* A sum of permutation matrices: its deviations, each divided by epochs / (n - 1), are as
 * (n - 1)^2 free squares. */
static double tail_of_matrix(deal_fn deal, uint64_t n, uint32_t epochs)
{
	uint32_t *seen = calloc(n * n, sizeof *seen);
	double each = (double)epochs / (double)n, chi2, free_n = (double)n - 1;

	assert_non_null(seen);
	for (uint64_t epoch = 0; epoch < epochs; epoch++)
		for (uint64_t i = 0; i < n; i++)
			seen[i * n + deal(n, epoch, i)]++;
	chi2 = chi_of_equal(seen, n * n, each) * free_n / (double)n;
	free(seen);
	return chi_tail(chi2, free_n * free_n);
}

static void test_every_item_everywhere(void **state)
{
	(void)state;
	expect_likely("items at positions", 13, tail_of_matrix(ours, 13, 20000));
	expect_likely("items at positions", 64, tail_of_matrix(ours, 64, 10000));
	expect_likely("items at positions of seeds", 64,
		tail_of_matrix(ours_by_seed, 64, 10000));
}

/* One ordered pair of neighbours each epoch: n (n - 1) kinds, all alike. */
static double tail_of_neighbours(deal_fn deal, uint64_t n, uint32_t each)
{
	uint64_t epochs = n * (n - 1) * each;
	uint32_t *seen = calloc(n * (n - 1), sizeof *seen);
	double tail;

	assert_non_null(seen);
	for (uint64_t epoch = 0; epoch < epochs; epoch++) {
		uint64_t at = epoch % (n - 1);
		uint64_t a = deal(n, epoch, at), b = deal(n, epoch, at + 1);

		seen[a * (n - 1) + b - (b > a)]++;
	}
	tail = chi_tail(chi_of_equal(seen, n * (n - 1), each),
		(double)(n * (n - 1)) - 1);
	free(seen);
	return tail;
}

static void test_neighbours(void **state)
{
	(void)state;
	expect_likely("neighbours", 24, tail_of_neighbours(ours, 24, 200));
	expect_likely("neighbours", 37, tail_of_neighbours(ours, 37, 100));
}

/* One position each epoch, all equally often: 2 (n - d) / n^2 lie d > 0 away. */
static void test_displacement(void **state)
{
	enum { N = 120, EPOCHS = 120 * 2000 };
	uint32_t seen[N] = { 0 };
	double expected[N];

	(void)state;
	for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
		uint64_t at = epoch % N, item = ours(N, epoch, at);

		seen[item > at ? item - at : at - item]++;
	}
	for (int d = 0; d < N; d++)
		expected[d] = (d ? 2.0 * (N - d) : N) / (N * N) * EPOCHS;
	/* The rarest kind is to be seen some 30 times at least. */
	assert_true(expected[N - 1] > 30);
	expect_likely("displacement", N,
		chi_tail(chi_of(seen, expected, N), N - 1));
}

/* How many items stay where they are is Poisson of 1 (to 1 / n!). */
static double tail_of_fixed(deal_fn deal, uint64_t n, uint32_t epochs)
{
	enum { KINDS = 7 };
	uint32_t seen[KINDS] = { 0 };
	double expected[KINDS], left = epochs, of_this = epochs * exp(-1);

	for (uint64_t epoch = 0; epoch < epochs; epoch++) {
		uint32_t fixed = 0;

		for (uint64_t i = 0; i < n; i++)
			fixed += deal(n, epoch, i) == i;
		seen[fixed < KINDS ? fixed : KINDS - 1]++;
	}
	for (int i = 0; i < KINDS; i++) {
		expected[i] = i < KINDS - 1 ? of_this : left;
		left -= of_this;
		of_this /= i + 1;
	}
	return chi_tail(chi_of(seen, expected, KINDS), KINDS - 1);
}

static void test_fixed_points(void **state)
{
	(void)state;
	expect_likely("fixed points", 30, tail_of_fixed(ours, 30, 40000));
	expect_likely("fixed points", 150, tail_of_fixed(ours, 150, 12000));
	assert_false(is_likely(tail_of_fixed(affine, 31, 40000)));
}

/* --- within a large permutation ----------------------------------------------------*/

enum { LARGE = 100000 };

static double middle(uint64_t item)
{
	return (double)item - (LARGE - 1) / 2.0;
}

/* Over a circle: its mean is -1 / (n - 1), its variance near 1 / n. */
static double serial(const uint64_t *items, uint64_t lag)
{
	double sum = 0, squares = 0;

	for (uint64_t i = 0; i < LARGE; i++) {
		sum += middle(items[i]) * middle(items[(i + lag) % LARGE]);
		squares += middle(items[i]) * middle(items[i]);
	}
	return normal_tail((sum / squares + 1.0 / (LARGE - 1)) *
		sqrt(LARGE));
}

/* Of two permutations: mean 0, variance 1 / (n - 1). */
static double correlation(const uint64_t *a, const uint64_t *b)
{
	double sum = 0, squares = 0;

	for (uint64_t i = 0; i < LARGE; i++) {
		sum += middle(a[i]) * middle(b[i]);
		squares += middle(a[i]) * middle(a[i]);
	}
	return normal_tail(sum / squares * sqrt(LARGE - 1.0));
}

/* Runs up and down: (2n - 1) / 3 of them, variance (16n - 29) / 90. */
static double runs(const uint64_t *items)
{
	uint64_t n_runs = 1;

	for (uint64_t i = 2; i < LARGE; i++)
		n_runs += (items[i] > items[i - 1]) !=
			(items[i - 1] > items[i - 2]);
	return normal_tail(((double)n_runs - (2.0 * LARGE - 1) / 3) /
		sqrt((16.0 * LARGE - 29) / 90));
}

static void test_large(void **state)
{
	static const uint64_t lags[] = { 1, 2, 3, 64, 1000 };
	uint64_t *now = calloc(LARGE, sizeof *now);
	uint64_t *before = calloc(LARGE, sizeof *before);

	(void)state;
	assert_non_null(now);
	assert_non_null(before);
	for (uint64_t epoch = 0; epoch < 3; epoch++) {
		for (uint64_t i = 0; i < LARGE; i++)
			now[i] = ours(LARGE, epoch, i);
		for (size_t i = 0; i < sizeof lags / sizeof lags[0]; i++)
			expect_likely("serial correlation", lags[i],
				serial(now, lags[i]));
		expect_likely("runs", epoch, runs(now));
		if (epoch)
			expect_likely("correlation of epochs", epoch,
				correlation(now, before));
		memcpy(before, now, LARGE * sizeof *now);
	}
	for (uint64_t i = 0; i < LARGE; i++)
		now[i] = i;
	assert_false(is_likely(serial(now, 1)));
	assert_false(is_likely(runs(now)));
	free(now);
	free(before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tails),
		cmocka_unit_test(test_all_permutations),
		cmocka_unit_test(test_every_item_everywhere),
		cmocka_unit_test(test_neighbours),
		cmocka_unit_test(test_displacement),
		cmocka_unit_test(test_fixed_points),
		cmocka_unit_test(test_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

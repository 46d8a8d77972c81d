#include "tests/support/unit.h"

#include <math.h>
#include <string.h>

#include "graph/pairs.h"
#include "tests/support/alloc_fail.h"

static void solve(const struct tauti_pairs *p, double *x, double *open)
{
	assert_true(tauti_pairs_solve(p, x, open));
}

static int near(double a, double b)
{
	return fabs(a - b) < 0.01;
}

/* x1 is in [3, 9] by two bounds: the middle, and half the room. */
static void test_two_sides(void **state)
{
	static const struct tauti_pair_bound bounds[] = { { 0, 1, 3 },
		{ 1, 0, -9 } };
	static const bool fixed[] = { true, false };
	const struct tauti_pairs p = { 2, fixed, bounds, 2 };
	double x[2], open[2];

	(void)state;
	solve(&p, x, open);
	assert_true(near(x[0], 0) && near(x[1], 6));
	assert_true(near(open[1], 3));
}

/* 0 -> 1 -> 2 -> 0 with true x = 10, -4 and 5 us on each way. */
static void test_ring(void **state)
{
	static const struct tauti_pair_bound bounds[] = { { 0, 1, 10 - 5 },
		{ 1, 2, -14 - 5 }, { 2, 0, 4 - 5 } };
	static const bool fixed[] = { true, false, false };
	const struct tauti_pairs p = { 3, fixed, bounds, 3 };
	double x[3], open[3];

	(void)state;
	solve(&p, x, open);
	assert_true(near(x[1], 10) && near(x[2], -4));
	assert_true(near(open[1], 5));
}

/* Bounds that contradict each other by 8 are broken by 4 each. */
static void test_contradiction(void **state)
{
	static const struct tauti_pair_bound bounds[] = { { 0, 1, 9 },
		{ 1, 0, -1 } };
	static const bool fixed[] = { true, false };
	const struct tauti_pairs p = { 2, fixed, bounds, 2 };
	double x[2], open[2];

	(void)state;
	solve(&p, x, open);
	assert_true(near(x[1], 5) && near(open[1], 4));
}

static void test_one_side_and_none(void **state)
{
	static const struct tauti_pair_bound bounds[] = { { 0, 1, 3 },
		{ 2, 0, 7 }, { 0, 3, -2 } };
	static const bool fixed[] = { true, false, false, false, false };
	const struct tauti_pairs p = { 5, fixed, bounds, 3 };
	double x[5], open[5];

	(void)state;
	solve(&p, x, open);
	assert_true(near(x[1], 3) && near(x[2], -7));
	assert_true(near(x[3], 0) && near(x[4], 0));
	for (int i = 1; i < 5; i++)
		assert_true(isinf(open[i]));
}

static void test_no_memory(void **state)
{
	static const bool fixed[] = { true };
	const struct tauti_pairs p = { 1, fixed, NULL, 0 };
	double x[1], open[1];
	bool solved;

	(void)state;
	alloc_fail_after(0);
	solved = tauti_pairs_solve(&p, x, open);
	alloc_fail_never();
	assert_false(solved);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_sides),
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_contradiction),
		cmocka_unit_test(test_one_side_and_none),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

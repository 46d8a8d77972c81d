/* Ranks that are made here have room for their buffers, or are not made. */
#include "tests/support/unit.h"

#include <string.h>

#include "cli/bench.h"

#define GIB (UINT64_C(1) << 30)

static void check(const struct bench_plan *plan, uint32_t n_ranks, uint64_t needed)
{
	struct bench_place place = { .n_ranks = n_ranks };
	struct taut_error err = { .message = "" };

	assert_int_equal(bench_find_room(plan, &place, needed, &err), TAUT_OK);
	assert_int_equal(bench_find_room(plan, &place, 2 * needed, &err), TAUT_OK);
	assert_int_equal(bench_find_room(plan, &place, needed * 9 / 10, &err),
		TAUT_ENOMEM);
	assert_non_null(strstr(err.message, "give --sizes or --ranks"));
	/* Nobody knows. */
	assert_int_equal(bench_find_room(plan, &place, 0, &err), TAUT_OK);
	/* Ranks of a launcher are on hosts of which this one knows nothing. */
	place.launched = true;
	assert_int_equal(bench_find_room(plan, &place, 1, &err), TAUT_OK);
}

static void test_room(void **state)
{
	struct bench_plan plan = { .sizes = { 4, GIB / 4 }, .n_sizes = 2 };

	(void)state;
	check(&plan, 2, GIB);
	check(&plan, 32, 16 * GIB);
	plan.in_place = true;
	check(&plan, 32, 8 * GIB);
	/* What comes lies beside the buffers by some ways. */
	plan.tune = true;
	check(&plan, 32, 16 * GIB);
	plan.in_place = false;
	plan.sizes[1] = UINT64_C(1) << 40;
	check(&plan, 256, UINT64_C(3) << 48);
}

static void test_message(void **state)
{
	struct bench_plan plan = { .sizes = { 500000000 }, .n_sizes = 1 };
	struct bench_place place = { .n_ranks = 8 };
	struct taut_error err = { .message = "" };

	(void)state;
	assert_int_equal(bench_find_room(&plan, &place, 2000000000, &err),
		TAUT_ENOMEM);
	assert_string_equal(err.message, "bench: needs 8.0 GB for the buffers of 8 "
		"ranks, and 2.0 GB are left: give --sizes or --ranks");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

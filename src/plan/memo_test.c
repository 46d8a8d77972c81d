/* What was seen: states with one hash stay apart, and none is lost as the table
 * grows. */
#include "plan/memo.h"

#include "tests/support/alloc_fail.h"
#include "tests/support/unit.h"

static void add(struct tauti_memo *memo, uint64_t hash, uint64_t a, uint64_t b)
{
	const uint64_t key[2] = { a, b };
	const struct tauti_cost cost = { (int64_t)(a * 1000 + b), 1, 2 };

	assert_true(tauti_memo_add(memo, hash, key, &cost));
}

static int64_t step_of(
	const struct tauti_memo *memo, uint64_t hash, uint64_t a, uint64_t b)
{
	const uint64_t key[2] = { a, b };
	const struct tauti_cost *cost = tauti_memo_find(memo, hash, key);

	return cost ? cost->step_ns : -1;
}

/* No two sites share a bit, and none lies in two words. */
static void test_lay_out(void **state)
{
	uint8_t n_options[200];
	uint32_t first[200], n_words;
	uint64_t taken[64] = { 0 };

	(void)state;
	for (uint32_t i = 0; i < 200; i++)
		n_options[i] = (uint8_t)(1 + i * 37 % 255);
	n_words = (uint32_t)tauti_memo_lay_out(n_options, 200, first);
	assert_true(n_words <= 64);
	for (uint32_t i = 0; i < 200; i++)
		for (uint32_t bit = 0; 1u << bit < n_options[i]; bit++) {
			uint32_t at = first[i] % 64 + bit;

			assert_true(at < 64 && first[i] / 64 < n_words);
			assert_false(taken[first[i] / 64] >> at & 1);
			taken[first[i] / 64] |= UINT64_C(1) << at;
		}
}

/* Every state has the same hash, and the first words are the same, too. */
static void test_collisions(void **state)
{
	struct tauti_memo memo = { .n_words = 2, .most = 1000 };

	(void)state;
	assert_int_equal(step_of(&memo, 7, 1, 0), -1);
	for (uint64_t b = 0; b < 300; b++)
		add(&memo, 7, 1, b);
	for (uint64_t b = 0; b < 300; b++)
		assert_int_equal(step_of(&memo, 7, 1, b), 1000 + b);
	assert_int_equal(step_of(&memo, 7, 2, 0), -1);
	assert_int_equal(step_of(&memo, 8, 1, 0), -1);
	tauti_memo_fini(&memo);
}

/* The last slot is followed by the first. */
static void test_around(void **state)
{
	struct tauti_memo memo = { .n_words = 2, .most = 1000 };

	(void)state;
	for (uint64_t b = 0; b < 20; b++)
		add(&memo, UINT64_MAX - b % 2, 3, b);
	for (uint64_t b = 0; b < 20; b++)
		assert_int_equal(
			step_of(&memo, UINT64_MAX - b % 2, 3, b), 3000 + b);
	tauti_memo_fini(&memo);
}

static void test_most(void **state)
{
	struct tauti_memo memo = { .n_words = 2, .most = 10 };

	(void)state;
	for (uint64_t b = 0; b < 20; b++)
		add(&memo, b, 1, b);
	assert_int_equal(memo.entries.count, 10);
	assert_int_equal(step_of(&memo, 9, 1, 9), 1009);
	assert_int_equal(step_of(&memo, 10, 1, 10), -1);
	tauti_memo_fini(&memo);
}

/* What could not be added is not there, and everything else is. */
static void test_no_memory(void **state)
{
	const struct tauti_cost cost = { 5, 1, 2 };
	const uint64_t key[2] = { 9, 9 };

	(void)state;
	for (long n = 0; n < 3; n++) {
		struct tauti_memo memo = { .n_words = 2, .most = 1000 };
		bool added;

		alloc_fail_after(n);
		added = tauti_memo_add(&memo, 1, key, &cost);
		alloc_fail_never();
		assert_false(added);
		assert_null(tauti_memo_find(&memo, 1, key));
		assert_true(tauti_memo_add(&memo, 1, key, &cost));
		assert_int_equal(tauti_memo_find(&memo, 1, key)->step_ns, 5);
		tauti_memo_fini(&memo);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lay_out),
		cmocka_unit_test(test_collisions),
		cmocka_unit_test(test_around),
		cmocka_unit_test(test_most),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

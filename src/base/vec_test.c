#include "tests/support/unit.h"

#include <stdlib.h>

#include "base/vec.h"
#include "tests/support/alloc_fail.h"

struct row {
	int64_t start;
	char kind;
};

static void test_push_keeps_values(void **state)
{
	(void)state;
	TAUT_VEC(struct row) rows = { 0 };
	for (int i = 0; i < 100000; i++)
		assert_true(
			taut_vec_push(&rows, ((struct row){ i * 3, (char)i })));
	assert_int_equal(rows.count, 100000);
	for (int i = 0; i < 100000; i++) {
		assert_int_equal(rows.data[i].start, i * 3);
		assert_int_equal(rows.data[i].kind, (char)i);
	}
	taut_vec_free(&rows);
	assert_null(rows.data);
	assert_int_equal(rows.count + rows.capacity, 0);
}

static void test_reserve_then_no_more_requests(void **state)
{
	(void)state;
	TAUT_VEC(uint32_t) ids = { 0 };
	assert_true(taut_vec_reserve(&ids, 1000));
	assert_true(ids.capacity >= 1000);
	alloc_fail_after(0);
	for (uint32_t i = 0; i < 1000; i++)
		assert_true(taut_vec_push(&ids, i));
	alloc_fail_never();
	taut_vec_free(&ids);
}

static void test_trim_gives_back(void **state)
{
	(void)state;
	TAUT_VEC(int) few = { 0 };
	assert_true(taut_vec_reserve(&few, 500));
	assert_true(taut_vec_push(&few, 7));
	taut_vec_trim(&few);
	assert_int_equal(few.capacity, 1);
	assert_int_equal(few.data[0], 7);
	taut_vec_clear(&few);
	taut_vec_trim(&few);
	assert_null(few.data);
	assert_int_equal(few.capacity, 0);
}

static void test_failure_changes_nothing(void **state)
{
	(void)state;
	TAUT_VEC(int) numbers = { 0 };
	alloc_fail_after(0);
	assert_false(taut_vec_push(&numbers, 1));
	alloc_fail_never();
	assert_null(numbers.data);
	assert_true(taut_vec_push(&numbers, 1));
	while (numbers.count < numbers.capacity)
		assert_true(taut_vec_push(&numbers, 2));
	size_t count = numbers.count;
	alloc_fail_after(0);
	assert_false(taut_vec_push(&numbers, 3));
	taut_vec_trim(&numbers);
	alloc_fail_never();
	assert_int_equal(numbers.count, count);
	assert_int_equal(numbers.data[0], 1);
	taut_vec_free(&numbers);
}

static void test_sizes_that_overflow(void **state)
{
	(void)state;
	TAUT_VEC(uint64_t) words = { 0 };
	assert_true(taut_vec_push(&words, 1));
	assert_false(taut_vec_reserve(&words, SIZE_MAX));
	assert_false(taut_vec_reserve(&words, SIZE_MAX / 4));
	assert_int_equal(words.count, 1);
	assert_int_equal(words.data[0], 1);
	taut_vec_free(&words);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_push_keeps_values),
		cmocka_unit_test(test_reserve_then_no_more_requests),
		cmocka_unit_test(test_trim_gives_back),
		cmocka_unit_test(test_failure_changes_nothing),
		cmocka_unit_test(test_sizes_that_overflow),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

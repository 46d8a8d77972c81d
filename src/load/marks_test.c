/* The set against an array of flags. */
#include "tests/support/unit.h"

#include <string.h>

#include "load/draw.h"
#include "load/marks.h"
#include "tests/support/alloc_fail.h"

enum { LARGEST = 300000 };

static uint32_t slow_first(const uint8_t *flags, uint32_t n, uint32_t from)
{
	for (uint32_t i = 0; i < n; i++)
		if (flags[(from + i) % n])
			return (from + i) % n;
	return TAUT_NONE;
}

static void check_size(uint32_t n)
{
	static uint8_t flags[LARGEST];
	struct tauti_draw draw = tauti_draw_begin(n, 0, 0);
	struct tauti_marks marks;
	uint32_t count = 0;

	memset(flags, 0, n);
	assert_true(tauti_marks_init(&marks, n));
	assert_int_equal(tauti_marks_first(&marks, n - 1), TAUT_NONE);
	for (int i = 0; i < 600; i++) {
		uint32_t number = (uint32_t)tauti_draw_below(&draw, n), from;

		/* Those at a place that is soon found again come and go. */
		if (i % 2)
			number %= 70;
		number %= n;
		assert_int_equal(tauti_marks_has(&marks, number), flags[number]);
		if (tauti_draw_below(&draw, 5) < (i < 300 ? 3 : 2)) {
			tauti_marks_set(&marks, number);
			count += !flags[number];
			flags[number] = 1;
		} else {
			tauti_marks_clear(&marks, number);
			count -= flags[number];
			flags[number] = 0;
		}
		assert_int_equal(marks.count, count);
		from = (uint32_t)tauti_draw_below(&draw, n);
		assert_int_equal(tauti_marks_first(&marks, from),
			slow_first(flags, n, from));
		assert_int_equal(tauti_marks_first(&marks, number),
			slow_first(flags, n, number));
	}
	tauti_marks_set(&marks, n - 1);
	tauti_marks_empty(&marks);
	assert_int_equal(marks.count, 0);
	assert_int_equal(tauti_marks_first(&marks, 0), TAUT_NONE);
	tauti_marks_fini(&marks);
}

static void test_sizes(void **state)
{
	static const uint32_t sizes[] = { 1, 2, 63, 64, 65, 4095, 4096, 4097,
		262144, 262145, LARGEST };

	(void)state;
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		check_size(sizes[i]);
}

static void test_memory(void **state)
{
	struct tauti_marks marks;

	(void)state;
	alloc_fail_after(0);
	assert_false(tauti_marks_init(&marks, 10));
	alloc_fail_never();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

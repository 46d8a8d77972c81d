/* plan_words_test.c - words of taut plan and taut tune: times, and what is left to the
 * defaults. */
#include "tests/support/unit.h"

#include <string.h>

#include "cli/plan_words.h"

static void expect(const char *text, double s)
{
	double found = -1;

	if (!plan_words_time(text, &found))
		fail_msg("'%s' is refused", text);
	assert_true(found > s * 0.999999 && found < s * 1.000001);
}

static void test_times(void **state)
{
	(void)state;
	expect("30s", 30);
	expect("30", 30);
	expect("500ms", 0.5);
	expect("0.25s", 0.25);
	expect(".5m", 30);
	expect("1.5h", 5400);
	expect("999999s", 999999);
}

static void test_no_times(void **state)
{
	static const char *const texts[] = { "", "s", ".", "0", "0s", "-1s",
		"+1s", " 1s", "1 s", "1s ", "1e3", "0x10", "nan", "inf", "1M",
		"1000000s", "20000m", "1.2.3s", "1234567890123456s" };

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		double found = -1;

		if (plan_words_time(texts[i], &found))
			fail_msg("'%s' is %f", texts[i], found);
		assert_true(found == -1);
	}
}

static void test_words(void **state)
{
	const char *names[] = { "compress", "schedule" };
	const struct plan_words none = { 0 };
	const struct plan_words all = { .budget = "2m", .allow = "lossy",
		.memory = "3G", .cache = "5G", .without = { names, 2 } };
	struct taut_plan_options o = { 0 };

	(void)state;
	assert_true(plan_words_take("plan", &none, &o));
	assert_int_equal(o.allow, TAUT_NUMERICS_REORDERED);
	assert_true(o.budget_s == 0);
	assert_int_equal(o.memory_most, 0);
	assert_int_equal(o.n_not_these, 0);
	assert_true(plan_words_take("plan", &all, &o));
	assert_int_equal(o.allow, TAUT_NUMERICS_LOSSY);
	assert_true(o.budget_s == 120);
	assert_int_equal(o.memory_most, INT64_C(3) << 30);
	assert_int_equal(o.cache_bytes, INT64_C(5) << 30);
	assert_int_equal(o.n_not_these, 2);
	assert_string_equal(o.not_these[1], "schedule");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_no_times),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

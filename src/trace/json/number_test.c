#include "tests/support/unit.h"

#include "trace/json/number.h"

static int64_t ns(const char *text)
{
	int64_t value = 0;
	unsigned digits;
	assert_true(tauti_number_us(text, &value, &digits));
	return value;
}

static unsigned digits_of(const char *text)
{
	int64_t value;
	unsigned digits = 99;
	assert_true(tauti_number_us(text, &value, &digits));
	return digits;
}

static bool is_refused(const char *text)
{
	int64_t value;
	unsigned digits;
	return !tauti_number_us(text, &value, &digits);
}

static void test_microseconds_are_exact(void **state)
{
	(void)state;
	assert_int_equal(ns("0,"), 0);
	assert_int_equal(ns("1706850122845782,"), 1706850122845782000);
	assert_int_equal(ns("1706850122845782.001}"), 1706850122845782001);
	assert_int_equal(ns("4203669613175.703 "), 4203669613175703);
	assert_int_equal(ns("5.7,"), 5700);
	assert_int_equal(ns("5.07,"), 5070);
	assert_int_equal(ns("68.0,"), 68000);
	assert_int_equal(ns("\"12.5\""), 12500);
	assert_int_equal(ns("-3.25,"), -3250);
	assert_int_equal(ns("-3,"), -3000);
}

static void test_more_digits_are_rounded(void **state)
{
	(void)state;
	assert_int_equal(ns("1.0004,"), 1000);
	assert_int_equal(ns("1.0005,"), 1001);
	assert_int_equal(ns("0.00049999999999999999999,"), 0);
	assert_int_equal(ns("1682725898236567.1234567,"), 1682725898236567123);
	assert_int_equal(ns("0.99999,"), 1000);
}

static void test_exponents(void **state)
{
	(void)state;
	assert_int_equal(ns("1.706850122845782e15,"), 1706850122845782000);
	assert_int_equal(ns("1E3,"), 1000000);
	assert_int_equal(ns("25e-1,"), 2500);
	assert_int_equal(ns("-1.5e+2,"), -150000);
	assert_int_equal(ns("1e-400,"), 0);
	assert_int_equal(ns("0e999999999999,"), 0);
	assert_true(is_refused("1e17,"));
	assert_true(is_refused("1e,"));
	assert_true(is_refused("1e99999999999999999999,"));
}

static void test_what_is_no_number_is_refused(void **state)
{
	(void)state;
	assert_true(is_refused("null"));
	assert_true(is_refused("\"\""));
	assert_true(is_refused("."));
	assert_true(is_refused("-"));
	assert_true(is_refused("NaN"));
	assert_true(is_refused("99999999999999999999,"));
	assert_true(is_refused("4611686018427388,")); /* 2^62 ns is less */
	assert_int_equal(ns("4611686018427387.904,"), (int64_t)1 << 62);
	assert_true(is_refused("4611686018427387.905,"));
}

static void test_digits_behind_the_point(void **state)
{
	(void)state;
	assert_int_equal(digits_of("5,"), 0);
	assert_int_equal(digits_of("5.7,"), 1);
	assert_int_equal(digits_of("5.0,"), 1);
	assert_int_equal(digits_of("5.10,"), 2);
	assert_int_equal(digits_of("5.07,"), 2 | TAUTI_NUMBER_ZERO);
	assert_int_equal(digits_of("5.007,"), 3 | TAUTI_NUMBER_ZERO);
	assert_int_equal(digits_of("5.123456,"), 4);
}

static void test_integers(void **state)
{
	(void)state;
	int64_t value = 0;
	assert_true(tauti_number_int("42,", &value));
	assert_int_equal(value, 42);
	assert_true(tauti_number_int("-1}", &value));
	assert_int_equal(value, -1);
	assert_true(tauti_number_int("\"25738\"", &value));
	assert_int_equal(value, 25738);
	assert_true(tauti_number_int("7.9,", &value));
	assert_int_equal(value, 7);
	/* A 64-bit hash as a thread, beyond what a double or int64 holds. */
	assert_true(tauti_number_int("18446744073709551615,", &value));
	assert_int_equal(value, -1);
	assert_false(tauti_number_int("\"stream 7\"", &value));
	assert_false(tauti_number_int("123456789012345678901,", &value));
	assert_false(tauti_number_int("[", &value));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_microseconds_are_exact),
		cmocka_unit_test(test_more_digits_are_rounded),
		cmocka_unit_test(test_exponents),
		cmocka_unit_test(test_what_is_no_number_is_refused),
		cmocka_unit_test(test_digits_behind_the_point),
		cmocka_unit_test(test_integers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* number_test.c - numbers by hand, and in a locale that writes commas. */
#include <locale.h>
#include <math.h>
#include <stdint.h>

#include "report/number.h"
#include "tests/support/unit.h"

static char text[TAUTI_NUMBER_BYTES];

static void test_all_digits_of_nanoseconds(void **state)
{
	(void)state;
	assert_string_equal(tauti_number_ms(0, 6, text), "0.000000");
	assert_string_equal(tauti_number_ms(1, 6, text), "0.000001");
	assert_string_equal(tauti_number_ms(-1, 6, text), "-0.000001");
	assert_string_equal(tauti_number_ms(1234567890, 6, text),
		"1234.567890");
	assert_string_equal(tauti_number_ms(INT64_MAX, 6, text),
		"9223372036854.775807");
	assert_string_equal(tauti_number_ms(INT64_MIN, 6, text),
		"-9223372036854.775808");
}

static void test_rounding(void **state)
{
	(void)state;
	assert_string_equal(tauti_number_ms(1949999, 1, text), "1.9");
	assert_string_equal(tauti_number_ms(1950000, 1, text), "2.0");
	assert_string_equal(tauti_number_ms(-1950000, 1, text), "-2.0");
	assert_string_equal(tauti_number_ms(499999, 0, text), "0");
	assert_string_equal(tauti_number_ms(500000, 0, text), "1");
	/* no "-0.0" */
	assert_string_equal(tauti_number_ms(-49999, 1, text), "0.0");
	/* more decimals than there are digits */
	assert_string_equal(tauti_number(5, 1, 3, text), "0.500");
}

static void test_reals(void **state)
{
	(void)state;
	assert_string_equal(tauti_number_real(12.5, 6, text), "12.500000");
	assert_string_equal(tauti_number_real(-0.25, 1, text), "-0.3");
	assert_string_equal(tauti_number_real(189.46, 1, text), "189.5");
	assert_null(tauti_number_real(NAN, 1, text));
	assert_null(tauti_number_real(INFINITY, 1, text));
	assert_null(tauti_number_real(1e18, 6, text));
}

static void test_counts_and_bytes(void **state)
{
	(void)state;
	assert_string_equal(tauti_number_count(0, text), "0");
	assert_string_equal(tauti_number_count(999, text), "999");
	assert_string_equal(tauti_number_count(1000, text), "1,000");
	assert_string_equal(tauti_number_count(1002003, text), "1,002,003");
	assert_string_equal(tauti_number_count(UINT64_MAX, text),
		"18,446,744,073,709,551,615");
	assert_string_equal(tauti_number_bytes(0, text), "0 B");
	assert_string_equal(tauti_number_bytes(999, text), "999 B");
	assert_string_equal(tauti_number_bytes(1000, text), "1.0 kB");
	assert_string_equal(tauti_number_bytes(10170768, text), "10.2 MB");
	assert_string_equal(tauti_number_bytes(UINT64_MAX, text), "9.2 EB");
}

/* Any locale with a decimal comma that is here; the C one never has it. */
static void test_locale_does_not_matter(void **state)
{
	static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8",
		"fr_FR.UTF-8", "de_DE" };

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (setlocale(LC_ALL, names[i]))
			break;
	assert_string_equal(tauti_number_real(12.5, 1, text), "12.5");
	assert_string_equal(tauti_number_ms(1500000, 1, text), "1.5");
	setlocale(LC_ALL, "C");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_digits_of_nanoseconds),
		cmocka_unit_test(test_rounding),
		cmocka_unit_test(test_reals),
		cmocka_unit_test(test_counts_and_bytes),
		cmocka_unit_test(test_locale_does_not_matter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "tests/support/unit.h"

#include <string.h>

#include <taut/base.h>

static void test_fills_and_returns_code(void **state)
{
	(void)state;
	struct taut_error err;
	taut_status status = taut_error_set(
		&err, TAUT_EFORMAT, 42, "%s:%d: odd", "a.json", 7);
	assert_int_equal(status, TAUT_EFORMAT);
	assert_int_equal(err.code, TAUT_EFORMAT);
	assert_int_equal(err.offset, 42);
	assert_string_equal(err.message, "a.json:7: odd");
}

static void test_no_error_wanted(void **state)
{
	(void)state;
	assert_int_equal(taut_error_set(NULL, TAUT_EIO, -1, "%d", 1), TAUT_EIO);
}

static void test_long_message_is_cut(void **state)
{
	(void)state;
	struct taut_error err;
	char text[2000];
	memset(text, 'x', sizeof text);
	text[sizeof text - 1] = '\0';
	taut_error_set(&err, TAUT_EINVAL, -1, "%s", text);
	assert_int_equal(strlen(err.message), sizeof err.message - 1);
}

static void test_message_stays_one_line(void **state)
{
	(void)state;
	struct taut_error err;
	taut_error_set(&err, TAUT_EIO, -1, "%s: no such file", "a\nb\x1b[31m");
	assert_string_equal(err.message, "a b [31m: no such file");
}

static void test_names_of_all_codes_differ(void **state)
{
	(void)state;
	for (int a = TAUT_EAGAIN; a <= TAUT_OK; a++) {
		assert_string_not_equal(taut_status_name(a), "unknown status");
		for (int b = TAUT_EAGAIN; b < a; b++)
			assert_string_not_equal(
				taut_status_name(a), taut_status_name(b));
	}
	assert_string_equal(
		taut_status_name((taut_status)-1000), "unknown status");
}

static void test_version_is_the_builds(void **state)
{
	(void)state;
	assert_string_equal(taut_version(), TAUT_VERSION);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fills_and_returns_code),
		cmocka_unit_test(test_no_error_wanted),
		cmocka_unit_test(test_long_message_is_cut),
		cmocka_unit_test(test_message_stays_one_line),
		cmocka_unit_test(test_names_of_all_codes_differ),
		cmocka_unit_test(test_version_is_the_builds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

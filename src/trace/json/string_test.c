#include "tests/support/unit.h"

#include <string.h>

#include "trace/json/string.h"

static const char *decode(const char *text)
{
	static char out[256];
	size_t len = strlen(text);
	size_t n = tauti_string_decode(text, len, out);
	assert_true(n <= TAUTI_STRING_ROOM(len));
	out[n] = '\0';
	return out;
}

static void test_plain(void **state)
{
	(void)state;
	/* Eight readable bytes follow, as the function asks. */
	static const char text[] = "aten::convolution_backward(....)\\\xff-----";
	for (size_t len = 0; len <= 32; len++)
		assert_true(tauti_string_is_plain(text, len));
	assert_false(tauti_string_is_plain(text, 33));
	assert_false(tauti_string_is_plain("\xc3\xa9.......", 2));
	for (size_t at = 0; at < 17; at++) {
		char one[32] = "abcdefghijklmnopq";
		one[at] = '\\';
		assert_false(tauti_string_is_plain(one, 17));
		one[at] = '\n';
		assert_false(tauti_string_is_plain(one, 17));
		assert_true(tauti_string_is_plain(one, at));
	}
}

static void test_escapes(void **state)
{
	(void)state;
	assert_string_equal(decode("a\\\"b\\\\c\\/d"), "a\"b\\c/d");
	assert_string_equal(decode("a\\nb\\tc"), "a b c");
	assert_string_equal(decode("\\u00e9\\u20AC"), "\xc3\xa9\xe2\x82\xac");
	assert_string_equal(decode("\\ud83d\\ude00"), "\xf0\x9f\x98\x80");
	assert_string_equal(decode("\\q"), "q");
	assert_string_equal(decode("end\\"), "end\\");
}

static void test_what_a_name_must_not_hold(void **state)
{
	(void)state;
	assert_string_equal(decode("a\nb\x01"), "a b ");
	assert_string_equal(decode("\\u0000"), "\xef\xbf\xbd");
	assert_string_equal(decode("\\ud83d"), "\xef\xbf\xbd");
	assert_string_equal(decode("\\ude00x"), "\xef\xbf\xbdx");
	assert_string_equal(decode("\\ud83d\\u0041"), "\xef\xbf\xbd" "A");
	assert_string_equal(decode("\\ud83d\\ue000"),
		"\xef\xbf\xbd\xee\x80\x80");
	assert_string_equal(decode("\\u12"), "\xef\xbf\xbd" "12");
	assert_string_equal(decode("\xff"), "\xef\xbf\xbd");
	assert_string_equal(decode("\xe2\x82"), "\xef\xbf\xbd\xef\xbf\xbd");
	/* Overlong, and half a surrogate pair in UTF-8. */
	assert_string_equal(decode("\xc0\x80"), "\xef\xbf\xbd\xef\xbf\xbd");
	assert_string_equal(decode("\xed\xa0\x80"), "\xef\xbf\xbd");
	assert_string_equal(decode("\xc3\xa9"), "\xc3\xa9");
	assert_string_equal(decode("\xf0\x9f\x98\x80"), "\xf0\x9f\x98\x80");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_escapes),
		cmocka_unit_test(test_what_a_name_must_not_hold),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

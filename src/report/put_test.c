/* Text that a JSON reader and a browser take as it was meant. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/put.h"

struct text {
	char *data;
	size_t len;
	FILE *out;
	struct tauti_put put;
};

static void begin(struct text *t)
{
	t->out = open_memstream(&t->data, &t->len);
	assert_non_null(t->out);
	tauti_put_begin(&t->put, t->out);
}

static void expect(struct text *t, const char *text)
{
	assert_int_equal(tauti_put_end(&t->put, NULL), TAUT_OK);
	assert_string_equal(t->data, text);
	fclose(t->out);
	free(t->data);
}

static void numbers_are_exact(void **state)
{
	struct text t;

	(void)state;
	begin(&t);
	tauti_put_int(&t.put, INT64_MIN);
	tauti_put_char(&t.put, ' ');
	tauti_put_int(&t.put, 0);
	tauti_put_char(&t.put, ' ');
	tauti_put_us(&t.put, 1234567);
	tauti_put_char(&t.put, ' ');
	tauti_put_us(&t.put, -5);
	tauti_put_char(&t.put, ' ');
	tauti_put_us(&t.put, 0);
	expect(&t, "-9223372036854775808 0 1234.567 -0.005 0.000");
}

static void what_is_no_number_is_zero(void **state)
{
	struct text t;

	(void)state;
	begin(&t);
	tauti_put_real(&t.put, 1.0 / 0.0);
	tauti_put_char(&t.put, ' ');
	tauti_put_real(&t.put, -0.25);
	tauti_put_char(&t.put, ' ');
	tauti_put_real(&t.put, 100);
	expect(&t, "0 -0.25 100");
}

static void strings_close_no_script(void **state)
{
	struct text t;

	(void)state;
	begin(&t);
	tauti_put_string(&t.put, "</script>\"\\\n\x01");
	tauti_put_string(&t.put, NULL);
	expect(&t, "\"\\u003c/script>\\\"\\\\\\u000a\\u0001\"\"\"");
}

static void bytes_that_are_no_text_are_replaced(void **state)
{
	struct text t;

	(void)state;
	begin(&t);
	/* whole, cut, too long a form, surrogate, stray */
	tauti_put_string(
		&t.put, "\xc2\xb5s \xe2\x82 \xc0\xaf \xed\xa0\x80 \xff");
	expect(&t,
		"\"\xc2\xb5s \\ufffd\\ufffd \\ufffd\\ufffd "
		"\\ufffd\\ufffd\\ufffd \\ufffd\"");
}

static void long_text_comes_whole(void **state)
{
	enum { N = 3 * TAUTI_PUT_BYTES + 7 };
	char *long_text = malloc(N + 1);
	struct text t;

	(void)state;
	assert_non_null(long_text);
	for (int i = 0; i < N; i++)
		long_text[i] = (char)('a' + i % 23);
	long_text[N] = '\0';
	begin(&t);
	tauti_put_text(&t.put, long_text);
	expect(&t, long_text);
	free(long_text);
}

static void refusal_is_told(void **state)
{
	FILE *full = fopen("/dev/full", "w");
	struct taut_error err = { 0 };
	struct tauti_put put;

	(void)state;
	if (!full)
		skip();
	tauti_put_begin(&put, full);
	tauti_put_text(&put, "no room");
	assert_int_equal(tauti_put_end(&put, &err), TAUT_EIO);
	assert_non_null(strstr(err.message, "No space"));
	fclose(full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_exact),
		cmocka_unit_test(what_is_no_number_is_zero),
		cmocka_unit_test(strings_close_no_script),
		cmocka_unit_test(bytes_that_are_no_text_are_replaced),
		cmocka_unit_test(long_text_comes_whole),
		cmocka_unit_test(refusal_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

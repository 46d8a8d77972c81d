#include "trace/test_support.h"

#include "trace/json/token.h"
#include "trace/json/window.h"
#include "trace/stream.h"

struct opened {
	struct tauti_stream *stream;
	struct tauti_window window;
};

static void begin(struct opened *o, const char *text, size_t len)
{
	assert_int_equal(tauti_stream_open_memory(
				 "t", text, len, &o->stream, NULL), TAUT_OK);
	assert_int_equal(
		tauti_window_init(&o->window, o->stream, 0, NULL), TAUT_OK);
}

static void end(struct opened *o)
{
	tauti_window_fini(&o->window);
	tauti_stream_close(o->stream);
}

/* The first bytes of the tokens, as text. */
static const char *tokens(const char *text)
{
	static char out[128];
	struct opened o;
	begin(&o, text, strlen(text));
	uint32_t n = o.window.n;
	assert_true(n < sizeof out);
	for (uint32_t i = 0; i < n; i++)
		out[i] = tauti_token_byte(&o.window, i);
	out[n] = '\0';
	assert_int_equal(tauti_token_byte(&o.window, n), '\0');
	assert_int_equal(tauti_token_kind(&o.window, n), TAUTI_TOKEN_END);
	end(&o);
	return out;
}

static void test_tokens(void **state)
{
	(void)state;
	assert_string_equal(tokens("{\"a\": [1, true], \"b\":\"x,y\"}"),
		"{\":[1,t],\":\"}");
	assert_string_equal(tokens(""), "");
	assert_string_equal(tokens("   \n "), "");
	/* A string that the end cuts is a token, and nothing is in it. */
	assert_string_equal(tokens("{\"a\":\"b,c"), "{\":\"");
	assert_string_equal(tokens("{\"a\":\"b\\"), "{\":\"");
	assert_string_equal(tokens("{\"a\":\"b\\\\"), "{\":\"");
	/* Control bytes and wrong UTF-8 in strings do no harm. */
	assert_string_equal(tokens("{\"a\n\":\"\xff\"}"), "{\":\"}");
	assert_string_equal(tokens("{\"a\n\":\"\xff\\"), "{\":\"");
}

/* Where skipping from token 0 stops; negative where it fails. */
static int skip_from(const char *text)
{
	struct opened o;
	uint32_t i = 0;
	begin(&o, text, strlen(text));
	bool whole = tauti_token_skip(&o.window, &i);
	end(&o);
	return whole ? (int)i : -(int)i;
}

static void test_skip(void **state)
{
	(void)state;
	assert_int_equal(skip_from("1,2"), 1);
	assert_int_equal(skip_from("\"a\",2"), 1);
	assert_int_equal(skip_from("[1,[2,{}]],9"), 10);
	assert_int_equal(skip_from("{\"a\":{\"b\":[]}} "), 10);
	/* It stops at the token that does not fit, or behind the last. */
	assert_int_equal(skip_from("[1,[2"), -5);
	assert_int_equal(skip_from("[1 2]"), -2);
	assert_int_equal(skip_from("{\"a\" \"b\"}"), -2);
	assert_int_equal(skip_from("[\"a\"b\"]"), -2);
	assert_int_equal(skip_from("[,1]"), -1);
	assert_int_equal(skip_from("[1,]"), -3);
	assert_int_equal(skip_from("}"), 0);
	assert_int_equal(skip_from(""), 0);
}

static void test_string_ends_at_its_quote(void **state)
{
	(void)state;
	struct opened o;
	struct tauti_text text;
	const char *json = "{\"key\" \n : \"a\\\"b\"\t}";
	begin(&o, json, strlen(json));
	assert_true(tauti_token_string(&o.window, 1, &text));
	assert_int_equal(text.len, 3);
	assert_memory_equal(text.at, "key", 3);
	assert_true(tauti_token_string(&o.window, 3, &text));
	assert_int_equal(text.len, 4);
	assert_false(tauti_token_string(&o.window, 0, &text));
	end(&o);
	/* Cut: there is no end. */
	begin(&o, "{\"key\":\"valu", 12);
	assert_int_equal(o.window.n, 4);
	assert_false(tauti_token_string(&o.window, 3, &text));
	end(&o);
}

/* After a fault little is marked, then twice as much each time: a text of
 * nothing but faults is not marked over and over. */
static void test_restart_is_careful(void **state)
{
	(void)state;
	size_t len = 1 << 20;
	char *text = malloc(len);
	assert_non_null(text);
	memset(text, ',', len);
	struct opened o;
	begin(&o, text, len);
	assert_int_equal(o.window.span, TAUTI_WINDOW_BYTES);
	assert_int_equal(tauti_window_restart(&o.window, 10, NULL), TAUT_OK);
	for (size_t span = TAUTI_WINDOW_MIN; span <= TAUTI_WINDOW_BYTES;
		span *= 2) {
		assert_int_equal(o.window.span, span);
		assert_int_equal(
			tauti_window_next(&o.window, span, NULL), TAUT_OK);
	}
	assert_int_equal(o.window.span, TAUTI_WINDOW_BYTES);
	end(&o);
	free(text);
}

/* A text of many windows, walked by dropping k tokens at a time, gives each
 * token once and in place. */
static void test_windows_join(void **state)
{
	(void)state;
	size_t n = 400000, len = n * 4 + 2;
	char *text = malloc(len);
	assert_non_null(text);
	text[0] = '[';
	for (size_t i = 0; i < n; i++)
		memcpy(text + 1 + i * 4, "1 , ", 4);
	text[len - 1] = ']';
	struct opened o;
	begin(&o, text, len);
	uint64_t seen = 0;
	for (;;) {
		uint32_t take = o.window.n;
		if (!o.window.last)
			take -= 7; /* as if the last were not whole */
		for (uint32_t i = 0; i < take; i++) {
			uint64_t at = o.window.offset + o.window.at[i];
			assert_int_equal(text[at],
				tauti_token_byte(&o.window, i));
		}
		seen += take;
		if (o.window.last)
			break;
		assert_int_equal(tauti_window_next(&o.window,
					 o.window.at[take], NULL), TAUT_OK);
		assert_true(o.window.span <= TAUTI_WINDOW_BYTES);
	}
	assert_int_equal(seen, n * 2 + 2);
	end(&o);
	free(text);
}

static void test_grows_for_what_does_not_fit(void **state)
{
	(void)state;
	size_t len = 3 << 20;
	char *text = malloc(len);
	assert_non_null(text);
	memset(text, 'x', len);
	text[0] = text[len - 2] = '"';
	text[len - 1] = ',';
	struct opened o;
	begin(&o, text, len);
	int rounds = 0;
	while (!o.window.last) {
		size_t before = o.window.span;
		assert_int_equal(o.window.n, 1);
		assert_int_equal(
			tauti_window_next(&o.window, 0, NULL), TAUT_OK);
		assert_true(o.window.span > before);
		rounds++;
	}
	assert_int_equal(rounds, 4); /* doubling: 256 KiB to 3 MiB */
	assert_int_equal(o.window.n, 2);
	end(&o);
	free(text);
}

static void test_refuses_to_grow_for_ever(void **state)
{
	(void)state;
	size_t len = TAUTI_WINDOW_MAX * 2;
	char *text = malloc(len);
	assert_non_null(text);
	memset(text, 'x', len);
	text[0] = '"';
	struct opened o;
	struct taut_error err = { 0 };
	taut_status status = TAUT_OK;
	begin(&o, text, len);
	while (status == TAUT_OK && !o.window.last)
		status = tauti_window_next(&o.window, 0, &err);
	assert_int_equal(status, TAUT_EFORMAT);
	assert_string_equal(
		err.message, "t: byte 0: one value is larger than 16 MiB");
	end(&o);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tokens),
		cmocka_unit_test(test_skip),
		cmocka_unit_test(test_string_ends_at_its_quote),
		cmocka_unit_test(test_restart_is_careful),
		cmocka_unit_test(test_windows_join),
		cmocka_unit_test(test_grows_for_what_does_not_fit),
		cmocka_unit_test(test_refuses_to_grow_for_ever),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A root with an array of objects, whole, cut and broken. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "trace/json/items.h"
#include "trace/json/number.h"
#include "trace/stream.h"

struct seen {
	int64_t sum;
	unsigned items, others;
};

static bool take_item(void *context, const struct tauti_window *w, uint32_t i,
	uint64_t offset)
{
	struct seen *seen = context;
	int64_t value;
	uint32_t at = tauti_items_value(w, i, "a");
	assert_true(offset < 4096);
	assert_int_equal(tauti_token_byte(w, i), '{');
	if (at && tauti_number_int(tauti_token_at(w, at), &value))
		seen->sum += value;
	seen->items++;
	return true;
}

static bool take_other(void *context, const struct tauti_window *w,
	struct tauti_text key, uint32_t i)
{
	struct seen *seen = context;
	assert_true(tauti_items_is(key, "schema") ||
		    tauti_items_is(key, "pid") || tauti_items_is(key, "x"));
	assert_true(tauti_token_byte(w, i) != 0);
	seen->others++;
	return true;
}

static struct tauti_items read_text(
	const char *text, size_t len, size_t window, struct seen *seen)
{
	struct tauti_stream *stream = NULL;
	struct tauti_items items = { .key = "nodes", .item = take_item,
		.other = take_other, .context = seen };
	memset(seen, 0, sizeof *seen);
	assert_int_equal(tauti_stream_open_memory(
		"t", text, len, &stream, NULL), TAUT_OK);
	assert_int_equal(
		tauti_items_read(&items, stream, window, NULL), TAUT_OK);
	tauti_stream_close(stream);
	return items;
}

static const char whole[] = "{\"schema\": \"1 ]}\", \"x\": {\"nodes\": [1]},"
	" \"nodes\": [{\"b\": [{\"a\": 9}], \"a\": 1}, {}, {\"a\": 20}],"
	" \"pid\": 7}";

static void test_whole(void **state)
{
	(void)state;
	for (size_t window = 0; window <= 64; window += 32) {
		struct seen seen;
		struct tauti_items items = read_text(
			whole, sizeof whole - 1, window, &seen);
		assert_int_equal(items.end, TAUTI_ITEMS_WHOLE);
		assert_true(items.found);
		assert_int_equal(items.bytes, sizeof whole - 1);
		assert_int_equal(seen.items, 3);
		assert_int_equal(seen.sum, 21);
		assert_int_equal(seen.others, 3);
	}
}

static void test_cut_at_every_byte(void **state)
{
	(void)state;
	const char *first = strstr(whole, "\"a\": 1}") + 7;
	for (size_t len = 0; len < sizeof whole - 1; len++) {
		struct seen seen;
		struct tauti_items items = read_text(whole, len, 32, &seen);
		assert_int_equal(items.end, TAUTI_ITEMS_CUT);
		assert_int_equal(items.end_at, len);
		assert_int_equal(seen.items > 0,
			len >= (size_t)(first - whole));
	}
}

static void test_broken(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		unsigned items, at;
	} cases[] = {
		{ "[1]", 0, 0 },
		{ "{\"nodes\": [{\"a\": 1}, 7]}", 1, 21 },
		{ "{\"nodes\": [{\"a\": 1} \"b\"]}", 1, 20 },
		{ "{\"pid\" 7}", 0, 7 },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct seen seen;
		struct tauti_items items = read_text(cases[i].text,
			strlen(cases[i].text), 0, &seen);
		assert_int_equal(items.end, TAUTI_ITEMS_BROKEN);
		assert_int_equal(seen.items, cases[i].items);
		assert_int_equal(items.end_at, cases[i].at);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_cut_at_every_byte),
		cmocka_unit_test(test_broken),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

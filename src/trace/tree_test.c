#include "trace/test_support.h"

#include <math.h>

#include "tests/support/alloc_fail.h"
#include "trace/stream.h"
#include "trace/tree.h"

struct tree {
	struct taut_arena *arena;
	struct tauti_value *value;
	struct taut_error err;
	taut_status status;
};

static struct tree unpickle(const char *bytes, size_t len)
{
	struct tree tree = { .arena = taut_arena_create() };
	assert_non_null(tree.arena);
	tree.status = tauti_tree_unpickle("p", (const unsigned char *)bytes,
		len, tree.arena, &tree.value, &tree.err);
	return tree;
}

#define UNPICKLE(bytes) unpickle(bytes, sizeof bytes - 1)

/* Each as pickle.dumps writes it (protocol 2 where not said otherwise). */
static void test_values(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		size_t len;
		int64_t expected;
	} ints[] = {
		{ "\x80\x02K\x05.", 5, 5 },
		{ "\x80\x02M\x39\x30.", 6, 12345 },
		{ "\x80\x02J\xff\xff\xff\xff.", 8, -1 },
		{ "\x80\x02\x8a\x00.", 5, 0 },
		{ "\x80\x02\x8a\x02\x00\xff.", 7, -256 },
		/* 2**63 wraps as any unsigned number of 64 bits does */
		{ "\x80\x02\x8a\x09\0\0\0\0\0\0\0\x80\0.", 14, INT64_MIN },
		{ "\x80\x04\x95\x01\0\0\0\0\0\0\0\x88.", 13, 1 },
	};
	for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
		struct tree t = unpickle(ints[i].bytes, ints[i].len);
		assert_int_equal(t.status, TAUT_OK);
		assert_int_equal(
			tauti_tree_int(t.value, 77), ints[i].expected);
		taut_arena_destroy(t.arena);
	}
	struct tree t = UNPICKLE("\x80\x02G\x3f\xf8\0\0\0\0\0\0.");
	assert_true(t.value->number == 1.5);
	taut_arena_destroy(t.arena);
}

/* {"a": [1, (2, None)], "b": <the same list>} */
static void test_containers_and_memo(void **state)
{
	(void)state;
	struct tree t = UNPICKLE("\x80\x02}q\x00(X\x01\0\0\0aq\x01]q\x02("
		"K\x01K\x02N\x86q\x03""eX\x01\0\0\0bq\x04h\x02u.");
	assert_int_equal(t.status, TAUT_OK);
	const struct tauti_value *a = tauti_tree_get(t.value, "a");
	assert_non_null(a);
	assert_ptr_equal(a, tauti_tree_get(t.value, "b"));
	assert_null(tauti_tree_get(t.value, "c"));
	assert_int_equal(a->count, 2);
	assert_int_equal(tauti_tree_int(tauti_tree_item(a, 0), 0), 1);
	const struct tauti_value *pair = tauti_tree_item(a, 1);
	assert_int_equal(pair->kind, TAUTI_VALUE_LIST);
	assert_int_equal(tauti_tree_int(tauti_tree_item(pair, 0), 0), 2);
	assert_int_equal(
		tauti_tree_item(pair, 1)->kind, TAUTI_VALUE_NONE);
	assert_null(tauti_tree_item(pair, 2));
	taut_arena_destroy(t.arena);
}

static void refuses(const char *bytes, size_t len, const char *why)
{
	struct tree t = unpickle(bytes, len);
	assert_int_equal(t.status, TAUT_EFORMAT);
	if (!strstr(t.err.message, why))
		fail_msg("%s", t.err.message);
	taut_arena_destroy(t.arena);
}

#define REFUSES(bytes, why) refuses(bytes, sizeof bytes - 1, why)

/* What would import or call is refused before anything is done. */
static void test_refuses_code(void **state)
{
	(void)state;
	REFUSES("\x80\x02" "cposix\nsystem\n.", "byte 2: pickle: no plain "
		"data: opcode GLOBAL");
	REFUSES("\x80\x04\x8c\x02os\x8c\x06system\x93.", "STACK_GLOBAL");
	REFUSES("\x80\x02K\x01)R.", "opcode REDUCE");
	REFUSES("\x80\x02K\x01K\x01" "b.", "opcode BUILD");
	REFUSES("\x80\x02)\x81.", "opcode NEWOBJ");
	REFUSES("\x80\x02Q.", "opcode BINPERSID");
	REFUSES("\x80\x02\x82\x01.", "opcode EXT1");
	REFUSES("\x80\x02\xf7.", "opcode 0xf7");
}

static void test_refuses_what_is_broken(void **state)
{
	(void)state;
	REFUSES("\x80\x02", "ends early");
	REFUSES("\x80\x02.", "holds nothing");
	REFUSES("\x80\x02J\x01.", "ends inside a number");
	REFUSES("\x80\x02X\xff\0\0\0a.", "ends inside a text");
	REFUSES("\x80\x02" "e.", "did not begin");
	REFUSES("\x80\x02(e.", "no container");
	REFUSES("\x80\x02K\x01(K\x02" "e.", "no container");
	REFUSES("\x80\x02}(K\x02u.", "a key without a value");
	REFUSES("\x80\x02h\x07.", "did not remember");
	REFUSES("\x80\x02K\x01r\xff\xff\xff\xff.", "too far");
	REFUSES("\x80\x02\x86.", "not there");
	REFUSES("\x80\x02(K\x01" "0" "0.", "not there");
	REFUSES("\x80\x02K\x01(1" "1.", "did not begin");
}

/* --- JSON ---------------------------------------------------------------- */

/* The values of text, joined: numbers by '+', others by their kind. */
static void check_values(const char *text, size_t window, size_t count,
	int64_t sum, bool cut, bool broken)
{
	struct taut_error err = { 0 };
	struct tauti_stream *stream = NULL;
	struct tauti_values values;
	struct tauti_value *value = NULL;
	struct taut_arena *arena = taut_arena_create();
	size_t n = 0;
	int64_t got = 0;
	assert_int_equal(tauti_stream_open_memory(
		"j", text, strlen(text), &stream, &err), TAUT_OK);
	assert_int_equal(
		tauti_values_init(&values, stream, window, &err), TAUT_OK);
	for (;; n++) {
		assert_int_equal(tauti_values_next(
			&values, arena, &value, &err), TAUT_OK);
		if (!value)
			break;
		got += tauti_tree_int(tauti_tree_get(value, "n"), 0);
	}
	assert_int_equal(n, count);
	assert_int_equal(got, sum);
	assert_int_equal(values.cut, cut);
	assert_int_equal(values.broken, broken);
	tauti_values_fini(&values);
	tauti_stream_close(stream);
	taut_arena_destroy(arena);
}

static void test_values_one_after_the_other(void **state)
{
	(void)state;
	for (size_t window = 0; window < 200; window += 37) {
		check_values("[\n{\"n\": 1},\n{\"n\": 2},\n{}]", window, 3, 3,
			false, false);
		check_values("{\"n\": 1}\n{\"n\": \"41\"}\n", window, 2, 42,
			false, false);
		check_values("[{\"n\": ncclFloat32, \"s\": 0x1f}, "
			"{\"n\": 7}]", window, 2, 7, false, false);
		check_values("[{\"n\": 1}, {\"n\"", window, 1, 1, true,
			false);
		check_values("[{\"n\": 1},\n", window, 1, 1, true, false);
		check_values("{\"n\": 1}\n{\"n\": 1 2}\n{\"n\": 4}", window,
			1, 1, false, true);
		check_values("", window, 0, 0, false, false);
	}
}

static void test_deep_nesting_ends(void **state)
{
	(void)state;
	char text[4096];
	memset(text, '[', sizeof text);
	memset(text + 2000, ']', 2000);
	text[4000] = '\0';
	check_values(text, 0, 0, 0, false, true);
}

static void test_words(void **state)
{
	(void)state;
	static const char text[] = "{\"d\": -1.25, \"t\": true, \"z\": null,"
		" \"w\": ncclFloat32, \"e\": \"a\\u00e9\\n\","
		" \"s\": -1.5e-3, \"l\": 2E+3, \"x\": 1e, \"y\": 1e99999}";
	struct tauti_stream *stream = NULL;
	struct tauti_values values;
	struct tauti_value *v = NULL;
	struct taut_arena *arena = taut_arena_create();
	assert_int_equal(tauti_stream_open_memory(
		"j", text, strlen(text), &stream, NULL), TAUT_OK);
	assert_int_equal(
		tauti_values_init(&values, stream, 0, NULL), TAUT_OK);
	assert_int_equal(
		tauti_values_next(&values, arena, &v, NULL), TAUT_OK);
	assert_true(tauti_tree_get(v, "d")->number == -1.25);
	assert_int_equal(tauti_tree_int(tauti_tree_get(v, "d"), 0), -1);
	assert_int_equal(tauti_tree_int(tauti_tree_get(v, "t"), 0), 1);
	assert_true(fabs(tauti_tree_get(v, "s")->number + 0.0015) < 1e-12);
	assert_int_equal(tauti_tree_get(v, "l")->kind, TAUTI_VALUE_DOUBLE);
	assert_int_equal(tauti_tree_int(tauti_tree_get(v, "l"), 0), 2000);
	assert_string_equal(tauti_tree_text(tauti_tree_get(v, "x")), "1e");
	assert_string_equal(tauti_tree_text(tauti_tree_get(v, "y")), "1e99999");
	assert_int_equal(tauti_tree_get(v, "z")->kind, TAUTI_VALUE_NONE);
	assert_string_equal(
		tauti_tree_text(tauti_tree_get(v, "w")), "ncclFloat32");
	assert_string_equal(
		tauti_tree_text(tauti_tree_get(v, "e")), "a\xc3\xa9 ");
	tauti_values_fini(&values);
	tauti_stream_close(stream);
	taut_arena_destroy(arena);
}

static void test_no_memory(void **state)
{
	(void)state;
	static const char bytes[] = "\x80\x02}q\x00(X\x01\0\0\0aq\x01]q\x02("
		"K\x01K\x02N\x86q\x03""eX\x01\0\0\0bq\x04h\x02u.";
	taut_status status = TAUT_ENOMEM;
	for (long n = 0; status != TAUT_OK; n++) {
		struct taut_arena *arena = taut_arena_create();
		struct tauti_value *value;
		struct taut_error err;
		alloc_fail_after(n);
		status = tauti_tree_unpickle("p",
			(const unsigned char *)bytes, sizeof bytes - 1, arena,
			&value, &err);
		alloc_fail_never();
		assert_true(status == TAUT_OK || status == TAUT_ENOMEM);
		taut_arena_destroy(arena);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_containers_and_memo),
		cmocka_unit_test(test_refuses_code),
		cmocka_unit_test(test_refuses_what_is_broken),
		cmocka_unit_test(test_values_one_after_the_other),
		cmocka_unit_test(test_deep_nesting_ends),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

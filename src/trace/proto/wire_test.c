/* Fields in memory and from a stream, worked out by hand from the format. */
#include "tests/support/unit.h"

#include "trace/proto/wire.h"
#include "trace/stream.h"

#define LEN(text) (sizeof(text) - 1)

static void test_fields_in_memory(void **state)
{
	(void)state;
	/* 1: varint 300, 2: "hi", 3: fixed64 1.5, 4: fixed32 7,
	 * 5: varint -1 */
	static const char bytes[] =
		"\x08\xac\x02" "\x12\x02hi"
		"\x19\x00\x00\x00\x00\x00\x00\xf8\x3f"
		"\x25\x07\x00\x00\x00"
		"\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
	struct tauti_wire w = tauti_wire_of(bytes, LEN(bytes));
	struct tauti_field f;
	assert_true(tauti_wire_next(&w, &f));
	assert_int_equal(f.number, 1);
	assert_int_equal(f.type, TAUTI_WIRE_VARINT);
	assert_int_equal(f.value, 300);
	assert_true(tauti_wire_next(&w, &f));
	assert_int_equal(f.number, 2);
	assert_int_equal(f.value, 2);
	assert_memory_equal(f.bytes, "hi", 2);
	assert_true(tauti_wire_next(&w, &f));
	assert_true(tauti_wire_double(f.value) == 1.5);
	assert_true(tauti_wire_next(&w, &f));
	assert_int_equal(f.type, TAUTI_WIRE_FIXED32);
	assert_int_equal(f.value, 7);
	assert_true(tauti_wire_next(&w, &f));
	assert_int_equal((int64_t)f.value, -1);
	assert_false(tauti_wire_next(&w, &f));
	assert_false(w.broken);
}

static void test_a_message_in_a_message(void **state)
{
	(void)state;
	static const char bytes[] = "\x0a\x04\x0a\x02\x08\x05";
	struct tauti_wire w = tauti_wire_of(bytes, LEN(bytes));
	struct tauti_field f;
	assert_true(tauti_wire_next(&w, &f));
	struct tauti_wire in = tauti_wire_in(&f);
	assert_true(tauti_wire_next(&in, &f));
	in = tauti_wire_in(&f);
	assert_true(tauti_wire_next(&in, &f));
	assert_int_equal(f.value, 5);
	assert_false(tauti_wire_next(&w, &f));
	assert_false(w.broken);
}

static bool is_broken(const char *bytes, size_t len)
{
	struct tauti_wire w = tauti_wire_of(bytes, len);
	struct tauti_field f;
	while (tauti_wire_next(&w, &f))
		;
	return w.broken;
}

static void test_broken_fields(void **state)
{
	(void)state;
	assert_false(is_broken("", 0));
	assert_true(is_broken("\x08", 1));		/* no value */
	assert_true(is_broken("\x08\x80", 2));	/* a varint without end */
	assert_true(is_broken("\x12\x03hi", 4)); /* shorter than it says */
	assert_true(is_broken("\x00\x01", 2));	/* number 0 */
	assert_true(is_broken("\x0b\x0c", 2));	/* a group */
	assert_true(is_broken("\x0f\x01", 2));	/* type 7 */
	assert_true(is_broken("\x25\x01\x02\x03", 4)); /* half a fixed32 */
	/* 65 bits, and a length of 2^64 - 1. */
	assert_true(is_broken(
		"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11));
	assert_true(is_broken(
		"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11));
}

static void test_packed_and_zigzag(void **state)
{
	(void)state;
	struct tauti_wire w = tauti_wire_of("\x01\x96\x01\x03", 4);
	uint64_t value = 0;
	assert_true(tauti_wire_varint(&w, &value));
	assert_int_equal(value, 1);
	assert_true(tauti_wire_varint(&w, &value));
	assert_int_equal(value, 150);
	assert_true(tauti_wire_varint(&w, &value));
	assert_int_equal(tauti_wire_zigzag(value), -2);
	assert_int_equal(tauti_wire_zigzag(0), 0);
	assert_int_equal(tauti_wire_zigzag(UINT64_MAX), INT64_MIN);
	assert_false(tauti_wire_varint(&w, &value));
	assert_false(w.broken);
}

/* --- from a stream -------------------------------------------------------- */

struct fed {
	struct tauti_stream *stream;
	struct tauti_feed feed;
};

static void open_fed(
	struct fed *fed, const void *bytes, size_t len, size_t usual)
{
	assert_int_equal(tauti_stream_open_memory(
		"t", bytes, len, &fed->stream, NULL), TAUT_OK);
	assert_int_equal(tauti_feed_init(
		&fed->feed, fed->stream, usual, NULL), TAUT_OK);
}

static void close_fed(struct fed *fed)
{
	tauti_feed_fini(&fed->feed);
	tauti_stream_close(fed->stream);
}

static enum tauti_feed_result next(
	struct fed *fed, uint64_t end, struct tauti_field *f)
{
	enum tauti_feed_result result;
	assert_int_equal(tauti_feed_field(
		&fed->feed, end, f, &result, NULL), TAUT_OK);
	return result;
}

/* Enters one message and passes over another that is larger than the feed. */
static void test_walk_of_a_stream(void **state)
{
	(void)state;
	char bytes[1024] = "\x0a\x05\x08\x07\x10\xac\x02"
			   "\x12\xe8\x07"; /* 1000 bytes */
	memcpy(bytes + 1010, "\x18\x2a", 2);
	struct fed fed;
	struct tauti_field f;
	open_fed(&fed, bytes, 1012, 32);
	assert_int_equal(next(&fed, UINT64_MAX, &f), TAUTI_FEED_FIELD);
	assert_int_equal(f.value, 5);
	uint64_t end = fed.feed.offset + f.value;
	assert_int_equal(next(&fed, end, &f), TAUTI_FEED_FIELD);
	assert_int_equal(f.value, 7);
	assert_int_equal(next(&fed, end, &f), TAUTI_FEED_FIELD);
	assert_int_equal(f.value, 300);
	assert_int_equal(next(&fed, end, &f), TAUTI_FEED_END);
	assert_int_equal(next(&fed, UINT64_MAX, &f), TAUTI_FEED_FIELD);
	assert_int_equal(f.value, 1000);
	assert_int_equal(tauti_feed_skip(&fed.feed, 1000, NULL), TAUT_OK);
	assert_int_equal(fed.feed.offset, 1010);
	assert_int_equal(next(&fed, UINT64_MAX, &f), TAUTI_FEED_FIELD);
	assert_int_equal(f.number, 3);
	assert_int_equal(f.value, 42);
	assert_int_equal(next(&fed, UINT64_MAX, &f), TAUTI_FEED_END);
	assert_int_equal(fed.feed.capacity, 32);
	close_fed(&fed);
}

static void test_the_feed_grows_for_what_is_wanted(void **state)
{
	(void)state;
	static char bytes[5000];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (char)(i % 101);
	struct fed fed;
	open_fed(&fed, bytes, sizeof bytes, 32);
	assert_int_equal(tauti_feed_want(&fed.feed, 10, NULL), TAUT_OK);
	tauti_feed_take(&fed.feed, 7);
	assert_int_equal(tauti_feed_want(&fed.feed, 3000, NULL), TAUT_OK);
	assert_true(fed.feed.held >= 3000);
	assert_memory_equal(fed.feed.at, bytes + 7, 3000);
	assert_int_equal(tauti_feed_want(&fed.feed, 9000, NULL), TAUT_OK);
	assert_int_equal(fed.feed.held, sizeof bytes - 7);
	struct taut_error err;
	close_fed(&fed);
	open_fed(&fed, bytes, sizeof bytes, 32);
	assert_int_equal(tauti_feed_want(
		&fed.feed, TAUTI_FEED_MAX + 1, &err), TAUT_EFORMAT);
	assert_string_equal(err.message,
		"t: byte 0: one message is larger than 16 MiB");
	close_fed(&fed);
}

static enum tauti_feed_result result_of(
	const char *bytes, size_t len, uint64_t end)
{
	struct fed fed;
	struct tauti_field f;
	open_fed(&fed, bytes, len, 32);
	enum tauti_feed_result result = next(&fed, end, &f);
	close_fed(&fed);
	return result;
}

static void test_cut_and_broken_streams(void **state)
{
	(void)state;
	assert_int_equal(result_of("", 0, UINT64_MAX), TAUTI_FEED_END);
	assert_int_equal(result_of("", 0, 5), TAUTI_FEED_CUT);
	assert_int_equal(result_of("\x08\x80", 2, UINT64_MAX),
		TAUTI_FEED_CUT);
	assert_int_equal(result_of("\x08\x80", 2, 2), TAUTI_FEED_BROKEN);
	assert_int_equal(result_of("\x0a\x05hi", 4, 4), TAUTI_FEED_BROKEN);
	/* What lies behind the end of the stream is for who reads it. */
	assert_int_equal(result_of("\x0a\x05hi", 4, UINT64_MAX),
		TAUTI_FEED_FIELD);
	assert_int_equal(result_of("\x00\x00", 2, 2), TAUTI_FEED_BROKEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields_in_memory),
		cmocka_unit_test(test_a_message_in_a_message),
		cmocka_unit_test(test_broken_fields),
		cmocka_unit_test(test_packed_and_zigzag),
		cmocka_unit_test(test_walk_of_a_stream),
		cmocka_unit_test(test_the_feed_grows_for_what_is_wanted),
		cmocka_unit_test(test_cut_and_broken_streams),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

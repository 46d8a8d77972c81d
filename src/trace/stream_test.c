#include "trace/test_support.h"

#include <unistd.h>

#include "trace/stream.h"

struct bytes {
	char data[4096];
	size_t len;
};

static void add_member(struct bytes *b, const char *text)
{
	b->len += gzip_member(text, strlen(text), b->data + b->len);
}

/* All of the stream, taken step bytes at a time, in a static buffer. */
static const char *drain(struct tauti_stream *s, size_t step)
{
	static char out[8192];
	size_t len = 0, got;
	do {
		assert_true(len + step < sizeof out);
		assert_int_equal(
			tauti_stream_read(s, out + len, step, &got, NULL),
			TAUT_OK);
		len += got;
	} while (got == step);
	out[len] = '\0';
	return out;
}

static struct tauti_stream *open_bytes(const void *data, size_t len)
{
	struct tauti_stream *s = NULL;
	assert_int_equal(
		tauti_stream_open_memory("t", data, len, &s, NULL), TAUT_OK);
	return s;
}

static void test_plain_memory(void **state)
{
	(void)state;
	for (size_t step = 1; step < 20; step++) {
		struct tauti_stream *s = open_bytes("hello, world", 12);
		assert_false(tauti_stream_is_gzip(s));
		assert_string_equal(drain(s, step), "hello, world");
		tauti_stream_close(s);
	}
	struct tauti_stream *s = open_bytes(NULL, 0);
	assert_string_equal(drain(s, 5), "");
	tauti_stream_close(s);
}

static void test_members_are_one_text(void **state)
{
	(void)state;
	for (size_t step = 1; step < 40; step++) {
		struct bytes b = { .len = 0 };
		add_member(&b, "first, ");
		add_member(&b, "");
		add_member(&b, "second");
		struct tauti_stream *s = open_bytes(b.data, b.len);
		assert_true(tauti_stream_is_gzip(s));
		assert_string_equal(drain(s, step), "first, second");
		assert_false(tauti_stream_is_cut(s));
		assert_false(tauti_stream_has_tail(s));
		tauti_stream_close(s);
	}
}

static void test_padding_and_tails(void **state)
{
	(void)state;
	struct bytes b = { .len = 0 };
	add_member(&b, "text");
	memset(b.data + b.len, 0, 20);
	struct tauti_stream *s = open_bytes(b.data, b.len + 20);
	assert_string_equal(drain(s, 64), "text");
	assert_false(tauti_stream_has_tail(s));
	tauti_stream_close(s);
	memcpy(b.data + b.len, "garbage", 7);
	s = open_bytes(b.data, b.len + 7);
	assert_string_equal(drain(s, 64), "text");
	assert_true(tauti_stream_has_tail(s));
	tauti_stream_close(s);
}

/* Cut at every byte, gzip gives a beginning of the text and says so. */
static void test_cut_anywhere(void **state)
{
	(void)state;
	static const char text[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	struct bytes b = { .len = 0 };
	add_member(&b, text);
	size_t most = 0;
	for (size_t len = 2; len < b.len; len++) {
		struct tauti_stream *s = open_bytes(b.data, len);
		const char *got = drain(s, 16);
		assert_memory_equal(got, text, strlen(got));
		assert_true(tauti_stream_is_cut(s));
		most = strlen(got);
		tauti_stream_close(s);
	}
	assert_int_equal(most, strlen(text)); /* all but the trailer */
}

static void test_rewind(void **state)
{
	(void)state;
	struct bytes b = { .len = 0 };
	add_member(&b, "first, ");
	add_member(&b, "second");
	memcpy(b.data + b.len, "garbage", 7);
	struct tauti_stream *s = open_bytes(b.data, b.len + 7);
	const char *head;
	size_t len;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(tauti_stream_peek(
			s, &head, &len, NULL), TAUT_OK);
		assert_int_equal(len, 13);
		if (i > 0)
			assert_string_equal(drain(s, 3), "first, second");
		assert_int_equal(tauti_stream_rewind(s, NULL), TAUT_OK);
		assert_false(tauti_stream_has_tail(s));
	}
	tauti_stream_close(s);
	s = open_bytes("plain", 5);
	assert_string_equal(drain(s, 64), "plain");
	assert_int_equal(tauti_stream_rewind(s, NULL), TAUT_OK);
	assert_string_equal(drain(s, 2), "plain");
	tauti_stream_close(s);
}

static void test_corrupt_is_refused(void **state)
{
	(void)state;
	static const char text[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	struct bytes b = { .len = 0 };
	char out[256];
	size_t got;
	struct taut_error err = { 0 };
	add_member(&b, text);
	b.data[b.len - 6] ^= 1; /* in the checksum */
	struct tauti_stream *s = open_bytes(b.data, b.len);
	assert_int_equal(tauti_stream_read(s, out, sizeof out, &got, &err),
		TAUT_EFORMAT);
	assert_non_null(strstr(err.message,
		"t: corrupt gzip: a checksum that does not match near byte"));
	tauti_stream_close(s);
}

static void test_peek_leaves_the_bytes(void **state)
{
	(void)state;
	struct bytes b = { .len = 0 };
	const char *head;
	size_t len = 0;
	add_member(&b, "peek at me");
	struct tauti_stream *s = open_bytes(b.data, b.len);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(
			tauti_stream_peek(s, &head, &len, NULL), TAUT_OK);
		assert_int_equal(len, 10);
		assert_memory_equal(head, "peek at me", 10);
	}
	assert_string_equal(drain(s, 3), "peek at me");
	tauti_stream_close(s);
}

static void test_files(void **state)
{
	(void)state;
	char path[] = "/tmp/taut-stream-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	size_t len = 300000; /* more than one block of input */
	char *text = malloc(len * 2 + 512);
	assert_non_null(text);
	for (size_t i = 0; i < len; i++)
		text[i] = (char)('a' + i * i % 23);
	for (int gzip = 0; gzip < 2; gzip++) {
		size_t n = gzip ? gzip_member(text, len, text + len) : len;
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(
			pwrite(fd, gzip ? text + len : text, n, 0), n);
		struct tauti_stream *s = NULL;
		assert_int_equal(tauti_stream_open_file(path, NULL, &s, NULL),
			TAUT_OK);
		char *back = malloc(len + 10);
		size_t got = 0;
		assert_int_equal(tauti_stream_read(
					 s, back, len + 10, &got, NULL),
			TAUT_OK);
		assert_int_equal(got, len);
		assert_memory_equal(back, text, len);
		assert_int_equal(tauti_stream_taken(s), n);
		free(back);
		tauti_stream_close(s);
	}
	free(text);
	close(fd);
	unlink(path);
}

static void test_what_cannot_be_opened(void **state)
{
	(void)state;
	struct tauti_stream *s = NULL;
	struct taut_error err = { 0 };
	assert_int_equal(
		tauti_stream_open_file("/no/such.json", NULL, &s, &err),
		TAUT_EIO);
	assert_string_equal(err.message,
		"/no/such.json: cannot open: No such file or directory");
	assert_int_equal(
		tauti_stream_open_file("/tmp", NULL, &s, &err), TAUT_EIO);
	assert_string_equal(
		err.message, "/tmp: is a folder, expected a file");
	assert_null(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_memory),
		cmocka_unit_test(test_members_are_one_text),
		cmocka_unit_test(test_padding_and_tails),
		cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_rewind),
		cmocka_unit_test(test_corrupt_is_refused),
		cmocka_unit_test(test_peek_leaves_the_bytes),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_what_cannot_be_opened),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

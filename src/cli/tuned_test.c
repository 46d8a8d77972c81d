/* The file between a search and a job: what is read, and what is refused. */
#include "tests/support/unit.h"

#include <string.h>

#include "cli/tuned.h"

static void expect(const char *text, uint64_t piece, uint64_t credit,
	uint64_t fuse, enum taut_coll_way way)
{
	struct taut_setting s;
	struct taut_error err;

	if (tuned_parse(text, strlen(text), "f", &s, &err))
		fail_msg("%s", err.message);
	assert_int_equal(s.piece_bytes, piece);
	assert_int_equal(s.credit_bytes, credit);
	assert_int_equal(s.fuse_bytes, fuse);
	assert_int_equal(s.way, way);
}

static void refuse(const char *text, const char *line)
{
	struct taut_setting s = { 7, 7, 7, TAUT_WAY_RING };
	struct taut_error err;

	assert_int_equal(tuned_parse(text, strlen(text), "f", &s, &err),
		TAUT_EFORMAT);
	if (!strstr(err.message, line))
		fail_msg("'%s' does not say '%s'", err.message, line);
	assert_int_equal(s.piece_bytes, 7);
}

static void test_read(void **state)
{
	(void)state;
	expect("piece 1\ncredit 2\nfuse 3\nway ring\n", 1, 2, 3, TAUT_WAY_RING);
	expect("# found\r\n\nway\tauto # as ever\r\n fuse 0\npiece 0\ncredit 4M",
		0, 4 << 20, 0, TAUT_WAY_AUTO);
}

static void test_refused(void **state)
{
	char longer[TUNED_BYTES + 2];

	(void)state;
	refuse("", "f: expected a line for piece");
	refuse("piece 1\ncredit 2\nfuse 3\n", "f: expected a line for way");
	refuse("piece 1\npiece 1\n", "f:2: expected each name once");
	refuse("piece x\n", "f:1: expected bytes");
	refuse("piece\n", "f:1: expected bytes");
	refuse("piece 99999999999999\n", "f:1: expected bytes");
	refuse("#\n#\nway sideways\n", "f:3: expected a way");
	refuse("speed 9\n", "f:1: expected piece, credit, fuse or way");
	memset(longer, '#', sizeof longer);
	longer[sizeof longer - 1] = '\0';
	refuse(longer, "at most 4096 bytes");
}

static void test_written(void **state)
{
	const struct taut_setting s = { 1 << 20, 1 << 22, 0, TAUT_WAY_HOSTS };
	char text[TUNED_BYTES] = "";
	FILE *out = fmemopen(text, sizeof text, "w");
	struct taut_error err;

	(void)state;
	assert_non_null(out);
	assert_int_equal(tuned_write(&s, out, &err), TAUT_OK);
	fclose(out);
	expect(text, 1 << 20, 1 << 22, 0, TAUT_WAY_HOSTS);
	assert_int_equal(tuned_read("/no/such/file", &(struct taut_setting){ 0 },
		&err), TAUT_EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* sweep_test.c - the values of a sweep. */
#include "tests/support/unit.h"

#include <string.h>

#include "tests/support/alloc_fail.h"
#include "whatif/sweep.h"

static struct taut_arena *arena;

static int begin(void **state)
{
	(void)state;
	arena = taut_arena_create();
	return arena == NULL;
}

static int end(void **state)
{
	(void)state;
	taut_arena_destroy(arena);
	return 0;
}

/* Values with a space between them. */
static void expect(const char *text, const char *name, bool numeric,
	const char *values)
{
	struct tauti_sweep s;
	struct taut_error err = { 0 };
	char got[256] = "";

	if (tauti_sweep_read(text, arena, &s, &err))
		fail_msg("%s: %s", text, err.message);
	for (uint32_t i = 0; i < s.n_points; i++) {
		strcat(got, i ? " " : "");
		strcat(got, s.points[i].value);
	}
	assert_string_equal(got, values);
	assert_string_equal(s.name, name);
	if (s.numeric != numeric)
		fail_msg("%s: numeric %d", text, s.numeric);
}

static void test_lists(void **state)
{
	(void)state;
	expect("link=2x", "link", false, "2x");
	expect("link=1x,2x,4x", "link", true, "1x 2x 4x");
	expect("link=500mbit,1gbit,2.5Gbit/s", "link", true,
		"500mbit 1gbit 2.5Gbit/s");
	expect("link=1gbit,500mbit", "link", true, "1gbit 500mbit");
	expect("link=1gbit,500mbit,2gbit", "link", false,
		"1gbit 500mbit 2gbit");
	expect("link=-50%,-10%,+25%", "link", true, "-50% -10% +25%");
	expect("compress=fp16,topk", "compress", false, "fp16 topk");
	expect("link=2x,latency=1us,1ms", "link=2x,latency", true, "1us 1ms");
}

static void test_ranges(void **state)
{
	(void)state;
	expect("link=1gbit..4gbit:4", "link", true,
		"1gbit 2gbit 3gbit 4gbit");
	expect("link=1..4gbit:x3", "link", true, "1gbit 2gbit 4gbit");
	expect("world=2..64:x6", "world", true, "2 4 8 16 32 64");
	expect("world=1..4:10", "world", true, "1 2 3 4");
	expect("batch=0.5..2.0x:4", "batch", true, "0.5x 1x 1.5x 2x");
	expect("link=4x..1x:2", "link", true, "4x 1x");
	expect("x=1..2.0:3", "x", true, "1 1.5 2");
	expect("link=1x..2x:x3", "link", true, "1x 1.414x 2x");
	expect("link=0.1x..0.2x:x3", "link", true, "0.1x 0.1414x 0.2x");
	expect("bucket=1024KiB..4096KiB:x4", "bucket", true,
		"1024KiB 1625KiB 2580KiB 4096KiB");
	expect("x=0..1000000000:3", "x", true, "0 500000000 1000000000");
}

static void refused(const char *text, const char *says)
{
	struct tauti_sweep s;
	struct taut_error err = { 0 };

	assert_int_equal(
		tauti_sweep_read(text, arena, &s, &err), TAUT_EINVAL);
	if (!strstr(err.message, says))
		fail_msg("%s: %s", text, err.message);
}

static void test_what_is_no_sweep(void **state)
{
	(void)state;
	refused("", "expected NAME=VALUE,VALUE,... or NAME=A..B:N");
	refused("link", "found 'link'");
	refused("link=", "found 'link='");
	refused("=2x", "found '=2x'");
	refused("link=1x,,2x", "a value behind each comma");
	refused("link=1x,", "a value behind each comma");
	refused("link=1x..2x", "NAME=A..B:N");
	refused("link=1x..2x:1", "N from 2 to 1000");
	refused("link=1x..2x:1001", "N from 2 to 1000");
	refused("link=1x..2x:3x", "NAME=A..B:N");
	refused("link=1x..2gbit:3", "NAME=A..B:N");
	refused("link=0x..2x:x3", "NAME=A..B:N");
	refused("link=..2x:3", "NAME=A..B:N");
	refused("link=a..b:3", "NAME=A..B:N");
}

static void test_no_memory(void **state)
{
	taut_status status = TAUT_ENOMEM;

	(void)state;
	for (long n = 0; status == TAUT_ENOMEM; n++) {
		struct taut_arena *small;
		struct tauti_sweep s;

		alloc_fail_after(n);
		small = taut_arena_create();
		if (small)
			status = tauti_sweep_read(
				"link=1x..2x:1000", small, &s, NULL);
		alloc_fail_never();
		taut_arena_destroy(small);
	}
	assert_int_equal(status, TAUT_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_what_is_no_sweep),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, begin, end);
}

/* measured_test.c - what ranks wrote of their steps: the median, the mean and its error, and
 * files that are not what a rank writes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/measured.h"
#include "tests/support/alloc_fail.h"
#include "tests/support/unit.h"

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

static struct measured parse(const char *text)
{
	struct measured m;
	struct taut_error err;

	if (measured_parse(text, strlen(text), "f", arena, &m, &err))
		fail_msg("%s", err.message);
	return m;
}

static void refuse(const char *text, const char *line)
{
	struct measured m = { .n_ranks = 77 };
	struct taut_error err;

	assert_int_equal(measured_parse(text, strlen(text), "f", arena, &m,
		&err), TAUT_EFORMAT);
	assert_string_equal(err.message, line);
	assert_int_equal(m.n_ranks, 77);
}

/* --- one file ------------------------------------------------------------------------- */

static void test_median(void **state)
{
	struct measured m = parse("{\"step_ns\":[30,10,20,50,40]}");

	(void)state;
	assert_int_equal(m.n_ranks, 1);
	assert_int_equal(m.n_steps, 5);
	assert_int_equal(m.median_ns, 30);
	assert_int_equal(m.mean_ns, 30);
	assert_int_equal(m.memory_bytes, -1);
	assert_int_equal(m.n_missed, 0);
	m = parse("{\"rank\":3,\"step_ns\":[],\"peak_memory_bytes\":12345}");
	assert_int_equal(m.n_steps, 0);
	assert_int_equal(m.median_ns, 0);
	assert_int_equal(m.mean_ns, 0);
	assert_int_equal(m.error_ns, 0);
	assert_int_equal(m.memory_bytes, 12345);
}

/* A rank of n steps of these, again and again. */
static struct measured repeat(const int *steps, int n_steps, int n)
{
	char *text;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	struct measured m;

	assert_non_null(out);
	fputs("{\"step_ns\":[", out);
	for (int i = 0; i < n; i++)
		fprintf(out, "%s%d", i ? "," : "", steps[i % n_steps]);
	fputs("]}", out);
	fclose(out);
	m = parse(text);
	free(text);
	return m;
}

/* Ten blocks of two steps, of 1 to 10 thousand: eight count. Those, and 2 and 9 once
 * more: a sum of squares of 66.5 around 5.5, which is sqrt(66.5 / 9 / 10) of 10, and
 * 1.25 of that of 8. */
static void test_blocks(void **state)
{
	const int steps[] = { 5100, 4900, 900, 1100, 10050, 9950, 2000, 2000, 3000,
		3000, 9000, 9000, 8000, 8000, 6000, 6000, 4000, 4000, 7000,
		7000 };
	struct measured m = repeat(steps, 20, 20);

	(void)state;
	assert_int_equal(m.mean_ns, 5500);
	assert_true(fabs((double)m.error_ns -
		1000 * 1.25 * sqrt(66.5 / 9 / 10)) <= 1);
	m = parse("{\"step_ns\":[500,500,500,500]}");
	assert_int_equal(m.error_ns, 0);
	m = parse("{\"step_ns\":[500]}");
	assert_int_equal(m.mean_ns, 500);
	assert_int_equal(m.error_ns, 0);
}

/* Four loader workers that do not keep up: three steps of four find a batch. */
static void test_bursts(void **state)
{
	const int steps[] = { 50, 50, 50, 250 };

	(void)state;
	for (int n = 80; n < 4096; n = n * 5 / 4) {
		struct measured m = repeat(steps, 4, n);

		assert_int_equal(m.median_ns, 50);
		assert_true(m.mean_ns >= 98 && m.mean_ns <= 102);
	}
}

/* One in 100 steps: a pause that another run may not have. */
static void test_a_pause(void **state)
{
	int steps[100];
	struct measured m;

	(void)state;
	for (int i = 0; i < 100; i++)
		steps[i] = i == 50 ? 2000 : 50;
	m = repeat(steps, 100, 100);
	assert_int_equal(m.mean_ns, 50);
	assert_int_equal(m.error_ns, 0);
}

static void test_missed(void **state)
{
	struct measured m = parse("{\"step_ns\":[1],\"not_applied\":{"
		"\"workers=4\":\"no DataLoader was made\",\"amp\":\"\","
		"\"workers=4\":\"no DataLoader was made\"}}");

	(void)state;
	assert_int_equal(m.n_missed, 2);
	assert_string_equal(
		m.missed[0], "workers=4: no DataLoader was made");
	assert_string_equal(m.missed[1], "amp: ");
}

static void test_refused(void **state)
{
	static const char object[] = "f: expected a JSON object, as a rank of "
		"taut run writes it";
	static const char list[] = "f: expected step_ns, a list, as a rank of "
		"taut run writes it";
	static const char times[] = "f: expected nanoseconds in step_ns, as a "
		"rank of taut run writes it";
	static const char missed[] = "f: expected not_applied, an object, as a "
		"rank of taut run writes it";

	(void)state;
	refuse("", object);
	refuse("7", object);
	refuse("{\"step_ns\":[1]", object);
	refuse("{}", list);
	refuse("{\"step_ns\":1}", list);
	refuse("{\"step_ns\":{\"a\":1}}", list);
	refuse("{\"step_ns\":[1,\"2\"]}", times);
	refuse("{\"step_ns\":[1,-2]}", times);
	refuse("{\"step_ns\":[1.5]}", times);
	refuse("{\"step_ns\":[72057594037927937]}", times);
	refuse("{\"step_ns\":[18446744073709551617]}", times); /* would be 1 */
	refuse("{\"step_ns\":[1],\"not_applied\":[]}", missed);
}

static void test_cut(void **state)
{
	static const char whole[] = "{\"rank\": 0, \"step_ns\": [1, 2, 3], "
		"\"not_applied\": {\"amp\": \"no\"}}";
	struct taut_error err;

	(void)state;
	for (size_t n = 0; n < sizeof whole - 1; n++) {
		char *text = malloc(n + 1);
		struct measured m;

		assert_non_null(text);
		memcpy(text, whole, n);
		assert_int_equal(measured_parse(text, n, "f", arena, &m, &err),
			TAUT_EFORMAT);
		free(text);
	}
	assert_int_equal(parse(whole).median_ns, 2);
}

/* --- a folder --------------------------------------------------------------------------- */

static void put_file(const char *folder, const char *name, const char *text)
{
	char path[256];
	FILE *out;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	out = fopen(path, "w");
	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

static void remove_file(const char *folder, const char *name)
{
	char path[256];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	unlink(path);
}

static void test_folder(void **state)
{
	static const char *const names[] = { "rank-0.json", "rank-1.json",
		"rank-12.json", "rank-.json", "rank-0.json.part", "other.json" };
	char folder[] = "/tmp/taut-measured-XXXXXX";
	struct measured m;
	struct taut_error err;

	(void)state;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(measured_read(folder, arena, &m, &err), TAUT_OK);
	assert_int_equal(m.n_ranks, 0);
	assert_int_equal(m.n_steps, 0);
	put_file(folder, names[0], "{\"step_ns\":[10,30],"
		"\"peak_memory_bytes\":5,\"not_applied\":{\"amp\":\"no\"}}");
	put_file(folder, names[1], "{\"step_ns\":[20],"
		"\"peak_memory_bytes\":9,\"not_applied\":{\"amp\":\"no\"}}");
	put_file(folder, names[2], "{\"step_ns\":[40,50]}");
	for (size_t i = 3; i < 6; i++)
		put_file(folder, names[i], "no rank's");
	assert_int_equal(measured_read(folder, arena, &m, &err), TAUT_OK);
	assert_int_equal(m.n_ranks, 3);
	assert_int_equal(m.n_steps, 5);
	assert_int_equal(m.median_ns, 30);
	assert_int_equal(m.mean_ns, (20 + 20 + 45) / 3);
	assert_int_equal(m.memory_bytes, 9);
	assert_int_equal(m.n_missed, 1);
	put_file(folder, names[1], "[");
	assert_int_equal(measured_read(folder, arena, &m, &err), TAUT_EFORMAT);
	assert_non_null(strstr(err.message, "rank-1.json: expected a JSON obj"));
	for (size_t i = 0; i < 6; i++)
		remove_file(folder, names[i]);
	rmdir(folder);
	assert_int_equal(measured_read(folder, arena, &m, &err), TAUT_EIO);
	assert_non_null(strstr(err.message, "cannot be read: No such file"));
}

/* --- which is better ------------------------------------------------------------------- */

static void test_better(void **state)
{
	const struct measured slow = { .n_steps = 9, .mean_ns = 1000,
		.error_ns = 3 };
	struct measured fast = { .n_steps = 9, .mean_ns = 989, .error_ns = 4 };

	(void)state;
	assert_true(measured_is_better(&fast, &slow, 0.01));
	assert_false(measured_is_better(&fast, &slow, 0.012));
	assert_false(measured_is_better(&slow, &fast, 0));
	fast.mean_ns = 991; /* 9 is no more than twice 5 */
	assert_false(measured_is_better(&fast, &slow, 0));
	fast.mean_ns = 990; /* exactly twice */
	assert_false(measured_is_better(&fast, &slow, 0));
	fast.mean_ns = 989;
	fast.n_steps = 0;
	assert_false(measured_is_better(&fast, &slow, 0));
	assert_false(measured_is_better(&slow, &slow, 0));
}

static void test_no_memory(void **state)
{
	static const char text[] = "{\"step_ns\":[1,2,3],\"not_applied\":"
		"{\"amp\":\"no\"}}";
	taut_status status = TAUT_ENOMEM;
	long n = 0;

	(void)state;
	for (; status; n++) {
		struct taut_arena *small = taut_arena_create();
		struct taut_error err;
		struct measured m;

		assert_non_null(small);
		alloc_fail_after(n);
		status = measured_parse(
			text, strlen(text), "f", small, &m, &err);
		alloc_fail_never();
		if (status)
			assert_int_equal(status, TAUT_ENOMEM);
		taut_arena_destroy(small);
	}
	assert_true(n > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_median),
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_bursts),
		cmocka_unit_test(test_a_pause),
		cmocka_unit_test(test_missed),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_folder),
		cmocka_unit_test(test_better),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, begin, end);
}

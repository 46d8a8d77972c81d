/* tuned_out_test.c - the runs of a job and what stays of its plan, as text and JSON:
 * against files that were read by a person. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/tuned_out.h"
#include "tests/support/alloc_fail.h"
#include "tests/support/golden.h"

static const char *const whole[] = { "workers=2", "bucket=1MiB",
	"compress=fp16" };
static const char *const parts[] = { "bucket=1MiB", "compress=fp16" };
static const struct tauti_tuned_run runs[] = {
	{ "the job as it is", NULL, 0, 200000000, 201500000, 300000,
		201400000 },
	{ "with the plan", whole, 3, 140000000, 147000000, 250000,
		146500000 },
	{ "without workers=2", parts, 2, 141000000, 146900000, 200000,
		146900000 },
	{ "without bucket=1MiB", whole, 1, 0, 180000000, 0, 121000000 },
};
static const struct taut_decision decisions[] = {
	{ "bucket=1MiB", TAUT_NUMERICS_REORDERED, -1 },
	{ "compress=fp16", TAUT_NUMERICS_LOSSY, 190000000 },
};
static const struct taut_plan kept = { .decisions = decisions,
	.n_decisions = 2 };
static const struct taut_plan nothing = { .n_decisions = 0 };
static const struct tauti_tuned_view view = { &kept, "out/tuned.json", runs, 4,
	201500000, 146900000 };
static const struct tauti_tuned_view view_of_none = { &nothing,
	"out/tuned.json", runs, 1, 201500000, 201500000 };

typedef taut_status (*render)(const struct tauti_tuned_view *view, FILE *out,
	struct taut_error *err);

static taut_status text_of(const struct tauti_tuned_view *v, FILE *out,
	struct taut_error *err)
{
	const struct taut_text_options options = { .width = 100 };

	return tauti_tuned_text(v, &options, out, err);
}

static void check(render how, const struct tauti_tuned_view *v, const char *path)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	assert_int_equal(how(v, out, NULL), TAUT_OK);
	fclose(out);
	golden_check(path, text);
	free(text);
}

static void test_golden(void **state)
{
	(void)state;
	check(text_of, &view, "tests/cli/golden/tuned.txt");
	check(tauti_tuned_json, &view, "tests/cli/golden/tuned.json");
	check(text_of, &view_of_none, "tests/cli/golden/tuned_none.txt");
}

static void test_disk_full(void **state)
{
	static const render both[] = { text_of, tauti_tuned_json };

	(void)state;
	for (int i = 0; i < 2; i++) {
		FILE *full = fopen("/dev/full", "w");
		struct taut_error err = { 0 };

		if (!full)
			skip();
		assert_int_equal(both[i](&view, full, &err), TAUT_EIO);
		assert_int_equal(err.code, TAUT_EIO);
		fclose(full);
	}
}

static void test_no_memory(void **state)
{
	FILE *out = fopen("/dev/null", "w");
	taut_status status = TAUT_ENOMEM;
	long n = 0;

	(void)state;
	assert_non_null(out);
	for (; status && n < 10000; n++) {
		alloc_fail_after(n);
		status = text_of(&view, out, NULL);
		alloc_fail_never();
		if (status)
			assert_int_equal(status, TAUT_ENOMEM);
	}
	assert_int_equal(status, TAUT_OK);
	assert_true(n > 1);
	fclose(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_disk_full),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* replay_out_test.c - what taut replay prints of the sample. */
#include <stdlib.h>
#include <string.h>

#include "report/tables.h"
#include "tests/support/golden.h"
#include "tests/support/sample_report.h"
#include "tests/support/unit.h"

/* 4321 operations in 10 rounds of 0.43 ms: 100 million a second. */
static const struct tauti_replay_speed speed = { 432100, 10 };

static char *print(const struct taut_report *report, int json)
{
	struct taut_text_options options = { .width = 100 };
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	assert_int_equal(json ? tauti_replay_json(report, &speed, out, NULL) :
		tauti_replay_text(report, &speed, &options, out, NULL),
		TAUT_OK);
	fclose(out);
	return text;
}

static void test_text(void **state)
{
	char *text = print(&sample_report, 0);

	(void)state;
	golden_check("tests/cli/golden/replay.txt", text);
	free(text);
}

static void test_json(void **state)
{
	char *text = print(&sample_report, 1);

	(void)state;
	golden_check("tests/cli/golden/replay.json", text);
	free(text);
}

/* The worst steps are shown, not the first ones. */
static void test_many_steps(void **state)
{
	enum { MANY = 1000 };
	static struct taut_report_step steps[MANY];
	struct taut_report report = sample_report;
	char *text;

	(void)state;
	for (int i = 0; i < MANY; i++) {
		steps[i] = sample_steps[1];
		steps[i].id = i;
	}
	steps[777].replayed_ns = steps[777].measured_ns / 2;
	report.steps = steps;
	report.n_steps = MANY;
	text = print(&report, 0);
	assert_non_null(strstr(text, "\n     0   777   100.000    50.000"
		"   -50.00\n"));
	assert_non_null(strstr(text, "988 more"));
	free(text);
}

static void test_nothing_measured(void **state)
{
	struct taut_report_step step = { .rank = 0 };
	struct taut_report report = { .run = &sample_run, .n_ranks = 1,
		.n_steps = 1, .steps = &step };
	char *text = print(&report, 1);

	(void)state;
	assert_non_null(strstr(text, "\"error_pct\":0.000000"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_many_steps),
		cmocka_unit_test(test_nothing_measured),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

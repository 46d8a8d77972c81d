/* text_test.c - the text: one report against a file that was read by a
 * person, and for others what must always hold: its width, its folding, and
 * no section about what is not there. */
#include <stdlib.h>
#include <string.h>

#include "report/label.h"
#include "report/text.h"
#include "tests/support/alloc_fail.h"
#include "tests/support/golden.h"
#include "tests/support/sample_report.h"
#include "tests/support/unit.h"

/* Free the result. */
static char *print_with(
	const struct taut_report *report, const struct taut_text_options *options)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	assert_int_equal(
		taut_report_text(report, options, out, NULL), TAUT_OK);
	fclose(out);
	return text;
}

static char *print(const struct taut_report *report, int width, int colour)
{
	struct taut_text_options options = { .width = width, .colour = colour };

	return print_with(report, &options);
}

static void expect(const char *text, const char *part, int is_there)
{
	if ((strstr(text, part) != NULL) != is_there)
		fail_msg("'%s' is %sin:\n%s", part, is_there ? "not " : "",
			text);
}

/* Every line within width, and none ends with a space. */
static void check_lines(const char *text, int width)
{
	char line[4096];

	while (*text) {
		size_t n = strcspn(text, "\n");

		assert_in_range(n, 0, sizeof line - 1);
		memcpy(line, text, n);
		line[n] = '\0';
		if (tauti_columns(line) > width)
			fail_msg("%d columns: %s", tauti_columns(line), line);
		if (n && line[n - 1] == ' ')
			fail_msg("space at the end of: '%s'", line);
		text += n + (text[n] == '\n');
	}
}

static void test_golden(void **state)
{
	char *text = print(&sample_report, 0, 0);

	(void)state;
	golden_check("tests/cli/golden/report.txt", text);
	free(text);
}

static void test_every_width(void **state)
{
	(void)state;
	for (int width = 80; width <= 160; width += 5) {
		char *text = print(&sample_report, width, 0);

		check_lines(text, width);
		free(text);
	}
}

static void test_colour_changes_nothing_else(void **state)
{
	char *plain = print(&sample_report, 100, 0);
	char *coloured = print(&sample_report, 100, 1), *to = coloured;

	(void)state;
	expect(plain, "\033", 0);
	expect(coloured, "\033[1mWhat to do\033[0m", 1);
	for (const char *at = coloured; *at;) {
		if (*at == '\033')
			at = strchr(at, 'm') + 1;
		else
			*to++ = *at++;
	}
	*to = '\0';
	assert_string_equal(plain, coloured);
	free(plain);
	free(coloured);
}

/* One rank, one step, no communication: a list, and nothing about ranks. */
static void test_single_rank(void **state)
{
	struct taut_report_step step = { .rank = 0, .id = 3,
		.measured_ns = SAMPLE_MS(10), .replayed_ns = SAMPLE_MS(10),
		.ns = { SAMPLE_MS(9), 0, 0, SAMPLE_MS(1), 0, 0, 0 } };
	struct taut_report report = { .run = &sample_run, .n_ranks = 1,
		.ranks = sample_ranks, .hosts = sample_hosts, .n_steps = 1,
		.steps = &step, .steady_ns = SAMPLE_MS(10) };
	char *text = print(&report, 0, 0);

	(void)state;
	expect(text, "1 rank, 1 step of 10.00 ms, 90.0 % of it computing.", 1);
	expect(text, "  compute     9.00  90.0", 1);
	expect(text, "  host-bound  1.00  10.0", 1);
	expect(text, "Nothing stands out", 1);
	expect(text, "rank  ", 0);
	expect(text, "Collectives", 0);
	expect(text, "clocks", 0);
	expect(text, "exposed transfer", 0);
	expect(text, "without the first", 0);
	check_lines(text, 100);
	free(text);
}

static void test_steps_of_one_rank(void **state)
{
	struct taut_report report = sample_report;
	char *text;

	(void)state;
	report.n_ranks = 1;
	report.n_steps = 2;
	text = print(&report, 0, 0);
	/* nobody to match with, and nobody seen to wait for */
	expect(text, "8 on this rank; ms", 1);
	expect(text, "matched", 0);
	expect(text, "cannot be told from transfer", 1);
	expect(text, "for the last rank to arrive", 0);
	/* the first step is shown but does not count in the mean */
	expect(text, "\n    10  120.0     60.0      20.0     30.0  10.0", 1);
	expect(text, "\n    11  100.0     60.0      10.0     20.0  10.0", 1);
	expect(text, "\n  mean  100.0     60.0      10.0     20.0  10.0", 1);
	free(text);
}

enum { MANY = 1000 };

/* Rank 500 computes twice as long; all others alike. */
static void make_many(struct taut_report *report,
	struct taut_report_step *steps)
{
	*report = sample_report;
	for (int i = 0; i < MANY; i++) {
		steps[i] = sample_steps[1];
		steps[i].rank = i;
	}
	steps[500].ns[TAUT_CAT_COMPUTE] *= 2;
	steps[500].measured_ns += SAMPLE_MS(60);
	report->n_ranks = MANY;
	report->n_steps = MANY;
	report->steps = steps;
	report->hosts = NULL;
	report->coll_wait_ns = NULL;
}

static void test_many_ranks_are_folded(void **state)
{
	static struct taut_report_step steps[MANY];
	struct taut_report report;
	char *text;

	(void)state;
	make_many(&report, steps);
	text = print(&report, 0, 0);
	expect(text, "1,000 ranks", 1);
	expect(text, "   500  longest   160.0", 1);
	expect(text, "3 of 1000 ranks", 1);
	expect(text, "--all shows every row", 1);
	expect(text, "\n  mean", 1);
	check_lines(text, 100);
	free(text);
}

static void test_all_shows_every_rank(void **state)
{
	static struct taut_report_step steps[MANY];
	struct taut_text_options options = { .all = 1 };
	struct taut_report report;
	char *text, row[32];

	(void)state;
	make_many(&report, steps);
	text = print_with(&report, &options);
	for (int rank = 0; rank < MANY; rank++) {
		snprintf(row, sizeof row, "\n  %4d  %s.0", rank,
			rank == 500 ? "160" : "100");
		expect(text, row, 1);
	}
	expect(text, "longest", 0);
	expect(text, "--all", 0);
	check_lines(text, 100);
	free(text);
}

/* Removals count a step from the first begin to the last end: said only where
 * that is another figure than the head's. */
static void test_what_savings_are_counted_from(void **state)
{
	struct taut_report_removal gone = { "transfer", "transfer",
		SAMPLE_MS(30), SAMPLE_MS(110) };
	struct taut_report report = sample_report;
	char *text = print(&report, 0, 0);

	(void)state;
	expect(text, "savings are counted", 0);
	free(text);
	report.removals = &gone;
	report.n_removals = 1;
	text = print(&report, 0, 0);
	expect(text, "included, a step takes 140.0 ms", 1);
	check_lines(text, 100);
	free(text);
}

static void test_hostile_names(void **state)
{
	static char longest[200000];
	struct taut_report_share share = sample_ops[0];
	struct taut_report report = sample_report;
	char *text;

	(void)state;
	memset(longest, 'x', sizeof longest - 1);
	memcpy(longest, "\033[2J\r\n", 6);
	share.name = longest;
	report.path_ops = &share;
	report.n_path_ops = 1;
	text = print(&report, 0, 0);
	expect(text, "\033", 0);
	expect(text, "\r", 0);
	check_lines(text, 100);
	free(text);
}

static int try_print(void)
{
	FILE *out = fopen("/dev/null", "w");
	taut_status status;

	if (!out)
		return 0;
	status = taut_report_text(&sample_report, NULL, out, NULL);
	fclose(out);
	return status == TAUT_OK;
}

static void test_memory_that_runs_out(void **state)
{
	long n = 0;

	(void)state;
	for (alloc_fail_after(n); !try_print(); alloc_fail_after(++n))
		assert_in_range(n, 0, 10000);
	alloc_fail_never();
	assert_in_range(n, 3, 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_every_width),
		cmocka_unit_test(test_colour_changes_nothing_else),
		cmocka_unit_test(test_single_rank),
		cmocka_unit_test(test_steps_of_one_rank),
		cmocka_unit_test(test_many_ranks_are_folded),
		cmocka_unit_test(test_all_shows_every_rank),
		cmocka_unit_test(test_what_savings_are_counted_from),
		cmocka_unit_test(test_hostile_names),
		cmocka_unit_test(test_memory_that_runs_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

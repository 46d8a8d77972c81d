/* plan_out_test.c - what a search found, as text, JSON and a page: against files that
 * were read by a person, and what must hold for any. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/label.h"
#include "report/plan_out.h"
#include "tests/support/alloc_fail.h"
#include "tests/support/golden.h"
#include "tests/support/renderer.h"

#define OURS "schedule=priority,partition=1MiB,credit=4MiB,barrier=cross"

static const int64_t gradients[] = { 30000000, 7000000, 4000, 4000 };
static const struct taut_decision decisions[] = {
	{ "bucket=1MiB", TAUT_NUMERICS_EXACT, -1 },
	{ "compress=fp16", TAUT_NUMERICS_LOSSY, 151000000 },
	{ "algorithm=ring", TAUT_NUMERICS_EXACT, -1 },
	{ OURS, TAUT_NUMERICS_EXACT, 171500000 },
};
static const char *const fastest[] = { "bucket=1MiB", "compress=fp16",
	"algorithm=ring", OURS };
static const char *const narrow[] = { "compress=fp16" };
static const char *const again[] = { "recompute=nn.Module: blocks.*",
	"compress=fp16" };
static const char *const given[] = { "link=4gbit" };
static const char *const notes[] = {
	"workers: no DataLoader is seen in this recording",
	"amp: no device is known that multiplies 16 bits faster" };
static const struct taut_plan_point points[] = {
	{ 4, fastest, 140250000, 2000000000, 37000000 },
	{ 1, narrow, 171500000, 1900000000, 37000000 },
	{ 2, again, 220000000, 1200000000, 37000000 },
};
static const struct taut_plan_pass passes[] = { { "compress", 171500000 },
	{ "schedule", 151000000 }, { "bucket", 210000000 } };
static const struct taut_plan plan = {
	.job = { .n_ranks = 2, .n_hosts = 2, .n_gradients = 4,
		.gradient_bytes = gradients, .framework = "pytorch" },
	.allow = TAUT_NUMERICS_LOSSY, .n_decisions = 4,
	.decisions = decisions, .before_ns = 212340000, .after_ns = 140250000,
	.low_ns = 135000000, .high_ns = 149000000,
	.memory_before = 1900000000, .memory_after = 2000000000,
	.network_before = 74000000, .network_after = 37000000,
};
static const struct taut_planned planned = { (struct taut_plan *)&plan, 3,
	points, 3, passes, 1234, 2.5, 2, notes };
static const struct tauti_plan_view view = { "runs/today", given, 1, &planned };

/* No change is any good, and nothing is known of memory and network. */
static const struct taut_plan_point as_it_is[] = { { 0, NULL, 100000000, -1,
	-1 } };
static const struct taut_plan no_plan = {
	.job = { .n_ranks = 1, .n_hosts = 1, .framework = "" },
	.before_ns = 100000000, .after_ns = 100000000, .low_ns = 99000000,
	.high_ns = 101000000, .memory_before = -1, .memory_after = -1,
	.network_before = -1, .network_after = -1,
};
static const struct taut_planned none = { (struct taut_plan *)&no_plan, 1,
	as_it_is, 0, NULL, 3, 0.1, 0, NULL };
static const struct tauti_plan_view view_of_none = { "run", NULL, 0, &none };

/* --- each renderer, to a text -------------------------------------------------------- */

typedef taut_status (*render)(const struct tauti_plan_view *view, FILE *out,
	struct taut_error *err);

static int width;

static taut_status text_of(const struct tauti_plan_view *v, FILE *out,
	struct taut_error *err)
{
	const struct taut_text_options options = { .width = width };

	return tauti_plan_text(v, &options, out, err);
}

static const render renderers[] = { text_of, tauti_plan_json, tauti_plan_html };

/* Free the result. */
static char *print(render how, const struct tauti_plan_view *v)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	assert_int_equal(how(v, out, NULL), TAUT_OK);
	fclose(out);
	assert_int_equal(strlen(text), len);
	return text;
}

static void check(render how, const struct tauti_plan_view *v, const char *path)
{
	char *text = print(how, v);

	golden_check(path, text);
	free(text);
}

/* --- text and JSON ------------------------------------------------------------------- */

static void test_golden(void **state)
{
	(void)state;
	width = 100;
	check(text_of, &view, "tests/cli/golden/plan.txt");
	check(tauti_plan_json, &view, "tests/cli/golden/plan.json");
	check(text_of, &view_of_none, "tests/cli/golden/plan_none.txt");
	check(tauti_plan_json, &view_of_none, "tests/cli/golden/plan_none.json");
}

static void test_every_width(void **state)
{
	(void)state;
	for (width = 80; width <= 160; width += 5) {
		char *text = print(text_of, &view), *at = text;

		for (char *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
			*end = '\0';
			if (tauti_columns(at) > width)
				fail_msg("%d columns: %s", tauti_columns(at),
					at);
			assert_true(end == at || end[-1] != ' ');
		}
		free(text);
	}
}

/* --- the page -------------------------------------------------------------------------- */

static void test_page_is_whole(void **state)
{
	static const char *const ways[] = { "src=", "href=", "url(", "@import",
		"<link", "<script", "<iframe", "{{", "}}", "nan", "inf" };
	char *page = print(tauti_plan_html, &view);

	(void)state;
	assert_int_equal(strncmp(page, "<!DOCTYPE html>", 15), 0);
	assert_non_null(strstr(page, "</html>"));
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
		if (strstr(page, ways[i]))
			fail_msg("'%s' is in the page", ways[i]);
	assert_non_null(strstr(page, "default-src 'none'"));
	assert_non_null(strstr(page, "prefers-color-scheme: dark"));
	free(page);
}

/* In both charts each point, the plan and the job as it is, each with its words. */
static void test_charts(void **state)
{
	char *page = print(tauti_plan_html, &view);

	(void)state;
	assert_int_equal(count(page, "<svg"), 2);
	assert_int_equal(count(page, "</svg>"), 2);
	assert_int_equal(count(page, "<circle class=\"point\""), 2 * 3);
	assert_int_equal(count(page, "<circle class=\"plan\""), 2);
	assert_int_equal(count(page, "<circle class=\"before\""), 2);
	assert_int_equal(count(page, "<title>"), 1 + 2 * 5);
	assert_int_equal(count(page, "</title>"), 1 + 2 * 5);
	assert_non_null(strstr(page, "<title>171.500 ms, 1.9 GB: compress=fp16"
		"</title>"));
	assert_non_null(strstr(page, "<title>212.340 ms, 74.0 MB: the job as it "
		"is</title>"));
	assert_non_null(strstr(page, "peak memory of a rank, GB</text>"));
	free(page);
}

/* Points that are further right or up in the numbers are so in the drawing. */
static void test_places(void **state)
{
	char *page = print(tauti_plan_html, &view);
	const char *at = page;
	double x[3], y[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		at = strstr(at + 1, "<circle class=\"point\"");
		assert_non_null(at);
		assert_int_equal(sscanf(at, "<circle class=\"point\" r=\"4.0\" "
			"cx=\"%lf\" cy=\"%lf\"", &x[i], &y[i]), 2);
		assert_true(x[i] >= 80 && x[i] <= 816);
		assert_true(y[i] >= 24 && y[i] <= 304);
	}
	assert_true(x[0] > x[1] && x[1] > x[2]); /* less memory */
	assert_true(y[0] > y[1] && y[1] > y[2]); /* slower is further up */
	free(page);
}

static void test_table(void **state)
{
	struct taut_planned pruned = planned;
	struct taut_plan shorter = plan;
	struct tauti_plan_view other = view;
	char *page = print(tauti_plan_html, &view);

	(void)state;
	assert_int_equal(count(page, "<tr"), 1 + 3);
	assert_int_equal(count(page, "<tr class=\"plan\">"), 1);
	assert_non_null(strstr(page, "<tr class=\"plan\"><td>140.250</td>"
		"<td>1.51</td><td>2.0 GB</td><td>37.0 MB</td><td class=\"words\">"
		"<code>link=4gbit bucket=1MiB compress=fp16 algorithm=ring " OURS
		"</code>"));
	assert_non_null(strstr(page, "<code>link=4gbit "
		"'recompute=nn.Module: blocks.*' compress=fp16</code>"));
	free(page);
	/* a plan that is no point of the frontier has a row of its own */
	shorter.n_decisions = 2;
	pruned.plan = &shorter;
	other.planned = &pruned;
	page = print(tauti_plan_html, &other);
	assert_int_equal(count(page, "<tr"), 1 + 4);
	assert_int_equal(count(page, "<tr class=\"plan\">"), 1);
	assert_non_null(strstr(page, "<code>link=4gbit bucket=1MiB compress=fp16"
		"</code>"));
	free(page);
}

/* The page of one point with this change. */
static char *page_of(const char *run, const char *change)
{
	const struct taut_plan_point point = { 1, &change, 100, 5, 5 };
	struct taut_planned one = planned;
	struct tauti_plan_view other = { run, NULL, 0, &one };

	one.points = &point;
	one.n_points = 1;
	return print(tauti_plan_html, &other);
}

/* What a shell makes of a row is the changes again. */
static void test_words_of_a_shell(void **state)
{
	char *page = page_of("run", "recompute=it's, *");

	(void)state;
	assert_non_null(strstr(page, "<code>'recompute=it'\\''s, *'</code>"));
	free(page);
}

/* A chart of what is not known is none. */
static void test_what_is_not_known(void **state)
{
	struct taut_plan_point some[3];
	struct taut_planned half = planned;
	struct taut_plan of_half = plan;
	struct tauti_plan_view other = view;
	char *page = print(tauti_plan_html, &view_of_none);

	(void)state;
	assert_int_equal(count(page, "<svg"), 0);
	assert_non_null(strstr(page, "are known of this recording"));
	assert_int_equal(count(page, "<tr"), 1 + 1);
	assert_non_null(strstr(page, "no change that was tried"));
	assert_non_null(strstr(page, "<td class=\"words\">as it is</td>"));
	free(page);
	memcpy(some, points, sizeof some);
	for (int i = 0; i < 3; i++)
		some[i].memory_bytes = -1;
	of_half.memory_before = of_half.memory_after = -1;
	half.points = some;
	half.plan = &of_half;
	other.planned = &half;
	page = print(tauti_plan_html, &other);
	assert_int_equal(count(page, "<svg"), 1);
	assert_non_null(strstr(page, "bytes between ranks in a step, MB</text>"));
	free(page);
}

static void test_text_in_the_page_is_text(void **state)
{
	char *page = page_of("<i>run</i>", "recompute=<b>&\"x\"");

	(void)state;
	assert_null(strstr(page, "<b>"));
	assert_null(strstr(page, "<i>"));
	assert_non_null(strstr(page, "recompute=&lt;b&gt;&amp;&quot;x&quot;"));
	assert_non_null(strstr(page, "&lt;i&gt;run&lt;/i&gt;"));
	free(page);
}

/* --- what no renderer may do ------------------------------------------------------------ */

static void test_disk_full(void **state)
{
	(void)state;
	width = 100;
	for (size_t i = 0; i < sizeof renderers / sizeof *renderers; i++) {
		FILE *full = fopen("/dev/full", "w");
		struct taut_error err = { 0 };

		if (!full)
			skip();
		assert_int_equal(renderers[i](&view, full, &err), TAUT_EIO);
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
	width = 100;
	for (; status && n < 10000; n++) {
		alloc_fail_after(n);
		status = text_of(&view, out, NULL);
		alloc_fail_never();
		if (status)
			assert_int_equal(status, TAUT_ENOMEM);
	}
	assert_int_equal(status, TAUT_OK);
	assert_true(n > 3);
	fclose(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_every_width),
		cmocka_unit_test(test_page_is_whole),
		cmocka_unit_test(test_charts),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_words_of_a_shell),
		cmocka_unit_test(test_what_is_not_known),
		cmocka_unit_test(test_text_in_the_page_is_text),
		cmocka_unit_test(test_disk_full),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

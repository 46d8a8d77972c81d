/* json_test.c - the JSON against a file that was read by a person, and what
 * must hold whatever the report is. tests/cli checks the keys once more with
 * a real JSON reader. */
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "report/tables.h"
#include "tests/support/golden.h"
#include "tests/support/renderer.h"
#include "tests/support/sample_report.h"
#include "tests/support/unit.h"

/* Free the result. */
static char *print(const struct taut_report *report)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	assert_int_equal(taut_report_json(report, out, NULL), TAUT_OK);
	fclose(out);
	assert_int_equal(strlen(text), len);
	return text;
}

static void expect_in(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("%s is not in:\n%s", part, text);
}

static void test_golden(void **state)
{
	char *text = print(&sample_report);

	(void)state;
	golden_check("tests/cli/golden/report.json", text);
	free(text);
}

/* The sample's version is the build's own. */
static void test_names_are_escaped(void **state)
{
	char *text = print(&sample_report);

	(void)state;
	expect_in(text, "\"tab\\u0009here \\\"quoted\\\" back\\\\slash "
		"\\ufffd\xc3\xa9\"");
	for (const char *at = text; *at; at++)
		assert_true(*at == '\n' || (unsigned char)*at >= ' ');
	free(text);
}

static void test_nanoseconds_are_kept(void **state)
{
	char *text = print(&sample_report);

	(void)state;
	expect_in(text, "\"start_ms\":200.000000,\"ms\":20.000001");
	expect_in(text, "\"replayed_ms\":120.001000");
	free(text);
}

static void test_unknown_is_null(void **state)
{
	char *text = print(&sample_report);

	(void)state;
	expect_in(text, "\"group_size\":null");
	expect_in(text, "\"bytes\":null");
	expect_in(text, "\"bus_bandwidth_gb_per_s\":null");
	expect_in(text, "\"at\":null");
	free(text);
}

static void test_not_a_number_is_null(void **state)
{
	struct taut_report report = sample_report;
	char *text;

	(void)state;
	report.unexplained_pct = 0.0 / (report.n_ranks - 4.0);
	text = print(&report);
	expect_in(text, "\"unexplained_pct\":null");
	free(text);
}

static void test_empty_report(void **state)
{
	struct taut_report report = { .n_ranks = 0 };
	char *text = print(&report);

	(void)state;
	expect_in(text, "\"ranks\":0");
	expect_in(text, "\"steps\":[]");
	expect_in(text, "\"findings\":[]");
	free(text);
}

static void test_locale_does_not_matter(void **state)
{
	char *plain = print(&sample_report), *text;

	(void)state;
	if (!setlocale(LC_ALL, "de_DE.UTF-8"))
		setlocale(LC_ALL, "fr_FR.UTF-8");
	text = print(&sample_report);
	setlocale(LC_ALL, "C");
	assert_string_equal(plain, text);
	free(plain);
	free(text);
}

static void test_a_full_disk(void **state)
{
	(void)state;
	renderer_tells_refusal(taut_report_json, &sample_report);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_names_are_escaped),
		cmocka_unit_test(test_nanoseconds_are_kept),
		cmocka_unit_test(test_unknown_is_null),
		cmocka_unit_test(test_not_a_number_is_null),
		cmocka_unit_test(test_empty_report),
		cmocka_unit_test(test_locale_does_not_matter),
		cmocka_unit_test(test_a_full_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

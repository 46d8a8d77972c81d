/* sheet_test.c - lines and tables, by column. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/label.h"
#include "report/sheet.h"
#include "tests/support/alloc_fail.h"
#include "tests/support/unit.h"

struct page {
	struct tauti_sheet sheet;
	FILE *out;
	char *text;
	size_t len;
};

static struct page *begin(int width, bool colour)
{
	static struct page page;

	page.text = NULL;
	page.out = open_memstream(&page.text, &page.len);
	assert_non_null(page.out);
	assert_int_equal(tauti_sheet_begin(&page.sheet, page.out, width,
		colour, NULL), TAUT_OK);
	return &page;
}

static void expect(struct page *page, const char *text)
{
	assert_int_equal(tauti_sheet_end(&page->sheet, NULL), TAUT_OK);
	fclose(page->out);
	assert_string_equal(page->text, text);
	free(page->text);
}

static void test_wrapping(void **state)
{
	struct page *page = begin(20, false);

	(void)state;
	tauti_sheet_wrap(&page->sheet, "  - ",
		"one two  three\nfour five sixteencolumns! x", TAUTI_PLAIN);
	expect(page, "  - one two three\n    four five\n"
		"    sixteencolumns!\n    x\n");
}

static void test_word_longer_than_a_line(void **state)
{
	struct page *page = begin(16, false);

	(void)state;
	tauti_sheet_wrap(&page->sheet, "", "abcdefghijklmnopqrstuvwxyz end",
		TAUTI_PLAIN);
	expect(page, "abcdefghijklmnop\nqrstuvwxyz end\n");
}

static void test_wrapping_counts_columns(void **state)
{
	struct page *page = begin(12, false);

	(void)state;
	tauti_sheet_wrap(&page->sheet, "", "\xe5\xb1\x82\xe5\xb1\x82\xe5\xb1\x82"
		" \xe5\xb1\x82\xe5\xb1\x82 \xc3\xa9", TAUTI_PLAIN);
	expect(page, "\xe5\xb1\x82\xe5\xb1\x82\xe5\xb1\x82 \xe5\xb1\x82\xe5\xb1"
		"\x82\n\xc3\xa9\n");
}

static void test_escapes_do_not_pass(void **state)
{
	struct page *page = begin(40, false);

	(void)state;
	tauti_sheet_wrap(&page->sheet, "", "a\033[2Jb", TAUTI_PLAIN);
	expect(page, "a [2Jb\n");
}

static void test_colour_only_where_wanted(void **state)
{
	struct page *page = begin(40, true);

	(void)state;
	tauti_sheet_line(&page->sheet,
		tauti_sheet_style(&page->sheet, TAUTI_BOLD, "x"));
	expect(page, "\033[1mx\033[0m\n");
	page = begin(40, false);
	tauti_sheet_line(&page->sheet,
		tauti_sheet_style(&page->sheet, TAUTI_BOLD, "x"));
	expect(page, "x\n");
}

static const struct tauti_column columns[] = {
	{ "n", TAUTI_RIGHT, false },
	{ "name", TAUTI_LEFT, true },
	{ "other", TAUTI_LEFT, true },
};

static void fill(struct tauti_table *table, struct page *page)
{
	tauti_table_begin(table, &page->sheet, columns, 3);
	tauti_table_cell(table, "100", TAUTI_PLAIN);
	tauti_table_cell(table, "a-name-of-twenty-six-chars", TAUTI_PLAIN);
	tauti_table_cell(table, "short", TAUTI_PLAIN);
	tauti_table_cell(table, "7", TAUTI_PLAIN);
	tauti_table_cell(table, "b", TAUTI_PLAIN);
	tauti_table_cell(table, "", TAUTI_PLAIN);
}

static void test_table(void **state)
{
	struct page *page = begin(80, false);
	struct tauti_table table;

	(void)state;
	fill(&table, page);
	assert_int_equal(tauti_table_left(&table), 80 - 2 - 3 - 2 - 26 - 2 - 5);
	tauti_table_end(&table);
	expect(page, "    n  name                        other\n"
		"  100  a-name-of-twenty-six-chars  short\n"
		"    7  b\n");
}

/* The column that has too much gives; the short one keeps its width. */
static void test_names_share_what_is_left(void **state)
{
	struct page *page = begin(32, false);
	struct tauti_table table;

	(void)state;
	fill(&table, page);
	tauti_table_end(&table);
	expect(page, "    n  name                other\n"
		"  100  a-name\xe2\x80\xa6y-six-chars  short\n"
		"    7  b\n");
}

static bool try_all(void)
{
	struct page page = { .text = NULL };
	struct tauti_table table;
	taut_status status;

	page.out = fopen("/dev/null", "w");
	if (!page.out)
		return false;
	status = tauti_sheet_begin(&page.sheet, page.out, 60, true, NULL);
	if (!status) {
		fill(&table, &page);
		tauti_table_end(&table);
		tauti_sheet_heading(&page.sheet, "title", "remark");
		tauti_sheet_wrap(&page.sheet, "", "some words", TAUTI_DIM);
		status = tauti_sheet_end(&page.sheet, NULL);
	}
	fclose(page.out);
	return !status;
}

static void test_memory_that_runs_out(void **state)
{
	long n = 0;

	(void)state;
	for (alloc_fail_after(n); !try_all(); alloc_fail_after(++n))
		assert_in_range(n, 0, 1000);
	alloc_fail_never();
	assert_in_range(n, 2, 1000);
}

static void test_a_full_disk(void **state)
{
	struct tauti_sheet sheet;
	struct taut_error err = { .message = "" };
	FILE *full = fopen("/dev/full", "w");

	(void)state;
	if (!full)
		skip();
	assert_int_equal(tauti_sheet_begin(&sheet, full, 80, false, &err),
		TAUT_OK);
	tauti_sheet_line(&sheet, "x");
	assert_int_equal(tauti_sheet_end(&sheet, &err), TAUT_EIO);
	assert_non_null(strstr(err.message, "No space left"));
	fclose(full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrapping),
		cmocka_unit_test(test_word_longer_than_a_line),
		cmocka_unit_test(test_wrapping_counts_columns),
		cmocka_unit_test(test_escapes_do_not_pass),
		cmocka_unit_test(test_colour_only_where_wanted),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_names_share_what_is_left),
		cmocka_unit_test(test_memory_that_runs_out),
		cmocka_unit_test(test_a_full_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

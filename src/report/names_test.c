/* names_test.c - the keys that other programs read must never change. */
#include <string.h>

#include "report/names.h"
#include "tests/support/unit.h"

static void test_keys_of_categories(void **state)
{
	static const char *const keys[] = { "compute", "comm_exposed",
		"comm_wait", "host_bound", "data", "copy", "other" };

	(void)state;
	assert_int_equal(sizeof keys / sizeof keys[0], TAUT_CATEGORIES);
	for (int c = 0; c < TAUT_CATEGORIES; c++)
		assert_string_equal(
			taut_category_key((enum taut_category)c), keys[c]);
}

/* A kind added to an enum without a name here would be NULL. */
static void test_every_kind_has_its_own_name(void **state)
{
	(void)state;
	for (int c = 0; c < TAUT_CATEGORIES; c++) {
		assert_non_null(taut_category_title((enum taut_category)c));
		assert_true(*tauti_category_column((enum taut_category)c));
	}
	for (unsigned a = 0; a <= TAUT_OP_MARK; a++)
		for (unsigned b = 0; b < a; b++)
			assert_string_not_equal(tauti_op_kind_key(a),
				tauti_op_kind_key(b));
	for (unsigned a = 0; a < TAUT_EDGE_KINDS; a++)
		for (unsigned b = 0; b < a; b++)
			assert_string_not_equal(tauti_edge_kind_key(a),
				tauti_edge_kind_key(b));
}

static void test_outside_the_enum(void **state)
{
	(void)state;
	assert_string_equal(taut_category_key(TAUT_CATEGORIES), "unknown");
	assert_string_equal(taut_category_title((enum taut_category)-1),
		"unknown");
	assert_string_equal(tauti_op_kind_key(99), "unknown");
	assert_string_equal(tauti_edge_kind_key(99), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys_of_categories),
		cmocka_unit_test(test_every_kind_has_its_own_name),
		cmocka_unit_test(test_outside_the_enum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

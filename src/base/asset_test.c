#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/asset.h"

static void test_table_is_sorted_and_terminated(void **state)
{
	(void)state;
	for (const struct tauti_asset *a = tauti_assets; a->name; a++) {
		assert_int_equal(a->text[a->len], '\0');
		assert_ptr_equal(tauti_asset_find(a->name), a);
		if (a[1].name)
			assert_true(strcmp(a->name, a[1].name) < 0);
	}
}

static void test_unknown_name(void **state)
{
	(void)state;
	assert_null(tauti_asset_find("no-such-file"));
	assert_null(tauti_asset_find(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table_is_sorted_and_terminated),
		cmocka_unit_test(test_unknown_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

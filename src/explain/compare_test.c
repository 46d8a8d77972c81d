/* compare_test.c - two reports side by side, from tables written by hand. */
#include "tests/support/unit.h"

#include "explain/compare.h"
#include "tests/support/alloc_fail.h"

static const struct taut_report_share before_ops[] = {
	{ "mm", TAUT_CAT_COMPUTE, 4, 4000 },
	{ "sum", TAUT_CAT_COMM_EXPOSED, 2, 2000 },
	{ "gone", TAUT_CAT_COMPUTE, 1, 200 },
};
static const struct taut_report_share after_ops[] = {
	{ "sum", TAUT_CAT_COMM_EXPOSED, 2, 300 },
	{ "mm", TAUT_CAT_COMPUTE, 4, 2000 },
	{ "sum", TAUT_CAT_COMPUTE, 1, 10 },
};
static const struct taut_report_step steps[] = {
	{ .rank = 0 }, { .rank = 1 }, { .rank = 1 },
};
/* Two ranks of two steps at most, then one of one: sums are told by step. */
static const struct taut_report before = { .n_ranks = 2, .n_steps = 3, .steps = steps,
	.path_ns = { [TAUT_CAT_COMPUTE] = 4200, [TAUT_CAT_COMM_EXPOSED] = 2000 },
	.path_ops = before_ops, .n_path_ops = 3 };
static const struct taut_report after = { .n_ranks = 1, .n_steps = 1, .steps = steps,
	.path_ns = { [TAUT_CAT_COMPUTE] = 2010, [TAUT_CAT_COMM_EXPOSED] = 300 },
	.path_ops = after_ops, .n_path_ops = 3 };

static void expect(const struct tauti_compare_row *row, const char *name,
	enum taut_category category, int64_t before_ns, int64_t after_ns)
{
	assert_string_equal(row->name, name);
	assert_int_equal(row->category, category);
	assert_int_equal(row->before_ns, before_ns);
	assert_int_equal(row->after_ns, after_ns);
}

static void test_rows(void **state)
{
	struct taut_arena *arena = taut_arena_create();
	struct tauti_compare c;

	(void)state;
	assert_int_equal(
		tauti_compare(&before, &after, arena, &c, NULL), TAUT_OK);
	assert_int_equal(c.before_ns, 3100);
	assert_int_equal(c.after_ns, 2310);
	expect(&c.categories[TAUT_CAT_COMPUTE], "", TAUT_CAT_COMPUTE, 2100,
		2010);
	assert_int_equal(c.n_ops, 4);
	expect(&c.ops[0], "sum", TAUT_CAT_COMM_EXPOSED, 1000, 300);
	expect(&c.ops[1], "gone", TAUT_CAT_COMPUTE, 100, 0);
	expect(&c.ops[2], "sum", TAUT_CAT_COMPUTE, 0, 10);
	expect(&c.ops[3], "mm", TAUT_CAT_COMPUTE, 2000, 2000);
	taut_arena_destroy(arena);
}

static void test_no_memory(void **state)
{
	struct taut_arena *arena = taut_arena_create();
	struct tauti_compare c;
	struct taut_report many = before;

	(void)state;
	many.n_path_ops = 1u << 30; /* more than the arena holds */
	alloc_fail_after(0);
	assert_int_equal(
		tauti_compare(&many, &after, arena, &c, NULL), TAUT_ENOMEM);
	alloc_fail_never();
	taut_arena_destroy(arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

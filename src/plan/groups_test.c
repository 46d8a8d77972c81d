/* groups_test.c - buckets that end anywhere: what the text says is what was flipped, for
 * whoever makes buckets of it. */
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

#include "plan/groups.h"
#include "tests/support/alloc_fail.h"
#include "whatif/ddp.h"

enum { MOST = 600 };

static int64_t bytes[MOST];
static const uint32_t recorded[] = { 0, 2, 3 };

static struct tauti_groups find(uint32_t n)
{
	const struct tauti_plan_order order = { n, n > 3 ? 3 : 1, bytes,
		recorded, false };
	struct tauti_groups groups;

	tauti_groups_find(&order, &groups);
	return groups;
}

/* Few gradients have a place each; of many, what is between two is a share of all. */
static void test_places(void **state)
{
	struct tauti_groups g;

	(void)state;
	for (int i = 0; i < MOST; i++)
		bytes[i] = i % 7 ? 100 : 40000;
	g = find(0);
	assert_int_equal(g.n_sites, 0);
	g = find(1);
	assert_int_equal(g.n_sites, 0);
	g = find(TAUTI_GROUPS_SITES + 1);
	assert_int_equal(g.n_sites, TAUTI_GROUPS_SITES);
	for (uint32_t i = 0; i < g.n_sites; i++)
		assert_int_equal(g.at[i], i + 1);
	g = find(MOST);
	assert_in_range(g.n_sites, TAUTI_GROUPS_SITES / 2, TAUTI_GROUPS_SITES);
	for (uint32_t i = 0; i < g.n_sites; i++) {
		assert_true(g.at[i] < MOST && (!i || g.at[i] > g.at[i - 1]));
		assert_int_equal((g.at[i] - 1) % 7, 0); /* behind a large one */
	}
}

/* What is told, made buckets of by the rule that all have. */
static void check(const struct tauti_groups *g, int64_t cap,
	const uint8_t *flips, struct taut_arena *arena)
{
	uint8_t begins[MOST] = { 0 };
	double size = (double)cap, *sizes;
	struct tauti_change change;
	struct taut_error err;
	tauti_plan plan;
	const char *text;
	uint32_t n, found = 0;

	for (uint32_t i = 0; !cap && i < g->order.n_buckets; i++)
		begins[recorded[i]] = 1;
	if (cap) {
		assert_int_equal(tauti_ddp_plan(
			bytes, g->order.n, &size, 1, &plan, &err), TAUT_OK);
		for (size_t i = 0; i < plan.count; i++)
			begins[plan.data[i]] = 1;
		taut_vec_free(&plan);
	}
	for (uint32_t i = 0; i < g->n_sites; i++)
		begins[g->at[i]] ^= flips[i];
	assert_int_equal(tauti_groups_text(g, cap, flips, arena, &text, &err),
		TAUT_OK);
	assert_non_null(text);
	assert_int_equal(tauti_change_read(text, arena, &change, &err), TAUT_OK);
	assert_true(tauti_param_is_row(&change, 0));
	assert_int_equal(tauti_param_sizes(&change, 0, arena, &sizes, &n, &err),
		TAUT_OK);
	assert_int_equal(tauti_ddp_plan(
		bytes, g->order.n, sizes, n, &plan, &err), TAUT_OK);
	for (uint32_t i = 0; i < g->order.n; i++)
		found += begins[i];
	assert_int_equal(plan.count, found);
	for (size_t i = 0; i < plan.count; i++)
		assert_int_equal(begins[plan.data[i]], 1);
	taut_vec_free(&plan);
}

static void test_flips(void **state)
{
	static const int64_t caps[] = { 0, 1, 3000, 50000, 1 << 30 };
	uint8_t flips[TAUTI_GROUPS_SITES];

	(void)state;
	srand(1);
	for (int turn = 0; turn < 2000; turn++) {
		struct taut_arena *arena = taut_arena_create();
		uint32_t n = 2 + (uint32_t)rand() % 80;
		struct tauti_groups g;

		for (uint32_t i = 0; i < n; i++)
			bytes[i] = 1 + rand() % (turn % 3 ? 5000 : 2);
		g = find(n);
		for (uint32_t i = 0; i < g.n_sites; i++)
			flips[i] = rand() % 3 == 0;
		if (g.n_sites) {
			flips[(uint32_t)rand() % g.n_sites] = 1;
			check(&g, caps[turn % 5], flips, arena);
		}
		taut_arena_destroy(arena);
	}
}

static void test_nothing(void **state)
{
	struct taut_arena *arena = taut_arena_create();
	uint8_t flips[TAUTI_GROUPS_SITES] = { 0 };
	struct tauti_groups g;
	const char *text = "";
	struct taut_error err;

	(void)state;
	for (int i = 0; i < MOST; i++)
		bytes[i] = 10;
	g = find(MOST);
	assert_int_equal(
		tauti_groups_text(&g, 5, flips, arena, &text, &err), TAUT_OK);
	assert_null(text); /* nothing is flipped */
	flips[3] = 1;
	assert_int_equal(
		tauti_groups_text(&g, 5, flips, arena, &text, &err), TAUT_OK);
	assert_null(text); /* 600 buckets are no list */
	assert_int_equal(
		tauti_groups_text(&g, 5000, flips, arena, &text, &err), TAUT_OK);
	assert_non_null(text);
	taut_arena_destroy(arena);
}

static void test_memory(void **state)
{
	uint8_t flips[TAUTI_GROUPS_SITES] = { 1 };
	struct tauti_groups g;

	(void)state;
	for (int i = 0; i < 40; i++)
		bytes[i] = 10;
	g = find(40);
	for (long n = 0;; n++) {
		struct taut_arena *arena = taut_arena_create();
		const char *text;
		struct taut_error err;
		taut_status status;

		alloc_fail_after(n);
		status = tauti_groups_text(&g, 50, flips, arena, &text, &err);
		alloc_fail_never();
		taut_arena_destroy(arena);
		if (!status)
			break;
		assert_int_equal(status, TAUT_ENOMEM);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_flips),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A result that is right is found right, for every type and collective; one wrong
 * element, or a block in another's place, is found wrong. The sums are made here
 * by taut_reduce(), whose test has an arithmetic of its own. */
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"

enum { RANKS = 3, COUNT = 10000, MOST = COUNT * 8 };

static unsigned char inputs[RANKS][MOST], output[MOST];

static struct bench_rank rank_of(const struct bench_plan *plan, uint32_t rank)
{
	return (struct bench_rank){ .plan = plan, .rank = rank,
		.n_ranks = RANKS, .output = output };
}

static void fill_inputs(const struct bench_plan *plan)
{
	for (uint32_t i = 0; i < RANKS; i++) {
		struct bench_rank rank = rank_of(plan, i);

		bench_fill(&rank, COUNT, inputs[i]);
	}
}

/* As the collective would leave it on any rank. */
static void make_output(const struct bench_plan *plan)
{
	size_t bytes = taut_type_bytes(plan->type);
	uint64_t first, n;

	if (plan->verb == TAUT_BROADCAST)
		memcpy(output, inputs[plan->root], COUNT * bytes);
	for (uint32_t i = 0; plan->verb == TAUT_ALLGATHER && i < RANKS; i++) {
		first = taut_coll_block(COUNT, RANKS, i, &n);
		memcpy(output + first * bytes, inputs[i] + first * bytes,
			n * bytes);
	}
	if (plan->verb != TAUT_ALLREDUCE && plan->verb != TAUT_REDUCE_SCATTER)
		return;
	memcpy(output, inputs[0], COUNT * bytes);
	for (uint32_t i = 1; i < RANKS; i++)
		taut_reduce(plan->type, plan->reduction, output, output,
			inputs[i], COUNT);
}

static void check_plan(const struct bench_plan *plan)
{
	size_t bytes = taut_type_bytes(plan->type);
	struct bench_rank rank = rank_of(plan, 1);
	uint64_t first, n;

	fill_inputs(plan);
	make_output(plan);
	for (uint32_t i = 0; i < RANKS; i++) {
		struct bench_rank any = rank_of(plan, i);

		assert_int_equal(bench_count_wrong(&any, COUNT), 0);
	}
	first = taut_coll_block(COUNT, RANKS, 1, &n);
	output[first * bytes] ^= 1;
	output[(first + n - 1) * bytes] ^= 1;
	assert_int_equal(bench_count_wrong(&rank, COUNT), 2);
	/* Those of another block are not this rank's. */
	make_output(plan);
	output[0] ^= 1;
	assert_int_equal(bench_count_wrong(&rank, COUNT),
		plan->verb != TAUT_REDUCE_SCATTER);
	make_output(plan);
	memmove(output + first * bytes, output + (first + 1) * bytes,
		(n - 1) * bytes);
	assert_true(bench_count_wrong(&rank, COUNT) > n / 100);
}

static void test_values(void **state)
{
	(void)state;
	for (int v = 0; v < TAUT_VERBS; v++)
		for (int t = 0; t < TAUT_TYPES; t++)
			for (int r = 0; r < TAUT_REDUCTIONS; r++) {
				struct bench_plan plan = {
					.verb = (enum taut_coll_verb)v,
					.type = (enum taut_type)t,
					.reduction = (enum taut_reduction)r,
					.root = 2 };

				if (taut_reduces(plan.type, plan.reduction))
					check_plan(&plan);
			}
}

/* Not all inputs are alike, or a collective that does nothing would be right. */
static void test_inputs_differ(void **state)
{
	struct bench_plan plan = { .type = TAUT_INT32 };

	(void)state;
	fill_inputs(&plan);
	assert_memory_not_equal(inputs[0], inputs[1], COUNT * 4);
	assert_memory_not_equal(inputs[1], inputs[2], COUNT * 4);
	for (uint32_t i = 0; i < RANKS; i++) {
		struct bench_rank rank = rank_of(&plan, i);

		memcpy(output, inputs[i], sizeof output);
		assert_true(bench_count_wrong(&rank, COUNT) > COUNT / 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_inputs_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What is chosen where times follow from latency and bandwidth: stubs stand for
 * bench_measure.c, and for a communicator of hosts with one rank each. */
#include "tests/support/unit.h"

#include <string.h>

#include "cli/bench.h"
#include "coll/table.h"

#define STEP_NS 30e3 /* latency of a step */

static uint32_t n_ranks;
static struct tauti_table built_in;
static unsigned measured[TAUT_WAYS]; /* sizes at which it was, whole */
static unsigned n_checked;
static const struct bench_plan *given; /* may be NULL */
static struct bench_result result;

/* --- the model ---------------------------------------------------------------------------*/

/* Of the rank that takes longest, at a byte a nanosecond. Each with each at once
 * is slower than in turns. */
static double model_ns(const struct taut_coll_call *call)
{
	double bytes = (double)call->count * 4, n = n_ranks, lg = 0;
	double halves = 2 * bytes * (n - 1) / n;
	double pass = (double)call->pass_bytes;
	double more = pass < bytes ? (bytes / pass - 1) * STEP_NS / 4 : 0;

	for (uint32_t i = 1; i < n_ranks; i *= 2)
		lg++;
	switch (call->way) {
	case TAUT_WAY_FLAT:
		return more + STEP_NS + (n - 1) * bytes;
	case TAUT_WAY_DIRECT:
		return more + 2 * STEP_NS + 1.5 * halves;
	case TAUT_WAY_DOUBLING:
		return more + lg * (STEP_NS + bytes);
	case TAUT_WAY_HALVING:
		return more + 2 * lg * STEP_NS + halves;
	case TAUT_WAY_RING:
		return more + 2 * (n - 1) * STEP_NS + halves;
	default:
		return more + 2 * lg * (STEP_NS + bytes);
	}
}

static double best_ns(const struct taut_coll_call *like)
{
	struct taut_coll_call call = *like;
	double best = 0;

	call.pass_bytes = call.count * 4;
	for (int way = TAUT_WAY_AUTO + 1; way < TAUT_WAYS; way++) {
		call.way = (enum taut_coll_way)way;
		if (best <= 0 || model_ns(&call) < best)
			best = model_ns(&call);
	}
	return best;
}

/* --- stubs -------------------------------------------------------------------------------*/

struct taut_coll_call bench_call(const struct bench_rank *rank, uint64_t bytes)
{
	return (struct taut_coll_call){ .verb = rank->plan->verb,
		.type = TAUT_FLOAT32, .count = bytes / 4,
		.way = rank->plan->way, .pass_bytes = rank->plan->pass_bytes,
		.passes_at_once = rank->plan->at_once };
}

taut_status bench_time(struct bench_rank *rank,
	const struct taut_coll_call *call, int64_t budget_ns, uint32_t least,
	struct bench_row *row, struct taut_error *err)
{
	static uint64_t count[TAUT_WAYS];

	(void)rank, (void)budget_ns, (void)least, (void)err;
	if (given && given->pass_bytes)
		assert_int_equal(call->pass_bytes, given->pass_bytes);
	if (given && given->at_once)
		assert_int_equal(call->passes_at_once, given->at_once);
	if (call->pass_bytes == call->count * 4 && count[call->way] != call->count) {
		count[call->way] = call->count;
		measured[call->way]++;
	}
	row->median_ns = row->least_ns = row->p90_ns = model_ns(call);
	row->samples = row->batch = 1;
	return TAUT_OK;
}

taut_status bench_check(struct bench_rank *rank,
	const struct taut_coll_call *call, struct bench_row *row,
	struct taut_error *err)
{
	(void)rank, (void)err;
	n_checked++;
	row->wrong = (uint64_t)call->way * 1000 + call->passes_at_once;
	return TAUT_OK;
}

void bench_tell(const struct bench_rank *rank, const char *what,
	uint64_t done, uint64_t total)
{
	(void)rank, (void)what, (void)done, (void)total;
}

struct taut_coll_choice taut_comm_choice(const struct taut_comm *comm,
	enum taut_coll_verb verb, uint64_t bytes)
{
	(void)comm;
	return *tauti_table_choice(&built_in, verb, bytes);
}

/* --- tests -------------------------------------------------------------------------------*/

static void tune(struct bench_plan *plan, uint32_t n, const char *sizes)
{
	struct bench_rank rank = { .plan = plan, .n_ranks = n };
	struct taut_error err;

	n_ranks = n;
	given = plan;
	n_checked = 0;
	memset(measured, 0, sizeof measured);
	result = (struct bench_result){ .n_ranks = n, .n_hosts = n };
	tauti_table_fini(&built_in);
	assert_int_equal(tauti_table_init(&built_in, n, n, NULL, 0, &err), TAUT_OK);
	assert_true(bench_read_sizes(sizes, plan, &err));
	assert_int_equal(bench_tune(&rank, &result, &err), TAUT_OK);
	assert_int_equal(result.n_rows, plan->n_sizes);
}

static int drop_table(void **state)
{
	(void)state;
	tauti_table_fini(&built_in);
	return 0;
}

/* What needs many steps is far behind first, and the best later. */
static void test_crossover(void **state)
{
	(void)state;
	for (uint32_t n = 4; n <= 16; n *= 2) {
		struct bench_plan plan = { .verb = TAUT_ALLREDUCE };

		tune(&plan, n, "4:256M:4");
		for (size_t i = 0; i < result.n_rows; i++) {
			struct bench_rank rank = { .plan = &plan };
			struct taut_coll_call call =
				bench_call(&rank, plan.sizes[i]);

			assert_true(result.rows[i].median_ns <=
				1.05 * best_ns(&call));
		}
		assert_int_equal(result.rows[0].choice.way, TAUT_WAY_FLAT);
		assert_int_equal(result.rows[plan.n_sizes - 1].choice.way,
			TAUT_WAY_HALVING);
		/* and what stays far behind is not measured each time */
		assert_true(measured[TAUT_WAY_FLAT] < plan.n_sizes);
		assert_true(measured[TAUT_WAY_TREE] <= plan.n_sizes * 2 / 3);
	}
}

/* Beyond the largest size all is as without the rows. */
static void test_beyond(void **state)
{
	static const char *const sizes[] = { "4,1K", "4:64K", "1M:16M" };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct bench_plan plan = { .verb = TAUT_ALLREDUCE };
		struct tauti_table with;
		struct taut_error err;
		uint64_t last;

		tune(&plan, 4, sizes[i]);
		assert_int_equal(tauti_table_init(&with, 4, 4, result.choices,
			result.n_choices, &err), TAUT_OK);
		last = plan.sizes[plan.n_sizes - 1];
		assert_int_equal(tauti_table_choice(&with, plan.verb, last)->way,
			result.rows[plan.n_sizes - 1].choice.way);
		for (uint64_t bytes = 2 * last; bytes < UINT64_C(1) << 40;
			bytes += bytes / 3) {
			const struct taut_coll_choice *a = tauti_table_choice(
				&with, plan.verb, bytes);
			const struct taut_coll_choice *b = tauti_table_choice(
				&built_in, plan.verb, bytes);

			assert_int_equal(a->way, b->way);
			assert_int_equal(a->pass_bytes, b->pass_bytes);
			assert_int_equal(a->passes_at_once, b->passes_at_once);
		}
		for (size_t k = 1; k < result.n_choices; k++)
			assert_true(result.choices[k].from_bytes >
				result.choices[k - 1].from_bytes);
		tauti_table_fini(&with);
	}
}

/* What is given is not varied. */
static void test_given(void **state)
{
	struct bench_plan plan = { .verb = TAUT_ALLREDUCE, .pass_bytes = 64 << 10 };

	(void)state;
	tune(&plan, 4, "4:16M");
	for (size_t i = 0; i < result.n_rows; i++)
		assert_int_equal(result.rows[i].choice.pass_bytes, 64 << 10);
	plan.at_once = 3;
	tune(&plan, 4, "4:16M");
	for (size_t i = 0; i < result.n_rows; i++)
		assert_int_equal(result.rows[i].choice.passes_at_once, 3);
	plan.pass_bytes = 0;
	tune(&plan, 4, "4:16M");
	for (size_t i = 0; i < result.n_rows; i++)
		assert_int_equal(result.rows[i].choice.passes_at_once, 3);
}

/* Each choice, once. */
static void test_checked(void **state)
{
	struct bench_plan plan = { .verb = TAUT_ALLREDUCE, .check = true };

	(void)state;
	tune(&plan, 4, "4:16M");
	assert_int_equal(n_checked, plan.n_sizes);
	for (size_t i = 0; i < result.n_rows; i++)
		assert_int_equal(result.rows[i].wrong,
			result.rows[i].choice.way * 1000 +
				result.rows[i].choice.passes_at_once);
	plan.check = false;
	tune(&plan, 4, "4:16M");
	assert_int_equal(n_checked, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_crossover, drop_table),
		cmocka_unit_test_teardown(test_beyond, drop_table),
		cmocka_unit_test_teardown(test_given, drop_table),
		cmocka_unit_test_teardown(test_checked, drop_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

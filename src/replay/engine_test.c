/* The scheduler core on the replay's clock, against closed forms. */
#include "tests/support/unit.h"

#include <string.h>

#include "chain_job.h"
#include "random_share.h"
#include "tests/support/alloc_fail.h"

static struct chain *run(const struct chain_job *job)
{
	struct chain *c = chain_begin(job);
	if (chain_try(c))
		fail_msg("%s", c->err.message);
	assert_int_equal(c->timeline.n_run, c->graph->n_ops);
	assert_int_equal(c->counts.done,
		job->n_ranks * chain_tasks(job) * job->n_iterations);
	assert_int_equal(c->counts.pieces, (uint64_t)job->n_ranks *
		c->team.n_pieces * job->n_iterations);
	return c;
}

static int64_t step_ns(const struct chain_job *job)
{
	struct chain *c = run(job);
	int64_t ns = chain_step_ns(c);
	chain_end(c);
	return ns;
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* --- the end of the step kept ---------------------------------------------------------*/

/* L layers of f, b and c nanoseconds, whole, one after the other in the order of
 * backward: the first is ready after b. Where c <= b each is done before the
 * next is ready, and the last alone is behind; else the link is never idle. */
static void test_backward_hides_what_it_can(void **state)
{
	(void)state;
	static const uint64_t bytes[] = { 500, 1000, 1500, 4000 };
	for (size_t i = 0; i < 4; i++) {
		struct chain_job job = {
			.n_ranks = 2, .n_layers = 20, .n_iterations = 4,
			.forward_ns = 500, .backward_ns = 1000,
			.bytes = bytes[i],
			.options = { .lanes = 1,
				.sched = { .order = TAUT_SCHED_DECLARED } },
		};
		int64_t c = (int64_t)bytes[i];
		assert_int_equal(step_ns(&job), 20 * 500 +
			larger(20 * 1000 + c, 1000 + 20 * c));
	}
}

/* In fine pieces, by priority, the sum is the same: f + max(b, C), to within a
 * layer. */
static void test_priority_does_not_help_behind_a_barrier(void **state)
{
	(void)state;
	for (uint64_t bytes = 500; bytes <= 4000; bytes *= 2) {
		struct chain_job job = {
			.n_ranks = 2, .n_layers = 40, .n_iterations = 4,
			.forward_ns = 500, .backward_ns = 1000, .bytes = bytes,
			.first_matters = 1,
			.options.sched = { .piece_bytes = 128,
				.credit_bytes = 256 },
		};
		int64_t c = (int64_t)bytes, bound = 40 * 500 +
			larger(40 * 1000, 40 * c);
		int64_t is = step_ns(&job);
		assert_in_range(is, bound, bound + larger(1000, c));
	}
}

/* --- the end of the step crossed --------------------------------------------------------*/

/* max(f + b, C): from below never, from above to within what a layer takes of
 * each and what is under way. */
static void test_crossing_reaches_the_bound(void **state)
{
	(void)state;
	static const uint64_t bytes[] = { 384, 768, 1152, 1536, 1920, 3072 };
	for (size_t i = 0; i < 6; i++) {
		struct chain_job job = {
			.n_ranks = 2, .n_layers = 64, .n_iterations = 8,
			.forward_ns = 512, .backward_ns = 1024,
			.bytes = bytes[i], .crosses = 1, .first_matters = 1,
			.options.sched = { .piece_bytes = 64,
				.credit_bytes = 64 },
		};
		int64_t bound = 64 * larger(512 + 1024, (int64_t)bytes[i]);
		int64_t is = step_ns(&job);
		print_message("C/(f+b) %.2f: %.4f of the bound\n",
			(double)bytes[i] / 1536, (double)is / (double)bound);
		assert_in_range(is, bound - 1, bound + 512 + 1024 +
			(int64_t)bytes[i] + 128);
	}
}

/* Reduce-scatter in the backward pass, all-gather behind it: the same bytes in two
 * tasks, each with half of a layer's. */
static void test_tasks_behind_tasks_reach_it_too(void **state)
{
	(void)state;
	static const uint64_t bytes[] = { 384, 768, 1536 };
	for (size_t i = 0; i < 3; i++) {
		struct chain_job job = {
			.n_ranks = 2, .n_layers = 32, .n_iterations = 8,
			.forward_ns = 512, .backward_ns = 1024,
			.bytes = bytes[i], .crosses = 1, .first_matters = 1,
			.gathers = 1, .options.sched = { .piece_bytes = 64,
				.credit_bytes = 64 },
		};
		int64_t bound = 32 * larger(
			512 + 1024, 2 * (int64_t)bytes[i]);
		assert_in_range(step_ns(&job), bound - 1, bound + 512 + 1024 +
			2 * (int64_t)bytes[i] + 128);
	}
}

/* First come, first served: the first layer's gradient is the last of all, so
 * nothing is gained where C is not below f + b. */
static void test_without_priority_crossing_gains_less(void **state)
{
	(void)state;
	struct chain_job job = {
		.n_ranks = 2, .n_layers = 64, .n_iterations = 8,
		.forward_ns = 512, .backward_ns = 1024, .bytes = 1536,
		.crosses = 1, .first_matters = 1,
		.options.sched = { .piece_bytes = 64, .credit_bytes = 64 },
	};
	int64_t best = step_ns(&job);
	job.first_matters = 0;
	int64_t fifo = step_ns(&job);
	job.crosses = 0;
	int64_t kept = step_ns(&job);
	assert_true(best < fifo);
	assert_true(fifo <= kept);
	/* 1 + f / (f + b), the most that crossing can give */
	assert_in_range(kept * 100 / best, 125, 134);
}

/* --- credit -------------------------------------------------------------------------------*/

static int64_t blocked_late_ns;

/* Two layers: the last one's gradient, large, is ready at once, the first one's,
 * which matters more, so much later. */
static int64_t first_is_late(uint32_t rank, uint32_t layer)
{
	(void)rank;
	return layer ? 0 : blocked_late_ns;
}

static void test_blocking_is_bounded_by_the_credit(void **state)
{
	(void)state;
	int64_t worst = 0;
	for (uint64_t credit = 128; credit <= 1024; credit *= 2) {
		struct chain_job job = {
			.n_ranks = 2, .n_layers = 2, .n_iterations = 1,
			.bytes = 64 * 128, .first_matters = 1,
			.late_ns = first_is_late,
			.options.sched = { .piece_bytes = 128,
				.credit_bytes = credit },
		};
		worst = 0;
		for (blocked_late_ns = 1; blocked_late_ns < 3000;
				blocked_late_ns += 37) {
			struct chain *c = run(&job);
			uint32_t op = *chain_at(
				c, 0, 0, c->tasks[1].first_piece);
			int64_t waited = c->timeline.start_ns[op] -
				blocked_late_ns;
			assert_true(waited >= 0);
			worst = larger(worst, waited);
			chain_end(c);
		}
		/* (credit + piece) / rate; and it is not far from reached */
		assert_in_range(worst, (int64_t)credit / 2,
			(int64_t)credit + 128);
	}
}

/* --- rounds -------------------------------------------------------------------------------*/

static int64_t each_is_later(uint32_t rank, uint32_t layer)
{
	(void)layer;
	return 1000 * rank;
}

/* One message each way, of any number of ranks, for each sends to each. The first round
 * compares the tasks, the second says that all are ready. All at once: 10 ns each. One
 * after the other: the last enters the first when all others have long done so, and the
 * second at once when it is told. */
static void test_a_round_costs_its_messages(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= 8; n *= 2) {
		struct chain_job job = {
			.n_ranks = n, .n_layers = 1, .n_iterations = 1,
			.bytes = 640, .options = { .message_ns = 10 },
		};
		struct chain *c = run(&job);
		for (uint32_t r = 0; r < n; r++)
			assert_int_equal(20, c->timeline.start_ns[
				*chain_at(c, 0, r, 0)]);
		chain_end(c);
		job.late_ns = each_is_later;
		c = run(&job);
		for (uint32_t r = 0; r < n; r++)
			assert_int_equal((n - 1) * 1000 + 20,
				c->timeline.start_ns[*chain_at(c, 0, r, 0)]);
		assert_int_equal(c->counts.rounds, 2);
		chain_end(c);
	}
}

/* Pieces of 1280 ns, two within the credit, one at a time from 1020 on. The first layer's
 * gradient is ready at 2000, with the credit used up; at 2300, when the first piece is
 * over, a round says so. With a way of its own it is over at 2310, and the first layer's
 * piece begins when the second is over, at 3580; else it is over 10 ns behind that. */
static void test_a_round_waits_for_what_is_queued(void **state)
{
	(void)state;
	static const int64_t begins_ns[] = { 3580, 3590 };
	for (uint32_t steps = 0; steps < 2; steps++) {
		struct chain_job job = {
			.n_ranks = 2, .n_layers = 2, .n_iterations = 1,
			.backward_ns = 1000, .bytes = 4 * 1280,
			.first_matters = 1,
			.options = { .message_ns = 10, .steps = steps,
				.lanes = 1, .sched = { .piece_bytes = 1280,
				.credit_bytes = 2 * 1280 } },
		};
		struct chain *c = run(&job);
		for (uint32_t r = 0; r < 2; r++)
			assert_int_equal(begins_ns[steps], c->timeline.start_ns[
				*chain_at(c, 0, r, c->tasks[1].first_piece)]);
		chain_end(c);
	}
}

/* --- orders that differ ---------------------------------------------------------------------*/

static int64_t by_rank_and_layer(uint32_t rank, uint32_t layer)
{
	return rank == layer ? 0 : 100;
}

/* Rank 0 is ready for the one first, rank 1 for the other. */
static void test_ranks_that_choose_alone_lock_each_other(void **state)
{
	(void)state;
	struct chain_job job = {
		.n_ranks = 2, .n_layers = 2, .n_iterations = 1, .bytes = 640,
		.late_ns = by_rank_and_layer,
		.options.sched = { .credit_bytes = 1,
			.order = TAUT_SCHED_ALONE },
	};
	struct chain *c = chain_begin(&job);
	assert_int_equal(chain_try(c), TAUT_EMATCH);
	assert_non_null(strstr(c->err.message, "held for ever"));
	chain_end(c);
	job.options.sched.order = TAUT_SCHED_AGREED;
	chain_end(run(&job));
	job.options.sched.order = TAUT_SCHED_DECLARED;
	chain_end(run(&job));
}

static uint64_t random_seed;

static int64_t at_random(uint32_t rank, uint32_t layer)
{
	uint64_t seed = random_seed + rank * 131 + layer * 7;
	return random_pick(&seed, 4000);
}

/* Whatever comes when, every piece is carried out once, on each rank in the same
 * order. */
static void test_random_delays(void **state)
{
	(void)state;
	for (random_seed = 1; random_seed <= 400; random_seed++) {
		uint64_t seed = random_seed;
		struct chain_job job = {
			.n_ranks = 1 + random_pick(&seed, 5),
			.n_layers = 1 + random_pick(&seed, 6),
			.n_iterations = 1 + random_pick(&seed, 3),
			.forward_ns = 100, .backward_ns = 100,
			.bytes = 1 + random_pick(&seed, 1500),
			.crosses = (int)random_pick(&seed, 2),
			.gathers = (int)random_pick(&seed, 2),
			.first_matters = 1, .late_ns = at_random,
			.options = {
				.message_ns = random_pick(&seed, 40),
				.steps = random_pick(&seed, 4),
				.lanes = random_pick(&seed, 4),
				.sched = {
				.order = random_pick(&seed, 3) ?
					TAUT_SCHED_AGREED : TAUT_SCHED_DECLARED,
				.piece_bytes = random_pick(&seed, 2) * 128,
				.credit_bytes = random_pick(&seed, 600) },
			},
		};
		struct chain *c = run(&job);
		for (uint32_t i = 0; i < c->team.n_pieces; i++) {
			uint32_t last = job.n_iterations - 1;
			int64_t end_ns = c->timeline.end_ns[
				*chain_at(c, last, 0, i) + 1];
			for (uint32_t r = 1; r < job.n_ranks; r++)
				assert_int_equal(end_ns, c->timeline.end_ns[
					*chain_at(c, last, r, i) + 1]);
		}
		chain_end(c);
	}
}

static void test_without_memory_it_fails(void **state)
{
	(void)state;
	struct chain_job job = {
		.n_ranks = 2, .n_layers = 2, .n_iterations = 1, .bytes = 640,
		.options.sched = { .piece_bytes = 128, .credit_bytes = 256 },
	};
	struct chain *c = chain_begin(&job);
	taut_status status = TAUT_ENOMEM;
	long n = 0;
	for (; status; n++) {
		assert_int_equal(status, TAUT_ENOMEM);
		alloc_fail_after(n);
		status = chain_try(c);
		alloc_fail_never();
	}
	assert_true(n > 10);
	chain_end(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_backward_hides_what_it_can),
		cmocka_unit_test(test_priority_does_not_help_behind_a_barrier),
		cmocka_unit_test(test_crossing_reaches_the_bound),
		cmocka_unit_test(test_tasks_behind_tasks_reach_it_too),
		cmocka_unit_test(test_without_priority_crossing_gains_less),
		cmocka_unit_test(test_blocking_is_bounded_by_the_credit),
		cmocka_unit_test(test_a_round_costs_its_messages),
		cmocka_unit_test(test_a_round_waits_for_what_is_queued),
		cmocka_unit_test(test_ranks_that_choose_alone_lock_each_other),
		cmocka_unit_test(test_random_delays),
		cmocka_unit_test(test_without_memory_it_fails),
	};
	return cmocka_run_group_tests_name(
		"a scheduler on the replay's clock", tests, NULL, NULL);
}

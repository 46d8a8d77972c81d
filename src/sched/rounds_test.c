/* Ranks that agree: two schedulers, with the test as the network between them. */
#include "sched/by_hand.h"

#include "tests/support/alloc_fail.h"

static struct hand a, b;

static void make(const struct taut_sched_options *options)
{
	struct taut_sched_options both = *options;

	both.n_ranks = 2;
	hand_create(&a, &both);
	hand_create(&b, &both);
}

static void tasks(uint32_t n, uint64_t bytes)
{
	for (uint32_t i = 0; i < n; i++) {
		hand_task(&a, bytes, i, TAUT_NONE);
		hand_task(&b, bytes, i, TAUT_NONE);
	}
}

static void destroy(void)
{
	hand_destroy(&a);
	hand_destroy(&b);
}

static void asked(struct hand *hand, uint64_t round)
{
	assert_int_equal(taut_sched_asked(hand->sched, round, NULL), TAUT_OK);
}

static void refused(taut_status status)
{
	assert_int_equal(status, TAUT_EINVAL);
}

/* Both are ready for `task` alone, and have agreed that they match. */
static void begin(uint32_t task)
{
	hand_ready(&a, task);
	hand_ready(&b, task);
	hand_expect(&a, "?0 ");
	hand_expect(&b, "?0 ");
	hand_answer(&a, &b, 0);
	hand_expect(&a, "?1 ");
	hand_expect(&b, "?1 ");
}

/* --- one sequence ------------------------------------------------------------------*/

/* a is ready for 1, then 0; b for 0, then 1. Alone, each would begin what the
 * other does not. */
static void test_same_order(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){ .credit_bytes = 1 });
	tasks(2, 10);
	hand_ready(&a, 1);
	hand_ready(&b, 0);
	hand_expect(&a, "?0 ");
	hand_expect(&b, "?0 ");
	hand_answer(&a, &b, 0);
	hand_answer(&a, &b, 1); /* nothing is ready on both, nobody has news */
	hand_expect(&a, "?1 ");
	hand_expect(&b, "?1 ");
	hand_ready(&a, 0); /* a knows that 1 is not ready on b, and asks */
	hand_expect(&a, "?2 ");
	hand_ready(&b, 1);
	hand_expect(&b, "?2 ");
	hand_answer(&a, &b, 2);
	hand_expect(&a, "+0:0-10 ");
	hand_expect(&b, "+0:0-10 ");
	hand_finished(&a, 0);
	hand_expect(&a, "?3 =0.1 ");
	asked(&b, 3);
	hand_expect(&b, "?3 "); /* has not finished it */
	hand_answer(&a, &b, 3);
	hand_expect(&a, ""); /* b still has its credit in it */
	hand_expect(&b, "");
	hand_finished(&b, 0);
	hand_expect(&b, "?4 =0.1 ");
	asked(&a, 4);
	hand_expect(&a, "?4 ");
	hand_answer(&a, &b, 4);
	hand_expect(&a, "+1:0-10 ");
	hand_expect(&b, "+1:0-10 ");
	destroy();
}

/* A task that became agreed overtakes one that has begun. */
static void test_overtakes(void **state)
{
	struct taut_sched_counts counts;

	(void)state;
	make(&(struct taut_sched_options){
		.piece_bytes = 64, .credit_bytes = 65 });
	tasks(2, 256);
	begin(1);
	hand_answer(&a, &b, 1);
	hand_expect(&a, "+1:0-64 +1:64-128 ");
	hand_expect(&b, "+1:0-64 +1:64-128 ");
	hand_ready(&a, 0);
	hand_ready(&b, 0);
	hand_expect(&a, ""); /* no credit: it would lead to nothing */
	hand_expect(&b, "");
	hand_finished(&b, 0);
	hand_finished(&a, 0);
	hand_expect(&a, "?2 ");
	hand_expect(&b, "?2 ");
	hand_answer(&a, &b, 2);
	hand_expect(&a, "+0:0-64 ");
	hand_expect(&b, "+0:0-64 ");
	taut_sched_counts(a.sched, &counts);
	assert_int_equal(counts.overtaken, 1);
	assert_int_equal(counts.rounds, 3);
	destroy();
}

/* Pieces that ranks finish in another order: credit is that of what all have. */
static void test_out_of_order(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){
		.piece_bytes = 64, .credit_bytes = 128 });
	tasks(1, 256);
	begin(0);
	hand_answer(&a, &b, 1);
	hand_expect(&a, "+0:0-64 +0:64-128 ");
	hand_expect(&b, "+0:0-64 +0:64-128 ");
	hand_finished(&a, 1);
	hand_finished(&b, 0);
	hand_answer(&a, &b, 2);
	hand_expect(&a, "?2 "); /* none is finished on both */
	hand_expect(&b, "?2 ");
	hand_finished(&b, 1);
	hand_expect(&b, "?3 ");
	asked(&a, 3);
	hand_answer(&a, &b, 3);
	hand_expect(&a, "?3 +0:128-192 "); /* 1 is, though 0 is not */
	hand_expect(&b, "+0:128-192 ");
	destroy();
}

static void test_fuses(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){ .fuse_bytes = 100 });
	tasks(4, 50);
	hand_ready(&a, 0);
	hand_ready(&a, 1);
	hand_ready(&a, 3);
	hand_ready(&b, 3);
	hand_ready(&b, 2);
	hand_ready(&b, 1);
	hand_ready(&b, 0);
	hand_answer(&a, &b, 0);
	hand_answer(&a, &b, 1);
	hand_expect(&a, "?0 ?1 +0:0-50,1:0-50 +3:0-50 ");
	hand_expect(&b, "?0 ?1 +0:0-50,1:0-50 +3:0-50 ");
	hand_ready(&a, 2);
	asked(&b, 2);
	hand_answer(&a, &b, 2);
	hand_expect(&a, "?2 +2:0-50 ");
	hand_expect(&b, "?2 +2:0-50 ");
	destroy();
}

/* A reduce-scatter, and the all-gather after it. */
/* 1 and 2 go together, when both ranks have both; 0, which matters more, does not
 * wait for them. */
static void test_groups(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){ .piece_bytes = 128 });
	tasks(3, 10);
	assert_int_equal(taut_sched_join(a.sched, NULL), TAUT_OK);
	assert_int_equal(taut_sched_join(b.sched, NULL), TAUT_OK);
	hand_ready(&a, 2);
	hand_ready(&b, 2);
	hand_answer(&a, &b, 0);
	hand_expect(&a, "?0 ?1 ");
	hand_expect(&b, "?0 ?1 ");
	hand_answer(&a, &b, 1); /* 2 is agreed */
	hand_expect(&a, "");
	hand_ready(&a, 1);
	hand_ready(&b, 0);
	hand_ready(&a, 0);
	hand_answer(&a, &b, 2); /* 0 was not known when they entered */
	assert_int_equal(taut_sched_asked(b.sched, 3, NULL), TAUT_OK);
	hand_answer(&a, &b, 3);
	hand_expect(&a, "?2 ?3 +0:0-10 ");
	hand_expect(&b, "?2 ?3 +0:0-10 ");
	hand_ready(&b, 1);
	hand_expect(&b, "?4 ");
	assert_int_equal(taut_sched_asked(a.sched, 4, NULL), TAUT_OK);
	hand_expect(&a, "?4 ");
	hand_answer(&a, &b, 4);
	hand_expect(&a, "+1:0-10,2:0-10 ");
	hand_expect(&b, "+1:0-10,2:0-10 ");
	hand_destroy(&a);
	hand_destroy(&b);
}

static void test_after(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){ .credit_bytes = 1 });
	tasks(1, 10);
	hand_task(&a, 10, -1, 0);
	hand_task(&b, 10, -1, 0);
	begin(0);
	hand_answer(&a, &b, 1);
	hand_finished(&a, 0);
	hand_expect(&a, "+0:0-10 ?2 =0.1 ");
	asked(&b, 2);
	hand_answer(&a, &b, 2);
	hand_finished(&b, 0);
	hand_expect(&b, "+0:0-10 ?2 ?3 =0.1 ");
	asked(&a, 3);
	hand_answer(&a, &b, 3);
	hand_expect(&a, "?3 +1:0-10 ");
	hand_expect(&b, "+1:0-10 ");
	destroy();
}

/* One rank is all ranks. */
static void test_one_rank(void **state)
{
	(void)state;
	hand_create(&a, &(struct taut_sched_options){ .credit_bytes = 1 });
	hand_task(&a, 10, 1, TAUT_NONE);
	hand_task(&a, 10, 0, TAUT_NONE);
	hand_ready(&a, 0);
	hand_ready(&a, 1);
	hand_finished(&a, 0);
	hand_expect(&a, "+0:0-10 +1:0-10 =0.1 ");
	hand_destroy(&a);
}

/* Iterations of 70 tasks, each of two pieces, more than fit into a word. */
static void test_many(void **state)
{
	struct taut_sched_counts counts;
	uint64_t number = 0;

	(void)state;
	make(&(struct taut_sched_options){ .piece_bytes = 64 });
	tasks(70, 100);
	for (uint64_t i = 0; i < 5; i++) {
		for (uint32_t t = 0; t < 70; t++) {
			hand_ready(&a, t);
			hand_ready(&b, 69 - t);
		}
		hand_answer(&a, &b, 2 * i);
		hand_answer(&a, &b, 2 * i + 1);
		for (uint64_t k = 0; k < 140; k++, number++) {
			hand_finished(&a, number);
			hand_finished(&b, number);
		}
		a.length = b.length = 0;
	}
	taut_sched_counts(b.sched, &counts);
	assert_int_equal(counts.pieces, 700);
	assert_int_equal(counts.rounds, 10);
	destroy();
}

/* --- when rounds begin -------------------------------------------------------------*/

/* What is asked for, when, and what is refused. */
static void test_asked(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){ .credit_bytes = 1 });
	tasks(2, 10);
	asked(&a, 0); /* it has declared all when it is ready */
	refused(taut_sched_asked(a.sched, 1, NULL));
	hand_expect(&a, "");
	hand_ready(&a, 0);
	hand_expect(&a, "?0 ");
	asked(&a, 0);
	asked(&a, 1); /* b has heard the answer already */
	refused(taut_sched_asked(a.sched, 2, NULL));
	hand_expect(&a, "");
	hand_ready(&b, 1);
	hand_answer(&a, &b, 0);
	hand_expect(&a, "?1 ");
	hand_answer(&a, &b, 1);
	asked(&a, 1); /* late */
	hand_expect(&a, "");
	asked(&a, 2);
	hand_expect(&a, "?2 "); /* without news */
	destroy();
}

/* What cannot lead to anything is not said. */
static void test_silent(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){ .credit_bytes = 11 });
	tasks(3, 10);
	begin(2);
	hand_answer(&a, &b, 1);
	hand_finished(&a, 0);
	hand_expect(&a, "+2:0-10 =2.1 "); /* credit is left, nothing waits */
	hand_ready(&a, 1);
	hand_expect(&a, "?2 ");
	asked(&b, 2);
	hand_answer(&a, &b, 2);
	hand_ready(&b, 0);
	hand_expect(&b, "+2:0-10 ?2 ?3 ");
	asked(&a, 3);
	hand_expect(&a, "?3 ");
	hand_ready(&a, 0); /* kept for the next one */
	hand_expect(&a, "");
	hand_answer(&a, &b, 3);
	hand_expect(&a, "?4 ");
	hand_ready(&b, 1);
	hand_answer(&a, &b, 4);
	hand_expect(&b, "?4 +0:0-10 "); /* with 2 of b, which is not over */
	hand_expect(&a, "+0:0-10 ");
	destroy();
}

/* The words of a round do not stand behind a piece in the link's queue. */
static void test_before_pieces(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){
		.piece_bytes = 10, .align_bytes = 1, .credit_bytes = 20 });
	tasks(1, 40);
	begin(0);
	hand_answer(&a, &b, 1);
	hand_expect(&a, "+0:0-10 +0:10-20 ");
	hand_finished(&a, 0);
	hand_finished(&b, 0);
	hand_finished(&a, 1); /* not of the round under way */
	hand_expect(&a, "?2 ");
	hand_answer(&a, &b, 2);
	hand_expect(&a, "?3 +0:20-30 ");
	hand_expect(&b, "+0:0-10 +0:10-20 ?2 +0:20-30 ");
	destroy();
}

static void test_refuses(void **state)
{
	uint64_t words[HAND_WORDS];
	size_t n;

	(void)state;
	make(&(struct taut_sched_options){ .credit_bytes = 1 });
	tasks(2, 10);
	begin(0);
	n = a.n_words;
	memcpy(words, a.words, n * sizeof *words);
	refused(taut_sched_agreed(a.sched, 0, words, n, NULL));
	refused(taut_sched_agreed(a.sched, 2, words, n, NULL));
	refused(taut_sched_agreed(a.sched, 1, words, n - 1, NULL));
	words[2] |= 2; /* a is not ready for task 1 */
	refused(taut_sched_agreed(a.sched, 1, words, n, NULL));
	words[2] &= 1;
	assert_int_equal(
		taut_sched_agreed(a.sched, 1, words, n, NULL), TAUT_OK);
	refused(taut_sched_agreed(a.sched, 1, words, n, NULL));
	hand_expect(&a, "+0:0-10 ");
	destroy();
}

/* --- limits ------------------------------------------------------------------------*/

static void one_iteration(uint64_t number, uint64_t round)
{
	hand_answer(&a, &b, round);
	hand_finished(&a, number);
	hand_finished(&b, number);
}

static void test_tune(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){ .credit_bytes = 1 });
	tasks(1, 100);
	begin(0);
	one_iteration(0, 1);
	hand_expect(&a, "+0:0-100 =0.1 ");
	hand_expect(&b, "+0:0-100 =0.1 ");
	assert_int_equal(taut_sched_tune(a.sched, 64, 1000, 0, NULL), TAUT_OK);
	hand_ready(&a, 0);
	hand_expect(&a, "?2 ");
	asked(&b, 2); /* b has not changed its limits, but neither is it ready */
	hand_answer(&a, &b, 2);
	assert_int_equal(taut_sched_tune(b.sched, 64, 1000, 0, NULL), TAUT_OK);
	hand_ready(&b, 0);
	hand_expect(&b, "?2 ?3 ");
	asked(&a, 3);
	hand_answer(&a, &b, 3);
	hand_expect(&a, "?3 +0:0-64 +0:64-100 ");
	hand_expect(&b, "+0:0-64 +0:64-100 ");
	destroy();
}

static void expect_mismatch(const char *of_a, const char *of_b)
{
	struct taut_error err = { .message = "" };

	assert_int_equal(taut_sched_ready(a.sched, 0, &err), TAUT_EMATCH);
	assert_string_equal(err.message, of_a);
	assert_int_equal(taut_sched_ready(b.sched, 0, &err), TAUT_EMATCH);
	assert_string_equal(err.message, of_b);
	destroy();
}

static void test_tune_differs(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){ .credit_bytes = 1 });
	tasks(1, 100);
	begin(0);
	one_iteration(0, 1);
	assert_int_equal(taut_sched_tune(a.sched, 64, 1000, 0, NULL), TAUT_OK);
	hand_ready(&a, 0);
	hand_ready(&b, 0);
	hand_answer(&a, &b, 2);
	hand_expect(&a, "+0:0-100 =0.1 ?2 =0.2(-5) ");
	hand_expect(&b, "+0:0-100 =0.1 ?2 =0.2(-5) ");
	expect_mismatch("scheduler: ranks do not match: piece_bytes, "
		"credit_bytes, fuse_bytes: 64, 1000, 0 here, and not on every "
		"rank, or not since the same iteration",
		"scheduler: ranks do not match: piece_bytes, "
		"credit_bytes, fuse_bytes: 0, 1, 0 here, and not on every "
		"rank, or not since the same iteration");
}

static void ready_part(struct hand *hand, uint32_t task, uint64_t bytes)
{
	assert_int_equal(taut_sched_ready_part(hand->sched, task, bytes, NULL),
		TAUT_OK);
}

/* Parts of a task that are not as large on all ranks: the next round tells, also one that
 * agrees on nothing. */
static void test_part_differs(void **state)
{
	static const char line[] = "scheduler: ranks do not match: a task was "
		"ready with as many bytes as here, and not on every rank, in "
		"one of the last iterations";

	(void)state;
	make(&(struct taut_sched_options){ .piece_bytes = 64 });
	tasks(2, 200);
	ready_part(&a, 0, 64);
	ready_part(&b, 0, 128);
	hand_answer(&a, &b, 0);
	hand_answer(&a, &b, 1);
	hand_expect(&a, "?0 ?1 +0:0-64 ");
	hand_expect(&b, "?0 ?1 +0:0-64 +0:64-128 ");
	hand_finished(&a, 0);
	hand_finished(&b, 0);
	hand_ready(&a, 1);
	asked(&b, 2);
	hand_answer(&a, &b, 2);
	hand_expect(&a, "=0.1 ?2 =1.1(-5) ");
	hand_expect(&b, "?2 =0.1(-5) ");
	expect_mismatch(line, line);
}

/* --- ranks that do not match -------------------------------------------------------*/

static void agree_that_not(uint64_t rounds)
{
	hand_ready(&a, 0);
	hand_ready(&b, 0);
	for (uint64_t i = 0; i < rounds; i++)
		hand_answer(&a, &b, i);
	hand_expect(&a, rounds == 1 ? "?0 =0.1(-5) " : "?0 ?1 =0.1(-5) ");
	hand_expect(&b, rounds == 1 ? "?0 =0.1(-5) " : "?0 ?1 =0.1(-5) ");
}

static void test_other_count(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){ .credit_bytes = 1 });
	tasks(2, 10);
	hand_task(&b, 10, 0, TAUT_NONE);
	agree_that_not(1);
	expect_mismatch("scheduler: ranks do not match: tasks: 2 here, and not "
		"on every rank", "scheduler: ranks do not match: tasks: 3 here, "
		"and not on every rank");
}

static void test_other_limits(void **state)
{
	(void)state;
	hand_create(&a, &(struct taut_sched_options){ .n_ranks = 2,
		.fuse_bytes = 7 });
	hand_create(&b, &(struct taut_sched_options){ .n_ranks = 2 });
	tasks(1, 10);
	agree_that_not(1);
	expect_mismatch("scheduler: ranks do not match: fuse_bytes: 7 here, and "
		"not on every rank", "scheduler: ranks do not match: "
		"fuse_bytes: 0 here, and not on every rank");
}

#define NOT_EVERY ", and not on every rank"
#define WITH_NONE " and goes with none before it here"

static void differ(uint64_t bytes, int64_t priority, uint32_t after,
	const char *of_b)
{
	char line[496];

	make(&(struct taut_sched_options){ .credit_bytes = 1 });
	tasks(70, 10);
	hand_task(&a, 10, 3, 4);
	hand_task(&b, bytes, priority, after);
	tasks(1, 10);
	agree_that_not(2);
	snprintf(line, sizeof line, "scheduler: ranks do not match: task 70 "
		"has %s" NOT_EVERY, of_b);
	expect_mismatch("scheduler: ranks do not match: task 70 has 10 bytes, "
		"priority 3, comes after task 4" WITH_NONE NOT_EVERY, line);
}

static void test_other_task(void **state)
{
	(void)state;
	differ(11, 3, 4, "11 bytes, priority 3, comes after task 4" WITH_NONE);
	differ(10, -3, 4, "10 bytes, priority -3, comes after task 4" WITH_NONE);
	differ(10, 3, TAUT_NONE,
		"10 bytes, priority 3, comes after no task" WITH_NONE);
}

static void test_other_group(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){ .credit_bytes = 1 });
	tasks(3, 10);
	assert_int_equal(taut_sched_join(b.sched, NULL), TAUT_OK);
	agree_that_not(2);
	expect_mismatch("scheduler: ranks do not match: task 2 has 10 bytes, "
		"priority 2, comes after no task" WITH_NONE NOT_EVERY,
		"scheduler: ranks do not match: task 2 has 10 bytes, priority "
		"2, comes after no task and goes with task 1 here" NOT_EVERY);
}

/* --- failure -----------------------------------------------------------------------*/

static void test_agree_fails(void **state)
{
	struct taut_error err = { .message = "" };

	(void)state;
	make(&(struct taut_sched_options){ .credit_bytes = 1 });
	tasks(1, 10);
	a.agree_fails = TAUT_EIO;
	assert_int_equal(taut_sched_ready(a.sched, 0, &err), TAUT_EIO);
	assert_string_equal(err.message, "scheduler: the engine's agree() "
		"failed: input/output error");
	hand_expect(&a, "?0 =0.1(-2) ");
	destroy();
}

static void test_memory(void **state)
{
	taut_status status = TAUT_OK;

	(void)state;
	make(&(struct taut_sched_options){ .credit_bytes = 1 });
	tasks(1, 10);
	alloc_fail_after(4); /* those of the first ready; not the words */
	status = taut_sched_ready(a.sched, 0, NULL);
	alloc_fail_never();
	assert_int_equal(status, TAUT_ENOMEM);
	hand_expect(&a, "=0.1(-1) ");
	destroy();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_order),
		cmocka_unit_test(test_overtakes),
		cmocka_unit_test(test_out_of_order),
		cmocka_unit_test(test_fuses),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_after),
		cmocka_unit_test(test_one_rank),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_asked),
		cmocka_unit_test(test_silent),
		cmocka_unit_test(test_before_pieces),
		cmocka_unit_test(test_refuses),
		cmocka_unit_test(test_tune),
		cmocka_unit_test(test_tune_differs),
		cmocka_unit_test(test_part_differs),
		cmocka_unit_test(test_other_count),
		cmocka_unit_test(test_other_limits),
		cmocka_unit_test(test_other_task),
		cmocka_unit_test(test_other_group),
		cmocka_unit_test(test_agree_fails),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

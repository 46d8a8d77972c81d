/* Each rule against a sequence worked out by hand, on one rank. */
#include "sched/by_hand.h"

#include "tests/support/alloc_fail.h"

#define ALONE .order = TAUT_SCHED_ALONE
#define DECLARED .order = TAUT_SCHED_DECLARED

static struct hand hand;

static void make(const struct taut_sched_options *options)
{
	hand_create(&hand, options);
}

static void refused(taut_status status)
{
	assert_int_equal(status, TAUT_EINVAL);
}

/* --- order, credit -----------------------------------------------------------------*/

/* Three layers, the last one's gradient first: it has begun, and what comes later
 * and matters more overtakes what is left of it. */
static void test_overtakes(void **state)
{
	struct taut_sched_counts counts;

	(void)state;
	make(&(struct taut_sched_options){ ALONE, .piece_bytes = 128,
		.credit_bytes = 1 });
	for (int64_t i = 0; i < 3; i++)
		hand_task(&hand, 300, i, TAUT_NONE);
	hand_ready(&hand, 2);
	hand_expect(&hand, "+2:0-128 ");
	hand_ready(&hand, 1);
	hand_finished(&hand, 0);
	hand_expect(&hand, "+1:0-128 ");
	hand_ready(&hand, 0);
	hand_finished(&hand, 1);
	hand_expect(&hand, "+0:0-128 ");
	hand_finished(&hand, 2);
	hand_finished(&hand, 3);
	hand_expect(&hand, "+0:128-256 +0:256-300 ");
	hand_finished(&hand, 4);
	hand_expect(&hand, "+1:128-256 =0.1 ");
	for (uint64_t i = 5; i < 9; i++)
		hand_finished(&hand, i);
	hand_expect(&hand,
		"+1:256-300 +2:128-256 =1.1 +2:256-300 =2.1 ");
	taut_sched_counts(hand.sched, &counts);
	assert_int_equal(counts.pieces, 9);
	assert_int_equal(counts.starts, 9);
	assert_int_equal(counts.overtaken, 6); /* all of 0 and of 1 */
	assert_int_equal(counts.rounds, 0);
	assert_int_equal(counts.most_under_way_bytes, 128);
	hand_destroy(&hand);
}

/* Equal priorities: the one declared first. Negative ones are before 0. */
static void test_priorities(void **state)
{
	static const int64_t priorities[] = { 5, 0, 5, INT64_MIN, INT64_MAX, 0 };

	(void)state;
	make(&(struct taut_sched_options){ ALONE, .credit_bytes = 1 });
	for (int i = 0; i < 6; i++)
		hand_task(&hand, 10, priorities[i], TAUT_NONE);
	hand_ready(&hand, 4);
	for (uint32_t i = 6; i-- > 0;)
		if (i != 4)
			hand_ready(&hand, i);
	for (uint64_t i = 0; i < 6; i++)
		hand_finished(&hand, i);
	hand_expect(&hand, "+4:0-10 +3:0-10 =4.1 +1:0-10 =3.1 +5:0-10 =1.1 "
		"+0:0-10 =5.1 +2:0-10 =0.1 =2.1 ");
	hand_destroy(&hand);
}

/* With 100 under way nothing begins within 100, and one more within 101. */
static void test_credit(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){ ALONE, .piece_bytes = 50,
		.align_bytes = 1, .credit_bytes = 100 });
	hand_task(&hand, 250, 0, TAUT_NONE);
	hand_ready(&hand, 0);
	hand_expect(&hand, "+0:0-50 +0:50-100 ");
	hand_finished(&hand, 1); /* in any order */
	hand_expect(&hand, "+0:100-150 ");
	hand_finished(&hand, 0);
	hand_finished(&hand, 2);
	hand_finished(&hand, 4);
	hand_finished(&hand, 3);
	hand_expect(&hand, "+0:150-200 +0:200-250 =0.1 ");
	assert_int_equal(taut_sched_tune(hand.sched, 50, 101, 0, NULL), 0);
	hand_ready(&hand, 0);
	hand_expect(&hand, "+0:0-50 +0:50-100 +0:100-150 ");
	hand_destroy(&hand);
}

/* Iterations of a task have what they are said to, and its pieces follow from that. */
static void test_parts(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){ ALONE, .piece_bytes = 50,
		.align_bytes = 1, .fuse_bytes = 50 });
	hand_task(&hand, 120, 1, TAUT_NONE);
	hand_task(&hand, 10, 2, TAUT_NONE);
	hand_task(&hand, 10, 3, 1);
	assert_int_equal(
		taut_sched_ready_part(hand.sched, 0, 60, NULL), TAUT_OK);
	refused(taut_sched_ready_part(hand.sched, 0, 60, NULL));
	hand_expect(&hand, "+0:0-50 +0:50-60 ");
	hand_finished(&hand, 0);
	hand_finished(&hand, 1);
	hand_ready(&hand, 0);
	hand_expect(&hand, "=0.1 +0:0-50 +0:50-100 +0:100-120 ");
	for (uint64_t i = 2; i < 5; i++)
		hand_finished(&hand, i);
	refused(taut_sched_ready_part(hand.sched, 0, 0, NULL));
	refused(taut_sched_ready_part(hand.sched, 0, 121, NULL));
	refused(taut_sched_ready_part(hand.sched, 1, 5, NULL)); /* 2 is after it */
	refused(taut_sched_ready_part(hand.sched, 3, 5, NULL));
	hand_expect(&hand, "=0.2 ");
	hand_destroy(&hand);
}

/* What is little enough goes with others, however much the task may have. */
static void test_parts_fuse(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){ ALONE, .piece_bytes = 50,
		.align_bytes = 1, .credit_bytes = 60, .fuse_bytes = 50 });
	hand_task(&hand, 60, 0, TAUT_NONE);
	hand_task(&hand, 500, 1, TAUT_NONE);
	hand_task(&hand, 10, 2, TAUT_NONE);
	hand_ready(&hand, 0);
	assert_int_equal(
		taut_sched_ready_part(hand.sched, 1, 20, NULL), TAUT_OK);
	hand_ready(&hand, 2);
	hand_expect(&hand, "+0:0-50 +0:50-60 ");
	hand_finished(&hand, 0);
	hand_expect(&hand, "+1:0-20,2:0-10 ");
	hand_destroy(&hand);
}

/* What was last comes first, once nothing is under way. */
static void test_prioritizes(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){ ALONE, .credit_bytes = 1 });
	for (int64_t i = 0; i < 3; i++)
		hand_task(&hand, 10, i, TAUT_NONE);
	assert_int_equal(taut_sched_prioritize(hand.sched, 2, 2, NULL), 0);
	for (uint32_t task = 0; task < 3; task++)
		hand_ready(&hand, task);
	refused(taut_sched_prioritize(hand.sched, 2, -1, NULL));
	for (uint64_t i = 0; i < 3; i++)
		hand_finished(&hand, i);
	hand_expect(&hand, "+0:0-10 +1:0-10 =0.1 +2:0-10 =1.1 =2.1 ");
	assert_int_equal(taut_sched_prioritize(hand.sched, 2, -1, NULL), 0);
	refused(taut_sched_prioritize(hand.sched, 3, 0, NULL));
	for (uint32_t task = 0; task < 3; task++)
		hand_ready(&hand, task);
	for (uint64_t i = 3; i < 6; i++)
		hand_finished(&hand, i);
	/* 0 has begun before the others came. */
	hand_expect(&hand, "+0:0-10 +2:0-10 =0.2 +1:0-10 =2.2 =1.2 ");
	hand_destroy(&hand);
	make(&(struct taut_sched_options){ .n_ranks = 2 });
	hand_task(&hand, 10, 0, TAUT_NONE);
	refused(taut_sched_prioritize(hand.sched, 0, 1, NULL));
	hand_destroy(&hand);
}

static void expect_pieces(const struct taut_sched_options *options,
	uint64_t bytes, const char *expected)
{
	make(options);
	hand_task(&hand, bytes, 0, TAUT_NONE);
	hand_ready(&hand, 0);
	hand_expect(&hand, expected);
	hand_destroy(&hand);
}

static void test_pieces(void **state)
{
	(void)state;
	expect_pieces(&(struct taut_sched_options){ ALONE }, 1000, "+0:0-1000 ");
	expect_pieces(&(struct taut_sched_options){ ALONE, .piece_bytes = 400,
		.align_bytes = 1 }, 1000, "+0:0-400 +0:400-800 +0:800-1000 ");
	expect_pieces(&(struct taut_sched_options){ ALONE, .piece_bytes = 400 },
		1000, "+0:0-384 +0:384-768 +0:768-1000 "); /* 6 times 64 */
	expect_pieces(&(struct taut_sched_options){ ALONE, .piece_bytes = 7 },
		130, "+0:0-64 +0:64-128 +0:128-130 "); /* at least the align */
	expect_pieces(&(struct taut_sched_options){ ALONE, .piece_bytes = 500,
		.align_bytes = 1 }, 1000, "+0:0-500 +0:500-1000 ");
	expect_pieces(&(struct taut_sched_options){ ALONE, .piece_bytes = 500,
		.align_bytes = 1 }, 500, "+0:0-500 ");
}

/* --- together ----------------------------------------------------------------------*/

/* Those committed at once, in their order, up to 100 bytes. */
static void test_fuses(void **state)
{
	static const uint64_t bytes[] = { 10, 40, 50, 1, 200, 30, 60 };
	struct taut_sched_counts counts;

	(void)state;
	make(&(struct taut_sched_options){ ALONE, .piece_bytes = 128,
		.credit_bytes = 129, .fuse_bytes = 100 });
	for (int i = 0; i < 7; i++)
		hand_task(&hand, bytes[i], i, TAUT_NONE);
	hand_task(&hand, 129, -1, TAUT_NONE);
	hand_ready(&hand, 7);
	for (uint32_t i = 7; i-- > 0;)
		hand_ready(&hand, i);
	hand_expect(&hand, "+7:0-128 +7:128-129 ");
	hand_finished(&hand, 0);
	/* 1 under way: 0, 1 and 2 are 100 together, 3 is one too many for
	 * them, and with 4 begun there is no more credit. */
	hand_expect(&hand, "+0:0-10,1:0-40,2:0-50 +3:0-1 +4:0-128 ");
	hand_finished(&hand, 6); /* 102 under way: the rest of 4, which is 174 */
	hand_expect(&hand, "+4:128-200 ");
	for (uint64_t i = 1; i < 6; i++)
		hand_finished(&hand, i); /* 173, 163, 123 + 30, 103 + 60, 162 */
	hand_expect(&hand,
		"=7.1 =0.1 +5:0-30 =1.1 +6:0-60 =2.1 =3.1 ");
	taut_sched_counts(hand.sched, &counts);
	assert_int_equal(counts.pieces, 10);
	assert_int_equal(counts.starts, 8);
	assert_int_equal(counts.most_under_way_bytes, 230);
	hand_destroy(&hand);
}

/* What is more than 100 alone, and pieces, stand alone. */
static void test_fuses_whole_tasks(void **state)
{
	static const uint64_t bytes[] = { 300, 128, 1, 270, 30, 60, 20, 5, 1 };

	(void)state;
	make(&(struct taut_sched_options){ ALONE, .piece_bytes = 256,
		.credit_bytes = 300, .fuse_bytes = 100 });
	for (int i = 0; i < 9; i++)
		hand_task(&hand, bytes[i], i, TAUT_NONE);
	for (uint32_t i = 0; i < 9; i++)
		hand_ready(&hand, i);
	hand_expect(&hand, "+0:0-256 +0:256-300 ");
	hand_finished(&hand, 0); /* 44, 172, 173, 429 */
	hand_expect(&hand, "+1:0-128 +2:0-1 +3:0-256 ");
	hand_finished(&hand, 4); /* 173, 187, 217, 277, 297, 302 */
	hand_expect(&hand, "+3:256-270 +4:0-30,5:0-60 +6:0-20,7:0-5 ");
	hand_destroy(&hand);
}

/* --- groups ------------------------------------------------------------------------*/

static void join(void)
{
	assert_int_equal(taut_sched_join(hand.sched, NULL), TAUT_OK);
}

/* 1 to 4 go together, first because of 3, and nothing of them before all are there:
 * whole ones up to a piece at once, whatever fuses and whatever credit is left. */
static void test_groups(void **state)
{
	static const uint64_t bytes[] = { 10, 40, 50, 200, 30, 60 };
	static const int64_t priorities[] = { 2, 9, 9, 1, 9, 3 };

	(void)state;
	make(&(struct taut_sched_options){ ALONE, .piece_bytes = 128,
		.credit_bytes = 1, .fuse_bytes = 70 });
	for (int i = 0; i < 6; i++) {
		hand_task(&hand, bytes[i], priorities[i], TAUT_NONE);
		if (i > 1 && i < 5)
			join();
	}
	hand_ready(&hand, 4);
	hand_ready(&hand, 2);
	hand_ready(&hand, 3);
	hand_expect(&hand, "");
	hand_ready(&hand, 5);
	hand_expect(&hand, "+5:0-60 ");
	hand_ready(&hand, 1);
	hand_ready(&hand, 0);
	hand_finished(&hand, 0);
	hand_expect(&hand, "+1:0-40,2:0-50 =5.1 ");
	hand_finished(&hand, 2);
	hand_finished(&hand, 1);
	hand_expect(&hand, "=2.1 +3:0-128 =1.1 ");
	hand_ready(&hand, 2); /* of the next iteration, before 3 and 4 are done */
	hand_finished(&hand, 3);
	hand_finished(&hand, 4);
	hand_expect(&hand, "+3:128-200 +4:0-30 =3.1 ");
	hand_finished(&hand, 5);
	hand_expect(&hand, "+0:0-10 =4.1 ");
	hand_destroy(&hand);
}

/* Without a limit of pieces all of a group goes at once, and no other with it. */
static void test_groups_whole(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){ DECLARED, .fuse_bytes = 1000 });
	for (int i = 0; i < 6; i++) {
		hand_task(&hand, 400, 0, TAUT_NONE);
		if (i == 2 || i == 3)
			join();
	}
	for (uint32_t i = 6; i-- > 0;)
		hand_ready(&hand, i);
	hand_expect(&hand, "+0:0-400 +1:0-400,2:0-400,3:0-400 "
		"+4:0-400,5:0-400 ");
	hand_destroy(&hand);
}

static void test_groups_are_declared(void **state)
{
	uint32_t task;

	(void)state;
	make(&(struct taut_sched_options){ ALONE });
	refused(taut_sched_join(hand.sched, NULL)); /* nothing is there */
	hand_task(&hand, 10, 0, TAUT_NONE);
	refused(taut_sched_join(hand.sched, NULL));
	hand_task(&hand, 10, 0, 0);
	refused(taut_sched_join(hand.sched, NULL)); /* after the other */
	assert_int_equal(taut_sched_declare(
		hand.sched, 10, 0, TAUT_NONE, &task, NULL), TAUT_OK);
	refused(taut_sched_join(hand.sched, NULL));
	hand_task(&hand, 10, 0, TAUT_NONE);
	join();
	join(); /* it does already */
	hand_ready(&hand, 3);
	refused(taut_sched_join(hand.sched, NULL));
	hand_expect(&hand, "");
	hand_ready(&hand, 2);
	hand_expect(&hand, "+2:0-10,3:0-10 ");
	hand_destroy(&hand);
}

/* --- as declared -------------------------------------------------------------------*/

static void test_declared(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){ DECLARED, .piece_bytes = 64,
		.credit_bytes = 65 });
	hand_task(&hand, 100, 9, TAUT_NONE);
	hand_task(&hand, 10, 0, TAUT_NONE);
	hand_task(&hand, 20, 3, TAUT_NONE);
	hand_ready(&hand, 2);
	hand_ready(&hand, 1);
	hand_expect(&hand, "");
	hand_ready(&hand, 0);
	hand_expect(&hand, "+0:0-64 +0:64-100 ");
	hand_finished(&hand, 0);
	hand_expect(&hand, "+1:0-10 +2:0-20 ");
	hand_finished(&hand, 2);
	hand_expect(&hand, "=1.1 ");
	hand_ready(&hand, 1); /* before task 0 has come again */
	hand_finished(&hand, 1);
	hand_expect(&hand, "=0.1 ");
	hand_ready(&hand, 0); /* 20 under way, 84 */
	hand_expect(&hand, "+0:0-64 ");
	hand_finished(&hand, 3);
	hand_expect(&hand, "+0:64-100 =2.1 ");
	hand_destroy(&hand);
}

/* Runs 0 1, 2, 3 4; 5 waits for 4, so that it is no part of its run. */
static void test_declared_fuses(void **state)
{
	static const uint64_t bytes[] = { 40, 60, 300, 50, 50 };

	(void)state;
	make(&(struct taut_sched_options){ DECLARED, .piece_bytes = 256,
		.fuse_bytes = 110 });
	for (int i = 0; i < 5; i++)
		hand_task(&hand, bytes[i], 0, TAUT_NONE);
	hand_task(&hand, 5, 0, 4);
	hand_task(&hand, 5, 0, TAUT_NONE);
	hand_ready(&hand, 0);
	hand_ready(&hand, 3);
	hand_ready(&hand, 2);
	hand_expect(&hand, "");
	hand_ready(&hand, 1);
	hand_expect(&hand, "+0:0-40,1:0-60 +2:0-256 +2:256-300 ");
	hand_ready(&hand, 6);
	hand_ready(&hand, 4);
	hand_expect(&hand, "+3:0-50,4:0-50 ");
	hand_finished(&hand, 5);
	hand_expect(&hand, "+5:0-5,6:0-5 =4.1 ");
	hand_destroy(&hand);
}

/* --- tasks after others ------------------------------------------------------------*/

/* DeAR: the reduce-scatters as gradients come, the all-gathers by layer. */
static void test_after(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){ ALONE, .credit_bytes = 1 });
	hand_task(&hand, 10, 11, TAUT_NONE);
	hand_task(&hand, 10, 10, TAUT_NONE);
	hand_task(&hand, 10, 1, 0);
	hand_task(&hand, 10, 0, 1);
	refused(taut_sched_ready(hand.sched, 2, NULL));
	hand_ready(&hand, 0);
	hand_ready(&hand, 1);
	hand_finished(&hand, 0);
	hand_expect(&hand, "+0:0-10 +2:0-10 =0.1 ");
	refused(taut_sched_ready(hand.sched, 0, NULL)); /* 2 is not done */
	hand_finished(&hand, 1);
	hand_expect(&hand, "+1:0-10 =2.1 ");
	hand_ready(&hand, 0);
	hand_finished(&hand, 2);
	hand_expect(&hand, "+3:0-10 =1.1 ");
	hand_finished(&hand, 3);
	hand_expect(&hand, "+0:0-10 =3.1 ");
	hand_destroy(&hand);
}

/* Two after one, and one after one of these. */
static void test_tree(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){ ALONE });
	hand_task(&hand, 1, 0, TAUT_NONE);
	hand_task(&hand, 1, 2, 0);
	hand_task(&hand, 1, 1, 0);
	hand_task(&hand, 1, 0, 1);
	for (uint64_t i = 0; i < 2; i++) {
		hand_ready(&hand, 0);
		hand_finished(&hand, 4 * i);
		hand_finished(&hand, 4 * i + 1);
		hand_finished(&hand, 4 * i + 2);
		refused(taut_sched_ready(hand.sched, 0, NULL));
		hand_finished(&hand, 4 * i + 3);
		if (i == 0)
			hand_expect(&hand, "+0:0-1 +2:0-1 +1:0-1 =0.1 =2.1 "
				"+3:0-1 =1.1 =3.1 ");
		else
			hand_expect(&hand, "+0:0-1 +2:0-1 +1:0-1 =0.2 =2.2 "
				"+3:0-1 =1.2 =3.2 ");
	}
	hand_destroy(&hand);
}

/* --- calling back ------------------------------------------------------------------*/

static void finish_at_once(
	struct hand *it, const struct taut_sched_piece *pieces, size_t n)
{
	for (size_t i = n; i-- > 0;)
		hand_finished(it, pieces[i].number);
}

static void ready_again(struct hand *it, uint32_t task)
{
	static int left;

	left = left ? left - 1 : 2;
	if (left)
		hand_ready(it, task);
}

static void test_calls_back(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){ ALONE, .piece_bytes = 64,
		.credit_bytes = 64 });
	hand.in_start = finish_at_once;
	hand.in_done = ready_again;
	hand_task(&hand, 100, 0, TAUT_NONE);
	hand_ready(&hand, 0);
	hand_expect(&hand, "+0:0-64 +0:64-100 =0.1 +0:0-64 +0:64-100 =0.2 "
		"+0:0-64 +0:64-100 =0.3 ");
	hand_destroy(&hand);
}

/* --- what is refused ---------------------------------------------------------------*/

static void test_refuses_engines(void **state)
{
	struct taut_sched_engine engine = hand_engine;
	struct taut_sched_options options = { .n_ranks = 2 };
	struct taut_sched *sched = NULL;

	(void)state;
	engine.agree = NULL;
	refused(taut_sched_create(&options, &engine, NULL, &sched, NULL));
	options.n_ranks = 1;
	assert_int_equal(taut_sched_create(
		&options, &engine, NULL, &sched, NULL), TAUT_OK);
	taut_sched_destroy(sched);
	options.order = (enum taut_sched_order)3;
	refused(taut_sched_create(&options, &engine, NULL, &sched, NULL));
	options.order = TAUT_SCHED_ALONE;
	engine.start = NULL;
	refused(taut_sched_create(&options, &engine, NULL, &sched, NULL));
	engine = hand_engine;
	engine.done = NULL;
	refused(taut_sched_create(&options, &engine, NULL, &sched, NULL));
	taut_sched_destroy(NULL);
}

static void test_refuses_calls(void **state)
{
	struct taut_error err = { .message = "" };
	uint32_t task = 77;

	(void)state;
	make(&(struct taut_sched_options){ ALONE });
	refused(taut_sched_ready(hand.sched, 0, NULL));
	refused(taut_sched_declare(hand.sched, 0, 0, TAUT_NONE, &task, NULL));
	refused(taut_sched_declare(hand.sched, 1, 0, 0, &task, NULL));
	assert_int_equal(task, 77);
	hand_task(&hand, 10, 0, TAUT_NONE);
	refused(taut_sched_finished(hand.sched, 0, NULL));
	hand_ready(&hand, 0);
	refused(taut_sched_declare(
		hand.sched, 1, 0, TAUT_NONE, &task, NULL)); /* too late */
	refused(taut_sched_ready(hand.sched, 0, &err));
	assert_string_equal(err.message, "scheduler: task 0 is ready, but its "
		"iteration 1 is not done");
	refused(taut_sched_ready(hand.sched, 1, NULL));
	refused(taut_sched_tune(hand.sched, 1, 1, 1, NULL));
	refused(taut_sched_finished(hand.sched, 1, NULL));
	hand_finished(&hand, 0);
	refused(taut_sched_finished(hand.sched, 0, NULL));
	refused(taut_sched_agreed(hand.sched, 0, NULL, 0, NULL));
	hand_expect(&hand, "+0:0-10 =0.1 ");
	hand_destroy(&hand);
}

/* A piece that is finished out of order is not finished twice. */
static void test_refuses_twice(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){ ALONE, .piece_bytes = 64 });
	hand_task(&hand, 200, 0, TAUT_NONE);
	hand_ready(&hand, 0);
	hand_finished(&hand, 2);
	refused(taut_sched_finished(hand.sched, 2, NULL));
	hand_finished(&hand, 0);
	refused(taut_sched_finished(hand.sched, 0, NULL));
	refused(taut_sched_finished(hand.sched, 2, NULL));
	hand_finished(&hand, 1);
	hand_finished(&hand, 3);
	hand_expect(&hand, "+0:0-64 +0:64-128 +0:128-192 +0:192-200 =0.1 ");
	hand_destroy(&hand);
}

/* --- failure -----------------------------------------------------------------------*/

/* 0 is done, 1 is under way, 2 waits for 1, 3 waits for credit, 4 never came. */
static void make_mixed(void)
{
	make(&(struct taut_sched_options){ ALONE, .credit_bytes = 1 });
	hand_task(&hand, 10, 0, TAUT_NONE);
	hand_task(&hand, 10, 1, TAUT_NONE);
	hand_task(&hand, 10, 2, 1);
	hand_task(&hand, 10, 3, TAUT_NONE);
	hand_task(&hand, 10, 4, TAUT_NONE);
	hand_ready(&hand, 0);
	hand_finished(&hand, 0);
	hand_ready(&hand, 1);
	hand_ready(&hand, 3);
	hand_expect(&hand, "+0:0-10 =0.1 +1:0-10 ");
}

static void test_failure(void **state)
{
	struct taut_error err = { .message = "" };

	(void)state;
	make_mixed();
	taut_sched_fail(hand.sched, TAUT_EIO, "host 3 is gone");
	hand_expect(&hand, "=1.1(-2) =2.1(-2) =3.1(-2) ");
	taut_sched_fail(hand.sched, TAUT_EFORMAT, "too late");
	assert_int_equal(taut_sched_ready(hand.sched, 4, &err), TAUT_EIO);
	assert_string_equal(err.message, "host 3 is gone");
	assert_int_equal(taut_sched_finished(hand.sched, 1, NULL), TAUT_EIO);
	assert_int_equal(taut_sched_tune(hand.sched, 0, 0, 0, NULL), TAUT_EIO);
	assert_int_equal(taut_sched_asked(hand.sched, 0, NULL), TAUT_EIO);
	assert_int_equal(
		taut_sched_agreed(hand.sched, 0, NULL, 0, NULL), TAUT_EIO);
	hand_expect(&hand, "");
	hand_destroy(&hand);
}

static void test_start_fails(void **state)
{
	struct taut_error err = { .message = "" };

	(void)state;
	make_mixed();
	hand.start_fails = TAUT_EIO;
	assert_int_equal(taut_sched_finished(hand.sched, 1, &err), TAUT_EIO);
	/* 1 is done nevertheless; 2 is what could not be started. */
	hand_expect(&hand, "+2:0-10 =1.1 =2.1(-2) =3.1(-2) ");
	assert_string_equal(err.message, "scheduler: the engine's start() "
		"failed: input/output error");
	hand_destroy(&hand);
}

static void fail_inside(
	struct hand *it, const struct taut_sched_piece *pieces, size_t n)
{
	(void)pieces;
	(void)n;
	taut_sched_fail(it->sched, TAUT_EFORMAT, "inside");
	HAND_PRINT(it, "failed ");
}

static void test_fails_inside(void **state)
{
	(void)state;
	make_mixed();
	hand.in_start = fail_inside;
	assert_int_equal(taut_sched_finished(hand.sched, 1, NULL), TAUT_EFORMAT);
	hand_expect(&hand, "+2:0-10 failed =1.1 =2.1(-3) =3.1(-3) ");
	hand_destroy(&hand);
}

/* --- memory ------------------------------------------------------------------------*/

static taut_status try_all(enum taut_sched_order order)
{
	const struct taut_sched_options options = { .order = order,
		.piece_bytes = 64 };
	taut_status status;
	uint32_t task;

	memset(&hand, 0, sizeof hand);
	status = taut_sched_create(
		&options, &hand_engine, &hand, &hand.sched, NULL);
	if (status)
		return status;
	status = taut_sched_declare(
		hand.sched, 64 * 200, 0, TAUT_NONE, &task, NULL);
	if (!status)
		status = taut_sched_ready(hand.sched, 0, NULL);
	for (uint64_t i = 0; i < 200 && !status; i++)
		status = taut_sched_finished(hand.sched, i, NULL);
	taut_sched_destroy(hand.sched);
	return status;
}

static void fail_each(enum taut_sched_order order)
{
	taut_status status = TAUT_ENOMEM;
	long n = 0;

	for (; status && n < 100; n++) {
		alloc_fail_after(n);
		status = try_all(order);
		alloc_fail_never();
		assert_true(!status || status == TAUT_ENOMEM);
		/* Told exactly once where there was no room for more pieces. */
		assert_true(!strstr(hand.text, "=0.1") ||
			!strcmp(strstr(hand.text, "=0.1"),
				status ? "=0.1(-1) " : "=0.1 "));
	}
	assert_int_equal(status, TAUT_OK);
	assert_true(n > 8); /* sched, tasks, 4 of the first ready, 64, 128, 256 */
}

static void test_memory(void **state)
{
	(void)state;
	fail_each(TAUT_SCHED_ALONE);
	fail_each(TAUT_SCHED_DECLARED);
}

/* The first ready() may be tried again. */
static void test_memory_comes_back(void **state)
{
	(void)state;
	make(&(struct taut_sched_options){ ALONE });
	hand_task(&hand, 10, 0, TAUT_NONE);
	for (long n = 0; n < 4; n++) {
		alloc_fail_after(n);
		assert_int_equal(
			taut_sched_ready(hand.sched, 0, NULL), TAUT_ENOMEM);
		alloc_fail_never();
	}
	hand_ready(&hand, 0);
	hand_finished(&hand, 0);
	hand_expect(&hand, "+0:0-10 =0.1 ");
	hand_destroy(&hand);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_overtakes),
		cmocka_unit_test(test_priorities),
		cmocka_unit_test(test_credit),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_parts_fuse),
		cmocka_unit_test(test_prioritizes),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_fuses),
		cmocka_unit_test(test_fuses_whole_tasks),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_groups_whole),
		cmocka_unit_test(test_groups_are_declared),
		cmocka_unit_test(test_declared),
		cmocka_unit_test(test_declared_fuses),
		cmocka_unit_test(test_after),
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_calls_back),
		cmocka_unit_test(test_refuses_engines),
		cmocka_unit_test(test_refuses_calls),
		cmocka_unit_test(test_refuses_twice),
		cmocka_unit_test(test_failure),
		cmocka_unit_test(test_start_fails),
		cmocka_unit_test(test_fails_inside),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_memory_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

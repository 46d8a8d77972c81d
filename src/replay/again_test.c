/* again_test.c - a kept replay on graphs that are small enough to work out, and on
 * one that is large enough to forget. */
#include "again_by_hand.h"
#include "by_hand.h"
#include "tests/support/alloc_fail.h"

#define OK(call) assert_int_equal((call), TAUT_OK)

struct bench {
	struct by_hand *hand;
	struct taut_edit *edit;
	struct taut_again *again;
};

static void begin(struct bench *b)
{
	OK(taut_edit_create(by_hand_graph(b->hand), &b->edit, NULL));
	OK(taut_again_create(b->edit, &b->again, NULL));
}

static void end(struct bench *b)
{
	taut_again_destroy(b->again);
	taut_edit_destroy(b->edit);
	by_hand_destroy(b->hand);
}

static void follow(struct bench *b)
{
	OK(again_compare(b->again, b->edit,
		taut_again_follow(b->again, NULL), 0));
}

static int64_t start_of(const struct bench *b, uint32_t op)
{
	int64_t start_ns;

	assert_true(taut_again_times(b->again, op, &start_ns, NULL));
	return start_ns;
}

static uint64_t looked(const struct bench *b)
{
	return taut_again_last_counts(b->again).looked;
}

static uint64_t put_back(const struct bench *b)
{
	return taut_again_last_counts(b->again).put_back;
}

/* --- what is looked at -------------------------------------------------------------- */

/* One lane of n ops of 10 ns. */
static void make_chain(struct bench *b, uint32_t n)
{
	b->hand = by_hand_create();
	by_hand_lane(b->hand, 0);
	for (uint32_t i = 0; i < n; i++)
		by_hand_op(b->hand, TAUT_OP_HOST, "op", 10, 0);
	begin(b);
}

static void test_chain(void **state)
{
	struct bench b;
	uint32_t mark;

	(void)state;
	make_chain(&b, 1000);
	assert_int_equal(looked(&b), 1000);
	assert_int_equal(taut_again_makespan(b.again), 10000);
	mark = taut_edit_mark(b.edit);
	OK(taut_edit_set_dur(b.edit, 998, 25, NULL));
	follow(&b);
	assert_int_equal(looked(&b), 2);
	assert_int_equal(start_of(&b, 999), 9980 + 25);
	assert_int_equal(taut_again_makespan(b.again), 10015);
	taut_edit_undo(b.edit, mark);
	follow(&b);
	assert_int_equal(looked(&b), 0);
	assert_int_equal(put_back(&b), 2);
	assert_int_equal(taut_again_makespan(b.again), 10000);
	OK(taut_edit_set_dur(b.edit, 0, 0, NULL));
	follow(&b);
	assert_int_equal(looked(&b), 1000);
	assert_int_equal(taut_again_makespan(b.again), 9990);
	follow(&b);
	assert_int_equal(looked(&b) + put_back(&b), 0);
	assert_int_equal(taut_again_counts(b.again).looked, 2002);
	end(&b);
}

/* Lane a of 3 ops of 10 ns, lane b of one of 100; the last of a third waits for
 * both: what a does is nothing to it before it takes more than 100. */
static void test_slack_ends_it(void **state)
{
	struct bench b = { .hand = by_hand_create() };
	uint32_t a[3], slow, after;

	(void)state;
	by_hand_lane(b.hand, 0);
	for (int i = 0; i < 3; i++)
		a[i] = by_hand_op(b.hand, TAUT_OP_HOST, "a", 10, 0);
	by_hand_lane(b.hand, 0);
	slow = by_hand_op(b.hand, TAUT_OP_KERNEL, "slow", 100, 0);
	by_hand_lane(b.hand, 0);
	after = by_hand_op(b.hand, TAUT_OP_HOST, "after", 5, 0);
	by_hand_edge(b.hand, a[2], after, TAUT_EDGE_SYNC, 0);
	by_hand_edge(b.hand, slow, after, TAUT_EDGE_SYNC, 0);
	begin(&b);
	assert_int_equal(taut_again_decided_by(b.again, after), slow);
	OK(taut_edit_set_dur(b.edit, a[1], 79, NULL));
	follow(&b);
	assert_int_equal(looked(&b), 2); /* a[1], a[2] */
	OK(taut_edit_set_dur(b.edit, a[1], 80, NULL));
	follow(&b);
	assert_int_equal(looked(&b), 3); /* equal: the lower id decides */
	assert_int_equal(taut_again_last_counts(b.again).moved, 2);
	assert_int_equal(taut_again_decided_by(b.again, after), a[2]);
	OK(taut_edit_set_dur(b.edit, a[1], 85, NULL));
	follow(&b);
	assert_int_equal(start_of(&b, after), 105);
	assert_int_equal(taut_again_makespan(b.again), 110);
	OK(taut_edit_set_dur(b.edit, slow, 106, NULL));
	follow(&b);
	assert_int_equal(taut_again_decided_by(b.again, after), slow);
	OK(taut_edit_disconnect(b.edit, slow, after, NULL));
	follow(&b);
	assert_int_equal(start_of(&b, after), 105);
	OK(taut_edit_disconnect(b.edit, a[2], after, NULL));
	follow(&b);
	assert_int_equal(start_of(&b, after), 0);
	assert_int_equal(taut_again_decided_by(b.again, after), TAUT_NONE);
	assert_int_equal(taut_again_last(b.again), slow);
	end(&b);
}

/* --- lags and gaps below 0 ----------------------------------------------------------- */

/* b starts 30 before a's end, and c 50 before b's start: before 0. */
static void test_back_in_time(void **state)
{
	struct bench b = { .hand = by_hand_create() };
	uint32_t first, second, third;

	(void)state;
	by_hand_lane(b.hand, 0);
	first = by_hand_op(b.hand, TAUT_OP_HOST, "a", 40, 0);
	second = by_hand_op(b.hand, TAUT_OP_HOST, "b", 7, -30);
	by_hand_lane(b.hand, 0);
	third = by_hand_op(b.hand, TAUT_OP_KERNEL, "c", 2, 0);
	by_hand_edge(b.hand, second, third,
		TAUT_EDGE_LAUNCH | TAUT_EDGE_FROM_START, -50);
	begin(&b);
	assert_int_equal(start_of(&b, third), 40 - 30 - 50);
	OK(taut_edit_set_dur(b.edit, first, 31, NULL));
	follow(&b);
	assert_int_equal(start_of(&b, second), 1);
	assert_int_equal(start_of(&b, third), -49);
	OK(taut_edit_set_gap(b.edit, third, 9, NULL));
	OK(taut_edit_set_gap(b.edit, second, -100, NULL));
	follow(&b);
	assert_int_equal(start_of(&b, third), -69 - 50 + 9);
	OK(taut_edit_cut(b.edit, first, NULL));
	OK(taut_edit_set_dur(b.edit, second, 0, NULL));
	OK(taut_edit_cut(b.edit, third, NULL));
	follow(&b);
	assert_int_equal(start_of(&b, second), 0);
	assert_int_equal(taut_again_makespan(b.again), 0);
	OK(taut_edit_cut(b.edit, second, NULL));
	follow(&b);
	assert_int_equal(taut_again_last(b.again), TAUT_NONE);
	end(&b);
}

/* --- collectives ----------------------------------------------------------------------- */

/* Three ranks compute 10, 20, 30 and sum 5; the late one decides. */
static void test_collective(void **state)
{
	struct bench b = { .hand = by_hand_create() };
	struct taut_collective all = { .kind = TAUT_COLL_ALLREDUCE,
		.group_size = 3, .bytes = 8 };
	struct taut_member members[3];
	uint32_t work[3], update[3], coll, arrive[3], mark, join;

	(void)state;
	for (int r = 0; r < 3; r++) {
		by_hand_lane(b.hand, r);
		work[r] = by_hand_op(b.hand, TAUT_OP_KERNEL, "work",
			10 * (r + 1), 0);
		update[r] = by_hand_op(b.hand, TAUT_OP_KERNEL, "update", 1, 0);
	}
	begin(&b);
	mark = taut_edit_mark(b.edit);
	for (uint32_t r = 0; r < 3; r++)
		members[r] = (struct taut_member) { r, work[r], 5, 0 };
	OK(taut_edit_add_collective(b.edit, &all, members, 3, &coll, arrive,
		NULL));
	follow(&b);
	OK(!taut_edit_collective(b.edit, coll, &all));
	join = all.join_op;
	assert_int_equal(taut_again_decided_by(b.again, join), arrive[2]);
	for (int r = 0; r < 3; r++)
		assert_int_equal(start_of(&b, update[r]), 35);
	OK(taut_edit_set_dur(b.edit, work[0], 12, NULL));
	follow(&b);
	assert_int_equal(looked(&b), 2); /* and its arrival: not the last */
	OK(taut_edit_set_dur(b.edit, work[0], 42, NULL));
	follow(&b);
	assert_int_equal(taut_again_decided_by(b.again, join), arrive[0]);
	assert_int_equal(start_of(&b, update[2]), 47);
	OK(taut_edit_remove_collective(b.edit, coll, NULL));
	follow(&b);
	assert_false(taut_again_times(b.again, join, NULL, NULL));
	assert_int_equal(start_of(&b, update[2]), 30);
	assert_int_equal(start_of(&b, update[0]), 42);
	taut_edit_undo(b.edit, mark);
	follow(&b);
	assert_int_equal(start_of(&b, update[0]), 10);
	end(&b);
}

/* --- what is refused ------------------------------------------------------------------------ */

static void test_circle(void **state)
{
	struct taut_error err = { .message = "" };
	struct bench b;
	uint32_t mark;

	(void)state;
	make_chain(&b, 5);
	mark = taut_edit_mark(b.edit);
	OK(taut_edit_connect(b.edit, 3, 1, TAUT_EDGE_THREAD, -1000, NULL));
	for (int i = 0; i < 3; i++) {
		assert_int_equal(taut_again_follow(b.again, &err),
			TAUT_EMATCH);
		assert_string_equal(err.message, "circle of waits, 3 long: "
			"lane 0 op 1 (op) waits for lane 0 op 3 (op)");
	}
	OK(taut_edit_set_dur(b.edit, 0, 3, NULL));
	assert_int_equal(taut_again_follow(b.again, NULL), TAUT_EMATCH);
	OK(taut_edit_cut(b.edit, 2, NULL)); /* 3 still waits for 1 */
	assert_int_equal(taut_again_follow(b.again, NULL), TAUT_EMATCH);
	OK(taut_edit_move(b.edit, 1, 3, 0, NULL)); /* and now for 0 */
	follow(&b);
	assert_int_equal(start_of(&b, 1), 13);
	taut_edit_undo(b.edit, mark);
	follow(&b);
	assert_int_equal(start_of(&b, 4), 40);
	end(&b);
}

static void test_refused(void **state)
{
	struct taut_error err = { .message = "" };
	struct taut_again *other = NULL;
	struct bench b;
	uint32_t mark;

	(void)state;
	make_chain(&b, 5);
	assert_int_equal(taut_again_create(b.edit, &other, &err),
		TAUT_EINVAL);
	assert_string_equal(err.message, "the edit is followed already");
	mark = taut_edit_mark(b.edit);
	OK(taut_edit_set_dur(b.edit, 3, INT64_MAX, NULL));
	assert_int_equal(taut_again_follow(b.again, &err), TAUT_EINVAL);
	taut_edit_undo(b.edit, mark);
	OK(taut_edit_set_gap(b.edit, 3, INT64_MIN, NULL));
	assert_int_equal(taut_again_follow(b.again, &err), TAUT_EINVAL);
	taut_edit_undo(b.edit, mark);
	OK(taut_edit_connect(b.edit, 1, 3, TAUT_EDGE_SYNC, INT64_MAX, NULL));
	assert_int_equal(taut_again_follow(b.again, &err), TAUT_EINVAL);
	assert_string_equal(err.message, "operation 3: its times, or those of "
		"its waits, add up to 2^60 ns or more");
	taut_edit_undo(b.edit, mark);
	for (uint32_t op = 0; op < 5; op++) /* each fits, all do not */
		OK(taut_edit_set_dur(b.edit, op, ((int64_t)1 << 60) - 1, NULL));
	assert_int_equal(taut_again_follow(b.again, &err), TAUT_EINVAL);
	taut_edit_undo(b.edit, mark);
	follow(&b);
	taut_again_destroy(b.again);
	OK(taut_edit_connect(b.edit, 3, 1, TAUT_EDGE_THREAD, 0, NULL));
	assert_int_equal(taut_again_create(b.edit, &b.again, &err),
		TAUT_EMATCH);
	taut_edit_undo(b.edit, mark);
	OK(taut_again_create(b.edit, &b.again, NULL));
	end(&b);
}

/* --- undo ------------------------------------------------------------------------------------- */

static void test_all_durations(void **state)
{
	int64_t durs[100];
	struct bench b;
	uint32_t mark;

	(void)state;
	make_chain(&b, 100);
	for (int i = 0; i < 100; i++)
		durs[i] = i < 90 ? 10 : 11;
	mark = taut_edit_mark(b.edit);
	OK(taut_edit_set_durs(b.edit, durs, NULL));
	follow(&b);
	assert_int_equal(looked(&b), 10);
	assert_int_equal(taut_again_makespan(b.again), 1010);
	OK(taut_edit_set_durs(b.edit, durs, NULL));
	follow(&b);
	assert_int_equal(looked(&b), 0);
	taut_edit_undo(b.edit, mark);
	follow(&b);
	assert_int_equal(looked(&b), 0);
	assert_int_equal(put_back(&b), 10);
	assert_int_equal(taut_again_makespan(b.again), 1000);
	end(&b);
}

/* Undone to between two follows: back to the first, and on from there. */
static void test_between(void **state)
{
	uint32_t first, second;
	struct bench b;

	(void)state;
	make_chain(&b, 100);
	OK(taut_edit_set_dur(b.edit, 90, 20, NULL));
	follow(&b);
	first = taut_edit_mark(b.edit);
	OK(taut_edit_set_dur(b.edit, 91, 30, NULL));
	second = taut_edit_mark(b.edit);
	OK(taut_edit_set_dur(b.edit, 92, 40, NULL));
	follow(&b);
	assert_int_equal(taut_again_makespan(b.again), 1060);
	taut_edit_undo(b.edit, second);
	follow(&b);
	assert_int_equal(taut_again_makespan(b.again), 1030);
	taut_edit_undo(b.edit, first);
	OK(taut_edit_set_dur(b.edit, 1, 0, NULL));
	OK(taut_edit_set_dur(b.edit, 1, 17, NULL));
	follow(&b);
	assert_int_equal(taut_again_makespan(b.again), 1017);
	taut_edit_undo(b.edit, 0);
	follow(&b);
	assert_int_equal(taut_again_makespan(b.again), 1000);
	end(&b);
}

/* Each of a search's candidates: changes, a follow, and back. */
static void try_one(struct bench *b, uint32_t i)
{
	uint32_t mark = taut_edit_mark(b->edit), op = 300 + i % 500, id;
	struct taut_op fresh = { .dur_ns = 4, .event = TAUT_NONE,
		.like = TAUT_NONE, .kind = TAUT_OP_HOST, .name = 1 };

	OK(taut_edit_set_dur(b->edit, op, i, NULL));
	OK(taut_edit_remove(b->edit, op + 3, NULL));
	OK(taut_edit_insert(b->edit, op, &fresh, NULL, &id, NULL));
	OK(taut_edit_connect(b->edit, op, op + 9, TAUT_EDGE_SYNC, 3, NULL));
	OK(taut_edit_move(b->edit, op + 5, op + 1, 0, NULL));
	OK(taut_again_follow(b->again, NULL));
	taut_edit_undo(b->edit, mark);
}

static void test_asks_for_no_memory(void **state)
{
	struct bench b;

	(void)state;
	make_chain(&b, 1000);
	for (uint32_t i = 0; i < 500; i++)
		try_one(&b, i);
	alloc_fail_after(0);
	for (uint32_t i = 0; i < 5000; i++)
		try_one(&b, i);
	OK(taut_again_follow(b.again, NULL));
	assert_int_equal(alloc_fail_count(), 0);
	alloc_fail_never();
	follow(&b);
	assert_int_equal(looked(&b), 0);
	assert_int_equal(taut_again_makespan(b.again), 10000);
	end(&b);
}

/* --- much ---------------------------------------------------------------------------------- */

enum { MANY = 40000 };

/* Everything moves so often that the oldest is forgotten; an undo then looks at
 * all, and one that is recent does not. */
static void test_forgets(void **state)
{
	uint32_t mark = 0;
	struct bench b;

	(void)state;
	make_chain(&b, MANY);
	for (uint32_t i = 0; i < 20; i++) {
		mark = taut_edit_mark(b.edit);
		OK(taut_edit_set_dur(b.edit, i, 11, NULL));
		OK(taut_again_follow(b.again, NULL));
	}
	follow(&b);
	taut_edit_undo(b.edit, mark);
	follow(&b);
	assert_int_equal(looked(&b), 0);
	assert_int_equal(put_back(&b), MANY - 19);
	assert_int_equal(taut_again_makespan(b.again), MANY * 10 + 19);
	taut_edit_undo(b.edit, 0);
	follow(&b);
	assert_int_equal(looked(&b), MANY);
	assert_int_equal(taut_again_makespan(b.again), MANY * 10);
	end(&b);
}

/* So many new ones that all get new places, and then changes as ever. */
static void test_new_places(void **state)
{
	struct taut_op fresh = { .dur_ns = 1, .event = TAUT_NONE,
		.like = TAUT_NONE, .kind = TAUT_OP_HOST, .name = 1 };
	uint32_t id, mark;
	struct bench b;

	(void)state;
	make_chain(&b, MANY);
	for (uint32_t i = 0; i < MANY; i += 4)
		OK(taut_edit_insert(b.edit, i, &fresh, NULL, &id, NULL));
	follow(&b);
	mark = taut_edit_mark(b.edit);
	for (uint32_t i = 0; i < 3; i++) {
		OK(taut_edit_set_dur(b.edit, 1 + i, 30, NULL));
		OK(taut_edit_move(b.edit, 7, 90 + i, 0, NULL));
		follow(&b);
		assert_int_equal(taut_again_makespan(b.again),
			MANY * 10 + MANY / 4 + 20 * (i + 1));
	}
	taut_edit_undo(b.edit, mark);
	follow(&b);
	assert_int_equal(taut_again_makespan(b.again), MANY * 10 + MANY / 4);
	taut_edit_undo(b.edit, 0);
	follow(&b);
	assert_int_equal(taut_again_makespan(b.again), MANY * 10);
	end(&b);
}

/* Follows are numbered in what is left of a word beside flags, and begin anew. */
static void test_numbers_begin_anew(void **state)
{
	struct bench b;

	(void)state;
	make_chain(&b, 200);
	OK(taut_edit_set_dur(b.edit, 197, 20, NULL));
	follow(&b);
	for (uint32_t i = 0; i < (1u << 21) + 3; i++) {
		uint32_t mark = taut_edit_mark(b.edit);

		OK(taut_edit_set_dur(b.edit, 198, i, NULL));
		OK(taut_again_follow(b.again, NULL));
		taut_edit_undo(b.edit, mark);
	}
	follow(&b);
	assert_int_equal(taut_again_makespan(b.again), 2010);
	OK(taut_edit_set_dur(b.edit, 196, 0, NULL));
	follow(&b);
	taut_edit_undo(b.edit, 0);
	follow(&b);
	assert_int_equal(taut_again_makespan(b.again), 2000);
	end(&b);
}

/* The first op of a lane goes to its end, and all others overtake it, again and
 * again; what was undone costs nothing in the long run. */
static void test_moves_far(void **state)
{
	struct bench b;

	(void)state;
	make_chain(&b, 3000);
	for (uint32_t i = 0; i < 200; i++) {
		uint32_t mark = taut_edit_mark(b.edit);

		OK(taut_edit_move(b.edit, i, 2999 - i, 0, NULL));
		OK(taut_again_follow(b.again, NULL));
		assert_int_equal(start_of(&b, i), (2999 - i) * 10);
		taut_edit_undo(b.edit, mark);
		OK(taut_again_follow(b.again, NULL));
		assert_int_equal(looked(&b), 0);
	}
	for (uint32_t i = 0; i < 50; i++) {
		OK(taut_edit_move(b.edit, i, 2999 - i, 0, NULL));
		follow(&b);
	}
	end(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chain),
		cmocka_unit_test(test_slack_ends_it),
		cmocka_unit_test(test_back_in_time),
		cmocka_unit_test(test_collective),
		cmocka_unit_test(test_circle),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_all_durations),
		cmocka_unit_test(test_between),
		cmocka_unit_test(test_asks_for_no_memory),
		cmocka_unit_test(test_forgets),
		cmocka_unit_test(test_new_places),
		cmocka_unit_test(test_numbers_begin_anew),
		cmocka_unit_test(test_moves_far),
	};

	return cmocka_run_group_tests_name(
		"a kept replay", tests, NULL, NULL);
}

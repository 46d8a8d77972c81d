#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/replay.h>

#include "by_hand.h"
#include "tests/support/alloc_fail.h"

#define HOST TAUT_OP_HOST
#define LAUNCH TAUT_EDGE_LAUNCH
#define FROM_START (TAUT_EDGE_LAUNCH | TAUT_EDGE_FROM_START)

struct rig {
	struct by_hand *hand;
	const struct taut_graph *graph;
	struct taut_timeline timeline;
	struct taut_error err;
};

static struct rig begin(void)
{
	return (struct rig){ .hand = by_hand_create() };
}

static uint32_t op(struct rig *rig, int64_t dur_ns, int64_t gap_ns)
{
	return by_hand_op(rig->hand, HOST, "op", dur_ns, gap_ns);
}

static uint32_t op_on_new_lane(struct rig *rig, int64_t dur_ns, int64_t gap_ns)
{
	by_hand_lane(rig->hand, 0);
	return op(rig, dur_ns, gap_ns);
}

static taut_status try_replay(
	struct rig *rig, const struct taut_replay_edit *edit)
{
	if (!rig->graph) {
		rig->graph = by_hand_graph(rig->hand);
		assert_int_equal(taut_timeline_init(
			&rig->timeline, rig->graph, &rig->err), TAUT_OK);
	}
	return taut_replay(rig->graph, edit, &rig->timeline, &rig->err);
}

static void replay(struct rig *rig, const struct taut_replay_edit *edit)
{
	if (try_replay(rig, edit))
		fail_msg("%s", rig->err.message);
	assert_int_equal(rig->timeline.n_run, rig->graph->n_ops);
}

static void expect(const struct rig *rig, uint32_t op, int64_t start_ns,
	int64_t end_ns, uint32_t decided_by)
{
	assert_int_equal(rig->timeline.start_ns[op], start_ns);
	assert_int_equal(rig->timeline.end_ns[op], end_ns);
	assert_int_equal(rig->timeline.decided_by[op], decided_by);
}

static void expect_order(const struct rig *rig, const uint32_t *order)
{
	assert_memory_equal(rig->timeline.order, order,
		rig->graph->n_ops * sizeof *order);
}

static void end(struct rig *rig)
{
	taut_timeline_fini(&rig->timeline);
	by_hand_destroy(rig->hand);
}

static void test_no_ops(void **state)
{
	(void)state;
	struct rig rig = begin();
	replay(&rig, NULL);
	assert_int_equal(rig.timeline.makespan_ns, 0);
	end(&rig);
}

static void test_one_op_starts_at_zero_or_its_gap(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t plain = op_on_new_lane(&rig, 7, 0);
	uint32_t late = op_on_new_lane(&rig, 7, 5);
	uint32_t early = op_on_new_lane(&rig, 7, -5);
	replay(&rig, NULL);
	expect(&rig, plain, 0, 7, TAUT_NONE);
	expect(&rig, late, 5, 12, TAUT_NONE);
	expect(&rig, early, 0, 7, TAUT_NONE);
	assert_int_equal(rig.timeline.makespan_ns, 12);
	end(&rig);
}

static void test_chain_adds_up(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t a = op_on_new_lane(&rig, 10, 0);
	uint32_t b = op(&rig, 20, 3), c = op(&rig, 0, 0), d = op(&rig, 5, 0);
	replay(&rig, NULL);
	expect(&rig, a, 0, 10, TAUT_NONE);
	expect(&rig, b, 13, 33, a);
	expect(&rig, c, 33, 33, b);
	expect(&rig, d, 33, 38, c);
	expect_order(&rig, (uint32_t[]){ a, b, c, d });
	end(&rig);
}

static void test_fork_and_join(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t fork = op_on_new_lane(&rig, 10, 0);
	uint32_t fast = op_on_new_lane(&rig, 5, 0);
	uint32_t slow = op_on_new_lane(&rig, 50, 0);
	uint32_t join = op_on_new_lane(&rig, 1, 2);
	by_hand_edge(rig.hand, fork, fast, LAUNCH, 0);
	by_hand_edge(rig.hand, fork, slow, LAUNCH, 4);
	by_hand_edge(rig.hand, fast, join, LAUNCH, 0);
	by_hand_edge(rig.hand, slow, join, LAUNCH, 0);
	replay(&rig, NULL);
	expect(&rig, fast, 10, 15, fork);
	expect(&rig, slow, 14, 64, fork);
	expect(&rig, join, 66, 67, slow);
	end(&rig);
}

static void test_lag_from_start(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t launch = op_on_new_lane(&rig, 100, 0);
	uint32_t kernel = op_on_new_lane(&rig, 10, 0);
	by_hand_edge(rig.hand, launch, kernel, FROM_START, 7);
	replay(&rig, NULL);
	expect(&rig, kernel, 7, 17, launch);
	end(&rig);
}

static void test_negative_lag_may_reach_before_zero(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t a = op_on_new_lane(&rig, 10, 0);
	uint32_t b = op_on_new_lane(&rig, 4, 0), c = op(&rig, 2, 0);
	by_hand_edge(rig.hand, a, b, FROM_START, -30);
	replay(&rig, NULL);
	expect(&rig, b, -30, -26, a);
	expect(&rig, c, -26, -24, b);
	assert_int_equal(rig.timeline.makespan_ns, 10);
	expect_order(&rig, (uint32_t[]){ a, b, c });
	end(&rig);
}

static void test_negative_gap_overlaps_the_one_before(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t a = op_on_new_lane(&rig, 10, 0), b = op(&rig, 10, -4);
	replay(&rig, NULL);
	expect(&rig, b, 6, 16, a);
	end(&rig);
}

static void test_negative_gap_relaxes_the_lane_only(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t a = op_on_new_lane(&rig, 10, 0), b = op(&rig, 10, -4);
	uint32_t other = op_on_new_lane(&rig, 8, 0);
	by_hand_edge(rig.hand, other, b, LAUNCH, 0);
	replay(&rig, NULL);
	expect(&rig, a, 0, 10, TAUT_NONE);
	expect(&rig, b, 8, 18, other);
	end(&rig);
}

static void test_tie_goes_to_the_lane_then_the_lowest(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t first = op_on_new_lane(&rig, 10, 0);
	uint32_t second = op_on_new_lane(&rig, 10, 0);
	uint32_t before = op_on_new_lane(&rig, 10, 0);
	uint32_t on_lane = op(&rig, 1, 0);
	uint32_t alone = op_on_new_lane(&rig, 1, 0);
	by_hand_edge(rig.hand, first, on_lane, LAUNCH, 0);
	by_hand_edge(rig.hand, second, alone, LAUNCH, 0);
	by_hand_edge(rig.hand, first, alone, LAUNCH, 0);
	replay(&rig, NULL);
	expect(&rig, on_lane, 10, 11, before);
	expect(&rig, alone, 10, 11, first);
	end(&rig);
}

static void test_tie_across_a_lane_boundary_is_no_lane_wait(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t low = op_on_new_lane(&rig, 10, 0);
	uint32_t neighbour = op_on_new_lane(&rig, 10, 0);
	uint32_t next = op_on_new_lane(&rig, 1, 0); /* neighbour + 1 */
	by_hand_edge(rig.hand, neighbour, next, LAUNCH, 0);
	by_hand_edge(rig.hand, low, next, LAUNCH, 0);
	replay(&rig, NULL);
	expect(&rig, next, 10, 11, low);
	end(&rig);
}

static void test_order_is_start_then_id(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t a = op_on_new_lane(&rig, 5, 0), a2 = op(&rig, 1, 0);
	uint32_t b = op_on_new_lane(&rig, 4, 0), b2 = op(&rig, 1, 1);
	uint32_t c = op_on_new_lane(&rig, 4, 0), c2 = op(&rig, 1, 0);
	replay(&rig, NULL);
	expect_order(&rig, (uint32_t[]){ a, b, c, c2, a2, b2 });
	end(&rig);
}

/* Three ranks, a host lane and a stream of collectives each. */
struct collective {
	uint32_t host[3], arrive[3], transfer[3], join;
};

static struct collective add_collective(struct rig *rig)
{
	static const int64_t host_ns[3] = { 10, 90, 40 };
	struct collective coll;
	struct by_hand *hand = rig->hand;
	for (int i = 0; i < 3; i++) {
		by_hand_lane(hand, i);
		coll.host[i] = by_hand_op(hand, HOST, "host", host_ns[i], 0);
		by_hand_lane(hand, i);
		coll.arrive[i] =
			by_hand_op(hand, TAUT_OP_ARRIVE, "arrive", 0, 0);
		coll.transfer[i] = by_hand_op(
			hand, TAUT_OP_TRANSFER, "transfer", 20 + i, 0);
		by_hand_edge(hand, coll.host[i], coll.arrive[i], LAUNCH, 0);
	}
	by_hand_lane(hand, -1);
	coll.join = by_hand_op(hand, TAUT_OP_JOIN, "join", 0, 0);
	for (int i = 0; i < 3; i++) {
		by_hand_edge(hand, coll.arrive[i], coll.join,
			TAUT_EDGE_COMM, 0);
		by_hand_edge(hand, coll.join, coll.transfer[i],
			TAUT_EDGE_COMM, 0);
	}
	return coll;
}

static void test_last_arrival_decides_a_collective(void **state)
{
	(void)state;
	struct rig rig = begin();
	struct collective coll = add_collective(&rig);
	replay(&rig, NULL);
	expect(&rig, coll.join, 90, 90, coll.arrive[1]);
	expect(&rig, coll.arrive[0], 10, 10, coll.host[0]);
	expect(&rig, coll.transfer[0], 90, 110, coll.join);
	expect(&rig, coll.transfer[1], 90, 111, coll.arrive[1]);
	expect(&rig, coll.transfer[2], 90, 112, coll.join);
	end(&rig);
}

static void test_muted_op_holds_up_its_lane_only(void **state)
{
	(void)state;
	struct rig rig = begin();
	struct collective coll = add_collective(&rig);
	uint8_t mute[16] = { 0 };
	mute[coll.arrive[1]] = 1;
	replay(&rig, &(struct taut_replay_edit){ .mute = mute });
	expect(&rig, coll.join, 40, 40, coll.arrive[2]);
	expect(&rig, coll.transfer[0], 40, 60, coll.join);
	expect(&rig, coll.transfer[1], 90, 111, coll.arrive[1]);
	replay(&rig, NULL); /* nothing of it stays */
	expect(&rig, coll.join, 90, 90, coll.arrive[1]);
	end(&rig);
}

static void test_op_whose_waits_are_all_muted_waits_for_nothing(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t a = op_on_new_lane(&rig, 50, 0);
	uint32_t b = op_on_new_lane(&rig, 5, 3);
	by_hand_edge(rig.hand, a, b, LAUNCH, 0);
	by_hand_edge(rig.hand, a, b, FROM_START, 9);
	replay(&rig, &(struct taut_replay_edit){
		.mute = (uint8_t[]){ 1, 0 } });
	expect(&rig, b, 3, 8, TAUT_NONE);
	end(&rig);
}

static void test_edit_replaces_durations_and_gaps(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t a = op_on_new_lane(&rig, 10, 0), b = op(&rig, 10, 5);
	struct taut_replay_edit edit = { .dur_ns = (int64_t[]){ 2, 1 } };
	replay(&rig, &edit);
	expect(&rig, b, 7, 8, a);
	edit.gap_ns = (int64_t[]){ 1, -1 };
	replay(&rig, &edit);
	expect(&rig, a, 1, 3, TAUT_NONE);
	expect(&rig, b, 2, 3, a);
	replay(&rig, NULL);
	expect(&rig, b, 15, 25, a);
	end(&rig);
}

static void test_joins_do_not_wait_for_each_other(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t late = op_on_new_lane(&rig, 50, 0);
	uint32_t soon = op_on_new_lane(&rig, 5, 0);
	by_hand_lane(rig.hand, -1);
	uint32_t first = by_hand_op(rig.hand, TAUT_OP_JOIN, "join", 0, 0);
	uint32_t second = by_hand_op(rig.hand, TAUT_OP_JOIN, "join", 0, 0);
	by_hand_edge(rig.hand, late, first, TAUT_EDGE_COMM, 0);
	by_hand_edge(rig.hand, soon, second, TAUT_EDGE_COMM, 0);
	replay(&rig, NULL);
	expect(&rig, first, 50, 50, late);
	expect(&rig, second, 5, 5, soon);
	end(&rig);
}

static void test_lag_beyond_32_bits(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t a = op_on_new_lane(&rig, 1, 0);
	uint32_t b = op_on_new_lane(&rig, 1, 0);
	by_hand_edge(rig.hand, a, b, FROM_START, (int64_t)5000000000);
	replay(&rig, NULL);
	expect(&rig, b, 5000000000, 5000000001, a);
	end(&rig);
}

/* one, two and three wait in a circle, four waits for it, zero runs. */
static void test_circle_names_two_neighbours(void **state)
{
	(void)state;
	struct rig rig = begin();
	by_hand_lane(rig.hand, 0);
	uint32_t zero = by_hand_op(rig.hand, HOST, "zero", 5, 0);
	uint32_t one = by_hand_op(rig.hand, HOST, "one", 5, 0);
	uint32_t two = by_hand_op(rig.hand, HOST, "two", 5, 0);
	by_hand_lane(rig.hand, 1);
	uint32_t three = by_hand_op(rig.hand, HOST, "three", 5, 0);
	by_hand_op(rig.hand, HOST, "four", 5, 0);
	by_hand_edge(rig.hand, two, three, LAUNCH, 0);
	by_hand_edge(rig.hand, three, one, LAUNCH, 0);
	assert_int_equal(try_replay(&rig, NULL), TAUT_EMATCH);
	assert_int_equal(rig.err.code, TAUT_EMATCH);
	assert_string_equal(rig.err.message,
		"circle of waits, 3 long: lane 0 op 1 (one) waits for "
		"lane 1 op 3 (three)");
	assert_int_equal(rig.timeline.n_run, 1);
	expect(&rig, zero, 0, 5, TAUT_NONE);
	/* Muting one of them opens the circle. */
	replay(&rig, &(struct taut_replay_edit){
		.mute = (uint8_t[]){ 0, 0, 0, 1, 0 } });
	expect(&rig, three, 15, 20, two);
	end(&rig);
}

static void test_op_that_waits_for_itself(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t a = op_on_new_lane(&rig, 5, 0);
	by_hand_edge(rig.hand, a, a, LAUNCH, 0);
	assert_int_equal(try_replay(&rig, NULL), TAUT_EMATCH);
	assert_non_null(strstr(rig.err.message, "1 long: lane 0 op 0"));
	assert_int_equal(rig.timeline.n_run, 0);
	assert_int_equal(rig.timeline.makespan_ns, 0);
	end(&rig);
}

static void test_circle_says_rank_and_stream(void **state)
{
	(void)state;
	struct rig rig = begin();
	struct taut_lane lane = { .kind = TAUT_LANE_STREAM, .tid = 20 };
	struct taut_trace trace = { .rank = 3, .n_lanes = 1, .lanes = &lane };
	struct taut_run run = { .n_traces = 1, .traces = &trace };
	uint32_t a = op_on_new_lane(&rig, 5, 0);
	rig.hand->lanes.data[0].kind = TAUT_LANE_STREAM;
	by_hand_lane(rig.hand, -1);
	uint32_t join = by_hand_op(rig.hand, TAUT_OP_JOIN, "join", 0, 0);
	by_hand_edge(rig.hand, a, join, TAUT_EDGE_COMM, 0);
	by_hand_edge(rig.hand, join, a, TAUT_EDGE_COMM, 0);
	rig.graph = by_hand_graph(rig.hand);
	rig.hand->graph.run = &run;
	assert_int_equal(taut_timeline_init(&rig.timeline, rig.graph, NULL), 0);
	assert_int_equal(try_replay(&rig, NULL), TAUT_EMATCH);
	assert_string_equal(rig.err.message,
		"circle of waits, 2 long: rank 3 stream 20 op 0 (op) "
		"waits for joins op 1 (join)");
	end(&rig);
}

static void test_refuses_times_it_could_not_add(void **state)
{
	(void)state;
	struct rig rig = begin();
	const int64_t limit_ns = (int64_t)1 << 60;
	op_on_new_lane(&rig, 1, 0);
	op(&rig, 1, 0);
	replay(&rig, NULL);
	int64_t times[2] = { 1, -1 };
	struct taut_replay_edit edit = { .dur_ns = times };
	assert_int_equal(try_replay(&rig, &edit), TAUT_EINVAL);
	assert_string_equal(rig.err.message,
		"operation 1: duration -1 ns is negative");
	times[1] = limit_ns - 1;
	assert_int_equal(try_replay(&rig, &edit), TAUT_EINVAL);
	times[1] = limit_ns - 2;
	replay(&rig, &edit);
	edit = (struct taut_replay_edit){ .gap_ns = times };
	times[1] = INT64_MIN;
	assert_int_equal(try_replay(&rig, &edit), TAUT_EINVAL);
	times[1] = INT64_MAX;
	assert_int_equal(try_replay(&rig, &edit), TAUT_EINVAL);
	times[1] = 2 - limit_ns;
	replay(&rig, &edit);
	expect(&rig, 1, 2 - limit_ns + 2, 2 - limit_ns + 3, 0);
	end(&rig);
}

static void test_init_checks_the_graph(void **state)
{
	(void)state;
	struct rig rig = begin();
	struct taut_timeline timeline = { .n_ops = 99 };
	uint32_t a = op_on_new_lane(&rig, 1, 0);
	uint32_t b = op_on_new_lane(&rig, 1, 0);
	by_hand_edge(rig.hand, a, b, LAUNCH, -((int64_t)1 << 60));
	rig.graph = by_hand_graph(rig.hand);
	assert_int_equal(taut_timeline_init(&timeline, rig.graph, &rig.err),
		TAUT_EINVAL);
	assert_non_null(strstr(rig.err.message, "lags"));
	assert_int_equal(timeline.n_ops, 99); /* untouched */
	end(&rig);
}

static void test_refuses_another_graph(void **state)
{
	(void)state;
	struct rig rig = begin(), other = begin();
	op_on_new_lane(&rig, 1, 0);
	op_on_new_lane(&other, 1, 0);
	replay(&rig, NULL);
	replay(&other, NULL);
	assert_int_equal(taut_replay(other.graph, NULL, &rig.timeline, NULL),
		TAUT_EINVAL);
	end(&rig);
	end(&other);
}

static void test_fini_twice(void **state)
{
	(void)state;
	struct rig rig = begin();
	replay(&rig, NULL);
	taut_timeline_fini(&rig.timeline);
	taut_timeline_fini(&rig.timeline);
	taut_timeline_fini(NULL);
	end(&rig);
}

/* --- closed forms --------------------------------------------------------*/

/* p stages, m micro-batches, t each: (m + p - 1) t. */
static void test_pipeline_makespan(void **state)
{
	(void)state;
	for (int p = 1; p <= 8; p++) {
		for (int m = 1; m <= 16; m += 3) {
			struct rig rig = begin();
			for (int stage = 0; stage < p; stage++) {
				by_hand_lane(rig.hand, stage);
				for (int i = 0; i < m; i++) {
					uint32_t at = op(&rig, 13, 0);
					if (stage)
						by_hand_edge(rig.hand,
							at - (uint32_t)m, at,
							TAUT_EDGE_COMM, 0);
				}
			}
			replay(&rig, NULL);
			assert_int_equal(rig.timeline.makespan_ns,
				(m + p - 1) * 13);
			end(&rig);
		}
	}
}

/* Lanes that share nothing but a start: the longest one. */
static void test_overlap_is_the_longest_lane(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t root = op_on_new_lane(&rig, 10, 0);
	int64_t longest_ns = 0;
	for (int lane = 1; lane <= 9; lane++) {
		int64_t sum_ns = 10;
		for (int i = 0; i < 40; i++) {
			int64_t dur_ns = (lane * 37 + i * 11) % 50;
			uint32_t at = i ? op(&rig, dur_ns, 0)
				: op_on_new_lane(&rig, dur_ns, 0);
			if (!i)
				by_hand_edge(rig.hand, root, at,
					TAUT_EDGE_START, 0);
			sum_ns += dur_ns;
		}
		longest_ns = sum_ns > longest_ns ? sum_ns : longest_ns;
	}
	replay(&rig, NULL);
	assert_int_equal(rig.timeline.makespan_ns, longest_ns);
	end(&rig);
}

/* A host that launches in h, a device that takes d: n kernels end after
 * n h + d when the host is slower, h + n d when the device is. */
static void expect_launch_bound(int64_t h, int64_t d, int n)
{
	struct rig rig = begin();
	by_hand_lane(rig.hand, 0);
	for (int i = 0; i < n; i++)
		op(&rig, h, 0);
	by_hand_lane(rig.hand, 0);
	for (int i = 0; i < n; i++)
		by_hand_edge(rig.hand, (uint32_t)i, op(&rig, d, 0), LAUNCH, 0);
	replay(&rig, NULL);
	assert_int_equal(rig.timeline.makespan_ns,
		h > d ? n * h + d : h + n * d);
	end(&rig);
}

static void test_host_bound_and_device_bound(void **state)
{
	(void)state;
	expect_launch_bound(7, 3, 100);
	expect_launch_bound(3, 7, 100);
	expect_launch_bound(5, 5, 100);
}

/* Collectives in a row: each round costs the slowest rank plus the
 * transfer. */
static void test_rounds_of_collectives(void **state)
{
	(void)state;
	enum { RANKS = 5, ROUNDS = 20 };
	struct rig rig = begin();
	int64_t slowest_ns[ROUNDS] = { 0 }, sum_ns = 0;
	for (int rank = 0; rank < RANKS; rank++) {
		by_hand_lane(rig.hand, rank);
		for (int i = 0; i < ROUNDS; i++) {
			int64_t dur_ns = (rank * 31 + i * 17) % 23;
			op(&rig, dur_ns, 0);
			op(&rig, 0, 0);
			op(&rig, 6, 0);
			if (dur_ns > slowest_ns[i])
				slowest_ns[i] = dur_ns;
		}
	}
	by_hand_lane(rig.hand, -1);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t join = op(&rig, 0, 0);
		for (uint32_t rank = 0; rank < RANKS; rank++) {
			uint32_t arrive = (rank * ROUNDS + i) * 3 + 1;
			by_hand_edge(rig.hand, arrive, join, TAUT_EDGE_COMM, 0);
			by_hand_edge(rig.hand, join, arrive + 1,
				TAUT_EDGE_COMM, 0);
		}
		sum_ns += slowest_ns[i] + 6;
	}
	replay(&rig, NULL);
	assert_int_equal(rig.timeline.makespan_ns, sum_ns);
	end(&rig);
}

/* --- memory --------------------------------------------------------------*/

static void test_replay_allocates_nothing(void **state)
{
	(void)state;
	struct rig rig = begin();
	struct collective coll = add_collective(&rig);
	uint8_t mute[16] = { 0 };
	mute[coll.arrive[0]] = 1;
	replay(&rig, NULL);
	alloc_fail_after(0);
	taut_status plain = try_replay(&rig, NULL);
	taut_status muted = try_replay(
		&rig, &(struct taut_replay_edit){ .mute = mute });
	long requests = alloc_fail_count();
	alloc_fail_never();
	assert_int_equal(plain, TAUT_OK);
	assert_int_equal(muted, TAUT_OK);
	assert_int_equal(requests, 0);
	end(&rig);
}

static void test_init_without_memory(void **state)
{
	(void)state;
	struct rig rig = begin();
	add_collective(&rig);
	for (int i = 0; i < 2000; i++)
		op(&rig, 1, 0); /* enough for more than one block */
	rig.graph = by_hand_graph(rig.hand);
	taut_status status = TAUT_ENOMEM;
	long n = 0;
	while (status == TAUT_ENOMEM && n < 100) {
		alloc_fail_after(n++);
		status = taut_timeline_init(
			&rig.timeline, rig.graph, &rig.err);
	}
	alloc_fail_never();
	assert_int_equal(status, TAUT_OK);
	assert_true(n > 3);
	end(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_ops),
		cmocka_unit_test(test_one_op_starts_at_zero_or_its_gap),
		cmocka_unit_test(test_chain_adds_up),
		cmocka_unit_test(test_fork_and_join),
		cmocka_unit_test(test_lag_from_start),
		cmocka_unit_test(test_negative_lag_may_reach_before_zero),
		cmocka_unit_test(test_negative_gap_overlaps_the_one_before),
		cmocka_unit_test(test_negative_gap_relaxes_the_lane_only),
		cmocka_unit_test(test_tie_goes_to_the_lane_then_the_lowest),
		cmocka_unit_test(
			test_tie_across_a_lane_boundary_is_no_lane_wait),
		cmocka_unit_test(test_order_is_start_then_id),
		cmocka_unit_test(test_last_arrival_decides_a_collective),
		cmocka_unit_test(test_muted_op_holds_up_its_lane_only),
		cmocka_unit_test(
			test_op_whose_waits_are_all_muted_waits_for_nothing),
		cmocka_unit_test(test_edit_replaces_durations_and_gaps),
		cmocka_unit_test(test_joins_do_not_wait_for_each_other),
		cmocka_unit_test(test_lag_beyond_32_bits),
		cmocka_unit_test(test_circle_names_two_neighbours),
		cmocka_unit_test(test_op_that_waits_for_itself),
		cmocka_unit_test(test_circle_says_rank_and_stream),
		cmocka_unit_test(test_refuses_times_it_could_not_add),
		cmocka_unit_test(test_init_checks_the_graph),
		cmocka_unit_test(test_refuses_another_graph),
		cmocka_unit_test(test_fini_twice),
		cmocka_unit_test(test_pipeline_makespan),
		cmocka_unit_test(test_overlap_is_the_longest_lane),
		cmocka_unit_test(test_host_bound_and_device_bound),
		cmocka_unit_test(test_rounds_of_collectives),
		cmocka_unit_test(test_replay_allocates_nothing),
		cmocka_unit_test(test_init_without_memory),
	};
	return cmocka_run_group_tests_name("replay", tests, NULL, NULL);
}

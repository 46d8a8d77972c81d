/* What operations share, in cases small enough to be worked out by hand. */
#include "tests/support/unit.h"

#include <math.h>
#include <stdio.h>

#include "share_by_hand.h"
#include "tests/support/alloc_fail.h"

#define MOVE TAUT_OP_TRANSFER
#define HOST TAUT_OP_HOST

struct rig {
	struct by_hand *hand;
	struct share_by_hand *share;
	const struct taut_graph *graph;
	struct taut_timeline timeline;
	struct taut_error err;
};

static struct rig begin(void)
{
	return (struct rig){
		.hand = by_hand_create(), .share = share_by_hand_create()
	};
}

/* On a lane of its own, after gap_ns; dur_ns is what is left for it alone. */
static uint32_t lone(struct rig *rig, int64_t gap_ns, int64_t dur_ns)
{
	by_hand_lane(rig->hand, 0);
	return by_hand_op(rig->hand, HOST, "op", dur_ns, gap_ns);
}

/* A transfer that begins at gap_ns. */
static uint32_t transfer(struct rig *rig, int64_t gap_ns, double amount,
	int64_t latency_ns)
{
	by_hand_lane(rig->hand, 0);
	uint32_t op = by_hand_op(rig->hand, MOVE, "move", 0, gap_ns);
	share_op(rig->share, op, share_flow(rig->share, amount, latency_ns));
	return op;
}

static uint32_t transfer_on(struct rig *rig, int64_t gap_ns, double amount,
	uint32_t resource, double weight)
{
	uint32_t op = transfer(rig, gap_ns, amount, 0);
	share_use(rig->share, resource, weight);
	return op;
}

static taut_status try_replay(struct rig *rig, int unordered)
{
	if (!rig->graph) {
		rig->graph = by_hand_graph(rig->hand);
		share_by_hand_sharing(rig->share, rig->graph);
		assert_int_equal(taut_timeline_init(
			&rig->timeline, rig->graph, &rig->err), TAUT_OK);
	}
	struct taut_replay_edit edit = {
		.sharing = &rig->share->sharing, .unordered = unordered
	};
	return taut_replay(rig->graph, &edit, &rig->timeline, &rig->err);
}

static void replay(struct rig *rig)
{
	if (try_replay(rig, 0))
		fail_msg("%s", rig->err.message);
	assert_int_equal(rig->timeline.n_run, rig->graph->n_ops);
}

static void expect(const struct rig *rig, uint32_t op, int64_t start_ns,
	int64_t end_ns)
{
	assert_int_equal(rig->timeline.start_ns[op], start_ns);
	assert_int_equal(rig->timeline.end_ns[op], end_ns);
}

static void end(struct rig *rig)
{
	taut_timeline_fini(&rig->timeline);
	by_hand_destroy(rig->hand);
	share_by_hand_destroy(rig->share);
}

/* --- links ---------------------------------------------------------------------------*/

static void test_alone_a_flow_takes_amount_over_rate(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t fast = share_resource(rig.share, 4);
	uint32_t slow = share_resource(rig.share, 0.5);
	uint32_t a = transfer_on(&rig, 0, 100, fast, 1);
	uint32_t b = transfer_on(&rig, 0, 100, slow, 1);
	uint32_t c = transfer(&rig, 7, 100, 0);
	replay(&rig);
	expect(&rig, a, 0, 25);
	expect(&rig, b, 0, 200);
	expect(&rig, c, 7, 107);
	assert_int_equal(rig.timeline.makespan_ns, 200);
	end(&rig);
}

static void test_two_on_one_link_halve(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t link = share_resource(rig.share, 1);
	uint32_t a = transfer_on(&rig, 0, 100, link, 1);
	uint32_t b = transfer_on(&rig, 0, 100, link, 1);
	replay(&rig);
	expect(&rig, a, 0, 200);
	expect(&rig, b, 0, 200);
	end(&rig);
}

/* Alone until 40, halves until 160 (a: 40 + 60), then b has 40 left. */
static void test_an_end_frees_the_link_midway(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t link = share_resource(rig.share, 1);
	uint32_t a = transfer_on(&rig, 0, 100, link, 1);
	uint32_t b = transfer_on(&rig, 40, 100, link, 1);
	replay(&rig);
	expect(&rig, a, 0, 160);
	expect(&rig, b, 40, 200);
	end(&rig);
}

/* Links of 1 and 2; x on both, y on the first, z on the second. The first
 * stops x and y at 1/2, z rises to 3/2. */
static void test_three_flows_on_two_links(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t one = share_resource(rig.share, 1);
	uint32_t two = share_resource(rig.share, 2);
	uint32_t x = transfer_on(&rig, 0, 300, one, 1);
	share_use(rig.share, two, 1);
	uint32_t y = transfer_on(&rig, 0, 300, one, 1);
	uint32_t z = transfer_on(&rig, 0, 300, two, 1);
	replay(&rig);
	expect(&rig, x, 0, 600);
	expect(&rig, y, 0, 600);
	expect(&rig, z, 0, 200);
	end(&rig);
}

/* Both at rate r with 3 r + r = 1: r = 1/4. */
static void test_weights(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t link = share_resource(rig.share, 1);
	uint32_t a = transfer_on(&rig, 0, 100, link, 3);
	uint32_t b = transfer_on(&rig, 0, 50, link, 1);
	replay(&rig);
	/* b is done at 200; a has 50 left and 1/3 for itself */
	expect(&rig, b, 0, 200);
	expect(&rig, a, 0, 350);
	end(&rig);
}

/* The same link twice is the sum of both. */
static void test_a_link_used_twice(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t link = share_resource(rig.share, 1);
	uint32_t a = transfer_on(&rig, 0, 100, link, 1);
	share_use(rig.share, link, 1);
	uint32_t b = transfer_on(&rig, 0, 200, link, 2);
	replay(&rig);
	expect(&rig, a, 0, 400);
	expect(&rig, b, 0, 600);
	end(&rig);
}

static void test_latency_takes_nothing(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t link = share_resource(rig.share, 1);
	uint32_t a = transfer_on(&rig, 0, 100, link, 1);
	uint32_t b = transfer(&rig, 0, 100, 30);
	share_use(rig.share, link, 1);
	replay(&rig);
	/* alone until 30, halves until 170, then b alone */
	expect(&rig, a, 0, 170);
	expect(&rig, b, 0, 200);
	end(&rig);
}

static void test_nothing_to_move(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t link = share_resource(rig.share, 1);
	uint32_t a = transfer_on(&rig, 5, 0, link, 1);
	uint32_t b = transfer(&rig, 0, 0, 12);
	share_use(rig.share, link, 1);
	uint32_t c = transfer_on(&rig, 0, 20, link, 1);
	replay(&rig);
	expect(&rig, a, 5, 5);
	expect(&rig, b, 0, 12);
	expect(&rig, c, 0, 20);
	end(&rig);
}

/* All ranks of a collective end when it is done, and their own time after
 * that; one that comes later finds it done. */
static void test_operations_of_one_flow(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t link = share_resource(rig.share, 1);
	uint32_t first = transfer_on(&rig, 10, 50, link, 1);
	uint32_t flow = rig.share->ops.data[0].to;
	uint32_t second = lone(&rig, 30, 4), late = lone(&rig, 70, 3);
	uint32_t at_once = lone(&rig, 60, 3);
	share_op(rig.share, second, flow);
	share_op(rig.share, late, flow);
	share_op(rig.share, at_once, flow);
	replay(&rig);
	expect(&rig, first, 10, 60);
	expect(&rig, second, 30, 64);
	expect(&rig, late, 70, 73);
	expect(&rig, at_once, 60, 63);
	end(&rig);
}

/* Two chains of collectives that cross one link: each pair halves it. */
static void test_chains_of_flows(void **state)
{
	enum { LONG = 50 };
	(void)state;
	struct rig rig = begin();
	uint32_t link = share_resource(rig.share, 1);
	uint32_t last[2];
	for (int chain = 0; chain < 2; chain++) {
		by_hand_lane(rig.hand, chain);
		for (int i = 0; i < LONG; i++) {
			uint32_t op = by_hand_op(
				rig.hand, MOVE, "move", 1, i ? 2 : 0);
			share_op(rig.share, op,
				share_flow(rig.share, 100, 3));
			share_use(rig.share, link, 1);
			last[chain] = op;
		}
	}
	replay(&rig);
	/* latency 3, both halves: 200, own 1, and a gap of 2 between */
	for (int chain = 0; chain < 2; chain++)
		assert_int_equal(rig.timeline.end_ns[last[chain]],
			LONG * (3 + 200 + 1) + (LONG - 1) * 2);
	end(&rig);
}

/* Edges: from the start of a transfer at once, from its end when it is
 * done; a join decides by the later of two. */
static void test_waits_for_a_flow(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t link = share_resource(rig.share, 1);
	uint32_t a = transfer_on(&rig, 0, 100, link, 1);
	uint32_t b = transfer_on(&rig, 0, 60, link, 1);
	uint32_t begun = lone(&rig, 0, 5), both = lone(&rig, 0, 5);
	by_hand_edge(rig.hand, a, begun,
		TAUT_EDGE_LAUNCH | TAUT_EDGE_FROM_START, 2);
	by_hand_edge(rig.hand, b, both, TAUT_EDGE_SYNC, 1);
	by_hand_edge(rig.hand, a, both, TAUT_EDGE_SYNC, 0);
	replay(&rig);
	expect(&rig, begun, 2, 7);
	expect(&rig, b, 0, 120);
	expect(&rig, a, 0, 160);
	expect(&rig, both, 160, 165);
	assert_int_equal(rig.timeline.decided_by[both], a);
	assert_int_equal(rig.timeline.decided_by[begun], a);
	end(&rig);
}

/* --- cores ------------------------------------------------------------------------------*/

/* A flow that takes half of a core for 4: an op of 10 is at 2 then, and needs
 * 8 more. */
static void test_a_flow_slows_its_core(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t link = share_resource(rig.share, 1);
	uint32_t core = share_resource(rig.share, 1);
	uint32_t op = lone(&rig, 0, 10);
	uint32_t next = by_hand_op(rig.hand, HOST, "next", 5, 0);
	share_core(rig.share, 0, core);
	uint32_t other = lone(&rig, 0, 10);
	uint32_t flow = transfer_on(&rig, 0, 4, link, 1);
	share_use(rig.share, core, 0.5);
	replay(&rig);
	expect(&rig, flow, 0, 4);
	expect(&rig, op, 0, 12);
	expect(&rig, next, 12, 17);
	expect(&rig, other, 0, 10);
	end(&rig);
}

/* The flow comes at 6 and would stop the core; a quarter of its speed is
 * left, and the flow is not slower for that. */
static void test_a_core_never_stops(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t core = share_resource(rig.share, 1);
	rig.share->sharing.least_speed = 0.25;
	uint32_t op = lone(&rig, 0, 10);
	share_core(rig.share, 0, core);
	uint32_t flow = transfer_on(&rig, 6, 8, core, 1);
	replay(&rig);
	expect(&rig, flow, 6, 14);
	/* 6 by 6, 2 more by 14, 2 alone */
	expect(&rig, op, 0, 16);
	end(&rig);
}

/* What is 1/4 of a core of 2 is 1/8 of it. */
static void test_load_is_a_share_of_the_capacity(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t link = share_resource(rig.share, 1);
	uint32_t core = share_resource(rig.share, 2);
	uint32_t op = lone(&rig, 0, 70);
	share_core(rig.share, 0, core);
	transfer_on(&rig, 0, 1000, link, 1);
	share_use(rig.share, core, 0.25);
	replay(&rig);
	expect(&rig, op, 0, 80);
	end(&rig);
}

/* Lanes of one core are slowed alike, and do not slow each other. */
static void test_two_lanes_on_a_core(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t link = share_resource(rig.share, 1);
	uint32_t core = share_resource(rig.share, 1);
	uint32_t a = lone(&rig, 0, 30), b = lone(&rig, 5, 10);
	share_core(rig.share, 0, core);
	share_core(rig.share, 1, core);
	transfer_on(&rig, 10, 20, link, 1);
	share_use(rig.share, core, 0.5);
	replay(&rig);
	/* half speed from 10 to 30 */
	expect(&rig, b, 5, 20);
	expect(&rig, a, 0, 40);
	end(&rig);
}

/* Its start is known only after the flow came: what was then is counted. */
static void test_a_start_in_the_past(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t link = share_resource(rig.share, 1);
	uint32_t core = share_resource(rig.share, 1);
	uint32_t a = lone(&rig, 0, 20);
	uint32_t b = by_hand_op(rig.hand, HOST, "early", 6, -8);
	uint32_t c = by_hand_op(rig.hand, HOST, "long", 9, -20);
	share_core(rig.share, 0, core);
	transfer_on(&rig, 10, 8, link, 1);
	share_use(rig.share, core, 0.5);
	replay(&rig);
	/* half speed from 10 to 18 */
	expect(&rig, a, 0, 24);
	expect(&rig, b, 16, 23);
	expect(&rig, c, 3, 14);
	end(&rig);
}

/* --- order, circles, faults ------------------------------------------------------------------*/

static void test_order_is_by_start(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t link = share_resource(rig.share, 1);
	uint32_t a = transfer_on(&rig, 0, 10, link, 1);
	uint32_t after = lone(&rig, 0, 5), at_end = lone(&rig, 10, 5);
	by_hand_edge(rig.hand, a, after, TAUT_EDGE_SYNC, 0);
	replay(&rig);
	uint32_t order[] = { a, after, at_end };
	assert_memory_equal(rig.timeline.order, order, sizeof order);
	end(&rig);
}

static void test_circle(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t link = share_resource(rig.share, 1);
	uint32_t a = transfer_on(&rig, 0, 10, link, 1);
	uint32_t b = transfer_on(&rig, 0, 10, link, 1);
	uint32_t c = lone(&rig, 0, 5);
	by_hand_edge(rig.hand, b, c, TAUT_EDGE_SYNC, 0);
	by_hand_edge(rig.hand, c, b, TAUT_EDGE_SYNC, 0);
	assert_int_equal(try_replay(&rig, 0), TAUT_EMATCH);
	assert_int_equal(rig.timeline.n_run, 1);
	expect(&rig, a, 0, 10);
	assert_non_null(strstr(rig.err.message, "circle of waits, 2 long"));
	end(&rig);
}

static void expect_refused(struct rig *rig, const char *what)
{
	assert_int_equal(try_replay(rig, 0), TAUT_EINVAL);
	if (!strstr(rig->err.message, what))
		fail_msg("\"%s\" does not say \"%s\"", rig->err.message, what);
}

/* Each value is put back after it was refused. */
static void test_what_is_refused(void **state)
{
	(void)state;
	struct rig rig = begin();
	uint32_t link = share_resource(rig.share, 1);
	transfer_on(&rig, 0, 10, link, 1);
	share_core(rig.share, 0, link);
	replay(&rig);
	struct taut_flow *flow = rig.share->flows.data;
	struct taut_flow_use *use = rig.share->uses.data;

	rig.share->capacity.data[0] = 0;
	expect_refused(&rig, "resource 0: capacity 0");
	rig.share->capacity.data[0] = (double)NAN;
	expect_refused(&rig, "resource 0: capacity");
	rig.share->capacity.data[0] = 1;
	use->weight = -1;
	expect_refused(&rig, "use 0: weight -1");
	use->weight = 1;
	use->resource = 1;
	expect_refused(&rig, "use 0: resource 1 of 1");
	use->resource = 0;
	flow->n_uses = 2;
	expect_refused(&rig, "flow 0: uses 0 and 2 more, of 1");
	flow->n_uses = 1;
	flow->latency_ns = -1;
	expect_refused(&rig, "flow 0: latency -1 ns is negative");
	flow->latency_ns = 0;
	flow->amount = -1;
	expect_refused(&rig, "flow 0: amount -1");
	flow->amount = 1e19;
	expect_refused(&rig, "2^60 ns");
	flow->amount = 10;
	rig.share->sharing.least_speed = 0;
	expect_refused(&rig, "the least speed is 0");
	rig.share->sharing.least_speed = 1;
	rig.share->flow_of[0] = 1;
	expect_refused(&rig, "operation 0: flow 1 of 1");
	rig.share->flow_of[0] = 0;
	rig.share->core_of[0] = 1;
	expect_refused(&rig, "lane 0: core 1 of 1");
	rig.share->core_of[0] = 0;
	replay(&rig);
	end(&rig);
}

/* A core whose speed changes often, so that its past grows. */
static void make_busy(struct rig *rig)
{
	uint32_t core = share_resource(rig->share, 1);
	lone(rig, 0, 10000);
	share_core(rig->share, 0, core);
	by_hand_lane(rig->hand, 0);
	for (int i = 0; i < 100; i++) {
		uint32_t op = by_hand_op(rig->hand, MOVE, "move", 0, 5);
		share_op(rig->share, op, share_flow(rig->share, 10, 0));
		share_use(rig->share, core, 1);
	}
}

static void test_no_memory(void **state)
{
	(void)state;
	struct rig rig = begin();
	taut_status status = TAUT_ENOMEM;
	make_busy(&rig);
	replay(&rig);
	int64_t makespan_ns = rig.timeline.makespan_ns;
	long n = 0;
	for (; status; n++) {
		alloc_fail_after(n);
		status = try_replay(&rig, 0);
		alloc_fail_never();
		if (status)
			assert_int_equal(status, TAUT_ENOMEM);
	}
	assert_true(n > 3);
	assert_int_equal(rig.timeline.makespan_ns, makespan_ns);
	end(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone_a_flow_takes_amount_over_rate),
		cmocka_unit_test(test_two_on_one_link_halve),
		cmocka_unit_test(test_an_end_frees_the_link_midway),
		cmocka_unit_test(test_three_flows_on_two_links),
		cmocka_unit_test(test_weights),
		cmocka_unit_test(test_a_link_used_twice),
		cmocka_unit_test(test_latency_takes_nothing),
		cmocka_unit_test(test_nothing_to_move),
		cmocka_unit_test(test_operations_of_one_flow),
		cmocka_unit_test(test_chains_of_flows),
		cmocka_unit_test(test_waits_for_a_flow),
		cmocka_unit_test(test_a_flow_slows_its_core),
		cmocka_unit_test(test_a_core_never_stops),
		cmocka_unit_test(test_load_is_a_share_of_the_capacity),
		cmocka_unit_test(test_two_lanes_on_a_core),
		cmocka_unit_test(test_a_start_in_the_past),
		cmocka_unit_test(test_order_is_by_start),
		cmocka_unit_test(test_circle),
		cmocka_unit_test(test_what_is_refused),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests_name(
		"what operations share", tests, NULL, NULL);
}

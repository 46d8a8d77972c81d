/* What flows moved and operations did, found again from the times of a replay,
 * and a replay of that. */
#include "tests/support/unit.h"

#include <math.h>
#include <stdio.h>

#include <taut/trace.h>

#include "random_share.h"
#include "tests/support/alloc_fail.h"

struct rig {
	const struct taut_graph *graph;
	struct taut_sharing *sharing;
	struct taut_timeline timeline;
	int64_t *start_ns, *end_ns; /* what is measured */
	int64_t *dur_ns;            /* its durations; what was found */
	int64_t *found_ns, *latency_ns;
	double *amount;
	struct taut_flow *flows;
	struct taut_error err;
};

static void *get(size_t n, size_t size)
{
	void *memory = calloc(n + 1, size);
	assert_non_null(memory);
	return memory;
}

static struct rig begin(
	const struct taut_graph *graph, struct taut_sharing *sharing)
{
	struct rig rig = {
		.graph = graph, .sharing = sharing,
		.start_ns = get(graph->n_ops, sizeof(int64_t)),
		.end_ns = get(graph->n_ops, sizeof(int64_t)),
		.dur_ns = get(graph->n_ops, sizeof(int64_t)),
		.found_ns = get(graph->n_ops, sizeof(int64_t)),
		.latency_ns = get(sharing->n_flows, sizeof(int64_t)),
		.amount = get(sharing->n_flows, sizeof(double)),
		.flows = get(sharing->n_flows, sizeof(struct taut_flow)),
	};
	assert_int_equal(taut_timeline_init(
		&rig.timeline, graph, &rig.err), TAUT_OK);
	return rig;
}

static void end(struct rig *rig)
{
	taut_timeline_fini(&rig->timeline);
	free(rig->start_ns);
	free(rig->end_ns);
	free(rig->dur_ns);
	free(rig->found_ns);
	free(rig->latency_ns);
	free(rig->amount);
	free(rig->flows);
}

static taut_status try_measure(struct rig *rig)
{
	return taut_sharing_measure(rig->graph, rig->sharing, rig->start_ns,
		rig->dur_ns, rig->amount, rig->latency_ns, rig->found_ns,
		&rig->err);
}

/* To be measured: what a replay of the sharing as it is gives. */
static taut_status replay_first(struct rig *rig)
{
	struct taut_replay_edit edit = { .sharing = rig->sharing };
	taut_status status = taut_replay(
		rig->graph, &edit, &rig->timeline, &rig->err);
	for (uint32_t op = 0; !status && op < rig->graph->n_ops; op++) {
		rig->start_ns[op] = rig->timeline.start_ns[op];
		rig->end_ns[op] = rig->timeline.end_ns[op];
		rig->dur_ns[op] = rig->end_ns[op] - rig->start_ns[op];
	}
	return status;
}

/* Replays what was found; how far any start or end is off. */
static int64_t replay_found(struct rig *rig)
{
	const struct taut_sharing *sharing = rig->sharing;
	struct taut_sharing found = *sharing;
	struct taut_replay_edit edit = {
		.dur_ns = rig->found_ns, .sharing = &found
	};
	int64_t worst_ns = 0;
	for (uint32_t f = 0; f < sharing->n_flows; f++) {
		rig->flows[f] = sharing->flows[f];
		rig->flows[f].amount = rig->amount[f];
		rig->flows[f].latency_ns = rig->latency_ns[f];
	}
	found.flows = rig->flows;
	if (taut_replay(rig->graph, &edit, &rig->timeline, &rig->err))
		fail_msg("%s", rig->err.message);
	for (uint32_t op = 0; op < rig->graph->n_ops; op++) {
		int64_t start_ns = rig->timeline.start_ns[op] -
			rig->start_ns[op];
		int64_t end_ns = rig->timeline.end_ns[op] - rig->end_ns[op];
		if (llabs(start_ns) > worst_ns)
			worst_ns = llabs(start_ns);
		if (llabs(end_ns) > worst_ns)
			worst_ns = llabs(end_ns);
	}
	return worst_ns;
}

/* --- by hand ----------------------------------------------------------------------------*/

/* Two transfers of 100 and 60 on one link, an op under their load. */
static void test_what_was_put_in_comes_out(void **state)
{
	(void)state;
	struct by_hand *hand = by_hand_create();
	struct share_by_hand *share = share_by_hand_create();
	uint32_t link = share_resource(share, 1);
	uint32_t core = share_resource(share, 1);
	for (int i = 0; i < 2; i++) {
		by_hand_lane(hand, 0);
		uint32_t op = by_hand_op(
			hand, TAUT_OP_TRANSFER, "move", 0, 0);
		share_op(share, op, share_flow(share, i ? 60 : 100, 20));
		share_use(share, link, 1);
		share_use(share, core, 0.5);
	}
	uint32_t lane = by_hand_lane(hand, 0);
	uint32_t host = by_hand_op(hand, TAUT_OP_HOST, "host", 300, 0);
	share_core(share, lane, core);
	const struct taut_graph *graph = by_hand_graph(hand);
	struct rig rig = begin(graph, share_by_hand_sharing(share, graph));
	assert_int_equal(replay_first(&rig), TAUT_OK);
	/* 60 + 60 by 140, 40 more by 180; at half speed for these 160 */
	assert_int_equal(rig.end_ns[0], 180);
	assert_int_equal(rig.end_ns[1], 140);
	assert_int_equal(rig.end_ns[host], 380);
	assert_int_equal(try_measure(&rig), TAUT_OK);
	assert_true(fabs(rig.amount[0] - 100) < 1e-9);
	assert_true(fabs(rig.amount[1] - 60) < 1e-9);
	assert_int_equal(rig.latency_ns[0], 20);
	assert_int_equal(rig.found_ns[host], 300);
	assert_int_equal(rig.found_ns[0], 0);
	assert_int_equal(replay_found(&rig), 0);
	end(&rig);
	by_hand_destroy(hand);
	share_by_hand_destroy(share);
}

/* Ranks end at 50 and 70: the flow until 50, 20 are the second's own. A
 * latency that is longer than all of it is cut. */
static void test_own_time_and_cut_latency(void **state)
{
	(void)state;
	struct by_hand *hand = by_hand_create();
	struct share_by_hand *share = share_by_hand_create();
	uint32_t link = share_resource(share, 2), flow = TAUT_NONE;
	for (int i = 0; i < 3; i++) {
		by_hand_lane(hand, 0);
		uint32_t op = by_hand_op(
			hand, TAUT_OP_TRANSFER, "move", 0, 10);
		if (i != 1)
			flow = share_flow(share, 0, i ? 500 : 5);
		share_op(share, op, flow);
		if (i != 1)
			share_use(share, link, 1);
	}
	const struct taut_graph *graph = by_hand_graph(hand);
	struct rig rig = begin(graph, share_by_hand_sharing(share, graph));
	for (int i = 0; i < 3; i++) {
		rig.start_ns[i] = 10;
		rig.end_ns[i] = (int64_t[]){ 50, 70, 30 }[i];
		rig.dur_ns[i] = rig.end_ns[i] - 10;
	}
	assert_int_equal(try_measure(&rig), TAUT_OK);
	assert_true(fabs(rig.amount[0] - 2 * 35) < 1e-9);
	assert_true(rig.amount[1] == 0);
	assert_int_equal(rig.latency_ns[0], 5);
	assert_int_equal(rig.latency_ns[1], 20);
	assert_int_equal(rig.found_ns[0], 0);
	assert_int_equal(rig.found_ns[1], 20);
	assert_int_equal(rig.found_ns[2], 0);
	assert_int_equal(replay_found(&rig), 0);
	end(&rig);
	by_hand_destroy(hand);
	share_by_hand_destroy(share);
}

/* --- random ----------------------------------------------------------------------------------*/

struct tally {
	unsigned tried, exact;
	int64_t worst_ns;
};

static void try_seed(uint64_t seed, const struct random_shape *shape,
	struct tally *tally)
{
	struct by_hand *hand = by_hand_create();
	struct share_by_hand *share = share_by_hand_create();
	const struct taut_graph *graph = random_graph(hand, &seed, shape);
	struct rig rig = begin(
		graph, random_sharing(share, &seed, shape, graph));
	taut_status status = replay_first(&rig);
	if (status) {
		assert_int_equal(status, TAUT_EMATCH);
		assert_int_equal(try_measure(&rig), TAUT_EMATCH);
	} else {
		assert_int_equal(try_measure(&rig), TAUT_OK);
		int64_t off_ns = replay_found(&rig);
		tally->tried++;
		tally->exact += off_ns == 0;
		if (off_ns > tally->worst_ns)
			tally->worst_ns = off_ns;
	}
	end(&rig);
	by_hand_destroy(hand);
	share_by_hand_destroy(share);
}

static void try_shape(const struct random_shape *shape, int64_t limit_ns)
{
	struct tally tally = { 0 };
	for (uint64_t i = 1; i <= shape->n_graphs; i++)
		try_seed(i * 1000003, shape, &tally);
	print_message("%u timelines, %u exact, at worst %lld ns off\n",
		tally.tried, tally.exact, (long long)tally.worst_ns);
	assert_true(tally.tried > shape->n_graphs / 2);
	assert_true(tally.worst_ns <= limit_ns);
}

static void test_random_forward(void **state)
{
	(void)state;
	try_shape(&(struct random_shape){ 4000, 8, 10, 5, 10, 1, 0.5 }, 1);
}

static void test_random(void **state)
{
	(void)state;
	try_shape(&(struct random_shape){ 4000, 8, 10, 5, 10, 0, 0.5 }, 1);
}

static void test_random_wide(void **state)
{
	(void)state;
	try_shape(&(struct random_shape){ 200, 60, 4, 24, 60, 0, 0.5 }, 1);
}

static void test_no_memory(void **state)
{
	(void)state;
	uint64_t seed = 5000015;
	const struct random_shape shape = { 1, 8, 10, 5, 10, 1, 0.5 };
	struct by_hand *hand = by_hand_create();
	struct share_by_hand *share = share_by_hand_create();
	const struct taut_graph *graph = random_graph(hand, &seed, &shape);
	struct rig rig = begin(
		graph, random_sharing(share, &seed, &shape, graph));
	taut_status status = TAUT_ENOMEM;
	long n = 0;
	assert_int_equal(replay_first(&rig), TAUT_OK);
	for (; status; n++) {
		alloc_fail_after(n);
		status = try_measure(&rig);
		alloc_fail_never();
		if (status)
			assert_int_equal(status, TAUT_ENOMEM);
	}
	assert_true(n > 5);
	assert_true(replay_found(&rig) <= 1);
	end(&rig);
	by_hand_destroy(hand);
	share_by_hand_destroy(share);
}

/* --- recordings --------------------------------------------------------------------------------*/

/* All collectives over one link, each costing every rank half of its core. */
static void share_recording(
	struct share_by_hand *share, const struct taut_graph *graph)
{
	uint32_t link = share_resource(share, 1);
	uint32_t n_ranks = graph->run->n_traces;
	for (uint32_t i = 0; i < n_ranks; i++)
		share_resource(share, 1);
	for (uint32_t lane = 0; lane < graph->n_lanes; lane++) {
		uint32_t trace = graph->lanes[lane].trace;
		if (trace != TAUT_NONE && !graph->lanes[lane].is_comm)
			share_core(share, lane, 1 + trace);
	}
	for (uint32_t i = 0; i < graph->n_collectives; i++) {
		const struct taut_collective *c = &graph->collectives[i];
		uint32_t flow = share_flow(share, 0, 20000);
		share_use(share, link, 1);
		for (uint32_t m = 0; m < c->n_members; m++) {
			uint32_t op = graph->member_arrive[
				c->first_member + m] + 1;
			uint32_t lane = graph->lane[op];
			share_op(share, op, flow);
			share_use(share, 1 + graph->lanes[lane].trace, 0.5);
		}
	}
	share->sharing.least_speed = 0.2;
}

static void measure_recording(const char *path, int64_t limit_ns)
{
	struct taut_run *run;
	struct taut_graph *graph;
	struct taut_error err;
	if (taut_run_open(&path, 1, NULL, &run, &err) ||
			taut_graph_build(run, NULL, &graph, &err))
		fail_msg("%s", err.message);
	struct share_by_hand *share = share_by_hand_create();
	share_recording(share, graph);
	struct rig rig = begin(graph, share_by_hand_sharing(share, graph));
	double moved_ns = 0;
	int64_t slowed_ns = 0;
	for (uint32_t op = 0; op < graph->n_ops; op++) {
		rig.start_ns[op] = graph->start_ns[op];
		rig.dur_ns[op] = graph->dur_ns[op];
		rig.end_ns[op] = rig.start_ns[op] + rig.dur_ns[op];
	}
	if (try_measure(&rig))
		fail_msg("%s", rig.err.message);
	for (uint32_t f = 0; f < rig.sharing->n_flows; f++)
		moved_ns += rig.amount[f];
	for (uint32_t op = 0; op < graph->n_ops; op++)
		slowed_ns += rig.dur_ns[op] - rig.found_ns[op];
	int64_t off_ns = replay_found(&rig);
	print_message("%s: %u flows moved %.3f ms, operations were slowed by "
		"%.3f ms, %lld ns off\n", path, (unsigned)rig.sharing->n_flows,
		moved_ns / 1e6, (double)slowed_ns / 1e6, (long long)off_ns);
	assert_true(moved_ns > 1e6 && slowed_ns > 1000000);
	assert_true(off_ns <= limit_ns);
	end(&rig);
	share_by_hand_destroy(share);
	taut_graph_destroy(graph);
	taut_run_close(run);
}

static void test_recordings(void **state)
{
	(void)state;
	measure_recording("examples/ddp-gloo-2host", 1);
	measure_recording("examples/ddp-gloo-late-rank", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_was_put_in_comes_out),
		cmocka_unit_test(test_own_time_and_cut_latency),
		cmocka_unit_test(test_random_forward),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_random_wide),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_recordings),
	};
	return cmocka_run_group_tests_name(
		"what was shared, measured", tests, NULL, NULL);
}

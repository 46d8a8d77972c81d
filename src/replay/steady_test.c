/* The usual step, of graphs that are nothing but steps. */
#include "tests/support/unit.h"

#include <taut/replay.h>

#include "tests/support/alloc_fail.h"

enum { MOST = 16, RANKS = 2 };

struct rig {
	struct taut_graph graph;
	struct taut_graph_lane lanes[RANKS];
	struct taut_step steps[MOST];
	uint32_t lane[2 * MOST], edge_begin[2 * MOST + 1];
	uint8_t kind[2 * MOST];
	int64_t start_ns[2 * MOST], end_ns[2 * MOST];
};

/* Marks 2 i and 2 i + 1; what lies between steps does not count. */
static void add_step(struct rig *rig, uint32_t trace, int64_t ns)
{
	uint32_t i = rig->graph.n_steps++;
	rig->steps[i] = (struct taut_step){
		.trace = trace, .begin_op = 2 * i, .end_op = 2 * i + 1
	};
	rig->lane[2 * i] = rig->lane[2 * i + 1] = trace;
	rig->kind[2 * i] = rig->kind[2 * i + 1] = TAUT_OP_MARK;
	rig->lanes[trace].trace = trace;
	rig->graph.n_ops += 2;
	rig->start_ns[2 * i] = rig->end_ns[2 * i] = 1000 * i;
	rig->start_ns[2 * i + 1] = rig->end_ns[2 * i + 1] = 1000 * i + ns;
}

static void draw(struct rig *rig)
{
	rig->graph.n_lanes = RANKS;
	rig->graph.lanes = rig->lanes;
	rig->graph.steps = rig->steps;
	rig->graph.lane = rig->lane;
	rig->graph.kind = rig->kind;
	rig->graph.edge_begin = rig->edge_begin;
}

static int64_t steady(struct rig *rig)
{
	struct taut_error err;
	int64_t ns = -7;
	draw(rig);
	assert_int_equal(taut_steady_step(&rig->graph, rig->start_ns,
		rig->end_ns, &ns, &err), TAUT_OK);
	return ns;
}

static void test_no_steps(void **state)
{
	(void)state;
	struct rig rig = { .start_ns = { 0 } };
	assert_int_equal(steady(&rig), -1);
}

static void test_an_only_step_counts(void **state)
{
	(void)state;
	struct rig rig = { .start_ns = { 0 } };
	add_step(&rig, 0, 70);
	assert_int_equal(steady(&rig), 70);
	add_step(&rig, 1, 90);
	add_step(&rig, 1, 50);
	/* 70 of rank 0, 50 of rank 1; of two the larger */
	assert_int_equal(steady(&rig), 70);
}

static void test_first_steps_do_not_count(void **state)
{
	(void)state;
	struct rig rig = { .start_ns = { 0 } };
	for (uint32_t trace = 0; trace < 2; trace++) {
		add_step(&rig, trace, 900);
		add_step(&rig, trace, 30 + trace);
		add_step(&rig, trace, 20 + trace);
	}
	add_step(&rig, 1, 10);
	/* 10 20 21 30 31 */
	assert_int_equal(steady(&rig), 21);
}

/* Of rank 0, on a stream. */
static void add_kernel(struct rig *rig, int64_t start_ns, int64_t end_ns)
{
	uint32_t op = rig->graph.n_ops++;

	rig->lanes[1] = (struct taut_graph_lane){ .kind = TAUT_LANE_STREAM };
	rig->lane[op] = 1;
	rig->kind[op] = TAUT_OP_KERNEL;
	rig->start_ns[op] = start_ns;
	rig->end_ns[op] = end_ns;
}

static void test_a_device_may_fall_behind(void **state)
{
	(void)state;
	struct rig rig = { .start_ns = { 0 } };
	for (int i = 0; i < 3; i++)
		add_step(&rig, 0, 70);
	add_kernel(&rig, 10, 90);
	add_kernel(&rig, 1010, 1100);
	add_kernel(&rig, 2010, 2110);
	/* 20, then 40 late */
	assert_int_equal(steady(&rig), 80);
}

/* One that catches up with its host is the faster of the two: steps take as
 * long as the host's. */
static void test_a_device_may_catch_up(void **state)
{
	(void)state;
	struct rig rig = { .start_ns = { 0 } };
	add_step(&rig, 0, 70);
	add_step(&rig, 0, 70);
	add_kernel(&rig, 10, 500);
	add_kernel(&rig, 1010, 1050);
	assert_int_equal(steady(&rig), 70);
}

static void test_no_memory(void **state)
{
	(void)state;
	struct rig rig = { .start_ns = { 0 } };
	struct taut_error err;
	int64_t ns = -7;
	add_step(&rig, 0, 70);
	draw(&rig);
	alloc_fail_after(0);
	taut_status status = taut_steady_step(
		&rig.graph, rig.start_ns, rig.end_ns, &ns, &err);
	alloc_fail_never();
	assert_int_equal(status, TAUT_ENOMEM);
	assert_int_equal(ns, -7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_steps),
		cmocka_unit_test(test_an_only_step_counts),
		cmocka_unit_test(test_first_steps_do_not_count),
		cmocka_unit_test(test_a_device_may_fall_behind),
		cmocka_unit_test(test_a_device_may_catch_up),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests_name("the usual step", tests, NULL, NULL);
}

/* The usual step, of graphs that are nothing but steps. */
#include "tests/support/unit.h"

#include <taut/replay.h>

#include "tests/support/alloc_fail.h"

enum { MOST = 16, RANKS = 2 };

struct rig {
	struct taut_graph graph;
	struct taut_graph_lane lanes[RANKS];
	struct taut_step steps[MOST];
	uint32_t lane[3 * MOST], edge_begin[3 * MOST + 1], edge_to[MOST];
	uint8_t kind[3 * MOST], edge_kind[MOST];
	int64_t start_ns[3 * MOST], end_ns[3 * MOST];
};

/* Marks 2 i and 2 i + 1. */
static void add_step_at(
	struct rig *rig, uint32_t trace, int64_t begin_ns, int64_t end_ns)
{
	uint32_t i = rig->graph.n_steps++;
	rig->steps[i] = (struct taut_step){
		.trace = trace, .begin_op = 2 * i, .end_op = 2 * i + 1
	};
	rig->lane[2 * i] = rig->lane[2 * i + 1] = trace;
	rig->kind[2 * i] = rig->kind[2 * i + 1] = TAUT_OP_MARK;
	rig->lanes[trace].trace = trace;
	rig->graph.n_ops += 2;
	rig->start_ns[2 * i] = rig->end_ns[2 * i] = begin_ns;
	rig->start_ns[2 * i + 1] = rig->end_ns[2 * i + 1] = end_ns;
}

/* What lies between steps does not count. */
static void add_step(struct rig *rig, uint32_t trace, int64_t ns)
{
	int64_t begin_ns = 1000 * (int64_t)rig->graph.n_steps;

	add_step_at(rig, trace, begin_ns, begin_ns + ns);
}

static void draw(struct rig *rig)
{
	rig->graph.n_lanes = RANKS;
	rig->graph.lanes = rig->lanes;
	rig->graph.steps = rig->steps;
	rig->graph.lane = rig->lane;
	rig->graph.kind = rig->kind;
	rig->graph.edge_begin = rig->edge_begin;
	rig->graph.edge_to = rig->edge_to;
	rig->graph.edge_kind = rig->edge_kind;
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

/* n steps that begin where the one before them ended, at ends_ns, and what they
 * launched. */
static void add_steps(struct rig *rig, const int64_t *ends_ns,
	const int64_t *device_ends_ns, int n)
{
	for (int i = 0; i < n; i++)
		add_step_at(rig, 0, i ? ends_ns[i - 1] : 0, ends_ns[i]);
	for (int i = 0; i < n; i++)
		add_kernel(rig, rig->start_ns[2 * i],
			device_ends_ns[i]);
}

/* A host that waits within each step for what the one before launched: its marks
 * tremble as it issues quickly or slowly, the device does not. */
static void test_marks_may_tremble(void **state)
{
	(void)state;
	static const int64_t ends[] = { 150, 360, 500, 570, 720 };
	static const int64_t device[] = { 240, 380, 520, 660, 800 };
	struct rig rig = { .start_ns = { 0 } };
	int64_t begin_ns[5], done_ns[5];
	struct taut_error err;

	add_steps(&rig, ends, device, 5);
	assert_int_equal(steady(&rig), 140);
	assert_int_equal(taut_step_times(&rig.graph, rig.start_ns, rig.end_ns,
		begin_ns, done_ns, &err), TAUT_OK);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(begin_ns[i], i ? device[i - 1] : 0);
		assert_int_equal(done_ns[i], device[i]);
	}
}

/* A host that waits once in a while, for all that it launched. */
static void test_waits_may_be_rare(void **state)
{
	(void)state;
	static const int64_t ends[] = { 2, 4, 6, 78, 80, 127, 159, 160 };
	static const int64_t device[] = { 25, 50, 75, 100, 125, 150, 175, 200 };
	struct rig rig = { .start_ns = { 0 } };

	add_steps(&rig, ends, device, 8);
	assert_int_equal(steady(&rig), 25);
}

/* What is summed under the next steps makes no step longer. */
static void test_sums_may_go_on(void **state)
{
	(void)state;
	static const int64_t ends[] = { 100, 200, 300, 400 };
	static const int64_t sums[] = { 180, 290, 410, 530 };
	struct rig rig = { .start_ns = { 0 } };

	add_steps(&rig, ends, sums, 4);
	assert_int_equal(steady(&rig), 120);
	rig.lanes[1].is_comm = 1;
	assert_int_equal(steady(&rig), 100);
}

/* A step with less work than others ends when what lay before it does. */
static void test_a_step_may_launch_nothing(void **state)
{
	(void)state;
	static const int64_t ends[] = { 10, 20, 30, 90 };
	static const int64_t device[] = { 40, 0, 60, 80 };
	struct rig rig = { .start_ns = { 0 } };
	int64_t begin_ns[4], done_ns[4];
	struct taut_error err;

	add_steps(&rig, ends, device, 4);
	draw(&rig);
	assert_int_equal(taut_step_times(&rig.graph, rig.start_ns, rig.end_ns,
		begin_ns, done_ns, &err), TAUT_OK);
	assert_int_equal(begin_ns[1], 40);
	assert_int_equal(done_ns[1], 40);
	assert_int_equal(done_ns[2], 60);
	/* here the host is the later */
	assert_int_equal(begin_ns[3], 60);
	assert_int_equal(done_ns[3], 90);
}

/* From a kernel to a mark; in the order of kernels. */
static void add_wait(struct rig *rig, uint32_t kernel, uint32_t mark)
{
	uint32_t n = rig->graph.n_edges++;

	rig->edge_to[n] = mark;
	rig->edge_kind[n] = TAUT_EDGE_SYNC;
	for (uint32_t op = kernel + 1; op < 3 * MOST + 1; op++)
		rig->edge_begin[op] = n + 1;
}

/* What makes a host slower than its device, but for waits, will last. */
static void test_waits_are_not_the_hosts_own(void **state)
{
	(void)state;
	static const int64_t ends[] = { 100, 200, 300, 400 };
	static const int64_t device[] = { 330, 375, 420, 465 };
	struct rig rig = { .start_ns = { 0 } };

	add_steps(&rig, ends, device, 4);
	assert_int_equal(steady(&rig), 100);
	for (uint32_t i = 1; i < 4; i++)
		add_wait(&rig, 8 + i, 2 * i + 1);
	assert_int_equal(steady(&rig), 45);
}

static void test_no_memory(void **state)
{
	(void)state;
	struct rig rig = { .start_ns = { 0 } };
	struct taut_error err;
	int64_t ns = -7;
	add_step(&rig, 0, 70);
	draw(&rig);
	for (int i = 0; i < 7; i++) {
		alloc_fail_after(i);
		taut_status status = taut_steady_step(
			&rig.graph, rig.start_ns, rig.end_ns, &ns, &err);
		alloc_fail_never();
		assert_int_equal(status, TAUT_ENOMEM);
		assert_int_equal(ns, -7);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_steps),
		cmocka_unit_test(test_an_only_step_counts),
		cmocka_unit_test(test_first_steps_do_not_count),
		cmocka_unit_test(test_a_device_may_fall_behind),
		cmocka_unit_test(test_a_device_may_catch_up),
		cmocka_unit_test(test_marks_may_tremble),
		cmocka_unit_test(test_waits_may_be_rare),
		cmocka_unit_test(test_sums_may_go_on),
		cmocka_unit_test(test_a_step_may_launch_nothing),
		cmocka_unit_test(test_waits_are_not_the_hosts_own),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests_name("the usual step", tests, NULL, NULL);
}

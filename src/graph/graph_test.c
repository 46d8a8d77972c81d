/* graph_test.c - what the graph says of small recordings written by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#include <taut/graph.h>

#include "tests/support/alloc_fail.h"
#include "tests/support/recorded.h"

/* outer 0..100 holds inner 20..50: slices 20 + 30 + 50, and the time between
 * the ops of a step belongs to the step. */
static void test_slices_tile_the_thread(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;
	int64_t sum = 0;

	(void)state;
	wt_rank(&w, 0);
	step(&w, 1, 0, 200);
	wt_event(&w, "cpu_op", "outer", 1, 10, 0, 100, "");
	wt_event(&w, "cpu_op", "inner", 1, 10, 20, 30, "");
	wt_event(&w, "cpu_op", "next", 1, 10, 120, 40, "");
	run = wt_open(&w);
	g = build(run);
	assert_int_equal(g->n_lanes, 1);
	assert_int_equal(g->dur_ns[find_op(g, TAUT_OP_HOST, "outer", 0)], 20000);
	assert_int_equal(g->dur_ns[find_op(g, TAUT_OP_HOST, "inner", 0)], 30000);
	assert_int_equal(g->dur_ns[find_op(g, TAUT_OP_HOST, "outer", 1)], 50000);
	assert_int_equal(g->dur_ns[find_op(g, TAUT_OP_HOST, "", 0)], 20000);
	for (uint32_t i = 0; i < g->n_ops; i++)
		sum += g->dur_ns[i];
	assert_int_equal(sum, 200000);
	assert_int_equal(g->n_steps, 1);
	assert_int_equal(g->steps[0].end_ns - g->steps[0].start_ns, 200000);
	finish(g, run, &w);
}

/* The kernel waits for its launch, the copy for the kernel, the host call for
 * the copy; what the call takes after the copy's end is its own. */
static void test_launch_stream_and_sync(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;
	uint32_t launch, kernel, ret;

	(void)state;
	wt_rank(&w, 0);
	step(&w, 1, 0, 400);
	wt_kernel(&w, "gemm", 1, 10, 10, 8, 7, 16, 100, 1);
	wt_kernel(&w, "relu", 1, 10, 20, 8, 7, 118, 50, 2);
	wt_event(&w, "cuda_runtime", "cudaDeviceSynchronize", 1, 10, 30, 150,
		"\"correlation\":3");
	run = wt_open(&w);
	g = build(run);
	launch = find_op(g, TAUT_OP_LAUNCH, "cudaLaunchKernel", 0);
	kernel = find_op(g, TAUT_OP_KERNEL, "gemm", 0);
	assert_true(has_edge(g, launch, kernel, TAUT_EDGE_LAUNCH));
	kernel = find_op(g, TAUT_OP_KERNEL, "relu", 0);
	assert_int_equal(g->gap_ns[kernel], 2000);
	ret = find_op(g, TAUT_OP_RETURN, "cudaDeviceSynchronize", 0);
	assert_true(has_edge(g, kernel, ret, TAUT_EDGE_SYNC));
	assert_int_equal(g->dur_ns[ret], 12000); /* 180 - 168 */
	finish(g, run, &w);
}

/* A launch call that hangs for 500 us: its kernel begins when it ends, so the
 * time is the call's, not an unexplained gap of the device. */
static void test_slow_launch_is_the_hosts(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;
	uint32_t kernel, launch;

	(void)state;
	wt_rank(&w, 0);
	step(&w, 1, 0, 1000);
	for (int i = 0; i < 5; i++) /* the usual lag: 6 us */
		wt_kernel(&w, "k", 1, 10, 10 + 20 * i, 5, 7, 16 + 20 * i, 4,
			1 + i);
	wt_kernel(&w, "late", 1, 10, 200, 500, 7, 690, 10, 9);
	run = wt_open(&w);
	g = build(run);
	kernel = find_op(g, TAUT_OP_KERNEL, "late", 0);
	launch = find_op(g, TAUT_OP_LAUNCH, "cudaLaunchKernel", 5);
	assert_true(has_edge(g, launch, kernel, TAUT_EDGE_LAUNCH));
	assert_int_equal(g->gap_ns[kernel], 0);
	assert_int_equal(g->dur_ns[launch], 484000); /* 690 - 6 - 200 */
	finish(g, run, &w);
}

/* The main thread hands over to the autograd thread and waits for it. */
static void test_backward_thread(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;
	uint32_t ret, first, last;

	(void)state;
	wt_rank(&w, 0);
	step(&w, 1, 0, 1000);
	wt_event(&w, "cpu_op", "forward", 1, 10, 0, 300, "");
	wt_event(&w, "cpu_op", "MmBackward0", 1, 11, 340, 200,
		"\"Fwd thread id\":1,\"Sequence number\":4");
	wt_event(&w, "cpu_op", "AddBackward0", 1, 11, 550, 150,
		"\"Fwd thread id\":1,\"Sequence number\":3");
	wt_event(&w, "cpu_op", "optimizer", 1, 10, 730, 200, "");
	run = wt_open(&w);
	g = build(run);
	ret = find_op(g, TAUT_OP_RETURN, "", 0);
	first = find_op(g, TAUT_OP_HOST, "MmBackward0", 0);
	last = find_op(g, TAUT_OP_HOST, "AddBackward0", 0);
	assert_true(has_edge(g, last, ret, TAUT_EDGE_THREAD));
	assert_int_equal(g->dur_ns[ret], 30000); /* 730 - 700 */
	assert_true(has_edge(g, ret - 1, first, TAUT_EDGE_THREAD));
	assert_int_equal(g->dur_ns[ret - 1], 40000); /* 340 - 300 */
	finish(g, run, &w);
}

/* Two autograd threads: the slice waited for the one that ended last, and what the
 * other began before that one did, it did not wake when it was over. */
static void test_two_backward_threads(void **state)
{
	static const char back[] = "\"Fwd thread id\":1,\"Sequence number\":4";
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;
	uint32_t ret, early, late;

	(void)state;
	wt_rank(&w, 0);
	step(&w, 1, 0, 1000);
	wt_event(&w, "cpu_op", "forward", 1, 10, 0, 300, "");
	wt_event(&w, "cpu_op", "MmBackward0", 1, 11, 340, 360, back);
	wt_event(&w, "cpu_op", "AddBackward0", 1, 12, 400, 320, back);
	wt_event(&w, "cpu_op", "optimizer", 1, 10, 730, 200, "");
	run = wt_open(&w);
	g = build(run);
	ret = find_op(g, TAUT_OP_RETURN, "", 0);
	early = find_op(g, TAUT_OP_HOST, "MmBackward0", 0);
	late = find_op(g, TAUT_OP_HOST, "AddBackward0", 0);
	assert_true(has_edge(g, late, ret, TAUT_EDGE_THREAD));
	assert_true(has_edge(g, ret - 1, late, TAUT_EDGE_THREAD));
	assert_false(has_edge(g, ret - 1, early, TAUT_EDGE_THREAD));
	assert_int_equal(g->n_backward, 0);
	finish(g, run, &w);
}

/* The autograd thread begins a call of no duration as the main thread's slice ends:
 * it did nothing within it, so nothing was handed over. */
static void test_nothing_handed_over(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;
	uint32_t wait;

	(void)state;
	wt_rank(&w, 0);
	step(&w, 1, 0, 1000);
	wt_event(&w, "cpu_op", "aten::wait", 1, 10, 100, 100, "");
	wt_kernel(&w, "k", 1, 5, 200, 0, 7, 210, 50, 1);
	wt_event(&w, "cpu_op", "MmBackward0", 1, 5, 220, 50, "");
	run = wt_open(&w);
	g = build(run);
	wait = find_op(g, TAUT_OP_HOST, "aten::wait", 0);
	assert_int_equal(g->dur_ns[wait], 100000);
	assert_int_equal(find_op(g, TAUT_OP_RETURN, "aten::wait", 0), TAUT_NONE);
	finish(g, run, &w);
}

static void process(struct wt *w, const char *name, int tid, double at, double dur)
{
	wt_event(w, "user_annotation", "ExecutorState::Process", 1, tid, at, dur, "");
	wt_event(w, "cpu_op", name, 1, tid, at, dur, "");
}

/* Threads of an executor: the main thread calls a function and waits for the last of
 * its operators; between those threads, what begins just after another has ended on
 * one of them waited for it. */
static void test_executor(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;
	uint32_t ret, a, b, c;

	(void)state;
	wt_rank(&w, 0);
	step(&w, 1, 0, 1000);
	wt_event(&w, "user_annotation", "Run", 1, 10, 100, 800, "");
	process(&w, "before", 12, 20, 40);
	process(&w, "a", 11, 150, 250);
	process(&w, "b", 12, 410, 190);
	process(&w, "c", 11, 610, 240);
	/* Busy for less than half of it, and nothing ended when d began. */
	step(&w, 2, 1000, 5000);
	wt_event(&w, "user_annotation", "Run", 1, 10, 1100, 4800, "");
	process(&w, "e", 11, 1150, 50);
	process(&w, "d", 12, 4500, 1300);
	run = wt_open(&w);
	g = build(run);
	ret = find_op(g, TAUT_OP_RETURN, "Run", 0);
	a = find_op(g, TAUT_OP_HOST, "a", 0);
	b = find_op(g, TAUT_OP_HOST, "b", 0);
	c = find_op(g, TAUT_OP_HOST, "c", 0);
	assert_true(has_edge(g, ret - 1, a, TAUT_EDGE_THREAD));
	assert_int_equal(g->dur_ns[ret - 1], 50000); /* 150 - 100 */
	assert_true(has_edge(g, a, b, TAUT_EDGE_THREAD));
	assert_true(has_edge(g, b, c, TAUT_EDGE_THREAD));
	assert_true(has_edge(g, c, ret, TAUT_EDGE_THREAD));
	assert_int_equal(g->dur_ns[ret], 50000); /* 900 - 850 */
	assert_int_equal(g->gap_ns[b], 10000);
	assert_int_equal(g->dur_ns[b - 1], 0); /* idle */
	assert_int_equal(find_op(g, TAUT_OP_RETURN, "Run", 1), TAUT_NONE);
	assert_false(has_edge(g, find_op(g, TAUT_OP_HOST, "e", 0),
		find_op(g, TAUT_OP_HOST, "d", 0), TAUT_EDGE_THREAD));
	finish(g, run, &w);
}

/* record; wait; launch elsewhere: the other stream waits for what had been
 * launched. When time contradicts that, it is not claimed. */
static void streams(double second_starts, bool expect)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;
	uint32_t a, b;

	wt_rank(&w, 0);
	step(&w, 1, 0, 1000);
	wt_kernel(&w, "a", 1, 10, 10, 5, 7, 16, 300, 1);
	wt_event(&w, "cuda_runtime", "cudaEventRecord", 1, 10, 20, 1,
		"\"correlation\":2");
	wt_event(&w, "cuda_runtime", "cudaStreamWaitEvent", 1, 10, 22, 1,
		"\"correlation\":3");
	wt_kernel(&w, "b", 1, 10, 30, 5, 20, second_starts, 50, 4);
	run = wt_open(&w);
	g = build(run);
	a = find_op(g, TAUT_OP_KERNEL, "a", 0);
	b = find_op(g, TAUT_OP_KERNEL, "b", 0);
	assert_int_equal(has_edge(g, a, b, TAUT_EDGE_STREAM), expect);
	finish(g, run, &w);
}

static void test_stream_waits_inferred(void **state)
{
	(void)state;
	streams(318, true);
	streams(40, false);
}

/* --- several ranks ----------------------------------------------------------*/

/* Rank r begins its all-reduces late[r] us after the others'; all end alike.
 * shift moves the rank's clock, drift_ppm stretches it. */
static void write_reduces(struct wt *w, int rank, int n, double late,
	double shift, double drift_ppm)
{
	wt_rank(w, rank);
	step(w, 1, shift, (n * 1000.0 + 500) * (1 + drift_ppm * 1e-6));
	for (int i = 0; i < n; i++) {
		double t = i * 1000.0, f = 1 + drift_ppm * 1e-6;

		wt_kernel(w, "ncclDevKernel_AllReduce_Sum_f32", 1, 10,
			shift + (t + 10 + late) * f, 5, 20,
			shift + (t + 16 + late) * f, (600 - late) * f, 100 + i);
	}
}

static void test_last_arrival_decides(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	write_reduces(&w, 0, 5, 0, 0, 0);
	write_reduces(&w, 1, 5, 400, 0, 0);
	write_reduces(&w, 2, 5, 100, 0, 0);
	run = wt_open(&w);
	g = build(run);
	assert_int_equal(g->n_collectives, 5);
	assert_int_equal(g->n_unmatched, 0);
	for (uint32_t i = 0; i < 5; i++) {
		const struct taut_collective *c = &g->collectives[i];

		assert_int_equal(c->kind, TAUT_COLL_ALLREDUCE);
		assert_int_equal(c->n_members, 3);
		for (uint32_t k = 0; k < 3; k++) {
			uint32_t op = g->member_arrive[c->first_member + k];

			assert_int_equal(g->dur_ns[op + 1], 200000);
			assert_int_equal(g->start_ns[op + 1] - g->start_ns[op],
				k == 0 ? 400000 : k == 1 ? 0 : 300000);
		}
	}
	finish(g, run, &w);
}

static void test_clocks_are_recovered(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	write_reduces(&w, 0, 2000, 0, 0, 0);
	write_reduces(&w, 1, 2000, 50, 7000, 0);
	write_reduces(&w, 2, 2000, 50, -3000, 40);
	run = wt_open(&w);
	g = build(run);
	assert_in_range((int)(g->clocks[1].offset_us + 0.5) + 7002, 0, 4);
	assert_true(g->clocks[1].drift_ppm == 0);
	assert_in_range((int)(g->clocks[2].offset_us + 0.5) - 2998, 0, 4);
	assert_in_range((int)(-g->clocks[2].drift_ppm * 10 + 0.5), 390, 410);
	assert_int_equal(g->n_backward, 0);
	finish(g, run, &w);
}

/* One rank has one all-reduce less and another has a broadcast in its place:
 * order cannot be trusted, and the first difference is told. */
static void test_mismatch_is_refused(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	write_reduces(&w, 0, 5, 0, 0, 0);
	write_reduces(&w, 1, 4, 0, 0, 0);
	run = wt_open(&w);
	g = build(run);
	assert_int_equal(g->n_unmatched, 9);
	assert_non_null(g->unmatched);
	assert_non_null(strstr(g->unmatched, "collective 5 in step 1"));
	for (uint32_t i = 0; i < g->n_collectives; i++)
		assert_int_equal(g->collectives[i].n_members, 1);
	finish(g, run, &w);
}

/* Two tensor-parallel pairs that the recording does not name: time tells them
 * apart, for one pair is done before the other has begun. */
static void groups(bool numbered)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;

	for (int r = 0; r < 4; r++) {
		wt_rank(&w, r);
		step(&w, 1, 0, 10000);
		for (int i = 0; i < 8; i++) {
			double t = i * 1000.0 + (r / 2) * (200 + 150 * (i % 4)),
				late = r % 2 ? 60 : 0;

			char seq[32] = "";

			if (numbered)
				snprintf(seq, sizeof seq, ",\"Seq\":%d", i);
			collective(&w, "allreduce", "", "", 2, t + 16 + late,
				160 - late, 20, 100 + i, seq);
		}
	}
	run = wt_open(&w);
	g = build(run);
	assert_int_equal(g->n_collectives, 16);
	assert_int_equal(g->n_unmatched, 0);
	for (uint32_t i = 0; i < g->n_collectives; i++) {
		const struct taut_collective *c = &g->collectives[i];
		uint32_t a, b;

		assert_int_equal(c->n_members, 2);
		a = g->lanes[g->lane[g->member_arrive[c->first_member]]].trace;
		b = g->lanes[g->lane[g->member_arrive[c->first_member + 1]]]
			.trace;
		assert_int_equal(a / 2, b / 2);
	}
	finish(g, run, &w);
}

static void test_groups_found_by_time(void **state)
{
	(void)state;
	groups(false);
	groups(true);
}

/* On a crowded machine one rank's thread often comes late out of a transfer.
 * The clocks are the same, and so is the group. */
static void test_ends_that_scatter(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	for (int r = 0; r < 2; r++) {
		wt_rank(&w, r);
		step(&w, 1, 0, 90000);
		for (int i = 0; i < 8; i++)
			wt_event(&w, "user_annotation", "gloo:all_reduce", 1,
				20, 10000 * i + 10,
				r == 0 && i < 5 ? 4000 : 1000, "");
	}
	run = wt_open(&w);
	g = build(run);
	assert_int_equal(g->n_collectives, 8);
	assert_int_equal(g->n_unmatched, 0);
	finish(g, run, &w);
}

/* One rank's thread is far behind the other's in each transfer, as on a machine
 * that is crowded: times alone would say that they talk to nobody. */
static void one_after_the_other(const char *groups, uint32_t unmatched)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;

	for (int r = 0; r < 2; r++) {
		wt_rank(&w, r);
		wt_distributed(&w, groups);
		step(&w, 1, 0, 90000);
		for (int i = 0; i < 8; i++)
			wt_event(&w, "user_annotation", "gloo:all_reduce", 1,
				20, 10000 * i + 10 + r * (i % 2 ? 1000 : 4000),
				500, "");
	}
	run = wt_open(&w);
	g = build(run);
	assert_int_equal(g->n_unmatched, unmatched);
	assert_false(g->groups_by_time);
	finish(g, run, &w);
}

static void test_the_only_group(void **state)
{
	(void)state;
	one_after_the_other("\"pg_count\":2", 16);
	one_after_the_other("\"pg_count\":1", 0);
}

/* Gloo gathers with copies of its own, which are operators of the framework
 * on its thread and outnumber the transfers. */
static void test_copies_inside_a_transfer(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	for (int r = 0; r < 2; r++) {
		wt_rank(&w, r);
		step(&w, 1, 0, 9000);
		for (int i = 0; i < 4; i++) {
			double t = 2000 * i + 10;

			wt_event(&w, "user_annotation", "gloo:all_gather", 1,
				20, t, 500, "");
			for (int k = 0; k < 3; k++)
				wt_event(&w, "cpu_op", "aten::copy_", 1, 20,
					t + 440 + 20 * k, 20, "");
		}
	}
	run = wt_open(&w);
	g = build(run);
	assert_int_equal(g->n_collectives, 4);
	assert_int_equal(g->n_unmatched, 0);
	finish(g, run, &w);
}

/* Groups, sequence numbers and send/recv pairs, as newer recordings tell
 * them; the recording of rank 1 begins one all-reduce later. */
static void test_named_groups_and_pairs(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;
	int pairs = 0, all = 0, alone = 0;

	(void)state;
	for (int r = 0; r < 4; r++) {
		const char *stage = r < 2 ? "[0, 1]" : "[2, 3]";
		char seq[128];

		wt_rank(&w, r);
		step(&w, 1, 0, 2000);
		for (int i = r == 1; i < 3; i++) {
			snprintf(seq, sizeof seq, ",\"Seq\":%d", 7 + i);
			collective(&w, "allreduce", "0", "[0, 1, 2, 3]", 4,
				100 + 300 * i, 200, 20, 10 + i, seq);
		}
		collective(&w, "allreduce", r < 2 ? "1" : "2", stage, 2, 1000,
			100, 21, 20, "");
		if (r == 1 || r == 2)
			collective(&w, r == 1 ? "send" : "recv", "3", "", 2,
				1200, 100, 22, 30,
				",\"Src Rank\":1,\"Dst Rank\":2");
	}
	run = wt_open(&w);
	g = build(run);
	for (uint32_t i = 0; i < g->n_collectives; i++) {
		const struct taut_collective *c = &g->collectives[i];

		all += c->n_members == 4;
		alone += c->n_members == 3 && c->seq == 7;
		pairs += c->n_members == 2;
	}
	assert_int_equal(all, 2);
	assert_int_equal(alone, 1);
	assert_int_equal(pairs, 3);
	assert_int_equal(g->n_collectives, 6);
	finish(g, run, &w);
}

/* Ranks of one host share its clock, though its collectives end 300 us apart,
 * always the same way; a host of its own name is corrected. */
static void test_one_host_has_one_clock(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	for (int r = 0; r < 3; r++) {
		wt_rank(&w, r);
		wt_host(&w, r < 2 ? "a" : "b");
		step(&w, 1, 0, 9000);
		for (int i = 0; i < 8; i++)
			wt_kernel(&w, "ncclDevKernel_AllReduce_Sum_f32", 1, 10,
				1000 * i + 10, 5, 20, 1000 * i + 16,
				500 + 300 * (r > 0), 100 + i);
	}
	run = wt_open(&w);
	g = build(run);
	assert_true(g->clocks[1].offset_us == 0);
	assert_in_range((int)(-g->clocks[2].offset_us), 299, 301);
	finish(g, run, &w);
}

/* Two pipeline stages that share nothing but sends and receives, the second
 * with a clock 5 ms behind: a receive would end before its send began. Sends
 * in both directions leave 60 us. */
static void test_clock_from_pairs(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	for (int r = 0; r < 2; r++) {
		double shift = r ? -5000 : 0;

		wt_rank(&w, r);
		step(&w, 1, shift, 4000);
		for (int i = 0; i < 4; i++) {
			double t = 100 + i * 800;

			collective(&w, r ? "recv" : "send", "3", "", 2,
				shift + t + (r ? 20 : 0), r ? 60 : 100, 22,
				10 + 2 * i, ",\"Src Rank\":0,\"Dst Rank\":1");
			collective(&w, r ? "send" : "recv", "3", "", 2,
				shift + t + (r ? 400 : 420), r ? 100 : 60, 23,
				11 + 2 * i, ",\"Src Rank\":1,\"Dst Rank\":0");
		}
	}
	run = wt_open(&w);
	g = build(run);
	assert_int_equal(g->n_collectives, 8);
	assert_in_range((int)g->clocks[1].offset_us, 4920, 5080);
	assert_in_range((int)g->clocks[1].uncertainty_us, 40, 90);
	assert_int_equal(g->n_backward, 0);
	finish(g, run, &w);
}

/* Two kernels under one number on one rank do not cost the others theirs. */
static void test_a_number_twice(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;
	int pairs = 0;

	(void)state;
	for (int r = 0; r < 2; r++) {
		wt_rank(&w, r);
		for (int i = r; i < 5 + r; i++) {
			char seq[32];

			snprintf(seq, sizeof seq, ",\"Seq\":%d", i);
			collective(&w, "allreduce", "0", "[0, 1]", 2,
				1000 * i + 100, 200, 20, 10 + 2 * i, seq);
			if (r && i == 3)
				collective(&w, "allreduce", "0", "[0, 1]", 2,
					1000 * i + 400, 50, 20, 11 + 2 * i, seq);
		}
	}
	run = wt_open(&w);
	g = build(run);
	for (uint32_t i = 0; i < g->n_collectives; i++)
		pairs += g->collectives[i].n_members == 2;
	assert_int_equal(pairs, 4);
	assert_true(g->clocks[1].offset_us == 0);
	finish(g, run, &w);
}

/* Numbers that begin again in the second step are no numbers: the steps and
 * the order in them decide. */
static void test_numbers_begin_again(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	for (int r = 0; r < 2; r++) {
		wt_rank(&w, r);
		for (int s = 0; s < 3; s++)
			step(&w, s, 5000 * s, 5000);
		for (int i = 0; i < 12; i++) {
			char seq[32];

			snprintf(seq, sizeof seq, ",\"Seq\":%d", i % 4);
			collective(&w, "allreduce", "0", "[0, 1]", 2,
				5000 * (i / 4) + 1000 * (i % 4) + 100, 200, 20,
				10 + i, seq);
		}
	}
	run = wt_open(&w);
	g = build(run);
	assert_int_equal(g->n_collectives, 12);
	for (uint32_t i = 0; i < 12; i++)
		assert_int_equal(g->collectives[i].n_members, 2);
	assert_true(g->clocks[1].offset_us == 0);
	finish(g, run, &w);
}

/* The host waits for an event with more work queued behind it. */
static void test_event_with_work_behind_it(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;
	uint32_t ret;

	(void)state;
	wt_rank(&w, 0);
	step(&w, 1, 0, 2000);
	wt_kernel(&w, "a", 1, 10, 10, 5, 7, 16, 500, 1);
	wt_event(&w, "cuda_runtime", "cudaEventRecord", 1, 10, 20, 1, "");
	wt_kernel(&w, "b", 1, 10, 30, 5, 7, 517, 900, 2);
	wt_event(&w, "cuda_runtime", "cudaEventSynchronize", 1, 10, 40, 486, "");
	run = wt_open(&w);
	g = build(run);
	ret = find_op(g, TAUT_OP_RETURN, "cudaEventSynchronize", 0);
	assert_true(has_edge(g, find_op(g, TAUT_OP_KERNEL, "a", 0), ret,
		TAUT_EDGE_SYNC));
	assert_int_equal(g->dur_ns[ret], 10000);
	finish(g, run, &w);
}

/* Each rank sends, then receives, on one stream, all in whole microseconds: the
 * two pairs would wait for each other in a circle. */
static void test_circle_is_broken(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	for (int r = 0; r < 2; r++) {
		char pair[64];

		wt_rank(&w, r);
		step(&w, 1, 0, 400);
		snprintf(pair, sizeof pair, ",\"Src Rank\":%d,\"Dst Rank\":%d",
			r, 1 - r);
		collective(&w, "send", "3", "", 2, 100, 10, 22, 10, pair);
		snprintf(pair, sizeof pair, ",\"Src Rank\":%d,\"Dst Rank\":%d",
			1 - r, r);
		collective(&w, "recv", "3", "", 2, 110, 10, 22, 11, pair);
	}
	run = wt_open(&w);
	g = build(run);
	assert_int_equal(g->n_collectives, 2);
	assert_true(g->n_circular > 0);
	finish(g, run, &w);
}

/* The root of a broadcast may be done before the last rank has come. */
static void test_broadcast_root_is_early(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;
	uint32_t root;

	(void)state;
	for (int r = 0; r < 2; r++) {
		wt_rank(&w, r);
		step(&w, 1, 0, 1000);
		wt_kernel(&w, "ncclDevKernel_Broadcast", 1, 10, 10 + 300 * r,
			5, 20, 16 + 300 * r, 40, 5);
	}
	run = wt_open(&w);
	g = build(run);
	assert_int_equal(g->collectives[0].n_members, 2);
	root = g->member_arrive[0];
	assert_int_equal(g->start_ns[root + 1], g->start_ns[root]);
	assert_int_equal(g->dur_ns[root + 1], 40000);
	assert_int_equal(g->n_backward, 0);
	finish(g, run, &w);
}

/* Whichever request for memory fails, building says so and leaves nothing. */
static void test_memory_runs_out(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g = NULL;
	struct taut_graph_options one = { .threads = 1 };
	taut_status status = TAUT_ENOMEM;

	(void)state;
	write_reduces(&w, 0, 3, 0, 0, 0);
	write_reduces(&w, 1, 3, 50, 0, 0);
	run = wt_open(&w);
	for (long n = 0; status; n++) {
		struct taut_error err = { 0 };

		alloc_fail_after(n);
		status = taut_graph_build(run, &one, &g, &err);
		alloc_fail_never();
		assert_true(!status || status == TAUT_ENOMEM);
		assert_true(!status || (!g && *err.message));
		assert_in_range(n, 0, 5000);
	}
	finish(g, run, &w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slices_tile_the_thread),
		cmocka_unit_test(test_launch_stream_and_sync),
		cmocka_unit_test(test_slow_launch_is_the_hosts),
		cmocka_unit_test(test_backward_thread),
		cmocka_unit_test(test_two_backward_threads),
		cmocka_unit_test(test_nothing_handed_over),
		cmocka_unit_test(test_executor),
		cmocka_unit_test(test_stream_waits_inferred),
		cmocka_unit_test(test_last_arrival_decides),
		cmocka_unit_test(test_clocks_are_recovered),
		cmocka_unit_test(test_mismatch_is_refused),
		cmocka_unit_test(test_groups_found_by_time),
		cmocka_unit_test(test_ends_that_scatter),
		cmocka_unit_test(test_the_only_group),
		cmocka_unit_test(test_copies_inside_a_transfer),
		cmocka_unit_test(test_named_groups_and_pairs),
		cmocka_unit_test(test_clock_from_pairs),
		cmocka_unit_test(test_one_host_has_one_clock),
		cmocka_unit_test(test_circle_is_broken),
		cmocka_unit_test(test_a_number_twice),
		cmocka_unit_test(test_numbers_begin_again),
		cmocka_unit_test(test_event_with_work_behind_it),
		cmocka_unit_test(test_broadcast_root_is_early),
		cmocka_unit_test(test_memory_runs_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

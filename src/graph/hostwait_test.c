/* hostwait_test.c - calls that waited for their device: launches into a full queue,
 * copies. */
#include "tests/support/unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <taut/graph.h>
#include <taut/replay.h>

#include "tests/support/write_trace.h"

enum {
	N_KERNELS = 1060, KERNEL_US = 100, LAUNCH_US = 3,
	QUEUE = 1020, /* launches that have not begun, when no more are taken */
	TAIL_US = 5,
};

struct rig {
	struct wt w;
	struct taut_run *run;
	struct taut_graph *g;
};

/* One stream of kernels without a gap, launched as early as a queue of so many allows. */
static struct rig set_up(int queue)
{
	struct rig rig = { .w = wt_begin() };
	struct taut_error err = { 0 };
	int host = 10;

	wt_rank(&rig.w, 0);
	wt_event(&rig.w, "user_annotation", "ProfilerStep#1", 1, 10, 0, 200000, "");
	for (int i = 0; i < N_KERNELS; i++) {
		int begins = 20 + i * KERNEL_US, took = LAUNCH_US;
		int room = begins - queue * KERNEL_US; /* when enough have begun */

		if (room + TAIL_US - host > took)
			took = room + TAIL_US - host;
		wt_kernel(&rig.w, "kernel", 1, 10, host, took, 7, begins, KERNEL_US,
			i + 1);
		host += took;
	}
	rig.run = wt_open(&rig.w);
	if (taut_graph_build(rig.run, NULL, &rig.g, &err))
		fail_msg("%s", err.message);
	return rig;
}

static void tear_down(struct rig *rig)
{
	taut_graph_destroy(rig->g);
	taut_run_close(rig->run);
	wt_end(&rig->w);
}

static uint32_t find_op(const struct taut_graph *g, enum taut_op_kind kind, int skip)
{
	for (uint32_t i = 0; i < g->n_ops; i++)
		if (g->kind[i] == kind && !skip--)
			return i;
	return TAUT_NONE;
}

static bool waits_for(const struct taut_graph *g, uint32_t op, uint32_t before)
{
	for (uint32_t e = g->edge_begin[before]; e < g->edge_begin[before + 1]; e++)
		if (g->edge_to[e] == op && g->edge_kind[e] == TAUT_EDGE_SYNC)
			return true;
	return false;
}

static int64_t replayed(const struct rig *rig, const int64_t *dur_ns, uint32_t op)
{
	const struct taut_replay_edit edit = { .dur_ns = dur_ns };
	struct taut_timeline t = { 0 };
	struct taut_error err = { 0 };
	int64_t end;

	assert_int_equal(taut_timeline_init(&t, rig->g, &err), TAUT_OK);
	if (taut_replay(rig->g, dur_ns ? &edit : NULL, &t, &err))
		fail_msg("%s", err.message);
	end = t.end_ns[op];
	taut_timeline_fini(&t);
	return end;
}

/* The first launch of which 1,020 are before it that have not begun returns when the
 * first of these does. The kernel that makes room is the one before. */
static void test_a_full_queue(void **state)
{
	struct rig rig = set_up(QUEUE);
	uint32_t back = find_op(rig.g, TAUT_OP_RETURN, 0), room = TAUT_NONE;
	int64_t dur_ns[8 * N_KERNELS], recorded;

	(void)state;
	assert_int_not_equal(back, TAUT_NONE);
	for (int i = 0; i < N_KERNELS && room == TAUT_NONE; i++)
		if (waits_for(rig.g, back, find_op(rig.g, TAUT_OP_KERNEL, i)))
			room = find_op(rig.g, TAUT_OP_KERNEL, i);
	assert_int_not_equal(room, TAUT_NONE);
	assert_int_equal(rig.g->start_ns[back],
		rig.g->start_ns[room] + rig.g->dur_ns[room]);
	assert_int_equal(rig.g->dur_ns[back], TAIL_US * 1000);

	/* As recorded; and with kernels of half the time the host has to wait no more. */
	recorded = replayed(&rig, NULL, back);
	assert_int_equal(recorded, rig.g->start_ns[back] + rig.g->dur_ns[back]);
	assert_true(rig.g->n_ops <= 8 * N_KERNELS);
	for (uint32_t i = 0; i < rig.g->n_ops; i++)
		dur_ns[i] = rig.g->kind[i] == TAUT_OP_KERNEL ?
			rig.g->dur_ns[i] / 2 : rig.g->dur_ns[i];
	assert_true(replayed(&rig, dur_ns, back) < recorded);
	tear_down(&rig);
}

/* As long launches with half as much before them keep their time. */
static void test_no_full_queue(void **state)
{
	struct rig rig = set_up(QUEUE / 2);

	(void)state;
	assert_int_equal(find_op(rig.g, TAUT_OP_RETURN, 0), TAUT_NONE);
	tear_down(&rig);
}

enum { GRAPHS = 20, GRAPH_KERNELS = 200, GRAPH_CALL_US = 120 };

/* A graph of kernels is one launch: two or three of them ahead of a device leave its
 * queue all but empty, and the calls' time is the host's own. */
static void test_graphs_are_one_launch(void **state)
{
	struct rig rig = { .w = wt_begin() };
	struct taut_error err = { 0 };
	char args[64];

	(void)state;
	wt_rank(&rig.w, 0);
	wt_event(&rig.w, "user_annotation", "ProfilerStep#1", 1, 10, 0, 3000, "");
	for (int s = 0; s < GRAPHS; s++) {
		snprintf(args, sizeof args, "\"correlation\":%d", s + 1);
		wt_event(&rig.w, "cuda_runtime", "cudaGraphLaunch", 1, 10,
			10 + 130 * s, GRAPH_CALL_US, args);
		snprintf(args, sizeof args, "\"device\":0,\"stream\":7,"
			"\"correlation\":%d", s + 1);
		for (int k = 0; k < GRAPH_KERNELS; k++)
			wt_event(&rig.w, "kernel", "k", 0, 7,
				140 + 5 * (s * GRAPH_KERNELS + k), 5, args);
	}
	rig.run = wt_open(&rig.w);
	if (taut_graph_build(rig.run, NULL, &rig.g, &err))
		fail_msg("%s", err.message);
	assert_int_equal(find_op(rig.g, TAUT_OP_RETURN, 0), TAUT_NONE);
	tear_down(&rig);
}

/* A copy that took its caller 354 us, and ended with it. */
static bool copy_waits(const char *call, const char *name)
{
	struct rig rig = { .w = wt_begin() };
	struct taut_error err = { 0 };
	bool waits;

	wt_rank(&rig.w, 0);
	wt_event(&rig.w, "user_annotation", "ProfilerStep#1", 1, 10, 0, 1000, "");
	wt_event(&rig.w, "cuda_runtime", call, 1, 10, 100, 354, "\"correlation\":1");
	wt_event(&rig.w, "gpu_memcpy", name, 0, 7, 450, 3,
		"\"device\":0,\"stream\":7,\"correlation\":1");
	rig.run = wt_open(&rig.w);
	if (taut_graph_build(rig.run, NULL, &rig.g, &err))
		fail_msg("%s", err.message);
	waits = find_op(rig.g, TAUT_OP_RETURN, 0) != TAUT_NONE;
	tear_down(&rig);
	return waits;
}

/* Between places of a device, or from memory that stays where it is, nobody is held. */
static void test_copies(void **state)
{
	(void)state;
	assert_true(copy_waits("cudaMemcpy", "Memcpy HtoD (Pinned -> Device)"));
	assert_true(copy_waits("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pageable)"));
	assert_true(copy_waits("cudaMemcpyAsync", "[CUDA memcpy DtoH]"));
	assert_false(copy_waits("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pinned)"));
	assert_false(copy_waits("cudaMemcpyAsync", "Memcpy DtoD (Device -> Device)"));
}

static uint32_t synchronises(const struct rig *rig, const char *kernel)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < rig->g->n_ops; i++)
		for (uint32_t e = rig->g->edge_begin[i];
			!strcmp(taut_names_text(rig->g->names, rig->g->name[i]),
			kernel) && e < rig->g->edge_begin[i + 1]; e++)
			n += rig->g->edge_kind[e] == TAUT_EDGE_SYNC;
	return n;
}

/* So many kernels ran whose launches the recording has not, before 10 that it has were
 * launched in its first 0.3 ms. The call that waits for these waits long. */
static void waits_behind_cut_launches(int cut)
{
	struct rig rig = { .w = wt_begin() };
	struct taut_error err = { 0 };
	int at = 10 + 100 * cut;

	wt_rank(&rig.w, 0);
	wt_event(&rig.w, "user_annotation", "ProfilerStep#1", 1, 10, 0, 40000, "");
	for (int k = 0; k < cut; k++)
		wt_event(&rig.w, "kernel", "cut", 0, 7, 10 + 100 * k, 100,
			"\"device\":0,\"stream\":7");
	for (int k = 0; k < 20; k++) {
		int call = k < 10 ? 100 + 20 * k : at + 1100 + 20 * k;
		int begins = (k < 10 ? at : at + 1100) + 100 * k;

		wt_kernel(&rig.w, k == 9 ? "last" : "k", 1, 10, call, 8, 7,
			begins, 100, 1 + k);
	}
	wt_event(&rig.w, "cuda_runtime", "cudaStreamSynchronize", 1, 10, 400,
		at + 1000 + TAIL_US - 400, "\"correlation\":500");
	rig.run = wt_open(&rig.w);
	if (taut_graph_build(rig.run, NULL, &rig.g, &err))
		fail_msg("%s", err.message);
	assert_int_equal(synchronises(&rig, "last"), 1);
	tear_down(&rig);
}

static void test_launches_that_were_cut(void **state)
{
	(void)state;
	for (int cut = 0; cut < 200; cut += 40)
		waits_behind_cut_launches(cut);
}

static void on_device(struct wt *w, const char *name, int device, double call,
	double begins, double took, int correlation)
{
	char args[64];

	snprintf(args, sizeof args, "\"correlation\":%d", correlation);
	wt_event(w, "cuda_runtime", "cudaLaunchKernel", 1, 10, call, 5, args);
	snprintf(args, sizeof args, "\"device\":%d,\"stream\":7,"
		"\"correlation\":%d", device, correlation);
	wt_event(w, "kernel", name, device, 7, begins, took, args);
}

/* Each device of a process has a stream 7: the row that names what was waited for tells
 * which device's. One that names a device without such a stream means any. */
static void waits_for_device(int device, const char *kernel)
{
	struct rig rig = { .w = wt_begin() };
	struct taut_error err = { 0 };
	char args[96];

	wt_rank(&rig.w, 0);
	wt_event(&rig.w, "user_annotation", "ProfilerStep#1", 1, 10, 0, 1000, "");
	on_device(&rig.w, "of 0", 0, 10, 20, 480, 1);
	on_device(&rig.w, "of 1", 1, 30, 40, 470, 2);
	wt_event(&rig.w, "cuda_runtime", "cudaStreamSynchronize", 1, 10, 50, 455,
		"\"correlation\":3");
	snprintf(args, sizeof args, "\"cuda_sync_kind\":\"Stream Sync\","
		"\"stream\":7,\"device\":%d,\"correlation\":3", device);
	wt_event(&rig.w, "cuda_sync", "Stream Sync", device, 7, 60, 440, args);
	rig.run = wt_open(&rig.w);
	if (taut_graph_build(rig.run, NULL, &rig.g, &err))
		fail_msg("%s", err.message);
	assert_int_equal(synchronises(&rig, kernel), 1);
	tear_down(&rig);
}

static void test_streams_of_several_devices(void **state)
{
	(void)state;
	waits_for_device(0, "of 0");
	waits_for_device(1, "of 1");
	waits_for_device(2, "of 1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_full_queue),
		cmocka_unit_test(test_no_full_queue),
		cmocka_unit_test(test_graphs_are_one_launch),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_launches_that_were_cut),
		cmocka_unit_test(test_streams_of_several_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

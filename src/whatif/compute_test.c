/* compute_test.c - changes of computation and data on small jobs whose answers
 * can be worked out by hand. Times are in milliseconds. */
#include <math.h>
#include <stdbool.h>

#include "whatif/compute.h"

#include "tests/support/alloc_fail.h"
#include "tests/support/unit.h"
#include "tests/support/write_log.h"
#include "whatif/small_job.h"

/* --- what a data-parallel job on hosts does ---------------------------------- */

static void test_nothing_changes(void **state)
{
	struct job j = ddp_job();

	(void)state;
	assert_near(step_with(&j, NULL, 0), 1000);
	assert_near(with(&j, "batch=1x"), 1000);
	assert_near(with(&j, "accumulate=1"), 1000);
	assert_near(with(&j, "repair=1"), 1000);
	assert_near(with(&j, "host=1x"), 1000);
	close_job(&j);
}

static void test_slow(void **state)
{
	struct job j = ddp_job();

	(void)state;
	/* What rank 1 does alone twice, and the transfer. */
	assert_near(with(&j, "slow=1"), 2 * 800 + 200);
	assert_near(with(&j, "slow=0,factor=1.5x"), 1.5 * 800 + 200);
	assert_near(with(&j, "slow=1,delay=70ms"), 1070);
	assert_near(with(&j, "slow=1,factor=2x,delay=70ms"), 1870);
	assert_near(with(&j, "host=2x"), 400 + 200);
	refuses(&j, "slow=2", "no rank 2");
	refuses(&j, "slow=1,delay=2x", "a time");
	close_job(&j);
}

static void test_repair(void **state)
{
	struct job j = ddp_job();
	const char *both[] = { "slow=1", "repair=1" };

	(void)state;
	assert_near(step_with(&j, both, 2), 1000);
	close_job(&j);
}

static void test_repair_needs_others(void **state)
{
	struct job j = device_job();

	(void)state;
	refuses(&j, "repair=0", "two ranks");
	close_job(&j);
}

/* D F B once more for each micro-batch, without copying gradients back. */
static void test_accumulate(void **state)
{
	struct job j = ddp_job();
	const char *slow[] = { "slow=1,delay=70ms", "accumulate=2" };
	const char *change = "accumulate=3";
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };

	(void)state;
	assert_near(with(&j, "accumulate=2"), 1000 + 650);
	assert_near(with(&j, "accumulate=4"), 1000 + 3 * 650);
	/* Work that another change put before the forward pass is of the
	 * micro-batch, and is done again. */
	assert_near(step_with(&j, slow, 2), 1000 + 650 + 2 * 70);
	if (taut_predict(j.graph, &change, 1, NULL, &p, &err))
		fail_msg("%s", err.message);
	assert_true(p->samples_factor == 3);
	taut_prediction_destroy(p);
	close_job(&j);
}

/* Fixed: 2 us a call, 3 % flat, and one pass over the weights forward, two
 * backward, of 30 ms as copying their gradient took. */
static double batched(double dur_ms, double passes, double factor)
{
	double fixed = 0.03 + passes * 30 / dur_ms + 0.002 / dur_ms;

	return dur_ms * (fixed + (1 - fixed) * factor);
}

static void test_batch(void **state)
{
	struct job j = ddp_job();

	(void)state;
	assert_near(with(&j, "batch=2x"), 1000 + 100 +
		batched(200, 1, 2) - 200 + batched(300, 2, 2) - 300);
	assert_near(with(&j, "batch=0.5x"), 1000 - 50 +
		batched(200, 1, 0.5) - 200 + batched(300, 2, 0.5) - 300);
	close_job(&j);
}

/* The main thread's 100 a batch move to workers; 0.4 are left. */
static void test_workers(void **state)
{
	struct job j = ddp_job();
	const char *one[] = { "scale=enumerate*,factor=20x", "workers=1" };
	const char *two[] = { "scale=enumerate*,factor=20x", "workers=2" };
	const char *four[] = { "scale=enumerate*,factor=20x", "workers=4" };
	const char *back[] = { "workers=2", "workers=0" };
	const char *more[] = { "scale=enumerate*,factor=20x", "workers=2",
		"accumulate=2" };

	(void)state;
	assert_near(with(&j, "workers=1"), 900.4);
	assert_near(with(&j, "workers=0"), 1000);
	assert_near(step_with(&j, one, 2), 2000);
	assert_near(step_with(&j, two, 2), 1000);
	assert_near(step_with(&j, four, 2), 900.4);
	assert_near(step_with(&j, back, 2), 1000.4);
	/* Two batches a step. */
	assert_near(step_with(&j, more, 3), 2000);
	close_job(&j);
}

/* A worker takes 0.39 for a batch and 0.01 to hand it over; the main thread
 * works on each for 0.1. */
static struct job loaded_job(void)
{
	struct job j = { .w = wt_begin() };
	struct wl log = wl_begin(0, 1);
	struct taut_error err = { 0 };
	const char *path = j.w.path[j.w.n++];
	char name[sizeof j.w.path[0]];

	for (int s = 0; s < 6; s++) {
		int at = 1000 + 400 * s;

		wl_event(&log, TAUTI_LOG_SPAN, TAUT_KIND_STEP, "step", 100, at,
			400, 0);
		wl_event(&log, TAUTI_LOG_SPAN, TAUT_KIND_LOAD_WAIT, "take",
			100, at, 300, (uint32_t)s + 1);
		wl_event(&log, TAUTI_LOG_SPAN, TAUT_KIND_OP, "work", 100,
			at + 300, 100, 0);
		wl_event(&log, TAUTI_LOG_SPAN, TAUT_KIND_LOAD, "batch", 200,
			at - 90, 390, (uint32_t)s + 1);
	}
	snprintf(name, sizeof name, "%s/rank0.tautlog", j.w.folder);
	memcpy(j.w.path[0], name, sizeof name);
	wl_write(&log, path);
	if (taut_run_open(&path, 1, NULL, &j.run, &err) ||
		taut_graph_build(j.run, NULL, &j.graph, &err))
		fail_msg("%s", err.message);
	return j;
}

static void test_recorded_workers(void **state)
{
	struct job j = loaded_job();
	const char *both[] = { "workers=2", "batch=0.5x" };

	(void)state;
	assert_close(step_with(&j, NULL, 0), 0.4);
	assert_close(with(&j, "workers=1"), 0.4);
	assert_close(with(&j, "workers=2"), 0.2);
	assert_close(with(&j, "workers=8"), 0.1);
	assert_close(with(&j, "batch=0.5x"), 0.205);
	assert_close(with(&j, "batch=2x"), 0.79);
	assert_close(step_with(&j, both, 2), 0.1025);
	/* The main thread prepares, and hands nothing over. */
	assert_close(with(&j, "workers=0"), 0.49);
	close_job(&j);
}

static void test_by_name(void **state)
{
	struct job j = ddp_job();

	(void)state;
	assert_near(with(&j, "scale=aten::conv2d,factor=0.5x"), 900);
	refuses(&j, "scale=aten::conv2d,factor=0.5x,where=device", "name");
	refuses(&j, "remove=nothing*", "name");
	/* The transfer, and what the host does for it, which is waiting. */
	assert_near(with(&j, "remove=gloo:all_reduce"), 800);
	/* Rank 0's alone? No: a name is everybody's. */
	assert_near(with(&j, "remove=*ConvolutionBackward0"), 700);
	close_job(&j);
}

static void test_updates(void **state)
{
	struct job j = ddp_job();

	(void)state;
	assert_near(with(&j, "optimizer=free"), 900);
	assert_near(with(&j, "optimizer=fused"), 900 + (100 - 0.004) * 0.6);
	close_job(&j);
}

static void test_no_device(void **state)
{
	struct job j = ddp_job();

	(void)state;
	refuses(&j, "amp", "device");
	refuses(&j, "graphs", "device");
	refuses(&j, "device=2x", "device");
	refuses(&j, "fuse", "pointwise");
	refuses(&j, "offload=1GB", "matrix products");
	refuses(&j, "batchnorm", "batch normalisation");
	refuses(&j, "gist", "ReLU");
	refuses(&j, "recompute=nn.Module: *", "module");
	close_job(&j);
}

/* --- what a device does --------------------------------------------------------- */

static void test_device(void **state)
{
	struct job j = device_job();

	(void)state;
	assert_near(step_with(&j, NULL, 0), 840);
	/* 20 before the first kernel, 10 behind the last. */
	assert_near(with(&j, "device=2x"), 30 + 405);
	assert_near(with(&j, "slow=0"), 30 + 1620);
	assert_near(with(&j, "fuse"), 30 + 300 + 50 + 0.15 * 30 + 430);
	assert_near(with(&j, "optimizer=free"), 840 - 30);
	close_job(&j);
}

/* Nobody waits for the device: the host is done with a step in 80, the device
 * in 810, and that is what a step takes. */
static void test_host_ahead(void **state)
{
	struct job j = { .w = wt_begin() };

	(void)state;
	wt_rank(&j.w, 0);
	for (int s = 0; s < 4; s++) {
		char name[32];

		snprintf(name, sizeof name, "ProfilerStep#%d", s);
		event(&j.w, "user_annotation", name, 10, 80 * s, 80, "");
		wt_kernel(&j.w, "sgemm", 10, 10, (80 * s + 10) * 1e3, 10e3, 7,
			(20 + 810 * s) * 1e3, 810e3, s + 1);
	}
	open_job(&j);
	assert_near(step_with(&j, NULL, 0), 810);
	assert_near(with(&j, "device=2x"), 405);
	assert_near(with(&j, "host=2x"), 810);
	assert_near(with(&j, "device=20x"), 80);
	close_job(&j);
}

/* As fast as its device, whose steps are all alike, while its marks are not: the
 * interval is that of another run alone, and nothing is said of the median. */
static void test_scatter_of_a_host_ahead(void **state)
{
	static const double marks[] = { 0, 150, 360, 500, 570, 720, 900, 980 };
	struct job j = { .w = wt_begin() };
	struct taut_prediction *p = NULL;
	struct taut_error err;

	(void)state;
	wt_rank(&j.w, 0);
	for (int s = 0; s < 7; s++) {
		char name[32];

		snprintf(name, sizeof name, "ProfilerStep#%d", s);
		event(&j.w, "user_annotation", name, 10, marks[s],
			marks[s + 1] - marks[s], "");
		wt_kernel(&j.w, "sgemm", 10, 10, (marks[s] + 5) * 1e3, 5e3, 7,
			(100 + 140 * s) * 1e3, 140e3, s + 1);
	}
	open_job(&j);
	assert_int_equal(taut_predict(j.graph, NULL, 0, NULL, &p, &err),
		TAUT_OK);
	assert_near((double)p->after_ns / 1e6, 140);
	assert_near((double)p->low_ns / 1e6, 140 - 2.1);
	assert_near((double)p->high_ns / 1e6, 140 + 2.1);
	assert_int_equal(p->n_notes, 0);
	taut_prediction_destroy(p);
	close_job(&j);
}

static void test_accumulate_on_a_device(void **state)
{
	struct job j = device_job();

	(void)state;
	assert_near(with(&j, "accumulate=2"), 840 + 780);
	assert_near(with(&j, "accumulate=3"), 840 + 2 * 780);
	close_job(&j);
}

/* Ten launches of 10 for kernels of 1, then an update, and the host waits: each
 * kernel begins 2 after its launch. Those of the forward pass have a name. */
static void host_bound_step(
	struct wt *w, int step, double at, const char *forward)
{
	char name[32], seq[64];
	int c = 100 * step;

	snprintf(name, sizeof name, "ProfilerStep#%d", step);
	snprintf(seq, sizeof seq, "\"Sequence number\":%d", 7 + step);
	event(w, "user_annotation", name, 10, at, 113, "");
	event(w, "cpu_op", "aten::linear", 10, at, 50, seq);
	event(w, "cpu_op", "autograd::engine::evaluate_function: "
		"AddmmBackward0", 10, at + 50, 50, seq);
	for (int i = 0; i < 10; i++)
		wt_kernel(w, i < 5 ? forward : "gemm", 10, 10,
			(at + 10 * i) * 1e3, 10e3, 7,
			(at + 10 * i + 2) * 1e3, 1e3, c + 1 + i);
	event(w, "user_annotation", "Optimizer.step#SGD.step", 10, at + 100,
		10, "");
	wt_kernel(w, "sgd", 10, 10, (at + 100) * 1e3, 10e3, 7,
		(at + 102) * 1e3, 10.99e3, c + 20);
	event(w, "cuda_runtime", "cudaDeviceSynchronize", 10, at + 110, 3, "");
}

static struct job host_bound_job(const char *forward)
{
	struct job j = { .w = wt_begin() };

	wt_rank(&j.w, 0);
	for (int s = 0; s < 4; s++)
		host_bound_step(&j.w, s, 113.0 * s, forward);
	open_job(&j);
	return j;
}

/* Four launches of five are gone, in each micro-batch. */
static void test_fused_launches(void **state)
{
	struct job j = host_bound_job("vectorized_elementwise_kernel");

	(void)state;
	assert_near(with(&j, "fuse"), 113 - 40);
	either_order(&j, "fuse", "accumulate=2", 113 - 40 + 100 - 40);
	close_job(&j);
}

static void test_graphs(void **state)
{
	struct job j = host_bound_job("gemm");

	(void)state;
	assert_near(step_with(&j, NULL, 0), 113);
	/* Two launches of 0.012 and the kernels behind each other, from 2 on. */
	assert_near(with(&j, "graphs"), 2 + 10 + 10.99 + 0.01);
	assert_near(with(&j, "host=2x"), 50 + 2 + 10.99 + 0.005);
	close_job(&j);
}

/* Of a copied rank, too, the update is one kernel, and each pass a launch. */
static void test_copies_on_a_device(void **state)
{
	static const char world[] = "world=4,link=100gbit,gradients=1MB";
	const char *const graphs[] = { world, "graphs" };
	struct job j = device_job();
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };
	uint32_t n[4] = { 0 };

	(void)state;
	either_order(&j, world, "optimizer=fused", 840);
	either_order(&j, world, "optimizer=free", 840 - 30);
	close_job(&j);
	j = host_bound_job("gemm");
	if (taut_predict(j.graph, graphs, 2, NULL, &p, &err))
		fail_msg("%s", err.message);
	for (uint32_t i = 0; i < p->graph->n_ops; i++)
		if (p->graph->dur_ns[i] == 12000)
			n[p->graph->lanes[p->graph->lane[i]].trace]++;
	for (int rank = 0; rank < 4; rank++)
		assert_int_equal(n[rank], 2 * 4);
	taut_prediction_destroy(p);
	close_job(&j);
}

static bool has_note(const struct job *j, const char *change, const char *text)
{
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };
	bool found = false;

	if (taut_predict(j->graph, &change, 1, NULL, &p, &err))
		fail_msg("%s: %s", change, err.message);
	for (uint32_t i = 0; i < p->n_notes; i++)
		found |= strstr(p->notes[i], text) != NULL;
	taut_prediction_destroy(p);
	return found;
}

static void test_what_no_graph_can_hold(void **state)
{
	struct job between = waiting_job(false), within = waiting_job(true);

	(void)state;
	assert_false(has_note(&between, "graphs", "within the passes"));
	assert_true(has_note(&within, "graphs", "within the passes"));
	close_job(&between);
	close_job(&within);
}

/* Steps of 1,100 kernels of 0.1 each, launched every 0.005 until the queue is full: 1,020
 * that have not begun. */
static struct job full_queue_job(void)
{
	enum { KERNELS = 1100, QUEUE = 1020 };
	struct job j = { .w = wt_begin() };

	wt_rank(&j.w, 0);
	for (int s = 0; s < 3; s++) {
		double at = 120.0 * s, host = at + 0.2;
		char name[32], seq[64];

		snprintf(name, sizeof name, "ProfilerStep#%d", s);
		snprintf(seq, sizeof seq, "\"Sequence number\":%d", 7 + s);
		event(&j.w, "user_annotation", name, 10, at, 120, "");
		event(&j.w, "cpu_op", "aten::linear", 10, at + 0.1, 0.05, seq);
		event(&j.w, "cpu_op", "autograd::engine::evaluate_function: "
			"AddmmBackward0", 10, at + 0.15, 12, seq);
		for (int k = 0; k < KERNELS; k++) {
			double begins = at + 0.3 + 0.1 * k;
			double took = fmax(0.005, begins - 0.1 * QUEUE - host);

			wt_kernel(&j.w, "gemm", 10, 10, host * 1e3, took * 1e3, 7,
				begins * 1e3, 100, KERNELS * s + k + 1);
			host += took;
		}
		event(&j.w, "cuda_runtime", "cudaDeviceSynchronize", 10, at + 13,
			97.4, "");
	}
	open_job(&j);
	return j;
}

/* Its launches wait for the device, and a graph has one. */
static void test_graphs_fill_no_queue(void **state)
{
	struct job j = full_queue_job();
	uint32_t n_waits = 0;

	(void)state;
	for (uint32_t i = 0; i < j.graph->n_ops; i++)
		n_waits += j.graph->kind[i] == TAUT_OP_RETURN;
	assert_true(n_waits > 3 * 20);
	assert_false(has_note(&j, "graphs", "within the passes"));
	close_job(&j);
}

static void test_blocks(void **state)
{
	static const char *const encoded[] = { "gist", "batch=2x" };
	struct job j = block_job();
	double twice;

	(void)state;
	assert_near(step_with(&j, NULL, 0), 500);
	assert_near(with(&j, "recompute=nn.Module: block*"), 650);
	assert_near(with(&j, "recompute=nn.Module: block1"), 550);
	assert_near(with(&j, "batchnorm"), 500 - 3 * (20 + 10 + 40 + 20));
	assert_near(with(&j, "gist"), 500 + 3 * (10 + 20));
	assert_near(with(&j, "gist,cost=2x"), 500 + 2 * 3 * (10 + 20));
	refuses(&j, "recompute=conv*", "module");
	/* what is made again is encoded once */
	either_order(&j, "recompute=nn.Module: block*", "gist",
		650 + 3 * (10 + 20));
	either_order(&j, "recompute=nn.Module: block1", "gist",
		550 + 3 * (10 + 20));
	/* nearly twice as much to encode in a batch of twice as many */
	twice = step_with(&j, encoded, 2);
	assert_true(twice > with(&j, "batch=2x") + 1.9 * 3 * (10 + 20));
	either_order(&j, "batch=2x", "gist", twice);
	/* two forward passes and a backward pass more */
	either_order(&j, "recompute=nn.Module: block*", "accumulate=2",
		650 + 2 * 150 + 300);
	close_job(&j);
}

/* A module is called by all that it holds: convolution 100, normalisation 40,
 * activation 10 forward, 100, 80 and 20 backward, 50 of an update. */
static void named_step(struct wt *w, int step, double at)
{
	char name[32], seq[64];

	snprintf(name, sizeof name, "ProfilerStep#%d", step);
	snprintf(seq, sizeof seq, "\"Sequence number\":%d", 7 + step);
	event(w, "user_annotation", name, 10, at, 400, "");
	event(w, "user_annotation", "nn.Module: ConvBNReLU_0", 10, at, 150,
		"");
	event(w, "cpu_op", "aten::conv2d", 10, at, 100, seq);
	event(w, "cpu_op", "aten::batch_norm", 10, at + 100, 40, seq);
	event(w, "cpu_op", "aten::relu", 10, at + 140, 10, seq);
	event(w, "cpu_op", "autograd::engine::evaluate_function: "
		"ReluBackward0", 10, at + 150, 20, seq);
	event(w, "cpu_op", "autograd::engine::evaluate_function: "
		"NativeBatchNormBackward0", 10, at + 170, 80, seq);
	event(w, "cpu_op", "autograd::engine::evaluate_function: "
		"ConvolutionBackward0", 10, at + 250, 100, seq);
	event(w, "user_annotation", "Optimizer.step#SGD.step", 10, at + 350,
		50, "");
}

static void test_names_of_modules(void **state)
{
	struct job j = { .w = wt_begin() };

	(void)state;
	wt_rank(&j.w, 0);
	for (int s = 0; s < 4; s++)
		named_step(&j.w, s, 400.0 * s);
	open_job(&j);
	assert_near(with(&j, "batchnorm"), 400 - (20 + 10 + 40 + 20));
	close_job(&j);
}

/* Copies at 8 bytes a nanosecond: 0.4 GB take 50 each way, and are done before
 * their kernel wants them; 4 GB take 500, and the kernel waits. */
static void test_offload(void **state)
{
	struct job j = device_job();

	(void)state;
	assert_near(with(&j, "offload=400MB,rate=64gbit"), 840 + 20);
	assert_near(with(&j, "offload=4GB,rate=64gbit"),
		20 + 300 + 1000 + 400 + 30 + 10);
	refuses(&j, "offload=2x", "bytes");
	close_job(&j);
}

struct alone { /* a change applied by itself */
	struct tauti_whatif w;
	struct tauti_job *job;
	struct taut_costs *costs;
	uint8_t ranged[1];
};

static void alone_begin(struct alone *a, const struct job *j)
{
	struct taut_error err = { 0 };

	*a = (struct alone){ .w.graph = j->graph };
	a->w.arena = taut_arena_create();
	assert_non_null(a->w.arena);
	if (tauti_job_create(j->graph, &a->job, &err) ||
		taut_costs_create(j->graph, &a->costs, &err) ||
		taut_edit_create(j->graph, &a->w.edit, &err))
		fail_msg("%s", err.message);
	a->w.job = a->job;
	a->w.costs = a->costs;
	a->w.ranged = a->ranged;
	assert_int_equal(tauti_whatif_reset(&a->w, &err), TAUT_OK);
}

static void alone_end(struct alone *a)
{
	taut_vec_free(&a->w.notes);
	taut_vec_free(&a->w.ways);
	taut_edit_destroy(a->w.edit);
	taut_costs_destroy(a->costs);
	tauti_job_destroy(a->job);
	taut_arena_destroy(a->w.arena);
}

static taut_status apply_text(struct alone *a, const char *text,
	struct taut_error *err)
{
	struct tauti_change change;
	taut_status status = tauti_change_read(text, a->w.arena, &change, err);

	return status ? status : change.is->apply(&a->w, &change, err);
}

static void assert_same_graph(const struct taut_edit *edit,
	const struct taut_graph *g)
{
	struct taut_graph *built = NULL;
	struct taut_error err = { 0 };

	if (taut_edit_build(edit, &built, NULL, NULL, &err))
		fail_msg("%s", err.message);
	assert_int_equal(built->n_ops, g->n_ops);
	assert_int_equal(built->n_edges, g->n_edges);
	assert_int_equal(built->n_lanes, g->n_lanes);
	assert_memory_equal(built->dur_ns, g->dur_ns, g->n_ops * 8);
	assert_memory_equal(built->gap_ns, g->gap_ns, g->n_ops * 8);
	assert_memory_equal(built->edge_to, g->edge_to, g->n_edges * 4);
	assert_memory_equal(built->edge_lag_ns, g->edge_lag_ns, g->n_edges * 8);
	taut_graph_destroy(built);
}

/* Every change can be taken back: the graph is then the one below. */
static void undo_all(const struct job *j, const char *const *changes, size_t n)
{
	struct alone a;
	struct taut_error err = { 0 };

	alone_begin(&a, j);
	for (size_t i = 0; i < n; i++) {
		uint32_t mark = taut_edit_mark(a.w.edit);

		if (apply_text(&a, changes[i], &err))
			fail_msg("%s", err.message);
		assert_true(taut_edit_mark(a.w.edit) != mark ||
			!strncmp(changes[i], "repair", 6)); /* equal ranks */
		taut_edit_undo(a.w.edit, mark);
		assert_same_graph(a.w.edit, j->graph);
	}
	alone_end(&a);
}

static const char *const host_changes[] = { "slow=1", "slow=1,delay=5ms",
	"repair=1", "scale=aten::*,factor=2x", "remove=gloo:*", "host=2x",
	"optimizer=fused", "workers=3", "batch=2x", "accumulate=3" };
static const char *const device_changes[] = { "amp", "graphs", "fuse",
	"offload=1GB", "device=2x", "optimizer=fused", "batch=2x",
	"accumulate=2" };
static const char *const block_changes[] = { "gist", "batchnorm",
	"compile=nn.Module: *,forward=0.5x,backward=2x",
	"recompute=nn.Module: *" };
#define COUNT(array) (sizeof (array) / sizeof *(array))

static void test_undo(void **state)
{
	struct job j = ddp_job();

	(void)state;
	undo_all(&j, host_changes, COUNT(host_changes));
	close_job(&j);
	j = device_job();
	undo_all(&j, device_changes, COUNT(device_changes));
	close_job(&j);
	j = block_job();
	undo_all(&j, block_changes, COUNT(block_changes));
	close_job(&j);
}

/* Wherever memory runs out, the change says so, and can be taken back. */
static void fail_all(const struct job *j, const char *const *changes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		taut_status status = TAUT_ENOMEM;

		for (long at = 0; status; at++) {
			struct alone a;
			struct taut_error err = { 0 };
			uint32_t mark;

			alone_begin(&a, j);
			mark = taut_edit_mark(a.w.edit);
			alloc_fail_after(at);
			status = apply_text(&a, changes[i], &err);
			alloc_fail_never();
			assert_true(!status || status == TAUT_ENOMEM);
			taut_edit_undo(a.w.edit, mark);
			assert_same_graph(a.w.edit, j->graph);
			alone_end(&a);
		}
	}
}

static void expect_mains(struct alone *a)
{
	struct tauti_mains *mains = a->w.mains;

	for (uint32_t r = 0; r < taut_edit_ranks(a->w.edit) + 2; r++) {
		uint32_t found = tauti_main_lane(&a->w, r);

		a->w.mains = NULL;
		assert_int_equal(found, tauti_main_lane(&a->w, r));
		a->w.mains = mains;
	}
}

/* What is known of lanes is as a look at all of them, whatever came or went. */
static void test_main_lanes(void **state)
{
	struct job j = ddp_job();
	struct taut_error err = { 0 };
	struct alone a;
	uint32_t mark;

	(void)state;
	alone_begin(&a, &j);
	mark = taut_edit_mark(a.w.edit);
	expect_mains(&a);
	assert_int_equal(apply_text(&a, "workers=2", &err), TAUT_OK);
	expect_mains(&a);
	assert_int_equal(apply_text(&a, "world=9", &err), TAUT_OK);
	expect_mains(&a);
	assert_int_equal(apply_text(&a, "world=3", &err), TAUT_OK);
	expect_mains(&a);
	taut_edit_undo(a.w.edit, mark);
	expect_mains(&a);
	assert_int_equal(tauti_main_lane(&a.w, 2), TAUT_NONE);
	assert_int_equal(apply_text(&a, "world=4", &err), TAUT_OK);
	expect_mains(&a);
	alone_end(&a);
	close_job(&j);
}

static void test_no_memory(void **state)
{
	struct job j = ddp_job();

	(void)state;
	fail_all(&j, host_changes, COUNT(host_changes));
	close_job(&j);
	j = device_job();
	fail_all(&j, device_changes, COUNT(device_changes));
	close_job(&j);
	j = block_job();
	fail_all(&j, block_changes, COUNT(block_changes));
	close_job(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_changes),
		cmocka_unit_test(test_slow),
		cmocka_unit_test(test_repair),
		cmocka_unit_test(test_repair_needs_others),
		cmocka_unit_test(test_accumulate),
		cmocka_unit_test(test_batch),
		cmocka_unit_test(test_workers),
		cmocka_unit_test(test_recorded_workers),
		cmocka_unit_test(test_by_name),
		cmocka_unit_test(test_updates),
		cmocka_unit_test(test_no_device),
		cmocka_unit_test(test_device),
		cmocka_unit_test(test_host_ahead),
		cmocka_unit_test(test_scatter_of_a_host_ahead),
		cmocka_unit_test(test_accumulate_on_a_device),
		cmocka_unit_test(test_fused_launches),
		cmocka_unit_test(test_graphs),
		cmocka_unit_test(test_copies_on_a_device),
		cmocka_unit_test(test_what_no_graph_can_hold),
		cmocka_unit_test(test_graphs_fill_no_queue),
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_names_of_modules),
		cmocka_unit_test(test_offload),
		cmocka_unit_test(test_undo),
		cmocka_unit_test(test_main_lanes),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

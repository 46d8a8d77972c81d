/* job_test.c - phases of a step and the collectives that sum gradients, of
 * small recordings and of real ones. */
#include "tests/support/unit.h"

#include <string.h>

#include "tests/support/alloc_fail.h"
#include "tests/support/write_trace.h"
#include "whatif/whatif.h"

struct told {
	struct taut_run *run;
	struct taut_graph *graph;
	struct tauti_job *job;
};

static struct told understand(struct taut_run *run)
{
	struct told t = { .run = run };
	struct taut_error err = { 0 };

	if (taut_graph_build(run, NULL, &t.graph, &err) ||
		tauti_job_create(t.graph, &t.job, &err))
		fail_msg("%s", err.message);
	return t;
}

static void forget(struct told *t)
{
	tauti_job_destroy(t->job);
	taut_graph_destroy(t->graph);
	taut_run_close(t->run);
}

/* The phase of all operations of a name, which must be the same. */
static enum tauti_phase phase_of(const struct told *t, const char *name)
{
	int phase = -1;

	for (uint32_t op = 0; op < t->graph->n_ops; op++) {
		if (strcmp(taut_names_text(t->graph->names, t->graph->name[op]),
			name) || t->graph->kind[op] == TAUT_OP_JOIN)
			continue;
		if (phase >= 0 && phase != t->job->phase[op])
			fail_msg("%s: in phases %d and %d", name, phase,
				t->job->phase[op]);
		phase = t->job->phase[op];
	}
	if (phase < 0)
		fail_msg("%s: no such operation", name);
	return (enum tauti_phase)phase;
}

static void op(struct wt *w, int tid, const char *name, double ts, double dur,
	int sequence, bool backward)
{
	char args[64] = "";

	if (sequence)
		snprintf(args, sizeof args,
			"\"Sequence number\":%d,\"Fwd thread id\":%d", sequence,
			backward);
	wt_event(w, "cpu_op", name, 1, tid, ts, dur, args);
}

static void range(struct wt *w, const char *name, double ts, double dur)
{
	wt_event(w, "user_annotation", name, 1, 10, ts, dur, "");
}

static void sum(struct wt *w, const char *name, double ts, double dur, int seq)
{
	char args[160];

	snprintf(args, sizeof args, "\"Collective name\":\"allreduce\","
		"\"Group size\":2,\"Process Group Name\":\"0\",\"Seq\":%d,"
		"\"In msg nelems\":1000,\"dtype\":\"Float\"", seq);
	wt_event(w, "user_annotation", name, 1, 11, ts, dur, args);
}

/* On one thread, as without a GPU: two micro-batches, then the weights. */
static void write_host_rank(struct wt *w, int rank)
{
	wt_rank(w, rank);
	range(w, "ProfilerStep#3", 0, 1000);
	range(w, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
		10, 40);
	op(w, 10, "aten::stack", 20, 10, 0, false);
	range(w, "gloo:broadcast", 55, 1);
	op(w, 10, "aten::mm", 60, 40, 1, false);
	op(w, 10, "aten::relu", 110, 40, 2, false);
	range(w, "Optimizer.zero_grad#SGD.zero_grad", 150, 10);
	op(w, 10, "aten::zero_", 152, 4, 0, false);
	op(w, 10, "ReluBackward0", 170, 40, 2, true);
	op(w, 10, "aten::threshold_backward", 175, 20, 0, false);
	op(w, 10, "MmBackward0", 220, 40, 1, true);
	op(w, 10, "aten::conv2d", 300, 40, 3, false);
	op(w, 10, "ConvBackward0", 350, 100, 3, true);
	range(w, "Optimizer.step#SGD.step", 600, 50);
	op(w, 10, "aten::add_", 610, 20, 0, false);
	op(w, 10, "aten::item", 700, 20, 0, false);
	sum(w, "gloo:all_reduce", 80, 10, 1);
	sum(w, "gloo:all_reduce", 230, 100, 2);
	sum(w, "gloo:all_reduce", 420, 100, 3);
	sum(w, "gloo:all_reduce", 530, 30, 4);
	sum(w, "gloo:all_reduce", 720, 30, 5);
}

static void test_phases_on_the_host(void **state)
{
	struct wt w = wt_begin();
	struct told t;

	(void)state;
	write_host_rank(&w, 0);
	write_host_rank(&w, 1);
	t = understand(wt_open(&w));
	assert_false(t.job->has_device);
	assert_int_equal(phase_of(&t, "aten::stack"), TAUTI_PHASE_DATA);
	assert_int_equal(phase_of(&t, "aten::mm"), TAUTI_PHASE_FORWARD);
	assert_int_equal(phase_of(&t, "aten::relu"), TAUTI_PHASE_FORWARD);
	assert_int_equal(phase_of(&t, "aten::zero_"), TAUTI_PHASE_OPTIMIZER);
	assert_int_equal(phase_of(&t, "MmBackward0"), TAUTI_PHASE_BACKWARD);
	assert_int_equal(phase_of(&t, "aten::threshold_backward"),
		TAUTI_PHASE_BACKWARD);
	assert_int_equal(phase_of(&t, "aten::conv2d"), TAUTI_PHASE_FORWARD);
	assert_int_equal(phase_of(&t, "ConvBackward0"), TAUTI_PHASE_BACKWARD);
	assert_int_equal(phase_of(&t, "aten::add_"), TAUTI_PHASE_OPTIMIZER);
	assert_int_equal(phase_of(&t, "aten::item"), TAUTI_PHASE_NONE);
	forget(&t);
	wt_end(&w);
}

/* Of five sums, that of the forward pass and that of the loss are no
 * gradients; the one behind backward is. */
static void test_gradients(void **state)
{
	struct wt w = wt_begin();
	struct told t;

	(void)state;
	write_host_rank(&w, 0);
	write_host_rank(&w, 1);
	t = understand(wt_open(&w));
	assert_int_equal(t.graph->n_collectives, 5);
	assert_int_equal(t.job->n_steps, 2);
	for (uint32_t s = 0; s < 2; s++) {
		const struct tauti_job_step *step = &t.job->steps[s];

		assert_int_equal(step->rank, s);
		assert_int_equal(step->step, s);
		assert_int_equal(step->n_gradients, 3);
		for (uint32_t i = 0; i < 3; i++)
			assert_int_equal(t.graph->collectives[t.job->gradients[
				step->first_gradient + i]].seq, 2 + i);
	}
	forget(&t);
	wt_end(&w);
}

/* Tensor parallelism on the host: of each layer's two sums, forward and
 * backward, the next layer waits; the weights' gradients are summed behind. */
static void write_layers_rank(struct wt *w, int rank)
{
	const double ms = 1000;

	wt_rank(w, rank);
	range(w, "ProfilerStep#3", 0, 100 * ms);
	for (int i = 0; i < 2; i++) {
		double forward = 10 * ms * i, back = 20 * ms + forward;

		op(w, 10, "aten::mm", forward, 4 * ms, i + 1, false);
		op(w, 10, "c10d::allreduce_", forward + 4 * ms, 5, 0, false);
		sum(w, "gloo:all_reduce", forward + 4 * ms + 20, 6 * ms - 20,
			i + 1);
		op(w, 10, "MmBackward0", back, 4 * ms, 2 - i, true);
		op(w, 10, "c10d::allreduce_", back + 4 * ms, 5, 0, false);
		sum(w, "gloo:all_reduce", back + 4 * ms + 20, 5 * ms - 20,
			i + 3);
		op(w, 10, "autograd::engine::evaluate_function: "
			"torch::autograd::AccumulateGrad", back + 9 * ms, 400,
			0, false);
		op(w, 10, "torch::autograd::AccumulateGrad", back + 9 * ms,
			300, 0, false);
	}
	op(w, 10, "c10d::allreduce_", 40 * ms, 5, 0, false);
	sum(w, "gloo:all_reduce", 40 * ms + 20, 10 * ms, 5);
	op(w, 10, "torch.distributed.ddp.reducer::copy_bucket_to_grad",
		50 * ms + 20, 500, 0, false);
	range(w, "Optimizer.step#SGD.step", 60 * ms, 5 * ms);
}

static void test_sums_within_a_pass(void **state)
{
	struct wt w = wt_begin();
	struct told t;

	(void)state;
	write_layers_rank(&w, 0);
	write_layers_rank(&w, 1);
	t = understand(wt_open(&w));
	assert_int_equal(t.graph->n_collectives, 5);
	for (uint32_t c = 0; c < 5; c++)
		assert_int_equal(t.job->within[c],
			t.graph->collectives[c].seq < 5);
	for (uint32_t s = 0; s < 2; s++) {
		assert_int_equal(t.job->steps[s].n_gradients, 1);
		assert_int_equal(t.graph->collectives[t.job->gradients[
			t.job->steps[s].first_gradient]].seq, 5);
	}
	forget(&t);
	wt_end(&w);
}

/* Backward on a thread of its own launches what belongs to it; work that was
 * launched forward and runs late stays forward. */
static void test_phases_on_a_device(void **state)
{
	struct wt w = wt_begin();
	struct told t;

	(void)state;
	wt_rank(&w, 0);
	range(&w, "ProfilerStep#0", 0, 900);
	op(&w, 10, "aten::linear", 10, 60, 1, false);
	wt_kernel(&w, "gemm_fwd", 1, 10, 20, 5, 7, 100, 300, 1);
	op(&w, 12, "autograd::engine::evaluate_function: AddmmBackward0", 150,
		100, 1, true);
	wt_kernel(&w, "gemm_bwd", 1, 12, 160, 5, 7, 400, 200, 2);
	range(&w, "Optimizer.step#Adam.step", 300, 50);
	wt_kernel(&w, "adam", 1, 10, 310, 5, 7, 600, 50, 3);
	wt_event(&w, "cuda_runtime", "cudaDeviceSynchronize", 1, 10, 360, 400,
		"\"correlation\":4");
	t = understand(wt_open(&w));
	assert_true(t.job->has_device);
	assert_int_equal(phase_of(&t, "gemm_fwd"), TAUTI_PHASE_FORWARD);
	assert_int_equal(phase_of(&t, "gemm_bwd"), TAUTI_PHASE_BACKWARD);
	assert_int_equal(phase_of(&t, "adam"), TAUTI_PHASE_OPTIMIZER);
	assert_int_equal(phase_of(&t, "aten::linear"), TAUTI_PHASE_FORWARD);
	for (uint32_t i = 0; i < t.graph->n_ops; i++)
		if (t.graph->kind[i] == TAUT_OP_KERNEL)
			assert_int_equal(t.job->step_of[i], 0);
	forget(&t);
	wt_end(&w);
}

/* Without a word of autograd, names tell. */
static void test_phases_by_name(void **state)
{
	struct wt w = wt_begin();
	struct told t;

	(void)state;
	wt_rank(&w, 0);
	range(&w, "ProfilerStep#0", 0, 900);
	wt_kernel(&w, "model/dense/MatMul", 1, 10, 20, 5, 7, 100, 100, 1);
	wt_kernel(&w, "gradient_tape/dense/MatMul", 1, 10, 40, 5, 7, 200, 100,
		2);
	wt_kernel(&w, "Adam/ResourceApplyAdam", 1, 10, 60, 5, 7, 300, 100, 3);
	t = understand(wt_open(&w));
	assert_int_equal(
		phase_of(&t, "model/dense/MatMul"), TAUTI_PHASE_FORWARD);
	assert_int_equal(phase_of(&t, "gradient_tape/dense/MatMul"),
		TAUTI_PHASE_BACKWARD);
	assert_int_equal(
		phase_of(&t, "Adam/ResourceApplyAdam"), TAUTI_PHASE_OPTIMIZER);
	forget(&t);
	wt_end(&w);
}

static struct told open_real(const char *path)
{
	struct taut_run *run = NULL;
	struct taut_error err = { 0 };

	if (taut_run_open(&path, 1, NULL, &run, &err))
		fail_msg("%s", err.message);
	return understand(run);
}

/* DDP over gloo: two buckets a step and two broadcasts of buffers, by what
 * examples/README.md says of the jobs. */
static void check_example(const char *path)
{
	struct told t = open_real(path);
	uint32_t sums = 0, first = t.job->steps[0].n_gradients;

	for (uint32_t c = 0; c < t.graph->n_collectives; c++)
		sums += t.graph->collectives[c].kind == TAUT_COLL_ALLREDUCE;
	assert_int_equal(first * t.graph->n_steps,
		sums * t.graph->run->n_traces);
	for (uint32_t s = 0; s < t.job->n_steps; s++) {
		const struct tauti_job_step *step = &t.job->steps[s];

		assert_int_equal(step->n_gradients, first);
		for (uint32_t i = 0; i < first; i++)
			assert_int_equal(t.graph->collectives[t.job->gradients[
				step->first_gradient + i]].kind,
				TAUT_COLL_ALLREDUCE);
	}
	assert_int_equal(
		phase_of(&t, "DistributedDataParallel.forward"),
		TAUTI_PHASE_FORWARD);
	assert_int_equal(phase_of(&t, "Optimizer.step#SGD.step"),
		TAUTI_PHASE_OPTIMIZER);
	assert_int_equal(phase_of(&t, "ConvolutionBackward0"),
		TAUTI_PHASE_BACKWARD);
	assert_int_equal(phase_of(&t, "gloo:broadcast"), TAUTI_PHASE_FORWARD);
	forget(&t);
}

static void test_examples(void **state)
{
	(void)state;
	check_example("examples/ddp-gloo-2host");
	check_example("examples/ddp-gloo-late-rank");
}

static void test_no_memory(void **state)
{
	struct wt w = wt_begin();
	struct told t;
	taut_status status = TAUT_ENOMEM;

	(void)state;
	write_host_rank(&w, 0);
	write_host_rank(&w, 1);
	t = understand(wt_open(&w));
	for (long n = 0; status == TAUT_ENOMEM; n++) {
		struct tauti_job *job = NULL;
		struct taut_error err = { 0 };

		alloc_fail_after(n);
		status = tauti_job_create(t.graph, &job, &err);
		alloc_fail_never();
		tauti_job_destroy(job);
	}
	assert_int_equal(status, TAUT_OK);
	forget(&t);
	wt_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_phases_on_the_host),
		cmocka_unit_test(test_gradients),
		cmocka_unit_test(test_sums_within_a_pass),
		cmocka_unit_test(test_phases_on_a_device),
		cmocka_unit_test(test_phases_by_name),
		cmocka_unit_test(test_examples),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

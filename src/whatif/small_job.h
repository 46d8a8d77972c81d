/* small_job.h - jobs of which some numbers can be worked out by hand: for tests only.
 * Times are in milliseconds. */
#ifndef TAUT_WHATIF_SMALL_JOB_H
#define TAUT_WHATIF_SMALL_JOB_H

#include <math.h>
#include <stdbool.h>

#include <taut/whatif.h>

#include "tests/support/unit.h"
#include "tests/support/write_trace.h"

struct job {
	struct wt w;
	struct taut_run *run;
	struct taut_graph *graph;
};

static inline void event(struct wt *w, const char *cat, const char *name, int tid,
	double ms, double dur_ms, const char *args)
{
	wt_event(w, cat, name, 10, tid, ms * 1000, dur_ms * 1000, args);
}

/* A step of 1000 on the main thread 10, with an all-reduce on thread 20:
 *     0 batch 100 forward 300 backward 600 gradient 650 all-reduce 850
 *     gradients back 900 update 1000 */
static inline void ddp_step(struct wt *w, int step, double at)
{
	char name[32], seq[64];

	snprintf(name, sizeof name, "ProfilerStep#%d", step);
	snprintf(seq, sizeof seq, "\"Sequence number\":%d", 7 + step);
	event(w, "user_annotation", name, 10, at, 1000, "");
	event(w, "user_annotation",
		"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
		10, at, 100, "");
	event(w, "cpu_op", "aten::conv2d", 10, at + 100, 200, seq);
	event(w, "cpu_op", "autograd::engine::evaluate_function: "
		"ConvolutionBackward0", 10, at + 300, 300, seq);
	event(w, "cpu_op", "autograd::engine::evaluate_function: "
		"torch::autograd::AccumulateGrad", 10, at + 600, 50, "");
	event(w, "cpu_op", "torch::distributed::reducer::mul_out", 10,
		at + 610, 30, "");
	event(w, "cpu_op", "c10d::allreduce_", 10, at + 650, 0.001, "");
	event(w, "user_annotation", "gloo:all_reduce", 20, at + 650, 200, "");
	event(w, "cpu_op", "torch.distributed.ddp.reducer::copy_bucket_to_grad",
		10, at + 850, 50, "");
	event(w, "user_annotation", "Optimizer.step#SGD.step", 10, at + 900,
		100, "");
}

static inline void ddp_rank(struct wt *w, int rank)
{
	wt_rank(w, rank);
	for (int s = 0; s < 4; s++)
		ddp_step(w, s, 1000.0 * s);
}

static inline void open_job(struct job *j)
{
	struct taut_error err = { 0 };

	j->run = wt_open(&j->w);
	if (taut_graph_build(j->run, NULL, &j->graph, &err))
		fail_msg("%s", err.message);
}

static inline struct job ddp_job(void)
{
	struct job j = { .w = wt_begin() };

	ddp_rank(&j.w, 0);
	ddp_rank(&j.w, 1);
	open_job(&j);
	return j;
}

/* Kernels of 300, 50, 30 forward and 400 backward, 20 and 10 for the update;
 * their launches take 10 each, and the host then waits for the device. */
static inline void device_step(struct wt *w, int step, double at)
{
	char name[32], seq[64];
	int c = 100 * step;

	snprintf(name, sizeof name, "ProfilerStep#%d", step);
	snprintf(seq, sizeof seq, "\"Sequence number\":%d", 7 + step);
	event(w, "user_annotation", name, 10, at, 840, "");
	event(w, "cpu_op", "aten::linear", 10, at, 40, seq);
	wt_kernel(w, "sgemm_forward", 10, 10, at * 1e3, 10e3, 7,
		(at + 20) * 1e3, 300e3, c + 1);
	wt_kernel(w, "vectorized_elementwise_kernel", 10, 10, (at + 10) * 1e3,
		10e3, 7, (at + 320) * 1e3, 50e3, c + 2);
	wt_kernel(w, "vectorized_elementwise_kernel", 10, 10, (at + 20) * 1e3,
		10e3, 7, (at + 370) * 1e3, 30e3, c + 3);
	event(w, "cpu_op", "autograd::engine::evaluate_function: "
		"AddmmBackward0", 10, at + 40, 20, seq);
	wt_kernel(w, "sgemm_backward", 10, 10, (at + 40) * 1e3, 10e3, 7,
		(at + 400) * 1e3, 400e3, c + 4);
	event(w, "user_annotation", "Optimizer.step#Adam.step", 10, at + 60,
		20, "");
	wt_kernel(w, "adam_a", 10, 10, (at + 60) * 1e3, 10e3, 7,
		(at + 800) * 1e3, 20e3, c + 5);
	wt_kernel(w, "adam_b", 10, 10, (at + 70) * 1e3, 10e3, 7,
		(at + 820) * 1e3, 10e3, c + 6);
	event(w, "cuda_runtime", "cudaDeviceSynchronize", 10, at + 80, 760, "");
}

static inline struct job device_job(void)
{
	struct job j = { .w = wt_begin() };

	wt_rank(&j.w, 0);
	for (int s = 0; s < 4; s++)
		device_step(&j.w, s, 840.0 * s);
	open_job(&j);
	return j;
}

/* Waits at the begin of each step for the step before, as what measures steps
 * does, and for another one where it says so: 4 in the forward pass. */
static inline struct job waiting_job(bool within)
{
	struct job j = { .w = wt_begin() };

	wt_rank(&j.w, 0);
	for (int s = 0; s < 4; s++) {
		double at = 100.0 * s;
		char name[32], seq[64];

		snprintf(name, sizeof name, "ProfilerStep#%d", s);
		snprintf(seq, sizeof seq, "\"Sequence number\":%d", 7 + s);
		event(&j.w, "user_annotation", name, 10, at, 100, "");
		event(&j.w, "cuda_runtime", "cudaDeviceSynchronize", 10, at,
			20.1, "");
		event(&j.w, "cpu_op", "aten::linear", 10, at + 30, 20, seq);
		wt_kernel(&j.w, "gemm", 10, 10, (at + 30) * 1e3, 2e3, 7,
			(at + 31) * 1e3, 8e3, 10 * s + 1);
		if (within)
			event(&j.w, "cuda_runtime", "cudaStreamSynchronize",
				10, at + 35, 4.1, "");
		event(&j.w, "cpu_op", "autograd::engine::evaluate_function: "
			"AddmmBackward0", 10, at + 60, 30, seq);
		wt_kernel(&j.w, "gemm", 10, 10, (at + 60) * 1e3, 10e3, 7,
			(at + 65) * 1e3, 55e3, 10 * s + 2);
	}
	open_job(&j);
	return j;
}

static inline void close_job(struct job *j)
{
	taut_graph_destroy(j->graph);
	taut_run_close(j->run);
	wt_end(&j->w);
}

static inline double step_with(const struct job *j, const char *const *changes,
	size_t n)
{
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };
	double ms;

	if (taut_predict(j->graph, changes, n, NULL, &p, &err))
		fail_msg("%s: %s", changes[0], err.message);
	ms = (double)p->after_ns / 1e6;
	assert_true(p->low_ns <= p->after_ns && p->after_ns <= p->high_ns);
	taut_prediction_destroy(p);
	return ms;
}

static inline double with(const struct job *j, const char *change)
{
	return step_with(j, &change, 1);
}

static inline void assert_near(double a, double b)
{
	if (fabs(a - b) > 0.01)
		fail_msg("%.4f is not %.4f", a, b);
}

static inline void either_order(const struct job *j, const char *a, const char *b,
	double ms)
{
	const char *const one[] = { a, b }, *const other[] = { b, a };

	assert_near(step_with(j, one, 2), ms);
	assert_near(step_with(j, other, 2), ms);
}

static inline void assert_close(double a, double b) /* to 10 ns */
{
	if (fabs(a - b) > 1e-5)
		fail_msg("%.6f is not %.6f", a, b);
}

static inline void refuses(const struct job *j, const char *change, const char *words)
{
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };

	assert_int_equal(taut_predict(j->graph, &change, 1, NULL, &p, &err),
		TAUT_EINVAL);
	if (!strstr(err.message, words) || strchr(err.message, '\n'))
		fail_msg("%s: %s", change, err.message);
}

/* Three blocks on a host: each a normalisation of 40 and an activation of 10
 * forward, 80 and 20 backward, last block first. */
static inline void block_step(struct wt *w, int step, double at)
{
	char name[32], seq[64];

	snprintf(name, sizeof name, "ProfilerStep#%d", step);
	event(w, "user_annotation", name, 10, at, 500, "");
	for (int b = 0; b < 3; b++) {
		double forward = at + 50 * b, back = at + 350 - 100 * b;
		int first = 6 * step + 2 * b + 1;

		snprintf(name, sizeof name, "nn.Module: block%d", b);
		event(w, "user_annotation", name, 10, forward, 50, "");
		snprintf(seq, sizeof seq, "\"Sequence number\":%d", first);
		event(w, "cpu_op", "aten::batch_norm", 10, forward, 40, seq);
		event(w, "cpu_op", "autograd::engine::evaluate_function: "
			"NativeBatchNormBackward0", 10, back + 20, 80, seq);
		snprintf(seq, sizeof seq, "\"Sequence number\":%d", first + 1);
		event(w, "cpu_op", "aten::relu", 10, forward + 40, 10, seq);
		event(w, "cpu_op", "autograd::engine::evaluate_function: "
			"ReluBackward0", 10, back, 20, seq);
	}
	event(w, "user_annotation", "Optimizer.step#SGD.step", 10, at + 450,
		50, "");
}

static inline struct job block_job(void)
{
	struct job j = { .w = wt_begin() };

	wt_rank(&j.w, 0);
	for (int s = 0; s < 4; s++)
		block_step(&j.w, s, 500.0 * s);
	open_job(&j);
	return j;
}

#endif /* TAUT_WHATIF_SMALL_JOB_H */

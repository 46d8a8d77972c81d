/* memory_test.c - the peak of a changed job, of recordings whose blocks are
 * known: what grows with the batch, and what is given back and made again. */
#include <stdbool.h>

#include <taut/whatif.h>

#include "tests/support/unit.h"
#include "tests/support/write_trace.h"

struct job {
	struct wt w;
	struct taut_run *run;
	struct taut_graph *graph;
};

/* Times in ms. Sizes are whole thousands. */
static void event(struct wt *w, const char *cat, const char *name, double at,
	double dur, const char *args)
{
	wt_event(w, cat, name, 10, 10, at * 1000, dur * 1000, args);
}

static void memory_on(struct wt *w, int device, double at, int bytes,
	int address)
{
	fprintf(w->out, ",\n{\"ph\":\"i\",\"cat\":\"cpu_instant_event\","
		"\"s\":\"t\",\"name\":\"[memory]\",\"pid\":10,\"tid\":10,"
		"\"ts\":%.3f,\"args\":{\"Total Allocated\":1000000,"
		"\"Addr\":%d,\"Bytes\":%d,\"Device Id\":%d,"
		"\"Device Type\":%d}}", at * 1000, address, bytes, device,
		device >= 0);
}

static void memory(struct wt *w, double at, int bytes, int address)
{
	memory_on(w, -1, at, bytes, address);
}

/* Three blocks of layers. Each makes 6,000 that its backward pass frees, then
 * 1,000 that it hands on, and a gradient, which is made once and then put where
 * it stays until the update. */
static void step(struct wt *w, int number, double at, int gradient,
	bool in_place)
{
	char name[32], seq[64];

	snprintf(name, sizeof name, "ProfilerStep#%d", number);
	event(w, "user_annotation", name, at, 500, "");
	event(w, "user_annotation", "nn.Module: all", at, 150, "");
	for (int b = 0; b < 3; b++) {
		double forward = at + 50 * b, back = at + 350 - 100 * b;
		int first = 6 * number + 2 * b + 1;
		int place = 100 * number + 10 * b + 1;

		snprintf(name, sizeof name, "nn.Module: block%d", b);
		event(w, "user_annotation", name, forward, 50, "");
		snprintf(seq, sizeof seq, "\"Sequence number\":%d", first);
		event(w, "cpu_op", "aten::batch_norm", forward, 40, seq);
		memory(w, forward + 20, 6000, place);
		event(w, "cpu_op", "autograd::engine::evaluate_function: "
			"NativeBatchNormBackward0", back + 20, 70, seq);
		event(w, "cpu_op", "autograd::engine::evaluate_function: "
			"torch::autograd::AccumulateGrad", back + 90, 10, "");
		snprintf(seq, sizeof seq, "\"Sequence number\":%d", first + 1);
		event(w, "cpu_op", in_place ? "aten::relu_" : "aten::relu",
			forward + 40, 10, seq);
		if (!in_place)
			memory(w, forward + 45, 1000, place + 1);
		event(w, "cpu_op", "autograd::engine::evaluate_function: "
			"ReluBackward0", back, 20, seq);
		if (!in_place)
			memory(w, back + 10, -1000, place + 1);
		memory(w, back + 30, gradient, place + 2);
		memory(w, back + 85, -6000, place);
		memory(w, back + 92, gradient, place + 3);
		memory(w, back + 95, -gradient, place + 2);
	}
	event(w, "user_annotation", "Optimizer.step#SGD.step", at + 450, 50, "");
	for (int b = 0; b < 3; b++)
		memory(w, at + 460 + b, -gradient, 100 * number + 10 * b + 4);
}

static void finish(struct job *j)
{
	struct taut_error err = { 0 };

	j->run = wt_open(&j->w);
	if (taut_graph_build(j->run, NULL, &j->graph, &err))
		fail_msg("%s", err.message);
}

static struct job open_job_of(int gradient, bool in_place)
{
	struct job j = { .w = wt_begin() };

	wt_rank(&j.w, 0);
	for (int s = 0; s < 4; s++)
		step(&j.w, s, 500.0 * s, gradient, in_place);
	finish(&j);
	return j;
}

static struct job open_job(int gradient)
{
	return open_job_of(gradient, false);
}

/* Five products on a device, launched far ahead of it. Each makes 4,000 that its
 * gradient gives back: 10 ms apart in the forward pass from 0, in the backward
 * pass, last first, from 60. */
static void device_step(struct wt *w, int number, double at)
{
	char name[32], seq[64];
	int c = 20 * number;

	snprintf(name, sizeof name, "ProfilerStep#%d", number);
	event(w, "user_annotation", name, at, 260, "");
	for (int b = 0; b < 5; b++) {
		double host = at + 10 * b;

		snprintf(seq, sizeof seq, "\"Sequence number\":%d",
			5 * number + b + 1);
		event(w, "cpu_op", "aten::mm", host, 6, seq);
		memory_on(w, 0, host + 1, 4000, 100 * number + b + 1);
		wt_kernel(w, "sgemm", 10, 10, (host + 2) * 1e3, 1e3, 7,
			(at + 5 + 20 * b) * 1e3, 20e3, c + b + 1);
	}
	for (int b = 4; b >= 0; b--) {
		double host = at + 60 + 10 * (4 - b);

		snprintf(seq, sizeof seq, "\"Sequence number\":%d",
			5 * number + b + 1);
		event(w, "cpu_op", "autograd::engine::evaluate_function: "
			"MmBackward0", host, 8, seq);
		wt_kernel(w, "sgemm_backward", 10, 10, (host + 2) * 1e3, 1e3, 7,
			(at + 105 + 30 * (4 - b)) * 1e3, 30e3, c + 10 - b);
		memory_on(w, 0, host + 6, -4000, 100 * number + b + 1);
	}
	event(w, "user_annotation", "Optimizer.step#SGD.step", at + 120, 10, "");
	event(w, "cuda_runtime", "cudaDeviceSynchronize", at + 130, 130, "");
}

/* The same of five layers in a module, with a ReLU behind each product, which
 * makes 2,000 that its own gradient gives back, 5 ms before the product's. */
static void layer_step(struct wt *w, int number, double at)
{
	char name[32], seq[64];
	int c = 40 * number;

	snprintf(name, sizeof name, "ProfilerStep#%d", number);
	event(w, "user_annotation", name, at, 320, "");
	event(w, "user_annotation", "nn.Module: all", at, 50, "");
	for (int b = 0; b < 5; b++) {
		double host = at + 10 * b, back = at + 60 + 10 * (4 - b);
		double on = at + 5 + 21 * b, off = at + 110 + 31 * (4 - b);
		int first = 10 * number + 2 * b + 1;
		int place = 100 * number + 2 * b + 1;

		snprintf(seq, sizeof seq, "\"Sequence number\":%d", first);
		event(w, "cpu_op", "aten::mm", host, 6, seq);
		memory_on(w, 0, host + 1, 4000, place);
		wt_kernel(w, "sgemm", 10, 10, (host + 2) * 1e3, 1e3, 7,
			on * 1e3, 20e3, c + 4 * b + 1);
		event(w, "cpu_op", "autograd::engine::evaluate_function: "
			"MmBackward0", back + 3, 5, seq);
		wt_kernel(w, "sgemm_backward", 10, 10, (back + 4) * 1e3, 1e3,
			7, (off + 1) * 1e3, 30e3, c + 4 * b + 2);
		memory_on(w, 0, back + 6, -4000, place);
		snprintf(seq, sizeof seq, "\"Sequence number\":%d", first + 1);
		event(w, "cpu_op", "aten::relu", host + 6, 3, seq);
		memory_on(w, 0, host + 6.5, 2000, place + 1);
		wt_kernel(w, "relu", 10, 10, (host + 7) * 1e3, 1e3, 7,
			(on + 20) * 1e3, 1e3, c + 4 * b + 3);
		event(w, "cpu_op", "autograd::engine::evaluate_function: "
			"ReluBackward0", back, 3, seq);
		wt_kernel(w, "relu_backward", 10, 10, (back + 1) * 1e3, 1e3,
			7, off * 1e3, 1e3, c + 4 * b + 4);
		memory_on(w, 0, back + 2, -2000, place + 1);
	}
	event(w, "user_annotation", "Optimizer.step#SGD.step", at + 110, 10, "");
	event(w, "cuda_runtime", "cudaDeviceSynchronize", at + 120, 200, "");
}

static struct job job_of(
	void (*write_step)(struct wt *w, int number, double at), double ms)
{
	struct job j = { .w = wt_begin() };

	wt_rank(&j.w, 0);
	for (int s = 0; s < 4; s++)
		write_step(&j.w, s, ms * s);
	finish(&j);
	return j;
}

static struct job open_device_job(void)
{
	return job_of(device_step, 260);
}

static void close_job(struct job *j)
{
	taut_graph_destroy(j->graph);
	taut_run_close(j->run);
	wt_end(&j->w);
}

/* Of a stack; the step's time beside it. */
static int64_t peak_of(const struct job *j, const char *const *changes, size_t n,
	int64_t *ret_ns)
{
	struct taut_whatif_options options = { .threads = 1, .no_graph = 1 };
	struct taut_prediction *p;
	struct taut_error err = { 0 };
	int64_t after;

	if (taut_predict(j->graph, changes, n, &options, &p, &err))
		fail_msg("%s: %s", changes[0], err.message);
	after = p->memory_after;
	*ret_ns = p->after_ns;
	taut_prediction_destroy(p);
	return after;
}

static int64_t peak(const struct job *j, const char *change)
{
	int64_t ns;

	return peak_of(j, &change, 1, &ns);
}

/* The same in either order; returns the step. */
static int64_t expect_both(const struct job *j, const char *a, const char *b,
	int64_t bytes)
{
	const char *const one[] = { a, b }, *const other[] = { b, a };
	int64_t ns, other_ns;

	assert_int_equal(peak_of(j, one, 2, &ns), bytes);
	assert_int_equal(peak_of(j, other, 2, &other_ns), bytes);
	assert_int_equal(ns, other_ns);
	return ns;
}

/* Of the host's memory what was there before is not known. Most is needed when
 * forward is done. */
static void test_batch(void **state)
{
	struct job j = open_job(500);

	(void)state;
	assert_int_equal(peak(&j, "batch=1x"), 3 * 7000);
	assert_int_equal(peak(&j, "batch=2x"), 2 * 3 * 7000);
	close_job(&j);
}

/* Where gradients are large, backward needs most when the last one is put where
 * it stays: that does not grow, though the backward pass itself frees it. */
static void test_gradients_stay(void **state)
{
	struct job j = open_job(30000);

	(void)state;
	assert_int_equal(peak(&j, "batch=1x"), 4 * 30000);
	assert_int_equal(peak(&j, "batch=2x"), 4 * 30000);
	close_job(&j);
}

/* A gradient of 64,000, and beside it what was made of the weights, in rows that
 * are a thirty-second longer; an activation of 7,000. */
static void layout_step(struct wt *w, int number, double at)
{
	char name[32], seq[64];
	int place = 10 * number + 1;

	snprintf(name, sizeof name, "ProfilerStep#%d", number);
	snprintf(seq, sizeof seq, "\"Sequence number\":%d", number + 1);
	event(w, "user_annotation", name, at, 200, "");
	event(w, "cpu_op", "aten::linear", at, 50, seq);
	memory(w, at + 10, 7000, place);
	event(w, "cpu_op", "autograd::engine::evaluate_function: "
		"AddmmBackward0", at + 50, 100, seq);
	memory(w, at + 60, 64000, place + 1);
	memory(w, at + 70, 66000, place + 2);
	memory(w, at + 90, -66000, place + 2);
	memory(w, at + 95, -7000, place);
	event(w, "cpu_op", "autograd::engine::evaluate_function: "
		"torch::autograd::AccumulateGrad", at + 150, 10, "");
	event(w, "user_annotation", "Optimizer.step#SGD.step", at + 160, 40,
		"");
	memory(w, at + 170, -64000, place + 1);
}

static void test_layouts_stay(void **state)
{
	struct job j = job_of(layout_step, 200);

	(void)state;
	assert_int_equal(peak(&j, "batch=1x"), 7000 + 64000 + 66000);
	assert_int_equal(peak(&j, "batch=2x"), 2 * 7000 + 64000 + 66000);
	close_job(&j);
}

/* What is made again: all of it but what the next block begins with goes. */
static void test_recompute(void **state)
{
	struct job j = open_job(500);

	(void)state;
	/* outputs of three, and the last block once more */
	assert_int_equal(peak(&j, "recompute=nn.Module: block*"),
		3 * 1000 + 7000);
	/* block 0, what block 1 begins and is made of, a gradient */
	assert_int_equal(peak(&j, "recompute=nn.Module: block1"),
		7000 + 1000 + 7000 + 500);
	close_job(&j);
}

/* Of a gradient asked for in each micro-batch the first one alone stays until the
 * update. */
static void test_micro_batches(void **state)
{
	struct job j = open_job(500);
	int64_t two = peak(&j, "accumulate=2");

	(void)state;
	assert_int_equal(two, 3 * 7000 + 3 * 500);
	close_job(&j);
	/* the last block's, which is then added */
	j = open_job(30000);
	assert_int_equal(peak(&j, "accumulate=2"),
		3 * 30000 + 3 * 6000 + 2 * 1000 + 30000);
	close_job(&j);
}

/* What a ReLU made is half as large until its gradient: all that is larger is the
 * one that is not encoded yet. */
static void test_gist(void **state)
{
	struct job j = open_job(500);

	(void)state;
	assert_int_equal(peak(&j, "gist"), 3 * 6000 + 2 * 500 + 1000);
	assert_int_equal(peak(&j, "gist,left=0%"), 3 * 6000 + 1000);
	assert_int_equal(peak(&j, "gist,left=100%"), 3 * 7000);
	close_job(&j);
}

/* What an activation in place works on is that of the operator before. */
static void test_gist_in_place(void **state)
{
	struct job j = open_job_of(500, true);

	(void)state;
	assert_int_equal(peak(&j, "batch=1x"), 3 * 6000 + 500);
	assert_int_equal(peak(&j, "gist"), 2 * 3000 + 6000 + 500);
	close_job(&j);
}

/* Each goes when the next product is launched, but for the last one; in the
 * backward pass two come before they are wanted, so that three are there. */
static void test_offload(void **state)
{
	struct job j = open_device_job();

	(void)state;
	assert_int_equal(peak(&j, "device=1x"), 996000 + 5 * 4000);
	assert_int_equal(peak(&j, "offload=1MB"), 996000 + 3 * 4000);
	assert_int_equal(peak(&j, "offload=10kB"),
		996000 + 2 * 2000 + 3 * 4000);
	close_job(&j);
}

/* Copies of a rank do the same, whichever comes first. */
static void test_offload_of_copies(void **state)
{
	struct job j = open_device_job();
	const char *world = "world=2,link=1tbit,gradients=1kB";

	(void)state;
	expect_both(&j, "offload=1MB", world, 996000 + 3 * 4000);
	expect_both(&j, "offload=10kB", world, 996000 + 2 * 2000 + 3 * 4000);
	close_job(&j);
}

/* Each micro-batch moves its own, and needs what one alone does. */
static void test_offload_of_micro_batches(void **state)
{
	struct job j = open_device_job();
	const char *two = "accumulate=2";
	int64_t alone_ns, ns;

	(void)state;
	(void)peak_of(&j, &two, 1, &alone_ns);
	ns = expect_both(&j, "offload=10kB", two, 996000 + 2 * 2000 + 3 * 4000);
	assert_in_range(ns, alone_ns, alone_ns + 2000);
	close_job(&j);
}

/* So many bytes are a quarter of twice as large a batch. */
static void test_offload_of_a_batch(void **state)
{
	struct job j = open_device_job();

	(void)state;
	expect_both(&j, "offload=10kB", "batch=2x",
		996000 + 2 * 6000 + 3 * 8000);
	close_job(&j);
}

/* --- stacks ----------------------------------------------------------------------- */

/* Of what is made again nothing is kept: but what it leaves when it was made
 * again is kept encoded, until its gradient. */
static void test_recompute_and_gist(void **state)
{
	struct job j = open_job(500);

	(void)state;
	/* what the module hands on, and all of it once more */
	assert_int_equal(peak(&j, "recompute=nn.Module: all"),
		1000 + 3 * 7000);
	/* the former encoded; of what is made again two are, one not yet */
	expect_both(&j, "recompute=nn.Module: all", "gist",
		500 + 3 * 6000 + 2 * 500 + 1000);
	expect_both(&j, "gist", "recompute=nn.Module: block*",
		3 * 500 + 6000 + 1000);
	close_job(&j);
}

/* Micro-batches make theirs again each: beside the gradients of the first one
 * the second needs what one alone does. */
static void test_recompute_in_micro_batches(void **state)
{
	struct job j = open_job(500);

	(void)state;
	expect_both(&j, "accumulate=2", "recompute=nn.Module: block*",
		3 * 1000 + 7000 + 3 * 500);
	close_job(&j);
}

/* What is encoded moves as it is. Of all it is half of what a ReLU made. */
static void test_gist_and_offload(void **state)
{
	struct job j = job_of(layer_step, 320);

	(void)state;
	assert_int_equal(peak(&j, "gist"),
		996000 + 5 * 4000 + 4 * 1000 + 2000);
	assert_int_equal(peak(&j, "offload=1MB"), 996000 + 3 * 6000);
	/* three layers, the ReLU of one decoded */
	expect_both(&j, "gist", "offload=1MB",
		996000 + 3 * 4000 + 2 * 1000 + 2000);
	/* of 25,000 a half: so is what stays of the other two */
	expect_both(&j, "gist", "offload=12.5kB",
		996000 + 3 * 4000 + 2 * 1000 + 2000 + 2 * (2000 + 500));
	close_job(&j);
}

/* What is made again does not move, and what the module hands on is wanted at
 * once; copies of next to nothing take no time. */
static void test_recompute_and_offload(void **state)
{
	struct job j = job_of(layer_step, 320);
	const char *again = "recompute=nn.Module: all";
	int64_t alone_ns, ns;

	(void)state;
	assert_int_equal(peak_of(&j, &again, 1, &alone_ns),
		996000 + 2000 + 5 * 6000);
	ns = expect_both(&j, again, "offload=1kB",
		996000 + 2000 + 5 * 6000);
	assert_in_range(ns, alone_ns, alone_ns + 1000);
	close_job(&j);
}

static void test_all_three(void **state)
{
	static const char *const is[] = { "recompute=nn.Module: all", "gist",
		"offload=1MB" };
	static const uint8_t orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 },
		{ 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
	struct job j = job_of(layer_step, 320);
	int64_t first_ns = 0, ns;

	(void)state;
	for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
		const char *const changes[] = { is[orders[i][0]],
			is[orders[i][1]], is[orders[i][2]] };

		/* the module's, encoded, and all of it again, of which one
		 * ReLU's is not encoded yet */
		assert_int_equal(peak_of(&j, changes, 3, &ns),
			996000 + 1000 + 5 * 4000 + 4 * 1000 + 2000);
		first_ns = i ? first_ns : ns;
		assert_int_equal(ns, first_ns);
	}
	close_job(&j);
}

/* As much more as is asked for. */
static void test_too_large(void **state)
{
	struct job j = open_job(500);

	(void)state;
	assert_true(peak(&j, "batch=1000000x") == 3 * 7000000000);
	close_job(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_batch),
		cmocka_unit_test(test_gradients_stay),
		cmocka_unit_test(test_layouts_stay),
		cmocka_unit_test(test_recompute),
		cmocka_unit_test(test_micro_batches),
		cmocka_unit_test(test_gist),
		cmocka_unit_test(test_gist_in_place),
		cmocka_unit_test(test_offload),
		cmocka_unit_test(test_offload_of_copies),
		cmocka_unit_test(test_offload_of_micro_batches),
		cmocka_unit_test(test_offload_of_a_batch),
		cmocka_unit_test(test_recompute_and_gist),
		cmocka_unit_test(test_recompute_in_micro_batches),
		cmocka_unit_test(test_gist_and_offload),
		cmocka_unit_test(test_recompute_and_offload),
		cmocka_unit_test(test_all_three),
		cmocka_unit_test(test_too_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* memory_test.c - the peak of a changed job, of recordings whose blocks are
 * known: what grows with the batch, and what is given back and made again. */
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

static void memory(struct wt *w, double at, int bytes, int address)
{
	fprintf(w->out, ",\n{\"ph\":\"i\",\"cat\":\"cpu_instant_event\","
		"\"s\":\"t\",\"name\":\"[memory]\",\"pid\":10,\"tid\":10,"
		"\"ts\":%.3f,\"args\":{\"Total Allocated\":1000000,"
		"\"Addr\":%d,\"Bytes\":%d,\"Device Id\":-1,"
		"\"Device Type\":0}}", at * 1000, address, bytes);
}

/* Three blocks of layers. Each makes 6,000 that its backward pass frees, then
 * 1,000 that it hands on, and a gradient, which is made once and then put where
 * it stays until the update. */
static void step(struct wt *w, int number, double at, int gradient)
{
	char name[32], seq[64];

	snprintf(name, sizeof name, "ProfilerStep#%d", number);
	event(w, "user_annotation", name, at, 500, "");
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
		event(w, "cpu_op", "aten::relu", forward + 40, 10, seq);
		memory(w, forward + 45, 1000, place + 1);
		event(w, "cpu_op", "autograd::engine::evaluate_function: "
			"ReluBackward0", back, 20, seq);
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

static struct job open_job(int gradient)
{
	struct job j = { .w = wt_begin() };
	struct taut_error err = { 0 };

	wt_rank(&j.w, 0);
	for (int s = 0; s < 4; s++)
		step(&j.w, s, 500.0 * s, gradient);
	j.run = wt_open(&j.w);
	if (taut_graph_build(j.run, NULL, &j.graph, &err))
		fail_msg("%s", err.message);
	return j;
}

static void close_job(struct job *j)
{
	taut_graph_destroy(j->graph);
	taut_run_close(j->run);
	wt_end(&j->w);
}

static int64_t peak(const struct job *j, const char *change)
{
	struct taut_whatif_options options = { .threads = 1, .no_graph = 1 };
	struct taut_prediction *p;
	struct taut_error err = { 0 };
	int64_t after;

	if (taut_predict(j->graph, &change, 1, &options, &p, &err))
		fail_msg("%s: %s", change, err.message);
	after = p->memory_after;
	taut_prediction_destroy(p);
	return after;
}

/* 994,000 were there before. Most are needed when forward is done. */
static void test_batch(void **state)
{
	struct job j = open_job(500);

	(void)state;
	assert_int_equal(peak(&j, "batch=1x"), 994000 + 3 * 7000);
	assert_int_equal(peak(&j, "batch=2x"), 994000 + 2 * 3 * 7000);
	close_job(&j);
}

/* Where gradients are large, backward needs most when the last one is put where
 * it stays: that does not grow, though the backward pass itself frees it. */
static void test_gradients_stay(void **state)
{
	struct job j = open_job(30000);

	(void)state;
	assert_int_equal(peak(&j, "batch=1x"), 994000 + 4 * 30000);
	assert_int_equal(peak(&j, "batch=2x"), 994000 + 4 * 30000);
	close_job(&j);
}

/* What is made again: all of it but what the next block begins with goes. */
static void test_recompute(void **state)
{
	struct job j = open_job(500);

	(void)state;
	/* outputs of three, and the last block once more */
	assert_int_equal(peak(&j, "recompute=nn.Module: block*"),
		994000 + 3 * 1000 + 7000);
	/* block 0, what block 1 begins and is made of, a gradient */
	assert_int_equal(peak(&j, "recompute=nn.Module: block1"),
		994000 + 7000 + 1000 + 7000 + 500);
	close_job(&j);
}

/* A block asked for in each micro-batch, and given back by the update alone,
 * does not stay. */
static void test_micro_batches(void **state)
{
	struct job j = open_job(500);
	int64_t two = peak(&j, "accumulate=2");

	(void)state;
	assert_int_equal(two, 994000 + 3 * 7000 + 3 * 500);
	close_job(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_batch),
		cmocka_unit_test(test_gradients_stay),
		cmocka_unit_test(test_recompute),
		cmocka_unit_test(test_micro_batches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

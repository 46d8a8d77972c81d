/* microbatches_test.c - a batch in parts, of a job whose answers can be worked out
 * by hand. Times are in milliseconds. */
#include "tests/support/alloc_fail.h"
#include "whatif/small_job.h"

enum { STEP = 1040 };

static void memory(struct wt *w, double at, int bytes, int address)
{
	fprintf(w->out, ",\n{\"ph\":\"i\",\"cat\":\"cpu_instant_event\","
		"\"s\":\"t\",\"name\":\"[memory]\",\"pid\":10,\"tid\":10,"
		"\"ts\":%.3f,\"args\":{\"Total Allocated\":1000000,"
		"\"Addr\":%d,\"Bytes\":%d,\"Device Id\":-1,"
		"\"Device Type\":0}}", at * 1000, address, bytes);
}

/* From and to which instant, of how many bytes: what the model keeps, and what
 * it needs while it computes; what it returns; of the loss; of that the gradient;
 * of the backward pass; the gradient of weights. */
static const struct {
	double from, to;
	int bytes;
} blocks[] = {
	{ 150, 500, 6000 }, { 200, 250, 500 }, { 290, 330, 1000 },
	{ 310, 335, 3000 }, { 325, 400, 1000 }, { 450, 550, 4000 },
	{ 600, 1000, 2000 },
};
enum { N_BLOCKS = sizeof blocks / sizeof *blocks };

/* A batch normalization in the model; training "": not told. */
static void normalize(struct wt *w, double at, const char *training)
{
	char says[96] = "";

	if (*training)
		snprintf(says, sizeof says, "\"Concrete Inputs\":[\"\",\"\",\"\","
			"\"\",\"\",\"%s\",\"0.1\"]", training);
	event(w, "cpu_op", "aten::batch_norm", 10, at, 100, says);
	event(w, "cpu_op", "aten::native_batch_norm", 10, at + 10, 80, "");
}

/* 0 batch 100 the model 300 loss 320 its gradient 340 the model's backward pass 640
 * gradient 690 all-reduce 890 gradients back 940 update 1040 */
static void wrapped_step(
	struct wt *w, int step, double at, const char *training)
{
	char name[32], model[64], loss[64];

	snprintf(name, sizeof name, "ProfilerStep#%d", step);
	snprintf(model, sizeof model, "\"Sequence number\":%d", 2 * step + 7);
	snprintf(loss, sizeof loss, "\"Sequence number\":%d", 2 * step + 8);
	event(w, "user_annotation", name, 10, at, STEP, "");
	event(w, "user_annotation",
		"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
		10, at, 100, "");
	event(w, "user_annotation", "DistributedDataParallel.forward", 10,
		at + 100, 200, "");
	event(w, "cpu_op", "aten::conv2d", 10, at + 100, 200, model);
	if (training)
		normalize(w, at + 150, training);
	event(w, "cpu_op", "aten::nll_loss", 10, at + 300, 20, loss);
	event(w, "cpu_op", "autograd::engine::evaluate_function: "
		"NllLossBackward0", 10, at + 320, 20, loss);
	event(w, "cpu_op", "autograd::engine::evaluate_function: "
		"ConvolutionBackward0", 10, at + 340, 300, model);
	event(w, "cpu_op", "autograd::engine::evaluate_function: "
		"torch::autograd::AccumulateGrad", 10, at + 640, 50, "");
	event(w, "cpu_op", "torch::distributed::reducer::mul_out", 10,
		at + 650, 30, "");
	event(w, "cpu_op", "c10d::allreduce_", 10, at + 690, 0.001, "");
	event(w, "user_annotation", "gloo:all_reduce", 20, at + 690, 200, "");
	event(w, "cpu_op", "torch.distributed.ddp.reducer::copy_bucket_to_grad",
		10, at + 890, 50, "");
	event(w, "user_annotation", "Optimizer.step#SGD.step", 10, at + 940,
		100, "");
}

static void step_memory(struct wt *w, int step, double at)
{
	for (int i = 0; i < N_BLOCKS; i++) {
		int address = 100 * step + i + 1;

		memory(w, at + blocks[i].from, blocks[i].bytes, address);
		memory(w, at + blocks[i].to, -blocks[i].bytes, address);
	}
}

/* training NULL: without a batch normalization. */
static struct job wrapped_job(const char *training, bool tells_memory)
{
	struct job j = { .w = wt_begin() };

	for (int r = 0; r < 2; r++) {
		wt_rank(&j.w, r);
		for (int s = 0; s < 4; s++) {
			wrapped_step(&j.w, s, 1000.0 + STEP * s, training);
			if (tells_memory)
				step_memory(&j.w, s, 1000.0 + STEP * s);
		}
	}
	open_job(&j);
	return j;
}

/* As batch says it, of the pass over its weights that takes 30. */
static double part_of(double dur_ms, double passes, int parts)
{
	double fixed = 0.03 + passes * 30 / dur_ms + 0.002 / dur_ms;

	return dur_ms * (fixed + (1 - fixed) / parts);
}

static double expected(int parts)
{
	double forward = part_of(200, 1, parts), back = part_of(300, 2, parts);

	return STEP - 500 + parts * (forward + back) +
		(parts - 1) * (forward + 50);
}

static void test_time(void **state)
{
	struct job j = wrapped_job(NULL, false);
	const char *change = "microbatches=2";
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };

	(void)state;
	assert_near(step_with(&j, NULL, 0), STEP);
	assert_near(with(&j, "microbatches=1"), STEP);
	assert_near(with(&j, "microbatches=2"), expected(2));
	assert_near(with(&j, "microbatches=5"), expected(5));
	/* The whole batch is summed once, and so many samples a step. */
	if (taut_predict(j.graph, &change, 1, NULL, &p, &err))
		fail_msg("%s", err.message);
	assert_true(p->samples_factor == 1);
	taut_prediction_destroy(p);
	close_job(&j);
}

static int64_t peak(const struct job *j, const char *const *changes, size_t n)
{
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };
	int64_t bytes;

	if (taut_predict(j->graph, changes, n, NULL, &p, &err))
		fail_msg("%s", err.message);
	bytes = p->memory_after;
	taut_prediction_destroy(p);
	return bytes;
}

/* What the model returns, and the loss, are of the whole batch; the part of which the
 * backward pass is the first is kept beside them. */
static void test_memory(void **state)
{
	struct job j = wrapped_job(NULL, true);
	const char *changes[] = { "microbatches=2" };
	const char *four[] = { "microbatches=4" };
	const char *less[] = { "batch=0.5x", "microbatches=2" };

	(void)state;
	assert_int_equal(peak(&j, NULL, 0), 6000 + 1000 + 3000 + 1000);
	assert_int_equal(peak(&j, changes, 1), 3000 + 1000 + 3000 + 1000);
	assert_int_equal(peak(&j, four, 1), 1500 + 1000 + 3000 + 1000);
	/* The second part's backward pass, beside the first one's gradient. */
	assert_int_equal(peak(&j, less, 2), 1500 + 1000 + 2000);
	close_job(&j);
}

static void test_refused(void **state)
{
	struct job j = wrapped_job("True", false);
	struct job plain = ddp_job();
	const char *twice[] = { "accumulate=2", "microbatches=2" };
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };

	(void)state;
	refuses(&j, "microbatches=2", "looks at all samples of a batch");
	refuses(&plain, "microbatches=2", "DistributedDataParallel");
	refuses(&j, "microbatches=0", "from 1 to 256");
	close_job(&j);
	close_job(&plain);
	j = wrapped_job(NULL, false);
	for (int i = 0; i < 2; i++) {
		const char *pair[] = { twice[i], twice[!i] };

		assert_int_equal(taut_predict(j.graph, pair, 2, NULL, &p, &err),
			TAUT_EINVAL);
		assert_non_null(strstr(err.message, "micro-batches"));
	}
	close_job(&j);
}

/* Running statistics make each sample's result its own. */
static void test_frozen_norm(void **state)
{
	struct job frozen = wrapped_job("False", false);
	struct job untold = wrapped_job("", false);

	(void)state;
	assert_true(with(&frozen, "microbatches=2") > 0);
	refuses(&untold, "microbatches=2", "looks at all samples of a batch, or "
		"the recording does not tell that it is frozen");
	close_job(&frozen);
	close_job(&untold);
}

/* Wherever memory runs out, the prediction says so. */
static void test_no_memory(void **state)
{
	static const struct taut_whatif_options options = { .threads = 1,
		.no_graph = 1 };
	struct job j = wrapped_job(NULL, true);
	const char *change = "microbatches=3";
	taut_status status = TAUT_ENOMEM;

	(void)state;
	for (long at = 0; status; at += 1 + at / 50) {
		struct taut_prediction *p = NULL;
		struct taut_error err = { 0 };

		alloc_fail_after(at);
		status = taut_predict(j.graph, &change, 1, &options, &p, &err);
		alloc_fail_never();
		assert_true(!status || status == TAUT_ENOMEM);
		taut_prediction_destroy(p);
	}
	close_job(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_time),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_frozen_norm),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* compile_test.c - modules that are compiled: what a call takes then, when its gradients are
 * there, and of what it is told. */
#include "whatif/small_job.h"

/* What a recording says of what it compiled. */
static void tell_fact(struct job *j, const char *key, const char *value)
{
	static struct taut_fact fact;

	fact = (struct taut_fact) { key, value };
	wt_facts(j->run, &fact, 1);
}

static void test_compiled(void **state)
{
	struct job j = block_job(), device = device_job();
	const char *const with_amp[] = { "compile=nn.Module: block1,forward=0.5x,"
		"backward=0.5x", "amp=bf16" };
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };

	(void)state;
	assert_near(with(&j, "compile=nn.Module: block*,forward=0.5x,"
		"backward=0.5x"), 500 - 3 * (25 + 50));
	assert_near(with(&j, "compile=nn.module: BLOCK1,forward=2x,"
		"backward=0.1x"), 500 + 50 - 90);
	either_order(&j, "compile=nn.Module: block1,forward=0.5x,backward=0.5x",
		"accumulate=2", 500 + 450 - 2 * (25 + 50));
	refuses(&j, "compile=conv*", "no call of a module of this name");
	refuses(&j, "compile=nn.Module: block*", "block0 gives");
	tell_fact(&j, "compile.block1", "0.5 0.4 0.7 0.8 0.8 0.9");
	assert_near(with(&j, "compile=nn.Module: block1"), 500 - 25 - 20);
	refuses(&j, "compile=nn.Module: block*", "block0 gives");
	tell_fact(&j, "compile.block1", "0.5 0.4 0.7 0.8 0.8 -1");
	refuses(&j, "compile=nn.Module: block1", "does not tell");
	tell_fact(&j, "compile_not.block1", "it is a list");
	refuses(&j, "compile=nn.Module: block1", "be compiled: it is a list");
	refuses(&device, "compile=nn.Module: *", "hosts alone");
	assert_int_equal(taut_predict(j.graph, with_amp, 2, NULL, &p, &err),
		TAUT_EINVAL);
	assert_non_null(strstr(err.message, "not beside amp"));
	close_job(&j);
	close_job(&device);
}

/* Kinds by name: of blocks.0 and blocks.1 one tells. A made-again module is not
 * compiled, whichever of the two is said first. */
static void test_compiled_kinds(void **state)
{
	static const char *const both[][2] = {
		{ "recompute=nn.Module: a.1", "compile=nn.Module: a.*" },
		{ "compile=nn.Module: a.*", "recompute=nn.Module: a.1" },
	};
	struct job j = { .w = wt_begin() };
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };

	(void)state;
	wt_rank(&j.w, 0);
	for (int s = 0; s < 4; s++) {
		char name[32], seq[64];
		double at = 500.0 * s;

		snprintf(name, sizeof name, "ProfilerStep#%d", s);
		event(&j.w, "user_annotation", name, 10, at, 500, "");
		for (int b = 0; b < 2; b++) {
			snprintf(name, sizeof name, "nn.Module: a.%d", b + 10);
			event(&j.w, "user_annotation", name, 10, at + 100 * b,
				100, "");
			snprintf(seq, sizeof seq, "\"Sequence number\":%d",
				2 * s + b + 1);
			event(&j.w, "cpu_op", "aten::relu", 10, at + 100 * b,
				80, seq);
			event(&j.w, "cpu_op", "autograd::engine::"
				"evaluate_function: ReluBackward0", 10,
				at + 300 - 100 * b, 100, seq);
		}
		event(&j.w, "user_annotation", "Optimizer.step#SGD.step", 10,
			at + 400, 100, "");
	}
	open_job(&j);
	tell_fact(&j, "compile.a.*", "0.5 0.5 0.5 0.5 0.5 0.5");
	assert_near(with(&j, "compile=nn.Module: a.*"), 300);
	assert_near(with(&j, "compile=nn.Module: a.11"), 400);
	for (size_t i = 0; i < 2; i++) {
		const char *stack[] = { both[i][0], both[i][1] };

		assert_int_equal(taut_predict(j.graph, stack, 2, NULL, &p, &err),
			TAUT_EINVAL);
	}
	close_job(&j);
}

/* The gradient of the second half of a module was on its way while the first half's
 * was computed; compiled, both are there when all is computed:
 *     forward 300 backward 400 gradient 450 all-reduce ----------- 850
 *                              backward 600 gradient 650
 *     gradients back 900 update 1000 */
static void halves_step(struct wt *w, int step, double at)
{
	char name[32], first[64], second[64];

	snprintf(name, sizeof name, "ProfilerStep#%d", step);
	snprintf(first, sizeof first, "\"Sequence number\":%d", 2 * step + 1);
	snprintf(second, sizeof second, "\"Sequence number\":%d", 2 * step + 2);
	event(w, "user_annotation", name, 10, at, 1000, "");
	event(w, "user_annotation", "nn.Module: all", 10, at + 100, 200, "");
	event(w, "cpu_op", "aten::conv2d", 10, at + 100, 100, first);
	event(w, "cpu_op", "aten::conv2d", 10, at + 200, 100, second);
	event(w, "cpu_op", "autograd::engine::evaluate_function: "
		"ConvolutionBackward0", 10, at + 300, 100, second);
	event(w, "cpu_op", "autograd::engine::evaluate_function: "
		"torch::autograd::AccumulateGrad", 10, at + 400, 50, "");
	event(w, "cpu_op", "c10d::allreduce_", 10, at + 450, 0.001, "");
	event(w, "user_annotation", "gloo:all_reduce", 20, at + 450, 400, "");
	event(w, "cpu_op", "autograd::engine::evaluate_function: "
		"ConvolutionBackward0", 10, at + 450.001, 149.999, first);
	event(w, "cpu_op", "autograd::engine::evaluate_function: "
		"torch::autograd::AccumulateGrad", 10, at + 600, 50, "");
	event(w, "cpu_op", "torch.distributed.ddp.reducer::copy_bucket_to_grad",
		10, at + 850, 50, "");
	event(w, "user_annotation", "Optimizer.step#SGD.step", 10, at + 900,
		100, "");
}

static void test_compiled_gradients(void **state)
{
	struct job j = { .w = wt_begin() };

	(void)state;
	for (int rank = 0; rank < 2; rank++) {
		wt_rank(&j.w, rank);
		for (int s = 0; s < 4; s++)
			halves_step(&j.w, s, 1000.0 * s);
	}
	open_job(&j);
	assert_near(step_with(&j, NULL, 0), 1000);
	assert_near(with(&j, "compile=nn.Module: all,forward=1x,backward=1x"),
		300 + 250 + 50 + 400 + 150);
	assert_near(with(&j, "compile=nn.Module: all,forward=0.5x,"
		"backward=0.5x"), 200 + 125 + 50 + 400 + 150);
	close_job(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_compiled),
		cmocka_unit_test(test_compiled_kinds),
		cmocka_unit_test(test_compiled_gradients),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

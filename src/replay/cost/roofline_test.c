/* roofline_test.c - work by hand, and machines that were made up. */
#include "tests/support/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "replay/cost/opwork.h"

#include "tests/support/alloc_fail.h"

static void near(double got, double expected, double within)
{
	if (!(fabs(got - expected) <= within * fabs(expected)))
		fail_msg("%.17g, expected %.17g", got, expected);
}

static struct taut_opwork work(const char *name, const char *sizes)
{
	struct taut_opwork w;

	if (!taut_opwork_of(name, sizes, 0, &w))
		fail_msg("%s of %s is not known", name, sizes);
	return w;
}

/* --- work -----------------------------------------------------------------------*/

static void test_products(void **state)
{
	struct taut_opwork w = work("aten::addmm",
		"[[1024], [384, 256], [256, 1024], [], []]");

	(void)state;
	assert_int_equal(w.kind, TAUT_OPWORK_PRODUCT);
	near(w.flops, 2.0 * 384 * 256 * 1024, 0);
	near(w.bytes, 4.0 * (384 * 256 + 256 * 1024 + 384 * 1024 + 1024), 0);
	w = work("aten::linear", "[[6, 64, 256], [1024, 256], [1024]]");
	near(w.flops, 2.0 * 384 * 256 * 1024, 0);
	near(w.bytes, 4.0 * (384 * 256 + 256 * 1024 + 384 * 1024 + 1024), 0);
	w = work("aten::bmm", "[[24, 64, 16], [24, 16, 32]]");
	near(w.flops, 2.0 * 24 * 64 * 16 * 32, 0);
	near(w.bytes, 4.0 * 24 * (64 * 16 + 16 * 32 + 64 * 32), 0);
	w = work("aten::mm.out", "[[3, 5], [5, 7]]");
	near(w.flops, 2.0 * 3 * 5 * 7, 0);
}

/* 24 images of 64 channels, 16 x 16, to 128 channels by 3 x 3: each of the
 * 24 * 128 * 256 outputs adds up 64 * 9 products. */
static void test_convolutions(void **state)
{
	double outputs = 24.0 * 128 * 16 * 16, inputs = 24.0 * 64 * 16 * 16;
	struct taut_opwork w = work("aten::conv2d",
		"[[24, 64, 16, 16], [128, 64, 3, 3], [128], [], [], [], []]");

	(void)state;
	near(w.flops, 2 * outputs * 64 * 9, 0);
	near(w.bytes, 4 * (inputs + 128 * 64 * 9 + 128 + outputs), 0);
	/* Of stride 2, as its backward part tells. */
	assert_true(taut_opwork_of("aten::mkldnn_convolution",
		"[[24, 64, 16, 16], [128, 64, 3, 3], [], [], [], [], []]",
		outputs / 4, &w));
	near(w.flops, outputs / 2 * 64 * 9, 0);
	/* In 64 groups of one channel. */
	w = work("aten::cudnn_convolution",
		"[[24, 64, 16, 16], [128, 1, 3, 3], [], [], [], [], []]");
	near(w.flops, 2 * outputs * 9, 0);
	w = work("aten::convolution_backward", "[[24, 128, 16, 16], "
		"[24, 64, 16, 16], [128, 64, 3, 3], [], [], []]");
	near(w.flops, 4 * outputs * 64 * 9, 0);
	near(w.bytes, 4 * (outputs + 2 * inputs + 2 * 128 * 64 * 9), 0);
	w = work("aten::cudnn_convolution_backward", "[[24, 64, 16, 16], "
		"[24, 128, 16, 16], [128, 64, 3, 3], [], [], []]");
	near(w.flops, 4 * outputs * 64 * 9, 0);
	w = work("aten::cudnn_convolution_backward_input", "[[], "
		"[24, 128, 16, 16], [128, 64, 3, 3], [], [], []]");
	near(w.flops, 2 * outputs * 64 * 9, 0);
	near(w.bytes, 4 * (outputs + inputs + 128 * 64 * 9), 0);
}

/* Of a generator of images: each input adds its part to 4 x 4 pixels of all
 * channels. */
static void test_transposed_convolutions(void **state)
{
	struct taut_opwork w = work("aten::convolution_backward",
		"[[64, 256, 8, 8], [64, 512, 4, 4], [512, 256, 4, 4], []]");

	(void)state;
	near(w.flops, 4.0 * 64 * 512 * 16 * 256 * 16, 0);
	w = work("aten::convolution_backward",
		"[[64, 3, 64, 64], [64, 64, 32, 32], [64, 3, 4, 4], []]");
	near(w.flops, 4.0 * 64 * 64 * 1024 * 3 * 16, 0);
	/* as many channels: from 8 x 8 to 16 x 16, and, plain, back */
	w = work("aten::convolution_backward",
		"[[4, 32, 16, 16], [4, 32, 8, 8], [32, 32, 4, 4], []]");
	near(w.flops, 4.0 * 4 * 32 * 64 * 32 * 16, 0);
	w = work("aten::convolution_backward",
		"[[4, 32, 8, 8], [4, 32, 16, 16], [32, 32, 4, 4], []]");
	near(w.flops, 4.0 * 4 * 32 * 64 * 32 * 16, 0);
	assert_true(taut_opwork_of("aten::convolution",
		"[[64, 512, 4, 4], [512, 256, 4, 4], []]", 64 * 256 * 64, &w));
	near(w.flops, 2.0 * 64 * 512 * 16 * 256 * 16, 0);
	assert_true(taut_opwork_of("aten::convolution",
		"[[64, 64, 32, 32], [64, 3, 4, 4], []]", 64 * 3 * 4096, &w));
	near(w.flops, 2.0 * 64 * 64 * 1024 * 3 * 16, 0);
}

static void test_attention_and_recurrence(void **state)
{
	struct taut_opwork w = work("aten::_scaled_dot_product_flash_attention",
		"[[6, 4, 64, 32], [6, 4, 128, 32], [6, 4, 128, 32], [], []]");

	(void)state;
	near(w.flops, 4.0 * 6 * 4 * 64 * 128 * 32, 0);
	w = work("aten::_flash_attention_forward",
		"[[6, 64, 4, 32], [6, 128, 4, 32], [6, 128, 4, 32], []]");
	near(w.flops, 4.0 * 6 * 4 * 64 * 128 * 32, 0);
	w = work("aten::_flash_attention_backward", "[[6, 64, 4, 32], "
		"[6, 64, 4, 32], [6, 128, 4, 32], [6, 128, 4, 32]]");
	near(w.flops, 10.0 * 6 * 4 * 64 * 128 * 32, 0);
	/* A sequence of 24, 12 beside each other, 320 features, 512 cells. */
	w = work("aten::mkldnn_rnn_layer", "[[24, 12, 320], [2048, 320], "
		"[2048, 512], [2048], [2048], [12, 512], [12, 512], [], []]");
	assert_int_equal(w.kind, TAUT_OPWORK_RECURRENT);
	near(w.flops, 2.0 * 24 * 12 * 2048 * (320 + 512), 0);
	near(w.bytes, 4.0 * (24 * 12 * 320 + 24 * 2048 * (320 + 512) +
		2 * 2048 + 2 * 12 * 512), 0);
}

static void test_one_by_one(void **state)
{
	struct taut_opwork w = work("aten::add_", "[[8, 100], [100], []]");

	(void)state;
	assert_int_equal(w.kind, TAUT_OPWORK_POINTWISE);
	near(w.flops, 800, 0);
	near(w.bytes, 4 * (800 + 100 + 800), 0);
	w = work("aten::native_layer_norm", "[[8, 100], [], [100], [100], []]");
	near(w.flops, 4000, 0);
	w = work("aten::sum", "[[8, 100], [], [], []]");
	near(w.bytes, 3200, 0);
	w = work("aten::copy_", "[[8, 100], [8, 1], []]");
	assert_int_equal(w.kind, TAUT_OPWORK_COPY);
	near(w.bytes, 3232, 0);
	w = work("aten::cat", "[[[8, 100], [8, 20]], []]");
	near(w.bytes, 2 * 4 * 960, 0);
	w = work("aten::embedding", "[[4000, 320], [12, 24], [], [], []]");
	near(w.bytes, 4 * (288 + 2 * 288 * 320), 0);
	w = work("aten::gather", "[[8192, 50257], [], [8192, 1], []]");
	near(w.bytes, 4 * 3 * 8192, 0);
	w = work("aten::fill_", "[[8, 100], []]");
	near(w.bytes, 3200, 0);
	w = work("triton_poi_fused_relu_0", "[[8, 100], [8, 100]]");
	assert_int_equal(w.kind, TAUT_OPWORK_OTHER);
	near(w.bytes, 3 * 3200, 0);
	near(w.flops, 0, 0);
}

/* [1024, 1, 64] less [1, 1024, 64] makes 1,024 times as much as either. */
static void test_what_broadcasts(void **state)
{
	struct taut_opwork w = work("aten::sub",
		"[[1024, 1, 64], [1, 1024, 64], []]");

	(void)state;
	near(w.flops, 67108864, 0);
	near(w.bytes, 4.0 * (2 * 65536 + 67108864), 0);
	assert_int_equal(w.operands[2].role, TAUT_ROLE_OUT);
	assert_int_equal(w.operands[2].n_dims, 3);
	assert_int_equal(w.operands[2].dim[1], 1024);
	w = work("aten::mul", "[[4096, 1], [4096]]");
	near(w.bytes, 4.0 * (2 * 4096 + 4096.0 * 4096), 0);
	w = work("aten::where", "[[8, 1, 1], [5, 1], [7]]");
	near(w.flops, 8 * 5 * 7, 0);
	/* they do not fit; a list has an output each; what a norm makes is as
	 * its input, whatever its weights are */
	near(work("aten::add", "[[8, 100], [7]]").flops, 800, 0);
	near(work("aten::add", "[[[8, 1], [1, 9]], []]").flops, 9, 0);
	near(work("aten::batch_norm", "[[8, 16, 1, 1], [16], [16]]").flops,
		5 * 128, 0);
}

static void test_no_work(void **state)
{
	static const char *const names[] = { "aten::view", "aten::t",
		"aten::empty_strided", "aten::to", "AddmmBackward0",
		"c10d::allreduce_", "autograd::engine::evaluate_function: X",
		"torch::autograd::AccumulateGrad", "aten::resize_" };
	struct taut_opwork w;

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		assert_int_equal(work(names[i], "[[8, 100], []]").kind,
			TAUT_OPWORK_NONE);
	assert_int_equal(work("FlashAttnFuncBackward", "[[8, 100]]").kind,
		TAUT_OPWORK_OTHER);
	assert_false(taut_opwork_of("aten::mm", NULL, 0, &w));
	assert_false(taut_opwork_of("aten::mm", "[[], []]", 0, &w));
	assert_false(taut_opwork_of("aten::add", "[[], [], []]", 0, &w));
	assert_false(taut_opwork_of("aten::add", "[[9000000000000000000, "
		"9000000000000000000]]", 0, &w));
	assert_false(taut_opwork_of("aten::mm", "[[9223372036854775807, 1], "
		"[1, 9223372036854775807]]", 0, &w));
}

/* Every operator of the table is found where it stands: it is in order. */
static void test_all_names_are_found(void **state)
{
	static const char *const names[] = { "_adaptive_avg_pool2d", "_conj",
		"_convolution", "_cudnn_rnn", "_flash_attention_backward",
		"_log_softmax", "_scaled_dot_product_attention_math",
		"_softmax_backward_data", "_weight_norm_interface", "abs",
		"adaptive_avg_pool2d", "addcmul", "arange", "as_strided",
		"baddbmm", "batch_norm", "bernoulli", "bmm", "cat", "clamp_min",
		"contiguous", "conv1d", "convolution", "copy", "cudnn_convolution",
		"detach", "einsum", "elu", "embedding", "empty", "eq", "erf",
		"exp", "fill", "full_like", "gather", "gt", "hardtanh", "index",
		"layer_norm", "le", "leaky_relu", "linear", "log", "log_softmax",
		"logical_not", "logsumexp", "lt", "masked_fill", "matmul",
		"max_pool2d", "maximum", "mean", "mkldnn_rnn_layer", "mm", "mul",
		"narrow", "native_layer_norm_backward", "ne", "neg", "new_zeros",
		"nll_loss", "normal", "permute", "record_stream", "relu",
		"repeat", "reshape", "resize", "resolve_conj", "result_type",
		"rsqrt", "rsub", "scaled_dot_product_attention", "select",
		"sigmoid", "silu_backward", "slice", "split_with_sizes", "sqrt",
		"stack", "sub", "sum", "t", "tanh", "tanh_backward",
		"thnn_conv2d", "threshold", "threshold_backward", "to",
		"transpose", "unsqueeze", "var_mean", "view", "where", "zero",
		"zeros_like" };

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char name[80];

		snprintf(name, sizeof name, "aten::%s", names[i]);
		if (tauti_opname_of(name).kind == TAUT_OPWORK_OTHER)
			fail_msg("%s is not found", name);
	}
	assert_int_equal(tauti_opname_of("aten::_foreach_add_").kind,
		TAUT_OPWORK_OTHER);
}

static void test_sizes_that_do_not_read(void **state)
{
	static const char *const texts[] = { "", "[", "[[", "[[1", "[[1,",
		"[[1]", "[[1],", "[1]", "[[1], 2]", "[[-1]]",
		"[[1.5]]", "[[99999999999999999999]]", "[[[1]]", "[[[1], 2]]",
		"{}", "null" };
	struct tauti_sizes sizes;

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (tauti_sizes_read(texts[i], &sizes))
			fail_msg("%s was read", texts[i]);
	assert_true(tauti_sizes_read("[]", &sizes));
	assert_int_equal(sizes.n, 0);
	assert_true(tauti_sizes_read("[ [2,3] ,[], [[4],[]] ]", &sizes));
	assert_int_equal(sizes.n, 2);
	near(sizes.all[0].elements, 6, 0);
	assert_int_equal(sizes.all[1].argument, 2);
	assert_null(tauti_size_of(&sizes, 1));
	/* Cut at every byte. */
	for (size_t n = 0; n < strlen("[[2,3],[],[[4],[5]]]"); n++) {
		char cut[40] = "[[2,3],[],[[4],[5]]]";

		cut[n] = 0;
		assert_false(tauti_sizes_read(cut, &sizes));
	}
}

static void test_more_tensors_than_there_is_room_for(void **state)
{
	char text[1024] = "[[";
	struct taut_opwork w;

	(void)state;
	for (int i = 0; i < 40; i++)
		strcat(text, i ? ", [10]" : "[10]");
	strcat(text, "]]");
	w = work("aten::cat", text);
	assert_int_equal(w.n_operands, TAUT_MOST_OPERANDS);
	near(w.bytes, 2 * 4 * 400, 0);
	strcpy(text, "[[");
	for (int i = 0; i < 80; i++)
		strcat(text, i ? ", [10]" : "[10]");
	strcat(text, "]]");
	assert_false(taut_opwork_of("aten::cat", text, 0, &w));
}

/* --- fits -----------------------------------------------------------------------*/

enum { SAMPLES = 60 };

/* Work on both sides of the ridge, from microseconds to a second. */
static void make_up(struct taut_opwork_time *s, double x, double y, double c,
	int turns, double noise, uint64_t seed)
{
	const struct taut_roofline truth = { .ns_per_flop = x, .ns_per_byte = y,
		.fixed_ns = c, .turns = turns };

	for (int i = 0; i < SAMPLES; i++) {
		double u = (double)tauti_draw(&seed) / 0x1p64, sum = 0;
		double v = (double)tauti_draw(&seed) / 0x1p64;

		for (int k = 0; k < 12; k++)
			sum += (double)tauti_draw(&seed) / 0x1p64;
		s[i].bytes = exp(log(1e3) + u * log(1e5));
		s[i].flops = s[i].bytes * exp(log(0.05) + v * log(1e4));
		s[i].time_ns = taut_roofline_ns(
			&truth, s[i].flops, s[i].bytes) *
			exp(noise * (sum - 6));
	}
}

static struct taut_roofline fit(const struct taut_opwork_time *s, uint32_t n,
	int form)
{
	struct taut_roofline r;
	struct taut_error err;

	if (taut_roofline_fit(s, n, form, &r, &err))
		fail_msg("%s", err.message);
	return r;
}

static void test_exact_machines(void **state)
{
	struct taut_opwork_time s[SAMPLES];

	(void)state;
	for (int turns = 0; turns < 2; turns++)
		for (uint64_t seed = 1; seed < 9; seed++) {
			struct taut_roofline r;

			make_up(s, 0.02, 0.1, 3000, turns, 0, seed);
			r = fit(s, SAMPLES, -1);
			assert_int_equal(r.turns, turns);
			near(r.ns_per_flop, 0.02, 1e-6);
			near(r.ns_per_byte, 0.1, 1e-6);
			near(r.fixed_ns, 3000, 1e-6);
			assert_true(r.spread < 1e-6);
		}
}

static void test_strays_do_not_move_it(void **state)
{
	struct taut_opwork_time s[SAMPLES];
	struct taut_roofline r;

	(void)state;
	make_up(s, 0.02, 0.1, 3000, 0, 0, 3);
	for (int i = 0; i < SAMPLES; i += 5)
		s[i].time_ns *= i % 2 ? 20 : 0.3;
	r = fit(s, SAMPLES, 0);
	near(r.ns_per_flop, 0.02, 1e-6);
	near(r.ns_per_byte, 0.1, 1e-6);
	near(r.fixed_ns, 3000, 1e-6);
}

/* Of a hundred machines with a tenth of noise, the truth is within two stated
 * errors about as often as it should be. */
static void test_noise_within_the_stated_error(void **state)
{
	struct taut_opwork_time s[SAMPLES];
	int inside[3] = { 0 };
	double spread = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct taut_roofline r;

		make_up(s, 0.02, 0.1, 3000, 0, 0.1, seed);
		r = fit(s, SAMPLES, 0);
		assert_true(r.flop_error > 0.005 && r.flop_error < 0.1);
		inside[0] += fabs(log(r.ns_per_flop / 0.02)) <
			2 * r.flop_error;
		inside[1] += fabs(log(r.ns_per_byte / 0.1)) <
			2 * r.byte_error;
		inside[2] += fabs(log(r.fixed_ns / 3000)) <
			2 * r.fixed_error;
		spread += r.spread / 100;
	}
	near(spread, 0.0674, 0.05); /* of a normal one, half lies within */
	for (int k = 0; k < 3; k++)
		if (inside[k] < 85)
			fail_msg("%d: within two errors in %d of 100", k,
				inside[k]);
}

/* As many as a fit of a recording gets, and as many of them as one has names. */
static void test_many_fits_are_no_wait(void **state)
{
	enum { SETS = 4, FITS = 20 };
	struct taut_opwork_time s[SETS * SAMPLES];
	clock_t from = clock();

	(void)state;
	for (uint64_t k = 1; k <= FITS; k++) {
		for (int i = 0; i < SETS; i++)
			make_up(&s[i * SAMPLES], 0.02, 0.1, 3000, 0, 0.1,
				k * SETS + (uint64_t)i);
		near(fit(s, SETS * SAMPLES, 0).ns_per_flop, 0.02, 0.05);
	}
	assert_true(clock() - from < CLOCKS_PER_SEC);
}

static void test_what_the_samples_do_not_tell(void **state)
{
	struct taut_opwork_time s[SAMPLES];
	struct taut_roofline r;

	(void)state;
	make_up(s, 0.02, 0.1, 3000, 0, 0, 5);
	for (int i = 0; i < SAMPLES; i++) { /* bytes alone */
		s[i].flops = 0;
		s[i].time_ns = 0.1 * s[i].bytes + 3000;
	}
	r = fit(s, SAMPLES, -1);
	near(r.ns_per_byte, 0.1, 1e-6);
	assert_true(isinf(r.flop_error));
	assert_true(r.ns_per_flop == 0);
	r = fit(s, 0, -1);
	assert_int_equal(r.n, 0);
	r = fit(s, 1, -1);
	near(taut_roofline_ns(&r, s[0].flops, s[0].bytes), s[0].time_ns, 1e-3);
}

static void test_samples_that_are_none(void **state)
{
	static const struct taut_opwork_time bad[] = { { 1, 1, 0 },
		{ 1, 1, -1 }, { -1, 1, 1 }, { 1, -1, 1 }, { 1, 1, INFINITY },
		{ 1, NAN, 1 } };
	struct taut_roofline r;
	struct taut_error err;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(taut_roofline_fit(&bad[i], 1, -1, &r, &err),
			TAUT_EINVAL);
}

static void test_no_memory(void **state)
{
	struct taut_opwork_time s[SAMPLES];
	struct taut_roofline r;
	struct taut_error err;

	(void)state;
	make_up(s, 0.02, 0.1, 3000, 0, 0, 5);
	alloc_fail_after(0);
	assert_int_equal(taut_roofline_fit(s, SAMPLES, -1, &r, &err),
		TAUT_ENOMEM);
	alloc_fail_never();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_products),
		cmocka_unit_test(test_convolutions),
		cmocka_unit_test(test_transposed_convolutions),
		cmocka_unit_test(test_attention_and_recurrence),
		cmocka_unit_test(test_one_by_one),
		cmocka_unit_test(test_what_broadcasts),
		cmocka_unit_test(test_no_work),
		cmocka_unit_test(test_all_names_are_found),
		cmocka_unit_test(test_sizes_that_do_not_read),
		cmocka_unit_test(test_more_tensors_than_there_is_room_for),
		cmocka_unit_test(test_exact_machines),
		cmocka_unit_test(test_strays_do_not_move_it),
		cmocka_unit_test(test_noise_within_the_stated_error),
		cmocka_unit_test(test_many_fits_are_no_wait),
		cmocka_unit_test(test_what_the_samples_do_not_tell),
		cmocka_unit_test(test_samples_that_are_none),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

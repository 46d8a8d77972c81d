/* amp_test.c - mixed precision on steps whose answers can be worked out by hand.
 * Times are in microseconds. */
#include <math.h>
#include <stdbool.h>

#include "whatif/kernels.h"
#include "whatif/peaks.h"

#include "tests/support/alloc_fail.h"
#include "tests/support/unit.h"
#include "tests/support/write_trace.h"

static const double h100 = 989.4 / 66.9;

enum { MOST = 8, STEPS = 4 };

struct part { /* an operator that launches one kernel */
	bool backward;
	const char *op, *sizes; /* sizes NULL: not recorded */
	const char *kernel;
	double dur;
};

struct job {
	const char *device; /* NULL: not told */
	int major, minor;
	struct part parts[MOST];
	double ahead; /* what the device is busy with before; 0: it waits for its
	                 host */
	double recorder; /* a step that nobody records takes so much of it; 0: not known */
};

struct opened {
	struct wt w;
	struct taut_run *run;
	struct taut_graph *graph;
};

static void put_op(struct wt *w, const struct part *p, int step, double at)
{
	char args[256];

	snprintf(args, sizeof args, "\"Sequence number\":%d%s%s", 7 + step,
		p->sizes ? ",\"Input Dims\":" : "", p->sizes ? p->sizes : "");
	wt_event(w, "cpu_op", p->backward ? "autograd::engine::"
		"evaluate_function: AddmmBackward0" : p->op, 10, 10, at, 20,
		args);
	if (p->backward)
		wt_event(w, "cpu_op", p->op, 10, 10, at, 20, args);
}

/* Each operator takes 20 of its host, 10 of that its launch; kernels stand behind
 * each other. */
static double put_step(struct wt *w, const struct job *j, int step, double at)
{
	char name[32];
	double device = at + 10 + j->ahead, host = at;
	int c = 100 * step + 1;

	if (j->ahead > 0)
		wt_kernel(w, "multi_tensor_apply_kernel", 10, 10, at, 5, 7,
			at + 10, j->ahead, c++);
	host += 20;
	for (int i = 0; i < MOST && j->parts[i].op; i++, host += 20) {
		const struct part *p = &j->parts[i];

		device = fmax(device, host + 6);
		put_op(w, p, step, host);
		wt_kernel(w, p->kernel, 10, 10, host + 5, 10, 7, device, p->dur,
			c++);
		device += p->dur;
	}
	wt_event(w, "user_annotation", "Optimizer.step#SGD.step", 10, 10, host,
		5, "");
	host += 10;
	wt_event(w, "cuda_runtime", "cudaDeviceSynchronize", 10, 10, host,
		fmax(device, host + 5) - host, "");
	host = fmax(device, host + 5);
	snprintf(name, sizeof name, "ProfilerStep#%d", step);
	wt_event(w, "user_annotation", name, 10, 10, at, host - at, "");
	return host;
}

static struct opened open_job(const struct job *j)
{
	struct opened o = { .w = wt_begin() };
	struct taut_error err = { 0 };
	double at = 0;

	wt_rank(&o.w, 0);
	if (j->device)
		wt_device(&o.w, j->device, j->major, j->minor);
	for (int s = 0; s < STEPS; s++)
		at = put_step(&o.w, j, s, at);
	o.run = wt_open(&o.w);
	if (j->recorder > 0) {
		struct taut_trace *t = (struct taut_trace *)o.run->traces;

		t->step_recorded_ns = 1000;
		t->step_unrecorded_ns = llround(1000 * j->recorder);
	}
	if (taut_graph_build(o.run, NULL, &o.graph, &err))
		fail_msg("%s", err.message);
	return o;
}

static void close_job(struct opened *o)
{
	taut_graph_destroy(o->graph);
	taut_run_close(o->run);
	wt_end(&o->w);
}

/* By how much a step grows. */
static double grows(const struct job *j, const char *change)
{
	struct opened o = open_job(j);
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };
	double us;

	if (taut_predict(o.graph, &change, 1, NULL, &p, &err))
		fail_msg("%s: %s", change, err.message);
	us = (double)(p->after_ns - p->before_ns) / 1e3;
	assert_true(p->low_ns <= p->after_ns && p->after_ns <= p->high_ns);
	taut_prediction_destroy(p);
	close_job(&o);
	return us;
}

static void refuses(const struct job *j, const char *change, const char *words)
{
	struct opened o = open_job(j);
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };

	assert_int_equal(taut_predict(o.graph, &change, 1, NULL, &p, &err),
		TAUT_EINVAL);
	if (!strstr(err.message, words) || strchr(err.message, '\n'))
		fail_msg("%s: %s", change, err.message);
	close_job(&o);
}

static void near(double is, double expected, double tolerance)
{
	if (fabs(is - expected) > tolerance)
		fail_msg("%.4f is not %.4f", is, expected);
}

/* --- names -----------------------------------------------------------------------*/

static void test_arithmetic(void **state)
{
	static const struct {
		const char *name;
		enum tauti_arithmetic is;
	} kernels[] = {
		{ "cutlass_80_simt_sgemm_256x128_8x4_nn_align1", TAUTI_IN_SINGLE },
		{ "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n", TAUTI_IN_SINGLE },
		{ "volta_sgemm_128x64_nt", TAUTI_IN_SINGLE },
		{ "sm90_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32",
			TAUTI_IN_TF32 },
		{ "cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4",
			TAUTI_IN_TF32 },
		{ "cutlass_80_tensorop_bf16_s16816gemm_bf16_256x64",
			TAUTI_IN_HALF },
		{ "turing_fp16_s1688gemm_fp16_128x128", TAUTI_IN_HALF },
		{ "volta_fp16_s884gemm_fp16_128x128", TAUTI_IN_HALF },
		{ "nvjet_sm90_tst_96x128_64x6_2x1_v_bz_NNN", TAUTI_IN_HALF },
		{ "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNN", TAUTI_IN_HALF },
		{ "nvjet_sm90_sss_128x64_32x4_2x1_v_bz_NNN", TAUTI_IN_TF32 },
		{ "fmha_cutlassF_f32_aligned_64x64_rf_sm80", TAUTI_IN_SINGLE },
		{ "pytorch_flash::flash_fwd_kernel", TAUTI_IN_HALF },
		{ "cudnn::fusion::convert_dq_to_16bits<true>", TAUTI_IN_HALF },
	};

	(void)state;
	for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
		if (tauti_kernel_arithmetic(kernels[i].name) != kernels[i].is)
			fail_msg("%s", kernels[i].name);
}

static void test_peaks(void **state)
{
	struct taut_device d = { 0, "NVIDIA H100 80GB HBM3", 9, 0, 132 };
	struct tauti_peaks p;

	(void)state;
	assert_true(tauti_peaks_of(&d, &p));
	near(p.of_single, h100, 1e-9);
	near(p.of_tf32, 2, 0);
	d = (struct taut_device){ 0, "NVIDIA GeForce RTX 3090", 8, 6, 82 };
	assert_true(tauti_peaks_of(&d, &p));
	near(p.of_single, 2, 1e-9);
	d = (struct taut_device){ 0, "AMD Instinct MI250X", 9, 0, 110 };
	assert_false(tauti_peaks_of(&d, &p));
	d = (struct taut_device){ 0, "NVIDIA H100 80GB HBM3", -1, -1, -1 };
	assert_false(tauti_peaks_of(&d, &p));
	assert_false(tauti_peaks_of(NULL, &p));
}

/* --- products --------------------------------------------------------------------*/

/* A product each way of 30 ms and 40 ms; without sizes each has one cast of 2. */
static struct job products(const char *device, int major, int minor,
	const char *kernel)
{
	return (struct job){ device, major, minor, {
		{ false, "aten::linear", NULL, kernel, 30000 },
		{ true, "aten::mm", NULL, kernel, 40000 } }, 5000, 0 };
}

static double left(double times)
{
	return 70000 / times + 2 * (3 + 2) - 70000;
}

static void test_products(void **state)
{
	struct job j = products("NVIDIA H100 80GB HBM3", 9, 0, "sgemm");

	(void)state;
	near(grows(&j, "amp"), left(h100 * 0.85), 0.1);
	near(grows(&j, "amp=fp16"), left(h100 * 0.85), 0.1);
	j = products(j.device, 9, 0, "xmma_gemm_f32f32_tf32f32_f32");
	near(grows(&j, "amp"), left(2 * 0.85), 0.1);
	j = products(NULL, 0, 0, "sgemm");
	near(grows(&j, "amp"), left(3), 0.1);
	j = products("AMD Instinct MI250X", 9, 0, "sgemm");
	near(grows(&j, "amp"), left(3), 0.1);
}

/* Attention is as far from its peak as it is, and has no weights. */
static void test_attention(void **state)
{
	struct job j = products("NVIDIA H100 80GB HBM3", 9, 0,
		"fmha_cutlassF_f32_aligned_64x64_rf_sm80");

	(void)state;
	near(grows(&j, "amp"), left(h100 * 0.3) - 4, 0.1);
}

static void test_types(void **state)
{
	struct job j = products("Tesla V100-SXM2-16GB", 7, 0, "sgemm");

	(void)state;
	refuses(&j, "amp=bf16", "amp=fp16");
	near(grows(&j, "amp=fp16"), left(125 / 15.7 * 0.85), 0.1);
	j = products("NVIDIA H100 80GB HBM3", 9, 0,
		"nvjet_sm90_tst_96x128_64x6_2x1_v_bz_NNN");
	refuses(&j, "amp", "16 bits already");
	j.parts[2] = (struct part){ true, "aten::mm", NULL,
		"cublasLt::splitKreduce_kernel", 6 };
	refuses(&j, "amp", "16 bits already");
}

/* --- what else was computed --------------------------------------------------------*/

static void one_by_one(const char *kernel, const char *change, double share)
{
	struct job j = products("NVIDIA H100 80GB HBM3", 9, 0, "sgemm");

	j.parts[2] = j.parts[1];
	j.parts[1] = (struct part){ false, "aten::gelu", NULL, kernel, 10000 };
	near(grows(&j, change), left(h100 * 0.85) - (1 - share) * (10000 - 2),
		0.1);
}

static void test_others(void **state)
{
	(void)state;
	one_by_one("vectorized_elementwise_kernel", "amp", 0.6);
	one_by_one("vectorized_layer_norm_kernel", "amp", 1);
	one_by_one("reduce_kernel", "amp", 0.75);
	one_by_one("cudnn::bn_fw_tr_1C11_kernel_NCHW", "amp=bf16", 1);
	one_by_one("cudnn::bn_fw_tr_1C11_kernel_NCHW", "amp=fp16", 0.6);
	one_by_one("vectorized_elementwise_kernel<bfloat16>", "amp", 1);
}

/* --- casts -----------------------------------------------------------------------*/

#define GELU(n) "[[" #n "],[]]"
#define ADDMM "[[512],[4096,1024],[1024,512],[],[]]"

static double pass(double bytes) /* 2.5 TB/s */
{
	return 2 + bytes / 2.5e6;
}

static struct job sized(double product, const char *before)
{
	return (struct job){ "NVIDIA H100 80GB HBM3", 9, 0, {
		{ false, "aten::gelu", GELU(1000000), "elementwise", pass(8e6) },
		{ false, "aten::gelu", GELU(4000000), "elementwise", pass(32e6) },
		{ false, "aten::gelu", GELU(16000000), "elementwise",
			pass(128e6) },
		{ false, "aten::gelu", GELU(64000000), before, pass(512e6) },
		{ false, "aten::addmm", ADDMM, "sgemm", product },
		{ true, "aten::mm", "[[4096,512],[512,1024]]", "sgemm",
			product } }, 5000, 0 };
}

static double gelus(double share)
{
	return (share - 1) * ((pass(8e6) + pass(32e6) + pass(128e6)) - 6);
}

/* A weight of 1024 x 512 and its bias forward, their gradients backward. Behind a norm
 * the input is cast too, and its gradient. */
static void test_casts(void **state)
{
	double casts = 2 * (pass(6.0 * 1024 * 512) + pass(6.0 * 512));
	double inputs = 2 * pass(6.0 * 4096 * 1024);
	double product = 1000 / (h100 * 0.85) + 3 - 1000;
	struct job j = sized(1000, "elementwise");

	(void)state;
	near(grows(&j, "amp"), gelus(0.6) - 0.4 * (pass(512e6) - 2) +
		2 * product + casts, 0.3);
	j = sized(1000, "layer_norm");
	near(grows(&j, "amp"), gelus(0.6) + 2 * product + casts + inputs, 0.3);
}

/* Operands in 16 bits: 4096 x 1024, 1024 x 512 and 4096 x 512, forward with a bias. */
static void test_bound_by_memory(void **state)
{
	double elements = 4096.0 * 1024 + 1024 * 512 + 4096 * 512;
	double casts = 2 * (pass(6.0 * 1024 * 512) + pass(6.0 * 512));
	double moves = (2 * elements + 2 * elements + 2 * 512) / 2.5e6;
	struct job j = sized(30, "layer_norm");

	(void)state;
	near(grows(&j, "amp"), gelus(0.6) + moves + 2 * 3 - 60 + casts +
		2 * pass(6.0 * 4096 * 1024), 0.3);
}

/* Bound by its host, a step takes as much longer as two casts do: each a launch of
 * 10 and ten slices of 5. */
static void test_hosts(void **state)
{
	struct job j = products("NVIDIA H100 80GB HBM3", 9, 0, "sgemm");

	(void)state;
	j.parts[0].dur = j.parts[1].dur = 4;
	j.ahead = 0;
	near(grows(&j, "amp"), 2 * (10 + 10 * 5), 0.5);
}

/* Recording cost so much of an event that most slices have nothing left: those of a cast
 * are as long as what is left in the mean, some 0.6, and not nothing. */
static void test_hosts_recorded(void **state)
{
	struct job j = products("NVIDIA H100 80GB HBM3", 9, 0, "sgemm");
	double us;

	(void)state;
	j.parts[0].dur = j.parts[1].dur = 4;
	j.ahead = 0;
	j.recorder = 0.35;
	us = grows(&j, "amp");
	assert_true(us > 2 * 10 * 0.5 && us < 2 * (10 + 10));
}

static double step_of(const struct job *j, const char *const *changes, size_t n)
{
	struct opened o = open_job(j);
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };
	double us;

	if (taut_predict(o.graph, changes, n, NULL, &p, &err))
		fail_msg("%s", err.message);
	us = (double)p->after_ns / 1e3;
	taut_prediction_destroy(p);
	close_job(&o);
	return us;
}

/* Copies of a rank have hosts of their own. */
static void test_copies(void **state)
{
	struct job j = products("NVIDIA H100 80GB HBM3", 9, 0, "sgemm");
	const char *const changes[] = {
		"world=3,per-host=3,link=100gbit,latency=1us,gradients=1KB", "amp" };

	(void)state;
	j.parts[0].dur = j.parts[1].dur = 4;
	j.ahead = 0;
	near(step_of(&j, changes, 2) - step_of(&j, changes, 1),
		2 * (10 + 10 * 5), 0.5);
}

/* What compiling gives was measured in 32 bits, and of modules on hosts: nothing knows it
 * of 16 bits on a device, whichever of the two is said first. */
static void test_compiled(void **state)
{
	struct job j = products("NVIDIA H100 80GB HBM3", 9, 0, "sgemm");
	const char *const both[][2] = {
		{ "amp", "compile=nn.Module: *,forward=0.5x,backward=0.5x" },
		{ "compile=nn.Module: *,forward=0.5x,backward=0.5x", "amp" },
	};
	struct opened o = open_job(&j);

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct taut_prediction *p = NULL;
		struct taut_error err = { 0 };

		assert_int_equal(taut_predict(o.graph, both[i], 2, NULL, &p,
			&err), TAUT_EINVAL);
		assert_non_null(strstr(err.message, "not beside amp"));
	}
	close_job(&o);
}

static void test_no_memory(void **state)
{
	struct job j = sized(1000, "layer_norm");
	struct opened o = open_job(&j);
	const char *change = "amp";
	bool done = false;

	(void)state;
	for (long n = 0; !done; n++) {
		struct taut_prediction *p = NULL;
		struct taut_error err = { 0 };
		taut_status status;

		alloc_fail_after(n);
		status = taut_predict(o.graph, &change, 1, NULL, &p, &err);
		alloc_fail_never();
		done = status == TAUT_OK;
		assert_true(done || status == TAUT_ENOMEM);
		taut_prediction_destroy(p);
	}
	close_job(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arithmetic),
		cmocka_unit_test(test_peaks),
		cmocka_unit_test(test_products),
		cmocka_unit_test(test_attention),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_casts),
		cmocka_unit_test(test_bound_by_memory),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_hosts_recorded),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_compiled),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

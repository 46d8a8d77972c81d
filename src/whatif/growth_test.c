/* growth_test.c - changes of sizes on small jobs whose machine is known to the
 * last digit: what a roofline predicts for them can be worked out by hand. */
#include <math.h>
#include <stdbool.h>

#include "whatif/growth.h"

#include "tests/support/alloc_fail.h"
#include "tests/support/unit.h"
#include "tests/support/write_trace.h"

enum { STEPS = 3, M = 32, N_LAYERS = 8, PARTS = 3 };

static const struct { int k, n; } layers[N_LAYERS] = { /* the device is
	behind from the first one on */
	{ 2048, 2048 }, { 4096, 1024 }, { 512, 2048 }, { 1024, 256 },
	{ 64, 64 }, { 16, 16 }, { 16, 512 }, { 256, 64 } };

struct machine {
	double ns_per_flop, ns_per_byte, fixed_ns;
	bool turns;
};
static const struct machine device = { 2e-3, 2e-2, 3000, false };
static const struct machine host = { 5e-3, 2.5e-2, 2000, true };

struct job {
	struct wt w;
	struct machine is;
	bool on_device, no_sizes, first_alone, relu_between, memory;
	double at, stream_at; /* us */
	int total;            /* bytes */
	int correlation, step;
	struct taut_run *run;
	struct taut_graph *graph;
};

/* --- the machine, in microseconds ----------------------------------------------*/

static double takes(const struct machine *is, double flops, double bytes)
{
	double f = flops * is->ns_per_flop, b = bytes * is->ns_per_byte;

	return ((is->turns ? f + b : fmax(f, b)) + is->fixed_ns) / 1e3;
}

/* x [m, k] times weights [k, n], with a bias. */
static double forward(const struct machine *is, double m, double k, double n)
{
	return takes(is, 2 * m * k * n, 4 * (m * k + k * n + m * n + n));
}

/* Either product of the backward part: the sizes are the same three. */
static double backward(const struct machine *is, double m, double k, double n)
{
	return takes(is, 2 * m * k * n, 4 * (m * k + k * n + m * n));
}

/* --- the job -----------------------------------------------------------------------*/

static void event(struct job *j, const char *cat, const char *name, double at,
	double dur, int sequence, const char *sizes)
{
	char args[256] = "", *to = args;

	if (sequence)
		to += snprintf(to, 64, "\"Sequence number\":%d", sequence);
	if (sizes && !j->no_sizes)
		snprintf(to, 160, "%s\"Input Dims\":%s", sequence ? "," : "",
			sizes);
	wt_event(&j->w, cat, name, 10, 10, at, dur, args);
}

/* One operator: on a host all of its time, else a call of 8 and a kernel. */
static void operator(struct job *j, const char *name, double us, int sequence,
	const char *sizes)
{
	double dur = j->on_device ? 8 : us;

	event(j, "cpu_op", name, j->at, dur, sequence, sizes);
	if (j->on_device) {
		wt_kernel(&j->w, "kernel", 10, 10, j->at + 2, 4, 7,
			j->stream_at, us, ++j->correlation);
		j->stream_at += us;
	}
	j->at += dur;
}

/* A block of the host's, asked for now or given back. */
static void block(struct job *j, int bytes, int address)
{
	j->total += bytes;
	if (j->memory)
		fprintf(j->w.out, ",\n{\"ph\":\"i\",\"cat\":"
			"\"cpu_instant_event\",\"s\":\"t\",\"name\":"
			"\"[memory]\",\"pid\":10,\"tid\":10,\"ts\":%.3f,"
			"\"args\":{\"Total Allocated\":%d,\"Addr\":%d,"
			"\"Bytes\":%d,\"Device Id\":-1,\"Device Type\":0}}",
			j->at, j->total, address, bytes);
}

/* Around it is a module's call, which takes 2 more at either end. */
static void linear(struct job *j, int k, int n, int sequence)
{
	char outer[96], sizes[96];
	double begin = j->at;

	snprintf(outer, sizeof outer, "[[%d,%d],[%d,%d],[%d]]", M, k, n, k, n);
	snprintf(sizes, sizeof sizes, "[[%d],[%d,%d],[%d,%d],[],[]]", n, M, k,
		k, n);
	event(j, "cpu_op", "aten::linear", begin,
		4 + (j->on_device ? 8 : forward(&j->is, M, k, n)), sequence,
		outer);
	j->at += 2;
	operator(j, "aten::addmm", forward(&j->is, M, k, n), sequence, sizes);
	j->at -= 1; /* what it makes */
	block(j, 4 * M * n, 4096 + 8 * (sequence % 100));
	j->at += 3;
}

static void linear_backward(struct job *j, int k, int n, int sequence)
{
	char sizes[96];
	double us = backward(&j->is, M, k, n), begin = j->at;

	event(j, "cpu_op", "autograd::engine::evaluate_function: "
		"AddmmBackward0", begin, 6 + 2 * (j->on_device ? 8 : us),
		sequence, NULL);
	j->at += 3;
	snprintf(sizes, sizeof sizes, "[[%d,%d],[%d,%d]]", M, n, n, k);
	operator(j, "aten::mm", us, 0, sizes);
	snprintf(sizes, sizeof sizes, "[[%d,%d],[%d,%d]]", n, M, M, k);
	operator(j, "aten::mm", us, 0, sizes);
	j->at -= 1; /* the gradient of its weights, soon in a bucket */
	block(j, 4 * n * k, 4096);
	j->at += 2;
	block(j, -4 * n * k, 4096);
	block(j, -4 * M * n, 4096 + 8 * (sequence % 100));
	j->at += 2;
	snprintf(sizes, sizeof sizes, "[[%d,%d]]", n, k);
	event(j, "cpu_op", "torch::autograd::AccumulateGrad", j->at, 1, 0,
		sizes);
	j->at += 1;
}

static void relu(struct job *j)
{
	char sizes[32];

	snprintf(sizes, sizeof sizes, "[[%d,64]]", M);
	operator(j, "aten::relu", 7, 0, sizes);
}

/* Layers of all sizes, three of 64 x 64 that read one tensor, the way back. */
static void step(struct job *j)
{
	char name[32];
	double begin = j->at;
	int sequence = 1 + 100 * j->step, k;

	event(j, "user_annotation",
		"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
		j->at, 1, 0, NULL);
	j->at += 1;
	j->stream_at = fmax(j->stream_at, begin + 20);
	for (int i = 0; i < N_LAYERS; i++) {
		linear(j, layers[i].k, layers[i].n, sequence++);
		relu(j);
	}
	for (int i = 0; i < PARTS; i++) {
		if (i && j->relu_between)
			relu(j);
		linear(j, 64, 64, sequence++);
	}
	relu(j);
	for (int i = PARTS; i--;)
		linear_backward(j, 64, 64, --sequence);
	for (k = N_LAYERS; k--;)
		linear_backward(j, layers[k].k, layers[k].n, --sequence);
	if (j->on_device) {
		event(j, "cuda_runtime", "cudaDeviceSynchronize", j->at,
			j->stream_at + 1 - j->at, 0, NULL);
		j->at = j->stream_at + 1;
	}
	event(j, "user_annotation", "Optimizer.step#SGD.step", j->at, 20, 0,
		NULL);
	j->at += 20;
	snprintf(name, sizeof name, "ProfilerStep#%d", j->step++);
	event(j, "user_annotation", name, begin, j->at - begin, 0, NULL);
}

static void begin(struct job *j)
{
	struct taut_error err = { 0 };

	j->w = wt_begin();
	wt_rank(&j->w, 0);
	for (int i = 0; i < STEPS; i++) {
		step(j);
		j->no_sizes |= j->first_alone;
	}
	j->run = wt_open(&j->w);
	/* It was not slower while it was recorded. */
	((struct taut_trace *)j->run->traces)->step_recorded_ns = 1000;
	((struct taut_trace *)j->run->traces)->step_unrecorded_ns = 1000;
	if (taut_graph_build(j->run, NULL, &j->graph, &err))
		fail_msg("%s", err.message);
}

static void end(struct job *j)
{
	taut_graph_destroy(j->graph);
	taut_run_close(j->run);
	wt_end(&j->w);
}

/* By how many microseconds a step gets longer. */
static double longer(const struct job *j, const char *change)
{
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };
	double us;

	if (taut_predict(j->graph, &change, 1, NULL, &p, &err))
		fail_msg("%s: %s", change, err.message);
	us = (double)(p->after_ns - p->before_ns) / 1e3;
	assert_true(p->low_ns <= p->after_ns && p->after_ns <= p->high_ns);
	taut_prediction_destroy(p);
	return us;
}

static void near(double got, double expected, double within)
{
	if (!(fabs(got - expected) <= within * fabs(expected)))
		fail_msg("%.6f, expected %.6f", got, expected);
}

static void refused(const struct job *j, const char *change, const char *words)
{
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };

	if (taut_predict(j->graph, &change, 1, NULL, &p, &err) != TAUT_EINVAL)
		fail_msg("%s is not refused: %s", change,
			p ? p->notes[0] : err.message);
	if (!strstr(err.message, words))
		fail_msg("%s", err.message);
}

/* --- rooflines of a recording ---------------------------------------------------*/

static const struct taut_opwork_fit *fit_of(
	const struct taut_rooflines *r, const char *name)
{
	for (uint32_t i = 0; i < r->n_fits; i++)
		if (r->fits[i].name && !strcmp(r->fits[i].name, name))
			return &r->fits[i];
	fail_msg("no fit of %s", name);
	return NULL;
}

static void check_machine(struct job *j)
{
	struct taut_rooflines *r;
	struct taut_error err;
	const struct taut_opwork_fit *mm, *addmm;

	begin(j);
	assert_int_equal(taut_rooflines_create(j->graph, NULL, &r, &err), 0);
	assert_int_equal(r->of_devices, j->on_device);
	mm = fit_of(r, "aten::mm");
	addmm = fit_of(r, "aten::addmm");
	assert_true(mm->own && addmm->own);
	assert_int_equal(mm->roofline.n, 2 * N_LAYERS);
	assert_int_equal(addmm->roofline.n, N_LAYERS);
	near(mm->roofline.ns_per_flop, j->is.ns_per_flop, 1e-3);
	near(mm->roofline.ns_per_byte, j->is.ns_per_byte, 1e-3);
	near(mm->roofline.fixed_ns, j->is.fixed_ns, 1e-3);
	near(addmm->roofline.ns_per_flop, j->is.ns_per_flop, 1e-3);
	for (uint32_t i = 0; i < r->n_rows; i++) /* a call, and no work */
		assert_false(!strcmp(r->rows[i].name, "aten::linear") &&
			r->rows[i].n_calls);
	taut_rooflines_destroy(r);
	end(j);
}

static void test_the_machine_is_found(void **state)
{
	struct job on_device = { .is = device, .on_device = true };
	struct job on_host = { .is = host };

	(void)state;
	check_machine(&on_device);
	check_machine(&on_host);
}

static void test_rooflines_without_memory(void **state)
{
	struct job j = { .is = host };
	struct taut_error err;
	bool done = false;

	(void)state;
	begin(&j);
	for (long n = 0; !done; n++) {
		struct taut_rooflines *r = NULL;
		taut_status status;

		alloc_fail_after(n);
		status = taut_rooflines_create(j.graph, NULL, &r, &err);
		alloc_fail_never();
		done = status == TAUT_OK;
		assert_true(done || status == TAUT_ENOMEM);
		assert_true(done == (r != NULL));
		taut_rooflines_destroy(r);
	}
	end(&j);
}

/* --- batches -----------------------------------------------------------------------*/

static double all_products(const struct machine *is, double m)
{
	double sum = PARTS * (forward(is, m, 64, 64) +
		2 * backward(is, m, 64, 64));

	for (int i = 0; i < N_LAYERS; i++)
		sum += forward(is, m, layers[i].k, layers[i].n) +
			2 * backward(is, m, layers[i].k, layers[i].n);
	return sum;
}

/* relu is of one size alone: the shared roofline has it between its fixed time
 * and twice its own; what is known exactly are the products. */
static void check_batch(struct job *j)
{
	double relus = 7.0 * (N_LAYERS + 1), more, less;

	begin(j);
	more = all_products(&j->is, 2 * M) - all_products(&j->is, M);
	less = all_products(&j->is, M / 2) - all_products(&j->is, M);
	near(longer(j, "batch=2x"), more, (relus + 0.002 * more) / more);
	near(longer(j, "batch=0.5x"), less, (relus - 0.002 * less) / -less);
	near(1 + longer(j, "batch=1x"), 1, 1e-3);
	end(j);
}

static void test_batches_by_sizes(void **state)
{
	struct job on_device = { .is = device, .on_device = true };
	struct job on_host = { .is = host };

	(void)state;
	check_batch(&on_device);
	check_batch(&on_host);
}

/* Products of a GPT on an H100, in 32 bits, in microseconds: flops decide all of them,
 * and what they scatter must not be taken for slow memory. */
static const struct {
	const char *name, *sizes;
	double us;
} decided[] = {
	{ "aten::add", "[[8,512,1024],[512,1024],[]]", 13.0 },
	{ "aten::addmm", "[[1024],[4096,1024],[1024,1024],[],[]]", 173.796 },
	{ "aten::add", "[[8,512,1024],[8,512,1024],[]]", 13.6 },
	{ "aten::addmm", "[[4096],[4096,1024],[1024,4096],[],[]]", 696.878 },
	{ "aten::gelu", "[[8,512,4096],[]]", 42.9 },
	{ "aten::addmm", "[[1024],[4096,4096],[4096,1024],[],[]]", 674.190 },
	{ "aten::addmm",
		"[[30000],[4096,1024],[1024,30000],[],[]]", 4967.362 },
	{ "aten::_log_softmax", "[[4096,30000],[],[]]", 508.4 },
	{ "aten::fill_", "[[4096,30000],[]]", 149.3 },
	{ "aten::_log_softmax_backward_data",
		"[[4096,30000],[4096,30000],[],[]]", 685.3 },
	{ "aten::mm", "[[4096,30000],[30000,1024]]", 4986.659 },
	{ "aten::mm", "[[30000,4096],[4096,1024]]", 4924.961 },
	{ "aten::sum", "[[4096,30000],[],[],[]]", 178.2 },
	{ "aten::mm", "[[4096,1024],[1024,4096]]", 687.566 },
	{ "aten::mm", "[[1024,4096],[4096,4096]]", 660.845 },
	{ "aten::sum", "[[4096,1024],[],[],[]]", 17.3 },
	{ "aten::gelu_backward", "[[8,512,4096],[8,512,4096],[]]", 65.9 },
	{ "aten::mm", "[[4096,4096],[4096,1024]]", 664.301 },
	{ "aten::sum", "[[4096,4096],[],[],[]]", 40.8 },
	{ "aten::mm", "[[4096,1024],[1024,1024]]", 172.324 },
	{ "aten::mm", "[[1024,4096],[4096,1024]]", 172.387 },
	{ "aten::sum", "[[8,512,16,64],[],[],[]]", 17.1 },
	{ "aten::fill_", "[[16793600],[]]", 6.0 },
	{ "aten::add_", "[[8,512,1024],[8,512,1024],[]]", 15.4 },
	{ "aten::sum", "[[8,512,1024],[],[],[]]", 6.6 },
	{ "aten::fill_", "[[30000,1024],[]]", 37.2 },
};

static void open_decided(struct job *j)
{
	struct taut_error err = { 0 };

	j->w = wt_begin();
	wt_rank(&j->w, 0);
	for (int s = 0; s < STEPS; s++) {
		double begin = j->at = j->stream_at;

		j->stream_at += 10;
		for (size_t i = 0; i < sizeof decided / sizeof *decided; i++)
			operator(j, decided[i].name, decided[i].us, 7 + s,
				decided[i].sizes);
		wt_event(&j->w, "user_annotation", "ProfilerStep#1", 10, 10,
			begin, j->stream_at - begin, "");
	}
	j->run = wt_open(&j->w);
	if (taut_graph_build(j->run, NULL, &j->graph, &err))
		fail_msg("%s", err.message);
}

static void test_flops_decide(void **state)
{
	struct job j = { .is = device, .on_device = true };
	struct taut_rooflines *r = NULL;
	struct taut_error err = { 0 };
	uint32_t n = 0;

	(void)state;
	open_decided(&j);
	assert_int_equal(taut_rooflines_create(j.graph, NULL, &r, &err), TAUT_OK);
	for (uint32_t i = 0; i < r->n_rows; i++) {
		struct taut_opwork half = r->rows[i].work;

		if (half.kind != TAUT_OPWORK_PRODUCT)
			continue;
		half.flops /= 2;
		near(taut_rooflines_ns(r, i, &half),
			taut_rooflines_ns(r, i, &r->rows[i].work) / 2, 0.1);
		n++;
	}
	assert_int_equal(n, 11);
	taut_rooflines_destroy(r);
	end(&j);
}

/* By the other rule all but a kernel's 3 us and three percent would be half. */
static void test_sizes_tell_more_than_the_other_rule(void **state)
{
	struct job j = { .is = device, .on_device = true };
	double less;

	(void)state;
	begin(&j);
	less = all_products(&j.is, M / 2) - all_products(&j.is, M);
	assert_true(longer(&j, "batch=0.5x,by=weights") < 1.2 * less);
	refused(&j, "batch=2x,by=guess", "both|sizes|weights");
	end(&j);
}

/* What layers make has twice the bytes, the largest gradient has not. */
static void test_memory_of_a_batch(void **state)
{
	struct job j = { .is = host, .memory = true };
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };
	const char *change = "batch=2x", *blind = "batch=2x,by=weights";
	int64_t made = 0, most = 0;

	(void)state;
	begin(&j);
	if (taut_predict(j.graph, &change, 1, NULL, &p, &err))
		fail_msg("%s", err.message);
	/* The peak is at the gradient of a layer, with all before it made. */
	for (int factor = 1; factor <= 2; factor++) {
		made = most = 0;
		for (int i = 0; i < N_LAYERS; i++) {
			int64_t gradient = 4 * layers[i].k * layers[i].n;

			made += factor * 4 * M * layers[i].n;
			most = made + gradient > most ? made + gradient : most;
		}
		assert_int_equal(factor == 1 ? p->memory_before :
			p->memory_after, most);
	}
	taut_prediction_destroy(p);
	if (taut_predict(j.graph, &blind, 1, NULL, &p, &err))
		fail_msg("%s", err.message);
	assert_true(p->memory_after > most); /* gradients twice as large */
	taut_prediction_destroy(p);
	end(&j);
}

/* Of steps whose sizes were not recorded the other rule knows nothing else than
 * that all grows. */
static void test_steps_without_sizes(void **state)
{
	struct job j = { .is = host, .first_alone = true };
	double all, more;

	(void)state;
	begin(&j);
	all = all_products(&j.is, M);
	more = longer(&j, "batch=2x");
	if (!(more > 0.9 * all && more < 1.02 * all))
		fail_msg("%.3f of %.3f", more, all);
	end(&j);
}

/* --- merging -----------------------------------------------------------------------*/

/* On a host two of three calls, forward and back, are gone with the 4 and 6
 * that they took beside their products. */
static void test_merge_on_a_host(void **state)
{
	struct job j = { .is = host };
	double kn = 64 * 64, mk = M * 64, apart, merged;

	(void)state;
	begin(&j);
	apart = PARTS * (forward(&j.is, M, 64, 64) +
		2 * backward(&j.is, M, 64, 64)) + PARTS * (4 + 6);
	merged = takes(&j.is, PARTS * 2 * M * kn,
		4 * (mk + PARTS * (kn + mk + 64))) + 4 +
		2 * takes(&j.is, PARTS * 2 * M * kn,
		4 * (mk + PARTS * (kn + mk))) + 6;
	near(longer(&j, "merge=aten::linear"), merged - apart, 2e-3);
	near(longer(&j, "merge=aten::lin*"), merged - apart, 2e-3);
	/* Of the products alone, without what calls them. */
	near(longer(&j, "merge=aten::addmm"), merged - apart + 2 * 4, 2e-3);
	end(&j);
}

static void test_merge_on_a_device(void **state)
{
	struct job j = { .is = device, .on_device = true };
	double kn = 64 * 64, mk = M * 64, apart, merged;

	(void)state;
	begin(&j);
	apart = PARTS * (forward(&j.is, M, 64, 64) +
		2 * backward(&j.is, M, 64, 64));
	merged = takes(&j.is, PARTS * 2 * M * kn,
		4 * (mk + PARTS * (kn + mk + 64))) +
		2 * takes(&j.is, PARTS * 2 * M * kn,
		4 * (mk + PARTS * (kn + mk)));
	near(longer(&j, "merge=aten::linear"), merged - apart, 5e-3);
	end(&j);
}

static void test_merge_refuses(void **state)
{
	struct job between = { .is = host, .relu_between = true };
	struct job bare = { .is = host, .no_sizes = true };

	(void)state;
	begin(&between);
	refused(&between, "merge=aten::linear", "found none");
	refused(&between, "merge=nothing", "found none");
	end(&between);
	begin(&bare);
	refused(&bare, "merge=aten::linear", "no sizes");
	end(&bare);
}

static void test_changes_without_memory(void **state)
{
	static const char *const changes[] = { "merge=aten::linear",
		"batch=2x" };
	struct taut_whatif_options options = { .threads = 1, .no_graph = 1 };
	struct job j = { .is = host };

	(void)state;
	begin(&j);
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
		for (long n = 0;; n += n < 300 ? 1 : 17) {
			struct taut_prediction *p = NULL;
			struct taut_error err;
			taut_status status;

			alloc_fail_after(n);
			status = taut_predict(j.graph, &changes[i], 1,
				&options, &p, &err);
			alloc_fail_never();
			taut_prediction_destroy(p);
			if (!status)
				break;
			assert_int_equal(status, TAUT_ENOMEM);
		}
	end(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_machine_is_found),
		cmocka_unit_test(test_rooflines_without_memory),
		cmocka_unit_test(test_batches_by_sizes),
		cmocka_unit_test(test_flops_decide),
		cmocka_unit_test(test_sizes_tell_more_than_the_other_rule),
		cmocka_unit_test(test_memory_of_a_batch),
		cmocka_unit_test(test_steps_without_sizes),
		cmocka_unit_test(test_merge_on_a_host),
		cmocka_unit_test(test_merge_on_a_device),
		cmocka_unit_test(test_merge_refuses),
		cmocka_unit_test(test_changes_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* tensor_test.c - layers shared by other numbers of ranks. Ranks 0 and 1 share
 * layers, 2 and 3 too; 0 and 2 sum gradients, and 1 and 3. In each step (us):
 * a product 100..600, a norm 600..700, the pair's sum of activations 700..900,
 * a backward product 900..1400, the pair's sum 1400..1600, and gradients with
 * the same rank of the other pair 1600..3600. */
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

#include <taut/graph.h>
#include <taut/whatif.h>

#include "tests/support/write_trace.h"

enum { STEPS = 3, STEP_US = 4000, ACTIVATIONS = 400000, GRADIENTS = 4000000 };

struct sum {
	const char *group;
	int number, stream;
	double call, ts, dur;
	long floats;
	int seq;
};

static void write_sum(struct wt *w, const struct sum *s)
{
	char args[512];

	snprintf(args, sizeof args, "\"correlation\":%d", s->number);
	wt_event(w, "cuda_runtime", "cudaLaunchKernel", 1, 10, s->call, 2,
		args);
	snprintf(args, sizeof args, "\"device\":0,\"stream\":%d,"
		"\"correlation\":%d,\"Collective name\":\"allreduce\","
		"\"dtype\":\"Float\",\"In msg nelems\":%ld,\"Group size\":2,"
		"\"Process Group Name\":\"%s\",\"Seq\":%d", s->stream,
		s->number, s->floats, s->group, s->seq);
	wt_event(w, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0,
		s->stream, s->ts, s->dur, args);
}

static void write_wait(struct wt *w, double call, int number)
{
	char args[64];

	snprintf(args, sizeof args, "\"correlation\":%d", number);
	wt_event(w, "cuda_runtime", "cudaDeviceSynchronize", 1, 10, call, 3330,
		args);
}

/* Everything on one stream, so that it follows each other. */
static void write_step(struct wt *w, int rank, int k, int shares)
{
	double at = 1000 + (double)k * STEP_US;
	int n = 10 * k + 1;
	char text[64], tp[16], dp[16];

	snprintf(tp, sizeof tp, "tp%d", rank / 2);
	snprintf(dp, sizeof dp, "dp%d", rank % 2);
	snprintf(text, sizeof text, "ProfilerStep#%d", k);
	wt_event(w, "user_annotation", text, 1, 10, at, STEP_US - 400, "");
	wt_event(w, "cpu_op", "aten::mm", 1, 10, at + 80, 10, shares > 1 ?
		"\"Sequence number\":1,\"Input Dims\":"
		"[[1024, 512], [512, 256]]" : "\"Sequence number\":1");
	wt_kernel(w, "ampere_sgemm_128x64", 1, 10, at + 82, 2, 7, at + 100, 500,
		n);
	wt_event(w, "cpu_op", "aten::native_layer_norm", 1, 10, at + 92, 10,
		"");
	wt_kernel(w, "vectorized_kernel", 1, 10, at + 94, 2, 7, at + 600, 100,
		n + 1);
	if (shares)
		write_sum(w, &(struct sum){ tp, n + 2, 7, at + 105, at + 700,
			200, ACTIVATIONS / 4, 2 * k });
	wt_event(w, "cpu_op", "MmBackward0", 1, 10, at + 110, 60,
		"\"Sequence number\":1,\"Fwd thread id\":1");
	if (shares > 1)
		wt_event(w, "cpu_op", "aten::mm", 1, 10, at + 115, 10,
			"\"Input Dims\":[[1024, 256], [256, 512]]");
	wt_kernel(w, "ampere_sgemm_backward", 1, 10, at + 120, 2, 7, at + 900,
		500, n + 3);
	if (shares)
		write_sum(w, &(struct sum){ tp, n + 4, 7, at + 130, at + 1400,
			200, ACTIVATIONS / 4, 2 * k + 1 });
	write_sum(w, &(struct sum){ dp, n + 5, 7, at + 140, at + 1600, 2000,
		GRADIENTS / 4, k });
	write_wait(w, at + 250, n + 6);
}

struct told {
	struct wt w;
	struct taut_run *run;
	struct taut_graph *graph;
};

static struct told tell(int ranks, int shares)
{
	struct told t = { .w = wt_begin() };
	struct taut_error err = { 0 };
	char host[16];

	for (int r = 0; r < ranks; r++) {
		wt_rank(&t.w, r);
		snprintf(host, sizeof host, "host%d", r / 2);
		wt_host(&t.w, host);
		for (int k = 0; k < STEPS; k++)
			write_step(&t.w, r, k, shares);
	}
	t.run = wt_open(&t.w);
	if (taut_graph_build(t.run, NULL, &t.graph, &err))
		fail_msg("%s", err.message);
	return t;
}

static void forget(struct told *t)
{
	taut_graph_destroy(t->graph);
	taut_run_close(t->run);
	wt_end(&t->w);
}

static struct taut_prediction *predict(const struct told *t, const char *a,
	const char *b)
{
	const char *changes[] = { a, b };
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };

	if (taut_predict(t->graph, changes, b ? 2 : 1, NULL, &p, &err))
		fail_msg("%s: %s", a, err.message);
	assert_true(p->low_ns <= p->after_ns && p->after_ns <= p->high_ns);
	return p;
}

static void refuse(const struct told *t, const char *change, const char *words)
{
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };

	assert_int_equal(taut_predict(t->graph, &change, 1, NULL, &p, &err),
		TAUT_EINVAL);
	if (!strstr(err.message, words))
		fail_msg("'%s' does not say '%s'", err.message, words);
}

static uint32_t rank_of(const struct taut_graph *g, uint32_t member)
{
	return g->lanes[g->lane[g->member_arrive[member]]].trace;
}

/* Groups of `shared` ranks sum activations, the recorded bytes; two ranks each
 * sum so many bytes of gradients. */
static void check_groups(const struct taut_graph *g, uint32_t shared,
	int64_t gradients)
{
	uint32_t n_shared = 0, n_gradients = 0;

	assert_int_equal(g->run->n_traces, 2 * shared);
	for (uint32_t i = 0; i < g->n_collectives; i++) {
		const struct taut_collective *c = &g->collectives[i];

		assert_int_equal(c->group_size, c->n_members);
		if (c->bytes == ACTIVATIONS) {
			assert_int_equal(c->n_members, shared);
			n_shared++;
		} else {
			assert_int_equal(c->bytes, gradients);
			assert_int_equal(c->n_members, 2);
			assert_int_not_equal(rank_of(g, c->first_member),
				rank_of(g, c->first_member + 1));
			n_gradients++;
		}
	}
	assert_int_equal(n_shared, shared > 1 ? 2 * 2 * STEPS : 0);
	assert_int_equal(n_gradients, (int)shared * STEPS);
}

/* A kernel's least and 3 % stay of a product. Gradients are twice as large, but
 * those of one rank alone pass a host's link where two shared it: of 2000, 1000
 * were each one's, half of them latency, as sizes do not tell. */
static void test_alone(void **state)
{
	struct told t = tell(4, 1);
	struct taut_prediction *p = predict(&t, "tensor=1", NULL);
	double product = 500 * (1 + 0.97 * (1 - 3.0 / 500));
	double want = 100 + 2 * product + 100 + 500 + 2 * 500;

	(void)state;
	check_groups(p->graph, 1, 2 * GRADIENTS);
	assert_true(llabs(p->after_ns - (int64_t)(1e3 * want)) < 1000);
	taut_prediction_destroy(p);
	forget(&t);
}

/* 1024 words, a model 512 wide, of which half of 512 features are a rank's: one
 * product is cut behind it, the other before. Before, 150 times the bytes are
 * more than the operations, and after it less. */
static void test_sizes(void **state)
{
	struct told t = tell(4, 2);
	struct taut_prediction *p = predict(&t, "tensor=1", NULL);
	double before = 150 * 2.0 * (1024 * 512 + 512 * 256 + 1024 * 256);
	double after = 2.0 * 1024 * 512 * 512;
	double product = 500 * (1 + (after / before - 1) * (1 - 3.0 / 500));
	double want = 100 + 2 * product + 100 + 500 + 2 * 500;

	(void)state;
	assert_true(after > 150 * 2.0 * (2 * 1024 * 512 + 512 * 512));
	assert_true(before > 2.0 * 1024 * 512 * 256);
	assert_true(llabs(p->after_ns - (int64_t)(1e3 * want)) < 1000);
	taut_prediction_destroy(p);
	forget(&t);
}

static void test_more(void **state)
{
	struct told t = tell(4, 1);
	struct taut_prediction *p = predict(&t, "tensor=2x", NULL);

	(void)state;
	check_groups(p->graph, 4, GRADIENTS / 2);
	taut_prediction_destroy(p);
	p = predict(&t, "tensor=6", NULL);
	check_groups(p->graph, 6, (GRADIENTS + 1) / 3);
	assert_true(p->n_uncertain > 1);
	taut_prediction_destroy(p);
	forget(&t);
}

static void test_as_recorded(void **state)
{
	struct told t = tell(4, 1);
	struct taut_prediction *p = predict(&t, "tensor=2", NULL);

	(void)state;
	assert_int_equal(p->after_ns, p->before_ns);
	taut_prediction_destroy(p);
	p = predict(&t, "tensor=1x,group=2", NULL);
	assert_int_equal(p->after_ns, p->before_ns);
	taut_prediction_destroy(p);
	forget(&t);
}

static void test_stacks(void **state)
{
	struct told t = tell(4, 1);
	struct taut_prediction *p = predict(&t, "tensor=4", "world=4");

	(void)state;
	assert_int_equal(p->graph->run->n_traces, 4);
	taut_prediction_destroy(p);
	p = predict(&t, "tensor=4", "world=16");
	assert_int_equal(p->graph->run->n_traces, 16);
	taut_prediction_destroy(p);
	p = predict(&t, "world=8", "tensor=1");
	assert_int_equal(p->graph->run->n_traces, 4);
	taut_prediction_destroy(p);
	forget(&t);
}

static void test_refusals(void **state)
{
	struct told t = tell(4, 1);

	(void)state;
	refuse(&t, "tensor=0", "whole number");
	refuse(&t, "tensor=0.3x", "whole number");
	refuse(&t, "tensor=1.5", "whole number");
	refuse(&t, "tensor=65536", "whole number");
	refuse(&t, "tensor=99999999", "whole number");
	refuse(&t, "tensor=2,group=3", "groups of 3");
	forget(&t);
	t = tell(4, 0);
	refuse(&t, "tensor=2", "nothing sums activations");
	forget(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_more),
		cmocka_unit_test(test_as_recorded),
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

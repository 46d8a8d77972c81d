/* replica_test.c - more ranks of a job on GPUs whose ranks hold one model in
 * pairs: 0 and 1 are one replica, 2 and 3 another. In each step (us): a kernel
 * 100..600, the pair's all-reduce 600..800, a backward kernel 800..1300, the
 * all-reduce of gradients with the same rank of the other pair 1300..3300. */
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

#include <taut/graph.h>
#include <taut/whatif.h>

#include "tests/support/write_trace.h"

enum { STEPS = 3, STEP_US = 4000 };

static void write_sum(struct wt *w, const char *group, double call, int stream,
	double ts, double dur, long floats, int number, int seq)
{
	char args[512];

	snprintf(args, sizeof args, "\"correlation\":%d", number);
	wt_event(w, "cuda_runtime", "cudaLaunchKernel", 1, 10, call, 2, args);
	snprintf(args, sizeof args, "\"device\":0,\"stream\":%d,"
		"\"correlation\":%d,\"Collective name\":\"allreduce\","
		"\"dtype\":\"Float\",\"In msg nelems\":%ld,\"Group size\":2,"
		"\"Process Group Name\":\"%s\",\"Seq\":%d", stream, number,
		floats, group, seq);
	wt_event(w, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0,
		stream, ts, dur, args);
}

static void write_step(struct wt *w, int rank, int k)
{
	double at = 1000 + (double)k * STEP_US;
	int n = 10 * k + 1;
	char text[64], group[16];

	snprintf(text, sizeof text, "ProfilerStep#%d", k);
	wt_event(w, "user_annotation", text, 1, 10, at, STEP_US - 500, "");
	wt_event(w, "cpu_op", "aten::mm", 1, 10, at + 80, 10,
		"\"Sequence number\":1");
	wt_kernel(w, "gemm", 1, 10, at + 82, 2, 7, at + 100, 500, n);
	snprintf(group, sizeof group, "tp%d", rank / 2);
	write_sum(w, group, at + 95, 20, at + 600, 200, 100000, n + 1, k);
	wt_event(w, "cpu_op", "MmBackward0", 1, 10, at + 110, 60,
		"\"Sequence number\":1,\"Fwd thread id\":1");
	wt_kernel(w, "gemm_backward", 1, 10, at + 120, 2, 7, at + 800, 500,
		n + 2);
	snprintf(group, sizeof group, "dp%d", rank % 2);
	write_sum(w, group, at + 140, 24, at + 1300, 2000, 1000000, n + 3, k);
	snprintf(text, sizeof text, "\"correlation\":%d", n + 4);
	wt_event(w, "cuda_runtime", "cudaDeviceSynchronize", 1, 10, at + 200,
		3100, text);
}

struct told {
	struct wt w;
	struct taut_run *run;
	struct taut_graph *graph;
};

static struct told tell(int ranks)
{
	struct told t = { .w = wt_begin() };
	struct taut_error err = { 0 };
	char host[16];

	for (int r = 0; r < ranks; r++) {
		wt_rank(&t.w, r);
		snprintf(host, sizeof host, "host%d", r / 2);
		wt_host(&t.w, host);
		for (int k = 0; k < STEPS; k++)
			write_step(&t.w, r, k);
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

static struct taut_prediction *predict(const struct told *t, const char *change)
{
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };

	if (taut_predict(t->graph, &change, 1, NULL, &p, &err))
		fail_msg("%s: %s", change, err.message);
	return p;
}

static uint32_t rank_of(const struct taut_graph *g, uint32_t member)
{
	return g->lanes[g->lane[g->member_arrive[member]]].trace;
}

/* Pairs stay pairs, and are of two neighbours; gradients get members. */
static void count_groups(const struct taut_graph *g, uint32_t replicas)
{
	uint32_t pairs = 0, sums = 0;

	for (uint32_t i = 0; i < g->n_collectives; i++) {
		const struct taut_collective *c = &g->collectives[i];
		uint32_t first = rank_of(g, c->first_member);

		if (c->bytes == 4000000) {
			sums++;
			assert_int_equal(c->n_members, replicas);
			assert_int_equal(c->group_size, replicas);
			for (uint32_t m = 0; m < c->n_members; m++)
				assert_int_equal(rank_of(g, c->first_member + m)
					% 2, first % 2);
		} else {
			pairs++;
			assert_int_equal(c->bytes, 400000);
			assert_int_equal(c->n_members, 2);
			assert_int_equal(c->group_size, 2);
			assert_int_equal(first / 2,
				rank_of(g, c->first_member + 1) / 2);
		}
	}
	assert_int_equal(sums, 2 * STEPS);
	assert_int_equal(pairs, replicas * STEPS);
}

static void test_more_replicas(void **state)
{
	struct told t = tell(4);
	struct taut_prediction *p = predict(&t, "world=8");

	(void)state;
	assert_int_equal(p->graph->run->n_traces, 8);
	count_groups(p->graph, 4);
	/* a ring of two: 2 messages and S; of four: 6 and 3/2 S */
	assert_true(p->after_ns - p->before_ns >= 1000000);
	assert_true(p->after_ns - p->before_ns <= 3000000);
	taut_prediction_destroy(p);
	p = predict(&t, "world=20");
	count_groups(p->graph, 10);
	taut_prediction_destroy(p);
	forget(&t);
}

static void test_fewer_replicas(void **state)
{
	struct told t = tell(4);
	struct taut_prediction *p = predict(&t, "world=2");

	(void)state;
	assert_int_equal(p->graph->run->n_traces, 2);
	assert_true(p->after_ns < p->before_ns - 1900000);
	taut_prediction_destroy(p);
	forget(&t);
}

static void test_half_a_replica(void **state)
{
	struct told t = tell(4);
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };
	const char *change = "world=7";

	(void)state;
	assert_int_equal(taut_predict(t.graph, &change, 1, NULL, &p, &err),
		TAUT_EINVAL);
	assert_non_null(strstr(err.message, "multiple of 2"));
	forget(&t);
	t = tell(3); /* rank 3's recording is missing */
	change = "world=4";
	assert_int_equal(taut_predict(t.graph, &change, 1, NULL, &p, &err),
		TAUT_EINVAL);
	assert_non_null(strstr(err.message, "recorded"));
	forget(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_more_replicas),
		cmocka_unit_test(test_fewer_replicas),
		cmocka_unit_test(test_half_a_replica),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

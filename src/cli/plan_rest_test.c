/* plan_rest_test.c - plans of a job of three blocks, each of which keeps 6,000 bytes for
 * its backward pass, and 1,000 that it hands on: what is needed without a decision. */
#include "tests/support/unit.h"

#include <taut/graph.h>

#include "cli/plan_rest.h"
#include "tests/support/write_trace.h"

static const char *const first = "recompute=nn.Module: block0";
static const char *const second = "recompute=nn.Module: block1";

struct job {
	struct wt w;
	struct taut_run *run;
	struct taut_graph *graph;
	struct taut_predictor *predictor;
	struct taut_arena *arena;
};

/* Times in ms. */
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

/* 0 forward 150 backward 450 update 500 */
static void step(struct wt *w, int number, double at)
{
	char name[32], seq[64];

	snprintf(name, sizeof name, "ProfilerStep#%d", number);
	event(w, "user_annotation", name, at, 500, "");
	for (int b = 0; b < 3; b++) {
		double forward = at + 50 * b, back = at + 350 - 100 * b;
		int place = 6 * number + 2 * b + 1;

		snprintf(name, sizeof name, "nn.Module: block%d", b);
		event(w, "user_annotation", name, forward, 50, "");
		snprintf(seq, sizeof seq, "\"Sequence number\":%d", place);
		event(w, "cpu_op", "aten::batch_norm", forward, 40, seq);
		memory(w, forward + 20, 6000, place);
		event(w, "cpu_op", "autograd::engine::evaluate_function: "
			"NativeBatchNormBackward0", back + 20, 70, seq);
		memory(w, back + 85, -6000, place);
		event(w, "cpu_op", "autograd::engine::evaluate_function: "
			"torch::autograd::AccumulateGrad", back + 90, 10, "");
		snprintf(seq, sizeof seq, "\"Sequence number\":%d", place + 1);
		event(w, "cpu_op", "aten::relu", forward + 40, 10, seq);
		memory(w, forward + 45, 1000, place + 1);
		event(w, "cpu_op", "autograd::engine::evaluate_function: "
			"ReluBackward0", back, 20, seq);
		memory(w, back + 10, -1000, place + 1);
	}
	event(w, "user_annotation", "Optimizer.step#SGD.step", at + 450, 50, "");
}

static struct job open_job(void)
{
	struct job j = { .w = wt_begin(), .arena = taut_arena_create() };
	struct taut_error err = { 0 };

	wt_rank(&j.w, 0);
	for (int s = 0; s < 4; s++)
		step(&j.w, s, 500.0 * s);
	j.run = wt_open(&j.w);
	assert_non_null(j.arena);
	if (taut_graph_build(j.run, NULL, &j.graph, &err) ||
		taut_predictor_create(j.graph, &j.predictor, &err))
		fail_msg("%s", err.message);
	return j;
}

static void close_job(struct job *j)
{
	taut_predictor_destroy(j->predictor);
	taut_graph_destroy(j->graph);
	taut_run_close(j->run);
	wt_end(&j->w);
	taut_arena_destroy(j->arena);
}

static struct taut_plan rest_of(const struct job *j,
	const struct taut_plan *plan, uint32_t which, int64_t memory_most)
{
	struct taut_plan rest;
	struct taut_error err = { 0 };

	if (plan_rest(j->predictor, plan, which, memory_most, j->arena, &rest,
		&err))
		fail_msg("%s", err.message);
	return rest;
}

static const int64_t ms = 1000000;

/* Each could go; without both there is too little. Each costs 50 ms. */
static void test_both_are_dispensable_but_not_at_once(void **state)
{
	const struct taut_decision both[] = { { first, 0, 550 * ms },
		{ second, 0, 550 * ms } };
	const struct taut_plan plan = { .n_decisions = 2, .decisions = both,
		.after_ns = 600 * ms, .low_ns = 590 * ms, .high_ns = 610 * ms,
		.memory_after = 10000, .network_after = 7 };
	struct job j = open_job();
	struct taut_plan rest = rest_of(&j, &plan, 0, 16000);

	(void)state;
	assert_int_equal(rest.n_decisions, 1);
	assert_string_equal(rest.decisions[0].change, second);
	assert_int_equal(rest.memory_after, 15000);
	assert_int_equal(rest.after_ns, 550 * ms);
	assert_int_equal(rest.low_ns, rest.after_ns);
	assert_int_equal(rest.high_ns, rest.after_ns);
	assert_int_equal(rest.decisions[0].without_ns, -1);
	assert_int_equal(both[1].without_ns, 550 * ms);
	rest = rest_of(&j, &plan, 0, 21000);
	assert_int_equal(rest.decisions[0].without_ns, 500 * ms);
	rest = rest_of(&j, &plan, 0, 0);
	assert_int_equal(rest.decisions[0].without_ns, 500 * ms);
	close_job(&j);
}

/* What could not be left out by itself stays so. */
static void test_not_by_itself(void **state)
{
	const struct taut_decision both[] = { { first, 0, 550 * ms },
		{ second, 0, -1 } };
	const struct taut_plan plan = { .n_decisions = 2, .decisions = both };
	struct job j = open_job();
	struct taut_plan rest = rest_of(&j, &plan, 0, 0);

	(void)state;
	assert_int_equal(rest.decisions[0].without_ns, -1);
	close_job(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_are_dispensable_but_not_at_once),
		cmocka_unit_test(test_not_by_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

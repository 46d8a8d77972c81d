/* predict_test.c - predictions whose answers are worked out by hand: jobs of
 * two hosts that compute on stream 7 and sum gradients on other streams. */
#include "tests/support/unit.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <taut/report.h>
#include <taut/whatif.h>

#include "tests/support/alloc_fail.h"
#include "tests/support/write_trace.h"
#include "whatif/sweep.h"

enum { STEP_US = 40000, STEPS = 4, MB = 250000 /* floats */ };

struct sum { /* one all-reduce of a step, alike on both ranks */
	int group, stream;
	double at_us, dur_us; /* from the begin of the step */
	long floats;
};

struct told {
	struct wt w;
	struct taut_run *run;
	struct taut_graph *graph;
};

static void write_sum(struct wt *w, const struct sum *s, double step_us,
	int correlation, int seq)
{
	char args[512];

	snprintf(args, sizeof args, "\"correlation\":%d", correlation);
	wt_event(w, "cuda_runtime", "cudaLaunchKernel", 1, 10,
		step_us + s->at_us - 10, 2, args);
	snprintf(args, sizeof args, "\"device\":0,\"stream\":%d,"
		"\"correlation\":%d,\"Collective name\":\"allreduce\","
		"\"dtype\":\"Float\",\"In msg nelems\":%ld,"
		"\"Out msg nelems\":%ld,\"Group size\":2,"
		"\"Process Group Name\":\"%d\",\"Seq\":%d",
		s->stream, correlation, s->floats, s->floats, s->group, seq);
	wt_event(w, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0,
		s->stream, step_us + s->at_us, s->dur_us, args);
}

/* Every step: a kernel of 500 us, the sums, and a wait for all of it. */
static void write_rank(struct wt *w, int rank, const struct sum *sums,
	size_t n, double step_us)
{
	char text[64];
	int correlation = 1;
	double launched = n ? sums[n - 1].at_us - 5 : 20;

	wt_rank(w, rank);
	snprintf(text, sizeof text, "host%d", rank);
	wt_host(w, text);
	for (int k = 0; k < STEPS; k++) {
		double at = 1000 + (double)k * STEP_US;

		snprintf(text, sizeof text, "ProfilerStep#%d", k);
		wt_event(w, "user_annotation", text, 1, 10, at, step_us, "");
		wt_kernel(w, "gemm", 1, 10, at + 10, 2, 7, at + 20, 500,
			correlation++);
		for (size_t i = 0; i < n; i++)
			write_sum(w, &sums[i], at, correlation++,
				k * 100 + (int)i);
		snprintf(text, sizeof text, "\"correlation\":%d",
			correlation++);
		wt_event(w, "cuda_runtime", "cudaDeviceSynchronize", 1, 10,
			at + launched, step_us - launched, text);
	}
}

static struct told tell(const struct sum *sums, size_t n, double step_us)
{
	struct told t = { .w = wt_begin() };
	struct taut_error err = { 0 };

	for (int rank = 0; rank < 2; rank++)
		write_rank(&t.w, rank, sums, n, step_us);
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

static struct taut_prediction *predict(
	const struct told *t, const char *const *changes, size_t n)
{
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };

	if (taut_predict(t->graph, changes, n, NULL, &p, &err))
		fail_msg("%s", err.message);
	assert_true(p->low_ns <= p->after_ns && p->after_ns <= p->high_ns);
	return p;
}

static struct taut_prediction *predict_one(
	const struct told *t, const char *change)
{
	return predict(t, &change, 1);
}

/* 200 us and 4 ms a MB, which takes three sizes to know. The last one is
 * launched at 12590, and the step ends with it; slower links, of half the rate,
 * are done with the others by then. */
#define SMALL \
	{ 0, 20, 600, 700, MB / 8 }, { 0, 20, 1900, 1200, MB / 4 }, \
	{ 0, 20, 4200, 4200, MB }
static const struct sum sums[] = { SMALL, { 0, 20, 12600, 8200, 2 * MB } };
enum { N_SUMS = sizeof sums / sizeof sums[0], TELL_US = 20800 };

/* Lines are fitted in doubles: a few nanoseconds. */
static void expect_us(int64_t found_ns, int64_t expected_us)
{
	if (llabs(found_ns - expected_us * 1000) > 5)
		fail_msg("expected %lld us, found %lld ns",
			(long long)expected_us, (long long)found_ns);
}

static void test_nothing_changes_nothing(void **state)
{
	struct told t = tell(sums, N_SUMS, TELL_US);
	struct taut_prediction *p = predict(&t, NULL, 0);

	(void)state;
	expect_us(p->before_ns, 20800);
	expect_us(p->after_ns, 20800);
	assert_int_equal(p->graph->n_ops, t.graph->n_ops);
	assert_true(p->samples_factor == 1);
	taut_prediction_destroy(p);
	forget(&t);
}

static void test_twice_the_link_halves_what_moves(void **state)
{
	struct told t = tell(sums, N_SUMS, TELL_US);
	struct taut_prediction *p = predict_one(&t, "link=2x");

	(void)state;
	expect_us(p->before_ns, 20800);
	expect_us(p->after_ns, 16800);
	assert_true(p->high_ns > p->after_ns);
	taut_prediction_destroy(p);
	p = predict_one(&t, "link=0.5x");
	expect_us(p->after_ns, 28800);
	taut_prediction_destroy(p);
	p = predict_one(&t, "link=2gbit,from=1gbit");
	expect_us(p->after_ns, 16800);
	taut_prediction_destroy(p);
	forget(&t);
}

static void test_changes_stack(void **state)
{
	static const char *const changes[] = { "link=2x", "link=2x" };
	struct told t = tell(sums, N_SUMS, TELL_US);
	struct taut_prediction *p = predict(&t, changes, 2);

	(void)state;
	expect_us(p->after_ns, 14800);
	taut_prediction_destroy(p);
	forget(&t);
}

/* The slower way of a link decides, and the slower host. */
static void test_one_way_and_one_host(void **state)
{
	static const char *const slower[] = { "link=0.5x,direction=up",
		"link=0.5x,direction=down", "link=0.5x,host=0",
		"link=0.5x,host=host1", "link=-50%" };
	struct told t = tell(sums, N_SUMS, TELL_US);

	(void)state;
	for (size_t i = 0; i < sizeof slower / sizeof slower[0]; i++) {
		struct taut_prediction *p = predict_one(&t, slower[i]);

		expect_us(p->after_ns, 28800);
		taut_prediction_destroy(p);
	}
	struct taut_prediction *p = predict_one(&t, "link=2x,host=1");

	expect_us(p->after_ns, 20800);
	taut_prediction_destroy(p);
	forget(&t);
}

/* A 0..4000 and B 2000..6000, of which 200 are latency, share the link for
 * 1800: 2900 each, alone. With twice the link A is done after 1650, before B is
 * launched: B ends at 3650. */
static void test_contention(void **state)
{
	static const struct sum two[] = { SMALL,
		{ 0, 20, 12600, 4000, MB * 29 / 40 },
		{ 1, 21, 14600, 4000, MB * 29 / 40 } };
	struct told t = tell(two, 5, 18600);
	struct taut_prediction *p = predict_one(&t, "link=2x");

	(void)state;
	expect_us(p->before_ns, 18600);
	expect_us(p->after_ns, 12600 + 3650);
	taut_prediction_destroy(p);
	/* Half the link: A alone to 2200 with 1900 of 2900 left (at rate 1/2),
	 * then a quarter each: A until 9800, B with 1000 left until 11800. */
	p = predict_one(&t, "link=0.5x");
	expect_us(p->after_ns, 12600 + 11800);
	taut_prediction_destroy(p);
	forget(&t);
}

/* 200 us and 2 ms a MB, of three sizes: a faster link leaves the 200 us. */
static void test_latency_stays(void **state)
{
	static const struct sum three[] = { { 0, 20, 600, 2200, MB },
		{ 0, 20, 3600, 4200, 2 * MB }, { 0, 20, 8600, 8200, 4 * MB } };
	struct told t = tell(three, 3, 16800);
	struct taut_prediction *p = predict_one(&t, "link=2x");

	(void)state;
	/* launches stay where they were: the last begins at 8600 */
	assert_true(llabs(p->after_ns - (8600 + 200 + 4000) * 1000) < 2000);
	taut_prediction_destroy(p);
	p = predict_one(&t, "link,latency=3x");
	assert_true(llabs(p->after_ns - (16800 + 400) * 1000) < 2000);
	taut_prediction_destroy(p);
	forget(&t);
}

static void test_the_changed_job_can_be_explained(void **state)
{
	struct told t = tell(sums, N_SUMS, TELL_US);
	struct taut_prediction *p = predict_one(&t, "link=2x");
	struct taut_report *report;
	struct taut_error err = { 0 };

	(void)state;
	if (taut_explain(p->graph, NULL, &report, &err))
		fail_msg("%s", err.message);
	assert_int_equal(report->steady_ns, p->after_ns);
	assert_int_equal(report->replay_steady_ns, p->after_ns);
	taut_report_destroy(report);
	taut_prediction_destroy(p);
	forget(&t);
}

static void refused(const struct told *t, const char *change, const char *says)
{
	struct taut_prediction *p;
	struct taut_error err = { 0 };

	assert_int_equal(
		taut_predict(t->graph, &change, 1, NULL, &p, &err), TAUT_EINVAL);
	if (!strstr(err.message, says))
		fail_msg("%s: %s", change, err.message);
}

static void test_what_does_not_apply(void **state)
{
	struct told t = tell(sums, N_SUMS, TELL_US);

	(void)state;
	refused(&t, "link", "expected a rate");
	refused(&t, "link=0x", "more than nothing");
	refused(&t, "link=2x,host=7", "a whole number from 0 to 1");
	refused(&t, "link=2x,direction=left", "one of both|up|down");
	refused(&t, "link=2gbit,from=2x", "the recorded link's rate");
	refused(&t, "linc=2x", "did you mean link?");
	refused(&t, "link=2x,between=ranks", "stays inside a host");
	refused(&t, "link,latency=2x,between=ranks", "between hosts");
	forget(&t);
	t = tell(NULL, 0, 700);
	refused(&t, "link=2x", "no transfer of this recording goes from");
	forget(&t);
}

static void test_interval_is_named(void **state)
{
	struct told t = tell(sums, N_SUMS, TELL_US);
	struct taut_prediction *p = predict_one(&t, "link=2x");
	bool links = false, model = false, scatter = false;

	(void)state;
	for (uint32_t i = 0; i < p->n_uncertain; i++) {
		const struct taut_uncertain *u = &p->uncertain[i];

		assert_true(u->low_ns <= u->high_ns);
		links |= strstr(u->name, "links") != NULL;
		model |= !strcmp(u->name, "what link=2x assumes");
		scatter |= strstr(u->name, "scatter") != NULL;
	}
	assert_true(links && model && scatter);
	assert_int_equal(p->n_notes, 1);
	assert_non_null(strstr(p->notes[0], "extrapolation"));
	taut_prediction_destroy(p);
	forget(&t);
}

/* By how much the interval of a prediction is wider than nothing. */
static double width_of(const struct told *t, double runs_differ)
{
	const struct taut_whatif_options options = { .no_graph = 1,
		.runs_differ = runs_differ };
	static const char *const change = "link=2x";
	struct taut_error err = { 0 };
	struct taut_prediction *p;
	double width;

	if (taut_predict(t->graph, &change, 1, &options, &p, &err))
		fail_msg("%s", err.message);
	width = (double)(p->after_ns - p->low_ns);
	width /= (double)p->after_ns;
	taut_prediction_destroy(p);
	return width;
}

static void test_runs_differ(void **state)
{
	struct told t = tell(sums, N_SUMS, TELL_US);
	double without = width_of(&t, -1), usual = width_of(&t, 0),
		given = width_of(&t, 0.1);

	(void)state;
	assert_true(fabs(usual - hypot(without, 0.015)) < 1e-4);
	assert_true(fabs(given - hypot(without, 0.1)) < 1e-4);
	forget(&t);
}

/* 23 steps of one operator of 9 to 13.4 ms, each once; the kth is the
 * (k * stride % 23)th in length. Half of the part of their scatter. */
static double scatter_of(int stride)
{
	struct told t = { .w = wt_begin() };
	struct taut_error err = { 0 };
	struct taut_prediction *p;
	double at = 0, half = -1;

	wt_rank(&t.w, 0);
	for (int k = 0; k < 24; k++) { /* the first does not count */
		double us = 9000 + 200 * ((k - 1) * stride % 23);
		char name[32];

		snprintf(name, sizeof name, "ProfilerStep#%d", k);
		wt_event(&t.w, "user_annotation", name, 1, 10, at, us, "");
		wt_event(&t.w, "cpu_op", "aten::mm", 1, 10, at, us, "");
		at += us;
	}
	t.run = wt_open(&t.w);
	if (taut_graph_build(t.run, NULL, &t.graph, &err))
		fail_msg("%s", err.message);
	p = predict(&t, NULL, 0);
	for (uint32_t i = 0; i < p->n_uncertain; i++)
		if (strstr(p->uncertain[i].name, "scatter"))
			half = (double)(p->uncertain[i].high_ns - p->after_ns);
	taut_prediction_destroy(p);
	forget(&t);
	return half;
}

/* Steps that are slow in rows say less than as many that are slow by turns. */
static void test_scatter_in_rows(void **state)
{
	double mixed = scatter_of(9), drifting = scatter_of(1);

	(void)state;
	assert_true(mixed > 0);
	assert_true(drifting > 1.3 * mixed);
}

/* 100 operators of 100 us a step, of which 2 are the profiler's: steps without
 * it took 2 % less. */
static void test_recording_is_taken_off(void **state)
{
	struct told t = { .w = wt_begin() };
	struct taut_error err = { 0 };
	struct taut_prediction *p;
	char path[128];
	FILE *out;

	(void)state;
	wt_rank(&t.w, 0);
	for (int k = 0; k < STEPS; k++) {
		char name[32];

		snprintf(name, sizeof name, "ProfilerStep#%d", k);
		wt_event(&t.w, "user_annotation", name, 1, 10, k * 10000.0,
			10000, "");
		for (int i = 0; i < 100; i++)
			wt_event(&t.w, "cpu_op", "aten::mm", 1, 10,
				k * 10000.0 + i * 100, 100, "");
	}
	snprintf(path, sizeof path, "%s/processes", t.w.folder);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof path, "%s/processes/a-1.json", t.w.folder);
	out = fopen(path, "w");
	assert_non_null(out);
	fprintf(out, "{\"rank\": 0, \"step_ms\": {\"recorded\": 10.0, "
		"\"unrecorded\": 9.8}}");
	fclose(out);
	t.run = wt_open(&t.w);
	if (taut_graph_build(t.run, NULL, &t.graph, &err))
		fail_msg("%s", err.message);
	p = predict(&t, NULL, 0);
	assert_int_equal(p->recorded_ns, 10000000);
	assert_true(p->recorder_ns > 1900 && p->recorder_ns < 2050);
	assert_true(llabs(p->before_ns - 9800000) < 2000);
	assert_int_equal(p->after_ns, p->before_ns);
	assert_non_null(strstr(p->notes[0], "recording made the job slower"));
	taut_prediction_destroy(p);
	unlink(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
	forget(&t);
}

/* The same with any number of threads, which share the recording alone. */
static void test_threads(void **state)
{
	static const char *const slow = "slow=1,factor=1.5";
	struct told t = tell(sums, N_SUMS, TELL_US);
	struct taut_arena *arena = taut_arena_create();
	struct tauti_sweep sweeps[2];
	struct taut_error err = { 0 };

	(void)state;
	assert_non_null(arena);
	for (unsigned i = 0; i < 2; i++) {
		const struct taut_whatif_options options = {
			.threads = i ? 4 : 1 };

		if (tauti_sweep_read("link=1x..4x:8", arena, &sweeps[i], &err) ||
			tauti_sweep_run(&sweeps[i], t.graph, &slow, 1,
			&options, &err))
			fail_msg("%s", err.message);
	}
	for (uint32_t i = 0; i < 8; i++) {
		const struct tauti_sweep_point *a = &sweeps[0].points[i];
		const struct tauti_sweep_point *b = &sweeps[1].points[i];

		assert_int_equal(a->after_ns, b->after_ns);
		assert_int_equal(a->low_ns, b->low_ns);
		assert_int_equal(a->high_ns, b->high_ns);
	}
	taut_arena_destroy(arena);
	forget(&t);
}

static void test_no_memory(void **state)
{
	struct told t = tell(sums, N_SUMS, TELL_US);
	const struct taut_whatif_options alone = { .threads = 1 };
	const char *change = "link=2x";
	taut_status status = TAUT_ENOMEM;

	(void)state;
	for (long n = 0; status == TAUT_ENOMEM; n++) {
		struct taut_prediction *p = NULL;
		struct taut_error err = { 0 };

		alloc_fail_after(n);
		status = taut_predict(t.graph, &change, 1, &alone, &p, &err);
		alloc_fail_never();
		taut_prediction_destroy(p);
		if (status && status != TAUT_ENOMEM)
			fail_msg("%ld: %s", n, err.message);
	}
	assert_int_equal(status, TAUT_OK);
	forget(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_changes_nothing),
		cmocka_unit_test(test_twice_the_link_halves_what_moves),
		cmocka_unit_test(test_changes_stack),
		cmocka_unit_test(test_one_way_and_one_host),
		cmocka_unit_test(test_contention),
		cmocka_unit_test(test_latency_stays),
		cmocka_unit_test(test_the_changed_job_can_be_explained),
		cmocka_unit_test(test_what_does_not_apply),
		cmocka_unit_test(test_interval_is_named),
		cmocka_unit_test(test_runs_differ),
		cmocka_unit_test(test_scatter_in_rows),
		cmocka_unit_test(test_recording_is_taken_off),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

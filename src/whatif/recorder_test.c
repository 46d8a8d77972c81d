/* recorder_test.c - what an event of the profiler cost, from jobs made up so that
 * it is known: steps of 10 ms that a device decides, in which the host issues 40
 * operators of 50 us, each a call of the profiler. */
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <taut/cost.h>
#include <taut/replay.h>

#include "tests/support/alloc_fail.h"
#include "tests/support/write_trace.h"
#include "whatif/recorder.h"

enum { STEPS = 5, STEP_US = 10000, OPS = 40, OP_US = 50 };

/* Where the host of a job that is slower than its device waits for it. */
enum wait {
	BEFORE_ZERO,  /* synchronises, then zeroes gradients, without a loader */
	BEFORE_BATCH, /* synchronises, as one that reads the last step's loss */
	BEHIND_BATCH, /* synchronises within what it issues */
	IN_LAUNCH,    /* never: a launch finds the device's queue full */
	IN_UPDATE,    /* likewise, a launch of the optimizer's */
	NOWHERE       /* has no device: the loader takes most of the step */
};

struct job {
	struct wt w;
	char path[128];
	struct taut_run *run;
	struct taut_graph *graph;
	struct taut_costs *costs;
	int64_t steady_ns;
};

static void write_wait(struct wt *w, const char *call, double at, double dur)
{
	wt_event(w, "cuda_runtime", call, 1, 10, at, dur, "");
}

static void write_batch(struct wt *w, double at, double dur)
{
	wt_event(w, "user_annotation", "enumerate(DataLoader)#"
		"_MultiProcessingDataLoaderIter.__next__", 1, 10, at, dur, "");
}

static void write_ops(struct wt *w, double at)
{
	for (int i = 0; i < OPS; i++)
		wt_event(w, "cpu_op", "aten::mm", 1, 10, at + i * OP_US, OP_US,
			"");
}

/* The step of 10 ms that begins at `at`. */
static void write_step(struct wt *w, enum wait wait, double at, int k)
{
	char name[32];

	snprintf(name, sizeof name, "ProfilerStep#%d", k);
	wt_event(w, "user_annotation", name, 1, 10, at, STEP_US, "");
	switch (wait) {
	case BEFORE_ZERO:
	case BEFORE_BATCH:
		if (k)
			write_wait(w, "cudaDeviceSynchronize", at, 7800);
		if (wait == BEFORE_BATCH)
			write_batch(w, at + 7800, 100);
		else
			wt_event(w, "user_annotation",
				"Optimizer.zero_grad#AdamW.zero_grad", 1, 10,
				at + 7800, 100, "");
		wt_kernel(w, "gemm", 1, 10, at + 7900, 100, 7, at + 7920,
			STEP_US - 120, k + 1);
		write_ops(w, at + 8000);
		break;
	case BEHIND_BATCH:
		write_batch(w, at, 2900);
		wt_kernel(w, "gemm", 1, 10, at + 2900, 100, 7, at + 2920,
			7075, k + 1);
		write_ops(w, at + 3000);
		write_wait(w, "cudaDeviceSynchronize", at + 5000, 5000);
		break;
	case IN_LAUNCH:
		write_batch(w, at, 100);
		write_ops(w, at + 100);
		wt_kernel(w, "gemm", 1, 10, at + 2100, 7900, 7, at + 9990,
			STEP_US, k + 1);
		break;
	case IN_UPDATE:
		write_batch(w, at, 100);
		write_ops(w, at + 100);
		wt_event(w, "user_annotation", "Optimizer.step#AdamW.step", 1, 10,
			at + 2100, 7900, "");
		wt_kernel(w, "gemm", 1, 10, at + 2110, 7880, 7, at + 9990,
			STEP_US, k + 1);
		break;
	case NOWHERE:
		write_batch(w, at, 8000);
		write_ops(w, at + 8000);
		break;
	}
}

static void write_process(struct job *j, double issue_ms, double passes_ms)
{
	FILE *out;

	snprintf(j->path, sizeof j->path, "%s/processes", j->w.folder);
	assert_int_equal(mkdir(j->path, 0700), 0);
	snprintf(j->path, sizeof j->path, "%s/processes/a-1.json",
		j->w.folder);
	out = fopen(j->path, "w");
	assert_non_null(out);
	fprintf(out, "{\"rank\": 0, \"step_ms\": {\"recorded\": 10.0, "
		"\"unrecorded\": 10.0");
	if (issue_ms > 0)
		fprintf(out, ", \"unrecorded_issue\": %.6f", issue_ms);
	if (passes_ms > 0)
		fprintf(out, ", \"unrecorded_passes\": %.6f", passes_ms);
	fprintf(out, "}}");
	fclose(out);
}

/* issue_ms: what the host takes to issue a step that nobody records; passes_ms: until
 * its optimizer begins; 0: the recording does not say. */
static struct job make(enum wait wait, double issue_ms, double passes_ms)
{
	struct job j = { .w = wt_begin() };
	struct taut_error err = { 0 };
	int64_t *end_ns;

	wt_rank(&j.w, 0);
	for (int k = 0; k < STEPS; k++)
		write_step(&j.w, wait, 1000 + (double)k * STEP_US, k);
	write_process(&j, issue_ms, passes_ms);
	j.run = wt_open(&j.w);
	if (taut_graph_build(j.run, NULL, &j.graph, &err) ||
		taut_costs_create(j.graph, &j.costs, &err))
		fail_msg("%s", err.message);
	end_ns = malloc((j.graph->n_ops + 1) * sizeof *end_ns);
	assert_non_null(end_ns);
	for (uint32_t op = 0; op < j.graph->n_ops; op++)
		end_ns[op] = j.graph->start_ns[op] + j.graph->dur_ns[op];
	if (taut_steady_step(j.graph, j.graph->start_ns, end_ns, &j.steady_ns,
		&err))
		fail_msg("%s", err.message);
	free(end_ns);
	assert_true(llabs(j.steady_ns - STEP_US * 1000) < 1000);
	return j;
}

static void forget(struct job *j)
{
	taut_costs_destroy(j->costs);
	taut_graph_destroy(j->graph);
	taut_run_close(j->run);
	unlink(j->path);
	*strrchr(j->path, '/') = '\0';
	rmdir(j->path);
	wt_end(&j->w);
}

static struct tauti_recorder find_with(enum wait wait, double issue_ms, double passes_ms)
{
	struct job j = make(wait, issue_ms, passes_ms);
	struct tauti_recorder r = { 0 };
	struct taut_error err = { 0 };

	if (tauti_recorder_find(j.graph, j.costs, j.steady_ns, false, &r, &err))
		fail_msg("%s", err.message);
	forget(&j);
	return r;
}

static struct tauti_recorder find(enum wait wait, double issue_ms)
{
	return find_with(wait, issue_ms, 0);
}

/* Of 2100 us, 41 calls of 2 us are the profiler's. The step stays the device's. */
static void test_issue_tells(void **state)
{
	struct tauti_recorder r = find(BEFORE_BATCH, 2.1 - 41 * 0.002);

	(void)state;
	assert_int_equal(r.told, TAUTI_RECORDER_BY_ISSUE);
	assert_true(r.event_ns > 1980 && r.event_ns < 2020);
	/* a hundredth of 2100 us by 41 events */
	assert_true(r.low_ns > 1450 && r.low_ns < 1500);
	assert_true(r.high_ns > 2500 && r.high_ns < 2550);
	/* All but what the batch and the calls around it cost. */
	assert_true(llabs(r.step_ns - STEP_US * 1000) < 5 * 2000);
	r = find(BEFORE_BATCH, 2.1 - 41 * 0.005);
	assert_true(r.event_ns > 4980 && r.event_ns < 5020);
	r = find(BEFORE_ZERO, 2.1 - 41 * 0.002);
	assert_int_equal(r.told, TAUTI_RECORDER_BY_ISSUE);
	assert_true(r.event_ns > 1980 && r.event_ns < 2020);
	/* Recording cost nothing. */
	r = find(BEFORE_BATCH, 2.2);
	assert_int_equal(r.told, TAUTI_RECORDER_BY_ISSUE);
	assert_true(r.event_ns == 0 && r.low_ns == 0);
	assert_true(r.high_ns > 450 && r.high_ns < 550);
}

/* A loader decides, and the job has no device. So few events are lost in a step
 * that the loader makes long, but not in its issue. */
static void test_issue_behind_a_loader(void **state)
{
	struct tauti_recorder r = find(NOWHERE, 2.0 - 40 * 0.003);

	(void)state;
	assert_int_equal(r.told, TAUTI_RECORDER_BY_ISSUE);
	assert_true(r.event_ns > 2980 && r.event_ns < 3020);
	r = find(NOWHERE, 0);
	assert_int_equal(r.told, TAUTI_RECORDER_BY_USUAL);
	assert_true(r.event_ns == 2400 && r.high_ns == 4800);
}

static void assert_usual(struct tauti_recorder r)
{
	assert_int_equal(r.told, TAUTI_RECORDER_BY_USUAL);
	/* every step with shapes, for nothing says that they are lent */
	assert_true(r.event_ns == 3900);
	assert_true(r.low_ns == 1000 && r.high_ns == 8000);
}

static void test_synchronised_within(void **state)
{
	(void)state;
	assert_usual(find(BEHIND_BATCH, 6.9));
	assert_usual(find(BEHIND_BATCH, 7.1));
}

static void test_full_queue(void **state)
{
	(void)state;
	assert_usual(find(IN_LAUNCH, 9.85));
	assert_usual(find(IN_LAUNCH, 9.95));
}

/* The whole issue is the device's, and says nothing; until the optimizer begins it is
 * the host's. */
static void test_full_queue_in_the_update(void **state)
{
	struct tauti_recorder r;

	(void)state;
	assert_usual(find(IN_UPDATE, 9.85));
	r = find_with(IN_UPDATE, 9.85, 2.0 - 40 * 0.003);
	assert_int_equal(r.told, TAUTI_RECORDER_BY_ISSUE);
	assert_true(r.event_ns > 2980 && r.event_ns < 3020);
}

static void test_recording_without_it(void **state)
{
	(void)state;
	assert_usual(find(BEFORE_BATCH, 0));
}

static void test_no_memory(void **state)
{
	struct job j = make(BEFORE_BATCH, 2, 0);
	taut_status status = TAUT_ENOMEM;

	(void)state;
	for (long n = 0; status == TAUT_ENOMEM; n++) {
		struct tauti_recorder r = { .event_ns = -1 };
		struct taut_error err = { 0 };

		alloc_fail_after(n);
		status = tauti_recorder_find(
			j.graph, j.costs, j.steady_ns, false, &r, &err);
		alloc_fail_never();
		assert_true(!status || r.event_ns == -1);
	}
	assert_int_equal(status, TAUT_OK);
	forget(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_issue_tells),
		cmocka_unit_test(test_issue_behind_a_loader),
		cmocka_unit_test(test_synchronised_within),
		cmocka_unit_test(test_full_queue),
		cmocka_unit_test(test_full_queue_in_the_update),
		cmocka_unit_test(test_recording_without_it),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* diff_test.c - what one rank's part is, of jobs whose ranks form groups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "explain/diff.h"
#include "tests/support/write_trace.h"

/* Steps of 20 ms, each of 4 ms of computing and an all-reduce of two ranks, 2 * pair and
 * the next one. */
static void write_rank(struct wt *w, int rank, int steps, int marks, double takes)
{
	int pair = rank / 2;

	wt_rank(w, rank);
	for (int s = 0; s < steps; s++) {
		double t = s * 20000.0;
		char text[512];
		int call = 10 * s;

		snprintf(text, sizeof text, "ProfilerStep#%d", s);
		if (s < marks)
			wt_event(w, "user_annotation", text, 1, 10, t, 20000, "");
		wt_kernel(w, "gemm", 1, 10, t + 1, 1, 7, t + 10, 4000, call + 1);
		snprintf(text, sizeof text, "\"correlation\":%d", call + 2);
		wt_event(w, "cuda_runtime", "cudaLaunchKernel", 1, 10, t + 4, 1, text);
		snprintf(text, sizeof text, "\"device\":0,\"stream\":7,"
			"\"correlation\":%d,\"Collective name\":\"allreduce\","
			"\"Process Group Name\":\"pair %d\","
			"\"Process Group Ranks\":\"[%d, %d]\",\"Group size\":2,"
			"\"dtype\":\"Float\",\"In msg nelems\":1000", call + 2, pair,
			2 * pair, 2 * pair + 1);
		wt_event(w, "kernel", "ncclDevKernel_AllReduce_Sum_f32", 0, 7, t + 4010,
			takes, text);
		wt_event(w, "cuda_runtime", "cudaDeviceSynchronize", 1, 10, t + 6,
			4010 + takes, "");
	}
}

static void write_pair(struct wt *w, int pair, double takes)
{
	write_rank(w, 2 * pair, 3, 3, takes);
	write_rank(w, 2 * pair + 1, 3, 3, takes);
}

static struct taut_report *explain(struct taut_graph *graph)
{
	struct taut_report *report = NULL;

	assert_int_equal(taut_explain(graph, NULL, &report, NULL), TAUT_OK);
	return report;
}

static void expect_text(const struct taut_report *report, const char *part)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	assert_int_equal(taut_report_text(report, NULL, out, NULL), TAUT_OK);
	fclose(out);
	if (!strstr(text, part))
		fail_msg("no '%s' in:\n%s", part, text);
	free(text);
}

/* A rank is in one all-reduce a step, which moves for 6 ms or for 2. */
static void test_groups_side_by_side(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *graph = NULL;
	struct taut_report *report;
	struct taut_arena *arena = taut_arena_create();
	struct tauti_diff diff;
	const char *evidence = "";

	(void)state;
	write_pair(&w, 0, 6000);
	write_pair(&w, 1, 2000);
	run = wt_open(&w);
	assert_int_equal(taut_graph_build(run, NULL, &graph, NULL), TAUT_OK);
	report = explain(graph);
	assert_int_equal(report->coll_count, 6);
	assert_int_equal(report->coll_transfer_ns, 3 * 4000000);
	for (uint32_t i = 0; i < report->n_findings; i++)
		if (!strcmp(report->findings[i].id, "transfer"))
			evidence = report->findings[i].evidence;
	assert_non_null(strstr(evidence, "6 collectives, 4.0 ms of transfer a step"));
	expect_text(report, "a rank moves data for 4.00 ms a step");
	assert_int_equal(tauti_diff(report, report, arena, &diff, NULL), TAUT_OK);
	assert_int_equal(diff.n_colls, 1);
	assert_true(diff.colls[0].count_a > 0.999 && diff.colls[0].count_a < 1.001);
	assert_int_equal(diff.colls[0].bytes_a, 4000);
	assert_int_equal(diff.colls[0].transfer_a_ns, 4000000);
	taut_arena_destroy(arena);
	taut_report_destroy(report);
	taut_graph_destroy(graph);
	taut_run_close(run);
	wt_end(&w);
}

/* Four steps on rank 0. Rank 1 has three of them, or only the marks of `marks`: the path
 * of 80 ms is over four steps all the same, and a rank moves for 6 ms in each. */
static void unlike_steps(int steps, int marks)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *graph = NULL;
	struct taut_report *report;
	struct taut_arena *arena = taut_arena_create();
	struct tauti_diff diff;

	write_rank(&w, 0, 4, 4, 6000);
	write_rank(&w, 1, steps, marks, 6000);
	run = wt_open(&w);
	assert_int_equal(taut_graph_build(run, NULL, &graph, NULL), TAUT_OK);
	report = explain(graph);
	assert_int_equal(report->steady_ns, 20000000);
	assert_int_equal(tauti_diff(report, report, arena, &diff, NULL), TAUT_OK);
	assert_in_range(diff.path.before_ns, 19600000, 20400000);
	assert_in_range(diff.colls[0].transfer_a_ns, steps == 4 ? 5900000 : 5100000, 6100000);
	expect_text(report, "2 ranks, 4 steps of 20.00 ms");
	expect_text(report, "ms a step; count over all steps");
	for (uint32_t i = 0; i < diff.n_ops; i++)
		if (!strcmp(diff.ops[i].name, "gemm"))
			assert_int_equal(diff.ops[i].a_ns, 4000000);
	taut_arena_destroy(arena);
	taut_report_destroy(report);
	taut_graph_destroy(graph);
	taut_run_close(run);
	wt_end(&w);
}

static void test_unlike_numbers_of_steps(void **state)
{
	(void)state;
	unlike_steps(4, 3);
	unlike_steps(4, 0);
	unlike_steps(3, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_groups_side_by_side),
		cmocka_unit_test(test_unlike_numbers_of_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

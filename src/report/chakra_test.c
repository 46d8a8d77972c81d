/* chakra_test.c - two ranks made by hand, to Chakra and back. That other
 * programs can run what is written is tests/formats/chakra_test.py's to show. */
#include "tests/support/renderer.h"

#include "report/tables.h"
#include "tests/support/write_trace.h"

struct job {
	struct wt w;
	struct taut_run *run;
	struct taut_graph *graph;
	struct taut_report *report;
};

/* Rank 1 launches its all-reduce 300 us late. The launch of gemm ends after
 * gemm began, so that it is two nodes. */
static struct job make(void)
{
	struct job j = { .w = wt_begin() };
	struct taut_error err = { 0 };

	for (int rank = 0; rank < 2; rank++) {
		double at = 300 * rank;

		wt_rank(&j.w, rank);
		wt_event(&j.w, "user_annotation", "ProfilerStep#3", 9, 9, 0,
			1000, "");
		wt_event(&j.w, "cpu_op", "aten::mm", 9, 9, 10, 80, "");
		wt_kernel(&j.w, "gemm", 9, 9, 20, 50, 7, 40, 100, 1);
		wt_kernel(&j.w, "ncclDevKernel_AllReduce_Sum", 9, 9, 150 + at,
			10, 7, 170 + at, 500 - at, 2);
	}
	j.run = wt_open(&j.w);
	if (taut_graph_build(j.run, NULL, &j.graph, &err) ||
		taut_explain(j.graph, NULL, &j.report, &err))
		fail_msg("%s", err.message);
	return j;
}

static void finish(struct job *j)
{
	taut_report_destroy(j->report);
	taut_graph_destroy(j->graph);
	taut_run_close(j->run);
	wt_end(&j->w);
}

static taut_status write_all(const struct taut_report *report, FILE *out,
	struct taut_error *err)
{
	struct tauti_chakra *chakra = NULL;
	taut_status status = tauti_chakra_open(report, &chakra, err);

	for (uint32_t i = 0; !status && i < report->run->n_traces; i++)
		status = tauti_chakra_write(chakra, i, out, err);
	if (!status)
		status = tauti_chakra_write_groups(chakra, out, err);
	tauti_chakra_close(chakra);
	return status;
}

static struct taut_run *read_back(
	const struct taut_report *report, uint32_t rank)
{
	struct tauti_chakra *chakra = NULL;
	struct taut_run *run = NULL;
	struct taut_error err = { 0 };
	char *bytes = NULL;
	size_t len;
	FILE *out = open_memstream(&bytes, &len);

	assert_non_null(out);
	assert_int_equal(tauti_chakra_open(report, &chakra, &err), TAUT_OK);
	assert_int_equal(
		tauti_chakra_write(chakra, rank, out, &err), TAUT_OK);
	tauti_chakra_close(chakra);
	fclose(out);
	if (taut_run_open_memory("t.et", bytes, len, -1, &run, &err))
		fail_msg("%s", err.message);
	free(bytes);
	return run;
}

static size_t find(const struct taut_trace *t, const char *name)
{
	for (size_t i = 0; i < t->n_events; i++)
		if (!strcmp(taut_trace_name(t, i), name))
			return i;
	fail_msg("no %s", name);
	return 0;
}

static void check_event(const struct taut_trace *t, const char *name,
	enum taut_kind kind, int64_t start_us, int64_t dur_us)
{
	size_t i = find(t, name);

	assert_int_equal(t->kind[i], kind);
	assert_int_equal(t->start_ns[i] + t->base_ns, start_us * 1000);
	assert_int_equal(t->dur_ns[i], dur_us * 1000);
}

static void test_there_and_back(void **state)
{
	struct job j = make();

	(void)state;
	for (uint32_t rank = 0; rank < 2; rank++) {
		struct taut_run *run = read_back(j.report, rank);
		const struct taut_trace *t = &run->traces[0];
		int64_t at = 300 * rank;
		const struct taut_comm_args *comm;

		assert_int_equal(t->rank, rank);
		assert_int_equal(t->world_size, 2);
		check_event(t, "ProfilerStep#3", TAUT_KIND_STEP, 0, 1000);
		check_event(t, "cudaLaunchKernel", TAUT_KIND_RUNTIME, 20, 50);
		check_event(t, "gemm", TAUT_KIND_KERNEL, 40, 100);
		check_event(t, "ncclDevKernel_AllReduce_Sum",
			TAUT_KIND_KERNEL, 170 + at, 500 - at);
		assert_int_equal(t->correlation[find(t, "gemm")],
			t->correlation[find(t, "cudaLaunchKernel")]);
		comm = taut_trace_comm(
			t, find(t, "ncclDevKernel_AllReduce_Sum"));
		assert_non_null(comm);
		assert_string_equal(taut_names_text(t->names,
			comm->group_ranks), "[0, 1]");
		assert_int_equal(comm->group_size, 2);
		taut_run_close(run);
	}
	finish(&j);
}

/* More steps than the first bytes of a file hold. */
static void test_many_steps(void **state)
{
	enum { STEPS = 600 };
	struct job j = { .w = wt_begin() };
	struct taut_error err = { 0 };
	size_t steps = 0;

	(void)state;
	wt_rank(&j.w, 0);
	for (int i = 0; i < STEPS; i++) {
		char name[32];

		snprintf(name, sizeof name, "ProfilerStep#%d", i);
		wt_event(&j.w, "user_annotation", name, 9, 9, 1000 * i, 900,
			"");
		wt_event(&j.w, "cpu_op", "aten::mm", 9, 9, 1000 * i + 10, 80,
			"");
	}
	j.run = wt_open(&j.w);
	if (taut_graph_build(j.run, NULL, &j.graph, &err) ||
		taut_explain(j.graph, NULL, &j.report, &err))
		fail_msg("%s", err.message);
	struct taut_run *run = read_back(j.report, 0);
	const struct taut_trace *t = &run->traces[0];
	for (size_t i = 0; i < t->n_events; i++)
		steps += t->kind[i] == TAUT_KIND_STEP;
	assert_int_equal(steps, STEPS);
	assert_int_equal(run->n_notes, 0);
	taut_run_close(run);
	finish(&j);
}

/* Where both ends say so, a pair is a send and a receive; else it is a
 * collective of two. */
static void check_pair(const char *of_0, const char *of_1, int32_t src,
	int32_t dst, const char *name_0, const char *name_1)
{
	struct job j = { .w = wt_begin() };
	const char *args[] = { of_0, of_1 }, *names[] = { name_0, name_1 };
	struct taut_error err = { 0 };

	for (int rank = 0; rank < 2; rank++) {
		wt_rank(&j.w, rank);
		wt_event(&j.w, "cpu_op", "aten::mm", 9, 9, 0, 80, "");
		wt_event(&j.w, "kernel", "ncclDevKernel_SendRecv", 0, 7, 100,
			50, args[rank]);
	}
	j.run = wt_open(&j.w);
	if (taut_graph_build(j.run, NULL, &j.graph, &err) ||
		taut_explain(j.graph, NULL, &j.report, &err))
		fail_msg("%s", err.message);
	for (uint32_t rank = 0; rank < 2; rank++) {
		struct taut_run *run = read_back(j.report, rank);
		const struct taut_trace *t = &run->traces[0];
		const struct taut_comm_args *comm = taut_trace_comm(
			t, find(t, "ncclDevKernel_SendRecv"));

		assert_non_null(comm);
		assert_int_equal(comm->src_rank, src);
		assert_int_equal(comm->dst_rank, dst);
		assert_string_equal(taut_names_text(
			t->names, comm->collective), names[rank]);
		taut_run_close(run);
	}
	finish(&j);
}

static void test_pairs(void **state)
{
	(void)state;
	check_pair("\"Collective name\":\"send\",\"Dst Rank\":1,"
		   "\"In msg nelems\":8,\"dtype\":\"Float\"",
		"\"Collective name\":\"recv\",\"Src Rank\":0", 0, 1,
		"send", "recv");
	check_pair("\"device\":0", "\"device\":0", -1, -1, "all_to_all",
		"all_to_all");
}

/* A stream number of two devices, and a thread number of two processes. */
static void test_lanes(void **state)
{
	struct job j = { .w = wt_begin() };
	struct taut_error err = { 0 };
	struct taut_run *run;
	const struct taut_trace *t;

	(void)state;
	wt_rank(&j.w, 0);
	wt_event(&j.w, "user_annotation", "ProfilerStep#3", 9, 9, 0, 400, "");
	wt_event(&j.w, "cpu_op", "aten::mm", 9, 9, 10, 80, "");
	wt_event(&j.w, "cpu_op", "aten::add", 10, 9, 20, 80, "");
	wt_event(&j.w, "cuda_runtime", "cudaDeviceSynchronize", 9, 9, 120, 240,
		"");
	wt_event(&j.w, "kernel", "gemm", 0, 7, 100, 200, "\"device\":0");
	wt_event(&j.w, "kernel", "axpy", 1, 7, 150, 200, "\"device\":1");
	j.run = wt_open(&j.w);
	if (taut_graph_build(j.run, NULL, &j.graph, &err) ||
		taut_explain(j.graph, NULL, &j.report, &err))
		fail_msg("%s", err.message);
	run = read_back(j.report, 0);
	t = &run->traces[0];
	assert_int_equal(j.run->traces[0].n_lanes, 4);
	assert_int_equal(t->n_lanes, 4);
	check_event(t, "ProfilerStep#3", TAUT_KIND_STEP, 0, 400);
	check_event(t, "gemm", TAUT_KIND_KERNEL, 100, 200);
	check_event(t, "axpy", TAUT_KIND_KERNEL, 150, 200);
	assert_int_equal(t->lanes[t->lane[find(t, "gemm")]].tid, 7);
	assert_int_equal(t->lanes[t->lane[find(t, "axpy")]].tid, 11);
	/* a call that waited for both is as long as it was */
	check_event(t, "cudaDeviceSynchronize", TAUT_KIND_RUNTIME, 120, 240);
	taut_run_close(run);
	finish(&j);
}

static void test_groups(void **state)
{
	struct job j = make();
	struct tauti_chakra *chakra = NULL;
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	assert_non_null(out);
	assert_int_equal(tauti_chakra_open(j.report, &chakra, NULL), TAUT_OK);
	assert_int_equal(
		tauti_chakra_write_groups(chakra, out, NULL), TAUT_OK);
	tauti_chakra_close(chakra);
	fclose(out);
	assert_string_equal(text, "{\n\"0\": [0, 1]\n}\n");
	free(text);
	finish(&j);
}

static void test_refusals(void **state)
{
	struct job j = make();

	(void)state;
	renderer_tells_refusal(write_all, j.report);
	renderer_tells_no_memory(write_all, j.report, 20);
	finish(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_many_steps),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_lanes),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* explain_test.c - reports of small recordings whose answers are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#include <taut/report.h>

#include "tests/support/alloc_fail.h"
#include "tests/support/write_log.h"
#include "tests/support/write_trace.h"

struct told { /* everything between a recording and its report */
	struct taut_run *run;
	struct taut_graph *graph;
	struct taut_report *report;
};

static struct told tell(struct wt *w)
{
	struct told t = { .run = wt_open(w) };
	struct taut_error err = { 0 };

	if (taut_graph_build(t.run, NULL, &t.graph, &err) ||
		taut_explain(t.graph, NULL, &t.report, &err))
		fail_msg("%s", err.message);
	return t;
}

static void forget(struct told *t, struct wt *w)
{
	taut_report_destroy(t->report);
	taut_graph_destroy(t->graph);
	taut_run_close(t->run);
	wt_end(w);
}

static void step(struct wt *w, int id, double ts, double dur)
{
	char name[32];

	snprintf(name, sizeof name, "ProfilerStep#%d", id);
	wt_event(w, "user_annotation", name, 1, 10, ts, dur, "");
}

static int us(const struct taut_report *r, int step, enum taut_category c)
{
	return (int)(r->steps[step].ns[c] / 1000);
}

static void adds_up(const struct taut_report *r)
{
	for (uint32_t i = 0; i < r->n_steps; i++) {
		int64_t sum = 0;

		for (int c = 0; c < TAUT_CATEGORIES; c++)
			sum += r->steps[i].ns[c];
		assert_int_equal(sum, r->steps[i].measured_ns);
	}
}

/* 0..1000. Batch 0..200, kernel 306..406 launched at 300, 20 us of gap that
 * nothing explains, kernel 426..526, host until 700, kernel 706..906. */
static void test_one_device_step(void **state)
{
	struct wt w = wt_begin();
	struct told t;

	(void)state;
	wt_rank(&w, 0);
	step(&w, 1, 0, 1000);
	wt_event(&w, "user_annotation",
		"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
		1, 10, 0, 200, "");
	wt_kernel(&w, "a", 1, 10, 300, 5, 7, 306, 100, 1);
	wt_kernel(&w, "b", 1, 10, 310, 5, 7, 426, 100, 2);
	wt_kernel(&w, "c", 1, 10, 700, 5, 7, 706, 200, 3);
	t = tell(&w);
	adds_up(t.report);
	assert_int_equal(us(t.report, 0, TAUT_CAT_DATA), 200);
	assert_int_equal(us(t.report, 0, TAUT_CAT_COMPUTE), 400);
	assert_int_equal(us(t.report, 0, TAUT_CAT_OTHER), 20);
	assert_int_equal(us(t.report, 0, TAUT_CAT_HOST_BOUND), 380);
	assert_int_equal(t.report->steps[0].replayed_ns, 1000000);
	assert_true(t.report->unexplained_pct > 1.99 &&
		t.report->unexplained_pct < 2.01);
	assert_int_equal(t.report->spans[0].span_ns, 600000);
	assert_int_equal(t.report->spans[0].idle_ns, 200000);
	forget(&t, &w);
}

static void device_work(struct wt *w, const char *name, double ts, double dur)
{
	wt_event(w, "kernel", name, 0, 7, ts, dur,
		"\"device\":0,\"stream\":7,\"correlation\":0");
}

/* Two kernels launched before the recording, 300 us of nothing between them,
 * and one launched in the step that ends 100 us after it: what counts as
 * unexplained is what its removal takes away. */
static void test_gap_without_a_launch(void **state)
{
	struct wt w = wt_begin();
	struct told t;
	const struct taut_report *r;

	(void)state;
	wt_rank(&w, 0);
	step(&w, 1, 0, 1000);
	device_work(&w, "a", 100, 100);
	device_work(&w, "b", 500, 100);
	wt_kernel(&w, "c", 1, 10, 10, 5, 7, 600, 500, 1);
	t = tell(&w);
	r = t.report;
	assert_true(r->unexplained_pct > 29.9 && r->unexplained_pct < 30.1);
	for (uint32_t i = 0; i < r->n_removals; i++)
		if (!strcmp(r->removals[i].id, "unexplained"))
			assert_int_equal(r->removals[i].saved_ns, 100000);
	forget(&t, &w);
}

/* A host that issues a step quickly or slowly, and waits in it for what the one
 * before launched: marks 150, 210, 140, 70 and 150 apart, kernels of 140. */
static void test_a_host_that_runs_ahead(void **state)
{
	static const double marks[] = { 0, 150, 360, 500, 570, 720 };
	struct wt w = wt_begin();
	struct told t;

	(void)state;
	wt_rank(&w, 0);
	for (int i = 0; i < 5; i++) {
		step(&w, i, marks[i], marks[i + 1] - marks[i]);
		wt_kernel(&w, "gemm", 1, 10, marks[i] + 5, 5, 7,
			100 + 140 * i, 140, i + 1);
	}
	t = tell(&w);
	adds_up(t.report);
	assert_int_equal(t.report->steady_ns, 140000);
	assert_int_equal(t.report->steps[0].measured_ns, 240000);
	for (int i = 1; i < 5; i++) {
		const struct taut_report_step *s = &t.report->steps[i];

		assert_int_equal(s->start_ns, (100 + 140 * i) * 1000);
		assert_int_equal(s->measured_ns, 140000);
		assert_int_equal(s->replayed_ns, 140000);
		assert_int_equal(us(t.report, i, TAUT_CAT_COMPUTE), 140);
	}
	forget(&t, &w);
}

/* Of three steps the first waits 900 us for a launch, the others 100: the finding tells the
 * others' share, as the table does, and where the rest is. */
static void test_a_first_step_that_warms_up(void **state)
{
	struct wt w = wt_begin();
	struct told t;
	const struct taut_report_finding *f;

	(void)state;
	wt_rank(&w, 0);
	for (int s = 0; s < 3; s++) {
		double begin = s ? 800 + 1000 * s : 0, idle = s ? 94 : 894;

		step(&w, s, begin, s ? 1000 : 1800);
		wt_kernel(&w, "gemm", 1, 10, begin + idle, 5, 7, begin + idle + 6, 900,
			s + 1);
		wt_event(&w, "cuda_runtime", "cudaDeviceSynchronize", 1, 10,
			begin + idle + 5, 901, "");
	}
	t = tell(&w);
	adds_up(t.report);
	f = t.report->findings;
	assert_in_range(t.report->n_findings, 1, 10);
	assert_string_equal(f->id, "host-bound");
	assert_non_null(strstr(f->evidence, "0.1 ms a step idle before a launch"));
	assert_non_null(strstr(f->text, "devices idle 10 % of the step"));
	assert_non_null(strstr(f->text, "Most of it is in the first step"));
	forget(&t, &w);
}

/* A collective under a kernel is overlapped; beside it, exposed. */
static void test_overlap_and_exposure(void **state)
{
	struct wt w = wt_begin();
	struct told t;

	(void)state;
	wt_rank(&w, 0);
	step(&w, 1, 0, 600);
	wt_kernel(&w, "a", 1, 10, 0, 4, 7, 6, 294, 1);
	wt_kernel(&w, "ncclDevKernel_AllReduce_Sum_f32", 1, 10, 194, 5, 20,
		200, 300, 2);
	t = tell(&w);
	adds_up(t.report);
	assert_int_equal(us(t.report, 0, TAUT_CAT_COMPUTE), 294);
	assert_int_equal(us(t.report, 0, TAUT_CAT_COMM_EXPOSED), 200);
	assert_int_equal(t.report->steps[0].overlapped_ns, 100000);
	assert_int_equal(us(t.report, 0, TAUT_CAT_HOST_BOUND), 106);
	forget(&t, &w);
}

static void write_late_rank(struct wt *w, int rank, bool late)
{
	wt_rank(w, rank);
	for (int s = 0; s < 3; s++) {
		double t = s * 1000.0, slow = late ? 400 : 50;

		step(w, s + 1, t, 1000);
		wt_event(w, "python_function", "nn.Module: Stem_0", 1, 10,
			t + 5, slow + 10, "");
		wt_event(w, "cpu_op", "prepare", 1, 10, t + 10, slow, "");
		wt_kernel(w, "gemm", 1, 10, t + 20 + slow, 5, 7,
			t + 26 + slow, 100, 10 * s + 1);
		wt_event(w, "cuda_runtime", "cudaEventRecord", 1, 10,
			t + 27 + slow, 1, "");
		wt_event(w, "cuda_runtime", "cudaStreamWaitEvent", 1, 10,
			t + 29 + slow, 1, "");
		wt_kernel(w, "ncclDevKernel_AllReduce_Sum_f32", 1, 10,
			t + 31 + slow, 5, 20, t + 126 + slow,
			700 - 126 - slow, 10 * s + 2);
		wt_event(w, "cuda_runtime", "cudaDeviceSynchronize", 1, 10,
			t + 40 + slow, 665 - slow, "");
	}
}

/* Rank 1 prepares 350 us longer: the others wait for it, it is named with
 * its cause, and without it the step is shorter by what they waited. */
static void test_late_rank_is_named(void **state)
{
	struct wt w = wt_begin();
	struct told t;
	const struct taut_report *r;

	(void)state;
	write_late_rank(&w, 0, false);
	write_late_rank(&w, 1, true);
	write_late_rank(&w, 2, false);
	t = tell(&w);
	r = t.report;
	adds_up(r);
	assert_int_equal(r->coll_count, 3);
	assert_int_equal(r->coll_last_arrivals[1], 3);
	assert_int_equal(r->coll_wait_ns[0], 3 * 350000);
	assert_int_equal(r->coll_wait_ns[1], 0);
	assert_int_equal(us(r, 0, TAUT_CAT_COMM_WAIT), 350);
	assert_int_equal(r->late[0].rank, 1);
	assert_int_equal(r->late[0].cause, TAUT_CAT_HOST_BOUND);
	assert_string_equal(r->late[0].cause_op, "prepare");
	assert_int_equal(r->late[0].cause_op_ns, 3 * 350000);
	assert_string_equal(r->late[0].cause_module, "Stem_0");
	for (uint32_t i = 0; i < r->n_findings; i++)
		if (!strcmp(r->findings[i].id, "late-ranks")) {
			assert_int_equal(r->findings[i].n_ranks, 1);
			assert_int_equal(r->findings[i].ranks[0], 1);
			assert_int_equal(r->findings[i].cost_ns, 350000);
			forget(&t, &w);
			return;
		}
	fail_msg("no finding names the late rank");
}

/* Gloo: operators are the device, the worker thread carries the bytes, the
 * main thread waits in a slice with nothing in it. */
static void write_gloo(struct wt *w, int rank, double late)
{
	wt_rank(w, rank);
	for (int s = 0; s < 2; s++) {
		double t = s * 2000.0;

		step(w, s + 1, t, 2000);
		wt_event(w, "cpu_op", "aten::mm", 1, 10, t + late, 500, "");
		wt_event(w, "cpu_op", "c10d::allreduce_", 1, 10,
			t + late + 500, 20, "\"Input Dims\":[[[1000]]]");
		wt_event(w, "user_annotation", "gloo:all_reduce", 1, 11,
			t + late + 520, 1100 - late, "\"Input Dims\":[[1000]],"
			"\"Input type\":[\"float\"]");
		wt_event(w, "cpu_op", "aten::add_", 1, 10, t + 1640, 300, "");
	}
}

static void test_gloo_step(void **state)
{
	struct wt w = wt_begin();
	struct told t;

	(void)state;
	write_gloo(&w, 0, 0);
	write_gloo(&w, 1, 400);
	t = tell(&w);
	adds_up(t.report);
	assert_int_equal(t.report->coll_count, 2);
	assert_int_equal(t.report->colls[0].bytes, 2 * 4000);
	assert_int_equal(us(t.report, 0, TAUT_CAT_COMPUTE), 800);
	assert_int_equal(us(t.report, 0, TAUT_CAT_COMM_WAIT), 400);
	assert_int_equal(us(t.report, 0, TAUT_CAT_COMM_EXPOSED), 700);
	assert_int_equal(us(t.report, 0, TAUT_CAT_HOST_BOUND), 100);
	assert_int_equal(us(t.report, 2, TAUT_CAT_HOST_BOUND), 500);
	assert_int_equal(t.report->late[0].rank, 1);
	assert_int_equal(t.report->late[0].cause, TAUT_CAT_HOST_BOUND);
	forget(&t, &w);
}

/* 60 faults of 2 us are 12 % of a step; in the recorded one they are not. Of few nothing
 * is said. */
static void test_page_faults(void **state)
{
	static const int64_t faults[] = { 60, 5 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct wt w = wt_begin();
		struct told t;
		struct taut_error err = { 0 };
		const struct taut_report_finding *first;

		wt_rank(&w, 0);
		step(&w, 1, 0, 1000);
		wt_event(&w, "cpu_op", "aten::mm", 1, 10, 10, 980, "");
		t.run = wt_open(&w);
		wt_faults(t.run, 0, 0, faults[i], 2000);
		if (taut_graph_build(t.run, NULL, &t.graph, &err) ||
			taut_explain(t.graph, NULL, &t.report, &err))
			fail_msg("%s", err.message);
		first = t.report->findings;
		if (i == 1) {
			for (uint32_t k = 0; k < t.report->n_findings; k++)
				assert_string_not_equal(first[k].id, "page-faults");
		} else {
			assert_in_range(t.report->n_findings, 1, 10);
			assert_string_equal(first->id, "page-faults");
			assert_int_equal(first->cost_ns, 120000);
			assert_non_null(strstr(first->text, "0.1 ms (12 %)"));
			assert_non_null(strstr(first->evidence, "rank 0: 60 faults in a "
				"step that is not recorded, 0 in one that is; 2.00 us"));
		}
		forget(&t, &w);
	}
}

/* Whichever request for memory fails, explaining says so. */
static void test_memory_runs_out(void **state)
{
	struct wt w = wt_begin();
	struct taut_explain_options one = { .threads = 1 };
	struct told t;
	taut_status status = TAUT_ENOMEM;

	(void)state;
	write_late_rank(&w, 0, false);
	write_late_rank(&w, 1, true);
	t = tell(&w);
	for (long n = 0; status; n++) {
		struct taut_report *again = NULL;
		struct taut_error err = { 0 };

		alloc_fail_after(n);
		status = taut_explain(t.graph, &one, &again, &err);
		alloc_fail_never();
		assert_true(!status || status == TAUT_ENOMEM);
		assert_true(!status || (!again && *err.message));
		taut_report_destroy(again);
		assert_in_range(n, 0, 5000);
	}
	forget(&t, &w);
}

/* --- event logs --------------------------------------------------------------*/

static struct told tell_logs(const struct wl *w, int n)
{
	struct told t = { .run = wl_open(w, n) };
	struct taut_error err = { 0 };

	if (taut_graph_build(t.run, NULL, &t.graph, &err) ||
		taut_explain(t.graph, NULL, &t.report, &err))
		fail_msg("%s", err.message);
	return t;
}

static struct told tell_log(const struct wl *w)
{
	return tell_logs(w, 1);
}

static void forget_logs(struct told *t)
{
	taut_report_destroy(t->report);
	taut_graph_destroy(t->graph);
	taut_run_close(t->run);
}

/* Gradients of five layers, each computed in `each` us and handed over, in an order that
 * all know: a quick rank begins with a message while those before it still go. */
static struct wl write_overlap(int32_t rank, int64_t each)
{
	enum { LAYERS = 5, SLOW = 130, TAKES = 20 };
	struct wl w = wl_begin(rank, 2);

	strcpy(w.header.host, "one");
	strcpy(w.header.clock, "boot/one");
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_STEP, "step", 100, 0, 1000, 1);
	for (uint32_t i = 0; i < LAYERS; i++) {
		wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_OP, "layer", 100, i * each,
			each - 5, 0);
		wl_sum_call(&w, 0, i, 0, 100, (i + 1) * each - 4, 2);
		wl_sum_call(&w, 0, i, 1, 100, 900 + i * 10, 5);
		/* not through at quite the same time */
		wl_piece(&w, 0, i, i, (i + 1) * each - 1,
			(i + 1) * (SLOW - each) + TAKES + rank);
	}
	return w;
}

/* Rank 1 is late since it computes longer, and not since a message before was late. */
static void test_late_where_messages_overlap(void **state)
{
	struct wl w[2] = { write_overlap(0, 100), write_overlap(1, 130) };
	struct told t = tell_logs(w, 2);
	const struct taut_report_late *late = t.report->late;

	(void)state;
	assert_int_equal(late->rank, 1);
	assert_int_equal(late->last_arrivals, 5);
	assert_int_equal(late->cause, TAUT_CAT_COMPUTE);
	assert_string_equal(late->cause_op, "layer");
	/* 30, 60, .. 150 us more than rank 0 */
	assert_in_range(late->excess_ns[TAUT_CAT_COMPUTE],
		late->caused_ns * 9 / 10, late->caused_ns * 11 / 10);
	assert_true(late->caused_ns > 200000);
	forget_logs(&t);
}

/* Two messages at once wait 100 us for rank 1: that is 100 us, and not 200. */
static void test_late_for_two_at_once(void **state)
{
	struct wl w[2] = { wl_begin(0, 2), wl_begin(1, 2) };
	struct told t;

	(void)state;
	for (int r = 0; r < 2; r++) {
		int64_t works = 100 * r + 8;

		strcpy(w[r].header.host, "one");
		strcpy(w[r].header.clock, "boot/one");
		wl_event(&w[r], TAUTI_LOG_SPAN, TAUT_KIND_STEP, "step", 100, 0, 300, 1);
		wl_event(&w[r], TAUTI_LOG_SPAN, TAUT_KIND_OP, "layer", 100, 0, works, 0);
		for (uint32_t i = 0; i < 2; i++) {
			wl_sum_call(&w[r], 0, i, 0, 100, works + i, 1);
			wl_sum_call(&w[r], 0, i, 1, 100, 200 + 10 * i, 5);
			wl_piece(&w[r], 0, i, i, works + i + 1, 150 - works - i);
		}
	}
	t = tell_logs(w, 2);
	assert_int_equal(t.report->late->rank, 1);
	assert_int_equal(t.report->late->last_arrivals, 2);
	assert_in_range(t.report->late->caused_ns, 99000, 102000);
	assert_in_range(t.report->late->excess_ns[TAUT_CAT_COMPUTE], 90000, 102000);
	forget_logs(&t);
}

/* A program of which only its communication is known: what it does between
 * is its computing, and what it sends itself is exposed. */
static void test_communication_alone(void **state)
{
	struct wl w = wl_begin(0, 1);
	struct told t;

	(void)state;
	wl_comm(&w, "allreduce", 100, 0, 10, 0, 1000);
	wl_comm(&w, "allreduce", 100, 60, 30, 1, 1000);
	t = tell_log(&w);
	adds_up(t.report);
	assert_int_equal(us(t.report, 0, TAUT_CAT_COMPUTE), 50);
	assert_int_equal(us(t.report, 0, TAUT_CAT_COMM_EXPOSED), 40);
	forget_logs(&t);
}

/* 0..100: the main thread works until 40 and waits for the batch that a
 * worker has ready at 90. */
static void test_loader(void **state)
{
	struct wl w = wl_begin(0, 1);
	struct told t;

	(void)state;
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_STEP, "step", 100, 0, 100, 1);
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_OP, "work", 100, 0, 40, 0);
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_LOAD_WAIT, "take", 100, 40, 60,
		3);
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_LOAD, "batch", 200, 10, 80, 3);
	t = tell_log(&w);
	adds_up(t.report);
	assert_int_equal(us(t.report, 0, TAUT_CAT_COMPUTE), 40);
	assert_int_equal(us(t.report, 0, TAUT_CAT_DATA), 60);
	/* the critical path is the worker's */
	assert_int_equal(t.report->path_ns[TAUT_CAT_DATA] / 1000, 90);
	forget_logs(&t);
}

static void chunk(struct wl *w, int32_t peer, int32_t sends, int64_t late_ns)
{
	struct tauti_log_record *r = wl_event(w, TAUTI_LOG_CHUNK, 0, "chunk",
		900, 10, 20, 1);

	r->u.chunk.peer = peer;
	r->u.chunk.sends = sends;
	r->u.chunk.bytes = 1000;
	r->u.chunk.gpu_late_ns = -1;
	r->u.chunk.peer_late_ns = late_ns;
	r->u.chunk.network_ns = 500;
}

static void test_links(void **state)
{
	struct wl w = wl_begin(3, 4);
	const struct taut_report_link *l;
	struct told t;

	(void)state;
	wl_comm(&w, "allreduce", 100, 0, 100, 0, 1000);
	chunk(&w, 1, 1, 10);
	chunk(&w, 2, 1, 4000);
	chunk(&w, 1, 1, 30);
	chunk(&w, 1, 0, 0);
	t = tell_log(&w);
	assert_int_equal(t.report->n_links, 3);
	l = t.report->links;
	assert_int_equal(l[0].peer, 2);
	assert_int_equal(l[0].peer_late_ns, 4000);
	assert_int_equal(l[1].peer, 1);
	assert_int_equal(l[1].sends, 1);
	assert_int_equal(l[1].chunks, 2);
	assert_int_equal(l[1].bytes, 2000);
	assert_int_equal(l[1].gpu_late_ns, 0);
	assert_int_equal(l[1].peer_late_ns, 40);
	assert_int_equal(l[1].network_ns, 1000);
	assert_int_equal(l[2].sends, 0);
	forget_logs(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_device_step),
		cmocka_unit_test(test_gap_without_a_launch),
		cmocka_unit_test(test_a_host_that_runs_ahead),
		cmocka_unit_test(test_a_first_step_that_warms_up),
		cmocka_unit_test(test_overlap_and_exposure),
		cmocka_unit_test(test_late_rank_is_named),
		cmocka_unit_test(test_gloo_step),
		cmocka_unit_test(test_page_faults),
		cmocka_unit_test(test_memory_runs_out),
		cmocka_unit_test(test_communication_alone),
		cmocka_unit_test(test_late_where_messages_overlap),
		cmocka_unit_test(test_late_for_two_at_once),
		cmocka_unit_test(test_loader),
		cmocka_unit_test(test_links),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

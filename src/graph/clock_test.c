/* clock_test.c - one clock for ranks of several hosts. */
#include "tests/support/unit.h"

#include <math.h>
#include <time.h>

#include "graph/graph.h"
#include "tests/support/recorded.h"

/* Two pipeline stages of two ranks, the second with a clock 50 ms behind. Each stage
 * has collectives of its own, and the ranks of both send each other messages. */
static void stages(bool hosts, bool all_send)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;

	for (int r = 0; r < 4; r++) {
		bool second = r > 1;
		double shift = second ? -50000 : 0;

		wt_rank(&w, r);
		if (hosts)
			wt_host(&w, second ? "b" : "a");
		step(&w, 1, shift, 8000);
		for (int i = 0; i < 4 && (all_send || !(r & 1)); i++) {
			double t = shift + 100 + i * 800;
			char to[64], back[64];

			snprintf(to, sizeof to, ",\"Src Rank\":%d,\"Dst Rank\":%d",
				r & 1, r | 2);
			snprintf(back, sizeof back,
				",\"Src Rank\":%d,\"Dst Rank\":%d", r | 2, r & 1);
			collective(&w, second ? "recv" : "send", "3", "", 2,
				t + (second ? 20 : 0), second ? 60 : 100, 22,
				10 + 2 * i, to);
			collective(&w, second ? "send" : "recv", "3", "", 2,
				t + (second ? 400 : 420), second ? 100 : 60, 23,
				11 + 2 * i, back);
		}
		for (int i = 0; i < 6; i++)
			collective(&w, "allreduce", second ? "2" : "1",
				second ? "[2, 3]" : "[0, 1]", 2,
				shift + 4000 + 300 * i, 200, 21, 100 + i, "");
	}
	run = wt_open(&w);
	g = build(run);
	assert_int_equal(g->n_backward, 0);
	assert_in_range((int)g->clocks[2].offset_us, 49900, 50100);
	assert_true(fabs(g->clocks[3].offset_us - g->clocks[2].offset_us) < 2);
	for (int r = 2; r < 4; r++) /* what the messages leave open */
		assert_in_range((int)g->clocks[r].uncertainty_us, 40, 100);
	finish(g, run, &w);
}

static void test_a_stage_moves_as_one(void **state)
{
	(void)state;
	stages(false, true);
	stages(true, true);
	stages(true, false);
}

/* Ranks of one host share its clock, though its collectives end 300 us apart, always
 * the same way: also where that clock is not rank 0's. */
static void test_a_host_with_another_clock(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	for (int r = 0; r < 4; r++) {
		double shift = r > 1 ? 50000 : 0;

		wt_rank(&w, r);
		wt_host(&w, r > 1 ? "b" : "a");
		step(&w, 1, shift, 9000);
		for (int i = 0; i < 8; i++)
			wt_kernel(&w, "ncclDevKernel_AllReduce_Sum_f32", 1, 10,
				shift + 1000 * i + 10, 5, 20,
				shift + 1000 * i + 16, 500 + 300 * (r & 1),
				100 + i);
	}
	run = wt_open(&w);
	g = build(run);
	assert_true(g->clocks[1].offset_us == 0);
	assert_in_range((int)-g->clocks[2].offset_us, 49998, 50002);
	assert_true(g->clocks[3].offset_us == g->clocks[2].offset_us);
	finish(g, run, &w);
}

/* The second host's clock drifts, too, and over seconds: so does that of its ranks. */
static void test_a_host_whose_clock_drifts(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	for (int r = 0; r < 4; r++) {
		double f = r > 1 ? 1 + 100e-6 : 1, shift = r > 1 ? 7000 : 0;

		wt_rank(&w, r);
		wt_host(&w, r > 1 ? "b" : "a");
		step(&w, 1, shift, 2100000 * f);
		for (int i = 0; i < 200; i++)
			wt_kernel(&w, "ncclDevKernel_AllReduce_Sum_f32", 1, 10,
				shift + (10000 * i + 10) * f, 5, 20,
				shift + (10000 * i + 16) * f,
				(500 + 50 * (r & 1)) * f, 100 + i);
	}
	run = wt_open(&w);
	g = build(run);
	assert_in_range((int)(-g->clocks[2].drift_ppm * 10), 980, 1020);
	assert_true(g->clocks[3].drift_ppm == g->clocks[2].drift_ppm);
	assert_true(g->clocks[3].offset_us == g->clocks[2].offset_us);
	finish(g, run, &w);
}

enum { MANY_RANKS = UNIT_ROUNDS(1200), MANY_COLLECTIVES = 500, LATE_NS = 7000 };

/* All ranks meet in all collectives; rank r's clock is ahead by r times LATE_NS. */
static void meet(struct tauti_rank *ranks, struct taut_trace *traces,
	struct tauti_match *match)
{
	for (uint32_t r = 0; r < MANY_RANKS; r++) {
		traces[r] = (struct taut_trace) { .rank = (int32_t)r };
		ranks[r] = (struct tauti_rank) { .trace = &traces[r], .index = r };
		assert_true(taut_vec_reserve(&ranks[r].comms, MANY_COLLECTIVES));
	}
	for (uint32_t i = 0; i < MANY_COLLECTIVES; i++) {
		struct taut_collective c = { .kind = TAUT_COLL_ALLREDUCE,
			.n_members = MANY_RANKS,
			.first_member = i * MANY_RANKS };

		assert_true(taut_vec_push(&match->collectives, c));
		for (uint32_t r = 0; r < MANY_RANKS; r++) {
			int64_t at = (int64_t)i * 1000000 + r * LATE_NS;
			struct tauti_comm comm = { .kind = c.kind, .start = at,
				.end = at + 2000 };

			assert_true(taut_vec_push(&ranks[r].comms, comm) &&
				taut_vec_push(&match->member_rank, r) &&
				taut_vec_push(&match->member_comm, i));
		}
	}
}

/* Hundreds of ranks are aligned in a moment: of each only its own operations are
 * looked at, not all of the run with all of their ranks, which takes seconds here. */
static void test_many_ranks(void **state)
{
	struct tauti_rank *ranks = calloc(MANY_RANKS, sizeof *ranks);
	struct taut_trace *traces = calloc(MANY_RANKS, sizeof *traces);
	struct taut_clock_row *rows = calloc(MANY_RANKS, sizeof *rows);
	struct tauti_match match = { .n_unmatched = 0 };
	clock_t from;

	(void)state;
	assert_true(ranks && traces && rows);
	meet(ranks, traces, &match);
	from = clock();
	assert_int_equal(tauti_clock_align(ranks, MANY_RANKS, &match, 0, rows,
		NULL), TAUT_OK);
	assert_true(clock() - from < CLOCKS_PER_SEC);
	for (int r = 30; r < MANY_RANKS; r++)
		assert_true(fabs(rows[r].offset_us + r * (LATE_NS / 1e3)) < 3);
	for (uint32_t r = 0; r < MANY_RANKS; r++)
		taut_vec_free(&ranks[r].comms);
	tauti_match_fini(&match);
	free(ranks);
	free(traces);
	free(rows);
}

/* Two ranks without a collective, of which one counts from 0 and one from 1970. */
static struct taut_run *two_epochs(struct wt *w)
{
	for (int r = 0; r < 2; r++) {
		double from = r ? 1.7e15 : 0;

		wt_rank(w, r);
		wt_event(w, "cpu_op", "aten::mm", 1, 10, from + 100, 50, "");
		wt_event(w, "cpu_op", "aten::mm", 1, 10, from + 200, 50, "");
	}
	return wt_open(w);
}

static void test_ranks_of_two_epochs(void **state)
{
	const struct taut_graph_options as_recorded = { .no_clock_alignment = 1 };
	struct wt w = wt_begin();
	struct taut_run *run = two_epochs(&w);
	struct taut_graph *g = build(run);
	struct taut_error err = { 0 };

	(void)state;
	assert_int_equal(g->n_apart, 1);
	assert_int_equal((int)g->clocks[1].uncertainty_us, 1000000);
	for (uint32_t i = 0; i < g->n_ops; i++)
		assert_in_range(g->start_ns[i], 0, 250000);
	replays_exactly(g);
	taut_graph_destroy(g);

	/* Left as they are they cannot be laid on one line, and the files are named. */
	assert_int_equal(taut_graph_build(run, &as_recorded, &g, &err),
		TAUT_EMATCH);
	assert_non_null(strstr(err.message, "rank0.json"));
	assert_non_null(strstr(err.message, "rank1.json"));
	taut_run_close(run);
	wt_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_stage_moves_as_one),
		cmocka_unit_test(test_a_host_with_another_clock),
		cmocka_unit_test(test_a_host_whose_clock_drifts),
		cmocka_unit_test(test_many_ranks),
		cmocka_unit_test(test_ranks_of_two_epochs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

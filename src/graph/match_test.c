/* match_test.c - which operations of the ranks are one collective. */
#include "tests/support/unit.h"

#include <math.h>

#include "tests/support/recorded.h"

static int count_members(const struct taut_graph *g, uint32_t members)
{
	int n = 0;

	for (uint32_t i = 0; i < g->n_collectives; i++)
		n += g->collectives[i].n_members == members;
	return n;
}

/* No collective has a rank twice. */
static void each_rank_once(const struct taut_graph *g)
{
	for (uint32_t i = 0; i < g->n_collectives; i++) {
		const struct taut_collective *c = &g->collectives[i];
		uint32_t before = TAUT_NONE;

		for (uint32_t k = 0; k < c->n_members; k++) {
			uint32_t op = g->member_arrive[c->first_member + k];
			uint32_t trace = g->lanes[g->lane[op]].trace;

			assert_int_not_equal(trace, before);
			before = trace;
		}
	}
}

/* Sends of rank 0 that are launched in one step and received by rank 1 in the next, of
 * the same n steps. numbered: each rank counts them from a number of its own. */
static void sends(struct wt *w, int n, bool numbered)
{
	for (int r = 0; r < 2; r++) {
		wt_rank(w, r);
		for (int s = 0; s < n; s++)
			step(w, s, 1000 * s + (r ? 0 : 60), 1000);
		for (int i = 0; i < n; i++) {
			char more[64], seq[32] = "";

			if (numbered)
				snprintf(seq, sizeof seq, ",\"Seq\":%d",
					(r ? 40 : 7) + i);
			snprintf(more, sizeof more, "%s,\"%s Rank\":%d", seq,
				r ? "Src" : "Dst", 1 - r);
			collective(w, r ? "recv" : "send", "3", "[0, 1]", 2,
				1000 * i + 50 + (r ? 20 : 0), r ? 80 : 100, 22,
				10 + i, more);
		}
	}
}

/* As the profiler writes it, a send tells only where to and a receive only
 * from where, and each side numbers for itself. Launches fall into different
 * steps on the two ranks. */
static void test_pairs_as_recorded(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	sends(&w, 3, true);
	run = wt_open(&w);
	g = build(run);
	assert_int_equal(g->n_collectives, 3);
	assert_int_equal(g->n_unmatched, 0);
	for (uint32_t i = 0; i < 3; i++) {
		const struct taut_collective *c = &g->collectives[i];

		assert_int_equal(c->n_members, 2);
		assert_int_equal(c->group_size, 2);
		assert_int_equal(g->start_ns[c->join_op],
			g->start_ns[g->collectives[0].join_op] + 1000000 * i);
	}
	assert_int_equal(g->n_backward, 0);
	finish(g, run, &w);
}

/* What another rank's steps are has no say in it. */
static void sends_beside(int third_from)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;

	sends(&w, 5, false);
	wt_rank(&w, 2);
	for (int s = third_from; s < 5; s++) {
		step(&w, s, 1000 * s, 1000);
		wt_event(&w, "cpu_op", "aten::mm", 1, 10, 1000 * s + 10, 50, "");
	}
	run = wt_open(&w);
	g = build(run);
	assert_int_equal(g->n_collectives, 5);
	assert_int_equal(count_members(g, 2), 5);
	assert_int_equal(g->n_unmatched, 0);
	assert_true(g->clocks[1].offset_us == 0);
	finish(g, run, &w);
}

static void test_another_rank_begins_late(void **state)
{
	(void)state;
	sends_beside(0);
	sends_beside(1);
}

/* One all-reduce before the first step, one in each, one after the last, in a group of
 * ranks that begin to record with other steps. */
static struct taut_graph *around_steps(struct wt *w, const char *const groups[2],
	struct taut_run **ret_run)
{
	for (int r = 0; r < 2; r++) {
		wt_rank(w, r);
		for (int s = r; s < 3; s++)
			step(w, s, 5000 * s + 5000, 5000);
		for (int i = r; i < 5; i++)
			collective(w, "allreduce", groups[r], "", 2,
				5000 * i + 100, 200, 20, 10 + i, "");
	}
	*ret_run = wt_open(w);
	return build(*ret_run);
}

/* What came before the first step and what came after the last are two places. */
static void test_before_and_after_the_steps(void **state)
{
	static const char *const one[] = { "0", "0" }, *const own[] = { "0", "1" };
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g = around_steps(&w, one, &run);

	(void)state;
	each_rank_once(g);
	/* those of steps 1 and 2, and the last; before which steps the first of each
	 * rank came is not the same */
	assert_int_equal(count_members(g, 2), 3);
	assert_int_equal(g->n_unmatched, 3);
	assert_non_null(strstr(g->unmatched, "missing on 1 of 2 ranks"));
	finish(g, run, &w);

	/* Each alone in its group. */
	w = wt_begin();
	g = around_steps(&w, own, &run);
	assert_int_equal(count_members(g, 1), 9);
	assert_int_equal(g->n_backward, 0);
	finish(g, run, &w);
}

/* Steps are numbered 0, 1, 0, 1; rank 1 misses the first all-reduce of 16. */
static void test_step_numbers_begin_again(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	for (int r = 0; r < 2; r++) {
		wt_rank(&w, r);
		for (int s = 0; s < 4; s++)
			step(&w, s % 2, 5000 * s, 5000);
		for (int i = r; i < 16; i++)
			collective(&w, "allreduce", "0", "[0, 1]", 2,
				5000 * (i / 4) + 1000 * (i % 4) + 100, 200, 20,
				10 + i, "");
	}
	run = wt_open(&w);
	g = build(run);
	each_rank_once(g);
	assert_int_equal(count_members(g, 2), 12);
	assert_int_equal(g->n_unmatched, 7); /* of the first step */
	assert_non_null(strstr(g->unmatched, "collective 4 in step 0"));
	finish(g, run, &w);
}

/* An all-reduce of the first step is handed over, by another thread, behind those of
 * the second. */
static void test_a_step_comes_back(void **state)
{
	static const int in_step[] = { 0, 0, 1, 0, 1, 1 };
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	for (int r = 0; r < 2; r++) {
		wt_rank(&w, r);
		for (int s = r; s < 3; s++)
			step(&w, s, 5000 * s, 5000);
		for (int i = 0; i < 6; i++) {
			char args[256];

			if (in_step[i] < r)
				continue;
			snprintf(args, sizeof args, "\"correlation\":%d", 10 + i);
			wt_event(&w, "cuda_runtime", "cudaLaunchKernel", 1, 10,
				5000 * in_step[i] + 100 * i + 10, 5, args);
			snprintf(args, sizeof args, "\"device\":0,\"stream\":20,"
				"\"correlation\":%d,\"Collective name\":"
				"\"allreduce\",\"Process Group Name\":\"0\","
				"\"Group size\":2", 10 + i);
			wt_event(&w, "kernel", "ncclDevKernel_AllReduce_Sum_f32",
				0, 20, 9000 + 100 * i, 50, args);
		}
	}
	run = wt_open(&w);
	g = build(run);
	each_rank_once(g);
	assert_int_equal(count_members(g, 2), 3);
	assert_int_equal(g->n_unmatched, 3);
	finish(g, run, &w);
}

/* The eighth of 16 numbered all-reduces, the last of step 11, is a broadcast on the
 * other rank: it is told by its number, and by the step that launched it. */
static void test_a_numbered_mismatch(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	for (int r = 0; r < 2; r++) {
		wt_rank(&w, r);
		for (int s = 0; s < 4; s++)
			step(&w, s + 10, 5000 * s, 5000);
		for (int i = 0; i < 16; i++) {
			char seq[32];

			snprintf(seq, sizeof seq, ",\"Seq\":%d", i);
			collective(&w, r && i == 7 ? "broadcast" : "allreduce",
				"0", "[0, 1]", 2, 5000 * (i / 4) +
				1000 * (i % 4) + 100, 200, 20, 10 + i, seq);
		}
	}
	run = wt_open(&w);
	g = build(run);
	assert_non_null(g->unmatched);
	assert_non_null(strstr(g->unmatched, "collective number 7 in step 11 is "
		"all-reduce on rank 0, but broadcast on rank 1"));
	finish(g, run, &w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pairs_as_recorded),
		cmocka_unit_test(test_another_rank_begins_late),
		cmocka_unit_test(test_before_and_after_the_steps),
		cmocka_unit_test(test_step_numbers_begin_again),
		cmocka_unit_test(test_a_step_comes_back),
		cmocka_unit_test(test_a_numbered_mismatch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* clock_test.c - one clock for ranks of several hosts. */
#include "tests/support/unit.h"

#include <math.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_stage_moves_as_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

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

/* Sends that are launched in one step and received in the next, of two ranks of the
 * same steps. What another rank's steps are has no say in it. */
static void sends_across_steps(int third_from)
{
	struct wt w = wt_begin();
	struct taut_run *run;
	struct taut_graph *g;

	for (int r = 0; r < 2; r++) {
		wt_rank(&w, r);
		for (int s = 0; s < 5; s++)
			step(&w, s, 1000 * s + (r ? 0 : 60), 1000);
		for (int i = 0; i < 5; i++) {
			char more[32];

			snprintf(more, sizeof more, ",\"%s Rank\":%d",
				r ? "Src" : "Dst", 1 - r);
			collective(&w, r ? "recv" : "send", "3", "[0, 1]", 2,
				1000 * i + 50 + (r ? 20 : 0), r ? 80 : 100, 22,
				10 + i, more);
		}
	}
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
	sends_across_steps(0);
	sends_across_steps(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_another_rank_begins_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

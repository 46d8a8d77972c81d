/* handoff_test.c - waits of the main thread for a worker's communication. */
#include "tests/support/unit.h"

#include <time.h>

#include "tests/support/recorded.h"

enum { WAIT_US = 400, MANY = UNIT_ROUNDS(60000) };

/* n all-reduces on a worker, each waited for by a slice without an operator. */
static struct taut_run *waited(struct wt *w, int n)
{
	wt_rank(w, 0);
	step(w, 1, 0, n * WAIT_US + 200.0);
	for (int i = 0; i < n; i++) {
		double t = (double)i * WAIT_US;

		wt_event(w, "cpu_op", "aten::mm", 1, 10, t, 50, "");
		wt_event(w, "user_annotation", "gloo:all_reduce", 1, 20, t + 75,
			300, "");
		wt_event(w, "cpu_op", "aten::add", 1, 10, t + 380, 15, "");
	}
	return wt_open(w);
}

static uint32_t count_returns(const struct taut_graph *g)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n_ops; i++)
		n += g->kind[i] == TAUT_OP_RETURN;
	return n;
}

static void test_each_wait_is_found(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run = waited(&w, 50);
	struct taut_graph *g = build(run);

	(void)state;
	assert_int_equal(count_returns(g), 50);
	finish(g, run, &w);
}

/* A recording of a whole night: a slice looks at the transfers around it, not at all
 * of them, which takes several seconds here. */
static void test_many_waits(void **state)
{
	struct wt w = wt_begin();
	struct taut_run *run = waited(&w, MANY);
	clock_t from = clock();
	struct taut_graph *g = build(run);

	(void)state;
	assert_true(clock() - from < 2 * CLOCKS_PER_SEC);
	assert_int_equal(count_returns(g), MANY);
	finish(g, run, &w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_wait_is_found),
		cmocka_unit_test(test_many_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

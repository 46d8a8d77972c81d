/* stages_test.c - a pipeline of two stages and two micro-batches, forward 10 us
 * and backward 20, written by hand as a table:
 *     stage 0   F0 F1 .  .  B0 B0 . B1 B1
 *     stage 1   .  F0 B0 B0 F1 B1 B1
 * of 10 us each; a step is (m + p - 1)(f + b) = 90. What closes it is an
 * optimizer of 10 us on each. */
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

#include <taut/graph.h>
#include <taut/whatif.h>

#include "tests/support/alloc_fail.h"

enum { STEPS = 3, STEP_US = 100 };

struct row {
	int rank;
	const char *name;
	int start, dur, early; /* that it begins behind the first step */
};

static const struct row rows[] = {
	{ 0, "forward-compute", 0, 10, 0 }, { 0, "forward-send", 10, 0, 0 },
	{ 0, "forward-compute", 10, 10, 0 }, { 0, "forward-send", 20, 20, 0 },
	{ 0, "backward-recv", 10, 30, 0 }, { 0, "backward-compute", 40, 20, 0 },
	{ 0, "backward-recv", 60, 10, 0 }, { 0, "backward-compute", 70, 20, 0 },
	{ 0, "optimizer", 90, 10, 0 },
	{ 1, "forward-recv", 0, 10, 20 }, { 1, "forward-compute", 10, 10, 0 },
	{ 1, "backward-compute", 20, 20, 0 }, { 1, "backward-send", 40, 0, 0 },
	{ 1, "forward-recv", 40, 0, 0 }, { 1, "forward-compute", 40, 10, 0 },
	{ 1, "backward-compute", 50, 20, 0 }, { 1, "backward-send", 70, 0, 0 },
	{ 1, "optimizer", 70, 10, 0 },
};

struct told {
	struct taut_run *run;
	struct taut_graph *graph;
};

static struct told tell(void)
{
	static char text[16384];
	struct told t = { NULL, NULL };
	struct taut_error err = { 0 };
	int at = snprintf(text, sizeof text, "rank,stage,dp_rank,step,name,"
		"start_us,duration_us\n");

	for (int k = 0; k < STEPS; k++)
		for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
			at += snprintf(text + at, sizeof text - (size_t)at,
				"%d,%d,0,%d,%s,%d,%d\n", rows[i].rank,
				rows[i].rank, k, rows[i].name,
				rows[i].start + k * STEP_US -
				(k ? rows[i].early : 0), rows[i].dur +
				(k ? rows[i].early : 0));
	if (taut_run_open_memory("job.csv", text, (size_t)at, -1, &t.run, &err))
		fail_msg("%s", err.message);
	if (taut_graph_build(t.run, NULL, &t.graph, &err))
		fail_msg("%s", err.message);
	return t;
}

static void forget(struct told *t)
{
	taut_graph_destroy(t->graph);
	taut_run_close(t->run);
}

/* From the begin of the last step on the first stage to its last computation. */
static int64_t length(const struct taut_graph *g)
{
	int64_t begin = 0, end = 0;

	for (uint32_t s = 0; s < g->n_steps; s++)
		if (g->steps[s].id == STEPS - 1 && !g->steps[s].trace)
			begin = g->steps[s].start_ns;
	for (uint32_t op = 0; op < g->n_ops; op++)
		if (strstr(taut_names_text(g->names, g->name[op]), "backward-c")
			&& g->start_ns[op] + g->dur_ns[op] > end)
			end = g->start_ns[op] + g->dur_ns[op];
	return end - begin;
}

static uint32_t count(const struct taut_graph *g, const char *name)
{
	uint32_t n = 0;

	for (uint32_t op = 0; op < g->n_ops; op++)
		n += !strcmp(taut_names_text(g->names, g->name[op]), name) &&
			g->kind[op] != TAUT_OP_ARRIVE &&
			g->kind[op] != TAUT_OP_JOIN;
	return n;
}

/* places: stages times chunks. */
static void check(const struct told *t, const char *change, uint32_t stages,
	uint32_t places, uint32_t batches, int64_t want_ns)
{
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };

	if (taut_predict(t->graph, &change, 1, NULL, &p, &err))
		fail_msg("%s: %s", change, err.message);
	assert_int_equal(p->graph->run->n_traces, stages);
	assert_int_equal(count(p->graph, "forward-compute"),
		STEPS * places * batches);
	assert_int_equal(count(p->graph, "backward-compute"),
		STEPS * places * batches);
	assert_int_equal(count(p->graph, "forward-send"),
		STEPS * (places - 1) * batches);
	assert_int_equal(count(p->graph, "backward-recv"),
		STEPS * (places - 1) * batches);
	assert_int_equal(length(p->graph), want_ns);
	taut_prediction_destroy(p);
}

static void test_closed_form(void **state)
{
	struct told t = tell();

	(void)state;
	check(&t, "stages=2", 2, 2, 2, 90000);
	check(&t, "stages=4", 4, 4, 2, (2 + 3) * 15000);
	check(&t, "stages=1", 1, 1, 2, 2 * 60000);
	check(&t, "stages=2,micro=8", 2, 2, 8, (8 + 1) * 30000);
	check(&t, "stages=2,micro=1", 2, 2, 1, (1 + 1) * 30000);
	check(&t, "stages=3,micro=5,schedule=gpipe", 3, 3, 5,
		(5 + 2) * 20000);
	check(&t, "stages=2,chunks=2", 2, 4, 2, 2 * 30000 + 15000);
	forget(&t);
}

static void test_no_memory(void **state)
{
	static const char *const changes[] = { "stages=3,micro=3", "stages=1",
		"stages=2,chunks=2" };
	struct told t = tell();

	(void)state;
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
		for (long n = 0;; n++) {
			struct taut_prediction *p = NULL;
			struct taut_whatif_options options = { .threads = 1 };
			struct taut_error err = { 0 };
			taut_status status;

			alloc_fail_after(n);
			status = taut_predict(t.graph, &changes[i], 1,
				&options, &p, &err);
			alloc_fail_never();
			taut_prediction_destroy(p);
			if (!status)
				break;
			assert_int_equal(status, TAUT_ENOMEM);
		}
	forget(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_closed_form),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

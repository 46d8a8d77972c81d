/* The Perfetto file's failures and its counts; tests/web/perfetto_test.py
 * reads every event of it. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/renderer.h"
#include "tests/web/synthetic.h"

static struct synthetic made;

/* Members that came before the last of their collective. */
static int waiting_members(void)
{
	const struct taut_graph *g = &made.graph;
	int n = 0;

	for (uint32_t i = 0; i < g->n_collectives * made.run.n_traces; i++) {
		uint32_t op = g->member_arrive[i];

		n += g->start_ns[op] < g->start_ns[op + 1];
	}
	return n;
}

static void every_row_is_a_slice(void **state)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	int members = (int)(made.graph.n_collectives * made.run.n_traces);
	int rows = (int)made.report.n_path + members + waiting_members();

	(void)state;
	assert_int_equal(
		taut_report_perfetto(&made.report, out, NULL), TAUT_OK);
	fclose(out);
	for (uint32_t i = 0; i < made.run.n_traces; i++)
		rows += (int)made.run.traces[i].n_events;
	assert_int_equal(count(text, "\"ph\":\"X\""), rows);
	assert_int_equal(count(text, "\"name\":\"transfer\""), members);
	assert_int_equal(count(text, "\"waiting for rank "), waiting_members());
	assert_true(waiting_members() > 0);
	free(text);
}

/* Rows that all overlap and never nest: no thread each. */
static void damaged_times_stay_bounded(void **state)
{
	static int64_t start[4000], dur[4000];
	struct taut_trace trace = made.run.traces[0];
	struct taut_run run = made.run;
	struct taut_graph graph = made.graph;
	struct taut_report report = made.report;
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	assert_in_range(trace.n_events, 200, 4000);
	for (size_t i = 0; i < trace.n_events; i++) {
		start[i] = (int64_t)i;
		dur[i] = 1000000;
	}
	trace.start_ns = start;
	trace.dur_ns = dur;
	run.traces = &trace;
	run.n_traces = 1;
	graph.run = report.run = &run;
	graph.n_collectives = report.n_path = 0;
	report.graph = &graph;
	assert_int_equal(taut_report_perfetto(&report, out, NULL), TAUT_OK);
	fclose(out);
	assert_int_equal(count(text, "\"name\":\"thread 4001 (python)"), 64);
	assert_int_equal(count(text, "\"ph\":\"X\""), trace.n_events);
	free(text);
}

static void refusal_is_told(void **state)
{
	(void)state;
	renderer_tells_refusal(taut_report_perfetto, &made.report);
}

static void no_memory_is_told(void **state)
{
	(void)state;
	renderer_tells_no_memory(taut_report_perfetto, &made.report, 8);
}

static int make(void **state)
{
	(void)state;
	synthetic_make(&made, 3, 700);
	return 0;
}

static int unmake(void **state)
{
	(void)state;
	synthetic_free(&made);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_is_a_slice),
		cmocka_unit_test(damaged_times_stay_bounded),
		cmocka_unit_test(refusal_is_told),
		cmocka_unit_test(no_memory_is_told),
	};

	return cmocka_run_group_tests(tests, make, unmake);
}

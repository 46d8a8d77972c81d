/* late_test.c - who holds the others back, of pipelines worked out by hand. */
#include <string.h>

#include <taut/report.h>

#include "tests/support/unit.h"

#define ROW(stage, op, start, dur, batch) \
	"0," #stage "," #stage ",1," op "," #start "," #dur ",0,0," #batch "," \
	#stage "\n"

#define US INT64_C(1000)

/* Three stages and a micro-batch, in ms; the first one's forward takes 100 where the
 * others' take 10. Stage 2 waits for stage 1 which waits for stage 0, and on the way back
 * they wait for stage 2: stage 1 keeps nobody waiting. */
static const char slow_first[] =
	"dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc\n"
	ROW(0, "forward-compute", 0, 0.100, 0)
	ROW(0, "forward-send", 0.100, 0.001, 0)
	ROW(1, "forward-recv", 0, 0.101, 0)
	ROW(1, "forward-compute", 0.101, 0.010, 0)
	ROW(1, "forward-send", 0.111, 0.001, 0)
	ROW(2, "forward-recv", 0, 0.112, 0)
	ROW(2, "forward-compute", 0.112, 0.010, 0)
	ROW(2, "backward-compute", 0.122, 0.010, 0)
	ROW(2, "backward-send", 0.132, 0.001, 0)
	ROW(1, "backward-recv", 0.112, 0.021, 0)
	ROW(1, "backward-compute", 0.133, 0.010, 0)
	ROW(1, "backward-send", 0.143, 0.001, 0)
	ROW(0, "backward-recv", 0.101, 0.043, 0)
	ROW(0, "backward-compute", 0.144, 0.010, 0);

static void test_a_chain_through_a_pipeline(void **state)
{
	struct taut_run *run;
	struct taut_graph *graph;
	struct taut_report *report;
	const struct taut_report_late *late;
	int64_t caused = 0;

	(void)state;
	assert_int_equal(taut_run_open_memory("job.csv", slow_first,
		sizeof slow_first - 1, -1, &run, NULL), TAUT_OK);
	assert_int_equal(taut_graph_build(run, NULL, &graph, NULL), TAUT_OK);
	assert_int_equal(taut_explain(graph, NULL, &report, NULL), TAUT_OK);
	for (uint32_t i = 0; i < report->n_late; i++)
		caused += report->late[i].caused_ns;
	late = report->late;
	assert_int_equal(late[0].rank, 0);
	assert_int_equal(late[0].cause, TAUT_CAT_COMPUTE);
	assert_string_equal(late[0].cause_op, "forward-compute");
	/* of 111 and 100 ms, half of the others each */
	assert_int_equal(late[0].caused_ns, 105500 * US);
	assert_in_range(late[0].excess_ns[TAUT_CAT_COMPUTE], 100000 * US, 105500 * US);
	assert_int_equal(late[1].rank, 2);
	assert_int_equal(late[1].caused_ns, 31000 * US);
	assert_int_equal(late[2].caused_ns, 0);
	assert_true(caused < report->steps[0].measured_ns);
	taut_report_destroy(report);
	taut_graph_destroy(graph);
	taut_run_close(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_chain_through_a_pipeline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

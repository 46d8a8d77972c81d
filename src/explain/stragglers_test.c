/* Stragglers of jobs that can be worked out by hand. */
#include <string.h>

#include <taut/stragglers.h>

#include "tests/support/alloc_fail.h"
#include "tests/support/unit.h"

#define HEADER \
	"dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc\n"

/* Two ranks that compute, reduce for a second, and update. Rank 1 computes 3 s
 * where rank 0 computes 1; in step 2 both wait a second before they begin. */
static const char job[] = HEADER
	"0,0,0,1,forward-compute,0,1,0,0,0,0\n"
	"0,0,0,1,optimizer-clip-main-grad,1,3,0,-1,-1,-1\n"
	"0,0,0,1,optimizer,4,1,0,-1,-1,-1\n"
	"0,0,0,2,forward-compute,1,1,0,0,0,0\n"
	"0,0,0,2,optimizer-clip-main-grad,2,3,0,-1,-1,-1\n"
	"0,0,0,2,optimizer,5,1,0,-1,-1,-1\n"
	"1,0,1,1,forward-compute,0,3,0,0,0,0\n"
	"1,0,1,1,optimizer-clip-main-grad,3,1,0,-1,-1,-1\n"
	"1,0,1,1,optimizer,4,1,0,-1,-1,-1\n"
	"1,0,1,2,forward-compute,1,3,0,0,0,0\n"
	"1,0,1,2,optimizer-clip-main-grad,4,1,0,-1,-1,-1\n"
	"1,0,1,2,optimizer,5,1,0,-1,-1,-1\n";

#define S INT64_C(1000000000)

struct rig {
	struct taut_run *run;
	struct taut_graph *graph;
	struct taut_stragglers *found;
};

static void setup(struct rig *rig)
{
	struct taut_graph_options one = { .threads = 1 };
	*rig = (struct rig){ NULL, NULL, NULL };
	assert_int_equal(taut_run_open_memory("job.csv", job, sizeof job - 1,
		-1, &rig->run, NULL), TAUT_OK);
	assert_int_equal(taut_graph_build(
		rig->run, &one, &rig->graph, NULL), TAUT_OK);
}

static void teardown(struct rig *rig)
{
	taut_stragglers_destroy(rig->found);
	taut_graph_destroy(rig->graph);
	taut_run_close(rig->run);
}

static const struct taut_straggler_row *row_of(
	const struct rig *rig, enum taut_straggler_by by, int32_t number)
{
	const struct taut_straggler_table *table = &rig->found->by[by];
	for (uint32_t i = 0; i < table->n; i++)
		if (table->rows[i].number == number)
			return &table->rows[i];
	fail_msg("no row of %d", (int)number);
	return NULL;
}

/* Measured 5 and 6 s, without delays 5 and 5, ideal 2 + 1 + 1 = 4. */
static void test_by_hand(void **state)
{
	(void)state;
	struct rig rig;
	setup(&rig);
	assert_int_equal(taut_stragglers_find(
		rig.graph, NULL, &rig.found, NULL), TAUT_OK);
	const struct taut_stragglers *s = rig.found;
	assert_int_equal(s->n_steps, 2);
	assert_int_equal(s->steps[1].id, 2);
	assert_int_equal(s->steps[0].measured_ns, 5 * S);
	assert_int_equal(s->steps[1].measured_ns, 6 * S);
	assert_int_equal(s->steps[0].nodelay_ns, 5 * S);
	assert_int_equal(s->steps[1].nodelay_ns, 5 * S);
	assert_int_equal(s->steps[0].ideal_ns, 4 * S);
	assert_int_equal(s->steps[1].ideal_ns, 4 * S);
	assert_true(s->slowdown == 5.0 / 4);
	assert_true(s->launch_slowdown == 11.0 / 10);
	/* with rank 0 alone as it was the others still take 2 s */
	assert_true(row_of(&rig, TAUT_BY_REPLICA, 0)->slowdown == 1);
	assert_true(row_of(&rig, TAUT_BY_REPLICA, 1)->slowdown == 5.0 / 4);
	assert_true(row_of(&rig, TAUT_BY_RANK, 1)->slowdown == 5.0 / 4);
	assert_int_equal(s->by[TAUT_BY_TYPE].n, 3);
	assert_string_equal(s->by[TAUT_BY_TYPE].rows[0].name,
		"forward-compute");
	/* a second in two steps, of either rank */
	assert_non_null(s->by[TAUT_BY_RANK].delays);
	assert_true(s->by[TAUT_BY_RANK].delays[0].slowdown == 11.0 / 10);
	teardown(&rig);
}

static void test_cause(void **state)
{
	(void)state;
	struct rig rig;
	setup(&rig);
	assert_int_equal(taut_stragglers_find(
		rig.graph, NULL, &rig.found, NULL), TAUT_OK);
	assert_int_equal(rig.found->cause, TAUT_BY_RANK);
	assert_int_equal(rig.found->cause_number, 1);
	assert_true(rig.found->repair_pct > 99.999);
	assert_string_equal(rig.found->sentence, "Rank 1 is too slow: its "
		"forward-compute takes 3.00 times what it takes elsewhere. If "
		"it took what is usual, 100 % of the slowdown would go.");
	teardown(&rig);
}

static void test_memory_that_runs_out(void **state)
{
	(void)state;
	struct taut_straggler_options one = { .threads = 1 };
	struct rig rig;
	taut_status status = TAUT_ENOMEM;
	long n = 0;
	setup(&rig);
	for (; status != TAUT_OK; n++) {
		struct taut_error err = { 0 };
		alloc_fail_after(n);
		status = taut_stragglers_find(
			rig.graph, &one, &rig.found, &err);
		alloc_fail_never();
		assert_true(status == TAUT_OK || status == TAUT_ENOMEM);
		assert_true(status == TAUT_OK || err.message[0]);
		assert_true(n < 1000);
	}
	assert_true(n > 20);
	teardown(&rig);
}

/* The same of the graph, whose waits are told. */
static void test_memory_for_the_graph(void **state)
{
	(void)state;
	struct taut_graph_options one = { .threads = 1 };
	struct rig rig;
	taut_status status = TAUT_ENOMEM;
	long n = 0;
	setup(&rig);
	taut_graph_destroy(rig.graph);
	rig.graph = NULL;
	for (; status != TAUT_OK; n++) {
		alloc_fail_after(n);
		status = taut_graph_build(rig.run, &one, &rig.graph, NULL);
		alloc_fail_never();
		assert_true(status == TAUT_OK || status == TAUT_ENOMEM);
		assert_true(n < 2000);
	}
	assert_true(n > 20);
	teardown(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_hand),
		cmocka_unit_test(test_cause),
		cmocka_unit_test(test_memory_that_runs_out),
		cmocka_unit_test(test_memory_for_the_graph),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

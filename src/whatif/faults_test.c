/* faults_test.c - page faults that recorded steps have other than the job's own, and the
 * heap that is kept. */
#include "whatif/small_job.h"

enum { FAULT_NS = 2000 };

/* As processes of the recording tell it; the steps are 1000 ms with the profiler. */
static void tell(const struct job *j, uint32_t rank, int64_t recorded, int64_t own,
	double own_ms)
{
	struct taut_trace *t =
		(struct taut_trace *)(uintptr_t)&j->run->traces[rank];

	wt_faults(j->run, rank, recorded, own, FAULT_NS);
	t->step_recorded_ns = 1000000000;
	t->step_unrecorded_ns = (int64_t)(own_ms * 1e6);
}

static void tell_all(const struct job *j, int64_t recorded, int64_t own, double own_ms)
{
	for (uint32_t r = 0; r < j->run->n_traces; r++)
		tell(j, r, recorded, own, own_ms);
}

static struct taut_prediction *predict(const struct job *j, const char *change)
{
	struct taut_prediction *p = NULL;
	struct taut_error err = { 0 };

	if (taut_predict(j->graph, &change, 1, NULL, &p, &err))
		fail_msg("%s: %s", change, err.message);
	return p;
}

static void expect(const struct job *j, double before_ms, double after_ms,
	const char *note)
{
	struct taut_prediction *p = predict(j, "heap=keep");

	/* Of some ten events a step the recorder's own cost is no matter. */
	assert_true(fabs((double)p->before_ns / 1e6 - before_ms) < 0.05);
	assert_true(fabs((double)p->after_ns / 1e6 - after_ms) < 0.05);
	assert_int_equal(p->recorded_ns, 1000000000);
	assert_true(p->low_ns <= p->after_ns && p->after_ns <= p->high_ns);
	if (note)
		assert_non_null(strstr(p->notes[p->n_notes - 1], note));
	taut_prediction_destroy(p);
}

static void test_spared(void **state)
{
	struct job j = ddp_job();

	(void)state;
	tell_all(&j, 0, 10000, 1020);
	expect(&j, 1020, 1000, "recorded steps were spared 20.0 ms");
	tell_all(&j, 4000, 10000, 1012);
	expect(&j, 1012, 992, "recorded steps were spared 12.0 ms");
	close_job(&j);
}

static void test_added(void **state)
{
	struct job j = ddp_job();

	(void)state;
	tell_all(&j, 10000, 0, 980);
	expect(&j, 980, 980, "recorded steps had 20.0 ms");
	tell_all(&j, 10000, 2500, 985);
	expect(&j, 985, 980, "recorded steps had 15.0 ms");
	close_job(&j);
}

/* As many as ever: nothing is put back, and all can be spared. */
static void test_alike(void **state)
{
	struct job j = ddp_job();

	(void)state;
	tell_all(&j, 10000, 10000, 1000);
	expect(&j, 1000, 980, NULL);
	close_job(&j);
}

/* One rank alone has them: the other waits for it. */
static void test_one_rank(void **state)
{
	struct job j = ddp_job();

	(void)state;
	tell(&j, 1, 10000, 10000, 1000);
	tell(&j, 0, 0, 0, 1000);
	expect(&j, 1000, 1000, NULL);
	tell(&j, 0, 10000, 10000, 1000);
	tell(&j, 1, 0, 10000, 1020);
	/* the gradients of rank 1 come later by what fell before them */
	assert_true(with(&j, "host=1x") > 1009);
	close_job(&j);
}

/* Figures that cannot be of this job change nothing. */
static void test_slips(void **state)
{
	struct job j = ddp_job();

	(void)state;
	tell_all(&j, 0, 1000000, 1000);
	assert_true(fabs(with(&j, "host=1x") - 1000) < 0.05);
	refuses(&j, "heap=give", "expected one of keep");
	close_job(&j);
	j = ddp_job();
	refuses(&j, "heap=keep", "no page faults to spare");
	close_job(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spared), cmocka_unit_test(test_added),
		cmocka_unit_test(test_alike), cmocka_unit_test(test_one_rank),
		cmocka_unit_test(test_slips),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What would help a job of which all is known; and how little of it would. */
#include "stalls/world_by_hand.h"

#include "stalls/advise.h"
#include "stalls/calibrate.h"
#include "tests/support/alloc_fail.h"

/* 8 items of 1 ms a step, that 2 workers make in 4 ms; reads of 1 ms each make it 8; a step
 * takes 2 ms on a core of its own. */
static struct taut_stalls_model plain(void)
{
	return (struct taut_stalls_model){
		.host = { .rate_bytes_s = 200000000, .cores = 4, .cache = TAUT_FEED_LINUX,
			.cache_bytes = 60000000 },
		.set = { .n_items = 1200, .mean_bytes = 200000 },
		.job = { .form = TAUT_FEED_BY_BATCH, .batch = 8, .n_ranks = 1,
			.shuffle = true, .n_workers = 2, .depth = 4, .prepare_ns = 1e6,
			.step_ns = 2 * WORLD_MS, .step_cores = 1 },
		.n_ranks_host = 1,
	};
}

struct advised {
	struct taut_stalls_advice rows[TAUT_STALLS_ADVICE];
	struct taut_stalls_needs needs;
	size_t n;
};

static struct advised advise(const struct taut_stalls_model *model)
{
	struct advised to;
	struct taut_error err = { .message = "" };

	if (taut_stalls_advise(model, to.rows, &to.n, &to.needs, &err))
		fail_msg("%s", err.message);
	assert_true(to.n <= TAUT_STALLS_ADVICE);
	return to;
}

static double later_ns(
	const struct taut_stalls_model *model, const struct taut_stalls_change *change)
{
	struct taut_stalls_epoch epoch;

	assert_int_equal(taut_stalls_predict(model, change, &epoch, NULL), TAUT_OK);
	return (double)epoch.later_ns;
}

/* Each row is what predict says of it, better than the next, and better than nothing. */
static void check_rows(const struct taut_stalls_model *model, const struct advised *of)
{
	struct taut_stalls_change now = { .size = 0 };

	for (size_t i = 0; i < of->n; i++) {
		const struct taut_stalls_advice *row = &of->rows[i];

		now.jobs = row->change.jobs;
		assert_true(row->gain > 1.01 && isfinite(row->gain));
		assert_true(!i || row->gain <= of->rows[i - 1].gain || row->change.jobs);
		assert_true(strlen(row->what) > 5);
		assert_true((double)row->epoch.later_ns == later_ns(model, &row->change));
		world_near(row->gain, later_ns(model, &now) / later_ns(model, &row->change),
			1e-9, row->what);
	}
}

static const struct taut_stalls_advice *find(const struct advised *of, const char *what)
{
	for (size_t i = 0; i < of->n; i++)
		if (strstr(of->rows[i].what, what))
			return &of->rows[i];
	return NULL;
}

static void test_bound_by_reads(void **state)
{
	struct taut_stalls_model model = plain();
	struct advised advised = advise(&model);

	(void)state;
	check_rows(&model, &advised);
	assert_non_null(find(&advised, "storage 2 times"));
	assert_non_null(find(&advised, "memory for 100 %"));
	assert_non_null(find(&advised, "Taut's loader"));
	assert_non_null(find(&advised, "kept for good"));
	assert_true(find(&advised, "memory for 50 %")->gain <
		find(&advised, "memory for 100 %")->gain);
}

static void test_bound_by_the_job(void **state)
{
	struct taut_stalls_model model = plain();
	struct advised advised;

	(void)state;
	model.job.step_ns = 40 * WORLD_MS;
	model.host.cache_bytes = 400000000;
	model.host.rate_bytes_s = 0;
	advised = advise(&model);
	check_rows(&model, &advised);
	assert_null(find(&advised, "storage"));
	assert_null(find(&advised, "memory"));
	assert_null(find(&advised, "cores"));
	assert_true(advised.needs.cache_share == 0);
	assert_true(advised.needs.rate == 0); /* nothing is known of it */
	assert_int_equal(advised.needs.workers, 1);
}

/* --- needs -------------------------------------------------------------------------------
 * Played again, at what was found and just below. */

static struct taut_stalls_needs need(
	const struct taut_stalls_model *model, enum tauti_need which)
{
	struct taut_stalls_needs needs = { .cores = 0 };
	struct taut_error err = { .message = "" };

	if (tauti_need(model, which, &needs, &err))
		fail_msg("%s", err.message);
	return needs;
}

static double step_ns(const struct taut_stalls_model *model, double rate, double kept)
{
	struct tauti_scene scene = tauti_scene_of(model);
	struct tauti_played step;

	scene.host.rate_bytes_s = (uint64_t)(rate * (double)model->host.rate_bytes_s);
	assert_int_equal(tauti_play_step(&scene, &model->set, kept, &step, NULL), TAUT_OK);
	return step.took_ns;
}

static void test_needs_of_storage(void **state)
{
	struct taut_stalls_model model = plain();
	double enough_ns, at;

	(void)state;
	model.host.cache = TAUT_FEED_NONE;
	at = need(&model, TAUTI_NEED_SHARE).cache_share;
	enough_ns = 1.01 * step_ns(&model, 1, 1);
	assert_true(step_ns(&model, 1, at) <= enough_ns);
	assert_true(step_ns(&model, 1, at - 1 / 250.0) > enough_ns);
	at = need(&model, TAUTI_NEED_RATE).rate;
	enough_ns = 1.01 * step_ns(&model, 1024, 0);
	assert_true(step_ns(&model, at, 0) <= enough_ns);
	assert_true(step_ns(&model, at / 1.03, 0) > enough_ns);
}

/* 8 reads of 1 ms for a step of 4 ms, and little else: half of them may be left, or the
 * storage is to be twice as fast; for a step of 16 ms it may be half as fast. What is kept is
 * not spread evenly, so that a little more is needed of that. */
static void test_needs_have_a_closed_form(void **state)
{
	struct taut_stalls_model model = plain();

	(void)state;
	model.job.form = TAUT_FEED_OURS;
	model.job.prepare_ns = 100000;
	model.job.depth = 16;
	model.job.step_ns = 4 * WORLD_MS;
	model.host.cache = TAUT_FEED_NONE;
	world_near(need(&model, TAUTI_NEED_SHARE).cache_share, 1 - 0.505, 0.06, "cache_share");
	world_near(need(&model, TAUTI_NEED_RATE).rate, 2 / 1.01, 0.03, "rate");
	model.job.step_ns = 16 * WORLD_MS;
	assert_true(need(&model, TAUTI_NEED_SHARE).cache_share == 0);
	world_near(need(&model, TAUTI_NEED_RATE).rate, 0.5 / 1.01, 0.03, "rate");
	/* Half of it in a cache is as good as twice the rate. */
	model.host.cache = TAUT_FEED_KEEP;
	model.host.cache_bytes = 120000000;
	world_near(need(&model, TAUTI_NEED_RATE).rate, 0.25 / 1.01, 0.06, "rate");
}

/* 8 ms of preparation a step of 2 ms on one core: five of them. */
static void test_needs_of_cores(void **state)
{
	struct taut_stalls_model model = plain();

	(void)state;
	assert_int_equal(need(&model, TAUTI_NEED_CORES).cores, 5);
	assert_int_equal(need(&model, TAUTI_NEED_WORKERS).workers, 0); /* on 4 cores */
	model.host.cores = 8;
	assert_int_equal(need(&model, TAUTI_NEED_WORKERS).workers, 4);
	model.job.take_ns = WORLD_MS; /* no hardware helps, and none is asked for it */
	assert_true(need(&model, TAUTI_NEED_CORES).cores > 0);
	model.n_ranks_host = model.job.n_ranks = 4;
	model.job.take_ns = 0;
	assert_int_equal(need(&model, TAUTI_NEED_CORES).cores, 20);
}

/* --- ends --------------------------------------------------------------------------------*/

static void test_odd_models(void **state)
{
	struct taut_stalls_model model = plain();
	struct advised advised;

	(void)state;
	model.job.n_workers = 0; /* the job itself prepares */
	advised = advise(&model);
	check_rows(&model, &advised);
	assert_non_null(find(&advised, "workers"));
	model = plain();
	model.set = (struct taut_feed_set){ .n_items = 1 };
	model.job.prepare_ns = 0;
	model.host = (struct taut_feed_host){ .cores = 0 };
	advised = advise(&model);
	check_rows(&model, &advised);
	model.job.n_ranks = 2;
	model.job.step_ns = 0;
	model.n_ranks_host = 2;
	model.set.n_items = 100;
	advised = advise(&model);
	check_rows(&model, &advised);
}

static void test_faults_are_told(void **state)
{
	struct taut_stalls_model model = plain();
	struct taut_stalls_advice rows[TAUT_STALLS_ADVICE];
	struct taut_stalls_needs needs;
	struct taut_error err = { .message = "" };
	size_t n;

	(void)state;
	model.host.cores = -1;
	assert_int_equal(taut_stalls_advise(&model, rows, &n, &needs, &err), TAUT_EINVAL);
	assert_string_equal(err.message, "feed: cores is -1, expected 0.001 to 65536");
	model = plain();
	for (long k = 0; k < 60; k += 19) {
		alloc_fail_after(k);
		assert_int_equal(
			taut_stalls_advise(&model, rows, &n, &needs, &err), TAUT_ENOMEM);
		alloc_fail_never();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bound_by_reads),
		cmocka_unit_test(test_bound_by_the_job),
		cmocka_unit_test(test_needs_of_storage),
		cmocka_unit_test(test_needs_have_a_closed_form),
		cmocka_unit_test(test_needs_of_cores),
		cmocka_unit_test(test_odd_models),
		cmocka_unit_test(test_faults_are_told),
	};
	return cmocka_run_group_tests_name("what would help", tests, NULL, NULL);
}

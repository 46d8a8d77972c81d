/* A made-up job is measured, and its model has its numbers again; where one of them was told
 * wrong, playing finds it. */
#include "stalls/world_by_hand.h"

#include "tests/support/alloc_fail.h"

/* 2 workers of 2 cores, 1 ms of each for an item; storage takes 0.5 ms each. */
static struct world plain(void)
{
	return (struct world){
		.host = { .rate_bytes_s = 200000000, .latency_ns = 200000, .cores = 4 },
		.job = { .form = TAUT_FEED_BY_BATCH, .batch = 16, .n_ranks = 1,
			.shuffle = true, .n_workers = 2, .depth = 4, .prepare_ns = 1e6,
			.step_ns = 4 * WORLD_MS, .step_cores = 1 },
		.set = { .n_items = 4000, .mean_bytes = 100000 },
		.rounds = 3, .steps = 10,
	};
}

static void expect_numbers(const struct world *world)
{
	struct taut_stalls_storage storage = world_storage(world);
	struct taut_stalls_model model = world_model(world, &storage);

	world_near((double)model.job.step_ns, (double)world->job.step_ns, 0.001, "step_ns");
	world_near(model.job.step_cores, world->job.step_cores, 0.001, "step_cores");
	world_near(model.job.prepare_ns, world->job.prepare_ns, 0.02, "prepare_ns");
	world_near(model.job.read_cpu_ns, world->job.read_cpu_ns, 0.02, "read_cpu_ns");
	world_near((double)model.job.take_ns, (double)world->job.take_ns, 0.02, "take_ns");
	world_near((double)model.host.rate_bytes_s, (double)world->host.rate_bytes_s, 0.05,
		"rate_bytes_s");
	world_near(model.host.cores, world->host.cores, 0, "cores");
	world_near(model.set.mean_bytes, world->set.mean_bytes, 0.001, "mean_bytes");
	assert_int_equal(model.set.n_items, world->set.n_items);
	assert_int_equal(model.job.form, world->job.form);
	assert_int_equal(model.job.n_workers, world->job.n_workers);
	for (int i = 0; i < 3; i++)
		world_near(1 + model.error[i], 1, 0.012, "error");
}

static void test_numbers_come_back(void **state)
{
	struct world world = plain();

	(void)state;
	expect_numbers(&world);
	world.job.take_ns = 300000;
	world.job.read_cpu_ns = 60000;
	expect_numbers(&world);
	world.without_own = true;
	expect_numbers(&world);
	world.job.form = TAUT_FEED_BY_ITEM;
	world.job.step_ns = 20 * WORLD_MS; /* bound by the job */
	expect_numbers(&world);
	world.job.form = TAUT_FEED_OURS;
	world.job.step_ns = 3 * WORLD_MS;
	expect_numbers(&world);
	world.host.rate_bytes_s = 50000000; /* bound by the storage */
	expect_numbers(&world);
	world.job.n_ranks = 2;
	world.host.cores = 2;
	expect_numbers(&world);
}

/* --- what was told wrong ---------------------------------------------------------------*/

static void test_storage_is_found(void **state)
{
	struct world world = plain();
	struct taut_stalls_storage storage;
	struct taut_stalls_model model;

	(void)state;
	world.host.rate_bytes_s = 50000000;
	storage = world_storage(&world);
	storage.rate_bytes_s *= 1.4;
	storage.latency_ns = (int64_t)(storage.latency_ns / 1.4);
	model = world_model(&world, &storage);
	world_near((double)model.host.rate_bytes_s, 50e6, 0.02, "rate_bytes_s");
	world_near((double)model.host.latency_ns, 200000, 0.02, "latency_ns");
	world_near(1 + model.error[1], 1, 0.006, "error[1]");
	/* By nobody: then it is all rate. */
	world.host.latency_ns = 0;
	model = world_model(&world, NULL);
	world_near((double)model.host.rate_bytes_s, 50e6, 0.02, "rate_bytes_s");
	world_near(1 + model.error[2], 1, 0.02, "error[2]");
	/* Or not found, where the job does not wait for it. */
	world.job.step_ns = 200 * WORLD_MS;
	model = world_model(&world, NULL);
	assert_int_equal(model.host.rate_bytes_s, 0);
}

/* Each of the 10 steps of a phase took 2 ms more. */
static void slow_down(struct taut_stalls *stalls, enum taut_stalls_phase phase, bool at_work)
{
	struct tauti_measured *rank = &stalls->ranks[0];

	for (size_t i = 0; i < rank->phases.count; i++) {
		struct tauti_measured_phase *row = &rank->phases.data[i];

		if (row->phase == phase) {
			row->wall_ns += 10 * 2 * WORLD_MS;
			row->cpu_ns += at_work ? 10 * 2 * WORLD_MS : 0;
		}
	}
}

/* A step that takes longer once its batch is a fresh one. */
static void test_a_fresh_batch_costs(void **state)
{
	struct world world = plain(), seen;
	struct taut_stalls_storage storage = world_storage(&world);
	struct taut_stalls *stalls;
	struct taut_stalls_model model;
	struct tauti_measured *rank;

	(void)state;
	world.job.step_ns = 20 * WORLD_MS;
	seen = world;
	stalls = world_open(&seen);
	rank = &stalls->ranks[0];
	slow_down(stalls, TAUT_STALLS_CACHED, false);
	for (size_t i = 0; i < rank->steps.count; i++)
		rank->steps.data[i].wall_ns += 2 * WORLD_MS;
	assert_int_equal(taut_stalls_model(stalls, &storage, 0, &model, NULL), TAUT_OK);
	taut_stalls_close(stalls);
	world_near((double)model.job.take_ns, 2 * WORLD_MS, 0.05, "take_ns");
	world_near(1 + model.error[0], 1, 0.006, "error[0]");
}

/* A job that waits for nothing, whose steps in place were slow by chance. */
static void test_place_is_not_slower(void **state)
{
	struct world world = plain();
	struct taut_stalls_storage storage = world_storage(&world);
	struct taut_stalls *stalls;
	struct taut_stalls_model model;

	(void)state;
	world.job.step_ns = 20 * WORLD_MS;
	stalls = world_open(&world);
	slow_down(stalls, TAUT_STALLS_PLACE, true);
	assert_int_equal(taut_stalls_model(stalls, &storage, 0, &model, NULL), TAUT_OK);
	taut_stalls_close(stalls);
	world_near((double)model.job.step_ns, 21 * WORLD_MS, 0.01, "step_ns");
	world_near(1 + model.error[0], 1.05, 0.006, "error[0]");
}

/* Rounds that differ by a third say little: what counters told is not changed to fit them. */
static void test_doubt_is_no_measure(void **state)
{
	static const double slower[] = { 1, 1.3, 0.97, 1.25, 1.1 };
	struct world world = plain();
	struct taut_stalls_storage storage = world_storage(&world);
	struct taut_stalls *stalls;
	struct taut_stalls_model model;
	struct tauti_measured *rank;

	(void)state;
	world.rounds = 5;
	stalls = world_open(&world);
	rank = &stalls->ranks[0];
	for (size_t i = 0; i < rank->phases.count; i++) {
		struct tauti_measured_phase *row = &rank->phases.data[i];

		if (row->phase == TAUT_STALLS_CACHED)
			row->wall_ns = (int64_t)(slower[row->round] * (double)row->wall_ns);
	}
	assert_int_equal(taut_stalls_model(stalls, &storage, 0, &model, NULL), TAUT_OK);
	taut_stalls_close(stalls);
	world_near(model.job.prepare_ns, 1e6, 0.02, "prepare_ns");
	assert_int_equal(model.job.idle_ns, 0);
	assert_true(model.host.crowd == 0);
	assert_true(model.error[0] < -0.05);
}

/* What a fresh batch costs the job's own process is no crowd, however much that is. */
static void test_fresh_memory_costs(void **state)
{
	struct world world = plain();
	struct taut_stalls_storage storage = world_storage(&world);
	struct taut_stalls_model model;

	(void)state;
	world.host.cores = 2;
	world.own_step_ns = 7.0 * WORLD_MS;
	model = world_model(&world, &storage);
	world_near((double)model.job.take_ns, 3.0 * WORLD_MS, 0.02, "take_ns");
	assert_true(model.host.crowd == 0 || model.host.crowd > 0.95);
	world_near(model.job.prepare_ns, 1e6, 0.2, "prepare_ns");
}

/* All cores at work, at 0.8 of their speed; while cold, not more than one. */
static void test_a_crowd_is_found(void **state)
{
	struct world world = plain();
	struct taut_stalls_storage storage;
	struct taut_stalls_model model;
	struct world_step cached;

	(void)state;
	world.host.cores = 2;
	world.host.crowd = 0.8;
	world.host.rate_bytes_s = 50000000;
	world.job.n_workers = 3;
	world.job.depth = 6;
	storage = world_storage(&world);
	cached = world_cached(&world);
	world.cpu_step_ns = 2 * cached.took_ns;
	world.own_step_ns = (double)world.job.step_ns / 0.8;
	world.own_cold_ns = (double)world.job.step_ns;
	model = world_model(&world, &storage);
	world_near(model.host.crowd, 0.8, 0.03, "crowd");
	assert_true(model.job.take_ns < WORLD_MS / 10);
	world_near(model.job.prepare_ns, 1e6, 0.03, "prepare_ns");
	world_near(1 + model.error[0], 1, 0.01, "error[0]");
}

/* Items that wait for what is neither core nor storage. */
static void test_idle_workers_are_found(void **state)
{
	struct world world = plain();
	struct taut_stalls_storage storage = world_storage(&world);
	struct taut_stalls_model model;

	(void)state;
	world.job.prepare_ns = 200000;
	world.job.idle_ns = 1300000;
	model = world_model(&world, &storage);
	world_near((double)model.job.idle_ns, 1300000, 0.01, "idle_ns");
	world_near(model.job.prepare_ns, 200000, 0.01, "prepare_ns");
	world_near(1 + model.error[2], 1, 0.01, "error[2]");
}

static void test_half_a_batch(void **state)
{
	struct world world = plain();
	struct taut_stalls_storage storage = world_storage(&world);

	(void)state;
	world.half_ns = 2.5 * WORLD_MS;
	world_near((double)world_model(&world, &storage).half_step_ns, 2.5 * WORLD_MS,
		0.001, "half_step_ns");
}

/* --- what is missing -------------------------------------------------------------------*/

static void test_no_cold_phase(void **state)
{
	struct world world = plain();
	struct taut_stalls_model model;

	(void)state;
	world.without_cold = true;
	world.rounds = 1;
	model = world_model(&world, NULL);
	assert_int_equal(model.host.rate_bytes_s, 0);
	assert_true(model.error[1] == 0 && model.error[2] == 0);
	world_near(model.job.prepare_ns, 1e6, 0.02, "prepare_ns");
	world_near(model.set.mean_bytes, 100000, 0.001, "mean_bytes");
}

static void refuse(const struct taut_stalls *stalls,
	const struct taut_stalls_storage *storage, const char *expected)
{
	struct taut_stalls_model model;
	struct taut_error err = { .message = "" };

	assert_int_equal(taut_stalls_model(stalls, storage, 0, &model, &err), TAUT_EINVAL);
	assert_string_equal(err.message, expected);
}

static void test_what_cannot_be_modelled(void **state)
{
	struct world world = plain();
	struct taut_stalls *stalls = world_open(&world);
	struct taut_stalls_storage storage = { .rate_bytes_s = NAN };

	(void)state;
	refuse(stalls, &storage,
		"stalls: storage of nan bytes/s and 0 ns, expected 0 or more");
	for (size_t i = 0; i < stalls->ranks[0].phases.count; i++)
		if (stalls->ranks[0].phases.data[i].phase == TAUT_STALLS_CACHED)
			stalls->ranks[0].phases.data[i].steps = 0;
	refuse(stalls, NULL, "stalls: expected steps of 'cached' of all ranks, found none");
	taut_stalls_close(stalls);
}

static void test_without_memory(void **state)
{
	struct world world = plain();
	struct taut_stalls *stalls = world_open(&world);
	struct taut_stalls_model model;
	taut_status status = TAUT_ENOMEM;
	long n;

	(void)state;
	for (n = 0; status; n += n < 40 ? 1 : 13) {
		assert_true(n < 2000);
		alloc_fail_after(n);
		status = taut_stalls_model(stalls, NULL, 0, &model, NULL);
		alloc_fail_never();
		assert_true(status == TAUT_OK || status == TAUT_ENOMEM);
	}
	assert_true(n > 40);
	taut_stalls_close(stalls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers_come_back),
		cmocka_unit_test(test_storage_is_found),
		cmocka_unit_test(test_a_fresh_batch_costs),
		cmocka_unit_test(test_place_is_not_slower),
		cmocka_unit_test(test_doubt_is_no_measure),
		cmocka_unit_test(test_fresh_memory_costs),
		cmocka_unit_test(test_a_crowd_is_found),
		cmocka_unit_test(test_idle_workers_are_found),
		cmocka_unit_test(test_half_a_batch),
		cmocka_unit_test(test_no_cold_phase),
		cmocka_unit_test(test_what_cannot_be_modelled),
		cmocka_unit_test(test_without_memory),
	};
	return cmocka_run_group_tests_name("the model of a job", tests, NULL, NULL);
}

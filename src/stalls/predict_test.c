/* Predictions from what was measured of a made-up job, beside that job itself after the
 * change; and where a closed form says what must come out. */
#include "stalls/predict.h"
#include "stalls/world_by_hand.h"

#include "tests/support/alloc_fail.h"

static struct world plain(void)
{
	return (struct world){
		.host = { .rate_bytes_s = 150000000, .latency_ns = 100000, .cores = 4,
			.cache = TAUT_FEED_LINUX, .cache_bytes = 160000000 },
		.job = { .form = TAUT_FEED_BY_BATCH, .batch = 16, .n_ranks = 1,
			.shuffle = true, .n_workers = 2, .depth = 4, .prepare_ns = 800000,
			.read_cpu_ns = 50000, .take_ns = 200000,
			.step_ns = 5 * WORLD_MS, .step_cores = 1 },
		.set = { .n_items = 3200, .mean_bytes = 100000 },
		.rounds = 3, .steps = 10,
	};
}

/* The mean of the jobs' later epoch, each with its own seed. */
static double direct_ns(const struct world *world, uint32_t n_jobs, uint32_t later)
{
	struct taut_feed_job jobs[4];
	struct taut_feed_epoch rows[4 * 6];
	uint32_t n_epochs = later + 2;
	double sum_ns = 0;

	assert_true(n_jobs <= 4 && n_epochs <= 6);
	for (uint32_t i = 0; i < n_jobs; i++) {
		jobs[i] = world->job;
		jobs[i].set = &world->set;
		jobs[i].seed = i;
		jobs[i].epochs = n_epochs;
	}
	assert_int_equal(taut_feed_play(&world->host, jobs, n_jobs, rows, n_jobs * n_epochs,
		NULL), TAUT_OK);
	for (uint32_t i = 0; i < n_jobs; i++)
		sum_ns += (double)(rows[i * n_epochs + later].end_ns -
			rows[i * n_epochs + later].begin_ns);
	return sum_ns / n_jobs;
}

static double later_ns(const struct taut_stalls_model *model,
	const struct taut_stalls_change *change)
{
	struct taut_stalls_epoch epoch;
	struct taut_error err = { .message = "" };

	if (taut_stalls_predict(model, change, &epoch, &err))
		fail_msg("%s", err.message);
	assert_true(epoch.first_ns > 0 && epoch.later_ns > 0);
	assert_true(epoch.fetch_ns >= 0 && epoch.prepare_ns >= 0);
	return (double)epoch.later_ns;
}

/* One measurement, and ten other points. */
static void expect_points(struct world base)
{
	struct taut_stalls_storage storage = world_storage(&base);
	struct taut_stalls_model model = world_model(&base, &storage);
	uint32_t w = base.job.n_workers;
	struct world at;

#define POINT(n_jobs, later, change, ...) \
	at = base; \
	__VA_ARGS__; \
	world_near(later_ns(&model, &(struct taut_stalls_change)change), \
		direct_ns(&at, n_jobs, later), 0.02, #change)
#define CHANGE(...) { __VA_ARGS__ }

	POINT(1, 3, CHANGE(.size = 0), (void)at);
	POINT(1, 3, CHANGE(.rate = 0.25), at.host.rate_bytes_s /= 4, at.host.latency_ns *= 4);
	POINT(1, 3, CHANGE(.rate = 4), at.host.rate_bytes_s *= 4, at.host.latency_ns /= 4);
	POINT(1, 3, CHANGE(.workers = w + 2), at.job.n_workers += 2,
		at.job.depth = at.job.form == TAUT_FEED_BY_BATCH ? 2 * (w + 2) : at.job.depth);
	POINT(1, 3, CHANGE(.cores = 2), at.host.cores = 2);
	POINT(1, 3, CHANGE(.cores = 1), at.host.cores = 1);
	POINT(1, 1, CHANGE(.has_cache = true, .cache = TAUT_FEED_KEEP, .cache_bytes = 240000000),
		at.host.cache = TAUT_FEED_KEEP, at.host.cache_bytes = 240000000);
	POINT(1, 1, CHANGE(.has_cache = true), at.host.cache = TAUT_FEED_NONE);
	POINT(1, 3, CHANGE(.device = 2), at.job.step_ns /= 2);
	POINT(1, 3, CHANGE(.batch = 32), at.job.batch = 32, at.job.take_ns *= 2,
		at.job.step_ns = 8 * WORLD_MS);
	POINT(2, 3, CHANGE(.jobs = 2), (void)at);
#undef CHANGE
#undef POINT
}

static void test_other_points(void **state)
{
	struct world world = plain();

	(void)state;
	world.half_ns = 3.5 * WORLD_MS; /* 2 ms and 3/16 ms a sample */
	expect_points(world);
	world.job.form = TAUT_FEED_BY_ITEM;
	expect_points(world);
	world.job.form = TAUT_FEED_OURS;
	expect_points(world);
}

/* As Taut's loader, with the defaults of that; and jobs that share. */
static void test_another_loader(void **state)
{
	struct world world = plain(), ours;
	struct taut_stalls_storage storage = world_storage(&world);
	struct taut_stalls_model model = world_model(&world, &storage);
	struct taut_stalls_change change = { .taut = true };
	double alone_ns, shared_ns;

	(void)state;
	ours = world;
	ours.job.form = TAUT_FEED_OURS;
	ours.job.depth = 0;
	world_near(later_ns(&model, &change), direct_ns(&ours, 1, 3), 0.02, "taut");
	change = (struct taut_stalls_change){ .taut = true, .jobs = 4 };
	alone_ns = later_ns(&model, &change);
	change.share = true;
	shared_ns = later_ns(&model, &change);
	assert_true(shared_ns < 0.6 * alone_ns);
}

/* --- long epochs -------------------------------------------------------------------------*/

/* max(step, prepare / workers, bytes / rate), and what an epoch begins and ends with is as
 * nothing. */
static void expect_bound(struct world world, double expected_s)
{
	struct taut_stalls_storage storage = world_storage(&world);
	struct taut_stalls_model model = world_model(&world, &storage);
	struct taut_stalls_change change = { .has_cache = true };

	world_near(later_ns(&model, &change), 1e9 * expected_s, 0.01, "a long epoch");
}

static void test_closed_forms(void **state)
{
	struct world world = plain();

	(void)state;
	world.host.latency_ns = 0;
	world.host.rate_bytes_s = 1000000000;
	world.job.read_cpu_ns = 0;
	world.job.take_ns = 0;
	world.job.form = TAUT_FEED_OURS;
	world.job.depth = 8;
	world.set.n_items = INT64_C(1) << 33;
	expect_bound(world, 0x1p33 * 0.8e-3 / 2);
	world.host.rate_bytes_s = 100000000;
	expect_bound(world, 0x1p33 * 1e-3);
	world.job.step_ns = 32 * WORLD_MS;
	expect_bound(world, 0x1p33 / 16 * 32e-3);
	world.host.cores = 1; /* all of them on one: 2 ms of the step, 0.8 */
	expect_bound(world, 0x1p33 * 2.8e-3);
}

/* A set that is too long to be played beside itself, played whole. */
static void test_a_set_is_scaled_down(void **state)
{
	static const enum taut_feed_cache caches[] = { TAUT_FEED_NONE, TAUT_FEED_KEEP,
		TAUT_FEED_LRU };
	struct world world = plain();
	struct taut_stalls_storage storage = world_storage(&world);
	struct taut_stalls_model model;
	uint64_t *bytes = calloc(60000, sizeof *bytes);

	(void)state;
	for (uint64_t i = 0; i < 60000; i++)
		bytes[i] = 20000 + i * 7919 % 160000;
	model = world_model(&world, &storage);
	world.set = model.set = (struct taut_feed_set){ .n_items = 60000, .bytes = bytes };
	for (int i = 0; i < 3; i++) {
		uint32_t later = caches[i] == TAUT_FEED_LRU ? 3 : 1;
		struct taut_stalls_change change = { .has_cache = true, .cache = caches[i],
			.cache_bytes = UINT64_C(3000000000) };

		world.host.cache = caches[i];
		world.host.cache_bytes = change.cache_bytes;
		world_near(later_ns(&model, &change), direct_ns(&world, 1, later), 0.01,
			"a scaled set");
	}
	free(bytes);
}

/* --- refusals ----------------------------------------------------------------------------*/

static void refuse(const struct taut_stalls_model *model, struct taut_stalls_change change,
	const char *expected)
{
	struct taut_stalls_epoch epoch;
	struct taut_error err = { .message = "" };

	assert_int_equal(taut_stalls_predict(model, &change, &epoch, &err), TAUT_EINVAL);
	assert_string_equal(err.message, expected);
}

static void test_bad_changes(void **state)
{
	struct world world = plain();
	struct taut_stalls_model model = world_model(&world, NULL);

	(void)state;
	refuse(&model, (struct taut_stalls_change){ .size = 3 },
		"stalls: a change of 3 bytes, expected 0 or 72");
	refuse(&model, (struct taut_stalls_change){ .rate = -1 },
		"stalls: rate is -1, expected 0 to 1e+09");
	refuse(&model, (struct taut_stalls_change){ .cores = NAN },
		"stalls: cores is nan, expected 0 to 1e+09");
	refuse(&model, (struct taut_stalls_change){ .batch = 8 },
		"stalls: a batch of 8, but steps of half a batch were not measured");
	refuse(&model, (struct taut_stalls_change){ .jobs = 1 << 17 },
		"stalls: 131072 jobs of 1 ranks on a host, expected 1 to 65535 ranks, and no "
		"more than the job's 1");
	refuse(&model, (struct taut_stalls_change){ .cores = 1e6 },
		"feed: cores is 1e+06, expected 0.001 to 65536");
	model.half_step_ns = 1;
	refuse(&model, (struct taut_stalls_change){ .batch = 1 << 23 }, "stalls: 4 batches of "
		"8388608 ahead, for 1 ranks: expected at most 2^24 samples");
	model.n_ranks_host = 2;
	refuse(&model, (struct taut_stalls_change){ .rate = 2 }, "stalls: 1 jobs of 2 ranks on "
		"a host, expected 1 to 65535 ranks, and no more than the job's 1");
}

static void test_without_memory(void **state)
{
	struct world world = plain();
	struct taut_stalls_model model = world_model(&world, NULL);
	struct taut_stalls_change change = { .jobs = 2 };
	struct taut_stalls_epoch epoch;
	taut_status status = TAUT_ENOMEM;
	long n;

	(void)state;
	for (n = 0; status; n++) {
		assert_true(n < 1000);
		alloc_fail_after(n);
		status = taut_stalls_predict(&model, &change, &epoch, NULL);
		alloc_fail_never();
		assert_true(status == TAUT_OK || status == TAUT_ENOMEM);
	}
	assert_true(n > 10);
}

/* A disk half as fast, whose bursts last as long: the first of them is half as large. */
static void test_bursts_last_as_long(void **state)
{
	struct world world = plain();
	struct taut_stalls_storage storage;
	struct taut_stalls_model model;
	struct taut_stalls_change half = { .rate = 0.5, .has_cache = true };
	struct taut_feed_host host = { .rate_bytes_s = 1000, .burst_bytes = 100 };

	(void)state;
	tauti_set_rate(&host, 0.5);
	assert_int_equal(host.burst_bytes, 50);
	tauti_set_rate(&host, 8);
	assert_int_equal(host.burst_bytes, 400);
	world.host.rate_bytes_s = 20000000;
	world.host.burst_bytes = 2000000;
	storage = world_storage(&world);
	storage.burst_bytes = world.host.burst_bytes;
	model = world_model(&world, &storage);
	world.host.cache = TAUT_FEED_NONE;
	world.host.rate_bytes_s /= 2;
	world.host.latency_ns *= 2;
	world.host.burst_bytes /= 2;
	world_near(later_ns(&model, &half), direct_ns(&world, 1, 3), 0.002, "half");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bursts_last_as_long),
		cmocka_unit_test(test_other_points),
		cmocka_unit_test(test_another_loader),
		cmocka_unit_test(test_closed_forms),
		cmocka_unit_test(test_a_set_is_scaled_down),
		cmocka_unit_test(test_bad_changes),
		cmocka_unit_test(test_without_memory),
	};
	return cmocka_run_group_tests_name("an epoch after a change", tests, NULL, NULL);
}

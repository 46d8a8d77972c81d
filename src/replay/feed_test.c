/* A loader on a virtual clock, where a closed form, or a count, says what must come out. */
#include "feed_by_hand.h"

#include <math.h>

#include "feed.h"
#include "tests/support/alloc_fail.h"

/* --- one bottleneck ----------------------------------------------------------------*/

/* Nothing but the first and the last item's way is added, whatever the epochs. */
static void test_bound_by_the_storage(void **state)
{
	struct taut_feed_host host = { .rate_bytes_s = MS_AN_ITEM, .latency_ns = 5 * MS };
	struct taut_feed_job job = plain();

	(void)state;
	job.prepare_ns = 2000;
	job.step_ns = 3000;
	play(&host, &job, 1);
	assert_int_equal(took(&epochs[0]), 1000 * MS + 5 * MS + 2000 + 3000);
	assert_int_equal(took(&epochs[1]), 1000 * MS);
	assert_int_equal(took(&epochs[2]), 1000 * MS);
	assert_int_equal(epochs[1].waited_ns, 1000 * MS - 100 * 3000);
	/* All but the preparation that the wait for each batch ends with. */
	assert_true(epochs[1].prepare_ns >= 100 * 2000);
	assert_true(epochs[1].prepare_ns <= 1000 * 2000);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(epochs[i].read_bytes, 6400000);
		assert_int_equal(epochs[i].reads, 1000);
		assert_int_equal(epochs[i].hits, 0);
		assert_int_equal(epochs[i].prepared, 1000);
		assert_int_equal(epochs[i].batches, 100);
	}
}

/* Latencies overlap as far as reads are served together. */
static void test_bound_by_latency(void **state)
{
	struct taut_feed_host host = {
		.rate_bytes_s = MS_AN_ITEM, .latency_ns = 9 * MS, .n_served = 1 };
	struct taut_feed_job job = plain();

	(void)state;
	play(&host, &job, 1);
	assert_int_equal(took(&epochs[0]), INT64_C(1000) * 10 * MS);
	assert_int_equal(took(&epochs[2]), INT64_C(1000) * 10 * MS);
	host.n_served = 5; /* five go around in 10 ms */
	play(&host, &job, 1);
	assert_int_equal(took(&epochs[1]), INT64_C(1000) * 2 * MS);
	host.n_served = 20; /* more than fill the line */
	play(&host, &job, 1);
	assert_int_equal(took(&epochs[1]), INT64_C(1000) * MS);
	host.n_served = 0;
	job.n_reads = 4; /* the loader's own limit does the same */
	play(&host, &job, 1);
	assert_int_equal(took(&epochs[1]), INT64_C(1000) * 10 * MS / 4);
}

/* Bytes count from the beginning of a read to the end of the preparation: 1 ms of the
 * storage, 3 of latency, and 2. */
static void test_bound_by_bytes_under_way(void **state)
{
	struct taut_feed_host host = { .rate_bytes_s = MS_AN_ITEM, .latency_ns = 3 * MS };
	struct taut_feed_job job = plain();

	(void)state;
	job.prepare_ns = 2 * MS;
	job.read_bytes = 6400;
	play(&host, &job, 1);
	assert_int_equal(took(&epochs[1]), INT64_C(1000) * 6 * MS);
	job.read_bytes = 2 * 6400 + 1;
	play(&host, &job, 1);
	assert_int_equal(took(&epochs[1]), INT64_C(1000) * 3 * MS);
	job.read_bytes = UINT64_MAX; /* then the worker alone counts */
	play(&host, &job, 1);
	assert_int_equal(took(&epochs[1]), INT64_C(1000) * 2 * MS);
}

/* One that reads and works by turns has its bytes at once where they had the time to come,
 * up to a burst; the rate is never passed for longer. */
static void test_a_burst(void **state)
{
	struct taut_feed_host host = { .rate_bytes_s = MS_AN_ITEM, .latency_ns = MS / 10 };
	struct taut_feed_job job = plain();

	(void)state;
	job.form = TAUT_FEED_BY_BATCH;
	job.n_workers = 0;
	job.prepare_ns = MS;
	play(&host, &job, 1);
	assert_int_equal(took(&epochs[1]), INT64_C(2100) * MS);
	host.burst_bytes = 6400;
	play(&host, &job, 1);
	assert_int_equal(took(&epochs[1]), INT64_C(1100) * MS);
	job.prepare_ns = MS / 2; /* 1.1 of 1.6 ms, or 1 at the rate */
	host.burst_bytes = 3200;
	play(&host, &job, 1);
	within(took(&epochs[1]), 1099.0 * MS, 1101.0 * MS);
	job.prepare_ns = 0;
	host.burst_bytes = 100 * 6400; /* at once, at first, and then at the rate */
	play(&host, &job, 1);
	within(took(&epochs[0]), 900.0 * MS, 911.0 * MS);
	within(took(&epochs[1]), 999.0 * MS, 1001.0 * MS);
}

static void expect_prepared_in(
	uint32_t n_workers, double cores, double ns_an_item)
{
	struct taut_feed_host host = { .cores = cores };
	struct taut_feed_job job = plain();

	job.n_workers = n_workers;
	job.prepare_ns = 300000;
	play(&host, &job, 1);
	/* Ends are whole ns, so an item costs up to one more. */
	within(took(&epochs[1]), 1000 * ns_an_item - 1, 1000 * (ns_an_item + 1));
	assert_int_equal(epochs[1].prepare_ns, epochs[1].waited_ns);
	assert_int_equal(epochs[1].waited_ns, took(&epochs[1]));
}

static void test_bound_by_preparation(void **state)
{
	(void)state;
	expect_prepared_in(1, 1, 300000);
	expect_prepared_in(5, 1, 300000);
	expect_prepared_in(2, 4, 150000);
	expect_prepared_in(5, 2, 150000);
	expect_prepared_in(5, 1.5, 200000);
	expect_prepared_in(5, 0, 60000);
	expect_prepared_in(0, 2, 150000); /* as many workers as cores */
}

/* 0.1 ms on a core, and 0.9 on none: of twenty workers on one core, all are at work together
 * for 2 ms and then idle together. */
static void test_workers_that_idle(void **state)
{
	static const enum taut_feed_form forms[] = {
		TAUT_FEED_OURS, TAUT_FEED_BY_BATCH, TAUT_FEED_BY_ITEM };
	struct taut_feed_host host = { .cores = 1 };
	struct taut_feed_job job = plain();

	(void)state;
	job.prepare_ns = 100000;
	job.idle_ns = 900000;
	for (int i = 0; i < 3; i++) {
		job.form = forms[i];
		job.n_workers = 1;
		play(&host, &job, 1);
		within(took(&epochs[1]), 1000.0 * MS, 1000.0 * MS + 1001);
		job.n_workers = 20;
		job.depth = 40;
		play(&host, &job, 1);
		within(took(&epochs[1]), 50 * 2.9 * MS - 1, 50 * 2.9 * MS + 1001);
	}
}

static void test_bound_by_the_job(void **state)
{
	struct taut_feed_host host = { .rate_bytes_s = MS_AN_ITEM, .cores = 1 };
	struct taut_feed_job job = plain();

	(void)state;
	job.step_ns = 11 * MS;
	job.prepare_ns = MS / 2;
	play(&host, &job, 1);
	assert_int_equal(took(&epochs[1]), 100 * 11 * MS);
	assert_int_equal(epochs[1].waited_ns, 0);
	assert_int_equal(epochs[2].waited_ns, 0);
	/* The first batch is waited for: ten reads and the last preparation. */
	assert_int_equal(epochs[0].waited_ns, 10 * MS + MS / 2);
}

/* --- cores -------------------------------------------------------------------------*/

/* Two preparations of 1000 and 3000 ns, half a core each, then one alone. */
static void test_cores_are_shared_evenly(void **state)
{
	static const uint64_t bytes[] = { 1000, 3000 };
	static const struct taut_feed_set two = { .n_items = 2, .bytes = bytes };
	struct taut_feed_host host = { .cores = 1 };
	struct taut_feed_job job = { .set = &two, .batch = 1, .n_workers = 2,
		.prepare_ns_byte = 1, .epochs = 1, .depth = 2, .step_ns = 500 };

	(void)state;
	play(&host, &job, 1);
	assert_int_equal(epochs[0].end_ns, 4500);
	assert_int_equal(epochs[0].waited_ns, 2000 + 1500);
	/* The step takes its part: at 2000 it begins, and ends at 3000, when the
	 * preparation has 1500 left. */
	job.step_cores = 1;
	play(&host, &job, 1);
	assert_int_equal(epochs[0].waited_ns, 2000 + 1500);
	assert_int_equal(epochs[0].end_ns, 3000 + 1500 + 500);
	/* One that wants two of one core goes at half speed alone. */
	job.step_cores = 2;
	play(&host, &job, 1);
	/* From 2000 on both at a third: the step until 3500, 1500 left. */
	assert_int_equal(epochs[0].end_ns, 3500 + 1500 + 1000);
}

/* One core is never idle, so that all work together is the time. */
static void test_work_is_conserved(void **state)
{
	struct taut_feed_host host = { .cores = 1 };
	struct taut_feed_job job = plain();
	double work_ns = 3 * 100.0 * MS;

	(void)state;
	job.n_workers = 3;
	job.prepare_ns = 70000;
	job.prepare_spread = 0.5;
	job.step_ns = MS;
	job.step_cores = 1;
	play(&host, &job, 1);
	for (uint64_t k = 0; k < 3000; k++)
		work_ns += 70000 * tauti_feed_draw(tauti_feed_spread(0.5),
			tauti_draw_begin(7, k / 1000, k % 1000));
	/* Ends are whole ns, so a preparation or step costs up to one more. */
	within(epochs[2].end_ns, work_ns - 1, work_ns + 3300);
}

/* Two at work slow each other down to the crowd's speed, whoever they are; alone each is as
 * fast as it is. */
static void expect_of_a_crowd(uint32_t n_workers, double cores, double ns_an_item)
{
	struct taut_feed_host host = { .cores = cores, .crowd = 0.8 };
	struct taut_feed_job job = plain();

	job.n_workers = n_workers;
	job.prepare_ns = 400000;
	play(&host, &job, 1);
	/* Whole ns; and one that is under way at either end. */
	within(took(&epochs[1]), 999 * ns_an_item, 1001 * (ns_an_item + 1));
}

static void test_a_crowd_is_slower(void **state)
{
	(void)state;
	expect_of_a_crowd(1, 2, 400000);
	expect_of_a_crowd(2, 2, 200000 / 0.8);
	expect_of_a_crowd(3, 2, 200000 / 0.8);
	expect_of_a_crowd(2, 3, 200000 / 0.9); /* half way */
	expect_of_a_crowd(3, 3, 400000 / 3 / 0.8);
	expect_of_a_crowd(2, 1, 400000);
	expect_of_a_crowd(2, 0, 200000); /* no limit */
}

/* --- caches ------------------------------------------------------------------------*/

static void test_what_is_kept_is_read_once(void **state)
{
	struct taut_feed_host host = { .rate_bytes_s = MS_AN_ITEM,
		.cache = TAUT_FEED_KEEP, .cache_bytes = 400 * 6400 };
	struct taut_feed_job job = plain();

	(void)state;
	job.prepare_ns = 1000;
	play(&host, &job, 1);
	assert_int_equal(epochs[0].read_bytes, 1000 * 6400);
	for (int i = 1; i < 3; i++) {
		assert_int_equal(epochs[i].read_bytes, 600 * 6400);
		assert_int_equal(epochs[i].hits, 400);
		/* Up to all that is open is read for the next one by its end. */
		within(took(&epochs[i]), (600 - 40) * 1.0 * MS, (600 + 40) * 1.0 * MS);
	}
	within(epochs[2].end_ns, 2200.0 * MS, 2200.0 * MS + 10 * MS);
	/* The slowest of all counts alone. */
	job.prepare_ns = MS;
	play(&host, &job, 1);
	assert_int_equal(epochs[1].hits, 400);
	within(took(&epochs[1]), 1000.0 * MS, 1001.0 * MS);
	job.prepare_ns = 0;
	job.step_ns = 8 * MS;
	play(&host, &job, 1);
	within(took(&epochs[2]), 800.0 * MS, 801.0 * MS);
	/* All of it. */
	host.cache_bytes = 1000 * 6400;
	play(&host, &job, 1);
	assert_int_equal(epochs[1].reads, 0);
	assert_int_equal(epochs[1].hits, 1000);
	assert_int_equal(took(&epochs[2]), 800 * MS);
}

/* DS-Analyzer: an epoch's fetches take D x / C + D (1 - x) / S, one after the other, with C
 * so much above S that the first part is nothing. */
static void test_ds_analyzer(void **state)
{
	for (int x = 0; x <= 9; x++) {
		struct taut_feed_host host = { .rate_bytes_s = MS_AN_ITEM,
			.cache = TAUT_FEED_KEEP,
			.cache_bytes = (uint64_t)x * 100 * 6400 };
		struct taut_feed_job job = plain();
		double bytes = 6400e3, fast = 1000.0 * MS_AN_ITEM;
		double fetch_s = bytes * x / 10 / fast +
			bytes * (10 - x) / 10 / MS_AN_ITEM;

		(void)state;
		job.prepare_ns_byte = 1e9 / fast;
		job.epochs = 11;
		play(&host, &job, 1);
		within((epochs[10].end_ns - epochs[0].end_ns) / 10,
			0.985 * fetch_s * 1e9, 1.015 * fetch_s * 1e9);
	}
}

static void expect_hits_of(enum tauti_lru_kind kind)
{
	struct taut_feed_host host = { .rate_bytes_s = MS_AN_ITEM,
		.cache = kind == TAUTI_LRU_EXACT ? TAUT_FEED_LRU : TAUT_FEED_LINUX,
		.cache_bytes = 600 * 6400 };
	struct taut_feed_job job = plain();
	struct tauti_deal deal = { 1000, 7, true };
	struct tauti_lru lru;

	job.depth = 2;
	job.batch = 2;
	job.epochs = 6;
	play(&host, &job, 1);
	assert_int_equal(tauti_lru_init(&lru, kind, 1000, 600 * 6400, NULL), TAUT_OK);
	for (uint64_t epoch = 0; epoch < 6; epoch++) {
		uint64_t hits = 0;

		for (uint64_t i = 0; i < 1000; i++)
			hits += tauti_lru_touch(&lru,
				(uint32_t)tauti_deal_item(&deal, epoch, i), 6400);
		assert_int_equal(epochs[epoch].hits, hits);
		assert_int_equal(epochs[epoch].reads, 1000 - hits);
		assert_true((epoch == 0) == (hits == 0));
	}
	tauti_lru_fini(&lru);
}

static void test_page_caches_hit_as_alone(void **state)
{
	(void)state;
	expect_hits_of(TAUTI_LRU_EXACT);
	expect_hits_of(TAUTI_LRU_LINUX);
}

/* --- several jobs ------------------------------------------------------------------*/

static void test_a_storage_is_shared(void **state)
{
	static const struct taut_feed_set other = { .n_items = 1000, .mean_bytes = 6400 };
	struct taut_feed_host host = { .rate_bytes_s = MS_AN_ITEM };
	struct taut_feed_job jobs[2] = { plain(), plain() };

	(void)state;
	jobs[1].set = &other;
	jobs[0].depth = jobs[1].depth = 4;
	play(&host, jobs, 2);
	/* The first asks for all 40 places that it has open before the other one does,
	 * and stays as far ahead. */
	assert_int_equal(took(&epochs[0]), (2000 - 40) * MS);
	for (int i = 1; i < 6; i++)
		assert_int_equal(took(&epochs[i]), 2000 * MS);
	/* Alone until the other comes, and then again. */
	jobs[0].epochs = 1;
	jobs[1].epochs = 1;
	jobs[1].start_ns = 500 * MS;
	play(&host, jobs, 2);
	/* 540 are read or asked for when the other comes; 460 are left, in turns of the
	 * 40 that are open, each behind as many of the other's. */
	assert_int_equal(epochs[0].end_ns, (1000 + 12 * 40) * MS);
	assert_int_equal(epochs[1].begin_ns, 500 * MS);
	assert_int_equal(epochs[1].end_ns, 2000 * MS);
}

/* Who comes first reads it, and the others wait for that. */
static void expect_reads_of_one(enum taut_feed_cache cache, uint64_t second_seed)
{
	struct taut_feed_host host = { .rate_bytes_s = MS_AN_ITEM, .cache = cache,
		.cache_bytes = 1000 * 6400 };
	struct taut_feed_job jobs[2] = { plain(), plain() };

	jobs[1].seed = second_seed;
	play(&host, jobs, 2);
	assert_int_equal(epochs[0].reads + epochs[3].reads, 1000);
	assert_int_equal(epochs[0].hits + epochs[3].hits, 1000);
	assert_int_equal(epochs[1].reads + epochs[2].reads, 0);
	assert_int_equal(epochs[4].hits, 1000);
	within(epochs[5].end_ns, 1000.0 * MS, 1001.0 * MS);
}

static void test_a_cache_is_shared(void **state)
{
	(void)state;
	expect_reads_of_one(TAUT_FEED_KEEP, 7);
	expect_reads_of_one(TAUT_FEED_KEEP, 8);
	expect_reads_of_one(TAUT_FEED_LRU, 7);
	expect_reads_of_one(TAUT_FEED_LINUX, 8);
}

/* Ranks of one job have an epoch between them. */
static void test_ranks(void **state)
{
	struct taut_feed_host host = { .rate_bytes_s = MS_AN_ITEM,
		.cache = TAUT_FEED_KEEP, .cache_bytes = 500 * 6400 };
	struct taut_feed_job jobs[3] = { plain(), plain(), plain() };

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		jobs[i].n_ranks = 3;
		jobs[i].rank = i;
	}
	play(&host, jobs, 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(epochs[i].prepared + epochs[i + 3].prepared +
			epochs[i + 6].prepared, 1000);
		assert_int_equal(epochs[i].hits + epochs[i + 3].hits +
			epochs[i + 6].hits, i ? 500 : 0);
	}
}

/* --- any ---------------------------------------------------------------------------*/

static struct taut_feed_job any_job(struct tauti_draw *draw,
	const struct taut_feed_set *set, uint64_t n_epochs)
{
	return (struct taut_feed_job){
		.set = set,
		.batch = 1 + (uint32_t)tauti_draw_below(draw, 9),
		.n_ranks = 2,
		.rank = (uint32_t)tauti_draw_below(draw, 2),
		.seed = tauti_draw_u64(draw),
		.shuffle = tauti_draw_below(draw, 4) > 0,
		.tail = (enum taut_load_tail)tauti_draw_below(draw, 3),
		.n_workers = (uint32_t)tauti_draw_below(draw, 4),
		.depth = 1 + (uint32_t)tauti_draw_below(draw, 5),
		.n_reads = 1 + (uint32_t)tauti_draw_below(draw, 9),
		.read_bytes = tauti_draw_below(draw, 2) ? 20000 : 0,
		.prepare_ns = (double)tauti_draw_below(draw, 3) * 40000.5,
		.prepare_ns_byte = (double)tauti_draw_below(draw, 2) * 7,
		.prepare_spread = (double)tauti_draw_below(draw, 3) / 2,
		.step_ns = (int64_t)tauti_draw_below(draw, 3) * 100000,
		.epochs = n_epochs,
		.start_ns = (int64_t)tauti_draw_below(draw, 3) * 1000000,
		.form = (enum taut_feed_form)tauti_draw_below(draw, 3),
		.read_cpu_ns = (double)tauti_draw_below(draw, 2) * 20000.25,
		.take_ns = (int64_t)tauti_draw_below(draw, 2) * 30000,
		.begin_ns = (int64_t)tauti_draw_below(draw, 2) * 200000,
	};
}

/* Sharing needs the mechanism that is ours, and room for the batches of all ranks. */
static struct taut_feed_job any_sharing(
	struct tauti_draw *draw, const struct taut_feed_set *set, uint64_t n_epochs)
{
	struct taut_feed_job job = any_job(draw, set, n_epochs);

	if (job.form == TAUT_FEED_OURS && tauti_draw_below(draw, 2)) {
		job.share_items = 18 + 4 * tauti_draw_below(draw, 2);
		job.copy_ns = (double)tauti_draw_below(draw, 2) * 5000;
		job.seed = 3;
	}
	return job;
}

static struct taut_feed_host any_host(struct tauti_draw *draw)
{
	static const double cores[] = { 0, 0.7, 1, 2.5 };

	return (struct taut_feed_host){
		.rate_bytes_s = tauti_draw_below(draw, 3) * 77777777,
		.latency_ns = (int64_t)tauti_draw_below(draw, 2) * 123456,
		.n_served = (uint32_t)tauti_draw_below(draw, 4),
		.burst_bytes = tauti_draw_below(draw, 3) * 7000,
		.cores = cores[tauti_draw_below(draw, 4)],
		.cache = (enum taut_feed_cache)tauti_draw_below(draw, 4),
		.cache_bytes = tauti_draw_below(draw, 400000),
		.crowd = tauti_draw_below(draw, 2) ? 0.75 : 0,
	};
}

static void check_sums(const struct taut_feed_job *job, const struct taut_feed_epoch *epoch)
{
	const uint32_t batch = job->batch;
	struct tauti_share share = { job->set->n_items, 0, 2, job->rank, batch,
		(enum tauti_tail)job->tail };
	uint64_t n = tauti_share_items(&share), bytes = 0;

	for (uint64_t i = 0; i < job->set->n_items; i++)
		bytes += job->set->bytes[i];
	for (uint64_t i = 0; i < job->epochs; i++, epoch++) {
		assert_int_equal(epoch->waited_ns, epoch->fetch_ns + epoch->prepare_ns);
		assert_true(epoch->fetch_ns >= 0 && epoch->prepare_ns >= 0);
		assert_int_equal(took(epoch), epoch->waited_ns +
			(int64_t)epoch->batches * job->step_ns);
		assert_int_equal(epoch->batches, tauti_share_batches(&share));
		assert_int_equal(epoch->prepared + epoch->copied, n);
		assert_int_equal(epoch->hits + epoch->reads, epoch->prepared);
		assert_true(epoch->read_bytes <= bytes);
		assert_int_equal(epoch->begin_ns,
			i ? epoch[-1].end_ns : job->start_ns);
	}
}

static void test_sums_of_any(void **state)
{
	struct taut_feed_epoch again[MOST_EPOCHS];
	uint64_t bytes[120];

	(void)state;
	for (uint64_t seed = 0; seed < 2000; seed++) {
		struct tauti_draw draw = tauti_draw_begin(seed, 1, 1);
		struct taut_feed_set sets[2] = { { .n_items = 40, .bytes = bytes },
			{ .n_items = 120, .bytes = bytes } };
		struct taut_feed_host host = any_host(&draw);
		struct taut_feed_job jobs[3];
		struct taut_feed_epoch *at = epochs;

		for (int i = 0; i < 120; i++)
			bytes[i] = tauti_draw_below(&draw, 9000);
		for (int i = 0; i < 3; i++)
			jobs[i] = any_sharing(&draw, &sets[tauti_draw_below(&draw, 2)],
				1 + tauti_draw_below(&draw, 4));
		play(&host, jobs, 3);
		memcpy(again, epochs, sizeof epochs);
		play(&host, jobs, 3);
		assert_memory_equal(again, epochs, sizeof epochs);
		for (int i = 0; i < 3; at += jobs[i++].epochs)
			check_sums(&jobs[i], at);
	}
}

/* The bound that core.h proves, and its condition. */
static void test_the_pipe_is_filled_and_drained_once(void **state)
{
	unsigned n_checked = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 500; seed++) {
		struct tauti_draw draw = tauti_draw_begin(seed, 2, 2);
		struct taut_feed_host host = { .rate_bytes_s = MS_AN_ITEM,
			.latency_ns = (int64_t)tauti_draw_below(&draw, 9) * MS };
		struct taut_feed_job job = plain();
		double f = 1.0 * MS + (double)host.latency_ns, fetch, prepare, step, most, n;

		job.n_reads = 1 + (uint32_t)tauti_draw_below(&draw, 4);
		job.n_workers = 1 + (uint32_t)tauti_draw_below(&draw, 4);
		job.prepare_ns = (double)(1 + tauti_draw_below(&draw, 6)) * MS;
		job.step_ns = (int64_t)tauti_draw_below(&draw, 40) * MS;
		job.depth = 3 + (uint32_t)tauti_draw_below(&draw, 4);
		fetch = 10 * fmax(f / job.n_reads, MS);
		prepare = 10 * job.prepare_ns / job.n_workers;
		step = (double)job.step_ns;
		most = fmax(fetch, fmax(prepare, step));
		n = fetch + prepare + step + f + job.prepare_ns;
		if (job.depth * most < n)
			continue;
		n_checked++;
		play(&host, &job, 1);
		within(epochs[2].end_ns, 300 * most, 300 * most + n + 1);
	}
	assert_true(n_checked > 100);
}

static void test_what_is_drawn(void **state)
{
	static const double variations[] = { 0, 0.1, 0.5, 1 };
	enum { N = 200000 };

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct tauti_feed_spread spread = tauti_feed_spread(variations[i]);
		double sum = 0, squares = 0, mean;

		for (uint64_t k = 0; k < N; k++) {
			double x = tauti_feed_draw(spread, tauti_draw_begin(3, i, k));

			assert_true(x >= 0);
			sum += x;
			squares += x * x;
		}
		mean = sum / N;
		/* Five deviations of the mean; of the variation about as much. */
		assert_true(fabs(mean - 1) <= 5 * variations[i] / sqrt(N) + 1e-12);
		assert_true(fabs(sqrt(fmax(0, squares / N - mean * mean)) -
			variations[i]) <= 0.01 * variations[i] + 1e-6);
	}
}

static void test_drawn_sizes(void **state)
{
	const struct taut_feed_set drawn = { .n_items = 100000, .mean_bytes = 110000,
		.spread = 0.5, .seed = 3 };
	struct taut_feed_host host = { .cores = 0 };
	struct taut_feed_job job = { .set = &drawn, .batch = 100, .epochs = 2 };

	(void)state;
	play(&host, &job, 1);
	within((int64_t)epochs[0].read_bytes, 1.1e10 * 0.992, 1.1e10 * 1.008);
	assert_int_equal(epochs[0].read_bytes, epochs[1].read_bytes);
	assert_int_not_equal(epochs[0].read_bytes, 11000000000);
}

/* --- faults ------------------------------------------------------------------------*/

static void refuse(const struct taut_feed_host *host, const struct taut_feed_job *job,
	const char *line)
{
	struct taut_error err = { .offset = -1 };

	assert_int_equal(taut_feed_play(host, job, 1, epochs, 3, &err), TAUT_EINVAL);
	assert_string_equal(err.message, line);
}

static void refuse_size(const struct taut_feed_host *host,
	const struct taut_feed_job *job, const char *what, size_t expected)
{
	char line[100];

	snprintf(line, sizeof line, "feed: %s of 3 bytes, expected 0 or %zu", what,
		expected);
	refuse(host, job, line);
}

static void test_bad_hosts(void **state)
{
	const struct taut_feed_host good = { .size = sizeof good };
	struct taut_feed_job job = plain();
	struct taut_feed_host host = good;

	(void)state;
	host.size = 3;
	refuse_size(&host, &job, "a host", sizeof host);
	host = good;
	host.latency_ns = -1;
	refuse(&host, &job, "feed: latency_ns is -1, expected 0 to 1.1259e+15");
	host = good;
	host.cores = NAN;
	refuse(&host, &job, "feed: cores is nan, expected 0.001 to 65536");
	host = good;
	host.cache = (enum taut_feed_cache)4;
	refuse(&host, &job, "feed: cache is 4, expected 0 to 3");
	host.cache = TAUT_FEED_KEEP;
	host.cache_bytes = UINT64_MAX;
	assert_int_equal(taut_feed_play(&host, &job, 1, epochs, 3, NULL), TAUT_EINVAL);
	host = good;
	host.rate_bytes_s = 1;
	refuse(&host, &job, "feed: the jobs take longer than 52 days");
	host.rate_bytes_s = 0;
	host.cores = 0.001;
	job.prepare_ns = 1e15;
	refuse(&host, &job, "feed: the jobs take longer than 52 days");
}

static void test_bad_jobs(void **state)
{
	const struct taut_feed_host host = { .size = 0 };
	static const uint64_t huge[] = { 1, UINT64_C(1) << 51 };
	struct taut_feed_set set = { .n_items = 2, .bytes = huge };
	struct taut_feed_job job = plain();

	(void)state;
	job.size = 3;
	refuse_size(&host, &job, "a job", sizeof job);
	job = plain();
	job.prepare_spread = 1.5;
	refuse(&host, &job, "feed: prepare_spread is 1.5, expected 0 to 1");
	job = plain();
	job.step_ns = -5;
	refuse(&host, &job, "feed: step_ns is -5, expected 0 to 1.1259e+15");
	job = plain();
	job.epochs = 0;
	refuse(&host, &job, "feed: epochs is 0, expected 1 to 4.29497e+09");
	job.epochs = 4;
	refuse(&host, &job, "feed: room for 3 epochs, expected 4");
	job = plain();
	job.rank = 1;
	refuse(&host, &job, "order: rank 1 of 1, expected one below that");
	job = plain();
	job.set = NULL;
	refuse(&host, &job, "feed: a job without a set");
	job.set = &set;
	refuse(&host, &job,
		"feed: item 1 has 2251799813685248 bytes, expected at most 2^50");
	set.bytes = NULL;
	set.mean_bytes = -1;
	refuse(&host, &job, "feed: mean_bytes is -1, expected 0 to 1.1259e+15");
	set.n_items = 0;
	refuse(&host, &job, "feed: n_items is 0, expected 1 to 2.68435e+08");
	assert_int_equal(taut_feed_play(&host, &job, 0, epochs, 0, NULL), TAUT_EINVAL);
}

static void test_without_memory(void **state)
{
	(void)state;
	for (int cache = TAUT_FEED_NONE; cache <= TAUT_FEED_LINUX; cache++) {
		struct taut_feed_host host = { .cache = (enum taut_feed_cache)cache,
			.cache_bytes = 1 << 20 };
		struct taut_feed_job jobs[2] = { feed_sharing(), plain() };
		taut_status status = TAUT_ENOMEM;
		struct taut_error err;
		long n;

		jobs[1].form = TAUT_FEED_BY_ITEM;
		for (n = 0; status; n++) {
			assert_true(n < 100);
			alloc_fail_after(n);
			status = taut_feed_play(&host, jobs, 2, epochs, 6, &err);
			alloc_fail_never();
			assert_true(status == TAUT_OK ||
				(status == TAUT_ENOMEM && err.code == TAUT_ENOMEM));
		}
		assert_true(n > 5);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bound_by_the_storage),
		cmocka_unit_test(test_bound_by_latency),
		cmocka_unit_test(test_bound_by_bytes_under_way),
		cmocka_unit_test(test_a_burst),
		cmocka_unit_test(test_bound_by_preparation),
		cmocka_unit_test(test_workers_that_idle),
		cmocka_unit_test(test_bound_by_the_job),
		cmocka_unit_test(test_cores_are_shared_evenly),
		cmocka_unit_test(test_work_is_conserved),
		cmocka_unit_test(test_a_crowd_is_slower),
		cmocka_unit_test(test_what_is_kept_is_read_once),
		cmocka_unit_test(test_ds_analyzer),
		cmocka_unit_test(test_page_caches_hit_as_alone),
		cmocka_unit_test(test_a_storage_is_shared),
		cmocka_unit_test(test_a_cache_is_shared),
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_sums_of_any),
		cmocka_unit_test(test_the_pipe_is_filled_and_drained_once),
		cmocka_unit_test(test_what_is_drawn),
		cmocka_unit_test(test_drawn_sizes),
		cmocka_unit_test(test_bad_hosts),
		cmocka_unit_test(test_bad_jobs),
		cmocka_unit_test(test_without_memory),
	};
	return cmocka_run_group_tests_name(
		"a loader on a virtual clock", tests, NULL, NULL);
}

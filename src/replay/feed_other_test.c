/* Other loaders on the virtual clock, what all of them cost their job, and samples that jobs
 * share, where a closed form, or a count, says what must come out. */
#include "feed_by_hand.h"

/* What reading costs is work like any other, of what comes from the storage alone; what
 * taking costs delays each step. */
static void test_reading_and_taking_cost(void **state)
{
	struct taut_feed_host host = { .cores = 1, .cache = TAUT_FEED_KEEP,
		.cache_bytes = 400 * 6400 };

	(void)state;
	for (int form = TAUT_FEED_OURS; form <= TAUT_FEED_BY_ITEM; form++) {
		struct taut_feed_job job = plain();

		job.form = (enum taut_feed_form)form;
		job.n_workers = 2;
		job.prepare_ns = 50000;
		job.read_cpu_ns = 20000;
		job.read_cpu_ns_byte = 1.5;
		job.take_ns = 70000;
		job.step_ns = 100000;
		job.step_cores = 1;
		play(&host, &job, 1);
		/* Ahead of its epoch are at most 40 items. */
		within(took(&epochs[1]), 1000 * 50000.0 + 560 * 29600.0 + 100 * 170000.0 -
			40 * 50000.0, 1000 * 50003.0 + 640 * 29603.0 + 100 * 170003.0);
		host.cores = 0;
		job.n_workers = 100;
		job.depth = 100;
		play(&host, &job, 1);
		assert_true(epochs[1].waited_ns >= 100 * 70000);
		assert_int_equal(took(&epochs[1]), epochs[1].waited_ns + 100 * 100000);
		assert_true(epochs[1].prepare_ns >= 100 * 70000);
		host.cores = 1;
	}
}

/* --- other loaders -------------------------------------------------------------------*/

/* A worker reads, then prepares: nothing overlaps but workers. */
static void test_workers_do_one_thing_at_a_time(void **state)
{
	struct taut_feed_host host = { .latency_ns = 2 * MS };
	struct taut_feed_job job = plain();

	(void)state;
	job.prepare_ns = 1 * MS;
	for (int form = TAUT_FEED_BY_BATCH; form <= TAUT_FEED_BY_ITEM; form++) {
		job.form = (enum taut_feed_form)form;
		job.step_ns = 0;
		for (uint32_t n = 1; n <= 8; n *= 2) {
			job.n_workers = n;
			play(&host, &job, 1);
			/* Batches of the last round are not of all workers. */
			within(took(&epochs[1]), 3000.0 * MS / n,
				3000.0 * MS / n + 30.0 * MS);
		}
		job.step_ns = 20 * MS;
		play(&host, &job, 1);
		/* The first batch is waited for: by item, all work on it. */
		assert_int_equal(took(&epochs[1]), 100 * 20 * MS +
			(form == TAUT_FEED_BY_BATCH ? 30 : 6) * MS);
	}
}

/* Without workers the job does it, and waits for all of it. */
static void test_without_workers(void **state)
{
	struct taut_feed_host host = { .rate_bytes_s = MS_AN_ITEM, .latency_ns = 2 * MS };
	struct taut_feed_job job = plain();

	(void)state;
	job.prepare_ns = 1 * MS;
	job.step_ns = 5 * MS;
	job.n_workers = 0;
	for (int form = TAUT_FEED_BY_BATCH; form <= TAUT_FEED_BY_ITEM; form++) {
		job.form = (enum taut_feed_form)form;
		play(&host, &job, 1);
		for (int i = 0; i < 3; i++) {
			assert_int_equal(took(&epochs[i]), INT64_C(4500) * MS);
			assert_int_equal(epochs[i].fetch_ns, INT64_C(3000) * MS);
			assert_int_equal(epochs[i].prepare_ns, 1000 * MS);
		}
	}
}

/* Each worker has a batch of its own: batch i is there after i / n rounds, and a slow item
 * holds its batch alone, but those behind it wait to be told. */
static void test_by_batch(void **state)
{
	static uint64_t bytes[60];
	static const struct taut_feed_set set = { .n_items = 60, .bytes = bytes };
	struct taut_feed_host host = { .rate_bytes_s = 0 };
	struct taut_feed_job job = { .set = &set, .batch = 10, .n_workers = 3, .epochs = 1,
		.form = TAUT_FEED_BY_BATCH, .prepare_ns_byte = 1, .step_ns = 100 };

	(void)state;
	for (int i = 0; i < 60; i++)
		bytes[i] = 1000;
	/* Three rounds of steps for three batches, then again. */
	play(&host, &job, 1);
	assert_int_equal(epochs[0].end_ns, 20000 + 3 * 100);
	bytes[0] = 6000; /* of batch 0: 3 and 4 are told after it too */
	play(&host, &job, 1);
	assert_int_equal(epochs[0].end_ns, 25000 + 3 * 100);
	bytes[0] = 1000;
	/* One a worker ahead: the next is given when one is taken. */
	job.depth = 3;
	job.step_ns = 15000;
	play(&host, &job, 1);
	assert_int_equal(epochs[0].end_ns, 10000 + 6 * 15000);
	job.depth = 1; /* nothing is made while another is not taken */
	play(&host, &job, 1);
	assert_int_equal(epochs[0].end_ns, 10000 + 6 * 15000);
	job.step_ns = 4000;
	play(&host, &job, 1);
	assert_int_equal(epochs[0].end_ns, 6 * 10000 + 4000);
}

/* A slow item keeps as many as there are workers from being begun, not more. */
static void test_by_item(void **state)
{
	static uint64_t bytes[60];
	static const struct taut_feed_set set = { .n_items = 60, .bytes = bytes };
	struct taut_feed_host host = { .rate_bytes_s = 0 };
	struct taut_feed_job job = { .set = &set, .batch = 10, .n_workers = 3, .epochs = 1,
		.form = TAUT_FEED_BY_ITEM, .prepare_ns_byte = 1, .depth = 2,
		.step_ns = 100 };

	(void)state;
	for (int i = 0; i < 60; i++)
		bytes[i] = 1000;
	play(&host, &job, 1);
	assert_int_equal(epochs[0].end_ns, 20000 + 100);
	/* The other two make one each, and wait until it is done: 57 are left then. */
	bytes[0] = 6000;
	play(&host, &job, 1);
	assert_int_equal(epochs[0].end_ns, 6000 + 19000 + 100);
}

static void test_an_epoch_begins_with_its_workers(void **state)
{
	struct taut_feed_host host = { .rate_bytes_s = 0 };
	struct taut_feed_job job = plain();

	(void)state;
	job.form = TAUT_FEED_BY_BATCH;
	job.n_workers = 2;
	job.prepare_ns = 1 * MS;
	job.step_ns = 7 * MS;
	job.begin_ns = 50 * MS;
	play(&host, &job, 1);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(took(&epochs[i]), (50 + 10 + 100 * 7) * MS);
		assert_int_equal(epochs[i].waited_ns, 60 * MS);
		assert_int_equal(epochs[i].prepare_ns, 60 * MS);
	}
}

/* --- samples that are shared --------------------------------------------------------*/

/* Prepared once between them; who comes first has claimed what it reads ahead, so its workers
 * alone make it, and the others are no slower than one would be. */
static void test_jobs_share_what_they_prepare(void **state)
{
	struct taut_feed_host host = { .cores = 3 };
	struct taut_feed_job jobs[3] = { feed_sharing(), feed_sharing(), feed_sharing() };

	(void)state;
	play(&host, jobs, 3);
	for (int e = 0; e < 3; e++) {
		uint64_t made = 0, copied = 0;

		for (int i = 0; i < 3; i++) {
			made += epochs[3 * i + e].prepared;
			copied += epochs[3 * i + e].copied;
		}
		assert_int_equal(made, 1000);
		assert_int_equal(copied, 2000);
	}
	for (int i = 0; i < 3; i++)
		within(epochs[3 * i + 2].end_ns, 1500.0 * MS, 1.02 * 1500.0 * MS);
	for (int i = 0; i < 3; i++) /* each for itself, beside it */
		jobs[i].share_items = 0;
	play(&host, jobs, 3);
	within(epochs[2].end_ns, 2999.0 * MS, 3010.0 * MS);
	assert_int_equal(epochs[2].copied, 0);
}

/* Another seed, or another cost: not the same samples. */
static void test_others_samples_are_not_shared(void **state)
{
	struct taut_feed_host host = { .cores = 0 };
	struct taut_feed_job jobs[3] = { feed_sharing(), feed_sharing(), feed_sharing() };

	(void)state;
	jobs[1].seed++;
	jobs[2].prepare_ns++;
	play(&host, jobs, 3);
	for (int i = 0; i < 9; i++) {
		assert_int_equal(epochs[i].prepared, 1000);
		assert_int_equal(epochs[i].copied, 0);
	}
}

/* Who is slow is waited for, as far as the ring, for a second at a time; then the others go
 * on, and it makes its own. */
static void test_patience(void **state)
{
	struct taut_feed_host host = { .cores = 0 };
	struct taut_feed_job jobs[2] = { feed_sharing(), feed_sharing() };

	(void)state;
	jobs[1].step_ns = INT64_C(30000) * MS; /* the fast one is through before the second */
	jobs[1].epochs = 1;
	play(&host, jobs, 2);
	assert_int_equal(epochs[0].prepared + epochs[0].copied, 1000);
	assert_int_equal(epochs[2].prepared + epochs[2].copied, 1000);
	within(epochs[2].end_ns, 1490.0 * MS + 1000.0 * MS, 1500.0 * MS + 1000.0 * MS);
	assert_int_equal(epochs[3].prepared + epochs[3].copied, 1000);
	assert_true(epochs[3].prepared > 800);
	assert_true(epochs[3].end_ns < INT64_C(100) * 30000 * MS + 100 * MS);
	/* All that is open, four batches, is come to within a second: it is waited for. */
	jobs[1].step_ns = 200 * MS;
	jobs[0].epochs = 1;
	play(&host, jobs, 2);
	assert_int_equal(epochs[0].prepared + epochs[1].prepared, 1000);
	assert_int_equal(epochs[0].copied + epochs[1].copied, 1000);
	within(epochs[0].end_ns, 85 * 200.0 * MS, 100 * 200.0 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_workers_do_one_thing_at_a_time),
		cmocka_unit_test(test_without_workers),
		cmocka_unit_test(test_by_batch),
		cmocka_unit_test(test_by_item),
		cmocka_unit_test(test_an_epoch_begins_with_its_workers),
		cmocka_unit_test(test_reading_and_taking_cost),
		cmocka_unit_test(test_jobs_share_what_they_prepare),
		cmocka_unit_test(test_others_samples_are_not_shared),
		cmocka_unit_test(test_patience),
	};
	return cmocka_run_group_tests_name(
		"other loaders on a virtual clock", tests, NULL, NULL);
}

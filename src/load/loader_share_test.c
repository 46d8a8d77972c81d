/* Loaders of one process that share what they prepare: who makes what, who waits for whom and
 * for how long, and whose samples are alike. Processes that die: share_kill_test.c. */
#include "load/loader_share_world.h"

#include <pthread.h>

#include "load/loader.h"
#include "tests/support/alloc_fail.h"

static struct share_sums sums;

struct job {
	struct taut_load *load;
	uint32_t epochs, batch;
	struct share_log log;
	pthread_t thread;
};

static uint64_t seed_of_test(void)
{
	return (uint64_t)getpid();
}

static struct taut_load_options alike(uint32_t batch)
{
	return (struct taut_load_options){
		.prepare = &share_prepare,
		.batch = batch,
		.seed = seed_of_test(),
		.shuffle = true,
		.depth = SHARE_DEPTH,
		.max_skipped = UINT64_MAX,
		.share_bytes = 1 << 16,
		.share_patience_ns = 600 * SHARE_SECOND_NS,
	};
}

static void open_job(const struct world *w, struct job *job, struct taut_load_options o)
{
	memset(job, 0, sizeof *job);
	job->epochs = SHARE_EPOCHS;
	job->batch = o.batch;
	job->load = make_loader(w, o);
}

static void *run_job(void *context)
{
	struct job *job = context;

	(void)share_go(job->load, job->epochs, &job->log, &sums, 0, NULL);
	return NULL;
}

static void run_jobs(struct job *jobs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(
			pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]), 0);
	for (uint32_t i = 0; i < n; i++) {
		pthread_join(jobs[i].thread, NULL);
		if (jobs[i].log.wrong)
			fail_msg("job %u: %u wrong: %s", i, jobs[i].log.wrong,
				jobs[i].log.line);
	}
}

static void close_jobs(struct job *jobs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		taut_load_destroy(jobs[i].load);
}

/* Each item once in each epoch, over the ranks of a job. */
static void check_seen(const struct job *jobs, uint32_t n, uint32_t epochs)
{
	for (uint32_t e = 0; e < epochs; e++)
		for (uint32_t item = 0; item < SHARE_ITEMS; item++) {
			uint32_t seen = 0;

			for (uint32_t i = 0; i < n; i++)
				seen += jobs[i].log.seen[e][item];
			assert_int_equal(seen, 1);
		}
}

struct totals {
	uint64_t made, copied, alone, detached, reads;
};

static struct totals settle_all(struct job *jobs, uint32_t n)
{
	struct totals all = { 0 };

	for (uint32_t i = 0; i < n; i++) {
		struct taut_load_counts c;

		assert_true(share_settle(jobs[i].load,
			(uint64_t)jobs[i].epochs * SHARE_ITEMS +
				(uint64_t)SHARE_DEPTH * jobs[i].batch, &c));
		all.made += c.share_made;
		all.copied += c.share_copied;
		all.alone += c.share_alone;
		all.detached += c.share_detached;
		all.reads += c.reads;
	}
	return all;
}

/* Three jobs with batches and workers of their own read and prepare each item once. */
static void test_each_item_is_made_once(void **state)
{
	const uint32_t batches[] = { 4, 7, 10 };
	struct job jobs[3];
	struct totals all;
	struct world w;
	uint64_t ahead = SHARE_DEPTH * 10; /* of the one that is ahead most */

	(void)state;
	world_init(&w, SHARE_ITEMS, NULL);
	share_reference(&w, seed_of_test(), &sums);
	for (uint32_t i = 0; i < 3; i++) {
		struct taut_load_options o = alike(batches[i]);

		o.n_workers = i + 1;
		o.n_reads = 1 + 5 * i;
		open_job(&w, &jobs[i], o);
	}
	run_jobs(jobs, 3);
	for (uint32_t i = 0; i < 3; i++)
		check_seen(&jobs[i], 1, SHARE_EPOCHS);
	all = settle_all(jobs, 3);
	assert_int_equal(all.made, SHARE_EPOCHS * SHARE_ITEMS + ahead);
	assert_int_equal(all.reads, all.made);
	assert_int_equal(all.copied, 2 * SHARE_EPOCHS * SHARE_ITEMS + SHARE_DEPTH * 11);
	assert_int_equal(all.alone, 0);
	assert_int_equal(all.detached, 0);
	close_jobs(jobs, 3);
	world_fini(&w);
}

/* With a cache of raw items under it, which is found without a claim as well. */
static void test_with_a_cache(void **state)
{
	struct job jobs[2];
	struct totals all;
	struct world w;

	(void)state;
	world_init(&w, SHARE_ITEMS, NULL);
	share_reference(&w, seed_of_test(), &sums);
	for (uint32_t i = 0; i < 2; i++) {
		struct taut_load_options o = alike(5 + i);

		o.cache_bytes = 1 << 20;
		o.cache_name = seed_of_test();
		o.n_reads = 1;
		open_job(&w, &jobs[i], o);
	}
	run_jobs(jobs, 2);
	all = settle_all(jobs, 2);
	assert_int_equal(all.reads, SHARE_ITEMS);
	assert_int_equal(all.made, SHARE_EPOCHS * SHARE_ITEMS + SHARE_DEPTH * 6);
	assert_int_equal(all.alone, 0);
	for (uint32_t i = 0; i < 2; i++) {
		struct taut_load_counts c;

		check_seen(&jobs[i], 1, SHARE_EPOCHS);
		taut_load_counts(jobs[i].load, &c); /* copies are no hits */
		assert_int_equal(c.hits + c.reads, c.share_made);
	}
	close_jobs(jobs, 2);
	world_fini(&w);
}

/* One job of two ranks, and one of a single rank. Positions are global. */
static void test_ranks(void **state)
{
	struct job jobs[3];
	struct world w;
	struct taut_load_counts c;
	uint64_t made = 0, alone = 0;

	(void)state;
	world_init(&w, SHARE_ITEMS, NULL);
	share_reference(&w, seed_of_test(), &sums);
	for (uint32_t i = 0; i < 3; i++) {
		struct taut_load_options o = alike(i < 2 ? 4 : 6);

		o.n_ranks = i < 2 ? 2 : 1;
		o.rank = i < 2 ? i : 0;
		open_job(&w, &jobs[i], o);
	}
	run_jobs(jobs, 3);
	check_seen(jobs, 2, SHARE_EPOCHS);
	check_seen(jobs + 2, 1, SHARE_EPOCHS);
	for (uint32_t i = 0; i < 3; i++) {
		taut_load_counts(jobs[i].load, &c);
		made += c.share_made;
		alone += c.share_alone;
	}
	/* At most what is made ahead comes on top. */
	assert_in_range(made, SHARE_EPOCHS * SHARE_ITEMS,
		SHARE_EPOCHS * SHARE_ITEMS + SHARE_DEPTH * 8);
	assert_int_equal(alone, 0);
	close_jobs(jobs, 3);
	world_fini(&w);
}

/* What PAD repeats stands before what the ring has; and a ring of one batch is enough. */
static void test_padding_and_a_small_ring(void **state)
{
	struct job jobs[2];
	struct taut_load_counts c;
	struct world w;

	(void)state;
	world_init(&w, SHARE_ITEMS, NULL);
	share_reference(&w, seed_of_test(), &sums);
	for (uint32_t i = 0; i < 2; i++) {
		struct taut_load_options o = alike(6);

		o.n_ranks = 4;
		o.rank = 2 + i;
		o.tail = TAUT_LOAD_PAD;
		o.share_bytes = tauti_stage_bytes(24, ITEM_BYTES);
		open_job(&w, &jobs[i], o);
		assert_int_equal(jobs[i].load->common->stage.n_places, 24);
	}
	run_jobs(jobs, 2);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(jobs[i].log.batches, SHARE_EPOCHS * 4);
		taut_load_counts(jobs[i].load, &c);
		assert_int_equal(c.share_alone, SHARE_EPOCHS); /* one of each is repeated */
	}
	close_jobs(jobs, 2);
	world_fini(&w);
}

/* Who stands still is waited for until patience is over, and has its samples all the same. */
static void test_patience(void **state)
{
	struct taut_load_options o = alike(6);
	struct job jobs[2];
	struct taut_load_counts c;
	struct world w;

	(void)state;
	world_init(&w, SHARE_ITEMS, NULL);
	share_reference(&w, seed_of_test(), &sums);
	o.share_bytes = tauti_stage_bytes(30, ITEM_BYTES);
	o.share_patience_ns = 30000000;
	open_job(&w, &jobs[0], o);
	open_job(&w, &jobs[1], o);
	run_jobs(jobs, 1);
	check_seen(jobs, 1, SHARE_EPOCHS);
	taut_load_counts(jobs[0].load, &c);
	assert_in_range(c.share_detached, 1, 2);
	run_jobs(jobs + 1, 1);
	check_seen(jobs + 1, 1, SHARE_EPOCHS);
	taut_load_counts(jobs[1].load, &c);
	assert_true(c.share_alone >= SHARE_ITEMS);
	close_jobs(jobs, 2);
	world_fini(&w);
}

/* Claims by hand of somebody who lives and makes nothing: what is his is made alone. */
static void test_who_makes_nothing(void **state)
{
	struct taut_load_options o = alike(6);
	struct job jobs[2];
	struct taut_load_counts c;
	struct world w;
	struct tauti_stage *idle;
	uint32_t claimed = 0;

	(void)state;
	world_init(&w, SHARE_ITEMS, NULL);
	share_reference(&w, seed_of_test(), &sums);
	o.share_patience_ns = 20000000;
	open_job(&w, &jobs[0], o);
	assert_true(share_settle(jobs[0].load, 18, &c));
	idle = &jobs[0].load->common->stage;
	for (uint64_t p = 40; p < 50; p++)
		claimed += tauti_stage_look(idle, p) == TAUTI_STAGE_MINE;
	assert_int_equal(claimed, 10);
	open_job(&w, &jobs[1], o);
	run_jobs(jobs + 1, 1);
	check_seen(jobs + 1, 1, SHARE_EPOCHS);
	taut_load_counts(jobs[1].load, &c);
	assert_int_equal(c.share_alone, claimed);
	close_jobs(jobs, 2);
	world_fini(&w);
}

/* What a loader has claimed it gives back when it goes elsewhere, and at its end by a fault:
 * nobody's patience lasts that long. */
static void test_claims_are_given_back(void **state)
{
	struct taut_load_options o = alike(6), strict;
	const uint64_t most[] = { 0, 1, 2 };
	const taut_status expected[] = { TAUT_EFORMAT, TAUT_EIO, TAUT_OK };
	taut_status status;
	uint32_t broken[2];
	char path[128];
	struct tauti_deal deal = { SHARE_ITEMS, seed_of_test(), true };
	struct job jobs[2];
	struct taut_batch *batch;
	struct world w;

	(void)state;
	/* The first is broken, in the order of the first epoch; one of the second batch is
	 * not there. */
	broken[0] = (uint32_t)tauti_deal_item(&deal, 0, 0);
	broken[1] = TAUT_NONE;
	world_init(&w, SHARE_ITEMS, broken);
	item_path(&w, (uint32_t)tauti_deal_item(&deal, 0, 7), path, sizeof path);
	assert_int_equal(unlink(path), 0);
	for (uint32_t round = 0; round < 20; round++) {
		strict = o;
		strict.max_skipped = most[round / 2 % 3];
		strict.n_reads = 2;
		strict.n_workers = 1 + round % 3;
		open_job(&w, &jobs[0], strict);
		if (strict.max_skipped)
			taut_batch_release(next_batch(jobs[0].load));
		status = taut_load_next(jobs[0].load, -1, &batch, NULL);
		assert_int_equal(status, expected[round / 2 % 3]);
		if (status == TAUT_OK) /* it goes on, without the two */
			taut_batch_release(batch);
		if (round % 2)
			assert_int_equal(taut_load_seek(jobs[0].load, 50, NULL), TAUT_OK);
		open_job(&w, &jobs[1], o);
		jobs[1].epochs = 1;
		for (uint32_t n = 0; n < SHARE_ITEMS / 6; n++) {
			assert_int_equal(taut_load_next(jobs[1].load,
				20 * SHARE_SECOND_NS, &batch, NULL), TAUT_OK);
			assert_int_equal(batch->count, n > 1 ? 6 : 5);
			taut_batch_release(batch);
		}
		close_jobs(jobs, 2);
	}
	world_fini(&w);
}

/* Forth and back while another goes on; so far that positions have no number. */
static void test_seek(void **state)
{
	const uint64_t far[] = { 1000, (UINT64_C(1) << 36) / SHARE_ITEMS - 1,
		UINT64_MAX / SHARE_ITEMS, UINT64_MAX / 2 };
	struct taut_load_options o = alike(6), slow = o;
	struct taut_batch *batch;
	struct job jobs[2];
	struct world w;

	(void)state;
	world_init(&w, SHARE_ITEMS, NULL);
	share_reference(&w, seed_of_test(), &sums);
	slow.store = "slow"; /* what it reads when it leaves is never prepared */
	slow.slow_ns = 3000000;
	slow.share_patience_ns = 10000000;
	for (uint32_t round = 0; round < 20; round++) {
		open_job(&w, &jobs[0], slow);
		open_job(&w, &jobs[1], o);
		assert_int_equal(taut_load_seek(jobs[0].load, 1000, NULL), TAUT_OK);
		assert_int_equal(taut_load_seek(jobs[0].load, far[round % 4], NULL),
			TAUT_OK);
		run_jobs(jobs + 1, 1);
		check_seen(jobs + 1, 1, SHARE_EPOCHS);
		assert_int_equal(taut_load_next(jobs[0].load, 60 * SHARE_SECOND_NS,
			&batch, NULL), TAUT_OK);
		assert_true(batch->epoch == far[round % 4] && batch->count == 6);
		taut_batch_release(batch);
		assert_int_equal(taut_load_seek(jobs[0].load, 2, NULL), TAUT_OK);
		jobs[0].epochs = SHARE_EPOCHS - 2;
		run_jobs(jobs, 1);
		close_jobs(jobs, 2);
	}
	world_fini(&w);
}

/* A worker that stands still in the middle of a copy. */
struct standstill {
	struct taut_load *load;
	_Atomic bool is_on, is_there;
};

static struct standstill still;

static void pause_copy(void *context)
{
	(void)context;
	/* Who has the lock is not copying. */
	if (!still.is_on || pthread_mutex_trylock(&still.load->lock))
		return;
	pthread_mutex_unlock(&still.load->lock);
	still.is_there = true;
	while (still.is_on)
		usleep(100);
}

/* What is overwritten while it is copied is made anew, and nobody sees what was torn. */
static void test_overwritten(void **state)
{
	struct taut_load_options o = alike(6);
	struct taut_batch *batch;
	struct taut_load_counts c;
	struct job jobs[2];
	struct world w;

	(void)state;
	world_init(&w, SHARE_ITEMS, NULL);
	share_reference(&w, seed_of_test(), &sums);
	o.share_bytes = tauti_stage_bytes(30, ITEM_BYTES);
	o.share_patience_ns = 30000000;
	open_job(&w, &jobs[0], o);
	o.n_workers = 1;
	open_job(&w, &jobs[1], o);
	/* The first is a batch ahead, of what both have made. */
	batch = next_batch(jobs[0].load);
	share_note(&jobs[0].log, batch, &sums);
	taut_batch_release(batch);
	assert_true(share_settle(jobs[0].load, 24, &c));
	assert_true(share_settle(jobs[1].load, 18, &c));
	still.load = jobs[1].load;
	still.is_on = true;
	pthread_mutex_lock(&jobs[1].load->lock);
	jobs[1].load->common->stage.between = pause_copy;
	pthread_mutex_unlock(&jobs[1].load->lock);
	batch = next_batch(jobs[1].load);
	share_note(&jobs[1].log, batch, &sums);
	taut_batch_release(batch);
	while (!still.is_there)
		usleep(100);
	run_jobs(jobs, 1);
	check_seen(jobs, 1, SHARE_EPOCHS);
	still.is_on = false;
	run_jobs(jobs + 1, 1);
	check_seen(jobs + 1, 1, SHARE_EPOCHS);
	assert_in_range(jobs[1].load->common->stage.shared->counts.torn, 1, 6);
	close_jobs(jobs, 2);
	world_fini(&w);
}

/* --- whose samples are alike ---------------------------------------------------------*/
static uint64_t inode_of(const struct world *w, struct taut_load_options o,
	const struct taut_prepare_options *p)
{
	struct taut_load *load;
	uint64_t inode;

	o.prepare = p;
	o.share_bytes = 4 << 20;
	load = make_loader(w, o);
	inode = tauti_pool_inode(load->common->pool);
	taut_load_destroy(load);
	return inode;
}

/* Zero and what it stands for are one. */
static void test_alike(void **state)
{
	struct taut_load_options o = alike(6);
	struct taut_prepare_options p = share_prepare;
	struct taut_load *load;
	struct world w;
	uint64_t inode;

	(void)state;
	world_init(&w, SHARE_ITEMS, NULL);
	o.share_bytes = 4 << 20;
	load = make_loader(&w, o);
	inode = tauti_pool_inode(load->common->pool);
	p.raw_height = p.raw_width = SIDE;
	p.least_area = 0.08;
	p.most_ratio = 4.0 / 3;
	p.deviation[2] = 1;
	p.most_pixels = 178956970;
	assert_int_equal(inode_of(&w, o, &p), inode);
	o.n_ranks = 3;
	o.rank = 1;
	o.batch = 17;
	o.n_workers = 1;
	assert_int_equal(inode_of(&w, o, &share_prepare), inode);
	o.seed++;
	assert_int_not_equal(inode_of(&w, o, &share_prepare), inode);
	o.seed--;
	o.shuffle = false;
	assert_int_not_equal(inode_of(&w, o, &share_prepare), inode);
	taut_load_destroy(load);
	world_fini(&w);
}

/* Each field of the options makes other samples. */
static void test_every_field_matters(void **state)
{
	struct taut_prepare_options p[29];
	struct taut_load_options o = alike(6);
	struct taut_load *load;
	struct world w;
	uint64_t inode;
	uint32_t n = sizeof p / sizeof *p;

	(void)state;
	world_init(&w, SHARE_ITEMS, NULL);
	for (uint32_t i = 0; i < n; i++)
		p[i] = share_prepare;
	p[0].format = NULL;
	p[1].raw_height = 8;
	p[2].raw_width = 8;
	p[3].height = 8;
	p[4].width = 8;
	p[5].crop = TAUT_CROP_CENTRE;
	p[6].filter = TAUT_FILTER_NEAREST;
	p[7].least_area = 0.5;
	p[8].most_area = 0.75;
	p[9].least_ratio = 0.5;
	p[10].most_ratio = 2;
	p[11].short_side = 8;
	p[12].flip = 0.25;
	p[13].brightness = 0.1;
	p[14].contrast = 0.1;
	p[15].saturation = 0.1;
	p[16].hue = 0.1;
	p[17].type = TAUT_PIXEL_F32;
	p[18].layout = TAUT_LAYOUT_CHW;
	p[19].scale_in_decoder = true;
	p[20].orient = true;
	p[21].strict = true;
	p[22].most_pixels = 1000;
	for (uint32_t i = 0; i < 3; i++) {
		p[23 + i].type = p[26 + i].type = TAUT_PIXEL_F32;
		p[23 + i].mean[i] = 0.5f;
		p[26 + i].deviation[i] = 0.5f;
	}
	for (uint32_t i = 0; i < n; i++) {
		o.prepare = i < 23 ? &share_prepare : &p[17];
		o.share_bytes = 4 << 20;
		load = make_loader(&w, o);
		inode = tauti_pool_inode(load->common->pool);
		if (inode_of(&w, o, &p[i]) == inode)
			fail_msg("field %u makes no difference", i);
		taut_load_destroy(load);
	}
	world_fini(&w);
}

/* --- refused -------------------------------------------------------------------------*/
static void expect_refusal(const struct world *w, const struct taut_load_options *o,
	taut_status status, const char *words)
{
	struct taut_load *load = NULL;
	struct taut_error err = { .offset = -1 };

	assert_int_equal(taut_load_create(w->set, o, &load, &err), status);
	assert_null(load);
	if (!strstr(err.message, words))
		fail_msg("%s", err.message);
}

static void test_refused(void **state)
{
	struct taut_load_options o = alike(6), other = o;
	struct taut_load *load;
	struct world w;

	(void)state;
	world_init(&w, SHARE_ITEMS, NULL);
	load = make_loader(&w, o);
	other.share_bytes *= 2;
	expect_refusal(&w, &other, TAUT_EMATCH, "");
	taut_load_destroy(load);
	load = make_loader(&w, other); /* it is gone with its last */
	taut_load_destroy(load);
	other.n_ranks = 4;
	other.share_bytes = tauti_stage_bytes(24, ITEM_BYTES) - 1;
	expect_refusal(&w, &other, TAUT_EINVAL,
		"room for 23 samples, expected a batch of all ranks, which is 24");
	other.share_bytes = 1;
	expect_refusal(&w, &other, TAUT_EINVAL, "room for 0 samples");
	other.share_bytes = UINT64_MAX / 2;
	expect_refusal(&w, &other, TAUT_EINVAL, "pool");
	o.share_patience_ns = -1;
	expect_refusal(&w, &o, TAUT_EINVAL, "share_patience_ns");
	world_fini(&w);
}

static void test_memory(void **state)
{
	struct taut_load_options o = alike(2);
	taut_status status = TAUT_ENOMEM;
	struct world w;

	(void)state;
	world_init(&w, 10, NULL);
	o.n_workers = 1;
	for (long n = 0; status != TAUT_OK; n++) {
		struct taut_load *load = NULL;
		struct taut_error err;

		alloc_fail_after(n);
		status = taut_load_create(w.set, &o, &load, &err);
		alloc_fail_never();
		if (status == TAUT_OK)
			taut_load_destroy(load);
		else
			assert_true(status == TAUT_ENOMEM || status == TAUT_EIO);
		assert_true(n < 1000);
	}
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_item_is_made_once),
		cmocka_unit_test(test_with_a_cache),
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_padding_and_a_small_ring),
		cmocka_unit_test(test_patience),
		cmocka_unit_test(test_who_makes_nothing),
		cmocka_unit_test(test_claims_are_given_back),
		cmocka_unit_test(test_seek),
		cmocka_unit_test(test_overwritten),
		cmocka_unit_test(test_alike),
		cmocka_unit_test(test_every_field_matters),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

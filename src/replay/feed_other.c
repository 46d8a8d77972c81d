/* feed_other.c - how other loaders decide what is read and prepared next: PyTorch's
 * DataLoader, by batch, and tf.data's map, by item. See enum taut_feed_form.
 *
 * All is counted from the beginning of the epoch. A batch is open when it may be begun; its
 * place in `left` is its number modulo depth, for which none is used twice: what is told is
 * taken before depth more are opened. */
#include "feed.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

enum { MOST_WORKERS = 65536, MOST_DEPTH = 1 << 20 };

struct worker {
	uint64_t batch;  /* by batch: that it makes, or makes next */
	uint64_t number; /* by item: of its item */
	uint64_t item;
	uint32_t place;
	bool is_busy, is_waiting; /* waiting: for what another job reads */
};

struct tauti_feed_other {
	struct tauti_feed_job *job;
	const struct tauti_supply_engine *engine;
	uint64_t epoch, n_batches;
	uint64_t allowed, opened, told; /* batches */
	uint32_t *left;  /* of each open batch: places that are not prepared */
	uint32_t depth, n_workers;
	bool is_inline;
	struct worker *workers;
	/* By item. */
	uint64_t next_batch, n_begun, n_done; /* done: and all before */
	uint32_t next_place;
	bool *is_done;   /* by number modulo n_workers */
};

/* --- what is next ------------------------------------------------------------------*/

static void tell(struct tauti_feed_other *other)
{
	while (other->told < other->opened && !other->left[other->told % other->depth]) {
		other->told++;
		other->engine->ready(other->job, NULL);
	}
}

static void open_batches(struct tauti_feed_other *other)
{
	while (other->opened < other->n_batches && other->opened < other->allowed) {
		other->left[other->opened % other->depth] =
			tauti_share_count(&other->job->share, other->opened);
		other->opened++;
	}
}

static void begin_item(struct tauti_feed_other *other, uint32_t w)
{
	struct worker *worker = &other->workers[w];
	bool keep;

	worker->is_waiting = false;
	switch (other->engine->look(
		other->job, w, worker->item, UINT64_MAX, true, &keep)) {
	case TAUTI_LOOK_HERE:
		other->engine->prepare(
			other->job, w, worker->item, other->epoch, 0, 0);
		return;
	case TAUTI_LOOK_MISSING:
		other->job->n_reading++;
		other->engine->fetch(other->job, w, worker->item, keep);
		return;
	case TAUTI_LOOK_COMING:
		other->job->n_reading++;
		worker->is_waiting = true;
	}
}

static void begin_place(
	struct tauti_feed_other *other, uint32_t w, uint64_t batch, uint32_t place)
{
	const struct tauti_feed_job *job = other->job;
	uint64_t position = tauti_share_position(&job->share, batch, place);

	other->workers[w].is_busy = true;
	other->workers[w].item = tauti_deal_item(&job->deal, other->epoch, position);
	begin_item(other, w);
}

static void go_by_batch(struct tauti_feed_other *other, uint32_t w)
{
	struct worker *worker = &other->workers[w];

	while (worker->batch < other->opened) {
		uint32_t count = tauti_share_count(&other->job->share, worker->batch);

		if (worker->place < count) {
			begin_place(other, w, worker->batch, worker->place++);
			return;
		}
		worker->batch += other->n_workers;
		worker->place = 0;
	}
}

static void go_by_item(struct tauti_feed_other *other, uint32_t w)
{
	const struct tauti_share *share = &other->job->share;

	while (other->next_batch < other->opened &&
		other->next_place >= tauti_share_count(share, other->next_batch)) {
		other->next_batch++;
		other->next_place = 0;
	}
	if (other->next_batch >= other->opened ||
		other->n_begun - other->n_done >= other->n_workers)
		return;
	other->workers[w].number = other->n_begun++;
	other->workers[w].batch = other->next_batch;
	begin_place(other, w, other->next_batch, other->next_place++);
}

static void go(struct tauti_feed_other *other)
{
	bool is_by_item = other->job->is.form == TAUT_FEED_BY_ITEM;

	open_batches(other);
	for (uint32_t w = 0; w < other->n_workers; w++)
		if (other->workers[w].is_busy)
			continue;
		else if (is_by_item)
			go_by_item(other, w);
		else
			go_by_batch(other, w);
	tell(other);
}

/* --- what happened -----------------------------------------------------------------*/

void tauti_feed_other_begin(struct tauti_feed_other *other, uint64_t epoch)
{
	other->epoch = epoch;
	other->allowed = other->is_inline ? 0 : other->depth;
	other->opened = other->told = other->next_batch = 0;
	other->next_place = 0;
	for (uint32_t w = 0; w < other->n_workers; w++) {
		other->workers[w].batch = w;
		other->workers[w].place = 0;
	}
	go(other);
}

void tauti_feed_other_wants(struct tauti_feed_other *other)
{
	if (!other->is_inline)
		return;
	other->allowed++;
	go(other);
}

void tauti_feed_other_took(struct tauti_feed_other *other)
{
	if (other->is_inline)
		return;
	other->allowed++;
	go(other);
}

void tauti_feed_other_fetched(struct tauti_feed_other *other, uint32_t worker)
{
	other->job->n_reading--;
	other->engine->prepare(other->job, worker, other->workers[worker].item,
		other->epoch, 0, 0);
}

static void note_done(struct tauti_feed_other *other, uint64_t number)
{
	other->is_done[number % other->n_workers] = true;
	while (other->is_done[other->n_done % other->n_workers])
		other->is_done[other->n_done++ % other->n_workers] = false;
}

void tauti_feed_other_prepared(struct tauti_feed_other *other, uint32_t worker)
{
	struct worker *it = &other->workers[worker];

	it->is_busy = false;
	other->left[it->batch % other->depth]--;
	if (other->job->is.form == TAUT_FEED_BY_ITEM)
		note_done(other, it->number);
	go(other);
}

void tauti_feed_other_again(struct tauti_feed_other *other, uint64_t item)
{
	for (uint32_t w = 0; w < other->n_workers; w++) {
		if (!other->workers[w].is_waiting || other->workers[w].item != item)
			continue;
		other->job->n_reading--;
		begin_item(other, w);
	}
}

/* --- life --------------------------------------------------------------------------*/

static taut_status check(const struct tauti_feed_job *job, struct taut_error *reterr)
{
	taut_status status = tauti_share_check(&job->share, reterr);

	if (status)
		return status;
	if (!tauti_share_batches(&job->share))
		return taut_error_set(reterr, TAUT_EINVAL, -1, "feed: %" PRIu64 " items "
			"are no batch of %" PRIu32 " on each of %" PRIu32 " ranks",
			job->share.n_items, job->is.batch, job->is.n_ranks);
	if (job->is.n_workers > MOST_WORKERS || job->is.depth > MOST_DEPTH)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "feed: %" PRIu32
			" workers, %" PRIu32 " batches ahead, expected at most %d and "
			"%d", job->is.n_workers, job->is.depth, MOST_WORKERS,
			MOST_DEPTH);
	return TAUT_OK;
}

taut_status tauti_feed_other_create(struct tauti_feed_job *job,
	const struct tauti_supply_engine *engine, struct tauti_feed_other **ret_other,
	struct taut_error *reterr)
{
	taut_status status = check(job, reterr);
	struct tauti_feed_other *other = NULL;

	if (status)
		return status;
	other = calloc(1, sizeof *other);
	if (!other)
		goto no_memory;
	other->job = job;
	other->engine = engine;
	other->n_batches = tauti_share_batches(&job->share);
	other->depth = job->is.depth;
	other->is_inline = !job->is.n_workers;
	other->n_workers = other->is_inline ? 1 : job->is.n_workers;
	other->left = calloc(other->depth, sizeof *other->left);
	other->workers = calloc(other->n_workers, sizeof *other->workers);
	other->is_done = calloc(other->n_workers, sizeof *other->is_done);
	if (!other->left || !other->workers || !other->is_done)
		goto no_memory;
	*ret_other = other;
	return TAUT_OK;
no_memory:
	tauti_feed_other_destroy(other);
	return taut_error_set(reterr, TAUT_ENOMEM, -1,
		"feed: out of memory for %" PRIu32 " workers", job->is.n_workers);
}

void tauti_feed_other_destroy(struct tauti_feed_other *other)
{
	if (!other)
		return;
	free(other->left);
	free(other->workers);
	free(other->is_done);
	free(other);
}

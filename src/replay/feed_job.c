/* feed_job.c - what the mechanism of a loader asks for, on a virtual clock, and the job
 * that consumes what it makes. */
#include <assert.h>

#include "feed.h"

/* Calls that cannot fail: all that they are given comes from the mechanism itself. */
static void must(taut_status status)
{
	assert(status == TAUT_OK);
	(void)status;
}

/* --- the job -----------------------------------------------------------------------*/

static struct taut_feed_epoch *epoch_of(const struct tauti_feed_job *job, uint64_t batch)
{
	return &job->epochs[batch / job->n_batches];
}

/* Waiting up to now is for reads if nothing is being prepared. */
static void mark(struct tauti_feed_job *job)
{
	int64_t now_ns = job->feed->now_ns, waited_ns = now_ns - job->marked_ns;

	job->marked_ns = now_ns;
	if (!job->is_waiting)
		return;
	epoch_of(job, job->taken)->waited_ns += waited_ns;
	if (job->n_preparing)
		epoch_of(job, job->taken)->prepare_ns += waited_ns;
	else
		epoch_of(job, job->taken)->fetch_ns += waited_ns;
}

static void take(struct tauti_feed_job *job)
{
	struct tauti_feed *feed = job->feed;
	double wants = job->is.step_cores * TAUTI_FEED_CORE;

	mark(job);
	job->is_waiting = false;
	job->taken++;
	must(tauti_supply_took(job->supply, &job->slot, NULL));
	if (wants > 0)
		tauti_feed_work(&feed->cores, feed->now_ns,
			job->first_task + job->n_tickets,
			(double)job->is.step_ns, (uint64_t)wants);
	else
		due_set(&feed->alarms, job->id, feed->now_ns + job->is.step_ns);
}

static void take_or_wait(struct tauti_feed_job *job)
{
	mark(job);
	job->is_waiting = true;
	if (job->told > job->taken)
		take(job);
}

static void end_step(struct tauti_feed_job *job)
{
	struct taut_feed_epoch *epoch = epoch_of(job, job->taken - 1);

	epoch->batches++;
	if (job->taken % job->n_batches == 0)
		epoch->end_ns = job->feed->now_ns;
	must(tauti_supply_release(job->supply, job->slot, NULL));
	if (job->taken == job->n_batches * job->is.epochs) {
		job->feed->n_left--;
		return;
	}
	if (job->taken % job->n_batches == 0)
		epoch[1].begin_ns = job->feed->now_ns;
	take_or_wait(job);
}

/* --- what is asked for -------------------------------------------------------------*/

/* A ticket's row is that of one batch among those that are open: told and on. */
static struct taut_feed_epoch *epoch_of_ticket(
	const struct tauti_feed_job *job, uint32_t ticket)
{
	uint32_t row = ticket / job->is.batch, depth = job->is.depth;
	uint32_t oldest = (uint32_t)(job->told % depth);

	return epoch_of(job, job->told + (row + depth - oldest) % depth);
}

uint64_t tauti_feed_bytes(const struct tauti_feed_job *job, uint64_t item)
{
	const struct taut_feed_set *set = job->is.set;

	if (set->bytes)
		return set->bytes[item];
	return (uint64_t)(set->mean_bytes * tauti_feed_draw(job->bytes,
		tauti_draw_begin(set->seed, UINT64_MAX, item)) + 0.5);
}

static uint64_t item_bytes(void *context, uint64_t item)
{
	return tauti_feed_bytes(context, item);
}

static enum tauti_look look(void *context, uint32_t ticket, uint64_t item,
	uint64_t position, bool claim, bool *ret_keep)
{
	struct tauti_feed_job *job = context;
	struct tauti_feed_cache *cache = &job->feed->cache;
	enum tauti_look found;

	(void)position;
	*ret_keep = false;
	if (cache->kind == TAUT_FEED_NONE)
		return TAUTI_LOOK_MISSING;
	found = tauti_feed_cache_look(cache, job->first_item + (uint32_t)item,
		tauti_feed_bytes(job, item), claim, ret_keep);
	if (found == TAUTI_LOOK_HERE)
		epoch_of_ticket(job, ticket)->hits++;
	return found;
}

static void fetch(void *context, uint32_t ticket, uint64_t item, bool keep)
{
	struct tauti_feed_job *job = context;
	struct taut_feed_epoch *epoch = epoch_of_ticket(job, ticket);
	struct tauti_feed_read read = {
		.job = job,
		.item = item,
		.bytes = tauti_feed_bytes(job, item),
		.ticket = ticket,
		.keep = keep,
	};

	epoch->reads++;
	epoch->read_bytes += read.bytes;
	tauti_feed_ask(&job->feed->store, &read, job->feed->now_ns);
}

static void prepare(void *context, uint32_t ticket, uint64_t item, uint64_t epoch,
	uint32_t slot, uint32_t place)
{
	struct tauti_feed_job *job = context;
	double work_ns = job->is.prepare_ns;

	(void)slot;
	(void)place;
	if (job->is.prepare_ns_byte > 0)
		work_ns += job->is.prepare_ns_byte * (double)tauti_feed_bytes(job, item);
	work_ns *= tauti_feed_draw(
		job->prepare, tauti_draw_begin(job->is.seed, epoch, item));
	mark(job);
	job->n_preparing++;
	tauti_feed_work(&job->feed->cores, job->feed->now_ns, job->first_task + ticket,
		work_ns, TAUTI_FEED_CORE);
}

/* Items have no faults here. */
static void move(void *context, uint32_t slot, uint32_t from, uint32_t to)
{
	(void)context;
	(void)slot;
	(void)from;
	(void)to;
}

static void fault(void *context, const struct tauti_supply_fault *fault)
{
	(void)context;
	(void)fault;
}

static void ready(void *context, const struct tauti_supply_batch *batch)
{
	struct tauti_feed_job *job = context;

	(void)batch;
	job->told++;
	if (job->is_waiting)
		take(job);
}

static const struct tauti_supply_engine engine = {
	.bytes = item_bytes,
	.look = look,
	.fetch = fetch,
	.prepare = prepare,
	.move = move,
	.fault = fault,
	.ready = ready,
};

/* --- what happened -----------------------------------------------------------------*/

static void tell_others(struct tauti_feed *feed, const struct tauti_feed_read *read)
{
	for (uint32_t i = 0; i < feed->n_jobs; i++) {
		struct tauti_feed_job *job = &feed->jobs[i];

		if (job != read->job && job->is.set == read->job->is.set)
			tauti_supply_again(job->supply, read->item);
	}
}

void tauti_feed_came(struct tauti_feed *feed, const struct tauti_feed_read *read)
{
	if (read->keep)
		tauti_feed_cache_came(
			&feed->cache, read->job->first_item + (uint32_t)read->item);
	must(tauti_supply_fetched(read->job->supply, read->ticket, TAUT_OK, NULL));
	if (read->keep)
		tell_others(feed, read);
}

void tauti_feed_worked(struct tauti_feed *feed, uint32_t task)
{
	struct tauti_feed_job *job = &feed->jobs[feed->job_of[task]];
	uint32_t ticket = task - job->first_task;
	bool is_step = ticket == job->n_tickets;

	tauti_feed_work_done(&feed->cores, feed->now_ns, task, is_step ?
		(uint64_t)(job->is.step_cores * TAUTI_FEED_CORE) : TAUTI_FEED_CORE);
	if (is_step) {
		end_step(job);
		return;
	}
	mark(job);
	job->n_preparing--;
	epoch_of_ticket(job, ticket)->prepared++;
	must(tauti_supply_prepared(job->supply, ticket, TAUT_OK, NULL));
}

void tauti_feed_rang(struct tauti_feed_job *job)
{
	due_drop(&job->feed->alarms, job->id);
	if (job->is_begun) {
		end_step(job);
		return;
	}
	job->is_begun = true;
	job->epochs[0].begin_ns = job->feed->now_ns;
	take_or_wait(job);
	tauti_supply_start(job->supply);
}

/* --- life --------------------------------------------------------------------------*/

taut_status tauti_feed_job_open(struct tauti_feed_job *job, struct taut_error *reterr)
{
	const struct taut_feed_job *is = &job->is;
	struct tauti_supply_options options = {
		.deal = { is->set->n_items, is->seed, is->shuffle },
		.share = { is->set->n_items, 0, is->n_ranks, is->rank, is->batch,
			(enum tauti_tail)is->tail },
		.n_epochs = is->epochs,
		.depth = is->depth,
		.n_fetches = is->n_reads,
		.fetch_bytes = is->read_bytes == UINT64_MAX ? 0 : is->read_bytes,
		.n_workers = is->n_workers,
	};
	taut_status status = tauti_supply_create(
		&options, &engine, job, &job->supply, reterr);

	if (status)
		return status;
	job->n_batches = tauti_share_batches(&options.share);
	job->n_tickets = is->depth * is->batch;
	job->bytes = tauti_feed_spread(is->set->spread);
	job->prepare = tauti_feed_spread(is->prepare_spread);
	return TAUT_OK;
}

void tauti_feed_job_close(struct tauti_feed_job *job)
{
	tauti_supply_destroy(job->supply);
}

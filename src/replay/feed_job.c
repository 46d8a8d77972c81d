/* feed_job.c - what the mechanism of a loader asks for, on a virtual clock, and the job
 * that consumes what it makes. */
#include <assert.h>
#include <math.h>

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

/* How much of the job's waiting is for reads: all if nothing is being prepared. Of workers
 * that read or prepare by turns it is the part that reads. */
static double fetch_part(const struct tauti_feed_job *job)
{
	uint32_t n = job->n_reading + job->n_preparing;

	if (job->phase != TAUTI_FEED_WAITING)
		return 0;
	if (job->supply)
		return job->n_preparing ? 0 : 1;
	return n ? (double)job->n_reading / n : 0;
}

/* Accounts for what was waited up to now. */
static void mark(struct tauti_feed_job *job)
{
	int64_t now_ns = job->feed->now_ns, waited_ns = now_ns - job->marked_ns, fetch_ns;
	struct taut_feed_epoch *epoch;

	job->marked_ns = now_ns;
	if (job->phase == TAUTI_FEED_NEW || job->phase == TAUTI_FEED_STEPPING || !waited_ns)
		return;
	epoch = epoch_of(job, job->taken - (job->phase == TAUTI_FEED_TAKING));
	fetch_ns = llround((double)waited_ns * fetch_part(job));
	epoch->waited_ns += waited_ns;
	epoch->fetch_ns += fetch_ns;
	epoch->prepare_ns += waited_ns - fetch_ns;
}

static void step(struct tauti_feed_job *job)
{
	struct tauti_feed *feed = job->feed;
	double wants = job->is.step_cores * TAUTI_FEED_CORE;

	mark(job);
	job->phase = TAUTI_FEED_STEPPING;
	if (wants > 0)
		tauti_feed_work(&feed->cores, feed->now_ns,
			job->first_task + job->n_tickets,
			(double)job->is.step_ns, (uint64_t)wants);
	else
		due_set(&feed->alarms, job->id, feed->now_ns + job->is.step_ns);
	if (job->other)
		tauti_feed_other_took(job->other);
}

static void take(struct tauti_feed_job *job)
{
	mark(job);
	job->phase = TAUTI_FEED_TAKING;
	job->taken++;
	if (job->supply)
		must(tauti_supply_took(job->supply, &job->slot, NULL));
	if (job->is.take_ns)
		tauti_feed_work(&job->feed->cores, job->feed->now_ns,
			job->first_task + job->n_tickets, (double)job->is.take_ns,
			TAUTI_FEED_CORE);
	else
		step(job);
}

static void take_or_wait(struct tauti_feed_job *job)
{
	mark(job);
	job->phase = TAUTI_FEED_WAITING;
	if (job->other)
		tauti_feed_other_wants(job->other);
	if (job->phase == TAUTI_FEED_WAITING && job->told > job->taken)
		take(job);
}

static void begin_epoch(struct tauti_feed_job *job)
{
	mark(job);
	job->phase = TAUTI_FEED_BEGINNING;
	if (job->other && job->is.begin_ns)
		due_set(&job->feed->alarms, job->id,
			job->feed->now_ns + job->is.begin_ns);
	else
		tauti_feed_rang(job);
}

static void end_step(struct tauti_feed_job *job)
{
	struct taut_feed_epoch *epoch = epoch_of(job, job->taken - 1);
	bool is_last = job->taken % job->n_batches == 0;

	mark(job);
	epoch->batches++;
	if (is_last)
		epoch->end_ns = job->feed->now_ns;
	if (job->supply)
		must(tauti_supply_release(job->supply, job->slot, NULL));
	if (job->taken == job->n_batches * job->is.epochs) {
		job->feed->n_left--;
		if (job->sharing)
			tauti_feed_share_leave(job->sharing);
		return;
	}
	if (is_last)
		epoch[1].begin_ns = job->feed->now_ns;
	if (is_last && job->other)
		begin_epoch(job);
	else
		take_or_wait(job);
}

/* --- what is asked for -------------------------------------------------------------*/

/* A ticket's row is that of one batch among those that are open: told and on. */
static struct taut_feed_epoch *epoch_of_ticket(
	const struct tauti_feed_job *job, uint32_t ticket)
{
	uint32_t row = ticket / job->is.batch, depth = job->is.depth;
	uint32_t oldest = (uint32_t)(job->told % depth);

	if (job->other) /* in whose epoch no other is open */
		return epoch_of(job, job->taken - (job->phase == TAUTI_FEED_TAKING ||
			job->phase == TAUTI_FEED_STEPPING));
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
	uint32_t cached = job->first_item + (uint32_t)item;
	enum tauti_look found = TAUTI_LOOK_MISSING;

	*ret_keep = false;
	/* What is not claimed may be promised to others all the same where it is at hand. */
	if (job->sharing)
		found = tauti_feed_share_look(job->sharing, ticket, position,
			claim || tauti_feed_cache_has(cache, cached));
	if (found != TAUTI_LOOK_MISSING || cache->kind == TAUT_FEED_NONE)
		return found;
	found = tauti_feed_cache_look(
		cache, cached, tauti_feed_bytes(job, item), claim, ret_keep);
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

static double work_of(
	const struct tauti_feed_job *job, uint64_t item, double ns, double ns_byte)
{
	return ns_byte > 0 ? ns + ns_byte * (double)tauti_feed_bytes(job, item) : ns;
}

static void prepare(void *context, uint32_t ticket, uint64_t item, uint64_t epoch,
	uint32_t slot, uint32_t place)
{
	struct tauti_feed_job *job = context;
	double work_ns = work_of(
		job, item, job->is.prepare_ns, job->is.prepare_ns_byte);

	(void)slot;
	(void)place;
	work_ns *= tauti_feed_draw(
		job->prepare, tauti_draw_begin(job->is.seed, epoch, item));
	if (job->sharing && tauti_feed_share_is_copy(job->sharing, ticket))
		work_ns = job->is.copy_ns;
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

	if (job->sharing)
		tauti_feed_share_move(job->sharing, batch->next_position);
	job->told++;
	if (job->phase == TAUTI_FEED_WAITING)
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

static void again(struct tauti_feed_job *job, uint64_t item)
{
	if (job->supply)
		tauti_supply_again(job->supply, item);
	else
		tauti_feed_other_again(job->other, item);
}

static void tell_others(struct tauti_feed *feed, const struct tauti_feed_read *read)
{
	for (uint32_t i = 0; i < feed->n_jobs; i++) {
		struct tauti_feed_job *job = &feed->jobs[i];
		bool is_same = job == read->job && job->supply;

		if (!is_same && job->is.set == read->job->is.set)
			again(job, read->item);
	}
}

static void fetched(struct tauti_feed_job *job, uint32_t ticket)
{
	mark(job);
	if (job->supply)
		must(tauti_supply_fetched(job->supply, ticket, TAUT_OK, NULL));
	else
		tauti_feed_other_fetched(job->other, ticket);
}

void tauti_feed_came(struct tauti_feed *feed, const struct tauti_feed_read *read)
{
	struct tauti_feed_job *job = read->job;
	uint32_t task = job->first_task + read->ticket;
	double work_ns = work_of(
		job, read->item, job->is.read_cpu_ns, job->is.read_cpu_ns_byte);

	if (read->keep)
		tauti_feed_cache_came(
			&feed->cache, job->first_item + (uint32_t)read->item);
	if (work_ns > 0) {
		feed->is_read[task] = true;
		tauti_feed_work(&feed->cores, feed->now_ns, task, work_ns,
			TAUTI_FEED_CORE);
	} else {
		fetched(job, read->ticket);
	}
	if (read->keep)
		tell_others(feed, read);
}

static void prepared(struct tauti_feed_job *job, uint32_t ticket)
{
	struct taut_feed_epoch *epoch = epoch_of_ticket(job, ticket);
	taut_status status = TAUT_OK;

	mark(job);
	job->n_preparing--;
	if (job->sharing && tauti_feed_share_is_copy(job->sharing, ticket)) {
		status = tauti_feed_share_made(job->sharing, ticket);
		epoch->copied += status == TAUT_OK;
	} else {
		epoch->prepared++;
		if (job->sharing)
			must(tauti_feed_share_made(job->sharing, ticket));
	}
	if (job->supply)
		must(tauti_supply_prepared(job->supply, ticket, status, NULL));
	else
		tauti_feed_other_prepared(job->other, ticket);
}

void tauti_feed_worked(struct tauti_feed *feed, uint32_t task)
{
	struct tauti_feed_job *job = &feed->jobs[feed->job_of[task]];
	uint32_t ticket = task - job->first_task;
	bool is_step = ticket == job->n_tickets && job->phase == TAUTI_FEED_STEPPING;

	tauti_feed_work_done(&feed->cores, feed->now_ns, task, is_step ?
		(uint64_t)(job->is.step_cores * TAUTI_FEED_CORE) : TAUTI_FEED_CORE);
	if (is_step) {
		end_step(job);
	} else if (ticket == job->n_tickets) {
		step(job);
	} else if (feed->is_read[task]) {
		feed->is_read[task] = false;
		fetched(job, ticket);
	} else if (job->is.idle_ns) {
		due_set(&feed->idle, task, feed->now_ns + job->is.idle_ns);
	} else {
		prepared(job, ticket);
	}
}

void tauti_feed_idled(struct tauti_feed *feed, uint32_t task)
{
	struct tauti_feed_job *job = &feed->jobs[feed->job_of[task]];

	due_drop(&feed->idle, task);
	prepared(job, task - job->first_task);
}

static void begin(struct tauti_feed_job *job)
{
	job->epochs[0].begin_ns = job->feed->now_ns;
	if (job->other) {
		begin_epoch(job);
		return;
	}
	if (job->sharing)
		must(tauti_feed_share_join(job->sharing, NULL));
	take_or_wait(job);
	tauti_supply_start(job->supply);
}

void tauti_feed_rang(struct tauti_feed_job *job)
{
	due_drop(&job->feed->alarms, job->id);
	switch (job->phase) {
	case TAUTI_FEED_NEW:
		begin(job);
		return;
	case TAUTI_FEED_BEGINNING:
		mark(job);
		tauti_feed_other_begin(job->other, job->taken / job->n_batches);
		take_or_wait(job);
		return;
	default:
		end_step(job);
	}
}

/* --- life --------------------------------------------------------------------------*/

static taut_status open_ours(struct tauti_feed_job *job, struct taut_error *reterr)
{
	const struct taut_feed_job *is = &job->is;
	struct tauti_supply_options options = {
		.deal = job->deal,
		.share = job->share,
		.n_epochs = is->epochs,
		.depth = is->depth,
		.n_fetches = is->n_reads,
		.fetch_bytes = is->read_bytes == UINT64_MAX ? 0 : is->read_bytes,
		.n_workers = is->n_workers,
	};

	return tauti_supply_create(&options, &engine, job, &job->supply, reterr);
}

taut_status tauti_feed_job_open(struct tauti_feed_job *job, struct taut_error *reterr)
{
	const struct taut_feed_job *is = &job->is;
	bool is_ours = is->form == TAUT_FEED_OURS;
	taut_status status;

	job->deal = (struct tauti_deal){ .n_items = is->set->n_items, .seed = is->seed,
		.shuffle = is->shuffle };
	job->share = (struct tauti_share){ is->set->n_items, 0, is->n_ranks, is->rank,
		is->batch, (enum tauti_tail)is->tail };
	status = is_ours ? open_ours(job, reterr) :
		tauti_feed_other_create(job, &engine, &job->other, reterr);
	if (status)
		return status;
	job->n_batches = tauti_share_batches(&job->share);
	job->n_tickets = is_ours ? is->depth * is->batch :
		is->n_workers ? is->n_workers : 1;
	job->bytes = tauti_feed_spread(is->set->spread);
	job->prepare = tauti_feed_spread(is->prepare_spread);
	job->feed->is_sharing |= is->share_items > 0;
	return is->share_items ? tauti_feed_share_open(job, reterr) : TAUT_OK;
}

uint32_t tauti_feed_job_reads(const struct tauti_feed_job *job)
{
	return job->supply && job->is.n_reads < job->n_tickets ? job->is.n_reads :
		job->n_tickets;
}

void tauti_feed_job_close(struct tauti_feed_job *job)
{
	tauti_supply_destroy(job->supply);
	tauti_feed_other_destroy(job->other);
	tauti_feed_share_close(job->sharing);
}

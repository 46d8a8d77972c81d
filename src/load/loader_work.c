/* loader_work.c - threads of a loader: those that prepare, and one that waits for what other
 * processes bring. */
#include "load/loader.h"

#include <assert.h>
#include <signal.h>
#include <string.h>

#include "base/now.h"
#include "base/turns.h"

/* An item that somebody else brings is looked for again after so long: the wait is for the
 * first of them alone. */
#define PATIENCE_NS (5 * INT64_C(1000000))

void tauti_load_mark(struct taut_load *load, int64_t now_ns)
{
	if (now_ns <= load->marked_ns) /* it waited for the lock longer than another */
		return;
	if (load->is_waiting && !load->n_busy)
		load->counts.fetch_ns += now_ns - load->marked_ns;
	load->marked_ns = now_ns;
}

/* --- preparation -------------------------------------------------------------------------*/
static taut_status prepare(struct tauti_load_worker *worker,
	const struct tauti_load_ticket *t, struct taut_error *err)
{
	struct taut_load *load = worker->load;
	const struct taut_batch *batch = &load->slots[t->slot].batch;
	struct taut_set_item item = taut_set_at(load->set, t->item);
	void *sample = (char *)batch->data + t->place * batch->sample_bytes;
	int64_t *length = batch->lengths ? &batch->lengths[t->place] : NULL;
	taut_status status;

	batch->labels[t->place] = item.label;
	batch->items[t->place] = t->item;
	if (t->shared == TAUTI_LOAD_COPIED)
		return tauti_load_share_copy(load, t, worker->packed, sample, length);
	tauti_load_name(load, t->item, worker->name, sizeof worker->name);
	status = tauti_maker_make(worker->maker, &(struct tauti_item){
		.bytes = t->bytes,
		.n = item.bytes,
		.name = worker->name,
		.number = t->item,
		.epoch = t->epoch,
		.label = item.label,
		.draw = tauti_draw_begin(load->options.seed, t->epoch, t->item),
	}, sample, length, err);
	if (status == TAUT_OK)
		tauti_load_share_publish(load, t, worker->packed, sample, length);
	return status;
}

/* A batch whose stage has to run, and may. */
static bool has_stage(const struct taut_load *load)
{
	return load->n_to_stage && !load->is_pausing;
}

static bool has_work(const struct taut_load *load)
{
	return load->first_work != TAUT_NONE || has_stage(load) || load->is_closed;
}

/* A ticket, or TAUT_NONE: there is a stage to run, or the loader ends. The lock is held; the
 * worker is busy then. */
static uint32_t next_work(struct taut_load *load, int64_t *now_ns)
{
	uint32_t ticket;

	while (!has_work(load)) {
		int64_t idle_from_ns = *now_ns;

		if (tauti_load_has_reads(load))
			tauti_load_settle(load);
		else
			pthread_cond_wait(&load->work, &load->lock);
		*now_ns = tauti_now_ns();
		load->counts.idle_ns += *now_ns - idle_from_ns;
	}
	if (load->is_closed)
		return TAUT_NONE;
	tauti_load_mark(load, *now_ns);
	load->n_busy++;
	if (has_stage(load)) /* it is nearer to the job */
		return TAUT_NONE;
	ticket = load->first_work;
	load->first_work = load->tickets[ticket].next;
	return ticket;
}

static void tell(struct taut_load *load, uint32_t ticket, taut_status status,
	const struct taut_error *why)
{
	load->tickets[ticket].is_under_way = false;
	tauti_load_share_done(load, ticket, status);
	if (status != TAUT_OK && status != TAUT_EAGAIN)
		tauti_load_blame(load, ticket, why);
	if (load->is_closed)
		return;
	status = tauti_supply_prepared(load->supply, ticket, status, NULL);
	assert(status == TAUT_OK);
	(void)status;
}

/* Work is done, the lock is held again. */
static void end_work(struct taut_load *load, int64_t *now_ns)
{
	int64_t begun_ns = *now_ns;

	*now_ns = tauti_now_ns();
	pthread_mutex_lock(&load->lock);
	load->counts.prepare_ns += *now_ns - begun_ns;
	tauti_load_mark(load, *now_ns);
	load->n_busy--;
}

static void run_ticket(struct tauti_load_worker *worker, uint32_t ticket, int64_t *now_ns)
{
	struct taut_load *load = worker->load;
	struct tauti_load_ticket *t = &load->tickets[ticket];
	struct taut_error why = { .offset = -1 };
	taut_status status;

	pthread_mutex_unlock(&load->lock);
	status = prepare(worker, t, &why);
	tauti_rooms_give(load->rooms, t->room);
	t->room = NULL;
	end_work(load, now_ns);
	tell(load, ticket, status, &why);
	tauti_load_settle(load);
}

static struct tauti_load_slot *first_to_stage(struct taut_load *load)
{
	struct tauti_load_slot *slot;
	uint32_t at = load->first_ready;

	while ((slot = &load->slots[load->ready[at].slot])->turn != TAUTI_LOAD_TO_STAGE)
		at = (at + 1) % load->options.depth;
	return slot;
}

static void run_stage(struct taut_load *load, int64_t *now_ns)
{
	const struct taut_load_options *o = &load->options;
	struct tauti_load_slot *slot = first_to_stage(load);
	struct taut_error why = { .offset = -1 };
	taut_status status;

	slot->turn = TAUTI_LOAD_STAGING;
	load->n_to_stage--;
	load->n_staging++;
	pthread_mutex_unlock(&load->lock);
	status = o->batch_stage(o->batch_stage_context, &slot->batch, &why);
	end_work(load, now_ns);
	load->n_staging--;
	slot->turn = status == TAUT_OK ? TAUTI_LOAD_DONE : TAUTI_LOAD_FAULTY;
	why.message[sizeof why.message - 1] = '\0';
	if (status != TAUT_OK)
		taut_error_set(&slot->why, TAUT_EFORMAT, -1,
			"loader: stage of batch %llu of epoch %llu: %s",
			(unsigned long long)slot->batch.number,
			(unsigned long long)slot->batch.epoch,
			why.message[0] ? why.message : taut_status_name(status));
	pthread_cond_broadcast(&load->news);
	tauti_load_settle(load);
}

static void *run_worker(void *context)
{
	struct tauti_load_worker *worker = context;
	struct taut_load *load = worker->load;
	int64_t now_ns = tauti_now_ns();

	tauti_take_long_turns();
	pthread_mutex_lock(&load->lock);
	for (;;) {
		uint32_t ticket = next_work(load, &now_ns);

		if (load->is_closed)
			break;
		if (ticket != TAUT_NONE)
			run_ticket(worker, ticket, &now_ns);
		else
			run_stage(load, &now_ns);
	}
	pthread_mutex_unlock(&load->lock);
	return NULL;
}

/* --- what others bring -------------------------------------------------------------------*/
static void note_awaited(void *context, uint64_t item)
{
	struct taut_load *load = context;

	load->awaited[load->n_awaited++] = item;
}

static void look_again(struct taut_load *load)
{
	for (uint32_t i = 0; i < load->n_awaited; i++)
		tauti_supply_again(load->supply, load->awaited[i]);
}

static void list_awaited(struct taut_load *load)
{
	load->n_awaited = 0;
	tauti_supply_awaited(load->supply, note_awaited, load);
}

/* Whatever it says, it is time to look. What the cache brings while samples are shared is
 * found when that wait ends. */
static void wait_for_others(struct taut_load *load, uint32_t seen)
{
	if (load->common)
		tauti_load_share_wait(load, seen, PATIENCE_NS);
	else
		(void)tauti_cache_wait(
			load->cache, (uint32_t)load->awaited[0], PATIENCE_NS);
}

static void *run_watcher(void *context)
{
	struct taut_load *load = context;
	uint32_t seen = 0;

	pthread_mutex_lock(&load->lock);
	while (!load->is_closed) {
		list_awaited(load);
		if (load->n_awaited == 0) {
			pthread_cond_wait(&load->watch, &load->lock);
			continue;
		}
		pthread_mutex_unlock(&load->lock);
		wait_for_others(load, seen);
		pthread_mutex_lock(&load->lock);
		if (load->is_closed)
			break;
		/* Before the looks: what comes after them is news. */
		if (load->common)
			seen = tauti_stage_news(&load->common->stage);
		look_again(load);
		tauti_load_settle(load);
	}
	pthread_mutex_unlock(&load->lock);
	return NULL;
}

/* --- life --------------------------------------------------------------------------------*/
static int start_all(struct taut_load *load)
{
	int code = 0;

	for (uint32_t i = 0; i < load->options.n_workers && !code; i++) {
		code = pthread_create(&load->workers[i].thread, NULL, run_worker,
			&load->workers[i]);
		load->n_started += !code;
	}
	if (!code && (load->cache || load->common)) {
		code = pthread_create(&load->watcher, NULL, run_watcher, load);
		load->has_watcher = !code;
	}
	return code;
}

taut_status tauti_load_start_threads(struct taut_load *load, struct taut_error *reterr)
{
	sigset_t all, before;
	int code;

	/* Signals are for the threads of the program that this library is in. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	code = start_all(load);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return code ? taut_error_set(reterr, TAUT_EIO, -1,
		"loader: no thread for %u workers: %s", load->options.n_workers,
		strerror(code)) : TAUT_OK;
}

void tauti_load_join_threads(struct taut_load *load)
{
	for (uint32_t i = 0; i < load->n_started; i++)
		pthread_join(load->workers[i].thread, NULL);
	if (load->has_watcher)
		pthread_join(load->watcher, NULL);
	load->n_started = 0;
	load->has_watcher = false;
}

/* loader_engine.c - what the mechanism asks for, done by a share, a cache, a store and
 * workers. */
#include "load/loader.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- lines -------------------------------------------------------------------------------*/
void tauti_load_name(
	const struct taut_load *load, uint64_t item, char *into, size_t room)
{
	struct taut_set_item at = taut_set_at(load->set, item);
	size_t n = taut_set_path(load->set, at.file, into, room);

	if (load->set_is_whole || n + 4 > room)
		return;
	n += (size_t)snprintf(into + n, room - n, " (");
	n += taut_set_key(load->set, item, into + n, room - n);
	if (n + 1 < room)
		memcpy(into + n, ")", 2);
}

void tauti_load_blame(
	struct taut_load *load, uint32_t ticket, const struct taut_error *why)
{
	struct tauti_load_ticket *t = &load->tickets[ticket];

	if (!t->why)
		t->why = malloc(sizeof *t->why);
	if (t->why)
		*t->why = *why;
}

/* --- reads -------------------------------------------------------------------------------*/
/* Room and path of reads that are begun; those that get none end at once. */
static struct tauti_store_read *furnish(
	struct taut_load *load, struct tauti_store_read *reads)
{
	struct tauti_store_read *ready = NULL, **at = &ready;

	while (reads) {
		struct tauti_load_read *read = (struct tauti_load_read *)reads;
		struct tauti_load_ticket *t = &load->tickets[read->ticket];

		reads = reads->next;
		taut_set_path(load->set, (uint32_t)read->read.file, read->path,
			sizeof read->path);
		if (!read->kept) {
			t->room = tauti_rooms_take(load->rooms, read->read.bytes);
			t->bytes = t->room;
		}
		if (!t->bytes) {
			taut_error_set(&read->read.err, TAUT_ENOMEM, -1,
				"%s: no memory for an item of %llu bytes",
				read->path, (unsigned long long)read->read.bytes);
			tauti_load_read_done(&read->read, TAUT_ENOMEM);
			continue;
		}
		read->read.into = (void *)(uintptr_t)t->bytes;
		if (read->far) {
			tauti_load_remote_ask(load, read);
			continue;
		}
		*at = &read->read;
		at = &read->read.next;
	}
	*at = NULL;
	return ready;
}

static struct tauti_store_read *take_to_begin(struct taut_load *load)
{
	struct tauti_store_read *reads = load->to_begin;

	load->to_begin = NULL;
	return reads;
}

static void begin_reads(struct taut_load *load)
{
	load->is_beginning = true;
	while (load->to_begin && !load->is_closed) {
		struct tauti_store_read *reads = take_to_begin(load);

		pthread_mutex_unlock(&load->lock);
		reads = furnish(load, reads);
		if (reads)
			tauti_store_begin(&load->store, reads);
		pthread_mutex_lock(&load->lock);
	}
	load->is_beginning = false;
}

static void tell_calm(struct taut_load *load)
{
	if (load->is_closed ||
		(load->is_pausing && !tauti_supply_under_way(load->supply)))
		pthread_cond_broadcast(&load->calm);
}

void tauti_load_settle(struct taut_load *load)
{
	if (tauti_load_has_reads(load))
		begin_reads(load);
	tell_calm(load);
}

void tauti_load_leave(struct taut_load *load)
{
	if (tauti_load_has_reads(load) && load->n_busy < load->n_started)
		pthread_cond_signal(&load->work);
	tell_calm(load);
}

static void count_read(struct taut_load *load, bool far, uint64_t bytes)
{
	struct taut_load_counts *counts = &load->counts;

	*(far ? &counts->remote_hits : &counts->reads) += 1;
	*(far ? &counts->remote_bytes : &counts->read_bytes) += bytes;
}

void tauti_load_read_done(struct tauti_store_read *done, taut_status status)
{
	struct tauti_load_read *read = (struct tauti_load_read *)done;
	struct taut_load *load = read->load;
	uint32_t ticket = read->ticket;
	struct tauti_load_ticket *t = &load->tickets[ticket];

	/* Others wait for it, whatever becomes of this loader. */
	if (read->kept && status == TAUT_OK)
		tauti_cache_fill(load->cache, (uint32_t)t->item);
	else if (read->kept)
		tauti_cache_drop(load->cache, (uint32_t)t->item);
	if (status != TAUT_OK) {
		tauti_rooms_give(load->rooms, t->room);
		t->room = NULL;
	}
	pthread_mutex_lock(&load->lock);
	t->is_under_way = false;
	if (status != TAUT_OK || load->has_failed) /* nothing is prepared any more */
		tauti_load_share_drop(load, ticket);
	if (status == TAUT_OK)
		count_read(load, read->far, done->bytes);
	else
		tauti_load_blame(load, ticket, &done->err);
	read->next = load->free_reads;
	load->free_reads = read;
	if (!load->is_closed) {
		status = tauti_supply_fetched(load->supply, ticket, status, NULL);
		assert(status == TAUT_OK);
	}
	tauti_load_settle(load);
	pthread_mutex_unlock(&load->lock);
}

/* --- what is asked for -------------------------------------------------------------------*/
static uint64_t item_bytes(void *context, uint64_t item)
{
	const struct taut_load *load = context;

	return taut_set_at(load->set, item).bytes;
}

static bool item_far(void *context, uint64_t item)
{
	return tauti_load_where(context, item) == TAUTI_REMOTE_FAR;
}

static enum tauti_look look_in_cache(struct taut_load *load,
	struct tauti_load_ticket *t, uint64_t item, bool *ret_keep)
{
	void *at = NULL;

	switch (tauti_cache_look(load->cache, (uint32_t)item,
		item_bytes(load, item), &at)) {
	case TAUTI_CACHE_HERE:
		t->bytes = at;
		return TAUTI_LOOK_HERE;
	case TAUTI_CACHE_COMING:
		pthread_cond_signal(&load->watch);
		return TAUTI_LOOK_COMING;
	case TAUTI_CACHE_MINE:
		break;
	}
	t->bytes = at;
	*ret_keep = at != NULL;
	return TAUTI_LOOK_MISSING;
}

/* What is not claimed may be promised to others all the same where it is at hand. */
static enum tauti_look look(void *context, uint32_t ticket, uint64_t item,
	uint64_t position, bool claim, bool *ret_keep)
{
	struct taut_load *load = context;
	struct tauti_load_ticket *t = &load->tickets[ticket];
	bool may_keep = load->cache != NULL;
	enum tauti_look found;

	*ret_keep = false;
	t->item = item;
	t->room = NULL;
	t->bytes = NULL;
	/* What another host keeps is not kept here, but may be from other times. */
	if (!claim || tauti_load_where(load, item) != TAUTI_REMOTE_HERE)
		may_keep = may_keep && tauti_cache_has(load->cache, (uint32_t)item);
	found = tauti_load_share_look(load, ticket, position, claim || may_keep);
	if (found != TAUTI_LOOK_MISSING || !may_keep)
		return found;
	return look_in_cache(load, t, item, ret_keep);
}

static void fetch(void *context, uint32_t ticket, uint64_t item, bool keep)
{
	struct taut_load *load = context;
	struct taut_set_item at = taut_set_at(load->set, item);
	struct tauti_load_read *read = load->free_reads;

	load->tickets[ticket].is_under_way = true;
	load->free_reads = read->next;
	read->load = load;
	read->ticket = ticket;
	read->kept = keep;
	read->far = !keep && item_far(load, item);
	read->read.path = read->path;
	read->read.file = at.file;
	read->read.offset = at.offset;
	read->read.bytes = at.bytes;
	read->read.whole = load->set_is_whole;
	read->read.done = tauti_load_read_done;
	read->read.next = NULL;
	if (load->to_begin)
		load->last_to_begin->next = &read->read;
	else
		load->to_begin = &read->read;
	load->last_to_begin = &read->read;
}

static void prepare(void *context, uint32_t ticket, uint64_t item, uint64_t epoch,
	uint32_t slot, uint32_t place)
{
	struct taut_load *load = context;
	struct tauti_load_ticket *t = &load->tickets[ticket];

	t->item = item;
	t->epoch = epoch;
	t->slot = slot;
	t->place = place;
	t->next = TAUT_NONE;
	t->is_under_way = true;
	if (load->first_work == TAUT_NONE)
		load->first_work = ticket;
	else
		load->tickets[load->last_work].next = ticket;
	load->last_work = ticket;
	pthread_cond_signal(&load->work);
}

static void move(void *context, uint32_t slot, uint32_t from, uint32_t to)
{
	struct taut_load *load = context;
	struct taut_batch *batch = &load->slots[slot].batch;
	char *data = batch->data;

	memcpy(data + to * batch->sample_bytes, data + from * batch->sample_bytes,
		batch->sample_bytes);
	batch->labels[to] = batch->labels[from];
	batch->items[to] = batch->items[from];
	if (batch->lengths)
		batch->lengths[to] = batch->lengths[from];
}

/* --- what is told ------------------------------------------------------------------------*/
static void note_skip(
	struct taut_load *load, uint64_t item, const struct taut_error *why)
{
	uint64_t n = load->counts.skipped++;

	if (!load->skips)
		load->skips = calloc(TAUTI_LOAD_SKIPPED, sizeof *load->skips);
	if (load->skips)
		load->skips[n % TAUTI_LOAD_SKIPPED] =
			(struct tauti_load_skip){ item, *why };
}

static void fault(void *context, const struct tauti_supply_fault *fault)
{
	struct taut_load *load = context;
	struct tauti_load_ticket *t = &load->tickets[fault->ticket];
	struct taut_error why;

	if (t->why)
		why = *t->why;
	else
		taut_error_set(&why, fault->status, -1, "item %llu: %s",
			(unsigned long long)fault->item,
			taut_status_name(fault->status));
	free(t->why);
	t->why = NULL;
	if (!fault->fatal) {
		load->n_batch_skipped++;
		note_skip(load, fault->item, &why);
		return;
	}
	load->has_failed = true;
	load->failure = why;
	tauti_load_share_end(load);
	pthread_cond_broadcast(&load->news);
}

static void begin_turn(struct taut_load *load, struct tauti_load_slot *slot)
{
	slot->turn = TAUTI_LOAD_DONE;
	if (!load->options.batch_stage || !slot->batch.count)
		return;
	slot->turn = TAUTI_LOAD_TO_STAGE;
	load->n_to_stage++;
	pthread_cond_signal(&load->work);
}

static void ready(void *context, const struct tauti_supply_batch *told)
{
	struct taut_load *load = context;
	struct taut_batch *batch = &load->slots[told->slot].batch;
	uint32_t at = (load->first_ready + load->n_ready) % load->options.depth;

	batch->count = told->count;
	batch->epoch = told->epoch;
	batch->number = told->in_epoch;
	batch->n_skipped = load->n_batch_skipped;
	load->n_batch_skipped = 0;
	load->ready[at] = *told;
	load->n_ready++;
	begin_turn(load, &load->slots[told->slot]);
	tauti_load_share_move(load, told->next_position);
	pthread_cond_broadcast(&load->news);
}

const struct tauti_supply_engine tauti_load_engine = {
	.bytes = item_bytes,
	.far = item_far,
	.look = look,
	.fetch = fetch,
	.prepare = prepare,
	.move = move,
	.fault = fault,
	.ready = ready,
};

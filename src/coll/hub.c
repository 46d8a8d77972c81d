/* hub.c - an engine, and all that is under way over it. */
#include "coll/hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- scratch ---------------------------------------------------------------------------*/

enum { LEAST_BLOCK = 4096, ALIGN_BYTES = 64 };

struct tauti_block *tauti_hub_take_block(struct tauti_hub *hub, size_t bytes)
{
	size_t size = LEAST_BLOCK;
	struct tauti_block *block;

	for (struct tauti_block **at = &hub->blocks; *at; at = &(*at)->next) {
		block = *at;
		if (block->bytes < bytes || block->bytes / 4 > bytes + size)
			continue;
		*at = block->next;
		return block;
	}
	while (size < bytes && size <= SIZE_MAX / 4)
		size *= 2;
	if (size < bytes)
		return NULL;
	block = malloc(sizeof *block + ALIGN_BYTES + size);
	if (!block)
		return NULL;
	block->bytes = size;
	block->data = (char *)(block + 1);
	block->data += ALIGN_BYTES - (uintptr_t)block->data % ALIGN_BYTES;
	return block;
}

void tauti_hub_give_block(struct tauti_hub *hub, struct tauti_block *block)
{
	if (!block)
		return;
	block->next = hub->blocks;
	hub->blocks = block;
}

/* --- what is under way -----------------------------------------------------------------*/

/* Other threads read it; this one alone writes, so it needs no locked addition. */
static void count_under_way(struct tauti_hub *hub, uint32_t more)
{
	atomic_store_explicit(&hub->n_under_way, more + atomic_load_explicit(
		&hub->n_under_way, memory_order_relaxed), memory_order_release);
}

void tauti_hub_list(struct tauti_hub *hub, struct tauti_run *run)
{
	run->older = hub->newest;
	run->newer = NULL;
	*(hub->newest ? &hub->newest->newer : &hub->oldest) = run;
	hub->newest = run;
	count_under_way(hub, 1);
}

void tauti_hub_unlist(struct tauti_hub *hub, struct tauti_run *run)
{
	*(run->older ? &run->older->newer : &hub->oldest) = run->newer;
	*(run->newer ? &run->newer->older : &hub->newest) = run->older;
	count_under_way(hub, (uint32_t)-1);
}

uint64_t tauti_hub_next_tag(const struct tauti_hub *hub, uint32_t channel)
{
	return ((uint64_t)channel << TAUTI_PASS_BITS | atomic_load_explicit(
		&hub->passes[channel], memory_order_relaxed))
		<< TAUTI_MESSAGE_BITS;
}

/* --- failing ---------------------------------------------------------------------------*/

void tauti_hub_note(struct tauti_hub *hub, const struct taut_error *why)
{
	if (hub->failed)
		return;
	hub->failed = true;
	hub->failure = *why;
}

/* After it nobody wakes the engine any more. */
static void drop_engine(struct tauti_hub *hub)
{
	struct tauti_engine engine = hub->engine;

	pthread_mutex_lock(&hub->lock);
	hub->wakeable = false;
	pthread_mutex_unlock(&hub->lock);
	hub->engine.table = NULL;
	if (hub->owned && engine.table)
		engine.table->destroy(engine.context);
}

static void tear_down(struct tauti_hub *hub)
{
	hub->torn = true;
	if (hub->stranded)
		tauti_hub_leave(hub);
	else if (hub->watcher.fail && !atomic_load(&hub->lost))
		hub->watcher.fail(hub->watcher.context, &hub->failure);
	drop_engine(hub);
	hub->first = hub->last = NULL;
	while (hub->oldest)
		tauti_run_abandon(hub->oldest, hub->failure.code);
}

void tauti_hub_drain(struct tauti_hub *hub)
{
	if (hub->draining)
		return;
	hub->draining = true;
	while (hub->first && !hub->failed) {
		struct tauti_op *op = hub->first;

		hub->first = op->next;
		tauti_run_settle(hub, op);
	}
	if (hub->failed && !hub->torn)
		tear_down(hub);
	hub->draining = false;
}

void tauti_hub_fail(struct tauti_hub *hub, const struct taut_error *why)
{
	tauti_hub_note(hub, why);
	tauti_hub_drain(hub);
}

void tauti_hub_lose(struct tauti_hub *hub, const struct taut_error *why)
{
	pthread_mutex_lock(&hub->lock);
	if (!atomic_load(&hub->lost)) {
		hub->lost_why = *why;
		atomic_store(&hub->lost, true);
	}
	if (hub->wakeable)
		hub->engine.table->wake(hub->engine.context);
	pthread_mutex_unlock(&hub->lock);
}

void tauti_hub_wake(struct tauti_hub *hub)
{
	if (tauti_origin_is_copy(&hub->origin))
		return;
	pthread_mutex_lock(&hub->lock);
	if (hub->wakeable)
		hub->engine.table->wake(hub->engine.context);
	pthread_mutex_unlock(&hub->lock);
}

/* --- what is asked from outside --------------------------------------------------------*/

/* The line of the watcher, who knows which rank is gone, comes before the
 * engine's, who knows that something is. */
static void look_for_lost(struct tauti_hub *hub)
{
	struct taut_error why;

	if (hub->failed || !atomic_load_explicit(
		&hub->lost, memory_order_acquire))
		return;
	pthread_mutex_lock(&hub->lock);
	why = hub->lost_why;
	pthread_mutex_unlock(&hub->lock);
	if (!why.code)
		why.code = TAUT_EIO;
	tauti_hub_note(hub, &why);
}

/* In a child's copy nothing is touched but what never changes. */
static taut_status is_copy(
	const struct tauti_hub *hub, struct taut_error *reterr)
{
	return taut_error_set(reterr, TAUT_EIO, -1, "rank %u: this process was "
		"forked from that of the communicator, and has no part in it",
		hub->rank);
}

static taut_status status_of(
	const struct tauti_hub *hub, struct taut_error *reterr)
{
	if (!hub->failed)
		return TAUT_OK;
	if (reterr)
		*reterr = hub->failure;
	return hub->failure.code;
}

taut_status tauti_hub_check_outside(
	const struct tauti_hub *hub, struct taut_error *reterr)
{
	if (tauti_origin_is_copy(&hub->origin))
		return is_copy(hub, reterr);
	if (!hub->draining || hub->failed)
		return status_of(hub, reterr);
	return taut_error_set(reterr, TAUT_EINVAL, -1, "rank %u: what ends a "
		"call cannot wait for others, or move them on", hub->rank);
}

taut_status tauti_hub_check(struct tauti_hub *hub, struct taut_error *reterr)
{
	if (tauti_origin_is_copy(&hub->origin))
		return is_copy(hub, reterr);
	look_for_lost(hub);
	tauti_hub_look_for_left(hub);
	if (hub->failed)
		tauti_hub_drain(hub);
	return status_of(hub, reterr);
}

static void note_engine(struct tauti_hub *hub, taut_status status,
	struct taut_error *why)
{
	if (!why->message[0])
		taut_error_set(why, status, -1, "rank %u: engine %s: %s",
			hub->rank, hub->engine.table->name,
			taut_status_name(status));
	why->code = status;
	tauti_hub_explain_left(hub, why);
	tauti_hub_note(hub, why);
}

/* Ends what is done, and then sees whether the rest can end. */
static taut_status settle(struct tauti_hub *hub, struct taut_error *reterr)
{
	tauti_hub_drain(hub);
	tauti_hub_look_for_left(hub);
	if (hub->failed)
		tauti_hub_drain(hub);
	return status_of(hub, reterr);
}

taut_status tauti_hub_progress(struct tauti_hub *hub, struct taut_error *reterr)
{
	struct taut_error why;
	taut_status status = tauti_hub_check_outside(hub, reterr);

	if (status)
		return status;
	tauti_error_clear(&why);
	status = hub->engine.table->progress(hub->engine.context, &why);
	look_for_lost(hub);
	if (status)
		note_engine(hub, status, &why);
	return settle(hub, reterr);
}

taut_status tauti_hub_wait(struct tauti_hub *hub, int64_t timeout_ns,
	struct taut_error *reterr)
{
	struct taut_error why = { .offset = -1 };
	taut_status status = tauti_hub_check_outside(hub, reterr);

	if (!status)
		status = tauti_hub_check(hub, reterr);
	if (status)
		return status;
	status = hub->engine.table->wait(
		hub->engine.context, timeout_ns, &why);
	look_for_lost(hub);
	if (status)
		note_engine(hub, status, &why);
	return settle(hub, reterr);
}

/* --- life ------------------------------------------------------------------------------*/

enum { SPIN_NS = 100 * 1000 }; /* a few sleeps, with what wakes them */

static taut_status fill(struct tauti_hub *hub,
	const struct tauti_hub_options *options, struct taut_error *reterr)
{
	size_t bytes = options->n_ranks * sizeof(uint32_t);

	hub->engine = options->engine;
	snprintf(hub->engine_name, sizeof hub->engine_name, "%s",
		options->engine.table->name);
	hub->owned = options->owned;
	hub->rank = options->rank;
	hub->n_ranks = options->n_ranks;
	hub->wakeable = true;
	if (options->host_of) {
		hub->host_of = malloc(bytes);
		if (!hub->host_of)
			return taut_error_set(reterr, TAUT_ENOMEM, -1,
				"communicator: out of memory");
		memcpy(hub->host_of, options->host_of, bytes);
	}
	hub->n_hosts = tauti_hosts_count(hub->host_of, hub->n_ranks);
	hub->spin_ns = options->spins ? SPIN_NS : 0;
	hub->call_within_ns = options->call_within_ns;
	return tauti_table_init(&hub->table, hub->n_ranks, hub->n_hosts,
		options->rows, options->n_rows, reterr);
}

static void free_hub(struct tauti_hub *hub)
{
	while (hub->blocks) {
		struct tauti_block *block = hub->blocks;

		hub->blocks = block->next;
		free(block);
	}
	tauti_plans_fini(&hub->plans);
	tauti_table_fini(&hub->table);
	pthread_mutex_destroy(&hub->lock);
	tauti_origin_fini(&hub->origin);
	free(hub->host_of);
	free(hub);
}

taut_status tauti_hub_create(const struct tauti_hub_options *options,
	struct tauti_hub **ret_hub, struct taut_error *reterr)
{
	struct tauti_hub *hub = calloc(1, sizeof *hub);
	taut_status status;

	if (!hub)
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"communicator: out of memory");
	tauti_origin_init(&hub->origin);
	pthread_mutex_init(&hub->lock, NULL);
	atomic_init(&hub->lost, false);
	atomic_init(&hub->left, false);
	atomic_init(&hub->waits_for_left, false);
	status = fill(hub, options, reterr);
	if (status) {
		free_hub(hub);
		return status;
	}
	*ret_hub = hub;
	return TAUT_OK;
}

void tauti_hub_destroy(struct tauti_hub *hub)
{
	if (!hub)
		return;
	if (!hub->failed)
		tauti_hub_leave(hub);
	drop_engine(hub); /* what it has to send is what others wait for */
	if (hub->watcher.close)
		hub->watcher.close(hub->watcher.context);
	free_hub(hub);
}

/* shm_send.c - slots, and messages for which there is no room yet. */
#include "coll/engines/shm.h"

#include <stdlib.h>
#include <string.h>

/* --- slots -------------------------------------------------------------------------*/

static bool is_read(const struct tauti_shm *it, uint32_t slot)
{
	return atomic_load_explicit(&it->readers[slot].value,
		memory_order_acquire) == 0;
}

static void free_one(struct tauti_shm *it, uint32_t slot)
{
	it->free[(it->first_free + it->n_free++) % TAUTI_SHM_MOST_SLOTS] = slot;
}

enum { WARM_BYTES = 8 << 10 }; /* that a first cache holds, beside the rest */

/* There must be one. For a long message the one that was free for longest: the
 * caches of those who read it have let go of it. To write where another core has
 * just read is to wait for that core, line by line. What is short is a matter of
 * few lines, of which the last slot's are the nearest. */
static uint32_t take_free(struct tauti_shm *it, uint32_t bytes)
{
	uint32_t slot = it->free[it->first_free];

	it->n_free--;
	if (bytes <= WARM_BYTES)
		return it->free[(it->first_free + it->n_free) %
			TAUTI_SHM_MOST_SLOTS];
	it->first_free = (it->first_free + 1) % TAUTI_SHM_MOST_SLOTS;
	return slot;
}

/* Slots that all have read, from the oldest on; behind one that somebody still
 * needs only when there is no other. */
static void collect(struct tauti_shm *it)
{
	uint32_t n_kept = 0;
	bool all = it->n_free == 0;

	for (uint32_t i = 0; i < it->n_busy; i++) {
		bool look = n_kept == 0 || (all && it->n_free == 0);

		if (look && is_read(it, it->busy[i]))
			free_one(it, it->busy[i]);
		else
			it->busy[n_kept++] = it->busy[i];
	}
	it->n_busy = n_kept;
}

static bool any_slot(struct tauti_shm *it)
{
	collect(it);
	return it->n_free > 0;
}

/* There must be one. */
static uint32_t fill_slot(struct tauti_shm *it, const void *data,
	uint32_t bytes, uint32_t n_readers)
{
	uint32_t slot = take_free(it, bytes);

	it->busy[it->n_busy++] = slot;
	atomic_store_explicit(&it->readers[slot].value, n_readers,
		memory_order_relaxed);
	tauti_shm_copy(it->slots + slot * it->map.layout.slot_apart, data,
		bytes);
	return slot;
}

/* --- sending -----------------------------------------------------------------------*/

static void put(struct tauti_shm *it, uint32_t peer, uint64_t tag,
	uint32_t bytes, uint32_t slot, const void *data)
{
	struct tauti_shm_peer *to = &it->peers[peer];

	tauti_shm_put(&to->out, tag, bytes, slot, data);
	tauti_shm_ring(it, to->bell, TAUTI_SHM_ASLEEP);
}

static bool is_short(uint32_t bytes)
{
	return bytes <= TAUTI_SHM_SHORT_BYTES;
}

/* Whether all of it can go at once. */
static bool has_way(struct tauti_shm *it, const uint32_t *peers,
	uint32_t n_peers, uint32_t bytes)
{
	uint32_t in_fifo = is_short(bytes) ? bytes : 0;

	if (!is_short(bytes) && (it->queue || !any_slot(it)))
		return false;
	for (uint32_t i = 0; i < n_peers; i++)
		if (!tauti_shm_room(&it->peers[it->number_of[peers[i]]].out,
				in_fifo))
			return false;
	return true;
}

bool tauti_shm_send_now(struct tauti_shm *it, const uint32_t *peers,
	uint32_t n_peers, uint64_t tag, const void *data, uint32_t bytes)
{
	uint32_t slot = TAUTI_SHM_INLINE;

	if (!has_way(it, peers, n_peers, bytes))
		return false;
	if (!is_short(bytes))
		slot = fill_slot(it, data, bytes, n_peers);
	for (uint32_t i = 0; i < n_peers; i++)
		put(it, it->number_of[peers[i]], tag, bytes, slot, data);
	return true;
}

static struct tauti_shm_queued *queued(const struct tauti_shm *it,
	const uint32_t *peers, uint32_t n_peers)
{
	struct tauti_shm_queued *message = malloc(
		sizeof *message + n_peers * sizeof message->peers[0]);

	if (!message)
		return NULL;
	*message = (struct tauti_shm_queued){ .n_peers = n_peers,
		.slot = TAUT_NONE };
	for (uint32_t i = 0; i < n_peers; i++)
		message->peers[i] = it->number_of[peers[i]];
	return message;
}

static void set_full(struct tauti_shm *it, bool full)
{
	atomic_store_explicit(&it->bell->full, full, memory_order_relaxed);
	if (!full)
		return;
	/* Who sleeps, and holds messages that it has not asked for. */
	for (uint32_t i = 0; i < it->n_peers; i++)
		if (i != it->map.index)
			tauti_shm_ring(it, it->peers[i].bell, TAUTI_SHM_HOLDS);
}

static void enqueue(struct tauti_shm *it, struct tauti_shm_queued *message)
{
	bool first = !it->queue;

	*it->queue_end = message;
	it->queue_end = &message->next;
	if (first)
		set_full(it, true);
}

taut_status tauti_shm_send_later(struct tauti_shm *it, const uint32_t *peers,
	uint32_t n_peers, uint64_t tag, const void *data, uint32_t bytes,
	struct taut_coll_request *request, struct taut_error *err)
{
	struct tauti_shm_queued *message = queued(it, peers, n_peers);

	if (!message)
		return taut_error_set(err, TAUT_ENOMEM, -1, "out of memory");
	message->request = request;
	message->data = data;
	message->tag = tag;
	message->bytes = bytes;
	enqueue(it, message);
	return TAUT_OK;
}

static taut_status check(const struct tauti_shm *it, const uint32_t *peers,
	uint32_t n_peers, size_t bytes, struct taut_error *err)
{
	if (it->broken.code != TAUT_OK) {
		if (err)
			*err = it->broken;
		return it->broken.code;
	}
	for (uint32_t i = 0; i < n_peers; i++)
		if (peers[i] >= it->n_world || peers[i] == it->rank ||
			it->number_of[peers[i]] == TAUT_NONE)
			return taut_error_set(err, TAUT_EINVAL, -1,
				"shared memory: rank %u is not another one of "
				"this host", peers[i]);
	if (bytes > it->map.layout.slot_bytes)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"shared memory: a message of %zu bytes, more than one "
			"may have", bytes);
	return TAUT_OK;
}

taut_status tauti_shm_send(void *engine, const uint32_t *peers,
	uint32_t n_peers, uint64_t tag, const void *data, size_t bytes,
	struct taut_coll_request *request, struct taut_error *err)
{
	struct tauti_shm *it = engine;
	taut_status status = check(it, peers, n_peers, bytes, err);

	if (status != TAUT_OK)
		return status;
	if (!tauti_shm_send_now(
			it, peers, n_peers, tag, data, (uint32_t)bytes))
		return tauti_shm_send_later(it, peers, n_peers, tag, data,
			(uint32_t)bytes, request, err);
	request->done(request, TAUT_OK);
	return TAUT_OK;
}

/* --- the queue ---------------------------------------------------------------------*/

/* Whether all of it went. */
static bool send_more(struct tauti_shm *it, struct tauti_shm_queued *message)
{
	bool in_fifo = is_short(message->bytes);

	if (!in_fifo && message->slot == TAUT_NONE) {
		if (!any_slot(it))
			return false;
		message->slot = fill_slot(it, message->data, message->bytes,
			message->n_peers);
	}
	for (; message->n_done < message->n_peers; message->n_done++) {
		uint32_t peer = message->peers[message->n_done];

		if (!tauti_shm_room(&it->peers[peer].out,
				in_fifo ? message->bytes : 0))
			return false;
		put(it, peer, message->tag, message->bytes,
			in_fifo ? TAUTI_SHM_INLINE : message->slot,
			message->data);
	}
	return true;
}

static void pop(struct tauti_shm *it, taut_status status)
{
	struct tauti_shm_queued *message = it->queue;
	struct taut_coll_request *request = message->request;

	it->queue = message->next;
	if (!it->queue) {
		it->queue_end = &it->queue;
		set_full(it, false);
	}
	free(message);
	request->done(request, status);
}

static taut_status check_readers(struct tauti_shm *it)
{
	for (uint32_t i = 0; i < it->n_peers; i++)
		if (it->peers[i].out.mad)
			return tauti_shm_break(it, TAUT_EIO, i,
				"has read what was never sent", NULL);
	return TAUT_OK;
}

taut_status tauti_shm_flush(struct tauti_shm *it)
{
	while (it->queue && send_more(it, it->queue))
		pop(it, TAUT_OK);
	return it->queue ? check_readers(it) : it->broken.code;
}

bool tauti_shm_flushable(struct tauti_shm *it)
{
	struct tauti_shm_queued *message = it->queue;
	bool in_fifo;

	if (!message)
		return false;
	in_fifo = is_short(message->bytes);
	if (!in_fifo && message->slot == TAUT_NONE)
		return any_slot(it);
	return tauti_shm_room(&it->peers[message->peers[message->n_done]].out,
		in_fifo ? message->bytes : 0);
}

void tauti_shm_end_queue(struct tauti_shm *it, taut_status status)
{
	while (it->queue)
		pop(it, status);
}

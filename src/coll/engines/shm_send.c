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
 * needs only when there are few others. */
static void collect(struct tauti_shm *it)
{
	uint32_t n_kept = 0;
	bool all = it->n_free <= it->n_apart;

	for (uint32_t i = 0; i < it->n_busy; i++) {
		bool look = n_kept == 0 || (all && it->n_free <= it->n_apart);

		if (look && is_read(it, it->busy[i]))
			free_one(it, it->busy[i]);
		else
			it->busy[n_kept++] = it->busy[i];
	}
	it->n_busy = n_kept;
}

/* Whether a receiver may have one more. Some are kept apart for those that hold
 * none, so that a few that read nothing leave a way to the others. */
static bool may_hold(const struct tauti_shm *it, struct tauti_shm_peer *to)
{
	uint64_t most = it->n_free > it->n_apart ? it->most_unread : 1;

	if (it->n_free == 0)
		return false;
	if (to->n_long - to->seen_read < most)
		return true;
	to->seen_read = atomic_load_explicit(
		&to->out.taken->n_read, memory_order_acquire);
	if (to->n_long - to->seen_read > it->map.layout.n_slots)
		to->out.mad = true;
	return to->n_long - to->seen_read < most;
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

	if (slot != TAUTI_SHM_INLINE)
		to->n_long++;
	tauti_shm_put(&to->out, tag, bytes, slot, data);
	tauti_shm_ring(it, to->bell, TAUTI_SHM_ASLEEP);
}

static bool is_short(uint32_t bytes)
{
	return bytes <= TAUTI_SHM_SHORT_BYTES;
}

static bool has_way(const struct tauti_shm *it, struct tauti_shm_peer *to,
	uint32_t bytes)
{
	if (is_short(bytes))
		return tauti_shm_room(&to->out, bytes);
	return tauti_shm_room(&to->out, 0) && may_hold(it, to);
}

/* Whether all of it can go at once. Short messages pass what waits. */
static bool all_have_way(struct tauti_shm *it, const uint32_t *peers,
	uint32_t n_peers, uint32_t bytes)
{
	if (!is_short(bytes))
		collect(it);
	for (uint32_t i = 0; i < n_peers; i++) {
		struct tauti_shm_peer *to = &it->peers[it->number_of[peers[i]]];

		if (!has_way(it, to, bytes) || (!is_short(bytes) && to->first))
			return false;
	}
	return true;
}

bool tauti_shm_send_now(struct tauti_shm *it, const uint32_t *peers,
	uint32_t n_peers, uint64_t tag, const void *data, uint32_t bytes)
{
	uint32_t slot = TAUTI_SHM_INLINE;

	if (!all_have_way(it, peers, n_peers, bytes))
		return false;
	if (!is_short(bytes))
		slot = fill_slot(it, data, bytes, n_peers);
	for (uint32_t i = 0; i < n_peers; i++)
		put(it, it->number_of[peers[i]], tag, bytes, slot, data);
	return true;
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

static void enqueue(struct tauti_shm *it, struct tauti_shm_part *part)
{
	struct tauti_shm_peer *to = &it->peers[part->peer];

	part->next = NULL;
	*to->end = part;
	to->end = &part->next;
}

taut_status tauti_shm_send_later(struct tauti_shm *it, const uint32_t *peers,
	uint32_t n_peers, uint64_t tag, const void *data, uint32_t bytes,
	struct taut_coll_request *request, struct taut_error *err)
{
	struct tauti_shm_queued *message = malloc(
		sizeof *message + n_peers * sizeof message->parts[0]);

	if (!message)
		return taut_error_set(err, TAUT_ENOMEM, -1, "out of memory");
	*message = (struct tauti_shm_queued){ .request = request, .data = data,
		.tag = tag, .bytes = bytes, .n_parts = n_peers,
		.n_left = n_peers };
	for (uint32_t i = 0; i < n_peers; i++) {
		message->parts[i].message = message;
		message->parts[i].peer = it->number_of[peers[i]];
		enqueue(it, &message->parts[i]);
	}
	it->has_new = true;
	if (it->n_queued++ == 0)
		set_full(it, true);
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

/* The first that waits for this receiver. It may be the last of its message, which
 * ends then. */
static void dequeue(struct tauti_shm *it, struct tauti_shm_peer *to,
	taut_status status)
{
	struct tauti_shm_queued *message = to->first->message;
	struct taut_coll_request *request = message->request;

	to->first = to->first->next;
	if (!to->first)
		to->end = &to->first;
	if (--message->n_left > 0)
		return;
	if (--it->n_queued == 0)
		set_full(it, false);
	free(message);
	request->done(request, status);
}

/* NULL: there is none that can go now. */
static struct tauti_shm_queued *next_for(
	struct tauti_shm *it, struct tauti_shm_peer *to)
{
	if (!to->first)
		return NULL;
	if (!is_short(to->first->message->bytes))
		collect(it);
	return has_way(it, to, to->first->message->bytes) ?
		to->first->message : NULL;
}

/* To all whose next one it is, and that have a way. Others get it later; if it is
 * long it is written once more for them. */
static void send_next(struct tauti_shm *it, struct tauti_shm_queued *message)
{
	struct tauti_shm_queued what = *message; /* it ends with its last part */
	uint32_t slot = TAUTI_SHM_INLINE, n = 0;

	for (uint32_t i = 0; i < what.n_parts; i++) {
		struct tauti_shm_part *part = &message->parts[i];
		struct tauti_shm_peer *to = &it->peers[part->peer];

		if (to->first == part && has_way(it, to, what.bytes))
			it->going[n++] = part->peer;
	}
	if (!is_short(what.bytes))
		slot = fill_slot(it, what.data, what.bytes, n);
	for (uint32_t i = 0; i < n; i++) {
		put(it, it->going[i], what.tag, what.bytes, slot, what.data);
		dequeue(it, &it->peers[it->going[i]], TAUT_OK);
	}
}

static bool is_shared(const struct tauti_shm_queued *message)
{
	return message->n_left > 1 && !is_short(message->bytes);
}

/* What is for one receiver alone, or short, as far as there is room. */
static void send_single(struct tauti_shm *it)
{
	struct tauti_shm_queued *message;

	for (uint32_t i = 0; i < it->n_peers; i++)
		while ((message = next_for(it, &it->peers[i])) &&
			!is_shared(message))
			send_next(it, message);
}

/* One long message to several. When the others have come as far as they can, more of
 * them have it next. */
static bool send_shared(struct tauti_shm *it)
{
	struct tauti_shm_queued *message;

	send_single(it);
	for (uint32_t i = 0; i < it->n_peers; i++) {
		message = next_for(it, &it->peers[i]);
		if (!message)
			continue;
		send_next(it, message);
		return true;
	}
	return false;
}

static taut_status check_readers(struct tauti_shm *it)
{
	for (uint32_t i = 0; i < it->n_peers; i++)
		if (it->peers[i].out.mad)
			return tauti_shm_break(it, TAUT_EIO, i,
				"has read what was never sent", NULL);
	return TAUT_OK;
}

/* Whatever gives room, in a FIFO or of slots, makes this another number. */
static uint64_t room(const struct tauti_shm *it)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < it->n_peers; i++)
		if (i != it->map.index)
			sum += atomic_load_explicit(&it->peers[i].out.taken->value,
				memory_order_acquire) + atomic_load_explicit(
				&it->peers[i].out.taken->n_read,
				memory_order_acquire);
	return sum;
}

bool tauti_shm_flushable(struct tauti_shm *it)
{
	return it->n_queued && (it->has_new || room(it) != it->seen_room);
}

taut_status tauti_shm_flush(struct tauti_shm *it)
{
	if (!tauti_shm_flushable(it))
		return it->broken.code;
	it->has_new = false;
	it->seen_room = room(it);
	while (send_shared(it))
		;
	return it->n_queued ? check_readers(it) : it->broken.code;
}

void tauti_shm_end_queue(struct tauti_shm *it, taut_status status)
{
	for (uint32_t i = 0; i < it->n_peers; i++)
		while (it->peers[i].first)
			dequeue(it, &it->peers[i], status);
}

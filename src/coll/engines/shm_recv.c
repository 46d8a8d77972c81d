/* shm_recv.c - what comes, and who has asked for it. */
#include "coll/engines/shm.h"

#include <stdlib.h>
#include <string.h>

enum {
	MOST_AT_ONCE = 64,      /* messages of one sender, in one drain */
	LEAST_PAST = 32 << 10,  /* bytes of a message that may go past caches */
	CACHED_BYTES = 8 << 20, /* received meanwhile: then it was displaced */
};

/* --- tables by (peer, tag) -----------------------------------------------------------*/

static struct tauti_shm_key **bucket_of(
	struct tauti_shm_table *table, uint32_t peer, uint64_t tag)
{
	uint64_t mixed = (tag + peer) * UINT64_C(0x9e3779b97f4a7c15);

	return &table->buckets[(mixed >> 32) % TAUTI_SHM_BUCKETS];
}

static void insert(struct tauti_shm_table *table, struct tauti_shm_key *key)
{
	struct tauti_shm_key **bucket = bucket_of(table, key->peer, key->tag);

	key->next = *bucket;
	*bucket = key;
	table->n++;
}

/* Where it hangs; NULL: it is not there. */
static struct tauti_shm_key **find(
	struct tauti_shm_table *table, uint32_t peer, uint64_t tag)
{
	struct tauti_shm_key **at;

	if (table->n == 0)
		return NULL;
	at = bucket_of(table, peer, tag);
	while (*at && ((*at)->tag != tag || (*at)->peer != peer))
		at = &(*at)->next;
	return *at ? at : NULL;
}

/* Takes it out; NULL: it is not there. */
static void *extract(
	struct tauti_shm_table *table, uint32_t peer, uint64_t tag)
{
	struct tauti_shm_key **at = find(table, peer, tag), *key;

	if (!at)
		return NULL;
	key = *at;
	*at = key->next;
	table->n--;
	return key;
}

/* A spare one, or a new one. */
static void *obtain(struct tauti_shm_key **spare, size_t bytes)
{
	struct tauti_shm_key *key = *spare;

	if (!key)
		return malloc(bytes);
	*spare = key->next;
	return key;
}

static void spare(struct tauti_shm_key **list, struct tauti_shm_key *key)
{
	key->next = *list;
	*list = key;
}

static void free_list(struct tauti_shm_key *key)
{
	struct tauti_shm_key *next;

	for (; key; key = next) {
		next = key->next;
		free(key);
	}
}

void tauti_shm_free_nodes(struct tauti_shm *it)
{
	for (uint32_t i = 0; i < TAUTI_SHM_BUCKETS; i++) {
		for (struct tauti_shm_key *key = it->come.buckets[i]; key;
			key = key->next)
			free(((struct tauti_shm_come *)key)->copy);
		free_list(it->come.buckets[i]);
	}
	free_list(it->spare_come);
	free_list(it->spare_asked);
}

/* --- a message and who asked for it ---------------------------------------------------*/

static const void *slot_at(
	const struct tauti_shm *it, uint32_t peer, uint32_t slot)
{
	return it->peers[peer].slots + slot * it->map.layout.slot_apart;
}

static void free_slot(struct tauti_shm *it, uint32_t peer, uint32_t slot)
{
	struct tauti_shm_peer *from = &it->peers[peer];

	/* In this order: who sees that something was read sees what is free. */
	atomic_fetch_sub_explicit(
		&from->readers[slot].value, 1, memory_order_acq_rel);
	atomic_store_explicit(&from->in.taken->n_read, ++from->in.n_read,
		memory_order_release);
	tauti_shm_ring(it, from->bell, TAUTI_SHM_FULL);
}

/* Whether what was there before may be in a cache: something was received there,
 * and not much since. What goes elsewhere is written past the caches, as it would
 * first be read from memory otherwise, only to be overwritten. */
static bool is_warm(struct tauti_shm *it, const void *into, size_t bytes)
{
	uint64_t mixed = ((uintptr_t)into >> 12) * UINT64_C(0x9e3779b97f4a7c15);
	struct tauti_shm_place *place = &it->places[mixed >> 56];
	bool warm = place->into == into &&
		it->received_bytes - place->after_bytes <= CACHED_BYTES;

	*place = (struct tauti_shm_place){ into, it->received_bytes };
	it->received_bytes += bytes;
	return warm;
}

static void copy(struct tauti_shm *it, void *into, const void *payload,
	size_t bytes)
{
	if (bytes >= LEAST_PAST && !is_warm(it, into, bytes))
		tauti_shm_copy_past(into, payload, bytes);
	else if (bytes > 0)
		tauti_shm_copy(into, payload, bytes);
}

static taut_status land(struct tauti_shm *it,
	const struct tauti_shm_asked *asked, const void *payload, size_t bytes)
{
	if (bytes != asked->bytes)
		return TAUT_EMATCH;
	if (asked->reduces)
		taut_reduce(asked->type, asked->reduction, asked->into,
			asked->from, payload,
			bytes / taut_type_bytes(asked->type));
	else
		copy(it, asked->into, payload, bytes);
	return TAUT_OK;
}

static void take(struct tauti_shm *it, uint32_t peer,
	const struct tauti_shm_message *message)
{
	struct tauti_shm_peer *from = &it->peers[peer];

	if (tauti_shm_take(&from->in, message->lines))
		tauti_shm_ring(it, from->bell, TAUTI_SHM_FULL);
}

/* The one at the head of its FIFO. */
static struct tauti_shm_source at_head(const struct tauti_shm *it,
	uint32_t peer, const struct tauti_shm_message *message)
{
	return (struct tauti_shm_source){ .peer = peer,
		.bytes = message->bytes, .slot = message->slot,
		.lines = message->lines,
		.payload = message->slot == TAUTI_SHM_INLINE ?
			message->payload : slot_at(it, peer, message->slot) };
}

static struct tauti_shm_source out_of(
	const struct tauti_shm *it, struct tauti_shm_come *kept)
{
	const void *payload = kept->copy;

	if (!payload)
		payload = kept->slot == TAUTI_SHM_INLINE ? kept->payload :
			slot_at(it, kept->key.peer, kept->slot);
	return (struct tauti_shm_source){ .peer = kept->key.peer,
		.bytes = kept->bytes, .slot = kept->slot, .kept = kept,
		.payload = payload };
}

void tauti_shm_release(
	struct tauti_shm *it, const struct tauti_shm_source *source)
{
	struct tauti_shm_come *kept = source->kept;
	const struct tauti_shm_message message = { .lines = source->lines };

	if (!kept)
		take(it, source->peer, &message);
	if (source->slot != TAUTI_SHM_INLINE)
		free_slot(it, source->peer, source->slot);
	if (!kept)
		return;
	it->peers[source->peer].n_held -= source->slot != TAUTI_SHM_INLINE;
	(void)extract(&it->come, kept->key.peer, kept->key.tag);
	free(kept->copy);
	kept->copy = NULL;
	spare(&it->spare_come, &kept->key);
}

/* Straight to where it belongs. */
static taut_status land_source(struct tauti_shm *it,
	const struct tauti_shm_source *source,
	const struct tauti_shm_asked *asked)
{
	taut_status status = land(it, asked, source->payload, source->bytes);

	tauti_shm_release(it, source);
	return status;
}

/* Keeps the message at the head of the FIFO for who will ask for it. */
static bool keep_next(struct tauti_shm *it, uint32_t peer,
	const struct tauti_shm_message *message)
{
	struct tauti_shm_come *node = obtain(&it->spare_come, sizeof *node);

	if (!node)
		return false;
	node->key.peer = peer;
	node->key.tag = message->tag;
	node->bytes = message->bytes;
	node->slot = message->slot;
	node->copy = NULL;
	if (message->slot == TAUTI_SHM_INLINE)
		memcpy(node->payload, message->payload, message->bytes);
	else
		it->peers[peer].n_held++;
	insert(&it->come, &node->key);
	take(it, peer, message);
	return true;
}

/* --- draining ----------------------------------------------------------------------*/

static void finish(struct tauti_shm *it, struct tauti_shm_asked *asked,
	taut_status status)
{
	struct taut_coll_request *request = asked->request;

	spare(&it->spare_asked, &asked->key);
	request->done(request, status);
}

/* One message of a peer: TAUT_EAGAIN when there is none. */
static taut_status drain_one(struct tauti_shm *it, uint32_t peer,
	struct taut_error *err)
{
	struct tauti_shm_message message;
	struct tauti_shm_source source;
	struct tauti_shm_asked *asked;

	switch (tauti_shm_look(&it->peers[peer].in, &it->map.layout, &message)) {
	case TAUTI_SHM_NOTHING:
		return TAUT_EAGAIN;
	case TAUTI_SHM_NONSENSE:
		return tauti_shm_break(it, TAUT_EFORMAT, peer,
			"wrote what is no message", err);
	case TAUTI_SHM_MESSAGE:
		break;
	}
	asked = extract(&it->asked, peer, message.tag);
	if (asked) {
		source = at_head(it, peer, &message);
		finish(it, asked, land_source(it, &source, asked));
	} else if (!keep_next(it, peer, &message)) {
		return taut_error_set(err, TAUT_ENOMEM, -1, "out of memory");
	}
	return it->broken.code;
}

static taut_status drain_peer(
	struct tauti_shm *it, uint32_t peer, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (int i = 0; i < MOST_AT_ONCE && status == TAUT_OK; i++)
		status = drain_one(it, peer, err);
	return status == TAUT_EAGAIN ? TAUT_OK : status;
}

static bool owes(const struct tauti_shm *it, uint32_t peer)
{
	return it->peers[peer].n_held > 0 &&
		atomic_load_explicit(&it->peers[peer].bell->full,
			memory_order_relaxed) != 0;
}

bool tauti_shm_owes(const struct tauti_shm *it)
{
	if (it->come.n == 0)
		return false;
	for (uint32_t i = 0; i < it->n_peers; i++)
		if (owes(it, i))
			return true;
	return false;
}

static bool give_back(struct tauti_shm *it, struct tauti_shm_come *node)
{
	void *copy = malloc(node->bytes);

	if (!copy)
		return false;
	memcpy(copy, slot_at(it, node->key.peer, node->slot), node->bytes);
	free_slot(it, node->key.peer, node->slot);
	it->peers[node->key.peer].n_held--;
	node->copy = copy;
	node->slot = TAUTI_SHM_INLINE;
	return true;
}

/* Slots that senders need, and unasked messages hold. */
static taut_status give_back_all(struct tauti_shm *it, struct taut_error *err)
{
	for (uint32_t i = 0; i < TAUTI_SHM_BUCKETS; i++)
		for (struct tauti_shm_key *key = it->come.buckets[i]; key;
			key = key->next) {
			struct tauti_shm_come *node = (void *)key;

			if (node->slot != TAUTI_SHM_INLINE &&
				owes(it, key->peer) && !give_back(it, node))
				return taut_error_set(
					err, TAUT_ENOMEM, -1, "out of memory");
		}
	return TAUT_OK;
}

taut_status tauti_shm_drain(struct tauti_shm *it, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; i < it->n_peers && status == TAUT_OK; i++)
		if (i != it->map.index && tauti_shm_any(&it->peers[i].in))
			status = drain_peer(it, i, err);
	if (status == TAUT_OK && tauti_shm_owes(it))
		status = give_back_all(it, err);
	return status;
}

/* --- asking ------------------------------------------------------------------------*/

bool tauti_shm_is_kept(struct tauti_shm *it, uint32_t peer, uint64_t tag)
{
	return find(&it->come, peer, tag) != NULL;
}

/* Those before it in its FIFO go where they belong. */
bool tauti_shm_peek(struct tauti_shm *it, uint32_t peer, uint64_t tag,
	struct tauti_shm_source *ret_source)
{
	struct tauti_shm_key **kept = find(&it->come, peer, tag);
	struct tauti_shm_in *in = &it->peers[peer].in;
	struct tauti_shm_message message;

	if (kept) {
		*ret_source = out_of(it, (struct tauti_shm_come *)*kept);
		return true;
	}
	for (int i = 0; i < MOST_AT_ONCE; i++) {
		if (tauti_shm_look(in, &it->map.layout, &message) !=
			TAUTI_SHM_MESSAGE)
			return false;
		if (message.tag == tag) {
			*ret_source = at_head(it, peer, &message);
			return true;
		}
		if (drain_one(it, peer, NULL) != TAUT_OK)
			return false;
	}
	return false;
}

/* Whether it has come already. */
static bool get_now(struct tauti_shm *it, const struct tauti_shm_asked *asked,
	taut_status *ret_status)
{
	struct tauti_shm_source source;

	if (!tauti_shm_peek(it, asked->key.peer, asked->key.tag, &source))
		return false;
	*ret_status = land_source(it, &source, asked);
	return true;
}

static taut_status check(const struct tauti_shm *it, uint32_t peer,
	struct taut_error *err)
{
	if (it->broken.code != TAUT_OK) {
		if (err)
			*err = it->broken;
		return it->broken.code;
	}
	if (peer >= it->n_world || peer == it->rank ||
		it->number_of[peer] == TAUT_NONE)
		return taut_error_set(err, TAUT_EINVAL, -1, "shared memory: "
			"rank %u is not another one of this host", peer);
	return TAUT_OK;
}

static taut_status ask(struct tauti_shm *it, uint32_t rank,
	struct tauti_shm_asked *asked, struct taut_error *err)
{
	taut_status status = check(it, rank, err);
	struct tauti_shm_asked *node;

	if (status != TAUT_OK)
		return status;
	asked->key.peer = it->number_of[rank];
	if (get_now(it, asked, &status)) {
		asked->request->done(asked->request, status);
		return TAUT_OK;
	}
	if (it->broken.code != TAUT_OK)
		return check(it, rank, err);
	node = obtain(&it->spare_asked, sizeof *node);
	if (!node)
		return taut_error_set(err, TAUT_ENOMEM, -1, "out of memory");
	*node = *asked;
	insert(&it->asked, &node->key);
	return TAUT_OK;
}

taut_status tauti_shm_recv(void *engine, uint32_t peer, uint64_t tag,
	void *data, size_t bytes, struct taut_coll_request *request,
	struct taut_error *err)
{
	struct tauti_shm_asked asked = { .key.tag = tag, .into = data,
		.bytes = bytes, .request = request };

	return ask(engine, peer, &asked, err);
}

taut_status tauti_shm_recv_reduce(void *engine, uint32_t peer, uint64_t tag,
	enum taut_type type, enum taut_reduction reduction, void *into,
	const void *from, size_t count, struct taut_coll_request *request,
	struct taut_error *err)
{
	struct tauti_shm_asked asked = { .key.tag = tag, .into = into,
		.from = from, .bytes = count * taut_type_bytes(type),
		.reduces = true, .type = (uint8_t)type,
		.reduction = (uint8_t)reduction, .request = request };

	return ask(engine, peer, &asked, err);
}

bool tauti_shm_arrived(void *engine, uint64_t tag, uint64_t mask)
{
	struct tauti_shm *it = engine;

	if (it->come.n == 0)
		return false;
	for (uint32_t i = 0; i < TAUTI_SHM_BUCKETS; i++)
		for (struct tauti_shm_key *key = it->come.buckets[i]; key;
			key = key->next)
			if ((key->tag & mask) == (tag & mask))
				return true;
	return false;
}

void tauti_shm_end_asked(struct tauti_shm *it, taut_status status)
{
	for (uint32_t i = 0; i < TAUTI_SHM_BUCKETS; i++)
		while (it->asked.buckets[i]) {
			struct tauti_shm_asked *asked =
				(void *)it->asked.buckets[i];

			it->asked.buckets[i] = asked->key.next;
			it->asked.n--;
			finish(it, asked, status);
		}
}

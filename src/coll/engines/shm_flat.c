/* shm_flat.c - an all-reduce of one message from each to each.
 *
 * What this rank has goes to each other one as any message does, and what comes is
 * reduced in the order of the ranks, right out of where it stands: no operation is
 * begun and ended for each message, and nothing is copied on the way.
 *
 * A message is waited for in its FIFO. Who drains that meanwhile keeps it, as it
 * keeps all that nobody asked for; so nothing ever waits behind it. */
#include "coll/engines/shm.h"

#include <stdlib.h>

/* --- sums ------------------------------------------------------------------------------*/

/* sum = sum op `what`, which makes it the sum of ranks 0 to i. Beside what this rank
 * has, as long as that is not in it: `into` may be where that is. */
static void add(const struct tauti_shm *it, struct tauti_shm_flat *op,
	uint32_t i, const void *what)
{
	const struct taut_coll_flat *flat = op->flat;
	void *into = i < it->map.index ? flat->beside : flat->into;

	taut_reduce(flat->type, flat->reduction, into, op->sum, what,
		flat->count);
	op->sum = into;
}

/* Whether it is as long as it should be. */
static bool fits(const struct tauti_shm *it, struct tauti_shm_flat *op,
	const struct tauti_shm_source *source)
{
	if (source->bytes == op->bytes)
		return true;
	op->status = TAUT_EMATCH;
	op->flat->peer = it->peers[source->peer].rank;
	return false;
}

/* --- one after another -----------------------------------------------------------------*/

static bool waits_for(
	const struct tauti_shm *it, struct tauti_shm_flat *op, uint32_t peer)
{
	op->flat->peer = it->peers[peer].rank;
	return false;
}

/* Ranks 0 and 1 to begin with, of which this is none. */
static bool take_two(struct tauti_shm *it, struct tauti_shm_flat *op)
{
	struct tauti_shm_source first, second;

	if (!tauti_shm_peek(it, 0, op->flat->tag, &first))
		return waits_for(it, op, 0);
	if (!tauti_shm_peek(it, 1, op->flat->tag, &second))
		return waits_for(it, op, 1);
	op->sum = first.payload;
	if (fits(it, op, &first) && fits(it, op, &second))
		add(it, op, 1, second.payload);
	tauti_shm_release(it, &first);
	tauti_shm_release(it, &second);
	op->at = 2;
	return true;
}

static bool take_one(struct tauti_shm *it, struct tauti_shm_flat *op)
{
	struct tauti_shm_source source;

	if ((it->come.n == 0 && !tauti_shm_any(&it->peers[op->at].in)) ||
		!tauti_shm_peek(it, op->at, op->flat->tag, &source))
		return waits_for(it, op, op->at);
	/* 0 + 1 is 1 + 0 */
	if (fits(it, op, &source))
		add(it, op, op->at ? op->at : 1, source.payload);
	tauti_shm_release(it, &source);
	op->at++;
	return true;
}

/* Whether all is there. This rank's own is the first of the sum on ranks 0 and 1. */
static bool advance(struct tauti_shm *it, struct tauti_shm_flat *op)
{
	uint32_t me = it->map.index;

	if (!op->is_sent || (!op->sum && !take_two(it, op)))
		return false;
	while (op->at < it->n_peers && op->status == TAUT_OK) {
		if (op->at != me) {
			if (!take_one(it, op))
				return false;
			continue;
		}
		if (me > 1)
			add(it, op, me, op->flat->from);
		op->at++;
	}
	return true;
}

/* --- those under way -------------------------------------------------------------------*/

static void spare(struct tauti_shm *it, struct tauti_shm_flat *op)
{
	op->next = it->spare_flats;
	it->spare_flats = op;
}

static void end_one(struct tauti_shm *it, struct tauti_shm_flat **at,
	taut_status status)
{
	struct tauti_shm_flat *op = *at;
	struct taut_coll_request *request = &op->flat->request;

	*at = op->next;
	if (!*at)
		it->flats_end = at;
	spare(it, op);
	request->done(request, status);
}

void tauti_shm_advance_flats(struct tauti_shm *it)
{
	struct tauti_shm_flat **at = &it->flats;

	/* What breaks the engine, here or in a done(), ends all, also *at. */
	while (it->broken.code == TAUT_OK && *at) {
		bool over = advance(it, *at);

		if (it->broken.code != TAUT_OK)
			return;
		if (over)
			end_one(it, at, (*at)->status);
		else
			at = &(*at)->next;
	}
}

bool tauti_shm_flat_kept(struct tauti_shm *it)
{
	for (struct tauti_shm_flat *op = it->flats; op; op = op->next)
		if (op->is_sent && tauti_shm_is_kept(it, op->at, op->flat->tag) &&
			(op->sum || tauti_shm_is_kept(it, 1, op->flat->tag)))
			return true;
	return false;
}

void tauti_shm_end_flats(struct tauti_shm *it, taut_status status)
{
	while (it->flats)
		end_one(it, &it->flats, status);
}

void tauti_shm_free_flats(struct tauti_shm *it)
{
	struct tauti_shm_flat *next;

	for (struct tauti_shm_flat *op = it->spare_flats; op; op = next) {
		next = op->next;
		free(op);
	}
}

/* --- beginning -------------------------------------------------------------------------*/

static taut_status check(const struct tauti_shm *it, size_t bytes,
	struct taut_error *err)
{
	if (it->broken.code != TAUT_OK) {
		if (err)
			*err = it->broken;
		return it->broken.code;
	}
	if (it->n_peers != it->n_world || bytes > it->map.layout.slot_bytes)
		return taut_error_set(err, TAUT_EINVAL, -1, "shared memory: an "
			"all-reduce of %zu bytes in one, or not all ranks are "
			"of this host", bytes);
	return TAUT_OK;
}

static struct tauti_shm_flat *obtain(struct tauti_shm *it)
{
	struct tauti_shm_flat *op = it->spare_flats;

	if (!op)
		return malloc(sizeof *op);
	it->spare_flats = op->next;
	return op;
}

/* What waited for room went. */
static void note_sent(struct taut_coll_request *request, taut_status status)
{
	((struct tauti_shm_flat *)request)->is_sent = status == TAUT_OK;
}

static taut_status send(struct tauti_shm *it, struct tauti_shm_flat *op,
	struct taut_error *err)
{
	const struct taut_coll_flat *flat = op->flat;
	uint32_t n = it->n_peers - 1;

	op->is_sent = tauti_shm_send_now(
		it, it->others, n, flat->tag, flat->from, op->bytes);
	return op->is_sent ? TAUT_OK : tauti_shm_send_later(it, it->others, n,
		flat->tag, flat->from, op->bytes, &op->sent, err);
}

taut_status tauti_shm_flat(
	void *engine, struct taut_coll_flat *flat, struct taut_error *err)
{
	struct tauti_shm *it = engine;
	size_t bytes = flat->count * taut_type_bytes(flat->type);
	taut_status status = check(it, bytes, err);
	struct tauti_shm_flat *op;

	if (status != TAUT_OK)
		return status;
	op = obtain(it);
	if (!op)
		return taut_error_set(err, TAUT_ENOMEM, -1, "out of memory");
	op->sent.done = note_sent;
	op->next = NULL;
	op->flat = flat;
	op->bytes = (uint32_t)bytes;
	op->status = TAUT_OK;
	op->sum = it->map.index < 2 ? flat->from : NULL;
	op->at = 0;
	status = send(it, op, err);
	if (status != TAUT_OK) {
		spare(it, op);
		return status;
	}
	*it->flats_end = op;
	it->flats_end = &op->next;
	tauti_shm_advance_flats(it);
	return TAUT_OK;
}

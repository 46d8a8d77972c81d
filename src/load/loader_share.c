/* loader_share.c - samples that the host's other loaders prepared alike: a stage (stage.h)
 * in a pool of its own, and what its answers mean to a look of the mechanism.
 *
 * A ticket that was told MINE keeps that over later looks, until its sample is made or it is
 * given up: nobody is to wait for what nobody makes. */
#include "load/loader.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/now.h"

enum { VERSION = 2 }; /* of all that makes samples what they are, in memory */

#define DEFAULT_PATIENCE_NS INT64_C(1000000000)
/* Who was alive so long ago is taken to be: each time that is asked is a system call. */
#define ALIVE_NS INT64_C(2000000)
#define POSITION_END (UINT64_C(1) << 36)

/* --- whose samples are alike ---------------------------------------------------------*/
static uint64_t fingerprint_of(const struct taut_load *load)
{
	uint64_t x = tauti_hash_mix(taut_set_fingerprint(load->set) ^ TAUTI_HASH_B,
		load->options.seed ^ TAUTI_HASH_C);

	x = tauti_hash_mix(x ^ TAUTI_HASH_A,
		(load->options.shuffle | VERSION << 1) ^ TAUTI_HASH_C);
	return tauti_hash_mix(x ^ TAUTI_HASH_A,
		tauti_prepare_fingerprint(&load->prepare) ^ TAUTI_HASH_B);
}

/* --- life ----------------------------------------------------------------------------*/
/* The lock is held, or there is no other thread yet. */
static bool lives(void *context, struct tauti_stage_seat seat)
{
	struct tauti_load_share *share = context;
	struct tauti_load_neighbour *it = &share->neighbours[seat.seat];
	int64_t now_ns = tauti_now_ns();

	if (it->asked_ns && it->generation == seat.generation &&
		now_ns - it->asked_ns < ALIVE_NS)
		return true;
	if (!tauti_pool_seat_lives(share->pool, seat.seat, seat.generation))
		return false;
	it->generation = seat.generation;
	it->asked_ns = now_ns;
	return true;
}

static uint64_t places_within(uint64_t bytes, size_t sample_bytes)
{
	/* Words come in lines of 8. */
	uint64_t eight = tauti_stage_bytes(8, sample_bytes);
	uint64_t each = (tauti_stage_bytes(16, sample_bytes) - eight) / 8;
	uint64_t around = eight - 8 * each, n;

	if (bytes > UINT64_MAX / 8) /* no system has them */
		bytes = UINT64_MAX / 8;
	if (bytes < around)
		return 0;
	n = (bytes - around) / each;
	while (n && tauti_stage_bytes(n, sample_bytes) > bytes)
		n--; /* the last line */
	return n;
}

/* The oldest batch that is open lies within the ring, so that it can be completed. */
static taut_status check_room(
	const struct taut_load *load, uint64_t n_places, struct taut_error *err)
{
	uint64_t least = (uint64_t)load->options.batch * load->options.n_ranks;

	if (n_places >= least)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EINVAL, -1, "loader: share_bytes %llu are room "
		"for %llu samples, expected a batch of all ranks, which is %llu",
		(unsigned long long)load->options.share_bytes,
		(unsigned long long)n_places, (unsigned long long)least);
}

/* What two processes' functions do is not to be seen. */
static taut_status check_stage(const struct taut_load *load, struct taut_error *err)
{
	if (!load->prepare.stage || load->prepare.stage_name)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EINVAL, -1, "loader: share_bytes with a stage that has "
		"no name: expected stage_name, the same in all loaders whose stages do the "
		"same");
}

static void lay(struct taut_load *load, uint64_t n_places)
{
	struct tauti_load_share *share = load->common;

	tauti_stage_lay(&share->stage, tauti_pool_memory(share->pool), n_places,
		tauti_load_shared_bytes(load));
	share->stage.me.seat = tauti_pool_seat(share->pool);
	share->stage.me.generation = tauti_pool_generation(share->pool);
	share->stage.lives = lives;
	share->stage.context = share;
}

taut_status tauti_load_share_open(struct taut_load *load, struct taut_error *reterr)
{
	uint64_t bytes = load->options.share_bytes;
	uint64_t n_places = places_within(bytes, tauti_load_shared_bytes(load));
	taut_status status;

	if (!bytes)
		return TAUT_OK;
	status = check_stage(load, reterr);
	if (status == TAUT_OK)
		status = check_room(load, n_places, reterr);
	if (status != TAUT_OK)
		return status;
	load->common = calloc(1, sizeof *load->common);
	if (!load->common)
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"loader: no memory to share samples");
	load->common->patience_ns = load->options.share_patience_ns ?
		load->options.share_patience_ns : DEFAULT_PATIENCE_NS;
	load->common->stage.member = TAUT_NONE;
	status = tauti_pool_open(&(struct tauti_pool_options){
		.fingerprint = fingerprint_of(load),
		.bytes = bytes,
		.first_bytes = bytes,
	}, &load->common->pool, reterr);
	if (status != TAUT_OK)
		return status;
	lay(load, n_places);
	return tauti_stage_join(&load->common->stage, 0, reterr);
}

void tauti_load_share_close(struct taut_load *load)
{
	if (!load->common)
		return;
	tauti_stage_leave(&load->common->stage);
	tauti_pool_close(load->common->pool);
	free(load->common);
	load->common = NULL;
}

/* Who is no member makes alone what it looks for. */
void tauti_load_share_go(struct taut_load *load, uint64_t epoch, uint64_t position)
{
	struct tauti_load_share *share = load->common;

	if (!share)
		return;
	tauti_stage_leave(&share->stage);
	if (epoch >= POSITION_END / load->share.n_items)
		return;
	share->cursor = epoch * load->share.n_items + position;
	(void)!tauti_stage_join(&share->stage, share->cursor, NULL);
}

void tauti_load_share_move(struct taut_load *load, uint64_t position)
{
	struct tauti_load_share *share = load->common;

	if (!share || share->stage.member == TAUT_NONE)
		return;
	share->cursor = position;
	if (position < POSITION_END)
		tauti_stage_move(&share->stage, position);
	else
		tauti_stage_leave(&share->stage);
}

/* --- looks ---------------------------------------------------------------------------*/
static enum tauti_look alone(struct tauti_load_ticket *t)
{
	t->shared = TAUTI_LOAD_ALONE;
	return TAUTI_LOOK_MISSING;
}

/* Padding stands before what the loader is at. */
static bool is_of_the_stage(const struct tauti_load_share *share, uint64_t position)
{
	return share->stage.member != TAUT_NONE && position >= share->cursor &&
		position < POSITION_END;
}

/* The same answer again is waited for, from when it was first given. */
static bool is_patient(const struct tauti_load_share *share,
	struct tauti_load_ticket *t, enum tauti_stage_look answer)
{
	int64_t now_ns = tauti_now_ns();

	if (!t->waits_from_ns || t->waits_for != (uint8_t)answer) {
		t->waits_from_ns = now_ns;
		t->waits_for = (uint8_t)answer;
	}
	return now_ns - t->waits_from_ns < share->patience_ns;
}

/* Who is in the way of a place has gone out of it. */
static bool has_made_way(struct taut_load *load, struct tauti_load_ticket *t)
{
	struct tauti_load_share *share = load->common;
	uint32_t n;

	if (tauti_stage_bury(&share->stage))
		return true;
	if (is_patient(share, t, TAUTI_STAGE_FULL))
		return false;
	n = tauti_stage_detach(&share->stage, t->position);
	load->counts.share_detached += n;
	return n;
}

static enum tauti_look coming(struct taut_load *load)
{
	pthread_cond_signal(&load->watch);
	return TAUTI_LOOK_COMING;
}

static enum tauti_look ask(struct taut_load *load, struct tauti_load_ticket *t, bool claim)
{
	struct tauti_load_share *share = load->common;
	enum tauti_stage_look answer;

	do {
		answer = claim ? tauti_stage_look(&share->stage, t->position) :
				 tauti_stage_peek(&share->stage, t->position);
	} while (answer == TAUTI_STAGE_FULL && has_made_way(load, t));
	switch (answer) {
	case TAUTI_STAGE_HERE:
		t->shared = TAUTI_LOAD_COPIED;
		share->n_here++;
		return TAUTI_LOOK_HERE;
	case TAUTI_STAGE_MINE:
		if (claim)
			t->shared = TAUTI_LOAD_MADE;
		return TAUTI_LOOK_MISSING;
	case TAUTI_STAGE_COMING:
		if (!is_patient(share, t, answer))
			return alone(t);
		return coming(load);
	case TAUTI_STAGE_FULL:
		return coming(load);
	default:
		return alone(t);
	}
}

enum tauti_look tauti_load_share_look(
	struct taut_load *load, uint32_t ticket, uint64_t position, bool claim)
{
	struct tauti_load_share *share = load->common;
	struct tauti_load_ticket *t = &load->tickets[ticket];

	if (!share || t->shared == TAUTI_LOAD_MADE || t->shared == TAUTI_LOAD_ALONE)
		return TAUTI_LOOK_MISSING;
	if (t->position != position)
		t->waits_from_ns = 0;
	t->position = position;
	if (!is_of_the_stage(share, position))
		return alone(t);
	/* Beyond the ring: until its own batches before it are told. */
	if (position - share->cursor >= share->stage.n_places)
		return coming(load);
	return ask(load, t, claim);
}

void tauti_load_share_wait(struct taut_load *load, uint32_t seen, int64_t most_ns)
{
	tauti_stage_wait(&load->common->stage, seen, most_ns);
}

/* --- samples -------------------------------------------------------------------------*/
uint64_t tauti_load_shared_bytes(const struct taut_load *load)
{
	return load->shape.bytes + (load->shape.varies ? sizeof(int64_t) : 0);
}

/* Where samples have lengths, both travel as one, the sample first. */
taut_status tauti_load_share_copy(struct taut_load *load,
	const struct tauti_load_ticket *t, void *packed, void *sample, int64_t *length)
{
	if (!tauti_stage_copy(&load->common->stage, t->position, length ? packed : sample,
		tauti_load_shared_bytes(load)))
		return TAUT_EAGAIN;
	if (!length)
		return TAUT_OK;
	memcpy(sample, packed, load->shape.bytes);
	memcpy(length, (char *)packed + load->shape.bytes, sizeof *length);
	return TAUT_OK;
}

void tauti_load_share_publish(struct taut_load *load, const struct tauti_load_ticket *t,
	void *packed, const void *sample, const int64_t *length)
{
	if (t->shared != TAUTI_LOAD_MADE)
		return;
	if (length) {
		memcpy(packed, sample, load->shape.bytes);
		memcpy((char *)packed + load->shape.bytes, length, sizeof *length);
	}
	tauti_stage_publish(&load->common->stage, t->position, length ? packed : sample,
		tauti_load_shared_bytes(load));
}

void tauti_load_share_done(struct taut_load *load, uint32_t ticket, taut_status status)
{
	struct tauti_load_ticket *t = &load->tickets[ticket];

	if (status != TAUT_OK) {
		tauti_load_share_drop(load, ticket);
		return;
	}
	load->counts.share_made += t->shared == TAUTI_LOAD_MADE;
	load->counts.share_copied += t->shared == TAUTI_LOAD_COPIED;
	load->counts.share_alone += t->shared == TAUTI_LOAD_ALONE;
	t->shared = TAUTI_LOAD_UNKNOWN;
	t->waits_from_ns = 0;
}

void tauti_load_share_drop(struct taut_load *load, uint32_t ticket)
{
	struct tauti_load_ticket *t = &load->tickets[ticket];

	if (t->shared == TAUTI_LOAD_MADE)
		tauti_stage_drop(&load->common->stage, t->position);
	t->shared = TAUTI_LOAD_UNKNOWN;
	t->waits_from_ns = 0;
}

void tauti_load_share_end(struct taut_load *load)
{
	uint32_t n = load->options.depth * load->options.batch;

	for (uint32_t ticket = 0; load->common && ticket < n; ticket++)
		if (!load->tickets[ticket].is_under_way)
			tauti_load_share_drop(load, ticket);
	if (load->common)
		tauti_stage_leave(&load->common->stage);
}

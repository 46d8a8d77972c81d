/* feed_share.c - jobs that prepare alike share what they prepared, through the very stage
 * (load/stage.h) of a host's loaders, on the virtual clock. What load/loader_share.c does with
 * the answers is done here too; nobody dies, and a sample has one byte. */
#include "feed.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_NS INT64_C(1000000000) /* of taut/load.h */
#define POSITION_END (UINT64_C(1) << 36)
#define MOST_PLACES (UINT64_C(1) << 32)

enum { SAMPLE_BYTES = 1 };

enum told { UNKNOWN, MADE, COPIED, ALONE }; /* as of enum tauti_load_shared */

struct ticket {
	uint64_t position;
	int64_t waits_from_ns; /* with waits_for */
	enum tauti_stage_look waits_for;
	enum told told;
};

struct tauti_feed_share {
	struct tauti_feed_job *job;
	struct tauti_stage stage;
	uint64_t cursor;
	void *memory;   /* of the first of those who share; NULL of the others */
	struct ticket *tickets;
	uint64_t *awaited; /* items; room for all tickets */
	uint32_t n_awaited, seen;
	bool has_moved;
};

/* --- looks -------------------------------------------------------------------------*/

static enum tauti_look alone(struct ticket *t)
{
	t->told = ALONE;
	return TAUTI_LOOK_MISSING;
}

/* Wakes the job when it is out of patience. */
static bool is_patient(
	struct tauti_feed_share *share, struct ticket *t, enum tauti_stage_look answer)
{
	struct tauti_feed *feed = share->job->feed;
	uint32_t id = share->job->id;
	int64_t until_ns;

	if (t->waits_from_ns < 0 || t->waits_for != answer) {
		t->waits_from_ns = feed->now_ns;
		t->waits_for = answer;
	}
	until_ns = t->waits_from_ns + PATIENCE_NS;
	if (feed->now_ns >= until_ns)
		return false;
	if (feed->patience.place[id] == TAUT_NONE)
		due_set(&feed->patience, id, until_ns);
	return true;
}

static enum tauti_look ask(struct tauti_feed_share *share, struct ticket *t, bool claim)
{
	enum tauti_stage_look answer;

	do {
		answer = claim ? tauti_stage_look(&share->stage, t->position) :
				 tauti_stage_peek(&share->stage, t->position);
	} while (answer == TAUTI_STAGE_FULL && !is_patient(share, t, answer) &&
		tauti_stage_detach(&share->stage, t->position));
	switch (answer) {
	case TAUTI_STAGE_HERE:
		t->told = COPIED;
		return TAUTI_LOOK_HERE;
	case TAUTI_STAGE_MINE:
		if (claim)
			t->told = MADE;
		return TAUTI_LOOK_MISSING;
	case TAUTI_STAGE_COMING:
		return is_patient(share, t, answer) ? TAUTI_LOOK_COMING : alone(t);
	case TAUTI_STAGE_FULL:
		return TAUTI_LOOK_COMING;
	default:
		return alone(t);
	}
}

enum tauti_look tauti_feed_share_look(struct tauti_feed_share *share, uint32_t ticket,
	uint64_t position, bool claim)
{
	struct ticket *t = &share->tickets[ticket];

	if (t->told == MADE || t->told == ALONE)
		return TAUTI_LOOK_MISSING;
	if (t->position != position)
		t->waits_from_ns = -1;
	t->position = position;
	if (share->stage.member == TAUT_NONE || position < share->cursor ||
		position >= POSITION_END)
		return alone(t);
	if (position - share->cursor >= share->stage.n_places)
		return TAUTI_LOOK_COMING;
	return ask(share, t, claim);
}

/* --- samples -----------------------------------------------------------------------*/

bool tauti_feed_share_is_copy(const struct tauti_feed_share *share, uint32_t ticket)
{
	return share->tickets[ticket].told == COPIED;
}

taut_status tauti_feed_share_made(struct tauti_feed_share *share, uint32_t ticket)
{
	struct ticket *t = &share->tickets[ticket];
	unsigned char sample[SAMPLE_BYTES] = { 0 };
	taut_status status = TAUT_OK;

	if (t->told == MADE)
		tauti_stage_publish(&share->stage, t->position, sample, sizeof sample);
	else if (t->told == COPIED && !tauti_stage_copy(&share->stage, t->position, sample,
			sizeof sample))
		status = TAUT_EAGAIN;
	t->told = UNKNOWN;
	t->waits_from_ns = -1;
	return status;
}

void tauti_feed_share_move(struct tauti_feed_share *share, uint64_t position)
{
	if (share->stage.member == TAUT_NONE)
		return;
	share->cursor = position;
	share->has_moved = true;
	if (position < POSITION_END)
		tauti_stage_move(&share->stage, position);
	else
		tauti_stage_leave(&share->stage);
}

/* --- news --------------------------------------------------------------------------*/

static void note_awaited(void *context, uint64_t item)
{
	struct tauti_feed_share *share = context;

	share->awaited[share->n_awaited++] = item;
}

bool tauti_feed_share_has_news(const struct tauti_feed_share *share)
{
	return share->has_moved || tauti_stage_news(&share->stage) != share->seen;
}

void tauti_feed_share_again(struct tauti_feed_share *share)
{
	due_drop(&share->job->feed->patience, share->job->id);
	share->has_moved = false;
	share->seen = tauti_stage_news(&share->stage);
	share->n_awaited = 0;
	tauti_supply_awaited(share->job->supply, note_awaited, share);
	for (uint32_t i = 0; i < share->n_awaited; i++)
		tauti_supply_again(share->job->supply, share->awaited[i]);
}

/* --- life --------------------------------------------------------------------------*/

static bool lives(void *context, struct tauti_stage_seat seat)
{
	(void)context;
	(void)seat;
	return true;
}

/* Whether their samples are the same. */
static bool is_alike(const struct taut_feed_job *a, const struct taut_feed_job *b)
{
	return a->share_items == b->share_items && a->set == b->set && a->seed == b->seed &&
		a->shuffle == b->shuffle && a->prepare_ns == b->prepare_ns &&
		a->prepare_ns_byte == b->prepare_ns_byte &&
		a->prepare_spread == b->prepare_spread;
}

static taut_status lay(struct tauti_feed_share *share, struct taut_error *reterr)
{
	struct tauti_feed_job *job = share->job, *first = job->feed->jobs;
	uint64_t bytes = tauti_stage_bytes(job->is.share_items, SAMPLE_BYTES);
	void *memory;

	while (!is_alike(&first->is, &job->is))
		first++;
	if (first == job && bytes < SIZE_MAX - 64)
		share->memory = aligned_alloc(64, (size_t)(bytes + 63) & ~(size_t)63);
	memory = first->sharing->memory;
	if (!memory)
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "feed: out of memory for %"
			PRIu64 " samples to share", job->is.share_items);
	if (first == job)
		memset(memory, 0, (size_t)bytes);
	tauti_stage_lay(&share->stage, memory, job->is.share_items, SAMPLE_BYTES);
	share->stage.me.seat = job->id;
	share->stage.me.generation = 1;
	share->stage.lives = lives;
	return TAUT_OK;
}

static taut_status check(const struct tauti_feed_job *job, struct taut_error *reterr)
{
	uint64_t least = (uint64_t)job->is.batch * job->is.n_ranks;

	if (job->is.form != TAUT_FEED_OURS)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"feed: another's loader shares no samples");
	if (job->is.share_items < least || job->is.share_items > MOST_PLACES)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "feed: %" PRIu64 " samples "
			"to share, expected a batch of all ranks, which is %" PRIu64
			", to 2^32", job->is.share_items, least);
	if (job->id >= TAUTI_STAGE_MEMBERS)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "feed: job %" PRIu32
			" shares samples, expected one of the first %d", job->id,
			TAUTI_STAGE_MEMBERS);
	return TAUT_OK;
}

taut_status tauti_feed_share_open(struct tauti_feed_job *job, struct taut_error *reterr)
{
	taut_status status = check(job, reterr);
	struct tauti_feed_share *share;

	if (status)
		return status;
	job->sharing = share = calloc(1, sizeof *share);
	if (!share)
		goto no_memory;
	share->job = job;
	share->stage.member = TAUT_NONE;
	share->tickets = calloc(job->n_tickets, sizeof *share->tickets);
	share->awaited = calloc(job->n_tickets, sizeof *share->awaited);
	if (!share->tickets || !share->awaited)
		goto no_memory;
	for (uint32_t i = 0; i < job->n_tickets; i++)
		share->tickets[i].waits_from_ns = -1;
	return lay(share, reterr);
no_memory:
	return taut_error_set(reterr, TAUT_ENOMEM, -1,
		"feed: out of memory to share samples");
}

taut_status tauti_feed_share_join(struct tauti_feed_share *share, struct taut_error *reterr)
{
	return tauti_stage_join(&share->stage, 0, reterr);
}

void tauti_feed_share_leave(struct tauti_feed_share *share)
{
	due_drop(&share->job->feed->patience, share->job->id);
	share->seen = tauti_stage_news(&share->stage);
	tauti_stage_leave(&share->stage);
}

void tauti_feed_share_close(struct tauti_feed_share *share)
{
	if (!share)
		return;
	free(share->memory);
	free(share->tickets);
	free(share->awaited);
	free(share);
}

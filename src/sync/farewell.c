/* farewell.c - a rank that ends says so, and what the others make of it.
 *
 * An all-reduce to the least of a few words: what the first one of those that end
 * says about itself, or all bits where a rank only answers. Every thread answers at
 * once, so that who leaves needs to wait for a message there and back alone.
 *
 * Who leaves in peace has nothing under way: all that it ever began has ended
 * there, and will on the other ranks. What they begin beyond that cannot end: a
 * collective of pieces or a round or a run with a number that the one who left did
 * not reach. So who leaves next, in peace too, needs to say so only if it has not
 * reached those numbers itself. */
#include "sync/sync.h"

#include <inttypes.h>

enum kind { FAILED, UNDER_WAY, IN_PEACE };

/* The others answer in the time of a message there and back, if at all. */
static const int64_t WAIT_NS = 5000000000;

static void over(void *context, taut_status status)
{
	struct taut_sync *sync = context;

	sync->farewell.over = true;
	sync->farewell.status = status;
}

static taut_status begin(struct taut_sync *sync, struct taut_error *err)
{
	struct tauti_farewell *farewell = &sync->farewell;
	struct taut_coll_call call = { .verb = TAUT_ALLREDUCE,
		.type = TAUT_UINT64, .reduction = TAUT_MIN,
		.output = farewell->words, .count = TAUTI_FAREWELL_WORDS,
		.way = TAUT_WAY_FLAT };

	farewell->begun = true;
	farewell->over = farewell->heard = false;
	return taut_comm_start(sync->farewell_comm, &call, over, sync, err);
}

static taut_status answer(struct taut_sync *sync, struct taut_error *err)
{
	for (int i = 0; i < TAUTI_FAREWELL_WORDS; i++)
		sync->farewell.words[i] = UINT64_MAX;
	return begin(sync, err);
}

/* --- what others said --------------------------------------------------------------*/

static uint32_t who(const struct tauti_farewell *farewell)
{
	return (uint32_t)(farewell->words[0] >> 8);
}

static taut_status hear(struct taut_sync *sync, struct taut_error *err)
{
	struct tauti_farewell *farewell = &sync->farewell;
	int code = (int)(farewell->words[0] & 0xff);

	farewell->heard = true;
	if (farewell->status)
		return tauti_sync_comm_failed(sync, farewell->status, err);
	farewell->told = true;
	switch (farewell->words[0] >> 40) {
	case FAILED:
		return taut_error_set(err, TAUT_EIO, -1,
			"sync: rank %" PRIu32 " has failed: %s", who(farewell),
			taut_status_name((taut_status)-code));
	case UNDER_WAY:
		return taut_error_set(err, TAUT_EIO, -1, "sync: rank %" PRIu32
			" has left with tasks under way", who(farewell));
	default:
		farewell->told = false;
		farewell->left = true;
		return TAUT_OK;
	}
}

static bool has_open(struct taut_sync *sync)
{
	bool open;

	pthread_mutex_lock(&sync->lock);
	open = sync->n_open > 0;
	pthread_mutex_unlock(&sync->lock);
	return open;
}

/* Tasks or runs. */
static bool is_under_way(struct taut_sync *sync)
{
	bool under_way;

	pthread_mutex_lock(&sync->lock);
	under_way = sync->n_open || sync->n_open_runs;
	pthread_mutex_unlock(&sync->lock);
	return under_way;
}

/* Whether something was begun that the one who left has no part in, or waits for a
 * round that will not come. Others find that themselves. */
static bool needs_left(struct taut_sync *sync)
{
	const uint64_t *reached = &sync->farewell.words[1];

	if (sync->n_messages > reached[0] ||
		sync->round.n_started > reached[1] || sync->n_runs > reached[2])
		return true;
	return !sync->oldest && !sync->round.under_way && has_open(sync);
}

static taut_status check_left(struct taut_sync *sync, struct taut_error *err)
{
	if (!needs_left(sync))
		return TAUT_OK;
	sync->farewell.told = true;
	return taut_error_set(err, TAUT_EIO, -1, "sync: rank %" PRIu32 " has "
		"left, and what is under way needs it", who(&sync->farewell));
}

/* A second one that begins is of a rank that fails, or of the one that has left, which
 * leaves the next sync already. While nothing is under way here it does not matter
 * which; else what is may need the one that fails. */
taut_status tauti_farewell_move(
	struct taut_sync *sync, bool *moved, struct taut_error *err)
{
	struct tauti_farewell *farewell = &sync->farewell;
	taut_status status = TAUT_OK;

	if (sync->n_ranks == 1)
		return TAUT_OK;
	if (farewell->left)
		status = check_left(sync, err);
	if (status)
		return status;
	if (farewell->over && !farewell->heard) {
		*moved = true;
		status = hear(sync, err);
	} else if (!farewell->begun && taut_comm_asked(sync->farewell_comm)) {
		*moved = true;
		status = answer(sync, err);
	} else if (farewell->heard && is_under_way(sync) &&
		taut_comm_asked(sync->farewell_comm)) {
		farewell->told = true;
		return taut_error_set(err, TAUT_EIO, -1,
			"sync: another rank has failed");
	}
	return status;
}

/* Where one has left, what the communicator says of others is mostly of those who
 * found that before. */
void tauti_farewell_explain(
	const struct taut_sync *sync, struct taut_error *why)
{
	const struct tauti_farewell *farewell = &sync->farewell;
	struct taut_error then = *why;

	if (farewell->left && !farewell->told)
		taut_error_set(why, then.code, then.offset, "sync: rank %" PRIu32
			" has left, and then: %s", who(farewell), then.message);
}

/* --- what this one says ------------------------------------------------------------*/

static void fill(struct taut_sync *sync, enum kind kind, taut_status code)
{
	uint64_t *words = sync->farewell.words;

	words[0] = (uint64_t)kind << 40 | (uint64_t)sync->rank << 8 |
		(uint64_t)-code;
	words[1] = sync->n_messages;
	words[2] = sync->round.n_started;
	words[3] = sync->n_runs;
}

static bool is_peace(const struct tauti_farewell *farewell)
{
	return farewell->over && !farewell->status &&
		farewell->words[0] >> 40 == IN_PEACE;
}

/* Had this rank part in all that the one who left in peace has begun? Else there may be
 * ranks that need it for what does not need that one any more. */
static bool has_reached_left(const struct taut_sync *sync)
{
	const uint64_t *reached = &sync->farewell.words[1];

	return sync->n_messages >= reached[0] &&
		sync->round.n_started >= reached[1] &&
		sync->n_runs >= reached[2];
}

/* In peace also the round that this rank was asked for last is waited for: a twin
 * that is destroyed with something under way ends the communicator. */
static bool is_settled(const struct taut_sync *sync, enum kind kind)
{
	const struct tauti_round *round = &sync->round;

	if (kind == IN_PEACE && is_peace(&sync->farewell))
		return !round->under_way || round->over;
	return sync->farewell.over;
}

static void await(struct taut_sync *sync, enum kind kind)
{
	int64_t until_ns = tauti_now_ns() + WAIT_NS, left_ns = WAIT_NS;
	taut_status status = taut_comm_progress(sync->comm, NULL);

	while (!status && !is_settled(sync, kind) && left_ns > 0) {
		status = taut_comm_wait(sync->comm, left_ns, NULL);
		if (!status)
			status = taut_comm_progress(sync->comm, NULL);
		left_ns = until_ns - tauti_now_ns();
	}
}

/* Memory that is short, maybe why this rank fails, may be there in a moment. */
static taut_status insist(struct taut_sync *sync)
{
	const int64_t moment_ns = 10000000;
	int64_t until_ns = tauti_now_ns() + WAIT_NS;
	taut_status status = begin(sync, NULL);

	while (status == TAUT_ENOMEM && tauti_now_ns() < until_ns) {
		if (taut_comm_wait(sync->comm, moment_ns, NULL) ||
			taut_comm_progress(sync->comm, NULL))
			return TAUT_EIO; /* it was the communicator's end */
		status = begin(sync, NULL);
	}
	return status;
}

void tauti_farewell_say(struct taut_sync *sync, const struct taut_error *why)
{
	struct tauti_farewell *farewell = &sync->farewell;
	enum kind kind = FAILED;
	bool first = !farewell->begun;

	if (sync->n_ranks == 1 || farewell->told)
		return;
	if (!why)
		kind = is_under_way(sync) ? UNDER_WAY : IN_PEACE;
	if (!first) {
		await(sync, kind);
		if (!is_peace(farewell) ||
			(kind == IN_PEACE && has_reached_left(sync)))
			return; /* they know, or never will */
		kind = kind == IN_PEACE ? UNDER_WAY : kind;
	}
	fill(sync, kind, why ? why->code : TAUT_OK);
	if (!insist(sync) && first) /* who left in peace cannot answer */
		await(sync, kind);
	else /* and the communicator may know that it has left */
		(void)!taut_comm_progress(sync->comm, NULL);
}

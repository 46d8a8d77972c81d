/* rounds.c - what ranks agree on: the and of their words, by an all-reduce in
 * which each rank sends to each (TAUT_WAY_FLAT). So one that has entered a round is
 * heard of by all at once; with other ways some are only sent to when others
 * have entered too, who do not know that they should.
 *
 * The first collective compares what was declared, and a second one finds what
 * differs, as the scheduler does with its tasks. It knows of no types and factors,
 * and compares nothing without rounds (DECLARED).
 *
 * Limits that change later it compares in its rounds, in whose words this adds how
 * pieces are carried. Without those a rank that has
 * new ones (it is one tune ahead) holds its next tasks back and asks by a round, in
 * which each says how many tunes it has behind it, how many messages it had begun,
 * and its limits; the others answer at once. Who is behind goes on with what the
 * others have ended, and asks in turn when it has tuned. One that begins a message
 * beyond that, or holds tasks back for a tune that is not the others' last, has not
 * tuned where they did. */
#include "sync/sync.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { COMPARED = 10 };

static taut_status reserve(
	struct tauti_round *round, size_t n, struct taut_error *err)
{
	uint64_t *words;

	round->n_words = n;
	if (n <= round->capacity)
		return TAUT_OK;
	n += n / 2;
	words = realloc(round->words, n * sizeof *words);
	if (!words)
		return taut_error_set(
			err, TAUT_ENOMEM, -1, "sync: out of memory");
	round->words = words;
	round->capacity = n;
	return TAUT_OK;
}

static void over(void *context, taut_status status)
{
	struct taut_sync *sync = context;

	sync->round.over = true;
	sync->round.status = status;
}

/* With the words that are there. */
static taut_status begin(struct taut_sync *sync, struct taut_error *err)
{
	struct tauti_round *round = &sync->round;
	struct taut_coll_call call = { .verb = TAUT_ALLREDUCE,
		.type = TAUT_UINT64,
		.reduction = round->of_limits ? TAUT_MIN : TAUT_BIT_AND,
		.output = round->words, .count = round->n_words,
		.way = TAUT_WAY_FLAT };

	round->under_way = true;
	round->over = false;
	round->n_started++;
	return taut_comm_start(sync->round_comm, &call, over, sync, err);
}

/* Pairs of a number and its complement: their and is what this rank sent if and
 * only if all sent the same. */
static void put_pair(uint64_t *words, size_t i, uint64_t number)
{
	words[2 * i] = number;
	words[2 * i + 1] = ~number;
}

static uint64_t hash_carry(const struct tauti_carry *carry)
{
	uint64_t fields[3] = { (uint64_t)carry->way, carry->pass_bytes,
		carry->passes_at_once };

	return tauti_hash((const char *)fields, sizeof fields);
}

taut_status tauti_round_agree(void *context, uint64_t number,
	const uint64_t *words, size_t n, struct taut_error *err)
{
	struct taut_sync *sync = context;
	struct tauti_round *round = &sync->round;
	taut_status status = reserve(round, n + 2, err);

	if (status)
		return status;
	memcpy(round->words, words, n * sizeof *words);
	round->carry_hash = hash_carry(&sync->carry);
	put_pair(round->words + n, 0, round->carry_hash);
	round->number = number;
	round->n_agree = number + 1;
	return begin(sync, err);
}

/* Behind the scheduler's words. Ranks may send others as long as that leads to no
 * message: one has changed it, and another not yet. */
static taut_status take_agreed(struct taut_sync *sync, struct taut_error *err)
{
	struct tauti_round *round = &sync->round;
	size_t n = round->n_words - 2;

	round->carry_differs = round->words[n] != round->carry_hash ||
		round->words[n + 1] != ~round->carry_hash;
	return taut_sched_agreed(
		sync->sched, round->number, round->words, n, err);
}

/* --- whether ranks declared the same -------------------------------------------------*/

static bool pair_differs(const struct tauti_round *round, size_t i)
{
	return memcmp(&round->words[2 * i], &round->compared[2 * i],
		2 * sizeof *round->words) != 0;
}

static uint64_t hash_task(const struct tauti_task_of_sync *task)
{
	uint64_t fields[5] = { (uint64_t)task->type, task->count,
		(uint64_t)task->priority, task->group, 0 };

	memcpy(&fields[4], &task->factor, sizeof task->factor);
	return tauti_hash((const char *)fields, sizeof fields);
}

static uint64_t hash_tasks(const struct taut_sync *sync)
{
	uint64_t hash = TAUTI_HASH_A;

	for (size_t i = 0; i < sync->tasks.count; i++)
		hash = tauti_hash_mix(hash ^ TAUTI_HASH_B,
			hash_task(&sync->tasks.data[i]) ^ TAUTI_HASH_C);
	return hash;
}

static void put_carry(
	uint64_t *words, size_t i, const struct tauti_carry *carry)
{
	put_pair(words, i, (uint64_t)carry->way);
	put_pair(words, i + 1, carry->pass_bytes);
	put_pair(words, i + 2, carry->passes_at_once);
}

/* What is sent is kept, to be compared with the answer. */
static taut_status begin_match(struct taut_sync *sync, struct taut_error *err)
{
	struct tauti_round *round = &sync->round;
	size_t bytes = round->n_words * sizeof *round->words;
	uint64_t *compared = realloc(round->compared, bytes);

	if (!compared)
		return taut_error_set(
			err, TAUT_ENOMEM, -1, "sync: out of memory");
	round->compared = compared;
	memcpy(compared, round->words, bytes);
	return begin(sync, err);
}

taut_status tauti_round_match(struct taut_sync *sync, struct taut_error *err)
{
	const struct taut_sync_options *options = &sync->options;
	struct tauti_round *round = &sync->round;
	taut_status status;

	if (round->match == TAUTI_MATCH_TUNED) {
		round->wants_limits = true;
		return TAUT_OK;
	}
	round->match = TAUTI_MATCHED;
	if (sync->n_ranks == 1)
		return TAUT_OK;
	round->match = TAUTI_MATCH_ASKED;
	status = reserve(round, 2 * COMPARED, err);
	if (status)
		return status;
	put_pair(round->words, 0, sync->tasks.count);
	put_pair(round->words, 1, hash_tasks(sync));
	put_pair(round->words, 2, (uint64_t)options->order * 4 +
		options->halves * 2 + options->ordered);
	put_pair(round->words, 3, options->piece_bytes);
	put_pair(round->words, 4, options->credit_bytes);
	put_pair(round->words, 5, options->fuse_bytes);
	put_pair(round->words, 6, (uint64_t)options->wire);
	put_carry(round->words, 7, &sync->carry);
	return begin_match(sync, err);
}

static taut_status begin_find(struct taut_sync *sync, struct taut_error *err)
{
	struct tauti_round *round = &sync->round;
	taut_status status = reserve(round, 2 * sync->tasks.count, err);

	if (status)
		return status;
	round->match = TAUTI_MATCH_FIND;
	for (size_t i = 0; i < sync->tasks.count; i++)
		put_pair(round->words, i, hash_task(&sync->tasks.data[i]));
	return begin_match(sync, err);
}

static taut_status compare(struct taut_sync *sync, struct taut_error *err)
{
	static const char *const names[COMPARED] = { "tasks", NULL,
		"order (times 4), halves (2) and ordered (1)", "piece_bytes",
		"credit_bytes", "fuse_bytes",
		"type on the wire (float32 0, float16 2, bfloat16 3, mxint8 9)",
		"way", "pass_bytes", "passes_at_once" };
	const struct tauti_round *round = &sync->round;

	for (size_t i = 0; i < COMPARED; i++)
		if (names[i] && pair_differs(round, i))
			return taut_error_set(err, TAUT_EMATCH, -1, "sync: "
				"ranks do not match: %s: %" PRIu64 " here, and "
				"not on every rank", names[i],
				round->compared[2 * i]);
	if (pair_differs(round, 1))
		return begin_find(sync, err);
	sync->round.match = TAUTI_MATCHED;
	return TAUT_OK;
}

static taut_status find(const struct taut_sync *sync, struct taut_error *err)
{
	const struct tauti_task_of_sync *task;
	size_t i = 0;

	while (i + 1 < sync->tasks.count && !pair_differs(&sync->round, i))
		i++;
	task = &sync->tasks.data[i];
	return taut_error_set(err, TAUT_EMATCH, -1, "sync: ranks do not match: "
		"task %zu has %" PRIu64 " elements of %s, priority %" PRId64
		" and factor %g, and goes %s the one before it here, and not "
		"on every rank", i, task->count, taut_type_name(task->type),
		task->priority, task->factor,
		task->group < i ? "with" : "without");
}

/* --- whether they have the same limits since ------------------------------------------
 * To the least: of a number and its complement the least and the most of all. */

enum { LIMIT_PAIRS = 7, AT_BITS = 40 };

void tauti_round_tuned(struct taut_sync *sync, uint64_t n_times)
{
	struct tauti_round *round = &sync->round;

	if (!n_times || sync->n_ranks == 1 || round->match == TAUTI_MATCH_NOT_ASKED ||
		sync->options.order != TAUT_SCHED_DECLARED)
		return;
	round->n_tuned += n_times;
	round->behind = false;
	round->match = TAUTI_MATCH_TUNED;
}

static taut_status begin_limits(struct taut_sync *sync, struct taut_error *err)
{
	const struct taut_sync_options *options = &sync->options;
	struct tauti_round *round = &sync->round;
	taut_status status = reserve(round, 2 * LIMIT_PAIRS, err);

	if (status)
		return status;
	put_pair(round->words, 0, round->n_tuned << AT_BITS | sync->n_messages);
	put_pair(round->words, 1, options->piece_bytes);
	put_pair(round->words, 2, options->credit_bytes);
	put_pair(round->words, 3, options->fuse_bytes);
	put_carry(round->words, 4, &sync->carry);
	round->of_limits = true;
	return begin_match(sync, err);
}

static taut_status not_tuned(uint64_t at, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EMATCH, -1, "sync: ranks do not match: "
		"some have new limits after %" PRIu64 " messages, and not "
		"every rank", at);
}

taut_status tauti_round_may_begin(
	const struct taut_sync *sync, struct taut_error *err)
{
	const struct tauti_round *round = &sync->round;

	if (round->carry_differs)
		return taut_error_set(err, TAUT_EMATCH, -1, "sync: ranks do not "
			"match: way, pass_bytes, passes_at_once: %d, %" PRIu64
			", %" PRIu32 " here, and not on every rank, or not "
			"since the same iteration", (int)sync->carry.way,
			sync->carry.pass_bytes, sync->carry.passes_at_once);
	return round->behind && sync->n_messages >= round->others_at ?
		not_tuned(round->others_at, err) : TAUT_OK;
}

static taut_status compare_limits(
	struct taut_sync *sync, struct taut_error *err)
{
	const uint64_t at_mask = (UINT64_C(1) << AT_BITS) - 1;
	static const char *const names[LIMIT_PAIRS] = { "messages before",
		"piece_bytes", "credit_bytes", "fuse_bytes", "way",
		"pass_bytes", "passes_at_once" };
	const struct tauti_round *round = &sync->round;

	for (size_t i = 0; i < LIMIT_PAIRS; i++)
		if (pair_differs(round, i))
			return taut_error_set(err, TAUT_EMATCH, -1, "sync: "
				"ranks do not match: new limits: %s: %" PRIu64
				" here, and not on every rank", names[i],
				i ? round->compared[2 * i] :
				round->compared[0] & at_mask);
	return TAUT_OK;
}

static bool holds_tasks(struct taut_sync *sync)
{
	bool holds;

	pthread_mutex_lock(&sync->lock);
	holds = sync->first_ready != TAUT_NONE;
	pthread_mutex_unlock(&sync->lock);
	return holds;
}

/* Others have tuned more often than this rank. One that holds tasks back cannot tune
 * again before they are done; one that does not asks when it has some. */
static taut_status fall_behind(
	struct taut_sync *sync, uint64_t others_at, struct taut_error *err)
{
	struct tauti_round *round = &sync->round;

	round->behind = true;
	round->others_at = others_at;
	if (sync->n_messages > others_at)
		return not_tuned(others_at, err);
	if (round->match == TAUTI_MATCHED)
		return TAUT_OK;
	round->match = TAUTI_MATCH_TUNED;
	return holds_tasks(sync) ? not_tuned(others_at, err) : TAUT_OK;
}

static taut_status take_limits(struct taut_sync *sync, struct taut_error *err)
{
	const uint64_t at_mask = (UINT64_C(1) << AT_BITS) - 1;
	struct tauti_round *round = &sync->round;
	uint64_t least = round->words[0], most = ~round->words[1];
	uint64_t mine = round->compared[0] >> AT_BITS;
	taut_status status = TAUT_OK;

	round->of_limits = false;
	if (least >> AT_BITS == most >> AT_BITS)
		status = compare_limits(sync, err);
	else if ((least & at_mask) > (most & at_mask))
		status = not_tuned(most & at_mask, err);
	if (status || round->n_tuned != mine) /* else it has tuned since */
		return status;
	round->wants_limits = false;
	if (mine < most >> AT_BITS)
		return fall_behind(sync, most & at_mask, err);
	round->match = least >> AT_BITS == most >> AT_BITS ?
		TAUTI_MATCHED : TAUTI_MATCH_AHEAD;
	return TAUT_OK;
}

/* Whether who has entered the next round means this one. A rank that has left may be
 * at the first one of the next sync, on the same twin. */
static bool is_ours(const struct taut_sync *sync)
{
	const struct tauti_farewell *farewell = &sync->farewell;

	if (farewell->begun && !farewell->left)
		return false; /* until it is known who leaves */
	return !farewell->left || sync->round.n_started < farewell->words[2];
}

/* A rank that is asked before it ever compared tasks is asked for those. */
static taut_status move_limits(
	struct taut_sync *sync, bool *moved, struct taut_error *err)
{
	const struct tauti_round *round = &sync->round;

	if (round->under_way || round->match < TAUTI_MATCHED ||
		sync->n_ranks == 1 ||
		sync->options.order != TAUT_SCHED_DECLARED ||
		!is_ours(sync) ||
		(!round->wants_limits && !taut_comm_asked(sync->round_comm)))
		return TAUT_OK;
	*moved = true;
	return begin_limits(sync, err);
}

/* --- what is heard -----------------------------------------------------------------*/

static taut_status take_answer(struct taut_sync *sync, struct taut_error *err)
{
	const struct tauti_round *round = &sync->round;

	if (round->status)
		return tauti_sync_comm_failed(sync, round->status, err);
	if (round->of_limits)
		return take_limits(sync, err);
	switch (round->match) {
	case TAUTI_MATCH_ASKED:
		return compare(sync, err);
	case TAUTI_MATCH_FIND:
		return find(sync, err);
	default:
		return take_agreed(sync, err);
	}
}

bool tauti_round_may_ask(const struct taut_sync *sync)
{
	return sync->round.match == TAUTI_MATCHED && sync->n_ranks > 1 &&
		sync->options.order == TAUT_SCHED_AGREED &&
		!sync->round.under_way && !sync->oldest;
}

taut_status tauti_round_ask(struct taut_sync *sync, struct taut_error *err)
{
	return taut_sched_asked(sync->sched, sync->round.n_agree, err);
}

/* Another rank has entered the next round. Told once of each. */
static taut_status hear_asked(
	struct taut_sync *sync, bool *moved, struct taut_error *err)
{
	struct tauti_round *round = &sync->round;

	if (round->match != TAUTI_MATCHED || sync->n_ranks == 1 ||
		sync->options.order != TAUT_SCHED_AGREED ||
		round->told_asked > round->n_agree || !is_ours(sync) ||
		!taut_comm_asked(sync->round_comm))
		return TAUT_OK;
	*moved = true;
	round->told_asked = round->n_agree + 1;
	return taut_sched_asked(sync->sched, round->n_agree, err);
}

taut_status tauti_round_move(
	struct taut_sync *sync, bool *moved, struct taut_error *err)
{
	struct tauti_round *round = &sync->round;
	taut_status status = TAUT_OK;

	if (round->over) {
		*moved = true;
		round->over = round->under_way = false;
		status = take_answer(sync, err);
	}
	if (!status)
		status = move_limits(sync, moved, err);
	return status ? status : hear_asked(sync, moved, err);
}

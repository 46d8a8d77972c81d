/* rounds.c - what ranks tell each other, and what follows from the answer.
 *
 * The words of a round are, after its stage,
 *   COMPARE  how many tasks, a hash of them, and the limits, each as a pair of the
 *            number and its complement: of as many words whatever was declared
 *   FIND     a pair for each task
 *   RUN      a pair of hashes; the bits of `ready`; those of what is in flight
 * The and of a pair is what this rank sent if and only if all sent the same, for
 * a bit that differs is lost from the number or from its complement.
 *
 * The pair of RUN has a hash of the limits in its upper half and one of the bytes of
 * all iterations that were agreed so far in its lower one. Those of what a round agrees
 * on are in the words of the next, which each rank enters with the same agreed: the
 * round itself says of a task no more than one bit.
 *
 * Why all ranks commit the same: what a round answers is the same on all, and
 * committing depends on the answers, on what was declared, and on the limits. Of
 * ready() and finished() only bits of the next words remain. tune() is refused
 * while something that this rank has begun is not done, so there is nothing to
 * commit then: the first commit under other limits follows a round in which each
 * rank said, after its tune(), that it was ready, and that round compares them.
 *
 * Why they never wait for each other in a circle: take the first piece of the
 * sequence that is not finished on some rank. All ranks have committed it or will,
 * with the answer that is on its way; each starts it after pieces that are all
 * finished; so nothing keeps it from moving. When all that is committed is
 * finished everywhere and a group is ready everywhere, then either the answer
 * said so, and it is committed; or some rank noticed after it had sent its words,
 * and that is news, which makes it enter a round (tauti_rounds_due()).
 *
 * Why rounds end: a rank that does not wait for another enters one with news
 * alone, that is after a ready() or finished() that no round has carried. */
#include "sched/sched.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"

enum { LIMITS = 4, COMPARED = 2 + LIMITS };

/* Of the pair of RUN, and of its complement. */
static const uint64_t OF_LIMITS = UINT64_MAX << 32, OF_BYTES = UINT32_MAX;

static uint64_t hash_task(const struct tauti_task *task)
{
	uint64_t fields[4] = { task->bytes, (uint64_t)task->priority,
		task->after, task->group };

	return tauti_hash((const char *)fields, sizeof fields);
}

static uint64_t hash_tasks(const struct taut_sched *sched)
{
	uint64_t hash = TAUTI_HASH_A;

	for (size_t i = 0; i < sched->tasks.count; i++)
		hash = tauti_hash_mix(hash ^ TAUTI_HASH_B,
			hash_task(&sched->tasks.data[i]) ^ TAUTI_HASH_C);
	return hash;
}

static void list_limits(const struct taut_sched *sched, uint64_t *limits)
{
	limits[0] = sched->limits.piece_bytes;
	limits[1] = sched->limits.align_bytes;
	limits[2] = sched->limits.credit_bytes;
	limits[3] = sched->limits.fuse_bytes;
}

static uint64_t hash_limits(const struct taut_sched *sched)
{
	uint64_t limits[LIMITS];

	list_limits(sched, limits);
	return tauti_hash((const char *)limits, sizeof limits);
}

/* --- entering ----------------------------------------------------------------------*/

void tauti_rounds_ready(struct taut_sched *sched, uint32_t task)
{
	struct tauti_rounds *rounds = &sched->rounds;
	uint32_t position = sched->tasks.data[task].position;

	rounds->ready[position / 64] |= tauti_bit(position);
	rounds->n_ready++;
	rounds->news_ready = true;
}

/* While there is credit, nothing that is agreed waits: only another task that is
 * ready can lead to something. While there is none, only pieces that are finished
 * can, and only where there would be some if all had finished what this rank has.
 * What the others need to know besides comes with it. */
bool tauti_rounds_due(const struct taut_sched *sched)
{
	const struct tauti_rounds *rounds = &sched->rounds;

	if (!sched->agreeing || !sched->frozen || rounds->under_way)
		return false;
	if (rounds->asked || rounds->stage != TAUTI_RUN)
		return true;
	if (tauti_sched_has_credit(sched, sched->charged_bytes))
		return rounds->news_ready;
	return rounds->news_finished &&
		(rounds->n_ready || sched->oldest != TAUT_NONE) &&
		tauti_sched_has_credit(sched, sched->under_way_bytes);
}

static size_t count_words(const struct taut_sched *sched)
{
	switch (sched->rounds.stage) {
	case TAUTI_COMPARE:
		return 2 * COMPARED;
	case TAUTI_FIND:
		return 2 * sched->tasks.count;
	default:
		return 2 + tauti_bits_words(sched->tasks.count) +
			tauti_flight_words(&sched->flight);
	}
}

static bool reserve(struct tauti_rounds *rounds, size_t n)
{
	uint64_t *words;

	rounds->n_words = n;
	if (n <= rounds->capacity)
		return true;
	n += n / 2;
	words = realloc(rounds->words, n * sizeof *words);
	if (!words)
		return false;
	rounds->words = words;
	rounds->capacity = n;
	return true;
}

static uint64_t *put_pair(uint64_t *words, uint64_t number)
{
	words[0] = number;
	words[1] = ~number;
	return words + 2;
}

static void fill_words(const struct taut_sched *sched, uint64_t *words)
{
	size_t n_ready = tauti_bits_words(sched->tasks.count);
	uint64_t limits[LIMITS];

	switch (sched->rounds.stage) {
	case TAUTI_COMPARE:
		words = put_pair(words, sched->tasks.count);
		words = put_pair(words, hash_tasks(sched));
		list_limits(sched, limits);
		for (int i = 0; i < LIMITS; i++)
			words = put_pair(words, limits[i]);
		break;
	case TAUTI_FIND:
		for (size_t i = 0; i < sched->tasks.count; i++)
			words = put_pair(
				words, hash_task(&sched->tasks.data[i]));
		break;
	default:
		words = put_pair(words, (hash_limits(sched) & OF_LIMITS) |
			(sched->rounds.agreed_bytes & OF_BYTES));
		for (size_t i = 0; i < n_ready; i++)
			*words++ = sched->rounds.ready[i];
		tauti_flight_copy(&sched->flight, words);
	}
}

bool tauti_rounds_enter(struct taut_sched *sched)
{
	struct tauti_rounds *rounds = &sched->rounds;

	if (!reserve(rounds, count_words(sched)))
		return false;
	fill_words(sched, rounds->words);
	rounds->under_way = true;
	rounds->asked = false;
	if (rounds->stage == TAUTI_RUN)
		rounds->news_ready = rounds->news_finished = false;
	return true;
}

/* --- ranks that do not match -------------------------------------------------------*/

static bool pair_differs(
	const struct tauti_rounds *rounds, const uint64_t *words, size_t i)
{
	return words[2 * i] != rounds->words[2 * i] ||
		words[2 * i + 1] != rounds->words[2 * i + 1];
}

/* Of the pair of RUN, in these bits. */
static bool hashes_differ(const struct tauti_rounds *rounds,
	const uint64_t *words, uint64_t bits)
{
	return ((words[0] ^ rounds->words[0]) & bits) != 0 ||
		((words[1] ^ rounds->words[1]) & bits) != 0;
}

static void compare(struct taut_sched *sched, const uint64_t *words)
{
	static const char *const names[COMPARED] = { "tasks", NULL,
		"piece_bytes", "align_bytes", "credit_bytes", "fuse_bytes" };
	struct tauti_rounds *rounds = &sched->rounds;
	struct taut_error err;

	for (size_t i = 0; i < COMPARED; i++) {
		if (!names[i] || !pair_differs(rounds, words, i))
			continue;
		taut_error_set(&err, TAUT_EMATCH, -1, "scheduler: ranks do not "
			"match: %s: %" PRIu64 " here, and not on every rank",
			names[i], rounds->words[2 * i]);
		tauti_sched_fail(sched, &err);
		return;
	}
	rounds->stage = pair_differs(rounds, words, 1) ? TAUTI_FIND : TAUTI_RUN;
}

static void find(struct taut_sched *sched, const uint64_t *words)
{
	const struct tauti_task *it;
	struct taut_error err;
	char after[32] = "no task", with[32] = "none before it";
	size_t i = 0;

	while (i + 1 < sched->tasks.count &&
		!pair_differs(&sched->rounds, words, i))
		i++;
	it = &sched->tasks.data[i];
	if (it->after != TAUT_NONE)
		snprintf(after, sizeof after, "task %" PRIu32, it->after);
	if (it->group != i)
		snprintf(with, sizeof with, "task %" PRIu32, it->group);
	taut_error_set(&err, TAUT_EMATCH, -1, "scheduler: ranks do not match: "
		"task %zu has %" PRIu64 " bytes, priority %" PRId64 ", comes "
		"after %s and goes with %s here, and not on every rank", i,
		it->bytes, it->priority, after, with);
	tauti_sched_fail(sched, &err);
}

static void fail_limits(struct taut_sched *sched)
{
	struct taut_error err;

	taut_error_set(&err, TAUT_EMATCH, -1, "scheduler: ranks do not match: "
		"piece_bytes, credit_bytes, fuse_bytes: %" PRIu64 ", %" PRIu64
		", %" PRIu64 " here, and not on every rank, or not since the "
		"same iteration", sched->limits.piece_bytes,
		sched->limits.credit_bytes, sched->limits.fuse_bytes);
	tauti_sched_fail(sched, &err);
}

static void fail_bytes(struct taut_sched *sched)
{
	struct taut_error err;

	taut_error_set(&err, TAUT_EMATCH, -1, "scheduler: ranks do not match: a "
		"task was ready with as many bytes as here, and not on every "
		"rank, in one of the last iterations");
	tauti_sched_fail(sched, &err);
}

/* --- what was agreed ---------------------------------------------------------------*/

static void release_finished(struct taut_sched *sched, const uint64_t *words)
{
	const struct tauti_flight *flight = &sched->flight;
	size_t n = tauti_flight_words(flight);
	uint64_t first = flight->floor / 64;

	for (size_t i = 0; i < n; i++) {
		uint64_t new = words[i] & ~*tauti_flight_word(
			flight, flight->everywhere, first + i);

		for (; new; new &= new - 1)
			tauti_sched_release(sched, (first + i) * 64 +
				(unsigned)__builtin_ctzll(new));
	}
}

static void open_ready(struct taut_sched *sched, const uint64_t *words)
{
	struct tauti_rounds *rounds = &sched->rounds;
	size_t n = tauti_bits_words(sched->tasks.count);

	for (size_t i = 0; i < n; i++) {
		uint64_t new = words[i];

		rounds->ready[i] &= ~new;
		for (; new; new &= new - 1) {
			uint32_t task = sched->by_position[i * 64 +
				(unsigned)__builtin_ctzll(new)];

			rounds->n_ready--;
			rounds->agreed_bytes = tauti_hash_mix(
				rounds->agreed_bytes ^ TAUTI_HASH_B,
				sched->tasks.data[task].part_bytes ^
				TAUTI_HASH_C);
			tauti_sched_open(sched, task);
		}
	}
}

/* Limits may differ as long as nothing is ready on all ranks: one may have
 * changed them, and another not yet. */
static void run(struct taut_sched *sched, const uint64_t *words)
{
	size_t n = tauti_bits_words(sched->tasks.count), i = 0;
	const uint64_t *ready = words + 2;

	if (hashes_differ(&sched->rounds, words, OF_BYTES)) {
		fail_bytes(sched);
		return;
	}
	while (i < n && !ready[i])
		i++;
	if (i < n && hashes_differ(&sched->rounds, words, OF_LIMITS)) {
		fail_limits(sched);
		return;
	}
	release_finished(sched, ready + n);
	open_ready(sched, ready);
	tauti_sched_commit(sched);
}

/* Is it the round under way, and has no bit that this rank did not send? */
static bool is_answer(const struct tauti_rounds *rounds, uint64_t round,
	const uint64_t *words, size_t n)
{
	if (!rounds->under_way || round != rounds->next || n != rounds->n_words)
		return false;
	for (size_t i = 0; i < n; i++)
		if (words[i] & ~rounds->words[i])
			return false;
	return true;
}

static void take_answer(struct taut_sched *sched, const uint64_t *words)
{
	struct tauti_rounds *rounds = &sched->rounds;

	rounds->under_way = false;
	rounds->next++;
	sched->counts.rounds++;
	if (rounds->stage == TAUTI_COMPARE)
		compare(sched, words);
	else if (rounds->stage == TAUTI_FIND)
		find(sched, words);
	else
		run(sched, words);
}

taut_status taut_sched_agreed(struct taut_sched *sched, uint64_t round,
	const uint64_t *words, size_t n, struct taut_error *reterr)
{
	taut_status status = tauti_sched_enter(sched);

	if (!status && is_answer(&sched->rounds, round, words, n))
		take_answer(sched, words);
	else if (!status)
		status = taut_error_set(reterr, TAUT_EINVAL, -1, "scheduler: "
			"round %" PRIu64 ": not the one under way, or not what "
			"can be the and of what this rank sent", round);
	return tauti_sched_leave(sched, status, reterr);
}

taut_status taut_sched_asked(
	struct taut_sched *sched, uint64_t round, struct taut_error *reterr)
{
	struct tauti_rounds *rounds = &sched->rounds;
	taut_status status = tauti_sched_enter(sched);
	uint64_t next;

	if (!status) {
		next = rounds->next + rounds->under_way;
		if (round == next)
			rounds->asked = true;
		else if (round > next)
			status = taut_error_set(reterr, TAUT_EINVAL, -1,
				"scheduler: asked for round %" PRIu64 ", but "
				"the next one is %" PRIu64, round, next);
	}
	return tauti_sched_leave(sched, status, reterr);
}

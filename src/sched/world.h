/* world.h - a made-up world for tests of the scheduler: ranks whose gradients come
 * at any time, a network that carries pieces and words at any speed and in any
 * order, ranks that die. All of it from a seed, on a virtual clock; every start
 * is compared with slow_rule.h.
 *
 * A rank's engine carries out its start() calls in order, so many at a time. A
 * transfer moves when it is among those on all its members: ranks that start in
 * different orders stand still, as with any collective.
 * Threads: one. Faults end the test with the seed. */
#ifndef TAUT_SCHED_WORLD_H
#define TAUT_SCHED_WORLD_H

#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

#include <taut/sched.h>

#include "base/vec.h"
#include "sched/slow_rule.h"

enum {
	WORLD_RANKS = 8,
	WORLD_ITERATIONS = 4,
	WORLD_WORDS = 512,   /* of a round, at most */
	WORLD_LEARN_NS = 500, /* at most, until all know that a rank died */
};

enum world_what { /* what happens at a time */
	WORLD_NEXT,  /* a rank begins its next iteration */
	WORLD_READY, /* number: task */
	WORLD_FINISH, /* number: transfer */
	WORLD_ASKED,  /* number: round */
	WORLD_WORDS_COME, /* a rank's words reach the one who adds them up */
	WORLD_AGREED, /* number: round */
	WORLD_CRASH, WORLD_LEARN,
};

struct world_event {
	int64_t at_ns;
	uint64_t id; /* breaks ties */
	enum world_what what;
	uint32_t rank;
	uint64_t number;
};

enum world_crash {
	WORLD_LIVES, WORLD_DIES, WORLD_START_FAILS, WORLD_AGREE_FAILS,
};

struct world_transfer { /* a call of start() */
	uint64_t first, n;
	uint32_t n_moving; /* members that carry it out */
};

/* Members that carry out the same transfers. */
struct world_channel {
	uint32_t n_members;
	TAUT_VEC(struct world_transfer) transfers;
};

struct world_rank {
	struct world *world;
	uint32_t id;
	struct taut_sched *sched;
	struct slow own, *slow; /* own, or the world's where ranks agree */
	struct world_channel own_channel, *channel;
	uint32_t calls, let_in, let_out; /* transfers: asked for, in, done */
	uint64_t n_started;
	TAUT_VEC(uint8_t) finished; /* by number */
	uint64_t under_way_bytes, n_events;
	uint32_t begun[SLOW_TASKS], done[SLOW_TASKS];
	uint64_t finished_bytes[SLOW_TASKS];
	uint32_t iteration, to_do; /* of the program */
	struct slow_limits limits;
	/* Rounds: entered, answered; what this rank had when it entered. */
	uint64_t n_entered, n_answered;
	uint32_t sent_begun[SLOW_TASKS];
	TAUT_VEC(uint8_t) sent_finished;
	uint64_t words[WORLD_WORDS];
	size_t n_words;
	bool dead, failed;
	taut_status failure;
	struct taut_error err; /* of its last call */
};

struct world {
	uint64_t seed, random;
	/* What is drawn from the seed. */
	enum taut_sched_order order;
	uint32_t n_ranks, n_tasks, n_iterations, slots;
	struct slow_task tasks[SLOW_TASKS];
	struct slow_limits limits[WORLD_ITERATIONS + 1]; /* since iteration */
	bool used[WORLD_ITERATIONS + 1][SLOW_TASKS];
	bool crosses; /* a task's next iteration waits for no other task */
	bool inlined; /* what takes no time happens inside the callback */
	int64_t compute_ns, jitter_ns, word_ns, piece_ns;
	enum world_crash crash;
	uint32_t crash_rank;
	uint64_t crash_call; /* START_FAILS, AGREE_FAILS: of this call */

	int64_t now_ns;
	uint64_t n_events;
	TAUT_VEC(struct world_event) events; /* a heap */
	uint32_t n_control; /* of the events, those of rounds */
	struct world_rank ranks[WORLD_RANKS];
	struct slow slow;
	struct world_channel channel;
	uint32_t n_come;  /* ranks whose words for the round have come */
	uint64_t n_rounds;
	uint64_t gathered[WORLD_WORDS], answer[WORLD_WORDS];
	size_t n_gathered, n_answer;
	TAUT_VEC(uint64_t) committed; /* pieces, after each round */
	/* What was seen, for the test to know that it was. */
	uint64_t n_starts, n_pieces, n_overtaken, n_fused, n_grouped, n_parts;
};

#define WORLD_CHECK(world, what, ...) \
	do { \
		if (!(what)) { \
			print_error("seed %llu, %lld ns: ", \
				(unsigned long long)(world)->seed, \
				(long long)(world)->now_ns); \
			fail_msg(__VA_ARGS__); \
		} \
	} while (0)

/* --- chance, and the heap of events ------------------------------------------------*/

static inline uint64_t world_draw(struct world *world)
{
	uint64_t x = world->random += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* 0 .. n - 1 */
static inline uint64_t world_pick(struct world *world, uint64_t n)
{
	return world_draw(world) % n;
}

static inline int64_t world_delay(struct world *world, int64_t most_ns)
{
	return most_ns ? (int64_t)world_pick(world, (uint64_t)most_ns + 1) : 0;
}

static inline bool world_is_before(
	const struct world_event *a, const struct world_event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->id < b->id;
}

static inline bool world_is_control(enum world_what what)
{
	return what == WORLD_ASKED || what == WORLD_WORDS_COME ||
		what == WORLD_AGREED;
}

static inline void world_push(struct world *world, int64_t delay_ns,
	enum world_what what, uint32_t rank, uint64_t number)
{
	struct world_event event = { world->now_ns + delay_ns,
		world->n_events++, what, rank, number };
	size_t i = world->events.count;

	if (!taut_vec_push(&world->events, event))
		abort();
	world->n_control += world_is_control(what);
	for (; i && world_is_before(&event, &world->events.data[(i - 1) / 2]);
		i = (i - 1) / 2)
		world->events.data[i] = world->events.data[(i - 1) / 2];
	world->events.data[i] = event;
}

static inline struct world_event world_pop(struct world *world)
{
	struct world_event *heap = world->events.data, first = heap[0];
	size_t n = --world->events.count, i = 0, child;
	struct world_event last = heap[n];

	for (; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n &&
			world_is_before(&heap[child + 1], &heap[child]))
			child++;
		if (!world_is_before(&heap[child], &last))
			break;
		heap[i] = heap[child];
	}
	heap[i] = last;
	world->n_control -= world_is_control(first.what);
	return first;
}

/* --- what a rank knows -------------------------------------------------------------*/

static inline bool world_agrees(const struct world *world)
{
	return world->order == TAUT_SCHED_AGREED && world->n_ranks > 1;
}

static inline uint32_t world_root(const struct world *world, uint32_t task)
{
	while (world->tasks[task].after != TAUT_NONE)
		task = world->tasks[task].after;
	return task;
}

/* Where ranks do not agree, what this one knows decides at once. */
static inline void world_decide(struct world_rank *rank)
{
	if (rank->slow == &rank->own)
		slow_commit(rank->slow, rank->limits);
}

static inline void world_begin(struct world_rank *rank, uint32_t task)
{
	rank->begun[task]++;
	rank->finished_bytes[task] = 0;
	if (rank->slow == &rank->own)
		rank->slow->agreed[task]++;
}

static inline void world_note_finished(struct world_rank *rank, uint64_t number)
{
	const struct slow_piece *it = &rank->slow->pieces[number];
	uint32_t task = it->piece.task;
	const struct slow_task *tasks = rank->world->tasks;

	rank->n_events++;
	rank->finished.data[number] = 1;
	rank->under_way_bytes -= it->piece.bytes;
	rank->finished_bytes[task] += it->piece.bytes;
	if (rank->finished_bytes[task] == slow_part(&tasks[task], it->piece.iteration))
		for (uint32_t i = task + 1; i < rank->world->n_tasks; i++)
			if (tasks[i].after == task)
				world_begin(rank, i);
	if (rank->slow == &rank->own)
		rank->slow->pieces[number].finished = true;
	world_decide(rank);
}

/* A call came back: as it must, for a rank that goes on, or has failed. */
static inline void world_returned(struct world_rank *rank, taut_status status)
{
	WORLD_CHECK(rank->world,
		status == (rank->failed ? rank->failure : TAUT_OK),
		"rank %u: a call returned %d: %s", rank->id, (int)status,
		rank->err.message);
}

/* --- transfers ---------------------------------------------------------------------*/

static inline void world_finish(struct world_rank *rank, uint64_t transfer)
{
	struct world_transfer it = rank->channel->transfers.data[transfer];
	uint64_t turn = world_pick(rank->world, it.n);

	for (uint64_t i = 0; i < it.n; i++) {
		uint64_t number = it.first + (i + turn) % it.n;

		if (!rank->failed)
			world_note_finished(rank, number);
		world_returned(rank,
			taut_sched_finished(rank->sched, number, &rank->err));
	}
}

static inline void world_let_in(struct world_rank *rank);

static inline void world_end_transfer(struct world_rank *rank, uint64_t transfer)
{
	world_finish(rank, transfer);
	rank->let_out++;
	world_let_in(rank);
}

static inline void world_move(struct world_rank *rank, uint64_t transfer)
{
	struct world *world = rank->world;
	int64_t move_ns = world_delay(world, world->piece_ns);

	if (rank->channel->n_members == 1) {
		if (world->inlined && !move_ns)
			world_end_transfer(rank, transfer);
		else
			world_push(world, move_ns, WORLD_FINISH, rank->id,
				transfer);
		return;
	}
	for (uint32_t i = 0; i < world->n_ranks; i++)
		world_push(world, move_ns + world_delay(world, world->jitter_ns),
			WORLD_FINISH, i, transfer);
}

/* Begins to carry out as many as there are slots for, in their order. */
static inline void world_let_in(struct world_rank *rank)
{
	while (rank->let_in < rank->calls &&
		rank->let_in - rank->let_out < rank->world->slots) {
		uint32_t transfer = rank->let_in++;
		struct world_transfer *it =
			&rank->channel->transfers.data[transfer];

		if (++it->n_moving == rank->channel->n_members)
			world_move(rank, transfer);
	}
}

/* --- the engine --------------------------------------------------------------------*/

static inline bool world_breaks(
	struct world_rank *rank, enum world_crash how, uint64_t call)
{
	struct world *world = rank->world;

	if (world->crash != how || world->crash_rank != rank->id ||
		call != world->crash_call)
		return false;
	rank->failed = true;
	rank->failure = TAUT_EFORMAT;
	if (world_agrees(world) || world->order == TAUT_SCHED_DECLARED)
		for (uint32_t i = 0; i < world->n_ranks; i++)
			if (i != rank->id)
				world_push(world,
					world_delay(world, WORLD_LEARN_NS),
					WORLD_LEARN, i, 0);
	return true;
}

/* Pieces that this rank may know of. */
static inline uint64_t world_committed(const struct world_rank *rank)
{
	if (!world_agrees(rank->world))
		return rank->slow->n;
	return rank->n_answered ?
		rank->world->committed.data[rank->n_answered - 1] : 0;
}

/* The next of the sequence, as the book has it, within the credit. */
static inline void world_check_piece(struct world_rank *rank,
	const struct taut_sched_piece *piece, bool joined)
{
	struct world *world = rank->world;
	const struct slow_piece *expected;
	uint64_t credit = rank->limits.credit_bytes;

	WORLD_CHECK(world, rank->n_started < world_committed(rank),
		"rank %u starts a piece that may not be", rank->id);
	expected = &rank->slow->pieces[rank->n_started];
	WORLD_CHECK(world, !memcmp(&expected->piece, piece, sizeof *piece) &&
		expected->joined == joined,
		"rank %u starts %u.%u at %llu, expected %u.%u at %llu",
		rank->id, piece->task, piece->iteration,
		(unsigned long long)piece->first_byte, expected->piece.task,
		expected->piece.iteration,
		(unsigned long long)expected->piece.first_byte);
	WORLD_CHECK(world, !credit || rank->under_way_bytes < credit ||
		(joined && (world->order == TAUT_SCHED_DECLARED ||
		!slow_is_alone(rank->slow, piece->task))),
		"rank %u: no credit is left", rank->id);
	rank->under_way_bytes += piece->bytes;
	rank->n_started++;
	if (!taut_vec_push(&rank->finished, 0))
		abort();
}

static inline void world_check_same(struct world *world,
	const struct world_transfer *it, const struct taut_sched_piece *pieces,
	size_t n)
{
	WORLD_CHECK(world, it->first == pieces[0].number && it->n == n,
		"ranks start other pieces together");
}

static inline taut_status world_start(void *context,
	const struct taut_sched_piece *pieces, size_t n, struct taut_error *err)
{
	struct world_rank *rank = context;
	struct world *world = rank->world;
	struct world_channel *channel = rank->channel;
	struct world_transfer new = { pieces[0].number, n, 0 };
	size_t end = rank->n_started + n;

	WORLD_CHECK(world, !rank->failed && !rank->dead,
		"rank %u starts something after its end", rank->id);
	for (size_t i = 0; i < n; i++)
		world_check_piece(rank, &pieces[i], i > 0);
	WORLD_CHECK(world, end == rank->slow->n ||
		!rank->slow->pieces[end].joined,
		"rank %u starts too few together", rank->id);
	world->n_starts++;
	world->n_pieces += n;
	for (size_t i = 0; i < n; i++)
		world->n_parts += world->tasks[pieces[i].task].parts != 0;
	world->n_fused += n > 1 && slow_is_alone(rank->slow, pieces[0].task);
	world->n_grouped += n > 1 && !slow_is_alone(rank->slow, pieces[0].task);
	if (world_breaks(rank, WORLD_START_FAILS, rank->calls))
		return taut_error_set(err, TAUT_EFORMAT, -1, "broken");
	if (rank->calls == channel->transfers.count &&
		!taut_vec_push(&channel->transfers, new))
		abort();
	world_check_same(world, &channel->transfers.data[rank->calls],
		pieces, n);
	rank->calls++;
	world_let_in(rank);
	return TAUT_OK;
}

/* All words of a round have come: what follows from them, by the book. */
static inline void world_answer(struct world *world)
{
	struct slow *slow = &world->slow;

	for (uint32_t t = 0; world->n_rounds > 0 && t < world->n_tasks; t++) {
		slow->agreed[t] = UINT32_MAX;
		for (uint32_t i = 0; i < world->n_ranks; i++)
			if (world->ranks[i].sent_begun[t] < slow->agreed[t])
				slow->agreed[t] = world->ranks[i].sent_begun[t];
	}
	for (size_t k = slow->first; k < slow->n; k++) {
		bool all = true;

		for (uint32_t i = 0; i < world->n_ranks; i++) {
			const struct world_rank *rank = &world->ranks[i];

			all = all && k < rank->sent_finished.count &&
				rank->sent_finished.data[k];
		}
		slow->pieces[k].finished = all;
	}
	if (world->n_rounds > 0)
		slow_commit(slow, world->ranks[0].limits);
	world->n_rounds++;
	world->n_come = 0;
	if (!taut_vec_push(&world->committed, slow->n))
		abort();
}

static inline void world_agreed(struct world_rank *rank, uint64_t round)
{
	WORLD_CHECK(rank->world, rank->n_answered == round, "answers overtook");
	rank->n_answered++;
	world_returned(rank, taut_sched_agreed(rank->sched, round,
		rank->world->answer, rank->world->n_answer, &rank->err));
	WORLD_CHECK(rank->world, rank->failed ||
		rank->world->inlined || rank->n_started == world_committed(rank),
		"rank %u did not start what was agreed", rank->id);
}

static inline void world_words_come(struct world_rank *rank)
{
	struct world *world = rank->world;

	if (world->n_come == 0)
		world->n_gathered = rank->n_words;
	WORLD_CHECK(world, world->n_gathered == rank->n_words,
		"round %llu: not as many words on all ranks",
		(unsigned long long)world->n_rounds);
	for (size_t i = 0; i < rank->n_words; i++)
		world->gathered[i] = (world->n_come ? world->gathered[i] :
			UINT64_MAX) & rank->words[i];
	if (++world->n_come < world->n_ranks)
		return;
	world_answer(world);
	memcpy(world->answer, world->gathered, sizeof world->answer);
	world->n_answer = world->n_gathered;
	for (uint32_t i = 0; i < world->n_ranks; i++)
		if (!world->inlined || i != rank->id)
			world_push(world, world_delay(world, world->word_ns),
				WORLD_AGREED, i, world->n_rounds - 1);
	if (world->inlined)
		world_agreed(rank, world->n_rounds - 1);
}

static inline void world_remember(struct world_rank *rank)
{
	memcpy(rank->sent_begun, rank->begun, sizeof rank->sent_begun);
	taut_vec_clear(&rank->sent_finished);
	if (!taut_vec_reserve(&rank->sent_finished, rank->finished.count))
		abort();
	rank->sent_finished.count = rank->finished.count;
	if (rank->finished.count)
		memcpy(rank->sent_finished.data, rank->finished.data,
			rank->finished.count);
}

static inline taut_status world_agree(void *context, uint64_t round,
	const uint64_t *words, size_t n, struct taut_error *err)
{
	struct world_rank *rank = context;
	struct world *world = rank->world;
	bool first = true;

	WORLD_CHECK(world, !rank->failed && !rank->dead &&
		round == rank->n_entered && round == rank->n_answered,
		"rank %u enters round %llu", rank->id,
		(unsigned long long)round);
	WORLD_CHECK(world, n <= WORLD_WORDS, "too many words");
	if (world_breaks(rank, WORLD_AGREE_FAILS, round))
		return taut_error_set(err, TAUT_EFORMAT, -1, "broken");
	world_remember(rank);
	memcpy(rank->words, words, n * sizeof *words);
	rank->n_words = n;
	for (uint32_t i = 0; i < world->n_ranks; i++)
		first = first && world->ranks[i].n_entered <= round;
	rank->n_entered++;
	for (uint32_t i = 0; i < world->n_ranks; i++)
		if (i != rank->id && (first || world_pick(world, 4) == 0))
			world_push(world, world_delay(world, world->word_ns),
				WORLD_ASKED, i, round);
	if (world->inlined && world->n_come + 1 == world->n_ranks)
		world_words_come(rank);
	else
		world_push(world, world_delay(world, world->word_ns),
			WORLD_WORDS_COME, rank->id, round);
	return TAUT_OK;
}

static inline void world_next(struct world_rank *rank);
static inline void world_ready(struct world_rank *rank, uint32_t task);

/* The program goes on when what it waits for is done. */
static inline void world_go_on(struct world_rank *rank, uint32_t root)
{
	struct world *world = rank->world;
	int64_t delay_ns = world_delay(world, world->compute_ns);
	bool tree_is_done = true;

	if (!world->crosses) {
		if (--rank->to_do > 0)
			return;
		if (world->inlined && !delay_ns)
			world_next(rank);
		else
			world_push(world, delay_ns, WORLD_NEXT, rank->id, 0);
		return;
	}
	for (uint32_t i = root; i < world->n_tasks; i++)
		if (world_root(world, i) == root &&
			rank->done[i] < rank->begun[root])
			tree_is_done = false;
	if (!tree_is_done || rank->begun[root] == world->n_iterations)
		return;
	if (world->inlined && !delay_ns)
		world_ready(rank, root);
	else
		world_push(world, delay_ns, WORLD_READY, rank->id, root);
}

static inline void world_done(void *context, uint32_t task, uint32_t iteration,
	taut_status status)
{
	struct world_rank *rank = context;
	struct world *world = rank->world;
	uint32_t root = world_root(world, task);

	WORLD_CHECK(world, !rank->dead && iteration == rank->done[task] + 1,
		"rank %u: task %u is told twice", rank->id, task);
	WORLD_CHECK(world, iteration == rank->begun[root],
		"rank %u: task %u is told too early", rank->id, task);
	rank->done[task]++;
	if (status) {
		WORLD_CHECK(world, rank->failed && status == rank->failure,
			"rank %u: task %u fails", rank->id, task);
		return;
	}
	WORLD_CHECK(world, iteration == rank->begun[task] &&
		rank->finished_bytes[task] ==
			slow_part(&world->tasks[task], iteration),
		"rank %u: task %u is not done", rank->id, task);
	if (!rank->failed)
		world_go_on(rank, root);
}

/* --- the program -------------------------------------------------------------------*/

static inline void world_ready(struct world_rank *rank, uint32_t task)
{
	if (!rank->failed) {
		rank->n_events++;
		world_begin(rank, task);
		world_decide(rank);
	}
	world_returned(rank, rank->world->tasks[task].parts ?
		taut_sched_ready_part(rank->sched, task,
			slow_part(&rank->world->tasks[task], rank->begun[task]),
			&rank->err) :
		taut_sched_ready(rank->sched, task, &rank->err));
}

/* Gradients come from the last layer to the first, more or less. */
static inline void world_schedule_ready(struct world_rank *rank, uint32_t task)
{
	struct world *world = rank->world;
	int64_t compute_ns = world->compute_ns;

	world_push(world, (int64_t)(world->n_tasks - task) * compute_ns / 8 +
		world_delay(world, compute_ns), WORLD_READY, rank->id, task);
}

static inline void world_tune(struct world_rank *rank)
{
	struct slow_limits limits = rank->world->limits[rank->iteration];

	if (!memcmp(&limits, &rank->limits, sizeof limits))
		return;
	rank->limits = limits;
	world_returned(rank, taut_sched_tune(rank->sched, limits.piece_bytes,
		limits.credit_bytes, limits.fuse_bytes, &rank->err));
}

static inline void world_next(struct world_rank *rank)
{
	struct world *world = rank->world;

	if (rank->iteration == world->n_iterations || rank->failed)
		return;
	rank->iteration++;
	world_tune(rank);
	rank->to_do = 0;
	for (uint32_t i = 0; i < world->n_tasks; i++)
		rank->to_do += world->used[rank->iteration][world_root(world, i)];
	for (uint32_t i = 0; i < world->n_tasks; i++)
		if (world_root(world, i) == i && world->used[rank->iteration][i])
			world_schedule_ready(rank, i);
}

/* --- ends --------------------------------------------------------------------------*/

static inline void world_crash(struct world *world)
{
	world->ranks[world->crash_rank].dead = true;
	for (uint32_t i = 0; i < world->n_ranks; i++)
		if (i != world->crash_rank)
			world_push(world, world_delay(world, WORLD_LEARN_NS),
				WORLD_LEARN, i, 0);
}

/* From here on this rank is told everything with an error, at once. */
static inline void world_learn(struct world_rank *rank)
{
	if (rank->failed)
		return;
	rank->failed = true;
	rank->failure = TAUT_EIO;
	taut_sched_fail(rank->sched, TAUT_EIO, "a peer is gone");
	for (uint32_t i = 0; i < rank->world->n_tasks; i++)
		WORLD_CHECK(rank->world, rank->done[i] ==
			rank->begun[world_root(rank->world, i)],
			"rank %u: nobody is told that task %u failed",
			rank->id, i);
}

#endif /* TAUT_SCHED_WORLD_H */

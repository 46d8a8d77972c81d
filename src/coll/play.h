/* play.h - for tests: carries out the schedules of all ranks in memory, in any order
 * that they allow, and checks what holds for all orders.
 *
 * Nothing that may happen is ever undone by something else that happens: so if one
 * order comes to its end, all do, and if no two steps that may be at work together
 * use the same elements, all end with the same. */
#ifndef TAUT_COLL_PLAY_H
#define TAUT_COLL_PLAY_H

#include <stdlib.h>
#include <string.h>

#include <taut/coll.h>

#include "tests/support/unit.h"

enum { PLAY_RANKS = 64 };

enum play_mode {
	PLAY_STRICT, /* a send ends when all have received; nothing lands early */
	PLAY_EAGER,  /* a send ends at once */
	PLAY_MIXED,  /* any of these, and receives may begin before their turn */
	PLAY_MODES
};

enum play_state { PLAY_WAITS, PLAY_BEGUN, PLAY_LANDED, PLAY_DONE };

struct play_step {
	enum play_state state;
	uint32_t sender, send; /* of a receive: the step that sends it */
	uint32_t untaken;      /* of a send: peers that have not received */
	uint32_t depth;        /* messages in succession up to here */
	uint64_t *kept;        /* of a send that ended at once */
};

struct play {
	struct taut_coll_shape shape; /* of rank 0 */
	bool in_place;
	enum play_mode mode;
	uint64_t random;
	uint64_t (*op)(uint64_t a, uint64_t b);
	struct taut_coll_schedule *schedules[PLAY_RANKS];
	struct play_step *steps[PLAY_RANKS];
	uint64_t *input[PLAY_RANKS], *output[PLAY_RANKS];
	uint64_t *scratch[PLAY_RANKS];
	uint64_t *given[PLAY_RANKS]; /* INPUT as it was */
	uint64_t sent[PLAY_RANKS];   /* elements */
	uint32_t depth;              /* of the deepest step */
};

static inline uint64_t play_pick(struct play *play, uint64_t below)
{
	uint64_t x = play->random += UINT64_C(0x9E3779B97F4A7C15);

	x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
	x ^= x >> 31;
	return below ? x % below : x;
}

static inline uint64_t play_add(uint64_t a, uint64_t b)
{
	return a + b;
}

/* Floats, in the low bits. */
static inline uint64_t play_add_float(uint64_t a, uint64_t b)
{
	uint32_t x = (uint32_t)a, y = (uint32_t)b;
	float f, g;

	memcpy(&f, &x, sizeof f);
	memcpy(&g, &y, sizeof g);
	f += g;
	memcpy(&x, &f, sizeof x);
	return x;
}

/* --- life ------------------------------------------------------------------------*/

static inline void *play_alloc(uint64_t n, size_t size)
{
	void *memory = calloc(n + 1, size);

	assert_non_null(memory);
	return memory;
}

static inline uint64_t play_value(struct play *play)
{
	/* A float from 2^-7 to 2^8, either sign; as an integer, any other. */
	uint64_t bits = play_pick(play, 0);

	if (play->op == play_add)
		return bits;
	return (bits & 0x807FFFFF) | (120 + bits / 0x100000000 % 15) << 23;
}

static inline void play_fill(struct play *play, uint32_t rank)
{
	uint64_t count = play->shape.count;
	uint64_t scratch = play->schedules[rank]->scratch;

	play->input[rank] = play_alloc(count, sizeof(uint64_t));
	play->given[rank] = play_alloc(count, sizeof(uint64_t));
	play->scratch[rank] = play_alloc(scratch, sizeof(uint64_t));
	play->output[rank] = play->in_place ? play->input[rank] :
		play_alloc(count, sizeof(uint64_t));
	for (uint64_t i = 0; i < count; i++) {
		play->output[rank][i] = play_pick(play, 0);
		play->input[rank][i] = play_value(play);
	}
	memcpy(play->given[rank], play->input[rank], count * sizeof(uint64_t));
	for (uint64_t i = 0; i < scratch; i++)
		play->scratch[rank][i] = play_pick(play, 0);
}

/* play's shape, in_place, mode, random and op are set. */
static inline void play_init(struct play *play)
{
	struct taut_coll_shape shape = play->shape;

	assert_in_range(shape.n_ranks, 1, PLAY_RANKS);
	for (uint32_t r = 0; r < shape.n_ranks; r++) {
		struct taut_error err = { .message = "" };

		shape.rank = r;
		if (taut_coll_schedule_create(
			&shape, &play->schedules[r], &err))
			fail_msg("%s", err.message);
		play->steps[r] = play_alloc(play->schedules[r]->n_steps,
			sizeof(struct play_step));
		play_fill(play, r);
	}
}

static inline void play_fini(struct play *play)
{
	for (uint32_t r = 0; r < play->shape.n_ranks; r++) {
		for (uint32_t i = 0; i < play->schedules[r]->n_steps; i++)
			free(play->steps[r][i].kept);
		free(play->steps[r]);
		if (!play->in_place)
			free(play->output[r]);
		free(play->input[r]);
		free(play->given[r]);
		free(play->scratch[r]);
		taut_coll_schedule_destroy(play->schedules[r]);
	}
}

/* --- messages ----------------------------------------------------------------------*/

struct play_message {
	uint32_t from, to, number, step; /* step: of who sends, or who receives */
	uint64_t count;
};

static inline int play_by_message(const void *a, const void *b)
{
	const struct play_message *x = a, *y = b;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	if (x->to != y->to)
		return x->to < y->to ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

static inline bool play_receives(const struct taut_coll_step *step)
{
	return step->kind == TAUT_STEP_RECV ||
		step->kind == TAUT_STEP_RECV_REDUCE;
}

/* All that are sent, or all that are received, in order; each one once. */
static inline struct play_message *play_list(
	const struct play *play, bool received, uint32_t *ret_n)
{
	struct play_message *list;
	uint32_t n = 0, most = 0;

	for (uint32_t r = 0; r < play->shape.n_ranks; r++)
		most += play->schedules[r]->n_peers;
	list = play_alloc(most, sizeof *list);
	for (uint32_t r = 0; r < play->shape.n_ranks; r++) {
		const struct taut_coll_schedule *s = play->schedules[r];

		for (uint32_t i = 0; i < s->n_steps; i++) {
			const struct taut_coll_step *step = &s->steps[i];

			if (play_receives(step) != received)
				continue;
			for (uint32_t k = 0; k < step->n_peers; k++) {
				uint32_t peer = s->peers[step->first_peer + k];

				list[n++] = (struct play_message){
					received ? peer : r,
					received ? r : peer, step->message, i,
					step->count };
			}
		}
	}
	qsort(list, n, sizeof *list, play_by_message);
	for (uint32_t i = 1; i < n; i++)
		assert_true(play_by_message(&list[i - 1], &list[i]) < 0);
	*ret_n = n;
	return list;
}

/* Every message is sent once and received once, with as many elements. */
static inline void play_match(struct play *play)
{
	uint32_t n_sent, n_received;
	struct play_message *sent = play_list(play, false, &n_sent);
	struct play_message *received = play_list(play, true, &n_received);

	assert_int_equal(n_sent, n_received);
	for (uint32_t i = 0; i < n_sent; i++) {
		const struct play_message *m = &sent[i], *to = &received[i];

		assert_int_equal(play_by_message(m, to), 0);
		assert_int_equal(m->count, to->count);
		assert_true(m->from != m->to);
		assert_true(m->to < play->shape.n_ranks);
		assert_true(m->number < TAUT_COLL_MESSAGES);
		play->steps[to->to][to->step].sender = m->from;
		play->steps[to->to][to->step].send = m->step;
		play->sent[m->from] += m->count;
	}
	free(sent);
	free(received);
}

/* --- playing -----------------------------------------------------------------------*/

static inline uint64_t *play_at(struct play *play, uint32_t rank,
	uint8_t buffer, const struct taut_coll_step *step)
{
	switch (buffer) {
	case TAUT_INPUT:
		return play->input[rank] + step->first;
	case TAUT_OUTPUT:
		return play->output[rank] + step->first;
	default:
		return play->scratch[rank] + step->place;
	}
}

static inline void play_reduce(struct play *play, uint32_t rank,
	const struct taut_coll_step *step, const uint64_t *what)
{
	const uint64_t *from = play_at(play, rank, step->from, step);
	uint64_t *into = play_at(play, rank, step->into, step);

	for (uint64_t i = 0; i < step->count; i++)
		into[i] = play->op(from[i], what[i]);
}

static inline bool play_may_begin(
	struct play *play, uint32_t rank, const struct taut_coll_step *step)
{
	const uint32_t *waits =
		play->schedules[rank]->waits + step->first_wait;

	for (uint32_t i = 0; i < step->n_waits; i++)
		if (play->steps[rank][waits[i]].state != PLAY_DONE)
			return false;
	return true;
}

static inline void play_end(struct play *play, uint32_t rank, uint32_t i)
{
	const struct taut_coll_schedule *s = play->schedules[rank];
	struct play_step *it = &play->steps[rank][i];
	const struct taut_coll_step *step = &s->steps[i];

	it->state = PLAY_DONE;
	for (uint32_t k = 0; k < step->n_waits; k++) {
		uint32_t before = play->steps[rank][
			s->waits[step->first_wait + k]].depth;

		if (it->depth < before)
			it->depth = before;
	}
	if (play->depth < it->depth)
		play->depth = it->depth;
}

static inline void play_begin_send(
	struct play *play, uint32_t rank, uint32_t i)
{
	const struct taut_coll_step *step = &play->schedules[rank]->steps[i];
	struct play_step *it = &play->steps[rank][i];
	size_t bytes = step->count * sizeof(uint64_t);

	it->untaken = step->n_peers;
	play_end(play, rank, i); /* for its depth, which is its waits' */
	it->state = PLAY_BEGUN;
	if (play->mode == PLAY_STRICT ||
		(play->mode == PLAY_MIXED && play_pick(play, 2)))
		return;
	it->kept = play_alloc(step->count, sizeof(uint64_t));
	memcpy(it->kept, play_at(play, rank, step->from, step), bytes);
	it->state = PLAY_DONE;
}

/* NULL: it has not begun to be sent. */
static inline const uint64_t *play_look(
	struct play *play, const struct play_step *it)
{
	const struct play_step *send = &play->steps[it->sender][it->send];
	const struct taut_coll_step *step =
		&play->schedules[it->sender]->steps[it->send];

	if (send->state == PLAY_WAITS)
		return NULL;
	return send->kept ? send->kept :
		play_at(play, it->sender, step->from, step);
}

static inline void play_taken(struct play *play, struct play_step *it)
{
	struct play_step *send = &play->steps[it->sender][it->send];

	it->depth = send->depth + 1;
	if (--send->untaken == 0)
		send->state = PLAY_DONE;
}

/* Whether anything happened. */
static inline bool play_receive(struct play *play, uint32_t rank, uint32_t i)
{
	const struct taut_coll_step *step = &play->schedules[rank]->steps[i];
	struct play_step *it = &play->steps[rank][i];
	uint64_t *landing = play->scratch[rank] + step->landing;
	size_t bytes = step->count * sizeof(uint64_t);
	const uint64_t *what = landing;
	bool turn = play_may_begin(play, rank, step);

	if (it->state == PLAY_LANDED && !turn)
		return false;
	if (it->state != PLAY_LANDED) {
		bool early = step->kind == TAUT_STEP_RECV_REDUCE &&
			play->mode == PLAY_MIXED && play_pick(play, 2);

		what = turn || early ? play_look(play, it) : NULL;
		if (!what)
			return false;
		if (early) {
			memcpy(landing, what, bytes);
			it->state = PLAY_LANDED;
			play_taken(play, it);
			return true;
		}
	}
	if (step->kind == TAUT_STEP_RECV)
		memcpy(play_at(play, rank, step->into, step), what, bytes);
	else
		play_reduce(play, rank, step, what);
	if (what != landing)
		play_taken(play, it);
	play_end(play, rank, i);
	return true;
}

static inline bool play_move(struct play *play, uint32_t rank, uint32_t i)
{
	const struct taut_coll_step *step = &play->schedules[rank]->steps[i];
	enum play_state state = play->steps[rank][i].state;

	if (state == PLAY_DONE)
		return false;
	if (play_receives(step))
		return play_receive(play, rank, i);
	if (state != PLAY_WAITS || !play_may_begin(play, rank, step))
		return false;
	if (step->kind == TAUT_STEP_SEND) {
		play_begin_send(play, rank, i);
		return true;
	}
	if (step->kind == TAUT_STEP_REDUCE)
		play_reduce(play, rank, step, play->scratch[rank] + step->place);
	else if (!play->in_place)
		memcpy(play_at(play, rank, step->into, step),
			play_at(play, rank, step->from, step),
			step->count * sizeof(uint64_t));
	play_end(play, rank, i);
	return true;
}

struct play_turn {
	uint32_t rank, step;
};

static inline struct play_turn *play_turns(struct play *play, uint32_t *ret_n)
{
	struct play_turn *turns;
	uint32_t n = 0;

	for (uint32_t r = 0; r < play->shape.n_ranks; r++)
		n += play->schedules[r]->n_steps;
	turns = play_alloc(n, sizeof *turns);
	n = 0;
	for (uint32_t r = 0; r < play->shape.n_ranks; r++)
		for (uint32_t i = 0; i < play->schedules[r]->n_steps; i++)
			turns[n++] = (struct play_turn){ r, i };
	for (uint32_t i = n; i > 1; i--) {
		uint32_t k = (uint32_t)play_pick(play, i);
		struct play_turn last = turns[i - 1];

		turns[i - 1] = turns[k];
		turns[k] = last;
	}
	*ret_n = n;
	return turns;
}

/* Everything in a random order, to its end; fails when nothing moves before that.
 * play_match() came before. */
static inline void play_run(struct play *play)
{
	uint32_t n, left, still = 0;
	struct play_turn *turns = play_turns(play, &n);

	left = n;
	while (left) {
		uint32_t to = 0;
		bool moved = false;

		for (uint32_t i = 0; i < left; i++) {
			struct play_turn at = turns[i];

			if (still || play_pick(play, 3))
				moved |= play_move(play, at.rank, at.step);
			if (play->steps[at.rank][at.step].state != PLAY_DONE)
				turns[to++] = at;
		}
		if (still > 8)
			fail_msg("%u of %u steps wait forever", left, n);
		still = moved || to < left ? 0 : still + 1;
		left = to;
	}
	free(turns);
}

/* --- what holds in any order -------------------------------------------------------*/

struct play_use {
	uint32_t memory; /* enum taut_coll_buffer */
	uint64_t first, count;
	bool writes;
};
enum { PLAY_USES = 4 };

static inline struct play_use play_use_of(const struct taut_coll_step *step,
	uint8_t buffer, bool writes, bool in_place)
{
	struct play_use use = { buffer, step->first, step->count, writes };

	if (buffer == TAUT_SCRATCH)
		use.first = step->place;
	else if (in_place)
		use.memory = TAUT_OUTPUT;
	return use;
}

static inline uint32_t play_uses(const struct taut_coll_step *step,
	bool in_place, struct play_use uses[PLAY_USES])
{
	uint32_t n = 0;

	if (step->kind == TAUT_STEP_COPY && in_place)
		return 0;
	if (step->kind != TAUT_STEP_RECV)
		uses[n++] = play_use_of(step, step->from, false, in_place);
	if (step->kind != TAUT_STEP_SEND)
		uses[n++] = play_use_of(step, step->into, true, in_place);
	if (step->kind == TAUT_STEP_REDUCE)
		uses[n++] = play_use_of(step, TAUT_SCRATCH, false, in_place);
	if (step->kind == TAUT_STEP_RECV_REDUCE)
		uses[n++] = (struct play_use){
			TAUT_SCRATCH, step->landing, step->count, true };
	return n;
}

static inline bool play_conflict(const struct taut_coll_step *a,
	const struct taut_coll_step *b, bool in_place)
{
	struct play_use x[PLAY_USES], y[PLAY_USES];
	uint32_t n = play_uses(a, in_place, x), m = play_uses(b, in_place, y);

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < m; k++)
			if (x[i].memory == y[k].memory &&
				(x[i].writes || y[k].writes) &&
				x[i].first < y[k].first + y[k].count &&
				y[k].first < x[i].first + x[i].count)
				return true;
	return false;
}

/* No two steps that may be at work together use the same elements, unless both
 * read; and no step waits for one that has nothing to do with it. */
static inline void play_check_races(const struct taut_coll_schedule *s)
{
	size_t words = s->n_steps / 64 + 1;
	uint64_t *before = play_alloc(words * s->n_steps, sizeof *before);

	for (uint32_t i = 0; i < s->n_steps; i++) {
		const struct taut_coll_step *step = &s->steps[i];
		uint64_t *mine = before + words * i;

		for (uint32_t k = 0; k < step->n_waits; k++) {
			uint32_t wait = s->waits[step->first_wait + k];

			assert_true(wait < i);
			assert_true(play_conflict(
				step, &s->steps[wait], true));
			for (uint32_t j = 0; j < k; j++)
				assert_true(s->waits[
					step->first_wait + j] != wait);
			mine[wait / 64] |= UINT64_C(1) << wait % 64;
			for (size_t w = 0; w < words; w++)
				mine[w] |= before[words * wait + w];
		}
		for (uint32_t k = 0; k < i; k++)
			if (!(mine[k / 64] >> k % 64 & 1) &&
				(play_conflict(step, &s->steps[k], true) ||
				play_conflict(step, &s->steps[k], false)))
				fail_msg("steps %u and %u meet", k, i);
	}
	free(before);
}

/* A landing is its step's alone, also against those that come before and after. */
static inline void play_check_landings(const struct taut_coll_schedule *s)
{
	for (uint32_t i = 0; i < s->n_steps; i++) {
		struct taut_coll_step only = { .kind = TAUT_STEP_RECV,
			.into = TAUT_SCRATCH, .place = s->steps[i].landing,
			.count = s->steps[i].count };

		if (s->steps[i].kind != TAUT_STEP_RECV_REDUCE)
			continue;
		for (uint32_t k = 0; k < s->n_steps; k++)
			assert_true(i == k ||
				!play_conflict(&only, &s->steps[k], true));
	}
}

static inline void play_check_block(
	const struct taut_coll_shape *shape, const struct taut_coll_step *step)
{
	for (uint32_t b = 0; b < shape->n_ranks; b++) {
		uint64_t length, first = taut_coll_block(
			shape->count, shape->n_ranks, b, &length);

		if (step->first >= first && step->first < first + length) {
			assert_true(step->first + step->count <=
				first + length);
			return;
		}
	}
	fail();
}

static inline void play_check_step(const struct play *play,
	const struct taut_coll_schedule *s, const struct taut_coll_step *step)
{
	bool by_block = play->shape.verb == TAUT_REDUCE_SCATTER ||
		play->shape.verb == TAUT_ALLGATHER;
	struct play_use uses[PLAY_USES];
	uint32_t n = play_uses(step, false, uses);

	for (uint32_t i = 0; i < n; i++) {
		assert_true(uses[i].first + uses[i].count <=
			(uses[i].memory == TAUT_SCRATCH ? s->scratch :
				play->shape.count));
		assert_false(uses[i].writes && uses[i].memory == TAUT_INPUT);
	}
	assert_true(step->count > 0);
	assert_true(step->first_peer + step->n_peers <= s->n_peers);
	assert_true(step->first_wait + step->n_waits <= s->n_waits);
	assert_true(play_receives(step) ? step->n_peers == 1 :
		step->kind == TAUT_STEP_SEND ? step->n_peers > 0 :
		step->n_peers == 0);
	if (by_block && play->shape.n_ranks > 1)
		play_check_block(&play->shape, step);
}

static inline void play_check(const struct play *play)
{
	for (uint32_t r = 0; r < play->shape.n_ranks; r++) {
		const struct taut_coll_schedule *s = play->schedules[r];

		for (uint32_t i = 0; i < s->n_steps; i++)
			play_check_step(play, s, &s->steps[i]);
		play_check_races(s);
		play_check_landings(s);
	}
}

#endif /* TAUT_COLL_PLAY_H */

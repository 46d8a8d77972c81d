/* again_queue.h - operations that are to be looked at, by place in the order, the
 * first first.
 *
 * A set of bits by place, with a bit over every 64 that says whether there is one,
 * and again one over those; and a heap for ops that have no place of their own.
 * What is added mostly comes soon: all goes on in one word, `at`, until it is empty.
 *
 * Invariants: no word of words[0] before `at` has a bit; those behind it that have
 *             one have a bit over them, and so have those over them. A bit over an
 *             empty word is dropped when it is met.
 * Units:      a place is a label / TAUTI_STRIDE. */
#ifndef TAUT_REPLAY_AGAIN_QUEUE_H
#define TAUT_REPLAY_AGAIN_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "ready.h"

#define TAUTI_STRIDE ((int64_t)1 << 20)
enum { TAUTI_LEVELS = 3 };

struct again_queue {
	uint64_t *words[TAUTI_LEVELS];
	uint32_t n_words[TAUTI_LEVELS];
	uint32_t at;          /* of words[0]; n_words[0]: all are empty */
	uint32_t n_heap;
	uint32_t *op_at;      /* by place; place 0 is nobody's */
	uint32_t n_places;
	struct ready heap;    /* keys are labels */
};

static inline bool again_has_place(int64_t label)
{
	return label && !(label & (TAUTI_STRIDE - 1));
}

/* A bit over words[0][word], and so on. */
static inline void again_bit_over(struct again_queue *q, uint32_t word)
{
	for (int l = 1; l < TAUTI_LEVELS; l++) {
		uint64_t *over = &q->words[l][word >> 6], was = *over;

		*over = was | (uint64_t)1 << (word & 63);
		if (was)
			return;
		word >>= 6;
	}
}

static inline void again_add_place(struct again_queue *q, uint32_t place)
{
	uint32_t word = place >> 6;

	q->words[0][word] |= (uint64_t)1 << (place & 63);
	if (word == q->at)
		return;
	if (word < q->at) {
		if (q->at < q->n_words[0] && q->words[0][q->at])
			again_bit_over(q, q->at);
		q->at = word;
	} else {
		again_bit_over(q, word);
	}
}

/* The first word from `from` on, of a level, that is not empty; n_words: none. */
static inline uint32_t again_next_word(
	struct again_queue *q, int level, uint32_t from)
{
	while (from < q->n_words[level]) {
		uint64_t *over, bits;

		if (q->words[level][from])
			return from;
		if (level + 1 == TAUTI_LEVELS) {
			from++;
			continue;
		}
		over = &q->words[level + 1][from >> 6];
		*over &= ~((uint64_t)1 << (from & 63));
		bits = *over & -(uint64_t)1 << (from & 63);
		if (bits) {
			from = (from & ~(uint32_t)63) +
				(uint32_t)__builtin_ctzll(bits);
			continue;
		}
		from = again_next_word(q, level + 1, (from >> 6) + 1);
		if (from >= q->n_words[level + 1])
			return q->n_words[level];
		from = from * 64 + (uint32_t)__builtin_ctzll(
			q->words[level + 1][from]);
	}
	return q->n_words[level];
}

/* TAUT_NONE: there is none. */
static inline uint32_t again_first_place(struct again_queue *q)
{
	if (q->at < q->n_words[0] && !q->words[0][q->at])
		q->at = again_next_word(q, 0, q->at);
	if (q->at >= q->n_words[0])
		return TAUT_NONE;
	return q->at * 64 +
		(uint32_t)__builtin_ctzll(q->words[0][q->at]);
}

/* Would it be, and is it easy to tell? */
static inline bool again_is_first(const struct again_queue *q, uint32_t place)
{
	return place >> 6 == q->at && !(q->words[0][q->at] &
		(((uint64_t)2 << (place & 63)) - 1));
}

/* Of the first one. */
static inline void again_drop_first(struct again_queue *q)
{
	q->words[0][q->at] &= q->words[0][q->at] - 1;
}

#endif /* TAUT_REPLAY_AGAIN_QUEUE_H */

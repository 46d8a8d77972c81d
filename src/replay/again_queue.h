/* again_queue.h - operations that are to be looked at, by place in the order, the
 * first first.
 *
 * A set of bits by place, with a bit over every 64 that says whether there is one,
 * and again one over those; and a heap for ops that have no place of their own.
 *
 * Invariants: words above words[l][i] have the bit of i exactly when it is not 0;
 *             words[2][i] is 0 for all i < from.
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
	uint32_t n_top, from; /* of words[2] */
	uint32_t *op_at;      /* by place; place 0 is nobody's */
	uint32_t n_places;
	struct ready heap;    /* keys are labels */
};

static inline bool again_has_place(int64_t label)
{
	return label && !(label & (TAUTI_STRIDE - 1));
}

static inline void again_add_place(struct again_queue *q, uint32_t place)
{
	for (int l = 0; l < TAUTI_LEVELS; l++) {
		uint64_t *word = &q->words[l][place >> 6], was = *word;

		*word = was | (uint64_t)1 << (place & 63);
		if (was)
			return;
		place >>= 6;
	}
	if (place < q->from)
		q->from = place;
}

/* TAUT_NONE: there is none. */
static inline uint32_t again_first_place(struct again_queue *q)
{
	uint32_t at = q->from;

	while (at < q->n_top && !q->words[2][at])
		at++;
	q->from = at;
	if (at == q->n_top)
		return TAUT_NONE;
	at = at * 64 + (uint32_t)__builtin_ctzll(q->words[2][at]);
	at = at * 64 + (uint32_t)__builtin_ctzll(q->words[1][at]);
	return at * 64 + (uint32_t)__builtin_ctzll(q->words[0][at]);
}

static inline void again_drop_place(struct again_queue *q, uint32_t place)
{
	for (int l = 0; l < TAUTI_LEVELS; l++) {
		uint64_t *word = &q->words[l][place >> 6];

		*word &= ~((uint64_t)1 << (place & 63));
		if (*word)
			return;
		place >>= 6;
	}
}

#endif /* TAUT_REPLAY_AGAIN_QUEUE_H */

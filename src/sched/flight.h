/* flight.h - the committed pieces that are not known to be finished on all ranks,
 * by their place in the sequence.
 *
 *     0 ......... floor ........................ end
 *     everywhere  | finished here, everywhere, or neither |  not committed
 *
 * Invariants: what is finished everywhere is finished here. Bits of numbers below
 *             floor, in the word of floor, are set; which bits are set at and
 *             above end means nothing.
 * Owner:      of its one block. Threads: one at a time. */
#ifndef TAUT_SCHED_FLIGHT_H
#define TAUT_SCHED_FLIGHT_H

#include <stdbool.h>

#include <taut/sched.h>

#include "sched/bits.h"

struct tauti_committed {
	struct taut_sched_piece piece;
	bool joined; /* started together with the one before it */
};

struct tauti_flight { /* zero is an empty one */
	struct tauti_committed *rows; /* a ring of capacity, with both sets */
	uint64_t *finished, *everywhere;
	uint64_t capacity; /* 0, or a power of two, at least 64 */
	uint64_t floor, end;
};

static inline struct tauti_committed *tauti_flight_row(
	const struct tauti_flight *flight, uint64_t number)
{
	return &flight->rows[number & (flight->capacity - 1)];
}

/* The word of one of the sets that holds the bits 64 w .. 64 w + 63. */
static inline uint64_t *tauti_flight_word(
	const struct tauti_flight *flight, uint64_t *set, uint64_t w)
{
	return &set[w & (flight->capacity / 64 - 1)];
}

static inline bool tauti_flight_has(
	const struct tauti_flight *flight, uint64_t *set, uint64_t number)
{
	return *tauti_flight_word(flight, set, number / 64) & tauti_bit(number);
}

/* Gives the piece the number `end`. False: no memory; nothing was changed. */
TAUT_NODISCARD bool tauti_flight_add(struct tauti_flight *flight,
	const struct taut_sched_piece *piece, bool joined);
/* Says of a piece that it is finished here, or everywhere: then floor rises to
 * the first that is not. Its number is in floor .. end - 1. */
void tauti_flight_finish(struct tauti_flight *flight, uint64_t number);
void tauti_flight_release(struct tauti_flight *flight, uint64_t number);
/* Words that hold floor .. end - 1. */
size_t tauti_flight_words(const struct tauti_flight *flight);
/* The bits of what is finished here, tauti_flight_words() of them. */
void tauti_flight_copy(const struct tauti_flight *flight, uint64_t *words);
void tauti_flight_fini(struct tauti_flight *flight);

#endif /* TAUT_SCHED_FLIGHT_H */

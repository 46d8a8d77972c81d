/* bits.h - a set of numbers below n, whose least is found in O(log n) to the
 * base 64: a bit for each, above it a bit for each word that is not 0, and so on
 * up to a single word.
 * Threads: one at a time. */
#ifndef TAUT_SCHED_BITS_H
#define TAUT_SCHED_BITS_H

#include <stdbool.h>
#include <stdint.h>

#include <taut/base.h>

enum { TAUTI_BITS_LEVELS = 6 }; /* 64^6 > 2^32 */

struct tauti_bits {
	uint64_t *levels[TAUTI_BITS_LEVELS]; /* of one block, levels[0] */
	unsigned n_levels;
};

/* Words for n bits. */
static inline size_t tauti_bits_words(uint64_t n)
{
	return (size_t)(n / 64 + (n % 64 != 0));
}

static inline uint64_t tauti_bit(uint64_t number)
{
	return (uint64_t)1 << (number % 64);
}

/* Empty; false: no memory, and there is nothing to fini. */
TAUT_NODISCARD bool tauti_bits_init(struct tauti_bits *bits, uint32_t n);
void tauti_bits_fini(struct tauti_bits *bits); /* zeroed is fine */

void tauti_bits_set(struct tauti_bits *bits, uint32_t number);
void tauti_bits_clear(struct tauti_bits *bits, uint32_t number);
bool tauti_bits_has(const struct tauti_bits *bits, uint32_t number);
/* The least; TAUT_NONE: empty. */
uint32_t tauti_bits_first(const struct tauti_bits *bits);

#endif /* TAUT_SCHED_BITS_H */

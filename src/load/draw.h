/* draw.h - random numbers that are a function of what they are for.
 *
 * A number depends on a key and on how many were drawn before it under that key, on
 * nothing else: not on the thread, the time, or what other items drew. So an item that is
 * prepared again, by another worker, in another process, after a resume, or on another
 * machine of the same byte order comes out the same.
 *
 *   key    = tauti_draw_key(seed, epoch, item), mixed of the three
 *   number = finalizer(key + n * odd), n = 1, 2, ...: a Weyl sequence through a
 *            finalizer of 64 bits (Steele, Lea, Flood: SplitMix, OOPSLA'14)
 *
 * Threads: a struct tauti_draw belongs to one. */
#ifndef TAUT_LOAD_DRAW_H
#define TAUT_LOAD_DRAW_H

#include <stdint.h>

#include "base/hash.h"

struct tauti_draw {
	uint64_t key;
};

static inline uint64_t tauti_draw_finish(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static inline struct tauti_draw tauti_draw_begin(
	uint64_t seed, uint64_t epoch, uint64_t item)
{
	uint64_t key = tauti_draw_finish(seed + TAUTI_HASH_A);

	key = tauti_draw_finish(key ^ (epoch + TAUTI_HASH_B));
	key = tauti_draw_finish(key ^ (item + TAUTI_HASH_C));
	return (struct tauti_draw){ key };
}

/* All 64 bits. */
static inline uint64_t tauti_draw_u64(struct tauti_draw *draw)
{
	draw->key += 0x9e3779b97f4a7c15u;
	return tauti_draw_finish(draw->key);
}

/* 0 .. n - 1, n > 0; its bias is below n / 2^64. */
static inline uint64_t tauti_draw_below(struct tauti_draw *draw, uint64_t n)
{
	return (uint64_t)((tauti_u128)tauti_draw_u64(draw) * n >> 64);
}

/* In [0, 1), a multiple of 2^-53. */
static inline double tauti_draw_unit(struct tauti_draw *draw)
{
	return (double)(tauti_draw_u64(draw) >> 11) * 0x1p-53;
}

static inline double tauti_draw_between(
	struct tauti_draw *draw, double least, double most)
{
	return least + (most - least) * tauti_draw_unit(draw);
}

#endif /* TAUT_LOAD_DRAW_H */

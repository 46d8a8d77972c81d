/* memory.h - what owns the blocks of memory. */
#ifndef TAUT_REPLAY_MEMORY_H
#define TAUT_REPLAY_MEMORY_H

#include <taut/memory.h>

struct owned_memory {
	struct taut_memory memory; /* first: what the caller holds */
	struct taut_arena *arena;
};

struct owned_memory *tauti_memory_new(void); /* NULL: no memory */
void tauti_memory_free(struct owned_memory *owned); /* NULL is fine */

/* A block of another size, of at most 2^60. */
static inline int64_t tauti_block_bytes(
	const struct taut_block *block, double scale)
{
	double bytes = (double)block->bytes * scale;

	return bytes < 0x1p60 ? (int64_t)bytes : (int64_t)1 << 60;
}

#endif /* TAUT_REPLAY_MEMORY_H */

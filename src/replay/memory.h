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

#endif /* TAUT_REPLAY_MEMORY_H */

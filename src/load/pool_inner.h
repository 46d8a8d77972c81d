/* pool_inner.h - a pool, for pool.c (the memory) and pool_door.c (the keeper).
 *
 * memory and wire are descriptors of the process; the keeper's own, which are in its own
 * table, are its arguments. Locks are never taken through those of the process. */
#ifndef TAUT_LOAD_POOL_INNER_H
#define TAUT_LOAD_POOL_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/origin.h"
#include "load/pool.h"

enum {
	TAUTI_POOL_VERSION = 1,
	TAUTI_POOL_HEAD_BYTES = 4096,
};

/* The beginning of the memory. */
struct tauti_pool_head {
	_Atomic uint64_t reserved_bytes; /* of the file, head included; only grows.
	                                    Set before the door opens */
	_Atomic uint32_t generation[TAUTI_POOL_SEATS]; /* times that it was taken */
};

struct tauti_pool {
	struct tauti_origin origin;
	struct tauti_pool_options options;
	char name[48]; /* of the door, without its first zero */
	pthread_t keeper;
	int memory;
	int wire[2]; /* to the keeper, and what the keeper has a copy of */
	struct tauti_pool_head *head; /* the mapping */
	uint32_t generation;
	/* Set by the keeper, the status last, before it answers. */
	uint32_t seat;
	bool own_table; /* the keeper's descriptors are not those of the process */
	bool made;
	struct taut_error fault;
	_Atomic int status; /* enum taut_status */
};

static inline uint64_t tauti_pool_map_bytes(const struct tauti_pool *pool)
{
	return TAUTI_POOL_HEAD_BYTES + pool->options.bytes;
}

/* Backs from .. end of the file with pages. False: errno. */
bool tauti_pool_grow(int memory, uint64_t from, uint64_t end);
/* The keeper's thread, given the pool. It sends one byte on the wire, with a descriptor of
 * the memory if status is TAUT_OK; then it serves until it is sent one. It has no mapping. */
void *tauti_pool_keep(void *pool);

#endif /* TAUT_LOAD_POOL_INNER_H */

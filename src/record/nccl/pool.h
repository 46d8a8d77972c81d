/* pool.h - objects of one kind, all made at the start, and handles for them
 * that may be kept too long.
 *
 * NCCL hands our handles back from several threads, sometimes after the event
 * has ended, and with PXN it hands us those of another process. So a handle is
 * no address: it is checked, and one that is old or not ours is simply not found.
 *
 *   handle   63        32 31     28 27       0
 *            +-----------+---------+----------+
 *            | generation|  kind   |  index   |     never NULL: kind > 0
 *            +-----------+---------+----------+
 *   state    63        32 31  30             0
 *            +-----------+---+---------------+
 *            | generation| H |  sharers      |      of the object
 *            +-----------+---+---------------+
 *
 * An object is found only while its generation is that of the handle; it gets
 * the next one when it is put back. H: one thread holds it for itself.
 *
 * Owner:   who makes a pool frees it.
 * Threads: any, all at once, but for make and free. Nothing waits and nothing
 *          is allocated: what cannot be had now is NULL. */
#ifndef TAUT_RECORD_NCCL_POOL_H
#define TAUT_RECORD_NCCL_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tauti_pool_kind { /* 1 to 15 */
	TAUTI_POOL_COMM = 1,
	TAUTI_POOL_TASK,
	TAUTI_POOL_OP,
	TAUTI_POOL_STEP,
	TAUTI_POOL_KERNEL,
};

struct tauti_pooled { /* every object begins with it */
	_Atomic uint64_t state;
};

struct tauti_pool {
	char *objects;
	size_t size; /* of an object */
	uint32_t n;
	enum tauti_pool_kind kind;
	_Atomic uint64_t first; /* free: change count << 32 | index + 1 */
	_Atomic uint32_t *next; /* of the free ones: index + 1 */
};

/* salt: what generations begin with, different in each process. False: no
 * memory, and the pool is as if freed. */
bool tauti_pool_make(struct tauti_pool *pool, enum tauti_pool_kind kind,
	size_t size, uint32_t n, uint32_t salt);
void tauti_pool_free(struct tauti_pool *pool);

/* An object that nobody else has, held; NULL: all are in use. What it held
 * before is still in it. */
void *tauti_pool_take(struct tauti_pool *pool);
/* Puts back an object that is held; its handles are then of nothing. */
void tauti_pool_put(struct tauti_pool *pool, void *object);
/* The handle of an object that is held. */
void *tauti_pool_handle(const struct tauti_pool *pool, const void *object);

/* The object, for this thread alone; NULL: no such one, or somebody has it. */
void *tauti_pool_hold(struct tauti_pool *pool, const void *handle);
/* The same of whatever is at an index. */
void *tauti_pool_hold_at(struct tauti_pool *pool, uint32_t index);
void tauti_pool_release(void *object); /* what is held */
/* The object, with others; NULL: no such one, or somebody holds it. */
void *tauti_pool_share(struct tauti_pool *pool, const void *handle);
void tauti_pool_unshare(void *object);

static inline enum tauti_pool_kind tauti_pool_kind_of(const void *handle)
{
	return (enum tauti_pool_kind)((uintptr_t)handle >> 28 & 15);
}

/* A number for the object of this handle, which it keeps until the object
 * was used again a million times; not 0. Works for old handles too. */
static inline uint32_t tauti_pool_number(const void *handle)
{
	uint64_t bits = (uintptr_t)handle;
	uint32_t number = (uint32_t)(bits >> 32) << 12 | (bits & 0xfff);

	return number ? number : UINT32_MAX;
}

#endif /* TAUT_RECORD_NCCL_POOL_H */

/* pool.c - objects of one kind and handles that are checked. */
#include "record/nccl/pool.h"

#include <stdlib.h>

#define HELD (UINT64_C(1) << 31)
#define LOW_BITS UINT64_C(0xffffffff)
#define INDEX_BITS UINT64_C(0x0fffffff)

static struct tauti_pooled *object_at(
	const struct tauti_pool *pool, uint32_t index)
{
	return (struct tauti_pooled *)(pool->objects + index * pool->size);
}

static uint32_t index_of(const struct tauti_pool *pool, const void *object)
{
	return (uint32_t)((size_t)((const char *)object - pool->objects) /
		pool->size);
}

/* --- the list of free ones ----------------------------------------------------*/

static void push(struct tauti_pool *pool, uint32_t index)
{
	uint64_t first = atomic_load_explicit(&pool->first,
		memory_order_relaxed);
	uint64_t wanted;

	do {
		atomic_store_explicit(&pool->next[index], (uint32_t)first,
			memory_order_relaxed);
		wanted = ((first >> 32) + 1) << 32 | (index + 1);
	} while (!atomic_compare_exchange_weak_explicit(&pool->first, &first,
		wanted, memory_order_release, memory_order_relaxed));
}

void *tauti_pool_take(struct tauti_pool *pool)
{
	uint64_t first = atomic_load_explicit(&pool->first,
		memory_order_acquire);
	uint64_t wanted;
	uint32_t index;

	do {
		index = (uint32_t)first;
		if (!index)
			return NULL;
		wanted = ((first >> 32) + 1) << 32 |
			atomic_load_explicit(&pool->next[index - 1],
				memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(&pool->first, &first,
		wanted, memory_order_acquire, memory_order_acquire));
	return object_at(pool, index - 1);
}

void tauti_pool_put(struct tauti_pool *pool, void *object)
{
	struct tauti_pooled *it = object;
	uint64_t state = atomic_load_explicit(&it->state, memory_order_relaxed);

	/* Stays held, so that no handle made up by chance finds it. */
	atomic_store_explicit(&it->state, ((state >> 32) + 1) << 32 | HELD,
		memory_order_release);
	push(pool, index_of(pool, object));
}

/* --- making -------------------------------------------------------------------*/

bool tauti_pool_make(struct tauti_pool *pool, enum tauti_pool_kind kind,
	size_t size, uint32_t n, uint32_t salt)
{
	*pool = (struct tauti_pool) {
		.objects = calloc(n, size),
		.size = size,
		.n = n,
		.kind = kind,
		.next = calloc(n, sizeof *pool->next),
	};
	if (!pool->objects || !pool->next) {
		tauti_pool_free(pool);
		return false;
	}
	for (uint32_t i = n; i-- > 0;) {
		atomic_init(&object_at(pool, i)->state,
			(uint64_t)salt << 32 | HELD);
		push(pool, i);
	}
	return true;
}

void tauti_pool_free(struct tauti_pool *pool)
{
	free(pool->objects);
	free(pool->next);
	*pool = (struct tauti_pool) { .objects = NULL };
}

/* --- handles -------------------------------------------------------------------*/

void *tauti_pool_handle(const struct tauti_pool *pool, const void *object)
{
	const struct tauti_pooled *it = object;
	uint64_t state = atomic_load_explicit(&it->state, memory_order_relaxed);

	return (void *)(uintptr_t)((state & ~LOW_BITS) |
		(uint64_t)pool->kind << 28 | index_of(pool, object));
}

static struct tauti_pooled *find(
	const struct tauti_pool *pool, const void *handle)
{
	uint64_t index = (uintptr_t)handle & INDEX_BITS;

	if (tauti_pool_kind_of(handle) != pool->kind || index >= pool->n)
		return NULL;
	return object_at(pool, (uint32_t)index);
}

static bool change(struct tauti_pooled *it, uint64_t from, uint64_t to)
{
	return atomic_compare_exchange_strong_explicit(&it->state, &from, to,
		memory_order_acquire, memory_order_relaxed);
}

void *tauti_pool_hold(struct tauti_pool *pool, const void *handle)
{
	struct tauti_pooled *it = find(pool, handle);
	uint64_t state = (uintptr_t)handle & ~LOW_BITS;

	return it && change(it, state, state | HELD) ? it : NULL;
}

void *tauti_pool_hold_at(struct tauti_pool *pool, uint32_t index)
{
	struct tauti_pooled *it = object_at(pool, index);
	uint64_t state = atomic_load_explicit(&it->state, memory_order_relaxed);

	return !(state & LOW_BITS) && change(it, state, state | HELD) ? it :
		NULL;
}

void tauti_pool_release(void *object)
{
	struct tauti_pooled *it = object;

	atomic_fetch_and_explicit(&it->state, ~HELD, memory_order_release);
}

void *tauti_pool_share(struct tauti_pool *pool, const void *handle)
{
	struct tauti_pooled *it = find(pool, handle);
	uint64_t state;

	if (!it)
		return NULL;
	state = atomic_load_explicit(&it->state, memory_order_relaxed);
	while ((state & HELD) == 0 &&
		state >> 32 == (uintptr_t)handle >> 32)
		if (atomic_compare_exchange_weak_explicit(&it->state, &state,
			state + 1, memory_order_acquire, memory_order_relaxed))
			return it;
	return NULL;
}

void tauti_pool_unshare(void *object)
{
	struct tauti_pooled *it = object;

	atomic_fetch_sub_explicit(&it->state, 1, memory_order_release);
}

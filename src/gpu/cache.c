/* cache.c - ranges of addresses: sorted, read without a lock. See cache.h. */
#include <string.h>

#include "gpu/cache.h"

void tauti_gpu_cache_init(struct tauti_gpu_cache *cache)
{
	atomic_init(&cache->sequence, 0);
	atomic_init(&cache->n, 0);
	cache->next = 0;
	pthread_mutex_init(&cache->lock, NULL);
}

void tauti_gpu_cache_finish(struct tauti_gpu_cache *cache)
{
	pthread_mutex_destroy(&cache->lock);
}

/* --- words ------------------------------------------------------------------------------*/

static uint64_t start_of(const struct tauti_gpu_cache *cache, uint32_t i)
{
	return atomic_load_explicit(&cache->word[i][0], memory_order_acquire);
}

static void load(const struct tauti_gpu_cache *cache, uint32_t i,
	struct tauti_gpu_range *ret_range)
{
	uint64_t word[TAUTI_GPU_RANGE_WORDS];

	for (uint32_t k = 0; k < TAUTI_GPU_RANGE_WORDS; k++)
		word[k] = atomic_load_explicit(
			&cache->word[i][k], memory_order_acquire);
	memcpy(ret_range, word, sizeof word);
}

static void store(struct tauti_gpu_cache *cache, uint32_t i,
	const struct tauti_gpu_range *range)
{
	uint64_t word[TAUTI_GPU_RANGE_WORDS];

	memcpy(word, range, sizeof word);
	for (uint32_t k = 0; k < TAUTI_GPU_RANGE_WORDS; k++)
		atomic_store_explicit(
			&cache->word[i][k], word[k], memory_order_release);
}

/* The first range that starts behind `at`. */
static uint32_t behind(
	const struct tauti_gpu_cache *cache, uint32_t n, uint64_t at)
{
	uint32_t low = 0, high = n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (start_of(cache, middle) <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* --- readers ----------------------------------------------------------------------------*/

static bool look(const struct tauti_gpu_cache *cache, uint64_t at,
	struct tauti_gpu_range *ret_range)
{
	uint32_t n = atomic_load_explicit(&cache->n, memory_order_acquire);
	uint32_t i = behind(cache, n, at);

	if (!i)
		return false;
	load(cache, i - 1, ret_range);
	return at >= ret_range->start && at < ret_range->end;
}

bool tauti_gpu_cache_find(const struct tauti_gpu_cache *cache, uint64_t at,
	struct tauti_gpu_range *ret_range)
{
	struct tauti_gpu_range range = { .start = 0 };
	uint64_t before, after;
	bool found;

	/* Words are read with acquire and written with release: who reads one that a
	 * change wrote sees the odd number, too. Boehm, "Can seqlocks get along with
	 * programming language memory models?", MSPC 2012. */
	do {
		before = atomic_load_explicit(
			&cache->sequence, memory_order_acquire);
		found = !(before & 1) && look(cache, at, &range);
		after = atomic_load_explicit(
			&cache->sequence, memory_order_relaxed);
	} while (before != after || (before & 1));
	if (found)
		*ret_range = range;
	return found;
}

/* --- writers ----------------------------------------------------------------------------*/

static void begin(struct tauti_gpu_cache *cache)
{
	pthread_mutex_lock(&cache->lock);
	atomic_fetch_add_explicit(&cache->sequence, 1, memory_order_relaxed);
}

static void end(struct tauti_gpu_cache *cache)
{
	atomic_fetch_add_explicit(&cache->sequence, 1, memory_order_release);
	pthread_mutex_unlock(&cache->lock);
}

/* Ranges first to last - 1 go. */
static void remove_some(
	struct tauti_gpu_cache *cache, uint32_t first, uint32_t last)
{
	uint32_t n = atomic_load_explicit(&cache->n, memory_order_relaxed);
	struct tauti_gpu_range range;

	if (first == last)
		return;
	for (uint32_t i = last; i < n; i++) {
		load(cache, i, &range);
		store(cache, i - (last - first), &range);
	}
	atomic_store_explicit(
		&cache->n, n - (last - first), memory_order_release);
}

static void remove_overlaps(
	struct tauti_gpu_cache *cache, uint64_t start, uint64_t stop)
{
	uint32_t n = atomic_load_explicit(&cache->n, memory_order_relaxed);
	uint32_t first, last;
	struct tauti_gpu_range range;

	if (start >= stop)
		return;
	last = behind(cache, n, stop - 1);
	first = behind(cache, n, start);
	if (first) {
		load(cache, first - 1, &range);
		first -= range.end > start;
	}
	remove_some(cache, first, last);
}

static void insert(
	struct tauti_gpu_cache *cache, const struct tauti_gpu_range *range)
{
	uint32_t n = atomic_load_explicit(&cache->n, memory_order_relaxed);
	uint32_t to = behind(cache, n, range->start);
	struct tauti_gpu_range moved;

	for (uint32_t i = n; i > to; i--) {
		load(cache, i - 1, &moved);
		store(cache, i, &moved);
	}
	store(cache, to, range);
	atomic_store_explicit(&cache->n, n + 1, memory_order_release);
}

void tauti_gpu_cache_keep(
	struct tauti_gpu_cache *cache, const struct tauti_gpu_range *range)
{
	if (range->start >= range->end)
		return;
	begin(cache);
	remove_overlaps(cache, range->start, range->end);
	if (atomic_load_explicit(&cache->n, memory_order_relaxed) ==
		TAUTI_GPU_CACHE_RANGES) {
		uint32_t i = cache->next++ % TAUTI_GPU_CACHE_RANGES;

		remove_some(cache, i, i + 1);
	}
	insert(cache, range);
	end(cache);
}

void tauti_gpu_cache_drop(
	struct tauti_gpu_cache *cache, uint64_t start, uint64_t stop)
{
	begin(cache);
	remove_overlaps(cache, start, stop);
	end(cache);
}

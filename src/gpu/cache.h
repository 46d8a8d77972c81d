/* cache.h - what is known of memory, by ranges of addresses.
 *
 * Sorted ranges that do not overlap, so a look is a binary search. Readers take no
 * lock: they read again where a writer was at work meanwhile (a sequence lock; every
 * word is atomic, so that a torn read is noticed and never undefined).
 *
 * Two things keep it right. Who hears that memory is freed drops it here. And an
 * entry has the number that the driver gave the allocation, which is never used
 * again: place.c asks for that at each hit, for memory may be freed by calls that
 * nobody hears of.
 *
 * Threads: any. Memory: none but its own. */
#ifndef TAUT_GPU_CACHE_H
#define TAUT_GPU_CACHE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { TAUTI_GPU_CACHE_RANGES = 1024 };

struct tauti_gpu_range { /* [start, end) */
	uint64_t start, end;
	uint64_t id;      /* the driver's, of the allocation */
	uint64_t context; /* whose it is */
	uint64_t device;
};

enum { TAUTI_GPU_RANGE_WORDS = sizeof(struct tauti_gpu_range) / 8 };

struct tauti_gpu_cache { /* zero is empty, but for the lock */
	_Atomic uint64_t sequence; /* odd: it is being changed */
	_Atomic uint32_t n;
	uint32_t next;             /* to go where there is no room */
	_Atomic uint64_t word[TAUTI_GPU_CACHE_RANGES][TAUTI_GPU_RANGE_WORDS];
	pthread_mutex_t lock;      /* of writers */
};

void tauti_gpu_cache_init(struct tauti_gpu_cache *cache);
void tauti_gpu_cache_finish(struct tauti_gpu_cache *cache);
/* The range that has this address. */
bool tauti_gpu_cache_find(const struct tauti_gpu_cache *cache, uint64_t at,
	struct tauti_gpu_range *ret_range);
/* What overlaps it is older, and goes. Where all is full another one goes. */
void tauti_gpu_cache_keep(
	struct tauti_gpu_cache *cache, const struct tauti_gpu_range *range);
/* All that has an address in [start, end). */
void tauti_gpu_cache_drop(
	struct tauti_gpu_cache *cache, uint64_t start, uint64_t end);

#endif /* TAUT_GPU_CACHE_H */

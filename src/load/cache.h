/* cache.h - the bytes of items, kept once for all processes of a host.
 *
 * What is kept is cache_words.h's: everything until full, nothing is ever given up. It
 * lies in a pool (pool.h), so it is gone with its last participant.
 *
 *     switch (tauti_cache_look(cache, item, bytes, &at)) {
 *     case TAUTI_CACHE_HERE: use(at); break;
 *     case TAUTI_CACHE_MINE:
 *             if (fetch(item, at ? at : my_own_buffer))
 *                     if (at) tauti_cache_fill(cache, item);
 *             else if (at)
 *                     tauti_cache_drop(cache, item);
 *             break;
 *     case TAUTI_CACHE_COMING: do something else, or tauti_cache_wait(), and look again
 *     }
 *
 * What is fetched for an item must be the same whoever fetches it: a reader that was
 * killed may have asked the system for bytes that still arrive in the room while the next
 * one fills it.
 *
 * Counts are over all participants there ever were. What is kept is counted item by item
 * when it is asked for, so it is exact at any time, whoever was killed when. A look is
 * counted just before it answers: hits and misses are what was answered, and at most one
 * more for each thread that was killed in a look. A fetch that its process did not live to
 * end is a miss, and that of who takes it over is another.
 *
 * Owner:   whoever has opened it. It closes it when nobody reads its bytes any more.
 * Threads: any, but for close, which is the last. A child by fork() may read bytes that it
 *          has a pointer to; look answers MINE there, not kept and not counted. */
#ifndef TAUT_LOAD_CACHE_H
#define TAUT_LOAD_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include <taut/base.h>

#include "load/cache_words.h"
#include "load/pool.h"

TAUT_BEGIN_DECLS

struct tauti_cache; /* opaque */

struct tauti_cache_options {
	uint64_t fingerprint; /* of the set. Caches of other n_items, bytes or check
	                         are others, under the same fingerprint too */
	uint32_t n_items;
	uint64_t bytes; /* capacity; 12 bytes an item and 24 KiB come on top */
	bool check;     /* keep a sum of each item's bytes (8 bytes more an item) and
	                   compare at each look: for tests, it costs a read of all */
	int64_t patience_ns, keep_ns; /* as in pool.h */
};

struct tauti_cache_counts {
	uint64_t hits, misses; /* looks that were answered HERE, MINE */
	uint64_t coming;       /* looks that were answered COMING */
	uint64_t wrong;        /* misses for bytes that are not what they were */
	uint64_t used_bytes;   /* of capacity: room that was given */
	uint64_t kept_bytes;   /* of items that are HERE */
	uint32_t kept_items;
};

/* The statuses of tauti_pool_open(), and TAUT_EINVAL: too many items or bytes. Two
 * threads of one process that want to share open it once: each time that it is opened is
 * another participant, with a mapping and a thread. */
TAUT_NODISCARD taut_status tauti_cache_open(const struct tauti_cache_options *options,
	struct tauti_cache **ret_cache, struct taut_error *err);
void tauti_cache_close(struct tauti_cache *cache); /* NULL is fine */

/* item < n_items; bytes is its length, which is the same at each look. *ret_at is aligned
 * to 64 and stays until close: HERE: its bytes, to be read only. MINE: room for it, to be
 * written until fill or drop; or NULL: it is not kept. COMING: NULL. */
enum tauti_cache_answer tauti_cache_look(struct tauti_cache *cache, uint32_t item,
	uint64_t bytes, void **ret_at);
/* Looks no further than the caller's memory and changes nothing: a hint for the order of
 * fetches. */
bool tauti_cache_has(const struct tauti_cache *cache, uint32_t item);
/* The bytes are in the room: others may read them. Once, by who was told MINE. */
void tauti_cache_fill(struct tauti_cache *cache, uint32_t item);
/* They did not come: the next who looks is to fetch. */
void tauti_cache_drop(struct tauti_cache *cache, uint32_t item);
/* Sleeps until nobody fetches the item, or who did is gone: true, look again. False:
 * timeout_ns went by. One who was killed is noticed within 50 ms. */
bool tauti_cache_wait(struct tauti_cache *cache, uint32_t item, int64_t timeout_ns);

/* Reads every item's word. */
void tauti_cache_counts(
	const struct tauti_cache *cache, struct tauti_cache_counts *ret_counts);
struct tauti_pool *tauti_cache_pool(const struct tauti_cache *cache);

TAUT_END_DECLS
#endif /* TAUT_LOAD_CACHE_H */

/* packs.h - memory for pieces that are made by many threads, kept for a while and given back
 * in about the order in which they were made; it goes back to the system while they are, in
 * packs of a megabyte. What malloc() has of many small pieces it keeps for the process, and
 * of each thread apart.
 *
 * Owner:   a piece is its taker's until it is given back; packs outlive their pieces.
 * Threads: take and give by any, all at once; init and fini by one alone.
 * Units:   bytes. */
#ifndef TAUT_LOAD_PACKS_H
#define TAUT_LOAD_PACKS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>

TAUT_BEGIN_DECLS

enum { TAUTI_PACK_BYTES = 1 << 20 }; /* a larger piece has a pack of its own */

struct tauti_pack; /* opaque */

struct tauti_packs {
	pthread_mutex_t lock;
	struct tauti_pack *open; /* that pieces are cut from; NULL: none yet */
	uint64_t bytes;          /* had of the system now */
};

void tauti_packs_init(struct tauti_packs *packs); /* takes no memory */
/* All pieces were given back. */
void tauti_packs_fini(struct tauti_packs *packs);

/* So many bytes, at least 1, aligned to 16, zero. *ret_pack is what to give back.
 * NULL: no memory. */
TAUT_NODISCARD void *tauti_packs_take(
	struct tauti_packs *packs, size_t bytes, struct tauti_pack **ret_pack);
/* One piece of it. */
void tauti_packs_give(struct tauti_packs *packs, struct tauti_pack *pack);

TAUT_END_DECLS
#endif /* TAUT_LOAD_PACKS_H */

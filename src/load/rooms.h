/* rooms.h - memory for items that were read and are not prepared yet, used again and again.
 *
 * Owner:   a room that was taken is its taker's until it is given back.
 * Threads: any, all at once.
 * Units:   bytes. */
#ifndef TAUT_LOAD_ROOMS_H
#define TAUT_LOAD_ROOMS_H

#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>

struct tauti_rooms;

/* What is given back is kept while all rooms together, used or not, are at most so many
 * bytes. NULL: no memory. */
struct tauti_rooms *tauti_rooms_create(uint64_t most_bytes);
/* All rooms were given back. NULL is fine. */
void tauti_rooms_destroy(struct tauti_rooms *rooms);

/* At least so many bytes, aligned to 64, not cleared; up to a quarter more of them are
 * taken. NULL: no memory. */
TAUT_NODISCARD void *tauti_rooms_take(struct tauti_rooms *rooms, uint64_t bytes);
void tauti_rooms_give(struct tauti_rooms *rooms, void *room); /* NULL is fine */

#endif /* TAUT_LOAD_ROOMS_H */

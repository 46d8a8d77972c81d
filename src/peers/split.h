/* split.h - which host has which item: a function of the items' bytes and the hosts' weights,
 * the same on every machine, so that nobody is asked where an item is.
 *
 * Items are dealt out in their order, each to the host that is least full for its weight
 * (the lowest number where two are). So what a host has differs from its part of all bytes
 * by less than the largest item, and neighbours in the order are on different hosts: a set
 * that is read in its order asks all of them.
 * Counted are rooms of a cache, multiples of 64 bytes.
 *
 * Owner:   whoever has init() called.
 * Threads: read-only after init(). */
#ifndef TAUT_PEERS_SPLIT_H
#define TAUT_PEERS_SPLIT_H

#include <stdint.h>

#include <taut/base.h>

struct tauti_split {
	uint16_t *owner; /* by item */
	uint64_t n_items;
	uint32_t n_hosts;
};

enum { TAUTI_SPLIT_HOSTS = 1 << 16 };

/* weights: one for each host, at least 1. TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_split_init(struct tauti_split *split, uint64_t n_items,
	uint64_t (*bytes)(void *context, uint64_t item), void *context,
	const uint64_t *weights, uint32_t n_hosts, struct taut_error *err);
void tauti_split_fini(struct tauti_split *split); /* of zeros is fine */

static inline uint32_t tauti_split_owner(const struct tauti_split *split, uint64_t item)
{
	return split->owner[item];
}

#endif /* TAUT_PEERS_SPLIT_H */

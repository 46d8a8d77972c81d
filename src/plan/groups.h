/* groups.h - which gradients travel together, as sites of a search: between two that
 * become ready one after the other a bucket may end, or go on.
 *
 * Where buckets end at first says a size, or the recording; each site turns that round
 * at one place. Small gradients have no place of their own: what lies between two
 * places is at least a share of all bytes.
 *
 * Owner:   borrows the order's arrays.
 * Threads: read-only once found. */
#ifndef TAUT_PLAN_GROUPS_H
#define TAUT_PLAN_GROUPS_H

#include "plan/plan.h"

enum { TAUTI_GROUPS_SITES = 48 };

struct tauti_groups {
	struct tauti_plan_order order;
	uint32_t n_sites;
	uint32_t at[TAUTI_GROUPS_SITES]; /* before which gradient */
};

void tauti_groups_find(
	const struct tauti_plan_order *order, struct tauti_groups *ret_groups);
/* "bucket=4096+1048576...": the bytes of each bucket, where those of `cap` bytes (0: the
 * recorded ones) end otherwise at the sites with a flip. NULL: nothing is flipped, or
 * the buckets are too many to be listed. In the arena. */
TAUT_NODISCARD taut_status tauti_groups_text(const struct tauti_groups *groups,
	int64_t cap, const uint8_t *flips, struct taut_arena *arena,
	const char **ret_text, struct taut_error *err);

#endif /* TAUT_PLAN_GROUPS_H */

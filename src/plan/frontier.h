/* frontier.h - states of which no other is better in step, memory or network and
 * no worse in the rest.
 *
 * An unknown size is as large as any other unknown one and larger than all that are
 * known, so the order in which states come does not matter; of states that cost
 * the same the first stays. The first of a frontier is the best of all that came.
 *
 * Owner:   whoever holds the struct; options are in its arena.
 * Threads: one at a time. */
#ifndef TAUT_PLAN_FRONTIER_H
#define TAUT_PLAN_FRONTIER_H

#include "base/vec.h"
#include "plan/search.h"

struct tauti_frontier {
	struct taut_arena *arena;
	uint32_t n_sites;
	TAUT_VEC(struct tauti_found) found; /* by step, memory, network */
	TAUT_VEC(uint8_t *) spare;          /* options of what was removed */
};

void tauti_frontier_fini(struct tauti_frontier *frontier);
/* found->options is copied where it is kept. TAUT_EAGAIN never. */
taut_status tauti_frontier_add(struct tauti_frontier *frontier,
	const struct tauti_found *found, struct taut_error *err);

/* What is not known is as much as can be. */
static inline int64_t tauti_cost_size(int64_t bytes)
{
	return bytes < 0 ? INT64_MAX : bytes;
}

/* Whether a is the better one: by step, then by memory, then by network. Of two
 * that cannot be, the one that needs less memory: so a climb finds back to what
 * can. */
static inline bool tauti_cost_less(
	const struct tauti_cost *a, const struct tauti_cost *b)
{
	int64_t a_memory = tauti_cost_size(a->memory_bytes);
	int64_t b_memory = tauti_cost_size(b->memory_bytes);

	if (a->step_ns != b->step_ns)
		return a->step_ns < b->step_ns;
	if (a_memory != b_memory)
		return a_memory < b_memory;
	return tauti_cost_size(a->network_bytes) <
		tauti_cost_size(b->network_bytes);
}

#endif /* TAUT_PLAN_FRONTIER_H */

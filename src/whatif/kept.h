/* kept.h - memory that a forward pass keeps for its backward pass: what a change
 * may be rid of in between.
 * Units: bytes, nanoseconds. */
#ifndef TAUT_WHATIF_KEPT_H
#define TAUT_WHATIF_KEPT_H

#include "base/vec.h"
#include "whatif/compute.h"

/* A block asked for in a forward pass and given back in the backward pass of
 * the same step. */
struct tauti_kept {
	uint32_t block, step; /* of w->memory; index in graph->steps */
	uint32_t from_op;     /* asks for it; of the graph */
	int64_t from_ns, to_ns; /* as recorded */
	double bytes; /* as changed so far, while least of it is there; 0: it is
	                 made again, or nothing is left of it encoded */
};
typedef TAUT_VEC(struct tauti_kept) tauti_kept_list;
/* Those of a recorded rank, by the time at which they came; none where no
 * allocations were recorded. TAUT_ENOMEM. */
taut_status tauti_kept_find(const struct tauti_whatif *w, uint32_t trace,
	tauti_kept_list *ret_list, struct taut_error *err);
/* A share of it is free from the end of one host operation of the graph to the
 * begin of another, as an allocator counts, which takes back what a kernel
 * under way still reads. *ret_freed: whether it is; not where an end is
 * TAUT_NONE, or they and those of the block are not in this order. */
taut_status tauti_kept_free(struct tauti_whatif *w,
	const struct tauti_kept *kept, uint32_t until_op, uint32_t again_op,
	double share, bool *ret_freed, struct taut_error *err);
/* The host operation that is, or launched, an operation of the graph;
 * TAUT_NONE: nothing is known to have. launcher: tauti_launchers(). */
uint32_t tauti_host_of(const struct tauti_whatif *w, const uint32_t *launcher,
	uint32_t op);

/* How often an operation will be done again (w->again), from here on. */
struct tauti_round_at {
	uint32_t lane, n; /* + 1: where it was met last; how often there */
};
struct tauti_rounds {
	const struct tauti_whatif *w;
	struct tauti_round_at *at; /* by op of the graph, in the arena; NULL:
	                              nothing is done again */
};
taut_status tauti_rounds_begin(const struct tauti_whatif *w,
	struct tauti_rounds *ret_rounds, struct taut_error *err);
/* Once for each operation of the forward pass, along one lane after the other.
 * 0: its backward part comes next, and what it makes is kept for that. */
uint32_t tauti_rounds_left(struct tauti_rounds *r, const struct taut_op *op);

#endif /* TAUT_WHATIF_KEPT_H */

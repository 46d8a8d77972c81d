/* taut/memory.h - how much memory a job needs: what its allocator gave and
 * took back, tied to the operations that asked, so that a replay moves it.
 *
 * A block is asked for in one operation and given back in another, each at a
 * share of that operation's time. Under a replay it lives from the one instant
 * to the other; a rank's peak is the largest sum of living blocks and, of a
 * device's memory, of what was there before the recording.
 *
 * Owner:   a taut_memory owns its tables and borrows from the graph.
 * Threads: read-only once made.
 * Units:   bytes, nanoseconds. */
#ifndef TAUT_MEMORY_H
#define TAUT_MEMORY_H

#include <taut/graph.h>

TAUT_BEGIN_DECLS

struct taut_block {
	int64_t bytes;
	uint32_t from_op; /* asks for it; TAUT_NONE: before the recording */
	uint32_t to_op;   /* gives it back; TAUT_NONE: not in the recording */
	double from_at, to_at; /* of the operation's time: 0 its start, 1 its end */
};

struct taut_memory_rank { /* by trace */
	uint32_t first_block, n_blocks; /* by the time at which they came */
	int32_t device;     /* which memory: the device with most blocks; -1 the
	                       host's, where no device has any */
	int64_t base_bytes; /* there before the first block and not among them;
	                       of the host's memory not known, and 0 */
	int64_t peak_bytes; /* as recorded; -1: no allocations in the recording */
	uint32_t n_events;  /* of that memory */
	uint32_t n_unasked; /* given back, and never asked for: came before; no
	                       blocks of the host's memory */
};

struct taut_memory {
	const struct taut_graph *graph;
	uint32_t n_blocks;
	const struct taut_block *blocks; /* by (trace, time, place in the input) */
	const struct taut_memory_rank *ranks; /* by trace */
};

/* A recording without allocations gives one without blocks. TAUT_ENOMEM. */
TAUT_API TAUT_NODISCARD taut_status taut_memory_create(
	const struct taut_graph *graph, struct taut_memory **ret_memory,
	struct taut_error *reterr);
TAUT_API void taut_memory_destroy(struct taut_memory *memory); /* NULL: fine */

/* The blocks of a changed graph (taut_edit_build()): an operation asks for
 * what the one that it is or is a copy of asked for, and the k-th copy of what
 * gives back gives back what the k-th copy of what asked had, the last one all
 * that is left; of n times as many that ask, the k-th n of them. Blocks whose
 * asking operation is gone are gone; those whose giving operation is gone stay.
 * like: by op of graph, op of memory->graph or TAUT_NONE. rank_like: by trace
 * of graph, trace of memory->graph. scale: by block of memory, its bytes times
 * that; NULL: 1. sum: by block, an op of memory->graph or TAUT_NONE: copies of a
 * rank are added up in the first one, and each other is given back where that
 * op's copy ends, or is none where that op itself asks for it; NULL: of no block. peak_bytes of the ranks are those of the
 * ranks that they are like. TAUT_ENOMEM. */
TAUT_API TAUT_NODISCARD taut_status taut_memory_carry(
	const struct taut_memory *memory, const struct taut_graph *graph,
	const uint32_t *like, const uint32_t *rank_like, const double *scale,
	const uint32_t *sum, struct taut_memory **ret_memory, struct taut_error *reterr);

struct taut_memory_peak {
	int64_t bytes; /* -1: nothing is known of this rank */
	uint32_t op;   /* asked for the block with which it was reached, or
	                  TAUT_NONE */
};
/* Peaks at other times: start_ns and end_ns by op of the graph. scale: by
 * block, its bytes times that (0: it is gone); NULL: as recorded.
 * ret_peaks: by trace. TAUT_ENOMEM. */
TAUT_API TAUT_NODISCARD taut_status taut_memory_peaks(
	const struct taut_memory *memory, const int64_t *start_ns,
	const int64_t *end_ns, const double *scale,
	struct taut_memory_peak *ret_peaks, struct taut_error *reterr);

TAUT_END_DECLS
#endif /* TAUT_MEMORY_H */

/* replay.h - what the files of this room share: a timeline's scratch.
 * Threads: one replay at a time uses it. */
#ifndef TAUT_REPLAY_REPLAY_H
#define TAUT_REPLAY_REPLAY_H

#include <taut/replay.h>

#include "ready.h"

/* An edge of the graph, all of it in one cache line. */
struct tauti_wait {
	int64_t lag_ns;
	uint32_t to;
	uint32_t from_start;
};

/* pending[op]: how many waits are left, and these bits, which stay. */
#define TAUTI_ON_LANE ((uint32_t)1 << 31) /* op waits for op - 1 */
#define TAUTI_MAX_EDGES (TAUTI_ON_LANE - 2) /* and the lane: one more */

struct tauti_scratch {
	struct taut_arena *arena;
	const struct taut_graph *graph;
	const uint32_t *all_pending; /* before anything has run; n_ops + 1,
	                                the last one 0: op + 1 can be asked */
	const struct tauti_wait *waits; /* by edge */
	uint32_t *pending;
	struct ready_op *heap;
	uint32_t *sweep; /* ops, each behind all that it waits for */
	enum {
		TAUTI_SWEEP_NONE, /* not found yet */
		TAUTI_SWEEP_READY,
		TAUTI_SWEEP_CIRCLE, /* there is no such order */
	} sweep_state;
};

/* Do its ops wait for each other? Joins do not. */
static inline bool tauti_is_serial(const struct taut_graph_lane *lane)
{
	return lane->trace != TAUT_NONE;
}

taut_status tauti_replay_check(const struct taut_graph *graph,
	const struct taut_replay_edit *edit,
	const struct tauti_scratch *scratch, struct taut_error *reterr);

/* After a replay that stopped early: finds a circle among the ops that did
 * not run and fills err. Overwrites decided_by of these ops. */
taut_status tauti_replay_circle(const struct taut_graph *graph,
	const uint8_t *mute, const struct taut_timeline *timeline,
	struct taut_error *reterr);

/* "rank 3 stream 7 op 812 (ncclKernel)" */
void tauti_replay_describe(const struct taut_graph *graph, uint32_t op,
	char *ret_text, size_t size);

/* "" for a graph without names. */
const char *tauti_replay_name(const struct taut_graph *graph, uint32_t op);

#endif /* TAUT_REPLAY_REPLAY_H */

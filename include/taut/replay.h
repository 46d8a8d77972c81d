/* taut/replay.h - when everything happens: a graph run on a virtual clock.
 *
 * Discrete events, earliest start first, ties by operation id: the same
 * graph gives the same timeline on every machine, byte for byte. A replay
 * reads durations, gaps and waits, never a recorded start.
 *
 * The equation is start(op) in taut/graph.h. What it leaves open:
 * - Operations of a lane whose trace is TAUT_NONE (joins) do not wait for
 *   each other; on every other lane op waits for op - 1.
 * - An op that waits for nothing starts at max(gap, 0).
 * - Nothing is clamped: a negative lag may start an op before the one it
 *   waits for, and before 0. Such an op is still run after it, at once when
 *   it is the earliest known: see order.
 *
 * Owner:   buffers are the caller's and are reused between replays; a
 *          replay allocates nothing.
 * Threads: one replay a timeline; any number may share the graph.
 * Units:   nanoseconds, all integer. */
#ifndef TAUT_REPLAY_H
#define TAUT_REPLAY_H

#include <stdio.h>

#include <taut/graph.h>

TAUT_BEGIN_DECLS

/* What to change without touching the graph; zero changes nothing. */
struct taut_replay_edit {
	const int64_t *dur_ns; /* n_ops, >= 0; NULL: the graph's */
	const int64_t *gap_ns; /* n_ops; NULL: the graph's */
	const uint8_t *mute;   /* n_ops, 1: nobody waits for this op but the
	                          next on its lane, as if the graph had no edge
	                          out of it; NULL: none */
	int unordered; /* 1: order[] is not wanted. Operations that concern
	                  nobody but the next on their lane then run ahead of
	                  their time; starts, ends and deciders are the same */
};

struct taut_timeline {
	uint32_t n_ops;
	int64_t *start_ns, *end_ns;
	uint32_t *decided_by; /* the op whose end (or start) plus lag, or plus a
	                         negative gap, was the latest; of equal ones
	                         op - 1 on its lane, then the lowest id;
	                         TAUT_NONE for an op that waits for nothing */
	uint32_t *order;      /* n_run ops as they were run: each time the one
	                         with the smallest (start, id) of those whose
	                         waits are all run. Sorted by start but where a
	                         negative lag or gap overlaps */
	int64_t makespan_ns;  /* the latest end; 0 for no ops */
	uint32_t n_run;       /* < n_ops only after TAUT_EMATCH (a circle);
	                         only these have times then */
	void *scratch;        /* private */
};

/* Takes what does not change between replays from the graph: 32 bytes
 * an op and 16 an edge. On failure there is nothing to fini.
 * TAUT_ENOMEM; TAUT_EINVAL: a duration is negative, or the times add up to
 * 2^60 ns (36 years) or more. */
TAUT_API TAUT_NODISCARD taut_status taut_timeline_init(
	struct taut_timeline *timeline, const struct taut_graph *graph,
	struct taut_error *reterr);
/* NULL is fine, and so is a timeline that is all zero. */
TAUT_API void taut_timeline_fini(struct taut_timeline *timeline);

/* graph is the one the timeline was made for; edit may be NULL. The edit's
 * arrays are read before the call returns and not kept.
 * TAUT_EMATCH: operations wait for each other in a circle; the error names
 * two neighbours of it. TAUT_EINVAL: the edit's times, as in
 * taut_timeline_init(), or another graph; the timeline is untouched then. */
TAUT_API TAUT_NODISCARD taut_status taut_replay(const struct taut_graph *graph,
	const struct taut_replay_edit *edit, struct taut_timeline *timeline,
	struct taut_error *reterr);

/* One line an op, in the order in which they were run:
 *     start end lane op name
 * Times in ns, lane and op as in the graph; control characters of the name
 * are written as spaces. TAUT_EIO when out refuses. */
TAUT_API TAUT_NODISCARD taut_status taut_replay_log(
	const struct taut_graph *graph, const struct taut_timeline *timeline,
	FILE *out, struct taut_error *reterr);

TAUT_END_DECLS
#endif /* TAUT_REPLAY_H */

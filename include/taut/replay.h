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
 *          replay allocates nothing, but for what operations share.
 * Threads: one replay a timeline; any number may share the graph.
 * Units:   nanoseconds, all integer. */
#ifndef TAUT_REPLAY_H
#define TAUT_REPLAY_H

#include <stdio.h>

#include <taut/graph.h>

TAUT_BEGIN_DECLS

/* --- what operations share --------------------------------------------------
 * Transfers that are under way together share links; a transfer that a host
 * must copy or reduce shares its cores with what computes there. A flow is one
 * transfer: it moves at a rate r, and takes r * weight from each resource that
 * it uses. Rates are max-min fair: those of all flows rise together until a
 * resource is full; the flows on it stay there, and the others rise on.
 *
 * A flow begins when the first of its operations starts. After latency_ns it
 * moves `amount`, at rates that change whenever a flow begins or is done. Each
 * of its operations ends when the flow is done, and its own duration after
 * that: of such an operation dur_ns is what is left for it alone. One that
 * starts when the flow is done already ends after its own duration.
 *
 * On a lane with a core, operations that are of no flow advance at the speed
 *     max(least_speed, 1 - sum over flows of rate * weight on it / capacity)
 * and dur_ns is what they take at speed 1. They do not slow the flows. A lane
 * of joins has no core.
 *
 * The end of such an op is known when it is there, so it may let another start
 * before the clock (a negative lag or gap). That one starts as of then, and an
 * op on a core has done what it could since; but a flow moves from the clock on.
 *
 * Rates and speeds are doubles, added in the order of the arrays. Everything
 * happens at whole nanoseconds: the first at which it is done. At equal times
 * operations end first, then others start, by id. The same input gives the
 * same bytes. */
struct taut_flow_use {
	uint32_t resource;
	double weight; /* of the resource, by unit of rate; 1e-30 .. 1e30 */
};

struct taut_flow {
	double amount; /* >= 0; 0: done after its latency */
	int64_t latency_ns; /* >= 0 */
	uint32_t first_use, n_uses; /* in uses; n_uses 0: rate 1 */
};

struct taut_sharing {
	uint32_t n_resources, n_flows, n_uses;
	const double *capacity;  /* by resource, a nanosecond; 1e-30 .. 1e30 */
	const struct taut_flow *flows;
	const struct taut_flow_use *uses;
	const uint32_t *flow_of; /* by op; TAUT_NONE: its time is its own */
	const uint32_t *core_of; /* by lane of the graph: a resource, or
	                            TAUT_NONE; NULL: no lane has one */
	double least_speed;      /* above 0, at most 1 */
};

/* The other way round: what the flows moved and the operations did, from the
 * times at which they were recorded (or replayed), given who shares what. A
 * replay with the results gives these times back, as far as one of dur_ns
 * gives starts back: flows to the nanosecond, operations on a core at speed v
 * to 1/v nanoseconds; such differences do not add up along a lane.
 * A flow is under way from the start of its first operation to the earliest
 * end of any; what is longer stays with the operation. amount of the flows is
 * not read; latency_ns is, and is cut where the flow was shorter.
 * ret_amount: n_flows; ret_latency_ns: n_flows; ret_dur_ns: n_ops.
 * TAUT_ENOMEM; TAUT_EINVAL, TAUT_EMATCH: as taut_replay(). */
TAUT_API TAUT_NODISCARD taut_status taut_sharing_measure(
	const struct taut_graph *graph, const struct taut_sharing *sharing,
	const int64_t *start_ns, const int64_t *dur_ns, double *ret_amount,
	int64_t *ret_latency_ns, int64_t *ret_dur_ns,
	struct taut_error *reterr);

/* --- operations that a mechanism starts -----------------------------------------
 * A schedule need not be known beforehand. Operations may be held: when all that
 * such an op waits for is there, a mechanism is told, and the op starts when it
 * is released, at that instant or later. A scheduler so runs here by the very
 * code that runs it in a job: the clock is virtual, and what it starts are
 * operations of the graph.
 *
 * It is told when nothing else happens at an instant: first what has ended, then
 * what is ready, each by (time, id), then the calls that it asked for, in the
 * order in which it asked. One is told at a time, and what it leads to at that
 * instant happens before the next. `now` never goes back. An op that became ready
 * before the clock (a negative lag or gap) is told at the clock.
 *
 * The release is one more wait: a released op starts at the clock, or behind it by
 * its gap where that is positive. Where that is later than its other waits, it is
 * decided by the op of whose end the mechanism was being told, or else by what
 * decided that the op was ready of which it was, and a call by what it was asked
 * for in; where nothing had, by its own waits. So a walk along decided_by[] still
 * leads back in time.
 *
 * Held operations on one lane wait for each other as all do: what may go in any
 * order stands on lanes of its own. */
enum {
	TAUT_HELD = 1,     /* ready() is called, and it waits to be released */
	TAUT_TELL_END = 2, /* ended() is called */
};

struct taut_dispatch; /* a replay under way; valid within a callback */

/* A status other than TAUT_OK ends the replay with it and its error. */
struct taut_dispatcher {
	const uint8_t *ops; /* by op: TAUT_HELD, TAUT_TELL_END, or-ed, or 0 */
	void *context;
	taut_status (*ready)(void *context, struct taut_dispatch *dispatch,
		uint32_t op, int64_t now_ns, struct taut_error *err);
	/* Of an op of a flow: when the flow, and what is left for the op alone,
	 * is done. NULL: no op has TAUT_TELL_END. */
	taut_status (*ended)(void *context, struct taut_dispatch *dispatch,
		uint32_t op, int64_t now_ns, struct taut_error *err);
	/* NULL: never asked for. */
	taut_status (*called)(void *context, struct taut_dispatch *dispatch,
		uint64_t what, int64_t now_ns, struct taut_error *err);
};

/* TAUT_EINVAL: it is not held, was not told ready, or was released before. */
TAUT_API TAUT_NODISCARD taut_status taut_dispatch_release(
	struct taut_dispatch *dispatch, uint32_t op,
	struct taut_error *reterr);
/* called(what) at at_ns; at the clock where that is over. TAUT_EINVAL: 2^60 ns
 * or later; TAUT_ENOMEM. */
TAUT_API TAUT_NODISCARD taut_status taut_dispatch_call(
	struct taut_dispatch *dispatch, int64_t at_ns, uint64_t what,
	struct taut_error *reterr);

/* What to change without touching the graph; zero changes nothing. */
struct taut_replay_edit {
	const int64_t *dur_ns; /* n_ops, >= 0; NULL: the graph's */
	const int64_t *gap_ns; /* n_ops; NULL: the graph's */
	const uint8_t *mute;   /* n_ops, 1: nobody waits for this op but the
	                          next on its lane, as if the graph had no edge
	                          out of it; NULL: none */
	const struct taut_sharing *sharing; /* NULL: nothing is shared */
	int unordered; /* 1: order[] is not wanted: operations run behind all
	                  that they wait for, but not by time, which is
	                  faster; starts, ends and deciders are the same.
	                  2: decided_by[] is not wanted either */
	const struct taut_dispatcher *dispatcher; /* NULL: nothing is held */
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

/* Takes what does not change between replays from the graph: 36 bytes
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
 * taut_timeline_init(), its sharing (what is named; or its times add up to 2^60
 * ns), or another graph; the timeline is untouched then. TAUT_ENOMEM: with
 * sharing alone: some 80 bytes a flow, 64 a resource and 12 a use,
 * and 24 for each change of the speed of a core; with a dispatcher some 20 bytes
 * an op, 16 for each that is held and each whose end is told, 24 a call.
 * TAUT_EMATCH of a dispatcher: nothing can happen any more, but operations are
 * held that were ready and never released; the error names the first. What ran
 * has its times. */
TAUT_API TAUT_NODISCARD taut_status taut_replay(const struct taut_graph *graph,
	const struct taut_replay_edit *edit, struct taut_timeline *timeline,
	struct taut_error *reterr);

/* When each step begins and is done, by step: at its marks, unless its host runs
 * ahead of its device. Then a step is done when the last of the device's work that
 * was launched by its end mark, in it or before, is, and the next begins as much
 * behind its begin mark; streams of collectives alone do not count, for sums of a
 * step may go on under the next. So in the steady state the time from end to end of what
 * the device does, the time between marks and the whole over the number of steps
 * are the same, but the first does not tremble with the host. The steps of a rank
 * stay in order, and none takes less than nothing.
 * A device whose steps take less, in the median, than nine tenths of what its host
 * does besides waiting for it, catches up with what lay there before the recording:
 * there the marks are told.
 * The times are by op: a timeline's, or the recorded ones. TAUT_ENOMEM. */
TAUT_API TAUT_NODISCARD taut_status taut_step_times(
	const struct taut_graph *graph, const int64_t *start_ns,
	const int64_t *end_ns, int64_t *ret_begin_ns, int64_t *ret_done_ns,
	struct taut_error *reterr);

/* The median over ranks and steps of what taut_step_times() says, without a rank's
 * first step where it has more: what a report calls the steady step. -1 where the
 * graph has no steps. TAUT_ENOMEM. */
TAUT_API TAUT_NODISCARD taut_status taut_steady_step(
	const struct taut_graph *graph, const int64_t *start_ns,
	const int64_t *end_ns, int64_t *ret_ns, struct taut_error *reterr);

/* One line an op, in the order in which they were run:
 *     start end lane op name
 * Times in ns, lane and op as in the graph; control characters of the name
 * are written as spaces. TAUT_EIO when out refuses. */
TAUT_API TAUT_NODISCARD taut_status taut_replay_log(
	const struct taut_graph *graph, const struct taut_timeline *timeline,
	FILE *out, struct taut_error *reterr);

TAUT_END_DECLS
#endif /* TAUT_REPLAY_H */

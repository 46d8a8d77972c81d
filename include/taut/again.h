/* taut/again.h - a replay that is kept while an edit changes: a change costs what
 * it moves, and undo is exact.
 *
 *     taut_edit_create(graph, &edit, &err);
 *     taut_again_create(edit, &again, &err);       // replays all, once
 *     uint32_t mark = taut_edit_mark(edit);
 *     taut_edit_set_dur(edit, op, 0, &err);        // any changes and undos
 *     taut_again_follow(again, &err);              // times are those of the edit now
 *     taut_again_makespan(again);
 *     taut_edit_undo(edit, mark);
 *     taut_again_follow(again, &err);              // and those of before
 *
 * What holds after taut_again_follow(): every op starts and ends at the nanosecond
 * at which taut_replay() of the graph that taut_edit_build() makes would have it,
 * with nothing shared, muted or held. Ids are those of the edit.
 *
 * Why it is exact. Each op has a place in an order, and the ops that a change
 * touched are taken by place, the first first. One that is taken is looked at
 * anew: the equation of taut/graph.h over all its waits. If that moved its start
 * or end, those that wait for it and whom that can concern are taken too; if not,
 * nothing behind it is. A wait that leads to an op with an earlier place moves that
 * op behind what it waits for, and then the ops that this overtakes. So when there
 * is nothing left to take, every op satisfies the equation with the times that the
 * others have, and every wait leads forward: there is no circle, and without one
 * the equation has one solution. A lag or gap below 0 is nothing special, for
 * places are not times. In a circle ops overtake each other without end: it is
 * looked for when more have been moved than a change of order needs.
 *
 * What it costs. An op is mostly taken once. A follow is O(records of the edit since
 * the last one + ops that are taken, with their waits in and out) and one look at
 * every 262,144th part of the ops; no memory is asked for but where more is needed
 * than ever before. What was before is kept: the follow after an undo puts it back,
 * a copy an op that had moved, and looks at none anew. That holds for the last
 * 4 moves an op of the edit; an undo that leads further back looks at all ops. The
 * follow of a change of all durations at once (taut_edit_set_durs()) compares them
 * all, and looks at the ops whose duration is another.
 *
 * Owner:   borrows the edit, which must outlive it. An edit has one follower.
 * Threads: one at a time, with the edit.
 * Errors:  TAUT_ENOMEM; TAUT_EMATCH: ops wait for each other in a circle, the line
 *          names two neighbours of one; TAUT_EINVAL: a duration, gap or lag is 2^60
 *          ns or more, or a time 3 * 2^60 (a replay then refuses, too).
 *          After an error there are no times, until a follow succeeds: once the
 *          circle is undone the next one does.
 * Units:   nanoseconds. */
#ifndef TAUT_AGAIN_H
#define TAUT_AGAIN_H

#include <taut/edit.h>

TAUT_BEGIN_DECLS

struct taut_again;

/* Takes some 150 bytes an op and 32 an edge. TAUT_EINVAL: the edit has a follower,
 * or its times add up to 2^60 ns or more. The line of TAUT_EMATCH is here that of a
 * replay, with the ids of a built graph. */
TAUT_API TAUT_NODISCARD taut_status taut_again_create(struct taut_edit *edit,
	struct taut_again **ret_again, struct taut_error *reterr);
TAUT_API void taut_again_destroy(struct taut_again *again); /* NULL is fine */

TAUT_API TAUT_NODISCARD taut_status taut_again_follow(
	struct taut_again *again, struct taut_error *reterr);

/* --- times, as of the last follow ------------------------------------------------ */
/* 0: the op is not there, and the outputs are untouched. Either may be NULL. */
TAUT_API int taut_again_times(const struct taut_again *again, uint32_t op,
	int64_t *ret_start_ns, int64_t *ret_end_ns);
/* As taut_timeline has it: the op whose wait ended last; of equal ones the op
 * before on the lane, then the lowest id, here of the edit. (A built graph numbers
 * ops by lane and place, so among new or moved ops another of the equal ones may
 * be the lowest there.) TAUT_NONE: it waits for nothing, or is not there. */
TAUT_API uint32_t taut_again_decided_by(
	const struct taut_again *again, uint32_t op);
/* The latest end; 0 where no op ends later than that. One look at every 4,096th part
 * of the ops, and at 64 around each that ended last of these and no longer does. */
TAUT_API int64_t taut_again_makespan(struct taut_again *again);
/* The op with the latest end, of equal ones the lowest id; TAUT_NONE: no ops. */
TAUT_API uint32_t taut_again_last(struct taut_again *again);
/* The critical path from its last op back: calls see() for taut_again_last(), what
 * decided that it started, and so on to an op that waited for nothing. A see()
 * that is not 0 ends the walk. */
TAUT_API void taut_again_path(struct taut_again *again,
	int (*see)(void *context, uint32_t op), void *context);

/* --- what it did --------------------------------------------------------------------- */
struct taut_again_counts {
	uint64_t looked;   /* ops looked at anew */
	uint64_t moved;    /* of these, got other times */
	uint64_t put_back; /* copies put back after an undo */
	uint64_t placed;   /* ops moved in the order */
};
TAUT_API struct taut_again_counts taut_again_last_counts(
	const struct taut_again *again); /* of the last follow */
TAUT_API struct taut_again_counts taut_again_counts(
	const struct taut_again *again); /* of all, and of the creation */

TAUT_END_DECLS
#endif /* TAUT_AGAIN_H */

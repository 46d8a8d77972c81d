/* taut/edit.h - a graph with changes laid over it: select, scale, insert,
 * remove, schedule; each can be undone. What Daydream (ATC'20) calls graph
 * transformations, over all ranks.
 *
 * The graph below is never touched. Operations keep their ids for the life of
 * an edit: those of the graph are 0 .. n_ops - 1, new ones follow. The same is
 * true of lanes, ranks (indices in run->traces) and collectives. Reading an
 * edit shows the changed state. taut_edit_build() makes a graph of it, in which
 * ids are packed anew; ret_op_of says which op became which.
 *
 *     struct taut_edit *edit;
 *     taut_edit_create(graph, &edit, &err);
 *     uint32_t mark = taut_edit_mark(edit);
 *     taut_edit_set_dur(edit, op, 0, &err);
 *     taut_edit_build(edit, &changed, NULL, &err);   // replay it, explain it
 *     taut_edit_undo(edit, mark);                    // as if never done
 *
 * Owner:   an edit borrows from its graph; a built graph stands alone, but for
 *          what it borrows from the run below (and from the edit nothing).
 * Threads: one at a time.
 * Errors:  every change is all or nothing. TAUT_ENOMEM; TAUT_EINVAL: no such
 *          op, lane or rank, or one that was removed.
 * Units:   nanoseconds, bytes. */
#ifndef TAUT_EDIT_H
#define TAUT_EDIT_H

#include <taut/graph.h>

TAUT_BEGIN_DECLS

struct taut_edit;

TAUT_API TAUT_NODISCARD taut_status taut_edit_create(
	const struct taut_graph *graph, struct taut_edit **ret_edit,
	struct taut_error *reterr);
TAUT_API void taut_edit_destroy(struct taut_edit *edit); /* NULL is fine */

/* --- undo: everything after the mark goes, newest first; exact --------------
 * A change and its undo cost what the change touches, not what the graph holds;
 * the first one of a duration (or gap) copies that column. Undo needs no
 * memory. Texts of taut_edit_add_name() alone outlive it. */
TAUT_API uint32_t taut_edit_mark(const struct taut_edit *edit);
TAUT_API void taut_edit_undo(struct taut_edit *edit, uint32_t mark);

/* --- what is there ------------------------------------------------------------*/
struct taut_op {
	int64_t dur_ns, gap_ns;
	uint32_t lane, name, event, collective;
	enum taut_op_kind kind;
	uint32_t like; /* op of the graph below that it is, or is a copy of;
	                  TAUT_NONE: made up */
};

TAUT_API const struct taut_graph *taut_edit_below(const struct taut_edit *edit);
/* The text of a taut_op's or a taut_collective's name, or group. */
TAUT_API const char *taut_edit_name(
	const struct taut_edit *edit, uint32_t name);
/* The name of a text, known or new. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_add_name(struct taut_edit *edit,
	const char *text, uint32_t *ret_name, struct taut_error *reterr);
TAUT_API uint32_t taut_edit_ops(const struct taut_edit *edit); /* ids given */
TAUT_API uint32_t taut_edit_lanes(const struct taut_edit *edit);
TAUT_API uint32_t taut_edit_ranks(const struct taut_edit *edit);
TAUT_API uint32_t taut_edit_collectives(const struct taut_edit *edit);
/* 0 for an op that was removed; *ret_op is untouched then. */
TAUT_API int taut_edit_op(
	const struct taut_edit *edit, uint32_t op, struct taut_op *ret_op);
TAUT_API struct taut_graph_lane taut_edit_lane(
	const struct taut_edit *edit, uint32_t lane);
/* 0 for a rank, or a collective, that was removed. first_member is of no
 * meaning, join_op is an op of the edit: see taut_edit_each_member(). */
TAUT_API int taut_edit_has_rank(const struct taut_edit *edit, uint32_t rank);
TAUT_API int taut_edit_collective(const struct taut_edit *edit,
	uint32_t collective, struct taut_collective *ret_collective);
/* The rank that it is, or is a copy of, in run->traces. */
TAUT_API uint32_t taut_edit_rank_like(
	const struct taut_edit *edit, uint32_t rank);
/* The collective of the graph below that it is; of an added one what
 * taut_edit_set_like() said, TAUT_NONE before. */
TAUT_API uint32_t taut_edit_collective_like(
	const struct taut_edit *edit, uint32_t collective);
/* Neighbours on the lane, first and last of a lane; TAUT_NONE: none. */
TAUT_API uint32_t taut_edit_next(const struct taut_edit *edit, uint32_t op);
TAUT_API uint32_t taut_edit_before(const struct taut_edit *edit, uint32_t op);
TAUT_API uint32_t taut_edit_first(const struct taut_edit *edit, uint32_t lane);
TAUT_API uint32_t taut_edit_last(const struct taut_edit *edit, uint32_t lane);

struct taut_wait { /* an edge, seen from either end */
	uint32_t op;   /* the other end */
	int64_t lag_ns;
	uint8_t kind;  /* enum taut_edge_kind | TAUT_EDGE_FROM_START */
};
/* Calls see(context, wait) for the edges out of op, or into it: those of the
 * graph below in its order, then those that were added, as they were added. A
 * built graph has the edges out of an op in this order. Not for the lane's own
 * order. The edit must not be changed meanwhile. */
TAUT_API void taut_edit_each_out(const struct taut_edit *edit, uint32_t op,
	void (*see)(void *context, struct taut_wait wait), void *context);
TAUT_API void taut_edit_each_in(const struct taut_edit *edit, uint32_t op,
	void (*see)(void *context, struct taut_wait wait), void *context);

/* --- select -------------------------------------------------------------------*/
struct taut_select { /* zero is every field's default: everything */
	const char *name;   /* shell pattern (fnmatch); NULL: any */
	uint32_t kinds;     /* 1 << enum taut_op_kind, or-ed; 0: any */
	const uint32_t *rank; /* NULL: any */
	const uint32_t *lane; /* NULL: any */
	const uint32_t *collective; /* NULL: any */
	int64_t least_dur_ns;
	/* Asked last; 0: not this one. NULL: all. */
	int (*keep)(void *context, const struct taut_edit *edit, uint32_t op);
	void *context;
};
/* Ids in the order of (lane, place on it). The array is the caller's, free()
 * it; it may be NULL when none was found. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_select(
	const struct taut_edit *edit, const struct taut_select *select,
	uint32_t **ret_ops, size_t *ret_n, struct taut_error *reterr);

/* --- change one operation ---------------------------------------------------------*/
TAUT_API TAUT_NODISCARD taut_status taut_edit_set_dur(struct taut_edit *edit,
	uint32_t op, int64_t dur_ns, struct taut_error *reterr);
TAUT_API TAUT_NODISCARD taut_status taut_edit_set_gap(struct taut_edit *edit,
	uint32_t op, int64_t gap_ns, struct taut_error *reterr);
/* All durations at once, taut_edit_ops() of them, those of removed ops not
 * read: cheaper than one by one, and one step to undo. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_set_durs(struct taut_edit *edit,
	const int64_t *dur_ns, struct taut_error *reterr);
/* dur_ns of every one times factor, rounded; factor >= 0. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_scale(struct taut_edit *edit,
	const uint32_t *ops, size_t n_ops, double factor,
	struct taut_error *reterr);

/* --- insert and remove -----------------------------------------------------------
 * A new op stands right behind `after` on its lane; after TAUT_NONE: first of
 * op->lane, which is not read else. It waits for the one before it, and the next
 * waits for it; nothing else waits. name is a text here; NULL: op->name. event
 * is a row of the rank's trace, like an op of the graph below, TAUT_NONE where
 * there is none (0 is not none); collective is not read. Nothing can stand
 * between a collective's arrival and its transfer. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_insert(struct taut_edit *edit,
	uint32_t after, const struct taut_op *op, const char *name,
	uint32_t *ret_op, struct taut_error *reterr);
/* What waited for op now waits for what op waited for, as if op had neither
 * duration nor gap; all other starts follow from their waits as before:
 * - a wait of lag a into op, from the start or end of another, and one of lag
 *   b out of it, from its start or end, become one of lag a + b, from where the
 *   first came, of the kind of the second;
 * - what op waited for is waited for by the next on the lane, with lag
 *   a + min(gap of the next, 0); the one before op on the lane is waited for,
 *   from its end, by all that waited for op. Gaps stay;
 * - an op that waits for nothing has nothing to pass on: what waits for it
 *   alone keeps the lag of that wait in its gap, others lose the wait.
 * Edges that the lane's order or another edge between the same two makes
 * superfluous are not added. Many ops in a row: from the last to the first,
 * so that waits are not passed on and on.
 * An arrival or transfer of a collective takes the other with it, the
 * collective loses a member (and group_size 1), and the rank does not wait
 * for the others there any more. TAUT_EINVAL for a join.
 * A step whose begin or end is removed is no step of a built graph. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_remove(struct taut_edit *edit,
	uint32_t op, struct taut_error *reterr);
/* Nothing waits for op any more, and it for nothing; it is gone. The next on
 * its lane still waits for the one before. Arrivals and transfers as above. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_cut(struct taut_edit *edit,
	uint32_t op, struct taut_error *reterr);

/* kind: enum taut_edge_kind, perhaps | TAUT_EDGE_FROM_START. Whether this
 * closes a circle is not looked at here: a replay tells. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_connect(struct taut_edit *edit,
	uint32_t from, uint32_t to, unsigned kind, int64_t lag_ns,
	struct taut_error *reterr);
/* All edges from one to the other; TAUT_EINVAL: there is none. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_disconnect(
	struct taut_edit *edit, uint32_t from, uint32_t to,
	struct taut_error *reterr);

/* --- schedule: op leaves its place and stands behind `after`, perhaps on another
 * lane; after TAUT_NONE: first of lane, which is not read else. Its edges stay.
 * An arrival takes its transfer with it; a transfer or a join alone is
 * TAUT_EINVAL, and so is a mark on another lane. On a lane of another rank it has no event. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_move(struct taut_edit *edit,
	uint32_t op, uint32_t after, uint32_t lane, struct taut_error *reterr);

/* --- lanes, collectives, ranks -------------------------------------------------------*/
/* Of a rank that is there, named as one of its trace's lanes (trace_lane). A
 * lane on which nothing stands is not in a built graph. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_add_lane(struct taut_edit *edit,
	const struct taut_graph_lane *lane, uint32_t *ret_lane,
	struct taut_error *reterr);

/* One member of a collective to come: its arrival stands behind `after` on
 * `lane` (TAUT_NONE: first), its transfer right behind the arrival. */
struct taut_member {
	uint32_t lane, after;
	int64_t dur_ns; /* of the transfer */
	uint32_t name;  /* of both; 0: the collective's */
};
/* kind, name, group, group_size, bytes and seq are read; the join is made,
 * with a lane of joins where the graph has none. The ops have no event.
 * ret_arrive: n_members op ids (the transfer of each is the next op on the
 * lane). */
TAUT_API TAUT_NODISCARD taut_status taut_edit_add_collective(
	struct taut_edit *edit, const struct taut_collective *collective,
	const struct taut_member *members, uint32_t n_members,
	uint32_t *ret_collective, uint32_t *ret_arrive,
	struct taut_error *reterr);
/* bytes, kind, group and group_size only; members stay. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_set_collective(
	struct taut_edit *edit, uint32_t collective,
	const struct taut_collective *values, struct taut_error *reterr);
/* What it is most like, in the graph below; for whoever asks for its costs. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_set_like(struct taut_edit *edit,
	uint32_t collective, uint32_t like, struct taut_error *reterr);
/* Its arrivals and transfers, as taut_edit_remove() of each: what waited for a
 * rank's transfer waits for what that rank's arrival waited for. The join is
 * cut: the ranks do not wait for each other there any more. (To keep that, let
 * it stand and set its transfers' durations to 0.) */
TAUT_API TAUT_NODISCARD taut_status taut_edit_remove_collective(
	struct taut_edit *edit, uint32_t collective,
	struct taut_error *reterr);
/* The members of a collective, by op of the arrival; calls see() for each. The
 * transfer is taut_edit_next() of it. */
TAUT_API void taut_edit_each_member(const struct taut_edit *edit,
	uint32_t collective, void (*see)(void *context, uint32_t arrive),
	void *context);

/* A rank more, as `rank` is now: its lanes, operations and the waits among
 * them; its copies join the collectives that join[] (n ids, as
 * taut_edit_collectives()) allows: 1 joins, 0: the copies of its arrival and
 * transfer belong to no collective, and wait only on their own rank. NULL: joins
 * all. Waits for other ranks but those for a join are not copied. group_size of what
 * it joins grows by one. ret_op_of: taut_edit_ops() ids before the call, the
 * copy of each op or TAUT_NONE; may be NULL. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_copy_rank(struct taut_edit *edit,
	uint32_t rank, const uint8_t *join, uint32_t *ret_rank,
	uint32_t *ret_op_of, struct taut_error *reterr);
/* Cuts all its operations; collectives lose a member (and group_size 1), and
 * those that lose their last one go. TAUT_EINVAL for the last rank. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_remove_rank(
	struct taut_edit *edit, uint32_t rank, struct taut_error *reterr);

/* --- build -----------------------------------------------------------------------
 * A graph like any other: the same arrays, in the same order of lanes and of
 * operations on them; an edit without changes builds the graph below, byte for
 * byte. New lanes follow those of their rank, those of copies follow all but
 * the joins; new joins stand last. Lanes on which nothing is left are not in
 * it. Collectives keep their order, new ones follow as they were added: by
 * join time only after taut_graph_settle(). start_ns are those of `like`, of
 * new ops those of the op before them: a replay has the true ones.
 * Ranks are packed in the order of their ids: rank i of the edit is trace
 * (number of ranks below i that were not removed). Its run has a trace per
 * rank: those of copies borrow all rows of what they are copies of, have rank
 * numbers that follow the highest, and a host of their own ("node1 copy 1");
 * world_size follows. Where no rank came or went it is the run below. The names
 * are its own: those of the graph below with their ids, then new ones.
 * ret_op_of: by id of the edit, op in the graph or TAUT_NONE; may be NULL.
 * ret_collective_of: likewise. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_build(
	const struct taut_edit *edit, struct taut_graph **ret_graph,
	uint32_t *ret_op_of, uint32_t *ret_collective_of,
	struct taut_error *reterr);

/* Takes a replay's times for recorded ones: start_ns, dur_ns and the steps
 * follow it, so that the graph can be explained and rendered, and a replay of
 * it without any sharing gives the same times. Collectives are put in the order
 * of their joins, which gives them other ids. Only for a graph that
 * taut_edit_build() made. start_ns, end_ns: by op; not the graph's own. */
TAUT_API void taut_graph_settle(struct taut_graph *graph,
	const int64_t *start_ns, const int64_t *end_ns);

/* After it, once, for whoever draws or explains events: moves those of the
 * recording to where the operations are, in traces that the graph then has of
 * its own. They stay nested and in order; those of removed operations shrink to
 * nothing, those of moved ones lie between their old neighbours; new operations
 * get some of their own. The graph below must still be there. On failure all is
 * as it was. TAUT_ENOMEM; TAUT_EINVAL: it was done before. */
TAUT_API TAUT_NODISCARD taut_status taut_graph_retrace(
	struct taut_graph *graph, struct taut_error *reterr);

TAUT_END_DECLS
#endif /* TAUT_EDIT_H */

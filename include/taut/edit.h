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

/* --- undo: everything after the mark goes, newest first; exact -------------*/
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
TAUT_API uint32_t taut_edit_ops(const struct taut_edit *edit); /* ids given */
TAUT_API uint32_t taut_edit_lanes(const struct taut_edit *edit);
TAUT_API uint32_t taut_edit_ranks(const struct taut_edit *edit);
TAUT_API uint32_t taut_edit_collectives(const struct taut_edit *edit);
/* 0 for an op that was removed; *ret_op is untouched then. */
TAUT_API int taut_edit_op(
	const struct taut_edit *edit, uint32_t op, struct taut_op *ret_op);
TAUT_API struct taut_graph_lane taut_edit_lane(
	const struct taut_edit *edit, uint32_t lane);
/* 0 for a rank, or a collective, that was removed. */
TAUT_API int taut_edit_has_rank(const struct taut_edit *edit, uint32_t rank);
TAUT_API int taut_edit_collective(const struct taut_edit *edit,
	uint32_t collective, struct taut_collective *ret_collective);
/* The rank that it is, or is a copy of, in run->traces. */
TAUT_API uint32_t taut_edit_rank_like(
	const struct taut_edit *edit, uint32_t rank);
/* The collective of the graph below that it is, or is a copy of. */
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
/* Calls see(context, wait) for the edges out of op, or into it, in the order
 * in which a built graph has them; not for the lane's own order. */
TAUT_API void taut_edit_each_out(const struct taut_edit *edit, uint32_t op,
	void (*see)(void *context, struct taut_wait wait), void *context);
TAUT_API void taut_edit_each_in(const struct taut_edit *edit, uint32_t op,
	void (*see)(void *context, struct taut_wait wait), void *context);

/* --- select -------------------------------------------------------------------*/
struct taut_select { /* zero is every field's default: everything */
	const char *name;   /* shell pattern; NULL: any */
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
/* dur_ns of every one times factor, rounded; factor >= 0. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_scale(struct taut_edit *edit,
	const uint32_t *ops, size_t n_ops, double factor,
	struct taut_error *reterr);

/* --- insert and remove -----------------------------------------------------------
 * A new op stands right behind `after` on its lane; after TAUT_NONE: first of
 * op->lane. It waits for the one before it, and the next waits for it; nothing
 * else waits. name is a text here. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_insert(struct taut_edit *edit,
	uint32_t after, const struct taut_op *op, const char *name,
	uint32_t *ret_op, struct taut_error *reterr);
/* What waited for op now waits for what op waited for: a wait of lag a into op
 * and one of lag b out of it become one of lag a + b. Edges between op and
 * others that the lane's order makes superfluous are not added. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_remove(struct taut_edit *edit,
	uint32_t op, struct taut_error *reterr);
/* Nothing waits for op any more, and it for nothing; it is gone. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_cut(struct taut_edit *edit,
	uint32_t op, struct taut_error *reterr);

TAUT_API TAUT_NODISCARD taut_status taut_edit_connect(struct taut_edit *edit,
	uint32_t from, uint32_t to, unsigned kind, int64_t lag_ns,
	struct taut_error *reterr);
/* All edges from one to the other; TAUT_EINVAL: there is none. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_disconnect(
	struct taut_edit *edit, uint32_t from, uint32_t to,
	struct taut_error *reterr);

/* --- schedule: op leaves its place and stands behind `after`, perhaps on another
 * lane; after TAUT_NONE: first of lane. Its edges stay. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_move(struct taut_edit *edit,
	uint32_t op, uint32_t after, uint32_t lane, struct taut_error *reterr);

/* --- lanes, collectives, ranks -------------------------------------------------------*/
TAUT_API TAUT_NODISCARD taut_status taut_edit_add_lane(struct taut_edit *edit,
	const struct taut_graph_lane *lane, uint32_t *ret_lane,
	struct taut_error *reterr);

/* One member of a collective to come: its arrival stands behind `after` on
 * `lane` (TAUT_NONE: first), its transfer right behind the arrival. */
struct taut_member {
	uint32_t lane, after;
	int64_t dur_ns; /* of the transfer */
};
/* kind, name, group, group_size, bytes and seq are read; the join is made.
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
/* Its arrivals, transfers and join, as taut_edit_remove() of each. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_remove_collective(
	struct taut_edit *edit, uint32_t collective,
	struct taut_error *reterr);
/* The members of a collective, by op of the arrival; calls see() for each. */
TAUT_API void taut_edit_each_member(const struct taut_edit *edit,
	uint32_t collective, void (*see)(void *context, uint32_t arrive),
	void *context);

/* A rank more, as `rank` is now: its lanes, operations and the waits among
 * them; its copies join the collectives that join[] (n ids, as
 * taut_edit_collectives()) allows: 1 joins, 0: the copies of its arrival and
 * transfer wait for nothing but each other. NULL: joins all. group_size of what
 * it joins grows by one. ret_op_of: taut_edit_ops() ids before the call, the
 * copy of each op or TAUT_NONE; may be NULL. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_copy_rank(struct taut_edit *edit,
	uint32_t rank, const uint8_t *join, uint32_t *ret_rank,
	uint32_t *ret_op_of, struct taut_error *reterr);
/* Cuts all its operations; collectives lose a member, and those that lose
 * their last one go. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_remove_rank(
	struct taut_edit *edit, uint32_t rank, struct taut_error *reterr);

/* --- build -----------------------------------------------------------------------
 * A graph like any other: the same arrays, in the same order of lanes and of
 * operations on them; an edit without changes builds the graph below, byte for
 * byte. Its run has a trace per rank, those of copies with ranks that follow
 * the highest. start_ns are those of `like`, of new ops those of the op before
 * them: a replay has the true ones, see taut_graph_settle().
 * ret_op_of: by id of the edit, op in the graph or TAUT_NONE; may be NULL.
 * ret_collective_of: likewise. */
TAUT_API TAUT_NODISCARD taut_status taut_edit_build(
	const struct taut_edit *edit, struct taut_graph **ret_graph,
	uint32_t *ret_op_of, uint32_t *ret_collective_of,
	struct taut_error *reterr);

/* Takes a replay's times for recorded ones: start_ns, dur_ns and the steps
 * follow it, so that the graph can be explained and rendered, and a replay of
 * it without any sharing gives the same times. Only for a graph that
 * taut_edit_build() made. start_ns, end_ns: by op. */
TAUT_API void taut_graph_settle(struct taut_graph *graph,
	const int64_t *start_ns, const int64_t *end_ns);

TAUT_END_DECLS
#endif /* TAUT_EDIT_H */

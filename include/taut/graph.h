/* taut/graph.h - what waits for what: the operations of all ranks and steps.
 *
 * Every lane (a host thread, a device stream) is a contiguous range of
 * operations in program order, and each waits for the one before it: that
 * edge is implied and not stored. Joins are the exception: they stand on a
 * lane of their own (lanes[].trace == TAUT_NONE), whose operations do not wait
 * for each other. All other waits are edges in CSR arrays.
 *
 *   start(op) = max( end(before op on its lane) + min(gap, 0),
 *                    for each edge e into op:
 *                      (from_start(e) ? start(pred) : end(pred)) + lag(e) )
 *               + max(gap, 0)
 *   end(op)   = start(op) + dur
 *
 * where the maximum over no wait is 0.
 * gap > 0 is time for which no known wait accounts (unexplained for devices);
 * gap < 0 says the recording shows the op overlapping the one before it.
 *
 * A host thread is cut into slices, each belonging to the innermost event
 * that was open; time between events is a slice too, for it is time of the
 * host. A host call that waits for a device is two operations: its entry,
 * and what was left of it after the device was done (OP_RETURN).
 * Of a table of operations (taut_trace.is_table) each event is one operation,
 * whatever its lane, and time between them is left to gaps.
 * A collective is, on each rank, OP_ARRIVE (no duration) and OP_TRANSFER;
 * between them stands one OP_JOIN that waits for every arrival.
 *
 * Owner:   a graph owns its arrays and borrows from the run; destroy it
 *          before taut_run_close().
 * Threads: read-only once built; any thread may read.
 * Units:   nanoseconds on one common clock, 0 = first event of any rank. */
#ifndef TAUT_GRAPH_H
#define TAUT_GRAPH_H

#include <taut/trace.h>

TAUT_BEGIN_DECLS

enum taut_op_kind {
	TAUT_OP_HOST,     /* slice of a host thread */
	TAUT_OP_LAUNCH,   /* host call that put work on a device */
	TAUT_OP_RETURN,   /* rest of a host call after what it waited for */
	TAUT_OP_KERNEL,   /* device */
	TAUT_OP_COPY,     /* device: copy or fill */
	TAUT_OP_ARRIVE,   /* this rank is ready for a collective; no duration */
	TAUT_OP_TRANSFER, /* this rank's share after the last one arrived */
	TAUT_OP_JOIN,     /* the last rank has arrived; on no lane of a rank */
	TAUT_OP_MARK,     /* a step begins or ends; no duration */
};

enum taut_edge_kind {
	TAUT_EDGE_LAUNCH,  /* host call -> device work */
	TAUT_EDGE_SYNC,    /* device work -> host call that waited for it */
	TAUT_EDGE_STREAM,  /* device work -> device work on another stream */
	TAUT_EDGE_THREAD,  /* host thread -> host thread */
	TAUT_EDGE_COMM,    /* arrival -> join -> transfer */
	TAUT_EDGE_START,   /* where a lane's first operation hangs */
	TAUT_EDGE_KINDS
};
#define TAUT_EDGE_FROM_START 0x80 /* bit of edge_kind[] */

struct taut_graph_lane {
	uint32_t trace;      /* index in run->traces; TAUT_NONE for joins */
	uint32_t trace_lane; /* index in that trace's lanes */
	enum taut_lane_kind kind;
	int is_main;         /* the thread that runs the steps */
	int is_comm;         /* a stream (or thread) of collectives only */
};

struct taut_step {
	uint32_t trace;
	int64_t id;          /* its number in the recording */
	int64_t start_ns, end_ns;
	uint32_t begin_op, end_op; /* OP_MARK */
};

enum taut_coll_kind {
	TAUT_COLL_ALLREDUCE, TAUT_COLL_ALLGATHER, TAUT_COLL_REDUCESCATTER,
	TAUT_COLL_BROADCAST, TAUT_COLL_REDUCE, TAUT_COLL_ALLTOALL,
	TAUT_COLL_SENDRECV, TAUT_COLL_BARRIER,
	TAUT_COLL_PUSHPULL, TAUT_COLL_PUSH, TAUT_COLL_PULL, /* with a server */
	TAUT_COLL_OTHER,
	TAUT_COLL_KINDS
};
TAUT_API const char *taut_coll_kind_name(enum taut_coll_kind kind);
/* Can no rank be done before every rank has begun? True of an all-reduce,
 * not of a broadcast, whose root may be done before the last one comes. */
TAUT_API int taut_coll_levels(enum taut_coll_kind kind);

/* One collective over the ranks that were recorded. Its members are
 * member_arrive[first_member .. first_member + n_members). */
struct taut_collective {
	enum taut_coll_kind kind;
	uint32_t name;       /* kernel or operator, in names */
	uint32_t group;      /* process group, in names; 0 not known */
	int32_t group_size;  /* ranks that take part; -1 not known */
	int64_t bytes;       /* of one rank's input; -1 not known */
	uint8_t number_bytes; /* of a number in it; 0 not known */
	int64_t seq;
	uint32_t first_member, n_members;
	uint32_t join_op;
};

struct taut_clock_row {
	uint32_t trace;
	double offset_us;    /* was added to this rank's times */
	double drift_ppm;    /* and this much per second of recording */
	double uncertainty_us; /* half width that the fit leaves open; 1e6, a
	                          second, where nothing compares the clocks */
	uint32_t samples;    /* comparisons: of collective ends, or of clocks */
};

struct taut_graph {
	const struct taut_run *run;
	const struct taut_names *names; /* of all ranks */

	uint32_t n_ops, n_edges, n_lanes, n_steps, n_collectives;
	/* by op */
	const int64_t *start_ns; /* as recorded; a replay does not read it */
	const int64_t *dur_ns;
	const int64_t *gap_ns;
	const uint32_t *lane;
	const uint32_t *name;
	const uint32_t *event;  /* row in the rank's trace; TAUT_NONE */
	const uint32_t *collective; /* of ARRIVE, TRANSFER, JOIN; or TAUT_NONE */
	const uint8_t *kind;    /* enum taut_op_kind */
	/* CSR: edges out of op i are edge_begin[i] .. edge_begin[i+1]-1 */
	const uint32_t *edge_begin;
	const uint32_t *edge_to;
	const int64_t *edge_lag_ns;
	const uint8_t *edge_kind;

	const struct taut_graph_lane *lanes;
	const uint32_t *lane_begin; /* n_lanes + 1 op ids */
	const struct taut_step *steps; /* by (trace, start) */
	const struct taut_collective *collectives; /* by join time */
	const uint32_t *member_arrive; /* OP_ARRIVE; +1 on its lane: TRANSFER */

	const struct taut_clock_row *clocks; /* one per trace */
	int64_t clock_origin_ns; /* recorded time at which drifts are zero */
	int64_t origin_ns;       /* common time of the graph's 0 */

	/* What could not be made to fit. */
	uint32_t n_backward;     /* edges that ran backward in time by more
	                            than the clocks' uncertainty */
	int64_t worst_backward_ns;
	uint32_t n_circular;     /* waits dropped, for operations of one instant
	                            waited for each other in a circle */
	uint32_t n_unmatched;    /* communication operations left alone */
	const char *unmatched;   /* the first mismatch, in words; or NULL */
	int groups_by_time;      /* some process groups are not told and were
	                            found by the times alone */
	int by_order_alone;      /* some operations have neither numbers nor
	                            steps: matched in order from the first */
	uint32_t n_apart;        /* ranks whose clock nothing compares, more than
	                            an hour from the first: begun with it */
	uint32_t edges_of[TAUT_EDGE_KINDS];
	uint32_t n_launches_cut; /* device work whose launch is not recorded */
};

struct taut_graph_options { /* zero is every field's default */
	unsigned threads;
	/* More names of communication kernels: shell patterns, ignoring case,
	 * tried after the built-in table (see taut_comm_patterns()). */
	const char *const *comm_patterns;
	size_t n_comm_patterns;
	int no_clock_alignment; /* keep the recorded clocks */
};

/* The built-in patterns, NULL-terminated. */
TAUT_API const char *const *taut_comm_patterns(void);

/* TAUT_ENOMEM; TAUT_EFORMAT when a trace has no host or device work; TAUT_EMATCH when
 * two are decades apart. */
TAUT_API TAUT_NODISCARD taut_status taut_graph_build(const struct taut_run *run,
	const struct taut_graph_options *options, struct taut_graph **ret_graph,
	struct taut_error *reterr);
TAUT_API void taut_graph_destroy(struct taut_graph *graph); /* NULL is fine */

/* A time of a trace's table (start_ns[i], or an end) on the graph's clock. */
TAUT_API int64_t taut_graph_time(
	const struct taut_graph *graph, uint32_t trace, int64_t trace_ns);

TAUT_END_DECLS
#endif /* TAUT_GRAPH_H */

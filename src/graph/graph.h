/* graph.h - what the files of this room share while a graph is being built.
 *
 * Each rank is first built alone (struct tauti_rank), in this order:
 *
 *   tauti_comm_find     which events are communication, and of what
 *   tauti_device_link   launches, waits between streams, when work was free
 *   tauti_host_waits    host calls that waited for a device
 *   tauti_requests      calls that post communication, or wait for it
 *   tauti_load_waits    the main thread waits for a loader's worker
 *   tauti_slices_cut    operations, lane by lane
 *   tauti_handoffs      waits between host threads
 *   tauti_posts         communication that no call is known to have posted
 *   tauti_turns         messages of Taut's exchange that wait for each other
 *   tauti_load_edges    workers prepare no more than they are asked for
 *
 * then the ranks are joined: tauti_match (collectives across ranks),
 * tauti_clock_align, and build.c lays out the graph's arrays.
 *
 * Threads: a tauti_rank is built by one thread; ranks run side by side.
 * Units:   nanoseconds on the rank's own clock until the ranks are joined. */
#ifndef TAUT_GRAPH_INTERNAL_H
#define TAUT_GRAPH_INTERNAL_H

#include <stdbool.h>

#include <taut/graph.h>

#include "base/vec.h"

/* Times that are further apart count from other epochs. */
#define TAUTI_MAX_APART_NS ((int64_t)3600 * 1000000000)
#define TAUTI_UNKNOWN_US 1e6 /* a clock's uncertainty where nothing compares it */

/* What taut_graph_destroy() frees. */
struct tauti_owned_graph {
	struct taut_graph graph;
	struct taut_arena *arena;
	struct taut_names *names;
	/* Only where an edit was built: of the graph below it, which op each
	 * op is, and which rank each trace; and room for taut_graph_settle(),
	 * by collective. */
	const struct taut_graph *below;
	uint32_t *like, *rank_like;
	struct tauti_by_join {
		int64_t at;
		uint32_t coll;
	} *sorted;
	uint32_t *place;
	struct taut_collective *spare;
	struct taut_names **row_names; /* by trace, after taut_graph_retrace();
	                                  NULL: it needed none of its own */
};

/* One operation while it is being built; ids are positions in rank->ops. */
struct tauti_op {
	int64_t start, end;
	uint32_t lane;  /* of the trace */
	uint32_t event; /* row, or TAUT_NONE */
	uint32_t comm;  /* index in rank->comms of ARRIVE and TRANSFER */
	uint8_t kind;   /* enum taut_op_kind */
};

struct tauti_edge {
	uint32_t from, to;
	int64_t lag;
	uint8_t kind; /* enum taut_edge_kind | TAUT_EDGE_FROM_START */
};

/* A host call that put work on a device, or waited for it, or both. */
struct tauti_call {
	uint32_t row;
	uint32_t device;   /* row of the first work it put there; or TAUT_NONE */
	uint32_t waited;   /* row of the work it waited for; or TAUT_NONE */
	int64_t submit;    /* when the work was handed over, where it is known
	                      to have been later than the call; else INT64_MIN */
	uint32_t launch_op, return_op; /* set by tauti_slices_cut */
};

/* Device work (row) waits for device work on another stream (before). */
struct tauti_stream_wait {
	uint32_t before, row;
};

struct tauti_comm {
	uint32_t row;      /* kernel, or event of a communication thread */
	uint32_t said_by;  /* row whose arguments describe it; or TAUT_NONE */
	uint32_t launch;   /* row of the host call; or TAUT_NONE */
	uint32_t waiter;   /* row of the host call that waited for it; or
	                      TAUT_NONE */
	enum taut_coll_kind kind;
	int64_t start, end;
	int64_t order_at;  /* its place among the rank's operations */
	uint32_t mark;     /* the step that launched it, from 1; 0: before the
	                      first; one more than there are: after the last */
	int64_t bytes, seq;
	uint8_t number_bytes; /* 0 not known */
	int32_t group_size, src, dst;
	uint32_t group;    /* name of the group in trace->names; 0 not known */
	uint32_t key;      /* which sequence it belongs to, over all ranks */
	bool named;        /* its group is told, not only its stream */
	uint32_t arrive;   /* op */
	uint32_t match;    /* index of its collective */
};

struct tauti_mark {
	int64_t id, start, end;
	uint32_t row; /* of the step, or TAUT_NONE */
	uint32_t begin_op, end_op;
	uint32_t round; /* how often numbers of steps have begun again by then */
};

struct tauti_rank {
	const struct taut_trace *trace;
	const struct taut_graph_options *options;
	uint32_t index; /* in run->traces */

	uint32_t main_lane; /* of the trace; TAUT_NONE: no host thread */
	bool *comm_lane;    /* by lane: holds communication and nothing else */
	bool *load_lane;    /* by lane: a loader's worker */
	bool *shadow_lane;  /* by lane: NCCL's own account of communication that
	                       stands on a stream too */
	uint32_t *launch_of;  /* by row: host call of device work */
	uint32_t *call_of;    /* by row: index in calls */
	uint32_t *comm_of;    /* by row: index in comms */
	uint32_t *op_of;      /* by row: op of device work and of a worker's
	                         batch (ARRIVE where it is communication),
	                         the last of a batch's taking; elsewhere
	                         TAUT_NONE */
	int64_t *launched_at; /* by row: when device work was launched. Where that
	                         is not recorded, when it began, or what is
	                         behind it on its stream was launched */
	int64_t *free_at;     /* by row: when device work could have begun, for
	                         all that is known but its launch */
	int64_t launch_lag;   /* usual time from a launch to its work */

	TAUT_VEC(struct tauti_call) calls;
	TAUT_VEC(struct tauti_stream_wait) stream_waits;
	TAUT_VEC(struct tauti_comm) comms; /* by order_at */
	TAUT_VEC(struct tauti_mark) marks; /* steps, by start */
	TAUT_VEC(struct tauti_op) ops;     /* by (lane, time) */
	TAUT_VEC(struct tauti_edge) edges;
	uint32_t *lane_begin;  /* trace lanes + 1: ops of a lane */
	uint32_t n_launches_cut;
};

static inline bool tauti_is_device(uint8_t kind)
{
	return kind == TAUT_KIND_KERNEL || kind == TAUT_KIND_MEMCPY ||
		kind == TAUT_KIND_MEMSET;
}

/* The op whose end is the end of device work. */
static inline uint32_t tauti_op_out(const struct tauti_rank *rank, uint32_t row)
{
	return rank->op_of[row] + (rank->comm_of[row] != TAUT_NONE);
}

static inline int64_t tauti_row_end(const struct taut_trace *t, uint32_t row)
{
	return t->start_ns[row] + t->dur_ns[row];
}

taut_status tauti_rank_init(struct tauti_rank *rank,
	const struct taut_trace *trace, uint32_t index,
	const struct taut_graph_options *options, struct taut_error *err);
void tauti_rank_fini(struct tauti_rank *rank);

/* Steps (events of kind STEP on the main thread, or one over everything). */
taut_status tauti_steps_find(struct tauti_rank *rank, struct taut_error *err);
/* The step in which a host instant lies, as tauti_comm.mark has it. */
uint32_t tauti_mark_at(const struct tauti_rank *rank, int64_t at);

taut_status tauti_comm_find(struct tauti_rank *rank, struct taut_error *err);
bool tauti_comm_is(const struct taut_graph_options *options, const char *name);
enum taut_coll_kind tauti_coll_kind(const char *name);
/* Bytes of one element of "Float", "BFloat16", "c10::Half"...; 0 unknown. */
int tauti_dtype_bytes(const char *name);

taut_status tauti_device_link(struct tauti_rank *rank, struct taut_error *err);
/* cudaEventRecord -> "EventRecord"; also hip and cu. */
const char *tauti_bare_call(const char *name);
/* A device's stream, of any device where that is below 0; TAUT_NONE: none. */
uint32_t tauti_lane_of_stream(const struct taut_trace *t, int64_t device,
	int64_t stream);
/* The work launched last before `at` on a stream; TAUT_NONE: none. */
uint32_t tauti_last_launched(const struct tauti_rank *rank, uint32_t lane,
	int64_t at);
/* Adds stream waits that only the times show; needs free_at. */
taut_status tauti_coincidences(struct tauti_rank *rank, struct taut_error *err);
/* Fills the comms' launch, step and arguments from what launched them. */
taut_status tauti_comm_describe(
	struct tauti_rank *rank, struct taut_error *err);
taut_status tauti_host_waits(struct tauti_rank *rank, struct taut_error *err);
/* loads.c, requests.c and turns.c; see above. */
taut_status tauti_requests(struct tauti_rank *rank, struct taut_error *err);
taut_status tauti_posts(struct tauti_rank *rank, struct taut_error *err);
taut_status tauti_turns(struct tauti_rank *rank, struct taut_error *err);
taut_status tauti_load_waits(struct tauti_rank *rank, struct taut_error *err);
taut_status tauti_load_edges(struct tauti_rank *rank, struct taut_error *err);
taut_status tauti_slices_cut(struct tauti_rank *rank, struct taut_error *err);
taut_status tauti_handoffs(struct tauti_rank *rank, struct taut_error *err);

/* Splits ranks into groups by the times of their n operations; ops[r][k] is
 * the k-th of rank r, whose times count from base_ns[r]; buffer holds n
 * values. ret_group[r] is the first rank of r's group. */
void tauti_groups_by_time(const struct tauti_comm *const *const *ops,
	const int64_t *base_ns, uint32_t n_ranks, size_t n, int64_t *buffer,
	uint32_t *ret_group);

/* Collectives over all ranks. */
struct tauti_match {
	TAUT_VEC(struct taut_collective) collectives;
	TAUT_VEC(uint32_t) member_rank; /* beside member_comm */
	TAUT_VEC(uint32_t) member_comm; /* index in that rank's comms */
	uint32_t n_unmatched;
	bool groups_by_time; /* some groups were found by time alone */
	bool by_order_alone; /* neither numbers nor steps: order from the first */
	char unmatched[400]; /* the first mismatch; "" none */
};
taut_status tauti_match(struct tauti_rank *ranks, uint32_t n_ranks,
	struct taut_names *names, struct tauti_match *match,
	struct taut_error *err);
void tauti_match_fini(struct tauti_match *match);

/* Offset and drift per rank: aligned = t + offset + drift * (t - origin).
 * rows has n_ranks entries and is filled. */
taut_status tauti_clock_align(const struct tauti_rank *ranks, uint32_t n_ranks,
	const struct tauti_match *match, int64_t origin_ns,
	struct taut_clock_row *rows, struct taut_error *err);
/* What the rank's own comparisons with rank 0's clock tell; false: it made
 * none. Sets offset, drift and uncertainty. */
bool tauti_clock_exchanged(const struct taut_trace *trace, int64_t origin_ns,
	struct taut_clock_row *row);
int64_t tauti_clock_apply(const struct taut_clock_row *row, int64_t t,
	int64_t origin_ns);

#endif /* TAUT_GRAPH_INTERNAL_H */

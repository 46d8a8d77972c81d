/* taut/report.h - what to say: findings, tables, the critical path.
 *
 * taut_explain() fills it; each renderer (text, JSON, HTML, Perfetto) only
 * prints it. Times are nanoseconds on the graph's clock.
 * Owner:   a report owns its tables and borrows from graph and run.
 * Threads: read-only once made. */
#ifndef TAUT_REPORT_H
#define TAUT_REPORT_H

#include <stdio.h>

#include <taut/replay.h>

TAUT_BEGIN_DECLS

/* Where an instant of a rank's step goes. Each instant is in exactly one. */
enum taut_category {
	TAUT_CAT_COMPUTE,      /* a kernel (or CPU operator) computes */
	TAUT_CAT_COMM_EXPOSED, /* bytes move and nothing else does */
	TAUT_CAT_COMM_WAIT,    /* a collective waits for a late rank */
	TAUT_CAT_HOST_BOUND,   /* device idle: its launch came late */
	TAUT_CAT_DATA,         /* device idle: the host waits for a batch */
	TAUT_CAT_COPY,         /* only copies or fills run */
	TAUT_CAT_OTHER,        /* idle for no known reason */
	TAUT_CATEGORIES
};
TAUT_API const char *taut_category_key(enum taut_category c); /* "comm_wait" */
TAUT_API const char *taut_category_title(enum taut_category c); /* for people */

struct taut_report_step { /* one rank, one step */
	int32_t rank;
	int64_t id;
	int64_t start_ns, measured_ns, replayed_ns; /* see taut_step_times() */
	int64_t ns[TAUT_CATEGORIES]; /* adds up to measured_ns exactly */
	int64_t overlapped_ns; /* communication under computation, beside them */
};

/* The whole device span of a rank, as single-rank tools cut it. */
struct taut_report_span {
	int32_t rank;
	int64_t span_ns;        /* first device start to last device end */
	int64_t compute_ns;     /* some computation runs */
	int64_t non_compute_ns; /* only communication or copies run */
	int64_t idle_ns;
	double overlap_pct;     /* of communication time under computation */
};

struct taut_report_coll { /* one kind of collective in one group */
	const char *name;       /* "all-reduce" */
	const char *group;      /* "" when not known */
	const char *kernel;     /* of the first one */
	int32_t group_size;
	uint64_t count;
	int64_t bytes;          /* sum over instances of one rank's input; -1 */
	int64_t transfer_ns;    /* sum over instances, last arrival to end */
	int64_t wait_ns;        /* sum over instances and ranks */
	double busbw_gbs;       /* nccl-tests' bus bandwidth; 0 not known */
	uint64_t members;       /* sum over instances: recorded ranks in it */
};

/* The chunks that a rank sent to a peer, or received from it. */
struct taut_report_link {
	int32_t rank, peer;     /* peer: -1 not known */
	int32_t sends;          /* 1 sent, 0 received */
	uint64_t chunks;
	int64_t bytes;
	int64_t gpu_late_ns;    /* sums over the chunks: waits for the device */
	int64_t peer_late_ns;   /* for the peer */
	int64_t network_ns;     /* and under way */
};

/* Why a rank was last, over all the collectives in which it was. */
struct taut_report_late {
	int32_t rank;
	uint32_t last_arrivals; /* collectives in which it was the last */
	int64_t wait_ns;        /* that this rank itself waited */
	int64_t caused_ns;      /* waiting for it, on the average of all other
	                           ranks of the job */
	int64_t excess_ns[TAUT_CATEGORIES]; /* of its chains, beyond what the
	                                       others took; averaged as
	                                       caused_ns is */
	enum taut_category cause; /* the largest excess */
	const char *cause_op;     /* operator or call with the largest excess */
	int64_t cause_op_ns;
	int64_t stall_ns;         /* part of the excess in which its host stood
	                             still, see taut_report.stall_ns */
	const char *cause_module; /* where its longest one stands in the model;
	                             "" when not known */
};

/* One piece of the critical path. Short pieces of one category that follow
 * each other on a lane are one segment, named after the longest. */
struct taut_report_segment {
	int32_t rank;
	uint32_t op;            /* the longest operation, in the graph */
	uint32_t n_ops;
	const char *lane;       /* "stream 7", "thread 2590092 (python)" */
	const char *name;
	const char *module;     /* "" when not known */
	enum taut_category category;
	int64_t start_ns, dur_ns;
};

struct taut_report_share { /* a row of a by-name table of the critical path */
	const char *name;
	enum taut_category category;
	uint64_t count;
	int64_t ns;
};

struct taut_report_removal { /* replay with one cause taken away */
	const char *id;         /* "late-ranks", "host-bound", "transfer" ... */
	const char *title;
	int64_t step_ns;        /* steady step that would be left */
	int64_t saved_ns;       /* 0 where the cause has less than a thousandth
	                           of the critical path */
};

struct taut_report_finding {
	const char *id;         /* "late-ranks" */
	const char *text;       /* one or two plain sentences */
	const char *evidence;   /* the numbers behind it */
	int64_t cost_ns;        /* a steady step would be shorter by this */
	uint32_t n_ranks;
	const int32_t *ranks;
	/* where to look: */
	int32_t at_rank;
	int64_t at_start_ns, at_end_ns;
};

struct taut_report_clock {
	const char *host;       /* or "rank 3" where hosts are not known */
	double offset_us, drift_ppm, uncertainty_us;
	uint32_t samples;
};

/* The memory of a rank, where its allocations were recorded. */
struct taut_report_memory {
	int32_t rank;
	int32_t device;         /* -1: the host's memory */
	int64_t measured_bytes; /* peak, as the allocator counted */
	int64_t replayed_bytes;
	int64_t base_bytes;     /* there before the recording and still there at
	                           its end, as far as it tells */
	uint64_t events;
	const char *at_op;      /* asked when the peak was reached; "" */
	const char *at_module;
};

struct taut_report {
	const struct taut_run *run;
	const struct taut_graph *graph;

	uint32_t n_ranks;
	const int32_t *ranks;   /* by run->traces */
	const char *const *hosts;

	uint32_t n_steps;
	const struct taut_report_step *steps; /* by (rank, step) */
	int64_t steady_ns;      /* measured median step over ranks and steps,
	                           without the first step where there are more */
	uint32_t n_spans;
	const struct taut_report_span *spans;

	double replay_error_pct_max, replay_error_pct_mean;
	int64_t replay_steady_ns;
	double unexplained_pct; /* unexplained device gaps / time in marks */

	uint32_t n_clocks;
	const struct taut_report_clock *clocks;

	uint64_t coll_count, coll_complete; /* matched; with every rank of its
	                                       group recorded */
	int64_t coll_transfer_ns; /* of the collectives of one rank, mean of the
	                             ranks: sum of last arrival to end */
	const int64_t *coll_wait_ns;        /* by rank index */
	const uint32_t *coll_last_arrivals; /* by rank index */
	uint32_t n_colls;
	const struct taut_report_coll *colls;

	uint32_t n_links; /* where chunks were recorded */
	const struct taut_report_link *links; /* most time first */

	uint32_t n_memory; /* where allocations were recorded */
	const struct taut_report_memory *memory; /* by rank */

	uint32_t n_late;
	const struct taut_report_late *late; /* worst first */

	/* Stalls: host slices of a millisecond and more whose like usually
	 * takes less than a twentieth of that: the thread did not run. */
	uint64_t stall_count; /* over all ranks and steps */
	int64_t stall_ns;

	uint32_t n_path;
	const struct taut_report_segment *path; /* in time order */
	uint32_t n_path_ops, n_path_modules;
	const struct taut_report_share *path_ops, *path_modules;
	int64_t path_ns[TAUT_CATEGORIES];

	uint32_t n_removals;
	const struct taut_report_removal *removals;
	uint32_t n_findings;    /* at most 10, most expensive first */
	const struct taut_report_finding *findings;

	uint32_t n_notes;       /* lost input, backward edges, unmatched ... */
	const char *const *notes;
};

struct taut_explain_options { /* zero is every field's default */
	unsigned threads;
};

TAUT_API TAUT_NODISCARD taut_status taut_explain(const struct taut_graph *graph,
	const struct taut_explain_options *options,
	struct taut_report **ret_report, struct taut_error *reterr);
TAUT_API void taut_report_destroy(struct taut_report *report); /* NULL: fine */

/* --- renderers: each writes to an open stream; TAUT_EIO when it refuses --*/
struct taut_text_options { /* zero is every field's default */
	int width;  /* columns; 0: 100 */
	int colour; /* ANSI colours */
	int all;    /* every row of the table of ranks or steps; else, of very
	               many, those that tell something */
};
TAUT_API TAUT_NODISCARD taut_status taut_report_text(
	const struct taut_report *report, const struct taut_text_options *options,
	FILE *out, struct taut_error *reterr);
TAUT_API TAUT_NODISCARD taut_status taut_report_json(
	const struct taut_report *report, FILE *out, struct taut_error *reterr);
TAUT_API TAUT_NODISCARD taut_status taut_report_html(
	const struct taut_report *report, FILE *out, struct taut_error *reterr);
TAUT_API TAUT_NODISCARD taut_status taut_report_perfetto(
	const struct taut_report *report, FILE *out, struct taut_error *reterr);

TAUT_END_DECLS
#endif /* TAUT_REPORT_H */

/* taut/trace.h - what was measured: one columnar table of events per rank.
 * Owner:   a taut_run owns its traces and all that they point to; one call
 *          to taut_run_close() frees everything.
 * Threads: read-only once opened; any thread may read.
 * Units:   nanoseconds, bytes. */
#ifndef TAUT_TRACE_H
#define TAUT_TRACE_H

#include <taut/base.h>

TAUT_BEGIN_DECLS

/* What an event is, whatever the writer called it. */
enum taut_kind {
	TAUT_KIND_OTHER,      /* kept, but of no known meaning */
	TAUT_KIND_OP,         /* framework operator on a host thread */
	TAUT_KIND_ANNOTATION, /* user range: ProfilerStep#3, nccl:all_reduce */
	TAUT_KIND_PYTHON,     /* Python function or nn.Module call */
	TAUT_KIND_RUNTIME,    /* call into the device runtime or driver */
	TAUT_KIND_KERNEL,     /* device: kernel */
	TAUT_KIND_MEMCPY,     /* device: copy */
	TAUT_KIND_MEMSET,     /* device: fill */
	TAUT_KIND_SYNC,       /* device-side synchronisation record */
	TAUT_KIND_GPU_RANGE,  /* annotation projected on a device lane */
	TAUT_KIND_OVERHEAD,   /* the profiler's own time */
	TAUT_KIND_STEP,       /* a training step, on the thread that runs it; its
	                         number + 1 is in sequence, 0 when not told */
	TAUT_KIND_COMM,       /* communication that a host carries out itself: a
	                         collective, a send, a push, a pull. What it is
	                         stands in comms. On the main thread it blocks */
	TAUT_KIND_CHUNK,      /* one chunk of a collective on the wire: a detail
	                         beside the operations, on lanes of kind OTHER;
	                         described in chunks */
	TAUT_KIND_LOAD,       /* a loader's worker prepares one batch */
	TAUT_KIND_LOAD_WAIT,  /* the main thread takes a batch; where workers
	                         prepare it, both have the same correlation */
	TAUT_KIND_COUNT
};

enum taut_lane_kind {
	TAUT_LANE_THREAD, /* host thread: events nest */
	TAUT_LANE_STREAM, /* device stream: events are serial */
	TAUT_LANE_OTHER,  /* profiler rows; what stands beside a stream but is
	                     none of its items: kinds SYNC and GPU_RANGE */
};

struct taut_lane {
	enum taut_lane_kind kind;
	int64_t pid;    /* process, or device index of a stream */
	int64_t tid;    /* thread or stream number; -1: of the whole device */
	uint32_t name;  /* of the thread or stream; 0 when not given. Where the
	                   trace has a text for pid or tid, it is the name, and
	                   the number is below zero and of no meaning */
};

/* How a device-side synchronisation record reads. */
enum taut_sync_kind {
	TAUT_SYNC_CONTEXT, /* host waited for the whole device */
	TAUT_SYNC_STREAM,  /* host waited for one stream */
	TAUT_SYNC_EVENT,   /* host waited for one recorded event */
	TAUT_SYNC_STREAM_WAIT, /* a stream waits for a recorded event */
};
struct taut_sync_args {
	uint32_t event;          /* row of the table */
	enum taut_sync_kind kind;
	int64_t stream;          /* that waits; -1 none */
	int64_t wait_stream;     /* that is waited for; -1 unknown */
	int64_t wait_correlation; /* of the cudaEventRecord; -1 unknown */
	int64_t event_id;        /* of the device event; -1 unknown */
};

/* What the framework says of one collective or send/recv. Present on host
 * operators (record_param_comms) and, in newer traces, on kernels. Names are
 * ids in the trace's names, 0 when not said; numbers are -1 when not said. */
struct taut_comm_args {
	uint32_t event;
	uint32_t collective; /* "allreduce", "_allgather_base", "send" ... */
	uint32_t group_name; /* process group name */
	uint32_t group_desc;
	uint32_t group_ranks; /* "[0, 1, 2, 3]", perhaps elided */
	uint32_t dtype;      /* "Float", "BFloat16" ... */
	int64_t in_elements, out_elements;
	int64_t seq;         /* in its group */
	int64_t comms_id;
	int64_t local_group; /* tells groups apart in this process only; has no
	                        meaning for another rank */
	int32_t group_size;
	int32_t src_rank, dst_rank; /* global, of a send/recv */
	int32_t rank_start, rank_stride; /* regular groups */
};

struct taut_copy_args {
	uint32_t event;
	int64_t bytes;
};

/* The tensor that an operator works on: of those that put gradients into place
 * (AccumulateGrad, DDP's copies into and out of its buckets), where shapes were
 * recorded. */
struct taut_tensor_args {
	uint32_t event;
	int64_t bytes;
};

/* One chunk of a collective between two ranks. The waits follow each other
 * and end with the transfer; -1 when not known. */
struct taut_chunk_args {
	uint32_t event;
	int32_t peer;       /* global rank; -1 not known */
	int32_t channel, step;
	int32_t sends;      /* 1 sent, 0 received */
	int64_t bytes;
	int64_t gpu_late_ns;  /* the device had not produced or freed its part */
	int64_t peer_late_ns; /* the peer had no room, or had not begun */
	int64_t network_ns;   /* under way */
};

/* What preparing one batch consisted of, as the thread that did it was told by
 * its operating system. The batch's duration less cpu_ns and queued_ns is what
 * that thread waited: for storage, unless others of its process worked for it
 * meanwhile. -1: not known. */
struct taut_load_args {
	uint32_t event;
	int32_t samples;
	int64_t cpu_ns;    /* the thread was on a core; never -1 */
	int64_t queued_ns; /* it could run, and had to wait for a core */
	int64_t others_ns; /* the other threads of its process were on cores */
	int64_t read_bytes;    /* the process got of read() and its like, from
	                          memory or storage */
	int64_t storage_bytes; /* it had the kernel fetch from storage */
};

/* What a framework's allocator gave or took back, and where that left it. */
struct taut_memory_event {
	int64_t at_ns;    /* as start_ns */
	int64_t bytes;    /* below 0: taken back */
	int64_t total;    /* given and not taken back, after it; of a device all
	                     of it, of the host often only since the recording
	                     began; -1 not said */
	uint64_t address; /* 0: not said */
	uint32_t lane;    /* the thread that asked */
	int32_t device;   /* -1: the host's memory */
};

/* What this rank's host found when it compared clocks with rank 0's. */
struct taut_clock_sample {
	int64_t at_ns;       /* absolute, on the trace's clock */
	int64_t offset_ns;   /* add to get rank 0's clock */
	int64_t half_width_ns; /* it is within so much, for certain */
};

/* What the recorder learned of the job and no event says: "ddp.buckets". */
struct taut_fact {
	const char *key, *value;
};

/* A device that the process could use, as its runtime describes it. Where that
 * is not said: name "", numbers -1. */
struct taut_device {
	int64_t id;       /* pid of its streams' lanes */
	const char *name; /* "NVIDIA H100 80GB HBM3" */
	int32_t major, minor;    /* compute capability: 9, 0 */
	int32_t multiprocessors;
};

enum { /* bits of flags[] */
	TAUT_EVENT_BACKWARD = 1, /* the operator says it ran for autograd */
	TAUT_EVENT_CUT = 2,      /* one end was outside the recording, or was
	                            written before the other */
	TAUT_EVENT_TENSOR = 4,   /* args is a row of tensors */
	TAUT_EVENT_MEETS = 8,    /* communication that is never over before its
	                            last rank has come, whatever the times say */
	TAUT_EVENT_LOAD = 16,    /* args is a row of loads */
	TAUT_EVENT_FROZEN = 32,  /* a batch normalization that says that it takes
	                            running statistics, and none of the batch */
};

/* An event and the number by which it, or what it waits for, is known to all
 * ranks of the run. */
struct taut_ref {
	uint32_t event;
	uint64_t id;
};

/* One rank. Columns have n_events rows, ordered by (lane, start, longer
 * first, order in the file), so each lane is a contiguous range of rows. */
struct taut_trace {
	const char *path;  /* where it was read */
	const char *format; /* "kineto" */
	const char *host;  /* "" when not known */
	const char *clock; /* traces with equal ones have one clock; "" when not
	                      known */
	int32_t rank;      /* set for every opened trace */
	int32_t world_size; /* -1 when not known */
	uint32_t process_groups; /* that the rank has made; 0 when not known */
	int64_t base_ns;   /* start_ns[i] + base_ns is the writer's own clock */

	size_t n_events;
	const int64_t *start_ns; /* relative to base_ns */
	const int64_t *dur_ns;   /* >= 0 */
	const uint32_t *name;    /* in names */
	const uint32_t *lane;    /* in lanes */
	const uint32_t *correlation; /* launch <-> device; 0 none */
	const uint32_t *sequence;    /* autograd sequence number + 1, of kind
	                                STEP its number + 1; 0 none */
	const uint32_t *args;    /* TAUT_NONE, or a row: of syncs for kind SYNC,
	                            of copies for MEMCPY and MEMSET, of chunks
	                            for CHUNK, of tensors or of loads where
	                            flags say so,
	                            of comms for every other kind */
	const uint8_t *kind;     /* enum taut_kind */
	const uint8_t *flags;
	const uint32_t *sizes;   /* in names: of an operator's inputs, as it was
	                            written, "[[16, 512, 4, 4], [512]]"; 0 not
	                            told, or too long to keep. NULL: of none */
	int sizes_lent;          /* they were recorded in another step, so that
	                            recording these cost less */

	uint32_t n_lanes;
	const struct taut_lane *lanes;
	const uint32_t *lane_begin; /* n_lanes + 1 row numbers */

	size_t n_syncs, n_comms, n_copies, n_chunks, n_tensors; /* each sorted
	                                                  by event */
	size_t n_loads; /* likewise; of kinds LOAD and LOAD_WAIT */
	const struct taut_sync_args *syncs;
	const struct taut_comm_args *comms;
	const struct taut_copy_args *copies;
	const struct taut_chunk_args *chunks;
	const struct taut_tensor_args *tensors;
	const struct taut_load_args *loads;

	size_t n_memory; /* where the recording has allocations */
	const struct taut_memory_event *memory; /* by time */

	size_t n_clock_samples;
	const struct taut_clock_sample *clock_samples; /* by time */
	size_t n_facts;
	const struct taut_fact *facts;
	size_t n_devices;
	const struct taut_device *devices; /* one for each id */
	/* The median step of this rank as its process timed it, while it was
	 * recorded and while it was not: what recording costs. 0: not known. */
	int64_t step_recorded_ns, step_unrecorded_ns;
	/* What its host takes to issue a step, likewise the median while nothing
	 * was recorded: from where the thread of the steps has its last batch
	 * (in a job without, has zeroed gradients) to the end of the step.
	 * 0: not known. issue_to_update: not to its end, but to where its optimizer
	 * begins, by when a host that is far ahead need not have filled its device's
	 * queue. */
	int64_t issue_unrecorded_ns;
	int issue_to_update;
	/* Pages that its process asked the system for in a step (minor faults),
	 * the median while it was recorded and while it was not, and what one
	 * takes. fault_ns 0: not known. */
	int64_t faults_recorded, faults_unrecorded, fault_ns;

	/* A table of operations: every event is one, in order on its lane (of
	 * those that start together the shorter first); none is nested, and the
	 * time between two of them is nobody's. */
	int is_table;
	size_t n_ids, n_waits;
	const struct taut_ref *ids;   /* by event; of those that are waited for */
	const struct taut_ref *waits; /* by event: it begins when the event of
	                                 that id, perhaps of another rank, is
	                                 over; of kind STEP: when it has begun */

	const struct taut_names *names;

	/* What the input held and the table does not. */
	uint64_t bytes_read;    /* of JSON, after inflate */
	uint64_t events_seen;   /* objects in traceEvents */
	uint64_t events_lost;   /* unreadable; each cause is in a note */
	int truncated;          /* the input ended before it was whole */
};

/* The side-table row of event i, or NULL. */
TAUT_API const struct taut_sync_args *taut_trace_sync(
	const struct taut_trace *trace, size_t i);
TAUT_API const struct taut_comm_args *taut_trace_comm(
	const struct taut_trace *trace, size_t i);
TAUT_API const struct taut_copy_args *taut_trace_copy(
	const struct taut_trace *trace, size_t i);
TAUT_API const struct taut_chunk_args *taut_trace_chunk(
	const struct taut_trace *trace, size_t i);
TAUT_API const struct taut_tensor_args *taut_trace_tensor(
	const struct taut_trace *trace, size_t i);
TAUT_API const struct taut_load_args *taut_trace_load(
	const struct taut_trace *trace, size_t i);
/* The value of the first fact of that key, or NULL. */
TAUT_API const char *taut_trace_fact(
	const struct taut_trace *trace, const char *key);
TAUT_API const char *taut_trace_name(
	const struct taut_trace *trace, size_t i); /* name of event i */
/* What page faults take of a step of this rank while it is not recorded; 0: none, or not
 * known. */
TAUT_API int64_t taut_trace_faults_ns(const struct taut_trace *trace);

struct taut_run_options { /* zero is every field's default */
	unsigned threads;   /* 0: one per core */
	const int32_t *ranks; /* one per path, in the order of the paths; of no
	                       effect for a folder. NULL or -1: from the trace,
	                       else from the file's name or its folder's */
	struct taut_progress progress;
};

struct taut_run {
	const char *path; /* the first one given */
	uint32_t n_traces;
	const struct taut_trace *traces; /* by rank, 0 or more missing */
	uint32_t n_notes;
	const char *const *notes; /* one line each: what was lost and why */
};

/* Opens traces: files, or folders (every trace file directly in them, and
 * one level down). Format and compression are found from the bytes, not
 * from the name. Every rank must be known and appear once.
 * *ret_run is untouched on failure.
 * TAUT_EFORMAT: a file is no trace of a known format, or is broken before
 * its first event; TAUT_EMATCH: two files say they are the same rank, or a
 * rank cannot be told; TAUT_EIO, TAUT_ENOMEM. */
TAUT_API TAUT_NODISCARD taut_status taut_run_open(const char *const *paths,
	size_t n_paths, const struct taut_run_options *options,
	struct taut_run **ret_run, struct taut_error *reterr);
TAUT_API void taut_run_close(struct taut_run *run); /* NULL is fine */

/* One trace from memory (compressed or not), as rank; for tests, fuzzing and
 * embedding. name stands for the path in messages. */
TAUT_API TAUT_NODISCARD taut_status taut_run_open_memory(const char *name,
	const void *bytes, size_t len, int32_t rank, struct taut_run **ret_run,
	struct taut_error *reterr);

TAUT_END_DECLS
#endif /* TAUT_TRACE_H */

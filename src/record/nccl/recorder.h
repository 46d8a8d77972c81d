/* recorder.h - what NCCL tells of one process, as records of an event log.
 *
 *   main thread    group, collective or send/receive: start ... stop (enqueued)
 *   proxy thread       operation: start ........................... stop
 *   proxy thread           step: start, states ......... stop
 *   proxy thread       kernel's channel: start .............. stop
 *
 * A collective is a *task* here. Its stop says only that it was enqueued: it
 * ends with the last of its operations and channels. NCCL tells neither how
 * many those are nor when the last has begun, so a finished task is written
 * when it is sure that no more follow (comm.c).
 *
 * A *step* is one transfer. It becomes a CHUNK record, and each instant of it
 * is in one of three sums, whoever had to move then:
 *
 *   send:  start -> GPU_WAIT -> PEER_WAIT -> SEND_WAIT -> stop
 *            \_____gpu late___/\__peer late_/\_network_/
 *   recv:  start -> RECV_WAIT -> FLUSH_WAIT -> RECV_GPU_WAIT -> stop
 *            \_gpu late_/\_network_/\________gpu late_______/
 *
 *   GPU_WAIT       the kernel has not produced the data
 *   PEER_WAIT      the peer has no room yet (said again with each try)
 *   SEND_WAIT      under way
 *   RECV_WAIT      posted; the peer has not sent, or it is under way: which of
 *                  the two only the sender's chunk tells, so peer late is not
 *                  known here
 *   FLUSH_WAIT     arrived; not yet visible to the GPU
 *   RECV_GPU_WAIT  the kernel has not consumed it
 *
 * From v4 on all states belong to the step. Before, PEER_WAIT is a state of
 * the operation and means the oldest of its steps that was not sent; sizes are
 * the operation's sums. v1 has several equal steps for each transfer; the
 * first one of them stands for all.
 *
 * Owner:   the process; made by the first communicator, never freed before the
 *          process ends (a callback may come late), and then only if no callback
 *          runs.
 * Threads: any, all at once, but for create and destroy. Callbacks neither
 *          wait nor allocate nor fail: what has no room is counted.
 * Units:   CLOCK_REALTIME nanoseconds, bytes. */
#ifndef TAUT_RECORD_NCCL_RECORDER_H
#define TAUT_RECORD_NCCL_RECORDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <taut/record.h>

#include "record/nccl/pool.h"
#include "record/nccl/words.h"

enum {
	TAUTI_NCCL_COMMS = 64,
	TAUTI_NCCL_TASKS = 4096, /* a power of two; see tauti_pool_number() */
	TAUTI_NCCL_OPS = 8192,
	TAUTI_NCCL_STEPS = 16384,
	TAUTI_NCCL_KERNELS = 8192,
	TAUTI_NCCL_DEPTH = 8,    /* steps of an operation at once, of NCCL */
	TAUTI_NCCL_LANES = 512,  /* of a communicator: 256 channels, two ways */
	TAUTI_NCCL_ROWS = 8,     /* and then so many for its tasks */
};

/* What was left out, and why; facts of the log at its end. */
enum tauti_nccl_loss {
	TAUTI_NCCL_NO_COMM,  /* events of communicators beyond the room */
	TAUTI_NCCL_NO_TASK,
	TAUTI_NCCL_NO_OP,
	TAUTI_NCCL_NO_STEP,
	TAUTI_NCCL_NO_KERNEL,
	TAUTI_NCCL_NOT_FOUND, /* handles that are old, busy or not ours */
	TAUTI_NCCL_CUT,      /* steps and operations that never stopped */
	TAUTI_NCCL_LOSSES
};

struct tauti_nccl_recorder;

struct tauti_nccl_comm {
	struct tauti_pooled pooled;
	/* Constant while the communicator exists. */
	int32_t number; /* counts up, over all of the process */
	int32_t n_ranks, rank; /* -1: not known (v1 to v3) */
	bool is_world; /* its ranks are the global ones */
	uint32_t n_pairs;
	_Atomic uint32_t *pairs; /* sends to and receives from each rank so
	                            far, [2 * rank + sends]; NULL: not known */
	char name[48];
	_Atomic(int *) mask; /* of NCCL; it reads it at each call */
	/* hash and name: told by init(), or by the first task. */
	_Atomic uint64_t hash;
	_Atomic uint32_t group; /* text id; 0 not yet */
	_Atomic uint32_t group_ranks;
	_Atomic uint64_t named[TAUTI_NCCL_LANES / 64 + 1];
	/* Launches: those before `done` have left the device. */
	_Atomic uint32_t launch, done;
	/* Tasks in the order of their start: handles, 0 not yet there. */
	atomic_flag sweeping; /* who has it writes tasks */
	int64_t row_ends[TAUTI_NCCL_ROWS]; /* of what was written */
	_Atomic uint64_t begin, end;
	_Atomic(void *) tasks[TAUTI_NCCL_TASKS];
};

struct tauti_nccl_task {
	struct tauti_pooled pooled;
	/* Constant once it has been given out. */
	void *comm; /* handle */
	uint32_t name, number, launch;
	int64_t enqueued_ns;
	struct taut_log_comm args;
	/* What its operations and channels have said so far. */
	_Atomic int32_t live;
	_Atomic int64_t stopped_ns; /* 0 not yet */
	_Atomic int64_t first_op_ns, first_kernel_ns; /* INT64_MAX none */
	_Atomic int64_t last_ns; /* 0 none */
};

struct tauti_nccl_op {
	struct tauti_pooled pooled;
	_Atomic(void *) comm; /* handle; NULL none, as task */
	void *task;
	int version;
	uint32_t name, number;
	int64_t lane;
	int32_t peer, channel; /* peer: global; -1 not known */
	bool sends;
	bool in_slice; /* v1: a step started, and no state came since */
	uint64_t moved_bytes; /* v1 to v3 */
	void *steps[TAUTI_NCCL_DEPTH]; /* handles, by step modulo the depth */
};

enum tauti_nccl_phase {
	TAUTI_NCCL_STARTED,
	TAUTI_NCCL_GPU_WAIT,
	TAUTI_NCCL_PEER_WAIT,
	TAUTI_NCCL_SEND_WAIT,
	TAUTI_NCCL_RECV_WAIT,
	TAUTI_NCCL_FLUSH_WAIT,
	TAUTI_NCCL_RECV_GPU_WAIT,
	TAUTI_NCCL_PHASES
};

struct tauti_nccl_step {
	struct tauti_pooled pooled;
	enum tauti_nccl_phase phase;
	uint32_t name, number;
	int64_t lane;
	int64_t start_ns, since_ns; /* since: of the phase */
	struct taut_log_chunk args; /* its times are the sums so far */
};

struct tauti_nccl_kernel {
	struct tauti_pooled pooled;
	_Atomic(void *) comm; /* handle, as task */
	void *task;
	int64_t start_ns;
	uint64_t gpu_start_ns, gpu_end_ns; /* 0 not told */
};

enum tauti_nccl_rank_from {
	TAUTI_NCCL_OF_COMM, /* the largest communicator so far, if any */
	TAUTI_NCCL_OF_TASK, /* a launcher's, which tells it all in a task */
	TAUTI_NCCL_OF_PROCESS, /* a launcher's, of this process alone */
};

struct tauti_nccl_recorder {
	struct taut_log *log;
	char path[512];
	pid_t pid;
	int32_t rank, world_size;
	enum tauti_nccl_rank_from rank_from;
	uint32_t mask;       /* events to ask for while recording */
	uint32_t idle_mask;  /* and while not */
	bool always;
	const _Atomic uint32_t *recording; /* the switch */
	_Atomic bool was_on; /* which mask NCCL has */
	int32_t n_comms; /* so far; the maker's lock */
	_Atomic uint64_t lost[TAUTI_NCCL_LOSSES];
	_Atomic uint64_t named[TAUTI_NCCL_LANES / 64 + 1]; /* of no comm */
	_Atomic uint32_t n_parts; /* operations and kernels that are open */
	struct tauti_pool comms, tasks, ops, steps, kernels;
	struct tauti_words words;
};

/* --- the process (recorder.c) ---------------------------------------------------*/

struct tauti_nccl_options {
	const char *folder; /* RUN; NULL: nothing is recorded */
	uint32_t mask;
	uint32_t capacity;  /* as of taut_log_options */
	bool always;        /* whatever the switch says */
	int32_t rank, world_size, local_rank; /* -1 not known */
	enum tauti_nccl_rank_from rank_from;
};

/* From the environment of the process; docs/recording.md has the names. */
struct tauti_nccl_options tauti_nccl_options_read(void);
/* NULL: it cannot record here; *reterr says why. */
struct tauti_nccl_recorder *tauti_nccl_create(
	const struct tauti_nccl_options *options,
	const _Atomic uint32_t *recording, struct taut_error *reterr);
/* Ends the log. No callback may run. NULL is fine. */
void tauti_nccl_destroy(struct tauti_nccl_recorder *r);
/* A communicator's: learns the rank, if it was not known or is now known better, and
 * moves the log where it belongs. */
void tauti_nccl_learn_rank(
	struct tauti_nccl_recorder *r, int32_t rank, int32_t world_size);

static inline bool tauti_nccl_is_on(const struct tauti_nccl_recorder *r)
{
	return r->always ||
		atomic_load_explicit(r->recording, memory_order_relaxed);
}

static inline void tauti_nccl_lose(
	struct tauti_nccl_recorder *r, enum tauti_nccl_loss what)
{
	atomic_fetch_add_explicit(&r->lost[what], 1, memory_order_relaxed);
}

/* --- communicators (comm.c) -------------------------------------------------------*/

struct tauti_nccl_comm_info {
	int version;
	const char *name; /* may be NULL */
	uint64_t hash;    /* 0 not known */
	int n_nodes, n_ranks, rank; /* -1 not known */
	int *mask;
};

/* The context of a communicator; NULL: no room. May wait. */
void *tauti_nccl_comm_begin(struct tauti_nccl_recorder *r,
	const struct tauti_nccl_comm_info *info);
/* Writes what is not finished. May wait, for a moment. */
void tauti_nccl_comm_end(struct tauti_nccl_recorder *r, void *context);
/* Another kernel is about to be launched. */
void tauti_nccl_comm_launch(struct tauti_nccl_recorder *r, void *context);
/* Introduces it in the log, at the first event that is recorded: a log with
 * records says that there was one. hash 0: as init() told. Sets the group of
 * args, and its ranks if they are known by now. */
void tauti_nccl_comm_learn(struct tauti_nccl_recorder *r,
	struct tauti_nccl_comm *comm, uint64_t hash, const char *name, int rank,
	struct taut_log_comm *args);
enum tauti_nccl_sweep { /* which tasks are written */
	TAUTI_NCCL_OVER,      /* of which nothing more can come */
	TAUTI_NCCL_MAKE_ROOM, /* that look as if, or at least the oldest */
	TAUTI_NCCL_ALL,       /* waits for a moment, if need be */
};
/* Writes tasks, in the order of their start. */
void tauti_nccl_sweep(struct tauti_nccl_recorder *r,
	struct tauti_nccl_comm *comm, enum tauti_nccl_sweep which);
/* A lane's number, named in the log. lane: below TAUTI_NCCL_LANES of chunks,
 * above of tasks. comm NULL: other processes' operations. */
int64_t tauti_nccl_lane(struct tauti_nccl_recorder *r,
	struct tauti_nccl_comm *comm, uint32_t lane);
/* The global rank of a communicator's rank; -1 not known. */
static inline int32_t tauti_nccl_global(
	const struct tauti_nccl_comm *comm, int rank)
{
	return comm && comm->is_world && rank >= 0 && rank < comm->n_ranks ?
		rank : -1;
}

/* --- tasks and the channels of kernels (task.c) ------------------------------------*/

struct tauti_nccl_task_info {
	bool is_pair; /* a send or receive */
	const char *comm_name; /* v1 to v3; may be NULL */
	uint64_t comm_hash;    /* v1 to v3; 0 not told */
	const char *func, *dtype, *algo, *proto; /* NULL not told */
	uint64_t seq;
	size_t count;
	int rank, root, peer;
	unsigned channels;
};

/* Each start returns a handle, or NULL when there is nothing to record. */
void *tauti_nccl_task_start(struct tauti_nccl_recorder *r, void *context,
	const struct tauti_nccl_task_info *info);
void tauti_nccl_task_stop(struct tauti_nccl_recorder *r, void *handle);
/* With comm->sweeping. */
void tauti_nccl_task_write(struct tauti_nccl_recorder *r,
	struct tauti_nccl_comm *comm, struct tauti_nccl_task *task);

/* A part of a task begins and ends. */
bool tauti_nccl_part_begin(struct tauti_nccl_recorder *r, void *task,
	int64_t at_ns);
void tauti_nccl_part_end(struct tauti_nccl_recorder *r, void *task,
	void *comm, int64_t at_ns);

void *tauti_nccl_kernel_start(struct tauti_nccl_recorder *r, void *context,
	void *task, uint64_t gpu_ns);
void tauti_nccl_kernel_update(
	struct tauti_nccl_recorder *r, void *handle, uint64_t gpu_ns);
void tauti_nccl_kernel_stop(struct tauti_nccl_recorder *r, void *handle);

/* --- operations and steps (op.c) -----------------------------------------------------*/

struct tauti_nccl_op_info {
	int version;
	void *parent;
	int32_t pid;
	int rank, channel, peer;
	bool sends;
};

void *tauti_nccl_op_start(struct tauti_nccl_recorder *r, void *context,
	const struct tauti_nccl_op_info *info);
/* v1 to v3. moved_bytes: of the operation so far. */
void tauti_nccl_op_state(struct tauti_nccl_recorder *r, void *handle,
	int state, uint64_t moved_bytes);
void tauti_nccl_op_stop(struct tauti_nccl_recorder *r, void *handle);
/* Of a communicator that is gone. */
void tauti_nccl_ops_forget(struct tauti_nccl_recorder *r, void *comm);

void *tauti_nccl_step_start(
	struct tauti_nccl_recorder *r, void *op, int step);
/* bytes: 0 not told. */
void tauti_nccl_step_state(struct tauti_nccl_recorder *r, void *handle,
	enum tauti_nccl_phase phase, uint64_t bytes);
void tauti_nccl_step_stop(struct tauti_nccl_recorder *r, void *handle);

/* --- NCCL's names (names.c) -----------------------------------------------------------*/

const char *tauti_nccl_func(unsigned number);  /* of v1; "Unknown" */
const char *tauti_nccl_dtype(unsigned number);
const char *tauti_nccl_algo(unsigned number);
const char *tauti_nccl_proto(unsigned number);
/* "AllReduce" -> "allreduce", "ncclBfloat16" -> "BFloat16": as in the
 * framework's own recordings. What is not known is returned as it is. */
const char *tauti_nccl_collective_name(const char *func);
const char *tauti_nccl_dtype_name(const char *dtype);

#endif /* TAUT_RECORD_NCCL_RECORDER_H */

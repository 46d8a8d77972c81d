/* taut/sync.h - gradients summed over all ranks while the job computes: the
 * scheduler (taut/sched.h) over collectives (taut/coll.h), on a thread of its own.
 *
 *     backward:   taut_sync_ready(task) as each gradient is there
 *     the thread: rounds, pieces by priority, collectives
 *     forward:    taut_sync_wait(task) before a layer needs what was summed
 *
 * Owner:   borrows the communicator, which nobody else uses until destroy (what
 *          the job needs besides goes through taut_sync_run()), and the memory of
 *          gradients from ready until done; after a failure, until destroy. When
 *          that finds something under way, the communicator ends with it.
 * Threads: any, all at once, but destroy. One more is made; it sleeps while
 *          nothing moves. After fork() the child's copy does nothing: each call
 *          is TAUT_EIO, destroy and fail return.
 * Errors:  the first failure ends all: every task that is under way ends with it,
 *          and every later call gives it, with the line that names the rank.
 *          A rank that fails, or leaves with tasks under way, says so, and all
 *          others end at once; one that is lost ends them within the
 *          communicator's lost_after_ns. A rank that leaves in peace ends what
 *          others cannot do without it, and nothing else.
 * Units:   bytes, elements, nanoseconds. */
#ifndef TAUT_SYNC_H
#define TAUT_SYNC_H

#include <taut/coll.h>
#include <taut/sched.h>

TAUT_BEGIN_DECLS

struct taut_sync;

struct taut_sync_options { /* zero is every field's default */
	enum taut_sched_order order; /* not ALONE */
	uint64_t piece_bytes, credit_bytes, fuse_bytes; /* taut_sched_options */
	bool halves;  /* a reduce-scatter, and an all-gather after it, both with
	                 the task's priority: what the next forward pass needs first
	                 overtakes either (after DeAR, ICDCS'23) */
	bool ordered; /* taut_coll_call */
	/* As what tasks of FLOAT32 are summed: FLOAT16 or BFLOAT16, which halves
	 * what is sent, or MXINT8, of which a quarter is; FLOAT32: as they are. Each
	 * element is multiplied by its factor in 32 bits, narrowed once
	 * (taut_narrow()), and added to others as that type, rounded each time
	 * (taut_reduce()); the sum is widened, on all ranks alike. Beyond the largest
	 * of 16 bits it is infinity. Blocks of MXINT8 are 32 elements from a task's
	 * begin on. piece, credit and fuse are bytes as they are sent. */
	enum taut_type wire;
};

/* Of a communicator that owns its engine (not of taut_comm_create_over(), where
 * nobody here knows when that lets memory go). Waits for no other rank.
 * One after another: who is in the next one already, and leaves it, ends what others
 * still have under way in this one; a barrier before that keeps them apart.
 * TAUT_EINVAL: there is no such order, no such type on the wire; or what
 * taut_comm_twin() gives, of which four are made. */
TAUT_API TAUT_NODISCARD taut_status taut_sync_create(struct taut_comm *comm,
	const struct taut_sync_options *options, struct taut_sync **ret_sync,
	struct taut_error *reterr);
/* At any moment, also with tasks under way: those end, here and on all ranks.
 * Waits for the others to have heard of it, five seconds at most: where one has not
 * made its own by then, the communicator ends on all ranks. NULL is fine. */
TAUT_API void taut_sync_destroy(struct taut_sync *sync);

/* --- tasks ------------------------------------------------------------------------
 * The same tasks on all ranks, in the same order, before the first ready: what
 * does not match ends with TAUT_EMATCH, before anything is summed. Each element of
 * the sum is multiplied by `factor` (1/n: the mean) on each rank before it is
 * added; 1 and 0: as it is. Of floats of 32 bits and less it is rounded to 32.
 * With options.wire tasks of FLOAT32 go as that says.
 * TAUT_EINVAL: too late, no elements, a factor of integers. */
TAUT_API TAUT_NODISCARD taut_status taut_sync_declare(struct taut_sync *sync,
	enum taut_type type, uint64_t count, int64_t priority, double factor,
	uint32_t *ret_task, struct taut_error *reterr);
/* The task that was declared last goes together with the one before it, as
 * taut_sched_join(): what is made ready of it waits for all of its group. TAUT_EINVAL:
 * too late, there is none before it, or tasks go in halves, each by itself. */
TAUT_API TAUT_NODISCARD taut_status taut_sync_join(
	struct taut_sync *sync, struct taut_error *reterr);
/* This rank's part is there; it is summed in place. data: NULL: where it was last
 * time. TAUT_EINVAL: it never was ready, or it is and is not done, or there is
 * no such task. */
TAUT_API TAUT_NODISCARD taut_status taut_sync_ready(struct taut_sync *sync,
	uint32_t task, void *data, struct taut_error *reterr);
/* The same, by a caller that soon makes another task ready, or waits: until then the
 * thread sleeps on, if it does and nobody waits for all tasks or the next one. So many
 * small gradients wake it once, and ranks agree once on all of them; other ranks wait
 * for this one meanwhile. */
TAUT_API TAUT_NODISCARD taut_status taut_sync_ready_more(struct taut_sync *sync,
	uint32_t task, void *data, struct taut_error *reterr);
/* The same as ready; this time the first `count` elements are the task, as on all
 * ranks. Where ranks have other counts sums are wrong until the next round tells, which
 * ends with TAUT_EMATCH; in DECLARED order, which has none, nothing may tell.
 * TAUT_EINVAL: also when it has fewer, or count is 0, or tasks go in halves. */
TAUT_API TAUT_NODISCARD taut_status taut_sync_ready_part(struct taut_sync *sync,
	uint32_t task, void *data, uint64_t count, struct taut_error *reterr);
/* Until what was made ready of the task (TAUT_NONE: of all tasks) is done; at
 * once when nothing was. TAUT_EAGAIN: not within the time; < 0: no limit. */
TAUT_API TAUT_NODISCARD taut_status taut_sync_wait(struct taut_sync *sync,
	uint32_t task, int64_t timeout_ns, struct taut_error *reterr);
/* The next task that is done, in the order in which they were. For one thread that
 * carries on with them; what is done again before it was taken is given once.
 * TAUT_EAGAIN: none within the time; < 0: no limit. */
TAUT_API TAUT_NODISCARD taut_status taut_sync_next(struct taut_sync *sync,
	int64_t timeout_ns, uint32_t *ret_task, struct taut_error *reterr);

/* --- between iterations ---------------------------------------------------------------
 * As taut_sched_tune(): at the same place of the program on every rank. Where ranks
 * have other limits then, they end with TAUT_EMATCH before anything is summed. */
TAUT_API TAUT_NODISCARD taut_status taut_sync_tune(struct taut_sync *sync,
	uint64_t piece_bytes, uint64_t credit_bytes, uint64_t fuse_bytes,
	struct taut_error *reterr);
/* How messages of pieces are carried from now on, as in taut_coll_call: AUTO and 0:
 * by the communicator's table, which also holds for what has no such way (a half).
 * At the same place of the program on every rank, with the same values: what does not
 * match ends with TAUT_EMATCH before anything is summed. TAUT_EINVAL: something is not
 * done; there is no such way; of `ordered` sums, one that is not in the order of the
 * ranks. */
TAUT_API TAUT_NODISCARD taut_status taut_sync_carry(struct taut_sync *sync,
	enum taut_coll_way way, uint64_t pass_bytes, uint32_t passes_at_once,
	struct taut_error *reterr);
/* Any collective besides, as taut_comm_run(): parameters that are sent around at
 * the start, a loss that is summed. The same ones in the same order on all ranks;
 * tasks may be under way meanwhile, in any order against these. */
TAUT_API TAUT_NODISCARD taut_status taut_sync_run(struct taut_sync *sync,
	const struct taut_coll_call *call, struct taut_error *reterr);
/* The same, several at a time: begun, and waited for later. The buffers stay the
 * run's until it is over; after a failure, until destroy. call: NULL: a barrier. */
TAUT_API TAUT_NODISCARD taut_status taut_sync_start(struct taut_sync *sync,
	const struct taut_coll_call *call, uint64_t *ret_run,
	struct taut_error *reterr);
/* Until the run is over, with its own status, by any number of callers and as often
 * as they like: one that was over before all failed has ended well. TAUT_EAGAIN: not
 * within the time; < 0: no limit. TAUT_EINVAL: there was no such run, or there is
 * no such collective, which ends nothing else. TAUT_EIO in the child of a fork(). */
TAUT_API TAUT_NODISCARD taut_status taut_sync_finish(struct taut_sync *sync,
	uint64_t run, int64_t timeout_ns, struct taut_error *reterr);
/* This rank cannot go on: ends all, here and on the other ranks. The first failure
 * counts. status: what is none (TAUT_OK, TAUT_EAGAIN, no taut_status) is TAUT_EIO.
 * Returns at once. */
TAUT_API void taut_sync_fail(
	struct taut_sync *sync, taut_status status, const char *why);

/* --- how it went -----------------------------------------------------------------------*/
struct taut_sync_counts { /* since it was made */
	struct taut_sched_counts sched;
	int64_t busy_ns;   /* in which a piece was under way */
	int64_t waited_ns; /* that callers spent in taut_sync_wait(), added up */
	uint64_t bytes;    /* that were summed, as they were sent */
	uint64_t messages; /* collectives of pieces: fused tasks of one type count
	                      once, halves twice */
	uint64_t copied_bytes; /* into a message of several tasks and out of it */
	uint64_t sleeps;   /* of the thread */
	uint64_t wakes;    /* of the thread, by callers */
	uint64_t cast_bytes; /* narrowed into a message and widened out of it; of
	                        the message's */
};
TAUT_API void taut_sync_counts(
	struct taut_sync *sync, struct taut_sync_counts *ret_counts);

/* A piece that was carried, and when: of a recording. */
struct taut_sync_piece {
	uint64_t message; /* that it went in: from 0, the same on all ranks */
	uint32_t task;
	uint64_t first_byte, bytes; /* of the task, as they are sent */
	int64_t start_ns, end_ns;   /* of the message, by CLOCK_MONOTONIC; with
	                               halves that of the first half */
};
/* From here on pieces are kept as their messages end, `most` at most and the last ones;
 * what was kept before is forgotten. 0: none are, which costs nothing. TAUT_ENOMEM: as
 * it was. */
TAUT_API TAUT_NODISCARD taut_status taut_sync_watch(
	struct taut_sync *sync, uint32_t most, struct taut_error *reterr);
/* Those that are kept, the oldest first, up to `room`: how many. They stay. */
TAUT_API uint32_t taut_sync_watched(struct taut_sync *sync,
	struct taut_sync_piece *ret_pieces, uint32_t room);

/* --- what it can give -------------------------------------------------------------
 * Of one step, in ns: what is less than 0 counts as 0. Communication is what all
 * gradients take on the link, alone; exposed is what a step that overlaps was seen to
 * wait for behind its backward pass, at least communication - backward; 0: nothing
 * was measured. window is of taut_sync_window(); 0: not known. */
struct taut_sync_times {
	int64_t forward_ns, backward_ns, update_ns; /* update: the optimizer's */
	int64_t communication_ns, exposed_ns, window_ns;
};
/* Forward pass f, backward pass b, update u, communication C, exposed e: a step that
 * overlaps as DDP does takes f + max(b + e, C) + u; one that lets the next forward
 * pass begin layer by layer takes at least max(f + b + u, C, window). */
struct taut_sync_bound {
	int64_t overlapped_ns, crossed_ns;
	double most_gain; /* overlapped / crossed, at least 1 */
};
TAUT_API struct taut_sync_bound taut_sync_bound(
	const struct taut_sync_times *times);

/* What one parameter asks for. Its times since the step's begin are of computation
 * alone, without what was waited for; need comes before ready. */
struct taut_sync_demand {
	int64_t communication_ns; /* of its gradient, alone on the link */
	int64_t update_ns;        /* that lies between its sum and its need */
	int64_t need_ns;          /* the forward pass cannot go on without it */
	int64_t ready_ns;         /* the backward pass has its gradient */
};
/* Of all gradients that are ready at ready_ns or later and due at due_ns or earlier
 * (need - update), the sum: no step is shorter than
 *     bound = communication + ready - due. */
struct taut_sync_window {
	int64_t bound_ns; /* 0: nothing is demanded */
	int64_t ready_ns, due_ns, communication_ns;
};
/* The window with the largest bound; src/sync/bound.c shows why it is one. What is
 * needed behind the window's begin is left out, so that bad times only make the bound
 * smaller. Sorts demands; takes n * n steps. Pure but for that. */
TAUT_API struct taut_sync_window taut_sync_window(
	struct taut_sync_demand *demands, size_t n_demands);
/* Pieces for a link on which so many bytes take so long: what has begun cannot be
 * overtaken, so that pieces, and the credit of two of them, are bounded by time.
 * The power of two nearest to what goes in 2.5 ms; 32 KiB at least, below which each
 * costs more than it moves, and 1 MiB at most, which loses nothing on a fast link.
 * Without bytes or time 1 MiB. */
TAUT_API uint64_t taut_sync_piece_bytes(
	uint64_t bytes, int64_t communication_ns);

/* Of a gradient of lookups rows that some rank has looked up are summed in the place of all
 * of them: not where that are more than half of n_rows, for they must be found, sent and
 * put into their places. */
TAUT_API bool taut_sync_takes_rows(uint64_t n_looked_up, uint64_t n_rows);

TAUT_END_DECLS
#endif /* TAUT_SYNC_H */

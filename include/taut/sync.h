/* taut/sync.h - gradients summed over all ranks while the job computes: the
 * scheduler (taut/sched.h) over collectives (taut/coll.h), on a thread of its own.
 *
 *     backward:   taut_sync_ready(task) as each gradient is there
 *     the thread: rounds, pieces by priority, collectives
 *     forward:    taut_sync_wait(task) before a layer needs what was summed
 *
 * Owner:   borrows the communicator, which nobody else uses meanwhile, and the
 *          memory of gradients from ready until done.
 * Threads: any, all at once, but destroy.
 * Errors:  the first failure ends all: every task that is under way ends with it,
 *          and every later call gives it.
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
	bool halves;  /* a reduce-scatter, and an all-gather that has the task's
	                 priority while the reduce-scatter goes in the order of
	                 readiness (DeAR, ICDCS'23) */
	bool ordered; /* taut_coll_call */
};

TAUT_API TAUT_NODISCARD taut_status taut_sync_create(struct taut_comm *comm,
	const struct taut_sync_options *options, struct taut_sync **ret_sync,
	struct taut_error *reterr);
/* Waits for what is under way on this rank to end; NULL is fine. */
TAUT_API void taut_sync_destroy(struct taut_sync *sync);

/* The same tasks on all ranks, in the same order, before the first ready. Each
 * element of the sum is multiplied by `factor` (1/n: the mean) on each rank before
 * it is added; 1 and 0: as it is. */
TAUT_API TAUT_NODISCARD taut_status taut_sync_declare(struct taut_sync *sync,
	enum taut_type type, uint64_t count, int64_t priority, double factor,
	uint32_t *ret_task, struct taut_error *reterr);
/* This rank's part is there; it is summed in place. */
TAUT_API TAUT_NODISCARD taut_status taut_sync_ready(struct taut_sync *sync,
	uint32_t task, void *data, struct taut_error *reterr);
/* Until all that was made ready of the task is done. TAUT_EAGAIN: not within the
 * time; < 0: no limit. */
TAUT_API TAUT_NODISCARD taut_status taut_sync_wait(struct taut_sync *sync,
	uint32_t task, int64_t timeout_ns, struct taut_error *reterr);
/* The next task that is done, in the order in which they were; each once for
 * each time that it was ready. For one thread that carries on with them. */
TAUT_API TAUT_NODISCARD taut_status taut_sync_next(struct taut_sync *sync,
	int64_t timeout_ns, uint32_t *ret_task, struct taut_error *reterr);
/* As taut_sched_tune(). */
TAUT_API TAUT_NODISCARD taut_status taut_sync_tune(struct taut_sync *sync,
	uint64_t piece_bytes, uint64_t credit_bytes, uint64_t fuse_bytes,
	struct taut_error *reterr);

struct taut_sync_counts { /* since it was made */
	struct taut_sched_counts sched;
	int64_t busy_ns;  /* in which a piece was under way */
	uint64_t bytes;   /* that were summed */
};
TAUT_API void taut_sync_counts(
	struct taut_sync *sync, struct taut_sync_counts *ret_counts);

/* --- what it can give -------------------------------------------------------------
 * Forward pass f, backward pass b, communication of a step C, alone: a step that
 * overlaps them as DDP does takes f + max(b, C); one that lets the next forward
 * pass begin layer by layer takes at least max(f + b, C). */
struct taut_sync_bound {
	int64_t overlapped_ns, crossed_ns;
	double most_gain; /* overlapped / crossed, at least 1 */
};
TAUT_API struct taut_sync_bound taut_sync_bound(
	int64_t forward_ns, int64_t backward_ns, int64_t communication_ns);

TAUT_END_DECLS
#endif /* TAUT_SYNC_H */

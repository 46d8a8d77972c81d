/* ddp.h - gradients of a data-parallel job, as its framework hands them to
 * the network: which parameter is ready behind which operation, which of them
 * make one bucket, who waits for it.
 *
 * Read from the edit, not from the recording: changes that were made before
 * (more ranks, other buckets) are seen. In one step of one rank:
 *
 *   host    .. P0 P1 [launch bucket 0] P2 P3 P4 [launch bucket 1] .. wait, copy
 *   wire         bucket 0 ------------->      bucket 1 ------------>
 *
 * P is a gradient: put into place, and copied into its bucket. Which they are
 * and how large is read from PyTorch's operators (AccumulateGrad) with their
 * shapes; where these were not recorded, a bucket is cut into equal pieces
 * over the time in which it was filled. */
#ifndef TAUT_WHATIF_DDP_H
#define TAUT_WHATIF_DDP_H

#include "whatif/whatif.h"

struct tauti_gradient { /* of one rank and step */
	int64_t bytes;
	uint32_t ready; /* op behind which its bucket can be launched */
	uint32_t out;   /* first op that copies it out of its bucket, or NONE */
	uint32_t kernel; /* last work on a device that the host had launched */
	int64_t ready_ns; /* when it was, in the recording */
	int64_t task;   /* of Taut's exchange: its number there; else 0 */
};

struct tauti_bucket { /* of one rank and step: one all-reduce */
	uint32_t collective, arrive;
	uint32_t like;     /* that it is of the recording; TAUT_NONE */
	uint32_t launch;   /* op that hands it over; TAUT_NONE: not known */
	uint32_t first, n; /* of the step's gradients */
	int64_t bytes;
};

struct tauti_ddp_step {
	uint32_t rank, step; /* step: index in graph->steps, of its rank_like */
	uint32_t first_gradient, n_gradients;
	uint32_t first_bucket, n_buckets; /* as they were launched */
	uint32_t begin; /* op: the step's mark */
	uint32_t after; /* op of the main thread that needs all gradients: the
	                   optimizer's first, or the step's end */
};

struct tauti_ddp {
	uint32_t n_ranks;       /* in the edit */
	uint32_t steps_a_rank;
	TAUT_VEC(struct tauti_gradient) gradients;
	TAUT_VEC(struct tauti_bucket) buckets;
	TAUT_VEC(struct tauti_ddp_step) steps; /* by rank, then time */
	bool exchanged;         /* by Taut's exchange: any thread hands a gradient
	                           over, and `out` waits for it (exchanged.h) */
	bool sized;             /* by shapes: else by pieces of equal size */
	bool fitted;            /* of a bucket they came to other bytes than it has, and
	                           were made to fit: they are not the job's */
	bool copies_out;        /* every gradient's `out` is known */
	int64_t launch_host_ns; /* median host time of a launch; -1: none seen */
	int64_t launch_lag_ns;  /* from its start to the arrival, where the lane
	                           was free; -1: never seen */
	double copy_rate;       /* bytes a nanosecond, into a bucket; 0: none */
};

/* gradients_bytes: how much is summed in a step where no collective tells it;
 * 0: not said. not_these: by collective of the edit, n_not of them, 1: sums no
 * gradients of several replicas whatever it looks like; NULL. TAUT_EINVAL: the ranks do not do the same. Without a gradient
 * at all the steps are there and empty. */
taut_status tauti_ddp_create(struct tauti_whatif *w, double gradients_bytes,
	const uint8_t *not_these, uint32_t n_not, struct tauti_ddp **ret_ddp,
	struct taut_error *err);
void tauti_ddp_destroy(struct tauti_ddp *ddp); /* NULL is fine */
/* TAUT_EINVAL for this change where the job sums no gradients. */
taut_status tauti_ddp_need_buckets(const struct tauti_whatif *w,
	const struct tauti_ddp *ddp, const char *change,
	struct taut_error *err);

/* 1 for collectives of the graph below that sum gradients; malloced, NULL: no
 * memory. With these: does this collective of the edit? */
uint8_t *tauti_gradient_marks(const struct tauti_whatif *w);
bool tauti_is_gradient(const struct tauti_whatif *w, const uint8_t *marks,
	uint32_t collective);

/* The row of an event around this one whose name begins so; the row itself:
 * there is none near. */
uint32_t tauti_row_around(const struct taut_trace *trace, uint32_t row,
	const char *begin);

/* The row of what computed the gradient that is put into place in this row: the first
 * of the backward pass before it that has autograd's number; TAUT_NONE: not told
 * (cross.c). */
uint32_t tauti_backward_row(const struct taut_trace *trace, uint32_t row);

/* The first gradients of a plan's buckets, the first is 0. */
typedef TAUT_VEC(uint32_t) tauti_plan;
/* As DDP makes them: a bucket is closed when it has come to its size, caps of n_caps,
 * at least one; the last one's is that of all behind it. bytes: of n gradients as
 * they are ready. */
taut_status tauti_ddp_plan(const int64_t *bytes, uint32_t n,
	const double *caps, uint32_t n_caps, tauti_plan *ret_plan,
	struct taut_error *err);

/* What the host is laid for a gradient, or a bucket, where it made no copy. */
#define TAUTI_COPY_IN "copy into the bucket"
#define TAUTI_COPY_OUT "copy out of the bucket"

/* --- laying collectives anew (lay.c) -------------------------------------------- */
struct tauti_lay { /* zero: as recorded */
	uint32_t lanes;    /* where no rank has lanes of communication: how many
	                      are made; 0: 2, as Gloo has */
	uint32_t replica;  /* where nothing summed gradients: ranks of one model,
	                      each of which sums its own part; 0: 1 */
	double copy_in, copy_out; /* bytes a nanosecond: what the host does for
	                      each gradient where it did not; 0: nothing */
};
/* The all-reduces of every step are replaced by those of the plan: launched
 * when the last of their gradients is ready, in order, on the lanes of
 * communication that would be free first; their waits are where the copies out
 * of them begin, else where those of the recorded ones were. TAUT_EINVAL: steps
 * of different numbers of gradients, or rows before it. */
taut_status tauti_ddp_lay(struct tauti_whatif *w, const struct tauti_ddp *ddp,
	const tauti_plan *plan, const struct tauti_lay *how,
	struct taut_error *err);
/* The launch is not made any more: it takes no time. TAUT_NONE: there is none
 * (lay_clear.c). */
taut_status tauti_launch_silence(struct tauti_whatif *w, uint32_t rank,
	uint32_t launch, struct taut_error *err);
/* Waits that the recording could not show, for they decided nothing: who needs
 * a bucket waits for it, also where it was there in time; a bucket that came
 * to a busy lane takes no longer to get to a free one than others did. Changes
 * nothing of the job as it was recorded. */
taut_status tauti_ddp_wait(struct tauti_whatif *w, const struct tauti_ddp *ddp,
	struct taut_error *err);

/* The way of a piece of so many bytes of an all-reduce that is carried out in
 * this way; like: what that is of the recording (partition.c). */
struct tauti_way tauti_piece_way(const struct tauti_whatif *w, uint32_t like,
	struct tauti_way way, double bytes);

#endif /* TAUT_WHATIF_DDP_H */

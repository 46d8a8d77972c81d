/* lay.h - what lay.c, lay_lanes.c and lay_clear.c share: other all-reduces in
 * the place of those recorded. place: of a rank among those that are there. */
#ifndef TAUT_WHATIF_LAY_H
#define TAUT_WHATIF_LAY_H

#include "whatif/ddp.h"

enum { TAUTI_MAX_LANES = 16 };

struct target { /* who waited for a bucket */
	uint32_t bucket, op;
	uint8_t kind;
};

struct comm_lane { /* of one rank */
	uint32_t lane;
	uint32_t after; /* new work stands behind this op; TAUT_NONE: first */
};

struct layer {
	struct tauti_whatif *w;
	bool failed;             /* no memory while waits were looked at */
	const struct tauti_ddp *ddp;
	const tauti_plan *plan;
	const struct tauti_lay *how;
	struct taut_error *err;
	uint32_t n_lanes;
	struct comm_lane *lanes; /* by rank's place, TAUTI_MAX_LANES each */
	uint32_t *group;         /* by rank's place: the place of its first */
	struct taut_collective *like; /* by rank's place: one of its recorded */
	double ns_per_byte;
	TAUT_VEC(struct target) targets;
	TAUT_VEC(struct taut_wait) waits;
	TAUT_VEC(struct taut_member) members;
	TAUT_VEC(uint32_t) launches, places, arrive;
};

/* Step k of a rank; bucket i, gradient i of a step. */
static inline const struct tauti_ddp_step *tauti_step_at(
	const struct layer *l, uint32_t place, uint32_t k)
{
	return &l->ddp->steps.data[place * l->ddp->steps_a_rank + k];
}

static inline const struct tauti_bucket *tauti_bucket_at(
	const struct layer *l, const struct tauti_ddp_step *s, uint32_t i)
{
	return &l->ddp->buckets.data[s->first_bucket + i];
}

static inline const struct tauti_gradient *tauti_gradient_at(
	const struct layer *l, const struct tauti_ddp_step *s, uint32_t i)
{
	return &l->ddp->gradients.data[s->first_gradient + i];
}

/* --- lay_lanes.c ------------------------------------------------------------------ */

/* Lanes of communication of every rank, as many on each. */
taut_status tauti_lay_find_lanes(struct layer *layer);
/* Behind which op of a lane work is laid that is ready then: behind all that
 * was handed over before. */
uint32_t tauti_lay_place(struct layer *layer, uint32_t place, uint32_t lane,
	int64_t ready_ns);

/* Work that shares the link evenly, one on each lane at most. */
struct tauti_queue {
	double left[TAUTI_MAX_LANES]; /* ns alone on the link; 0: free */
	double now;
	uint32_t n_lanes;
};
/* The lane that is free first, from ready on; amount is laid on it. Calls come
 * in the order of ready. */
uint32_t tauti_queue_take(struct tauti_queue *queue, double ready,
	double amount);

/* --- lay_clear.c ------------------------------------------------------------------ */

/* The recorded all-reduces of step k go, and their launches take no time. Who
 * waited for them stands in layer->targets then. */
taut_status tauti_lay_clear(struct layer *layer, uint32_t k);

#endif /* TAUT_WHATIF_LAY_H */

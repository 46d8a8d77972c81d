/* world.h - what world.c, replica.c and rotate.c share: more or fewer ranks. */
#ifndef TAUT_WHATIF_WORLD_H
#define TAUT_WHATIF_WORLD_H

#include "whatif/ddp.h"

/* Ranks that hold one copy of the model together (tensor and pipeline
 * parallel), in the order of the ranks: replica r has rank[r * size + i]. */
enum { /* whom a collective is of */
	TAUTI_OF_ALL,  /* of several replicas: a copy is one more in it */
	TAUTI_OF_ONE,  /* of one replica: a copy has its own */
	TAUTI_OF_SOME, /* of several, and nothing for a copy */
};
struct tauti_replicas {
	uint32_t n, size;
	uint32_t *rank;    /* n * size, as in the edit */
	uint8_t *inner;    /* by collective of the edit: TAUTI_OF_... */
	uint32_t n_inner;  /* collectives the array has */
};
/* size 0: found by who talks to whom, gradients aside. TAUT_EINVAL: replicas
 * of several sizes, or groups of which only a part was recorded. */
taut_status tauti_replicas_find(struct tauti_whatif *w, uint32_t size,
	struct tauti_replicas *ret, struct taut_error *err);
void tauti_replicas_fini(struct tauti_replicas *replicas);

/* A replica more, like replica `like`: collectives among its ranks are made
 * for it, those with others it joins. Where a table says that ranks wait for
 * each other when a step begins, the copies do too. ret_ranks: replicas->size. */
taut_status tauti_replica_copy(struct tauti_whatif *w,
	const struct tauti_replicas *replicas, uint32_t like,
	uint32_t *ret_ranks, struct taut_error *err);

/* rank is a fresh copy of `like`: its steps take what other steps of like took,
 * `by` further on, operation by operation where they correspond. The first step
 * stays. *ret_done false: fewer than three steps, or nothing corresponds. */
taut_status tauti_rotate_steps(struct tauti_whatif *w, uint32_t rank,
	uint32_t like, uint32_t by, bool *ret_done, struct taut_error *err);

/* Of a collective whose bytes are not known: it takes so much more as the law
 * of `now` ranks says over that of `before`, for as much in all (slices.c). */
taut_status tauti_regroup(struct tauti_whatif *w, uint32_t collective,
	uint32_t before, uint32_t now, struct taut_error *err);

#endif /* TAUT_WHATIF_WORLD_H */

/* compute.h - what the transformations of computation, memory and data share.
 *
 * They read the edit, so that they stack: operations that another change put
 * in count as what they are copies of (taut_op.like).
 * Owner:   arrays live in w->arena.
 * Units:   nanoseconds. */
#ifndef TAUT_WHATIF_COMPUTE_H
#define TAUT_WHATIF_COMPUTE_H

#include <math.h>
#include <string.h>

#include "whatif/whatif.h"

/* --- operations (ops.c) ---------------------------------------------------------- */
taut_status tauti_no_memory(struct taut_error *err, const char *what);
/* n numbers, all TAUT_NONE; NULL: no memory. */
uint32_t *tauti_nones(struct taut_arena *arena, size_t n);
/* A fact of the recording, of whichever rank has it; NULL. */
const char *tauti_fact(const struct tauti_whatif *w, const char *key);

/* Work of a host thread or a device: no communication, no mark. */
bool tauti_is_work(enum taut_op_kind kind);
bool tauti_is_device_op(enum taut_op_kind kind);
enum tauti_phase tauti_op_phase(
	const struct tauti_whatif *w, const struct taut_op *op);
/* Index in graph->steps; TAUT_NONE: in none, or made up. */
uint32_t tauti_op_step(const struct tauti_whatif *w, const struct taut_op *op);
/* Rank of the edit whose lane it stands on; TAUT_NONE of joins. */
uint32_t tauti_op_rank(const struct tauti_whatif *w, const struct taut_op *op);
/* Steps of all ranks of the edit by numbers below n: those of a copied rank are its
 * own, where tauti_op_step() says what they are copies of. */
struct tauti_own_steps {
	uint32_t n;
	uint32_t *first; /* by rank, its first one's number less that one's index in
	                    graph->steps; in the arena */
};
taut_status tauti_own_steps_find(struct tauti_whatif *w,
	struct tauti_own_steps *ret_steps, struct taut_error *err);
/* TAUT_NONE: in none, or made up. */
uint32_t tauti_own_step(const struct tauti_whatif *w,
	const struct tauti_own_steps *steps, const struct taut_op *op);
/* Rounded; at most 2^60, of which a replay says that it is too much. */
static inline int64_t tauti_ns(double ns)
{
	return ns < 0x1p60 ? llround(ns) : (int64_t)1 << 60;
}
/* dur_ns times factor, rounded. */
taut_status tauti_scale_op(struct tauti_whatif *w, uint32_t op,
	const struct taut_op *is, double factor, struct taut_error *err);
/* As if it were not there: it takes no time, and none before it that nothing
 * explains. Who waits for it waits for what it waits for; unlike
 * taut_edit_remove() this costs the same however much waits. */
taut_status tauti_vanish(struct tauti_whatif *w, uint32_t op,
	const struct taut_op *is, struct taut_error *err);
/* Reads a rank's number and finds it in run->traces. TAUT_EINVAL. */
taut_status tauti_param_rank(const struct tauti_whatif *w,
	const struct tauti_change *c, size_t i, uint32_t *ret_rank,
	struct taut_error *err);
/* A factor above 0: "2x", "+25%", or a plain "2". */
taut_status tauti_param_factor(const struct tauti_change *c, size_t i,
	double *ret, struct taut_error *err);
/* The main thread of a rank of the edit; TAUT_NONE. */
uint32_t tauti_main_lane(const struct tauti_whatif *w, uint32_t rank);
/* The trace's row of an operation of the graph below, and its trace; NULL:
 * made by hand, or time between events. */
const struct taut_trace *tauti_op_trace(
	const struct tauti_whatif *w, uint32_t op, uint32_t *ret_row);

/* --- by name (pick.c) ------------------------------------------------------------ */
typedef bool (*tauti_name_fn)(const void *context, const char *name);
/* By op of the graph below, 1: its own name, or that of an event around it, is
 * such; of device work also what launched it. is() is asked once a name. */
taut_status tauti_pick(struct tauti_whatif *w, tauti_name_fn is,
	const void *context, uint8_t **ret_picked, struct taut_error *err);
/* The same, but for events with this flag, what is inside of them and what they
 * launched. */
taut_status tauti_pick_but(struct tauti_whatif *w, tauti_name_fn is,
	const void *context, uint8_t flag, uint8_t **ret_picked,
	struct taut_error *err);
/* As the first, of its own name alone. */
taut_status tauti_pick_own(struct tauti_whatif *w, tauti_name_fn is,
	const void *context, uint8_t **ret_picked, struct taut_error *err);
/* By op of the graph below: the host operation that launched it. */
taut_status tauti_launchers(struct tauti_whatif *w, uint32_t **ret_launcher,
	struct taut_error *err);
static inline bool tauti_picked(const uint8_t *picked, const struct taut_op *op)
{
	return op->like != TAUT_NONE && picked[op->like];
}

/* --- parts of a step again (repeat.c) ---------------------------------------------
 * Copies of some operations, each behind a place of its lane. Waits among them
 * are copied; waits of and for others are not: a copy stands where what it
 * waited for is long over.
 *
 * Where a copy holds the end of one round and the beginning of the next one
 * (backward, then forward), what stands behind in the copy but was recorded
 * before is `later`: waits from later to not later come from the copy before,
 * of the first copy from the recorded operations, and in the end the recorded
 * ones wait for the last copy. */
struct tauti_place {
	uint32_t lane;
	uint32_t after; /* behind what the next copy stands; TAUT_NONE: first */
	uint32_t group; /* waits are copied within a group */
};
struct tauti_repeat {
	struct tauti_whatif *w;
	TAUT_VEC(uint32_t) ops;  /* in the order in which copies are to stand */
	TAUT_VEC(uint32_t) place; /* beside ops */
	TAUT_VEC(struct tauti_place) places;
	uint8_t *later;  /* by op of the edit */
	uint32_t *group; /* by op */
	uint32_t *was;   /* by op: its newest copy, or itself */
	uint32_t *now;   /* by op: the copy just made; TAUT_NONE: none */
	uint32_t n_ids;
};
taut_status tauti_repeat_begin(struct tauti_whatif *w,
	struct tauti_repeat *ret_repeat, struct taut_error *err);
taut_status tauti_repeat_place(struct tauti_repeat *r,
	struct tauti_place place, uint32_t *ret_place, struct taut_error *err);
taut_status tauti_repeat_add(struct tauti_repeat *r, uint32_t op,
	uint32_t place, bool later, struct taut_error *err);
taut_status tauti_repeat_copy(struct tauti_repeat *r, struct taut_error *err);
/* Moves the recorded operations' waits behind the last copy. */
taut_status tauti_repeat_close(struct tauti_repeat *r, struct taut_error *err);
void tauti_repeat_end(struct tauti_repeat *r); /* frees; all zero is fine */

/* --- micro-batches (accumulate.c) --------------------------------------------------- */
/* What communication needs, and a micro-batch without it does not do. */
bool tauti_is_for_sync(const void *context, const char *name);
/* TAUT_EINVAL: the job communicates within its passes, or a change before this one made
 * micro-batches. */
taut_status tauti_refuse_parts(struct tauti_whatif *w,
	const struct tauti_change *c, struct taut_error *err);

/* --- waiting for storage (waits.c) ------------------------------------------------
 * Of the time of an operation, what it waits for storage: of a batch, and of
 * what the main thread does for one itself; as recorded, or as a change left
 * it. 0: nothing, or not told. */
double tauti_wait_share(const struct tauti_whatif *w, uint32_t op);
taut_status tauti_set_wait_share(struct tauti_whatif *w, uint32_t op,
	double share, struct taut_error *err);

/* What the recorded batches of all ranks of the edit consist of, in sum. */
struct tauti_waits {
	double n, all_ns, core_ns, queue_ns; /* on a core, waiting for one */
	double wait_ns;  /* for storage: halfway between the two below */
	double least_ns; /* were what other threads of the process did
	                    meanwhile waited for, and not storage */
	double most_ns;  /* all that was waited for anything but a core */
	/* Of those that tell; read_bytes 0: no more than workers need to talk. */
	double read_bytes, storage_bytes, samples;
	bool queue_told; /* by all of them */
};
/* TAUT_EINVAL, with what is missing: no batches, or the recording does not
 * say what they did. */
taut_status tauti_waits_find(struct tauti_whatif *w,
	const struct tauti_change *c, struct tauti_waits *ret,
	struct taut_error *err);
/* The part of every batch that waits for storage takes factor times as long.
 * Doubts how much that is as far as `are` does. */
taut_status tauti_waits_scale(struct tauti_whatif *w,
	const struct tauti_change *c, const struct tauti_waits *are,
	double factor, struct taut_error *err);

/* --- batches of a loader (batches.c) ----------------------------------------------
 * What a rank's main thread takes, in order, and who prepares it. */
struct tauti_take {
	uint32_t first, last; /* what the main thread does to have a batch */
	uint32_t op;   /* of these, the one that waits for who prepares it */
	uint32_t load; /* operation that prepares it; TAUT_NONE: not told */
};
struct tauti_batches {
	uint32_t rank;
	TAUT_VEC(struct tauti_take) takes;
	TAUT_VEC(uint32_t) loads; /* all operations of the workers */
	double *wait;       /* by take: as tauti_wait_share(); where it is not
	                       told, that of all others. In the arena */
	uint32_t workers;   /* lanes that prepared; 0: the main thread did, or
	                       it is not told */
	uint32_t under_way; /* batches asked for ahead */
	int64_t turn_ns;    /* of a worker, from one batch to the next */
	bool blind;         /* there are workers, but the recording has nothing
	                       of what they did */
};
/* A worker's: recorded, or made by tauti_batches_spread(). */
bool tauti_is_load_lane(const struct tauti_whatif *w, uint32_t lane);
taut_status tauti_batches_find(struct tauti_whatif *w, uint32_t rank,
	struct tauti_batches *ret_batches, struct taut_error *err);
void tauti_batches_end(struct tauti_batches *b);
/* Prepares them anew: by `workers` lanes in turn, `under_way` at a time, each
 * batch for dur_ns[i] (beside takes). What workers did in the recording goes.
 * Of each, wait[i] is for storage.
 * The first one begins with the first step, the others spread over the time of
 * one batch, so that no queue that was full in the recording hides a loader
 * that is too slow from then on. */
taut_status tauti_batches_spread(struct tauti_whatif *w,
	const struct tauti_batches *b, uint32_t workers, uint32_t under_way,
	const int64_t *dur_ns, struct taut_error *err);
/* Anew as they are, of each rank whose workers would not keep up with steps of step_ns:
 * ret_laid, and what came behind mark is undone before. Where a change laid them, that
 * stays. */
taut_status tauti_batches_keep_up(struct tauti_whatif *w, uint32_t mark,
	int64_t step_ns, bool *ret_laid, struct taut_error *err);
/* The main thread, which prepared a batch for own_ns, only takes it. */
taut_status tauti_batches_relieve(struct tauti_whatif *w,
	const struct tauti_take *take, int64_t own_ns, struct taut_error *err);
/* TAUT_EINVAL: there are none, or nothing is known of them. */
taut_status tauti_batches_refuse(const struct tauti_change *c,
	const struct tauti_batches *b, struct taut_error *err);
/* What workers did in the recording goes. */
taut_status tauti_batches_cut(struct tauti_whatif *w,
	const struct tauti_batches *b, struct taut_error *err);
/* By take: how long it was prepared in the recording (by the edit); what is
 * not told gets the median. In the arena. */
taut_status tauti_batches_times(struct tauti_whatif *w,
	const struct tauti_batches *b, int64_t **ret_dur_ns,
	struct taut_error *err);

/* Of the n values; reorders them. 0 for none. */
int64_t tauti_median(int64_t *values, size_t n);

#endif /* TAUT_WHATIF_COMPUTE_H */

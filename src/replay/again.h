/* again.h - what the files of a kept replay share.
 *
 * An op's label is its place in the order: every wait leads from a lower label to
 * a higher one, but for ops that are queued. Ops that stand where a replay by time
 * put them have labels that are multiples of TAUTI_STRIDE, and are queued in a set
 * of bits by place, where adding one costs next to nothing; those that are new or
 * were moved behind others stand between them, and are queued in a heap.
 *
 * Everything that an op has is in one struct, and before a follow writes it for
 * the first time, it is copied to a log. To step back is to put the copies back.
 *
 *   again.c         follow, and reading
 *   again_make.c    memory, the first order, a new one
 *   again_log.c     what was before
 *   again_run.c     the loop
 *   again_circle.c  is there a circle, and which
 *   again_most.c    the latest end
 *
 * Threads: one at a time. */
#ifndef TAUT_REPLAY_AGAIN_H
#define TAUT_REPLAY_AGAIN_H

#include <taut/again.h>

#include "again_queue.h"
#include "graph/edit.h"

enum {
	TAUTI_HERE = 1,     /* it has times */
	TAUTI_PLAIN = 2,    /* its waits are those of the graph below */
	TAUTI_BEHIND = 4,   /* plain, and op - 1 stands before it */
	TAUTI_SOLE = 8,     /* that is all that it waits for */
	TAUTI_LATE = 16,    /* its gap is above 0 */
	TAUTI_EARLY = 32,   /* its gap is below 0 */
	TAUTI_OF_BLOCK = 64, /* in the log alone: a block of again_most.c */
	/* not in the log: */
	TAUTI_TOUCHED = 128, /* queued, and the edit has changed at it */
	TAUTI_IN_HEAP = 256,
	TAUTI_OPEN = 512,   /* of again_circle.c */
	TAUTI_DONE = 1024,
	TAUTI_KEPT_FLAGS = 127,
	TAUTI_FLAGS = 2047,
	TAUTI_FLAG_BITS = 11,
};

struct again_op {
	int64_t start_ns, end_ns; /* 0 where it is not here */
	int64_t label;            /* 0: none yet */
	uint32_t decided_by;
	uint32_t word; /* flags, and above them the number of the follow in
	                  which it was last copied to the log */
};

struct again_copy {
	struct again_op was;
	uint32_t op;
};

struct again_frame { /* after a follow */
	size_t at;  /* records of the edit's journal */
	size_t log; /* copies from here on, to the next frame's, are of this follow */
};

struct again_edge { /* by either end */
	int64_t lag_ns;
	uint32_t op;    /* the other end */
	uint32_t from_start;
};

/* The latest end in every 64 ops, and in every 64 of these. An old one may be
 * less than it says. */
struct again_block {
	int64_t most_ns;
	uint32_t number; /* of the follow in which it was last copied */
	uint32_t is_old;
};

struct again_super {
	int64_t most_ns;
	bool is_old;     /* it, or a block of it */
};

struct again_most {
	struct again_block *block;
	struct again_super *super;
};

struct taut_again {
	struct taut_edit *edit;
	struct again_op *ops;   /* by id; those not here are all 0, but for the
	                           word's number */
	uint32_t room;          /* ops that all arrays by id are for */
	uint32_t n_seen;        /* ids from here on were never here */

	/* of the graph below */
	struct again_edge *in, *out; /* as edit->in_edge, and as its edges */
	uint8_t *shape;         /* by op: TAUTI_TAIL, TAUTI_HAS_OUT */

	struct again_queue queue;
	struct again_most most;
	TAUT_VEC(struct again_copy) log;
	TAUT_VEC(struct again_frame) frames; /* none: the times are of no use */
	uint32_t number;        /* of this follow */
	size_t begin;           /* of its copies in the log */
	uint32_t soon;          /* is taken before all that is queued; or
	                           TAUT_NONE */
	uint64_t patience;      /* so many placed: a circle is looked for */
	uint64_t n_astray;      /* taken from the heap, but not moved there now */
	struct taut_again_counts last, all;
	TAUT_VEC(struct again_step) steps; /* of again_circle.c */
};

enum { TAUTI_TAIL = 1, TAUTI_HAS_OUT = 2 };

/* --- reading the edit ------------------------------------------------------------- */
static inline uint32_t again_before(const struct taut_again *a, uint32_t op)
{
	return tauti_serial(a->edit, tauti_lane_of(a->edit, op)) ?
		tauti_before(a->edit, op) : TAUT_NONE;
}

static inline uint32_t again_next(const struct taut_again *a, uint32_t op)
{
	return tauti_serial(a->edit, tauti_lane_of(a->edit, op)) ?
		tauti_next(a->edit, op) : TAUT_NONE;
}

/* --- again_log.c -------------------------------------------------------------------- */
/* Puts back all copies from `log` on, newest first. */
void tauti_again_put_back(struct taut_again *a, size_t log);
/* Back to a follow of which the journal still has all records: false, none of
 * these is left. */
bool tauti_again_step_back(struct taut_again *a, size_t low);
/* What was done since the last frame is one: room for it is there. */
void tauti_again_frame(struct taut_again *a);
/* A number for a follow to come. */
void tauti_again_number(struct taut_again *a);

static inline bool again_copied(const struct taut_again *a, uint32_t op)
{
	return a->ops[op].word >> TAUTI_FLAG_BITS == a->number;
}

/* A copy of what op has, once a follow; false: no memory. */
static inline bool again_copy(struct taut_again *a, uint32_t op)
{
	struct again_op *is = &a->ops[op];
	struct again_copy copy = { *is, op };

	if (again_copied(a, op))
		return true;
	copy.was.word &= ~(uint32_t)(TAUTI_FLAGS & ~TAUTI_KEPT_FLAGS);
	if (!taut_vec_push(&a->log, copy))
		return false;
	is->word = a->number << TAUTI_FLAG_BITS | (is->word & TAUTI_FLAGS);
	return true;
}

/* --- again_run.c -------------------------------------------------------------------- */
void tauti_again_touch(struct taut_again *a, uint32_t op);
/* Until nothing is queued. After an error all is as after the last frame. */
taut_status tauti_again_run(struct taut_again *a, struct taut_error *err);

/* --- again_circle.c ----------------------------------------------------------------- */
struct again_step {
	struct tauti_walk in;
	uint32_t op;
	bool before; /* the op before on the lane was seen */
};
/* Among the ops copied in this follow. TAUT_EMATCH: there is one; TAUT_ENOMEM. */
taut_status tauti_again_circle(struct taut_again *a, struct taut_error *err);

/* --- again_make.c ------------------------------------------------------------------- */
/* Arrays by id have room for n ops. */
bool tauti_again_room(struct taut_again *a, uint32_t n);
/* All ops have places by their labels again, and what was before is forgotten;
 * without memory for it nothing happens. */
void tauti_again_order(struct taut_again *a);

/* --- again_most.c ------------------------------------------------------------------- */
bool tauti_most_room(struct again_most *m, uint32_t from, uint32_t room);
void tauti_most_fini(struct again_most *m);
/* The latest end of all that are here; INT64_MIN: none is. */
int64_t tauti_most(struct taut_again *a);
/* The op that it is of, of equal ones the lowest; TAUT_NONE. */
uint32_t tauti_most_op(struct taut_again *a);
void tauti_most_put_back(struct again_most *m, const struct again_copy *copy);
/* false: no memory. */
bool tauti_most_rise(struct taut_again *a, uint32_t op, int64_t end_ns);
bool tauti_most_fall(struct taut_again *a, uint32_t op);

/* op's end was `was` and is `is`; INT64_MIN: it was, or is, not here. false: no
 * memory. */
static inline bool again_most_put(
	struct taut_again *a, uint32_t op, int64_t was_ns, int64_t is_ns)
{
	int64_t most_ns = a->most.block[op >> 6].most_ns;

	if (is_ns > most_ns)
		return tauti_most_rise(a, op, is_ns);
	return was_ns != most_ns || is_ns == was_ns || tauti_most_fall(a, op);
}

static inline int64_t again_end(const struct again_op *op)
{
	return op->word & TAUTI_HERE ? op->end_ns : INT64_MIN;
}

#endif /* TAUT_REPLAY_AGAIN_H */

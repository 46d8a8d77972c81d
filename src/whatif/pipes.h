/* pipes.h - jobs whose model is cut into pipeline stages: which rank holds
 * which stage, in which order it computes, what is sent between two of them.
 *
 * A pipeline is one rank of each stage. A stage holds `chunks` pieces of the
 * model; piece c of stage s stands at place c * stages + s of it. Forward and
 * backward computations of a stage are numbered in their order, each direction
 * for itself, in each step from 0: an index. Which (chunk, micro-batch) an
 * index is, the order says (tauti_piece_of()).
 *
 * Owner:   arrays live in w->arena; w->pipes is as of the changes so far.
 * Units:   nanoseconds. */
#ifndef TAUT_WHATIF_PIPES_H
#define TAUT_WHATIF_PIPES_H

#include "whatif/compute.h"
#include "whatif/world.h"

/* --- orders (pipe_order.c) ------------------------------------------------------ */
enum tauti_pipe_schedule {
	TAUTI_SCHEDULE_NONE, /* none of these */
	TAUTI_SCHEDULE_1F1B, /* one forward, one backward (PipeDream-Flush) */
	TAUTI_SCHEDULE_GPIPE, /* all forward, then all backward */
	TAUTI_SCHEDULE_INTERLEAVED, /* 1F1B over several chunks (Megatron-LM) */
};
const char *tauti_schedule_name(enum tauti_pipe_schedule schedule);

struct tauti_order {
	enum tauti_pipe_schedule schedule;
	uint32_t stages, chunks, batches;
	bool backward; /* is there any? */
};
/* How many computations a stage has in a step. */
static inline uint32_t tauti_order_n(const struct tauti_order *o)
{
	return o->batches * o->chunks * (o->backward ? 2 : 1);
}
/* ret: tauti_order_n() of them, 1: backward. */
void tauti_order_make(
	const struct tauti_order *o, uint32_t stage, uint8_t *ret_backward);
struct tauti_piece {
	uint32_t chunk, batch;
};
struct tauti_piece tauti_piece_of(
	const struct tauti_order *o, bool backward, uint32_t index);
uint32_t tauti_piece_index(const struct tauti_order *o, bool backward,
	struct tauti_piece piece);
/* Which of n things the ith of `of` is when they are cut anew: the first is the
 * first, the last the last, those between are like those that stood between.
 * *ret_home: it is the thing itself, and no copy. */
uint32_t tauti_cut_anew(uint32_t i, uint32_t of, uint32_t n, bool *ret_home);

/* --- what a rank computes (pipes.c) ------------------------------------------------ */
struct tauti_turns {
	uint32_t n;
	uint32_t *op;       /* forward and backward, in their order on the lane */
	uint8_t *backward;  /* beside op */
	uint32_t *begin;    /* by step, and one more */
	uint32_t *of[2];    /* ops of one direction */
	uint32_t *begin_of[2];
	uint32_t *mark;     /* by step: its begin; TAUT_NONE */
};
static inline uint32_t tauti_turn_op(const struct tauti_turns *t, uint32_t step,
	bool backward, uint32_t index)
{
	return t->of[backward][t->begin_of[backward][step] + index];
}

enum { TAUTI_SENDS, TAUTI_RECEIVES };
enum tauti_tie { /* what a send or receive hangs on */
	TAUTI_TIE_OWN,    /* the computation that it sends of, or feeds */
	TAUTI_TIE_BEFORE, /* of a receive: the one before that one */
	TAUTI_TIE_FIRST,  /* of the first backward ones: a forward one */
	TAUTI_TIE_ORDER,  /* of a receive: what is computed before, either way */
	TAUTI_TIE_STEP,   /* of the first of all: the step's begin */
	TAUTI_TIES
};
struct tauti_pair_end {
	uint32_t arrive, name;
	int64_t gap_ns, dur_ns; /* before the arrival; of the transfer alone */
	int64_t behind_ns; /* of a receive: it began so long after the end of
	                      what is computed before what it feeds; -1: before
	                      that, or not known */
	int64_t lag_ns[TAUTI_TIES];
	uint8_t ties;           /* 1 << enum tauti_tie, or-ed */
};
struct tauti_pair { /* a transfer between two stages that are neighbours */
	uint32_t collective;
	uint32_t pipe, step;
	uint32_t border; /* between this place of the model and the next */
	uint32_t batch;
	bool backward;
	struct tauti_pair_end end[2]; /* of who sends, who receives */
	struct taut_collective is;
	struct tauti_way way;  /* how it is carried out, and like what */
};

struct tauti_pipes {
	uint32_t n, n_steps; /* pipelines; steps of each rank */
	uint32_t stages, chunks;
	enum tauti_pipe_schedule schedule;
	bool backward;
	bool first_ties;
	uint32_t *rank;      /* of the edit: n * stages */
	int32_t *replica;    /* by pipeline: those of one share its layers */
	uint32_t *lane;      /* of its transfers: 4 a rank, by 2 * backward +
	                        receives; TAUT_NONE */
	uint32_t *batches;   /* n * n_steps */
	struct tauti_turns *turns; /* n * stages */
	size_t n_pairs;
	struct tauti_pair *pairs;
	size_t n_strays;
	uint32_t *strays;    /* of several chunks: transfers that nobody answers,
	                        between those that somebody does */
	uint8_t *leads;      /* by op of the graph: stands before the pairs of its
	                        step on a lane of theirs */
};
struct tauti_order tauti_order_of(
	const struct tauti_pipes *pipes, uint32_t pipe, uint32_t step);

/* w->pipes, looked for where no change did before. TAUT_EINVAL: the line says
 * what the recording lacks. name: of the change, for messages. */
taut_status tauti_pipes_find(struct tauti_whatif *w, const char *name,
	struct tauti_pipes **ret_pipes, struct taut_error *err);
taut_status tauti_turns_read(struct tauti_whatif *w, uint32_t rank,
	uint32_t n_steps, struct tauti_turns *ret, struct taut_error *err);
/* The computation before one on its lane, in the same step; TAUT_NONE. */
uint32_t tauti_turn_before(const struct tauti_whatif *w, uint32_t op);
/* Index in its rank's steps of an operation; TAUT_NONE. */
uint32_t tauti_step_number(const struct tauti_whatif *w, const struct taut_op *op);
enum tauti_pipe_role {
	TAUTI_PIPE_OTHER, TAUTI_PIPE_FORWARD, TAUTI_PIPE_BACKWARD,
	TAUTI_PIPE_UPDATE, TAUTI_PIPE_EMBEDDING,
};
enum tauti_pipe_role tauti_pipe_role(const char *name);

/* --- ranks that come and go (slices.c) ------------------------------------------------
 * A slice is all ranks that hold the same part: one stage, or one share of
 * every layer. It is copied as a replica is: collectives within a slice are made
 * for the copy, those over all slices get members, and in the rest (of first and
 * last stage) the copy has no part. */
taut_status tauti_slices_mark(struct tauti_whatif *w,
	struct tauti_replicas *slices, struct taut_error *err);
taut_status tauti_slice_copy(struct tauti_whatif *w,
	const struct tauti_replicas *slices, uint32_t like, uint32_t *ret_ranks,
	struct taut_error *err);
/* TAUT_EINVAL: ranks that stay wait for one of it beside collectives. */
taut_status tauti_slice_remove(struct tauti_whatif *w,
	const struct tauti_replicas *slices, uint32_t slice, const char *name,
	struct taut_error *err);
/* Carries factor times the bytes: of what is not known, of its time. */
taut_status tauti_scale_bytes(struct tauti_whatif *w, uint32_t collective,
	double factor, struct taut_error *err);

/* --- the new stages (pipe_lay.c) --------------------------------------------------------- */
struct tauti_recut { /* from w->pipes to others */
	struct tauti_whatif *w;
	const struct tauti_pipes *old;
	struct tauti_pipes *new;
	const int64_t *dur_ns; /* by op, before anything was changed */
	double first[2], last[2]; /* of a stage's time, what is of no layer: of
	                      the first and last place, by direction */
	const struct tauti_pair *usual[2]; /* by direction; NULL: all stands as
	                      it stood, and a transfer takes what it took */
	struct taut_error *err;
};
/* new has n, n_steps, stages, chunks, schedule, rank, lane, batches and leads;
 * the transfers of old are cut. Fills turns and pairs. */
taut_status tauti_recut_lay(struct tauti_recut *r);

#endif /* TAUT_WHATIF_PIPES_H */

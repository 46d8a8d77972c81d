/* taut/sched.h - which gradient goes next: tasks cut into pieces, carried out by
 * priority, within a credit, in one order on all ranks.
 *
 * A task is one tensor (or bucket) that all ranks sum, each iteration anew. It is
 * cut into pieces of bytes, whatever its shape; a piece that comes later but
 * matters more overtakes those that have not begun (ByteScheduler, SOSP'19; P3,
 * MLSys'19). What begins may no longer be overtaken, so at most `credit` bytes
 * are under way.
 *
 * The mechanism only. It has no clock, no thread and no network of its own: it
 * is told what happened and says what to do next, through an engine. The same
 * code runs a job (engines over process groups, src/coll, servers) and a
 * prediction (the replay's, on a virtual clock).
 *
 *   declare -> ready -> agreed -> committed -> start(piece) .. finished -> done
 *      |         |        |          |            engine         caller
 *    once     the job   all ranks  the same sequence on each rank
 *
 * One order on all ranks. Ranks become ready in different orders and finish at
 * different times; if each chose by itself, one would have its credit in a piece
 * that another, its own credit spent on a third, does not begin: a deadlock. So
 * ranks agree in rounds. A rank contributes one bit for each task, set when it is
 * ready for an iteration that is not agreed yet, and one for each committed piece
 * not known to be finished everywhere, set when it has finished it. The engine
 * takes the bitwise and over all ranks: what remains is agreed, and finished. All
 * ranks then know the same, and each applies the same rule to it:
 *
 *   while committed - finished bytes < credit, and some agreed task has pieces
 *   that are not committed: commit the next piece of the one with the least
 *   (priority, task). Of a group all must be agreed; taut_sched_join().
 *
 * Committed pieces are started at once, in that order. Nobody decrees: a round
 * is over when every rank's words have come, and a rank enters one when it has
 * something new to say that may matter, or hears that another has. So there are
 * never more rounds than events, but for the first, which compares what was
 * declared; and ranks that have nothing to do send nothing. docs/scheduler.md has
 * the proof.
 *
 * Owner:   borrows the engine's context; the caller destroys it when no call is
 *          under way.
 * Threads: any, all at once. Callbacks are made without a lock held, one at a
 *          time, in order, on a thread that is in a call; they may call back.
 * Errors:  the first failure (an engine's, memory, or ranks that do not match)
 *          ends all: every task with an iteration that was begun and is not done
 *          is told so, once, and every later call returns it. The engine is
 *          asked for nothing more. A call that returns TAUT_EINVAL for what it
 *          was given changes nothing.
 * Units:   bytes. */
#ifndef TAUT_SCHED_H
#define TAUT_SCHED_H

#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>

TAUT_BEGIN_DECLS

struct taut_sched;

enum taut_sched_order {
	TAUT_SCHED_AGREED,   /* as above */
	TAUT_SCHED_DECLARED, /* tasks in the order of their declaration, each when
	                        it is ready and those before it have begun: no
	                        rounds, the same on all ranks; as DDP does it */
	TAUT_SCHED_ALONE,    /* by priority, of this rank alone: for engines whose
	                        pieces wait for no other rank's order (servers) */
};

struct taut_sched_options { /* zero is every field's default */
	enum taut_sched_order order;
	uint32_t n_ranks;     /* 0: 1. One rank agrees with itself at once */
	uint64_t piece_bytes; /* largest piece; 0: tasks stay whole */
	uint64_t align_bytes; /* pieces but the last are a multiple of it, and at
	                         least it; 0: 64 */
	uint64_t credit_bytes; /* 0: no limit. A piece may begin while less than
	                          this is under way, so there may be one piece
	                          (DECLARED: or what is fused; of a group what is
	                          started together) less a byte more */
	uint64_t fuse_bytes;  /* whole tasks that follow each other in the sequence
	                         are started together up to so many bytes: those
	                         committed by one round; DECLARED: runs of tasks in
	                         the order of their declaration, once all of a run
	                         are ready. 0: each by itself */
};

/* Bytes first_byte .. first_byte + bytes - 1 of a task. */
struct taut_sched_piece {
	uint32_t task;
	uint32_t iteration; /* of the task, from 1 */
	uint64_t number;    /* place in the sequence, from 0; the same on all ranks,
	                       but for ALONE */
	uint64_t first_byte, bytes;
};

/* What the mechanism asks for. None may wait. A status other than TAUT_OK is the
 * end, as above. All calls below are allowed from inside, but destroy. */
struct taut_sched_engine {
	/* Carry these out together; then taut_sched_finished() with the number of
	 * each, in any order, also at once. The same calls in the same order on
	 * all ranks, but for ALONE. The array is valid during the call. */
	taut_status (*start)(void *context,
		const struct taut_sched_piece *pieces, size_t n,
		struct taut_error *err);
	/* This rank enters a round, the next one from 0, with these words; when
	 * the bitwise and of each over all ranks is known: taut_sched_agreed().
	 * n is the same on all ranks. Only one round is under way. When another
	 * rank enters a round that this one has not: taut_sched_asked(), and this
	 * one follows as soon as it can. The array is valid during the call. Not
	 * called, and may be NULL, unless the order is AGREED and n_ranks > 1. */
	taut_status (*agree)(void *context, uint64_t round,
		const uint64_t *words, size_t n, struct taut_error *err);
	/* All pieces of an iteration of a task are finished; or, status not OK,
	 * never will be. */
	void (*done)(void *context, uint32_t task, uint32_t iteration,
		taut_status status);
};

/* TAUT_EINVAL, TAUT_ENOMEM. The engine's table is copied. */
TAUT_API TAUT_NODISCARD taut_status taut_sched_create(
	const struct taut_sched_options *options,
	const struct taut_sched_engine *engine, void *context,
	struct taut_sched **ret_sched, struct taut_error *reterr);
/* NULL is fine. Calls nothing back. */
TAUT_API void taut_sched_destroy(struct taut_sched *sched);

/* --- tasks -----------------------------------------------------------------------
 * All before the first ready; the same on all ranks, in the same order: with
 * AGREED the first round compares them and the options, and what does not match
 * ends with TAUT_EMATCH and a line that names it. The least priority goes first.
 * after: an iteration of the task becomes ready when that of the other one is
 * done on this rank (an all-gather after its reduce-scatter), and
 * taut_sched_ready() is not for it; TAUT_NONE: none. TAUT_EINVAL: too late,
 * `after` is not one before it, bytes 0. */
TAUT_API TAUT_NODISCARD taut_status taut_sched_declare(
	struct taut_sched *sched, uint64_t bytes, int64_t priority,
	uint32_t after, uint32_t *ret_task, struct taut_error *reterr);
/* The task that was declared last goes with the one before it, and so with all that
 * goes with that: a group. None of it is committed before all of it is agreed, and
 * then one behind the other, by the least of its priorities. Whole tasks of it are
 * started together, up to piece_bytes (0: all of it), and with no others. So a
 * task that is made ready waits for the rest of its group. TAUT_EINVAL: too late, there
 * is none before it, or either of the two comes after another. */
TAUT_API TAUT_NODISCARD taut_status taut_sched_join(
	struct taut_sched *sched, struct taut_error *reterr);
/* This rank's part of the next iteration of the task is there. TAUT_EINVAL: the
 * iteration before it, of the task or of one that comes after it, is not done, or
 * there is no such task, or it comes after another. From inside done() a task
 * counts as done. TAUT_ENOMEM of the first call changes nothing: it may be tried
 * again. */
TAUT_API TAUT_NODISCARD taut_status taut_sched_ready(
	struct taut_sched *sched, uint32_t task, struct taut_error *reterr);
/* The same; this iteration of the task is its first `bytes` alone, as on all ranks:
 * some rows of a gradient that is zero but for those. With AGREED the round after the
 * one that agrees on it compares them, and what does not match ends with TAUT_EMATCH,
 * maybe behind pieces that were started; with DECLARED nothing does. TAUT_EINVAL: also
 * when it has fewer, or bytes is 0, or of a task that others come after. */
TAUT_API TAUT_NODISCARD taut_status taut_sched_ready_part(
	struct taut_sched *sched, uint32_t task, uint64_t bytes,
	struct taut_error *reterr);
/* Other limits for all that is made ready from now on; at the same place of the
 * program on every rank, and with the same values: with AGREED what does not match
 * ends with TAUT_EMATCH before a piece of it is started. TAUT_EINVAL: an
 * iteration that this rank has begun is not done. */
TAUT_API TAUT_NODISCARD taut_status taut_sched_tune(struct taut_sched *sched,
	uint64_t piece_bytes, uint64_t credit_bytes, uint64_t fuse_bytes,
	struct taut_error *reterr);
/* Another priority for all iterations that are made ready from now on. Of order
 * ALONE: in the others all ranks know the same priorities from the beginning.
 * TAUT_EINVAL: another order, no such task, an iteration that is not done. */
TAUT_API TAUT_NODISCARD taut_status taut_sched_prioritize(
	struct taut_sched *sched, uint32_t task, int64_t priority,
	struct taut_error *reterr);

/* --- what engines tell --------------------------------------------------------------
 * TAUT_EINVAL: no piece of that number is under way; not the round that is under
 * way, or not what can be the and of what this rank sent. */
TAUT_API TAUT_NODISCARD taut_status taut_sched_finished(
	struct taut_sched *sched, uint64_t number, struct taut_error *reterr);
TAUT_API TAUT_NODISCARD taut_status taut_sched_agreed(struct taut_sched *sched,
	uint64_t round, const uint64_t *words, size_t n,
	struct taut_error *reterr);
/* Of a round that this rank has entered meanwhile: nothing happens. */
TAUT_API TAUT_NODISCARD taut_status taut_sched_asked(struct taut_sched *sched,
	uint64_t round, struct taut_error *reterr);
/* The engine can do no more: a peer is gone. status is not TAUT_OK. The first
 * failure counts, later ones change nothing. */
TAUT_API void taut_sched_fail(struct taut_sched *sched, taut_status status,
	const char *why);

/* --- how it went -----------------------------------------------------------------------*/
struct taut_sched_counts { /* since it was made */
	uint64_t rounds;           /* that were agreed */
	uint64_t pieces, starts;   /* starts: calls, fused tasks count once */
	uint64_t overtaken;        /* pieces begun before one of a task that was
	                              agreed (ALONE: ready) earlier */
	uint64_t most_under_way_bytes; /* of this rank */
};
TAUT_API void taut_sched_counts(
	struct taut_sched *sched, struct taut_sched_counts *ret_counts);

TAUT_END_DECLS
#endif /* TAUT_SCHED_H */

/* sched.h - what the files of the scheduler share.
 *
 *     sched.c   what the caller says: tasks, ready, limits
 *     rule.c    which pieces are committed, and which are started together
 *     rounds.c  what ranks tell each other, and what follows from the answer
 *     tell.c    the callbacks; the lock around every call
 *
 * A call takes the lock, notes what happened, applies the rule, and then makes
 * the callbacks that are due, one after the other, without the lock. A call that
 * finds another one doing so leaves it to that one. Which callbacks are due
 * follows from the state; there is no queue of them to be allocated. */
#ifndef TAUT_SCHED_SCHED_H
#define TAUT_SCHED_SCHED_H

#include <pthread.h>
#include <stdbool.h>

#include <taut/sched.h>

#include "base/vec.h"
#include "sched/bits.h"
#include "sched/flight.h"

/* A task that comes after none is a root; those after it, directly or not, are
 * its tree, and go through an iteration together. */
struct tauti_task {
	uint64_t bytes;
	uint64_t part_bytes; /* of them, of iteration `begun` */
	int64_t priority;
	uint32_t after, root; /* itself when it is a root */
	uint32_t first_heir, next_heir; /* those directly after it, a list */
	uint32_t n_tree, n_left; /* of a root: tasks, those not told as done */
	uint32_t group;          /* the first of those that it goes with */
	uint32_t n_group, n_there; /* of a first: tasks of the group, those ready
	                              and held back until all are */
	int64_t least;           /* of a first: priority of the group */
	uint32_t position;       /* by (priority, group, task) */
	uint32_t begun, told;    /* iterations made ready, told as done */
	uint64_t committed_bytes, finished_bytes; /* of iteration `begun` */
	uint32_t older, newer; /* in the list of open tasks */
	uint32_t next_done;
};

/* What the next round is for. */
enum tauti_stage {
	TAUTI_COMPARE, /* the first: does each rank have the same */
	TAUTI_FIND,    /* no: which task differs. Ends all */
	TAUTI_RUN,
};

struct tauti_rounds {
	enum tauti_stage stage;
	uint64_t next;  /* number of the one to be entered, or under way */
	bool under_way; /* words has what was sent */
	bool asked;     /* for the next one to be entered */
	bool news_ready, news_finished; /* since words was filled last */
	uint64_t *ready; /* bits by position: ready, and not agreed yet */
	uint32_t n_ready;
	uint64_t agreed_bytes; /* a hash of part_bytes of all that was agreed */
	uint64_t *words;
	size_t n_words, capacity;
};

struct taut_sched {
	pthread_mutex_t lock; /* of all that follows */
	struct taut_sched_engine engine;
	void *context;
	struct taut_sched_options limits; /* piece_bytes is aligned */
	bool agreeing; /* by rounds; else this rank's word is all ranks' */
	TAUT_VEC(struct tauti_task) tasks;
	bool frozen; /* all are declared; what follows is there */
	bool unsorted; /* a priority changed: positions are old */
	uint32_t *by_position;
	struct taut_sched_piece *together; /* room for one call of start() */

	/* Open: agreed (where ranks agree; else ready), with pieces that are
	 * not committed. */
	struct tauti_bits open;  /* by position */
	uint32_t oldest, newest; /* of the open ones, as they came */
	uint32_t n_left;         /* tasks of trees begun, not told as done */
	/* DECLARED: the run of tasks that is started next, and how far it is
	 * known to be ready. */
	uint32_t run_begin, run_end, run_ready;

	struct tauti_flight flight;
	uint64_t started;        /* pieces that start() was called with */
	uint64_t charged_bytes;  /* committed, not finished everywhere */
	uint64_t under_way_bytes; /* committed, not finished here */
	struct tauti_rounds rounds;

	bool calling; /* a call is making callbacks */
	uint32_t first_done, last_done; /* tasks to be told as done */
	bool failed;
	struct taut_error failure;
	uint32_t next_failed; /* task to be looked at next, to be told */
	struct taut_sched_counts counts;
};

/* --- tell.c ------------------------------------------------------------------------*/
/* Every call is tauti_sched_enter(), which takes the lock, and returns what
 * tauti_sched_leave() returns, which makes the callbacks and gives it back. Between
 * them nothing is done when enter says no. */
taut_status tauti_sched_enter(struct taut_sched *sched);
taut_status tauti_sched_leave(struct taut_sched *sched, taut_status status,
	struct taut_error *reterr);
/* Only the first counts. */
void tauti_sched_fail(struct taut_sched *sched, const struct taut_error *why);
void tauti_sched_fail_memory(struct taut_sched *sched);

/* --- rule.c ------------------------------------------------------------------------*/
/* May something begin with so many bytes under way? */
bool tauti_sched_has_credit(const struct taut_sched *sched, uint64_t bytes);
/* It may be committed as soon as all of its group may: then to the list of those
 * that are open, at its end. */
void tauti_sched_open(struct taut_sched *sched, uint32_t task);
/* Finds the run of tasks from `first` on. */
void tauti_sched_begin_run(struct taut_sched *sched, uint32_t first);
/* The rule: commits what may be. Fails the scheduler where memory is short. */
void tauti_sched_commit(struct taut_sched *sched);
/* A piece is finished everywhere: its credit comes back. */
void tauti_sched_release(struct taut_sched *sched, uint64_t number);

/* --- rounds.c ----------------------------------------------------------------------*/
/* This rank is ready for an iteration of the task. */
void tauti_rounds_ready(struct taut_sched *sched, uint32_t task);
/* Is it time to enter one? */
bool tauti_rounds_due(const struct taut_sched *sched);
/* Fills words and marks the round as under way. False: no memory. Not while
 * agree() is called. */
TAUT_NODISCARD bool tauti_rounds_enter(struct taut_sched *sched);

#endif /* TAUT_SCHED_SCHED_H */

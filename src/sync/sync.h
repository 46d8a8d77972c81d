/* sync.h - what the files of the engine over collectives share.
 *
 *     sync.c      life; what is declared, and what was counted
 *     wait.c      callers: what they hand over, and what they wait for
 *     runs.c      callers: collectives besides, several at a time
 *     loop.c      the thread: everything that moves
 *     message.c   pieces to collectives
 *     staging.c   those that are copied together or narrowed: gathered, scattered
 *     rounds.c    what ranks agree on, and whether they declared the same
 *     farewell.c  a rank that ends says so
 *     scale.c     the factor
 *     watch.c     what was carried when, of a recording
 *     bound.c     what crossing the barrier can give
 *
 * Only the thread is in the communicators and in the scheduler, but for declaring,
 * which is over before anything moves. Callers leave what they want in lists that
 * need no memory, under the lock, and wake the thread when it sleeps. The thread
 * takes no lock while it is in a call of a communicator or of the scheduler; what a
 * collective's done() notes is looked at afterwards, so nothing is called from
 * inside something else.
 *
 * Four twins of the caller's communicator, since each is an order of its own:
 * pieces, whose order the scheduler makes the same on all ranks; rounds, one after
 * the other; runs, in the order of the job; the farewell. */
#ifndef TAUT_SYNC_SYNC_H
#define TAUT_SYNC_SYNC_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include <taut/sync.h>

#include "base/now.h"
#include "base/origin.h"
#include "base/vec.h"

struct tauti_task_of_sync {
	enum taut_type type, wire; /* as it is summed */
	uint64_t count; /* of numbers */
	int64_t priority;
	double factor;
	uint32_t group; /* the first of those that it goes with; itself: none before it */
	/* The thread's to read while open. */
	void *data;
	uint64_t part; /* numbers that were made ready; 0: all */
	/* Under the lock. */
	bool open;   /* made ready, not done */
	bool queued; /* done, not taken by taut_sync_next() */
	uint32_t n_group, n_handed; /* of a group's first: tasks; those that were
	                               made ready since all were */
	uint32_t n_waiters;
	uint32_t next_ready, next_done;
};

/* What a caller waits for the thread to do. The caller's, once over; if all ends
 * before, it stays in the list until destroy, for a collective may use it. */
struct tauti_request {
	struct taut_sync *sync;
	struct tauti_request *next;      /* those that the thread has not seen */
	struct tauti_request *older, *newer; /* all */
	bool is_run; /* else new limits */
	bool is_left;    /* of taut_sync_start(): nobody is in a call for it */
	uint64_t ticket; /* of one that is left: what its caller knows it by */
	uint8_t byte;    /* of a barrier */
	struct taut_coll_call call;
	uint64_t piece_bytes, credit_bytes, fuse_bytes;
	bool over; /* under the lock, with err */
	struct taut_error err; /* code: how it ended */
	/* The thread's. */
	struct tauti_request *next_ended;
	taut_status status; /* of the collective */
	uint64_t number;
};

/* One collective of pieces. */
struct tauti_message {
	struct taut_sync *sync;
	struct tauti_message *next; /* free, or ended */
	struct tauti_message *older, *newer; /* under way */
	uint64_t number; /* from 0, the same on all ranks */
	taut_status status;
	int64_t start_ns;
	enum taut_coll_verb verb;
	enum taut_type type, wire;
	size_t n, capacity;
	struct taut_sched_piece *pieces;
	/* Where several tasks are copied together, or narrowed: n_blocks of
	 * block_count elements, in each of which every task has its block of that
	 * number, and room for one element more where another block has one more.
	 * So a task's blocks are the same whichever tasks go with it. NULL: what is
	 * summed is the gradients' own memory. */
	struct tauti_staging *staging;
	uint32_t n_blocks;
	uint64_t block_count;
};

enum tauti_match { /* do all ranks have the same tasks? */
	TAUTI_MATCH_NOT_ASKED,
	TAUTI_MATCH_ASKED,
	TAUTI_MATCH_FIND, /* no: which one differs */
	TAUTI_MATCHED,
	/* Without rounds of the scheduler (DECLARED), and the same limits? */
	TAUTI_MATCH_TUNED, /* there are new ones here */
	TAUTI_MATCH_AHEAD, /* and not yet on every rank */
};

struct tauti_carry { /* taut_sync_carry() */
	enum taut_coll_way way;
	uint64_t pass_bytes;
	uint32_t passes_at_once;
	uint64_t n_changes;
};

struct tauti_round { /* the thread's */
	bool under_way, over;
	taut_status status;
	uint64_t number;     /* the scheduler's, of the one under way */
	uint64_t n_started;  /* on the twin */
	uint64_t n_agree;    /* of the scheduler's; the number of its next */
	uint64_t told_asked; /* the scheduler was told of those below */
	uint64_t *words;
	size_t n_words, capacity;
	enum tauti_match match;
	uint64_t *compared; /* what this rank sent to be compared */
	bool wants_limits;  /* has a task that waits for its limits */
	bool of_limits;     /* the one under way */
	uint64_t n_tuned;   /* or carried otherwise, since tasks were compared */
	/* With rounds of the scheduler: a hash of how pieces are carried, which the one
	 * under way has; and whether ranks sent others in the last one. */
	uint64_t carry_hash;
	bool carry_differs;
	bool behind;        /* others have other limits since message others_at */
	uint64_t others_at;
};

enum { TAUTI_FAREWELL_WORDS = 4 };

struct tauti_farewell { /* the thread's */
	bool begun, over, heard;
	taut_status status;
	uint64_t words[TAUTI_FAREWELL_WORDS]; /* who and why; collectives of
	                                         pieces, rounds and runs that
	                                         who left took part in */
	bool left; /* in peace */
	bool told; /* all know why this rank has failed */
};

struct tauti_watch { /* under the lock; a ring */
	struct taut_sync_piece *pieces; /* NULL: nothing is kept */
	uint32_t room, n;
	uint64_t next; /* where the next one goes, modulo room */
};

struct taut_sync {
	struct taut_comm *comm; /* the caller's */
	struct taut_comm *pieces, *round_comm, *runs, *farewell_comm;
	struct taut_sched *sched;
	struct taut_sync_options options;
	uint32_t rank, n_ranks;
	struct tauti_origin origin;
	pthread_t thread;

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t task_done, any_done, request_over;
	TAUT_VEC(struct tauti_task_of_sync) tasks;
	bool frozen; /* no more are declared */
	uint32_t n_open, n_all_waiters, n_next_waiters;
	uint32_t first_ready, last_ready; /* not seen by the thread */
	struct tauti_request *first_request, *last_request; /* as well */
	struct tauti_request *newest; /* of all */
	uint64_t n_tickets;   /* of runs that are left */
	uint32_t n_open_runs; /* of all: not over */
	uint32_t first_done, last_done; /* queued */
	bool news;     /* since the thread looked */
	bool keeps;    /* since then, a task that it was not woken for */
	bool sleeping; /* nobody has woken it since */
	bool quit;
	bool give_up; /* a caller has failed it */
	bool failed;
	struct taut_error failure;
	struct taut_sync_counts counts;
	int64_t busy_since_ns; /* while n_busy */
	uint32_t n_busy;       /* messages under way */
	struct tauti_watch watch;
	struct tauti_carry new_carry; /* of tasks that are made ready from now on */

	/* The thread's. */
	bool quitting;
	struct tauti_carry carry; /* as it was when the thread looked */
	struct tauti_message *free, *oldest, *newest_message;
	struct tauti_staging *staging; /* that no message has */
	struct tauti_message *first_ended, *last_ended;
	struct tauti_request *ended_runs;
	uint64_t n_messages, n_runs; /* begun */
	struct tauti_round round;
	struct tauti_farewell farewell;
};

/* The task of a task of the scheduler; a half has two of those. */
static inline uint32_t tauti_sync_task(
	const struct taut_sync *sync, uint32_t scheduled)
{
	return sync->options.halves ? scheduled / 2 : scheduled;
}

/* TAUT_EIO in a child's copy, of which nothing is touched; TAUT_OK else. */
taut_status tauti_sync_check_origin(
	const struct taut_sync *sync, struct taut_error *reterr);
/* Why a collective ended so: the communicator's line, or one that is made up. */
taut_status tauti_sync_comm_failed(
	struct taut_sync *sync, taut_status status, struct taut_error *err);

/* --- wait.c -------------------------------------------------------------------------*/
/* From the scheduler's done(). */
void tauti_sync_told(struct taut_sync *sync, uint32_t task);
/* Gives every caller `why`. The first counts. */
void tauti_sync_end(struct taut_sync *sync, const struct taut_error *why);
void tauti_sync_answer(struct taut_sync *sync, struct tauti_request *request,
	taut_status status, const struct taut_error *why);
/* Takes the lock; gives the failure when all has ended. */
taut_status tauti_sync_lock_live(
	struct taut_sync *sync, struct taut_error *reterr);
/* With the lock; gives it back. */
void tauti_sync_hand_over(
	struct taut_sync *sync, struct tauti_request *request);
/* Who waits waits also for what was handed over without waking the thread. With the
 * lock. */
void tauti_sync_tell_kept(struct taut_sync *sync);
/* A moment after which it is too late, of the clock of the conditions. */
struct tauti_limit {
	bool endless;
	struct timespec at;
};
struct tauti_limit tauti_sync_limit(int64_t timeout_ns);
/* With the lock. False: the time is over. */
bool tauti_sync_sleep_until(struct taut_sync *sync, pthread_cond_t *condition,
	const struct tauti_limit *limit);

/* --- loop.c -------------------------------------------------------------------------*/
void *tauti_sync_thread(void *sync);

/* --- message.c ----------------------------------------------------------------------*/
/* The scheduler's start(). */
taut_status tauti_message_start(void *sync,
	const struct taut_sched_piece *pieces, size_t n, struct taut_error *err);
/* Ends those whose collective is over. */
taut_status tauti_message_end_all(
	struct taut_sync *sync, bool *moved, struct taut_error *err);
/* No communicator uses any of them. */
void tauti_message_free_all(struct taut_sync *sync);
/* Of its ith piece: elements on the wire, the numbers in them (the last element of a task
 * may not be full), where these lie, what they are multiplied by. */
uint64_t tauti_message_count(const struct tauti_message *message, size_t i);
uint64_t tauti_message_numbers(const struct tauti_message *message, size_t i);
char *tauti_message_data(const struct tauti_message *message, size_t i);
double tauti_message_factor(const struct tauti_message *message, size_t i);

/* --- staging.c ----------------------------------------------------------------------
 * Memory of a message beside the gradients; the thread's. */
/* False: there is none. The message is complete but for it. */
bool tauti_staging_reserve(struct tauti_message *message);
void *tauti_staging_data(const struct tauti_message *message);
/* From the gradients and to them, by the message's verb and blocks. */
void tauti_staging_gather(const struct tauti_message *message);
void tauti_staging_scatter(const struct tauti_message *message);
/* For other messages. Where the message has none nothing happens. */
void tauti_staging_give_back(
	struct taut_sync *sync, struct tauti_message *message);
/* That no message has. */
void tauti_staging_free_all(struct taut_sync *sync);

/* --- watch.c ------------------------------------------------------------------------*/
/* Keeps the pieces of a message that has ended, where they are wanted. With the lock. */
void tauti_watch_keep(
	struct taut_sync *sync, const struct tauti_message *message);

/* --- rounds.c -----------------------------------------------------------------------*/
/* The scheduler's agree(). */
taut_status tauti_round_agree(void *sync, uint64_t round,
	const uint64_t *words, size_t n, struct taut_error *err);
/* Begins to compare what was declared, once, or what was tuned. */
taut_status tauti_round_match(struct taut_sync *sync, struct taut_error *err);
taut_status tauti_round_move(
	struct taut_sync *sync, bool *moved, struct taut_error *err);
/* There are new limits, or ways, so many times. */
void tauti_round_tuned(struct taut_sync *sync, uint64_t n_times);
/* Whether one more message may begin: not under limits or ways that others have
 * changed. */
taut_status tauti_round_may_begin(
	const struct taut_sync *sync, struct taut_error *err);
/* Enters a round for no reason; where there are rounds, and nothing is under way. */
bool tauti_round_may_ask(const struct taut_sync *sync);
taut_status tauti_round_ask(struct taut_sync *sync, struct taut_error *err);

/* --- farewell.c ----------------------------------------------------------------------
 * Each rank starts one small collective on a twin that has no other: the first one
 * that ends, to say so; the others when they hear that somebody has. */
taut_status tauti_farewell_move(
	struct taut_sync *sync, bool *moved, struct taut_error *err);
/* Says in `why` who had left when it came to that. */
void tauti_farewell_explain(
	const struct taut_sync *sync, struct taut_error *why);
/* why: NULL: in peace, or with tasks under way. Returns when the others know, or
 * will not. */
void tauti_farewell_say(struct taut_sync *sync, const struct taut_error *why);

/* --- scale.c --------------------------------------------------------------------------
 * out = in times factor; out may be in. Exactly in when the factor is 1 or 0. Floats
 * of 16 bits are computed in 32 and rounded to the nearest, ties to even. */
void tauti_sync_scale(enum taut_type type, void *out, const void *in,
	uint64_t count, double factor);

#endif /* TAUT_SYNC_SYNC_H */

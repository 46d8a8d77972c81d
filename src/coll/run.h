/* run.h - calls carried out over an engine.
 *
 *     plan   what all calls of one shape have in common: the schedules of a full
 *            pass and of the last one, in the executor's form. Kept, with the
 *            memory of calls that are over: the next one of the shape allocates
 *            nothing.
 *     run    one call under way: several passes at once, each in a slot.
 *     op     one step of a pass: begun when all that it waits for is done.
 *     hub    an engine, and all that is under way over it.
 *
 * An engine is never called from inside itself: done() of a request puts its op
 * into the hub's queue, and who called the engine empties that afterwards.
 *
 * A failure (an engine's, a lost peer) is noted where it is found, and nothing more
 * is begun; when the queue is left, the engine is destroyed, so that all memory is
 * the callers' again, and only then every run ends.
 *
 * Threads: one at a time in a hub, but for tauti_hub_wake() and tauti_hub_lose().
 * Owner:   the hub belongs to its communicators, and goes with the last. */
#ifndef TAUT_COLL_RUN_H
#define TAUT_COLL_RUN_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/origin.h"
#include "coll/coll.h"
#include "coll/table.h"

/* --- plan.c: how a call is cut ---------------------------------------------------------
 * Pass k takes `stride` elements from element k * stride on: of the buffer, or of
 * each block where the verb has blocks. The last one takes what is left. */
struct tauti_cut {
	uint64_t n_passes;
	uint64_t stride;
	uint64_t full, last; /* taut_coll_shape.count of a full pass (0: there is
	                        none), of the last */
};

/* Passes of about pass_bytes of the whole buffer, all of about the same size;
 * 0: one pass. count is not 0. */
struct tauti_cut tauti_cut_call(enum taut_coll_verb verb, uint64_t count,
	uint32_t n_ranks, size_t type_bytes, uint64_t pass_bytes);

/* --- plan.c: plans ---------------------------------------------------------------------*/

/* Beside those of taut_coll_step_kind: all steps of FLAT, which the engine does in
 * one. */
enum { TAUTI_STEP_FLAT = TAUT_STEP_REDUCE + 1 };

/* A taut_coll_step, with offsets into memory in place of elements. */
struct tauti_step {
	uint8_t kind, from, into;
	bool early; /* RECV_REDUCE of an engine that cannot: what comes is received
	               at `beside` when the pass begins, and reduced here */
	uint32_t message;
	uint32_t n_waits; /* and one more, for what comes, of an early one */
	uint32_t first_heir, n_heirs; /* in heirs: steps that wait for this one */
	uint32_t first_peer, n_peers; /* in peers */
	size_t count, bytes;
	size_t from_at, into_at; /* bytes, in the buffers `from` and `into` */
	size_t beside;           /* bytes, in scratch: what is reduced with `from` */
};

struct tauti_program { /* one block of memory with its arrays */
	uint32_t n_steps;
	size_t scratch_bytes;
	struct tauti_step *steps;
	uint32_t *heirs, *peers;
	uint32_t *firsts, n_firsts; /* steps that begin with the pass: those that
	                               wait for nothing, and early ones */
};

/* What a plan is found by. */
struct tauti_plan_key {
	enum taut_coll_verb verb;
	enum taut_coll_way way;
	uint32_t root, n_slots;
	uint64_t type_bytes, pass_bytes, count;
};

struct tauti_plan {
	struct tauti_plan_key key;
	struct tauti_cut cut;
	uint32_t n_slots;
	size_t stride_bytes;
	struct tauti_program *full, *last; /* full: NULL where there is none */
	uint32_t most_steps;  /* of either */
	size_t scratch_bytes; /* of a slot */
	struct tauti_run *idle; /* a list of runs that are over */
	uint32_t n_under_way;
	uint64_t used; /* when it was last looked for */
	struct tauti_plan *next; /* in its bucket */
};

enum { TAUTI_PLAN_BUCKETS = 128, TAUTI_PLANS = 256 };

struct tauti_plans { /* of one rank; zero is empty */
	struct tauti_plan *last; /* looked for; NULL: none, or it is gone */
	struct tauti_plan *buckets[TAUTI_PLAN_BUCKETS];
	uint32_t count;
	uint64_t uses;
};

struct tauti_hub;

/* The plan of a shape, kept or made; when there are TAUTI_PLANS, the one that was
 * not used for longest, and is not under way, goes. TAUT_EINVAL, TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_plan_get(struct tauti_hub *hub,
	const struct tauti_plan_key *key, struct tauti_plan **ret_plan,
	struct taut_error *reterr);
void tauti_plans_fini(struct tauti_plans *plans);

/* --- run.c -----------------------------------------------------------------------------*/

struct tauti_op {
	struct taut_coll_request request; /* first */
	struct tauti_slot *slot;
	const struct tauti_step *step; /* of slot's program */
	struct tauti_op *next; /* in the hub's queue */
	uint32_t waits_left;
	bool receiving; /* of an early step: what comes is not there yet */
	bool held;      /* the engine has its request */
	taut_status status;
};

struct tauti_slot {
	struct tauti_run *run;
	const struct tauti_program *program;
	struct tauti_op *ops; /* by step */
	char *base[3];        /* by enum taut_coll_buffer, of this pass */
	uint64_t tag;         /* of its messages, less their number */
	uint32_t n_left;      /* steps that are not done */
	struct taut_coll_flat flat; /* of a program that is one TAUTI_STEP_FLAT */
};

/* From malloc, with its slots and their ops. */
struct tauti_run {
	struct tauti_hub *hub; /* NULL: over, but the engine still holds ops */
	struct tauti_plan *plan;
	struct taut_coll_call call;
	void (*done)(void *context, taut_status status);
	void *context;
	uint64_t tag;       /* of its first pass */
	uint64_t next_pass; /* to begin */
	uint32_t n_busy;    /* slots */
	uint32_t n_held;    /* ops that the engine has */
	uint8_t barrier;    /* what a barrier sums: the engine may have it longer
	                       than there is a communicator */
	struct tauti_block *scratch;
	struct tauti_run *older, *newer; /* in the hub's list; newer: in plan's */
	struct tauti_slot slots[];
};

/* --- hub.c -------------------------------------------------------------------------*/

/* Who looks after the peers. Any may be NULL. */
struct tauti_watcher {
	void *context;
	void (*fail)(void *context, const struct taut_error *why);
	/* This rank begins nothing more: by channel, the passes it has begun. */
	void (*leave)(void *context, const uint32_t *passes);
	/* tauti_hub_needs() is TAUTI_NEEDS_NOTHING, after tauti_hub_left(). */
	void (*settled)(void *context);
	/* May wait for others. When it returns, it calls nothing of the hub any
	 * more. */
	void (*close)(void *context);
};

struct tauti_reached { /* by those that have left */
	uint32_t passes, rank; /* the fewest, and whose they are */
};

enum {
	TAUTI_CHANNELS = 16,
	TAUTI_MESSAGE_BITS = 12, /* TAUT_COLL_MESSAGES */
	TAUTI_PASS_BITS = 32,
};

struct tauti_hub {
	struct tauti_origin origin;
	struct tauti_engine engine; /* table: NULL: destroyed */
	bool owned;                 /* the engine */
	char engine_name[32];       /* also when it is destroyed */
	uint32_t rank, n_ranks, n_hosts;
	uint32_t *host_of; /* NULL: all on one */
	struct tauti_table table;
	struct tauti_watcher watcher;
	int64_t spin_ns; /* how long a rank looks for news before it sleeps */
	int64_t call_within_ns; /* taut_comm_run(), barrier; 0: no limit */

	uint32_t n_comms, channels; /* channels: a bit for each that is in use */
	/* Of each channel, the passes of all calls that were begun on it: the
	 * number of a pass, which no two under way share. */
	_Atomic uint32_t passes[TAUTI_CHANNELS];
	_Atomic uint32_t n_under_way; /* written, as passes, by one thread */

	struct tauti_plans plans;
	struct tauti_block *blocks; /* scratch that nobody uses */
	struct tauti_run *oldest, *newest;
	struct tauti_op *first, *last; /* done, and not looked at yet */
	bool draining;
	bool failed, torn;
	bool stranded;     /* failed as a rank has left */
	bool told_settled;
	struct taut_error failure;

	pthread_mutex_t lock; /* of what follows */
	bool wakeable;        /* the engine is there */
	struct taut_error lost_why;
	atomic_bool lost;
	struct tauti_reached reached[TAUTI_CHANNELS];
	uint32_t left_first; /* of those that left */
	atomic_bool left;    /* any has */
	atomic_bool waits_for_left; /* something under way */
};

struct tauti_hub_options {
	struct tauti_engine engine;
	bool owned;
	bool spins; /* there is a core for each rank of this host */
	int64_t call_within_ns;
	uint32_t rank, n_ranks;
	const uint32_t *host_of; /* copied */
	const struct taut_coll_choice *rows; /* copied; before what is built in */
	size_t n_rows;
};

/* With no communicator yet. On failure the engine is still the caller's. */
TAUT_NODISCARD taut_status tauti_hub_create(
	const struct tauti_hub_options *options, struct tauti_hub **ret_hub,
	struct taut_error *reterr);
/* What is under way ends. NULL is fine. */
void tauti_hub_destroy(struct tauti_hub *hub);

/* A peer is gone. Any thread; the first one counts. */
void tauti_hub_lose(struct tauti_hub *hub, const struct taut_error *why);
/* A peer has left in peace, with so many passes begun on each channel. Any
 * thread. */
void tauti_hub_left(
	struct tauti_hub *hub, uint32_t rank, const uint32_t *passes);
/* Of what those took part in that have left; any thread. */
enum tauti_need tauti_hub_needs(struct tauti_hub *hub);
void tauti_hub_wake(struct tauti_hub *hub); /* any thread */
/* The first counts. What is under way ends when the queue is left: at once,
 * unless this is called from inside it. */
void tauti_hub_fail(struct tauti_hub *hub, const struct taut_error *why);
/* TAUT_OK, or what it failed with; TAUT_EIO in a child's copy. */
taut_status tauti_hub_check(struct tauti_hub *hub, struct taut_error *reterr);
/* The same, without looking for what is new; TAUT_EINVAL inside the done() of a call. */
taut_status tauti_hub_check_outside(
	const struct tauti_hub *hub, struct taut_error *reterr);
taut_status tauti_hub_progress(
	struct tauti_hub *hub, struct taut_error *reterr);
taut_status tauti_hub_wait(struct tauti_hub *hub, int64_t timeout_ns,
	struct taut_error *reterr);

/* The tag of messages of the next pass on a channel, less their number. */
uint64_t tauti_hub_next_tag(const struct tauti_hub *hub, uint32_t channel);
/* Begins a call that was checked, and has neither AUTO nor count 0 left in it.
 * Without an output it is a barrier's, of one byte. */
TAUT_NODISCARD taut_status tauti_run_start(struct tauti_hub *hub,
	uint32_t channel, const struct taut_coll_call *call,
	void (*done)(void *context, taut_status status), void *context,
	struct taut_error *reterr);
void tauti_run_free(struct tauti_run *run); /* an idle one */

#endif /* TAUT_COLL_RUN_H */

/* taut/server.h - a parameter server: workers push tensors, servers sum them (or
 * make an optimizer's step with them), workers pull the result.
 *
 *     worker 0 --push--> +----------+ <--push-- worker 1
 *              <--pull-- | server 0 | --pull-->
 *                        +----------+
 *
 * A key is a tensor by name. It is cut into parts, and each part lives on one
 * server; which one follows from the names and sizes alone, so that all workers
 * know it without asking. What a worker does with a key is one iteration of a task
 * of the scheduler (taut/sched.h, order ALONE): parts go by priority, within a
 * credit.
 *
 * Synchronous: the pull of round t answers when every worker's push of t is in the
 * sum. Asynchronous: each push is applied at once; pulls may be held back by
 * workers that are too far behind (bounded staleness). A pull never sees half of
 * an update of a part.
 *
 * Errors:  a worker and a server are joined by a link of their own, so one that is
 *          gone ends nobody's link but its own. What the others do then is the
 *          server's option; what they are told names it: "worker 2 (10.0.0.3) is
 *          gone: ...", "server 1 (node1:7000) is gone: ...", at once when its
 *          connection closes, within lost_after_ns when it falls silent.
 * Units:   bytes, elements, nanoseconds. Workers, servers and keys count from 0. */
#ifndef TAUT_SERVER_H
#define TAUT_SERVER_H

#include <stdbool.h>

#include <taut/coll.h>
#include <taut/sched.h>

TAUT_BEGIN_DECLS

/* --- what a server does with a push ------------------------------------------------ */
enum taut_server_rule {
	TAUT_SERVER_SUM,  /* synchronous: the value is the sum of the round;
	                     asynchronous: each push is added to the value */
	TAUT_SERVER_SGD,  /* the value is a parameter, what is pushed a gradient */
	TAUT_SERVER_ADAM,
	TAUT_SERVER_ADAMW, /* decay apart from the gradient (Loshchilov and Hutter,
	                     ICLR'19) */
	TAUT_SERVER_RULES
};

/* float32 and float64; computed in the type of the key, one operation after the
 * other, so that the bits are those of the plain C in docs/server.md. */
struct taut_server_update {
	enum taut_server_rule rule;
	bool nesterov;
	double lr, momentum, weight_decay;
	double beta1, beta2, eps;
};
/* "sum", "sgd:lr=0.1,momentum=0.9,nesterov", "adam:lr=1e-3", "adamw:lr=1e-3,
 * weight-decay=0.01". TAUT_EINVAL: the line says what was expected. */
TAUT_API TAUT_NODISCARD taut_status taut_server_update_read(const char *text,
	struct taut_server_update *ret_update, struct taut_error *reterr);

/* --- where parts live --------------------------------------------------------------- */
struct taut_server_key {
	const char *name; /* no other key has it */
	enum taut_type type;
	uint64_t count;   /* elements, at least 1 */
};
struct taut_server_part {
	uint32_t key;          /* index of the caller's array */
	uint32_t server;
	uint64_t first, count; /* elements of the key */
};
/* Keys in the order of their names are cut into parts of part_bytes (the last has
 * the rest); parts, the largest first and else in that order, go to the server with
 * the fewest bytes, of equal ones the first. So no server has more than one part
 * more than another, and the order of declaration does not matter. *ret_parts, in
 * the order of names, is the caller's to free(). TAUT_EINVAL: a name twice, an empty
 * key, more than 2^20 parts; TAUT_ENOMEM. */
TAUT_API TAUT_NODISCARD taut_status taut_server_place(
	const struct taut_server_key *keys, size_t n_keys, uint64_t part_bytes,
	uint32_t n_servers, struct taut_server_part **ret_parts,
	size_t *ret_n_parts, struct taut_error *reterr);

/* --- a server ---------------------------------------------------------------------------
 * Threads: run() on one; stop() on any, also in a handler of signals. One more is
 *          made, which lets workers in. Both sleep while nothing moves. */
struct taut_server;

/* What the servers of a job are, all of them the same. */
enum taut_server_mode {
	TAUT_SERVER_ANY,          /* of a worker: it does not matter */
	TAUT_SERVER_SUMS,         /* of each round */
	TAUT_SERVER_TRAINS,       /* an optimizer's step at the end of each round */
	TAUT_SERVER_ADDS_ASYNC,   /* each push to the value */
	TAUT_SERVER_TRAINS_ASYNC, /* a step for each push */
	TAUT_SERVER_MODES
};

enum taut_server_on_loss {
	TAUT_SERVER_END,      /* all workers end, with the line that names it */
	TAUT_SERVER_CONTINUE, /* a round is the sum of what the others pushed, and
	                         of what it had pushed before it was gone */
	TAUT_SERVER_RESCALE,  /* the same, multiplied by all / those in the sum: a
	                         mean of all stays a mean of those; float32, float64 */
};

enum taut_server_did {
	TAUT_SERVER_DID_PUSH,   /* the bytes of one worker came */
	TAUT_SERVER_DID_SUM,    /* they were added, or moved the value */
	TAUT_SERVER_DID_UPDATE, /* an optimizer's step at the end of a round */
	TAUT_SERVER_DID_PULL,   /* the value went to one worker */
};
struct taut_server_event {
	enum taut_server_did did;
	uint32_t part;   /* number in the order of taut_server_place() */
	uint32_t worker; /* TAUT_NONE: of no single one */
	uint32_t round;
	uint64_t bytes;
	int64_t start_ns, end_ns; /* monotonic */
};

struct taut_server_options { /* zero is every other field's default */
	const char *listen;     /* HOST:PORT */
	const char *secret;     /* NULL: $TAUT_SECRET */
	uint32_t n_workers;     /* at least 1, at most 4096 */
	uint32_t index, n_servers; /* n_servers 0: 1 */
	struct taut_server_update update;
	bool unordered;         /* synchronous: summed as pushes come, and not in
	                           the order of the workers */
	bool apart;             /* no memory is shared with workers of its host */
	bool async;
	bool bounded;           /* asynchronous: a pull waits until no worker has
	                           pushed a part more than `staleness` times less
	                           often than the one that pulls */
	uint32_t staleness;
	enum taut_server_on_loss on_loss;
	uint64_t memory_bytes;  /* of values, sums, state, and what is noted of
	                           each worker and part; what needs more is
	                           refused. 0: no limit */
	uint64_t landing_bytes; /* of pushes that came and are not summed; 0: 256
	                           MiB. One part per server may exceed it, and 8 MiB
	                           of each worker are ahead of them */
	int64_t meet_within_ns; /* all workers; 0: 60 s */
	int64_t lost_after_ns;  /* a worker that says nothing; 0: 10 s */
	/* Called from run(); NULL: not. */
	void (*event)(void *context, const struct taut_server_event *event);
	void *context;
};

/* Listens when it returns. TAUT_EINVAL, TAUT_ENOMEM; TAUT_EIO: it cannot. */
TAUT_API TAUT_NODISCARD taut_status taut_server_create(
	const struct taut_server_options *options,
	struct taut_server **ret_server, struct taut_error *reterr);
/* Serves until all workers have come and left. TAUT_EIO, TAUT_EMATCH: it ended
 * before, and the line says why; TAUT_EAGAIN: stopped. Once. */
TAUT_API TAUT_NODISCARD taut_status taut_server_run(
	struct taut_server *server, struct taut_error *reterr);
TAUT_API void taut_server_stop(struct taut_server *server);
/* Not while run() is under way. NULL is fine. */
TAUT_API void taut_server_destroy(struct taut_server *server);

struct taut_server_counts {
	uint32_t workers, lost;      /* that came; of them those that were lost */
	uint32_t keys_parts;         /* parts that live here */
	uint64_t state_bytes;        /* of values, sums, optimizer */
	uint64_t pushes, pulls, rounds; /* of parts; rounds: updates of a value */
	uint64_t pushed_bytes, pulled_bytes;
	uint64_t most_landing_bytes; /* at one time */
	uint64_t refused;            /* connections that were let in by nobody */
	uint64_t sleeps;
};
TAUT_API void taut_server_counts(const struct taut_server *server,
	struct taut_server_counts *ret_counts);
/* TAUT_EIO: a worker of its host shares no memory with it, as there was none to be had,
 * so that all goes over the network; the line says why of the first. TAUT_OK: all that
 * came share it, or with `apart` none. Not while run() is under way. */
TAUT_API TAUT_NODISCARD taut_status taut_server_unshared(
	const struct taut_server *server, struct taut_error *reterr);

/* --- a worker ---------------------------------------------------------------------------
 * Owner:   memory that is handed to start() is the worker's until the key is done;
 *          after a failure, until leave().
 * Threads: any, all at once, but leave(). One more is made; it sleeps while
 *          nothing moves.
 * Errors:  the first failure ends all: every later call gives it. In the child of
 *          a fork(), always TAUT_EIO; leave() does nothing there. */
struct taut_server_worker;

struct taut_server_worker_options { /* zero is every other field's default */
	uint32_t worker, n_workers; /* n_workers 0: 1 */
	const char *servers;    /* HOST:PORT,HOST:PORT: the same list for all */
	const char *secret;     /* NULL: $TAUT_SECRET */
	uint64_t part_bytes;    /* the same on all workers; 0: 256 KiB */
	uint64_t credit_bytes;  /* of pushes under way at a time; 0: no limit */
	int64_t meet_within_ns; /* 0: 60 s */
	int64_t lost_after_ns;  /* a server that says nothing; 0: 10 s */
	enum taut_server_mode mode; /* that the servers must have */
	bool listening;         /* all servers do already: one at whose place nobody
	                           listens is gone, and is not waited for */
};

/* Returns when all servers took it in; they may wait for other workers then.
 * TAUT_EIO, TAUT_EMATCH as taut_comm_create(); TAUT_EMATCH: a server is not of this
 * mode, or of another one than the first. */
TAUT_API TAUT_NODISCARD taut_status taut_server_join(
	const struct taut_server_worker_options *options,
	struct taut_server_worker **ret_worker, struct taut_error *reterr);
/* The same names, types, counts on all workers, in any order, before the first
 * start(): what does not match ends with TAUT_EMATCH. The least priority goes first.
 * What is pushed is multiplied by factor before it goes, in place; 1 and 0: as it
 * is. float32 and float64; others have none. */
TAUT_API TAUT_NODISCARD taut_status taut_server_declare(
	struct taut_server_worker *worker, const struct taut_server_key *key,
	int64_t priority, double factor, uint32_t *ret_key,
	struct taut_error *reterr);

enum taut_server_verb {
	TAUT_SERVER_PUSH_PULL, /* one round: in place, done when data has the
	                          result */
	TAUT_SERVER_PUSH,      /* done when data may be written again. The next of
	                          the key is a PULL */
	TAUT_SERVER_PULL,      /* the result of the round that this worker pushed
	                          last, or a later one */
	TAUT_SERVER_FIRST,     /* before all else, on all workers: the value is what
	                          worker 0 has, and all have it when it is done.
	                          An optimizer needs it */
};
/* Of what this worker starts from now on: another priority of a key; another credit,
 * 0: no limit. Parts stay as they are. TAUT_EINVAL: something is under way, or there is
 * no such key: nothing else ends. */
TAUT_API TAUT_NODISCARD taut_status taut_server_prioritize(
	struct taut_server_worker *worker, uint32_t key, int64_t priority,
	struct taut_error *reterr);
TAUT_API TAUT_NODISCARD taut_status taut_server_tune(
	struct taut_server_worker *worker, uint64_t credit_bytes,
	struct taut_error *reterr);
/* That of the servers; never ANY. */
TAUT_API enum taut_server_mode taut_server_mode_of(
	const struct taut_server_worker *worker);

/* Begins. data: NULL: where it was last time. TAUT_EINVAL: the key is under way,
 * there is none, no data, or it was pushed and not pulled: nothing else ends. */
TAUT_API TAUT_NODISCARD taut_status taut_server_start(
	struct taut_server_worker *worker, uint32_t key,
	enum taut_server_verb verb, void *data, struct taut_error *reterr);
/* Until the key (TAUT_NONE: all) is done; as taut_sync_wait(). */
TAUT_API TAUT_NODISCARD taut_status taut_server_wait(
	struct taut_server_worker *worker, uint32_t key, int64_t timeout_ns,
	struct taut_error *reterr);
/* As taut_sync_next(). */
TAUT_API TAUT_NODISCARD taut_status taut_server_next(
	struct taut_server_worker *worker, int64_t timeout_ns,
	uint32_t *ret_key, struct taut_error *reterr);
/* How many workers' pushes are in what was pulled last: of its parts the least. */
TAUT_API uint32_t taut_server_contributors(
	struct taut_server_worker *worker, uint32_t key);
/* This worker cannot go on; the servers are told, and treat it as lost. */
TAUT_API void taut_server_fail(struct taut_server_worker *worker,
	taut_status status, const char *why);
/* In peace when nothing is under way; else as lost. NULL is fine. */
TAUT_API void taut_server_leave(struct taut_server_worker *worker);

struct taut_server_worker_counts { /* since it joined */
	struct taut_sched_counts sched;
	uint64_t pushed_bytes, pulled_bytes; /* without the asking, 16 bytes each */
	int64_t busy_ns;   /* in which a part was under way */
	int64_t waited_ns; /* that callers spent in taut_server_wait() */
	uint64_t sleeps;   /* of the thread */
};
TAUT_API void taut_server_worker_counts(struct taut_server_worker *worker,
	struct taut_server_worker_counts *ret_counts);

TAUT_END_DECLS
#endif /* TAUT_SERVER_H */

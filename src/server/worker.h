/* worker.h - what the files of a worker share; see taut/server.h and server.h.
 *
 *     worker.c        what callers ask for, and wait for
 *     worker_join.c   to the servers, and away from them
 *     worker_loop.c   the thread: links, engines, parts on their way
 *
 * Callers make keys ready in the scheduler, which hands parts to a queue; the thread
 * carries them out, and tells the scheduler. Nothing but the queue and what is said
 * to be done is shared. */
#ifndef TAUT_SERVER_WORKER_H
#define TAUT_SERVER_WORKER_H

#include <poll.h>
#include <pthread.h>

#include "coll/meet.h"
#include "server/server.h"

struct tauti_trip; /* of one part, there and back */

struct tauti_trip_request {
	struct taut_coll_request request; /* first */
	struct tauti_trip *trip;
};

struct tauti_server_link {
	struct tauti_link link;
	struct tauti_engine engine; /* table NULL: none */
	uint32_t n_asked;           /* numbers of asks */
	bool has_left;              /* it said goodbye */
	char name[288];             /* HOST:PORT */
};

/* A part of a key. It is on its way while `pending` is not 0. */
struct tauti_trip {
	struct taut_server_part place;
	enum taut_type type;
	uint64_t hash, number;      /* number: of the scheduler's piece */
	struct tauti_server_link *server;
	struct tauti_trip *next;    /* of those that ended */
	struct taut_server_worker *worker;
	struct tauti_trip_request requests[4]; /* ask, push, answer, data */
	uint32_t part, pushed, pending, contributors;
	bool pulls;
	taut_status status;
	uint8_t ask[TAUTI_ASK_BYTES], answer[TAUTI_ANSWER_BYTES];
};

struct tauti_worker_key {
	struct taut_server_key key; /* name: its own */
	int64_t priority;
	double factor;
	uint8_t *data;
	enum taut_server_verb verb;
	uint32_t n_parts, n_left;   /* n_left: parts of it under way */
	uint32_t contributors;
	bool is_queued;             /* for next() */
};

struct taut_server_worker {
	uint32_t worker, n_workers, n_servers;
	uint64_t part_bytes;
	int64_t lost_after_ns;
	struct tauti_server_link *servers;
	struct pollfd *polls;      /* 2 a server, and one */
	struct taut_sched *sched;  /* of parts */
	struct tauti_trip *trips;  /* by part; set by the first start() */
	size_t n_trips;
	struct tauti_trip *ended, **ended_at;
	uint32_t n_under_way;
	int64_t beat_ns, busy_from_ns;

	pthread_t thread;
	bool has_thread;
	int wake_fd;
	pthread_mutex_t mutex;  /* of all below */
	pthread_cond_t done;
	struct tauti_worker_key *keys;
	size_t n_keys, keys_room;
	struct taut_sched_piece *queue; /* ring of n_trips */
	size_t queue_from, queue_count;
	uint32_t *finished;     /* keys for next(), ring of n_keys */
	size_t finished_from, finished_count;
	uint32_t n_busy;        /* keys under way */
	bool is_open, leaves;
	struct taut_error fault;
	struct taut_error own;  /* of taut_server_fail(): for the thread to tell */
	struct taut_server_worker_counts counts;
};

/* worker.c */
void tauti_worker_wake(struct taut_server_worker *worker);
/* The first fault counts; wakes all who wait. Any thread, no lock held. */
void tauti_worker_fail(struct taut_server_worker *worker,
	const struct taut_error *why);
taut_status tauti_worker_fault(
	struct taut_server_worker *worker, struct taut_error *reterr);

/* worker_join.c */
TAUT_NODISCARD taut_status tauti_worker_connect(
	struct taut_server_worker *worker,
	const struct taut_server_worker_options *options,
	struct taut_error *reterr);
void tauti_worker_disconnect(struct taut_server_worker *worker);
/* Parts, their places, and what each server is told of them; under the mutex. */
TAUT_NODISCARD taut_status tauti_worker_open(
	struct taut_server_worker *worker, struct taut_error *reterr);

/* worker_loop.c: the thread. */
void *tauti_worker_loop(void *worker);

#endif /* TAUT_SERVER_WORKER_H */

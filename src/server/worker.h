/* worker.h - what the files of a worker share; see taut/server.h and server.h.
 *
 *     worker.c        what callers ask for, and wait for
 *     worker_join.c   to the servers, and away from them
 *     worker_loop.c   the thread: links, engines, parts on their way
 *
 * Callers make keys ready in the scheduler, which hands parts to a queue; the thread
 * carries them out, and tells the scheduler. Nothing but the queue and what is said
 * to be done is shared.
 *
 * A part is two tasks of the scheduler, the push and the pull after it. What a worker
 * has pushed waits for the pushes of others, which may be about other parts: if it
 * held its credit meanwhile, and so did they, all would wait for ever. A push waits
 * for no credit but its own worker's, so it counts; a pull counts one byte, and the
 * credit is more than all of them. */
#ifndef TAUT_SERVER_WORKER_H
#define TAUT_SERVER_WORKER_H

#include <poll.h>
#include <pthread.h>

#include "base/origin.h"
#include "coll/meet.h"
#include "server/server.h"

struct tauti_half;

struct tauti_trip_request {
	struct taut_coll_request request; /* first */
	struct tauti_half *half;
};

/* The push of a part, or the pull. */
struct tauti_half {
	struct tauti_half *next;    /* of those that ended */
	struct tauti_trip *trip;
	struct tauti_trip_request requests[2]; /* ask and push; answer and data */
	uint64_t number;            /* of the scheduler's piece */
	uint32_t pending;
	taut_status status;
	bool is_started, is_over;   /* by the scheduler; on the wire */
};

struct tauti_server_link {
	struct taut_coll_request board_request; /* first */
	struct tauti_link link;
	struct tauti_engine engine; /* table NULL: none */
	uint32_t n_asked;           /* numbers of asks */
	size_t ahead_bytes;         /* of pushes that have gone before their GO came */
	bool has_left;              /* it said goodbye */
	bool near;                  /* it tells of a board before the first push */
	bool board_came;            /* the words did */
	size_t board_bytes;         /* of all parts there */
	uint8_t board_words[TAUTI_BOARD_BYTES];
	struct tauti_board board;   /* base NULL: all goes over the engine */
	char name[288];             /* HOST:PORT */
};

/* A part of a key, there and back. Tasks 2 part and 2 part + 1 of the scheduler. */
struct tauti_trip {
	struct taut_coll_request go_request; /* first */
	struct tauti_trip *next; /* of those whose GO has come */
	struct taut_server_part place;
	enum taut_type type;
	uint64_t hash;
	size_t at;             /* on the server's board */
	struct tauti_server_link *server;
	struct taut_server_worker *worker;
	struct tauti_half halves[2];
	uint32_t part, pushed, contributors;
	bool pulls, goes; /* goes: the push has begun */
	taut_status go_status;
	uint8_t ask[TAUTI_ASK_BYTES], go[TAUTI_ANSWER_BYTES], answer[TAUTI_ANSWER_BYTES];
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
	bool is_pushed;             /* alone: it is to be pulled next */
};

struct taut_server_worker {
	uint32_t worker, n_workers, n_servers;
	uint64_t part_bytes, credit_bytes;
	enum taut_server_mode mode; /* of the servers */
	enum tauti_want want;
	int64_t lost_after_ns, beat_every_ns; /* as the least patient server needs it */
	struct tauti_server_link *servers;
	struct pollfd *polls;      /* 2 a server, and one */
	struct taut_sched *sched;  /* set by the first start(), as what follows */
	struct tauti_trip *trips;  /* by part */
	size_t n_trips;
	struct tauti_half *ended, **ended_at;
	struct tauti_trip *may_go, **may_go_at; /* whose push is asked for */
	uint32_t n_under_way;
	int64_t beat_ns, busy_from_ns;

	struct tauti_origin origin;
	pthread_t thread;
	bool has_thread;
	int wake_fd;
	pthread_mutex_t mutex;  /* of all below */
	pthread_cond_t done;
	struct tauti_worker_key *keys;
	size_t n_keys, keys_room;
	struct taut_sched_piece *queue; /* ring of 2 n_trips */
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
extern const struct taut_sched_engine tauti_worker_sched_engine;
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
/* The least credit is more than all pulls; 0: no limit. */
uint64_t tauti_worker_credit(const struct taut_server_worker *worker);
/* Parts, their places, and what each server is told of them; under the mutex. */
TAUT_NODISCARD taut_status tauti_worker_open(
	struct taut_server_worker *worker, struct taut_error *reterr);

/* A part of what a half has under way is over; inside an engine, too. */
void tauti_half_done(struct tauti_half *half, taut_status status);

/* worker_loop.c: the thread. */
void *tauti_worker_loop(void *worker);

#endif /* TAUT_SERVER_WORKER_H */

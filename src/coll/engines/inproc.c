/* inproc.c - an engine for ranks that are threads of one process: the simplest
 * one, which the others are tested against.
 *
 * A message waits at its receiver until that asks for it; who comes second copies,
 * or reduces, under the one lock. So a send is over when all its peers have taken
 * it, and nothing is ever copied twice. What is over waits until its rank calls:
 * done() is called by nobody else.
 *
 * Threads: one a rank; wake() from any.
 * Owner:   the world goes with the last of its engines. */
#include "coll/coll.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One that was begun, from begin to done(): the first thing of a receive, or of a
 * send, with which it is freed. */
struct job {
	struct taut_coll_request *request;
	taut_status status;
	uint32_t n_left; /* of a send: peers that did not take it */
	struct job *next; /* of those over */
};

struct message { /* at its receiver */
	struct message *next;
	struct job *job;
	uint32_t from;
	uint64_t tag;
	const void *data;
	size_t bytes;
};

struct receive {
	struct job job; /* first */
	struct receive *next;
	uint32_t from;
	uint64_t tag;
	size_t bytes;
	void *into;
	const void *operand; /* NULL: only copied */
	enum taut_type type;
	enum taut_reduction reduction;
};

struct send {
	struct job job; /* first */
	struct message messages[];
};

struct world;

struct rank {
	struct world *world;
	uint32_t id;
	bool gone;
	bool woken; /* since it slept last */
	bool news;  /* since it progressed last */
	uint32_t lost;             /* whose end this one felt; TAUT_NONE */
	struct message *messages;  /* lists, in the order in which they came */
	struct receive *receives;
	struct job *over, **last_over;
	pthread_cond_t told;
};

struct world {
	pthread_mutex_t lock; /* of all of it */
	uint32_t n_ranks, n_left;
	struct rank ranks[];
};

/* --- what is over ----------------------------------------------------------------------*/

static void tell(struct rank *rank)
{
	rank->news = true;
	pthread_cond_signal(&rank->told);
}

static void end_job(struct rank *rank, struct job *job)
{
	job->next = NULL;
	*rank->last_over = job;
	rank->last_over = &job->next;
	tell(rank);
}

/* One of its peers has it. */
static void end_message(struct world *world, struct message *message)
{
	if (--message->job->n_left == 0)
		end_job(&world->ranks[message->from], message->job);
}

/* Or never will. */
static void lose_message(
	struct world *world, struct message *message, uint32_t lost)
{
	message->job->status = TAUT_EIO;
	world->ranks[message->from].lost = lost;
	end_message(world, message);
}

/* Whose end is to be told when this rank is gone. */
static uint32_t blamed(const struct rank *rank)
{
	return rank->lost == TAUT_NONE ? rank->id : rank->lost;
}

static void end_receive(
	struct rank *rank, struct receive *receive, taut_status status)
{
	receive->job.status = status;
	end_job(rank, &receive->job);
}

/* --- where they meet -------------------------------------------------------------------*/

static void deliver(struct rank *rank, struct receive *receive,
	struct message *message)
{
	taut_status status = TAUT_OK;

	if (receive->bytes != message->bytes)
		status = TAUT_EMATCH;
	else if (receive->operand)
		taut_reduce(receive->type, receive->reduction, receive->into,
			receive->operand, message->data,
			receive->bytes / taut_type_bytes(receive->type));
	else if (receive->bytes)
		memcpy(receive->into, message->data, receive->bytes);
	end_receive(rank, receive, status);
	end_message(rank->world, message);
}

static void put_message(struct rank *to, struct message *message)
{
	struct receive **at = &to->receives, *receive;
	struct message **end = &to->messages;

	while (*at && ((*at)->from != message->from ||
		(*at)->tag != message->tag))
		at = &(*at)->next;
	receive = *at;
	if (receive) {
		*at = receive->next;
		deliver(to, receive, message);
		return;
	}
	while (*end)
		end = &(*end)->next;
	message->next = NULL;
	*end = message;
	tell(to);
}

static void put_receive(struct rank *rank, struct receive *receive)
{
	struct message **at = &rank->messages, *message;
	struct receive **end = &rank->receives;

	while (*at && ((*at)->from != receive->from ||
		(*at)->tag != receive->tag))
		at = &(*at)->next;
	message = *at;
	if (message) {
		*at = message->next;
		deliver(rank, receive, message);
		return;
	}
	while (*end)
		end = &(*end)->next;
	receive->next = NULL;
	*end = receive;
	if (rank->world->ranks[receive->from].gone)
		tell(rank); /* for progress() to see: nothing else will come */
}

/* --- send and receive ------------------------------------------------------------------*/

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "engine inproc: out of memory");
}

static taut_status inproc_send(void *engine, const uint32_t *peers,
	uint32_t n_peers, uint64_t tag, const void *data, size_t bytes,
	struct taut_coll_request *request, struct taut_error *err)
{
	struct rank *rank = engine;
	struct world *world = rank->world;
	struct send *send = calloc(
		1, sizeof *send + n_peers * sizeof *send->messages);

	if (!send)
		return no_memory(err);
	send->job.request = request;
	send->job.n_left = n_peers;
	pthread_mutex_lock(&world->lock);
	for (uint32_t i = 0; i < n_peers; i++) {
		struct message *message = &send->messages[i];

		*message = (struct message){ .job = &send->job,
			.from = rank->id, .tag = tag, .data = data,
			.bytes = bytes };
		if (world->ranks[peers[i]].gone)
			lose_message(world, message,
				blamed(&world->ranks[peers[i]]));
		else
			put_message(&world->ranks[peers[i]], message);
	}
	pthread_mutex_unlock(&world->lock);
	return TAUT_OK;
}

static taut_status begin_receive(struct rank *rank,
	const struct receive *asked, struct taut_error *err)
{
	struct receive *receive = malloc(sizeof *receive);

	if (!receive)
		return no_memory(err);
	*receive = *asked;
	pthread_mutex_lock(&rank->world->lock);
	put_receive(rank, receive);
	pthread_mutex_unlock(&rank->world->lock);
	return TAUT_OK;
}

static taut_status inproc_recv(void *engine, uint32_t peer, uint64_t tag,
	void *data, size_t bytes, struct taut_coll_request *request,
	struct taut_error *err)
{
	const struct receive receive = { .job = { .request = request },
		.from = peer, .tag = tag, .bytes = bytes, .into = data };

	return begin_receive(engine, &receive, err);
}

static taut_status inproc_recv_reduce(void *engine, uint32_t peer, uint64_t tag,
	enum taut_type type, enum taut_reduction reduction, void *into,
	const void *from, size_t count, struct taut_coll_request *request,
	struct taut_error *err)
{
	const struct receive receive = { .job = { .request = request },
		.from = peer, .tag = tag, .into = into, .operand = from,
		.bytes = count * taut_type_bytes(type), .type = type,
		.reduction = reduction };

	return begin_receive(engine, &receive, err);
}

static bool inproc_arrived(void *engine, uint64_t tag, uint64_t mask)
{
	struct rank *rank = engine;
	const struct message *at;

	pthread_mutex_lock(&rank->world->lock);
	at = rank->messages;
	while (at && ((at->tag ^ tag) & mask))
		at = at->next;
	pthread_mutex_unlock(&rank->world->lock);
	return at != NULL;
}

/* --- moving on -------------------------------------------------------------------------*/

static struct job *take_over(struct rank *rank)
{
	struct job *over = rank->over;

	rank->over = NULL;
	rank->last_over = &rank->over;
	return over;
}

static void call_done(struct job *over)
{
	while (over) {
		struct job *job = over;

		over = job->next;
		job->request->done(job->request, job->status);
		free(job);
	}
}

/* A peer that is gone, and has left nothing for a receive that waits for it. */
static void look_for_gone(struct rank *rank)
{
	const struct rank *ranks = rank->world->ranks;

	for (const struct receive *at = rank->receives; at; at = at->next)
		if (ranks[at->from].gone && rank->lost == TAUT_NONE)
			rank->lost = blamed(&ranks[at->from]);
}

static taut_status inproc_progress(void *engine, struct taut_error *err)
{
	struct rank *rank = engine;
	struct job *over;
	uint32_t lost;

	pthread_mutex_lock(&rank->world->lock);
	rank->news = false;
	over = take_over(rank);
	look_for_gone(rank);
	lost = rank->lost;
	pthread_mutex_unlock(&rank->world->lock);
	call_done(over);
	if (lost == TAUT_NONE)
		return TAUT_OK;
	return taut_error_set(
		err, TAUT_EIO, -1, "rank %" PRIu32 " is gone", lost);
}

static void set_end(struct timespec *end, int64_t timeout_ns)
{
	enum { NS = 1000 * 1000 * 1000 };

	clock_gettime(CLOCK_MONOTONIC, end);
	end->tv_sec += timeout_ns / NS;
	end->tv_nsec += timeout_ns % NS;
	if (end->tv_nsec >= NS) {
		end->tv_nsec -= NS;
		end->tv_sec++;
	}
}

/* Whatever comes tells, also a message that nobody here asks for yet: some caller
 * may wait for arrived(). */
static taut_status inproc_wait(
	void *engine, int64_t timeout_ns, struct taut_error *err)
{
	struct rank *rank = engine;
	struct world *world = rank->world;
	struct timespec end;

	(void)err;
	pthread_mutex_lock(&world->lock);
	if (!rank->woken && !rank->news) {
		if (timeout_ns < 0) {
			pthread_cond_wait(&rank->told, &world->lock);
		} else {
			set_end(&end, timeout_ns);
			pthread_cond_timedwait(
				&rank->told, &world->lock, &end);
		}
	}
	rank->woken = false;
	pthread_mutex_unlock(&world->lock);
	return TAUT_OK;
}

static void inproc_wake(void *engine)
{
	struct rank *rank = engine;

	pthread_mutex_lock(&rank->world->lock);
	rank->woken = true;
	pthread_cond_signal(&rank->told);
	pthread_mutex_unlock(&rank->world->lock);
}

/* --- life ------------------------------------------------------------------------------*/

static void free_world(struct world *world, uint32_t n_made)
{
	for (uint32_t i = 0; i < n_made; i++)
		pthread_cond_destroy(&world->ranks[i].told);
	pthread_mutex_destroy(&world->lock);
	free(world);
}

/* What this rank sent, and a peer did not take. */
static void take_back(struct rank *rank, struct rank *peer)
{
	struct message **at = &peer->messages;

	while (*at) {
		struct message *message = *at;

		if (message->from != rank->id) {
			at = &message->next;
			continue;
		}
		*at = message->next;
		lose_message(rank->world, message, rank->lost);
	}
}

static void end_all(struct rank *rank)
{
	struct world *world = rank->world;

	for (uint32_t i = 0; i < world->n_ranks; i++)
		if (i != rank->id)
			take_back(rank, &world->ranks[i]);
	while (rank->receives) {
		struct receive *receive = rank->receives;

		rank->receives = receive->next;
		end_receive(rank, receive, TAUT_EIO);
	}
	while (rank->messages) {
		struct message *message = rank->messages;

		rank->messages = message->next;
		lose_message(world, message, blamed(rank));
	}
}

static void inproc_destroy(void *engine)
{
	struct rank *rank = engine;
	struct world *world = rank->world;
	struct job *over;
	bool last;

	pthread_mutex_lock(&world->lock);
	rank->gone = true;
	end_all(rank);
	over = take_over(rank);
	for (uint32_t i = 0; i < world->n_ranks; i++)
		tell(&world->ranks[i]);
	last = --world->n_left == 0;
	pthread_mutex_unlock(&world->lock);
	call_done(over);
	if (last)
		free_world(world, world->n_ranks);
}

static const struct taut_coll_engine inproc = {
	.name = "inproc",
	.send = inproc_send,
	.recv = inproc_recv,
	.recv_reduce = inproc_recv_reduce,
	.progress = inproc_progress,
	.wait = inproc_wait,
	.wake = inproc_wake,
	.arrived = inproc_arrived,
	.destroy = inproc_destroy,
};

static void init_rank(struct world *world, uint32_t id)
{
	struct rank *rank = &world->ranks[id];
	pthread_condattr_t monotonic;

	rank->world = world;
	rank->id = id;
	rank->lost = TAUT_NONE;
	rank->last_over = &rank->over;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&rank->told, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

taut_status tauti_inproc_create(uint32_t n_ranks,
	struct tauti_engine *ret_engines, struct taut_error *reterr)
{
	struct world *world = calloc(
		1, sizeof *world + n_ranks * sizeof *world->ranks);

	if (!world)
		return no_memory(reterr);
	pthread_mutex_init(&world->lock, NULL);
	world->n_ranks = world->n_left = n_ranks;
	for (uint32_t i = 0; i < n_ranks; i++) {
		init_rank(world, i);
		ret_engines[i] = (struct tauti_engine){
			&inproc, &world->ranks[i] };
	}
	return TAUT_OK;
}

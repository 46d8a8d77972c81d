/* shm_ranks.h - for tests of shared memory: its ranks as threads or processes, and
 * operations that count how often they end. */
#ifndef TAUT_COLL_ENGINES_SHM_RANKS_H
#define TAUT_COLL_ENGINES_SHM_RANKS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "coll/engines/shm.h"
#include "tests/support/gather.h"
#include "tests/support/ranks.h"

enum { BIG = TAUTI_SHM_SLOT_BYTES, SHORT = TAUTI_SHM_SHORT_BYTES };

struct event { /* one operation */
	struct taut_coll_request request;
	int n_done;
	taut_status status;
};

static inline void note(struct taut_coll_request *request, taut_status status)
{
	struct event *it = (struct event *)request;

	it->n_done++;
	it->status = status;
}

struct job;

struct rank {
	struct job *job;
	uint32_t rank;
	struct tauti_engine engine;
	taut_status status; /* of creation */
	struct taut_error err;
};

struct job {
	struct gather *gather;
	uint32_t n_ranks;
	const uint32_t *host_of;
	void (*work)(struct rank *rank);
	struct rank ranks[GATHER_RANKS];
};

static inline void run_rank(struct rank *it)
{
	struct gather_rank me = { it->job->gather, it->rank };
	struct tauti_shm_world world = { it->rank, it->job->n_ranks,
		it->job->host_of, gather_all, &me,
		tauti_cores_enough_here(it->job->n_ranks) };

	it->status = tauti_shm_create_by(&world, &it->engine, &it->err);
	if (it->status == TAUT_OK && it->job->work)
		it->job->work(it);
}

static inline void *run_one(void *context)
{
	const struct ranks_one *one = context;
	struct job *job = one->shared;

	run_rank(&job->ranks[one->rank]);
	return NULL;
}

static inline void begin(struct job *job, uint32_t n_ranks, const uint32_t *host_of,
	void (*work)(struct rank *rank))
{
	static const uint32_t one_host[GATHER_RANKS];

	*job = (struct job){ .gather = gather_create(n_ranks),
		.n_ranks = n_ranks, .work = work,
		.host_of = host_of ? host_of : one_host };
	assert_non_null(job->gather);
	for (uint32_t i = 0; i < n_ranks; i++)
		job->ranks[i] = (struct rank){ .job = job, .rank = i };
}

static inline void run_threads(struct job *job)
{
	struct ranks_one ones[GATHER_RANKS];

	ranks_start(ones, 0, job->n_ranks, run_one, job);
	ranks_join(ones, 0, job->n_ranks);
}

static inline void end(struct job *job)
{
	for (uint32_t i = 0; i < job->n_ranks; i++)
		if (job->ranks[i].engine.table)
			job->ranks[i].engine.table->destroy(
				job->ranks[i].engine.context);
	gather_destroy(job->gather);
}

/* Engines of ranks of one host, all of which this thread plays. */
static inline void make(struct job *job, uint32_t n_ranks)
{
	begin(job, n_ranks, NULL, NULL);
	run_threads(job);
	for (uint32_t i = 0; i < n_ranks; i++)
		assert_int_equal(job->ranks[i].status, TAUT_OK);
}

static inline struct tauti_shm *engine_of(struct job *job, uint32_t rank)
{
	return job->ranks[rank].engine.context;
}

static inline taut_status send_one(struct rank *from, uint32_t to, uint64_t tag,
	const void *data, size_t bytes, struct event *event)
{
	*event = (struct event){ .request.done = note };
	return from->engine.table->send(from->engine.context, &to, 1, tag, data,
		bytes, &event->request, &from->err);
}

static inline taut_status recv_one(struct rank *to, uint32_t from, uint64_t tag,
	void *data, size_t bytes, struct event *event)
{
	*event = (struct event){ .request.done = note };
	return to->engine.table->recv(to->engine.context, from, tag, data,
		bytes, &event->request, &to->err);
}

static inline taut_status progress(struct rank *rank)
{
	return rank->engine.table->progress(rank->engine.context, &rank->err);
}

static inline void expect(const struct event *event, int n_done, taut_status status)
{
	assert_int_equal(event->n_done, n_done);
	if (n_done)
		assert_int_equal(event->status, status);
}

/* Until it is over; sleeps meanwhile. */
static inline void until(struct rank *rank, const struct event *event)
{
	while (!event->n_done) {
		if (progress(rank) != TAUT_OK)
			abort();
		if (!event->n_done && rank->engine.table->wait(
				rank->engine.context, -1, &rank->err) != TAUT_OK)
			abort();
	}
}

#endif /* TAUT_COLL_ENGINES_SHM_RANKS_H */

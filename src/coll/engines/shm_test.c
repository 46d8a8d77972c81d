/* Ranks in threads and in processes, over memory that they share. What the engine
 * must do as any other engine is in the contract; here is what is its own: slots
 * and FIFOs that are full, nonsense in the memory, processes that are killed. */
#include "tests/support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coll/engines/shm.h"
#include "tests/support/alloc_fail.h"
#include "tests/support/gather.h"

enum { BIG = TAUTI_SHM_SLOT_BYTES, SHORT = TAUTI_SHM_SHORT_BYTES };

/* --- ranks -------------------------------------------------------------------------*/

struct event { /* one operation */
	struct taut_coll_request request;
	int n_done;
	taut_status status;
};

static void note(struct taut_coll_request *request, taut_status status)
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

static void *run_rank(void *context)
{
	struct rank *it = context;
	struct gather_rank me = { it->job->gather, it->rank };
	struct tauti_shm_world world = { it->rank, it->job->n_ranks,
		it->job->host_of, gather_all, &me };

	it->status = tauti_shm_create_by(&world, &it->engine, &it->err);
	if (it->status == TAUT_OK && it->job->work)
		it->job->work(it);
	return NULL;
}

static void begin(struct job *job, uint32_t n_ranks, const uint32_t *host_of,
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

static void run_threads(struct job *job)
{
	pthread_t threads[GATHER_RANKS];

	for (uint32_t i = 0; i < job->n_ranks; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_rank,
			&job->ranks[i]), 0);
	for (uint32_t i = 0; i < job->n_ranks; i++)
		pthread_join(threads[i], NULL);
}

static void end(struct job *job)
{
	for (uint32_t i = 0; i < job->n_ranks; i++)
		if (job->ranks[i].engine.table)
			job->ranks[i].engine.table->destroy(
				job->ranks[i].engine.context);
	gather_destroy(job->gather);
}

/* Engines of ranks of one host, all of which this thread plays. */
static void make(struct job *job, uint32_t n_ranks)
{
	begin(job, n_ranks, NULL, NULL);
	run_threads(job);
	for (uint32_t i = 0; i < n_ranks; i++)
		assert_int_equal(job->ranks[i].status, TAUT_OK);
}

static struct tauti_shm *engine_of(struct job *job, uint32_t rank)
{
	return job->ranks[rank].engine.context;
}

static taut_status send_one(struct rank *from, uint32_t to, uint64_t tag,
	const void *data, size_t bytes, struct event *event)
{
	*event = (struct event){ .request.done = note };
	return from->engine.table->send(from->engine.context, &to, 1, tag, data,
		bytes, &event->request, &from->err);
}

static taut_status recv_one(struct rank *to, uint32_t from, uint64_t tag,
	void *data, size_t bytes, struct event *event)
{
	*event = (struct event){ .request.done = note };
	return to->engine.table->recv(to->engine.context, from, tag, data,
		bytes, &event->request, &to->err);
}

static taut_status progress(struct rank *rank)
{
	return rank->engine.table->progress(rank->engine.context, &rank->err);
}

static void expect(const struct event *event, int n_done, taut_status status)
{
	assert_int_equal(event->n_done, n_done);
	if (n_done)
		assert_int_equal(event->status, status);
}

static void fill(unsigned char *data, size_t bytes, uint32_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		data[i] = (unsigned char)((i * 31 + seed * 17) >> 2);
}

static unsigned char *filled(size_t bytes, uint32_t seed)
{
	unsigned char *data = malloc(bytes + 1);

	assert_non_null(data);
	fill(data, bytes, seed);
	return data;
}

/* --- all sizes ----------------------------------------------------------------------*/

/* Around each size at which a message goes another way, and so often that the FIFO
 * goes round many times and ends at each of its lines. */
static void test_sizes(void **state)
{
	static const size_t sizes[] = { 0, 1, 4, 39, 40, 41, 103, 104, 105,
		SHORT - 1, SHORT, SHORT + 1, 4096, 65537, BIG - 1, BIG };
	struct job job;
	struct event sent, got;
	unsigned char *to = malloc(BIG);

	(void)state;
	make(&job, 2);
	for (uint32_t i = 0; i < 4000; i++) {
		size_t bytes = sizes[(i * 7 + i / 100) % (i % 50 ? 12 : 16)];
		unsigned char *from = filled(bytes, i);
		uint32_t way = i % 3 == 0;

		if (i % 2)
			assert_int_equal(recv_one(&job.ranks[!way], way, i, to,
				bytes, &got), TAUT_OK);
		assert_int_equal(send_one(&job.ranks[way], !way, i, from, bytes,
			&sent), TAUT_OK);
		if (i % 2 == 0)
			assert_int_equal(recv_one(&job.ranks[!way], way, i, to,
				bytes, &got), TAUT_OK);
		assert_int_equal(progress(&job.ranks[!way]), TAUT_OK);
		expect(&sent, 1, TAUT_OK);
		expect(&got, 1, TAUT_OK);
		assert_memory_equal(from, to, bytes);
		free(from);
	}
	free(to);
	end(&job);
}

/* --- what is full ---------------------------------------------------------------------*/

enum { MANY = 600 };

/* More than the FIFO holds wait, and go when there is room; in any order. */
static void test_fifo_full(void **state)
{
	static struct event sent[MANY], got[MANY];
	static uint32_t from[MANY], to[MANY];
	struct job job;
	int n_waiting = 0;

	(void)state;
	make(&job, 2);
	for (uint32_t i = 0; i < MANY; i++) {
		from[i] = i * 3;
		assert_int_equal(send_one(&job.ranks[0], 1, i, &from[i], 4,
			&sent[i]), TAUT_OK);
		n_waiting += !sent[i].n_done;
	}
	assert_true(n_waiting > 0);
	assert_int_equal(engine_of(&job, 0)->bell->full, 1);
	for (uint32_t i = MANY; i-- > 0;)
		assert_int_equal(recv_one(&job.ranks[1], 0, i, &to[i], 4,
			&got[i]), TAUT_OK);
	for (int turn = 0; turn < 40; turn++)
		for (uint32_t i = 0; i < 2; i++)
			assert_int_equal(progress(&job.ranks[i]), TAUT_OK);
	for (uint32_t i = 0; i < MANY; i++) {
		expect(&sent[i], 1, TAUT_OK);
		expect(&got[i], 1, TAUT_OK);
	}
	assert_memory_equal(from, to, sizeof from);
	assert_int_equal(engine_of(&job, 0)->bell->full, 0);
	end(&job);
}

/* All slots hold what nobody asks for; a message that somebody asks for overtakes,
 * as its receiver puts the others aside. */
static void test_slots_full(void **state)
{
	enum { N = 3 * TAUTI_SHM_MOST_SLOTS };
	static struct event sent[N], got[N];
	unsigned char *from = filled(BIG + N, 1), *to = malloc(BIG);
	struct job job;

	(void)state;
	make(&job, 3);
	for (uint32_t i = 0; i < N; i++)
		assert_int_equal(send_one(&job.ranks[0], 1 + i % 2, i, from + i,
			BIG, &sent[i]), TAUT_OK);
	expect(&sent[N - 1], 0, TAUT_OK);
	assert_int_equal(recv_one(&job.ranks[1 + (N - 1) % 2], 0, N - 1, to, BIG,
		&got[N - 1]), TAUT_OK);
	for (int turn = 0; turn < 200 && !got[N - 1].n_done; turn++)
		for (uint32_t i = 0; i < 3; i++)
			assert_int_equal(progress(&job.ranks[i]), TAUT_OK);
	expect(&got[N - 1], 1, TAUT_OK);
	assert_memory_equal(to, from + N - 1, BIG);
	for (uint32_t i = 0; i < N - 1; i++) {
		expect(&sent[i], 1, TAUT_OK);
		assert_int_equal(recv_one(&job.ranks[1 + i % 2], 0, i, to, BIG,
			&got[i]), TAUT_OK);
		expect(&got[i], 1, TAUT_OK);
		assert_memory_equal(to, from + i, BIG);
	}
	end(&job);
	free(from);
	free(to);
}

/* One slot for many readers is free when the last has read it. */
static void test_multicast(void **state)
{
	enum { RANKS = 5, TIMES = 4 * TAUTI_SHM_MOST_SLOTS };
	static const uint32_t peers[] = { 4, 1, 3, 2 };
	unsigned char *from = filled(BIG, 2), *to = malloc(BIG);
	struct job job;
	struct rank *root = &job.ranks[0];
	struct event sent, got;

	(void)state;
	make(&job, RANKS);
	for (uint32_t i = 0; i < TIMES; i++) {
		size_t bytes = i % 3 ? BIG - i : 17 + i;

		sent = (struct event){ .request.done = note };
		assert_int_equal(root->engine.table->send(root->engine.context,
			peers, 4, i, from, bytes, &sent.request, NULL), TAUT_OK);
		expect(&sent, 1, TAUT_OK);
		for (uint32_t r = 1; r < RANKS; r++) {
			assert_int_equal(recv_one(&job.ranks[r], 0, i, to, bytes,
				&got), TAUT_OK);
			expect(&got, 1, TAUT_OK);
			assert_memory_equal(from, to, bytes);
		}
	}
	assert_int_equal(engine_of(&job, 0)->n_free +
		engine_of(&job, 0)->n_busy, TAUTI_SHM_MOST_SLOTS);
	end(&job);
	free(from);
	free(to);
}

/* --- nonsense -----------------------------------------------------------------------*/

static void check_broken(struct rank *rank, taut_status status)
{
	char byte = 0;
	struct event event;

	assert_int_equal(progress(rank), status);
	assert_non_null(strstr(rank->err.message, "rank 0"));
	assert_int_equal(send_one(rank, 0, 1, &byte, 1, &event), status);
	assert_int_equal(recv_one(rank, 0, 1, &byte, 1, &event), status);
	expect(&event, 0, TAUT_OK);
	assert_int_equal(rank->engine.table->wait(rank->engine.context, -1,
		&rank->err), status);
}

/* What stands in the FIFO is not what a sender writes. */
static void test_nonsense(void **state)
{
	static const struct { uint64_t sequence; uint32_t bytes, slot; } lines[] = {
		{ 2, 4, TAUTI_SHM_INLINE },         /* another lap's */
		{ UINT64_MAX, 4, TAUTI_SHM_INLINE },
		{ 1, SHORT + 1, TAUTI_SHM_INLINE }, /* longer than there are */
		{ 1, UINT32_MAX, TAUTI_SHM_INLINE },
		{ 1, 4, TAUTI_SHM_SKIP },           /* nothing to skip */
		{ 1, BIG + 1, 0 },
		{ 1, 4, TAUTI_SHM_MOST_SLOTS },
		{ 1, 4, TAUTI_SHM_SKIP - 1 },
	};
	struct job job;
	struct event got;
	char byte;

	(void)state;
	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
		struct tauti_shm_line *line;

		make(&job, 2);
		line = engine_of(&job, 0)->peers[1].out.lines;
		assert_int_equal(recv_one(&job.ranks[1], 0, 9, &byte, 1, &got),
			TAUT_OK);
		line->slot = lines[i].slot;
		line->bytes = lines[i].bytes;
		line->sequence = lines[i].sequence;
		check_broken(&job.ranks[1], TAUT_EFORMAT);
		expect(&got, 1, TAUT_EFORMAT);
		end(&job);
	}
}

/* A reader says that it has read more than was sent. */
static void test_mad_reader(void **state)
{
	struct job job;
	static struct event sent[MANY];

	(void)state;
	make(&job, 2);
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(send_one(&job.ranks[1], 0, i, &i, 4, &sent[i]),
			TAUT_OK);
	tauti_shm_taken(&engine_of(&job, 0)->map.layout,
		engine_of(&job, 0)->map.base, 0, 1)->value = 1 << 20;
	check_broken(&job.ranks[1], TAUT_EIO);
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(sent[i].n_done, 1);
	expect(&sent[MANY - 1], 1, TAUT_EIO);
	end(&job);
}

/* --- what is refused ------------------------------------------------------------------*/

static void test_refused(void **state)
{
	static const uint32_t host_of[] = { 0, 0, 1 };
	struct job job;
	struct event event;
	static char data[BIG + 1];

	(void)state;
	begin(&job, 3, host_of, NULL);
	run_threads(&job);
	assert_int_equal(send_one(&job.ranks[0], 2, 1, data, 1, &event),
		TAUT_EINVAL);
	assert_int_equal(send_one(&job.ranks[0], 0, 1, data, 1, &event),
		TAUT_EINVAL);
	assert_int_equal(recv_one(&job.ranks[0], 3, 1, data, 1, &event),
		TAUT_EINVAL);
	assert_int_equal(recv_one(&job.ranks[2], 0, 1, data, 1, &event),
		TAUT_EINVAL);
	assert_int_equal(send_one(&job.ranks[0], 1, 1, data, BIG + 1, &event),
		TAUT_EINVAL);
	expect(&event, 0, TAUT_OK);
	/* rank 2 is alone: it can be woken, and has nothing else to do */
	assert_null(engine_of(&job, 2)->map.base);
	assert_int_equal(progress(&job.ranks[2]), TAUT_OK);
	job.ranks[2].engine.table->wake(job.ranks[2].engine.context);
	assert_int_equal(job.ranks[2].engine.table->wait(
		job.ranks[2].engine.context, -1, NULL), TAUT_OK);
	end(&job);
}

/* What was asked for is less, or more, than what comes. */
static void test_lengths(void **state)
{
	static const size_t sizes[] = { 8, SHORT + 8 };
	static char from[SHORT + 16], to[SHORT + 16];
	struct job job;
	struct event sent, got;

	(void)state;
	make(&job, 2);
	for (uint64_t i = 0; i < 8; i++) {
		size_t bytes = sizes[i % 2], asked = bytes + (i & 2 ? 4 : -4u);

		if (i & 4)
			assert_int_equal(recv_one(&job.ranks[1], 0, i, to, asked,
				&got), TAUT_OK);
		assert_int_equal(send_one(&job.ranks[0], 1, i, from, bytes,
			&sent), TAUT_OK);
		if (!(i & 4))
			assert_int_equal(recv_one(&job.ranks[1], 0, i, to, asked,
				&got), TAUT_OK);
		assert_int_equal(progress(&job.ranks[1]), TAUT_OK);
		expect(&got, 1, TAUT_EMATCH);
	}
	end(&job);
}

/* What is under way when the engine goes. */
static void test_destroy(void **state)
{
	struct job job;
	static struct event sent[MANY], asked, came;
	char byte = 0;

	(void)state;
	make(&job, 2);
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(send_one(&job.ranks[0], 1, i, &byte, 1, &sent[i]),
			TAUT_OK);
	assert_int_equal(send_one(&job.ranks[1], 0, 1, &byte, 1, &came), TAUT_OK);
	assert_int_equal(recv_one(&job.ranks[0], 1, 2, &byte, 1, &asked), TAUT_OK);
	assert_true(job.ranks[0].engine.table->arrived(
		engine_of(&job, 0), 1, UINT64_MAX));
	assert_false(job.ranks[0].engine.table->arrived(
		engine_of(&job, 0), 2, UINT64_MAX));
	end(&job);
	expect(&asked, 1, TAUT_EIO);
	expect(&sent[0], 1, TAUT_OK);
	expect(&sent[MANY - 1], 1, TAUT_EIO);
}

/* --- waiting -------------------------------------------------------------------------*/

static void until(struct rank *rank, const struct event *event)
{
	while (!event->n_done) {
		if (progress(rank) != TAUT_OK)
			abort();
		if (!event->n_done && rank->engine.table->wait(
				rank->engine.context, -1, &rank->err) != TAUT_OK)
			abort();
	}
}

enum { TURNS = 300 };

/* A token goes round; all but one sleep. Long ones need slots. */
static void pass_token(struct rank *rank)
{
	uint32_t n = rank->job->n_ranks;
	uint32_t before = (rank->rank + n - 1) % n, after = (rank->rank + 1) % n;
	unsigned char *token = calloc(1, BIG);
	struct event sent, got;

	for (uint32_t i = 0; i < TURNS; i++) {
		size_t bytes = i % 10 == 0 ? BIG : 8;

		if (rank->rank != 0 || i > 0) {
			if (recv_one(rank, before, i - (rank->rank == 0), token,
					rank->rank == 0 && i % 10 == 1 ? BIG :
					rank->rank == 0 ? (i - 1) % 10 ? 8 : BIG :
					bytes, &got))
				abort();
			until(rank, &got);
		}
		token[0]++;
		if (send_one(rank, after, i, token, bytes, &sent))
			abort();
		until(rank, &sent);
	}
	rank->err.offset = token[0];
	free(token);
}

static void sleeps(struct rank *rank)
{
	((struct tauti_shm *)rank->engine.context)->spin_ns = 0;
	pass_token(rank);
}

static void sleeps_fenced(struct rank *rank)
{
	((struct tauti_shm *)rank->engine.context)->map.fenced = true;
	sleeps(rank);
}

static void run_token(void (*work)(struct rank *rank), uint32_t n)
{
	struct job job;

	begin(&job, n, NULL, work);
	run_threads(&job);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(job.ranks[i].status, TAUT_OK);
		assert_int_equal(job.ranks[i].err.offset,
			(unsigned char)((TURNS - 1) * n + i + 1));
	}
	end(&job);
}

static void test_token(void **state)
{
	(void)state;
	run_token(pass_token, 3);
	run_token(sleeps, 2);
	run_token(sleeps, 5);
	run_token(sleeps_fenced, 3);
}

static void *wake_it(void *context)
{
	struct rank *rank = context;

	rank->engine.table->wake(rank->engine.context);
	return NULL;
}

/* A wake() before counts; one meanwhile ends it; time ends it. */
static void test_wake(void **state)
{
	struct job job;
	struct rank *rank = &job.ranks[0];
	pthread_t thread;

	(void)state;
	make(&job, 2);
	engine_of(&job, 0)->spin_ns = 0;
	wake_it(rank);
	assert_int_equal(rank->engine.table->wait(rank->engine.context, -1, NULL),
		TAUT_OK);
	for (int i = 0; i < 200; i++) {
		pthread_create(&thread, NULL, wake_it, rank);
		assert_int_equal(rank->engine.table->wait(rank->engine.context,
			-1, NULL), TAUT_OK);
		pthread_join(thread, NULL);
		while (rank->engine.table->wait(rank->engine.context, 0, NULL))
			;
	}
	assert_int_equal(rank->engine.table->wait(rank->engine.context, 1000000,
		NULL), TAUT_OK);
	end(&job);
}

/* --- threads that all send to all -----------------------------------------------------*/

enum { ROUNDS = 60 };

static uint32_t value_of(uint32_t rank, uint32_t round, size_t i)
{
	return rank * 1000003u + round * 101u + (uint32_t)i;
}

static size_t count_of(uint32_t round)
{
	static const size_t counts[] = { 1, 10, 11, 250, 251, 3000, BIG / 4 };

	return counts[round % (round % 11 ? 6 : 7)];
}

/* Each multicasts and sums what comes; as many rounds at once as there are. */
static void sum_all(struct rank *rank)
{
	static const size_t most = BIG / 4;
	uint32_t n = rank->job->n_ranks, n_peers = 0;
	uint32_t peers[GATHER_RANKS], *from = malloc(BIG), *to = malloc(BIG);
	struct event sent, got;

	for (uint32_t i = 0; i < n; i++)
		if (i != rank->rank)
			peers[n_peers++] = i;
	for (uint32_t round = 0; round < ROUNDS; round++) {
		size_t count = count_of(round) < most ? count_of(round) : most;

		for (size_t i = 0; i < count; i++)
			to[i] = from[i] = value_of(rank->rank, round, i);
		sent = (struct event){ .request.done = note };
		if (rank->engine.table->send(rank->engine.context, peers,
				n_peers, round, from, count * 4, &sent.request,
				NULL) != TAUT_OK)
			abort();
		for (uint32_t i = 0; i < n_peers; i++) {
			got = (struct event){ .request.done = note };
			if (rank->engine.table->recv_reduce(
					rank->engine.context, peers[i], round,
					TAUT_INT32, TAUT_SUM, to, to, count,
					&got.request, NULL) != TAUT_OK)
				abort();
			until(rank, &got);
		}
		for (size_t i = 0; i < count; i++) {
			uint32_t sum = 0;

			for (uint32_t j = 0; j < n; j++)
				sum += value_of(j, round, i);
			rank->err.offset += to[i] == sum;
		}
		until(rank, &sent);
	}
	free(from);
	free(to);
}

static size_t right_sums(void)
{
	size_t n = 0;

	for (uint32_t round = 0; round < ROUNDS; round++)
		n += count_of(round);
	return n;
}

static void test_sums(void **state)
{
	struct job job;

	(void)state;
	for (uint32_t n = 2; n < 6; n++) {
		begin(&job, n, NULL, sum_all);
		run_threads(&job);
		for (uint32_t i = 0; i < n; i++)
			assert_int_equal(job.ranks[i].err.offset, right_sums());
		end(&job);
	}
}

/* --- processes ------------------------------------------------------------------------*/

static pid_t fork_rank(struct job *job, uint32_t rank)
{
	pid_t child = fork();

	if (child)
		return child;
	run_rank(&job->ranks[rank]);
	_exit(job->ranks[rank].status == TAUT_OK &&
		job->ranks[rank].err.offset == (int64_t)right_sums() ? 0 : 1);
}

static void test_processes(void **state)
{
	static const uint32_t host_of[] = { 7, 3, 7, 3, 7 };
	struct job job;
	pid_t children[4];
	int status;

	(void)state;
	begin(&job, 4, NULL, sum_all);
	for (uint32_t i = 0; i < 4; i++)
		children[i] = fork_rank(&job, i);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	end(&job);
	/* two hosts that are one machine: each has a mapping of its own */
	begin(&job, 5, host_of, NULL);
	run_threads(&job);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(job.ranks[i].status, TAUT_OK);
		assert_int_equal(engine_of(&job, i)->n_peers, i % 2 ? 2 : 3);
		assert_int_equal(engine_of(&job, i)->map.index, i / 2);
	}
	end(&job);
}

/* Killed in the middle of anything: the others neither crash nor hang in a call. */
static void send_for_ever(struct rank *rank)
{
	unsigned char *data = calloc(1, BIG);
	struct event sent;

	for (uint64_t i = 0;; i++) {
		size_t bytes = i % 3 == 0 ? BIG : i % 3 == 1 ? 600 : 8;

		if (send_one(rank, 0, i, data, bytes, &sent) != TAUT_OK)
			abort();
		until(rank, &sent);
	}
}

static unsigned char data_of_killed[BIG];
static struct event last_of_killed;

static void receive(struct rank *rank, uint64_t i)
{
	size_t bytes = i % 3 == 0 ? BIG : i % 3 == 1 ? 600 : 8;

	assert_int_equal(recv_one(rank, 1, i, data_of_killed, bytes,
		&last_of_killed), TAUT_OK);
}

static void receive_and_kill(struct rank *rank, pid_t child, uint32_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		receive(rank, i);
		until(rank, &last_of_killed);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	/* what it had published still comes, then nothing more */
	for (uint64_t i = n; last_of_killed.n_done; i++) {
		receive(rank, i);
		assert_int_equal(rank->engine.table->wait(rank->engine.context,
			1000000, NULL), TAUT_OK);
		assert_int_equal(progress(rank), TAUT_OK);
	}
}

static void test_killed(void **state)
{
	struct job job;

	(void)state;
	for (uint32_t n = 1; n < 40; n += 3) {
		pid_t child;

		begin(&job, 2, NULL, send_for_ever);
		child = fork_rank(&job, 1);
		job.work = NULL;
		run_rank(&job.ranks[0]);
		assert_int_equal(job.ranks[0].status, TAUT_OK);
		receive_and_kill(&job.ranks[0], child, n);
		end(&job);
		expect(&last_of_killed, 1, TAUT_EIO);
	}
}

/* --- creation -------------------------------------------------------------------------*/

static size_t names_in_shm(void)
{
	size_t n = 0;
	FILE *list = popen("ls /dev/shm", "r");
	char line[256];

	while (list && fgets(line, sizeof line, list))
		n += strncmp(line, "taut-", 5) == 0;
	if (list)
		pclose(list);
	return n;
}

/* Memory fails on one rank at each of its requests: it says so, and what it has
 * is given back. The others are played by this thread, as in make(). */
static taut_status lone_gather(void *context, const void *mine, size_t bytes,
	void *ret_all, struct taut_error *reterr)
{
	(void)context;
	(void)reterr;
	memcpy(ret_all, mine, bytes);
	return TAUT_OK;
}

static void test_no_memory(void **state)
{
	static const uint32_t host_of[] = { 0 };
	struct tauti_shm_world world = { 0, 1, host_of, lone_gather, NULL };
	struct tauti_engine engine = { 0 };
	taut_status status = TAUT_ENOMEM;

	(void)state;
	for (long n = 0; status != TAUT_OK; n++) {
		struct taut_error err = { 0 };

		assert_true(n < 100);
		alloc_fail_after(n);
		status = tauti_shm_create_by(&world, &engine, &err);
		alloc_fail_never();
		if (status != TAUT_OK)
			assert_int_equal(status, TAUT_ENOMEM);
	}
	engine.table->destroy(engine.context);
}

/* A request for memory fails: nothing began, and nothing is lost. */
static void test_no_memory_under_way(void **state)
{
	struct job job;
	struct event sent, got;
	static struct event queued[MANY];
	uint64_t value = 5, to = 0;
	uint32_t i;

	(void)state;
	make(&job, 2);
	alloc_fail_after(0);
	assert_int_equal(recv_one(&job.ranks[1], 0, 1, &to, 8, &got),
		TAUT_ENOMEM);
	assert_int_equal(send_one(&job.ranks[0], 1, 1, &value, 8, &sent),
		TAUT_OK);
	assert_int_equal(progress(&job.ranks[1]), TAUT_ENOMEM);
	assert_int_equal(recv_one(&job.ranks[1], 0, 1, &to, 8, &got), TAUT_OK);
	expect(&got, 1, TAUT_OK);
	assert_int_equal(to, 5);
	for (i = 0; i < MANY; i++)
		if (send_one(&job.ranks[0], 1, i, &value, 8, &queued[i]) !=
			TAUT_OK)
			break;
	alloc_fail_never();
	assert_int_equal(i, TAUTI_SHM_FIFO_LINES - 2);
	end(&job);
}

static taut_status foreign_gather(void *context, const void *mine, size_t bytes,
	void *ret_all, struct taut_error *reterr)
{
	(void)mine;
	(void)reterr;
	memcpy(ret_all, context, 2 * bytes);
	return TAUT_OK;
}

/* The first rank tells a name or a size that cannot be. */
static void test_foreign_hello(void **state)
{
	static const uint32_t host_of[2];
	static unsigned char hellos[2][512];
	struct tauti_shm_world world = { 1, 2, host_of, foreign_gather, hellos };
	struct tauti_engine engine;
	struct taut_error err;

	(void)state;
	assert_int_equal(tauti_shm_create_by(&world, &engine, &err),
		TAUT_EFORMAT);
	memset(hellos, 'x', sizeof hellos);
	assert_true(tauti_shm_create_by(&world, &engine, &err) != TAUT_OK);
	hellos[0][0] = ENOSPC; /* errno of the first rank, little-endian */
	memset(hellos[0] + 1, 0, 3);
	assert_int_equal(tauti_shm_create_by(&world, &engine, &err), TAUT_EIO);
	assert_non_null(strstr(err.message, "rank 0: /dev/shm is full"));
}

static void test_no_name_left(void **state)
{
	struct job job;
	size_t before = names_in_shm();

	(void)state;
	make(&job, 4);
	assert_true(names_in_shm() <= before);
	end(&job);
}

static void test_host_id(void **state)
{
	uint64_t mine = tauti_host_id();
	pid_t child;
	int status;

	(void)state;
	assert_int_equal(mine, tauti_host_id());
	child = fork();
	if (child == 0)
		_exit(tauti_host_id() == mine ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_fifo_full),
		cmocka_unit_test(test_slots_full),
		cmocka_unit_test(test_multicast),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_mad_reader),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_destroy),
		cmocka_unit_test(test_token),
		cmocka_unit_test(test_wake),
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_no_memory_under_way),
		cmocka_unit_test(test_foreign_hello),
		cmocka_unit_test(test_no_name_left),
		cmocka_unit_test(test_host_id),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

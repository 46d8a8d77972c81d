/* contract.h - what every engine must do, as tests that an engine's own test
 * instantiates:
 *
 *     int main(void)
 *     {
 *             return contract_run(&(struct contract){ begin, make, end });
 *     }
 *
 * Ranks are threads of this process, or processes; beside the engine that is tested
 * they speak by a barrier alone. */
#ifndef TAUT_COLL_ENGINES_CONTRACT_H
#define TAUT_COLL_ENGINES_CONTRACT_H

#include "tests/support/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "coll/coll.h"

struct contract {
	/* Before the ranks are there; what it returns goes to the others. */
	void *(*begin)(uint32_t n_ranks);
	/* On the thread of each rank, all at once. */
	taut_status (*make)(void *engines, uint32_t rank,
		struct tauti_engine *ret_engine, struct taut_error *err);
	void (*end)(void *engines); /* when all are destroyed */
};

/* Where ranks are processes and not threads: this one's number, and all that take
 * part wait for each other. */
struct contract_process {
	uint32_t rank;
	void (*meet)(void *engines);
};

struct contract_how {
	const struct contract *contract;
	const struct contract_process *process; /* NULL: threads */
	uint32_t n_ranks; /* after two of them; an even number up to CONTRACT_MOST */
};

enum {
	CONTRACT_RANKS = 4,
	CONTRACT_MOST = 6,
	CONTRACT_MANY = 120,   /* messages */
	CONTRACT_LIMIT_S = 60, /* what takes longer never ends */
};

struct contract_rank;

struct contract_world {
	const struct contract *contract;
	const struct contract_process *process;
	void *engines;
	uint32_t n_ranks;
	pthread_barrier_t barrier;
	void (*body)(struct contract_rank *rank);
	int faults;
};

struct contract_rank {
	struct contract_world *world;
	uint32_t id, n;
	const struct taut_coll_engine *table; /* NULL: the body destroyed it */
	void *engine;
	uint64_t random;
};

struct contract_request {
	struct taut_coll_request request; /* first */
	uint32_t n_done;
	taut_status status;
};

/* --- what bodies say -------------------------------------------------------------------*/

/* Only the main thread may assert. */
#define contract_expect(rank, what) \
	contract_note((rank), (what), #what, __LINE__)

static inline void contract_note(
	struct contract_rank *rank, bool right, const char *what, int line)
{
	if (right)
		return;
	fprintf(stderr, "contract.h:%d: rank %u: not so: %s\n", line, rank->id,
		what);
	__atomic_add_fetch(&rank->world->faults, 1, __ATOMIC_RELAXED);
}

static inline void contract_meet(struct contract_rank *rank)
{
	struct contract_world *world = rank->world;

	if (world->process)
		world->process->meet(world->engines);
	else
		pthread_barrier_wait(&world->barrier);
}

static inline uint64_t contract_pick(struct contract_rank *rank, uint64_t below)
{
	rank->random ^= rank->random << 13;
	rank->random ^= rank->random >> 7;
	rank->random ^= rank->random << 17;
	return rank->random % below;
}

static inline void contract_sleep_ms(int ms)
{
	struct timespec time = { 0, ms * 1000000L };

	nanosleep(&time, NULL);
}

static inline void contract_watch(struct contract_rank *rank, int64_t *began_s)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!*began_s)
		*began_s = now.tv_sec;
	if (now.tv_sec - *began_s <= CONTRACT_LIMIT_S)
		return;
	fprintf(stderr, "contract.h: rank %u waits for ever\n", rank->id);
	abort();
}

static inline void contract_done(
	struct taut_coll_request *request, taut_status status)
{
	struct contract_request *it = (struct contract_request *)request;

	it->n_done++;
	it->status = status;
}

static inline void contract_send_all(struct contract_rank *rank,
	const uint32_t *peers, uint32_t n_peers, uint64_t tag,
	const void *data, size_t bytes, struct contract_request *request)
{
	struct taut_error err = { .offset = -1 };

	*request = (struct contract_request){ .request = { contract_done } };
	if (rank->table->send(rank->engine, peers, n_peers, tag, data, bytes,
		&request->request, &err))
		contract_note(rank, false, err.message, __LINE__);
}

static inline void contract_send(struct contract_rank *rank, uint32_t peer,
	uint64_t tag, const void *data, size_t bytes,
	struct contract_request *request)
{
	contract_send_all(rank, &peer, 1, tag, data, bytes, request);
}

static inline void contract_recv(struct contract_rank *rank, uint32_t peer,
	uint64_t tag, void *data, size_t bytes,
	struct contract_request *request)
{
	struct taut_error err = { .offset = -1 };

	*request = (struct contract_request){ .request = { contract_done } };
	if (rank->table->recv(rank->engine, peer, tag, data, bytes,
		&request->request, &err))
		contract_note(rank, false, err.message, __LINE__);
}

static inline void contract_progress(struct contract_rank *rank)
{
	struct taut_error err = { .offset = -1 };

	if (rank->table->progress(rank->engine, &err))
		contract_note(rank, false, err.message, __LINE__);
}

static inline void contract_wait(struct contract_rank *rank, int64_t timeout_ns)
{
	struct taut_error err = { .offset = -1 };

	if (rank->table->wait(rank->engine, timeout_ns, &err))
		contract_note(rank, false, err.message, __LINE__);
}

/* Looks and sleeps by turns until all are over. */
static inline void contract_until(struct contract_rank *rank,
	struct contract_request *requests, uint32_t n)
{
	int64_t began_s = 0;

	for (uint32_t i = 0; i < n; contract_watch(rank, &began_s)) {
		if (requests[i].n_done) {
			i++;
			continue;
		}
		contract_progress(rank);
		if (!requests[i].n_done)
			contract_wait(rank, -1);
	}
}

static inline void contract_until_good(struct contract_rank *rank,
	struct contract_request *requests, uint32_t n)
{
	contract_until(rank, requests, n);
	for (uint32_t i = 0; i < n; i++)
		contract_expect(rank, requests[i].n_done == 1 &&
			requests[i].status == TAUT_OK);
}

/* Bytes that no other message has at that place. */
static inline void contract_fill(
	uint8_t *data, size_t bytes, uint32_t from, uint64_t tag)
{
	uint32_t state = (uint32_t)(tag * 2654435761u + from * 40503u + 1);

	for (size_t i = 0; i < bytes; i++) {
		state = state * 1664525u + 1013904223u;
		data[i] = (uint8_t)(state >> 24);
	}
}

static inline bool contract_same(
	const uint8_t *data, size_t bytes, uint32_t from, uint64_t tag)
{
	uint32_t state = (uint32_t)(tag * 2654435761u + from * 40503u + 1);

	for (size_t i = 0; i < bytes; i++) {
		state = state * 1664525u + 1013904223u;
		if (data[i] != (uint8_t)(state >> 24))
			return false;
	}
	return true;
}

/* --- order -----------------------------------------------------------------------------*/

enum { CONTRACT_BYTES = 40 };

/* Many messages each way between two ranks. */
struct contract_batch {
	struct contract_request sends[CONTRACT_MANY], recvs[CONTRACT_MANY];
	uint8_t out[CONTRACT_MANY][CONTRACT_BYTES];
	uint8_t in[CONTRACT_MANY][CONTRACT_BYTES];
};

/* Tags that differ in one bit, or in all. */
static inline uint64_t contract_tag(uint32_t i)
{
	return i < TAUT_COLL_TAG_BITS ? UINT64_C(1) << i :
		UINT64_C(0x800000000000) | (uint64_t)i * 0x10001;
}

static inline void contract_send_batch(
	struct contract_rank *rank, struct contract_batch *batch)
{
	for (uint32_t i = 0; i < CONTRACT_MANY; i++) {
		contract_fill(batch->out[i], CONTRACT_BYTES, rank->id, i);
		contract_send(rank, rank->id ^ 1, contract_tag(i),
			batch->out[i], CONTRACT_BYTES, &batch->sends[i]);
	}
}

/* stride: in which order; it and CONTRACT_MANY have no common divisor. */
static inline void contract_recv_batch(struct contract_rank *rank,
	struct contract_batch *batch, uint32_t stride)
{
	for (uint32_t k = 0; k < CONTRACT_MANY; k++) {
		uint32_t i = k * stride % CONTRACT_MANY;

		contract_recv(rank, rank->id ^ 1, contract_tag(i),
			batch->in[i], CONTRACT_BYTES, &batch->recvs[i]);
	}
}

static inline void contract_end_batch(
	struct contract_rank *rank, struct contract_batch *batch)
{
	contract_until_good(rank, batch->recvs, CONTRACT_MANY);
	contract_until_good(rank, batch->sends, CONTRACT_MANY);
	for (uint32_t i = 0; i < CONTRACT_MANY; i++)
		contract_expect(rank, contract_same(batch->in[i],
			CONTRACT_BYTES, rank->id ^ 1, i));
}

static inline void contract_in_order(struct contract_rank *rank)
{
	struct contract_batch batch;

	contract_send_batch(rank, &batch);
	contract_recv_batch(rank, &batch, 1);
	contract_end_batch(rank, &batch);
}

static inline void contract_unexpected(struct contract_rank *rank)
{
	struct contract_batch batch;

	contract_send_batch(rank, &batch);
	contract_meet(rank);
	contract_recv_batch(rank, &batch, CONTRACT_MANY - 1);
	contract_end_batch(rank, &batch);
}

static inline void contract_expected(struct contract_rank *rank)
{
	struct contract_batch batch;

	contract_recv_batch(rank, &batch, 7);
	contract_meet(rank);
	contract_send_batch(rank, &batch);
	contract_end_batch(rank, &batch);
}

/* --- sizes -----------------------------------------------------------------------------*/

static inline void contract_one_size(struct contract_rank *rank, size_t bytes)
{
	enum { GUARD = 64 };
	uint32_t next = (rank->id + 1) % rank->n;
	uint32_t before = (rank->id + rank->n - 1) % rank->n;
	uint8_t *out = malloc(bytes + 1), *in = malloc(bytes + 2 * GUARD);
	struct contract_request requests[2];

	if (!out || !in)
		abort();
	contract_fill(out, bytes, rank->id, bytes);
	memset(in, 0xa5, bytes + 2 * GUARD);
	contract_recv(rank, before, bytes, in + GUARD, bytes, &requests[0]);
	contract_send(rank, next, bytes, out, bytes, &requests[1]);
	contract_until_good(rank, requests, 2);
	contract_expect(rank,
		contract_same(in + GUARD, bytes, before, bytes));
	for (size_t i = 0; i < GUARD; i++)
		contract_expect(rank,
			in[i] == 0xa5 && in[GUARD + bytes + i] == 0xa5);
	free(out);
	free(in);
}

static inline void contract_sizes(struct contract_rank *rank)
{
	static const size_t sizes[] = { 0, 1, 2, 3, 4, 7, 8, 9, 31, 63, 64, 65,
		127, 128, 255, 256, 257, 1000, 1024, 2047, 4095, 4096, 4097,
		8191, 8192, 8193, 16384, 32767, 65535, 65536, 65537, 262144,
		1000003, 1 << 20, 3000017, 8 << 20 };
	uint64_t most = rank->table->max_message_bytes;

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		if (!most || sizes[i] <= most)
			contract_one_size(rank, sizes[i]);
	if (most && most <= 64 << 20) {
		contract_one_size(rank, most - 1);
		contract_one_size(rank, most);
	}
}

/* A receive that is not as long as what comes says so, whichever is first. */
static inline void contract_wrong_length(struct contract_rank *rank)
{
	static const size_t pairs[][2] = { { 4, 8 }, { 8, 4 }, { 0, 4 },
		{ 4, 0 }, { 100000, 200000 }, { 200000, 100000 }, { 64, 100000 },
		{ 100000, 64 } };
	enum { N = sizeof pairs / sizeof *pairs };
	static uint8_t out[CONTRACT_MOST][200000], in[CONTRACT_MOST][200000];
	struct contract_request sends[N], recvs[N];
	uint32_t peer = rank->id ^ 1;

	if (rank->table->max_message_bytes &&
		rank->table->max_message_bytes < 200000)
		return;
	for (uint32_t i = 0; i < N; i++)
		contract_send(rank, peer, i, out[rank->id], pairs[i][0],
			&sends[i]);
	for (uint32_t i = 0; i < N; i++) {
		contract_recv(rank, peer, i, in[rank->id], pairs[i][1],
			&recvs[i]);
		contract_until(rank, &recvs[i], 1);
		contract_expect(rank, recvs[i].status == TAUT_EMATCH);
	}
	contract_until(rank, sends, N);
}

/* --- several peers ---------------------------------------------------------------------*/

static inline void contract_multicast_of(
	struct contract_rank *rank, uint32_t root, size_t bytes)
{
	uint8_t *data = calloc(1, bytes + 1);
	uint32_t peers[CONTRACT_MOST], n = 0;
	/* The one before may still be on its way to another. */
	uint64_t tag = (uint64_t)root << 32 | bytes;
	struct contract_request request;

	if (!data)
		abort();
	for (uint32_t i = 0; i < rank->n; i++)
		if (i != root)
			peers[n++] = i;
	if (rank->id == root) {
		contract_fill(data, bytes, root, bytes);
		contract_send_all(
			rank, peers, n, tag, data, bytes, &request);
	} else {
		contract_recv(rank, root, tag, data, bytes, &request);
	}
	contract_until_good(rank, &request, 1);
	contract_expect(rank, contract_same(data, bytes, root, bytes));
	free(data);
}

static inline void contract_multicast(struct contract_rank *rank)
{
	static const size_t sizes[] = { 0, 1, 4, 64, 200, 4096, 70000, 500000 };

	for (uint32_t root = 0; root < rank->n; root++)
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
			if (!rank->table->max_message_bytes ||
				sizes[i] <= rank->table->max_message_bytes)
				contract_multicast_of(rank, root, sizes[i]);
}

/* Each to each, in an order of each rank's own, sizes that both sides know. */
struct contract_crowd {
	struct contract_request sends[CONTRACT_MANY], recvs[CONTRACT_MANY];
	uint8_t *out[CONTRACT_MANY], *in[CONTRACT_MANY];
};

static inline size_t contract_crowd_bytes(uint32_t from, uint32_t to, uint32_t i)
{
	static const size_t most[] = { 1, 16, 300, 5000, 40000, 100000 };
	uint32_t draw = (from * 31 + to * 17 + i * 7919) * 2654435761u >> 8;

	return draw % most[i % 6];
}

static inline void contract_crowd_one(struct contract_rank *rank,
	struct contract_crowd *crowd, uint32_t i, bool sends)
{
	uint32_t peer = (rank->id + 1 + i % (rank->n - 1)) % rank->n;
	uint32_t tag = i / (rank->n - 1);
	size_t bytes = sends ? contract_crowd_bytes(rank->id, peer, tag) :
		contract_crowd_bytes(peer, rank->id, tag);
	uint8_t *data = calloc(1, bytes + 1);

	if (!data)
		abort();
	if (sends) {
		crowd->out[i] = data;
		contract_fill(data, bytes, rank->id, tag);
		contract_send(rank, peer, tag, data, bytes, &crowd->sends[i]);
	} else {
		crowd->in[i] = data;
		contract_recv(rank, peer, tag, data, bytes, &crowd->recvs[i]);
	}
}

static inline void contract_check_crowd(
	struct contract_rank *rank, struct contract_crowd *crowd)
{
	for (uint32_t i = 0; i < CONTRACT_MANY; i++) {
		uint32_t peer = (rank->id + 1 + i % (rank->n - 1)) % rank->n;

		uint32_t tag = i / (rank->n - 1);

		contract_expect(rank, contract_same(crowd->in[i],
			contract_crowd_bytes(peer, rank->id, tag), peer, tag));
		free(crowd->in[i]);
		free(crowd->out[i]);
	}
}

static inline void contract_many(struct contract_rank *rank)
{
	struct contract_crowd *crowd = calloc(1, sizeof *crowd);
	uint32_t order[2 * CONTRACT_MANY];

	if (!crowd)
		abort();
	for (uint32_t i = 0; i < 2 * CONTRACT_MANY; i++)
		order[i] = i;
	for (uint32_t i = 2 * CONTRACT_MANY; i > 1; i--) {
		uint32_t k = (uint32_t)contract_pick(rank, i), swap = order[k];

		order[k] = order[i - 1];
		order[i - 1] = swap;
	}
	for (uint32_t i = 0; i < 2 * CONTRACT_MANY; i++) {
		contract_crowd_one(rank, crowd, order[i] / 2, order[i] % 2);
		if (contract_pick(rank, 4) == 0)
			contract_progress(rank);
	}
	contract_until_good(rank, crowd->recvs, CONTRACT_MANY);
	contract_until_good(rank, crowd->sends, CONTRACT_MANY);
	contract_check_crowd(rank, crowd);
	free(crowd);
}

/* --- reductions ------------------------------------------------------------------------*/

enum { CONTRACT_ELEMENTS = 40000 };

/* Sums around the ranks, in place and beside, of small whole numbers. */
static inline void contract_reduce_of(
	struct contract_rank *rank, size_t count, bool in_place, bool late)
{
	static float own[CONTRACT_MOST][CONTRACT_ELEMENTS];
	static float sum[CONTRACT_MOST][CONTRACT_ELEMENTS];
	uint32_t next = (rank->id + 1) % rank->n;
	uint32_t before = (rank->id + rank->n - 1) % rank->n;
	float *mine = own[rank->id], *into = in_place ? mine : sum[rank->id];
	struct contract_request requests[2] = { { { contract_done }, 0, 0 } };
	float *out = malloc((count + 1) * sizeof *out);

	if (!out)
		abort();
	for (size_t i = 0; i < count; i++) {
		mine[i] = (float)(i % 1000 + rank->id);
		out[i] = (float)(rank->id * 1000 + i % 77);
	}
	contract_send(rank, next, count, out, count * sizeof *out, &requests[1]);
	if (late)
		contract_meet(rank);
	contract_expect(rank, !rank->table->recv_reduce(rank->engine, before,
		count, TAUT_FLOAT32, TAUT_SUM, into, mine, count,
		&requests[0].request, NULL));
	contract_until_good(rank, requests, 2);
	for (size_t i = 0; i < count; i++)
		contract_expect(rank, into[i] == (float)(i % 1000 + rank->id) +
			(float)(before * 1000 + i % 77));
	free(out);
}

/* The same of blocks, whose 33 bytes no chunk of any engine is a multiple of. */
static inline void contract_reduce_blocks(struct contract_rank *rank, size_t count)
{
	uint32_t next = (rank->id + 1) % rank->n;
	uint32_t before = (rank->id + rank->n - 1) % rank->n;
	struct contract_request requests[2] = { { { contract_done }, 0, 0 } };
	size_t bytes = count * taut_type_bytes(TAUT_MXINT8);
	uint8_t *mine = malloc(bytes), *out = malloc(bytes), *right = malloc(bytes);
	float *numbers = malloc(32 * count * sizeof *numbers);

	if (!mine || !out || !right || !numbers)
		abort();
	for (uint32_t step = 0; step < 3; step++) { /* before's, mine; to send */
		for (size_t i = 0; i < 32 * count; i++)
			numbers[i] = (float)(i % 1009) * (float)(1 +
				(step == 0 ? before : rank->id));
		taut_narrow(TAUT_MXINT8, step == 0 ? right : step == 1 ? mine : out,
			numbers, 32 * count, step == 1 ? -3 : 1);
	}
	taut_reduce(TAUT_MXINT8, TAUT_SUM, right, mine, right, count);
	contract_send(rank, next, count, out, bytes, &requests[1]);
	contract_expect(rank, !rank->table->recv_reduce(rank->engine, before,
		count, TAUT_MXINT8, TAUT_SUM, mine, mine, count,
		&requests[0].request, NULL));
	contract_until_good(rank, requests, 2);
	contract_expect(rank, !memcmp(mine, right, bytes));
	free(numbers);
	free(right);
	free(out);
	free(mine);
}

static inline void contract_reduce(struct contract_rank *rank)
{
	static const size_t counts[] = { 1, 2, 3, 15, 16, 17, 100, 1000, 4096,
		10001, CONTRACT_ELEMENTS };
	uint64_t most = rank->table->max_message_bytes;

	if (!rank->table->recv_reduce)
		return;
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
		if (!most || counts[i] * taut_type_bytes(TAUT_MXINT8) <= most)
			contract_reduce_blocks(rank, counts[i]);
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
		for (int mode = 0; mode < 4; mode++)
			contract_reduce_of(
				rank, counts[i], mode & 1, mode & 2);
}

/* --- news ------------------------------------------------------------------------------*/

static inline void contract_arrived(struct contract_rank *rank)
{
	const uint64_t tag = UINT64_C(0x123456789abc), all = (UINT64_C(1) << 48) - 1;
	const struct taut_coll_engine *table = rank->table;
	uint32_t peer = rank->id ^ 1;
	uint8_t out[8] = { 1 }, in[8];
	struct contract_request requests[2];
	int64_t began_s = 0;

	contract_progress(rank);
	contract_expect(rank, !table->arrived(rank->engine, tag, all));
	contract_meet(rank);
	contract_send(rank, peer, tag, out, sizeof out, &requests[0]);
	while (!table->arrived(rank->engine, tag & ~UINT64_C(0xfff),
		all & ~UINT64_C(0xfff))) {
		contract_watch(rank, &began_s);
		contract_progress(rank);
		if (!table->arrived(rank->engine, tag, all))
			contract_wait(rank, -1);
	}
	contract_expect(rank, !table->arrived(rank->engine, tag + 1, all));
	contract_expect(rank, !table->arrived(rank->engine, 0, all));
	contract_recv(rank, peer, tag, in, sizeof in, &requests[1]);
	contract_expect(rank, !table->arrived(rank->engine, tag, all));
	contract_until_good(rank, requests, 2);
	contract_expect(rank, !table->arrived(rank->engine, tag, all));
}

static inline void *contract_wake_later(void *context)
{
	struct contract_rank *rank = context;

	contract_sleep_ms(20);
	rank->table->wake(rank->engine);
	return NULL;
}

static inline void contract_wakes(struct contract_rank *rank)
{
	pthread_t thread;

	rank->table->wake(rank->engine);
	contract_progress(rank);
	contract_wait(rank, -1);
	/* Each may end early by a wake that came before; four do not. */
	for (int i = 0; i < 4; i++)
		contract_wait(rank, 2000000);
	if (pthread_create(&thread, NULL, contract_wake_later, rank))
		abort();
	contract_wait(rank, -1);
	pthread_join(thread, NULL);
}

/* One rank sleeps until the other has something for it. */
static inline void contract_sleeps(struct contract_rank *rank)
{
	uint8_t data[100];
	struct contract_request request;

	for (int i = 0; i < 6; i++) {
		bool sends = rank->id % 2 == (uint32_t)i % 2;

		contract_fill(data, sizeof data, 0, (uint64_t)i);
		if (sends) {
			contract_sleep_ms(i < 3 ? 5 : 0);
			contract_send(rank, rank->id ^ 1, (uint64_t)i, data,
				sizeof data, &request);
		} else {
			memset(data, 0, sizeof data);
			contract_recv(rank, rank->id ^ 1, (uint64_t)i, data,
				sizeof data, &request);
		}
		contract_until_good(rank, &request, 1);
		contract_expect(rank, contract_same(
			data, sizeof data, 0, (uint64_t)i));
	}
}

/* --- the end ---------------------------------------------------------------------------*/

/* Whatever is under way ends once, and memory is left alone after that. */
static inline void contract_destroys(struct contract_rank *rank)
{
	enum { N = 24, BYTES = 30000 };
	struct contract_request sends[N], recvs[N];
	uint8_t *out = calloc(N, BYTES), *in = calloc(N, BYTES);
	uint32_t peer = rank->id ^ 1;

	if (!out || !in)
		abort();
	for (uint32_t i = 0; i < N; i++) {
		size_t bytes = i % 3 ? BYTES : 10;

		contract_send(rank, peer, i, out + i * BYTES, bytes, &sends[i]);
		contract_recv(rank, peer, 1000 + i, in + i * BYTES, bytes,
			&recvs[i]);
	}
	contract_progress(rank);
	contract_meet(rank);
	if (rank->id % 2)
		contract_progress(rank);
	contract_meet(rank);
	rank->table->destroy(rank->engine);
	rank->table = NULL;
	for (uint32_t i = 0; i < N; i++) {
		contract_expect(rank, sends[i].n_done == 1);
		contract_expect(rank, recvs[i].n_done == 1);
		contract_expect(rank, recvs[i].status == TAUT_EIO);
	}
	free(out);
	free(in);
}

/* --- running them ----------------------------------------------------------------------*/

static inline void *contract_thread(void *context)
{
	struct contract_rank *rank = context;
	struct contract_world *world = rank->world;
	struct tauti_engine engine = { .table = NULL };
	struct taut_error err = { .offset = -1 };

	if (world->contract->make(world->engines, rank->id, &engine, &err)) {
		fprintf(stderr, "contract.h: rank %u: %s\n", rank->id,
			err.message);
		abort();
	}
	rank->table = engine.table;
	rank->engine = engine.context;
	contract_meet(rank);
	world->body(rank);
	contract_meet(rank);
	if (rank->table)
		rank->table->destroy(rank->engine);
	return NULL;
}

static inline void contract_run_body(const struct contract_how *run,
	uint32_t n_ranks, void (*body)(struct contract_rank *rank))
{
	const struct contract *contract = run->contract;
	const struct contract_process *process = run->process;
	struct contract_world world = { .contract = contract,
		.process = process, .n_ranks = n_ranks, .body = body };
	struct contract_rank ranks[CONTRACT_MOST];
	pthread_t threads[CONTRACT_MOST];

	world.engines = contract->begin(n_ranks);
	pthread_barrier_init(&world.barrier, NULL, n_ranks);
	for (uint32_t i = 0; i < n_ranks; i++)
		ranks[i] = (struct contract_rank){ .world = &world, .id = i,
			.n = n_ranks, .random = 88172645463325252u + i };
	if (process && process->rank < n_ranks)
		contract_thread(&ranks[process->rank]);
	for (uint32_t i = 0; i < n_ranks && !process; i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
			contract_thread, &ranks[i]), 0);
	for (uint32_t i = 0; i < n_ranks && !process; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&world.barrier);
	contract->end(world.engines);
	assert_int_equal(world.faults, 0);
}

#define CONTRACT_TEST(name) \
	static inline void contract_test_##name(void **state) \
	{ \
		const struct contract_how *run = *state; \
\
		contract_run_body(run, 2, contract_##name); \
		contract_run_body(run, run->n_ranks, contract_##name); \
	}
CONTRACT_TEST(in_order)
CONTRACT_TEST(unexpected)
CONTRACT_TEST(expected)
CONTRACT_TEST(sizes)
CONTRACT_TEST(wrong_length)
CONTRACT_TEST(multicast)
CONTRACT_TEST(many)
CONTRACT_TEST(reduce)
CONTRACT_TEST(arrived)
CONTRACT_TEST(wakes)
CONTRACT_TEST(sleeps)
CONTRACT_TEST(destroys)

static inline int contract_run_how(const struct contract_how *how)
{
	struct contract_how run = *how;
#define CONTRACT_ROW(name) \
	cmocka_unit_test_prestate(contract_test_##name, &run)
	const struct CMUnitTest tests[] = {
		CONTRACT_ROW(in_order),
		CONTRACT_ROW(unexpected),
		CONTRACT_ROW(expected),
		CONTRACT_ROW(sizes),
		CONTRACT_ROW(wrong_length),
		CONTRACT_ROW(multicast),
		CONTRACT_ROW(many),
		CONTRACT_ROW(reduce),
		CONTRACT_ROW(arrived),
		CONTRACT_ROW(wakes),
		CONTRACT_ROW(sleeps),
		CONTRACT_ROW(destroys),
	};
#undef CONTRACT_ROW

	return cmocka_run_group_tests(tests, NULL, NULL);
}

static inline int contract_run_as(const struct contract *contract,
	const struct contract_process *process)
{
	return contract_run_how(
		&(struct contract_how){ contract, process, CONTRACT_RANKS });
}

static inline int contract_run(const struct contract *contract)
{
	return contract_run_as(contract, NULL);
}

#endif /* TAUT_COLL_ENGINES_CONTRACT_H */

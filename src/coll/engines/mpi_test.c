/* The contract of the engines, kept by the one over MPI, over a library that this
 * test makes up: ranks are threads, a handle is an address, short messages are kept
 * and long ones wait at their sender. tests/mpi/contract.c is the same over real
 * ones. */
#include "coll/engines/contract.h"

#include "coll/engines/mpi.h"
#include "tests/support/alloc_fail.h"

enum { KEPT_BYTES = 1024, UNDEFINED = -32766, ANY = -1 };

struct request {
	struct request *next; /* in a list of its rank: of messages, of receives */
	int peer, tag, n;     /* peer: of a message, its sender; may be ANY */
	char *data;
	bool done, kept, owned; /* kept: data is a copy; owned: by nobody else */
};

struct rank {
	struct world *world;
	int id;
	struct request *messages, *receives;
};

struct world {
	pthread_mutex_t lock;
	uint32_t n_ranks;
	struct rank ranks[CONTRACT_RANKS];
};

static void append(struct request **list, struct request *request)
{
	while (*list)
		list = &(*list)->next;
	request->next = NULL;
	*list = request;
}

static void take_out(struct request **list, const struct request *request)
{
	while (*list && *list != request)
		list = &(*list)->next;
	if (*list)
		*list = request->next;
}

static void release(struct request *request)
{
	if (request->kept)
		free(request->data);
	free(request);
}

/* The message and the receive are for each other. */
static void deliver(struct request *message, struct request *receive)
{
	int n = message->n < receive->n ? message->n : receive->n;

	if (n)
		memcpy(receive->data, message->data, (size_t)n);
	receive->done = message->done = true;
	if (message->owned)
		release(message);
}

static struct request *make_request(int peer, int tag, const void *data, int n)
{
	/* No memory of the library's is to fail. */
	struct request *it = aligned_alloc(16, (sizeof *it + 15) / 16 * 16);

	if (!it)
		abort();
	*it = (struct request){ .peer = peer, .tag = tag, .n = n };
	memcpy(&it->data, &data, sizeof data);
	return it;
}

static bool fits(const struct request *receive, const struct request *message)
{
	return receive->tag == message->tag &&
		(receive->peer == ANY || receive->peer == message->peer);
}

/* What is short is the library's as soon as it is sent: a twin of the request goes
 * in its place. */
static struct request *keep(struct request *message)
{
	struct request *twin = make_request(
		message->peer, message->tag, NULL, message->n);

	twin->data = malloc((size_t)message->n + 1);
	if (!twin->data)
		abort();
	memcpy(twin->data, message->data, (size_t)message->n);
	twin->kept = twin->owned = true;
	message->done = true;
	return twin;
}

static int fake_isend(const void *data, int n, uintptr_t type, int to, int tag,
	uintptr_t comm, void *ret_request)
{
	struct rank *rank = (struct rank *)comm, *there = &rank->world->ranks[to];
	struct request *message = make_request(rank->id, tag, data, n), *at;

	(void)type;
	memcpy(ret_request, &message, sizeof message);
	pthread_mutex_lock(&rank->world->lock);
	for (at = there->receives; at && !fits(at, message); at = at->next)
		;
	if (at) {
		take_out(&there->receives, at);
		deliver(message, at);
	} else {
		append(&there->messages,
			n <= KEPT_BYTES ? keep(message) : message);
	}
	pthread_mutex_unlock(&rank->world->lock);
	return 0;
}

static int fake_irecv(void *data, int n, uintptr_t type, int from, int tag,
	uintptr_t comm, void *ret_request)
{
	struct rank *rank = (struct rank *)comm;
	struct request *receive = make_request(from, tag, data, n), *at;

	(void)type;
	memcpy(ret_request, &receive, sizeof receive);
	pthread_mutex_lock(&rank->world->lock);
	for (at = rank->messages; at && !fits(receive, at); at = at->next)
		;
	if (at) {
		take_out(&rank->messages, at);
		deliver(at, receive);
	} else {
		append(&rank->receives, receive);
	}
	pthread_mutex_unlock(&rank->world->lock);
	return 0;
}

/* One lock for all worlds of the test would do; the request knows none. */
static struct world *now;

static int fake_testsome(
	int n, void *requests, int *n_done, int *indices, void *statuses)
{
	struct request **all = requests;

	(void)statuses;
	*n_done = 0;
	pthread_mutex_lock(&now->lock);
	for (int i = 0; i < n; i++) {
		if (!all[i] || !all[i]->done)
			continue;
		indices[(*n_done)++] = i;
		release(all[i]);
		all[i] = NULL;
	}
	pthread_mutex_unlock(&now->lock);
	return 0;
}

static void forget(struct request *request)
{
	for (uint32_t i = 0; i < now->n_ranks; i++) {
		take_out(&now->ranks[i].messages, request);
		take_out(&now->ranks[i].receives, request);
	}
	request->done = true;
}

static int fake_cancel(void *request)
{
	pthread_mutex_lock(&now->lock);
	forget(*(struct request **)request);
	pthread_mutex_unlock(&now->lock);
	return 0;
}

static int fake_wait(void *request, void *status)
{
	(void)status;
	release(*(struct request **)request);
	return 0;
}

static int fake_free(void *request)
{
	fake_cancel(request);
	return fake_wait(request, NULL);
}

/* --- the contract -------------------------------------------------------------------------*/

static void *begin(uint32_t n_ranks)
{
	struct world *world = calloc(1, sizeof *world);

	assert_non_null(world);
	pthread_mutex_init(&world->lock, NULL);
	world->n_ranks = n_ranks;
	for (uint32_t i = 0; i < n_ranks; i++)
		world->ranks[i] = (struct rank){ .world = world, .id = (int)i };
	now = world;
	return world;
}

static const struct tauti_mpi_calls calls = { .handle_bytes = sizeof(void *),
	.any_source = ANY, .undefined = UNDEFINED, .isend = fake_isend,
	.irecv = fake_irecv, .testsome = fake_testsome, .cancel = fake_cancel,
	.wait = fake_wait, .request_free = fake_free };

static taut_status make(void *engines, uint32_t rank,
	struct tauti_engine *ret_engine, struct taut_error *err)
{
	struct world *world = engines;

	return tauti_mpi_engine_create(&calls, (uintptr_t)&world->ranks[rank],
		rank, world->n_ranks, ret_engine, err);
}

/* Nothing is left behind with the library but messages of good-bye. */
static void end(void *engines)
{
	struct world *world = engines;

	for (uint32_t i = 0; i < world->n_ranks; i++) {
		assert_null(world->ranks[i].receives);
		while (world->ranks[i].messages) {
			struct request *left = world->ranks[i].messages;

			world->ranks[i].messages = left->next;
			assert_true(left->owned);
			release(left);
		}
	}
	pthread_mutex_destroy(&world->lock);
	free(world);
}

/* --- what the contract does not ask ---------------------------------------------------------*/

static void every_request_for_memory_may_fail(void **state)
{
	struct world *world = begin(1);
	struct tauti_engine engine;
	struct taut_error err;
	taut_status status = TAUT_ENOMEM;

	(void)state;
	for (long n = 0; status && n < 100; n++) {
		alloc_fail_after(n);
		status = make(world, 0, &engine, &err);
		alloc_fail_never();
		assert_true(!status || status == TAUT_ENOMEM);
	}
	assert_int_equal(status, TAUT_OK);
	engine.table->destroy(engine.context);
	end(world);
}

/* A rank that left, and of which something is waited for, is named. */
static void a_rank_that_left_is_named(void **state)
{
	struct world *world = begin(2);
	struct tauti_engine engines[2];
	struct contract_request request = { .request = { contract_done } };
	struct taut_error err = { .message = "" };
	char data[8];

	(void)state;
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(make(world, i, &engines[i], &err), 0);
	assert_int_equal(engines[0].table->recv(engines[0].context, 1, 7, data,
		sizeof data, &request.request, &err), 0);
	engines[1].table->destroy(engines[1].context);
	assert_int_equal(engines[0].table->wait(engines[0].context, -1, &err), 0);
	for (int i = 0; i < 3 && !err.message[0]; i++)
		(void)!engines[0].table->progress(engines[0].context, &err);
	assert_string_equal(err.message, "rank 1 is gone");
	assert_int_equal(request.n_done, 0);
	engines[0].table->destroy(engines[0].context);
	assert_int_equal(request.n_done, 1);
	assert_int_equal(request.status, TAUT_EIO);
	end(world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_request_for_memory_may_fail),
		cmocka_unit_test(a_rank_that_left_is_named),
	};

	return contract_run(&(struct contract){ begin, make, end }) +
		cmocka_run_group_tests(tests, NULL, NULL);
}

/* How it ends: an engine that fails at any moment, memory that runs out at any
 * request, destroy at any moment. Every rank comes back, with a status and a line. */
#include "sync/ranks.h"

#include <sched.h>

#include "coll/comm.h"
#include "tests/support/alloc_fail.h"

enum { TASKS = 6, COUNT = 300, ITERATIONS = 4 };

static const struct taut_sync_options OPTIONS = { .piece_bytes = 512,
	.credit_bytes = 1024, .fuse_bytes = 400 };

/* Iterations until something fails; the first failure. */
static taut_status iterate(
	struct taut_sync *sync, uint32_t n_iterations, struct taut_error *err)
{
	float values[TASKS][COUNT] = { { 0 } };
	taut_status status = TAUT_OK;
	uint32_t task;

	for (uint32_t t = 0; t < TASKS && !status; t++)
		status = taut_sync_declare(sync, TAUT_FLOAT32,
			t % 2 ? COUNT : 3, t, 0.5, &task, err);
	for (uint32_t i = 0; i < n_iterations && !status; i++) {
		for (uint32_t t = 0; t < TASKS && !status; t++)
			status = taut_sync_ready(sync, t, values[t], err);
		if (!status)
			status = taut_sync_wait(sync, TAUT_NONE, -1, err);
	}
	if (status) { /* what failed may still write there */
		alloc_fail_never(); /* others hear of it when it is over */
		taut_sync_destroy(sync);
	}
	return status;
}

/* --- an engine that fails ----------------------------------------------------------*/

struct cable {
	struct tauti_engine inner;
	long n_left; /* calls of progress() until it is out; < 0: never */
};

static taut_status cable_send(void *engine, const uint32_t *peers,
	uint32_t n_peers, uint64_t tag, const void *data, size_t bytes,
	struct taut_coll_request *request, struct taut_error *err)
{
	struct cable *cable = engine;

	return cable->inner.table->send(cable->inner.context, peers, n_peers,
		tag, data, bytes, request, err);
}

static taut_status cable_recv(void *engine, uint32_t peer, uint64_t tag,
	void *data, size_t bytes, struct taut_coll_request *request,
	struct taut_error *err)
{
	struct cable *cable = engine;

	return cable->inner.table->recv(cable->inner.context, peer, tag, data,
		bytes, request, err);
}

static taut_status cable_progress(void *engine, struct taut_error *err)
{
	struct cable *cable = engine;

	if (cable->n_left == 0)
		return taut_error_set(err, TAUT_EIO, -1, "the cable is out");
	cable->n_left -= cable->n_left > 0;
	return cable->inner.table->progress(cable->inner.context, err);
}

static taut_status cable_wait(
	void *engine, int64_t timeout_ns, struct taut_error *err)
{
	struct cable *cable = engine;

	return cable->inner.table->wait(
		cable->inner.context, timeout_ns, err);
}

static void cable_wake(void *engine)
{
	struct cable *cable = engine;

	cable->inner.table->wake(cable->inner.context);
}

static bool cable_arrived(void *engine, uint64_t tag, uint64_t mask)
{
	struct cable *cable = engine;

	return cable->inner.table->arrived(cable->inner.context, tag, mask);
}

static void cable_destroy(void *engine)
{
	struct cable *cable = engine;

	cable->inner.table->destroy(cable->inner.context);
}

static const struct taut_coll_engine CABLE = { .name = "cable",
	.send = cable_send, .recv = cable_recv, .progress = cable_progress,
	.wait = cable_wait, .wake = cable_wake, .arrived = cable_arrived,
	.destroy = cable_destroy };

struct cables {
	struct cable of[3];
	atomic_uint n_failed;
};

static void use_cable(struct rank *rank)
{
	struct cables *cables = rank->all->context;
	struct cable *cable = &cables->of[rank->id];
	const struct tauti_hub_options own = { .engine = { &CABLE, cable },
		.owned = true, .rank = rank->id, .n_ranks = 3 };
	struct taut_error err = { .message = "" };
	taut_status status;

	RANK_OK(rank, tauti_comm_make(&own, &rank->comm, why));
	RANK_OK(rank, taut_sync_create(
		rank->comm, &OPTIONS, &rank->sync, why));
	status = iterate(rank->sync, ITERATIONS, &err);
	if (!status) {
		taut_sync_destroy(rank->sync);
	} else {
		atomic_fetch_add(&cables->n_failed, 1);
		if (status != TAUT_EIO || !err.message[0])
			fprintf(stderr, "%d: %s\n", (int)status, err.message);
		RANK_CHECK(rank, status == TAUT_EIO && err.message[0]);
	}
	taut_comm_destroy(rank->comm);
}

static void test_cable(void **state)
{
	struct tauti_engine engines[3];
	struct cables cables;
	struct ranks ranks;
	long n = 0;

	(void)state;
	do {
		memset(&ranks, 0, sizeof ranks);
		atomic_init(&cables.n_failed, 0);
		ranks.n = 3;
		ranks.context = &cables;
		assert_int_equal(
			tauti_inproc_create(3, engines, NULL), TAUT_OK);
		for (uint32_t i = 0; i < 3; i++) {
			cables.of[i].inner = engines[i];
			cables.of[i].n_left = i == n % 3 ? n : -1;
			ranks.rank[i].all = &ranks;
			ranks.rank[i].id = i;
		}
		ranks_each(&ranks, use_cable);
		n += 1 + n / 16;
	} while (atomic_load(&cables.n_failed));
	assert_true(n > 10);
}

/* --- memory ------------------------------------------------------------------------*/

/* A request for memory that fails may do no harm where something smaller is done
 * instead; but who fails says so. */
struct shortage {
	struct taut_sync_options options;
	atomic_uint n_failed, n_iterated;
};

static void run_short(struct rank *rank)
{
	struct shortage *of = rank->all->context;
	struct taut_error err = { .message = "" };
	taut_status status = taut_sync_create(
		rank->comm, &of->options, &rank->sync, &err);

	if (!status) {
		status = iterate(rank->sync, 2, &err);
		/* A farewell that lacks memory tries for seconds to begin. */
		if (atomic_fetch_add(&of->n_iterated, 1) + 1 == rank->all->n)
			alloc_fail_never();
		if (!status)
			taut_sync_destroy(rank->sync);
	}
	if (status) {
		alloc_fail_never();
		RANK_CHECK(rank, status == TAUT_ENOMEM || status == TAUT_EIO);
		RANK_CHECK(rank, err.message[0]);
		atomic_fetch_add(&of->n_failed, 1);
	}
	taut_comm_destroy(rank->comm);
}

static void run_out_of_memory(const struct taut_sync_options *options)
{
	struct shortage of = { .options = *options };
	struct taut_comm *comms[2];
	struct ranks ranks;
	long n = 0;

	do {
		memset(&ranks, 0, sizeof ranks);
		atomic_init(&of.n_failed, 0);
		atomic_init(&of.n_iterated, 0);
		ranks.n = 2;
		ranks.context = &of;
		assert_int_equal(
			taut_comm_create_inproc(2, comms, NULL), TAUT_OK);
		for (uint32_t i = 0; i < 2; i++)
			ranks.rank[i] = (struct rank){ .all = &ranks, .id = i,
				.comm = comms[i] };
		alloc_fail_after(n++);
		ranks_each(&ranks, run_short);
		alloc_fail_never();
	} while (atomic_load(&of.n_failed));
	assert_true(n > 20);
}

static void test_memory(void **state)
{
	struct taut_sync_options options = OPTIONS;

	(void)state;
	run_out_of_memory(&options);
	options.wire = TAUT_FLOAT16;
	run_out_of_memory(&options);
}

/* --- destroy -----------------------------------------------------------------------*/

static void declare_all(struct rank *rank)
{
	uint32_t task;

	for (uint32_t t = 0; t < TASKS; t++)
		RANK_OK(rank, taut_sync_declare(rank->sync, TAUT_FLOAT32,
			COUNT, t, 0.5, &task, why));
}

/* Each rank goes on for a while that no other one has, and destroys. */
static void leave_at_once(struct rank *rank)
{
	static const uint32_t turns[] = { 0, 3, 40, 500 };
	uint64_t mine = *(uint64_t *)rank->all->context + rank->id;
	float values[TASKS][COUNT] = { { 0 } };
	uint32_t n = (uint32_t)ranks_below(&mine, TASKS + 1);

	for (uint32_t t = 0; t < n; t++)
		ranks_try_ready(rank, t, values[t]);
	for (uint32_t i = turns[ranks_below(&mine, 4)]; i; i--)
		sched_yield();
	taut_sync_destroy(rank->sync);
	rank->sync = NULL;
}

static void test_destroy(void **state)
{
	struct taut_sync_options options = OPTIONS;
	struct ranks ranks;

	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++) {
		uint64_t random = seed * 1000;

		options.order = seed % 3 ? TAUT_SCHED_AGREED
					 : TAUT_SCHED_DECLARED;
		options.halves = seed % 4 == 0;
		options.wire = seed % 5 ? TAUT_FLOAT32 : TAUT_BFLOAT16;
		ranks_create(&ranks, 2 + (uint32_t)seed % 3, &options);
		ranks.context = &random;
		ranks_each(&ranks, declare_all);
		ranks_each(&ranks, leave_at_once);
		ranks_destroy(&ranks);
	}
}

/* One after another on the same communicator, as long as each ends in peace. */
static void use_once(struct rank *rank)
{
	struct taut_error err;

	for (int i = 0; i < 60; i++) {
		struct taut_coll_call call = { .type = TAUT_UINT8, .count = 1,
			.output = &(uint8_t){ 1 } };
		struct taut_sync_options options = OPTIONS;

		/* One that comes without a collective between is heard early. */
		options.order = i % 3 ? TAUT_SCHED_DECLARED : TAUT_SCHED_AGREED;
		RANK_OK(rank, taut_sync_create(
			rank->comm, &options, &rank->sync, why));
		if (iterate(rank->sync, 2, &err)) {
			RANK_CHECK(rank, !"a failure");
			return;
		}
		taut_sync_destroy(rank->sync);
		if (i % 2)
			RANK_OK(rank, taut_comm_run(rank->comm, &call, why));
	}
}

static void test_again(void **state)
{
	struct ranks ranks;

	(void)state;
	ranks_create(&ranks, 3, &OPTIONS);
	for (uint32_t i = 0; i < 3; i++)
		taut_sync_destroy(ranks.rank[i].sync);
	ranks_each(&ranks, use_once);
	for (uint32_t i = 0; i < 3; i++)
		taut_comm_destroy(ranks.rank[i].comm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cable),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_destroy),
		cmocka_unit_test(test_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

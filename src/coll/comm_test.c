/* Communicators whose ranks are threads: every verb, way, type and size against an
 * oracle; twins, many calls at once; ranks that go; memory that is short. */
#include "tests/support/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "coll/comm.h"
#include "coll/oracle.h"
#include "tests/support/alloc_fail.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
enum { RANKS = 6, EACH = 11 }; /* one call in eleven: slow */
#else
enum { RANKS = 6, EACH = 3 };
#endif

struct job;

struct rank {
	struct job *job;
	uint32_t id;
	struct taut_comm *comm;
	pthread_t thread;
};

struct job {
	uint32_t n;
	bool reduces; /* the engine can */
	void (*body)(struct rank *rank);
	struct taut_coll_engine table;
	struct tauti_engine engines[RANKS];
	struct rank ranks[RANKS];
	uint32_t host_of[RANKS];
	_Atomic uint32_t n_late, n_named;
	int faults;
};

#define EXPECT(rank, what) note((rank), (what), #what, __LINE__)

static void note(struct rank *rank, bool right, const char *what, int line)
{
	if (right)
		return;
	fprintf(stderr, "comm_test.c:%d: rank %u of %u: not so: %s\n", line,
		rank->id, rank->job->n, what);
	__atomic_add_fetch(&rank->job->faults, 1, __ATOMIC_RELAXED);
}

/* --- ranks as threads ------------------------------------------------------------------*/

static void *run_rank(void *context)
{
	struct rank *rank = context;

	rank->job->body(rank);
	taut_comm_destroy(rank->comm);
	return NULL;
}

static void create_ranks(struct job *job)
{
	assert_int_equal(
		tauti_inproc_create(job->n, job->engines, NULL), TAUT_OK);
	job->table = *job->engines[0].table;
	if (!job->reduces)
		job->table.recv_reduce = NULL;
	for (uint32_t i = 0; i < job->n; i++) {
		const struct tauti_hub_options options = {
			.engine = { &job->table, job->engines[i].context },
			.owned = true, .rank = i, .n_ranks = job->n,
			.host_of = job->host_of };

		job->ranks[i] = (struct rank){ .job = job, .id = i };
		assert_int_equal(tauti_comm_make(
			&options, &job->ranks[i].comm, NULL), TAUT_OK);
	}
}

static void run_job(uint32_t n, bool reduces, bool on_hosts,
	void (*body)(struct rank *rank))
{
	struct job job = { .n = n, .reduces = reduces, .body = body };

	for (uint32_t i = 0; i < n; i++)
		job.host_of[i] = on_hosts ? i / 2 : 0;
	create_ranks(&job);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(pthread_create(&job.ranks[i].thread, NULL,
			run_rank, &job.ranks[i]), 0);
	for (uint32_t i = 0; i < n; i++)
		pthread_join(job.ranks[i].thread, NULL);
	assert_int_equal(job.faults, 0);
}

/* --- one call --------------------------------------------------------------------------*/

static void run_call(struct rank *rank, struct taut_coll_call call, bool in_place)
{
	struct taut_error err = { .offset = -1 };
	size_t bytes = call.count * taut_type_bytes(call.type) + 1;
	char *input = calloc(1, bytes), *output = calloc(1, bytes);

	if (!input || !output)
		abort();
	oracle_fill(&call, rank->job->n, rank->id, in_place ? output : input);
	call.output = output;
	call.input = in_place ? NULL : input;
	if (taut_comm_run(rank->comm, &call, &err))
		note(rank, false, err.message, __LINE__);
	if (!oracle_right(&call, rank->job->n, rank->id, output)) {
		char what[160];

		snprintf(what, sizeof what, "%s by %s of %llu %s, pass %llu: "
			"the right result", taut_coll_verb_name(call.verb),
			taut_coll_way_name(call.way),
			(unsigned long long)call.count,
			taut_type_name(call.type),
			(unsigned long long)call.pass_bytes);
		note(rank, false, what, __LINE__);
	}
	free(input);
	free(output);
}

static void run_sizes(struct rank *rank, struct taut_coll_call call)
{
	static const uint64_t counts[] = { 0, 1, 2, 5, 17, 64, 1000, 4099 };
	static const uint64_t passes[] = { 0, 0, 0, 8, 16, 64, 1500, 3000 };

	for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		call.count = counts[i];
		call.pass_bytes = passes[i];
		call.passes_at_once = i % 4;
		run_call(rank, call, (i + call.way) % 2);
	}
}

static void run_reductions(struct rank *rank, struct taut_coll_call call)
{
	uint32_t number = 0;

	for (int type = 0; type < TAUT_CARRIED_TYPES; type++) {
		for (int op = 0; op < TAUT_REDUCTIONS; op++) {
			call.type = (enum taut_type)type;
			call.reduction = (enum taut_reduction)op;
			if (taut_reduces(call.type, call.reduction) &&
				number++ % EACH == 0)
				run_sizes(rank, call);
		}
	}
}

static void body_all(struct rank *rank)
{
	for (int verb = 0; verb < TAUT_VERBS; verb++) {
		for (int way = 0; way < TAUT_WAYS; way++) {
			struct taut_coll_call call = {
				.verb = (enum taut_coll_verb)verb,
				.way = (enum taut_coll_way)way,
				.root = (uint32_t)way % rank->job->n };

			if (way != TAUT_WAY_AUTO && !taut_coll_has(
				call.verb, call.way))
				continue;
			if (verb == TAUT_ALLREDUCE && rank->job->n < 4)
				run_reductions(rank, call);
			else
				run_sizes(rank, call);
		}
	}
}

static void test_all(void **state)
{
	(void)state;
	for (uint32_t n = 1; n <= RANKS; n++)
		for (int mode = 0; mode < 2; mode++)
			run_job(n, mode, (n + (uint32_t)mode) % 2, body_all);
}

/* Each differs in one thing from the one before, and comes twice. */
static void body_alike(struct rank *rank)
{
	struct taut_coll_call call = { .count = 64 };

	for (uint32_t i = 0; i < 7; i++) {
		call.reduction = i > 0 ? TAUT_MAX : TAUT_SUM;
		call.type = i > 1 ? TAUT_INT64 : TAUT_INT32;
		call.count += i == 3;
		call.verb = i > 5 ? TAUT_ALLGATHER :
			i > 3 ? TAUT_BROADCAST : TAUT_ALLREDUCE;
		call.root = i == 4 ? rank->job->n - 1 : 0;
		run_call(rank, call, false);
		run_call(rank, call, i == 0);
	}
}

/* A call without memory is none, also after one that is like it. */
static void check_no_output(void)
{
	float data = 1;
	struct taut_coll_call call = { .output = &data, .count = 1 };
	struct taut_comm *comm;

	assert_int_equal(taut_comm_create_inproc(1, &comm, NULL), TAUT_OK);
	assert_int_equal(taut_comm_run(comm, &call, NULL), TAUT_OK);
	call.output = NULL;
	assert_int_equal(taut_comm_run(comm, &call, NULL), TAUT_EINVAL);
	taut_comm_destroy(comm);
}

static void test_alike(void **state)
{
	(void)state;
	check_no_output();
	for (uint32_t n = 1; n <= 3; n++)
		run_job(n, n % 2, false, body_alike);
}

/* --- the order of the ranks ------------------------------------------------------------*/

static float draw_float(uint32_t rank, uint64_t at)
{
	uint32_t x = (uint32_t)(at * 2654435761u + rank * 2246822519u);

	x ^= x >> 15;
	x *= 2246822519u;
	return (float)(int32_t)x * (rank % 2 ? 1e-3f : 1e-9f);
}

static void run_ordered(struct rank *rank, struct taut_coll_call call)
{
	float *data = calloc(call.count, sizeof *data);

	if (!data)
		abort();
	for (uint64_t i = 0; i < call.count; i++)
		data[i] = draw_float(rank->id, i);
	call.output = data;
	EXPECT(rank, !taut_comm_run(rank->comm, &call, NULL));
	for (uint64_t i = 0; i < call.count; i++) {
		float sum = draw_float(0, i);

		for (uint32_t k = 1; k < rank->job->n; k++) {
			volatile float next = sum + draw_float(k, i);

			sum = next;
		}
		if (memcmp(&sum, &data[i], sizeof sum) != 0) {
			EXPECT(rank, !"the sum in the order of the ranks");
			break;
		}
	}
	free(data);
}

static void body_ordered(struct rank *rank)
{
	static const uint64_t counts[] = { 1, 3, 100, 2000, 50000 };

	for (uint32_t i = 0; i < 5; i++)
		for (uint32_t k = 0; k < 6; k++)
			run_ordered(rank, (struct taut_coll_call){
				.verb = TAUT_ALLREDUCE, .count = counts[i],
				.way = k % 3 == 0 ? TAUT_WAY_AUTO : k % 3 == 1 ?
				TAUT_WAY_FLAT : TAUT_WAY_DIRECT,
				.pass_bytes = k / 3 ? 444 * (uint64_t)i : 0,
				.ordered = true });
}

static void test_ordered(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= 5; n++)
		run_job(n, n % 2, n % 2 == 0, body_ordered);
}

/* --- many at once ----------------------------------------------------------------------*/

enum { MANY = 40, TWINS = 3 };

struct many {
	uint32_t n_over;
	float data[TWINS][MANY][64];
};

static void count_over(void *context, taut_status status)
{
	struct many *many = context;

	many->n_over += status == TAUT_OK;
}

/* Each rank goes through the twins in an order of its own. */
static void body_many(struct rank *rank)
{
	struct many *many = calloc(1, sizeof *many);
	struct taut_comm *comms[TWINS] = { rank->comm };

	if (!many)
		abort();
	EXPECT(rank, !taut_comm_twin(rank->comm, &comms[1], NULL));
	EXPECT(rank, !taut_comm_twin(rank->comm, &comms[2], NULL));
	for (uint32_t t = 0; t < TWINS; t++) {
		uint32_t twin = (rank->id + t) % TWINS;

		for (uint32_t i = 0; i < MANY; i++) {
			struct taut_coll_call call = { .verb = TAUT_ALLREDUCE,
				.output = many->data[twin][i],
				.count = 1 + (i + twin) % 64,
				.pass_bytes = i % 3 * 40, .passes_at_once = 2 };

			oracle_fill(&call, rank->job->n, rank->id, call.output);
			EXPECT(rank, !taut_comm_start(comms[twin], &call,
				count_over, many, NULL));
		}
	}
	while (many->n_over < TWINS * MANY) {
		EXPECT(rank, !taut_comm_progress(rank->comm, NULL));
		if (many->n_over < TWINS * MANY)
			EXPECT(rank, !taut_comm_wait(rank->comm, -1, NULL));
	}
	for (uint32_t t = 0; t < TWINS; t++)
		for (uint32_t i = 0; i < MANY; i++) {
			struct taut_coll_call call = { .verb = TAUT_ALLREDUCE,
				.count = 1 + (i + t) % 64 };

			EXPECT(rank, oracle_right(&call, rank->job->n,
				rank->id, many->data[t][i]));
		}
	EXPECT(rank, !taut_comm_barrier(comms[1], NULL));
	taut_comm_destroy(comms[1]);
	EXPECT(rank, !taut_comm_barrier(comms[2], NULL));
	taut_comm_destroy(comms[2]);
	EXPECT(rank, !taut_comm_barrier(comms[0], NULL));
	free(many);
}

static void test_many(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= 4; n++)
		run_job(n, n % 2, false, body_many);
}

/* A call that the end of another begins, and again, deep. */
struct chain {
	struct rank *rank;
	uint32_t left;
	float value;
	bool over;
};

static void begin_next(void *context, taut_status status)
{
	struct chain *chain = context;
	const struct taut_coll_call call = { .verb = TAUT_ALLREDUCE,
		.output = &chain->value, .count = 1 };

	EXPECT(chain->rank, !status);
	if (!chain->left--) {
		chain->over = true;
		return;
	}
	chain->value = 1;
	EXPECT(chain->rank, !taut_comm_start(chain->rank->comm, &call,
		begin_next, chain, NULL));
}

static void body_chain(struct rank *rank)
{
	/* Alone, each call ends before it has begun: on the stack. */
	struct chain chain = { .rank = rank,
		.left = rank->job->n > 1 ? 3000 : 300 };

	begin_next(&chain, TAUT_OK);
	while (!chain.over) {
		EXPECT(rank, !taut_comm_progress(rank->comm, NULL));
		if (!chain.over)
			EXPECT(rank, !taut_comm_wait(rank->comm, -1, NULL));
	}
	EXPECT(rank, chain.value == (float)rank->job->n);
}

static void test_chain(void **state)
{
	(void)state;
	run_job(1, true, false, body_chain);
	run_job(2, true, false, body_chain);
}

/* --- asked, woken ----------------------------------------------------------------------*/

static void body_asked(struct rank *rank)
{
	struct taut_comm *twin;
	bool last = rank->id + 1 == rank->job->n;

	EXPECT(rank, !taut_comm_twin(rank->comm, &twin, NULL));
	for (int i = 0; i < 20; i++) {
		EXPECT(rank, !taut_comm_asked(twin) || !last);
		EXPECT(rank, !taut_comm_barrier(rank->comm, NULL));
		while (last && !taut_comm_asked(twin)) {
			EXPECT(rank, !taut_comm_progress(rank->comm, NULL));
			if (!taut_comm_asked(twin))
				EXPECT(rank, !taut_comm_wait(
					rank->comm, -1, NULL));
		}
		EXPECT(rank, !taut_comm_barrier(twin, NULL));
	}
	taut_comm_destroy(twin);
}

static void *wake_later(void *context)
{
	struct rank *rank = context;
	const struct timespec time = { 0, 10000000 };

	nanosleep(&time, NULL);
	taut_comm_wake(rank->comm);
	return NULL;
}

static void body_woken(struct rank *rank)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, wake_later, rank))
		abort();
	EXPECT(rank, !taut_comm_wait(rank->comm, -1, NULL));
	pthread_join(thread, NULL);
	EXPECT(rank, !taut_comm_wait(rank->comm, 1000000, NULL));
	EXPECT(rank, !taut_comm_barrier(rank->comm, NULL));
}

static void test_asked(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= 4; n++)
		run_job(n, true, false, body_asked);
	run_job(3, true, false, body_woken);
}

/* --- ranks that go ---------------------------------------------------------------------*/

/* Rank 1 leaves in the midst of calls; all others hear so, and ever after. */
static void body_gone(struct rank *rank)
{
	float data[500] = { 0 };
	struct taut_coll_call call = { .verb = TAUT_ALLREDUCE, .output = data,
		.count = 500, .pass_bytes = 400, .passes_at_once = 2 };
	struct taut_error err = { .offset = -1 };
	taut_status status = TAUT_OK;

	for (int i = 0; i < 10000 && !status; i++) {
		if (rank->id == 1 && i == 30)
			return;
		call.way = i % 2 ? TAUT_WAY_RING : TAUT_WAY_DIRECT;
		status = taut_comm_run(rank->comm, &call, &err);
	}
	EXPECT(rank, status == TAUT_EIO);
	EXPECT(rank, strcmp(err.message, "rank 1 is gone") == 0);
	EXPECT(rank, taut_comm_run(rank->comm, &call, &err) == TAUT_EIO);
	EXPECT(rank, taut_comm_progress(rank->comm, &err) == TAUT_EIO);
	EXPECT(rank, taut_comm_wait(rank->comm, -1, &err) == TAUT_EIO);
	EXPECT(rank, !taut_comm_asked(rank->comm));
	EXPECT(rank, strcmp(err.message, "rank 1 is gone") == 0);
	taut_comm_wake(rank->comm);
}

/* The watcher says so, while the rank sleeps in a call that never ends. */
static void *lose_later(void *context)
{
	struct rank *rank = context;
	const struct timespec time = { 0, 10000000 };
	struct taut_error why;

	nanosleep(&time, NULL);
	taut_error_set(&why, TAUT_EIO, -1, "rank 7 of another world is lost");
	tauti_hub_lose(rank->comm->hub, &why);
	taut_error_set(&why, TAUT_EIO, -1, "this comes too late");
	tauti_hub_lose(rank->comm->hub, &why);
	return NULL;
}

static void body_lost(struct rank *rank)
{
	struct taut_error err = { .offset = -1 };
	pthread_t thread;

	if (rank->id == 1)
		return; /* destroys when told; others never hear of it first */
	if (pthread_create(&thread, NULL, lose_later, rank))
		abort();
	EXPECT(rank, taut_comm_wait(rank->comm, 5000000000, &err) == TAUT_OK ||
		err.code == TAUT_EIO);
	pthread_join(thread, NULL);
	EXPECT(rank, taut_comm_barrier(rank->comm, &err) == TAUT_EIO);
	EXPECT(rank, strcmp(err.message,
		"rank 7 of another world is lost") == 0);
}

/* Ranks that do not call the same. */
static void body_unlike(struct rank *rank)
{
	float data[8] = { 0 };
	struct taut_coll_call call = { .verb = TAUT_ALLREDUCE, .output = data,
		.count = 4 + rank->id, .way = TAUT_WAY_FLAT };
	struct taut_error err = { .offset = -1 };
	taut_status status = taut_comm_run(rank->comm, &call, &err);

	EXPECT(rank, status == TAUT_EMATCH || status == TAUT_EIO);
	EXPECT(rank, status != TAUT_EMATCH ||
		strstr(err.message, "another length"));
}

/* The last rank does not come until all others have had enough of waiting. Who
 * fails first names it; its end may be what the next ones see. */
static void await_others(struct rank *rank)
{
	const struct timespec time = { 0, 1000000 };

	while (atomic_load(&rank->job->n_late) < rank->job->n - 1)
		nanosleep(&time, NULL);
}

static void note_late(struct rank *rank, taut_status status,
	const struct taut_error *err, const char *what)
{
	char line[120];

	snprintf(line, sizeof line, "rank %u: %s: what rank %u sends did not "
		"come within 0.05 s", rank->id, what, rank->job->n - 1);
	EXPECT(rank, status == TAUT_EIO);
	if (strcmp(err->message, line) == 0)
		atomic_fetch_add(&rank->job->n_named, 1);
	atomic_fetch_add(&rank->job->n_late, 1);
	await_others(rank);
	EXPECT(rank, atomic_load(&rank->job->n_named) > 0);
}

static void body_late_barrier(struct rank *rank)
{
	struct taut_error err = { .offset = -1 };

	if (rank->id == rank->job->n - 1) {
		await_others(rank);
		return;
	}
	rank->comm->hub->call_within_ns = 50000000;
	note_late(rank, taut_comm_barrier(rank->comm, &err), &err, "a barrier");
}

static void body_late_call(struct rank *rank)
{
	float data[60] = { 0 };
	struct taut_coll_call call = { .verb = TAUT_ALLREDUCE, .output = data,
		.count = 60, .way = TAUT_WAY_DIRECT };
	struct taut_error err = { .offset = -1 };

	if (rank->id == rank->job->n - 1) {
		await_others(rank);
		return;
	}
	rank->comm->hub->call_within_ns = 50000000;
	note_late(rank, taut_comm_run(rank->comm, &call, &err), &err,
		"allreduce");
}

/* The limit is that of a call: many that are well take longer together. */
static void body_in_time(struct rank *rank)
{
	const struct timespec time = { 0, 2000000 };
	struct taut_error err = { .offset = -1 };

	rank->comm->hub->call_within_ns = INT64_C(20000000000);
	for (int i = 0; i < 20; i++) {
		if (rank->id == i % rank->job->n)
			nanosleep(&time, NULL);
		EXPECT(rank, taut_comm_barrier(rank->comm, &err) == TAUT_OK);
	}
}

static void test_late(void **state)
{
	(void)state;
	run_job(2, false, false, body_late_barrier);
	run_job(2, false, false, body_late_call);
	run_job(4, false, true, body_late_barrier);
	run_job(3, true, true, body_in_time);
}

static void test_failures(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= 5; n++)
		run_job(n, n % 2, false, body_gone);
	run_job(2, true, false, body_lost);
	run_job(2, true, false, body_unlike);
	run_job(3, false, false, body_unlike);
}

/* --- what there is not -----------------------------------------------------------------*/

static void never(void *context, taut_status status)
{
	(void)context;
	(void)status;
	fail();
}

static void expect_invalid(
	struct taut_comm *comm, struct taut_coll_call call, const char *what)
{
	struct taut_error err = { .offset = -1 };

	assert_int_equal(taut_comm_start(comm, &call, never, NULL, &err),
		TAUT_EINVAL);
	assert_non_null(strstr(err.message, what));
}

static void test_invalid(void **state)
{
	float data[2] = { 1, 2 };
	struct taut_coll_call good = { .output = data, .count = 2 }, bad = good;
	struct taut_comm *comms[2], *twins[15], *none;

	(void)state;
	assert_int_equal(taut_comm_create_inproc(0, comms, NULL), TAUT_EINVAL);
	assert_int_equal(taut_comm_create_inproc(2, comms, NULL), TAUT_OK);
	bad.verb = TAUT_VERBS;
	expect_invalid(comms[0], bad, "verb");
	bad = good;
	bad.type = TAUT_CARRIED_TYPES;
	expect_invalid(comms[0], bad, "type");
	bad = good;
	bad.reduction = TAUT_BIT_AND;
	expect_invalid(comms[0], bad, "reduction");
	bad = good;
	bad.verb = TAUT_BROADCAST;
	bad.root = 2;
	expect_invalid(comms[0], bad, "root");
	bad.root = 0;
	bad.way = TAUT_WAY_RING;
	expect_invalid(comms[0], bad, "way");
	bad = good;
	bad.way = TAUT_WAY_RING;
	bad.ordered = true;
	expect_invalid(comms[0], bad, "order");
	bad = good;
	bad.output = NULL;
	expect_invalid(comms[0], bad, "output");
	bad.count = UINT64_C(1) << 48;
	bad.output = data;
	expect_invalid(comms[0], bad, "2^48");
	assert_int_equal(taut_comm_rank(comms[1]), 1);
	assert_int_equal(taut_comm_size(comms[1]), 2);
	assert_string_equal(taut_comm_engine(comms[1]), "inproc");
	for (int i = 0; i < 15; i++)
		assert_int_equal(
			taut_comm_twin(comms[0], &twins[i], NULL), TAUT_OK);
	assert_int_equal(taut_comm_twin(comms[0], &none, NULL), TAUT_EINVAL);
	taut_comm_destroy(twins[4]);
	assert_int_equal(taut_comm_twin(twins[3], &twins[4], NULL), TAUT_OK);
	for (int i = 0; i < 15; i++)
		taut_comm_destroy(twins[i]);
	taut_comm_destroy(comms[0]);
	taut_comm_destroy(comms[1]);
	taut_comm_destroy(NULL);
}

/* --- memory that is short --------------------------------------------------------------*/

struct outcome {
	uint32_t n_done, n_good;
};

static void note_outcome(void *context, taut_status status)
{
	struct outcome *outcome = context;

	outcome->n_done++;
	outcome->n_good += status == TAUT_OK;
}

/* Both ranks by one thread; what says that nothing began may be tried again. */
static bool start_short(struct taut_comm **comms, float data[][300], uint32_t i,
	struct outcome *outcome, bool *short_of)
{
	struct taut_coll_call call = { .verb = TAUT_ALLREDUCE, .count = 300,
		.output = data[i], .pass_bytes = 400, .passes_at_once = 2,
		.way = TAUT_WAY_DIRECT };
	taut_status status =
		taut_comm_start(comms[i], &call, note_outcome, outcome, NULL);

	if (status == TAUT_ENOMEM && !outcome->n_done) {
		*short_of = true;
		alloc_fail_never();
		status = taut_comm_start(
			comms[i], &call, note_outcome, outcome, NULL);
	}
	return status == TAUT_OK;
}

/* The n-th request fails; false: there were not so many. */
static bool run_short(struct taut_comm **comms, long n)
{
	static float data[2][300];
	struct outcome outcomes[2] = { { 0, 0 }, { 0, 0 } };
	uint32_t n_begun[2] = { 0, 0 };
	bool short_of = false;

	for (uint32_t i = 0; i < 2; i++)
		n_begun[i] = start_short(
			comms, data, i, &outcomes[i], &short_of);
	for (int k = 0; k < 200; k++)
		(void)!taut_comm_progress(comms[k % 2], NULL);
	short_of = short_of || alloc_fail_count() > n;
	alloc_fail_never();
	taut_comm_destroy(comms[0]);
	taut_comm_destroy(comms[1]);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(outcomes[i].n_done, n_begun[i]);
		if (!short_of)
			assert_int_equal(outcomes[i].n_good, 1);
	}
	return short_of;
}

static void test_no_memory(void **state)
{
	struct taut_comm *comms[2];
	taut_status status;
	long n = 0;

	(void)state;
	for (;; n++) {
		alloc_fail_after(n);
		status = taut_comm_create_inproc(2, comms, NULL);
		if (!status && !run_short(comms, n))
			break;
		alloc_fail_never();
		assert_true(!status || status == TAUT_ENOMEM);
		assert_true(n < 1000);
	}
	assert_true(n > 10);
}

/* The second call of a shape asks for nothing: only the engine does, for what it
 * keeps of each message. */
static void test_no_allocation(void **state)
{
	struct outcome outcome = { 0, 0 };
	struct taut_comm *comms[1];
	float data[100] = { 0 };
	struct taut_coll_call call = { .output = data, .count = 100,
		.pass_bytes = 64, .passes_at_once = 3 };

	(void)state;
	assert_int_equal(taut_comm_create_inproc(1, comms, NULL), TAUT_OK);
	for (int i = 0; i < 10; i++) {
		if (i == 1)
			alloc_fail_after(0);
		assert_int_equal(taut_comm_start(comms[0], &call, note_outcome,
			&outcome, NULL), TAUT_OK);
	}
	alloc_fail_never();
	assert_int_equal(outcome.n_good, 10);
	taut_comm_destroy(comms[0]);
}

/* More shapes than are kept. */
static void body_shapes(struct rank *rank)
{
	for (uint64_t i = 0; i < 2 * TAUTI_PLANS + 50; i++) {
		struct taut_coll_call call = { .verb = TAUT_ALLREDUCE,
			.count = 1 + i % (TAUTI_PLANS + 20),
			.way = i % 7 ? TAUT_WAY_RING : TAUT_WAY_FLAT };

		run_call(rank, call, i % 2);
	}
	EXPECT(rank, rank->comm->hub->plans.count <= TAUTI_PLANS);
}

static void test_shapes(void **state)
{
	(void)state;
	run_job(2, true, false, body_shapes);
}

/* --- an engine that lives longer --------------------------------------------------------*/

/* Keeps what it is asked for, and moves nothing. */
struct keeper {
	const uint8_t *sent;
	uint8_t *received;
	struct taut_coll_request *requests[2];
};

static taut_status keep_send(void *engine, const uint32_t *peers,
	uint32_t n_peers, uint64_t tag, const void *data, size_t bytes,
	struct taut_coll_request *request, struct taut_error *err)
{
	struct keeper *keeper = engine;

	(void)peers, (void)n_peers, (void)tag, (void)bytes, (void)err;
	keeper->sent = data;
	keeper->requests[0] = request;
	return TAUT_OK;
}

static taut_status keep_recv(void *engine, uint32_t peer, uint64_t tag,
	void *data, size_t bytes, struct taut_coll_request *request,
	struct taut_error *err)
{
	struct keeper *keeper = engine;

	(void)peer, (void)tag, (void)bytes, (void)err;
	keeper->received = data;
	keeper->requests[1] = request;
	return TAUT_OK;
}

static taut_status keep_failing(void *engine, struct taut_error *err)
{
	(void)engine;
	return taut_error_set(err, TAUT_EIO, -1, "the keeper is tired");
}

static taut_status keep_waiting(
	void *engine, int64_t timeout_ns, struct taut_error *err)
{
	(void)engine, (void)timeout_ns, (void)err;
	return TAUT_OK;
}

static void keep_awake(void *engine)
{
	(void)engine;
}

static bool keep_nothing(void *engine, uint64_t tag, uint64_t mask)
{
	(void)engine, (void)tag, (void)mask;
	return false;
}

/* What a barrier sums is the engine's until its requests are done, also when the
 * communicator is long gone. */
static void test_barrier_kept(void **state)
{
	static const struct taut_coll_engine table = { .name = "keeper",
		.send = keep_send, .recv = keep_recv, .progress = keep_failing,
		.wait = keep_waiting, .wake = keep_awake,
		.arrived = keep_nothing };
	struct keeper keeper = { 0 };
	struct taut_comm *comm;

	(void)state;
	assert_int_equal(taut_comm_create_over(
		&table, &keeper, 0, 2, NULL, &comm, NULL), TAUT_OK);
	assert_int_equal(taut_comm_barrier(comm, NULL), TAUT_EIO);
	taut_comm_destroy(comm);
	assert_non_null(keeper.sent);
	assert_int_equal(*keeper.sent, 0); /* what is freed is not 0 in tests */
	for (int i = 0; i < 2; i++)
		if (keeper.requests[i])
			keeper.requests[i]->done(keeper.requests[i], TAUT_EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_alike),
		cmocka_unit_test(test_ordered),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_chain),
		cmocka_unit_test(test_asked),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_invalid),
		cmocka_unit_test(test_barrier_kept),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_no_allocation),
		cmocka_unit_test(test_shapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

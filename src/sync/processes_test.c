/* Ranks that are processes, over the engines of real jobs: sums, a rank that is
 * killed in the midst of them, one that leaves. Everybody else is told
 * within the communicator's bound, by a line that names the rank. */
#include "tests/support/ranks.h"

#include <signal.h>

#include <taut/sync.h>

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined __SANITIZE_THREAD__ || __has_feature(thread_sanitizer)
static const bool with_ucx = false; /* ends in it with SIGSEGV after fork() */
#else
static const bool with_ucx = true;
#endif

enum { TASKS = 8, COUNT = 20000, ITERATIONS = 12, KILLED_AT = 5 };

static const int64_t second_ns = 1000000000;

struct job {
	const char *engine, *meet;
	uint32_t rank, n_ranks, victim; /* victim: TAUT_NONE: none */
	bool leaves; /* the victim, in peace; else it is killed */
	struct taut_comm *comm;
	struct taut_sync *sync;
	float *values[TASKS];
};

#define EXPECT(job, condition) \
	do { \
		if (condition) \
			break; \
		fprintf(stderr, "%s:%d: rank %u of %u, %s: not so: %s\n", \
			__FILE__, __LINE__, (job)->rank, (job)->n_ranks, \
			(job)->engine, #condition); \
		return 1; \
	} while (0)

static uint64_t count_of(uint32_t task)
{
	return task % 2 ? COUNT : 3 + task;
}

static int create(struct job *job)
{
	struct taut_comm_options options = { .rank = job->rank,
		.n_ranks = job->n_ranks, .meet = job->meet, .secret = "of a test",
		.engine = job->engine, .lost_after_ns = 2 * second_ns };
	struct taut_sync_options how = { .piece_bytes = 1 << 14,
		.credit_bytes = 1 << 15, .fuse_bytes = 4096, .ordered = true };
	struct taut_error err;
	uint32_t task;

	if (taut_comm_create(&options, &job->comm, &err)) {
		fprintf(stderr, "%s\n", err.message);
		return 1;
	}
	EXPECT(job, !taut_sync_create(job->comm, &how, &job->sync, &err));
	for (uint32_t t = 0; t < TASKS; t++) {
		job->values[t] = calloc(count_of(t), sizeof(float));
		EXPECT(job, job->values[t]);
		EXPECT(job, !taut_sync_declare(job->sync, TAUT_FLOAT32,
			count_of(t), (int64_t)t, 0.5, &task, &err));
	}
	return 0;
}

static void destroy(struct job *job)
{
	taut_sync_destroy(job->sync);
	taut_comm_destroy(job->comm);
	for (uint32_t t = 0; t < TASKS; t++)
		free(job->values[t]);
}

/* The last gradients first, on odd ranks in another order. */
static taut_status iterate(struct job *job, uint32_t iteration,
	struct taut_error *err)
{
	bool ends = job->rank == job->victim && iteration == KILLED_AT;
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; i < TASKS && !status; i++) {
		uint32_t t = TASKS - 1 - (job->rank % 2 ? i ^ 1 : i);

		for (uint64_t k = 0; k < count_of(t); k++)
			job->values[t][k] = (float)(job->rank + t + iteration);
		if (ends && i == TASKS / 2)
			raise(SIGKILL);
		status = taut_sync_ready(job->sync, t, job->values[t], err);
	}
	return status ? status : taut_sync_wait(job->sync, TAUT_NONE, -1, err);
}

static int check(const struct job *job, uint32_t iteration)
{
	uint32_t n = job->n_ranks;

	for (uint32_t t = 0; t < TASKS; t++)
		for (uint64_t k = 0; k < count_of(t); k++)
			EXPECT(job, job->values[t][k] == (float)(n * (n - 1) / 2 +
				n * (t + iteration)) / 2);
	return 0;
}

static int live(struct job *job)
{
	struct taut_error err = { .message = "" };
	char name[16];

	for (uint32_t i = 1; i <= ITERATIONS; i++) {
		int64_t begin_ns = ranks_now_ns();

		if (job->leaves && job->rank == job->victim && i == KILLED_AT)
			return 0;
		if (!iterate(job, i, &err)) {
			if (check(job, i))
				return 1;
			continue;
		}
		/* One that goes on meets who left, and ends others in turn. */
		snprintf(name, sizeof name, "rank %u", job->victim);
		name[job->leaves ? 5 : 15] = '\0';
		if (!strstr(err.message, name))
			fprintf(stderr, "%s\n", err.message);
		EXPECT(job, job->victim != TAUT_NONE);
		EXPECT(job, i == KILLED_AT || i == KILLED_AT - 1);
		EXPECT(job, err.code == TAUT_EIO && strstr(err.message, name));
		EXPECT(job, ranks_now_ns() - begin_ns < 20 * second_ns);
		return 0;
	}
	EXPECT(job, job->victim == TAUT_NONE);
	return 0;
}

static void run_job(const char *engine, uint32_t n_ranks, uint32_t victim,
	bool leaves)
{
	char meet[32];
	pid_t ids[4];

	snprintf(meet, sizeof meet, "127.0.0.1:%u", ranks_free_port());
	for (uint32_t i = 0; i < n_ranks; i++) {
		struct job job = { .engine = engine, .meet = meet, .rank = i,
			.n_ranks = n_ranks, .victim = victim,
			.leaves = leaves };
		int fault;

		ids[i] = fork();
		assert_true(ids[i] >= 0);
		if (ids[i])
			continue;
		fault = create(&job) || live(&job);
		destroy(&job);
		_exit(fault);
	}
	for (uint32_t i = 0; i < n_ranks; i++) {
		int status;

		assert_int_equal(waitpid(ids[i], &status, 0), ids[i]);
		if (status)
			fprintf(stderr, "%s: rank %u of %u: status %#x\n",
				engine, i, n_ranks, (unsigned)status);
		if (i == victim && !leaves)
			assert_true(WIFSIGNALED(status));
		else
			assert_int_equal(status, 0);
	}
}

static void test_sums(void **state)
{
	(void)state;
	run_job("shm", 2, TAUT_NONE, false);
	run_job("shm", 4, TAUT_NONE, false);
	if (with_ucx)
		run_job("ucx", 3, TAUT_NONE, false);
}

static void test_killed(void **state)
{
	(void)state;
	for (uint32_t victim = 0; victim < 3; victim++)
		run_job("shm", 3, victim, false);
	if (with_ucx)
		run_job("ucx", 3, 1, false);
}

static void test_leaves(void **state)
{
	(void)state;
	for (uint32_t victim = 0; victim < 3; victim++)
		run_job("shm", 3, victim, true);
	if (with_ucx)
		run_job("ucx", 3, 1, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_leaves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A rank that forks: its child has no part in the communicator, says so, and harms
 * nothing, whatever it calls; the rank goes on. */
#include "tests/support/ranks.h"

#include <string.h>

#include "coll/coll.h"

struct job {
	char meet[40];
	const char *engine;
};

#define EXPECT(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "fork_test.c:%d: not so: %s\n", \
				__LINE__, #what); \
			return 1; \
		} \
	} while (0)

static void never(void *context, taut_status status)
{
	(void)status;
	*(bool *)context = true;
}

static taut_status sum(struct taut_comm *comm, uint64_t count, uint8_t *data,
	struct taut_error *err)
{
	struct taut_coll_call call = { .type = TAUT_UINT8, .output = data,
		.count = count };

	return taut_comm_run(comm, &call, err);
}

static int refuses(struct taut_comm *comm, struct taut_comm *twin)
{
	uint8_t data[8] = { 0 };
	bool called = false;
	struct taut_coll_call call = { .type = TAUT_UINT8, .output = data,
		.count = 8 };
	struct taut_error err = { .message = "" };
	struct taut_comm *other;

	EXPECT(sum(comm, 8, data, &err) == TAUT_EIO);
	EXPECT(strstr(err.message, "this process was forked"));
	EXPECT(taut_comm_start(twin, &call, never, &called, &err) == TAUT_EIO);
	EXPECT(!called);
	EXPECT(taut_comm_barrier(comm, &err) == TAUT_EIO);
	EXPECT(taut_comm_progress(comm, &err) == TAUT_EIO);
	EXPECT(taut_comm_wait(comm, -1, &err) == TAUT_EIO);
	EXPECT(taut_comm_twin(comm, &other, &err) == TAUT_EIO);
	EXPECT(!taut_comm_asked(comm));
	taut_comm_wake(comm);
	EXPECT(taut_comm_size(comm) > 1);
	taut_comm_destroy(twin);
	taut_comm_destroy(comm);
	return 0;
}

/* With a call of the twin under way, as is the case when a thread of it forks. */
static int fork_in_midst(struct taut_comm *comm, struct taut_comm *twin)
{
	uint32_t n = taut_comm_size(comm), rank = taut_comm_rank(comm);
	uint8_t data[3000] = { 0 }, mine = (uint8_t)(rank + 1);
	struct taut_coll_call call = { .type = TAUT_UINT8, .output = data,
		.count = sizeof data };
	bool over = false;
	int status = 1;
	pid_t pid;

	memset(data, (int)mine, sizeof data);
	EXPECT(!taut_comm_start(twin, &call, never, &over, NULL));
	pid = fork();
	EXPECT(pid >= 0);
	if (pid == 0)
		_exit(refuses(comm, twin));
	EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
	EXPECT(!sum(comm, 1, &mine, NULL));
	EXPECT(mine == n * (n + 1) / 2);
	while (!over) {
		EXPECT(!taut_comm_wait(twin, -1, NULL));
		EXPECT(!taut_comm_progress(twin, NULL));
	}
	EXPECT(data[0] == mine && data[2999] == mine);
	return 0;
}

static int run_one(const struct job *job, uint32_t rank, uint32_t n_ranks)
{
	const struct taut_comm_options options = { .rank = rank,
		.n_ranks = n_ranks, .meet = job->meet, .secret = "of a test",
		.engine = job->engine };
	struct taut_error err = { .message = "" };
	struct taut_comm *comm, *twin;
	int failed = 0;

	alarm(60);
	if (taut_comm_create(&options, &comm, &err)) {
		fprintf(stderr, "rank %u: %s\n", rank, err.message);
		return 1;
	}
	EXPECT(!taut_comm_twin(comm, &twin, NULL));
	for (int i = 0; i < 3 && !failed; i++)
		failed = fork_in_midst(comm, twin);
	taut_comm_destroy(twin);
	taut_comm_destroy(comm);
	return failed;
}

static void run_job(const char *engine, uint32_t n_ranks)
{
	struct job job = { .engine = engine };
	pid_t pids[RANKS_MOST];

	snprintf(job.meet, sizeof job.meet, "127.0.0.1:%u", ranks_free_port());
	for (uint32_t i = 0; i < n_ranks; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0)
			_exit(run_one(&job, i, n_ranks));
	}
	for (uint32_t i = 0; i < n_ranks; i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
}

static void test_shm(void **state)
{
	(void)state;
	run_job("shm", 3);
}

static void test_ucx(void **state)
{
	(void)state;
	run_job("ucx", 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shm),
		cmocka_unit_test(test_ucx),
	};

	ranks_ucx_in_sanitizer();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

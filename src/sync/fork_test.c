/* A process that forks while the thread moves: the child's copy says what it is, and
 * destroying it harms nothing. */
#include "sync/ranks.h"

#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 50000, ITERATIONS = 4 };

#define EXPECT(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "fork_test.c:%d: not so: %s\n", \
				__LINE__, #what); \
			return 1; \
		} \
	} while (0)

static int refuses(struct taut_sync *sync, struct taut_comm *comm)
{
	uint8_t byte = 0;
	struct taut_coll_call call = { .type = TAUT_UINT8, .output = &byte,
		.count = 1 };
	struct taut_sync_options options = { .ordered = true };
	struct taut_error err = { .message = "" };
	struct taut_sync_counts counts;
	struct taut_sync *other;
	uint32_t task;

	EXPECT(taut_sync_ready(sync, 0, NULL, &err) == TAUT_EIO);
	EXPECT(strstr(err.message, "this process was forked"));
	EXPECT(taut_sync_declare(sync, TAUT_INT32, 1, 0, 0, &task, &err) ==
		TAUT_EIO);
	EXPECT(taut_sync_wait(sync, TAUT_NONE, -1, &err) == TAUT_EIO);
	EXPECT(taut_sync_next(sync, -1, &task, &err) == TAUT_EIO);
	EXPECT(taut_sync_tune(sync, 1, 1, 1, &err) == TAUT_EIO);
	EXPECT(taut_sync_run(sync, &call, &err) == TAUT_EIO);
	EXPECT(taut_sync_create(comm, &options, &other, &err) == TAUT_EIO);
	taut_sync_fail(sync, TAUT_EIO, "nobody hears");
	taut_sync_counts(sync, &counts);
	EXPECT(counts.messages == 0);
	taut_sync_destroy(sync);
	taut_comm_destroy(comm);
	return 0;
}

/* Whatever the threads hold as it forks, the child waits for none. */
static void fork_while_summing(struct rank *rank)
{
	int32_t *values = calloc(COUNT, sizeof *values);
	uint32_t task;

	RANK_OK(rank, taut_sync_declare(
		rank->sync, TAUT_INT32, COUNT, 0, 0, &task, why));
	for (int i = 0; i < ITERATIONS; i++) {
		int status = 1;
		pid_t pid;

		for (int k = 0; k < COUNT; k++)
			values[k] = k;
		RANK_OK(rank, taut_sync_ready(rank->sync, task, values, why));
		pid = fork();
		if (pid == 0)
			_exit(refuses(rank->sync, rank->comm));
		RANK_CHECK(rank, waitpid(pid, &status, 0) == pid && !status);
		RANK_OK(rank, taut_sync_wait(rank->sync, task, -1, why));
		for (int k = 0; k < COUNT; k++)
			RANK_CHECK(rank, values[k] == 2 * k);
	}
	free(values);
}

static void test_fork(void **state)
{
	const struct taut_sync_options options = { .piece_bytes = 4096,
		.credit_bytes = 8192 };
	struct ranks ranks;

	(void)state;
	ranks_create(&ranks, 2, &options);
	ranks_each(&ranks, fork_while_summing);
	ranks_destroy(&ranks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fork),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

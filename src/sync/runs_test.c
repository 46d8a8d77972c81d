/* Runs that are begun and waited for later: in any order, by any number of threads;
 * how they end when a rank leaves, memory runs out, or there is no such call. */
#include "sync/ranks.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/alloc_fail.h"

static const struct taut_sync_options PLAIN = { .ordered = true };

enum { RUNS = 24, LONGEST = 5000 };

static uint64_t start(struct rank *rank, float *values, uint64_t count)
{
	struct taut_coll_call call = { .type = TAUT_FLOAT32,
		.output = values, .count = count, .ordered = true };
	uint64_t run = UINT64_MAX;

	RANK_OK(rank, taut_sync_start(rank->sync, &call, &run, why));
	return run;
}

static void finish(struct rank *rank, uint64_t run)
{
	RANK_OK(rank, taut_sync_finish(rank->sync, run, -1, why));
}

/* --- in any order --------------------------------------------------------------------*/

static uint64_t count_of(uint64_t run)
{
	return run % 3 ? run + 1 : LONGEST - run;
}

static void several(struct rank *rank)
{
	float (*values)[LONGEST] = calloc(RUNS, sizeof *values);
	uint64_t runs[RUNS], barrier = 0, mine = rank->id;
	float sum = (float)(rank->all->n * (rank->all->n + 1) / 2);

	if (!values) {
		RANK_CHECK(rank, !"memory");
		return;
	}
	for (uint64_t i = 0; i < RUNS; i++) {
		for (uint64_t k = 0; k < LONGEST; k++)
			values[i][k] = (float)((rank->id + 1) * (i + k));
		runs[i] = start(rank, values[i], count_of(i));
		if (i % 7 == 3)
			finish(rank, runs[ranks_below(&mine, i + 1)]);
	}
	RANK_OK(rank, taut_sync_start(rank->sync, NULL, &barrier, why));
	finish(rank, barrier);
	for (uint64_t i = RUNS; i--;) {
		finish(rank, runs[i]);
		finish(rank, runs[i]);
		RANK_CHECK(rank, runs[i] == i);
		for (uint64_t k = 0; k < LONGEST; k++)
			RANK_CHECK(rank, values[i][k] == (float)(i + k) *
				(k < count_of(i) ? sum : (float)(rank->id + 1)));
	}
	free(values);
}

static void test_several(void **state)
{
	struct ranks ranks;

	(void)state;
	for (uint32_t n = 1; n <= SYNC_RANKS; n++) {
		ranks_create(&ranks, n, &PLAIN);
		ranks_each(&ranks, several);
		ranks_destroy(&ranks);
	}
}

/* --- behind a task that was kept -------------------------------------------------------*/

/* Rank 0 hands over its part of the task without waking its thread, and waits for a run
 * that rank 1 begins when the task is summed. */
static void wait_behind(struct rank *rank)
{
	float value = 1, sum = 1;
	uint64_t run;
	uint32_t task;

	RANK_OK(rank, taut_sync_declare(
		rank->sync, TAUT_FLOAT32, 1, 0, 0, &task, why));
	RANK_OK(rank, taut_sync_ready(rank->sync, task, &value, why));
	RANK_OK(rank, taut_sync_wait(rank->sync, task, -1, why));
	if (!rank->id) {
		run = start(rank, &sum, 1);
		ranks_become_still(rank);
		RANK_OK(rank, taut_sync_ready_more(
			rank->sync, task, NULL, why));
		RANK_OK(rank, taut_sync_finish(
			rank->sync, run, 10000000000, why));
	} else {
		RANK_OK(rank, taut_sync_ready(rank->sync, task, NULL, why));
		(void)!taut_sync_wait(rank->sync, task, -1, NULL);
		if (!taut_sync_start(rank->sync, &(struct taut_coll_call){
			.type = TAUT_FLOAT32, .output = &sum, .count = 1 },
			&run, NULL))
			RANK_OK(rank, taut_sync_finish(
				rank->sync, run, -1, why));
	}
	RANK_CHECK(rank, value == 4 && sum == 2);
	if (atomic_load(&rank->all->faults))
		taut_sync_fail(rank->sync, TAUT_EIO, "a fault");
}

static void test_wait_behind(void **state)
{
	struct taut_sync_options options = { .order = TAUT_SCHED_DECLARED };
	struct ranks ranks;

	(void)state;
	ranks_create(&ranks, 2, &options);
	ranks_each(&ranks, wait_behind);
	ranks_destroy(&ranks);
}

/* --- by any number of threads ----------------------------------------------------------*/

struct waiter {
	struct rank *rank;
	uint64_t run;
};

static void *wait_for_one(void *context)
{
	struct waiter *waiter = context;

	finish(waiter->rank, waiter->run);
	return NULL;
}

static void many_wait(struct rank *rank)
{
	float values[2] = { 1, 2 };
	struct waiter waiter = { .rank = rank };
	pthread_t threads[3];

	if (rank->id) { /* who waits does so before there is anything */
		RANK_CHECK(rank, taut_sync_finish(rank->sync, 0, 0, NULL) ==
			TAUT_EINVAL);
	}
	waiter.run = start(rank, values, 2);
	for (int i = 0; i < 3; i++)
		RANK_CHECK(rank, !pthread_create(
			&threads[i], NULL, wait_for_one, &waiter));
	finish(rank, waiter.run);
	RANK_CHECK(rank, values[0] == (float)rank->all->n);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

static void test_many_wait(void **state)
{
	struct ranks ranks;

	(void)state;
	ranks_create(&ranks, 3, &PLAIN);
	ranks_each(&ranks, many_wait);
	ranks_destroy(&ranks);
}

/* --- faults ----------------------------------------------------------------------------*/

static void wrong(struct rank *rank)
{
	float value = 1;
	struct taut_coll_call call = { .type = TAUT_FLOAT32, .output = &value,
		.count = 1, .reduction = TAUT_BIT_OR };
	struct taut_error err = { .offset = -1 };
	uint64_t run = 0;

	RANK_OK(rank, taut_sync_start(rank->sync, &call, &run, why));
	for (int i = 0; i < 2; i++) {
		RANK_CHECK(rank, taut_sync_finish(rank->sync, run, -1, &err) ==
			TAUT_EINVAL);
		RANK_CHECK(rank, strstr(err.message, "no such reduction"));
	}
	RANK_CHECK(rank, taut_sync_finish(rank->sync, run + 1, -1, &err) ==
		TAUT_EINVAL);
	RANK_CHECK(rank, !strcmp(err.message, "sync: there is no run 1"));
	finish(rank, start(rank, &value, 1));
	RANK_CHECK(rank, value == (float)rank->all->n);
}

static void test_wrong(void **state)
{
	struct ranks ranks;

	(void)state;
	ranks_create(&ranks, 2, &PLAIN);
	ranks_each(&ranks, wrong);
	ranks_destroy(&ranks);
}

/* The last rank takes part in one run, and leaves: that one has ended well whenever
 * it is asked for, the next ones never. */
static void leave_between(struct rank *rank)
{
	static float late[SYNC_RANKS][3];
	struct taut_error err = { .offset = -1 };
	float value = 1;
	uint64_t first = start(rank, &value, 1), second;
	taut_status status;

	finish(rank, first);
	if (rank->id == rank->all->n - 1) {
		taut_sync_destroy(rank->sync);
		rank->sync = NULL;
		return;
	}
	status = taut_sync_start(rank->sync,
		&(struct taut_coll_call){ .type = TAUT_FLOAT32,
			.output = late[rank->id], .count = 3 },
		&second, &err);
	if (!status)
		status = taut_sync_finish(rank->sync, second, -1, &err);
	RANK_CHECK(rank, status == TAUT_EIO);
	RANK_CHECK(rank, strstr(err.message, "rank "));
	finish(rank, first);
	RANK_CHECK(rank, value == (float)rank->all->n);
}

static void test_leave(void **state)
{
	struct ranks ranks;

	(void)state;
	for (uint32_t n = 2; n <= SYNC_RANKS; n++) {
		ranks_create(&ranks, n, &PLAIN);
		ranks_each(&ranks, leave_between);
		ranks_destroy(&ranks);
	}
}

/* With a run under way that nobody else has begun. */
static void leave_with_one(struct rank *rank)
{
	static float values[4];
	struct taut_error err = { .offset = -1 };
	uint32_t task;
	uint64_t run;

	if (!rank->id) {
		run = start(rank, values, 4);
		RANK_CHECK(rank, taut_sync_finish(rank->sync, run, 0, &err) ==
			TAUT_EAGAIN);
		RANK_CHECK(rank, taut_sync_finish(rank->sync, run, 1000000,
			&err) == TAUT_EAGAIN);
		taut_sync_destroy(rank->sync);
		rank->sync = NULL;
		return;
	}
	RANK_CHECK(rank, taut_sync_next(rank->sync, -1, &task, &err) ==
		TAUT_EIO);
	RANK_CHECK(rank, !strcmp(err.message,
		"sync: rank 0 has left with tasks under way"));
}

static void test_leave_with_one(void **state)
{
	struct ranks ranks;

	(void)state;
	ranks_create(&ranks, 2, &PLAIN);
	ranks_each(&ranks, leave_with_one);
	ranks_destroy(&ranks);
}

/* The rank whose memory runs out says so, or ends all; nobody waits for ever. */
static void test_memory(void **state)
{
	float value = 1;
	struct taut_coll_call call = { .type = TAUT_FLOAT32, .output = &value,
		.count = 1 };

	(void)state;
	for (size_t n = 0; n < 6; n++) {
		struct ranks ranks;
		taut_status status;
		uint64_t run;

		ranks_create(&ranks, 1, &PLAIN);
		alloc_fail_after(n);
		status = taut_sync_start(ranks.rank[0].sync, &call, &run, NULL);
		if (!status)
			status = taut_sync_finish(
				ranks.rank[0].sync, run, -1, NULL);
		alloc_fail_never();
		assert_true(status == TAUT_OK || status == TAUT_ENOMEM);
		assert_true(n || status == TAUT_ENOMEM);
		ranks_destroy(&ranks);
	}
}

/* The child of a fork has no thread that would move anything. */
static void test_fork(void **state)
{
	struct ranks ranks;
	uint64_t run;
	pid_t child;
	int status;

	(void)state;
	ranks_create(&ranks, 1, &PLAIN);
	assert_int_equal(taut_sync_start(
		ranks.rank[0].sync, NULL, &run, NULL), TAUT_OK);
	child = fork();
	if (!child) {
		struct taut_sync *sync = ranks.rank[0].sync;

		_exit(taut_sync_start(sync, NULL, &run, NULL) != TAUT_EIO ||
			taut_sync_finish(sync, 0, -1, NULL) != TAUT_EIO);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(taut_sync_finish(
		ranks.rank[0].sync, run, -1, NULL), TAUT_OK);
	ranks_destroy(&ranks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_several),
		cmocka_unit_test(test_wait_behind),
		cmocka_unit_test(test_many_wait),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_leave),
		cmocka_unit_test(test_leave_with_one),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_fork),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

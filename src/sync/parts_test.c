/* Tasks of which an iteration has some elements: taut_sync_ready_part(). */
#include "sync/ranks.h"

enum { MOST = 3000, ITERATIONS = 12 };

static uint64_t count_of(uint64_t k)
{
	static const uint64_t counts[] = { 1, MOST, 7, 2048, 700, 2 };

	return counts[k % 6];
}

/* A task in parts between two that go whole, of which the first is never ready. */
static void sum_parts(struct rank *rank)
{
	static float room[8][MOST + 1];
	float *values = room[rank->id], whole;
	uint32_t tasks[3], n = rank->all->n;

	for (uint32_t i = 0; i < 3; i++)
		RANK_OK(rank, taut_sync_declare(rank->sync, TAUT_FLOAT32,
			i == 2 ? 1 : MOST, i, i == 1 ? 0.5 : 0, &tasks[i], why));
	for (uint64_t k = 0; k < ITERATIONS; k++) {
		uint64_t count = count_of(k);

		whole = (float)k;
		for (uint64_t i = 0; i <= MOST; i++)
			values[i] = (float)(i + k + rank->id);
		RANK_OK(rank, taut_sync_ready(
			rank->sync, tasks[2], &whole, why));
		RANK_OK(rank, taut_sync_ready_part(
			rank->sync, tasks[1], values, count, why));
		RANK_OK(rank, taut_sync_wait(rank->sync, TAUT_NONE, -1, why));
		RANK_CHECK(rank, whole == (float)(k * n));
		for (uint64_t i = 0; i <= MOST; i++) {
			float own = (float)(i + k + rank->id);
			float sum = (float)(n * (i + k)) / 2 +
				(float)(n * (n - 1)) / 4;

			RANK_CHECK(rank, values[i] == (i < count ? sum : own));
		}
	}
}

static void test_sums(void **state)
{
	static const struct taut_sync_options options[] = {
		{ .ordered = true },
		{ .ordered = true, .piece_bytes = 512, .credit_bytes = 1024 },
		{ .ordered = true, .piece_bytes = 4096, .fuse_bytes = 4096 },
	};
	struct ranks ranks;

	(void)state;
	for (int i = 0; i < 3; i++)
		for (uint32_t n = 1; n <= 3; n++) {
			ranks_create(&ranks, n, &options[i]);
			ranks_each(&ranks, sum_parts);
			ranks_destroy(&ranks);
		}
}

/* What fits 16 bits, narrowed. */
static void sum_narrow(struct rank *rank)
{
	float values[5] = { 1, 2, 3, 4, 5 };
	uint32_t task, n = rank->all->n;

	RANK_OK(rank, taut_sync_declare(
		rank->sync, TAUT_FLOAT32, 5, 0, 0, &task, why));
	RANK_OK(rank, taut_sync_ready_part(rank->sync, task, values, 3, why));
	RANK_OK(rank, taut_sync_wait(rank->sync, task, -1, why));
	for (uint32_t i = 0; i < 5; i++)
		RANK_CHECK(rank, values[i] ==
			(float)((i + 1) * (i < 3 ? n : 1)));
}

static void test_narrow(void **state)
{
	struct taut_sync_options options = { .wire = TAUT_BFLOAT16 };
	struct ranks ranks;

	(void)state;
	ranks_create(&ranks, 2, &options);
	ranks_each(&ranks, sum_narrow);
	ranks_destroy(&ranks);
}

/* As declared, runs of tasks are what they are with all of each. */
static void sum_declared(struct rank *rank)
{
	float values[3][8];
	uint32_t tasks[3], n = rank->all->n;

	for (uint32_t i = 0; i < 3; i++)
		RANK_OK(rank, taut_sync_declare(rank->sync, TAUT_FLOAT32, 8,
			0, 0, &tasks[i], why));
	for (uint64_t k = 0; k < ITERATIONS; k++) {
		for (uint32_t i = 0; i < 3; i++) {
			for (uint32_t j = 0; j < 8; j++)
				values[i][j] = (float)(i + j);
			RANK_OK(rank, taut_sync_ready_part(rank->sync, tasks[i],
				values[i], 1 + (k + i) % 8, why));
		}
		RANK_OK(rank, taut_sync_wait(rank->sync, TAUT_NONE, -1, why));
		for (uint32_t i = 0; i < 3; i++)
			for (uint32_t j = 0; j < 8; j++)
				RANK_CHECK(rank, values[i][j] == (float)((i + j) *
					(j < 1 + (k + i) % 8 ? n : 1)));
	}
}

static void test_declared(void **state)
{
	struct taut_sync_options options = { .order = TAUT_SCHED_DECLARED,
		.fuse_bytes = 64, .piece_bytes = 64 };
	struct ranks ranks;

	(void)state;
	ranks_create(&ranks, 2, &options);
	ranks_each(&ranks, sum_declared);
	ranks_destroy(&ranks);
}

static void test_refused(void **state)
{
	struct taut_sync_options halves = { .halves = true }, plain = { 0 };
	struct taut_error err;
	struct ranks ranks;
	float values[4] = { 0 };
	uint32_t task;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct taut_sync *sync;

		ranks_create(&ranks, 1, i ? &halves : &plain);
		sync = ranks.rank[0].sync;
		assert_int_equal(taut_sync_declare(
			sync, TAUT_FLOAT32, 4, 0, 0, &task, &err), TAUT_OK);
		assert_int_equal(taut_sync_ready_part(
			sync, task, values, 0, &err), TAUT_EINVAL);
		assert_int_equal(taut_sync_ready_part(
			sync, task, values, 5, &err), TAUT_EINVAL);
		assert_int_equal(taut_sync_ready_part(sync, task, values, 4,
			&err), i ? TAUT_EINVAL : TAUT_OK);
		ranks_destroy(&ranks);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_narrow),
		cmocka_unit_test(test_declared),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

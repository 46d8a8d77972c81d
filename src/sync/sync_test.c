/* What taut/sync.h says, call by call, with two or three ranks in one process. */
#include "sync/ranks.h"

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

static const struct taut_sync_options PLAIN = { .ordered = true };

/* --- sums --------------------------------------------------------------------------*/

static void sum_a_few(struct rank *rank)
{
	float a[4] = { 1, 2, 3, (float)rank->id }, b = 8;
	int64_t c[2] = { -5, (int64_t)rank->id << 40 };
	uint32_t n = rank->all->n, ranks = n * (n - 1) / 2;
	uint32_t tasks[3] = { ranks_declare(rank, TAUT_FLOAT32, 4, 2, 0),
		ranks_declare(rank, TAUT_FLOAT32, 1, 1, 0.5),
		ranks_declare(rank, TAUT_INT64, 2, 0, 1) };

	ranks_await(rank, tasks[0]); /* nothing was ready */
	ranks_ready(rank, tasks[rank->id % 2], rank->id % 2 ? &b : a);
	ranks_ready(rank, tasks[1 - rank->id % 2], rank->id % 2 ? a : &b);
	ranks_ready(rank, tasks[2], c);
	ranks_await(rank, tasks[0]);
	ranks_await(rank, TAUT_NONE);
	RANK_CHECK(rank, a[0] == (float)n && a[1] == (float)(2 * n));
	RANK_CHECK(rank, a[2] == (float)(3 * n) && a[3] == (float)ranks);
	RANK_CHECK(rank, b == 4 * (float)n);
	RANK_CHECK(rank, c[0] == -5 * (int64_t)n);
	RANK_CHECK(rank, c[1] == (int64_t)ranks << 40);
}

static void test_sums(void **state)
{
	struct taut_sync_options options[] = { PLAIN, PLAIN, PLAIN, PLAIN };
	struct ranks ranks;

	(void)state;
	options[1].halves = true;
	options[2].order = TAUT_SCHED_DECLARED;
	options[3].fuse_bytes = 4096;
	options[3].halves = true;
	for (int i = 0; i < 4; i++)
		for (uint32_t n = 1; n <= SYNC_RANKS; n++) {
			ranks_create(&ranks, n, &options[i]);
			ranks_each(&ranks, sum_a_few);
			ranks_destroy(&ranks);
		}
}

/* --- more to come ------------------------------------------------------------------*/

static void ready_more(struct rank *rank, uint32_t task, void *data)
{
	RANK_OK(rank, taut_sync_ready_more(rank->sync, task, data, why));
}

static uint64_t wakes(struct rank *rank)
{
	struct taut_sync_counts counts;

	taut_sync_counts(rank->sync, &counts);
	return counts.wakes;
}

/* Nobody is woken for the first ones; the last brings them along, and so does who
 * waits for one of them, or for any. */
static void sum_kept(struct rank *rank)
{
	float values[3] = { 0 }, one = 1;
	struct taut_coll_call call = { .verb = TAUT_ALLREDUCE,
		.type = TAUT_FLOAT32, .reduction = TAUT_SUM, .output = &one,
		.count = 1 };
	uint32_t tasks[3], any;
	uint64_t woken;

	for (int i = 0; i < 3; i++)
		tasks[i] = ranks_declare(rank, TAUT_FLOAT32, 1, i, 0);
	for (int k = 0; k < 3; k++) {
		for (int i = 0; i < 3; i++)
			values[i] = (float)(i + k);
		RANK_OK(rank, taut_sync_run(rank->sync, &call, why));
		ranks_become_still(rank);
		woken = wakes(rank);
		ready_more(rank, tasks[2], &values[2]);
		ready_more(rank, tasks[1], &values[1]);
		nanosleep(&(struct timespec){ .tv_nsec = 30000000 }, NULL);
		RANK_CHECK(rank, wakes(rank) == woken);
		if (k == 0)
			ranks_ready(rank, tasks[0], &values[0]);
		else if (k == 1)
			ranks_await(rank, tasks[1]);
		else
			RANK_OK(rank, taut_sync_next(rank->sync, -1, &any, why));
		if (k)
			ranks_ready(rank, tasks[0], &values[0]);
		ranks_await(rank, TAUT_NONE);
		while (!taut_sync_next(rank->sync, 0, &any, NULL))
			;
		for (int i = 0; i < 3; i++)
			RANK_CHECK(rank, values[i] == 2 * (float)(i + k));
	}
}

static void test_more(void **state)
{
	struct ranks ranks;

	(void)state;
	ranks_create(&ranks, 2, &PLAIN);
	ranks_each(&ranks, sum_kept);
	ranks_destroy(&ranks);
}

/* --- several tasks as one message --------------------------------------------------*/

enum { SMALL = 12 };

static void sum_small(struct rank *rank)
{
	float values[SMALL][7];
	uint32_t tasks[SMALL];

	for (int i = 0; i < SMALL; i++)
		tasks[i] = ranks_declare(rank, TAUT_FLOAT32, 1 + (unsigned)i % 5, i, 0);
	for (int k = 0; k < 10; k++) {
		memset(values, 0, sizeof values);
		for (int i = 0; i < SMALL; i++) {
			values[i][0] = (float)(i + k);
			values[i][6] = -1;
			ranks_ready(rank, tasks[i], values[i]);
		}
		ranks_await(rank, TAUT_NONE);
		for (int i = 0; i < SMALL; i++)
			RANK_CHECK(rank, values[i][0] == 3 * (float)(i + k) &&
				values[i][6] == -1);
	}
}

/* As declared, all small tasks are one run: one message an iteration. */
static void test_fused(void **state)
{
	struct taut_sync_options options = { .order = TAUT_SCHED_DECLARED,
		.fuse_bytes = 1 << 20 };
	struct taut_sync_counts counts;
	struct ranks ranks;
	uint64_t bytes = 0;

	(void)state;
	for (int i = 0; i < SMALL; i++)
		bytes += 4 * (1 + (unsigned)i % 5);
	ranks_create(&ranks, 3, &options);
	ranks_each(&ranks, sum_small);
	taut_sync_counts(ranks.rank[1].sync, &counts);
	assert_int_equal(counts.messages, 10);
	assert_int_equal(counts.bytes, 10 * bytes);
	assert_int_equal(counts.copied_bytes, 20 * bytes);
	assert_int_equal(counts.sched.pieces, 10 * SMALL);
	assert_true(counts.busy_ns > 0);
	ranks_destroy(&ranks);
}

static void sum_neighbours(struct rank *rank)
{
	double values[3] = { 1, 2, 3 };
	uint32_t tasks[3];

	for (int i = 0; i < 3; i++)
		tasks[i] = ranks_declare(rank, TAUT_FLOAT64, 1, 0, 0.5);
	for (int i = 0; i < 3; i++)
		ranks_ready(rank, tasks[i], &values[i]);
	ranks_await(rank, TAUT_NONE);
	for (int i = 0; i < 3; i++)
		RANK_CHECK(rank, values[i] == i + 1);
}

/* What lies side by side is not copied. */
static void test_neighbours(void **state)
{
	struct taut_sync_options options = { .order = TAUT_SCHED_DECLARED,
		.fuse_bytes = 1 << 20 };
	struct taut_sync_counts counts;
	struct ranks ranks;

	(void)state;
	ranks_create(&ranks, 2, &options);
	ranks_each(&ranks, sum_neighbours);
	taut_sync_counts(ranks.rank[0].sync, &counts);
	assert_int_equal(counts.messages, 1);
	assert_int_equal(counts.copied_bytes, 0);
	ranks_destroy(&ranks);
}

/* --- small numbers -----------------------------------------------------------------*/

static void sum_tiny(struct rank *rank)
{
	float value = 0x1p-140f;
	uint32_t task = ranks_declare(rank, TAUT_FLOAT32, 1, 0, 0.5);

	ranks_ready(rank, task, &value);
	ranks_await(rank, task);
	RANK_CHECK(rank, fpclassify(value) == FP_SUBNORMAL &&
		value == 0x1p-140f);
}

/* Who makes the thread may have told its processor to flush them to zero. */
static void test_tiny(void **state)
{
	struct ranks ranks;

	(void)state;
#ifdef __SSE2__
	unsigned before = _mm_getcsr();

	_mm_setcsr(before | 0x8040);
	ranks_create(&ranks, 2, &PLAIN);
	_mm_setcsr(before);
#else
	ranks_create(&ranks, 2, &PLAIN);
#endif
	ranks_each(&ranks, sum_tiny);
	ranks_destroy(&ranks);
}

/* --- what is done, in order --------------------------------------------------------*/

static void take_in_order(struct rank *rank)
{
	int32_t values[3] = { 1, 2, 3 };
	struct taut_error err;
	uint32_t task = 77;

	for (int i = 0; i < 3; i++)
		ranks_declare(rank, TAUT_INT32, 1, 0, 0);
	RANK_CHECK(rank, taut_sync_next(rank->sync, 0, &task, &err) ==
		TAUT_EAGAIN && task == 77);
	for (uint32_t i = 0; i < 3; i++)
		ranks_ready(rank, i, &values[i]);
	for (uint32_t i = 0; i < 3; i++) {
		RANK_OK(rank, taut_sync_next(rank->sync, -1, &task, why));
		RANK_CHECK(rank, task == i && values[i] == 2 * (int)(i + 1));
	}
	ranks_ready(rank, 1, NULL); /* twice, and taken once */
	ranks_await(rank, 1);
	ranks_ready(rank, 1, NULL);
	ranks_await(rank, 1);
	RANK_CHECK(rank, values[1] == 16);
	RANK_OK(rank, taut_sync_next(rank->sync, -1, &task, why));
	RANK_CHECK(rank, task == 1);
	RANK_CHECK(rank, taut_sync_next(rank->sync, 1000, &task, &err) ==
		TAUT_EAGAIN);
}

static void test_next(void **state)
{
	struct taut_sync_options options = { .credit_bytes = 1 };
	struct ranks ranks;

	(void)state; /* one after the other */
	ranks_create(&ranks, 2, &options);
	ranks_each(&ranks, take_in_order);
	ranks_destroy(&ranks);
}

/* --- between iterations ------------------------------------------------------------*/

static void run_others(struct rank *rank)
{
	float parameters[3] = { (float)rank->id + 1, 5, 6 }, loss = 1, grad = 2;
	struct taut_coll_call broadcast = { .verb = TAUT_BROADCAST,
		.type = TAUT_FLOAT32, .output = parameters, .count = 3,
		.root = 1 };
	struct taut_coll_call sum = { .type = TAUT_FLOAT32, .output = &loss,
		.count = 1 };
	struct taut_coll_call wrong = { .type = TAUT_FLOAT32, .output = &loss,
		.count = 1, .reduction = TAUT_BIT_OR };
	uint32_t task = ranks_declare(rank, TAUT_FLOAT32, 1, 0, 0);
	struct taut_error err;

	RANK_OK(rank, taut_sync_run(rank->sync, &broadcast, why));
	RANK_CHECK(rank, parameters[0] == 2 && parameters[2] == 6);
	if (rank->id)
		ranks_ready(rank, task, &grad);
	RANK_OK(rank, taut_sync_run(rank->sync, &sum, why));
	RANK_CHECK(rank, loss == 3);
	if (!rank->id)
		ranks_ready(rank, task, &grad);
	RANK_CHECK(rank, taut_sync_run(rank->sync, &wrong, &err) ==
		TAUT_EINVAL);
	ranks_await(rank, task);
	RANK_CHECK(rank, grad == 6);
	RANK_OK(rank, taut_sync_run(rank->sync, &sum, why));
	RANK_CHECK(rank, loss == 9);
}

static void test_run(void **state)
{
	struct ranks ranks;

	(void)state;
	ranks_create(&ranks, 3, &PLAIN);
	ranks_each(&ranks, run_others);
	ranks_destroy(&ranks);
}

enum { LONG = 10000 };

static void tune_between(struct rank *rank)
{
	float *values = calloc(LONG, sizeof *values);
	uint32_t task = ranks_declare(rank, TAUT_FLOAT32, LONG, 0, 0);
	struct taut_sync_counts counts;
	uint64_t pieces = 0;

	for (uint64_t k = 1; k <= 8; k++) {
		RANK_OK(rank, taut_sync_tune(
			rank->sync, 4096 * k, 8192, 0, why));
		for (int i = 0; i < LONG; i++)
			values[i] = (float)i;
		ranks_ready(rank, task, values);
		ranks_await(rank, task);
		for (int i = 0; i < LONG; i++)
			RANK_CHECK(rank, values[i] == (float)(2 * i));
		pieces += (4 * LONG + 4096 * k - 1) / (4096 * k);
	}
	taut_sync_counts(rank->sync, &counts);
	RANK_CHECK(rank, counts.sched.pieces == pieces);
	free(values);
}

static void test_tune(void **state)
{
	struct ranks ranks;

	(void)state;
	ranks_create(&ranks, 2, &PLAIN);
	ranks_each(&ranks, tune_between);
	ranks_destroy(&ranks);
}

/* Each way in turn, in passes and not: the same sums, the more messages the less is
 * fused; halves take what they have. */
static void carry_between(struct rank *rank)
{
	enum { COUNT = 3000 };
	static const uint64_t passes[] = { 0, 1024 };
	float *values = calloc(COUNT, sizeof *values);
	uint32_t task = ranks_declare(rank, TAUT_FLOAT32, COUNT, 0, 0);
	uint32_t n = rank->all->n;

	for (int k = 0; k < 2 * TAUT_WAYS; k++) {
		RANK_OK(rank, taut_sync_carry(rank->sync,
			(enum taut_coll_way)(k / 2), passes[k % 2], 2, why));
		for (int i = 0; i < COUNT; i++)
			values[i] = (float)(i % 512 + (int)rank->id);
		ranks_ready(rank, task, values);
		ranks_await(rank, task);
		for (int i = 0; i < COUNT; i++)
			RANK_CHECK(rank, values[i] ==
				(float)(n * (i % 512) + n * (n - 1) / 2));
	}
	free(values);
}

static void test_carry(void **state)
{
	const struct taut_sync_options ways[] = { { .piece_bytes = 4096 },
		{ .piece_bytes = 4096, .halves = true } };
	struct taut_error err;
	struct ranks ranks;
	struct taut_sync *sync;

	(void)state;
	for (int i = 0; i < 2; i++) {
		ranks_create(&ranks, 3, &ways[i]);
		ranks_each(&ranks, carry_between);
		ranks_destroy(&ranks);
	}
	ranks_create(&ranks, 2, &PLAIN);
	sync = ranks.rank[0].sync;
	assert_int_equal(taut_sync_carry(sync, TAUT_WAYS, 0, 0, &err),
		TAUT_EINVAL);
	assert_int_equal(taut_sync_carry(sync, TAUT_WAY_RING, 0, 0, &err),
		TAUT_EINVAL); /* not in the order of the ranks */
	assert_int_equal(taut_sync_carry(sync, TAUT_WAY_DIRECT, 0, 0, &err),
		TAUT_OK);
	ranks_destroy(&ranks);
}

/* --- what is refused ---------------------------------------------------------------*/

static void test_refused(void **state)
{
	struct taut_sync_options alone = { .order = TAUT_SCHED_ALONE };
	struct taut_error err;
	struct taut_sync *sync = NULL, *other;
	struct ranks ranks;
	double room[2];
	uint32_t task = 77;

	(void)state;
	ranks_create(&ranks, 2, &PLAIN);
	sync = ranks.rank[0].sync;
	assert_int_equal(taut_sync_create(ranks.rank[0].comm, &alone, &other,
		&err), TAUT_EINVAL);
	assert_int_equal(taut_sync_declare(sync, TAUT_FLOAT32, 0, 0, 0, &task,
		&err), TAUT_EINVAL);
	assert_int_equal(taut_sync_declare(sync, TAUT_TYPES, 1, 0, 0, &task,
		&err), TAUT_EINVAL);
	assert_int_equal(taut_sync_declare(sync, TAUT_INT32, 1, 0, 0.5, &task,
		&err), TAUT_EINVAL);
	assert_int_equal(task, 77);
	assert_int_equal(taut_sync_ready(sync, 0, room, &err), TAUT_EINVAL);
	assert_int_equal(taut_sync_wait(sync, 0, 0, &err), TAUT_EINVAL);
	assert_int_equal(taut_sync_declare(sync, TAUT_FLOAT64, 1, 0, 0, &task,
		&err), TAUT_OK);
	assert_int_equal(taut_sync_ready(sync, task, NULL, &err), TAUT_EINVAL);
	assert_int_equal(taut_sync_ready(sync, task, (char *)room + 1, &err),
		TAUT_EINVAL);
	assert_int_equal(taut_sync_ready(sync, task, room, &err), TAUT_OK);
	assert_int_equal(taut_sync_ready(sync, task, room, &err), TAUT_EINVAL);
	assert_int_equal(taut_sync_wait(sync, task, 0, &err), TAUT_EAGAIN);
	assert_int_equal(taut_sync_wait(sync, TAUT_NONE, 1000, &err),
		TAUT_EAGAIN);
	assert_int_equal(taut_sync_tune(sync, 1, 1, 1, &err), TAUT_EINVAL);
	assert_int_equal(taut_sync_carry(sync, TAUT_WAY_AUTO, 0, 0, &err),
		TAUT_EINVAL);
	assert_int_equal(taut_sync_declare(sync, TAUT_FLOAT32, 1, 0, 0, &task,
		&err), TAUT_EINVAL);
	ranks_destroy(&ranks);
	taut_sync_destroy(NULL);
}

/* --- groups ------------------------------------------------------------------------*/

static void join(struct rank *rank)
{
	RANK_OK(rank, taut_sync_join(rank->sync, why));
}

/* Twelve small tasks in groups of three, whose gradients come one after the other, and
 * the last of a group last of all. */
static void sum_groups(struct rank *rank)
{
	float values[SMALL][7] = { { 0 } };
	uint32_t tasks[SMALL];

	for (int i = 0; i < SMALL; i++) {
		tasks[i] = ranks_declare(rank, TAUT_FLOAT32, 1 + (unsigned)i % 5, i, 0);
		if (i % 3)
			join(rank);
	}
	for (int k = 0; k < 10; k++) {
		memset(values, 0, sizeof values);
		for (int turn = 0; turn < 3; turn++)
			for (int i = turn; i < SMALL; i += 3) {
				struct taut_error err;

				values[i][0] = (float)(i + k);
				ranks_ready(rank, tasks[i], values[i]);
				RANK_CHECK(rank, turn == 2 || taut_sync_wait(
					rank->sync, tasks[i], 100000, &err) ==
					TAUT_EAGAIN);
			}
		ranks_await(rank, TAUT_NONE);
		for (int i = 0; i < SMALL; i++)
			RANK_CHECK(rank, values[i][0] == 3 * (float)(i + k));
	}
}

/* Each group is one message, whatever became ready when. */
static void test_groups(void **state)
{
	struct taut_sync_options options = { .piece_bytes = 1 << 20 };
	struct taut_sync_counts counts;
	struct ranks ranks;

	(void)state;
	for (int i = 0; i < 2; i++) {
		options.order = i ? TAUT_SCHED_DECLARED : TAUT_SCHED_AGREED;
		ranks_create(&ranks, 3, &options);
		ranks_each(&ranks, sum_groups);
		taut_sync_counts(ranks.rank[1].sync, &counts);
		assert_int_equal(counts.messages, 10 * SMALL / 3);
		assert_int_equal(counts.sched.pieces, 10 * SMALL);
		/* of each group by its last; and once to compare what was
		 * declared */
		assert_in_range(counts.wakes, 1, 10 * SMALL / 3 + 1);
		ranks_destroy(&ranks);
	}
}

static void test_groups_refused(void **state)
{
	struct taut_sync_options halves = { .halves = true };
	struct taut_error err;
	struct ranks ranks;
	uint32_t task;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct taut_sync *sync;

		ranks_create(&ranks, 1, i ? &halves : &PLAIN);
		sync = ranks.rank[0].sync;
		assert_int_equal(taut_sync_join(sync, &err), TAUT_EINVAL);
		for (int k = 0; k < 2; k++)
			assert_int_equal(taut_sync_declare(sync, TAUT_FLOAT32,
				1, 0, 0, &task, &err), TAUT_OK);
		assert_int_equal(taut_sync_join(sync, &err),
			i ? TAUT_EINVAL : TAUT_OK);
		ranks_destroy(&ranks);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_more),
		cmocka_unit_test(test_fused),
		cmocka_unit_test(test_neighbours),
		cmocka_unit_test(test_tiny),
		cmocka_unit_test(test_next),
		cmocka_unit_test(test_run),
		cmocka_unit_test(test_tune),
		cmocka_unit_test(test_carry),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_groups_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

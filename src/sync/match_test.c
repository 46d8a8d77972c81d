/* Ranks that declare, are tuned or carry otherwise are told so. */
#include "sync/ranks.h"

#include <sched.h>

static const struct taut_sync_options PLAIN = { .ordered = true };

enum { LONG = 10000 };

/* Of each rank; what failed may still write there until destroy. */
static _Alignas(8) float room[SYNC_ROOM][LONG];

static void join(struct rank *rank)
{
	RANK_OK(rank, taut_sync_join(rank->sync, why));
}

static void declare_other_type(struct rank *rank)
{
	ranks_declare(rank, TAUT_INT64, 2, 0, 0);
	ranks_declare(rank, rank->id ? TAUT_FLOAT32 : TAUT_INT32, 2, 0, 0);
	ranks_ready(rank, 0, room[rank->id]);
	ranks_expect_line(rank, TAUT_EMATCH, "task 1 has 2 elements of ");
}

static void declare_other_group(struct rank *rank)
{
	float *values = room[rank->id];

	ranks_declare(rank, TAUT_FLOAT32, 2, 0, 0);
	ranks_declare(rank, TAUT_FLOAT32, 2, 0, 0);
	if (rank->id)
		join(rank);
	ranks_ready(rank, 0, values);
	ranks_ready(rank, 1, values + 2);
	ranks_expect_line(rank, TAUT_EMATCH, rank->id ?
		"and goes with the one before it here" :
		"and goes without the one before it here");
}

static void declare_more(struct rank *rank)
{
	for (uint32_t i = 0; i <= rank->id; i++)
		ranks_declare(rank, TAUT_INT64, 2, 0, 0);
	ranks_ready(rank, 0, room[rank->id]);
	ranks_expect_line(rank, TAUT_EMATCH, "ranks do not match: tasks: ");
}

static void test_match(void **state)
{
	struct ranks ranks;

	(void)state;
	ranks_create(&ranks, 3, &PLAIN);
	ranks_each(&ranks, declare_other_type);
	ranks_destroy(&ranks);
	ranks_create(&ranks, 2, &PLAIN);
	ranks_each(&ranks, declare_other_group);
	ranks_destroy(&ranks);
	ranks_create(&ranks, 2, &PLAIN);
	ranks_each(&ranks, declare_more);
	ranks_destroy(&ranks);
}

static void ready_one(struct rank *rank)
{
	ranks_ready(rank, ranks_declare(rank, TAUT_INT64, 2, 0, 0), room[rank->id]);
	ranks_expect_line(rank, TAUT_EMATCH, "ranks do not match: piece_bytes: ");
}

static void test_match_options(void **state)
{
	struct taut_sync_options other = PLAIN;
	struct ranks ranks;

	(void)state;
	other.piece_bytes = 4096;
	ranks_create(&ranks, 2, &PLAIN);
	taut_sync_destroy(ranks.rank[1].sync);
	taut_sync_destroy(ranks.rank[0].sync);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(taut_sync_create(ranks.rank[i].comm,
			i ? &other : &PLAIN, &ranks.rank[i].sync, NULL),
			TAUT_OK);
	ranks_each(&ranks, ready_one);
	ranks_destroy(&ranks);
}

/* Limits that change later: two iterations, then rank 1 has others. */
static void tune_otherwise(struct rank *rank)
{
	float *values = room[rank->id];
	uint32_t task = ranks_declare(rank, TAUT_FLOAT32, LONG, 0, 0);

	for (uint64_t k = 0; k < 2; k++) {
		RANK_OK(rank, taut_sync_tune(
			rank->sync, 8192 << k, 1 << 16, 0, why));
		ranks_ready(rank, task, values);
		ranks_await(rank, task);
	}
	RANK_OK(rank, taut_sync_tune(rank->sync, rank->id == 1 ? 4096 : 8192,
		1 << 16, 0, why));
	ranks_try_ready(rank, task, values);
	ranks_expect_line(rank, TAUT_EMATCH, "ranks do not match: ");
}

static void doze(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
}

/* One does not change them at all, and comes when the others have asked for it: it says
 * so, and the others, whatever they are at, name it or find out with it. */
static void tune_not(struct rank *rank)
{
	float *values = room[rank->id];
	uint32_t task = ranks_declare(rank, TAUT_FLOAT32, LONG, 0, 0);
	struct taut_error err = { .message = "" };
	taut_status status = TAUT_OK;

	for (uint64_t k = 0; k < 3 && !status; k++) {
		if (k == 2 && rank->id != 2)
			status = taut_sync_tune(
				rank->sync, 4096, 8192, 0, &err);
		else if (k == 2)
			doze();
		if (!status)
			status = taut_sync_ready(
				rank->sync, task, values, &err);
		if (!status)
			status = taut_sync_wait(rank->sync, task, -1, &err);
	}
	RANK_CHECK(rank, status == TAUT_EMATCH || (status == TAUT_EIO &&
		rank->id != 2 && strstr(err.message, "rank 2 has failed")));
}

/* Rank 0 changes them once more than the others, one of which (or none) comes late. */
static void tune_twice(struct rank *rank)
{
	const uint32_t *late = rank->all->context;
	float *values = room[rank->id];
	uint32_t task = ranks_declare(rank, TAUT_FLOAT32, LONG, 0, 0);
	struct taut_error err = { .message = "" };
	taut_status status = TAUT_OK;

	for (int k = 0; k < 2 && !status; k++) {
		for (int n = 0; k && n < (rank->id ? 1 : 2) && !status; n++)
			status = taut_sync_tune(rank->sync,
				UINT64_C(4096) << n, 8192, 0, &err);
		if (!status)
			status = taut_sync_ready(
				rank->sync, task, values, &err);
		if (!status)
			status = taut_sync_wait(
				rank->sync, task, 10000000000, &err);
		if (rank->id == *late)
			doze();
	}
	RANK_CHECK(rank, status == TAUT_EMATCH || (status == TAUT_EIO &&
		strstr(err.message, "has failed: ")));
	if (status == TAUT_EAGAIN)
		taut_sync_fail(rank->sync, TAUT_EIO, "it took too long");
}

/* Each rank in its own time, with iterations between and without. */
static void tune_often(struct rank *rank)
{
	uint64_t random = rank->id + 1;
	float values[3][600];
	uint32_t tasks[3];

	for (int i = 0; i < 3; i++)
		tasks[i] = ranks_declare(rank, TAUT_FLOAT32, 200 * (unsigned)(i + 1),
			0, 0.5);
	for (uint64_t k = 0; k < 60; k++) {
		if (k % 4 != 3)
			RANK_OK(rank, taut_sync_tune(rank->sync, 64 << k % 5,
				512 << k % 3, k % 2 * 900, why));
		if (k % 7 == 6)
			continue;
		for (int i = 0; i < 3; i++) {
			for (int j = 0; j < 600; j++)
				values[i][j] = (float)(k + (unsigned)j);
			for (uint64_t n = ranks_below(&random, 3); n; n--)
				sched_yield();
			ranks_ready(rank, tasks[i], values[i]);
		}
		ranks_await(rank, TAUT_NONE);
		for (int i = 0; i < 3; i++)
			RANK_CHECK(rank, values[i][200 * i] == (float)(k +
				200 * (unsigned)i) * (float)rank->all->n / 2);
	}
}

static void test_match_tuned(void **state)
{
	struct taut_sync_options options = PLAIN;
	struct ranks ranks;

	(void)state;
	for (int i = 0; i < 4; i++) {
		options.order = i % 2 ? TAUT_SCHED_AGREED : TAUT_SCHED_DECLARED;
		options.halves = i / 2;
		ranks_create(&ranks, 3, &options);
		ranks_each(&ranks, tune_otherwise);
		ranks_destroy(&ranks);
		ranks_create(&ranks, 3, &options);
		ranks_each(&ranks, tune_not);
		ranks_destroy(&ranks);
		for (uint32_t late = 0; late < 4; late++) {
			ranks_create(&ranks, 3, &options);
			ranks.context = &late;
			ranks_each(&ranks, tune_twice);
			ranks_destroy(&ranks);
		}
		ranks_create(&ranks, 2 + (unsigned)i % 3, &options);
		ranks_each(&ranks, tune_often);
		ranks_destroy(&ranks);
	}
}

/* --- pieces that are carried otherwise ----------------------------------------------*/

struct carried {
	int since; /* iteration from which rank 2 carries otherwise */
	bool not;  /* or as before */
	uint32_t late;
};

static void carry_otherwise(struct rank *rank)
{
	const struct carried *how = rank->all->context;
	float *values = room[rank->id];
	uint32_t task = ranks_declare(rank, TAUT_FLOAT32, LONG, 0, 0);
	struct taut_error err = { .message = "" };
	taut_status status = TAUT_OK;

	for (int k = 0; k < 3 && !status; k++) {
		bool other = rank->id == 2 && k == how->since;

		if (k == how->since && rank->id == how->late)
			doze();
		if (!other || !how->not)
			status = taut_sync_carry(rank->sync,
				k % 2 ? TAUT_WAY_DIRECT : TAUT_WAY_FLAT,
				1024, other ? 1 : 2, &err);
		for (int i = 0; i < LONG; i++)
			values[i] = (float)(i % 512);
		if (!status)
			status = taut_sync_ready(
				rank->sync, task, values, &err);
		if (!status)
			status = taut_sync_wait(
				rank->sync, task, 10000000000, &err);
		for (int i = 0; !status && i < LONG; i++)
			RANK_CHECK(rank, values[i] == 3 * (float)(i % 512));
		RANK_CHECK(rank, status || k < how->since);
	}
	RANK_CHECK(rank, (status == TAUT_EMATCH && strstr(err.message,
		"ranks do not match: ")) || (status == TAUT_EIO &&
		strstr(err.message, "has failed: ")));
	if (status == TAUT_EAGAIN)
		taut_sync_fail(rank->sync, TAUT_EIO, "it took too long");
}

/* Rank 2 otherwise than the others, or not when they do; from the first iteration on, or
 * later; each comes late in turn, and none. */
static void test_match_carried(void **state)
{
	struct taut_sync_options options = PLAIN;
	struct ranks ranks;

	(void)state;
	for (int i = 0; i < 4; i++) {
		options.order = i % 2 ? TAUT_SCHED_AGREED : TAUT_SCHED_DECLARED;
		options.halves = i / 2;
		for (uint32_t k = 0; k < 16; k++) {
			struct carried how = { .since = k % 2 ? 2 : 0,
				.not = k / 8, .late = k / 2 % 4 };

			ranks_create(&ranks, 3, &options);
			ranks.context = &how;
			ranks_each(&ranks, carry_otherwise);
			ranks_destroy(&ranks);
		}
	}
}

/* --- parts that differ --------------------------------------------------------------*/

/* Rank 1 has more of a task ready than rank 0, in whose next round both hear of it. */
static void part_otherwise(struct rank *rank)
{
	float *values = room[rank->id];
	uint32_t task = ranks_declare(rank, TAUT_FLOAT32, LONG, 0, 0);

	RANK_OK(rank, taut_sync_ready_part(rank->sync, task, values,
		rank->id ? 2048 : 1024, why));
	if (!rank->id) {
		ranks_await(rank, task);
		ranks_try_ready(rank, task, NULL);
	}
	ranks_expect_line(rank, TAUT_EMATCH, "ranks do not match: a task was "
		"ready with as many bytes as here");
}

static void test_match_parts(void **state)
{
	struct taut_sync_options options = { .piece_bytes = 4096 };
	struct ranks ranks;

	(void)state;
	ranks_create(&ranks, 2, &options);
	ranks_each(&ranks, part_otherwise);
	ranks_destroy(&ranks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_match),
		cmocka_unit_test(test_match_options),
		cmocka_unit_test(test_match_tuned),
		cmocka_unit_test(test_match_carried),
		cmocka_unit_test(test_match_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What a recording is told: which pieces went in which message, and when. */
#include "sync/ranks.h"

#include "base/now.h"

enum { TASKS = 3, ROUNDS = 4, COUNT = 96 }; /* of 32 floats: three pieces of 128 bytes */

static void sum_some(struct rank *rank)
{
	static _Thread_local float values[TASKS][COUNT];
	uint32_t task;

	for (int i = 0; i < TASKS; i++)
		RANK_OK(rank, taut_sync_declare(rank->sync, TAUT_FLOAT32,
			i ? COUNT : 8, i, 0, &task, why));
	RANK_OK(rank, taut_sync_watch(rank->sync, 1000, why));
	for (int k = 0; k < ROUNDS; k++) {
		for (uint32_t i = 0; i < TASKS; i++)
			RANK_OK(rank, taut_sync_ready(
				rank->sync, i, values[i], why));
		RANK_OK(rank, taut_sync_wait(
			rank->sync, TAUT_NONE, -1, why));
	}
}

static const struct taut_sync_options options = { .piece_bytes = 128,
	.credit_bytes = 256 };

/* Each task once a round, in whole, and messages in the order in which they began. */
static void check(const struct taut_sync_piece *pieces, uint32_t n,
	int64_t begin_ns)
{
	uint64_t bytes[TASKS] = { 0 };
	int64_t end_ns = tauti_now_ns();

	for (uint32_t i = 0; i < n; i++) {
		const struct taut_sync_piece *p = &pieces[i];

		assert_true(p->task < TASKS);
		assert_true(p->bytes && p->bytes <= 128);
		assert_int_equal(p->first_byte, bytes[p->task] %
			(p->task ? 4 * COUNT : 32));
		bytes[p->task] += p->bytes;
		assert_true(begin_ns <= p->start_ns);
		assert_true(p->start_ns <= p->end_ns && p->end_ns <= end_ns);
	}
	assert_int_equal(bytes[0], ROUNDS * 32);
	for (int i = 1; i < TASKS; i++)
		assert_int_equal(bytes[i], ROUNDS * 4 * COUNT);
}

static void test_all(void **state)
{
	struct taut_sync_piece pieces[2][200];
	struct ranks ranks;
	int64_t begin_ns = tauti_now_ns();
	uint32_t n[2];

	(void)state;
	ranks_create(&ranks, 2, &options);
	ranks_each(&ranks, sum_some);
	for (int i = 0; i < 2; i++) {
		n[i] = taut_sync_watched(ranks.rank[i].sync, pieces[i], 200);
		assert_int_equal(n[i], ROUNDS * (1 + 2 * 3));
		check(pieces[i], n[i], begin_ns);
	}
	for (uint32_t i = 0; i < n[0]; i++) { /* the same on all ranks */
		uint32_t k = 0;

		while (k < n[1] && (pieces[1][k].message != pieces[0][i].message
			|| pieces[1][k].task != pieces[0][i].task))
			k++;
		assert_true(k < n[1]);
		assert_int_equal(pieces[1][k].first_byte,
			pieces[0][i].first_byte);
	}
	ranks_destroy(&ranks);
}

static void watch_few(struct rank *rank)
{
	float values[8] = { 1 };

	RANK_OK(rank, taut_sync_watch(rank->sync, 2, why));
	for (int k = 0; k < 5; k++) {
		RANK_OK(rank, taut_sync_ready(rank->sync, 0, values, why));
		RANK_OK(rank, taut_sync_wait(rank->sync, 0, -1, why));
	}
}

static void sum_and_watch_few(struct rank *rank)
{
	sum_some(rank);
	watch_few(rank);
}

/* The last ones stay; and none where nobody asked, or asks no more. */
static void test_last(void **state)
{
	struct taut_sync_piece pieces[3];
	struct ranks ranks;
	struct taut_sync *sync;

	(void)state;
	ranks_create(&ranks, 2, &options);
	assert_int_equal(
		taut_sync_watched(ranks.rank[0].sync, pieces, 3), 0);
	ranks_each(&ranks, sum_and_watch_few);
	sync = ranks.rank[0].sync;
	assert_int_equal(taut_sync_watched(sync, pieces, 3), 2);
	assert_int_equal(pieces[0].message + 1, pieces[1].message);
	assert_int_equal(pieces[0].task, 0);
	assert_int_equal(taut_sync_watched(sync, pieces, 1), 1);
	assert_int_equal(taut_sync_watch(sync, 0, NULL), TAUT_OK);
	assert_int_equal(taut_sync_watched(sync, pieces, 3), 0);
	ranks_destroy(&ranks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

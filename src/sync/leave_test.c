/* Ranks that end, in peace or not, and what the others make of it. */
#include "sync/ranks.h"

static const struct taut_sync_options PLAIN = { .ordered = true };

static uint32_t declare(struct rank *rank, enum taut_type type, uint64_t count,
	int64_t priority, double factor)
{
	uint32_t task = TAUT_NONE;

	RANK_OK(rank, taut_sync_declare(rank->sync, type, count, priority,
		factor, &task, why));
	return task;
}

static void ready(struct rank *rank, uint32_t task, void *data)
{
	RANK_OK(rank, taut_sync_ready(rank->sync, task, data, why));
}

static void await(struct rank *rank, uint32_t task)
{
	RANK_OK(rank, taut_sync_wait(rank->sync, task, -1, why));
}

/* Rank 1 has its part of the iterations before, and leaves. */
static void sum_one(struct rank *rank)
{
	int32_t value = 1;
	uint32_t task = declare(rank, TAUT_INT32, 1, 0, 0);

	ready(rank, task, &value);
	await(rank, task);
	RANK_CHECK(rank, value == 3);
}

static void leave_in_peace(struct rank *rank)
{
	int32_t value = 1;

	if (rank->id == 1) {
		taut_sync_destroy(rank->sync);
		rank->sync = NULL;
		return;
	}
	ranks_try_ready(rank, 0, &value);
	ranks_expect_line(rank, TAUT_EIO, "rank 1 has left");
}

static void declare_two(struct rank *rank)
{
	declare(rank, TAUT_INT32, 1, 0, 0);
	declare(rank, TAUT_INT32, 1, 0, 0);
}

/* Rank 1 has a task under way that the others do not begin. */
static void leave_under_way(struct rank *rank)
{
	int32_t value = 1;

	if (rank->id == 1) {
		ready(rank, 0, &value);
		taut_sync_destroy(rank->sync);
		rank->sync = NULL;
		return;
	}
	ranks_try_ready(rank, 1, &value);
	ranks_expect_line(rank, TAUT_EIO, "rank 1");
}

static void give_up(struct rank *rank)
{
	int32_t value = 1;

	if (rank->id == 2)
		taut_sync_fail(rank->sync, TAUT_ENOMEM, "no more room");
	else
		ranks_try_ready(rank, 1, &value);
	ranks_expect_line(rank, rank->id == 2 ? TAUT_ENOMEM : TAUT_EIO,
		rank->id == 2 ? "no more room" : "rank 2 has failed: out of");
}

static void test_ends(void **state)
{
	struct taut_sync_options declared = { .order = TAUT_SCHED_DECLARED };
	struct ranks ranks;

	(void)state;
	for (int i = 0; i < 20; i++) {
		ranks_create(&ranks, 3, i % 2 ? &PLAIN : &declared);
		ranks_each(&ranks, sum_one);
		ranks_each(&ranks, leave_in_peace);
		ranks_destroy(&ranks);
		ranks_create(&ranks, 3, i % 2 ? &PLAIN : &declared);
		ranks_each(&ranks, declare_two);
		ranks_each(&ranks, give_up);
		ranks_destroy(&ranks);
		ranks_create(&ranks, 3, i % 2 ? &PLAIN : &declared);
		ranks_each(&ranks, declare_two);
		ranks_each(&ranks, leave_under_way);
		ranks_destroy(&ranks);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Ranks that end, in peace or not, and what the others make of it. */
#include "sync/ranks.h"

#include <sched.h>

static const struct taut_sync_options PLAIN = { .ordered = true };

/* Rank 1 has its part of the iterations before, and leaves. */
static void sum_one(struct rank *rank)
{
	int32_t value = 1;
	uint32_t task = ranks_declare(rank, TAUT_INT32, 1, 0, 0);

	ranks_ready(rank, task, &value);
	ranks_await(rank, task);
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
	ranks_declare(rank, TAUT_INT32, 1, 0, 0);
	ranks_declare(rank, TAUT_INT32, 1, 0, 0);
}

/* Rank 1 has a task under way that the others do not begin. */
static void leave_under_way(struct rank *rank)
{
	int32_t value = 1;

	if (rank->id == 1) {
		ranks_ready(rank, 0, &value);
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

/* --- with any status ----------------------------------------------------------------*/

/* What is no failure is one of input and output, here and on the other rank. */
static void fail_with(struct rank *rank)
{
	const int *status = rank->all->context;
	struct taut_error err = { .message = "" };
	int32_t value = 1;
	uint64_t run;

	if (!rank->id) {
		RANK_OK(rank, taut_sync_start(rank->sync, NULL, &run, why));
		taut_sync_fail(rank->sync, (taut_status)*status, "no room");
		RANK_CHECK(rank, taut_sync_finish(rank->sync, run, 10000000000,
			&err) == TAUT_EIO && !strcmp(err.message, "no room"));
		return;
	}
	ranks_try_ready(rank, 0, &value);
	ranks_expect_line(rank, TAUT_EIO,
		"rank 0 has failed: input/output error");
}

static void test_status(void **state)
{
	int statuses[] = { TAUT_OK, TAUT_EAGAIN, TAUT_EAGAIN - 1, 28, -300 };
	struct ranks ranks;

	(void)state;
	for (int i = 0; i < 5; i++) {
		ranks_create(&ranks, 2, &PLAIN);
		ranks.context = &statuses[i];
		ranks_each(&ranks, declare_two);
		ranks_each(&ranks, fail_with);
		ranks_destroy(&ranks);
	}
}

/* --- one after another --------------------------------------------------------------*/

struct leaving {
	atomic_bool first_has_left;
	bool fails; /* the second one */
};

/* What rank 0 spreads goes through rank 1 to the others. When rank 0 has it behind it,
 * it leaves in peace; rank 1 has no part in it, and leaves too, or fails. */
static void leave_second(struct rank *rank)
{
	static float values[SYNC_ROOM][1000];
	struct leaving *leaving = rank->all->context;
	struct taut_coll_call call = { .verb = TAUT_BROADCAST,
		.type = TAUT_FLOAT32, .way = TAUT_WAY_TREE,
		.output = values[rank->id], .count = 1000 };
	struct taut_error err = { .message = "" };
	uint64_t run;

	if (rank->id == 1) {
		while (!atomic_load(&leaving->first_has_left))
			sched_yield();
		if (leaving->fails) {
			taut_sync_fail(rank->sync, TAUT_EFORMAT, "a fault");
			return;
		}
	} else {
		RANK_OK(rank, taut_sync_start(rank->sync, &call, &run, why));
	}
	if (rank->id == 0)
		RANK_OK(rank, taut_sync_finish(rank->sync, run, -1, why));
	if (rank->id > 1) {
		RANK_CHECK(rank, taut_sync_finish(rank->sync, run, 10000000000,
			&err) == TAUT_EIO);
		RANK_CHECK(rank, strstr(err.message, "rank "));
		return;
	}
	taut_sync_destroy(rank->sync);
	rank->sync = NULL;
	atomic_store(&leaving->first_has_left, true);
}

static void test_second(void **state)
{
	struct ranks ranks;

	(void)state;
	for (int i = 0; i < 10; i++) {
		struct leaving leaving = { .fails = i % 2 };

		ranks_create(&ranks, SYNC_ROOM, &PLAIN);
		ranks.context = &leaving;
		ranks_each(&ranks, leave_second);
		ranks_destroy(&ranks);
	}
}

/* --- on the same communicator ---------------------------------------------------------*/

/* Rank 0 leaves when its task is done, and the next sync at once; rank 1 asks for its own
 * task when it has heard of both. */
static void leave_next(struct rank *rank)
{
	atomic_bool *is_made = rank->all->context;
	int32_t value = 1;
	uint32_t task = ranks_declare(rank, TAUT_INT32, 1, 0, 0), next;

	ranks_ready(rank, task, &value);
	if (rank->id) {
		RANK_OK(rank, taut_sync_next(rank->sync, -1, &next, why));
		while (!atomic_load(is_made))
			sched_yield();
		nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
	}
	ranks_await(rank, task);
	taut_sync_destroy(rank->sync);
	RANK_OK(rank, taut_sync_create(
		rank->comm, &PLAIN, &rank->sync, why));
	atomic_store(is_made, true);
	taut_sync_destroy(rank->sync);
	rank->sync = NULL;
	RANK_OK(rank, taut_comm_barrier(rank->comm, why));
}

static void test_next(void **state)
{
	atomic_bool is_made = false;
	struct ranks ranks;

	(void)state;
	ranks_create(&ranks, 2, &PLAIN);
	ranks.context = &is_made;
	ranks_each(&ranks, leave_next);
	ranks_destroy(&ranks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_second),
		cmocka_unit_test(test_next),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

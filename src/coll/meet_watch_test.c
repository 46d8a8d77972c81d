/* Ranks that watch each other, as processes: killed, stopped, leaving. */
#include "tests/support/ranks.h"

#include <signal.h>
#include <sys/mman.h>

#include "coll/meet.h"

static const int64_t second_ns = 1000000000;

/* What the ranks, which are processes, tell the test. */
struct told {
	_Atomic int watching, lost, need;
	_Atomic int n_left, left[RANKS_MOST]; /* in order */
	uint32_t reached;
	int64_t lost_ns; /* when */
	char line[512];
};

struct world {
	char where[64];
	uint32_t n_ranks;
	int64_t lost_after_ns;
	pid_t pids[RANKS_MOST];
	struct told *told; /* shared by all */
	_Atomic int *orders; /* by rank: 0 stay, 1 leave, 2 fail, 3 exit */
};

static void lost(void *context, const struct taut_error *why)
{
	struct told *told = context;

	told->lost_ns = ranks_now_ns();
	memcpy(told->line, why->message, sizeof why->message);
	told->lost++;
}

static void left(void *context, uint32_t rank, const uint32_t *reached)
{
	struct told *told = context;

	told->reached = reached[TAUTI_REACHED - 1];
	told->left[told->n_left++] = (int)rank;
}

static enum tauti_need needs(void *context)
{
	struct told *told = context;

	return (enum tauti_need)told->need;
}

static void child(struct world *world, uint32_t rank)
{
	struct tauti_meet_options options = { rank, world->n_ranks,
		world->where, "open sesame", 20 * second_ns,
		world->lost_after_ns, false };
	struct taut_error why = { .code = TAUT_EMATCH, .message =
		"rank 1 cannot go on" };
	const struct tauti_watch watch = { lost, left, needs,
		&world->told[rank] };
	struct tauti_meet *meet = NULL;
	uint8_t mine = (uint8_t)rank, all[RANKS_MOST];

	if (tauti_meet_create(&options, &meet, &why) ||
		tauti_meet_gather(meet, &mine, 1, all, &why) ||
		tauti_meet_watch(meet, &watch, &why)) {
		fprintf(stderr, "rank %u: %s\n", rank, why.message);
		_exit(1);
	}
	world->told[rank].watching = 1;
	while (world->orders[rank] == 0)
		usleep(1000);
	if (world->orders[rank] == 2)
		tauti_meet_fail(meet, &why);
	if (world->orders[rank] == 1)
		tauti_meet_leave(meet, (uint32_t[TAUTI_REACHED]){
			[TAUTI_REACHED - 1] = 100 + rank });
	if (world->orders[rank] != 3)
		tauti_meet_destroy(meet);
	_exit(0);
}

static void world_init(struct world *world, uint32_t n_ranks,
	int64_t lost_after_ns)
{
	size_t bytes = RANKS_MOST * (sizeof(struct told) + sizeof(_Atomic int));
	char *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(shared != MAP_FAILED);
	*world = (struct world){ .n_ranks = n_ranks,
		.lost_after_ns = lost_after_ns };
	world->told = (struct told *)(void *)shared;
	world->orders = (_Atomic int *)(void *)(shared +
		RANKS_MOST * sizeof(struct told));
	snprintf(world->where, sizeof world->where, "127.0.0.1:%u",
		ranks_free_port());
	for (uint32_t i = 0; i < n_ranks; i++) {
		world->pids[i] = fork();
		if (world->pids[i] == 0)
			child(world, i);
	}
	for (uint32_t i = 0; i < n_ranks; i++)
		while (!world->told[i].watching) {
			assert_int_equal(waitpid(world->pids[i], NULL, WNOHANG), 0);
			usleep(1000);
		}
}

static void world_fini(struct world *world)
{
	for (uint32_t i = 0; i < world->n_ranks; i++) {
		kill(world->pids[i], SIGKILL);
		waitpid(world->pids[i], NULL, 0);
	}
	munmap(world->told,
		RANKS_MOST * (sizeof(struct told) + sizeof(_Atomic int)));
}

/* All but one learn within a time that it is lost, and say so in one line. */
static void all_learn(struct world *world, uint32_t but, int64_t since_ns,
	int64_t within_ns, const char *line)
{
	for (uint32_t i = 0; i < world->n_ranks; i++) {
		struct told *told = &world->told[i];

		if (i == but)
			continue;
		while (!told->lost && ranks_now_ns() < since_ns + 20 * second_ns)
			usleep(1000);
		assert_int_equal(told->lost, 1);
		if (!strstr(told->line, line))
			fail_msg("rank %u says: %s", i, told->line);
		if (told->lost_ns - since_ns > within_ns)
			fail_msg("rank %u learnt it after %g s", i,
				(double)(told->lost_ns - since_ns) / 1e9);
	}
}

static void killed(uint32_t n_ranks, uint32_t victim, const char *line)
{
	struct world world;
	int64_t since_ns;

	world_init(&world, n_ranks, 60 * second_ns);
	since_ns = ranks_now_ns();
	kill(world.pids[victim], SIGKILL);
	all_learn(&world, victim, since_ns, second_ns, line);
	world_fini(&world);
}

static void test_killed(void **state)
{
	(void)state;
	killed(4, 2, "rank 2 (127.0.0.1) is lost: its connection closed");
	killed(4, 0, "is lost: its connection closed");
	killed(2, 1, "rank 1 (127.0.0.1) is lost: its connection closed");
}

/* It stands still with all its connections open. */
static void stopped(uint32_t victim, const char *line)
{
	const int64_t lost_after_ns = 2 * second_ns;
	struct world world;
	int64_t since_ns;

	world_init(&world, 4, lost_after_ns);
	since_ns = ranks_now_ns();
	kill(world.pids[victim], SIGSTOP);
	/* Within lost_after_ns, and what a loaded machine takes to wake up. */
	all_learn(&world, victim, since_ns, lost_after_ns + second_ns, line);
	for (uint32_t i = 0; i < 4; i++)
		if (i != victim)
			assert_true(world.told[i].lost_ns - since_ns >
				lost_after_ns / 2);
	world_fini(&world);
}

static void test_stopped(void **state)
{
	(void)state;
	stopped(3, "rank 3 (127.0.0.1) is lost: it says nothing for ");
	stopped(0, "is lost: it says nothing for ");
}

/* Nobody is lost while all are well, for many times lost_after_ns. */
static void test_quiet(void **state)
{
	struct world world;

	(void)state;
	world_init(&world, 3, second_ns);
	usleep(2200000);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(world.told[i].lost, 0);
	world_fini(&world);
}

static int exit_of(struct world *world, uint32_t rank)
{
	int status = -1;

	waitpid(world->pids[rank], &status, 0);
	world->pids[rank] = fork(); /* so that world_fini() has one to end */
	if (world->pids[rank] == 0) {
		pause();
		_exit(0);
	}
	return status;
}

/* In any order, also rank 0 first. */
static void test_leaves(void **state)
{
	static const uint32_t orders[][3] = { { 1, 2, 0 }, { 0, 2, 1 },
		{ 2, 0, 1 } };

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct world world;

		world_init(&world, 3, 20 * second_ns);
		for (int k = 0; k < 3; k++) {
			world.orders[orders[i][k]] = 1;
			assert_int_equal(exit_of(&world, orders[i][k]), 0);
		}
		for (uint32_t k = 0; k < 3; k++)
			assert_int_equal(world.told[k].lost, 0);
		world_fini(&world);
	}
}

static void await_left(struct told *told, int n_left)
{
	int64_t since_ns = ranks_now_ns();

	while (told->n_left < n_left && ranks_now_ns() < since_ns + 20 * second_ns)
		usleep(1000);
	assert_int_equal(told->n_left, n_left);
}

/* All others hear of each, with what it said, in one order. */
static void test_left(void **state)
{
	struct world world;

	(void)state;
	world_init(&world, 4, 20 * second_ns);
	world.orders[2] = 1;
	for (uint32_t i = 0; i < 4; i++)
		if (i != 2)
			await_left(&world.told[i], 1);
	assert_int_equal(world.told[3].reached, 102);
	world.told[1].need = world.told[3].need = TAUTI_NEEDS_NOW;
	world.orders[0] = 1;
	for (uint32_t i = 1; i < 4; i += 2) {
		await_left(&world.told[i], 2);
		assert_int_equal(world.told[i].left[0], 2);
		assert_int_equal(world.told[i].left[1], 0);
		assert_int_equal(world.told[i].reached, 100);
	}
	/* Rank 0 stays as long as one of both needs the other. */
	world.orders[1] = 1;
	await_left(&world.told[3], 3);
	assert_int_equal(world.told[3].left[2], 1);
	assert_int_equal(waitpid(world.pids[0], NULL, WNOHANG), 0);
	world.orders[3] = 1;
	assert_int_equal(exit_of(&world, 0), 0);
	assert_int_equal(world.told[3].lost, 0);
	world_fini(&world);
}

/* Rank 0 has left; those that need each other are watched all the same. */
static void test_host_left_then_killed(void **state)
{
	struct world world;
	int64_t since_ns;

	(void)state;
	world_init(&world, 4, 20 * second_ns);
	for (uint32_t i = 1; i < 4; i++)
		world.told[i].need = TAUTI_NEEDS_NOW;
	world.orders[0] = 1;
	for (uint32_t i = 1; i < 4; i++)
		await_left(&world.told[i], 1);
	since_ns = ranks_now_ns();
	kill(world.pids[2], SIGKILL);
	world.told[0].lost = 1; /* it is not asked */
	strcpy(world.told[0].line, "rank 2 (127.0.0.1) is lost");
	all_learn(&world, 2, since_ns, second_ns, "rank 2 (127.0.0.1) is lost");
	world_fini(&world);
}

/* Rank 0 does not stay for ever, nor does who waits without it. */
static void test_host_gone(void **state)
{
	struct world world;
	int64_t since_ns;

	(void)state;
	world_init(&world, 3, second_ns);
	world.told[1].need = TAUTI_NEEDS_NOW;
	world.told[2].need = TAUTI_NEEDS_LATER;
	since_ns = ranks_now_ns();
	world.orders[0] = 1;
	assert_int_equal(exit_of(&world, 0), 0);
	assert_true(ranks_now_ns() - since_ns >= second_ns);
	while (!world.told[1].lost && ranks_now_ns() < since_ns + 20 * second_ns)
		usleep(1000);
	assert_int_equal(world.told[1].lost, 1);
	if (!strstr(world.told[1].line, "rank 0 has left"))
		fail_msg("%s", world.told[1].line);
	assert_int_equal(world.told[2].lost, 0);
	world_fini(&world);
}

/* One left in peace, and then one is killed. */
static void test_leaves_then_killed(void **state)
{
	struct world world;
	int64_t since_ns;

	(void)state;
	world_init(&world, 4, 20 * second_ns);
	world.orders[1] = 1;
	assert_int_equal(exit_of(&world, 1), 0);
	since_ns = ranks_now_ns();
	kill(world.pids[3], SIGKILL);
	world.told[1].lost = 1; /* it is not asked */
	strcpy(world.told[1].line, "rank 3 (127.0.0.1) is lost");
	all_learn(&world, 3, since_ns, second_ns, "rank 3 (127.0.0.1) is lost");
	world_fini(&world);
}

/* A process that ends without leaving is lost. */
static void test_exits(void **state)
{
	struct world world;

	(void)state;
	world_init(&world, 3, 20 * second_ns);
	world.orders[2] = 3;
	/* A sanitizer takes a second to exit. */
	all_learn(&world, 2, ranks_now_ns(), 4 * second_ns,
		"rank 2 (127.0.0.1)");
	world_fini(&world);
}

static void failing(uint32_t rank)
{
	struct world world;

	world_init(&world, 4, 20 * second_ns);
	world.orders[rank] = 2;
	all_learn(&world, rank, ranks_now_ns(), second_ns,
		"rank 1 cannot go on");
	assert_int_equal(exit_of(&world, rank), 0);
	assert_int_equal(world.told[rank].lost, 0);
	world_fini(&world);
}

static void test_fails(void **state)
{
	(void)state;
	failing(1);
	failing(0);
}

/* --- in one process ---------------------------------------------------------------------*/

struct pair {
	char where[64];
	struct tauti_meet *meets[2];
	_Atomic int lost[2];
	struct taut_error error[2];
};

static void lost_one(void *context, const struct taut_error *why)
{
	_Atomic int *count = context;

	(void)why;
	++*count;
}

static void *meet_pair(void *context)
{
	struct ranks_one *one = context;
	struct pair *pair = one->shared;
	struct tauti_meet_options options = { one->rank, 2, pair->where, "s",
		20 * second_ns, 20 * second_ns, false };
	struct taut_error *err = &pair->error[one->rank];
	const struct tauti_watch watch = { .lost = lost_one,
		.context = &pair->lost[one->rank] };

	if (tauti_meet_create(&options, &pair->meets[one->rank], err))
		return NULL;
	if (tauti_meet_watch(pair->meets[one->rank], &watch, err))
		return NULL;
	return NULL;
}

static void pair_init(struct pair *pair)
{
	struct ranks_one ones[2];

	*pair = (struct pair){ .where = "" };
	snprintf(pair->where, sizeof pair->where, "127.0.0.1:%u",
		ranks_free_port());
	ranks_start(ones, 0, 2, meet_pair, pair);
	ranks_join(ones, 0, 2);
	for (int i = 0; i < 2; i++)
		if (pair->error[i].code)
			fail_msg("%s", pair->error[i].message);
}

static void *fail_it(void *context)
{
	struct taut_error why = { .code = TAUT_EIO, .message = "enough" };

	tauti_meet_fail(context, &why);
	return NULL;
}

/* From several threads, once; and both at once. */
static void test_fail_threads(void **state)
{
	(void)state;
	for (int turn = 0; turn < 20; turn++) {
		pthread_t threads[4];
		struct pair pair;

		pair_init(&pair);
		for (int i = 0; i < 4; i++)
			assert_int_equal(pthread_create(&threads[i], NULL,
				fail_it, pair.meets[i < turn % 4]), 0);
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
		while (pair.lost[0] + pair.lost[1] == 0 && turn % 4 == 0)
			usleep(100);
		tauti_meet_destroy(pair.meets[turn % 2]);
		tauti_meet_destroy(pair.meets[1 - turn % 2]);
		assert_true(pair.lost[0] <= 1 && pair.lost[1] <= 1);
	}
}

/* Beats and leaves that cross. */
static void test_many_times(void **state)
{
	(void)state;
	for (int turn = 0; turn < 30; turn++) {
		struct pair pair;

		pair_init(&pair);
		tauti_meet_destroy(pair.meets[turn % 2]);
		tauti_meet_destroy(pair.meets[1 - turn % 2]);
		assert_int_equal(pair.lost[0] + pair.lost[1], 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_quiet),
		cmocka_unit_test(test_leaves),
		cmocka_unit_test(test_left),
		cmocka_unit_test(test_host_left_then_killed),
		cmocka_unit_test(test_host_gone),
		cmocka_unit_test(test_leaves_then_killed),
		cmocka_unit_test(test_exits),
		cmocka_unit_test(test_fails),
		cmocka_unit_test(test_fail_threads),
		cmocka_unit_test(test_many_times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

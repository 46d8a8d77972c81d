/* Ranks as threads and as processes that are killed, and how they come to share
 * memory. */
#include "coll/engines/shm_ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/alloc_fail.h"

/* --- threads that all send to all -----------------------------------------------------*/

enum { ROUNDS = 60 };

static uint32_t value_of(uint32_t rank, uint32_t round, size_t i)
{
	return rank * 1000003u + round * 101u + (uint32_t)i;
}

static size_t count_of(uint32_t round)
{
	static const size_t counts[] = { 1, 10, 11, 250, 251, 3000, BIG / 4 };

	return counts[round % (round % 11 ? 6 : 7)];
}

/* Each multicasts and sums what comes; as many rounds at once as there are. */
static void sum_all(struct rank *rank)
{
	static const size_t most = BIG / 4;
	uint32_t n = rank->job->n_ranks, n_peers = 0;
	uint32_t peers[GATHER_RANKS], *from = malloc(BIG), *to = malloc(BIG);
	struct event sent, got;

	for (uint32_t i = 0; i < n; i++)
		if (i != rank->rank)
			peers[n_peers++] = i;
	for (uint32_t round = 0; round < ROUNDS; round++) {
		size_t count = count_of(round) < most ? count_of(round) : most;

		for (size_t i = 0; i < count; i++)
			to[i] = from[i] = value_of(rank->rank, round, i);
		sent = (struct event){ .request.done = note };
		if (rank->engine.table->send(rank->engine.context, peers,
				n_peers, round, from, count * 4, &sent.request,
				NULL) != TAUT_OK)
			abort();
		for (uint32_t i = 0; i < n_peers; i++) {
			got = (struct event){ .request.done = note };
			if (rank->engine.table->recv_reduce(
					rank->engine.context, peers[i], round,
					TAUT_INT32, TAUT_SUM, to, to, count,
					&got.request, NULL) != TAUT_OK)
				abort();
			until(rank, &got);
		}
		for (size_t i = 0; i < count; i++) {
			uint32_t sum = 0;

			for (uint32_t j = 0; j < n; j++)
				sum += value_of(j, round, i);
			rank->err.offset += to[i] == sum;
		}
		until(rank, &sent);
	}
	free(from);
	free(to);
}

static size_t right_sums(void)
{
	size_t n = 0;

	for (uint32_t round = 0; round < ROUNDS; round++)
		n += count_of(round);
	return n;
}

static void test_sums(void **state)
{
	struct job job;

	(void)state;
	for (uint32_t n = 2; n < 6; n++) {
		begin(&job, n, NULL, sum_all);
		run_threads(&job);
		for (uint32_t i = 0; i < n; i++)
			assert_int_equal(job.ranks[i].err.offset, right_sums());
		end(&job);
	}
}

/* --- processes ------------------------------------------------------------------------*/

static pid_t fork_rank(struct job *job, uint32_t rank)
{
	pid_t child = fork();

	if (child)
		return child;
	run_rank(&job->ranks[rank]);
	_exit(job->ranks[rank].status == TAUT_OK &&
		job->ranks[rank].err.offset == (int64_t)right_sums() ? 0 : 1);
}

static void test_processes(void **state)
{
	static const uint32_t host_of[] = { 7, 3, 7, 3, 7 };
	struct job job;
	pid_t children[4];
	int status;

	(void)state;
	begin(&job, 4, NULL, sum_all);
	for (uint32_t i = 0; i < 4; i++)
		children[i] = fork_rank(&job, i);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	end(&job);
	/* two hosts that are one machine: each has a mapping of its own */
	begin(&job, 5, host_of, NULL);
	run_threads(&job);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(job.ranks[i].status, TAUT_OK);
		assert_int_equal(engine_of(&job, i)->n_peers, i % 2 ? 2 : 3);
		assert_int_equal(engine_of(&job, i)->map.index, i / 2);
	}
	end(&job);
}

/* Killed in the middle of anything: the others neither crash nor hang in a call. */
static void send_for_ever(struct rank *rank)
{
	unsigned char *data = calloc(1, BIG);
	struct event sent;

	for (uint64_t i = 0;; i++) {
		size_t bytes = i % 3 == 0 ? BIG : i % 3 == 1 ? 600 : 8;

		if (send_one(rank, 0, i, data, bytes, &sent) != TAUT_OK)
			abort();
		until(rank, &sent);
	}
}

static unsigned char data_of_killed[BIG];
static struct event last_of_killed;

static void receive(struct rank *rank, uint64_t i)
{
	size_t bytes = i % 3 == 0 ? BIG : i % 3 == 1 ? 600 : 8;

	assert_int_equal(recv_one(rank, 1, i, data_of_killed, bytes,
		&last_of_killed), TAUT_OK);
}

static void receive_and_kill(struct rank *rank, pid_t child, uint32_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		receive(rank, i);
		until(rank, &last_of_killed);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	/* what it had published still comes, then nothing more */
	for (uint64_t i = n; last_of_killed.n_done; i++) {
		receive(rank, i);
		assert_int_equal(rank->engine.table->wait(rank->engine.context,
			1000000, NULL), TAUT_OK);
		assert_int_equal(progress(rank), TAUT_OK);
	}
}

static void test_killed(void **state)
{
	struct job job;

	(void)state;
	for (uint32_t n = 1; n < 40; n += 3) {
		pid_t child;

		begin(&job, 2, NULL, send_for_ever);
		child = fork_rank(&job, 1);
		job.work = NULL;
		run_rank(&job.ranks[0]);
		assert_int_equal(job.ranks[0].status, TAUT_OK);
		receive_and_kill(&job.ranks[0], child, n);
		end(&job);
		expect(&last_of_killed, 1, TAUT_EIO);
	}
}

/* --- creation -------------------------------------------------------------------------*/

/* Memory fails on one rank at each of its requests: it says so, and what it has
 * is given back. The others are played by this thread, as in make(). */
static taut_status lone_gather(void *context, const void *mine, size_t bytes,
	void *ret_all, struct taut_error *reterr)
{
	(void)context;
	(void)reterr;
	memcpy(ret_all, mine, bytes);
	return TAUT_OK;
}

static void test_no_memory(void **state)
{
	static const uint32_t host_of[] = { 0 };
	struct tauti_shm_world world = { 0, 1, host_of, lone_gather, NULL,
		false };
	struct tauti_engine engine = { 0 };
	taut_status status = TAUT_ENOMEM;

	(void)state;
	for (long n = 0; status != TAUT_OK; n++) {
		struct taut_error err = { 0 };

		assert_true(n < 100);
		alloc_fail_after(n);
		status = tauti_shm_create_by(&world, &engine, &err);
		alloc_fail_never();
		if (status != TAUT_OK)
			assert_int_equal(status, TAUT_ENOMEM);
	}
	engine.table->destroy(engine.context);
}

static taut_status foreign_gather(void *context, const void *mine, size_t bytes,
	void *ret_all, struct taut_error *reterr)
{
	(void)mine;
	(void)reterr;
	memcpy(ret_all, context, 2 * bytes);
	return TAUT_OK;
}

/* The first rank tells a name or a size that cannot be. */
static void test_foreign_hello(void **state)
{
	static const uint32_t host_of[2];
	static unsigned char hellos[2][512];
	struct tauti_shm_world world = { 1, 2, host_of, foreign_gather, hellos,
		false };
	struct tauti_engine engine;
	struct taut_error err;

	(void)state;
	assert_int_equal(tauti_shm_create_by(&world, &engine, &err),
		TAUT_EFORMAT);
	memset(hellos, 'x', sizeof hellos);
	assert_true(tauti_shm_create_by(&world, &engine, &err) != TAUT_OK);
	/* Another's memory: errno 0, one slot, a name that is not of this kind. */
	memset(hellos, 0, sizeof hellos);
	hellos[0][4] = 1;
	memcpy(hellos[0] + 8, "/taut-1", 8);
	assert_int_equal(tauti_shm_create_by(&world, &engine, &err),
		TAUT_EFORMAT);
	memset(hellos, 'x', sizeof hellos);
	hellos[0][0] = ENOSPC; /* errno of the first rank, little-endian */
	memset(hellos[0] + 1, 0, 3);
	assert_int_equal(tauti_shm_create_by(&world, &engine, &err), TAUT_EIO);
	assert_non_null(strstr(err.message, "rank 0: /dev/shm is full"));
}

/* What is mapped has no name any more. */
static void test_no_name_left(void **state)
{
	FILE *maps;
	struct job job;
	char line[512];
	int n = 0;

	(void)state;
	make(&job, 4);
	maps = fopen("/proc/self/maps", "r");
	assert_non_null(maps);
	while (fgets(line, sizeof line, maps))
		if (strstr(line, "/taut-")) {
			assert_non_null(strstr(line, "(deleted)"));
			n++;
		}
	fclose(maps);
	assert_int_equal(n, 4);
	end(&job);
}

/* A file of the name that ours have, made an hour ago. */
static int leave_file(const char *name, bool locked)
{
	struct timespec hour_ago[2];
	int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	clock_gettime(CLOCK_REALTIME, &hour_ago[0]);
	hour_ago[0].tv_sec -= 3600;
	hour_ago[1] = hour_ago[0];
	assert_int_equal(futimens(fd, hour_ago), 0);
	if (locked)
		assert_int_equal(flock(fd, LOCK_SH), 0);
	return fd;
}

static bool is_there(const char *name)
{
	int fd = shm_open(name, O_RDONLY, 0);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static pid_t fork_limited(struct job *job, uint32_t rank)
{
	const struct rlimit little = { 1 << 20, 1 << 20 };
	pid_t child = fork();

	if (child)
		return child;
	if (setrlimit(RLIMIT_FSIZE, &little))
		_exit(2);
	run_rank(&job->ranks[rank]);
	_exit(job->ranks[rank].status == TAUT_EIO ? 0 : 1);
}

/* A rank may write no files of that size (ulimit -f): a line, and no signal. */
static void test_limited(void **state)
{
	struct job job;
	char name[48], line[64];
	int status;

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		pid_t child;

		begin(&job, 2, NULL, NULL);
		child = fork_limited(&job, i);
		run_rank(&job.ranks[!i]);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		assert_int_equal(job.ranks[!i].status, TAUT_EIO);
		snprintf(line, sizeof line, "rank %u: /dev/shm: %s", i,
			strerror(EFBIG));
		assert_non_null(strstr(job.ranks[!i].err.message, line));
		if (i == 0) { /* what rank 0 said last: see shm_map.c */
			memcpy(name, job.gather->said[0] + 8, 40);
			assert_true(tauti_shm_is_name(name));
			assert_false(is_there(name));
		}
		end(&job);
	}
}

/* What a killed rank left goes; what a living one makes just now, or has nothing to
 * do with us, stays. */
static void test_stale(void **state)
{
	static const char *const kinds[] = { "a", "b", "c", "" };
	char names[4][48];
	struct job job;
	int fds[4];

	(void)state;
	for (int i = 0; i < 4; i++) {
		snprintf(names[i], sizeof names[i], "/taut-%s%031x",
			kinds[i], (unsigned)getpid());
		fds[i] = leave_file(names[i], i == 1);
	}
	assert_int_equal(futimens(fds[2], NULL), 0); /* it is new */
	close(fds[0]);
	close(fds[2]);
	close(fds[3]);
	make(&job, 2);
	end(&job);
	assert_false(is_there(names[0]));
	for (int i = 1; i < 4; i++) {
		assert_true(is_there(names[i]));
		shm_unlink(names[i]);
	}
	close(fds[1]);
}

static void test_host_id(void **state)
{
	uint64_t mine = tauti_host_id();
	pid_t child;
	int status;

	(void)state;
	assert_int_equal(mine, tauti_host_id());
	child = fork();
	if (child == 0)
		_exit(tauti_host_id() == mine ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_foreign_hello),
		cmocka_unit_test(test_no_name_left),
		cmocka_unit_test(test_limited),
		cmocka_unit_test(test_stale),
		cmocka_unit_test(test_host_id),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

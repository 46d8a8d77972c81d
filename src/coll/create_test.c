/* Communicators of processes: each engine, on one host and on made-up others; ranks
 * that are killed, stopped, give up, or leave; ranks that do not belong together. */
#include "tests/support/ranks.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "coll/comm.h"
#include "coll/oracle.h"

static const int64_t second_ns = 1000000000;

struct one {
	struct taut_comm_options options;
	char meet[40];
	uint32_t per_host; /* ranks; 0: all on one */
	uint32_t victim;   /* the rank that something happens to */
	bool without_comm; /* the body makes its own */
	uint64_t seed;
	pid_t pid;
};

typedef int (*body)(struct one *one, struct taut_comm *comm);

/* In a child, who may not assert: the status that it exits with. */
#define EXPECT(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "create_test.c:%d: not so: %s\n", \
				__LINE__, #what); \
			return 1; \
		} \
	} while (0)

/* --- ranks as processes ----------------------------------------------------------------*/

static bool move_host(uint32_t number)
{
	char name[32];

	snprintf(name, sizeof name, "taut-test-%u", number);
	return (unshare(CLONE_NEWUTS) == 0 ||
		unshare(CLONE_NEWUSER | CLONE_NEWUTS) == 0) &&
		sethostname(name, strlen(name)) == 0;
}

static int run_one(struct one *one, body run)
{
	struct taut_comm *comm = NULL;
	struct taut_error err = { .offset = -1 };
	int failed;

	alarm(100);
	if (one->per_host && !move_host(one->options.rank / one->per_host))
		return UNIT_SKIP;
	if (!one->without_comm &&
		taut_comm_create(&one->options, &comm, &err)) {
		fprintf(stderr, "rank %u: %s\n", one->options.rank, err.message);
		return 2;
	}
	failed = run(one, comm);
	taut_comm_destroy(comm);
	return failed;
}

static void start(struct one *ones, uint32_t n, const struct one *like, body run)
{
	uint16_t port = ranks_free_port();

	for (uint32_t i = 0; i < n; i++) {
		struct one *one = &ones[i];

		*one = *like;
		one->options.rank = i;
		one->options.n_ranks = n;
		snprintf(one->meet, sizeof one->meet, "127.0.0.1:%u", port);
		one->options.meet = one->meet;
		one->options.secret = "of this test";
		one->pid = fork();
		assert_true(one->pid >= 0);
		if (one->pid == 0)
			_exit(run_one(one, run));
	}
}

/* False: such hosts cannot be made up here. */
static bool finish(struct one *ones, uint32_t n)
{
	bool skipped = false;

	for (uint32_t i = 0; i < n; i++) {
		int status;

		assert_int_equal(waitpid(ones[i].pid, &status, 0), ones[i].pid);
		if (WIFEXITED(status) && WEXITSTATUS(status) == UNIT_SKIP)
			skipped = true;
		else if (!skipped && !(i == ones[i].victim &&
			WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
			assert_int_equal(status, 0);
	}
	return !skipped;
}

static bool run_ranks(uint32_t n, const char *engine, uint32_t per_host,
	uint32_t victim, body run)
{
	const struct one like = { .options = { .engine = engine,
		.lost_after_ns = 2 * second_ns, .meet_within_ns = 60 * second_ns },
		.per_host = per_host, .victim = victim };
	struct one ones[RANKS_MOST];

	start(ones, n, &like, run);
	return finish(ones, n);
}

static void run_without(
	uint32_t n, const char *engine, uint32_t per_host, body run)
{
	const struct one like = { .options = { .engine = engine,
		.meet_within_ns = 60 * second_ns }, .per_host = per_host,
		.victim = TAUT_NONE, .without_comm = true };
	struct one ones[RANKS_MOST];

	start(ones, n, &like, run);
	(void)finish(ones, n);
}

/* --- sums ------------------------------------------------------------------------------*/

static int run_call(struct taut_comm *comm, struct taut_coll_call call)
{
	size_t bytes = call.count * taut_type_bytes(call.type) + 1;
	char *input = calloc(1, bytes), *output = calloc(1, bytes);
	uint32_t n = taut_comm_size(comm), rank = taut_comm_rank(comm);
	struct taut_error err = { .offset = -1 };

	EXPECT(input && output);
	oracle_fill(&call, n, rank, input);
	call.input = input;
	call.output = output;
	if (taut_comm_run(comm, &call, &err))
		fprintf(stderr, "rank %u: %s\n", rank, err.message);
	EXPECT(oracle_right(&call, n, rank, output));
	free(input);
	free(output);
	return 0;
}

static int sums(struct one *one, struct taut_comm *comm)
{
	static const uint64_t counts[] = { 1, 30, 5000, 70001 };
	const char *engine = taut_comm_engine(comm), *asked = one->options.engine;

	if (!one->per_host && asked && strcmp(asked, "auto") != 0 &&
		one->options.n_ranks > 1)
		EXPECT(strcmp(engine, asked) == 0);
	for (int verb = 0; verb < TAUT_VERBS; verb++) {
		for (int way = 0; way < TAUT_WAYS; way++) {
			struct taut_coll_call call = {
				.verb = (enum taut_coll_verb)verb,
				.way = (enum taut_coll_way)way,
				.root = one->options.n_ranks - 1 };

			if (way && !taut_coll_has(call.verb, call.way))
				continue;
			for (uint32_t i = 0; i < 4; i++) {
				call.count = counts[i];
				call.pass_bytes = way % 2 ? counts[i] : 0;
				call.passes_at_once = 3;
				EXPECT(!run_call(comm, call));
			}
		}
	}
	EXPECT(!taut_comm_barrier(comm, NULL));
	return 0;
}

static void test_sums(void **state)
{
	(void)state;
	run_ranks(1, NULL, 0, TAUT_NONE, sums);
	run_ranks(2, "shm", 0, TAUT_NONE, sums);
	run_ranks(3, "auto", 0, TAUT_NONE, sums);
	run_ranks(2, "ucx", 0, TAUT_NONE, sums);
	run_ranks(2, "tcp", 0, TAUT_NONE, sums);
}

/* What is measured decides; all ranks have the same. */
static bool is_far_of_auto(const char *name)
{
	return strcmp(name, "tcp") == 0 || strcmp(name, "ucx") == 0 ||
		strcmp(name, "tcp+ucx") == 0;
}

static bool all_have_it(struct one *one, struct taut_comm *comm)
{
	int32_t length = (int32_t)strlen(taut_comm_engine(comm)), sum = length;
	struct taut_coll_call call = { .verb = TAUT_ALLREDUCE, .type = TAUT_INT32,
		.output = &sum, .count = 1 };

	return !taut_comm_run(comm, &call, NULL) &&
		sum == length * (int32_t)one->options.n_ranks;
}

static int on_hosts(struct one *one, struct taut_comm *comm)
{
	struct taut_coll_choice choice =
		taut_comm_choice(comm, TAUT_ALLREDUCE, 1 << 20);
	const char *name = taut_comm_engine(comm);

	EXPECT(choice.n_hosts ==
		one->options.n_ranks / one->per_host);
	if (one->per_host != 1) {
		EXPECT(strncmp(name, "shm+", 4) == 0);
		name += 4;
	}
	EXPECT(strcmp(one->options.engine, "auto") ?
		strcmp(name, one->options.engine) == 0 : is_far_of_auto(name));
	EXPECT(all_have_it(one, comm));
	return sums(one, comm);
}

static void test_hosts(void **state)
{
	(void)state;
	if (!run_ranks(2, "auto", 1, TAUT_NONE, on_hosts))
		skip();
	run_ranks(4, "auto", 2, TAUT_NONE, on_hosts);
	run_ranks(2, "tcp", 1, TAUT_NONE, on_hosts);
	run_ranks(4, "tcp", 2, TAUT_NONE, on_hosts);
	run_ranks(2, "ucx", 1, TAUT_NONE, on_hosts);
	run_ranks(4, "ucx", 2, TAUT_NONE, on_hosts);
}

/* Where one rank may not open as much there is one engine between hosts on all. */
static int with_few_files(struct one *one, struct taut_comm *comm)
{
	struct rlimit files = { 200, 200 };
	struct taut_error err;

	(void)comm;
	if (one->options.rank == 1)
		EXPECT(!setrlimit(RLIMIT_NOFILE, &files));
	EXPECT(!taut_comm_create(&one->options, &comm, &err));
	EXPECT(strcmp(taut_comm_engine(comm), "ucx") == 0);
	EXPECT(!taut_comm_barrier(comm, NULL));
	taut_comm_destroy(comm);
	return 0;
}

static void test_few_files(void **state)
{
	(void)state;
	run_without(3, "auto", 1, with_few_files);
}

/* --- ranks that go ---------------------------------------------------------------------*/

static taut_status run_until_lost(
	struct one *one, struct taut_comm *comm, struct taut_error *err, int last)
{
	float data[2000] = { 0 };
	struct taut_coll_call call = { .verb = TAUT_ALLREDUCE, .output = data,
		.count = 2000, .pass_bytes = 4000, .passes_at_once = 2 };
	taut_status status = TAUT_OK;

	for (int i = 0; !status && i < last; i++) {
		call.way = i % 2 ? TAUT_WAY_RING : TAUT_WAY_FLAT;
		status = taut_comm_run(comm, &call, err);
	}
	(void)one;
	return status;
}

/* Within lost_after_ns, with time for a slow machine, and ever after. */
static int hears(struct one *one, struct taut_comm *comm, const char *line)
{
	struct taut_error err = { .offset = -1 };
	int64_t began_ns = ranks_now_ns();

	EXPECT(run_until_lost(one, comm, &err, INT32_MAX) == TAUT_EIO);
	if (!strstr(err.message, line))
		fprintf(stderr, "rank %u: %s\n", one->options.rank, err.message);
	EXPECT(strstr(err.message, line));
	EXPECT(ranks_now_ns() - began_ns < 20 * second_ns);
	EXPECT(taut_comm_barrier(comm, &err) == TAUT_EIO);
	EXPECT(strstr(err.message, line));
	return 0;
}

static int killed(struct one *one, struct taut_comm *comm)
{
	struct taut_error err;

	if (one->options.rank != one->victim)
		return hears(one, comm, "rank 1");
	EXPECT(!run_until_lost(one, comm, &err, 30));
	raise(SIGKILL);
	return 1;
}

static int stopped(struct one *one, struct taut_comm *comm)
{
	struct taut_error err;

	if (one->options.rank != one->victim)
		return hears(one, comm, "rank 1");
	EXPECT(!run_until_lost(one, comm, &err, 30));
	raise(SIGSTOP);
	return 0;
}

static void never_good(void *context, taut_status status)
{
	*(taut_status *)context = status;
}

static int gives_up(struct one *one, struct taut_comm *comm)
{
	static float data[4];
	taut_status status = TAUT_OK;
	struct taut_coll_call call = { .verb = TAUT_ALLREDUCE, .output = data,
		.count = 4, .way = TAUT_WAY_RING };
	struct taut_comm *twin;
	struct taut_error err;

	EXPECT(!taut_comm_twin(comm, &twin, NULL));
	if (one->options.rank != one->victim) {
		int failed = hears(one, comm, "rank 1: a communicator was "
			"destroyed with calls under way");

		taut_comm_destroy(twin);
		return failed;
	}
	EXPECT(!run_until_lost(one, comm, &err, 30));
	EXPECT(!taut_comm_start(twin, &call, never_good, &status, NULL));
	taut_comm_destroy(twin);
	EXPECT(status == TAUT_EIO);
	EXPECT(taut_comm_barrier(comm, NULL) == TAUT_EIO);
	return 0;
}

static void test_gone(void **state)
{
	(void)state;
	run_ranks(3, "shm", 0, 1, killed);
	run_ranks(3, "ucx", 0, 1, killed);
	run_ranks(3, "tcp", 0, 1, killed);
	run_ranks(4, "auto", 2, 1, killed);
	run_ranks(3, "shm", 0, 1, gives_up);
	run_ranks(2, "ucx", 0, 1, gives_up);
	run_ranks(2, "tcp", 0, 1, gives_up);
}

/* It is killed when all others have heard that it is lost. */
static void test_stopped(void **state)
{
	const struct one like = { .options = { .engine = "shm",
		.lost_after_ns = second_ns, .meet_within_ns = 60 * second_ns },
		.victim = 1 };
	struct one ones[3];
	int status;

	(void)state;
	start(ones, 3, &like, stopped);
	for (uint32_t i = 0; i < 3; i += 2) {
		assert_int_equal(waitpid(ones[i].pid, &status, 0), ones[i].pid);
		assert_int_equal(status, 0);
	}
	kill(ones[1].pid, SIGKILL);
	assert_int_equal(waitpid(ones[1].pid, &status, 0), ones[1].pid);
}

/* --- ranks that leave ------------------------------------------------------------------*/

/* Nothing ends beyond what it took part in. */
static int leaves(struct one *one, struct taut_comm *comm)
{
	char line[40];
	struct taut_error err = { .offset = -1 };

	if (run_until_lost(one, comm, &err, 30)) {
		fprintf(stderr, "rank %u: %s\n", one->options.rank, err.message);
		return 1;
	}
	snprintf(line, sizeof line, "rank %u has left", one->victim);
	return one->options.rank == one->victim ? 0 : hears(one, comm, line);
}

static void test_leaves(void **state)
{
	(void)state;
	for (uint32_t victim = 0; victim < 3; victim++)
		run_ranks(3, "shm", 0, victim, leaves);
	run_ranks(2, "shm", 0, 0, leaves);
	run_ranks(3, "ucx", 0, 0, leaves);
	run_ranks(3, "tcp", 0, 0, leaves);
	run_ranks(3, "ucx", 0, 2, leaves);
	run_ranks(3, "tcp", 0, 2, leaves);
	run_ranks(4, "auto", 2, 1, leaves);
}

static void await_left(const struct taut_comm *comm)
{
	while (!atomic_load(&comm->hub->left))
		usleep(1000);
}

/* What it took part in ends, also when that begins after it has left. */
static int still_ends(struct one *one, struct taut_comm *comm)
{
	uint32_t rank = one->options.rank, victim = one->victim;
	float data[100];
	struct taut_coll_call call = { .verb = TAUT_BROADCAST, .output = data,
		.count = 100, .root = victim, .way = TAUT_WAY_FLAT };
	struct taut_error err = { .offset = -1 };
	char line[40];

	EXPECT(!taut_comm_barrier(comm, NULL));
	if (rank != victim)
		await_left(comm);
	for (int i = 0; i < 5; i++) {
		for (int k = 0; k < 100; k++)
			data[k] = rank == victim ? (float)(i + k) : 0;
		if (taut_comm_run(comm, &call, &err))
			fprintf(stderr, "rank %u: %s\n", rank, err.message);
		for (int k = 0; k < 100; k++)
			EXPECT(data[k] == (float)(i + k));
	}
	snprintf(line, sizeof line, "rank %u has left", victim);
	return rank == victim ? 0 : hears(one, comm, line);
}

static void test_still_ends(void **state)
{
	(void)state;
	run_ranks(3, "shm", 0, 1, still_ends);
	run_ranks(3, "shm", 0, 0, still_ends);
	run_ranks(3, "ucx", 0, 1, still_ends);
	run_ranks(3, "tcp", 0, 1, still_ends);
	run_ranks(3, "ucx", 0, 0, still_ends);
	run_ranks(3, "tcp", 0, 0, still_ends);
	run_ranks(4, "auto", 2, 0, still_ends);
}

/* Each rank begins a number of calls of its own, several at once on two channels.
 * Exactly those end in which all took part. */
enum { CALLS = 24, AT_ONCE = 4, NUMBERS = 600 };

struct flight {
	struct taut_comm *comms[2];
	uint32_t n_begun, n_under_way, n_well, n_ill;
	uint32_t values[CALLS][NUMBERS];
};

static void land(void *context, taut_status status)
{
	struct flight *flight = context;

	flight->n_under_way--;
	*(status ? &flight->n_ill : &flight->n_well) += 1;
}

static uint32_t draw(uint64_t seed, uint32_t rank)
{
	uint64_t z = (seed * 31 + rank + 1) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)((z ^ z >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 40);
}

static uint32_t calls_of(uint64_t seed, uint32_t rank)
{
	return draw(seed, rank) % CALLS;
}

static taut_status begin_next(struct flight *flight, uint64_t seed,
	struct taut_error *err)
{
	uint32_t i = flight->n_begun;
	struct taut_coll_call call = { .type = TAUT_UINT64,
		.output = flight->values[i], .count = NUMBERS / 2,
		.way = (seed + i) % 3 ? TAUT_WAY_RING : TAUT_WAY_FLAT,
		.pass_bytes = i % 4 ? 0 : 800, .passes_at_once = 2 };
	taut_status status;

	flight->n_under_way++;
	status = taut_comm_start(flight->comms[i % 2], &call, land, flight, err);
	if (status)
		flight->n_under_way--;
	else
		flight->n_begun++;
	return status;
}

static int in_flight(struct one *one, struct taut_comm *comm)
{
	uint32_t n = one->options.n_ranks, mine, least = CALLS;
	struct flight *flight = calloc(1, sizeof *flight);
	struct taut_error err = { .message = "" };
	taut_status status = TAUT_OK;

	EXPECT(flight && !taut_comm_twin(comm, &flight->comms[1], NULL));
	flight->comms[0] = comm;
	mine = calls_of(one->seed, one->options.rank);
	for (uint32_t r = 0; r < n; r++)
		if (calls_of(one->seed, r) < least)
			least = calls_of(one->seed, r);
	while (!status && (flight->n_under_way || flight->n_begun < mine)) {
		if (flight->n_begun < mine && flight->n_under_way < AT_ONCE)
			status = begin_next(flight, one->seed, &err);
		else
			status = taut_comm_wait(comm, -1, &err);
		if (!status)
			status = taut_comm_progress(comm, &err);
	}
	if (flight->n_well != (mine < least ? mine : least) ||
		(status && !strstr(err.message, " has left")))
		fprintf(stderr, "seed %lu: rank %u: %u of %u, %u well: %s\n",
			(unsigned long)one->seed, one->options.rank, mine, least,
			flight->n_well, err.message);
	EXPECT(flight->n_well == (mine < least ? mine : least));
	EXPECT(!flight->n_under_way);
	EXPECT((status != TAUT_OK) == (mine > least));
	EXPECT(!status || strstr(err.message, " has left"));
	taut_comm_destroy(flight->comms[1]);
	free(flight);
	return 0;
}

/* TAUT_WORLDS=N runs as many of each. */
static void run_worlds(uint32_t n_ranks, const char *engine, uint64_t n)
{
	if (getenv("TAUT_WORLDS"))
		n = strtoull(getenv("TAUT_WORLDS"), NULL, 10);
	for (uint64_t seed = 1; seed <= n; seed++) {
		const struct one like = { .options = { .engine = engine,
			.lost_after_ns = 10 * second_ns }, .seed = seed,
			.victim = TAUT_NONE };
		struct one ones[RANKS_MOST];

		start(ones, n_ranks, &like, in_flight);
		finish(ones, n_ranks);
	}
}

static void test_in_flight(void **state)
{
	(void)state;
	run_worlds(2, "shm", 10);
	run_worlds(3, "shm", 20);
	run_worlds(4, "shm", 10);
	run_worlds(3, "ucx", 5);
	run_worlds(3, "tcp", 5);
}

/* --- ranks that go as soon as they are there ---------------------------------------------*/

/* UCX 1.13 ends the process, by an assertion of its own, when a connection breaks
 * while it is being made. */
enum fate { STAYS, LEAVES, DIES, FATES };

static enum fate fate_of(uint64_t seed, uint32_t rank, uint32_t n)
{
	enum fate fate = (enum fate)(draw(seed, rank) % FATES);

	return fate == STAYS && rank == seed % n ? LEAVES : fate;
}

static bool any_dies(uint64_t seed, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (fate_of(seed, i, n) == DIES)
			return true;
	return false;
}

/* Who stays hears of one that goes; before all is set up, of one that is dead. */
static int goes(struct one *one, struct taut_comm *comm)
{
	uint32_t rank = one->options.rank, n = one->options.n_ranks;
	enum fate fate = fate_of(one->seed, rank, n);
	struct taut_error err = { .message = "" };
	int64_t began_ns = ranks_now_ns();
	taut_status status = taut_comm_create(&one->options, &comm, &err);

	if (status)
		comm = NULL;
	if (status && !any_dies(one->seed, n))
		fprintf(stderr, "seed %lu: rank %u: %s\n",
			(unsigned long)one->seed, rank, err.message);
	EXPECT(!status || any_dies(one->seed, n));
	if (fate == DIES) {
		usleep(draw(one->seed + 1, rank) % 1000);
		raise(SIGKILL);
	}
	if (!status && fate == STAYS)
		status = run_until_lost(one, comm, &err, INT32_MAX);
	EXPECT(fate == LEAVES || status == TAUT_EIO);
	EXPECT(!status || strstr(err.message, "rank "));
	EXPECT(ranks_now_ns() - began_ns < 30 * second_ns);
	taut_comm_destroy(comm);
	return 0;
}

/* False: such hosts cannot be made up here. */
static bool finish_fates(struct one *ones, uint32_t n)
{
	bool skipped = false;

	for (uint32_t i = 0; i < n; i++) {
		int status, expected = 0;

		if (fate_of(ones[i].seed, i, n) == DIES)
			expected = SIGKILL;
		assert_int_equal(waitpid(ones[i].pid, &status, 0), ones[i].pid);
		if (WIFEXITED(status) && WEXITSTATUS(status) == UNIT_SKIP)
			skipped = true;
		else if (!skipped && status != expected)
			fail_msg("seed %lu: rank %u of %u: status %x",
				(unsigned long)ones[i].seed, i, n,
				(unsigned)status);
	}
	return !skipped;
}

static void run_fates(
	uint32_t n_ranks, const char *engine, uint32_t per_host, uint64_t n)
{
	if (getenv("TAUT_WORLDS"))
		n = strtoull(getenv("TAUT_WORLDS"), NULL, 10);
	for (uint64_t seed = 1; seed <= n; seed++) {
		const struct one like = { .options = { .engine = engine,
			.lost_after_ns = 2 * second_ns,
			.meet_within_ns = 20 * second_ns }, .seed = seed,
			.per_host = per_host, .without_comm = true };
		struct one ones[RANKS_MOST];

		start(ones, n_ranks, &like, goes);
		if (!finish_fates(ones, n_ranks))
			return;
	}
}

static void test_fates(void **state)
{
	(void)state;
	run_fates(3, "shm", 0, 4);
	run_fates(3, "ucx", 0, 5);
	run_fates(3, "tcp", 0, 5);
	run_fates(4, "auto", 2, 2);
}

/* Rank 0 leaves; rank 2 needs a block of rank 1, which is killed. */
static int killed_later(struct one *one, struct taut_comm *comm)
{
	float data[300] = { 0 };
	struct taut_coll_call call = { .verb = TAUT_BROADCAST, .output = data,
		.count = 300, .root = 0, .way = TAUT_WAY_DIRECT };
	struct taut_error err = { .offset = -1 };
	int64_t began_ns = ranks_now_ns();
	taut_status status = taut_comm_barrier(comm, &err);

	if (one->options.rank == 0) {
		EXPECT(!status);
		return taut_comm_run(comm, &call, &err) != TAUT_OK;
	}
	if (one->options.rank == one->victim) {
		await_left(comm);
		raise(SIGKILL);
	}
	if (!status) /* it may hear of rank 1 before all of the barrier */
		status = taut_comm_run(comm, &call, &err);
	EXPECT(status == TAUT_EIO);
	if (!strstr(err.message, "rank 1"))
		fprintf(stderr, "%s\n", err.message);
	EXPECT(strstr(err.message, "rank 1"));
	EXPECT(ranks_now_ns() - began_ns < 20 * second_ns);
	return 0;
}

static void test_killed_later(void **state)
{
	(void)state;
	run_ranks(3, "shm", 0, 1, killed_later);
	run_ranks(3, "ucx", 0, 1, killed_later);
	run_ranks(3, "tcp", 0, 1, killed_later);
}

/* --- ranks that do not come --------------------------------------------------------------*/

/* All hear it, also the one that did not come. */
static int comes_late(struct one *one, struct taut_comm *comm)
{
	struct taut_error err = { .message = "" };
	taut_status status = TAUT_OK;

	if (one->options.rank != one->victim)
		status = taut_comm_barrier(comm, &err);
	while (!status) {
		status = taut_comm_wait(comm, -1, &err);
		status = status ? status : taut_comm_progress(comm, &err);
	}
	EXPECT(status == TAUT_EIO);
	if (!strstr(err.message, "did not come within 1 s"))
		fprintf(stderr, "rank %u: %s\n", one->options.rank, err.message);
	EXPECT(strstr(err.message, ": a barrier: what rank "));
	EXPECT(strstr(err.message, "did not come within 1 s"));
	return 0;
}

static void test_late(void **state)
{
	const struct one like = { .options = { .engine = "shm",
		.lost_after_ns = 10 * second_ns, .call_within_ns = second_ns },
		.victim = 1 };
	struct one ones[3];

	(void)state;
	start(ones, 3, &like, comes_late);
	finish(ones, 3);
}

/* --- again and again ---------------------------------------------------------------------*/

static int count_entries(const char *path)
{
	DIR *folder = opendir(path);
	int n = 0;

	while (folder && readdir(folder))
		n++;
	if (folder)
		closedir(folder);
	return n;
}

/* A thread that was joined may be listed for a moment more. */
static bool comes_down_to(const char *path, int n)
{
	const struct timespec moment = { .tv_nsec = 10000000 };

	for (int i = 0; i < 200 && count_entries(path) > n; i++)
		nanosleep(&moment, NULL);
	return count_entries(path) <= n;
}

/* One after another at the same port: nothing stays of any. */
static int again(struct one *one, struct taut_comm *comm)
{
	int n_fds = 0, n_threads = 0;

	for (int i = 0; i < 5; i++) {
		struct taut_error err = { .offset = -1 };

		if (i == 2) { /* what a library keeps is there by now */
			n_fds = count_entries("/proc/self/fd");
			n_threads = count_entries("/proc/self/task");
		}
		if (taut_comm_create(&one->options, &comm, &err)) {
			fprintf(stderr, "rank %u: %s\n", one->options.rank,
				err.message);
			return 1;
		}
		EXPECT(!taut_comm_barrier(comm, NULL));
		taut_comm_destroy(comm);
	}
	EXPECT(count_entries("/proc/self/fd") == n_fds);
	EXPECT(comes_down_to("/proc/self/task", n_threads));
	return 0;
}

static void test_again(void **state)
{
	(void)state;
	run_without(3, "shm", 0, again);
	run_without(2, "ucx", 0, again);
	run_without(2, "tcp", 0, again);
	run_without(4, "auto", 2, again);
}

/* --- ranks that do not belong together -------------------------------------------------*/

static void expect_refused(struct taut_comm_options *options,
	taut_status status, const char *line)
{
	struct taut_comm *comm;
	struct taut_error err = { .offset = -1 };

	assert_int_equal(taut_comm_create(options, &comm, &err), status);
	if (!strstr(err.message, line))
		fail_msg("%s", err.message);
}

static void test_options(void **state)
{
	struct taut_comm_options options = { .rank = 2, .n_ranks = 2 };

	(void)state;
	unsetenv("TAUT_SECRET");
	expect_refused(&options, TAUT_EINVAL, "rank 2 of 2");
	options.rank = 0;
	options.engine = "ib";
	expect_refused(&options, TAUT_EINVAL,
		"engine 'ib': expected auto, shm, ucx or tcp");
	options.engine = NULL;
	options.table = "/nowhere/at.all";
	expect_refused(&options, TAUT_EIO, "/nowhere/at.all: No such file");
	options.table = NULL;
	options.call_within_ns = -1;
	expect_refused(&options, TAUT_EINVAL, "time for a call");
	options.call_within_ns = 0;
	options.meet = "127.0.0.1:1";
	expect_refused(&options, TAUT_EINVAL, "TAUT_SECRET");
}

struct unlike {
	char meet[40];
	const char *engines[2], *tables[2];
	const char *line;
	taut_status status;
};

static void *create_unlike(void *context)
{
	struct ranks_one *rank = context;
	const struct unlike *unlike = rank->shared;
	const struct taut_comm_options options = { .rank = rank->rank,
		.n_ranks = 2, .meet = unlike->meet, .secret = "x",
		.engine = unlike->engines[rank->rank],
		.table = unlike->tables[rank->rank] };
	struct taut_error err = { .offset = -1 };
	struct taut_comm *comm;
	taut_status status = taut_comm_create(&options, &comm, &err);

	if (status == unlike->status && strstr(err.message, unlike->line))
		return NULL;
	fprintf(stderr, "rank %u: %d: %s\n", rank->rank, status, err.message);
	return rank;
}

static void expect_unlike(struct unlike unlike)
{
	struct ranks_one ranks[2];
	void *bad = NULL;

	snprintf(unlike.meet, sizeof unlike.meet, "127.0.0.1:%u",
		ranks_free_port());
	ranks_start(ranks, 0, 2, create_unlike, &unlike);
	for (int i = 0; i < 2; i++) {
		void *result;

		pthread_join(ranks[i].thread, &result);
		bad = bad ? bad : result;
	}
	assert_null(bad);
}

static void test_unlike(void **state)
{
	char path[] = "/tmp/taut-table-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_int_equal(write(fd, "allreduce * * 0 ring 0 1\n", 25), 25);
	close(fd);
	expect_unlike((struct unlike){ .tables = { NULL, path },
		.status = TAUT_EMATCH,
		.line = "rank 1 has another table of collectives" });
	expect_unlike((struct unlike){ .engines = { "auto", "shm" },
		.status = TAUT_EMATCH,
		.line = "rank 1 has another engine asked for" });
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_few_files),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_leaves),
		cmocka_unit_test(test_still_ends),
		cmocka_unit_test(test_killed_later),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_in_flight),
		cmocka_unit_test(test_fates),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_unlike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

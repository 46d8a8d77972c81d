/* bench_launch.c - see bench.h: the ranks of a measurement.
 *
 * Rank 0 is this process; the others are forked before anything else is there.
 * They say nothing: what went wrong on one lies in memory that all share. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/bench.h"
#include "cli/term.h"
#include "report/number.h"

#define MEET_NS INT64_C(20000000000) /* that ranks made here take at most */

/* --- cores -----------------------------------------------------------------------------*/

/* A core of its own for each rank, where there are enough: ranks wait by looking
 * again and again, and two on one core hold each other up. */
static void pin(const cpu_set_t *allowed, uint32_t rank, uint32_t n_ranks)
{
	cpu_set_t one;
	uint32_t seen = 0;

	if ((uint32_t)CPU_COUNT(allowed) < n_ranks)
		return;
	for (int core = 0; core < CPU_SETSIZE; core++) {
		if (!CPU_ISSET(core, allowed) || seen++ != rank)
			continue;
		CPU_ZERO(&one);
		CPU_SET(core, &one);
		/* Where it is refused, the system's own choice is as good. */
		(void)!pthread_setaffinity_np(
			pthread_self(), sizeof one, &one);
		return;
	}
}

static cpu_set_t allowed_cores(void)
{
	cpu_set_t allowed;

	CPU_ZERO(&allowed);
	if (sched_getaffinity(0, sizeof allowed, &allowed))
		CPU_ZERO(&allowed);
	return allowed;
}

/* --- threads of one process --------------------------------------------------------------*/

struct thread {
	struct bench_rank rank;
	struct bench_result *result;
	uint32_t number, n_ranks;
	cpu_set_t allowed;
	struct taut_error err;
	taut_status status;
	pthread_t id;
};

static void *thread_main(void *context)
{
	struct thread *thread = context;

	pin(&thread->allowed, thread->number, thread->n_ranks);
	thread->status = bench_rank_run(
		&thread->rank, thread->result, &thread->err);
	/* What the others still wait for ends. */
	taut_comm_destroy(thread->rank.comm);
	return NULL;
}

static taut_status join_threads(
	struct thread *threads, uint32_t n, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; i < n; i++)
		pthread_join(threads[i].id, NULL);
	for (uint32_t i = 0; !status && i < n; i++) {
		status = threads[i].status;
		if (status)
			*err = threads[i].err;
	}
	return status;
}

static taut_status run_threads(const struct bench_plan *plan, uint32_t n,
	struct bench_result *result, struct taut_error *err)
{
	struct thread *threads = calloc(n, sizeof *threads);
	struct taut_comm *comms[BENCH_MOST_RANKS];
	uint32_t started = 0;
	taut_status status;

	if (!threads)
		return taut_error_set(err, TAUT_ENOMEM, -1, "out of memory");
	status = taut_comm_create_inproc(n, comms, err);
	for (; !status && started < n; started++) {
		struct thread *t = &threads[started];

		*t = (struct thread){ .rank = { .plan = plan,
			.comm = comms[started] }, .number = started,
			.n_ranks = n, .allowed = allowed_cores(),
			.result = started ? NULL : result };
		if (!started)
			t->rank.progress = term_progress();
		if (pthread_create(&t->id, NULL, thread_main, t)) {
			status = taut_error_set(err, TAUT_EIO, -1,
				"a thread cannot be started");
			break;
		}
	}
	for (uint32_t i = started; status && started && i < n; i++)
		taut_comm_destroy(comms[i]);
	if (started) {
		struct taut_error other = { .message = "" };
		taut_status joined = join_threads(threads, started, &other);

		if (!status && joined)
			*err = other;
		status = status ? status : joined;
	}
	free(threads);
	return status;
}

/* --- one rank of a job -------------------------------------------------------------------*/

static taut_status run_rank(const struct bench_plan *plan,
	const struct taut_comm_options *options, struct bench_result *result,
	struct taut_error *err)
{
	struct bench_rank rank = { .plan = plan };
	taut_status status;

	if (!options->rank)
		rank.progress = term_progress();
	status = taut_comm_create(options, &rank.comm, err);
	if (status)
		return status;
	status = bench_rank_run(&rank, options->rank ? NULL : result, err);
	taut_comm_destroy(rank.comm);
	return status;
}

/* --- processes that are made here ----------------------------------------------------------*/

struct family {
	uint32_t n_ranks;
	pid_t children[BENCH_MOST_RANKS];
	struct taut_error *errors; /* by rank, shared with the children */
};

/* A port of this machine that nobody listens at now. */
static taut_status free_port(
	char *ret_meet, size_t size, struct taut_error *err)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof at;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) ||
		getsockname(fd, (struct sockaddr *)&at, &len)) {
		int why = errno;

		if (fd >= 0)
			close(fd);
		return taut_error_set(err, TAUT_EIO, -1,
			"no port on this machine: %s", strerror(why));
	}
	close(fd);
	snprintf(ret_meet, size, "127.0.0.1:%u", (unsigned)ntohs(at.sin_port));
	return TAUT_OK;
}

static taut_status make_secret(
	char ret_secret[33], struct taut_error *err)
{
	unsigned char bytes[16];

	if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
		return taut_error_set(err, TAUT_EIO, -1,
			"no random numbers: %s", strerror(errno));
	for (size_t i = 0; i < sizeof bytes; i++)
		snprintf(ret_secret + 2 * i, 3, "%02x", bytes[i]);
	return TAUT_OK;
}

static _Noreturn void child_main(const struct bench_plan *plan,
	struct taut_comm_options *options, struct family *family,
	const cpu_set_t *allowed, pid_t parent)
{
	struct taut_error *err = &family->errors[options->rank];
	taut_status status;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	pin(allowed, options->rank, options->n_ranks);
	status = run_rank(plan, options, NULL, err);
	err->code = status;
	_exit(status != TAUT_OK);
}

static taut_status fork_children(struct family *family,
	const struct bench_plan *plan, struct taut_comm_options *options,
	const cpu_set_t *allowed, struct taut_error *err)
{
	pid_t parent = getpid();

	for (uint32_t rank = 1; rank < family->n_ranks; rank++) {
		pid_t child = fork();

		if (child < 0)
			return taut_error_set(err, TAUT_EIO, -1,
				"no process for rank %u: %s", rank,
				strerror(errno));
		options->rank = rank;
		if (!child)
			child_main(plan, options, family, allowed, parent);
		family->children[rank] = child;
	}
	options->rank = 0;
	return TAUT_OK;
}

/* Children that do not end by themselves, once this rank has, are ended. */
static void gather_children(struct family *family)
{
	enum { TURNS = 300, TURN_NS = 10000000 };
	const struct timespec turn = { 0, TURN_NS };

	for (uint32_t rank = 1; rank < family->n_ranks; rank++) {
		pid_t child = family->children[rank];
		int i = 0;

		if (!child)
			continue;
		for (; i < TURNS && !waitpid(child, NULL, WNOHANG); i++)
			nanosleep(&turn, NULL);
		if (i < TURNS)
			continue;
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
}

/* A rank that lost another knows less than the one that failed. */
static taut_status first_cause(const struct family *family,
	taut_status status, struct taut_error *err)
{
	for (uint32_t rank = 1; rank < family->n_ranks; rank++) {
		const struct taut_error *its = &family->errors[rank];

		if (its->code == TAUT_OK)
			continue;
		if (status == TAUT_OK ||
			(status == TAUT_EIO && its->code != TAUT_EIO))
			return taut_error_set(err, its->code, -1,
				"rank %u: %s", rank, its->message);
	}
	return status;
}

static taut_status run_family(struct family *family,
	const struct bench_plan *plan, struct bench_result *result,
	struct taut_error *err)
{
	char meet[32], secret[33];
	struct taut_comm_options options = { .n_ranks = family->n_ranks,
		.engine = plan->engine, .meet = meet, .secret = secret,
		.meet_within_ns = MEET_NS };
	cpu_set_t allowed = allowed_cores();
	taut_status status = free_port(meet, sizeof meet, err);

	if (!status)
		status = make_secret(secret, err);
	if (!status)
		status = fork_children(family, plan, &options, &allowed, err);
	if (!status) {
		pin(&allowed, 0, family->n_ranks);
		status = run_rank(plan, &options, result, err);
	}
	gather_children(family);
	return first_cause(family, status, err);
}

static taut_status run_processes(const struct bench_plan *plan, uint32_t n,
	struct bench_result *result, struct taut_error *err)
{
	struct family family = { .n_ranks = n };
	size_t bytes = n * sizeof *family.errors;
	taut_status status;

	family.errors = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (family.errors == MAP_FAILED)
		return taut_error_set(err, TAUT_ENOMEM, -1, "out of memory");
	status = run_family(&family, plan, result, err);
	munmap(family.errors, bytes);
	return status;
}

taut_status bench_find_room(const struct bench_plan *plan,
	const struct bench_place *place, uint64_t left_bytes,
	struct taut_error *err)
{
	/* input and output; and where ways are tried, what comes, beside them */
	uint64_t buffers = (plan->in_place ? 1 : 2) + (plan->tune ? 1 : 0);
	uint64_t bytes = place->n_ranks * buffers * plan->sizes[plan->n_sizes - 1];
	char needed[TAUTI_NUMBER_BYTES], left[TAUTI_NUMBER_BYTES];

	if (place->launched || !left_bytes || bytes <= left_bytes)
		return TAUT_OK;
	return taut_error_set(err, TAUT_ENOMEM, -1, "bench: needs %s for the "
		"buffers of %u ranks, and %s are left: give --sizes or --ranks",
		tauti_number_bytes(bytes, needed), place->n_ranks,
		tauti_number_bytes(left_bytes, left));
}

taut_status bench_launch(const struct bench_plan *plan,
	const struct bench_place *place, struct bench_result *result,
	struct taut_error *err)
{
	struct taut_comm_options options = { .rank = place->rank,
		.n_ranks = place->n_ranks, .engine = plan->engine,
		.meet = place->meet };
	taut_status status;

	if (place->launched)
		status = run_rank(plan, &options, result, err);
	else if (plan->engine && !strcmp(plan->engine, "inproc"))
		status = run_threads(plan, place->n_ranks, result, err);
	else
		status = run_processes(plan, place->n_ranks, result, err);
	term_progress_end();
	return status;
}

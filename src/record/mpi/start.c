/* start.c - where recording begins and ends: the log, the window, the steps
 * that a program tells with MPI_Pcontrol. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/mpi/mpi.h"

enum {
	DEFAULT_RECORDS = 262144, /* 32 MiB */
	MOST_RECORDS = 1 << 26,
	PATH_ROOM = 4096,
};

struct tauti_mpi_state tauti_mpi = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Steps are from one MPI_Pcontrol(1) to the next, or to MPI_Pcontrol(0). */
static struct {
	bool limited; /* TAUT_RECORD_STEPS is set */
	long first, end;
	long number;  /* of the step that runs, or of the next one */
	int64_t begin_ns; /* of the step that runs; 0: none does */
} steps;

/* --- the log ---------------------------------------------------------------------*/

static long number_in(const char *name, long otherwise)
{
	const char *text = getenv(name);
	char *end;
	long value;

	if (!text || !*text)
		return otherwise;
	errno = 0;
	value = strtol(text, &end, 10);
	return errno || *end ? otherwise : value;
}

static int32_t local_rank(void)
{
	static const char *const names[] = { "OMPI_COMM_WORLD_LOCAL_RANK",
		"MPI_LOCALRANKID", "PALS_LOCAL_RANKID", "SLURM_LOCALID" };
	long rank = -1;

	for (size_t i = 0; rank < 0 && i < sizeof names / sizeof names[0]; i++)
		rank = number_in(names[i], -1);
	return rank > INT32_MAX ? -1 : (int32_t)rank;
}

/* Where several processes are rank 0 (worlds that were spawned, a second
 * mpirun), each has a log of its own. A process that calls MPI_Init in a
 * program it has exec'ed has the pid of the one before. */
static struct taut_log *open_log(const char *run)
{
	long records = number_in("TAUT_RECORD_EVENTS", DEFAULT_RECORDS);
	struct taut_log_options options = {
		.source = "mpi",
		.rank = tauti_mpi.rank,
		.world_size = tauti_mpi.world_size,
		.local_rank = tauti_mpi.local_rank,
		.capacity = (uint32_t)(records < 64 ? 64 :
			records > MOST_RECORDS ? MOST_RECORDS : records),
	};
	struct taut_log *log;
	char path[PATH_ROOM];
	int n = snprintf(path, sizeof path, "%s/rank%d", run, tauti_mpi.rank);

	if (n < 0 || (size_t)n > sizeof path - 64)
		return NULL;
	if (mkdir(path, 0777) && errno != EEXIST)
		return NULL;
	snprintf(path + n, sizeof path - (size_t)n, "/mpi-%d.tautlog",
		(int)getpid());
	for (int again = 2; again < 10; again++) {
		if (taut_log_open(path, &options, &log, NULL) == TAUT_OK)
			return log;
		if (access(path, F_OK))
			return NULL;
		snprintf(path + n, sizeof path - (size_t)n,
			"/mpi-%d-%d.tautlog", (int)getpid(), again);
	}
	return NULL;
}

/* --- the window -------------------------------------------------------------------- */

static void read_steps(void)
{
	const char *text = getenv("TAUT_RECORD_STEPS");
	char behind;

	memset(&steps, 0, sizeof steps);
	steps.limited = text && sscanf(text, "%ld:%ld%c", &steps.first,
		&steps.end, &behind) == 2;
}

static void end_step(int64_t now_ns)
{
	if (steps.begin_ns && tauti_mpi.writes)
		taut_log_span(tauti_mpi.log, tauti_mpi_text("step"),
			TAUTI_MPI_KIND_STEP, tauti_mpi_thread(), steps.begin_ns,
			now_ns, (uint32_t)steps.number + 1);
	if (steps.begin_ns)
		steps.number++;
	steps.begin_ns = 0;
}

void tauti_mpi_pcontrol(int level)
{
	int64_t now_ns = taut_log_now();

	if (!tauti_mpi.on || level < 0 || level > 1)
		return;
	tauti_mpi_lock();
	end_step(now_ns);
	if (steps.limited && !tauti_mpi.window.follows)
		tauti_mpi.writes = level == 1 &&
			steps.number >= steps.first &&
			steps.number < steps.end;
	if (level == 1)
		steps.begin_ns = now_ns;
	tauti_mpi_unlock();
}

/* --- begin and end --------------------------------------------------------------------- */

static bool know_the_world(void)
{
	const struct tauti_mpi_real *real = &tauti_mpi.real;
	tauti_mpi_handle world = tauti_mpi.abi->comm_world;
	int rank, size;

	if (real->comm_rank(world, &rank) || real->comm_size(world, &size))
		return false;
	tauti_mpi.rank = rank;
	tauti_mpi.world_size = size;
	tauti_mpi.local_rank = local_rank();
	return true;
}

/* Processes that others started later have a world of their own, whose ranks
 * are numbered from 0 again: two ranks 0 cannot be in one recording. */
static bool was_spawned(void)
{
	tauti_mpi_handle parent = tauti_mpi.abi->comm_null;

	return !tauti_mpi.real.comm_get_parent(&parent) &&
		tauti_mpi_clean(parent) != tauti_mpi.abi->comm_null;
}

static void tell_facts(int64_t init_begin_ns)
{
	char text[8192];
	int len = 0;

	if (!tauti_mpi.real.get_library_version(text, &len)) {
		text[strcspn(text, "\n")] = '\0';
		taut_log_fact(tauti_mpi.log, "mpi.library", text);
	}
	snprintf(text, sizeof text, "%lld",
		(long long)(taut_log_now() - init_begin_ns));
	taut_log_fact(tauti_mpi.log, "mpi.init_ns", text);
}

void tauti_mpi_start(int64_t init_begin_ns)
{
	const char *run = getenv("TAUT_RECORD");
	int level = 0;

	if (!run || !*run || tauti_mpi.on || tauti_mpi.log)
		return;
	tauti_mpi.abi = tauti_mpi_detect(&tauti_mpi.real);
	if (!tauti_mpi.abi || was_spawned() || !know_the_world() ||
		!tauti_mpi_ops_init())
		return;
	tauti_mpi.pid = getpid();
	tauti_mpi.log = open_log(run);
	if (!tauti_mpi.log)
		return;
	tauti_mpi.real.query_thread(&level);
	tauti_mpi.locks = level == 3; /* MPI_THREAD_MULTIPLE, in both */
	if (!tauti_mpi_comms_init()) {
		taut_log_state(tauti_mpi.log, "no memory");
		taut_log_close(tauti_mpi.log);
		tauti_mpi.log = NULL;
		return;
	}
	tell_facts(init_begin_ns);
	tauti_mpi_clocks_begin(run);
	read_steps();
	tauti_mpi.writes = true;
	tauti_mpi_window_begin(run);
	taut_log_state(tauti_mpi.log, "between MPI_Init and MPI_Finalize");
	__atomic_store_n(&tauti_mpi.on, true, __ATOMIC_RELEASE);
}

void tauti_mpi_stop(const char *how)
{
	int64_t now_ns = taut_log_now();
	char line[128];

	if (!__atomic_exchange_n(&tauti_mpi.on, false, __ATOMIC_ACQ_REL))
		return;
	tauti_mpi_lock();
	end_step(now_ns);
	tauti_mpi_ops_fini(now_ns);
	if (tauti_mpi.n_lost)
		snprintf(line, sizeof line, "%s; %llu operations had no room "
			"in the table of those under way", how,
			(unsigned long long)tauti_mpi.n_lost);
	else
		snprintf(line, sizeof line, "%s", how);
	taut_log_state(tauti_mpi.log, line);
	tauti_mpi_unlock();
}

void tauti_mpi_end(void)
{
	taut_log_close(tauti_mpi.log);
	tauti_mpi.log = NULL;
}

/* Other threads may be in the middle of a record: the log stays open, and
 * says what happened. A child has nothing to say; and the lock that it has may
 * be held by a thread that it has not. */
__attribute__((destructor)) static void at_exit(void)
{
	if (tauti_mpi.pid == getpid())
		tauti_mpi_stop("ended without MPI_Finalize");
}

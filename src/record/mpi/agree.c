/* agree.c - is every rank of this job recorded? Only then may we do what all
 * ranks must do together. MPI cannot be asked: who does not know of the
 * question would never answer. The folder of the recording can.
 *
 *     RUN/.mpi/JOB/rank3   rank 3 is here
 *     RUN/.mpi/JOB/all     a link to "yes" or "no": what was decided
 *
 * Rank 0 decides "yes" when it has seen all; whoever has waited too long
 * decides "no". Making a link is atomic and fails when it is there, so the
 * first one decides for all, and nobody ever acts on anything else. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "record/mpi/mpi.h"

enum {
	PATH_ROOM = 4096,
	PATIENCE_NS = 2000000000, /* MPI_Init has just ended everywhere */
	FIRST_PAUSE_NS = 200000,
	LONGEST_PAUSE_NS = 20000000,
	MOST_JOBS = 1000, /* of one size, one after the other */
};

static long number_in(const char *name)
{
	const char *text = getenv(name);

	return text ? strtol(text, NULL, 10) : -1;
}

bool tauti_mpi_is_one_host(void)
{
	static const char *const names[] = { "OMPI_COMM_WORLD_LOCAL_SIZE",
		"MPI_LOCALNRANKS", "PALS_LOCAL_SIZE" };

	if (tauti_mpi.world_size == 1)
		return true;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (number_in(names[i]) == tauti_mpi.world_size)
			return true;
	return false;
}

/* What the launcher calls the job, alike for all its ranks, where it tells. */
static uint64_t launchers_name(void)
{
	static const char *const names[] = { "PMIX_NAMESPACE", "SLURM_JOB_ID",
		"SLURM_STEP_ID", "PBS_JOBID", "PALS_APID", "LSB_JOBID" };
	uint64_t hash = 0;

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		const char *text = getenv(names[i]);

		if (text)
			hash ^= tauti_hash(text, strlen(text)) + i;
	}
	return hash;
}

/* Says that this rank is here. A recording may have several jobs of one size
 * after each other: this rank's k-th is everybody's k-th. */
static bool sign_in(const char *run, char *folder, size_t size)
{
	char path[PATH_ROOM];
	int n = snprintf(path, sizeof path, "%s/.mpi", run);

	if (n < 0 || (size_t)n > sizeof path - 128 ||
		(mkdir(path, 0777) && errno != EEXIST))
		return false;
	for (int job = 0; job < MOST_JOBS; job++) {
		n = snprintf(folder, size, "%s/.mpi/%d.%016llx.%d", run,
			tauti_mpi.world_size,
			(unsigned long long)launchers_name(), job);
		if (n < 0 || (size_t)n > size - 64 ||
			(mkdir(folder, 0777) && errno != EEXIST))
			return false;
		snprintf(path, sizeof path, "%.*s/rank%d", (int)size - 64,
			folder, tauti_mpi.rank);
		if (!mkdir(path, 0777))
			return true;
		if (errno != EEXIST)
			return false;
	}
	return false;
}

static bool all_are_here(const char *folder)
{
	DIR *list = opendir(folder);
	struct dirent *entry;
	int n = 0;

	while (list && (entry = readdir(list)) != NULL)
		n += !strncmp(entry->d_name, "rank", 4);
	if (list)
		closedir(list);
	return n == tauti_mpi.world_size;
}

static int64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* 1 yes, 0 no, -1 nothing was decided. */
static int decided(const char *path)
{
	char text[8];
	ssize_t n = readlink(path, text, sizeof text);

	return n < 0 ? -1 : n == 3 && !memcmp(text, "yes", 3);
}

bool tauti_mpi_agree(const char *run)
{
	char folder[PATH_ROOM], path[PATH_ROOM];
	struct timespec pause = { .tv_nsec = FIRST_PAUSE_NS };
	int64_t until_ns = monotonic_ns() + PATIENCE_NS;
	int found;

	if (!sign_in(run, folder, sizeof folder))
		return false;
	snprintf(path, sizeof path, "%.*s/all", PATH_ROOM - 64, folder);
	while ((found = decided(path)) < 0) {
		int64_t now_ns = monotonic_ns();

		if (now_ns > until_ns + PATIENCE_NS)
			return false; /* no link can be made: nobody decides */
		if (tauti_mpi.rank == 0 && all_are_here(folder))
			(void)!symlink("yes", path);
		else if (now_ns > until_ns)
			(void)!symlink("no", path);
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < LONGEST_PAUSE_NS)
			pause.tv_nsec *= 2;
	}
	return found == 1;
}

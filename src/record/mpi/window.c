/* window.c - a process that trains with a framework is recorded in the steps
 * that the framework's recorder chose. Its HOST-PID.json says that there is one,
 * and python/taut/_window.py writes when: RUN/processes/.HOST-PID.window, which
 * docs/recording.md defines. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/log.h"
#include "record/mpi/mpi.h"

enum { LOOK_EVERY_NS = 250000000, LOOK_SOON_NS = 5000000 };

static void name_file(const char *run)
{
	snprintf(tauti_mpi.window.folder, sizeof tauti_mpi.window.folder,
		"%s/processes", run);
	tauti_log_process_name(
		tauti_mpi.window.name, sizeof tauti_mpi.window.name);
}

static bool is_there(
	const char *dot, const char *suffix, char *path, size_t size)
{
	struct stat about;
	int n = snprintf(path, size, "%s/%s%s.%s", tauti_mpi.window.folder,
		dot, tauti_mpi.window.name, suffix);

	return n > 0 && (size_t)n < size && !stat(path, &about) &&
		about.st_size >= 2 * (off_t)sizeof(int64_t);
}

static const int64_t *map_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *at;

	if (fd < 0)
		return NULL;
	at = mmap(NULL, 2 * sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return at == MAP_FAILED ? NULL : at;
}

static void look(void)
{
	char path[sizeof tauti_mpi.window.folder +
		sizeof tauti_mpi.window.name + 16];

	if (!tauti_mpi.window.follows)
		tauti_mpi.window.follows =
			is_there("", "json", path, sizeof path);
	if (tauti_mpi.window.follows && !tauti_mpi.window.times &&
		is_there(".", "window", path, sizeof path))
		tauti_mpi.window.times = map_file(path);
}

/* Not each call looks at the disk. */
void tauti_mpi_window_look(int64_t now_ns)
{
	const int64_t *times;

	tauti_mpi_lock();
	times = tauti_mpi.window.times;

	if (!times && now_ns >= tauti_mpi.window.next_look_ns) {
		look();
		tauti_mpi.window.next_look_ns = now_ns +
			(tauti_mpi.window.follows ? LOOK_SOON_NS :
			LOOK_EVERY_NS);
		times = tauti_mpi.window.times;
	}
	if (times)
		tauti_mpi.writes =
			__atomic_load_n(&times[0], __ATOMIC_RELAXED) > 0 &&
			!__atomic_load_n(&times[1], __ATOMIC_RELAXED);
	else if (tauti_mpi.window.follows)
		tauti_mpi.writes = false;
	tauti_mpi_unlock();
}

void tauti_mpi_window_begin(const char *run)
{
	name_file(run);
	tauti_mpi_window_look(taut_log_now());
}

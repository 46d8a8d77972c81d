/* forget.c - all files that a job has read, forgotten at once. */
#include <taut/stalls.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stalls/cold.h"
#include "stalls/control.h"
#include "stalls/listed.h"

/* Past what is preloaded: it would count what we open as the job's. */
static int open_unseen(const char *path, int flags)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC | O_NOCTTY, 0);
}

/* NULL where the folder has none: then nothing is counted. */
static struct tauti_stalls_control *map_control(const char *folder)
{
	struct tauti_stalls_control *found = MAP_FAILED;
	struct stat at;
	char path[4096];
	int fd;

	if ((size_t)snprintf(path, sizeof path, "%s/control", folder) >= sizeof path)
		return NULL;
	fd = open_unseen(path, O_RDWR);
	if (fd < 0)
		return NULL;
	if (!fstat(fd, &at) && at.st_size == TAUTI_STALLS_CONTROL_BYTES)
		found = mmap(NULL, TAUTI_STALLS_CONTROL_BYTES, PROT_READ | PROT_WRITE,
			MAP_SHARED, fd, 0);
	close(fd);
	if (found == MAP_FAILED)
		return NULL;
	if (!memcmp(found->magic, TAUTI_STALLS_MAGIC, sizeof found->magic) &&
		found->version == TAUTI_STALLS_VERSION)
		return found;
	munmap(found, TAUTI_STALLS_CONTROL_BYTES);
	return NULL;
}

static void forget_one(
	const char *path, uint32_t cold_ppm, struct tauti_stalls_control *control)
{
	int fd = open_unseen(path, O_RDONLY | O_NONBLOCK);
	uint64_t bytes = 0;
	struct stat at;

	if (fd < 0)
		return;
	if (!fstat(fd, &at) && S_ISREG(at.st_mode))
		bytes = tauti_cold_forget(fd, &at, cold_ppm);
	close(fd);
	if (!bytes || !control)
		return;
	atomic_fetch_add(&control->forgotten, 1);
	atomic_fetch_add(&control->forgotten_bytes, bytes);
}

taut_status taut_stalls_forget(
	const char *folder, uint32_t cold_ppm, struct taut_error *reterr)
{
	struct tauti_listed listed;
	struct tauti_stalls_control *control;
	taut_status status;

	if (cold_ppm > TAUTI_COLD_ALL_PPM)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "stalls: cold_ppm: "
			"expected at most %d, found %u", TAUTI_COLD_ALL_PPM, cold_ppm);
	status = tauti_listed_read(folder, &listed, reterr);
	control = status ? NULL : map_control(folder);
	for (size_t i = 0; !status && i < listed.files.count; i++)
		forget_one(tauti_listed_path(&listed, i), cold_ppm, control);
	if (control)
		munmap(control, TAUTI_STALLS_CONTROL_BYTES);
	tauti_listed_fini(&listed);
	return status;
}

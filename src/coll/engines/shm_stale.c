/* shm_stale.c - what a rank leaves in /dev/shm that is killed before its host's ranks
 * have mapped it.
 *
 * Who makes such a file holds a lock on it as long as it has a name. So one that is
 * a minute old, and that nobody has locked, is nobody's: the next job of this user
 * removes it. */
#include "coll/engines/shm.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Between its making and its lock. */
static const time_t least_age_s = 60;

/* Of a file there: without the slash. */
static bool is_file(const char *name)
{
	const char *prefix = &TAUTI_SHM_PREFIX[1];
	size_t n = strlen(prefix);

	return strncmp(name, prefix, n) == 0 &&
		strlen(name + n) == 2 * TAUTI_SHM_RANDOM_BYTES &&
		strspn(name + n, "0123456789abcdef") == strlen(name + n);
}

bool tauti_shm_is_name(const char *name)
{
	return name[0] == '/' && is_file(name + 1);
}

static bool is_stale(int fd)
{
	struct stat at;

	return fstat(fd, &at) == 0 && S_ISREG(at.st_mode) &&
		at.st_uid == geteuid() &&
		at.st_mtime <= time(NULL) - least_age_s &&
		flock(fd, LOCK_EX | LOCK_NB) == 0;
}

void tauti_shm_remove_stale(void)
{
	DIR *folder = opendir("/dev/shm");
	const struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		int fd = -1;

		if (is_file(entry->d_name))
			fd = openat(dirfd(folder), entry->d_name, O_RDWR |
				O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd < 0)
			continue;
		if (is_stale(fd))
			unlinkat(dirfd(folder), entry->d_name, 0);
		close(fd);
	}
	if (folder)
		closedir(folder);
}

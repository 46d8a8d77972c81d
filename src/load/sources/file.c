/* file.c - see file.h. */
#include "load/sources/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "load/set.h"

static taut_status read_all(
	int fd, const char *path, char *into, size_t size, struct taut_error *err)
{
	for (size_t at = 0; at < size;) {
		ssize_t n = read(fd, into + at, size - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return taut_error_set(err, TAUT_EIO, (int64_t)at,
				"%s: byte %zu: cannot be read: %s", path, at,
				n ? strerror(errno) : "the file has become shorter");
		at += (size_t)n;
	}
	return TAUT_OK;
}

static taut_status read_open(int fd, const char *path, struct taut_arena *arena,
	char **ret_bytes, size_t *ret_size, struct taut_error *err)
{
	struct stat about;
	taut_status status;
	char *bytes;
	size_t size;

	if (fstat(fd, &about) != 0)
		return taut_error_set(
			err, TAUT_EIO, -1, "%s: %s", path, strerror(errno));
	size = (size_t)about.st_size;
	bytes = taut_arena_alloc(arena, size + 1);
	if (!bytes)
		return tauti_set_no_memory(path, err);
	bytes[size] = 0;
	status = read_all(fd, path, bytes, size, err);
	if (status)
		return status;
	*ret_bytes = bytes;
	*ret_size = size;
	return TAUT_OK;
}

taut_status tauti_file_read(const char *path, struct taut_arena *arena,
	char **ret_bytes, size_t *ret_size, struct taut_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	taut_status status;

	if (fd < 0)
		return taut_error_set(
			err, TAUT_EIO, -1, "%s: %s", path, strerror(errno));
	status = read_open(fd, path, arena, ret_bytes, ret_size, err);
	close(fd);
	return status;
}

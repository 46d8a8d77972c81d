/* record_log.c - the header of an event log, and its size on the disk. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log_format.h"
#include "cli/record.h"

bool record_is_alive(const char *host, int64_t pid)
{
	char own[65];

	if (gethostname(own, sizeof own) || strcmp(own, host) || pid <= 0 ||
		pid > INT32_MAX)
		return false;
	return !kill((pid_t)pid, 0) || errno == EPERM;
}

/* The writer's process is of this host and gone, and nobody holds the file. */
static bool is_left(int fd, const struct tauti_log_header *header)
{
	char own[65];

	if (gethostname(own, sizeof own) || header->pid <= 0 ||
		strncmp(own, header->host, sizeof header->host - 1))
		return false;
	if (!kill(header->pid, 0) || errno != ESRCH)
		return false;
	return !flock(fd, LOCK_EX | LOCK_NB);
}

/* A process that was killed leaves the file as large as it was reserved. */
static void cut(const char *path, const struct tauti_log_header *header,
	uint64_t bytes, uint64_t used)
{
	int fd;

	if (header->closed_ns || bytes <= used)
		return;
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return;
	if (is_left(fd, header))
		(void)!ftruncate(fd, (off_t)used);
	close(fd);
}

static const char *copy(
	struct taut_arena *arena, const char *text, size_t size)
{
	return taut_arena_strndup(arena, text, strnlen(text, size));
}

static int64_t known(int32_t number)
{
	return number < 0 ? -1 : number;
}

/* What fits the file counts, whatever the header says. */
static taut_status describe(const struct tauti_log_header *header,
	uint64_t room, struct taut_arena *arena, struct record_log *log,
	struct taut_error *err)
{
	uint64_t capacity = header->capacity < room ? header->capacity : room;

	log->source = copy(arena, header->source, sizeof header->source);
	log->host = copy(arena, header->host, sizeof header->host);
	log->state = copy(arena, header->state, sizeof header->state);
	if (!log->source || !log->host || !log->state)
		return taut_error_set(err, TAUT_ENOMEM, -1, "no memory");
	log->pid = known(header->pid);
	log->rank = known(header->rank);
	log->world_size = known(header->world_size);
	log->local_rank = known(header->local_rank);
	log->is_closed = header->closed_ns != 0;
	log->kept = header->reserved < capacity ? header->reserved : capacity;
	if (header->reserved > header->capacity)
		log->lost = header->reserved - header->capacity;
	return TAUT_OK;
}

static taut_status read_header(const char *path,
	struct tauti_log_header *header, uint64_t *ret_bytes,
	struct taut_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat at;
	ssize_t n;

	if (fd < 0)
		return taut_error_set(err, TAUT_EIO, -1, "%s: %s", path,
			strerror(errno));
	n = fstat(fd, &at) || !S_ISREG(at.st_mode) ? 0 :
		pread(fd, header, sizeof *header, 0);
	close(fd);
	if (n != sizeof *header ||
		memcmp(header->magic, TAUTI_LOG_MAGIC, sizeof header->magic) ||
		header->header_bytes != TAUTI_LOG_HEADER_BYTES ||
		header->record_bytes != TAUTI_LOG_RECORD_BYTES)
		return taut_error_set(err, TAUT_EFORMAT, -1,
			"%s: expected an event log", path);
	*ret_bytes = (uint64_t)at.st_size;
	return TAUT_OK;
}

taut_status record_log_read(const char *folder, const char *name,
	struct taut_arena *arena, struct record_log *ret_log,
	struct taut_error *err)
{
	struct record_log log = { .name = name };
	struct tauti_log_header header;
	char *path = taut_arena_printf(arena, "%s/%s", folder, name);
	uint64_t bytes = 0, room;
	taut_status status;

	if (!path)
		return taut_error_set(err, TAUT_ENOMEM, -1, "no memory");
	status = read_header(path, &header, &bytes, err);
	if (status)
		return status;
	room = bytes < TAUTI_LOG_HEADER_BYTES ? 0 :
		(bytes - TAUTI_LOG_HEADER_BYTES) / TAUTI_LOG_RECORD_BYTES;
	status = describe(&header, room, arena, &log, err);
	if (status)
		return status;
	cut(path, &header, bytes, TAUTI_LOG_HEADER_BYTES +
		log.kept * TAUTI_LOG_RECORD_BYTES);
	*ret_log = log;
	return TAUT_OK;
}

/* board.c - memory that a server shares with a worker of its host; see server.h. */
#include "server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "coll/engines/shm.h"

/* As the ranks of a host name theirs, so that what a killed server has left is found
 * by the next job of either; see shm_stale.c. */
static int name_it(char *name)
{
	unsigned char bytes[TAUTI_SHM_RANDOM_BYTES];
	int at = snprintf(name, TAUTI_BOARD_NAME_BYTES, TAUTI_SHM_PREFIX);

	if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
		return EIO;
	for (int i = 0; i < TAUTI_SHM_RANDOM_BYTES; i++)
		at += snprintf(name + at, (size_t)(TAUTI_BOARD_NAME_BYTES - at),
			"%02x", bytes[i]);
	return 0;
}

/* Others share memory too, and who writes to a page that is not to be had ends by a
 * signal: a board takes at most half of what is free. */
static taut_status check_room(int fd, size_t bytes, struct taut_error *reterr)
{
	struct statvfs at;
	uint64_t most;

	/* Without blocks it has no limit. */
	if (fstatvfs(fd, &at) != 0 || !at.f_blocks)
		return TAUT_OK;
	most = (uint64_t)at.f_bavail * at.f_frsize / 2;
	return bytes <= most ? TAUT_OK : taut_error_set(reterr, TAUT_EIO, -1,
		"memory to be shared: %zu bytes are more than half of what is "
		"free on /dev/shm, %" PRIu64, bytes, most);
}

/* All pages are there: one that is not to be had later ends the process. errno. */
static int set_aside(int fd, size_t bytes)
{
	int error = ftruncate(fd, (off_t)bytes) ? errno : 0;

	while (!error && (error = posix_fallocate(fd, 0, (off_t)bytes)) == EINTR)
		error = 0;
	return error;
}

static int map(struct tauti_board *board, int fd)
{
	void *base = mmap(NULL, board->bytes, PROT_READ | PROT_WRITE,
		MAP_SHARED, fd, 0);

	if (base == MAP_FAILED)
		return errno;
	board->base = base;
	return 0;
}

static taut_status no_board(int error, struct taut_error *reterr)
{
	return taut_error_set(reterr, TAUT_EIO, -1,
		"memory to be shared: %s", strerror(error));
}

/* Of memory that is there; errno. */
static int fill(struct tauti_board *board)
{
	int error = set_aside(board->fd, board->bytes);

	return error ? error : map(board, board->fd);
}

taut_status tauti_board_create(size_t bytes, struct tauti_board *ret_board,
	struct taut_error *reterr)
{
	struct tauti_board board = { .bytes = bytes };
	int error = bytes ? name_it(board.name) : EINVAL;
	taut_status status;

	if (error)
		return no_board(error, reterr);
	tauti_shm_remove_stale();
	board.fd = shm_open(board.name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (board.fd < 0)
		return no_board(errno, reterr);
	(void)flock(board.fd, LOCK_SH | LOCK_NB);
	status = check_room(board.fd, bytes, reterr);
	if (!status) {
		error = fill(&board);
		status = error ? no_board(error, reterr) : TAUT_OK;
	}
	if (status)
		tauti_board_close(&board);
	else
		*ret_board = board;
	return status;
}

/* errno */
static int check(int fd, size_t bytes)
{
	struct stat at;

	if (fstat(fd, &at))
		return errno;
	return at.st_uid == geteuid() && at.st_size >= 0 &&
		(uint64_t)at.st_size == bytes ? 0 : EPERM;
}

taut_status tauti_board_open(const char *name, size_t bytes,
	struct tauti_board *ret_board, struct taut_error *reterr)
{
	struct tauti_board board = { .bytes = bytes };
	int fd = shm_open(name, O_RDWR, 0), error;

	if (fd < 0)
		return no_board(errno, reterr);
	error = check(fd, bytes);
	if (!error)
		error = map(&board, fd);
	close(fd);
	if (error)
		return no_board(error, reterr);
	shm_unlink(name);
	*ret_board = board;
	return TAUT_OK;
}

void tauti_board_settle(struct tauti_board *board)
{
	if (board->name[0])
		close(board->fd);
	board->name[0] = '\0';
}

void tauti_board_close(struct tauti_board *board)
{
	if (board->name[0])
		shm_unlink(board->name);
	tauti_board_settle(board);
	if (board->base)
		munmap(board->base, board->bytes);
	board->base = NULL;
}

void tauti_board_copy(void *to, const void *from, size_t bytes)
{
	tauti_shm_copy(to, from, bytes);
}

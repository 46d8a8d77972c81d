/* board.c - memory that a server shares with a worker of its host; see server.h. */
#include "server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
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

taut_status tauti_board_create(size_t bytes, struct tauti_board *ret_board,
	struct taut_error *reterr)
{
	struct tauti_board board = { .bytes = bytes };
	int error = bytes ? name_it(board.name) : EINVAL;

	if (error)
		return no_board(error, reterr);
	tauti_shm_remove_stale();
	board.fd = shm_open(board.name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (board.fd < 0)
		return no_board(errno, reterr);
	(void)flock(board.fd, LOCK_SH | LOCK_NB);
	error = set_aside(board.fd, bytes);
	if (!error)
		error = map(&board, board.fd);
	if (error) {
		tauti_board_close(&board);
		return no_board(error, reterr);
	}
	*ret_board = board;
	return TAUT_OK;
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

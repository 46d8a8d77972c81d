/* pool.c - see pool.h. The memory, and what a participant does with it. */
#include "load/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "load/pool_inner.h"

#define PATIENCE_NS INT64_C(5000000000)

enum {
	STEP_BYTES = 16 << 20, /* reserved at once, if there is so much */
	PIECE_BYTES = 2 << 20, /* a signal makes the kernel begin it again */
	GENERATION_MASK = (1 << TAUTI_POOL_GENERATION_BITS) - 1,
};

_Static_assert(sizeof(struct tauti_pool_head) <= TAUTI_POOL_HEAD_BYTES,
	"the head fits before the memory");

/* --- memory --------------------------------------------------------------------------*/

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

bool tauti_pool_grow(int memory, uint64_t from, uint64_t end)
{
	struct rlimit most;

	/* Beyond this limit the kernel would send SIGXFSZ. */
	if (getrlimit(RLIMIT_FSIZE, &most) == 0 && end > most.rlim_cur) {
		errno = EFBIG;
		return false;
	}
	while (from < end) {
		uint64_t to = earlier(from + PIECE_BYTES, end);

		if (fallocate(memory, 0, (off_t)from, (off_t)(to - from)) == 0)
			from = to;
		else if (errno != EINTR)
			return false;
	}
	return true;
}

bool tauti_pool_reserve(struct tauti_pool *pool, uint64_t end_bytes)
{
	uint64_t need = TAUTI_POOL_HEAD_BYTES + end_bytes;
	uint64_t have = atomic_load_explicit(
		&pool->head->reserved_bytes, memory_order_acquire);
	uint64_t to;

	if (end_bytes > pool->options.bytes)
		return false;
	if (need <= have)
		return true;
	if (tauti_origin_is_copy(&pool->origin))
		return false;
	to = earlier(have + STEP_BYTES, tauti_pool_map_bytes(pool));
	if (to < need || !tauti_pool_grow(pool->memory, have, to)) {
		to = need;
		if (!tauti_pool_grow(pool->memory, have, to))
			return false;
	}
	while (have < to &&
		!atomic_compare_exchange_weak(
			&pool->head->reserved_bytes, &have, to))
		;
	return true;
}

/* --- what it is ----------------------------------------------------------------------*/

void *tauti_pool_memory(const struct tauti_pool *pool)
{
	return (char *)pool->head + TAUTI_POOL_HEAD_BYTES;
}

uint64_t tauti_pool_bytes(const struct tauti_pool *pool)
{
	return pool->options.bytes;
}

uint64_t tauti_pool_reserved_bytes(const struct tauti_pool *pool)
{
	return atomic_load(&pool->head->reserved_bytes) - TAUTI_POOL_HEAD_BYTES;
}

bool tauti_pool_is_copy(const struct tauti_pool *pool)
{
	return tauti_origin_is_copy(&pool->origin);
}

bool tauti_pool_is_maker(const struct tauti_pool *pool)
{
	return pool->made;
}

const char *tauti_pool_name(const struct tauti_pool *pool)
{
	return pool->name;
}

uint64_t tauti_pool_inode(const struct tauti_pool *pool)
{
	struct stat stat;

	return fstat(pool->memory, &stat) == 0 ? stat.st_ino : 0;
}

/* --- seats ---------------------------------------------------------------------------*/

uint32_t tauti_pool_seat(const struct tauti_pool *pool)
{
	return pool->seat;
}

uint32_t tauti_pool_generation(const struct tauti_pool *pool)
{
	return pool->generation;
}

bool tauti_pool_seat_lives(
	const struct tauti_pool *pool, uint32_t seat, uint32_t generation)
{
	struct flock lock = {
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = seat,
		.l_len = 1,
	};
	uint32_t now;

	if (seat >= TAUTI_POOL_SEATS)
		return false;
	now = atomic_load(&pool->head->generation[seat]);
	if ((now & GENERATION_MASK) != generation)
		return false;
	/* Its keeper has another table of descriptors, so this is a conflict also
	 * if it is of this process. */
	return fcntl(pool->memory, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

/* --- open and close ------------------------------------------------------------------*/

/* The keeper's byte, and with it the memory's descriptor for this process. */
static taut_status hear_keeper(struct tauti_pool *pool, struct taut_error *err)
{
	_Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int))];
	char byte;
	struct iovec piece = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = room,
		.msg_controllen = sizeof room,
	};
	taut_status status;
	struct cmsghdr *part;
	ssize_t got;

	do
		got = recvmsg(pool->wire[0], &message, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	status = (taut_status)atomic_load(&pool->status);
	if (status != TAUT_OK)
		return taut_error_set(
			err, status, pool->fault.offset, "%s", pool->fault.message);
	part = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (!part || part->cmsg_type != SCM_RIGHTS)
		return taut_error_set(err, TAUT_EIO, -1,
			"pool %s: no descriptor is left for it", pool->name);
	memcpy(&pool->memory, CMSG_DATA(part), sizeof pool->memory);
	return TAUT_OK;
}

static taut_status map_memory(struct tauti_pool *pool, struct taut_error *err)
{
	void *at = mmap(NULL, tauti_pool_map_bytes(pool), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_NORESERVE, pool->memory, 0);

	if (at == MAP_FAILED)
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"pool %s: no room to map %llu bytes: %s", pool->name,
			(unsigned long long)pool->options.bytes, strerror(errno));
	pool->head = at;
	pool->generation =
		(atomic_fetch_add(&pool->head->generation[pool->seat], 1) + 1) &
		GENERATION_MASK;
	if (!tauti_pool_reserve(pool, pool->options.first_bytes))
		return taut_error_set(err, TAUT_EIO, -1,
			"pool %s: cannot have %llu bytes of shared memory: %s",
			pool->name, (unsigned long long)pool->options.first_bytes,
			strerror(errno));
	return TAUT_OK;
}

static int start_keeper(struct tauti_pool *pool)
{
	sigset_t all, before;
	int fault;

	/* Signals are for the threads of who uses this. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	fault = pthread_create(&pool->keeper, NULL, tauti_pool_keep, pool);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return fault;
}

static void end_keeper(struct tauti_pool *pool)
{
	ssize_t sent;

	do
		sent = send(pool->wire[0], "", 1, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	pthread_join(pool->keeper, NULL);
}

/* Of the process; the keeper has gone, or was never in this process. */
static void give_back(struct tauti_pool *pool)
{
	if (pool->head)
		munmap(pool->head, tauti_pool_map_bytes(pool));
	if (pool->memory >= 0)
		close(pool->memory);
	close(pool->wire[0]);
	close(pool->wire[1]);
	if (!tauti_origin_is_copy(&pool->origin))
		tauti_origin_fini(&pool->origin);
	free(pool);
}

static taut_status check_options(
	const struct tauti_pool_options *options, struct taut_error *err)
{
	if (options->first_bytes > options->bytes ||
		options->bytes > UINT64_C(1) << 46)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"pool: %llu bytes, %llu of them at first: expected at most "
			"2^46, and no more at first than in all",
			(unsigned long long)options->bytes,
			(unsigned long long)options->first_bytes);
	if (options->keep_ns != 0)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"pool: keep_ns is %lld, expected 0: a pool ends with its last "
			"participant", (long long)options->keep_ns);
	return TAUT_OK;
}

/* With its pair of sockets, and nothing else. */
static taut_status new_pool(const struct tauti_pool_options *options,
	struct tauti_pool **ret_pool, struct taut_error *err)
{
	struct tauti_pool *pool = calloc(1, sizeof *pool);

	if (!pool)
		return taut_error_set(err, TAUT_ENOMEM, -1, "pool: no memory");
	pool->options = *options;
	if (!pool->options.patience_ns)
		pool->options.patience_ns = PATIENCE_NS;
	pool->memory = -1;
	snprintf(pool->name, sizeof pool->name, "taut-pool-%u-%016llx",
		(unsigned)geteuid(), (unsigned long long)options->fingerprint);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pool->wire) != 0) {
		taut_error_set(err, TAUT_EIO, -1, "pool %s: no pair of sockets: %s",
			pool->name, strerror(errno));
		free(pool);
		return TAUT_EIO;
	}
	tauti_origin_init(&pool->origin);
	*ret_pool = pool;
	return TAUT_OK;
}

taut_status tauti_pool_open(const struct tauti_pool_options *options,
	struct tauti_pool **ret_pool, struct taut_error *err)
{
	taut_status status = check_options(options, err);
	struct tauti_pool *pool;
	int fault;

	if (status == TAUT_OK)
		status = new_pool(options, &pool, err);
	if (status != TAUT_OK)
		return status;
	fault = start_keeper(pool);
	if (fault) {
		status = taut_error_set(err, TAUT_ENOMEM, -1,
			"pool %s: no thread: %s", pool->name, strerror(fault));
		give_back(pool);
		return status;
	}
	status = hear_keeper(pool, err);
	if (status == TAUT_OK)
		status = map_memory(pool, err);
	if (status != TAUT_OK) {
		tauti_pool_close(pool);
		return status;
	}
	*ret_pool = pool;
	return TAUT_OK;
}

void tauti_pool_close(struct tauti_pool *pool)
{
	if (!pool)
		return;
	if (!tauti_origin_is_copy(&pool->origin))
		end_keeper(pool);
	give_back(pool);
}

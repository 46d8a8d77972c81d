/* pool_door.c - see pool.h. The keeper: it finds or makes the pool, takes a seat, and
 * lets newcomers in.
 *
 * All of this runs in a thread whose descriptors are its own. Whatever fails, they go with
 * the table when the thread ends, and so does the seat; so nothing but what newcomers
 * bring is closed one by one. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/now.h"
#include "load/pool_inner.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u /* glibc 2.39 */
#endif

enum {
	ANSWER_MS = 1000,  /* then another may hold the door who is awake */
	RETRY_MS = 1,
	MOST_PASSED = 8,   /* descriptors that are taken from a message; 2 is right */
};

/* Without the library's wrapper: ThreadSanitizer watches those by number of descriptor, and
 * takes equal numbers of two tables for the same. */
#define raw(name, ...) syscall(SYS_##name, __VA_ARGS__)

struct hello {
	char magic[8];
	uint32_t version, unused;
	uint64_t bytes, fingerprint;
};

struct door { /* of the keeper's table */
	int listener, memory;
};

static struct hello hello_of(const struct tauti_pool *pool)
{
	return (struct hello){
		.magic = "TAUTDOOR",
		.version = TAUTI_POOL_VERSION,
		.bytes = pool->options.bytes,
		.fingerprint = pool->options.fingerprint,
	};
}

static void shut(int fd)
{
	raw(close_range, fd, fd, 0);
}

/* A table with nothing but the wire in it, and nothing where somebody may print. */
static taut_status have_own_table(struct tauti_pool *pool, struct taut_error *err)
{
	unsigned wire = (unsigned)pool->wire[1];
	int null;

	pool->own_table = raw(close_range, wire + 1, ~0u, CLOSE_RANGE_UNSHARE) == 0;
	if (!pool->own_table || (wire > 0 && raw(close_range, 0, wire - 1, 0) != 0))
		return taut_error_set(err, TAUT_EIO, -1,
			"pool %s: close_range() of its own descriptors: %s, expected "
			"Linux 5.9 or later", pool->name, strerror(errno));
	do
		null = (int)raw(openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);
	while (null >= 0 && null <= STDERR_FILENO);
	if (null >= 0)
		shut(null);
	return TAUT_OK;
}

static socklen_t address_of(const struct tauti_pool *pool, struct sockaddr_un *ret)
{
	size_t len = strlen(pool->name);

	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(ret->sun_path + 1, pool->name, len);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

static int new_socket(void)
{
	return (int)raw(
		socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* Who is at the other end of fd; of a listener, who called listen(). */
static bool same_user(int fd, unsigned *ret_user)
{
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t len = sizeof peer;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0)
		peer.uid = (uid_t)-1;
	*ret_user = (unsigned)peer.uid;
	return peer.uid == geteuid();
}

/* --- descriptors in a message --------------------------------------------------------*/

static bool send_with(int to, const void *data, size_t len, const int *fds, size_t n_fds)
{
	_Alignas(struct cmsghdr) char room[CMSG_SPACE(2 * sizeof(int))] = { 0 };
	struct iovec piece = { (void *)(uintptr_t)data, len };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };
	struct cmsghdr *part;

	if (n_fds) {
		message.msg_control = room;
		message.msg_controllen = CMSG_SPACE(n_fds * sizeof *fds);
		part = CMSG_FIRSTHDR(&message);
		part->cmsg_level = SOL_SOCKET;
		part->cmsg_type = SCM_RIGHTS;
		part->cmsg_len = CMSG_LEN(n_fds * sizeof *fds);
		memcpy(CMSG_DATA(part), fds, n_fds * sizeof *fds);
	}
	return raw(sendmsg, to, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (long)len;
}

/* Takes up to MOST_PASSED descriptors; those that are more the kernel closes. */
static size_t passed(struct msghdr *message, int *fds)
{
	size_t n = 0;

	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part;
		part = CMSG_NXTHDR(message, part)) {
		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		n = (part->cmsg_len - CMSG_LEN(0)) / sizeof *fds;
		memcpy(fds, CMSG_DATA(part), n * sizeof *fds);
	}
	return n;
}

/* --- come in -------------------------------------------------------------------------*/

static bool is_listener(int fd)
{
	int listens = 0;
	socklen_t len = sizeof listens;

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && listens;
}

static bool is_memory(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & F_SEAL_SHRINK) &&
		lseek(fd, 0, SEEK_END) >= TAUTI_POOL_HEAD_BYTES;
}

static taut_status check_hello(const struct tauti_pool *pool, const struct hello *hello,
	ssize_t len, struct taut_error *err)
{
	struct hello want = hello_of(pool);

	if (len != sizeof *hello ||
		memcmp(hello->magic, want.magic, sizeof want.magic) != 0 ||
		hello->version != want.version ||
		hello->fingerprint != want.fingerprint)
		return taut_error_set(err, TAUT_EMATCH, -1,
			"pool %s: what has taken its name is no pool of version %u",
			pool->name, want.version);
	if (hello->bytes != want.bytes)
		return taut_error_set(err, TAUT_EMATCH, -1,
			"pool %s: it has %llu bytes, expected %llu", pool->name,
			(unsigned long long)hello->bytes,
			(unsigned long long)want.bytes);
	return TAUT_OK;
}

/* TAUT_EAGAIN: who was to answer is gone. */
static taut_status hear_hello(struct tauti_pool *pool, int from, struct door *door,
	struct taut_error *err)
{
	_Alignas(struct cmsghdr) char room[CMSG_SPACE(MOST_PASSED * sizeof(int))];
	int fds[MOST_PASSED] = { 0 };
	struct hello hello = { .version = 0 };
	struct iovec piece = { &hello, sizeof hello };
	struct msghdr message = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = room,
		.msg_controllen = sizeof room,
	};
	ssize_t len = raw(recvmsg, from, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	taut_status status;
	size_t n;

	if (len <= 0)
		return TAUT_EAGAIN;
	n = passed(&message, fds);
	status = check_hello(pool, &hello, len, err);
	if (status == TAUT_OK && (n != 2 || !is_listener(fds[0]) || !is_memory(fds[1])))
		status = taut_error_set(err, TAUT_EMATCH, -1,
			"pool %s: its door gave %zu descriptors that are not a door "
			"and memory", pool->name, n);
	if (status == TAUT_OK)
		*door = (struct door){ fds[0], fds[1] };
	for (size_t i = 0; status != TAUT_OK && i < n; i++)
		shut(fds[i]);
	return status;
}

static bool readable(int fd, int64_t until_ns)
{
	int64_t left_ms = (until_ns - tauti_now_ns()) / 1000000 + 1;
	struct pollfd on = { .fd = fd, .events = POLLIN };

	if (left_ms > ANSWER_MS)
		left_ms = ANSWER_MS;
	return left_ms > 0 && poll(&on, 1, (int)left_ms) > 0;
}

/* TAUT_EAGAIN: nobody is there, or nobody answers. */
static taut_status knock(struct tauti_pool *pool, int64_t until_ns, struct door *door,
	struct taut_error *err)
{
	struct sockaddr_un address;
	socklen_t len = address_of(pool, &address);
	int fd = new_socket();
	taut_status status = TAUT_EAGAIN;
	unsigned user;

	if (fd < 0)
		return taut_error_set(err, TAUT_EIO, -1, "pool %s: no socket: %s",
			pool->name, strerror(errno));
	if (raw(connect, fd, &address, len) != 0) {
		if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR)
			status = taut_error_set(err, TAUT_EIO, -1,
				"pool %s: cannot connect to its door: %s",
				pool->name, strerror(errno));
	} else if (!same_user(fd, &user)) {
		status = taut_error_set(err, TAUT_EIO, -1,
			"pool %s: user %u has taken its name, expected user %u",
			pool->name, user, (unsigned)geteuid());
	} else if (readable(fd, until_ns)) {
		status = hear_hello(pool, fd, door, err);
	}
	shut(fd);
	return status;
}

static int new_memory(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd;
}

/* With its head, and so that no participant can take away what another has reserved. */
static taut_status make_memory(
	const struct tauti_pool *pool, int *ret_memory, struct taut_error *err)
{
	uint64_t first = TAUTI_POOL_HEAD_BYTES + pool->options.first_bytes;
	_Atomic uint64_t reserved = first;
	int memory = new_memory(pool->name);

	if (memory >= 0 && tauti_pool_grow(memory, 0, first) &&
		raw(pwrite64, memory, &reserved, sizeof reserved,
			offsetof(struct tauti_pool_head, reserved_bytes)) ==
			(long)sizeof reserved &&
		fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0) {
		*ret_memory = memory;
		return TAUT_OK;
	}
	taut_error_set(err, TAUT_EIO, -1,
		"pool %s: cannot have %llu bytes of shared memory: %s", pool->name,
		(unsigned long long)first, strerror(errno));
	if (memory >= 0)
		shut(memory);
	return TAUT_EIO;
}

/* TAUT_EAGAIN: the name is taken. */
static taut_status make(struct tauti_pool *pool, struct door *door, struct taut_error *err)
{
	struct sockaddr_un address;
	socklen_t len = address_of(pool, &address);
	int fd = new_socket();
	taut_status status = TAUT_EAGAIN;

	if (fd < 0 || raw(bind, fd, &address, len) != 0) {
		if (fd < 0 || errno != EADDRINUSE)
			status = taut_error_set(err, TAUT_EIO, -1,
				"pool %s: cannot bind its door: %s", pool->name,
				strerror(errno));
		goto shut;
	}
	status = make_memory(pool, &door->memory, err);
	if (status != TAUT_OK)
		goto shut;
	/* Nobody is let in before there is something to give. */
	if (raw(listen, fd, SOMAXCONN) != 0) {
		status = taut_error_set(err, TAUT_EIO, -1, "pool %s: listen: %s",
			pool->name, strerror(errno));
		goto shut;
	}
	door->listener = fd;
	pool->made = true;
	return TAUT_OK;

shut:
	if (fd >= 0)
		shut(fd);
	return status;
}

static taut_status join_or_make(
	struct tauti_pool *pool, struct door *door, struct taut_error *err)
{
	int64_t until_ns = tauti_now_ns() + pool->options.patience_ns;
	taut_status status;

	for (;;) {
		status = knock(pool, until_ns, door, err);
		if (status == TAUT_EAGAIN)
			status = make(pool, door, err);
		if (status != TAUT_EAGAIN)
			return status;
		if (tauti_now_ns() >= until_ns)
			return taut_error_set(err, TAUT_EAGAIN, -1,
				"pool %s: no answer within %lld ms from who holds its "
				"door", pool->name,
				(long long)(pool->options.patience_ns / 1000000));
		poll(NULL, 0, RETRY_MS);
	}
}

static taut_status take_seat(struct tauti_pool *pool, int memory, struct taut_error *err)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };

	for (uint32_t seat = 0; seat < TAUTI_POOL_SEATS; seat++) {
		lock.l_start = seat;
		if (fcntl(memory, F_SETLK, &lock) == 0) {
			pool->seat = seat;
			return TAUT_OK;
		}
		if (errno != EAGAIN && errno != EACCES && errno != EINTR)
			return taut_error_set(err, TAUT_EIO, -1,
				"pool %s: cannot lock seat %u: %s", pool->name, seat,
				strerror(errno));
	}
	return taut_error_set(err, TAUT_EAGAIN, -1, "pool %s: all of its %d seats are taken",
		pool->name, TAUTI_POOL_SEATS);
}

/* --- let others in -------------------------------------------------------------------*/

static void welcome(const struct tauti_pool *pool, const struct door *door)
{
	struct hello hello = hello_of(pool);
	int fds[2] = { door->listener, door->memory };
	int guest = (int)raw(accept4, door->listener, NULL, NULL,
		SOCK_CLOEXEC | SOCK_NONBLOCK);
	unsigned user;

	if (guest < 0) {
		/* Another participant was faster; or the system has no descriptors left, and
		 * this does not spin until it has. */
		if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
			poll(NULL, 0, 10 * RETRY_MS);
		return;
	}
	/* What does not fit an empty socket at once is never sent: nobody waits here. */
	if (same_user(guest, &user))
		send_with(guest, &hello, sizeof hello, fds, 2);
	shut(guest);
}

static void serve(const struct tauti_pool *pool, const struct door *door)
{
	struct pollfd on[2] = {
		{ .fd = pool->wire[1], .events = POLLIN },
		{ .fd = door->listener, .events = POLLIN },
	};

	for (;;) {
		if (poll(on, 2, -1) < 0)
			continue;
		if (on[0].revents)
			return;
		if (on[1].revents & POLLIN)
			welcome(pool, door);
		else if (on[1].revents)
			on[1].fd = -1; /* it can open to nobody any more */
	}
}

/* Without the descriptor, if the system does not pass it. */
static void answer(struct tauti_pool *pool, const struct door *door, taut_status status)
{
	atomic_store(&pool->status, status);
	if (status == TAUT_OK && send_with(pool->wire[1], "", 1, &door->memory, 1))
		return;
	while (!send_with(pool->wire[1], "", 1, NULL, 0))
		poll(NULL, 0, RETRY_MS);
}

void *tauti_pool_keep(void *arg)
{
	struct tauti_pool *pool = arg;
	struct door door = { -1, -1 };
	taut_status status;

	pthread_setname_np(pthread_self(), "taut-pool");
	status = have_own_table(pool, &pool->fault);
	if (status == TAUT_OK)
		status = join_or_make(pool, &door, &pool->fault);
	if (status == TAUT_OK)
		status = take_seat(pool, door.memory, &pool->fault);
	answer(pool, &door, status);
	if (status == TAUT_OK)
		serve(pool, &door);
	/* pthread_join() returns before the kernel gives back the table of a thread. */
	if (pool->own_table)
		raw(close_range, 0, ~0u, 0);
	return NULL;
}

/* pool_by_hand.h - pools of a test: names, their doors, children. */
#ifndef TAUT_LOAD_POOL_BY_HAND_H
#define TAUT_LOAD_POOL_BY_HAND_H

#include "tests/support/unit.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "load/pool.h"

enum { KIB = 1024 };

#define SECOND_NS INT64_C(1000000000)

/* Of this run alone: another may test at the same time. */
static inline uint64_t fingerprint(uint64_t n)
{
	return (uint64_t)getpid() << 32 | n;
}

static inline struct tauti_pool_options options_of(uint64_t name)
{
	return (struct tauti_pool_options){
		.fingerprint = name,
		.bytes = 64 << 20,
		.first_bytes = KIB,
		.patience_ns = 20 * SECOND_NS,
	};
}

static inline struct tauti_pool *open_pool(uint64_t name)
{
	struct tauti_pool_options options = options_of(name);
	struct tauti_pool *pool = NULL;
	struct taut_error err;

	if (tauti_pool_open(&options, &pool, &err) != TAUT_OK)
		print_message("%s\n", err.message);
	return pool;
}

static inline struct sockaddr_un address_of(const char *name, socklen_t *ret_len)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	memcpy(address.sun_path + 1, name, strlen(name));
	*ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
		strlen(name));
	return address;
}

static inline void door_name(char *room, size_t size, uint64_t name)
{
	snprintf(room, size, "taut-pool-%u-%016llx", (unsigned)geteuid(),
		(unsigned long long)name);
}

/* A socket that has the name, listening; -1: it is taken. */
static inline int squat(const char *name)
{
	socklen_t len;
	struct sockaddr_un address = address_of(name, &len);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	if (bind(fd, (struct sockaddr *)&address, len) != 0 || listen(fd, 10) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static inline bool is_free(uint64_t name)
{
	char room[64];
	int fd;

	door_name(room, sizeof room, name);
	fd = squat(room);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static inline int descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(folder);
	while (readdir(folder))
		n++;
	closedir(folder);
	return n;
}

/* Exit status of a child; a signal is 128 and more. */
static inline int status_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Opening it fails so, and leaves nothing. */
static inline void refused(const struct tauti_pool_options *options, taut_status status,
	const char *message)
{
	struct tauti_pool *pool = (void *)(uintptr_t)1;
	int before = descriptors();
	struct taut_error err;

	assert_int_equal(tauti_pool_open(options, &pool, &err), status);
	assert_ptr_equal(pool, (void *)(uintptr_t)1);
	if (message)
		assert_string_equal(err.message, message);
	assert_int_equal(descriptors(), before);
}

/* It ends with this process. */
static inline pid_t child(int (*body)(struct tauti_pool *), struct tauti_pool *pool)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(body(pool));
	}
	return pid;
}

#endif /* TAUT_LOAD_POOL_BY_HAND_H */

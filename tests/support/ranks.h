/* ranks.h - the ranks of a test, as threads of this process or as processes. */
#ifndef TAUT_TESTS_RANKS_H
#define TAUT_TESTS_RANKS_H

#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/now.h"

enum { RANKS_MOST = 16 };

/* Whether a listener could be at this port. */
static inline bool ranks_is_free(uint16_t port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool is_free = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0;

	if (fd >= 0)
		close(fd);
	return is_free;
}

/* Whether the ports of this block are now this process's, until it ends. */
static inline bool ranks_lock_ports(unsigned block)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int length = snprintf(at.sun_path + 1, sizeof at.sun_path - 1,
		"taut-test-ports-%u", block);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&at,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) +
			(socklen_t)length) == 0)
		return true;
	if (fd >= 0)
		close(fd);
	return false;
}

/* A port that nobody takes before the test listens at it: see ports.py, whose blocks
 * and locks these are. Main thread only, and before it forks. */
static inline uint16_t ranks_free_port(void)
{
	enum { FIRST = 10000, BLOCKS = 1250, BLOCK = 8 };
	static unsigned next, end;

	for (unsigned i = 0, block = 0; i <= BLOCKS; i++) {
		while (next < end)
			if (ranks_is_free((uint16_t)next++))
				return (uint16_t)(next - 1);
		if (!i)
			block = (unsigned)getpid() * 37u + (unsigned)tauti_now_ns();
		block = (block + 1) % BLOCKS;
		if (!ranks_lock_ports(block))
			continue;
		next = FIRST + block * BLOCK;
		end = next + BLOCK;
	}
	fail_msg("no free ports");
	return 0;
}

struct ranks_one {
	void *(*work)(void *one); /* asserts nothing: it is no main thread */
	void *shared;
	uint32_t rank, n_ranks;
	pthread_t thread;
};

/* work(one) on a thread for each of the ranks first .. n-1. */
static inline void ranks_start(struct ranks_one *ones, uint32_t first,
	uint32_t n_ranks, void *(*work)(void *one), void *shared)
{
	for (uint32_t i = first; i < n_ranks; i++) {
		ones[i] = (struct ranks_one){ work, shared, i, n_ranks, 0 };
		assert_int_equal(pthread_create(&ones[i].thread, NULL, work,
			&ones[i]), 0);
	}
}

static inline void ranks_join(struct ranks_one *ones, uint32_t first,
	uint32_t n_ranks)
{
	for (uint32_t i = first; i < n_ranks; i++)
		pthread_join(ones[i].thread, NULL);
}

static inline int64_t ranks_now_ns(void)
{
	return tauti_now_ns();
}

#if defined(__SANITIZE_THREAD__)
#define RANKS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RANKS_TSAN 1
#endif
#endif

/* UCX hooks itself into madvise(), which threads call before the thread sanitizer
 * knows them. First thing in main(). */
static inline void ranks_ucx_in_sanitizer(void)
{
#ifdef RANKS_TSAN
	setenv("UCX_MEM_EVENTS", "n", 1);
#endif
}

#endif /* TAUT_TESTS_RANKS_H */

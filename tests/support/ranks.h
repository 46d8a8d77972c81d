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
#include <sys/wait.h>
#include <unistd.h>

#include "base/now.h"

enum { RANKS_MOST = 16 };

/* A port that the kernel had to spare. */
static inline uint16_t ranks_free_port(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof at;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
	close(fd);
	return ntohs(at.sin_port);
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

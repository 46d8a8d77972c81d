/* gather.h - ranks of a test that tell each other something, as tauti_meet_gather()
 * does: threads, or processes that were forked after gather_create(). */
#ifndef TAUT_TESTS_GATHER_H
#define TAUT_TESTS_GATHER_H

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <taut/base.h>

enum { GATHER_RANKS = 16, GATHER_BYTES = 512 };

struct gather {
	pthread_barrier_t barrier;
	uint32_t n_ranks;
	unsigned char said[GATHER_RANKS][GATHER_BYTES];
};

struct gather_rank { /* what is handed to each */
	struct gather *gather;
	uint32_t rank;
};

static inline struct gather *gather_create(uint32_t n_ranks)
{
	struct gather *it = mmap(NULL, sizeof *it, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t shared;

	if (it == MAP_FAILED || n_ranks > GATHER_RANKS)
		return NULL;
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&it->barrier, &shared, n_ranks);
	pthread_barrierattr_destroy(&shared);
	it->n_ranks = n_ranks;
	return it;
}

static inline void gather_destroy(struct gather *it)
{
	pthread_barrier_destroy(&it->barrier);
	munmap(it, sizeof *it);
}

static inline taut_status gather_all(void *context, const void *mine,
	size_t bytes, void *ret_all, struct taut_error *reterr)
{
	struct gather_rank *it = context;

	if (bytes > GATHER_BYTES)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "too long");
	memcpy(it->gather->said[it->rank], mine, bytes);
	pthread_barrier_wait(&it->gather->barrier);
	for (uint32_t i = 0; i < it->gather->n_ranks; i++)
		memcpy((char *)ret_all + i * bytes, it->gather->said[i], bytes);
	pthread_barrier_wait(&it->gather->barrier);
	return TAUT_OK;
}

#endif /* TAUT_TESTS_GATHER_H */

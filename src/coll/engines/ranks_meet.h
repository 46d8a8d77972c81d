/* ranks_meet.h - for tests: a meeting of ranks that are threads, as the contract
 * of the engines wants it. */
#ifndef TAUT_COLL_ENGINES_RANKS_MEET_H
#define TAUT_COLL_ENGINES_RANKS_MEET_H

#include "coll/coll.h"
#include "tests/support/ranks.h"

struct ranks_meet {
	uint32_t n_ranks;
	char where[64];
	struct tauti_meet *meets[RANKS_MOST];
};

static inline void *ranks_meet_begin(uint32_t n_ranks)
{
	struct ranks_meet *it = calloc(1, sizeof *it);

	assert_non_null(it);
	it->n_ranks = n_ranks;
	snprintf(it->where, sizeof it->where, "127.0.0.1:%u", ranks_free_port());
	return it;
}

static inline taut_status ranks_meet_rank(struct ranks_meet *it, uint32_t rank,
	struct taut_error *err)
{
	struct tauti_meet_options options = { rank, it->n_ranks, it->where,
		"open sesame", INT64_C(20000000000), INT64_C(20000000000), false };

	return tauti_meet_create(&options, &it->meets[rank], err);
}

static inline void ranks_meet_end(void *context)
{
	struct ranks_meet *it = context;

	for (uint32_t i = 0; i < it->n_ranks; i++)
		tauti_meet_destroy(it->meets[i]);
	free(it);
}

#endif /* TAUT_COLL_ENGINES_RANKS_MEET_H */

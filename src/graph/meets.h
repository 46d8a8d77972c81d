/* meets.h - which ranks meet in which of the operations that tell the time.
 *
 * A run of thousands of ranks has few different sets of ranks, so what two ranks
 * share is counted by sets, and of a rank only its own operations are walked.
 * Owner: the caller, by init and fini. Read-only between these. */
#ifndef TAUT_GRAPH_MEETS_H
#define TAUT_GRAPH_MEETS_H

#include "graph/graph.h"

struct tauti_meet { /* an operation of a rank */
	uint32_t coll, comm; /* index of the collective, and in the rank's comms */
};

struct tauti_meet_set { /* ranks that meet in one operation or more */
	uint32_t coll;   /* one of these */
	uint32_t weight; /* of all of them: a collective against a send/recv */
};

struct tauti_meets {
	const struct tauti_match *match;
	uint32_t *begin;         /* by rank, and one more: of meets */
	struct tauti_meet *meets; /* of each rank, by collective */
	uint32_t *set_begin;     /* by rank, and one more: of set_of */
	uint32_t *set_of;        /* sets of each rank */
	struct tauti_meet_set *sets;
	size_t n_sets;
};

/* Do the times of one rank in it say something of another's? */
bool tauti_tells_time(const struct taut_collective *c);

/* False: no memory. fini is due either way. */
bool tauti_meets_init(struct tauti_meets *meets, const struct tauti_match *match,
	uint32_t n_ranks);
void tauti_meets_fini(struct tauti_meets *meets);

/* Adds to shared[r] the weight of what rank and r share, for all r (rank, too). */
void tauti_meets_count(const struct tauti_meets *meets, uint32_t rank,
	uint32_t *shared);

#endif /* TAUT_GRAPH_MEETS_H */

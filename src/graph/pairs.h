/* pairs.h - offsets of clocks from bounds between pairs of ranks.
 * Threads: none are touched; no memory is kept. Units: microseconds. */
#ifndef TAUT_GRAPH_PAIRS_H
#define TAUT_GRAPH_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tauti_pair_bound { /* x[to] - x[from] >= low_us */
	uint32_t from, to;
	double low_us;
};

struct tauti_pairs {
	uint32_t n_ranks;
	const bool *fixed; /* x is 0: the rank is on the common clock */
	const struct tauti_pair_bound *bounds;
	size_t n_bounds;
};

/* x for every rank, and how far it may be off; INFINITY: bounded on one side
 * or not at all. Both arrays have n_ranks entries. False: no memory. */
bool tauti_pairs_solve(const struct tauti_pairs *pairs, double *ret_x_us,
	double *ret_open_us);

#endif /* TAUT_GRAPH_PAIRS_H */

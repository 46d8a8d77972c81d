/* load.h - how much was under way beside a rank: rates of its flows, summed
 * over time. Owner: arrays of malloc. */
#ifndef TAUT_REPLAY_COST_LOAD_H
#define TAUT_REPLAY_COST_LOAD_H

#include "base/vec.h"
#include "cost.h"

struct tauti_load {
	size_t *begin;  /* by rank, and one more: its changes */
	int64_t *at_ns; /* by change, in the order of time */
	double *rate;   /* from it to the next */
	double *sum;    /* up to it, in nanoseconds at rate 1 */
};

taut_status tauti_load_init(struct tauti_load *load,
	const struct taut_costs *costs, const struct tauti_flow_time *times,
	struct taut_error *err);
void tauti_load_fini(struct tauti_load *load);
/* From the beginning up to at_ns. */
double tauti_load_until(
	const struct tauti_load *load, uint32_t rank, int64_t at_ns);

#endif /* TAUT_REPLAY_COST_LOAD_H */

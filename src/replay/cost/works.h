/* works.h - operators that computed, each time that they did, and which of them
 * did the same work.
 * Threads: as taut/cost.h. Units: nanoseconds. */
#ifndef TAUT_REPLAY_COST_WORKS_H
#define TAUT_REPLAY_COST_WORKS_H

#include "load.h"

/* One operator, once: all slices of its event. */
struct tauti_instance {
	/* its work: equal in these */
	uint32_t rank, lane, name, caller, sizes, place;

	uint32_t event;
	uint32_t step; /* in graph->steps, or behind a rank's last */
	double dur;    /* ns */
	double beside; /* of transfers, ns at rate 1 */
	double busy;   /* how long there were any, ns */
};

struct tauti_instances {
	TAUT_VEC(struct tauti_instance) all; /* by work, then by event */
};

/* All of a recording, with the times of a replay. On failure there is nothing
 * to free but the vector. */
taut_status tauti_works_find(const struct taut_costs *costs,
	const struct tauti_load *load, const int64_t *start_ns,
	const int64_t *dur_ns, struct tauti_instances *instances);
/* How many from the first on did the same work as it; n of them are left. */
size_t tauti_works_same(const struct tauti_instance *first, size_t n);

#endif /* TAUT_REPLAY_COST_WORKS_H */

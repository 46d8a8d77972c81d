/* load.h - how much was under way beside a rank: rates of its flows, summed
 * over time. Owner: arrays of malloc. */
#ifndef TAUT_REPLAY_COST_LOAD_H
#define TAUT_REPLAY_COST_LOAD_H

#include "base/vec.h"
#include "cost.h"

struct tauti_spell { /* something moves from the one to the other */
	int64_t from_ns, to_ns;
	double amount; /* in it, in nanoseconds at rate 1 */
	double before; /* in the spells before it */
	int64_t before_ns; /* how long these were */
};

struct tauti_load {
	size_t *begin; /* by rank, and one more: its spells */
	struct tauti_spell *spells; /* by rank and time; no two overlap */
};

taut_status tauti_load_init(struct tauti_load *load,
	const struct taut_costs *costs, const struct tauti_flow_time *times,
	struct taut_error *err);
void tauti_load_fini(struct tauti_load *load);
/* What had moved by at_ns, and for how long something did. */
struct tauti_moved {
	double amount;
	int64_t busy_ns;
};
struct tauti_moved tauti_load_until(
	const struct tauti_load *load, uint32_t rank, int64_t at_ns);

#endif /* TAUT_REPLAY_COST_LOAD_H */

/* plan_rest.h - what a plan is without one of its decisions, predicted anew.
 *
 * Owner:   what is left lies in the arena that is handed in; texts are the plan's.
 * Threads: the predictor's. */
#ifndef TAUT_CLI_PLAN_REST_H
#define TAUT_CLI_PLAN_REST_H

#include <taut/plan.h>

/* `which` goes, and what means nothing without it. Of each decision that is left and
 * could be left out by itself, without_ns is that of this rest, and -1 where a rank
 * would then need more than memory_most bytes; 0: there is no limit. */
TAUT_NODISCARD taut_status plan_rest(struct taut_predictor *predictor,
	const struct taut_plan *plan, uint32_t which, int64_t memory_most,
	struct taut_arena *arena, struct taut_plan *ret_rest,
	struct taut_error *err);

#endif /* TAUT_CLI_PLAN_REST_H */

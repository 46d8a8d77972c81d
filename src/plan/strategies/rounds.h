/* rounds.h - an iterated local search: a good state is disturbed, what comes of that
 * is improved, and joins the good ones if it is one.
 *
 * Owner:   whoever holds the struct; the search is borrowed.
 * Threads: one at a time.
 * Errors:  TAUT_ENOMEM; TAUT_EAGAIN: the search is over. */
#ifndef TAUT_PLAN_STRATEGIES_ROUNDS_H
#define TAUT_PLAN_STRATEGIES_ROUNDS_H

#include "plan/strategies/all.h"

enum { TAUTI_GOOD_STATES = 8 };

struct tauti_good {
	struct tauti_cost cost;
	uint8_t *options;
};

struct tauti_rounds {
	struct tauti_search *search;
	struct tauti_climb climb;
	struct tauti_good good[TAUTI_GOOD_STATES]; /* by step, each another one */
	uint32_t n_good;
};

/* Begins at the present state. fini after a failed init, too. */
taut_status tauti_rounds_init(struct tauti_rounds *rounds,
	struct tauti_search *search, struct taut_error *err);
void tauti_rounds_fini(struct tauti_rounds *rounds);
/* From where the climb is, until many costs in a row brought no new best. */
taut_status tauti_rounds_run(
	struct tauti_rounds *rounds, struct taut_error *err);

#endif /* TAUT_PLAN_STRATEGIES_ROUNDS_H */

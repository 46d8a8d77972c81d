/* strategies.c - the table. */
#include "plan/strategies/all.h"

const struct tauti_strategy *const tauti_strategies[] = {
	&tauti_strategy_joint,
	&tauti_strategy_passes,
	&tauti_strategy_walk,
	&tauti_strategy_backtrack,
	&tauti_strategy_anneal,
	&tauti_strategy_exhaustive,
	NULL,
};

/* all.h - the strategies: a file each, a row each in strategies.c. */
#ifndef TAUT_PLAN_STRATEGIES_ALL_H
#define TAUT_PLAN_STRATEGIES_ALL_H

#include "plan/climb.h"

extern const struct tauti_strategy tauti_strategy_joint,
	tauti_strategy_passes, tauti_strategy_walk, tauti_strategy_backtrack,
	tauti_strategy_anneal, tauti_strategy_exhaustive;

#endif /* TAUT_PLAN_STRATEGIES_ALL_H */

/* grid.c - evenly spread over each dimension, within a budget.
 *
 * Levels are given to the dimension that has the fewest of them, as long as their
 * product is within the budget; a dimension has no more than it has values. Level
 * i of n stands in the middle of the ith of n equal parts of the values. */
#include "tune/tune.h"

static void find_levels(const struct taut_tune *t, uint32_t *levels)
{
	uint64_t points = 1;
	uint32_t budget = t->options.budget;

	for (uint32_t d = 0; d < t->n_dimensions; d++)
		levels[d] = budget ? 1 : t->n_values[d];
	while (budget) {
		uint32_t to = TAUT_NONE;

		for (uint32_t d = 0; d < t->n_dimensions; d++)
			if (levels[d] < t->n_values[d] &&
				points / levels[d] * (levels[d] + 1) <=
				budget &&
				(to == TAUT_NONE || levels[d] < levels[to]))
				to = d;
		if (to == TAUT_NONE)
			return;
		points = points / levels[to] * (levels[to] + 1);
		levels[to]++;
	}
}

static uint32_t point_at(
	const struct taut_tune *t, const uint32_t *levels, uint64_t i)
{
	uint32_t values[TAUT_TUNE_DIMENSIONS];

	for (uint32_t d = t->n_dimensions; d-- > 0;) {
		uint64_t level = i % levels[d];

		values[d] = (uint32_t)((2 * level + 1) * t->n_values[d] /
			(2 * (uint64_t)levels[d]));
		i /= levels[d];
	}
	return taut_tune_point_of(t, values);
}

static taut_status next(struct taut_tune *tune, uint32_t *ret_point,
	struct taut_error *err)
{
	uint32_t levels[TAUT_TUNE_DIMENSIONS];
	uint64_t n = 1;

	find_levels(tune, levels);
	for (uint32_t d = 0; d < tune->n_dimensions; d++)
		n *= levels[d];
	for (uint64_t i = 0; i < n; i++) {
		uint32_t point = point_at(tune, levels, i);

		if (tune->n_told[point])
			continue;
		*ret_point = point;
		return TAUT_OK;
	}
	return tauti_tune_over(err);
}

const struct tauti_strategy tauti_tune_grid = { next, tauti_tune_least };

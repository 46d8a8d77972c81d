/* tune.h - what the face and the strategies share.
 *
 *     tune.c      the face: the grid, what was told
 *     random.c, grid.c, bayes.c   a strategy each
 *     gp.c        a Gaussian process over points with coordinates
 *     scales.c    its scales, by what they make likely */
#ifndef TAUT_TUNE_TUNE_H
#define TAUT_TUNE_TUNE_H

#include <stdbool.h>

#include <taut/tune.h>

#include "base/vec.h"
#include "tune/gp.h"

struct tauti_told {
	uint32_t point;
	double y; /* logarithm of the value, less that of the prediction */
};

/* What was told, as bayes.c believes it; made anew when more is told. */
struct tauti_belief {
	bool is_there;
	struct tauti_gp gp;
	double shift; /* taken off each y: their mean */
	uint32_t best, next; /* next: TAUT_NONE: all were told */
	double best_mean, best_sd; /* of y */
	double gain;
};

struct taut_tune {
	const struct tauti_strategy *how;
	struct taut_tune_options options;
	uint32_t n_dimensions, n_points;
	uint32_t n_values[TAUT_TUNE_DIMENSIONS];
	bool is_choice[TAUT_TUNE_DIMENSIONS];
	double *place[TAUT_TUNE_DIMENSIONS]; /* by value: coordinate, 0 to 1; of
	                                        a choice its number */
	uint16_t *n_told;  /* by point */
	double *predicted; /* by point, logarithms; NULL: nothing was */
	TAUT_VEC(struct tauti_told) told;
	struct tauti_belief belief;
	struct taut_arena *arena;
};

/* A way of searching. Each is asked anew, and goes by what was told alone. */
struct tauti_strategy {
	/* Something is left. TAUT_EAGAIN: nothing is worth it. */
	taut_status (*next)(struct taut_tune *tune, uint32_t *ret_point,
		struct taut_error *err);
	/* Something was told. */
	taut_status (*best)(struct taut_tune *tune,
		struct taut_tune_best *ret_best, struct taut_error *err);
};
extern const struct tauti_strategy tauti_tune_random, tauti_tune_grid,
	tauti_tune_bayes;

/* The least mean of what was told of a point. */
taut_status tauti_tune_least(struct taut_tune *tune,
	struct taut_tune_best *ret_best, struct taut_error *err);
/* TAUT_EAGAIN. */
taut_status tauti_tune_over(struct taut_error *err);
/* The kth, from 0, that was not told. */
uint32_t tauti_tune_untold(const struct taut_tune *tune, uint32_t k);
uint32_t tauti_tune_n_untold(const struct taut_tune *tune);
/* n_dimensions numbers. */
void tauti_tune_place(
	const struct taut_tune *tune, uint32_t point, double *ret_place);
/* Of the log of a value at this point. */
static inline double tauti_tune_believed(
	const struct taut_tune *tune, uint32_t point)
{
	return tune->predicted ? tune->predicted[point] : 0;
}

/* Any 64 bits, by Steele, Lea and Flood's SplitMix (OOPSLA 2014). */
static inline uint64_t tauti_tune_mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

#endif /* TAUT_TUNE_TUNE_H */

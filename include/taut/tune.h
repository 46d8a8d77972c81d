/* taut/tune.h - the best of many points, by few measurements: a search that knows
 * nothing of what it searches.
 *
 *     create(dimensions)           a grid of points
 *     [predict(by point)]          what somebody believes of them
 *     next() -> measure -> tell()  until next() says that it is enough
 *     best()
 *
 * A point is a choice of one value of each dimension; its value, which is to be
 * small, is positive: a time. Values are compared by their logarithms, so that all
 * shares (noise, gains) are of the value itself: 0.01 is 1 %.
 *
 * RANDOM   any point that was not measured, each as likely
 * GRID     evenly spread over each dimension, as many points as the budget allows
 * BAYES    a Gaussian process is what is believed of all points, given those that
 *          were measured; next is the one with the largest expected improvement
 *          (Jones, Schonlau and Welch, J. Global Optimization 13, 1998). Where
 *          values were predicted it models the ratio of measured and predicted:
 *          the prediction's shape is its mean
 *
 * Owner:   copies all that it is given.
 * Threads: one at a time.
 * Errors:  TAUT_EINVAL of what this header does not allow, TAUT_ENOMEM; either
 *          changes nothing. The same calls give the same points. */
#ifndef TAUT_TUNE_H
#define TAUT_TUNE_H

#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>

TAUT_BEGIN_DECLS

enum {
	TAUT_TUNE_DIMENSIONS = 8,
	TAUT_TUNE_POINTS = 1 << 20, /* at most, of all dimensions together */
	TAUT_TUNE_MEASURED = 128,   /* values that are told, at most */
};

enum taut_tune_scale {
	TAUT_TUNE_LINEAR, /* values 1 and 2 are as near as 8 and 9 */
	TAUT_TUNE_LOG,    /* 1 and 2 are as near as 8 and 16 */
	TAUT_TUNE_CHOICE, /* names: each as far from each */
};

struct taut_tune_dimension {
	const char *name;
	enum taut_tune_scale scale;
	uint32_t n_values;    /* at least 1 */
	const double *values; /* rising; LOG: above 0; CHOICE: not read */
};

enum taut_tune_how { TAUT_TUNE_BAYES, TAUT_TUNE_RANDOM, TAUT_TUNE_GRID };

struct taut_tune_options { /* zero is every field's default */
	enum taut_tune_how how;
	uint64_t seed;   /* RANDOM; BAYES: of the first points, and of those that
	                    are looked at where there are very many */
	uint32_t budget; /* GRID: points; 0: all */
	uint32_t first;  /* BAYES: points measured before the model is asked; 0: 5.
	                    Where values were predicted: the best of all, and the
	                    best of each name that it has not */
	double enough;   /* BAYES: next() ends when no point is expected to give
	                    more than this share; 0: 0.002; below 0: never */
};

struct taut_tune;

TAUT_API TAUT_NODISCARD taut_status taut_tune_create(
	const struct taut_tune_dimension *dimensions, uint32_t n_dimensions,
	const struct taut_tune_options *options, struct taut_tune **ret_tune,
	struct taut_error *reterr);
TAUT_API void taut_tune_destroy(struct taut_tune *tune); /* NULL is fine */

/* Points count from 0; the last dimension's value changes first. */
TAUT_API uint32_t taut_tune_points(const struct taut_tune *tune);
/* Which value of a dimension a point has. */
TAUT_API uint32_t taut_tune_value_of(
	const struct taut_tune *tune, uint32_t point, uint32_t dimension);
/* The point with these values, one of each dimension; TAUT_NONE: there is none. */
TAUT_API uint32_t taut_tune_point_of(
	const struct taut_tune *tune, const uint32_t *values);

/* What is believed of each point, before anything is told; 0: not known. A point
 * that is not known is believed to be as those nearest to it. TAUT_EINVAL: none is
 * known, one is negative or no number, or something was told. */
TAUT_API TAUT_NODISCARD taut_status taut_tune_predict(struct taut_tune *tune,
	const double *values, struct taut_error *reterr);
/* What was predicted, or is believed from it; 0: nothing was. */
TAUT_API double taut_tune_predicted(
	const struct taut_tune *tune, uint32_t point);

/* The point to measure next, which was not told yet; the same until something is.
 * TAUT_EAGAIN: no other is worth it, or there is none. */
TAUT_API TAUT_NODISCARD taut_status taut_tune_next(struct taut_tune *tune,
	uint32_t *ret_point, struct taut_error *reterr);
/* A measurement, which may be noisy; of any point, also one told before. */
TAUT_API TAUT_NODISCARD taut_status taut_tune_tell(struct taut_tune *tune,
	uint32_t point, double value, struct taut_error *reterr);

struct taut_tune_best {
	uint32_t point;  /* of those told */
	uint32_t n_told; /* measurements of it */
	double value;    /* their mean; BAYES: what is believed in view of all */
	/* BAYES: its own value, without the noise of a measurement, is between
	 * these with 95 %. Else 0 and INFINITY: not known. */
	double low, high;
	double noise;    /* BAYES: of a measurement, as a share; else -1 */
	double gain;     /* BAYES: the largest share that another point is
	                    expected to give; 0: all were told. Else -1 */
};
/* TAUT_EAGAIN: nothing was told. */
TAUT_API TAUT_NODISCARD taut_status taut_tune_best(struct taut_tune *tune,
	struct taut_tune_best *ret_best, struct taut_error *reterr);

TAUT_END_DECLS
#endif /* TAUT_TUNE_H */

/* gp.h - a Gaussian process: what is believed of a function of some coordinates,
 * of which a few values were measured with noise.
 *
 * Values at x and x' are believed to go together as
 *
 *     k(x, x') = offset^2 + signal^2 m(r),   r^2 = sum ((x_d - x'_d) / length_d)^2
 *     m(r) = (1 + sqrt(5) r + 5/3 r^2) exp(-sqrt(5) r)
 *
 * Matern's with 5/2 (Rasmussen and Williams, Gaussian Processes for Machine
 * Learning, 2006, eq. 4.17), each dimension with a length of its own. A choice's
 * x_d - x'_d is 0 or 1: the coordinates of names, one for each, half of a root
 * apart. The offset is a mean that is not known. */
#ifndef TAUT_TUNE_GP_H
#define TAUT_TUNE_GP_H

#include <stdbool.h>

#include <taut/tune.h>

struct tauti_scales { /* standard deviations, lengths; above 0 */
	double offset, signal, noise;
	double length[TAUT_TUNE_DIMENSIONS];
};

struct tauti_gp {
	uint32_t n, n_dims;
	const bool *is_choice; /* by dimension; the caller's */
	struct tauti_scales scales;
	double *x;     /* n rows of n_dims */
	double *y;     /* n, about 0 */
	double *lower; /* n * n: L of the covariance of y, L L' */
	double *alpha; /* n: covariance^-1 y */
	double *work;  /* n */
	double log_likelihood; /* of y, given the scales */
};

/* x and y are the caller's to fill; nothing of the rest is there. */
taut_status tauti_gp_init(struct tauti_gp *gp, uint32_t n, uint32_t n_dims,
	const bool *is_choice, struct taut_error *err);
void tauti_gp_fini(struct tauti_gp *gp); /* of zero: fine */
/* Scales were set, or x or y were: all else follows. */
void tauti_gp_condition(struct tauti_gp *gp);
double tauti_gp_covariance(
	const struct tauti_gp *gp, const double *a, const double *b);
/* Mean and standard deviation of the function itself, without noise. */
void tauti_gp_at(struct tauti_gp *gp, const double *x, double *ret_mean,
	double *ret_sd);

/* The lower triangle of a, which is symmetric, n rows of n, at most
 * TAUT_TUNE_MEASURED, becomes L with L L' = a + jitter I; what is above the
 * diagonal stays. The jitter, 0 where that will do, grows until it does: of finite
 * numbers it always comes to an end. */
double tauti_cholesky(double *a, uint32_t n);
/* E max(best - Y, 0) of a normal Y. */
double tauti_expected_improvement(double mean, double sd, double best);

/* --- scales.c --------------------------------------------------------------------
 * What is believed of scales before anything is measured: normal logarithms. */
struct tauti_habit {
	double median, spread; /* spread: standard deviation of the logarithm */
};
struct tauti_habits {
	struct tauti_habit signal, noise, length, choice;
};
/* Logarithm of how likely the scales are, but for a constant. */
double tauti_scales_habit(
	const struct tauti_gp *gp, const struct tauti_habits *habits);
/* The scales that habits and y together make most likely, as far as steps of one
 * scale at a time find them; the offset stays. Conditions gp. */
void tauti_scales_find(struct tauti_gp *gp, const struct tauti_habits *habits);

#endif /* TAUT_TUNE_GP_H */

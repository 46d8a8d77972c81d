/* gp.c - a Gaussian process, by Rasmussen and Williams, algorithm 2.1. */
#include "tune/gp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

taut_status tauti_gp_init(struct tauti_gp *gp, uint32_t n, uint32_t n_dims,
	const bool *is_choice, struct taut_error *err)
{
	size_t rows = n, numbers = rows * n_dims + rows * rows + 3 * rows;
	double *all = calloc(numbers + 1, sizeof *all);

	if (!all)
		return taut_error_set(
			err, TAUT_ENOMEM, -1, "no memory for a search");
	*gp = (struct tauti_gp){ .n = n, .n_dims = n_dims,
		.is_choice = is_choice, .x = all };
	gp->y = gp->x + rows * n_dims;
	gp->lower = gp->y + rows;
	gp->alpha = gp->lower + rows * rows;
	gp->work = gp->alpha + rows;
	return TAUT_OK;
}

void tauti_gp_fini(struct tauti_gp *gp)
{
	free(gp->x);
	*gp = (struct tauti_gp){ 0 };
}

double tauti_gp_covariance(
	const struct tauti_gp *gp, const double *a, const double *b)
{
	const struct tauti_scales *s = &gp->scales;
	double square = 0, r;

	for (uint32_t d = 0; d < gp->n_dims; d++) {
		double apart = gp->is_choice[d] ? a[d] != b[d] : a[d] - b[d];

		square += apart * apart / (s->length[d] * s->length[d]);
	}
	r = sqrt(5 * square);
	return s->offset * s->offset +
		s->signal * s->signal * (1 + r + r * r / 3) * exp(-r);
}

/* --- triangles ---------------------------------------------------------------------*/

static bool factor(double *a, uint32_t n)
{
	for (uint32_t j = 0; j < n; j++) {
		double *row = a + (size_t)j * n, pivot = row[j];

		for (uint32_t k = 0; k < j; k++)
			pivot -= row[k] * row[k];
		if (!(pivot > 0))
			return false;
		row[j] = sqrt(pivot);
		for (uint32_t i = j + 1; i < n; i++) {
			double *below = a + (size_t)i * n, sum = below[j];

			for (uint32_t k = 0; k < j; k++)
				sum -= below[k] * row[k];
			below[j] = sum / row[j];
		}
	}
	return true;
}

/* The upper triangle, which factor() leaves alone, has what the lower one was. */
static void restore(double *a, uint32_t n, const double *diagonal)
{
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t j = 0; j < i; j++)
			a[(size_t)i * n + j] = a[(size_t)j * n + i];
		a[(size_t)i * n + i] = diagonal[i];
	}
}

/* A jitter of the sum of the diagonal makes any covariance positive; what is none
 * ends with ten times its largest row at the latest. */
static double with_jitter(double *a, uint32_t n, double *diagonal)
{
	double largest = 1e-300, jitter;

	for (size_t i = 0; i < (size_t)n * n; i++)
		largest = fmax(largest, fabs(a[i]));
	for (uint32_t i = 0; i < n; i++)
		diagonal[i] = a[(size_t)i * n + i];
	jitter = 0;
	while (!factor(a, n)) {
		double next = jitter > 0 ? jitter * 10 : largest * 1e-14;

		for (uint32_t i = 0; i < n; i++)
			diagonal[i] += next - jitter;
		jitter = next;
		restore(a, n, diagonal);
	}
	return jitter;
}

double tauti_cholesky(double *a, uint32_t n)
{
	double diagonal[TAUT_TUNE_MEASURED];

	return with_jitter(a, n, diagonal);
}

/* x = L^-1 x */
static void forward(const double *lower, uint32_t n, double *x)
{
	for (uint32_t i = 0; i < n; i++) {
		const double *row = lower + (size_t)i * n;
		double sum = x[i];

		for (uint32_t k = 0; k < i; k++)
			sum -= row[k] * x[k];
		x[i] = sum / row[i];
	}
}

/* x = L'^-1 x */
static void backward(const double *lower, uint32_t n, double *x)
{
	for (uint32_t i = n; i-- > 0;) {
		double sum = x[i];

		for (uint32_t k = i + 1; k < n; k++)
			sum -= lower[(size_t)k * n + i] * x[k];
		x[i] = sum / lower[(size_t)i * n + i];
	}
}

/* --- the process -------------------------------------------------------------------*/

static void fill(struct tauti_gp *gp)
{
	double noise = gp->scales.noise * gp->scales.noise;

	for (uint32_t i = 0; i < gp->n; i++)
		for (uint32_t j = 0; j <= i; j++) {
			double k = tauti_gp_covariance(gp,
				gp->x + (size_t)i * gp->n_dims,
				gp->x + (size_t)j * gp->n_dims);

			gp->lower[(size_t)j * gp->n + i] = k;
			gp->lower[(size_t)i * gp->n + j] =
				k + (i == j ? noise : 0);
		}
}

/* eq. 2.30: log p(y) = -y' alpha / 2 - sum log L_ii - n log(2 pi) / 2 */
void tauti_gp_condition(struct tauti_gp *gp)
{
	double sum = 0;

	fill(gp);
	(void)tauti_cholesky(gp->lower, gp->n);
	memcpy(gp->alpha, gp->y, gp->n * sizeof *gp->y);
	forward(gp->lower, gp->n, gp->alpha);
	for (uint32_t i = 0; i < gp->n; i++)
		sum -= gp->alpha[i] * gp->alpha[i] / 2 +
			log(gp->lower[(size_t)i * gp->n + i]) +
			log(2 * pi) / 2;
	backward(gp->lower, gp->n, gp->alpha);
	gp->log_likelihood = sum;
}

/* eq. 2.25 and 2.26 */
void tauti_gp_at(struct tauti_gp *gp, const double *x, double *ret_mean,
	double *ret_sd)
{
	double mean = 0, variance = tauti_gp_covariance(gp, x, x);

	for (uint32_t i = 0; i < gp->n; i++) {
		gp->work[i] = tauti_gp_covariance(
			gp, x, gp->x + (size_t)i * gp->n_dims);
		mean += gp->work[i] * gp->alpha[i];
	}
	forward(gp->lower, gp->n, gp->work);
	for (uint32_t i = 0; i < gp->n; i++)
		variance -= gp->work[i] * gp->work[i];
	*ret_mean = mean;
	*ret_sd = sqrt(fmax(variance, 0));
}

/* Jones, Schonlau and Welch 1998, eq. 15 */
double tauti_expected_improvement(double mean, double sd, double best)
{
	double z, gain;

	if (!(sd > 0))
		return fmax(best - mean, 0);
	z = (best - mean) / sd;
	gain = (best - mean) * erfc(-z / sqrt(2)) / 2 +
		sd * exp(-z * z / 2) / sqrt(2 * pi);
	return fmax(gain, 0);
}

/* The Gaussian process against closed forms: one and two points by hand, the
 * likelihood by determinants, expected improvement by integration. */
#include "tests/support/unit.h"

#include <math.h>

#include "tests/support/alloc_fail.h"
#include "tune/gp.h"

static const double pi = 3.14159265358979323846;
static const bool plain[TAUT_TUNE_DIMENSIONS];

static void expect_near(double found, double expected, double within)
{
	if (!(fabs(found - expected) <= within * fmax(1, fabs(expected))))
		fail_msg("found %.17g, expected %.17g", found, expected);
}

static double matern(double r)
{
	double a = sqrt(5) * r;

	return (1 + a + 5 * r * r / 3) * exp(-a);
}

static void begin(struct tauti_gp *gp, uint32_t n, uint32_t n_dims,
	const bool *is_choice)
{
	assert_int_equal(tauti_gp_init(gp, n, n_dims, is_choice, NULL), TAUT_OK);
	gp->scales = (struct tauti_scales){ .offset = 0.7, .signal = 1.3,
		.noise = 0.2 };
	for (uint32_t d = 0; d < n_dims; d++)
		gp->scales.length[d] = 0.4 + 0.3 * d;
}

/* --- the covariance ---------------------------------------------------------------*/

static void test_covariance(void **state)
{
	const bool second[] = { false, true };
	const double a[] = { 0.1, 2 }, b[] = { 0.5, 2 }, c[] = { 0.5, 0 };
	struct tauti_gp gp;

	(void)state;
	begin(&gp, 0, 2, second);
	expect_near(tauti_gp_covariance(&gp, a, a), 0.49 + 1.69, 1e-14);
	expect_near(tauti_gp_covariance(&gp, a, b), 0.49 + 1.69 * matern(1),
		1e-14);
	expect_near(tauti_gp_covariance(&gp, a, c),
		0.49 + 1.69 * matern(sqrt(1 + 1 / 0.49)), 1e-14);
	expect_near(tauti_gp_covariance(&gp, b, c),
		0.49 + 1.69 * matern(1 / 0.7), 1e-14);
	tauti_gp_fini(&gp);
}

/* --- what is believed ------------------------------------------------------------*/

/* One measurement: mean k y / (k0 + n), variance k0 - k^2 / (k0 + n). */
static void test_one(void **state)
{
	const double k0 = 0.49 + 1.69, n = 0.04, y = 0.8, at[] = { 0.9 };
	double k = 0.49 + 1.69 * matern(0.6 / 0.4), mean, sd;
	struct tauti_gp gp;

	(void)state;
	begin(&gp, 1, 1, plain);
	gp.x[0] = 0.3;
	gp.y[0] = y;
	tauti_gp_condition(&gp);
	tauti_gp_at(&gp, at, &mean, &sd);
	expect_near(mean, k * y / (k0 + n), 1e-13);
	expect_near(sd * sd, k0 - k * k / (k0 + n), 1e-13);
	expect_near(gp.log_likelihood, -y * y / (2 * (k0 + n)) -
		log(2 * pi * (k0 + n)) / 2, 1e-13);
	tauti_gp_fini(&gp);
}

/* Two, by the inverse of a matrix of two rows. */
static void test_two(void **state)
{
	const double y[] = { 0.5, -0.2 }, at[] = { 0.25, 0.75 };
	const double rows[] = { 0, 0, 0.4, 1.4 };
	const double d = 0.49 + 1.69 + 0.04;
	double c, k[2], det, mean, sd;
	struct tauti_gp gp;

	(void)state;
	begin(&gp, 2, 2, plain);
	for (int i = 0; i < 4; i++)
		gp.x[i] = rows[i];
	gp.y[0] = y[0];
	gp.y[1] = y[1];
	tauti_gp_condition(&gp);
	tauti_gp_at(&gp, at, &mean, &sd);
	c = tauti_gp_covariance(&gp, rows, rows + 2);
	expect_near(c, 0.49 + 1.69 * matern(sqrt(1 + 4)), 1e-14);
	for (int i = 0; i < 2; i++)
		k[i] = tauti_gp_covariance(&gp, at, rows + 2 * i);
	det = d * d - c * c;
	expect_near(mean, (k[0] * (d * y[0] - c * y[1]) +
		k[1] * (d * y[1] - c * y[0])) / det, 1e-12);
	expect_near(sd * sd, 0.49 + 1.69 - (d * k[0] * k[0] + d * k[1] * k[1] -
		2 * c * k[0] * k[1]) / det, 1e-12);
	expect_near(gp.log_likelihood, -(d * y[0] * y[0] + d * y[1] * y[1] -
		2 * c * y[0] * y[1]) / det / 2 - log(det) / 2 - log(2 * pi),
		1e-12);
	tauti_gp_fini(&gp);
}

/* Far from all, it is what it was before; at a point without noise, what was
 * measured. */
static void test_ends(void **state)
{
	const double far[] = { 1e3 }, near[] = { 0.3 };
	double mean, sd;
	struct tauti_gp gp;

	(void)state;
	begin(&gp, 1, 1, plain);
	gp.scales.offset = 1e-9;
	gp.scales.noise = 1e-9;
	gp.x[0] = near[0];
	gp.y[0] = -0.4;
	tauti_gp_condition(&gp);
	tauti_gp_at(&gp, far, &mean, &sd);
	expect_near(mean, 0, 1e-12);
	expect_near(sd, 1.3, 1e-12);
	tauti_gp_at(&gp, near, &mean, &sd);
	expect_near(mean, -0.4, 1e-12);
	assert_true(sd < 1e-6);
	tauti_gp_fini(&gp);
}

/* --- the likelihood by elimination ------------------------------------------------*/

enum { N = 6 };

/* Determinant of a and the solution of a x = y, by Gauss with pivots: another way
 * than the one that is tested. */
static double eliminate(double a[N][N], double *y)
{
	double det = 1;

	for (int i = 0; i < N; i++) {
		int p = i;

		for (int r = i + 1; r < N; r++)
			if (fabs(a[r][i]) > fabs(a[p][i]))
				p = r;
		for (int c = 0; c < N; c++) {
			double t = a[i][c];

			a[i][c] = a[p][c];
			a[p][c] = t;
		}
		det *= p == i ? a[i][i] : -a[i][i];
		double t = y[i];

		y[i] = y[p];
		y[p] = t;
		for (int r = 0; r < N; r++) {
			double f = r == i ? 0 : a[r][i] / a[i][i];

			for (int c = i; c < N; c++)
				a[r][c] -= f * a[i][c];
			y[r] -= f * y[i];
		}
	}
	for (int i = 0; i < N; i++)
		y[i] /= a[i][i];
	return det;
}

static void test_likelihood(void **state)
{
	double a[N][N], solved[N], square = 0, det;
	struct tauti_gp gp;

	(void)state;
	begin(&gp, N, 2, plain);
	for (int i = 0; i < N; i++) {
		gp.x[2 * i] = i * 0.17;
		gp.x[2 * i + 1] = (i * i % 5) * 0.2;
		gp.y[i] = solved[i] = sin(1.7 * i);
	}
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++)
			a[i][j] = tauti_gp_covariance(&gp, gp.x + 2 * i,
				gp.x + 2 * j) + (i == j ? 0.04 : 0);
	det = eliminate(a, solved);
	for (int i = 0; i < N; i++)
		square += gp.y[i] * solved[i];
	tauti_gp_condition(&gp);
	expect_near(gp.log_likelihood, -square / 2 - log(det) / 2 -
		N * log(2 * pi) / 2, 1e-11);
	for (int i = 0; i < N; i++)
		expect_near(gp.alpha[i], solved[i], 1e-10);
	tauti_gp_fini(&gp);
}

/* --- the triangle -----------------------------------------------------------------*/

static void test_cholesky(void **state)
{
	/* L = 2 0 0, 6 1 0, -8 5 3 */
	double a[] = { 4, 12, -16, 12, 37, -43, -16, -43, 98 };
	double same[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 };
	double none[] = { -2, 5, 5, 1 }, zero[] = { 0, 0, 0, 0 };

	(void)state;
	assert_true(tauti_cholesky(a, 3) == 0);
	expect_near(a[0], 2, 1e-14);
	expect_near(a[3], 6, 1e-14);
	expect_near(a[4], 1, 1e-13);
	expect_near(a[6], -8, 1e-14);
	expect_near(a[7], 5, 1e-13);
	expect_near(a[8], 3, 1e-13);
	/* One point three times: singular. */
	assert_true(tauti_cholesky(same, 3) < 1e-10);
	assert_true(same[8] > 0 && isfinite(same[8]));
	expect_near(same[6], 1, 1e-10);
	/* No covariance at all, and yet an end. */
	assert_true(tauti_cholesky(none, 2) > 2);
	assert_true(isfinite(none[0]) && isfinite(none[2]) && none[3] > 0);
	assert_true(tauti_cholesky(zero, 2) > 0);
	assert_true(zero[0] > 0 && zero[3] > 0);
}

/* --- expected improvement ---------------------------------------------------------*/

/* Simpson's rule over max(best - y, 0) times the density, from ten deviations
 * below to where it is 0. */
static double integrated(double mean, double sd, double best)
{
	enum { PARTS = 20000 };
	double from = mean - 12 * sd, h = (best - from) / PARTS, sum = 0;

	if (best <= from)
		return 0;
	for (int i = 0; i <= PARTS; i++) {
		double y = from + i * h, z = (y - mean) / sd;
		double f = (best - y) * exp(-z * z / 2) /
			(sd * sqrt(2 * pi));

		sum += f * (i == 0 || i == PARTS ? 1 : i % 2 ? 4 : 2);
	}
	return sum * h / 3;
}

static void test_improvement(void **state)
{
	const double sds[] = { 0.001, 0.1, 1, 30 };

	(void)state;
	for (int s = 0; s < 4; s++)
		for (double z = -5; z <= 5; z += 0.5)
			expect_near(tauti_expected_improvement(
				2 - z * sds[s], sds[s], 2) / sds[s],
				integrated(2 - z * sds[s], sds[s], 2) / sds[s],
				1e-9);
	expect_near(tauti_expected_improvement(1, 1, 1), 1 / sqrt(2 * pi), 1e-14);
	assert_true(tauti_expected_improvement(1, 0, 3) == 2);
	assert_true(tauti_expected_improvement(3, 0, 1) == 0);
	assert_true(tauti_expected_improvement(100, 1, 0) >= 0);
}

/* --- scales -----------------------------------------------------------------------*/

static const struct tauti_habits wide = { { 1, 3 }, { 0.1, 3 }, { 0.5, 3 },
	{ 1, 3 } };

/* No step of one scale makes them more likely; a dimension that is of no matter
 * gets a longer length than the one that is. */
static void test_scales(void **state)
{
	struct tauti_gp gp;
	double most;

	(void)state;
	begin(&gp, 40, 2, plain);
	for (int i = 0; i < 40; i++) {
		gp.x[2 * i] = i * 7 % 40 / 40.0;
		gp.x[2 * i + 1] = i * 11 % 40 / 40.0;
		gp.y[i] = sin(9 * gp.x[2 * i]);
	}
	tauti_scales_find(&gp, &wide);
	assert_true(gp.scales.length[1] > 4 * gp.scales.length[0]);
	assert_true(gp.scales.noise < 0.05);
	most = gp.log_likelihood + tauti_scales_habit(&gp, &wide);
	for (int i = 0; i < 2; i++) {
		struct tauti_scales kept = gp.scales;

		gp.scales.length[0] *= i ? 2 : 0.5;
		tauti_gp_condition(&gp);
		assert_true(gp.log_likelihood +
			tauti_scales_habit(&gp, &wide) <= most + 1e-6);
		gp.scales = kept;
	}
	tauti_gp_fini(&gp);
}

static void test_no_memory(void **state)
{
	struct tauti_gp gp = { 0 };
	struct taut_error err;

	(void)state;
	alloc_fail_after(0);
	assert_int_equal(tauti_gp_init(&gp, 3, 2, plain, &err), TAUT_ENOMEM);
	alloc_fail_never();
	tauti_gp_fini(&gp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_covariance),
		cmocka_unit_test(test_one),
		cmocka_unit_test(test_two),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_likelihood),
		cmocka_unit_test(test_cholesky),
		cmocka_unit_test(test_improvement),
		cmocka_unit_test(test_scales),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

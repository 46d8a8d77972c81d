/* The face: points, what is refused, each strategy's promises. */
#include "tests/support/unit.h"

#include <math.h>
#include <string.h>

#include <taut/tune.h>

#include "tests/support/alloc_fail.h"

static const double sizes[] = { 1, 2, 4, 8, 16, 32 };
static const double few[] = { 1, 2, 3, 4 };
static const struct taut_tune_dimension dimensions[] = {
	{ "size", TAUT_TUNE_LOG, 6, sizes },
	{ "way", TAUT_TUNE_CHOICE, 3, NULL },
	{ "few", TAUT_TUNE_LINEAR, 4, few },
};
enum { POINTS = 6 * 3 * 4 };

static struct taut_tune *make(struct taut_tune_options options)
{
	struct taut_tune *tune;

	assert_int_equal(taut_tune_create(dimensions, 3, &options, &tune, NULL),
		TAUT_OK);
	return tune;
}

/* 100 at size 8, way 1 and 2 of few; more at all others. */
static double value_at(const struct taut_tune *t, uint32_t point)
{
	double size = taut_tune_value_of(t, point, 0);
	uint32_t way = taut_tune_value_of(t, point, 1);
	double last = taut_tune_value_of(t, point, 2);

	return 100 + 3 * (size - 3) * (size - 3) + (way == 1 ? 0 : 20) +
		2 * (last - 1) * (last - 1);
}

static void test_points(void **state)
{
	struct taut_tune *t = make((struct taut_tune_options){ 0 });

	(void)state;
	assert_int_equal(taut_tune_points(t), POINTS);
	for (uint32_t i = 0; i < POINTS; i++) {
		uint32_t values[3] = { taut_tune_value_of(t, i, 0),
			taut_tune_value_of(t, i, 1),
			taut_tune_value_of(t, i, 2) };

		assert_int_equal(taut_tune_point_of(t, values), i);
		assert_int_equal(i, (values[0] * 3 + values[1]) * 4 + values[2]);
	}
	assert_int_equal(taut_tune_point_of(t, (uint32_t[]){ 0, 3, 0 }),
		TAUT_NONE);
	assert_true(taut_tune_predicted(t, 5) == 0);
	taut_tune_destroy(t);
	taut_tune_destroy(NULL);
}

/* --- what is refused ----------------------------------------------------------------*/

static void refuse(const struct taut_tune_dimension *d, uint32_t n,
	const char *expected)
{
	struct taut_tune_options options = { 0 };
	struct taut_tune *tune = NULL;
	struct taut_error err;

	assert_int_equal(taut_tune_create(d, n, &options, &tune, &err),
		TAUT_EINVAL);
	assert_null(tune);
	assert_non_null(strstr(err.message, expected));
}

static void test_refused(void **state)
{
	const double falls[] = { 2, 1 }, none[] = { 0, 1 }, nan[] = { NAN };
	const double wide[] = { -1e308, 0, 1e308 };
	struct taut_tune_dimension d = { "d", TAUT_TUNE_LINEAR, 2, falls };
	struct taut_tune_dimension many[2] = {
		{ "a", TAUT_TUNE_CHOICE, 2000, NULL },
		{ "b", TAUT_TUNE_CHOICE, 2000, NULL } };

	(void)state;
	refuse(&d, 1, "rise");
	d.values = wide;
	d.n_values = 3;
	refuse(&d, 1, "further apart");
	d.values = none;
	d.n_values = 2;
	d.scale = TAUT_TUNE_LOG;
	refuse(&d, 1, "rise");
	d.values = nan;
	d.n_values = 1;
	refuse(&d, 1, "rise");
	d.values = NULL;
	refuse(&d, 1, "values");
	d.n_values = 0;
	refuse(&d, 1, "value");
	refuse(&d, 0, "dimensions");
	refuse(many, 2, "too many");
}

static void test_told(void **state)
{
	struct taut_tune *t = make((struct taut_tune_options){ 0 });
	const double values[] = { 0, -1, NAN, INFINITY };
	double predicted[POINTS] = { 0 };
	struct taut_tune_best best;
	struct taut_error err;

	(void)state;
	assert_int_equal(taut_tune_best(t, &best, &err), TAUT_EAGAIN);
	for (int i = 0; i < 4; i++)
		assert_int_equal(taut_tune_tell(t, 0, values[i], &err),
			TAUT_EINVAL);
	assert_int_equal(taut_tune_tell(t, POINTS, 1, &err), TAUT_EINVAL);
	assert_int_equal(taut_tune_predict(t, predicted, &err), TAUT_EINVAL);
	predicted[3] = NAN;
	assert_int_equal(taut_tune_predict(t, predicted, &err), TAUT_EINVAL);
	assert_int_equal(taut_tune_tell(t, 0, 1, &err), TAUT_OK);
	predicted[3] = 1;
	assert_int_equal(taut_tune_predict(t, predicted, &err), TAUT_EINVAL);
	for (int i = 1; i < TAUT_TUNE_MEASURED; i++)
		assert_int_equal(taut_tune_tell(t, 0, 1, &err), TAUT_OK);
	assert_int_equal(taut_tune_tell(t, 0, 1, &err), TAUT_EINVAL);
	taut_tune_destroy(t);
}

/* --- strategies ---------------------------------------------------------------------*/

/* Until it ends, or all were tried: each point once. The best is the least. */
static uint32_t run(struct taut_tune *t, uint32_t most)
{
	uint8_t seen[POINTS] = { 0 };
	double least = INFINITY;
	struct taut_tune_best best;
	uint32_t point, again, n = 0;

	while (n < most && !taut_tune_next(t, &point, NULL)) {
		assert_int_equal(taut_tune_next(t, &again, NULL), TAUT_OK);
		assert_int_equal(point, again);
		assert_true(point < POINTS && !seen[point]);
		seen[point] = 1;
		least = fmin(least, value_at(t, point));
		assert_int_equal(taut_tune_tell(t, point, value_at(t, point),
			NULL), TAUT_OK);
		n++;
	}
	assert_int_equal(taut_tune_best(t, &best, NULL), TAUT_OK);
	assert_true(fabs(value_at(t, best.point) - least) < 1e-9);
	assert_int_equal(best.n_told, 1);
	return n;
}

static void test_all(void **state)
{
	(void)state;
	for (int how = 0; how < 3; how++) {
		struct taut_tune *t = make((struct taut_tune_options){
			.how = (enum taut_tune_how)how, .enough = -1 });

		assert_int_equal(run(t, POINTS + 1), POINTS);
		taut_tune_destroy(t);
	}
}

/* 12 of 6 x 3 x 4: levels 3, 2 and 2, in the middle of their parts. */
static void test_grid(void **state)
{
	struct taut_tune *t = make((struct taut_tune_options){
		.how = TAUT_TUNE_GRID, .budget = 12 });
	uint32_t n_of[6] = { 0 }, point;

	(void)state;
	assert_int_equal(taut_tune_next(t, &point, NULL), TAUT_OK);
	assert_int_equal(taut_tune_value_of(t, point, 0), 1);
	assert_int_equal(taut_tune_value_of(t, point, 1), 0);
	assert_int_equal(taut_tune_value_of(t, point, 2), 1);
	while (!taut_tune_next(t, &point, NULL)) {
		n_of[taut_tune_value_of(t, point, 0)]++;
		assert_int_equal(taut_tune_tell(t, point, 1, NULL), TAUT_OK);
	}
	assert_int_equal(n_of[1], 4);
	assert_int_equal(n_of[3], 4);
	assert_int_equal(n_of[5], 4);
	taut_tune_destroy(t);
}

/* Of two points, each comes first about as often; seeds repeat. */
static void test_random(void **state)
{
	const struct taut_tune_dimension d = { "d", TAUT_TUNE_CHOICE, 2, NULL };
	uint32_t n = 0, point;

	(void)state;
	for (uint64_t seed = 0; seed < 400; seed++) {
		struct taut_tune_options o = { .how = TAUT_TUNE_RANDOM,
			.seed = seed };
		struct taut_tune *t;

		assert_int_equal(taut_tune_create(&d, 1, &o, &t, NULL), TAUT_OK);
		assert_int_equal(taut_tune_next(t, &point, NULL), TAUT_OK);
		n += point;
		taut_tune_destroy(t);
	}
	assert_true(n > 150 && n < 250); /* five deviations */
}

/* A smooth valley: found, and known to be found, before half of it was tried. */
static void test_bayes(void **state)
{
	struct taut_tune *t = make((struct taut_tune_options){ 0 });
	struct taut_tune_best best;
	uint32_t n = run(t, POINTS);

	(void)state;
	assert_true(n < POINTS / 2);
	assert_int_equal(taut_tune_best(t, &best, NULL), TAUT_OK);
	assert_int_equal(best.point, (3 * 3 + 1) * 4 + 1);
	assert_true(best.low <= 100 && best.high >= 100);
	assert_true(best.gain >= 0 && best.gain < 0.002);
	taut_tune_destroy(t);
}

/* A prediction that is right but for a factor: its best comes first, and little
 * else is tried. */
static void test_predicted(void **state)
{
	struct taut_tune *t = make((struct taut_tune_options){ 0 });
	double values[POINTS];
	uint32_t point;

	(void)state;
	for (uint32_t i = 0; i < POINTS; i++)
		values[i] = 0.7 * value_at(t, i);
	values[5] = 0; /* not known: as the next size, which is nearest */
	assert_int_equal(taut_tune_predict(t, values, NULL), TAUT_OK);
	assert_true(fabs(taut_tune_predicted(t, 7) - values[7]) < 1e-9);
	assert_true(fabs(taut_tune_predicted(t, 5) - values[17]) < 1e-9);
	assert_int_equal(taut_tune_next(t, &point, NULL), TAUT_OK);
	assert_int_equal(point, (3 * 3 + 1) * 4 + 1);
	assert_true(run(t, POINTS) <= 12);
	taut_tune_destroy(t);
}

/* A point whose one measurement was lucky does not win against one that was
 * measured often. */
static void test_noise(void **state)
{
	const struct taut_tune_dimension d = { "d", TAUT_TUNE_CHOICE, 2, NULL };
	const double often[] = { 98, 101, 99, 102, 100, 98, 102, 100 };
	const double other[] = { 97.9, 112, 115, 110, 114, 113, 112, 111 };
	struct taut_tune_options o = { 0 };
	struct taut_tune_best best;
	struct taut_tune *t;

	(void)state;
	assert_int_equal(taut_tune_create(&d, 1, &o, &t, NULL), TAUT_OK);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(taut_tune_tell(t, 0, often[i], NULL), TAUT_OK);
		assert_int_equal(taut_tune_tell(t, 1, other[i], NULL), TAUT_OK);
	}
	assert_int_equal(taut_tune_best(t, &best, NULL), TAUT_OK);
	assert_int_equal(best.point, 0);
	assert_int_equal(best.n_told, 8);
	assert_true(best.noise > 0.01 && best.noise < 0.1);
	assert_true(best.low < 100 && best.high > 100 && best.gain == 0);
	taut_tune_destroy(t);
}

/* --- memory -------------------------------------------------------------------------*/

static taut_status all_of(void)
{
	struct taut_tune_options o = { .enough = -1 };
	double values[POINTS];
	struct taut_tune_best best;
	struct taut_tune *t;
	uint32_t point;
	taut_status status = taut_tune_create(dimensions, 3, &o, &t, NULL);

	if (status)
		return status;
	for (uint32_t i = 0; i < POINTS; i++)
		values[i] = value_at(t, i);
	status = taut_tune_predict(t, values, NULL);
	for (int i = 0; !status && i < 10; i++) {
		status = taut_tune_next(t, &point, NULL);
		if (!status)
			status = taut_tune_tell(t, point, values[point], NULL);
	}
	if (!status)
		status = taut_tune_best(t, &best, NULL);
	taut_tune_destroy(t);
	return status;
}

static void test_no_memory(void **state)
{
	long n = 0;
	taut_status status;

	(void)state;
	do {
		alloc_fail_after(n++);
		status = all_of();
		alloc_fail_never();
		assert_true(!status || status == TAUT_ENOMEM);
	} while (status);
	assert_true(n > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_points),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_told),
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_grid),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_bayes),
		cmocka_unit_test(test_predicted),
		cmocka_unit_test(test_noise),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

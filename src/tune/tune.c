/* tune.c - the face of a search: its grid, and what was told. */
#include "tune/tune.h"

#include <math.h>
#include <stdlib.h>

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for a search");
}

taut_status tauti_tune_over(struct taut_error *err)
{
	return taut_error_set(err, TAUT_EAGAIN, -1,
		"no other point is worth a measurement");
}

/* --- dimensions ---------------------------------------------------------------------*/

static taut_status wrong(const struct taut_tune_dimension *d, const char *what,
	struct taut_error *err)
{
	return taut_error_set(err, TAUT_EINVAL, -1,
		"a search: dimension %s: expected %s", d->name ? d->name : "?",
		what);
}

static taut_status check_values(
	const struct taut_tune_dimension *d, struct taut_error *err)
{
	if ((unsigned)d->scale > TAUT_TUNE_CHOICE || !d->n_values)
		return wrong(d, "a scale, and a value or more", err);
	if (d->scale == TAUT_TUNE_CHOICE)
		return TAUT_OK;
	if (!d->values)
		return wrong(d, "values", err);
	for (uint32_t i = 0; i < d->n_values; i++)
		if (!isfinite(d->values[i]) ||
			(i && d->values[i] <= d->values[i - 1]) ||
			(d->scale == TAUT_TUNE_LOG && d->values[i] <= 0))
			return wrong(d, "values that rise, of a logarithmic "
				"scale above 0", err);
	if (!isfinite(d->values[d->n_values - 1] - d->values[0]))
		return wrong(d, "values that are no further apart than a "
			"number can say", err);
	return TAUT_OK;
}

static double measure_of(const struct taut_tune_dimension *d, uint32_t i)
{
	return d->scale == TAUT_TUNE_LOG ? log(d->values[i]) : d->values[i];
}

static void place_values(const struct taut_tune_dimension *d, double *place)
{
	double first, all;

	if (d->scale == TAUT_TUNE_CHOICE) {
		for (uint32_t i = 0; i < d->n_values; i++)
			place[i] = i;
		return;
	}
	first = measure_of(d, 0);
	all = measure_of(d, d->n_values - 1) - first;
	for (uint32_t i = 0; i < d->n_values; i++)
		place[i] = all > 0 ? (measure_of(d, i) - first) / all : 0;
}

static taut_status add_dimensions(struct taut_tune *t,
	const struct taut_tune_dimension *dimensions, uint32_t n,
	struct taut_error *err)
{
	uint64_t points = 1;

	if (!n || n > TAUT_TUNE_DIMENSIONS)
		return taut_error_set(err, TAUT_EINVAL, -1, "a search: expected "
			"1 to %d dimensions, found %u", TAUT_TUNE_DIMENSIONS, n);
	for (uint32_t d = 0; d < n; d++) {
		taut_status status = check_values(&dimensions[d], err);

		if (status)
			return status;
		points *= dimensions[d].n_values;
		if (points > TAUT_TUNE_POINTS)
			return wrong(&dimensions[d], "fewer values: there are "
				"too many points", err);
		t->n_values[d] = dimensions[d].n_values;
		t->is_choice[d] = dimensions[d].scale == TAUT_TUNE_CHOICE;
		t->place[d] = TAUT_ARENA_ARRAY(
			t->arena, double, dimensions[d].n_values);
		if (!t->place[d])
			return no_memory(err);
		place_values(&dimensions[d], t->place[d]);
	}
	t->n_dimensions = n;
	t->n_points = (uint32_t)points;
	t->n_told = TAUT_ARENA_ARRAY(t->arena, uint16_t, t->n_points);
	return t->n_told ? TAUT_OK : no_memory(err);
}

/* --- life ---------------------------------------------------------------------------*/

taut_status taut_tune_create(const struct taut_tune_dimension *dimensions,
	uint32_t n_dimensions, const struct taut_tune_options *options,
	struct taut_tune **ret_tune, struct taut_error *reterr)
{
	static const struct tauti_strategy *const strategies[] = {
		[TAUT_TUNE_BAYES] = &tauti_tune_bayes,
		[TAUT_TUNE_RANDOM] = &tauti_tune_random,
		[TAUT_TUNE_GRID] = &tauti_tune_grid,
	};
	struct taut_tune *t;
	taut_status status;

	if ((unsigned)options->how > TAUT_TUNE_GRID || isnan(options->enough))
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"a search: there is no such strategy");
	t = calloc(1, sizeof *t);
	if (!t)
		return no_memory(reterr);
	t->options = *options;
	t->how = strategies[options->how];
	t->arena = taut_arena_create();
	status = t->arena ? add_dimensions(t, dimensions, n_dimensions,
		reterr) : no_memory(reterr);
	if (status)
		taut_tune_destroy(t);
	else
		*ret_tune = t;
	return status;
}

void taut_tune_destroy(struct taut_tune *tune)
{
	if (!tune)
		return;
	tauti_gp_fini(&tune->belief.gp);
	taut_vec_free(&tune->told);
	taut_arena_destroy(tune->arena);
	free(tune);
}

/* --- points -------------------------------------------------------------------------*/

uint32_t taut_tune_points(const struct taut_tune *tune)
{
	return tune->n_points;
}

uint32_t taut_tune_value_of(
	const struct taut_tune *tune, uint32_t point, uint32_t dimension)
{
	for (uint32_t d = tune->n_dimensions; d-- > dimension + 1;)
		point /= tune->n_values[d];
	return point % tune->n_values[dimension];
}

uint32_t taut_tune_point_of(
	const struct taut_tune *tune, const uint32_t *values)
{
	uint32_t point = 0;

	for (uint32_t d = 0; d < tune->n_dimensions; d++) {
		if (values[d] >= tune->n_values[d])
			return TAUT_NONE;
		point = point * tune->n_values[d] + values[d];
	}
	return point;
}

void tauti_tune_place(
	const struct taut_tune *tune, uint32_t point, double *ret_place)
{
	for (uint32_t d = tune->n_dimensions; d-- > 0;) {
		ret_place[d] = tune->place[d][point % tune->n_values[d]];
		point /= tune->n_values[d];
	}
}

uint32_t tauti_tune_n_untold(const struct taut_tune *tune)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < tune->n_points; i++)
		n += !tune->n_told[i];
	return n;
}

uint32_t tauti_tune_untold(const struct taut_tune *tune, uint32_t k)
{
	for (uint32_t i = 0; i < tune->n_points; i++)
		if (!tune->n_told[i] && !k--)
			return i;
	return TAUT_NONE;
}

/* --- predictions --------------------------------------------------------------------*/

static double apart(const struct taut_tune *t, const double *a, const double *b)
{
	double square = 0;

	for (uint32_t d = 0; d < t->n_dimensions; d++) {
		double by = t->is_choice[d] ? a[d] != b[d] : a[d] - b[d];

		square += by * by;
	}
	return square;
}

/* The mean of those that are nearest, of which there may be several. */
static double of_neighbours(
	const struct taut_tune *t, const double *values, uint32_t point)
{
	double here[TAUT_TUNE_DIMENSIONS], there[TAUT_TUNE_DIMENSIONS];
	double least = INFINITY, sum = 0;
	uint32_t n = 0;

	tauti_tune_place(t, point, here);
	for (uint32_t i = 0; i < t->n_points; i++) {
		double by;

		if (!(values[i] > 0))
			continue;
		tauti_tune_place(t, i, there);
		by = apart(t, here, there);
		if (by < least - 1e-12) {
			least = by;
			sum = n = 0;
		}
		if (by <= least + 1e-12) {
			sum += log(values[i]);
			n++;
		}
	}
	return sum / n;
}

taut_status taut_tune_predict(struct taut_tune *tune, const double *values,
	struct taut_error *reterr)
{
	double *logs;
	uint32_t n = 0;

	for (uint32_t i = 0; i < tune->n_points; i++) {
		if (!isfinite(values[i]) || values[i] < 0)
			return taut_error_set(reterr, TAUT_EINVAL, -1,
				"a search: %g is predicted for point %u: "
				"expected 0 or more", values[i], i);
		n += values[i] > 0;
	}
	if (!n || tune->told.count)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "a search: "
			"expected a prediction, before anything is measured");
	logs = TAUT_ARENA_ARRAY(tune->arena, double, tune->n_points);
	if (!logs)
		return no_memory(reterr);
	for (uint32_t i = 0; i < tune->n_points; i++)
		logs[i] = values[i] > 0 ? log(values[i]) :
			of_neighbours(tune, values, i);
	tune->predicted = logs;
	return TAUT_OK;
}

double taut_tune_predicted(const struct taut_tune *tune, uint32_t point)
{
	return tune->predicted ? exp(tune->predicted[point]) : 0;
}

/* --- measurements -------------------------------------------------------------------*/

taut_status taut_tune_next(struct taut_tune *tune, uint32_t *ret_point,
	struct taut_error *reterr)
{
	if (tune->told.count >= TAUT_TUNE_MEASURED ||
		!tauti_tune_n_untold(tune))
		return tauti_tune_over(reterr);
	return tune->how->next(tune, ret_point, reterr);
}

taut_status taut_tune_tell(struct taut_tune *tune, uint32_t point, double value,
	struct taut_error *reterr)
{
	struct tauti_told told = { point, 0 };

	if (point >= tune->n_points || !isfinite(value) || value <= 0)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "a search: %g "
			"was measured at point %u of %u: expected more than 0",
			value, point, tune->n_points);
	if (tune->told.count >= TAUT_TUNE_MEASURED)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "a search: "
			"expected at most %d measurements", TAUT_TUNE_MEASURED);
	told.y = log(value) - tauti_tune_believed(tune, point);
	if (!taut_vec_push(&tune->told, told))
		return no_memory(reterr);
	tune->n_told[point]++;
	tune->belief.is_there = false;
	return TAUT_OK;
}

static double mean_of(const struct taut_tune *t, uint32_t point)
{
	double sum = 0;

	for (size_t i = 0; i < t->told.count; i++)
		if (t->told.data[i].point == point)
			sum += t->told.data[i].y;
	return sum / t->n_told[point] + tauti_tune_believed(t, point);
}

taut_status tauti_tune_least(struct taut_tune *tune,
	struct taut_tune_best *ret_best, struct taut_error *err)
{
	double least = INFINITY;

	(void)err;
	*ret_best = (struct taut_tune_best){ .high = INFINITY, .noise = -1,
		.gain = -1 };
	for (size_t i = 0; i < tune->told.count; i++) {
		uint32_t point = tune->told.data[i].point;
		double mean = mean_of(tune, point);

		if (mean >= least)
			continue;
		least = mean;
		ret_best->point = point;
	}
	ret_best->n_told = tune->n_told[ret_best->point];
	ret_best->value = exp(least);
	return TAUT_OK;
}

taut_status taut_tune_best(struct taut_tune *tune,
	struct taut_tune_best *ret_best, struct taut_error *reterr)
{
	if (!tune->told.count)
		return taut_error_set(reterr, TAUT_EAGAIN, -1,
			"a search: nothing was measured");
	return tune->how->best(tune, ret_best, reterr);
}

/* bayes.c - the point with the largest expected improvement on the best one.
 *
 * The best is that of the least mean among the points that were told, as the model
 * has it: measurements are noisy, and the least of many is less than it is. */
#include "tune/tune.h"

#include <math.h>

enum {
	FIRST = 5,      /* points before the model is asked */
	EACH = 1 << 14, /* up to so many points, all are looked at */
	SOME = 1 << 13, /* of more, so many and the neighbours of the best */
};

static const double usually_enough = 0.002;

/* By logarithms of step times over partition, credit, fusion and algorithm: by
 * how much they differ, from where to where, and from one time to the next. A
 * prediction leaves less to be told, and that evenly. */
static const struct tauti_habits unknown = {
	.signal = { 0.2, 0.8 }, .noise = { 0.01, 0.7 },
	.length = { 0.6, 0.8 }, .choice = { 1, 0.8 },
};
static const struct tauti_habits predicted = {
	.signal = { 0.1, 0.8 }, .noise = { 0.01, 0.7 },
	.length = { 0.8, 0.8 }, .choice = { 1, 0.8 },
};
static const double offset = 1; /* of the mean, about which all is */

/* --- what is believed -----------------------------------------------------------------*/

static void fill(struct taut_tune *t, struct tauti_gp *gp, double *ret_shift)
{
	double sum = 0;

	for (size_t i = 0; i < t->told.count; i++)
		sum += t->told.data[i].y;
	*ret_shift = sum / (double)t->told.count;
	for (size_t i = 0; i < t->told.count; i++) {
		gp->y[i] = t->told.data[i].y - *ret_shift;
		tauti_tune_place(t, t->told.data[i].point,
			gp->x + i * gp->n_dims);
	}
}

/* Mean and deviation of the logarithm of a point's value, but for the shift. */
static void look(struct taut_tune *t, uint32_t point, double *ret_mean,
	double *ret_sd)
{
	double place[TAUT_TUNE_DIMENSIONS];

	tauti_tune_place(t, point, place);
	tauti_gp_at(&t->belief.gp, place, ret_mean, ret_sd);
	*ret_mean += tauti_tune_believed(t, point);
}

static void find_best(struct taut_tune *t)
{
	struct tauti_belief *b = &t->belief;

	b->best_mean = INFINITY;
	for (size_t i = 0; i < t->told.count; i++) {
		double mean, sd;

		look(t, t->told.data[i].point, &mean, &sd);
		if (mean >= b->best_mean)
			continue;
		b->best = t->told.data[i].point;
		b->best_mean = mean;
		b->best_sd = sd;
	}
}

static void consider(struct taut_tune *t, uint32_t point)
{
	struct tauti_belief *b = &t->belief;
	double mean, sd, gain;

	if (t->n_told[point])
		return;
	look(t, point, &mean, &sd);
	gain = tauti_expected_improvement(mean, sd, b->best_mean);
	if (b->next != TAUT_NONE && gain <= b->gain)
		return;
	b->next = point;
	b->gain = gain;
}

/* One value of one dimension is another. */
static void consider_neighbours(struct taut_tune *t, uint32_t point)
{
	uint32_t stride = 1;

	for (uint32_t d = t->n_dimensions; d-- > 0;) {
		uint32_t own = taut_tune_value_of(t, point, d);

		for (uint32_t v = 0; v < t->n_values[d]; v++)
			consider(t, point - own * stride + v * stride);
		stride *= t->n_values[d];
	}
}

static void find_next(struct taut_tune *t)
{
	uint64_t any = tauti_tune_mix(t->options.seed ^ t->told.count);

	t->belief.next = TAUT_NONE;
	t->belief.gain = 0;
	if (t->n_points <= EACH) {
		for (uint32_t i = 0; i < t->n_points; i++)
			consider(t, i);
		return;
	}
	for (uint32_t i = 0; i < SOME; i++) {
		any = tauti_tune_mix(any);
		consider(t, (uint32_t)(any % t->n_points));
	}
	consider_neighbours(t, t->belief.best);
}

static taut_status believe(struct taut_tune *t, struct taut_error *err)
{
	struct tauti_belief *b = &t->belief;
	struct tauti_gp gp;
	taut_status status;

	if (b->is_there)
		return TAUT_OK;
	status = tauti_gp_init(&gp, (uint32_t)t->told.count, t->n_dimensions,
		t->is_choice, err);
	if (status)
		return status;
	tauti_gp_fini(&b->gp);
	b->gp = gp;
	fill(t, &b->gp, &b->shift);
	b->gp.scales.offset = offset;
	tauti_scales_find(&b->gp, t->predicted ? &predicted : &unknown);
	find_best(t);
	find_next(t);
	b->is_there = true;
	return TAUT_OK;
}

/* --- before there is a model ----------------------------------------------------------*/

static bool is_told(const struct taut_tune *t, uint32_t d, uint32_t value)
{
	for (size_t i = 0; i < t->told.count; i++)
		if (taut_tune_value_of(t, t->told.data[i].point, d) == value)
			return true;
	return false;
}

/* How many of its values, or of its names alone, no measurement has. */
static uint32_t n_new(const struct taut_tune *t, uint32_t point, bool names)
{
	uint32_t n = 0;

	for (uint32_t d = 0; d < t->n_dimensions; d++)
		n += (t->is_choice[d] || !names) &&
			!is_told(t, d, taut_tune_value_of(t, point, d));
	return n;
}

/* The least predicted, with a name that was not measured: that of one name says
 * nothing of how wrong the prediction is of another. TAUT_NONE: all were. */
static uint32_t least_predicted(const struct taut_tune *t)
{
	uint32_t best = TAUT_NONE;

	for (uint32_t i = 0; i < t->n_points; i++)
		if (!t->n_told[i] && (best == TAUT_NONE ||
			t->predicted[i] < t->predicted[best]) &&
			(!t->told.count || n_new(t, i, true)))
			best = i;
	return best;
}

static double nearest(const struct taut_tune *t, uint32_t point)
{
	double here[TAUT_TUNE_DIMENSIONS], there[TAUT_TUNE_DIMENSIONS];
	double least = INFINITY;

	tauti_tune_place(t, point, here);
	for (size_t i = 0; i < t->told.count; i++) {
		double square = 0;

		tauti_tune_place(t, t->told.data[i].point, there);
		for (uint32_t d = 0; d < t->n_dimensions; d++) {
			double by = t->is_choice[d] ? here[d] != there[d] :
				here[d] - there[d];

			square += by * by;
		}
		least = fmin(least, square);
	}
	return least;
}

/* Of some points, one that has most values which were not told yet, so that a few of
 * them see each value once (McKay, Beckman and Conover's Latin hypercube,
 * Technometrics 21, 1979); of equal ones that which is farthest from the others. */
static uint32_t new_to_all(const struct taut_tune *t)
{
	enum { DRAWN = 64 };
	uint64_t any = tauti_tune_mix(t->options.seed + t->told.count);
	uint32_t n = tauti_tune_n_untold(t), best = TAUT_NONE;
	double most = -1;

	for (int i = 0; i < DRAWN; i++) {
		uint32_t point = tauti_tune_untold(t, (uint32_t)(any % n));
		double by = n_new(t, point, false) +
			fmin(nearest(t, point), 1e6) / 1e7;

		if (by > most) {
			most = by;
			best = point;
		}
		any = tauti_tune_mix(any);
	}
	return best;
}

/* --- the strategy -----------------------------------------------------------------------*/

static taut_status next(struct taut_tune *tune, uint32_t *ret_point,
	struct taut_error *err)
{
	uint32_t first = tune->options.first ? tune->options.first : FIRST;
	double enough = tune->options.enough != 0 ? tune->options.enough :
		usually_enough;
	taut_status status;

	*ret_point = TAUT_NONE;
	if (tune->predicted)
		*ret_point = least_predicted(tune);
	else if (tune->told.count < first)
		*ret_point = new_to_all(tune);
	if (*ret_point != TAUT_NONE)
		return TAUT_OK;
	status = believe(tune, err);
	if (status)
		return status;
	if (tune->belief.next == TAUT_NONE || tune->belief.gain < enough)
		return tauti_tune_over(err);
	*ret_point = tune->belief.next;
	return TAUT_OK;
}

static taut_status best(struct taut_tune *tune,
	struct taut_tune_best *ret_best, struct taut_error *err)
{
	const struct tauti_belief *b = &tune->belief;
	taut_status status = believe(tune, err);

	if (status)
		return status;
	*ret_best = (struct taut_tune_best){
		.point = b->best, .n_told = tune->n_told[b->best],
		.value = exp(b->best_mean + b->shift),
		.low = exp(b->best_mean + b->shift - 1.96 * b->best_sd),
		.high = exp(b->best_mean + b->shift + 1.96 * b->best_sd),
		.noise = b->gp.scales.noise, .gain = b->gain };
	return TAUT_OK;
}

const struct tauti_strategy tauti_tune_bayes = { next, best };

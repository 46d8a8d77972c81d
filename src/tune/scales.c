/* scales.c - lengths, signal and noise of a Gaussian process.
 *
 * A few values say little of six or seven scales, and what is most likely alone
 * (maximum likelihood) then is often a line through them, without noise. So what
 * scales usually are counts too: the maximum is that of likelihood times habit.
 * It is looked for in steps of one scale at a time, a fixed row of factors each:
 * no derivative, no start but the habits' medians, and always the same end. */
#include "tune/gp.h"

#include <math.h>
#include <stddef.h>

enum { ROUNDS = 12 };

static const double factors[] = { 0.25, 0.5, 0.71, 0.84, 1.19, 1.41, 2, 4 };

static double of_habit(double scale, const struct tauti_habit *habit)
{
	double z = log(scale / habit->median) / habit->spread;

	return -z * z / 2;
}

static const struct tauti_habit *length_habit(const struct tauti_gp *gp,
	const struct tauti_habits *habits, uint32_t dimension)
{
	return gp->is_choice[dimension] ? &habits->choice : &habits->length;
}

double tauti_scales_habit(
	const struct tauti_gp *gp, const struct tauti_habits *habits)
{
	double sum = of_habit(gp->scales.signal, &habits->signal) +
		of_habit(gp->scales.noise, &habits->noise);

	for (uint32_t d = 0; d < gp->n_dims; d++)
		sum += of_habit(gp->scales.length[d],
			length_habit(gp, habits, d));
	return sum;
}

static double likely(struct tauti_gp *gp, const struct tauti_habits *habits)
{
	tauti_gp_condition(gp);
	return gp->log_likelihood + tauti_scales_habit(gp, habits);
}

/* The best factor of one scale; whether that is not 1. */
static bool step(struct tauti_gp *gp, const struct tauti_habits *habits,
	double *scale, double *most)
{
	double before = *scale, best = before;

	for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
		double found;

		*scale = before * factors[i];
		found = likely(gp, habits);
		if (found > *most + 1e-9) {
			*most = found;
			best = *scale;
		}
	}
	*scale = best;
	return best != before;
}

void tauti_scales_find(struct tauti_gp *gp, const struct tauti_habits *habits)
{
	struct tauti_scales *s = &gp->scales;
	bool moved = true;
	double most;

	s->signal = habits->signal.median;
	s->noise = habits->noise.median;
	for (uint32_t d = 0; d < gp->n_dims; d++)
		s->length[d] = length_habit(gp, habits, d)->median;
	most = likely(gp, habits);
	for (int i = 0; i < ROUNDS && moved; i++) {
		moved = step(gp, habits, &s->signal, &most);
		moved |= step(gp, habits, &s->noise, &most);
		for (uint32_t d = 0; d < gp->n_dims; d++)
			moved |= step(gp, habits, &s->length[d], &most);
	}
	tauti_gp_condition(gp);
}

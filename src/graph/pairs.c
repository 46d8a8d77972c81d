/* pairs.c - clocks of ranks that only sends and receives tell of.
 *
 * A message from i to j says: x_j - x_i >= l, where x is what is added to a
 * rank's times and l is the begin of the send minus the end of the receive,
 * both as stamped; of all messages from i to j the largest l counts. Single
 * bounds may all be one-sided (in a ring messages run one way round), but
 * together they close. Every message also takes some time: x is chosen such
 * that the least time that any of them takes is as long as can be,
 *
 *     max d  such that  x_j - x_i >= l_ij + d,  x = 0 for fixed ranks,
 *
 * which is exact where the fastest message is as fast on all links. For a
 * given d these are difference constraints: longest paths (Bellman-Ford)
 * from the fixed ranks give the least solution, longest paths to them the
 * largest, and there is none exactly if a circle is longer than zero. d is
 * found by bisection; what is left open between the two solutions is halved.
 * Where clocks drift d comes out below zero: by so much the order is broken
 * at the worst message, and no constant offsets do better. */
#include <math.h>
#include <stdlib.h>

#include "graph/pairs.h"

enum { BISECTIONS = 50 };

/* Longest paths from the fixed ranks (or, turned round, to them), after
 * which no bound is violated; false: a circle makes them endless. */
static bool relax(const struct tauti_pairs *p, double slack_us, bool turned,
	double *x)
{
	for (uint32_t i = 0; i < p->n_ranks; i++)
		x[i] = p->fixed[i] ? 0 : -INFINITY;
	for (uint32_t round = 0; round <= p->n_ranks; round++) {
		bool changed = false;

		for (size_t k = 0; k < p->n_bounds; k++) {
			const struct tauti_pair_bound *b = &p->bounds[k];
			uint32_t from = turned ? b->to : b->from;
			uint32_t to = turned ? b->from : b->to;
			double least = x[from] + b->low_us + slack_us;

			if (least <= x[to] + 1e-9)
				continue;
			if (p->fixed[to])
				return false;
			x[to] = least;
			changed = true;
		}
		if (!changed)
			return true;
	}
	return false;
}

static double best_slack(const struct tauti_pairs *p, double *x)
{
	double low = -1, high = 1;

	while (low > -1e15 && !relax(p, low, false, x))
		low *= 2;
	while (high < 1e15 && relax(p, high, false, x))
		high *= 2;
	for (int i = 0; i < BISECTIONS && high - low > 1e-3; i++) {
		double middle = low + (high - low) / 2;

		if (relax(p, middle, false, x))
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* A rank that is bounded on one side only is moved as little as it must be. */
static double between(double least, double most)
{
	if (isfinite(least) && isfinite(most))
		return least + (most - least) / 2;
	if (isfinite(least))
		return least > 0 ? least : 0;
	return isfinite(most) && most < 0 ? most : 0;
}

bool tauti_pairs_solve(const struct tauti_pairs *p, double *ret_x_us,
	double *ret_open_us)
{
	double *most = malloc((p->n_ranks + 1) * sizeof *most);
	double slack;

	if (!most)
		return false;
	slack = best_slack(p, ret_x_us);
	if (slack > 1e14)
		slack = 0; /* no circle: nothing is bounded on both sides */
	if (!relax(p, slack, false, ret_x_us) || !relax(p, slack, true, most))
		for (uint32_t i = 0; i < p->n_ranks; i++)
			ret_x_us[i] = most[i] = 0;
	for (uint32_t i = 0; i < p->n_ranks; i++) {
		double least = ret_x_us[i], up = -most[i];

		ret_x_us[i] = between(least, up);
		ret_open_us[i] = isfinite(least) && isfinite(up) ?
			fabs(slack) + (up - least) / 2 : INFINITY;
	}
	free(most);
	return true;
}

/* exchange.c - a rank's clock, from its own comparisons with rank 0's.
 *
 * Each comparison says: at t the offset to rank 0's clock is o, give or take
 * h (half the fastest round trip). Between the first and the last comparison
 * clocks drift at a constant rate, as near as matters for minutes:
 *
 *     offset(t) = o_1 + drift * (t - t_1),  drift = (o_n - o_1) / (t_n - t_1)
 *
 * where (t_1, o_1) and (t_n, o_n) are the narrowest comparisons of the first
 * and the last tenth of a second. The middle of a round trip is off by half
 * of how much longer one way takes than the other, which is much less than h
 * as a rule: so the middle is taken as it is, and h is stated. */
#include <math.h>

#include "graph/graph.h"

static const int64_t burst_ns = 100000000; /* comparisons made together */
static const double min_span_s = 0.2;      /* for a drift to mean anything */
static const double max_drift_ppm = 1000;  /* no clock is that bad */

/* The narrowest of the samples from `first` on that are within a burst. */
static const struct taut_clock_sample *narrowest(
	const struct taut_clock_sample *s, size_t n, int64_t from, int64_t to)
{
	const struct taut_clock_sample *best = NULL;

	for (size_t i = 0; i < n; i++)
		if (s[i].at_ns >= from && s[i].at_ns <= to &&
			(!best || s[i].half_width_ns < best->half_width_ns))
			best = &s[i];
	return best;
}

bool tauti_clock_exchanged(const struct taut_trace *t, int64_t origin_ns,
	struct taut_clock_row *row)
{
	const struct taut_clock_sample *s = t->clock_samples, *a, *b;
	size_t n = t->n_clock_samples;
	double span_s, drift_ppm, wide_ns;

	if (!n)
		return false;
	a = narrowest(s, n, s[0].at_ns, s[0].at_ns + burst_ns);
	b = narrowest(s, n, s[n - 1].at_ns - burst_ns, s[n - 1].at_ns);
	span_s = (double)(b->at_ns - a->at_ns) / 1e9;
	drift_ppm = span_s < min_span_s ? 0 :
		(double)(b->offset_ns - a->offset_ns) / 1e3 / span_s;
	if (fabs(drift_ppm) > max_drift_ppm)
		drift_ppm = 0; /* a clock was set meanwhile */
	if (drift_ppm == 0 && b->half_width_ns < a->half_width_ns)
		a = b;
	wide_ns = (double)(a->half_width_ns > b->half_width_ns ?
		a->half_width_ns : b->half_width_ns);
	row->drift_ppm = drift_ppm;
	row->offset_us = (double)a->offset_ns / 1e3 + drift_ppm *
		((double)(origin_ns - a->at_ns) / 1e9);
	row->uncertainty_us = (drift_ppm == 0 ? (double)a->half_width_ns :
		wide_ns) / 1e3;
	return true;
}

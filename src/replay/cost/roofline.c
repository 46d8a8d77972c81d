/* roofline.c - time by work: a fit of three numbers.
 *
 *     m = max(f x, b y) + c     or     f x + b y + c
 *     minimise  sum rho(ln t - ln m)   over ln x, ln y, ln c
 *
 * rho is Huber's, its width 1.345 deviations, and these from the median of the
 * residuals, so that exact samples give an exact answer whatever strays are
 * among them. Steps are Levenberg's and Marquardt's: the derivative of ln m by
 * the logarithm of a parameter is that term's share of m. As the maximum has
 * kinks, the fit starts from several corners and keeps the best. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "opwork.h"

enum { FLOPS, BYTES, FIXED, TERMS };

static const double huber = 1.345;
static const double least_width = 1e-9; /* of residuals: below, all are exact */
static const double roughly = 1e-3; /* to tell good starts from bad ones */
static const double lost = 1e-12; /* of the least time: a term is not there */

/* Deviations, of logarithms, from what is believed before: what a call costs is
 * much the same for all operators, how well each uses its roofs is not. */
static const double belief[] = { [FLOPS] = 0.5, [BYTES] = 1.5, [FIXED] = 0.7 };

struct fitting {
	const struct taut_opwork_time *samples;
	uint32_t n;
	int turns;
	const struct taut_roofline *near; /* NULL: nothing is believed before */
	double *residual, *scratch; /* n each */
};

struct point {
	double p[TERMS]; /* logarithms; -INFINITY: the term is not there */
	double width;    /* of the residuals, for Huber's weights */
	double cost;     /* sum of |residual|, which has no width in it */
};

/* --- the model ------------------------------------------------------------------*/

struct rates {
	double of[TERMS];
};

static struct rates rates_of(const double p[TERMS])
{
	return (struct rates){ { exp(p[FLOPS]), exp(p[BYTES]),
		exp(p[FIXED]) } };
}

/* Each term's part of m, and m. */
static double model(const struct fitting *f, const struct rates *r,
	const struct taut_opwork_time *s, double part[TERMS])
{
	part[FLOPS] = s->flops > 0 ? s->flops * r->of[FLOPS] : 0;
	part[BYTES] = s->bytes > 0 ? s->bytes * r->of[BYTES] : 0;
	part[FIXED] = r->of[FIXED];
	if (!f->turns)
		part[part[FLOPS] >= part[BYTES] ? BYTES : FLOPS] = 0;
	return part[FLOPS] + part[BYTES] + part[FIXED];
}

static double median(double *v, uint32_t n)
{
	double high = tauti_select(v, n, n / 2), low = v[0];

	if (n & 1)
		return high;
	for (uint32_t i = 1; i < n / 2; i++) /* the lower half stands first */
		low = v[i] > low ? v[i] : low;
	return (low + high) / 2;
}

/* Fills residual; -1 where the model has no time for a sample. */
static double cost_of(const struct fitting *f, const double p[TERMS])
{
	struct rates rates = rates_of(p);
	double part[TERMS], sum = 0;

	for (uint32_t i = 0; i < f->n; i++) {
		double m = model(f, &rates, &f->samples[i], part);

		if (!(m > 0))
			return -1;
		f->residual[i] = log(f->samples[i].time_ns / m);
		sum += fabs(f->residual[i]);
	}
	return sum;
}

/* Of residual, as the deviation of a normal distribution. */
static double width_of(const struct fitting *f)
{
	double width;

	for (uint32_t i = 0; i < f->n; i++)
		f->scratch[i] = fabs(f->residual[i]);
	width = 1.4826 * median(f->scratch, f->n);
	return width > least_width ? width : least_width;
}

/* Where it is believed to be; -INFINITY: nothing is believed. */
static double believed(const struct fitting *f, int term)
{
	double value = !f->near ? 0 : term == FLOPS ? f->near->ns_per_flop :
		term == BYTES ? f->near->ns_per_byte : f->near->fixed_ns;

	return value > 0 ? log(value) : -INFINITY;
}

static double huber_of(const struct fitting *f, const double p[TERMS],
	double width)
{
	double sum = 0, k = huber * width;

	for (int t = 0; t < TERMS; t++) {
		double off = (p[t] - believed(f, t)) / belief[t] * width;

		sum += isfinite(off) ? off * off / 2 : 0;
	}
	for (uint32_t i = 0; i < f->n; i++) {
		double r = fabs(f->residual[i]);

		sum += r <= k ? r * r / 2 : k * (r - k / 2);
	}
	return sum;
}

/* --- a step -----------------------------------------------------------------------*/

struct normal {
	double a[TERMS][TERMS], b[TERMS];
};

static void gather(const struct fitting *f, const struct point *at,
	struct normal *eq)
{
	struct rates rates = rates_of(at->p);
	double share[TERMS], k = huber * at->width;

	*eq = (struct normal){ 0 };
	for (uint32_t i = 0; i < f->n; i++) {
		double r = f->residual[i], w = fabs(r) > k ? k / fabs(r) : 1;
		double m = model(f, &rates, &f->samples[i], share);

		for (int u = 0; u < TERMS; u++)
			share[u] = m > 0 ? share[u] / m : 0;
		for (int u = 0; u < TERMS; u++) {
			eq->b[u] += w * share[u] * r;
			for (int v = 0; v < TERMS; v++)
				eq->a[u][v] += w * share[u] * share[v];
		}
	}
}

/* a x = b for a symmetric, positive a; a term that no sample has stays as it
 * is. Elimination without pivots is stable for those. false: it has none. */
static bool solve(struct normal eq, double damping, double ret_x[TERMS])
{
	for (int u = 0; u < TERMS; u++)
		eq.a[u][u] = eq.a[u][u] > 0 ? eq.a[u][u] * (1 + damping) : 1;
	for (int u = 0; u < TERMS; u++) {
		if (!(eq.a[u][u] > 1e-300))
			return false;
		for (int v = u + 1; v < TERMS; v++) {
			double by = eq.a[v][u] / eq.a[u][u];

			for (int k = u; k < TERMS; k++)
				eq.a[v][k] -= by * eq.a[u][k];
			eq.b[v] -= by * eq.b[u];
		}
	}
	for (int u = TERMS - 1; u >= 0; u--) {
		double sum = eq.b[u];

		for (int v = u + 1; v < TERMS; v++)
			sum -= eq.a[u][v] * ret_x[v];
		ret_x[u] = sum / eq.a[u][u];
		if (!isfinite(ret_x[u]))
			return false;
	}
	return true;
}

static void step_from(const struct point *at, const double x[TERMS],
	double ret_p[TERMS])
{
	for (int k = 0; k < TERMS; k++) {
		double by = x[k] > 2 ? 2 : x[k] < -2 ? -2 : x[k];

		ret_p[k] = isfinite(at->p[k]) ? at->p[k] + by : at->p[k];
	}
}

static void believe(const struct fitting *f, const struct point *at,
	struct normal *eq)
{
	for (int t = 0; t < TERMS; t++) {
		double off = believed(f, t) - at->p[t];
		double w = at->width / belief[t];

		if (!isfinite(off))
			continue;
		eq->a[t][t] += w * w;
		eq->b[t] += w * w * off;
	}
}

/* One round with one width; by how much the furthest parameter moved, 0: none
 * did. */
static double improve(const struct fitting *f, struct point *at, double *damping)
{
	struct normal eq;
	double before;

	at->cost = cost_of(f, at->p);
	at->width = width_of(f);
	before = huber_of(f, at->p, at->width);
	gather(f, at, &eq);
	believe(f, at, &eq);
	for (int tries = 0; tries < 12; tries++, *damping *= 8) {
		double x[TERMS] = { 0 }, p[TERMS], moved = 0;

		if (!solve(eq, *damping, x))
			continue;
		step_from(at, x, p);
		if (cost_of(f, p) < 0 || huber_of(f, p, at->width) >= before)
			continue;
		for (int t = 0; t < TERMS; t++)
			if (isfinite(p[t]))
				moved = fmax(moved, fabs(p[t] - at->p[t]));
		memcpy(at->p, p, sizeof p);
		*damping = *damping > 1e-9 ? *damping / 20 : *damping;
		return moved;
	}
	return 0;
}

/* Until no parameter moves by more than `still`. */
static void descend(const struct fitting *f, struct point *at, double still)
{
	enum { MOST_ROUNDS = 80 };
	double damping = 1e-3;

	for (int i = 0; i < MOST_ROUNDS &&
		improve(f, at, &damping) > still; i++)
		;
	at->cost = cost_of(f, at->p);
	at->width = width_of(f);
}

/* --- starts ------------------------------------------------------------------------*/

/* Time for each flop, or byte, by quantile of the samples that have any;
 * -INFINITY: none has. */
static double start_of(const struct fitting *f, int term, double quantile)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->n; i++) {
		const struct taut_opwork_time *s = &f->samples[i];
		double work = term == FLOPS ? s->flops : s->bytes;

		if (work > 0)
			f->scratch[n++] = s->time_ns / work;
	}
	if (!n)
		return -INFINITY;
	return log(tauti_select(
		f->scratch, n, (uint32_t)(quantile * (n - 1))));
}

static double least_time(const struct fitting *f)
{
	double least = f->samples[0].time_ns;

	for (uint32_t i = 1; i < f->n; i++)
		least = fmin(least, f->samples[i].time_ns);
	return least;
}

static struct point best_of(const struct fitting *f)
{
	static const double quantiles[] = { 0, 0.25, 0.6 };
	static const double fixed[] = { 0.7, 0.05 };
	struct point best = { .cost = -1 };

	for (size_t i = 0; i < 3 * 3 * 2; i++) {
		struct point at = { .p = {
			start_of(f, FLOPS, quantiles[i % 3]),
			start_of(f, BYTES, quantiles[i / 3 % 3]),
			log(least_time(f) * fixed[i / 9]) } };

		if (cost_of(f, at.p) < 0)
			continue;
		descend(f, &at, roughly);
		if (best.cost < 0 || at.cost < best.cost * (1 - 1e-9))
			best = at;
	}
	if (best.cost >= 0)
		descend(f, &best, 0);
	return best;
}

/* --- the answer -----------------------------------------------------------------------*/

/* Diagonal of the inverse, one unit vector at a time; bound: by no sample,
 * where it is false. 1.05: what Huber's
 * weights lose against squares on normal residuals. */
static void find_errors(const struct fitting *f, const struct point *at,
	double ret_error[TERMS], bool ret_bound[TERMS])
{
	struct normal eq;
	double degrees = f->n > TERMS ? (double)f->n / (f->n - TERMS) : INFINITY;

	gather(f, at, &eq);
	for (int k = 0; k < TERMS; k++)
		ret_bound[k] = eq.a[k][k] > 1e-9;
	believe(f, at, &eq);
	for (int k = 0; k < TERMS; k++) {
		double x[TERMS] = { 0 };

		memset(eq.b, 0, sizeof eq.b);
		eq.b[k] = 1;
		ret_error[k] = INFINITY;
		if (ret_bound[k] && solve(eq, 1e-12, x) && x[k] > 0)
			ret_error[k] = at->width * sqrt(1.05 * degrees * x[k]);
		if (!(ret_error[k] < 10))
			ret_error[k] = INFINITY;
	}
}

static struct taut_roofline answer(const struct fitting *f,
	const struct point *at)
{
	double error[TERMS], least = least_time(f);
	bool bound[TERMS];
	struct taut_roofline r = { .ns_per_flop = exp(at->p[FLOPS]),
		.ns_per_byte = exp(at->p[BYTES]), .fixed_ns = exp(at->p[FIXED]),
		.turns = f->turns, .n = f->n };

	cost_of(f, at->p);
	find_errors(f, at, error, bound);
	for (uint32_t i = 0; i < f->n; i++)
		f->scratch[i] = fabs(expm1(f->residual[i]));
	r.spread = median(f->scratch, f->n);
	r.flop_error = error[FLOPS];
	r.byte_error = error[BYTES];
	r.fixed_error = error[FIXED];
	if (r.fixed_ns < lost * least)
		r.fixed_ns = 0;
	if (!bound[FLOPS])
		r.ns_per_flop = f->near ? f->near->ns_per_flop : 0;
	if (!bound[BYTES])
		r.ns_per_byte = f->near ? f->near->ns_per_byte : 0;
	return r;
}

static taut_status check(const struct taut_opwork_time *samples, uint32_t n,
	struct taut_error *err)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct taut_opwork_time *s = &samples[i];

		if (!(s->time_ns > 0) || !(s->flops >= 0) ||
			!(s->bytes >= 0) || isinf(s->time_ns) ||
			isinf(s->flops) || isinf(s->bytes))
			return taut_error_set(err, TAUT_EINVAL, -1, "sample %u "
				"of a roofline: %g ns for %g flops and %g bytes; "
				"expected a time above 0 and work that is not "
				"negative", (unsigned)i, s->time_ns, s->flops,
				s->bytes);
	}
	return TAUT_OK;
}

taut_status tauti_roofline_fit_near(const struct taut_opwork_time *samples,
	uint32_t n, int form, const struct taut_roofline *near,
	struct taut_roofline *ret_roofline, struct taut_error *reterr)
{
	struct taut_roofline found[2] = { { 0 } };
	struct fitting f = { .samples = samples, .n = n, .near = near };
	taut_status status = check(samples, n, reterr);
	int first = form > 0, last = form != 0;

	if (status || !n) {
		if (!status)
			*ret_roofline = found[0];
		return status;
	}
	f.residual = malloc(2 * (size_t)n * sizeof *f.residual);
	if (!f.residual)
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "no memory for "
			"a roofline over %u samples", (unsigned)n);
	f.scratch = f.residual + n;
	for (f.turns = first; f.turns <= last; f.turns++) {
		struct point best = best_of(&f);

		found[f.turns] = answer(&f, &best);
	}
	free(f.residual);
	if (first != last)
		first = found[1].spread < found[0].spread * (1 - 1e-6);
	*ret_roofline = found[first];
	return TAUT_OK;
}

taut_status taut_roofline_fit(const struct taut_opwork_time *samples,
	uint32_t n, int form, struct taut_roofline *ret_roofline,
	struct taut_error *reterr)
{
	return tauti_roofline_fit_near(
		samples, n, form, NULL, ret_roofline, reterr);
}

double taut_roofline_ns(
	const struct taut_roofline *roofline, double flops, double bytes)
{
	double compute = flops * roofline->ns_per_flop;
	double move = bytes * roofline->ns_per_byte;

	return (roofline->turns ? compute + move : fmax(compute, move)) +
		roofline->fixed_ns;
}

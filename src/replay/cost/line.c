/* line.c - a line through measurements by least absolute deviations.
 *
 *     minimise  f(a, b) = sum |y - a - b x|   over a, b >= 0
 *
 * f is convex, and so is g(b) = min over a of f(a, b); the best a for a given b
 * is the median of y - b x, or 0 where that is negative. A search over b alone
 * closes in on the least g. The best line passes through two of the points, or
 * has a = 0 or b = 0: in the end the line through the points nearest to what
 * was found is taken, which makes the result exact. */
#include <math.h>
#include <stdlib.h>

#include "cost.h"

#define RESAMPLES 100
#define MOST_RESAMPLED 1000 /* points; with more, errors are scaled */
#define NEAREST 6           /* points that may lie on the best line */

struct points {
	const double *x, *y;
	uint32_t n;
	double *buffer; /* n, scratch */
};

struct fit {
	double a, b, sum;
};

/* --- medians --------------------------------------------------------------------*/

static void swap(double *v, int64_t i, int64_t k)
{
	double t = v[i];

	v[i] = v[k];
	v[k] = t;
}

/* Hoare's select. */
double tauti_select(double *v, uint32_t n, uint32_t k)
{
	int64_t lo = 0, hi = (int64_t)n - 1;

	while (lo < hi) {
		double pivot = v[k];
		int64_t i = lo, j = hi;

		while (i <= j) {
			while (v[i] < pivot)
				i++;
			while (pivot < v[j])
				j--;
			if (i <= j)
				swap(v, i++, j--);
		}
		if (j < (int64_t)k)
			lo = i;
		if ((int64_t)k < i)
			hi = j;
	}
	return v[k];
}

struct weighted {
	double value, weight;
};

static int by_value(const void *a, const void *b)
{
	const struct weighted *x = a, *y = b;

	return x->value < y->value ? -1 : x->value > y->value;
}

/* The b of the best line through the origin: the median of y / x, weighted by
 * x. NAN: no memory. */
static double slope_from_origin(const struct points *p)
{
	struct weighted *w = malloc((p->n + 1) * sizeof *w);
	double half = 0, sum = 0, slope = 0;
	uint32_t n = 0;

	if (!w)
		return NAN;
	for (uint32_t i = 0; i < p->n; i++)
		if (p->x[i] > 0) {
			w[n++] = (struct weighted){
				p->y[i] / p->x[i], p->x[i] };
			half += p->x[i] / 2;
		}
	qsort(w, n, sizeof *w, by_value);
	for (uint32_t i = 0; i < n && sum < half; i++) {
		slope = w[i].value;
		sum += w[i].weight;
	}
	free(w);
	return slope;
}

/* --- the search over b ---------------------------------------------------------------*/

static double sum_of(const struct points *p, double a, double b)
{
	double sum = 0;

	for (uint32_t i = 0; i < p->n; i++)
		sum += fabs(p->y[i] - a - b * p->x[i]);
	return sum;
}

static struct fit best_at(const struct points *p, double b)
{
	double a;

	for (uint32_t i = 0; i < p->n; i++)
		p->buffer[i] = p->y[i] - b * p->x[i];
	a = tauti_select(p->buffer, p->n, p->n / 2);
	a = a > 0 ? a : 0;
	return (struct fit){ a, b, sum_of(p, a, b) };
}

/* Golden section; beyond the steepest line from the origin to a point f only
 * grows. */
static struct fit search(const struct points *p, double precision)
{
	const double golden = 0.6180339887498949;
	double lo = 0, hi = 0;

	for (uint32_t i = 0; i < p->n; i++)
		if (p->x[i] > 0 && p->y[i] > hi * p->x[i])
			hi = p->y[i] / p->x[i];
	struct fit low = best_at(p, hi - golden * hi);
	struct fit high = best_at(p, golden * hi);
	while (hi - lo > precision * hi) {
		if (low.sum <= high.sum) {
			hi = high.b;
			high = low;
			low = best_at(p, hi - golden * (hi - lo));
		} else {
			lo = low.b;
			low = high;
			high = best_at(p, lo + golden * (hi - lo));
		}
		if (low.b >= high.b)
			break;
	}
	return low.sum <= high.sum ? low : high;
}

/* --- the exact line near to what was found ----------------------------------------------*/

static struct fit better(const struct points *p, struct fit best, double a,
	double b)
{
	struct fit other = { a, b, 0 };

	if (!(a >= 0) || !(b >= 0) || isinf(a) || isinf(b))
		return best;
	other.sum = sum_of(p, a, b);
	return other.sum <= best.sum ? other : best;
}

/* Points next to the line, nearest first, of different x or y. */
static uint32_t nearest(const struct points *p, struct fit fit, uint32_t *ret)
{
	double off[NEAREST];
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n; i++) {
		double r = fabs(p->y[i] - fit.a - fit.b * p->x[i]);
		uint32_t at = n;
		int known = 0;

		for (uint32_t k = 0; k < n && !known; k++)
			known = p->x[ret[k]] == p->x[i] &&
				p->y[ret[k]] == p->y[i];
		while (at > 0 && off[at - 1] > r)
			at--;
		if (known || at == NEAREST)
			continue;
		n = n < NEAREST ? n + 1 : n;
		for (uint32_t k = n - 1; k > at; k--) {
			off[k] = off[k - 1];
			ret[k] = ret[k - 1];
		}
		off[at] = r;
		ret[at] = i;
	}
	return n;
}

static struct fit polish(const struct points *p, struct fit found)
{
	uint32_t near[NEAREST], n = nearest(p, found, near);
	struct fit best = found;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = i + 1; k < n; k++) {
			uint32_t u = near[i], v = near[k];
			double b = (p->y[v] - p->y[u]) / (p->x[v] - p->x[u]);

			best = better(p, best, p->y[u] - b * p->x[u], b);
		}
	best = better(p, best, best_at(p, 0).a, 0);
	return better(p, best, 0, slope_from_origin(p));
}

/* --- errors ----------------------------------------------------------------------------*/

uint64_t tauti_draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

struct moments {
	double mean, sum_of_squares;
	uint32_t n;
};

static void add(struct moments *m, double value)
{
	double off = value - m->mean;

	m->mean += off / ++m->n;
	m->sum_of_squares += off * (value - m->mean);
}

static double deviation(const struct moments *m)
{
	return m->n > 1 ? sqrt(m->sum_of_squares / (m->n - 1)) : 0;
}

/* How much a and b vary when the points are drawn anew from themselves. */
static taut_status resample(const struct points *p, int from_origin,
	struct taut_line *line)
{
	uint32_t n = p->n < MOST_RESAMPLED ? p->n : MOST_RESAMPLED;
	double *drawn = malloc(3 * (size_t)n * sizeof *drawn);
	struct points part;
	struct moments a = { 0 }, b = { 0 };
	uint64_t state = 1;
	double scale = sqrt((double)n / p->n);

	if (!drawn)
		return TAUT_ENOMEM;
	part = (struct points){ drawn, drawn + n, n, drawn + 2 * (size_t)n };
	for (int r = 0; r < RESAMPLES; r++) {
		struct fit fit = { 0 };

		for (uint32_t i = 0; i < n; i++) {
			uint32_t k = (uint32_t)(tauti_draw(&state) % p->n);

			drawn[i] = p->x[k];
			drawn[n + i] = p->y[k];
		}
		if (from_origin)
			fit.b = slope_from_origin(&part);
		else
			fit = search(&part, 1e-5);
		if (isnan(fit.b))
			break;
		add(&a, fit.a);
		add(&b, fit.b);
	}
	free(drawn);
	line->alpha_error = deviation(&a) * scale;
	line->beta_error = deviation(&b) * scale;
	return a.n == RESAMPLES ? TAUT_OK : TAUT_ENOMEM;
}

/* --- a fit -------------------------------------------------------------------------------*/

static int at_most_two(const struct points *p)
{
	double seen[2] = { p->x[0], p->x[0] };

	for (uint32_t i = 0; i < p->n; i++) {
		if (p->x[i] == seen[0] || p->x[i] == seen[1])
			continue;
		if (seen[0] != seen[1])
			return 0;
		seen[1] = p->x[i];
	}
	return 1;
}

static double least(const double *v, uint32_t n)
{
	double least = v[0];

	for (uint32_t i = 1; i < n; i++)
		least = v[i] < least ? v[i] : least;
	return least;
}

static double greatest(const double *v, uint32_t n)
{
	double most = v[0];

	for (uint32_t i = 1; i < n; i++)
		most = v[i] > most ? v[i] : most;
	return most;
}

static double scatter_of(const struct points *p, const struct taut_line *line)
{
	for (uint32_t i = 0; i < p->n; i++) {
		double on = line->alpha + line->beta * p->x[i];

		p->buffer[i] = on > 0 ? fabs(p->y[i] - on) / on :
			p->y[i] > 0;
	}
	return tauti_select(p->buffer, p->n, p->n / 2);
}

static taut_status fit_points(const struct points *p, struct taut_line *line)
{
	taut_status status;
	int few = at_most_two(p), flat = greatest(p->x, p->n) <= 0;

	if (flat || !few) {
		struct fit fit = polish(p, search(p, 1e-14));

		line->alpha = fit.a;
		line->beta = fit.b;
		status = isnan(slope_from_origin(p)) ? TAUT_ENOMEM :
			resample(p, 0, line);
	} else {
		line->beta = slope_from_origin(p);
		status = isnan(line->beta) ? TAUT_ENOMEM :
			resample(p, 1, line);
		line->alpha_error = least(p->y, p->n);
	}
	line->n = p->n;
	if (!status)
		line->scatter = scatter_of(p, line);
	return status;
}

/* The slope alone, for an alpha that is known; y is changed. */
taut_status tauti_line_slope(const double *x, double *y, uint32_t n,
	double alpha, struct taut_line *ret_line, struct taut_error *err)
{
	struct points p = { x, y, n, malloc(((size_t)n + 1) * sizeof *y) };
	struct taut_line line = { .n = n };
	taut_status status = TAUT_ENOMEM;

	for (uint32_t i = 0; i < n; i++)
		y[i] = y[i] > alpha ? y[i] - alpha : 0;
	line.beta = p.buffer ? slope_from_origin(&p) : NAN;
	if (!isnan(line.beta))
		status = resample(&p, 1, &line);
	if (!status && n)
		line.scatter = scatter_of(&p, &line);
	free(p.buffer);
	if (status)
		return taut_error_set(err, status, -1,
			"no memory for a line through %u points", (unsigned)n);
	line.alpha = alpha;
	*ret_line = line;
	return TAUT_OK;
}

taut_status taut_line_fit(const double *x, const double *y, uint32_t n,
	struct taut_line *ret_line, struct taut_error *reterr)
{
	struct points p = { x, y, n, NULL };
	struct taut_line line = { 0 };
	taut_status status;

	for (uint32_t i = 0; i < n; i++)
		if (!(x[i] >= 0) || !(y[i] >= 0) || isinf(x[i]) || isinf(y[i]))
			return taut_error_set(reterr, TAUT_EINVAL, -1,
				"measurement %u of a line: %g at %g; expected "
				"numbers that are not negative", (unsigned)i,
				y[i], x[i]);
	if (!n) {
		*ret_line = line;
		return TAUT_OK;
	}
	p.buffer = malloc(n * sizeof *p.buffer);
	status = p.buffer ? fit_points(&p, &line) : TAUT_ENOMEM;
	free(p.buffer);
	if (status)
		return taut_error_set(reterr, status, -1,
			"no memory for a line through %u points", (unsigned)n);
	*ret_line = line;
	return TAUT_OK;
}

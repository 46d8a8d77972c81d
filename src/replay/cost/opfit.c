/* opfit.c - a roofline of each kind of operators, and of each operator that was
 * met at enough sizes: near to that of its kind, which is near to that of all. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "opwork.h"

enum {
	LEAST_SIZES = 5,   /* for a roofline of its own */
	LEAST_SPAN = 4,    /* largest / smallest of its work */
	MOST_SAMPLES = 200, /* of more, evenly by their work */
	SLOW_MEMORY = 4,     /* a device has one: no product moves bytes so much
	                        more slowly than others do */
};

struct fitter {
	struct taut_rooflines *r;
	uint32_t *order; /* rows with calls, by kind and name */
	uint32_t n;
	TAUT_VEC(struct taut_opwork_fit) fits;
	struct taut_opwork_time *samples;
	double *scratch;
	struct taut_error *err;
};

static int by_kind(const void *a, const void *b, void *context)
{
	const struct taut_opwork_row *rows = context;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	int order;

	if (rows[i].work.kind != rows[k].work.kind)
		return rows[i].work.kind < rows[k].work.kind ? -1 : 1;
	order = strcmp(rows[i].name, rows[k].name);
	return order ? order : (i > k) - (i < k);
}

static int by_work(const void *a, const void *b)
{
	const struct taut_opwork_time *x = a, *y = b;

	if (x->flops != y->flops)
		return x->flops < y->flops ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

static uint32_t take_samples(struct fitter *f, uint32_t first, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct taut_opwork_row *row =
			&f->r->rows[f->order[first + i]];

		f->samples[i] = (struct taut_opwork_time){ row->work.flops,
			row->work.bytes, row->time_ns };
	}
	if (n <= MOST_SAMPLES)
		return n;
	qsort(f->samples, n, sizeof *f->samples, by_work);
	for (uint32_t i = 0; i < MOST_SAMPLES; i++) /* the first and last, too */
		f->samples[i] = f->samples[(uint64_t)i * (n - 1) /
			(MOST_SAMPLES - 1)];
	return MOST_SAMPLES;
}

static bool is_enough(const struct taut_opwork_time *samples, uint32_t n)
{
	double least = INFINITY, most = 0;

	for (uint32_t i = 0; i < n; i++) {
		double work = samples[i].flops > 0 ? samples[i].flops :
			samples[i].bytes;

		least = fmin(least, work);
		most = fmax(most, work);
	}
	return n >= LEAST_SIZES && most >= LEAST_SPAN * least;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v, uint32_t n)
{
	qsort(v, n, sizeof *v, by_value);
	return v[n / 2];
}

static double ratio(const struct taut_roofline *r,
	const struct taut_opwork_time *sample)
{
	double ns = taut_roofline_ns(r, sample->flops, sample->bytes);

	return ns > 0 ? sample->time_ns / ns : 1;
}

/* What is scarce shares another's roofline, times its own efficiency. */
static struct taut_roofline shared(const struct fitter *f,
	const struct taut_roofline *of, uint32_t n)
{
	struct taut_roofline r = *of;
	double by;

	for (uint32_t i = 0; i < n; i++)
		f->scratch[i] = ratio(of, &f->samples[i]);
	by = median(f->scratch, n);
	r.n = n;
	r.ns_per_flop *= by;
	r.ns_per_byte *= by;
	r.fixed_ns *= by;
	for (uint32_t i = 0; i < n; i++)
		f->scratch[i] = fabs(ratio(&r, &f->samples[i]) - 1);
	r.spread = median(f->scratch, n);
	return r;
}

/* Sizes at which flops decide leave the roof of bytes free to follow the scatter. */
static bool is_blurred(const struct fitter *f, const struct taut_opwork_fit *fit,
	const struct taut_roofline *near)
{
	return f->r->of_devices && near &&
		fit->kind == TAUT_OPWORK_PRODUCT && near->ns_per_byte > 0 &&
		fit->roofline.ns_per_byte > SLOW_MEMORY * near->ns_per_byte;
}

/* Of n rows of the order; near: NULL of all there are. One core packs and
 * multiplies in turn; devices may overlap. */
static taut_status add_fit(struct fitter *f, uint32_t first, uint32_t n,
	struct taut_opwork_fit fit, const struct taut_roofline *near)
{
	uint32_t taken = take_samples(f, first, n);
	taut_status status = TAUT_OK;

	fit.own = !near || is_enough(f->samples, taken);
	if (fit.own)
		status = tauti_roofline_fit_near(f->samples, taken,
			f->r->of_devices ? -1 : 1, near, &fit.roofline, f->err);
	if (!status && fit.own && is_blurred(f, &fit, near))
		fit.own = 0;
	if (!fit.own)
		fit.roofline = shared(f, near, taken);
	if (!status && !taut_vec_push(&f->fits, fit))
		status = TAUT_ENOMEM;
	for (uint32_t i = 0; !status && i < n; i++)
		f->r->rows[f->order[first + i]].fit =
			(uint32_t)f->fits.count - 1;
	return status;
}

static bool same(const struct fitter *f, uint32_t i, uint32_t k, bool name)
{
	const struct taut_opwork_row *a = &f->r->rows[f->order[i]];
	const struct taut_opwork_row *b = &f->r->rows[f->order[k]];

	return a->work.kind == b->work.kind &&
		(!name || !strcmp(a->name, b->name));
}

/* Of each kind, or each name of a kind; those of a kind stand behind the fit of
 * all, in the order of the kinds. */
static taut_status fit_each(struct fitter *f, bool name)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = 0, end; !status && i < f->n; i = end) {
		const struct taut_opwork_row *row = &f->r->rows[f->order[i]];
		struct taut_opwork_fit fit = { .kind = row->work.kind,
			.name = name ? row->name : NULL };
		struct taut_roofline near;

		for (end = i + 1; end < f->n && same(f, i, end, name); end++)
			;
		near = f->fits.data[name ? row->fit : 0].roofline;
		status = add_fit(f, i, end - i, fit, &near);
	}
	return status;
}

static taut_status fit_all(struct fitter *f)
{
	struct taut_opwork_fit all = { .kind = TAUT_OPWORK_NONE };
	size_t n = f->r->n_rows;
	taut_status status = TAUT_OK;

	f->order = malloc((n + 1) * sizeof *f->order);
	f->samples = malloc((n + 1) * sizeof *f->samples);
	f->scratch = malloc((n + 1) * sizeof *f->scratch);
	if (!f->order || !f->samples || !f->scratch)
		return TAUT_ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		if (f->r->rows[i].n_calls)
			f->order[f->n++] = i;
	if (!f->n)
		return TAUT_OK;
	qsort_r(f->order, f->n, sizeof *f->order, by_kind, f->r->rows);
	status = add_fit(f, 0, f->n, all, NULL);
	if (!status)
		status = fit_each(f, false);
	return status ? status : fit_each(f, true);
}

taut_status tauti_opworks_fit(struct taut_rooflines *r, struct taut_error *err)
{
	struct fitter f = { .r = r, .err = err };
	taut_status status = fit_all(&f);

	r->fits = f.fits.data;
	r->n_fits = (uint32_t)f.fits.count;
	free(f.order);
	free(f.samples);
	free(f.scratch);
	return status;
}

double taut_rooflines_ns(const struct taut_rooflines *rooflines, uint32_t row,
	const struct taut_opwork *work)
{
	const struct taut_opwork_fit *fit =
		&rooflines->fits[rooflines->rows[row].fit];

	return taut_roofline_ns(&fit->roofline, work->flops, work->bytes);
}

/* drag.c - how much slower a rank computes while transfers are under way.
 *
 * An operation that takes dur while e of that, times their rates, was moved
 * beside it, would have taken
 *     work = dur - drag e
 * alone. Two operations of the same work, i beside transfers and k not, tell
 *     drag = (dur_i - dur_k) / (e_i - e_k)
 * The drag is the median of these, weighted by e_i - e_k. Operations that are
 * partly beside transfers are left out: of those that began before a transfer
 * did, the ones that happened to be long are the ones that it reached.
 *
 * A rank that is slow in a step comes late to it everywhere, so that more of it
 * is beside transfers, which wait for the last. So each time is first divided by
 * how slow the rank was in that step, as those of its operations tell that are
 * alone: the median of their times over their usual ones. What the same work is,
 * works.c says. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "works.h"

#define LEAST_DUR_NS 5000   /* shorter ones tell of the clock */
#define BESIDE 0.9          /* of its time, at least, and something moved */
#define ALONE 0.1           /* of its time, at most */
#define MOST_OF_A_KIND 48   /* operations of one work that are compared */
#define MOST_DRAG 0.9
#define RESAMPLES 100

struct pair {
	double drag, weight;
	uint32_t work;
};

struct pace { /* of one operation that was alone: its time over the usual */
	uint32_t step;
	double ratio, weight;
};

struct comparison {
	struct taut_costs *costs;
	struct tauti_instances works;
	TAUT_VEC(struct pair) pairs;
	TAUT_VEC(struct pace) paces;
	uint32_t n_works, n_compared;
};

/* 1: all of it was beside transfers, 0: none, -1: neither, or too short. */
static int is_beside(const struct tauti_instance *x)
{
	double share = x->busy / x->dur;

	if (x->dur < LEAST_DUR_NS)
		return -1;
	return share >= BESIDE ? 1 : share <= ALONE ? 0 : -1;
}

#define COMPARE(field) \
	if (x->field != y->field) \
		return x->field < y->field ? -1 : 1

/* --- how slow a rank was in a step ------------------------------------------------------*/

static int by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static bool pace_work(struct comparison *c, struct tauti_instance *all, size_t n)
{
	double *alone = malloc(n * sizeof *alone), usual;
	size_t m = 0;
	bool ok = alone != NULL;

	for (size_t i = 0; ok && i < n; i++)
		if (is_beside(&all[i]) == 0)
			alone[m++] = all[i].dur;
	if (ok && m > 1) {
		qsort(alone, m, sizeof *alone, by_time);
		usual = alone[m / 2];
		for (size_t i = 0; ok && i < n; i++)
			if (is_beside(&all[i]) == 0) {
				struct pace p = { all[i].step,
					all[i].dur / usual, usual };

				ok = taut_vec_push(&c->paces, p);
			}
	}
	free(alone);
	return ok;
}

static int by_step(const void *a, const void *b)
{
	const struct pace *x = a, *y = b;

	COMPARE(step);
	COMPARE(ratio);
	COMPARE(weight);
	return 0;
}

/* Of n paces of one step, in their order. */
static double middle(const struct pace *all, size_t n)
{
	double half = 0, sum = 0;
	size_t i;

	for (i = 0; i < n; i++)
		half += all[i].weight / 2;
	for (i = 0; i + 1 < n && sum + all[i].weight < half; i++)
		sum += all[i].weight;
	return all[i].ratio;
}

/* Steps of all ranks are numbered through, so a step is a rank's. */
static taut_status even_out(struct comparison *c)
{
	size_t n_steps = (size_t)c->costs->graph->n_steps + 1;
	double *pace = calloc(n_steps, sizeof *pace);

	if (!pace)
		return TAUT_ENOMEM;
	if (c->paces.count)
		qsort(c->paces.data, c->paces.count, sizeof *c->paces.data,
			by_step);
	for (size_t i = 0; i < c->paces.count;) {
		uint32_t step = c->paces.data[i].step;
		size_t n = 1;

		while (i + n < c->paces.count &&
			c->paces.data[i + n].step == step)
			n++;
		if (step < n_steps)
			pace[step] = middle(&c->paces.data[i], n);
		i += n;
	}
	for (size_t i = 0; i < c->works.all.count; i++) {
		struct tauti_instance *one = &c->works.all.data[i];

		if (one->step < n_steps && pace[one->step] > 0) {
			one->dur /= pace[one->step];
			one->beside /= pace[one->step];
			one->busy /= pace[one->step];
		}
	}
	free(pace);
	return TAUT_OK;
}

/* --- comparisons ------------------------------------------------------------------------*/

static bool compare(struct comparison *c, const struct tauti_instance *x,
	const struct tauti_instance *y, double share)
{
	struct pair pair = { .work = c->n_works };
	double more = x->beside - y->beside;

	if (is_beside(x) + is_beside(y) != 1 || is_beside(x) < 0 ||
		is_beside(y) < 0 || fabs(more) < 1)
		return true;
	pair.drag = (x->dur - y->dur) / more;
	pair.weight = fabs(more) * share;
	return taut_vec_push(&c->pairs, pair);
}

/* n operations of one work, a sample of them where they are many. */
static bool compare_work(
	struct comparison *c, struct tauti_instance *all, size_t n)
{
	size_t m = n < MOST_OF_A_KIND ? n : MOST_OF_A_KIND;
	size_t before = c->pairs.count;
	bool ok = true;

	for (size_t i = 0; ok && i < m; i++)
		for (size_t k = 0; ok && k < i; k++)
			ok = compare(c, &all[i * n / m], &all[k * n / m],
				(double)n / (double)(m * m));
	if (c->pairs.count > before) {
		c->n_works++;
		c->n_compared += (uint32_t)n;
	}
	return ok;
}

/* Calls see() with the operations of each work in turn. */
static taut_status each_work(struct comparison *c,
	bool (*see)(struct comparison *c, struct tauti_instance *all, size_t n))
{
	bool ok = true;

	for (size_t i = 0; ok && i < c->works.all.count;) {
		size_t n = tauti_works_same(&c->works.all.data[i],
			c->works.all.count - i);

		ok = see(c, &c->works.all.data[i], n);
		i += n;
	}
	return ok ? TAUT_OK : TAUT_ENOMEM;
}

static taut_status compare_all(struct comparison *c)
{
	taut_status status = each_work(c, pace_work);

	if (!status)
		status = even_out(c);
	return status ? status : each_work(c, compare_work);
}

/* --- the median ------------------------------------------------------------------------*/

static int by_drag(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	COMPARE(drag);
	COMPARE(work);
	COMPARE(weight);
	return 0;
}

/* times: how often each work counts; NULL: once. Pairs are sorted. */
static double median(const struct comparison *c, const uint32_t *times)
{
	double half = 0, sum = 0, drag = 0;

	for (size_t i = 0; i < c->pairs.count; i++) {
		const struct pair *p = &c->pairs.data[i];

		half += p->weight * (times ? times[p->work] : 1) / 2;
	}
	for (size_t i = 0; i < c->pairs.count && sum < half; i++) {
		const struct pair *p = &c->pairs.data[i];

		drag = p->drag;
		sum += p->weight * (times ? times[p->work] : 1);
	}
	return drag;
}

/* How many works there would be if all counted alike. */
static double alike(const struct comparison *c, double *weight_of)
{
	double sum = 0, squares = 0;

	for (size_t i = 0; i < c->pairs.count; i++)
		weight_of[c->pairs.data[i].work] += c->pairs.data[i].weight;
	for (uint32_t i = 0; i < c->n_works; i++) {
		sum += weight_of[i];
		squares += weight_of[i] * weight_of[i];
	}
	return sum * sum / squares;
}

/* How much the median varies when the works are drawn anew; it is no surer than
 * not knowing, by the root of how many there are. */
static taut_status find_error(const struct comparison *c, double *ret)
{
	uint32_t *times = calloc((size_t)c->n_works + 1, sizeof *times);
	double *weight_of = calloc((size_t)c->n_works + 1, sizeof *weight_of);
	double mean = 0, square = 0, varies;
	uint64_t state = 1;

	if (!times || !weight_of) {
		free(times);
		free(weight_of);
		return TAUT_ENOMEM;
	}
	for (int r = 0; r < RESAMPLES; r++) {
		double drag;

		memset(times, 0, c->n_works * sizeof *times);
		for (uint32_t i = 0; i < c->n_works; i++)
			times[tauti_draw(&state) % c->n_works]++;
		drag = median(c, times);
		mean += drag / RESAMPLES;
		square += drag * drag / RESAMPLES;
	}
	varies = square > mean * mean ? sqrt(square - mean * mean) : 0;
	*ret = fmax(varies, TAUTI_DRAG_UNKNOWN / sqrt(alike(c, weight_of)));
	free(times);
	free(weight_of);
	return TAUT_OK;
}

/* What says less than not knowing is not believed. */
static taut_status settle(struct comparison *c)
{
	struct taut_costs *costs = c->costs;
	double drag, error;
	taut_status status;

	costs->drag = 0;
	costs->drag_error = TAUTI_DRAG_UNKNOWN;
	costs->n_drag = 0;
	if (!c->pairs.count)
		return TAUT_OK;
	qsort(c->pairs.data, c->pairs.count, sizeof *c->pairs.data, by_drag);
	drag = median(c, NULL);
	status = find_error(c, &error);
	if (status || error >= TAUTI_DRAG_UNKNOWN)
		return status;
	costs->drag = drag < 0 ? 0 : drag > MOST_DRAG ? MOST_DRAG : drag;
	costs->drag_error = error;
	costs->n_drag = c->n_compared;
	return TAUT_OK;
}

taut_status tauti_drag_measure(struct taut_costs *costs,
	const struct tauti_flow_time *times, const int64_t *start_ns,
	const int64_t *dur_ns, struct taut_error *err)
{
	struct comparison c = { .costs = costs };
	struct tauti_load load;
	taut_status status = tauti_load_init(&load, costs, times, err);

	if (status)
		return status;
	status = tauti_works_find(costs, &load, start_ns, dur_ns, &c.works);
	if (!status)
		status = compare_all(&c);
	if (!status)
		status = settle(&c);
	tauti_load_fini(&load);
	taut_vec_free(&c.works.all);
	taut_vec_free(&c.pairs);
	taut_vec_free(&c.paces);
	return status ? taut_error_set(err, status, -1,
		"no memory to compare operations") : TAUT_OK;
}

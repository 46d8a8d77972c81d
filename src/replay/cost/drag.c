/* drag.c - how much slower a rank computes while transfers are under way.
 *
 * An operation that takes dur while e of that, times their rates, was moved
 * beside it, would have taken
 *     work = dur - drag e
 * alone. Two operations of the same work, i beside transfers and k not, tell
 *     drag = (dur_i - dur_k) / (e_i - e_k)
 * The drag is the median of these, weighted by e_i - e_k. Operations that are
 * partly beside transfers are left out: of those that began before a transfer
 * did, the ones that happened to be long are the ones that it reached. Same work
 * is: the same
 * operator on inputs of the same sizes, called by the same operator, on the same
 * thread; where sizes are not recorded, the same place among the operators of
 * its name in a step. Times alone never say that work is the same. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"

#define LEAST_DUR_NS 5000   /* shorter ones tell of the clock */
#define BESIDE 0.9          /* of its time, at least, and something moved */
#define ALONE 0.1           /* of its time, at most */
#define MOST_OF_A_KIND 48   /* operations of one work that are compared */
#define MOST_DRAG 0.9
#define RESAMPLES 100

struct instance { /* one operator, once: all slices of its event */
	uint32_t rank, lane, name, caller, sizes, place;
	uint32_t event;
	double dur;    /* ns */
	double beside; /* of transfers, ns at rate 1 */
	double busy;   /* how long there were any, ns */
};

struct pair {
	double drag, weight;
	uint32_t work;
};

struct comparison {
	struct taut_costs *costs;
	const int64_t *start_ns, *dur_ns;
	struct tauti_load load;
	TAUT_VEC(struct instance) all;
	TAUT_VEC(struct pair) pairs;
	uint32_t n_works, n_compared;
};

/* --- operations of a rank ---------------------------------------------------------*/

/* By row: the name of the event around it on its lane; 0: none. */
static bool find_callers(const struct taut_trace *t, uint32_t lane,
	uint32_t *ret_caller)
{
	TAUT_VEC(uint32_t) open = { 0 };
	bool ok = true;

	for (uint32_t i = t->lane_begin[lane]; ok && i < t->lane_begin[lane + 1];
		i++) {
		int64_t end = t->start_ns[i] + t->dur_ns[i];

		while (open.count) {
			uint32_t around = open.data[open.count - 1];

			if (t->start_ns[around] + t->dur_ns[around] >= end)
				break;
			open.count--;
		}
		ret_caller[i] = open.count ?
			t->name[open.data[open.count - 1]] : 0;
		ok = taut_vec_push(&open, i);
	}
	taut_vec_free(&open);
	return ok;
}

static bool is_step(const struct taut_graph *g, uint32_t trace, uint32_t step)
{
	return step < g->n_steps && g->steps[step].trace == trace;
}

/* What begins a transfer is beside it by its nature. */
static bool computes(const struct taut_trace *t, uint32_t row)
{
	return t->kind[row] == TAUT_KIND_KERNEL ||
		(t->kind[row] == TAUT_KIND_OP && (!t->args ||
			!taut_trace_comm(t, row)));
}

/* Operations of a lane into instances by event, a slice into the instance that
 * its event began. at: by row, index of its instance or TAUT_NONE. */
static bool gather(struct comparison *c, uint32_t lane,
	const uint32_t *caller, uint32_t *at)
{
	const struct taut_graph *g = c->costs->graph;
	uint32_t rank = g->lanes[lane].trace;
	const struct taut_trace *t = &g->run->traces[rank];
	bool ok = true;

	for (uint32_t op = g->lane_begin[lane];
		ok && op < g->lane_begin[lane + 1]; op++) {
		uint32_t row = g->event[op];
		int64_t start = c->start_ns[op], end = start + c->dur_ns[op];
		struct tauti_moved from, to;
		struct instance new = { .rank = rank, .lane = lane,
			.name = g->name[op], .event = row };

		if (row == TAUT_NONE || !computes(t, row))
			continue;
		if (at[row] == TAUT_NONE) {
			new.caller = caller[row];
			new.sizes = t->sizes ? t->sizes[row] : 0;
			at[row] = (uint32_t)c->all.count;
			ok = taut_vec_push(&c->all, new);
		}
		if (!ok)
			break;
		from = tauti_load_until(&c->load, rank, start);
		to = tauti_load_until(&c->load, rank, end);
		c->all.data[at[row]].dur += (double)(end - start);
		c->all.data[at[row]].beside += to.amount - from.amount;
		c->all.data[at[row]].busy +=
			(double)(to.busy_ns - from.busy_ns);
	}
	return ok;
}

static bool gather_lane(struct comparison *c, uint32_t lane)
{
	const struct taut_graph *g = c->costs->graph;
	const struct taut_trace *t = &g->run->traces[g->lanes[lane].trace];
	size_t n = t->n_events + 1;
	uint32_t *caller = calloc(n, sizeof *caller);
	uint32_t *at = malloc(n * sizeof *at);
	bool ok = caller && at;

	if (ok)
		memset(at, 0xff, n * sizeof *at);
	if (ok && g->lanes[lane].kind == TAUT_LANE_THREAD)
		ok = find_callers(t, g->lanes[lane].trace_lane, caller);
	ok = ok && gather(c, lane, caller, at);
	free(caller);
	free(at);
	return ok;
}

/* Without sizes: the how manyeth of its name it is in its step, from 1 on. */
static bool number_places(struct comparison *c, size_t first)
{
	const struct taut_graph *g = c->costs->graph;
	uint32_t n_names = taut_names_count(g->names), step = 0;
	uint32_t *seen, lane;
	const struct taut_trace *t;

	if (first == c->all.count)
		return true;
	lane = c->all.data[first].lane;
	t = &g->run->traces[g->lanes[lane].trace];
	seen = calloc((size_t)n_names + 1, sizeof *seen);
	if (!seen)
		return false;
	while (step < g->n_steps && !is_step(g, g->lanes[lane].trace, step))
		step++;
	for (size_t i = first; i < c->all.count; i++) {
		struct instance *one = &c->all.data[i];
		int64_t at = taut_graph_time(g, one->rank,
			t->start_ns[one->event]);

		while (is_step(g, one->rank, step) &&
			at >= g->steps[step].end_ns) {
			step++;
			memset(seen, 0, n_names * sizeof *seen);
		}
		if (!one->sizes)
			one->place = ++seen[one->name];
	}
	free(seen);
	return true;
}

static taut_status gather_all(struct comparison *c)
{
	const struct taut_graph *g = c->costs->graph;
	uint8_t *has_device = tauti_devices(g, c->costs->site.n_ranks);
	bool ok = has_device != NULL;

	for (uint32_t i = 0; ok && g->run && i < g->n_lanes; i++) {
		size_t first = c->all.count;

		if (tauti_computes(g, i, has_device))
			ok = gather_lane(c, i) && number_places(c, first);
	}
	free(has_device);
	return ok ? TAUT_OK : TAUT_ENOMEM;
}

/* --- comparisons ----------------------------------------------------------------------*/

#define COMPARE(field) \
	if (x->field != y->field) \
		return x->field < y->field ? -1 : 1

static int same_work(const struct instance *x, const struct instance *y)
{
	COMPARE(rank);
	COMPARE(lane);
	COMPARE(name);
	COMPARE(caller);
	COMPARE(sizes);
	COMPARE(place);
	return 0;
}

static int by_work(const void *a, const void *b)
{
	const struct instance *x = a, *y = b;
	int work = same_work(x, y);

	if (work)
		return work;
	COMPARE(event);
	return 0;
}

/* 1: all of it was beside transfers, 0: none, -1: neither, or too short. */
static int is_beside(const struct instance *x)
{
	double share = x->busy / x->dur;

	if (x->dur < LEAST_DUR_NS)
		return -1;
	return share >= BESIDE ? 1 : share <= ALONE ? 0 : -1;
}

static bool compare(struct comparison *c, const struct instance *x,
	const struct instance *y, double share)
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
	struct comparison *c, const struct instance *all, size_t n)
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

static taut_status compare_all(struct comparison *c)
{
	bool ok = true;

	if (c->all.count)
		qsort(c->all.data, c->all.count, sizeof *c->all.data, by_work);
	for (size_t i = 0; ok && i < c->all.count;) {
		size_t n = 1;

		while (i + n < c->all.count && !same_work(&c->all.data[i],
				&c->all.data[i + n]))
			n++;
		ok = compare_work(c, &c->all.data[i], n);
		i += n;
	}
	return ok ? TAUT_OK : TAUT_ENOMEM;
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
	struct comparison c = { .costs = costs, .start_ns = start_ns,
		.dur_ns = dur_ns };
	taut_status status = tauti_load_init(&c.load, costs, times, err);

	if (status)
		return status;
	status = gather_all(&c);
	if (!status)
		status = compare_all(&c);
	if (!status)
		status = settle(&c);
	tauti_load_fini(&c.load);
	taut_vec_free(&c.all);
	taut_vec_free(&c.pairs);
	return status ? taut_error_set(err, status, -1,
		"no memory to compare operations") : TAUT_OK;
}

/* works.c - operators by what they did.
 *
 * Same work is: the same operator on inputs of the same sizes, called by the
 * same operator, on the same thread; where sizes are not recorded, the same
 * place among the operators of its name in a step. Times alone never say that
 * work is the same. */
#include <stdlib.h>
#include <string.h>

#include "works.h"

struct finder {
	const struct taut_costs *costs;
	const struct tauti_load *load;
	const int64_t *start_ns, *dur_ns;
	struct tauti_instances *all;
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
static bool gather(struct finder *f, uint32_t lane,
	const uint32_t *caller, uint32_t *at)
{
	const struct taut_graph *g = f->costs->graph;
	uint32_t rank = g->lanes[lane].trace;
	const struct taut_trace *t = &g->run->traces[rank];
	bool ok = true;

	for (uint32_t op = g->lane_begin[lane];
		ok && op < g->lane_begin[lane + 1]; op++) {
		uint32_t row = g->event[op];
		int64_t start = f->start_ns[op], end = start + f->dur_ns[op];
		struct tauti_moved from, to;
		struct tauti_instance new = { .rank = rank, .lane = lane,
			.name = g->name[op], .event = row };

		if (row == TAUT_NONE || !computes(t, row))
			continue;
		if (at[row] == TAUT_NONE) {
			new.caller = caller[row];
			new.sizes = t->sizes ? t->sizes[row] : 0;
			at[row] = (uint32_t)f->all->all.count;
			ok = taut_vec_push(&f->all->all, new);
		}
		if (!ok)
			break;
		from = tauti_load_until(f->load, rank, start);
		to = tauti_load_until(f->load, rank, end);
		f->all->all.data[at[row]].dur += (double)(end - start);
		f->all->all.data[at[row]].beside += to.amount - from.amount;
		f->all->all.data[at[row]].busy +=
			(double)(to.busy_ns - from.busy_ns);
	}
	return ok;
}

static bool gather_lane(struct finder *f, uint32_t lane)
{
	const struct taut_graph *g = f->costs->graph;
	const struct taut_trace *t = &g->run->traces[g->lanes[lane].trace];
	size_t n = t->n_events + 1;
	uint32_t *caller = calloc(n, sizeof *caller);
	uint32_t *at = malloc(n * sizeof *at);
	bool ok = caller && at;

	if (ok)
		memset(at, 0xff, n * sizeof *at);
	if (ok && g->lanes[lane].kind == TAUT_LANE_THREAD)
		ok = find_callers(t, g->lanes[lane].trace_lane, caller);
	ok = ok && gather(f, lane, caller, at);
	free(caller);
	free(at);
	return ok;
}

/* Without sizes: the how manyeth of its name it is in its step, from 1 on. */
static bool number_places(struct finder *f, size_t first)
{
	const struct taut_graph *g = f->costs->graph;
	uint32_t n_names = taut_names_count(g->names), step = 0;
	uint32_t *seen, lane;
	const struct taut_trace *t;

	if (first == f->all->all.count)
		return true;
	lane = f->all->all.data[first].lane;
	t = &g->run->traces[g->lanes[lane].trace];
	seen = calloc((size_t)n_names + 1, sizeof *seen);
	if (!seen)
		return false;
	while (step < g->n_steps && !is_step(g, g->lanes[lane].trace, step))
		step++;
	for (size_t i = first; i < f->all->all.count; i++) {
		struct tauti_instance *one = &f->all->all.data[i];
		int64_t at = taut_graph_time(g, one->rank,
			t->start_ns[one->event]);

		while (is_step(g, one->rank, step) &&
			at >= g->steps[step].end_ns) {
			step++;
			memset(seen, 0, n_names * sizeof *seen);
		}
		one->step = step;
		if (!one->sizes)
			one->place = ++seen[one->name];
	}
	free(seen);
	return true;
}

static taut_status gather_all(struct finder *f)
{
	const struct taut_graph *g = f->costs->graph;
	uint8_t *has_device = tauti_devices(g, f->costs->site.n_ranks);
	bool ok = has_device != NULL;

	for (uint32_t i = 0; ok && g->run && i < g->n_lanes; i++) {
		size_t first = f->all->all.count;

		if (tauti_computes(g, i, has_device))
			ok = gather_lane(f, i) && number_places(f, first);
	}
	free(has_device);
	return ok ? TAUT_OK : TAUT_ENOMEM;
}

/* --- works -----------------------------------------------------------------------*/

#define COMPARE(field) \
	if (x->field != y->field) \
		return x->field < y->field ? -1 : 1


static int same_work(const struct tauti_instance *x, const struct tauti_instance *y)
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
	const struct tauti_instance *x = a, *y = b;
	int work = same_work(x, y);

	if (work)
		return work;
	COMPARE(event);
	return 0;
}

size_t tauti_works_same(const struct tauti_instance *first, size_t n)
{
	size_t same = 1;

	while (same < n && !same_work(first, &first[same]))
		same++;
	return same;
}

taut_status tauti_works_find(const struct taut_costs *costs,
	const struct tauti_load *load, const int64_t *start_ns,
	const int64_t *dur_ns, struct tauti_instances *instances)
{
	struct finder f = { costs, load, start_ns, dur_ns, instances };
	taut_status status = gather_all(&f);

	if (!status && instances->all.count)
		qsort(instances->all.data, instances->all.count,
			sizeof *instances->all.data, by_work);
	return status;
}

/* scale.c - computation whose size changes.
 *
 *     time = fixed + variable, of which variable grows with the size
 *
 * An operation of a name has a part that no size takes away: to be called, to be
 * launched. It is no longer than the shortest of that name in the recording, and
 * no longer than the shortest of most names on such a lane, for those do next to
 * nothing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "cost.h"

static bool is_device(const struct taut_graph *g, uint32_t op)
{
	return g->lanes[g->lane[op]].kind == TAUT_LANE_STREAM;
}

static bool is_work(const struct taut_graph *g, uint32_t op)
{
	return g->kind[op] == TAUT_OP_HOST || g->kind[op] == TAUT_OP_KERNEL ||
		g->kind[op] == TAUT_OP_COPY;
}

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* The median over names of the shortest of each. */
static taut_status find_usual(const struct taut_graph *g,
	const int64_t *least_ns, bool device, int64_t *ret_ns)
{
	uint32_t n_names = taut_names_count(g->names);
	uint8_t *seen = calloc((size_t)n_names + 1, 1);
	TAUT_VEC(int64_t) shortest = { 0 };
	bool ok = seen != NULL;

	for (uint32_t op = 0; ok && op < g->n_ops; op++) {
		if (!is_work(g, op) || is_device(g, op) != device ||
			seen[g->name[op]])
			continue;
		seen[g->name[op]] = 1;
		ok = taut_vec_push(&shortest, least_ns[g->name[op]]);
	}
	if (ok && shortest.count) {
		qsort(shortest.data, shortest.count, sizeof *shortest.data,
			by_size);
		*ret_ns = shortest.data[shortest.count / 2];
	}
	taut_vec_free(&shortest);
	free(seen);
	return ok ? TAUT_OK : TAUT_ENOMEM;
}

taut_status tauti_scale_learn(struct taut_costs *costs, struct taut_error *err)
{
	const struct taut_graph *g = costs->graph;
	size_t n = (size_t)taut_names_count(g->names) + 1;
	taut_status status = TAUT_ENOMEM;

	costs->least_ns = malloc(n * sizeof *costs->least_ns);
	if (costs->least_ns) {
		for (size_t i = 0; i < n; i++)
			costs->least_ns[i] = INT64_MAX;
		for (uint32_t op = 0; op < g->n_ops; op++)
			if (is_work(g, op) && costs->dur_ns[op] <
					costs->least_ns[g->name[op]])
				costs->least_ns[g->name[op]] =
					costs->dur_ns[op];
		status = find_usual(g, costs->least_ns, false,
			&costs->fixed_host_ns);
		if (!status)
			status = find_usual(g, costs->least_ns, true,
				&costs->fixed_device_ns);
	}
	return status ? taut_error_set(err, status, -1,
		"no memory for the shortest of %zu names", n - 1) : TAUT_OK;
}

static double fixed_part(const struct taut_costs *costs, uint32_t op, int side)
{
	const struct taut_graph *g = costs->graph;
	int64_t dur = costs->dur_ns[op], least = costs->least_ns[g->name[op]];
	int64_t usual = is_device(g, op) ? costs->fixed_device_ns :
		costs->fixed_host_ns;

	least = least < dur ? least : dur;
	if (side < 0)
		return 0;
	return (double)(side > 0 ? least : least < usual ? least : usual);
}

double taut_costs_scaled_op(const struct taut_costs *costs, uint32_t op,
	double factor, int side)
{
	/* a larger fixed part is less time when the size grows, more when it
	 * shrinks */
	double fixed = fixed_part(costs, op, factor > 1 ? -side : side);

	return fixed + ((double)costs->dur_ns[op] - fixed) * factor;
}

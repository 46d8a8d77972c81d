/* rank.c - one rank stands for all: are they alike, and its graph alone. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/fusion/own.h"

static uint32_t lane_size(const struct taut_graph *g, uint32_t lane)
{
	return g->lane_begin[lane + 1] - g->lane_begin[lane];
}

static double lane_ns(const struct taut_graph *g, uint32_t lane)
{
	double sum = 0;

	for (uint32_t i = g->lane_begin[lane]; i < g->lane_begin[lane + 1]; i++)
		sum += (double)g->dur_ns[i];
	return sum;
}

static taut_status differ(const struct taut_graph *g, uint32_t a, uint32_t b,
	const char *what, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EMATCH, -1, "ranks are not alike, so no "
		"one stands for all: lanes %u (of rank %u) and %u (of rank %u) "
		"differ in %s", a, g->lanes[a].trace, b, g->lanes[b].trace, what);
}

static taut_status compare_lanes(const struct taut_graph *g, uint32_t a,
	uint32_t b, double alike, struct taut_error *err)
{
	uint32_t n = lane_size(g, a);
	double x, y;

	if (g->lanes[a].kind != g->lanes[b].kind || lane_size(g, b) != n)
		return differ(g, a, b, "kind or number of operations", err);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t p = g->lane_begin[a] + i, q = g->lane_begin[b] + i;

		if (g->kind[p] != g->kind[q] || g->name[p] != g->name[q])
			return differ(g, a, b, "their operations", err);
	}
	x = lane_ns(g, a);
	y = lane_ns(g, b);
	if (fabs(x - y) > alike * (x > y ? x : y))
		return differ(g, a, b, "how long they take", err);
	return TAUT_OK;
}

static uint32_t next_lane(const struct taut_graph *g, uint32_t rank, uint32_t lane)
{
	while (lane < g->n_lanes && g->lanes[lane].trace != rank)
		lane++;
	return lane;
}

static taut_status compare_ranks(const struct taut_graph *g, uint32_t rank,
	uint32_t other, double alike, struct taut_error *err)
{
	uint32_t a = next_lane(g, rank, 0), b = next_lane(g, other, 0);
	taut_status status = TAUT_OK;

	while (!status && a < g->n_lanes && b < g->n_lanes) {
		status = compare_lanes(g, a, b, alike, err);
		a = next_lane(g, rank, a + 1);
		b = next_lane(g, other, b + 1);
	}
	if (!status && (a < g->n_lanes || b < g->n_lanes))
		return taut_error_set(err, TAUT_EMATCH, -1, "ranks are not alike, "
			"so no one stands for all: %u and %u have different "
			"numbers of lanes", rank, other);
	return status;
}

static taut_status take_others_out(struct tauti_fusion *f,
	const struct tauti_fusion_in *in, uint32_t rank, uint32_t *op_of,
	struct taut_error *err)
{
	double alike = in->alike > 0 ? in->alike : 0.05;
	struct taut_edit *edit;
	taut_status status = taut_edit_create(in->graph, &edit, err);

	if (status)
		return status;
	for (uint32_t r = 0; !status && r < taut_edit_ranks(edit); r++) {
		if (r == rank || next_lane(in->graph, r, 0) >= in->graph->n_lanes)
			continue;
		status = compare_ranks(in->graph, rank, r, alike, err);
		if (!status)
			status = taut_edit_remove_rank(edit, r, err);
	}
	if (!status)
		status = taut_edit_build(edit, &f->own_graph, op_of, NULL, err);
	taut_edit_destroy(edit);
	return status;
}

static bool has_others(const struct taut_graph *g, uint32_t rank)
{
	for (uint32_t i = 0; i < g->n_lanes; i++)
		if (g->lanes[i].trace != rank && g->lanes[i].trace != TAUT_NONE)
			return true;
	return false;
}

taut_status tauti_fusion_one_rank(struct tauti_fusion *f,
	const struct tauti_fusion_in *in, uint32_t **ret_op_of,
	struct taut_error *err)
{
	uint32_t rank = in->graph->lanes[in->graph->lane[in->ops[0].op]].trace;
	uint32_t *op_of = TAUT_ARENA_ARRAY(
		f->arena, uint32_t, in->graph->n_ops);
	taut_status status = TAUT_OK;

	if (!op_of)
		return tauti_fusion_no_memory(err);
	for (uint32_t i = 0; i < in->graph->n_ops; i++)
		op_of[i] = i;
	if (has_others(in->graph, rank))
		status = take_others_out(f, in, rank, op_of, err);
	if (status)
		return status;
	f->graph = f->own_graph ? f->own_graph : in->graph;
	*ret_op_of = op_of;
	return TAUT_OK;
}

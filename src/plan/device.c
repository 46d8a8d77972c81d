/* device.c - whether a job's passes can be CUDA graphs. */
#include <string.h>

#include "plan/plan.h"

/* The whole of a backward pass is one launch: its gradients are all there at its end, and
 * nothing of their sums can go under it, which a prediction would promise. */
static const char of_several_ranks[] = "gradients of several ranks would all be summed "
	"behind the backward pass, not under it: of one rank alone they are decided";

static bool has_stream(const struct taut_graph *graph)
{
	for (uint32_t l = 0; l < graph->n_lanes; l++)
		if (graph->lanes[l].kind == TAUT_LANE_STREAM)
			return true;
	return false;
}

/* What is predicted with such a wait is a graph on either side of it; a job is given one
 * for each pass. */
static taut_status find_waits(const struct taut_graph *graph,
	struct taut_arena *arena, const char **ret_why, struct taut_error *err)
{
	static const char *const changes[] = { "graphs" };
	const struct taut_whatif_options options = { .no_graph = 1,
		.runs_differ = -1 };
	struct taut_prediction *p;
	struct taut_error why;
	taut_status status = taut_predict(
		graph, changes, 1, &options, &p, &why);

	if (status == TAUT_EINVAL || status == TAUT_EMATCH) {
		*ret_why = NULL; /* whoever tries it is told */
		return TAUT_OK;
	}
	if (status)
		return taut_error_set(err, status, -1, "%s", why.message);
	for (uint32_t i = 0; i < p->n_notes; i++)
		if (strstr(p->notes[i], TAUTI_WAITS_WITHIN))
			*ret_why = taut_arena_printf(arena, TAUTI_WAITS_WITHIN
				", which no graph can hold");
	taut_prediction_destroy(p);
	return TAUT_OK;
}

taut_status tauti_plan_graphs(const struct taut_graph *graph, uint32_t n_ranks,
	struct taut_arena *arena, const char **ret_why, struct taut_error *err)
{
	*ret_why = NULL;
	if (!has_stream(graph))
		*ret_why = "";
	else if (n_ranks > 1)
		*ret_why = of_several_ranks;
	return *ret_why ? TAUT_OK : find_waits(graph, arena, ret_why, err);
}

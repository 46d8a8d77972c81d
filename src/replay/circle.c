/* circle.c - which operations wait for each other in a circle.
 *
 * Every op that did not run waits for one that did not run either. Going
 * back along such waits, as many steps as there are such ops, must end in a
 * circle. */
#include "replay.h"

#include <stdio.h>

struct circle {
	const struct taut_graph *graph;
	const uint32_t *pending;
	uint32_t *back; /* of an op that did not run: another, the lowest, that
	                   it waits for */
};

static int did_run(const struct circle *circle, uint32_t op)
{
	return !(circle->pending[op] & ~TAUTI_ON_LANE);
}

static void link_back(struct circle *circle, uint32_t op, uint32_t pred)
{
	if (!did_run(circle, op) && circle->back[op] == TAUT_NONE)
		circle->back[op] = pred;
}

static void link_all(struct circle *circle, const uint8_t *mute)
{
	const struct taut_graph *graph = circle->graph;
	for (uint32_t op = 0; op < graph->n_ops; op++) {
		if (!did_run(circle, op))
			circle->back[op] = TAUT_NONE;
	}
	for (uint32_t op = 0; op < graph->n_ops; op++) {
		if (did_run(circle, op))
			continue;
		if (circle->pending[op + 1] & TAUTI_ON_LANE)
			link_back(circle, op + 1, op);
		if (mute && mute[op])
			continue;
		for (uint32_t i = graph->edge_begin[op];
				i < graph->edge_begin[op + 1]; i++)
			link_back(circle, graph->edge_to[i], op);
	}
}

/* The lowest op of a circle, and how many there are in it. */
static uint32_t find_circle(const struct circle *circle, uint32_t *ret_len)
{
	uint32_t n_ops = circle->graph->n_ops, at = 0, lowest, len = 1;
	while (did_run(circle, at))
		at++;
	for (uint32_t i = 0; i < n_ops; i++)
		at = circle->back[at];
	lowest = at;
	for (uint32_t op = circle->back[at]; op != at; op = circle->back[op]) {
		lowest = op < lowest ? op : lowest;
		len++;
	}
	*ret_len = len;
	return lowest;
}

static void describe_lane(const struct taut_graph *graph, uint32_t index,
	char *ret_text, size_t size)
{
	const struct taut_graph_lane *lane = &graph->lanes[index];
	if (lane->trace == TAUT_NONE) {
		snprintf(ret_text, size, "joins");
		return;
	}
	if (!graph->run || lane->trace >= graph->run->n_traces) {
		snprintf(ret_text, size, "lane %u", (unsigned)index);
		return;
	}
	const struct taut_trace *trace = &graph->run->traces[lane->trace];
	const char *what =
		lane->kind == TAUT_LANE_STREAM ? "stream" : "thread";
	long long tid = lane->trace_lane < trace->n_lanes
		? (long long)trace->lanes[lane->trace_lane].tid : -1;
	snprintf(ret_text, size, "rank %d %s %lld",
		(int)trace->rank, what, tid);
}

void tauti_replay_describe(const struct taut_graph *graph, uint32_t op,
	char *ret_text, size_t size)
{
	char lane[64];
	describe_lane(graph, graph->lane[op], lane, sizeof lane);
	snprintf(ret_text, size, "%s op %u (%.100s)", lane, (unsigned)op,
		tauti_replay_name(graph, op));
}

taut_status tauti_replay_circle(const struct taut_graph *graph,
	const uint8_t *mute, const struct taut_timeline *timeline,
	struct taut_error *reterr)
{
	const struct tauti_scratch *scratch = timeline->scratch;
	struct circle circle = {
		graph, scratch->pending, timeline->decided_by
	};
	uint32_t len;
	char waits[200], other[200];

	link_all(&circle, mute);
	uint32_t op = find_circle(&circle, &len);
	tauti_replay_describe(graph, op, waits, sizeof waits);
	tauti_replay_describe(graph, circle.back[op], other, sizeof other);
	return taut_error_set(reterr, TAUT_EMATCH, -1,
		"circle of waits, %u long: %s waits for %s",
		(unsigned)len, waits, other);
}

/* timeline.c - a timeline's memory, and the checks that let the core add
 * without looking. */
#include "replay.h"

/* Every start is a sum along a path of waits, and meets each duration, gap
 * and lag at most once: three sums below this cannot overflow 64 bits. */
#define SUM_LIMIT_NS ((int64_t)1 << 60)

static taut_status too_long(struct taut_error *err, const char *what)
{
	return taut_error_set(err, TAUT_EINVAL, -1,
		"the %s of all operations add up to 2^60 ns or more", what);
}

static taut_status check_durations(
	const int64_t *dur_ns, uint32_t n, struct taut_error *err)
{
	int64_t left_ns = SUM_LIMIT_NS;
	for (uint32_t i = 0; i < n; i++) {
		if (dur_ns[i] < 0)
			return taut_error_set(err, TAUT_EINVAL, -1,
				"operation %u: duration %lld ns is negative",
				(unsigned)i, (long long)dur_ns[i]);
		if (dur_ns[i] >= left_ns)
			return too_long(err, "durations");
		left_ns -= dur_ns[i];
	}
	return TAUT_OK;
}

/* Gaps or lags. */
static taut_status check_signed(const int64_t *ns, uint32_t n,
	const char *what, struct taut_error *err)
{
	int64_t left_ns = SUM_LIMIT_NS;
	for (uint32_t i = 0; i < n; i++) {
		if (ns[i] >= left_ns || ns[i] <= -left_ns)
			return too_long(err, what);
		left_ns -= ns[i] < 0 ? -ns[i] : ns[i];
	}
	return TAUT_OK;
}

static taut_status check_graph(
	const struct taut_graph *graph, struct taut_error *err)
{
	if (graph->n_ops == TAUT_NONE || graph->n_edges > TAUTI_MAX_EDGES)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"%u operations with %u waits cannot be numbered",
			(unsigned)graph->n_ops, (unsigned)graph->n_edges);
	taut_status status = check_durations(graph->dur_ns, graph->n_ops, err);
	if (!status)
		status = check_signed(
			graph->gap_ns, graph->n_ops, "gaps", err);
	if (!status)
		status = check_signed(
			graph->edge_lag_ns, graph->n_edges, "lags", err);
	return status;
}

taut_status tauti_replay_check(const struct taut_graph *graph,
	const struct taut_replay_edit *edit,
	const struct tauti_scratch *scratch, struct taut_error *reterr)
{
	taut_status status = TAUT_OK;
	if (!scratch || scratch->graph != graph)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"the timeline was made for another graph");
	if (edit && edit->dur_ns)
		status = check_durations(edit->dur_ns, graph->n_ops, reterr);
	if (!status && edit && edit->gap_ns)
		status = check_signed(
			edit->gap_ns, graph->n_ops, "gaps", reterr);
	return status;
}

/* How many ops can be ready at once: one of each lane, and every join. */
static size_t widest_frontier(const struct taut_graph *graph)
{
	size_t n = 0;
	for (uint32_t i = 0; i < graph->n_lanes; i++) {
		if (tauti_is_serial(&graph->lanes[i]))
			n++;
		else
			n += graph->lane_begin[i + 1] - graph->lane_begin[i];
	}
	return n;
}

static void count_waits(const struct taut_graph *graph, uint32_t *ret_pending)
{
	for (uint32_t i = 0; i < graph->n_edges; i++)
		ret_pending[graph->edge_to[i]]++;
	for (uint32_t i = 0; i < graph->n_lanes; i++) {
		if (!tauti_is_serial(&graph->lanes[i]))
			continue;
		for (uint32_t op = graph->lane_begin[i] + 1;
				op < graph->lane_begin[i + 1]; op++)
			ret_pending[op] = (ret_pending[op] + 1) | TAUTI_ON_LANE;
	}
}

static void pack_waits(const struct taut_graph *graph, struct tauti_wait *ret)
{
	for (uint32_t i = 0; i < graph->n_edges; i++) {
		ret[i].to = graph->edge_to[i];
		ret[i].lag_ns = graph->edge_lag_ns[i];
		ret[i].from_start =
			graph->edge_kind[i] & TAUT_EDGE_FROM_START;
	}
}

static int get_outputs(struct taut_timeline *timeline, struct taut_arena *arena)
{
	size_t n = timeline->n_ops;
	timeline->start_ns = TAUT_ARENA_ARRAY(arena, int64_t, n);
	timeline->end_ns = TAUT_ARENA_ARRAY(arena, int64_t, n);
	timeline->decided_by = TAUT_ARENA_ARRAY(arena, uint32_t, n);
	timeline->order = TAUT_ARENA_ARRAY(arena, uint32_t, n);
	return timeline->start_ns && timeline->end_ns &&
		timeline->decided_by && timeline->order;
}

static int get_scratch(struct taut_timeline *timeline, struct taut_arena *arena,
	const struct taut_graph *graph)
{
	size_t n = (size_t)graph->n_ops + 1;
	uint32_t *all_pending = TAUT_ARENA_ARRAY(arena, uint32_t, n);
	struct tauti_wait *waits =
		TAUT_ARENA_ARRAY(arena, struct tauti_wait, graph->n_edges);
	struct tauti_scratch *scratch =
		TAUT_ARENA_ARRAY(arena, struct tauti_scratch, 1);
	if (!all_pending || !waits || !scratch)
		return 0;
	count_waits(graph, all_pending);
	pack_waits(graph, waits);
	scratch->arena = arena;
	scratch->graph = graph;
	scratch->all_pending = all_pending;
	scratch->waits = waits;
	scratch->pending = TAUT_ARENA_ARRAY(arena, uint32_t, n);
	scratch->heap = TAUT_ARENA_ARRAY(arena, struct ready_op,
		widest_frontier(graph) + READY_SPARE);
	scratch->sweep = TAUT_ARENA_ARRAY(arena, uint32_t, graph->n_ops);
	timeline->scratch = scratch;
	return scratch->pending && scratch->heap && scratch->sweep;
}

taut_status taut_timeline_init(struct taut_timeline *timeline,
	const struct taut_graph *graph, struct taut_error *reterr)
{
	struct taut_timeline made = { .n_ops = graph->n_ops };
	taut_status status = check_graph(graph, reterr);
	if (status)
		return status;
	struct taut_arena *arena = taut_arena_create();
	if (!arena || !get_outputs(&made, arena) ||
			!get_scratch(&made, arena, graph)) {
		taut_arena_destroy(arena);
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"no memory to replay %u operations",
			(unsigned)graph->n_ops);
	}
	*timeline = made;
	return TAUT_OK;
}

void taut_timeline_fini(struct taut_timeline *timeline)
{
	if (!timeline)
		return;
	struct tauti_scratch *scratch = timeline->scratch;
	if (scratch)
		taut_arena_destroy(scratch->arena);
	*timeline = (struct taut_timeline){ 0 };
}

/* rank.c - one rank's workspace, its main thread and its steps. */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

static bool is_step(const struct taut_trace *t, uint32_t row)
{
	return t->kind[row] == TAUT_KIND_STEP;
}

/* Events of a thread's own work; communication may run on lanes that are no
 * threads, and loaders are other processes. */
static bool is_work(uint8_t kind)
{
	return kind != TAUT_KIND_OVERHEAD && kind != TAUT_KIND_COMM &&
		kind != TAUT_KIND_LOAD;
}

/* The thread with the step marks; without any, the busiest host thread, and
 * among those that only communicate the first of the process. */
static uint32_t find_main_lane(const struct taut_trace *t)
{
	uint32_t best = TAUT_NONE;
	uint64_t best_score = 0;

	for (uint32_t l = 0; l < t->n_lanes; l++) {
		uint64_t count = 0, score;

		if (t->lanes[l].kind != TAUT_LANE_THREAD ||
			t->lane_begin[l] == t->lane_begin[l + 1])
			continue;
		for (uint32_t i = t->lane_begin[l]; i < t->lane_begin[l + 1]; i++) {
			if (is_step(t, i))
				return l;
			count += is_work(t->kind[i]);
		}
		score = count * 4 + (t->lanes[l].pid == t->lanes[l].tid) * 2 + 1;
		if (score > best_score) {
			best = l;
			best_score = score;
		}
	}
	return best;
}

static uint32_t *filled(size_t n)
{
	uint32_t *ids = malloc((n + 1) * sizeof *ids);

	if (ids)
		memset(ids, 0xff, (n + 1) * sizeof *ids);
	return ids;
}

taut_status tauti_rank_init(struct tauti_rank *rank,
	const struct taut_trace *trace, uint32_t index,
	const struct taut_graph_options *options, struct taut_error *err)
{
	size_t n = trace->n_events;

	memset(rank, 0, sizeof *rank);
	rank->trace = trace;
	rank->options = options;
	rank->index = index;
	rank->main_lane = find_main_lane(trace);
	rank->comm_lane = calloc(trace->n_lanes + 1, sizeof *rank->comm_lane);
	rank->load_lane = calloc(trace->n_lanes + 1, sizeof *rank->load_lane);
	rank->shadow_lane = calloc(trace->n_lanes + 1,
		sizeof *rank->shadow_lane);
	rank->lane_begin = calloc(trace->n_lanes + 1, sizeof(uint32_t));
	rank->free_at = malloc((n + 1) * sizeof *rank->free_at);
	rank->launched_at = malloc((n + 1) * sizeof *rank->launched_at);
	rank->launch_of = filled(n);
	rank->call_of = filled(n);
	rank->comm_of = filled(n);
	rank->op_of = filled(n);
	if (!rank->comm_lane || !rank->load_lane ||
		!rank->shadow_lane || !rank->lane_begin || !rank->free_at ||
		!rank->launched_at || !rank->launch_of || !rank->call_of || !rank->comm_of ||
		!rank->op_of)
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"%s: no memory for its graph", trace->path);
	if (rank->main_lane == TAUT_NONE)
		return taut_error_set(err, TAUT_EFORMAT, -1,
			"%s: no events of a host thread; expected operators or "
			"runtime calls", trace->path);
	return TAUT_OK;
}

void tauti_rank_fini(struct tauti_rank *rank)
{
	free(rank->comm_lane);
	free(rank->load_lane);
	free(rank->shadow_lane);
	free(rank->lane_begin);
	free(rank->free_at);
	free(rank->launched_at);
	free(rank->launch_of);
	free(rank->call_of);
	free(rank->comm_of);
	free(rank->op_of);
	taut_vec_free(&rank->calls);
	taut_vec_free(&rank->stream_waits);
	taut_vec_free(&rank->comms);
	taut_vec_free(&rank->marks);
	taut_vec_free(&rank->ops);
	taut_vec_free(&rank->edges);
}

/* One step over everything, for a recording without marks. */
static struct tauti_mark whole(const struct taut_trace *t)
{
	struct tauti_mark m = { 0, INT64_MAX, INT64_MIN, TAUT_NONE, TAUT_NONE,
		TAUT_NONE, 0 };

	for (uint32_t l = 0; l < t->n_lanes; l++) {
		if (t->lanes[l].kind == TAUT_LANE_OTHER)
			continue;
		for (uint32_t i = t->lane_begin[l]; i < t->lane_begin[l + 1]; i++) {
			if (t->start_ns[i] < m.start)
				m.start = t->start_ns[i];
			if (tauti_row_end(t, i) > m.end)
				m.end = tauti_row_end(t, i);
		}
	}
	return m;
}

taut_status tauti_steps_find(struct tauti_rank *rank, struct taut_error *err)
{
	const struct taut_trace *t = rank->trace;
	bool ok = true;

	for (uint32_t i = t->lane_begin[rank->main_lane];
		ok && i < t->lane_begin[rank->main_lane + 1]; i++) {
		struct tauti_mark m = { 0, t->start_ns[i], tauti_row_end(t, i),
			i, TAUT_NONE, TAUT_NONE, 0 };
		const struct tauti_mark *last = rank->marks.count ?
			&rank->marks.data[rank->marks.count - 1] : NULL;

		if (!is_step(t, i))
			continue;
		m.id = t->sequence[i] ? (int64_t)t->sequence[i] - 1 :
			(int64_t)rank->marks.count;
		m.round = last ? last->round + (m.id <= last->id) : 0;
		ok = taut_vec_push(&rank->marks, m);
	}
	if (ok && !rank->marks.count) {
		struct tauti_mark m = whole(t);

		ok = taut_vec_push(&rank->marks, m);
	}
	return ok ? TAUT_OK : taut_error_set(err, TAUT_ENOMEM, -1,
		"%s: no memory for steps", t->path);
}

uint32_t tauti_mark_at(const struct tauti_rank *rank, int64_t at)
{
	size_t lo = 0, hi = rank->marks.count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (rank->marks.data[mid].start <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo && lo == rank->marks.count && at > rank->marks.data[lo - 1].end)
		lo++;
	return (uint32_t)lo;
}

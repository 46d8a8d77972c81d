/* edit_retrace.c - the events of a changed graph, where its operations are.
 *
 * Reports draw events, not operations, and ask them where batches were taken.
 * Each lane's operations say when its recorded instants are now; what lies
 * between two such points is stretched evenly, so that events stay nested and
 * in order, and those of removed operations shrink into the gap that is left.
 * At an instant that was torn apart, events end before and begin after. New
 * operations get events of their own (edit_rows.c). */
#include <stdlib.h>
#include <string.h>

#include <taut/edit.h>

#include "graph/edit_rows.h"

struct point {
	int64_t was, is; /* ns of the graph's clock; neither runs backward */
};

struct warp { /* of one lane; n 0: nothing is known */
	const struct point *points;
	uint32_t n;
};

struct retracer {
	const struct tauti_owned_graph *owned;
	const struct taut_graph *g;
	TAUT_VEC(struct point) points;
	TAUT_VEC(uint32_t) ops, tails, before; /* see in_order() */
	uint32_t *lane_of; /* by lane of the trace at hand: of the graph */
	uint32_t *first;   /* by lane of the graph: in points; one more */
	uint8_t *rows;     /* by row of the trace at hand: enum of */
};

enum of { /* of the operations that a row was the event of */
	OF_NONE,
	OF_GONE, /* none is left */
	OF_SOME,
};

/* --- points --------------------------------------------------------------------------- */

/* Was this op on this lane in the recording? */
static bool was_here(const struct retracer *r, uint32_t op)
{
	const struct taut_graph *below = r->owned->below;
	uint32_t like = r->owned->like[op], lane;

	if (like == TAUT_NONE)
		return false;
	lane = below->lane[like];
	return below->lanes[lane].trace ==
		r->owned->rank_like[r->g->lanes[r->g->lane[op]].trace] &&
		below->lanes[lane].trace_lane ==
		r->g->lanes[r->g->lane[op]].trace_lane;
}

/* The place in tails of the longest row that op can be put behind. */
static uint32_t row_for(const struct retracer *r, uint32_t op)
{
	const uint32_t *like = r->owned->like;
	uint32_t low = 0, high = (uint32_t)r->tails.count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (like[r->ops.data[r->tails.data[mid]]] < like[op])
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Leaves in ops most of those that are still in their recorded order: the
 * longest increasing row, by the tails of all rows of each length. */
static bool in_order(struct retracer *r)
{
	uint32_t at, n;

	r->tails.count = r->before.count = 0;
	for (uint32_t i = 0; i < r->ops.count; i++) {
		uint32_t row = row_for(r, r->ops.data[i]);

		if (!taut_vec_push(&r->before, row ?
			r->tails.data[row - 1] : TAUT_NONE))
			return false;
		if (row < r->tails.count && r->owned->like[r->ops.data[i]] ==
			r->owned->like[r->ops.data[r->tails.data[row]]])
			continue; /* of two copies the first */
		if (row < r->tails.count)
			r->tails.data[row] = i;
		else if (!taut_vec_push(&r->tails, i))
			return false;
	}
	n = (uint32_t)r->tails.count;
	at = n ? r->tails.data[n - 1] : TAUT_NONE;
	for (uint32_t k = n; k--; at = r->before.data[at])
		r->tails.data[k] = r->ops.data[at];
	r->ops.count = 0;
	for (uint32_t k = 0; k < n; k++)
		if (!taut_vec_push(&r->ops, r->tails.data[k]))
			return false;
	return true;
}

static bool add_point(struct retracer *r, uint32_t first, int64_t was,
	int64_t is)
{
	struct point p = { was, is };

	if (r->points.count > first) {
		const struct point *last = &r->points.data[r->points.count - 1];

		if (p.was < last->was)
			p.was = last->was;
		if (p.is < last->is)
			p.is = last->is;
	}
	return taut_vec_push(&r->points, p);
}

static bool add_points(struct retracer *r, uint32_t lane)
{
	const struct taut_graph *g = r->g, *below = r->owned->below;
	uint32_t first = (uint32_t)r->points.count;

	r->ops.count = 0;
	for (uint32_t i = g->lane_begin[lane]; i < g->lane_begin[lane + 1]; i++)
		if (was_here(r, i) && !taut_vec_push(&r->ops, i))
			return false;
	if (!in_order(r))
		return false;
	for (uint32_t i = 0; i < r->ops.count; i++) {
		uint32_t op = r->ops.data[i], like = r->owned->like[op];
		int64_t was = below->start_ns[like];

		if (!add_point(r, first, was, g->start_ns[op]) ||
			!add_point(r, first, was + below->dur_ns[like],
			g->start_ns[op] + g->dur_ns[op]))
			return false;
	}
	return true;
}

static bool find_points(struct retracer *r)
{
	const struct taut_graph *g = r->g;

	r->first = calloc((size_t)g->n_lanes + 1, sizeof *r->first);
	if (!r->first)
		return false;
	for (uint32_t l = 0; l < g->n_lanes; l++) {
		r->first[l] = (uint32_t)r->points.count;
		if (g->lanes[l].trace != TAUT_NONE && !add_points(r, l))
			return false;
	}
	r->first[g->n_lanes] = (uint32_t)r->points.count;
	return true;
}

/* --- from then to now -------------------------------------------------------------------- */

static int64_t between(const struct point *a, const struct point *b, int64_t at)
{
	double share;

	if (b->is - a->is == b->was - a->was)
		return a->is + (at - a->was);
	share = (double)(at - a->was) / (double)(b->was - a->was);
	return a->is + (int64_t)(share * (double)(b->is - a->is));
}

/* When something that began (or ended) then begins (or ends) now. */
static int64_t warped(const struct warp *w, int64_t at, bool end)
{
	uint32_t low = 0, high = w->n;

	if (!w->n)
		return at;
	while (low < high) { /* the first point behind it */
		uint32_t mid = low + (high - low) / 2;

		if (end ? w->points[mid].was < at : w->points[mid].was <= at)
			low = mid + 1;
		else
			high = mid;
	}
	if (low < w->n && w->points[low].was == at)
		return w->points[low].is;
	if (!low)
		return w->points[0].is - (w->points[0].was - at);
	if (low == w->n)
		return w->points[low - 1].is + (at - w->points[low - 1].was);
	return between(&w->points[low - 1], &w->points[low], at);
}

/* Drifts are parts of a million: few rounds are enough. */
int64_t tauti_own_time(const struct taut_graph *g, uint32_t trace,
	int64_t guess, int64_t at)
{
	for (int i = 0; i < 3; i++)
		guess += at - taut_graph_time(g, trace, guess);
	return guess;
}

/* --- traces ---------------------------------------------------------------------------------- */

static struct warp warp_of(const struct retracer *r, uint32_t lane)
{
	struct warp w = { 0 };

	if (lane != TAUT_NONE) {
		w.points = r->points.data + r->first[lane];
		w.n = r->first[lane + 1] - r->first[lane];
	}
	return w;
}

static void move_rows(const struct retracer *r, uint32_t trace,
	const struct taut_trace *from, const struct warp *w, uint32_t lane,
	int64_t *start, int64_t *dur)
{
	int64_t least = INT64_MIN, gone_until = INT64_MIN;

	for (uint32_t i = from->lane_begin[lane]; i < from->lane_begin[lane + 1];
		i++) {
		int64_t was = from->start_ns[i], end = was + from->dur_ns[i];

		start[i] = tauti_own_time(r->g, trace, was, warped(w,
			taut_graph_time(r->g, trace, was), false));
		if (start[i] < least)
			start[i] = least;
		least = start[i];
		end = tauti_own_time(r->g, trace, end, warped(w,
			taut_graph_time(r->g, trace, end), true));
		dur[i] = end > start[i] ? end - start[i] : 0;
		end = was + from->dur_ns[i];
		if (r->rows[i] == OF_GONE && end > gone_until)
			gone_until = end;
		if (r->rows[i] != OF_SOME && end <= gone_until)
			dur[i] = 0; /* it, or what it was nested in, is gone */
	}
}

/* Lanes of the graph by lane of the trace; events of lanes without operations
 * go with the main thread. */
static void find_lanes(struct retracer *r, uint32_t trace, uint32_t n_lanes)
{
	uint32_t main = TAUT_NONE;

	memset(r->lane_of, 0xff, n_lanes * sizeof *r->lane_of);
	for (uint32_t l = r->g->n_lanes; l--;) {
		const struct taut_graph_lane *lane = &r->g->lanes[l];

		if (lane->trace != trace)
			continue;
		if (lane->trace_lane < n_lanes)
			r->lane_of[lane->trace_lane] = l;
		if (lane->is_main || main == TAUT_NONE)
			main = l;
	}
	for (uint32_t l = 0; l < n_lanes; l++)
		if (r->lane_of[l] == TAUT_NONE)
			r->lane_of[l] = main;
}

static void mark_rows(const struct retracer *r, const struct taut_graph *g,
	uint32_t trace, bool all, uint8_t of)
{
	for (uint32_t l = 0; l < g->n_lanes; l++)
		for (uint32_t i = g->lane_begin[l]; g->lanes[l].trace == trace &&
			i < g->lane_begin[l + 1]; i++)
			if (g->event[i] != TAUT_NONE && (all ||
				r->owned->like[i] != TAUT_NONE))
				r->rows[g->event[i]] = of;
}

static bool find_gone(struct retracer *r, uint32_t trace, size_t n_rows)
{
	const struct tauti_owned_graph *owned = r->owned;

	free(r->rows);
	r->rows = calloc(n_rows + 1, 1);
	if (!r->rows)
		return false;
	mark_rows(r, owned->below, owned->rank_like[trace], true, OF_GONE);
	mark_rows(r, r->g, trace, false, OF_SOME);
	return true;
}

static bool retrace(struct retracer *r, struct taut_arena *arena,
	uint32_t trace, struct taut_trace *ret)
{
	const struct taut_trace *from = &r->owned->below->run->traces[
		r->owned->rank_like[trace]];
	int64_t *start = TAUT_ARENA_ARRAY(arena, int64_t, from->n_events + 1);
	int64_t *dur = TAUT_ARENA_ARRAY(arena, int64_t, from->n_events + 1);

	free(r->lane_of);
	r->lane_of = malloc(((size_t)from->n_lanes + 1) * sizeof *r->lane_of);
	if (!start || !dur || !r->lane_of ||
		!find_gone(r, trace, from->n_events))
		return false;
	find_lanes(r, trace, from->n_lanes);
	for (uint32_t l = 0; l < from->n_lanes; l++) {
		struct warp w = warp_of(r, r->lane_of[l]);

		move_rows(r, trace, from, &w, l, start, dur);
	}
	*ret = r->g->run->traces[trace];
	ret->start_ns = start;
	ret->dur_ns = dur;
	return true;
}

static bool retrace_all(struct retracer *r, struct taut_arena *arena,
	struct taut_trace *traces, struct tauti_rows *rows)
{
	bool ok = find_points(r);

	for (uint32_t i = 0; ok && i < r->g->run->n_traces; i++)
		ok = retrace(r, arena, i, &traces[i]) && tauti_rows_add(
			r->owned, arena, i, &traces[i], &rows[i]);
	return ok;
}

/* Nothing has changed in the graph before, and nothing can fail from here. */
static void publish(struct tauti_owned_graph *owned, struct taut_run *run,
	const struct taut_trace *traces, const struct tauti_rows *rows,
	struct taut_names **names)
{
	struct taut_graph *g = &owned->graph;

	for (uint32_t i = 0; i < g->run->n_traces; i++) {
		tauti_rows_apply(g, i, &rows[i]);
		names[i] = rows[i].names;
	}
	*run = *g->run;
	run->traces = traces;
	owned->row_names = names;
	g->run = run;
}

static bool move_all(struct tauti_owned_graph *owned, struct retracer *r)
{
	uint32_t n = owned->graph.run->n_traces;
	struct taut_arena *arena = owned->arena;
	struct taut_run *run = TAUT_ARENA_ARRAY(arena, struct taut_run, 1);
	struct taut_trace *traces = TAUT_ARENA_ARRAY(arena, struct taut_trace,
		n + 1);
	struct taut_names **names = TAUT_ARENA_ARRAY(arena,
		struct taut_names *, n + 1);
	struct tauti_rows *rows = calloc((size_t)n + 1, sizeof *rows);
	bool ok = run && traces && names && rows &&
		retrace_all(r, arena, traces, rows);

	if (ok)
		publish(owned, run, traces, rows, names);
	for (uint32_t i = 0; rows && i < n; i++) {
		tauti_rows_fini(&rows[i]);
		if (!ok)
			taut_names_destroy(rows[i].names);
	}
	free(rows);
	return ok;
}

taut_status taut_graph_retrace(struct taut_graph *graph,
	struct taut_error *reterr)
{
	struct tauti_owned_graph *owned = (struct tauti_owned_graph *)graph;
	struct retracer r = { .owned = owned, .g = graph };
	bool ok;

	if (!graph->run || !graph->clocks || !owned->below->event ||
		!owned->below->start_ns)
		return TAUT_OK; /* made by hand: there are no events */
	if (owned->row_names)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"the graph's events were moved before");
	ok = move_all(owned, &r);
	taut_vec_free(&r.points);
	taut_vec_free(&r.ops);
	taut_vec_free(&r.tails);
	taut_vec_free(&r.before);
	free(r.lane_of);
	free(r.first);
	free(r.rows);
	return ok ? TAUT_OK : taut_error_set(reterr, TAUT_ENOMEM, -1,
		"no memory for the changed events");
}

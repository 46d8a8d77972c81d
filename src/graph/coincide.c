/* coincide.c - waits between streams that only time shows.
 *
 * Some recordings hold neither event records nor stream waits. What remains
 * is this: work that was launched long ago stands idle on a free stream, and
 * begins microseconds after the end of work on another stream. That is taken
 * for a wait if it would hardly happen by chance: with n ends on the other
 * stream during the idle time g, one lies within d before the start by chance
 * with a probability of at most n * d / g; above one in twenty it is no
 * evidence. */
#include <stdlib.h>

#include "graph/graph.h"

enum {
	WINDOW_NS = 50000, /* longest time from an end to what it sets free */
	SLACK_NS = 1000,
	MIN_GAP_NS = 20000,
	MAX_CHANCE_PCT = 5,
};

/* First row of a stream that ends after `at`; streams are serial. */
static uint32_t first_ending_after(const struct taut_trace *t, uint32_t lane,
	int64_t at)
{
	uint32_t lo = t->lane_begin[lane], hi = t->lane_begin[lane + 1];

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (tauti_row_end(t, mid) <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Work of a stream whose end set row free, or TAUT_NONE. */
static uint32_t set_free_by(const struct tauti_rank *rank, uint32_t row,
	uint32_t lane, int64_t known)
{
	const struct taut_trace *t = rank->trace;
	int64_t start = t->start_ns[row], distance;
	uint32_t first = first_ending_after(t, lane, known);
	uint32_t end = first_ending_after(t, lane, start + SLACK_NS);
	uint32_t before;

	if (end == first)
		return TAUT_NONE;
	before = end - 1;
	distance = start - tauti_row_end(t, before) + SLACK_NS;
	if (distance > WINDOW_NS || (rank->launch_of[row] != TAUT_NONE &&
		rank->launched_at[before] >= rank->launched_at[row]) ||
		(int64_t)(end - first) * distance * 100 >
		(start - known) * MAX_CHANCE_PCT)
		return TAUT_NONE;
	return before;
}

static bool find_wait(struct tauti_rank *rank, uint32_t row)
{
	const struct taut_trace *t = rank->trace;
	uint32_t call = rank->launch_of[row], best = TAUT_NONE;
	int64_t known = rank->free_at[row], at;

	if (call != TAUT_NONE) {
		at = t->start_ns[call] + rank->launch_lag;
		if (at > known)
			known = at;
	}
	if (known == INT64_MIN || t->start_ns[row] - known < MIN_GAP_NS)
		return true;
	for (uint32_t l = 0; l < t->n_lanes; l++) {
		uint32_t before;

		if (t->lanes[l].kind != TAUT_LANE_STREAM || l == t->lane[row])
			continue;
		before = set_free_by(rank, row, l, known);
		if (before != TAUT_NONE && (best == TAUT_NONE ||
			tauti_row_end(t, before) > tauti_row_end(t, best)))
			best = before;
	}
	if (best != TAUT_NONE) {
		struct tauti_stream_wait w = { best, row };

		return taut_vec_push(&rank->stream_waits, w);
	}
	return true;
}

taut_status tauti_coincidences(struct tauti_rank *rank, struct taut_error *err)
{
	const struct taut_trace *t = rank->trace;

	for (uint32_t l = 0; l < t->n_lanes; l++) {
		if (t->lanes[l].kind != TAUT_LANE_STREAM)
			continue;
		for (uint32_t i = t->lane_begin[l]; i < t->lane_begin[l + 1]; i++)
			if (!find_wait(rank, i))
				return taut_error_set(err, TAUT_ENOMEM, -1,
					"%s: no memory to link device work",
					t->path);
	}
	return TAUT_OK;
}

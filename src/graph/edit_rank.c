/* edit_rank.c - a rank more, a rank less. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "graph/edit.h"

struct copier {
	struct taut_edit *edit;
	uint32_t rank;       /* that is copied */
	uint32_t to;         /* the copy */
	uint32_t n_lanes, n_steps; /* before */
	const uint8_t *join; /* by collective; NULL: all */
};

static taut_status check_rank(const struct taut_edit *edit, uint32_t rank,
	struct taut_error *err)
{
	if (tauti_has_rank(edit, rank))
		return TAUT_OK;
	return taut_error_set(err, TAUT_EINVAL, -1,
		"edit: rank %u is not there", (unsigned)rank);
}

/* --- copies ----------------------------------------------------------------------------- */

/* Room in copy_of, which is all 0, for every op that is there now. */
static bool reserve_map(struct taut_edit *edit)
{
	size_t n = tauti_count(edit, TAUTI_AT), room = n + n / 2;
	uint32_t *map;

	if (n <= edit->n_copy_of)
		return true;
	map = calloc(room, sizeof *map);
	if (!map)
		return false;
	free(edit->copy_of);
	edit->copy_of = map;
	edit->n_copy_of = room;
	return true;
}

static uint32_t copy_of(const struct taut_edit *edit, uint32_t op)
{
	return op < edit->n_copy_of ? edit->copy_of[op] - 1 : TAUT_NONE;
}

static bool joins(const struct copier *c, uint32_t coll)
{
	return coll != TAUT_NONE && (!c->join || c->join[coll]);
}

/* With a cell, for it is not as in the graph below. */
static bool copy_cell(struct copier *c, uint32_t op,
	const struct tauti_span *lane)
{
	struct taut_edit *edit = c->edit;
	struct tauti_cell cell = tauti_cell_of(edit, op);
	uint32_t copy = tauti_count(edit, TAUTI_AT);

	cell.lane = lane->lane;
	cell.before = copy == lane->first ? TAUT_NONE : copy - 1;
	cell.next = copy + 1 == lane->end ? TAUT_NONE : copy + 1;
	cell.out_first = cell.out_last = TAUT_NONE;
	cell.in_first = cell.in_last = TAUT_NONE;
	if (!joins(c, cell.collective))
		cell.collective = TAUT_NONE;
	return tauti_op_add(edit, &cell, tauti_dur(edit, op),
		tauti_gap(edit, op), &copy);
}

/* In the lane's span, which is begun anew where the row of ops is broken. */
static bool copy_plain(struct copier *c, uint32_t op, struct tauti_span *lane)
{
	struct taut_edit *edit = c->edit;
	uint32_t back = tauti_count(edit, TAUTI_AT) - tauti_below(edit, op);
	uint32_t at = tauti_count(edit, TAUTI_SPANS) - 1;
	int64_t dur_ns = tauti_dur(edit, op), gap_ns = tauti_gap(edit, op);

	if (back != lane->back) {
		lane->back = back;
		at++;
		if (!tauti_edit_push(edit, TAUTI_SPANS, lane))
			return false;
	}
	at |= TAUTI_IN_SPAN;
	return tauti_edit_own(edit, TAUTI_DUR) &&
		tauti_edit_own(edit, TAUTI_GAP) &&
		tauti_edit_push(edit, TAUTI_DUR, &dur_ns) &&
		tauti_edit_push(edit, TAUTI_GAP, &gap_ns) &&
		tauti_edit_push(edit, TAUTI_AT, &at);
}

static bool copy_op(struct copier *c, uint32_t op, struct tauti_span *lane)
{
	struct taut_edit *edit = c->edit;
	uint32_t copy = tauti_count(edit, TAUTI_AT);
	bool plain = !tauti_cell(edit, op) &&
		tauti_coll_of(edit, op) == TAUT_NONE;

	if (!(plain ? copy_plain(c, op, lane) : copy_cell(c, op, lane)))
		return false;
	edit->copy_of[op] = copy + 1;
	return true;
}

static bool is_of(const struct copier *c, uint32_t lane)
{
	return tauti_lanes(c->edit)[lane].is.trace == c->rank;
}

/* Copies of a lane's ops have ids in a row. */
static bool copy_lane(struct copier *c, uint32_t from)
{
	struct taut_edit *edit = c->edit;
	struct tauti_lane lane = tauti_lanes(edit)[from];
	struct tauti_span span = { .lane = tauti_count(edit, TAUTI_LANES),
		.first = tauti_count(edit, TAUTI_AT), .back = TAUT_NONE };
	uint32_t op;

	span.end = span.first;
	for (op = lane.first; op != TAUT_NONE; op = tauti_next(edit, op))
		span.end++;
	lane.is.trace = c->to;
	for (op = lane.first; op != TAUT_NONE; op = tauti_next(edit, op))
		if (!copy_op(c, op, &span))
			return false;
	if (lane.first != TAUT_NONE) {
		lane.first = span.first;
		lane.last = span.end - 1;
	}
	return tauti_edit_push(edit, TAUTI_LANES, &lane);
}

/* The copy of an edge's end: itself where it is the join of a collective that
 * the copy is in; TAUT_NONE: it belongs to another rank. */
static uint32_t end_of(const struct copier *c, uint32_t op)
{
	uint32_t coll = tauti_coll_of(c->edit, op);

	if (tauti_kind(c->edit, op) == TAUT_OP_JOIN)
		return joins(c, coll) ? op : TAUT_NONE;
	return copy_of(c->edit, op);
}

static bool copy_waits(struct copier *c, uint32_t op)
{
	struct tauti_walk out = tauti_walk_out(c->edit, op);
	struct tauti_walk in = tauti_walk_in(c->edit, op);
	uint32_t copy = copy_of(c->edit, op), end;
	struct tauti_seen seen;

	while (tauti_walk_on(&out, &seen)) {
		end = end_of(c, seen.to);
		if (end != TAUT_NONE && !tauti_wait_add(c->edit, copy, end,
			seen.kind, seen.lag))
			return false;
	}
	while (tauti_walk_on(&in, &seen)) {
		if (tauti_kind(c->edit, seen.from) != TAUT_OP_JOIN)
			continue; /* it was seen from its other end, or is
			             another rank's */
		end = end_of(c, seen.from);
		if (end != TAUT_NONE && !tauti_wait_add(c->edit, end, copy,
			seen.kind, seen.lag))
			return false;
	}
	return true;
}

static bool join_coll(struct copier *c, uint32_t op)
{
	struct taut_edit *edit = c->edit;
	uint32_t coll = tauti_coll_of(edit, op);
	int32_t size;

	if (!joins(c, coll) || !tauti_is_pair(edit, op))
		return true;
	size = tauti_colls(edit)[coll].is.group_size;
	return tauti_member_add(edit, coll, copy_of(edit, op)) && (size < 0 ||
		TAUTI_PUT_COLL(edit, coll, is.group_size, size + 1));
}

static bool copy_rank(struct copier *c)
{
	struct taut_edit *edit = c->edit;
	uint32_t op;

	if (!tauti_edit_push(edit, TAUTI_RANKS, &(struct tauti_rank_row) {
		tauti_ranks(edit)[c->rank].like, 0 }))
		return false;
	for (uint32_t l = 0; l < c->n_lanes; l++)
		if (is_of(c, l) && !copy_lane(c, l))
			return false;
	for (uint32_t l = 0; l < c->n_lanes; l++)
		for (op = is_of(c, l) ? tauti_lanes(edit)[l].first : TAUT_NONE;
			op != TAUT_NONE; op = tauti_next(edit, op))
			if ((tauti_has_waits(edit, op) && !copy_waits(c, op)) ||
				!join_coll(c, op))
				return false;
	for (uint32_t s = 0; s < c->n_steps; s++) {
		struct tauti_step step = tauti_steps(edit)[s];

		if (step.rank != c->rank || !tauti_has_op(edit, step.begin_op)
			|| !tauti_has_op(edit, step.end_op))
			continue;
		step.rank = c->to;
		step.begin_op = copy_of(edit, step.begin_op);
		step.end_op = copy_of(edit, step.end_op);
		assert(step.begin_op != TAUT_NONE && step.end_op != TAUT_NONE);
		if (!tauti_edit_push(edit, TAUTI_STEPS, &step))
			return false;
	}
	return true;
}

/* Empties copy_of again, first into ret_op_of where that is wanted. */
static void hand_over(struct copier *c, uint32_t *ret_op_of)
{
	struct taut_edit *edit = c->edit;

	for (uint32_t l = 0; l < c->n_lanes; l++) {
		uint32_t op = is_of(c, l) ? tauti_lanes(edit)[l].first :
			TAUT_NONE;

		for (; op != TAUT_NONE; op = tauti_next(edit, op)) {
			if (ret_op_of && edit->copy_of[op])
				ret_op_of[op] = edit->copy_of[op] - 1;
			edit->copy_of[op] = 0;
		}
	}
}

taut_status taut_edit_copy_rank(struct taut_edit *edit, uint32_t rank,
	const uint8_t *join, uint32_t *ret_rank, uint32_t *ret_op_of,
	struct taut_error *reterr)
{
	struct copier c = { edit, rank, tauti_count(edit, TAUTI_RANKS),
		tauti_count(edit, TAUTI_LANES),
		tauti_count(edit, TAUTI_STEPS), join };
	taut_status status = check_rank(edit, rank, reterr);
	size_t n = tauti_count(edit, TAUTI_AT);

	if (status)
		return status;
	if (!reserve_map(edit))
		return tauti_edit_no_memory(reterr);
	tauti_edit_begin(edit);
	if (!copy_rank(&c)) {
		hand_over(&c, NULL);
		return tauti_edit_end(edit, tauti_edit_no_memory(reterr));
	}
	if (ret_op_of)
		memset(ret_op_of, 0xff, n * sizeof *ret_op_of);
	hand_over(&c, ret_op_of);
	*ret_rank = c.to;
	return tauti_edit_end(edit, TAUT_OK);
}

/* --- removal ------------------------------------------------------------------------------ */

static bool cut_lane(struct taut_edit *edit, uint32_t lane)
{
	uint32_t op;

	while ((op = tauti_lanes(edit)[lane].last) != TAUT_NONE) {
		uint32_t arrive = tauti_arrival_of(edit, op);

		if (arrive != TAUT_NONE &&
			tauti_coll_of(edit, arrive) != TAUT_NONE &&
			!tauti_member_leave(edit, arrive))
			return false;
		if (!tauti_op_cut(edit, op))
			return false;
	}
	return true;
}

static uint32_t ranks_left(const struct taut_edit *edit)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < tauti_count(edit, TAUTI_RANKS); i++)
		n += !tauti_ranks(edit)[i].gone;
	return n;
}

taut_status taut_edit_remove_rank(struct taut_edit *edit, uint32_t rank,
	struct taut_error *reterr)
{
	taut_status status = check_rank(edit, rank, reterr);
	bool ok = true;

	if (status)
		return status;
	if (ranks_left(edit) < 2)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "edit: rank %u "
			"is the last one and has to stay", (unsigned)rank);
	tauti_edit_begin(edit);
	for (uint32_t l = 0; ok && l < tauti_count(edit, TAUTI_LANES); l++)
		ok = tauti_lanes(edit)[l].is.trace != rank || cut_lane(edit, l);
	ok = ok && TAUTI_PUT(edit, TAUTI_RANKS, rank, struct tauti_rank_row,
		gone, 1);
	return tauti_edit_end(edit, ok ? TAUT_OK :
		tauti_edit_no_memory(reterr));
}

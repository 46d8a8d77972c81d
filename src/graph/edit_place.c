/* edit_place.c - where operations stand: insert, remove, cut, move. */
#include <string.h>

#include "graph/edit.h"

/* --- the list of a lane ------------------------------------------------------------- */

static bool join_up(struct taut_edit *edit, uint32_t lane, uint32_t op,
	uint32_t next)
{
	return (op == TAUT_NONE ? TAUTI_PUT_LANE(edit, lane, first, next) :
		TAUTI_PUT_OP(edit, op, next, next)) &&
		(next == TAUT_NONE ? TAUTI_PUT_LANE(edit, lane, last, op) :
		TAUTI_PUT_OP(edit, next, before, op));
}

bool tauti_place(struct taut_edit *edit, uint32_t op, uint32_t after,
	uint32_t lane)
{
	uint32_t next = after == TAUT_NONE ? tauti_lanes(edit)[lane].first :
		tauti_next(edit, after);

	return TAUTI_PUT_OP(edit, op, lane, lane) &&
		join_up(edit, lane, after, op) && join_up(edit, lane, op, next);
}

bool tauti_unplace(struct taut_edit *edit, uint32_t op)
{
	return join_up(edit, tauti_lane_of(edit, op), tauti_before(edit, op),
		tauti_next(edit, op));
}

bool tauti_op_add(struct taut_edit *edit, const struct tauti_cell *cell,
	int64_t dur_ns, int64_t gap_ns, uint32_t *ret_op)
{
	uint32_t at = tauti_count(edit, TAUTI_CELLS) + 1;
	struct tauti_cell own = *cell;

	*ret_op = own.op = tauti_count(edit, TAUTI_AT);
	return at < TAUTI_IN_SPAN - 1 && tauti_edit_own(edit, TAUTI_DUR) &&
		tauti_edit_own(edit, TAUTI_GAP) &&
		tauti_edit_push(edit, TAUTI_CELLS, &own) &&
		tauti_edit_push(edit, TAUTI_DUR, &dur_ns) &&
		tauti_edit_push(edit, TAUTI_GAP, &gap_ns) &&
		tauti_edit_push(edit, TAUTI_AT, &at);
}

/* --- removal --------------------------------------------------------------------------- */

/* Does `to` wait for `from` long enough without an edge of this lag? */
static bool superfluous(const struct taut_edit *edit, uint32_t from,
	uint32_t to, uint8_t kind, int64_t lag)
{
	int64_t gap = tauti_gap(edit, to);
	struct tauti_walk walk;
	struct tauti_seen seen;

	if (tauti_before(edit, to) == from &&
		tauti_serial(edit, tauti_lane_of(edit, to)) &&
		lag <= (gap < 0 ? gap : 0))
		return true;
	walk = tauti_walk_shorter(edit, from, to);
	while (tauti_walk_on(&walk, &seen))
		if (seen.from == from && seen.to == to && seen.lag >= lag &&
			!((seen.kind ^ kind) & TAUT_EDGE_FROM_START))
			return true;
	return false;
}

static bool pass(struct taut_edit *edit, uint32_t from, uint32_t to,
	uint8_t kind, int64_t lag)
{
	return from == to || superfluous(edit, from, to, kind, lag) ||
		tauti_wait_add(edit, from, to, kind, lag);
}

static int64_t sum(int64_t a, int64_t b)
{
	int64_t sum;

	if (__builtin_add_overflow(a, b, &sum))
		return a < 0 ? INT64_MIN / 2 : INT64_MAX / 2;
	return sum;
}

/* What one wait into op makes everybody wait who waited for op. */
static bool pass_on(struct taut_edit *edit, uint32_t op,
	const struct tauti_seen *into)
{
	struct tauti_walk out = tauti_walk_out(edit, op);
	struct tauti_seen seen;

	while (tauti_walk_on(&out, &seen)) {
		uint8_t kind = (seen.kind & (uint8_t)~TAUT_EDGE_FROM_START) |
			(into->kind & TAUT_EDGE_FROM_START);

		if (!pass(edit, into->from, seen.to, kind,
			sum(into->lag, seen.lag)))
			return false;
	}
	return true;
}

static bool pass_to_next(struct taut_edit *edit, uint32_t next,
	const struct tauti_seen *into)
{
	int64_t gap = tauti_gap(edit, next);

	return pass(edit, into->from, next, into->kind,
		sum(into->lag, gap < 0 ? gap : 0));
}

/* Nobody decides when op starts, so that a wait for it is a time. One that
 * waits for nothing else keeps it as its gap. */
static bool absorb(struct taut_edit *edit, uint32_t op)
{
	struct tauti_walk out = tauti_walk_out(edit, op), in;
	struct tauti_seen wait, seen;

	while (tauti_walk_on(&out, &wait)) {
		int64_t gap = tauti_gap(edit, wait.to);

		in = tauti_walk_in(edit, wait.to);
		if (!tauti_walk_on(&in, &seen) || tauti_walk_on(&in, &seen) ||
			(tauti_serial(edit, tauti_lane_of(edit, wait.to)) &&
			tauti_before(edit, wait.to) != TAUT_NONE))
			continue;
		if (!tauti_put_gap(edit, wait.to,
			sum(wait.lag, gap > 0 ? gap : 0)))
			return false;
	}
	return true;
}

static bool take_out(struct taut_edit *edit, uint32_t op)
{
	return tauti_wait_drop_all(edit, op) && TAUTI_PUT_OP(edit, op, gone, 1);
}

bool tauti_op_remove(struct taut_edit *edit, uint32_t op)
{
	bool serial = tauti_serial(edit, tauti_lane_of(edit, op));
	uint32_t before = serial ? tauti_before(edit, op) : TAUT_NONE;
	uint32_t next = serial ? tauti_next(edit, op) : TAUT_NONE;
	struct tauti_walk in = tauti_walk_in(edit, op);
	struct tauti_seen into = { .from = before };
	bool waits = before != TAUT_NONE;

	if (!tauti_unplace(edit, op) ||
		(waits && !pass_on(edit, op, &into)))
		return false;
	for (; tauti_walk_on(&in, &into); waits = true)
		if (!pass_on(edit, op, &into) || (next != TAUT_NONE &&
			!pass_to_next(edit, next, &into)))
			return false;
	return (waits || absorb(edit, op)) && take_out(edit, op);
}

bool tauti_op_cut(struct taut_edit *edit, uint32_t op)
{
	return tauti_unplace(edit, op) && take_out(edit, op);
}

/* A collective's arrival and transfer go together, and it loses a member. */
static bool each_of_pair(struct taut_edit *edit, uint32_t op,
	bool (*gone)(struct taut_edit *edit, uint32_t op))
{
	uint32_t arrive = tauti_arrival_of(edit, op), transfer;

	if (arrive == TAUT_NONE)
		arrive = op;
	if (tauti_coll_of(edit, arrive) == TAUT_NONE ||
		!tauti_is_pair(edit, arrive))
		return gone(edit, op);
	transfer = tauti_next(edit, arrive);
	return tauti_member_leave(edit, arrive) && gone(edit, arrive) &&
		gone(edit, transfer);
}

static taut_status go(struct taut_edit *edit, uint32_t op,
	bool (*gone)(struct taut_edit *edit, uint32_t op),
	struct taut_error *err)
{
	taut_status status = tauti_edit_check_op(edit, op, err);

	if (status)
		return status;
	if (tauti_kind(edit, op) == TAUT_OP_JOIN)
		return taut_error_set(err, TAUT_EINVAL, -1, "edit: operation "
			"%u is a join, which goes with its collective",
			(unsigned)op);
	tauti_edit_begin(edit);
	return tauti_edit_end(edit, each_of_pair(edit, op, gone) ? TAUT_OK :
		tauti_edit_no_memory(err));
}

taut_status taut_edit_remove(
	struct taut_edit *edit, uint32_t op, struct taut_error *reterr)
{
	return go(edit, op, tauti_op_remove, reterr);
}

taut_status taut_edit_cut(
	struct taut_edit *edit, uint32_t op, struct taut_error *reterr)
{
	return go(edit, op, tauti_op_cut, reterr);
}

/* --- insertion and moves ------------------------------------------------------------- */

/* The place behind `after` (first of *lane for TAUT_NONE); sets *lane. */
taut_status tauti_edit_check_place(const struct taut_edit *edit, uint32_t after,
	uint32_t *lane, struct taut_error *err)
{
	taut_status status;

	if (after != TAUT_NONE) {
		status = tauti_edit_check_op(edit, after, err);
		if (status)
			return status;
		*lane = tauti_lane_of(edit, after);
	}
	status = tauti_edit_check_lane(edit, *lane, err);
	if (status)
		return status;
	if (!tauti_serial(edit, *lane))
		return taut_error_set(err, TAUT_EINVAL, -1, "edit: lane %u is "
			"of joins alone", (unsigned)*lane);
	if (after != TAUT_NONE && tauti_is_pair(edit, after))
		return taut_error_set(err, TAUT_EINVAL, -1, "edit: nothing can "
			"stand between arrival %u and its transfer",
			(unsigned)after);
	return TAUT_OK;
}

static bool has_event(
	const struct taut_edit *edit, uint32_t lane, uint32_t event)
{
	const struct taut_run *run = edit->below->run;
	uint32_t rank = tauti_lanes(edit)[lane].is.trace;

	return event == TAUT_NONE || (run &&
		event < run->traces[tauti_ranks(edit)[rank].like].n_events);
}

static taut_status check_new(const struct taut_edit *edit, uint32_t lane,
	const struct taut_op *op, struct taut_error *err)
{
	if (op->dur_ns < 0)
		return taut_error_set(err, TAUT_EINVAL, -1, "edit: a new "
			"operation's duration must not be below 0");
	if ((unsigned)op->kind > TAUT_OP_MARK || op->kind == TAUT_OP_JOIN)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"edit: no new operation can be of kind %d", op->kind);
	if (op->like != TAUT_NONE && op->like >= edit->below->n_ops)
		return taut_error_set(err, TAUT_EINVAL, -1, "edit: like %u is "
			"no operation of the graph below", (unsigned)op->like);
	if (!has_event(edit, lane, op->event))
		return taut_error_set(err, TAUT_EINVAL, -1, "edit: event %u is "
			"no row of the trace of lane %u", (unsigned)op->event,
			(unsigned)lane);
	return TAUT_OK;
}

static bool insert(struct taut_edit *edit, uint32_t after, uint32_t lane,
	const struct taut_op *op, uint32_t name, uint32_t *ret_op)
{
	struct tauti_cell cell = {
		.lane = lane, .name = name, .event = op->event,
		.collective = TAUT_NONE, .like = op->like,
		.next = TAUT_NONE, .before = TAUT_NONE,
		.out_first = TAUT_NONE, .out_last = TAUT_NONE,
		.in_first = TAUT_NONE, .in_last = TAUT_NONE,
		.kind = (uint8_t)op->kind,
	};

	return tauti_op_add(edit, &cell, op->dur_ns, op->gap_ns, ret_op) &&
		tauti_place(edit, *ret_op, after, lane);
}

taut_status taut_edit_insert(struct taut_edit *edit, uint32_t after,
	const struct taut_op *op, const char *name, uint32_t *ret_op,
	struct taut_error *reterr)
{
	uint32_t lane = op->lane, id, text = op->name;
	taut_status status = tauti_edit_check_place(edit, after, &lane, reterr);

	if (!status)
		status = check_new(edit, lane, op, reterr);
	if (!status)
		status = name ? taut_edit_add_name(edit, name, &text, reterr) :
			tauti_edit_check_name(edit, text, reterr);
	if (status)
		return status;
	tauti_edit_begin(edit);
	if (!insert(edit, after, lane, op, text, &id))
		return tauti_edit_end(edit, tauti_edit_no_memory(reterr));
	*ret_op = id;
	return tauti_edit_end(edit, TAUT_OK);
}

/* A row of one rank's trace is none of another's. */
static bool settle_event(struct taut_edit *edit, uint32_t op, uint32_t lane)
{
	const struct tauti_lane *lanes = tauti_lanes(edit);

	return lanes[tauti_lane_of(edit, op)].is.trace ==
		lanes[lane].is.trace || TAUTI_PUT_OP(edit, op, event, TAUT_NONE);
}

static bool move(struct taut_edit *edit, uint32_t op, uint32_t after,
	uint32_t lane)
{
	return settle_event(edit, op, lane) && tauti_unplace(edit, op) &&
		tauti_place(edit, op, after, lane);
}

static taut_status check_move(const struct taut_edit *edit, uint32_t op,
	uint32_t after, uint32_t lane, struct taut_error *err)
{
	if (tauti_kind(edit, op) == TAUT_OP_MARK &&
		lane != tauti_lane_of(edit, op))
		return taut_error_set(err, TAUT_EINVAL, -1, "edit: operation "
			"%u cannot be moved: a mark stays on its lane",
			(unsigned)op);
	if (tauti_kind(edit, op) == TAUT_OP_JOIN ||
		tauti_arrival_of(edit, op) != TAUT_NONE)
		return taut_error_set(err, TAUT_EINVAL, -1, "edit: operation "
			"%u cannot be moved: a transfer goes with its arrival, "
			"a join stands on no lane of a rank", (unsigned)op);
	if (after == op || (after != TAUT_NONE &&
		tauti_arrival_of(edit, after) == op))
		return taut_error_set(err, TAUT_EINVAL, -1, "edit: operation "
			"%u cannot stand behind itself", (unsigned)op);
	return TAUT_OK;
}

taut_status taut_edit_move(struct taut_edit *edit, uint32_t op, uint32_t after,
	uint32_t lane, struct taut_error *reterr)
{
	taut_status status = tauti_edit_check_op(edit, op, reterr);
	uint32_t transfer;
	bool ok;

	if (!status)
		status = tauti_edit_check_place(edit, after, &lane, reterr);
	if (!status)
		status = check_move(edit, op, after, lane, reterr);
	if (status)
		return status;
	transfer = tauti_is_pair(edit, op) ? tauti_next(edit, op) : TAUT_NONE;
	tauti_edit_begin(edit);
	ok = move(edit, op, after, lane) && (transfer == TAUT_NONE ||
		move(edit, transfer, op, lane));
	return tauti_edit_end(edit, ok ? TAUT_OK :
		tauti_edit_no_memory(reterr));
}

taut_status taut_edit_add_lane(struct taut_edit *edit,
	const struct taut_graph_lane *lane, uint32_t *ret_lane,
	struct taut_error *reterr)
{
	struct tauti_lane added = { *lane, TAUT_NONE, TAUT_NONE, 0 };
	const struct taut_run *run = edit->below->run;

	if (!tauti_has_rank(edit, lane->trace) || (run && lane->trace_lane >=
		run->traces[tauti_ranks(edit)[lane->trace].like].n_lanes))
		return taut_error_set(reterr, TAUT_EINVAL, -1, "edit: a lane of "
			"a rank that is there, and of its trace, was expected; "
			"found rank %u, lane %u", (unsigned)lane->trace,
			(unsigned)lane->trace_lane);
	tauti_edit_begin(edit);
	if (!tauti_edit_push(edit, TAUTI_LANES, &added))
		return tauti_edit_end(edit, tauti_edit_no_memory(reterr));
	*ret_lane = tauti_count(edit, TAUTI_LANES) - 1;
	return tauti_edit_end(edit, TAUT_OK);
}

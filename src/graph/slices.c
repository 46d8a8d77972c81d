/* slices.c - cuts each lane into operations.
 *
 * A host thread becomes a gapless row of slices, each of the innermost event
 * that was open: what the host does between events is its own time. Calls
 * that launch or wait are single operations, whatever is nested in them. */
#include <stdlib.h>

#include "graph/graph.h"

enum { ROUNDING_NS = 2000 }; /* events of whole us may overlap by so much */

struct open_event {
	uint32_t row;
	int64_t end;
};

struct cutter {
	struct tauti_rank *rank;
	uint32_t lane;
	int64_t at;   /* everything before is cut */
	bool begun;
	size_t next_mark; /* of rank->marks, on the main lane */
	TAUT_VEC(struct open_event) open;
};

static bool push_op(struct cutter *c, uint8_t kind, int64_t start, int64_t end,
	uint32_t event, uint32_t comm)
{
	struct tauti_op op = { start, end, c->lane, event, comm, kind };

	return taut_vec_push(&c->rank->ops, op);
}

static uint32_t last_op(const struct cutter *c)
{
	return (uint32_t)c->rank->ops.count - 1;
}

/* Time up to `to` belongs to the innermost open event. */
static bool cut_to(struct cutter *c, int64_t to)
{
	uint32_t event = c->open.count ?
		c->open.data[c->open.count - 1].row : TAUT_NONE;
	int64_t from = c->at;

	if (to <= from)
		return true;
	c->at = to;
	return push_op(c, TAUT_OP_HOST, from, to, event, TAUT_NONE);
}

/* Marks that lie at or before `to`, and the slices between them. */
static bool marks_to(struct cutter *c, int64_t to)
{
	struct tauti_rank *r = c->rank;

	while (c->lane == r->main_lane && c->next_mark < 2 * r->marks.count) {
		struct tauti_mark *m = &r->marks.data[c->next_mark / 2];
		bool end = c->next_mark & 1;
		int64_t at = end ? m->end : m->start;

		if (at > to)
			return true;
		if (!r->trace->is_table && !cut_to(c, at))
			return false;
		if (at < c->at)
			at = c->at; /* inside a call, which is not cut */
		c->at = at;
		if (!push_op(c, TAUT_OP_MARK, at, at, m->row, TAUT_NONE))
			return false;
		*(end ? &m->end_op : &m->begin_op) = last_op(c);
		if (!end && r->trace->is_table && m->row != TAUT_NONE)
			r->op_of[m->row] = last_op(c);
		c->next_mark++;
	}
	return true;
}

/* A batch that the main thread takes, and that was prepared before the recording began,
 * is no call that waits for a worker; but a worker may be asked for another then. */
static void end_take(struct cutter *c, uint32_t row)
{
	struct tauti_rank *r = c->rank;

	if (r->trace->kind[row] == TAUT_KIND_LOAD_WAIT && r->ops.count &&
		r->ops.data[last_op(c)].lane == c->lane)
		r->op_of[row] = last_op(c);
}

static bool close_innermost(struct cutter *c)
{
	struct open_event it = c->open.data[c->open.count - 1];

	if (!marks_to(c, it.end) || !cut_to(c, it.end))
		return false;
	end_take(c, it.row);
	c->open.count--;
	return true;
}

static bool close_until(struct cutter *c, int64_t at)
{
	while (c->open.count && c->open.data[c->open.count - 1].end <= at)
		if (!close_innermost(c))
			return false;
	return marks_to(c, at) && (!c->begun || cut_to(c, at));
}

/* When the next step mark comes: a call that it falls into ends there. */
static int64_t next_mark(const struct cutter *c)
{
	const struct tauti_rank *r = c->rank;
	const struct tauti_mark *m;

	if (c->lane != r->main_lane || c->next_mark >= 2 * r->marks.count)
		return INT64_MAX;
	m = &r->marks.data[c->next_mark / 2];
	return c->next_mark & 1 ? m->end : m->start;
}

/* A call: [start, submit) launches, then perhaps it waits, then it returns. */
static bool cut_call(struct cutter *c, struct tauti_call *call)
{
	const struct taut_trace *t = c->rank->trace;
	int64_t start = t->start_ns[call->row];
	int64_t end = tauti_row_end(t, call->row), done, launched;
	bool waits = call->waited != TAUT_NONE;

	if (start < c->at)
		start = c->at;
	if (end > next_mark(c))
		end = next_mark(c);
	if (end < start)
		end = start;
	launched = call->submit != INT64_MIN && call->submit > start &&
		call->submit < end ? call->submit : waits ? start : end;
	c->at = end;
	if (call->device != TAUT_NONE) {
		if (!push_op(c, TAUT_OP_LAUNCH, start, launched, call->row,
			TAUT_NONE))
			return false;
		call->launch_op = last_op(c);
	} else {
		launched = start;
	}
	if (!waits)
		return launched >= end || push_op(c, TAUT_OP_HOST, launched,
			end, call->row, TAUT_NONE);
	done = tauti_row_end(t, call->waited);
	if (done > end)
		done = end;
	if (done < launched)
		done = launched;
	call->return_op = (uint32_t)c->rank->ops.count;
	return push_op(c, TAUT_OP_RETURN, done, end, call->row, TAUT_NONE);
}

/* Communication that its thread carries out itself, and blocks in. */
static bool cut_comm(struct cutter *c, uint32_t row)
{
	struct tauti_rank *r = c->rank;
	uint32_t comm = r->comm_of[row];
	int64_t start = r->trace->start_ns[row];
	int64_t end = tauti_row_end(r->trace, row);

	if (start < c->at)
		start = c->at;
	if (end > next_mark(c))
		end = next_mark(c);
	if (end < start)
		end = start;
	c->at = end;
	r->op_of[row] = (uint32_t)r->ops.count;
	r->comms.data[comm].arrive = r->op_of[row];
	return push_op(c, TAUT_OP_ARRIVE, start, start, row, comm) &&
		push_op(c, TAUT_OP_TRANSFER, start, end, row, comm);
}

/* A row that is operations of its own, whatever is nested in it. */
static bool stands_alone(const struct tauti_rank *r, uint32_t row)
{
	return r->call_of[row] != TAUT_NONE || r->comm_of[row] != TAUT_NONE;
}

/* Opens row i; false: no memory. A row that crosses the end of the one
 * around it is shortened when that is rounding, left out when it is a range
 * of no thread's stack, and else ends the row around it. */
static bool open_row(struct cutter *c, uint32_t i)
{
	const struct taut_trace *t = c->rank->trace;
	struct open_event e = { i, tauti_row_end(t, i) };

	if (c->open.count) {
		struct open_event *around = &c->open.data[c->open.count - 1];

		if (e.end > around->end + ROUNDING_NS) {
			if (t->kind[i] == TAUT_KIND_ANNOTATION ||
				t->kind[i] == TAUT_KIND_STEP ||
				t->kind[i] == TAUT_KIND_PYTHON)
				return true;
			c->open.count--;
		} else if (e.end > around->end) {
			e.end = around->end;
		}
	}
	return taut_vec_push(&c->open, e);
}

static bool cut_thread(struct cutter *c)
{
	struct tauti_rank *r = c->rank;
	const struct taut_trace *t = r->trace;
	uint32_t end = t->lane_begin[c->lane + 1];

	for (uint32_t i = t->lane_begin[c->lane]; i < end; i++) {
		int64_t start = t->start_ns[i];

		if (!c->begun) {
			c->at = start;
			if (c->lane == r->main_lane && r->marks.count &&
				r->marks.data[0].start < start)
				c->at = r->marks.data[0].start;
		}
		if (!close_until(c, start))
			return false;
		c->begun = true;
		if (!marks_to(c, start) || !cut_to(c, start))
			return false;
		if (stands_alone(r, i)) {
			if (!(r->comm_of[i] != TAUT_NONE ? cut_comm(c, i) :
				cut_call(c, &r->calls.data[r->call_of[i]])))
				return false;
			while (i + 1 < end && t->start_ns[i + 1] < c->at &&
				tauti_row_end(t, i + 1) <= c->at &&
				!stands_alone(r, i + 1))
				i++; /* nested in the call */
		} else if (!open_row(c, i)) {
			return false;
		}
	}
	return true;
}

/* Ends every open event and places the marks that are left. */
static bool finish_thread(struct cutter *c)
{
	struct tauti_rank *r = c->rank;

	while (c->open.count)
		if (!close_innermost(c))
			return false;
	if (c->lane != r->main_lane)
		return true;
	/* no event of its own: time before the first step is nobody's */
	if (!c->begun && r->marks.count)
		c->at = r->marks.data[0].start;
	return marks_to(c, INT64_MAX);
}

static uint8_t serial_kind(uint8_t kind)
{
	return kind == TAUT_KIND_LOAD ? TAUT_OP_HOST :
		kind == TAUT_KIND_KERNEL ? TAUT_OP_KERNEL : TAUT_OP_COPY;
}

static bool cut_serial(struct cutter *c)
{
	struct tauti_rank *r = c->rank;
	const struct taut_trace *t = r->trace;

	for (uint32_t i = t->lane_begin[c->lane];
		i < t->lane_begin[c->lane + 1]; i++) {
		int64_t start = t->start_ns[i], end = tauti_row_end(t, i);
		uint32_t comm = r->comm_of[i];
		bool ok;

		if (!tauti_is_device(t->kind[i]) && comm == TAUT_NONE &&
			t->kind[i] != TAUT_KIND_LOAD)
			continue;
		r->op_of[i] = (uint32_t)r->ops.count;
		if (comm != TAUT_NONE) {
			r->comms.data[comm].arrive = r->op_of[i];
			ok = push_op(c, TAUT_OP_ARRIVE, start, start, i, comm) &&
				push_op(c, TAUT_OP_TRANSFER, start, end, i, comm);
		} else {
			ok = push_op(c, serial_kind(t->kind[i]), start, end, i,
				TAUT_NONE);
		}
		if (!ok)
			return false;
	}
	return true;
}

static uint8_t table_kind(uint8_t kind)
{
	return kind == TAUT_KIND_KERNEL ? TAUT_OP_KERNEL :
		kind == TAUT_KIND_MEMCPY || kind == TAUT_KIND_MEMSET ?
		TAUT_OP_COPY : TAUT_OP_HOST;
}

/* A lane of a table: its events are operations, and time between them, which
 * is nobody's, is left to gaps. */
static bool cut_table(struct cutter *c)
{
	struct tauti_rank *r = c->rank;
	const struct taut_trace *t = r->trace;

	c->at = INT64_MIN;
	for (uint32_t i = t->lane_begin[c->lane];
		i < t->lane_begin[c->lane + 1]; i++) {
		int64_t start = t->start_ns[i], end = tauti_row_end(t, i);
		uint32_t comm = r->comm_of[i];

		if (t->kind[i] == TAUT_KIND_STEP)
			continue;
		/* what takes no time where a step ends belongs to it */
		if (!marks_to(c, start - ((c->next_mark & 1) && end == start)))
			return false;
		c->at = start; /* starts never go back on a lane */
		r->op_of[i] = (uint32_t)r->ops.count;
		if (comm == TAUT_NONE) {
			if (!push_op(c, table_kind(t->kind[i]), start, end, i,
				TAUT_NONE))
				return false;
			continue;
		}
		r->comms.data[comm].arrive = r->op_of[i];
		if (!push_op(c, TAUT_OP_ARRIVE, start, start, i, comm) ||
			!push_op(c, TAUT_OP_TRANSFER, start, end, i, comm))
			return false;
	}
	return marks_to(c, INT64_MAX);
}

taut_status tauti_slices_cut(struct tauti_rank *rank, struct taut_error *err)
{
	const struct taut_trace *t = rank->trace;
	bool ok = taut_vec_reserve(&rank->ops, t->n_events + 2);

	for (uint32_t l = 0; ok && l < t->n_lanes; l++) {
		struct cutter c = { .rank = rank, .lane = l };

		rank->lane_begin[l] = (uint32_t)rank->ops.count;
		if (rank->shadow_lane[l])
			continue;
		if (t->is_table)
			ok = t->lanes[l].kind == TAUT_LANE_OTHER ||
				cut_table(&c);
		else if (t->lanes[l].kind == TAUT_LANE_STREAM ||
			rank->comm_lane[l] || rank->load_lane[l])
			ok = cut_serial(&c);
		else if (t->lanes[l].kind == TAUT_LANE_THREAD)
			ok = cut_thread(&c) && finish_thread(&c);
		taut_vec_free(&c.open);
	}
	rank->lane_begin[t->n_lanes] = (uint32_t)rank->ops.count;
	if (!ok)
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"%s: no memory for operations", t->path);
	taut_vec_trim(&rank->ops);
	return TAUT_OK;
}

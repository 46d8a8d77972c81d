/* edit_waits.c - the edges of an edit: those of the graph below that were not
 * taken away, and behind them those that were added. */
#include "graph/edit.h"

#define PUT_WAIT(edit, wait, field, value) \
	TAUTI_PUT((edit), TAUTI_WAITS, (wait), struct tauti_wait, field, (value))

static struct tauti_walk walk(
	const struct taut_edit *edit, uint32_t op, bool in)
{
	const struct taut_graph *g = edit->below;
	const struct tauti_cell *cell = tauti_cell(edit, op);
	const uint32_t *begin = in ? edit->in_begin : g->edge_begin;
	struct tauti_walk walk = { .edit = edit, .extra = TAUT_NONE, .in = in };

	if (op < g->n_ops) {
		walk.at = begin[op];
		walk.end = begin[op + 1];
	}
	if (cell)
		walk.extra = in ? cell->in_first : cell->out_first;
	return walk;
}

struct tauti_walk tauti_walk_out(const struct taut_edit *edit, uint32_t op)
{
	return walk(edit, op, false);
}

struct tauti_walk tauti_walk_in(const struct taut_edit *edit, uint32_t op)
{
	return walk(edit, op, true);
}

bool tauti_walk_on(struct tauti_walk *walk, struct tauti_seen *ret)
{
	const struct taut_edit *edit = walk->edit;
	const struct taut_graph *g = edit->below;
	const struct tauti_wait *wait;

	while (walk->at < walk->end) {
		uint32_t at = walk->at++;
		uint32_t e = walk->in ? edit->in_edge[at] : at;

		if (tauti_dead(edit)[e])
			continue;
		*ret = (struct tauti_seen) { e, edit->edge_from[e],
			g->edge_to[e], g->edge_lag_ns[e], g->edge_kind[e] };
		return true;
	}
	if (walk->extra == TAUT_NONE)
		return false;
	wait = &tauti_waits(edit)[walk->extra];
	*ret = (struct tauti_seen) { g->n_edges + walk->extra, wait->from,
		wait->to, wait->lag, wait->kind };
	walk->extra = walk->in ? wait->in_next : wait->out_next;
	return true;
}

bool tauti_wait_add(struct taut_edit *edit, uint32_t from, uint32_t to,
	uint8_t kind, int64_t lag)
{
	uint32_t id = tauti_count(edit, TAUTI_WAITS);
	struct tauti_wait wait = { .lag = lag, .from = from, .to = to,
		.out_next = TAUT_NONE, .in_next = TAUT_NONE, .kind = kind };

	if (id >= TAUT_NONE - 1 - edit->below->n_edges ||
		!tauti_edit_touch(edit, from) || !tauti_edit_touch(edit, to))
		return false;
	wait.out_before = tauti_cell(edit, from)->out_last;
	wait.in_before = tauti_cell(edit, to)->in_last;
	return tauti_edit_push(edit, TAUTI_WAITS, &wait) &&
		(wait.out_before == TAUT_NONE ?
		TAUTI_PUT_OP(edit, from, out_first, id) :
		PUT_WAIT(edit, wait.out_before, out_next, id)) &&
		TAUTI_PUT_OP(edit, from, out_last, id) &&
		(wait.in_before == TAUT_NONE ?
		TAUTI_PUT_OP(edit, to, in_first, id) :
		PUT_WAIT(edit, wait.in_before, in_next, id)) &&
		TAUTI_PUT_OP(edit, to, in_last, id);
}

bool tauti_wait_drop(struct taut_edit *edit, uint32_t handle)
{
	struct tauti_wait w;

	if (handle < edit->below->n_edges)
		return tauti_edit_put(edit, TAUTI_DEAD, handle, 0, 1, 1);
	w = tauti_waits(edit)[handle - edit->below->n_edges];
	return (w.out_before == TAUT_NONE ?
		TAUTI_PUT_OP(edit, w.from, out_first, w.out_next) :
		PUT_WAIT(edit, w.out_before, out_next, w.out_next)) &&
		(w.out_next == TAUT_NONE ?
		TAUTI_PUT_OP(edit, w.from, out_last, w.out_before) :
		PUT_WAIT(edit, w.out_next, out_before, w.out_before)) &&
		(w.in_before == TAUT_NONE ?
		TAUTI_PUT_OP(edit, w.to, in_first, w.in_next) :
		PUT_WAIT(edit, w.in_before, in_next, w.in_next)) &&
		(w.in_next == TAUT_NONE ?
		TAUTI_PUT_OP(edit, w.to, in_last, w.in_before) :
		PUT_WAIT(edit, w.in_next, in_before, w.in_before));
}

static bool drop_walk(struct taut_edit *edit, struct tauti_walk walk)
{
	struct tauti_seen seen;

	while (tauti_walk_on(&walk, &seen))
		if (!tauti_wait_drop(edit, seen.handle))
			return false;
	return true;
}

bool tauti_wait_drop_all(struct taut_edit *edit, uint32_t op)
{
	return drop_walk(edit, tauti_walk_out(edit, op)) &&
		drop_walk(edit, tauti_walk_in(edit, op));
}

/* Which of both ends has fewer edges? A join has many, its members few. */
struct tauti_walk tauti_walk_shorter(
	const struct taut_edit *edit, uint32_t from, uint32_t to)
{
	struct tauti_walk out = tauti_walk_out(edit, from);
	struct tauti_walk in = tauti_walk_in(edit, to);
	struct tauti_seen seen;

	for (;;) {
		if (!tauti_walk_on(&out, &seen))
			return tauti_walk_out(edit, from);
		if (!tauti_walk_on(&in, &seen))
			return tauti_walk_in(edit, to);
	}
}

bool tauti_wait_drop_between(struct taut_edit *edit, uint32_t from,
	uint32_t to, uint32_t *ret_n)
{
	struct tauti_walk walk = tauti_walk_shorter(edit, from, to);
	struct tauti_seen seen;

	*ret_n = 0;
	while (tauti_walk_on(&walk, &seen)) {
		if (seen.from != from || seen.to != to)
			continue;
		if (!tauti_wait_drop(edit, seen.handle))
			return false;
		++*ret_n;
	}
	return true;
}

/* --- the exported ones ----------------------------------------------------------------- */

static taut_status check_ends(const struct taut_edit *edit, uint32_t from,
	uint32_t to, struct taut_error *err)
{
	taut_status status = tauti_edit_check_op(edit, from, err);

	return status ? status : tauti_edit_check_op(edit, to, err);
}

taut_status taut_edit_connect(struct taut_edit *edit, uint32_t from,
	uint32_t to, unsigned kind, int64_t lag_ns, struct taut_error *reterr)
{
	taut_status status = check_ends(edit, from, to, reterr);

	if (status)
		return status;
	if (from == to || (kind & ~(unsigned)TAUT_EDGE_FROM_START) >=
		TAUT_EDGE_KINDS)
		return taut_error_set(reterr, TAUT_EINVAL, -1, from == to ?
			"edit: operation %u cannot wait for itself" :
			"edit: operation %u: no such kind of wait: %u",
			(unsigned)to, kind);
	tauti_edit_begin(edit);
	return tauti_edit_end(edit, tauti_wait_add(edit, from, to,
		(uint8_t)kind, lag_ns) ? TAUT_OK :
		tauti_edit_no_memory(reterr));
}

taut_status taut_edit_disconnect(struct taut_edit *edit, uint32_t from,
	uint32_t to, struct taut_error *reterr)
{
	taut_status status = check_ends(edit, from, to, reterr);
	uint32_t n = 0;

	if (status)
		return status;
	tauti_edit_begin(edit);
	if (!tauti_wait_drop_between(edit, from, to, &n))
		status = tauti_edit_no_memory(reterr);
	else if (!n)
		status = taut_error_set(reterr, TAUT_EINVAL, -1, "edit: no "
			"edge leads from operation %u to %u", (unsigned)from,
			(unsigned)to);
	return tauti_edit_end(edit, status);
}

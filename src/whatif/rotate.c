/* rotate.c - a copied rank does not run in lock-step with its source: its steps
 * take what other recorded steps of the source took. The latest of many ranks
 * is then later than that of few, by as much as steps were seen to scatter. */
#include <stdlib.h>

#include "whatif/world.h"

enum { AHEAD = 24 }; /* operations, to find those that correspond again */

struct lane_ops { /* of one lane, by step */
	TAUT_VEC(uint32_t) ops;
	TAUT_VEC(uint32_t) begin; /* by step, and the end */
};

struct rotator {
	struct tauti_whatif *w;
	struct taut_error *err;
	uint32_t first_step, n_steps; /* of the recorded rank, in graph->steps */
	struct lane_ops from, to;
	uint32_t n_moved, n_lost; /* operations that correspond, and not */
};

static bool gather(struct rotator *r, uint32_t lane, struct lane_ops *ops)
{
	const struct tauti_job *job = r->w->job;
	uint32_t id = taut_edit_first(r->w->edit, lane);

	taut_vec_clear(&ops->ops);
	taut_vec_clear(&ops->begin);
	for (; id != TAUT_NONE; id = taut_edit_next(r->w->edit, id)) {
		uint32_t k = TAUT_NONE;
		struct taut_op op;

		if (!taut_edit_op(r->w->edit, id, &op))
			continue;
		if (op.like != TAUT_NONE && job->step_of[op.like] != TAUT_NONE)
			k = job->step_of[op.like] - r->first_step;
		if (k != TAUT_NONE && k < r->n_steps)
			while (ops->begin.count <= k)
				if (!taut_vec_push(&ops->begin,
					(uint32_t)ops->ops.count))
					return false;
		/* what lies between two steps goes with the one before */
		if (ops->begin.count && !taut_vec_push(&ops->ops, id))
			return false;
	}
	while (ops->begin.count <= r->n_steps)
		if (!taut_vec_push(&ops->begin, (uint32_t)ops->ops.count))
			return false;
	return true;
}

static bool corresponds(const struct rotator *r, uint32_t a, uint32_t b)
{
	struct taut_op x, y;

	return taut_edit_op(r->w->edit, a, &x) &&
		taut_edit_op(r->w->edit, b, &y) && x.kind == y.kind &&
		x.name == y.name;
}

/* How many to pass over in a and in b until they correspond again: as few as
 * can be. False: not near. */
static bool resync(const struct rotator *r, const uint32_t *a, uint32_t n_a,
	const uint32_t *b, uint32_t n_b, uint32_t *ret_a, uint32_t *ret_b)
{
	for (uint32_t sum = 1; sum <= AHEAD; sum++)
		for (uint32_t i = 0; i <= sum; i++)
			if (i < n_a && sum - i < n_b &&
				corresponds(r, a[i], b[sum - i])) {
				*ret_a = i;
				*ret_b = sum - i;
				return true;
			}
	return false;
}

static bool is_work(enum taut_op_kind kind)
{
	return kind != TAUT_OP_ARRIVE && kind != TAUT_OP_TRANSFER &&
		kind != TAUT_OP_JOIN && kind != TAUT_OP_MARK;
}

static taut_status set(struct rotator *r, uint32_t id, int64_t dur_ns,
	int64_t gap_ns)
{
	struct taut_op op;
	taut_status status = TAUT_OK;

	if (!taut_edit_op(r->w->edit, id, &op) || !is_work(op.kind))
		return TAUT_OK;
	if (op.dur_ns != dur_ns)
		status = taut_edit_set_dur(r->w->edit, id, dur_ns, r->err);
	if (!status && op.gap_ns != gap_ns)
		status = taut_edit_set_gap(r->w->edit, id, gap_ns, r->err);
	return status;
}

/* Time that only the other step has goes to the operation before it. */
static taut_status add_lost(struct rotator *r, uint32_t to, const uint32_t *b,
	uint32_t n)
{
	struct taut_op op, more;
	int64_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		if (taut_edit_op(r->w->edit, b[i], &more) &&
			is_work(more.kind))
			sum += more.dur_ns;
	r->n_lost += n;
	if (!sum || to == TAUT_NONE || !taut_edit_op(r->w->edit, to, &op))
		return TAUT_OK;
	return set(r, to, op.dur_ns + sum, op.gap_ns);
}

/* The ops a of a step take what the ops b of another one took. */
static taut_status take_times(struct rotator *r, const uint32_t *a,
	uint32_t n_a, const uint32_t *b, uint32_t n_b)
{
	uint32_t i = 0, k = 0, last = TAUT_NONE;
	taut_status status = TAUT_OK;

	while (!status && i < n_a && k < n_b) {
		uint32_t skip_a = 0, skip_b = 0;
		struct taut_op op;

		if (!corresponds(r, a[i], b[k]) && !resync(r, a + i, n_a - i,
			b + k, n_b - k, &skip_a, &skip_b))
			break;
		for (uint32_t s = 0; !status && s < skip_a; s++)
			status = set(r, a[i + s], 0, 0);
		if (!status)
			status = add_lost(r, last, b + k, skip_b);
		r->n_lost += skip_a;
		i += skip_a;
		k += skip_b;
		last = a[i];
		if (!status && taut_edit_op(r->w->edit, b[k], &op))
			status = set(r, a[i], op.dur_ns, op.gap_ns);
		r->n_moved++;
		i++;
		k++;
	}
	r->n_lost += n_a - i; /* the rest keeps its own times */
	return status;
}

static taut_status rotate_lane(struct rotator *r, uint32_t to, uint32_t from,
	uint32_t by)
{
	taut_status status = TAUT_OK;

	if (!gather(r, from, &r->from) || !gather(r, to, &r->to))
		return taut_error_set(
			r->err, TAUT_ENOMEM, -1, "no memory to copy steps");
	for (uint32_t k = 1; !status && k < r->n_steps; k++) {
		uint32_t other = 1 + (k - 1 + by) % (r->n_steps - 1);
		const uint32_t *a = r->to.begin.data + k;
		const uint32_t *b = r->from.begin.data + other;

		if (other != k)
			status = take_times(r, r->to.ops.data + a[0],
				a[1] - a[0], r->from.ops.data + b[0],
				b[1] - b[0]);
	}
	return status;
}

/* The lane of rank that is a copy of this one. */
static uint32_t same_lane(const struct tauti_whatif *w, uint32_t rank,
	uint32_t first, const struct taut_graph_lane *like)
{
	for (uint32_t l = first; l < taut_edit_lanes(w->edit); l++) {
		struct taut_graph_lane lane = taut_edit_lane(w->edit, l);

		if (lane.trace == rank &&
			lane.trace_lane == like->trace_lane &&
			lane.kind == like->kind && !lane.is_comm)
			return l;
	}
	return TAUT_NONE;
}

static void count_steps(struct rotator *r, uint32_t recorded)
{
	const struct taut_graph *g = r->w->graph;

	for (uint32_t s = 0; s < g->n_steps; s++) {
		if (g->steps[s].trace != recorded)
			continue;
		if (!r->n_steps++)
			r->first_step = s;
	}
}

taut_status tauti_rotate_steps(struct tauti_whatif *w, uint32_t rank,
	uint32_t like, uint32_t by, bool *ret_done, struct taut_error *err)
{
	struct rotator r = { .w = w, .err = err };
	taut_status status = TAUT_OK;
	uint32_t first = taut_edit_lanes(w->edit);

	*ret_done = false;
	count_steps(&r, taut_edit_rank_like(w->edit, like));
	if (r.n_steps < 3)
		return TAUT_OK;
	/* the lanes of the newest rank are the last ones */
	while (first && taut_edit_lane(w->edit, first - 1).trace == rank)
		first--;
	for (uint32_t l = 0; !status && l < first; l++) {
		struct taut_graph_lane lane = taut_edit_lane(w->edit, l);
		uint32_t to;

		if (lane.trace != like || lane.is_comm)
			continue;
		to = same_lane(w, rank, first, &lane);
		if (to != TAUT_NONE)
			status = rotate_lane(&r, to, l, by);
	}
	*ret_done = r.n_moved > 9 * (r.n_lost / 10);
	taut_vec_free(&r.from.ops);
	taut_vec_free(&r.from.begin);
	taut_vec_free(&r.to.ops);
	taut_vec_free(&r.to.begin);
	return status;
}

/* lay_lanes.c - which lane of communication takes a bucket, and where on it. */
#include <stdlib.h>

#include "whatif/lay.h"

enum { GLOO_LANES = 2 };

/* --- lanes ---------------------------------------------------------------------- */

static bool add_lane(struct layer *l, uint32_t place, uint32_t lane, uint32_t *n)
{
	struct comm_lane *lanes = l->lanes + place * TAUTI_MAX_LANES;

	for (uint32_t i = 0; i < *n; i++)
		if (lanes[i].lane == lane)
			return true;
	if (*n == TAUTI_MAX_LANES)
		return true;
	lanes[(*n)++] = (struct comm_lane) { lane, TAUT_NONE };
	return true;
}

static uint32_t main_lane(const struct layer *l, uint32_t rank)
{
	for (uint32_t i = 0; i < taut_edit_lanes(l->w->edit); i++) {
		struct taut_graph_lane lane = taut_edit_lane(l->w->edit, i);

		if (lane.trace == rank && lane.is_main)
			return lane.trace_lane;
	}
	return TAUT_NONE;
}

/* A lane of no thread that was recorded: it says it is of the main one's. */
static taut_status make_lanes(struct layer *l, uint32_t place, uint32_t *n)
{
	uint32_t want = l->how->lanes ? l->how->lanes : GLOO_LANES, id;
	struct taut_graph_lane lane = {
		.trace = tauti_step_at(l, place, 0)->rank,
		.trace_lane = main_lane(l, tauti_step_at(l, place, 0)->rank),
		.kind = l->w->job->has_device ? TAUT_LANE_STREAM :
			TAUT_LANE_THREAD,
		.is_comm = 1,
	};
	taut_status status = TAUT_OK;

	if (l->w->job->has_device)
		want = 1;
	while (!status && *n < want && *n < TAUTI_MAX_LANES) {
		status = taut_edit_add_lane(l->w->edit, &lane, &id, l->err);
		if (!status)
			add_lane(l, place, id, n);
	}
	return status;
}

/* Lanes that carried gradients, else those of communication, else new ones. */
static taut_status find_lanes(struct layer *l, uint32_t place, uint32_t *ret_n)
{
	const struct taut_edit *edit = l->w->edit;
	uint32_t rank = tauti_step_at(l, place, 0)->rank, n = 0;

	for (uint32_t k = 0; k < l->ddp->steps_a_rank; k++) {
		const struct tauti_ddp_step *s = tauti_step_at(l, place, k);
		struct taut_op op;

		for (uint32_t i = 0; i < s->n_buckets; i++)
			if (taut_edit_op(edit, tauti_bucket_at(l, s, i)->arrive, &op))
				add_lane(l, place, op.lane, &n);
	}
	for (uint32_t i = 0; !n && i < taut_edit_lanes(edit); i++) {
		struct taut_graph_lane lane = taut_edit_lane(edit, i);

		if (lane.trace == rank && lane.is_comm)
			add_lane(l, place, i, &n);
	}
	*ret_n = n;
	if (n)
		return TAUT_OK;
	return make_lanes(l, place, ret_n);
}

static int by_lane(const void *a, const void *b)
{
	const struct comm_lane *x = a, *y = b;

	return x->lane < y->lane ? -1 : x->lane > y->lane;
}

taut_status tauti_lay_find_lanes(struct layer *l)
{
	l->n_lanes = TAUTI_MAX_LANES;
	for (uint32_t p = 0; p < l->ddp->n_ranks; p++) {
		uint32_t n = 0;
		taut_status status = find_lanes(l, p, &n);

		if (status)
			return status;
		qsort(l->lanes + p * TAUTI_MAX_LANES, n, sizeof *l->lanes, by_lane);
		l->n_lanes = n < l->n_lanes ? n : l->n_lanes;
	}
	return TAUT_OK;
}

/* --- which lane ----------------------------------------------------------------- */

/* Up to `until`, or to the first lane that gets free. */
static void advance(struct tauti_queue *q, double until)
{
	while (q->now < until) {
		double least = 0, step;
		uint32_t active = 0;

		for (uint32_t i = 0; i < q->n_lanes; i++) {
			if (q->left[i] <= 0)
				continue;
			if (!active++ || q->left[i] < least)
				least = q->left[i];
		}
		if (!active) {
			q->now = until;
			return;
		}
		step = until - q->now < least * active ?
			(until - q->now) / active : least;
		for (uint32_t i = 0; i < q->n_lanes; i++) {
			q->left[i] -= q->left[i] > 0 ? step : 0;
			if (q->left[i] < 1e-3)
				q->left[i] = 0;
		}
		q->now += step * active;
	}
}

uint32_t tauti_queue_take(struct tauti_queue *q, double ready, double amount)
{
	advance(q, ready);
	for (;;) {
		double sum = 0;

		for (uint32_t i = 0; i < q->n_lanes; i++) {
			if (q->left[i] <= 0) {
				q->left[i] = amount > 1 ? amount : 1;
				return i;
			}
			sum += q->left[i];
		}
		/* at the latest when all are done one is free */
		for (uint32_t i = 0; i < q->n_lanes; i++)
			sum = q->left[i] * q->n_lanes < sum ?
				q->left[i] * q->n_lanes : sum;
		advance(q, q->now + sum);
	}
}

/* --- where on it ------------------------------------------------------------------- */

struct launcher {
	const struct layer *l;
	int64_t at_ns;
};

static void see_launch(void *context, struct taut_wait wait)
{
	struct launcher *x = context;
	struct taut_op op;

	if ((wait.kind & ~TAUT_EDGE_FROM_START) == TAUT_EDGE_LAUNCH &&
		taut_edit_op(x->l->w->edit, wait.op, &op) &&
		op.like != TAUT_NONE)
		x->at_ns = x->l->w->graph->start_ns[op.like];
}

/* When work on a lane of communication was handed over. */
static int64_t handed_over(const struct layer *l, uint32_t id,
	const struct taut_op *op)
{
	struct launcher x = { l, INT64_MIN };

	if (op->kind == TAUT_OP_TRANSFER || op->like == TAUT_NONE ||
		!l->w->graph->start_ns)
		return INT64_MIN; /* belongs to what stands before it */
	x.at_ns = l->w->graph->start_ns[op->like];
	taut_edit_each_in(l->w->edit, id, see_launch, &x);
	return x.at_ns;
}

uint32_t tauti_lay_place(struct layer *l, uint32_t place, uint32_t lane,
	int64_t ready_ns)
{
	struct comm_lane *c = &l->lanes[place * TAUTI_MAX_LANES + lane];
	const struct taut_edit *edit = l->w->edit;

	for (;;) {
		uint32_t next = c->after == TAUT_NONE ?
			taut_edit_first(edit, c->lane) :
			taut_edit_next(edit, c->after);
		struct taut_op op;

		if (next == TAUT_NONE || !taut_edit_op(edit, next, &op) ||
			handed_over(l, next, &op) > ready_ns)
			return c->after;
		c->after = next;
	}
}

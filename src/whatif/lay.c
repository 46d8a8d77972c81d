/* lay.c - other all-reduces of gradients in the place of those recorded. */
#include <stdlib.h>
#include <string.h>

#include "whatif/ddp.h"

enum {
	LAUNCH_HOST_NS = 60000, /* where none was seen */
	LAUNCH_LAG_NS = 20000,
	GLOO_LANES = 2,
	MAX_LANES = 16,
};

struct target { /* who waited for a bucket */
	uint32_t bucket, op;
	uint8_t kind;
};

struct comm_lane { /* of one rank */
	uint32_t lane;
	uint32_t after; /* new work stands behind this op; TAUT_NONE: first */
};

struct layer {
	struct tauti_whatif *w;
	const struct tauti_ddp *ddp;
	const tauti_plan *plan;
	const struct tauti_lay *how;
	struct taut_error *err;
	uint32_t n_lanes;
	struct comm_lane *lanes; /* by rank's place, MAX_LANES each */
	uint32_t *group;         /* by rank's place: the place of its first */
	struct taut_collective *like; /* by rank's place: one of its recorded */
	double ns_per_byte;
	TAUT_VEC(struct target) targets;
	TAUT_VEC(struct taut_wait) waits;
	TAUT_VEC(struct taut_member) members;
	TAUT_VEC(uint32_t) launches, places, arrive;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory to lay collectives");
}

static const struct tauti_ddp_step *step_at(const struct layer *l,
	uint32_t place, uint32_t k)
{
	return &l->ddp->steps.data[place * l->ddp->steps_a_rank + k];
}

static const struct tauti_bucket *bucket_at(const struct layer *l,
	const struct tauti_ddp_step *s, uint32_t i)
{
	return &l->ddp->buckets.data[s->first_bucket + i];
}

static const struct tauti_gradient *gradient_at(const struct layer *l,
	const struct tauti_ddp_step *s, uint32_t i)
{
	return &l->ddp->gradients.data[s->first_gradient + i];
}

/* --- lanes ---------------------------------------------------------------------- */

static bool add_lane(struct layer *l, uint32_t place, uint32_t lane, uint32_t *n)
{
	struct comm_lane *lanes = l->lanes + place * MAX_LANES;

	for (uint32_t i = 0; i < *n; i++)
		if (lanes[i].lane == lane)
			return true;
	if (*n == MAX_LANES)
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
		.trace = step_at(l, place, 0)->rank,
		.trace_lane = main_lane(l, step_at(l, place, 0)->rank),
		.kind = l->w->job->has_device ? TAUT_LANE_STREAM :
			TAUT_LANE_THREAD,
		.is_comm = 1,
	};
	taut_status status = TAUT_OK;

	if (l->w->job->has_device)
		want = 1;
	while (!status && *n < want && *n < MAX_LANES) {
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
	uint32_t rank = step_at(l, place, 0)->rank, n = 0;

	for (uint32_t k = 0; k < l->ddp->steps_a_rank; k++) {
		const struct tauti_ddp_step *s = step_at(l, place, k);
		struct taut_op op;

		for (uint32_t i = 0; i < s->n_buckets; i++)
			if (taut_edit_op(edit, bucket_at(l, s, i)->arrive, &op))
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

static taut_status find_all_lanes(struct layer *l)
{
	l->n_lanes = MAX_LANES;
	for (uint32_t p = 0; p < l->ddp->n_ranks; p++) {
		uint32_t n = 0;
		taut_status status = find_lanes(l, p, &n);

		if (status)
			return status;
		qsort(l->lanes + p * MAX_LANES, n, sizeof *l->lanes, by_lane);
		l->n_lanes = n < l->n_lanes ? n : l->n_lanes;
	}
	return TAUT_OK;
}

/* --- who was together, and how fast --------------------------------------------- */

static void find_groups(struct layer *l)
{
	uint32_t replica = l->how->replica ? l->how->replica : 1;

	for (uint32_t p = 0; p < l->ddp->n_ranks; p++) {
		const struct tauti_ddp_step *s = step_at(l, p, 0);
		uint32_t of = s->n_buckets ?
			bucket_at(l, s, 0)->collective : TAUT_NONE;

		l->group[p] = p;
		l->like[p] = (struct taut_collective) {
			.kind = TAUT_COLL_ALLREDUCE, .bytes = -1,
			.group_size = 0,
		};
		if (of != TAUT_NONE)
			(void)taut_edit_collective(l->w->edit, of, &l->like[p]);
		for (uint32_t q = 0; q < p && l->group[p] == p; q++) {
			const struct tauti_ddp_step *t = step_at(l, q, 0);

			if (of == TAUT_NONE ?
				!t->n_buckets && p % replica == q % replica :
				t->n_buckets &&
				bucket_at(l, t, 0)->collective == of)
				l->group[p] = l->group[q];
		}
	}
}

/* What a byte took alone on the link; for the lanes' order alone. */
static double measure_rate(const struct layer *l)
{
	double amount = 0, bytes = 0;

	for (size_t i = 0; i < l->ddp->buckets.count; i++) {
		const struct tauti_bucket *b = &l->ddp->buckets.data[i];
		uint32_t like = taut_edit_collective_like(
			l->w->edit, b->collective);

		if (like == TAUT_NONE || b->bytes <= 0 || !l->w->costs)
			continue;
		amount += l->w->costs->transfers[like].amount;
		bytes += (double)b->bytes;
	}
	return bytes > 0 && amount > 0 ? amount / bytes : 1;
}

/* --- what was there goes -------------------------------------------------------- */

static void take_wait(void *context, struct taut_wait wait)
{
	struct layer *l = context;

	if ((wait.kind & ~TAUT_EDGE_FROM_START) != TAUT_EDGE_COMM &&
		!taut_vec_push(&l->waits, wait))
		l->w = NULL;
}

/* Cuts what leads into the arrival and out of the transfer; those who waited
 * for the transfer are kept as targets of the bucket. */
static taut_status loosen(struct layer *l, uint32_t bucket, uint32_t arrive)
{
	struct tauti_whatif *w = l->w;
	uint32_t transfer = taut_edit_next(w->edit, arrive);
	taut_status status = TAUT_OK;
	size_t in;

	taut_vec_clear(&l->waits);
	taut_edit_each_in(w->edit, arrive, take_wait, l);
	in = l->waits.count;
	if (l->w)
		taut_edit_each_out(w->edit, transfer, take_wait, l);
	if (!l->w) {
		l->w = w;
		return no_memory(l->err);
	}
	for (size_t i = 0; !status && i < l->waits.count; i++) {
		struct target t = { bucket, l->waits.data[i].op,
			l->waits.data[i].kind };

		if (i < in)
			status = taut_edit_disconnect(w->edit, t.op, arrive,
				l->err);
		else
			status = taut_edit_disconnect(w->edit, transfer, t.op,
				l->err);
		if (!status && i >= in && !taut_vec_push(&l->targets, t))
			status = no_memory(l->err);
		/* several edges between the two went at once */
		while (!status && i + 1 < l->waits.count && (i + 1 < in) ==
			(i < in) && l->waits.data[i + 1].op == t.op)
			i++;
	}
	return status;
}

/* Is this op of the host within the event that hands the bucket over? */
static bool within(const struct layer *l, uint32_t rank, uint32_t launch,
	uint32_t id)
{
	const struct taut_run *run = l->w->graph->run;
	uint32_t like = taut_edit_rank_like(l->w->edit, rank);
	const struct taut_trace *t = run ? &run->traces[like] : NULL;
	struct taut_op a, b;
	uint32_t row;

	if (id == launch)
		return true;
	if (!t || !taut_edit_op(l->w->edit, launch, &a) ||
		!taut_edit_op(l->w->edit, id, &b) || a.event == TAUT_NONE ||
		b.event == TAUT_NONE)
		return false;
	row = tauti_row_around(t, a.event, "c10d::");
	return t->start_ns[b.event] >= t->start_ns[row] &&
		t->start_ns[b.event] < t->start_ns[row] + t->dur_ns[row];
}

/* The launch is not made any more: it takes no time. */
static taut_status silence(struct layer *l, uint32_t rank, uint32_t launch)
{
	struct taut_edit *edit = l->w->edit;
	uint32_t id = launch, before;
	taut_status status = TAUT_OK;

	if (launch == TAUT_NONE)
		return TAUT_OK;
	while ((before = taut_edit_before(edit, id)) != TAUT_NONE &&
		within(l, rank, launch, before))
		id = before;
	for (; !status && id != TAUT_NONE && within(l, rank, launch, id);
		id = taut_edit_next(edit, id))
		status = taut_edit_set_dur(edit, id, 0, l->err);
	return status;
}

static taut_status clear_step(struct layer *l, uint32_t place, uint32_t k)
{
	const struct tauti_ddp_step *s = step_at(l, place, k);
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < s->n_buckets; i++) {
		const struct tauti_bucket *b = bucket_at(l, s, i);

		status = loosen(l, s->first_bucket + i, b->arrive);
		if (!status)
			status = silence(l, s->rank, b->launch);
	}
	return status;
}

/* After every member was loosened: whoever comes first takes it all away. */
static taut_status remove_step(struct layer *l, uint32_t place, uint32_t k)
{
	const struct tauti_ddp_step *s = step_at(l, place, k);
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < s->n_buckets; i++) {
		uint32_t id = bucket_at(l, s, i)->collective;
		struct taut_collective c;

		if (taut_edit_collective(l->w->edit, id, &c))
			status = taut_edit_remove_collective(
				l->w->edit, id, l->err);
	}
	return status;
}

/* --- which lane ----------------------------------------------------------------- */

struct queue { /* work that shares the link evenly, one on each lane at most */
	double left[MAX_LANES]; /* ns alone on the link; 0: the lane is free */
	double now;
	uint32_t n_lanes;
};

/* Up to `until`, or to the first lane that gets free. */
static void advance(struct queue *q, double until)
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

static uint32_t take_lane(struct queue *q, double ready, double amount)
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

/* --- one bucket ----------------------------------------------------------------- */

static uint32_t plan_end(const struct layer *l, uint32_t b, uint32_t n)
{
	return b + 1 < l->plan->count ? l->plan->data[b + 1] : n;
}

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

/* Behind all that was handed over before. */
static uint32_t *find_place(struct layer *l, uint32_t place, uint32_t lane,
	int64_t ready_ns)
{
	struct comm_lane *c = &l->lanes[place * MAX_LANES + lane];
	const struct taut_edit *edit = l->w->edit;

	for (;;) {
		uint32_t next = c->after == TAUT_NONE ?
			taut_edit_first(edit, c->lane) :
			taut_edit_next(edit, c->after);
		struct taut_op op;

		if (next == TAUT_NONE || !taut_edit_op(edit, next, &op) ||
			handed_over(l, next, &op) > ready_ns)
			return &c->after;
		c->after = next;
	}
}

static taut_status insert_host(struct layer *l, uint32_t after,
	const char *name, int64_t dur_ns, uint32_t *ret_op)
{
	struct taut_op op = {
		.dur_ns = dur_ns, .kind = TAUT_OP_HOST, .event = TAUT_NONE,
		.collective = TAUT_NONE, .like = TAUT_NONE,
	};
	struct taut_op before;

	if (!taut_edit_op(l->w->edit, after, &before))
		return taut_error_set(l->err, TAUT_EINVAL, -1,
			"a gradient's operation was removed by a change before");
	op.lane = before.lane;
	return taut_edit_insert(l->w->edit, after, &op, name, ret_op, l->err);
}

/* The host's copy of the bucket's gradients, where it made none before. */
static taut_status insert_copies(struct layer *l, uint32_t place, uint32_t k,
	uint32_t from, uint32_t to, uint32_t *launch_after)
{
	const struct tauti_ddp_step *s = step_at(l, place, k);
	taut_status status = TAUT_OK;

	for (uint32_t i = from; !status && i < to &&
		l->how->copy_in > 0; i++) {
		const struct tauti_gradient *g = gradient_at(l, s, i);
		uint32_t op;

		status = insert_host(l, g->ready, "copy into the bucket",
			(int64_t)((double)g->bytes / l->how->copy_in), &op);
		if (i + 1 == to)
			*launch_after = op;
	}
	return status;
}

static taut_status launch_bucket(struct layer *l, uint32_t place, uint32_t k,
	uint32_t b, uint32_t *ret_launch)
{
	const struct tauti_ddp_step *s = step_at(l, place, k);
	uint32_t from = l->plan->data[b], to = plan_end(l, b, s->n_gradients);
	int64_t host = l->ddp->launch_host_ns >= 0 ? l->ddp->launch_host_ns :
		LAUNCH_HOST_NS;
	uint32_t after = gradient_at(l, s, to - 1)->ready;
	taut_status status = insert_copies(l, place, k, from, to, &after);

	if (status)
		return status;
	return insert_host(l, after, "c10d::allreduce_", host, ret_launch);
}

/* --- who waits ------------------------------------------------------------------ */

/* The recorded bucket that has gradient i. */
static uint32_t bucket_with(const struct layer *l,
	const struct tauti_ddp_step *s, uint32_t i)
{
	uint32_t b = 0;

	while (b + 1 < s->n_buckets && bucket_at(l, s, b + 1)->first <= i)
		b++;
	return s->first_bucket + b;
}

static taut_status connect_targets(struct layer *l, uint32_t bucket,
	uint32_t transfer, bool *ret_found)
{
	taut_status status = TAUT_OK;

	for (size_t i = 0; !status && i < l->targets.count; i++) {
		const struct target *t = &l->targets.data[i];
		struct taut_op op;

		if (t->bucket != bucket ||
			!taut_edit_op(l->w->edit, t->op, &op))
			continue;
		*ret_found = true;
		status = taut_edit_connect(l->w->edit, transfer, t->op,
			t->kind, 0, l->err);
	}
	return status;
}

/* Before the op `after`, which needs everything. */
static taut_status insert_copy_out(struct layer *l,
	const struct tauti_ddp_step *s, uint32_t from, uint32_t to,
	uint32_t *ret_op)
{
	uint32_t before = taut_edit_before(l->w->edit, s->after);
	int64_t bytes = 0;

	if (before == TAUT_NONE)
		return TAUT_OK;
	for (uint32_t i = from; i < to; i++)
		bytes += gradient_at(l, s, i)->bytes;
	return insert_host(l, before, "copy out of the bucket",
		(int64_t)((double)bytes / l->how->copy_out), ret_op);
}

static taut_status wait_for(struct layer *l, uint32_t place, uint32_t k,
	uint32_t b, uint32_t transfer)
{
	const struct tauti_ddp_step *s = step_at(l, place, k);
	uint32_t from = l->plan->data[b], to = plan_end(l, b, s->n_gradients);
	uint32_t op = gradient_at(l, s, from)->out, last;
	taut_status status = TAUT_OK;
	bool found = false;

	if (op == TAUT_NONE && s->n_buckets) {
		last = s->first_bucket + s->n_buckets;
		for (uint32_t i = bucket_with(l, s, from); i < last && !found &&
			!status; i++)
			status = connect_targets(l, i, transfer, &found);
	} else if (op == TAUT_NONE && l->how->copy_out > 0 &&
		s->after != TAUT_NONE) {
		status = insert_copy_out(l, s, from, to, &op);
	}
	if (status || found)
		return status;
	if (op == TAUT_NONE)
		op = s->after;
	if (op == TAUT_NONE)
		return TAUT_OK;
	return taut_edit_connect(
		l->w->edit, transfer, op, TAUT_EDGE_THREAD, 0, l->err);
}

/* --- one collective ------------------------------------------------------------- */

static taut_status add_members(struct layer *l, uint32_t group, uint32_t k,
	uint32_t b, uint32_t lane)
{
	taut_vec_clear(&l->members);
	taut_vec_clear(&l->launches);
	taut_vec_clear(&l->places);
	for (uint32_t p = group; p < l->ddp->n_ranks; p++) {
		const struct tauti_ddp_step *s = step_at(l, p, k);
		struct taut_member m;
		uint32_t launch;
		taut_status status;

		if (l->group[p] != group)
			continue;
		status = launch_bucket(l, p, k, b, &launch);
		if (status)
			return status;
		m.lane = l->lanes[p * MAX_LANES + lane].lane;
		m.after = *find_place(l, p, lane, gradient_at(l, s,
			plan_end(l, b, s->n_gradients) - 1)->ready_ns);
		m.dur_ns = 0;
		if (!taut_vec_push(&l->members, m) ||
			!taut_vec_push(&l->launches, launch) ||
			!taut_vec_push(&l->places, p))
			return no_memory(l->err);
	}
	taut_vec_clear(&l->arrive);
	return taut_vec_reserve(&l->arrive, l->members.count) ? TAUT_OK :
		no_memory(l->err);
}

static int64_t bucket_bytes(const struct layer *l, uint32_t place, uint32_t k,
	uint32_t b)
{
	const struct tauti_ddp_step *s = step_at(l, place, k);
	uint32_t to = plan_end(l, b, s->n_gradients);
	int64_t bytes = 0;

	for (uint32_t i = l->plan->data[b]; i < to; i++)
		bytes += gradient_at(l, s, i)->bytes;
	return bytes;
}

static taut_status connect_launch(struct layer *l, size_t i, uint32_t k,
	uint32_t b)
{
	const struct tauti_ddp_step *s = step_at(l, l->places.data[i], k);
	uint32_t kernel = gradient_at(l, s,
		plan_end(l, b, s->n_gradients) - 1)->kernel;
	int64_t lag = l->ddp->launch_lag_ns >= 0 ? l->ddp->launch_lag_ns :
		LAUNCH_LAG_NS;
	taut_status status = taut_edit_connect(l->w->edit, l->launches.data[i],
		l->arrive.data[i], TAUT_EDGE_LAUNCH | TAUT_EDGE_FROM_START,
		lag, l->err);

	if (status || kernel == TAUT_NONE)
		return status;
	return taut_edit_connect(l->w->edit, kernel, l->arrive.data[i],
		TAUT_EDGE_STREAM, 0, l->err);
}

/* What the bucket would have taken as it was recorded: of each recorded one
 * that has a part of it the part's share, and the latency of one. */
static taut_status put_together(struct layer *l, uint32_t place, uint32_t k,
	uint32_t b, uint32_t id)
{
	const struct tauti_ddp_step *s = step_at(l, place, k);
	const struct tauti_whatif *w = l->w;
	uint32_t from = l->plan->data[b], to = plan_end(l, b, s->n_gradients);
	double most = 0;
	struct tauti_way way = { .put_bytes = (double)bucket_bytes(
		l, place, k, b) };

	for (uint32_t i = 0; i < s->n_buckets; i++) {
		const struct tauti_bucket *old = bucket_at(l, s, i);
		struct taut_law_in in;
		struct taut_transfer t;
		int64_t part = 0;

		for (uint32_t g = old->first; g < old->first + old->n; g++)
			if (g >= from && g < to)
				part += gradient_at(l, s, g)->bytes;
		if (!part)
			continue;
		if (old->like == TAUT_NONE ||
			w->costs->transfers[old->like].amount <= 0)
			return TAUT_OK; /* by the line alone */
		in = taut_costs_law_in(w->costs, old->like);
		in.bytes = (double)part;
		t = taut_costs_transfer(w->costs, old->like, &in, 0);
		way.put_amount += t.amount;
		way.put_latency_ns += (double)part * (double)t.latency_ns;
		if ((double)part > most) {
			most = (double)part;
			way.like = old->like + 1;
		}
	}
	if (!way.like)
		return TAUT_OK;
	way.put_latency_ns /= way.put_bytes;
	return tauti_set_way(l->w, id, &way, l->err);
}

static taut_status lay_bucket(struct layer *l, uint32_t group, uint32_t k,
	uint32_t b, uint32_t lane)
{
	struct taut_collective c = l->like[group];
	taut_status status = add_members(l, group, k, b, lane);
	uint32_t id;

	if (status)
		return status;
	c.kind = TAUT_COLL_ALLREDUCE;
	if (c.group_size < 1)
		c.group_size = (int32_t)l->members.count;
	c.bytes = bucket_bytes(l, group, k, b);
	c.seq = -1;
	status = taut_edit_add_collective(l->w->edit, &c, l->members.data,
		(uint32_t)l->members.count, &id, l->arrive.data, l->err);
	if (!status)
		status = put_together(l, group, k, b, id);
	for (size_t i = 0; !status && i < l->members.count; i++) {
		uint32_t p = l->places.data[i];
		uint32_t transfer = taut_edit_next(
			l->w->edit, l->arrive.data[i]);

		l->lanes[p * MAX_LANES + lane].after = transfer;
		status = connect_launch(l, i, k, b);
		if (!status)
			status = wait_for(l, p, k, b, transfer);
	}
	return status;
}

/* --- all ------------------------------------------------------------------------ */

static double ready_ns(const struct layer *l, uint32_t k, uint32_t b)
{
	double latest = 0;

	for (uint32_t p = 0; p < l->ddp->n_ranks; p++) {
		const struct tauti_ddp_step *s = step_at(l, p, k);
		double at = (double)gradient_at(l, s,
			plan_end(l, b, s->n_gradients) - 1)->ready_ns;

		latest = at > latest ? at : latest;
	}
	return latest;
}

static taut_status lay_step(struct layer *l, uint32_t k)
{
	struct queue q = { .n_lanes = l->n_lanes };
	taut_status status = TAUT_OK;

	taut_vec_clear(&l->targets);
	for (uint32_t p = 0; !status && p < l->ddp->n_ranks; p++)
		status = clear_step(l, p, k);
	for (uint32_t p = 0; !status && p < l->ddp->n_ranks; p++)
		status = remove_step(l, p, k);
	for (uint32_t b = 0; !status && b < l->plan->count; b++) {
		uint32_t lane = take_lane(&q, ready_ns(l, k, b), l->ns_per_byte
			* (double)bucket_bytes(l, 0, k, b));

		for (uint32_t g = 0; !status && g < l->ddp->n_ranks; g++)
			if (l->group[g] == g)
				status = lay_bucket(l, g, k, b, lane);
	}
	return status;
}

static bool allocate(struct layer *l)
{
	size_t n = l->ddp->n_ranks + 1;

	l->lanes = calloc(n * MAX_LANES, sizeof *l->lanes);
	l->group = calloc(n, sizeof *l->group);
	l->like = calloc(n, sizeof *l->like);
	return l->lanes && l->group && l->like;
}

static void release(struct layer *l)
{
	free(l->lanes);
	free(l->group);
	free(l->like);
	taut_vec_free(&l->targets);
	taut_vec_free(&l->waits);
	taut_vec_free(&l->members);
	taut_vec_free(&l->launches);
	taut_vec_free(&l->places);
	taut_vec_free(&l->arrive);
}

taut_status tauti_ddp_lay(struct tauti_whatif *w, const struct tauti_ddp *ddp,
	const tauti_plan *plan, const struct tauti_lay *how,
	struct taut_error *err)
{
	struct layer l = { .w = w, .ddp = ddp, .plan = plan, .how = how,
		.err = err };
	taut_status status = TAUT_OK;

	if (!ddp->n_ranks || !ddp->steps_a_rank || !plan->count)
		return TAUT_OK;
	if (!allocate(&l))
		status = no_memory(err);
	if (!status) {
		find_groups(&l);
		l.ns_per_byte = measure_rate(&l);
		status = find_all_lanes(&l);
	}
	for (uint32_t k = 0; !status && k < ddp->steps_a_rank; k++)
		status = lay_step(&l, k);
	release(&l);
	return status;
}

/* lay.c - other all-reduces of gradients in the place of those recorded. */
#include <inttypes.h>
#include <stdlib.h>

#include "whatif/attach.h"
#include "whatif/lay.h"

enum {
	LAUNCH_HOST_NS = 60000, /* where none was seen */
	LAUNCH_LAG_NS = 20000,
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory to lay collectives");
}

/* --- who was together, and how fast --------------------------------------------- */

static void find_groups(struct layer *l)
{
	uint32_t replica = l->how->replica ? l->how->replica : 1;

	for (uint32_t p = 0; p < l->ddp->n_ranks; p++) {
		const struct tauti_ddp_step *s = tauti_step_at(l, p, 0);
		uint32_t of = s->n_buckets ?
			tauti_bucket_at(l, s, 0)->collective : TAUT_NONE;

		l->group[p] = p;
		l->like[p] = (struct taut_collective) {
			.kind = TAUT_COLL_ALLREDUCE, .bytes = -1,
			.group_size = 0,
		};
		if (of != TAUT_NONE)
			(void)taut_edit_collective(l->w->edit, of, &l->like[p]);
		for (uint32_t q = 0; q < p && l->group[p] == p; q++) {
			const struct tauti_ddp_step *t = tauti_step_at(l, q, 0);

			if (of == TAUT_NONE ?
				!t->n_buckets && p % replica == q % replica :
				t->n_buckets &&
				tauti_bucket_at(l, t, 0)->collective == of)
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

/* --- one bucket ----------------------------------------------------------------- */

static uint32_t plan_end(const struct layer *l, uint32_t b, uint32_t n)
{
	return b + 1 < l->plan->count ? l->plan->data[b + 1] : n;
}

/* The host's copy of the bucket's gradients, where it made none before. */
static taut_status insert_copies(struct layer *l, uint32_t place, uint32_t k,
	uint32_t from, uint32_t to, uint32_t *launch_after)
{
	const struct tauti_ddp_step *s = tauti_step_at(l, place, k);
	taut_status status = TAUT_OK;

	for (uint32_t i = from; !status && i < to &&
		l->how->copy_in > 0; i++) {
		const struct tauti_gradient *g = tauti_gradient_at(l, s, i);
		uint32_t op;

		status = tauti_insert_work(l->w, g->ready, TAUTI_COPY_IN,
			(int64_t)((double)g->bytes / l->how->copy_in), &op,
			l->err);
		if (i + 1 == to)
			*launch_after = op;
	}
	return status;
}

static taut_status launch_bucket(struct layer *l, uint32_t place, uint32_t k,
	uint32_t b, uint32_t *ret_launch)
{
	const struct tauti_ddp_step *s = tauti_step_at(l, place, k);
	uint32_t from = l->plan->data[b], to = plan_end(l, b, s->n_gradients);
	int64_t host = l->ddp->launch_host_ns >= 0 ? l->ddp->launch_host_ns :
		LAUNCH_HOST_NS;
	uint32_t after = tauti_gradient_at(l, s, to - 1)->ready;
	taut_status status;

	if (l->ddp->exchanged) { /* what hands it over stays */
		*ret_launch = after;
		return TAUT_OK;
	}
	status = insert_copies(l, place, k, from, to, &after);
	if (status)
		return status;
	return tauti_insert_work(
		l->w, after, "c10d::allreduce_", host, ret_launch, l->err);
}

/* --- who waits ------------------------------------------------------------------ */

/* The recorded bucket that has gradient i. */
static uint32_t bucket_with(const struct layer *l,
	const struct tauti_ddp_step *s, uint32_t i)
{
	uint32_t b = 0;

	while (b + 1 < s->n_buckets && tauti_bucket_at(l, s, b + 1)->first <= i)
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
		bytes += tauti_gradient_at(l, s, i)->bytes;
	return tauti_insert_work(l->w, before, TAUTI_COPY_OUT,
		(int64_t)((double)bytes / l->how->copy_out), ret_op, l->err);
}

/* Each gradient has who waits for it. */
static taut_status wait_for_each(struct layer *l, uint32_t place, uint32_t k,
	uint32_t b, uint32_t transfer)
{
	const struct tauti_ddp_step *s = tauti_step_at(l, place, k);
	uint32_t to = plan_end(l, b, s->n_gradients);
	taut_status status = TAUT_OK;

	for (uint32_t i = l->plan->data[b]; !status && i < to; i++) {
		uint32_t out = tauti_gradient_at(l, s, i)->out;

		if (out != TAUT_NONE)
			status = taut_edit_connect(l->w->edit, transfer, out,
				TAUT_EDGE_THREAD, 0, l->err);
	}
	return status;
}

static taut_status wait_for(struct layer *l, uint32_t place, uint32_t k,
	uint32_t b, uint32_t transfer)
{
	const struct tauti_ddp_step *s = tauti_step_at(l, place, k);
	uint32_t from = l->plan->data[b], to = plan_end(l, b, s->n_gradients);
	uint32_t op = tauti_gradient_at(l, s, from)->out, last;
	taut_status status = TAUT_OK;
	bool found = false;

	if (l->ddp->exchanged)
		return wait_for_each(l, place, k, b, transfer);
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
		const struct tauti_ddp_step *s = tauti_step_at(l, p, k);
		struct taut_member m = { 0 };
		uint32_t launch;
		taut_status status;

		if (l->group[p] != group)
			continue;
		status = launch_bucket(l, p, k, b, &launch);
		if (status)
			return status;
		m.lane = l->lanes[p * TAUTI_MAX_LANES + lane].lane;
		m.after = tauti_lay_place(l, p, lane, tauti_gradient_at(l, s,
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
	const struct tauti_ddp_step *s = tauti_step_at(l, place, k);
	uint32_t to = plan_end(l, b, s->n_gradients);
	int64_t bytes = 0;

	for (uint32_t i = l->plan->data[b]; i < to; i++)
		bytes += tauti_gradient_at(l, s, i)->bytes;
	return bytes;
}

/* It goes when the last of them is there, whichever that is. */
static taut_status connect_each(struct layer *l, size_t i, uint32_t k,
	uint32_t b)
{
	const struct tauti_ddp_step *s = tauti_step_at(l, l->places.data[i], k);
	uint32_t to = plan_end(l, b, s->n_gradients);
	taut_status status = TAUT_OK;

	for (uint32_t g = l->plan->data[b]; !status && g < to; g++)
		status = taut_edit_connect(l->w->edit,
			tauti_gradient_at(l, s, g)->ready, l->arrive.data[i],
			TAUT_EDGE_LAUNCH, 0, l->err);
	return status;
}

static taut_status connect_launch(struct layer *l, size_t i, uint32_t k,
	uint32_t b)
{
	const struct tauti_ddp_step *s = tauti_step_at(l, l->places.data[i], k);
	uint32_t kernel = tauti_gradient_at(l, s,
		plan_end(l, b, s->n_gradients) - 1)->kernel;
	int64_t lag = l->ddp->launch_lag_ns >= 0 ? l->ddp->launch_lag_ns :
		LAUNCH_LAG_NS;
	taut_status status;

	if (l->ddp->exchanged)
		return connect_each(l, i, k, b);
	status = taut_edit_connect(l->w->edit, l->launches.data[i],
		l->arrive.data[i], TAUT_EDGE_LAUNCH | TAUT_EDGE_FROM_START,
		lag, l->err);

	if (status || kernel == TAUT_NONE)
		return status;
	return taut_edit_connect(l->w->edit, kernel, l->arrive.data[i],
		TAUT_EDGE_STREAM, 0, l->err);
}

static int64_t part_bytes(const struct layer *l, const struct tauti_ddp_step *s,
	const struct tauti_bucket *old, uint32_t from, uint32_t to)
{
	int64_t bytes = 0;

	for (uint32_t g = old->first; g < old->first + old->n; g++)
		if (g >= from && g < to)
			bytes += tauti_gradient_at(l, s, g)->bytes;
	return bytes;
}

/* What the bucket would have taken as it was recorded: of each one before that
 * has a part of it the part's share, and the latency of one. */
static void put_together(const struct layer *l, const struct tauti_ddp_step *s,
	uint32_t from, uint32_t to, struct tauti_way *way)
{
	struct tauti_way put = { 0 };
	double most = 0;

	for (uint32_t i = 0; i < s->n_buckets; i++) {
		const struct tauti_bucket *old = tauti_bucket_at(l, s, i);
		double part = (double)part_bytes(l, s, old, from, to);
		struct tauti_way was;

		if (part <= 0)
			continue;
		was = tauti_piece_way(l->w, old->like,
			tauti_way_of(l->w, old->collective), part);
		if (was.put_bytes <= 0)
			return; /* by the line alone */
		put.put_bytes += part;
		put.put_amount += was.put_amount;
		put.put_latency_ns += part * was.put_latency_ns;
		if (part > most) {
			most = part;
			put.like = was.like;
		}
	}
	if (!put.like)
		return;
	way->like = put.like;
	way->put_bytes = put.put_bytes;
	way->put_amount = put.put_amount;
	way->put_latency_ns = put.put_latency_ns / put.put_bytes;
}

/* The one before that most of it was in. Messages of an exchange do not tell what
 * they hold: the largest. */
static const struct tauti_bucket *most_of(const struct layer *l,
	const struct tauti_ddp_step *s, uint32_t from, uint32_t to)
{
	const struct tauti_bucket *found = NULL;
	int64_t most = -1;

	for (uint32_t i = 0; i < s->n_buckets; i++) {
		const struct tauti_bucket *old = tauti_bucket_at(l, s, i);
		int64_t bytes = old->n ? part_bytes(l, s, old, from, to) :
			old->bytes;

		if (bytes <= most)
			continue;
		most = bytes;
		found = old;
	}
	return found;
}

/* As what was in its place is carried out by now. */
static taut_status set_way(struct layer *l, uint32_t place, uint32_t k,
	uint32_t b, uint32_t id)
{
	const struct tauti_ddp_step *s = tauti_step_at(l, place, k);
	uint32_t from = l->plan->data[b], to = plan_end(l, b, s->n_gradients);
	const struct tauti_bucket *old = most_of(l, s, from, to);
	struct tauti_way way;

	if (!old)
		return TAUT_OK;
	way = tauti_way_of(l->w, old->collective);
	way.like = 0;
	way.put_bytes = way.put_amount = way.put_latency_ns = 0;
	way.share = 0; /* its bytes are known */
	if (!l->ddp->exchanged) /* messages hold parts of gradients */
		put_together(l, s, from, to, &way);
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
		status = set_way(l, group, k, b, id);
	for (size_t i = 0; !status && i < l->members.count; i++) {
		uint32_t p = l->places.data[i];
		uint32_t transfer = taut_edit_next(
			l->w->edit, l->arrive.data[i]);

		l->lanes[p * TAUTI_MAX_LANES + lane].after = transfer;
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
		const struct tauti_ddp_step *s = tauti_step_at(l, p, k);
		double at = (double)tauti_gradient_at(l, s,
			plan_end(l, b, s->n_gradients) - 1)->ready_ns;

		latest = at > latest ? at : latest;
	}
	return latest;
}

static taut_status lay_step(struct layer *l, uint32_t k)
{
	struct tauti_queue q = { .n_lanes = l->n_lanes };
	taut_status status = tauti_lay_clear(l, k);

	for (uint32_t b = 0; !status && b < l->plan->count; b++) {
		uint32_t lane = tauti_queue_take(&q, ready_ns(l, k, b), l->ns_per_byte
			* (double)bucket_bytes(l, 0, k, b));

		for (uint32_t g = 0; !status && g < l->ddp->n_ranks; g++)
			if (l->group[g] == g)
				status = lay_bucket(l, g, k, b, lane);
	}
	return status;
}

/* One plan is of all steps. */
static taut_status check_counts(const struct tauti_whatif *w,
	const struct tauti_ddp *ddp, struct taut_error *err)
{
	const struct tauti_ddp_step *first = ddp->steps.data;
	const struct taut_step *steps = w->graph->steps;

	for (size_t i = 1; i < ddp->steps.count; i++) {
		const struct tauti_ddp_step *s = &ddp->steps.data[i];

		if (s->n_gradients != first->n_gradients)
			return taut_error_set(err, TAUT_EINVAL, -1, "step %"
				PRId64 " of rank %" PRIu32 " has %" PRIu32
				" gradients as far as the recording tells, "
				"step %" PRId64 " of rank %" PRIu32 " has %"
				PRIu32 ": no other all-reduces can be laid of "
				"them", steps[s->step].id, s->rank,
				s->n_gradients, steps[first->step].id,
				first->rank, first->n_gradients);
	}
	return TAUT_OK;
}

static bool allocate(struct layer *l)
{
	size_t n = l->ddp->n_ranks + 1;

	l->lanes = calloc(n * TAUTI_MAX_LANES, sizeof *l->lanes);
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
	taut_status status;

	if (!ddp->n_ranks || !ddp->steps_a_rank || !plan->count)
		return TAUT_OK;
	if (w->rows)
		return taut_error_set(err, TAUT_EINVAL, -1, "rows: other "
			"all-reduces are laid behind it; put rows behind them");
	status = check_counts(w, ddp, err);
	if (!status && !allocate(&l))
		status = no_memory(err);
	if (!status) {
		find_groups(&l);
		l.ns_per_byte = measure_rate(&l);
		status = tauti_lay_find_lanes(&l);
	}
	for (uint32_t k = 0; !status && k < ddp->steps_a_rank; k++)
		status = lay_step(&l, k);
	release(&l);
	return status;
}

/* attach.c - work before and behind an all-reduce. */
#include "whatif/attach.h"

struct waits {
	TAUT_VEC(struct taut_wait) of;
	bool failed;
};

static void take(void *context, struct taut_wait wait)
{
	struct waits *w = context;

	if ((wait.kind & ~TAUT_EDGE_FROM_START) != TAUT_EDGE_COMM &&
		!taut_vec_push(&w->of, wait))
		w->failed = true;
}

taut_status tauti_move_waits(struct tauti_whatif *w, uint32_t from, uint32_t to,
	struct taut_error *err)
{
	struct waits waits = { .failed = false };
	taut_status status = TAUT_OK;

	taut_edit_each_out(w->edit, from, take, &waits);
	if (waits.failed)
		status = taut_error_set(
			err, TAUT_ENOMEM, -1, "no memory for waits");
	for (size_t i = 0; !status && i < waits.of.count; i++) {
		const struct taut_wait *t = &waits.of.data[i];

		if (!i || t->op != t[-1].op)
			status = taut_edit_disconnect(
				w->edit, from, t->op, err);
		if (!status)
			status = taut_edit_connect(w->edit, to, t->op, t->kind,
				t->lag_ns, err);
	}
	taut_vec_free(&waits.of);
	return status;
}

taut_status tauti_insert_work(struct tauti_whatif *w, uint32_t after,
	const char *name, int64_t dur_ns, uint32_t *ret_op,
	struct taut_error *err)
{
	struct taut_op op = {
		.dur_ns = dur_ns, .event = TAUT_NONE, .collective = TAUT_NONE,
		.like = TAUT_NONE, .kind = TAUT_OP_HOST,
	};
	struct taut_op beside;

	if (!taut_edit_op(w->edit, after, &beside))
		return taut_error_set(err, TAUT_EINVAL, -1,
			"a gradient's operation was removed by a change before");
	op.lane = beside.lane;
	if (taut_edit_lane(w->edit, op.lane).kind == TAUT_LANE_STREAM)
		op.kind = TAUT_OP_KERNEL;
	return taut_edit_insert(w->edit, after, &op, name, ret_op, err);
}

taut_status tauti_work_before(struct tauti_whatif *w,
	const struct tauti_ddp *ddp, const struct tauti_ddp_step *step,
	const struct tauti_bucket *bucket, const char *name, int64_t dur_ns,
	struct taut_error *err)
{
	const struct tauti_gradient *last = bucket->n ? &ddp->gradients.data[
		step->first_gradient + bucket->first + bucket->n - 1] : NULL;
	uint32_t after = last && last->kernel != TAUT_NONE ? last->kernel :
		bucket->launch == TAUT_NONE ? TAUT_NONE :
		taut_edit_before(w->edit, bucket->launch);
	bool device = last && last->kernel != TAUT_NONE;
	uint32_t op;
	taut_status status;

	if (after == TAUT_NONE || dur_ns <= 0)
		return TAUT_OK;
	status = tauti_insert_work(w, after, name, dur_ns, &op, err);
	if (!status && device)
		status = taut_edit_connect(w->edit, op, bucket->arrive,
			TAUT_EDGE_STREAM, 0, err);
	return status;
}

taut_status tauti_work_behind(struct tauti_whatif *w,
	const struct tauti_bucket *bucket, const char *name, int64_t dur_ns,
	struct taut_error *err)
{
	uint32_t transfer = taut_edit_next(w->edit, bucket->arrive), op;
	taut_status status;

	if (dur_ns <= 0)
		return TAUT_OK;
	status = tauti_insert_work(w, transfer, name, dur_ns, &op, err);
	return status ? status : tauti_move_waits(w, transfer, op, err);
}

/* What else stands on a transfer's lane has an event, or is a transfer. */
uint32_t tauti_made_behind(const struct tauti_whatif *w, uint32_t id)
{
	uint32_t next = taut_edit_next(w->edit, id);
	struct taut_op op;

	return next != TAUT_NONE && taut_edit_op(w->edit, next, &op) &&
		op.like == TAUT_NONE && (op.kind == TAUT_OP_HOST ||
		op.kind == TAUT_OP_KERNEL) ? next : TAUT_NONE;
}

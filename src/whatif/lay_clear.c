/* lay_clear.c - takes the recorded all-reduces of gradients away. */
#include "whatif/lay.h"

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory to lay collectives");
}

static void take_wait(void *context, struct taut_wait wait)
{
	struct layer *l = context;

	if ((wait.kind & ~TAUT_EDGE_FROM_START) != TAUT_EDGE_COMM &&
		!taut_vec_push(&l->waits, wait))
		l->failed = true;
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
	taut_edit_each_out(w->edit, transfer, take_wait, l);
	if (l->failed)
		return no_memory(l->err);
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
static bool within(const struct tauti_whatif *w, uint32_t rank,
	uint32_t launch, uint32_t id)
{
	const struct taut_run *run = w->graph->run;
	uint32_t like = taut_edit_rank_like(w->edit, rank);
	const struct taut_trace *t = run ? &run->traces[like] : NULL;
	struct taut_op a, b;
	uint32_t row;

	if (id == launch)
		return true;
	if (!t || !taut_edit_op(w->edit, launch, &a) ||
		!taut_edit_op(w->edit, id, &b) || a.event == TAUT_NONE ||
		b.event == TAUT_NONE)
		return false;
	row = tauti_row_around(t, a.event, "c10d::");
	return t->start_ns[b.event] >= t->start_ns[row] &&
		t->start_ns[b.event] < t->start_ns[row] + t->dur_ns[row];
}

taut_status tauti_launch_silence(struct tauti_whatif *w, uint32_t rank,
	uint32_t launch, struct taut_error *err)
{
	uint32_t id = launch, before;
	taut_status status = TAUT_OK;

	if (launch == TAUT_NONE)
		return TAUT_OK;
	while ((before = taut_edit_before(w->edit, id)) != TAUT_NONE &&
		within(w, rank, launch, before))
		id = before;
	for (; !status && id != TAUT_NONE && within(w, rank, launch, id);
		id = taut_edit_next(w->edit, id))
		status = taut_edit_set_dur(w->edit, id, 0, err);
	return status;
}

static taut_status clear_step(struct layer *l, uint32_t place, uint32_t k)
{
	const struct tauti_ddp_step *s = tauti_step_at(l, place, k);
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < s->n_buckets; i++) {
		const struct tauti_bucket *b = tauti_bucket_at(l, s, i);

		status = loosen(l, s->first_bucket + i, b->arrive);
		if (!status)
			status = tauti_launch_silence(
				l->w, s->rank, b->launch, l->err);
	}
	return status;
}

/* After every member was loosened: whoever comes first takes it all away. */
static taut_status remove_step(struct layer *l, uint32_t place, uint32_t k)
{
	const struct tauti_ddp_step *s = tauti_step_at(l, place, k);
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < s->n_buckets; i++) {
		uint32_t id = tauti_bucket_at(l, s, i)->collective;
		struct taut_collective c;

		if (taut_edit_collective(l->w->edit, id, &c))
			status = taut_edit_remove_collective(
				l->w->edit, id, l->err);
	}
	return status;
}

taut_status tauti_lay_clear(struct layer *l, uint32_t k)
{
	taut_status status = TAUT_OK;

	taut_vec_clear(&l->targets);
	for (uint32_t p = 0; !status && p < l->ddp->n_ranks; p++)
		status = clear_step(l, p, k);
	for (uint32_t p = 0; !status && p < l->ddp->n_ranks; p++)
		status = remove_step(l, p, k);
	return status;
}

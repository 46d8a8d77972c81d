/* unseen.c - waits of gradients that decided nothing in the recording, and so
 * are not in the graph or longer than they are. They must be there before
 * transfers take another time. */
#include "whatif/attach.h"

enum { LAUNCH_LAG_NS = 20000 }; /* where no launch came to a free lane */

struct seen {
	const struct tauti_whatif *w;
	bool any;       /* waits for the transfer */
	uint32_t launch;
	int64_t lag_ns;
	uint8_t kind;
};

static void see_out(void *context, struct taut_wait wait)
{
	struct seen *s = context;

	s->any |= (wait.kind & ~TAUT_EDGE_FROM_START) != TAUT_EDGE_COMM;
}

static void see_in(void *context, struct taut_wait wait)
{
	struct seen *s = context;

	if (wait.kind != (TAUT_EDGE_LAUNCH | TAUT_EDGE_FROM_START))
		return;
	s->launch = wait.op;
	s->lag_ns = wait.lag_ns;
	s->kind = wait.kind;
}

static bool times_of(const struct tauti_whatif *w, uint32_t op,
	int64_t *ret_start, int64_t *ret_end)
{
	const struct taut_graph *g = w->graph;
	struct taut_op o;

	if (!g->start_ns || !taut_edit_op(w->edit, op, &o) ||
		o.like == TAUT_NONE)
		return false;
	*ret_start = g->start_ns[o.like];
	*ret_end = g->start_ns[o.like] + g->dur_ns[o.like];
	return true;
}

/* The lane was busy until after the bucket could have come. */
static bool came_to_busy(const struct tauti_whatif *w, const struct seen *s,
	uint32_t arrive)
{
	uint32_t before = taut_edit_before(w->edit, arrive);
	int64_t launch, busy, unused;

	return before != TAUT_NONE &&
		times_of(w, s->launch, &launch, &unused) &&
		times_of(w, before, &unused, &busy) &&
		busy >= launch + s->lag_ns;
}

static taut_status shorten_lag(struct tauti_whatif *w,
	const struct tauti_ddp *ddp, const struct tauti_bucket *b,
	struct taut_error *err)
{
	int64_t usual = ddp->launch_lag_ns >= 0 ? ddp->launch_lag_ns :
		LAUNCH_LAG_NS;
	struct seen s = { .w = w, .launch = TAUT_NONE };
	taut_status status;

	taut_edit_each_in(w->edit, b->arrive, see_in, &s);
	if (s.launch == TAUT_NONE || s.lag_ns <= usual ||
		!came_to_busy(w, &s, b->arrive))
		return TAUT_OK;
	status = taut_edit_disconnect(w->edit, s.launch, b->arrive, err);
	return status ? status : taut_edit_connect(w->edit, s.launch, b->arrive,
		s.kind, usual, err);
}

/* Would a wait have changed the recording? */
static bool was_there(const struct tauti_whatif *w, uint32_t transfer,
	uint32_t target)
{
	int64_t start, end, done;

	if (!times_of(w, transfer, &start, &done) ||
		!times_of(w, target, &start, &end))
		return true;
	return done <= start;
}

static taut_status add_wait(struct tauti_whatif *w, const struct tauti_ddp *ddp,
	const struct tauti_ddp_step *s, const struct tauti_bucket *b,
	struct taut_error *err)
{
	uint32_t transfer = taut_edit_next(w->edit, b->arrive), last = transfer;
	uint32_t op = b->n ? ddp->gradients.data[
		s->first_gradient + b->first].out : TAUT_NONE;
	struct seen seen = { .w = w };

	for (uint32_t id = transfer; id != TAUT_NONE;
		id = tauti_made_behind(w, id)) {
		taut_edit_each_out(w->edit, id, see_out, &seen);
		last = id; /* who waits for a bucket waits for this */
	}
	if (op == TAUT_NONE)
		op = s->after;
	if (seen.any || op == TAUT_NONE || !was_there(w, transfer, op))
		return TAUT_OK;
	return taut_edit_connect(
		w->edit, last, op, TAUT_EDGE_THREAD, 0, err);
}

taut_status tauti_ddp_wait(struct tauti_whatif *w, const struct tauti_ddp *ddp,
	struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (size_t i = 0; i < ddp->steps.count; i++) {
		const struct tauti_ddp_step *s = &ddp->steps.data[i];

		for (uint32_t k = 0; !status && k < s->n_buckets; k++) {
			const struct tauti_bucket *b =
				&ddp->buckets.data[s->first_bucket + k];

			status = shorten_lag(w, ddp, b, err);
			if (!status)
				status = add_wait(w, ddp, s, b, err);
		}
	}
	return status;
}

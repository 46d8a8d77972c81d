/* exchanged.c - see exchanged.h. */
#include "whatif/exchanged.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

static const char ready_name[] = "taut_sync_ready";
static const char wait_name[] = "taut_sync_wait";
static const char sum_name[] = "taut_sum";

struct call { /* of the exchange, in a step */
	uint32_t step; /* of the graph */
	int64_t task, bytes, exchange;
	uint32_t op;   /* its last */
	size_t at;     /* by lane, then as its operations stand there */
	bool waits;
	int64_t start_ns, end_ns;
};

struct finder {
	struct tauti_whatif *w;
	struct tauti_ddp *ddp;
	const uint8_t *marks;
	uint32_t rank;
	const struct taut_trace *trace;
	uint32_t ready, wait; /* names */
	TAUT_VEC(struct call) calls;
	uint32_t *gradient_of; /* by op of the edit: its gradient + 1 */
	/* the bucket at hand: of its step, the first and how many */
	uint32_t first, n, step;
	struct taut_error *err;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1,
		"no memory for the gradients of an exchange");
}

static bool tells(const struct taut_trace *t, const char *name)
{
	return taut_names_find(t->names, name, strlen(name)) != TAUT_NONE;
}

taut_status tauti_exchanged_is(
	const struct tauti_whatif *w, bool *ret_is, struct taut_error *err)
{
	const struct taut_run *run = w->graph->run;
	size_t n = run ? run->n_traces : 0, with = 0, without = 0;

	for (size_t i = 0; i < n; i++)
		*(tells(&run->traces[i], ready_name) ? &with : &without) = i + 1;
	if (with && without)
		return taut_error_set(err, TAUT_EINVAL, -1, "the recording of "
			"rank %zu has no %s, as that of rank %zu has: nothing "
			"tells when it hands its gradients over", without - 1,
			ready_name, with - 1);
	*ret_is = with && w->graph->start_ns;
	return TAUT_OK;
}

bool tauti_exchanged_sum(
	const struct taut_graph *graph, const struct taut_collective *c)
{
	return c->name && !strcmp(
		taut_names_text(graph->names, c->name), sum_name);
}

/* --- calls ------------------------------------------------------------------------ */

static bool see_op(struct finder *f, uint32_t id)
{
	const struct taut_trace *t = f->trace;
	const struct taut_comm_args *args;
	struct call call = { .op = id, .at = f->calls.count };
	struct taut_op op;

	if (!taut_edit_op(f->w->edit, id, &op) || op.event == TAUT_NONE ||
		op.like == TAUT_NONE || (t->name[op.event] != f->ready &&
		t->name[op.event] != f->wait))
		return true;
	args = taut_trace_comm(t, op.event);
	call.step = f->w->job->step_of[op.like];
	if (!args || args->seq < 0 || call.step == TAUT_NONE)
		return true;
	call.task = args->seq;
	call.exchange = args->comms_id;
	call.waits = t->name[op.event] == f->wait;
	call.bytes = args->in_elements > 0 ? args->in_elements *
		tauti_dtype_bytes(taut_names_text(t->names, args->dtype)) : 0;
	call.start_ns = f->w->graph->start_ns[op.like];
	call.end_ns = call.start_ns + f->w->graph->dur_ns[op.like];
	return taut_vec_push(&f->calls, call);
}

/* Those that hand over first; of one call its last operation comes last, and behind
 * those that repeat it what was recorded. */
static int by_task(const void *a, const void *b)
{
	const struct call *x = a, *y = b;

	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	if (x->task != y->task)
		return x->task < y->task ? -1 : 1;
	if (x->waits != y->waits)
		return x->waits ? 1 : -1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static taut_status find_calls(struct finder *f)
{
	const struct taut_edit *edit = f->w->edit;

	taut_vec_clear(&f->calls);
	for (uint32_t l = 0; l < taut_edit_lanes(edit); l++) {
		struct taut_graph_lane lane = taut_edit_lane(edit, l);

		if (lane.trace != f->rank || lane.is_comm ||
			lane.kind != TAUT_LANE_THREAD)
			continue;
		for (uint32_t id = taut_edit_first(edit, l); id != TAUT_NONE;
			id = taut_edit_next(edit, id))
			if (!see_op(f, id))
				return no_memory(f->err);
	}
	if (f->calls.count)
		qsort(f->calls.data, f->calls.count, sizeof *f->calls.data,
			by_task);
	return TAUT_OK;
}

/* Each exchange has gradients of its own by the same numbers: several models. */
static taut_status two_exchanges(const struct finder *f, const struct call *c)
{
	return taut_error_set(f->err, TAUT_EINVAL, -1, "step %" PRId64 " of rank %"
		PRIu32 " sums gradients of several models, each by an exchange of its "
		"own: other buckets and schedules are of one",
		f->w->graph->steps[c->step].id, f->rank);
}

/* A wait before the gradient is handed over is for that of the step before. */
static taut_status check_calls(const struct finder *f)
{
	const struct call *calls = f->calls.data, *ready = NULL;

	for (size_t i = 0; i < f->calls.count; i++) {
		const struct call *c = &calls[i];

		if (i && c[-1].step == c->step && c[-1].exchange != c->exchange)
			return two_exchanges(f, c);
		if (!ready || ready->step != c->step || ready->task != c->task)
			ready = c->waits ? NULL : c;
		if (ready && c->waits && c->start_ns < ready->start_ns)
			return taut_error_set(f->err, TAUT_EINVAL, -1, "step %" PRId64
				" of rank %" PRIu32 " waits for gradient %" PRId64 " of "
				"the step before: updates cross the end of a step, and "
				"where they would be without that is not known; record "
				"the job without taut run, or with --no-schedule",
				f->w->graph->steps[c->step].id, f->rank, c->task);
	}
	return TAUT_OK;
}

/* --- gradients ----------------------------------------------------------------------- */

/* The calls of one task in one step, from *at on: one gradient. */
static bool add_gradient(struct finder *f, size_t *at,
	struct tauti_ddp_step *s)
{
	const struct call *calls = f->calls.data, *first = &calls[*at];
	struct tauti_gradient g = { .ready = TAUT_NONE, .out = TAUT_NONE,
		.kernel = TAUT_NONE, .bytes = first->bytes,
		.task = first->task };

	for (; *at < f->calls.count && calls[*at].step == first->step &&
		calls[*at].task == first->task; ++*at) {
		if (calls[*at].waits) {
			g.out = calls[*at].op;
			continue;
		}
		g.ready = calls[*at].op;
		g.ready_ns = calls[*at].end_ns;
	}
	if (g.ready == TAUT_NONE)
		return true;
	s->n_gradients++;
	f->ddp->sized &= g.bytes > 0;
	if (!taut_vec_push(&f->ddp->gradients, g))
		return false;
	f->gradient_of[g.ready] = (uint32_t)f->ddp->gradients.count;
	return true;
}

/* A step lacks an event of a gradient that another one has. */
static taut_status lacks(const struct finder *f, const struct tauti_ddp_step *s,
	const struct tauti_ddp_step *other, const char *what, int64_t task)
{
	const struct taut_step *steps = f->w->graph->steps;

	return taut_error_set(f->err, TAUT_EINVAL, -1, "step %" PRId64 " of rank "
		"%" PRIu32 " has no %s of gradient %" PRId64 ", as step %" PRId64
		" of rank %" PRIu32 " has: an event that was lost, or not the same gradients in each "
		"step%s",
		steps[s->step].id, s->rank, what, task, steps[other->step].id,
		other->rank, what == wait_name ? ", or updates that cross its end" :
		"");
}

static taut_status sized_otherwise(const struct finder *f,
	const struct tauti_ddp_step *s, const struct tauti_gradient *g,
	const struct tauti_ddp_step *other, const struct tauti_gradient *h)
{
	return taut_error_set(f->err, TAUT_EINVAL, -1, "gradient %" PRId64 " has "
		"%" PRId64 " bytes on rank %" PRIu32 " and %" PRId64 " on rank "
		"%" PRIu32, g->task, g->bytes, s->rank, h->bytes, other->rank);
}

/* Both have their gradients by task. */
static taut_status check_same(const struct finder *f,
	const struct tauti_ddp_step *s, const struct tauti_ddp_step *other)
{
	const struct tauti_gradient *all = f->ddp->gradients.data;
	uint32_t i = 0;

	for (; i < s->n_gradients || i < other->n_gradients; i++) {
		const struct tauti_gradient *g = i < s->n_gradients ?
			&all[s->first_gradient + i] : NULL;
		const struct tauti_gradient *h = i < other->n_gradients ?
			&all[other->first_gradient + i] : NULL;

		if (!g || (h && h->task < g->task))
			return lacks(f, s, other, ready_name, h->task);
		if (!h || g->task < h->task)
			return lacks(f, other, s, ready_name, g->task);
		if (g->out == TAUT_NONE && h->out != TAUT_NONE)
			return lacks(f, s, other, wait_name, g->task);
		if (h->out == TAUT_NONE && g->out != TAUT_NONE)
			return lacks(f, other, s, wait_name, g->task);
		if (g->bytes != h->bytes)
			return sized_otherwise(f, s, g, other, h);
	}
	return TAUT_OK;
}

static taut_status add_steps(struct finder *f, uint32_t like)
{
	const struct taut_graph *g = f->w->graph;
	size_t at = 0;
	taut_status status = TAUT_OK;

	for (uint32_t k = 0; !status && k < g->n_steps; k++) {
		struct tauti_ddp_step s = { .rank = f->rank, .step = k,
			.first_gradient = (uint32_t)f->ddp->gradients.count,
			.after = TAUT_NONE, .begin = TAUT_NONE };

		if (g->steps[k].trace != like)
			continue;
		while (at < f->calls.count && f->calls.data[at].step < k)
			at++;
		while (at < f->calls.count && f->calls.data[at].step == k)
			if (!add_gradient(f, &at, &s))
				return no_memory(f->err);
		if (f->ddp->steps.count)
			status = check_same(f, &s, f->ddp->steps.data);
		if (!status && !taut_vec_push(&f->ddp->steps, s))
			return no_memory(f->err);
	}
	return status;
}

/* --- buckets ------------------------------------------------------------------------ */

/* Of which gradients is it? Those that lead to its arrival. */
static void see_in(void *context, struct taut_wait wait)
{
	struct finder *f = context;
	uint32_t gradient = f->gradient_of[wait.op];

	if (!gradient)
		return;
	gradient--;
	f->first = gradient < f->first ? gradient : f->first;
	f->n++;
}

/* The step that gradient i is of. */
static uint32_t step_of(const struct finder *f, size_t from, uint32_t gradient)
{
	size_t i = from;

	while (i + 1 < f->ddp->steps.count &&
		f->ddp->steps.data[i + 1].first_gradient <= gradient)
		i++;
	return f->ddp->steps.data[i].step;
}

struct of_step {
	uint32_t step;
	int64_t at; /* in its order */
	struct tauti_bucket bucket;
};

static int by_place(const void *a, const void *b)
{
	const struct of_step *x = a, *y = b;

	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static bool find_bucket(struct finder *f, size_t from, uint32_t id,
	struct of_step *ret)
{
	struct tauti_whatif *w = f->w;
	struct taut_collective c;
	struct taut_op op;

	if (!taut_edit_op(w->edit, id, &op) || op.kind != TAUT_OP_ARRIVE ||
		op.collective == TAUT_NONE ||
		!tauti_is_gradient(w, f->marks, op.collective) ||
		!taut_edit_collective(w->edit, op.collective, &c))
		return false;
	f->first = TAUT_NONE;
	f->n = 0;
	taut_edit_each_in(w->edit, id, see_in, f);
	*ret = (struct of_step){ .bucket = { .collective = op.collective,
		.arrive = id, .like = taut_edit_collective_like(
		w->edit, op.collective), .launch = TAUT_NONE,
		.bytes = c.bytes } };
	if (ret->bucket.like != TAUT_NONE) {
		ret->step = op.like == TAUT_NONE ? TAUT_NONE :
			w->job->step_of[op.like];
		ret->at = c.seq;
		return ret->step != TAUT_NONE;
	}
	if (!f->n)
		return false;
	ret->step = step_of(f, from, f->first);
	ret->at = f->first;
	ret->bucket.first = f->first;
	ret->bucket.n = f->n;
	return true;
}

/* Sorted, to the steps of the rank, which are from `from` on. */
static taut_status place_buckets(
	struct finder *f, size_t from, const struct of_step *found, size_t n)
{
	size_t at = 0;

	for (size_t k = from; k < f->ddp->steps.count; k++) {
		struct tauti_ddp_step *s = &f->ddp->steps.data[k];

		s->first_bucket = (uint32_t)f->ddp->buckets.count;
		while (at < n && found[at].step < s->step)
			at++;
		for (; at < n && found[at].step == s->step; at++) {
			struct tauti_bucket b = found[at].bucket;

			if (b.n)
				b.first -= s->first_gradient;
			s->n_buckets++;
			if (!taut_vec_push(&f->ddp->buckets, b))
				return no_memory(f->err);
		}
	}
	return TAUT_OK;
}

static taut_status add_buckets(struct finder *f, size_t from)
{
	const struct taut_edit *edit = f->w->edit;
	TAUT_VEC(struct of_step) found = { 0 };
	bool ok = true;
	taut_status status;

	for (uint32_t l = 0; l < taut_edit_lanes(edit); l++) {
		struct taut_graph_lane lane = taut_edit_lane(edit, l);
		struct of_step it;

		if (lane.trace != f->rank || !lane.is_comm)
			continue;
		for (uint32_t id = taut_edit_first(edit, l);
			ok && id != TAUT_NONE; id = taut_edit_next(edit, id))
			if (find_bucket(f, from, id, &it))
				ok = taut_vec_push(&found, it);
	}
	if (found.count)
		qsort(found.data, found.count, sizeof *found.data, by_place);
	status = ok ? place_buckets(f, from, found.data, found.count) :
		no_memory(f->err);
	taut_vec_free(&found);
	return status;
}

/* --- all ------------------------------------------------------------------------------ */

static uint32_t name_in(const struct taut_trace *t, const char *name)
{
	return taut_names_find(t->names, name, strlen(name));
}

taut_status tauti_exchanged_rank(struct tauti_whatif *w, struct tauti_ddp *ddp,
	const uint8_t *marks, uint32_t rank, struct taut_error *err)
{
	uint32_t like = taut_edit_rank_like(w->edit, rank);
	size_t from = ddp->steps.count;
	struct finder f = { .w = w, .ddp = ddp, .marks = marks, .rank = rank,
		.trace = &w->graph->run->traces[like], .err = err };
	taut_status status;

	f.ready = name_in(f.trace, ready_name);
	f.wait = name_in(f.trace, wait_name);
	f.gradient_of = calloc((size_t)taut_edit_ops(w->edit) + 1,
		sizeof *f.gradient_of);
	status = f.gradient_of ? find_calls(&f) : no_memory(err);
	if (!status)
		status = check_calls(&f);
	if (!status)
		status = add_steps(&f, like);
	if (!status)
		status = add_buckets(&f, from);
	free(f.gradient_of);
	taut_vec_free(&f.calls);
	return status;
}

static taut_status lay_alone(struct tauti_whatif *w,
	const struct tauti_ddp *ddp, struct taut_error *err)
{
	static const struct tauti_lay as_it_was = { 0 };
	tauti_plan plan = { 0 };
	bool ok = true;
	taut_status status;

	for (uint32_t i = 0; ok && i < ddp->steps.data->n_gradients; i++)
		ok = taut_vec_push(&plan, i);
	status = ok ? tauti_ddp_lay(w, ddp, &plan, &as_it_was, err) :
		no_memory(err);
	taut_vec_free(&plan);
	return status;
}

taut_status tauti_exchanged_part(struct tauti_whatif *w,
	struct tauti_ddp **ddp, struct taut_error *err)
{
	struct tauti_ddp *was = *ddp;
	taut_status status;

	if (!was->exchanged || !was->buckets.count ||
		was->buckets.data->like == TAUT_NONE)
		return TAUT_OK;
	status = lay_alone(w, was, err);
	if (status)
		return status;
	status = tauti_ddp_create(w, 0, NULL, 0, ddp, err);
	if (!status)
		tauti_ddp_destroy(was);
	return status;
}

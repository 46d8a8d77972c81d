/* dispatch.c - operations that a mechanism starts.
 *
 * A held op whose time has come is not started but put among the news; so is
 * an op whose end is to be told, as soon as that is known. What is told first is
 * due like a flow or a core, behind all of them and behind what starts. What is
 * released goes back to the ready ones, to start at the clock. */
#include <stdlib.h>
#include <string.h>

#include "sharing.h"

enum { STAGE_HELD, STAGE_TOLD, STAGE_RELEASED };

enum { MOST_IDLE = 1 << 20 };

/* --- calls: a binary heap ------------------------------------------------------------*/

static bool call_before(const struct call *a, const struct call *b)
{
	return a->at_ns < b->at_ns ||
		(a->at_ns == b->at_ns && a->asked < b->asked);
}

static bool put_call(struct taut_dispatch *d, struct call call)
{
	if (!taut_vec_push(&d->calls, call))
		return false;
	struct call *heap = d->calls.data;
	size_t at = d->calls.count - 1;
	for (; at && call_before(&call, &heap[(at - 1) / 2]); at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[at] = call;
	return true;
}

static struct call take_call(struct taut_dispatch *d)
{
	struct call *heap = d->calls.data, first = heap[0];
	size_t n = --d->calls.count, at = 0;
	struct call last = heap[n];
	for (size_t child = 1; child < n; child = 2 * at + 1) {
		if (child + 1 < n && call_before(&heap[child + 1], &heap[child]))
			child++;
		if (!call_before(&heap[child], &last))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = last;
	return first;
}

/* --- news ----------------------------------------------------------------------------------*/

static int64_t next_ns(const struct taut_dispatch *d)
{
	int64_t call_ns = d->calls.count ? d->calls.data[0].at_ns : INT64_MAX;
	return min64(call_ns, min64(
		ready_first_ns(&d->ended), ready_first_ns(&d->ready)));
}

static void plan(struct share *s)
{
	uint32_t id = s->is->n_flows + s->n_cores;
	int64_t at_ns = next_ns(s->dispatch);
	if (at_ns == INT64_MAX)
		due_drop(&s->due, id);
	else
		due_set(&s->due, id, max64(at_ns, s->clock_ns));
}

bool tauti_dispatch_hold(struct share *s, uint32_t op)
{
	struct taut_dispatch *d = s->dispatch;
	if (!(d->is->ops[op] & TAUT_HELD) || d->stage[op] == STAGE_RELEASED)
		return false;
	ready_put(&d->ready, (struct ready_op){ s->core.start_ns[op], op });
	plan(s);
	return true;
}

void tauti_dispatch_ended(struct share *s, uint32_t op)
{
	if (!(s->dispatch->is->ops[op] & TAUT_TELL_END))
		return;
	ready_put(&s->dispatch->ended,
		(struct ready_op){ s->core.end_ns[op], op });
	plan(s);
}

static void tell_ended(struct share *s)
{
	struct taut_dispatch *d = s->dispatch;
	uint32_t op = ready_take(&d->ended).op;
	d->cause = op;
	d->status = d->is->ended(
		d->is->context, d, op, s->clock_ns, d->err);
}

static void tell_ready(struct share *s)
{
	struct taut_dispatch *d = s->dispatch;
	uint32_t op = ready_take(&d->ready).op;
	d->cause = s->core.decided_by[op];
	d->stage[op] = STAGE_TOLD;
	d->n_held++;
	d->status = d->is->ready(
		d->is->context, d, op, s->clock_ns, d->err);
}

/* One that calls itself for ever, while nothing else can happen, would never
 * come to an end. */
static void tell_call(struct share *s)
{
	struct taut_dispatch *d = s->dispatch;
	struct call call = take_call(d);
	d->cause = call.cause;
	if (ready_first_ns(&s->core.ready) < INT64_MAX || s->due.n > 1)
		d->n_idle = 0;
	if (++d->n_idle > MOST_IDLE)
		d->status = taut_error_set(d->err, TAUT_EMATCH, -1, "the "
			"mechanism was called %u times in a row and released "
			"nothing; %u operations are held", (unsigned)d->n_idle,
			(unsigned)d->n_held);
	else
		d->status = d->is->called(
			d->is->context, d, call.what, s->clock_ns, d->err);
}

void tauti_dispatch_tell(struct share *s)
{
	struct taut_dispatch *d = s->dispatch;
	if (ready_first_ns(&d->ended) <= s->clock_ns) {
		d->n_idle = 0;
		tell_ended(s);
	} else if (ready_first_ns(&d->ready) <= s->clock_ns) {
		d->n_idle = 0;
		tell_ready(s);
	} else {
		tell_call(s);
	}
	d->cause = TAUT_NONE;
	s->stop |= d->status != TAUT_OK;
	plan(s);
}

/* --- what the mechanism asks for ----------------------------------------------------------*/

taut_status taut_dispatch_release(
	struct taut_dispatch *d, uint32_t op, struct taut_error *reterr)
{
	struct share *s = d->share;
	if (op >= s->graph->n_ops || !(d->is->ops[op] & TAUT_HELD) ||
			d->stage[op] != STAGE_TOLD)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"operation %u: cannot be released, it is not held, "
			"not ready, or was released before", (unsigned)op);
	d->stage[op] = STAGE_RELEASED;
	d->n_held--;
	d->n_idle = 0;
	if (s->clock_ns > s->core.start_ns[op]) {
		s->core.start_ns[op] = s->clock_ns;
		if (d->cause != TAUT_NONE)
			s->core.decided_by[op] = d->cause;
	}
	s->core.start_ns[op] += max64(d->gap_ns[op], 0);
	ready_put(&s->core.ready,
		(struct ready_op){ s->core.start_ns[op], op });
	return TAUT_OK;
}

taut_status taut_dispatch_call(struct taut_dispatch *d, int64_t at_ns,
	uint64_t what, struct taut_error *reterr)
{
	struct call call = { max64(at_ns, d->share->clock_ns), d->asked++,
		what, d->cause };
	if (at_ns >= (int64_t)1 << 60 || !d->is->called)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"a call at %lld ns: expected less than 2^60, and a "
			"mechanism that can be called", (long long)at_ns);
	if (!put_call(d, call))
		return taut_error_set(
			reterr, TAUT_ENOMEM, -1, "no memory for a call");
	plan(d->share);
	return TAUT_OK;
}

/* --- begin and end ---------------------------------------------------------------------------*/

static bool get_heap(struct share *s, unsigned what, struct ready *ret)
{
	size_t n = READY_SPARE;
	for (uint32_t op = 0; op < s->graph->n_ops; op++)
		n += (s->dispatch->is->ops[op] & what) != 0;
	ret->heap = TAUT_ARENA_ARRAY(s->arena, struct ready_op, n);
	if (!ret->heap)
		return false;
	ready_clear(ret);
	return true;
}

static bool mark_told(struct share *s)
{
	uint32_t *flow_of = TAUT_ARENA_ARRAY(
		s->arena, uint32_t, s->graph->n_ops);
	for (uint32_t op = 0; flow_of && op < s->graph->n_ops; op++)
		flow_of[op] = s->dispatch->is->ops[op] ? TAUTI_TOLD
			: s->is->flow_of[op];
	s->flow_of = flow_of;
	return flow_of != NULL;
}

static bool put_gaps_off(struct share *s, struct taut_replay_edit *edit)
{
	struct taut_dispatch *d = s->dispatch;
	int64_t *gap_ns = TAUT_ARENA_ARRAY(
		s->arena, int64_t, s->graph->n_ops);
	d->gap_ns = edit->gap_ns ? edit->gap_ns : s->graph->gap_ns;
	for (uint32_t op = 0; gap_ns && op < s->graph->n_ops; op++)
		gap_ns[op] = d->is->ops[op] & TAUT_HELD
			? min64(d->gap_ns[op], 0) : d->gap_ns[op];
	edit->gap_ns = gap_ns;
	return gap_ns != NULL;
}

taut_status tauti_dispatch_init(struct share *s, struct taut_dispatch *d,
	struct taut_replay_edit *edit, struct taut_error *err)
{
	d->is = edit->dispatcher;
	d->share = s;
	d->cause = TAUT_NONE;
	s->dispatch = d;
	d->stage = TAUT_ARENA_ARRAY(s->arena, uint8_t, s->graph->n_ops);
	if (!d->stage || !mark_told(s) || !put_gaps_off(s, edit) ||
			!get_heap(s, TAUT_HELD, &d->ready) ||
			!get_heap(s, TAUT_TELL_END, &d->ended))
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory to hold operations");
	return TAUT_OK;
}

void tauti_dispatch_fini(struct taut_dispatch *d)
{
	taut_vec_free(&d->calls);
}

taut_status tauti_dispatch_check(const struct share *s, struct taut_error *err)
{
	const struct taut_dispatch *d = s->dispatch;
	char text[200];
	uint32_t op = 0;
	if (!d->n_held)
		return TAUT_OK;
	while (d->stage[op] != STAGE_TOLD)
		op++;
	tauti_replay_describe(s->graph, op, text, sizeof text);
	return taut_error_set(err, TAUT_EMATCH, -1,
		"%u operations are held for ever: %s was ready at %lld ns and "
		"was never released", (unsigned)d->n_held, text,
		(long long)s->core.start_ns[op]);
}

taut_status tauti_replay_dispatched(const struct taut_graph *graph,
	const struct taut_replay_edit *edit, struct taut_timeline *timeline,
	struct taut_error *reterr)
{
	size_t size = ((size_t)graph->n_ops + 1) * sizeof(uint32_t);
	uint32_t *flow_of = malloc(size);
	struct taut_sharing none = { .flow_of = flow_of, .least_speed = 1 };
	struct taut_replay_edit with = *edit;
	taut_status status;
	if (!flow_of)
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"no memory to hold operations");
	memset(flow_of, 0xff, size);
	with.sharing = &none;
	status = tauti_replay_shared(graph, &with, timeline, NULL, reterr);
	free(flow_of);
	return status;
}

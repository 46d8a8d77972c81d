/* executor.c - threads of an executor, which run a graph's operators as they become
 * ready: TensorFlow's tf_Compute.
 *
 * The thread of the steps calls a function and blocks until the last of its operators
 * is done; nothing in the recording says so, but it shows, as for an autograd thread: a
 * call of it in which those threads are idle at first and at the end, and busy most of
 * the time between (with something, or waiting in a call for it), handed over and
 * waited. An operator that is ready because another
 * has ended begins on the thread of that one, or wakes an idle thread: what begins
 * there just after something has ended on another thread waited for that. */
#include <stdlib.h>

#include "graph/handoff.h"

enum {
	WAKE_NS = 1000000, /* a woken thread begins at most so late, and a */
	WAKE_SHARE = 20,   /* twentieth of the time that it was idle */
};

struct pool {
	struct tauti_handoff *f;
	uint32_t *lanes; /* of the executor */
	uint32_t n;
	bool is_called; /* by the thread of the steps, which waits for it */
};

/* A thread of TensorFlow's executor runs what is ready within such events. */
static bool is_executor_lane(
	const struct tauti_rank *rank, uint32_t lane, uint32_t process)
{
	const struct taut_trace *t = rank->trace;

	if (lane == rank->main_lane || rank->comm_lane[lane] ||
		t->lanes[lane].kind != TAUT_LANE_THREAD)
		return false;
	for (uint32_t i = t->lane_begin[lane]; i < t->lane_begin[lane + 1]; i++)
		if (t->name[i] == process)
			return true;
	return false;
}

/* --- from the thread of the steps, and back ------------------------------------------- */

struct span { /* of a slice of the main lane */
	uint32_t m;
	int64_t busy_ns; /* of all threads */
	uint32_t first, last; /* op that begins first, and ends last; NONE */
};

static bool is_before(const struct tauti_rank *r, uint32_t a, uint32_t b)
{
	return b == TAUT_NONE || r->ops.data[a].start < r->ops.data[b].start;
}

static bool is_behind(const struct tauti_rank *r, uint32_t a, uint32_t b)
{
	return b == TAUT_NONE || r->ops.data[a].end > r->ops.data[b].end;
}

/* What a thread did within the slice. */
static void look_at(const struct pool *p, uint32_t lane, struct span *s)
{
	const struct tauti_rank *r = p->f->rank;
	const struct tauti_op *ops = r->ops.data, *slice = &ops[s->m];
	uint32_t hi = r->lane_begin[lane + 1];

	for (uint32_t i = tauti_first_from(r, r->lane_begin[lane], hi, slice->start);
		i < hi && ops[i].end <= slice->end; i++) {
		if (tauti_is_idle(&ops[i]))
			continue;
		s->busy_ns += ops[i].end - ops[i].start;
		if (ops[i].kind == TAUT_OP_RETURN && i > r->lane_begin[lane])
			s->busy_ns += ops[i].start - ops[i - 1].end;
		if (is_before(r, i, s->first))
			s->first = i;
		if (is_behind(r, i, s->last))
			s->last = i;
	}
}

/* Each thread that was idle when the slice began was woken by it, or later. */
static bool wake_first(struct pool *p, uint32_t lane, const struct span *s)
{
	const struct tauti_rank *r = p->f->rank;
	const struct tauti_op *ops = r->ops.data, *slice = &ops[s->m];
	uint32_t lo = r->lane_begin[lane], hi = r->lane_begin[lane + 1];
	uint32_t i = tauti_first_from(r, lo, hi, slice->start);
	struct tauti_wake w = { s->m, TAUT_NONE };

	while (i < hi && tauti_is_idle(&ops[i]))
		i++;
	if (i == hi || ops[i].start >= slice->end || (i > lo &&
		!tauti_is_idle(&ops[i - 1]) && ops[i - 1].end > slice->start))
		return true;
	w.woken = i;
	return taut_vec_push(&p->f->wakes, w);
}

static bool find_spans(struct pool *p)
{
	const struct tauti_rank *r = p->f->rank;
	uint32_t end = r->lane_begin[r->main_lane + 1];

	for (uint32_t m = r->lane_begin[r->main_lane]; m < end; m++) {
		const struct tauti_op *op = &r->ops.data[m];
		struct span s = { m, 0, TAUT_NONE, TAUT_NONE };
		struct tauti_split split;

		if (op->kind != TAUT_OP_HOST || tauti_is_idle(op) ||
			op->end - op->start < TAUTI_SHORT_NS)
			continue;
		for (uint32_t i = 0; i < p->n; i++)
			look_at(p, p->lanes[i], &s);
		if (s.busy_ns * 2 < op->end - op->start)
			continue;
		split = (struct tauti_split){ m, r->ops.data[s.first].start,
			r->ops.data[s.last].end, s.last };
		if (!taut_vec_push(&p->f->splits, split))
			return false;
		p->is_called = true;
		for (uint32_t i = 0; i < p->n; i++)
			if (!wake_first(p, p->lanes[i], &s))
				return false;
	}
	return true;
}

/* --- from thread to thread ------------------------------------------------------------- */

/* The op of the lane that ended last at or before `at`, and after `from`. */
static uint32_t ended_in(const struct tauti_rank *r, uint32_t lane, int64_t from,
	int64_t at)
{
	uint32_t lo = r->lane_begin[lane];
	uint32_t i = tauti_first_from(r, lo, r->lane_begin[lane + 1], at);

	while (i > lo && (tauti_is_idle(&r->ops.data[i - 1]) ||
		r->ops.data[i - 1].end > at))
		i--;
	return i > lo && r->ops.data[i - 1].end > from ? i - 1 : TAUT_NONE;
}

static bool find_woken(struct pool *p, uint32_t lane)
{
	const struct tauti_rank *r = p->f->rank;
	const struct tauti_op *ops = r->ops.data;

	for (uint32_t i = r->lane_begin[lane]; i + 1 < r->lane_begin[lane + 1]; i++) {
		int64_t idle = ops[i].end - ops[i].start;
		struct tauti_wake w = { TAUT_NONE, i + 1 };

		if (!tauti_is_idle(&ops[i]))
			continue;
		for (uint32_t k = 0; k < p->n; k++) {
			uint32_t by = p->lanes[k] == lane ? TAUT_NONE : ended_in(
				r, p->lanes[k], ops[i].start, ops[i].end);

			if (by != TAUT_NONE && is_behind(r, by, w.by))
				w.by = by;
		}
		if (w.by != TAUT_NONE &&
			ops[i].end - ops[w.by].end <= WAKE_NS + idle / WAKE_SHARE &&
			!taut_vec_push(&p->f->wakes, w))
			return false;
	}
	return true;
}

bool tauti_find_executors(struct tauti_handoff *f)
{
	static const char name[] = "ExecutorState::Process";
	const struct taut_trace *t = f->rank->trace;
	uint32_t n = t->n_lanes;
	uint32_t process = taut_names_find(t->names, name, sizeof name - 1);
	struct pool p = { f, malloc(((size_t)n + 1) * sizeof *p.lanes), 0,
		false };
	bool ok = p.lanes != NULL;

	for (uint32_t l = 0; ok && process != TAUT_NONE && l < n; l++)
		if (is_executor_lane(f->rank, l, process))
			p.lanes[p.n++] = l;
	ok = ok && (!p.n || find_spans(&p));
	for (uint32_t i = 0; ok && p.is_called && i < p.n; i++)
		ok = find_woken(&p, p.lanes[i]);
	free(p.lanes);
	return ok;
}

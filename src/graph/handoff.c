/* handoff.c - host threads that wait for each other.
 *
 * backward() hands the step to an autograd thread and blocks; nothing in the
 * recording says so, but it shows: one slice of the main thread has nothing
 * in it, and the other thread is idle when it begins, idle when it ends, and
 * busy most of the time between. Then
 *   - the other thread's idle time before was a wait for this slice, and
 *   - the rest of the slice was a wait for the other thread.
 * In the same way a slice that ends just after a communication thread has
 * finished was a wait for it (a work handle's wait()). */
#include <stdlib.h>
#include <string.h>

#include "graph/handoff.h"

enum {
	COMM_SHORT_NS = 100000,
	COMM_TAIL_NS = 1000000, /* return at most so long after the transfer */
	COMM_STAMP_NS = 10000000, /* the transfer's stamp at most so late */
};

static bool is_autograd_lane(const struct tauti_rank *rank, uint32_t lane)
{
	const struct taut_trace *t = rank->trace;

	if (lane == rank->main_lane || rank->comm_lane[lane] ||
		t->lanes[lane].kind != TAUT_LANE_THREAD)
		return false;
	for (uint32_t i = t->lane_begin[lane]; i < t->lane_begin[lane + 1]; i++)
		if ((t->flags[i] & TAUT_EVENT_BACKWARD) ||
			(t->kind[i] == TAUT_KIND_OP &&
			strstr(taut_trace_name(t, i), "Backward")))
			return true;
	return false;
}

uint32_t tauti_first_from(const struct tauti_rank *rank, uint32_t lo,
	uint32_t hi, int64_t at)
{
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (rank->ops.data[mid].start < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Does slice m hand over to the lane [lo, hi) and wait for it? */
static bool hands_over(const struct tauti_rank *rank, uint32_t m, uint32_t lo,
	uint32_t hi, struct tauti_split *s, struct tauti_wake *w)
{
	const struct tauti_op *ops = rank->ops.data, *slice = &ops[m];
	uint32_t first = tauti_first_from(rank, lo, hi, slice->start), last;

	while (first < hi && tauti_is_idle(&ops[first]))
		first++;
	if (first == hi || ops[first].end > slice->end)
		return false;
	if (first > lo && !tauti_is_idle(&ops[first - 1]) &&
		ops[first - 1].end > slice->start)
		return false; /* was busy when the slice began */
	last = tauti_first_from(rank, lo, hi, slice->end);
	while (last > first && (tauti_is_idle(&ops[last - 1]) ||
		ops[last - 1].start >= slice->end))
		last--;
	if (last <= first)
		return false; /* began nothing before the slice ended */
	last--;
	if (ops[last].end > slice->end)
		return false; /* went on after the slice */
	if ((ops[last].end - ops[first].start) * 2 <
		slice->end - slice->start)
		return false;
	*s = (struct tauti_split){ m, ops[first].start, ops[last].end, last };
	*w = (struct tauti_wake){ m, first };
	return true;
}

static bool is_blank(const struct tauti_rank *rank, const struct tauti_op *op)
{
	uint8_t kind;

	if (op->kind != TAUT_OP_HOST)
		return false;
	if (op->event == TAUT_NONE)
		return true;
	kind = rank->trace->kind[op->event];
	return kind == TAUT_KIND_ANNOTATION || kind == TAUT_KIND_STEP ||
		kind == TAUT_KIND_PYTHON ||
		!strncmp(taut_trace_name(rank->trace, op->event), "c10d::", 6);
}

static bool find_autograd(struct tauti_handoff *f, uint32_t lane)
{
	struct tauti_rank *r = f->rank;
	uint32_t main = r->main_lane;

	for (uint32_t m = r->lane_begin[main]; m < r->lane_begin[main + 1]; m++) {
		const struct tauti_op *op = &r->ops.data[m];
		struct tauti_split s;
		struct tauti_wake w;

		if (op->kind != TAUT_OP_HOST || op->end - op->start < TAUTI_SHORT_NS)
			continue;
		if (hands_over(r, m, r->lane_begin[lane],
			r->lane_begin[lane + 1], &s, &w) &&
			(!taut_vec_push(&f->splits, s) ||
			!taut_vec_push(&f->wakes, w)))
			return false;
	}
	return true;
}

struct ending { /* of a transfer on a worker thread, as recorded */
	int64_t at;
	uint32_t comm;
};

static int by_end(const void *a, const void *b)
{
	const struct ending *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->comm < y->comm ? -1 : x->comm > y->comm;
}

/* NULL: no memory. */
static struct ending *sort_endings(const struct tauti_rank *r, size_t *ret_n)
{
	struct ending *all = malloc((r->comms.count + 1) * sizeof *all);
	size_t n = 0;

	for (uint32_t i = 0; all && i < r->comms.count; i++) {
		const struct tauti_comm *c = &r->comms.data[i];

		if (r->trace->kind[c->row] != TAUT_KIND_KERNEL)
			all[n++] = (struct ending) { c->end, i };
	}
	if (n)
		qsort(all, n, sizeof *all, by_end);
	*ret_n = n;
	return all;
}

static size_t first_ending_after(const struct ending *all, size_t n, int64_t at)
{
	size_t lo = 0;

	while (lo < n) {
		size_t mid = lo + (n - lo) / 2;

		if (all[mid].at <= at)
			lo = mid + 1;
		else
			n = mid;
	}
	return lo;
}

/* The transfer on a worker thread whose end explains best why slice m ended:
 * it ran while the slice did and ended within it. The recorded end may be a
 * little late: the worker first wakes its waiter, then writes the stamp. */
static uint32_t comm_ending_in(const struct tauti_rank *r,
	const struct tauti_op *m, const struct ending *all, size_t n)
{
	uint32_t best = TAUT_NONE;
	int64_t best_end = m->start;

	for (size_t i = first_ending_after(all, n, m->start);
		i < n && all[i].at <= m->end + COMM_STAMP_NS &&
		(all[i].at - m->end) * 2 < m->end - m->start; i++) {
		const struct tauti_comm *c = &r->comms.data[all[i].comm];
		int64_t end = c->end < m->end ? c->end : m->end;

		if (c->start >= m->end || end < best_end || (end == best_end &&
			(best == TAUT_NONE || all[i].comm > best)))
			continue;
		best = all[i].comm;
		best_end = end;
	}
	if (best == TAUT_NONE || m->end - best_end > COMM_TAIL_NS +
		(m->end - m->start) / 20)
		return TAUT_NONE;
	return best;
}

/* The waiter went on, so the transfer was done by then. */
static int64_t end_by(struct tauti_rank *r, uint32_t comm, int64_t at)
{
	struct tauti_comm *c = &r->comms.data[comm];

	if (c->end > at) {
		c->end = at;
		r->ops.data[c->arrive + 1].end = at;
	}
	return c->end;
}

static bool has_workers(const struct tauti_rank *r)
{
	for (uint32_t l = 0; l < r->trace->n_lanes; l++)
		if (r->comm_lane[l] &&
			r->trace->lanes[l].kind == TAUT_LANE_THREAD)
			return true;
	return false;
}

static bool find_comm_waits(struct tauti_handoff *f)
{
	struct tauti_rank *r = f->rank;
	uint32_t main = r->main_lane, end = r->lane_begin[main + 1];
	struct ending *endings;
	size_t n;
	bool ok = true;

	if (!has_workers(r))
		return true;
	endings = sort_endings(r, &n);
	if (!endings)
		return false;
	for (uint32_t m = r->lane_begin[main]; ok && m < end; m++) {
		const struct tauti_op *op = &r->ops.data[m];
		struct tauti_split s = { m, op->start, 0, TAUT_NONE };
		uint32_t c;

		if (op->end - op->start < COMM_SHORT_NS || !is_blank(r, op))
			continue;
		c = comm_ending_in(r, op, endings, n);
		if (c == TAUT_NONE)
			continue;
		s.to = end_by(r, c, op->end);
		s.last = tauti_op_out(r, r->comms.data[c].row);
		ok = taut_vec_push(&f->splits, s);
	}
	free(endings);
	return ok;
}

static int by_op(const void *a, const void *b)
{
	const struct tauti_split *x = a, *y = b;

	if (x->op != y->op)
		return x->op < y->op ? -1 : 1;
	return x->to > y->to ? -1 : x->to < y->to; /* the longest wait first */
}

static void move_ids(struct tauti_rank *r, const uint32_t *to)
{
	for (size_t i = 0; i < r->trace->n_events; i++)
		if (r->op_of[i] != TAUT_NONE)
			r->op_of[i] = to[r->op_of[i]];
	for (size_t i = 0; i < r->calls.count; i++) {
		struct tauti_call *c = &r->calls.data[i];

		if (c->launch_op != TAUT_NONE)
			c->launch_op = to[c->launch_op];
		if (c->return_op != TAUT_NONE)
			c->return_op = to[c->return_op];
	}
	for (size_t i = 0; i < r->comms.count; i++)
		r->comms.data[i].arrive = to[r->comms.data[i].arrive];
	for (size_t i = 0; i < r->marks.count; i++) {
		r->marks.data[i].begin_op = to[r->marks.data[i].begin_op];
		r->marks.data[i].end_op = to[r->marks.data[i].end_op];
	}
	for (uint32_t l = 0; l <= r->trace->n_lanes; l++)
		r->lane_begin[l] = to[r->lane_begin[l]];
}

/* Copies the ops, each split one as two; to[old] = new id of the first. */
static bool split_ops(struct tauti_handoff *f, uint32_t *to)
{
	struct tauti_rank *r = f->rank;
	size_t n = r->ops.count, k = 0;
	struct tauti_op *old = r->ops.data;

	memset(&r->ops, 0, sizeof r->ops);
	if (!taut_vec_reserve(&r->ops, n + f->splits.count)) {
		r->ops.data = old;
		r->ops.count = r->ops.capacity = n;
		return false;
	}
	for (uint32_t i = 0; i < n; i++) {
		to[i] = (uint32_t)r->ops.count;
		r->ops.data[r->ops.count++] = old[i];
		if (k < f->splits.count && f->splits.data[k].op == i) {
			struct tauti_op *part = &r->ops.data[r->ops.count - 1];

			part[1] = part[0];
			part[0].end = f->splits.data[k].from;
			part[1].start = f->splits.data[k].to;
			part[1].kind = TAUT_OP_RETURN;
			r->ops.count++;
			k++;
		}
	}
	to[n] = (uint32_t)r->ops.count;
	free(old);
	return true;
}

/* Not where a slice was split later, for the longer wait for another thread. */
static bool add_wake(struct tauti_rank *r, uint32_t by, uint32_t woken)
{
	struct tauti_edge edge = { by, woken, 0, TAUT_EDGE_THREAD };
	struct tauti_op *before = woken ? &r->ops.data[woken - 1] : NULL;

	if (r->ops.data[by].end > r->ops.data[woken].start)
		return true;
	if (!taut_vec_push(&r->edges, edge))
		return false;
	if (before && tauti_is_idle(before) &&
		before->lane == r->ops.data[woken].lane)
		before->end = before->start;
	return true;
}

static bool add_edges(struct tauti_handoff *f, const uint32_t *to)
{
	struct tauti_rank *r = f->rank;

	for (size_t i = 0; i < f->splits.count; i++) {
		const struct tauti_split *s = &f->splits.data[i];
		struct tauti_edge back = { to[s->last], to[s->op] + 1, 0,
			TAUT_EDGE_THREAD };

		if (!taut_vec_push(&r->edges, back))
			return false;
	}
	for (size_t i = 0; i < f->wakes.count; i++)
		if (!add_wake(r, to[f->wakes.data[i].by],
			to[f->wakes.data[i].woken]))
			return false;
	return true;
}

/* One split a slice: of several the longest wait. */
static void settle(struct tauti_handoff *f)
{
	size_t kept = 0;

	if (f->splits.count)
		qsort(f->splits.data, f->splits.count, sizeof *f->splits.data,
			by_op);
	for (size_t i = 0; i < f->splits.count; i++)
		if (!kept || f->splits.data[kept - 1].op != f->splits.data[i].op)
			f->splits.data[kept++] = f->splits.data[i];
	f->splits.count = kept;
}

taut_status tauti_handoffs(struct tauti_rank *rank, struct taut_error *err)
{
	struct tauti_handoff f = { .rank = rank };
	uint32_t *to = NULL;
	bool ok = true;

	for (uint32_t l = 0; ok && l < rank->trace->n_lanes; l++)
		if (is_autograd_lane(rank, l))
			ok = find_autograd(&f, l);
	ok = ok && find_comm_waits(&f) && tauti_find_executors(&f);
	if (ok && (f.splits.count || f.wakes.count)) {
		settle(&f);
		to = malloc((rank->ops.count + 1) * sizeof *to);
		ok = to && split_ops(&f, to);
		if (ok) {
			move_ids(rank, to);
			ok = add_edges(&f, to);
		}
	}
	free(to);
	taut_vec_free(&f.splits);
	taut_vec_free(&f.wakes);
	return ok ? TAUT_OK : taut_error_set(err, TAUT_ENOMEM, -1,
		"%s: no memory for waits between threads", rank->trace->path);
}

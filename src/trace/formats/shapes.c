/* shapes.c - the trace of the one step that was recorded with shapes, and what
 * it lends to the steps that were not.
 *
 * The steps of a job mostly run the same operators in the same order. So the
 * nth operator of a step on a thread is the nth of the step with shapes on that
 * thread, as long as all names before it are equal, or all behind it. What lies
 * between is not guessed.
 *
 * The threads of a backend (Gloo's) take whichever collective is next, so
 * theirs are in the order in which they began on any of them. In the step with
 * shapes, sizes tell which call each belongs to, so there the calls' order
 * counts: threads that begin within microseconds may overtake each other. What
 * runs inside of a backend's event is left alone. */
#include "trace/formats/shapes.h"

#include <stdlib.h>
#include <string.h>

#include "trace/builder.h"
#include "trace/format.h"

static const char mark[] = "{\"tautShapes\":";

struct span {
	int64_t start_ns, end_ns;
};
typedef TAUT_VEC(struct span) spans;

/* An event of a backend: what lies in it is its own. */
struct busy {
	uint32_t lane;
	struct span span;
};
typedef TAUT_VEC(struct busy) busies;

struct op {
	uint32_t step;	/* index of its span */
	uint32_t place; /* lane, as the rank's trace numbers it; BACKEND */
	int64_t start_ns, dur_ns;
	uint32_t row;
};
typedef TAUT_VEC(struct op) ops;

#define BACKEND (UINT32_MAX - 1)

struct lender {
	struct tauti_builder *builder, *shapes;
	ops to, from;
	size_t missing; /* operators of to that got nothing */
};

bool tauti_shapes_named(const char *path)
{
	return strstr(path, ".shapes.json") != NULL;
}

/* --- operators, by step, place and time ----------------------------------- */

static int by_start(const void *a, const void *b)
{
	const struct span *x = a, *y = b;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static bool find_steps(
	struct tauti_builder *b, size_t begin, size_t end, spans *steps)
{
	for (size_t i = begin; i < end; i++) {
		const struct tauti_row *row =
			tauti_builder_row_at(b, (uint32_t)i);
		struct span span = { row->start_ns,
			row->start_ns + row->dur_ns };
		if (row->kind == TAUT_KIND_STEP && !taut_vec_push(steps, span))
			return false;
	}
	if (steps->count)
		qsort(steps->data, steps->count, sizeof *steps->data, by_start);
	return true;
}

/* The last step that had begun by then, if it was not over; TAUT_NONE. */
static uint32_t step_at(const spans *steps, int64_t ns)
{
	size_t lo = 0, hi = steps->count;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (steps->data[mid].start_ns <= ns)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && ns < steps->data[lo - 1].end_ns ? (uint32_t)lo - 1 :
						       TAUT_NONE;
}

static bool is_comm(const struct tauti_row *row)
{
	return row->args != TAUT_NONE && !(row->flags & TAUT_EVENT_TENSOR) &&
	       (row->kind == TAUT_KIND_OP || row->kind == TAUT_KIND_ANNOTATION);
}

/* "gloo:all_reduce", but neither "c10d::allreduce_" nor an operator. */
static bool is_of_backend(
	const struct tauti_builder *b, const struct tauti_row *row)
{
	const char *name = taut_names_text(b->names, row->name);
	return is_comm(row) && strchr(name, ':') && !strstr(name, "::");
}

static int by_lane(const void *a, const void *b)
{
	const struct busy *x = a, *y = b;
	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	return by_start(&x->span, &y->span);
}

static bool find_busy(
	struct tauti_builder *b, size_t begin, size_t end, busies *busy)
{
	for (size_t i = begin; i < end; i++) {
		const struct tauti_row *row =
			tauti_builder_row_at(b, (uint32_t)i);
		struct busy one = { row->lane,
			{ row->start_ns, row->start_ns + row->dur_ns } };
		if (is_of_backend(b, row) && !taut_vec_push(busy, one))
			return false;
	}
	if (busy->count)
		qsort(busy->data, busy->count, sizeof *busy->data, by_lane);
	return true;
}

static bool is_inside(const busies *busy, const struct tauti_row *row)
{
	struct busy key = { row->lane, { row->start_ns, 0 } };
	size_t lo = 0, hi = busy->count;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (by_lane(&busy->data[mid], &key) <= 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && busy->data[lo - 1].lane == row->lane &&
	       row->start_ns < busy->data[lo - 1].span.end_ns;
}

static uint32_t place_of(const struct lender *l, const struct tauti_builder *b,
	const struct tauti_row *row)
{
	const struct tauti_lane *lane = &b->lanes.all.data[row->lane];
	if (is_of_backend(b, row))
		return BACKEND;
	return b == l->builder ? row->lane :
		tauti_lanes_find(&l->builder->lanes, lane->role, lane->pid,
			lane->tid);
}

static int by_place(const void *a, const void *b)
{
	const struct op *x = a, *y = b;
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->dur_ns != y->dur_ns)
		return x->dur_ns > y->dur_ns ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

static void sort_ops(ops *all)
{
	if (all->count)
		qsort(all->data, all->count, sizeof *all->data, by_place);
}

static bool gather_ops(const struct lender *l, struct tauti_builder *b,
	size_t begin, size_t end, const spans *steps, const busies *busy,
	ops *found)
{
	for (size_t i = begin; i < end; i++) {
		const struct tauti_row *row =
			tauti_builder_row_at(b, (uint32_t)i);
		struct op op = { TAUT_NONE, TAUT_NONE, row->start_ns,
			row->dur_ns, (uint32_t)i };
		if (row->kind == TAUT_KIND_OP || is_comm(row))
			op.step = step_at(steps, row->start_ns);
		if (op.step == TAUT_NONE)
			continue;
		op.place = place_of(l, b, row);
		if (op.place == TAUT_NONE ||
			(op.place != BACKEND && is_inside(busy, row)))
			continue;
		if (!taut_vec_push(found, op))
			return false;
	}
	sort_ops(found);
	return true;
}

static bool gather(const struct lender *l, struct tauti_builder *b,
	size_t begin, size_t end, const spans *steps, ops *found)
{
	busies busy = { 0 };
	bool ok = find_busy(b, begin, end, &busy) &&
		  gather_ops(l, b, begin, end, steps, &busy, found);
	taut_vec_free(&busy);
	return ok;
}

/* --- the step with shapes --------------------------------------------------- */

static const struct taut_comm_args *comm_at(
	const struct lender *l, const struct op *op)
{
	return &l->shapes->comms.data[
		tauti_builder_row_at(l->shapes, op->row)->args];
}

static bool is_call(const struct lender *l, const struct op *op)
{
	const struct tauti_row *row = tauti_builder_row_at(l->shapes, op->row);
	return is_comm(row) && !strncmp("c10d::",
		taut_names_text(l->shapes->names, row->name), 6);
}

/* The first call, by time, of that size that nobody has taken, of the first
 * thousand that are left; TAUT_NONE. All before *first are taken. */
static uint32_t take_call(const struct lender *l, ops *calls, size_t *first,
	const struct op *event)
{
	enum { MOST = 1000 };
	int64_t elements = comm_at(l, event)->in_elements;
	while (*first < calls->count && calls->data[*first].row == TAUT_NONE)
		++*first;
	for (size_t i = *first; i < calls->count && i < *first + MOST; i++) {
		struct op *call = &calls->data[i];
		if (call->row == TAUT_NONE || call->start_ns > event->start_ns ||
			comm_at(l, call)->in_elements != elements)
			continue;
		call->row = TAUT_NONE;
		return (uint32_t)i;
	}
	return TAUT_NONE;
}

/* Each event of a backend then begins when its call did; all or none. */
static bool order_by_calls(struct lender *l)
{
	ops calls = { 0 };
	TAUT_VEC(int64_t) begins = { 0 };
	bool ok = true, all = true;
	size_t n = 0, first = 0;
	for (size_t i = 0; ok && i < l->from.count; i++)
		if (is_call(l, &l->from.data[i]))
			ok = taut_vec_push(&calls, l->from.data[i]);
	for (size_t i = 0; ok && all && i < l->from.count; i++) {
		if (l->from.data[i].place != BACKEND)
			continue;
		uint32_t call = take_call(
			l, &calls, &first, &l->from.data[i]);
		all = call != TAUT_NONE;
		ok = !all || taut_vec_push(
			&begins, calls.data[call].start_ns);
	}
	for (size_t i = 0; ok && all && i < l->from.count; i++)
		if (l->from.data[i].place == BACKEND)
			l->from.data[i].start_ns = begins.data[n++];
	sort_ops(&l->from);
	taut_vec_free(&calls);
	taut_vec_free(&begins);
	return ok;
}

/* --- lending -------------------------------------------------------------- */

static void lend_number(int64_t *to, int64_t from)
{
	if (*to < 0)
		*to = from;
}

static void lend_number32(int32_t *to, int32_t from)
{
	if (*to < 0)
		*to = from;
}

static void lend_name(uint32_t *to, uint32_t from)
{
	if (!*to)
		*to = from;
}

/* Not the numbers that count collectives: they are another's. */
static void lend_comm(
	struct taut_comm_args *to, const struct taut_comm_args *from)
{
	lend_name(&to->collective, from->collective);
	lend_name(&to->group_name, from->group_name);
	lend_name(&to->group_desc, from->group_desc);
	lend_name(&to->group_ranks, from->group_ranks);
	lend_name(&to->dtype, from->dtype);
	lend_number(&to->in_elements, from->in_elements);
	lend_number(&to->out_elements, from->out_elements);
	lend_number(&to->local_group, from->local_group);
	lend_number32(&to->group_size, from->group_size);
	lend_number32(&to->src_rank, from->src_rank);
	lend_number32(&to->dst_rank, from->dst_rank);
	lend_number32(&to->rank_start, from->rank_start);
	lend_number32(&to->rank_stride, from->rank_stride);
}

static bool lend_tensor(const struct lender *l, struct tauti_row *to,
	const struct tauti_row *from)
{
	struct tauti_builder *b = l->builder;
	if (to->args != TAUT_NONE)
		return true;
	to->flags |= TAUT_EVENT_TENSOR;
	to->args = (uint32_t)b->tensors.count;
	return taut_vec_push(
		&b->tensors, l->shapes->tensors.data[from->args]);
}

static bool lend(const struct lender *l, uint32_t to_row, uint32_t from_row)
{
	struct tauti_builder *b = l->builder;
	struct tauti_row *to = tauti_builder_row_at(b, to_row);
	const struct tauti_row *from =
		tauti_builder_row_at(l->shapes, from_row);
	lend_name(&to->sizes, from->sizes);
	to->flags |= from->flags & TAUT_EVENT_FROZEN;
	if (from->args != TAUT_NONE && from->flags & TAUT_EVENT_TENSOR)
		return lend_tensor(l, to, from);
	if (!is_comm(to))
		return true;
	if (is_comm(from))
		lend_comm(&b->comms.data[to->args],
			&l->shapes->comms.data[from->args]);
	else if (!b->comms.data[to->args].collective)
		to->args = TAUT_NONE; /* a wait, as its types would have told */
	return true;
}

static bool same_name(
	const struct lender *l, const struct op *to, const struct op *from)
{
	return tauti_builder_row_at(l->builder, to->row)->name ==
	       tauti_builder_row_at(l->shapes, from->row)->name;
}

/* N operators of one step and place, and those there in the step with
 * shapes. */
static bool lend_run(struct lender *l, const struct op *to, size_t n,
	const struct op *from, size_t n_from)
{
	size_t most = n < n_from ? n : n_from, first = 0, last = 0;
	while (first < most && same_name(l, &to[first], &from[first]))
		first++;
	while (last < most - first &&
		same_name(l, &to[n - 1 - last], &from[n_from - 1 - last]))
		last++;
	l->missing += n - first - last;
	for (size_t i = 0; i < first; i++)
		if (!lend(l, to[i].row, from[i].row))
			return false;
	for (size_t i = 1; i <= last; i++)
		if (!lend(l, to[n - i].row, from[n_from - i].row))
			return false;
	return true;
}

static size_t run_of(const ops *all, size_t i)
{
	size_t end = i + 1;
	while (end < all->count && all->data[end].step == all->data[i].step &&
		all->data[end].place == all->data[i].place)
		end++;
	return end - i;
}

/* Both are in the order of their places, step after step. */
static bool lend_all(struct lender *l)
{
	size_t k = 0;
	for (size_t i = 0, n; i < l->to.count; i += n) {
		const struct op *op = &l->to.data[i];
		n = run_of(&l->to, i);
		if (i && op->step != op[-1].step)
			k = 0;
		while (k < l->from.count && l->from.data[k].place < op->place)
			k++;
		bool there = k < l->from.count &&
			     l->from.data[k].place == op->place;
		if (!there)
			l->missing += n;
		else if (!lend_run(l, op, n, &l->from.data[k],
				 run_of(&l->from, k)))
			return false;
	}
	return true;
}

static taut_status note_missing(const struct lender *l)
{
	if (!l->missing)
		return TAUT_OK;
	return tauti_builder_note(l->builder,
		"the sizes of %zu of %zu operators are not known: their steps "
		"are not as the one whose shapes were recorded",
		l->missing, l->to.count);
}

static taut_status lend_steps(struct lender *l, size_t begin, size_t end,
	spans *steps, spans *one)
{
	struct tauti_builder *s = l->shapes;
	if (!find_steps(l->builder, begin, end, steps) ||
		!find_steps(s, 0, s->n_rows, one))
		return TAUT_ENOMEM;
	if (one->count != 1)
		one->count = 0;
	if (!gather(l, l->builder, begin, end, steps, &l->to) ||
		!gather(l, s, 0, s->n_rows, one, &l->from) ||
		!order_by_calls(l) || !lend_all(l))
		return TAUT_ENOMEM;
	return note_missing(l);
}

taut_status tauti_shapes_lend(
	struct tauti_builder *builder, size_t begin, size_t end)
{
	struct lender l = { .builder = builder, .shapes = builder->shapes };
	spans steps = { 0 }, one = { 0 };
	if (!l.shapes)
		return TAUT_OK;
	taut_status status = lend_steps(&l, begin, end, &steps, &one);
	taut_vec_free(&steps);
	taut_vec_free(&one);
	taut_vec_free(&l.to);
	taut_vec_free(&l.from);
	return status;
}

/* --- reading -------------------------------------------------------------- */

static bool is_whole(const struct tauti_builder *s)
{
	bool whole = !s->truncated;
	for (int i = 0; i < TAUTI_LOST_COUNT; i++)
		whole &= !s->lost[i];
	return whole;
}

/* The trace has all but the sizes, so what is wrong here is worth a line and
 * no more. */
static taut_status pass_over(struct tauti_builder *b, const char *why)
{
	const char *line = taut_arena_printf(b->arena,
		"%s; the sizes of tensors are not known", why);
	return line && taut_vec_push(&b->notes, line) ? TAUT_OK : TAUT_ENOMEM;
}

/* Names and texts of the step are among those of the trace. */
static struct tauti_builder *begin_shapes(struct tauti_builder *b)
{
	struct tauti_builder *s = b->shapes = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->path = b->path;
	s->window_bytes = b->window_bytes;
	s->rank = s->world_size = -1;
	s->host = s->clock = "";
	s->arena = b->arena;
	s->names = b->names;
	return s;
}

static taut_status read_shapes(struct tauti_stream *stream,
	struct tauti_builder *b, struct taut_error *err)
{
	struct taut_error own = { .message = "" };
	const char *why = NULL;
	if (b->shapes)
		tauti_builder_drop_shapes(b);
	struct tauti_builder *s = begin_shapes(b);
	taut_status status = s ?
		tauti_format_kineto.read(stream, s, &own) : TAUT_ENOMEM;
	if (status == TAUT_EFORMAT)
		why = own.message;
	else if (status == TAUT_OK && !is_whole(s))
		why = taut_arena_printf(b->arena, "%s: is not whole", b->path);
	if (s)
		b->bytes_read = s->bytes_read;
	if (why || status != TAUT_OK)
		tauti_builder_drop_shapes(b);
	if (why)
		status = pass_over(b, why);
	if (status == TAUT_OK)
		return TAUT_OK;
	return taut_error_set(err, status, -1, "%s",
		*own.message ? own.message : "no memory for shapes");
}

static bool probe_shapes(const char *head, size_t len)
{
	return len >= sizeof mark - 1 &&
	       memcmp(head, mark, sizeof mark - 1) == 0;
}

const struct tauti_format tauti_format_shapes = {
	.name = "shapes",
	.adds = true,
	.probe = probe_shapes,
	.read = read_shapes,
};

/* xplane_sums.c - gradients that Taut's exchange sums (taut.tensorflow).
 *
 * The job's operations say when they hand a gradient over and when they wait for
 * one; the recorder says which gradients there are and, when the window ends, which
 * pieces of them went in which message, and when (python/taut/
 * _tensorflow_exchange.py). A message becomes an all-reduce on a lane of its own, of
 * the bytes of its pieces. What was handed over last of them posted it; a wait was for
 * the message that brought the last piece. Calls and messages have one number then,
 * which is how requests are told (graph/requests.c). */
#include "trace/formats/xplane.h"

#include <stdlib.h>

#include "trace/text.h"

enum { MOST_TASKS = 1 << 20, MOST_PIECES = 1 << 22 };

/* Of a gradient or a piece; sums of MOST_PIECES of them stay in range. */
static const int64_t most_bytes = (int64_t)1 << 40;

/* --- while events are read ------------------------------------------------------- */

static bool has_task(const struct xplane_stats *stats)
{
	return xplane_has(stats, XSTAT_TASK) && stats->number[XSTAT_TASK] >= 0 &&
		stats->number[XSTAT_TASK] < MOST_TASKS;
}

static bool add_gradient(struct xplane *x, const struct xplane_stats *stats)
{
	struct tauti_text dtype = stats->text[XSTAT_DTYPE];
	struct xplane_gradient g = { .task = stats->number[XSTAT_TASK],
		.elements = stats->number[XSTAT_ELEMENTS],
		.told = x->gradients.count };

	if (!dtype.at || g.elements < 0 || g.elements > most_bytes)
		return true;
	g.dtype = tauti_text_name(x->builder->names, dtype.at, dtype.len);
	return g.dtype != TAUT_NONE && taut_vec_push(&x->gradients, g);
}

static bool add_piece(struct xplane *x, const struct xplane_stats *stats)
{
	const int64_t *number = stats->number;
	struct xplane_piece p = { number[XSTAT_MESSAGE], number[XSTAT_TASK],
		number[XSTAT_BYTES], number[XSTAT_START], number[XSTAT_END] };

	if (p.message < 0 || p.bytes <= 0 || p.bytes > most_bytes ||
		p.start_ns <= 0 || p.end_ns < p.start_ns ||
		p.end_ns > TAUTI_TIME_LIMIT_NS || x->pieces.count >= MOST_PIECES)
		return true;
	return taut_vec_push(&x->pieces, p);
}

bool tauti_xplane_told(struct xplane *x, const struct xplane_meta *meta,
	const struct xplane_stats *stats)
{
	if (!has_task(stats))
		return true;
	return meta->class == TF_PIECE ? add_piece(x, stats) :
		add_gradient(x, stats);
}

bool tauti_xplane_call(struct xplane *x, struct tauti_row *row,
	const struct xplane_meta *meta, const struct xplane_stats *stats)
{
	struct xplane_call call = { stats->number[XSTAT_TASK], row->start_ns,
		row->start_ns + row->dur_ns, (uint32_t)x->builder->n_rows,
		meta->class == TF_WAIT };

	row->kind = TAUT_KIND_RUNTIME;
	return !has_task(stats) || taut_vec_push(&x->calls, call);
}

/* --- when all is read --------------------------------------------------------------- */

static int by_message(const void *a, const void *b)
{
	const struct xplane_piece *x = a, *y = b;

	if (x->message != y->message)
		return x->message < y->message ? -1 : 1;
	return x->task < y->task ? -1 : x->task > y->task;
}

/* Of those that hand over and those that wait each apart. */
static int by_task(const void *a, const void *b)
{
	const struct xplane_call *x = a, *y = b;

	if (x->waits != y->waits)
		return x->waits ? 1 : -1;
	if (x->task != y->task)
		return x->task < y->task ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* How many calls stand before those of this kind with the task that began later. */
static size_t calls_until(
	const struct xplane *x, bool waits, int64_t task, int64_t at_ns)
{
	struct xplane_call key = { .task = task, .start_ns = at_ns,
		.waits = waits, .row = UINT32_MAX };
	size_t lo = 0, hi = x->calls.count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (by_task(&x->calls.data[mid], &key) <= 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* The i-th of calls; NULL: it is none of this kind with the task. */
static struct xplane_call *call_of(
	struct xplane *x, size_t i, bool waits, int64_t task)
{
	struct xplane_call *call = &x->calls.data[i];

	return i < x->calls.count && call->waits == waits &&
		call->task == task ? call : NULL;
}

/* The last call that handed the task over and had begun by then; NULL. */
static struct xplane_call *last_post(
	struct xplane *x, int64_t task, int64_t at_ns)
{
	size_t n = calls_until(x, false, task, at_ns);

	return n ? call_of(x, n - 1, false, task) : NULL;
}

/* The first wait for the task that began later; NULL. */
static struct xplane_call *next_wait(
	struct xplane *x, int64_t task, int64_t at_ns)
{
	return call_of(x, calls_until(x, true, task, at_ns), true, task);
}

/* What is told of a task again comes behind what was. */
static int by_gradient(const void *a, const void *b)
{
	const struct xplane_gradient *x = a, *y = b;

	if (x->task != y->task)
		return x->task < y->task ? -1 : 1;
	return x->told < y->told ? -1 : x->told > y->told;
}

/* What was told last of the task, of gradients in order; NULL: nothing. */
static const struct xplane_gradient *gradient_of(
	const struct xplane *x, int64_t task)
{
	struct xplane_gradient key = { .task = task, .told = SIZE_MAX };
	size_t lo = 0, hi = x->gradients.count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (by_gradient(&x->gradients.data[mid], &key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && x->gradients.data[lo - 1].task == task ?
		&x->gradients.data[lo - 1] : NULL;
}

/* Counted in bytes: pieces of several types may go one behind the other. */
static bool add_args(struct xplane *x, struct tauti_row *row,
	const struct xplane_piece *first, int64_t bytes)
{
	struct tauti_builder *b = x->builder;
	struct taut_comm_args args = { .in_elements = bytes,
		.out_elements = bytes, .seq = first->message, .comms_id = -1,
		.local_group = -1, .group_size = b->world_size, .src_rank = -1,
		.dst_rank = -1, .rank_start = -1, .rank_stride = -1,
		.collective = taut_names_add(b->names, "allreduce", 9),
		.group_name = taut_names_add(b->names, "taut", 4),
		.dtype = taut_names_add(b->names, "byte", 4) };

	row->args = (uint32_t)b->comms.count;
	return args.collective != TAUT_NONE && args.group_name != TAUT_NONE &&
		args.dtype != TAUT_NONE && taut_vec_push(&b->comms, args);
}

/* Rows are on the clock of the profile, whose base is known by now. */
static bool add_message(struct xplane *x, const struct xplane_piece *first,
	int64_t bytes, uint32_t number)
{
	struct tauti_builder *b = x->builder;
	struct xplane_comm comm = { .row = (uint32_t)b->n_rows, .edge = true,
		.group_key = -1, .step_id = -1 };
	struct tauti_row *row = tauti_builder_row(b);

	if (!row)
		return false;
	row->name = taut_names_add(b->names, "taut_sum", 8);
	row->start_ns = first->start_ns - b->base_ns;
	row->dur_ns = first->end_ns - first->start_ns;
	row->kind = TAUT_KIND_COMM;
	row->correlation = number;
	row->lane = TAUT_NONE;
	return row->name != TAUT_NONE && add_args(x, row, first, bytes) &&
		taut_vec_push(&x->comms, comm);
}

/* Not of calls of another library: those count from 1 upward. */
static uint32_t number_of(const struct xplane *x, const struct xplane_call *by)
{
	return UINT32_MAX - x->builder->log_numbers -
		(uint32_t)(by - x->calls.data) - 1;
}

/* Who waits for a piece waits for the last message that has one of the task. */
static void note_wait(struct xplane *x, const struct xplane_piece *p,
	uint32_t number)
{
	const struct xplane_call *posted = last_post(
		x, p->task, p->start_ns - x->builder->base_ns);
	const struct xplane_call *w = next_wait(x, p->task, posted->start_ns);

	if (w)
		tauti_builder_row_at(x->builder, w->row)->correlation = number;
}

/* The pieces of one message. Of one that began before the window it is not known what
 * posted it: it is left out. */
static bool settle_message(struct xplane *x, struct xplane_piece *p, size_t n)
{
	struct xplane_call *last = NULL;
	int64_t bytes = 0;
	uint32_t number;

	for (size_t i = 0; i < n; i++) {
		struct xplane_call *by = last_post(x, p[i].task,
			p[i].start_ns - x->builder->base_ns);

		if (!by)
			return true;
		bytes += p[i].bytes;
		if (!last || by->start_ns > last->start_ns)
			last = by;
	}
	number = number_of(x, last);
	tauti_builder_row_at(x->builder, last->row)->correlation = number;
	for (size_t i = 0; i < n; i++)
		note_wait(x, &p[i], number);
	return add_message(x, p, bytes, number);
}

/* What a call tells of its gradient: the task, and how large it is. */
static bool describe_calls(struct xplane *x)
{
	struct tauti_builder *b = x->builder;

	for (size_t i = 0; i < x->calls.count; i++) {
		const struct xplane_call *call = &x->calls.data[i];
		const struct xplane_gradient *g = gradient_of(x, call->task);
		struct taut_comm_args args = { .dtype = g ? g->dtype : 0,
			.in_elements = g ? g->elements : -1, .out_elements = -1,
			.seq = call->task, .comms_id = -1, .local_group = -1,
			.group_size = -1, .src_rank = -1, .dst_rank = -1,
			.rank_start = -1, .rank_stride = -1 };

		tauti_builder_row_at(b, call->row)->args =
			(uint32_t)b->comms.count;
		if (!taut_vec_push(&b->comms, args))
			return false;
	}
	return true;
}

bool tauti_xplane_settle_sums(struct xplane *x)
{
	struct xplane_piece *p = x->pieces.data;
	size_t n = x->pieces.count;
	bool ok;

	if (!n || !x->calls.count)
		return true;
	qsort(p, n, sizeof *p, by_message);
	qsort(x->calls.data, x->calls.count, sizeof *x->calls.data, by_task);
	if (x->gradients.count)
		qsort(x->gradients.data, x->gradients.count,
			sizeof *x->gradients.data, by_gradient);
	ok = describe_calls(x);
	for (size_t i = 0, to; ok && i < n; i = to) {
		for (to = i + 1; to < n && p[to].message == p[i].message;)
			to++;
		ok = settle_message(x, &p[i], to - i);
	}
	x->builder->log_numbers += (uint32_t)x->calls.count + 1;
	return ok;
}

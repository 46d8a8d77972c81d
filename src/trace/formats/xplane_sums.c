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
		.elements = stats->number[XSTAT_ELEMENTS] };

	if (!dtype.at || g.elements < 0)
		return true;
	g.dtype = tauti_text_name(x->builder->names, dtype.at, dtype.len);
	return g.dtype != TAUT_NONE && taut_vec_push(&x->gradients, g);
}

static bool add_piece(struct xplane *x, const struct xplane_stats *stats)
{
	const int64_t *number = stats->number;
	struct xplane_piece p = { number[XSTAT_MESSAGE], number[XSTAT_TASK],
		number[XSTAT_BYTES], number[XSTAT_START], number[XSTAT_END] };

	if (p.message < 0 || p.bytes <= 0 || p.start_ns <= 0 ||
		p.end_ns < p.start_ns || p.end_ns > TAUTI_TIME_LIMIT_NS ||
		x->pieces.count >= MOST_PIECES)
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
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* The last call of this kind with the task that had begun by then; NULL. */
static struct xplane_call *last_call(
	struct xplane *x, bool waits, int64_t task, int64_t at_ns)
{
	struct xplane_call key = { .task = task, .start_ns = at_ns,
		.waits = waits };
	size_t lo = 0, hi = x->calls.count;
	struct xplane_call *found;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (by_task(&x->calls.data[mid], &key) <= 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	found = lo ? &x->calls.data[lo - 1] : NULL;
	return found && found->waits == waits && found->task == task ? found :
		NULL;
}

/* NULL: nobody waited for the task. */
static struct xplane_call *first_wait(struct xplane *x, int64_t task)
{
	for (size_t i = 0; i < x->calls.count; i++)
		if (x->calls.data[i].waits && x->calls.data[i].task == task)
			return &x->calls.data[i];
	return NULL;
}

static uint32_t dtype_of(const struct xplane *x, int64_t task)
{
	for (size_t i = 0; i < x->gradients.count; i++)
		if (x->gradients.data[i].task == task)
			return x->gradients.data[i].dtype;
	return 0;
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
	const struct xplane_call *posted = last_call(
		x, false, p->task, p->start_ns - x->builder->base_ns);
	const struct xplane_call *end = x->calls.data + x->calls.count;
	struct xplane_call *w = last_call(x, true, p->task, posted->start_ns);

	if (w)
		w++;
	else
		w = first_wait(x, p->task);
	if (w && w < end && w->waits && w->task == p->task)
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
		struct xplane_call *by = last_call(x, false, p[i].task,
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
		struct taut_comm_args args = { .dtype = dtype_of(x, call->task),
			.in_elements = -1, .out_elements = -1,
			.seq = call->task, .comms_id = -1, .local_group = -1,
			.group_size = -1, .src_rank = -1, .dst_rank = -1,
			.rank_start = -1, .rank_stride = -1 };

		for (size_t k = 0; k < x->gradients.count; k++)
			if (x->gradients.data[k].task == call->task)
				args.in_elements =
					x->gradients.data[k].elements;
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
	ok = describe_calls(x);
	for (size_t i = 0, to; ok && i < n; i = to) {
		for (to = i + 1; to < n && p[to].message == p[i].message;)
			to++;
		ok = settle_message(x, &p[i], to - i);
	}
	x->builder->log_numbers += (uint32_t)x->calls.count + 1;
	return ok;
}

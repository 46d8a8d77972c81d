/* sums.c - see sums.h. */
#include "trace/sums.h"

#include <stdlib.h>

#include "trace/beside.h"

enum { MOST_TASKS = 1 << 20, MOST_PIECES = 1 << 22, MOST_AT_ONCE = 256 };

/* Of a gradient or a piece; sums of MOST_PIECES of them stay in range. */
static const int64_t most_bytes = (int64_t)1 << 40;

/* --- what is told ------------------------------------------------------------------ */

bool tauti_sums_has_task(int64_t task)
{
	return task >= 0 && task < MOST_TASKS;
}

bool tauti_sums_gradient(struct tauti_sums *sums, struct tauti_sums_gradient g,
	bool *ret_kept)
{
	*ret_kept = tauti_sums_has_task(g.task) && g.elements >= 0 &&
		g.elements <= most_bytes;
	g.told = sums->gradients.count;
	return !*ret_kept || taut_vec_push(&sums->gradients, g);
}

bool tauti_sums_piece(
	struct tauti_sums *sums, struct tauti_sums_piece p, bool *ret_kept)
{
	*ret_kept = tauti_sums_has_task(p.task) && p.message >= 0 && p.bytes > 0 &&
		p.bytes <= most_bytes && p.start_ns > 0 && p.end_ns >= p.start_ns &&
		p.end_ns <= TAUTI_TIME_LIMIT_NS && sums->pieces.count < MOST_PIECES;
	return !*ret_kept || taut_vec_push(&sums->pieces, p);
}

bool tauti_sums_call(struct tauti_sums *sums, struct tauti_sums_call call)
{
	return taut_vec_push(&sums->calls, call);
}

void tauti_sums_fini(struct tauti_sums *sums)
{
	taut_vec_free(&sums->gradients);
	taut_vec_free(&sums->pieces);
	taut_vec_free(&sums->calls);
}

/* --- when all was told ----------------------------------------------------------------- */

struct moment { /* a message begins to be under way, or ends */
	uint32_t exchange;
	int64_t at_ns; /* since 1970 */
	int64_t bytes; /* its own; when summed up, of all till then, this one included */
};
typedef TAUT_VEC(struct moment) moments;

struct message {
	size_t first, n; /* of pieces in order */
	int64_t bytes;
	const struct tauti_sums_call *by; /* whose number it has */
};

struct settling {
	struct tauti_sums *sums;
	struct tauti_builder *builder;
	TAUT_VEC(struct message) messages;
	moments begins, ends; /* in order */
	TAUT_VEC(struct tauti_beside) rows;
};

static int compare(int64_t x, int64_t y)
{
	return x < y ? -1 : x > y;
}

static int by_message(const void *a, const void *b)
{
	const struct tauti_sums_piece *x = a, *y = b;
	int order = compare(x->exchange, y->exchange);

	if (!order)
		order = compare(x->message, y->message);
	return order ? order : compare(x->task, y->task);
}

/* Of those that hand over and those that wait each apart. */
static int by_task(const void *a, const void *b)
{
	const struct tauti_sums_call *x = a, *y = b;
	int order = compare(x->waits, y->waits);

	if (!order)
		order = compare(x->exchange, y->exchange);
	if (!order)
		order = compare(x->task, y->task);
	if (!order)
		order = compare(x->start_ns, y->start_ns);
	return order ? order : compare(x->row, y->row);
}

/* How many calls stand before those of this kind with the task that began later. */
static size_t calls_until(const struct tauti_sums *sums, bool waits,
	uint32_t exchange, int64_t task, int64_t at_ns)
{
	struct tauti_sums_call key = { .exchange = exchange, .task = task,
		.start_ns = at_ns, .waits = waits, .row = UINT32_MAX };
	size_t lo = 0, hi = sums->calls.count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (by_task(&sums->calls.data[mid], &key) <= 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* The i-th of calls; NULL: it is none of this kind with the task of p. */
static struct tauti_sums_call *call_of(const struct tauti_sums *sums, size_t i,
	bool waits, const struct tauti_sums_piece *p)
{
	struct tauti_sums_call *call = &sums->calls.data[i];

	return i < sums->calls.count && call->waits == waits &&
		call->exchange == p->exchange && call->task == p->task ? call : NULL;
}

/* The last call that handed the piece's task over and had begun by then; NULL. */
static struct tauti_sums_call *last_post(const struct tauti_sums *sums,
	const struct tauti_sums_piece *p, int64_t at_ns)
{
	size_t n = calls_until(sums, false, p->exchange, p->task, at_ns);

	return n ? call_of(sums, n - 1, false, p) : NULL;
}

/* The first wait for its task that began later; NULL. */
static struct tauti_sums_call *next_wait(const struct tauti_sums *sums,
	const struct tauti_sums_piece *p, int64_t at_ns)
{
	size_t n = calls_until(sums, true, p->exchange, p->task, at_ns);

	return call_of(sums, n, true, p);
}

/* What is told of a task again comes behind what was. */
static int by_gradient(const void *a, const void *b)
{
	const struct tauti_sums_gradient *x = a, *y = b;
	int order = compare(x->exchange, y->exchange);

	if (!order)
		order = compare(x->task, y->task);
	if (!order)
		order = x->told < y->told ? -1 : x->told > y->told;
	return order;
}

/* What was told last of the call's task, of gradients in order; NULL: nothing. */
static const struct tauti_sums_gradient *gradient_of(
	const struct tauti_sums *sums, const struct tauti_sums_call *call)
{
	struct tauti_sums_gradient key = { .exchange = call->exchange,
		.task = call->task, .told = SIZE_MAX };
	const struct tauti_sums_gradient *last;
	size_t lo = 0, hi = sums->gradients.count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (by_gradient(&sums->gradients.data[mid], &key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	last = lo ? &sums->gradients.data[lo - 1] : NULL;
	return last && last->exchange == call->exchange && last->task == call->task ?
		last : NULL;
}

static struct taut_comm_args no_args(void)
{
	return (struct taut_comm_args){ .in_elements = -1, .out_elements = -1,
		.seq = -1, .comms_id = -1, .local_group = -1, .group_size = -1,
		.src_rank = -1, .dst_rank = -1, .rank_start = -1, .rank_stride = -1 };
}

/* Counted in bytes: pieces of several types may go one behind the other. */
static bool add_args(struct tauti_builder *b, struct tauti_row *row,
	const struct tauti_sums_piece *first, int64_t bytes)
{
	struct taut_comm_args args = no_args();

	args.in_elements = args.out_elements = bytes;
	args.seq = first->message;
	args.group_size = first->group_size < 0 ? b->world_size : first->group_size;
	args.group_name = first->group;
	args.group_ranks = first->group_ranks;
	args.collective = taut_names_add(b->names, "allreduce", 9);
	args.dtype = taut_names_add(b->names, "byte", 4);
	row->args = (uint32_t)b->comms.count;
	return args.collective != TAUT_NONE && args.dtype != TAUT_NONE &&
		taut_vec_push(&b->comms, args);
}

static int by_time(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;
	int order = compare(x->exchange, y->exchange);

	if (!order)
		order = compare(x->at_ns, y->at_ns);
	return order ? order : compare(x->bytes, y->bytes);
}

/* How many moments are of exchanges before, or not after that time. */
static size_t until(const moments *all, uint32_t exchange, int64_t at_ns)
{
	struct moment key = { exchange, at_ns, INT64_MAX };
	size_t lo = 0, hi = all->count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (by_time(&all->data[mid], &key) <= 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Bytes of all messages till then. */
static int64_t bytes_until(const moments *all, uint32_t exchange, int64_t at_ns)
{
	size_t n = until(all, exchange, at_ns);

	return n && all->data[n - 1].exchange == exchange ? all->data[n - 1].bytes : 0;
}

static int64_t under_way(const struct settling *s, uint32_t exchange, int64_t at_ns)
{
	return bytes_until(&s->begins, exchange, at_ns) -
		bytes_until(&s->ends, exchange, at_ns);
}

/* When the last message ended that had to, before this one began; INT64_MIN: none had,
 * for there was room all the time. most: that ever was under way. */
static int64_t room_ns(const struct settling *s, const struct tauti_sums_piece *p,
	int64_t bytes, int64_t most)
{
	size_t n = until(&s->ends, p->exchange, p->start_ns);

	for (size_t seen = 0; n && seen < MOST_AT_ONCE; n--, seen++) {
		const struct moment *end = &s->ends.data[n - 1];

		if (end->exchange != p->exchange)
			break;
		if (under_way(s, p->exchange, end->at_ns - 1) + bytes > most)
			return end->at_ns;
	}
	return INT64_MIN;
}

/* When the rank had come to the message: see sums.h. */
static int64_t came_ns(const struct settling *s, const struct message *m, int64_t most)
{
	const struct tauti_sums_piece *p = &s->sums->pieces.data[m->first];
	int64_t room = room_ns(s, p, m->bytes, most), at_ns = p->start_ns;

	if (!m->by->waits)
		at_ns = m->by->end_ns + s->builder->base_ns;
	if (at_ns < room)
		at_ns = room;
	return at_ns < p->start_ns ? at_ns : p->start_ns;
}

/* Not of calls of another library: those count from 1 upward. */
static uint32_t number_of(const struct settling *s, const struct tauti_sums_call *by)
{
	return UINT32_MAX - s->builder->log_numbers -
		(uint32_t)(by - s->sums->calls.data) - 1;
}

/* Rows are on the clock of the source, whose base is known by now. */
static bool add_message(struct settling *s, const struct message *m, int64_t most)
{
	const struct tauti_sums_piece *first = &s->sums->pieces.data[m->first];
	int64_t start_ns = came_ns(s, m, most);
	struct tauti_builder *b = s->builder;
	struct tauti_beside beside = { .row = (uint32_t)b->n_rows };
	struct tauti_row *row = tauti_builder_row(b);

	if (!row)
		return false;
	row->name = taut_names_add(b->names, "taut_sum", 8);
	row->start_ns = start_ns - b->base_ns;
	row->dur_ns = first->end_ns - start_ns;
	row->kind = TAUT_KIND_COMM;
	row->correlation = number_of(s, m->by);
	row->lane = TAUT_NONE;
	return row->name != TAUT_NONE && add_args(b, row, first, m->bytes) &&
		taut_vec_push(&s->rows, beside);
}

static struct tauti_sums_call *post_of(
	const struct settling *s, const struct tauti_sums_piece *p)
{
	return last_post(s->sums, p, p->start_ns - s->builder->base_ns);
}

/* Of a piece that was handed over before the window: who waits for its task before it
 * is handed over again. */
static struct tauti_sums_call *wait_of(
	const struct settling *s, const struct tauti_sums_piece *p)
{
	const struct tauti_sums_call *posted = post_of(s, p), *next;
	struct tauti_sums_call *wait;

	if (posted)
		return next_wait(s->sums, p, posted->start_ns);
	wait = next_wait(s->sums, p, INT64_MIN);
	next = call_of(s->sums, calls_until(s->sums, false, p->exchange, p->task,
		INT64_MIN), false, p);
	return !next || (wait && wait->start_ns < next->start_ns) ? wait : NULL;
}

/* The call whose number a message has: what posted it; where that was before the window,
 * who waits for it; NULL: nobody, and nothing tells what it was for. */
static struct tauti_sums_call *call_for(
	const struct settling *s, const struct tauti_sums_piece *p, size_t n)
{
	struct tauti_sums_call *last = NULL;

	for (size_t i = 0; i < n; i++) {
		struct tauti_sums_call *by = post_of(s, &p[i]);

		if (by && (!last || by->start_ns > last->start_ns))
			last = by;
	}
	for (size_t i = 0; i < n && !last; i++)
		last = wait_of(s, &p[i]);
	return last;
}

/* The pieces of one message, from *at on. */
static bool find_message(struct settling *s, size_t *at)
{
	const struct tauti_sums_piece *p = s->sums->pieces.data, *first = &p[*at];
	struct message m = { .first = *at };
	struct moment begin = { first->exchange, first->start_ns, 0 };
	struct moment end = { first->exchange, first->end_ns, 0 };

	for (; *at < s->sums->pieces.count && p[*at].exchange == first->exchange &&
		p[*at].message == first->message; ++*at) {
		m.bytes += p[*at].bytes;
		m.n++;
	}
	m.by = call_for(s, first, m.n);
	begin.bytes = end.bytes = m.bytes;
	return !m.by || (taut_vec_push(&s->messages, m) &&
		taut_vec_push(&s->begins, begin) && taut_vec_push(&s->ends, end));
}

static void sum_up(moments *all)
{
	struct moment *m = all->data;

	if (all->count)
		qsort(m, all->count, sizeof *m, by_time);
	for (size_t i = 1; i < all->count; i++)
		if (m[i].exchange == m[i - 1].exchange)
			m[i].bytes += m[i - 1].bytes;
}

/* Most bytes that ever were under way in the exchange. */
static int64_t most_of(const struct settling *s, uint32_t exchange)
{
	const moments *all = &s->begins;
	int64_t most = 0;

	for (size_t i = until(all, exchange, INT64_MIN);
		i < all->count && all->data[i].exchange == exchange; i++) {
		int64_t now = under_way(s, exchange, all->data[i].at_ns);

		most = now > most ? now : most;
	}
	return most;
}

/* Numbers for what posted the message and who waits for it. Who waits for a piece waits
 * for the last message that has one of the task. */
static void number_calls(struct settling *s, const struct message *m)
{
	uint32_t number = number_of(s, m->by);

	tauti_builder_row_at(s->builder, m->by->row)->correlation = number;
	for (size_t i = 0; i < m->n; i++) {
		const struct tauti_sums_call *wait = wait_of(
			s, &s->sums->pieces.data[m->first + i]);

		if (wait)
			tauti_builder_row_at(s->builder, wait->row)->correlation = number;
	}
}

/* Messages are in the order of their exchanges. */
static bool settle_messages(struct settling *s)
{
	int64_t most = 0;

	for (size_t i = 0; i < s->messages.count; i++) {
		const struct message *m = &s->messages.data[i];
		uint32_t exchange = s->sums->pieces.data[m->first].exchange;

		if (!i || s->sums->pieces.data[m[-1].first].exchange != exchange)
			most = most_of(s, exchange);
		number_calls(s, m);
		if (!add_message(s, m, most))
			return false;
	}
	return true;
}

/* What a call tells of its gradient: the task, of which exchange, and how large it is. */
static bool describe_calls(const struct settling *s)
{
	struct tauti_builder *b = s->builder;

	for (size_t i = 0; i < s->sums->calls.count; i++) {
		const struct tauti_sums_call *call = &s->sums->calls.data[i];
		const struct tauti_sums_gradient *g = gradient_of(s->sums, call);
		struct taut_comm_args args = no_args();

		args.dtype = g ? g->dtype : 0;
		args.in_elements = g ? g->elements : -1;
		args.seq = call->task;
		args.comms_id = call->exchange;
		tauti_builder_row_at(b, call->row)->args = (uint32_t)b->comms.count;
		if (!taut_vec_push(&b->comms, args))
			return false;
	}
	return true;
}

static void sort(struct tauti_sums *sums)
{
	qsort(sums->pieces.data, sums->pieces.count, sizeof *sums->pieces.data, by_message);
	qsort(sums->calls.data, sums->calls.count, sizeof *sums->calls.data, by_task);
	if (sums->gradients.count)
		qsort(sums->gradients.data, sums->gradients.count,
			sizeof *sums->gradients.data, by_gradient);
}

bool tauti_sums_settle(struct tauti_sums *sums, struct tauti_builder *builder,
	int64_t pid, int64_t first_tid)
{
	struct settling s = { .sums = sums, .builder = builder };
	bool ok;

	if (!sums->pieces.count || !sums->calls.count)
		return true;
	sort(sums);
	ok = describe_calls(&s);
	for (size_t i = 0; ok && i < sums->pieces.count;)
		ok = find_message(&s, &i);
	sum_up(&s.begins);
	sum_up(&s.ends);
	ok = ok && settle_messages(&s) && tauti_beside(builder, s.rows.data, s.rows.count,
		(struct tauti_beside_lanes){ "Taut's sums", pid, first_tid });
	builder->log_numbers += (uint32_t)sums->calls.count + 1;
	taut_vec_free(&s.messages);
	taut_vec_free(&s.begins);
	taut_vec_free(&s.ends);
	taut_vec_free(&s.rows);
	return ok;
}

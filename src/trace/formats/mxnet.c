/* mxnet.c - the JSON of MXNet's profiler (1.x).
 *
 * The engine is to MXNet what a device is to others: the Python thread hands
 * it operations and goes on, its threads carry them out when what they read
 * is ready. So an operator (B and E, pid is the device's index) is an item of
 * a stream, one stream a thread of the engine, and the calls of the C API (b
 * and e) are calls into the device's runtime. The same operators are written
 * a second time as b and e, which is left out. A tid is a 64-bit hash.
 *
 * What the recorder (python/taut/_mxnet.py) adds, in this very file so that
 * it is on its clock and its threads:
 *   task    "step#N" of domain "taut"           step N
 *   marker  "thread PID TID" of domain "taut"   the numbers of this thread
 *   no-ops of the engine
 *     "taut.ready|KEY|SEQ|ELEMENTS|DTYPE"  what key KEY pushes is computed
 *     "taut.done|KEY|SEQ|"                 what it pulls is there
 * Between the last two lies the SEQ-th exchange of this key, and the operator
 * of the engine (KVStoreDist...) that carried it out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/format.h"
#include "trace/formats/chrome.h"
#include "trace/json/number.h"

struct span {
	int64_t start_ns, dur_ns;
	int64_t tid;	/* the hash */
	int64_t device; /* of an operator */
	uint32_t name;
	uint8_t kind; /* COMM: an operator of the kvstore */
	uint8_t flags;
};

struct exchange {
	int64_t ready_ns, done_ns; /* INT64_MIN: not seen */
	int64_t seq, elements;
	uint32_t key, dtype; /* names */
};

struct thread {
	int64_t hash;
	int64_t pid, tid; /* as the system has it; -1 not told */
};

struct mxnet {
	struct tauti_opens opens, tasks;
	TAUT_VEC(struct span) spans;
	TAUT_VEC(struct exchange) exchanges;
	struct tauti_lanes seen; /* exchanges by (key, seq) */
	TAUT_VEC(struct thread) threads;
	int64_t last_ns;
};

/* Streams of the engine's threads have lower numbers. */
enum { KVSTORE_STREAM = 1000000 };

enum class {
	CLASS_NONE,
	CLASS_OPERATOR,
	CLASS_CALL,
	CLASS_OURS, /* the recorder's */
	CLASS_USER, /* tasks, frames and events of the job's own */
};

/* --- what the recorder adds -------------------------------------------------- */

/* Cuts the field before the next '|' off text. */
static struct tauti_text next_field(struct tauti_text *text)
{
	const char *bar = memchr(text->at, '|', text->len);
	uint32_t len = bar ? (uint32_t)(bar - text->at) : text->len;
	struct tauti_text field = { text->at, len };
	text->at += len + (bar != NULL);
	text->len -= len + (bar != NULL);
	return field;
}

static int64_t field_number(struct tauti_text field)
{
	int64_t value;
	char digits[24];
	if (field.len == 0 || field.len >= sizeof digits)
		return -1;
	memcpy(digits, field.at, field.len);
	digits[field.len] = '\0';
	return tauti_number_int(digits, &value) && value >= 0 ? value : -1;
}

static struct exchange *find_exchange(
	struct mxnet *m, uint32_t key, int64_t seq)
{
	struct exchange e = { INT64_MIN, INT64_MIN, seq, -1, key, 0 };
	uint32_t id = tauti_lanes_add(
		&m->seen, TAUTI_ROLE_OTHER, (int64_t)key, seq);
	if (id == TAUT_NONE || (id == m->exchanges.count &&
				       !taut_vec_push(&m->exchanges, e)))
		return NULL;
	return &m->exchanges.data[id];
}

/* name: "taut.ready|..." or "taut.done|...". */
static bool see_mark(struct tauti_chrome *c, struct mxnet *m,
	struct tauti_text name, int64_t at_ns)
{
	bool ready = tauti_text_is(next_field(&name), "taut.ready");
	uint32_t key = tauti_chrome_text(c, next_field(&name));
	int64_t seq = field_number(next_field(&name));
	if (key == TAUT_NONE)
		return false;
	if (seq < 0)
		return true;
	struct exchange *e = find_exchange(m, key, seq);
	if (!e)
		return false;
	if (!ready) {
		e->done_ns = at_ns > e->done_ns ? at_ns : e->done_ns;
		return true;
	}
	e->ready_ns = at_ns > e->ready_ns ? at_ns : e->ready_ns;
	e->elements = field_number(next_field(&name));
	e->dtype = tauti_chrome_text(c, next_field(&name));
	return e->dtype != TAUT_NONE;
}

/* "thread PID TID" */
static bool see_thread(struct mxnet *m, struct tauti_text name, int64_t hash)
{
	struct thread t = { hash, -1, -1 };
	char text[64];
	long long pid, tid;
	uint32_t len = name.len < sizeof text ? name.len : sizeof text - 1;
	memcpy(text, name.at, len);
	text[len] = '\0';
	if (sscanf(text, "thread %19lld %19lld", &pid, &tid) != 2 || pid < 0 ||
		tid < 0)
		return true;
	t.pid = pid;
	t.tid = tid;
	return taut_vec_push(&m->threads, t);
}

static bool is_step(const char *name, uint32_t *ret_sequence)
{
	int64_t number;
	if (strncmp(name, "step#", 5) != 0 ||
		!tauti_number_int(name + 5, &number) || number < 0 ||
		number > 1000000000)
		return false;
	*ret_sequence = (uint32_t)number + 1;
	return true;
}

/* --- events -------------------------------------------------------------------- */

static enum class class_of(
	struct tauti_chrome *c, const struct tauti_chrome_event *e)
{
	struct tauti_text category = tauti_chrome_string(c, e->category);
	bool nestable = e->phase == 'b' || e->phase == 'e';
	if (tauti_text_is(category, "operator"))
		return nestable ? CLASS_NONE : CLASS_OPERATOR;
	if (tauti_text_is(category, "MXNET_C_API"))
		return CLASS_CALL;
	return tauti_text_is(category, "taut") ? CLASS_OURS : CLASS_USER;
}

static uint8_t kind_of(struct tauti_text name, enum class class)
{
	switch (class) {
	case CLASS_OPERATOR:
		if (tauti_text_starts(name, "KVStoreDist"))
			return TAUT_KIND_COMM;
		return tauti_text_starts(name, "Copy") ? TAUT_KIND_MEMCPY :
							  TAUT_KIND_KERNEL;
	case CLASS_CALL:
		return TAUT_KIND_RUNTIME;
	default:
		return TAUT_KIND_ANNOTATION;
	}
}

static bool add_span(struct tauti_chrome *c, struct mxnet *m,
	const struct tauti_open *open, int64_t device, int64_t tid,
	int64_t end_ns)
{
	struct span s = {
		.start_ns = open->start_ns,
		.dur_ns = end_ns - open->start_ns,
		.tid = tid,
		.device = device,
		.name = open->name,
		.kind = (uint8_t)open->tag,
	};
	if (s.dur_ns < 0 || s.dur_ns > TAUTI_TIME_LIMIT_NS / 2) {
		s.dur_ns = 0;
		s.flags = TAUT_EVENT_CUT;
		c->negative++;
	}
	return taut_vec_push(&m->spans, s);
}

/* B, E and b, e: paired by thread, phase letter's case and name. */
static bool begin_or_end(struct tauti_chrome *c, struct mxnet *m,
	const struct tauti_chrome_event *e, enum class class)
{
	struct tauti_text text = tauti_chrome_string(c, e->name);
	struct tauti_opens *opens =
		class == CLASS_OPERATOR ? &m->opens : &m->tasks;
	struct tauti_open open = { .tag = kind_of(text, class) };
	int64_t at_ns, pid, tid;
	if (!tauti_chrome_time(c, e->ts, &at_ns))
		return true;
	if (!tauti_chrome_int(c, e->pid, &pid) ||
		!tauti_chrome_int(c, e->tid, &tid)) {
		tauti_chrome_lose(c, TAUTI_LOST_PLACE);
		return true;
	}
	if (at_ns > m->last_ns)
		m->last_ns = at_ns;
	bool begins = e->phase == 'B' || e->phase == 'b';
	if (class == CLASS_OPERATOR && tauti_text_starts(text, "taut."))
		return !begins || see_mark(c, m, text, at_ns);
	uint32_t name = tauti_chrome_name(c, e->name);
	if (name == TAUT_NONE)
		return false;
	if (!begins) {
		if (tauti_opens_pop(opens, pid, tid, name, &open))
			return add_span(c, m, &open, pid, tid, at_ns);
		tauti_chrome_lose(c, TAUTI_LOST_NO_BEGIN);
		return true;
	}
	open.name = name;
	open.start_ns = at_ns;
	return tauti_opens_push(opens, pid, tid, &open);
}

static bool mxnet_event(
	struct tauti_chrome *c, const struct tauti_chrome_event *e)
{
	struct mxnet *m = c->format;
	enum class class = class_of(c, e);
	struct tauti_text name;
	int64_t tid;
	switch (e->phase) {
	case 'B':
	case 'E':
	case 'b':
	case 'e':
		return class == CLASS_NONE || begin_or_end(c, m, e, class);
	case 'n':
	case 'i':
		name = tauti_chrome_string(c, e->name);
		return !tauti_text_starts(tauti_chrome_string(c, e->category),
			       "taut") ||
		       !tauti_text_starts(name, "thread ") ||
		       !tauti_chrome_int(c, e->tid, &tid) ||
		       see_thread(m, name, tid);
	default: /* names of processes, counters */
		return true;
	}
}

/* --- lanes ---------------------------------------------------------------------- */

static const struct thread *find_thread(const struct mxnet *m, int64_t hash)
{
	for (size_t i = 0; i < m->threads.count; i++)
		if (m->threads.data[i].hash == hash)
			return &m->threads.data[i];
	return NULL;
}

static uint32_t name_lane(struct tauti_builder *b, uint32_t lane,
	const char *what, int64_t number)
{
	char text[64];
	int len = snprintf(text, sizeof text, "%s %lld", what,
		(long long)number);
	uint32_t name = taut_names_add(b->names, text, (size_t)len);
	if (lane == TAUT_NONE || name == TAUT_NONE)
		return TAUT_NONE;
	b->lanes.all.data[lane].name = name;
	return lane;
}

/* Hashes become small numbers, in the order in which the threads appear. */
struct numbers {
	struct tauti_lanes hashes;
};

static uint32_t lane_of(struct tauti_builder *b, struct mxnet *m,
	struct numbers *n, const struct span *s)
{
	uint32_t number = tauti_lanes_add(
		&n->hashes, TAUTI_ROLE_OTHER, s->tid, 0);
	const struct thread *t = find_thread(m, s->tid);
	if (number == TAUT_NONE)
		return TAUT_NONE;
	if (s->kind == TAUT_KIND_KERNEL || s->kind == TAUT_KIND_MEMCPY)
		return name_lane(b,
			tauti_lanes_add(&b->lanes, TAUTI_ROLE_STREAM,
				s->device, number),
			"engine thread", number);
	if (t)
		return tauti_lanes_add(
			&b->lanes, TAUTI_ROLE_THREAD, t->pid, t->tid);
	return name_lane(b,
		tauti_lanes_add(&b->lanes, TAUTI_ROLE_THREAD, 0, number),
		"thread", number);
}

/* Exchanges run side by side: each stands on the first stream of the kvstore
 * that is free when it begins. */
struct free_lanes {
	int64_t at[256];
	uint32_t n;
};

static uint32_t exchange_lane(struct tauti_builder *b,
	struct free_lanes *lanes, const struct tauti_row *row)
{
	const uint32_t max = sizeof lanes->at / sizeof *lanes->at;
	uint32_t i = 0;
	while (i < lanes->n && i + 1 < max && lanes->at[i] > row->start_ns)
		i++;
	if (i == lanes->n)
		lanes->at[lanes->n++] = INT64_MIN;
	if (row->start_ns + row->dur_ns > lanes->at[i])
		lanes->at[i] = row->start_ns + row->dur_ns;
	return name_lane(b,
		tauti_lanes_add(&b->lanes, TAUTI_ROLE_STREAM, 0,
			KVSTORE_STREAM + i),
		"kvstore", i);
}

/* --- exchanges ------------------------------------------------------------------ */

static int by_ready(const void *a, const void *b)
{
	const struct exchange *x = a, *y = b;
	if (x->ready_ns != y->ready_ns)
		return x->ready_ns < y->ready_ns ? -1 : 1;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return (x->seq > y->seq) - (x->seq < y->seq);
}

static int by_start(const void *a, const void *b)
{
	const struct span *x = a, *y = b;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->dur_ns != y->dur_ns)
		return x->dur_ns < y->dur_ns ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return (x->name > y->name) - (x->name < y->name);
}

static bool add_args(struct tauti_builder *b, struct tauti_row *row,
	const struct exchange *e)
{
	uint32_t verb = taut_names_add(b->names, "pushpull", 8);
	const char *text = taut_arena_printf(b->arena, "kvstore %s",
		taut_names_text(b->names, e->key));
	uint32_t group = text ?
		taut_names_add(b->names, text, strlen(text)) : TAUT_NONE;
	struct taut_comm_args args = {
		.collective = verb,
		.group_name = group,
		.dtype = e->dtype,
		.in_elements = e->elements,
		.out_elements = e->elements,
		.seq = e->seq,
		.comms_id = -1,
		.local_group = -1,
		.group_size = -1,
		.src_rank = -1,
		.dst_rank = -1,
		.rank_start = -1,
		.rank_stride = -1,
	};
	row->args = (uint32_t)b->comms.count;
	return verb != TAUT_NONE && group != TAUT_NONE &&
	       taut_vec_push(&b->comms, args);
}

/* The operator of an exchange: the first that nobody has, begins when what is
 * pushed is ready, and ends before what is pulled is there. They begin in the
 * order in which that got ready. NULL: not in the recording. */
static struct span *take_operator(
	struct span *ops, size_t n, size_t *first, const struct exchange *e)
{
	enum { MAX_LOOK = 1000 };
	while (*first < n && (ops[*first].kind != TAUT_KIND_COMM ||
				     ops[*first].start_ns < e->ready_ns))
		++*first;
	for (size_t i = *first; i < n && i < *first + MAX_LOOK; i++) {
		struct span *op = &ops[i];
		if (op->start_ns > e->done_ns)
			return NULL;
		if (op->kind != TAUT_KIND_COMM ||
			op->start_ns + op->dur_ns > e->done_ns)
			continue;
		op->kind = TAUT_KIND_OTHER;
		return op;
	}
	return NULL;
}

static bool add_exchange(struct tauti_builder *b, struct free_lanes *lanes,
	const struct exchange *e, const struct span *op)
{
	const char *text = taut_arena_printf(b->arena, "pushpull %s",
		taut_names_text(b->names, e->key));
	struct tauti_row *row = tauti_builder_row(b);
	if (!row || !text)
		return false;
	row->start_ns = op ? op->start_ns : e->ready_ns;
	row->dur_ns = op ? op->dur_ns : e->done_ns - e->ready_ns;
	row->kind = TAUT_KIND_COMM;
	row->name = taut_names_add(b->names, text, strlen(text));
	row->lane = exchange_lane(b, lanes, row);
	return row->name != TAUT_NONE && row->lane != TAUT_NONE &&
	       add_args(b, row, e);
}

static bool add_exchanges(
	struct tauti_builder *b, struct mxnet *m, struct span *ops, size_t n_ops)
{
	struct free_lanes lanes = { .n = 0 };
	size_t first = 0;
	if (m->exchanges.count)
		qsort(m->exchanges.data, m->exchanges.count,
			sizeof *m->exchanges.data, by_ready);
	for (size_t i = 0; i < m->exchanges.count; i++) {
		const struct exchange *e = &m->exchanges.data[i];
		if (e->ready_ns == INT64_MIN || e->done_ns < e->ready_ns)
			continue;
		if (!add_exchange(b, &lanes, e,
			    take_operator(ops, n_ops, &first, e)))
			return false;
	}
	return true;
}

/* Without the recorder's marks the operators themselves are all there is. */
static bool add_bare_exchanges(
	struct tauti_builder *b, const struct span *ops, size_t n_ops)
{
	struct free_lanes lanes = { .n = 0 };
	for (size_t i = 0; i < n_ops; i++) {
		struct tauti_row *row = tauti_builder_row(b);
		if (!row)
			return false;
		row->start_ns = ops[i].start_ns;
		row->dur_ns = ops[i].dur_ns;
		row->flags = ops[i].flags;
		row->kind = TAUT_KIND_COMM;
		row->name = ops[i].name;
		row->lane = exchange_lane(b, &lanes, row);
		if (row->lane == TAUT_NONE)
			return false;
	}
	return true;
}

/* --- the end -------------------------------------------------------------------- */

static bool close_open(struct tauti_chrome *c, struct mxnet *m,
	struct tauti_opens *opens)
{
	struct tauti_open open;
	int64_t pid, tid;
	while (tauti_opens_drain(opens, &pid, &tid, &open)) {
		size_t at = m->spans.count;
		if (!add_span(c, m, &open, pid, tid, m->last_ns))
			return false;
		m->spans.data[at].flags = TAUT_EVENT_CUT;
	}
	return true;
}

static bool add_row(struct tauti_builder *b, struct mxnet *m,
	struct numbers *n, const struct span *s)
{
	uint32_t lane = lane_of(b, m, n, s);
	struct tauti_row *row = tauti_builder_row(b);
	if (!row || lane == TAUT_NONE)
		return false;
	row->start_ns = s->start_ns;
	row->dur_ns = s->dur_ns;
	row->name = s->name;
	row->lane = lane;
	row->flags = s->flags;
	row->kind = s->kind;
	if (s->kind == TAUT_KIND_ANNOTATION &&
		is_step(taut_names_text(b->names, s->name), &row->sequence))
		row->kind = TAUT_KIND_STEP;
	return true;
}

/* Calls that hand something to the engine. */
static bool hands_over(const char *name)
{
	static const char *const calls[] = { "MXImperativeInvoke",
		"MXInvokeCachedOp", "MXAutogradBackward", "MXExecutor",
		"MXKVStorePu", "MXKVStoreBroadcast", "MXNDArraySyncCopyFrom",
		"MXEnginePush" };
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		if (strncmp(name, calls[i], strlen(calls[i])) == 0)
			return true;
	return false;
}

/* Numbers the calls, and gives each operator the number of the last that had
 * begun: what it needs may have been handed over before, and never later.
 * The rows from first on are in the order of time. */
static void number_launches(struct tauti_builder *b, size_t first)
{
	uint32_t number = 0;
	for (size_t i = first; i < b->n_rows; i++) {
		struct tauti_row *row = tauti_builder_row_at(b, (uint32_t)i);
		bool device = row->kind == TAUT_KIND_KERNEL ||
			      row->kind == TAUT_KIND_MEMCPY;
		if (row->kind == TAUT_KIND_RUNTIME &&
			hands_over(taut_names_text(b->names, row->name)))
			row->correlation = ++number;
		else if (device)
			row->correlation = number;
	}
}

static bool mxnet_finish(struct tauti_chrome *c)
{
	struct mxnet *m = c->format;
	struct tauti_builder *b = c->builder;
	struct numbers numbers = { 0 };
	size_t n_ops = 0, first = b->n_rows;
	bool ok = close_open(c, m, &m->opens) && close_open(c, m, &m->tasks);
	if (ok && m->spans.count)
		qsort(m->spans.data, m->spans.count, sizeof *m->spans.data,
			by_start);
	for (size_t i = 0; ok && i < m->spans.count; i++) {
		if (m->spans.data[i].kind == TAUT_KIND_COMM)
			m->spans.data[n_ops++] = m->spans.data[i];
		else
			ok = add_row(b, m, &numbers, &m->spans.data[i]);
	}
	tauti_lanes_fini(&numbers.hashes);
	number_launches(b, first);
	return ok && (m->exchanges.count ?
		add_exchanges(b, m, m->spans.data, n_ops) :
		add_bare_exchanges(b, m->spans.data, n_ops));
}

static const struct tauti_chrome_face face = {
	.what = "a trace of MXNet's profiler",
	.event = mxnet_event,
	.finish = mxnet_finish,
};

static taut_status read_mxnet(struct tauti_stream *stream,
	struct tauti_builder *builder, struct taut_error *err)
{
	struct mxnet m = { .last_ns = INT64_MIN };
	taut_status status =
		tauti_chrome_read(stream, builder, &face, &m, err);
	tauti_opens_fini(&m.opens);
	tauti_opens_fini(&m.tasks);
	tauti_lanes_fini(&m.seen);
	taut_vec_free(&m.spans);
	taut_vec_free(&m.exchanges);
	taut_vec_free(&m.threads);
	return status;
}

/* It begins with the names of the devices, cpu/0 first; what a process dumps
 * later begins with a comma and operators. */
static bool probe_mxnet(const char *head, size_t len)
{
	size_t begin = len < 400 ? len : 400;
	return tauti_head_begins(head, len, '{') &&
	       tauti_head_holds(head, begin, "\"traceEvents\"") &&
	       (tauti_head_holds(head, begin, "\"cpu/0\"") ||
		       tauti_head_holds(head, len, "\"cat\": \"operator\"") ||
		       tauti_head_holds(head, len, "\"MXNET_C_API\""));
}

const struct tauti_format tauti_format_mxnet = {
	.name = "mxnet",
	.probe = probe_mxnet,
	.read = read_mxnet,
};

/* chakra.c - one rank's file: each message behind its length, the metadata
 * first. */
#include "report/chakra.h"

#include <stdlib.h>
#include <string.h>

#include "report/lanes.h"
#include "report/put.h"
#include "report/tables.h"

enum { /* fields of the schema */
	NODE_ID = 1, NODE_NAME = 2, NODE_TYPE = 3, NODE_CTRL_DEPS = 4,
	NODE_DATA_DEPS = 5, NODE_START = 6, NODE_DURATION = 7,
	NODE_INPUTS = 8, NODE_ATTR = 10,
	META_VERSION = 1, META_ATTR = 2,
	ATTR_NAME = 1, ATTR_INT32 = 7, ATTR_INT64 = 9, ATTR_INT64_LIST = 10,
	ATTR_UINT64 = 13, ATTR_BOOL = 27, ATTR_TEXT = 29,
	IO_VALUES = 1, IO_SHAPES = 2, IO_TYPES = 3,
};
enum { WIRE_NUMBER = 0, WIRE_BYTES = 2 };
enum { /* types of nodes */
	TYPE_COMP = 4, TYPE_SEND = 5, TYPE_RECV = 6, TYPE_COLL = 7,
};

typedef TAUT_VEC(uint8_t) message;

struct writer {
	struct tauti_chakra *c;
	const struct taut_graph *g;
	const struct taut_trace *trace;
	struct tauti_put *put;
	message node, part;
	TAUT_VEC(uint64_t) waits, starts; /* of the node that is next */
	uint64_t n_nodes;
	int64_t *tids; /* by lane of the trace */
	bool cpu;      /* the lane of the operation that is written */
	int64_t tid;
	bool memory;   /* false: it ran out */
};

/* --- lanes ---------------------------------------------------------------- */

struct lane {
	int64_t tid;
	uint32_t index;
	bool stream;
};

static int by_tid(const void *a, const void *b)
{
	const struct lane *x = a, *y = b;

	if (x->stream != y->stream)
		return x->stream ? 1 : -1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

static bool may_keep(int64_t tid)
{
	return tid >= 0 && tid < INT64_MAX / 2;
}

/* A node names its lane by one number. Where a rank has a number twice (a
 * stream of two devices, a thread of two processes) or for a lane none, it
 * gets one above all. False: no memory. */
static bool number_lanes(struct writer *w)
{
	const struct taut_trace *t = w->trace;
	size_t n = t->n_lanes;
	struct lane *lanes = calloc(n + 1, sizeof *lanes);
	int64_t next = 0;

	w->tids = calloc(n + 1, sizeof *w->tids);
	for (size_t i = 0; lanes && i < n; i++) {
		lanes[i] = (struct lane){ t->lanes[i].tid, (uint32_t)i,
			t->lanes[i].kind == TAUT_LANE_STREAM };
		if (may_keep(lanes[i].tid) && lanes[i].tid >= next)
			next = lanes[i].tid + 1;
	}
	if (lanes)
		qsort(lanes, n, sizeof *lanes, by_tid);
	for (size_t i = 0; lanes && w->tids && i < n; i++) {
		const struct lane *l = &lanes[i];
		bool again = i && l[-1].tid == l->tid &&
			l[-1].stream == l->stream;

		w->tids[l->index] = may_keep(l->tid) && !again ?
			l->tid : next++;
	}
	free(lanes);
	return lanes && w->tids;
}

/* --- messages ------------------------------------------------------------- */

static void put_varint(struct writer *w, message *m, uint64_t value)
{
	if (!taut_vec_reserve(m, 10)) {
		w->memory = false;
		return;
	}
	for (; value >= 0x80; value >>= 7)
		m->data[m->count++] = (uint8_t)(value | 0x80);
	m->data[m->count++] = (uint8_t)value;
}

static void put_number(
	struct writer *w, message *m, unsigned field, uint64_t value)
{
	put_varint(w, m, field << 3 | WIRE_NUMBER);
	put_varint(w, m, value);
}

static void put_bytes(struct writer *w, message *m, unsigned field,
	const void *bytes, size_t len)
{
	put_varint(w, m, field << 3 | WIRE_BYTES);
	put_varint(w, m, len);
	if (!len)
		return;
	if (!taut_vec_reserve(m, len)) {
		w->memory = false;
		return;
	}
	memcpy(m->data + m->count, bytes, len);
	m->count += len;
}

static void put_text(
	struct writer *w, message *m, unsigned field, const char *text)
{
	put_bytes(w, m, field, text, strlen(text));
}

static void begin_attr(struct writer *w, const char *name)
{
	taut_vec_clear(&w->part);
	put_text(w, &w->part, ATTR_NAME, name);
}

static void end_attr(struct writer *w, unsigned field)
{
	put_bytes(w, &w->node, field, w->part.data, w->part.count);
}

static void number_attr(struct writer *w, unsigned field, const char *name,
	unsigned type, int64_t value)
{
	begin_attr(w, name);
	put_number(w, &w->part, type, (uint64_t)value);
	end_attr(w, field);
}

static void text_attr(
	struct writer *w, unsigned field, const char *name, const char *text)
{
	begin_attr(w, name);
	put_text(w, &w->part, ATTR_TEXT, text);
	end_attr(w, field);
}

/* w->node goes out behind its length. */
static void put_message(struct writer *w)
{
	taut_vec_clear(&w->part);
	put_varint(w, &w->part, w->node.count);
	tauti_put_bytes(w->put, w->part.data, w->part.count);
	tauti_put_bytes(w->put, w->node.data, w->node.count);
	taut_vec_clear(&w->node);
}

/* --- metadata --------------------------------------------------------------- */

/* Thread, number, start and duration in ns of every step. */
static void put_steps(struct writer *w, uint32_t rank)
{
	const struct taut_graph *g = w->g;
	message list = { 0 }, packed = { 0 };

	for (uint32_t i = 0; i < g->n_steps; i++) {
		const struct taut_step *s = &g->steps[i];

		if (s->trace != rank || g->event[s->begin_op] == TAUT_NONE)
			continue;
		put_varint(w, &packed, (uint64_t)w->tids[
			g->lanes[g->lane[s->begin_op]].trace_lane]);
		put_varint(w, &packed, (uint64_t)s->id);
		/* rounded as nodes are, which else would lie before it */
		int64_t start = 1000 * chakra_us(s->start_ns);
		put_varint(w, &packed, (uint64_t)start);
		put_varint(w, &packed,
			(uint64_t)(1000 * chakra_us(s->end_ns) - start));
	}
	if (packed.count) {
		put_bytes(w, &list, 1, packed.data, packed.count);
		begin_attr(w, "steps");
		put_bytes(w, &w->part, ATTR_INT64_LIST, list.data, list.count);
		end_attr(w, META_ATTR);
	}
	taut_vec_free(&packed);
	taut_vec_free(&list);
}

static void put_metadata(struct writer *w, uint32_t rank)
{
	const struct taut_run *run = w->g->run;
	int32_t world = run->traces[rank].world_size;
	char writer[64];

	snprintf(writer, sizeof writer, "taut %s", taut_version());
	put_text(w, &w->node, META_VERSION, "0.0.4");
	text_attr(w, META_ATTR, "writer", writer);
	number_attr(w, META_ATTR, "rank", ATTR_INT64, run->traces[rank].rank);
	number_attr(w, META_ATTR, "world_size", ATTR_INT64,
		world > 0 ? world : (int64_t)run->n_traces);
	put_steps(w, rank);
	put_message(w);
}

/* --- nodes ------------------------------------------------------------------ */

static void put_waits(struct writer *w, unsigned field)
{
	taut_vec_clear(&w->part);
	for (size_t i = 0; i < w->waits.count; i++)
		put_varint(w, &w->part, w->waits.data[i]);
	if (w->part.count)
		put_bytes(w, &w->node, field, w->part.data, w->part.count);
}

static void add_wait(struct writer *w, uint64_t node)
{
	for (size_t i = 0; i < w->waits.count; i++)
		if (w->waits.data[i] == node)
			return;
	w->memory = w->memory && taut_vec_push(&w->waits, node);
}

/* A node up to its attributes; it waits for w->waits, and stands alone in
 * them afterwards. Its id is returned. Simulators differ in whether they look
 * at waits of data, of control or of both: all stand in both. */
static uint64_t begin_node(struct writer *w, const char *name, unsigned type,
	int64_t start_us, int64_t dur_us)
{
	uint64_t id = ++w->n_nodes;

	put_number(w, &w->node, NODE_ID, id);
	put_text(w, &w->node, NODE_NAME, name);
	put_number(w, &w->node, NODE_TYPE, type);
	put_waits(w, NODE_CTRL_DEPS);
	put_waits(w, NODE_DATA_DEPS);
	if (start_us)
		put_number(w, &w->node, NODE_START, (uint64_t)start_us);
	if (dur_us > 0)
		put_number(w, &w->node, NODE_DURATION, (uint64_t)dur_us);
	number_attr(w, NODE_ATTR, "is_cpu_op", ATTR_BOOL, w->cpu);
	number_attr(w, NODE_ATTR, "tid", ATTR_INT64, w->tid);
	taut_vec_clear(&w->waits);
	add_wait(w, id);
	return id;
}

/* Time in which nothing runs. */
static uint64_t put_pause(struct writer *w, int64_t start_us, int64_t dur_us)
{
	uint64_t id = begin_node(w, "(pause)", TYPE_COMP, start_us, dur_us);

	number_attr(w, NODE_ATTR, "pause", ATTR_BOOL, 1);
	put_message(w);
	return id;
}

/* The node of `from` that ends at at_us, or what stands for that moment. The
 * waits of the next node are kept apart meanwhile. */
static uint64_t node_at(struct writer *w, uint32_t from, int64_t at_us)
{
	const struct tauti_chakra *c = w->c;
	int64_t end = chakra_end_us(w->g, from);
	uint32_t first = c->cut_begin[from], last = c->cut_begin[from + 1];
	size_t kept = w->starts.count;
	uint64_t id;

	for (uint32_t i = first; i < last && at_us < end; i++)
		if (c->cuts[i].at_us == at_us)
			return c->node[from] - (last - i);
	if (at_us <= end)
		return c->node[from];
	for (size_t i = 0; i < w->waits.count; i++)
		w->memory = w->memory &&
			taut_vec_push(&w->starts, w->waits.data[i]);
	taut_vec_clear(&w->waits);
	add_wait(w, c->node[from]);
	id = put_pause(w, end, at_us - end);
	taut_vec_clear(&w->waits);
	for (size_t i = kept; i < w->starts.count; i++)
		add_wait(w, w->starts.data[i]);
	w->starts.count = kept;
	return id;
}

/* What comes before op on its lane. Where op began before that was over, it
 * waits for the part until then; a collective has no parts: from its arrival
 * on then. */
static void wait_for_lane(struct writer *w, uint32_t op)
{
	const struct taut_graph *g = w->g;
	uint32_t before = op - 1;
	int64_t at = chakra_us(g->start_ns[op]);

	if (!op || g->lane[before] != g->lane[op])
		return;
	if (g->gap_ns[op] >= 0 || at >= chakra_end_us(g, before))
		add_wait(w, w->c->node[before]);
	else if (chakra_is_comm(g, before))
		add_wait(w, node_at(w, before - 1, at));
	else
		add_wait(w, node_at(w, before, at));
}

static void wait_for_others(struct writer *w, uint32_t op)
{
	const struct tauti_chakra *c = w->c;

	for (uint32_t i = c->in_begin[op]; i < c->in_begin[op + 1]; i++)
		add_wait(w, node_at(w, c->in_from[i], c->in_at_us[i]));
}

/* When all was over that op waits for on its own rank. */
static int64_t own_waits_us(const struct writer *w, uint32_t op)
{
	const struct tauti_chakra *c = w->c;
	int64_t at = INT64_MIN;

	if (op && w->g->lane[op - 1] == w->g->lane[op])
		at = chakra_end_us(w->g, op - 1);
	for (uint32_t i = c->in_begin[op]; i < c->in_begin[op + 1]; i++)
		if (c->in_at_us[i] > at)
			at = c->in_at_us[i];
	return at == INT64_MIN ? 0 : at;
}

/* A wait for another rank is time that passes, too. */
static void wait_for_gap(struct writer *w, uint32_t op)
{
	int64_t start = w->g->start_ns[op], gap = w->g->gap_ns[op];
	int64_t from = w->c->across[op] ? own_waits_us(w, op) :
		chakra_us(start - (gap > 0 ? gap : 0));

	if (chakra_us(start) > from)
		put_pause(w, from, chakra_us(start) - from);
}

/* --- operations --------------------------------------------------------------- */

static const char *op_name(const struct taut_graph *g, uint32_t op)
{
	return taut_names_text(g->names, g->name[op]);
}

/* Does op go on with the event of the operation before it? */
static bool is_rest(const struct taut_graph *g, uint32_t op)
{
	return op && g->lane[op] == g->lane[op - 1] &&
		g->event[op] != TAUT_NONE && g->event[op] == g->event[op - 1];
}

/* What a host event is, where that is more than an operator. */
static const char *kind_of(const struct writer *w, uint32_t op)
{
	uint32_t row = w->g->event[op];

	switch (w->cpu && row != TAUT_NONE ? w->trace->kind[row] :
					     TAUT_KIND_OP) {
	case TAUT_KIND_ANNOTATION:
		return "annotation";
	case TAUT_KIND_PYTHON:
		return "python";
	case TAUT_KIND_RUNTIME:
		return "runtime";
	case TAUT_KIND_LOAD:
		return "load";
	case TAUT_KIND_LOAD_WAIT:
		return "load_wait";
	default:
		return NULL;
	}
}

/* Of a call that waited for a device the node is what was left of it behind
 * that: when it was made, and how long it took, is told beside. */
static void put_call(struct writer *w, uint32_t op)
{
	uint32_t row = w->g->event[op];
	int64_t took;

	if (row == TAUT_NONE || w->trace->kind[row] != TAUT_KIND_RUNTIME)
		return;
	took = chakra_us(w->trace->dur_ns[row]);
	if (took > chakra_end_us(w->g, op))
		return;
	number_attr(w, NODE_ATTR, "ready_us", ATTR_INT64,
		chakra_end_us(w->g, op) - took);
	number_attr(w, NODE_ATTR, "took_us", ATTR_INT64, took);
}

/* An operation, in as many nodes as others wait for parts of it. */
static void put_parts(struct writer *w, uint32_t op)
{
	const struct tauti_chakra *c = w->c;
	const struct taut_graph *g = w->g;
	int64_t at = chakra_us(g->start_ns[op]), end = chakra_end_us(g, op);
	bool named = g->name[op] && g->kind[op] != TAUT_OP_MARK;
	const struct taut_copy_args *copy = g->event[op] == TAUT_NONE ? NULL :
		taut_trace_copy(w->trace, g->event[op]);
	uint32_t first = c->cut_begin[op], last = c->cut_begin[op + 1];

	for (uint32_t i = first; i <= last; i++) {
		int64_t until = i < last ? c->cuts[i].at_us : end;

		if (until < at)
			until = at;
		w->c->node[op] = (uint32_t)begin_node(w,
			named ? op_name(g, op) : "(host)", TYPE_COMP, at,
			until - at);
		if (!named)
			number_attr(w, NODE_ATTR, "pause", ATTR_BOOL, 1);
		else if (i > first || is_rest(g, op))
			number_attr(w, NODE_ATTR, "continues", ATTR_BOOL, 1);
		if (named && kind_of(w, op))
			text_attr(w, NODE_ATTR, "event_kind", kind_of(w, op));
		if (g->kind[op] == TAUT_OP_RETURN && i == first)
			put_call(w, op);
		if (copy && copy->bytes >= 0)
			number_attr(w, NODE_ATTR, "tensor_size", ATTR_UINT64,
				copy->bytes);
		put_message(w);
		at = until;
	}
}

/* --- collectives ---------------------------------------------------------------- */

static int comm_type(enum taut_coll_kind kind)
{
	switch (kind) {
	case TAUT_COLL_ALLREDUCE:
		return 0;
	case TAUT_COLL_REDUCE:
		return 1;
	case TAUT_COLL_ALLGATHER:
		return 2;
	case TAUT_COLL_BROADCAST:
		return 5;
	case TAUT_COLL_ALLTOALL:
	case TAUT_COLL_SENDRECV: /* each member to the others */
		return 6;
	case TAUT_COLL_REDUCESCATTER:
		return 7;
	default: /* all that is known: nobody is done before all have come */
		return 9;
	}
}

/* What the recording says of op's collective: at its event, or around the
 * call that launched it. */
static const struct taut_comm_args *args_of(
	const struct writer *w, uint32_t arrive)
{
	const struct tauti_chakra *c = w->c;
	const struct taut_comm_args *args = NULL;

	if (w->g->event[arrive] != TAUT_NONE)
		args = taut_trace_comm(w->trace, w->g->event[arrive]);
	for (uint32_t i = c->in_begin[arrive];
		!args && i < c->in_begin[arrive + 1]; i++) {
		uint32_t row = w->g->event[c->in_from[i]];

		if (w->g->kind[c->in_from[i]] == TAUT_OP_LAUNCH &&
			row != TAUT_NONE)
			args = tauti_comm_around(w->trace, row);
	}
	return args;
}

/* A transfer of a pair is a send or a receive, where it is told which. */
static unsigned node_type(const struct writer *w,
	const struct taut_collective *coll, const struct taut_comm_args *args)
{
	static const unsigned types[] = { [TAUTI_SIDE_NONE] = TYPE_COLL,
		[TAUTI_SIDE_SEND] = TYPE_SEND, [TAUTI_SIDE_RECV] = TYPE_RECV };

	if (coll->kind != TAUT_COLL_SENDRECV || coll->n_members != 2 || !args)
		return TYPE_COLL;
	return types[tauti_side_of(w->trace, args)];
}

static int32_t peer_of(const struct writer *w,
	const struct taut_collective *coll)
{
	const struct taut_graph *g = w->g;

	for (uint32_t i = 0; i < coll->n_members; i++) {
		uint32_t op = g->member_arrive[coll->first_member + i];
		int32_t rank = g->run->traces[
			g->lanes[g->lane[op]].trace].rank;

		if (rank != w->trace->rank)
			return rank;
	}
	return -1;
}

/* Both ends of a pair must take it for the same. */
static unsigned pair_type(struct writer *w,
	const struct taut_collective *coll, uint32_t arrive)
{
	const struct taut_graph *g = w->g;
	const struct taut_trace *mine = w->trace;
	unsigned own = node_type(w, coll, args_of(w, arrive)), other = own;

	for (uint32_t i = 0; own != TYPE_COLL && i < coll->n_members; i++) {
		uint32_t op = g->member_arrive[coll->first_member + i];

		w->trace = &g->run->traces[g->lanes[g->lane[op]].trace];
		if (w->trace != mine)
			other = node_type(w, coll, args_of(w, op));
		w->trace = mine;
	}
	return own + other == TYPE_SEND + TYPE_RECV ? own : TYPE_COLL;
}

static void put_tensor(struct writer *w, const struct taut_comm_args *args)
{
	char shapes[32], types[128];
	message io = { 0 };

	if (!args || !args->dtype || args->in_elements < 0)
		return;
	snprintf(shapes, sizeof shapes, "[[%lld]]",
		(long long)args->in_elements);
	snprintf(types, sizeof types, "['Tensor(%s)']",
		taut_names_text(w->trace->names, args->dtype));
	put_text(w, &io, IO_VALUES, "[]");
	put_text(w, &io, IO_SHAPES, shapes);
	put_text(w, &io, IO_TYPES, types);
	put_bytes(w, &w->node, NODE_INPUTS, io.data, io.count);
	taut_vec_free(&io);
}

static void put_comm_attrs(struct writer *w, uint32_t index, unsigned type)
{
	const struct taut_collective *coll = &w->g->collectives[index];
	const struct tauti_group_names *groups = &w->c->groups;
	const struct tauti_group_name *group = &groups->all[groups->of[index]];
	int32_t peer = peer_of(w, coll), rank = w->trace->rank;

	if (type == TYPE_COLL)
		number_attr(w, NODE_ATTR, "comm_type", ATTR_INT64,
			comm_type(coll->kind));
	if (coll->bytes >= 0)
		number_attr(w, NODE_ATTR, "comm_size", ATTR_INT64,
			coll->bytes);
	if (type != TYPE_COLL) {
		number_attr(w, NODE_ATTR, "comm_src", ATTR_INT32,
			type == TYPE_SEND ? rank : peer);
		number_attr(w, NODE_ATTR, "comm_dst", ATTR_INT32,
			type == TYPE_SEND ? peer : rank);
		number_attr(w, NODE_ATTR, "comm_tag", ATTR_INT32,
			groups->seq[index]);
	}
	text_attr(w, NODE_ATTR, "pg_name", group->label);
	text_attr(w, NODE_ATTR, "pg_ranks", group->ranks);
	number_attr(w, NODE_ATTR, "pg_size", ATTR_INT64, coll->n_members);
	number_attr(w, NODE_ATTR, "comm_seq", ATTR_INT64, groups->seq[index]);
}

/* Did the transfer wait for the last arrival, as the graph has it? */
static bool has_waited(const struct taut_graph *g, uint32_t transfer)
{
	uint32_t join = g->collectives[g->collective[transfer]].join_op;

	for (uint32_t e = g->edge_begin[join]; e < g->edge_begin[join + 1]; e++)
		if (g->edge_to[e] == transfer)
			return true;
	return false;
}

/* A node begins when the last rank has come. What was recorded began before,
 * when this one was ready, and ended with the node or, if it did not wait,
 * when it was done. */
static void put_recorded(struct writer *w, uint32_t op)
{
	int64_t ready = chakra_us(w->g->start_ns[op - 1]);

	number_attr(w, NODE_ATTR, "ready_us", ATTR_INT64, ready);
	number_attr(w, NODE_ATTR, "took_us", ATTR_INT64,
		chakra_end_us(w->g, op) - ready);
	if (w->g->event[op] != TAUT_NONE &&
		w->trace->kind[w->g->event[op]] == TAUT_KIND_COMM)
		text_attr(w, NODE_ATTR, "event_kind", "comm");
}

static void put_collective(struct writer *w, uint32_t op, int64_t dur_us)
{
	const struct taut_graph *g = w->g;
	uint32_t index = g->collective[op];
	unsigned type = pair_type(w, &g->collectives[index], op - 1);

	w->c->node[op] = (uint32_t)begin_node(w, op_name(g, op), type,
		chakra_us(g->start_ns[op]), dur_us);
	put_tensor(w, args_of(w, op - 1));
	put_comm_attrs(w, index, type);
	put_recorded(w, op);
	put_message(w);
}

/* A rank may be done before the last one comes, as the root of a broadcast.
 * What follows there waits for as long as it took, not for the collective. */
static void put_transfer(struct writer *w, uint32_t op)
{
	const struct taut_graph *g = w->g;
	int64_t start = chakra_us(g->start_ns[op]);
	int64_t dur = chakra_end_us(g, op) - start;

	if (!has_waited(g, op)) {
		put_collective(w, op, 0);
		taut_vec_clear(&w->waits);
		add_wait(w, w->c->node[op - 1]);
		w->c->node[op] = (uint32_t)put_pause(w, start, dur);
	} else {
		put_collective(w, op, dur);
	}
}

/* --- a rank --------------------------------------------------------------------- */

static void put_op(struct writer *w, uint32_t op)
{
	const struct taut_graph *g = w->g;
	const struct taut_graph_lane *lane = &g->lanes[g->lane[op]];

	w->cpu = lane->kind != TAUT_LANE_STREAM;
	w->tid = w->tids[lane->trace_lane];
	taut_vec_clear(&w->waits);
	wait_for_lane(w, op);
	wait_for_others(w, op);
	wait_for_gap(w, op);
	if (g->kind[op] == TAUT_OP_ARRIVE)
		w->c->node[op] = (uint32_t)put_pause(
			w, chakra_us(g->start_ns[op]), 0);
	else if (g->kind[op] == TAUT_OP_TRANSFER)
		put_transfer(w, op);
	else
		put_parts(w, op);
}

static taut_status no_memory(const struct writer *w, struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1,
		"no memory for the Chakra trace of rank %d",
		(int)w->trace->rank);
}

taut_status tauti_chakra_write(struct tauti_chakra *c, uint32_t rank,
	FILE *out, struct taut_error *err)
{
	struct tauti_put *put = malloc(sizeof *put);
	struct writer w = { .c = c, .g = c->g, .put = put, .memory = true,
		.trace = &c->g->run->traces[rank] };
	taut_status status = TAUT_ENOMEM;

	if (!number_lanes(&w) || !put) {
		no_memory(&w, err);
		goto done;
	}
	tauti_put_begin(put, out);
	put_metadata(&w, rank);
	for (uint32_t i = c->rank_begin[rank];
		w.memory && i < c->rank_begin[rank + 1]; i++)
		put_op(&w, c->order[i]);
	status = tauti_put_end(put, err);
	if (!w.memory)
		status = no_memory(&w, err);
	taut_vec_free(&w.node);
	taut_vec_free(&w.part);
	taut_vec_free(&w.waits);
	taut_vec_free(&w.starts);
done:
	free(w.tids);
	free(put);
	return status;
}

taut_status tauti_chakra_write_groups(
	const struct tauti_chakra *c, FILE *out, struct taut_error *err)
{
	struct tauti_put put;

	tauti_put_begin(&put, out);
	tauti_put_char(&put, '{');
	for (uint32_t i = 0; i < c->groups.n; i++) {
		tauti_put_text(&put, i ? ",\n" : "\n");
		tauti_put_string(&put, c->groups.all[i].label);
		tauti_put_text(&put, ": ");
		tauti_put_text(&put, c->groups.all[i].ranks);
	}
	tauti_put_text(&put, "\n}\n");
	return tauti_put_end(&put, err);
}

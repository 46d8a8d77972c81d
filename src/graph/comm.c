/* comm.c - which events are communication, of what kind, and how large. */
#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

/* Device kernels, and events of host threads that move the bytes. Ranges
 * that only enqueue ("nccl:all_reduce", "c10d::allreduce_") are not here. */
static const char *const patterns[] = {
	"*nccl*Kernel*", "ncclKernel*", "*rcclKernel*", "*ncclDevFunc*",
	"*mscclKernel*", "*oneccl*", "*hccl*", "*nvshmem*kernel*",
	"*cross_device_reduce*", "*all_reduce_*kernel*", "*allreduce*kernel*",
	"*all_gather*kernel*", "*reduce_scatter*kernel*", "gloo:*", "mpi:*",
	"ucc:*", NULL
};

const char *const *taut_comm_patterns(void)
{
	return patterns;
}

bool tauti_comm_is(const struct taut_graph_options *options, const char *name)
{
	for (size_t i = 0; patterns[i]; i++)
		if (!fnmatch(patterns[i], name, FNM_CASEFOLD))
			return true;
	for (size_t i = 0; i < options->n_comm_patterns; i++)
		if (!fnmatch(options->comm_patterns[i], name, FNM_CASEFOLD))
			return true;
	return false;
}

static const struct {
	const char *text; /* lower case, letters only */
	enum taut_coll_kind kind;
} coll_words[] = { /* longer words first where one holds another */
	{ "reducescatter", TAUT_COLL_REDUCESCATTER },
	{ "allreduce", TAUT_COLL_ALLREDUCE },
	{ "crossdevicereduce", TAUT_COLL_ALLREDUCE },
	{ "allgather", TAUT_COLL_ALLGATHER },
	{ "alltoall", TAUT_COLL_ALLTOALL },
	{ "broadcast", TAUT_COLL_BROADCAST },
	{ "barrier", TAUT_COLL_BARRIER },
	{ "sendrecv", TAUT_COLL_SENDRECV },
	{ "send", TAUT_COLL_SENDRECV },
	{ "recv", TAUT_COLL_SENDRECV },
	{ "reduce", TAUT_COLL_REDUCE },
	{ "pushpull", TAUT_COLL_PUSHPULL },
	{ "push", TAUT_COLL_PUSH },
	{ "pull", TAUT_COLL_PULL },
};

/* "all_reduce" and "AllReduce" are one word: letters only, lower case. */
enum taut_coll_kind tauti_coll_kind(const char *name)
{
	char word[128];
	size_t n = 0;

	for (; *name && n < sizeof word - 1; name++)
		if (isalpha((unsigned char)*name))
			word[n++] = (char)tolower((unsigned char)*name);
	word[n] = '\0';
	for (size_t i = 0; i < sizeof coll_words / sizeof coll_words[0]; i++)
		if (strstr(word, coll_words[i].text))
			return coll_words[i].kind;
	return TAUT_COLL_OTHER;
}

const char *taut_coll_kind_name(enum taut_coll_kind kind)
{
	static const char *const names[TAUT_COLL_KINDS] = {
		"all-reduce", "all-gather", "reduce-scatter", "broadcast",
		"reduce", "all-to-all", "send/recv", "barrier", "push-pull",
		"push", "pull", "other",
	};
	return (unsigned)kind < TAUT_COLL_KINDS ? names[kind] : "other";
}

int taut_coll_levels(enum taut_coll_kind kind)
{
	return kind == TAUT_COLL_ALLREDUCE || kind == TAUT_COLL_ALLGATHER ||
		kind == TAUT_COLL_REDUCESCATTER || kind == TAUT_COLL_ALLTOALL ||
		kind == TAUT_COLL_BARRIER;
}

int tauti_dtype_bytes(const char *name)
{
	static const struct {
		const char *name;
		int bytes;
	} types[] = {
		{ "double", 8 }, { "longint", 8 }, { "long", 8 },
		{ "int64", 8 }, { "float64", 8 }, { "bfloat16", 2 },
		{ "half", 2 }, { "float16", 2 }, { "short", 2 },
		{ "float8", 1 }, { "float32", 4 }, { "float", 4 },
		{ "int32", 4 }, { "int8", 1 }, { "int", 4 }, { "byte", 1 },
		{ "char", 1 }, { "bool", 1 }, { "unsignedchar", 1 },
	};
	char word[32];
	size_t n = 0;

	if (!strncmp(name, "c10::", 5))
		name += 5;
	for (; *name && n < sizeof word - 1; name++)
		if (isalnum((unsigned char)*name))
			word[n++] = (char)tolower((unsigned char)*name);
	word[n] = '\0';
	if (!strncmp(word, "float8", 6))
		return 1;
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
		if (!strcmp(word, types[i].name))
			return types[i].bytes;
	return 0;
}

/* Host events that carry bytes stand on a thread of the library's own; the
 * same name on the thread that runs the steps only enqueues. */
static bool on_worker(const struct tauti_rank *rank, uint32_t row)
{
	const struct taut_trace *t = rank->trace;

	return t->kind[row] == TAUT_KIND_ANNOTATION ||
		t->kind[row] == TAUT_KIND_OP ?
		t->lane[row] != rank->main_lane : false;
}

static int by_order(const void *a, const void *b)
{
	const struct tauti_comm *x = a, *y = b;

	if (x->order_at != y->order_at)
		return x->order_at < y->order_at ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* Rows of a lane that are communication, and those that are neither that nor
 * inside of one: Gloo copies tensors with operators of the framework. */
static void count_comms(const struct tauti_rank *rank, uint32_t lane,
	uint32_t *ret_comm, uint32_t *ret_other)
{
	const struct taut_trace *t = rank->trace;
	int64_t end = INT64_MIN; /* of the communication before */

	*ret_comm = *ret_other = 0;
	for (uint32_t i = t->lane_begin[lane]; i < t->lane_begin[lane + 1];
		i++)
		if (rank->comm_of[i] != TAUT_NONE) {
			(*ret_comm)++;
			if (tauti_row_end(t, i) > end)
				end = tauti_row_end(t, i);
		} else if (tauti_row_end(t, i) > end) {
			(*ret_other)++;
		}
}

/* A lane of communication alone is treated like a stream. */
static void find_comm_lanes(struct tauti_rank *rank)
{
	const struct taut_trace *t = rank->trace;

	for (uint32_t l = 0; l < t->n_lanes; l++) {
		uint32_t other, comm;

		if (t->lanes[l].kind == TAUT_LANE_OTHER || l == rank->main_lane)
			continue;
		count_comms(rank, l, &comm, &other);
		rank->comm_lane[l] = comm && (!other ||
			(t->lanes[l].kind == TAUT_LANE_THREAD && other < comm));
	}
}

/* Host events of that name among other work of a thread move no bytes, unless
 * the recorder says that they do. */
static void drop_strays(struct tauti_rank *rank)
{
	const struct taut_trace *t = rank->trace;
	size_t kept = 0;

	for (size_t i = 0; i < rank->comms.count; i++) {
		struct tauti_comm *c = &rank->comms.data[i];

		rank->comm_of[c->row] = TAUT_NONE;
		if (t->kind[c->row] == TAUT_KIND_KERNEL ||
			t->kind[c->row] == TAUT_KIND_COMM ||
			rank->comm_lane[t->lane[c->row]]) {
			rank->comm_of[c->row] = (uint32_t)kept;
			rank->comms.data[kept++] = *c;
		}
	}
	rank->comms.count = kept;
}

static uint8_t *classify_names(const struct tauti_rank *rank)
{
	const struct taut_names *names = rank->trace->names;
	uint32_t n = taut_names_count(names);
	uint8_t *is_comm = calloc(n ? n : 1, 1);

	/* the kinds of a table are told, and names tell nothing more */
	for (uint32_t i = 0; is_comm && i < n && !rank->trace->is_table; i++)
		is_comm[i] = tauti_comm_is(
			rank->options, taut_names_text(names, i));
	return is_comm;
}

/* Kernels whose arguments name a collective, whatever they are called. */
static bool is_told(const struct taut_trace *t, uint32_t row)
{
	const struct taut_comm_args *args = t->kind[row] == TAUT_KIND_KERNEL ?
		taut_trace_comm(t, row) : NULL;

	return args && args->collective;
}

/* Where the profiler saw NCCL's kernels, what NCCL's plugin tells of them is
 * no communication of its own: its lanes are named for it. */
static void find_shadows(struct tauti_rank *rank, const uint8_t *is_comm)
{
	const struct taut_trace *t = rank->trace;
	bool kernels = false;

	for (size_t i = 0; i < t->n_events && !kernels; i++)
		kernels = t->kind[i] == TAUT_KIND_KERNEL &&
			(is_comm[t->name[i]] || is_told(t, i));
	for (uint32_t l = 0; l < t->n_lanes && kernels; l++)
		rank->shadow_lane[l] = t->lanes[l].kind == TAUT_LANE_THREAD &&
			!strncmp(taut_names_text(t->names, t->lanes[l].name),
				"NCCL ", 5);
}

/* Is the row communication that takes time of its own? */
static bool is_comm_row(const struct tauti_rank *rank, const uint8_t *is_comm,
	uint32_t row)
{
	const struct taut_trace *t = rank->trace;

	if (t->kind[row] == TAUT_KIND_COMM)
		return !rank->shadow_lane[t->lane[row]];
	if (t->is_table)
		return false; /* its kinds are told */
	return is_told(t, row) || (is_comm[t->name[row]] &&
		(t->kind[row] == TAUT_KIND_KERNEL || on_worker(rank, row)));
}

static bool add_comm(struct tauti_rank *rank, uint32_t row)
{
	const struct taut_trace *t = rank->trace;
	struct tauti_comm c = {
		.row = row, .said_by = TAUT_NONE, .launch = TAUT_NONE,
		.waiter = TAUT_NONE,
		.start = t->start_ns[row], .end = tauti_row_end(t, row),
		.order_at = t->start_ns[row],
		.mark = 0, .bytes = -1, .seq = -1, .group_size = -1,
		.src = -1, .dst = -1, .arrive = TAUT_NONE, .match = TAUT_NONE,
	};

	if (rank->comms.count && t->name[c.row] ==
		t->name[rank->comms.data[rank->comms.count - 1].row])
		c.kind = rank->comms.data[rank->comms.count - 1].kind;
	else
		c.kind = tauti_coll_kind(taut_trace_name(t, row));
	return taut_vec_push(&rank->comms, c);
}

taut_status tauti_comm_find(struct tauti_rank *rank, struct taut_error *err)
{
	const struct taut_trace *t = rank->trace;
	uint8_t *is_comm = classify_names(rank);
	bool ok = is_comm != NULL;

	if (ok)
		find_shadows(rank, is_comm);
	for (uint32_t i = 0; ok && i < t->n_events; i++)
		if (is_comm_row(rank, is_comm, i))
			ok = add_comm(rank, i);
	free(is_comm);
	if (!ok)
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"%s: no memory for collectives", t->path);
	if (rank->comms.count)
		qsort(rank->comms.data, rank->comms.count,
			sizeof *rank->comms.data, by_order);
	for (uint32_t i = 0; i < rank->comms.count; i++)
		rank->comm_of[rank->comms.data[i].row] = i;
	find_comm_lanes(rank);
	drop_strays(rank);
	return TAUT_OK;
}

static const int64_t max_bytes = (int64_t)1 << 50; /* more is a mistake */
static const int64_t max_seq = (int64_t)1 << 50;

/* What the arguments of row `said` tell of a collective. */
static void take_args(const struct taut_trace *t, struct tauti_comm *c,
	uint32_t said)
{
	const struct taut_comm_args *a = taut_trace_comm(t, said);
	int size;

	if (!a)
		return;
	if (c->said_by == TAUT_NONE)
		c->said_by = said;
	size = tauti_dtype_bytes(taut_names_text(t->names, a->dtype));
	if (!c->number_bytes && size > 1) /* bytes are counted of any type */
		c->number_bytes = (uint8_t)size;
	if (c->bytes < 0 && a->in_elements >= 0 && size > 0 &&
		a->in_elements <= max_bytes / size)
		c->bytes = a->in_elements * size;
	if (c->seq < 0 && a->seq <= max_seq)
		c->seq = a->seq;
	if (c->group_size < 0)
		c->group_size = a->group_size;
	if (!c->group)
		c->group = a->group_name;
	if (c->src < 0)
		c->src = a->src_rank;
	if (c->dst < 0)
		c->dst = a->dst_rank;
	if (a->collective) {
		enum taut_coll_kind told = tauti_coll_kind(
			taut_names_text(t->names, a->collective));

		/* an all-to-all runs as a kernel of sends and receives */
		if (told != TAUT_COLL_OTHER)
			c->kind = told;
	}
}

/* Events with communication arguments that are open around a host row: the
 * innermost one speaks for what the row launches. rows of a lane are sorted
 * by start, so one pass with a stack serves a whole lane. */
static bool describe_lane(struct tauti_rank *rank, uint32_t lane,
	const uint32_t *comm_launched_by)
{
	const struct taut_trace *t = rank->trace;
	TAUT_VEC(uint32_t) open = { 0 };
	bool ok = true;

	for (uint32_t i = t->lane_begin[lane];
		ok && i < t->lane_begin[lane + 1]; i++) {
		while (open.count && tauti_row_end(t,
			open.data[open.count - 1]) <= t->start_ns[i])
			open.count--;
		if (t->kind[i] != TAUT_KIND_RUNTIME && taut_trace_comm(t, i))
			ok = taut_vec_push(&open, i);
		/* from the inside out, until size and group are known */
		for (size_t k = open.count; k-- > 0 &&
			comm_launched_by[i] != TAUT_NONE;) {
			struct tauti_comm *c =
				&rank->comms.data[comm_launched_by[i]];
			if (c->said_by == TAUT_NONE || c->bytes < 0 ||
				!c->group)
				take_args(t, c, open.data[k]);
		}
	}
	taut_vec_free(&open);
	return ok;
}

/* Could host call `row`, of its kind, enqueue c? Their sizes must agree. */
static bool enqueues(const struct taut_trace *t, uint32_t row,
	const struct tauti_comm *c)
{
	const struct taut_comm_args *a, *b;

	a = taut_trace_comm(t, row);
	b = taut_trace_comm(t, c->row);
	return !a || !b || a->in_elements < 0 || b->in_elements < 0 ||
		a->in_elements == b->in_elements;
}

static bool add_call(struct tauti_rank *rank, const struct tauti_comm *c)
{
	struct tauti_call call = { c->launch, c->row, TAUT_NONE, INT64_MIN,
		TAUT_NONE, TAUT_NONE };

	rank->call_of[c->launch] = (uint32_t)rank->calls.count;
	rank->launch_of[c->row] = c->launch;
	return taut_vec_push(&rank->calls, call);
}

struct calls { /* of one kind, by time */
	TAUT_VEC(uint32_t) rows; /* TAUT_NONE: taken */
	size_t first;            /* all before are taken */
};

/* The first that enqueues c, of the first thousand that are left. */
static uint32_t take_call(const struct taut_trace *t, struct calls *calls,
	const struct tauti_comm *c)
{
	enum { MAX_LOOK = 1000 };
	uint32_t *rows = calls->rows.data;
	size_t n = calls->rows.count;

	while (calls->first < n && rows[calls->first] == TAUT_NONE)
		calls->first++;
	if (n > calls->first + MAX_LOOK)
		n = calls->first + MAX_LOOK;
	for (size_t k = calls->first; k < n; k++) {
		uint32_t row = rows[k];

		if (row == TAUT_NONE || !enqueues(t, row, c))
			continue;
		if (t->start_ns[row] > c->start)
			break;
		rows[k] = TAUT_NONE;
		return row;
	}
	return TAUT_NONE;
}

/* The library's own threads take calls in their order: each event belongs to
 * the first call of its kind and size that no other event has taken. */
static bool pair_worker_comms(struct tauti_rank *rank)
{
	const struct taut_trace *t = rank->trace;
	struct calls calls[TAUT_COLL_KINDS] = { 0 };
	bool ok = true;

	if (rank->main_lane == TAUT_NONE)
		return true;
	for (uint32_t i = t->lane_begin[rank->main_lane];
		ok && i < t->lane_begin[rank->main_lane + 1]; i++)
		if (t->kind[i] == TAUT_KIND_OP &&
			!strncmp(taut_trace_name(t, i), "c10d::", 6))
			ok = taut_vec_push(&calls[tauti_coll_kind(
				taut_trace_name(t, i))].rows, i);
	for (size_t i = 0; ok && i < rank->comms.count; i++) {
		struct tauti_comm *c = &rank->comms.data[i];

		if (t->kind[c->row] == TAUT_KIND_KERNEL ||
			t->kind[c->row] == TAUT_KIND_COMM)
			continue;
		c->launch = take_call(t, &calls[c->kind], c);
		ok = c->launch == TAUT_NONE || add_call(rank, c);
	}
	for (int k = 0; k < TAUT_COLL_KINDS; k++)
		taut_vec_free(&calls[k].rows);
	return ok;
}

/* Workers may begin two operations in either order: their calls decide. */
static void order_by_call(struct tauti_rank *rank)
{
	const struct taut_trace *t = rank->trace;

	for (size_t i = 0; i < rank->comms.count; i++) {
		struct tauti_comm *c = &rank->comms.data[i];

		c->order_at = c->launch != TAUT_NONE &&
			t->kind[c->row] != TAUT_KIND_KERNEL ?
			t->start_ns[c->launch] : c->start;
	}
	if (rank->comms.count)
		qsort(rank->comms.data, rank->comms.count,
			sizeof *rank->comms.data, by_order);
	for (uint32_t i = 0; i < rank->comms.count; i++)
		rank->comm_of[rank->comms.data[i].row] = i;
}

/* A send tells only where to, a receive only from where. */
static void complete_pair(struct tauti_comm *c, int32_t rank)
{
	if (c->kind != TAUT_COLL_SENDRECV)
		c->src = c->dst = -1;
	else if (c->src >= 0 && c->dst < 0)
		c->dst = rank;
	else if (c->dst >= 0 && c->src < 0)
		c->src = rank;
}

taut_status tauti_comm_describe(struct tauti_rank *rank,
	struct taut_error *err)
{
	const struct taut_trace *t = rank->trace;
	uint32_t *launched = malloc((t->n_events + 1) * sizeof *launched);
	bool ok = launched != NULL;

	for (size_t i = 0; ok && i < t->n_events; i++)
		launched[i] = TAUT_NONE;
	if (ok)
		ok = pair_worker_comms(rank);
	if (ok)
		order_by_call(rank);
	for (size_t i = 0; ok && i < rank->comms.count; i++) {
		struct tauti_comm *c = &rank->comms.data[i];

		if (t->kind[c->row] == TAUT_KIND_KERNEL)
			c->launch = rank->launch_of[c->row];
		if (c->launch != TAUT_NONE)
			launched[c->launch] = (uint32_t)i;
		take_args(t, c, c->row);
	}
	for (uint32_t l = 0; ok && l < t->n_lanes; l++)
		if (t->lanes[l].kind == TAUT_LANE_THREAD)
			ok = describe_lane(rank, l, launched);
	for (size_t i = 0; ok && i < rank->comms.count; i++) {
		struct tauti_comm *c = &rank->comms.data[i];

		c->mark = tauti_mark_at(rank, c->launch == TAUT_NONE ?
			c->start : t->start_ns[c->launch]);
		complete_pair(c, t->rank);
	}
	free(launched);
	return ok ? TAUT_OK : taut_error_set(err, TAUT_ENOMEM, -1,
		"%s: no memory for collectives", t->path);
}

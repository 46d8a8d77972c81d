/* nccl_inspector.c - what NCCL's Inspector plugin writes: one JSON object for
 * each collective or point-to-point operation of a process, of output
 * versions v4.0 to v4.2. Without NCCL_INSPECTOR_DUMP_VERBOSE an object says
 * how long its operation took, and only when it was written. */
#include "trace/builder.h"
#include "trace/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "trace/tree.h"

struct inspector {
	struct tauti_builder *builder;
	struct taut_error *err;
	int64_t largest; /* ranks of the communicator that told the rank */
	uint64_t offset; /* of the operation, about */
	uint64_t untimed;
};

/* coll_perf and p2p_perf differ in the prefix of their keys alone. */
struct op {
	const struct tauti_value *header, *metadata, *perf;
	const char *what, *group;
	bool p2p;
	int64_t start_ns, dur_ns;
	bool timed;
};

static taut_status no_memory(struct inspector *in)
{
	return taut_error_set(in->err, TAUT_ENOMEM, -1, "%s: no memory",
		in->builder->path);
}

static const struct tauti_value *field(const struct op *op, const char *name)
{
	char key[48];
	snprintf(key, sizeof key, "%s_%s", op->p2p ? "p2p" : "coll", name);
	return tauti_tree_get(op->perf, key);
}

/* --- times --------------------------------------------------------------- */

#define IN_2001_US ((int64_t)1000000000000000)
#define LIMIT_US (TAUTI_TIME_LIMIT_NS / 1000)

static bool is_time(int64_t us)
{
	return us > IN_2001_US && us < LIMIT_US;
}

/* From the first channel's kernel to the last one's; clocks of devices, which
 * some builds write instead, are none of the host's and are not used. */
static bool kernel_times(const struct op *op, int64_t *ret_start_us,
	int64_t *ret_stop_us)
{
	const struct tauti_value *kernels = tauti_tree_get(
		tauti_tree_get(op->perf, "event_trace_ts"), "kernel_events");
	int64_t start = INT64_MAX, stop = -1;
	for (uint32_t i = 0; tauti_tree_item(kernels, i); i++) {
		const struct tauti_value *k = tauti_tree_item(kernels, i);
		int64_t a = tauti_tree_int(
			tauti_tree_get(k, "kernel_start_ts"), 0);
		int64_t b = tauti_tree_int(
			tauti_tree_get(k, "kernel_stop_ts"), 0);
		if (!is_time(a) || !is_time(b) || b < a)
			continue;
		start = a < start ? a : start;
		stop = b > stop ? b : stop;
	}
	*ret_start_us = start;
	*ret_stop_us = stop;
	return stop >= 0;
}

static void take_times(struct op *op)
{
	const struct tauti_value *took = field(op, "exec_time_us");
	int64_t start_us, stop_us;
	double us = took ? took->number : 0;
	if (us < 0 || us > 1e12)
		us = 0;
	op->dur_ns = (int64_t)(us * 1000);
	op->timed = kernel_times(op, &start_us, &stop_us);
	if (op->timed) {
		op->start_ns = start_us * 1000;
		op->dur_ns = (stop_us - start_us) * 1000;
		return;
	}
	int64_t dumped = tauti_tree_int(
		tauti_tree_get(op->metadata, "dump_timestamp_us"), 0);
	op->start_ns = is_time(dumped) ? dumped * 1000 - op->dur_ns :
					 INT64_MIN;
}

/* --- one operation ------------------------------------------------------- */

static bool intern(struct inspector *in, const char *text, uint32_t *ret_id)
{
	*ret_id = taut_names_add(in->builder->names, text, strlen(text));
	return *ret_id != TAUT_NONE;
}

/* NCCL counts the operations of a communicator for each function apart, so
 * the function is a part of the group's name. */
static taut_status add_comm(
	struct inspector *in, const struct op *op, struct tauti_row *row)
{
	char group[160];
	struct taut_comm_args args = {
		.in_elements =
			tauti_tree_int(field(op, "msg_size_bytes"), -1),
		.out_elements = -1,
		.seq = tauti_tree_int(field(op, "sn"), -1),
		.comms_id = -1, .local_group = -1, .group_size = -1,
		.src_rank = -1, .dst_rank = -1, .rank_start = -1,
		.rank_stride = -1,
	};
	int64_t size = tauti_tree_int(
		tauti_tree_get(op->header, "n_ranks"), -1);
	if (size > 0 && size <= INT32_MAX)
		args.group_size = (int32_t)size;
	if (op->p2p)
		args.seq = -1; /* counted between two ranks only */
	snprintf(group, sizeof group, "%.60s/%.60s", op->group, op->what);
	row->args = (uint32_t)in->builder->comms.count;
	if (!intern(in, op->what, &args.collective) ||
		!intern(in, group, &args.group_name) ||
		!intern(in, tauti_tree_text(tauti_tree_get(
			op->header, "comm_name")), &args.group_desc) ||
		!intern(in, "Byte", &args.dtype) ||
		!taut_vec_push(&in->builder->comms, args))
		return no_memory(in);
	return TAUT_OK;
}

static taut_status place(
	struct inspector *in, const struct op *op, struct tauti_row *row)
{
	struct tauti_builder *b = in->builder;
	char text[128];
	/* A lane for each communicator: told apart by the texts' ids. */
	snprintf(text, sizeof text, "communicator %.100s", op->group);
	uint32_t name;
	if (!intern(in, text, &name))
		return no_memory(in);
	row->lane = tauti_lanes_add(&b->lanes, TAUTI_ROLE_THREAD,
		tauti_tree_int(tauti_tree_get(op->metadata, "pid"), 0), name);
	if (row->lane == TAUT_NONE)
		return no_memory(in);
	b->lanes.all.data[row->lane].name = name;
	return TAUT_OK;
}

/* A process is known by its rank in its largest communicator. */
static taut_status learn(struct inspector *in, const struct op *op)
{
	struct tauti_builder *b = in->builder;
	const char *host =
		tauti_tree_text(tauti_tree_get(op->metadata, "hostname"));
	int64_t rank = tauti_tree_int(tauti_tree_get(op->header, "rank"), -1);
	int64_t size = tauti_tree_int(
		tauti_tree_get(op->header, "n_ranks"), -1);
	if (size > in->largest && size <= INT32_MAX && rank >= 0 &&
		rank < size) {
		in->largest = size;
		b->rank = (int32_t)rank;
		b->world_size = (int32_t)size;
	}
	if (*b->host || !*host)
		return TAUT_OK;
	b->host = taut_arena_strndup(b->arena, host, strlen(host));
	return b->host ? TAUT_OK : no_memory(in);
}

static taut_status add_op(struct inspector *in, struct op *op)
{
	struct tauti_builder *b = in->builder;
	b->events_seen++;
	take_times(op);
	if (op->start_ns == INT64_MIN) {
		tauti_builder_lose(b, TAUTI_LOST_TIME, in->offset);
		return TAUT_OK;
	}
	struct tauti_row *row = tauti_builder_row(b);
	if (!row)
		return no_memory(in);
	row->kind = TAUT_KIND_COMM;
	row->start_ns = op->start_ns;
	row->dur_ns = op->dur_ns;
	in->untimed += !op->timed;
	if (!op->timed)
		row->flags |= TAUT_EVENT_CUT;
	if (!intern(in, op->what, &row->name))
		return no_memory(in);
	taut_status status = place(in, op, row);
	if (status == TAUT_OK)
		status = add_comm(in, op, row);
	return status == TAUT_OK ? learn(in, op) : status;
}

static taut_status add_value(
	struct inspector *in, const struct tauti_value *value)
{
	struct op op = {
		.header = tauti_tree_get(value, "header"),
		.metadata = tauti_tree_get(value, "metadata"),
		.perf = tauti_tree_get(value, "coll_perf"),
	};
	if (!op.perf) {
		op.perf = tauti_tree_get(value, "p2p_perf");
		op.p2p = true;
	}
	if (!op.perf)
		return TAUT_OK; /* a summary, or a trace of the proxy */
	op.what = tauti_tree_text(
		tauti_tree_get(op.perf, op.p2p ? "p2p" : "coll"));
	op.group = tauti_tree_text(tauti_tree_get(op.header, "id"));
	return add_op(in, &op);
}

/* --- the whole file ------------------------------------------------------ */

static const char *const lost_text[TAUTI_LOST_COUNT] = {
	[TAUTI_LOST_TIME] = "no readable time",
};

static taut_status finish(
	struct inspector *in, const struct tauti_values *values)
{
	struct tauti_builder *b = in->builder;
	bool ok = true;
	if (b->n_rows == b->first_row)
		return taut_error_set(in->err, TAUT_EFORMAT,
			(int64_t)values->offset,
			"%s: NCCL Inspector output without an operation that "
			"could be read", b->path);
	if (values->cut || values->broken) {
		b->truncated = true;
		ok = tauti_builder_note(b, "byte %" PRIu64 ": %s; what stands "
			"behind it is left out", values->offset,
			values->cut ? "the text ends inside an object" :
				      "is no JSON") == TAUT_OK;
	}
	if (ok)
		ok = tauti_builder_note_lost(
			b, "operation", lost_text) == TAUT_OK;
	if (ok && in->untimed)
		ok = tauti_builder_note(b, "NCCL Inspector: %" PRIu64
			" operations say how long they took and not when; "
			"they are placed before the time of their line. "
			"NCCL_INSPECTOR_DUMP_VERBOSE=1 records it",
			in->untimed) == TAUT_OK;
	return ok ? TAUT_OK : no_memory(in);
}

static taut_status read_values(
	struct inspector *in, struct tauti_values *values)
{
	taut_status status = TAUT_OK;
	while (status == TAUT_OK) {
		struct taut_arena *arena = taut_arena_create();
		struct tauti_value *value = NULL;
		if (!arena)
			return no_memory(in);
		status = tauti_values_next(values, arena, &value, in->err);
		bool more = value != NULL;
		if (status == TAUT_OK && more)
			status = add_value(in, value);
		if (more)
			in->offset = values->window.offset +
				values->window.at[values->i];
		taut_arena_destroy(arena);
		if (!more)
			break;
	}
	return status;
}

static taut_status read_inspector(struct tauti_stream *stream,
	struct tauti_builder *builder, struct taut_error *err)
{
	struct inspector in = { .builder = builder, .err = err };
	struct tauti_values values;
	taut_status status = tauti_values_init(
		&values, stream, builder->window_bytes, err);
	if (status == TAUT_OK)
		status = read_values(&in, &values);
	builder->bytes_read = values.window.offset + values.window.span;
	if (status == TAUT_OK)
		status = finish(&in, &values);
	tauti_values_fini(&values);
	return status;
}

static bool probe(const char *head, size_t len)
{
	static const char *const keys[] = { "\"coll_perf\"", "\"p2p_perf\"",
		"\"inspector_output_format_version\"" };
	for (size_t i = 0; i < 3 && len && *head == '{'; i++)
		if (memmem(head, len, keys[i], strlen(keys[i])))
			return true;
	return false;
}

const struct tauti_format tauti_format_nccl_inspector = {
	.name = "nccl-inspector",
	.probe = probe,
	.read = read_inspector,
};

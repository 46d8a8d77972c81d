/* nsight_host.c - what the threads of the host did. */
#include "trace/formats/nsight.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static taut_status place(struct nsight *n, struct nsight_process *p,
	struct tauti_row *row, enum tauti_role role, int64_t global_tid)
{
	row->lane = tauti_lanes_add(&p->builder->lanes, role,
		global_tid >> NSIGHT_TID_BITS & NSIGHT_TID_MASK,
		global_tid & NSIGHT_TID_MASK);
	return row->lane == TAUT_NONE ? nsight_no_memory(n) : TAUT_OK;
}

/* --- calls: a start, an end, a thread and a name ------------------------- */

enum { CALL_START, CALL_END, CALL_TID, CALL_NAME, CALL_CORRELATION };

static const struct calls {
	const char *table;
	enum taut_kind kind;
	enum tauti_role role;
} call_tables[] = {
	{ "CUPTI_ACTIVITY_KIND_RUNTIME", TAUT_KIND_RUNTIME,
		TAUTI_ROLE_THREAD },
	{ "CUDNN_EVENTS", TAUT_KIND_OP, TAUTI_ROLE_THREAD },
	{ "CUBLAS_EVENTS", TAUT_KIND_OP, TAUTI_ROLE_THREAD },
	{ "PROFILER_OVERHEAD", TAUT_KIND_OVERHEAD, TAUTI_ROLE_OVERHEAD },
};

static taut_status add_call(struct nsight *n, const struct nsight_rows *rows,
	const struct calls *calls)
{
	int64_t tid = nsight_number(rows, CALL_TID, 0);
	int64_t correlation = nsight_number(rows, CALL_CORRELATION, 0);
	struct nsight_process *p;
	struct tauti_row *row = NULL;
	taut_status status =
		tauti_nsight_process(n, tid >> NSIGHT_TID_BITS, &p);
	if (status == TAUT_OK && p)
		status = tauti_nsight_row(n, p,
			nsight_number(rows, CALL_START, 0),
			nsight_number(rows, CALL_END, INT64_MIN), &row);
	if (status != TAUT_OK || !row)
		return status;
	row->kind = (uint8_t)calls->kind;
	row->name = tauti_nsight_name_of(
		n, p, nsight_number(rows, CALL_NAME, -1));
	if (row->name == TAUT_NONE)
		return nsight_no_memory(n);
	if (correlation > 0 && correlation < UINT32_MAX)
		row->correlation = (uint32_t)correlation;
	return place(n, p, row, calls->role, tid);
}

static taut_status read_calls(struct nsight *n, const struct calls *calls)
{
	static const char *const columns[] = { "start", "end", "globalTid",
		"nameId", "correlationId" };
	struct nsight_rows rows;
	bool more;
	taut_status status = tauti_nsight_select(
		n, calls->table, columns, 5, CALL_NAME + 1, &rows);
	while (status == TAUT_OK) {
		status = tauti_nsight_next(n, &rows, &more);
		if (status != TAUT_OK || !more)
			break;
		status = add_call(n, &rows, calls);
	}
	tauti_nsight_close(&rows);
	return status;
}

/* --- NVTX ---------------------------------------------------------------- */

enum { START, END, TYPE, TID, TEXT, TEXT_ID, END_TID, JSON, JSON_ID };
enum { PUSH_POP = 59, START_END = 60 };

/* The number behind "key": in a payload written as JSON; -1: none. */
static int64_t payload_number(const char *json, size_t len, const char *key)
{
	const char *at = len ? memmem(json, len, key, strlen(key)) : NULL;
	const char *end = json + len;
	int64_t value = 0;
	if (!at)
		return -1;
	for (at += strlen(key); at < end && strchr("\": ", *at); at++)
		;
	const char *first = at;
	for (; at < end && isdigit((unsigned char)*at); at++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, *at - '0', &value))
			return -1;
	}
	return at > first ? value : -1;
}

static const char *payload(struct nsight *n, const struct nsight_rows *rows,
	size_t *ret_len)
{
	const struct nsight_text *text = nsight_is_null(rows, JSON_ID) ? NULL :
		tauti_nsight_text(n, nsight_number(rows, JSON_ID, -1));
	if (!text)
		return tauti_nsight_cell(rows, JSON, ret_len);
	*ret_len = text->len;
	return text->text;
}

/* The communicator's id is the same on all of its ranks. */
static taut_status take_payload(struct nsight *n, struct nsight_process *p,
	const struct nsight_rows *rows, struct taut_comm_args *args)
{
	char group[32];
	size_t len;
	const char *json = payload(n, rows, &len);
	if (!json)
		return TAUT_OK;
	args->in_elements = payload_number(json, len, "Message size [bytes]");
	if (args->in_elements >= 0)
		args->dtype = taut_names_add(p->builder->names, "Byte", 4);
	int64_t id = payload_number(json, len, "NCCL communicator ID");
	if (id >= 0) {
		snprintf(group, sizeof group, "%llx", (unsigned long long)id);
		args->group_name = taut_names_add(
			p->builder->names, group, strlen(group));
	}
	return args->dtype == TAUT_NONE || args->group_name == TAUT_NONE ?
		nsight_no_memory(n) : TAUT_OK;
}

static taut_status add_comm(struct nsight *n, struct nsight_process *p,
	const struct nsight_rows *rows, struct tauti_row *row,
	const char *collective, size_t len)
{
	struct taut_comm_args args = {
		.in_elements = -1, .out_elements = -1, .seq = -1,
		.comms_id = -1, .local_group = -1, .group_size = -1,
		.src_rank = -1, .dst_rank = -1, .rank_start = -1,
		.rank_stride = -1,
	};
	args.collective = tauti_nsight_name(n, p, collective, len);
	if (args.collective == TAUT_NONE)
		return nsight_no_memory(n);
	taut_status status = take_payload(n, p, rows, &args);
	row->args = (uint32_t)p->builder->comms.count;
	if (status == TAUT_OK && !taut_vec_push(&p->builder->comms, args))
		status = nsight_no_memory(n);
	return status;
}

static bool begins(const char *text, size_t len, const char *with)
{
	return len >= strlen(with) && memcmp(text, with, strlen(with)) == 0;
}

/* Ranges of PyTorch's profiler that are no operators, as Kineto has it. */
static bool is_annotation(const char *text, size_t len)
{
	return begins(text, len, "Optimizer.") ||
		begins(text, len, "enumerate(DataLoader)") ||
		begins(text, len, "ProfilerStep#");
}

static taut_status keep_range(struct nsight *n, struct nsight_process *p,
	const struct tauti_row *row, const char *text, size_t len)
{
	struct nsight_range range = {
		.row = (uint32_t)p->builder->n_rows - 1, .lane = row->lane,
		.start_ns = row->start_ns,
		.end_ns = row->start_ns + row->dur_ns,
	};
	tauti_nsight_step_text(text, len, &range);
	return taut_vec_push(&p->ranges, range) ? TAUT_OK :
						  nsight_no_memory(n);
}

static taut_status describe_range(struct nsight *n, struct nsight_process *p,
	const struct nsight_rows *rows, struct tauti_row *row,
	const char *text, size_t len)
{
	struct nsight_op op;
	size_t name_len = len, at, comm_len;
	bool said = tauti_nsight_is_op(text, len, &op);
	if (said)
		name_len = op.name_len;
	row->kind = said && !is_annotation(text, len) ? TAUT_KIND_OP :
							TAUT_KIND_ANNOTATION;
	if (said && op.sequence >= 0 && op.sequence < UINT32_MAX - 1)
		row->sequence = (uint32_t)op.sequence + 1;
	row->name = tauti_nsight_name(n, p, text, name_len);
	if (row->name == TAUT_NONE)
		return nsight_no_memory(n);
	comm_len = tauti_nsight_collective(text, name_len, &at);
	if (comm_len)
		return add_comm(n, p, rows, row, text + at, comm_len);
	if (row->kind == TAUT_KIND_ANNOTATION && !begins(text, len, "nccl"))
		return keep_range(n, p, row, text, name_len);
	return TAUT_OK;
}

/* Ranges that are pushed and popped nest on their thread. Those that are
 * started and ended may overlap, or end on another thread: beside it. */
static enum tauti_role role_of(const struct nsight_rows *rows)
{
	return nsight_number(rows, TYPE, 0) == PUSH_POP ? TAUTI_ROLE_THREAD :
							  TAUTI_ROLE_OTHER;
}

static taut_status add_range(struct nsight *n, const struct nsight_rows *rows)
{
	int64_t tid = nsight_number(rows, TID, 0), type;
	int64_t start_ns = nsight_number(rows, START, INT64_MIN);
	const struct nsight_text *known;
	struct nsight_process *p;
	struct tauti_row *row = NULL;
	size_t len = 0;
	type = nsight_number(rows, TYPE, 0);
	if (type != PUSH_POP && type != START_END)
		return TAUT_OK;
	taut_status status =
		tauti_nsight_process(n, tid >> NSIGHT_TID_BITS, &p);
	if (status == TAUT_OK && p)
		status = tauti_nsight_row(n, p, start_ns,
			nsight_number(rows, END, start_ns), &row);
	if (status != TAUT_OK || !row)
		return status;
	if (nsight_is_null(rows, END) && !taut_vec_push(&p->open,
		(uint32_t)p->builder->n_rows - 1))
		return nsight_no_memory(n);
	status = place(n, p, row, role_of(rows), tid);
	if (status != TAUT_OK)
		return status;
	const char *text = tauti_nsight_cell(rows, TEXT, &len);
	known = text ? NULL : tauti_nsight_text(
		n, nsight_number(rows, TEXT_ID, -1));
	if (known) {
		text = known->text;
		len = known->len;
	}
	return describe_range(n, p, rows, row, text ? text : "", len);
}

static taut_status read_ranges(struct nsight *n)
{
	static const char *const columns[] = { "start", "end", "eventType",
		"globalTid", "text", "textId", "endGlobalTid", "jsonText",
		"jsonTextId" };
	struct nsight_rows rows;
	bool more;
	taut_status status = tauti_nsight_select(
		n, "NVTX_EVENTS", columns, 9, TID + 1, &rows);
	while (status == TAUT_OK) {
		status = tauti_nsight_next(n, &rows, &more);
		if (status != TAUT_OK || !more)
			break;
		status = add_range(n, &rows);
	}
	tauti_nsight_close(&rows);
	return status;
}

/* --- what can only be said at the end ------------------------------------ */

/* What nobody ended ends with the last event of its thread. */
static taut_status close_open(struct nsight *n, struct nsight_process *p)
{
	struct tauti_builder *b = p->builder;
	if (!p->open.count)
		return TAUT_OK;
	int64_t *last = malloc(b->lanes.all.count * sizeof *last);
	if (!last)
		return nsight_no_memory(n);
	for (size_t i = 0; i < b->lanes.all.count; i++)
		last[i] = INT64_MIN;
	for (uint32_t i = 0; i < b->n_rows; i++) {
		const struct tauti_row *row = tauti_builder_row_at(b, i);
		if (row->start_ns + row->dur_ns > last[row->lane])
			last[row->lane] = row->start_ns + row->dur_ns;
	}
	for (size_t i = 0; i < p->open.count; i++) {
		struct tauti_row *row =
			tauti_builder_row_at(b, p->open.data[i]);
		row->dur_ns = last[row->lane] - row->start_ns;
		row->flags |= TAUT_EVENT_CUT;
	}
	free(last);
	return TAUT_OK;
}

static taut_status name_thread(struct nsight *n, int64_t tid, int64_t name_id,
	struct nsight_process **ret_process, uint32_t *ret_lane)
{
	bool may_add = n->may_add;
	uint64_t strange = n->strange;
	n->may_add = false;
	taut_status status = tauti_nsight_process(
		n, tid >> NSIGHT_TID_BITS, ret_process);
	n->may_add = may_add;
	n->strange = strange; /* a name is no loss */
	struct nsight_process *p = *ret_process;
	if (status != TAUT_OK || !p)
		return status;
	*ret_lane = tauti_lanes_find(&p->builder->lanes, TAUTI_ROLE_THREAD,
		tid >> NSIGHT_TID_BITS & NSIGHT_TID_MASK,
		tid & NSIGHT_TID_MASK);
	if (*ret_lane == TAUT_NONE)
		return TAUT_OK;
	uint32_t name = tauti_nsight_name_of(n, p, name_id);
	if (name == TAUT_NONE)
		return nsight_no_memory(n);
	p->builder->lanes.all.data[*ret_lane].name = name;
	return TAUT_OK;
}

/* Operators on the threads of the autograd engine ran backward. */
static void mark_backward(struct tauti_builder *b)
{
	for (uint32_t i = (uint32_t)b->first_row; i < b->n_rows; i++) {
		struct tauti_row *row = tauti_builder_row_at(b, i);
		const char *thread = taut_names_text(
			b->names, b->lanes.all.data[row->lane].name);
		if (row->kind == TAUT_KIND_OP &&
			strncmp(thread, "pt_autograd", 11) == 0)
			row->flags |= TAUT_EVENT_BACKWARD;
	}
}

static taut_status name_threads(struct nsight *n)
{
	static const char *const columns[] = { "globalTid", "nameId" };
	struct nsight_rows rows;
	bool more;
	taut_status status =
		tauti_nsight_select(n, "ThreadNames", columns, 2, 2, &rows);
	while (status == TAUT_OK) {
		struct nsight_process *p = NULL;
		uint32_t lane;
		status = tauti_nsight_next(n, &rows, &more);
		if (status != TAUT_OK || !more)
			break;
		status = name_thread(n, nsight_number(&rows, 0, 0),
			nsight_number(&rows, 1, -1), &p, &lane);
	}
	tauti_nsight_close(&rows);
	return status;
}

/* Ranges before calls: where both begin at once, the range is outside. */
taut_status tauti_nsight_read_host(struct nsight *n)
{
	taut_status status = read_ranges(n);
	for (size_t i = 0; status == TAUT_OK &&
		i < sizeof call_tables / sizeof *call_tables; i++)
		status = read_calls(n, &call_tables[i]);
	if (status == TAUT_OK)
		status = name_threads(n);
	for (size_t i = 0; status == TAUT_OK && i < n->processes.count; i++) {
		mark_backward(n->processes.data[i].builder);
		status = close_open(n, &n->processes.data[i]);
	}
	return status;
}

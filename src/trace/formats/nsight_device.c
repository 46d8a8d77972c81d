/* nsight_device.c - what ran on the devices, and who waited for whom. */
#include "trace/formats/nsight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The columns that every table of device work begins with here. */
enum { START, END, DEVICE, STREAM, CONTEXT, PROCESS, CORRELATION, OWN };
#define COMMON \
	"start", "end", "deviceId", "streamId", "contextId", "globalPid", \
		"correlationId"

typedef taut_status (*describe_fn)(struct nsight *n,
	struct nsight_process *process, const struct nsight_rows *rows,
	struct tauti_row *row);

static taut_status learn_context(
	struct nsight *n, struct nsight_process *p, int64_t context,
	int64_t device)
{
	struct nsight_context found = { context, device };
	if (p->device < 0)
		p->device = device;
	for (size_t i = p->contexts.count; i-- > 0;)
		if (p->contexts.data[i].context == context)
			return TAUT_OK;
	if (p->contexts.count < 1024 && !taut_vec_push(&p->contexts, found))
		return nsight_no_memory(n);
	return TAUT_OK;
}

static taut_status device_row(struct nsight *n,
	const struct nsight_rows *rows, enum taut_kind kind,
	describe_fn describe)
{
	struct nsight_process *p;
	struct tauti_row *row = NULL;
	int64_t device = nsight_number(rows, DEVICE, 0);
	int64_t correlation = nsight_number(rows, CORRELATION, 0);
	taut_status status;
	if (nsight_is_null(rows, START) || !nsight_number(rows, END, 1)) {
		n->empty++; /* as SQLite reads what is cut off a page */
		return TAUT_OK;
	}
	status = tauti_nsight_process(n,
		nsight_number(rows, PROCESS, 0) >> NSIGHT_TID_BITS, &p);
	if (status == TAUT_OK && p)
		status = tauti_nsight_row(n, p, nsight_number(rows, START, 0),
			nsight_number(rows, END, INT64_MIN), &row);
	if (status != TAUT_OK || !row)
		return status;
	row->kind = (uint8_t)kind;
	row->lane = tauti_lanes_add(&p->builder->lanes, TAUTI_ROLE_STREAM,
		device, nsight_number(rows, STREAM, 0));
	if (correlation > 0 && correlation < UINT32_MAX)
		row->correlation = (uint32_t)correlation;
	if (row->lane == TAUT_NONE)
		return nsight_no_memory(n);
	status = learn_context(
		n, p, nsight_number(rows, CONTEXT, -1), device);
	return status == TAUT_OK ? describe(n, p, rows, row) : status;
}

static taut_status read_table(struct nsight *n, const char *table,
	const char *const *columns, unsigned n_columns, enum taut_kind kind,
	describe_fn describe)
{
	struct nsight_rows rows;
	bool more;
	taut_status status = tauti_nsight_select(
		n, table, columns, n_columns, END + 1, &rows);
	while (status == TAUT_OK) {
		status = tauti_nsight_next(n, &rows, &more);
		if (status != TAUT_OK || !more)
			break;
		status = device_row(n, &rows, kind, describe);
	}
	tauti_nsight_close(&rows);
	return status;
}

static taut_status give_name(struct nsight *n, struct nsight_process *p,
	struct tauti_row *row, const char *text)
{
	row->name = taut_names_add(p->builder->names, text, strlen(text));
	return row->name == TAUT_NONE ? nsight_no_memory(n) : TAUT_OK;
}

/* --- kernels ------------------------------------------------------------- */

static const char *const kernel_columns[] = { COMMON, "demangledName",
	"shortName", "mangledName" };

static taut_status describe_kernel(struct nsight *n, struct nsight_process *p,
	const struct nsight_rows *rows, struct tauti_row *row)
{
	for (int i = OWN; i < OWN + 3 && !row->name; i++)
		if (!nsight_is_null(rows, i))
			row->name = tauti_nsight_name_of(
				n, p, nsight_number(rows, i, 0));
	if (row->name == TAUT_NONE)
		return nsight_no_memory(n);
	return row->name ? TAUT_OK : give_name(n, p, row, "kernel");
}

/* A CUDA graph that was traced as a whole is one item of its stream. */
static const char *const graph_columns[] = { COMMON, "graphId" };

static taut_status describe_graph(struct nsight *n, struct nsight_process *p,
	const struct nsight_rows *rows, struct tauti_row *row)
{
	char text[64];
	snprintf(text, sizeof text, "CUDA graph %lld",
		(long long)nsight_number(rows, OWN, -1));
	return give_name(n, p, row, text);
}

/* --- copies and fills ---------------------------------------------------- */

static const char *const copy_columns[] = { COMMON, "bytes", "copyKind",
	"srcKind", "dstKind" };

static taut_status keep_bytes(struct nsight *n, struct nsight_process *p,
	const struct nsight_rows *rows, struct tauti_row *row)
{
	struct taut_copy_args args = { .bytes = nsight_number(rows, OWN, -1) };
	if (args.bytes < 0)
		return TAUT_OK;
	row->args = (uint32_t)p->builder->copies.count;
	return taut_vec_push(&p->builder->copies, args) ? TAUT_OK :
							  nsight_no_memory(n);
}

static const char *text_of(
	const char *const *texts, size_t count, int64_t i, const char *other)
{
	return i >= 0 && (uint64_t)i < count && texts[i] ? texts[i] : other;
}

/* Named as Kineto names them: the graph asks for "Pageable". */
static taut_status describe_copy(struct nsight *n, struct nsight_process *p,
	const struct nsight_rows *rows, struct tauti_row *row)
{
	static const char *const kinds[] = { NULL, "HtoD", "DtoH", "HtoA",
		"AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP" };
	static const char *const places[] = { "Pageable", "Pinned", "Device",
		"Array", "Managed", "Device Static", "Managed Static" };
	char text[96];
	const char *kind = text_of(kinds, sizeof kinds / sizeof *kinds,
		nsight_number(rows, OWN + 1, -1), "other");
	int len = snprintf(text, sizeof text, "Memcpy %s", kind);
	if (!nsight_is_null(rows, OWN + 2) && !nsight_is_null(rows, OWN + 3))
		snprintf(text + len, sizeof text - (size_t)len, " (%s -> %s)",
			text_of(places, sizeof places / sizeof *places,
				nsight_number(rows, OWN + 2, -1), "Unknown"),
			text_of(places, sizeof places / sizeof *places,
				nsight_number(rows, OWN + 3, -1), "Unknown"));
	taut_status status = give_name(n, p, row, text);
	return status == TAUT_OK ? keep_bytes(n, p, rows, row) : status;
}

static const char *const fill_columns[] = { COMMON, "bytes" };

static taut_status describe_fill(struct nsight *n, struct nsight_process *p,
	const struct nsight_rows *rows, struct tauti_row *row)
{
	taut_status status = give_name(n, p, row, "Memset (Device)");
	return status == TAUT_OK ? keep_bytes(n, p, rows, row) : status;
}

#define COUNT(array) (unsigned)(sizeof(array) / sizeof *(array))

/* Kernels first: the processes that ran one are the ranks. */
taut_status tauti_nsight_read_device(struct nsight *n)
{
	static const char kernels[] = "CUPTI_ACTIVITY_KIND_KERNEL";
	n->one_process = tauti_nsight_has(n, kernels) &&
		!tauti_nsight_has_column(n, kernels, "globalPid");
	n->may_add = true;
	taut_status status = read_table(n, kernels, kernel_columns,
		COUNT(kernel_columns), TAUT_KIND_KERNEL, describe_kernel);
	if (status == TAUT_OK)
		status = read_table(n, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
			graph_columns, COUNT(graph_columns), TAUT_KIND_KERNEL,
			describe_graph);
	n->may_add = n->processes.count == 0;
	if (status == TAUT_OK)
		status = read_table(n, "CUPTI_ACTIVITY_KIND_MEMCPY",
			copy_columns, COUNT(copy_columns), TAUT_KIND_MEMCPY,
			describe_copy);
	if (status == TAUT_OK)
		status = read_table(n, "CUPTI_ACTIVITY_KIND_MEMSET",
			fill_columns, COUNT(fill_columns), TAUT_KIND_MEMSET,
			describe_fill);
	n->may_add = n->processes.count == 0;
	return status;
}

/* --- events: where they were recorded ------------------------------------ */

static const char *event_key(struct nsight *n, const char *table)
{
	return tauti_nsight_has_column(n, table, "eventSyncId") ?
		"eventSyncId" : "eventId";
}

static int by_key(const void *a, const void *b)
{
	const struct nsight_record *x = a, *y = b;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->correlation < y->correlation ? -1 :
		x->correlation > y->correlation;
}

static taut_status read_records(struct nsight *n)
{
	static const char table[] = "CUPTI_ACTIVITY_KIND_CUDA_EVENT";
	const char *const columns[] = { event_key(n, table), "streamId",
		"correlationId", "globalPid" };
	struct nsight_rows rows;
	bool more;
	taut_status status =
		tauti_nsight_select(n, table, columns, 4, 3, &rows);
	while (status == TAUT_OK) {
		struct nsight_process *p = NULL;
		status = tauti_nsight_next(n, &rows, &more);
		if (status != TAUT_OK || !more)
			break;
		struct nsight_record record = { nsight_number(&rows, 0, -1),
			nsight_number(&rows, 1, -1),
			nsight_number(&rows, 2, -1) };
		status = tauti_nsight_process(n,
			nsight_number(&rows, 3, 0) >> NSIGHT_TID_BITS, &p);
		if (status == TAUT_OK && p &&
			!taut_vec_push(&p->records, record))
			status = nsight_no_memory(n);
	}
	tauti_nsight_close(&rows);
	for (size_t i = 0; i < n->processes.count; i++)
		if (n->processes.data[i].records.count)
			qsort(n->processes.data[i].records.data,
				n->processes.data[i].records.count,
				sizeof(struct nsight_record), by_key);
	return status;
}

/* The last record of the event before the call that waits for it. */
static const struct nsight_record *find_record(
	const struct nsight_process *p, int64_t key, int64_t correlation)
{
	size_t lo = 0, hi = p->records.count;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct nsight_record *r = &p->records.data[mid];
		if (r->key < key ||
			(r->key == key && r->correlation <= correlation))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && p->records.data[lo - 1].key == key ?
		&p->records.data[lo - 1] : NULL;
}

/* --- synchronisation ----------------------------------------------------- */

enum { SYNC_TYPE = OWN, OLD_TYPE, EVENT_ID, EVENT_KEY };

static const struct {
	const char *name;
	enum taut_sync_kind kind;
} sync_types[] = {
	{ NULL, TAUT_SYNC_CONTEXT },
	{ "Event Sync", TAUT_SYNC_EVENT },
	{ "Stream Wait Event", TAUT_SYNC_STREAM_WAIT },
	{ "Stream Sync", TAUT_SYNC_STREAM },
	{ "Context Sync", TAUT_SYNC_CONTEXT },
};

/* 4294967295 is none. */
static int64_t stream_of(int64_t stream)
{
	return stream == UINT32_MAX ? -1 : stream;
}

/* Rows of synchronisation name device 0 whatever the device: the context
 * tells it, where it was seen with device work. */
static int64_t device_of(const struct nsight_process *p, int64_t context,
	int64_t otherwise)
{
	for (size_t i = 0; i < p->contexts.count; i++)
		if (p->contexts.data[i].context == context)
			return p->contexts.data[i].device;
	return otherwise;
}

static struct taut_sync_args sync_args(const struct nsight_process *p,
	const struct nsight_rows *rows, enum taut_sync_kind kind)
{
	struct taut_sync_args args = {
		.kind = kind,
		.stream = stream_of(nsight_number(rows, STREAM, -1)),
		.wait_stream = -1,
		.wait_correlation = -1,
		.event_id = stream_of(nsight_number(rows, EVENT_ID, -1)),
	};
	const struct nsight_record *record = NULL;
	if (kind == TAUT_SYNC_EVENT || kind == TAUT_SYNC_STREAM_WAIT)
		record = find_record(p, nsight_number(rows, EVENT_KEY, -1),
			nsight_number(rows, CORRELATION, -1));
	if (record) {
		args.wait_stream = stream_of(record->stream);
		args.wait_correlation = record->correlation;
	}
	return args;
}

static taut_status add_sync(struct nsight *n, struct nsight_process *p,
	const struct nsight_rows *rows, int64_t type)
{
	struct taut_sync_args args = sync_args(p, rows, sync_types[type].kind);
	int64_t correlation = nsight_number(rows, CORRELATION, 0);
	struct tauti_row *row;
	taut_status status = tauti_nsight_row(n, p,
		nsight_number(rows, START, 0), nsight_number(rows, END, 0),
		&row);
	if (status != TAUT_OK || !row)
		return status;
	row->kind = TAUT_KIND_SYNC;
	row->args = (uint32_t)p->builder->syncs.count;
	row->lane = tauti_lanes_add(&p->builder->lanes, TAUTI_ROLE_SYNC,
		device_of(p, nsight_number(rows, CONTEXT, -1),
			nsight_number(rows, DEVICE, 0)), args.stream);
	if (correlation > 0 && correlation < UINT32_MAX)
		row->correlation = (uint32_t)correlation;
	if (row->lane == TAUT_NONE || !taut_vec_push(&p->builder->syncs, args))
		return nsight_no_memory(n);
	return give_name(n, p, row, sync_types[type].name);
}

taut_status tauti_nsight_read_syncs(struct nsight *n)
{
	static const char table[] = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
	const char *const columns[] = { COMMON, "syncType",
		"deprecatedSyncType", "eventId", event_key(n, table) };
	struct nsight_rows rows;
	bool more;
	taut_status status = read_records(n);
	if (status == TAUT_OK)
		status = tauti_nsight_select(
			n, table, columns, COUNT(columns), END + 1, &rows);
	else
		return status;
	while (status == TAUT_OK) {
		struct nsight_process *p = NULL;
		status = tauti_nsight_next(n, &rows, &more);
		if (status != TAUT_OK || !more)
			break;
		int64_t type = nsight_number(&rows, SYNC_TYPE,
			nsight_number(&rows, OLD_TYPE, 0));
		if (type < 1 || type >= (int64_t)COUNT(sync_types))
			continue;
		status = tauti_nsight_process(n,
			nsight_number(&rows, PROCESS, 0) >> NSIGHT_TID_BITS,
			&p);
		if (status == TAUT_OK && p)
			status = add_sync(n, p, &rows, type);
	}
	tauti_nsight_close(&rows);
	return status;
}

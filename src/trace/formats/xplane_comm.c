/* xplane_comm.c - what processes send each other.
 *
 * A collective is one event on a thread of the executor, numbered alike on
 * all ranks (instance_key). A tensor that crosses to another process is an
 * event _Send there and, here, the start and the end of an operation _Recv,
 * which wait on no thread. Both know the edge of the graph that they are and
 * the run of it (step_id), so that the ranks' halves match. */
#include "trace/formats/xplane.h"

#include <stdio.h>
#include <stdlib.h>

#include "trace/beside.h"
#include "trace/text.h"

enum { BESIDE_PID = 1, FIRST_OF_SUMS = 1000 }; /* of lanes beside the threads */

static struct tauti_row *row_at(struct xplane *x, uint32_t i)
{
	return tauti_builder_row_at(x->builder, i);
}

static struct tauti_text text_of(const struct xplane *x, uint32_t name)
{
	return (struct tauti_text){ taut_names_text(x->builder->names, name),
		(uint32_t)taut_names_length(x->builder->names, name) };
}

static uint32_t add_name(struct xplane *x, struct tauti_text text)
{
	return tauti_text_name(x->builder->names, text.at, text.len);
}

static struct taut_comm_args unknown(void)
{
	return (struct taut_comm_args){ .in_elements = -1,
		.out_elements = -1, .seq = -1, .comms_id = -1,
		.local_group = -1, .group_size = -1, .src_rank = -1,
		.dst_rank = -1, .rank_start = -1, .rank_stride = -1 };
}

/* --- while events are read ------------------------------------------------ */

static bool take_key(struct xplane *x, struct xplane_comm *comm,
	struct tauti_text key)
{
	struct tauti_text from = tauti_tf_task(tauti_tf_key_part(key, 0));
	struct tauti_text to = tauti_tf_task(tauti_tf_key_part(key, 2));
	comm->to = add_name(x, to);
	if (!x->own_task)
		x->own_task = add_name(x, from);
	return comm->to != TAUT_NONE && x->own_task != TAUT_NONE;
}

bool tauti_xplane_add_comm(struct xplane *x, struct tauti_row *row,
	const struct xplane_meta *meta, const struct xplane_stats *stats)
{
	struct taut_comm_args args = unknown();
	struct xplane_comm comm = { .row = (uint32_t)x->builder->n_rows,
		.op = meta->op, .group_key = -1, .step_id = -1 };
	row->kind = TAUT_KIND_OP;
	if (meta->class == TF_SEND) {
		struct tauti_text key = stats->text[XSTAT_KEY];
		if (!key.at)
			return true; /* of an older build: no word of where */
		comm.edge = true;
		comm.op = add_name(x, tauti_tf_edge(text_of(x, meta->op)));
		if (comm.op == TAUT_NONE || !take_key(x, &comm, key))
			return false;
		if (row->start_ns < x->run_end_ns)
			comm.step_id = x->run_id;
	} else {
		args.collective = taut_names_add(x->builder->names,
			meta->collective, strlen(meta->collective));
		if (stats->number[XSTAT_INSTANCE_KEY] >= 0 &&
			xplane_has(stats, XSTAT_INSTANCE_KEY))
			args.seq = stats->number[XSTAT_INSTANCE_KEY];
		if (xplane_has(stats, XSTAT_GROUP_KEY))
			comm.group_key = stats->number[XSTAT_GROUP_KEY];
	}
	if (xplane_has(stats, XSTAT_STEP_ID))
		comm.step_id = stats->number[XSTAT_STEP_ID];
	row->args = (uint32_t)x->builder->comms.count;
	return args.collective != TAUT_NONE &&
	       taut_vec_push(&x->builder->comms, args) &&
	       taut_vec_push(&x->comms, comm);
}

bool tauti_xplane_add_half(struct xplane *x, const struct tauti_row *row,
	bool done, const struct xplane_stats *stats)
{
	enum xplane_stat link = done ? XSTAT_CONSUMER : XSTAT_PRODUCER;
	struct xplane_half half = {
		.context = stats->number[link],
		.at_ns = row->start_ns,
		.step_id = stats->number[XSTAT_STEP_ID],
		.done = done,
	};
	if (!xplane_has(stats, link) || !xplane_has(stats, XSTAT_STEP_ID) ||
		!stats->text[XSTAT_NAME].at)
		return true;
	half.edge = add_name(x, tauti_tf_edge(stats->text[XSTAT_NAME]));
	return half.edge != TAUT_NONE && taut_vec_push(&x->halves, half);
}

/* --- receives ------------------------------------------------------------- */

static int by_context(const void *a, const void *b)
{
	const struct xplane_half *x = a, *y = b;
	if (x->context != y->context)
		return x->context < y->context ? -1 : 1;
	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	if (x->done != y->done)
		return x->done - y->done;
	return x->edge < y->edge ? -1 : x->edge > y->edge;
}

static int by_run(const void *a, const void *b)
{
	const struct xplane_comm *x = a, *y = b;
	if (x->op != y->op)
		return x->op < y->op ? -1 : 1;
	return x->step_id < y->step_id ? -1 : x->step_id > y->step_id;
}

/* Did this process itself send what it received? The first n comms are the
 * sends of such tensors, by run. */
static bool is_local(const struct xplane *x, size_t n,
	const struct xplane_half *half)
{
	struct xplane_comm key = { .op = half->edge,
		.step_id = half->step_id };
	return n && bsearch(&key, x->comms.data, n, sizeof key, by_run);
}

static bool add_receive(struct xplane *x, const struct xplane_half *start,
	int64_t end_ns)
{
	struct tauti_builder *b = x->builder;
	struct xplane_comm comm = { .row = (uint32_t)b->n_rows,
		.op = start->edge, .edge = true, .to = x->own_task,
		.group_key = -1,
		.step_id = start->step_id };
	struct taut_comm_args args = unknown();
	struct tauti_row *row = tauti_builder_row(b);
	const char *edge = taut_names_text(b->names, start->edge);
	const char *name = taut_arena_printf(b->arena, "%s:_Recv", edge);
	if (!row || !name)
		return false;
	row->name = taut_names_add(b->names, name, strlen(name));
	row->start_ns = start->at_ns;
	row->dur_ns = end_ns - start->at_ns;
	row->kind = TAUT_KIND_COMM;
	row->args = (uint32_t)b->comms.count;
	args.collective = taut_names_add(b->names, "recv", 4);
	return row->name != TAUT_NONE && args.collective != TAUT_NONE &&
	       taut_vec_push(&b->comms, args) &&
	       taut_vec_push(&x->comms, comm);
}

/* Moves the sends to this process itself to the front, by run. */
static size_t sort_local(struct xplane *x)
{
	size_t n = 0;
	for (size_t i = 0; i < x->comms.count; i++) {
		struct xplane_comm comm = x->comms.data[i];
		if (!comm.edge || comm.to != x->own_task)
			continue;
		x->comms.data[i] = x->comms.data[n];
		x->comms.data[n++] = comm;
	}
	if (n)
		qsort(x->comms.data, n, sizeof *x->comms.data, by_run);
	return n;
}

static bool add_receives(struct xplane *x, size_t n_local)
{
	struct xplane_half *h = x->halves.data;
	if (x->halves.count)
		qsort(h, x->halves.count, sizeof *h, by_context);
	for (size_t i = 0; i + 1 < x->halves.count; i++)
		if (!h[i].done && h[i + 1].done &&
			h[i].context == h[i + 1].context &&
			h[i].step_id == h[i + 1].step_id &&
			h[i].edge == h[i + 1].edge &&
			!is_local(x, n_local, &h[i]) &&
			!add_receive(x, &h[i], h[i + 1].at_ns))
			return false;
	return true;
}

/* --- what is told of each ------------------------------------------------- */

static struct taut_comm_args *args_of(
	struct xplane *x, const struct xplane_comm *comm)
{
	return &x->builder->comms.data[row_at(x, comm->row)->args];
}

/* What is told of an operation again comes behind what was. */
static int by_shape(const void *a, const void *b)
{
	const struct xplane_shape *x = a, *y = b;
	if (x->op != y->op)
		return x->op < y->op ? -1 : 1;
	return x->told < y->told ? -1 : x->told > y->told;
}

/* What was told last of the operation, of shapes in order; NULL: nothing. */
static const struct xplane_shape *shape_of(const struct xplane *x, uint32_t op)
{
	struct xplane_shape key = { .op = op, .told = SIZE_MAX };
	size_t lo = 0, hi = x->shapes.count;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (by_shape(&x->shapes.data[mid], &key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && x->shapes.data[lo - 1].op == op ?
		&x->shapes.data[lo - 1] : NULL;
}

static bool name_collective(struct xplane *x, const struct xplane_comm *comm)
{
	struct taut_comm_args *args = args_of(x, comm);
	const struct xplane_shape *shape = shape_of(x, comm->op);
	char group[48];
	int n = snprintf(group, sizeof group, "group %lld",
		(long long)comm->group_key);
	for (size_t i = 0; i < x->params.count; i++)
		if (x->params.data[i].group_key == comm->group_key &&
			x->params.data[i].group_size > 0 &&
			x->params.data[i].group_size < 1000000)
			args->group_size =
				(int32_t)x->params.data[i].group_size;
	if (shape) {
		args->dtype = shape->dtype;
		args->in_elements = args->out_elements = shape->elements;
	}
	if (comm->group_key >= 0)
		args->group_name = taut_names_add(
			x->builder->names, group, (size_t)n);
	return args->group_name != TAUT_NONE;
}

/* Both ends of an edge are a group of two. */
static bool name_edge(struct xplane *x, const struct xplane_comm *comm)
{
	struct tauti_builder *b = x->builder;
	struct taut_comm_args *args = args_of(x, comm);
	const char *name = taut_arena_printf(b->arena, "%s > %s",
		taut_names_text(b->names, comm->op),
		taut_names_text(b->names, comm->to));
	if (!name)
		return false;
	args->group_name = taut_names_add(b->names, name, strlen(name));
	args->group_size = 2;
	if (!args->collective)
		args->collective = taut_names_add(b->names, "send", 4);
	/* Random, and so of any size: what is left of it tells runs apart. */
	if (comm->step_id != -1)
		args->seq = comm->step_id & (((int64_t)1 << 48) - 1);
	return args->group_name != TAUT_NONE && args->collective != TAUT_NONE;
}

/* A coordinator takes results in a way that its profiler does not show. */
static bool is_to_chief(const struct xplane *x, const struct xplane_comm *comm)
{
	struct tauti_text to = text_of(x, comm->to);
	return tauti_tf_starts(to, "/job:chief/") ||
	       tauti_tf_starts(to, "/job:master/");
}

static bool settle_comm(struct xplane *x, const struct xplane_comm *comm)
{
	struct tauti_row *row = row_at(x, comm->row);
	if (!comm->edge) {
		/* Where a device moves the bytes, this only enqueues. */
		if (!x->device_comm)
			row->kind = TAUT_KIND_COMM;
		return name_collective(x, comm);
	}
	if (row->kind != TAUT_KIND_COMM &&
		(comm->to == x->own_task || is_to_chief(x, comm)))
		return true;
	row->kind = TAUT_KIND_COMM;
	return name_edge(x, comm);
}

/* --- lanes ---------------------------------------------------------------- */

/* Edges and what stands on no thread run beside the threads. */
static bool place_all(struct xplane *x, uint32_t main_lane)
{
	size_t n = 0;
	struct tauti_beside *list = malloc((x->comms.count + 1) * sizeof *list);
	bool ok = list != NULL;
	for (size_t i = 0; ok && i < x->comms.count; i++) {
		const struct tauti_row *row =
			row_at(x, x->comms.data[i].row);
		if (row->kind == TAUT_KIND_COMM && (row->lane != main_lane ||
				x->comms.data[i].edge))
			list[n++].row = x->comms.data[i].row;
	}
	if (ok)
		ok = tauti_beside(x->builder, list, n, (struct tauti_beside_lanes){
			"communication", BESIDE_PID, 0 });
	free(list);
	return ok;
}

bool tauti_xplane_settle_comms(struct xplane *x, uint32_t main_lane)
{
	size_t n_local = sort_local(x);
	if (!add_receives(x, n_local))
		return false;
	if (x->shapes.count)
		qsort(x->shapes.data, x->shapes.count, sizeof *x->shapes.data,
			by_shape);
	for (size_t i = 0; i < x->comms.count; i++)
		if (!settle_comm(x, &x->comms.data[i]))
			return false;
	return place_all(x, main_lane) && tauti_sums_settle(
		&x->sums, x->builder, BESIDE_PID, FIRST_OF_SUMS);
}

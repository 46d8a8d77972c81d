/* xplane_event.c - one event of a line. */
#include "trace/formats/xplane.h"

#include "trace/text.h"

struct event {
	int64_t meta_id, offset_ps, dur_ps;
	bool placed; /* in time; else it is a sum of several */
	struct xplane_stats stats;
};

/* Lanes that no thread has: communication gets its own (xplane_comm.c). */
enum { HOST_PID = 0 };

bool tauti_xplane_begin_line(struct xplane *x)
{
	const struct xplane_plane *plane = x->plane;
	struct tauti_lanes *lanes = &x->builder->lanes;
	const struct taut_names *names = x->builder->names;
	uint32_t name = x->line.display ? x->line.display : x->line.name;
	struct tauti_text text = { taut_names_text(names, x->line.name),
		(uint32_t)taut_names_length(names, x->line.name) };
	int64_t stream = tauti_tf_stream(text);
	int64_t pid = HOST_PID, tid = x->line.id;
	x->lane_role = TAUTI_ROLE_THREAD;
	x->run_end_ns = INT64_MIN;
	if (plane->role == XPLANE_DEVICE) {
		bool items = stream >= 0 ||
			(!plane->streams && tauti_tf_is(text, "XLA Ops"));
		x->lane_role = items ? TAUTI_ROLE_STREAM : TAUTI_ROLE_RANGE;
		pid = plane->device;
		if (stream >= 0)
			tid = stream;
	}
	x->lane = tauti_lanes_add(lanes, x->lane_role, pid, tid);
	if (x->lane == TAUT_NONE)
		return false;
	if (name)
		lanes->all.data[x->lane].name = name;
	return true;
}

/* --- the fields ----------------------------------------------------------- */

static bool read_fields(struct xplane *x, const struct tauti_field *field,
	struct event *e)
{
	struct tauti_wire w = tauti_wire_in(field);
	struct tauti_field f;
	e->placed = true;
	while (tauti_wire_next(&w, &f)) {
		bool number = f.type == TAUTI_WIRE_VARINT;
		if (f.number == 1 && number)
			e->meta_id = (int64_t)f.value;
		else if (f.number == 2 && number)
			e->offset_ps = (int64_t)f.value;
		else if (f.number == 3 && number)
			e->dur_ps = (int64_t)f.value;
		else if (f.number == 5 && number)
			e->placed = false;
		else if (f.number == 4 && f.type == TAUTI_WIRE_BYTES &&
			!tauti_xplane_stat(x, x->plane, &f, &e->stats))
			return false;
	}
	return !w.broken;
}

static int64_t floor_ns(int64_t ps)
{
	return ps / 1000 - (ps % 1000 < 0);
}

/* Both ends are rounded alike, so that what is serial stays so. */
static bool read_times(
	const struct xplane *x, const struct event *e, struct tauti_row *row)
{
	const int64_t limit = TAUTI_TIME_LIMIT_NS;
	int64_t line = x->line.timestamp_ns;
	if (e->dur_ps < 0 || e->offset_ps > INT64_MAX - e->dur_ps ||
		line > limit || line < -limit)
		return false;
	int64_t start = floor_ns(e->offset_ps);
	int64_t end = floor_ns(e->offset_ps + e->dur_ps);
	row->start_ns = line + start;
	row->dur_ns = end - start;
	return row->start_ns <= limit && row->start_ns >= -limit &&
	       row->dur_ns <= limit / 2;
}

static struct tauti_row *keep(struct xplane *x, const struct tauti_row *row)
{
	struct tauti_row *kept = tauti_builder_row(x->builder);
	if (kept)
		*kept = *row;
	return kept;
}

/* --- host ----------------------------------------------------------------- */

static bool see_group(struct xplane *x, const struct tauti_row *row,
	const struct xplane_stats *stats)
{
	enum { MOST = 4096 };
	int64_t id = stats->number[XSTAT_GROUP_ID];
	int64_t end = row->start_ns + row->dur_ns;
	if (!xplane_has(stats, XSTAT_GROUP_ID) || x->groups.count >= MOST)
		return true;
	for (size_t i = x->groups.count; i-- > 0;) {
		struct xplane_group *g = &x->groups.data[i];
		if (g->id != id)
			continue;
		if (row->start_ns < g->start_ns)
			g->start_ns = row->start_ns;
		if (end > g->end_ns)
			g->end_ns = end;
		return true;
	}
	struct xplane_group group = { id, row->start_ns, end };
	return taut_vec_push(&x->groups, group);
}

static bool keep_step(struct xplane *x, const struct tauti_row *row,
	const struct xplane_stats *stats)
{
	struct xplane_step step = { (uint32_t)x->builder->n_rows,
		xplane_has(stats, XSTAT_TAUT) };
	struct tauti_row *kept = keep(x, row);
	int64_t number = stats->number[XSTAT_STEP_NUM];
	if (!kept)
		return false;
	kept->kind = TAUT_KIND_ANNOTATION;
	kept->sequence = number >= 0 && number < UINT32_MAX - 1 ?
		(uint32_t)number + 1 : 0;
	return taut_vec_push(&x->steps, step);
}

static uint32_t text_name(struct xplane *x, struct tauti_text text)
{
	return text.at ? tauti_text_name(x->builder->names, text.at, text.len) :
			 0;
}

/* Taut's recorder says what an operation moves. */
static bool keep_shape(struct xplane *x, const struct xplane_stats *stats)
{
	struct xplane_shape shape = {
		.op = text_name(x, stats->text[XSTAT_OP]),
		.dtype = text_name(x, stats->text[XSTAT_DTYPE]),
		.elements = stats->number[XSTAT_ELEMENTS],
		.told = x->shapes.count,
	};
	if (shape.op == TAUT_NONE || shape.dtype == TAUT_NONE)
		return false;
	return shape.elements < 0 || !xplane_has(stats, XSTAT_ELEMENTS) ||
	       taut_vec_push(&x->shapes, shape);
}

/* Taut's recorder says who this process is. */
static bool keep_job(struct xplane *x, const struct xplane_stats *stats)
{
	struct tauti_builder *b = x->builder;
	struct tauti_text role = stats->text[XSTAT_ROLE];
	int64_t rank = stats->number[XSTAT_RANK];
	int64_t size = stats->number[XSTAT_WORLD_SIZE];
	if (xplane_has(stats, XSTAT_RANK) && rank >= 0 && rank < 1000000)
		b->rank = (int32_t)rank;
	if (xplane_has(stats, XSTAT_WORLD_SIZE) && size > 0 && size <= 1000000)
		b->world_size = (int32_t)size;
	if (!role.at)
		return true;
	uint32_t name = text_name(x, role);
	return name != TAUT_NONE &&
	       tauti_builder_fact(b, "tf.role",
		       taut_names_text(b->names, name),
		       taut_names_length(b->names, name)) == TAUT_OK;
}

static bool keep_params(struct xplane *x, const struct xplane_stats *stats)
{
	struct xplane_params params = { stats->number[XSTAT_GROUP_KEY],
		stats->number[XSTAT_GROUP_SIZE] };
	size_t n = x->params.count;
	if (!xplane_has(stats, XSTAT_GROUP_KEY) ||
		!xplane_has(stats, XSTAT_GROUP_SIZE))
		return true;
	for (size_t i = 0; i < n; i++)
		if (x->params.data[i].group_key == params.group_key)
			return true;
	return n >= 4096 || taut_vec_push(&x->params, params);
}

/* What runs on the thread until then is of that run. */
static void see_run(struct xplane *x, const struct tauti_row *event,
	const struct xplane_stats *stats)
{
	if (!xplane_has(stats, XSTAT_ID))
		return;
	x->run_id = stats->number[XSTAT_ID];
	x->run_end_ns = event->start_ns + event->dur_ns;
}

/* Rows of a class that are looked at again when all is read. */
static bool keep_listed(struct xplane *x, const struct tauti_row *event,
	enum tf_class class, const struct xplane_stats *stats)
{
	uint32_t row = (uint32_t)x->builder->n_rows;
	switch (class) {
	case TF_REQUEST:
		return taut_vec_push(&x->requests, row);
	case TF_FUNCTION:
		return stats->number[XSTAT_IS_FUNC] != 1 ||
		       taut_vec_push(&x->functions, row);
	case TF_LOAD_WAIT:
		return taut_vec_push(&x->waits, row);
	case TF_PROCESS:
		see_run(x, event, stats);
		return true;
	case TF_PARAMS:
		return keep_params(x, stats);
	default:
		return true;
	}
}

static bool is_receive(const struct xplane_stats *stats)
{
	struct tauti_text type = stats->text[XSTAT_KERNEL_TYPE];
	return type.at && (tauti_tf_is(type, "_Recv") ||
				  tauti_tf_is(type, "_HostRecv"));
}

static bool host_range(struct xplane *x, struct tauti_row *row,
	const struct xplane_meta *meta, const struct xplane_stats *stats)
{
	enum tf_class class = (enum tf_class)meta->class;
	if (xplane_has(stats, XSTAT_STEP_NUM) && class == TF_RUNTIME)
		return keep_step(x, row, stats);
	if ((class == TF_ASYNC_START || class == TF_ASYNC_DONE) &&
		is_receive(stats) &&
		!tauti_xplane_add_half(x, row, class == TF_ASYNC_DONE, stats))
		return false;
	row->kind = class == TF_OP ? TAUT_KIND_OP :
		class == TF_LOAD ? TAUT_KIND_LOAD : TAUT_KIND_ANNOTATION;
	if (xplane_has(stats, XSTAT_CORRELATION) &&
		stats->number[XSTAT_CORRELATION] > 0) {
		row->kind = TAUT_KIND_RUNTIME;
		row->correlation = (uint32_t)stats->number[XSTAT_CORRELATION];
	}
	return keep_listed(x, row, class, stats) && keep(x, row);
}

static bool host_event(struct xplane *x, struct tauti_row *row,
	const struct xplane_meta *meta, const struct xplane_stats *stats)
{
	if (!see_group(x, row, stats))
		return false;
	switch ((enum tf_class)meta->class) {
	case TF_POINT:
		return true;
	case TF_SHAPE:
		return keep_shape(x, stats);
	case TF_JOB:
		return keep_job(x, stats);
	case TF_GRADIENT:
	case TF_PIECE:
		return tauti_xplane_told(x, meta, stats);
	case TF_READY:
	case TF_WAIT:
		return tauti_xplane_call(x, row, meta, stats) && keep(x, row);
	case TF_COLLECTIVE:
	case TF_SEND:
		return tauti_xplane_add_comm(x, row, meta, stats) &&
		       keep(x, row);
	default:
		return host_range(x, row, meta, stats);
	}
}

/* --- device --------------------------------------------------------------- */

static bool add_copy(struct xplane *x, struct tauti_row *row,
	const struct xplane_stats *stats)
{
	struct tauti_text details = stats->text[XSTAT_MEMCPY];
	struct taut_copy_args copy = { .bytes = -1 };
	if (details.at)
		copy.bytes = tauti_tf_copy_bytes(details);
	if (copy.bytes < 0)
		return true;
	row->args = (uint32_t)x->builder->copies.count;
	return taut_vec_push(&x->builder->copies, copy);
}

static bool is_steps_line(const struct xplane *x)
{
	const char *name = taut_names_text(x->builder->names, x->line.name);
	return strcmp(name, "Steps") == 0;
}

static bool device_step(struct xplane *x, const struct tauti_row *row,
	const struct xplane_stats *stats)
{
	struct xplane_device_step step = { .group = -1, .number = -1,
		.start_ns = row->start_ns,
		.end_ns = row->start_ns + row->dur_ns };
	if (xplane_has(stats, XSTAT_GROUP_ID))
		step.group = stats->number[XSTAT_GROUP_ID];
	if (xplane_has(stats, XSTAT_STEP_NAME))
		step.number = stats->number[XSTAT_STEP_NAME];
	return taut_vec_push(&x->device_steps, step);
}

static bool device_event(struct xplane *x, struct tauti_row *row,
	const struct xplane_meta *meta, const struct xplane_stats *stats)
{
	if (x->lane_role != TAUTI_ROLE_STREAM) {
		row->kind = TAUT_KIND_GPU_RANGE;
		if (is_steps_line(x) && !device_step(x, row, stats))
			return false;
		return keep(x, row);
	}
	row->kind = meta->device_kind;
	if (xplane_has(stats, XSTAT_CORRELATION) &&
		stats->number[XSTAT_CORRELATION] > 0)
		row->correlation = (uint32_t)stats->number[XSTAT_CORRELATION];
	if (row->kind != TAUT_KIND_KERNEL && !add_copy(x, row, stats))
		return false;
	return keep(x, row);
}

bool tauti_xplane_place(struct xplane *x, struct tauti_row *row,
	const struct xplane_meta *meta, const struct xplane_stats *stats)
{
	row->lane = x->lane;
	row->name = meta->name;
	return x->plane->role == XPLANE_DEVICE ?
		device_event(x, row, meta, stats) :
		host_event(x, row, meta, stats);
}

bool tauti_xplane_event(
	struct xplane *x, const struct tauti_field *field, uint64_t offset)
{
	struct event e = { .stats.seen = 0 };
	struct tauti_row row = { .args = TAUT_NONE };
	if (!read_fields(x, field, &e)) {
		tauti_builder_lose(x->builder, TAUTI_LOST_BROKEN, offset);
		return true;
	}
	const struct xplane_meta *meta =
		tauti_xplane_meta(x->plane, e.meta_id);
	if (!meta) {
		x->nameless++;
		return true;
	}
	if (!e.placed)
		return true; /* a sum over many events, without their times */
	if (!read_times(x, &e, &row)) {
		tauti_builder_lose(x->builder, TAUTI_LOST_TIME, offset);
		return true;
	}
	return tauti_xplane_place(x, &row, meta, &e.stats);
}

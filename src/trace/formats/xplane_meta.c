/* xplane_meta.c - the names of a plane: of its events, stats and lines. */
#include "trace/formats/xplane.h"

#include <stdlib.h>

#include "trace/text.h"

static const struct {
	const char *name;
	enum xplane_stat stat;
} stat_names[] = {
	{ "correlation_id", XSTAT_CORRELATION },
	{ "step_num", XSTAT_STEP_NUM },
	{ "step_name", XSTAT_STEP_NAME },
	{ "group_id", XSTAT_GROUP_ID },
	{ "memcpy_details", XSTAT_MEMCPY },
	{ "instance_key", XSTAT_INSTANCE_KEY },
	{ "group_key", XSTAT_GROUP_KEY },
	{ "group_size", XSTAT_GROUP_SIZE },
	{ "step_id", XSTAT_STEP_ID },
	{ "id", XSTAT_ID },
	{ "name", XSTAT_NAME },
	{ "kernel_type", XSTAT_KERNEL_TYPE },
	{ "key", XSTAT_KEY },
	{ "_c", XSTAT_CONSUMER },
	{ "_p", XSTAT_PRODUCER },
	{ "is_func", XSTAT_IS_FUNC },
	{ "profile_start_time", XSTAT_PROFILE_START },
	{ "taut", XSTAT_TAUT },
	{ "taut_op", XSTAT_OP },
	{ "taut_dtype", XSTAT_DTYPE },
	{ "taut_elements", XSTAT_ELEMENTS },
	{ "taut_rank", XSTAT_RANK },
	{ "taut_world_size", XSTAT_WORLD_SIZE },
	{ "taut_role", XSTAT_ROLE },
	{ "taut_task", XSTAT_TASK },
	{ "taut_message", XSTAT_MESSAGE },
	{ "taut_bytes", XSTAT_BYTES },
	{ "taut_start_ns", XSTAT_START },
	{ "taut_end_ns", XSTAT_END },
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum xplane_stat tauti_xplane_stat_of(struct tauti_text name)
{
	for (size_t i = 0; i < COUNT(stat_names); i++)
		if (tauti_tf_is(name, stat_names[i].name))
			return stat_names[i].stat;
	return XSTAT_OTHER;
}

/* --- by id ---------------------------------------------------------------- */

/* Ids usually run from 1, or from 0, without a hole. */
const struct xplane_meta *tauti_xplane_meta(
	const struct xplane_plane *plane, int64_t id)
{
	size_t lo = 0, hi = plane->metas.count;
	if (id > 0 && (uint64_t)id <= hi &&
		plane->metas.data[id - 1].id == id)
		return &plane->metas.data[id - 1];
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (plane->metas.data[mid].id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < plane->metas.count && plane->metas.data[lo].id == id ?
		&plane->metas.data[lo] : NULL;
}

const struct xplane_stat_meta *tauti_xplane_stat_meta(
	const struct xplane_plane *plane, int64_t id)
{
	size_t lo = 0, hi = plane->stats.count;
	if (id > 0 && (uint64_t)id <= hi &&
		plane->stats.data[id - 1].id == id)
		return &plane->stats.data[id - 1];
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (plane->stats.data[mid].id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < plane->stats.count && plane->stats.data[lo].id == id ?
		&plane->stats.data[lo] : NULL;
}

static int by_meta_id(const void *a, const void *b)
{
	const struct xplane_meta *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

static int by_stat_id(const void *a, const void *b)
{
	const struct xplane_stat_meta *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

static void sort_metas(struct xplane_plane *plane)
{
	if (plane->metas.count)
		qsort(plane->metas.data, plane->metas.count,
			sizeof *plane->metas.data, by_meta_id);
}

static void sort_stats(struct xplane_plane *plane)
{
	if (plane->stats.count)
		qsort(plane->stats.data, plane->stats.count,
			sizeof *plane->stats.data, by_stat_id);
}

/* --- stats ---------------------------------------------------------------- */

static struct tauti_text text_of(const struct xplane *x, uint32_t name)
{
	const struct taut_names *names = x->builder->names;
	return (struct tauti_text){ taut_names_text(names, name),
		(uint32_t)taut_names_length(names, name) };
}

/* A value of any type: texts may stand elsewhere, numbers in texts. */
static void take_value(const struct xplane *x,
	const struct xplane_plane *plane, const struct tauti_field *f,
	int64_t *number, struct tauti_text *text)
{
	const struct xplane_stat_meta *ref;
	switch (f->number) {
	case 2: /* double */
		break;
	case 3: /* unsigned */
	case 4: /* signed */
		if (f->type == TAUTI_WIRE_VARINT)
			*number = (int64_t)f->value;
		break;
	case 5: /* text */
		if (f->type == TAUTI_WIRE_BYTES)
			*text = (struct tauti_text){ (const char *)f->bytes,
				(uint32_t)f->value };
		break;
	case 7: /* the name of another stat */
		ref = f->type == TAUTI_WIRE_VARINT ?
			tauti_xplane_stat_meta(plane, (int64_t)f->value) :
			NULL;
		if (ref)
			*text = text_of(x, ref->text);
		break;
	}
}

/* TensorFlow writes some numbers as texts: "10". */
static int64_t number_of(struct tauti_text text)
{
	int64_t value = 0;
	uint32_t i = text.len && text.at[0] == '-';
	uint32_t first = i;
	for (; i < text.len && i < first + 18; i++) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return -1;
		value = value * 10 + (text.at[i] - '0');
	}
	return i == first || i < text.len ? -1 : first ? -value : value;
}

bool tauti_xplane_stat(const struct xplane *x,
	const struct xplane_plane *plane, const struct tauti_field *field,
	struct xplane_stats *stats)
{
	struct tauti_wire w = tauti_wire_in(field);
	struct tauti_field f;
	struct tauti_text text = { NULL, 0 };
	int64_t id = 0, number = -1;
	while (tauti_wire_next(&w, &f)) {
		if (f.number == 1 && f.type == TAUTI_WIRE_VARINT)
			id = (int64_t)f.value;
		else
			take_value(x, plane, &f, &number, &text);
	}
	const struct xplane_stat_meta *meta =
		tauti_xplane_stat_meta(plane, id);
	if (w.broken || !meta || meta->stat == XSTAT_OTHER)
		return !w.broken;
	stats->seen |= 1u << meta->stat;
	stats->text[meta->stat] = text;
	stats->number[meta->stat] = text.at ? number_of(text) : number;
	return true;
}

/* --- metadata ------------------------------------------------------------- */

/* A map's entry: its key and the message that is its value. */
static bool entry_of(const uint8_t *bytes, size_t len, int64_t *ret_id,
	struct tauti_wire *ret_value)
{
	struct tauti_wire w = tauti_wire_of(bytes, len);
	struct tauti_field f;
	*ret_id = 0;
	*ret_value = tauti_wire_of(bytes, 0);
	while (tauti_wire_next(&w, &f)) {
		if (f.number == 1 && f.type == TAUTI_WIRE_VARINT)
			*ret_id = (int64_t)f.value;
		if (f.number == 2 && f.type == TAUTI_WIRE_BYTES)
			*ret_value = tauti_wire_in(&f);
	}
	return !w.broken;
}

/* The field of BYTES with that number; empty: there is none. */
static struct tauti_text text_in(struct tauti_wire w, uint32_t number)
{
	struct tauti_text text = { "", 0 };
	struct tauti_field f;
	while (tauti_wire_next(&w, &f))
		if (f.number == number && f.type == TAUTI_WIRE_BYTES)
			text = (struct tauti_text){ (const char *)f.bytes,
				(uint32_t)f.value };
	return text;
}

/* Does the name of a kernel say that it moves data between devices? */
static bool is_device_comm(struct tauti_text name)
{
	return tauti_tf_starts(name, "nccl") ||
	       tauti_tf_starts(name, "void nccl") ||
	       tauti_tf_starts(name, "rccl");
}

/* Told once. */
static bool note_jax(struct xplane *x)
{
	if (x->is_jax)
		return true;
	x->is_jax = true;
	return tauti_builder_fact(x->builder, "framework", "jax", 3) == TAUT_OK;
}

bool tauti_xplane_name_event(struct xplane *x,
	const struct xplane_plane *plane, struct tauti_text name,
	struct xplane_meta *meta)
{
	struct tauti_text op;
	meta->class = (uint8_t)tauti_tf_class(name, &op);
	meta->device_kind = (uint8_t)tauti_tf_device_kind(name);
	meta->name = tauti_text_name(x->builder->names, name.at, name.len);
	meta->op = tauti_text_name(x->builder->names, op.at, op.len);
	if (meta->class == TF_COLLECTIVE)
		meta->collective = tauti_tf_collective((struct tauti_text){
			name.at + op.len + 1, name.len - op.len - 1 });
	if (plane->role == XPLANE_DEVICE && is_device_comm(name))
		x->device_comm = true;
	if (tauti_tf_starts(name, "PjitFunction(") && !note_jax(x))
		return false;
	return meta->name != TAUT_NONE && meta->op != TAUT_NONE;
}

static bool add_event_meta(struct xplane *x, struct xplane_plane *plane,
	int64_t id, struct tauti_text name)
{
	struct xplane_meta meta = { .id = id };
	return tauti_xplane_name_event(x, plane, name, &meta) &&
	       taut_vec_push(&plane->metas, meta);
}

static bool add_stat_meta(struct xplane *x, struct xplane_plane *plane,
	int64_t id, struct tauti_text name)
{
	struct xplane_stat_meta meta = {
		.id = id,
		.text = tauti_text_name(x->builder->names, name.at, name.len),
		.stat = (uint8_t)tauti_xplane_stat_of(name),
	};
	if (tauti_tf_is(name, "jax_version") && !note_jax(x))
		return false;
	return meta.text != TAUT_NONE && taut_vec_push(&plane->stats, meta);
}

static enum xplane_walk read_meta(struct xplane *x,
	struct xplane_plane *plane, const struct tauti_field *f)
{
	const uint8_t *bytes;
	struct tauti_wire value;
	int64_t id;
	enum xplane_walk walk = tauti_xplane_hold(x, f, &bytes);
	if (walk != XPLANE_ON || !bytes)
		return walk;
	if (!entry_of(bytes, (size_t)f->value, &id, &value))
		return XPLANE_BROKEN;
	struct tauti_text name = text_in(value, 2);
	bool ok = f->number == 4 ? add_event_meta(x, plane, id, name) :
				   add_stat_meta(x, plane, id, name);
	if (!ok)
		return tauti_xplane_no_memory(x);
	tauti_feed_take(&x->feed, (size_t)f->value);
	return XPLANE_ON;
}

/* --- planes and lines ----------------------------------------------------- */

static enum xplane_walk read_name(
	struct xplane *x, const struct tauti_field *f, uint32_t *ret_name)
{
	const uint8_t *bytes;
	enum xplane_walk walk = tauti_xplane_hold(x, f, &bytes);
	if (walk != XPLANE_ON || !bytes)
		return walk;
	*ret_name = tauti_text_name(
		x->builder->names, bytes, (size_t)f->value);
	if (*ret_name == TAUT_NONE)
		return tauti_xplane_no_memory(x);
	tauti_feed_take(&x->feed, (size_t)f->value);
	return XPLANE_ON;
}

static enum xplane_walk line_field(struct xplane *x, struct xplane_line *line,
	const struct tauti_field *f)
{
	bool bytes = f->type == TAUTI_WIRE_BYTES;
	if (f->number == 1 && !bytes)
		line->id = (int64_t)f->value;
	if (f->number == 3 && !bytes)
		line->timestamp_ns = (int64_t)f->value;
	if (f->number == 2 && bytes)
		return read_name(x, f, &line->name);
	if (f->number == 11 && bytes)
		return read_name(x, f, &line->display);
	return bytes ? tauti_xplane_skip(x, f) : XPLANE_ON;
}

static enum xplane_walk read_line(
	struct xplane *x, struct xplane_plane *plane, uint64_t end)
{
	struct xplane_line line = { 0 };
	struct tauti_field f;
	bool at_end = false;
	enum xplane_walk walk;
	while ((walk = tauti_xplane_field(x, end, &f, &at_end)) == XPLANE_ON &&
		!at_end) {
		walk = line_field(x, &line, &f);
		if (walk != XPLANE_ON)
			break;
	}
	struct tauti_text name = text_of(x, line.name);
	plane->streams |= tauti_tf_stream(name) >= 0;
	if (line.timestamp_ns > x->latest_line_ns)
		x->latest_line_ns = line.timestamp_ns;
	if (!taut_vec_push(&plane->lines, line))
		return tauti_xplane_no_memory(x);
	return walk;
}

void tauti_xplane_name_plane(
	struct xplane_plane *plane, struct tauti_text text)
{
	if (tauti_tf_starts(text, "/host:") &&
		!tauti_tf_is(text, "/host:metadata"))
		plane->role = XPLANE_HOST;
	if (tauti_tf_starts(text, "/device:"))
		plane->role = XPLANE_DEVICE;
	plane->device = tauti_tf_device(text);
	if (plane->device < 0)
		plane->device = 0;
}

/* A stat of the whole plane, which TensorFlow writes behind their names. */
static bool keep_plane_stat(struct xplane *x, struct xplane_plane *plane,
	const uint8_t *bytes, size_t len)
{
	struct tauti_field f = { .bytes = bytes, .value = len };
	struct xplane_stats stats = { .seen = 0 };
	sort_stats(plane);
	if (!tauti_xplane_stat(x, plane, &f, &stats))
		return false;
	if (xplane_has(&stats, XSTAT_PROFILE_START))
		x->profile_start_ns = stats.number[XSTAT_PROFILE_START];
	return true;
}

static enum xplane_walk read_plane_stat(struct xplane *x,
	struct xplane_plane *plane, const struct tauti_field *f)
{
	const uint8_t *bytes;
	enum xplane_walk walk = tauti_xplane_hold(x, f, &bytes);
	if (walk != XPLANE_ON || !bytes)
		return walk;
	if (!keep_plane_stat(x, plane, bytes, (size_t)f->value))
		return XPLANE_BROKEN;
	tauti_feed_take(&x->feed, (size_t)f->value);
	return XPLANE_ON;
}

static enum xplane_walk plane_field(struct xplane *x,
	struct xplane_plane *plane, const struct tauti_field *f)
{
	uint32_t name = 0;
	enum xplane_walk walk;
	if (f->type != TAUTI_WIRE_BYTES)
		return XPLANE_ON;
	switch (f->number) {
	case 2:
		walk = read_name(x, f, &name);
		if (walk == XPLANE_ON)
			tauti_xplane_name_plane(plane, text_of(x, name));
		return walk;
	case 3:
		return read_line(x, plane, x->feed.offset + f->value);
	case 4:
	case 5:
		return read_meta(x, plane, f);
	case 6:
		return read_plane_stat(x, plane, f);
	default:
		return tauti_xplane_skip(x, f);
	}
}

enum xplane_walk tauti_xplane_plane_meta(struct xplane *x, uint64_t end)
{
	struct xplane_plane plane = { .role = XPLANE_OTHER };
	struct tauti_field f;
	bool at_end = false;
	enum xplane_walk walk;
	while ((walk = tauti_xplane_field(x, end, &f, &at_end)) == XPLANE_ON &&
		!at_end) {
		walk = plane_field(x, &plane, &f);
		if (walk != XPLANE_ON)
			break;
	}
	sort_metas(&plane);
	sort_stats(&plane);
	if (taut_vec_push(&x->planes, plane))
		return walk;
	taut_vec_free(&plane.metas);
	taut_vec_free(&plane.stats);
	taut_vec_free(&plane.lines);
	return tauti_xplane_no_memory(x);
}

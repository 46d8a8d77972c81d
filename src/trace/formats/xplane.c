/* xplane.c - the file that TensorFlow's and JAX's profilers write. */
#include "trace/formats/xplane.h"

#include "trace/format.h"
#include "trace/stream.h"
#include "trace/text.h"

static const char *path_of(const struct xplane *x)
{
	return x->builder->path;
}

enum xplane_walk tauti_xplane_no_memory(struct xplane *x)
{
	taut_error_set(x->err, TAUT_ENOMEM, -1, "%s: no memory for %zu events",
		path_of(x), x->builder->n_rows);
	return XPLANE_ERROR;
}

/* --- the walk ------------------------------------------------------------- */

enum xplane_walk tauti_xplane_field(struct xplane *x, uint64_t end,
	struct tauti_field *field, bool *ret_end)
{
	enum tauti_feed_result result;
	if (tauti_feed_field(&x->feed, end, field, &result, x->err) != TAUT_OK)
		return XPLANE_ERROR;
	*ret_end = result == TAUTI_FEED_END;
	return result == TAUTI_FEED_CUT ? XPLANE_CUT :
	       result == TAUTI_FEED_BROKEN ? XPLANE_BROKEN : XPLANE_ON;
}

enum xplane_walk tauti_xplane_skip(
	struct xplane *x, const struct tauti_field *f)
{
	uint64_t to = x->feed.offset + f->value;
	if (tauti_feed_skip(&x->feed, f->value, x->err) != TAUT_OK)
		return XPLANE_ERROR;
	return x->feed.offset == to ? XPLANE_ON : XPLANE_CUT;
}

enum xplane_walk tauti_xplane_hold(struct xplane *x,
	const struct tauti_field *f, const uint8_t **ret_bytes)
{
	*ret_bytes = NULL;
	if (f->value > TAUTI_FEED_MAX)
		return tauti_xplane_skip(x, f);
	if (tauti_feed_want(&x->feed, (size_t)f->value, x->err) != TAUT_OK)
		return XPLANE_ERROR;
	if (x->feed.held < f->value)
		return XPLANE_CUT;
	*ret_bytes = x->feed.at;
	return XPLANE_ON;
}

static enum xplane_walk read_host(
	struct xplane *x, const struct tauti_field *f)
{
	const uint8_t *bytes;
	enum xplane_walk walk = tauti_xplane_hold(x, f, &bytes);
	if (walk != XPLANE_ON || !bytes)
		return walk;
	size_t len = (size_t)f->value;
	const uint8_t *port = len ? memchr(bytes, ':', len) : NULL;
	uint32_t name = tauti_text_name(x->builder->names, bytes,
		port ? (size_t)(port - bytes) : len);
	if (name == TAUT_NONE)
		return tauti_xplane_no_memory(x);
	if (!*x->builder->host)
		x->builder->host = taut_names_text(x->builder->names, name);
	tauti_feed_take(&x->feed, len);
	return XPLANE_ON;
}

/* First pass: what a field of the whole file tells. */
static enum xplane_walk first_field(
	struct xplane *x, const struct tauti_field *f)
{
	if (f->type != TAUTI_WIRE_BYTES)
		return XPLANE_ON;
	if (f->number == 1)
		return tauti_xplane_plane_meta(x, x->feed.offset + f->value);
	if (f->number == 4)
		return read_host(x, f);
	return tauti_xplane_skip(x, f);
}

static enum xplane_walk read_event(
	struct xplane *x, const struct tauti_field *f)
{
	const uint8_t *bytes;
	uint64_t offset = x->feed.offset;
	enum xplane_walk walk = tauti_xplane_hold(x, f, &bytes);
	if (walk != XPLANE_ON)
		return walk;
	x->builder->events_seen++;
	if (!bytes) {
		tauti_builder_lose(x->builder, TAUTI_LOST_LARGE, offset);
		return XPLANE_ON;
	}
	struct tauti_field event = *f;
	event.bytes = bytes;
	if (!tauti_xplane_event(x, &event, offset))
		return tauti_xplane_no_memory(x);
	tauti_feed_take(&x->feed, (size_t)f->value);
	x->whole_to = x->feed.offset;
	return XPLANE_ON;
}

static enum xplane_walk read_events(struct xplane *x, uint64_t end)
{
	struct tauti_field f;
	bool at_end = false;
	enum xplane_walk walk;
	if (!tauti_xplane_begin_line(x))
		return tauti_xplane_no_memory(x);
	while ((walk = tauti_xplane_field(x, end, &f, &at_end)) == XPLANE_ON &&
		!at_end) {
		if (f.type == TAUTI_WIRE_BYTES)
			walk = f.number == 4 ? read_event(x, &f) :
					       tauti_xplane_skip(x, &f);
		if (walk != XPLANE_ON)
			break;
	}
	return walk;
}

static enum xplane_walk read_lines(struct xplane *x, uint64_t end)
{
	size_t line = 0;
	struct tauti_field f;
	bool at_end = false;
	enum xplane_walk walk;
	while ((walk = tauti_xplane_field(x, end, &f, &at_end)) == XPLANE_ON &&
		!at_end) {
		if (f.type != TAUTI_WIRE_BYTES)
			continue;
		if (f.number == 3 && line < x->plane->lines.count) {
			x->line = x->plane->lines.data[line++];
			walk = read_events(x, x->feed.offset + f.value);
		} else {
			walk = tauti_xplane_skip(x, &f);
		}
		if (walk != XPLANE_ON)
			break;
	}
	return walk;
}

/* Second pass: the n-th plane of the file. */
static enum xplane_walk second_field(
	struct xplane *x, const struct tauti_field *f, size_t *n)
{
	if (f->type != TAUTI_WIRE_BYTES)
		return XPLANE_ON;
	if (f->number != 1 || *n >= x->planes.count)
		return tauti_xplane_skip(x, f);
	x->plane = &x->planes.data[(*n)++];
	if (x->plane->role == XPLANE_OTHER)
		return tauti_xplane_skip(x, f);
	return read_lines(x, x->feed.offset + f->value);
}

static enum xplane_walk walk_file(struct xplane *x, bool second)
{
	size_t n = 0;
	struct tauti_field f;
	bool at_end = false;
	enum xplane_walk walk;
	while ((walk = tauti_xplane_field(x, UINT64_MAX, &f, &at_end)) ==
			XPLANE_ON &&
		!at_end) {
		walk = second ? second_field(x, &f, &n) : first_field(x, &f);
		if (walk != XPLANE_ON)
			break;
	}
	return walk;
}

/* --- the end -------------------------------------------------------------- */

static const char *const lost_text[TAUTI_LOST_COUNT] = {
	[TAUTI_LOST_BROKEN] = "no protobuf",
	[TAUTI_LOST_LARGE] = "larger than 16 MiB",
	[TAUTI_LOST_TIME] = "no readable time",
};

static taut_status note_truncated(struct xplane *x, enum xplane_walk walk)
{
	struct tauti_builder *b = x->builder;
	unsigned long long at = x->feed.offset;
	if (walk == XPLANE_BROKEN)
		return tauti_builder_note(b,
			"is broken at byte %llu; the rest is left out, what "
			"is whole is kept: %zu events",
			at, b->n_rows);
	return tauti_builder_note(b,
		"ends early at byte %llu%s; what is whole, up to byte %llu, "
		"is kept: %zu events",
		at, tauti_stream_is_cut(x->feed.stream) ?
			" (the gzip file itself is cut short)" : "",
		(unsigned long long)x->whole_to, b->n_rows);
}

static taut_status add_notes(struct xplane *x, enum xplane_walk walk)
{
	struct tauti_builder *b = x->builder;
	taut_status status = b->truncated ? note_truncated(x, walk) : TAUT_OK;
	if (status == TAUT_OK)
		status = tauti_builder_note_lost(b, "event", lost_text);
	if (status == TAUT_OK && x->nameless)
		status = tauti_builder_note(b,
			"%llu events left out, for the names of events stand "
			"behind them and are cut off",
			(unsigned long long)x->nameless);
	return status;
}

static taut_status refuse_empty(struct xplane *x, enum xplane_walk walk)
{
	struct tauti_builder *b = x->builder;
	unsigned long long at = x->feed.offset;
	if (walk == XPLANE_BROKEN)
		return taut_error_set(x->err, TAUT_EFORMAT, (int64_t)at,
			"%s: byte %llu: no XPlane field; expected a "
			"TensorFlow or JAX profile",
			path_of(x), at);
	if (b->truncated)
		return taut_error_set(x->err, TAUT_EFORMAT, (int64_t)at,
			"%s: ends at byte %llu, before its first whole event "
			"with a name; it was cut short",
			path_of(x), at);
	b->other_kind = true;
	return taut_error_set(x->err, TAUT_EFORMAT, -1,
		"%s: is a TensorFlow or JAX profile without an event of a "
		"host thread or a device",
		path_of(x));
}

/* Newer builds write times since the start of the profile, which is told. */
static void settle_base(struct xplane *x)
{
	const int64_t a_year = (int64_t)365 * 86400 * 1000000000;
	if (x->latest_line_ns < a_year && x->profile_start_ns > 0 &&
		x->profile_start_ns < TAUTI_TIME_LIMIT_NS)
		x->builder->base_ns = x->profile_start_ns;
}

static taut_status settle(struct xplane *x, enum xplane_walk walk)
{
	struct tauti_builder *b = x->builder;
	uint32_t main_lane;
	b->bytes_read = x->feed.offset;
	b->truncated = walk != XPLANE_ON ||
		       tauti_stream_is_cut(x->feed.stream);
	if (b->n_rows == b->first_row)
		return refuse_empty(x, walk);
	settle_base(x);
	if (!tauti_xplane_settle_steps(x, &main_lane) ||
		!tauti_xplane_settle_comms(x, main_lane) ||
		add_notes(x, walk) != TAUT_OK) {
		tauti_xplane_no_memory(x);
		return TAUT_ENOMEM;
	}
	return TAUT_OK;
}

void tauti_xplane_fini(struct xplane *x)
{
	for (size_t i = 0; i < x->planes.count; i++) {
		taut_vec_free(&x->planes.data[i].metas);
		taut_vec_free(&x->planes.data[i].stats);
		taut_vec_free(&x->planes.data[i].lines);
	}
	taut_vec_free(&x->planes);
	taut_vec_free(&x->steps);
	taut_vec_free(&x->groups);
	taut_vec_free(&x->device_steps);
	taut_vec_free(&x->comms);
	taut_vec_free(&x->halves);
	taut_vec_free(&x->shapes);
	taut_vec_free(&x->params);
	tauti_sums_fini(&x->sums);
	taut_vec_free(&x->requests);
	taut_vec_free(&x->functions);
	taut_vec_free(&x->waits);
	tauti_feed_fini(&x->feed);
}

static taut_status read_both(struct xplane *x)
{
	enum xplane_walk walk = walk_file(x, false);
	if (walk == XPLANE_ERROR)
		return x->err->code;
	taut_status status = tauti_feed_rewind(&x->feed, x->err);
	if (status != TAUT_OK)
		return status;
	walk = walk_file(x, true);
	return walk == XPLANE_ERROR ? x->err->code : settle(x, walk);
}

static taut_status read_xplane(struct tauti_stream *stream,
	struct tauti_builder *builder, struct taut_error *err)
{
	struct taut_error own;
	struct xplane x = {
		.builder = builder,
		.err = err ? err : &own,
	};
	taut_status status = tauti_feed_init(
		&x.feed, stream, builder->window_bytes, x.err);
	if (status == TAUT_OK)
		status = read_both(&x);
	tauti_xplane_fini(&x);
	return status;
}

/* A plane comes first, and its name does: printable, no longer than that. */
static bool probe_xplane(const char *head, size_t len)
{
	struct tauti_wire w = tauti_wire_of(head, len);
	uint64_t tag, value;
	if (!tauti_wire_varint(&w, &tag) || tag != 0x0a ||
		!tauti_wire_varint(&w, &value) ||
		!tauti_wire_varint(&w, &tag))
		return false;
	if (tag == 0x08 && (!tauti_wire_varint(&w, &value) ||
				   !tauti_wire_varint(&w, &tag)))
		return false;
	if (tag != 0x12 || !tauti_wire_varint(&w, &value) || value == 0 ||
		value > 200 || value > (uint64_t)(w.end - w.at))
		return false;
	for (uint64_t i = 0; i < value; i++)
		if (w.at[i] < 0x20 || w.at[i] > 0x7e)
			return false;
	return true;
}

const struct tauti_format tauti_format_xplane = {
	.name = "xplane",
	.probe = probe_xplane,
	.read = read_xplane,
};

/* tftrace.c - the profile of TensorFlow and JAX as JSON (trace.json.gz).
 *
 * What the profiler writes for viewers beside the .xplane.pb, or a viewer of
 * such a file exports: a process is a plane, a thread a line, an argument a
 * stat, and every value of these is a text. So the names of the planes and
 * lines are taken from the M events, and what an event is, is for the reader
 * of XPlane to say. Not in it: the contexts that join the halves of a receive
 * (the run and the edge do it here), and when the profile began. */
#include "trace/format.h"
#include "trace/formats/chrome.h"
#include "trace/formats/xplane.h"
#include "trace/json/string.h"
#include "trace/stream.h"

struct place { /* a line of a plane */
	uint32_t plane;
	bool begun;
	struct xplane_line line;
	uint32_t lane;
	enum tauti_role role;
	int64_t run_id, run_end_ns;
};

struct tftrace {
	struct xplane x; /* planes by pids; its walk is not used */
	struct tauti_lanes pids, tids;
	TAUT_VEC(struct place) places; /* by tids */
	struct tauti_lanes names; /* (name, role of the plane) */
	TAUT_VEC(struct xplane_meta) metas; /* by names */
};

/* --- numbers ---------------------------------------------------------------- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Up to 17 digits of the value at *at, which is moved behind them, and the
 * power of ten that they are of. */
static bool read_digits(const char **at, uint64_t *ret_value, int *ret_power)
{
	const char *p = *at;
	bool point = false, any = false;
	for (*ret_value = 0, *ret_power = 0;; p++) {
		if (*p == '.' && !point) {
			point = true;
			continue;
		}
		if (!is_digit(*p))
			break;
		any = true;
		bool fits = *ret_value < UINT64_C(100000000000000000);
		if (fits)
			*ret_value = *ret_value * 10 + (uint64_t)(*p - '0');
		*ret_power += fits ? -point : !point;
	}
	*at = p;
	return any;
}

/* "e-06" and such; 0 where there is none. */
static int read_exponent(const char *p)
{
	int value = 0;
	if ((*p | 0x20) != 'e')
		return 0;
	bool minus = *++p == '-';
	p += minus || *p == '+';
	for (; is_digit(*p) && value < 1000; p++)
		value = value * 10 + (*p - '0');
	return minus ? -value : value;
}

/* Picoseconds of a number of microseconds, to the nearest: it is one of a
 * double, so its last digits may be off. False: none, or too large. */
static bool picoseconds(const char *p, int64_t *ret_ps)
{
	uint64_t value;
	int power;
	bool minus = *p == '-';
	p += minus;
	if (!read_digits(&p, &value, &power))
		return false;
	power += read_exponent(p) + 6;
	for (; power > 0 && value; power--) {
		if (value > INT64_MAX / 20)
			return false;
		value *= 10;
	}
	for (; power < -1 && value; power++)
		value /= 10;
	if (power < 0)
		value = (value + 5) / 10;
	*ret_ps = minus ? -(int64_t)value : (int64_t)value;
	return value <= INT64_MAX / 2;
}

static int64_t floor_ns(int64_t ps)
{
	return ps / 1000 - (ps % 1000 < 0);
}

/* As XPlane's: both ends are rounded alike. */
static bool read_times(struct tauti_chrome *c,
	const struct tauti_chrome_event *e, struct tauti_row *row)
{
	int64_t start, dur = 0;
	if (e->ts && picoseconds(tauti_token_at(&c->window, e->ts), &start) &&
		(!e->dur || picoseconds(tauti_token_at(&c->window, e->dur),
				    &dur)) &&
		dur >= 0) {
		row->start_ns = floor_ns(start);
		row->dur_ns = floor_ns(start + dur) - row->start_ns;
		return true;
	}
	return tauti_chrome_span(c, e, &row->start_ns, &row->dur_ns);
}

/* Ids are of 64 bits, with a sign or without; -1: no number. */
static int64_t number_of(struct tauti_text text)
{
	uint64_t value = 0;
	uint32_t first = text.len && text.at[0] == '-', i = first;
	if (text.len - first == 0 || text.len - first > 20)
		return -1;
	for (; i < text.len; i++) {
		if (!is_digit(text.at[i]))
			return -1;
		value = value * 10 + (uint64_t)(text.at[i] - '0');
	}
	return (int64_t)(first ? 0 - value : value);
}

/* --- what an event says ------------------------------------------------------ */

/* The string at a token; where it has escapes, what it stands for lies among
 * the names. */
static bool text_at(
	struct tauti_chrome *c, uint32_t token, struct tauti_text *ret_text)
{
	struct tauti_text text = tauti_chrome_string(c, token);
	*ret_text = text;
	if (text.len == 0 || tauti_string_is_plain(text.at, text.len))
		return true;
	uint32_t id = tauti_chrome_text(c, text);
	if (id == TAUT_NONE)
		return false;
	ret_text->at = taut_names_text(c->builder->names, id);
	ret_text->len = (uint32_t)taut_names_length(c->builder->names, id);
	return true;
}

static bool take_arg(struct tauti_chrome *c, struct tauti_text key,
	uint32_t value, struct xplane_stats *stats, uint32_t *ret_long)
{
	enum xplane_stat stat = tauti_xplane_stat_of(key);
	struct tauti_text text;
	if (tauti_text_is(key, "long_name"))
		*ret_long = value;
	if (stat == XSTAT_OTHER)
		return true;
	if (!text_at(c, value, &text))
		return false;
	stats->seen |= 1u << stat;
	if (tauti_token_byte(&c->window, value) != '"') {
		stats->number[stat] = -1;
		tauti_chrome_int(c, value, &stats->number[stat]);
		return true;
	}
	stats->text[stat] = text;
	stats->number[stat] = number_of(text);
	return true;
}

/* All args; *ret_long is the value of long_name, or stays. */
static bool read_args(struct tauti_chrome *c, uint32_t args,
	struct xplane_stats *stats, uint32_t *ret_long)
{
	const struct tauti_window *w = &c->window;
	struct tauti_text key;
	uint32_t i = args;
	if (!args || tauti_token_byte(w, i) != '{')
		return true;
	do {
		if (!tauti_token_string(w, ++i, &key) ||
			tauti_token_byte(w, ++i) != ':')
			return true;
		if (!take_arg(c, key, ++i, stats, ret_long))
			return false;
		if (!tauti_token_skip(w, &i))
			return true;
	} while (tauti_token_byte(w, i) == ',');
	return true;
}

/* Without contexts, the halves of a receive are told by the edge: it is
 * received once in a run, but in loops, one time after the other. */
static bool join_halves(struct tftrace *t, struct xplane_stats *stats)
{
	struct tauti_text edge = stats->text[XSTAT_NAME];
	if (!edge.at || !xplane_has(stats, XSTAT_STEP_ID) ||
		xplane_has(stats, XSTAT_CONSUMER) ||
		xplane_has(stats, XSTAT_PRODUCER))
		return true;
	uint32_t id = taut_names_add(
		t->x.builder->names, edge.at, edge.len);
	stats->seen |= 1u << XSTAT_CONSUMER | 1u << XSTAT_PRODUCER;
	stats->number[XSTAT_CONSUMER] = stats->number[XSTAT_PRODUCER] =
		(int64_t)((uint64_t)stats->number[XSTAT_STEP_ID] * 31 + id);
	return id != TAUT_NONE;
}

/* Of a host's range that a step or a run of a function begins with, the
 * writer appends its number to the name: "train 6". */
static struct tauti_text without_number(
	struct tauti_text name, const struct xplane_stats *stats)
{
	struct tauti_text step = stats->text[XSTAT_STEP_NAME];
	uint32_t at = name.len;
	if (!step.at || step.len != name.len ||
		memcmp(step.at, name.at, name.len) != 0)
		return name;
	while (at > 0 && is_digit(name.at[at - 1]))
		at--;
	if (at > 1 && at < name.len && name.at[at - 1] == ' ')
		name.len = at - 1;
	return name;
}

/* NULL: no memory. */
static const struct xplane_meta *meta_of(struct tauti_chrome *c,
	struct tftrace *t, const struct xplane_stats *stats, uint32_t token)
{
	const struct xplane_plane *plane = t->x.plane;
	struct xplane_meta meta = { .id = 0 };
	struct tauti_text text = tauti_chrome_string(c, token);
	if (plane->role == XPLANE_HOST)
		text = without_number(text, stats);
	uint32_t name = tauti_chrome_text(c, text);
	if (name == TAUT_NONE)
		return NULL;
	uint32_t at = tauti_lanes_add(&t->names, TAUTI_ROLE_OTHER,
		(int64_t)name, (int64_t)plane->role);
	if (at == TAUT_NONE)
		return NULL;
	if (at < t->metas.count)
		return &t->metas.data[at];
	text.at = taut_names_text(c->builder->names, name);
	text.len = (uint32_t)taut_names_length(c->builder->names, name);
	if (!tauti_xplane_name_event(&t->x, plane, text, &meta) ||
		!taut_vec_push(&t->metas, meta))
		return NULL;
	return &t->metas.data[at];
}

/* --- planes and lines --------------------------------------------------------- */

/* Its index, or TAUT_NONE: no memory. */
static uint32_t plane_of(struct tftrace *t, int64_t pid)
{
	struct xplane_plane plane = { .role = XPLANE_OTHER };
	uint32_t i = tauti_lanes_add(&t->pids, TAUTI_ROLE_OTHER, pid, 0);
	if (i != TAUT_NONE && i == t->x.planes.count &&
		!taut_vec_push(&t->x.planes, plane))
		return TAUT_NONE;
	return i;
}

/* NULL: no memory. */
static struct place *place_of(struct tftrace *t, int64_t pid, int64_t tid)
{
	struct place place = { .plane = plane_of(t, pid), .line.id = tid };
	uint32_t i = tauti_lanes_add(&t->tids, TAUTI_ROLE_OTHER, pid, tid);
	if (place.plane == TAUT_NONE || i == TAUT_NONE ||
		(i == t->places.count && !taut_vec_push(&t->places, place)))
		return NULL;
	return &t->places.data[i];
}

/* A viewer of several hosts puts the host's name before the plane's. */
static void name_plane(struct xplane_plane *plane, struct tauti_text text)
{
	static const char *const words[] = { "/host:", "/device:" };
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		const char *at = text.len ?
			memmem(text.at, text.len, words[i], strlen(words[i])) :
			NULL;
		if (at)
			text = (struct tauti_text){ at,
				(uint32_t)(text.at + text.len - at) };
	}
	tauti_xplane_name_plane(plane, text);
}

static bool see_name(struct tauti_chrome *c, struct tftrace *t,
	const struct tauti_chrome_event *e, int64_t pid)
{
	struct tauti_text what = tauti_chrome_string(c, e->name);
	uint32_t value = tauti_chrome_arg(c, e->args, "name");
	int64_t tid = 0;
	if (tauti_text_is(what, "process_name")) {
		struct tauti_text text;
		uint32_t i = plane_of(t, pid);
		if (i == TAUT_NONE || !text_at(c, value, &text))
			return false;
		name_plane(&t->x.planes.data[i], text);
		return true;
	}
	if (!tauti_text_is(what, "thread_name") ||
		!tauti_chrome_int(c, e->tid, &tid))
		return true;
	struct place *place = place_of(t, pid, tid);
	uint32_t name = tauti_chrome_name(c, value);
	if (!place || name == TAUT_NONE)
		return false;
	place->line.name = name;
	t->x.planes.data[place->plane].streams |=
		tauti_tf_stream(tauti_chrome_string(c, value)) >= 0;
	return true;
}

/* --- events ------------------------------------------------------------------- */

/* Makes the place the one that the XPlane reader is at. */
static bool go_to(struct tftrace *t, struct place *place)
{
	struct xplane *x = &t->x;
	x->plane = &x->planes.data[place->plane];
	x->line = place->line;
	if (!place->begun) {
		if (!tauti_xplane_begin_line(x))
			return false;
		place->begun = true;
		place->lane = x->lane;
		place->role = x->lane_role;
		place->run_id = x->run_id;
		place->run_end_ns = x->run_end_ns;
	}
	x->lane = place->lane;
	x->lane_role = place->role;
	x->run_id = place->run_id;
	x->run_end_ns = place->run_end_ns;
	return true;
}

static bool see_event(struct tauti_chrome *c, struct tftrace *t,
	const struct tauti_chrome_event *e, struct place *place)
{
	struct xplane_stats stats = { .seen = 0 };
	struct tauti_row row = { .args = TAUT_NONE };
	uint32_t name = e->name;
	if (!read_times(c, e, &row))
		return true;
	if (!go_to(t, place) || !read_args(c, e->args, &stats, &name) ||
		!join_halves(t, &stats))
		return false;
	const struct xplane_meta *meta = meta_of(c, t, &stats, name);
	if (!meta || !tauti_xplane_place(&t->x, &row, meta, &stats))
		return false;
	place->run_id = t->x.run_id;
	place->run_end_ns = t->x.run_end_ns;
	return true;
}

static bool tftrace_event(
	struct tauti_chrome *c, const struct tauti_chrome_event *e)
{
	struct tftrace *t = c->format;
	int64_t pid, tid;
	if (e->phase == 'M')
		return !tauti_chrome_int(c, e->pid, &pid) ||
		       see_name(c, t, e, pid);
	if (e->phase != 'X' && e->phase != 'i')
		return true; /* an arrow, or the empty one at the end */
	if (!tauti_chrome_int(c, e->pid, &pid) ||
		!tauti_chrome_int(c, e->tid, &tid)) {
		tauti_chrome_lose(c, TAUTI_LOST_PLACE);
		return true;
	}
	struct place *place = place_of(t, pid, tid);
	if (!place)
		return false;
	return t->x.planes.data[place->plane].role == XPLANE_OTHER ||
	       see_event(c, t, e, place);
}

static bool tftrace_finish(struct tauti_chrome *c)
{
	struct tftrace *t = c->format;
	uint32_t main_lane;
	return c->builder->n_rows == c->builder->first_row ||
	       (tauti_xplane_settle_steps(&t->x, &main_lane) &&
		       tauti_xplane_settle_comms(&t->x, main_lane));
}

static const struct tauti_chrome_face face = {
	.what = "a trace.json of TensorFlow or JAX",
	.event = tftrace_event,
	.finish = tftrace_finish,
};

/* TensorBoard sends its own page a part of the events at a time, without
 * those that would be too short to see. */
static bool is_part(struct tauti_stream *stream)
{
	const char *head;
	size_t len;
	return tauti_stream_peek(stream, &head, &len, NULL) == TAUT_OK &&
	       tauti_head_holds(head, len < 400 ? len : 400,
		       "\"returnedEventsSize\"");
}

static taut_status refuse_part(
	struct tauti_builder *builder, struct taut_error *err)
{
	builder->other_kind = true;
	return taut_error_set(err, TAUT_EFORMAT, 0,
		"%s: is what TensorBoard's page asks for, a part of a "
		"profile; give the .xplane.pb that it is of",
		builder->path);
}

static taut_status read_tftrace(struct tauti_stream *stream,
	struct tauti_builder *builder, struct taut_error *err)
{
	if (is_part(stream))
		return refuse_part(builder, err);
	struct tftrace t = { .x.builder = builder, .x.err = err };
	taut_status status =
		tauti_chrome_read(stream, builder, &face, &t, err);
	tauti_xplane_fini(&t.x);
	tauti_lanes_fini(&t.pids);
	tauti_lanes_fini(&t.tids);
	tauti_lanes_fini(&t.names);
	taut_vec_free(&t.places);
	taut_vec_free(&t.metas);
	return status;
}

/* What its writers put before the events; where that was taken off (JAX does,
 * for Perfetto), the name of the first process. */
static bool probe_tftrace(const char *head, size_t len)
{
	size_t begin = len < 200 ? len : 200, more = len < 400 ? len : 400;
	if (!tauti_head_begins(head, len, '{') ||
		!tauti_head_holds(head, begin, "\"displayTimeUnit\"") ||
		tauti_head_holds(head, begin, "\"schemaVersion\""))
		return false;
	return tauti_head_holds(head, begin, "\"highres-ticks\"") ||
	       (tauti_head_holds(head, begin, "\"traceEvents\"") &&
		       tauti_head_holds(head, more, "\"process_name\"") &&
		       (tauti_head_holds(head, more, "\"/host:CPU\"") ||
			       tauti_head_holds(
				       head, more, "\"/device:")));
}

const struct tauti_format tauti_format_tftrace = {
	.name = "tftrace",
	.probe = probe_tftrace,
	.read = read_tftrace,
};

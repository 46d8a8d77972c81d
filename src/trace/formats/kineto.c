/* kineto.c - the JSON that PyTorch's profiler writes.
 *
 * The text is walked token by token, window after window. What a step did not
 * find whole is carried into the next window, where it is looked at again
 * from its start. */
#include "trace/formats/kineto.h"

#include <string.h>

#include "trace/format.h"
#include "trace/stream.h"

enum step {
	STEP_ON,
	STEP_MORE,    /* the window ends inside what begins at *i */
	STEP_RESTART, /* mark anew from *i, carefully */
	STEP_ERROR,   /* k->err is set */
};

static uint64_t offset_of(const struct kineto *k, uint32_t i)
{
	return k->window.offset + k->window.at[i];
}

static const char *path_of(const struct kineto *k)
{
	return k->builder->path;
}

/* Does the token i lie behind the window, rather than being a wrong one? */
static bool is_behind(const struct kineto *k, uint32_t i)
{
	return i >= k->window.n;
}

static enum step no_memory(struct kineto *k)
{
	taut_error_set(k->err, TAUT_ENOMEM, -1, "%s: no memory for %zu events",
		path_of(k), k->builder->n_rows);
	return STEP_ERROR;
}

/* Nothing behind token i can be told; what was read stays. */
static enum step break_root(struct kineto *k, uint32_t i)
{
	k->broken = true;
	k->broken_at = is_behind(k, i) ? k->window.offset + k->window.span :
					 offset_of(k, i);
	k->state = KINETO_DONE;
	return STEP_ON;
}

/* A value could not be passed: the token stop is behind the window, or
 * wrong. */
static enum step stopped_in_root(struct kineto *k, uint32_t stop)
{
	if (is_behind(k, stop) && !tauti_window_is_full(&k->window))
		return STEP_MORE;
	k->too_large = is_behind(k, stop);
	return break_root(k, k->too_large ? 0 : stop);
}

/* --- the steps ----------------------------------------------------------- */

static enum step start_step(struct kineto *k, uint32_t *i)
{
	char first = tauti_token_byte(&k->window, *i);
	if (is_behind(k, *i))
		return STEP_MORE;
	if (first != '{' && first != '[')
		return break_root(k, *i);
	k->bare = k->has_events = first == '[';
	k->state = first == '[' ? KINETO_EVENTS : KINETO_ROOT;
	++*i;
	return STEP_ON;
}

static enum step execution_trace(struct kineto *k)
{
	k->builder->other_kind = true;
	taut_error_set(k->err, TAUT_EFORMAT, -1,
		"%s: is a PyTorch execution trace (schema %s), which holds no "
		"times; give the Kineto trace of the same run beside it, and "
		"of several ranks name both by the rank",
		path_of(k), k->schema);
	return STEP_ERROR;
}

/* Is it read as a whole, rather than passed part after part? */
static bool is_read_whole(const struct kineto *k, enum kineto_key key, uint32_t v)
{
	uint32_t end = v;
	if (key != KEY_DEVICES)
		return key == KEY_DISTRIBUTED;
	bool is = tauti_token_skip(&k->window, &end);
	return is_behind(k, end) ? !tauti_window_is_full(&k->window) : is;
}

/* The value at token v of a key that begins at *i. */
static enum step value_step(
	struct kineto *k, uint32_t *i, enum kineto_key key, uint32_t v)
{
	const struct tauti_window *w = &k->window;
	char first = tauti_token_byte(w, v);
	uint32_t end = v;
	if (key == KEY_NODES && k->schema[0])
		return execution_trace(k);
	if (key == KEY_EVENTS && first == '[') {
		k->has_events = true;
		k->state = KINETO_EVENTS;
		*i = v + 1;
		return STEP_ON;
	}
	if ((first == '{' || first == '[') && !is_read_whole(k, key, v)) {
		k->state = KINETO_SKIP;
		k->depth = 1;
		k->before = TAUTI_TOKEN_OPEN;
		*i = v + 1;
		return STEP_ON;
	}
	if (!tauti_token_skip(w, &end) || is_behind(k, end))
		return stopped_in_root(k, end);
	if (tauti_kineto_info(k, key, v) != TAUT_OK)
		return no_memory(k);
	*i = end;
	return STEP_ON;
}

static enum step root_step(struct kineto *k, uint32_t *i)
{
	const struct tauti_window *w = &k->window;
	struct tauti_text key;
	switch (tauti_token_byte(w, *i)) {
	case ',':
		++*i;
		return STEP_ON;
	case '}':
		++*i;
		k->state = KINETO_DONE;
		return STEP_ON;
	case '"':
		break;
	default:
		return stopped_in_root(k, *i);
	}
	if (tauti_token_byte(w, *i + 1) != ':')
		return stopped_in_root(k, *i + 1);
	if (is_behind(k, *i + 2))
		return STEP_MORE;
	if (!tauti_token_string(w, *i, &key))
		return break_root(k, *i);
	return value_step(k, i, tauti_kineto_key(key), *i + 2);
}

static enum step skip_step(struct kineto *k, uint32_t *i)
{
	const struct tauti_window *w = &k->window;
	while (k->depth) {
		unsigned class = tauti_token_kind(w, *i);
		if (!(tauti_token_follows[k->before] >> class & 1))
			return stopped_in_root(k, *i);
		bool may_go_on = class == TAUTI_TOKEN_STRING ||
				 class == TAUTI_TOKEN_WORD;
		if (may_go_on && is_behind(k, *i + 1))
			return STEP_MORE;
		k->depth += class == TAUTI_TOKEN_OPEN;
		k->depth -= class == TAUTI_TOKEN_CLOSE;
		k->before = class;
		++*i;
	}
	k->state = KINETO_ROOT;
	return STEP_ON;
}

static enum step lose_event(
	struct kineto *k, uint32_t begin, enum tauti_lost why)
{
	tauti_builder_lose(k->builder, why, offset_of(k, begin));
	k->builder->events_seen++;
	k->state = KINETO_RESYNC;
	k->tail[0] = k->tail[1] = 0;
	k->phase_passed = false;
	return STEP_RESTART;
}

/* A value among the events that is none, such as null. Where it is whole, the
 * text behind it can be trusted. */
static enum step value_among_events(struct kineto *k, uint32_t *i)
{
	uint32_t end = *i;
	bool whole = tauti_token_skip(&k->window, &end);
	char next = tauti_token_byte(&k->window, end);
	if (is_behind(k, *i) ||
		(is_behind(k, end) && !tauti_window_is_full(&k->window)))
		return STEP_MORE;
	if (is_behind(k, end))
		return lose_event(k, *i, TAUTI_LOST_LARGE);
	if (!whole || (next != ',' && next != ']'))
		return lose_event(k, *i, TAUTI_LOST_BROKEN);
	tauti_builder_lose(k->builder, TAUTI_LOST_BROKEN, offset_of(k, *i));
	k->builder->events_seen++;
	*i = end;
	return STEP_ON;
}

static enum step event_step(struct kineto *k, uint32_t *i)
{
	uint32_t begin = *i;
	enum kineto_result result = tauti_kineto_event(k, i);
	if (result == KINETO_OK) {
		k->event_end = offset_of(k, *i - 1) + 1;
		return STEP_ON;
	}
	if (result == KINETO_NO_MEMORY)
		return no_memory(k);
	bool behind = is_behind(k, *i);
	*i = begin;
	if (behind && !tauti_window_is_full(&k->window))
		return STEP_MORE;
	return lose_event(
		k, begin, behind ? TAUTI_LOST_LARGE : TAUTI_LOST_BROKEN);
}

static enum step events_step(struct kineto *k, uint32_t *i)
{
	switch (tauti_token_byte(&k->window, *i)) {
	case '{':
		return event_step(k, i);
	case ',':
		++*i;
		return STEP_ON;
	case ']':
		++*i;
		k->state = k->bare ? KINETO_DONE : KINETO_ROOT;
		return STEP_ON;
	default:
		return value_among_events(k, i);
	}
}

static bool is_done(const struct kineto *k)
{
	return k->state == KINETO_DONE ||
	       (k->head_only && k->state == KINETO_EVENTS);
}

/* Walks the window; *ret_used is what is done with. */
static enum step walk(struct kineto *k, size_t *ret_used)
{
	const struct tauti_window *w = &k->window;
	enum step step = STEP_ON;
	uint32_t i = 0;
	if (k->state == KINETO_RESYNC)
		return tauti_kineto_resync(k, ret_used) ? STEP_RESTART :
							  STEP_MORE;
	while (step == STEP_ON && !is_done(k)) {
		switch (k->state) {
		case KINETO_START:
			step = start_step(k, &i);
			break;
		case KINETO_ROOT:
			step = root_step(k, &i);
			break;
		case KINETO_SKIP:
			step = skip_step(k, &i);
			break;
		default:
			step = events_step(k, &i);
			break;
		}
	}
	k->extra = k->state == KINETO_DONE && !is_behind(k, i);
	*ret_used = is_behind(k, i) ? w->span : w->at[i];
	/* A broken event is done with as far as its first byte. */
	*ret_used += step == STEP_RESTART;
	return step;
}

static taut_status walk_all(struct kineto *k)
{
	taut_status status = TAUT_OK;
	while (status == TAUT_OK && k->state != KINETO_DONE) {
		size_t used = 0;
		enum step step = walk(k, &used);
		if (step == STEP_ERROR)
			return k->err ? k->err->code : TAUT_EFORMAT;
		if (k->state == KINETO_DONE ||
			(step == STEP_MORE && k->window.last))
			break;
		status = step == STEP_RESTART ?
			tauti_window_restart(&k->window, used, k->err) :
			tauti_window_next(&k->window, used, k->err);
	}
	return status;
}

/* To the end of the stream, for its checksum and its length. */
static taut_status drain(struct kineto *k)
{
	taut_status status = TAUT_OK;
	while (status == TAUT_OK && !k->window.last) {
		status = tauti_window_next(
			&k->window, k->window.span, k->err);
		k->extra |= k->state == KINETO_DONE && k->window.n > 0;
	}
	k->builder->bytes_read = k->window.offset + k->window.span;
	return status;
}

/* --- the end ------------------------------------------------------------- */

/* Is "5.7" 5 us and 7 ns? Builds of March 2024 wrote nanoseconds without
 * leading zeros, and said "displayTimeUnit": "ns". In such a file no fraction
 * of two or more digits begins with a zero, and about one in a hundred is
 * 10, 20 ... 90, which decimals cut by Python never are; builds that pad
 * always write three digits. 64 fractions without a leading zero would be
 * decimals once in a thousand files. */
static bool is_unpadded(const struct kineto *k)
{
	return k->display_ns && !k->padded && k->short_fractions &&
	       (k->unpadded || k->fractions >= 64);
}

static void name_lanes(struct kineto *k)
{
	struct tauti_lanes *lanes = &k->builder->lanes;
	for (size_t i = 0; i < k->lane_names.count; i++) {
		const struct kineto_lane_name *name = &k->lane_names.data[i];
		for (int role = 0; role < TAUTI_ROLE_TEXT; role++) {
			uint32_t id = tauti_lanes_find(lanes,
				(enum tauti_role)role, name->pid, name->tid);
			if (id != TAUT_NONE)
				lanes->all.data[id].name = name->name;
		}
	}
}

static const char *const lost_text[TAUTI_LOST_COUNT] = {
	[TAUTI_LOST_BROKEN] = "not JSON",
	[TAUTI_LOST_LARGE] = "larger than 16 MiB",
	[TAUTI_LOST_BEHIND] = "behind one that is not JSON",
	[TAUTI_LOST_TIME] = "no readable ts or dur",
	[TAUTI_LOST_PLACE] = "no readable pid or tid",
	[TAUTI_LOST_NO_BEGIN] = "an end (ph E) without its begin",
};

static const char *state_text(const struct kineto *k)
{
	switch (k->state) {
	case KINETO_EVENTS:
	case KINETO_RESYNC:
		return "inside traceEvents";
	default:
		return "behind traceEvents";
	}
}

static taut_status note_truncated(
	struct kineto *k, const struct tauti_stream *stream)
{
	struct tauti_builder *b = k->builder;
	unsigned long long end = k->broken ? k->broken_at : b->bytes_read;
	const char *gzip = tauti_stream_is_cut(stream) ?
		" (the gzip file itself is cut short)" : "";
	if (k->broken)
		return tauti_builder_note(b,
			"is broken at byte %llu, behind traceEvents; the rest "
			"is left out, all %zu events are kept",
			end, b->n_rows);
	if (k->state == KINETO_DONE)
		return tauti_builder_note(b,
			"the gzip file is cut short, but its trace is whole");
	return tauti_builder_note(b,
		"ends early at byte %llu, %s%s; what is whole, up to byte "
		"%llu, is kept: %zu events",
		end, state_text(k), gzip, (unsigned long long)k->event_end,
		b->n_rows);
}

static taut_status add_notes(
	struct kineto *k, const struct tauti_stream *stream)
{
	struct tauti_builder *b = k->builder;
	taut_status status = TAUT_OK;
	if (b->truncated)
		status = note_truncated(k, stream);
	if (status == TAUT_OK)
		status = tauti_builder_note_lost(b, "event", lost_text);
	if (status == TAUT_OK && k->negative)
		status = tauti_builder_note(b,
			"%llu events end before they begin; their duration "
			"is taken as 0",
			(unsigned long long)k->negative);
	if (status == TAUT_OK && b->nano_unpadded)
		status = tauti_builder_note(b,
			"times hold nanoseconds without leading zeros (a "
			"build of March 2024); read as such");
	if (status == TAUT_OK && k->extra && !k->broken)
		status = tauti_builder_note(b,
			"what stands behind the end of its JSON is left out");
	if (status == TAUT_OK && tauti_stream_has_tail(stream))
		status = tauti_builder_note(b,
			"bytes behind the gzip data are left out");
	return status;
}

/* Some event is of a kind that PyTorch's profiler writes. */
static bool has_known_kind(struct tauti_builder *b)
{
	for (size_t i = b->first_row; i < b->n_rows; i++)
		if (tauti_builder_row_at(b, (uint32_t)i)->kind != TAUT_KIND_OTHER)
			return true;
	return false;
}

static taut_status refuse_root(const struct kineto *k)
{
	unsigned long long end = k->builder->bytes_read;
	if (k->broken)
		return taut_error_set(k->err, TAUT_EFORMAT,
			(int64_t)k->broken_at,
			"%s: byte %llu: %s; expected a PyTorch profiler trace",
			path_of(k), (unsigned long long)k->broken_at,
			k->too_large ? "a value larger than 16 MiB" :
				       "no JSON");
	if (k->state != KINETO_DONE)
		return taut_error_set(k->err, TAUT_EFORMAT, (int64_t)end,
			"%s: ends at byte %llu, before traceEvents; it was "
			"cut short",
			path_of(k), end);
	k->builder->other_kind = true;
	return taut_error_set(k->err, TAUT_EFORMAT, -1,
		"%s: is JSON without traceEvents; expected a PyTorch profiler "
		"trace",
		path_of(k));
}

static taut_status refuse_empty(const struct kineto *k)
{
	struct tauti_builder *b = k->builder;
	unsigned long long end = b->bytes_read;
	if (b->truncated && !b->events_seen)
		return taut_error_set(k->err, TAUT_EFORMAT, (int64_t)end,
			"%s: ends at byte %llu, before its first whole event; "
			"it was cut short",
			path_of(k), end);
	b->other_kind = !b->truncated && b->lost[TAUTI_LOST_BROKEN] == 0;
	return taut_error_set(k->err, TAUT_EFORMAT, -1,
		"%s: of its %llu events none is of a kind that PyTorch's "
		"profiler writes",
		path_of(k), (unsigned long long)b->events_seen);
}

static taut_status settle(
	struct kineto *k, const struct tauti_stream *stream)
{
	struct tauti_builder *b = k->builder;
	if (k->state == KINETO_RESYNC && tauti_kineto_ends_well(k))
		k->state = KINETO_DONE;
	b->truncated = k->broken || k->state != KINETO_DONE ||
		       tauti_stream_is_cut(stream);
	if (!k->has_events)
		return refuse_root(k);
	if (!has_known_kind(b))
		return refuse_empty(k);
	tauti_kineto_close_open(k);
	name_lanes(k);
	b->nano_unpadded = is_unpadded(k);
	if (!tauti_kineto_fill_copies(k) || add_notes(k, stream) != TAUT_OK) {
		no_memory(k);
		return TAUT_ENOMEM;
	}
	return TAUT_OK;
}

static taut_status read_kineto(struct tauti_stream *stream,
	struct tauti_builder *builder, struct taut_error *err)
{
	struct taut_error own;
	struct kineto k = {
		.builder = builder,
		.err = err ? err : &own,
	};
	taut_status status = tauti_window_init(
		&k.window, stream, builder->window_bytes, k.err);
	if (status != TAUT_OK)
		return status;
	status = walk_all(&k);
	if (status == TAUT_OK)
		status = drain(&k);
	if (status == TAUT_OK)
		status = settle(&k, stream);
	tauti_window_fini(&k.window);
	taut_vec_free(&k.lane_names);
	taut_vec_free(&k.call_bytes);
	taut_vec_free(&k.scratch);
	return status;
}

taut_status tauti_kineto_rank(struct tauti_stream *stream, int32_t *ret_rank,
	struct taut_error *err)
{
	struct taut_error own;
	struct tauti_builder builder;
	struct kineto k = {
		.builder = &builder,
		.err = err ? err : &own,
		.head_only = true,
	};
	size_t used;
	*ret_rank = -1;
	taut_status status =
		tauti_builder_init(&builder, tauti_stream_name(stream));
	if (status != TAUT_OK)
		return taut_error_set(err, status, -1,
			"%s: no memory to open it", tauti_stream_name(stream));
	status = tauti_window_init(&k.window, stream, 0, k.err);
	if (status == TAUT_OK)
		status = tauti_window_next(&k.window, 0, k.err);
	if (status == TAUT_OK && walk(&k, &used) == STEP_ERROR)
		status = k.err->code;
	if (status == TAUT_OK)
		*ret_rank = builder.rank;
	tauti_window_fini(&k.window);
	tauti_builder_fini(&builder);
	return status;
}

static bool probe_kineto(const char *head, size_t len)
{
	size_t i = 0;
	while (i < len && strchr(" \t\r\n", head[i]) && head[i])
		i++;
	return i < len && (head[i] == '{' || head[i] == '[');
}

const struct tauti_format tauti_format_kineto = {
	.name = "kineto",
	.probe = probe_kineto,
	.read = read_kineto,
};

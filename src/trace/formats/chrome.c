/* chrome.c - the walk, window after window. What a step did not find whole is
 * looked at again, from its start, in the next window. */
#include "trace/formats/chrome.h"

#include <string.h>

#include "trace/json/number.h"
#include "trace/json/string.h"
#include "trace/stream.h"

enum { MAX_DEPTH = 1000 }; /* of open spans that are looked through */

enum step {
	STEP_ON,
	STEP_MORE,    /* the window ends inside what begins at *i */
	STEP_RESTART, /* mark anew from *i, carefully */
	STEP_ERROR,   /* c->err is set */
};

static uint64_t offset_of(const struct tauti_chrome *c, uint32_t i)
{
	return c->window.offset + c->window.at[i];
}

static bool is_behind(const struct tauti_chrome *c, uint32_t i)
{
	return i >= c->window.n;
}

static enum step no_memory(struct tauti_chrome *c)
{
	taut_error_set(c->err, TAUT_ENOMEM, -1, "%s: no memory for its events",
		c->builder->path);
	return STEP_ERROR;
}

/* --- the steps ------------------------------------------------------------- */

static enum step stop(struct tauti_chrome *c, uint32_t i)
{
	if (is_behind(c, i) && !tauti_window_is_full(&c->window))
		return STEP_MORE;
	c->broken = true;
	c->state = TAUTI_CHROME_DONE;
	return STEP_ON;
}

static enum step start_step(struct tauti_chrome *c, uint32_t *i)
{
	char first = tauti_token_byte(&c->window, *i);
	if (first != '{' && first != '[')
		return stop(c, *i);
	c->bare = c->has_events = first == '[';
	c->state = c->bare ? TAUTI_CHROME_EVENTS : TAUTI_CHROME_ROOT;
	++*i;
	return STEP_ON;
}

static enum step key_step(struct tauti_chrome *c, uint32_t *i)
{
	const struct tauti_window *w = &c->window;
	struct tauti_text key;
	uint32_t end = *i + 2;
	if (tauti_token_byte(w, *i + 1) != ':')
		return stop(c, *i + 1);
	if (is_behind(c, end))
		return stop(c, end);
	if (tauti_token_string(w, *i, &key) &&
		tauti_text_is(key, "traceEvents") &&
		tauti_token_byte(w, end) == '[') {
		c->has_events = true;
		c->state = TAUTI_CHROME_EVENTS;
		*i = end + 1;
		return STEP_ON;
	}
	if (!tauti_token_skip(w, &end) || is_behind(c, end))
		return stop(c, end);
	*i = end;
	return STEP_ON;
}

static enum step root_step(struct tauti_chrome *c, uint32_t *i)
{
	switch (tauti_token_byte(&c->window, *i)) {
	case '"':
		return key_step(c, i);
	case '}':
		c->state = TAUTI_CHROME_DONE;
		++*i;
		return STEP_ON;
	case ',':
		++*i;
		return STEP_ON;
	default:
		return stop(c, *i);
	}
}

static enum step lose_event(
	struct tauti_chrome *c, uint32_t begin, enum tauti_lost why)
{
	tauti_builder_lose(c->builder, why, offset_of(c, begin));
	c->builder->events_seen++;
	c->state = TAUTI_CHROME_RESYNC;
	return STEP_RESTART;
}

static enum step event_step(struct tauti_chrome *c, uint32_t *i)
{
	uint32_t begin = *i;
	struct tauti_chrome_event e = { 0 };
	if (!tauti_chrome_fields(&c->window, i, &e)) {
		bool behind = is_behind(c, *i);
		*i = begin;
		if (behind && !tauti_window_is_full(&c->window))
			return STEP_MORE;
		return lose_event(c, begin,
			behind ? TAUTI_LOST_LARGE : TAUTI_LOST_BROKEN);
	}
	c->builder->events_seen++;
	c->begin = offset_of(c, begin);
	c->event_end = offset_of(c, *i - 1) + 1;
	return c->face->event(c, &e) ? STEP_ON : no_memory(c);
}

static enum step events_step(struct tauti_chrome *c, uint32_t *i)
{
	switch (tauti_token_byte(&c->window, *i)) {
	case '{':
		return event_step(c, i);
	case ',':
		++*i;
		return STEP_ON;
	case ']':
		++*i;
		c->state = c->bare ? TAUTI_CHROME_DONE : TAUTI_CHROME_ROOT;
		return STEP_ON;
	default:
		return is_behind(c, *i) ?
			STEP_MORE : lose_event(c, *i, TAUTI_LOST_BROKEN);
	}
}

/* To the next '{' that begins with a key. */
static enum step resync(struct tauti_chrome *c, size_t *ret_used)
{
	const struct tauti_window *w = &c->window;
	bool may_wait = !w->last && !tauti_window_is_full(w);
	size_t p = 0;
	for (; p < w->span; p++) {
		if (w->text[p] != '{')
			continue;
		size_t q = p + 1;
		while (q < w->span && w->text[q] &&
			strchr(" \t\r\n", w->text[q]))
			q++;
		if (q == w->span && may_wait)
			break;
		if (q < w->span && w->text[q] == '"') {
			c->state = TAUTI_CHROME_EVENTS;
			*ret_used = p;
			return STEP_RESTART;
		}
	}
	*ret_used = p;
	return STEP_MORE;
}

static enum step walk(struct tauti_chrome *c, size_t *ret_used)
{
	enum step step = STEP_ON;
	uint32_t i = 0;
	if (c->state == TAUTI_CHROME_RESYNC)
		return resync(c, ret_used);
	while (step == STEP_ON && c->state != TAUTI_CHROME_DONE) {
		switch (c->state) {
		case TAUTI_CHROME_START:
			step = start_step(c, &i);
			break;
		case TAUTI_CHROME_ROOT:
			step = root_step(c, &i);
			break;
		default:
			step = events_step(c, &i);
			break;
		}
	}
	*ret_used = is_behind(c, i) ? c->window.span : c->window.at[i];
	/* a broken event is done with as far as its first byte */
	*ret_used += step == STEP_RESTART;
	return step;
}

static taut_status walk_all(struct tauti_chrome *c)
{
	taut_status status = TAUT_OK;
	while (status == TAUT_OK && c->state != TAUTI_CHROME_DONE) {
		size_t used = 0;
		enum step step = walk(c, &used);
		if (step == STEP_ERROR)
			return TAUT_ENOMEM;
		if (step == STEP_MORE && c->window.last)
			break;
		if (c->state == TAUTI_CHROME_DONE)
			break;
		status = step == STEP_RESTART ?
			tauti_window_restart(&c->window, used, c->err) :
			tauti_window_next(&c->window, used, c->err);
	}
	/* to the end, for the checksum of the gzip and for the length */
	while (status == TAUT_OK && !c->window.last)
		status = tauti_window_next(
			&c->window, c->window.span, c->err);
	c->builder->bytes_read = c->window.offset + c->window.span;
	return status;
}

/* --- the end --------------------------------------------------------------- */

static bool is_space(char byte)
{
	return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

/* Nothing but a comma stands behind the last event that was whole. The file's
 * end is in the window: a rest that is longer than that is no comma. */
static bool ends_between_events(const struct tauti_chrome *c)
{
	const struct tauti_window *w = &c->window;
	if (c->state != TAUTI_CHROME_EVENTS)
		return false;
	size_t i = c->event_end > w->offset ?
		(size_t)(c->event_end - w->offset) : 0;
	for (; i < w->span; i++)
		if (!is_space(w->text[i]) && w->text[i] != ',')
			return false;
	return true;
}

static taut_status note_end(
	struct tauti_chrome *c, const struct tauti_stream *stream)
{
	struct tauti_builder *b = c->builder;
	bool cut = tauti_stream_is_cut(stream);
	if (!cut && c->face->left_open && c->bare && ends_between_events(c))
		return TAUT_OK;
	b->truncated = cut || c->broken || c->state != TAUTI_CHROME_DONE;
	if (!b->truncated)
		return TAUT_OK;
	return tauti_builder_note(b,
		"ends early at byte %llu%s; what is whole, up to byte %llu, is "
		"kept: %zu events",
		(unsigned long long)b->bytes_read,
		cut ? " (the gzip file itself is cut short)" : "",
		(unsigned long long)c->event_end, b->n_rows);
}

static const char *const lost_text[TAUTI_LOST_COUNT] = {
	[TAUTI_LOST_BROKEN] = "not JSON",
	[TAUTI_LOST_LARGE] = "larger than 16 MiB",
	[TAUTI_LOST_TIME] = "no readable ts or dur",
	[TAUTI_LOST_PLACE] = "no readable pid or tid",
	[TAUTI_LOST_NO_BEGIN] = "an end without its begin",
};

static taut_status add_notes(
	struct tauti_chrome *c, const struct tauti_stream *stream)
{
	struct tauti_builder *b = c->builder;
	taut_status status = note_end(c, stream);
	if (status == TAUT_OK)
		status = tauti_builder_note_lost(b, "event", lost_text);
	if (status == TAUT_OK && c->negative)
		status = tauti_builder_note(b,
			"%llu events end before they begin; their duration "
			"is taken as 0",
			(unsigned long long)c->negative);
	if (status == TAUT_OK && tauti_stream_has_tail(stream))
		status = tauti_builder_note(
			b, "bytes behind the gzip data are left out");
	return status;
}

static taut_status refuse(struct tauti_chrome *c)
{
	struct tauti_builder *b = c->builder;
	unsigned long long end = b->bytes_read;
	b->other_kind = c->state == TAUTI_CHROME_DONE && !c->broken;
	if (!c->has_events || !b->events_seen)
		return taut_error_set(c->err, TAUT_EFORMAT, (int64_t)end,
			"%s: ends at byte %llu, before its first whole event; "
			"expected %s",
			b->path, end, c->face->what);
	return taut_error_set(c->err, TAUT_EFORMAT, -1,
		"%s: of its %llu events none is of a kind that %s has",
		b->path, (unsigned long long)b->events_seen, c->face->what);
}

taut_status tauti_chrome_read(struct tauti_stream *stream,
	struct tauti_builder *builder, const struct tauti_chrome_face *face,
	void *format, struct taut_error *err)
{
	struct taut_error own;
	struct tauti_chrome c = {
		.builder = builder,
		.err = err ? err : &own,
		.face = face,
		.format = format,
	};
	taut_status status = tauti_window_init(
		&c.window, stream, builder->window_bytes, c.err);
	if (status != TAUT_OK)
		return status;
	size_t before = builder->n_rows;
	status = walk_all(&c);
	if (status == TAUT_OK && !face->finish(&c))
		status = TAUT_ENOMEM;
	if (status == TAUT_OK && builder->n_rows == before)
		status = refuse(&c);
	else if (status == TAUT_OK)
		status = add_notes(&c, stream);
	if (status == TAUT_ENOMEM)
		no_memory(&c);
	tauti_window_fini(&c.window);
	taut_vec_free(&c.scratch);
	return status;
}

/* --- values ---------------------------------------------------------------- */

bool tauti_text_is(struct tauti_text text, const char *literal)
{
	return strlen(literal) == text.len &&
	       memcmp(text.at, literal, text.len) == 0;
}

bool tauti_text_starts(struct tauti_text text, const char *literal)
{
	size_t len = strlen(literal);
	return len <= text.len && memcmp(text.at, literal, len) == 0;
}

bool tauti_text_ends(struct tauti_text text, const char *literal)
{
	size_t len = strlen(literal);
	return len <= text.len &&
	       memcmp(text.at + text.len - len, literal, len) == 0;
}

struct tauti_text tauti_chrome_string(
	const struct tauti_chrome *c, uint32_t token)
{
	struct tauti_text text;
	if (!token || !tauti_token_string(&c->window, token, &text))
		return (struct tauti_text){ "", 0 };
	return text;
}

uint32_t tauti_chrome_text(struct tauti_chrome *c, struct tauti_text text)
{
	if (text.len == 0)
		return 0;
	if (tauti_string_is_plain(text.at, text.len))
		return taut_names_add(c->builder->names, text.at, text.len);
	taut_vec_clear(&c->scratch);
	if (!taut_vec_reserve(&c->scratch, TAUTI_STRING_ROOM(text.len)))
		return TAUT_NONE;
	size_t len = tauti_string_decode(text.at, text.len, c->scratch.data);
	return taut_names_add(c->builder->names, c->scratch.data, len);
}

uint32_t tauti_chrome_name(struct tauti_chrome *c, uint32_t token)
{
	return tauti_chrome_text(c, tauti_chrome_string(c, token));
}

bool tauti_chrome_int(
	const struct tauti_chrome *c, uint32_t token, int64_t *ret_value)
{
	return token && tauti_number_int(
				tauti_token_at(&c->window, token), ret_value);
}

void tauti_chrome_lose(struct tauti_chrome *c, enum tauti_lost why)
{
	tauti_builder_lose(c->builder, why, c->begin);
}

bool tauti_chrome_time(
	struct tauti_chrome *c, uint32_t token, int64_t *ret_ns)
{
	unsigned digits;
	if (token && tauti_number_us(tauti_token_at(&c->window, token), ret_ns,
			     &digits) &&
		*ret_ns <= TAUTI_TIME_LIMIT_NS &&
		*ret_ns >= -TAUTI_TIME_LIMIT_NS)
		return true;
	tauti_chrome_lose(c, TAUTI_LOST_TIME);
	return false;
}

bool tauti_chrome_span(struct tauti_chrome *c,
	const struct tauti_chrome_event *e, int64_t *ret_start_ns,
	int64_t *ret_dur_ns)
{
	*ret_dur_ns = 0;
	if (!tauti_chrome_time(c, e->ts, ret_start_ns) ||
		(e->dur && !tauti_chrome_time(c, e->dur, ret_dur_ns)))
		return false;
	if (*ret_dur_ns < 0) {
		*ret_dur_ns = 0;
		c->negative++;
	}
	if (*ret_dur_ns > TAUTI_TIME_LIMIT_NS / 2)
		*ret_dur_ns = TAUTI_TIME_LIMIT_NS / 2;
	return true;
}

uint32_t tauti_chrome_arg(
	const struct tauti_chrome *c, uint32_t args, const char *key)
{
	const struct tauti_window *w = &c->window;
	struct tauti_text text;
	uint32_t i = args;
	if (!args || tauti_token_byte(w, i) != '{')
		return 0;
	do {
		if (!tauti_token_string(w, ++i, &text) ||
			tauti_token_byte(w, ++i) != ':')
			return 0;
		if (tauti_text_is(text, key))
			return i + 1;
		i++;
		if (!tauti_token_skip(w, &i))
			return 0;
	} while (tauti_token_byte(w, i) == ',');
	return 0;
}

/* --- B and E --------------------------------------------------------------- */

bool tauti_opens_push(struct tauti_opens *o, int64_t a, int64_t b,
	const struct tauti_open *open)
{
	uint32_t key = tauti_lanes_add(&o->keys, TAUTI_ROLE_OTHER, a, b);
	uint32_t at = o->free ? o->free - 1 : (uint32_t)o->all.count;
	if (key == TAUT_NONE || at >= TAUT_NONE - 1)
		return false;
	if (at == o->all.count && !taut_vec_push(&o->all, *open))
		return false;
	if (o->free)
		o->free = o->all.data[at].below;
	o->all.data[at] = *open;
	o->all.data[at].below = o->keys.all.data[key].open;
	o->keys.all.data[key].open = at;
	return true;
}

/* Takes *link out of its stack. */
static void take(struct tauti_opens *o, uint32_t *link,
	struct tauti_open *ret_open)
{
	uint32_t at = *link;
	*ret_open = o->all.data[at];
	*link = o->all.data[at].below;
	o->all.data[at].below = o->free;
	o->free = at + 1;
}

bool tauti_opens_pop(struct tauti_opens *o, int64_t a, int64_t b,
	uint32_t name, struct tauti_open *ret_open)
{
	uint32_t key = tauti_lanes_find(&o->keys, TAUTI_ROLE_OTHER, a, b);
	if (key == TAUT_NONE)
		return false;
	uint32_t *link = &o->keys.all.data[key].open;
	for (int depth = 0; *link != TAUT_NONE && name != TAUT_NONE &&
		o->all.data[*link].name != name; depth++) {
		if (depth == MAX_DEPTH)
			return false;
		link = &o->all.data[*link].below;
	}
	if (*link == TAUT_NONE)
		return false;
	take(o, link, ret_open);
	return true;
}

bool tauti_opens_drain(struct tauti_opens *o, int64_t *ret_a, int64_t *ret_b,
	struct tauti_open *ret_open)
{
	while (o->keys.all.count) {
		struct tauti_lane *key =
			&o->keys.all.data[o->keys.all.count - 1];
		if (key->open != TAUT_NONE) {
			*ret_a = key->pid;
			*ret_b = key->tid;
			take(o, &key->open, ret_open);
			return true;
		}
		o->keys.all.count--;
	}
	return false;
}

void tauti_opens_fini(struct tauti_opens *o)
{
	tauti_lanes_fini(&o->keys);
	taut_vec_free(&o->all);
}

/* --- probes ---------------------------------------------------------------- */

bool tauti_head_begins(const char *head, size_t len, char first)
{
	size_t i = 0;
	while (i < len && is_space(head[i]))
		i++;
	return i < len && head[i] == first;
}

bool tauti_head_holds(const char *head, size_t len, const char *text)
{
	return memmem(head, len, text, strlen(text)) != NULL;
}

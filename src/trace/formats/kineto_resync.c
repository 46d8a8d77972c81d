/* kineto_resync.c - where to go on after an event that is no JSON.
 *
 * Some builds wrote names with raw quotes in them (pytorch issue 146900).
 * Such a quote turns the text inside out, so nothing behind it can be trusted
 * by counting. What can be trusted is a sequence that no well-formed text has
 * inside a string, since the quotes in it would be escaped there:
 *
 *     ,  {  "ph" or another key of an event  :       the next event
 *     ]  ,  "traceName" or another key of the root  :   their end
 *
 * Events that are passed, since they begin with another key, are counted.
 */
#include "trace/formats/kineto.h"

#include <string.h>

struct matcher {
	const char *p, *end;
	bool more; /* ran into the end of the bytes */
};

static bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static void skip_space(struct matcher *m)
{
	while (m->p < m->end && is_space(*m->p))
		m->p++;
}

static bool match_byte(struct matcher *m, char c)
{
	skip_space(m);
	if (m->p == m->end) {
		m->more = true;
		return false;
	}
	if (*m->p != c)
		return false;
	m->p++;
	return true;
}

/* A string of the list (with its quotes), and a colon. */
static bool match_key(
	struct matcher *m, const char *const *keys, size_t n_keys)
{
	skip_space(m);
	size_t left = (size_t)(m->end - m->p);
	for (size_t i = 0; i < n_keys; i++) {
		size_t len = strlen(keys[i]);
		if (memcmp(m->p, keys[i], len < left ? len : left) != 0)
			continue;
		if (len > left) {
			m->more = true;
			return false;
		}
		m->p += len;
		return match_byte(m, ':');
	}
	return false;
}

static bool match_event(struct matcher *m)
{
	static const char *const keys[] = { "\"ph\"", "\"name\"", "\"cat\"",
		"\"pid\"", "\"tid\"", "\"ts\"", "\"dur\"", "\"args\"", "\"id\"",
		"\"bp\"", "\"s\"", "\"cname\"", "\"sf\"", "\"tts\"", "\"tdur\"",
		"\"v\"" };
	return match_byte(m, '{') &&
	       match_key(m, keys, sizeof keys / sizeof *keys);
}

static bool match_root(struct matcher *m)
{
	static const char *const keys[] = { "\"traceName\"",
		"\"displayTimeUnit\"", "\"baseTimeNanoseconds\"",
		"\"distributedInfo\"", "\"deviceProperties\"",
		"\"schemaVersion\"", "\"trace_id\"", "\"with_flops\"",
		"\"with_modules\"", "\"with_stack\"" };
	return match_byte(m, ',') &&
	       match_key(m, keys, sizeof keys / sizeof *keys);
}

/* The last two bytes passed that are no space. */
static void remember_tail(struct kineto *k, size_t used)
{
	const char *text = k->window.text;
	char last[2];
	size_t n = 0;
	while (used && n < 2) {
		used--;
		if (!is_space(text[used]))
			last[n++] = text[used];
	}
	if (n == 0)
		return;
	k->tail[0] = n == 2 ? last[1] : k->tail[1];
	k->tail[1] = last[0];
}

/* Every event has one "ph", so those that are passed tell how many events
 * are; the first is of the event that is lost already. */
static void pass_phase(struct kineto *k, const char *p)
{
	if (k->phase_passed) {
		tauti_builder_lose(k->builder, TAUTI_LOST_BEHIND,
			k->window.offset + (uint64_t)(p - k->window.text));
		k->builder->events_seen++;
	}
	k->phase_passed = true;
}

/* Looks at what p begins. True: matched; m->more: it cannot be told yet. */
static bool match_at(struct kineto *k, struct matcher *m, char first)
{
	if (first == ',' && match_event(m))
		k->state = KINETO_EVENTS;
	else if (first == ']' && match_root(m))
		k->state = KINETO_ROOT;
	return k->state != KINETO_RESYNC;
}

bool tauti_kineto_resync(struct kineto *k, size_t *ret_used)
{
	const struct tauti_window *w = &k->window;
	const char *end = w->text + w->span, *p = w->text;
	bool may_wait = !w->last && !tauti_window_is_full(w);
	static const char *const phase[] = { "ph\"" };
	for (; p < end; p++) {
		struct matcher m = { p + 1, end, false };
		if (match_at(k, &m, *p)) {
			*ret_used = (size_t)(p - w->text) + 1;
			return true;
		}
		bool is_phase = *p == '"' && match_key(&m, phase, 1);
		if (m.more && may_wait)
			break;
		if (is_phase)
			pass_phase(k, p);
	}
	*ret_used = (size_t)(p - w->text);
	remember_tail(k, *ret_used);
	return false;
}

/* The text ends as a trace does: ]} or, for a bare array, ]. */
bool tauti_kineto_ends_well(const struct kineto *k)
{
	return k->bare ? k->tail[1] == ']' :
			 k->tail[0] == ']' && k->tail[1] == '}';
}

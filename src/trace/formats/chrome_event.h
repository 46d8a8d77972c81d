/* chrome_event.h - the fields of one event of a Chrome trace: where their
 * values stand. Inlined: it is the inner loop of every reader of such files. */
#ifndef TAUT_TRACE_CHROME_EVENT_H
#define TAUT_TRACE_CHROME_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "trace/json/token.h"

struct tauti_chrome_event { /* tokens of the values; 0: absent */
	char phase;	    /* 0: absent */
	uint32_t category, name, pid, tid, ts, dur, id, args;
};

/* The first four bytes of a key with its quote, as a number. */
#define TAUTI_CHROME_KEY(a, b, c, d) \
	((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | \
		(uint32_t)(d) << 24)

static inline void tauti_chrome_take(const struct tauti_window *w,
	const char *key, uint32_t value, struct tauti_chrome_event *e)
{
	uint32_t head;
	memcpy(&head, key, sizeof head);
	switch (head) {
	case TAUTI_CHROME_KEY('"', 'p', 'h', '"'):
		e->phase = tauti_token_at(w, value)[1];
		break;
	case TAUTI_CHROME_KEY('"', 't', 's', '"'):
		e->ts = value;
		break;
	case TAUTI_CHROME_KEY('"', 'i', 'd', '"'):
		e->id = value;
		break;
	case TAUTI_CHROME_KEY('"', 'd', 'u', 'r'):
		if (key[4] == '"')
			e->dur = value;
		break;
	case TAUTI_CHROME_KEY('"', 'p', 'i', 'd'):
		if (key[4] == '"')
			e->pid = value;
		break;
	case TAUTI_CHROME_KEY('"', 't', 'i', 'd'):
		if (key[4] == '"')
			e->tid = value;
		break;
	case TAUTI_CHROME_KEY('"', 'c', 'a', 't'):
		if (key[4] == '"')
			e->category = value;
		break;
	case TAUTI_CHROME_KEY('"', 'n', 'a', 'm'):
		if (TAUTI_TOKEN_IS(key, "\"name\""))
			e->name = value;
		break;
	case TAUTI_CHROME_KEY('"', 'a', 'r', 'g'):
		if (TAUTI_TOKEN_IS(key, "\"args\""))
			e->args = value;
		break;
	}
}

/* Moves *ret_i from the event's '{' behind it; false: to the token that does
 * not fit, or that is behind the window. */
static inline bool tauti_chrome_fields(const struct tauti_window *w,
	uint32_t *ret_i, struct tauti_chrome_event *e)
{
	uint32_t i = *ret_i + 1;
	bool whole = false;
	if (tauti_token_byte(w, i) == '}') {
		*ret_i = i + 1;
		return true;
	}
	for (;;) {
		if (tauti_token_byte(w, i) != '"')
			break;
		const char *key = tauti_token_at(w, i++);
		if (tauti_token_byte(w, i) != ':')
			break;
		uint32_t value = ++i;
		if (!tauti_token_skip(w, &i))
			break;
		char next = tauti_token_byte(w, i);
		if (next != ',' && next != '}')
			break;
		tauti_chrome_take(w, key, value, e);
		i++;
		if (next == '}') {
			whole = true;
			break;
		}
	}
	*ret_i = i;
	return whole;
}

#endif /* TAUT_TRACE_CHROME_EVENT_H */

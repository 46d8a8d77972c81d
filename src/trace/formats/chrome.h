/* chrome.h - walks the events of a Chrome trace, for formats that are one.
 *
 * The root is the array of events, or an object with traceEvents; a writer
 * may stop at any event and never close either. The walk hands each whole
 * event to the format, drops what is broken (counted) and goes on behind it.
 * Kineto has a walk of its own, since it knows its root's keys.
 *
 * Threads: one at a time. Units: nanoseconds, of microseconds in the file. */
#ifndef TAUT_TRACE_CHROME_H
#define TAUT_TRACE_CHROME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "trace/builder.h"
#include "trace/formats/chrome_event.h"

struct tauti_stream;
struct tauti_chrome;

struct tauti_chrome_face { /* what a format adds */
	const char *what; /* "a Horovod timeline", for messages */
	/* One whole event; tokens are of c->window. False: no memory. */
	bool (*event)(
		struct tauti_chrome *c, const struct tauti_chrome_event *e);
	/* After the last: makes the rows that are left. False: no memory. */
	bool (*finish)(struct tauti_chrome *c);
	bool left_open; /* its writers never close the array */
};

enum tauti_chrome_state {
	TAUTI_CHROME_START,
	TAUTI_CHROME_ROOT,   /* before a key of the root object */
	TAUTI_CHROME_EVENTS, /* before an event */
	TAUTI_CHROME_RESYNC, /* behind a broken event */
	TAUTI_CHROME_DONE,
};

struct tauti_chrome {
	struct tauti_window window;
	struct tauti_builder *builder;
	struct taut_error *err;
	const struct tauti_chrome_face *face;
	void *format; /* the format's own state */

	/* Private. */
	enum tauti_chrome_state state;
	bool bare, has_events;
	bool broken; /* outside the events: the rest is left out */
	uint64_t begin; /* byte of the event at hand */
	uint64_t event_end; /* byte behind the last whole event */
	uint64_t negative;  /* durations below zero */
	TAUT_VEC(char) scratch;
};

/* The whole read of a format: walk, finish, notes. format is handed to the
 * face's functions. As struct tauti_format has it; TAUT_EFORMAT also when no
 * row came of it. */
TAUT_NODISCARD taut_status tauti_chrome_read(struct tauti_stream *stream,
	struct tauti_builder *builder, const struct tauti_chrome_face *face,
	void *format, struct taut_error *err);

/* --- for the face's functions --------------------------------------------- */

/* The string at a token; empty where there is none (0) or it is none. */
struct tauti_text tauti_chrome_string(
	const struct tauti_chrome *c, uint32_t token);
/* Its id among the names. TAUT_NONE: no memory. */
uint32_t tauti_chrome_name(struct tauti_chrome *c, uint32_t token);
/* The same of a part of a string; 8 bytes behind it must be readable. */
uint32_t tauti_chrome_text(struct tauti_chrome *c, struct tauti_text text);
bool tauti_chrome_int(
	const struct tauti_chrome *c, uint32_t token, int64_t *ret_value);
/* Microseconds as ns; false, and the event is counted as lost: none. */
bool tauti_chrome_time(
	struct tauti_chrome *c, uint32_t token, int64_t *ret_ns);
/* start and dur of a complete event; false as above. */
bool tauti_chrome_span(struct tauti_chrome *c,
	const struct tauti_chrome_event *e, int64_t *ret_start_ns,
	int64_t *ret_dur_ns);
/* The value of a key of the args; 0: it is not there. */
uint32_t tauti_chrome_arg(
	const struct tauti_chrome *c, uint32_t args, const char *key);
void tauti_chrome_lose(struct tauti_chrome *c, enum tauti_lost why);
bool tauti_text_is(struct tauti_text text, const char *literal);
bool tauti_text_starts(struct tauti_text text, const char *literal);
bool tauti_text_ends(struct tauti_text text, const char *literal);

/* --- B and E ---------------------------------------------------------------
 * Stacks of open spans, one a key (any two numbers). */
struct tauti_open {
	int64_t start_ns;
	uint32_t name;
	uint32_t tag;	/* the format's */
	uint32_t below; /* next of the same stack, or of the free ones */
};

struct tauti_opens { /* zero: none */
	struct tauti_lanes keys; /* lane.open is the top */
	TAUT_VEC(struct tauti_open) all;
	uint32_t free; /* index + 1; 0 none */
};

TAUT_NODISCARD bool tauti_opens_push(struct tauti_opens *opens, int64_t a,
	int64_t b, const struct tauti_open *open);
/* The innermost of that name (TAUT_NONE: of any); false: none is open. */
bool tauti_opens_pop(struct tauti_opens *opens, int64_t a, int64_t b,
	uint32_t name, struct tauti_open *ret_open);
/* Pops of any key, until false. */
bool tauti_opens_drain(struct tauti_opens *opens, int64_t *ret_a,
	int64_t *ret_b, struct tauti_open *ret_open);
void tauti_opens_fini(struct tauti_opens *opens);

/* --- probes ------------------------------------------------------------------*/

/* Is the first byte that is no space this one? */
bool tauti_head_begins(const char *head, size_t len, char first);
/* Do the first len bytes hold the text? */
bool tauti_head_holds(const char *head, size_t len, const char *text);

#endif /* TAUT_TRACE_CHROME_H */

/* items.h - a JSON object of which one value is a long array of objects.
 *
 *     { "schema": "1.0.1", "nodes": [ {...}, {...}, ... ], "pid": 7 }
 *
 * Every item is handed over whole, and so is every other value of the root;
 * the text itself is never held. Where it ends early or is broken, what came
 * before has been handed over.
 * Threads: one at a time. */
#ifndef TAUT_TRACE_JSON_ITEMS_H
#define TAUT_TRACE_JSON_ITEMS_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/json/token.h"
#include "trace/json/window.h"

enum tauti_items_end {
	TAUTI_ITEMS_WHOLE,
	TAUTI_ITEMS_CUT,    /* the text ends inside something */
	TAUTI_ITEMS_BROKEN, /* no JSON, or a value above TAUTI_WINDOW_MAX */
};

struct tauti_items {
	const char *key; /* of the array */
	/* Token i of the window begins the object, which is whole. False: no
	 * memory; reading ends with TAUT_ENOMEM. */
	bool (*item)(void *context, const struct tauti_window *window,
		uint32_t i, uint64_t offset);
	/* The same of another value of the root; NULL: they are passed. */
	bool (*other)(void *context, const struct tauti_window *window,
		struct tauti_text key, uint32_t i);
	void *context;

	/* Set by reading. */
	enum tauti_items_end end;
	uint64_t end_at; /* byte where it is cut or broken */
	uint64_t bytes;	 /* of the text */
	bool found;	 /* the array was there */
};

/* Reads the stream, which is at its start, to its end. window_bytes as in
 * tauti_window_init(). TAUT_ENOMEM, TAUT_EIO; TAUT_EFORMAT: gzip is corrupt. */
TAUT_NODISCARD taut_status tauti_items_read(struct tauti_items *items,
	struct tauti_stream *stream, size_t window_bytes,
	struct taut_error *err);

/* The value of a key of the object at token i, which is whole; 0: it is not
 * there. */
uint32_t tauti_items_value(
	const struct tauti_window *window, uint32_t i, const char *key);

/* Walks the pairs of the object at token *i, which is whole: first with *i at
 * its brace, then with what the call before left there. False: no more. */
bool tauti_items_pair(const struct tauti_window *window, uint32_t *ret_i,
	struct tauti_text *ret_key, uint32_t *ret_value);

/* The next element of the array at token *i, in the same way. */
bool tauti_items_element(
	const struct tauti_window *window, uint32_t *ret_i, uint32_t *ret_value);

bool tauti_items_is(struct tauti_text text, const char *literal);

#endif /* TAUT_TRACE_JSON_ITEMS_H */

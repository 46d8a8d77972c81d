/* tree.h - small inputs as trees of values: dumps that are read whole and
 * then asked for this and that, whether they were written as JSON or pickled.
 *
 * Owner:   values lie in the caller's arena; texts too.
 * Threads: one at a time. */
#ifndef TAUT_TRACE_TREE_H
#define TAUT_TRACE_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include <taut/base.h>

#include "trace/json/window.h"

TAUT_BEGIN_DECLS

struct tauti_stream;

enum tauti_value_kind {
	TAUTI_VALUE_NONE,
	TAUTI_VALUE_BOOL,   /* integer is 0 or 1 */
	TAUTI_VALUE_INT,
	TAUTI_VALUE_DOUBLE,
	TAUTI_VALUE_TEXT,   /* one line of UTF-8; zero-terminated */
	TAUTI_VALUE_LIST,   /* or a tuple */
	TAUTI_VALUE_DICT,   /* items are key, value, key, value ... */
};

struct tauti_value {
	enum tauti_value_kind kind;
	uint32_t count, room; /* of items; count also: bytes of a text */
	int64_t integer;      /* of a double: cut off, where it fits */
	double number;	      /* of an INT too */
	const char *text;     /* of a word without quotes too */
	struct tauti_value **items;
};

#define TAUTI_TREE_KEYS 256 /* keys of a dict that are looked at */

/* The value of a key; NULL: dict is NULL, no dict, or has none. A pickle may
 * hold a value in many places, even in itself: who walks down a tree does it
 * to a fixed depth. */
const struct tauti_value *tauti_tree_get(
	const struct tauti_value *dict, const char *key);
/* The same for a dict that holds something under each of many names: so many
 * keys are looked at. */
const struct tauti_value *tauti_tree_find(
	const struct tauti_value *dict, const char *key, uint32_t keys);
/* Item i of a list; NULL: list is NULL, no list, or shorter. */
const struct tauti_value *tauti_tree_item(
	const struct tauti_value *list, uint32_t i);
/* A number, or a text that is one; otherwise where it is neither. */
int64_t tauti_tree_int(const struct tauti_value *value, int64_t otherwise);
/* Is it an INT that integer holds? One of JSON that has more than 63 bits wraps there. */
bool tauti_tree_is_whole(const struct tauti_value *value);
/* "" where it is no text. */
const char *tauti_tree_text(const struct tauti_value *value);

struct tauti_value *tauti_tree_add(
	struct taut_arena *arena, enum tauti_value_kind kind);
TAUT_NODISCARD bool tauti_tree_push(struct taut_arena *arena,
	struct tauti_value *list, struct tauti_value *item);
/* A text made one line of UTF-8. False: no memory. */
TAUT_NODISCARD bool tauti_tree_set_text(struct taut_arena *arena,
	struct tauti_value *value, const char *text, size_t len);

/* --- pickle: the opcodes that plain data needs, of protocols 2 to 5; one
 * that would call something is refused by its name --------------------------*/
TAUT_NODISCARD taut_status tauti_tree_unpickle(const char *name,
	const unsigned char *bytes, size_t len, struct taut_arena *arena,
	struct tauti_value **ret_value, struct taut_error *err);

/* --- JSON, value after value: the elements of the array that the text is, or
 * the values that stand in it one behind the other (a line each). Words
 * without quotes are texts. ------------------------------------------------*/
struct tauti_values {
	struct tauti_window window;
	uint32_t i;	  /* token */
	bool begun, array, done;
	bool cut;	  /* the text ended inside a value, or before its ] */
	bool broken;	  /* no JSON from offset on; the rest is left out */
	uint64_t offset;
};
TAUT_NODISCARD taut_status tauti_values_init(struct tauti_values *values,
	struct tauti_stream *stream, size_t window_bytes,
	struct taut_error *err);
void tauti_values_fini(struct tauti_values *values);
/* *ret_value is NULL at the end. TAUT_ENOMEM, and what the stream says. */
TAUT_NODISCARD taut_status tauti_values_next(struct tauti_values *values,
	struct taut_arena *arena, struct tauti_value **ret_value,
	struct taut_error *err);

/* The value at token i of a window, which is whole. *ret_value is NULL where it
 * is nested too deeply. False: no memory. */
TAUT_NODISCARD bool tauti_tree_of_token(struct taut_arena *arena,
	const struct tauti_window *window, uint32_t i,
	struct tauti_value **ret_value);

/* The one JSON value that a text is. what: what was expected, as "a plan, which is one
 * JSON object". TAUT_EFORMAT: "NAME:LINE: expected WHAT"; TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_tree_json(const char *name, const char *text,
	size_t bytes, const char *what, struct taut_arena *arena,
	struct tauti_value **ret_value, struct taut_error *err);
/* A file of at most so many bytes as a text that the caller frees. TAUT_EIO;
 * TAUT_EFORMAT: it has more; TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_tree_text_of(const char *path, size_t most_bytes,
	const char *what, char **ret_text, size_t *ret_bytes,
	struct taut_error *err);

TAUT_END_DECLS
#endif /* TAUT_TRACE_TREE_H */

/* index.h - where the tokens of a JSON text stand, found by simdjson.
 *
 * simdjson's first stage marks every { } [ ] : , and the first byte of every
 * string, number and word, at some gigabytes a second and with the vector
 * instructions of the machine that it runs on. It needs no whole document,
 * so a window over a text of any size can be indexed; the rest of the reader
 * walks these marks.
 *
 * Leniency, chosen since a profiler's file is worth reading:
 * - raw control bytes inside strings (a name with a newline) are changed, to
 *   spaces or 0x7f;
 * - bytes that are no UTF-8 are left to whoever takes the string;
 * - a string that the window's end cuts is marked as a token, with nothing
 *   behind it.
 * Threads: one at a time. */
#ifndef TAUT_TRACE_JSON_INDEX_H
#define TAUT_TRACE_JSON_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>

TAUT_BEGIN_DECLS

struct tauti_index;

/* For texts of up to capacity bytes (below 4 GiB). NULL: no memory. */
struct tauti_index *tauti_index_create(size_t capacity);
void tauti_index_destroy(struct tauti_index *index); /* NULL is fine */
/* On failure the old capacity stays. */
TAUT_NODISCARD taut_status tauti_index_grow(
	struct tauti_index *index, size_t capacity);

/* Marks the tokens of text[0..len). text[len] must be writable; it is changed
 * and put back. *ret_at is the index's until the next call, with room for
 * TAUTI_INDEX_SPARE entries behind the *ret_n. */
#define TAUTI_INDEX_SPARE 3
TAUT_NODISCARD taut_status tauti_index_run(struct tauti_index *index,
	char *text, size_t len, uint32_t **ret_at, uint32_t *ret_n);

TAUT_END_DECLS
#endif /* TAUT_TRACE_JSON_INDEX_H */

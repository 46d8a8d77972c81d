/* string.h - the text that a JSON string stands for.
 *
 * What a name must not hold becomes something that it may: control bytes, as
 * escapes or raw, become spaces; a zero, half a surrogate pair and bytes that
 * are no UTF-8 become U+FFFD. So every name is one line of UTF-8. */
#ifndef TAUT_TRACE_JSON_STRING_H
#define TAUT_TRACE_JSON_STRING_H

#include <stdbool.h>
#include <stddef.h>

/* True when text[0..len) stands for itself: printable ASCII (and 0x7f)
 * without escapes. The 8 bytes behind text[len] must be readable. */
bool tauti_string_is_plain(const char *text, size_t len);

/* Writes what text[0..len) stands for to out, which has room for
 * TAUTI_STRING_ROOM(len); returns its length. */
#define TAUTI_STRING_ROOM(len) ((len) * 3 + 4)
size_t tauti_string_decode(const char *text, size_t len, char *out);

#endif /* TAUT_TRACE_JSON_STRING_H */

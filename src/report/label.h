/* label.h - names as a person wants to read them in a narrow column.
 *
 * Names come from recordings: they may hold anything, also what would change
 * the terminal that shows them. What these functions return is one line,
 * valid UTF-8, without control characters. */
#ifndef TAUT_REPORT_LABEL_H
#define TAUT_REPORT_LABEL_H

#include <stddef.h>

enum { TAUTI_LABEL_BYTES = 1024 };

/* The next character of text and its length in bytes; U+FFFD and 1 for a byte
 * that is not UTF-8; 0 and 0 at the end. */
unsigned tauti_utf8_next(const char *text, size_t *ret_length);

/* Columns of a terminal that text takes. Colour sequences (ESC [ ... m) take
 * none. */
int tauti_columns(const char *text);

/* The name in at most that many columns (at least 1): of a C++ function
 * without return type, parameters and template arguments (but for the one
 * that says what an elementwise kernel does, if there is room); then, if it
 * is still too long, cut in the middle. Returns ret_label. */
char *tauti_label(
	const char *name, int columns, char ret_label[TAUTI_LABEL_BYTES]);

/* The name as it is, only made harmless; cut at the end when it is longer
 * than the label. Returns ret_label. */
char *tauti_label_plain(const char *name, char ret_label[TAUTI_LABEL_BYTES]);

#endif /* TAUT_REPORT_LABEL_H */

/* fields.h - the members of JSON objects: a comma, the key, the value. Keys are
 * plain ASCII and carry their unit. */
#ifndef TAUT_REPORT_FIELDS_H
#define TAUT_REPORT_FIELDS_H

#include "report/put.h"

/* A row starts on a new line: long tables stay readable, and diffs small. */
void tauti_field_row(struct tauti_put *put, uint32_t i);
/* The same, with its first member. */
void tauti_field_row_text(struct tauti_put *put, uint32_t i, const char *key,
	const char *value);
void tauti_field_key(struct tauti_put *put, const char *key);
/* A member of the outermost object; open is how its value begins. */
void tauti_field_section(
	struct tauti_put *put, const char *key, const char *open);
/* Milliseconds with all six decimals: what adds up in ns adds up here. */
void tauti_field_ms(struct tauti_put *put, const char *key, int64_t ns);
/* null for what JSON has no number for. */
void tauti_field_real(struct tauti_put *put, const char *key, double value);
void tauti_field_integer(struct tauti_put *put, const char *key, int64_t value);
/* null below 0, which is how the tables say that a number is not known. */
void tauti_field_known(struct tauti_put *put, const char *key, int64_t value);
void tauti_field_text(
	struct tauti_put *put, const char *key, const char *value);
void tauti_field_texts(struct tauti_put *put, const char *key,
	const char *const *values, size_t n);

#endif /* TAUT_REPORT_FIELDS_H */

/* put.h - text to a stream, fast: numbers and JSON strings without printf.
 *
 * A caller makes one on its stack, writes, and asks tauti_put_end() whether
 * all of it arrived. After a failed write everything else is dropped.
 * Threads: one writer at a time. */
#ifndef TAUT_REPORT_PUT_H
#define TAUT_REPORT_PUT_H

#include <stdbool.h>
#include <stdio.h>

#include <taut/base.h>

#define TAUTI_PUT_BYTES 32768

struct tauti_put {
	FILE *out;
	size_t n;
	bool failed;
	char bytes[TAUTI_PUT_BYTES];
};

void tauti_put_begin(struct tauti_put *put, FILE *out);
/* Flushes; TAUT_EIO when out refused, now or before. */
taut_status tauti_put_end(struct tauti_put *put, struct taut_error *reterr);

void tauti_put_bytes(struct tauti_put *put, const void *bytes, size_t len);
void tauti_put_text(struct tauti_put *put, const char *text);
void tauti_put_char(struct tauti_put *put, char c);
void tauti_put_int(struct tauti_put *put, int64_t value);
/* A JSON array of n numbers. */
void tauti_put_ranks(struct tauti_put *put, const int32_t *ranks, uint32_t n);
/* Nanoseconds as decimal microseconds with three places: "12.345". */
void tauti_put_us(struct tauti_put *put, int64_t ns);
/* Up to nine decimals, in every locale. What JSON has no number for becomes
 * 0: infinity, NaN, and 9e9 or more. */
void tauti_put_real(struct tauti_put *put, double value);
/* A quoted JSON string that may also stand inside <script>: every '<' is
 * escaped, and bytes that are not UTF-8 become U+FFFD. NULL is "". */
void tauti_put_string(struct tauti_put *put, const char *text);
/* "key": with the quotes and the colon; key is plain ASCII. */
void tauti_put_key(struct tauti_put *put, const char *key);

#endif /* TAUT_REPORT_PUT_H */

/* number.h - numbers as text, the same in every locale.
 * Nanoseconds are divided as integers: what adds up before it is written
 * still adds up when all digits are. */
#ifndef TAUT_REPORT_NUMBER_H
#define TAUT_REPORT_NUMBER_H

#include <stdint.h>

enum { TAUTI_NUMBER_BYTES = 40 }; /* enough for any result below */

/* value / 10^scale with that many decimals, rounded half away from zero.
 * scale and decimals are 0..18. Returns ret_text. */
char *tauti_number(int64_t value, int scale, int decimals,
	char ret_text[TAUTI_NUMBER_BYTES]);

/* Milliseconds, all six decimals or fewer. */
static inline char *tauti_number_ms(
	int64_t ns, int decimals, char ret_text[TAUTI_NUMBER_BYTES])
{
	return tauti_number(ns, 6, decimals, ret_text);
}

/* A real with up to nine decimals; NULL when it is not finite or too large
 * for that (about 9e9 at nine decimals). */
char *tauti_number_real(double value, int decimals,
	char ret_text[TAUTI_NUMBER_BYTES]);

/* A count with commas: "93,342". */
char *tauti_number_count(uint64_t count, char ret_text[TAUTI_NUMBER_BYTES]);
/* Bytes in the largest decimal unit that leaves 1 or more: "10.2 MB". */
char *tauti_number_bytes(uint64_t bytes, char ret_text[TAUTI_NUMBER_BYTES]);

#endif /* TAUT_REPORT_NUMBER_H */

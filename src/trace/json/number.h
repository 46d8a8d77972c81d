/* number.h - numbers taken from the text without a floating-point step: a
 * microsecond since 1970 with three decimals does not fit in a double. */
#ifndef TAUT_TRACE_JSON_NUMBER_H
#define TAUT_TRACE_JSON_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* The integer at text, which may stand in quotes; a fraction is cut off. An
 * unsigned 64-bit number wraps. False: no number. Reads up to the first byte
 * that belongs to no number; the text must hold one. */
bool tauti_number_int(const char *text, int64_t *ret_value);

/* Microseconds at text, as nanoseconds, rounded to the nearest; with the
 * exponent, if there is one. *ret_digits is the number of digits behind the
 * point, at most 4 (4: four or more), and 16 is added when the first of two
 * or more is a zero. False: no number, or beyond 2^62 ns. */
bool tauti_number_us(const char *text, int64_t *ret_ns, unsigned *ret_digits);
#define TAUTI_NUMBER_DIGITS 15u
#define TAUTI_NUMBER_ZERO 16u

#endif /* TAUT_TRACE_JSON_NUMBER_H */

/* number.c - decimal text to integers. */
#include "trace/json/number.h"

#include <stddef.h>

#define LIMIT_NS ((uint64_t)1 << 62)

static bool is_digit(char c)
{
	return (unsigned char)(c - '0') < 10;
}

bool tauti_number_int(const char *text, int64_t *ret_value)
{
	text += *text == '"';
	bool minus = *text == '-';
	text += minus;
	uint64_t value = 0;
	int n = 0;
	for (; is_digit(*text); text++, n++)
		value = value * 10 + (uint64_t)(*text - '0');
	if (n == 0 || n > 20)
		return false;
	*ret_value = (int64_t)(minus ? 0 - value : value);
	return true;
}

/* Digits without a point: value * 10^exponent is what they mean. */
struct decimal {
	uint64_t value;
	int exponent;
};

/* From the first digit on. Digits beyond the 19th only move the exponent. */
static const char *read_decimal(const char *text, struct decimal *ret)
{
	struct decimal d = { 0, 0 };
	int kept = 0;
	bool point = false;
	for (;; text++) {
		if (*text == '.' && !point) {
			point = true;
			continue;
		}
		if (!is_digit(*text))
			break;
		bool fits = kept < 19;
		if (fits)
			d.value = d.value * 10 + (uint64_t)(*text - '0');
		kept += fits && d.value;
		d.exponent += !fits;
		d.exponent -= point;
	}
	*ret = d;
	return text;
}

static bool read_exponent(const char *text, int *exponent)
{
	bool minus = *text == '-';
	text += *text == '-' || *text == '+';
	if (!is_digit(*text))
		return false;
	int value = 0;
	for (; is_digit(*text); text++)
		if (value < 10000)
			value = value * 10 + (*text - '0');
	*exponent += minus ? -value : value;
	return true;
}

/* value * 10^exponent, rounded to the nearest; false above LIMIT_NS. */
static bool scale(struct decimal d, uint64_t *ret_ns)
{
	for (; d.exponent > 0 && d.value; d.exponent--) {
		if (d.value > LIMIT_NS / 10)
			return false;
		d.value *= 10;
	}
	unsigned dropped = 0;
	for (; d.exponent < 0 && (d.value || dropped); d.exponent++) {
		dropped = (unsigned)(d.value % 10);
		d.value /= 10;
	}
	*ret_ns = d.value + (dropped >= 5);
	return *ret_ns <= LIMIT_NS;
}

/* Any form that JSON allows. */
static bool read_us(const char *text, int64_t *ret_ns)
{
	struct decimal d;
	uint64_t ns;
	bool minus = *text == '-';
	text += minus;
	if (!is_digit(*text))
		return false;
	text = read_decimal(text, &d);
	if ((*text | 0x20) == 'e' && !read_exponent(text + 1, &d.exponent))
		return false;
	d.exponent += 3;
	if (!scale(d, &ns))
		return false;
	*ret_ns = minus ? -(int64_t)ns : (int64_t)ns;
	return true;
}

bool tauti_number_us(const char *text, int64_t *ret_ns, unsigned *ret_digits)
{
	static const uint16_t unit_ns[] = { 1000, 100, 10, 1 };
	text += *text == '"';
	const char *p = text;
	uint64_t us = 0, ns = 0;
	unsigned n = 0;
	for (; is_digit(*p); p++)
		us = us * 10 + (uint64_t)(*p - '0');
	ptrdiff_t whole = p - text;
	bool zero = false;
	if (*p == '.') {
		zero = p[1] == '0' && is_digit(p[2]);
		for (p++; is_digit(*p); p++, n++)
			if (n < 3)
				ns = ns * 10 + (uint64_t)(*p - '0');
	}
	*ret_digits = (n < 4 ? n : 4) | (zero ? TAUTI_NUMBER_ZERO : 0);
	if (whole == 0 || whole > 16 || n > 3 || (*p | 0x20) == 'e' ||
		us >= LIMIT_NS / 1000)
		return read_us(text, ret_ns);
	*ret_ns = (int64_t)(us * 1000 + ns * unit_ns[n]);
	return true;
}

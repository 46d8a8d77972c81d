/* number.c - see number.h. */
#include "report/number.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static uint64_t power_of_ten(int n)
{
	uint64_t power = 1;

	while (n-- > 0)
		power *= 10;
	return power;
}

/* Exactly n digits, in front of end. */
static char *digits(char *end, uint64_t value, int n)
{
	for (; n > 0; n--, value /= 10)
		*--end = (char)('0' + value % 10);
	return end;
}

static char *whole(char *end, uint64_t value)
{
	do {
		*--end = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	return end;
}

char *tauti_number(int64_t value, int scale, int decimals,
	char ret_text[TAUTI_NUMBER_BYTES])
{
	char text[TAUTI_NUMBER_BYTES], *end = text + sizeof text;
	uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value;
	char *at = end;

	if (scale > decimals) {
		uint64_t unit = power_of_ten(scale - decimals);

		size = size / unit + (size % unit >= unit - unit / 2);
		scale = decimals;
	}
	if (decimals) {
		for (int i = scale; i < decimals; i++)
			*--at = '0';
		at = digits(at, size % power_of_ten(scale), scale);
		*--at = '.';
	}
	at = whole(at, size / power_of_ten(scale));
	if (value < 0 && size)
		*--at = '-';
	memcpy(ret_text, at, (size_t)(end - at));
	ret_text[end - at] = '\0';
	return ret_text;
}

char *tauti_number_real(double value, int decimals,
	char ret_text[TAUTI_NUMBER_BYTES])
{
	double scaled = value * (double)power_of_ten(decimals);

	if (!(fabs(scaled) < 9e18))
		return NULL;
	return tauti_number(llround(scaled), decimals, decimals, ret_text);
}

char *tauti_number_count(uint64_t count, char ret_text[TAUTI_NUMBER_BYTES])
{
	char text[TAUTI_NUMBER_BYTES], *end = text + sizeof text, *at = end;

	for (; count >= 1000; count /= 1000) {
		at = digits(at, count % 1000, 3);
		*--at = ',';
	}
	at = whole(at, count);
	memcpy(ret_text, at, (size_t)(end - at));
	ret_text[end - at] = '\0';
	return ret_text;
}

char *tauti_number_bytes(uint64_t bytes, char ret_text[TAUTI_NUMBER_BYTES])
{
	static const char *const units[] = { " B", " kB", " MB", " GB", " TB",
		" PB", " EB" };
	uint64_t unit = 1;
	int scale = 0;

	while (bytes / unit >= 1000 && scale < 18) {
		unit *= 1000;
		scale += 3;
	}
	tauti_number((int64_t)(bytes > INT64_MAX ? INT64_MAX : bytes), scale,
		scale ? 1 : 0, ret_text);
	return strcat(ret_text, units[scale / 3]);
}

/* text.c - raw bytes to one line of UTF-8. */
#include "trace/text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_plain(const uint8_t *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (at[i] < 0x20 || at[i] >= 0x80)
			return false;
	return true;
}

/* Bytes of the well-formed character at at[0..len); 0: there is none. */
static size_t character(const uint8_t *at, size_t len)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = at[0] < 0x80 ? 1 : at[0] >> 5 == 6 ? 2 :
		at[0] >> 4 == 14 ? 3 : at[0] >> 3 == 30 ? 4 : 0;
	uint32_t code = n < 2 ? at[0] : at[0] & (0x7fu >> n);
	if (n == 0 || n > len)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if (at[i] >> 6 != 2)
			return 0;
		code = code << 6 | (at[i] & 0x3f);
	}
	if (code < least[n] || code > 0x10ffff ||
		(code >= 0xd800 && code < 0xe000))
		return 0;
	return n;
}

/* out has room for three bytes a byte. */
static size_t clean(const uint8_t *at, size_t len, char *out)
{
	size_t n = 0;
	for (size_t i = 0; i < len;) {
		size_t bytes = character(at + i, len - i);
		if (bytes == 0 || at[i] == 0) {
			memcpy(out + n, "\xef\xbf\xbd", 3);
			n += 3;
			i++;
			continue;
		}
		memcpy(out + n, at + i, bytes);
		if (at[i] < 0x20)
			out[n] = ' ';
		n += bytes;
		i += bytes;
	}
	return n;
}

uint32_t tauti_text_name(
	struct taut_names *names, const void *bytes, size_t len)
{
	if (len > TAUTI_TEXT_MAX)
		len = TAUTI_TEXT_MAX;
	if (is_plain(bytes, len))
		return taut_names_add(names, len ? bytes : "", len);
	char *out = malloc(len * 3);
	if (!out)
		return TAUT_NONE;
	uint32_t id = taut_names_add(names, out, clean(bytes, len, out));
	free(out);
	return id;
}

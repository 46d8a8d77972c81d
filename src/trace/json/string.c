/* string.c - escapes and UTF-8. */
#include "trace/json/string.h"

#include <stdint.h>
#include <string.h>

#define EACH(byte) (0x0101010101010101u * (uint64_t)(byte))

bool tauti_string_is_plain(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t word;
		memcpy(&word, text + i, sizeof word);
		if (len - i < 8) { /* what follows the text becomes 'a' */
			unsigned behind = 8 * (8 - (unsigned)(len - i));
			word = word << behind | EACH('a') >> (64 - behind);
		}
		/* A byte below 1, and below 0x20: the borrow reaches its
		 * highest bit. */
		uint64_t slash = word ^ EACH('\\');
		uint64_t found = (slash - EACH(1)) & ~slash;
		found |= (word - EACH(0x20)) & ~word;
		if ((found | word) & EACH(0x80))
			return false;
	}
	return true;
}

static size_t put_code(uint32_t code, char *out)
{
	if (code == 0 || (code >= 0xd800 && code < 0xe000))
		code = 0xfffd;
	if (code < 0x80) {
		out[0] = code < 0x20 ? ' ' : (char)code;
		return 1;
	}
	if (code < 0x800) {
		out[0] = (char)(0xc0 | code >> 6);
		out[1] = (char)(0x80 | (code & 0x3f));
		return 2;
	}
	if (code < 0x10000) {
		out[0] = (char)(0xe0 | code >> 12);
		out[1] = (char)(0x80 | (code >> 6 & 0x3f));
		out[2] = (char)(0x80 | (code & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | code >> 18);
	out[1] = (char)(0x80 | (code >> 12 & 0x3f));
	out[2] = (char)(0x80 | (code >> 6 & 0x3f));
	out[3] = (char)(0x80 | (code & 0x3f));
	return 4;
}

/* Four hexadecimal digits at p[0..4); false: they are not. */
static bool read_hex(const char *p, const char *end, uint32_t *ret_code)
{
	uint32_t code = 0;
	if (end - p < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		char c = p[i];
		char lower = (char)(c | 0x20);
		if (c >= '0' && c <= '9')
			code = code << 4 | (uint32_t)(c - '0');
		else if (lower >= 'a' && lower <= 'f')
			code = code << 4 | (uint32_t)(lower - 'a' + 10);
		else
			return false;
	}
	*ret_code = code;
	return true;
}

/* Behind "\u"; a high surrogate takes the low one that follows. */
static const char *read_unicode(
	const char *p, const char *end, uint32_t *ret_code)
{
	uint32_t low;
	if (!read_hex(p, end, ret_code)) {
		*ret_code = 0xfffd;
		return p;
	}
	p += 4;
	if (*ret_code >= 0xd800 && *ret_code < 0xdc00 && end - p >= 6 &&
		p[0] == '\\' && p[1] == 'u' && read_hex(p + 2, end, &low) &&
		low >= 0xdc00 && low < 0xe000) {
		*ret_code = 0x10000 + ((*ret_code - 0xd800) << 10) +
			    (low - 0xdc00);
		p += 6;
	}
	return p;
}

/* Behind the backslash, which is not the last byte. */
static const char *read_escape(
	const char *p, const char *end, uint32_t *ret_code)
{
	char c = *p++;
	switch (c) {
	case 'b':
	case 'f':
	case 'n':
	case 'r':
	case 't':
		*ret_code = ' ';
		return p;
	case 'u':
		return read_unicode(p, end, ret_code);
	default: /* quote, slashes, and what is no escape at all */
		*ret_code = (unsigned char)c < 0x80 ? (unsigned char)c : 0xfffd;
		return p;
	}
}

/* One character of two or more bytes; on a fault, one byte as U+FFFD. */
static const char *read_utf8(
	const char *p, const char *end, uint32_t *ret_code)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned char first = (unsigned char)*p;
	int len = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
	uint32_t code = first & (0xffu >> (len + 1));
	*ret_code = 0xfffd;
	if (first < 0xc2 || first > 0xf4 || end - p < len)
		return p + 1;
	for (int i = 1; i < len; i++) {
		unsigned char c = (unsigned char)p[i];
		if ((c & 0xc0) != 0x80)
			return p + 1;
		code = code << 6 | (c & 0x3f);
	}
	if (code < least[len] || code > 0x10ffff)
		return p + 1;
	*ret_code = code;
	return p + len;
}

size_t tauti_string_decode(const char *text, size_t len, char *out)
{
	const char *p = text, *end = text + len;
	size_t n = 0;
	while (p < end) {
		uint32_t code = (unsigned char)*p;
		if (code == '\\' && end - p > 1)
			p = read_escape(p + 1, end, &code);
		else if (code >= 0x80)
			p = read_utf8(p, end, &code);
		else
			p++;
		n += put_code(code, out + n);
	}
	return n;
}

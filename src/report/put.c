/* put.c - see put.h. */
#include "report/put.h"

#include <errno.h>
#include <string.h>

#include "report/number.h"

void tauti_put_begin(struct tauti_put *put, FILE *out)
{
	put->out = out;
	put->n = 0;
	put->failed = false;
}

static void flush(struct tauti_put *put)
{
	if (!put->failed && put->n &&
		fwrite(put->bytes, 1, put->n, put->out) != put->n)
		put->failed = true;
	put->n = 0;
}

taut_status tauti_put_end(struct tauti_put *put, struct taut_error *reterr)
{
	flush(put);
	if (!put->failed && fflush(put->out) != 0)
		put->failed = true;
	if (put->failed)
		return taut_error_set(reterr, TAUT_EIO, -1,
			"the report cannot be written: %s",
			errno ? strerror(errno) : "the stream refused");
	return TAUT_OK;
}

void tauti_put_bytes(struct tauti_put *put, const void *bytes, size_t len)
{
	const char *from = bytes;

	while (len) {
		size_t room = sizeof put->bytes - put->n;
		size_t part = len < room ? len : room;

		memcpy(put->bytes + put->n, from, part);
		put->n += part;
		from += part;
		len -= part;
		if (put->n == sizeof put->bytes)
			flush(put);
	}
}

void tauti_put_text(struct tauti_put *put, const char *text)
{
	tauti_put_bytes(put, text, strlen(text));
}

void tauti_put_char(struct tauti_put *put, char c)
{
	tauti_put_bytes(put, &c, 1);
}

/* Digits of value, at least `least` of them, ending at end. */
static char *digits(char *end, uint64_t value, int least)
{
	while (value || least > 0) {
		*--end = (char)('0' + value % 10);
		value /= 10;
		least--;
	}
	return end;
}

void tauti_put_int(struct tauti_put *put, int64_t value)
{
	char text[24], *end = text + sizeof text;
	uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value;
	char *at = digits(end, size, 1);

	if (value < 0)
		*--at = '-';
	tauti_put_bytes(put, at, (size_t)(end - at));
}

void tauti_put_ranks(struct tauti_put *put, const int32_t *ranks, uint32_t n)
{
	tauti_put_char(put, '[');
	for (uint32_t i = 0; i < n; i++) {
		if (i)
			tauti_put_char(put, ',');
		tauti_put_int(put, ranks[i]);
	}
	tauti_put_char(put, ']');
}

void tauti_put_us(struct tauti_put *put, int64_t ns)
{
	char text[28], *end = text + sizeof text;
	uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
	char *at = digits(end, size % 1000, 3);

	*--at = '.';
	at = digits(at, size / 1000, 1);
	if (ns < 0)
		*--at = '-';
	tauti_put_bytes(put, at, (size_t)(end - at));
}

void tauti_put_real(struct tauti_put *put, double value)
{
	char text[TAUTI_NUMBER_BYTES];
	size_t len;

	if (!tauti_number_real(value, 9, text)) {
		tauti_put_char(put, '0');
		return;
	}
	len = strlen(text);
	while (text[len - 1] == '0')
		len--;
	tauti_put_bytes(put, text, text[len - 1] == '.' ? len - 1 : len);
}

/* Length of the UTF-8 sequence at s, 0 when it is none: too long a form, a
 * surrogate or a cut one. The terminating zero ends any sequence. */
static size_t utf8_length(const unsigned char *s)
{
	static const unsigned least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = s[0] < 0xc2 ? 0
		: s[0] < 0xe0  ? 2
		: s[0] < 0xf0  ? 3
		: s[0] < 0xf5  ? 4
			       : 0;
	unsigned code = n ? s[0] & (0x7fu >> n) : 0;

	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3fu);
	}
	if (code < least[n] || code > 0x10ffff || (code & ~0x7ffu) == 0xd800)
		return 0;
	return n;
}

static void put_escape(struct tauti_put *put, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	char code[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };

	if (c == '"' || c == '\\') {
		tauti_put_char(put, '\\');
		tauti_put_char(put, (char)c);
	} else {
		tauti_put_bytes(put, code, sizeof code);
	}
}

void tauti_put_string(struct tauti_put *put, const char *text)
{
	const unsigned char *s = (const unsigned char *)(text ? text : "");

	tauti_put_char(put, '"');
	while (*s) {
		size_t plain = 0, wide;

		while (s[plain] >= 0x20 && s[plain] < 0x80 && s[plain] != '"' &&
			s[plain] != '\\' && s[plain] != '<')
			plain++;
		tauti_put_bytes(put, s, plain);
		s += plain;
		if (!*s)
			break;
		if (*s < 0x80) {
			put_escape(put, *s++);
		} else if ((wide = utf8_length(s)) != 0) {
			tauti_put_bytes(put, s, wide);
			s += wide;
		} else {
			tauti_put_text(put, "\\ufffd");
			s++;
		}
	}
	tauti_put_char(put, '"');
}

void tauti_put_key(struct tauti_put *put, const char *key)
{
	tauti_put_char(put, '"');
	tauti_put_text(put, key);
	tauti_put_text(put, "\":");
}

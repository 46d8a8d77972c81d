/* token.h - reading single tokens of a window. All of it is inlined: a trace
 * of a gigabyte has some hundred million tokens.
 *
 * i is the number of a token, 0..n; the token n is a zero byte and fits
 * nowhere, so that who checks every token never walks out of the window. */
#ifndef TAUT_TRACE_JSON_TOKEN_H
#define TAUT_TRACE_JSON_TOKEN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "trace/json/window.h"

/* What a token is, by its first byte. */
enum tauti_token {
	TAUTI_TOKEN_END, /* of the window, or a byte that begins no token */
	TAUTI_TOKEN_STRING,
	TAUTI_TOKEN_WORD, /* number, true, false, null */
	TAUTI_TOKEN_OPEN,
	TAUTI_TOKEN_CLOSE,
	TAUTI_TOKEN_COMMA,
	TAUTI_TOKEN_COLON,
};
extern const uint8_t tauti_token_class[256];
/* Bit c of [p]: a token of class c may follow one of class p. */
extern const uint8_t tauti_token_follows[8];

struct tauti_text { /* bytes in the window, without the quotes */
	const char *at;
	uint32_t len;
};

static inline const char *tauti_token_at(
	const struct tauti_window *w, uint32_t i)
{
	return w->text + w->at[i];
}

static inline char tauti_token_byte(const struct tauti_window *w, uint32_t i)
{
	return w->text[w->at[i]];
}

static inline enum tauti_token tauti_token_kind(
	const struct tauti_window *w, uint32_t i)
{
	return (enum tauti_token)
		tauti_token_class[(uint8_t)tauti_token_byte(w, i)];
}

/* Moves *i behind the value at *i. False where the value is broken or not
 * whole: *i then is the token that does not fit. */
static inline bool tauti_token_skip(
	const struct tauti_window *w, uint32_t *ret_i)
{
	uint32_t i = *ret_i, depth = 0;
	unsigned class = tauti_token_kind(w, i);
	if (class == TAUTI_TOKEN_STRING || class == TAUTI_TOKEN_WORD) {
		*ret_i = i + 1;
		return true;
	}
	if (class != TAUTI_TOKEN_OPEN)
		return false;
	for (unsigned before = class;; before = class) {
		depth += class == TAUTI_TOKEN_OPEN;
		depth -= class == TAUTI_TOKEN_CLOSE;
		if (!depth)
			break;
		class = tauti_token_kind(w, ++i);
		if (!(tauti_token_follows[before] >> class & 1)) {
			*ret_i = i;
			return false;
		}
	}
	*ret_i = i + 1;
	return true;
}

/* The string at i, as it stands (escapes are left). False: no string, or
 * something stands between its end and the next token. */
static inline bool tauti_token_string(
	const struct tauti_window *w, uint32_t i, struct tauti_text *ret_text)
{
	const char *begin = tauti_token_at(w, i);
	const char *end = tauti_token_at(w, i + 1);
	if (*begin != '"')
		return false;
	do {
		end--;
	} while ((unsigned char)*end <= ' ');
	if (end <= begin || *end != '"')
		return false;
	ret_text->at = begin + 1;
	ret_text->len = (uint32_t)(end - begin - 1);
	return true;
}

/* text is the bytes of a string literal with its quotes: "\"ts\"". */
#define TAUTI_TOKEN_IS(at, text) (memcmp((at), (text), sizeof(text) - 1) == 0)

#endif /* TAUT_TRACE_JSON_TOKEN_H */

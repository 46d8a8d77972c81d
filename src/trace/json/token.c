/* token.c - the tables behind token.h. */
#include "trace/json/token.h"

#define BIT(class) (1u << TAUTI_TOKEN_##class)
#define VALUE (BIT(STRING) | BIT(WORD) | BIT(OPEN))

const uint8_t tauti_token_class[256] = {
	['"'] = TAUTI_TOKEN_STRING,
	['-'] = TAUTI_TOKEN_WORD,
	['0'] = TAUTI_TOKEN_WORD,
	['1'] = TAUTI_TOKEN_WORD,
	['2'] = TAUTI_TOKEN_WORD,
	['3'] = TAUTI_TOKEN_WORD,
	['4'] = TAUTI_TOKEN_WORD,
	['5'] = TAUTI_TOKEN_WORD,
	['6'] = TAUTI_TOKEN_WORD,
	['7'] = TAUTI_TOKEN_WORD,
	['8'] = TAUTI_TOKEN_WORD,
	['9'] = TAUTI_TOKEN_WORD,
	['t'] = TAUTI_TOKEN_WORD,
	['f'] = TAUTI_TOKEN_WORD,
	['n'] = TAUTI_TOKEN_WORD,
	['N'] = TAUTI_TOKEN_WORD, /* NaN, which Python writes */
	['I'] = TAUTI_TOKEN_WORD, /* Infinity, the same */
	['i'] = TAUTI_TOKEN_WORD, /* inf, which C++ writes */
	['{'] = TAUTI_TOKEN_OPEN,
	['['] = TAUTI_TOKEN_OPEN,
	['}'] = TAUTI_TOKEN_CLOSE,
	[']'] = TAUTI_TOKEN_CLOSE,
	[','] = TAUTI_TOKEN_COMMA,
	[':'] = TAUTI_TOKEN_COLON,
};

/* Keys are not told from values here: {"a", "b"} passes. What matters is
 * that a quote too many, which turns text inside out, is found where it
 * stands: a string never touches a string or a word. */
const uint8_t tauti_token_follows[8] = {
	[TAUTI_TOKEN_STRING] = BIT(COMMA) | BIT(COLON) | BIT(CLOSE),
	[TAUTI_TOKEN_WORD] = BIT(COMMA) | BIT(CLOSE),
	[TAUTI_TOKEN_OPEN] = VALUE | BIT(CLOSE),
	[TAUTI_TOKEN_CLOSE] = BIT(COMMA) | BIT(CLOSE),
	[TAUTI_TOKEN_COMMA] = VALUE,
	[TAUTI_TOKEN_COLON] = VALUE,
};

/* tree_json.c - JSON values, one after the other, out of a window. */
#include "trace/tree.h"

#include <math.h>
#include <string.h>

#include "trace/json/number.h"
#include "trace/json/token.h"

#define DEPTH_MAX 64

taut_status tauti_values_init(struct tauti_values *values,
	struct tauti_stream *stream, size_t window_bytes,
	struct taut_error *err)
{
	memset(values, 0, sizeof *values);
	taut_status status = tauti_window_init(
		&values->window, stream, window_bytes, err);
	if (status == TAUT_OK)
		status = tauti_window_next(&values->window, 0, err);
	return status;
}

void tauti_values_fini(struct tauti_values *values)
{
	tauti_window_fini(&values->window);
}

/* --- one value ----------------------------------------------------------- */

/* Behind a number: e5, E+5, e-5. 0 where there is none; NAN: it is something else. */
static double exponent_of(const char *text, size_t len)
{
	size_t i = 1 + (len > 1 && (text[1] == '-' || text[1] == '+'));
	int exponent = 0;

	if (!len)
		return 0;
	if ((*text != 'e' && *text != 'E') || i == len || len - i > 4)
		return NAN;
	for (; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return NAN;
		exponent = exponent * 10 + (text[i] - '0');
	}
	return text[1] == '-' ? -exponent : exponent;
}

/* 31; a number with a fraction or an exponent is a double. */
static bool set_number(struct tauti_value *value, const char *text, size_t len)
{
	double scale = 1, number = 0;
	bool fraction = false;
	size_t i = *text == '-';
	double exponent;
	if (i == len || text[i] < '0' || text[i] > '9')
		return false;
	for (; i < len && text[i] != 'e' && text[i] != 'E'; i++) {
		if (text[i] == '.' && !fraction) {
			fraction = true;
			continue;
		}
		if (text[i] < '0' || text[i] > '9')
			return false;
		number = number * 10 + (text[i] - '0');
		scale *= fraction ? 10 : 1;
	}
	exponent = exponent_of(text + i, len - i);
	if (isnan(exponent))
		return false;
	value->kind = fraction || i < len ? TAUTI_VALUE_DOUBLE : TAUTI_VALUE_INT;
	value->number = (*text == '-' ? -number : number) / scale;
	if (i < len)
		value->number *= pow(10, exponent);
	if (i < len)
		value->integer = fabs(value->number) < 0x1p62 ?
			(int64_t)value->number : 0;
	else if (!tauti_number_int(text, &value->integer))
		value->integer = 0;
	return true;
}

static size_t word_len(const char *text)
{
	size_t n = 0;
	while (text[n] && !strchr(" \t\r\n,:]}[{\"", text[n]))
		n++;
	return n;
}

static bool set_word(
	struct taut_arena *arena, struct tauti_value *value, const char *text)
{
	size_t len = word_len(text);
	if (len == 4 && memcmp(text, "null", 4) == 0)
		return true;
	if ((len == 4 && memcmp(text, "true", 4) == 0) ||
		(len == 5 && memcmp(text, "false", 5) == 0)) {
		value->kind = TAUTI_VALUE_BOOL;
		value->integer = len == 4;
		return true;
	}
	if (len && len < 400 && set_number(value, text, len))
		return true;
	return tauti_tree_set_text(arena, value, text, len);
}

/* The value at *ret_i, of which the tokens are known to fit; *ret_i moves
 * behind it. NULL: no memory, or nested too deeply. */
static struct tauti_value *parse(struct taut_arena *arena,
	const struct tauti_window *w, uint32_t *ret_i, int depth)
{
	struct tauti_value *value = tauti_tree_add(arena, TAUTI_VALUE_NONE);
	struct tauti_text text;
	char byte = tauti_token_byte(w, *ret_i);
	if (!value || !depth)
		return NULL;
	if (byte == '"') {
		bool ok = tauti_token_string(w, *ret_i, &text);
		(*ret_i)++;
		return tauti_tree_set_text(arena, value, ok ? text.at : "",
			ok ? text.len : 0) ? value : NULL;
	}
	if (byte != '[' && byte != '{') {
		const char *at = tauti_token_at(w, (*ret_i)++);
		return set_word(arena, value, at) ? value : NULL;
	}
	value->kind = byte == '[' ? TAUTI_VALUE_LIST : TAUTI_VALUE_DICT;
	for ((*ret_i)++; tauti_token_kind(w, *ret_i) != TAUTI_TOKEN_CLOSE;) {
		enum tauti_token kind = tauti_token_kind(w, *ret_i);
		if (kind == TAUTI_TOKEN_COMMA || kind == TAUTI_TOKEN_COLON) {
			(*ret_i)++;
			continue;
		}
		struct tauti_value *item = parse(arena, w, ret_i, depth - 1);
		if (!item || !tauti_tree_push(arena, value, item))
			return NULL;
	}
	(*ret_i)++;
	return value;
}

static bool is_deep(const struct tauti_window *w, uint32_t i, uint32_t end)
{
	int depth = 0;
	for (; i < end; i++) {
		enum tauti_token kind = tauti_token_kind(w, i);
		depth += kind == TAUTI_TOKEN_OPEN;
		depth -= kind == TAUTI_TOKEN_CLOSE;
		if (depth >= DEPTH_MAX - 1)
			return true;
	}
	return false;
}

bool tauti_tree_of_token(struct taut_arena *arena,
	const struct tauti_window *window, uint32_t i,
	struct tauti_value **ret_value)
{
	uint32_t end = i;
	*ret_value = NULL;
	if (!tauti_token_skip(window, &end) || is_deep(window, i, end))
		return true;
	*ret_value = parse(arena, window, &i, DEPTH_MAX);
	return *ret_value != NULL;
}

/* --- one after the other ------------------------------------------------- */

static void stop(struct tauti_values *v, bool cut)
{
	v->done = true;
	v->cut = cut;
	v->broken = !cut;
	v->offset = v->window.offset + v->window.at[v->i];
}

/* More text, of which the token i is the first that is wanted. */
static taut_status more(struct tauti_values *v, struct taut_error *err)
{
	struct tauti_window *w = &v->window;
	size_t used = v->i < w->n ? w->at[v->i] : w->span;
	taut_status status = tauti_window_next(w, used, err);
	v->i = 0;
	return status;
}

/* Passes what stands between values. True: a value begins at i. */
static bool at_value(struct tauti_values *v)
{
	const struct tauti_window *w = &v->window;
	for (;; v->i++) {
		char byte = tauti_token_byte(w, v->i);
		if (v->i == w->n)
			return false;
		if (byte == '[' && !v->begun) {
			v->begun = v->array = true;
			continue;
		}
		if (byte == ']' && v->array) {
			v->done = true;
			return false;
		}
		if (byte == ',')
			continue;
		v->begun = true;
		return true;
	}
}

static taut_status take_value(struct tauti_values *v, struct taut_arena *arena,
	uint32_t end, struct tauti_value **ret_value, struct taut_error *err)
{
	if (is_deep(&v->window, v->i, end)) {
		stop(v, false);
		return TAUT_OK;
	}
	*ret_value = parse(arena, &v->window, &v->i, DEPTH_MAX);
	return *ret_value ? TAUT_OK : taut_error_set(err, TAUT_ENOMEM, -1,
		"no memory for a JSON value");
}

taut_status tauti_values_next(struct tauti_values *v,
	struct taut_arena *arena, struct tauti_value **ret_value,
	struct taut_error *err)
{
	const struct tauti_window *w = &v->window;
	taut_status status = TAUT_OK;
	*ret_value = NULL;
	while (!v->done && status == TAUT_OK) {
		bool found = at_value(v);
		uint32_t end = v->i;
		if (found && tauti_token_skip(w, &end) &&
			(end < w->n || w->last))
			return take_value(v, arena, end, ret_value, err);
		if (v->done)
			break;
		if (found && end < w->n)
			stop(v, false);
		else if (!w->last)
			status = more(v, err);
		else if (found || v->array)
			stop(v, true);
		else
			v->done = true;
	}
	return status;
}

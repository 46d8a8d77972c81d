/* items.c - the root, its array, and their ends. */
#include "trace/json/items.h"

#include "trace/stream.h"

enum step { STEP_ON, STEP_MORE, STEP_DONE, STEP_NO_MEMORY };

struct walk {
	struct tauti_items *items;
	struct tauti_window w;
	bool begun, in_array;
};

static bool is_behind(const struct walk *k, uint32_t i)
{
	return i >= k->w.n;
}

/* The token i does not fit: the window ends before it, or it is wrong. */
static enum step stop_at(struct walk *k, uint32_t i)
{
	bool behind = is_behind(k, i);
	if (behind && !tauti_window_is_full(&k->w))
		return STEP_MORE;
	k->items->end = TAUTI_ITEMS_BROKEN;
	k->items->end_at = k->w.offset + k->w.at[behind ? 0 : i];
	return STEP_DONE;
}

static enum step item_step(struct walk *k, uint32_t *i)
{
	struct tauti_items *items = k->items;
	uint32_t begin = *i, end = begin;
	switch (tauti_token_byte(&k->w, begin)) {
	case ',':
		++*i;
		return STEP_ON;
	case ']':
		++*i;
		k->in_array = false;
		return STEP_ON;
	case '{':
		break;
	default:
		return stop_at(k, begin);
	}
	if (!tauti_token_skip(&k->w, &end))
		return stop_at(k, end);
	*i = end;
	return items->item(items->context, &k->w, begin,
		       k->w.offset + k->w.at[begin]) ?
		STEP_ON : STEP_NO_MEMORY;
}

static enum step value_step(
	struct walk *k, uint32_t *i, struct tauti_text key, uint32_t value)
{
	struct tauti_items *items = k->items;
	uint32_t end = value;
	if (tauti_items_is(key, items->key) &&
		tauti_token_byte(&k->w, value) == '[') {
		items->found = k->in_array = true;
		*i = value + 1;
		return STEP_ON;
	}
	if (!tauti_token_skip(&k->w, &end))
		return stop_at(k, end);
	if (is_behind(k, end)) /* a number may go on there */
		return stop_at(k, end);
	*i = end;
	return !items->other ||
			       items->other(items->context, &k->w, key, value) ?
		STEP_ON : STEP_NO_MEMORY;
}

static enum step root_step(struct walk *k, uint32_t *i)
{
	struct tauti_text key;
	char first = tauti_token_byte(&k->w, *i);
	if (!k->begun && first == '{') {
		k->begun = true;
		++*i;
		return STEP_ON;
	}
	if (k->begun && first == '}') {
		++*i;
		return STEP_DONE;
	}
	if (k->begun && first == ',') {
		++*i;
		return STEP_ON;
	}
	if (!k->begun || first != '"')
		return stop_at(k, *i);
	if (tauti_token_byte(&k->w, *i + 1) != ':')
		return stop_at(k, *i + 1);
	if (is_behind(k, *i + 2))
		return stop_at(k, *i + 2);
	if (!tauti_token_string(&k->w, *i, &key))
		return stop_at(k, *i);
	return value_step(k, i, key, *i + 2);
}

/* Walks the window; *ret_used is what is done with. */
static enum step walk_window(struct walk *k, size_t *ret_used)
{
	uint32_t i = 0;
	enum step step = STEP_ON;
	while (step == STEP_ON)
		step = k->in_array ? item_step(k, &i) : root_step(k, &i);
	*ret_used = is_behind(k, i) ? k->w.span : k->w.at[i];
	return step;
}

static taut_status walk_all(struct walk *k, struct taut_error *err)
{
	taut_status status = TAUT_OK;
	while (status == TAUT_OK) {
		size_t used = 0;
		enum step step = walk_window(k, &used);
		if (step == STEP_DONE)
			return TAUT_OK;
		if (step == STEP_NO_MEMORY)
			return TAUT_ENOMEM;
		if (k->w.last) {
			k->items->end = TAUTI_ITEMS_CUT;
			k->items->end_at = k->w.offset + k->w.span;
			return TAUT_OK;
		}
		status = tauti_window_next(&k->w, used, err);
	}
	return status;
}

taut_status tauti_items_read(struct tauti_items *items,
	struct tauti_stream *stream, size_t window_bytes,
	struct taut_error *err)
{
	struct walk k = { .items = items };
	items->end = TAUTI_ITEMS_WHOLE;
	taut_status status =
		tauti_window_init(&k.w, stream, window_bytes, err);
	if (status != TAUT_OK)
		return status;
	status = walk_all(&k, err);
	while (status == TAUT_OK && !k.w.last) /* for gzip's checksum */
		status = tauti_window_next(&k.w, k.w.span, err);
	items->bytes = k.w.offset + k.w.span;
	if (status == TAUT_OK && tauti_stream_is_cut(stream) &&
		items->end == TAUTI_ITEMS_WHOLE) {
		items->end = TAUTI_ITEMS_CUT;
		items->end_at = items->bytes;
	}
	tauti_window_fini(&k.w);
	return status;
}

/* --- inside an item ---------------------------------------------------------- */

bool tauti_items_is(struct tauti_text text, const char *literal)
{
	return text.len == strlen(literal) &&
	       memcmp(text.at, literal, text.len) == 0;
}

bool tauti_items_element(
	const struct tauti_window *w, uint32_t *ret_i, uint32_t *ret_value)
{
	uint32_t i = *ret_i;
	char at = tauti_token_byte(w, i);
	if (at != '[' && at != ',')
		return false;
	*ret_value = ++i;
	if (!tauti_token_skip(w, &i))
		return false; /* "[]" */
	*ret_i = i;
	return true;
}

bool tauti_items_pair(const struct tauti_window *w, uint32_t *ret_i,
	struct tauti_text *ret_key, uint32_t *ret_value)
{
	uint32_t i = *ret_i;
	char at = tauti_token_byte(w, i);
	if (at != '{' && at != ',')
		return false;
	i++;
	if (!tauti_token_string(w, i, ret_key) ||
		tauti_token_byte(w, i + 1) != ':')
		return false;
	*ret_value = i += 2;
	if (!tauti_token_skip(w, &i))
		return false;
	*ret_i = i;
	return true;
}

uint32_t tauti_items_value(
	const struct tauti_window *w, uint32_t i, const char *key)
{
	struct tauti_text found;
	uint32_t value;
	while (tauti_items_pair(w, &i, &found, &value))
		if (tauti_items_is(found, key))
			return value;
	return 0;
}

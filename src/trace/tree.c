/* tree.c - values, and asking for them. */
#include "trace/tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/json/number.h"
#include "trace/json/string.h"

const struct tauti_value *tauti_tree_find(
	const struct tauti_value *dict, const char *key, uint32_t keys)
{
	if (!dict || dict->kind != TAUTI_VALUE_DICT)
		return NULL;
	for (uint32_t i = 0; i + 1 < dict->count && i / 2 < keys; i += 2)
		if (dict->items[i]->kind == TAUTI_VALUE_TEXT &&
			strcmp(dict->items[i]->text, key) == 0)
			return dict->items[i + 1];
	return NULL;
}

const struct tauti_value *tauti_tree_get(
	const struct tauti_value *dict, const char *key)
{
	return tauti_tree_find(dict, key, TAUTI_TREE_KEYS);
}

const struct tauti_value *tauti_tree_item(
	const struct tauti_value *list, uint32_t i)
{
	return list && list->kind == TAUTI_VALUE_LIST && i < list->count ?
		list->items[i] : NULL;
}

int64_t tauti_tree_int(const struct tauti_value *value, int64_t otherwise)
{
	int64_t number;
	if (!value)
		return otherwise;
	switch (value->kind) {
	case TAUTI_VALUE_BOOL:
	case TAUTI_VALUE_INT:
	case TAUTI_VALUE_DOUBLE:
		return value->integer;
	case TAUTI_VALUE_TEXT:
		return tauti_number_int(value->text, &number) ? number :
								otherwise;
	default:
		return otherwise;
	}
}

bool tauti_tree_is_whole(const struct tauti_value *value)
{
	return value && value->kind == TAUTI_VALUE_INT &&
		fabs(value->number) < 0x1p63;
}

const char *tauti_tree_text(const struct tauti_value *value)
{
	return value && value->kind == TAUTI_VALUE_TEXT ? value->text : "";
}

struct tauti_value *tauti_tree_add(
	struct taut_arena *arena, enum tauti_value_kind kind)
{
	struct tauti_value *value =
		TAUT_ARENA_ARRAY(arena, struct tauti_value, 1);
	if (value)
		value->kind = kind;
	return value;
}

bool tauti_tree_push(struct taut_arena *arena, struct tauti_value *list,
	struct tauti_value *item)
{
	if (list->count == list->room) {
		uint32_t room = list->room ? list->room * 2 : 4;
		if (room < list->room)
			return false;
		struct tauti_value **items =
			TAUT_ARENA_ARRAY(arena, struct tauti_value *, room);
		if (!items)
			return false;
		if (list->count)
			memcpy(items, list->items,
				list->count * sizeof(*items));
		list->items = items;
		list->room = room;
	}
	list->items[list->count++] = item;
	return true;
}

bool tauti_tree_set_text(struct taut_arena *arena, struct tauti_value *value,
	const char *text, size_t len)
{
	char *out = taut_arena_alloc(arena, TAUTI_STRING_ROOM(len) + 1);
	if (!out)
		return false;
	size_t out_len = tauti_string_decode(text, len, out);
	out[out_len] = '\0';
	value->kind = TAUTI_VALUE_TEXT;
	value->text = out;
	value->count = (uint32_t)out_len;
	return true;
}

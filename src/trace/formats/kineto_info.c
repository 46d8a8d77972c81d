/* kineto_info.c - the keys beside traceEvents. */
#include "trace/formats/kineto.h"

#include <string.h>

#include "trace/json/number.h"

static const struct {
	const char *text;
	enum kineto_key key;
} keys[] = {
	{ "traceEvents", KEY_EVENTS },
	{ "distributedInfo", KEY_DISTRIBUTED },
	{ "deviceProperties", KEY_DEVICES },
	{ "baseTimeNanoseconds", KEY_BASE_TIME },
	{ "displayTimeUnit", KEY_DISPLAY_UNIT },
	{ "host_name", KEY_HOST },
	{ "hostname", KEY_HOST },
	{ "schema", KEY_SCHEMA },
	{ "nodes", KEY_NODES },
};

enum kineto_key tauti_kineto_key(struct tauti_text text)
{
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (strlen(keys[i].text) == text.len &&
			memcmp(keys[i].text, text.at, text.len) == 0)
			return keys[i].key;
	return KEY_OTHER;
}

static int32_t small_number(const struct tauti_window *w, uint32_t i)
{
	int64_t value;
	if (!tauti_number_int(tauti_token_at(w, i), &value) || value < 0 ||
		value > INT32_MAX)
		return -1;
	return (int32_t)value;
}

static bool is_key(struct tauti_text key, const char *name)
{
	return key.len == strlen(name) && memcmp(key.at, name, key.len) == 0;
}

static void distributed(struct kineto *k, uint32_t i)
{
	const struct tauti_window *w = &k->window;
	struct tauti_text key;
	if (tauti_token_byte(w, i) != '{' || tauti_token_byte(w, ++i) == '}')
		return;
	do {
		if (!tauti_token_string(w, i, &key) ||
			tauti_token_byte(w, ++i) != ':')
			return;
		i++;
		if (is_key(key, "rank"))
			k->builder->rank = small_number(w, i);
		else if (is_key(key, "world_size"))
			k->builder->world_size = small_number(w, i);
		else if (is_key(key, "pg_count") && small_number(w, i) > 0)
			k->builder->process_groups =
				(uint32_t)small_number(w, i);
		if (!tauti_token_skip(w, &i))
			return;
	} while (tauti_token_byte(w, i++) == ',');
}

/* The object at token *i, which moves behind it. */
static taut_status device(struct kineto *k, uint32_t *i)
{
	const struct tauti_window *w = &k->window;
	struct taut_device is = { .id = -1, .name = "", .major = -1,
		.minor = -1, .multiprocessors = -1 };
	struct tauti_text key;
	if (tauti_token_byte(w, ++*i) == '}')
		return TAUT_OK;
	do {
		if (!tauti_token_string(w, *i, &key) ||
			tauti_token_byte(w, ++*i) != ':')
			return TAUT_OK;
		uint32_t v = ++*i, id;
		struct tauti_text name;
		if (is_key(key, "id"))
			is.id = small_number(w, v);
		else if (is_key(key, "computeMajor"))
			is.major = small_number(w, v);
		else if (is_key(key, "computeMinor"))
			is.minor = small_number(w, v);
		else if (is_key(key, "numSms"))
			is.multiprocessors = small_number(w, v);
		else if (is_key(key, "name") &&
			 tauti_token_string(w, v, &name)) {
			id = tauti_kineto_text(k, name);
			if (id == TAUT_NONE)
				return TAUT_ENOMEM;
			is.name = taut_names_text(k->builder->names, id);
		}
		if (!tauti_token_skip(w, i))
			return TAUT_OK;
	} while (tauti_token_byte(w, (*i)++) == ',');
	return is.id < 0 ? TAUT_OK : tauti_builder_device(k->builder, &is);
}

static taut_status devices(struct kineto *k, uint32_t i)
{
	const struct tauti_window *w = &k->window;
	if (tauti_token_byte(w, i) != '[')
		return TAUT_OK;
	do {
		uint32_t end = ++i;
		if (tauti_token_byte(w, i) != '{' || !tauti_token_skip(w, &end))
			return TAUT_OK;
		taut_status status = device(k, &i);
		if (status != TAUT_OK)
			return status;
		i = end;
	} while (tauti_token_byte(w, i) == ',');
	return TAUT_OK;
}

static void base_time(struct kineto *k, uint32_t i)
{
	int64_t ns;
	if (tauti_number_int(tauti_token_at(&k->window, i), &ns) &&
		ns <= TAUTI_TIME_LIMIT_NS && ns >= -TAUTI_TIME_LIMIT_NS)
		k->builder->base_ns = ns;
}

static void keep_schema(struct kineto *k, uint32_t i)
{
	struct tauti_text text;
	if (!tauti_token_string(&k->window, i, &text))
		return;
	size_t len = text.len < sizeof k->schema - 1 ? text.len :
						       sizeof k->schema - 1;
	for (size_t j = 0; j < len; j++)
		k->schema[j] = text.at[j] < ' ' || text.at[j] > '~' ?
			'?' : text.at[j];
	k->schema[len] = '\0';
}

static taut_status keep_host(struct kineto *k, uint32_t i)
{
	struct tauti_builder *b = k->builder;
	struct tauti_text text;
	if (!tauti_token_string(&k->window, i, &text))
		return TAUT_OK;
	uint32_t id = tauti_kineto_text(k, text);
	if (id == TAUT_NONE)
		return TAUT_ENOMEM;
	b->host = taut_names_text(b->names, id);
	return TAUT_OK;
}

taut_status tauti_kineto_info(struct kineto *k, enum kineto_key key, uint32_t i)
{
	switch (key) {
	case KEY_DISTRIBUTED:
		distributed(k, i);
		break;
	case KEY_DEVICES:
		return devices(k, i);
	case KEY_BASE_TIME:
		base_time(k, i);
		break;
	case KEY_DISPLAY_UNIT:
		k->display_ns = TAUTI_TOKEN_IS(
			tauti_token_at(&k->window, i), "\"ns\"");
		break;
	case KEY_SCHEMA:
		keep_schema(k, i);
		break;
	case KEY_HOST:
		return keep_host(k, i);
	default:
		break;
	}
	return TAUT_OK;
}

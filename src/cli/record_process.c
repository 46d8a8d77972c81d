/* record_process.c - what a process said of itself. The file is foreign: it
 * may hold anything. */
#include <string.h>

#include "cli/record.h"
#include "trace/json/number.h"
#include "trace/json/string.h"
#include "trace/json/token.h"
#include "trace/json/window.h"
#include "trace/stream.h"

enum field_kind { FIELD_TEXT, FIELD_NUMBER, FIELD_PAIR };

static const struct field {
	const char *key;
	enum field_kind kind;
	size_t offset;
} fields[] = {
	{ "host", FIELD_TEXT, offsetof(struct record_process, host) },
	{ "framework", FIELD_TEXT,
		offsetof(struct record_process, framework) },
	{ "state", FIELD_TEXT, offsetof(struct record_process, state) },
	{ "pid", FIELD_NUMBER, offsetof(struct record_process, pid) },
	{ "rank", FIELD_NUMBER, offsetof(struct record_process, rank) },
	{ "world_size", FIELD_NUMBER,
		offsetof(struct record_process, world_size) },
	{ "steps_seen", FIELD_NUMBER,
		offsetof(struct record_process, steps_seen) },
	{ "recorded", FIELD_PAIR, offsetof(struct record_process, recorded) },
	{ "started_ns", FIELD_NUMBER,
		offsetof(struct record_process, started_ns) },
	{ "ended_ns", FIELD_NUMBER,
		offsetof(struct record_process, ended_ns) },
};
enum { N_FIELDS = sizeof fields / sizeof fields[0] };

static const struct field *find_field(const struct tauti_text *key)
{
	for (size_t i = 0; i < N_FIELDS; i++)
		if (strlen(fields[i].key) == key->len &&
			!memcmp(fields[i].key, key->at, key->len))
			return &fields[i];
	return NULL;
}

static bool take_text(const struct tauti_window *w, uint32_t i,
	struct taut_arena *arena, const char **ret_text)
{
	struct tauti_text text;
	char *copy;

	if (!tauti_token_string(w, i, &text))
		return true;
	copy = taut_arena_alloc(arena, TAUTI_STRING_ROOM(text.len) + 1);
	if (!copy)
		return false;
	copy[tauti_string_decode(text.at, text.len, copy)] = '\0';
	*ret_text = copy;
	return true;
}

/* Nothing below zero is meant by any of them. */
static void take_number(
	const struct tauti_window *w, uint32_t i, int64_t *ret_number)
{
	int64_t number;

	if (tauti_token_kind(w, i) == TAUTI_TOKEN_WORD &&
		tauti_number_int(tauti_token_at(w, i), &number) && number >= 0)
		*ret_number = number;
}

/* [A, B] */
static void take_pair(
	const struct tauti_window *w, uint32_t i, int64_t ret_pair[2])
{
	int64_t pair[2] = { -1, -1 };

	if (tauti_token_byte(w, i) != '[')
		return;
	take_number(w, i + 1, &pair[0]);
	if (pair[0] < 0 || tauti_token_byte(w, i + 2) != ',')
		return;
	take_number(w, i + 3, &pair[1]);
	if (pair[1] < pair[0] || tauti_token_byte(w, i + 4) != ']')
		return;
	memcpy(ret_pair, pair, sizeof pair);
}

static bool take_value(const struct tauti_window *w, uint32_t i,
	const struct field *field, struct taut_arena *arena,
	struct record_process *process)
{
	void *value = (char *)process + field->offset;

	switch (field->kind) {
	case FIELD_TEXT:
		return take_text(w, i, arena, value);
	case FIELD_NUMBER:
		take_number(w, i, value);
		return true;
	case FIELD_PAIR:
		take_pair(w, i, value);
		return true;
	}
	return true;
}

static taut_status read_root(const struct tauti_window *w,
	struct taut_arena *arena, struct record_process *process,
	const char *name, struct taut_error *err)
{
	struct tauti_text key;
	uint32_t i = 0;

	if (tauti_token_byte(w, i) != '{')
		goto broken;
	if (tauti_token_byte(w, 1) == '}')
		return TAUT_OK;
	do {
		const struct field *field;

		if (!tauti_token_string(w, ++i, &key) ||
			tauti_token_byte(w, ++i) != ':')
			goto broken;
		field = find_field(&key);
		i++;
		if (field && !take_value(w, i, field, arena, process))
			return taut_error_set(err, TAUT_ENOMEM, -1,
				"%s: no memory", name);
		if (!tauti_token_skip(w, &i))
			goto broken;
	} while (tauti_token_byte(w, i) == ',');
	if (tauti_token_byte(w, i) == '}')
		return TAUT_OK;
broken:
	return taut_error_set(err, TAUT_EFORMAT, (int64_t)w->at[i],
		"%s:%u: expected what a process says of itself, as JSON", name,
		w->at[i]);
}

taut_status record_process_read(struct tauti_stream *stream,
	struct taut_arena *arena, struct record_process *ret_process,
	struct taut_error *err)
{
	struct record_process process = { .host = "", .framework = "",
		.state = "", .pid = -1, .rank = -1, .world_size = -1,
		.steps_seen = -1, .recorded = { -1, -1 }, .started_ns = -1,
		.ended_ns = -1 };
	struct tauti_window window;
	taut_status status = tauti_window_init(&window, stream, 0, err);

	if (status)
		return status;
	while (!status && !window.last && !tauti_window_is_full(&window))
		status = tauti_window_next(&window, 0, err);
	if (!status)
		status = read_root(&window, arena, &process,
			tauti_stream_name(stream), err);
	tauti_window_fini(&window);
	if (!status)
		*ret_process = process;
	return status;
}

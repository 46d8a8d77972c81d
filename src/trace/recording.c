/* recording.c - the problems of a recording, from its recording.json. */
#include "trace/recording.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "trace/json/string.h"
#include "trace/json/token.h"
#include "trace/json/window.h"
#include "trace/stream.h"

enum { MAX_LINES = 64 }; /* a person reads no more */

struct reading {
	const char *path;
	struct taut_arena *arena;
	tauti_lines *lines;
	struct tauti_window window;
};

static bool add_line(struct reading *r, const char *text, size_t len)
{
	char *line = taut_arena_alloc(r->arena, TAUTI_STRING_ROOM(len) + 1);

	if (!line)
		return false;
	line[tauti_string_decode(text, len, line)] = '\0';
	line = taut_arena_printf(r->arena, "%s: %s", r->path, line);
	return line && taut_vec_push(r->lines, line);
}

static bool not_understood(struct reading *r)
{
	static const char text[] = "is not what taut record writes; expected "
				   "an object with \"problems\"";

	return add_line(r, text, sizeof text - 1);
}

/* The strings of the array at token i. */
static bool add_problems(struct reading *r, uint32_t i)
{
	const struct tauti_window *w = &r->window;
	struct tauti_text text;

	if (tauti_token_byte(w, i) != '[')
		return not_understood(r);
	if (tauti_token_byte(w, ++i) == ']')
		return true;
	for (int n = 0; n < MAX_LINES; n++) {
		if (!tauti_token_string(w, i, &text))
			return not_understood(r);
		if (!add_line(r, text.at, text.len))
			return false;
		if (tauti_token_byte(w, i + 1) != ',')
			return true;
		i += 2;
	}
	return true;
}

/* The window holds the whole text. */
static bool read_root(struct reading *r)
{
	const struct tauti_window *w = &r->window;
	struct tauti_text key;
	uint32_t i = 0;

	if (tauti_token_byte(w, i++) != '{')
		return not_understood(r);
	while (tauti_token_string(w, i, &key)) {
		if (tauti_token_byte(w, ++i) != ':')
			break;
		i++;
		if (key.len == 8 && !memcmp(key.at, "problems", 8))
			return add_problems(r, i);
		if (!tauti_token_skip(w, &i) || tauti_token_byte(w, i) != ',')
			break;
		i++;
	}
	return not_understood(r);
}

static taut_status fill(struct reading *r, struct tauti_stream *stream,
	struct taut_error *err)
{
	taut_status status = tauti_window_init(&r->window, stream, 0, err);

	if (status != TAUT_OK)
		return status;
	while (status == TAUT_OK && !r->window.last &&
		!tauti_window_is_full(&r->window))
		status = tauti_window_next(&r->window, 0, err);
	if (status == TAUT_EFORMAT)
		return not_understood(r) ? TAUT_OK : TAUT_ENOMEM;
	if (status == TAUT_OK && !read_root(r))
		status = TAUT_ENOMEM;
	return status;
}

taut_status tauti_recording_problems(const char *folder,
	struct taut_arena *arena, tauti_lines *lines, struct taut_error *err)
{
	struct reading r = { .arena = arena, .lines = lines };
	struct tauti_stream *stream = NULL;
	struct stat about;
	taut_status status;

	r.path = taut_arena_printf(
		arena, "%s/" TAUTI_RECORDING_FILE, folder);
	if (!r.path)
		return taut_error_set(
			err, TAUT_ENOMEM, -1, "%s: no memory", folder);
	if (stat(r.path, &about) != 0 || !S_ISREG(about.st_mode))
		return TAUT_OK;
	status = tauti_stream_open_file(r.path, NULL, &stream, err);
	if (status != TAUT_OK)
		return status;
	status = fill(&r, stream, err);
	tauti_window_fini(&r.window);
	tauti_stream_close(stream);
	if (status == TAUT_ENOMEM)
		return taut_error_set(
			err, TAUT_ENOMEM, -1, "%s: no memory", r.path);
	return status;
}

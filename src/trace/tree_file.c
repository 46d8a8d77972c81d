/* tree_file.c - files that are one JSON value, read whole. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/stream.h"
#include "trace/tree.h"

enum { WINDOW_BYTES = 1 << 16 };

static uint32_t line_of(const char *text, size_t bytes, uint64_t offset)
{
	uint32_t line = 1;

	for (size_t i = 0; i < bytes && i < offset; i++)
		line += text[i] == '\n';
	return line;
}

/* ret_behind: where what is no part of the value begins; 0: nothing does. */
static taut_status take_one(struct tauti_values *values, struct taut_arena *arena,
	struct tauti_value **ret, uint64_t *ret_behind, bool *ret_is_one,
	struct taut_error *err)
{
	struct tauti_value *next = NULL;
	uint64_t behind = 0;
	taut_status status = tauti_values_next(values, arena, ret, err);

	if (!status && values->i < values->window.n)
		behind = values->window.offset + values->window.at[values->i];
	if (!status && *ret)
		status = tauti_values_next(values, arena, &next, err);
	if (values->cut || values->broken)
		behind = values->offset;
	*ret_behind = behind;
	*ret_is_one = *ret && !values->cut && !values->broken &&
		!values->array && !next;
	return status;
}

taut_status tauti_tree_json(const char *name, const char *text, size_t bytes,
	const char *what, struct taut_arena *arena,
	struct tauti_value **ret_value, struct taut_error *err)
{
	struct tauti_stream *stream;
	struct tauti_values values;
	uint64_t behind;
	bool is_one;
	taut_status status = tauti_stream_open_memory(
		name, text, bytes, &stream, err);

	if (status)
		return status;
	status = tauti_values_init(&values, stream, WINDOW_BYTES, err);
	if (status) {
		tauti_stream_close(stream);
		return status;
	}
	status = take_one(&values, arena, ret_value, &behind, &is_one, err);
	if (!status && !is_one)
		status = taut_error_set(err, TAUT_EFORMAT, (int64_t)behind,
			"%.300s:%" PRIu32 ": expected %.300s", name,
			line_of(text, bytes, behind), what);
	tauti_values_fini(&values);
	tauti_stream_close(stream);
	return status;
}

static taut_status cannot(const char *path, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EIO, -1, "%.300s: cannot be read: %s",
		path, strerror(errno));
}

taut_status tauti_tree_text_of(const char *path, size_t most_bytes,
	const char *what, char **ret_text, size_t *ret_bytes,
	struct taut_error *err)
{
	FILE *in = fopen(path, "rb");
	char *text;
	size_t bytes;
	taut_status status = TAUT_OK;

	if (!in)
		return cannot(path, err);
	text = malloc(most_bytes + 1);
	if (!text) {
		fclose(in);
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory for %.300s", what);
	}
	bytes = fread(text, 1, most_bytes + 1, in);
	if (ferror(in))
		status = cannot(path, err);
	else if (bytes > most_bytes)
		status = taut_error_set(err, TAUT_EFORMAT, -1, "%.300s: "
			"expected %.300s, which has at most %zu MiB", path,
			what, most_bytes >> 20);
	fclose(in);
	if (status) {
		free(text);
		return status;
	}
	*ret_text = text;
	*ret_bytes = bytes;
	return TAUT_OK;
}

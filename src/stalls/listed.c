/* listed.c - see listed.h. */
#include "stalls/listed.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stalls/text.h"

/* More is not looked at: what is listed is a sample anyway. */
enum { MOST_FILE_BYTES = 256 << 20 };
#define MOST_BYTES (UINT64_C(1) << 50)

static taut_status no_memory(struct taut_error *reterr)
{
	return taut_error_set(reterr, TAUT_ENOMEM, -1, "files: out of memory");
}

/* BYTES and one space; the path is what is behind it. NULL: it is no such line. */
static const char *read_bytes(const char *at, const char *end, uint64_t *ret_bytes)
{
	const char *begin = at;
	uint64_t bytes = 0;

	for (; at < end && *at >= '0' && *at <= '9'; at++) {
		bytes = bytes * 10 + (uint64_t)(*at - '0');
		if (bytes > MOST_BYTES)
			return NULL;
	}
	if (at == begin || end - at < 2 || *at != ' ')
		return NULL;
	*ret_bytes = bytes;
	return at + 1;
}

/* Ids of paths count up from 1, and so do files. */
static taut_status add(
	struct tauti_listed *listed, const char *at, const char *end, struct taut_error *reterr)
{
	struct tauti_listed_file file = { .is_loaded = at < end && *at == '+' };
	const char *path = read_bytes(at + file.is_loaded, end, &file.bytes);

	if (!path || end - path >= PATH_MAX || memchr(path, '\0', (size_t)(end - path)))
		return TAUT_OK;
	file.path = taut_names_add(listed->paths, path, (size_t)(end - path));
	if (file.path == TAUT_NONE)
		return no_memory(reterr);
	if (file.path <= listed->files.count) {
		file.is_loaded |= listed->files.data[file.path - 1].is_loaded;
		listed->files.data[file.path - 1] = file;
	} else if (!taut_vec_push(&listed->files, file))
		return no_memory(reterr);
	return TAUT_OK;
}

taut_status tauti_listed_parse(const char *text, size_t bytes,
	struct tauti_listed *listed, struct taut_error *reterr)
{
	taut_status status = TAUT_OK;

	*listed = (struct tauti_listed){ .paths = taut_names_create() };
	if (!listed->paths)
		return no_memory(reterr);
	while (!status) {
		const char *end = bytes ? memchr(text, '\n', bytes) : NULL;

		if (!end)
			break;
		status = add(listed, text, end, reterr);
		bytes -= (size_t)(end + 1 - text);
		text = end + 1;
	}
	return status;
}

taut_status tauti_listed_read(
	const char *folder, struct tauti_listed *listed, struct taut_error *reterr)
{
	char path[PATH_MAX], *text;
	size_t bytes;
	taut_status status;

	*listed = (struct tauti_listed){ .paths = NULL };
	if ((size_t)snprintf(path, sizeof path, "%s/files", folder) >= sizeof path)
		return taut_error_set(
			reterr, TAUT_EIO, -1, "%.300s: its path is too long", folder);
	if (access(path, F_OK) != 0)
		return TAUT_OK;
	status = tauti_text_read(path, MOST_FILE_BYTES, &text, &bytes, reterr);
	if (status)
		return status;
	status = tauti_listed_parse(text, bytes, listed, reterr);
	free(text);
	return status;
}

void tauti_listed_keep_loaded(struct tauti_listed *listed)
{
	size_t n = 0;

	for (size_t i = 0; i < listed->files.count; i++)
		if (listed->files.data[i].is_loaded)
			listed->files.data[n++] = listed->files.data[i];
	if (n)
		listed->files.count = n;
}

void tauti_listed_fini(struct tauti_listed *listed)
{
	taut_vec_free(&listed->files);
	taut_names_destroy(listed->paths);
}

const char *tauti_listed_path(const struct tauti_listed *listed, size_t file)
{
	return taut_names_text(listed->paths, listed->files.data[file].path);
}

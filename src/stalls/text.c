/* text.c - see text.h. */
#include "stalls/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/vec.h"

enum { CHUNK = 1 << 16 };

typedef TAUT_VEC(char) bytes_vec;

static taut_status read_all(FILE *file, const char *path, size_t limit,
	bytes_vec *text, struct taut_error *reterr)
{
	size_t n = 1;

	while (n && text->count < limit) {
		size_t most = limit - text->count < CHUNK ? limit - text->count : CHUNK;

		if (!taut_vec_reserve(text, most))
			return taut_error_set(
				reterr, TAUT_ENOMEM, -1, "%.300s: out of memory", path);
		n = fread(text->data + text->count, 1, most, file);
		text->count += n;
	}
	if (ferror(file))
		return taut_error_set(reterr, TAUT_EIO, -1, "%.300s: %s", path,
			strerror(errno));
	return TAUT_OK;
}

taut_status tauti_text_read(const char *path, size_t limit, char **ret_text,
	size_t *ret_bytes, struct taut_error *reterr)
{
	FILE *file = fopen(path, "rbe");
	bytes_vec text = { 0 };
	taut_status status;

	if (!file)
		return taut_error_set(reterr, TAUT_EIO, -1, "%.300s: %s", path,
			strerror(errno));
	status = read_all(file, path, limit, &text, reterr);
	fclose(file);
	if (status) {
		taut_vec_free(&text);
		return status;
	}
	*ret_text = text.data;
	*ret_bytes = text.count;
	return TAUT_OK;
}

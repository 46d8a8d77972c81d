/* gzip.c - byte streams. The first byte chooses: the rest is taken as a file
 * as it stands, or it is compressed, cut somewhere, and what comes out must
 * be a beginning of what went in. The second byte is the step of reading. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <isa-l/igzip_lib.h>

#include "trace/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "broken: %s\n", #condition); \
			abort(); \
		} \
	} while (0)

enum { MOST = 1 << 18 }; /* bytes inflated of one input */

struct text {
	char *data;
	size_t len;
	taut_status status;
	int cut;
};

static struct text read_all(const uint8_t *data, size_t size, size_t step)
{
	struct text text = { .data = malloc(MOST + 256) };
	struct tauti_stream *stream = NULL;
	struct taut_error err = { 0 };
	size_t got = step;
	MUST(text.data);
	text.status =
		tauti_stream_open_memory("t", data, size, &stream, &err);
	while (text.status == TAUT_OK && got == step && text.len < MOST) {
		text.status = tauti_stream_read(
			stream, text.data + text.len, step, &got, &err);
		if (text.status == TAUT_OK)
			text.len += got;
	}
	MUST(text.status == TAUT_OK || text.status == TAUT_EFORMAT);
	MUST((text.status == TAUT_OK) == (err.message[0] == '\0'));
	text.cut = stream && tauti_stream_is_cut(stream);
	tauti_stream_close(stream);
	return text;
}

/* Steps of any size give the same text. */
static void as_file(const uint8_t *data, size_t size, size_t step)
{
	struct text small = read_all(data, size, step);
	struct text large = read_all(data, size, 256);
	MUST(small.status == large.status || small.len >= MOST ||
		large.len >= MOST);
	if (small.status == TAUT_OK && small.len < MOST) {
		MUST(small.len == large.len && small.cut == large.cut);
		MUST(memcmp(small.data, large.data, small.len) == 0);
	}
	free(small.data);
	free(large.data);
}

static size_t compress(const uint8_t *data, size_t size, uint8_t *to)
{
	struct isal_zstream *z = malloc(sizeof *z);
	MUST(z);
	isal_deflate_stateless_init(z);
	z->gzip_flag = IGZIP_GZIP;
	z->next_in = (uint8_t *)data;
	z->avail_in = (uint32_t)size;
	z->next_out = to;
	z->avail_out = (uint32_t)size + 1024;
	z->end_of_stream = 1;
	MUST(isal_deflate_stateless(z) == COMP_OK);
	size_t len = z->total_out;
	free(z);
	return len;
}

static void cut_short(const uint8_t *data, size_t size, size_t step)
{
	uint8_t *packed = malloc(size + 1024);
	MUST(packed);
	size_t len = compress(data, size, packed);
	size_t keep = size ? data[0] * 257u % (len + 1) : len;
	struct text text = read_all(packed, keep, step);
	if (keep >= 2) {
		MUST(text.status == TAUT_OK);
		MUST(text.len <= size || text.len >= MOST);
		MUST(memcmp(text.data, data, text.len) == 0);
		MUST(text.cut == (keep < len));
		MUST(keep < len || text.len == size);
	}
	free(text.data);
	free(packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2 || size > 65536)
		return 0;
	size_t step = data[1] ? data[1] : 1;
	if (data[0] & 1)
		cut_short(data + 2, size - 2, step);
	else
		as_file(data + 2, size - 2, step);
	return 0;
}

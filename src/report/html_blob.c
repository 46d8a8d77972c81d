/* html_blob.c - columns of numbers as base64 of their deflate. */
#include "report/html.h"

#include <stdlib.h>
#include <string.h>

#include <isa-l/igzip_lib.h>

static bool grow(struct tauti_blob *blob, size_t more)
{
	size_t capacity = blob->capacity ? blob->capacity * 2 : 4096;
	uint8_t *data;

	if (blob->failed)
		return false;
	while (capacity - blob->count < more)
		capacity *= 2;
	data = realloc(blob->data, capacity);
	if (!data) {
		blob->failed = true;
		return false;
	}
	blob->data = data;
	blob->capacity = capacity;
	return true;
}

static inline bool reserve(struct tauti_blob *blob, size_t more)
{
	return blob->capacity - blob->count >= more || grow(blob, more);
}

void tauti_blob_byte(struct tauti_blob *blob, uint8_t byte)
{
	if (reserve(blob, 1))
		blob->data[blob->count++] = byte;
}

void tauti_blob_uint(struct tauti_blob *blob, uint64_t value)
{
	if (!reserve(blob, 10))
		return;
	while (value >= 0x80) {
		blob->data[blob->count++] = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	blob->data[blob->count++] = (uint8_t)value;
}

void tauti_blob_int(struct tauti_blob *blob, int64_t value)
{
	tauti_blob_uint(blob,
		value < 0 ? ~((uint64_t)value << 1) : (uint64_t)value << 1);
}

void tauti_blob_bytes(struct tauti_blob *blob, const void *bytes, size_t len)
{
	if (len && reserve(blob, len)) {
		memcpy(blob->data + blob->count, bytes, len);
		blob->count += len;
	}
}

/* Stored blocks are the worst case: 5 bytes for each 65,535. */
static size_t packed_bound(size_t len)
{
	return len + (len / 65535 + 1) * 5 + 64;
}

static bool deflate_all(const struct tauti_blob *from, uint8_t *to,
	size_t capacity, size_t *ret_len)
{
	struct isal_zstream *stream = calloc(1, sizeof *stream);
	uint8_t *level = malloc(ISAL_DEF_LVL3_DEFAULT);
	bool done = false;

	if (stream && level) {
		isal_deflate_stateless_init(stream);
		stream->level = 3;
		stream->level_buf = level;
		stream->level_buf_size = ISAL_DEF_LVL3_DEFAULT;
		stream->gzip_flag = IGZIP_ZLIB;
		stream->end_of_stream = 1;
		stream->flush = NO_FLUSH;
		stream->next_in = from->data;
		stream->avail_in = (uint32_t)from->count;
		stream->next_out = to;
		stream->avail_out = (uint32_t)capacity;
		done = isal_deflate_stateless(stream) == COMP_OK;
		*ret_len = stream->total_out;
	}
	free(level);
	free(stream);
	return done;
}

taut_status tauti_blob_pack(struct tauti_blob *blob, struct taut_error *err)
{
	size_t bound = packed_bound(blob->count), len = 0;
	uint8_t *packed = blob->failed || bound > UINT32_MAX ? NULL
							     : malloc(bound);

	if (!packed || !deflate_all(blob, packed, bound, &len)) {
		free(packed);
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory for %zu bytes of the page", blob->count);
	}
	free(blob->data);
	blob->data = packed;
	blob->count = len;
	blob->capacity = bound;
	return TAUT_OK;
}

static void base64_three(const uint8_t *in, char *out)
{
	static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "abcdefghijklmnopqrstuvwxyz0123456789+/";

	out[0] = digit[in[0] >> 2];
	out[1] = digit[(in[0] & 3) << 4 | in[1] >> 4];
	out[2] = digit[(in[1] & 15) << 2 | in[2] >> 6];
	out[3] = digit[in[2] & 63];
}

static void put_base64(const uint8_t *data, size_t n, struct tauti_put *put)
{
	uint8_t tail[3] = { 0, 0, 0 };
	char four[4];
	size_t i;

	for (i = 0; i + 3 <= n; i += 3) {
		base64_three(data + i, four);
		tauti_put_bytes(put, four, 4);
	}
	if (i == n)
		return;
	memcpy(tail, data + i, n - i);
	base64_three(tail, four);
	memset(four + (n - i) + 1, '=', 3 - (n - i));
	tauti_put_bytes(put, four, 4);
}

void tauti_blob_put(
	const struct tauti_blob *blob, const char *id, struct tauti_put *put)
{
	tauti_put_text(put, "<script type=\"application/octet-stream\" id=\"");
	tauti_put_text(put, id);
	tauti_put_text(put, "\">");
	put_base64(blob->data, blob->count, put);
	tauti_put_text(put, "</script>\n");
}

void tauti_blob_free(struct tauti_blob *blob)
{
	free(blob->data);
	memset(blob, 0, sizeof *blob);
}

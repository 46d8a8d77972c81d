/* raw.c - pixels without a format: rows of red, green, blue, of a size that is told. */
#include <stdlib.h>
#include <string.h>

#include "load/image/decoder.h"

struct raw {
	struct tauti_decoder_limits limits;
	const unsigned char *bytes;
	struct tauti_region region;
	uint32_t next; /* row of the image */
	void *memory;
	size_t capacity;
};

static void *create(const struct tauti_decoder_limits *limits)
{
	struct raw *raw = calloc(1, sizeof *raw);

	if (raw)
		raw->limits = *limits;
	return raw;
}

static void destroy(void *state)
{
	struct raw *raw = state;

	if (raw)
		free(raw->memory);
	free(raw);
}

static taut_status open_image(void *state, const unsigned char *bytes, size_t n,
	const char *name, struct tauti_image *ret_image, struct taut_error *err)
{
	struct raw *raw = state;
	uint32_t height = raw->limits.raw_height, width = raw->limits.raw_width;
	taut_status status = tauti_image_size_check(
		name, "raw", height, width, &raw->limits, err);

	if (status)
		return status;
	if (n != (uint64_t)height * width * 3)
		return taut_error_set(err, TAUT_EFORMAT, -1,
			"%s: raw: %zu bytes, expected %llu for %u x %u pixels",
			name, n, (unsigned long long)height * width * 3, height,
			width);
	raw->bytes = bytes;
	*ret_image = (struct tauti_image){ .height = height, .width = width,
		.orientation = 1 };
	return TAUT_OK;
}

static size_t row_bytes(const struct raw *raw)
{
	return (size_t)raw->region.width * 3 + TAUTI_ROW_SLACK;
}

static taut_status begin(void *state, unsigned scale,
	const struct tauti_region *region, struct taut_error *err)
{
	struct raw *raw = state;

	(void)scale;
	raw->region = *region;
	raw->next = region->top;
	if (!tauti_scratch(&raw->memory, &raw->capacity,
		    row_bytes(raw) * TAUTI_ROWS_AT_ONCE))
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"raw image: no memory for rows of %u pixels",
			region->width);
	return TAUT_OK;
}

static taut_status rows(void *state, unsigned n, const unsigned char **ret_rows,
	struct taut_error *err)
{
	struct raw *raw = state;

	(void)err;
	for (unsigned i = 0; i < n; i++, raw->next++) {
		unsigned char *to =
			(unsigned char *)raw->memory + i * row_bytes(raw);

		memcpy(to, raw->bytes + ((size_t)raw->next *
			raw->limits.raw_width + raw->region.left) * 3,
			(size_t)raw->region.width * 3);
		ret_rows[i] = to;
	}
	return TAUT_OK;
}

static bool close_image(void *state)
{
	struct raw *raw = state;

	raw->bytes = NULL;
	return false;
}

const struct tauti_decoder tauti_decoder_raw = {
	.name = "raw",
	.create = create,
	.destroy = destroy,
	.open = open_image,
	.begin = begin,
	.rows = rows,
	.close = close_image,
};

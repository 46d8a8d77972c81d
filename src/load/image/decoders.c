/* decoders.c - the table of formats, and what all of them need. */
#include <stdlib.h>
#include <string.h>

#include "load/image/decoder.h"

const struct tauti_decoder *const tauti_decoders[TAUTI_DECODERS] = {
	[TAUTI_DECODER_JPEG] = &tauti_decoder_jpeg,
	[TAUTI_DECODER_PNG] = &tauti_decoder_png,
	[TAUTI_DECODER_RAW] = &tauti_decoder_raw,
};

unsigned tauti_decoder_of_name(const char *name)
{
	unsigned i = 0;

	while (i < TAUTI_DECODERS && strcmp(tauti_decoders[i]->name, name) != 0)
		i++;
	return i;
}

unsigned tauti_decoder_of_bytes(const unsigned char *bytes, size_t n)
{
	unsigned i = 0;

	while (i < TAUTI_DECODERS &&
		!(tauti_decoders[i]->probe && tauti_decoders[i]->probe(bytes, n)))
		i++;
	return i;
}

bool tauti_scratch(void **memory, size_t *capacity, size_t bytes)
{
	void *fresh;

	if (bytes <= *capacity)
		return true;
	fresh = malloc(bytes);
	if (!fresh)
		return false;
	free(*memory);
	*memory = fresh;
	*capacity = bytes;
	return true;
}

taut_status tauti_image_size_check(const char *name, const char *format,
	uint64_t height, uint64_t width,
	const struct tauti_decoder_limits *limits, struct taut_error *err)
{
	if (height == 0 || width == 0)
		return taut_error_set(err, TAUT_EFORMAT, -1,
			"%s: %s: %llu x %llu pixels, expected at least one", name,
			format, (unsigned long long)height,
			(unsigned long long)width);
	if (height > INT32_MAX || width > INT32_MAX ||
		height > limits->most_pixels / width)
		return taut_error_set(err, TAUT_EFORMAT, -1,
			"%s: %s: %llu x %llu pixels, expected at most %llu in all",
			name, format, (unsigned long long)height,
			(unsigned long long)width,
			(unsigned long long)limits->most_pixels);
	return TAUT_OK;
}

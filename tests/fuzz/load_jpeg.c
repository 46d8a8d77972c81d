/* load_jpeg.c - any bytes as a JPEG image, prepared in ways that the last bytes choose; and
 * decoded by libjpeg alone, which is to say the same of them. */
#include "load/image/decoder.h"
#include "tests/fuzz/prepare_any.h"

enum { MOST_PIXELS = 1 << 18 };

/* Rows of all of it; *ret_n bytes of them are there. */
static taut_status decode(
	bool plain, const uint8_t *data, size_t size, unsigned char *pixels, size_t *ret_n)
{
	struct tauti_decoder_limits limits = { .most_pixels = MOST_PIXELS, .plain = plain };
	const struct tauti_decoder *jpeg = &tauti_decoder_jpeg;
	void *state = jpeg->create(&limits);
	const unsigned char *row;
	struct tauti_image image;
	struct taut_error err;
	taut_status status;

	MUST(state);
	*ret_n = 0;
	status = jpeg->open(state, data, size, "any", &image, &err);
	if (!status)
		status = jpeg->begin(state, 1, &(struct tauti_region){
			0, 0, image.height, image.width }, &err);
	for (uint32_t y = 0; !status && y < image.height; y++) {
		status = jpeg->rows(state, 1, &row, &err);
		if (!status) {
			memcpy(pixels + *ret_n, row, (size_t)image.width * 3);
			*ret_n += (size_t)image.width * 3;
		}
	}
	jpeg->close(state);
	jpeg->destroy(state);
	return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned char own[MOST_PIXELS * 3], plain[MOST_PIXELS * 3];
	size_t n_own, n_plain;

	prepare_any("jpeg", data, size);
	MUST(decode(false, data, size, own, &n_own) == decode(true, data, size, plain, &n_plain));
	MUST(n_own == n_plain);
	MUST(memcmp(own, plain, n_own) == 0);
	return 0;
}

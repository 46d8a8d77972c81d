/* decoder.h - a format of images as a small table of functions.
 *
 *   probe -> create once -> (open -> [begin -> rows ...] -> close) for each image -> destroy
 *
 * A decoder gives rows of red, green, blue in u8, from the top, of a region that is chosen
 * after its header was read.
 *
 * Owner:   whoever calls create(). bytes of open() are borrowed until close().
 * Threads: one at a time.
 * Errors:  faults begin with the item's name and the format. After any failure only close()
 *          and destroy() may be called. */
#ifndef TAUT_LOAD_IMAGE_DECODER_H
#define TAUT_LOAD_IMAGE_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>

struct tauti_decoder_limits {
	uint64_t most_pixels;
	uint32_t raw_height, raw_width; /* of raw images; else not used */
	bool strict, orient;
	bool plain; /* JPEG: by libjpeg alone (for tests: jpeg_bits.h) */
};

struct tauti_image {
	uint32_t height, width; /* as stored; both > 0 */
	unsigned orientation;   /* EXIF's 1 .. 8; 1 unless limits say orient */
	bool scales; /* begin() may be asked for 1/2, 1/4, 1/8 */
};

/* Rows and columns, of the stored image (of ceil(size / scale) when scaled). */
struct tauti_region {
	uint32_t top, left, height, width; /* height, width > 0; inside the image */
};

enum {
	TAUTI_ROWS_AT_ONCE = 8,
	/* Bytes after a row's end that a row's buffer has too: kernels read and
	 * write whole registers. */
	TAUTI_ROW_SLACK = 64,
};

struct tauti_decoder {
	const char *name;
	/* Are these the first bytes of such an image? Pure. NULL: never guessed. */
	bool (*probe)(const unsigned char *bytes, size_t n);
	/* NULL: no memory. limits are copied. */
	void *(*create)(const struct tauti_decoder_limits *limits);
	void (*destroy)(void *state); /* NULL is fine */
	/* Reads the header. TAUT_EFORMAT, TAUT_ENOMEM. */
	taut_status (*open)(void *state, const unsigned char *bytes, size_t n,
		const char *name, struct tauti_image *ret_image,
		struct taut_error *err);
	/* Chooses; scale is 1, or 2, 4, 8 where the image scales. */
	taut_status (*begin)(void *state, unsigned scale,
		const struct tauti_region *region, struct taut_error *err);
	/* The next n rows of the region, 1 <= n <= TAUTI_ROWS_AT_ONCE, not more
	 * than are left. ret_rows[i] points into the decoder's memory, with
	 * TAUTI_ROW_SLACK readable bytes after the row, until the next call. */
	taut_status (*rows)(void *state, unsigned n,
		const unsigned char **ret_rows, struct taut_error *err);
	/* Ends the image, also after a failure or before all rows were read.
	 * Returns whether the decoder warned of anything. */
	bool (*close)(void *state);
};

extern const struct tauti_decoder tauti_decoder_jpeg, tauti_decoder_png,
	tauti_decoder_raw;

/* Indices of tauti_decoders[]. */
enum { TAUTI_DECODER_JPEG, TAUTI_DECODER_PNG, TAUTI_DECODER_RAW, TAUTI_DECODERS };

extern const struct tauti_decoder *const tauti_decoders[TAUTI_DECODERS];

/* By name, or TAUTI_DECODERS. */
unsigned tauti_decoder_of_name(const char *name);
/* By the first bytes, or TAUTI_DECODERS. */
unsigned tauti_decoder_of_bytes(const unsigned char *bytes, size_t n);

/* Memory that grows and is kept: at least `bytes` at *memory. Contents are lost. */
TAUT_NODISCARD bool tauti_scratch(void **memory, size_t *capacity, size_t bytes);

/* Height x width within limits? Else the fault. */
TAUT_NODISCARD taut_status tauti_image_size_check(const char *name,
	const char *format, uint64_t height, uint64_t width,
	const struct tauti_decoder_limits *limits, struct taut_error *err);

#endif /* TAUT_LOAD_IMAGE_DECODER_H */

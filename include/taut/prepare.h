/* taut/prepare.h - what is done to an item between its bytes and the batch: decode,
 * crop, resize, flip, colours, normalise, type and layout.
 *
 * Numerics. Decoding is libjpeg's and libpng's, bit for bit, whatever part of an image is
 * asked for. Resizing is separable, horizontal first, with weights of 22 bits and rounding
 * to 8 bits after each direction: the same bits on every machine, and those of Pillow's
 * BILINEAR (up to version 12; 13 resizes some images vertically first). One option,
 * `scale_in_decoder`, trades this for speed and says so.
 *
 * Randomness. What is drawn for an item is a function of seed, epoch and item alone, in
 * this order: flip, crop, colours.
 *
 * Units:   pixels, bytes.
 * Threads: options are plain data; functions here are pure. */
#ifndef TAUT_PREPARE_H
#define TAUT_PREPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>

TAUT_BEGIN_DECLS

/* Which part of the image becomes the output. */
enum taut_prepare_crop {
	TAUT_CROP_RANDOM,  /* RandomResizedCrop: an area and a ratio are drawn, ten
	                      times until they fit, else the largest centred crop
	                      of an allowed ratio */
	TAUT_CROP_CENTRE,  /* short side to short_side, then the centre */
	TAUT_CROP_STRETCH, /* all of it, ratio not kept */
	TAUT_CROP_NONE,    /* all of it as it is; another size is TAUT_EFORMAT */
	TAUT_CROPS
};

enum taut_prepare_filter {
	TAUT_FILTER_BILINEAR, /* a triangle, widened when shrinking (antialiased) */
	TAUT_FILTER_NEAREST,
	TAUT_FILTERS
};

enum taut_prepare_type {
	TAUT_PIXEL_U8,
	TAUT_PIXEL_F32,
	TAUT_PIXEL_F16,
	TAUT_PIXEL_BF16,
	TAUT_PIXELS
};

enum taut_prepare_layout {
	TAUT_LAYOUT_HWC, /* rows of red, green, blue, red, ... */
	TAUT_LAYOUT_CHW, /* all of red, all of green, all of blue */
	TAUT_LAYOUTS
};

/* Zero is every field's default. */
struct taut_prepare_options {
	const char *format; /* NULL: told by an item's first bytes; or "jpeg", "png",
	                       "raw": all items are that. Raw is rows of red, green,
	                       blue in u8 with nothing around them, and is never
	                       guessed. Outlives what is created with it */
	uint32_t raw_height, raw_width; /* of raw items; 0: the output's */

	uint32_t height, width; /* of the output; 0: 224. At most 16384 */
	enum taut_prepare_crop crop;
	enum taut_prepare_filter filter;
	/* RANDOM. 0: 0.08 and 1, of the image's area; 3/4 and 4/3, width by height */
	double least_area, most_area, least_ratio, most_ratio;
	/* CENTRE. 0: 8/7 of the output's shorter side, as 256 is of 224. It is never
	 * less than the output's longer side, so nothing is padded. */
	uint32_t short_side;
	double flip; /* probability that left and right change places */

	/* Colours, as torchvision's ColorJitter: factors between 1 - x (at least 0)
	 * and 1 + x, hue turned by up to x of a circle (at most 0.5), in an order
	 * that is drawn too. After the resize, in u8, each step rounded to nearest. */
	double brightness, contrast, saturation, hue;

	enum taut_prepare_type type;
	enum taut_prepare_layout layout;
	/* Not for U8: (x / 255 - mean) / deviation, as x * a + b with a and b of 32
	 * bits. A deviation of 0 is 1. */
	float mean[3], deviation[3];

	/* Reordered numerics: JPEG is decoded at 1/2, 1/4 or 1/8 where the crop then
	 * still has at least the output's height and width. Faster; the result is
	 * that of two filters, the DCT's (a box, nearly) and the triangle on top. */
	bool scale_in_decoder;
	bool orient; /* turn as the EXIF orientation says; Pillow alone does not */
	bool strict; /* what a decoder warns of is TAUT_EFORMAT, else it is counted.
	                Bytes that end too early for what is asked are always it */
	uint64_t most_pixels; /* of an item, as its header says, before memory is
	                         taken; 0: 178956970 (Pillow's: 512 MiB of RGB) */
};

/* The output's size with defaults put in. */
TAUT_API uint32_t taut_prepare_height(const struct taut_prepare_options *options);
TAUT_API uint32_t taut_prepare_width(const struct taut_prepare_options *options);
/* Bytes of one element of a type: 1, 4, 2, 2; of another value 0. */
TAUT_API size_t taut_prepare_type_bytes(enum taut_prepare_type type);
/* Bytes of an item's slot: height x width x 3 elements. 0: the options are not
 * allowed, taut_prepare_check() tells why. */
TAUT_API size_t taut_prepare_slot_bytes(const struct taut_prepare_options *options);
/* TAUT_EINVAL: a field is outside what is said above; the message names it. NULL
 * options are the defaults. */
TAUT_API TAUT_NODISCARD taut_status taut_prepare_check(
	const struct taut_prepare_options *options, struct taut_error *err);

TAUT_END_DECLS
#endif /* TAUT_PREPARE_H */

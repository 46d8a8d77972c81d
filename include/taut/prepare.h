/* taut/prepare.h - what is done to an item between its bytes and the batch. Of an image:
 * decode, crop, resize, flip, colours, normalise, type and layout. Of numbers (tensors, text,
 * tokens): cut or padded. Of audio: decode, mix, resample, cut or padded. Then, or in place
 * of all that, a function of the user's.
 *
 * Numerics. Decoding is libjpeg's and libpng's, bit for bit, whatever part of an image is
 * asked for. Resizing is separable, horizontal first, with weights of 22 bits and rounding
 * to 8 bits after each direction: the same bits on every machine, and those of Pillow's
 * BILINEAR (up to version 12; 13 resizes some images vertically first). One option,
 * `scale_in_decoder`, trades this for speed and says so. A piece of sound is, bit for bit,
 * what a decode of the whole has there; resampled, it is within 1e-6 of that (the filter
 * begins elsewhere), and the same wherever libsoxr is.
 *
 * Randomness. What is drawn for an item is a function of seed, epoch and item alone, in
 * this order: flip, crop, colours; of what is no image: the cut.
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

enum { TAUT_MOST_DIMS = 8 };

/* What items are. Fields of the options that are not of the kind are not looked at. */
enum taut_prepare_kind {
	TAUT_KIND_IMAGE,
	TAUT_KIND_TENSOR, /* numbers, little-endian, the last dimension next to each
	                     other: a file of .npy, or nothing around them ("raw"):
	                     texts are bytes, tokens are integers. They are copied */
	TAUT_KIND_AUDIO,  /* whatever libsndfile reads (WAV, FLAC, OGG, ...), which is
	                     looked for when it is asked for; other rates by libsoxr.
	                     F32, full scale is 1 */
	TAUT_KIND_OWN,    /* bytes, of which the stage makes the sample; it finds zeros */
	TAUT_KINDS
};

/* Which part of what is longer than the sample. */
enum taut_prepare_cut {
	TAUT_CUT_BEGINNING,
	TAUT_CUT_RANDOM,
	TAUT_CUT_CENTRE,
	TAUT_CUT_END,
	TAUT_CUTS
};

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
	TAUT_PIXELS, /* those of images end here; tensors have these too */
	TAUT_NUMBER_I8 = TAUT_PIXELS,
	TAUT_NUMBER_I16,
	TAUT_NUMBER_I32,
	TAUT_NUMBER_I64,
	TAUT_NUMBER_U16,
	TAUT_NUMBER_U32,
	TAUT_NUMBER_U64,
	TAUT_NUMBER_F64,
	TAUT_NUMBERS
};

enum taut_prepare_layout {
	TAUT_LAYOUT_HWC, /* rows of red, green, blue, red, ... */
	TAUT_LAYOUT_CHW, /* all of red, all of green, all of blue */
	TAUT_LAYOUTS
};

/* What a stage is told of an item. Words of 64 bits alone, for who reads it from another
 * language. Valid during the call. */
struct taut_stage_item {
	const void *bytes; /* of the item, as they were read */
	uint64_t n_bytes;
	const char *name; /* file and key, for lines */
	uint64_t number;  /* in the set */
	int64_t label;
	uint64_t epoch;
	uint64_t draw; /* random, of seed, epoch and item alone: seeds what it draws */
	uint64_t sample_bytes;
	int64_t *length; /* of the sample: may be changed; NULL: none has one */
};

/* Finishes the sample that was made of an item, in place, or makes it (TAUT_KIND_OWN). Any
 * worker calls it, several at a time; the same item must give the same sample. Other than
 * TAUT_OK: the item is broken, like one that cannot be decoded; err is never NULL, and its
 * line (or none) stands behind the item's name and file. */
typedef taut_status (*taut_stage_fn)(void *context, const struct taut_stage_item *item,
	void *sample, struct taut_error *err);

/* Zero is every field's default. */
struct taut_prepare_options {
	const char *format; /* NULL: told by an item's first bytes; or "jpeg", "png",
	                       "raw": all items are that. Raw is rows of red, green,
	                       blue in u8 with nothing around them, and is never
	                       guessed. Of a TENSOR: "npy" (NULL) or "raw". Outlives
	                       what is created with it */
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

	enum taut_prepare_kind kind;
	/* TENSOR, OWN: the sample's shape, each at least 1; no dimension: one number. */
	uint32_t n_dims;
	uint64_t dims[TAUT_MOST_DIMS];
	/* TENSOR, OWN: dims[0] is the most; what is longer is cut, what is shorter ends in
	 * zeros, and the batch has lengths. A cut may fall within a character. */
	bool varies;
	/* TENSOR of .npy: type and shape are those of the set's first item, which is read
	 * when the loader is made. With varies, dims[0] is kept unless it is 0. */
	bool as_first;
	enum taut_prepare_cut cut; /* also of AUDIO */

	/* AUDIO: so many samples (of each channel), and as many as there were as the
	 * length. Other than F32 is refused, but 0 means it here. */
	uint32_t samples;
	uint32_t rate; /* a second; items of another rate are resampled; 0: none is.
	                  Else 1000 to 768000 */
	uint32_t channels; /* 0: the mean of all, shape [samples]. Else so many, of items
	                      that have as many, or one, which is repeated; 1 is the mean
	                      of all. Shape: layout CHW [channels, samples], HWC
	                      [samples, channels] */

	taut_stage_fn stage; /* NULL: none */
	void *stage_context;
	/* What the stage does, in a word, for loaders that share samples: those whose
	 * stages have the same name take them to be the same. NULL: cannot be shared.
	 * Outlives what is created with it. */
	const char *stage_name;
};

/* Of a sample. */
struct taut_prepare_shape {
	enum taut_prepare_type type;
	uint32_t n_dims;
	int64_t dims[TAUT_MOST_DIMS];
	uint64_t bytes;
	bool varies; /* batches have lengths: how much of the samples' dimension (dims[0],
	                of audio that of time) an item fills */
};

/* The output's size with defaults put in. */
TAUT_API uint32_t taut_prepare_height(const struct taut_prepare_options *options);
TAUT_API uint32_t taut_prepare_width(const struct taut_prepare_options *options);
/* Bytes of one element of a type; of another value 0. */
TAUT_API size_t taut_prepare_type_bytes(enum taut_prepare_type type);
/* Bytes of an item's slot: of an image height x width x 3 elements. At most 2^32. 0: the
 * options are not allowed, taut_prepare_check() tells why. */
TAUT_API size_t taut_prepare_slot_bytes(const struct taut_prepare_options *options);
/* TAUT_EINVAL: as taut_prepare_check(). as_first is not looked at. */
TAUT_API TAUT_NODISCARD taut_status taut_prepare_shape(
	const struct taut_prepare_options *options,
	struct taut_prepare_shape *ret_shape, struct taut_error *err);
/* TAUT_EINVAL: a field is outside what is said above; the message names it. NULL
 * options are the defaults. */
TAUT_API TAUT_NODISCARD taut_status taut_prepare_check(
	const struct taut_prepare_options *options, struct taut_error *err);

TAUT_END_DECLS
#endif /* TAUT_PREPARE_H */

/* crop.h - which part of an image becomes which output: geometry and dice only.
 * Threads: pure functions. Units: pixels. */
#ifndef TAUT_LOAD_IMAGE_CROP_H
#define TAUT_LOAD_IMAGE_CROP_H

#include <taut/prepare.h>

#include "load/draw.h"

/* Of one direction: the source's pixels from..from + size - 1 become `whole` pixels, of
 * which those from `first` on are wanted, as many as the output has. */
struct tauti_side {
	uint32_t from, size, whole, first;
};

struct tauti_crop {
	struct tauti_side down, across;
};

/* o has no zeros where a field has a default: tauti_prepare_defaults(). height, width > 0.
 * Draws for TAUT_CROP_RANDOM alone. */
struct tauti_crop tauti_crop_choose(const struct taut_prepare_options *o,
	uint32_t height, uint32_t width, struct tauti_draw *draw);

/* A copy with every default put in (but for format's NULL). */
struct taut_prepare_options tauti_prepare_defaults(
	const struct taut_prepare_options *options);

/* TAUT_EINVAL: a field of images is outside what taut/prepare.h says. NULL: the defaults. */
TAUT_NODISCARD taut_status tauti_image_check(
	const struct taut_prepare_options *options, struct taut_error *err);

#endif /* TAUT_LOAD_IMAGE_CROP_H */

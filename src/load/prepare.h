/* prepare.h - from an image's bytes to its pixels in a slot of the batch.
 *
 *   bytes -> decoder -> rows of the crop -> across -> ring of rows -> down -> store
 *            (image/decoder.h)             (image/kernels.h)
 *
 * Rows are resized as they are decoded, so that there is no picture in between: what is
 * kept are the few rows that the next output row needs, in the first cache.
 *
 * Owner:   the caller of create(). Memory taken for an image is kept for the next one:
 *          a few rows of the widest, or a whole crop where rows do not do (interlaced
 *          PNG, orientation, colours).
 * Threads: an object belongs to one thread at a time; there is one for each worker. */
#ifndef TAUT_LOAD_PREPARE_H
#define TAUT_LOAD_PREPARE_H

#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>
#include <taut/prepare.h>

#include "load/draw.h"

struct tauti_prepare;

struct tauti_prepare_counts {
	uint64_t images;   /* prepared without a fault */
	uint64_t faults;   /* images that were refused */
	uint64_t warnings; /* images that a decoder warned of, and that were taken */
	uint64_t scaled;   /* images that were decoded at less than full size */
};

/* NULL options: the defaults. They are copied, format as a pointer.
 * TAUT_EINVAL: as tauti_image_check(). TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_prepare_create(
	const struct taut_prepare_options *options,
	struct tauti_prepare **ret_prepare, struct taut_error *err);
void tauti_prepare_destroy(struct tauti_prepare *prepare); /* NULL is fine */

/* Prepares the n bytes of the item that faults call `name` into slot, which has
 * taut_prepare_slot_bytes() and any alignment (64 bytes are best). draw is the item's
 * own: tauti_draw_begin(seed, epoch, item); the same draw gives the same output.
 * On failure the slot's contents are undefined and the object may be used further.
 * TAUT_EFORMAT: not an image, cut, broken, too large, not of the size that CROP_NONE
 * wants. TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_prepare_image(struct tauti_prepare *prepare,
	const void *bytes, size_t n, const char *name, struct tauti_draw draw,
	void *slot, struct taut_error *err);

struct tauti_prepare_counts tauti_prepare_counts(
	const struct tauti_prepare *prepare);

#endif /* TAUT_LOAD_PREPARE_H */

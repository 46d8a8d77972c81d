/* axis.h - resizing in one direction: which source pixels make an output pixel, and how much
 * each weighs.
 *
 * An output pixel's centre lies at `origin + (i + 1/2) * scale` of the source, scale = size /
 * whole. The filter is a triangle of half width max(scale, 1) around it; its weights at the
 * centres of the source pixels are divided by their sum and rounded to 22 bits. So the sum
 * of 8-bit pixels times weights fits 31 bits; half is added, and 22 bits dropped.
 *
 * For multiplication in pairs of 16 bits, a weight is also kept as two parts of 11 bits:
 * sum(pixel * weight) = (sum(pixel * high) << 11) + sum(pixel * low), exactly.
 *
 * Owner:   the caller of init(); tables are kept and grow. Zero is an empty axis.
 * Threads: one at a time. Units: pixels. */
#ifndef TAUT_LOAD_IMAGE_AXIS_H
#define TAUT_LOAD_IMAGE_AXIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <taut/prepare.h>

enum {
	TAUTI_WEIGHT_BITS = 22,
	TAUTI_WEIGHT_LOW_BITS = 11,
	TAUTI_AXIS_GROUP = 5, /* outputs: 15 bytes, nearly a register */
};

struct tauti_axis_wish {
	double origin, size; /* what is resized, in source pixels; may be fractions,
	                        origin >= 0. No pixel left of it is used, but for
	                        the one that it is in */
	uint32_t end;        /* nor this one, nor any right of it */
	uint32_t whole;      /* output pixels that all of size becomes */
	uint32_t first, outputs; /* those that are wanted: first <= i < first + outputs */
	bool mirrored;           /* given in reverse */
	enum taut_prepare_filter filter;
};

struct tauti_axis {
	uint32_t outputs;
	uint32_t pairs;       /* weights of an output pixel, in pairs; the last ones
	                         may be zero */
	uint32_t least, end;  /* source pixels that are used */
	uint32_t group_span;  /* the most source pixels that TAUTI_AXIS_GROUP
	                         neighbours are made of, all of their pairs; of
	                         fewer outputs: of all */
	bool copies;          /* output pixel i is source pixel least + i */
	uint32_t *starts;     /* [outputs]: first source pixel, less `least` */
	/* [outputs][pairs]: high parts of the two weights, low parts of both. The
	 * first weight is in the lower half. */
	uint32_t (*weights)[2];
	void *memory[2];
	size_t capacity[2];
};

/* wish->outputs > 0, and the outputs' centres lie between origin and end. False: no memory;
 * the axis is then not to be used. */
TAUT_NODISCARD bool tauti_axis_set(
	struct tauti_axis *axis, const struct tauti_axis_wish *wish);
void tauti_axis_fini(struct tauti_axis *axis);

/* The whole weight of tap t (0 .. 2 * pairs - 1) of output i. */
static inline uint32_t tauti_axis_weight(
	const struct tauti_axis *axis, uint32_t i, uint32_t t)
{
	const uint32_t *pair = axis->weights[(size_t)i * axis->pairs + t / 2];
	unsigned shift = t % 2 * 16;

	return (pair[0] >> shift & 0xffff) << TAUTI_WEIGHT_LOW_BITS |
		(pair[1] >> shift & 0xffff);
}

#endif /* TAUT_LOAD_IMAGE_AXIS_H */

/* kernels.h - the loops over pixels: across, down, and into the slot.
 *
 * There is a set for each kind of processor; all give the same bits, those of the plain one.
 *
 * Threads: pure functions of their arguments. Units: pixels of 3 bytes; bytes. */
#ifndef TAUT_LOAD_IMAGE_KERNELS_H
#define TAUT_LOAD_IMAGE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include <taut/prepare.h>

#include "load/image/axis.h"

/* How a row of u8 becomes elements: x * factor + term in 32 bits, rounded twice, then to
 * the type. Not used for U8. */
struct tauti_store {
	enum taut_prepare_type type;
	enum taut_prepare_layout layout;
	float factor[3], term[3];
	size_t plane_bytes; /* CHW: from one colour's plane to the next */
};

struct tauti_image_kernels {
	const char *name;
	/* Resizes n rows, 1 .. TAUTI_ROWS_AT_ONCE, horizontally. from[i] is the
	 * source pixel axis->least of row i. Rows of both sides have
	 * TAUTI_ROW_SLACK bytes after their end, which may be read and written. */
	void (*across)(const struct tauti_axis *axis,
		const unsigned char *const *from, unsigned char *const *to,
		unsigned n);
	/* One output row of n_bytes from 2 * n_pairs source rows, by the weights of
	 * one output pixel of a vertical axis. Source rows have the slack, `to` has
	 * none. */
	void (*down)(const uint32_t (*weights)[2], uint32_t n_pairs,
		const unsigned char *const *from, unsigned char *to,
		size_t n_bytes);
	/* A row of n pixels, with the slack, to its place in a slot, that of its first
	 * pixel's red. Wide elements go past the caches where the place is aligned. */
	void (*store)(const struct tauti_store *store, const unsigned char *from,
		uint32_t n, unsigned char *to);
	/* After the last store() of a slot, before another thread is told of it. */
	void (*settle)(void);
};

extern const struct tauti_image_kernels tauti_image_plain;
#if defined __x86_64__
extern const struct tauti_image_kernels tauti_image_avx2, tauti_image_vnni,
	tauti_image_vbmi;
#endif

/* The best set that this processor runs. */
const struct tauti_image_kernels *tauti_image_kernels(void);
/* Set i, or NULL: there is none, or this processor does not run it. i < 4. */
const struct tauti_image_kernels *tauti_image_kernels_at(unsigned i);

enum { TAUTI_IMAGE_KERNEL_SETS = 4 };

#endif /* TAUT_LOAD_IMAGE_KERNELS_H */

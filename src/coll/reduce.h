/* reduce.h - one set of kernels for each processor that they are written for.
 *
 *     reduce_loops.h   a loop for each type and reduction; the compiler makes
 *                      vectors of it, as wide as the file that includes it says
 *     reduce_plain.c   for any processor; what the others are compared with
 *     reduce_avx2.c    x86-64 with AVX2 and F16C
 *     reduce_avx512.c  x86-64 with AVX-512 F, BW, DQ and VL
 *
 * All give the same bits in the default floating-point environment (round to
 * nearest, denormals kept):
 *
 *     NaN       a result that is not a number is the quiet one without sign and
 *               payload: 0x7fc00000, 0x7ff8000000000000, 0x7e00, 0x7fc0.
 *               Processors differ in what they make of payloads.
 *     zeros     the minimum of zeros is -0 if either is; the maximum +0
 *     16 bits   each operation is one in float32, then one rounding; so is a cast.
 *               bfloat16 is rounded as an integer: AVX512_BF16 would drop
 *               denormals
 *     blocks    TAUT_MXINT8: reduce_blocks.h. */
#ifndef TAUT_COLL_REDUCE_H
#define TAUT_COLL_REDUCE_H

#include <taut/coll.h>

enum { TAUTI_TYPE_BYTES = 33 }; /* no element of any type is longer */

/* out may be a or b; no other overlap. Any alignment, any count. */
typedef void tauti_reduce_kernel(
	void *out, const void *a, const void *b, size_t count);

/* As taut_narrow() and taut_widen(). count: of the floats. */
typedef void tauti_narrow_kernel(
	void *out, const void *in, size_t count, float factor);
typedef void tauti_widen_kernel(void *out, const void *in, size_t count);

struct tauti_reduce_kernels {
	const char *name;
	/* NULL: there is no such reduction. */
	tauti_reduce_kernel *of[TAUT_CARRIED_TYPES][TAUT_REDUCTIONS];
	/* Of floats of 16 bits, and of blocks; NULL: of any other. */
	tauti_narrow_kernel *narrow[TAUT_CARRIED_TYPES];
	tauti_widen_kernel *widen[TAUT_CARRIED_TYPES];
};

extern const struct tauti_reduce_kernels tauti_reduce_plain;
extern const struct tauti_reduce_kernels tauti_reduce_avx2;
extern const struct tauti_reduce_kernels tauti_reduce_avx512;

/* The ith set that this processor can run, the plain one first and the one that
 * taut_reduce() takes last; NULL: there are no more. */
const struct tauti_reduce_kernels *tauti_reduce_set(size_t i);

#endif /* TAUT_COLL_REDUCE_H */

/* reduce_loops.h - a loop for each type and reduction.
 *
 * For a file that makes one set of kernels: it says before which instructions
 * there are, and ends with TAUTI_REDUCE_SET(). Floats are handled as their bits,
 * so that no compiler takes one NaN for another. Nothing branches on data: the
 * compiler turns conditions into masks. */
#ifndef TAUT_COLL_REDUCE_LOOPS_H
#define TAUT_COLL_REDUCE_LOOPS_H

#include <string.h>

#include "base/half.h"
#include "coll/reduce.h"

/* Of any alignment, and of whatever type the memory is. */
#define LOOSE __attribute__((aligned(1), may_alias))
typedef uint8_t loose_u8 LOOSE;
typedef uint16_t loose_u16 LOOSE;
typedef uint32_t loose_u32 LOOSE;
typedef uint64_t loose_u64 LOOSE;
typedef int8_t loose_i8 LOOSE;
typedef int32_t loose_i32 LOOSE;
typedef int64_t loose_i64 LOOSE;

/* No turn of the loop reads what an earlier one wrote, although the compiler
 * cannot know: out is a, or b, or neither. */
#if defined __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#define NO_DEPENDENCE _Pragma("clang loop vectorize(assume_safety)")
#else
#define NO_DEPENDENCE _Pragma("GCC ivdep")
#endif

#define LOOP(name, element, result) \
	static void name( \
		void *out, const void *a, const void *b, size_t count) \
	{ \
		const element *of_a = a, *of_b = b; \
		element *to = out; \
\
		NO_DEPENDENCE \
		for (size_t i = 0; i < count; i++) { \
			element x = of_a[i], y = of_b[i]; \
\
			to[i] = (element)(result); \
		} \
	}

/* --- integers: a sum has the same bits with a sign and without ----------------------*/

#define INTEGER_LOOPS(bits) \
	LOOP(sum_##bits, loose_u##bits, x + y) \
	LOOP(product_##bits, loose_u##bits, x * y) \
	LOOP(and_##bits, loose_u##bits, x & y) \
	LOOP(or_##bits, loose_u##bits, x | y) \
	LOOP(xor_##bits, loose_u##bits, x ^ y) \
	LOOP(min_i##bits, loose_i##bits, x < y ? x : y) \
	LOOP(max_i##bits, loose_i##bits, x > y ? x : y)

INTEGER_LOOPS(8)
INTEGER_LOOPS(32)
INTEGER_LOOPS(64)
LOOP(min_u8, loose_u8, x < y ? x : y)
LOOP(max_u8, loose_u8, x > y ? x : y)
LOOP(min_u64, loose_u64, x < y ? x : y)
LOOP(max_u64, loose_u64, x > y ? x : y)

/* --- floats of 32 and 64 bits, as their bits ------------------------------------------*/

#define FLOAT_OPERATIONS(bits, real, nan) \
	static inline real real_##bits(uint##bits##_t x) \
	{ \
		real value; \
\
		memcpy(&value, &x, sizeof value); \
		return value; \
	} \
	static inline uint##bits##_t settled_##bits(real value) \
	{ \
		uint##bits##_t x; \
\
		memcpy(&x, &value, sizeof x); \
		return value != value ? nan : x; \
	} \
	static inline uint##bits##_t fsum_##bits( \
		uint##bits##_t x, uint##bits##_t y) \
	{ \
		return settled_##bits(real_##bits(x) + real_##bits(y)); \
	} \
	static inline uint##bits##_t fproduct_##bits( \
		uint##bits##_t x, uint##bits##_t y) \
	{ \
		return settled_##bits(real_##bits(x) * real_##bits(y)); \
	} \
	/* Equal ones differ in their bits only where both are zero. */ \
	static inline uint##bits##_t fmin_##bits( \
		uint##bits##_t x, uint##bits##_t y) \
	{ \
		real a = real_##bits(x), b = real_##bits(y); \
		uint##bits##_t least = a < b ? x : y; \
\
		least = a == b ? x | y : least; \
		least = a != a ? nan : least; \
		return b != b ? nan : least; \
	} \
	static inline uint##bits##_t fmax_##bits( \
		uint##bits##_t x, uint##bits##_t y) \
	{ \
		real a = real_##bits(x), b = real_##bits(y); \
		uint##bits##_t most = a > b ? x : y; \
\
		most = a == b ? x & y : most; \
		most = a != a ? nan : most; \
		return b != b ? nan : most; \
	}

FLOAT_OPERATIONS(32, float, UINT32_C(0x7fc00000))
FLOAT_OPERATIONS(64, double, UINT64_C(0x7ff8000000000000))

#define FLOAT_LOOPS(bits) \
	LOOP(float_sum_##bits, loose_u##bits, fsum_##bits(x, y)) \
	LOOP(float_product_##bits, loose_u##bits, fproduct_##bits(x, y)) \
	LOOP(float_min_##bits, loose_u##bits, fmin_##bits(x, y)) \
	LOOP(float_max_##bits, loose_u##bits, fmax_##bits(x, y))

FLOAT_LOOPS(32)
FLOAT_LOOPS(64)

/* --- bfloat16 ---------------------------------------------------------------------------*/

#define BFLOAT_LOOP(name) \
	LOOP(bfloat_##name, loose_u16, \
		tauti_to_bfloat(f##name##_32( \
			tauti_of_bfloat(x), tauti_of_bfloat(y))))

BFLOAT_LOOP(sum)
BFLOAT_LOOP(product)

/* --- float16 ----------------------------------------------------------------------------*/

#define HALF_LOOP(name, operator) \
	LOOP(half_##name, loose_u16, tauti_to_half( \
		tauti_float_of(tauti_of_half(x)) operator \
		tauti_float_of(tauti_of_half(y)), 0x7e00))

HALF_LOOP(sum, +)
HALF_LOOP(product, *)

/* --- the least and most of 16 bits: floats are ordered as their sizes are ---------------*/

/* -0 just before +0. Twice is x again. */
static inline int16_t ordered(uint16_t x)
{
	return (int16_t)(x ^ ((uint16_t)((int16_t)x >> 15) & 0x7fff));
}

/* `chosen`, or the quiet NaN where either is beyond infinity. */
static inline uint16_t unless_nan(uint16_t x, uint16_t y, uint16_t chosen,
	uint16_t infinity, uint16_t nan)
{
	chosen = (x & 0x7fff) > infinity ? nan : chosen;
	return (y & 0x7fff) > infinity ? nan : chosen;
}

#define SHORT_LOOPS(name, infinity, nan) \
	LOOP(name##_min, loose_u16, unless_nan(x, y, \
		ordered(x) < ordered(y) ? x : y, infinity, nan)) \
	LOOP(name##_max, loose_u16, unless_nan(x, y, \
		ordered(x) > ordered(y) ? x : y, infinity, nan))

SHORT_LOOPS(half, 0x7c00, 0x7e00)
SHORT_LOOPS(bfloat, 0x7f80, 0x7fc0)

/* --- casts ---------------------------------------------------------------------------*/

#define NARROW_LOOP(name, result) \
	static void name##_narrow( \
		void *out, const void *in, size_t count, float factor) \
	{ \
		const loose_u32 *from = in; \
		loose_u16 *to = out; \
\
		NO_DEPENDENCE \
		for (size_t i = 0; i < count; i++) { \
			float x = real_32(from[i]) * factor; \
\
			to[i] = result; \
		} \
	}

NARROW_LOOP(half, tauti_to_half(x, 0x7e00))
NARROW_LOOP(bfloat, tauti_to_bfloat(settled_32(x)))

#define WIDEN_LOOP(name) \
	static void name##_widen(void *out, const void *in, size_t count) \
	{ \
		const loose_u16 *from = in; \
		loose_u32 *to = out; \
\
		NO_DEPENDENCE \
		for (size_t i = 0; i < count; i++) \
			to[i] = settled_32( \
				tauti_float_of(tauti_of_##name(from[i]))); \
	}

WIDEN_LOOP(half)
WIDEN_LOOP(bfloat)

/* --- blocks of 32 numbers ---------------------------------------------------------------*/

#include "coll/reduce_blocks.h"

/* --- the set --------------------------------------------------------------------------*/

#define INTEGER_ROW(bits, sign) \
	{ sum_##bits, product_##bits, min_##sign##bits, max_##sign##bits, \
		and_##bits, or_##bits, xor_##bits }

/* half: how the names of all of these but their least and most begin; block: the same
 * of all of theirs. */
#define TAUTI_REDUCE_SET(set, set_name, half, block) \
	const struct tauti_reduce_kernels set = { set_name, { \
		[TAUT_FLOAT32] = { float_sum_32, float_product_32, \
			float_min_32, float_max_32 }, \
		[TAUT_FLOAT64] = { float_sum_64, float_product_64, \
			float_min_64, float_max_64 }, \
		[TAUT_FLOAT16] = { half##_sum, half##_product, half_min, \
			half_max }, \
		[TAUT_BFLOAT16] = { bfloat_sum, bfloat_product, bfloat_min, \
			bfloat_max }, \
		[TAUT_INT8] = INTEGER_ROW(8, i), \
		[TAUT_UINT8] = INTEGER_ROW(8, u), \
		[TAUT_INT32] = INTEGER_ROW(32, i), \
		[TAUT_INT64] = INTEGER_ROW(64, i), \
		[TAUT_UINT64] = INTEGER_ROW(64, u), \
		[TAUT_MXINT8] = { block##_sum }, \
	}, { [TAUT_FLOAT16] = half##_narrow, \
		[TAUT_BFLOAT16] = bfloat_narrow, \
		[TAUT_MXINT8] = block##_narrow, \
	}, { [TAUT_FLOAT16] = half##_widen, \
		[TAUT_BFLOAT16] = bfloat_widen, \
		[TAUT_MXINT8] = block##_widen, \
	} }

#endif /* TAUT_COLL_REDUCE_LOOPS_H */

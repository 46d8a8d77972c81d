/* half.h - floats of 16 bits and of 32, as their bits.
 *
 * float16 has 5 bits of exponent with bias 15 and 10 of fraction; bfloat16 is the
 * upper half of a float32. Rounded to the nearest, ties to even; the processor's
 * rounding must be that. Nothing branches on data, so that loops over these become
 * vectors of whatever instructions the file that includes this is compiled for.
 * What is no number is the caller's: two rooms want other bits for it. */
#ifndef TAUT_BASE_HALF_H
#define TAUT_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t tauti_bits_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static inline float tauti_float_of(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof value);
	return value;
}

/* --- bfloat16 ------------------------------------------------------------------------*/

static inline uint32_t tauti_of_bfloat(uint16_t x)
{
	return (uint32_t)x << 16;
}

/* x is a number, or a NaN that no carry makes an infinity, as the quiet one. */
static inline uint16_t tauti_to_bfloat(uint32_t x)
{
	return (uint16_t)((x + 0x7fff + (x >> 16 & 1)) >> 16);
}

/* --- float16 -------------------------------------------------------------------------*/

/* a where x < y, else b; neither x nor y is below zero. By its sign, for of a
 * comparison compilers make a branch where what is chosen may trap. */
static inline int32_t tauti_where_less(int32_t x, int32_t y, int32_t a, int32_t b)
{
	int32_t mask = (x - y) >> 31;

	return (a & mask) | (b & ~mask);
}

/* Bits of a float32. Exact; a NaN keeps its fraction. */
static inline uint32_t tauti_of_half(uint16_t h)
{
	int32_t x = (int32_t)(h & 0x7fff) << 13;
	/* A denormal is its fraction above that of 2^-14, without the 2^-14. */
	int32_t small = (int32_t)tauti_bits_of(
		tauti_float_of((uint32_t)x + 0x38800000) - 0x1p-14f);
	int32_t wide = x + (112 << 23); /* 127 - 15 */

	/* Infinity and NaN have the highest exponent here and there. */
	wide = tauti_where_less(x, 31 << 23, wide, wide | 0x7f800000);
	wide = tauti_where_less(x, 1 << 23, small, wide);
	return (uint32_t)wide | (uint32_t)(h & 0x8000) << 16;
}

/* NaN: `nan`. */
static inline uint16_t tauti_to_half(float value, int32_t nan)
{
	uint32_t x = tauti_bits_of(value);
	int32_t size = (int32_t)(x & 0x7fffffff);
	/* Added to 0.5, whose last place is that of a denormal half. */
	int32_t small = (int32_t)tauti_bits_of(
		tauti_float_of((uint32_t)size) + 0.5f) - 0x3f000000;
	int32_t half = (size - (112 << 23) + 0xfff + (size >> 13 & 1)) >> 13;

	half = tauti_where_less(size, 0x38800000, small, half);  /* below 2^-14 */
	half = tauti_where_less(size, 0x47800000, half, 0x7c00); /* 2^16 and more */
	half |= (int32_t)(x >> 16 & 0x8000);
	return (uint16_t)tauti_where_less(0x7f800000, size, nan, half);
}

#endif /* TAUT_BASE_HALF_H */

/* scale.c - the factor of a task, in the pass over memory before it is sent.
 *
 * Loops without branches, which compilers make SIMD of. The processor's rounding
 * is the default one: the thread that calls has never changed it. */
#include "sync/sync.h"

#include <string.h>

enum { HALF_INFINITY = 0x7c00, HALF_NAN = 0x7e00 };

static float as_float(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof value);
	return value;
}

static uint32_t as_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

/* --- brain floats: the upper half of one of 32 bits --------------------------------*/

static uint16_t to_brain(float value)
{
	uint32_t bits = as_bits(value);
	uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
	uint32_t quiet = bits >> 16 | 0x40; /* a carry must make no infinity */

	return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

static void scale_brain(
	uint16_t *out, const uint16_t *in, uint64_t count, float factor)
{
	for (uint64_t i = 0; i < count; i++)
		out[i] = to_brain(as_float((uint32_t)in[i] << 16) * factor);
}

/* --- half floats ---------------------------------------------------------------------
 * Five bits of exponent with bias 15, where one of 32 bits has eight with 127.
 * Moved to the place of the latter, exponent and fraction are a number that is 2^112
 * too small, also below the least normal one, and multiplying makes it right. */

static float from_half(uint16_t half)
{
	uint32_t size = half & 0x7fff, sign = (uint32_t)(half & 0x8000) << 16;
	uint32_t bits = as_bits(
		as_float(size << 13) * as_float((112u + 127u) << 23));

	bits |= size >= HALF_INFINITY ? 0x7f800000u : 0;
	return as_float(bits | sign);
}

/* Below 2^-14 the last place is worth 2^-24, as it is of 0.5 in 32 bits: adding
 * 0.5 rounds there, as the processor does. */
static uint16_t to_half(float value)
{
	uint32_t bits = as_bits(value), size = bits & 0x7fffffff;
	uint32_t sign = bits >> 16 & 0x8000;
	uint32_t small = as_bits(as_float(size) + 0.5f) - as_bits(0.5f);
	uint32_t normal = (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;
	uint32_t large = size > 0x7f800000 ? HALF_NAN : HALF_INFINITY;
	uint32_t half = size < (113u << 23) ? small : normal;

	half = size >= (143u << 23) ? large : half; /* 2^16 */
	return (uint16_t)(half | sign);
}

static void scale_half(
	uint16_t *out, const uint16_t *in, uint64_t count, float factor)
{
	for (uint64_t i = 0; i < count; i++)
		out[i] = to_half(from_half(in[i]) * factor);
}

/* -------------------------------------------------------------------------------------*/

static void scale_float(
	float *out, const float *in, uint64_t count, float factor)
{
	for (uint64_t i = 0; i < count; i++)
		out[i] = in[i] * factor;
}

static void scale_double(
	double *out, const double *in, uint64_t count, double factor)
{
	for (uint64_t i = 0; i < count; i++)
		out[i] = in[i] * factor;
}

void tauti_sync_scale(enum taut_type type, void *out, const void *in,
	uint64_t count, double factor)
{
	if (factor == 1 || factor == 0) {
		if (out != in && count)
			memcpy(out, in, count * taut_type_bytes(type));
		return;
	}
	switch (type) {
	case TAUT_FLOAT64:
		scale_double(out, in, count, factor);
		break;
	case TAUT_FLOAT16:
		scale_half(out, in, count, (float)factor);
		break;
	case TAUT_BFLOAT16:
		scale_brain(out, in, count, (float)factor);
		break;
	default: /* no integer has a factor: taut_sync_declare() */
		scale_float(out, in, count, (float)factor);
	}
}

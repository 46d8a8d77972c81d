/* scale.c - the factor of a task, in the pass over memory before it is sent.
 *
 * Loops without branches, which compilers make SIMD of. The processor's rounding
 * is the default one: the thread that calls has never changed it. */
#include "sync/sync.h"

#include <string.h>

#include "base/half.h"

/* A NaN keeps its sign, and of a brain float what fits of its fraction. */
static uint16_t to_brain(float value)
{
	uint32_t bits = tauti_bits_of(value);
	uint32_t quiet = bits >> 16 | 0x40;

	return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet :
		tauti_to_bfloat(bits));
}

static uint16_t to_half(float value)
{
	uint32_t sign = tauti_bits_of(value) >> 16 & 0x8000;

	return tauti_to_half(value, (int32_t)(0x7e00 | sign));
}

static void scale_brain(
	uint16_t *out, const uint16_t *in, uint64_t count, float factor)
{
	for (uint64_t i = 0; i < count; i++)
		out[i] = to_brain(
			tauti_float_of(tauti_of_bfloat(in[i])) * factor);
}

static void scale_half(
	uint16_t *out, const uint16_t *in, uint64_t count, float factor)
{
	for (uint64_t i = 0; i < count; i++)
		out[i] = to_half(
			tauti_float_of(tauti_of_half(in[i])) * factor);
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

/* kernels_plain.c - the loops over pixels in plain C: what all others are compared with. */
#include <string.h>

#include "base/half.h"
#include "load/image/kernels.h"

static const uint32_t HALF = 1u << (TAUTI_WEIGHT_BITS - 1);

static unsigned char rounded(uint32_t sum)
{
	uint32_t value = (sum + HALF) >> TAUTI_WEIGHT_BITS;

	return (unsigned char)(value < 255 ? value : 255);
}

static void across_row(const struct tauti_axis *axis, const unsigned char *from,
	unsigned char *to)
{
	for (uint32_t i = 0; i < axis->outputs; i++, to += 3) {
		const unsigned char *at = from + (size_t)axis->starts[i] * 3;
		uint32_t sum[3] = { 0 };

		for (uint32_t t = 0; t < 2 * axis->pairs; t++, at += 3) {
			uint32_t weight = tauti_axis_weight(axis, i, t);

			/* Behind the last one there may be nothing. */
			if (weight == 0)
				continue;
			sum[0] += at[0] * weight;
			sum[1] += at[1] * weight;
			sum[2] += at[2] * weight;
		}
		for (unsigned c = 0; c < 3; c++)
			to[c] = rounded(sum[c]);
	}
}

static void across(const struct tauti_axis *axis, const unsigned char *const *from,
	unsigned char *const *to, unsigned n)
{
	for (unsigned row = 0; row < n; row++)
		across_row(axis, from[row], to[row]);
}

static void down(const uint32_t (*weights)[2], uint32_t n_pairs,
	const unsigned char *const *from, unsigned char *to, size_t n_bytes)
{
	for (size_t i = 0; i < n_bytes; i++) {
		uint32_t high = 0, low = 0;

		for (uint32_t p = 0; p < n_pairs; p++) {
			const uint32_t *w = weights[p];
			unsigned a = from[2 * p][i], b = from[2 * p + 1][i];

			high += a * (w[0] & 0xffff) + b * (w[0] >> 16);
			low += a * (w[1] & 0xffff) + b * (w[1] >> 16);
		}
		to[i] = rounded((high << TAUTI_WEIGHT_LOW_BITS) + low);
	}
}

/* --- into the slot ---------------------------------------------------------------------*/

/* One colour: every third byte to every step-th element. */
static void store_u8(const struct tauti_store *s, unsigned c,
	const unsigned char *from, uint32_t n, unsigned char *to, size_t step)
{
	(void)s;
	(void)c;
	for (uint32_t i = 0; i < n; i++)
		to[i * step] = from[(size_t)i * 3];
}

static float element(const struct tauti_store *s, unsigned c, unsigned char x)
{
	float scaled = (float)x * s->factor[c];

	return scaled + s->term[c];
}

static void store_f32(const struct tauti_store *s, unsigned c,
	const unsigned char *from, uint32_t n, unsigned char *to, size_t step)
{
	for (uint32_t i = 0; i < n; i++) {
		float value = element(s, c, from[(size_t)i * 3]);

		memcpy(to + i * step * 4, &value, 4);
	}
}

static void store_f16(const struct tauti_store *s, unsigned c,
	const unsigned char *from, uint32_t n, unsigned char *to, size_t step)
{
	for (uint32_t i = 0; i < n; i++) {
		uint16_t value = tauti_to_half(
			element(s, c, from[(size_t)i * 3]), 0x7e00);

		memcpy(to + i * step * 2, &value, 2);
	}
}

static void store_bf16(const struct tauti_store *s, unsigned c,
	const unsigned char *from, uint32_t n, unsigned char *to, size_t step)
{
	for (uint32_t i = 0; i < n; i++) {
		uint16_t value = tauti_to_bfloat(tauti_bits_of(
			element(s, c, from[(size_t)i * 3])));

		memcpy(to + i * step * 2, &value, 2);
	}
}

static void store(const struct tauti_store *s, const unsigned char *from,
	uint32_t n, unsigned char *to)
{
	static void (*const of_type[TAUT_PIXELS])(const struct tauti_store *s,
		unsigned c, const unsigned char *from, uint32_t n,
		unsigned char *to, size_t step) = { store_u8, store_f32,
		store_f16, store_bf16 };
	bool planes = s->layout == TAUT_LAYOUT_CHW;
	size_t apart = planes ? s->plane_bytes : taut_prepare_type_bytes(s->type);

	for (unsigned c = 0; c < 3; c++)
		of_type[s->type](s, c, from + c, n, to + c * apart,
			planes ? 1 : 3);
}

static void settle(void)
{
}

const struct tauti_image_kernels tauti_image_plain = {
	.name = "plain",
	.across = across,
	.down = down,
	.store = store,
	.settle = settle,
};

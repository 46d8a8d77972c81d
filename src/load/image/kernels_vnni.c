/* kernels_vnni.c - the loops over pixels for x86-64 with AVX-512 and its VNNI, which
 * multiplies pairs and adds to a sum at once. */
#include <immintrin.h>
#include <string.h>

#include "load/image/kernels.h"

#if defined __clang__
#pragma clang attribute push( \
	__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni"))), \
	apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512vnni")
#endif

#define INLINE static inline __attribute__((always_inline))

/* Sums of pixels times high and low parts, 16 of each. */
struct sums {
	__m512i high, low;
};

/* Half of the unit is in the sum from the beginning, for rounding. */
INLINE struct sums nothing(void)
{
	return (struct sums){ _mm512_setzero_si512(),
		_mm512_set1_epi32(1 << (TAUTI_WEIGHT_BITS - 1)) };
}

INLINE struct sums add(struct sums sums, __m512i pixels, const uint32_t weights[2])
{
	sums.high = _mm512_dpwssd_epi32(
		sums.high, pixels, _mm512_set1_epi32((int)weights[0]));
	sums.low = _mm512_dpwssd_epi32(
		sums.low, pixels, _mm512_set1_epi32((int)weights[1]));
	return sums;
}

INLINE __m512i value(struct sums sums)
{
	__m512i all = _mm512_add_epi32(
		_mm512_slli_epi32(sums.high, TAUTI_WEIGHT_LOW_BITS), sums.low);

	return _mm512_srli_epi32(all, TAUTI_WEIGHT_BITS);
}

/* --- across: four rows at a time, one in each quarter of a register ----------------------*/

INLINE __m128i some(const unsigned char *from)
{
	return _mm_loadu_si128((const void *)from);
}

INLINE __m512i four_rows(const unsigned char *const *from, size_t at)
{
	__m512i rows = _mm512_castsi128_si512(some(from[0] + at));

	rows = _mm512_inserti32x4(rows, some(from[1] + at), 1);
	rows = _mm512_inserti32x4(rows, some(from[2] + at), 2);
	return _mm512_inserti32x4(rows, some(from[3] + at), 3);
}

/* Of 5 pixels at the beginning of each quarter, the first two or the second two as words:
 * red of both, green of both, blue of both. */
INLINE __m512i pair_of(__m512i pixels, uint32_t second)
{
	__m512i first_two = _mm512_broadcast_i32x4(_mm_setr_epi8(0, -1, 3, -1, 1,
		-1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
	__m512i second_two = _mm512_broadcast_i32x4(_mm_setr_epi8(6, -1, 9, -1,
		7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));

	return _mm512_shuffle_epi8(pixels, second ? second_two : first_two);
}

/* The fourth byte belongs to the next pixel. */
INLINE void put_pixels(unsigned char *const *to, size_t at, __m128i bytes)
{
	uint32_t pixels[4] = { (uint32_t)_mm_cvtsi128_si32(bytes),
		(uint32_t)_mm_extract_epi32(bytes, 1),
		(uint32_t)_mm_extract_epi32(bytes, 2),
		(uint32_t)_mm_extract_epi32(bytes, 3) };

	for (int row = 0; row < 4; row++)
		memcpy(to[row] + at, &pixels[row], 4);
}

INLINE void across_four(const struct tauti_axis *axis,
	const unsigned char *const *from, unsigned char *const *to,
	uint32_t pairs)
{
	const uint32_t(*weights)[2] = (const uint32_t(*)[2])axis->weights;

	for (uint32_t i = 0; i < axis->outputs; i++, weights += pairs) {
		size_t at = (size_t)axis->starts[i] * 3;
		struct sums sums = nothing();
		__m512i rows = sums.high;

		for (uint32_t p = 0; p < pairs; p++) {
			if (p % 2 == 0)
				rows = four_rows(from, at + p * 6);
			sums = add(sums, pair_of(rows, p % 2), weights[p]);
		}
		put_pixels(to, (size_t)i * 3,
			_mm512_cvtusepi32_epi8(value(sums)));
	}
}

/* The usual numbers of pairs, each with its loop unrolled. */
static void across_pairs(const struct tauti_axis *axis,
	const unsigned char *const *from, unsigned char *const *to)
{
	switch (axis->pairs) {
	case 1:
		across_four(axis, from, to, 1);
		break;
	case 2:
		across_four(axis, from, to, 2);
		break;
	case 3:
		across_four(axis, from, to, 3);
		break;
	default:
		across_four(axis, from, to, axis->pairs);
	}
}

static void across(const struct tauti_axis *axis, const unsigned char *const *from,
	unsigned char *const *to, unsigned n)
{
	const unsigned char *four_from[4];
	unsigned char *four_to[4];

	/* Of fewer than four, the last one is done again, in the same place. */
	for (unsigned row = 0; row < n; row += 4) {
		for (unsigned i = 0; i < 4; i++) {
			unsigned at = row + i < n ? row + i : n - 1;

			four_from[i] = from[at];
			four_to[i] = to[at];
		}
		across_pairs(axis, four_from, four_to);
	}
}

/* --- down: 64 bytes at a time --------------------------------------------------------------*/

INLINE void down_block(const uint32_t (*weights)[2], uint32_t n_pairs,
	const unsigned char *const *from, unsigned char *to, size_t at)
{
	__m512i zero = _mm512_setzero_si512(), low, high;
	struct sums sums[4] = { nothing(), nothing(), nothing(), nothing() };

	for (uint32_t p = 0; p < n_pairs; p++) {
		__m512i a = _mm512_loadu_si512(from[2 * p] + at);
		__m512i b = _mm512_loadu_si512(from[2 * p + 1] + at);

		low = _mm512_unpacklo_epi8(a, b);
		high = _mm512_unpackhi_epi8(a, b);
		sums[0] = add(sums[0], _mm512_unpacklo_epi8(low, zero), weights[p]);
		sums[1] = add(sums[1], _mm512_unpackhi_epi8(low, zero), weights[p]);
		sums[2] = add(sums[2], _mm512_unpacklo_epi8(high, zero), weights[p]);
		sums[3] = add(sums[3], _mm512_unpackhi_epi8(high, zero), weights[p]);
	}
	low = _mm512_packs_epi32(value(sums[0]), value(sums[1]));
	high = _mm512_packs_epi32(value(sums[2]), value(sums[3]));
	_mm512_storeu_si512(to + at, _mm512_packus_epi16(low, high));
}

INLINE void down_row(const uint32_t (*weights)[2], uint32_t n_pairs,
	const unsigned char *const *from, unsigned char *to, size_t n_bytes)
{
	size_t at = 0;

	for (; at + 64 <= n_bytes; at += 64)
		down_block(weights, n_pairs, from, to, at);
	if (at < n_bytes)
		down_block(weights, n_pairs, from, to, n_bytes - 64);
}

static void down(const uint32_t (*weights)[2], uint32_t n_pairs,
	const unsigned char *const *from, unsigned char *to, size_t n_bytes)
{
	if (n_bytes < 64)
		tauti_image_avx2.down(weights, n_pairs, from, to, n_bytes);
	else if (n_pairs == 1)
		down_row(weights, 1, from, to, n_bytes);
	else if (n_pairs == 2)
		down_row(weights, 2, from, to, n_bytes);
	else
		down_row(weights, n_pairs, from, to, n_bytes);
}

static void store(const struct tauti_store *s, const unsigned char *from,
	uint32_t n, unsigned char *to)
{
	tauti_image_avx2.store(s, from, n, to);
}

static void settle(void)
{
	_mm_sfence();
}

const struct tauti_image_kernels tauti_image_vnni = {
	.name = "vnni",
	.across = across,
	.down = down,
	.store = store,
	.settle = settle,
};

#if defined __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

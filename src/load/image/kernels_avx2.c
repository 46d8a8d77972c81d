/* kernels_avx2.c - the loops over pixels for x86-64 with AVX2 and F16C. */
#include <immintrin.h>
#include <string.h>

#include "load/image/kernels.h"

#if defined __clang__
#pragma clang attribute push( \
	__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif

#define INLINE static inline __attribute__((always_inline))

/* Sums of pixels times high and low parts, 8 of each. */
struct sums {
	__m256i high, low;
};

INLINE struct sums add(struct sums sums, __m256i pixels, const uint32_t weights[2])
{
	__m256i high = _mm256_set1_epi32((int)weights[0]);
	__m256i low = _mm256_set1_epi32((int)weights[1]);

	sums.high = _mm256_add_epi32(
		sums.high, _mm256_madd_epi16(pixels, high));
	sums.low = _mm256_add_epi32(sums.low, _mm256_madd_epi16(pixels, low));
	return sums;
}

/* The rounded sums, 8 values of at most 32767. */
INLINE __m256i value(struct sums sums)
{
	__m256i half = _mm256_set1_epi32(1 << (TAUTI_WEIGHT_BITS - 1));
	__m256i all = _mm256_add_epi32(
		_mm256_slli_epi32(sums.high, TAUTI_WEIGHT_LOW_BITS), sums.low);

	return _mm256_srli_epi32(_mm256_add_epi32(all, half), TAUTI_WEIGHT_BITS);
}

/* --- across: four rows at a time, two of them in a register ------------------------------*/

INLINE __m256i two_rows(const unsigned char *a, const unsigned char *b)
{
	return _mm256_inserti128_si256(
		_mm256_castsi128_si256(_mm_loadu_si128((const void *)a)),
		_mm_loadu_si128((const void *)b), 1);
}

/* Of 5 pixels at the beginning of each half, the first two or the second two as words:
 * red of both, green of both, blue of both. */
INLINE __m256i pair_of(__m256i pixels, uint32_t second)
{
	__m256i first_two = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1,
		5, -1, -1, -1, -1, -1, 0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1,
		-1, -1, -1, -1);
	__m256i second_two = _mm256_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8,
		-1, 11, -1, -1, -1, -1, -1, 6, -1, 9, -1, 7, -1, 10, -1, 8, -1,
		11, -1, -1, -1, -1, -1);

	return _mm256_shuffle_epi8(pixels, second ? second_two : first_two);
}

INLINE void put_pixel(unsigned char *to, __m128i half, int second)
{
	int bytes = second ? _mm_extract_epi32(half, 1) : _mm_cvtsi128_si32(half);

	memcpy(to, &bytes, 4); /* the fourth belongs to the next one */
}

INLINE void across_four(const struct tauti_axis *axis,
	const unsigned char *const *from, unsigned char *const *to,
	uint32_t pairs)
{
	const uint32_t(*weights)[2] = (const uint32_t(*)[2])axis->weights;

	for (uint32_t i = 0; i < axis->outputs; i++, weights += pairs) {
		size_t at = (size_t)axis->starts[i] * 3, out = (size_t)i * 3;
		struct sums ab = { _mm256_setzero_si256(),
			_mm256_setzero_si256() }, cd = ab;
		__m256i rows_ab = ab.high, rows_cd = ab.high, bytes;

		for (uint32_t p = 0; p < pairs; p++) {
			if (p % 2 == 0) {
				rows_ab = two_rows(from[0] + at + p * 6,
					from[1] + at + p * 6);
				rows_cd = two_rows(from[2] + at + p * 6,
					from[3] + at + p * 6);
			}
			ab = add(ab, pair_of(rows_ab, p % 2), weights[p]);
			cd = add(cd, pair_of(rows_cd, p % 2), weights[p]);
		}
		bytes = _mm256_packs_epi32(value(ab), value(cd));
		bytes = _mm256_packus_epi16(bytes, bytes);
		put_pixel(to[0] + out, _mm256_castsi256_si128(bytes), 0);
		put_pixel(to[2] + out, _mm256_castsi256_si128(bytes), 1);
		put_pixel(to[1] + out, _mm256_extracti128_si256(bytes, 1), 0);
		put_pixel(to[3] + out, _mm256_extracti128_si256(bytes, 1), 1);
	}
}

#include "load/image/kernels_four.h"

/* --- down: 32 bytes at a time --------------------------------------------------------------*/

INLINE void down_block(const uint32_t (*weights)[2], uint32_t n_pairs,
	const unsigned char *const *from, unsigned char *to, size_t at)
{
	__m256i zero = _mm256_setzero_si256(), low, high;
	struct sums sums[4] = { { zero, zero }, { zero, zero }, { zero, zero },
		{ zero, zero } };

	for (uint32_t p = 0; p < n_pairs; p++) {
		__m256i a = _mm256_loadu_si256(
			(const void *)(from[2 * p] + at));
		__m256i b = _mm256_loadu_si256(
			(const void *)(from[2 * p + 1] + at));

		low = _mm256_unpacklo_epi8(a, b);
		high = _mm256_unpackhi_epi8(a, b);
		sums[0] = add(sums[0], _mm256_unpacklo_epi8(low, zero), weights[p]);
		sums[1] = add(sums[1], _mm256_unpackhi_epi8(low, zero), weights[p]);
		sums[2] = add(sums[2], _mm256_unpacklo_epi8(high, zero), weights[p]);
		sums[3] = add(sums[3], _mm256_unpackhi_epi8(high, zero), weights[p]);
	}
	low = _mm256_packs_epi32(value(sums[0]), value(sums[1]));
	high = _mm256_packs_epi32(value(sums[2]), value(sums[3]));
	_mm256_storeu_si256(
		(void *)(to + at), _mm256_packus_epi16(low, high));
}

INLINE void down_row(const uint32_t (*weights)[2], uint32_t n_pairs,
	const unsigned char *const *from, unsigned char *to, size_t n_bytes)
{
	size_t at = 0;

	for (; at + 32 <= n_bytes; at += 32)
		down_block(weights, n_pairs, from, to, at);
	if (at < n_bytes)
		down_block(weights, n_pairs, from, to, n_bytes - 32);
}

static void down(const uint32_t (*weights)[2], uint32_t n_pairs,
	const unsigned char *const *from, unsigned char *to, size_t n_bytes)
{
	if (n_bytes < 32)
		tauti_image_plain.down(weights, n_pairs, from, to, n_bytes);
	else if (n_pairs == 1)
		down_row(weights, 1, from, to, n_bytes);
	else if (n_pairs == 2)
		down_row(weights, 2, from, to, n_bytes);
	else
		down_row(weights, n_pairs, from, to, n_bytes);
}

/* --- into the slot -------------------------------------------------------------------------*/

/* Eight elements of 8 bytes; returns the bytes written. */
INLINE size_t put_eight(enum taut_prepare_type type, __m128i bytes,
	__m256 factor, __m256 term, unsigned char *to)
{
	__m256 x = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
	__m256i bits;

	x = _mm256_add_ps(_mm256_mul_ps(x, factor), term);
	if (type == TAUT_PIXEL_F32) {
		if ((uintptr_t)to % 32 == 0)
			_mm256_stream_ps((void *)to, x);
		else
			_mm256_storeu_ps((void *)to, x);
		return 32;
	}
	if (type == TAUT_PIXEL_F16) {
		_mm_storeu_si128((void *)to,
			_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
		return 16;
	}
	bits = _mm256_castps_si256(x);
	bits = _mm256_add_epi32(bits, _mm256_add_epi32(
		_mm256_set1_epi32(0x7fff), _mm256_and_si256(
			_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1))));
	bits = _mm256_srli_epi32(bits, 16);
	_mm_storeu_si128((void *)to,
		_mm_packus_epi32(_mm256_castsi256_si128(bits),
			_mm256_extracti128_si256(bits, 1)));
	return 16;
}

INLINE size_t bytes_of(enum taut_prepare_type type)
{
	return type == TAUT_PIXEL_F32 ? 4 : type == TAUT_PIXEL_U8 ? 1 : 2;
}

/* Sixteen pixels as 16 bytes of each colour. */
INLINE void split(const unsigned char *from, __m128i colours[3])
{
	/* Where the bytes of colour 0 are in the first 16, the next, the last; those
	 * of the others follow by one and two. */
	__m128i a = _mm_loadu_si128((const void *)from);
	__m128i b = _mm_loadu_si128((const void *)(from + 16));
	__m128i c = _mm_loadu_si128((const void *)(from + 32));
	__m128i order = _mm_setr_epi8(
		0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45);

	for (int i = 0; i < 3; i++) {
		__m128i at = _mm_add_epi8(order, _mm_set1_epi8((char)i));
		__m128i is_b = _mm_cmpgt_epi8(at, _mm_set1_epi8(15));
		__m128i is_c = _mm_cmpgt_epi8(at, _mm_set1_epi8(31));
		__m128i none = _mm_set1_epi8(-1);

		colours[i] = _mm_or_si128(_mm_or_si128(
			_mm_shuffle_epi8(a, _mm_or_si128(at, is_b)),
			_mm_shuffle_epi8(b, _mm_or_si128(_mm_or_si128(at, is_c),
				_mm_andnot_si128(is_b, none)))),
			_mm_shuffle_epi8(c, _mm_or_si128(
				at, _mm_andnot_si128(is_c, none))));
	}
}

/* A row to three planes; returns the pixels done, a multiple of 16. */
INLINE uint32_t to_planes(const struct tauti_store *s, const unsigned char *from,
	uint32_t n, unsigned char *to, enum taut_prepare_type type)
{
	__m128i colours[3];
	uint32_t i = 0;

	for (; i + 16 <= n; i += 16, from += 48) {
		split(from, colours);
		for (int c = 0; c < 3; c++) {
			__m256 factor = _mm256_set1_ps(s->factor[c]);
			__m256 term = _mm256_set1_ps(s->term[c]);
			unsigned char *at = to + s->plane_bytes * c +
				i * bytes_of(type);

			if (type == TAUT_PIXEL_U8) {
				_mm_storeu_si128((void *)at, colours[c]);
				continue;
			}
			at += put_eight(type, colours[c], factor, term, at);
			put_eight(type, _mm_srli_si128(colours[c], 8), factor,
				term, at);
		}
	}
	return i;
}

/* A row as it is; returns the pixels done, a multiple of 8. */
INLINE uint32_t to_pixels(const struct tauti_store *s, const unsigned char *from,
	uint32_t n, unsigned char *to, enum taut_prepare_type type)
{
	__m256 factor[3], term[3];
	float both[2][24];
	uint32_t i = 0;

	for (unsigned k = 0; k < 24; k++) {
		both[0][k] = s->factor[k % 3];
		both[1][k] = s->term[k % 3];
	}
	for (unsigned k = 0; k < 3; k++) {
		factor[k] = _mm256_loadu_ps(both[0] + 8 * k);
		term[k] = _mm256_loadu_ps(both[1] + 8 * k);
	}
	for (; i + 8 <= n; i += 8)
		for (int k = 0; k < 3; k++, from += 8)
			to += put_eight(type,
				_mm_loadl_epi64((const void *)from), factor[k],
				term[k], to);
	return i;
}

static uint32_t store_most(const struct tauti_store *s, const unsigned char *from,
	uint32_t n, unsigned char *to)
{
	bool planes = s->layout == TAUT_LAYOUT_CHW;

	switch (s->type) {
	case TAUT_PIXEL_F32:
		return planes ? to_planes(s, from, n, to, TAUT_PIXEL_F32) :
			to_pixels(s, from, n, to, TAUT_PIXEL_F32);
	case TAUT_PIXEL_F16:
		return planes ? to_planes(s, from, n, to, TAUT_PIXEL_F16) :
			to_pixels(s, from, n, to, TAUT_PIXEL_F16);
	case TAUT_PIXEL_BF16:
		return planes ? to_planes(s, from, n, to, TAUT_PIXEL_BF16) :
			to_pixels(s, from, n, to, TAUT_PIXEL_BF16);
	default:
		return planes ? to_planes(s, from, n, to, TAUT_PIXEL_U8) : 0;
	}
}

static void store(const struct tauti_store *s, const unsigned char *from,
	uint32_t n, unsigned char *to)
{
	uint32_t done;

	if (s->type == TAUT_PIXEL_U8 && s->layout == TAUT_LAYOUT_HWC) {
		memcpy(to, from, (size_t)n * 3);
		return;
	}
	done = store_most(s, from, n, to);
	if (s->layout == TAUT_LAYOUT_HWC)
		to += (size_t)done * 3 * bytes_of(s->type);
	else
		to += done * bytes_of(s->type);
	if (done < n)
		tauti_image_plain.store(
			s, from + (size_t)done * 3, n - done, to);
}

static void settle(void)
{
	_mm_sfence();
}

const struct tauti_image_kernels tauti_image_avx2 = {
	.name = "avx2",
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

/* reduce_blocks_avx2.h - reduce_blocks.h in vectors of 8, for the sets of x86-64: its
 * bytes are too narrow for what compilers make of the loops there. Bit by bit the same.
 * Included behind reduce_loops.h, with the instructions switched on. */
#ifndef TAUT_COLL_REDUCE_BLOCKS_AVX2_H
#define TAUT_COLL_REDUCE_BLOCKS_AVX2_H

#include <immintrin.h>

struct wide_block { /* its 32 numbers in order */
	__m256 x[4];
};

static inline __m256 get_eighth(const uint8_t *from, __m256 unit)
{
	__m128i bytes = _mm_loadl_epi64((const void *)from);

	return _mm256_mul_ps(
		_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), unit);
}

static inline struct wide_block get_wide(const uint8_t *block)
{
	__m256 unit = _mm256_castsi256_ps(
		_mm256_set1_epi32((int)unit_of(block)));

	return (struct wide_block){ { get_eighth(block + 1, unit),
		get_eighth(block + 9, unit), get_eighth(block + 17, unit),
		get_eighth(block + 25, unit) } };
}

/* The largest of all sizes, as the bits of float32. */
static inline uint32_t most_of(const struct wide_block *b)
{
	__m256i all = _mm256_set1_epi32(0x7fffffff), most;
	__m128i half;

	most = _mm256_and_si256(_mm256_castps_si256(b->x[0]), all);
	for (int i = 1; i < 4; i++)
		most = _mm256_max_epu32(most, _mm256_and_si256(
			_mm256_castps_si256(b->x[i]), all));
	half = _mm_max_epu32(_mm256_castsi256_si128(most),
		_mm256_extracti128_si256(most, 1));
	half = _mm_max_epu32(half, _mm_shuffle_epi32(half, 0x4e));
	half = _mm_max_epu32(half, _mm_shuffle_epi32(half, 0xb1));
	return (uint32_t)_mm_cvtsi128_si32(half);
}

static inline __m256i whole_of(__m256 x, __m256 up)
{
	return _mm256_cvtps_epi32(_mm256_mul_ps(x, up));
}

static inline void put_wide(uint8_t *block, const struct wide_block *b)
{
	uint32_t s = most_of(b) >> 23;
	__m256i low, high, bytes;
	__m256 up;

	s = s < LEAST_SCALE ? LEAST_SCALE : s;
	up = _mm256_castsi256_ps(_mm256_set1_epi32((int)((260 - s) << 23)));
	low = _mm256_packs_epi32(
		whole_of(b->x[0], up), whole_of(b->x[1], up));
	high = _mm256_packs_epi32(
		whole_of(b->x[2], up), whole_of(b->x[3], up));
	bytes = _mm256_max_epi8(
		_mm256_packs_epi16(low, high), _mm256_set1_epi8(-127));
	/* Packing is within halves of a vector. */
	bytes = _mm256_permutevar8x32_epi32(
		bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
	bytes = _mm256_and_si256(
		bytes, _mm256_set1_epi8(s == NO_NUMBERS ? 0 : -1));
	block[0] = (uint8_t)s;
	_mm256_storeu_si256((void *)(block + 1), bytes);
}

static void wide_block_sum(
	void *out, const void *a, const void *b, size_t count)
{
	const uint8_t *of_a = a, *of_b = b;
	uint8_t *to = out;

	for (; count--; of_a += BLOCK_BYTES, of_b += BLOCK_BYTES,
		to += BLOCK_BYTES) {
		struct wide_block x = get_wide(of_a), y = get_wide(of_b);

		for (int i = 0; i < 4; i++)
			x.x[i] = _mm256_add_ps(x.x[i], y.x[i]);
		put_wide(to, &x);
	}
}

static void wide_block_narrow(
	void *out, const void *in, size_t count, float factor)
{
	const loose_u32 *from = in;
	uint8_t *to = out;
	__m256 by = _mm256_set1_ps(factor);

	for (; count >= BLOCK; count -= BLOCK, from += BLOCK, to += BLOCK_BYTES) {
		struct wide_block b;

		for (int i = 0; i < 4; i++)
			b.x[i] = _mm256_mul_ps(by, _mm256_loadu_ps(
				(const void *)(from + 8 * i)));
		put_wide(to, &b);
	}
	block_narrow(to, from, count, factor);
}

static void wide_block_widen(void *out, const void *in, size_t count)
{
	const uint8_t *from = in;
	loose_u32 *to = out;

	for (; count >= BLOCK; count -= BLOCK, from += BLOCK_BYTES, to += BLOCK) {
		struct wide_block b = get_wide(from);

		for (int i = 0; i < 4; i++)
			_mm256_storeu_ps((void *)(to + 8 * i), b.x[i]);
	}
	block_widen(to, from, count);
}

#endif /* TAUT_COLL_REDUCE_BLOCKS_AVX2_H */

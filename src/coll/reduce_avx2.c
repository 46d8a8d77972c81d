/* reduce_avx2.c - the kernels for x86-64 with AVX2, and F16C for halves. */
#include <immintrin.h>
#include <string.h>

#include "coll/reduce.h"

#if defined __clang__
#pragma clang attribute push( \
	__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif

#include "coll/reduce_loops.h"
/* Not in the order of names: it stands on the other. */
#include "coll/reduce_blocks_avx2.h"

static inline __m256 settled(__m256 r)
{
	__m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));

	return _mm256_blendv_ps(r, nan, _mm256_cmp_ps(r, r, _CMP_UNORD_Q));
}

static inline __m256 wide_sum(__m256 x, __m256 y)
{
	return settled(_mm256_add_ps(x, y));
}

static inline __m256 wide_product(__m256 x, __m256 y)
{
	return settled(_mm256_mul_ps(x, y));
}

static inline __m256 get_halves(const loose_u16 *from)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const void *)from));
}

static inline void put_halves(loose_u16 *to, __m256 x)
{
	_mm_storeu_si128((void *)to,
		_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

#define WIDE_HALF_LOOP(name) \
	static void wide_half_##name( \
		void *out, const void *a, const void *b, size_t count) \
	{ \
		const loose_u16 *of_a = a, *of_b = b; \
		loose_u16 *to = out; \
		size_t i = 0; \
\
		for (; i + 8 <= count; i += 8) \
			put_halves(to + i, wide_##name(get_halves(of_a + i), \
				get_halves(of_b + i))); \
		half_##name(to + i, of_a + i, of_b + i, count - i); \
	}

WIDE_HALF_LOOP(sum)
WIDE_HALF_LOOP(product)

static void wide_half_narrow(
	void *out, const void *in, size_t count, float factor)
{
	const loose_u32 *from = in;
	loose_u16 *to = out;
	size_t i = 0;

	for (; i + 8 <= count; i += 8)
		put_halves(to + i, wide_product(
			_mm256_loadu_ps((const void *)(from + i)),
			_mm256_set1_ps(factor)));
	half_narrow(to + i, from + i, count - i, factor);
}

static void wide_half_widen(void *out, const void *in, size_t count)
{
	const loose_u16 *from = in;
	loose_u32 *to = out;
	size_t i = 0;

	for (; i + 8 <= count; i += 8)
		_mm256_storeu_ps((void *)(to + i), settled(get_halves(from + i)));
	half_widen(to + i, from + i, count - i);
}

TAUTI_REDUCE_SET(tauti_reduce_avx2, "avx2", wide_half, wide_block);

#if defined __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

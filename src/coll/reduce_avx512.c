/* reduce_avx512.c - the kernels for x86-64 with AVX-512. */
#include <immintrin.h>
#include <string.h>

#include "coll/reduce.h"

#if defined __clang__
#pragma clang attribute push(__attribute__((target( \
	"avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#endif

#include "coll/reduce_loops.h"
/* Not in the order of names: it stands on the other. */
#include "coll/reduce_blocks_avx2.h"

static inline __m512 settled(__m512 r)
{
	return _mm512_mask_mov_ps(r,
		_mm512_cmp_ps_mask(r, r, _CMP_UNORD_Q),
		_mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000)));
}

static inline __m512 wide_sum(__m512 x, __m512 y)
{
	return settled(_mm512_add_ps(x, y));
}

static inline __m512 wide_product(__m512 x, __m512 y)
{
	return settled(_mm512_mul_ps(x, y));
}

static inline __m512 get_halves(const loose_u16 *from)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)from));
}

static inline void put_halves(loose_u16 *to, __m512 x)
{
	_mm256_storeu_si256((void *)to,
		_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

#define WIDE_HALF_LOOP(name) \
	static void wide_half_##name( \
		void *out, const void *a, const void *b, size_t count) \
	{ \
		const loose_u16 *of_a = a, *of_b = b; \
		loose_u16 *to = out; \
		size_t i = 0; \
\
		for (; i + 16 <= count; i += 16) \
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

	for (; i + 16 <= count; i += 16)
		put_halves(to + i, wide_product(
			_mm512_loadu_ps((const void *)(from + i)),
			_mm512_set1_ps(factor)));
	half_narrow(to + i, from + i, count - i, factor);
}

static void wide_half_widen(void *out, const void *in, size_t count)
{
	const loose_u16 *from = in;
	loose_u32 *to = out;
	size_t i = 0;

	for (; i + 16 <= count; i += 16)
		_mm512_storeu_ps((void *)(to + i), settled(get_halves(from + i)));
	half_widen(to + i, from + i, count - i);
}

TAUTI_REDUCE_SET(tauti_reduce_avx512, "avx512", wide_half, wide_block);

#if defined __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

/* shm_copy.c - copies between cores.
 *
 * The C library's memcpy() copies much at once by one instruction (rep movsb),
 * which some processors carry out at a fraction of the speed of a loop. */
#include "coll/engines/shm.h"

#include <string.h>

#ifdef __SSE2__
#include <immintrin.h>

enum { BLOCK = 64, SMALL = 1024 };

static void copy_blocks(char *to, const char *from, size_t n)
{
	for (; n > 0; n--, to += BLOCK, from += BLOCK) {
		__m128i a = _mm_loadu_si128((const __m128i *)(const void *)from);
		__m128i b = _mm_loadu_si128(
			(const __m128i *)(const void *)(from + 16));
		__m128i c = _mm_loadu_si128(
			(const __m128i *)(const void *)(from + 32));
		__m128i d = _mm_loadu_si128(
			(const __m128i *)(const void *)(from + 48));

		_mm_storeu_si128((__m128i *)(void *)to, a);
		_mm_storeu_si128((__m128i *)(void *)(to + 16), b);
		_mm_storeu_si128((__m128i *)(void *)(to + 32), c);
		_mm_storeu_si128((__m128i *)(void *)(to + 48), d);
	}
}

static void stream_blocks(char *to, const char *from, size_t n)
{
	for (; n > 0; n--, to += BLOCK, from += BLOCK) {
		__m128i a = _mm_loadu_si128((const __m128i *)(const void *)from);
		__m128i b = _mm_loadu_si128(
			(const __m128i *)(const void *)(from + 16));
		__m128i c = _mm_loadu_si128(
			(const __m128i *)(const void *)(from + 32));
		__m128i d = _mm_loadu_si128(
			(const __m128i *)(const void *)(from + 48));

		_mm_stream_si128((__m128i *)(void *)to, a);
		_mm_stream_si128((__m128i *)(void *)(to + 16), b);
		_mm_stream_si128((__m128i *)(void *)(to + 32), c);
		_mm_stream_si128((__m128i *)(void *)(to + 48), d);
	}
	_mm_sfence();
}

/* --- by whole lines, where the processor has such vectors ---------------------------*/

#ifdef __x86_64__
#define WIDE __attribute__((target("avx512f")))

static bool has_wide(void)
{
	return __builtin_cpu_supports("avx512f");
}

WIDE static void copy_lines(char *to, const char *from, size_t n)
{
	for (; n > 0; n--, to += BLOCK, from += BLOCK)
		_mm512_store_si512((void *)to,
			_mm512_loadu_si512((const void *)from));
}

WIDE static void stream_lines(char *to, const char *from, size_t n)
{
	for (; n > 0; n--, to += BLOCK, from += BLOCK)
		_mm512_stream_si512((void *)to,
			_mm512_loadu_si512((const void *)from));
	_mm_sfence();
}
#else
#define copy_lines copy_blocks
#define stream_lines stream_blocks

static bool has_wide(void)
{
	return false;
}
#endif

/* --- from any place to any ------------------------------------------------------------*/

static void copy_by(void (*blocks)(char *to, const char *from, size_t n),
	char *to, const char *from, size_t bytes)
{
	size_t head = -(uintptr_t)to % BLOCK, whole;

	if (bytes < SMALL) {
		memcpy(to, from, bytes);
		return;
	}
	memcpy(to, from, head);
	whole = (bytes - head) / BLOCK;
	blocks(to + head, from + head, whole);
	head += whole * BLOCK;
	memcpy(to + head, from + head, bytes - head);
}

void tauti_shm_copy(void *to, const void *from, size_t bytes)
{
	copy_by(has_wide() ? copy_lines : copy_blocks, to, from, bytes);
}

void tauti_shm_copy_past(void *to, const void *from, size_t bytes)
{
	copy_by(has_wide() ? stream_lines : stream_blocks, to, from, bytes);
}

#else

void tauti_shm_copy(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

void tauti_shm_copy_past(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

#endif

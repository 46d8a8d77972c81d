/* kernels_vnni.c - the loops over pixels for x86-64 with AVX-512 and its VNNI, which
 * multiplies pairs and adds to a sum at once; and with VBMI, which puts the bytes of a
 * register in any order. */
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

/* The fourth byte belongs to the next pixel. Not a loop: compilers make a scatter of it,
 * which is slower. */
INLINE void put_pixels(unsigned char *const *to, size_t at, __m128i bytes)
{
	int a = _mm_cvtsi128_si32(bytes), b = _mm_extract_epi32(bytes, 1);
	int c = _mm_extract_epi32(bytes, 2), d = _mm_extract_epi32(bytes, 3);

	memcpy(to[0] + at, &a, 4);
	memcpy(to[1] + at, &b, 4);
	memcpy(to[2] + at, &c, 4);
	memcpy(to[3] + at, &d, 4);
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

#include "load/image/kernels_four.h"

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

/* --- with VBMI: across, five outputs of a row at a time ----------------------------------*/

#if defined __clang__
#pragma clang attribute push( \
	__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi"))), \
	apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi")
#endif

enum {
	GROUP = TAUTI_AXIS_GROUP,
	MOST_PAIRS = 3,
	PIXELS = 21, /* of a register; each output's window must be among them */
};

/* What five outputs are made of. A lane is a colour of one of them; the last lane is
 * the first colour of the fifth once more. */
struct group {
	size_t from;            /* the bytes begin here */
	__m512i at[MOST_PAIRS]; /* where the two words of a pair are among the bytes */
	__m512i weights[MOST_PAIRS][2];
};

INLINE __m512i outputs_of_lanes(void)
{
	return _mm512_setr_epi32(0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4);
}

INLINE __m512i colours_of_lanes(void)
{
	return _mm512_setr_epi32(0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0);
}

/* The two words of each lane's first pair, counted from pixel `base`. */
INLINE __m512i places(const uint32_t *starts, uint32_t base)
{
	__m512i at = _mm512_permutexvar_epi32(outputs_of_lanes(),
		_mm512_maskz_loadu_epi32((1 << GROUP) - 1, starts));

	at = _mm512_sub_epi32(at, _mm512_set1_epi32((int)base));
	at = _mm512_add_epi32(_mm512_add_epi32(at, at),
		_mm512_add_epi32(at, colours_of_lanes()));
	return _mm512_or_si512(at, _mm512_slli_epi32(
		_mm512_add_epi32(at, _mm512_set1_epi32(3)), 16));
}

INLINE struct group group_of(const struct tauti_axis *axis, uint32_t i, uint32_t pairs)
{
	const uint32_t *weights = axis->weights[(size_t)i * pairs];
	const uint32_t *starts = axis->starts + i;
	uint32_t base = starts[0] < starts[GROUP - 1] ? starts[0] :
		starts[GROUP - 1]; /* the last one is leftmost when mirrored */
	uint64_t used = (UINT64_C(1) << 2 * GROUP * pairs) - 1;
	__m512i low = _mm512_maskz_loadu_epi32((__mmask16)used, weights);
	__m512i high = _mm512_maskz_loadu_epi32((__mmask16)(used >> 16),
		weights + (pairs > 1 ? 16 : 0));
	__m512i at = places(starts, base);
	__m512i first = _mm512_mullo_epi32(
		outputs_of_lanes(), _mm512_set1_epi32((int)(2 * pairs)));
	struct group group = { .from = (size_t)base * 3 };

	for (uint32_t p = 0; p < pairs; p++) {
		group.at[p] = _mm512_add_epi32(
			at, _mm512_set1_epi32((int)(0x00060006 * p)));
		for (uint32_t half = 0; half < 2; half++)
			group.weights[p][half] = _mm512_permutex2var_epi32(low,
				_mm512_add_epi32(first, _mm512_set1_epi32(
					(int)(2 * p + half))), high);
	}
	return group;
}

INLINE __m128i five_outputs(const struct group *group, const unsigned char *from,
	uint32_t pairs)
{
	__m512i bytes = _mm512_loadu_si512(from + group->from);
	struct sums sums = nothing();

	for (uint32_t p = 0; p < pairs; p++) {
		__m512i pixels = _mm512_maskz_permutexvar_epi8(
			0x5555555555555555, group->at[p], bytes);

		sums.high = _mm512_dpwssd_epi32(
			sums.high, pixels, group->weights[p][0]);
		sums.low = _mm512_dpwssd_epi32(
			sums.low, pixels, group->weights[p][1]);
	}
	return _mm512_cvtusepi32_epi8(value(sums));
}

/* The last group may overlap the one before it. The sixteenth byte of a group belongs
 * to the next one, or to the slack. */
INLINE void across_groups(const struct tauti_axis *axis,
	const unsigned char *const *from, unsigned char *const *to, unsigned n,
	uint32_t pairs)
{
	uint32_t last = axis->outputs - GROUP;

	for (uint32_t next = 0; next < axis->outputs; next += GROUP) {
		uint32_t i = next < last ? next : last;
		struct group group = group_of(axis, i, pairs);

		for (unsigned row = 0; row < n; row++)
			_mm_storeu_si128((void *)(to[row] + (size_t)i * 3),
				five_outputs(&group, from[row], pairs));
	}
}

static void across_vbmi(const struct tauti_axis *axis,
	const unsigned char *const *from, unsigned char *const *to, unsigned n)
{
	if (axis->outputs < GROUP || axis->pairs > MOST_PAIRS ||
		axis->group_span > PIXELS)
		across(axis, from, to, n);
	else if (axis->pairs == 1)
		across_groups(axis, from, to, n, 1);
	else if (axis->pairs == 2)
		across_groups(axis, from, to, n, 2);
	else
		across_groups(axis, from, to, n, 3);
}

/* --- with VBMI: into the slot, sixteen elements at a time ---------------------------------*/

INLINE void put_f32(unsigned char *to, __m512 x)
{
	if ((uintptr_t)to % 64 == 0)
		_mm512_stream_ps((void *)to, x);
	else
		_mm512_storeu_ps((void *)to, x);
}

/* Elements of 32 bits, 0 .. 255; returns the bytes written. */
INLINE size_t put_sixteen(enum taut_prepare_type type, __m512i bytes,
	__m512 factor, __m512 term, unsigned char *to)
{
	__m512 x = _mm512_cvtepi32_ps(bytes);
	__m512i bits;

	x = _mm512_add_ps(_mm512_mul_ps(x, factor), term);
	if (type == TAUT_PIXEL_F32) {
		put_f32(to, x);
		return 64;
	}
	if (type == TAUT_PIXEL_F16) {
		_mm256_storeu_si256((void *)to, _mm512_cvtps_ph(
			x, _MM_FROUND_TO_NEAREST_INT));
		return 32;
	}
	bits = _mm512_castps_si512(x);
	bits = _mm512_add_epi32(bits, _mm512_add_epi32(
		_mm512_set1_epi32(0x7fff), _mm512_and_si512(
			_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1))));
	_mm256_storeu_si256((void *)to,
		_mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
	return 32;
}

/* A row to three planes; returns the pixels done, a multiple of 16. */
INLINE uint32_t to_planes(const struct tauti_store *s, const unsigned char *from,
	uint32_t n, unsigned char *to, enum taut_prepare_type type)
{
	__m512i third = _mm512_setr_epi32(
		0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45);
	uint32_t i = 0;

	for (; i + 16 <= n; i += 16, from += 48) {
		__m512i bytes = _mm512_loadu_si512(from);
		size_t at = i * (type == TAUT_PIXEL_F32 ? 4 : 2);

		for (int c = 0; c < 3; c++) {
			__m512i places = _mm512_add_epi32(
				third, _mm512_set1_epi32(c));

			put_sixteen(type, _mm512_maskz_permutexvar_epi8(
				0x1111111111111111, places, bytes),
				_mm512_set1_ps(s->factor[c]),
				_mm512_set1_ps(s->term[c]),
				to + s->plane_bytes * (unsigned)c + at);
		}
	}
	return i;
}

/* A row as it is; returns the pixels done, a multiple of 16. */
INLINE uint32_t to_pixels(const struct tauti_store *s, const unsigned char *from,
	uint32_t n, unsigned char *to, enum taut_prepare_type type)
{
	__m512 factor[3], term[3];
	float both[2][48];
	uint32_t i = 0;

	for (unsigned k = 0; k < 48; k++) {
		both[0][k] = s->factor[k % 3];
		both[1][k] = s->term[k % 3];
	}
	for (unsigned k = 0; k < 3; k++) {
		factor[k] = _mm512_loadu_ps(both[0] + 16 * k);
		term[k] = _mm512_loadu_ps(both[1] + 16 * k);
	}
	for (; i + 16 <= n; i += 16)
		for (int k = 0; k < 3; k++, from += 16)
			to += put_sixteen(type, _mm512_cvtepu8_epi32(some(from)),
				factor[k], term[k], to);
	return i;
}

INLINE uint32_t store_most(const struct tauti_store *s, const unsigned char *from,
	uint32_t n, unsigned char *to, enum taut_prepare_type type)
{
	return s->layout == TAUT_LAYOUT_CHW ? to_planes(s, from, n, to, type) :
		to_pixels(s, from, n, to, type);
}

static void store_vbmi(const struct tauti_store *s, const unsigned char *from,
	uint32_t n, unsigned char *to)
{
	size_t step = s->layout == TAUT_LAYOUT_CHW ? 1 : 3;
	uint32_t done = 0;

	if (s->type == TAUT_PIXEL_F32)
		done = store_most(s, from, n, to, TAUT_PIXEL_F32);
	else if (s->type == TAUT_PIXEL_F16)
		done = store_most(s, from, n, to, TAUT_PIXEL_F16);
	else if (s->type == TAUT_PIXEL_BF16)
		done = store_most(s, from, n, to, TAUT_PIXEL_BF16);
	if (done < n)
		tauti_image_avx2.store(s, from + (size_t)done * 3, n - done,
			to + done * step * taut_prepare_type_bytes(s->type));
}

const struct tauti_image_kernels tauti_image_vbmi = {
	.name = "vbmi",
	.across = across_vbmi,
	.down = down,
	.store = store_vbmi,
	.settle = settle,
};

#if defined __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

/* reduce_blocks.h - casts of TAUT_MXINT8: blocks of 32 numbers that share a scale
 * (OCP Microscaling Formats (MX) v1.0, 2023: MXINT8).
 *
 *     byte 0        s: the scale is 2^(s - 127); 255: none of the block is a number
 *     bytes 1..32   whole numbers from -127 to 127, each in 64ths of the scale
 *
 * s is the exponent of the block's largest number, so that this takes all seven bits;
 * the least is 7, below which a 64th would be denormal. What is widened and narrowed
 * again is the same: its largest has the same exponent. But for that this file is as
 * reduce_loops.h, which includes it: nothing branches on data, and all loops are of 32. */
#ifndef TAUT_COLL_REDUCE_BLOCKS_H
#define TAUT_COLL_REDUCE_BLOCKS_H

enum { BLOCK = 32, BLOCK_BYTES = 33, LEAST_SCALE = 7, NO_NUMBERS = 255 };

/* As float32, a 64th of the scale; what is not one where there are no numbers. A
 * scale of 0 is that of bytes which are all 0. */
static inline uint32_t unit_of(const uint8_t *block)
{
	uint32_t s = block[0];
	uint32_t unit = s < LEAST_SCALE ? 0 : (s - (LEAST_SCALE - 1)) << 23;

	return s == NO_NUMBERS ? UINT32_C(0x7fc00000) : unit;
}

/* x: 32 of float32, as their bits. Rounded to the nearest, ties to even: behind
 * 1.5 2^23 a float has its whole part alone. */
static inline void put_block(uint8_t *block, const uint32_t x[BLOCK])
{
	const uint32_t whole = UINT32_C(0x4b400000);
	uint32_t most = 0, s, up;

	for (size_t i = 0; i < BLOCK; i++) {
		uint32_t size = x[i] & UINT32_C(0x7fffffff);

		most = size > most ? size : most;
	}
	s = most >> 23;
	s = s < LEAST_SCALE ? LEAST_SCALE : s;
	up = (260 - s) << 23; /* 2^(6 - (s - 127)) */
	block[0] = (uint8_t)s;
	for (size_t i = 0; i < BLOCK; i++) {
		float scaled = real_32(x[i]) * real_32(up) + real_32(whole);
		int32_t n = (int32_t)(tauti_bits_of(scaled) - whole);

		n = n > 127 ? 127 : n;
		n = n < -127 ? -127 : n;
		block[1 + i] = (uint8_t)(s == NO_NUMBERS ? 0 : n);
	}
}

static void narrow_one(uint8_t *block, const loose_u32 *from, float factor)
{
	uint32_t x[BLOCK];

	for (size_t i = 0; i < BLOCK; i++)
		x[i] = tauti_bits_of(real_32(from[i]) * factor);
	put_block(block, x);
}

static void widen_one(uint32_t x[BLOCK], const uint8_t *block)
{
	float unit = real_32(unit_of(block));

	for (size_t i = 0; i < BLOCK; i++)
		x[i] = settled_32((float)(int8_t)block[1 + i] * unit);
}

/* count: of the numbers. The last block is filled up with zeros. */
static void block_narrow(void *out, const void *in, size_t count, float factor)
{
	const loose_u32 *from = in;
	uint8_t *to = out;
	uint32_t rest[BLOCK] = { 0 };

	for (; count >= BLOCK; count -= BLOCK, from += BLOCK, to += BLOCK_BYTES)
		narrow_one(to, from, factor);
	if (count) {
		memcpy(rest, from, count * sizeof *rest);
		narrow_one(to, rest, factor);
	}
}

static void block_widen(void *out, const void *in, size_t count)
{
	const uint8_t *from = in;
	loose_u32 *to = out;
	uint32_t x[BLOCK];

	for (; count; from += BLOCK_BYTES) {
		size_t n = count < BLOCK ? count : BLOCK;

		widen_one(x, from);
		memcpy(to, x, n * sizeof *x);
		to += n;
		count -= n;
	}
}

#endif /* TAUT_COLL_REDUCE_BLOCKS_H */

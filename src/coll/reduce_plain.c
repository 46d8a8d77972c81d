/* reduce_plain.c - the kernels for any processor. */
#include "coll/reduce_loops.h"

/* The other sets have one of their own. */
static void block_sum(void *out, const void *a, const void *b, size_t count)
{
	const uint8_t *of_a = a, *of_b = b;
	uint8_t *to = out;

	for (; count--; of_a += BLOCK_BYTES, of_b += BLOCK_BYTES,
		to += BLOCK_BYTES) {
		float unit_a = real_32(unit_of(of_a));
		float unit_b = real_32(unit_of(of_b));
		uint32_t sum[BLOCK];

		for (size_t i = 0; i < BLOCK; i++)
			sum[i] = tauti_bits_of(
				(float)(int8_t)of_a[1 + i] * unit_a +
				(float)(int8_t)of_b[1 + i] * unit_b);
		put_block(to, sum);
	}
}

TAUTI_REDUCE_SET(tauti_reduce_plain, "plain", half, block);

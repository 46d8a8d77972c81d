/* bench_values.c - see bench.h: known inputs, and results that follow.
 *
 * Inputs repeat after TILE elements, a prime, so that a block in the wrong place is
 * seen, and checking costs no more than comparing memory. */
#include <string.h>

#include "cli/bench.h"

enum { TILE = 4093, MOST_BYTES = 8, MOST_ADDING = 64 };

struct tile {
	unsigned char bytes[TILE * MOST_BYTES];
};

/* Any bits, of both numbers. */
static uint32_t mixed(uint32_t rank, uint32_t i)
{
	uint64_t x = ((uint64_t)rank << 32 | i) + 1;

	x *= UINT64_C(0x9e3779b97f4a7c15);
	x ^= x >> 29;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	return (uint32_t)(x >> 40);
}

/* A sum is at most 192, so that 8 bits of fraction hold it; a product 2. */
static uint64_t input_value(
	const struct bench_rank *rank, uint32_t of, uint32_t i)
{
	if (rank->plan->reduction == TAUT_SUM)
		return of < MOST_ADDING ? mixed(of, i) & 3 : 0;
	if (rank->plan->reduction == TAUT_PRODUCT)
		return mixed(0, i) % (rank->n_ranks + 1) == of ? 2 : 1;
	return mixed(of, i) & 127;
}

static uint64_t reduced(enum taut_reduction reduction, uint64_t a, uint64_t b)
{
	switch (reduction) {
	case TAUT_SUM:
		return a + b;
	case TAUT_PRODUCT:
		return a * b;
	case TAUT_MIN:
		return a < b ? a : b;
	case TAUT_MAX:
		return a > b ? a : b;
	case TAUT_BIT_AND:
		return a & b;
	case TAUT_BIT_OR:
		return a | b;
	case TAUT_BIT_XOR:
		return a ^ b;
	case TAUT_REDUCTIONS:
		break;
	}
	return 0;
}

/* Of a whole number below 2048. */
static uint16_t half_of(uint64_t value)
{
	unsigned exponent = 0;

	if (!value)
		return 0;
	while (value >> (exponent + 1))
		exponent++;
	return (uint16_t)((exponent + 15) << 10 |
		(((value << 10) >> exponent) & 0x3ff));
}

static void put(enum taut_type type, struct tile *tile, size_t i, uint64_t value)
{
	size_t bytes = taut_type_bytes(type);
	void *to = tile->bytes + i * bytes;
	float f32 = (float)value;
	double f64 = (double)value;
	uint16_t u16 = half_of(value);
	uint32_t bits;

	switch (type) {
	case TAUT_FLOAT32:
		memcpy(to, &f32, bytes);
		return;
	case TAUT_FLOAT64:
		memcpy(to, &f64, bytes);
		return;
	case TAUT_BFLOAT16: /* the upper half */
		memcpy(&bits, &f32, sizeof bits);
		u16 = (uint16_t)(bits >> 16);
		memcpy(to, &u16, bytes);
		return;
	case TAUT_FLOAT16:
		memcpy(to, &u16, bytes);
		return;
	default:
		for (size_t k = 0; k < bytes; k++, value >>= 8)
			((unsigned char *)to)[__BYTE_ORDER__ ==
				__ORDER_LITTLE_ENDIAN__ ? k : bytes - 1 - k] =
				(unsigned char)value;
	}
}

static void make_input(
	const struct bench_rank *rank, uint32_t of, struct tile *tile)
{
	for (uint32_t i = 0; i < TILE; i++)
		put(rank->plan->type, tile, i, input_value(rank, of, i));
}

static void make_reduced(const struct bench_rank *rank, struct tile *tile)
{
	for (uint32_t i = 0; i < TILE; i++) {
		uint64_t value = input_value(rank, 0, i);

		for (uint32_t of = 1; of < rank->n_ranks; of++)
			value = reduced(rank->plan->reduction, value,
				input_value(rank, of, i));
		put(rank->plan->type, tile, i, value);
	}
}

void bench_fill(const struct bench_rank *rank, uint64_t count, void *to)
{
	size_t bytes = taut_type_bytes(rank->plan->type);
	struct tile tile;

	make_input(rank, rank->rank, &tile);
	for (uint64_t at = 0; at < count; at += TILE) {
		uint64_t n = count - at < TILE ? count - at : TILE;

		memcpy((char *)to + at * bytes, tile.bytes, n * bytes);
	}
}

/* Among n elements from `first` on, where the tile continues. */
static uint64_t wrong_in(const struct bench_rank *rank,
	const struct tile *tile, uint64_t first, uint64_t n)
{
	size_t bytes = taut_type_bytes(rank->plan->type);
	const char *at = (const char *)rank->output + first * bytes;
	uint64_t wrong = 0, part;

	for (; n; n -= part, first += part, at += part * bytes) {
		const unsigned char *is = tile->bytes + first % TILE * bytes;

		part = TILE - first % TILE < n ? TILE - first % TILE : n;
		if (!memcmp(at, is, part * bytes))
			continue;
		for (uint64_t i = 0; i < part; i++)
			wrong += memcmp(at + i * bytes, is + i * bytes,
				bytes) != 0;
	}
	return wrong;
}

static uint64_t wrong_gathered(
	const struct bench_rank *rank, uint64_t count, struct tile *tile)
{
	uint64_t wrong = 0, first, n;

	for (uint32_t of = 0; of < rank->n_ranks; of++) {
		make_input(rank, of, tile);
		first = taut_coll_block(count, rank->n_ranks, of, &n);
		wrong += wrong_in(rank, tile, first, n);
	}
	return wrong;
}

uint64_t bench_count_wrong(const struct bench_rank *rank, uint64_t count)
{
	uint64_t first = 0, n = count;
	struct tile tile;

	switch (rank->plan->verb) {
	case TAUT_ALLGATHER:
		return wrong_gathered(rank, count, &tile);
	case TAUT_BROADCAST:
		make_input(rank, rank->plan->root, &tile);
		break;
	case TAUT_REDUCE_SCATTER:
		first = taut_coll_block(count, rank->n_ranks, rank->rank, &n);
		make_reduced(rank, &tile);
		break;
	default:
		make_reduced(rank, &tile);
	}
	return wrong_in(rank, &tile, first, n);
}

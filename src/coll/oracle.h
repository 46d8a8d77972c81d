/* oracle.h - for tests: what a collective must give, of numbers so small that every
 * order of summing them gives the same in every type. */
#ifndef TAUT_COLL_ORACLE_H
#define TAUT_COLL_ORACLE_H

#include <stdlib.h>
#include <string.h>

#include <taut/coll.h>

/* 32 times a whole number from 0 to 127. */
static inline void oracle_put_block(char *block, uint32_t value)
{
	int exponent = 0;

	while (value >> (exponent + 1))
		exponent++;
	block[0] = (char)(value ? 127 + exponent : 7);
	memset(block + 1, (int)(value << 6 >> exponent), 32);
}

/* A whole number from 0 to 255 as an element; of blocks to 127. */
static inline void oracle_put(
	enum taut_type type, void *buffer, uint64_t at, uint32_t value)
{
	size_t bytes = taut_type_bytes(type);
	char *place = (char *)buffer + at * bytes;
	float as_float = (float)value;
	double as_double = (double)value;
	uint64_t as_bits = value; /* little-endian */
	uint32_t bits, exponent = 0;

	if (type == TAUT_MXINT8) {
		oracle_put_block(place, value);
		return;
	}
	memcpy(&bits, &as_float, sizeof bits);
	if (type == TAUT_BFLOAT16)
		as_bits = bits >> 16;
	while (value >> (exponent + 1))
		exponent++;
	if (type == TAUT_FLOAT16)
		as_bits = value ? (exponent + 15) << 10 |
			(((value << 10) >> exponent) & 0x3ff) : 0;
	if (type == TAUT_FLOAT32)
		memcpy(place, &as_float, bytes);
	else if (type == TAUT_FLOAT64)
		memcpy(place, &as_double, bytes);
	else
		memcpy(place, &as_bits, bytes);
}

static inline uint32_t oracle_input(const struct taut_coll_call *call,
	uint32_t rank, uint64_t at)
{
	uint32_t draw = (uint32_t)(at * 2654435761u + rank * 40503u + 7) >> 7;

	return call->reduction == TAUT_PRODUCT ? 1 + draw % 2 : draw % 16;
}

static inline uint32_t oracle_reduce(
	enum taut_reduction reduction, uint32_t a, uint32_t b)
{
	switch (reduction) {
	case TAUT_SUM: return a + b;
	case TAUT_PRODUCT: return a * b;
	case TAUT_MIN: return a < b ? a : b;
	case TAUT_MAX: return a > b ? a : b;
	case TAUT_BIT_AND: return a & b;
	case TAUT_BIT_OR: return a | b;
	default: return a ^ b;
	}
}

static inline uint32_t oracle_block_of(
	uint64_t count, uint32_t n_ranks, uint64_t at)
{
	uint64_t first, length;
	uint32_t i = 0;

	for (;; i++) {
		first = taut_coll_block(count, n_ranks, i, &length);
		if (at < first + length)
			return i;
	}
}

/* What element `at` must be. */
static inline uint32_t oracle_output(const struct taut_coll_call *call,
	uint32_t n_ranks, uint64_t at)
{
	uint32_t value = oracle_input(call, 0, at);

	if (call->verb == TAUT_BROADCAST)
		return oracle_input(call, call->root, at);
	if (call->verb == TAUT_ALLGATHER)
		return oracle_input(call,
			oracle_block_of(call->count, n_ranks, at), at);
	for (uint32_t i = 1; i < n_ranks; i++)
		value = oracle_reduce(
			call->reduction, value, oracle_input(call, i, at));
	return value;
}

/* All of a rank's input; what the verb does not read is another number. */
static inline void oracle_fill(const struct taut_coll_call *call,
	uint32_t n_ranks, uint32_t rank, void *input)
{
	for (uint64_t i = 0; i < call->count; i++) {
		bool read = (call->verb != TAUT_BROADCAST ||
			rank == call->root) &&
			(call->verb != TAUT_ALLGATHER || rank ==
			oracle_block_of(call->count, n_ranks, i));

		oracle_put(call->type, input, i,
			read ? oracle_input(call, rank, i) : 99);
	}
}

static inline bool oracle_right(const struct taut_coll_call *call,
	uint32_t n_ranks, uint32_t rank, const void *output)
{
	size_t bytes = taut_type_bytes(call->type);
	uint64_t first = 0, count = call->count;
	char right[33];

	if (call->verb == TAUT_REDUCE_SCATTER)
		first = taut_coll_block(call->count, n_ranks, rank, &count);
	for (uint64_t i = first; i < first + count; i++) {
		oracle_put(call->type, right, 0,
			oracle_output(call, n_ranks, i));
		if (memcmp(right, (const char *)output + i * bytes, bytes) != 0)
			return false;
	}
	return true;
}

#endif /* TAUT_COLL_ORACLE_H */

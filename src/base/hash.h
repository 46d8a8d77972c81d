/* hash.h - a hash for short texts, inlined where it is hot.
 * The same bytes give the same hash on every little-endian machine and in
 * every run. It does not withstand somebody who looks for collisions. */
#ifndef TAUT_BASE_HASH_H
#define TAUT_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

__extension__ typedef unsigned __int128 tauti_u128;

/* With about as many ones as zeros, and unlike each other: the first
 * 64 bits of the fractional parts of the roots of 2, 3 and 5, made odd. */
#define TAUTI_HASH_A 0x6a09e667f3bcc909u
#define TAUTI_HASH_B 0xbb67ae8584caa73bu
#define TAUTI_HASH_C 0x3c6ef372fe94f82bu

/* Every bit of the product's 128 depends on some of both; folding the halves
 * lets each bit of the result depend on all. */
static inline uint64_t tauti_hash_mix(uint64_t a, uint64_t b)
{
	tauti_u128 product = (tauti_u128)a * b;
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t tauti_load64(const char *at)
{
	uint64_t word;
	memcpy(&word, at, sizeof word);
	return word;
}

static inline uint64_t tauti_load32(const char *at)
{
	uint32_t word;
	memcpy(&word, at, sizeof word);
	return word;
}

/* The last up to 16 bytes as two words, which may overlap: no loop and no
 * byte left out, for any length. */
static inline uint64_t tauti_hash_tail(
	const char *text, size_t len, uint64_t state)
{
	uint64_t a = 0, b = 0;
	if (len >= 8) {
		a = tauti_load64(text);
		b = tauti_load64(text + len - 8);
	} else if (len >= 4) {
		a = tauti_load32(text);
		b = tauti_load32(text + len - 4);
	} else if (len > 0) {
		a = (uint64_t)(unsigned char)text[0] << 16 |
			(uint64_t)(unsigned char)text[len / 2] << 8 |
			(unsigned char)text[len - 1];
	}
	return tauti_hash_mix(a ^ TAUTI_HASH_B, b ^ state);
}

static inline uint64_t tauti_hash(const char *text, size_t len)
{
	uint64_t state = TAUTI_HASH_A;
	size_t left = len;
	for (; left > 16; left -= 16, text += 16)
		state = tauti_hash_mix(tauti_load64(text) ^ TAUTI_HASH_B,
			tauti_load64(text + 8) ^ state);
	state = tauti_hash_tail(text, left, state);
	return tauti_hash_mix(state ^ TAUTI_HASH_C, len ^ TAUTI_HASH_A);
}

#endif /* TAUT_BASE_HASH_H */

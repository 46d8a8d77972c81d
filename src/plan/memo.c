/* memo.c - see memo.h. Open addressing, at most half full. */
#include "plan/memo.h"

#include <stdlib.h>
#include <string.h>

static uint32_t bits_of(uint8_t n_options)
{
	uint32_t bits = 0;

	while (1u << bits < n_options)
		bits++;
	return bits;
}

size_t tauti_memo_lay_out(
	const uint8_t *n_options, uint32_t n_sites, uint32_t *ret_first_bit)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < n_sites; i++) {
		uint32_t bits = bits_of(n_options[i]);

		if (at % 64 + bits > 64)
			at = (at / 64 + 1) * 64;
		ret_first_bit[i] = at;
		at += bits;
	}
	return at / 64 + 1;
}

void tauti_memo_fini(struct tauti_memo *memo)
{
	taut_vec_free(&memo->entries);
	taut_vec_free(&memo->keys);
	free(memo->slots);
}

const struct tauti_cost *tauti_memo_find(
	const struct tauti_memo *memo, uint64_t hash, const uint64_t *key)
{
	size_t bytes = memo->n_words * sizeof *key;

	for (size_t at = hash; memo->n_slots; at++) {
		uint32_t slot = memo->slots[at & (memo->n_slots - 1)];

		if (!slot)
			return NULL;
		if (memo->entries.data[slot - 1].hash == hash &&
			!memcmp(memo->keys.data + (slot - 1) * memo->n_words,
				key, bytes))
			return &memo->entries.data[slot - 1].cost;
	}
	return NULL;
}

static void place(uint32_t *slots, size_t n_slots, uint64_t hash, uint32_t slot)
{
	size_t at = hash;

	while (slots[at & (n_slots - 1)])
		at++;
	slots[at & (n_slots - 1)] = slot;
}

static bool widen(struct tauti_memo *memo)
{
	size_t n_slots = memo->n_slots ? 2 * memo->n_slots : 64;
	uint32_t *slots = calloc(n_slots, sizeof *slots);

	if (!slots)
		return false;
	for (size_t i = 0; i < memo->entries.count; i++)
		place(slots, n_slots, memo->entries.data[i].hash,
			(uint32_t)i + 1);
	free(memo->slots);
	memo->slots = slots;
	memo->n_slots = n_slots;
	return true;
}

bool tauti_memo_add(struct tauti_memo *memo, uint64_t hash,
	const uint64_t *key, const struct tauti_cost *cost)
{
	size_t n = memo->entries.count;

	if (n >= memo->most)
		return true;
	if (2 * (n + 1) > memo->n_slots && !widen(memo))
		return false;
	if (!taut_vec_reserve(&memo->keys, memo->n_words) ||
		!taut_vec_reserve(&memo->entries, 1))
		return false;
	memcpy(memo->keys.data + memo->keys.count, key,
		memo->n_words * sizeof *key);
	memo->keys.count += memo->n_words;
	memo->entries.data[memo->entries.count++] =
		(struct tauti_memo_entry){ hash, *cost };
	place(memo->slots, memo->n_slots, hash, (uint32_t)n + 1);
	return true;
}

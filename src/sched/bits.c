/* bits.c - see bits.h. */
#include "sched/bits.h"

#include <stdlib.h>

static unsigned count_levels(uint64_t n, size_t *ret_words)
{
	unsigned levels = 0;

	*ret_words = 0;
	do {
		n = tauti_bits_words(n);
		*ret_words += n;
		levels++;
	} while (n > 1);
	return levels;
}

bool tauti_bits_init(struct tauti_bits *bits, uint32_t n)
{
	size_t words, at = 0, of_level = n;
	unsigned levels = count_levels(n ? n : 1, &words);
	uint64_t *block = calloc(words, sizeof *block);

	if (!block)
		return false;
	*bits = (struct tauti_bits){ .n_levels = levels };
	for (unsigned i = 0; i < levels; i++) {
		bits->levels[i] = block + at;
		of_level = tauti_bits_words(of_level);
		at += of_level;
	}
	return true;
}

void tauti_bits_fini(struct tauti_bits *bits)
{
	free(bits->levels[0]);
	*bits = (struct tauti_bits){ .n_levels = 0 };
}

void tauti_bits_set(struct tauti_bits *bits, uint32_t number)
{
	for (unsigned i = 0; i < bits->n_levels; i++) {
		uint64_t *word = &bits->levels[i][number / 64], before = *word;

		*word |= tauti_bit(number);
		if (before)
			return;
		number /= 64;
	}
}

void tauti_bits_clear(struct tauti_bits *bits, uint32_t number)
{
	for (unsigned i = 0; i < bits->n_levels; i++) {
		uint64_t *word = &bits->levels[i][number / 64];

		*word &= ~tauti_bit(number);
		if (*word)
			return;
		number /= 64;
	}
}

bool tauti_bits_has(const struct tauti_bits *bits, uint32_t number)
{
	return bits->levels[0][number / 64] & tauti_bit(number);
}

uint32_t tauti_bits_first(const struct tauti_bits *bits)
{
	uint64_t at = 0;

	for (unsigned i = bits->n_levels; i-- > 0;) {
		uint64_t word = bits->levels[i][at];

		if (!word)
			return TAUT_NONE;
		at = at * 64 + (unsigned)__builtin_ctzll(word);
	}
	return (uint32_t)at;
}

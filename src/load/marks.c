/* marks.c - see marks.h. */
#include "load/marks.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static uint64_t bit(uint32_t number)
{
	return UINT64_C(1) << number % 64;
}

static size_t words_of(uint32_t n)
{
	return (size_t)n / 64 + (n % 64 != 0);
}

static size_t all_words(uint32_t n)
{
	size_t words = 0;

	do {
		n = (uint32_t)words_of(n);
		words += n;
	} while (n > 1);
	return words;
}

bool tauti_marks_init(struct tauti_marks *marks, uint32_t n)
{
	uint64_t *words = calloc(all_words(n), sizeof *words);

	if (!words)
		return false;
	*marks = (struct tauti_marks){ .n = n };
	do {
		marks->levels[marks->n_levels++] = words;
		n = (uint32_t)words_of(n);
		words += n;
	} while (n > 1);
	return true;
}

void tauti_marks_fini(struct tauti_marks *marks)
{
	free(marks->levels[0]);
	*marks = (struct tauti_marks){ .n = 0 };
}

void tauti_marks_set(struct tauti_marks *marks, uint32_t number)
{
	marks->count += !tauti_marks_has(marks, number);
	for (uint32_t i = 0; i < marks->n_levels; i++, number /= 64)
		marks->levels[i][number / 64] |= bit(number);
}

void tauti_marks_clear(struct tauti_marks *marks, uint32_t number)
{
	marks->count -= tauti_marks_has(marks, number);
	for (uint32_t i = 0; i < marks->n_levels; i++, number /= 64) {
		marks->levels[i][number / 64] &= ~bit(number);
		if (marks->levels[i][number / 64])
			return;
	}
}

bool tauti_marks_has(const struct tauti_marks *marks, uint32_t number)
{
	return marks->levels[0][number / 64] & bit(number);
}

/* The first member in the tree of this bit of this level, which is set. */
static uint32_t descend(
	const struct tauti_marks *marks, uint32_t level, uint32_t number)
{
	while (level-- > 0)
		number = number * 64 + (uint32_t)__builtin_ctzll(
			marks->levels[level][number]);
	return number;
}

static uint32_t next_from(const struct tauti_marks *marks, uint32_t from)
{
	size_t n = marks->n; /* bits of the level */

	for (uint32_t i = 0; i < marks->n_levels && from < n; i++) {
		uint64_t word = marks->levels[i][from / 64] &
			~(bit(from) - 1);

		if (word)
			return descend(marks, i, from / 64 * 64 +
				(uint32_t)__builtin_ctzll(word));
		from = from / 64 + 1;
		n = words_of((uint32_t)n);
	}
	return TAUT_NONE;
}

uint32_t tauti_marks_first(const struct tauti_marks *marks, uint32_t from)
{
	uint32_t number;

	if (!marks->count)
		return TAUT_NONE;
	number = next_from(marks, from);
	return number != TAUT_NONE ? number : next_from(marks, 0);
}

void tauti_marks_empty(struct tauti_marks *marks)
{
	memset(marks->levels[0], 0,
		all_words(marks->n) * sizeof *marks->levels[0]);
	marks->count = 0;
}

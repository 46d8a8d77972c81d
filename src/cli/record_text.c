/* record_text.c - see record_text.h. */
#include "cli/record_text.h"

#include <stdio.h>

#include "cli/term.h"

enum { TEXT_BYTES = 200, LONGEST_PART = 32 };

const char *record_ranks_text(
	struct taut_arena *arena, const int32_t *ranks, size_t n)
{
	char text[TEXT_BYTES];
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		size_t last = i;

		if (at > TEXT_BYTES - LONGEST_PART) {
			at += (size_t)snprintf(text + at, TEXT_BYTES - at,
				" and %zu more", n - i);
			break;
		}
		while (last + 1 < n && ranks[last + 1] == ranks[last] + 1)
			last++;
		at += (size_t)snprintf(text + at, TEXT_BYTES - at,
			last > i ? "%s%d-%d" : "%s%d", i ? "," : "", ranks[i],
			ranks[last]);
		i = last;
	}
	text[at] = '\0';
	return taut_arena_printf(arena, n == 1 ? "rank %s" : "ranks %s", text);
}

const char *record_steps_text(
	struct taut_arena *arena, int64_t first, int64_t end)
{
	if (end - first == 1)
		return taut_arena_printf(arena, "step %lld", (long long)first);
	return taut_arena_printf(arena, "steps %lld to %lld", (long long)first,
		(long long)end - 1);
}

static bool take_step(const char **at, uint32_t *ret_step)
{
	uint32_t step = 0;
	const char *from = *at;

	for (; **at >= '0' && **at <= '9' && *at - from < 9; ++*at)
		step = step * 10 + (uint32_t)(**at - '0');
	*ret_step = step;
	return *at > from;
}

bool record_take_steps(const char *verb, const char *text, uint32_t *ret_first,
	uint32_t *ret_end)
{
	const char *at = text;

	if (take_step(&at, ret_first) && *at == ':' &&
		(at++, take_step(&at, ret_end)) && !*at && *ret_first < *ret_end)
		return true;
	term_complain("%s: --steps: expected A:B with A below B, like 10:14, "
		"found '%s'", verb, text);
	return false;
}

/* record_text.h - ranks and steps as a person writes them. Texts lie in the
 * arena; NULL: no memory. */
#ifndef TAUT_CLI_RECORD_TEXT_H
#define TAUT_CLI_RECORD_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>

/* "rank 3", "ranks 0-3,7"; ranks are ascending. */
const char *record_ranks_text(
	struct taut_arena *arena, const int32_t *ranks, size_t n);

/* "step 10", "steps 10 to 13", of first..end-1. */
const char *record_steps_text(
	struct taut_arena *arena, int64_t first, int64_t end);

/* Of --steps A:B of that verb. False, after a complaint: it is something else. */
bool record_take_steps(const char *verb, const char *text, uint32_t *ret_first,
	uint32_t *ret_end);

#endif /* TAUT_CLI_RECORD_TEXT_H */

/* marks.h - a set of the numbers 0 .. n - 1 whose next member from any number on is found
 * in as many steps as n has powers of 64: bits, and for each word of them one bit a level
 * above, whether it has any.
 *
 * Owner:   whoever holds the struct. Memory is had at init only.
 * Threads: one at a time. */
#ifndef TAUT_LOAD_MARKS_H
#define TAUT_LOAD_MARKS_H

#include <stdbool.h>
#include <stdint.h>

#include <taut/base.h>

TAUT_BEGIN_DECLS

enum { TAUTI_MARKS_LEVELS = 6 }; /* 64^6 > 2^32 */

struct tauti_marks {
	uint64_t *levels[TAUTI_MARKS_LEVELS]; /* one allocation, from the first */
	uint32_t n_levels;
	uint32_t n, count; /* numbers, members */
};

/* Empty; n >= 1. False: no memory. */
TAUT_NODISCARD bool tauti_marks_init(struct tauti_marks *marks, uint32_t n);
void tauti_marks_fini(struct tauti_marks *marks); /* of zeros is fine */

/* number < n. What is a member already may be set, what is none cleared. */
void tauti_marks_set(struct tauti_marks *marks, uint32_t number);
void tauti_marks_clear(struct tauti_marks *marks, uint32_t number);
bool tauti_marks_has(const struct tauti_marks *marks, uint32_t number);
/* The least member >= from, and where there is none the least of all: the first in a
 * circle from `from` on. TAUT_NONE: no member. */
uint32_t tauti_marks_first(const struct tauti_marks *marks, uint32_t from);
void tauti_marks_empty(struct tauti_marks *marks);

TAUT_END_DECLS
#endif /* TAUT_LOAD_MARKS_H */

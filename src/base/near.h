/* near.h - the name that somebody who mistyped one may have meant. */
#ifndef TAUT_BASE_NEAR_H
#define TAUT_BASE_NEAR_H

#include <stddef.h>

/* The name nearest to text (letters inserted, removed, changed or swapped; or
 * text is the beginning of it); NULL when none is near. Names are at most 40
 * letters long. */
const char *tauti_nearest(
	const char *text, const char *const *names, size_t n_names);

#endif /* TAUT_BASE_NEAR_H */

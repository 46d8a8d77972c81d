/* near.c - see near.h. */
#include "base/near.h"

#include <string.h>

enum { LONGEST_NAME = 40 };

static size_t least_of(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Letters to insert, remove, change or swap to turn a into b. */
static size_t distance(const char *a, const char *b)
{
	size_t rows[3][LONGEST_NAME + 1];
	size_t *before = rows[0], *last = rows[1], *row = rows[2];
	size_t n = strlen(b);

	for (size_t k = 0; k <= n; k++)
		last[k] = k;
	for (size_t i = 1; a[i - 1]; i++) {
		row[0] = i;
		for (size_t k = 1; k <= n; k++) {
			row[k] = last[k - 1] + (a[i - 1] != b[k - 1]);
			row[k] = least_of(row[k], last[k] + 1);
			row[k] = least_of(row[k], row[k - 1] + 1);
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] &&
				a[i - 2] == b[k - 1])
				row[k] = least_of(row[k], before[k - 2] + 1);
		}
		size_t *free_row = before;

		before = last;
		last = row;
		row = free_row;
	}
	return last[n];
}

const char *tauti_nearest(
	const char *text, const char *const *names, size_t n_names)
{
	const char *best = NULL;
	size_t len = strlen(text), best_distance = 1 + len / 3;

	if (!len || len > LONGEST_NAME)
		return NULL;
	for (size_t i = 0; i < n_names; i++) {
		size_t d = distance(text, names[i]);

		if (len >= 2 && !strncmp(text, names[i], len))
			d = 0; /* the beginning of a longer one */
		if (d < best_distance || (d == best_distance && !best)) {
			best = names[i];
			best_distance = d;
		}
	}
	return best;
}

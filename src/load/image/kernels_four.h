/* kernels_four.h - across any number of rows, four at a time: included by kernels_*.c
 * behind its own across_four(), so that it is compiled for the same processors. */

/* The usual numbers of pairs, each with its loop unrolled. */
static void across_pairs(const struct tauti_axis *axis,
	const unsigned char *const *from, unsigned char *const *to)
{
	switch (axis->pairs) {
	case 1:
		across_four(axis, from, to, 1);
		break;
	case 2:
		across_four(axis, from, to, 2);
		break;
	case 3:
		across_four(axis, from, to, 3);
		break;
	default:
		across_four(axis, from, to, axis->pairs);
	}
}

static void across(const struct tauti_axis *axis, const unsigned char *const *from,
	unsigned char *const *to, unsigned n)
{
	const unsigned char *four_from[4];
	unsigned char *four_to[4];

	/* Of fewer than four, the last one is done again, in the same place. */
	for (unsigned row = 0; row < n; row += 4) {
		for (unsigned i = 0; i < 4; i++) {
			unsigned at = row + i < n ? row + i : n - 1;

			four_from[i] = from[at];
			four_to[i] = to[at];
		}
		across_pairs(axis, four_from, four_to);
	}
}

/* groups.c - process groups that a recording does not name.
 *
 * Without group names, operations on the k-th communication stream of every
 * rank form one sequence, though the ranks may talk in separate groups (a
 * tensor-parallel group a node, say). Time tells groups apart: no rank of an
 * all-reduce can be done before every rank has begun. For each pair of ranks
 * the difference of their clocks is taken out with the median difference of
 * ends; if then one operation in twenty ends on one rank before it begins on
 * the other, and by the clocks as they are too, the two are not in one group.
 * Ranks that nothing separates form a group; with one rank left in each, nothing
 * can be matched. Ranks that have made one process group only, and say so, are
 * not asked for their times. */
#include <stdlib.h>

#include "graph/graph.h"

enum { SLACK_NS = 20000, MIN_COMMON = 4 };

static int by_value(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Can two ranks of one group not be one after the other in it? A kernel whose
 * kind is not told is mostly one of these. */
static bool excludes(enum taut_coll_kind kind)
{
	return taut_coll_levels(kind) || kind == TAUT_COLL_OTHER;
}

/* Of the k-th operations of a and b, how many exclude each other in time, when
 * shift is what a's clock is ahead of b's? */
static size_t count_apart(const struct tauti_comm *const *a,
	const struct tauti_comm *const *b, size_t n, int64_t shift)
{
	size_t apart = 0;

	for (size_t i = 0; i < n; i++)
		apart += excludes(a[i]->kind) &&
			(a[i]->end - shift + SLACK_NS < b[i]->start ||
			b[i]->end + shift + SLACK_NS < a[i]->start);
	return apart;
}

/* Do the operations of a and b exclude each other, whatever their clocks?
 * Clocks that agree as they are count as well as those that the ends would
 * make agree: on a crowded machine ends scatter more than operations last.
 * Times count from each trace's own base; b's is `later` after a's.
 * buffer holds n values. */
static bool separate(const struct tauti_comm *const *a,
	const struct tauti_comm *const *b, size_t n, int64_t later,
	int64_t *buffer)
{
	size_t used = 0;

	for (size_t i = 0; i < n; i++)
		if (excludes(a[i]->kind))
			buffer[used++] = a[i]->end - b[i]->end;
	if (used < MIN_COMMON)
		return false;
	qsort(buffer, used, sizeof *buffer, by_value);
	return count_apart(a, b, n, buffer[used / 2]) * 20 > used &&
		count_apart(a, b, n, later) * 20 > used;
}

/* How much later b's times begin than a's; 0 where they are of other epochs. */
static int64_t base_later(int64_t a_ns, int64_t b_ns)
{
	int64_t later;

	if (__builtin_sub_overflow(b_ns, a_ns, &later) ||
		later > TAUTI_MAX_APART_NS || later < -TAUTI_MAX_APART_NS)
		return 0;
	return later;
}

void tauti_groups_by_time(const struct tauti_comm *const *const *ops,
	const int64_t *base_ns, uint32_t n_ranks, size_t n, int64_t *buffer,
	uint32_t *ret_group)
{
	for (uint32_t r = 0; r < n_ranks; r++) {
		uint32_t g = 0;

		ret_group[r] = r;
		for (; g < r; g++) {
			bool fits = ret_group[g] == g;

			/* a group takes who fits all of its members */
			for (uint32_t m = g; fits && m < r; m++)
				fits = ret_group[m] != g || !separate(ops[m],
					ops[r], n, base_later(base_ns[m],
					base_ns[r]), buffer);
			if (fits) {
				ret_group[r] = g;
				break;
			}
		}
	}
}

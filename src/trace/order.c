/* order.c - the order of a trace's rows: (lane, start, longer first, row); of
 * a table, in which nothing is nested, (lane, start, shorter first, row).
 *
 * A stable radix sort by start, least digit first, with the lane as the last
 * digit: a constant number of passes over the rows, whatever their order.
 * Rows that start together are few, and are set right by insertion. */
#include "trace/builder.h"

#include <stdlib.h>
#include <string.h>

#define DIGIT_BITS 11
#define DIGITS ((size_t)1 << DIGIT_BITS)

struct key {
	uint64_t start; /* since the first start of the trace */
	uint32_t row, lane;
};

static uint64_t load_keys(
	struct tauti_builder *b, const uint32_t *new_lane, struct key *keys)
{
	int64_t first = INT64_MAX;
	uint64_t all = 0;
	for (uint32_t i = 0; i < b->n_rows; i++) {
		int64_t start = tauti_builder_row_at(b, i)->start_ns;
		first = start < first ? start : first;
	}
	for (uint32_t i = 0; i < b->n_rows; i++) {
		const struct tauti_row *row = tauti_builder_row_at(b, i);
		keys[i].start = (uint64_t)(row->start_ns - first);
		keys[i].row = i;
		keys[i].lane = new_lane[row->lane];
		all |= keys[i].start;
	}
	return all;
}

static void prefix_sums(uint32_t *count, size_t n)
{
	uint32_t sum = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t here = count[i];
		count[i] = sum;
		sum += here;
	}
}

/* One pass from *from to *to, which change places. */
static void pass(struct key **from, struct key **to, size_t n, unsigned shift)
{
	uint32_t count[DIGITS] = { 0 };
	struct key *in = *from, *out = *to;
	for (size_t i = 0; i < n; i++)
		count[in[i].start >> shift & (DIGITS - 1)]++;
	prefix_sums(count, DIGITS);
	for (size_t i = 0; i < n; i++)
		out[count[in[i].start >> shift & (DIGITS - 1)]++] = in[i];
	*from = out;
	*to = in;
}

static taut_status pass_lanes(
	struct key **from, struct key **to, size_t n, size_t n_lanes)
{
	uint32_t *count = calloc(n_lanes + 1, sizeof *count);
	if (!count)
		return TAUT_ENOMEM;
	struct key *in = *from, *out = *to;
	for (size_t i = 0; i < n; i++)
		count[in[i].lane]++;
	prefix_sums(count, n_lanes);
	for (size_t i = 0; i < n; i++)
		out[count[in[i].lane]++] = in[i];
	free(count);
	*from = out;
	*to = in;
	return TAUT_OK;
}

/* Longer first, then the file's order. */
struct tie {
	int64_t dur;
	uint32_t row;
};

static int longer_first(const void *a, const void *b)
{
	const struct tie *x = a, *y = b;
	if (x->dur != y->dur)
		return x->dur > y->dur ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

static taut_status sort_tie(
	struct tauti_builder *b, uint32_t *rows, size_t n)
{
	struct tie few[16];
	struct tie *ties = n <= 16 ? few : malloc(n * sizeof *ties);
	if (!ties)
		return TAUT_ENOMEM;
	for (size_t i = 0; i < n; i++) {
		int64_t dur = tauti_builder_row_at(b, rows[i])->dur_ns;
		ties[i].dur = b->is_table ? -dur : dur;
		ties[i].row = rows[i];
	}
	qsort(ties, n, sizeof *ties, longer_first);
	for (size_t i = 0; i < n; i++)
		rows[i] = ties[i].row;
	if (ties != few)
		free(ties);
	return TAUT_OK;
}

/* keys become row numbers, in place of the first of their own bytes. */
static taut_status settle_ties(
	struct tauti_builder *b, const struct key *keys, uint32_t *order)
{
	size_t n = b->n_rows;
	for (size_t i = 0; i < n; i++)
		order[i] = keys[i].row;
	for (size_t i = 0, end = 0; i < n; i = end) {
		for (end = i + 1; end < n && keys[end].lane == keys[i].lane &&
				  keys[end].start == keys[i].start;)
			end++;
		if (end - i < 2)
			continue;
		taut_status status = sort_tie(b, order + i, end - i);
		if (status != TAUT_OK)
			return status;
	}
	return TAUT_OK;
}

taut_status tauti_builder_order(struct tauti_builder *b,
	const uint32_t *new_lane, uint32_t **ret_order)
{
	size_t n = b->n_rows;
	struct key *keys = malloc((n + 1) * sizeof *keys);
	struct key *other = malloc((n + 1) * sizeof *other);
	uint32_t *order = NULL;
	taut_status status = TAUT_ENOMEM;
	if (!keys || !other)
		goto out;
	uint64_t all = load_keys(b, new_lane, keys);
	for (unsigned shift = 0; shift < 64 && all >> shift;
		shift += DIGIT_BITS)
		pass(&keys, &other, n, shift);
	status = pass_lanes(&keys, &other, n, b->lanes.all.count);
	free(other);
	other = NULL;
	if (status != TAUT_OK)
		goto out;
	order = malloc((n + 1) * sizeof *order);
	status = order ? settle_ties(b, keys, order) : TAUT_ENOMEM;
out:
	free(keys);
	free(other);
	if (status != TAUT_OK) {
		free(order);
		return status;
	}
	*ret_order = order;
	return TAUT_OK;
}

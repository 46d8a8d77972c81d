/* pipe_order.c - in which order a stage computes its micro-batches.
 *
 * With p stages, stage s has so many forward computations under way before its
 * first backward one:
 *     1F1B         min(p - 1 - s, n)
 *     GPipe        n
 *     interleaved  min(2 (p - 1 - s) + (chunks - 1) p, n)
 * of n = micro-batches times chunks; then they take turns. Of several chunks,
 * p micro-batches go through one, then through the next; backward from the last
 * chunk on (Narayanan et al., SC '21). */
#include "whatif/pipes.h"

const char *tauti_schedule_name(enum tauti_pipe_schedule schedule)
{
	static const char *const names[] = { "unknown", "1f1b", "gpipe",
		"interleaved" };

	return names[schedule];
}

static uint32_t least(uint64_t a, uint32_t b)
{
	return a < b ? (uint32_t)a : b;
}

static uint32_t warm_up(const struct tauti_order *o, uint32_t stage)
{
	uint32_t n = o->batches * o->chunks, behind = o->stages - 1 - stage;

	if (o->schedule == TAUTI_SCHEDULE_GPIPE)
		return n;
	if (o->schedule == TAUTI_SCHEDULE_INTERLEAVED)
		return least((uint64_t)behind * 2 +
			(uint64_t)(o->chunks - 1) * o->stages, n);
	return least(behind, n);
}

void tauti_order_make(
	const struct tauti_order *o, uint32_t stage, uint8_t *ret_backward)
{
	uint32_t n = o->batches * o->chunks, warm = warm_up(o, stage), at = 0;

	for (uint32_t k = 0; k < n + warm; k++) {
		if (k < n)
			ret_backward[at++] = 0;
		if (k >= warm && o->backward)
			ret_backward[at++] = 1;
	}
}

struct tauti_piece tauti_piece_of(
	const struct tauti_order *o, bool backward, uint32_t index)
{
	uint32_t round = o->stages * o->chunks, in = index % round;
	struct tauti_piece piece = { 0, index };

	if (o->chunks == 1)
		return piece;
	piece.chunk = in / o->stages;
	if (backward)
		piece.chunk = o->chunks - 1 - piece.chunk;
	piece.batch = index / round * o->stages + in % o->stages;
	return piece;
}

uint32_t tauti_piece_index(const struct tauti_order *o, bool backward,
	struct tauti_piece piece)
{
	uint32_t chunk = backward ? o->chunks - 1 - piece.chunk : piece.chunk;

	if (o->chunks == 1)
		return piece.batch;
	return piece.batch / o->stages * o->stages * o->chunks +
		chunk * o->stages + piece.batch % o->stages;
}

static uint32_t stood(uint32_t i, uint32_t of, uint32_t n)
{
	if (!i)
		return 0;
	if (i == of - 1)
		return n - 1;
	if (n < 3)
		return (uint32_t)(((uint64_t)i * 2 + 1) * n /
			((uint64_t)of * 2));
	return 1 + (uint32_t)(((uint64_t)i * 2 - 1) * (n - 2) /
		((uint64_t)(of - 2) * 2));
}

uint32_t tauti_cut_anew(uint32_t i, uint32_t of, uint32_t n, bool *ret_home)
{
	uint32_t is = stood(i, of, n);

	if (is == n - 1 && n > 1)
		*ret_home = i == of - 1;
	else
		*ret_home = !i || stood(i - 1, of, n) != is;
	return is;
}

/* again_most.c - the latest end of all operations, kept.
 *
 * The most of a block is put right at once when an end rises above it; where the
 * end that it was has fallen, it is found anew when somebody asks. Before a follow
 * writes a block for the first time, that is copied to the log like an op, so that
 * an undo leaves nothing to be found anew. */
#include <stdlib.h>

#include "again.h"

enum { FAN = 64 };

static uint32_t blocks_of(uint32_t n)
{
	return n / FAN + 1;
}

static bool grow(void *array, size_t width, uint32_t n)
{
	void **at = array, *grown = realloc(*at, (size_t)n * width);

	if (grown)
		*at = grown;
	return grown != NULL;
}

bool tauti_most_room(struct again_most *m, uint32_t from, uint32_t room)
{
	uint32_t b = from ? blocks_of(from) : 0, n = blocks_of(room);
	uint32_t s = b ? blocks_of(b) : 0, n_super = blocks_of(n);

	if (!grow(&m->block, sizeof *m->block, n) ||
		!grow(&m->super, sizeof *m->super, n_super))
		return false;
	for (; b < n; b++)
		m->block[b] = (struct again_block) { INT64_MIN, 0, 0 };
	for (; s < n_super; s++)
		m->super[s] = (struct again_super) { INT64_MIN, true };
	return true;
}

void tauti_most_fini(struct again_most *m)
{
	free(m->block);
	free(m->super);
}

static bool copy_block(struct taut_again *a, uint32_t b)
{
	struct again_block *block = &a->most.block[b];
	struct again_copy copy = { { .end_ns = block->most_ns,
		.word = TAUTI_OF_BLOCK, .decided_by = block->is_old }, b };

	if (block->number == a->number)
		return true;
	if (!taut_vec_push(&a->log, copy))
		return false;
	block->number = a->number;
	return true;
}

void tauti_most_put_back(struct again_most *m, const struct again_copy *copy)
{
	m->block[copy->op] = (struct again_block) { copy->was.end_ns, 0,
		copy->was.decided_by };
	m->super[copy->op / FAN].is_old = true;
}

bool tauti_most_rise(struct taut_again *a, uint32_t op, int64_t end_ns)
{
	uint32_t b = op / FAN;
	struct again_super *super = &a->most.super[b / FAN];

	if (!copy_block(a, b))
		return false;
	a->most.block[b].most_ns = end_ns;
	a->most.block[b].is_old = 0;
	if (end_ns > super->most_ns)
		super->most_ns = end_ns;
	return true;
}

bool tauti_most_fall(struct taut_again *a, uint32_t op)
{
	uint32_t b = op / FAN;

	if (!copy_block(a, b))
		return false;
	a->most.block[b].is_old = 1;
	a->most.super[b / FAN].is_old = true;
	return true;
}

/* --- when somebody asks ------------------------------------------------------------ */

static void find_block(struct taut_again *a, uint32_t b)
{
	uint32_t end = (b + 1) * FAN < a->room ? (b + 1) * FAN : a->room;
	struct again_block *block = &a->most.block[b];

	block->most_ns = INT64_MIN;
	block->is_old = 0;
	for (uint32_t op = b * FAN; op < end; op++) {
		int64_t end_ns = again_end(&a->ops[op]);

		if (end_ns > block->most_ns)
			block->most_ns = end_ns;
	}
}

static void find_super(struct taut_again *a, uint32_t s)
{
	uint32_t n = blocks_of(a->room);
	uint32_t end = (s + 1) * FAN < n ? (s + 1) * FAN : n;
	struct again_super *super = &a->most.super[s];

	*super = (struct again_super) { INT64_MIN, false };
	for (uint32_t b = s * FAN; b < end; b++) {
		if (a->most.block[b].is_old)
			find_block(a, b);
		if (a->most.block[b].most_ns > super->most_ns)
			super->most_ns = a->most.block[b].most_ns;
	}
}

int64_t tauti_most(struct taut_again *a)
{
	uint32_t n = blocks_of(blocks_of(a->room));
	int64_t most_ns = INT64_MIN;

	for (uint32_t s = 0; s < n; s++) {
		if (a->most.super[s].is_old)
			find_super(a, s);
		if (a->most.super[s].most_ns > most_ns)
			most_ns = a->most.super[s].most_ns;
	}
	return most_ns;
}

uint32_t tauti_most_op(struct taut_again *a)
{
	int64_t most_ns = tauti_most(a);
	uint32_t at = 0;

	if (most_ns == INT64_MIN)
		return TAUT_NONE;
	while (a->most.super[at].most_ns < most_ns)
		at++;
	at *= FAN;
	while (a->most.block[at].most_ns < most_ns)
		at++;
	at *= FAN;
	while (again_end(&a->ops[at]) < most_ns)
		at++;
	return at;
}

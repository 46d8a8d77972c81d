/* again_most.c - the latest end of all operations, kept.
 *
 * The most of a block is put right at once when an end rises above it, and is
 * found anew, when somebody asks, where the end that it was has fallen. */
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
		!grow(&m->is_stale, sizeof *m->is_stale, n) ||
		!grow(&m->stale, sizeof *m->stale, n) ||
		!grow(&m->super, sizeof *m->super, n_super))
		return false;
	for (; b < n; b++) {
		m->block[b] = INT64_MIN;
		m->is_stale[b] = 0;
	}
	for (; s < n_super; s++)
		m->super[s] = INT64_MIN;
	return true;
}

void tauti_most_fini(struct again_most *m)
{
	free(m->block);
	free(m->super);
	free(m->is_stale);
	free(m->stale);
}

void tauti_most_rise(struct again_most *m, uint32_t op, int64_t end_ns)
{
	uint32_t b = op / FAN;

	m->block[b] = end_ns;
	if (end_ns > m->super[b / FAN])
		m->super[b / FAN] = end_ns;
}

void tauti_most_fall(struct again_most *m, uint32_t op)
{
	uint32_t b = op / FAN;

	if (m->is_stale[b])
		return;
	m->is_stale[b] = 1;
	m->stale[m->n_stale++] = b;
}

static int64_t most_of_ops(const struct taut_again *a, uint32_t block)
{
	uint32_t end = (block + 1) * FAN < a->room ? (block + 1) * FAN : a->room;
	int64_t most_ns = INT64_MIN;

	for (uint32_t op = block * FAN; op < end; op++) {
		int64_t end_ns = again_end(&a->ops[op]);

		most_ns = end_ns > most_ns ? end_ns : most_ns;
	}
	return most_ns;
}

static int64_t most_of_blocks(const struct taut_again *a, uint32_t super)
{
	uint32_t n = blocks_of(a->room);
	uint32_t end = (super + 1) * FAN < n ? (super + 1) * FAN : n;
	int64_t most_ns = INT64_MIN;

	for (uint32_t b = super * FAN; b < end; b++)
		most_ns = a->most.block[b] > most_ns ? a->most.block[b] :
			most_ns;
	return most_ns;
}

int64_t tauti_most(struct taut_again *a)
{
	struct again_most *m = &a->most;
	uint32_t n_super = blocks_of(blocks_of(a->room));
	int64_t most_ns = INT64_MIN;

	for (uint32_t i = 0; i < m->n_stale; i++)
		m->block[m->stale[i]] = most_of_ops(a, m->stale[i]);
	for (uint32_t i = 0; i < m->n_stale; i++) {
		uint32_t s = m->stale[i] / FAN;

		m->is_stale[m->stale[i]] = 0;
		if (!i || s != m->stale[i - 1] / FAN)
			m->super[s] = most_of_blocks(a, s);
	}
	m->n_stale = 0;
	for (uint32_t s = 0; s < n_super; s++)
		most_ns = m->super[s] > most_ns ? m->super[s] : most_ns;
	return most_ns;
}

uint32_t tauti_most_op(struct taut_again *a)
{
	int64_t most_ns = tauti_most(a);
	uint32_t at = 0;

	if (most_ns == INT64_MIN)
		return TAUT_NONE;
	while (a->most.super[at] < most_ns)
		at++;
	at *= FAN;
	while (a->most.block[at] < most_ns)
		at++;
	at *= FAN;
	while (again_end(&a->ops[at]) < most_ns)
		at++;
	return at;
}

/* again_log.c - what was before: copies of what follows have overwritten, and the
 * steps back. */
#include <string.h>

#include "again.h"

/* So many copies an op are kept, and these besides. */
enum { COPIES = 4, COPIES_MORE = 1 << 16 };

void tauti_again_put_back(struct taut_again *a, size_t log)
{
	while (a->log.count > log) {
		const struct again_copy *copy = &a->log.data[--a->log.count];

		if (copy->was.word & TAUTI_OF_BLOCK) {
			tauti_most_put_back(&a->most, copy);
		} else {
			a->ops[copy->op] = copy->was;
			a->last.put_back++;
		}
	}
}

bool tauti_again_step_back(struct taut_again *a, size_t low)
{
	while (a->frames.count > 1 &&
		a->frames.data[a->frames.count - 1].at > low)
		tauti_again_put_back(a,
			a->frames.data[--a->frames.count].log);
	if (a->frames.count && a->frames.data[0].at > low)
		a->frames.count = a->log.count = 0;
	return a->frames.count > 0;
}

/* The oldest go, but never the last step back. */
static void forget_some(struct taut_again *a)
{
	size_t most = (size_t)a->n_seen * COPIES + COPIES_MORE, first = 0, log;

	if (a->log.count <= most && a->frames.count <= most)
		return;
	while (first + 2 < a->frames.count &&
		(a->log.count - a->frames.data[first + 1].log > most / 2 ||
		a->frames.count - first > most / 2))
		first++;
	if (!first)
		return;
	log = a->frames.data[first + 1].log;
	a->log.count -= log;
	memmove(a->log.data, a->log.data + log,
		a->log.count * sizeof *a->log.data);
	a->frames.count -= first;
	memmove(a->frames.data, a->frames.data + first,
		a->frames.count * sizeof *a->frames.data);
	a->frames.data[0].log = 0;
	for (size_t i = 1; i < a->frames.count; i++)
		a->frames.data[i].log -= log;
}

void tauti_again_frame(struct taut_again *a)
{
	if (!a->frames.count) /* nothing leads back to what was useless */
		a->begin = a->log.count = 0;
	a->frames.data[a->frames.count++] = (struct again_frame) {
		a->edit->journal.count, a->begin };
	forget_some(a);
}

void tauti_again_number(struct taut_again *a)
{
	uint32_t flags = TAUTI_FLAGS;

	a->begin = a->log.count;
	if (++a->number >> (32 - TAUTI_FLAG_BITS) == 0)
		return;
	for (uint32_t op = 0; op < a->room; op++)
		a->ops[op].word &= flags;
	for (size_t i = 0; i < a->log.count; i++)
		a->log.data[i].was.word &= flags;
	for (uint32_t b = 0; b <= a->room / 64; b++)
		a->most.block[b].number = 0;
	a->number = 1;
}

/* edit_touched.c - which operations changes have touched, read off the journal.
 *
 * A record says which field of which element was something else before. Those
 * fields on which an op's start or end depends name the op:
 *
 *   DUR, GAP   the op itself
 *   AT         an op that has a cell from here on, in which anything may differ
 *   CELLS      before, lane, gone, and the head of the list of its waits
 *   WAITS      the list of waits into an op: the op that they lead to
 *   DEAD       the op that the edge leads to
 *
 * What a change writes into elements that it has made itself has no record; the
 * record of how many there were before stands for all of them. */
#include "graph/edit.h"

bool tauti_edit_follow(struct taut_edit *edit)
{
	bool first = !edit->followed;

	edit->followed = true;
	if (first)
		tauti_edit_seen(edit);
	return first;
}

void tauti_edit_unfollow(struct taut_edit *edit)
{
	edit->followed = false;
}

void tauti_edit_seen(struct taut_edit *edit)
{
	edit->low = edit->journal.count;
}

struct touched {
	const struct taut_edit *edit;
	void (*see)(void *context, uint32_t op);
	void *context;
};

static void see_cell(const struct touched *t, const struct tauti_undo *undo)
{
	switch (undo->offset) {
	case offsetof(struct tauti_cell, lane):
	case offsetof(struct tauti_cell, before):
	case offsetof(struct tauti_cell, in_first):
	case offsetof(struct tauti_cell, gone):
		t->see(t->context, tauti_cells(t->edit)[undo->index].op);
		break;
	default:
		break;
	}
}

static void see_value(const struct touched *t, const struct tauti_undo *undo)
{
	switch (undo->table) {
	case TAUTI_DUR:
	case TAUTI_GAP:
	case TAUTI_AT:
		t->see(t->context, undo->index);
		break;
	case TAUTI_DEAD:
		t->see(t->context, t->edit->below->edge_to[undo->index]);
		break;
	case TAUTI_WAITS:
		if (undo->offset == offsetof(struct tauti_wait, in_next))
			t->see(t->context,
				tauti_waits(t->edit)[undo->index].to);
		break;
	case TAUTI_CELLS:
		see_cell(t, undo);
		break;
	default:
		break;
	}
}

/* All that were pushed since, at the first record of it. */
static void see_new(const struct touched *t, const struct tauti_undo *undo,
	uint32_t *seen)
{
	uint32_t from = (uint32_t)undo->old;

	if (*seen & 1u << undo->table)
		return;
	*seen |= 1u << undo->table;
	if (undo->table == TAUTI_AT)
		for (; from < tauti_count(t->edit, TAUTI_AT); from++)
			t->see(t->context, from);
	else if (undo->table == TAUTI_WAITS)
		for (; from < tauti_count(t->edit, TAUTI_WAITS); from++)
			t->see(t->context, tauti_waits(t->edit)[from].to);
}

bool tauti_edit_touched(const struct taut_edit *edit, size_t since,
	void (*see)(void *context, uint32_t op), void *context)
{
	struct touched t = { edit, see, context };
	uint32_t seen = 0;
	bool each = true;

	for (size_t i = since; i < edit->journal.count; i++) {
		const struct tauti_undo *undo = &edit->journal.data[i];

		if (undo->width == TAUTI_IS_COUNT)
			see_new(&t, undo, &seen);
		else if (undo->width == TAUTI_IS_COLUMN)
			each = false;
		else
			see_value(&t, undo);
	}
	return each;
}

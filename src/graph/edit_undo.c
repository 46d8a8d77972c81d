/* edit_undo.c - the tables of an edit, and the journal that takes back. */
#include <stdlib.h>
#include <string.h>

#include "graph/edit.h"

taut_status tauti_edit_no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for an edit");
}

void tauti_edit_begin(struct taut_edit *edit)
{
	edit->start = edit->journal.count;
	edit->grew = 0;
	for (int i = 0; i < TAUTI_TABLES; i++)
		edit->floor[i] = edit->tables[i].count;
}

bool tauti_edit_note(struct taut_edit *edit, struct tauti_undo undo)
{
	return edit->journal.count < UINT32_MAX - 1 &&
		taut_vec_push(&edit->journal, undo);
}

bool tauti_edit_room(struct taut_edit *edit, enum tauti_table_id table)
{
	struct tauti_table *t = &edit->tables[table];

	if (t->count >= TAUT_NONE - 1 || (t->count == t->capacity &&
		!tauti_vec_grow(t, tauti_width(table), 1)))
		return false;
	if (edit->grew & 1u << table)
		return true;
	if (!tauti_edit_note(edit, (struct tauti_undo) { (int64_t)t->count, 0,
		0, (uint8_t)table, TAUTI_IS_COUNT }))
		return false;
	edit->grew |= 1u << table;
	return true;
}

static const int64_t *column_below(
	const struct taut_edit *edit, enum tauti_table_id table)
{
	return table == TAUTI_DUR ? edit->below->dur_ns : edit->below->gap_ns;
}

bool tauti_edit_own(struct taut_edit *edit, enum tauti_table_id table)
{
	struct tauti_table *t = &edit->tables[table];
	size_t capacity = t->count + t->count / 8 + 16;

	if (t->data)
		return true;
	t->data = malloc(capacity * sizeof(int64_t));
	if (!t->data)
		return false;
	if (t->count)
		memcpy(t->data, column_below(edit, table),
			t->count * sizeof(int64_t));
	t->capacity = capacity;
	return true;
}

bool tauti_edit_swap(struct taut_edit *edit, enum tauti_table_id table,
	void *data)
{
	struct tauti_table *t = &edit->tables[table];

	if (!tauti_edit_note(edit, (struct tauti_undo) { (int64_t)(intptr_t)t->data, 0, 0,
		(uint8_t)table, TAUTI_IS_COLUMN }))
		return false;
	t->data = data;
	t->capacity = t->count;
	return true;
}

static void take_back(struct taut_edit *edit, const struct tauti_undo *undo)
{
	struct tauti_table *t = &edit->tables[undo->table];

	switch (undo->width) {
	case TAUTI_IS_COUNT:
		t->count = (size_t)undo->old;
		break;
	case TAUTI_IS_COLUMN:
		free(t->data);
		t->data = (void *)(intptr_t)undo->old;
		t->capacity = t->count;
		break;
	default:
		tauti_store((char *)t->data + (size_t)undo->index *
			tauti_width(undo->table) + undo->offset, undo->width,
			undo->old);
	}
}

static void undo_to(struct taut_edit *edit, size_t mark)
{
	if (mark < edit->low)
		edit->low = mark;
	while (edit->journal.count > mark)
		take_back(edit, &edit->journal.data[--edit->journal.count]);
}

taut_status tauti_edit_end(struct taut_edit *edit, taut_status status)
{
	if (status)
		undo_to(edit, edit->start);
	return status;
}

uint32_t taut_edit_mark(const struct taut_edit *edit)
{
	return (uint32_t)edit->journal.count;
}

void taut_edit_undo(struct taut_edit *edit, uint32_t mark)
{
	undo_to(edit, mark);
}

/* --- an edit without changes ---------------------------------------------------------- */

struct tauti_cell tauti_cell_of(const struct taut_edit *edit, uint32_t op)
{
	const struct taut_graph *g = edit->below;
	const struct tauti_cell *cell = tauti_cell(edit, op);
	uint32_t like;

	if (cell)
		return *cell;
	like = tauti_below(edit, op);
	return (struct tauti_cell) {
		.lane = tauti_lane_of(edit, op),
		.name = tauti_name_of(edit, op),
		.event = g->event ? g->event[like] : TAUT_NONE,
		.collective = tauti_coll_of(edit, op),
		.like = like,
		.next = tauti_next(edit, op),
		.before = tauti_before(edit, op),
		.out_first = TAUT_NONE, .out_last = TAUT_NONE,
		.in_first = TAUT_NONE, .in_last = TAUT_NONE,
		.op = op,
		.kind = g->kind[like],
	};
}

bool tauti_edit_touch(struct taut_edit *edit, uint32_t op)
{
	struct tauti_cell cell;

	if (tauti_cell(edit, op))
		return true;
	cell = tauti_cell_of(edit, op);
	return tauti_count(edit, TAUTI_CELLS) < TAUTI_IN_SPAN - 2 &&
		tauti_edit_push(edit, TAUTI_CELLS, &cell) &&
		tauti_edit_put(edit, TAUTI_AT, op, 0, sizeof(uint32_t),
			tauti_count(edit, TAUTI_CELLS));
}

static bool cleared(struct tauti_table *t, size_t n, size_t width)
{
	t->data = calloc(n + 16, width);
	t->count = n;
	t->capacity = n + 16;
	return t->data != NULL;
}

static bool lay_lanes(struct taut_edit *edit)
{
	const struct taut_graph *g = edit->below;

	for (uint32_t l = 0; l < g->n_lanes; l++) {
		uint32_t begin = g->lane_begin[l], end = g->lane_begin[l + 1];
		bool empty = begin == end;
		struct tauti_lane lane = { g->lanes[l],
			empty ? TAUT_NONE : begin, empty ? TAUT_NONE : end - 1,
			empty };

		if (!tauti_edit_push(edit, TAUTI_LANES, &lane))
			return false;
	}
	return true;
}

/* A graph without a run has as many ranks as its lanes name. */
static bool lay_ranks(struct taut_edit *edit)
{
	const struct taut_graph *g = edit->below;
	uint32_t n = g->run ? g->run->n_traces : 0;

	for (uint32_t l = 0; l < g->n_lanes; l++)
		if (g->lanes[l].trace != TAUT_NONE && g->lanes[l].trace >= n)
			n = g->lanes[l].trace + 1;
	for (uint32_t i = 0; i < n; i++)
		if (!tauti_edit_push(edit, TAUTI_RANKS,
			&(struct tauti_rank_row) { .like = i }))
			return false;
	return true;
}

static bool lay_colls(struct taut_edit *edit)
{
	const struct taut_graph *g = edit->below;

	for (uint32_t c = 0; c < g->n_collectives; c++) {
		const struct taut_collective *is = &g->collectives[c];
		uint32_t base = tauti_count(edit, TAUTI_MEMBERS);
		uint32_t n = is->n_members;
		struct tauti_coll coll = { *is, c, n ? base : TAUT_NONE,
			n ? base + n - 1 : TAUT_NONE, 0 };

		for (uint32_t i = 0; i < n; i++)
			if (!tauti_edit_push(edit, TAUTI_MEMBERS,
				&(struct tauti_member) {
				g->member_arrive[is->first_member + i],
				i + 1 < n ? base + i + 1 : TAUT_NONE,
				i ? base + i - 1 : TAUT_NONE }))
				return false;
		if (!tauti_edit_push(edit, TAUTI_COLLS, &coll))
			return false;
	}
	for (uint32_t s = 0; s < g->n_steps; s++)
		if (!tauti_edit_push(edit, TAUTI_STEPS, &(struct tauti_step) {
			s, g->steps[s].trace, g->steps[s].begin_op,
			g->steps[s].end_op }))
			return false;
	return true;
}

static bool lay_reverse(struct taut_edit *edit)
{
	const struct taut_graph *g = edit->below;
	size_t n = g->n_ops, n_edges = g->n_edges;
	uint32_t *begin = calloc(n + 2, sizeof *begin);

	edit->in_begin = begin;
	edit->in_edge = malloc((n_edges + 1) * sizeof *edit->in_edge);
	edit->edge_from = malloc((n_edges + 1) * sizeof *edit->edge_from);
	if (!begin || !edit->in_edge || !edit->edge_from)
		return false;
	for (size_t e = 0; e < n_edges; e++)
		begin[g->edge_to[e] + 2]++;
	for (size_t i = 2; i < n + 2; i++)
		begin[i] += begin[i - 1];
	for (uint32_t op = 0; op < n; op++)
		for (uint32_t e = g->edge_begin[op]; e < g->edge_begin[op + 1];
			e++) {
			edit->in_edge[begin[g->edge_to[e] + 1]++] = e;
			edit->edge_from[e] = op;
		}
	return true;
}

static bool lay(struct taut_edit *edit)
{
	const struct taut_graph *g = edit->below;
	struct tauti_table *t = edit->tables;

	t[TAUTI_DUR].count = t[TAUTI_GAP].count = g->n_ops;
	tauti_edit_begin(edit);
	return cleared(&t[TAUTI_AT], g->n_ops, sizeof(uint32_t)) &&
		cleared(&t[TAUTI_DEAD], g->n_edges, 1) && lay_lanes(edit) &&
		lay_ranks(edit) && lay_colls(edit) && lay_reverse(edit);
}

taut_status taut_edit_create(const struct taut_graph *graph,
	struct taut_edit **ret_edit, struct taut_error *reterr)
{
	struct taut_edit *edit = calloc(1, sizeof *edit);

	if (!edit)
		return tauti_edit_no_memory(reterr);
	edit->below = graph;
	if (!lay(edit)) {
		taut_edit_destroy(edit);
		return tauti_edit_no_memory(reterr);
	}
	edit->journal.count = 0;
	*ret_edit = edit;
	return TAUT_OK;
}

void taut_edit_destroy(struct taut_edit *edit)
{
	if (!edit)
		return;
	for (size_t i = 0; i < edit->journal.count; i++)
		if (edit->journal.data[i].width == TAUTI_IS_COLUMN)
			free((void *)(intptr_t)edit->journal.data[i].old);
	for (int i = 0; i < TAUTI_TABLES; i++)
		free(edit->tables[i].data);
	taut_vec_free(&edit->journal);
	taut_names_destroy(edit->names);
	free(edit->in_begin);
	free(edit->in_edge);
	free(edit->edge_from);
	free(edit->copy_of);
	free(edit);
}

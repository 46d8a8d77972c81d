/* edit.h - what the files of an edit share.
 *
 * Everything that a change may change stands in tables, and is written through
 * tauti_edit_put() and tauti_edit_push() alone. Both leave in a journal what
 * was there before, so that undo is one loop that knows of no change in
 * particular, and is exact. What a change itself has pushed needs no journal:
 * to undo is to drop it. A change therefore costs what it touches.
 *
 *   AT      by op: its cell + 1; or 0 for an op that is as in the graph below;
 *           or TAUTI_IN_SPAN and its span
 *   CELLS   ops that were touched, or are new: place, neighbours, waits
 *   SPANS   copies of a rank that nothing has touched since: most of a large
 *           job's ops, which so need no cell
 *   DUR GAP by op; until the first change of one, those of the graph below
 *   DEAD    by edge of the graph below: 1 when it was taken away
 *   WAITS   edges that were added, in a list by their first op and in one by
 *           their second
 *   LANES RANKS COLLS MEMBERS STEPS   as in the graph below, and new ones
 *
 * An edge's handle is its place in the graph below, or n_edges + its place in
 * WAITS. Where a wait is gone, only its neighbours in the lists know.
 *
 * Threads: one at a time. */
#ifndef TAUT_GRAPH_EDIT_H
#define TAUT_GRAPH_EDIT_H

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include <taut/edit.h>

#include "base/vec.h"

enum tauti_table_id {
	TAUTI_AT,      /* uint32_t */
	TAUTI_CELLS,   /* struct tauti_cell */
	TAUTI_SPANS,   /* struct tauti_span */
	TAUTI_DUR,     /* int64_t; data NULL: see tauti_dur() */
	TAUTI_GAP,     /* int64_t; likewise */
	TAUTI_DEAD,    /* uint8_t */
	TAUTI_WAITS,   /* struct tauti_wait */
	TAUTI_LANES,   /* struct tauti_lane */
	TAUTI_RANKS,   /* struct tauti_rank_row */
	TAUTI_COLLS,   /* struct tauti_coll */
	TAUTI_MEMBERS, /* struct tauti_member */
	TAUTI_STEPS,   /* struct tauti_step */
	TAUTI_TABLES
};

struct tauti_cell {
	uint32_t lane, name, event, collective, like;
	uint32_t next, before;           /* on the lane */
	uint32_t out_first, out_last;    /* WAITS; those of the graph below */
	uint32_t in_first, in_last;      /* come before them */
	uint32_t op;                     /* whose cell it is: the journal
	                                    names cells */
	uint8_t kind, gone;
};

#define TAUTI_IN_SPAN 0x80000000u /* cells are fewer than that */

/* Ops in a row on a lane that are copies, without waits and collectives. */
struct tauti_span {
	uint32_t lane;
	uint32_t first, end; /* all ops of the lane when it was copied */
	uint32_t back;       /* op - back: of the graph below */
};

struct tauti_wait {
	int64_t lag;
	uint32_t from, to;
	uint32_t out_next, out_before, in_next, in_before;
	uint8_t kind;
};

struct tauti_lane {
	struct taut_graph_lane is; /* trace: a rank of the edit */
	uint32_t first, last;      /* ops */
	uint8_t was_empty;         /* in the graph below */
};

struct tauti_rank_row {
	uint32_t like;
	uint8_t gone;
};

struct tauti_coll {
	struct taut_collective is;  /* first_member is of no use; join_op: op */
	uint32_t like;
	uint32_t first, last;       /* MEMBERS */
	uint8_t gone;
};

struct tauti_member {
	uint32_t arrive, next, before;
};

struct tauti_step { /* like: index in the graph's steps */
	uint32_t like, rank, begin_op, end_op;
};

struct tauti_table {
	void *data;
	size_t count, capacity;
};

enum { TAUTI_IS_COUNT = 0, TAUTI_IS_COLUMN = 255 };

struct tauti_undo {
	int64_t old;     /* value; or count; or the column that was there */
	uint32_t index;
	uint16_t offset; /* bytes into the element */
	uint8_t table;
	uint8_t width;   /* bytes of the value; or one of those above */
};

struct taut_edit {
	const struct taut_graph *below;
	struct tauti_table tables[TAUTI_TABLES];
	TAUT_VEC(struct tauti_undo) journal;
	/* of the change under way: */
	size_t start;                /* of its records in the journal */
	size_t floor[TAUTI_TABLES];  /* what lies above is its own */
	uint32_t grew;               /* bit by table: its count is noted */

	/* Edges of the graph below by their second op: edges into op i are
	 * in_edge[in_begin[i]] .. in_edge[in_begin[i + 1] - 1]. */
	uint32_t *in_begin, *in_edge, *edge_from;
	struct taut_names *names; /* texts that the graph below lacks; their
	                             ids follow its own. NULL: none */
	uint32_t *copy_of;        /* copy_rank: by op, its copy + 1; all 0
	                             between calls */
	size_t n_copy_of;
	bool followed;            /* see edit_touched.c */
	size_t low;               /* the shortest that the journal has been
	                             since the follower looked last */
};

/* --- tables and journal (edit_undo.c) ------------------------------------------ */
/* Every exported change stands between these two. A status other than TAUT_OK
 * takes back what was done; it is what end returns. */
void tauti_edit_begin(struct taut_edit *edit);
taut_status tauti_edit_end(struct taut_edit *edit, taut_status status);
taut_status tauti_edit_no_memory(struct taut_error *err);
/* Each false: no memory, and nothing was done. */
bool tauti_edit_note(struct taut_edit *edit, struct tauti_undo undo);
/* For one element more, and the count is noted. */
bool tauti_edit_room(struct taut_edit *edit, enum tauti_table_id table);
/* DUR or GAP become the edit's own. */
bool tauti_edit_own(struct taut_edit *edit, enum tauti_table_id table);
/* In its place comes a column of as many elements, which the edit then owns. */
bool tauti_edit_swap(struct taut_edit *edit, enum tauti_table_id table,
	void *data);
/* op has a cell from here on. */
bool tauti_edit_touch(struct taut_edit *edit, uint32_t op);

static inline size_t tauti_width(enum tauti_table_id table)
{
	switch (table) {
	case TAUTI_AT: return sizeof(uint32_t);
	case TAUTI_CELLS: return sizeof(struct tauti_cell);
	case TAUTI_SPANS: return sizeof(struct tauti_span);
	case TAUTI_DUR: return sizeof(int64_t);
	case TAUTI_GAP: return sizeof(int64_t);
	case TAUTI_DEAD: return sizeof(uint8_t);
	case TAUTI_WAITS: return sizeof(struct tauti_wait);
	case TAUTI_LANES: return sizeof(struct tauti_lane);
	case TAUTI_RANKS: return sizeof(struct tauti_rank_row);
	case TAUTI_COLLS: return sizeof(struct tauti_coll);
	case TAUTI_MEMBERS: return sizeof(struct tauti_member);
	default: return sizeof(struct tauti_step);
	}
}

static inline int64_t tauti_load(const void *at, size_t width)
{
	int64_t wide;
	uint32_t word;

	if (width == 1)
		return *(const uint8_t *)at;
	if (width == sizeof word) {
		memcpy(&word, at, sizeof word);
		return word;
	}
	memcpy(&wide, at, sizeof wide);
	return wide;
}

static inline void tauti_store(void *at, size_t width, int64_t value)
{
	uint32_t word = (uint32_t)value;

	if (width == 1)
		*(uint8_t *)at = (uint8_t)value;
	else if (width == sizeof word)
		memcpy(at, &word, sizeof word);
	else
		memcpy(at, &value, sizeof value);
}

/* Inline, as both are in every loop and their widths are constants there. */
static inline bool tauti_edit_put(struct taut_edit *edit,
	enum tauti_table_id table, size_t index, size_t offset, size_t width,
	int64_t value)
{
	char *at = (char *)edit->tables[table].data +
		index * tauti_width(table) + offset;
	int64_t old = tauti_load(at, width);

	assert(index < edit->tables[table].count);
	if (width == sizeof(uint32_t))
		value = (uint32_t)value;
	if (old == value)
		return true;
	if (index < edit->floor[table] && !tauti_edit_note(edit,
		(struct tauti_undo) { old, (uint32_t)index, (uint16_t)offset,
		(uint8_t)table, (uint8_t)width }))
		return false;
	tauti_store(at, width, value);
	return true;
}

static inline bool tauti_edit_push(struct taut_edit *edit,
	enum tauti_table_id table, const void *element)
{
	struct tauti_table *t = &edit->tables[table];

	if ((t->count == t->capacity || !(edit->grew & 1u << table)) &&
		!tauti_edit_room(edit, table))
		return false;
	memcpy((char *)t->data + t->count++ * tauti_width(table), element,
		tauti_width(table));
	return true;
}

#define TAUTI_PUT(edit, table, index, type, field, value) \
	tauti_edit_put((edit), (table), (index), offsetof(type, field), \
		sizeof ((type *)0)->field, (int64_t)(value))
#define TAUTI_PUT_OP(edit, op, field, value) \
	(tauti_edit_touch((edit), (op)) && TAUTI_PUT((edit), TAUTI_CELLS, \
		tauti_at(edit)[op] - 1, struct tauti_cell, field, (value)))
#define TAUTI_PUT_LANE(edit, lane, field, value) \
	TAUTI_PUT((edit), TAUTI_LANES, (lane), struct tauti_lane, field, (value))
#define TAUTI_PUT_COLL(edit, coll, field, value) \
	TAUTI_PUT((edit), TAUTI_COLLS, (coll), struct tauti_coll, field, (value))

/* --- reading ---------------------------------------------------------------------- */
#define TAUTI_ROWS(name, type, id) \
	static inline type *tauti_##name(const struct taut_edit *edit) \
	{ \
		return edit->tables[id].data; \
	}
TAUTI_ROWS(at, uint32_t, TAUTI_AT)
TAUTI_ROWS(dead, uint8_t, TAUTI_DEAD)
TAUTI_ROWS(cells, struct tauti_cell, TAUTI_CELLS)
TAUTI_ROWS(spans, struct tauti_span, TAUTI_SPANS)
TAUTI_ROWS(waits, struct tauti_wait, TAUTI_WAITS)
TAUTI_ROWS(lanes, struct tauti_lane, TAUTI_LANES)
TAUTI_ROWS(ranks, struct tauti_rank_row, TAUTI_RANKS)
TAUTI_ROWS(colls, struct tauti_coll, TAUTI_COLLS)
TAUTI_ROWS(members, struct tauti_member, TAUTI_MEMBERS)
TAUTI_ROWS(steps, struct tauti_step, TAUTI_STEPS)

static inline uint32_t tauti_count(
	const struct taut_edit *edit, enum tauti_table_id id)
{
	return (uint32_t)edit->tables[id].count;
}

static inline const struct tauti_cell *tauti_cell(
	const struct taut_edit *edit, uint32_t op)
{
	uint32_t at = tauti_at(edit)[op];

	return at && !(at & TAUTI_IN_SPAN) ? &tauti_cells(edit)[at - 1] : NULL;
}

static inline const struct tauti_span *tauti_span(
	const struct taut_edit *edit, uint32_t op)
{
	uint32_t at = tauti_at(edit)[op];

	return at & TAUTI_IN_SPAN ? &tauti_spans(edit)[at & ~TAUTI_IN_SPAN] :
		NULL;
}

/* Of an op without a cell: the one of the graph below that it is as. */
static inline uint32_t tauti_below(const struct taut_edit *edit, uint32_t op)
{
	const struct tauti_span *span = tauti_span(edit, op);

	return span ? op - span->back : op;
}

/* An op's cell, or what it would be. */
struct tauti_cell tauti_cell_of(const struct taut_edit *edit, uint32_t op);

static inline int64_t tauti_dur(const struct taut_edit *edit, uint32_t op)
{
	const int64_t *own = edit->tables[TAUTI_DUR].data;

	return own ? own[op] : edit->below->dur_ns[op];
}

static inline int64_t tauti_gap(const struct taut_edit *edit, uint32_t op)
{
	const int64_t *own = edit->tables[TAUTI_GAP].data;

	return own ? own[op] : edit->below->gap_ns[op];
}

static inline bool tauti_has_op(const struct taut_edit *edit, uint32_t op)
{
	const struct tauti_cell *cell;

	if (op >= tauti_count(edit, TAUTI_AT))
		return false;
	cell = tauti_cell(edit, op);
	return !cell || !cell->gone;
}

static inline uint32_t tauti_lane_of(const struct taut_edit *edit, uint32_t op)
{
	const struct tauti_cell *cell = tauti_cell(edit, op);
	const struct tauti_span *span = tauti_span(edit, op);

	return cell ? cell->lane : span ? span->lane : edit->below->lane[op];
}

static inline uint8_t tauti_kind(const struct taut_edit *edit, uint32_t op)
{
	const struct tauti_cell *cell = tauti_cell(edit, op);

	return cell ? cell->kind : edit->below->kind[tauti_below(edit, op)];
}

static inline uint32_t tauti_coll_of(const struct taut_edit *edit, uint32_t op)
{
	const struct tauti_cell *cell = tauti_cell(edit, op);

	if (cell)
		return cell->collective;
	return edit->below->collective ?
		edit->below->collective[tauti_below(edit, op)] : TAUT_NONE;
}

static inline uint32_t tauti_name_of(const struct taut_edit *edit, uint32_t op)
{
	const struct tauti_cell *cell = tauti_cell(edit, op);

	if (cell)
		return cell->name;
	return edit->below->name ? edit->below->name[tauti_below(edit, op)] : 0;
}

/* The neighbours; inline, for a build walks all lanes. */
static inline uint32_t tauti_next(const struct taut_edit *edit, uint32_t op)
{
	const struct tauti_cell *cell = tauti_cell(edit, op);
	const struct tauti_span *span = tauti_span(edit, op);

	if (cell)
		return cell->next;
	if (span)
		return op + 1 < span->end ? op + 1 : TAUT_NONE;
	return op + 1 < edit->below->lane_begin[edit->below->lane[op] + 1] ?
		op + 1 : TAUT_NONE;
}

static inline uint32_t tauti_before(const struct taut_edit *edit, uint32_t op)
{
	const struct tauti_cell *cell = tauti_cell(edit, op);
	const struct tauti_span *span = tauti_span(edit, op);

	if (cell)
		return cell->before;
	if (span)
		return op > span->first ? op - 1 : TAUT_NONE;
	return op > edit->below->lane_begin[edit->below->lane[op]] ? op - 1 :
		TAUT_NONE;
}

/* May there be edges out of it? false: there are none. */
static inline bool tauti_has_out(const struct taut_edit *edit, uint32_t op)
{
	const uint32_t *begin = edit->below->edge_begin;

	if (tauti_at(edit)[op])
		return !tauti_span(edit, op);
	return begin[op] < begin[op + 1];
}

/* Likewise, out of it or into it. */
static inline bool tauti_has_waits(const struct taut_edit *edit, uint32_t op)
{
	return tauti_has_out(edit, op) || (!tauti_span(edit, op) &&
		edit->in_begin[op] < edit->in_begin[op + 1]);
}

/* Do the operations of this lane wait for each other? */
static inline bool tauti_serial(const struct taut_edit *edit, uint32_t lane)
{
	return tauti_lanes(edit)[lane].is.trace != TAUT_NONE;
}

static inline bool tauti_has_rank(const struct taut_edit *edit, uint32_t rank)
{
	return rank < tauti_count(edit, TAUTI_RANKS) &&
		!tauti_ranks(edit)[rank].gone;
}

static inline bool tauti_has_lane(const struct taut_edit *edit, uint32_t lane)
{
	return lane < tauti_count(edit, TAUTI_LANES) &&
		(!tauti_serial(edit, lane) ||
		tauti_has_rank(edit, tauti_lanes(edit)[lane].is.trace));
}

static inline bool tauti_has_coll(const struct taut_edit *edit, uint32_t coll)
{
	return coll < tauti_count(edit, TAUTI_COLLS) &&
		!tauti_colls(edit)[coll].gone;
}

/* An arrival whose transfer is the next on its lane, as a collective's is. */
static inline bool tauti_is_pair(const struct taut_edit *edit, uint32_t op)
{
	uint32_t next;

	if (tauti_kind(edit, op) != TAUT_OP_ARRIVE)
		return false;
	next = tauti_next(edit, op);
	return next != TAUT_NONE &&
		tauti_kind(edit, next) == TAUT_OP_TRANSFER &&
		tauti_coll_of(edit, next) == tauti_coll_of(edit, op);
}

/* The arrival of the pair whose transfer this is; TAUT_NONE: it is none. */
static inline uint32_t tauti_arrival_of(
	const struct taut_edit *edit, uint32_t op)
{
	uint32_t before;

	if (tauti_kind(edit, op) != TAUT_OP_TRANSFER)
		return TAUT_NONE;
	before = tauti_before(edit, op);
	return before != TAUT_NONE && tauti_is_pair(edit, before) ? before :
		TAUT_NONE;
}

const char *tauti_edit_text(
	const struct taut_edit *edit, uint32_t name, size_t *ret_len);

/* TAUT_EINVAL with the op's number where it is gone or was never there. */
taut_status tauti_edit_check_op(const struct taut_edit *edit, uint32_t op,
	struct taut_error *err);
taut_status tauti_edit_check_lane(const struct taut_edit *edit, uint32_t lane,
	struct taut_error *err);

taut_status tauti_edit_check_name(const struct taut_edit *edit, uint32_t name,
	struct taut_error *err);

/* --- who follows (edit_touched.c) ----------------------------------------------------------
 * The journal tells a follower what was touched, so that changes do nothing for
 * it, and undo keeps one number. A follower knows the edit as it was when the
 * journal had n records: as long as `low` is not below n, those are as they were,
 * and what came behind them is all that has changed since.
 *
 * false: there is a follower, and one is all that there can be. */
bool tauti_edit_follow(struct taut_edit *edit);
void tauti_edit_unfollow(struct taut_edit *edit);
/* The follower has seen all that there is now. */
void tauti_edit_seen(struct taut_edit *edit);
/* Calls see() for every op whose duration, gap, place or waits into it may be
 * others than when the journal had `since` records, some more than once, and ops
 * that have gone or come. false: all durations were put at once, which is not
 * told op by op. */
bool tauti_edit_touched(const struct taut_edit *edit, size_t since,
	void (*see)(void *context, uint32_t op), void *context);

/* --- waits (edit_waits.c) ------------------------------------------------------------ */
struct tauti_walk { /* the one that was seen last may be dropped on the way */
	const struct taut_edit *edit;
	uint32_t at, end; /* of the graph below */
	uint32_t extra;   /* of WAITS */
	bool in;
};

struct tauti_seen {
	uint32_t handle, from, to;
	int64_t lag;
	uint8_t kind;
};

struct tauti_walk tauti_walk_out(const struct taut_edit *edit, uint32_t op);
struct tauti_walk tauti_walk_in(const struct taut_edit *edit, uint32_t op);
/* All edges out of from, or all into to: where there are fewer. */
struct tauti_walk tauti_walk_shorter(
	const struct taut_edit *edit, uint32_t from, uint32_t to);
bool tauti_walk_on(struct tauti_walk *walk, struct tauti_seen *ret);

/* false: no memory. */
bool tauti_wait_add(struct taut_edit *edit, uint32_t from, uint32_t to,
	uint8_t kind, int64_t lag);
bool tauti_wait_drop(struct taut_edit *edit, uint32_t handle);
/* All edges into and out of op. */
bool tauti_wait_drop_all(struct taut_edit *edit, uint32_t op);
/* All edges from one to the other; *ret_n counts them. */
bool tauti_wait_drop_between(struct taut_edit *edit, uint32_t from,
	uint32_t to, uint32_t *ret_n);

/* --- places (edit_place.c) ------------------------------------------------------------- */
/* after TAUT_NONE: first of lane. The op stands nowhere before. */
bool tauti_place(struct taut_edit *edit, uint32_t op, uint32_t after,
	uint32_t lane);
bool tauti_unplace(struct taut_edit *edit, uint32_t op);
/* Can an operation be put behind `after`? Sets *lane to that of after. */
taut_status tauti_edit_check_place(const struct taut_edit *edit,
	uint32_t after, uint32_t *lane, struct taut_error *err);
bool tauti_put_gap(struct taut_edit *edit, uint32_t op, int64_t gap_ns);
/* A new op, which stands nowhere yet. */
bool tauti_op_add(struct taut_edit *edit, const struct tauti_cell *cell,
	int64_t dur_ns, int64_t gap_ns, uint32_t *ret_op);
/* Without a look at what it is a part of: its waits go on past it, or end. */
bool tauti_op_remove(struct taut_edit *edit, uint32_t op);
bool tauti_op_cut(struct taut_edit *edit, uint32_t op);

/* --- collectives (edit_collective.c) ---------------------------------------------------- */
bool tauti_member_add(struct taut_edit *edit, uint32_t coll, uint32_t arrive);
/* It leaves its collective, which goes with its last member; the two ops stay,
 * and belong to none. */
bool tauti_member_leave(struct taut_edit *edit, uint32_t arrive);
/* The lane of the joins, made where there is none. */
bool tauti_join_lane(struct taut_edit *edit, uint32_t *ret_lane);

#endif /* TAUT_GRAPH_EDIT_H */

/* edit.c - reading an edit, and changing the times of operations. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/edit.h"

taut_status tauti_edit_check_op(const struct taut_edit *edit, uint32_t op,
	struct taut_error *err)
{
	if (tauti_has_op(edit, op))
		return TAUT_OK;
	return taut_error_set(err, TAUT_EINVAL, -1, op == TAUT_NONE ?
		"edit: an operation was expected, found none" :
		"edit: operation %u is not there", (unsigned)op);
}

taut_status tauti_edit_check_lane(const struct taut_edit *edit, uint32_t lane,
	struct taut_error *err)
{
	if (tauti_has_lane(edit, lane))
		return TAUT_OK;
	return taut_error_set(err, TAUT_EINVAL, -1,
		"edit: lane %u is not there", (unsigned)lane);
}

/* --- names ------------------------------------------------------------------------ */

static uint32_t names_below(const struct taut_edit *edit)
{
	return taut_names_count(edit->below->names);
}

const char *tauti_edit_text(
	const struct taut_edit *edit, uint32_t name, size_t *ret_len)
{
	const struct taut_names *names = edit->below->names;

	if (name >= names_below(edit)) {
		names = edit->names;
		name -= names_below(edit) - 1; /* 0 is the empty text */
	}
	*ret_len = names ? taut_names_length(names, name) : 0;
	return names ? taut_names_text(names, name) : "";
}

const char *taut_edit_name(const struct taut_edit *edit, uint32_t name)
{
	size_t len;

	return tauti_edit_text(edit, name, &len);
}

taut_status tauti_edit_check_name(const struct taut_edit *edit, uint32_t name,
	struct taut_error *err)
{
	uint32_t n = names_below(edit) +
		(edit->names ? taut_names_count(edit->names) - 1 : 0);

	if (name < n)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EINVAL, -1,
		"edit: there is no name %u", (unsigned)name);
}

taut_status taut_edit_add_name(struct taut_edit *edit, const char *text,
	uint32_t *ret_name, struct taut_error *reterr)
{
	size_t len = strlen(text);
	uint32_t id = taut_names_find(edit->below->names, text, len);

	if (id == TAUT_NONE) {
		if (!edit->names)
			edit->names = taut_names_create();
		id = edit->names ? taut_names_add(edit->names, text, len) :
			TAUT_NONE;
		if (id == TAUT_NONE)
			return tauti_edit_no_memory(reterr);
		id += names_below(edit) - 1;
	}
	*ret_name = id;
	return TAUT_OK;
}

/* --- what is there ------------------------------------------------------------------ */

const struct taut_graph *taut_edit_below(const struct taut_edit *edit)
{
	return edit->below;
}

uint32_t taut_edit_ops(const struct taut_edit *edit)
{
	return tauti_count(edit, TAUTI_AT);
}

uint32_t taut_edit_lanes(const struct taut_edit *edit)
{
	return tauti_count(edit, TAUTI_LANES);
}

uint32_t taut_edit_ranks(const struct taut_edit *edit)
{
	return tauti_count(edit, TAUTI_RANKS);
}

uint32_t taut_edit_collectives(const struct taut_edit *edit)
{
	return tauti_count(edit, TAUTI_COLLS);
}

int taut_edit_op(
	const struct taut_edit *edit, uint32_t op, struct taut_op *ret_op)
{
	const struct taut_graph *g = edit->below;
	const struct tauti_cell *cell;
	uint32_t like;

	if (!tauti_has_op(edit, op))
		return 0;
	cell = tauti_cell(edit, op);
	like = cell ? cell->like : tauti_below(edit, op);
	*ret_op = (struct taut_op) {
		.dur_ns = tauti_dur(edit, op),
		.gap_ns = tauti_gap(edit, op),
		.lane = tauti_lane_of(edit, op),
		.name = tauti_name_of(edit, op),
		.event = cell ? cell->event : g->event ? g->event[like] : TAUT_NONE,
		.collective = tauti_coll_of(edit, op),
		.kind = cell ? cell->kind : g->kind[like],
		.like = like,
	};
	return 1;
}

struct taut_graph_lane taut_edit_lane(
	const struct taut_edit *edit, uint32_t lane)
{
	return tauti_lanes(edit)[lane].is;
}

int taut_edit_has_rank(const struct taut_edit *edit, uint32_t rank)
{
	return tauti_has_rank(edit, rank);
}

uint32_t taut_edit_rank_like(const struct taut_edit *edit, uint32_t rank)
{
	return tauti_ranks(edit)[rank].like;
}

uint32_t taut_edit_next(const struct taut_edit *edit, uint32_t op)
{
	return tauti_has_op(edit, op) ? tauti_next(edit, op) : TAUT_NONE;
}

uint32_t taut_edit_before(const struct taut_edit *edit, uint32_t op)
{
	return tauti_has_op(edit, op) ? tauti_before(edit, op) : TAUT_NONE;
}

uint32_t taut_edit_first(const struct taut_edit *edit, uint32_t lane)
{
	return tauti_lanes(edit)[lane].first;
}

uint32_t taut_edit_last(const struct taut_edit *edit, uint32_t lane)
{
	return tauti_lanes(edit)[lane].last;
}

static void each_wait(struct tauti_walk walk,
	void (*see)(void *context, struct taut_wait wait), void *context)
{
	struct tauti_seen seen;

	while (tauti_walk_on(&walk, &seen))
		see(context, (struct taut_wait) {
			walk.in ? seen.from : seen.to, seen.lag, seen.kind });
}

void taut_edit_each_out(const struct taut_edit *edit, uint32_t op,
	void (*see)(void *context, struct taut_wait wait), void *context)
{
	if (tauti_has_op(edit, op))
		each_wait(tauti_walk_out(edit, op), see, context);
}

void taut_edit_each_in(const struct taut_edit *edit, uint32_t op,
	void (*see)(void *context, struct taut_wait wait), void *context)
{
	if (tauti_has_op(edit, op))
		each_wait(tauti_walk_in(edit, op), see, context);
}

/* --- times ------------------------------------------------------------------------------ */

static bool put_time(struct taut_edit *edit, enum tauti_table_id table,
	uint32_t op, int64_t ns)
{
	return tauti_edit_own(edit, table) &&
		tauti_edit_put(edit, table, op, 0, sizeof ns, ns);
}

bool tauti_put_gap(struct taut_edit *edit, uint32_t op, int64_t gap_ns)
{
	return put_time(edit, TAUTI_GAP, op, gap_ns);
}

static taut_status negative(uint32_t op, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EINVAL, -1,
		"edit: operation %u: a duration must not be below 0",
		(unsigned)op);
}

taut_status taut_edit_set_dur(struct taut_edit *edit, uint32_t op,
	int64_t dur_ns, struct taut_error *reterr)
{
	taut_status status = tauti_edit_check_op(edit, op, reterr);

	if (status)
		return status;
	if (dur_ns < 0)
		return negative(op, reterr);
	tauti_edit_begin(edit);
	return tauti_edit_end(edit, put_time(edit, TAUTI_DUR, op, dur_ns) ?
		TAUT_OK : tauti_edit_no_memory(reterr));
}

taut_status taut_edit_set_durs(struct taut_edit *edit, const int64_t *dur_ns,
	struct taut_error *reterr)
{
	size_t n = tauti_count(edit, TAUTI_DUR);
	int64_t *column;

	for (uint32_t op = 0; op < n; op++)
		if (dur_ns[op] < 0 && tauti_has_op(edit, op))
			return negative(op, reterr);
	column = malloc((n + 1) * sizeof *column);
	if (!column)
		return tauti_edit_no_memory(reterr);
	if (n)
		memcpy(column, dur_ns, n * sizeof *column);
	tauti_edit_begin(edit);
	if (tauti_edit_swap(edit, TAUTI_DUR, column))
		return tauti_edit_end(edit, TAUT_OK);
	free(column);
	return tauti_edit_end(edit, tauti_edit_no_memory(reterr));
}

taut_status taut_edit_set_gap(struct taut_edit *edit, uint32_t op,
	int64_t gap_ns, struct taut_error *reterr)
{
	taut_status status = tauti_edit_check_op(edit, op, reterr);

	if (status)
		return status;
	tauti_edit_begin(edit);
	return tauti_edit_end(edit, tauti_put_gap(edit, op, gap_ns) ?
		TAUT_OK : tauti_edit_no_memory(reterr));
}

static taut_status scale(struct taut_edit *edit, uint32_t op, double factor,
	struct taut_error *err)
{
	taut_status status = tauti_edit_check_op(edit, op, err);
	double scaled;

	if (status)
		return status;
	scaled = round((double)tauti_dur(edit, op) * factor);
	if (scaled >= 0x1p62)
		return taut_error_set(err, TAUT_EINVAL, -1, "edit: operation "
			"%u times %g is no time", (unsigned)op, factor);
	return put_time(edit, TAUTI_DUR, op, (int64_t)scaled) ? TAUT_OK :
		tauti_edit_no_memory(err);
}

taut_status taut_edit_scale(struct taut_edit *edit, const uint32_t *ops,
	size_t n_ops, double factor, struct taut_error *reterr)
{
	taut_status status = TAUT_OK;

	if (!(factor >= 0) || !isfinite(factor))
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"edit: a factor of 0 or more was expected, found %g",
			factor);
	tauti_edit_begin(edit);
	for (size_t i = 0; i < n_ops && !status; i++)
		status = scale(edit, ops[i], factor, reterr);
	return tauti_edit_end(edit, status);
}

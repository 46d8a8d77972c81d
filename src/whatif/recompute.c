/* recompute.c - activation checkpointing: the forward pass of some modules is
 * done again right before their backward pass, so that what is between need not
 * be kept.
 *
 * A module's operators bear autograd sequence numbers; its backward pass is what
 * bears the same. */
#include <fnmatch.h>
#include <stdlib.h>

#include "whatif/compute.h"

enum { MODULES };

static const struct taut_parameter parameters[] = {
	{ "", "PATTERN", NULL, "shell pattern of the modules to checkpoint: "
		"'nn.Module: block*'" },
};

struct piece { /* one call of a module */
	uint32_t trace, row;
	uint32_t first, last; /* sequence numbers in it */
	uint32_t back;        /* first host operation of its backward pass */
};

struct checkpointer {
	struct tauti_whatif *w;
	struct taut_error *err;
	const char *pattern;
	TAUT_VEC(struct piece) pieces; /* by trace, then by row */
	uint32_t *piece_of; /* by op of the graph: whose forward part it is */
	uint32_t *back_of;  /* by op: whose backward part it is */
	uint32_t *first_back; /* by piece: on the lane at hand */
	uint32_t *place;      /* by piece: on the lane at hand */
	struct tauti_repeat repeat;
	int64_t again_ns;
};

static int64_t row_end(const struct taut_trace *t, uint32_t row)
{
	return t->start_ns[row] + t->dur_ns[row];
}

static taut_status no_memory(struct taut_error *err)
{
	return tauti_no_memory(err, "checkpoints");
}

static uint32_t *filled(struct taut_arena *arena, size_t n)
{
	uint32_t *ids = TAUT_ARENA_ARRAY(arena, uint32_t, n + 1);

	if (ids)
		memset(ids, 0xff, (n + 1) * sizeof *ids);
	return ids;
}

/* --- modules ---------------------------------------------------------------------- */

/* The rows within row's time on its lane end before this one. */
static uint32_t end_within(const struct taut_trace *t, uint32_t row)
{
	uint32_t i = row + 1;

	while (i < t->lane_begin[t->lane[row] + 1] &&
		t->start_ns[i] < row_end(t, row))
		i++;
	return i;
}

static void number(const struct taut_trace *t, struct piece *p, uint32_t end)
{
	for (uint32_t i = p->row; i < end; i++) {
		uint32_t at = t->sequence[i];

		if (!at || (t->flags[i] & TAUT_EVENT_BACKWARD) ||
			t->kind[i] != TAUT_KIND_OP)
			continue;
		if (at < p->first)
			p->first = at;
		if (at > p->last)
			p->last = at;
	}
}

/* Outermost calls alone: what is within one belongs to it. */
static bool find_pieces(struct checkpointer *c, uint32_t trace,
	uint32_t *piece_of_row)
{
	const struct taut_trace *t = &c->w->graph->run->traces[trace];

	for (uint32_t i = 0, end; i < t->n_events; i = end) {
		struct piece p = { trace, i, UINT32_MAX, 0, TAUT_NONE };

		end = i + 1;
		if (t->lanes[t->lane[i]].kind != TAUT_LANE_THREAD ||
			fnmatch(c->pattern, taut_trace_name(t, i), FNM_CASEFOLD))
			continue;
		number(t, &p, end_within(t, i));
		if (!p.last)
			continue;
		end = end_within(t, i);
		for (uint32_t k = i; k < end; k++)
			piece_of_row[k] = (uint32_t)c->pieces.count;
		if (!taut_vec_push(&c->pieces, p))
			return false;
	}
	return true;
}

/* Numbers grow with time, so pieces are in their order. */
static uint32_t piece_with(const struct checkpointer *c, size_t from,
	uint32_t sequence)
{
	size_t lo = from, hi = c->pieces.count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (c->pieces.data[mid].last < sequence)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < c->pieces.count && c->pieces.data[lo].first <= sequence ?
		(uint32_t)lo : TAUT_NONE;
}

static void find_backs(struct checkpointer *c, uint32_t trace, size_t from,
	uint32_t *back_of_row)
{
	const struct taut_trace *t = &c->w->graph->run->traces[trace];

	for (uint32_t i = 0, end; i < t->n_events; i = end) {
		uint32_t piece;

		end = i + 1;
		if (!t->sequence[i] || strncmp(taut_trace_name(t, i),
			"autograd::engine::evaluate_function: ", 37))
			continue;
		end = end_within(t, i);
		piece = piece_with(c, from, t->sequence[i]);
		for (uint32_t k = i; k < end; k++)
			back_of_row[k] = piece;
	}
}

/* --- operations of each ------------------------------------------------------------- */

static bool read_trace(struct checkpointer *c, uint32_t trace)
{
	const struct taut_graph *g = c->w->graph;
	size_t from = c->pieces.count, n = g->run->traces[trace].n_events;
	uint32_t *piece_of_row = malloc((n + 1) * sizeof *piece_of_row);
	uint32_t *back_of_row = malloc((n + 1) * sizeof *back_of_row);
	bool ok = piece_of_row && back_of_row;

	if (ok) {
		memset(piece_of_row, 0xff, n * sizeof *piece_of_row);
		memset(back_of_row, 0xff, n * sizeof *back_of_row);
		ok = find_pieces(c, trace, piece_of_row);
	}
	if (ok)
		find_backs(c, trace, from, back_of_row);
	for (uint32_t op = 0; ok && op < g->n_ops; op++) {
		uint32_t row;

		if (g->lanes[g->lane[op]].trace != trace ||
			tauti_is_device_op(g->kind[op]) ||
			!tauti_op_trace(c->w, op, &row))
			continue;
		c->piece_of[op] = piece_of_row[row];
		c->back_of[op] = back_of_row[row];
		if (back_of_row[row] != TAUT_NONE &&
			c->pieces.data[back_of_row[row]].back == TAUT_NONE)
			c->pieces.data[back_of_row[row]].back = op;
	}
	free(piece_of_row);
	free(back_of_row);
	return ok;
}

/* Device work is of the piece that launched it. */
static taut_status read_all(struct checkpointer *c)
{
	const struct taut_graph *g = c->w->graph;
	uint32_t *launcher;
	taut_status status = tauti_launchers(c->w, &launcher, c->err);

	c->piece_of = filled(c->w->arena, g->n_ops);
	c->back_of = filled(c->w->arena, g->n_ops);
	if (status || !c->piece_of || !c->back_of)
		return status ? status : no_memory(c->err);
	for (uint32_t r = 0; r < g->run->n_traces; r++)
		if (!read_trace(c, r))
			return no_memory(c->err);
	for (uint32_t op = 0; op < g->n_ops; op++) {
		if (!tauti_is_device_op(g->kind[op]) ||
			launcher[op] == TAUT_NONE)
			continue;
		c->piece_of[op] = c->piece_of[launcher[op]];
		c->back_of[op] = c->back_of[launcher[op]];
	}
	c->first_back = filled(c->w->arena, c->pieces.count);
	c->place = filled(c->w->arena, c->pieces.count);
	if (!c->w->again)
		c->w->again = TAUT_ARENA_ARRAY(c->w->arena,
			struct tauti_again, (size_t)g->n_ops + 1);
	return c->first_back && c->place && c->w->again ? TAUT_OK :
		no_memory(c->err);
}

/* --- copies --------------------------------------------------------------------------- */

/* Where the copy of a piece stands: of a host's work before its backward pass,
 * on whatever thread that is; of a device's on its stream. */
static taut_status place_piece(struct checkpointer *c, uint32_t piece,
	uint32_t lane)
{
	bool stream = taut_edit_lane(c->w->edit, lane).kind == TAUT_LANE_STREAM;
	uint32_t back = stream ? c->first_back[piece] :
		c->pieces.data[piece].back;
	struct tauti_place at = { lane, TAUT_NONE, piece };
	struct taut_op op;

	if (back == TAUT_NONE || !taut_edit_op(c->w->edit, back, &op))
		return TAUT_OK;
	at.lane = op.lane;
	at.after = taut_edit_before(c->w->edit, back);
	return tauti_repeat_place(&c->repeat, at, &c->place[piece], c->err);
}

static bool is_forward(const struct checkpointer *c, uint32_t i,
	const struct taut_op *op)
{
	return op->like == i && tauti_is_work(op->kind) &&
		c->piece_of[i] != TAUT_NONE &&
		tauti_op_phase(c->w, op) == TAUTI_PHASE_FORWARD;
}

static void find_first_backs(struct checkpointer *c, uint32_t lane)
{
	memset(c->first_back, 0xff, c->pieces.count * sizeof *c->first_back);
	memset(c->place, 0xff, c->pieces.count * sizeof *c->place);
	for (uint32_t i = taut_edit_first(c->w->edit, lane); i != TAUT_NONE;
		i = taut_edit_next(c->w->edit, i))
		if (i < c->w->graph->n_ops && c->back_of[i] != TAUT_NONE &&
			c->first_back[c->back_of[i]] == TAUT_NONE)
			c->first_back[c->back_of[i]] = i;
}

static taut_status collect_lane(struct checkpointer *c, uint32_t lane)
{
	taut_status status = TAUT_OK;

	find_first_backs(c, lane);
	for (uint32_t i = taut_edit_first(c->w->edit, lane);
		!status && i != TAUT_NONE; i = taut_edit_next(c->w->edit, i)) {
		struct taut_op op;
		uint32_t piece;

		if (!taut_edit_op(c->w->edit, i, &op) || !is_forward(c, i, &op))
			continue;
		piece = c->piece_of[i];
		if (c->place[piece] == TAUT_NONE)
			status = place_piece(c, piece, lane);
		if (status || c->place[piece] == TAUT_NONE)
			continue;
		c->again_ns += op.dur_ns;
		c->w->again[i].times++;
		c->w->again[i].elsewhere |=
			c->repeat.places.data[c->place[piece]].lane != lane;
		status = tauti_repeat_add(
			&c->repeat, i, c->place[piece], false, c->err);
	}
	return status;
}

/* --- memory ----------------------------------------------------------------------------- */

/* By piece: the host's last operation of its forward part. */
static void find_ends(const struct checkpointer *c, uint32_t *end_op)
{
	const struct taut_graph *g = c->w->graph;

	for (uint32_t op = 0; op < g->n_ops; op++)
		if (c->piece_of[op] != TAUT_NONE && tauti_is_work(g->kind[op]) &&
			!tauti_is_device_op(g->kind[op]))
			end_op[c->piece_of[op]] = op;
}

/* The piece that made it in its forward part for its own backward part. */
static uint32_t kept_for(const struct checkpointer *c,
	const uint32_t *end_op, uint32_t block)
{
	const struct taut_block *b = &c->w->memory->blocks[block];
	uint32_t piece;

	if (b->from_op == TAUT_NONE || b->to_op == TAUT_NONE)
		return TAUT_NONE;
	piece = c->piece_of[b->from_op];
	return piece != TAUT_NONE && c->back_of[b->to_op] == piece &&
		end_op[piece] != TAUT_NONE &&
		c->pieces.data[piece].back != TAUT_NONE ? piece : TAUT_NONE;
}

/* It goes with the forward part and comes again; but what was made last stays,
 * for the next piece begins with it. */
static taut_status free_memory(struct checkpointer *c)
{
	uint32_t *end_op = filled(c->w->arena, c->pieces.count);
	uint32_t *last = filled(c->w->arena, c->pieces.count);
	uint32_t n = c->w->memory ? c->w->memory->n_blocks : 0;
	taut_status status = TAUT_OK;

	if (!end_op || !last)
		return no_memory(c->err);
	find_ends(c, end_op);
	for (uint32_t i = 0; i < n; i++)
		if (kept_for(c, end_op, i) != TAUT_NONE)
			last[kept_for(c, end_op, i)] = i;
	for (uint32_t i = 0; !status && i < n; i++) {
		uint32_t piece = kept_for(c, end_op, i);

		if (piece != TAUT_NONE && last[piece] != i)
			status = tauti_add_gap(c->w, i, end_op[piece],
				c->pieces.data[piece].back, 1, c->err);
	}
	return status;
}

static taut_status copy_all(struct checkpointer *c,
	const struct tauti_change *change)
{
	taut_status status = tauti_repeat_begin(c->w, &c->repeat, c->err);

	for (uint32_t l = 0; !status && l < taut_edit_lanes(c->w->edit); l++)
		if (taut_edit_lane(c->w->edit, l).trace != TAUT_NONE)
			status = collect_lane(c, l);
	if (!status && !c->repeat.ops.count)
		status = taut_error_set(c->err, TAUT_EINVAL, -1, "%s: no module "
			"of this name with a forward and a backward pass was "
			"recorded; 'taut record' marks modules", change->text);
	if (!status)
		status = tauti_repeat_copy(&c->repeat, c->err);
	if (!status)
		status = free_memory(c);
	if (!status)
		status = tauti_note(c->w, c->err, "%s: %zu calls of modules are "
			"done again", change->text, c->pieces.count);
	tauti_repeat_end(&c->repeat);
	return status;
}

static taut_status apply(struct tauti_whatif *w,
	const struct tauti_change *change, struct taut_error *err)
{
	struct checkpointer c = { .w = w, .err = err,
		.pattern = change->values[MODULES] };
	taut_status status = read_all(&c);

	if (!status)
		status = copy_all(&c, change);
	taut_vec_free(&c.pieces);
	return status;
}

const struct tauti_transformation tauti_whatif_recompute = {
	.info = {
		.name = "recompute", .group = "memory",
		.summary = "activations of modules computed again in backward",
		.assumption = "the forward pass of each module is done once "
			"more right before its backward pass, as fast as it "
			"was",
		.source = "dPRO (MLSys'22): recomputation",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};

/* recompute.c - activation checkpointing: the forward pass of some modules is
 * done again right before their backward pass, so that what is between need not
 * be kept. */
#include <stdlib.h>

#include "whatif/calls.h"

enum { MODULES };

static const struct taut_parameter parameters[] = {
	{ "", "PATTERN", NULL, "shell pattern of the modules to checkpoint: "
		"'nn.Module: block*'" },
};

struct checkpointer {
	struct tauti_whatif *w;
	struct taut_error *err;
	struct tauti_calls calls;
	uint32_t *first_back; /* by call: on the lane at hand */
	uint32_t *place;      /* by call: on the lane at hand */
	struct tauti_repeat repeat;
	int64_t again_ns;
};

static taut_status no_memory(struct taut_error *err)
{
	return tauti_no_memory(err, "checkpoints");
}

static taut_status take_tables(struct checkpointer *c)
{
	c->first_back = tauti_nones(c->w->arena, c->calls.at.count);
	c->place = tauti_nones(c->w->arena, c->calls.at.count);
	if (!c->w->again)
		c->w->again = TAUT_ARENA_ARRAY(c->w->arena, struct tauti_again,
			(size_t)c->w->graph->n_ops + 1);
	return c->first_back && c->place && c->w->again ? TAUT_OK :
		no_memory(c->err);
}

/* --- copies --------------------------------------------------------------------------- */

/* Where the copy of a call stands: of a host's work before its backward pass,
 * on whatever thread that is; of a device's on its stream. */
static taut_status place_call(struct checkpointer *c, uint32_t call,
	uint32_t lane)
{
	bool stream = taut_edit_lane(c->w->edit, lane).kind == TAUT_LANE_STREAM;
	uint32_t back = stream ? c->first_back[call] :
		c->calls.at.data[call].back;
	struct tauti_place at = { lane, TAUT_NONE, call };
	struct taut_op op;

	if (back == TAUT_NONE || !taut_edit_op(c->w->edit, back, &op))
		return TAUT_OK;
	at.lane = op.lane;
	at.after = taut_edit_before(c->w->edit, back);
	return tauti_repeat_place(&c->repeat, at, &c->place[call], c->err);
}

static bool is_forward(const struct checkpointer *c, uint32_t i,
	const struct taut_op *op)
{
	return op->like == i && tauti_is_work(op->kind) &&
		c->calls.of[i] != TAUT_NONE &&
		tauti_op_phase(c->w, op) == TAUTI_PHASE_FORWARD;
}

static void find_first_backs(struct checkpointer *c, uint32_t lane)
{
	memset(c->first_back, 0xff, c->calls.at.count * sizeof *c->first_back);
	memset(c->place, 0xff, c->calls.at.count * sizeof *c->place);
	for (uint32_t i = taut_edit_first(c->w->edit, lane); i != TAUT_NONE;
		i = taut_edit_next(c->w->edit, i))
		if (i < c->w->graph->n_ops && c->calls.back_of[i] != TAUT_NONE &&
			c->first_back[c->calls.back_of[i]] == TAUT_NONE)
			c->first_back[c->calls.back_of[i]] = i;
}

static taut_status collect_lane(struct checkpointer *c, uint32_t lane)
{
	taut_status status = TAUT_OK;

	find_first_backs(c, lane);
	for (uint32_t i = taut_edit_first(c->w->edit, lane);
		!status && i != TAUT_NONE; i = taut_edit_next(c->w->edit, i)) {
		struct taut_op op;
		uint32_t call;

		if (!taut_edit_op(c->w->edit, i, &op) || !is_forward(c, i, &op))
			continue;
		call = c->calls.of[i];
		if (c->place[call] == TAUT_NONE)
			status = place_call(c, call, lane);
		if (status || c->place[call] == TAUT_NONE)
			continue;
		c->again_ns += op.dur_ns;
		c->w->again[i].times++;
		c->w->again[i].elsewhere |=
			c->repeat.places.data[c->place[call]].lane != lane;
		status = tauti_repeat_add(
			&c->repeat, i, c->place[call], false, c->err);
	}
	return status;
}

/* --- memory ----------------------------------------------------------------------------- */

/* By call: the host's last operation of its forward part. */
static void find_ends(const struct checkpointer *c, uint32_t *end_op)
{
	const struct taut_graph *g = c->w->graph;

	for (uint32_t op = 0; op < g->n_ops; op++)
		if (c->calls.of[op] != TAUT_NONE && tauti_is_work(g->kind[op]) &&
			!tauti_is_device_op(g->kind[op]))
			end_op[c->calls.of[op]] = op;
}

/* The call that made it in its forward part for its own backward part. */
static uint32_t kept_for(const struct checkpointer *c,
	const uint32_t *end_op, uint32_t block)
{
	const struct taut_block *b = &c->w->memory->blocks[block];
	uint32_t call;

	if (b->from_op == TAUT_NONE || b->to_op == TAUT_NONE)
		return TAUT_NONE;
	call = c->calls.of[b->from_op];
	return call != TAUT_NONE && c->calls.back_of[b->to_op] == call &&
		end_op[call] != TAUT_NONE &&
		c->calls.at.data[call].back != TAUT_NONE ? call : TAUT_NONE;
}

/* It goes with the forward part and comes again; but what was made last stays,
 * for the next call begins with it. */
static taut_status free_memory(struct checkpointer *c)
{
	uint32_t *end_op = tauti_nones(c->w->arena, c->calls.at.count);
	uint32_t *last = tauti_nones(c->w->arena, c->calls.at.count);
	uint32_t n = c->w->memory ? c->w->memory->n_blocks : 0;
	taut_status status = TAUT_OK;

	if (!end_op || !last)
		return no_memory(c->err);
	find_ends(c, end_op);
	for (uint32_t i = 0; i < n; i++)
		if (kept_for(c, end_op, i) != TAUT_NONE)
			last[kept_for(c, end_op, i)] = i;
	for (uint32_t i = 0; !status && i < n; i++) {
		uint32_t call = kept_for(c, end_op, i);

		if (call != TAUT_NONE && last[call] != i)
			status = tauti_add_gap(c->w, i, end_op[call],
				c->calls.at.data[call].back, 1, c->err);
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
			"done again", change->text, c->calls.at.count);
	tauti_repeat_end(&c->repeat);
	return status;
}

static taut_status apply(struct tauti_whatif *w,
	const struct tauti_change *change, struct taut_error *err)
{
	struct checkpointer c = { .w = w, .err = err };
	taut_status status = tauti_calls_find(
		w, change->values[MODULES], &c.calls, err);

	if (!status)
		status = take_tables(&c);
	if (!status)
		status = copy_all(&c, change);
	tauti_calls_end(&c.calls);
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

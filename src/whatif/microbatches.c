/* microbatches.c - the batch of a step in several parts, one after the other.
 *
 * Recorded is a step D F L B U (get a batch, the wrapped model's forward pass, the
 * loss, the model's backward pass with communication, update). With K parts it is
 *     D F [F'] .. [F'] L [B' F'] .. [B' F'] B U
 * with each bracket K - 1 times and each F and B of a K-th of the batch: parts but
 * the last one keep nothing of their forward pass and do it again, the last part's
 * backward pass is the first, and gradients are summed over the ranks in the last,
 * as those of accumulate. The loss is one, of the whole batch. What F and B take
 * for a part is batch's to say.
 *
 * Memory: what F makes for B is there in F, from the end of the last F to the
 * first B of that part alone, and in each B. */
#include <stdlib.h>

#include "whatif/calls.h"
#include "whatif/ddp.h"

enum { PARTS };
enum { MOST_PARTS = 256 };

static const struct taut_parameter parameters[] = {
	{ "", "K", NULL, "parts of the recorded batch, one after the other" },
};

enum { FORWARD = 1, BACKWARD = 2 }; /* in splitter.only */

struct span { /* of one step on one lane */
	uint32_t first, last; /* of F; TAUT_NONE */
	uint32_t from, to;    /* of B; TAUT_NONE */
	uint32_t place;       /* of rounds, before B; TAUT_NONE */
};

struct splitter {
	struct tauti_whatif *w;
	const struct tauti_change *change;
	struct taut_error *err;
	struct tauti_calls calls;
	uint8_t *skip, *only;  /* by op of the graph */
	struct span *spans;    /* by lane, then step */
	uint32_t n_lanes, n_steps;
	uint32_t *end, *back;  /* by step: the host's last of F, first of B */
	struct tauti_repeat ahead, rounds; /* [F'], [B' F'] */
};

static struct span *span_of(const struct splitter *s, uint32_t lane,
	uint32_t step)
{
	return &s->spans[(size_t)lane * s->n_steps + step];
}

/* --- where passes are --------------------------------------------------------------- */

static bool is_recorded(uint32_t i, const struct taut_op *op)
{
	return op->like == i;
}

static bool is_called(const struct splitter *s, const struct taut_op *op)
{
	return op->like != TAUT_NONE && s->calls.of[op->like] != TAUT_NONE;
}

static void extend(const struct splitter *s, struct span *span, uint32_t i,
	const struct taut_op *op)
{
	bool back = op->like != TAUT_NONE &&
		s->calls.back_of[op->like] != TAUT_NONE;

	if (tauti_op_phase(s->w, op) == TAUTI_PHASE_BACKWARD) {
		if (span->from == TAUT_NONE && back)
			span->from = i;
		if (span->from != TAUT_NONE)
			span->to = i;
	} else if (span->from == TAUT_NONE && is_recorded(i, op) &&
		is_called(s, op)) {
		if (span->first == TAUT_NONE)
			span->first = i;
		span->last = i;
	}
}

static bool is_of_passes(const struct splitter *s, uint32_t lane)
{
	struct taut_graph_lane is = taut_edit_lane(s->w->edit, lane);

	return is.trace != TAUT_NONE && !is.is_comm &&
		!tauti_is_load_lane(s->w, lane);
}

static bool is_copied(const struct splitter *s, const struct taut_op *op)
{
	return tauti_is_work(op->kind) && !tauti_picked(s->skip, op) &&
		tauti_op_phase(s->w, op) != TAUTI_PHASE_OPTIMIZER;
}

static void find_spans(struct splitter *s, uint32_t lane)
{
	const struct taut_edit *edit = s->w->edit;

	for (uint32_t i = taut_edit_first(edit, lane); i != TAUT_NONE;
		i = taut_edit_next(edit, i)) {
		struct taut_op op;
		uint32_t step;

		if (!taut_edit_op(edit, i, &op))
			continue;
		step = tauti_op_step(s->w, &op);
		if (step != TAUT_NONE && is_copied(s, &op))
			extend(s, span_of(s, lane, step), i, &op);
	}
}

static void mark(struct splitter *s, uint32_t from, uint32_t to, uint8_t as)
{
	for (uint32_t i = from; i != TAUT_NONE;
		i = taut_edit_next(s->w->edit, i)) {
		struct taut_op op;

		if (taut_edit_op(s->w->edit, i, &op) && is_recorded(i, &op))
			s->only[i] = as;
		if (i == to)
			break;
	}
}

/* end and back are of the recording, as its blocks of memory are; copies of ranks have
 * later lanes. */
static void mark_lane(struct splitter *s, uint32_t lane)
{
	bool host = lane < s->w->graph->n_lanes && taut_edit_lane(
		s->w->edit, lane).kind == TAUT_LANE_THREAD;

	find_spans(s, lane);
	for (uint32_t step = 0; step < s->n_steps; step++) {
		const struct span *span = span_of(s, lane, step);

		if (span->first != TAUT_NONE)
			mark(s, span->first, span->last, FORWARD);
		if (span->from != TAUT_NONE)
			mark(s, span->from, span->to, BACKWARD);
		if (host && span->first != TAUT_NONE)
			s->end[step] = span->last;
		if (host && span->from != TAUT_NONE)
			s->back[step] = span->from;
	}
}

/* --- copies -------------------------------------------------------------------------- */

static taut_status add(struct splitter *s, struct tauti_repeat *to,
	uint32_t i, uint32_t place, bool later)
{
	struct taut_op op;

	if (!taut_edit_op(s->w->edit, i, &op) || !is_copied(s, &op))
		return TAUT_OK;
	return tauti_repeat_add(to, i, place, later, s->err);
}

static taut_status add_backward(struct splitter *s, uint32_t lane,
	uint32_t step)
{
	struct span *span = span_of(s, lane, step);
	struct tauti_place at = { lane, TAUT_NONE, step };
	taut_status status;

	if (span->from == TAUT_NONE)
		return TAUT_OK;
	at.after = taut_edit_before(s->w->edit, span->from);
	status = tauti_repeat_place(&s->rounds, at, &span->place, s->err);
	for (uint32_t i = span->from; !status && i != TAUT_NONE;
		i = taut_edit_next(s->w->edit, i)) {
		status = add(s, &s->rounds, i, span->place, false);
		if (i == span->to)
			break;
	}
	return status;
}

/* A stream's own; a host's where its backward pass is, on whatever thread. */
static taut_status place_forward(struct splitter *s, uint32_t lane,
	uint32_t step, uint32_t *ret_place)
{
	const struct span *span = span_of(s, lane, step);
	struct tauti_place at = { lane, span->last, step };
	struct taut_op op;

	*ret_place = span->place;
	if (*ret_place == TAUT_NONE && s->back[step] != TAUT_NONE &&
		taut_edit_lane(s->w->edit, lane).kind == TAUT_LANE_THREAD &&
		taut_edit_op(s->w->edit, s->back[step], &op))
		*ret_place = span_of(s, op.lane, step)->place;
	if (*ret_place != TAUT_NONE)
		return TAUT_OK;
	return tauti_repeat_place(&s->rounds, at, ret_place, s->err);
}

/* With what another change does again of it before the backward pass. */
static taut_status add_forward(struct splitter *s, uint32_t lane, uint32_t step)
{
	const struct span *span = span_of(s, lane, step);
	struct tauti_place at = { lane, span->last, step };
	uint32_t ahead, again;
	bool within = true;
	taut_status status;

	if (span->first == TAUT_NONE)
		return TAUT_OK;
	status = tauti_repeat_place(&s->ahead, at, &ahead, s->err);
	if (!status)
		status = place_forward(s, lane, step, &again);
	for (uint32_t i = span->first; !status && i != TAUT_NONE &&
		i != span->from && (within || span->from != TAUT_NONE);
		i = taut_edit_next(s->w->edit, i)) {
		struct taut_op op;

		if (within)
			status = add(s, &s->ahead, i, ahead, false);
		if (!status && (within || (taut_edit_op(s->w->edit, i, &op) &&
			is_called(s, &op))))
			status = add(s, &s->rounds, i, again, true);
		within = within && i != span->last;
	}
	return status;
}

typedef taut_status (*add_fn)(struct splitter *, uint32_t, uint32_t);

static taut_status add_all(struct splitter *s, add_fn function)
{
	taut_status status = TAUT_OK;

	for (uint32_t l = 0; !status && l < s->n_lanes; l++)
		for (uint32_t k = 0; !status && k < s->n_steps; k++)
			status = function(s, l, k);
	return status;
}

/* --- memory ---------------------------------------------------------------------------- */

/* The host's work between the passes of a step: the loss; TAUT_NONE. */
static void find_between(const struct splitter *s, uint32_t step,
	uint32_t *ret_first, uint32_t *ret_last)
{
	const struct taut_graph *g = s->w->graph;
	uint32_t first = s->end[step] + 1, last = s->back[step];

	*ret_first = *ret_last = TAUT_NONE;
	if (!last || first >= g->n_ops || s->only[first] ||
		g->lane[first] != g->lane[s->end[step]])
		return;
	last--;
	if (s->only[last] || g->lane[last] != g->lane[s->back[step]] ||
		g->start_ns[last] < g->start_ns[first])
		return;
	*ret_first = first;
	*ret_last = last;
}

static taut_status cut(const struct splitter *s, uint32_t block, uint32_t step)
{
	uint32_t first, last;
	taut_status status;

	find_between(s, step, &first, &last);
	if (first == TAUT_NONE)
		return tauti_add_gap(s->w, block, s->end[step], s->back[step],
			1, s->err);
	status = tauti_add_gap(
		s->w, block, s->end[step], first, 1, s->err);
	return status ? status : tauti_add_gap(
		s->w, block, last, s->back[step], 1, s->err);
}

static int pass_of(const struct splitter *s, uint32_t op)
{
	return op == TAUT_NONE ? 0 : s->only[op];
}

/* What a pass leaves behind is one of the whole batch: what the model returns,
 * gradients of what it is given. */
static taut_status split_memory(struct splitter *s)
{
	struct tauti_whatif *w = s->w;
	uint32_t n = w->memory ? w->memory->n_blocks : 0;
	taut_status status = tauti_sum_gradients(w, s->err);

	for (uint32_t i = 0; !status && i < n; i++) {
		const struct taut_block *b = &w->memory->blocks[i];
		int from = pass_of(s, b->from_op), to = pass_of(s, b->to_op);
		uint32_t step = from ? w->job->step_of[b->from_op] : TAUT_NONE;

		if (from == FORWARD && to == BACKWARD && step != TAUT_NONE &&
			s->end[step] != TAUT_NONE && s->back[step] != TAUT_NONE)
			status = cut(s, i, step);
		else if (from && !to && w->sums[i] == TAUT_NONE)
			w->sums[i] = b->from_op;
	}
	return status;
}

/* --- whether it applies ------------------------------------------------------------------ */

static bool is_norm(const void *context, const char *name)
{
	(void)context;
	return strstr(name, "batch_norm") != NULL;
}

/* A frozen one takes each sample by itself. */
static taut_status refuse_norms(struct splitter *s)
{
	uint8_t *norms;
	taut_status status = tauti_pick_but(
		s->w, is_norm, NULL, TAUT_EVENT_FROZEN, &norms, s->err);

	for (uint32_t op = 0; !status && op < s->w->graph->n_ops; op++)
		if (norms[op] && s->only[op] == FORWARD)
			status = taut_error_set(s->err, TAUT_EINVAL, -1, "%s: "
				"batch normalization of the model looks at all "
				"samples of a batch, or the recording does not "
				"tell that it is frozen", s->change->text);
	return status;
}

static taut_status refuse_none(const struct splitter *s)
{
	for (uint32_t k = 0; k < s->n_steps; k++)
		if (s->end[k] != TAUT_NONE && s->back[k] != TAUT_NONE)
			return TAUT_OK;
	return taut_error_set(s->err, TAUT_EINVAL, -1, "%s: no forward and "
		"backward pass of a DistributedDataParallel was found in the "
		"recording", s->change->text);
}

static taut_status check_size(const struct splitter *s, uint32_t parts)
{
	double n = taut_edit_ops(s->w->edit);
	double more = (double)s->ahead.ops.count + (double)s->rounds.ops.count;

	return tauti_check_ops(s->change->text, n + more * (parts - 1),
		1 + floor((TAUTI_MOST_OPS - n) / more), "micro-batches",
		s->err);
}

/* --- the whole ----------------------------------------------------------------------------- */

static taut_status copy_all(struct splitter *s, uint32_t parts)
{
	taut_status status = add_all(s, add_backward);

	if (!status)
		status = add_all(s, add_forward);
	if (!status)
		status = check_size(s, parts);
	for (uint32_t k = 1; !status && k < parts; k++)
		status = tauti_repeat_copy(&s->rounds, s->err);
	if (!status)
		status = tauti_repeat_close(&s->rounds, s->err);
	for (uint32_t k = 1; !status && k < parts; k++)
		status = tauti_repeat_copy(&s->ahead, s->err);
	return status;
}

static taut_status take_tables(struct splitter *s)
{
	struct taut_arena *arena = s->w->arena;
	size_t n;

	s->n_lanes = taut_edit_lanes(s->w->edit);
	s->n_steps = s->w->graph->n_steps;
	n = (size_t)s->n_lanes * s->n_steps;
	s->only = taut_arena_calloc(arena, (size_t)s->w->graph->n_ops + 1, 1);
	s->spans = taut_arena_calloc(arena, n + 1, sizeof *s->spans);
	s->end = tauti_nones(arena, s->n_steps);
	s->back = tauti_nones(arena, s->n_steps);
	if (!s->only || !s->spans || !s->end || !s->back)
		return tauti_no_memory(s->err, "micro-batches");
	memset(s->spans, 0xff, n * sizeof *s->spans);
	for (uint32_t l = 0; l < s->n_lanes; l++)
		if (is_of_passes(s, l))
			mark_lane(s, l);
	return TAUT_OK;
}

static taut_status split(struct splitter *s, uint32_t parts)
{
	taut_status status = take_tables(s);

	if (!status)
		status = refuse_none(s);
	if (!status)
		status = refuse_norms(s);
	if (!status)
		status = tauti_repeat_begin(s->w, &s->ahead, s->err);
	if (!status)
		status = tauti_repeat_begin(s->w, &s->rounds, s->err);
	if (!status && parts > 1)
		status = tauti_scale_passes(
			s->w, s->change, 1.0 / parts, s->only, s->err);
	if (!status && parts > 1)
		status = copy_all(s, parts);
	if (!status && parts > 1 && s->w->memory)
		status = split_memory(s);
	tauti_repeat_end(&s->ahead);
	tauti_repeat_end(&s->rounds);
	return status;
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	struct splitter s = { .w = w, .change = c, .err = err };
	uint32_t parts;
	taut_status status = tauti_param_count(
		c, PARTS, 1, MOST_PARTS, &parts, err);

	if (!status)
		status = tauti_refuse_parts(w, c, err);
	if (!status)
		status = tauti_pick(w, tauti_is_for_sync, NULL, &s.skip, err);
	if (!status)
		status = tauti_calls_find(
			w, "DistributedDataParallel.forward", &s.calls, err);
	if (!status)
		status = split(&s, parts);
	tauti_calls_end(&s.calls);
	w->parts = parts;
	return status;
}

const struct tauti_transformation tauti_whatif_microbatches = {
	.info = {
		.name = "microbatches", .group = "memory",
		.summary = "the batch in parts, whose gradients are added up",
		.assumption = "each part's passes take what batch says of so "
			"small a batch; all but the last part do their forward "
			"pass again before their backward pass; the loss is one",
		.source = "gradient accumulation with recomputation: GPipe "
			"(NeurIPS'19), on one device",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};

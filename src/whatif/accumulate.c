/* accumulate.c - several micro-batches for each update of the weights.
 *
 * As with PyTorch DDP's no_sync(): of K micro-batches the last one sums
 * gradients over the ranks. Recorded is a step D F B U (get a batch, forward,
 * backward with communication, update); it becomes
 *     D F [B' D' F'] ... [B' D' F'] B U
 * with K - 1 copies of what stands in brackets, without communication. So the
 * buffers, which DDP broadcasts in the first forward pass of a step, stay in
 * the first one. */
#include <stdlib.h>

#include "whatif/compute.h"
#include "whatif/ddp.h"

enum { TIMES };

static const struct taut_parameter parameters[] = {
	{ "", "K", NULL, "micro-batches a step, each as large as the recorded "
		"batch" },
};

struct span { /* of one step on one lane */
	uint32_t first, last; /* of D and F; TAUT_NONE */
	uint32_t from, to;    /* of B; TAUT_NONE */
};

struct accumulator {
	struct tauti_whatif *w;
	struct taut_error *err;
	uint8_t *skip;      /* by op of the graph */
	struct span *spans; /* by step: of the lane at hand */
	struct tauti_repeat repeat;
	uint32_t n_backward;
	int64_t backward_ns, mixed_ns; /* of the latter, forward passes */
};

bool tauti_is_for_sync(const void *context, const char *name)
{
	(void)context;
	return strstr(name, "copy_bucket_to_grad") ||
		!strncmp(name, "c10d::", 6) || !strncmp(name, "gloo:", 5) ||
		!strncmp(name, "nccl:", 5) || strstr(name, "zero_grad") ||
		strstr(name, "flatten_dense_tensors");
}

static void extend(struct span *s, uint32_t op, enum tauti_phase phase)
{
	if (phase == TAUTI_PHASE_BACKWARD) {
		if (s->from == TAUT_NONE)
			s->from = op;
		s->to = op;
	} else if ((phase == TAUTI_PHASE_DATA ||
		phase == TAUTI_PHASE_FORWARD) && s->from == TAUT_NONE) {
		if (s->first == TAUT_NONE)
			s->first = op;
		s->last = op;
	}
}

static void find_spans(struct accumulator *a, uint32_t lane)
{
	const struct tauti_whatif *w = a->w;

	memset(a->spans, 0xff, w->graph->n_steps * sizeof *a->spans);
	for (uint32_t i = taut_edit_first(w->edit, lane); i != TAUT_NONE;
		i = taut_edit_next(w->edit, i)) {
		struct taut_op op;
		uint32_t step;

		if (!taut_edit_op(w->edit, i, &op))
			continue;
		step = tauti_op_step(w, &op);
		if (step != TAUT_NONE && tauti_is_work(op.kind))
			extend(&a->spans[step], i, tauti_op_phase(w, &op));
	}
}

/* What changes before this one put in, as a forward pass done again, tells
 * nothing of the recording. */
static void weigh(struct accumulator *a, uint32_t i, const struct taut_op *op)
{
	if (op->like != i)
		return;
	a->backward_ns += op->dur_ns;
	if (tauti_op_phase(a->w, op) == TAUTI_PHASE_FORWARD)
		a->mixed_ns += op->dur_ns;
}

/* From `from` to `to` on their lane, or up to before `to`. */
static taut_status add_range(struct accumulator *a, uint32_t from, uint32_t to,
	bool with_to, uint32_t place, bool later)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = from; !status && i != TAUT_NONE;
		i = taut_edit_next(a->w->edit, i)) {
		struct taut_op op;

		if (i == to && !with_to)
			break;
		if (taut_edit_op(a->w->edit, i, &op) && tauti_is_work(op.kind) &&
			!tauti_picked(a->skip, &op) &&
			tauti_op_phase(a->w, &op) != TAUTI_PHASE_OPTIMIZER) {
			if (!later)
				weigh(a, i, &op);
			status = tauti_repeat_add(
				&a->repeat, i, place, later, a->err);
		}
		if (i == to)
			break;
	}
	return status;
}

static taut_status add_span(struct accumulator *a, uint32_t lane,
	uint32_t step)
{
	const struct span *s = &a->spans[step];
	struct tauti_place at = { lane, s->last, step };
	uint32_t place;
	taut_status status;

	if (s->from == TAUT_NONE && s->first == TAUT_NONE)
		return TAUT_OK;
	if (s->from != TAUT_NONE)
		at.after = taut_edit_before(a->w->edit, s->from);
	status = tauti_repeat_place(&a->repeat, at, &place, a->err);
	if (!status && s->from != TAUT_NONE) {
		a->n_backward++;
		status = add_range(a, s->from, s->to, true, place, false);
	}
	if (!status && s->first != TAUT_NONE)
		status = s->from == TAUT_NONE ?
			add_range(a, s->first, s->last, true, place, true) :
			add_range(a, s->first, s->from, false, place, true);
	return status;
}

/* Every lane of a rank but those of communication and loaders, whose
 * operations belong to no step's forward or backward pass. */
static taut_status collect(struct accumulator *a)
{
	const struct tauti_whatif *w = a->w;
	taut_status status = TAUT_OK;

	for (uint32_t l = 0; !status && l < taut_edit_lanes(w->edit); l++) {
		struct taut_graph_lane lane = taut_edit_lane(w->edit, l);

		if (lane.trace == TAUT_NONE || lane.is_comm ||
			tauti_is_load_lane(w, l))
			continue;
		find_spans(a, l);
		for (uint32_t s = 0; !status && s < w->graph->n_steps; s++)
			status = add_span(a, l, s);
	}
	return status;
}

/* --- what the loader has to do ------------------------------------------------- */

static taut_status load_more(struct accumulator *a, uint32_t rank)
{
	struct tauti_batches b;
	int64_t *dur_ns;
	taut_status status = tauti_batches_find(a->w, rank, &b, a->err);

	if (status)
		return status;
	if (b.blind)
		status = tauti_note(a->w, a->err, "accumulate: the recording "
			"has nothing of its loader's workers; they are taken "
			"to keep up");
	if (!status && b.workers)
		status = tauti_batches_times(a->w, &b, &dur_ns, a->err);
	if (!status && b.workers)
		status = tauti_batches_spread(a->w, &b, b.workers,
			b.under_way, dur_ns, a->err);
	tauti_batches_end(&b);
	return status;
}

/* --- whether it applies ---------------------------------------------------------- */

enum { SMALL_BYTES = 4096 };

/* Collectives of a micro-batch's own would have to be repeated too. */
static bool is_repeated(const struct tauti_whatif *w, uint32_t c)
{
	const struct taut_collective *is = &w->graph->collectives[c];
	uint32_t step = w->job->step_of[
		w->graph->member_arrive[is->first_member]];

	return is->kind != TAUT_COLL_BROADCAST && step != TAUT_NONE &&
		is->kind != TAUT_COLL_BARRIER &&
		(is->bytes < 0 || is->bytes >= SMALL_BYTES);
}

taut_status tauti_refuse_parts(struct tauti_whatif *w,
	const struct tauti_change *c, struct taut_error *err)
{
	uint8_t *is_gradient = tauti_gradient_marks(w);
	taut_status status = is_gradient ? TAUT_OK :
		tauti_no_memory(err, "gradients");

	if (!status && (w->parts > 1 || w->rounds > 1))
		status = taut_error_set(err, TAUT_EINVAL, -1, "%s: a step has "
			"micro-batches by another change already", c->text);

	for (uint32_t i = 0; !status && i < w->graph->n_collectives; i++)
		if (!is_gradient[i] && is_repeated(w, i))
			status = taut_error_set(err, TAUT_EINVAL, -1, "%s: the "
				"job does %s within its passes, which "
				"micro-batches would repeat; only data-parallel "
				"jobs that sum gradients alone are modelled",
				c->text, taut_coll_kind_name(
				w->graph->collectives[i].kind));
	free(is_gradient);
	return status;
}

static taut_status check_size(const struct accumulator *a,
	const struct tauti_change *c, uint32_t times)
{
	double n = taut_edit_ops(a->w->edit);
	double more = (double)a->repeat.ops.count;

	return tauti_check_ops(c->text, n + more * (times - 1),
		1 + floor((TAUTI_MOST_OPS - n) / more), "micro-batches",
		a->err);
}

static taut_status copy_all(struct accumulator *a,
	const struct tauti_change *c, uint32_t times)
{
	taut_status status = collect(a);

	if (!status && !a->n_backward)
		status = taut_error_set(a->err, TAUT_EINVAL, -1, "%s: no "
			"backward pass was found in the recording", c->text);
	if (!status && a->mixed_ns > a->backward_ns / 20)
		status = taut_error_set(a->err, TAUT_EINVAL, -1, "%s: forward "
			"and backward passes take turns within a step; it "
			"seems to have several micro-batches already", c->text);
	if (!status)
		status = check_size(a, c, times);
	for (uint32_t k = 1; !status && k < times; k++)
		status = tauti_repeat_copy(&a->repeat, a->err);
	if (!status)
		status = tauti_repeat_close(&a->repeat, a->err);
	if (!status)
		status = tauti_sum_gradients(a->w, a->err);
	for (uint32_t r = 0; !status && r < taut_edit_ranks(a->w->edit); r++)
		if (taut_edit_has_rank(a->w->edit, r))
			status = load_more(a, r);
	return status;
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	struct accumulator a = { .w = w, .err = err,
		.spans = taut_arena_calloc(
			w->arena, w->graph->n_steps + 1, sizeof *a.spans) };
	uint32_t times;
	taut_status status = tauti_param_count(c, TIMES, 1, 256, &times, err);

	if (!status && !a.spans)
		status = tauti_no_memory(err, "steps");
	if (!status)
		status = tauti_refuse_parts(w, c, err);
	if (!status)
		status = tauti_pick(w, tauti_is_for_sync, NULL, &a.skip, err);
	if (!status)
		status = tauti_repeat_begin(w, &a.repeat, err);
	if (status)
		return status;
	status = copy_all(&a, c, times);
	tauti_repeat_end(&a.repeat);
	w->samples_factor *= times;
	w->rounds = times;
	return status;
}

const struct tauti_transformation tauti_whatif_accumulate = {
	.info = {
		.name = "accumulate", .group = "job",
		.summary = "several micro-batches for each update",
		.assumption = "as with DDP's no_sync(): the last micro-batch "
			"alone sums gradients; adding a gradient to the one "
			"before takes as long as copying it to its bucket",
		.source = "PyTorch DDP: no_sync()",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};

/* memory.c - the memory of a changed job: the recording's blocks on the
 * operations that its own became, or were copied to, at their replayed times. */
#include <stdlib.h>
#include <string.h>

#include "whatif/compute.h"
#include "whatif/ddp.h"
#include "whatif/parts.h"
#include "whatif/predict.h"

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory for a prediction");
}

taut_status tauti_memory_prepare(const struct taut_graph *graph,
	struct taut_memory **ret_memory, struct taut_error *err)
{
	bool any = false;

	for (uint32_t i = 0; graph->run && i < graph->run->n_traces; i++)
		any |= graph->run->traces[i].n_memory > 0;
	return any ? taut_memory_create(graph, ret_memory, err) : TAUT_OK;
}

static bool is_in(const struct tauti_job *job, uint32_t op, uint32_t phases)
{
	if (op == TAUT_NONE)
		return phases & TAUTI_NOT_RECORDED;
	return phases >> job->phase[op] & 1;
}

void tauti_scale_blocks(struct tauti_whatif *w, uint32_t from_phases,
	uint32_t to_phases, double factor)
{
	for (uint32_t i = 0; w->memory && i < w->memory->n_blocks; i++) {
		const struct taut_block *b = &w->memory->blocks[i];

		if (is_in(w->job, b->from_op, from_phases) &&
			is_in(w->job, b->to_op, to_phases))
			w->block_scale[i] *= factor;
	}
}

/* --- samples ---------------------------------------------------------------------- */

/* A block asked for by one node of the backward pass. */
struct made {
	uint32_t trace, node; /* row of the event around it */
	int64_t bytes;
};
typedef TAUT_VEC(struct made) mades;

static int by_node(const void *a, const void *b)
{
	const struct made *x = a, *y = b;

	if (x->trace != y->trace)
		return x->trace < y->trace ? -1 : 1;
	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* false: of no known node. */
static bool node_of(const struct tauti_whatif *w, const struct taut_block *b,
	struct made *ret)
{
	uint32_t row;
	const struct taut_trace *t = tauti_op_trace(w, b->from_op, &row);

	if (!t)
		return false;
	*ret = (struct made){ (uint32_t)(t - w->graph->run->traces),
		tauti_row_around(t, row, "autograd::engine::evaluate_function"),
		b->bytes };
	return true;
}

static bool outlives_backward(
	const struct tauti_job *job, const struct taut_block *b)
{
	return b->to_op == TAUT_NONE ||
		job->step_of[b->to_op] != job->step_of[b->from_op] ||
		job->phase[b->to_op] == TAUTI_PHASE_OPTIMIZER;
}

/* Gradients of weights: made in a backward pass, and wanted behind it. */
static bool find_gradients(const struct tauti_whatif *w, mades *found)
{
	for (uint32_t i = 0; i < w->memory->n_blocks; i++) {
		const struct taut_block *b = &w->memory->blocks[i];
		struct made made;

		if (is_in(w->job, b->from_op, 1 << TAUTI_PHASE_BACKWARD) &&
			outlives_backward(w->job, b) && node_of(w, b, &made) &&
			!taut_vec_push(found, made))
			return false;
	}
	if (found->count)
		qsort(found->data, found->count, sizeof *found->data, by_node);
	return true;
}

static bool is_accumulate(const void *context, const char *name)
{
	(void)context;
	return strstr(name, "AccumulateGrad") != NULL;
}

/* So large, or up to a sixteenth larger: rows of another layout may be longer, by
 * some lines of a cache. */
static bool is_layout_of(const mades *gradients, const struct made *made)
{
	size_t lo = 0, hi = gradients->count;
	const struct made *is;

	while (lo < hi) { /* the first that comes behind */
		size_t mid = lo + (hi - lo) / 2;

		if (by_node(&gradients->data[mid], made) <= 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return false;
	is = &gradients->data[lo - 1];
	return is->trace == made->trace && is->node == made->node &&
		made->bytes - is->bytes <= is->bytes / 16;
}

/* Of what backward makes and frees: a gradient of weights that was put
 * elsewhere, as into a bucket, and so freed by AccumulateGrad; or what its node
 * made beside it in its size, as another layout of it. */
static bool is_of_weights(const struct tauti_whatif *w, const mades *gradients,
	const uint8_t *puts, const struct taut_block *b)
{
	struct made made;

	return (b->to_op != TAUT_NONE && puts[b->to_op]) ||
		(node_of(w, b, &made) && is_layout_of(gradients, &made));
}

static bool grows(const struct tauti_whatif *w, const mades *gradients,
	const uint8_t *puts, const struct taut_block *b)
{
	enum { DATA = 1 << TAUTI_PHASE_DATA,
		FORWARD = 1 << TAUTI_PHASE_FORWARD,
		BACKWARD = 1 << TAUTI_PHASE_BACKWARD,
		NONE = 1 << TAUTI_PHASE_NONE };

	if (is_in(w->job, b->from_op, DATA | FORWARD))
		return is_in(w->job, b->to_op,
			DATA | FORWARD | BACKWARD | NONE);
	return is_in(w->job, b->from_op, BACKWARD) &&
		is_in(w->job, b->to_op, BACKWARD) &&
		!is_of_weights(w, gradients, puts, b);
}

taut_status tauti_scale_samples(
	struct tauti_whatif *w, double factor, struct taut_error *err)
{
	mades gradients = { 0 };
	uint8_t *puts;
	taut_status status;

	if (!w->memory)
		return TAUT_OK;
	status = tauti_pick(w, is_accumulate, NULL, &puts, err);
	if (!status && !find_gradients(w, &gradients))
		status = no_memory(err);
	for (uint32_t i = 0; !status && i < w->memory->n_blocks; i++)
		if (grows(w, &gradients, puts, &w->memory->blocks[i]))
			w->block_scale[i] *= factor;
	taut_vec_free(&gradients);
	return status;
}

/* --- micro-batches ---------------------------------------------------------------- */

/* Where AccumulateGrad puts what was asked for in this operation: the first one
 * behind it, or itself. TAUT_NONE: none in its step. */
static uint32_t put_behind(const struct tauti_whatif *w, const uint8_t *puts,
	uint32_t op)
{
	const struct taut_graph *g = w->graph;
	uint32_t end = g->lane_begin[g->lane[op] + 1];
	uint32_t step = w->job->step_of[op];

	while (op < end && w->job->step_of[op] == step && !puts[op])
		op++;
	return op < end && w->job->step_of[op] == step ? op : TAUT_NONE;
}

taut_status tauti_sum_gradients(struct tauti_whatif *w, struct taut_error *err)
{
	uint32_t n = w->memory ? w->memory->n_blocks : 0;
	uint8_t *puts;
	taut_status status;

	if (!w->memory)
		return TAUT_OK;
	w->sums = TAUT_ARENA_ARRAY(w->arena, uint32_t, (size_t)n + 1);
	if (!w->sums)
		return no_memory(err);
	status = tauti_pick(w, is_accumulate, NULL, &puts, err);
	for (uint32_t i = 0; !status && i < n; i++) {
		const struct taut_block *b = &w->memory->blocks[i];

		w->sums[i] = is_in(w->job, b->from_op,
			1 << TAUTI_PHASE_BACKWARD) &&
			outlives_backward(w->job, b) ?
			put_behind(w, puts, b->from_op) : TAUT_NONE;
	}
	return status;
}

/* --- the changed job -------------------------------------------------------------- */

struct likes {
	uint32_t *op;    /* by op of the built graph: of the recording */
	uint32_t *rank;  /* by trace of the built graph: of the recording */
};

static void likes_fini(struct likes *l)
{
	free(l->op);
	free(l->rank);
}

static void fill_likes(struct likes *l, const struct taut_edit *edit,
	const struct tauti_outcome *outcome)
{
	const struct taut_graph *built = outcome->graph;
	uint32_t n = taut_edit_ops(edit), at = 0;

	memset(l->op, 0xff, (size_t)built->n_ops * sizeof *l->op);
	for (uint32_t id = 0; id < n; id++) {
		struct taut_op op;

		if (outcome->op_of[id] != TAUT_NONE &&
			taut_edit_op(edit, id, &op))
			l->op[outcome->op_of[id]] = op.like;
	}
	for (uint32_t r = 0; r < taut_edit_ranks(edit); r++)
		if (taut_edit_has_rank(edit, r) && at < built->run->n_traces)
			l->rank[at++] = taut_edit_rank_like(edit, r);
}

static taut_status find_likes(struct likes *l, const struct taut_edit *edit,
	const struct tauti_outcome *outcome, struct taut_error *err)
{
	const struct taut_graph *built = outcome->graph;

	l->op = malloc(((size_t)built->n_ops + 1) * sizeof *l->op);
	l->rank = calloc((size_t)built->run->n_traces + 1, sizeof *l->rank);
	if (!l->op || !l->rank)
		return no_memory(err);
	fill_likes(l, edit, outcome);
	return TAUT_OK;
}

/* By trace of the built graph, and the most of them. */
static void tell(const struct tauti_whatif *w, const struct likes *likes,
	const struct tauti_outcome *outcome,
	const struct taut_memory_peak *peaks, struct taut_memory_told *told,
	struct taut_prediction *out)
{
	const struct taut_run *run = outcome->graph->run;

	for (uint32_t i = 0; i < run->n_traces; i++) {
		told[i] = (struct taut_memory_told){ run->traces[i].rank,
			w->memory->ranks[likes->rank[i]].peak_bytes,
			peaks[i].bytes };
		if (peaks[i].bytes > out->memory_after)
			out->memory_after = peaks[i].bytes;
	}
	out->n_memory = run->n_traces;
	out->memory = told;
}

static taut_status find_peaks(const struct tauti_whatif *w,
	const struct likes *likes, const struct taut_memory *memory,
	const struct tauti_outcome *outcome, struct taut_arena *arena,
	struct taut_prediction *out, struct taut_error *err)
{
	uint32_t n = outcome->graph->run->n_traces;
	struct taut_memory_peak *peaks = calloc((size_t)n + 1, sizeof *peaks);
	struct taut_memory_told *told = TAUT_ARENA_ARRAY(
		arena, struct taut_memory_told, n + 1);
	taut_status status = peaks && told ? taut_memory_peaks(memory,
		outcome->timeline.start_ns, outcome->timeline.end_ns, NULL,
		peaks, err) : no_memory(err);

	if (!status)
		tell(w, likes, outcome, peaks, told, out);
	free(peaks);
	return status;
}

taut_status tauti_memory_predict(const struct tauti_predictor *p,
	const struct tauti_outcome *outcome, struct taut_arena *arena,
	struct taut_prediction *out, struct taut_error *err)
{
	const struct tauti_whatif *w = &p->w;
	struct taut_memory *carried = NULL;
	struct likes likes = { 0 };
	struct tauti_parts parts = { .ranks = NULL };
	taut_status status;

	out->memory_before = out->memory_after = -1;
	if (!w->memory)
		return TAUT_OK;
	for (uint32_t i = 0; i < w->graph->run->n_traces; i++)
		if (w->memory->ranks[i].peak_bytes > out->memory_before)
			out->memory_before = w->memory->ranks[i].peak_bytes;
	status = find_likes(&likes, w->edit, outcome, err);
	if (!status)
		status = tauti_parts_make(w, &parts, err);
	if (!status)
		status = taut_memory_carry(&parts.memory, outcome->graph,
			likes.op, likes.rank, parts.scale.data, parts.sum.data,
			&carried, err);
	if (!status)
		status = find_peaks(
			w, &likes, carried, outcome, arena, out, err);
	taut_memory_destroy(carried);
	likes_fini(&likes);
	tauti_parts_fini(&parts);
	return status;
}

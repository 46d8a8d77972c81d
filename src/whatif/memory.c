/* memory.c - the memory of a changed job: the recording's blocks on the
 * operations that its own became, or were copied to, at their replayed times. */
#include <stdlib.h>
#include <string.h>

#include "whatif/predict.h"

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory for a prediction");
}

taut_status tauti_memory_prepare(const struct taut_graph *graph,
	struct taut_arena *arena, struct taut_memory **ret_memory,
	double **ret_scale, struct taut_error *err)
{
	bool any = false;
	taut_status status;

	for (uint32_t i = 0; graph->run && i < graph->run->n_traces; i++)
		any |= graph->run->traces[i].n_memory > 0;
	if (!any)
		return TAUT_OK;
	status = taut_memory_create(graph, ret_memory, err);
	if (status)
		return status;
	*ret_scale = TAUT_ARENA_ARRAY(
		arena, double, (size_t)(*ret_memory)->n_blocks + 1);
	return *ret_scale ? TAUT_OK : no_memory(err);
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

/* --- the changed job -------------------------------------------------------------- */

struct likes {
	uint32_t *op_of; /* by id of the edit */
	uint32_t *op;    /* by op of the built graph: of the recording */
	uint32_t *rank;  /* by trace of the built graph: of the recording */
};

static void likes_fini(struct likes *l)
{
	free(l->op_of);
	free(l->op);
	free(l->rank);
}

static void fill_likes(struct likes *l, const struct taut_edit *edit,
	const struct taut_graph *built)
{
	uint32_t n = taut_edit_ops(edit), at = 0;

	memset(l->op, 0xff, (size_t)built->n_ops * sizeof *l->op);
	for (uint32_t id = 0; id < n; id++) {
		struct taut_op op;

		if (l->op_of[id] != TAUT_NONE && taut_edit_op(edit, id, &op))
			l->op[l->op_of[id]] = op.like;
	}
	for (uint32_t r = 0; r < taut_edit_ranks(edit); r++)
		if (taut_edit_has_rank(edit, r) && at < built->run->n_traces)
			l->rank[at++] = taut_edit_rank_like(edit, r);
}

/* A second build of what the outcome was built of: the same ids. */
static taut_status find_likes(struct likes *l, const struct taut_edit *edit,
	const struct taut_graph *built, struct taut_error *err)
{
	struct taut_graph *again = NULL;
	taut_status status;

	l->op_of = malloc(((size_t)taut_edit_ops(edit) + 1) * sizeof *l->op_of);
	l->op = malloc(((size_t)built->n_ops + 1) * sizeof *l->op);
	l->rank = calloc((size_t)built->run->n_traces + 1, sizeof *l->rank);
	status = l->op_of && l->op && l->rank ? taut_edit_build(
		edit, &again, l->op_of, NULL, err) : no_memory(err);
	if (!status)
		fill_likes(l, edit, built);
	taut_graph_destroy(again);
	return status;
}

static taut_status peak_of(const struct taut_memory *memory,
	const struct tauti_outcome *outcome, int64_t *ret_peak,
	struct taut_error *err)
{
	uint32_t n = outcome->graph->run->n_traces;
	struct taut_memory_peak *peaks = calloc((size_t)n + 1, sizeof *peaks);
	taut_status status = peaks ? taut_memory_peaks(memory,
		outcome->timeline.start_ns, outcome->timeline.end_ns, NULL,
		peaks, err) : no_memory(err);

	for (uint32_t i = 0; !status && i < n; i++)
		if (peaks[i].bytes > *ret_peak)
			*ret_peak = peaks[i].bytes;
	free(peaks);
	return status;
}

taut_status tauti_memory_predict(const struct tauti_predictor *p,
	const struct tauti_outcome *outcome, int64_t *ret_before,
	int64_t *ret_after, struct taut_error *err)
{
	const struct tauti_whatif *w = &p->w;
	struct taut_memory *carried = NULL;
	struct likes likes = { 0 };
	taut_status status;

	*ret_before = *ret_after = -1;
	if (!w->memory)
		return TAUT_OK;
	for (uint32_t i = 0; i < w->graph->run->n_traces; i++)
		if (w->memory->ranks[i].peak_bytes > *ret_before)
			*ret_before = w->memory->ranks[i].peak_bytes;
	status = find_likes(&likes, w->edit, outcome->graph, err);
	if (!status)
		status = taut_memory_carry(w->memory, outcome->graph, likes.op,
			likes.rank, w->block_scale, &carried, err);
	if (!status)
		status = peak_of(carried, outcome, ret_after, err);
	taut_memory_destroy(carried);
	likes_fini(&likes);
	return status;
}

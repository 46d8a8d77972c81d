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

/* --- samples ---------------------------------------------------------------------- */

typedef TAUT_VEC(int64_t) sizes;

static int by_size(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static bool has_size(const sizes *all, int64_t bytes)
{
	return all->count && bsearch(&bytes, all->data, all->count,
		sizeof bytes, by_size);
}

static bool add_accumulated(const struct taut_run *run, sizes *all)
{
	static const char name[] = "torch::autograd::AccumulateGrad";

	for (uint32_t i = 0; i < run->n_traces; i++) {
		const struct taut_trace *t = &run->traces[i];
		uint32_t id = taut_names_find(t->names, name, sizeof name - 1);

		for (uint32_t row = 0; id != TAUT_NONE && row < t->n_events;
			row++) {
			const struct taut_tensor_args *tensor =
				t->name[row] == id ?
				taut_trace_tensor(t, row) : NULL;

			if (tensor && !taut_vec_push(all, tensor->bytes))
				return false;
		}
	}
	return true;
}

/* How large gradients are: what AccumulateGrad was given, and what is made in
 * a backward pass and outlives it. */
static bool find_gradient_sizes(const struct tauti_whatif *w, sizes *all)
{
	const struct tauti_job *job = w->job;

	if (!add_accumulated(w->graph->run, all))
		return false;
	for (uint32_t i = 0; i < w->memory->n_blocks; i++) {
		const struct taut_block *b = &w->memory->blocks[i];

		if (b->from_op == TAUT_NONE || job->phase[b->from_op] !=
			TAUTI_PHASE_BACKWARD || (b->to_op != TAUT_NONE &&
			job->step_of[b->to_op] == job->step_of[b->from_op] &&
			job->phase[b->to_op] != TAUTI_PHASE_OPTIMIZER))
			continue;
		if (!taut_vec_push(all, b->bytes))
			return false;
	}
	if (all->count)
		qsort(all->data, all->count, sizeof *all->data, by_size);
	return true;
}

taut_status tauti_scale_samples(
	struct tauti_whatif *w, double factor, struct taut_error *err)
{
	enum { MADE = 1 << TAUTI_PHASE_DATA | 1 << TAUTI_PHASE_FORWARD,
		BACKWARD = 1 << TAUTI_PHASE_BACKWARD,
		NONE = 1 << TAUTI_PHASE_NONE };
	sizes fixed = { 0 };
	bool ok = !w->memory || find_gradient_sizes(w, &fixed);

	for (uint32_t i = 0; ok && w->memory && i < w->memory->n_blocks; i++) {
		const struct taut_block *b = &w->memory->blocks[i];

		if (is_in(w->job, b->from_op, MADE) ?
			is_in(w->job, b->to_op, MADE | BACKWARD | NONE) :
			is_in(w->job, b->from_op, BACKWARD) &&
			is_in(w->job, b->to_op, BACKWARD) &&
			!has_size(&fixed, b->bytes))
			w->block_scale[i] *= factor;
	}
	taut_vec_free(&fixed);
	return ok ? TAUT_OK : no_memory(err);
}

/* --- blocks in parts -------------------------------------------------------------- */

taut_status tauti_split_block(struct tauti_whatif *w, uint32_t block,
	struct tauti_split at, struct taut_error *err)
{
	uint32_t n = w->memory->n_blocks;

	if (!w->splits) {
		w->splits = TAUT_ARENA_ARRAY(
			w->arena, struct tauti_split, n + 1);
		if (!w->splits)
			return no_memory(err);
		memset(w->splits, 0xff, (n + 1) * sizeof *w->splits);
	}
	w->splits[block] = at;
	return TAUT_OK;
}

/* The recording's blocks with those that are split as two. */
struct parts {
	struct taut_memory memory;
	struct taut_block *blocks;
	struct taut_memory_rank *ranks;
	double *scale;
};

static void parts_fini(struct parts *p)
{
	free(p->blocks);
	free(p->ranks);
	free(p->scale);
}

static void add_part(struct parts *p, const struct taut_block *b, double scale)
{
	p->scale[p->memory.n_blocks] = scale;
	p->blocks[p->memory.n_blocks++] = *b;
}

static void split_rank(struct parts *p, const struct tauti_whatif *w,
	const struct taut_memory_rank *from, struct taut_memory_rank *to)
{
	*to = *from;
	to->first_block = p->memory.n_blocks;
	for (uint32_t i = from->first_block;
		i < from->first_block + from->n_blocks; i++) {
		struct taut_block b = w->memory->blocks[i], again = b;

		if (w->splits && w->splits[i].until_op != TAUT_NONE) {
			again.from_op = w->splits[i].again_op;
			again.from_at = 0;
			b.to_op = w->splits[i].until_op;
			b.to_at = 1;
			add_part(p, &b, w->block_scale[i]);
		}
		add_part(p, &again, w->block_scale[i]);
	}
	to->n_blocks = p->memory.n_blocks - to->first_block;
}

static taut_status split_all(struct parts *p, const struct tauti_whatif *w,
	struct taut_error *err)
{
	size_t most = 2 * (size_t)w->memory->n_blocks + 1;
	uint32_t n = w->graph->run->n_traces;

	p->blocks = malloc(most * sizeof *p->blocks);
	p->scale = malloc(most * sizeof *p->scale);
	p->ranks = malloc(((size_t)n + 1) * sizeof *p->ranks);
	if (!p->blocks || !p->scale || !p->ranks)
		return no_memory(err);
	p->memory = (struct taut_memory){ .graph = w->graph,
		.blocks = p->blocks, .ranks = p->ranks };
	for (uint32_t i = 0; i < n; i++)
		split_rank(p, w, &w->memory->ranks[i], &p->ranks[i]);
	return TAUT_OK;
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
	struct parts parts = { .blocks = NULL };
	taut_status status;

	*ret_before = *ret_after = -1;
	if (!w->memory)
		return TAUT_OK;
	for (uint32_t i = 0; i < w->graph->run->n_traces; i++)
		if (w->memory->ranks[i].peak_bytes > *ret_before)
			*ret_before = w->memory->ranks[i].peak_bytes;
	status = find_likes(&likes, w->edit, outcome, err);
	if (!status)
		status = split_all(&parts, w, err);
	if (!status)
		status = taut_memory_carry(&parts.memory, outcome->graph,
			likes.op, likes.rank, parts.scale, &carried, err);
	if (!status)
		status = peak_of(carried, outcome, ret_after, err);
	taut_memory_destroy(carried);
	likes_fini(&likes);
	parts_fini(&parts);
	return status;
}

/* parts.c - see parts.h.
 *
 * Each gap takes its share of what all others leave: what is there of a block at
 * a moment is the product over the gaps that it lies in of 1 - share. That is a
 * row of steps in time, and a part stands for each stretch of each height that
 * comes in it:
 *
 *     1    |--|              |--|     two gaps, one within the other
 *     0.5  |--------|  |--------|
 */
#include "whatif/parts.h"

#include <stdlib.h>
#include <string.h>

struct edge { /* either end of a gap */
	int64_t at_ns; /* as recorded */
	uint32_t op, gap;
	bool opens;
};

struct cutter {
	const struct tauti_whatif *w;
	struct tauti_parts *p;
	/* Of the block at hand. */
	uint32_t sum;
	TAUT_VEC(double) left;      /* by gap: 1 - share; 1 where it is shut */
	TAUT_VEC(struct edge) edges;
	TAUT_VEC(double) height;    /* before each edge, and behind the last */
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory for parts of blocks");
}

taut_status tauti_add_gap(struct tauti_whatif *w, uint32_t block,
	uint32_t until_op, uint32_t again_op, double share,
	struct taut_error *err)
{
	const struct taut_graph *g = w->graph;
	struct tauti_gap *gap;

	if (g->start_ns[until_op] + g->dur_ns[until_op] > g->start_ns[again_op])
		return TAUT_OK;
	gap = TAUT_ARENA_ARRAY(w->arena, struct tauti_gap, 1);
	if (gap && !w->gaps)
		w->gaps = TAUT_ARENA_ARRAY(w->arena, const struct tauti_gap *,
			(size_t)w->memory->n_blocks + 1);
	if (!gap || !w->gaps)
		return no_memory(err);
	*gap = (struct tauti_gap){ until_op, again_op, share, w->gaps[block] };
	w->gaps[block] = gap;
	return TAUT_OK;
}

/* --- one block -------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	if (x->opens != y->opens)
		return x->opens ? -1 : 1;
	return x->gap < y->gap ? -1 : x->gap > y->gap;
}

static bool find_edges(struct cutter *c, const struct tauti_gap *gap)
{
	const struct taut_graph *g = c->w->graph;

	taut_vec_clear(&c->edges);
	taut_vec_clear(&c->left);
	for (uint32_t i = 0; gap; gap = gap->next, i++) {
		struct edge until = { g->start_ns[gap->until_op] +
			g->dur_ns[gap->until_op], gap->until_op, i, true };
		struct edge again = { g->start_ns[gap->again_op],
			gap->again_op, i, false };

		if (!taut_vec_push(&c->edges, until) ||
			!taut_vec_push(&c->edges, again) ||
			!taut_vec_push(&c->left, 1 - gap->share))
			return false;
	}
	qsort(c->edges.data, c->edges.count, sizeof *c->edges.data, by_time);
	return true;
}

/* Of the gaps that the edge at `at` and those before it opened and did not
 * shut. */
static double height_behind(const struct cutter *c, size_t at)
{
	double height = 1;

	for (size_t i = 0; i <= at; i++) {
		const struct edge *e = &c->edges.data[i];
		bool shut = !e->opens;

		for (size_t k = i + 1; k <= at; k++)
			shut |= c->edges.data[k].gap == e->gap;
		if (!shut)
			height *= c->left.data[e->gap];
	}
	return height;
}

static bool find_heights(struct cutter *c)
{
	taut_vec_clear(&c->height);
	if (!taut_vec_push(&c->height, 1))
		return false;
	for (size_t i = 0; i < c->edges.count; i++)
		if (!taut_vec_push(&c->height, height_behind(c, i)))
			return false;
	return true;
}

static bool add_part(
	struct cutter *c, const struct taut_block *b, double scale)
{
	return taut_vec_push(&c->p->blocks, *b) &&
		taut_vec_push(&c->p->scale, scale) &&
		taut_vec_push(&c->p->sum, c->sum);
}

/* The stretches in which so much or more is there. */
static bool add_stretches(struct cutter *c, const struct taut_block *whole,
	double height, double scale)
{
	struct taut_block b = *whole;
	bool within = true;

	for (size_t i = 0; i < c->edges.count; i++) {
		const struct edge *e = &c->edges.data[i];
		bool stays = c->height.data[i + 1] >= height;

		if (within && !stays) {
			b.to_op = e->op;
			b.to_at = 1;
			if (!add_part(c, &b, scale))
				return false;
		} else if (!within && stays) {
			b.from_op = e->op;
			b.from_at = 0;
		}
		within = stays;
	}
	b.to_op = whole->to_op;
	b.to_at = whole->to_at;
	return add_part(c, &b, scale);
}

/* The least height above this one; 0: none. */
static double next_height(const struct cutter *c, double above)
{
	double least = 0;

	for (size_t i = 0; i < c->height.count; i++)
		if (c->height.data[i] > above &&
			(!(least > 0) || c->height.data[i] < least))
			least = c->height.data[i];
	return least;
}

static bool cut(struct cutter *c, uint32_t block)
{
	const struct taut_block *whole = &c->w->memory->blocks[block];
	const struct tauti_gap *gap = c->w->gaps ? c->w->gaps[block] : NULL;
	double scale = c->w->block_scale[block], below = 0, height;

	c->sum = c->w->sums ? c->w->sums[block] : TAUT_NONE;
	if (!gap)
		return add_part(c, whole, scale);
	if (!find_edges(c, gap) || !find_heights(c))
		return false;
	while ((height = next_height(c, below)) > 0) {
		if (!add_stretches(c, whole, height, scale * (height - below)))
			return false;
		below = height;
	}
	return true;
}

/* --- all -------------------------------------------------------------------------- */

static bool cut_rank(struct cutter *c, uint32_t trace)
{
	const struct taut_memory_rank *from = &c->w->memory->ranks[trace];
	struct taut_memory_rank *to = &c->p->ranks[trace];
	bool ok = true;

	*to = *from;
	to->first_block = (uint32_t)c->p->blocks.count;
	for (uint32_t i = 0; ok && i < from->n_blocks; i++)
		ok = cut(c, from->first_block + i);
	to->n_blocks = (uint32_t)c->p->blocks.count - to->first_block;
	return ok;
}

taut_status tauti_parts_make(const struct tauti_whatif *w,
	struct tauti_parts *ret_parts, struct taut_error *err)
{
	struct cutter c = { .w = w, .p = ret_parts };
	uint32_t n = w->graph->run->n_traces;
	bool ok;

	*ret_parts = (struct tauti_parts){ .memory.graph = w->graph,
		.ranks = malloc(((size_t)n + 1) * sizeof *ret_parts->ranks) };
	ok = ret_parts->ranks != NULL;
	for (uint32_t i = 0; ok && i < n; i++)
		ok = cut_rank(&c, i);
	taut_vec_free(&c.left);
	taut_vec_free(&c.edges);
	taut_vec_free(&c.height);
	ret_parts->memory.ranks = ret_parts->ranks;
	ret_parts->memory.blocks = ret_parts->blocks.data;
	ret_parts->memory.n_blocks = (uint32_t)ret_parts->blocks.count;
	return ok ? TAUT_OK : no_memory(err);
}

void tauti_parts_fini(struct tauti_parts *p)
{
	taut_vec_free(&p->blocks);
	taut_vec_free(&p->scale);
	taut_vec_free(&p->sum);
	free(p->ranks);
	*p = (struct tauti_parts){ .ranks = NULL };
}

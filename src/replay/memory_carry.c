/* memory_carry.c - blocks of a recording on the operations of a changed graph. */
#include <stdbool.h>
#include <stdlib.h>

#include "base/vec.h"
#include "replay/memory.h"

/* What became of each operation: the operations of the changed graph that are
 * like it, by (rank, id). Those of op i: is[begin[i]] .. is[begin[i + 1] - 1]. */
struct became {
	const struct taut_graph *graph; /* the changed one */
	uint32_t *begin, *is;
};

static uint32_t rank_of(const struct taut_graph *g, uint32_t op)
{
	return g->lanes[g->lane[op]].trace;
}

static void became_fini(struct became *b)
{
	free(b->begin);
	free(b->is);
}

/* Insertion: there are few, and they come nearly in order. */
static void put_in_order(struct became *b, uint32_t from, uint32_t at)
{
	uint32_t op = b->is[at], rank = rank_of(b->graph, op);

	while (at > from && rank_of(b->graph, b->is[at - 1]) > rank) {
		b->is[at] = b->is[at - 1];
		at--;
	}
	b->is[at] = op;
}

static bool became_init(struct became *b, const struct taut_graph *below,
	const struct taut_graph *graph, const uint32_t *like)
{
	size_t n = below->n_ops;

	b->graph = graph;
	b->begin = calloc(n + 2, sizeof *b->begin);
	b->is = malloc(((size_t)graph->n_ops + 1) * sizeof *b->is);
	if (!b->begin || !b->is)
		return false;
	for (uint32_t op = 0; op < graph->n_ops; op++)
		if (like[op] != TAUT_NONE)
			b->begin[like[op] + 2]++;
	for (size_t i = 2; i < n + 2; i++)
		b->begin[i] += b->begin[i - 1];
	for (uint32_t op = 0; op < graph->n_ops; op++)
		if (like[op] != TAUT_NONE)
			b->is[b->begin[like[op] + 1]++] = op;
	for (size_t i = 0; i < n; i++)
		for (uint32_t at = b->begin[i]; at < b->begin[i + 1]; at++)
			put_in_order(b, b->begin[i], at);
	return true;
}

/* The copies of op on one rank: *ret_at is the first. */
static uint32_t copies(const struct became *b, uint32_t op, uint32_t rank,
	uint32_t *ret_at)
{
	uint32_t at, n = 0;

	if (op == TAUT_NONE)
		return 0;
	at = b->begin[op];
	while (at < b->begin[op + 1] && rank_of(b->graph, b->is[at]) < rank)
		at++;
	while (at + n < b->begin[op + 1] &&
		rank_of(b->graph, b->is[at + n]) == rank)
		n++;
	*ret_at = at;
	return n;
}

struct carry {
	const struct taut_memory *from;
	struct became became;
	const double *scale;
	const uint32_t *sum;
	TAUT_VEC(struct taut_block) blocks;
};

/* Of n_to that give back, which one does what the k-th of n_from asked for:
 * where these come in groups (done, and done again), each is a group's. */
static uint32_t giver(uint32_t k, uint32_t n_from, uint32_t n_to)
{
	if (n_from > n_to && n_from % n_to == 0)
		return k / (n_from / n_to);
	return k < n_to ? k : n_to - 1;
}

static bool carry_block(struct carry *c, uint32_t index, uint32_t rank)
{
	const struct taut_block *whole = &c->from->blocks[index];
	struct taut_block b = *whole;
	uint32_t from_at = 0, to_at = 0, sum_at = 0;
	uint32_t n_from = copies(&c->became, b.from_op, rank, &from_at);
	uint32_t n_to = copies(&c->became, b.to_op, rank, &to_at);
	uint32_t n_sum = !c->sum ? 0 :
		copies(&c->became, c->sum[index], rank, &sum_at);
	bool before = b.from_op == TAUT_NONE;

	if (c->scale)
		b.bytes = tauti_block_bytes(&b, c->scale[index]);
	for (uint32_t k = 0; k < (before ? 1 : n_from); k++) {
		if (k && n_sum && c->sum[index] == whole->from_op)
			continue;
		if (!before)
			b.from_op = c->became.is[from_at + k];
		b.to_op = !n_to ? TAUT_NONE :
			c->became.is[to_at + giver(k, n_from, n_to)];
		if (k && n_sum) {
			b.to_op = c->became.is[sum_at +
				giver(k, n_from, n_sum)];
			b.to_at = 1;
		}
		if (!taut_vec_push(&c->blocks, b))
			return false;
	}
	return true;
}

static bool carry_rank(struct carry *c, uint32_t rank, uint32_t like,
	struct taut_memory_rank *out)
{
	const struct taut_memory_rank *in = &c->from->ranks[like];

	*out = *in;
	out->first_block = (uint32_t)c->blocks.count;
	for (uint32_t i = 0; i < in->n_blocks; i++)
		if (!carry_block(c, in->first_block + i, rank))
			return false;
	out->n_blocks = (uint32_t)c->blocks.count - out->first_block;
	return true;
}

static bool publish(struct carry *c, struct owned_memory *owned)
{
	size_t n = c->blocks.count;
	struct taut_block *blocks = TAUT_ARENA_ARRAY(owned->arena,
		struct taut_block, n + 1);

	for (size_t i = 0; blocks && i < n; i++)
		blocks[i] = c->blocks.data[i];
	owned->memory.blocks = blocks;
	owned->memory.n_blocks = (uint32_t)n;
	return blocks != NULL;
}

taut_status taut_memory_carry(const struct taut_memory *memory,
	const struct taut_graph *graph, const uint32_t *like,
	const uint32_t *rank_like, const double *scale, const uint32_t *sum,
	struct taut_memory **ret_memory, struct taut_error *reterr)
{
	struct carry c = { .from = memory, .scale = scale,
		.sum = sum };
	struct owned_memory *owned = tauti_memory_new();
	uint32_t n = graph->run->n_traces;
	struct taut_memory_rank *ranks = owned ? TAUT_ARENA_ARRAY(
		owned->arena, struct taut_memory_rank, n + 1) : NULL;
	bool ok = ranks &&
		became_init(&c.became, memory->graph, graph, like);

	for (uint32_t i = 0; ok && i < n; i++)
		ok = carry_rank(&c, i, rank_like[i], &ranks[i]);
	ok = ok && publish(&c, owned);
	became_fini(&c.became);
	taut_vec_free(&c.blocks);
	if (!ok) {
		tauti_memory_free(owned);
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"no memory for the blocks of the changed job");
	}
	owned->memory.graph = graph;
	owned->memory.ranks = ranks;
	*ret_memory = &owned->memory;
	return TAUT_OK;
}

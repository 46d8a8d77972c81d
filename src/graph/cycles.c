/* cycles.c - no operation may wait for itself.
 *
 * No wait leads back in time, along a lane or across (edges.c sees to that), so
 * a circle can only lie among operations that begin in the same instant:
 * stamps of whole microseconds, and two send/recv pairs that the ranks posted
 * in opposite order. Only such operations are looked at, which are few. Where they wait
 * in a circle, the waits among them that are not the order of a lane are
 * dropped. */
#include <stdlib.h>

#include "graph/builder.h"

struct instant { /* the graph of waits that take no time */
	struct builder *b;
	uint32_t *waits; /* by op: how many it has left */
	uint8_t *hot;    /* by op: is in this graph */
	TAUT_VEC(uint32_t) ops, ready;
};

static bool is_instant(const struct builder *b, uint32_t from, uint32_t to)
{
	return b->start[from] == b->start[to];
}

/* Does op i wait, in the same instant, for the one before it on its lane? */
static bool follows(const struct builder *b, uint32_t i)
{
	uint32_t l = b->lane[i];

	return i > b->lane_begin[l] && b->lanes[l].trace != TAUT_NONE &&
		is_instant(b, i - 1, i);
}

/* Op i, and its neighbours on the lane in the same instant. */
static bool add(struct instant *g, uint32_t i)
{
	const struct builder *b = g->b;

	while (!g->hot[i] && follows(b, i))
		i--;
	for (; !g->hot[i]; i++) {
		g->hot[i] = 1;
		if (!taut_vec_push(&g->ops, i))
			return false;
		if (i + 1 >= b->g->n_ops || !follows(b, i + 1))
			break;
	}
	return true;
}

static bool collect(struct instant *g)
{
	const struct builder *b = g->b;

	for (size_t e = 0; e < b->edges.count; e++) {
		const struct tauti_edge *w = &b->edges.data[e];

		if (is_instant(b, w->from, w->to) &&
			(!add(g, w->from) || !add(g, w->to)))
			return false;
	}
	for (size_t e = 0; e < b->edges.count; e++)
		if (is_instant(b, b->edges.data[e].from, b->edges.data[e].to))
			g->waits[b->edges.data[e].to]++;
	for (size_t k = 0; k < g->ops.count; k++)
		g->waits[g->ops.data[k]] += follows(b, g->ops.data[k]);
	return true;
}

static bool release(struct instant *g, uint32_t op)
{
	return --g->waits[op] || taut_vec_push(&g->ready, op);
}

/* Runs the instant graph; what still waits afterwards is in a circle or
 * behind one. Edges are sorted by their first op, begin[] as in CSR. */
static bool run(struct instant *g)
{
	struct builder *b = g->b;

	for (size_t k = 0; k < g->ops.count; k++)
		if (!g->waits[g->ops.data[k]] &&
			!taut_vec_push(&g->ready, g->ops.data[k]))
			return false;
	while (g->ready.count) {
		uint32_t op = g->ready.data[--g->ready.count];

		for (uint32_t e = b->edge_begin[op]; e < b->edge_begin[op + 1];
			e++)
			if (is_instant(b, op, b->edge_to[e]) &&
				!release(g, b->edge_to[e]))
				return false;
		if (op + 1 < b->g->n_ops && follows(b, op + 1) &&
			g->hot[op + 1] && !release(g, op + 1))
			return false;
	}
	return true;
}

static void drop(struct instant *g)
{
	struct builder *b = g->b;
	size_t kept = 0;

	for (size_t e = 0; e < b->edges.count; e++) {
		struct tauti_edge w = b->edges.data[e];

		if (is_instant(b, w.from, w.to) && g->waits[w.from] &&
			g->waits[w.to]) {
			b->g->n_circular++;
			b->g->edges_of[w.kind & ~TAUT_EDGE_FROM_START]--;
			continue;
		}
		b->edges.data[kept++] = w;
	}
	b->edges.count = kept;
}

bool tauti_break_cycles(struct builder *b, bool *ret_dropped)
{
	struct instant g = { .b = b };
	bool ok;

	g.waits = calloc(b->g->n_ops + 1, sizeof *g.waits);
	g.hot = calloc(b->g->n_ops + 1, 1);
	ok = g.waits && g.hot && collect(&g) && run(&g);
	if (ok)
		drop(&g);
	*ret_dropped = b->g->n_circular > 0;
	free(g.waits);
	free(g.hot);
	taut_vec_free(&g.ops);
	taut_vec_free(&g.ready);
	return ok;
}

/* told.c - waits that the recordings tell themselves, by the ids of events.
 *
 * Ids are the same over all ranks of a run. Where they are small, which they
 * are when a reader counted, they are places in an array; else they are
 * sorted. Of two events with one id the first, by rank and row, is meant. */
#include <stdlib.h>
#include <string.h>

#include "graph/builder.h"

struct place {
	uint64_t id;
	uint32_t out; /* op whose end (or, a mark, begin) is waited for */
};

struct places {
	uint32_t *by_id;      /* n_ids places; NULL: ids are not small */
	uint64_t n_ids;
	struct place *sorted;
	size_t n;
};

static int by_id(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->out < y->out ? -1 : x->out > y->out;
}

static size_t count_ids(const struct builder *b, uint64_t *ret_most)
{
	size_t n = 0;

	*ret_most = 0;
	for (uint32_t i = 0; i < b->n_ranks; i++) {
		const struct taut_trace *t = b->ranks[i].trace;

		for (size_t k = 0; k < t->n_ids; k++)
			if (t->ids[k].id > *ret_most)
				*ret_most = t->ids[k].id;
		n += t->n_ids;
	}
	return n;
}

static bool places_init(const struct builder *b, struct places *p)
{
	uint64_t most;

	p->n = count_ids(b, &most);
	if (p->n && most / 4 <= p->n) {
		p->n_ids = most + 1;
		p->by_id = malloc((size_t)p->n_ids * sizeof *p->by_id);
		if (p->by_id)
			memset(p->by_id, 0xff,
				(size_t)p->n_ids * sizeof *p->by_id);
		return p->by_id != NULL;
	}
	p->sorted = malloc((p->n + 1) * sizeof *p->sorted);
	p->n = 0;
	return p->sorted != NULL;
}

static void add_place(struct places *p, uint64_t id, uint32_t out)
{
	if (p->sorted)
		p->sorted[p->n++] = (struct place){ id, out };
	else if (p->by_id[id] == TAUT_NONE)
		p->by_id[id] = out;
}

static void fill(const struct builder *b, struct places *p)
{
	for (uint32_t i = 0; i < b->n_ranks; i++) {
		const struct tauti_rank *r = &b->ranks[i];

		for (size_t k = 0; k < r->trace->n_ids; k++) {
			const struct taut_ref *ref = &r->trace->ids[k];

			if (r->op_of[ref->event] != TAUT_NONE)
				add_place(p, ref->id, b->op_base[i] +
					tauti_op_out(r, ref->event));
		}
	}
	if (p->sorted && p->n)
		qsort(p->sorted, p->n, sizeof *p->sorted, by_id);
}

static uint32_t find(const struct places *p, uint64_t id)
{
	size_t lo = 0, hi = p->n;

	if (p->by_id)
		return id < p->n_ids ? p->by_id[id] : TAUT_NONE;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (p->sorted[mid].id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < p->n && p->sorted[lo].id == id ? p->sorted[lo].out :
		TAUT_NONE;
}

static bool lay_rank(struct builder *b, uint32_t rank, const struct places *p)
{
	const struct tauti_rank *r = &b->ranks[rank];
	const struct taut_trace *t = r->trace;

	for (size_t k = 0; k < t->n_waits; k++) {
		uint32_t to = r->op_of[t->waits[k].event];
		struct tauti_edge e = { find(p, t->waits[k].id), to, 0,
			TAUT_EDGE_THREAD };

		if (e.from == TAUT_NONE || to == TAUT_NONE)
			continue;
		e.to += b->op_base[rank];
		if (e.from == e.to)
			continue;
		b->g->edges_of[TAUT_EDGE_THREAD]++;
		if (!taut_vec_push(&b->edges, e))
			return false;
	}
	return true;
}

bool tauti_lay_told(struct builder *b)
{
	struct places p = { 0 };
	bool ok = true, any = false;

	for (uint32_t i = 0; i < b->n_ranks; i++)
		any |= b->ranks[i].trace->n_waits > 0;
	if (!any)
		return true;
	ok = places_init(b, &p);
	if (ok)
		fill(b, &p);
	for (uint32_t i = 0; ok && i < b->n_ranks; i++)
		ok = lay_rank(b, i, &p);
	free(p.by_id);
	free(p.sorted);
	return ok;
}

bool tauti_is_told(const struct builder *b, const struct tauti_edge *e)
{
	uint32_t trace = b->lanes[b->lane[e->to]].trace;

	return e->kind == TAUT_EDGE_THREAD && trace != TAUT_NONE &&
		b->run->traces[trace].is_table;
}

static bool follows(const struct builder *b, uint32_t op)
{
	return op > b->lane_begin[b->lane[op]] &&
		b->lanes[b->lane[op]].trace != TAUT_NONE;
}

/* Can all operations run, each after what it waits for? */
static bool all_run(const struct builder *b, uint32_t *waits, uint32_t *ready)
{
	uint32_t n = b->g->n_ops, top = 0, run = 0;

	for (uint32_t op = 0; op < n; op++)
		waits[op] = follows(b, op);
	for (size_t i = 0; i < b->edges.count; i++)
		waits[b->edges.data[i].to]++;
	for (uint32_t op = 0; op < n; op++)
		if (!waits[op])
			ready[top++] = op;
	for (; top; run++) {
		uint32_t op = ready[--top];

		for (uint32_t i = b->edge_begin[op]; i < b->edge_begin[op + 1];
			i++)
			if (!--waits[b->edge_to[i]])
				ready[top++] = b->edge_to[i];
		if (op + 1 < n && b->lane[op + 1] == b->lane[op] &&
			follows(b, op + 1) && !--waits[op + 1])
			ready[top++] = op + 1;
	}
	return run == n;
}

/* Does a wait lead back in time: to what began earlier, or to a transfer whose
 * successor on the lane did? */
static bool leads_back(const struct builder *b, const struct tauti_edge *e)
{
	uint32_t next = e->to + 1;

	if (b->kind[e->from] == TAUT_OP_JOIN)
		return next < b->g->n_ops && b->lane[next] == b->lane[e->to] &&
			b->start[next] < b->start[e->to];
	return tauti_is_told(b, e) && b->start[e->to] < b->start[e->from];
}

static void drop_back(struct builder *b)
{
	size_t kept = 0;

	for (size_t i = 0; i < b->edges.count; i++) {
		struct tauti_edge e = b->edges.data[i];

		if (leads_back(b, &e))
			b->g->edges_of[e.kind & ~TAUT_EDGE_FROM_START]--;
		else
			b->edges.data[kept++] = e;
	}
	b->edges.count = kept;
}

bool tauti_check_told(struct builder *b, bool *ret_dropped)
{
	uint32_t *waits = malloc(((size_t)b->g->n_ops + 1) * sizeof *waits);
	uint32_t *ready = malloc(((size_t)b->g->n_ops + 1) * sizeof *ready);
	bool ok = waits && ready;

	*ret_dropped = ok && !all_run(b, waits, ready);
	if (*ret_dropped)
		drop_back(b);
	free(waits);
	free(ready);
	return ok;
}

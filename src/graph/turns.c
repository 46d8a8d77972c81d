/* turns.c - messages of Taut's exchange, of which only so many are under way at a time.
 *
 * A message that was handed over before another one ended, and begins where that ended,
 * had no room until then (trace/sums.h). */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

struct ended { /* a message */
	uint32_t group, ranks; /* names */
	int64_t at;
	uint32_t comm; /* of the rank */
};

static uint32_t ranks_of(const struct tauti_rank *rank, const struct tauti_comm *c)
{
	const struct taut_comm_args *args = taut_trace_comm(rank->trace, c->row);

	return args ? args->group_ranks : 0;
}

static int by_end(const void *a, const void *b)
{
	const struct ended *x = a, *y = b;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	if (x->ranks != y->ranks)
		return x->ranks < y->ranks ? -1 : 1;
	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->comm < y->comm ? -1 : x->comm > y->comm;
}

/* One of c's exchange that ended when c began; NULL: none did. */
static const struct ended *ended_with(const struct tauti_rank *rank,
	const struct ended *all, size_t n, const struct tauti_comm *c)
{
	struct ended key = { c->group, ranks_of(rank, c), c->start, UINT32_MAX };
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (by_end(&all[mid], &key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && all[lo - 1].group == key.group && all[lo - 1].ranks == key.ranks &&
		all[lo - 1].at == c->start ? &all[lo - 1] : NULL;
}

static bool add_turn(struct tauti_rank *rank, const struct tauti_comm *c,
	const struct ended *before)
{
	struct tauti_edge edge = { rank->comms.data[before->comm].arrive + 1,
		c->arrive, c->start - before->at, TAUT_EDGE_STREAM };

	return taut_vec_push(&rank->edges, edge);
}

taut_status tauti_turns(struct tauti_rank *rank, struct taut_error *err)
{
	const struct taut_trace *t = rank->trace;
	uint32_t name = taut_names_find(t->names, "taut_sum", strlen("taut_sum"));
	TAUT_VEC(struct ended) ends = { 0 };
	bool ok = true;

	if (name == TAUT_NONE)
		return TAUT_OK;
	for (uint32_t i = 0; ok && i < rank->comms.count; i++) {
		const struct tauti_comm *c = &rank->comms.data[i];
		struct ended end = { c->group, ranks_of(rank, c), c->end, i };

		if (t->name[c->row] == name)
			ok = taut_vec_push(&ends, end);
	}
	if (ends.count)
		qsort(ends.data, ends.count, sizeof *ends.data, by_end);
	for (size_t i = 0; ok && i < rank->comms.count; i++) {
		const struct tauti_comm *c = &rank->comms.data[i];
		const struct ended *before = NULL;

		if (t->name[c->row] == name && c->launch != TAUT_NONE)
			before = ended_with(rank, ends.data, ends.count, c);
		if (before && before->comm != i && before->at > t->start_ns[c->launch])
			ok = add_turn(rank, c, before);
	}
	taut_vec_free(&ends);
	return ok ? TAUT_OK : taut_error_set(err, TAUT_ENOMEM, -1,
		"%s: no memory for the messages of an exchange", t->path);
}

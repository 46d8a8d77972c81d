/* load.c - how much was under way beside a rank, at any time. */
#include <stdlib.h>

#include "load.h"

struct change {
	uint32_t rank;
	int64_t at_ns;
	double by;
};

struct changes {
	TAUT_VEC(struct change) all;
};

static int by_rank_and_time(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	return x->by < y->by ? -1 : x->by > y->by;
}

/* Its usual rate, for as long as it moves. */
static bool add_flow(struct changes *changes, const struct taut_costs *costs,
	const struct tauti_flow_time *time)
{
	const struct taut_graph *g = costs->graph;
	const struct taut_collective *c = &g->collectives[time->collective];
	const struct taut_transfer *t = &costs->transfers[time->collective];
	int64_t from_ns = time->begin_ns + t->latency_ns;
	double rate;
	bool ok = true;

	if (time->begin_ns == INT64_MAX || time->end_ns <= from_ns)
		return true;
	rate = t->amount / (double)(time->end_ns - from_ns);
	for (uint32_t i = 0; ok && rate > 0 && i < c->n_members; i++) {
		uint32_t rank = tauti_member_rank(g, c, i);
		struct change on = { rank, from_ns, rate };
		struct change off = { rank, time->end_ns, -rate };

		ok = taut_vec_push(&changes->all, on) &&
			taut_vec_push(&changes->all, off);
	}
	return ok;
}

static bool lay(struct tauti_load *load, const struct changes *changes,
	uint32_t n_ranks)
{
	size_t n = changes->all.count;
	uint32_t rank = 0;

	load->begin = calloc((size_t)n_ranks + 2, sizeof *load->begin);
	load->at_ns = calloc(n + 1, sizeof *load->at_ns);
	load->rate = calloc(n + 1, sizeof *load->rate);
	load->sum = calloc(n + 1, sizeof *load->sum);
	if (!load->begin || !load->at_ns || !load->rate || !load->sum)
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct change *c = &changes->all.data[i];

		while (rank < c->rank)
			load->begin[++rank] = i;
		load->at_ns[i] = c->at_ns;
		load->rate[i] = c->by;
		if (i == load->begin[rank])
			continue;
		load->rate[i] += load->rate[i - 1];
		load->sum[i] = load->sum[i - 1] + load->rate[i - 1] *
			(double)(c->at_ns - load->at_ns[i - 1]);
	}
	while (rank < n_ranks)
		load->begin[++rank] = n;
	return true;
}

taut_status tauti_load_init(struct tauti_load *load,
	const struct taut_costs *costs, const struct tauti_flow_time *times,
	struct taut_error *err)
{
	struct changes changes = { 0 };
	bool ok = true;

	*load = (struct tauti_load){ 0 };
	for (uint32_t i = 0; ok && i < costs->graph->n_collectives; i++)
		ok = add_flow(&changes, costs, &times[i]);
	if (ok && changes.all.count)
		qsort(changes.all.data, changes.all.count,
			sizeof *changes.all.data, by_rank_and_time);
	ok = ok && lay(load, &changes, costs->site.n_ranks);
	taut_vec_free(&changes.all);
	if (ok)
		return TAUT_OK;
	tauti_load_fini(load);
	return taut_error_set(err, TAUT_ENOMEM, -1,
		"no memory for what was under way");
}

void tauti_load_fini(struct tauti_load *load)
{
	free(load->begin);
	free(load->at_ns);
	free(load->rate);
	free(load->sum);
	*load = (struct tauti_load){ 0 };
}

double tauti_load_until(
	const struct tauti_load *load, uint32_t rank, int64_t at_ns)
{
	size_t lo = load->begin[rank], hi = load->begin[rank + 1];

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (load->at_ns[mid] <= at_ns)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == load->begin[rank])
		return 0;
	return load->sum[lo - 1] + load->rate[lo - 1] *
		(double)(at_ns - load->at_ns[lo - 1]);
}

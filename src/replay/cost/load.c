/* load.c - how much was under way beside a rank, at any time.
 *
 * While transfers of a rank overlap, their rates change with each that begins or
 * ends; their sum does so less. So what they moved in all is spread evenly over
 * the time from the first to the last of them. */
#include <stdlib.h>

#include "load.h"

struct spell { /* of a rank: something moves all the time */
	uint32_t rank;
	int64_t from_ns, to_ns;
	double amount;
};

struct spells {
	TAUT_VEC(struct spell) all;
};

static int by_rank_and_time(const void *a, const void *b)
{
	const struct spell *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->from_ns != y->from_ns)
		return x->from_ns < y->from_ns ? -1 : 1;
	if (x->to_ns != y->to_ns)
		return x->to_ns < y->to_ns ? -1 : 1;
	return x->amount < y->amount ? -1 : x->amount > y->amount;
}

static bool add_flow(struct spells *spells, const struct taut_costs *costs,
	const struct tauti_flow_time *time)
{
	const struct taut_graph *g = costs->graph;
	const struct taut_collective *c = &g->collectives[time->collective];
	const struct taut_transfer *t = &costs->transfers[time->collective];
	struct spell spell = { .from_ns = time->begin_ns,
		.to_ns = time->end_ns, .amount = t->amount };
	bool ok = true;

	if (time->begin_ns == INT64_MAX)
		return true;
	spell.from_ns += t->latency_ns;
	if (spell.from_ns >= spell.to_ns || !(t->amount > 0))
		return true;
	for (uint32_t i = 0; ok && i < c->n_members; i++) {
		spell.rank = tauti_member_rank(g, c, i);
		ok = taut_vec_push(&spells->all, spell);
	}
	return ok;
}

/* Spells that overlap become one; the others stay in their order. */
static void merge(struct spells *spells)
{
	size_t kept = 0;

	for (size_t i = 0; i < spells->all.count; i++) {
		const struct spell *s = &spells->all.data[i];
		struct spell *last = &spells->all.data[kept ? kept - 1 : 0];

		if (!kept || s->rank != last->rank ||
			s->from_ns >= last->to_ns) {
			spells->all.data[kept++] = *s;
			continue;
		}
		last->amount += s->amount;
		if (s->to_ns > last->to_ns)
			last->to_ns = s->to_ns;
	}
	spells->all.count = kept;
}

static bool lay(struct tauti_load *load, const struct spells *spells,
	uint32_t n_ranks)
{
	size_t n = spells->all.count;
	uint32_t rank = 0;

	load->begin = calloc((size_t)n_ranks + 2, sizeof *load->begin);
	load->spells = calloc(n + 1, sizeof *load->spells);
	if (!load->begin || !load->spells)
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct spell *s = &spells->all.data[i];
		struct tauti_spell *to = &load->spells[i];

		while (rank < s->rank)
			load->begin[++rank] = i;
		*to = (struct tauti_spell){ .from_ns = s->from_ns,
			.to_ns = s->to_ns, .amount = s->amount };
		if (i == load->begin[rank])
			continue;
		to->before = to[-1].before + to[-1].amount;
		to->before_ns = to[-1].before_ns + to[-1].to_ns -
			to[-1].from_ns;
	}
	while (rank < n_ranks)
		load->begin[++rank] = n;
	return true;
}

taut_status tauti_load_init(struct tauti_load *load,
	const struct taut_costs *costs, const struct tauti_flow_time *times,
	struct taut_error *err)
{
	struct spells spells = { 0 };
	bool ok = true;

	*load = (struct tauti_load){ 0 };
	for (uint32_t i = 0; ok && i < costs->graph->n_collectives; i++)
		ok = add_flow(&spells, costs, &times[i]);
	if (ok && spells.all.count)
		qsort(spells.all.data, spells.all.count,
			sizeof *spells.all.data, by_rank_and_time);
	merge(&spells);
	ok = ok && lay(load, &spells, costs->site.n_ranks);
	taut_vec_free(&spells.all);
	if (ok)
		return TAUT_OK;
	tauti_load_fini(load);
	return taut_error_set(err, TAUT_ENOMEM, -1,
		"no memory for what was under way");
}

void tauti_load_fini(struct tauti_load *load)
{
	free(load->begin);
	free(load->spells);
	*load = (struct tauti_load){ 0 };
}

struct tauti_moved tauti_load_until(
	const struct tauti_load *load, uint32_t rank, int64_t at_ns)
{
	size_t lo = load->begin[rank], hi = load->begin[rank + 1];
	const struct tauti_spell *s;
	int64_t of_ns;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (load->spells[mid].from_ns <= at_ns)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == load->begin[rank])
		return (struct tauti_moved){ 0 };
	s = &load->spells[lo - 1];
	of_ns = (at_ns < s->to_ns ? at_ns : s->to_ns) - s->from_ns;
	return (struct tauti_moved){
		.amount = s->before + s->amount * (double)of_ns /
			(double)(s->to_ns - s->from_ns),
		.busy_ns = s->before_ns + of_ns,
	};
}

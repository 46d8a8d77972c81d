/* meets.c - operations that tell the time, by rank and by the set of their ranks. */
#include <stdlib.h>
#include <string.h>

#include "graph/meets.h"

enum { LEVEL_WEIGHT = 1000 }; /* a collective against a send/recv */

bool tauti_tells_time(const struct taut_collective *c)
{
	return c->n_members > 1 && (taut_coll_levels(c->kind) ||
		c->kind == TAUT_COLL_SENDRECV);
}

static const uint32_t *members(const struct tauti_match *m, uint32_t coll)
{
	return &m->member_rank.data[m->collectives.data[coll].first_member];
}

/* begin[r + 1] counts what rank r has: becomes where it begins. */
static void add_up(uint32_t *begin, uint32_t n_ranks)
{
	for (uint32_t r = 0; r < n_ranks; r++)
		begin[r + 1] += begin[r];
}

/* After filling, begin[r] is where r + 1 begins: moves it back. */
static void step_back(uint32_t *begin, uint32_t n_ranks)
{
	memmove(begin + 1, begin, n_ranks * sizeof *begin);
	begin[0] = 0;
}

static bool list_by_rank(struct tauti_meets *s, uint32_t n_ranks)
{
	const struct tauti_match *m = s->match;

	s->begin = calloc((size_t)n_ranks + 2, sizeof *s->begin);
	s->meets = malloc((m->member_rank.count + 1) * sizeof *s->meets);
	if (!s->begin || !s->meets)
		return false;
	for (uint32_t i = 0; i < m->collectives.count; i++) {
		const struct taut_collective *c = &m->collectives.data[i];

		for (uint32_t k = 0; tauti_tells_time(c) && k < c->n_members; k++)
			s->begin[members(m, i)[k] + 1]++;
	}
	add_up(s->begin, n_ranks);
	for (uint32_t i = 0; i < m->collectives.count; i++) {
		const struct taut_collective *c = &m->collectives.data[i];

		for (uint32_t k = 0; tauti_tells_time(c) && k < c->n_members; k++)
			s->meets[s->begin[members(m, i)[k]]++] =
				(struct tauti_meet) { i, m->member_comm.data[
					c->first_member + k] };
	}
	step_back(s->begin, n_ranks);
	return true;
}

/* --- sets of ranks ---------------------------------------------------------------*/

struct signed_coll {
	uint64_t signature; /* of its ranks */
	uint32_t coll;
};

static int by_signature(const void *a, const void *b)
{
	const struct signed_coll *x = a, *y = b;

	if (x->signature != y->signature)
		return x->signature < y->signature ? -1 : 1;
	return x->coll < y->coll ? -1 : x->coll > y->coll;
}

static uint64_t sign(const struct tauti_match *m, uint32_t coll)
{
	uint64_t h = 0;

	for (uint32_t k = 0; k < m->collectives.data[coll].n_members; k++) {
		h = (h + 1 + members(m, coll)[k]) * 0x9e3779b97f4a7c15u;
		h ^= h >> 31;
	}
	return h;
}

static bool same_ranks(const struct tauti_match *m, uint32_t a, uint32_t b)
{
	uint32_t n = m->collectives.data[a].n_members;

	return n == m->collectives.data[b].n_members && !memcmp(members(m, a),
		members(m, b), n * sizeof *members(m, a));
}

/* Two sets of one signature are told apart where they follow each other, or are
 * counted as several of the same, which does not matter. */
static bool find_sets(struct tauti_meets *s)
{
	const struct tauti_match *m = s->match;
	struct signed_coll *all = malloc((m->collectives.count + 1) * sizeof *all);
	size_t n = 0;

	s->sets = malloc((m->collectives.count + 1) * sizeof *s->sets);
	for (uint32_t i = 0; all && s->sets && i < m->collectives.count; i++)
		if (tauti_tells_time(&m->collectives.data[i]))
			all[n++] = (struct signed_coll) { sign(m, i), i };
	if (n)
		qsort(all, n, sizeof *all, by_signature);
	for (size_t i = 0; i < n; i++) {
		uint32_t coll = all[i].coll;

		if (!s->n_sets || !same_ranks(m, s->sets[s->n_sets - 1].coll, coll))
			s->sets[s->n_sets++] = (struct tauti_meet_set) { coll, 0 };
		s->sets[s->n_sets - 1].weight += taut_coll_levels(
			m->collectives.data[coll].kind) ? LEVEL_WEIGHT : 1;
	}
	free(all);
	return all && s->sets;
}

static bool list_sets_by_rank(struct tauti_meets *s, uint32_t n_ranks)
{
	const struct tauti_match *m = s->match;

	s->set_begin = calloc((size_t)n_ranks + 2, sizeof *s->set_begin);
	if (!s->set_begin)
		return false;
	for (size_t i = 0; i < s->n_sets; i++) {
		uint32_t coll = s->sets[i].coll;

		for (uint32_t k = 0; k < m->collectives.data[coll].n_members; k++)
			s->set_begin[members(m, coll)[k] + 1]++;
	}
	add_up(s->set_begin, n_ranks);
	s->set_of = malloc(((size_t)s->set_begin[n_ranks] + 1) *
		sizeof *s->set_of);
	if (!s->set_of)
		return false;
	for (uint32_t i = 0; i < s->n_sets; i++) {
		uint32_t coll = s->sets[i].coll;

		for (uint32_t k = 0; k < m->collectives.data[coll].n_members; k++)
			s->set_of[s->set_begin[members(m, coll)[k]]++] = i;
	}
	step_back(s->set_begin, n_ranks);
	return true;
}

/* --- the whole ---------------------------------------------------------------------*/

bool tauti_meets_init(struct tauti_meets *meets, const struct tauti_match *match,
	uint32_t n_ranks)
{
	*meets = (struct tauti_meets) { .match = match };
	return list_by_rank(meets, n_ranks) && find_sets(meets) &&
		list_sets_by_rank(meets, n_ranks);
}

void tauti_meets_fini(struct tauti_meets *meets)
{
	free(meets->begin);
	free(meets->meets);
	free(meets->set_begin);
	free(meets->set_of);
	free(meets->sets);
}

void tauti_meets_count(const struct tauti_meets *meets, uint32_t rank,
	uint32_t *shared)
{
	const struct tauti_match *m = meets->match;

	for (uint32_t i = meets->set_begin[rank]; i < meets->set_begin[rank + 1];
		i++) {
		const struct tauti_meet_set *set = &meets->sets[meets->set_of[i]];
		uint32_t n = m->collectives.data[set->coll].n_members;

		for (uint32_t k = 0; k < n; k++)
			shared[members(m, set->coll)[k]] += set->weight;
	}
}

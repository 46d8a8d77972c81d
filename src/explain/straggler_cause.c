/* straggler_cause.c - what stands out, in words. */
#include <stdlib.h>

#include "explain/stragglers.h"

static const double worth_telling = 1.01;
static const double most_of_it = 0.4; /* of the slowdown */

enum { CLASSES_TRIED = 8 };

struct excess { /* of one class, in the place and elsewhere */
	double in, out, over;
	uint32_t n_in, n_out;
	uint32_t class;
};

static int by_over(const void *a, const void *b)
{
	const struct excess *x = a, *y = b;
	if (x->over != y->over)
		return x->over > y->over ? -1 : 1;
	return x->class < y->class ? -1 : x->class > y->class;
}

/* Classes whose members in the place take longer than is usual, those that are
 * over most first. */
static uint32_t list_excess(const struct tauti_lag *l, enum taut_straggler_by by,
	int32_t number, struct excess *sums)
{
	const struct taut_graph *g = l->g;
	uint32_t n = 0;
	for (uint32_t i = 0; i < l->n_classes; i++)
		sums[i] = (struct excess){ .class = i };
	for (uint32_t op = 0; op < g->n_ops; op++) {
		uint32_t trace = g->lanes[g->lane[op]].trace;
		struct excess *s;
		if (l->type_of[op] == TAUT_NONE || trace == TAUT_NONE)
			continue;
		s = &sums[l->class_of[op]];
		if (l->number[by][trace] == number) {
			s->in += (double)g->dur_ns[op];
			s->over += (double)(g->dur_ns[op] - l->ideal_ns[op]);
			s->n_in++;
		} else {
			s->out += (double)g->dur_ns[op];
			s->n_out++;
		}
	}
	for (uint32_t i = 0; i < l->n_classes; i++)
		if (sums[i].over > 0 && sums[i].out > 0)
			sums[n++] = sums[i];
	qsort(sums, n, sizeof *sums, by_over);
	return n;
}

/* The class that the steps are longest by: what is over most may be hidden. */
static taut_status find_excess(struct tauti_lag *l, enum taut_straggler_by by,
	int32_t number, const struct excess **ret_excess, struct taut_error *err)
{
	struct excess *sums = TAUT_ARENA_ARRAY(
		l->arena, struct excess, l->n_classes + 1);
	struct tauti_lag_row rows[CLASSES_TRIED];
	uint32_t n = sums ? list_excess(l, by, number, sums) : 0, best = 0;
	taut_status status = sums ? TAUT_OK : tauti_lag_no_memory(err);
	*ret_excess = n ? sums : NULL;
	if (n > CLASSES_TRIED)
		n = CLASSES_TRIED;
	for (uint32_t i = 0; i < n; i++)
		rows[i] = (struct tauti_lag_row){ .by = by, .inverse = true,
			.member = (uint32_t)number, .one_class = true,
			.class = sums[i].class };
	if (n > 1)
		status = tauti_lag_replay(l, rows, n, err);
	for (uint32_t i = 1; i < n && !status; i++)
		if (rows[i].sum_ns < rows[best].sum_ns)
			best = i;
	if (n)
		*ret_excess = &sums[best];
	return status;
}

/* Which part of the slowdown goes when the top row of each table is ideal and
 * all else as it was. */
static taut_status repair(struct tauti_lag *l,
	double part[TAUT_BY_TYPE], struct taut_error *err)
{
	struct tauti_lag_row rows[TAUT_BY_TYPE];
	int64_t nodelay = 0, ideal = 0;
	size_t n = 0;
	taut_status status;
	for (uint32_t i = 0; i < l->public.n_steps; i++) {
		nodelay += l->public.steps[i].nodelay_ns;
		ideal += l->public.steps[i].ideal_ns;
	}
	for (int by = 0; by < TAUT_BY_TYPE; by++) {
		part[by] = 0;
		if (l->public.by[by].n > 1)
			rows[n++] = (struct tauti_lag_row){ .by =
				(enum taut_straggler_by)by, .inverse = true,
				.member = (uint32_t)
				l->public.by[by].rows[0].number };
	}
	status = tauti_lag_replay(l, rows, n, err);
	for (size_t i = 0; i < n && !status && nodelay > ideal; i++)
		part[rows[i].by] = (double)(nodelay - rows[i].sum_ns) /
			(double)(nodelay - ideal);
	return status;
}

static taut_status say_place(struct tauti_lag *l, enum taut_straggler_by by,
	struct taut_error *err)
{
	struct taut_stragglers *p = &l->public;
	const struct taut_straggler_row *row = &p->by[by].rows[0];
	const struct excess *e = NULL;
	const char *which = by != TAUT_BY_STAGE ? "" : !row->number ?
		", the first," : row->number == (int32_t)p->by[by].n - 1 ?
		", the last," : "";
	const char *how = "";
	taut_status status = find_excess(l, by, row->number, &e, err);
	if (status)
		return status;
	if (e)
		how = taut_arena_printf(l->arena, ": its %s takes %.2f times "
			"what it takes elsewhere", l->class_name[e->class],
			e->in / e->n_in / (e->out / e->n_out));
	p->cause_number = row->number;
	p->sentence = how ? taut_arena_printf(l->arena,
		"%s %d%s is too slow%s. If it took what is usual, %.0f %% of "
		"the slowdown would go.",
		by == TAUT_BY_STAGE ? "Pipeline stage" :
		by == TAUT_BY_REPLICA ? "Replica" : "Rank",
		(int)row->number, which, how, p->repair_pct) : NULL;
	return p->sentence ? TAUT_OK : tauti_lag_no_memory(err);
}

static bool say_spread(struct tauti_lag *l)
{
	struct taut_stragglers *p = &l->public;
	const struct taut_straggler_table *t = &p->by[TAUT_BY_TYPE];
	p->sentence = p->n_ranks < 2 && p->slowdown < worth_telling ?
		"One rank alone has no other to be compared with, and its steps "
		"are no longer than they must be." :
		p->slowdown < 2 - worth_telling ?
		"The ranks do unlike work: what their operations take in the "
		"mean is no ideal for them." :
		p->slowdown < worth_telling || !t->n ?
		"No straggler worth naming: the workers are alike." :
		taut_arena_printf(l->arena, "No stage, replica or rank stands "
			"out alone: operations of one type take unlike times "
			"all over the job, most in %s (%.3f).",
			t->rows[0].name, t->rows[0].slowdown);
	return p->sentence != NULL;
}

/* One rank before its stage, and a stage before replicas: the narrowest place
 * that is most of it. */
taut_status tauti_lag_cause(struct tauti_lag *l, struct taut_error *err)
{
	static const enum taut_straggler_by order[] = { TAUT_BY_RANK,
		TAUT_BY_STAGE, TAUT_BY_REPLICA };
	struct taut_stragglers *p = &l->public;
	double part[TAUT_BY_TYPE] = { 0 };
	taut_status status = TAUT_OK;
	p->cause = TAUT_STRAGGLER_BY;
	p->cause_number = -1;
	if (p->slowdown >= worth_telling)
		status = repair(l, part, err);
	for (size_t i = 0; i < 3 && !status &&
		p->cause == TAUT_STRAGGLER_BY; i++)
		if (part[order[i]] >= most_of_it) {
			p->cause = order[i];
			p->repair_pct = 100 * part[order[i]];
		}
	if (status)
		return status;
	for (size_t i = 0; i < 3 && p->cause == TAUT_STRAGGLER_BY; i++)
		if (100 * part[order[i]] > p->repair_pct)
			p->repair_pct = 100 * part[order[i]];
	if (p->cause != TAUT_STRAGGLER_BY)
		return say_place(l, p->cause, err);
	return say_spread(l) ? TAUT_OK : tauti_lag_no_memory(err);
}

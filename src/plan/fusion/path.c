/* path.c - the critical path of the state that was played last, and the sites
 * that lie on it. */
#include <stdlib.h>
#include <string.h>

#include "plan/fusion/own.h"

/* --- the path ------------------------------------------------------------------------ */

enum part { OUTSIDE, LANE, SLOTS };
enum { MOST_RUNS = 5 };

struct run { /* of neighbours on one lane; outside: of whatever */
	enum part part;
	uint32_t first, last; /* places or gradients */
};

struct walk { /* from the end of the path to its begin */
	struct tauti_fusion *f;
	struct run runs[MOST_RUNS + 1]; /* the last of the path first */
	uint32_t n;
	bool is_odd;
};

static uint32_t slot_of(const struct tauti_fusion *f, uint32_t op)
{
	uint32_t i;

	if (!f->n_gradients || op < f->slot_op[0])
		return TAUT_NONE;
	i = op - f->slot_op[0];
	return i < f->n_gradients ? i : TAUT_NONE;
}

static struct run run_of(const struct tauti_fusion *f, uint32_t op)
{
	uint32_t place = op - f->first_op, slot = slot_of(f, op);

	if (op >= f->first_op && place < f->n_places)
		return (struct run) { LANE, place, place };
	if (slot != TAUT_NONE)
		return (struct run) { SLOTS, slot, slot };
	return (struct run) { OUTSIDE, 0, 0 };
}

/* A slot that started when what it carries was ready. */
static void mark_ready(struct walk *w, uint32_t gradient, uint32_t place)
{
	uint32_t ready = w->f->laid[gradient].ready;

	w->f->by_ready[gradient] = 1;
	w->is_odd |= ready == TAUT_NONE ||
		tauti_fusion_place(w->f, ready) != place;
}

static void see(struct walk *w, uint32_t op)
{
	struct run at = run_of(w->f, op);
	struct run *run = w->n ? &w->runs[w->n - 1] : NULL;

	if (at.part == LANE)
		w->f->on_path[at.first] = 1;
	if (at.part == SLOTS)
		w->f->slot_on_path[at.first] = 1;
	if (run && run->part == SLOTS && at.part == LANE)
		mark_ready(w, run->first, at.first);
	if (run && run->part == at.part &&
		(at.part == OUTSIDE || at.first + 1 == run->first))
		run->first = at.first;
	else if (w->n < MOST_RUNS)
		w->runs[w->n++] = at;
	else
		w->is_odd = true;
}

/* From its begin: perhaps what is outside, operators, perhaps slots, then perhaps
 * operators, perhaps what is outside. */
static void match(struct walk *w, struct tauti_path *path)
{
	uint32_t n = w->n;
	struct run end = { OUTSIDE, 0, 0 };

#define NEXT(kind) (n && w->runs[n - 1].part == (kind) ? w->runs[--n] : end)
	struct run before = NEXT(OUTSIDE), run = NEXT(LANE);

	(void)before;
	path->has_form = run.part == LANE && !w->is_odd;
	path->enter = run.first;
	path->leave = run.last;
	run = NEXT(SLOTS);
	if (run.part == SLOTS) {
		path->first_slot = run.first;
		path->last_slot = run.last;
		run = NEXT(LANE);
		if (run.part == LANE) {
			path->back = run.first;
			path->end = run.last;
		}
	}
	(void)NEXT(OUTSIDE);
#undef NEXT
	path->has_form &= !n;
}

static void add_up(struct tauti_fusion *f)
{
	const struct taut_graph *g = f->graph;
	int64_t sum = 0;

	for (uint32_t i = 0; i < f->n_places; i++) {
		uint32_t operator_ = f->operator_at[i], op = f->first_op + i;

		sum += g->gap_ns[op] + (operator_ == TAUT_NONE ?
			g->dur_ns[op] : f->laid_ns[operator_]);
		f->along_ns[i] = sum;
	}
}

void tauti_fusion_find_path(struct tauti_fusion *f)
{
	struct walk w = { .f = f };
	uint32_t op = f->engine->last(f->played);

	if (f->has_path)
		return;
	f->has_path = true;
	memset(f->on_path, 0, f->n_places);
	memset(f->slot_on_path, 0, f->n_gradients);
	memset(f->by_ready, 0, f->n_gradients);
	f->path = (struct tauti_path) { false, TAUT_NONE, TAUT_NONE, TAUT_NONE,
		TAUT_NONE, TAUT_NONE, TAUT_NONE };
	for (; op != TAUT_NONE; op = f->engine->decided_by(f->played, op))
		see(&w, op);
	match(&w, &f->path);
	f->path.has_form &= f->is_in_order;
	add_up(f);
}

/* --- what lies on it -------------------------------------------------------------------- */

static int64_t weight_of_operator(const struct tauti_fusion *f, uint32_t i)
{
	uint32_t last = f->last[i];

	return f->on_path[tauti_fusion_place(f, last)] ? f->laid_ns[last] : 0;
}

/* Of the group that holds it, if any of its slots is on the path. */
static int64_t weight_of_group(const struct tauti_fusion *f, uint32_t gradient)
{
	int64_t sum = 0;
	bool is_on = false;
	uint32_t i = gradient;

	while (f->joined[i])
		i--;
	do {
		is_on |= f->slot_on_path[i];
		sum += f->laid[i].dur_ns;
	} while (++i < f->n_gradients && f->joined[i]);
	return is_on ? sum : 0;
}

static int64_t weight_of(const struct tauti_fusion *f, uint32_t site)
{
	uint32_t gradient;

	if (site < f->n_pairs) {
		const struct tauti_fusion_flow *flow =
			&f->flows[f->site_flow[site]];

		return weight_of_operator(f, flow->from) +
			(f->last[flow->from] == f->last[flow->to] ? 0 :
			weight_of_operator(f, flow->to));
	}
	gradient = site - f->n_pairs + 1;
	if (f->space.pass[site] == TAUTI_FUSION_TENSORS)
		return weight_of_group(f, gradient) + (f->joined[gradient] ? 0 :
			weight_of_group(f, gradient - 1));
	gradient -= f->n_gradients;
	return f->joined[gradient] ? 0 : weight_of_group(f, gradient);
}

static int by_weight(const void *a, const void *b)
{
	const struct tauti_weight *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	return x->site < y->site ? -1 : x->site > y->site;
}

uint32_t tauti_fusion_critical(void *self, uint32_t *ret_sites, uint32_t most)
{
	struct tauti_fusion *f = self;
	uint32_t n = 0;

	if (!f->is_played)
		return 0;
	tauti_fusion_find_path(f);
	for (uint32_t i = 0; i < f->space.n_sites; i++) {
		int64_t ns = weight_of(f, i);

		if (ns > 0)
			f->weights[n++] = (struct tauti_weight) { ns, i };
	}
	qsort(f->weights, n, sizeof *f->weights, by_weight);
	if (n > most)
		n = most;
	for (uint32_t i = 0; i < n; i++)
		ret_sites[i] = f->weights[i].site;
	return n;
}

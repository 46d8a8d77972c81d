/* late.c - who is late, and why.
 *
 * From each rank's arrival at a collective the chain of deciding waits is
 * followed back to the end of a collective that it waited for, or of the last one that
 * was over when the first rank arrived (all its ranks are level there if they all took
 * part in that one, and several may be under way at a time), and its time summed by
 * category and by name. What the last rank has beyond the others' average is why it was
 * last. It counts for the rank on which most of the chain lies. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "explain/explain.h"

enum {
	MAX_NAMED = 8,
	MAX_CHAIN = 8192, /* operations: what is further back is not followed */
	MAX_AT_ONCE = 256, /* collectives that are under way */
};
static const double named_share = 0.15; /* of all waiting that was caused */

struct end { /* of a collective, for this rank */
	int64_t at;
	const struct taut_collective *of;
};

struct ends {
	TAUT_VEC(struct end) all;
};

struct account {
	int64_t *waited;   /* by rank: that others waited for it, added up */
	int64_t *until;    /* by rank: when its last wait so far was over */
	int64_t *by_name;  /* ranks x names: excess of late chains */
	int64_t *chain;    /* names: one chain, cleared after use */
	uint32_t *touched; /* names in chain */
	uint32_t n_touched, n_names;
	uint8_t *category; /* by name: of its operations */
	struct ends *ends; /* by rank: when its collectives ended so far */
	int64_t begin;     /* when the last recording began */
	const struct taut_collective **in; /* by rank: the last one weighed of
	                                      which it is a member */
	const struct taut_collective *weighed;
	int64_t *on;       /* by rank: time of one chain, cleared after use */
	uint32_t *through; /* ranks in on */
	uint32_t n_through;
	struct levelling {
		const struct taut_collective *weighed, *of;
		int64_t at; /* INT64_MIN: the ranks are not level there */
	} found; /* for one after another of its ranks, mostly */
};

struct chain {
	int64_t ns[TAUT_CATEGORIES];
	int64_t stall_ns;
	int64_t level; /* where it ended */
	uint32_t rank; /* with most of it: a chain may lead through several */
};

static void charge_rank(struct account *a, uint32_t rank, int64_t ns)
{
	if (!a->on[rank])
		a->through[a->n_through++] = rank;
	a->on[rank] += ns;
}

/* The rank with most of the chain; of several the one where it begins. */
static uint32_t most_on(struct account *a, uint32_t last)
{
	uint32_t most = last;

	for (uint32_t i = 0; i < a->n_through; i++)
		if (a->on[a->through[i]] >= a->on[most])
			most = a->through[i];
	while (a->n_through)
		a->on[a->through[--a->n_through]] = 0;
	return most;
}

static void charge(struct account *a, struct chain *c, enum taut_category cat,
	uint32_t name, int64_t ns)
{
	charge_rank(a, c->rank, ns);
	c->ns[cat] += ns;
	if (!a->chain[name])
		a->touched[a->n_touched++] = name;
	a->chain[name] += ns;
}

/* When the rank began the step before the one in which `at` lies. */
static int64_t step_before(const struct tauti_explain *x, uint32_t rank,
	int64_t at)
{
	const struct tauti_facts *f = &x->facts[rank];
	uint32_t lo = f->first_step, hi = f->end_step;

	if (f->first_step == TAUT_NONE)
		return INT64_MIN;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (x->g->steps[mid].start_ns <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo >= f->first_step + 2 ? x->g->steps[lo - 2].start_ns :
		INT64_MIN;
}

/* Took all ranks of the one that is weighed part in it? Of others nothing is level
 * after it: not of stage 1 after what stages 2 and 3 sent each other. */
static bool has_all(const struct tauti_explain *x, const struct account *a,
	const struct taut_collective *c)
{
	uint32_t left = a->weighed->n_members;

	for (uint32_t i = 0; left && left <= c->n_members - i; i++)
		left -= a->in[tauti_rank_of(x->g, x->g->member_arrive[
			c->first_member + i])] == a->weighed;
	return !left;
}

/* When the ranks were last level before `at`: the end of the latest
 * collective of them all that was over by then. What is further back than a
 * whole step is not looked at. Ends are in the order in which collectives were
 * complete, of which some are under way at once. */
static int64_t level_before(const struct tauti_explain *x,
	const struct account *a, uint32_t rank, int64_t at)
{
	const struct ends *ends = &a->ends[rank];
	int64_t level = step_before(x, rank, at);
	size_t seen = 0;

	if (level < a->begin)
		level = a->begin;
	for (size_t i = ends->all.count; i-- > 0 && seen < MAX_AT_ONCE;) {
		const struct end *end = &ends->all.data[i];

		if (end->at > at)
			continue;
		seen++;
		if (end->at > level && has_all(x, a, end->of))
			level = end->at;
	}
	return level;
}

/* Are its ranks level afterwards? Not after a broadcast or a reduce: their
 * trees leave some ranks long before others. */
static bool levels(enum taut_coll_kind kind)
{
	return kind != TAUT_COLL_BROADCAST && kind != TAUT_COLL_REDUCE;
}

/* When the first of its ranks was through, for all of them: where they are level. */
static int64_t end_of(const struct tauti_explain *x, const struct taut_collective *c)
{
	int64_t first = INT64_MAX;

	for (uint32_t i = 0; i < c->n_members; i++) {
		int64_t end = x->base.end_ns[x->g->member_arrive[c->first_member + i] + 1];

		first = end < first ? end : first;
	}
	return first;
}

/* Is op the transfer of a collective after which the ranks of the one that is weighed are
 * level? Then when. */
static bool is_levelling(const struct tauti_explain *x, struct account *a,
	uint32_t op, int64_t *ret_at)
{
	const struct taut_graph *g = x->g;
	const struct taut_collective *c = g->kind[op] != TAUT_OP_TRANSFER ||
		g->collective[op] == TAUT_NONE ? NULL :
		&g->collectives[g->collective[op]];

	if (!c || !levels(c->kind))
		return false;
	if (a->found.weighed != a->weighed || a->found.of != c)
		a->found = (struct levelling) { a->weighed, c,
			has_all(x, a, c) ? end_of(x, c) : INT64_MIN };
	*ret_at = a->found.at;
	return a->found.at != INT64_MIN;
}

/* Time on the deciding chain of an arrival, back to where the ranks were
 * level: to `level` at most. Where the chain waited for another rank it goes on there. */
static struct chain follow(const struct tauti_explain *x, struct account *a,
	uint32_t op, int64_t level)
{
	const struct taut_timeline *t = &x->base;
	int64_t until = t->start_ns[op];
	uint32_t last = tauti_rank_of(x->g, op), steps = 0;
	struct chain c = { .level = level, .rank = last };

	for (op = t->decided_by[op]; op != TAUT_NONE && until > level &&
		steps++ < MAX_CHAIN; op = t->decided_by[op]) {
		int64_t start = t->start_ns[op], end = t->end_ns[op], usual, at;

		if (x->g->kind[op] == TAUT_OP_JOIN)
			continue;
		if (end > level && is_levelling(x, a, op, &at)) {
			c.ns[TAUT_CAT_OTHER] += until > end ? until - end : 0;
			c.level = at > level ? at : level;
			break;
		}
		c.rank = tauti_rank_of(x->g, op);
		if (start < level)
			start = level;
		if (end > until)
			end = until;
		if (end < start)
			end = start;
		if (until > end) /* what no known wait explains, launch lags */
			c.ns[TAUT_CAT_OTHER] += until - end;
		if (end > start)
			charge(a, &c, x->op_category[op], x->g->name[op],
				end - start);
		if (end - start > 0 && tauti_is_stall(x, op, &usual))
			c.stall_ns += end - start > usual ? end - start -
				usual : 0;
		if (start < until)
			until = start;
	}
	c.rank = most_on(a, last);
	return c;
}

/* Moves the chain into a rank's account, times n / parts. */
static void settle(struct account *a, uint32_t rank, const struct chain *chain,
	struct taut_report_late *late, int64_t n, int64_t parts)
{
	late[rank].stall_ns += chain->stall_ns * n / parts;
	for (int k = 0; k < TAUT_CATEGORIES; k++)
		late[rank].excess_ns[k] += chain->ns[k] * n / parts;
	for (uint32_t i = 0; i < a->n_touched; i++) {
		uint32_t name = a->touched[i];

		a->by_name[(size_t)rank * a->n_names + name] +=
			a->chain[name] * n / parts;
		a->chain[name] = 0;
	}
	a->n_touched = 0;
}

/* ret_anew: without what a rank waits for several at once. Collectives come in the order
 * in which their last ranks do. */
static uint32_t last_of(const struct taut_graph *g, const struct taut_collective *c,
	struct account *a, int64_t *ret_waited, int64_t *ret_anew)
{
	uint32_t last = g->member_arrive[c->first_member];

	*ret_waited = *ret_anew = 0;
	for (uint32_t i = 0; i < c->n_members; i++) {
		uint32_t op = g->member_arrive[c->first_member + i];
		int64_t from = g->start_ns[op], to = g->start_ns[op + 1];
		int64_t *until = &a->until[tauti_rank_of(g, op)];

		*ret_waited += to - from;
		if (from < *until)
			from = *until;
		*ret_anew += to > from ? to - from : 0;
		if (to > *until)
			*until = to;
		if (g->start_ns[op] > g->start_ns[last])
			last = op;
	}
	return last;
}

/* When the first of its ranks arrives. */
static int64_t first_of(const struct tauti_explain *x, const struct taut_collective *c)
{
	int64_t first = INT64_MAX;

	for (uint32_t i = 0; i < c->n_members; i++) {
		int64_t at = x->base.start_ns[x->g->member_arrive[c->first_member + i]];

		first = at < first ? at : first;
	}
	return first;
}

static bool weigh(const struct tauti_explain *x, struct account *a,
	const struct taut_collective *c, struct taut_report_late *late)
{
	const struct taut_graph *g = x->g;
	int64_t others = c->n_members - 1, waited, anew, first = first_of(x, c);
	int64_t all_others = x->report->n_ranks > 1 ? x->report->n_ranks - 1 : 1;
	uint32_t last = last_of(g, c, a, &waited, &anew), rank;
	struct chain chain;
	int64_t level;

	a->weighed = c;
	for (uint32_t i = 0; i < c->n_members; i++)
		a->in[tauti_rank_of(g, g->member_arrive[c->first_member + i])] = c;
	chain = follow(x, a, last, level_before(x, a, tauti_rank_of(g, last), first));
	level = chain.level;
	rank = chain.rank;
	late[tauti_rank_of(g, last)].last_arrivals++;
	late[rank].caused_ns += anew / all_others;
	a->waited[rank] += waited / all_others;
	settle(a, rank, &chain, late, others, all_others);
	for (uint32_t i = 0; i < c->n_members; i++) {
		uint32_t op = g->member_arrive[c->first_member + i];

		late[tauti_rank_of(g, op)].wait_ns +=
			g->start_ns[op + 1] - g->start_ns[op];
		if (op == last)
			continue;
		chain = follow(x, a, op, level);
		settle(a, rank, &chain, late, -1, all_others);
	}
	level = levels(c->kind) ? end_of(x, c) : 0;
	for (uint32_t i = 0; levels(c->kind) && i < c->n_members; i++) {
		uint32_t op = g->member_arrive[c->first_member + i];

		if (!taut_vec_push(&a->ends[tauti_rank_of(g, op)].all,
			((struct end) { level, c })))
			return false;
	}
	return true;
}

/* Where the rank's longest operation of this name stands in the model. */
static const char *module_of(const struct tauti_explain *x, uint32_t rank,
	uint32_t name)
{
	const struct taut_graph *g = x->g;
	const struct tauti_facts *f = &x->facts[rank];
	uint32_t longest = TAUT_NONE;

	for (uint32_t op = g->lane_begin[f->first_lane];
		op < g->lane_begin[f->end_lane]; op++)
		if (g->name[op] == name && (longest == TAUT_NONE ||
			g->dur_ns[op] > g->dur_ns[longest]))
			longest = op;
	return longest == TAUT_NONE ? "" : tauti_module(x, longest);
}

/* Where a rank is waited for in several collectives at once, what its ways there have
 * more counts once. */
static void count_once(const struct account *a, uint32_t rank, struct taut_report_late *late)
{
	int64_t *row = a->by_name + (size_t)rank * a->n_names;
	double share = a->waited[rank] > 0 ?
		(double)late->caused_ns / (double)a->waited[rank] : 1;

	if (late->caused_ns >= a->waited[rank])
		return;
	for (int k = 0; k < TAUT_CATEGORIES; k++)
		late->excess_ns[k] = llround((double)late->excess_ns[k] * share);
	late->stall_ns = llround((double)late->stall_ns * share);
	for (uint32_t i = 0; i < a->n_names; i++)
		row[i] = llround((double)row[i] * share);
}

static void name_cause(const struct tauti_explain *x, const struct account *a,
	uint32_t rank, struct taut_report_late *late)
{
	uint32_t best = 0;
	const int64_t *row = a->by_name + (size_t)rank * a->n_names;

	late->cause = TAUT_CAT_COMPUTE;
	for (int k = 0; k < TAUT_CATEGORIES; k++)
		if (late->excess_ns[k] > late->excess_ns[late->cause])
			late->cause = (enum taut_category)k;
	for (uint32_t i = 0; i < a->n_names; i++)
		if (a->category[i] == late->cause && (row[i] > row[best] ||
			a->category[best] != late->cause))
			best = i;
	late->cause_op = row[best] > 0 ? taut_names_text(x->g->names, best) : "";
	if (row[best] > 0 && !best)
		late->cause_op = "(between events)";
	late->cause_op_ns = row[best] > 0 ? row[best] : 0;
	late->cause_module = row[best] > 0 ? module_of(x, rank, best) : "";
}

static int by_caused(const void *a, const void *b)
{
	const struct taut_report_late *x = a, *y = b;

	if (x->caused_ns != y->caused_ns)
		return x->caused_ns > y->caused_ns ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

uint32_t tauti_late_count(const struct taut_report *report)
{
	int64_t total = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < report->n_late; i++)
		total += report->late[i].caused_ns;
	/* at most half of the ranks can be late against the rest */
	while (n < report->n_late && n < MAX_NAMED &&
		2 * (n + 1) <= report->n_ranks && total > 0 &&
		(double)report->late[n].caused_ns >= named_share *
		(double)total)
		n++;
	return n;
}

static bool account_init(struct account *a, const struct tauti_explain *x)
{
	uint32_t ranks = x->report->n_ranks;

	a->n_names = taut_names_count(x->g->names);
	a->by_name = calloc((size_t)ranks * a->n_names + 1, sizeof(int64_t));
	a->chain = calloc(a->n_names + 1, sizeof *a->chain);
	a->touched = malloc((a->n_names + 1) * sizeof *a->touched);
	a->ends = calloc(ranks + 1, sizeof *a->ends);
	a->waited = calloc(ranks + 1, sizeof *a->waited);
	a->in = calloc(ranks + 1, sizeof *a->in);
	a->on = calloc(ranks + 1, sizeof *a->on);
	a->through = malloc((ranks + 1) * sizeof *a->through);
	a->until = malloc((ranks + 1) * sizeof *a->until);
	for (uint32_t i = 0; a->until && i < ranks; i++)
		a->until[i] = INT64_MIN;
	a->begin = INT64_MIN;
	for (uint32_t l = 0; l < x->g->n_lanes; l++)
		if (x->g->lanes[l].is_main && x->g->start_ns[
			x->g->lane_begin[l]] > a->begin)
			a->begin = x->g->start_ns[x->g->lane_begin[l]];
	a->category = calloc(a->n_names + 1, 1);
	for (uint32_t op = 0; a->category && op < x->g->n_ops; op++)
		if (x->g->kind[op] != TAUT_OP_MARK)
			a->category[x->g->name[op]] = x->op_category[op];
	return a->by_name && a->chain && a->touched && a->ends && a->category &&
		a->waited && a->until && a->in && a->on && a->through;
}

taut_status tauti_late_find(struct tauti_explain *x, struct taut_error *err)
{
	struct account a = { 0 };
	struct taut_report *r = x->report;
	struct taut_report_late *late = TAUT_ARENA_ARRAY(x->arena,
		struct taut_report_late, r->n_ranks + 1);
	bool ok = late && account_init(&a, x);

	for (uint32_t i = 0; ok && i < r->n_ranks; i++)
		late[i].rank = r->ranks[i];
	for (uint32_t i = 0; ok && i < x->g->n_collectives; i++)
		ok = x->g->collectives[i].n_members < 2 ||
			weigh(x, &a, &x->g->collectives[i], late);
	for (uint32_t i = 0; ok && i < r->n_ranks; i++) {
		count_once(&a, i, &late[i]);
		name_cause(x, &a, i, &late[i]);
	}
	if (ok) {
		qsort(late, r->n_ranks, sizeof *late, by_caused);
		r->late = late;
		while (r->n_late < r->n_ranks && (late[r->n_late].caused_ns ||
			late[r->n_late].last_arrivals))
			r->n_late++;
	}
	free(a.by_name);
	free(a.waited);
	free(a.in);
	free(a.on);
	free(a.through);
	free(a.until);
	free(a.chain);
	free(a.touched);
	free(a.category);
	for (uint32_t i = 0; a.ends && i < r->n_ranks; i++)
		taut_vec_free(&a.ends[i].all);
	free(a.ends);
	return ok ? TAUT_OK : tauti_explain_no_memory(err);
}

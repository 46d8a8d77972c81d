/* diff.c - see diff.h. */
#include "explain/diff.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "explain/steps.h"

enum side { SIDE_A, SIDE_B, SIDES };

/* What is matched between the recordings: a kind and a name. */
struct key {
	const char *name;
	enum tauti_diff_kind kind;
};

struct table {
	const struct taut_report *report;
	const struct taut_graph *g;
	bool *has_device;  /* by trace */
	uint32_t *key_of;  /* by op: in keys; TAUT_NONE: no time of its own */
	uint32_t *known;   /* by (name, kind): key; TAUT_NONE: not looked up */
	double *ns, *count; /* by (rank, key): a step; ranks: 1 where they differ */
	double *a_step;     /* by trace: what one of its operations adds there */
};

/* What A's durations of one kind on one rank are multiplied with, so that they
 * add up to what the kind takes in B there. */
struct factors {
	double only_a; /* operations that B has not, beside what is below */
	double all;    /* all of them, beside each one's own */
};

struct differ {
	struct table t[SIDES];
	struct factors *factors; /* by (rank, kind) */
	struct taut_names *names; /* of keys: the kind's digit, then the name */
	TAUT_VEC(struct key) keys;
	bool same_ranks;
	uint32_t n_ranks; /* rows of ns and count */
	struct taut_arena *arena;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1,
		"no memory to compare the recordings");
}

/* --- what an operation is ----------------------------------------------------- */

static bool is_host(uint8_t kind)
{
	return kind == TAUT_OP_HOST || kind == TAUT_OP_LAUNCH ||
		kind == TAUT_OP_RETURN;
}

/* TAUTI_DIFF_KINDS: of no time that would be carried over. */
static enum tauti_diff_kind kind_of(const struct table *t, uint32_t op)
{
	const struct taut_graph *g = t->g;
	uint32_t trace = g->lanes[g->lane[op]].trace, event = g->event[op];

	if (g->kind[op] == TAUT_OP_TRANSFER)
		return TAUTI_DIFF_TRANSFER;
	if (g->kind[op] == TAUT_OP_KERNEL)
		return TAUTI_DIFF_COMPUTE;
	if (g->kind[op] == TAUT_OP_COPY)
		return TAUTI_DIFF_COPY;
	if (!is_host(g->kind[op]) || trace == TAUT_NONE)
		return TAUTI_DIFF_KINDS;
	return !t->has_device[trace] && event != TAUT_NONE &&
		g->run->traces[trace].kind[event] == TAUT_KIND_OP ?
		TAUTI_DIFF_COMPUTE : TAUTI_DIFF_HOST;
}

static const char *name_of(const struct table *t, uint32_t op)
{
	const struct taut_graph *g = t->g;

	if (g->kind[op] == TAUT_OP_TRANSFER && g->collective[op] != TAUT_NONE)
		return taut_coll_kind_name(
			g->collectives[g->collective[op]].kind);
	return taut_names_text(g->names, g->name[op]);
}

static uint32_t add_key(
	struct differ *d, const char *name, enum tauti_diff_kind kind)
{
	size_t len = strlen(name);
	char *text = malloc(len + 2);
	uint32_t id = TAUT_NONE;

	if (!text)
		return TAUT_NONE;
	text[0] = (char)('0' + kind);
	memcpy(text + 1, name, len + 1);
	id = taut_names_add(d->names, text, len + 1);
	free(text);
	if (id == TAUT_NONE || id < d->keys.count)
		return id;
	return taut_vec_push(&d->keys, ((struct key) { name, kind })) ?
		id : TAUT_NONE;
}

static bool find_keys(struct differ *d, struct table *t)
{
	const struct taut_graph *g = t->g;

	for (uint32_t op = 0; op < g->n_ops; op++) {
		enum tauti_diff_kind kind = kind_of(t, op);
		uint32_t *known;

		t->key_of[op] = TAUT_NONE;
		if (kind == TAUTI_DIFF_KINDS)
			continue;
		known = &t->known[g->name[op] * TAUTI_DIFF_KINDS + kind];
		if (kind == TAUTI_DIFF_TRANSFER || *known == TAUT_NONE)
			*known = add_key(d, name_of(t, op), kind);
		if (*known == TAUT_NONE)
			return false;
		t->key_of[op] = *known;
	}
	return true;
}

static bool table_init(struct differ *d, struct table *t,
	const struct taut_report *report)
{
	const struct taut_graph *g = report->graph;
	size_t n_known = (size_t)taut_names_count(g->names) * TAUTI_DIFF_KINDS;

	t->report = report;
	t->g = g;
	t->has_device = calloc(g->run->n_traces + 1, sizeof *t->has_device);
	t->key_of = malloc((g->n_ops + 1) * sizeof *t->key_of);
	t->known = malloc((n_known + 1) * sizeof *t->known);
	if (!t->has_device || !t->key_of || !t->known)
		return false;
	memset(t->known, 0xff, n_known * sizeof *t->known);
	for (uint32_t l = 0; l < g->n_lanes; l++)
		if (g->lanes[l].trace != TAUT_NONE &&
			g->lanes[l].kind == TAUT_LANE_STREAM)
			t->has_device[g->lanes[l].trace] = true;
	return find_keys(d, t);
}

/* --- sums ------------------------------------------------------------------------- */

/* Of one rank's thread; what a step does by itself, between its calls, is no event. */
static double count_events(const struct taut_graph *g, const struct taut_trace *t,
	uint32_t begin, uint32_t end)
{
	double n = 0;

	for (uint32_t op = begin; op < end; op++)
		n += is_host(g->kind[op]) && g->event[op] != TAUT_NONE &&
			t->kind[g->event[op]] != TAUT_KIND_STEP;
	return n;
}

/* Or is the step the whole recording, which marks none? */
static bool is_marked(const struct taut_graph *g, uint32_t step)
{
	return g->event[g->steps[step].begin_op] != TAUT_NONE;
}

/* Of how many steps the recording of a rank is: of those that it marks. Where
 * others have more it was cut, or lacks marks: then what its thread does outside of
 * them counts in proportion, and one without any (whose graph has one step, the
 * whole) has as many as the others. */
static double steps_of(const struct taut_graph *g, uint32_t first, uint32_t n,
	double most)
{
	const struct taut_trace *t = &g->run->traces[g->steps[first].trace];
	uint32_t lane = g->lane[g->steps[first].begin_op];
	double inside = 0, all;

	if (n >= most)
		return n;
	if (!is_marked(g, first))
		return most;
	for (uint32_t i = first; i < first + n; i++)
		inside += count_events(g, t, g->steps[i].begin_op,
			g->steps[i].end_op);
	all = count_events(g, t, g->lane_begin[lane],
		g->lane_begin[lane + 1]);
	return inside > 0 ? fmin(most, n * all / inside) : n;
}

/* Of each trace by its own number of steps: what of one operation is in a step. */
static void share_steps(const struct differ *d, struct table *t)
{
	const struct taut_graph *g = t->g;
	double most = tauti_steps_of_a_rank(t->report);
	double ranks = d->same_ranks ? 1 : t->report->n_ranks;

	for (uint32_t i = 0, n; i < g->n_steps; i += n) {
		uint32_t trace = g->steps[i].trace;

		for (n = 1; i + n < g->n_steps &&
			g->steps[i + n].trace == trace;)
			n++;
		t->a_step[trace] = 1 / steps_of(g, i, n, most) / ranks;
	}
}

static bool sum_up(const struct differ *d, struct table *t)
{
	const struct taut_graph *g = t->g;
	size_t n = d->keys.count;

	t->ns = calloc((size_t)d->n_ranks * n + 1, sizeof *t->ns);
	t->count = calloc((size_t)d->n_ranks * n + 1, sizeof *t->count);
	t->a_step = calloc((size_t)g->run->n_traces + 1, sizeof *t->a_step);
	if (!t->ns || !t->count || !t->a_step)
		return false;
	share_steps(d, t);
	for (uint32_t op = 0; op < g->n_ops; op++) {
		uint32_t trace = g->lanes[g->lane[op]].trace;
		size_t at;

		if (t->key_of[op] == TAUT_NONE)
			continue;
		at = (d->same_ranks ? trace : 0) * n + t->key_of[op];
		t->ns[at] += (double)g->dur_ns[op] * t->a_step[trace];
		t->count[at] += t->a_step[trace];
	}
	return true;
}

static double mean(const struct differ *d, const double *by_rank, size_t key)
{
	double sum = 0;

	for (uint32_t r = 0; r < d->n_ranks; r++)
		sum += by_rank[r * d->keys.count + key];
	return sum / d->n_ranks;
}

static int by_difference(const void *a, const void *b)
{
	const struct tauti_diff_op *x = a, *y = b;
	int64_t dx = llabs(x->b_ns - x->a_ns), dy = llabs(y->b_ns - y->a_ns);
	int c;

	if (dx != dy)
		return dx > dy ? -1 : 1;
	c = strcmp(x->name, y->name);
	return c ? c : (int)x->kind - (int)y->kind;
}

static bool list_ops(const struct differ *d, struct tauti_diff *out)
{
	size_t n = d->keys.count - 1;
	struct tauti_diff_op *ops = TAUT_ARENA_ARRAY(d->arena,
		struct tauti_diff_op, n + 1);
	const struct table *a = &d->t[SIDE_A], *b = &d->t[SIDE_B];

	if (!ops)
		return false;
	/* id 0 of the names is the empty text, which is no key */
	for (size_t k = 1; k < d->keys.count; k++) {
		const struct key *key = &d->keys.data[k];

		ops[k - 1] = (struct tauti_diff_op) { key->name, key->kind,
			mean(d, a->count, k), mean(d, b->count, k),
			llround(mean(d, a->ns, k)), llround(mean(d, b->ns, k)) };
	}
	qsort(ops, n, sizeof *ops, by_difference);
	while (n && ops[n - 1].count_a == 0 && ops[n - 1].count_b == 0)
		n--;
	out->ops = ops;
	out->n_ops = (uint32_t)n;
	return true;
}

/* --- the waterfall ------------------------------------------------------------------ */

static bool is_in_both(const struct differ *d, size_t at)
{
	return d->t[SIDE_A].ns[at] > 0 && d->t[SIDE_B].count[at] > 0;
}

/* What only A has stands for what only B has: an upgrade gives other names. Where
 * that is so much longer that it can be no other name alone, A has no place for
 * the excess, and all operations of the kind take their share of it. */
static bool find_factors(struct differ *d)
{
	size_t n = (size_t)d->n_ranks * TAUTI_DIFF_KINDS;
	static const double most_by_name = 4;
	size_t n_keys = d->keys.count;
	struct sums {
		double both_b, only_a, only_b;
	} *sums = calloc(n + 1, sizeof *sums);
	bool ok;

	d->factors = calloc(n + 1, sizeof *d->factors);
	ok = sums && d->factors;
	for (size_t at = 0; ok && at < d->n_ranks * n_keys; at++) {
		enum tauti_diff_kind kind = d->keys.data[at % n_keys].kind;
		struct sums *s = &sums[at / n_keys * TAUTI_DIFF_KINDS + kind];

		if (kind == TAUTI_DIFF_KINDS)
			continue;
		if (is_in_both(d, at)) {
			s->both_b += d->t[SIDE_B].ns[at];
		} else {
			s->only_a += d->t[SIDE_A].ns[at];
			s->only_b += d->t[SIDE_B].ns[at];
		}
	}
	for (size_t i = 0; ok && i < n; i++) {
		const struct sums *s = &sums[i];
		double taken = fmin(s->only_b, s->only_a * most_by_name);
		double kept = s->both_b + taken;

		d->factors[i] = (struct factors) {
			s->only_a > 0 ? taken / s->only_a : 1,
			kept > 0 ? (s->both_b + s->only_b) / kept : 1 };
	}
	free(sums);
	return ok;
}

/* A's durations where kinds up to `last` are as in B. */
static void carry(const struct differ *d, enum tauti_diff_kind last,
	int64_t *dur_ns)
{
	const struct table *a = &d->t[SIDE_A], *b = &d->t[SIDE_B];
	const struct taut_graph *g = a->g;

	for (uint32_t op = 0; op < g->n_ops; op++) {
		uint32_t key = a->key_of[op];
		uint32_t rank = d->same_ranks ? g->lanes[g->lane[op]].trace : 0;
		const struct factors *f;
		size_t at;

		dur_ns[op] = g->dur_ns[op];
		if (key == TAUT_NONE || d->keys.data[key].kind > last)
			continue;
		at = rank * d->keys.count + key;
		f = &d->factors[rank * TAUTI_DIFF_KINDS + d->keys.data[key].kind];
		dur_ns[op] = llround((double)dur_ns[op] * f->all *
			(is_in_both(d, at) ? b->ns[at] / a->ns[at] : f->only_a));
	}
}

static taut_status replay_steps(const struct differ *d,
	struct taut_timeline *timeline, int64_t *dur_ns,
	struct tauti_diff *out, struct taut_error *err)
{
	static const struct tauti_diff_step rows[] = {
		[TAUTI_DIFF_COMPUTE] = { "compute", "computation", 0, 0 },
		[TAUTI_DIFF_TRANSFER] = { "transfer", "transfers", 0, 0 },
		[TAUTI_DIFF_HOST] = { "host", "host threads", 0, 0 },
		[TAUTI_DIFF_COPY] = { "copy", "copies and fills", 0, 0 },
		[TAUTI_DIFF_KINDS] = { "rest", "order, waits, and kinds that only "
			"B has", 0, 0 },
	};
	const struct taut_graph *g = d->t[SIDE_A].g;
	struct taut_replay_edit edit = { .dur_ns = dur_ns, .unordered = 1 };
	int64_t before = out->a->steady_ns;
	taut_status status = TAUT_OK;

	out->n_steps = TAUTI_DIFF_KINDS + 1;
	for (int k = 0; !status && k <= TAUTI_DIFF_KINDS; k++) {
		struct tauti_diff_step *row = &out->steps[k];

		*row = rows[k];
		row->step_ns = out->b->steady_ns;
		if (k < TAUTI_DIFF_KINDS) {
			carry(d, (enum tauti_diff_kind)k, dur_ns);
			status = taut_replay(g, &edit, timeline, err);
			if (!status)
				status = taut_steady_step(g,
					timeline->start_ns, timeline->end_ns,
					&row->step_ns, err);
		}
		row->change_ns = row->step_ns - before;
		before = row->step_ns;
	}
	return status;
}

static taut_status fall(const struct differ *d, struct tauti_diff *out,
	struct taut_error *err)
{
	const struct taut_graph *g = d->t[SIDE_A].g;
	struct taut_timeline timeline = { 0 };
	int64_t *dur_ns = malloc((g->n_ops + 1) * sizeof *dur_ns);
	taut_status status = dur_ns ?
		taut_timeline_init(&timeline, g, err) : no_memory(err);

	if (!status)
		status = replay_steps(d, &timeline, dur_ns, out, err);
	taut_timeline_fini(&timeline);
	free(dur_ns);
	return status;
}

/* --- collectives ------------------------------------------------------------------------ */

struct coll_sum {
	double count, bytes, transfer, wait;
	bool unknown; /* bytes of some are not known */
};

static void sum_colls(const struct taut_report *r, struct coll_sum *sums)
{
	double ranks = r->n_ranks ? r->n_ranks : 1;
	double a_step = 1.0 / tauti_steps_of_a_rank(r) / ranks;

	for (uint32_t i = 0; i < r->n_colls; i++) {
		const struct taut_report_coll *c = &r->colls[i];
		struct coll_sum *s = NULL;
		double members = c->count ? (double)c->members /
			(double)c->count : 0;

		for (int k = 0; k < TAUT_COLL_KINDS; k++)
			if (!strcmp(c->name, taut_coll_kind_name(
				(enum taut_coll_kind)k)))
				s = &sums[k];
		if (!s)
			continue;
		s->count += (double)c->members * a_step;
		s->transfer += (double)c->transfer_ns * members * a_step;
		s->wait += (double)c->wait_ns * a_step;
		s->bytes += (double)c->bytes * members * a_step;
		s->unknown |= c->bytes < 0;
	}
}

static bool list_colls(const struct differ *d, struct tauti_diff *out)
{
	struct coll_sum a[TAUT_COLL_KINDS] = { { 0 } };
	struct coll_sum b[TAUT_COLL_KINDS] = { { 0 } };
	struct tauti_diff_coll *rows = TAUT_ARENA_ARRAY(d->arena,
		struct tauti_diff_coll, TAUT_COLL_KINDS);

	if (!rows)
		return false;
	sum_colls(out->a, a);
	sum_colls(out->b, b);
	out->colls = rows;
	for (int k = 0; k < TAUT_COLL_KINDS; k++)
		if (a[k].count > 0 || b[k].count > 0)
			rows[out->n_colls++] = (struct tauti_diff_coll) {
				taut_coll_kind_name((enum taut_coll_kind)k),
				a[k].count, b[k].count,
				a[k].unknown ? -1 : llround(a[k].bytes),
				b[k].unknown ? -1 : llround(b[k].bytes),
				llround(a[k].transfer), llround(b[k].transfer),
				llround(a[k].wait), llround(b[k].wait) };
	return true;
}

/* --- the whole ------------------------------------------------------------------------------ */

static bool equal_ranks(
	const struct taut_report *a, const struct taut_report *b)
{
	return a->n_ranks == b->n_ranks && !memcmp(a->ranks, b->ranks,
		a->n_ranks * sizeof *a->ranks);
}

static bool differ_init(struct differ *d, const struct taut_report *a,
	const struct taut_report *b)
{
	d->same_ranks = equal_ranks(a, b);
	d->n_ranks = d->same_ranks && a->n_ranks ? a->n_ranks : 1;
	d->names = taut_names_create();
	return d->names && taut_vec_push(&d->keys, ((struct key) { "",
		TAUTI_DIFF_KINDS })) &&
		table_init(d, &d->t[SIDE_A], a) &&
		table_init(d, &d->t[SIDE_B], b) &&
		sum_up(d, &d->t[SIDE_A]) && sum_up(d, &d->t[SIDE_B]) &&
		find_factors(d);
}

static void differ_fini(struct differ *d)
{
	for (int s = 0; s < SIDES; s++) {
		free(d->t[s].has_device);
		free(d->t[s].key_of);
		free(d->t[s].known);
		free(d->t[s].ns);
		free(d->t[s].count);
		free(d->t[s].a_step);
	}
	free(d->factors);
	taut_names_destroy(d->names);
	taut_vec_free(&d->keys);
}

static bool marks_any(const struct taut_graph *g)
{
	for (uint32_t i = 0; i < g->n_steps; i++)
		if (is_marked(g, i))
			return true;
	return false;
}

static taut_status has_steps(const struct taut_report *r, struct taut_error *err)
{
	if (r->n_steps && r->steady_ns > 0)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EINVAL, -1,
		"%s: no training steps to compare",
		r->run ? r->run->path : "the recording");
}

taut_status tauti_diff(const struct taut_report *a, const struct taut_report *b,
	struct taut_arena *arena, struct tauti_diff *ret_diff,
	struct taut_error *reterr)
{
	struct differ d = { .arena = arena };
	struct tauti_diff out = { .a = a, .b = b };
	taut_status status = has_steps(a, reterr);

	if (!status)
		status = has_steps(b, reterr);
	if (!status)
		status = tauti_compare(a, b, arena, &out.path, reterr);
	if (!status && !differ_init(&d, a, b))
		status = no_memory(reterr);
	if (!status && (!list_ops(&d, &out) || !list_colls(&d, &out)))
		status = no_memory(reterr);
	if (!status)
		status = fall(&d, &out, reterr);
	out.same_ranks = d.same_ranks;
	out.a_marked = !status && marks_any(a->graph);
	out.b_marked = !status && marks_any(b->graph);
	differ_fini(&d);
	if (!status)
		*ret_diff = out;
	return status;
}

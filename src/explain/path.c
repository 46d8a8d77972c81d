/* path.c - the critical path: from the end of the job back, always to the
 * wait that decided. Its pieces tile the time from first to last. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "explain/explain.h"

/* --- the end of the job ------------------------------------------------------*/

/* The op that ends a rank's steps: the last step's end mark, or device work
 * that those steps launched and that ends later. */
uint32_t tauti_final_op(const struct tauti_explain *x, uint32_t trace,
	const int64_t *end)
{
	const struct taut_graph *g = x->g;
	const struct tauti_facts *f = &x->facts[trace];
	uint32_t best, mark;

	if (f->first_step == TAUT_NONE)
		return TAUT_NONE;
	best = mark = g->steps[f->end_step - 1].end_op;
	for (uint32_t l = f->first_lane; l < f->end_lane; l++) {
		uint32_t op = g->lane_begin[l + 1];

		if (g->lanes[l].kind != TAUT_LANE_STREAM && !g->lanes[l].is_comm)
			continue;
		while (op-- > g->lane_begin[l])
			if (x->launch_of[op] != TAUT_NONE && g->start_ns[
				x->launch_of[op]] < g->start_ns[mark]) {
				if (end[op] > end[best])
					best = op;
				break;
			}
	}
	return best;
}

int64_t tauti_step_time(const struct tauti_explain *x, const int64_t *start,
	const int64_t *end, const uint8_t *skip)
{
	const struct taut_graph *g = x->g;
	int64_t longest = 0;

	for (uint32_t i = 0; i < g->run->n_traces; i++) {
		const struct tauti_facts *f = &x->facts[i];
		int64_t time;

		if (f->first_step == TAUT_NONE || (skip && skip[i]))
			continue;
		time = end[tauti_final_op(x, i, end)] -
			start[g->steps[f->first_step].begin_op];
		time /= f->end_step - f->first_step;
		if (time > longest)
			longest = time;
	}
	return longest;
}

/* --- the walk ------------------------------------------------------------------*/

struct piece {
	uint32_t op;
	enum taut_category category;
	int64_t start, end;
};

struct walk {
	struct tauti_explain *x;
	TAUT_VEC(struct piece) pieces; /* latest first */
};

static bool add(struct walk *w, uint32_t op, enum taut_category c,
	int64_t start, int64_t end)
{
	struct piece p = { op, c, start, end };

	return start >= end || taut_vec_push(&w->pieces, p);
}

/* From the start of op to `until` (where the next one on the path begins):
 * its own time, then what no known wait explains. */
static bool add_op(struct walk *w, uint32_t op, uint32_t next, int64_t until)
{
	const struct taut_timeline *t = &w->x->base;
	enum taut_category c = w->x->op_category[op], after = c;
	int64_t end = t->end_ns[op] < until ? t->end_ns[op] : until;

	if (next != TAUT_NONE && tauti_is_device_op(w->x->g->kind[next]))
		after = w->x->launch_of[next] == op ? TAUT_CAT_HOST_BOUND :
			TAUT_CAT_OTHER;
	return add(w, next == TAUT_NONE ? op : next, after, end, until) &&
		add(w, op, c, t->start_ns[op], end);
}

static bool walk(struct walk *w, uint32_t from, int64_t begin)
{
	const struct taut_timeline *t = &w->x->base;
	uint32_t next = TAUT_NONE, steps = 0;
	int64_t until = t->end_ns[from];

	for (uint32_t op = from; op != TAUT_NONE && until > begin &&
		steps <= w->x->g->n_ops; steps++) {
		if (!add_op(w, op, next, until))
			return false;
		if (t->start_ns[op] < until)
			until = t->start_ns[op];
		next = op;
		op = t->decided_by[op];
	}
	return true;
}

/* --- segments ----------------------------------------------------------------------*/

static const char *lane_name(struct tauti_explain *x, uint32_t lane)
{
	const struct taut_graph_lane *l = &x->g->lanes[lane];
	const struct taut_trace *t;
	const struct taut_lane *of;

	if (l->trace == TAUT_NONE)
		return "collective";
	t = &x->g->run->traces[l->trace];
	of = &t->lanes[l->trace_lane];
	if (of->name && *taut_names_text(t->names, of->name))
		return taut_names_text(t->names, of->name);
	return taut_arena_printf(x->arena, "%s %" PRId64,
		of->kind == TAUT_LANE_STREAM ? "stream" : "thread", of->tid);
}

static const char *name_text(const struct tauti_explain *x, uint32_t name)
{
	return name ? taut_names_text(x->g->names, name) : "(between events)";
}

static const char *op_name(const struct tauti_explain *x, uint32_t op)
{
	return name_text(x, x->g->name[op]);
}

static int32_t rank_number(const struct taut_graph *g, uint32_t op)
{
	uint32_t trace = tauti_rank_of(g, op);

	return trace == TAUT_NONE ? -1 : g->run->traces[trace].rank;
}

/* Pieces below a two-thousandth of the path are told together. */
enum { PATH_RESOLUTION = 2000 };

struct run { /* the segment being put together */
	int64_t longest, small; /* piece; what counts as short */
};

static bool joins(const struct tauti_explain *x, const struct piece *a,
	const struct taut_report_segment *s, const struct run *run)
{
	int64_t dur = a->end - a->start;

	return x->g->lane[a->op] == x->g->lane[s->op] &&
		a->category == s->category &&
		a->start == s->start_ns + s->dur_ns &&
		(op_name(x, a->op) == s->name ||
		(dur < run->small && run->longest < run->small));
}

static void join(const struct tauti_explain *x, const struct piece *p,
	struct taut_report_segment *s, struct run *run)
{
	s->dur_ns += p->end - p->start;
	s->n_ops++;
	if (p->end - p->start <= run->longest)
		return;
	run->longest = p->end - p->start;
	s->op = p->op;
	s->name = op_name(x, p->op);
	s->module = tauti_module(x, p->op);
}

static bool keep_segments(struct tauti_explain *x,
	const struct taut_report_segment *from, size_t n)
{
	struct taut_report_segment *to = TAUT_ARENA_ARRAY(x->arena,
		struct taut_report_segment, n + 1);

	if (to && n)
		memcpy(to, from, n * sizeof *to);
	x->report->path = to;
	x->report->n_path = (uint32_t)n;
	return to != NULL;
}

static int64_t path_length(const struct walk *w)
{
	int64_t sum = 0;

	for (size_t i = 0; i < w->pieces.count; i++)
		sum += w->pieces.data[i].end - w->pieces.data[i].start;
	return sum;
}

static bool make_segments(struct walk *w, const char **lane_names)
{
	struct tauti_explain *x = w->x;
	TAUT_VEC(struct taut_report_segment) out = { 0 };
	struct run run = { 0, path_length(w) / PATH_RESOLUTION };
	bool ok = true;

	for (size_t i = w->pieces.count; ok && i-- > 0;) {
		const struct piece *p = &w->pieces.data[i];
		uint32_t lane = x->g->lane[p->op];
		struct taut_report_segment s = { rank_number(x->g, p->op),
			p->op, 1, NULL, op_name(x, p->op),
			tauti_module(x, p->op), p->category, p->start,
			p->end - p->start };

		x->report->path_ns[p->category] += p->end - p->start;
		if (out.count && joins(x, p, &out.data[out.count - 1], &run)) {
			join(x, p, &out.data[out.count - 1], &run);
			continue;
		}
		if (!lane_names[lane])
			lane_names[lane] = lane_name(x, lane);
		s.lane = lane_names[lane];
		run.longest = s.dur_ns;
		ok = s.lane && taut_vec_push(&out, s);
	}
	if (ok)
		ok = keep_segments(x, out.data, out.count);
	taut_vec_free(&out);
	return ok;
}

/* --- tables by name -------------------------------------------------------------------*/

struct tally { /* of one name in one category */
	uint64_t count;
	int64_t ns;
};

static int by_cost(const void *a, const void *b)
{
	const struct taut_report_share *x = a, *y = b;
	int c;

	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	c = strcmp(x->name, y->name);
	return c ? c : (int)x->category - (int)y->category;
}

/* Rows of the table from tallies[id * TAUT_CATEGORIES + category]. */
static bool keep_shares(struct walk *w, const struct tally *tallies,
	uint32_t n_ids, const char *(*name_of)(const struct tauti_explain *,
	uint32_t), const struct taut_report_share **ret_rows, uint32_t *ret_n)
{
	size_t cells = (size_t)n_ids * TAUT_CATEGORIES, n = 0;
	struct taut_report_share *rows;

	for (size_t i = 0; i < cells; i++)
		n += tallies[i].count > 0;
	rows = TAUT_ARENA_ARRAY(w->x->arena, struct taut_report_share, n + 1);
	if (!rows)
		return false;
	n = 0;
	for (size_t i = 0; i < cells; i++)
		if (tallies[i].count)
			rows[n++] = (struct taut_report_share) {
				name_of(w->x, (uint32_t)(i / TAUT_CATEGORIES)),
				(enum taut_category)(i % TAUT_CATEGORIES),
				tallies[i].count, tallies[i].ns };
	qsort(rows, n, sizeof *rows, by_cost);
	*ret_rows = rows;
	*ret_n = (uint32_t)n;
	return true;
}

static const char *module_name(const struct tauti_explain *x, uint32_t id)
{
	return x->module_names[id];
}

/* From the pieces, not from the segments, which tell short ones together. */
static bool sum_shares(struct walk *w, bool modules)
{
	const struct tauti_explain *x = w->x;
	uint32_t n_ids = modules ? x->n_modules :
		taut_names_count(x->g->names);
	struct tally *tallies = calloc((size_t)n_ids * TAUT_CATEGORIES + 1,
		sizeof *tallies);
	bool ok;

	for (size_t i = 0; tallies && i < w->pieces.count; i++) {
		const struct piece *p = &w->pieces.data[i];
		uint32_t id = modules ? tauti_module_id(x, p->op) :
			x->g->name[p->op];
		struct tally *t = &tallies[(size_t)id * TAUT_CATEGORIES +
			p->category];

		if (modules && !id)
			continue;
		t->count++;
		t->ns += p->end - p->start;
	}
	ok = tallies && (modules ? keep_shares(w, tallies, n_ids, module_name,
		&x->report->path_modules, &x->report->n_path_modules) :
		keep_shares(w, tallies, n_ids, name_text,
		&x->report->path_ops, &x->report->n_path_ops));
	free(tallies);
	return ok;
}

taut_status tauti_path_walk(struct tauti_explain *x, struct taut_error *err)
{
	struct walk w = { .x = x };
	const char **lane_names = calloc(x->g->n_lanes + 1, sizeof *lane_names);
	uint32_t from = TAUT_NONE;
	int64_t begin = INT64_MAX;
	bool ok = lane_names != NULL;

	for (uint32_t i = 0; i < x->g->run->n_traces; i++) {
		uint32_t op = tauti_final_op(x, i, x->base.end_ns);

		if (op == TAUT_NONE)
			continue;
		if (from == TAUT_NONE || x->base.end_ns[op] >
			x->base.end_ns[from])
			from = op;
		op = x->g->steps[x->facts[i].first_step].begin_op;
		if (x->base.start_ns[op] < begin)
			begin = x->base.start_ns[op];
	}
	x->step_ns = tauti_step_time(x, x->base.start_ns, x->base.end_ns, NULL);
	if (ok && from != TAUT_NONE)
		ok = walk(&w, from, begin);
	ok = ok && make_segments(&w, lane_names) &&
		sum_shares(&w, false) && sum_shares(&w, true);
	free(lane_names);
	taut_vec_free(&w.pieces);
	return ok ? TAUT_OK : tauti_explain_no_memory(err);
}

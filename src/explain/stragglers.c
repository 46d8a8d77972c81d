/* stragglers.c - the recorded job against one whose workers are alike, and
 * what each stage, replica, rank and type of operation adds to it. All are
 * replays of one graph with other durations. */
#include "explain/stragglers.h"

#include <stdlib.h>
#include <string.h>

#include "explain/explain.h"

enum {
	MOST_RANKS = 16, /* replayed one by one, all of them */
	SOME_RANKS = 16, /* of more, those that promise most */
	MOST_TYPES = 48,
};
static const double decompose_delays = 1.03;

taut_status tauti_lag_no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory to find stragglers");
}

/* --- steps ---------------------------------------------------------------------------- */

struct step_at {
	int64_t id, start_ns;
	uint32_t index; /* in g->steps */
};

static int by_id(const void *a, const void *b)
{
	const struct step_at *x = a, *y = b;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static int by_start(const void *a, const void *b)
{
	const struct step_at *x = a, *y = b;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* Steps of all ranks by their number, in the order in which they began. */
static bool number_steps(struct tauti_lag *l, struct step_at *all,
	struct taut_straggler_step *steps)
{
	const struct taut_graph *g = l->g;
	struct step_at *firsts = malloc((g->n_steps + 1) * sizeof *firsts);
	uint32_t *place = malloc((g->n_steps + 1) * sizeof *place);
	uint32_t n = 0;
	bool ok = firsts && place;
	qsort(all, g->n_steps, sizeof *all, by_id);
	for (uint32_t i = 0; ok && i < g->n_steps; i++) {
		if (!i || all[i].id != all[i - 1].id) {
			firsts[n] = all[i];
			firsts[n].index = n;
			n++;
		}
		l->step_of[all[i].index] = n - 1;
	}
	if (ok)
		qsort(firsts, n, sizeof *firsts, by_start);
	for (uint32_t i = 0; ok && i < n; i++) {
		place[firsts[i].index] = i;
		steps[i].id = firsts[i].id;
	}
	for (uint32_t i = 0; ok && i < g->n_steps; i++)
		l->step_of[i] = place[l->step_of[i]];
	l->public.n_steps = n;
	free(firsts);
	free(place);
	return ok;
}

/* What each step takes: from the last rank's end of the one before to the last
 * rank's end of this one. ends: by g->steps. */
static void take_steps(const struct tauti_lag *l, const int64_t *begins,
	const int64_t *ends, int64_t *ret_ns)
{
	const struct taut_graph *g = l->g;
	uint32_t n = l->public.n_steps;
	int64_t before = INT64_MAX;
	for (uint32_t i = 0; i < n; i++)
		ret_ns[i] = INT64_MIN;
	for (uint32_t i = 0; i < g->n_steps; i++) {
		uint32_t s = l->step_of[i];
		if (ends[i] > ret_ns[s])
			ret_ns[s] = ends[i];
		if (!s && begins[i] < before)
			before = begins[i];
	}
	for (uint32_t i = 0; i < n; i++) {
		int64_t end = ret_ns[i] > before ? ret_ns[i] : before;
		ret_ns[i] = end - before;
		before = end;
	}
}

static bool find_steps(struct tauti_lag *l)
{
	const struct taut_graph *g = l->g;
	struct taut_straggler_step *steps = TAUT_ARENA_ARRAY(
		l->arena, struct taut_straggler_step, g->n_steps + 1);
	struct step_at *all = malloc((g->n_steps + 1) * sizeof *all);
	int64_t *times = malloc((3 * (size_t)g->n_steps + 1) * sizeof *times);
	bool ok;
	l->step_of = TAUT_ARENA_ARRAY(l->arena, uint32_t, g->n_steps + 1);
	ok = steps && all && times && l->step_of;
	for (uint32_t i = 0; ok && i < g->n_steps; i++) {
		all[i] = (struct step_at){ g->steps[i].id,
			g->steps[i].start_ns, i };
		times[i] = g->steps[i].start_ns;
		times[g->n_steps + i] = g->steps[i].end_ns;
	}
	ok = ok && number_steps(l, all, steps);
	if (ok)
		take_steps(l, times, times + g->n_steps,
			times + 2 * (size_t)g->n_steps);
	for (uint32_t i = 0; ok && i < l->public.n_steps; i++)
		steps[i].measured_ns = times[2 * (size_t)g->n_steps + i];
	l->public.steps = steps;
	free(all);
	free(times);
	return ok;
}

/* --- places ----------------------------------------------------------------------------- */

static int32_t fact_number(const struct taut_trace *t, const char *key)
{
	const char *text = taut_trace_fact(t, key);
	return text ? (int32_t)atoi(text) : -1;
}

static bool find_places(struct tauti_lag *l)
{
	const struct taut_run *run = l->g->run;
	bool ok = true;
	for (int by = 0; by < TAUT_BY_TYPE && ok; by++) {
		l->number[by] = TAUT_ARENA_ARRAY(
			l->arena, int32_t, run->n_traces + 1);
		ok = l->number[by] != NULL;
	}
	for (uint32_t i = 0; ok && i < run->n_traces; i++) {
		const struct taut_trace *t = &run->traces[i];
		l->table |= t->is_table != 0;
		l->number[TAUT_BY_STAGE][i] = fact_number(t, "pipeline.stage");
		l->number[TAUT_BY_REPLICA][i] = fact_number(t, "data.rank");
		l->number[TAUT_BY_RANK][i] = t->rank;
	}
	l->public.n_ranks = run->n_traces;
	return ok;
}

/* A wait is a wait: stamps that contradict it by a little do not shorten it,
 * and nothing begins later than it must. */
static bool find_strict(struct tauti_lag *l)
{
	const struct taut_graph *g = l->g;
	int64_t *lag = TAUT_ARENA_ARRAY(l->arena, int64_t, g->n_edges + 1);
	int64_t *gap = TAUT_ARENA_ARRAY(l->arena, int64_t, g->n_ops + 1);
	if (!lag || !gap)
		return false;
	for (uint32_t i = 0; i < g->n_edges; i++)
		lag[i] = g->edge_lag_ns[i] < 0 ? 0 : g->edge_lag_ns[i];
	for (uint32_t i = 0; i < g->n_ops && !l->table; i++)
		gap[i] = g->gap_ns[i] < 0 ? g->gap_ns[i] : 0;
	l->strict = *g;
	l->strict.edge_lag_ns = lag;
	l->no_gaps = gap;
	return true;
}

/* --- replays ------------------------------------------------------------------------------ */

struct batch {
	struct tauti_lag *l;
	struct tauti_lag_row *rows;
	size_t n, parts;
};

static bool is_member(const struct tauti_lag *l,
	const struct tauti_lag_row *row, uint32_t op, uint32_t trace)
{
	if (row->by == TAUT_BY_TYPE)
		return l->class_of[op] == row->member;
	return row->by < TAUT_BY_TYPE && trace != TAUT_NONE &&
		l->number[row->by][trace] == (int32_t)row->member;
}

/* Durations (or gaps): of members as recorded, of others ideal. */
static void choose(const struct tauti_lag *l, const struct tauti_lag_row *row,
	int64_t *ret)
{
	const struct taut_graph *g = l->g;
	const int64_t *own = row->delays ? g->gap_ns : g->dur_ns;
	const int64_t *ideal = row->delays ? l->no_gaps : l->ideal_ns;
	for (uint32_t lane = 0; lane < g->n_lanes; lane++) {
		uint32_t trace = g->lanes[lane].trace;
		uint32_t begin = g->lane_begin[lane];
		uint32_t end = g->lane_begin[lane + 1];
		if (row->by != TAUT_BY_TYPE) {
			bool in = is_member(l, row, begin, trace);
			memcpy(ret + begin, (in != row->inverse ? own : ideal) +
				begin, (end - begin) * sizeof *ret);
			for (uint32_t op = begin; in && row->one_class &&
				op < end; op++)
				if (l->class_of[op] != row->class)
					ret[op] = own[op];
			continue;
		}
		for (uint32_t op = begin; op < end; op++)
			ret[op] = (l->class_of[op] == row->member) !=
				row->inverse ? own[op] : ideal[op];
	}
}

static void measure(const struct tauti_lag *l, const struct taut_timeline *t,
	int64_t *times, struct tauti_lag_row *row)
{
	const struct taut_graph *g = l->g;
	for (uint32_t i = 0; i < g->n_steps; i++) {
		times[i] = t->start_ns[g->steps[i].begin_op];
		times[g->n_steps + i] = t->end_ns[g->steps[i].end_op];
	}
	take_steps(l, times, times + g->n_steps, row->step_ns);
	row->sum_ns = 0;
	for (uint32_t i = 0; i < l->public.n_steps; i++)
		row->sum_ns += row->step_ns[i];
}

static taut_status replay_part(
	void *context, size_t part, struct taut_error *err)
{
	struct batch *b = context;
	struct tauti_lag *l = b->l;
	struct taut_timeline timeline;
	int64_t *changed = malloc(((size_t)l->g->n_ops + 1) * sizeof *changed);
	int64_t *times = malloc((2 * (size_t)l->g->n_steps + 1) * sizeof *times);
	taut_status status = changed && times ?
		taut_timeline_init(&timeline, &l->strict, err) :
		tauti_lag_no_memory(err);
	bool made = status == TAUT_OK;
	for (size_t i = part; i < b->n && !status; i += b->parts) {
		struct tauti_lag_row *row = &b->rows[i];
		struct taut_replay_edit edit = { .gap_ns = l->no_gaps,
			.dur_ns = l->g->dur_ns, .unordered = 2 };
		choose(l, row, changed);
		if (row->delays)
			edit.gap_ns = changed;
		else
			edit.dur_ns = changed;
		status = taut_replay(&l->strict, &edit, &timeline, err);
		if (!status)
			measure(l, &timeline, times, row);
	}
	if (made)
		taut_timeline_fini(&timeline);
	free(changed);
	free(times);
	return status;
}

taut_status tauti_lag_replay(struct tauti_lag *l, struct tauti_lag_row *rows,
	size_t n, struct taut_error *err)
{
	enum { WORTH_A_THREAD = 1000000 /* operations replayed */ };
	struct batch b = { l, rows, n, l->threads ? l->threads : taut_cores() };
	size_t worth = 1 + n * l->g->n_ops / WORTH_A_THREAD;
	if (b.parts > worth)
		b.parts = worth;
	if (b.parts > n)
		b.parts = n;
	for (size_t i = 0; i < n; i++) {
		rows[i].step_ns = TAUT_ARENA_ARRAY(l->arena, int64_t,
			l->public.n_steps + 1);
		if (!rows[i].step_ns)
			return tauti_lag_no_memory(err);
	}
	return n ? taut_parallel_for(b.parts, (unsigned)b.parts, replay_part,
		&b, err) : TAUT_OK;
}

/* --- tables ------------------------------------------------------------------------------------ */

typedef TAUT_VEC(struct tauti_lag_row) row_vec;

static int by_number(const void *a, const void *b)
{
	const int32_t *x = a, *y = b;
	return *x < *y ? -1 : *x > *y;
}

/* One row for each number that ranks have; none when all have the same, or
 * none is told. */
static bool add_numbers(struct tauti_lag *l, enum taut_straggler_by by,
	row_vec *rows)
{
	uint32_t n = l->public.n_ranks, told = 0;
	int32_t *all = malloc((n + 1) * sizeof *all);
	bool ok = all != NULL;
	for (uint32_t i = 0; ok && i < n; i++)
		if (l->number[by][i] >= 0)
			all[told++] = l->number[by][i];
	if (ok && told)
		qsort(all, told, sizeof *all, by_number);
	for (uint32_t i = 0; ok && i < told; i++) {
		struct tauti_lag_row row = { .by = by,
			.member = (uint32_t)all[i] };
		if (!i || all[i] != all[i - 1])
			ok = taut_vec_push(rows, row);
	}
	free(all);
	return ok;
}

struct weight {
	uint32_t class;
	double ns; /* by which its operations are off */
};

static int by_weight(const void *a, const void *b)
{
	const struct weight *x = a, *y = b;
	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	return x->class < y->class ? -1 : x->class > y->class;
}

/* The classes that are off most, of those that there are. */
static bool add_types(struct tauti_lag *l, row_vec *rows, uint32_t *ret_left)
{
	struct weight *w = calloc(l->n_classes + 1, sizeof *w);
	uint32_t n = 0;
	bool ok = w != NULL;
	for (uint32_t i = 0; ok && i < l->n_classes; i++)
		w[i] = (struct weight){ i, -1 };
	for (uint32_t op = 0; ok && op < l->g->n_ops; op++) {
		double off = (double)(l->g->dur_ns[op] - l->ideal_ns[op]);
		if (l->type_of[op] == TAUT_NONE)
			continue;
		if (w[l->class_of[op]].ns < 0)
			w[l->class_of[op]].ns = 0;
		w[l->class_of[op]].ns += off < 0 ? -off : off;
	}
	if (ok)
		qsort(w, l->n_classes, sizeof *w, by_weight);
	while (ok && n < l->n_classes && w[n].ns >= 0)
		n++;
	*ret_left = n > MOST_TYPES ? n - MOST_TYPES : 0;
	for (uint32_t i = 0; ok && i < n - *ret_left; i++) {
		struct tauti_lag_row row = { .by = TAUT_BY_TYPE,
			.member = w[i].class };
		ok = taut_vec_push(rows, row);
	}
	free(w);
	return ok;
}

static int by_slowdown(const void *a, const void *b)
{
	const struct taut_straggler_row *x = a, *y = b;
	if (x->slowdown != y->slowdown)
		return x->slowdown > y->slowdown ? -1 : 1;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return strcmp(x->name, y->name);
}

static const struct taut_straggler_row *publish(struct tauti_lag *l,
	enum taut_straggler_by by, const struct tauti_lag_row *rows, size_t n,
	int64_t against_ns)
{
	struct taut_straggler_row *out = TAUT_ARENA_ARRAY(
		l->arena, struct taut_straggler_row, n + 1);
	for (size_t i = 0; out && i < n; i++)
		out[i] = (struct taut_straggler_row){
			.name = by == TAUT_BY_TYPE ?
				l->class_name[rows[i].member] : "",
			.number = by == TAUT_BY_TYPE ? -1 :
				(int32_t)rows[i].member,
			.slowdown = against_ns > 0 ?
				(double)rows[i].sum_ns / (double)against_ns : 1,
			.step_ns = rows[i].step_ns };
	if (out && n)
		qsort(out, n, sizeof *out, by_slowdown);
	return out;
}

/* Rows of one table after the other, as they were added. */
static taut_status publish_all(struct tauti_lag *l, const row_vec *rows,
	int64_t against_ns, bool delays, struct taut_error *err)
{
	for (size_t i = 0, n; i < rows->count; i += n) {
		enum taut_straggler_by by = rows->data[i].by;
		struct taut_straggler_table *table = &l->public.by[by];
		const struct taut_straggler_row *out;
		for (n = 1; i + n < rows->count &&
			rows->data[i + n].by == by;)
			n++;
		out = publish(l, by, rows->data + i, n, against_ns);
		if (!out)
			return tauti_lag_no_memory(err);
		table->n = (uint32_t)n;
		*(delays ? &table->delays : &table->rows) = out;
	}
	return TAUT_OK;
}

static double slowdown_of(const struct taut_straggler_table *table,
	int32_t number)
{
	for (uint32_t i = 0; i < table->n; i++)
		if (table->rows[i].number == number)
			return table->rows[i].slowdown;
	return 1;
}

/* Why a rank may be the slow one. Each has its own list, for much of one kind may
 * be hidden behind little of another. */
enum reason { BY_PLACE, BY_DEVICE, BY_HOST, BY_TRANSFERS, BY_DELAYS, REASONS };

static void weigh_places(const struct tauti_lag *l, struct weight *w)
{
	for (uint32_t i = 0; i < l->public.n_ranks; i++) {
		double stage = slowdown_of(&l->public.by[TAUT_BY_STAGE],
			l->number[TAUT_BY_STAGE][i]);
		double replica = slowdown_of(&l->public.by[TAUT_BY_REPLICA],
			l->number[TAUT_BY_REPLICA][i]);
		w[i].ns = stage < replica ? stage : replica;
	}
}

/* By how much each rank's operations are over what is usual. */
static void weigh_excess(const struct tauti_lag *l, struct weight *w)
{
	const struct taut_graph *g = l->g;
	uint32_t n = l->public.n_ranks;
	for (uint32_t op = 0; op < g->n_ops; op++) {
		uint32_t trace = g->lanes[g->lane[op]].trace;
		enum reason reason = g->kind[op] == TAUT_OP_TRANSFER ?
			BY_TRANSFERS : tauti_is_host_op(g->kind[op]) ?
			BY_HOST : BY_DEVICE;
		if (trace == TAUT_NONE)
			continue;
		w[reason * n + trace].ns +=
			(double)(g->dur_ns[op] - l->ideal_ns[op]);
		w[BY_DELAYS * n + trace].ns +=
			(double)(g->gap_ns[op] - l->no_gaps[op]);
	}
}

static bool has_delays(const struct tauti_lag *l)
{
	return l->public.launch_slowdown >= decompose_delays;
}

/* From the top of each list in turn, until there are enough. */
static bool take_ranks(struct tauti_lag *l, const struct weight *w,
	row_vec *rows)
{
	uint32_t n = l->public.n_ranks;
	bool places = l->public.by[TAUT_BY_STAGE].n &&
		l->public.by[TAUT_BY_REPLICA].n;
	uint8_t *taken = calloc(n + 1, 1);
	bool ok = taken != NULL;
	for (size_t i = 0; ok && i < (size_t)n * REASONS &&
		rows->count < SOME_RANKS; i++) {
		enum reason reason = (enum reason)(i % REASONS);
		uint32_t rank = w[reason * n + i / REASONS].class;
		struct tauti_lag_row row = { .by = TAUT_BY_RANK,
			.member = (uint32_t)l->number[TAUT_BY_RANK][rank] };
		if (taken[rank] || (reason == BY_DELAYS ? !has_delays(l) :
			places != (reason == BY_PLACE)))
			continue;
		taken[rank] = 1;
		ok = taut_vec_push(rows, row);
	}
	free(taken);
	return ok;
}

/* Of very many ranks, those whose stage and replica are slow; where these are not
 * told, those that are slow themselves. */
static bool add_some_ranks(struct tauti_lag *l, row_vec *rows)
{
	uint32_t n = l->public.n_ranks;
	struct weight *w = calloc((size_t)n * REASONS + 1, sizeof *w);
	bool ok = w != NULL;
	for (size_t i = 0; ok && i < (size_t)n * REASONS; i++)
		w[i].class = (uint32_t)(i % n);
	if (ok) {
		weigh_places(l, w);
		weigh_excess(l, w);
	}
	for (int reason = 0; ok && reason < REASONS; reason++)
		qsort(w + (size_t)reason * n, n, sizeof *w, by_weight);
	ok = ok && take_ranks(l, w, rows);
	free(w);
	l->public.by[TAUT_BY_RANK].n_left_out = n - SOME_RANKS;
	return ok;
}

/* --- the whole --------------------------------------------------------------------------------- */

static int64_t sum_measured(const struct tauti_lag *l)
{
	int64_t sum = 0;
	for (uint32_t i = 0; i < l->public.n_steps; i++)
		sum += l->public.steps[i].measured_ns;
	return sum;
}

static double ratio(int64_t a, int64_t b)
{
	return b > 0 ? (double)a / (double)b : 1;
}

/* rows[0] is nodelay, rows[1] the ideal. */
static void take_ends(struct tauti_lag *l, const struct tauti_lag_row *rows)
{
	struct taut_straggler_step *steps =
		(struct taut_straggler_step *)l->public.steps;
	for (uint32_t i = 0; i < l->public.n_steps; i++) {
		steps[i].nodelay_ns = rows[0].step_ns[i];
		steps[i].ideal_ns = rows[1].step_ns[i];
	}
	l->public.launch_slowdown = ratio(sum_measured(l), rows[0].sum_ns);
	l->public.slowdown = ratio(rows[0].sum_ns, rows[1].sum_ns);
}

static taut_status find_delays(struct tauti_lag *l, row_vec *rows,
	int64_t nodelay_ns, struct taut_error *err)
{
	taut_status status;
	if (!has_delays(l))
		return TAUT_OK;
	for (size_t i = 0; i < rows->count; i++)
		rows->data[i].delays = true;
	status = tauti_lag_replay(l, rows->data, rows->count, err);
	return status ? status :
		publish_all(l, rows, nodelay_ns, true, err);
}

/* ret_tables: with the rows of these ranks behind those that it has. */
static taut_status find_some_ranks(struct tauti_lag *l, int64_t ideal_ns,
	row_vec *ret_tables, struct taut_error *err)
{
	row_vec rows = { 0 };
	taut_status status = add_some_ranks(l, &rows) ? TAUT_OK :
		tauti_lag_no_memory(err);
	if (!status)
		status = tauti_lag_replay(l, rows.data, rows.count, err);
	if (!status)
		status = publish_all(l, &rows, ideal_ns, false, err);
	for (size_t i = 0; i < rows.count && !status; i++)
		if (!taut_vec_push(ret_tables, rows.data[i]))
			status = tauti_lag_no_memory(err);
	taut_vec_free(&rows);
	return status;
}

static taut_status find_tables(struct tauti_lag *l, struct taut_error *err)
{
	row_vec rows = { 0 }, tables = { 0 };
	struct tauti_lag_row ends[2] = {
		{ .by = TAUT_STRAGGLER_BY, .inverse = true },
		{ .by = TAUT_STRAGGLER_BY } };
	bool some = l->public.n_ranks > MOST_RANKS;
	bool ok = taut_vec_push(&rows, ends[0]) && taut_vec_push(&rows, ends[1])
		&& add_numbers(l, TAUT_BY_STAGE, &rows) &&
		add_numbers(l, TAUT_BY_REPLICA, &rows) &&
		(some || add_numbers(l, TAUT_BY_RANK, &rows)) &&
		add_types(l, &rows, &l->public.by[TAUT_BY_TYPE].n_left_out);
	taut_status status = ok ? TAUT_OK : tauti_lag_no_memory(err);
	int64_t nodelay_ns = 0, ideal_ns = 0;
	if (!status)
		status = tauti_lag_replay(l, rows.data, rows.count, err);
	if (!status) {
		nodelay_ns = rows.data[0].sum_ns;
		ideal_ns = rows.data[1].sum_ns;
		take_ends(l, rows.data);
		for (size_t i = 2; i < rows.count && ok; i++)
			ok = taut_vec_push(&tables, rows.data[i]);
		status = ok ? publish_all(l, &tables, ideal_ns, false, err) :
			tauti_lag_no_memory(err);
	}
	if (!status && some)
		status = find_some_ranks(l, ideal_ns, &tables, err);
	if (!status)
		status = find_delays(l, (row_vec *)&tables, nodelay_ns, err);
	taut_vec_free(&rows);
	taut_vec_free(&tables);
	return status;
}

static struct tauti_lag *create(const struct taut_graph *graph,
	const struct taut_straggler_options *options)
{
	struct taut_arena *arena = taut_arena_create();
	struct tauti_lag *l = arena ?
		TAUT_ARENA_ARRAY(arena, struct tauti_lag, 1) : NULL;
	if (!l) {
		taut_arena_destroy(arena);
		return NULL;
	}
	l->arena = arena;
	l->g = graph;
	l->threads = options ? options->threads : 0;
	return l;
}

taut_status taut_stragglers_find(const struct taut_graph *graph,
	const struct taut_straggler_options *options,
	struct taut_stragglers **ret_stragglers, struct taut_error *reterr)
{
	struct tauti_lag *l;
	taut_status status = TAUT_OK;
	if (!graph->n_steps)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"%s: has no steps to compare", graph->run->path);
	l = create(graph, options);
	if (!l || !find_places(l) || !find_steps(l) || !find_strict(l) ||
		!tauti_lag_types(l) || !tauti_notes(graph, l->arena,
		&l->public.notes, &l->public.n_notes))
		status = tauti_lag_no_memory(reterr);
	if (!status)
		status = find_tables(l, reterr);
	if (!status)
		status = tauti_lag_cause(l, reterr);
	if (status) {
		if (l)
			taut_arena_destroy(l->arena);
		return status;
	}
	l->public.n_stages = l->public.by[TAUT_BY_STAGE].n;
	l->public.n_replicas = l->public.by[TAUT_BY_REPLICA].n;
	*ret_stragglers = &l->public;
	return TAUT_OK;
}

void taut_stragglers_destroy(struct taut_stragglers *stragglers)
{
	if (stragglers)
		taut_arena_destroy(((struct tauti_lag *)stragglers)->arena);
}

/* batches.c - what a data loader prepares and the main thread takes. */
#include <stdlib.h>

#include "whatif/compute.h"

enum { PREFETCH = 2 }; /* batches a worker, where the recording tells none */

/* Lanes of workers: recorded ones hold batches, and those that a change made
 * stand beside the main thread under its own number. */
bool tauti_is_load_lane(const struct tauti_whatif *w, uint32_t lane)
{
	struct taut_graph_lane is = taut_edit_lane(w->edit, lane);
	uint32_t main, row, first;
	struct taut_op op;
	const struct taut_trace *t;

	if (is.trace == TAUT_NONE || is.is_main || is.is_comm ||
		is.kind != TAUT_LANE_THREAD)
		return false;
	main = tauti_main_lane(w, is.trace);
	if (main != TAUT_NONE && is.trace_lane ==
		taut_edit_lane(w->edit, main).trace_lane)
		return true;
	first = taut_edit_first(w->edit, lane);
	if (first == TAUT_NONE || !taut_edit_op(w->edit, first, &op) ||
		op.like == TAUT_NONE)
		return false;
	t = tauti_op_trace(w, op.like, &row);
	return t && t->kind[row] == TAUT_KIND_LOAD;
}

/* --- who prepares, who takes -------------------------------------------------- */

struct waits { /* of one operation */
	const struct tauti_whatif *w;
	uint32_t other; /* the one on a wanted lane; TAUT_NONE */
	const uint8_t *wanted; /* by lane */
};

static void see(void *context, struct taut_wait wait)
{
	struct waits *s = context;
	struct taut_op op;

	if (taut_edit_op(s->w->edit, wait.op, &op) && s->wanted[op.lane])
		s->other = wait.op;
}

static uint32_t waits_for(const struct tauti_whatif *w, const uint8_t *wanted,
	uint32_t op)
{
	struct waits s = { w, TAUT_NONE, wanted };

	taut_edit_each_in(w->edit, op, see, &s);
	return s.other;
}

struct group { /* operations in which the main thread gets one batch */
	struct tauti_take take;
	bool open;
};

static bool close_group(struct tauti_batches *b, struct group *g)
{
	bool ok = !g->open || taut_vec_push(&b->takes, g->take);

	g->open = false;
	return ok;
}

static void enter(const struct tauti_whatif *w, const uint8_t *is_load,
	struct group *g, uint32_t op)
{
	uint32_t load = waits_for(w, is_load, op);

	if (!g->open)
		g->take = (struct tauti_take) { op, op, op, TAUT_NONE };
	g->open = true;
	g->take.last = op;
	if (load == TAUT_NONE && g->take.load == TAUT_NONE)
		g->take.op = op;
	if (load != TAUT_NONE) {
		g->take.op = op;
		g->take.load = load;
	}
}

static bool find_takes(const struct tauti_whatif *w, struct tauti_batches *b,
	const uint8_t *is_load)
{
	uint32_t main = tauti_main_lane(w, b->rank);
	struct group g = { .open = false };
	bool ok = true;

	if (main == TAUT_NONE)
		return true;
	for (uint32_t i = taut_edit_first(w->edit, main);
		ok && i != TAUT_NONE; i = taut_edit_next(w->edit, i)) {
		struct taut_op op;

		if (!taut_edit_op(w->edit, i, &op))
			continue;
		if ((tauti_op_phase(w, &op) == TAUTI_PHASE_DATA &&
			tauti_is_work(op.kind)) ||
			(op.kind == TAUT_OP_RETURN &&
			waits_for(w, is_load, i) != TAUT_NONE))
			enter(w, is_load, &g, i);
		else
			ok = close_group(b, &g);
	}
	return ok && close_group(b, &g);
}

static bool find_loads(const struct tauti_whatif *w, struct tauti_batches *b,
	const uint8_t *is_load)
{
	for (uint32_t l = 0; l < taut_edit_lanes(w->edit); l++) {
		uint32_t i;

		if (!is_load[l] || taut_edit_lane(w->edit, l).trace != b->rank)
			continue;
		i = taut_edit_first(w->edit, l);
		b->workers += i != TAUT_NONE;
		for (; i != TAUT_NONE; i = taut_edit_next(w->edit, i))
			if (!taut_vec_push(&b->loads, i))
				return false;
	}
	return true;
}

/* What no wait explains before a batch: the worker hands over the one before. */
static bool find_turn(const struct tauti_whatif *w, struct tauti_batches *b)
{
	TAUT_VEC(int64_t) gaps = { 0 };
	bool ok = true;

	for (size_t i = 0; ok && i < b->loads.count; i++) {
		struct taut_op op;

		if (taut_edit_op(w->edit, b->loads.data[i], &op) &&
			taut_edit_before(w->edit, b->loads.data[i]) != TAUT_NONE)
			ok = taut_vec_push(
				&gaps, op.gap_ns > 0 ? op.gap_ns : 0);
	}
	b->turn_ns = tauti_median(gaps.data, gaps.count);
	taut_vec_free(&gaps);
	return ok;
}

/* A batch is asked for when the one `under_way` before it has been taken. */
static void find_under_way(const struct tauti_whatif *w,
	struct tauti_batches *b, const uint8_t *is_main)
{
	for (size_t i = 0; i < b->takes.count; i++) {
		uint32_t load = b->takes.data[i].load, asked;

		asked = load == TAUT_NONE ? TAUT_NONE :
			waits_for(w, is_main, load);
		for (size_t j = 0; asked != TAUT_NONE && j < i; j++)
			if (b->takes.data[j].op == asked &&
				i - j > b->under_way)
				b->under_way = (uint32_t)(i - j);
	}
	if (!b->under_way)
		b->under_way = PREFETCH * b->workers;
}

static bool is_multi(const struct tauti_whatif *w, uint32_t rank)
{
	const struct taut_run *run = w->graph->run;
	uint32_t like = taut_edit_rank_like(w->edit, rank);
	const struct taut_names *names;

	if (!run || like >= run->n_traces)
		return false;
	names = run->traces[like].names;
	for (uint32_t i = 0; i < taut_names_count(names); i++)
		if (strstr(taut_names_text(names, i),
			"_MultiProcessingDataLoaderIter"))
			return true;
	return false;
}

/* Of the main thread's own work for a batch. */
static double own_wait(const struct tauti_whatif *w,
	const struct tauti_take *take)
{
	double sum = 0, waits = 0;

	for (uint32_t i = take->first;; i = taut_edit_next(w->edit, i)) {
		struct taut_op op;

		if (taut_edit_op(w->edit, i, &op)) {
			sum += (double)op.dur_ns;
			waits += (double)op.dur_ns * tauti_wait_share(w, i);
		}
		if (i == take->last)
			return sum > 0 ? waits / sum : 0;
	}
}

static double usual_wait(const struct tauti_whatif *w,
	const struct tauti_batches *b)
{
	double sum = 0, waits = 0;

	for (size_t i = 0; i < b->loads.count; i++) {
		struct taut_op op;

		if (!taut_edit_op(w->edit, b->loads.data[i], &op))
			continue;
		sum += (double)op.dur_ns;
		waits += (double)op.dur_ns *
			tauti_wait_share(w, b->loads.data[i]);
	}
	return sum > 0 ? waits / sum : 0;
}

static bool find_wait(const struct tauti_whatif *w, struct tauti_batches *b)
{
	double usual = usual_wait(w, b);

	b->wait = TAUT_ARENA_ARRAY(w->arena, double, b->takes.count + 1);
	for (size_t i = 0; b->wait && i < b->takes.count; i++) {
		const struct tauti_take *take = &b->takes.data[i];

		b->wait[i] = !b->workers ? own_wait(w, take) :
			take->load == TAUT_NONE ? usual :
			tauti_wait_share(w, take->load);
	}
	return b->wait != NULL;
}

static bool saw_loads(const struct tauti_whatif *w, uint32_t rank)
{
	const struct taut_run *run = w->graph->run;
	uint32_t like = taut_edit_rank_like(w->edit, rank);
	const struct taut_trace *t;

	if (!run || like >= run->n_traces)
		return false;
	t = &run->traces[like];
	for (uint32_t l = 0; l < t->n_lanes; l++)
		if (t->lane_begin[l] < t->lane_begin[l + 1] &&
			t->kind[t->lane_begin[l]] == TAUT_KIND_LOAD)
			return true;
	return false;
}

taut_status tauti_batches_find(struct tauti_whatif *w, uint32_t rank,
	struct tauti_batches *ret_batches, struct taut_error *err)
{
	struct tauti_batches b = { .rank = rank };
	uint32_t n = taut_edit_lanes(w->edit);
	uint8_t *is_load = TAUT_ARENA_ARRAY(w->arena, uint8_t, n + 1);
	uint8_t *is_main = TAUT_ARENA_ARRAY(w->arena, uint8_t, n + 1);
	bool ok = is_load && is_main;

	for (uint32_t l = 0; ok && l < n; l++) {
		struct taut_graph_lane lane = taut_edit_lane(w->edit, l);

		/* nobody waits for the workers of another rank */
		is_load[l] = lane.trace == rank && tauti_is_load_lane(w, l);
		is_main[l] = lane.is_main != 0;
	}
	ok = ok && find_loads(w, &b, is_load) && find_turn(w, &b) &&
		find_takes(w, &b, is_load) && find_wait(w, &b);
	if (!ok) {
		tauti_batches_end(&b);
		return tauti_no_memory(err, "batches");
	}
	find_under_way(w, &b, is_main);
	b.blind = !b.workers && is_multi(w, rank) && !saw_loads(w, rank);
	*ret_batches = b;
	return TAUT_OK;
}

void tauti_batches_end(struct tauti_batches *b)
{
	taut_vec_free(&b->takes);
	taut_vec_free(&b->loads);
}

taut_status tauti_batches_refuse(const struct tauti_change *c,
	const struct tauti_batches *b, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EINVAL, -1, b->blind ?
		"%s: the recording shows that loader workers were there, but "
		"not what they did; 'taut record' sees them" :
		"%s: the recording does not show where the main thread gets "
		"its batches; 'taut record' does", c->text);
}

/* --- how long ------------------------------------------------------------------- */

/* What the main thread did to have the batch. */
static int64_t own_work(const struct tauti_whatif *w,
	const struct tauti_take *take)
{
	int64_t sum = 0;

	for (uint32_t i = take->first;; i = taut_edit_next(w->edit, i)) {
		struct taut_op op;

		if (taut_edit_op(w->edit, i, &op))
			sum += op.dur_ns;
		if (i == take->last)
			return sum;
	}
}

taut_status tauti_batches_times(struct tauti_whatif *w,
	const struct tauti_batches *b, int64_t **ret_dur_ns,
	struct taut_error *err)
{
	size_t n = b->takes.count, known = 0;
	int64_t *dur_ns = TAUT_ARENA_ARRAY(w->arena, int64_t, n + 1);
	int64_t *told = TAUT_ARENA_ARRAY(
		w->arena, int64_t, b->loads.count + 1), usual;
	struct taut_op op;

	if (!dur_ns || !told)
		return tauti_no_memory(err, "batches");
	for (size_t i = 0; i < b->loads.count; i++)
		if (taut_edit_op(w->edit, b->loads.data[i], &op))
			told[known++] = op.dur_ns;
	usual = tauti_median(told, known);
	for (size_t i = 0; i < n; i++) {
		const struct tauti_take *take = &b->takes.data[i];

		dur_ns[i] = !b->workers ? own_work(w, take) :
			take->load != TAUT_NONE && taut_edit_op(w->edit,
			take->load, &op) ? op.dur_ns : usual;
	}
	*ret_dur_ns = dur_ns;
	return TAUT_OK;
}

/* --- taken only ---------------------------------------------------------------------- */

/* What is left for the main thread of a batch that somebody else made: to
 * take it from a queue and map its memory. */
static int64_t hand_over_ns(const struct tauti_whatif *w)
{
	return llround(tauti_range(w, 0.1e6, 0.4e6, 1.5e6));
}

taut_status tauti_batches_relieve(struct tauti_whatif *w,
	const struct tauti_take *take, int64_t own_ns, struct taut_error *err)
{
	taut_status status = TAUT_OK;
	int64_t left = hand_over_ns(w);

	if (left > own_ns)
		left = own_ns;
	for (uint32_t i = take->first; !status;
		i = taut_edit_next(w->edit, i)) {
		struct taut_op op;

		if (taut_edit_op(w->edit, i, &op))
			status = taut_edit_set_dur(w->edit, i, i != take->op ? 0 :
				left, err);
		if (i == take->last)
			break;
	}
	return status;
}

/* --- anew -------------------------------------------------------------------------- */

struct spreader {
	struct tauti_whatif *w;
	const struct tauti_batches *b;
	uint32_t workers, under_way;
	const int64_t *dur_ns;
	uint32_t *lane, *last; /* by worker */
	uint32_t *load;        /* by take */
};

taut_status tauti_batches_cut(struct tauti_whatif *w,
	const struct tauti_batches *b, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (size_t i = 0; !status && i < b->loads.count; i++)
		status = taut_edit_cut(w->edit, b->loads.data[i], err);
	return status;
}

static taut_status add_lanes(struct spreader *s, struct taut_error *err)
{
	uint32_t main = tauti_main_lane(s->w, s->b->rank);
	struct taut_graph_lane lane = taut_edit_lane(s->w->edit, main);
	taut_status status = TAUT_OK;

	lane.is_main = 0;
	for (uint32_t i = 0; !status && i < s->workers; i++) {
		s->last[i] = TAUT_NONE;
		status = taut_edit_add_lane(
			s->w->edit, &lane, &s->lane[i], err);
	}
	return status;
}

/* The first batch of each worker begins so long after the first step. */
static taut_status hang_first(struct spreader *s, uint32_t i,
	struct taut_error *err)
{
	const struct taut_graph *g = s->w->graph;
	uint32_t like = taut_edit_rank_like(s->w->edit, s->b->rank);
	int64_t lag = (s->dur_ns[i] + s->b->turn_ns) / s->workers * i;

	if (like != s->b->rank)
		return TAUT_OK; /* a copy of a rank: its marks have other ids */
	for (uint32_t k = 0; k < g->n_steps; k++)
		if (g->steps[k].trace == like)
			return taut_edit_connect(s->w->edit,
				g->steps[k].begin_op, s->load[i],
				TAUT_EDGE_START, lag, err);
	return TAUT_OK;
}

static taut_status add_load(struct spreader *s, uint32_t i,
	struct taut_error *err)
{
	struct taut_edit *edit = s->w->edit;
	const struct tauti_take *take = &s->b->takes.data[i];
	uint32_t worker = i % s->workers;
	struct taut_op op = { .dur_ns = s->dur_ns[i], .kind = TAUT_OP_HOST,
		.lane = s->lane[worker], .event = TAUT_NONE,
		.collective = TAUT_NONE, .like = TAUT_NONE };
	taut_status status;

	if (s->last[worker] != TAUT_NONE)
		op.gap_ns = s->b->turn_ns;
	status = taut_edit_insert(
		edit, s->last[worker], &op, "batch", &s->load[i], err);

	if (status)
		return status;
	s->last[worker] = s->load[i];
	status = tauti_set_wait_share(s->w, s->load[i], s->b->wait[i], err);
	if (!status)
		status = taut_edit_connect(edit, s->load[i], take->op,
			TAUT_EDGE_THREAD, 0, err);
	if (!status && i < s->workers)
		status = hang_first(s, i, err);
	if (!status && i >= s->under_way)
		status = taut_edit_connect(edit,
			s->b->takes.data[i - s->under_way].op, s->load[i],
			TAUT_EDGE_THREAD, 0, err);
	return status;
}

taut_status tauti_batches_spread(struct tauti_whatif *w,
	const struct tauti_batches *b, uint32_t workers, uint32_t under_way,
	const int64_t *dur_ns, struct taut_error *err)
{
	struct spreader s = { w, b, workers, under_way, dur_ns,
		TAUT_ARENA_ARRAY(w->arena, uint32_t, workers + 1),
		TAUT_ARENA_ARRAY(w->arena, uint32_t, workers + 1),
		TAUT_ARENA_ARRAY(w->arena, uint32_t, b->takes.count + 1) };
	taut_status status;

	if (!s.lane || !s.last || !s.load)
		return tauti_no_memory(err, "batches");
	w->loads_laid = true;
	status = tauti_batches_cut(w, b, err);
	if (!status)
		status = add_lanes(&s, err);
	for (uint32_t i = 0; !status && i < b->takes.count; i++)
		status = add_load(&s, i, err);
	return status;
}

/* --- whether they keep up ------------------------------------------------------------ */

/* What a rank's workers need for the batches of a step, the usual one; 0: it has none. */
static int64_t step_of_workers(const struct tauti_whatif *w,
	const struct tauti_batches *b, const int64_t *dur_ns)
{
	uint32_t like = taut_edit_rank_like(w->edit, b->rank), n_steps = 0;
	double sum = 0;

	for (uint32_t k = 0; k < w->graph->n_steps; k++)
		n_steps += w->graph->steps[k].trace == like;
	for (size_t i = 0; i < b->takes.count; i++)
		sum += (double)(dur_ns[i] + b->turn_ns);
	return b->workers && n_steps ?
		llround(sum / b->workers / n_steps) : 0;
}

static taut_status keep_up(struct tauti_whatif *w, uint32_t rank, uint32_t mark,
	int64_t step_ns, bool *ret_laid, struct taut_error *err)
{
	struct tauti_batches b;
	int64_t *dur_ns, needed = 0;
	taut_status status = tauti_batches_find(w, rank, &b, err);

	if (status)
		return status;
	status = tauti_batches_times(w, &b, &dur_ns, err);
	if (!status)
		needed = step_of_workers(w, &b, dur_ns);
	if (!status && needed > step_ns) {
		if (!*ret_laid)
			taut_edit_undo(w->edit, mark);
		*ret_laid = true;
		status = tauti_batches_spread(
			w, &b, b.workers, b.under_way, dur_ns, err);
		if (!status)
			status = tauti_note(w, err, "%u loader workers have a "
				"batch every %.3g ms, which a full queue hides "
				"for the first steps: their work is laid anew",
				b.workers, (double)needed / 1e6);
	}
	tauti_batches_end(&b);
	return status;
}

taut_status tauti_batches_keep_up(struct tauti_whatif *w, uint32_t mark,
	int64_t step_ns, bool *ret_laid, struct taut_error *err)
{
	uint32_t n_ranks = taut_edit_ranks(w->edit);
	taut_status status = TAUT_OK;

	*ret_laid = false;
	if (w->loads_laid)
		return TAUT_OK;
	for (uint32_t rank = 0; !status && rank < n_ranks; rank++)
		if (taut_edit_has_rank(w->edit, rank))
			status = keep_up(
				w, rank, mark, step_ns, ret_laid, err);
	return status;
}

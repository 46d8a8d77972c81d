/* ops.c - small questions that many transformations ask of an operation. */
#include <stdlib.h>

#include "whatif/compute.h"

taut_status tauti_no_memory(struct taut_error *err, const char *what)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for %s", what);
}

uint32_t *tauti_nones(struct taut_arena *arena, size_t n)
{
	uint32_t *numbers = TAUT_ARENA_ARRAY(arena, uint32_t, n + 1);

	if (numbers)
		memset(numbers, 0xff, n * sizeof *numbers);
	return numbers;
}

const char *tauti_fact(const struct tauti_whatif *w, const char *key)
{
	const struct taut_run *run = w->graph->run;
	const char *found = NULL;

	for (uint32_t i = 0; run && !found && i < run->n_traces; i++)
		found = taut_trace_fact(&run->traces[i], key);
	return found;
}

bool tauti_is_device_op(enum taut_op_kind kind)
{
	return kind == TAUT_OP_KERNEL || kind == TAUT_OP_COPY;
}

bool tauti_is_work(enum taut_op_kind kind)
{
	return kind == TAUT_OP_HOST || kind == TAUT_OP_LAUNCH ||
		kind == TAUT_OP_RETURN || tauti_is_device_op(kind);
}

enum tauti_phase tauti_op_phase(
	const struct tauti_whatif *w, const struct taut_op *op)
{
	return op->like == TAUT_NONE ? TAUTI_PHASE_NONE :
		(enum tauti_phase)w->job->phase[op->like];
}

uint32_t tauti_op_step(const struct tauti_whatif *w, const struct taut_op *op)
{
	return op->like == TAUT_NONE ? TAUT_NONE : w->job->step_of[op->like];
}

uint32_t tauti_op_rank(const struct tauti_whatif *w, const struct taut_op *op)
{
	return taut_edit_lane(w->edit, op->lane).trace;
}

taut_status tauti_own_steps_find(struct tauti_whatif *w,
	struct tauti_own_steps *ret_steps, struct taut_error *err)
{
	const struct taut_graph *g = w->graph;
	uint32_t n = taut_edit_ranks(w->edit);
	uint32_t *first = TAUT_ARENA_ARRAY(w->arena, uint32_t, n + 1);
	uint32_t *begin = TAUT_ARENA_ARRAY(
		w->arena, uint32_t, (size_t)g->run->n_traces + 2);

	if (!first || !begin)
		return tauti_no_memory(err, "steps");
	for (uint32_t s = 0; s < g->n_steps; s++) /* by trace */
		begin[g->steps[s].trace + 1] = s + 1;
	for (uint32_t t = 0; t < g->run->n_traces; t++)
		if (begin[t + 1] < begin[t])
			begin[t + 1] = begin[t];
	ret_steps->n = 0;
	for (uint32_t r = 0; r < n; r++) {
		uint32_t like = taut_edit_rank_like(w->edit, r);

		first[r] = ret_steps->n - begin[like];
		ret_steps->n += begin[like + 1] - begin[like];
	}
	ret_steps->first = first;
	return TAUT_OK;
}

uint32_t tauti_own_step(const struct tauti_whatif *w,
	const struct tauti_own_steps *steps, const struct taut_op *op)
{
	uint32_t rank = tauti_op_rank(w, op), step = tauti_op_step(w, op);

	return rank == TAUT_NONE || step == TAUT_NONE ? TAUT_NONE :
		steps->first[rank] + step;
}

taut_status tauti_scale_op(struct tauti_whatif *w, uint32_t op,
	const struct taut_op *is, double factor, struct taut_error *err)
{
	return taut_edit_set_dur(
		w->edit, op, tauti_ns((double)is->dur_ns * factor), err);
}

taut_status tauti_vanish(struct tauti_whatif *w, uint32_t op,
	const struct taut_op *is, struct taut_error *err)
{
	taut_status status = taut_edit_set_dur(w->edit, op, 0, err);

	return status || is->gap_ns <= 0 ? status :
		taut_edit_set_gap(w->edit, op, 0, err);
}

taut_status tauti_param_rank(const struct tauti_whatif *w,
	const struct tauti_change *c, size_t i, uint32_t *ret_rank,
	struct taut_error *err)
{
	const struct taut_run *run = w->graph->run;
	uint32_t number;
	taut_status status = tauti_param_count(c, i, 0, INT32_MAX, &number, err);

	if (status)
		return status;
	for (uint32_t r = 0; run && r < run->n_traces; r++) {
		if (run->traces[r].rank != (int32_t)number)
			continue;
		if (!taut_edit_has_rank(w->edit, r))
			break;
		*ret_rank = r;
		return TAUT_OK;
	}
	return taut_error_set(err, TAUT_EINVAL, -1, "%s: the recording has no "
		"rank %u", c->text, number);
}

taut_status tauti_param_factor(const struct tauti_change *c, size_t i,
	double *ret, struct taut_error *err)
{
	bool is_factor;
	double value;
	taut_status status = tauti_param_scaled(
		c, i, TAUTI_PLAIN, &is_factor, &value, err);

	if (status)
		return status;
	if (!(value > 0) || value > 1e6)
		return taut_error_set(err, TAUT_EINVAL, -1, "%s: expected a "
			"factor above 0, such as 2x or 0.5x", c->text);
	*ret = value;
	return TAUT_OK;
}

static bool make_room(const struct tauti_whatif *w, struct tauti_mains *m)
{
	uint32_t n = taut_edit_ranks(w->edit), room = 2 * n + 4;
	uint32_t *of;

	if (n <= m->room)
		return true;
	of = tauti_nones(w->arena, room);
	if (!of)
		return false;
	if (m->room)
		memcpy(of, m->of, m->room * sizeof *of);
	m->of = of;
	m->room = room;
	return true;
}

/* At those that came since; fewer than before: there was an undo. */
static bool look_at_lanes(const struct tauti_whatif *w, struct tauti_mains *m)
{
	uint32_t n = taut_edit_lanes(w->edit);

	if (!make_room(w, m))
		return false;
	if (n < m->n_lanes) {
		memset(m->of, 0xff, m->room * sizeof *m->of);
		m->n_lanes = 0;
	}
	for (; m->n_lanes < n; m->n_lanes++) {
		struct taut_graph_lane lane =
			taut_edit_lane(w->edit, m->n_lanes);

		if (lane.is_main && lane.trace < m->room &&
			m->of[lane.trace] == TAUT_NONE)
			m->of[lane.trace] = m->n_lanes;
	}
	return true;
}

uint32_t tauti_main_lane(const struct tauti_whatif *w, uint32_t rank)
{
	if (w->mains && look_at_lanes(w, w->mains))
		return rank < w->mains->room ? w->mains->of[rank] : TAUT_NONE;
	for (uint32_t l = 0; l < taut_edit_lanes(w->edit); l++) {
		struct taut_graph_lane lane = taut_edit_lane(w->edit, l);

		if (lane.trace == rank && lane.is_main)
			return l;
	}
	return TAUT_NONE;
}

const struct taut_trace *tauti_op_trace(
	const struct tauti_whatif *w, uint32_t op, uint32_t *ret_row)
{
	const struct taut_graph *g = w->graph;
	uint32_t trace = g->lanes[g->lane[op]].trace;

	if (!g->run || !g->event || trace == TAUT_NONE ||
		g->event[op] == TAUT_NONE)
		return NULL;
	*ret_row = g->event[op];
	return &g->run->traces[trace];
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

int64_t tauti_median(int64_t *values, size_t n)
{
	if (!n)
		return 0;
	qsort(values, n, sizeof *values, by_value);
	return n & 1 ? values[n / 2] :
		values[n / 2 - 1] + (values[n / 2] - values[n / 2 - 1]) / 2;
}

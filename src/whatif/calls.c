/* calls.c - see calls.h. */
#include "whatif/calls.h"

#include <fnmatch.h>
#include <stdlib.h>

struct finder {
	struct tauti_whatif *w;
	const char *pattern;
	struct tauti_calls *found;
};

static int64_t row_end(const struct taut_trace *t, uint32_t row)
{
	return t->start_ns[row] + t->dur_ns[row];
}

/* --- modules ---------------------------------------------------------------------- */

/* The rows within row's time on its lane end before this one. */
static uint32_t end_within(const struct taut_trace *t, uint32_t row)
{
	uint32_t i = row + 1;

	while (i < t->lane_begin[t->lane[row] + 1] &&
		t->start_ns[i] < row_end(t, row))
		i++;
	return i;
}

static void number(
	const struct taut_trace *t, struct tauti_call *call, uint32_t end)
{
	for (uint32_t i = call->row; i < end; i++) {
		uint32_t at = t->sequence[i];

		if (!at || (t->flags[i] & TAUT_EVENT_BACKWARD) ||
			t->kind[i] != TAUT_KIND_OP)
			continue;
		if (at < call->first)
			call->first = at;
		if (at > call->last)
			call->last = at;
	}
}

/* Outermost calls alone: what is within one belongs to it. */
static bool find_ranges(struct finder *f, uint32_t trace, uint32_t *of_row)
{
	const struct taut_trace *t = &f->w->graph->run->traces[trace];

	for (uint32_t i = 0, end; i < t->n_events; i = end) {
		struct tauti_call call = { trace, i, UINT32_MAX, 0, TAUT_NONE };

		end = i + 1;
		if (t->lanes[t->lane[i]].kind != TAUT_LANE_THREAD ||
			fnmatch(f->pattern, taut_trace_name(t, i), FNM_CASEFOLD))
			continue;
		number(t, &call, end_within(t, i));
		if (!call.last)
			continue;
		end = end_within(t, i);
		for (uint32_t k = i; k < end; k++)
			of_row[k] = (uint32_t)f->found->at.count;
		if (!taut_vec_push(&f->found->at, call))
			return false;
	}
	return true;
}

/* Numbers grow with time, so calls are in their order. */
static uint32_t call_with(
	const struct finder *f, size_t from, uint32_t sequence)
{
	const struct tauti_call *calls = f->found->at.data;
	size_t lo = from, hi = f->found->at.count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (calls[mid].last < sequence)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < f->found->at.count && calls[lo].first <= sequence ?
		(uint32_t)lo : TAUT_NONE;
}

static void find_backs(struct finder *f, uint32_t trace, size_t from,
	uint32_t *back_of_row)
{
	const struct taut_trace *t = &f->w->graph->run->traces[trace];

	for (uint32_t i = 0, end; i < t->n_events; i = end) {
		uint32_t call;

		end = i + 1;
		if (!t->sequence[i] || strncmp(taut_trace_name(t, i),
			"autograd::engine::evaluate_function: ", 37))
			continue;
		end = end_within(t, i);
		call = call_with(f, from, t->sequence[i]);
		for (uint32_t k = i; k < end; k++)
			back_of_row[k] = call;
	}
}

/* --- operations of each ------------------------------------------------------------- */

static bool read_trace(struct finder *f, uint32_t trace)
{
	const struct taut_graph *g = f->w->graph;
	size_t from = f->found->at.count, n = g->run->traces[trace].n_events;
	uint32_t *of_row = malloc((n + 1) * sizeof *of_row);
	uint32_t *back_of_row = malloc((n + 1) * sizeof *back_of_row);
	bool ok = of_row && back_of_row;

	if (ok) {
		memset(of_row, 0xff, n * sizeof *of_row);
		memset(back_of_row, 0xff, n * sizeof *back_of_row);
		ok = find_ranges(f, trace, of_row);
	}
	if (ok)
		find_backs(f, trace, from, back_of_row);
	for (uint32_t op = 0; ok && op < g->n_ops; op++) {
		uint32_t row;

		if (g->lanes[g->lane[op]].trace != trace ||
			tauti_is_device_op(g->kind[op]) ||
			!tauti_op_trace(f->w, op, &row))
			continue;
		f->found->of[op] = of_row[row];
		f->found->back_of[op] = back_of_row[row];
		if (back_of_row[row] != TAUT_NONE &&
			f->found->at.data[back_of_row[row]].back == TAUT_NONE)
			f->found->at.data[back_of_row[row]].back = op;
	}
	free(of_row);
	free(back_of_row);
	return ok;
}

static taut_status read_all(struct finder *f, struct taut_error *err)
{
	const struct taut_graph *g = f->w->graph;

	f->found->of = tauti_nones(f->w->arena, g->n_ops);
	f->found->back_of = tauti_nones(f->w->arena, g->n_ops);
	if (!f->found->of || !f->found->back_of)
		return tauti_no_memory(err, "calls of modules");
	for (uint32_t r = 0; r < g->run->n_traces; r++)
		if (!read_trace(f, r))
			return tauti_no_memory(err, "calls of modules");
	return TAUT_OK;
}

/* Device work is of the call that launched it. */
static void follow_launches(
	const struct finder *f, const uint32_t *launcher)
{
	const struct taut_graph *g = f->w->graph;

	for (uint32_t op = 0; op < g->n_ops; op++) {
		if (!tauti_is_device_op(g->kind[op]) ||
			launcher[op] == TAUT_NONE)
			continue;
		f->found->of[op] = f->found->of[launcher[op]];
		f->found->back_of[op] = f->found->back_of[launcher[op]];
	}
}

taut_status tauti_calls_find(struct tauti_whatif *w, const char *pattern,
	struct tauti_calls *ret_calls, struct taut_error *err)
{
	struct finder f = { w, pattern, ret_calls };
	uint32_t *launcher;
	taut_status status = tauti_launchers(w, &launcher, err);

	*ret_calls = (struct tauti_calls) { .of = NULL };
	if (!status)
		status = read_all(&f, err);
	if (!status)
		follow_launches(&f, launcher);
	return status;
}

void tauti_calls_end(struct tauti_calls *calls)
{
	taut_vec_free(&calls->at);
}

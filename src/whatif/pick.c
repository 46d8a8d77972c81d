/* pick.c - operations by the names of the events around them. */
#include "whatif/compute.h"

struct picker {
	struct tauti_whatif *w;
	tauti_name_fn is;
	const void *context;
	uint8_t but;      /* flag of events that are not picked */
	uint8_t **within; /* by trace, row */
	uint8_t *picked;
};

enum { PICKED = 1, NEVER };

struct open_row {
	uint32_t row;
	int64_t end;
};

/* By name of a trace, 1 where it is such. */
static uint8_t *judge(const struct picker *p, const struct taut_names *names)
{
	uint32_t n = taut_names_count(names);
	uint8_t *is = TAUT_ARENA_ARRAY(p->w->arena, uint8_t, n + 1);

	for (uint32_t i = 0; is && i < n; i++)
		is[i] = p->is(p->context, taut_names_text(names, i));
	return is;
}

/* Rows of one thread: each inherits from the event around it. */
static bool inherit(const struct picker *p, const struct taut_trace *t,
	uint32_t lane, const uint8_t *is, uint8_t *within)
{
	TAUT_VEC(struct open_row) open = { 0 };
	bool ok = true;

	for (uint32_t i = t->lane_begin[lane];
		ok && i < t->lane_begin[lane + 1]; i++) {
		struct open_row row = { i, t->start_ns[i] + t->dur_ns[i] };

		while (open.count &&
			open.data[open.count - 1].end <= t->start_ns[i])
			open.count--;
		within[i] = open.count ?
			within[open.data[open.count - 1].row] : 0;
		if (t->flags[i] & p->but)
			within[i] = NEVER;
		else if (!within[i])
			within[i] = is[t->name[i]];
		ok = taut_vec_push(&open, row);
	}
	taut_vec_free(&open);
	return ok;
}

static bool judge_rows(struct picker *p, uint32_t trace)
{
	const struct taut_trace *t = &p->w->graph->run->traces[trace];
	uint8_t *is = judge(p, t->names);
	bool ok;

	p->within[trace] = TAUT_ARENA_ARRAY(
		p->w->arena, uint8_t, t->n_events + 1);
	ok = is && p->within[trace];
	for (uint32_t l = 0; ok && l < t->n_lanes; l++) {
		if (t->lanes[l].kind == TAUT_LANE_THREAD)
			ok = inherit(p, t, l, is, p->within[trace]);
		else
			for (uint32_t i = t->lane_begin[l];
				i < t->lane_begin[l + 1]; i++)
				p->within[trace][i] = is[t->name[i]];
	}
	return ok;
}

static bool pick_around(struct picker *p)
{
	const struct taut_graph *g = p->w->graph;

	p->within = TAUT_ARENA_ARRAY(
		p->w->arena, uint8_t *, g->run->n_traces + 1);
	if (!p->within)
		return false;
	for (uint32_t r = 0; r < g->run->n_traces; r++)
		if (!judge_rows(p, r))
			return false;
	for (uint32_t i = 0; i < g->n_ops; i++) {
		uint32_t row, trace = g->lanes[g->lane[i]].trace;

		if (tauti_op_trace(p->w, i, &row))
			p->picked[i] = p->within[trace][row] ?
				p->within[trace][row] : p->picked[i];
	}
	return true;
}

taut_status tauti_launchers(struct tauti_whatif *w, uint32_t **ret_launcher,
	struct taut_error *err)
{
	const struct taut_graph *g = w->graph;
	uint32_t *launcher = TAUT_ARENA_ARRAY(w->arena, uint32_t, g->n_ops + 1);

	if (!launcher)
		return tauti_no_memory(err, "launches");
	memset(launcher, 0xff, g->n_ops * sizeof *launcher);
	for (uint32_t i = 0; i < g->n_ops; i++)
		for (uint32_t e = g->edge_begin[i]; e < g->edge_begin[i + 1]; e++)
			if ((g->edge_kind[e] & ~TAUT_EDGE_FROM_START) ==
				TAUT_EDGE_LAUNCH)
				launcher[g->edge_to[e]] = i;
	*ret_launcher = launcher;
	return TAUT_OK;
}

taut_status tauti_pick_own(struct tauti_whatif *w, tauti_name_fn is,
	const void *context, uint8_t **ret_picked, struct taut_error *err)
{
	const struct taut_graph *g = w->graph;
	struct picker p = { .w = w, .is = is, .context = context };
	uint8_t *names = judge(&p, g->names);

	p.picked = TAUT_ARENA_ARRAY(w->arena, uint8_t, g->n_ops + 1);
	if (!names || !p.picked)
		return tauti_no_memory(err, "a selection");
	for (uint32_t i = 0; i < g->n_ops; i++)
		p.picked[i] = names[g->name[i]];
	*ret_picked = p.picked;
	return TAUT_OK;
}

taut_status tauti_pick_but(struct tauti_whatif *w, tauti_name_fn is,
	const void *context, uint8_t flag, uint8_t **ret_picked,
	struct taut_error *err)
{
	const struct taut_graph *g = w->graph;
	struct picker p = { .w = w, .is = is, .context = context, .but = flag };
	uint32_t *launcher;
	taut_status status = tauti_pick_own(w, is, context, &p.picked, err);

	if (!status)
		status = tauti_launchers(w, &launcher, err);
	if (status)
		return status;
	if (g->run && !pick_around(&p))
		return tauti_no_memory(err, "a selection");
	for (uint32_t i = 0; i < g->n_ops; i++)
		if (launcher[i] != TAUT_NONE && p.picked[launcher[i]])
			p.picked[i] = p.picked[launcher[i]];
	for (uint32_t i = 0; i < g->n_ops; i++)
		p.picked[i] = p.picked[i] == PICKED;
	*ret_picked = p.picked;
	return TAUT_OK;
}

taut_status tauti_pick(struct tauti_whatif *w, tauti_name_fn is,
	const void *context, uint8_t **ret_picked, struct taut_error *err)
{
	return tauti_pick_but(w, is, context, 0, ret_picked, err);
}

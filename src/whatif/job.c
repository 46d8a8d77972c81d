/* job.c - the job as a framework's user sees it: phases, and the collectives
 * that sum gradients. */
#include <stdlib.h>
#include <string.h>

#include "whatif/pipes.h"
#include "whatif/spans.h"
#include "whatif/within.h"

struct builder {
	const struct taut_graph *g;
	struct tauti_job *job;
	struct tauti_spans *spans; /* by trace */
	uint32_t *main_lane;       /* by trace: of the trace; TAUT_NONE */
	uint32_t *first_step;      /* by trace, and one more */
	uint32_t *launch_of;       /* by op; TAUT_NONE */
	TAUT_VEC(uint32_t) gradients;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for the job");
}

/* --- tables ------------------------------------------------------------------- */

static void find_lanes(struct builder *b)
{
	const struct taut_graph *g = b->g;

	for (uint32_t i = 0; i < g->run->n_traces; i++)
		b->main_lane[i] = TAUT_NONE;
	for (uint32_t l = 0; l < g->n_lanes; l++) {
		if (g->lanes[l].trace == TAUT_NONE)
			continue;
		if (g->lanes[l].is_main)
			b->main_lane[g->lanes[l].trace] =
				g->lanes[l].trace_lane;
		b->job->has_device |= g->lanes[l].kind == TAUT_LANE_STREAM;
	}
}

static void find_steps(struct builder *b)
{
	const struct taut_graph *g = b->g;
	uint32_t s = 0;

	for (uint32_t i = 0; i <= g->run->n_traces; i++) {
		while (s < g->n_steps && g->steps[s].trace < i)
			s++;
		b->first_step[i] = s;
	}
}

static void find_launches(struct builder *b)
{
	const struct taut_graph *g = b->g;

	for (uint32_t op = 0; op < g->n_ops; op++)
		b->launch_of[op] = TAUT_NONE;
	for (uint32_t op = 0; op < g->n_ops; op++)
		for (uint32_t e = g->edge_begin[op]; e < g->edge_begin[op + 1];
			e++)
			if ((g->edge_kind[e] & ~TAUT_EDGE_FROM_START) ==
				TAUT_EDGE_LAUNCH)
				b->launch_of[g->edge_to[e]] = op;
	for (uint32_t op = 1; op < g->n_ops; op++)
		if (g->kind[op] == TAUT_OP_TRANSFER &&
			g->kind[op - 1] == TAUT_OP_ARRIVE)
			b->launch_of[op] = b->launch_of[op - 1];
}

/* The step of a trace in which an instant lies. */
static uint32_t step_at(const struct builder *b, uint32_t trace, int64_t at)
{
	uint32_t lo = b->first_step[trace], hi = b->first_step[trace + 1];
	uint32_t first = lo;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (b->g->steps[mid].start_ns <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == first || at >= b->g->steps[lo - 1].end_ns)
		return TAUT_NONE;
	return lo - 1;
}

/* --- phases -------------------------------------------------------------------- */

/* Where nothing says what computes gradients, names may. */
static enum tauti_phase phase_of_name(const char *name)
{
	static const char *const update[] = { "ApplyGradient", "Optimizer",
		"Adam", "ResourceApply", "Momentum", "multi_tensor_apply" };

	enum tauti_pipe_role role = tauti_pipe_role(name);

	if (role == TAUTI_PIPE_UPDATE || role == TAUTI_PIPE_BACKWARD)
		return role == TAUTI_PIPE_UPDATE ? TAUTI_PHASE_OPTIMIZER :
			TAUTI_PHASE_BACKWARD;
	for (size_t i = 0; i < sizeof update / sizeof update[0]; i++)
		if (strstr(name, update[i]))
			return TAUTI_PHASE_OPTIMIZER;
	return strstr(name, "gradient") || strstr(name, "_backward") ||
		strstr(name, "Backward") || strstr(name, "Grad") ?
		TAUTI_PHASE_BACKWARD : TAUTI_PHASE_FORWARD;
}

static enum tauti_phase host_phase(
	const struct builder *b, uint32_t trace, uint32_t op)
{
	const struct taut_graph *g = b->g;
	const struct taut_trace *t = &g->run->traces[trace];
	const struct tauti_spans *spans = &b->spans[trace];
	uint32_t step = b->job->step_of[op];
	enum tauti_phase phase;

	if (g->event[op] != TAUT_NONE &&
		t->kind[g->event[op]] == TAUT_KIND_LOAD)
		return TAUTI_PHASE_DATA;
	phase = tauti_phase_at(spans, g->start_ns[op], step == TAUT_NONE ?
		INT64_MIN : g->steps[step].end_ns);
	if (spans->autograd[g->lanes[g->lane[op]].trace_lane])
		return phase == TAUTI_PHASE_BACKWARD ? phase :
			TAUTI_PHASE_NONE;
	if (phase == TAUTI_PHASE_NONE && !spans->has_backward &&
		step != TAUT_NONE && g->name[op])
		return phase_of_name(taut_names_text(g->names, g->name[op]));
	return phase;
}

static bool is_device(uint8_t kind)
{
	return kind == TAUT_OP_KERNEL || kind == TAUT_OP_COPY ||
		kind == TAUT_OP_ARRIVE || kind == TAUT_OP_TRANSFER;
}

/* By its launch, or, of what is not launched, by when it began; where nothing
 * tells backward, its own name may. */
static void place_device(struct builder *b, uint32_t trace, uint32_t op)
{
	const struct taut_graph *g = b->g;
	struct tauti_job *job = b->job;
	uint32_t by = b->launch_of[op];
	enum tauti_phase own;

	if (by == TAUT_NONE) {
		job->step_of[op] = step_at(b, trace, g->start_ns[op]);
		if (g->lanes[g->lane[op]].kind == TAUT_LANE_THREAD)
			job->phase[op] = (uint8_t)host_phase(b, trace, op);
	} else {
		job->step_of[op] = job->step_of[by];
		job->phase[op] = job->phase[by];
	}
	if (!b->spans[trace].has_backward && g->name[op] &&
		job->step_of[op] != TAUT_NONE) {
		own = phase_of_name(taut_names_text(g->names, g->name[op]));
		if (own != TAUTI_PHASE_FORWARD ||
			job->phase[op] == TAUTI_PHASE_NONE)
			job->phase[op] = (uint8_t)own;
	}
}

static void place_ops(struct builder *b)
{
	const struct taut_graph *g = b->g;

	for (uint32_t op = 0; op < g->n_ops; op++) {
		uint32_t trace = g->lanes[g->lane[op]].trace;

		b->job->step_of[op] = TAUT_NONE;
		if (trace == TAUT_NONE || is_device(g->kind[op]))
			continue;
		b->job->step_of[op] = step_at(b, trace, g->start_ns[op]);
		if (g->kind[op] != TAUT_OP_MARK)
			b->job->phase[op] = (uint8_t)host_phase(b, trace, op);
	}
	for (uint32_t s = 0; s < g->n_steps; s++) {
		b->job->step_of[g->steps[s].begin_op] = s;
		b->job->step_of[g->steps[s].end_op] = s;
	}
	for (uint32_t op = 0; op < g->n_ops; op++)
		if (is_device(g->kind[op]) &&
			g->lanes[g->lane[op]].trace != TAUT_NONE)
			place_device(b, g->lanes[g->lane[op]].trace, op);
}

/* --- gradients ------------------------------------------------------------------ */

static bool sums(enum taut_coll_kind kind)
{
	return kind == TAUT_COLL_ALLREDUCE ||
		kind == TAUT_COLL_REDUCESCATTER || kind == TAUT_COLL_REDUCE ||
		kind == TAUT_COLL_PUSHPULL || kind == TAUT_COLL_PUSH;
}

/* Handed over during backward, or behind it and before the weights are
 * updated. */
static bool carries_gradients(
	const struct builder *b, uint32_t trace, uint32_t arrive)
{
	const struct tauti_spans *spans = &b->spans[trace];
	uint32_t by = b->launch_of[arrive];
	int64_t at = b->g->start_ns[by == TAUT_NONE ? arrive : by];
	bool behind = false;

	if (!spans->has_backward ||
		b->job->phase[arrive] == TAUTI_PHASE_BACKWARD)
		return true;
	for (size_t i = 0; i < spans->spans.count; i++) {
		const struct tauti_span *s = &spans->spans.data[i];

		if (s->start > at)
			return behind &&
				s->phase == TAUTI_PHASE_OPTIMIZER && !s->aside;
		if (!s->aside)
			behind = s->phase == TAUTI_PHASE_BACKWARD;
	}
	return false;
}

struct arrival {
	uint32_t step, collective;
	int64_t at;
};

static int by_arrival(const void *a, const void *b)
{
	const struct arrival *x = a, *y = b;

	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->collective < y->collective ? -1 :
		x->collective > y->collective;
}

static void place_gradients(struct builder *b, const struct arrival *arrivals,
	size_t n)
{
	struct tauti_job *job = b->job;
	size_t at = 0;

	for (uint32_t s = 0; s < job->n_steps; s++) {
		job->steps[s] = (struct tauti_job_step){ b->g->steps[s].trace,
			s, (uint32_t)at, 0 };
		for (; at < n && arrivals[at].step == s; at++) {
			job->gradients[at] = arrivals[at].collective;
			job->steps[s].n_gradients++;
		}
	}
}

static bool find_within(struct builder *b)
{
	const struct tauti_within in = { b->g, b->job, b->spans,
		b->launch_of };

	b->job->within = calloc((size_t)b->g->n_collectives + 1, 1);
	return b->job->within && tauti_within_find(&in, b->job->within);
}

static bool find_gradients(struct builder *b)
{
	const struct taut_graph *g = b->g;
	TAUT_VEC(struct arrival) found = { 0 };
	bool ok = true;

	for (uint32_t c = 0; ok && c < g->n_collectives; c++) {
		const struct taut_collective *coll = &g->collectives[c];

		for (uint32_t m = 0; ok && sums(coll->kind) &&
			!b->job->within[c] && m < coll->n_members; m++) {
			uint32_t op = g->member_arrive[coll->first_member + m];
			uint32_t trace = g->lanes[g->lane[op]].trace;
			struct arrival a = { b->job->step_of[op], c,
				g->start_ns[op] };

			if (trace != TAUT_NONE && a.step != TAUT_NONE &&
				carries_gradients(b, trace, op))
				ok = taut_vec_push(&found, a);
		}
	}
	if (ok && found.count)
		qsort(found.data, found.count, sizeof *found.data, by_arrival);
	b->job->n_steps = g->n_steps;
	b->job->steps = calloc(g->n_steps + 1, sizeof *b->job->steps);
	b->job->gradients = calloc(
		found.count + 1, sizeof *b->job->gradients);
	ok = ok && b->job->steps && b->job->gradients;
	if (ok)
		place_gradients(b, found.data, found.count);
	taut_vec_free(&found);
	return ok;
}

/* --- the whole -------------------------------------------------------------------- */

static taut_status find_spans(struct builder *b, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < b->g->run->n_traces; i++)
		status = tauti_spans_find(
			b->g, i, b->main_lane[i], &b->spans[i], err);
	return status;
}

static taut_status build(struct builder *b, struct taut_error *err)
{
	const struct taut_graph *g = b->g;
	uint32_t n_traces = g->run->n_traces;
	taut_status status;

	b->job->phase = calloc((size_t)g->n_ops + 1, 1);
	b->job->step_of = calloc((size_t)g->n_ops + 1,
		sizeof *b->job->step_of);
	b->spans = calloc((size_t)n_traces + 1, sizeof *b->spans);
	b->main_lane = calloc((size_t)n_traces + 1, sizeof *b->main_lane);
	b->first_step = calloc((size_t)n_traces + 2, sizeof *b->first_step);
	b->launch_of = calloc((size_t)g->n_ops + 1, sizeof *b->launch_of);
	if (!b->job->phase || !b->job->step_of || !b->spans || !b->main_lane ||
		!b->first_step || !b->launch_of)
		return no_memory(err);
	find_lanes(b);
	find_steps(b);
	find_launches(b);
	status = find_spans(b, err);
	if (status)
		return status;
	place_ops(b);
	return find_within(b) && find_gradients(b) ? TAUT_OK : no_memory(err);
}

taut_status tauti_job_create(const struct taut_graph *graph,
	struct tauti_job **ret_job, struct taut_error *err)
{
	struct builder b = { .g = graph, .job = calloc(1, sizeof *b.job) };
	taut_status status = b.job ? build(&b, err) : no_memory(err);

	for (uint32_t i = 0; b.spans && i < graph->run->n_traces; i++)
		tauti_spans_free(&b.spans[i]);
	free(b.spans);
	free(b.main_lane);
	free(b.first_step);
	free(b.launch_of);
	if (status)
		tauti_job_destroy(b.job);
	else
		*ret_job = b.job;
	return status;
}

void tauti_job_destroy(struct tauti_job *job)
{
	if (!job)
		return;
	free(job->phase);
	free(job->step_of);
	free(job->steps);
	free(job->gradients);
	free(job->within);
	free(job);
}

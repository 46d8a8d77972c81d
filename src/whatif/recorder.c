/* recorder.c - see recorder.h. */
#include "whatif/recorder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HALVINGS = 10 };

/* Nothing that was measured costs more than most_ns an event. Where nothing
 * tells, PyTorch's profiler on one core of an AMD EPYC took 2.4 us with shapes
 * (bench/lab) and 0.5 us without (bench/record_cpu.py). */
static const double most_ns = 8000, shapes_ns = 2400, plain_ns = 500;

static double usual_ns_of(const struct taut_graph *g)
{
	for (uint32_t i = 0; i < g->run->n_traces; i++)
		if (!g->run->traces[i].sizes_lent)
			return shapes_ns;
	return plain_ns;
}

/* --- taking it off ------------------------------------------------------------------ */

/* Does the profiler write such an event from within the thread? */
static bool is_written(uint8_t kind)
{
	return kind == TAUT_KIND_OP || kind == TAUT_KIND_ANNOTATION ||
		kind == TAUT_KIND_PYTHON || kind == TAUT_KIND_RUNTIME;
}

/* Events that begin behind row `seen`, up to `row`. */
static uint32_t events_begun(
	const struct taut_trace *t, uint32_t seen, uint32_t row)
{
	uint32_t n = 0;

	for (uint32_t i = seen; i <= row; i++)
		n += is_written(t->kind[i]);
	return n;
}

static void cut_lane(const struct taut_graph *g, uint32_t lane,
	double event_ns, const int64_t *from_ns, int64_t *to_ns)
{
	const struct taut_trace *t = &g->run->traces[g->lanes[lane].trace];
	uint32_t next = t->lane_begin[g->lanes[lane].trace_lane];
	double owed = 0;

	for (uint32_t op = g->lane_begin[lane]; op < g->lane_begin[lane + 1];
		op++) {
		uint32_t row = g->event[op];
		int64_t cut;

		if (g->kind[op] != TAUT_OP_HOST && g->kind[op] != TAUT_OP_LAUNCH)
			continue;
		if (row != TAUT_NONE && row >= next) {
			owed += event_ns * events_begun(t, next, row);
			next = row + 1;
		}
		cut = (int64_t)fmin(owed, (double)from_ns[op]);
		to_ns[op] = from_ns[op] - cut;
		owed -= (double)cut;
	}
}

void tauti_recorder_cut(const struct taut_graph *graph, double event_ns,
	const int64_t *from_ns, int64_t *to_ns)
{
	if (to_ns != from_ns)
		memcpy(to_ns, from_ns, graph->n_ops * sizeof *to_ns);
	for (uint32_t lane = 0; lane < graph->n_lanes && event_ns > 0; lane++)
		if (graph->lanes[lane].trace != TAUT_NONE &&
			graph->lanes[lane].kind == TAUT_LANE_THREAD &&
			!graph->lanes[lane].is_comm)
			cut_lane(graph, lane, event_ns, from_ns, to_ns);
}

/* --- finding it ------------------------------------------------------------------------ */

struct finder {
	const struct taut_graph *g;
	const struct taut_costs *costs;
	struct taut_sharing *sharing;
	struct taut_timeline timeline;
	int64_t *dur_ns;
	struct taut_error *err;
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* A step without recording / with it, the median over the ranks that know;
 * 0: none does. */
static taut_status find_ratio(
	const struct taut_graph *g, double *ret_ratio, struct taut_error *err)
{
	double *ratios = calloc((size_t)g->run->n_traces + 1, sizeof *ratios);
	uint32_t n = 0;

	if (!ratios)
		return taut_error_set(
			err, TAUT_ENOMEM, -1, "no memory for the recorder");
	for (uint32_t i = 0; i < g->run->n_traces; i++) {
		const struct taut_trace *t = &g->run->traces[i];

		if (t->step_recorded_ns > 0 && t->step_unrecorded_ns > 0)
			ratios[n++] = (double)t->step_unrecorded_ns /
				(double)t->step_recorded_ns;
	}
	qsort(ratios, n, sizeof *ratios, by_value);
	*ret_ratio = n ? (ratios[(n - 1) / 2] + ratios[n / 2]) / 2 : 0;
	free(ratios);
	return TAUT_OK;
}

static taut_status step_without(
	struct finder *f, double event_ns, int64_t *ret_ns)
{
	struct taut_replay_edit edit = { .dur_ns = f->dur_ns,
		.sharing = f->sharing, .unordered = 1 };
	taut_status status;

	tauti_recorder_cut(f->g, event_ns, f->costs->dur_ns, f->dur_ns);
	status = taut_replay(f->g, &edit, &f->timeline, f->err);
	return status ? status : taut_steady_step(f->g, f->timeline.start_ns,
		f->timeline.end_ns, ret_ns, f->err);
}

/* The cost with which the step is target_ns, by halving; most_ns where even
 * that leaves more. */
static taut_status solve(struct finder *f, int64_t target_ns, double *ret_ns)
{
	double low = 0, high = most_ns;

	for (int i = 0; i < HALVINGS; i++) {
		double middle = (low + high) / 2;
		int64_t step;
		taut_status status = step_without(f, middle, &step);

		if (status)
			return status;
		if (step > target_ns)
			low = middle;
		else
			high = middle;
	}
	*ret_ns = (low + high) / 2;
	return TAUT_OK;
}

/* Where the usual cost would not shorten the step by half of what it adds up
 * to on a thread, the step is another's: a link's, a loader's. */
static taut_status find_cost(struct finder *f, int64_t steady_ns, double ratio,
	struct tauti_recorder *r)
{
	int64_t with_usual, target = (int64_t)((double)steady_ns * ratio);
	double usual_ns = usual_ns_of(f->g);
	taut_status status = step_without(f, shapes_ns, &with_usual);
	double noise = 0.01 * (double)steady_ns, slope;

	if (status)
		return status;
	slope = (double)(steady_ns - with_usual) / shapes_ns;
	if (slope * shapes_ns < noise) {
		r->event_ns = usual_ns;
		r->high_ns = 2 * usual_ns;
		return TAUT_OK;
	}
	r->told = true;
	if (ratio < 1)
		status = solve(f, target, &r->event_ns);
	/* medians of a few steps: known to about a hundredth of a step */
	r->low_ns = fmax(0, r->event_ns - noise / slope);
	r->high_ns = fmin(most_ns, r->event_ns + noise / slope);
	return status;
}

static taut_status finder_init(struct finder *f)
{
	taut_status status;

	f->dur_ns = malloc(((size_t)f->g->n_ops + 1) * sizeof *f->dur_ns);
	if (!f->dur_ns)
		return taut_error_set(f->err, TAUT_ENOMEM, -1,
			"no memory for the recorder");
	status = taut_sharing_create(f->g, &f->costs->site,
		f->costs->transfers, &f->sharing, f->err);
	return status ? status :
		taut_timeline_init(&f->timeline, f->g, f->err);
}

taut_status tauti_recorder_find(const struct taut_graph *graph,
	const struct taut_costs *costs, int64_t steady_ns,
	struct tauti_recorder *ret_recorder, struct taut_error *err)
{
	struct finder f = { .g = graph, .costs = costs, .err = err };
	struct tauti_recorder recorder = { 0 };
	double ratio = 0;
	taut_status status = find_ratio(graph, &ratio, err);

	if (!status && ratio > 0) {
		status = finder_init(&f);
		if (!status)
			status = find_cost(&f, steady_ns, ratio, &recorder);
		if (!status)
			status = step_without(
				&f, recorder.event_ns, &recorder.step_ns);
		taut_timeline_fini(&f.timeline);
		taut_sharing_destroy(f.sharing);
		free(f.dur_ns);
	}
	if (!status)
		*ret_recorder = recorder;
	return status;
}

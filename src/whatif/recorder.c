/* recorder.c - see recorder.h. */
#include "whatif/recorder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "whatif/issue.h"

enum { HALVINGS = 10 };

/* Nothing that was measured costs more than most_ns an event. */
static const double most_ns = 8000, shapes_ns = 2400;

struct usual {
	double event_ns, low_ns, high_ns;
};

/* Where nothing tells. Without a device: on one core of an AMD EPYC, PyTorch's
 * profiler took 0.5 us an event (bench/record_cpu.py), and 2.4 with shapes
 * (bench/lab). With one: the jobs of bench/device.py on an H100, in 16 bits and with
 * batches so small that the host decides, took 1.1 to 3.2 us (torch 2.11). Shapes
 * with a device were not measured: what they add without one is added. */
static struct usual usual_of(const struct taut_graph *g)
{
	static const struct usual plain = { 500, 0, 1000 };
	static const struct usual shapes = { 2400, 0, 4800 };
	static const struct usual device = { 2000, 1000, 4000 };
	static const struct usual device_shapes = { 3900, 1000, 8000 };
	bool has_device = false, has_shapes = false;

	for (uint32_t i = 0; i < g->n_lanes; i++)
		has_device |= g->lanes[i].trace != TAUT_NONE &&
			g->lanes[i].kind == TAUT_LANE_STREAM;
	for (uint32_t i = 0; i < g->run->n_traces; i++)
		has_shapes |= !g->run->traces[i].sizes_lent;
	if (has_device)
		return has_shapes ? device_shapes : device;
	return has_shapes ? shapes : plain;
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
	struct tauti_issue issue;
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

static taut_status replay_without(struct finder *f, double event_ns)
{
	struct taut_replay_edit edit = { .dur_ns = f->dur_ns,
		.sharing = f->sharing, .unordered = 1 };

	tauti_recorder_cut(f->g, event_ns, f->costs->dur_ns, f->dur_ns);
	return taut_replay(f->g, &edit, &f->timeline, f->err);
}

/* What is timed with recording and without. */
typedef taut_status timed_fn(
	struct finder *f, double event_ns, int64_t *ret_ns);

static taut_status step_without(
	struct finder *f, double event_ns, int64_t *ret_ns)
{
	taut_status status = replay_without(f, event_ns);

	return status ? status : taut_steady_step(f->g, f->timeline.start_ns,
		f->timeline.end_ns, ret_ns, f->err);
}

static taut_status issue_without(
	struct finder *f, double event_ns, int64_t *ret_ns)
{
	double error;
	taut_status status = replay_without(f, event_ns);

	return status ? status : tauti_issue_measure(&f->issue,
		f->timeline.start_ns, f->timeline.end_ns, ret_ns, &error,
		f->err);
}

/* The cost with which what is timed takes target_ns, by halving; most_ns where
 * even that leaves more. */
static taut_status solve(struct finder *f, timed_fn *timed, int64_t target_ns,
	double *ret_ns)
{
	double low = 0, high = most_ns;

	for (int i = 0; i < HALVINGS; i++) {
		double middle = (low + high) / 2;
		int64_t took;
		taut_status status = timed(f, middle, &took);

		if (status)
			return status;
		if (took > target_ns)
			low = middle;
		else
			high = middle;
	}
	*ret_ns = (low + high) / 2;
	return TAUT_OK;
}

/* slope: how much shorter what is timed gets for each nanosecond an event. */
static taut_status tell(struct finder *f, timed_fn *timed, int64_t with_ns,
	int64_t without_ns, double noise_ns, double slope,
	struct tauti_recorder *r)
{
	taut_status status = TAUT_OK;

	r->event_ns = 0;
	if (without_ns < with_ns)
		status = solve(f, timed, without_ns, &r->event_ns);
	r->low_ns = fmax(0, r->event_ns - noise_ns / slope);
	r->high_ns = fmin(most_ns, r->event_ns + noise_ns / slope);
	return status;
}

/* Medians of a few steps are known to about a hundredth of a step. One that a
 * cost as that with shapes would not shorten by as much is another's: a device's,
 * a link's, a loader's. */
static taut_status by_steps(struct finder *f, int64_t steady_ns,
	int64_t target, double *ret_slope, struct tauti_recorder *r)
{
	int64_t with_usual;
	taut_status status = step_without(f, shapes_ns, &with_usual);
	double noise = 0.01 * (double)steady_ns;

	if (status)
		return status;
	*ret_slope = (double)(steady_ns - with_usual) / shapes_ns;
	if (*ret_slope * shapes_ns < noise)
		return TAUT_OK;
	r->told = TAUTI_RECORDER_BY_STEPS;
	return tell(f, step_without, steady_ns, target, noise, *ret_slope, r);
}

/* The shortest step without recording of the ranks that know. */
static int64_t unrecorded_step(const struct taut_graph *g)
{
	int64_t least = INT64_MAX;

	for (uint32_t i = 0; i < g->run->n_traces; i++) {
		int64_t step = g->run->traces[i].step_unrecorded_ns;

		if (step > 0 && step < least)
			least = step;
	}
	return least;
}

/* Is the time of the spans their host's? Where it waits within them, for the
 * device or a link, less than half of what its events cost shows in them. And
 * where it waits nowhere else, although the step is another's, it waits within
 * them unseen: in launches that find the device's queue full. */
static bool is_own(const struct finder *f, int64_t issue_ns, int64_t cut_ns)
{
	double owed = tauti_issue_owed(
		&f->issue, f->g, f->costs->dur_ns, f->dur_ns);

	return owed > 0 && (double)(issue_ns - cut_ns) >= owed / 2 &&
		(double)tauti_issue_unrecorded(&f->issue, f->g) <
		0.95 * (double)unrecorded_step(f->g);
}

/* Where the step says nothing, or reacts by less than half as much as its issue. */
static taut_status by_issue(
	struct finder *f, double step_slope, struct tauti_recorder *r)
{
	int64_t issue, cut;
	double error = 0, slope;
	taut_status status = tauti_issue_find(f->g, &f->issue, f->err);

	if (!status && !f->issue.spans.count)
		return TAUT_OK;
	if (!status)
		status = replay_without(f, 0);
	if (!status)
		status = tauti_issue_measure(&f->issue, f->timeline.start_ns,
			f->timeline.end_ns, &issue, &error, f->err);
	if (!status)
		status = issue_without(f, shapes_ns, &cut);
	if (status)
		return status;
	slope = (double)(issue - cut) / shapes_ns;
	if (!is_own(f, issue, cut) || (r->told == TAUTI_RECORDER_BY_STEPS &&
		slope < 2 * step_slope))
		return TAUT_OK;
	r->told = TAUTI_RECORDER_BY_ISSUE;
	/* the interval is one of 95 % */
	return tell(f, issue_without, issue,
		tauti_issue_unrecorded(&f->issue, f->g),
		fmax(2 * error, 0.01 * (double)issue), slope, r);
}

static taut_status find_cost(struct finder *f, int64_t recorded_ns,
	bool is_other, double ratio, struct tauti_recorder *r)
{
	struct usual usual = usual_of(f->g);
	int64_t with_ns = recorded_ns;
	double slope;
	taut_status status = is_other ? step_without(f, 0, &with_ns) : TAUT_OK;

	if (status)
		return status;

	r->event_ns = usual.event_ns;
	r->low_ns = usual.low_ns;
	r->high_ns = usual.high_ns;
	status = by_steps(f, with_ns, (int64_t)((double)recorded_ns * ratio),
		&slope, r);
	return status ? status : by_issue(f, slope, r);
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
	const struct taut_costs *costs, int64_t recorded_ns, bool is_other,
	struct tauti_recorder *ret_recorder, struct taut_error *err)
{
	struct finder f = { .g = graph, .costs = costs, .err = err };
	struct tauti_recorder recorder = { 0 };
	double ratio = 0;
	taut_status status = find_ratio(graph, &ratio, err);

	if (!status && (ratio > 0 || is_other)) {
		status = finder_init(&f);
		if (!status && ratio > 0)
			status = find_cost(&f, recorded_ns, is_other, ratio,
				&recorder);
		if (!status)
			status = step_without(
				&f, recorder.event_ns, &recorder.step_ns);
		taut_timeline_fini(&f.timeline);
		taut_sharing_destroy(f.sharing);
		tauti_issue_free(&f.issue);
		free(f.dur_ns);
	}
	if (!status)
		*ret_recorder = recorder;
	return status;
}

/* predict.c - what changes would give: once as believed, then once at either
 * end of each thing that may be otherwise. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "whatif/predict.h"

enum { MOST_OPS = 4000000 }; /* of trials under way at a time */

/* Another run's median step is within so much of this one's with 95 %: two
 * standard deviations of runs of one job on one quiet machine (bench/lab). */
static const double another_run = 0.015;

struct owned { /* what taut_prediction_destroy() frees */
	struct taut_prediction prediction;
	struct taut_arena *arena;
	struct taut_graph *graph;
};

struct trial { /* something in doubt, at one end */
	struct tauti_scenario scenario;
	const char *name;
	int64_t step_ns;
	bool is_central; /* nothing is otherwise at this end */
};

struct work {
	const struct taut_graph *graph;
	const struct taut_whatif_options *options;
	struct owned *out;
	struct tauti_predictor p;
	struct tauti_prepared ready;
	struct tauti_change *changes;
	size_t n_changes;
	struct tauti_outcome central;
	int64_t scatter_ns; /* half the width; -1: too few steps */
	TAUT_VEC(struct trial) trials; /* in pairs: both ends */
	double up, down; /* sums of squares: how far it may be off */
	TAUT_VEC(struct taut_uncertain) uncertain;
	struct taut_error *err;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory for a prediction");
}

/* --- before --------------------------------------------------------------------- */

static taut_status prepare(struct work *k, const char *const *changes,
	size_t n_changes)
{
	struct taut_prediction *out = &k->out->prediction;
	taut_status status = tauti_changes_read(changes, n_changes,
		k->out->arena, &k->changes, k->err);

	if (status)
		return status;
	k->n_changes = n_changes;
	status = tauti_prepared_init(&k->ready, k->graph, k->err);
	if (!status)
		status = tauti_predictor_init(&k->p, k->graph, k->ready.job,
			k->ready.costs, &k->ready.recorder, k->changes,
			k->n_changes, k->err);
	if (!status)
		status = tauti_predictor_remember(&k->p, &k->ready, k->err);
	if (status)
		return status;
	out->recorded_ns = k->ready.recorded_ns;
	out->before_ns = k->ready.before_ns;
	out->recorder_ns = k->ready.recorder.event_ns;
	return TAUT_OK;
}

/* --- after ------------------------------------------------------------------------ */

static taut_status say_recorder(struct work *k)
{
	static const char *const by[] = {
		[TAUTI_RECORDER_BY_USUAL] =
			"the usual, as its steps do not tell",
		[TAUTI_RECORDER_BY_STEPS] = "from steps timed without it",
		[TAUTI_RECORDER_BY_ISSUE] =
			"from what its host took without it to issue a step",
	};
	const struct taut_prediction *out = &k->out->prediction;

	if (!(out->recorder_ns > 0))
		return TAUT_OK;
	return tauti_note(&k->p.w, k->err, "recording made the job slower, by "
		"%.1f us for each event that the profiler wrote (%s); that is "
		"taken off, before and after: the recorded step took %.1f ms",
		out->recorder_ns / 1e3, by[k->ready.recorder.told],
		(double)out->recorded_ns / 1e6);
}

static taut_status say_faults(struct work *k)
{
	double ms = (double)k->ready.faults_ns / 1e6;

	if (fabs(ms) < 0.05)
		return TAUT_OK;
	return tauti_note(&k->p.w, k->err, ms > 0 ? "recorded steps were spared "
		"%.1f ms of page faults that the job's others have; they are "
		"put back, before and after" : "recorded steps had %.1f ms of "
		"page faults that the job's others have not; they are taken "
		"off, before and after", fabs(ms));
}

/* The times of the replay are the graph's own from here on: trials of a large
 * job need the room. */
static void settle_central(struct work *k)
{
	taut_graph_settle(k->central.graph, k->central.timeline.start_ns,
		k->central.timeline.end_ns);
	taut_timeline_fini(&k->central.timeline);
	k->p.w.memory = NULL;
}

static taut_status find_central(struct work *k)
{
	static const struct tauti_scenario as_believed = { TAUTI_DOUBT_NONE, 0,
		0 };
	struct taut_prediction *out = &k->out->prediction;
	taut_status status = tauti_scenario_run(
		&k->p, &as_believed, &k->central, k->err);

	if (!status)
		status = say_recorder(k);
	if (!status)
		status = say_faults(k);
	if (status)
		return status;
	out->after_ns = k->central.step_ns;
	out->samples_factor = k->p.w.samples_factor;
	status = tauti_memory_predict(
		&k->p, &k->central, k->out->arena, out, k->err);
	if (!status)
		status = tauti_scatter(k->central.graph,
			k->central.timeline.start_ns,
			k->central.timeline.end_ns, &k->scatter_ns, k->err);
	if (!status)
		settle_central(k);
	return status;
}

static double square(double x)
{
	return x * x;
}

static taut_status add_uncertain(struct work *k, const char *name,
	int64_t low_ns, int64_t high_ns)
{
	double after = (double)k->out->prediction.after_ns;
	struct taut_uncertain u = { name, low_ns, high_ns };

	if (low_ns > high_ns)
		u = (struct taut_uncertain){ name, high_ns, low_ns };
	k->down += square(fmax(0, after - (double)u.low_ns));
	k->up += square(fmax(0, (double)u.high_ns - after));
	return taut_vec_push(&k->uncertain, u) ? TAUT_OK : no_memory(k->err);
}

static taut_status run_trial(struct work *k, struct tauti_predictor *p,
	struct trial *trial, struct taut_error *err)
{
	struct tauti_outcome outcome;
	taut_status status;

	if (trial->is_central) {
		trial->step_ns = k->central.step_ns;
		return TAUT_OK;
	}
	status = tauti_scenario_run(p, &trial->scenario, &outcome, err);
	if (!status) {
		trial->step_ns = outcome.step_ns;
		tauti_outcome_fini(&outcome);
	}
	return status;
}

/* Each with an edit of its own: the order in which they run is of no
 * matter. */
static taut_status run_aside(void *context, size_t i, struct taut_error *err)
{
	struct work *k = context;
	struct tauti_predictor p;
	taut_status status = tauti_predictor_init(&p, k->graph, k->ready.job,
		k->ready.costs, &k->ready.recorder, k->changes, k->n_changes, err);

	if (status)
		return status;
	status = run_trial(k, &p, &k->trials.data[i], err);
	tauti_predictor_fini(&p);
	return status;
}

/* All with one edit, which has grown to what they need. */
static taut_status run_in_turn(struct work *k)
{
	taut_status status = TAUT_OK;

	for (size_t i = 0; !status && i < k->trials.count; i++)
		status = run_trial(k, &k->p, &k->trials.data[i], k->err);
	return status;
}

/* ends: 1 the faster one, 2 the slower, or both: those at which anything is
 * otherwise. */
static taut_status try_ends(struct work *k, enum tauti_doubt doubt,
	uint32_t change, unsigned ends, const char *name)
{
	for (int side = -1; side <= 1; side += 2) {
		struct trial trial = { { doubt, side, change }, name, 0,
			!(ends & (side < 0 ? 1 : 2)) };

		if (!taut_vec_push(&k->trials, trial))
			return no_memory(k->err);
	}
	return TAUT_OK;
}

static taut_status try_both(
	struct work *k, enum tauti_doubt doubt, const char *name)
{
	return try_ends(k, doubt, 0, 3, name);
}

/* Each trial holds a changed graph: of large ones fewer side by side. */
static unsigned trial_threads(const struct work *k)
{
	unsigned threads = k->options ? k->options->threads : 0;
	unsigned most = MOST_OPS / (k->central.graph->n_ops + 1) + 1;

	if (!threads)
		threads = taut_cores();
	return threads < most ? threads : most;
}

static taut_status run_trials(struct work *k)
{
	unsigned threads = trial_threads(k);
	taut_status status = threads < 2 ? run_in_turn(k) :
		taut_parallel_for(k->trials.count, threads, run_aside, k,
			k->err);

	for (size_t i = 0; !status && i < k->trials.count; i += 2)
		status = add_uncertain(k, k->trials.data[i].name,
			k->trials.data[i].step_ns,
			k->trials.data[i + 1].step_ns);
	return status;
}

static taut_status doubt_changes(struct work *k)
{
	taut_status status = TAUT_OK;

	for (size_t i = 0; !status && i < k->n_changes; i++) {
		const char *name;

		if (!k->p.w.ranged[i])
			continue;
		name = taut_arena_printf(k->out->arena,
			"what %s assumes", k->changes[i].text);
		status = name ? try_ends(k, TAUTI_DOUBT_MODEL, (uint32_t)i,
			k->p.w.ranged[i], name) : no_memory(k->err);
	}
	return status;
}

static taut_status doubt_run(struct work *k)
{
	int64_t after = k->out->prediction.after_ns;
	double given = k->options ? k->options->runs_differ : 0;
	double part = given != 0 ? fmax(given, 0) : another_run;
	int64_t half = (int64_t)(part * (double)after + 0.5);

	return add_uncertain(k, "another run of the same job", after - half,
		after + half);
}

static taut_status doubt_scatter(struct work *k)
{
	int64_t half = k->scatter_ns, after = k->out->prediction.after_ns;
	taut_status status = TAUT_OK;

	k->p.w.doubt = TAUTI_DOUBT_NONE;
	if (half > after / 2)
		status = tauti_note(&k->p.w, k->err, "the steps of this job "
			"differ by about as much as one takes: their median, "
			"which is told here, may be far from their mean (of a "
			"loader that does not keep up, one step waits for the "
			"batches of several)");
	if (half >= 0)
		return status ? status : add_uncertain(k,
			"scatter of the steps", after > half ? after - half : 0,
			after + half);
	return tauti_note(&k->p.w, k->err, "fewer than three steps were "
		"recorded: the interval lacks their scatter");
}

/* Where nothing tells the drag it is 0, which on a host with few cores is far off. */
static taut_status doubt_drag(struct work *k)
{
	const struct taut_costs *costs = k->ready.costs;
	taut_status status = TAUT_OK;

	if (k->n_changes && costs->drag_error > 0)
		status = try_both(k, TAUTI_DOUBT_DRAG,
			"computation slowed down by transfers");
	if (!status && !costs->n_drag && costs->n_classes && !k->p.w.job->has_device)
		status = tauti_note(&k->p.w, k->err, "how much transfers slow down "
			"what is computed cannot be told from the recorded steps, "
			"and is taken for nothing: more steps may tell it "
			"(taut record --steps 10:26)");
	return status;
}

static taut_status doubt_all(struct work *k)
{
	bool network = k->central.network_changed;
	taut_status status = TAUT_OK;

	if (network && k->ready.costs->n_classes)
		status = try_both(k, TAUTI_DOUBT_LINE,
			"latency and rate of the links");
	if (!status)
		status = doubt_drag(k);
	if (!status && k->ready.recorder.high_ns > 0)
		status = try_both(k, TAUTI_DOUBT_RECORDER,
			"what recording cost");
	if (!status)
		status = doubt_changes(k);
	if (!status)
		status = run_trials(k);
	if (!status)
		status = doubt_scatter(k);
	return status ? status : doubt_run(k);
}

/* --- the whole ---------------------------------------------------------------------- */

static void *keep(struct work *k, const void *from, size_t n, size_t size)
{
	void *to = taut_arena_calloc(k->out->arena, n + 1, size);

	if (to && n)
		memcpy(to, from, n * size);
	return to;
}

/* Nobody shall take the changed job for a recording: what shows it names its
 * changes. */
static bool name_run(struct work *k, struct taut_graph *graph)
{
	struct taut_run *run = TAUT_ARENA_ARRAY(
		k->out->arena, struct taut_run, 1);
	const char *path = graph->run->path;

	if (!k->n_changes || !path)
		return run != NULL;
	for (size_t i = 0; path && i < k->n_changes; i++)
		path = taut_arena_printf(k->out->arena, "%s%s%s", path,
			i ? " " : " with ", k->changes[i].text);
	if (path)
		path = taut_arena_printf(
			k->out->arena, "%s (predicted)", path);
	if (!run || !path)
		return false;
	*run = *graph->run;
	run->path = path;
	graph->run = run;
	return true;
}

static taut_status publish(struct work *k)
{
	struct taut_prediction *out = &k->out->prediction;
	const char **notes;

	out->low_ns = out->after_ns - (int64_t)(sqrt(k->down) + 0.5);
	if (out->low_ns < 0)
		out->low_ns = 0;
	out->high_ns = out->after_ns + (int64_t)(sqrt(k->up) + 0.5);
	notes = TAUT_ARENA_ARRAY(k->out->arena, const char *,
		k->p.w.notes.count + 1);
	for (size_t i = 0; notes && i < k->p.w.notes.count; i++) {
		notes[i] = taut_arena_strndup(k->out->arena,
			k->p.w.notes.data[i], strlen(k->p.w.notes.data[i]));
		if (!notes[i])
			return no_memory(k->err);
	}
	out->n_notes = (uint32_t)k->p.w.notes.count;
	out->notes = notes;
	out->n_uncertain = (uint32_t)k->uncertain.count;
	out->uncertain = keep(k, k->uncertain.data, out->n_uncertain,
		sizeof *out->uncertain);
	if (!out->notes || !out->uncertain)
		return no_memory(k->err);
	if (k->options && k->options->no_graph)
		return TAUT_OK;
	if (taut_graph_retrace(k->central.graph, k->err))
		return TAUT_ENOMEM;
	out->graph = k->out->graph = k->central.graph;
	k->central.graph = NULL;
	return name_run(k, k->out->graph) ? TAUT_OK : no_memory(k->err);
}

static taut_status predict(struct work *k, const char *const *changes,
	size_t n_changes)
{
	taut_status status = prepare(k, changes, n_changes);

	if (!status)
		status = find_central(k);
	if (!status)
		status = doubt_all(k);
	if (!status)
		status = publish(k);
	tauti_outcome_fini(&k->central);
	taut_vec_free(&k->uncertain);
	taut_vec_free(&k->trials);
	tauti_predictor_fini(&k->p);
	tauti_prepared_fini(&k->ready);
	return status;
}

taut_status taut_predict(const struct taut_graph *graph,
	const char *const *changes, size_t n_changes,
	const struct taut_whatif_options *options,
	struct taut_prediction **ret_prediction, struct taut_error *reterr)
{
	struct taut_arena *arena = taut_arena_create();
	struct owned *out = arena ?
		TAUT_ARENA_ARRAY(arena, struct owned, 1) : NULL;
	struct work k = { .graph = graph, .options = options, .out = out,
		.err = reterr };
	taut_status status;

	if (!out) {
		taut_arena_destroy(arena);
		return no_memory(reterr);
	}
	out->arena = arena;
	status = predict(&k, changes, n_changes);
	if (status)
		taut_prediction_destroy(&out->prediction);
	else
		*ret_prediction = &out->prediction;
	return status;
}

void taut_prediction_destroy(struct taut_prediction *prediction)
{
	struct owned *owned = (struct owned *)prediction;

	if (!owned)
		return;
	taut_graph_destroy(owned->graph);
	taut_arena_destroy(owned->arena);
}

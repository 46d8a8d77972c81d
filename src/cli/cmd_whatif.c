/* cmd_whatif.c - taut whatif: predict one change or a stack of them. */
#include <stdlib.h>
#include <string.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "cli/job.h"
#include "cli/out.h"
#include "cli/term.h"
#include "cli/verbs.h"
#include "cli/whatif_tune.h"
#include "report/whatif.h"

struct values {
	struct job_options job;
	const char *html, *perfetto, *sweep, *csv, *save;
	bool list, json, tune;
	struct opt_percent runs_differ;
	unsigned width;
};

static const struct opt options[] = {
	{ "list", 0, OPT_FLAG, offsetof(struct values, list), NULL,
		"list all changes; with the NAME of one, its parameters and "
		"what it assumes. Needs no RUN", 0, 0 },
	{ "json", 0, OPT_FLAG, offsetof(struct values, json), NULL,
		"print the result as JSON", 0, 0 },
	{ "html", 0, OPT_TEXT, offsetof(struct values, html), "FILE",
		"also write the report of the changed job as one HTML file; of "
		"a sweep, its curve", 0, 0 },
	{ "perfetto", 0, OPT_TEXT, offsetof(struct values, perfetto), "FILE",
		"also write the timeline of the changed job for Perfetto", 0, 0 },
	{ "sweep", 0, OPT_TEXT, offsetof(struct values, sweep), "CHANGE",
		"predict a change with many values: NAME=V1,V2,... or "
		"NAME=A..B:N (N values from A to B; :xN: each the same factor "
		"above the last). Prints CSV", 0, 0 },
	{ "csv", 0, OPT_TEXT, offsetof(struct values, csv), "FILE",
		"write the CSV of a sweep to this file and print a table", 0, 0 },
	{ "tune", 0, OPT_FLAG, offsetof(struct values, tune), NULL,
		"replay every setting with which 'taut run' can exchange "
		"gradients (piece, credit, fuse, way), behind the CHANGEs, and "
		"print the best", 0, 0 },
	{ "save", 0, OPT_TEXT, offsetof(struct values, save), "FILE",
		"write the best setting of --tune to a file for taut run "
		"--tuned", 0, 0 },
	{ "runs-differ", 0, OPT_PERCENT,
		offsetof(struct values, runs_differ), "PERCENT",
		"how far a step of another run of this job is from this one's, "
		"with 95 %, on these machines: a part of the interval (1.5)",
		0, 100 },
	{ "width", 0, OPT_NUMBER, offsetof(struct values, width), "N",
		"columns of the text, 80 to 400 (default: the terminal's, at "
		"most 100)", 80, 400 },
	JOB_OPTIONS(struct values),
};

/* One prediction, or one sweep, on its way to where it is written. */
struct output {
	const struct values *values;
	struct taut_text_options text;
	const struct tauti_whatif_view *view;
	const struct tauti_sweep_view *sweep;
	const struct taut_transformation_info *change;
};

/* --- the list -------------------------------------------------------------------- */

static taut_status write_list(
	const void *context, FILE *out, struct taut_error *err)
{
	const struct output *o = context;

	if (o->values->json)
		return tauti_changes_json(o->change, out, err);
	return o->change ? tauti_change_text(o->change, &o->text, out, err) :
		tauti_changes_text(&o->text, out, err);
}

/* NULL, after a complaint, when there is no such change. */
static const struct taut_transformation_info *find_change(const char *name)
{
	enum { MOST = 128 };
	const struct taut_transformation_info *info;
	const char *names[MOST], *near;
	size_t n = 0;

	for (; n < MOST && (info = taut_transformation(n)) != NULL; n++) {
		if (!strcmp(info->name, name))
			return info;
		names[n] = info->name;
	}
	near = opt_nearest(name, names, n);
	if (near)
		term_complain("whatif: --list: no change '%s'; did you mean "
			"%s?", name, near);
	else
		term_complain("whatif: --list: no change '%s'", name);
	return NULL;
}

/* Operands are names of changes; a RUN in front of them is passed over. */
static int list(const struct verb_call *call)
{
	struct output output = { .values = call->values,
		.text = job_text_options(
			((const struct values *)call->values)->width) };
	struct taut_error err = { .message = "" };
	int status = EXIT_DONE;
	size_t i = job_skip_files(call, 0);

	if (i == call->n_operands)
		return job_status(out_write(
			NULL, NULL, write_list, &output, &err), &err);
	for (; !status && i < call->n_operands; i++) {
		output.change = find_change(call->operands[i]);
		if (!output.change)
			return EXIT_USAGE;
		status = job_status(out_write(
			NULL, NULL, write_list, &output, &err), &err);
	}
	return status;
}

/* --- a prediction ------------------------------------------------------------------ */

static taut_status write_html(
	const void *context, FILE *out, struct taut_error *err)
{
	const struct output *o = context;

	return o->sweep ? tauti_sweep_html(o->sweep, out, err) :
		taut_report_html(o->view->after, out, err);
}

static taut_status write_perfetto(
	const void *context, FILE *out, struct taut_error *err)
{
	const struct output *o = context;

	return taut_report_perfetto(o->view->after, out, err);
}

static taut_status write_prediction(
	const void *context, FILE *out, struct taut_error *err)
{
	const struct output *o = context;

	return o->values->json ? tauti_whatif_json(o->view, out, err) :
		tauti_whatif_text(o->view, &o->text, out, err);
}

static taut_status write_outputs(const struct output *o,
	const struct taut_run *run, struct taut_error *err)
{
	const struct values *v = o->values;
	taut_status status = TAUT_OK;

	if (v->html)
		status = out_write(v->html, run, write_html, o, err);
	if (!status && v->perfetto)
		status = out_write(v->perfetto, run, write_perfetto, o, err);
	return status ? status :
		out_write(NULL, run, write_prediction, o, err);
}

static struct taut_whatif_options whatif_options(const struct values *v)
{
	double percent = v->runs_differ.percent;

	return (struct taut_whatif_options){ .threads = v->job.threads,
		.runs_differ = !v->runs_differ.given ? 0 :
			percent > 0 ? percent / 100 : -1 };
}

/* The job before the change, as it is when nobody records it. */
struct base {
	struct taut_prediction *prediction;
	struct taut_report *report;
};

static taut_status open_base(const struct job *job, unsigned threads,
	struct base *base, struct taut_error *err)
{
	struct taut_whatif_options whatif = { .threads = threads };
	struct taut_explain_options explain = { .threads = threads };
	taut_status status = taut_predict(
		job->graph, NULL, 0, &whatif, &base->prediction, err);

	return status ? status : taut_explain(base->prediction->graph, &explain,
		&base->report, err);
}

static void close_base(struct base *base)
{
	taut_report_destroy(base->report);
	taut_prediction_destroy(base->prediction);
}

static taut_status predict(const struct job *job, struct output *output,
	const char *const *changes, size_t n, struct taut_error *err)
{
	unsigned threads = output->values->job.threads;
	struct taut_whatif_options whatif = whatif_options(output->values);
	struct taut_explain_options explain = { .threads = threads };
	struct taut_prediction *prediction = NULL;
	struct taut_report *after = NULL;
	struct base base = { NULL, NULL };
	taut_status status = taut_predict(
		job->graph, changes, n, &whatif, &prediction, err);

	if (!status)
		status = taut_explain(prediction->graph, &explain, &after, err);
	if (!status && prediction->recorder_ns > 0)
		status = open_base(job, threads, &base, err);
	if (!status) {
		struct tauti_whatif_view view = { prediction, changes, n,
			base.report ? base.report : job->report, after };

		output->view = &view;
		status = write_outputs(output, job->run, err);
	}
	taut_report_destroy(after);
	taut_prediction_destroy(prediction);
	close_base(&base);
	return status;
}

/* --- a sweep --------------------------------------------------------------------------- */

static taut_status write_csv(
	const void *context, FILE *out, struct taut_error *err)
{
	const struct output *o = context;

	return tauti_sweep_csv(o->sweep, out, err);
}

static taut_status write_sweep(
	const void *context, FILE *out, struct taut_error *err)
{
	const struct output *o = context;

	if (o->values->json)
		return tauti_sweep_json(o->sweep, out, err);
	return o->values->csv ? tauti_sweep_text(o->sweep, &o->text, out, err) :
		tauti_sweep_csv(o->sweep, out, err);
}

static taut_status sweep(const struct job *job, struct output *output,
	struct tauti_sweep *of, const char *const *changes, size_t n,
	struct taut_error *err)
{
	const struct values *v = output->values;
	struct tauti_sweep_view view = { of, changes, n, job->report };
	struct taut_whatif_options whatif = whatif_options(v);
	taut_status status = tauti_sweep_run(
		of, job->graph, changes, n, &whatif, err);

	output->sweep = &view;
	if (!status && v->html)
		status = out_write(v->html, job->run, write_html, output, err);
	if (!status && v->csv)
		status = out_write(v->csv, job->run, write_csv, output, err);
	return status ? status :
		out_write(NULL, job->run, write_sweep, output, err);
}

/* --- the verb ---------------------------------------------------------------------------- */

/* EXIT_DONE, or EXIT_USAGE after a complaint. */
static int check_options(const struct values *v)
{
	const struct { const char *name, *file; } files[] = {
		{ "html", v->html }, { "perfetto", v->perfetto },
		{ "csv", v->csv }, { "save", v->save } };
	struct taut_error err = { .message = "" };

	if (v->csv && !v->sweep) {
		term_complain("whatif: --csv is of a --sweep");
		return EXIT_USAGE;
	}
	if (v->save && !v->tune) {
		term_complain("whatif: --save is of a --tune");
		return EXIT_USAGE;
	}
	if (v->tune && (v->sweep || v->html || v->perfetto)) {
		term_complain("whatif: --tune has no --sweep, --html or "
			"--perfetto");
		return EXIT_USAGE;
	}
	if (v->perfetto && v->sweep) {
		term_complain("whatif: --perfetto is of one prediction, not of "
			"a --sweep");
		return EXIT_USAGE;
	}
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
		if (files[i].file && !strcmp(files[i].file, "-")) {
			term_complain("whatif: --%s: expected the name of a "
				"file, found '-'", files[i].name);
			return EXIT_USAGE;
		}
		for (size_t k = 0; k < i; k++) {
			if (!out_is_same(files[k].file, files[i].file))
				continue;
			term_complain("whatif: --%s and --%s: expected two "
				"files, found '%s' for both", files[k].name,
				files[i].name, files[i].file);
			return EXIT_USAGE;
		}
		if (out_check(files[i].file, &err))
			return job_status(err.code, &err);
	}
	return EXIT_DONE;
}

/* A setting of --tune is laid over the CHANGEs: those that it consists of would be lost. */
static bool are_tuned_well(const char *const *changes, size_t n)
{
	static const char *const laid[] = { "bucket", "algorithm", "schedule" };

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < sizeof laid / sizeof *laid; k++) {
			if (strcspn(changes[i], "=,") != strlen(laid[k]) ||
				strncmp(changes[i], laid[k], strlen(laid[k])))
				continue;
			term_complain("whatif: --tune lays %s= itself, and '%s' "
				"would have no effect", laid[k], changes[i]);
			return false;
		}
	return true;
}

/* Changed jobs are made one after the other, and the memory of a large one is
 * gigabytes: given back to the system and asked for again, it costs more than
 * the replay, for the system clears each page. Best effort. */
static void keep_freed_memory(void)
{
#ifdef __GLIBC__
	(void)mallopt(M_MMAP_MAX, 0);
	(void)mallopt(M_TRIM_THRESHOLD, -1);
	(void)mallopt(M_TOP_PAD, 64 << 20);
#endif
}

static int run(const struct verb_call *call)
{
	const struct values *v = call->values;
	struct taut_error err = { .message = "" };
	struct tauti_sweep of = { .name = NULL };
	struct verb_call runs = *call;
	struct job job;
	int status;

	if (v->list)
		return list(call);
	if (!call->n_operands) {
		term_complain("whatif: expected RUN... CHANGE...: a folder or "
			"files of traces, and what to change");
		term_complain("'taut whatif --help' lists what it takes");
		return EXIT_USAGE;
	}
	status = check_options(v);
	if (!status && v->sweep)
		status = job_status(tauti_sweep_read(
			v->sweep, call->arena, &of, &err), &err);
	if (status)
		return status;
	runs.n_operands = job_count_runs(call);
	if (runs.n_operands == call->n_operands && !v->sweep && !v->tune) {
		term_complain("whatif: expected a CHANGE behind the RUN; 'taut "
			"whatif --list' shows all");
		return EXIT_USAGE;
	}
	if (v->tune && !are_tuned_well(call->operands + runs.n_operands,
			call->n_operands - runs.n_operands))
		return EXIT_USAGE;
	keep_freed_memory();
	status = v->tune ? job_open_graph(&job, &v->job, &runs) :
		job_open(&job, &v->job, &runs);
	if (status)
		return status;

	struct output output = { .values = v, .text = job_text_options(v->width) };
	const char *const *changes = call->operands + runs.n_operands;
	size_t n = call->n_operands - runs.n_operands;

	if (v->tune) {
		const struct whatif_tune how = { output.text, v->json, v->save,
			v->job.threads };

		status = whatif_tune(&job, &how, changes, n);
		job_close(&job);
		return status;
	}
	status = job_status(v->sweep ?
		sweep(&job, &output, &of, changes, n, &err) :
		predict(&job, &output, changes, n, &err), &err);
	job_close(&job);
	return status;
}

const struct verb verb_whatif = {
	.name = "whatif",
	.summary = "predict what a change would give, or a stack of them",
	.operands = "RUN... CHANGE...",
	.about = "Predicts how long a step would take with something changed: "
		"another network, other communication, faster computation, "
		"another batch, more workers. A CHANGE is written "
		"NAME[=VALUE][,KEY=VALUE]...; each is laid over those before "
		"it, and the job is replayed. --list shows all changes.\n\n"
		ABOUT_RUN,
	.options = options,
	.n_options = sizeof options / sizeof options[0],
	.values_bytes = sizeof(struct values),
	.no_operands = true,
	.run = run,
};

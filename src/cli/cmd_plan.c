/* cmd_plan.c - taut plan: searches for the best stack of changes. */
#include <string.h>

#include "cli/job.h"
#include "cli/out.h"
#include "cli/plan_words.h"
#include "cli/term.h"
#include "cli/verbs.h"
#include "report/plan_out.h"

struct values {
	struct job_options job;
	struct plan_words words;
	const char *strategy, *out, *html;
	bool json, list;
	unsigned seed, width;
};

static const struct opt options[] = {
	{ "budget", 0, OPT_TEXT, offsetof(struct values, words.budget), "TIME",
		"search for so long at most: 500ms, 30s, 5m (default: 30s). "
		"Whatever it is, each option alone is predicted before, and "
		"the plan without each decision behind it", 0, 0 },
	{ "out", 'o', OPT_TEXT, offsetof(struct values, out), "FILE",
		"write the plan to this file, for taut run --plan", 0, 0 },
	{ "allow", 0, OPT_TEXT, offsetof(struct values, words.allow), "CLASS",
		"what may become of results: exact (the same bits), reordered "
		"(sums in another order; the default) or lossy (fewer bits "
		"somewhere)", 0, 0 },
	{ "memory", 0, OPT_TEXT, offsetof(struct values, words.memory), "BYTES",
		"a rank has no more memory than this: 16G. Needs a recording "
		"with --memory", 0, 0 },
	{ "cache", 0, OPT_TEXT, offsetof(struct values, words.cache), "BYTES",
		"memory of each host that Taut's loader may keep files of the "
		"data set in: 64G (default: none)", 0, 0 },
	{ "without", 0, OPT_TEXTS, offsetof(struct values, words.without), "NAME",
		"do not decide on this change; may be given again", 0, 0 },
	{ "strategy", 0, OPT_TEXT, offsetof(struct values, strategy), "NAME",
		"how it is searched (default: joint); --list shows all", 0, 0 },
	{ "seed", 0, OPT_NUMBER, offsetof(struct values, seed), "N",
		"of the search's random numbers (default: 0)", 0, 1u << 30 },
	{ "list", 0, OPT_FLAG, offsetof(struct values, list), NULL,
		"list what can be decided, and the strategies. Needs no RUN", 0,
		0 },
	{ "json", 0, OPT_FLAG, offsetof(struct values, json), NULL,
		"print the result as JSON", 0, 0 },
	{ "html", 0, OPT_TEXT, offsetof(struct values, html), "FILE",
		"also write the frontier of time, memory and network as one "
		"HTML file", 0, 0 },
	{ "width", 0, OPT_NUMBER, offsetof(struct values, width), "N",
		"columns of the text, 80 to 400 (default: the terminal's, at "
		"most 100)", 80, 400 },
	JOB_OPTIONS(struct values),
};

struct output {
	const struct values *values;
	struct taut_text_options text;
	struct tauti_plan_view view;
};

/* --- options ------------------------------------------------------------------------ */

static bool is_strategy(const char *name)
{
	struct taut_plan_strategy_info info;

	for (size_t i = 0; taut_plan_strategy(i, &info); i++)
		if (!strcmp(info.name, name))
			return true;
	return false;
}

/* EXIT_DONE, or another status after a complaint. */
static int check_files(const struct values *v)
{
	struct taut_error err = { .message = "" };

	if (out_is_same(v->out, v->html)) {
		term_complain("plan: --out and --html: expected two files, "
			"found '%s' for both", v->html);
		return EXIT_USAGE;
	}
	return out_check(v->out, &err) || out_check(v->html, &err) ?
		job_status(err.code, &err) : EXIT_DONE;
}

/* EXIT_DONE, or EXIT_USAGE after a complaint. */
static int take_options(
	const struct values *v, struct taut_plan_options *ret)
{
	ret->threads = v->job.threads;
	ret->seed = v->seed;
	ret->strategy = v->strategy;
	if (!plan_words_take("plan", &v->words, ret))
		return EXIT_USAGE;
	if (!v->strategy || is_strategy(v->strategy))
		return EXIT_DONE;
	term_complain("plan: --strategy: no strategy '%s'; 'taut plan --list' "
		"shows all", v->strategy);
	return EXIT_USAGE;
}

/* --- progress ------------------------------------------------------------------------- */

struct watch {
	struct taut_progress progress;
	double budget_s;
};

static int see(void *context, const struct taut_plan_progress *p)
{
	const struct watch *w = context;
	/* what comes behind the search is beside its time */
	double seconds = p->seconds < w->budget_s ? p->seconds : w->budget_s;
	char what[96];

	if (!w->progress.update)
		return 0;
	snprintf(what, sizeof what, "searching: %.1f ms, best %.1f",
		(double)p->before_ns / 1e6, (double)p->best_ns / 1e6);
	w->progress.update(w->progress.state, what,
		(uint64_t)(seconds * 10), (uint64_t)(w->budget_s * 10));
	return 0;
}

/* --- output ----------------------------------------------------------------------------- */

static taut_status write_plan(
	const void *context, FILE *out, struct taut_error *err)
{
	const struct output *o = context;

	return taut_plan_write(o->view.planned->plan, out, err);
}

static taut_status write_html(
	const void *context, FILE *out, struct taut_error *err)
{
	const struct output *o = context;

	return tauti_plan_html(&o->view, out, err);
}

static taut_status write_result(
	const void *context, FILE *out, struct taut_error *err)
{
	const struct output *o = context;

	return o->values->json ? tauti_plan_json(&o->view, out, err) :
		tauti_plan_text(&o->view, &o->text, out, err);
}

static taut_status write_list(
	const void *context, FILE *out, struct taut_error *err)
{
	struct taut_plan_strategy_info info;
	const struct taut_plan_kind *kind;

	(void)context;
	(void)err;
	fputs("What is decided, each a change of 'taut whatif':\n", out);
	for (size_t i = 0; (kind = taut_plan_kind(i)) != NULL; i++)
		fprintf(out, "  %-13s%s (%s)\n", kind->change, kind->summary,
			taut_numerics_name(kind->numerics));
	fputs("\nStrategies:\n", out);
	for (size_t i = 0; taut_plan_strategy(i, &info); i++)
		fprintf(out, "  %-12s%s\n", info.name, info.summary);
	return TAUT_OK;
}

static taut_status write_outputs(const struct output *o,
	const struct taut_run *run, struct taut_error *err)
{
	const struct values *v = o->values;
	taut_status status = TAUT_OK;

	if (v->out)
		status = out_write(v->out, run, write_plan, o, err);
	if (!status && v->html)
		status = out_write(v->html, run, write_html, o, err);
	return status ? status : out_write(NULL, run, write_result, o, err);
}

/* --- the verb -------------------------------------------------------------------------------- */

static int search(const struct job *job, const struct values *v,
	struct taut_plan_options *how, const char *const *given, size_t n)
{
	struct taut_error err = { .message = "" };
	struct watch watch = { .progress = term_progress(),
		.budget_s = how->budget_s > 0 ? how->budget_s : 30 };
	struct taut_planned *planned = NULL;
	taut_status status;

	how->given = given;
	how->n_given = n;
	how->see = see;
	how->context = &watch;
	status = taut_plan_search(job->graph, how, &planned, &err);
	term_progress_end();
	if (!status) {
		struct output output = { .values = v,
			.text = job_text_options(v->width),
			.view = { job->run->path, given, n, planned } };

		status = write_outputs(&output, job->run, &err);
	}
	taut_planned_destroy(planned);
	return job_status(status, &err);
}

static int run(const struct verb_call *call)
{
	const struct values *v = call->values;
	struct taut_plan_options how = { 0 };
	struct taut_error err = { .message = "" };
	struct verb_call runs = *call;
	struct job job;
	int status;

	if (v->list)
		return job_status(out_write(
			NULL, NULL, write_list, NULL, &err), &err);
	if (!call->n_operands) {
		term_complain("plan: expected RUN...: a folder or files of "
			"traces");
		term_complain("'taut plan --help' lists what it takes");
		return EXIT_USAGE;
	}
	status = take_options(v, &how);
	if (!status)
		status = check_files(v);
	if (status)
		return status;
	runs.n_operands = job_count_runs(call);
	status = job_open_graph(&job, &v->job, &runs);
	if (status)
		return status;
	status = search(&job, v, &how, call->operands + runs.n_operands,
		call->n_operands - runs.n_operands);
	job_close(&job);
	return status;
}

const struct verb verb_plan = {
	.name = "plan",
	.summary = "search for the best stack of changes, for taut run --plan",
	.operands = "RUN... [CHANGE...]",
	.about = "Searches for the changes that make a step of the recorded job "
		"shortest: how its gradients are exchanged and narrowed, loader "
		"workers, recomputation, the optimizer's form. Each candidate is "
		"the recorded job with its changes, replayed. CHANGEs behind "
		"the RUN, as taut whatif takes them, hold whatever is decided: "
		"link=4gbit plans for another network.\n\n" ABOUT_RUN,
	.options = options,
	.n_options = sizeof options / sizeof options[0],
	.values_bytes = sizeof(struct values),
	.no_operands = true,
	.run = run,
};

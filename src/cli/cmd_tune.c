/* cmd_tune.c - taut tune: records a job, plans, runs the plan, and keeps of it what
 * measurements bear out. Each of these is the verb that does it, run anew. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/env.h"
#include "cli/job.h"
#include "cli/measured.h"
#include "cli/out.h"
#include "cli/plan_rest.h"
#include "cli/plan_words.h"
#include "cli/record.h"
#include "cli/record_text.h"
#include "cli/term.h"
#include "cli/verbs.h"
#include "report/tuned_out.h"

/* Of so many steps costs of hosts are told: see "drag" in docs/costs.md. */
#define STEPS "10:26"
/* A gain below this share is none: another run of the same job differs by more. */
static const double least_gain = 0.01, least_part = 0.003;
/* Of a rank; the error of fewer is no more than a guess. */
enum { LEAST_STEPS = 10 };

struct values {
	struct plan_words words;
	const char *out, *steps, *compile;
	bool whole, json;
};

static const struct opt options[] = {
	{ "out", 'o', OPT_TEXT, offsetof(struct values, out), "FOLDER",
		"write the recording, the plan and what was measured to this "
		"folder, which must be new (default: taut-tune-DATE-TIME)", 0,
		0 },
	{ "budget", 0, OPT_TEXT, offsetof(struct values, words.budget), "TIME",
		"search for so long at most (default: 30s)", 0, 0 },
	{ "allow", 0, OPT_TEXT, offsetof(struct values, words.allow), "CLASS",
		"what may become of results: exact, reordered (the default) or "
		"lossy", 0, 0 },
	{ "memory", 0, OPT_TEXT, offsetof(struct values, words.memory), "BYTES",
		"a rank has no more memory than this: 16G; allocations are "
		"then recorded", 0, 0 },
	{ "cache", 0, OPT_TEXT, offsetof(struct values, words.cache), "BYTES",
		"memory of each host that Taut's loader may keep files of the "
		"data set in (default: none)", 0, 0 },
	{ "without", 0, OPT_TEXTS, offsetof(struct values, words.without), "NAME",
		"do not decide on this change; may be given again", 0, 0 },
	{ "steps", 0, OPT_TEXT, offsetof(struct values, steps), "RANGE",
		"record the steps A:B (default: " STEPS ")", 0, 0 },
	{ "compile", 0, OPT_TEXT, offsetof(struct values, compile), "PATTERN",
		"measure what compiling modules of these names gives, and "
		"decide on it (PyTorch; 'nn.Module: blocks.*')", 0, 0 },
	{ "whole", 0, OPT_FLAG, offsetof(struct values, whole), NULL,
		"measure the plan as a whole; else each decision is also left "
		"out once, and stays out where that is no slower", 0, 0 },
	{ "json", 0, OPT_FLAG, offsetof(struct values, json), NULL,
		"print the result as JSON; what the job prints goes to "
		"standard error", 0, 0 },
};

/* As it is twice, with the plan, and without each of its parts. */
enum { MOST_RUNS = 3 + TAUTI_TUNED_MOST, MOST_WORDS = 16 };

struct tuner {
	const struct values *v;
	const struct verb_call *call;
	struct taut_arena *arena;
	const char *folder, *self;
	struct taut_run *run; /* the recording, which predicts what is left */
	struct taut_graph *graph;
	struct taut_predictor *predictor;
	int64_t memory_most; /* of a rank; 0: no limit */
	uint32_t n_started, n_runs;
	struct tauti_tuned_run runs[MOST_RUNS]; /* that were measured */
	bool is_unproven; /* a run failed that what stays depends on */
	struct taut_error *err;
};

struct state { /* a plan as it stands, and what it took */
	struct taut_plan plan;
	struct measured took;
};

static taut_status no_memory(const struct tuner *t)
{
	return taut_error_set(t->err, TAUT_ENOMEM, -1, "no memory");
}

static const char *in_folder(const struct tuner *t, const char *name)
{
	return taut_arena_printf(t->arena, "%s/%s", t->folder, name);
}

/* --- one verb, anew -------------------------------------------------------------------- */

/* words: the verb and its options, to a NULL. *ret_status: the exit status. */
static taut_status run_verb(const struct tuner *t, const char *const *words,
	bool with_job, int *ret_status)
{
	const char **all = taut_arena_calloc(t->arena,
		MOST_WORDS + 2 * t->v->words.without.n + t->call->n_operands + 4,
		sizeof *all);
	struct record_job job;
	size_t n = 0;
	taut_status status;

	if (!all)
		return no_memory(t);
	all[n++] = t->self;
	for (size_t i = 0; words[i]; i++)
		all[n++] = words[i];
	if (with_job)
		all[n++] = "--";
	for (size_t i = 0; with_job && i < t->call->n_operands; i++)
		all[n++] = t->call->operands[i];
	status = record_run_job(all, n, t->arena, &job, t->err);
	if (status)
		return status;
	if (job.asked_to_end) {
		term_complain("tune: ended by signal %d; what there is lies in "
			"%s", job.asked_to_end, t->folder);
		job.signal = job.asked_to_end;
		exit(record_job_status(&job));
	}
	*ret_status = job.fault ? EXIT_FAULT : job.signal ? 128 + job.signal :
		job.exit_status;
	return TAUT_OK;
}

/* The verb has said on standard error what was wrong. */
static taut_status must_end_well(
	const struct tuner *t, const char *what, int exit_status)
{
	return !exit_status ? TAUT_OK : taut_error_set(t->err, TAUT_EIO, -1,
		"tune: %s ended with exit status %d; what there is lies in %s",
		what, exit_status, t->folder);
}

static taut_status record(const struct tuner *t)
{
	const char *words[MOST_WORDS] = { "record", "--out",
		in_folder(t, "recording") };
	size_t n = 3;
	int exit_status;
	taut_status status;

	words[n++] = "--steps";
	words[n++] = t->v->steps ? t->v->steps : STEPS;
	if (t->v->words.memory)
		words[n++] = "--memory";
	if (t->v->compile) {
		words[n++] = "--compile";
		words[n++] = t->v->compile;
	}
	term_complain("tune: the job is recorded");
	status = run_verb(t, words, true, &exit_status);
	return status ? status :
		must_end_well(t, "recording the job", exit_status);
}

static taut_status search(const struct tuner *t)
{
	const char **words = taut_arena_calloc(t->arena,
		MOST_WORDS + 2 * t->v->words.without.n, sizeof *words);
	const char *const pairs[][2] = { { "--budget", t->v->words.budget },
		{ "--allow", t->v->words.allow }, { "--memory", t->v->words.memory },
		{ "--cache", t->v->words.cache } };
	size_t n = 0;
	int exit_status;
	taut_status status;

	if (!words)
		return no_memory(t);
	words[n++] = "plan";
	words[n++] = in_folder(t, "recording");
	words[n++] = "-o";
	words[n++] = in_folder(t, "plan.json");
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
		if (pairs[i][1]) {
			words[n++] = pairs[i][0];
			words[n++] = pairs[i][1];
		}
	for (size_t i = 0; i < t->v->words.without.n; i++) {
		words[n++] = "--without";
		words[n++] = t->v->words.without.data[i];
	}
	status = run_verb(t, words, false, &exit_status);
	return status ? status : must_end_well(t, "the search", exit_status);
}

/* --- the recording, once more ----------------------------------------------------------- */

static taut_status open_recording(struct tuner *t)
{
	const struct taut_run_options open = { 0 };
	const struct taut_graph_options build = { 0 };
	const char *path = in_folder(t, "recording");
	taut_status status = path ? taut_run_open(
		&path, 1, &open, &t->run, t->err) : no_memory(t);

	if (!status)
		status = taut_graph_build(t->run, &build, &t->graph, t->err);
	return status ? status : taut_predictor_create(
		t->graph, &t->predictor, t->err);
}

static void close_recording(struct tuner *t)
{
	taut_predictor_destroy(t->predictor);
	taut_graph_destroy(t->graph);
	taut_run_close(t->run);
}

static taut_status leave_out(const struct tuner *t, const struct state *from,
	uint32_t which, struct state *ret)
{
	*ret = (struct state){ .took = from->took };
	return plan_rest(t->predictor, &from->plan, which, t->memory_most,
		t->arena, &ret->plan, t->err);
}

/* --- one plan, measured -------------------------------------------------------------------- */

static taut_status write_plan(
	const void *context, FILE *out, struct taut_error *err)
{
	return taut_plan_write(context, out, err);
}

static taut_status note_run(struct tuner *t, const char *what,
	const struct state *s)
{
	struct tauti_tuned_run *run = &t->runs[t->n_runs];
	const char **changes = taut_arena_calloc(
		t->arena, s->plan.n_decisions + 1, sizeof *changes);

	if (!changes)
		return no_memory(t);
	for (uint32_t i = 0; i < s->plan.n_decisions; i++)
		changes[i] = s->plan.decisions[i].change;
	*run = (struct tauti_tuned_run){ what, changes, s->plan.n_decisions,
		s->plan.after_ns, s->took.mean_ns, s->took.error_ns,
		s->took.median_ns };
	t->n_runs++;
	return TAUT_OK;
}

/* Of "workers=4" and "workers=4: no DataLoader was made". */
static bool is_same_change(const char *change, const char *missed)
{
	size_t n = strcspn(change, "=,");

	return strcspn(missed, "=,:") == n && !strncmp(change, missed, n);
}

static bool is_missed(const struct state *s, const char *change)
{
	for (uint32_t i = 0; i < s->took.n_missed; i++)
		if (is_same_change(change, s->took.missed[i]))
			return true;
	return false;
}

/* Leaves out what a rank says it was not given: the run was one without it. */
static taut_status drop_missed(const struct tuner *t, struct state *s)
{
	taut_status status = TAUT_OK;
	uint32_t i = 0;

	while (!status && i < s->plan.n_decisions) {
		struct state made;

		if (!is_missed(s, s->plan.decisions[i].change)) {
			i++;
			continue;
		}
		status = leave_out(t, s, i, &made);
		if (!status)
			*s = made;
		i = 0;
	}
	return status;
}

/* Whether a run tells of the plan, and why not in t->err. */
static bool is_usable(const struct tuner *t, const char *what, int exit_status,
	const struct measured *took)
{
	if (must_end_well(t, what, exit_status))
		return false;
	if (took->n_ranks && took->n_steps / took->n_ranks >= LEAST_STEPS)
		return true;
	taut_error_set(t->err, TAUT_EIO, -1, "tune: %s: %u steps of %u ranks "
		"were measured, expected %d of each: the job makes too few "
		"behind those that are left out, or no rank of it is on this "
		"host", what, took->n_steps, took->n_ranks, LEAST_STEPS);
	return false;
}

/* Runs the job with the state's plan, and fills in what it took; what was not made of
 * the plan is no longer in it. *ret_usable false: t->err says why the run tells
 * nothing. */
static taut_status measure(struct tuner *t, const char *what, struct state *s,
	bool *ret_usable)
{
	const char *path = in_folder(t, taut_arena_printf(
		t->arena, "run-%u.json", t->n_started));
	const char *folder = in_folder(t, taut_arena_printf(
		t->arena, "measured-%u", t->n_started));
	const char *const words[] = { "run", "--plan", path, "--measure",
		folder, NULL };
	int exit_status = 0;
	taut_status status = t->n_started < MOST_RUNS ? out_write(path, NULL,
		write_plan, &s->plan, t->err) : no_memory(t);

	*ret_usable = false;
	if (status)
		return status;
	term_complain("tune: run %u: %s", ++t->n_started, what);
	status = run_verb(t, words, true, &exit_status);
	if (!status && !exit_status)
		status = measured_read(folder, t->arena, &s->took, t->err);
	*ret_usable = !status && is_usable(t, what, exit_status, &s->took);
	if (!*ret_usable)
		return status;
	status = drop_missed(t, s);
	return status ? status : note_run(t, what, s);
}

/* --- which decisions stay -------------------------------------------------------------------- */

/* The decision with the least predicted gain that was not tried yet, and can be
 * left out by itself; n_decisions: there is none. */
static uint32_t next_part(const struct state *s, const char *const *tried,
	uint32_t n_tried)
{
	uint32_t best = s->plan.n_decisions;

	for (uint32_t i = 0; i < s->plan.n_decisions; i++) {
		const struct taut_decision *d = &s->plan.decisions[i];
		uint32_t k = 0;

		while (k < n_tried && strcmp(tried[k], d->change))
			k++;
		if (d->without_ns >= 0 && k == n_tried &&
			(best == s->plan.n_decisions || d->without_ns <
			s->plan.decisions[best].without_ns))
			best = i;
	}
	return best;
}

static uint32_t count_parts(const struct taut_plan *plan)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < plan->n_decisions; i++)
		n += plan->decisions[i].without_ns >= 0;
	return n;
}

/* Each part is left out once, the one of the least gain first; what that may cost counts
 * from the fastest run, for losses too small to be seen one by one add up. A plan of one
 * part without it is the job as it is, which was measured. */
static taut_status try_parts(struct tuner *t, struct state *s)
{
	struct measured fastest = s->took;
	const char *tried[TAUTI_TUNED_MOST];
	uint32_t n_tried = 0, which;
	taut_status status = TAUT_OK;

	while (!status && n_tried < TAUTI_TUNED_MOST &&
		count_parts(&s->plan) > 1) {
		struct state shorter;
		const char *change;
		bool usable;

		which = next_part(s, tried, n_tried);
		if (which == s->plan.n_decisions)
			break;
		change = s->plan.decisions[which].change;
		tried[n_tried++] = change;
		status = leave_out(t, s, which, &shorter);
		if (!status)
			status = measure(t, taut_arena_printf(t->arena,
				"without %s", change), &shorter, &usable);
		if (status)
			break;
		if (!usable) {
			term_complain("%s", t->err->message);
			term_complain("tune: %s stays", change);
			continue;
		}
		if (!measured_is_better(&fastest, &shorter.took, least_part))
			*s = shorter;
		if (shorter.took.mean_ns < fastest.mean_ns)
			fastest = shorter.took;
	}
	return status;
}

/* --- the whole ------------------------------------------------------------------------------------ */

struct result {
	const struct values *v;
	struct tauti_tuned_view view;
	int width;
};

static taut_status write_result(
	const void *context, FILE *out, struct taut_error *err)
{
	const struct result *r = context;
	const struct taut_text_options text = { .width = r->width,
		.colour = term_colour() };

	return r->v->json ? tauti_tuned_json(&r->view, out, err) :
		tauti_tuned_text(&r->view, &text, out, err);
}

/* Of two runs of one job: their mean. They differ by more than the steps of one do, and
 * so may any other run. */
static struct measured join(const struct measured *a, const struct measured *b)
{
	struct measured both = *a;

	both.mean_ns = a->mean_ns + (b->mean_ns - a->mean_ns) / 2;
	both.error_ns = (a->error_ns > b->error_ns ? a->error_ns :
		b->error_ns) + (int64_t)llabs(b->mean_ns - a->mean_ns);
	return both;
}

/* What stays cannot be known, and is nothing. */
static void give_up(struct tuner *t)
{
	term_complain("%s", t->err->message);
	term_complain("tune: the job stays as it is");
	t->is_unproven = true;
}

/* Whether the plan beats the job as it is, which is measured again where it seems so. */
static taut_status prove(struct tuner *t, const struct state *best,
	struct state *base, bool *ret_proven)
{
	struct state again = *base;
	bool usable;
	taut_status status;

	*ret_proven = best->plan.n_decisions &&
		measured_is_better(&best->took, &base->took, least_gain);
	if (!*ret_proven)
		return TAUT_OK;
	status = measure(t, "the job as it is, again", &again, &usable);
	*ret_proven = false;
	if (status)
		return status;
	if (!usable) {
		give_up(t);
		return TAUT_OK;
	}
	base->took = join(&base->took, &again.took);
	*ret_proven = measured_is_better(&best->took, &base->took, least_gain);
	return TAUT_OK;
}

static taut_status tune_plan(
	struct tuner *t, const struct taut_plan *plan, struct state *ret_kept,
	struct state *ret_base)
{
	struct state base = { .plan = *plan }, best = { .plan = *plan };
	bool usable, proven = false;
	taut_status status;

	base.plan.n_decisions = 0;
	base.plan.after_ns = base.plan.low_ns = base.plan.high_ns =
		plan->before_ns;
	base.plan.memory_after = plan->memory_before;
	base.plan.network_after = plan->network_before;
	status = measure(t, "the job as it is", &base, &usable);
	if (!status && !usable)
		status = t->err->code;
	if (!status && plan->n_decisions) {
		status = measure(t, "with the plan", &best, &usable);
		if (!status && !usable)
			give_up(t);
		if (!status && usable && !t->v->whole)
			status = try_parts(t, &best);
		if (!status && usable)
			status = prove(t, &best, &base, &proven);
	}
	if (status)
		return status;
	*ret_base = base;
	*ret_kept = proven ? best : base;
	ret_kept->plan.measured_before_ns = base.took.mean_ns;
	ret_kept->plan.measured_after_ns = ret_kept->took.mean_ns;
	return TAUT_OK;
}

static taut_status tune(struct tuner *t, struct taut_plan **ret_plan,
	int out_fd)
{
	struct state kept, base;
	const char *path = in_folder(t, "plan.json");
	const char *tuned = in_folder(t, "tuned.json");
	taut_status status = path && tuned ? record(t) : no_memory(t);

	if (!status)
		status = search(t);
	if (!status)
		status = taut_plan_read(path, ret_plan, t->err);
	if (!status)
		status = open_recording(t);
	if (!status)
		status = tune_plan(t, *ret_plan, &kept, &base);
	if (!status)
		status = out_write(
			tuned, NULL, write_plan, &kept.plan, t->err);
	if (out_fd >= 0) {
		fflush(stdout);
		(void)dup2(out_fd, STDOUT_FILENO);
	}
	if (!status) {
		const struct result r = { t->v, { &kept.plan, tuned, t->runs,
			t->n_runs, base.took.mean_ns, kept.took.mean_ns },
			term_width() };

		status = out_write(NULL, NULL, write_result, &r, t->err);
	}
	return status;
}

static taut_status make_folder(struct tuner *t)
{
	time_t now = time(NULL);
	const char *out = t->v->out;
	char name[64], here[4096];
	struct tm parts;

	if (!out) {
		localtime_r(&now, &parts);
		strftime(name, sizeof name, "taut-tune-%Y%m%d-%H%M%S", &parts);
		out = name;
	}
	if (*out != '/' && !getcwd(here, sizeof here))
		return taut_error_set(t->err, TAUT_EIO, -1,
			"the working folder has no name");
	t->folder = taut_arena_printf(t->arena, "%s%s%s", *out == '/' ? "" :
		here, *out == '/' ? "" : "/", out);
	if (!t->folder)
		return no_memory(t);
	return !mkdir(t->folder, 0777) ? TAUT_OK : taut_error_set(t->err,
		TAUT_EIO, -1, "%.300s: cannot be made: %s", t->folder,
		strerror(errno));
}

static int run(const struct verb_call *call)
{
	const struct values *v = call->values;
	struct taut_error err = { .message = "" };
	struct tuner t = { .v = v, .call = call, .arena = call->arena,
		.err = &err };
	const char *of = env_folder_of_command(call->arena);
	struct taut_plan_options how = { 0 };
	struct taut_plan *plan = NULL;
	uint32_t first, end;
	int out_fd = -1;
	taut_status status;

	if (!plan_words_take("tune", &v->words, &how) || (v->steps &&
		!record_take_steps("tune", v->steps, &first, &end)))
		return EXIT_USAGE;
	t.memory_most = how.memory_most;
	t.self = of ? taut_arena_printf(call->arena, "%staut", of) : NULL;
	status = t.self ? make_folder(&t) : no_memory(&t);
	if (!status && v->json) {
		out_fd = dup(STDOUT_FILENO);
		(void)dup2(STDERR_FILENO, STDOUT_FILENO);
	}
	if (!status)
		status = tune(&t, &plan, out_fd);
	taut_plan_destroy(plan);
	close_recording(&t);
	return t.is_unproven && !status ? EXIT_FAULT : job_status(status, &err);
}

const struct verb verb_tune = {
	.name = "tune",
	.summary = "record a job, plan, run the plan, keep what proves true",
	.operands = "COMMAND...",
	.about = "Runs COMMAND several times: recorded, as it is, and with the "
		"changes that were predicted to make it fastest; then without "
		"each of them. What the measurements bear out is written to "
		"tuned.json, for taut run --plan. COMMAND should end by itself "
		"after some 100 steps.",
	.options = options,
	.n_options = sizeof options / sizeof options[0],
	.values_bytes = sizeof(struct values),
	.run = run,
	.is_command = true,
};

/* cmd_stalls.c - taut stalls: how long a job waits for its data, and for what. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/env.h"
#include "cli/job.h"
#include "cli/out.h"
#include "cli/record.h"
#include "cli/stalls.h"
#include "cli/term.h"
#include "cli/verbs.h"

struct values {
	unsigned rounds, steps, runs;
	const char *out, *read, *memory, *rate;
	bool json, no_probe;
	struct stalls_asked asked;
};

static const struct opt options[] = {
	{ "rounds", 0, OPT_NUMBER, offsetof(struct values, rounds), "N",
		"go through all phases so many times (default: 5); 3 or more have "
		"intervals", 1, 1000 },
	{ "runs", 0, OPT_NUMBER, offsetof(struct values, runs), "N",
		"run the job so many times, one after another (default: 1): what a step "
		"takes may differ from process to process; 3 or more have intervals over "
		"runs", 1, 100 },
	{ "steps", 0, OPT_NUMBER, offsetof(struct values, steps), "N",
		"steps of a phase, after its loader came to its pace (default: 20)",
		1, 100000 },
	{ "out", 'o', OPT_TEXT, offsetof(struct values, out), "FOLDER",
		"keep what was measured in this folder, which must be new or empty", 0, 0 },
	{ "read", 0, OPT_TEXT, offsetof(struct values, read), "FOLDER",
		"run nothing: print what was kept in this folder, perhaps with other "
		"predictions", 0, 0 },
	{ "change", 0, OPT_TEXTS, offsetof(struct values, asked.changes), "CHANGES",
		"predict an epoch with these, like rate=2,workers=8 or cache=keep:50%; "
		"may be given again", 0, 0 },
	{ "workers", 0, OPT_RANKS, offsetof(struct values, asked.workers), "LIST",
		"predict with so many workers a rank: 1,2,4 or 1-8", 0, 0 },
	{ "cores", 0, OPT_RANKS, offsetof(struct values, asked.cores), "LIST",
		"predict with so many cores a host", 0, 0 },
	{ "batches", 0, OPT_RANKS, offsetof(struct values, asked.batches), "LIST",
		"predict with batches of so many samples a rank", 0, 0 },
	{ "memory", 0, OPT_TEXT, offsetof(struct values, memory), "BYTES",
		"predict with so much memory for the page cache, like 64G (default: what "
		"the job left)", 0, 0 },
	{ "rate", 0, OPT_TEXT, offsetof(struct values, rate), "BYTES",
		"do not read files again: storage gives so much a second, like 500M", 0, 0 },
	{ "no-probe", 0, OPT_FLAG, offsetof(struct values, no_probe), NULL,
		"do not read files again: storage is as fast as it was for the job", 0, 0 },
	{ "json", 0, OPT_FLAG, offsetof(struct values, json), NULL,
		"print the result as JSON; what the job prints goes to standard error",
		0, 0 },
};

/* One run of the command. */
struct work {
	const struct values *values;
	struct taut_arena *arena;
	const char *folder;
	struct stalls_job job;
	uint64_t memory_bytes; /* as the user said; 0: did not */
	uint64_t rate_bytes;
	bool is_read;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory");
}

static taut_status note(struct work *w, const char *text, struct taut_error *err)
{
	if (text && taut_vec_push(&w->job.notes, text))
		return TAUT_OK;
	return no_memory(err);
}

/* --- options ------------------------------------------------------------------------------*/

static bool take_bytes(const char *option, const char *text, uint64_t *ret_bytes)
{
	const char *at = text;

	if (!text || (opt_bytes(&at, UINT64_C(1) << 50, ret_bytes) && !*at && *ret_bytes))
		return true;
	term_complain("stalls: --%s: expected bytes, like 500M or 64G, found '%s'", option,
		text);
	return false;
}

/* Said before the job runs, not after it. */
static bool check_changes(const struct values *v)
{
	for (size_t i = 0; i < v->asked.changes.n; i++) {
		struct taut_stalls_change change;
		struct taut_error err;

		if (!stalls_change_read(v->asked.changes.data[i], 1e9, &change, &err))
			continue;
		term_complain("%s", err.message);
		return false;
	}
	return true;
}

/* Each is a number of what there is to be. */
static bool check_numbers(const char *option, const struct opt_ranks *list)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->data[i] < 1) {
			term_complain("stalls: --%s: expected numbers from 1 on, found %d",
				option, (int)list->data[i]);
			return false;
		}
	return true;
}

static bool check_options(const struct verb_call *call, struct work *w)
{
	const struct values *v = call->values;

	if (!v->read == !call->n_operands) {
		term_complain("stalls: expected a COMMAND to run, or --read FOLDER");
		return false;
	}
	if (v->read && (v->out || v->runs)) {
		term_complain("stalls: --read has no --%s", v->out ? "out" : "runs");
		return false;
	}
	if (v->rate && v->no_probe) {
		term_complain("stalls: expected --rate or --no-probe");
		return false;
	}
	return take_bytes("memory", v->memory, &w->memory_bytes) &&
		take_bytes("rate", v->rate, &w->rate_bytes) && check_changes(v) &&
		check_numbers("workers", &v->asked.workers) &&
		check_numbers("cores", &v->asked.cores) &&
		check_numbers("batches", &v->asked.batches);
}

/* --- the job ------------------------------------------------------------------------------*/

static const char *const handed_on[] = { "TAUT_", "PYTHONPATH=", "LD_PRELOAD=" };

/* What is installed with this command; all of it is needed. */
struct parts {
	const char *inject, *lib, *object;
};

static taut_status find_parts(const struct env_setting *s, struct parts *parts)
{
	const char *folder = env_folder_of_command(s->arena);

	if (!folder)
		return no_memory(s->err);
	parts->inject = env_find_inject(s->arena, folder);
	parts->lib = env_find_library(s->arena, folder, "libtaut.so.0");
	parts->object = env_find_library(s->arena, folder, "libtaut-stalls.so");
	if (!parts->inject || !parts->lib || !parts->object)
		return no_memory(s->err);
	if (*parts->inject && *parts->lib && *parts->object)
		return TAUT_OK;
	return taut_error_set(s->err, TAUT_EIO, -1, "%s: expected %s as it was installed "
		"with this command", folder, !*parts->inject ? "the Python package" :
		!*parts->lib ? "libtaut.so.0" : "libtaut-stalls.so");
}

static taut_status set_number(
	const struct env_setting *s, const char *name, unsigned number)
{
	return number ? env_set(s, name, taut_arena_printf(s->arena, "%u", number)) :
		TAUT_OK;
}

static taut_status set_environment(const struct env_setting *s, const struct work *w)
{
	struct parts parts = { NULL, NULL, NULL };
	taut_status status = find_parts(s, &parts);

	if (!status)
		status = env_set(s, "TAUT_STALLS", w->folder);
	if (!status)
		status = set_number(s, "TAUT_STALLS_ROUNDS", w->values->rounds);
	if (!status)
		status = set_number(s, "TAUT_STALLS_STEPS", w->values->steps);
	if (!status && !getenv("TAUT_LIB"))
		status = env_set(s, "TAUT_LIB", parts.lib);
	if (!status)
		status = env_prepend_path(s, "PYTHONPATH", parts.inject, ":");
	if (!status)
		status = env_prepend_path(s, "LD_PRELOAD", parts.object, ": ");
	if (!status)
		status = env_set_open_mpi_all(
			s, handed_on, sizeof handed_on / sizeof handed_on[0]);
	return status;
}

/* On one line. */
static const char *all_words(const struct verb_call *call)
{
	char *text = taut_arena_printf(call->arena, "%s", call->operands[0]);

	for (size_t i = 1; i < call->n_operands && text; i++)
		text = taut_arena_printf(
			call->arena, "%s %s", text, call->operands[i]);
	for (char *at = text; at && *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = ' ';
	return text;
}

/* With --json, standard output is the result alone. */
static taut_status run_apart(const struct work *w, const struct verb_call *call,
	struct record_job *job, struct taut_error *err)
{
	int kept = w->values->json ? dup(STDOUT_FILENO) : -1;
	taut_status status;

	if (kept >= 0)
		(void)dup2(STDERR_FILENO, STDOUT_FILENO);
	status = record_run_job(call->operands, call->n_operands, call->arena, job, err);
	if (kept < 0)
		return status;
	(void)dup2(kept, STDOUT_FILENO);
	close(kept);
	return status;
}

/* Of the job, or that it was to hand on; 0: none. */
static int signal_of(const struct record_job *job)
{
	return job->signal ? job->signal : job->asked_to_end;
}

static bool ended_well(const struct record_job *job)
{
	return !job->fault && !signal_of(job) && !job->exit_status;
}

static taut_status tell_end(struct work *w, const struct record_job *job,
	struct taut_error *err)
{
	if (signal_of(job))
		return note(w, taut_arena_printf(w->arena, "The job was ended by signal %d; "
			"what it had measured until then counts.", signal_of(job)), err);
	if (job->exit_status)
		return note(w, taut_arena_printf(w->arena, "The job ended with status %d; "
			"what it had measured until then counts.", job->exit_status), err);
	return TAUT_OK;
}

/* Why there is nothing to print. */
static taut_status explain_nothing(const struct work *w, struct taut_error *err)
{
	if (stalls_folder_counts(w->folder).processes)
		return taut_error_set(err, TAUT_EINVAL, -1, "%s: no loader was found that "
			"gave more than a few batches: PyTorch's DataLoader, tf.data, "
			"MXNet's iterators and taut.load are known", w->job.command);
	return taut_error_set(err, TAUT_EINVAL, -1, "%s: expected a dynamically linked "
		"program, on this host, that keeps LD_PRELOAD and PYTHONPATH of its "
		"environment", w->job.command);
}

/* How it ended that it does not count. */
static const char *loss_of(const struct work *w, const struct record_job *job)
{
	if (signal_of(job))
		return taut_arena_printf(
			w->arena, "was ended by signal %d", signal_of(job));
	if (!ended_well(job))
		return taut_arena_printf(
			w->arena, "ended with status %d", record_job_status(job));
	return "gave its loader no time to be measured";
}

/* A run that does not come to its end counts only where it is the first; whatever keeps it
 * from that, what was measured before is there. */
static taut_status run_once_more(struct work *w, const struct verb_call *call,
	const struct env_setting *s, unsigned number, bool *ret_well)
{
	struct record_job job = { .exit_status = 0 };
	const char *folder = NULL;
	taut_status status = stalls_folder_make_run(
		w->folder, number, w->arena, &folder, s->err);

	if (!status)
		status = env_set(s, "TAUT_STALLS", folder);
	if (!status)
		status = run_apart(w, call, &job, s->err);
	*ret_well = !status && ended_well(&job) && stalls_folder_has_ranks(folder);
	if (*ret_well)
		return TAUT_OK;
	if (folder)
		stalls_folder_remove(folder);
	if (status)
		return note(w, taut_arena_printf(w->arena, "Run %u of the job was not made, "
			"and no further one: %s.", number, s->err->message), s->err);
	return note(w, taut_arena_printf(w->arena, "Run %u of the job %s: it does not "
		"count, and no further one was made.", number, loss_of(w, &job)), s->err);
}

/* *job is the first one. */
static taut_status run_all(struct work *w, const struct verb_call *call,
	const struct env_setting *s, struct record_job *job)
{
	taut_status status = run_apart(w, call, job, s->err);
	bool well = ended_well(job) && stalls_folder_has_ranks(w->folder);

	for (unsigned number = 2; !status && well && number <= w->values->runs; number++)
		status = run_once_more(w, call, s, number, &well);
	return status;
}

static taut_status run_job(struct work *w, const struct verb_call *call,
	struct record_job *job, struct taut_error *err)
{
	env_lines lines = { 0 };
	const struct env_setting s = { call->operands, call->n_operands, call->arena,
		&lines, err };
	taut_status status = set_environment(&s, w);

	for (size_t i = 0; i < lines.count; i++)
		term_complain("%s", lines.data[i]);
	taut_vec_free(&lines);
	return status ? status : run_all(w, call, &s, job);
}

/* --- storage ------------------------------------------------------------------------------*/

static taut_status probe(struct work *w, struct taut_error *err)
{
	const struct taut_stalls_probe_options how = { .size = sizeof how };
	struct taut_progress progress = term_progress();
	struct taut_error why = { .message = "" };
	taut_status status;

	if (progress.update)
		progress.update(progress.state, "reading files again", 0, 0);
	status = taut_stalls_probe(w->folder, &how, &w->job.storage, &why);
	term_progress_end();
	w->job.has_storage = !status;
	if (status != TAUT_EAGAIN) {
		if (status)
			*err = why;
		return status;
	}
	return note(w, taut_arena_printf(w->arena, "The storage was not measured: %s.",
		why.message), err);
}

static void set_rate(struct work *w)
{
	w->job.has_storage = true;
	w->job.storage = (struct taut_stalls_storage){
		.rate_bytes_s = (double)w->rate_bytes };
}

/* --- the result ---------------------------------------------------------------------------*/

struct output {
	const struct tauti_stalls_view *view;
	bool json;
};

static taut_status write_view(const void *context, FILE *out, struct taut_error *err)
{
	const struct output *o = context;
	const struct taut_text_options text = job_text_options(0);

	return o->json ? tauti_stalls_json(o->view, out, err) :
		tauti_stalls_text(o->view, &text, out, err);
}

static taut_status note_ranks(struct work *w, const struct taut_stalls_result *r,
	struct taut_error *err)
{
	taut_status status = TAUT_OK;

	if (r->n_without)
		status = note(w, taut_arena_printf(w->arena, "%u of %u ranks took no "
			"batches of a loader of their own: what is said is of the others.",
			r->n_without, r->n_without + r->n_ranks), err);
	if (!status && r->are_unlike)
		status = note(w, "Ranks have batches or sets of unlike sizes: what is said "
			"is of their means.", err);
	if (!status && r->others > 0)
		status = note(w, taut_arena_printf(w->arena, "Other loaders gave %.3g "
			"batches in each step: the job's wait for these counts as its own "
			"step, and is none of the stalls.", r->others), err);
	return status;
}

static taut_status note_missing(struct work *w, const struct taut_stalls_result *r,
	struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (int phase = 0; !status && phase < TAUT_STALLS_PHASES; phase++)
		if (!r->rate[phase].n_rounds && phase != TAUT_STALLS_HALF)
			status = note(w, taut_arena_printf(w->arena, "The job did not come "
				"to a phase '%s'.", tauti_stalls_phase_name(
				(enum taut_stalls_phase)phase)), err);
	return status;
}

/* Without a model what was measured is printed alone. */
static taut_status predict(struct work *w, const struct taut_stalls *stalls,
	struct tauti_stalls_view *view, struct taut_error *err)
{
	struct taut_error why = { .message = "" };
	taut_status status = taut_stalls_model(stalls,
		w->job.has_storage ? &w->job.storage : NULL, view->page_cache_bytes,
		&view->model, &why);

	if (status == TAUT_EINVAL)
		return note(w, taut_arena_printf(w->arena, "Nothing is predicted: %s.",
			why.message), err);
	if (status) {
		*err = why;
		return status;
	}
	view->has_model = true;
	return stalls_predict_all(&w->values->asked, w->arena, view, err);
}

static taut_status print(struct work *w, const struct taut_stalls *stalls,
	const struct taut_stalls_result *result, struct taut_error *err)
{
	struct stalls_counts counts = stalls_folder_counts(w->folder);
	struct tauti_stalls_view view = { .command = w->job.command, .result = *result,
		.forgotten = counts.forgotten, .forgotten_bytes = counts.forgotten_bytes,
		.has_storage = w->job.has_storage, .storage = w->job.storage,
		.page_cache_bytes = w->memory_bytes ? w->memory_bytes :
			w->job.page_cache_bytes };
	const struct output output = { &view, w->values->json };
	taut_status status = note_ranks(w, result, err);

	if (!status)
		status = note_missing(w, result, err);

	if (!status)
		status = predict(w, stalls, &view, err);
	view.notes = w->job.notes.data;
	view.n_notes = w->job.notes.count;
	return status ? status : out_write(NULL, NULL, write_view, &output, err);
}

/* What follows the job. */
static taut_status measure_rest(struct work *w, const struct taut_stalls_result *result,
	struct taut_error *err)
{
	uint32_t n_ranks = (result->n_ranks + result->n_without) /
		(result->n_hosts ? result->n_hosts : 1);
	taut_status status = TAUT_OK;

	w->job.page_cache_bytes = stalls_page_cache(n_ranks ? n_ranks : 1);
	if (!w->rate_bytes && !w->values->no_probe)
		status = probe(w, err);
	return status || !w->values->out ? status : stalls_job_write(w->folder, &w->job, err);
}

static taut_status finish(struct work *w, struct taut_error *err)
{
	struct taut_stalls *stalls = NULL;
	struct taut_stalls_result result;
	taut_status status;

	if (!stalls_folder_has_ranks(w->folder))
		return w->is_read ? taut_error_set(err, TAUT_EIO, -1, "%s: expected a folder "
			"that 'taut stalls --out' wrote", w->folder) :
			explain_nothing(w, err);
	status = taut_stalls_open(w->folder, &stalls, err);
	if (status)
		return status;
	taut_stalls_result(stalls, &result);
	if (!w->is_read)
		status = measure_rest(w, &result, err);
	if (w->rate_bytes)
		set_rate(w);
	else if (w->values->no_probe)
		w->job.has_storage = false;
	if (!status)
		status = print(w, stalls, &result, err);
	taut_stalls_close(stalls);
	return status;
}

/* --- the verb -----------------------------------------------------------------------------*/

static int read_kept(struct work *w)
{
	struct taut_error err = { .message = "" };
	taut_status status;

	w->folder = w->values->read;
	w->job.command = w->folder;
	w->is_read = true;
	status = stalls_job_read(w->folder, w->arena, &w->job, &err);
	if (!status)
		status = finish(w, &err);
	return job_status(status, &err);
}

/* A job that failed before anything was measured says itself why. */
static int run_and_print(struct work *w, const struct verb_call *call)
{
	struct record_job job = { .exit_status = 0 };
	struct taut_error err = { .message = "" };
	taut_status status = run_job(w, call, &job, &err);

	if (status)
		return job_status(status, &err);
	if (job.fault) {
		term_complain("%s: cannot be run: %s", call->operands[0],
			strerror(job.fault));
		return record_job_status(&job);
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	status = tell_end(w, &job, &err);
	if (!status)
		status = finish(w, &err);
	if (!status)
		return EXIT_DONE;
	job_status(status, &err);
	if (!w->values->out)
		stalls_folder_remove(w->folder); /* the signal may end this process */
	return job.signal || job.exit_status ? record_job_status(&job) : EXIT_FAULT;
}

static int run(const struct verb_call *call)
{
	struct work w = { .values = call->values, .arena = call->arena };
	struct taut_error err = { .message = "" };
	taut_status status;
	int code;

	if (!check_options(call, &w))
		return EXIT_USAGE;
	if (w.values->read) {
		signal(SIGPIPE, SIG_IGN);
		code = read_kept(&w);
	} else {
		w.job.command = all_words(call);
		status = w.job.command ? stalls_folder_make(
			w.values->out, call->arena, &w.folder, &err) : no_memory(&err);
		if (status)
			return job_status(status, &err);
		code = run_and_print(&w, call);
		if (!w.values->out)
			stalls_folder_remove(w.folder);
	}
	taut_vec_free(&w.job.notes);
	return code;
}

const struct verb verb_stalls = {
	.name = "stalls",
	.summary = "how long a job waits for its data, and what would help",
	.operands = "COMMAND...",
	.about = "Runs COMMAND, a training job that needs no change, and compares, by turns: "
		"batches that are there already, items in the page cache, and items that come "
		"from storage. The differences are what the job waits for. Then it predicts "
		"epochs with other caches, workers, cores, storage, batches and jobs, and says "
		"what helps most. The job ends when all is measured: nothing of it is kept. "
		"It works for PyTorch's DataLoader, tf.data, MXNet's iterators and taut.load, "
		"on one host.",
	.options = options,
	.n_options = sizeof options / sizeof options[0],
	.values_bytes = sizeof(struct values),
	.run = run,
	.is_command = true,
	.no_operands = true,
};

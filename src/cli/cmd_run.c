/* cmd_run.c - taut run: runs a job whose gradients Taut sums. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/env.h"
#include "cli/job.h"
#include "cli/record.h"
#include "cli/run_plan.h"
#include "cli/run_decide.h"
#include "cli/run_server.h"
#include "cli/run_tune.h"
#include "cli/run_unseen.h"
#include "cli/term.h"
#include "cli/verbs.h"

struct values {
	const char *order, *engine, *gate, *backend, *piece, *credit, *fuse;
	const char *load, *load_cache, *rows;
	bool schedule, no_schedule, halves, ordered, mpi;
	struct run_plan plan;
	struct run_tune tune;
	struct run_server server;
	struct run_decide decide;
};

static const struct opt options[] = {
	{ "schedule", 0, OPT_FLAG, offsetof(struct values, schedule), NULL,
		"sum gradients by priority while the job computes, across the "
		"barrier between steps (the default)", 0, 0 },
	{ "no-schedule", 0, OPT_FLAG, offsetof(struct values, no_schedule), NULL,
		"leave the job as it is", 0, 0 },
	{ "piece", 0, OPT_TEXT, offsetof(struct values, piece), "BYTES",
		"largest piece of a gradient, like 512K; 0: gradients stay "
		"whole (default: what the link moves in 2.5 ms, at most 1M)", 0, 0 },
	{ "credit", 0, OPT_TEXT, offsetof(struct values, credit), "BYTES",
		"bytes that may be under way, and cannot be overtaken; 0: no "
		"limit (default: two pieces)", 0, 0 },
	{ "fuse", 0, OPT_TEXT, offsetof(struct values, fuse), "BYTES",
		"gradients that are summed together, up to so many bytes "
		"(default: a piece); 1M+4M+8M: in groups of that size, as "
		"the backward pass gives them, the last for all behind it", 0, 0 },
	{ "order", 0, OPT_TEXT, offsetof(struct values, order), "HOW",
		"agreed: by priority, as all ranks agree (the default); "
		"declared: last parameter first", 0, 0 },
	{ "engine", 0, OPT_TEXT, offsetof(struct values, engine), "NAME",
		"coll: Taut's collectives; process-group: PyTorch's; server: "
		"parameter servers (default: auto)", 0, 0 },
	{ "gate", 0, OPT_TEXT, offsetof(struct values, gate), "WHEN",
		"on: cross the barrier only where some measured steps say that "
		"it can pay (the default)", 0, 0 },
	{ "backend", 0, OPT_TEXT, offsetof(struct values, backend), "NAME",
		"taut: process groups that the job wants of Gloo are Taut's; "
		"job: as it wants them (the default)", 0, 0 },
	{ "load", 0, OPT_TEXT, offsetof(struct values, load), "WHEN",
		"auto: batches of DataLoaders over an ImageFolder are made by "
		"Taut's loader, where it has all that is done to an image; off "
		"(the default)", 0, 0 },
	{ "load-cache", 0, OPT_TEXT, offsetof(struct values, load_cache), "BYTES",
		"with --load: so much of each set's files is kept in memory "
		"that all ranks of a host share (default: 0)", 0, 0 },
	{ "rows", 0, OPT_TEXT, offsetof(struct values, rows), "WHEN",
		"on: of an embedding's gradient those rows are summed that some "
		"rank has looked up, where that pays; off (the default)", 0, 0 },
	{ "halves", 0, OPT_FLAG, offsetof(struct values, halves), NULL,
		"all-reduce as reduce-scatter and all-gather (engine coll)",
		0, 0 },
	{ "ordered", 0, OPT_FLAG, offsetof(struct values, ordered), NULL,
		"sum in the order of the ranks: the same bits whatever the "
		"pieces (engine coll)", 0, 0 },
	{ "mpi", 0, OPT_FLAG, offsetof(struct values, mpi), NULL,
		"COMMAND is an MPI program: its all-reduces are Taut's where "
		"that is faster; nothing else is changed", 0, 0 },
	RUN_PLAN_OPTIONS(struct values, plan),
	RUN_TUNE_OPTIONS(struct values, tune),
	RUN_SERVER_OPTIONS(struct values, server),
	RUN_DECIDE_OPTIONS(struct values, decide),
};

/* --- options ------------------------------------------------------------------------*/

/* Which words an option takes; python/taut/_options.py has the same. */
struct words {
	const char *option, *variable;
	size_t offset;
	const char *words[5];
};

static const struct words texts[] = {
	{ "order", "TAUT_RUN_ORDER", offsetof(struct values, order),
		{ "agreed", "declared" } },
	{ "engine", "TAUT_RUN_ENGINE", offsetof(struct values, engine),
		{ "auto", "coll", "process-group", "server" } },
	{ "gate", "TAUT_RUN_GATE", offsetof(struct values, gate),
		{ "on", "off" } },
	{ "backend", "TAUT_RUN_BACKEND", offsetof(struct values, backend),
		{ "job", "taut" } },
	{ "load", "TAUT_RUN_LOAD", offsetof(struct values, load),
		{ "off", "auto" } },
	{ "rows", "TAUT_RUN_ROWS", offsetof(struct values, rows),
		{ "off", "on" } },
};
static const struct words sizes[] = {
	{ "piece", "TAUT_RUN_PIECE", offsetof(struct values, piece), { 0 } },
	{ "credit", "TAUT_RUN_CREDIT", offsetof(struct values, credit), { 0 } },
	{ "fuse", "TAUT_RUN_FUSE", offsetof(struct values, fuse), { 0 } },
	{ "load-cache", "TAUT_RUN_LOAD_CACHE", offsetof(struct values, load_cache),
		{ 0 } },
};
enum { N_TEXTS = sizeof texts / sizeof texts[0],
	N_SIZES = sizeof sizes / sizeof sizes[0] };

static const char *value_of(const struct values *values, const struct words *w)
{
	return *(const char *const *)((const char *)values + w->offset);
}

static bool is_one_of(const char *text, const struct words *w)
{
	for (size_t i = 0; w->words[i]; i++)
		if (!strcmp(text, w->words[i]))
			return true;
	return false;
}

/* "a, b or c" */
static const char *list_of(const struct words *w, struct taut_arena *arena)
{
	const char *text = w->words[0];

	for (size_t i = 1; w->words[i] && text; i++)
		text = taut_arena_printf(arena, "%s%s%s", text,
			w->words[i + 1] ? ", " : " or ", w->words[i]);
	return text ? text : w->words[0];
}

static bool take_words(const struct values *values, struct taut_arena *arena)
{
	for (size_t i = 0; i < N_TEXTS; i++) {
		const struct words *w = &texts[i];
		const char *text = value_of(values, w);

		if (!text || is_one_of(text, w))
			continue;
		term_complain("run: --%s: expected %s, found '%s'",
			w->option, list_of(w, arena), text);
		return false;
	}
	return true;
}

static taut_status set_sizes(const struct values *values,
	const struct env_setting *s, bool *ret_wrong)
{
	taut_status status = TAUT_OK;

	for (size_t i = 0; i < N_SIZES && !status; i++) {
		const char *text = value_of(values, &sizes[i]);
		const char *bytes = text ? opt_sizes(
			text, UINT64_C(1) << 40, s->arena) : NULL;
		bool is_fuse = values->fuse && text == values->fuse;

		if (!text)
			continue;
		if (!bytes)
			return taut_error_set(
				s->err, TAUT_ENOMEM, -1, "no memory");
		if (!*bytes || (!is_fuse && strchr(bytes, '+'))) {
			term_complain("run: --%s: expected bytes, like 4096 or "
				"512K%s, found '%s'", sizes[i].option,
				is_fuse ? ", or of each group, like 1M+4M" : "",
				text);
			*ret_wrong = true;
			return TAUT_OK;
		}
		status = env_set(s, sizes[i].variable, bytes);
	}
	return status;
}

/* What goes together is fixed in groups, and tuning would try sizes for it that change
 * nothing. */
static bool is_tuned_well(const struct values *values)
{
	if (!values->tune.tune || !values->fuse || !strchr(values->fuse, '+'))
		return true;
	term_complain("run: --tune: expected --fuse with one size, which it "
		"tries others of; '%s' are groups", values->fuse);
	return false;
}

/* --- the environment ------------------------------------------------------------------*/

/* UCX carries messages between hosts, and is tuned by its own. */
static const char *const handed_on[] = { "TAUT_", "UCX_", "PYTHONPATH=" };

static taut_status set_flag(const struct env_setting *s, bool given,
	const char *variable, const char *value)
{
	return given ? env_set(s, variable, value) : TAUT_OK;
}

static taut_status set_texts(
	const struct values *values, const struct env_setting *s)
{
	taut_status status = TAUT_OK;

	for (size_t i = 0; i < N_TEXTS && !status; i++)
		status = set_flag(s, value_of(values, &texts[i]),
			texts[i].variable, value_of(values, &texts[i]));
	if (!status)
		status = set_flag(s, values->schedule, "TAUT_RUN_SCHEDULE", "on");
	if (!status)
		status = set_flag(
			s, values->no_schedule, "TAUT_RUN_SCHEDULE", "off");
	if (!status)
		status = set_flag(s, values->halves, "TAUT_RUN_HALVES", "on");
	if (!status)
		status = set_flag(s, values->ordered, "TAUT_RUN_ORDERED", "on");
	return status;
}

static taut_status set_environment(
	const struct env_setting *s, struct run_unseen *unseen)
{
	const char *folder = env_folder_of_command(s->arena);
	const char *inject = folder ? env_find_inject(s->arena, folder) : NULL;
	const char *lib = folder ?
		env_find_library(s->arena, folder, "libtaut.so.0") : NULL;
	taut_status status;

	if (!inject || !lib)
		return taut_error_set(s->err, TAUT_ENOMEM, -1, "no memory");
	if (!*inject || !*lib)
		return taut_error_set(s->err, TAUT_EIO, -1, "%s: expected %s "
			"as it was installed with this command", folder,
			*lib ? "the Python package" : "libtaut.so.0");
	status = env_set(s, "TAUT_RUN", "1");
	if (!status)
		status = set_flag(s, !getenv("TAUT_LIB"), "TAUT_LIB", lib);
	if (!status)
		status = env_prepend_path(s, "PYTHONPATH", inject, ":");
	if (!status)
		status = run_unseen_set(s, unseen);
	if (!status)
		status = env_set_open_mpi_all(s, handed_on,
			sizeof handed_on / sizeof handed_on[0]);
	return status;
}

/* An MPI program needs no more than the object before its library. */
static const char *const handed_on_mpi[] = { "LD_PRELOAD", "TAUT_LIB",
	"TAUT_MPI_TABLE", "TAUT_MPI_AFTER", "TAUT_MPI_ADDRESS", "TAUT_MPI_PART",
	"TAUT_MPI_ENGINE", "TAUT_MPI_SAY", "TAUT_COLL_TABLE", "TAUT_ENGINE",
	"TAUT_NVRTC" };

static taut_status set_environment_mpi(const struct env_setting *s)
{
	const char *folder = env_folder_of_command(s->arena);
	const char *object = folder ? env_find_library(
		s->arena, folder, "libtaut-mpi-coll.so") : NULL;
	const char *lib = folder ?
		env_find_library(s->arena, folder, "libtaut.so.0") : NULL;
	taut_status status;

	if (!object || !lib)
		return taut_error_set(s->err, TAUT_ENOMEM, -1, "no memory");
	if (!*object || !*lib)
		return taut_error_set(s->err, TAUT_EIO, -1, "%s: expected %s "
			"as it was installed with this command", folder,
			*lib ? "libtaut-mpi-coll.so" : "libtaut.so.0");
	status = set_flag(s, !getenv("TAUT_LIB"), "TAUT_LIB", lib);
	if (!status)
		status = env_prepend_path(s, "LD_PRELOAD", object, ": ");
	if (!status)
		status = env_set_open_mpi(s, handed_on_mpi,
			sizeof handed_on_mpi / sizeof handed_on_mpi[0]);
	return status;
}

/* --- the job ----------------------------------------------------------------------------*/

/* Where nobody imported a framework, a job that ended well did not do what was asked for:
 * that is no success, but where those who did may be on other hosts. */
static void tell_unseen(const struct env_setting *s,
	const struct run_planned *planned, struct record_job *job)
{
	const char *asked = job->exit_status || env_may_be_elsewhere(s) ?
		NULL : run_decide_asked();

	if (asked)
		job->exit_status = EXIT_FAULT;
	if (planned->folder)
		return; /* it is told why nothing was measured */
	if (asked)
		term_complain("--%s was not done: %s", asked, RUN_UNSEEN_LINE);
	else
		term_complain("%s", RUN_UNSEEN_LINE);
}

static int run_job(const struct env_setting *s, struct run_planned *planned,
	struct run_unseen *unseen)
{
	struct record_job job;
	taut_status status = record_run_job(
		s->command, s->n_command, s->arena, &job, s->err);
	bool is_unseen = run_unseen_end(unseen);

	if (!status && !job.fault && !run_plan_tell(planned,
		is_unseen ? RUN_UNSEEN_LINE : "", s->arena) && is_unseen)
		tell_unseen(s, planned, &job);
	run_plan_end(planned, s->arena);
	if (status)
		return job_status(status, s->err);
	if (job.fault)
		term_complain("%s: cannot be run: %s", s->command[0],
			strerror(job.fault));
	return record_job_status(&job);
}

static int run(const struct verb_call *call)
{
	const struct values *values = call->values;
	struct taut_error err = { .message = "" };
	env_lines lines = { 0 };
	const struct env_setting s = { call->operands, call->n_operands,
		call->arena, &lines, &err };
	struct run_planned planned = { 0 };
	struct run_unseen unseen = { 0 };
	bool is_wrong = false;
	taut_status status;

	if (values->schedule && values->no_schedule) {
		term_complain("run: expected --schedule or --no-schedule");
		return EXIT_USAGE;
	}
	if (!take_words(values, call->arena) || !is_tuned_well(values))
		return EXIT_USAGE;
	status = run_plan_set(&values->plan, &s, &planned);
	if (!status)
		status = run_tune_set(&values->tune, &s, &is_wrong);
	if (!status && !is_wrong)
		status = run_server_set(
			&values->server, values->engine, &s, &is_wrong);
	if (!status && !is_wrong)
		status = run_decide_set(&values->decide, &s, &is_wrong);
	if (!status && !is_wrong)
		status = set_sizes(values, &s, &is_wrong);
	if (is_wrong) {
		run_plan_end(&planned, call->arena);
		return EXIT_USAGE;
	}
	if (!status)
		status = set_texts(values, &s);
	if (!status)
		status = values->mpi ? set_environment_mpi(&s) :
			set_environment(&s, &unseen);
	for (size_t i = 0; i < lines.count; i++)
		term_complain("%s", lines.data[i]);
	taut_vec_free(&lines);
	if (!status)
		return run_job(&s, &planned, &unseen);
	run_unseen_end(&unseen);
	run_plan_end(&planned, call->arena);
	return job_status(status, &err);
}

const struct verb verb_run = {
	.name = "run",
	.summary = "run a training job, its gradients summed by Taut",
	.operands = "COMMAND...",
	.about = "Runs COMMAND, a PyTorch job with DistributedDataParallel, "
		"which needs no change: its gradients are summed by Taut while "
		"it computes, and where it pays the next forward pass begins "
		"before all are summed. Standard output and the exit status are "
		"the job's; standard error has lines more, that begin with "
		"'taut:'. What Taut does not do is left to PyTorch, and such a "
		"line says why. Each option is also a variable of the "
		"environment: --piece is TAUT_RUN_PIECE.",
	.options = options,
	.n_options = sizeof options / sizeof options[0],
	.values_bytes = sizeof(struct values),
	.run = run,
	.is_command = true,
};

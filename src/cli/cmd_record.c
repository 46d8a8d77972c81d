/* cmd_record.c - taut record: runs a job and records some steps of it. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/job.h"
#include "cli/record.h"
#include "cli/record_text.h"
#include "cli/term.h"
#include "cli/verbs.h"

enum { MOST_LINES = 8, JOIN_SECONDS = 60 };

struct values {
	const char *steps, *out, *compile;
	bool join, memory, no_mpi, no_nccl;
};

static const struct opt options[] = {
	{ "steps", 0, OPT_TEXT, offsetof(struct values, steps), "RANGE",
		"record the steps A:B, counted from 0, B not included "
		"(default: 10:14)", 0, 0 },
	{ "out", 'o', OPT_TEXT, offsetof(struct values, out), "RUN",
		"write to this folder, which must be new or empty (default: "
		"taut-run-DATE-TIME)", 0, 0 },
	{ "join", 0, OPT_FLAG, offsetof(struct values, join), NULL,
		"others record the same job in this RUN, which all reach: one "
		"'taut record' on each host, or one for each rank", 0, 0 },
	{ "memory", 0, OPT_FLAG, offsetof(struct values, memory), NULL,
		"record allocations too (PyTorch): the report then has each "
		"rank's peak; recorded steps take longer", 0, 0 },
	{ "compile", 0, OPT_TEXT, offsetof(struct values, compile), "PATTERN",
		"when the window is over, compile modules of these names "
		"(PyTorch; 'nn.Module: blocks.*') and measure what that "
		"gives: for 'taut whatif compile='; takes up to minutes", 0, 0 },
	{ "no-mpi", 0, OPT_FLAG, offsetof(struct values, no_mpi), NULL,
		"do not record MPI calls", 0, 0 },
	{ "no-nccl", 0, OPT_FLAG, offsetof(struct values, no_nccl), NULL,
		"do not record what NCCL does inside", 0, 0 },
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory");
}

/* --- options ------------------------------------------------------------------------*/

static taut_status name_run(struct record_plan *plan, const char *out,
	struct taut_arena *arena, struct taut_error *err)
{
	char name[64], *folder;
	time_t now = time(NULL);
	struct tm parts;

	if (!out) {
		localtime_r(&now, &parts);
		strftime(name, sizeof name, "taut-run-%Y%m%d-%H%M%S", &parts);
		out = name;
	}
	folder = out[0] == '/' ? NULL : getcwd(NULL, 0);
	if (out[0] != '/' && !folder)
		return taut_error_set(err, TAUT_EIO, -1, "%s: this folder "
			"cannot be named: %s", out, strerror(errno));
	plan->run = taut_arena_printf(arena, "%s%s%s", folder ? folder : "",
		folder ? "/" : "", out);
	free(folder);
	return plan->run ? TAUT_OK : no_memory(err);
}

/* --- the folder -----------------------------------------------------------------------*/

static bool is_empty(const char *path)
{
	DIR *dir = opendir(path);
	size_t n = 0;

	if (!dir)
		return false;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n <= 2; /* . and .. */
}

/* Of one job, a part may end before another begins, but not by much. */
static bool has_ended_long_ago(const char *done)
{
	struct stat at;

	return !stat(done, &at) && at.st_mtime < time(NULL) - JOIN_SECONDS;
}

static taut_status refuse_used(
	const struct record_plan *plan, const char *done, struct taut_error *err)
{
	if (plan->join && !has_ended_long_ago(done))
		return TAUT_OK;
	if (plan->join)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"%s: is a recording that has ended", plan->run);
	if (is_empty(plan->run))
		return TAUT_OK;
	return taut_error_set(err, TAUT_EINVAL, -1, "%s: expected a new or an "
		"empty folder (or --join, for a job of several hosts)",
		plan->run);
}

static taut_status make_folder(
	const char *path, bool *ret_is_new, struct taut_error *err)
{
	*ret_is_new = !mkdir(path, 0777);
	if (*ret_is_new || errno == EEXIST)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EIO, -1,
		"%s: this folder cannot be made: %s", path, strerror(errno));
}

struct made {
	const char *processes; /* the folder for what processes say */
	bool run_is_new;
};

static taut_status make_run(const struct record_plan *plan,
	struct taut_arena *arena, struct made *made, struct taut_error *err)
{
	const char *done = taut_arena_printf(
		arena, "%s/recording.json", plan->run);
	taut_status status;
	bool is_new;

	made->processes = taut_arena_printf(arena, "%s/processes", plan->run);
	if (!done || !made->processes)
		return no_memory(err);
	status = make_folder(plan->run, &made->run_is_new, err);
	if (!status)
		status = refuse_used(plan, done, err);
	if (!status)
		status = make_folder(made->processes, &is_new, err);
	return status;
}

/* Of a job that never started nothing is left; but what one has made others
 * may have joined. */
static void remove_run(const struct record_plan *plan, const struct made *made)
{
	if (!plan->join && !rmdir(made->processes) && made->run_is_new)
		rmdir(plan->run);
}

/* --- after the job ---------------------------------------------------------------------*/

static void say_recorded(const struct record_plan *plan,
	const struct record_result *result, struct taut_arena *arena)
{
	const char *ranks = record_ranks_text(
		arena, result->ranks.data, result->ranks.count);
	const char *steps = record_steps_text(
		arena, result->recorded[0], result->recorded[1]);
	bool has_steps = result->recorded[1] >= 0;

	if (result->ranks.count && ranks && steps)
		term_complain("recorded %s%s%s: %s", ranks,
			has_steps ? ", " : "", has_steps ? steps : "",
			plan->run);
}

static void say_result(const struct record_plan *plan,
	const struct record_result *result, struct taut_arena *arena)
{
	size_t n = result->problems.count;

	say_recorded(plan, result, arena);
	for (size_t i = 0; i < n && i < MOST_LINES; i++)
		term_complain("%s", result->problems.data[i]);
	if (n > MOST_LINES)
		term_complain("%zu more such lines are in %s/recording.json",
			n - MOST_LINES, plan->run);
}

/* Whatever goes wrong here is one line and nothing else. */
static void finish(const struct record_plan *plan,
	const struct record_job *job, struct record_result *result,
	struct taut_arena *arena)
{
	struct taut_error err = { .message = "" };

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	if (job_status(record_gather(plan, job, arena, result, &err), &err))
		return;
	say_result(plan, result, arena);
	(void)job_status(record_write(plan, job, result, &err), &err);
}

static int run_job(const struct record_plan *plan, const struct made *made,
	struct taut_arena *arena)
{
	struct record_result result = { .world_size = -1,
		.recorded = { -1, -1 } };
	struct taut_error err = { .message = "" };
	struct record_files files;
	struct record_job job;
	taut_status status = record_find_files(arena, &files, &err);

	if (!status)
		status = record_set_environment(
			plan, &files, arena, &result.problems, &err);
	if (!status)
		status = record_run_job(
			plan->command, plan->n_command, arena, &job, &err);
	if (!status && !job.fault)
		finish(plan, &job, &result, arena);
	else
		remove_run(plan, made);
	record_result_fini(&result);
	if (status)
		return job_status(status, &err);
	if (job.fault)
		term_complain("%s: cannot be run: %s", plan->command[0],
			strerror(job.fault));
	return record_job_status(&job);
}

static int run(const struct verb_call *call)
{
	const struct values *values = call->values;
	struct record_plan plan = { .no_mpi = values->no_mpi,
		.no_nccl = values->no_nccl, .join = values->join,
		.memory = values->memory, .compile = values->compile,
		.command = call->operands, .n_command = call->n_operands };
	struct taut_error err = { .message = "" };
	struct made made = { NULL, false };
	taut_status status;

	if (!record_take_steps("record", values->steps ? values->steps :
		"10:14", &plan.first, &plan.end))
		return EXIT_USAGE;
	if (values->join && !values->out) {
		term_complain("record: --join: expected --out as well, the "
			"folder that all share");
		return EXIT_USAGE;
	}
	status = name_run(&plan, values->out, call->arena, &err);
	if (!status)
		status = make_run(&plan, call->arena, &made, &err);
	if (status)
		return job_status(status, &err);
	return run_job(&plan, &made, call->arena);
}

const struct verb verb_record = {
	.name = "record",
	.summary = "run a training job and record some of its steps",
	.operands = "COMMAND...",
	.about = "Runs COMMAND and records some training steps of every rank, "
		"for taut report. The job needs no change: what records it "
		"comes with the environment, through torchrun, mpirun, srun "
		"or a script. Its output and its exit status are what they "
		"would be without.",
	.options = options,
	.n_options = sizeof options / sizeof options[0],
	.values_bytes = sizeof(struct values),
	.run = run,
	.is_command = true,
};

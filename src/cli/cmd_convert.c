/* cmd_convert.c - taut convert: hand the data to other tools. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/job.h"
#include "cli/out.h"
#include "cli/term.h"
#include "cli/verbs.h"
#include "report/tables.h"

struct values {
	struct job_options job;
	const char *to, *output;
};

static const struct opt options[] = {
	{ "to", 0, OPT_TEXT, offsetof(struct values, to), "FORMAT",
		"perfetto: the timeline with the critical path and the waits; "
		"csv: the table of operations; chakra: execution traces for "
		"simulators, one file a rank", 0, 0 },
	{ "output", 'o', OPT_TEXT, offsetof(struct values, output), "FILE",
		"write to this file (default, and -: standard output); of "
		"chakra, the folder for its files", 0, 0 },
	JOB_OPTIONS(struct values),
};

static const struct format {
	const char *name;
	taut_status (*write)(const struct taut_report *report, FILE *out,
		struct taut_error *err);
} formats[] = {
	{ "perfetto", taut_report_perfetto },
	{ "csv", tauti_csv_write },
	{ "chakra", NULL }, /* a folder: write_folder() */
};
enum { N_FORMATS = sizeof formats / sizeof formats[0] };

struct output {
	const struct taut_report *report;
	const struct format *format;
};

static taut_status write_result(
	const void *context, FILE *out, struct taut_error *err)
{
	const struct output *output = context;

	return output->format->write(output->report, out, err);
}

/* NULL after a complaint. */
static const struct format *find_format(const char *name)
{
	const char *names[N_FORMATS], *near;

	for (size_t i = 0; i < N_FORMATS; i++) {
		if (name && !strcmp(formats[i].name, name))
			return &formats[i];
		names[i] = formats[i].name;
	}
	near = name ? opt_nearest(name, names, N_FORMATS) : NULL;
	if (near)
		term_complain("--to: unknown format '%s'; did you mean %s?",
			name, near);
	else
		term_complain("--to: expected perfetto, csv or chakra, found %s",
			name ? name : "nothing");
	return NULL;
}

/* --- a folder ------------------------------------------------------------- */

struct rank_output {
	struct tauti_chakra *chakra;
	uint32_t rank;
};

static taut_status write_rank(
	const void *context, FILE *out, struct taut_error *err)
{
	const struct rank_output *output = context;

	return tauti_chakra_write(output->chakra, output->rank, out, err);
}

static taut_status write_groups(
	const void *context, FILE *out, struct taut_error *err)
{
	const struct rank_output *output = context;

	return tauti_chakra_write_groups(output->chakra, out, err);
}

static taut_status path_in(char path[PATH_MAX], const char *folder,
	const char *name, struct taut_error *err)
{
	if (snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EIO, -1, "%s: its name is too long",
		folder);
}

static taut_status make_folder(const char *path, struct taut_error *err)
{
	struct stat at;

	if (stat(path, &at) == 0 && S_ISDIR(at.st_mode)) {
		if (access(path, W_OK | X_OK) == 0)
			return TAUT_OK;
		return taut_error_set(err, TAUT_EIO, -1,
			"%s: cannot be written in: %s", path, strerror(errno));
	}
	if (mkdir(path, 0777) == 0)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EIO, -1, "%s: cannot be made: %s",
		path, strerror(errno));
}

/* "chakra.3.et" of a rank that the job does not have? */
static bool is_strange(const struct taut_run *run, const char *name)
{
	char own[32];
	int rank;

	if (sscanf(name, "chakra.%d.et", &rank) != 1)
		return false;
	snprintf(own, sizeof own, "chakra.%d.et", rank);
	if (strcmp(name, own) != 0)
		return false;
	for (uint32_t i = 0; i < run->n_traces; i++)
		if (run->traces[i].rank == rank)
			return false;
	return true;
}

/* Whoever reads the folder takes all files in it for one job. */
static taut_status check_folder(const struct taut_run *run, const char *path,
	struct taut_error *err)
{
	DIR *folder = opendir(path);
	const struct dirent *entry;
	taut_status status = TAUT_OK;

	if (!folder)
		return taut_error_set(err, TAUT_EIO, -1,
			"%s: cannot be read: %s", path, strerror(errno));
	while (!status && (entry = readdir(folder)))
		if (is_strange(run, entry->d_name))
			status = taut_error_set(err, TAUT_EINVAL, -1,
				"%s: has %.32s, of a rank that this job does "
				"not have; remove it or give another folder",
				path, entry->d_name);
	closedir(folder);
	return status;
}

static taut_status write_folder(
	const struct job *job, const char *folder, struct taut_error *err)
{
	struct rank_output output = { NULL, 0 };
	char path[PATH_MAX], name[32];
	taut_status status = make_folder(folder, err);

	if (!status)
		status = check_folder(job->run, folder, err);
	if (!status)
		status = tauti_chakra_open(job->report, &output.chakra, err);
	for (uint32_t i = 0; !status && i < job->run->n_traces; i++) {
		output.rank = i;
		snprintf(name, sizeof name, "chakra.%d.et",
			(int)job->run->traces[i].rank);
		status = path_in(path, folder, name, err);
		if (!status)
			status = out_write(
				path, job->run, write_rank, &output, err);
	}
	if (!status)
		status = path_in(path, folder, "comm_groups.json", err);
	if (!status)
		status = out_write(path, job->run, write_groups, &output, err);
	tauti_chakra_close(output.chakra);
	return status;
}

/* --- the verb --------------------------------------------------------------- */

/* Before long work: can the result be written at all? */
static int check_output(
	const struct format *format, const char *path, struct taut_error *err)
{
	if (format->write)
		return job_status(out_check(path, err), err);
	if (path)
		return job_status(make_folder(path, err), err);
	term_complain("--to %s: expected -o FOLDER, for it is one file a rank",
		format->name);
	return EXIT_USAGE;
}

static int run(const struct verb_call *call)
{
	const struct values *values = call->values;
	const struct format *format = find_format(values->to);
	const char *path = values->output && strcmp(values->output, "-") != 0 ?
		values->output : NULL;
	struct taut_error err = { .message = "" };
	struct job job;
	taut_status written;
	int status;

	if (!format)
		return EXIT_USAGE;
	status = check_output(format, path, &err);
	if (!status)
		status = job_open(&job, &values->job, call);
	if (status)
		return status;

	struct output output = { job.report, format };

	written = format->write ?
		out_write(path, job.run, write_result, &output, &err) :
		write_folder(&job, path, &err);
	status = job_status(written, &err);
	job_close(&job);
	return status;
}

const struct verb verb_convert = {
	.name = "convert",
	.summary = "hand the data to other tools: Perfetto, CSV, Chakra",
	.operands = "RUN... --to FORMAT",
	.about = "Writes what was recorded, on one clock over all ranks, in a "
		"form that other tools read.\n\n" ABOUT_RUN,
	.options = options,
	.n_options = sizeof options / sizeof options[0],
	.values_bytes = sizeof(struct values),
	.run = run,
};

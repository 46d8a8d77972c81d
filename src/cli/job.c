/* job.c - see job.h. */
#include "cli/job.h"

#include <sys/stat.h>

#include "cli/term.h"

int job_status(taut_status status, const struct taut_error *err)
{
	if (!status)
		return EXIT_DONE;
	term_complain("%s", err->message[0] ? err->message :
		taut_status_name(status));
	return EXIT_FAULT;
}

size_t job_skip_files(const struct verb_call *call, size_t from)
{
	struct stat at;
	size_t n = from;

	while (n < call->n_operands && !stat(call->operands[n], &at))
		n++;
	return n;
}

size_t job_count_runs(const struct verb_call *call)
{
	return job_skip_files(call, 1);
}

struct taut_text_options job_text_options(unsigned width)
{
	return (struct taut_text_options){
		.width = width ? (int)width : term_width(),
		.colour = term_colour() };
}

static taut_status open_all(struct job *job,
	const struct job_options *options, const struct verb_call *call,
	bool report, struct taut_error *err)
{
	struct taut_run_options run = { .threads = options->threads,
		.ranks = options->ranks.data, .progress = term_progress() };
	struct taut_graph_options graph = { .threads = options->threads,
		.comm_patterns = options->comm_patterns.data,
		.n_comm_patterns = options->comm_patterns.n,
		.no_clock_alignment = options->no_clock_alignment };
	struct taut_explain_options explain = { .threads = options->threads };
	taut_status status = taut_run_open(
		call->operands, call->n_operands, &run, &job->run, err);

	term_progress_end();
	if (!status)
		status = taut_graph_build(job->run, &graph, &job->graph, err);
	if (!status && report)
		status = taut_explain(
			job->graph, &explain, &job->report, err);
	return status;
}

/* Ranks belong to files, one each. */
static int check_ranks(
	const struct job_options *options, const struct verb_call *call)
{
	struct stat at;

	if (!options->ranks.n)
		return EXIT_DONE;
	for (size_t i = 0; i < call->n_operands; i++)
		if (!stat(call->operands[i], &at) && S_ISDIR(at.st_mode)) {
			term_complain("--ranks: %s is a folder; give its files "
				"in the order of the ranks", call->operands[i]);
			return EXIT_USAGE;
		}
	if (options->ranks.n == call->n_operands)
		return EXIT_DONE;
	term_complain("--ranks: expected one rank for each of the %zu files, "
		"found %zu", call->n_operands, options->ranks.n);
	return EXIT_USAGE;
}

static int open_job(struct job *job, const struct job_options *options,
	const struct verb_call *call, bool report)
{
	struct taut_error err = { .message = "" };
	taut_status status;

	*job = (struct job){ NULL, NULL, NULL };
	if (check_ranks(options, call))
		return EXIT_USAGE;
	status = open_all(job, options, call, report, &err);
	if (status)
		job_close(job);
	return job_status(status, &err);
}

int job_open(struct job *job, const struct job_options *options,
	const struct verb_call *call)
{
	return open_job(job, options, call, true);
}

int job_open_graph(struct job *job, const struct job_options *options,
	const struct verb_call *call)
{
	return open_job(job, options, call, false);
}

void job_close(struct job *job)
{
	taut_report_destroy(job->report);
	taut_graph_destroy(job->graph);
	taut_run_close(job->run);
	*job = (struct job){ NULL, NULL, NULL };
}

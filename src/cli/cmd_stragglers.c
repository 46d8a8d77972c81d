/* cmd_stragglers.c - taut stragglers: what unlike workers cost a job. */
#include <taut/stragglers.h>

#include "cli/job.h"
#include "cli/out.h"
#include "cli/verbs.h"
#include "report/tables.h"

struct values {
	struct job_options job;
	bool json;
};

static const struct opt options[] = {
	{ "json", 0, OPT_FLAG, offsetof(struct values, json), NULL,
		"print the result as JSON", 0, 0 },
	JOB_OPTIONS(struct values),
};

struct output {
	const struct taut_stragglers *stragglers;
	const char *path;
	bool json;
};

static taut_status write_result(
	const void *context, FILE *out, struct taut_error *err)
{
	const struct output *output = context;
	struct taut_text_options text = job_text_options(0);

	if (output->json)
		return tauti_stragglers_json(
			output->stragglers, output->path, out, err);
	return tauti_stragglers_text(
		output->stragglers, output->path, &text, out, err);
}

static int run(const struct verb_call *call)
{
	const struct values *values = call->values;
	struct taut_straggler_options how = { .threads = values->job.threads };
	struct taut_error err = { .message = "" };
	struct taut_stragglers *stragglers = NULL;
	struct job job;
	int status = job_open_graph(&job, &values->job, call);

	if (status)
		return status;
	status = job_status(taut_stragglers_find(
		job.graph, &how, &stragglers, &err), &err);
	if (!status) {
		struct output output = { stragglers, job.run->path,
			values->json };

		status = job_status(out_write(NULL, job.run, write_result,
			&output, &err), &err);
	}
	taut_stragglers_destroy(stragglers);
	job_close(&job);
	return status;
}

const struct verb verb_stragglers = {
	.name = "stragglers",
	.summary = "what unlike ranks, stages and operations cost",
	.operands = "RUN...",
	.about = "Replays the recorded job as if all of its workers were alike, "
		"and with each stage, replica, rank and type of operation "
		"alone as it was: which of them makes the steps longer than "
		"they must be.\n\n" ABOUT_RUN,
	.options = options,
	.n_options = sizeof options / sizeof options[0],
	.values_bytes = sizeof(struct values),
	.run = run,
};

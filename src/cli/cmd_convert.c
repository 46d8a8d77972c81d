/* cmd_convert.c - taut convert: hand the data to other tools. */
#include <string.h>

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
		"csv: the table of operations", 0, 0 },
	{ "output", 'o', OPT_TEXT, offsetof(struct values, output), "FILE",
		"write to this file (default, and -: standard output)", 0, 0 },
	JOB_OPTIONS(struct values),
};

static const struct format {
	const char *name;
	taut_status (*write)(const struct taut_report *report, FILE *out,
		struct taut_error *err);
} formats[] = {
	{ "perfetto", taut_report_perfetto },
	{ "csv", tauti_csv_write },
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
		term_complain("--to: expected perfetto or csv, found %s",
			name ? name : "nothing");
	return NULL;
}

static int run(const struct verb_call *call)
{
	const struct values *values = call->values;
	const struct format *format = find_format(values->to);
	const char *path = values->output && strcmp(values->output, "-") != 0 ?
		values->output : NULL;
	struct taut_error err = { .message = "" };
	struct job job;
	int status;

	if (!format)
		return EXIT_USAGE;
	status = job_status(out_check(path, &err), &err);
	if (!status)
		status = job_open(&job, &values->job, call);
	if (status)
		return status;

	struct output output = { job.report, format };

	status = job_status(out_write(path, job.run, write_result,
		&output, &err), &err);
	job_close(&job);
	return status;
}

const struct verb verb_convert = {
	.name = "convert",
	.summary = "hand the data to other tools: Perfetto, CSV",
	.operands = "RUN... --to FORMAT",
	.about = "Writes what was recorded, on one clock over all ranks, in a "
		"form that other tools read.\n\n" ABOUT_RUN,
	.options = options,
	.n_options = sizeof options / sizeof options[0],
	.values_bytes = sizeof(struct values),
	.run = run,
};

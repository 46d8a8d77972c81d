/* cmd_report.c - taut report: where the time goes, why, what to do. */
#include <string.h>

#include "cli/job.h"
#include "cli/out.h"
#include "cli/term.h"
#include "cli/verbs.h"

struct values {
	struct job_options job;
	const char *html;
	bool json, all;
	unsigned width;
};

static const struct opt options[] = {
	{ "html", 0, OPT_TEXT, offsetof(struct values, html), "FILE",
		"also write the report as one HTML file that needs no network",
		0, 0 },
	{ "json", 0, OPT_FLAG, offsetof(struct values, json), NULL,
		"print the whole report as JSON", 0, 0 },
	{ "all", 0, OPT_FLAG, offsetof(struct values, all), NULL,
		"show every rank, however many there are", 0, 0 },
	{ "width", 0, OPT_NUMBER, offsetof(struct values, width), "N",
		"columns of the text, 80 to 400 (default: the terminal's, at "
		"most 100)", 80, 400 },
	JOB_OPTIONS(struct values),
};

struct output {
	const struct taut_report *report;
	const struct values *values;
};

static taut_status write_html(
	const void *context, FILE *out, struct taut_error *err)
{
	const struct output *output = context;

	return taut_report_html(output->report, out, err);
}

static taut_status write_result(
	const void *context, FILE *out, struct taut_error *err)
{
	const struct output *output = context;
	struct taut_text_options text = job_text_options(
		output->values->width);

	text.all = output->values->all;
	if (output->values->json)
		return taut_report_json(output->report, out, err);
	return taut_report_text(output->report, &text, out, err);
}

static int run(const struct verb_call *call)
{
	const struct values *values = call->values;
	struct taut_error err = { .message = "" };
	struct job job;
	int status;

	if (values->html && !strcmp(values->html, "-")) {
		term_complain("report: --html: expected the name of a file, "
			"found '-': the text goes there");
		return EXIT_USAGE;
	}
	status = job_status(out_check(values->html, &err), &err);
	if (!status)
		status = job_open(&job, &values->job, call);
	if (status)
		return status;

	struct output output = { job.report, values };

	if (values->html)
		status = job_status(out_write(values->html, job.run,
			write_html, &output, &err), &err);
	if (!status)
		status = job_status(out_write(NULL, job.run, write_result,
			&output, &err), &err);
	job_close(&job);
	return status;
}

const struct verb verb_report = {
	.name = "report",
	.summary = "where the time of a step goes, why, and what to do",
	.operands = "RUN...",
	.about = "Explains a distributed training job from the traces of its "
		"ranks: where each millisecond of a step goes, which rank, "
		"link or host thread is the cause, and what removing a cause "
		"would give.\n\n" ABOUT_RUN,
	.options = options,
	.n_options = sizeof options / sizeof options[0],
	.values_bytes = sizeof(struct values),
	.run = run,
};

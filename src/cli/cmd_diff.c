/* cmd_diff.c - taut diff: why does one recording take longer than another. */
#include "cli/job.h"
#include "cli/out.h"
#include "cli/term.h"
#include "cli/verbs.h"
#include "report/diff.h"

struct values {
	struct job_options job;
	bool json;
	unsigned width;
};

static const struct opt options[] = {
	{ "json", 0, OPT_FLAG, offsetof(struct values, json), NULL,
		"print the result as JSON", 0, 0 },
	{ "width", 0, OPT_NUMBER, offsetof(struct values, width), "N",
		"columns of the text, 80 to 400 (default: the terminal's, at "
		"most 100)", 80, 400 },
	JOB_OPTIONS(struct values),
};

struct output {
	struct tauti_diff diff;
	const struct values *values;
};

static taut_status write_result(
	const void *context, FILE *out, struct taut_error *err)
{
	const struct output *output = context;
	struct taut_text_options text = job_text_options(
		output->values->width);

	if (output->values->json)
		return tauti_diff_json(&output->diff, out, err);
	return tauti_diff_text(&output->diff, &text, out, err);
}

static int compare(const struct verb_call *call, const struct job *a,
	const struct job *b)
{
	struct taut_error err = { .message = "" };
	struct output output = { .values = call->values };
	taut_status status = tauti_diff(a->report, b->report, call->arena,
		&output.diff, &err);

	if (!status)
		status = out_write(NULL, NULL, write_result, &output, &err);
	return job_status(status, &err);
}

static int run(const struct verb_call *call)
{
	const struct values *values = call->values;
	struct verb_call one = *call;
	struct job a, b;
	int status;

	if (call->n_operands != 2) {
		term_complain("diff: expected two recordings, each a file or a "
			"folder, found %zu", call->n_operands);
		return EXIT_USAGE;
	}
	one.n_operands = 1;
	status = job_open(&a, &values->job, &one);
	if (status)
		return status;
	one.operands = call->operands + 1;
	status = job_open(&b, &values->job, &one);
	if (!status) {
		status = compare(call, &a, &b);
		job_close(&b);
	}
	job_close(&a);
	return status;
}

const struct verb verb_diff = {
	.name = "diff",
	.summary = "why is one run slower than the other",
	.operands = "RUN_A RUN_B",
	.about = "Compares two recordings of a job: by how much a step "
		"differs, how much of that is computation, transfers or the "
		"host (the first recording replayed with the times of the "
		"second, one kind after the other), and which operations "
		"differ most.\n\n" ABOUT_RUN,
	.options = options,
	.n_options = sizeof options / sizeof options[0],
	.values_bytes = sizeof(struct values),
	.run = run,
};

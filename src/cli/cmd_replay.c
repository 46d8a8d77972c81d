/* cmd_replay.c - taut replay: how far is our simulation from what was
 * measured, and how fast is it. */
#include "cli/job.h"
#include "cli/out.h"
#include "cli/verbs.h"
#include "report/tables.h"

enum { TIMED_NS = 200000000, MOST_ROUNDS = 1000 };

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
	const struct taut_report *report;
	struct tauti_replay_speed speed;
	bool json;
};

/* The same replay again and again, for long enough to be timed. */
static taut_status time_replay(const struct taut_graph *graph,
	struct tauti_replay_speed *ret_speed, struct taut_error *err)
{
	struct taut_clock clock = taut_clock_monotonic();
	struct tauti_replay_speed speed = { 0, 0 };
	struct taut_timeline timeline;
	taut_status status = taut_timeline_init(&timeline, graph, err);
	int64_t begin;

	if (status)
		return status;
	begin = clock.now_ns(clock.state);
	do {
		status = taut_replay(graph, NULL, &timeline, err);
		speed.rounds++;
		speed.elapsed_ns = clock.now_ns(clock.state) - begin;
	} while (!status && speed.elapsed_ns < TIMED_NS &&
		speed.rounds < MOST_ROUNDS);
	taut_timeline_fini(&timeline);
	if (!status)
		*ret_speed = speed;
	return status;
}

static taut_status write_result(
	const void *context, FILE *out, struct taut_error *err)
{
	const struct output *output = context;
	struct taut_text_options text = job_text_options(0);

	if (output->json)
		return tauti_replay_json(
			output->report, &output->speed, out, err);
	return tauti_replay_text(
		output->report, &output->speed, &text, out, err);
}

static int run(const struct verb_call *call)
{
	const struct values *values = call->values;
	struct taut_error err = { .message = "" };
	struct job job;
	int status = job_open(&job, &values->job, call);

	if (status)
		return status;

	struct output output = { .report = job.report, .json = values->json };

	status = job_status(
		time_replay(job.graph, &output.speed, &err), &err);
	if (!status)
		status = job_status(out_write(NULL, job.run, write_result,
			&output, &err), &err);
	job_close(&job);
	return status;
}

const struct verb verb_replay = {
	.name = "replay",
	.summary = "simulate what was recorded; how far off is the simulation",
	.operands = "RUN...",
	.about = "Plays the recorded job again on a virtual clock, from "
		"durations and dependencies alone, and compares each step "
		"with what was measured.\n\n" ABOUT_RUN,
	.options = options,
	.n_options = sizeof options / sizeof options[0],
	.values_bytes = sizeof(struct values),
	.run = run,
};

/* job.h - what every verb does first: read a run, build its graph, explain
 * it. And the options that say how. */
#ifndef TAUT_CLI_JOB_H
#define TAUT_CLI_JOB_H

#include <stddef.h>

#include <taut/report.h>

#include "cli/opt.h"

enum { EXIT_DONE = 0, EXIT_FAULT = 1, EXIT_USAGE = 2 };

struct job_options {
	struct opt_ranks ranks;
	struct opt_texts comm_patterns;
	unsigned threads;
	bool no_clock_alignment;
};

/* Rows for a verb's table; `job` is the struct job_options in its values. */
#define JOB_OPTIONS(values) \
	{ "ranks", 0, OPT_RANKS, offsetof(values, job.ranks), "LIST", \
		"ranks of the given files, in their order (0,1,2 or 0-7), " \
		"where neither the files nor their names tell", 0, 0 }, \
	{ "comm-pattern", 0, OPT_TEXTS, offsetof(values, job.comm_patterns), \
		"PATTERN", "kernels whose name matches this shell pattern " \
		"are communication; may be given again", 0, 0 }, \
	{ "no-clock-alignment", 0, OPT_FLAG, \
		offsetof(values, job.no_clock_alignment), NULL, \
		"believe the recorded clocks of different hosts", 0, 0 }, \
	{ "threads", 0, OPT_NUMBER, offsetof(values, job.threads), "N", \
		"use this many threads (default: one per core)", 1, 1024 }

struct job {
	struct taut_run *run;
	struct taut_graph *graph;
	struct taut_report *report;
};

/* EXIT_DONE, or the exit status after one line of complaint; there is nothing
 * to close then. */
int job_open(struct job *job, const struct job_options *options,
	const struct verb_call *call);
/* The same without a report, for those who have no use for one. */
int job_open_graph(struct job *job, const struct job_options *options,
	const struct verb_call *call);
void job_close(struct job *job);

/* Of a verb that takes RUN... CHANGE...: how many of its operands are RUNs. Those are the
 * first, and what stands behind it as long as there is a file or folder of that name. */
size_t job_count_runs(const struct verb_call *call);
/* The first of the operands from this one on of which there is no file. */
size_t job_skip_files(const struct verb_call *call, size_t from);

/* How text is shown; width 0: as wide as the terminal, or as text is without one. */
struct taut_text_options job_text_options(unsigned width);

/* Complains when status is a failure. Returns the exit status. */
int job_status(taut_status status, const struct taut_error *err);

#endif /* TAUT_CLI_JOB_H */

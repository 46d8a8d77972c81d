/* run_tune.h - the part of taut run that looks for settings, or takes them from a
 * file. */
#ifndef TAUT_CLI_RUN_TUNE_H
#define TAUT_CLI_RUN_TUNE_H

#include <stdbool.h>

#include "cli/env.h"

struct run_tune {
	bool tune;
	const char *way, *from, *save, *tuned; /* NULL: not given */
};

/* Rows for the verb's table; `member` is the struct run_tune in its values. */
#define RUN_TUNE_OPTIONS(values, member) \
	{ "way", 0, OPT_TEXT, offsetof(values, member.way), "NAME", \
		"algorithm of the all-reduces, like ring (engine coll; " \
		"default: auto)", 0, 0 }, \
	{ "tune", 0, OPT_FLAG, offsetof(values, member.tune), NULL, \
		"look for better --piece, --credit, --fuse and --way while " \
		"the job runs, at most 12 trials (engine coll)", 0, 0 }, \
	{ "from", 0, OPT_TEXT, offsetof(values, member.from), "RUN", \
		"begin the search with what a recording of this job, replayed, " \
		"says", 0, 0 }, \
	{ "save", 0, OPT_TEXT, offsetof(values, member.save), "FILE", \
		"write what the search has found to this file", 0, 0 }, \
	{ "tuned", 0, OPT_TEXT, offsetof(values, member.tuned), "FILE", \
		"run with what a search has found before", 0, 0 }

/* Sets the job's environment. *ret_wrong: a usage that was complained of. Options of
 * the command that say more come after it. */
taut_status run_tune_set(const struct run_tune *values,
	const struct env_setting *s, bool *ret_wrong);

#endif /* TAUT_CLI_RUN_TUNE_H */

/* verbs.h - the verbs of the command, each in cmd_<name>.c. */
#ifndef TAUT_CLI_VERBS_H
#define TAUT_CLI_VERBS_H

#include "cli/opt.h"

extern const struct verb verb_record;
extern const struct verb verb_report;
extern const struct verb verb_replay;
extern const struct verb verb_convert;

#define ABOUT_RUN \
	"A RUN is a trace file or a folder of them, one per rank: what the " \
	"profiler of PyTorch wrote, .json or .json.gz. All that is given is " \
	"one job."

#endif /* TAUT_CLI_VERBS_H */

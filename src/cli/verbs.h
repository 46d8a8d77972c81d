/* verbs.h - the verbs of the command, each in cmd_<name>.c. */
#ifndef TAUT_CLI_VERBS_H
#define TAUT_CLI_VERBS_H

#include "cli/opt.h"

extern const struct verb verb_record;
extern const struct verb verb_report;
extern const struct verb verb_run;
extern const struct verb verb_replay;
extern const struct verb verb_whatif;
extern const struct verb verb_diff;
extern const struct verb verb_stragglers;
extern const struct verb verb_convert;
extern const struct verb verb_bench;
extern const struct verb verb_server;
extern const struct verb verb_stalls;
extern const struct verb verb_plan;
extern const struct verb verb_tune;

#define ABOUT_RUN \
	"A RUN is what taut record wrote, or a trace file or a folder of them, " \
	"one per rank, as other tools write them: profiles of PyTorch (Kineto), " \
	"of TensorFlow and JAX (XPlane, trace.json.gz) and of MXNet, Nsight " \
	"Systems exports (.sqlite), tables of operations (CSV), timelines of Horovod, BytePS and " \
	"ByteScheduler, Chakra execution traces, dumps of PyTorch's flight " \
	"recorder and of NCCL's profiler plugins; all perhaps gzip. All that is " \
	"given is one job."

#endif /* TAUT_CLI_VERBS_H */

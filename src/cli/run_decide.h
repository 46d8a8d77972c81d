/* run_decide.h - the part of taut run that changes the job in other ways than its
 * sums: decisions, as a plan has them, that python/taut/_decisions.py makes. */
#ifndef TAUT_CLI_RUN_DECIDE_H
#define TAUT_CLI_RUN_DECIDE_H

#include <stdbool.h>

#include "cli/env.h"

struct run_decide { /* NULL: not given */
	const char *workers, *heap, *recompute, *compile, *amp, *optimizer, *compress;
	const char *microbatches;
	bool graphs;
	const char *bucket, *bucket_first, *job;
};

/* Rows for the verb's table; `member` is the struct run_decide in its values. */
#define RUN_DECIDE_OPTIONS(values, member) \
	{ "workers", 0, OPT_TEXT, offsetof(values, member.workers), "N", \
		"so many worker processes for each DataLoader that trains", 0, \
		0 }, \
	{ "heap", 0, OPT_TEXT, offsetof(values, member.heap), "HOW", \
		"keep: malloc keeps memory for the next step and does not " \
		"give it back to the system", 0, 0 }, \
	{ "recompute", 0, OPT_TEXT, offsetof(values, member.recompute), \
		"PATTERN", "activation checkpointing of the modules that " \
		"'taut whatif recompute=PATTERN' means; several with commas", \
		0, 0 }, \
	{ "microbatches", 0, OPT_TEXT, offsetof(values, member.microbatches), \
		"K", "the wrapped model runs on its batch in K parts, one after " \
		"the other; gradients are summed over the ranks once", 0, 0 }, \
	{ "compile", 0, OPT_TEXT, offsetof(values, member.compile), \
		"PATTERN", "PyTorch's compiler for the modules that " \
		"'taut whatif compile=PATTERN' means; several with commas", \
		0, 0 }, \
	{ "amp", 0, OPT_TEXT, offsetof(values, member.amp), "TYPE", \
		"bf16: autocast around the wrapped model's forward pass while " \
		"it trains", 0, 0 }, \
	{ "graphs", 0, OPT_FLAG, offsetof(values, member.graphs), NULL, \
		"forward and backward pass of the wrapped model as CUDA " \
		"graphs while it trains, of one rank on a GPU", 0, 0 }, \
	{ "optimizer", 0, OPT_TEXT, offsetof(values, member.optimizer), "HOW", \
		"fused: optimizers of torch.optim in their fused form, else " \
		"in their foreach form", 0, 0 }, \
	{ "compress", 0, OPT_TEXT, offsetof(values, member.compress), "TYPE", \
		"fp16, bf16: gradients in 16 bits on the wire; mxint8: in 8, " \
		"in blocks of 32 that share a scale", 0, 0 }, \
	{ "bucket", 0, OPT_TEXT, offsetof(values, member.bucket), "BYTES", \
		"of --no-schedule: the size at which a bucket of PyTorch's " \
		"DistributedDataParallel is full; 1M+4M+8M: that of each, as " \
		"gradients come, the last for all behind it", 0, 0 }, \
	{ "bucket-first", 0, OPT_TEXT, offsetof(values, member.bucket_first), \
		"BYTES", "the same of the first bucket (default: as the " \
		"others)", 0, 0 }, \
	{ "job", 0, OPT_TEXT, offsetof(values, member.job), "TEXT", \
		"end a job that is another one: 'ranks=N " \
		"gradients=BYTESxCOUNT,...', the largest first", 0, 0 }

/* Sets the job's environment. *ret_wrong: a usage that was complained of. */
taut_status run_decide_set(const struct run_decide *values,
	const struct env_setting *s, bool *ret_wrong);

/* The option of such a decision that the job finds set, by whatever; NULL: there is none.
 * A job to which one cannot be done must not end well. */
const char *run_decide_asked(void);

#endif /* TAUT_CLI_RUN_DECIDE_H */

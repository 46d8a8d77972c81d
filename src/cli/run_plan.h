/* run_plan.h - the part of taut run that makes a plan's decisions, and says in the
 * end what came of them. */
#ifndef TAUT_CLI_RUN_PLAN_H
#define TAUT_CLI_RUN_PLAN_H

#include <stdbool.h>

#include <taut/plan.h>

#include "cli/env.h"

struct run_plan {
	const char *plan, *measure; /* files; NULL: not given */
};

/* Rows for the verb's table; `member` is the struct run_plan in its values. */
#define RUN_PLAN_OPTIONS(values, member) \
	{ "plan", 0, OPT_TEXT, offsetof(values, member.plan), "FILE", \
		"make the decisions of this plan, as taut plan wrote it; what " \
		"was predicted is then compared with what is measured", 0, 0 }, \
	{ "measure", 0, OPT_TEXT, offsetof(values, member.measure), "FOLDER", \
		"write the time of each step to this folder, a file a rank", \
		0, 0 }

struct run_planned { /* from before the job until behind it */
	struct taut_plan *plan; /* NULL: none */
	const char *folder;     /* of what is measured; NULL: nothing is */
	bool is_ours;           /* the folder is to go */
};

/* Sets the job's environment; options of the command that say more come after it. */
taut_status run_plan_set(const struct run_plan *values,
	const struct env_setting *s, struct run_planned *ret_planned);
/* Behind the job: one line of what was predicted and measured, on standard error. why: no
 * step can have been; "": that is not known. The number of ranks that were measured. */
unsigned run_plan_tell(const struct run_planned *planned, const char *why,
	struct taut_arena *arena);
/* Leaves nothing behind that was not asked for; whether or not there was a job. */
void run_plan_end(struct run_planned *planned, struct taut_arena *arena);

#endif /* TAUT_CLI_RUN_PLAN_H */

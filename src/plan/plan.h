/* plan.h - what the files of this room share, but for the search (space.h,
 * search.h).
 *
 *     graph --stacks.c--> a space of stacks of changes --search.h--> the best one
 *     plan  --file_read.c, file_write.c--> JSON
 *     plan  --apply.c--> the variables that a job is told */
#ifndef TAUT_PLAN_INTERNAL_H
#define TAUT_PLAN_INTERNAL_H

#include <stdbool.h>

#include <taut/plan.h>

#include "whatif/whatif.h"

/* --- kinds.c -------------------------------------------------------------------- */
/* NULL: no running job can be given this change. */
const struct taut_plan_kind *tauti_plan_kind_of(const char *change_name);
/* What becomes of results: two ranks add the same two numbers in any order. */
enum taut_numerics tauti_plan_numerics(
	const struct taut_plan_kind *kind, uint32_t n_ranks);

/* Can its jobs be given none of them? "" can. */
bool tauti_plan_is_foreign(const char *framework);

/* The name of a change's text: up to its = or comma; at most room - 1 bytes. */
void tauti_plan_change_name(const char *change, char *ret_name, size_t room);

#endif /* TAUT_PLAN_INTERNAL_H */

/* plan.h - what the files of this room share, but for the search (space.h,
 * search.h).
 *
 *     graph --job.c--> what a plan is for
 *     graph --stacks.c, groups.c--> a space of stacks of changes --search.h--> the best
 *     plan  --file_read.c, file_write.c--> JSON
 *     plan  --apply.c--> the variables that a job is told */
#ifndef TAUT_PLAN_INTERNAL_H
#define TAUT_PLAN_INTERNAL_H

#include <stdbool.h>

#include <taut/plan.h>

#include "whatif/whatif.h"

enum { TAUTI_PLAN_SIZES = 256 }; /* that a list of buckets has at most */

/* --- kinds.c -------------------------------------------------------------------- */
/* NULL: no running job can be given this change. */
const struct taut_plan_kind *tauti_plan_kind_of(const char *change_name);
/* What becomes of results: two ranks add the same two numbers in any order. */
enum taut_numerics tauti_plan_numerics(
	const struct taut_plan_kind *kind, uint32_t n_ranks);

/* Is it another one than PyTorch? Then the recorded job is on Taut's exchange already,
 * if it sums gradients. "" counts as PyTorch. */
bool tauti_plan_is_foreign(const char *framework);
/* Can its jobs be given this? */
bool tauti_plan_is_made_of(
	const struct taut_plan_kind *kind, const char *framework);

bool tauti_plan_is_named(const char *change, const char *name);
/* Does this change mean nothing without the other one: the rest of Taut's exchange without
 * its schedule, the cache without the loader that has it? */
bool tauti_plan_goes_with(const char *change, const char *other);

/* --- job.c ------------------------------------------------------------------------ */
/* The gradients of a rank and step as they become ready, and where the recorded buckets
 * begin; n 0: not known. */
struct tauti_plan_order {
	uint32_t n, n_buckets;
	const int64_t *bytes;
	const uint32_t *first; /* by bucket: its first gradient; the first is 0 */
	bool exchanged; /* the recorded job is on Taut's exchange */
};
/* Of the job with what is given, as world=8. Arrays in arena, and *ret_why: why no
 * gradients are known, in one line; NULL: they are. TAUT_EINVAL: it cannot be given. */
taut_status tauti_plan_read_job(const struct taut_graph *graph,
	const char *const *given, size_t n_given, struct taut_arena *arena,
	struct taut_plan_job *ret_job, struct tauti_plan_order *ret_order,
	const char **ret_why, struct taut_error *err);

/* --- device.c --------------------------------------------------------------------- */
/* Why no job with this recording is given CUDA graphs, in arena; "" of one without a
 * device, NULL: it may be. TAUT_ENOMEM. */
taut_status tauti_plan_graphs(const struct taut_graph *graph, uint32_t n_ranks,
	struct taut_arena *arena, const char **ret_why, struct taut_error *err);

/* The name of a change's text: up to its = or comma; at most room - 1 bytes. */
void tauti_plan_change_name(const char *change, char *ret_name, size_t room);

#endif /* TAUT_PLAN_INTERNAL_H */

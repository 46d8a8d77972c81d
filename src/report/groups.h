/* groups.h - communicators: who takes part, and what they are called.
 *
 * Where a communicator is known by its name alone, a name stands for one set of
 * ranks: the recorded name where it does, else a number. Ranks that were not
 * recorded are not in it.
 * Owner:   all lies in the arena.
 * Threads: read-only once found. */
#ifndef TAUT_REPORT_GROUPS_H
#define TAUT_REPORT_GROUPS_H

#include <taut/graph.h>

TAUT_BEGIN_DECLS

struct tauti_group_name {
	const char *label;
	const char *ranks; /* "[0, 1]" */
};

struct tauti_group_names {
	uint32_t *of;  /* by collective: index in all */
	uint32_t *seq; /* by collective: its number in its group */
	uint32_t n;
	const struct tauti_group_name *all;
};

/* TAUT_ENOMEM. */
taut_status tauti_groups_name(const struct taut_graph *graph,
	struct taut_arena *arena, struct tauti_group_names *ret_groups,
	struct taut_error *reterr);

TAUT_END_DECLS
#endif /* TAUT_REPORT_GROUPS_H */

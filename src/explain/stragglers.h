/* stragglers.h - what the files that find stragglers share.
 *
 *   straggler_types.c  types of operations, and what each takes in the ideal
 *   stragglers.c       steps, replays, tables
 *   straggler_cause.c  what stands out, in words */
#ifndef TAUT_EXPLAIN_STRAGGLERS_H
#define TAUT_EXPLAIN_STRAGGLERS_H

#include <stdbool.h>

#include <taut/stragglers.h>

#include "base/vec.h"

struct tauti_lag { /* the search; its result is public */
	struct taut_stragglers public;
	struct taut_arena *arena; /* of this and all below */
	const struct taut_graph *g;
	struct taut_graph strict; /* g with waits that hold to the letter */
	unsigned threads;
	bool table;         /* the recording is a table of operations */

	/* Types. */
	uint32_t n_types, n_classes;
	uint32_t *type_of;  /* by op; TAUT_NONE: takes what it takes */
	int64_t *ideal_ns;  /* by op: its type's */
	uint32_t *rank_step; /* by op: in g->steps; NULL for a table */
	uint32_t *class_of; /* by op: what the table of types tells apart */
	const char **class_name;

	/* Places. */
	int32_t *number[TAUT_BY_TYPE]; /* by trace: of its stage, replica; -1 */
	uint32_t *step_of;  /* by g->steps: which of public.steps */
	const int64_t *no_gaps; /* n_ops zeros, or what is below zero */
};

/* All false: no memory. */
bool tauti_lag_types(struct tauti_lag *l);

/* Replays with the ops of one row of a table changed. */
struct tauti_lag_row {
	enum taut_straggler_by by;
	uint32_t member;  /* class, or the number as it is */
	bool inverse;     /* all others change instead */
	bool one_class;   /* inverse alone: of a place's ops those of .class */
	uint32_t class;
	bool delays;      /* delays change, not durations */
	int64_t *step_ns; /* result, by step */
	int64_t sum_ns;   /* of all steps */
};
taut_status tauti_lag_replay(struct tauti_lag *l, struct tauti_lag_row *rows,
	size_t n, struct taut_error *err);

taut_status tauti_lag_cause(struct tauti_lag *l, struct taut_error *err);

taut_status tauti_lag_no_memory(struct taut_error *err);

#endif /* TAUT_EXPLAIN_STRAGGLERS_H */

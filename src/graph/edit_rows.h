/* edit_rows.h - events for operations that the recording does not have.
 * Owner: edit_retrace.c; one thread. Each returns false when memory is out. */
#ifndef TAUT_GRAPH_EDIT_ROWS_H
#define TAUT_GRAPH_EDIT_ROWS_H

#include "graph/graph.h"

struct tauti_new_row {
	int64_t start, dur;  /* ns of the trace */
	uint32_t lane, name; /* of the trace */
	uint32_t op;         /* of the graph */
	uint32_t row;        /* where it stands in the end */
	uint8_t kind;
};

struct tauti_rows { /* of one trace; zero: nothing is new */
	TAUT_VEC(struct tauti_new_row) fresh; /* as they stand */
	uint32_t *row_of;          /* by row before */
	struct taut_names *names;  /* the trace's and the new ones */
};

/* A row each for the operations of trace that are new, put between those of *t,
 * whose columns then are in arena. */
bool tauti_rows_add(const struct tauti_owned_graph *owned,
	struct taut_arena *arena, uint32_t trace, struct taut_trace *t,
	struct tauti_rows *rows);
/* The graph's operations of trace say which rows are theirs. */
void tauti_rows_apply(struct taut_graph *graph, uint32_t trace,
	const struct tauti_rows *rows);
void tauti_rows_fini(struct tauti_rows *rows); /* but for the names */

/* The time on the rank's own clock, near `guess`, that is `at` on the graph's. */
int64_t tauti_own_time(const struct taut_graph *g, uint32_t trace,
	int64_t guess, int64_t at);

#endif /* TAUT_GRAPH_EDIT_ROWS_H */

/* handoff.h - what the files that find waits between host threads share. */
#ifndef TAUT_GRAPH_HANDOFF_H
#define TAUT_GRAPH_HANDOFF_H

#include "graph/graph.h"

enum { TAUTI_SHORT_NS = 20000 }; /* slices below are not looked at */

/* Slice `op` becomes HOST [start, from) and RETURN [to, end). */
struct tauti_split {
	uint32_t op;
	int64_t from, to;
	uint32_t last;   /* op whose end it then waited for */
};

/* Op `woken` waited for the end of op `by`: the first part, where that is split. The
 * idle slice before it was no work. */
struct tauti_wake {
	uint32_t by, woken;
};

struct tauti_handoff {
	struct tauti_rank *rank;
	TAUT_VEC(struct tauti_split) splits; /* by op */
	TAUT_VEC(struct tauti_wake) wakes;
};

/* A host thread between its events. */
static inline bool tauti_is_idle(const struct tauti_op *op)
{
	return op->kind == TAUT_OP_HOST && op->event == TAUT_NONE;
}

/* First op of [lo, hi) that starts at or after `at`; ops are in time order. */
uint32_t tauti_first_from(const struct tauti_rank *rank, uint32_t lo,
	uint32_t hi, int64_t at);

/* executor.c: threads that a framework's executor runs operators on. False: no
 * memory. */
bool tauti_find_executors(struct tauti_handoff *f);

#endif /* TAUT_GRAPH_HANDOFF_H */

/* chakra.h - the graph as Chakra execution traces, one file a rank.
 *
 * A Chakra node starts when all that it waits for has ended, and a collective
 * when it could start on every rank; there is nothing else. So what the graph
 * says in other ways is said with more nodes: an operation of which something
 * waits for a part is several nodes, one after the other, and time for which
 * no operation accounts is a node that is marked as a pause.
 *
 *     graph:  [      launch      ]          Chakra:  [launch][launch]
 *                    |lag|[kernel]                          \--[kernel]
 *
 * Chakra counts whole microseconds. All times are rounded on the common
 * clock, so that what is lost on one node is won on the next.
 * Owner:   the plan borrows from the report; fini it before.
 * Threads: read-only once made; each rank may be written by its own. */
#ifndef TAUT_REPORT_CHAKRA_H
#define TAUT_REPORT_CHAKRA_H

#include <stdbool.h>

#include <taut/report.h>

#include "base/vec.h"
#include "report/groups.h"

TAUT_BEGIN_DECLS

struct chakra_cut { /* something waits for the part of op before at_us */
	uint32_t op;
	int64_t at_us;
};

struct tauti_chakra {
	const struct taut_report *report;
	const struct taut_graph *g;
	struct taut_arena *arena;

	uint32_t *order;      /* operations but joins, by rank, then as run */
	uint32_t *rank_begin; /* n_traces + 1 places in order */
	/* waits of an operation, but those of a collective on its ranks */
	uint32_t *in_begin, *in_from;
	int64_t *in_at_us;    /* the moment waited for */
	uint8_t *across;      /* by op: it waits for another rank, too */
	uint32_t n_cuts;
	struct chakra_cut *cuts; /* by op and time, each once */
	uint32_t *cut_begin;  /* by op; n_ops + 1 */

	struct tauti_group_names groups;

	/* written by whom writes the operation's rank */
	uint32_t *node;       /* by op: its last node */
};

/* A time of the graph in whole microseconds. */
static inline int64_t chakra_us(int64_t ns)
{
	return ns < 0 ? 0 : (ns + 500) / 1000;
}

/* Is it the part of a collective that a node stands for? */
static inline bool chakra_is_comm(const struct taut_graph *g, uint32_t op)
{
	return g->kind[op] == TAUT_OP_TRANSFER;
}

/* The moment at which op is over. */
static inline int64_t chakra_end_us(const struct taut_graph *g, uint32_t op)
{
	return chakra_us(g->start_ns[op] + g->dur_ns[op]);
}

TAUT_END_DECLS
#endif /* TAUT_REPORT_CHAKRA_H */

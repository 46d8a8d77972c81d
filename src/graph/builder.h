/* builder.h - the graph while its arrays are being laid out.
 *
 *   tauti_lay_ops      columns, lanes and steps of all ranks
 *   tauti_lay_edges    what waits for what, in CSR arrays
 *   tauti_lay_gaps     what no known wait explains
 *   tauti_lay_collectives  in the order in which they ran
 *
 * Owner: build.c; one thread. Each returns false when memory is out. */
#ifndef TAUT_GRAPH_BUILDER_H
#define TAUT_GRAPH_BUILDER_H

#include "graph/graph.h"

struct builder {
	const struct taut_run *run;
	struct taut_graph_options options;
	uint32_t n_ranks;
	struct tauti_rank *ranks;
	struct tauti_match match;
	struct taut_clock_row *clocks;
	int64_t raw_origin, origin; /* absolute ns, before and after alignment */
	uint32_t *op_base;  /* by rank: first op id */
	uint32_t *lane_base; /* by rank: first lane */
	uint32_t **names;   /* by rank: trace name -> graph name */
	TAUT_VEC(struct tauti_edge) edges;
	bool told_back; /* a told wait is for what began later */

	struct taut_graph *g; /* the arrays below are g's, writable */
	struct taut_arena *arena;
	struct taut_names *all_names;
	int64_t *start, *dur, *gap, *lag;
	uint32_t *lane, *name, *event, *collective, *edge_begin, *edge_to;
	uint8_t *kind, *edge_kind;
	struct taut_graph_lane *lanes;
	uint32_t *lane_begin;
	struct taut_step *steps;
	uint32_t *member_arrive;
};

/* A rank's own time on the graph's clock. */
int64_t tauti_common_time(const struct builder *b, uint32_t rank, int64_t t);
/* A name of a rank's trace among the graph's; TAUT_NONE: no memory. */
uint32_t tauti_graph_name(struct builder *b, uint32_t rank, uint32_t name);

bool tauti_lay_ops(struct builder *b);
bool tauti_lay_edges(struct builder *b);
/* Part of it: waits that the traces tell (taut_trace.waits). */
bool tauti_lay_told(struct builder *b);
bool tauti_is_told(const struct builder *b, const struct tauti_edge *e);
/* Told waits may lead back in time (b->told_back). Where that makes a circle,
 * all that do are dropped. The CSR arrays are laid. */
bool tauti_check_told(struct builder *b, bool *ret_dropped);
/* Drops waits that close a circle; the CSR arrays are laid and edges kept. */
bool tauti_break_cycles(struct builder *b, bool *ret_dropped);
bool tauti_lay_gaps(struct builder *b);
bool tauti_lay_collectives(struct builder *b);

#endif /* TAUT_GRAPH_BUILDER_H */

/* edit_build.h - a graph while it is being made of an edit.
 * Owner: edit_build.c; one thread. Each returns false when memory is out. */
#ifndef TAUT_GRAPH_EDIT_BUILD_H
#define TAUT_GRAPH_EDIT_BUILD_H

#include "graph/edit.h"
#include "graph/graph.h"

struct tauti_build {
	const struct taut_edit *edit;
	const struct taut_graph *below;
	uint32_t *lanes;   /* by lane of g: of the edit */
	uint32_t *op_of;   /* by op of the edit: of g */
	uint32_t *id_of;   /* by op of g: of the edit */
	uint32_t *coll_of; /* by collective of the edit: of g */
	uint32_t *name_of; /* by name that the graph below lacks: of g */
	uint32_t *rank_of; /* by rank of the edit: in g->run */

	struct tauti_owned_graph *owned;
	struct taut_graph *g; /* the arrays below are g's, writable */
	struct taut_arena *arena;
	struct taut_names *names;
	int64_t *start, *dur, *gap, *lag;
	uint32_t *lane, *name, *event, *collective, *edge_begin, *edge_to;
	uint8_t *kind, *edge_kind;
	uint32_t *lane_begin, *member_arrive;
	struct taut_collective *collectives;
};

/* A name of the edit among those of g. */
bool tauti_build_name(struct tauti_build *b, uint32_t name, uint32_t *ret);
/* Lanes, steps, clocks, the run and what else follows the ranks. */
bool tauti_build_run(struct tauti_build *b);

#endif /* TAUT_GRAPH_EDIT_BUILD_H */

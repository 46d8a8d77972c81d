/* by_hand.h - graphs put together op by op, for tests and benches only.
 *
 *     struct by_hand *hand = by_hand_create();
 *     by_hand_lane(hand, 0);                   // of rank 0; -1: joins
 *     uint32_t a = by_hand_op(hand, TAUT_OP_HOST, "a", 10, 0);
 *     by_hand_lane(hand, 0);
 *     uint32_t b = by_hand_op(hand, TAUT_OP_KERNEL, "b", 20, 0);
 *     by_hand_edge(hand, a, b, TAUT_EDGE_LAUNCH, 3);
 *     const struct taut_graph *graph = by_hand_graph(hand);
 *     by_hand_destroy(hand);
 *
 * No memory: abort(), as nobody's input is at stake. */
#ifndef TAUT_REPLAY_BY_HAND_H
#define TAUT_REPLAY_BY_HAND_H

#include <stdlib.h>
#include <string.h>

#include <base/vec.h>
#include <taut/graph.h>

struct by_hand_edge {
	uint32_t from, to;
	int64_t lag_ns;
	uint8_t kind;
};

struct by_hand {
	struct taut_graph graph;
	struct taut_names *names;
	TAUT_VEC(int64_t) dur_ns;
	TAUT_VEC(int64_t) gap_ns;
	TAUT_VEC(uint32_t) lane;
	TAUT_VEC(uint32_t) name;
	TAUT_VEC(uint8_t) kind;
	TAUT_VEC(struct taut_graph_lane) lanes;
	TAUT_VEC(uint32_t) lane_begin;
	TAUT_VEC(struct by_hand_edge) edges;
	uint32_t *edge_begin, *edge_to;
	int64_t *edge_lag_ns;
	uint8_t *edge_kind;
};

static inline void by_hand_must(int ok)
{
	if (!ok)
		abort();
}

static inline struct by_hand *by_hand_create(void)
{
	struct by_hand *hand = calloc(1, sizeof *hand);
	by_hand_must(hand != NULL);
	hand->names = taut_names_create();
	by_hand_must(hand->names != NULL);
	return hand;
}

static inline void by_hand_destroy(struct by_hand *hand)
{
	taut_names_destroy(hand->names);
	taut_vec_free(&hand->dur_ns);
	taut_vec_free(&hand->gap_ns);
	taut_vec_free(&hand->lane);
	taut_vec_free(&hand->name);
	taut_vec_free(&hand->kind);
	taut_vec_free(&hand->lanes);
	taut_vec_free(&hand->lane_begin);
	taut_vec_free(&hand->edges);
	free(hand->edge_begin);
	free(hand->edge_to);
	free(hand->edge_lag_ns);
	free(hand->edge_kind);
	free(hand);
}

/* Operations added from here on stand on this new lane. */
static inline uint32_t by_hand_lane(struct by_hand *hand, int rank)
{
	struct taut_graph_lane lane = {
		.trace = rank < 0 ? TAUT_NONE : (uint32_t)rank,
		.kind = rank < 0 ? TAUT_LANE_OTHER : TAUT_LANE_THREAD,
	};
	by_hand_must(taut_vec_push(&hand->lanes, lane));
	by_hand_must(taut_vec_push(
		&hand->lane_begin, (uint32_t)hand->dur_ns.count));
	return (uint32_t)hand->lanes.count - 1;
}

static inline uint32_t by_hand_op(struct by_hand *hand, enum taut_op_kind kind,
	const char *name, int64_t dur_ns, int64_t gap_ns)
{
	uint32_t id = taut_names_add(hand->names, name, strlen(name));
	by_hand_must(taut_vec_push(&hand->dur_ns, dur_ns));
	by_hand_must(taut_vec_push(&hand->gap_ns, gap_ns));
	by_hand_must(taut_vec_push(
		&hand->lane, (uint32_t)hand->lanes.count - 1));
	by_hand_must(taut_vec_push(&hand->name, id));
	by_hand_must(taut_vec_push(&hand->kind, (uint8_t)kind));
	return (uint32_t)hand->dur_ns.count - 1;
}

/* kind: enum taut_edge_kind, perhaps | TAUT_EDGE_FROM_START. Either op may
 * be added later. */
static inline void by_hand_edge(struct by_hand *hand, uint32_t from,
	uint32_t to, unsigned kind, int64_t lag_ns)
{
	struct by_hand_edge edge = { from, to, lag_ns, (uint8_t)kind };
	by_hand_must(taut_vec_push(&hand->edges, edge));
}

/* Edges by op of origin; those of one op in the order they were added. */
static inline void by_hand_sort_edges(struct by_hand *hand)
{
	size_t n_ops = hand->dur_ns.count, n_edges = hand->edges.count;
	uint32_t *begin = calloc(n_ops + 2, sizeof *begin);
	hand->edge_to = calloc(n_edges + 1, sizeof *hand->edge_to);
	hand->edge_lag_ns = calloc(n_edges + 1, sizeof *hand->edge_lag_ns);
	hand->edge_kind = calloc(n_edges + 1, sizeof *hand->edge_kind);
	by_hand_must(begin && hand->edge_to && hand->edge_lag_ns &&
		hand->edge_kind);
	for (size_t i = 0; i < n_edges; i++)
		begin[hand->edges.data[i].from + 2]++;
	for (size_t i = 2; i < n_ops + 2; i++)
		begin[i] += begin[i - 1];
	for (size_t i = 0; i < n_edges; i++) {
		const struct by_hand_edge *edge = &hand->edges.data[i];
		uint32_t at = begin[edge->from + 1]++;
		hand->edge_to[at] = edge->to;
		hand->edge_lag_ns[at] = edge->lag_ns;
		hand->edge_kind[at] = edge->kind;
	}
	hand->edge_begin = begin;
}

/* Once, when everything is added. The graph dies with the hand. */
static inline const struct taut_graph *by_hand_graph(struct by_hand *hand)
{
	by_hand_sort_edges(hand);
	by_hand_must(taut_vec_push(
		&hand->lane_begin, (uint32_t)hand->dur_ns.count));
	hand->graph = (struct taut_graph){
		.names = hand->names,
		.n_ops = (uint32_t)hand->dur_ns.count,
		.n_edges = (uint32_t)hand->edges.count,
		.n_lanes = (uint32_t)hand->lanes.count,
		.dur_ns = hand->dur_ns.data,
		.gap_ns = hand->gap_ns.data,
		.lane = hand->lane.data,
		.name = hand->name.data,
		.kind = hand->kind.data,
		.edge_begin = hand->edge_begin,
		.edge_to = hand->edge_to,
		.edge_lag_ns = hand->edge_lag_ns,
		.edge_kind = hand->edge_kind,
		.lanes = hand->lanes.data,
		.lane_begin = hand->lane_begin.data,
	};
	return &hand->graph;
}

#endif /* TAUT_REPLAY_BY_HAND_H */

/* random_share.h - random graphs with random sharing from a seed, for tests.
 * Small numbers, so that much happens at one nanosecond. */
#ifndef TAUT_REPLAY_RANDOM_SHARE_H
#define TAUT_REPLAY_RANDOM_SHARE_H

#include "share_by_hand.h"

struct random_shape {
	uint32_t n_graphs, max_lanes, max_on_lane, max_resources, max_flows;
	int forward;        /* nothing starts before what it waits for */
	double least_speed;
};

static inline uint32_t random_pick(uint64_t *seed, uint32_t n) /* 0 .. n - 1 */
{
	uint64_t x = *seed += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((x ^ (x >> 31)) % n);
}

static inline int64_t random_signed(
	uint64_t *seed, const struct random_shape *shape, int reach)
{
	int64_t n = (int64_t)random_pick(seed, 2 * (uint32_t)reach + 1);
	return shape->forward ? n : n - reach;
}

/* Half of them round, so that levels are equal; half of them not. */
static inline double random_share(uint64_t *seed)
{
	static const double round[] = { 1, 1, 2, 0.5, 3, 0.25 };
	if (random_pick(seed, 2))
		return round[random_pick(seed, 6)];
	return 0.1 + random_pick(seed, 1u << 20) / 333333.0;
}

/* Edges mostly follow a hidden order; in one of 8 graphs some do not care. */
static inline const struct taut_graph *random_graph(struct by_hand *hand,
	uint64_t *seed, const struct random_shape *shape)
{
	uint32_t key[1024], n_lanes = random_pick(seed, shape->max_lanes + 1);
	int wild = random_pick(seed, 8) == 0;
	for (uint32_t lane = 0; lane < n_lanes; lane++) {
		uint32_t n = random_pick(seed, shape->max_on_lane + 1);
		int joins = random_pick(seed, 8) == 0;
		by_hand_lane(hand, joins ? -1 : (int)lane);
		for (uint32_t i = 0; i < n; i++) {
			int64_t dur_ns = random_pick(seed, 40);
			int64_t gap_ns = random_signed(seed, shape, 12);
			uint32_t op = by_hand_op(
				hand, TAUT_OP_HOST, "x", dur_ns, gap_ns);
			key[op] = joins ? random_pick(seed, 80)
				: i * 8 + random_pick(seed, 8);
		}
	}
	uint32_t n_ops = (uint32_t)hand->dur_ns.count;
	uint32_t n_edges = n_ops ? random_pick(seed, 2 * n_ops + 1) : 0;
	for (uint32_t i = 0; i < n_edges; i++) {
		uint32_t from = random_pick(seed, n_ops);
		uint32_t to = random_pick(seed, n_ops);
		unsigned kind = random_pick(seed, 3) ? 0 : TAUT_EDGE_FROM_START;
		int64_t lag_ns = random_signed(seed, shape, 9);
		if (key[from] < key[to] || (wild && !random_pick(seed, 6)))
			by_hand_edge(hand, from, to, kind, lag_ns);
	}
	return by_hand_graph(hand);
}

static inline void random_flows(struct share_by_hand *share, uint64_t *seed,
	const struct random_shape *shape)
{
	uint32_t n = random_pick(seed, shape->max_flows + 1);
	uint32_t n_resources = (uint32_t)share->capacity.count;
	for (uint32_t f = 0; f < n; f++) {
		double unit = random_share(seed);
		double amount = unit * random_pick(seed, 60);
		uint32_t n_uses = random_pick(seed, 4);
		int64_t latency_ns = random_pick(seed, 20);
		int moves = random_pick(seed, 5) > 0;
		int waits = random_pick(seed, 3) == 0;
		share_flow(share, moves ? amount : 0, waits ? latency_ns : 0);
		for (uint32_t i = 0; i < n_uses && n_resources; i++) {
			uint32_t r = random_pick(seed, n_resources);
			share_use(share, r, random_share(seed));
		}
	}
}

static inline struct taut_sharing *random_sharing(struct share_by_hand *share,
	uint64_t *seed, const struct random_shape *shape,
	const struct taut_graph *graph)
{
	uint32_t n = random_pick(seed, shape->max_resources + 1), n_flows;
	for (uint32_t r = 0; r < n; r++)
		share_resource(share, random_share(seed));
	random_flows(share, seed, shape);
	n_flows = (uint32_t)share->flows.count;
	for (uint32_t op = 0; n_flows && op < graph->n_ops; op++) {
		if (random_pick(seed, 3) == 0)
			share_op(share, op, random_pick(seed, n_flows));
	}
	for (uint32_t lane = 0; n && lane < graph->n_lanes; lane++) {
		if (random_pick(seed, 2))
			share_core(share, lane, random_pick(seed, n));
	}
	share->sharing.least_speed = shape->least_speed;
	return share_by_hand_sharing(share, graph);
}

#endif /* TAUT_REPLAY_RANDOM_SHARE_H */

/* share_by_hand.h - sharing put together flow by flow, for tests and benches.
 *
 *     struct share_by_hand *share = share_by_hand_create();
 *     uint32_t link = share_resource(share, 1);
 *     uint32_t flow = share_flow(share, 100, 0);
 *     share_use(share, link, 1);               // of the flow made last
 *     share_op(share, op, flow);
 *     share_core(share, lane, core);
 *     edit.sharing = share_by_hand_sharing(share, graph);
 *     share_by_hand_destroy(share);
 *
 * No memory: abort(), as nobody's input is at stake. */
#ifndef TAUT_REPLAY_SHARE_BY_HAND_H
#define TAUT_REPLAY_SHARE_BY_HAND_H

#include <taut/replay.h>

#include "by_hand.h"

struct share_by_hand_pair {
	uint32_t from, to;
};

struct share_by_hand {
	struct taut_sharing sharing;
	TAUT_VEC(double) capacity;
	TAUT_VEC(struct taut_flow) flows;
	TAUT_VEC(struct taut_flow_use) uses;
	TAUT_VEC(struct share_by_hand_pair) ops;
	TAUT_VEC(struct share_by_hand_pair) cores;
	uint32_t *flow_of, *core_of;
};

static inline struct share_by_hand *share_by_hand_create(void)
{
	struct share_by_hand *share = calloc(1, sizeof *share);
	by_hand_must(share != NULL);
	share->sharing.least_speed = 0.01;
	return share;
}

static inline void share_by_hand_destroy(struct share_by_hand *share)
{
	taut_vec_free(&share->capacity);
	taut_vec_free(&share->flows);
	taut_vec_free(&share->uses);
	taut_vec_free(&share->ops);
	taut_vec_free(&share->cores);
	free(share->flow_of);
	free(share->core_of);
	free(share);
}

static inline uint32_t share_resource(
	struct share_by_hand *share, double capacity)
{
	by_hand_must(taut_vec_push(&share->capacity, capacity));
	return (uint32_t)share->capacity.count - 1;
}

static inline uint32_t share_flow(
	struct share_by_hand *share, double amount, int64_t latency_ns)
{
	struct taut_flow flow = {
		amount, latency_ns, (uint32_t)share->uses.count, 0
	};
	by_hand_must(taut_vec_push(&share->flows, flow));
	return (uint32_t)share->flows.count - 1;
}

static inline void share_use(
	struct share_by_hand *share, uint32_t resource, double weight)
{
	struct taut_flow_use use = { resource, weight };
	by_hand_must(taut_vec_push(&share->uses, use));
	share->flows.data[share->flows.count - 1].n_uses++;
}

static inline void share_op(
	struct share_by_hand *share, uint32_t op, uint32_t flow)
{
	struct share_by_hand_pair pair = { op, flow };
	by_hand_must(taut_vec_push(&share->ops, pair));
}

static inline void share_core(
	struct share_by_hand *share, uint32_t lane, uint32_t resource)
{
	struct share_by_hand_pair pair = { lane, resource };
	by_hand_must(taut_vec_push(&share->cores, pair));
}

/* Once, when everything is added; least_speed may be set before. */
static inline struct taut_sharing *share_by_hand_sharing(
	struct share_by_hand *share, const struct taut_graph *graph)
{
	share->flow_of = malloc((graph->n_ops + 1) * sizeof(uint32_t));
	share->core_of = malloc((graph->n_lanes + 1) * sizeof(uint32_t));
	by_hand_must(share->flow_of && share->core_of);
	memset(share->flow_of, 0xff, (graph->n_ops + 1) * sizeof(uint32_t));
	memset(share->core_of, 0xff, (graph->n_lanes + 1) * sizeof(uint32_t));
	for (size_t i = 0; i < share->ops.count; i++)
		share->flow_of[share->ops.data[i].from] =
			share->ops.data[i].to;
	for (size_t i = 0; i < share->cores.count; i++)
		share->core_of[share->cores.data[i].from] =
			share->cores.data[i].to;
	share->sharing.n_resources = (uint32_t)share->capacity.count;
	share->sharing.n_flows = (uint32_t)share->flows.count;
	share->sharing.n_uses = (uint32_t)share->uses.count;
	share->sharing.capacity = share->capacity.data;
	share->sharing.flows = share->flows.data;
	share->sharing.uses = share->uses.data;
	share->sharing.flow_of = share->flow_of;
	share->sharing.core_of = share->core_of;
	return &share->sharing;
}

#endif /* TAUT_REPLAY_SHARE_BY_HAND_H */

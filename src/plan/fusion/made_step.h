/* made_step.h - training steps put together by hand, for tests and benches only.
 *
 *     struct made_step *s = made_step_create();
 *     uint32_t a = made_step_op(s, KIND, 10, 4, 1000);
 *     uint32_t b = made_step_op(s, KIND, 10, 4, 1000);
 *     made_step_flow(s, a, b, 1000, true);
 *     made_step_gradient(s, b, 4000, 3);         // its update takes 3
 *     tauti_fusion_create(made_step_in(s), &fusion, &err);
 *     made_step_destroy(s);                      // after the fusion
 *
 * One lane computes; updates stand at its end, as their gradients were made. No
 * memory: abort(). */
#ifndef TAUT_PLAN_FUSION_MADE_STEP_H
#define TAUT_PLAN_FUSION_MADE_STEP_H

#include <replay/by_hand.h>

#include "plan/fusion/fusion.h"

struct made_step {
	struct by_hand *hand;
	TAUT_VEC(struct tauti_fusion_op) ops;
	TAUT_VEC(struct tauti_fusion_flow) flows;
	TAUT_VEC(struct tauti_fusion_gradient) gradients;
	TAUT_VEC(int64_t) update_ns;
	TAUT_VEC(uint32_t) updates;
	struct tauti_fused_bound bound;
	uint32_t network; /* n: a lane of it holds n - 1 operations; 0: there is none */
	struct tauti_fusion_in in;
};

static inline struct made_step *made_step_create(void)
{
	struct made_step *s = calloc(1, sizeof *s);

	by_hand_must(s != NULL);
	s->hand = by_hand_create();
	by_hand_lane(s->hand, 0);
	s->bound.roomy = UINT32_MAX;
	s->in.link.law = (struct taut_law_in) { .kind = TAUT_COLL_ALLREDUCE,
		.algorithm = TAUT_ALGO_RING, .ranks = 2, .hosts = 2 };
	return s;
}

static inline void made_step_destroy(struct made_step *s)
{
	by_hand_destroy(s->hand);
	taut_vec_free(&s->ops);
	taut_vec_free(&s->flows);
	taut_vec_free(&s->gradients);
	taut_vec_free(&s->update_ns);
	taut_vec_free(&s->updates);
	free(s);
}

static inline uint32_t made_step_op(struct made_step *s, uint32_t kind,
	int64_t dur_ns, int64_t compute_ns, int64_t out_bytes)
{
	struct tauti_fusion_op op = { .kind = kind, .compute_ns = compute_ns,
		.out_bytes = out_bytes };

	op.op = by_hand_op(s->hand, TAUT_OP_KERNEL, "op", dur_ns, 0);
	by_hand_must(taut_vec_push(&s->ops, op));
	return (uint32_t)s->ops.count - 1;
}

static inline void made_step_flow(struct made_step *s, uint32_t from,
	uint32_t to, int64_t bytes, bool is_fusible)
{
	struct tauti_fusion_flow flow = { from, to, bytes, is_fusible };

	by_hand_must(taut_vec_push(&s->flows, flow));
}

/* update_ns < 0: nothing updates it. */
static inline void made_step_gradient(struct made_step *s, uint32_t producer,
	int64_t bytes, int64_t update_ns)
{
	struct tauti_fusion_gradient g = { .producer = producer, .bytes = bytes };

	by_hand_must(taut_vec_push(&s->gradients, g));
	by_hand_must(taut_vec_push(&s->update_ns, update_ns));
}

static inline struct tauti_fusion_in *made_step_in(struct made_step *s)
{
	for (size_t i = 0; i < s->gradients.count; i++) {
		s->gradients.data[i].first_update = (uint32_t)s->updates.count;
		if (s->update_ns.data[i] < 0)
			continue;
		s->gradients.data[i].n_updates = 1;
		by_hand_must(taut_vec_push(&s->updates, by_hand_op(s->hand,
			TAUT_OP_KERNEL, "update", s->update_ns.data[i], 0)));
	}
	if (s->network)
		s->in.network_lane = by_hand_lane(s->hand, 0) + 1;
	for (uint32_t i = 1; i < s->network; i++)
		by_hand_op(s->hand, TAUT_OP_KERNEL, "sent", 20, 5);
	s->in.graph = by_hand_graph(s->hand);
	s->in.ops = s->ops.data;
	s->in.n_ops = (uint32_t)s->ops.count;
	s->in.flows = s->flows.data;
	s->in.n_flows = (uint32_t)s->flows.count;
	s->in.gradients = s->gradients.data;
	s->in.n_gradients = (uint32_t)s->gradients.count;
	s->in.updates = s->updates.data;
	s->in.n_updates = (uint32_t)s->updates.count;
	s->in.cost = (struct tauti_fused_cost) {
		tauti_fused_bound_ns, &s->bound };
	return &s->in;
}

/* --- at random ------------------------------------------------------------------------- */

static inline uint32_t made_step_pick(uint64_t *seed, uint32_t n)
{
	uint64_t x = *seed += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((x ^ (x >> 31)) % n);
}

/* n operators of which each reads one or two of those before it; every third or so of
 * the second half makes a gradient. Some links have much latency, some much to send. */
static inline struct made_step *made_step_random(uint64_t seed, uint32_t n)
{
	struct made_step *s = made_step_create();

	s->bound.byte_ns = 0.01;
	s->bound.launch_ns = made_step_pick(&seed, 6);
	s->bound.crowding = made_step_pick(&seed, 2) ? 0.1 : 0;
	s->bound.roomy = 3;
	s->in.link.message_ns = made_step_pick(&seed, 20);
	s->in.link.byte_ns = 0.001 * (1 + made_step_pick(&seed, 40));
	s->in.link.fixed_ns = made_step_pick(&seed, 30);
	for (uint32_t i = 0; i < n; i++) {
		int64_t bytes = 100 * made_step_pick(&seed, 30);
		int64_t ns = bytes / 50 + made_step_pick(&seed, 60);

		made_step_op(s, made_step_pick(&seed, 3), ns,
			ns ? made_step_pick(&seed, (uint32_t)ns + 1) : 0, bytes);
		s->ops.data[i].is_kept = !made_step_pick(&seed, 4);
		for (uint32_t k = 0; i && k < 1 + made_step_pick(&seed, 2); k++) {
			uint32_t from = k ? made_step_pick(&seed, i) : i - 1;

			if (!k || from != i - 1)
				made_step_flow(s, from, i, s->ops.data[from]
					.out_bytes, made_step_pick(&seed, 4) > 0);
		}
		if (i >= n / 2 && !made_step_pick(&seed, 3))
			made_step_gradient(s, i, 500 + 100 *
				made_step_pick(&seed, 100),
				(int64_t)made_step_pick(&seed, 40) - 5);
	}
	if (!s->gradients.count)
		made_step_gradient(s, n - 1, 1000, 10);
	return s;
}

#endif /* TAUT_PLAN_FUSION_MADE_STEP_H */

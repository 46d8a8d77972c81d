/* fusion.h - the fine-grained space: which operators become one, which gradients
 * travel together, in how many pieces, over the graph of one training step.
 *
 *     struct tauti_fusion *fusion;
 *     tauti_fusion_create(&in, &fusion, err);
 *     tauti_search_create(tauti_fusion_space(fusion), ...);
 *
 * Symmetry. All ranks of a data-parallel job do the same, so the space plays one of
 * them, that of the operators; what the others add to a collective is in its law. A
 * graph of several ranks is compared rank by rank, and refused where they differ.
 *
 * The step as it is played. Operators stand on one lane in their order. Each gradient
 * has a slot on one lane of the network. A group of gradients that travels together
 * starts when the last of them is ready; groups go first come, first served, equal
 * ones in the order of production. k pieces of a group are k transfers in a row, each
 * of 1/k of its bytes, and a gradient is there when the last piece that it lies in is.
 * So slot i lasts as long as the pieces that end gradient i but not gradient i-1, and
 * what updates it waits for its slot: no more operations are needed for pieces.
 *
 * Operators that are fused do their work where the last of them stands, and all their
 * results are there when it ends; the others keep their places (and what they wait
 * for), without duration. A state in which an operator would come before one whose
 * result it reads cannot be (TAUTI_NEVER). A duplicate of an operator brings along
 * what that one is fused with and reads; the original stays as it was.
 *
 * Sites, pass by pass, in this order:
 *     operators   by fusible flow: 0 apart, 1 fused, 2 fused with a duplicate of the
 *                 producer (where others read its result too)
 *     tensors     by gradient but the first: 0 as `joined` says, 1 the other way: it
 *                 travels with the one before, or not
 *     pieces      by gradient: 1, 2, 4, 8; of a group its first one's counts
 * and within a pass in the order of the input.
 *
 * step_ns is the end of the graph. network_bytes is what the law sends out of all hosts,
 * or, of one host, out of all ranks: the same in all states. memory_bytes is -1.
 *
 * Owner:   a fusion owns all but the graph, the laws' `counted` and the cost's
 *          context, which it borrows; its space dies with it.
 * Threads: one at a time.
 * Errors:  TAUT_ENOMEM; TAUT_EINVAL: what is named, of the input; TAUT_EMATCH: ranks
 *          differ.
 * Units:   nanoseconds, bytes. */
#ifndef TAUT_PLAN_FUSION_FUSION_H
#define TAUT_PLAN_FUSION_FUSION_H

#include <taut/cost.h>
#include <taut/edit.h>

#include "plan/space.h"

/* --- what a fused operator takes ------------------------------------------------ */

struct tauti_fused_part {
	uint32_t op;        /* in the table of operators */
	uint32_t kind;
	int64_t dur_ns;     /* alone */
	int64_t compute_ns; /* what of it no fusion saves */
	int64_t in_bytes, out_bytes; /* that it reads and writes alone */
	int64_t saved_bytes; /* of these: intermediates that need not be */
	bool is_copy;       /* the original is somewhere else */
};
struct tauti_fused_tie { /* parts[to] reads the result of parts[from] within it */
	uint32_t from, to;
	int64_t bytes;
};
struct tauti_fused {
	const struct tauti_fused_part *parts; /* two or more, copies last */
	uint32_t n_parts;
	const struct tauti_fused_tie *ties;
	uint32_t n_ties;
};
/* How long a fused operator takes, >= 0: the same for the same parts, always. Behind
 * it may stand whatever knows better than the bound below: measurements, a network. */
struct tauti_fused_cost {
	int64_t (*ns)(const void *context, const struct tauti_fused *fused);
	const void *context;
};

/* The analytic bound: the parts' times, less what intermediates that stay in registers
 * would take to go to memory and back, less a launch for each part but one; never less
 * than what the parts compute, so no less than the longest does:
 *
 *     d = max( sum_i c_i, sum_i d_i - byte_ns * sum_i saved_i - (n - 1) launch_ns )
 *     d' = d (1 + crowding * max(0, n - roomy))
 *
 * (Jia et al., TASO, SOSP'19, and XLA's cost analysis count the traffic so; dPRO, MLSys
 * '22, without a learned model takes 0.8 of the sum.) crowding is for registers that run
 * out in long chains, which then spill. */
struct tauti_fused_bound {
	double byte_ns;    /* of memory */
	int64_t launch_ns; /* in the time of each operator */
	double crowding;   /* of the time, by part beyond roomy; 0: none */
	uint32_t roomy;
};
int64_t tauti_fused_bound_ns(const void *bound, const struct tauti_fused *fused);

/* --- the step --------------------------------------------------------------------- */

struct tauti_fusion_op {
	uint32_t op;        /* of the graph */
	uint32_t kind;      /* the caller's: alike is what has one kind */
	int64_t compute_ns; /* 0 .. its duration */
	int64_t out_bytes;  /* of its result */
	int64_t given_bytes; /* that it reads beside what the flows bring */
	bool is_kept;       /* others than the flows tell read its result */
};
struct tauti_fusion_flow { /* `to` reads the result of `from` */
	uint32_t from, to;  /* in the table; from < to */
	int64_t bytes;
	bool is_fusible;    /* element by element: they could be one operator */
};
struct tauti_fusion_gradient {
	uint32_t producer;  /* in the table of operators */
	int64_t bytes;      /* > 0 */
	uint32_t first_update, n_updates; /* in the table of updates */
	bool is_joined;     /* as it is, it travels with the one before */
};
/* A transfer of S bytes takes
 *     fixed + messages(S) message_ns + network_bytes(S) byte_ns
 *           + local_bytes(S) local_byte_ns
 * where taut_law() counts messages and bytes. */
struct tauti_fusion_link {
	struct taut_law_in law; /* bytes is not read */
	double message_ns, byte_ns, local_byte_ns;
	int64_t fixed_ns;   /* of any transfer: to agree on it, to launch it */
};

struct tauti_fusion_engine; /* how states are played; below */

struct tauti_fusion_in { /* of the options zero is the default */
	/* Without transfers of these gradients: what was recorded of them has been
	 * taken out. */
	const struct taut_graph *graph;
	const struct tauti_fusion_op *ops; /* of one lane, in its order */
	const struct tauti_fusion_flow *flows;
	const struct tauti_fusion_gradient *gradients; /* as they are produced */
	const uint32_t *updates; /* operations of the graph, of the same rank */
	uint32_t n_ops, n_flows, n_gradients, n_updates;
	struct tauti_fusion_link link;
	struct tauti_fused_cost cost;
	uint32_t network_lane; /* of the graph, + 1, that has operations; 0: a new one */
	double alike;        /* ranks' lanes and images: differ by at most this part;
	                        0: 0.05 */
	uint32_t reach;      /* images: so many flows around are alike; 0: 2 */
	const struct tauti_fusion_engine *engine; /* NULL: the fastest */
};

struct tauti_fusion;
enum { TAUTI_FUSION_OPERATORS, TAUTI_FUSION_TENSORS, TAUTI_FUSION_PIECES };
enum { TAUTI_FUSION_PIECES_OPTIONS = 4 }; /* 1 << option pieces */

taut_status tauti_fusion_create(const struct tauti_fusion_in *in,
	struct tauti_fusion **ret_fusion, struct taut_error *err);
void tauti_fusion_destroy(struct tauti_fusion *fusion); /* NULL is fine */
const struct tauti_space *tauti_fusion_space(const struct tauti_fusion *fusion);

/* Sites of a flow, of a gradient (of the tensors: of its being with the one before);
 * TAUT_NONE: it has none. */
uint32_t tauti_fusion_site_of_flow(const struct tauti_fusion *f, uint32_t flow);
uint32_t tauti_fusion_site_of_join(const struct tauti_fusion *f, uint32_t gradient);
uint32_t tauti_fusion_site_of_pieces(
	const struct tauti_fusion *f, uint32_t gradient);

/* Of one transfer, by the link alone. */
int64_t tauti_fusion_transfer_ns(
	const struct tauti_fusion_link *link, double bytes);
/* No state of this space takes less, if no fused operator takes less than its parts
 * compute: what is computed, one behind the other; and for each gradient, what must be
 * computed before it, then it and all later ones in one transfer. */
int64_t tauti_fusion_least_ns(const struct tauti_fusion *fusion);

/* --- engines: how the present state is played -------------------------------------- */
/* Operations are those of the edit; decided_by as in taut/replay.h. */
struct tauti_fusion_engine {
	const char *name;
	taut_status (*create)(struct taut_edit *edit, void **ret_self,
		struct taut_error *err);
	void (*destroy)(void *self);
	/* TAUT_EMATCH: operations wait for each other in a circle. */
	taut_status (*play)(void *self, int64_t *ret_end_ns, struct taut_error *err);
	/* Of the state that was played last. */
	int64_t (*start_ns)(const void *self, uint32_t op);
	int64_t (*end_ns)(const void *self, uint32_t op);
	uint32_t (*decided_by)(const void *self, uint32_t op);
	uint32_t (*last)(void *self); /* an op that ends last; TAUT_NONE */
};
/* Builds a graph of the edit and replays all of it. */
extern const struct tauti_fusion_engine tauti_fusion_full;
/* Plays what changed of the state before (taut/again.h). */
extern const struct tauti_fusion_engine tauti_fusion_again;

/* --- rules -----------------------------------------------------------------------------
 * A state's times are the earliest that keep all of its waits. So
 *
 *  BETTER  any times that keep the waits of the changed state bound its replay from
 *          above. The present ones are taken, with those operations later (or earlier)
 *          that the change touches, until nothing is left that it delays. If the whole
 *          ends no later then, the changed state is no worse.
 *  WORSE   any chain of waits in the changed state bounds its replay from below. If
 *          the present critical path, led past what the change touches, is there still
 *          and no shorter, the changed state is no better. A change that touches nothing
 *          on the path is a case of it; a state that cannot be is another.
 *
 * dPRO's rules are what these come to where p_{n-1}, p_n are neighbours, q their tensors
 * (d duration, e end, s size):
 *  operators  fuse if q^d_{n-1} < p^d_{n-1} + p^d_n - opfs: the fused one ends so much
 *             earlier that q_{n-1}, though late, is sent before p_n would have ended. It
 *             needs what is asked here besides: nobody wants q_{n-1} before that.
 *  tensors    fuse if q^e_{n-1} > p^e_n + t(s_{n-1} + s_n) - t(s_n): both in one are
 *             there before they would be in two. Here also: the update of q_{n-1}, which
 *             is then there later, is not. Where q_{n-1} is done before p_n and the path
 *             goes through q_n, fusing them is worse: t(s_{n-1} + s_n) >= t(s_n).
 *  coupling   operators whose gradients wait for the last of them have nothing to gain
 *             from being sent apart: the coarsened view has one site of each kind for
 *             the operators up to each that makes a gradient.
 * They hold for this model: one lane computes, one sends, nothing is shared. */

#endif /* TAUT_PLAN_FUSION_FUSION_H */

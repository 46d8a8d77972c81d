/* learned.h - what a fused operator takes, by a graph neural network that learned from
 * measured ones (bench/fused takes the samples and trains it).
 *
 *     struct tauti_learned *net;
 *     tauti_learned_read("fused.json", &net, err);
 *     struct tauti_learned_use use = { net, type_of_kind, n_kinds, bound };
 *     in.cost = (struct tauti_fused_cost) { tauti_learned_ns, &use };
 *     ...
 *     tauti_learned_destroy(net);
 *
 * The form is that of DisCo (Yi et al., TPDS 2022, section 4.3): layers in which each
 * part attends to itself and to those that it shares a result with (multi-head
 * attention), the parts' embeddings summed, then three dense layers. Of the parts it
 * sees the type, the time alone, and the bytes that are read, written and saved.
 *
 *     x_i = type_i + W (log(1 + d_i), log(1 + in_i), log(1 + out_i), log(1 + saved_i))
 *     per layer and head, over j in {i} and i's neighbours, r_ij: j is i, is read by i,
 *     reads i:
 *         a_ij = softmax_j( q_i . k_j / sqrt(width / heads) + b_{r_ij} )
 *         x_i += O sum_j a_ij v_j;   x_i += W2 relu(W1 norm(x_i));  q, k, v of norm(x)
 *     z   = dense3( sum_i x_i, log(1 + sum d), log(1 + sum moved), log(1 + n) )
 *     ns  = sum_i d_i exp(z)
 *
 * Inputs are taken less their mean and over their scale. norm is that of layers (Ba et
 * al., 2016). Its answer is never less than what the parts compute.
 *
 * Owner:   a network owns all; a use borrows.
 * Threads: read-only once read; any thread may ask.
 * Errors:  TAUT_EIO, TAUT_ENOMEM; TAUT_EFORMAT: what of the file is not as it must be.
 * Units:   nanoseconds, bytes. */
#ifndef TAUT_PLAN_FUSION_LEARNED_H
#define TAUT_PLAN_FUSION_LEARNED_H

#include "plan/fusion/fusion.h"

enum { /* at most */
	TAUTI_LEARNED_PARTS = 32,
	TAUTI_LEARNED_WIDTH = 64,
	TAUTI_LEARNED_INNER = 128,
	TAUTI_LEARNED_HEADS = 8,
	TAUTI_LEARNED_LAYERS = 16,
	TAUTI_LEARNED_TYPES = 256,
};

struct tauti_learned;

taut_status tauti_learned_parse(const char *text, size_t bytes,
	const char *name, struct tauti_learned **ret_net, struct taut_error *err);
taut_status tauti_learned_read(const char *path,
	struct tauti_learned **ret_net, struct taut_error *err);
void tauti_learned_destroy(struct tauti_learned *net); /* NULL is fine */

/* Of operators that it was trained on; TAUT_NONE: of none. */
uint32_t tauti_learned_type(const struct tauti_learned *net, const char *name);

struct tauti_learned_use {
	const struct tauti_learned *net;
	const uint32_t *types; /* by the caller's kind; TAUT_NONE: none */
	uint32_t n_kinds;
	/* For what it was not trained on: a kind without a type, or more parts. */
	struct tauti_fused_bound otherwise;
};
/* A tauti_fused_cost. */
int64_t tauti_learned_ns(const void *use, const struct tauti_fused *fused);

#endif /* TAUT_PLAN_FUSION_LEARNED_H */

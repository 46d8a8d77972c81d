/* plan_net.h - how plan_models.c puts a network together: a forward operator a call,
 * then all of the backward pass. Tensors are float32. */
#ifndef TAUT_BENCH_PLAN_NET_H
#define TAUT_BENCH_PLAN_NET_H

#include "plan_models.h"

enum plan_kind {
	PLAN_INPUT, PLAN_CONV, PLAN_LINEAR, PLAN_MATMUL, PLAN_BIAS, PLAN_BATCHNORM,
	PLAN_LAYERNORM, PLAN_SOFTMAX, PLAN_RELU, PLAN_GELU, PLAN_DROPOUT, PLAN_SCALE,
	PLAN_ADD, PLAN_CONCAT, PLAN_POOL, PLAN_EMBED, PLAN_LOSS,
	PLAN_KINDS
};

struct plan_node {
	enum plan_kind kind;
	uint32_t op;         /* of the step; TAUT_NONE: the input */
	uint32_t in[8], n_in;
	uint32_t c, h, w;    /* of its result, by sample */
	double bytes, flops, rate; /* of its result, of it, a nanosecond */
	double weights[2];   /* bytes; 0: none */
	uint32_t grad;       /* operator that made its gradient so far; TAUT_NONE */
};

struct plan_net {
	struct made_step *step;
	const struct plan_rates *rates;
	uint32_t batch;
	double update_passes; /* over a weight's bytes */
	TAUT_VEC(struct plan_node) nodes;
};

void plan_net_init(struct plan_net *net, const struct plan_rates *rates,
	uint32_t batch, double update_passes);
/* Makes the backward pass from the last node; what is left is the step. */
struct made_step *plan_net_finish(struct plan_net *net);

/* Each makes a node of others, and is its number. */
uint32_t plan_input(struct plan_net *net, uint32_t c, uint32_t h, uint32_t w);
/* pad: on each side; of rectangular kernels that of the longer side. */
uint32_t plan_conv(struct plan_net *net, uint32_t in, uint32_t c, uint32_t kh,
	uint32_t kw, uint32_t stride, bool pads);
/* Of the last dimension; c the new one. */
uint32_t plan_linear(struct plan_net *net, uint32_t in, uint32_t c);
/* Of batch * heads products of (rows x depth) and (depth x columns). */
uint32_t plan_matmul(struct plan_net *net, uint32_t a, uint32_t b, uint32_t heads,
	uint32_t rows, uint32_t depth, uint32_t columns);
/* What keeps the shape: biases, norms, activations, dropout. */
uint32_t plan_same(struct plan_net *net, enum plan_kind kind, uint32_t in);
uint32_t plan_add(struct plan_net *net, uint32_t a, uint32_t b);
uint32_t plan_concat(struct plan_net *net, const uint32_t *in, uint32_t n);
/* All of it where size is 0. */
uint32_t plan_pool(struct plan_net *net, uint32_t in, uint32_t size,
	uint32_t stride, bool pads);
/* rows of c for a sequence of h. */
uint32_t plan_embed(struct plan_net *net, uint32_t in, uint32_t rows, uint32_t c);
uint32_t plan_loss(struct plan_net *net, uint32_t in);

#endif /* TAUT_BENCH_PLAN_NET_H */

/* plan_net.c - operators of a network and of its backward pass; see plan_net.h. */
#include "plan_net.h"

#include <math.h>

enum group { HEAVY, POINT, NORM, OTHER };

static enum group group_of(enum plan_kind kind)
{
	switch (kind) {
	case PLAN_CONV: case PLAN_LINEAR: case PLAN_MATMUL:
		return HEAVY;
	case PLAN_BIAS: case PLAN_RELU: case PLAN_GELU: case PLAN_DROPOUT:
	case PLAN_SCALE: case PLAN_ADD: case PLAN_CONCAT:
		return POINT;
	case PLAN_BATCHNORM: case PLAN_LAYERNORM: case PLAN_SOFTMAX:
		return NORM;
	default:
		return OTHER;
	}
}

/* Backward operators have kinds of their own, behind those of the forward pass, and
 * sums of gradients another. */
enum { BACK = PLAN_KINDS, WEIGHT = 2 * PLAN_KINDS, SUM = 3 * PLAN_KINDS };

static enum group group_of_op(const struct plan_net *net, uint32_t op)
{
	uint32_t kind = net->step->ops.data[op].kind;

	return kind == SUM ? POINT : group_of((enum plan_kind)(kind % PLAN_KINDS));
}

/* Work element by element goes into what makes its operands, or into a norm. */
static bool is_fusible(const struct plan_net *net, uint32_t from, uint32_t to)
{
	enum group a = group_of_op(net, from), b = group_of_op(net, to);
	bool forward = net->step->ops.data[from].kind < BACK;

	if (forward != (net->step->ops.data[to].kind < BACK))
		return false; /* it waits in memory for the backward pass */
	return (b == POINT && a != OTHER) || (b == NORM && a == POINT);
}

static uint32_t add_op(struct plan_net *net, uint32_t kind, double flops,
	double rate, double bytes, double out_bytes)
{
	double compute = flops / rate;
	double memory = bytes / net->rates->memory_gbs;
	double ns = (compute > memory ? compute : memory) +
		net->rates->launch_us * 1e3;

	return made_step_op(net->step, kind, llround(ns), llround(compute),
		llround(out_bytes));
}

static void add_flow(struct plan_net *net, uint32_t from, uint32_t to,
	double bytes)
{
	if (from != TAUT_NONE && from != to)
		made_step_flow(net->step, from, to, llround(bytes),
			is_fusible(net, from, to));
}

static double size_of(const struct plan_net *net, uint32_t c, uint32_t h,
	uint32_t w)
{
	return 4.0 * net->batch * c * h * w;
}

void plan_net_init(struct plan_net *net, const struct plan_rates *rates,
	uint32_t batch, double update_passes)
{
	*net = (struct plan_net) { made_step_create(), rates, batch,
		update_passes, { 0 } };
	net->step->bound.byte_ns = 1 / rates->memory_gbs;
	net->step->bound.launch_ns = llround(rates->launch_us * 1e3);
}

/* --- forward ---------------------------------------------------------------------------- */

static uint32_t add_node(struct plan_net *net, struct plan_node node)
{
	/* of a table only the rows that are looked up are read */
	double moved = node.kind == PLAN_EMBED ? 0 :
		node.weights[0] + node.weights[1];

	node.grad = TAUT_NONE;
	node.bytes = size_of(net, node.c, node.h, node.w);
	moved += node.bytes;
	for (uint32_t i = 0; i < node.n_in; i++)
		moved += net->nodes.data[node.in[i]].bytes;
	if (!node.rate)
		node.rate = net->rates->point_tflops * 1e3;
	node.op = TAUT_NONE;
	if (node.kind != PLAN_INPUT)
		node.op = add_op(net, node.kind, node.flops, node.rate, moved,
			node.bytes);
	for (uint32_t i = 0; i < node.n_in; i++)
		add_flow(net, net->nodes.data[node.in[i]].op, node.op,
			net->nodes.data[node.in[i]].bytes);
	by_hand_must(taut_vec_push(&net->nodes, node));
	return (uint32_t)net->nodes.count - 1;
}

static struct plan_node like(const struct plan_net *net, enum plan_kind kind,
	uint32_t in)
{
	const struct plan_node *n = &net->nodes.data[in];

	return (struct plan_node) { .kind = kind, .in = { in }, .n_in = 1,
		.c = n->c, .h = n->h, .w = n->w };
}

uint32_t plan_input(struct plan_net *net, uint32_t c, uint32_t h, uint32_t w)
{
	return add_node(net, (struct plan_node) { .kind = PLAN_INPUT, .c = c,
		.h = h, .w = w });
}

static uint32_t slide(uint32_t size, uint32_t kernel, uint32_t stride, bool pads)
{
	return pads ? (size + stride - 1) / stride : (size - kernel) / stride + 1;
}

uint32_t plan_conv(struct plan_net *net, uint32_t in, uint32_t c, uint32_t kh,
	uint32_t kw, uint32_t stride, bool pads)
{
	struct plan_node n = like(net, PLAN_CONV, in);
	bool winograd = kh == 3 && kw == 3 && stride == 1;

	n.weights[0] = 4.0 * n.c * c * kh * kw;
	n.h = slide(n.h, kh, stride, pads);
	n.w = slide(n.w, kw, stride, pads);
	n.flops = 2.0 * net->batch * n.h * n.w * n.weights[0] / 4;
	n.c = c;
	n.rate = 1e3 * (winograd ? net->rates->winograd_tflops :
		net->rates->conv_tflops);
	return add_node(net, n);
}

uint32_t plan_linear(struct plan_net *net, uint32_t in, uint32_t c)
{
	struct plan_node n = like(net, PLAN_LINEAR, in);

	n.weights[0] = 4.0 * n.c * c;
	n.flops = 2.0 * net->batch * n.h * n.w * n.c * c;
	n.c = c;
	n.rate = 1e3 * net->rates->gemm_tflops;
	return add_node(net, n);
}

uint32_t plan_matmul(struct plan_net *net, uint32_t a, uint32_t b, uint32_t heads,
	uint32_t rows, uint32_t depth, uint32_t columns)
{
	return add_node(net, (struct plan_node) { .kind = PLAN_MATMUL,
		.in = { a, b }, .n_in = 2, .c = heads * columns, .h = rows,
		.w = 1, .flops = 2.0 * net->batch * heads * rows * depth * columns,
		.rate = 1e3 * net->rates->gemm_tflops });
}

uint32_t plan_same(struct plan_net *net, enum plan_kind kind, uint32_t in)
{
	struct plan_node n = like(net, kind, in);
	bool is_norm = kind == PLAN_BATCHNORM || kind == PLAN_LAYERNORM;

	if (is_norm || kind == PLAN_BIAS)
		n.weights[0] = 4.0 * n.c;
	if (is_norm)
		n.weights[1] = 4.0 * n.c;
	n.flops = (kind == PLAN_GELU || group_of(kind) == NORM ? 8.0 : 1.0) *
		net->batch * n.c * n.h * n.w;
	return add_node(net, n);
}

uint32_t plan_add(struct plan_net *net, uint32_t a, uint32_t b)
{
	struct plan_node n = like(net, PLAN_ADD, a);

	n.in[n.n_in++] = b;
	return add_node(net, n);
}

uint32_t plan_concat(struct plan_net *net, const uint32_t *in, uint32_t n_in)
{
	struct plan_node n = like(net, PLAN_CONCAT, in[0]);

	n.n_in = n_in;
	n.c = 0;
	for (uint32_t i = 0; i < n_in; i++) {
		n.in[i] = in[i];
		n.c += net->nodes.data[in[i]].c;
	}
	return add_node(net, n);
}

uint32_t plan_pool(struct plan_net *net, uint32_t in, uint32_t size,
	uint32_t stride, bool pads)
{
	struct plan_node n = like(net, PLAN_POOL, in);

	n.h = size ? slide(n.h, size, stride, pads) : 1;
	n.w = size ? slide(n.w, size, stride, pads) : 1;
	return add_node(net, n);
}

uint32_t plan_embed(struct plan_net *net, uint32_t in, uint32_t rows, uint32_t c)
{
	struct plan_node n = like(net, PLAN_EMBED, in);

	n.c = c;
	n.weights[0] = 4.0 * rows * c;
	return add_node(net, n);
}

uint32_t plan_loss(struct plan_net *net, uint32_t in)
{
	return plan_same(net, PLAN_LOSS, in);
}

/* --- backward ------------------------------------------------------------------------------ */

static void update(struct plan_net *net, uint32_t producer, double bytes)
{
	double ns = bytes * net->update_passes / net->rates->memory_gbs +
		net->rates->launch_us * 1e3;

	made_step_gradient(net->step, producer, llround(bytes), llround(ns));
}

/* One more of the tensor's readers has sent its part back. */
static void send_back(struct plan_net *net, uint32_t node, uint32_t op)
{
	struct plan_node *n = &net->nodes.data[node];
	uint32_t sum;

	if (n->kind == PLAN_INPUT)
		return;
	if (n->grad == TAUT_NONE) {
		n->grad = op;
		return;
	}
	sum = add_op(net, SUM, n->bytes / 4, net->rates->point_tflops * 1e3,
		3 * n->bytes, n->bytes);
	add_flow(net, n->grad < op ? n->grad : op, sum, n->bytes);
	if (n->grad != op)
		add_flow(net, n->grad < op ? op : n->grad, sum, n->bytes);
	n->grad = sum;
}

/* An operator that reads what came back and what the forward pass left. */
static uint32_t add_back(struct plan_net *net, const struct plan_node *n,
	uint32_t kind, double flops, double out_bytes, uint32_t left)
{
	const struct plan_node *l = &net->nodes.data[left];
	uint32_t op = add_op(net, kind, flops, n->rate,
		n->bytes + l->bytes + out_bytes, out_bytes);

	if (l->op != TAUT_NONE)
		add_flow(net, l->op, op, l->bytes);
	add_flow(net, n->grad, op, n->bytes);
	return op;
}

static void back_heavy(struct plan_net *net, const struct plan_node *n)
{
	uint32_t in = n->in[0], op;

	if (net->nodes.data[in].kind != PLAN_INPUT) {
		op = add_back(net, n, BACK + n->kind, n->flops,
			net->nodes.data[in].bytes,
			n->kind == PLAN_MATMUL ? n->in[1] : in);
		send_back(net, in, op);
	}
	op = add_back(net, n, WEIGHT + n->kind, n->flops, n->weights[0], in);
	if (n->kind == PLAN_MATMUL)
		send_back(net, n->in[1], op);
	else
		update(net, op, n->weights[0]);
}

static void back_same(struct plan_net *net, const struct plan_node *n)
{
	uint32_t in = n->in[0];
	uint32_t op = add_back(net, n, BACK + n->kind, 2 * n->flops,
		n->kind == PLAN_EMBED ? n->weights[0] :
		net->nodes.data[in].bytes, in);

	for (int i = 0; i < 2; i++)
		if (n->weights[i] > 0)
			update(net, op, n->weights[i]);
	send_back(net, in, op);
}

static void back(struct plan_net *net, uint32_t node)
{
	struct plan_node n = net->nodes.data[node];
	uint32_t op;

	if (n.kind == PLAN_INPUT || (n.grad == TAUT_NONE && n.kind != PLAN_LOSS))
		return;
	switch (n.kind) {
	case PLAN_CONV: case PLAN_LINEAR: case PLAN_MATMUL:
		back_heavy(net, &n);
		break;
	case PLAN_ADD: case PLAN_CONCAT: /* a view of what came back */
		for (uint32_t i = 0; i < n.n_in; i++)
			send_back(net, n.in[i], n.grad);
		break;
	case PLAN_BIAS:
		op = add_op(net, BACK + PLAN_POOL, n.bytes / 4, n.rate, n.bytes,
			n.weights[0]);
		add_flow(net, n.grad, op, n.bytes);
		update(net, op, n.weights[0]);
		send_back(net, n.in[0], n.grad);
		break;
	default:
		back_same(net, &n);
	}
}

struct made_step *plan_net_finish(struct plan_net *net)
{
	for (uint32_t i = (uint32_t)net->nodes.count; i-- > 0;)
		back(net, i);
	taut_vec_free(&net->nodes);
	return net->step;
}

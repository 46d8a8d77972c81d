/* gist.c - Gist: what activations leave is kept encoded. Behind each activation
 * of the forward pass stands a kernel that encodes, before its gradient one
 * that decodes; each is one pass over as much data, or somewhat less. */
#include "whatif/kernels.h"

enum { COST };

static const struct taut_parameter parameters[] = {
	{ "cost", "FACTOR", "1x", "of a kernel that encodes or decodes, in "
		"times of the activation's own" },
};

struct encoder {
	struct tauti_whatif *w;
	double cost;
	uint32_t n_forward, n_backward;
};

static bool is_activation(const struct tauti_whatif *w, const struct taut_op *op)
{
	bool kind = w->job->has_device ? op->kind == TAUT_OP_KERNEL :
		op->kind == TAUT_OP_HOST;

	return kind && op->like != TAUT_NONE &&
		tauti_kernel_class(taut_names_text(w->graph->names,
			op->name)) == TAUTI_KERNEL_ACTIVATION;
}

static taut_status insert(struct encoder *e, uint32_t i,
	const struct taut_op *op, struct taut_error *err)
{
	bool forward = tauti_op_phase(e->w, op) == TAUTI_PHASE_FORWARD;
	struct taut_op made = { .kind = op->kind, .lane = op->lane,
		.dur_ns = llround((double)op->dur_ns * e->cost),
		.event = TAUT_NONE, .collective = TAUT_NONE,
		.like = TAUT_NONE };
	uint32_t at;

	if (!forward && tauti_op_phase(e->w, op) != TAUTI_PHASE_BACKWARD)
		return TAUT_OK;
	e->n_forward += forward;
	e->n_backward += !forward;
	return taut_edit_insert(e->w->edit, forward ? i :
		taut_edit_before(e->w->edit, i), &made,
		forward ? "encode" : "decode", &at, err);
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	struct encoder e = { .w = w };
	uint32_t n = taut_edit_ops(w->edit);
	taut_status status = tauti_param_factor(c, COST, &e.cost, err);

	e.cost *= tauti_range(w, 0.5, 1, 2);
	for (uint32_t i = 0; !status && i < n; i++) {
		struct taut_op op;

		if (taut_edit_op(w->edit, i, &op) && is_activation(w, &op))
			status = insert(&e, i, &op, err);
	}
	if (!status && !e.n_forward)
		status = taut_error_set(err, TAUT_EINVAL, -1, "%s: the "
			"recording has no ReLU in a forward pass whose output "
			"could be encoded", c->text);
	if (!status)
		status = tauti_note(w, err, "%s: %u kernels encode, %u decode; "
			"the memory that this frees is not counted",
			c->text, e.n_forward, e.n_backward);
	return status;
}

const struct tauti_transformation tauti_whatif_gist = {
	.info = {
		.name = "gist", .group = "memory",
		.summary = "activations are kept encoded",
		.assumption = "encoding and decoding are one pass each over an "
			"activation's data",
		.source = "Gist (ISCA'18), as expressed in Daydream (ATC'20): "
			"insert",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};

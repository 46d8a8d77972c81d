/* amp.c - mixed precision: kernels of the forward and backward pass in 16 bits.
 * Daydream: matrix products take a third of their time, what is bound by
 * memory a half. Which of them a GPU, and their shapes, really allow is not in
 * a recording; hence the ranges. */
#include "whatif/kernels.h"

enum { TYPE };

static const struct taut_parameter parameters[] = {
	{ "", "fp16|bf16", "bf16", "the narrow type" },
};

struct narrower {
	struct tauti_whatif *w;
	double math, memory;
	int64_t wide_ns, narrow_ns; /* of matrix products, before */
};

static double factor_of(struct narrower *n, const struct taut_op *op)
{
	const char *name = taut_names_text(n->w->graph->names, op->name);
	bool math = tauti_kernel_class(name) == TAUTI_KERNEL_MATH;

	if (tauti_kernel_is_half(name)) {
		n->narrow_ns += math ? op->dur_ns : 0;
		return 1;
	}
	n->wide_ns += math ? op->dur_ns : 0;
	return math ? n->math : n->memory;
}

static taut_status narrow(struct narrower *n, struct taut_error *err)
{
	const struct tauti_whatif *w = n->w;
	uint32_t n_ops = taut_edit_ops(w->edit);
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < n_ops; i++) {
		struct taut_op op;
		enum tauti_phase phase;

		if (!taut_edit_op(w->edit, i, &op) ||
			op.kind != TAUT_OP_KERNEL || op.like == TAUT_NONE)
			continue;
		phase = tauti_op_phase(w, &op);
		if (phase == TAUTI_PHASE_FORWARD ||
			phase == TAUTI_PHASE_BACKWARD)
			status = tauti_scale_op(
				n->w, i, &op, factor_of(n, &op), err);
	}
	return status;
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	struct narrower n = { .w = w, .math = tauti_range(w, 0.2, 1.0 / 3, 0.6),
		.memory = tauti_range(w, 0.45, 0.5, 0.8) };
	uint32_t type;
	taut_status status = tauti_param_word(c, TYPE, &type, err);

	if (!status && !w->job->has_device)
		return taut_error_set(err, TAUT_EINVAL, -1, "%s: mixed "
			"precision is modelled for kernels of a device, and "
			"this recording has none", c->text);
	if (!status)
		status = narrow(&n, err);
	if (status)
		return status;
	if (!n.wide_ns)
		return taut_error_set(err, TAUT_EINVAL, -1, "%s: the recording "
			"has no matrix products in 32 bits%s", c->text,
			n.narrow_ns ? "; it computes in 16 bits already" : "");
	return tauti_note(w, err, "%s: matrix products of %.3g ms are narrowed "
		"(those of %.3g ms were narrow already); casts of weights and "
		"the scaling of losses are not counted", c->text,
		(double)n.wide_ns / 1e6, (double)n.narrow_ns / 1e6);
}

const struct tauti_transformation tauti_whatif_amp = {
	.info = {
		.name = "amp", .group = "compute",
		.summary = "mixed precision",
		.assumption = "matrix products take a third of their time, "
			"other kernels half; weights are updated and "
			"gradients sent in 32 bits as before",
		.source = "Daydream (ATC'20): AMP",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};

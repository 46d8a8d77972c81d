/* batchnorm.c - batch normalisation reconstructed: its halves are fused into
 * the layers around it, and the activation behind it into it. As Daydream has
 * it: activations are dropped, normalisations take half of their time. */
#include "whatif/kernels.h"

enum { HOW };

static const struct taut_parameter parameters[] = {
	{ "", "fused", "fused", "with the layers around it" },
};

/* A module may be called by all that it holds (ConvBNReLU): its operators tell. */
static bool is_of_class(const char *name, enum tauti_kernel_class class)
{
	return strncmp(name, "nn.Module: ", 11) &&
		tauti_kernel_class(name) == class;
}

static bool is_norm(const void *context, const char *name)
{
	(void)context;
	return is_of_class(name, TAUTI_KERNEL_NORM);
}

static bool is_activation(const void *context, const char *name)
{
	(void)context;
	return is_of_class(name, TAUTI_KERNEL_ACTIVATION);
}

/* Where there is a device, its part alone. */
static bool is_place(const struct tauti_whatif *w, const struct taut_op *op)
{
	return tauti_is_work(op->kind) &&
		tauti_is_device_op(op->kind) == w->job->has_device;
}

static taut_status change(struct tauti_whatif *w, const uint8_t *norm,
	const uint8_t *activation, double factor, uint32_t *found,
	struct taut_error *err)
{
	uint32_t n = taut_edit_ops(w->edit);
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < n; i++) {
		struct taut_op op;

		if (!taut_edit_op(w->edit, i, &op) || !is_place(w, &op))
			continue;
		if (tauti_picked(norm, &op)) {
			++*found;
			status = tauti_scale_op(w, i, &op, factor, err);
		} else if (tauti_picked(activation, &op)) {
			status = taut_edit_set_dur(w->edit, i, 0, err);
		}
	}
	return status;
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	uint8_t *norm, *activation;
	uint32_t found = 0, how;
	taut_status status = tauti_param_word(c, HOW, &how, err);

	if (!status)
		status = tauti_pick(w, is_norm, NULL, &norm, err);
	if (!status)
		status = tauti_pick(w, is_activation, NULL, &activation, err);
	if (!status)
		status = change(w, norm, activation,
			tauti_range(w, 0.35, 0.5, 0.85), &found, err);
	if (!status && !found)
		status = taut_error_set(err, TAUT_EINVAL, -1, "%s: the "
			"recording has no batch normalisation", c->text);
	return status;
}

const struct tauti_transformation tauti_whatif_batchnorm = {
	.info = {
		.name = "batchnorm", .group = "compute",
		.summary = "batch normalisation fused with its neighbours",
		.assumption = "each activation follows a normalisation and is "
			"fused into it; normalisations take half of their time",
		.source = "Daydream (ATC'20): reconstructed batch "
			"normalisation",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};

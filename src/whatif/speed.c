/* speed.c - a faster or slower host or device. */
#include "whatif/compute.h"

enum { SPEED };

static const struct taut_parameter parameters[] = {
	{ "", "FACTOR", NULL, "of its speed: 2x is twice as fast" },
};

static taut_status change_speed(struct tauti_whatif *w,
	const struct tauti_change *c, bool device, struct taut_error *err)
{
	uint32_t n = taut_edit_ops(w->edit);
	double factor;
	taut_status status = tauti_param_factor(c, SPEED, &factor, err);

	for (uint32_t i = 0; !status && i < n; i++) {
		struct taut_op op;

		if (taut_edit_op(w->edit, i, &op) && tauti_is_work(op.kind) &&
			tauti_is_device_op(op.kind) == device)
			status = tauti_scale_op(w, i, &op, 1 / factor, err);
	}
	return status;
}

static taut_status apply_host(struct tauti_whatif *w,
	const struct tauti_change *c, struct taut_error *err)
{
	return change_speed(w, c, false, err);
}

static taut_status apply_device(struct tauti_whatif *w,
	const struct tauti_change *c, struct taut_error *err)
{
	if (!w->job->has_device)
		return taut_error_set(err, TAUT_EINVAL, -1, "%s: the recording "
			"has no work of a device", c->text);
	return change_speed(w, c, true, err);
}

const struct tauti_transformation tauti_whatif_host = {
	.info = {
		.name = "host", .group = "compute",
		.summary = "hosts of another speed",
		.assumption = "all that threads do, loaders too, takes "
			"1 / FACTOR of its time; sleeping and reading would "
			"not, but a recording does not tell them apart",
		.source = "Daydream (ATC'20): scale",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply_host,
};

const struct tauti_transformation tauti_whatif_device = {
	.info = {
		.name = "device", .group = "compute",
		.summary = "devices of another speed",
		.assumption = "every kernel and copy takes 1 / FACTOR of its "
			"time; communication is not a device's",
		.source = "Daydream (ATC'20): scale",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply_device,
};

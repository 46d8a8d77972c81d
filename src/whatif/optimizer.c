/* optimizer.c - the update of the weights fused into one kernel, or for
 * nothing. Daydream's FusedAdam: the kernels of an update become one that takes
 * the sum of their time, and what launched the others is gone. On a host the
 * calls are gone, and what is left is passes over memory, of which a fused
 * update makes fewer. */
#include "whatif/compute.h"

enum { HOW };
enum { FUSED, FREE };

static const struct taut_parameter parameters[] = {
	{ "", "fused|free", NULL, "fused: one kernel; free: no time at all, a "
		"bound" },
};

static const double call_ns = 4000; /* an operator's call on a host */

struct fuser {
	struct tauti_whatif *w;
	uint32_t how;
	uint32_t found;
	double device; /* of the kernels' time, left */
	double memory; /* of a host operator's time beside its call, left */
	double host;   /* of the host's time beside a device, left */
	struct tauti_own_steps steps;
	struct fused { /* by these: the kernel that stands for all */
		uint32_t op;
		int64_t sum_ns;
	} *fused;
};

static taut_status fuse_kernel(struct fuser *f, uint32_t i,
	const struct taut_op *op, struct taut_error *err)
{
	uint32_t step = tauti_own_step(f->w, &f->steps, op);
	struct fused *to = step == TAUT_NONE ? NULL : &f->fused[step];

	if (!to || f->how == FREE)
		return tauti_vanish(f->w, i, op, err);
	to->sum_ns += op->dur_ns;
	if (to->op != TAUT_NONE)
		return tauti_vanish(f->w, i, op, err);
	to->op = i;
	return TAUT_OK;
}

static taut_status shorten_host(struct fuser *f, uint32_t i,
	const struct taut_op *op, struct taut_error *err)
{
	double dur = (double)op->dur_ns;

	if (f->how == FREE)
		dur = 0;
	else if (f->w->job->has_device)
		dur *= f->host;
	else
		dur = fmax(0, dur - call_ns) * f->memory;
	return taut_edit_set_dur(f->w->edit, i, llround(dur), err);
}

static taut_status change_ops(struct fuser *f, struct taut_error *err)
{
	const struct tauti_whatif *w = f->w;
	uint32_t n = taut_edit_ops(w->edit);
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < n; i++) {
		struct taut_op op;

		if (!taut_edit_op(w->edit, i, &op) ||
			!tauti_is_work(op.kind) ||
			tauti_op_phase(w, &op) != TAUTI_PHASE_OPTIMIZER)
			continue;
		f->found++;
		status = tauti_is_device_op(op.kind) ?
			fuse_kernel(f, i, &op, err) :
			shorten_host(f, i, &op, err);
	}
	return status;
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	struct fuser f = { .w = w, .device = tauti_range(w, 0.35, 1, 1),
		.memory = tauti_range(w, 0.35, 0.6, 1),
		.host = tauti_range(w, 0.02, 0.1, 0.4) };
	taut_status status = tauti_param_word(c, HOW, &f.how, err);

	if (!status)
		status = tauti_own_steps_find(w, &f.steps, err);
	if (status)
		return status;
	f.fused = TAUT_ARENA_ARRAY(
		w->arena, struct fused, (size_t)f.steps.n + 1);
	if (!f.fused)
		return tauti_no_memory(err, "updates");
	for (uint32_t s = 0; s < f.steps.n; s++)
		f.fused[s].op = TAUT_NONE;
	status = change_ops(&f, err);
	for (uint32_t s = 0; !status && s < f.steps.n; s++)
		if (f.fused[s].op != TAUT_NONE)
			status = taut_edit_set_dur(w->edit, f.fused[s].op,
				llround((double)f.fused[s].sum_ns * f.device),
				err);
	if (!status && !f.found)
		status = taut_error_set(err, TAUT_EINVAL, -1, "%s: the "
			"recording does not show where weights are updated",
			c->text);
	return status;
}

const struct tauti_transformation tauti_whatif_optimizer = {
	.info = {
		.name = "optimizer", .group = "compute",
		.summary = "the update of the weights fused, or free",
		.assumption = "a fused update takes no longer than its kernels "
			"did together, and a tenth of the host's time is left; "
			"on a host it makes 0.6 of their passes over memory, "
			"and no calls",
		.source = "Daydream (ATC'20): FusedAdam",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};

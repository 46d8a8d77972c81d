/* graphs.c - CUDA graphs: the kernels of a pass are launched together. The
 * host's part of the forward and backward pass goes; one launch is left for
 * each. What is bound by its host shows how fast its device could be. */
#include "whatif/compute.h"

struct recorder {
	struct tauti_whatif *w;
	int64_t launch_ns;
	struct tauti_own_steps steps;
	uint8_t *launched; /* by these, bit of phase: its launch stands */
	uint8_t *begun;    /* by these: a kernel of a pass was launched */
	uint32_t n_hosts;
	uint32_t n_kept;   /* waits of the host that no graph can hold */
};

struct neighbour { /* of an operation: what waits for it, or it for */
	const struct tauti_whatif *w;
	bool kernel; /* launched by it */
	bool device; /* waited for by its host */
};

static void see(void *context, struct taut_wait wait)
{
	struct neighbour *n = context;
	struct taut_op op;

	if (!taut_edit_op(n->w->edit, wait.op, &op) ||
		taut_edit_lane(n->w->edit, op.lane).kind != TAUT_LANE_STREAM)
		return;
	switch (wait.kind & ~TAUT_EDGE_FROM_START) {
	case TAUT_EDGE_LAUNCH:
		n->kernel |= op.kind == TAUT_OP_KERNEL;
		break;
	case TAUT_EDGE_SYNC:
		n->device = true;
		break;
	default:
		break;
	}
}

/* A wait for the device within a pass. One before the first kernel of the
 * forward pass is for the step before, or for the batch; and what is left of a
 * call may have waited for another thread. */
static bool is_kept(struct recorder *r, uint32_t i, const struct taut_op *op,
	enum tauti_phase phase)
{
	uint32_t step = tauti_own_step(r->w, &r->steps, op);
	struct neighbour n = { .w = r->w };

	if (op->kind == TAUT_OP_LAUNCH && step != TAUT_NONE) {
		taut_edit_each_out(r->w->edit, i, see, &n);
		r->begun[step] |= n.kernel;
	}
	if (op->kind != TAUT_OP_RETURN || (phase == TAUTI_PHASE_FORWARD &&
		step != TAUT_NONE && !r->begun[step]))
		return false;
	taut_edit_each_in(r->w->edit, i, see, &n);
	return n.device;
}

/* What is left of a launch that waited for room in the device's queue: a graph is one
 * launch. */
static bool is_of_full_queue(
	const struct recorder *r, uint32_t i, const struct taut_op *op)
{
	struct neighbour n = { .w = r->w };
	uint32_t before = taut_edit_before(r->w->edit, i);
	struct taut_op launch;

	if (op->kind != TAUT_OP_RETURN || before == TAUT_NONE ||
		!taut_edit_op(r->w->edit, before, &launch) ||
		launch.kind != TAUT_OP_LAUNCH || launch.event != op->event)
		return false;
	taut_edit_each_out(r->w->edit, before, see, &n);
	return n.kernel;
}

/* The first slice of a pass in a step stands for the launch. */
static taut_status shorten(struct recorder *r, uint32_t i,
	const struct taut_op *op, enum tauti_phase phase, struct taut_error *err)
{
	uint32_t step = tauti_own_step(r->w, &r->steps, op);
	uint8_t bit = (uint8_t)(1u << phase);
	int64_t left = 0;

	if (step != TAUT_NONE && !(r->launched[step] & bit)) {
		r->launched[step] |= bit;
		left = r->launch_ns;
	}
	r->n_hosts++;
	return taut_edit_set_dur(r->w->edit, i, left, err);
}

static taut_status shorten_all(struct recorder *r, struct taut_error *err)
{
	const struct tauti_whatif *w = r->w;
	uint32_t n = taut_edit_ops(w->edit);
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < n; i++) {
		struct taut_op op;
		enum tauti_phase phase;

		if (!taut_edit_op(w->edit, i, &op) ||
			!tauti_is_work(op.kind) || tauti_is_device_op(op.kind))
			continue;
		phase = tauti_op_phase(w, &op);
		if (phase != TAUTI_PHASE_FORWARD &&
			phase != TAUTI_PHASE_BACKWARD)
			continue;
		if (is_of_full_queue(r, i, &op)) {
			status = taut_edit_cut(w->edit, i, err);
			continue;
		}
		r->n_kept += is_kept(r, i, &op, phase);
		status = shorten(r, i, &op, phase, err);
	}
	return status;
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	struct recorder r = { .w = w,
		.launch_ns = llround(tauti_range(w, 5e3, 12e3, 60e3)) };
	taut_status status;

	if (!w->job->has_device)
		return taut_error_set(err, TAUT_EINVAL, -1, "%s: the recording "
			"has no work of a device that could be put into a "
			"graph", c->text);
	status = tauti_own_steps_find(w, &r.steps, err);
	if (status)
		return status;
	r.launched = TAUT_ARENA_ARRAY(
		w->arena, uint8_t, (size_t)r.steps.n + 1);
	r.begun = TAUT_ARENA_ARRAY(w->arena, uint8_t, (size_t)r.steps.n + 1);
	if (!r.launched || !r.begun)
		return tauti_no_memory(err, "launches");
	status = shorten_all(&r, err);
	if (!status && !r.n_hosts)
		status = taut_error_set(err, TAUT_EINVAL, -1, "%s: no forward "
			"or backward pass was found in the recording", c->text);
	if (!status && r.n_kept)
		status = tauti_note(w, err, "%s: " TAUTI_WAITS_WITHIN
			", which no graph can hold; these waits are kept",
			c->text);
	return status;
}

const struct tauti_transformation tauti_whatif_graphs = {
	.info = {
		.name = "graphs", .group = "compute",
		.summary = "CUDA graphs: hosts do not hold devices back",
		.assumption = "forward and backward pass are captured, one "
			"launch each; kernels take as long, and gaps between "
			"them that no launch explains stay",
		.source = "host-bound removal; Daydream (ATC'20): remove",
	},
	.apply = apply,
};

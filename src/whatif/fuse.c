/* fuse.c - chains of pointwise kernels become one. What bounds them is memory:
 * of a chain on a stream only the longest pass is left, as a bound, for a fused
 * kernel reads and writes once. */
#include "whatif/kernels.h"

enum { WHAT };

static const struct taut_parameter parameters[] = {
	{ "", "elementwise", "elementwise", "what is fused" },
};

struct fuser {
	struct tauti_whatif *w;
	struct taut_error *err;
	double rest;   /* of what the others of a chain take */
	uint32_t head; /* of the chain at hand; TAUT_NONE */
	int64_t longest_ns, sum_ns;
	enum tauti_phase phase;
	uint32_t n_fused, n_chains;
};

static bool is_pointwise(const struct tauti_whatif *w, const struct taut_op *op)
{
	enum tauti_kernel_class is;

	if (op->kind != TAUT_OP_KERNEL)
		return false;
	is = tauti_kernel_class(taut_names_text(w->graph->names, op->name));
	return is == TAUTI_KERNEL_POINTWISE || is == TAUTI_KERNEL_ACTIVATION;
}

static void see(void *context, struct taut_wait wait)
{
	(void)wait;
	++*(uint32_t *)context;
}

static bool is_waited_for(const struct tauti_whatif *w, uint32_t op)
{
	uint32_t n = 0;

	taut_edit_each_out(w->edit, op, see, &n);
	return n > 0;
}

static void see_launch(void *context, struct taut_wait wait)
{
	if ((wait.kind & ~TAUT_EDGE_FROM_START) == TAUT_EDGE_LAUNCH)
		*(uint32_t *)context = wait.op;
}

/* Adds a kernel to the chain at hand; its launch is gone. */
static taut_status join(struct fuser *f, uint32_t i, const struct taut_op *op)
{
	uint32_t by = TAUT_NONE;
	struct taut_op call;
	taut_status status = TAUT_OK;

	f->sum_ns += op->dur_ns;
	if (op->dur_ns > f->longest_ns)
		f->longest_ns = op->dur_ns;
	taut_edit_each_in(f->w->edit, i, see_launch, &by);
	if (by != TAUT_NONE && taut_edit_op(f->w->edit, by, &call))
		status = taut_edit_set_dur(f->w->edit, by, 0, f->err);
	f->n_fused++;
	return status ? status : tauti_vanish(f->w, i, op, f->err);
}

static taut_status close_chain(struct fuser *f)
{
	uint32_t head = f->head;
	double rest = (double)(f->sum_ns - f->longest_ns) * f->rest;

	f->head = TAUT_NONE;
	if (head == TAUT_NONE || f->sum_ns == f->longest_ns)
		return TAUT_OK;
	f->n_chains++;
	return taut_edit_set_dur(f->w->edit, head,
		f->longest_ns + llround(rest), f->err);
}

static taut_status see_op(struct fuser *f, uint32_t i, const struct taut_op *op)
{
	enum tauti_phase phase = tauti_op_phase(f->w, op);
	taut_status status = TAUT_OK;

	if (f->head != TAUT_NONE && is_pointwise(f->w, op) &&
		phase == f->phase) {
		bool ends = is_waited_for(f->w, i);

		if (!ends)
			return join(f, i, op);
	}
	status = close_chain(f);
	if (!status && is_pointwise(f->w, op) && !is_waited_for(f->w, i)) {
		f->head = i;
		f->phase = phase;
		f->sum_ns = f->longest_ns = op->dur_ns;
	}
	return status;
}

static taut_status fuse_lane(struct fuser *f, uint32_t lane)
{
	taut_status status = TAUT_OK;

	f->head = TAUT_NONE;
	for (uint32_t i = taut_edit_first(f->w->edit, lane), next;
		!status && i != TAUT_NONE; i = next) {
		struct taut_op op;

		next = taut_edit_next(f->w->edit, i);
		if (taut_edit_op(f->w->edit, i, &op))
			status = see_op(f, i, &op);
	}
	return status ? status : close_chain(f);
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	struct fuser f = { .w = w, .err = err,
		.rest = tauti_range(w, 0, 0.15, 0.6) };
	taut_status status = TAUT_OK;

	for (uint32_t l = 0; !status && l < taut_edit_lanes(w->edit); l++)
		if (taut_edit_lane(w->edit, l).kind == TAUT_LANE_STREAM)
			status = fuse_lane(&f, l);
	if (!status && !f.n_chains)
		status = taut_error_set(err, TAUT_EINVAL, -1, "%s: the "
			"recording has no pointwise kernels behind each other "
			"on a stream", c->text);
	if (!status)
		status = tauti_note(w, err, "%s: %u kernels joined the one "
			"before them, in %u chains", c->text, f.n_fused,
			f.n_chains);
	return status;
}

const struct tauti_transformation tauti_whatif_fuse = {
	.info = {
		.name = "fuse", .group = "compute",
		.summary = "chains of pointwise kernels become one kernel",
		.assumption = "neighbours on a stream work on the same data; "
			"the fused kernel takes as long as its longest part "
			"and little more; launches of the others are gone",
		.source = "memory-bound fusion, as compilers do it (XLA, "
			"TorchInductor)",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};

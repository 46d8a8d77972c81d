/* amp.c - mixed precision: kernels of the forward and backward pass in 16 bits, as
 * autocast puts them.
 *
 *     product    max(t / (ratio reach), b / 2 rate) + latency
 *
 * t is what it took, ratio that of the device's peaks (peaks.h) for what the kernel
 * multiplied in, reach how much of it large products see, b the bytes that its
 * operator moves, at the rate of what is done one by one (Williams et al., CACM
 * 2009), latency what it takes to fill the device. Of what else was computed, that
 * latency stays and the rest takes a share, by what kernels are for: autocast keeps
 * norms in 32 bits. Casts come new (casts.h). */
#include "whatif/casts.h"
#include "whatif/kernels.h"
#include "whatif/peaks.h"

enum { TYPE };
enum { FP16, BF16 };

static const struct taut_parameter parameters[] = {
	{ "", "fp16|bf16", "bf16", "the narrow type" },
};

static const double latency_ns = 3000; /* of a product */
static const double pass_ns = 2000;    /* of anything else */

/* From the faster to the slower end. On an H100, from 32 bits to bf16: large products
 * of a BERT reached 0.8 to 1 of the ratio of peaks, its attention 0.29. */
struct ends {
	double low, central, high;
};
static const struct ends reach = { 1.05, 0.85, 0.55 };
static const struct ends attends = { 0.6, 0.3, 0.15 };
static const struct ends unknown = { 1 / 20.0, 1 / 3.0, 0.6 }; /* Daydream */

static const struct ends cast_ends = { 0.7, 1, 1.4 }; /* of what is reckoned */
static const struct ends call_ends = { 0.5, 1, 1.6 };

/* What of a kernel's time is left; the first that its name holds counts. */
static const struct rule {
	const char *word;
	struct ends left;
} rules[] = {
	{ "layer_norm", { 0.8, 1, 1.1 } }, /* autocast: in 32 bits */
	{ "GammaBeta", { 0.8, 1, 1.1 } },
	{ "group_norm", { 0.8, 1, 1.1 } },
	{ "rms_norm", { 0.8, 1, 1.1 } },
	{ "embedding", { 0.9, 1, 1.1 } },
	{ "multi_tensor_apply", { 0.9, 1, 1.1 } },
	{ "softmax", { 0.5, 0.6, 1 } }, /* in 32 bits too, but reads 16 */
	{ "reduce_kernel", { 0.5, 0.75, 1.1 } },
	{ "ToNhwc", { 0.5, 0.8, 1.1 } }, /* cuDNN's changes of layout */
	{ "ToNchw", { 0.5, 0.8, 1.1 } },
	{ "max_pool", { 0.5, 0.9, 1.1 } },
	{ "", { 0.45, 0.6, 0.9 } },
};
/* PyTorch leaves batch norm of bf16 to kernels of its own (batch_norm, in
 * Normalization.cpp), which read more often than cuDNN's. */
static const struct ends norm_of_its_own = { 0.6, 1, 1.5 };

struct narrower {
	struct tauti_whatif *w;
	struct taut_rooflines *rooflines;
	struct tauti_casts casts;
	const struct ends **left; /* by name; NULL: not looked up yet */
	uint32_t type;
	double at; /* -1 the faster end of all ranges, 1 the slower */
	const struct taut_device *device; /* of the last product; NULL */
	struct tauti_peaks peaks;
	double wide_ns, narrow_ns; /* of matrix products, before */
	double left_ns;            /* of those that were wide, after */
	double cast_ns, host_ns, n_casts;
	uint32_t n_unknown; /* products of a device that no table has */
};

static double end_of(const struct narrower *n, struct ends e)
{
	double to = n->at < 0 ? e.low : e.high;

	return e.central + fabs(n->at) * (to - e.central);
}

/* --- kernels ---------------------------------------------------------------------*/

static const struct ends *ends_of(const struct narrower *n, uint32_t id)
{
	const char *name = taut_names_text(n->w->graph->names, id);
	size_t i = 0;

	if (n->type == BF16 && tauti_kernel_of(n->w, id).class ==
		TAUTI_KERNEL_NORM && strcasestr(name, "cudnn"))
		return &norm_of_its_own;
	while (!strcasestr(name, rules[i].word))
		i++;
	return &rules[i].left;
}

static double pass_left(const struct narrower *n, uint32_t name, double ns)
{
	double stays = fmin(ns, pass_ns);

	if (!n->left[name])
		n->left[name] = ends_of(n, name);
	return stays + (ns - stays) * end_of(n, *n->left[name]);
}

/* How many times as fast its multiplications are. */
static double times_of(struct narrower *n, const struct tauti_kernel *kernel)
{
	double ratio = kernel->arithmetic == TAUTI_IN_TF32 ?
		n->peaks.of_tf32 : n->peaks.of_single;

	if (!n->device || !(ratio > 0)) {
		n->n_unknown++;
		return 1 / end_of(n, unknown);
	}
	if (kernel->is_attention)
		return fmax(1, n->peaks.of_single * end_of(n, attends));
	return fmax(1, ratio * end_of(n, reach));
}

/* How long it takes as it is now / as recorded: another batch moves as much more. */
static double grown(const struct narrower *n, const struct taut_op *op)
{
	int64_t was = n->w->costs->dur_ns[op->like];

	return was > 0 ? (double)op->dur_ns / (double)was : 1;
}

/* What moving half of its bytes takes, of this kernel of its operator. */
static double move_ns(const struct narrower *n, const struct taut_op *op)
{
	uint32_t row = n->rooflines->row_of[op->like];
	const struct taut_opwork_row *is;

	if (row == TAUT_NONE)
		return 0;
	is = &n->rooflines->rows[row];
	if (!(is->time_ns > 0))
		return 0;
	return is->work.bytes / 2 * n->casts.pass_ns_per_byte *
		(double)op->dur_ns / is->time_ns;
}

static double product_left(struct narrower *n, const struct taut_op *op,
	const struct tauti_kernel *kernel)
{
	double ns = (double)op->dur_ns, by = ns / times_of(n, kernel);

	return fmin(ns, fmax(by, move_ns(n, op)) + fmin(ns, latency_ns));
}

/* --- casts -----------------------------------------------------------------------*/

static void see_launch(void *context, struct taut_wait wait)
{
	if ((wait.kind & ~TAUT_EDGE_FROM_START) == TAUT_EDGE_LAUNCH)
		*(uint32_t *)context = wait.op;
}

/* On the host that launches the kernel, unless a graph did or its time has been
 * taken away. */
static taut_status add_calls(struct narrower *n, uint32_t i,
	const struct tauti_cast *c, struct taut_error *err)
{
	uint32_t by = TAUT_NONE;
	double ns = (c->weights + c->inputs) * n->casts.host_ns *
		end_of(n, call_ends);
	struct taut_op call;

	taut_edit_each_in(n->w->edit, i, see_launch, &by);
	if (by == TAUT_NONE || !taut_edit_op(n->w->edit, by, &call) ||
		!call.dur_ns || strcasestr(taut_names_text(
			n->w->graph->names, call.name), "graphlaunch"))
		return TAUT_OK;
	n->host_ns += ns;
	return taut_edit_set_dur(
		n->w->edit, by, tauti_ns((double)call.dur_ns + ns), err);
}

/* Casts of weights stand before the product, and are as long whatever the batch. */
static taut_status add_casts(struct narrower *n, uint32_t i,
	const struct taut_op *op, struct taut_error *err)
{
	const struct tauti_cast *c = &n->casts.of[op->like];
	double weights_ns = c->weights_ns * end_of(n, cast_ends);
	struct taut_op cast = { .dur_ns = tauti_ns(weights_ns), .lane = op->lane,
		.kind = TAUT_OP_KERNEL, .event = TAUT_NONE,
		.collective = TAUT_NONE, .like = TAUT_NONE };
	uint32_t unused;
	taut_status status = TAUT_OK;

	n->n_casts += c->weights + c->inputs;
	n->cast_ns += weights_ns + c->inputs_ns * grown(n, op);
	if (cast.dur_ns > 0)
		status = taut_edit_insert(n->w->edit,
			taut_edit_before(n->w->edit, i), &cast,
			"casts of weights", &unused, err);
	return status ? status : add_calls(n, i, c, err);
}

/* It takes so long from now on, and the casts of its input. */
static taut_status set_left(struct narrower *n, uint32_t i,
	const struct taut_op *op, double left_ns, struct taut_error *err)
{
	double inputs_ns = n->casts.of[op->like].inputs_ns * grown(n, op) *
		end_of(n, cast_ends);
	taut_status status = taut_edit_set_dur(
		n->w->edit, i, tauti_ns(left_ns + inputs_ns), err);

	return status ? status : add_casts(n, i, op, err);
}

/* --- all of it -------------------------------------------------------------------*/

static taut_status check_type(const struct narrower *n,
	const struct tauti_change *c, struct taut_error *err)
{
	if (!n->device || n->type == FP16 || n->peaks.has_bf16)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EINVAL, -1, "%s: %s multiplies fp16 "
		"alone on its tensor cores; amp=fp16 is that", c->text,
		n->device->name);
}

static taut_status narrow_product(struct narrower *n, uint32_t i,
	const struct taut_op *op, const struct tauti_kernel *kernel,
	const struct tauti_change *c, struct taut_error *err)
{
	const struct taut_device *device = tauti_device_of(n->w, op->lane);
	double left;
	taut_status status;

	if (!n->device || n->device != device)
		n->device = tauti_peaks_of(device, &n->peaks) ? device : NULL;
	status = check_type(n, c, err);
	if (status)
		return status;
	left = product_left(n, op, kernel);
	n->wide_ns += (double)op->dur_ns;
	n->left_ns += left;
	return set_left(n, i, op, left, err);
}

static taut_status narrow_op(struct narrower *n, uint32_t i,
	const struct taut_op *op, const struct tauti_change *c,
	struct taut_error *err)
{
	struct tauti_kernel kernel = tauti_kernel_of(n->w, op->name);
	bool math = kernel.class == TAUTI_KERNEL_MATH;

	if (kernel.arithmetic == TAUTI_IN_HALF) {
		n->narrow_ns += math ? (double)op->dur_ns : 0;
		return TAUT_OK;
	}
	if (math)
		return narrow_product(n, i, op, &kernel, c, err);
	return set_left(
		n, i, op, pass_left(n, op->name, (double)op->dur_ns), err);
}

static taut_status narrow(struct narrower *n, const struct tauti_change *c,
	struct taut_error *err)
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
			status = narrow_op(n, i, &op, c, err);
	}
	return status;
}

static taut_status say_device(const struct narrower *n,
	const struct tauti_change *c, struct taut_error *err)
{
	if (n->n_unknown)
		return tauti_note(n->w, err, "%s: the recording does not tell a "
			"device whose peaks are known; matrix products are "
			"taken to need a third of their time, which may be a "
			"twentieth", c->text);
	return tauti_note(n->w, err, "%s: %s multiplies %.3g times as fast in "
		"16 bits as in 32, and %.2g times as fast as in TF32; of that, "
		"large products are taken to see %.0f %%, attention %.0f %%",
		c->text, n->device->name, n->peaks.of_single, n->peaks.of_tf32,
		100 * reach.central, 100 * attends.central);
}

static taut_status say(const struct narrower *n, const struct tauti_change *c,
	struct taut_error *err)
{
	double steps = n->w->graph->n_steps ? n->w->graph->n_steps : 1;
	taut_status status = say_device(n, c, err);

	if (!status)
		status = tauti_note(n->w, err, "%s: matrix products of %.3g ms "
			"become %.3g ms (those of %.3g ms were narrow already)",
			c->text, n->wide_ns / 1e6, n->left_ns / 1e6,
			n->narrow_ns / 1e6);
	return status ? status : tauti_note(n->w, err, "%s: some %.0f casts a step "
		"are new, %.2g ms of a device and %.2g ms of its host%s; the "
		"scaling of losses is not counted", c->text, n->n_casts / steps,
		n->cast_ns / steps / 1e6, n->host_ns / steps / 1e6,
		n->rooflines->n_rows ? "" : " (without sizes of inputs, which "
		"were not recorded)");
}

static taut_status prepare(struct narrower *n, struct taut_error *err)
{
	taut_status status = taut_rooflines_create(
		n->w->graph, n->w->costs->dur_ns, &n->rooflines, err);

	n->left = TAUT_ARENA_ARRAY(n->w->arena, const struct ends *,
		(size_t)taut_names_count(n->w->graph->names) + 1);
	if (!status && !n->left)
		status = tauti_no_memory(err, "kernels");
	return status ? status : tauti_casts_find(
		n->w, n->rooflines, &n->casts, err);
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	struct narrower n = { .w = w, .at = tauti_range(w, -1, 0, 1) };
	taut_status status = tauti_param_word(c, TYPE, &n.type, err);

	if (!status && !w->job->has_device)
		return taut_error_set(err, TAUT_EINVAL, -1, "%s: mixed "
			"precision is modelled for kernels of a device, and "
			"this recording has none", c->text);
	if (!status)
		status = prepare(&n, err);
	if (!status)
		status = narrow(&n, c, err);
	if (!status && !(n.wide_ns > 0))
		status = taut_error_set(err, TAUT_EINVAL, -1, "%s: the recording "
			"has no matrix products in 32 bits%s", c->text,
			n.narrow_ns > 0 ? "; it computes in 16 bits already" : "");
	if (!status)
		status = say(&n, c, err);
	taut_rooflines_destroy(n.rooflines);
	return status;
}

const struct tauti_transformation tauti_whatif_amp = {
	.info = {
		.name = "amp", .group = "compute",
		.summary = "mixed precision, as PyTorch's autocast does it",
		.assumption = "matrix products follow the peaks of the device "
			"that was recorded, what moves memory takes about 0.6 "
			"of its time, norms all of it; casts come new; weights "
			"are updated and gradients sent in 32 bits as before",
		.source = "Daydream (ATC'20): AMP; peaks: NVIDIA's white papers "
			"on its architectures",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};

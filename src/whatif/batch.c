/* batch.c - batches of another size.
 *
 * Of each operation of the forward and backward pass a part stays and the rest
 * grows with the batch:
 *     new = old * (s + (1 - s) * factor)
 * Where sizes were recorded, the operator's roofline says how much (growth.h).
 * Else, on a host, s is the layer's pass over its weights (weights.h), once
 * forward, twice backward, and what it costs to call an operator at all; on a
 * device it is the shortest time that a kernel can take. Updates of weights and
 * gradients on the wire do not depend on the batch; work of loaders does. */
#include "whatif/growth.h"
#include "whatif/weights.h"

enum { FACTOR, BY };
enum { BY_BOTH, BY_SIZES, BY_WEIGHTS };

static const struct taut_parameter parameters[] = {
	{ "", "FACTOR", NULL, "of the samples a rank and step: 2x, 0.5x, +25%" },
	{ "by", "both|sizes|weights", "both", "what tells how operators grow" },
};

static const double call_ns = 2000;   /* of one operator on a host */
static const double kernel_ns = 3000; /* no kernel is shorter */
static const double told = 0.7;       /* error of a roof that is believed */

struct scaler {
	struct tauti_whatif *w;
	const uint8_t *only; /* by op of the graph: these alone; NULL: all */
	struct tauti_weights weights;
	uint8_t *fixed;   /* by op of the graph: not of the batch at all */
	uint8_t *packs;   /* by op: its weights are packed anew on each call */
	double factor;
	double passes[2]; /* over the weights: forward, backward */
	double packing[2]; /* the same of layers that pack theirs */
	double flat;      /* share that stays of anything */
	double stays;     /* of what stays by its sizes: more of it */
	struct tauti_growth growth;
	uint32_t by;
	int64_t grows_ns; /* of all operations that do not stay as they are */
};

/* Gradients are of one size whatever the batch. */
static bool is_of_weights(const void *context, const char *name)
{
	(void)context;
	return strstr(name, "AccumulateGrad") || strstr(name, "reducer::") ||
		!strncmp(name, "c10d::", 6) || strstr(name, "zero_grad") ||
		strstr(name, "flatten_dense_tensors");
}

/* oneDNN's recurrent layers: the time that no batch takes away was 5 copies of
 * the weights forward and 13 backward, from layers of 512 at batches of 6 to 48
 * and sequences of 6. */
static bool is_packed(const void *context, const char *name)
{
	(void)context;
	return strstr(name, "mkldnn_rnn_layer") ||
		strstr(name, "MkldnnRnnLayer");
}

static double host_share(const struct scaler *s, const struct taut_op *op,
	bool backward)
{
	double dur = (double)op->dur_ns, share = s->flat;

	if (dur <= call_ns)
		return 1;
	share += s->weights.share[op->like] * (tauti_picked(s->packs, op) ?
		s->packing : s->passes)[backward];
	share += call_ns / dur;
	return share < 1 ? share : 1;
}

static double device_share(const struct scaler *s, const struct taut_op *op)
{
	double dur = (double)op->dur_ns, share = s->flat;

	if (dur <= kernel_ns)
		return 1;
	share += kernel_ns / dur;
	return share < 1 ? share : 1;
}

/* Forward, backward, and what puts a batch onto a device; not its updates. */
static bool is_of_batch(const struct scaler *s, const struct taut_op *op)
{
	enum tauti_phase phase = tauti_op_phase(s->w, op);
	bool device = tauti_is_device_op(op->kind);

	if (op->like == TAUT_NONE || tauti_picked(s->fixed, op) ||
		(s->only && !tauti_picked(s->only, op)) ||
		op->kind == TAUT_OP_RETURN || device != s->w->job->has_device)
		return false;
	return phase == TAUTI_PHASE_FORWARD || phase == TAUTI_PHASE_BACKWARD ||
		(device && phase == TAUTI_PHASE_DATA);
}

/* The share of an operation that stays; 1: all of it. */
static double share_of(const struct scaler *s, const struct taut_op *op)
{
	if (s->w->job->has_device)
		return device_share(s, op);
	return host_share(s, op,
		tauti_op_phase(s->w, op) == TAUTI_PHASE_BACKWARD);
}

/* An operator that computes, perhaps, and whose sizes nobody wrote. */
static bool is_unsized(const struct scaler *s, const struct taut_op *op)
{
	uint32_t row;
	const struct taut_trace *t = tauti_op_trace(s->w, op->like, &row);

	return t && t->kind[row] == TAUT_KIND_OP &&
		(!t->sizes || !t->sizes[row]) &&
		!strncmp(taut_trace_name(t, row), "aten::", 6);
}

/* Where all that was seen of an operator had much the same flops for a byte, a
 * fit cannot tell one roof from the other, and so not what its weights cost;
 * DDP's copies can. 0: sizes do not tell. */
static double by_sizes(const struct scaler *s, const struct taut_op *op)
{
	const struct taut_rooflines *r = s->growth.rooflines;
	uint32_t row = r->row_of[op->like];

	if (s->by == BY_WEIGHTS || !s->growth.n_told)
		return 0;
	if (row == TAUT_NONE) /* else a call of others, or time between them */
		return s->w->job->has_device || is_unsized(s, op) ? 0 : 1;
	if (s->by == BY_BOTH && s->weights.share[op->like] > 0 &&
		!(r->fits[r->rows[row].fit].roofline.byte_error < told))
		return 0;
	return s->growth.factor[row];
}

/* What of an operation stays, by its sizes where they tell. */
static double stays(const struct scaler *s, const struct taut_op *op)
{
	double by = s->factor == 1 ? 0 : by_sizes(s, op), share;

	if (by <= 0)
		return share_of(s, op);
	share = (s->factor - by) / (s->factor - 1);
	return share + (1 - share) * (s->stays * share + s->flat - 0.03);
}

static taut_status scale_ops(struct scaler *s, struct taut_error *err)
{
	uint32_t n = taut_edit_ops(s->w->edit);
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < n; i++) {
		struct taut_op op;
		double share;

		if (!taut_edit_op(s->w->edit, i, &op) ||
			!tauti_is_work(op.kind) || !is_of_batch(s, &op) ||
			taut_edit_lane(s->w->edit, op.lane).is_comm ||
			tauti_is_load_lane(s->w, op.lane))
			continue;
		share = stays(s, &op);
		if (share < 1 && s->grows_ns < (int64_t)1 << 61)
			s->grows_ns += op.dur_ns;
		/* What stays is doubted by a few hundredths: of a tiny batch
		 * that must not be less than nothing. */
		status = tauti_scale_op(s->w, i, &op,
			fmax(share + (1 - share) * s->factor, 0), err);
	}
	return status;
}

/* --- the loader ------------------------------------------------------------------ */

static taut_status scale_own_loading(struct scaler *s,
	const struct tauti_take *take, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = take->first; !status;
		i = taut_edit_next(s->w->edit, i)) {
		struct taut_op op;

		if (taut_edit_op(s->w->edit, i, &op) &&
			!tauti_is_device_op(op.kind))
			status = tauti_scale_op(s->w, i, &op, s->factor, err);
		if (i == take->last)
			break;
	}
	return status;
}

static taut_status scale_loading(
	struct scaler *s, uint32_t rank, struct taut_error *err)
{
	struct tauti_batches b;
	int64_t *dur_ns;
	taut_status status = tauti_batches_find(s->w, rank, &b, err);

	if (status)
		return status;
	status = tauti_batches_times(s->w, &b, &dur_ns, err);
	for (size_t i = 0; !status && i < b.takes.count; i++) {
		dur_ns[i] = tauti_ns((double)dur_ns[i] * s->factor);
		if (!b.workers && !b.blind)
			status = scale_own_loading(s, &b.takes.data[i], err);
	}
	if (!status && b.workers)
		status = tauti_batches_spread(
			s->w, &b, b.workers, b.under_way, dur_ns, err);
	if (!status && b.blind)
		status = tauti_note(s->w, err, "batch: the recording has "
			"nothing of its loader's workers; they are taken to "
			"keep up");
	tauti_batches_end(&b);
	return status;
}

static bool is_without(const struct scaler *s, uint32_t op)
{
	return op == TAUT_NONE || !s->only[op];
}

/* Samples and what a layer makes of them; what sizes say is as large as before
 * stays, and what was there before a part of the job or is wanted behind it. */
static taut_status scale_memory(const struct scaler *s, struct taut_error *err)
{
	uint32_t n = s->w->memory ? s->w->memory->n_blocks : 0;
	double *was = TAUT_ARENA_ARRAY(s->w->arena, double, n + 1);
	taut_status status;

	if (!was)
		return tauti_no_memory(err, "blocks of memory");
	for (uint32_t i = 0; i < n; i++)
		was[i] = s->w->block_scale[i];
	status = tauti_scale_samples(s->w, s->factor, err);
	for (uint32_t i = 0; !status && i < n; i++) {
		const struct taut_block *b = &s->w->memory->blocks[i];

		if ((s->only && (is_without(s, b->from_op) ||
			is_without(s, b->to_op))) ||
			(s->by != BY_WEIGHTS && tauti_growth_is_fixed(s->w,
			&s->growth, b->from_op, b->bytes)))
			s->w->block_scale[i] = was[i];
	}
	return status;
}

/* Central, and how far off: what a layer's weights cost it is one pass more or
 * less, and nothing says how flat its kernels' efficiency is. More that stays
 * makes larger batches faster and smaller ones slower. */
static void doubt(struct scaler *s)
{
	double more = s->factor > 1 ? -1 : 1;
	double at = tauti_range(s->w, -1, 0, 1) * more;

	s->passes[0] = 1 + 0.75 * at;
	s->passes[1] = 2 + 1.5 * at;
	s->packing[0] = 5 + 2.5 * at;
	s->packing[1] = 13 + 6.5 * at;
	s->flat = 0.03 + 0.03 * at;
	s->stays = 0.5 * at;
}

static taut_status note(const struct scaler *s, const char *name,
	struct taut_error *err)
{
	const struct tauti_growth *g = &s->growth;

	if (s->by != BY_WEIGHTS && g->n_told)
		return tauti_note(s->w, err, "%s: sizes tell how operators "
			"grow: of a batch of %lld rows; a roofline of each, "
			"fitted to %.3g ms of work, is off by %.0f %% of that",
			name, (long long)g->batch, g->told_ns / 1e6,
			100 * g->off);
	if (s->w->job->has_device || s->weights.n_layers)
		return TAUT_OK;
	return tauti_note(s->w, err, "%s: the recording does not tell what "
		"its layers' weights cost them; all of an operation is taken "
		"to grow with the batch", name);
}

static taut_status take_tables(struct scaler *s, const struct tauti_change *c,
	struct taut_error *err)
{
	taut_status status = tauti_pick(
		s->w, is_of_weights, NULL, &s->fixed, err);

	if (!status)
		status = tauti_pick(s->w, is_packed, NULL, &s->packs, err);
	if (!status)
		status = tauti_weights_find(s->w, &s->weights, err);
	if (!status)
		status = tauti_growth_find(s->w, s->factor, &s->growth, err);
	if (!status && s->only && s->growth.batch > 0 &&
		(double)s->growth.batch * s->factor < 1)
		status = taut_error_set(err, TAUT_EINVAL, -1, "%s: a batch has "
			"%lld rows alone", c->text, (long long)s->growth.batch);
	if (!status && s->by == BY_SIZES && !s->growth.n_told)
		status = taut_error_set(err, TAUT_EINVAL, -1, "%s: no sizes of "
			"inputs in this recording tell how an operator grows; "
			"by=weights needs none", c->text);
	return status;
}

/* Computation and memory. */
static taut_status scale_all(struct scaler *s, const struct tauti_change *c,
	struct taut_error *err)
{
	taut_status status = take_tables(s, c, err);

	if (!status) {
		doubt(s);
		status = scale_memory(s, err);
	}
	if (!status)
		status = scale_ops(s, err);
	if (!status && !s->grows_ns)
		status = taut_error_set(err, TAUT_EINVAL, -1, "%s: the "
			"recording has no computation of a forward or backward "
			"pass, which would grow with the batch", c->text);
	if (!status)
		status = note(s, c->is->info.name, err);
	tauti_growth_end(&s->growth);
	return status;
}

taut_status tauti_scale_passes(struct tauti_whatif *w,
	const struct tauti_change *c, double factor, const uint8_t *only,
	struct taut_error *err)
{
	struct scaler s = { .w = w, .only = only, .factor = factor };

	return scale_all(&s, c, err);
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	struct scaler s = { .w = w };
	taut_status status = tauti_param_factor(c, FACTOR, &s.factor, err);

	if (!status)
		status = tauti_param_word(c, BY, &s.by, err);
	if (!status)
		status = scale_all(&s, c, err);
	for (uint32_t r = 0; !status && r < taut_edit_ranks(w->edit); r++)
		if (taut_edit_has_rank(w->edit, r))
			status = scale_loading(&s, r, err);
	w->samples_factor *= s.factor;
	return status;
}

const struct tauti_transformation tauti_whatif_batch = {
	.info = {
		.name = "batch", .group = "job",
		.summary = "more or fewer samples a rank and step",
		.assumption = "forward, backward and loading grow with the "
			"batch but for a fixed part; kernels are chosen as "
			"they were",
		.source = "rooflines (Williams et al., CACM 2009) of "
			"operators whose sizes were recorded; else dPRO "
			"(MLSys'22): fixed and proportional part, and passes "
			"over weights from DDP's own copies",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};

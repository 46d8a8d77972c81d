/* gist.c - Gist: what activations leave is kept encoded. Behind each activation
 * of the forward pass stands a kernel that encodes, before its gradient one
 * that decodes; each is one pass over as much data, or somewhat less.
 *
 * In a module that is done again (recompute) nothing is kept of the first time,
 * and what is made the second time is encoded.
 *
 * Where allocations were recorded, a block that an activation made for the
 * backward pass is as large as it was until it is encoded, and again from where
 * it is decoded. An activation in place makes nothing: of it, that is the block
 * that was asked for last before it. */
#include "whatif/kernels.h"
#include "whatif/kept.h"

enum { COST, LEFT };

static const struct taut_parameter parameters[] = {
	{ "cost", "FACTOR", "1x", "of a kernel that encodes or decodes, in "
		"times of the activation's own" },
	{ "left", "PERCENT", "50%", "of an activation's bytes while it is "
		"encoded: 50% in 16 bits for 32, 25% in 8, 3% where its sign "
		"is enough" },
};

struct place { /* the host's part of an activation, or of its gradient */
	int64_t start_ns, end_ns; /* as recorded */
	uint32_t step, op;
	bool in_place;
};

struct encoder {
	struct tauti_whatif *w;
	struct taut_error *err;
	double cost, left;
	struct tauti_rounds rounds;
	uint32_t n_forward, n_backward;
	/* By op of the graph: part of an operator that is an activation; of one
	 * that is in place. */
	uint8_t *makes, *in_place;
	uint32_t *launcher;
	TAUT_VEC(struct place) encode, decode; /* of a rank */
	tauti_kept_list kept; /* of the rank */
	double was_bytes, is_bytes; /* of all that is encoded */
};

static bool is_activation(const struct tauti_whatif *w, const struct taut_op *op)
{
	bool kind = w->job->has_device ? op->kind == TAUT_OP_KERNEL :
		op->kind == TAUT_OP_HOST;

	return kind && op->like != TAUT_NONE &&
		tauti_kernel_class(taut_names_text(w->graph->names,
			op->name)) == TAUTI_KERNEL_ACTIVATION;
}

/* Of what is made again the last one alone is kept, and so encoded. */
static taut_status insert(struct encoder *e, uint32_t i,
	const struct taut_op *op)
{
	bool forward = tauti_op_phase(e->w, op) == TAUTI_PHASE_FORWARD;
	struct taut_op made = { .kind = op->kind, .lane = op->lane,
		.dur_ns = tauti_ns((double)op->dur_ns * e->cost),
		.event = TAUT_NONE, .collective = TAUT_NONE,
		.like = TAUT_NONE };
	uint32_t at;

	if (forward ? tauti_rounds_left(&e->rounds, op) > 0 :
		tauti_op_phase(e->w, op) != TAUTI_PHASE_BACKWARD)
		return TAUT_OK;
	e->n_forward += forward;
	e->n_backward += !forward;
	return taut_edit_insert(e->w->edit, forward ? i :
		taut_edit_before(e->w->edit, i), &made,
		forward ? "encode" : "decode", &at, e->err);
}

static taut_status insert_lane(struct encoder *e, uint32_t lane)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = taut_edit_first(e->w->edit, lane);
		!status && i != TAUT_NONE; i = taut_edit_next(e->w->edit, i)) {
		struct taut_op op;

		if (taut_edit_op(e->w->edit, i, &op) &&
			is_activation(e->w, &op))
			status = insert(e, i, &op);
	}
	return status;
}

static taut_status insert_all(struct encoder *e, const struct tauti_change *c)
{
	taut_status status = tauti_rounds_begin(e->w, &e->rounds, e->err);

	for (uint32_t l = 0; !status && l < taut_edit_lanes(e->w->edit); l++)
		status = insert_lane(e, l);
	if (!status && !e->n_forward)
		status = taut_error_set(e->err, TAUT_EINVAL, -1, "%s: the "
			"recording has no ReLU in a forward pass whose output "
			"could be encoded", c->text);
	return status;
}

/* --- memory ----------------------------------------------------------------------- */

static bool makes(const void *context, const char *name)
{
	(void)context;
	return !strncmp(name, "aten::", 6) &&
		tauti_kernel_class(name) == TAUTI_KERNEL_ACTIVATION;
}

static bool is_in_place(const void *context, const char *name)
{
	return makes(context, name) && name[strlen(name) - 1] == '_';
}

/* An operation of the recording, on a rank of it. */
static bool add_place(struct encoder *e, uint32_t i)
{
	const struct taut_graph *g = e->w->graph;
	uint32_t host = tauti_host_of(e->w, e->launcher, i);
	enum tauti_phase phase = (enum tauti_phase)e->w->job->phase[i];
	struct place p;

	if (host == TAUT_NONE)
		return true;
	p = (struct place){ g->start_ns[host], g->start_ns[host] +
		g->dur_ns[host], e->w->job->step_of[i], host,
		e->in_place[i] };
	if (phase == TAUTI_PHASE_FORWARD)
		return taut_vec_push(&e->encode, p);
	return phase != TAUTI_PHASE_BACKWARD || taut_vec_push(&e->decode, p);
}

static bool find_places(struct encoder *e, uint32_t trace)
{
	const struct taut_graph *g = e->w->graph;

	taut_vec_clear(&e->encode);
	taut_vec_clear(&e->decode);
	for (uint32_t i = 0; i < g->n_ops; i++) {
		struct taut_op op = { .kind = (enum taut_op_kind)g->kind[i],
			.name = g->name[i], .like = i };

		if (g->lanes[g->lane[i]].trace == trace &&
			is_activation(e->w, &op) && !add_place(e, i))
			return false;
	}
	return true;
}

/* Where what is kept is encoded: behind the activation that made it, the first
 * that is over later; of one in place the first that begins later, and before
 * more is asked for. TAUT_NONE: nowhere. */
static uint32_t encoded_at(const struct encoder *e, size_t at)
{
	const struct tauti_kept *k = &e->kept.data[at];
	bool made = e->makes[k->from_op];
	int64_t until_ns = at + 1 < e->kept.count ?
		e->kept.data[at + 1].from_ns : INT64_MAX;
	const struct place *best = NULL;

	for (size_t i = 0; i < e->encode.count; i++) {
		const struct place *p = &e->encode.data[i];

		if (p->step == k->step && (made ? p->end_ns >= k->from_ns :
			p->in_place && p->start_ns >= k->from_ns &&
			p->start_ns <= until_ns) &&
			(!best || p->start_ns < best->start_ns))
			best = p;
	}
	return best ? best->op : TAUT_NONE;
}

/* Before the last gradient of an activation that begins before it is given
 * back. */
static uint32_t decoded_at(
	const struct encoder *e, const struct tauti_kept *k)
{
	const struct place *best = NULL;

	for (size_t i = 0; i < e->decode.count; i++) {
		const struct place *p = &e->decode.data[i];

		if (p->step == k->step && p->start_ns <= k->to_ns &&
			(!best || p->start_ns > best->start_ns))
			best = p;
	}
	return best ? best->op : TAUT_NONE;
}

static taut_status free_rank(struct encoder *e, uint32_t trace)
{
	taut_status status =
		tauti_kept_find(e->w, trace, &e->kept, e->err);

	if (!status && !find_places(e, trace))
		status = tauti_no_memory(e->err, "what is encoded");
	for (size_t i = 0; !status && i < e->kept.count; i++) {
		const struct tauti_kept *k = &e->kept.data[i];
		bool freed;

		status = tauti_kept_free(e->w, k, encoded_at(e, i),
			decoded_at(e, k), 1 - e->left, &freed, e->err);
		if (status || !freed)
			continue;
		e->was_bytes += k->bytes;
		e->is_bytes += k->bytes * e->left;
	}
	return status;
}

static taut_status free_memory(struct encoder *e)
{
	struct tauti_whatif *w = e->w;
	taut_status status = tauti_launchers(w, &e->launcher, e->err);

	if (!status)
		status = tauti_pick(w, makes, NULL, &e->makes, e->err);
	if (!status)
		status = tauti_pick(w, is_in_place, NULL, &e->in_place, e->err);
	for (uint32_t i = 0; !status && i < w->graph->run->n_traces; i++)
		status = free_rank(e, i);
	return status;
}

static taut_status say(struct encoder *e, const char *text)
{
	taut_status status = tauti_note(e->w, e->err,
		"%s: %u kernels encode, %u decode", text, e->n_forward,
		e->n_backward);

	if (status)
		return status;
	if (!e->w->memory)
		return tauti_note(e->w, e->err, "%s: no allocations were "
			"recorded ('taut record --memory'), so what memory "
			"this frees is not told", text);
	return tauti_note(e->w, e->err, "%s: %.3g MB of activations, of all "
		"recorded steps and ranks, are kept in %.3g MB", text,
		e->was_bytes / 1e6, e->is_bytes / 1e6);
}

/* --- the whole ---------------------------------------------------------------------- */

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	struct encoder e = { .w = w, .err = err };
	taut_status status = tauti_param_factor(c, COST, &e.cost, err);

	if (!status && (!tauti_param_share(c, LEFT, &e.left) || e.left > 1))
		status = tauti_param_wrong(
			c, LEFT, "a share from 0% to 100%, like 50%", err);
	if (status)
		return status;
	e.cost *= tauti_range(w, 0.5, 1, 2);
	status = insert_all(&e, c);
	if (!status && w->memory)
		status = free_memory(&e);
	if (!status)
		status = say(&e, c->text);
	taut_vec_free(&e.encode);
	taut_vec_free(&e.decode);
	taut_vec_free(&e.kept);
	return status;
}

const struct tauti_transformation tauti_whatif_gist = {
	.info = {
		.name = "gist", .group = "memory",
		.summary = "activations are kept encoded",
		.assumption = "encoding and decoding are one pass each over an "
			"activation's data, right behind it and right before "
			"its gradient; what a module computes again is encoded "
			"the last time alone",
		.source = "Gist (ISCA'18), as expressed in Daydream (ATC'20): "
			"insert",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};

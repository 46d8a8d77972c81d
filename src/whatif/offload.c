/* offload.c - vDNN: activations leave the device after their forward pass and
 * come back before their backward pass, on a stream of their own.
 *
 * What is moved is cut into as many pieces as there are matrix products in the
 * forward pass of a step. Piece i goes out when product i is done. Backward
 * takes them in reverse; each is fetched when the backward pass has used the
 * piece two before it, and the kernel at its place waits for it. */
#include <stdlib.h>

#include "whatif/kernels.h"

enum { BYTES, RATE };

static const struct taut_parameter parameters[] = {
	{ "", "BYTES", NULL, "of activations moved a rank and step: 4GB" },
	{ "rate", "RATE", "96gbit", "of the way between device and host" },
};

enum { AHEAD = 2 }; /* pieces that come in before they are wanted */

struct mover {
	struct tauti_whatif *w;
	struct taut_error *err;
	int64_t whole_ns;  /* for all of a step's pieces one way */
	uint32_t stream, last;
	TAUT_VEC(uint32_t) forward, backward; /* kernels of a step */
	uint32_t n_steps;
};

static bool is_product(const struct tauti_whatif *w, const struct taut_op *op)
{
	return op->kind == TAUT_OP_KERNEL && op->like != TAUT_NONE &&
		tauti_kernel_class(taut_names_text(w->graph->names,
			op->name)) == TAUTI_KERNEL_MATH;
}

static taut_status put_copy(struct mover *m, const char *name, int64_t dur_ns,
	uint32_t after, uint32_t *ret_op)
{
	struct taut_op op = { .dur_ns = dur_ns, .kind = TAUT_OP_COPY,
		.lane = m->stream, .event = TAUT_NONE,
		.collective = TAUT_NONE, .like = TAUT_NONE };
	taut_status status = taut_edit_insert(
		m->w->edit, m->last, &op, name, ret_op, m->err);

	if (status)
		return status;
	m->last = *ret_op;
	return after == TAUT_NONE ? TAUT_OK : taut_edit_connect(m->w->edit,
		after, *ret_op, TAUT_EDGE_STREAM, 0, m->err);
}

/* Backward kernel that uses piece i (0: the last of the forward pass). */
static uint32_t user_of(const struct mover *m, size_t i)
{
	return m->backward.data[i * m->backward.count / m->forward.count];
}

static taut_status move_step(struct mover *m)
{
	size_t n = m->forward.count;
	taut_status status = TAUT_OK;
	int64_t part = n ? m->whole_ns / (int64_t)n : 0;
	uint32_t op;

	if (!n || !m->backward.count)
		return TAUT_OK;
	m->n_steps++;
	for (size_t i = 0; !status && i < n; i++)
		status = put_copy(m, "copy out", part, m->forward.data[i], &op);
	for (size_t i = 0; !status && i < n; i++) {
		uint32_t after = i < AHEAD ? TAUT_NONE : user_of(m, i - AHEAD);

		status = put_copy(m, "copy in", part, after, &op);
		if (!status && after != user_of(m, i))
			status = taut_edit_connect(m->w->edit, op,
				user_of(m, i), TAUT_EDGE_STREAM, 0, m->err);
	}
	taut_vec_clear(&m->forward);
	taut_vec_clear(&m->backward);
	return status;
}

/* The stream of a rank with most products. */
static uint32_t busiest(const struct tauti_whatif *w, uint32_t rank)
{
	uint32_t best = TAUT_NONE, most = 0;

	for (uint32_t l = 0; l < taut_edit_lanes(w->edit); l++) {
		struct taut_graph_lane lane = taut_edit_lane(w->edit, l);
		uint32_t n = 0;
		struct taut_op op;

		if (lane.trace != rank || lane.kind != TAUT_LANE_STREAM)
			continue;
		for (uint32_t i = taut_edit_first(w->edit, l); i != TAUT_NONE;
			i = taut_edit_next(w->edit, i))
			n += taut_edit_op(w->edit, i, &op) && is_product(w, &op);
		if (n > most) {
			best = l;
			most = n;
		}
	}
	return best;
}

static bool keep(struct mover *m, uint32_t i, const struct taut_op *op)
{
	enum tauti_phase phase = tauti_op_phase(m->w, op);

	if (op->kind == TAUT_OP_KERNEL && phase == TAUTI_PHASE_BACKWARD)
		return taut_vec_push(&m->backward, i);
	return phase != TAUTI_PHASE_FORWARD || !is_product(m->w, op) ||
		taut_vec_push(&m->forward, i);
}

static taut_status move_rank(struct mover *m, uint32_t rank)
{
	uint32_t lane = busiest(m->w, rank), step = TAUT_NONE;
	struct taut_graph_lane like;
	taut_status status;

	if (lane == TAUT_NONE)
		return TAUT_OK;
	like = taut_edit_lane(m->w->edit, lane);
	m->last = TAUT_NONE;
	status = taut_edit_add_lane(m->w->edit, &like, &m->stream, m->err);
	for (uint32_t i = taut_edit_first(m->w->edit, lane);
		!status && i != TAUT_NONE; i = taut_edit_next(m->w->edit, i)) {
		struct taut_op op;

		if (!taut_edit_op(m->w->edit, i, &op))
			continue;
		if (tauti_op_step(m->w, &op) != step)
			status = move_step(m);
		step = tauti_op_step(m->w, &op);
		if (!status && step != TAUT_NONE && !keep(m, i, &op))
			status = tauti_no_memory(m->err, "copies");
	}
	return status ? status : move_step(m);
}

static taut_status read_times(const struct tauti_whatif *w,
	const struct tauti_change *c, int64_t *ret_ns, struct taut_error *err)
{
	bool is_factor;
	double bytes, rate;
	taut_status status = tauti_param_scaled(
		c, BYTES, TAUTI_BYTES, &is_factor, &bytes, err);

	if (!status && is_factor)
		status = tauti_param_wrong(c, BYTES, "bytes, like 4GB", err);
	if (!status)
		status = tauti_param_scaled(
			c, RATE, TAUTI_BITS_PER_S, &is_factor, &rate, err);
	if (!status && (is_factor || rate <= 0))
		status = tauti_param_wrong(c, RATE, "a rate, like 96gbit", err);
	if (!status)
		*ret_ns = llround(bytes * 8e9 / rate *
			tauti_range(w, 0.9, 1, 1.25));
	return status;
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	struct mover m = { .w = w, .err = err };
	taut_status status = read_times(w, c, &m.whole_ns, err);
	uint32_t n = taut_edit_ranks(w->edit);

	for (uint32_t r = 0; !status && r < n; r++)
		if (taut_edit_has_rank(w->edit, r))
			status = move_rank(&m, r);
	if (!status && !m.n_steps)
		status = taut_error_set(err, TAUT_EINVAL, -1, "%s: the "
			"recording has no matrix products of a device in a "
			"forward pass with a backward pass behind it", c->text);
	taut_vec_free(&m.forward);
	taut_vec_free(&m.backward);
	return status;
}

const struct tauti_transformation tauti_whatif_offload = {
	.info = {
		.name = "offload", .group = "memory",
		.summary = "activations go to the host and come back (vDNN)",
		.assumption = "they are spread evenly over the matrix products "
			"of the forward pass; copies have a stream and the "
			"way to the host to themselves",
		.source = "vDNN (MICRO'16), as expressed in Daydream "
			"(ATC'20): insert",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};

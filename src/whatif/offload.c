/* offload.c - vDNN: activations leave the device after their forward pass and
 * come back before their backward pass, on a stream of their own.
 *
 * What is moved is cut into as many pieces as there are matrix products in the
 * forward pass of a micro-batch. Piece i goes out when product i is done. Backward
 * takes them in reverse; each is fetched when the backward pass has used the
 * piece two before it, and the kernel at its place waits for it.
 *
 * Where allocations were recorded, a share of each block that the forward pass
 * keeps for the backward pass moves: with the piece of the first product that may
 * read it, launched after it was asked for, and not the one that makes it. Its
 * memory is free as an allocator counts, which follows the host: from when the
 * host has launched that product to when it asks for the piece again. What a
 * module makes again (recompute) is not kept, and so not moved. */
#include <stdlib.h>

#include "whatif/kernels.h"
#include "whatif/kept.h"

enum { BYTES, RATE };

static const struct taut_parameter parameters[] = {
	{ "", "BYTES", NULL, "of activations moved a rank and micro-batch: "
		"4GB" },
	{ "rate", "RATE", "96gbit", "of the way between device and host" },
};

enum { AHEAD = 2 }; /* pieces that come in before they are wanted */

struct mover {
	struct tauti_whatif *w;
	struct taut_error *err;
	double bytes;      /* of a micro-batch */
	int64_t whole_ns;  /* for all of its pieces one way */
	uint32_t stream, last;
	struct tauti_rounds rounds;
	TAUT_VEC(uint32_t) forward, backward; /* kernels of a micro-batch */
	uint32_t n_steps;
	/* By op of the graph; NULL: memory is not told. */
	uint32_t *launcher;
	uint8_t *in_product; /* a part of a product's operator */
	uint8_t *is_done;    /* the first of a forward pass, whose blocks have
	                        their gaps */
	tauti_kept_list kept; /* of the rank */
	double kept_bytes, moved_bytes; /* of the step that keeps most */
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

static taut_status put_copies(struct mover *m)
{
	size_t n = m->forward.count;
	int64_t part = m->whole_ns / (int64_t)n;
	taut_status status = TAUT_OK;
	uint32_t op;

	for (size_t i = 0; !status && i < n; i++)
		status = put_copy(m, "copy out", part, m->forward.data[i], &op);
	for (size_t i = 0; !status && i < n; i++) {
		uint32_t after = i < AHEAD ? TAUT_NONE : user_of(m, i - AHEAD);

		status = put_copy(m, "copy in", part, after, &op);
		if (!status && after != user_of(m, i))
			status = taut_edit_connect(m->w->edit, op,
				user_of(m, i), TAUT_EDGE_STREAM, 0, m->err);
	}
	return status;
}

/* --- memory ----------------------------------------------------------------------- */

/* The host operation that launched a kernel of the edit, as recorded;
 * TAUT_NONE. */
static uint32_t host_of(const struct mover *m, uint32_t kernel)
{
	struct taut_op op;

	return !taut_edit_op(m->w->edit, kernel, &op) ? TAUT_NONE :
		tauti_host_of(m->w, m->launcher, op.like);
}

static int64_t launched_ns(const struct mover *m, uint32_t kernel)
{
	uint32_t host = host_of(m, kernel);

	return host == TAUT_NONE ? INT64_MIN : m->w->graph->start_ns[host];
}

static double kept_in(const struct mover *m, uint32_t step)
{
	double bytes = 0;

	for (size_t i = 0; i < m->kept.count; i++)
		if (m->kept.data[i].step == step)
			bytes += m->kept.data[i].bytes;
	return bytes;
}

/* The piece of the first product that is launched after a block was asked for,
 * of what a product makes of the next one; TAUT_NONE: there is none. */
static uint32_t piece_of(const struct mover *m, const struct tauti_kept *kept)
{
	size_t lo = 0, hi = m->forward.count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (launched_ns(m, m->forward.data[mid]) < kept->from_ns)
			lo = mid + 1;
		else
			hi = mid;
	}
	lo += m->in_product[kept->from_op];
	return lo < m->forward.count ? (uint32_t)lo : TAUT_NONE;
}

/* Where the host asks for a piece again: with the kernel behind the one that its
 * copy waits for. */
static uint32_t wanted_at(const struct mover *m, uint32_t piece)
{
	size_t i = m->forward.count - 1 - piece;

	return host_of(m, user_of(m, i < AHEAD ? 0 : i - AHEAD + 1));
}

static taut_status free_memory(struct mover *m, uint32_t step)
{
	double all = kept_in(m, step), moved = 0;
	double share = all > m->bytes ? m->bytes / all : 1;
	taut_status status = TAUT_OK;

	for (size_t i = 0; !status && i < m->kept.count; i++) {
		const struct tauti_kept *k = &m->kept.data[i];
		bool freed = false;
		uint32_t piece = k->step == step && k->bytes > 0 ?
			piece_of(m, k) : TAUT_NONE;

		if (piece == TAUT_NONE)
			continue;
		status = tauti_kept_free(m->w, k, host_of(m,
			m->forward.data[piece]), wanted_at(m, piece), share,
			&freed, m->err);
		moved += freed ? share * k->bytes : 0;
	}
	if (all > m->kept_bytes) {
		m->kept_bytes = all;
		m->moved_bytes = moved;
	}
	return status;
}

static bool makes_product(const void *context, const char *name)
{
	(void)context;
	return !strncmp(name, "aten::", 6) &&
		tauti_kernel_class(name) == TAUTI_KERNEL_MATH;
}

static taut_status say_memory(struct mover *m, const char *text)
{
	if (!m->w->memory)
		return tauti_note(m->w, m->err, "%s: no allocations were "
			"recorded ('taut record --memory'), so what memory "
			"this frees is not told", text);
	return tauti_note(m->w, m->err, "%s: of the %.3g MB that a forward "
		"pass keeps for its backward pass, %.3g MB are not on the "
		"device in between", text,
		m->kept_bytes / 1e6, m->moved_bytes / 1e6);
}

/* --- steps ------------------------------------------------------------------------- */

/* Copies of a rank, or of a micro-batch, have the recording's blocks. */
static taut_status free_once(struct mover *m, uint32_t step)
{
	struct taut_op op;

	if (!taut_edit_op(m->w->edit, m->forward.data[0], &op) ||
		m->is_done[op.like])
		return TAUT_OK;
	m->is_done[op.like] = 1;
	return free_memory(m, step);
}

/* A micro-batch of a step. */
static taut_status move_part(struct mover *m, uint32_t step)
{
	taut_status status = TAUT_OK;

	if (m->forward.count && m->backward.count) {
		m->n_steps++;
		status = put_copies(m);
		if (!status)
			status = free_once(m, step);
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

/* A product of the forward pass; what a module makes again (recompute) is there
 * when it is wanted. */
static bool is_forward(struct mover *m, const struct taut_op *op)
{
	const struct tauti_again *again = m->w->again;

	return tauti_op_phase(m->w, op) == TAUTI_PHASE_FORWARD &&
		is_product(m->w, op) && tauti_rounds_left(&m->rounds, op) ==
		(again ? again[op->like].times : 0);
}

/* Behind a backward pass a forward pass is the next micro-batch's. */
static taut_status see_op(struct mover *m, uint32_t i, const struct taut_op *op,
	uint32_t *step)
{
	uint32_t is = tauti_op_step(m->w, op);
	bool forward = is_forward(m, op), ok = true;
	taut_status status = TAUT_OK;

	if (is != *step || (forward && m->backward.count))
		status = move_part(m, *step);
	*step = is;
	if (is != TAUT_NONE && forward)
		ok = taut_vec_push(&m->forward, i);
	else if (is != TAUT_NONE && op->kind == TAUT_OP_KERNEL &&
		tauti_op_phase(m->w, op) == TAUTI_PHASE_BACKWARD)
		ok = taut_vec_push(&m->backward, i);
	return status || ok ? status : tauti_no_memory(m->err, "copies");
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
	status = tauti_kept_find(m->w,
		taut_edit_rank_like(m->w->edit, rank), &m->kept, m->err);
	if (!status)
		status = taut_edit_add_lane(
			m->w->edit, &like, &m->stream, m->err);
	for (uint32_t i = taut_edit_first(m->w->edit, lane);
		!status && i != TAUT_NONE; i = taut_edit_next(m->w->edit, i)) {
		struct taut_op op;

		if (taut_edit_op(m->w->edit, i, &op) && op.like != TAUT_NONE)
			status = see_op(m, i, &op, &step);
	}
	return status ? status : move_part(m, step);
}

static taut_status read_times(struct mover *m, const struct tauti_change *c)
{
	struct taut_error *err = m->err;
	bool is_factor;
	double rate;
	taut_status status = tauti_param_scaled(
		c, BYTES, TAUTI_BYTES, &is_factor, &m->bytes, err);

	if (!status && (is_factor || !(m->bytes > 0)))
		status = tauti_param_wrong(c, BYTES, "bytes, like 4GB", err);
	if (!status)
		status = tauti_param_scaled(
			c, RATE, TAUTI_BITS_PER_S, &is_factor, &rate, err);
	if (!status && (is_factor || rate <= 0))
		status = tauti_param_wrong(c, RATE, "a rate, like 96gbit", err);
	if (!status)
		status = tauti_rounds_begin(m->w, &m->rounds, err);
	if (!status)
		m->whole_ns = tauti_ns(m->bytes * 8e9 / rate *
			tauti_range(m->w, 0.9, 1, 1.25));
	m->is_done = TAUT_ARENA_ARRAY(m->w->arena, uint8_t,
		(size_t)m->w->graph->n_ops + 1);
	if (!status && !m->is_done)
		status = tauti_no_memory(err, "steps");
	if (!status && m->w->memory)
		status = tauti_launchers(m->w, &m->launcher, err);
	if (!status && m->w->memory)
		status = tauti_pick(
			m->w, makes_product, NULL, &m->in_product, err);
	return status;
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	struct mover m = { .w = w, .err = err };
	taut_status status = read_times(&m, c);
	uint32_t n = taut_edit_ranks(w->edit);

	for (uint32_t r = 0; !status && r < n; r++)
		if (taut_edit_has_rank(w->edit, r))
			status = move_rank(&m, r);
	if (!status && !m.n_steps)
		status = taut_error_set(err, TAUT_EINVAL, -1, "%s: the "
			"recording has no matrix products of a device in a "
			"forward pass with a backward pass behind it", c->text);
	if (!status)
		status = say_memory(&m, c->text);
	taut_vec_free(&m.forward);
	taut_vec_free(&m.backward);
	taut_vec_free(&m.kept);
	return status;
}

const struct tauti_transformation tauti_whatif_offload = {
	.info = {
		.name = "offload", .group = "memory",
		.summary = "activations go to the host and come back (vDNN)",
		.assumption = "they are spread evenly over the matrix products "
			"of the forward pass, and of each the same share moves; "
			"what a module computes again does not move; "
			"copies have a stream and the way to the host to "
			"themselves",
		.source = "vDNN (MICRO'16), as expressed in Daydream "
			"(ATC'20): insert",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};

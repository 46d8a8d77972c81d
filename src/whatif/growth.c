/* growth.c - see growth.h.
 *
 * The batch is the first dimension of what the first layer of the forward pass
 * reads. A tensor is of the batch if its elements are a multiple of it and it
 * is no parameter: those are known by their gradients, which AccumulateGrad and
 * DDP put into place. Both may be true by chance (a batch of 64, a weight of 64
 * x 1024): then what the operator does with it decides. Of the batch, a tensor
 * has factor times the elements, whichever dimension that is in, and each
 * product has factor times the flops, for the batch is in exactly one of M, N
 * and K. */
#include "whatif/growth.h"

#include <stdlib.h>

struct shape {
	uint32_t n_dims;
	int64_t dim[TAUT_MOST_DIMS];
};

struct grower {
	const struct taut_rooflines *r;
	TAUT_VEC(struct shape) parameters; /* sorted */
	int64_t batch;
	double factor;
};

/* --- parameters --------------------------------------------------------------------*/

static int by_shape(const void *a, const void *b)
{
	const struct shape *x = a, *y = b;

	if (x->n_dims != y->n_dims)
		return x->n_dims < y->n_dims ? -1 : 1;
	for (uint32_t i = 0; i < x->n_dims; i++)
		if (x->dim[i] != y->dim[i])
			return x->dim[i] < y->dim[i] ? -1 : 1;
	return 0;
}

static struct shape shape_of(const struct taut_operand *o)
{
	struct shape s = { .n_dims = o->n_dims };

	memcpy(s.dim, o->dim, sizeof s.dim);
	return s;
}

static bool is_gradient(const char *name)
{
	return !strcmp(name, "torch::autograd::AccumulateGrad") ||
		!strcmp(name, "torch::distributed::reducer::mul_out") ||
		!strcmp(name, "torch.distributed.ddp.reducer::"
			"copy_bucket_to_grad");
}

/* Matrices are also met the other way round. */
static bool find_parameters(struct grower *g)
{
	for (uint32_t i = 0; i < g->r->n_rows; i++) {
		const struct taut_opwork_row *row = &g->r->rows[i];
		struct shape s;

		if (!is_gradient(row->name) || !row->work.n_operands ||
			!row->work.operands[0].n_dims)
			continue;
		s = shape_of(&row->work.operands[0]);
		if (!taut_vec_push(&g->parameters, s))
			return false;
		if (s.n_dims != 2)
			continue;
		s.dim[0] = row->work.operands[0].dim[1];
		s.dim[1] = row->work.operands[0].dim[0];
		if (!taut_vec_push(&g->parameters, s))
			return false;
	}
	if (g->parameters.count)
		qsort(g->parameters.data, g->parameters.count,
			sizeof *g->parameters.data, by_shape);
	return true;
}

static bool is_parameter(const struct grower *g, const struct taut_operand *o)
{
	struct shape s = shape_of(o);

	return o->n_dims && g->parameters.count &&
		bsearch(&s, g->parameters.data, g->parameters.count, sizeof s,
			by_shape);
}

/* --- the batch ---------------------------------------------------------------------*/

/* Reads its input first and weights behind it: of a forward pass. */
static bool is_layer(const struct taut_opwork_row *row)
{
	static const char *const names[] = { "aten::linear", "aten::addmm",
		"aten::conv1d", "aten::conv2d", "aten::conv3d",
		"aten::convolution", "aten::embedding" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(row->name, names[i]))
			return row->work.n_operands > 1 &&
				row->work.operands[0].n_dims;
	return false;
}

static int64_t find_batch(const struct taut_rooflines *r)
{
	for (uint32_t i = 0; i < r->n_rows; i++)
		if (is_layer(&r->rows[i]) &&
			r->rows[i].work.operands[0].dim[0] > 0)
			return r->rows[i].work.operands[0].dim[0];
	return 0;
}

/* --- growing -----------------------------------------------------------------------*/

static bool is_product(enum taut_opwork_kind kind)
{
	return kind == TAUT_OPWORK_PRODUCT || kind == TAUT_OPWORK_CONV ||
		kind == TAUT_OPWORK_ATTENTION || kind == TAUT_OPWORK_RECURRENT;
}

/* May its operands be weights without its signature saying so? */
static bool takes_weights(enum taut_opwork_kind kind)
{
	return kind == TAUT_OPWORK_PRODUCT || kind == TAUT_OPWORK_COPY ||
		kind == TAUT_OPWORK_OTHER || kind == TAUT_OPWORK_LOOKUP;
}

static bool grows(const struct grower *g, const struct taut_opwork *work,
	const struct taut_operand *o)
{
	if (o->role == TAUT_ROLE_WEIGHT || o->role == TAUT_ROLE_WEIGHT_OUT)
		return false;
	if (fmod(o->elements, (double)g->batch) != 0)
		return false;
	if (!is_parameter(g, o))
		return true;
	return !takes_weights(work->kind) && o->n_dims > 1 &&
		o->dim[0] % g->batch == 0;
}

static struct taut_opwork grown(const struct grower *g,
	const struct taut_opwork *work, uint32_t *ret_grows)
{
	struct taut_opwork to = *work;
	bool any = false;

	to.bytes = 0;
	for (uint32_t i = 0; i < to.n_operands; i++) {
		struct taut_operand *o = &to.operands[i];
		double per = TAUT_ELEMENT_BYTES * o->elements * o->passes;
		bool is = grows(g, work, o);

		to.bytes += is ? per * g->factor : per;
		any = any || is;
		*ret_grows |= (uint32_t)is << i;
	}
	if (any || is_product(to.kind))
		to.flops *= g->factor;
	return to;
}

/* Between nothing and all of it. */
static double bounded(double by, double factor)
{
	double low = factor < 1 ? factor : 1, high = factor < 1 ? 1 : factor;

	return by < low ? low : by > high ? high : by;
}

static void grow_rows(const struct grower *g, struct tauti_growth *to)
{
	for (uint32_t i = 0; i < g->r->n_rows; i++) {
		const struct taut_opwork_row *row = &g->r->rows[i];
		struct taut_opwork more;
		double was;

		if (row->work.kind == TAUT_OPWORK_NONE)
			continue;
		more = grown(g, &row->work, &to->grows[i]);
		if (!row->n_calls)
			continue;
		was = taut_rooflines_ns(g->r, i, &row->work);
		if (!(was > 0))
			continue;
		to->factor[i] = bounded(
			taut_rooflines_ns(g->r, i, &more) / was, g->factor);
		to->n_told += row->n_calls;
		to->told_ns += row->time_ns * row->n_calls;
		to->off += fabs(row->time_ns / was - 1) * row->time_ns *
			row->n_calls;
	}
	if (to->told_ns > 0)
		to->off /= to->told_ns;
}

taut_status tauti_growth_find(struct tauti_whatif *w, double factor,
	struct tauti_growth *ret_growth, struct taut_error *err)
{
	struct tauti_growth found = { 0 };
	struct grower g = { .factor = factor };
	taut_status status = taut_rooflines_create(
		w->graph, w->costs->dur_ns, &found.rooflines, err);

	if (status)
		return status;
	g.r = found.rooflines;
	found.factor = TAUT_ARENA_ARRAY(w->arena, double, g.r->n_rows + 1);
	found.grows = TAUT_ARENA_ARRAY(w->arena, uint32_t, g.r->n_rows + 1);
	if (!found.factor || !found.grows || !find_parameters(&g)) {
		taut_vec_free(&g.parameters);
		tauti_growth_end(&found);
		return tauti_no_memory(err, "sizes");
	}
	g.batch = found.batch = find_batch(g.r);
	if (g.batch > 0)
		grow_rows(&g, &found);
	taut_vec_free(&g.parameters);
	*ret_growth = found;
	return TAUT_OK;
}

static bool is_as_large(const struct taut_operand *o, int64_t bytes)
{
	double two = 2 * o->elements, four = 4 * o->elements;

	return (double)bytes == two || (double)bytes == four ||
		(double)bytes == 512 * ceil(two / 512) ||
		(double)bytes == 512 * ceil(four / 512);
}

/* Recurrent layers have their weights in another layout, whose rows may be longer
 * by some lines of a cache. */
static bool is_layout_of(const struct taut_opwork *work,
	const struct taut_operand *o, int64_t bytes)
{
	double is = TAUT_ELEMENT_BYTES * o->elements;

	return work->kind == TAUT_OPWORK_RECURRENT &&
		(o->role == TAUT_ROLE_WEIGHT ||
		o->role == TAUT_ROLE_WEIGHT_OUT) && (double)bytes >= is &&
		(double)bytes <= is * 17 / 16;
}

bool tauti_growth_is_fixed(const struct tauti_whatif *w,
	const struct tauti_growth *growth, uint32_t op, int64_t bytes)
{
	const struct taut_opwork *work;
	uint32_t event, row;
	bool fixed = false;

	if (op == TAUT_NONE || !growth->n_told ||
		!tauti_op_trace(w, op, &event))
		return false;
	row = growth->rooflines->row_at[
		w->graph->lanes[w->graph->lane[op]].trace][event];
	if (row == TAUT_NONE)
		return false;
	work = &growth->rooflines->rows[row].work;
	for (uint32_t i = 0; i < work->n_operands; i++) {
		fixed |= is_layout_of(work, &work->operands[i], bytes);
		if (!is_as_large(&work->operands[i], bytes))
			continue;
		if (growth->grows[row] >> i & 1)
			return false;
		fixed = true;
	}
	return fixed;
}

void tauti_growth_end(struct tauti_growth *growth)
{
	taut_rooflines_destroy(growth->rooflines);
	growth->rooflines = NULL;
}

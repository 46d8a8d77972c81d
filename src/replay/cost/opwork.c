/* opwork.c - flops and bytes of an operator by the sizes of its inputs; the
 * table stands in cost.h. */
#include <string.h>

#include "opwork.h"

#define MOST_WORK 1e21 /* no operator does more */

struct worker {
	struct tauti_opname is;
	const struct tauti_sizes *sizes;
	struct taut_opwork *work;
};

const char *taut_opwork_kind_name(enum taut_opwork_kind kind)
{
	static const char *const names[TAUT_OPWORK_KINDS] = {
		[TAUT_OPWORK_NONE] = "none",
		[TAUT_OPWORK_PRODUCT] = "product",
		[TAUT_OPWORK_CONV] = "convolution",
		[TAUT_OPWORK_ATTENTION] = "attention",
		[TAUT_OPWORK_RECURRENT] = "recurrent",
		[TAUT_OPWORK_POINTWISE] = "pointwise",
		[TAUT_OPWORK_NORM] = "norm",
		[TAUT_OPWORK_POOL] = "pool",
		[TAUT_OPWORK_LOOKUP] = "look-up",
		[TAUT_OPWORK_COPY] = "copy",
		[TAUT_OPWORK_OTHER] = "other",
	};

	return kind < TAUT_OPWORK_KINDS ? names[kind] : "none";
}

/* --- operands ----------------------------------------------------------------------*/

static struct taut_operand operand(
	const struct tauti_size *size, enum taut_opwork_role role)
{
	struct taut_operand o = { .elements = size->elements, .passes = 1,
		.role = role };

	if (size->n_dims <= TAUT_MOST_DIMS) {
		o.n_dims = size->n_dims;
		memcpy(o.dim, size->dim, sizeof o.dim);
	}
	return o;
}

/* Those beyond the last are counted with it. */
static void add(struct worker *w, struct taut_operand o)
{
	struct taut_opwork *work = w->work;

	work->bytes += TAUT_ELEMENT_BYTES * o.elements * o.passes;
	if (work->n_operands < TAUT_MOST_OPERANDS) {
		work->operands[work->n_operands++] = o;
		return;
	}
	work->operands[TAUT_MOST_OPERANDS - 1].elements += o.elements;
	work->operands[TAUT_MOST_OPERANDS - 1].n_dims = 0;
}

static void add_size(struct worker *w, const struct tauti_size *size,
	enum taut_opwork_role role)
{
	if (size)
		add(w, operand(size, role));
}

static void add_rest(struct worker *w, uint32_t from)
{
	for (uint32_t i = 0; i < w->sizes->n; i++)
		if (w->sizes->all[i].argument >= from)
			add_size(w, &w->sizes->all[i], TAUT_ROLE_IN);
}

static struct taut_operand made(enum taut_opwork_role role, double elements)
{
	return (struct taut_operand){ .elements = elements, .passes = 1,
		.role = role };
}

static int64_t last_dim(const struct tauti_size *size)
{
	return size->n_dims && size->n_dims <= TAUT_MOST_DIMS ?
		size->dim[size->n_dims - 1] : 0;
}

static const struct tauti_size *argument(const struct worker *w, uint32_t i)
{
	return tauti_size_of(w->sizes, i);
}

/* --- forms -------------------------------------------------------------------------*/

/* a [..., M, K] and b [..., K, N], or weights [N, K]. */
static bool product(struct worker *w, uint32_t first, bool linear)
{
	const struct tauti_size *a = argument(w, first);
	const struct tauti_size *b = argument(w, first + 1);
	struct taut_operand out = made(TAUT_ROLE_OUT, 0);
	int64_t n;
	double k;

	if (!a || !b || !a->n_dims || a->n_dims > TAUT_MOST_DIMS ||
		!b->n_dims || b->n_dims > TAUT_MOST_DIMS)
		return false;
	k = (double)last_dim(a);
	n = b->n_dims < 2 ? 1 : linear ? b->dim[b->n_dims - 2] : last_dim(b);
	if (!(k > 0))
		return false;
	add_size(w, a, TAUT_ROLE_IN);
	add_size(w, b, linear || (first && b->n_dims == 2) ?
		TAUT_ROLE_WEIGHT : TAUT_ROLE_IN);
	out.elements = a->elements / k * (double)n;
	out.n_dims = a->n_dims;
	memcpy(out.dim, a->dim, sizeof out.dim);
	out.dim[a->n_dims - 1] = n;
	add(w, out);
	if (first || linear)
		add_size(w, argument(w, first ? 0 : 2), TAUT_ROLE_WEIGHT);
	w->work->flops = 2 * out.elements * k;
	return true;
}

/* Its weights are [in, out / groups, ...], where those of others are [out,
 * in / groups, ...]: known where the channels fit no other way, or where more
 * comes out than otherwise can. */
static bool is_transposed(const struct tauti_size *in,
	const struct tauti_size *weight, double outputs, double pixels)
{
	return in->dim[1] == weight->dim[0] && weight->dim[1] > 0 &&
		(in->dim[1] % weight->dim[1] || outputs >
			(double)in->dim[0] * (double)weight->dim[0] * pixels);
}

static bool convolution(struct worker *w, double outputs)
{
	const struct tauti_size *in = argument(w, 0), *weight = argument(w, 1);
	double pixels = 1, sums;
	bool transposed;

	if (!in || !weight || in->n_dims < 3 || in->n_dims > TAUT_MOST_DIMS ||
		weight->n_dims < 3 || !(weight->dim[0] > 0))
		return false;
	for (uint32_t i = 2; i < in->n_dims; i++)
		pixels *= (double)in->dim[i];
	transposed = is_transposed(in, weight, outputs, pixels);
	if (!(outputs > 0))
		outputs = (double)in->dim[0] * pixels *
			(double)weight->dim[transposed ? 1 : 0];
	sums = transposed ? in->elements : outputs;
	add_size(w, in, TAUT_ROLE_IN);
	add_size(w, weight, TAUT_ROLE_WEIGHT);
	add_size(w, argument(w, 2), TAUT_ROLE_WEIGHT);
	add(w, made(TAUT_ROLE_OUT, outputs));
	w->work->flops = 2 * sums * weight->elements / (double)weight->dim[0];
	return true;
}

/* Of what goes in and comes out, that whose channels are the first dimension of
 * the weights; where both are, the one with fewer pixels. */
static double multiplied(const struct tauti_size *in,
	const struct tauti_size *out, const struct tauti_size *weight)
{
	bool by_in = in->n_dims > 1 && in->dim[1] == weight->dim[0];
	bool by_out = out->n_dims > 1 && out->dim[1] == weight->dim[0];

	return by_in && (!by_out || in->elements < out->elements) ?
		in->elements : out->elements;
}

static bool convolution_backward(struct worker *w, uint32_t gradient)
{
	const struct tauti_size *out = argument(w, gradient);
	const struct tauti_size *in = argument(w, 1 - gradient);
	const struct tauti_size *weight = argument(w, 2);

	if (!out || !in || !weight || weight->n_dims < 3 ||
		!(weight->dim[0] > 0))
		return false;
	add_size(w, out, TAUT_ROLE_IN);
	add_size(w, in, TAUT_ROLE_IN);
	add_size(w, weight, TAUT_ROLE_WEIGHT);
	add(w, made(TAUT_ROLE_OUT, in->elements));
	add_size(w, weight, TAUT_ROLE_WEIGHT_OUT);
	w->work->flops = 4 * multiplied(in, out, weight) * weight->elements /
		(double)weight->dim[0];
	return true;
}

/* What it makes is taken for as wide and high as the gradient. */
static bool convolution_backward_input(struct worker *w)
{
	const struct tauti_size *out = argument(w, 1), *weight = argument(w, 2);

	if (!out || !weight || weight->n_dims < 3 || !(weight->dim[0] > 0))
		return false;
	add_size(w, out, TAUT_ROLE_IN);
	add_size(w, weight, TAUT_ROLE_WEIGHT);
	add(w, made(TAUT_ROLE_OUT, out->elements * (double)weight->dim[1] /
		(double)weight->dim[0]));
	w->work->flops = 2 * out->elements * weight->elements /
		(double)weight->dim[0];
	return true;
}

/* length: which dimension of the keys is their number. */
static bool attention(struct worker *w, uint32_t first, uint32_t length,
	double flops)
{
	const struct tauti_size *q = argument(w, first),
		*k = argument(w, first + 1);

	if (!q || !k || k->n_dims != 4)
		return false;
	add_rest(w, 0);
	add(w, made(TAUT_ROLE_OUT, q->elements));
	if (first) {
		add(w, made(TAUT_ROLE_OUT, k->elements));
		add(w, made(TAUT_ROLE_OUT, k->elements));
	}
	w->work->flops = flops * q->elements * (double)k->dim[length];
	return true;
}

/* input [sequence, batch, features]. Each step of the sequence reads all
 * weights again, as they fit in no cache beside the rest. */
static bool recurrent(struct worker *w, bool backward)
{
	const struct tauti_size *in = argument(w, 0);
	double weights = 0, rows;

	if (!in || in->n_dims != 3 || !(in->dim[2] > 0))
		return false;
	rows = in->elements / (double)in->dim[2];
	for (uint32_t i = 0; i < w->sizes->n; i++) {
		const struct tauti_size *size = &w->sizes->all[i];
		bool weight = size->n_dims == 2 &&
			(size->argument == 1 || size->argument == 2);
		struct taut_operand o = operand(size,
			weight ? TAUT_ROLE_WEIGHT : TAUT_ROLE_IN);

		o.passes = weight ? (double)in->dim[0] : 1;
		weights += weight ? size->elements : 0;
		add(w, o);
		if (weight && backward)
			add(w, operand(size, TAUT_ROLE_WEIGHT_OUT));
	}
	w->work->flops = (backward ? 4 : 2) * rows * weights;
	return weights > 0;
}

static double largest(const struct worker *w)
{
	double most = 0;

	for (uint32_t i = 0; i < w->sizes->n; i++)
		if (w->sizes->all[i].elements > most)
			most = w->sizes->all[i].elements;
	return most;
}

/* From the last dimension on, the larger of each. false: they do not fit, or
 * there are lists of tensors, of which each has an output of its own. */
static bool broadcast(const struct worker *w, struct taut_operand *ret_out)
{
	struct taut_operand out = made(TAUT_ROLE_OUT, 1);
	int64_t back[TAUT_MOST_DIMS]; /* from the last one on */

	for (uint32_t i = 0; i < w->sizes->n; i++) {
		const struct tauti_size *size = &w->sizes->all[i];

		if (size->n_dims > TAUT_MOST_DIMS || (i &&
			size->argument == w->sizes->all[i - 1].argument))
			return false;
		for (uint32_t k = 0; k < size->n_dims; k++) {
			int64_t dim = size->dim[size->n_dims - 1 - k];

			if (k == out.n_dims)
				back[out.n_dims++] = dim;
			else if (back[k] == 1)
				back[k] = dim;
			else if (dim != back[k] && dim != 1)
				return false;
		}
	}
	for (uint32_t k = 0; k < out.n_dims; k++) {
		out.dim[out.n_dims - 1 - k] = back[k];
		out.elements *= (double)back[k];
	}
	*ret_out = out;
	return true;
}

/* What is made of all inputs, one by one, has the dimensions of all of them; what
 * norms and those that are not known make is as large as the largest. An operand
 * of one dimension beside larger ones is a bias, or a sum. */
static bool each(struct worker *w, bool output)
{
	double most = largest(w);
	struct taut_operand out = made(TAUT_ROLE_OUT, most), all;

	if (w->is.kind == TAUT_OPWORK_POINTWISE && most > 0 &&
		broadcast(w, &all))
		out = all;
	for (uint32_t i = 0; i < w->sizes->n; i++) {
		const struct tauti_size *size = &w->sizes->all[i];

		add_size(w, size, size->n_dims == 1 && size->elements < most ?
			TAUT_ROLE_WEIGHT : TAUT_ROLE_IN);
	}
	if (output)
		add(w, out);
	w->work->flops = w->is.flops * out.elements;
	return most > 0;
}

static bool write_alone(struct worker *w)
{
	const struct tauti_size *to = argument(w, 0);

	add_size(w, to, TAUT_ROLE_OUT);
	return to && to->elements > 0;
}

static bool copy(struct worker *w)
{
	const struct tauti_size *to = argument(w, 0), *from = argument(w, 1);

	if (!to)
		return false;
	add_size(w, from, TAUT_ROLE_IN);
	add_size(w, to, TAUT_ROLE_OUT);
	return to->elements > 0;
}

static bool join(struct worker *w)
{
	double sum = 0;

	for (uint32_t i = 0; i < w->sizes->n; i++)
		sum += w->sizes->all[i].elements;
	add_rest(w, 0);
	add(w, made(TAUT_ROLE_OUT, sum));
	return sum > 0;
}

/* A row of the table for each index, or a number; no more of it is read. */
static bool look_up(struct worker *w, bool rows)
{
	const struct tauti_size *table = argument(w, 0), *index = NULL;
	double outputs;

	for (uint32_t i = 0; i < w->sizes->n && !index; i++)
		if (w->sizes->all[i].argument > 0)
			index = &w->sizes->all[i];
	if (!table || !index)
		return false;
	outputs = index->elements * (double)(rows && table->n_dims == 2 ?
		last_dim(table) : 1);
	add_size(w, index, TAUT_ROLE_IN);
	add(w, made(TAUT_ROLE_IN, outputs));
	add(w, made(TAUT_ROLE_OUT, outputs));
	return outputs > 0;
}

static bool look_up_backward(struct worker *w)
{
	const struct tauti_size *gradient = argument(w, 0);

	if (!gradient)
		return false;
	add_rest(w, 0);
	add(w, made(TAUT_ROLE_OUT, gradient->elements));
	return gradient->elements > 0;
}

static bool fill(struct worker *w, double outputs)
{
	switch (w->is.form) {
	case TAUTI_FORM_MM:
		return product(w, 0, false);
	case TAUTI_FORM_ADDMM:
		return product(w, 1, false);
	case TAUTI_FORM_LINEAR:
		return product(w, 0, true);
	case TAUTI_FORM_CONV:
		return convolution(w, outputs);
	case TAUTI_FORM_CONV_BACKWARD:
		return convolution_backward(w, 0);
	case TAUTI_FORM_CONV_BACKWARD_OLD:
		return convolution_backward(w, 1);
	case TAUTI_FORM_CONV_BACKWARD_INPUT:
		return convolution_backward_input(w);
	case TAUTI_FORM_ATTENTION:
		return attention(w, 0, 2, 4);
	case TAUTI_FORM_ATTENTION_LATE:
		return attention(w, 0, 1, 4);
	case TAUTI_FORM_ATTENTION_BACKWARD:
		return attention(w, 1, 2, 10);
	case TAUTI_FORM_ATTENTION_LATE_BACKWARD:
		return attention(w, 1, 1, 10);
	case TAUTI_FORM_RECURRENT:
		return recurrent(w, false);
	case TAUTI_FORM_RECURRENT_BACKWARD:
		return recurrent(w, true);
	case TAUTI_FORM_EACH:
		return each(w, true);
	case TAUTI_FORM_SUM:
		return each(w, false);
	case TAUTI_FORM_WRITE:
		return write_alone(w);
	case TAUTI_FORM_COPY:
		return copy(w);
	case TAUTI_FORM_JOIN:
		return join(w);
	case TAUTI_FORM_LOOKUP:
		return look_up(w, true);
	case TAUTI_FORM_GATHER:
		return look_up(w, false);
	case TAUTI_FORM_LOOKUP_BACKWARD:
		return look_up_backward(w);
	case TAUTI_FORM_NONE:
		break;
	}
	return true;
}

int taut_opwork_of(const char *name, const char *sizes, double outputs,
	struct taut_opwork *ret_work)
{
	struct tauti_sizes read;
	struct taut_opwork work = { 0 };
	struct worker w = { tauti_opname_of(name), &read, &work };

	work.kind = w.is.kind;
	if (!sizes || !tauti_sizes_read(sizes, &read) || !fill(&w, outputs) ||
		!(work.flops < MOST_WORK) || !(work.bytes < MOST_WORK))
		return 0;
	*ret_work = work;
	return 1;
}

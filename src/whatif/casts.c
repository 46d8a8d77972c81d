/* casts.c - see casts.h. PyTorch's autocast casts a weight once a step, for it
 * keeps what it cast, and an input when it is in 32 bits: behind a norm, which it
 * computes in 32, as it does a softmax, whose input it widens. The backward pass
 * casts as often, the other way; its casts are dealt out evenly over its products. */
#include "whatif/casts.h"

#include "whatif/kernels.h"

static const double pass_ns = 2000; /* no kernel is shorter */
static const double bytes = 4 + 2;  /* of an element that is cast */
/* Operators of a cast: to, _to_copy, empty_strided, copy_; of half of them, those
 * backward, a node of autograd's and its evaluation too. What they call cuts them
 * into two slices each. */
static const double slices = 2 * 5;
static const double slice_ns = 1000; /* of one, where none was recorded */

struct finder {
	struct tauti_whatif *w;
	const struct taut_rooflines *r;
	struct tauti_casts *to;
	struct tauti_cast forward; /* sums */
	uint32_t n_backward;
	bool is_wide;  /* what the lane's last kernel made is in 32 bits */
	uint32_t call; /* the last one whose casts are counted */
};

static enum tauti_phase phase_of(const struct finder *f, uint32_t op)
{
	return (enum tauti_phase)f->w->job->phase[op];
}

static struct tauti_kernel kernel_of(const struct finder *f, uint32_t op)
{
	return tauti_kernel_of(f->w, f->w->graph->name[op]);
}

static bool is_product(const struct finder *f, uint32_t op)
{
	struct tauti_kernel k = kernel_of(f, op);

	return k.class == TAUTI_KERNEL_MATH && !k.is_attention &&
		k.arithmetic != TAUTI_IN_HALF;
}

/* --- the forward pass -----------------------------------------------------------*/

static double pass_of(const struct finder *f, double elements)
{
	return pass_ns + elements * bytes * f->to->pass_ns_per_byte;
}

static struct tauti_cast by_sizes(
	const struct finder *f, const struct taut_opwork *work)
{
	struct tauti_cast c = { 0 };

	for (uint32_t i = 0; i < work->n_operands; i++) {
		const struct taut_operand *o = &work->operands[i];

		if (o->role == TAUT_ROLE_WEIGHT) {
			c.weights++;
			c.weights_ns += pass_of(f, o->elements);
		} else if (o->role == TAUT_ROLE_IN && f->is_wide && !c.inputs) {
			c.inputs = 1;
			c.inputs_ns = pass_of(f, o->elements);
		}
	}
	return c;
}

static void add_forward(struct finder *f, uint32_t op, struct tauti_cast c)
{
	f->to->of[op] = c;
	f->forward.weights += c.weights;
	f->forward.inputs += c.inputs;
	f->forward.weights_ns += c.weights_ns;
	f->forward.inputs_ns += c.inputs_ns;
}

static void see_product(struct finder *f, uint32_t op)
{
	uint32_t row = f->r->row_of[op], call = f->r->call_of[op];
	struct tauti_cast c = { .weights = 1, .weights_ns = pass_ns };

	if (call != TAUT_NONE && call == f->call)
		return;
	f->call = call;
	if (row != TAUT_NONE)
		c = by_sizes(f, &f->r->rows[row].work);
	add_forward(f, op, c);
}

static void see_softmax(struct finder *f, uint32_t op)
{
	uint32_t row = f->r->row_of[op];

	if (row != TAUT_NONE && f->r->rows[row].work.n_operands)
		add_forward(f, op, (struct tauti_cast){ .inputs = 1,
			.inputs_ns = pass_of(f, f->r->rows[row].work
				.operands[0].elements) });
}

static void see_lane(struct finder *f, uint32_t lane)
{
	const struct taut_graph *g = f->w->graph;

	f->is_wide = false;
	f->call = TAUT_NONE;
	for (uint32_t op = g->lane_begin[lane]; op < g->lane_begin[lane + 1];
		op++) {
		if (g->kind[op] != TAUT_OP_KERNEL)
			continue;
		if (phase_of(f, op) == TAUTI_PHASE_BACKWARD)
			f->n_backward += is_product(f, op);
		if (phase_of(f, op) != TAUTI_PHASE_FORWARD)
			continue;
		if (is_product(f, op)) {
			see_product(f, op);
			continue;
		}
		if (kernel_of(f, op).is_softmax)
			see_softmax(f, op);
		f->is_wide = kernel_of(f, op).is_softmax ||
			kernel_of(f, op).is_norm;
	}
}

/* --- the backward pass, and hosts -----------------------------------------------*/

static void deal_out(struct finder *f)
{
	const struct taut_graph *g = f->w->graph;
	double n = f->n_backward;

	for (uint32_t op = 0; n > 0 && op < g->n_ops; op++)
		if (g->kind[op] == TAUT_OP_KERNEL &&
			phase_of(f, op) == TAUTI_PHASE_BACKWARD &&
			is_product(f, op))
			f->to->of[op] = (struct tauti_cast){
				f->forward.weights / n, f->forward.inputs / n,
				f->forward.weights_ns / n,
				f->forward.inputs_ns / n };
}

static bool is_of_passes(const struct finder *f, uint32_t op)
{
	return phase_of(f, op) == TAUTI_PHASE_FORWARD ||
		phase_of(f, op) == TAUTI_PHASE_BACKWARD;
}

/* Of what recording left of n slices. Few of them are far longer than the others: those
 * in which a thread did not run. recorded_ns: as they were recorded, for most may have
 * nothing left; reordered. */
static double mean_of_usual(const int64_t *ns, int64_t *recorded_ns, size_t n)
{
	int64_t most = 10 * tauti_median(recorded_ns, n);
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (double)(ns[i] < most ? ns[i] : most);
	return n ? sum / (double)n : 0;
}

/* What a cast takes of its host, by the slices of operators, and by launches. */
static taut_status find_host(struct finder *f, struct taut_error *err)
{
	const struct taut_graph *g = f->w->graph;
	int64_t *launch = TAUT_ARENA_ARRAY(f->w->arena, int64_t, g->n_ops + 1);
	int64_t *slice = TAUT_ARENA_ARRAY(f->w->arena, int64_t, g->n_ops + 1);
	int64_t *recorded = TAUT_ARENA_ARRAY(
		f->w->arena, int64_t, g->n_ops + 1);
	size_t n_launches = 0, n_slices = 0;
	uint32_t *launcher;
	taut_status status = tauti_launchers(f->w, &launcher, err);

	if (status)
		return status;
	if (!launch || !slice || !recorded)
		return tauti_no_memory(err, "calls");
	for (uint32_t op = 0; op < g->n_ops; op++) {
		const struct taut_trace *t;
		uint32_t row;

		if (!is_of_passes(f, op))
			continue;
		if (launcher[op] != TAUT_NONE)
			launch[n_launches++] =
				f->w->costs->dur_ns[launcher[op]];
		t = tauti_op_trace(f->w, op, &row);
		if (t && g->kind[op] == TAUT_OP_HOST &&
			t->kind[row] == TAUT_KIND_OP) {
			recorded[n_slices] = g->dur_ns[op];
			slice[n_slices++] = f->w->costs->dur_ns[op];
		}
	}
	f->to->host_ns = (double)tauti_median(launch, n_launches) +
		slices * (n_slices ? mean_of_usual(slice, recorded, n_slices) :
		slice_ns);
	return TAUT_OK;
}

/* Nanoseconds for a byte that something one by one reads or writes. */
static double pass_rate(const struct taut_rooflines *r)
{
	for (uint32_t i = 0; i < r->n_fits; i++)
		if (!r->fits[i].name &&
			r->fits[i].kind == TAUT_OPWORK_POINTWISE)
			return r->fits[i].roofline.ns_per_byte;
	return 0;
}

taut_status tauti_casts_find(struct tauti_whatif *w,
	const struct taut_rooflines *rooflines, struct tauti_casts *ret_casts,
	struct taut_error *err)
{
	const struct taut_graph *g = w->graph;
	struct tauti_casts found = { .of = TAUT_ARENA_ARRAY(w->arena,
		struct tauti_cast, (size_t)g->n_ops + 1),
		.pass_ns_per_byte = pass_rate(rooflines) };
	struct finder f = { .w = w, .r = rooflines, .to = &found };
	taut_status status;

	if (!found.of)
		return tauti_no_memory(err, "casts");
	for (uint32_t l = 0; l < g->n_lanes; l++)
		if (g->lanes[l].kind == TAUT_LANE_STREAM)
			see_lane(&f, l);
	deal_out(&f);
	status = find_host(&f, err);
	*ret_casts = found;
	return status;
}

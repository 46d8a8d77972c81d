/* tensor.c - layers shared by more or fewer ranks (tensor parallel).
 *
 * With t ranks to a layer, each has 1/t of its products, and the parts are
 * summed (or gathered) over the group, some bytes of activations each time,
 * however many they are. With t' ranks a product takes t/t' of its time, but
 * for the shortest time that a kernel can take; gradients and weights of a
 * rank are t/t' of what they were; the collectives of the group have another
 * size. What is not shared (norms, dropout) stays, unless sequences are shared
 * too, which sums that are scattered tell. The number of replicas stays, and so
 * the number of ranks changes. */
#include <stdlib.h>

#include "whatif/pipes.h"
#include "whatif/products.h"

enum { TENSOR, GROUP };
enum { MOST_RANKS = 1024, MOST_OPS = 20000000 };

static const double kernel_ns = 3000; /* no kernel is shorter */
static const double call_ns = 2000;   /* of one operator on a host */

struct tensor {
	struct tauti_whatif *w;
	const struct tauti_change *c;
	uint32_t was, now;  /* ranks to a layer */
	uint32_t *ranks, n; /* present ones, ascending */
	uint32_t *place;    /* by rank of the edit */
	uint32_t *root;     /* by place: union-find */
	uint32_t *members, n_members; /* places, of a collective */
	struct tauti_replicas slices;
	uint8_t *shared;    /* by collective: of one group of those who share */
	bool sequences;     /* are shared, too */
	uint8_t *products, *wholes, *parts; /* by op of the graph */
	double either;      /* share of what is told by no name, that is shared */
	double flat;        /* share of a product that stays */
	double balance;     /* operations that a device does while it moves a
	                       byte */
	double *ratio;      /* by op of the graph: of products by their sizes */
	struct taut_error *err;
};

static taut_status no_memory(const struct tensor *x)
{
	return tauti_no_memory(x->err, "tensor");
}

/* --- who shares layers ----------------------------------------------------------- */

static uint32_t root_of(struct tensor *x, uint32_t p)
{
	while (x->root[p] != p)
		p = x->root[p] = x->root[x->root[p]];
	return p;
}

static void join(struct tensor *x, uint32_t a, uint32_t b)
{
	a = root_of(x, a);
	b = root_of(x, b);
	x->root[a > b ? a : b] = a > b ? b : a;
}

static void see_member(void *context, uint32_t arrive)
{
	struct tensor *x = context;
	struct taut_op op;

	if (taut_edit_op(x->w->edit, arrive, &op) && x->n_members < x->n)
		x->members[x->n_members++] = x->place[
			taut_edit_lane(x->w->edit, op.lane).trace];
}

static bool sums(const struct taut_collective *c)
{
	return c->kind == TAUT_COLL_ALLREDUCE ||
		c->kind == TAUT_COLL_REDUCESCATTER;
}

/* Also of one that a change made: as the recorded one that it is like. */
static bool is_forward(const struct tensor *x, uint32_t c)
{
	const struct taut_graph *g = x->w->graph;
	uint32_t like = taut_edit_collective_like(x->w->edit, c);

	return like != TAUT_NONE && x->w->job->phase[g->member_arrive[
		g->collectives[like].first_member]] == TAUTI_PHASE_FORWARD;
}

/* Activations are summed forward and backward, as many bytes each time; what
 * is summed backward alone, or is of other sizes there, are gradients. */
static bool sums_gradients(const struct tensor *x)
{
	uint32_t n = taut_edit_collectives(x->w->edit), alike = 0, others = 0;
	int64_t forward = -1;
	struct taut_collective c;

	for (uint32_t i = 0; i < n; i++)
		if (taut_edit_collective(x->w->edit, i, &c) && sums(&c) &&
			c.n_members == x->was && c.bytes > forward &&
			is_forward(x, i))
			forward = c.bytes;
	for (uint32_t i = 0; i < n && forward > 0; i++) {
		if (!taut_edit_collective(x->w->edit, i, &c) || !sums(&c) ||
			c.n_members != x->was || is_forward(x, i))
			continue;
		alike += c.bytes == forward;
		others += c.bytes != forward;
	}
	return others > alike;
}

static taut_status join_by_sums(struct tensor *x)
{
	for (uint32_t i = 0; i < taut_edit_collectives(x->w->edit); i++) {
		struct taut_collective c;

		if (!taut_edit_collective(x->w->edit, i, &c) || !sums(&c) ||
			!is_forward(x, i))
			continue;
		x->n_members = 0;
		taut_edit_each_member(x->w->edit, i, see_member, x);
		if (c.group_size > (int32_t)x->n_members)
			return taut_error_set(x->err, TAUT_EINVAL, -1, "tensor: "
				"a group of %d ranks was recorded on %u of them "
				"alone: who else is in it is not known",
				c.group_size, x->n_members);
		for (uint32_t k = 1; k < x->n_members; k++)
			join(x, x->members[0], x->members[k]);
	}
	return TAUT_OK;
}

static int32_t fact(const struct tensor *x, uint32_t place, const char *key)
{
	const struct taut_run *run = x->w->graph->run;
	const char *text = taut_trace_fact(&run->traces[taut_edit_rank_like(
		x->w->edit, x->ranks[place])], key);

	return text ? (int32_t)strtol(text, NULL, 10) : -1;
}

/* As stages=N before this left them. */
static bool join_by_pipe(struct tensor *x)
{
	const struct tauti_pipes *p = x->w->pipes;

	for (uint32_t a = 0; a < p->n; a++)
		for (uint32_t b = 0; b < a; b++)
			for (uint32_t s = 0; s < p->stages &&
				p->replica[a] == p->replica[b]; s++)
				join(x, x->place[p->rank[a * p->stages + s]],
					x->place[p->rank[b * p->stages + s]]);
	return true;
}

/* Ranks of which a table says that they hold the same stage of one replica. */
static bool join_by_stage(struct tensor *x)
{
	bool told = fact(x, 0, "pipeline.stage") >= 0;

	if (x->w->pipes && x->w->pipes->n * x->w->pipes->stages == x->n)
		return join_by_pipe(x);
	for (uint32_t a = 0; told && a < x->n; a++)
		for (uint32_t b = 0; b < a; b++)
			if (fact(x, a, "pipeline.stage") ==
				fact(x, b, "pipeline.stage") &&
				fact(x, a, "data.rank") ==
				fact(x, b, "data.rank"))
				join(x, a, b);
	return told;
}

static taut_status join_by_number(struct tensor *x)
{
	uint32_t size;
	taut_status status = tauti_param_count(
		x->c, GROUP, 1, MOST_RANKS, &size, x->err);

	if (!status && x->n % size)
		status = taut_error_set(x->err, TAUT_EINVAL, -1, "tensor: %u "
			"ranks are no whole number of groups of %u", x->n,
			size);
	for (uint32_t p = 0; !status && p < x->n; p++)
		x->root[p] = p - p % size;
	return status;
}

/* slices.rank: the ith of each group, for each i. */
static taut_status list_groups(struct tensor *x)
{
	uint32_t *group = calloc((size_t)x->n + 1, sizeof *group);
	uint32_t *size = calloc((size_t)x->n + 1, sizeof *size);
	uint32_t n = 0;
	taut_status status = TAUT_OK;

	x->slices.rank = calloc((size_t)x->n + 1, sizeof *x->slices.rank);
	if (!group || !size || !x->slices.rank)
		status = no_memory(x);
	for (uint32_t p = 0; !status && p < x->n; p++) {
		if (root_of(x, p) == p)
			group[p] = n++;
		size[group[root_of(x, p)]]++;
	}
	for (uint32_t g = 1; !status && g < n; g++)
		if (size[g] != size[0])
			status = taut_error_set(x->err, TAUT_EINVAL, -1,
				"tensor: groups of %u and of %u ranks sum "
				"forward: expected groups of one size; group=N "
				"says which", size[0], size[g]);
	if (!status) {
		x->was = x->slices.n = size[0];
		x->slices.size = n;
		memset(size, 0, ((size_t)x->n + 1) * sizeof *size);
		for (uint32_t p = 0; p < x->n; p++) {
			uint32_t g = group[root_of(x, p)];

			x->slices.rank[size[g]++ * n + g] = x->ranks[p];
		}
	}
	free(group);
	free(size);
	return status;
}

static taut_status list_ranks(struct tensor *x)
{
	uint32_t n = taut_edit_ranks(x->w->edit);
	struct taut_arena *arena = x->w->arena;

	x->ranks = TAUT_ARENA_ARRAY(arena, uint32_t, (size_t)n + 1);
	x->place = TAUT_ARENA_ARRAY(arena, uint32_t, (size_t)n + 1);
	x->root = TAUT_ARENA_ARRAY(arena, uint32_t, (size_t)n + 1);
	x->members = TAUT_ARENA_ARRAY(arena, uint32_t, (size_t)n + 1);
	if (!x->ranks || !x->place || !x->root || !x->members)
		return no_memory(x);
	for (uint32_t r = 0; r < n; r++) {
		if (!taut_edit_has_rank(x->w->edit, r))
			continue;
		x->root[x->n] = x->place[r] = x->n;
		x->ranks[x->n++] = r;
	}
	return TAUT_OK;
}

static taut_status find_groups(struct tensor *x)
{
	bool given = tauti_param_given(x->c, GROUP), told = false;
	taut_status status = list_ranks(x);

	if (!status && given)
		status = join_by_number(x);
	else if (!status && !(told = join_by_stage(x)))
		status = join_by_sums(x);
	if (!status)
		status = list_groups(x);
	if (status || given)
		return status;
	if (x->was < 2 && told)
		return taut_error_set(x->err, TAUT_EINVAL, -1, "tensor: the "
			"recording has one rank for each stage of a replica, "
			"and no collectives of those that share its layers");
	if (x->was < 2 || sums_gradients(x))
		return taut_error_set(x->err, TAUT_EINVAL, -1, "tensor: nothing "
			"sums activations over ranks in the forward pass of this "
			"recording; group=N says how many share layers");
	return TAUT_OK;
}

/* --- what is asked ------------------------------------------------------------------- */

static taut_status read_degree(struct tensor *x)
{
	char expected[96];
	bool is_factor;
	double value, ops = (double)taut_edit_ops(x->w->edit);
	taut_status status = tauti_param_scaled(
		x->c, TENSOR, TAUTI_PLAIN, &is_factor, &value, x->err);

	if (status)
		return status;
	value *= is_factor ? x->was : 1;
	if (value < 1 || value > MOST_RANKS || value != floor(value)) {
		snprintf(expected, sizeof expected, "a whole number from 1 to "
			"%u, or a factor of %u that gives one", MOST_RANKS,
			x->was);
		return tauti_param_wrong(x->c, TENSOR, expected, x->err);
	}
	x->now = (uint32_t)value;
	if (ops * value / x->was > MOST_OPS)
		return taut_error_set(x->err, TAUT_EINVAL, -1, "tensor: this "
			"job would have %.0f million operations: expected at "
			"most %d", ops * value / x->was / 1e6,
			MOST_OPS / 1000000);
	return TAUT_OK;
}

/* --- collectives ------------------------------------------------------------------------ */

/* Those of one group, over all who share: not of one slice, not over groups. */
static taut_status mark_shared(struct tensor *x)
{
	uint32_t n = taut_edit_collectives(x->w->edit);

	x->shared = TAUT_ARENA_ARRAY(x->w->arena, uint8_t, (size_t)n + 1);
	if (!x->shared)
		return no_memory(x);
	for (uint32_t i = 0; i < n; i++) {
		struct taut_collective c;
		bool one = true;

		x->n_members = 0;
		if (!taut_edit_collective(x->w->edit, i, &c))
			continue;
		taut_edit_each_member(x->w->edit, i, see_member, x);
		for (uint32_t k = 1; k < x->n_members; k++)
			one &= root_of(x, x->members[k]) ==
				root_of(x, x->members[0]);
		x->shared[i] = one && x->n_members == x->was;
		x->sequences |= x->shared[i] && is_forward(x, i) &&
			c.kind == TAUT_COLL_REDUCESCATTER;
	}
	return TAUT_OK;
}

static taut_status change_shared(struct tensor *x)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < x->slices.n_inner; i++) {
		struct taut_collective c;

		if (!x->shared[i] ||
			!taut_edit_collective(x->w->edit, i, &c))
			continue;
		if (x->now == 1)
			status = taut_edit_remove_collective(
				x->w->edit, i, x->err);
		else if (c.kind == TAUT_COLL_ALLGATHER && c.bytes > 0)
			status = tauti_scale_bytes(x->w, i,
				(double)x->was / x->now, x->err);
		else
			status = tauti_regroup(
				x->w, i, x->was, x->now, x->err);
	}
	return status;
}

struct slicer {
	const struct tensor *x;
	const uint32_t *slice_of; /* by rank */
	uint32_t slice, n;
	bool one;
};

static void see_slice(void *context, uint32_t arrive)
{
	struct slicer *s = context;
	struct taut_op op;
	uint32_t slice;

	if (!taut_edit_op(s->x->w->edit, arrive, &op))
		return;
	slice = s->slice_of[taut_edit_lane(s->x->w->edit, op.lane).trace];
	s->one &= !s->n++ || slice == s->slice;
	s->slice = slice;
}

/* Gradients and weights that replicas sum or gather, of one slice each. */
static taut_status scale_gradients(struct tensor *x, const uint32_t *slice_of)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < taut_edit_collectives(x->w->edit);
		i++) {
		struct slicer s = { x, slice_of, 0, 0, true };
		struct taut_collective c;

		if (!taut_edit_collective(x->w->edit, i, &c) ||
			(!sums(&c) && c.kind != TAUT_COLL_ALLGATHER) ||
			(i < x->slices.n_inner && x->shared[i]))
			continue;
		taut_edit_each_member(x->w->edit, i, see_slice, &s);
		if (s.one && s.n > 1)
			status = tauti_scale_bytes(x->w, i,
				(double)x->was / x->now, x->err);
	}
	return status;
}

/* --- ranks ------------------------------------------------------------------------------- */

static taut_status change_ranks(struct tensor *x, uint32_t **ret_slice_of)
{
	uint32_t size = x->slices.size, most = x->was > x->now ? x->was : x->now;
	uint32_t *all = TAUT_ARENA_ARRAY(
		x->w->arena, uint32_t, (size_t)most * size + 1);
	uint32_t *slice_of;
	taut_status status = all ? TAUT_OK : no_memory(x);

	if (!status)
		memcpy(all, x->slices.rank,
			(size_t)x->was * size * sizeof *all);
	for (uint32_t i = x->was; !status && i < x->now; i++)
		status = tauti_slice_copy(x->w, &x->slices, i % x->was,
			all + (size_t)i * size, x->err);
	for (uint32_t i = x->now; !status && i < x->was; i++)
		status = tauti_slice_remove(
			x->w, &x->slices, i, "tensor", x->err);
	slice_of = TAUT_ARENA_ARRAY(x->w->arena, uint32_t,
		(size_t)taut_edit_ranks(x->w->edit) + 1);
	if (!slice_of)
		return no_memory(x);
	for (size_t i = 0; !status && i < (size_t)most * size; i++)
		slice_of[all[i]] = (uint32_t)(i / size);
	*ret_slice_of = slice_of;
	return status;
}

/* --- computation --------------------------------------------------------------------------- */

static bool has_one_of(const char *name, const char *const *words)
{
	for (; *words; words++)
		if (strstr(name, *words))
			return true;
	return false;
}

static bool is_product(const void *context, const char *name)
{
	static const char *const words[] = { "gemm", "Gemm", "GEMM", "cutlass",
		"::mm", "::bmm", "addmm", "matmul", "::linear", "fmha",
		"flash", "attention", NULL };

	(void)context;
	return has_one_of(name, words);
}

static bool is_whole(const void *context, const char *name)
{
	static const char *const words[] = { "layer_norm", "LayerNorm",
		"layernorm", "rms_norm", "RMSNorm", "RmsNorm", "dropout",
		"Dropout", "embedding", "Embedding", NULL };

	(void)context;
	return has_one_of(name, words);
}

static bool is_part(const void *context, const char *name)
{
	static const char *const words[] = { "softmax", "Softmax", "SoftMax",
		"gelu", "Gelu", "GELU", "silu", "Silu", "SiLU", "swiglu",
		"relu", "ReLU", "attention", "Attention", "MLP", NULL };

	(void)context;
	return has_one_of(name, words);
}

/* New time / old of an operation. */
static double factor_of(const struct tensor *x, const struct taut_op *op)
{
	double factor = (double)x->was / x->now;
	enum tauti_phase phase = tauti_op_phase(x->w, op);
	double dur = (double)op->dur_ns, least = x->w->job->has_device ?
		kernel_ns : call_ns, share;

	if (op->like == TAUT_NONE || op->kind == TAUT_OP_RETURN ||
		dur <= least || tauti_is_device_op(op->kind) !=
		x->w->job->has_device || (phase != TAUTI_PHASE_FORWARD &&
		phase != TAUTI_PHASE_BACKWARD && phase != TAUTI_PHASE_OPTIMIZER))
		return 1;
	if (phase == TAUTI_PHASE_OPTIMIZER || x->sequences)
		share = 1;
	else if (tauti_picked(x->products, op) && x->ratio[op->like] > 0)
		share = (1 - x->ratio[op->like]) / (1 - factor);
	else if (tauti_picked(x->products, op))
		share = 1 - x->flat;
	else if (tauti_picked(x->wholes, op))
		share = 0;
	else
		share = tauti_picked(x->parts, op) ? 1 : x->either;
	return 1 + share * (1 - least / dur) * (factor - 1);
}

static taut_status scale_work(struct tensor *x)
{
	taut_status status = tauti_pick_own(
		x->w, is_product, NULL, &x->products, x->err);
	uint32_t n = 0;

	if (!status)
		status = tauti_pick(x->w, is_whole, NULL, &x->wholes, x->err);
	if (!status)
		status = tauti_pick(x->w, is_part, NULL, &x->parts, x->err);
	if (!status)
		status = tauti_products_share(x->w, x->products,
			(double)x->was / x->now, x->balance, &x->ratio, &n,
			x->err);
	if (!status && n)
		status = tauti_note(x->w, x->err, "tensor: the sizes of %u "
			"products tell how they are shared", n);
	for (uint32_t i = 0; !status && i < taut_edit_ops(x->w->edit); i++) {
		struct taut_op op;
		double factor;

		if (!taut_edit_op(x->w->edit, i, &op) ||
			!tauti_is_work(op.kind) ||
			taut_edit_lane(x->w->edit, op.lane).is_comm ||
			tauti_is_load_lane(x->w, op.lane))
			continue;
		factor = factor_of(x, &op);
		if (factor != 1)
			status = tauti_scale_op(
				x->w, i, &op, factor, x->err);
	}
	return status;
}

/* Central, and how far off: kernels of which no name tells are as well shared
 * as not, and narrower products are less efficient. Of a table, whose
 * operations are whole passes, nine tenths and more are shared. */
static void doubt(struct tensor *x)
{
	bool table = x->w->graph->run->traces[0].is_table != 0;
	bool more = x->now > x->was;
	double device = x->w->job->has_device ? 150 : 20;
	double low = table ? 0.85 : 0, high = 1;
	double usual = table ? 0.95 : 0.5;

	/* with more ranks it is faster if more is shared */
	x->either = more ? tauti_range(x->w, high, usual, low) :
		tauti_range(x->w, low, usual, high);
	/* 100 to 300 of GPUs, some ten of cores */
	x->balance = device * (more ? tauti_range(x->w, 0.5, 1, 2) :
		tauti_range(x->w, 2, 1, 0.5));
	x->flat = more ? tauti_range(x->w, 0, 0.03, 0.1) :
		tauti_range(x->w, 0.1, 0.03, 0);
}

/* Weights, their gradients and the optimizer's state are shared; of what a
 * layer keeps for its backward pass 24 of 34 parts (Korthikanti et al., MLSys
 * 2023), all of it where sequences are shared. */
static void scale_memory(struct tensor *x)
{
	const uint32_t passes = 1u << TAUTI_PHASE_FORWARD |
		1u << TAUTI_PHASE_BACKWARD | 1u << TAUTI_PHASE_NONE;
	double factor = (double)x->was / x->now;

	tauti_scale_blocks(x->w, TAUTI_NOT_RECORDED | passes |
		1u << TAUTI_PHASE_OPTIMIZER, TAUTI_NOT_RECORDED |
		1u << TAUTI_PHASE_OPTIMIZER, factor);
	tauti_scale_blocks(x->w, passes, passes, x->sequences ? factor :
		(10 + 24.0 / x->now) / (10 + 24.0 / x->was));
}

/* --- the whole ---------------------------------------------------------------------------------- */

static bool knows_network(const struct tensor *x)
{
	for (uint32_t i = 0; i < x->w->costs->n_classes; i++)
		if (x->w->costs->classes[i].on_network)
			return true;
	return false;
}

static bool spans_hosts(const struct tensor *x)
{
	const uint32_t *host_of = x->w->site.host_of;

	for (uint32_t i = 1; i < x->was; i++)
		if (host_of[x->slices.rank[i * x->slices.size]] !=
			host_of[x->slices.rank[0]])
			return true;
	return false;
}

static taut_status say(struct tensor *x, bool on_one_host)
{
	taut_status status = tauti_note(x->w, x->err, "tensor: a layer is "
		"shared by %u ranks for %u, in %u group%s: %u ranks for %u; "
		"with world=N behind it there are others", x->now, x->was,
		x->slices.size, x->slices.size == 1 ? "" : "s",
		x->now * x->slices.size, x->was * x->slices.size);

	if (!status && x->was == 1 && x->now > 1)
		status = tauti_note(x->w, x->err, "tensor: where no rank shared "
			"a layer, nothing summed activations, and nothing is "
			"made that does: the step lacks what those sums take");

	if (!status && x->now > x->was && on_one_host && !knows_network(x))
		status = tauti_note(x->w, x->err, "tensor: new ranks stand on "
			"hosts of their own; no transfer between hosts was "
			"recorded, so that a byte is taken to cost as much on a "
			"network as inside of a host");
	return status;
}

static taut_status change(struct tensor *x)
{
	bool on_one_host = !spans_hosts(x);
	uint32_t *slice_of = NULL;
	taut_status status = mark_shared(x);

	if (!status)
		status = tauti_slices_mark(x->w, &x->slices, x->err);
	if (!status)
		status = say(x, on_one_host);
	if (status || x->now == x->was)
		return status;
	doubt(x);
	scale_memory(x);
	status = scale_work(x);
	if (!status)
		status = change_ranks(x, &slice_of);
	if (!status)
		status = change_shared(x);
	if (!status)
		status = scale_gradients(x, slice_of);
	x->w->pipes = NULL;
	return status;
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	struct tensor x = { .w = w, .c = c, .err = err };
	taut_status status = find_groups(&x);

	if (!status)
		status = read_degree(&x);
	if (!status)
		status = change(&x);
	tauti_replicas_fini(&x.slices);
	return status;
}

static const struct taut_parameter parameters[] = {
	[TENSOR] = { "", "N|FACTOR", NULL, "ranks that share each layer: 4, 2x" },
	[GROUP] = { "group", "N", "", "how many share layers in the recording, "
		"neighbours by their numbers; without it, those who sum in the "
		"forward pass" },
};

const struct tauti_transformation tauti_whatif_tensor = {
	.info = {
		.name = "tensor", .group = "job",
		.summary = "each layer shared by more or fewer ranks",
		.assumption = "products, attention and activations of a layer "
			"are shared evenly, norms and dropout not, unless "
			"sequences are; activations keep their bytes; the "
			"number of replicas stays, so the number of ranks "
			"changes",
		.source = "Megatron-LM (arXiv 1909.08053); memory: Korthikanti "
			"et al. (MLSys 2023)",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};

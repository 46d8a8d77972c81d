/* repair.c - a slow rank made as fast as the others: what do stragglers cost?
 *
 * An operation of one rank matches those of the others that have its name,
 * come behind one of the same name, on the same kind of lane, the same time in
 * the same step. It then takes the median of theirs. */
#include <stdlib.h>

#include "whatif/compute.h"

enum { RANK };

static const struct taut_parameter parameters[] = {
	{ "", "RANK", NULL, "the rank that becomes as fast as the others" },
};

struct item {
	int64_t step;         /* its number in the recording */
	uint32_t role;        /* of its lane */
	uint32_t name, before; /* of itself, and of the one before it */
	uint32_t nth;         /* of these in the step */
	uint32_t rank, op;
	int64_t dur_ns;
};

struct repairer {
	struct tauti_whatif *w;
	uint32_t rank;
	TAUT_VEC(struct item) items;
	size_t n_matched, n_alone;
};

/* Equal on lanes of different ranks that do the same. */
static uint32_t role_of(const struct tauti_whatif *w, uint32_t lane)
{
	struct taut_graph_lane is = taut_edit_lane(w->edit, lane);
	uint32_t nth = 0;

	if (is.is_main)
		return 0;
	for (uint32_t l = 0; l < lane; l++) {
		struct taut_graph_lane other = taut_edit_lane(w->edit, l);

		nth += other.trace == is.trace && !other.is_main &&
			other.kind == is.kind && other.is_comm == is.is_comm;
	}
	return 1 + (uint32_t)is.kind + 4 * (is.is_comm != 0) + 8 * nth;
}

static bool collect_lane(struct repairer *r, uint32_t lane)
{
	const struct tauti_whatif *w = r->w;
	uint32_t role = role_of(w, lane), before = 0;
	struct taut_op op;

	for (uint32_t i = taut_edit_first(w->edit, lane); i != TAUT_NONE;
		i = taut_edit_next(w->edit, i)) {
		uint32_t step;

		if (!taut_edit_op(w->edit, i, &op))
			continue;
		step = tauti_op_step(w, &op);
		if (tauti_is_work(op.kind) && step != TAUT_NONE) {
			struct item it = { w->graph->steps[step].id, role,
				op.name, before, 0, tauti_op_rank(w, &op), i,
				op.dur_ns };

			if (!taut_vec_push(&r->items, it))
				return false;
		}
		before = op.name;
	}
	return true;
}

static int by_kind(const struct item *x, const struct item *y)
{
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	if (x->role != y->role)
		return x->role < y->role ? -1 : 1;
	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	if (x->before != y->before)
		return x->before < y->before ? -1 : 1;
	return 0;
}

/* nth is the place in collecting here, which is that on the lane. */
static int by_rank(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	int order = by_kind(x, y);

	if (order)
		return order;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->nth < y->nth ? -1 : x->nth > y->nth;
}

static int by_match(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	int order = by_kind(x, y);

	if (order)
		return order;
	if (x->nth != y->nth)
		return x->nth < y->nth ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static void number(struct repairer *r)
{
	struct item *items = r->items.data;

	for (size_t i = 0; i < r->items.count; i++)
		items[i].nth = (uint32_t)i;
	qsort(items, r->items.count, sizeof *items, by_rank);
	for (size_t i = 0, nth = 0; i < r->items.count; i++) {
		nth = i && !by_kind(&items[i - 1], &items[i]) &&
			items[i - 1].rank == items[i].rank ? nth + 1 : 0;
		items[i].nth = (uint32_t)nth;
	}
	qsort(items, r->items.count, sizeof *items, by_match);
}

/* items [from, to) match. */
static taut_status repair_one(struct repairer *r, size_t from, size_t to,
	int64_t *buffer, struct taut_error *err)
{
	uint32_t mine = TAUT_NONE;
	size_t n = 0;

	for (size_t i = from; i < to; i++) {
		const struct item *it = &r->items.data[i];

		if (it->rank == r->rank)
			mine = it->op;
		else
			buffer[n++] = it->dur_ns;
	}
	if (mine == TAUT_NONE)
		return TAUT_OK;
	r->n_alone += !n;
	r->n_matched += n > 0;
	return n ? taut_edit_set_dur(r->w->edit, mine,
		tauti_median(buffer, n), err) : TAUT_OK;
}

static taut_status repair_matching(
	struct repairer *r, int64_t *buffer, struct taut_error *err)
{
	const struct item *items = r->items.data;

	for (size_t from = 0, to; from < r->items.count; from = to) {
		taut_status status;

		for (to = from + 1; to < r->items.count &&
			!by_kind(&items[from], &items[to]) &&
			items[from].nth == items[to].nth; to++)
			;
		status = repair_one(r, from, to, buffer, err);
		if (status)
			return status;
	}
	return TAUT_OK;
}

static bool is_load(const struct tauti_whatif *w, const struct taut_op *op)
{
	uint32_t row;
	const struct taut_trace *t = op->like == TAUT_NONE ? NULL :
		tauti_op_trace(w, op->like, &row);

	return t && t->kind[row] == TAUT_KIND_LOAD;
}

/* The median load of the rank, or of all others. */
static int64_t usual_load(struct repairer *r, bool mine, int64_t *buffer)
{
	size_t n = 0;

	for (uint32_t i = 0; i < taut_edit_ops(r->w->edit); i++) {
		struct taut_op op;

		if (taut_edit_op(r->w->edit, i, &op) && is_load(r->w, &op) &&
			(tauti_op_rank(r->w, &op) == r->rank) == mine)
			buffer[n++] = op.dur_ns;
	}
	return tauti_median(buffer, n);
}

/* Batches are not the same ones on each rank: all by one factor. */
static taut_status repair_loads(
	struct repairer *r, int64_t *buffer, struct taut_error *err)
{
	int64_t mine = usual_load(r, true, buffer);
	int64_t others = usual_load(r, false, buffer);
	taut_status status = TAUT_OK;

	if (!mine || !others)
		return TAUT_OK;
	for (uint32_t i = 0; !status && i < taut_edit_ops(r->w->edit); i++) {
		struct taut_op op;

		if (taut_edit_op(r->w->edit, i, &op) && is_load(r->w, &op) &&
			tauti_op_rank(r->w, &op) == r->rank)
			status = tauti_scale_op(r->w, i, &op,
				(double)others / (double)mine, err);
	}
	return status;
}

static taut_status tell(const struct repairer *r,
	const struct tauti_change *c, struct taut_error *err)
{
	if (!r->n_matched)
		return taut_error_set(err, TAUT_EINVAL, -1, "%s: no operation "
			"of this rank is like those of another; two ranks "
			"that do the same are needed", c->text);
	if (!r->n_alone)
		return TAUT_OK;
	return tauti_note(r->w, err, "%s: %zu of %zu operations are like none "
		"of the other ranks' and stay as they are", c->text,
		r->n_alone, r->n_alone + r->n_matched);
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	struct repairer r = { .w = w };
	int64_t *buffer = taut_arena_calloc(
		w->arena, taut_edit_ops(w->edit) + 1, sizeof *buffer);
	taut_status status = buffer ? tauti_param_rank(w, c, RANK, &r.rank,
		err) : tauti_no_memory(err, "durations");

	for (uint32_t l = 0; !status && l < taut_edit_lanes(w->edit); l++)
		if (taut_edit_lane(w->edit, l).trace != TAUT_NONE &&
			!collect_lane(&r, l))
			status = tauti_no_memory(err, "operations to match");
	if (!status && r.items.count)
		number(&r);
	if (!status)
		status = repair_matching(&r, buffer, err);
	if (!status)
		status = repair_loads(&r, buffer, err);
	if (!status)
		status = tell(&r, c, err);
	taut_vec_free(&r.items);
	return status;
}

const struct tauti_transformation tauti_whatif_repair = {
	.info = {
		.name = "repair", .group = "compute",
		.summary = "a slow rank computes as fast as the others",
		.assumption = "ranks do the same work: each operation takes "
			"the median of the same one on the other ranks, so that "
			"a stall in it, or between two, is gone; what only "
			"this rank does stays",
		.source = "ByteDance's straggler study (OSDI'25): idealised "
			"durations",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};

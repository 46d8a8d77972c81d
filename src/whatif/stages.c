/* stages.c - a model cut into more or fewer pipeline stages.
 *
 * With p stages and m micro-batches of equal forward and backward time f and b,
 * and transfers of no time, a step of 1F1B takes (m + p - 1)(f + b), of which
 * (p - 1)/m is the bubble over m (f + b). Nothing of that is written here: the
 * stages are cut anew, their order is made, and the replay tells.
 *
 * Layers are cut evenly. What first and last stage have beside layers
 * (embedding, loss) is what they take longer than those between, and goes with
 * them. The number of replicas stays, and so the number of ranks changes. */
#include <stdlib.h>

#include "whatif/pipes.h"

enum { STAGES, SCHEDULE, MICRO, CHUNKS };
enum { MOST_STAGES = 1024, MOST_BATCHES = 1 << 20, MOST_OPS = 20000000 };
enum { UPDATES, SUMS, GATHERS, CLOSINGS }; /* what a step ends with */

struct stages {
	struct tauti_whatif *w;
	const struct tauti_change *c;
	const struct tauti_pipes *old;
	struct tauti_pipes *new;
	struct tauti_recut recut;
	struct tauti_replicas slices; /* the recorded stages */
	uint32_t *base;    /* by new stage: that its ranks are, or are copies of */
	uint32_t *stage_of; /* by rank of the edit: new stage; TAUT_NONE */
	uint32_t n_ranks;
	double *closing[CLOSINGS]; /* by recorded stage: time, or bytes */
	double first[CLOSINGS], last[CLOSINGS];
	double beside;     /* how much of what ends have beside layers */
	struct taut_error *err;
};

static taut_status no_memory(const struct stages *x)
{
	return tauti_no_memory(x->err, "stages");
}

/* --- what is asked ---------------------------------------------------------------- */

/* N, or a factor of what there is, of which a whole number must come. */
static taut_status read_number(const struct stages *x, size_t i, uint32_t is,
	uint32_t most, uint32_t *ret)
{
	char expected[96];
	bool is_factor;
	double value;
	taut_status status = tauti_param_scaled(
		x->c, i, TAUTI_PLAIN, &is_factor, &value, x->err);

	if (status)
		return status;
	value *= is_factor ? is : 1;
	if (value < 1 || value > most || value != floor(value)) {
		snprintf(expected, sizeof expected, "a whole number from 1 to "
			"%u, or a factor of %u that gives one", most, is);
		return tauti_param_wrong(x->c, i, expected, x->err);
	}
	*ret = (uint32_t)value;
	return TAUT_OK;
}

static taut_status read_batches(struct stages *x)
{
	const struct tauti_pipes *old = x->old;
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < old->n * old->n_steps; i++) {
		x->new->batches[i] = old->batches[i];
		if (tauti_param_given(x->c, MICRO))
			status = read_number(x, MICRO, old->batches[i],
				MOST_BATCHES, &x->new->batches[i]);
	}
	return status;
}

static taut_status check_rounds(const struct stages *x)
{
	const struct tauti_pipes *new = x->new;

	if (new->chunks == 1)
		return TAUT_OK;
	for (uint32_t i = 0; i < new->n * new->n_steps; i++)
		if (new->batches[i] % new->stages)
			return taut_error_set(x->err, TAUT_EINVAL, -1, "stages: "
				"of several chunks, as many micro-batches as "
				"there are stages go through each in turn: "
				"expected a multiple of %u, found %u",
				new->stages, new->batches[i]);
	return TAUT_OK;
}

static taut_status choose_schedule(struct stages *x)
{
	static const uint8_t words[] = { TAUTI_SCHEDULE_1F1B,
		TAUTI_SCHEDULE_GPIPE, TAUTI_SCHEDULE_INTERLEAVED };
	struct tauti_pipes *new = x->new;
	uint32_t word = 0;
	taut_status status = TAUT_OK;

	if (tauti_param_given(x->c, SCHEDULE)) {
		status = tauti_param_word(x->c, SCHEDULE, &word, x->err);
		new->schedule = words[word];
		if (new->schedule != TAUTI_SCHEDULE_INTERLEAVED)
			new->chunks = 1;
	}
	if (!status && tauti_param_given(x->c, CHUNKS)) {
		status = tauti_param_count(
			x->c, CHUNKS, 1, 1024, &new->chunks, x->err);
		if (!tauti_param_given(x->c, SCHEDULE))
			new->schedule = new->chunks > 1 ?
				TAUTI_SCHEDULE_INTERLEAVED : new->schedule ==
				TAUTI_SCHEDULE_INTERLEAVED ?
				TAUTI_SCHEDULE_1F1B : new->schedule;
	}
	if (status)
		return status;
	if ((new->chunks > 1) != (new->schedule == TAUTI_SCHEDULE_INTERLEAVED))
		return taut_error_set(x->err, TAUT_EINVAL, -1, "stages: several "
			"chunks are interleaved, and one is not: expected "
			"schedule=interleaved with chunks=2 or more");
	if (new->schedule != TAUTI_SCHEDULE_NONE)
		return TAUT_OK;
	new->schedule = TAUTI_SCHEDULE_1F1B;
	return tauti_note(x->w, x->err, "stages: the order that was recorded is "
		"none that is known here; 1F1B is taken in its place");
}

static taut_status check_size(const struct stages *x)
{
	const struct tauti_pipes *old = x->old, *new = x->new;
	double work = 0, was = 0, n = (double)taut_edit_ops(x->w->edit);

	for (uint32_t i = 0; i < new->n * new->n_steps; i++) {
		work += (double)new->batches[i] * new->chunks * new->stages;
		was += (double)old->batches[i] * old->chunks * old->stages;
	}
	n *= fmax(work / was, (double)new->stages / old->stages);
	if (n <= MOST_OPS)
		return TAUT_OK;
	return taut_error_set(x->err, TAUT_EINVAL, -1, "stages: this job would "
		"have %.0f million operations: expected at most %d", n / 1e6,
		MOST_OPS / 1000000);
}

static taut_status read(struct stages *x)
{
	struct tauti_pipes *new = x->new;
	taut_status status = read_number(
		x, STAGES, x->old->stages, MOST_STAGES, &new->stages);

	if (!status)
		status = choose_schedule(x);
	if (!status)
		status = read_batches(x);
	if (!status)
		status = check_rounds(x);
	if (!status)
		status = check_size(x);
	if (!status && new->stages > 1 && x->old->stages == 1)
		return taut_error_set(x->err, TAUT_EINVAL, -1, "stages: one "
			"stage was recorded: how long a transfer between two "
			"takes is not known");
	return status;
}

static taut_status begin(struct stages *x)
{
	const struct tauti_pipes *old = x->old;
	struct tauti_pipes *new = TAUT_ARENA_ARRAY(
		x->w->arena, struct tauti_pipes, 1);

	if (!new)
		return no_memory(x);
	*new = *old;
	new->n_pairs = 0;
	new->pairs = NULL;
	new->n_strays = 0;
	new->batches = TAUT_ARENA_ARRAY(x->w->arena, uint32_t,
		(size_t)old->n * old->n_steps + 1);
	x->new = new;
	return new->batches ? read(x) : no_memory(x);
}

/* --- what first and last stage have beside layers -------------------------------------- */

/* Of the first of n values and of the last the share by which it is above the
 * mean of those between; of two, by which one is above the other. */
static void find_ends(const double *at, uint32_t n, double *ret_first,
	double *ret_last)
{
	double sum = 0, usual;

	*ret_first = *ret_last = 0;
	if (n < 2)
		return;
	for (uint32_t i = 1; i + 1 < n; i++)
		sum += at[i];
	usual = n > 2 ? sum / (n - 2) : fmin(at[0], at[1]);
	if (at[0] > usual)
		*ret_first = 1 - usual / at[0];
	if (at[n - 1] > usual)
		*ret_last = 1 - usual / at[n - 1];
}

static int64_t median_of_place(const struct stages *x, bool backward,
	uint32_t place, int64_t *values)
{
	const struct tauti_pipes *p = x->old;
	size_t n = 0;

	for (uint32_t i = 0; i < p->n; i++)
		for (uint32_t s = 0; s < p->n_steps; s++) {
			struct tauti_order o = tauti_order_of(p, i, s);

			for (uint32_t b = 0; b < o.batches; b++)
				values[n++] = x->recut.dur_ns[tauti_turn_op(
					&p->turns[i * p->stages +
					place % p->stages], s, backward,
					tauti_piece_index(&o, backward,
					(struct tauti_piece){
					place / p->stages, b }))];
		}
	return tauti_median(values, n);
}

static taut_status find_extras(struct stages *x)
{
	const struct tauti_pipes *p = x->old;
	uint32_t places = p->stages * p->chunks;
	size_t n = 0;
	double *at;
	int64_t *values;

	for (uint32_t i = 0; i < p->n * p->n_steps; i++)
		n += p->batches[i];
	at = calloc((size_t)places + 1, sizeof *at);
	values = calloc(n + 1, sizeof *values);
	for (int back = 0; at && values && back <= p->backward; back++) {
		for (uint32_t g = 0; g < places; g++)
			at[g] = (double)median_of_place(x, back, g, values);
		find_ends(at, places, &x->recut.first[back],
			&x->recut.last[back]);
		x->recut.first[back] = fmin(
			1, x->recut.first[back] * x->beside);
		x->recut.last[back] = fmin(1, x->recut.last[back] * x->beside);
	}
	free(at);
	free(values);
	return at && values ? TAUT_OK : no_memory(x);
}

/* As they were, and as all other changes left them. */
static taut_status note_durations(struct stages *x)
{
	uint32_t n = taut_edit_ops(x->w->edit);
	int64_t *dur_ns = TAUT_ARENA_ARRAY(
		x->w->arena, int64_t, (size_t)n + 1);
	struct taut_op op;

	if (!dur_ns)
		return no_memory(x);
	for (uint32_t i = 0; i < n; i++)
		if (taut_edit_op(x->w->edit, i, &op))
			dur_ns[i] = op.dur_ns;
	x->recut.dur_ns = dur_ns;
	return TAUT_OK;
}

/* --- what a transfer takes ------------------------------------------------------------- */

struct weighed {
	double ns;
	size_t pair;
};

static int by_ns(const void *a, const void *b)
{
	const struct weighed *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return x->pair < y->pair ? -1 : x->pair > y->pair;
}

static double pair_ns(const struct stages *x, const struct tauti_pair *pair)
{
	const struct taut_transfer *t = pair->way.like ?
		&x->w->costs->transfers[pair->way.like - 1] : NULL;

	return (double)(pair->end[0].dur_ns > pair->end[1].dur_ns ?
		pair->end[0].dur_ns : pair->end[1].dur_ns) +
		(t ? t->amount + (double)t->latency_ns : 0);
}

/* The median one; by the quartiles as a doubt. */
static taut_status find_usual(struct stages *x, bool backward, double share)
{
	const struct tauti_pipes *p = x->old;
	struct weighed *all = malloc((p->n_pairs + 1) * sizeof *all);
	size_t n = 0;

	if (!all)
		return no_memory(x);
	for (size_t i = 0; i < p->n_pairs; i++)
		if (p->pairs[i].backward == backward)
			all[n++] = (struct weighed){
				pair_ns(x, &p->pairs[i]), i };
	if (n) {
		qsort(all, n, sizeof *all, by_ns);
		x->recut.usual[backward] = &p->pairs[
			all[(size_t)(share * (double)(n - 1))].pair];
	}
	free(all);
	return TAUT_OK;
}

static bool is_as_it_was(const struct stages *x)
{
	const struct tauti_pipes *old = x->old, *new = x->new;

	return new->stages == old->stages && new->chunks == old->chunks &&
		new->schedule == old->schedule && !memcmp(new->batches,
		old->batches, (size_t)new->n * new->n_steps *
		sizeof *new->batches);
}

static taut_status find_transfers(struct stages *x)
{
	double share;
	taut_status status = TAUT_OK;

	if (is_as_it_was(x))
		return TAUT_OK;
	share = tauti_range(x->w, 0.25, 0.5, 0.75);
	for (int back = 0; !status && back <= x->old->backward; back++)
		status = find_usual(x, back, share);
	return status;
}

/* How much of that is none of the layers' is not told apart for certain: they
 * need not be cut evenly. More of it makes more stages slower. */
static void doubt_ends(struct stages *x)
{
	uint32_t now = x->new->stages * x->new->chunks;
	uint32_t was = x->old->stages * x->old->chunks;

	x->beside = now == was ? 1 : now > was ?
		tauti_range(x->w, was > 2 ? 0.5 : 0, 1, 1.5) :
		tauti_range(x->w, 1.5, 1, was > 2 ? 0.5 : 0);
}

/* --- what closes a step ------------------------------------------------------------------ */

struct measurer {
	struct stages *x;
	uint32_t stage;  /* of all members; TAUT_NONE: of several */
	uint32_t n;
	double ns;
	double factor;
	taut_status status;
};

static uint32_t stage_of_op(const struct stages *x, const struct taut_op *op)
{
	uint32_t rank = taut_edit_lane(x->w->edit, op->lane).trace;

	return rank < x->n_ranks ? x->stage_of[rank] : TAUT_NONE;
}

static void see_closing(void *context, uint32_t arrive)
{
	struct measurer *m = context;
	const struct taut_edit *edit = m->x->w->edit;
	struct taut_op op;
	uint32_t stage;

	if (!taut_edit_op(edit, arrive, &op))
		return;
	stage = stage_of_op(m->x, &op);
	m->stage = !m->n++ || m->stage == stage ? stage : TAUT_NONE;
	if (taut_edit_op(edit, taut_edit_next(edit, arrive), &op))
		m->ns += (double)op.dur_ns;
}

/* What a collective of one stage is; CLOSINGS: none of its weights. */
static int closing_of(struct measurer *m, uint32_t c, struct taut_collective *is)
{
	const struct taut_edit *edit = m->x->w->edit;

	*m = (struct measurer){ .x = m->x, .stage = TAUT_NONE,
		.factor = m->factor };
	if (!taut_edit_collective(edit, c, is) || is->kind ==
		TAUT_COLL_SENDRECV || is->kind == TAUT_COLL_BARRIER ||
		tauti_pipe_role(taut_edit_name(edit, is->name)) ==
		TAUTI_PIPE_EMBEDDING)
		return CLOSINGS;
	taut_edit_each_member(edit, c, see_closing, m);
	if (m->stage == TAUT_NONE)
		return CLOSINGS;
	return is->kind == TAUT_COLL_ALLGATHER ? GATHERS : SUMS;
}

static bool is_update(const struct stages *x, uint32_t id, struct taut_op *op)
{
	return taut_edit_op(x->w->edit, id, op) && tauti_is_work(op->kind) &&
		tauti_pipe_role(taut_edit_name(x->w->edit, op->name)) ==
		TAUTI_PIPE_UPDATE && stage_of_op(x, op) != TAUT_NONE;
}

/* stage_of says the recorded stages. */
static void measure_closings(struct stages *x)
{
	struct measurer m = { .x = x };
	const struct taut_costs *costs = x->w->costs;
	struct taut_op op;

	for (uint32_t c = 0; c < taut_edit_collectives(x->w->edit); c++) {
		struct taut_collective is;
		uint32_t like;
		int what = closing_of(&m, c, &is);

		if (what == CLOSINGS)
			continue;
		like = taut_edit_collective_like(x->w->edit, c);
		x->closing[what][m.stage] += is.bytes > 0 ? (double)is.bytes :
			m.ns + (like == TAUT_NONE ? 0 :
			costs->transfers[like].amount);
	}
	for (uint32_t i = 0; i < taut_edit_ops(x->w->edit); i++)
		if (is_update(x, i, &op))
			x->closing[UPDATES][stage_of_op(x, &op)] +=
				(double)op.dur_ns;
	for (int k = 0; k < CLOSINGS && x->old->stages > 2; k++) {
		find_ends(x->closing[k], x->old->stages, &x->first[k],
			&x->last[k]);
		x->first[k] = fmin(1, x->first[k] * x->beside);
		x->last[k] = fmin(1, x->last[k] * x->beside);
	}
}

/* Of a new stage, over that of the recorded stage that its ranks are like. */
static double closing_factor(const struct stages *x, int what, uint32_t stage)
{
	const double *at = x->closing[what];
	uint64_t n = x->old->stages, now = x->new->stages;
	uint64_t from = stage * n, to = from + n;
	double sum = 0, base = at[x->base[stage]];

	for (uint64_t g = from / now; g * now < to; g++) {
		uint64_t begin = g * now > from ? g * now : from;
		uint64_t end = (g + 1) * now < to ? (g + 1) * now : to;

		sum += at[g] * (double)(end - begin) / (double)now *
			(1 - (g ? 0 : x->first[what]) -
			(g + 1 == n ? x->last[what] : 0));
	}
	sum += stage ? 0 : at[0] * x->first[what];
	sum += stage + 1 == now ? at[n - 1] * x->last[what] : 0;
	if (!(base > 0) || fabs(sum / base - 1) < 1e-9)
		return 1;
	return sum / base;
}

static void scale_member(void *context, uint32_t arrive)
{
	struct measurer *m = context;
	struct taut_edit *edit = m->x->w->edit;
	uint32_t transfer = taut_edit_next(edit, arrive);
	struct taut_op op;

	if (!m->status && taut_edit_op(edit, transfer, &op))
		m->status = tauti_scale_op(
			m->x->w, transfer, &op, m->factor, m->x->err);
}

/* stage_of says the new stages. */
static taut_status scale_closings(struct stages *x)
{
	struct measurer m = { .x = x };
	taut_status status = TAUT_OK;
	struct taut_op op;

	for (uint32_t c = 0; !status && c < taut_edit_collectives(x->w->edit);
		c++) {
		struct taut_collective is;
		int what = closing_of(&m, c, &is);

		if (what == CLOSINGS)
			continue;
		m.factor = closing_factor(x, what, m.stage);
		if (m.factor == 1)
			continue;
		status = tauti_scale_bytes(x->w, c, m.factor, x->err);
		taut_edit_each_member(x->w->edit, c, scale_member, &m);
		status = status ? status : m.status;
	}
	for (uint32_t i = 0; !status && i < taut_edit_ops(x->w->edit); i++)
		if (is_update(x, i, &op))
			status = tauti_scale_op(x->w, i, &op, closing_factor(x,
				UPDATES, stage_of_op(x, &op)), x->err);
	return status;
}

/* --- ranks ---------------------------------------------------------------------------------- */

static taut_status list_slices(struct stages *x)
{
	const struct tauti_pipes *old = x->old;

	x->slices = (struct tauti_replicas){ .n = old->stages, .size = old->n,
		.rank = calloc((size_t)old->n * old->stages + 1,
			sizeof *x->slices.rank) };
	if (!x->slices.rank)
		return no_memory(x);
	for (uint32_t i = 0; i < old->n * old->stages; i++)
		x->slices.rank[i % old->stages * old->n + i / old->stages] =
			old->rank[i];
	return tauti_slices_mark(x->w, &x->slices, x->err);
}

static taut_status cut_stray(struct stages *x, uint32_t arrive)
{
	struct taut_op op;
	taut_status status = TAUT_OK;

	if (!taut_edit_op(x->w->edit, arrive, &op))
		return TAUT_OK;
	if (op.collective == TAUT_NONE)
		status = taut_edit_cut(x->w->edit,
			taut_edit_next(x->w->edit, arrive), x->err);
	return status ? status : taut_edit_cut(x->w->edit, arrive, x->err);
}

static taut_status cut_pairs(struct stages *x)
{
	taut_status status = TAUT_OK;

	for (size_t i = 0; !status && i < x->old->n_strays; i++)
		status = cut_stray(x, x->old->strays[i]);
	for (size_t i = 0; !status && i < x->old->n_pairs; i++)
		for (int e = 0; !status && e < 2; e++)
			status = taut_edit_cut(x->w->edit,
				x->old->pairs[i].end[e].arrive, x->err);
	return status;
}

/* The lane of a copy that stands as this one does among its rank's. */
static uint32_t lane_like(const struct stages *x, uint32_t lane, uint32_t to)
{
	const struct taut_edit *edit = x->w->edit;
	uint32_t from, nth = 0;

	if (lane == TAUT_NONE)
		return TAUT_NONE;
	from = taut_edit_lane(edit, lane).trace;
	for (uint32_t l = 0; l < lane; l++)
		nth += taut_edit_lane(edit, l).trace == from;
	for (uint32_t l = lane; l < taut_edit_lanes(edit); l++)
		if (taut_edit_lane(edit, l).trace == to && !nth--)
			return l;
	return TAUT_NONE;
}

static void put_rank(struct stages *x, uint32_t pipe, uint32_t stage,
	uint32_t rank, bool copied)
{
	const struct tauti_pipes *old = x->old;
	uint32_t to = pipe * x->new->stages + stage;
	uint32_t from = pipe * old->stages + x->base[stage];

	x->new->rank[to] = rank;
	for (int i = 0; i < 4; i++)
		x->new->lane[4 * to + i] = copied ? lane_like(x,
			old->lane[4 * from + i], rank) :
			old->lane[4 * from + i];
}

/* A recorded stage, or a copy of one: of one between, where there is any. */
static taut_status make_stage(struct stages *x, uint32_t stage,
	uint32_t *ranks, uint8_t *stays)
{
	const struct tauti_pipes *old = x->old;
	bool home;
	uint32_t is = tauti_cut_anew(
		stage, x->new->stages, old->stages, &home);
	taut_status status = TAUT_OK;

	x->base[stage] = is;
	if (home)
		stays[is] = 1;
	else
		status = tauti_slice_copy(
			x->w, &x->slices, is, ranks, x->err);
	for (uint32_t i = 0; !status && i < old->n; i++)
		put_rank(x, i, stage, home ? old->rank[i * old->stages + is] :
			ranks[i], !home);
	return status;
}

static taut_status get_room(struct stages *x)
{
	struct taut_arena *arena = x->w->arena;
	size_t n = (size_t)x->new->n * x->new->stages + 1;

	x->new->rank = TAUT_ARENA_ARRAY(arena, uint32_t, n);
	x->new->lane = TAUT_ARENA_ARRAY(arena, uint32_t, 4 * n);
	x->new->turns = TAUT_ARENA_ARRAY(arena, struct tauti_turns, n);
	x->base = TAUT_ARENA_ARRAY(arena, uint32_t, n);
	for (int k = 0; k < CLOSINGS; k++) {
		x->closing[k] = TAUT_ARENA_ARRAY(
			arena, double, (size_t)x->old->stages + 1);
		if (!x->closing[k])
			return no_memory(x);
	}
	return x->new->rank && x->new->lane && x->new->turns && x->base ?
		TAUT_OK : no_memory(x);
}

static taut_status note_stages(struct stages *x, const struct tauti_pipes *p)
{
	x->n_ranks = taut_edit_ranks(x->w->edit);
	x->stage_of = TAUT_ARENA_ARRAY(
		x->w->arena, uint32_t, (size_t)x->n_ranks + 1);
	if (!x->stage_of)
		return no_memory(x);
	for (uint32_t r = 0; r < x->n_ranks; r++)
		x->stage_of[r] = TAUT_NONE;
	for (uint32_t i = 0; i < p->n * p->stages; i++)
		x->stage_of[p->rank[i]] = i % p->stages;
	return TAUT_OK;
}

/* Members that have nobody left to talk to. */
static taut_status drop_lonely(struct stages *x)
{
	taut_status status = TAUT_OK;

	for (uint32_t c = 0; !status && c < x->slices.n_inner; c++) {
		struct taut_collective is;

		if (x->slices.inner[c] == TAUTI_OF_SOME &&
			taut_edit_collective(x->w->edit, c, &is) &&
			is.n_members < 2 && is.group_size < 2)
			status = taut_edit_remove_collective(
				x->w->edit, c, x->err);
	}
	return status;
}

static taut_status change_ranks(struct stages *x)
{
	uint32_t *ranks = TAUT_ARENA_ARRAY(
		x->w->arena, uint32_t, (size_t)x->old->n + 1);
	uint8_t *stays = TAUT_ARENA_ARRAY(
		x->w->arena, uint8_t, (size_t)x->old->stages + 1);
	taut_status status = ranks && stays ? TAUT_OK : no_memory(x);

	for (uint32_t s = 0; !status && s < x->new->stages; s++)
		status = make_stage(x, s, ranks, stays);
	for (uint32_t s = 0; !status && s < x->old->stages; s++)
		if (!stays[s])
			status = tauti_slice_remove(
				x->w, &x->slices, s, "stages", x->err);
	return status ? status : drop_lonely(x);
}

/* --- the whole -------------------------------------------------------------------------------- */

static taut_status say(struct stages *x)
{
	const struct tauti_pipes *old = x->old, *new = x->new;
	double before = 0, after = 0;
	taut_status status = tauti_note(x->w, x->err, "stages: %u for %u, in the "
		"order %s%s, over %u pipelines: %u ranks for %u; with world=N "
		"behind it there are others", new->stages, old->stages,
		tauti_schedule_name(new->schedule), new->schedule ==
		old->schedule ? " as recorded" : "", new->n,
		new->n * new->stages, old->n * old->stages);

	for (uint32_t i = 0; i < new->n * new->n_steps; i++) {
		before += old->batches[i];
		after += new->batches[i];
	}
	x->w->samples_factor *= after / before;
	if (!status && after != before)
		status = tauti_note(x->w, x->err, "stages: micro-batches are "
			"as large as they were, so that a step has %.4g times "
			"the samples", after / before);
	if (!status && old->stages * old->chunks == 2 && new->stages != 2)
		status = tauti_note(x->w, x->err, "stages: two were recorded, "
			"and their difference is taken for what the longer one "
			"has beside layers");
	return status;
}

static taut_status change(struct stages *x)
{
	taut_status status = get_room(x);

	doubt_ends(x);
	if (!status)
		status = note_durations(x);
	if (!status)
		status = find_extras(x);
	if (!status)
		status = find_transfers(x);
	if (!status)
		status = list_slices(x);
	if (!status)
		status = note_stages(x, x->old);
	if (!status)
		measure_closings(x);
	if (!status)
		status = cut_pairs(x);
	if (!status)
		status = change_ranks(x);
	if (!status)
		status = note_stages(x, x->new);
	if (!status)
		status = scale_closings(x);
	x->recut.new = x->new;
	if (!status)
		status = tauti_recut_lay(&x->recut);
	return status ? status : say(x);
}

static taut_status apply(struct tauti_whatif *w, const struct tauti_change *c,
	struct taut_error *err)
{
	struct stages x = { .w = w, .c = c, .err = err };
	struct tauti_pipes *pipes;
	taut_status status = tauti_pipes_find(w, "stages", &pipes, err);

	if (status)
		return status;
	x.old = pipes;
	x.recut = (struct tauti_recut){ .w = w, .old = pipes, .err = err };
	status = begin(&x);
	if (!status)
		status = change(&x);
	tauti_replicas_fini(&x.slices);
	if (!status)
		w->pipes = x.new;
	return status;
}

static const struct taut_parameter parameters[] = {
	[STAGES] = { "", "N|FACTOR", NULL, "pipeline stages of a replica: 8, "
		"2x" },
	[SCHEDULE] = { "schedule", "1f1b|gpipe|interleaved", "", "order of the "
		"micro-batches on a stage; without it, as recorded" },
	[MICRO] = { "micro", "N|FACTOR", "", "micro-batches a step, each as "
		"large as recorded; with batch=0.5x beside 2x the samples of a "
		"step stay" },
	[CHUNKS] = { "chunks", "N", "", "pieces of the model on a stage, of "
		"interleaved; without it, as recorded" },
};

const struct tauti_transformation tauti_whatif_stages = {
	.info = {
		.name = "stages", .group = "job",
		.summary = "the model in more or fewer pipeline stages, another "
			"order or number of micro-batches",
		.assumption = "layers are cut evenly; what the first and last "
			"stage take longer than those between goes with them; "
			"transfers between stages and the number of replicas "
			"stay, so the number of ranks changes",
		.source = "GPipe (NeurIPS 2019); PipeDream-Flush (ICML 2021); "
			"interleaved: Narayanan et al. (SC 2021)",
		.parameters = parameters,
		.n_parameters = sizeof parameters / sizeof *parameters,
	},
	.apply = apply,
};

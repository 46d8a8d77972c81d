/* pipe_lay.c - computations of stages that were cut anew, and what they send.
 *
 * A computation takes, of each recorded one whose layers it has, the share that
 * it has of them. Which operation stands for it is of no matter but for what
 * else waits for it: the first stays the first, and the last the last. */
#include <stdlib.h>

#include "whatif/pipes.h"

struct data_tie { /* between a chunk's first or last computation, and others */
	uint32_t other, chunk;
	int64_t lag_ns;
	unsigned kind;
	bool backward; /* the other waits; else it is waited for */
};

struct cursor { /* on a lane of transfers */
	uint32_t lane, after;
	bool is_first; /* of its step */
};

struct layer {
	struct tauti_recut *r;
	struct taut_edit *edit;
	uint8_t *order;       /* of a stage in a step */
	uint8_t *used;        /* by index: stays */
	TAUT_VEC(struct data_tie) ties;
	const struct tauti_turns *turns; /* being looked at */
	uint32_t rank, chunk;
	bool backward;
	uint32_t *base;       /* by pipe and step: in pair_of */
	uint32_t *pair_of;    /* + 1; by direction, border, batch */
	struct cursor *cursors; /* as lanes of pipes */
	size_t room;          /* of new pairs */
	bool failed;
};

static taut_status no_memory(const struct layer *l)
{
	return tauti_no_memory(l->r->err, "a pipeline");
}

/* --- how long a computation takes --------------------------------------------------- */

static double recorded_ns(const struct tauti_recut *r,
	const struct tauti_order *o, uint32_t pipe, uint32_t step,
	bool backward, uint32_t place, uint32_t batch)
{
	const struct tauti_pipes *p = r->old;
	struct tauti_piece piece = { place / p->stages, batch };
	uint32_t op = tauti_turn_op(
		&p->turns[pipe * p->stages + place % p->stages], step, backward,
		tauti_piece_index(o, backward, piece));

	return (double)r->dur_ns[op];
}

/* What of a place's time is of no layer. */
static double extra_of(const struct tauti_recut *r, bool backward,
	uint32_t place, uint32_t places)
{
	return (place ? 0 : r->first[backward]) +
		(place + 1 == places ? r->last[backward] : 0);
}

static int64_t dur_of(const struct tauti_recut *r, uint32_t pipe,
	uint32_t step, bool backward, uint32_t place, uint32_t batch)
{
	struct tauti_order was = tauti_order_of(r->old, pipe, step);
	uint64_t n = (uint64_t)was.stages * was.chunks;
	uint64_t now = (uint64_t)r->new->stages * r->new->chunks;
	uint64_t from = place * n, to = from + n;
	double sum = 0;

	for (uint64_t g = from / now; g * now < to; g++) {
		uint64_t begin = g * now > from ? g * now : from;
		uint64_t end = (g + 1) * now < to ? (g + 1) * now : to;
		double ns = recorded_ns(r, &was, pipe, step, backward,
			(uint32_t)g, batch);

		sum += ns * (double)(end - begin) / (double)now *
			(1 - extra_of(r, backward, (uint32_t)g, (uint32_t)n));
	}
	if (!place)
		sum += r->first[backward] * recorded_ns(r, &was, pipe, step,
			backward, 0, batch);
	if (place + 1 == now)
		sum += r->last[backward] * recorded_ns(r, &was, pipe, step,
			backward, (uint32_t)n - 1, batch);
	return llround(sum);
}

/* --- what waits for the first and last computation of a chunk ---------------------------- */

static void see_tie(void *context, struct taut_wait wait)
{
	struct layer *l = context;
	struct data_tie tie = { wait.op, l->chunk, wait.lag_ns, wait.kind,
		l->backward };
	struct taut_op op;

	if (!taut_edit_op(l->edit, wait.op, &op) || op.kind !=
		(l->backward ? TAUT_OP_ARRIVE : TAUT_OP_TRANSFER))
		return;
	for (size_t i = 0; i < l->ties.count; i++)
		if (l->ties.data[i].other == wait.op &&
			l->ties.data[i].chunk == l->chunk)
			return;
	if (!taut_vec_push(&l->ties, tie))
		l->failed = true;
}

static uint32_t end_of_chunk(const struct tauti_order *o, bool backward,
	uint32_t chunk)
{
	return tauti_piece_index(o, backward, (struct tauti_piece){ chunk,
		backward ? o->batches - 1 : 0 });
}

/* Takes them off. */
static taut_status loosen(struct layer *l, const struct tauti_order *was,
	uint32_t step)
{
	taut_status status = TAUT_OK;

	taut_vec_clear(&l->ties);
	for (int back = 0; back <= was->backward; back++)
		for (l->chunk = 0; !status && l->chunk < was->chunks;
			l->chunk++) {
			size_t from = l->ties.count;
			uint32_t op = tauti_turn_op(l->turns, step, back,
				end_of_chunk(was, back, l->chunk));

			l->backward = back;
			if (back)
				taut_edit_each_out(l->edit, op, see_tie, l);
			else
				taut_edit_each_in(l->edit, op, see_tie, l);
			if (l->failed)
				return no_memory(l);
			for (size_t i = from; !status && i < l->ties.count; i++)
				status = taut_edit_disconnect(l->edit, back ?
					op : l->ties.data[i].other, back ?
					l->ties.data[i].other : op, l->r->err);
		}
	return status;
}

/* Ties them to what now has the chunk's layers. */
static taut_status fasten(struct layer *l, const struct tauti_order *was,
	const struct tauti_order *now, const uint32_t *const *ops)
{
	taut_status status = TAUT_OK;

	for (size_t i = 0; !status && i < l->ties.count; i++) {
		const struct data_tie *t = &l->ties.data[i];

		for (uint32_t c = 0; !status && c < now->chunks; c++) {
			uint32_t op = ops[t->backward][
				end_of_chunk(now, t->backward, c)];

			if (c * was->chunks / now->chunks != t->chunk &&
				t->chunk * now->chunks / was->chunks != c)
				continue;
			status = taut_edit_connect(l->edit, t->backward ? op :
				t->other, t->backward ? t->other : op, t->kind,
				t->lag_ns, l->r->err);
		}
	}
	return status;
}

/* --- computations ---------------------------------------------------------------------- */

/* The next one of this step behind an operation. */
static uint32_t next_turn(const struct layer *l, uint32_t lane, uint32_t after,
	uint32_t step)
{
	uint32_t id = after == TAUT_NONE ? taut_edit_first(l->edit, lane) :
		taut_edit_next(l->edit, after);

	for (; id != TAUT_NONE; id = taut_edit_next(l->edit, id)) {
		struct taut_op op;
		uint32_t at;
		enum tauti_pipe_role role;

		if (!taut_edit_op(l->edit, id, &op))
			continue;
		at = tauti_step_number(l->r->w, &op);
		if (at != TAUT_NONE && at > step)
			break;
		role = tauti_is_work(op.kind) ? tauti_pipe_role(
			taut_edit_name(l->edit, op.name)) : TAUTI_PIPE_OTHER;
		if (role == TAUTI_PIPE_FORWARD || role == TAUTI_PIPE_BACKWARD)
			return id;
	}
	return TAUT_NONE;
}

/* The operation itself, or a copy of it, behind `after`. */
static taut_status put_turn(struct layer *l, uint32_t op, bool is_home,
	uint32_t after, uint32_t step, uint32_t *ret_op)
{
	struct taut_op is = { 0 };
	taut_status status = TAUT_OK;

	(void)taut_edit_op(l->edit, op, &is);
	*ret_op = op;
	if (is_home && next_turn(l, is.lane, after, step) == op)
		return TAUT_OK;
	if (is_home)
		status = taut_edit_move(l->edit, op, after, is.lane, l->r->err);
	else
		status = taut_edit_insert(
			l->edit, after, &is, NULL, ret_op, l->r->err);
	if (!status && is.gap_ns < 0)
		status = taut_edit_set_gap(l->edit, *ret_op, 0, l->r->err);
	return status;
}

static void see_turn(void *context, struct taut_wait wait)
{
	struct layer *l = context;
	struct data_tie tie = { .other = wait.op };
	struct taut_op op;

	if (!taut_edit_op(l->edit, wait.op, &op) || !tauti_is_work(op.kind) ||
		taut_edit_lane(l->edit, op.lane).trace != l->rank)
		return;
	for (size_t i = 0; i < l->ties.count; i++)
		if (l->ties.data[i].other == wait.op)
			return;
	if (!taut_vec_push(&l->ties, tie))
		l->failed = true;
}

/* What a table says of the order in which a rank computes, its lane says too:
 * in another order that would be a circle. */
static taut_status forget_order(struct layer *l, uint32_t rank, uint32_t step)
{
	taut_status status = TAUT_OK;

	l->rank = rank;
	for (uint32_t i = l->turns->begin[step]; !status &&
		i < l->turns->begin[step + 1]; i++) {
		taut_vec_clear(&l->ties);
		taut_edit_each_in(l->edit, l->turns->op[i], see_turn, l);
		if (l->failed)
			return no_memory(l);
		for (size_t k = 0; !status && k < l->ties.count; k++)
			status = taut_edit_disconnect(l->edit,
				l->ties.data[k].other, l->turns->op[i],
				l->r->err);
	}
	return status;
}

/* Those for which there is none any more. */
static taut_status remove_turns(struct layer *l, uint32_t step, bool backward,
	uint32_t n, uint32_t n_now)
{
	taut_status status = TAUT_OK;

	memset(l->used, 0, n);
	for (uint32_t i = 0; i < n_now; i++) {
		bool home;
		uint32_t is = tauti_cut_anew(i, n_now, n, &home);

		l->used[is] |= home;
	}
	for (uint32_t i = n; !status && i--;)
		if (!l->used[i])
			status = taut_edit_remove(l->edit, tauti_turn_op(
				l->turns, step, backward, i), l->r->err);
	return status;
}

static taut_status put_turns(struct layer *l, uint32_t pipe, uint32_t stage,
	uint32_t step, uint32_t *const *ret_ops)
{
	const struct tauti_recut *r = l->r;
	struct tauti_order was = tauti_order_of(r->old, pipe, step);
	struct tauti_order now = tauti_order_of(r->new, pipe, step);
	uint32_t n = was.batches * was.chunks, n_now = now.batches * now.chunks;
	uint32_t after = taut_edit_before(
		l->edit, tauti_turn_op(l->turns, step, false, 0));
	uint32_t at[2] = { 0, 0 };
	taut_status status = TAUT_OK;

	tauti_order_make(&now, stage, l->order);
	for (int back = 0; !status && back <= now.backward; back++)
		status = remove_turns(l, step, back, n, n_now);
	for (uint32_t k = 0; !status && k < tauti_order_n(&now); k++) {
		bool back = l->order[k], home;
		uint32_t index = at[back]++;
		uint32_t is = tauti_cut_anew(index, n_now, n, &home);
		struct tauti_piece piece = tauti_piece_of(&now, back, index);
		uint32_t batch = tauti_cut_anew(piece.batch, now.batches,
			was.batches, &(bool){ false });

		status = put_turn(l, tauti_turn_op(l->turns, step, back, is),
			home, after, step, &after);
		ret_ops[back][index] = after;
		if (!status)
			status = taut_edit_set_dur(l->edit, after, dur_of(r,
				pipe, step, back, piece.chunk * now.stages +
				stage, batch), r->err);
	}
	return status;
}

static taut_status lay_stage(struct layer *l, uint32_t pipe, uint32_t stage,
	uint32_t *const *ops)
{
	const struct tauti_recut *r = l->r;
	struct tauti_pipes *new = r->new;
	uint32_t at = pipe * new->stages + stage;
	struct tauti_turns turns;
	taut_status status = tauti_turns_read(
		r->w, new->rank[at], new->n_steps, &turns, r->err);

	l->turns = &turns;
	for (uint32_t s = 0; !status && s < new->n_steps; s++) {
		struct tauti_order was = tauti_order_of(r->old, pipe, s);
		struct tauti_order now = tauti_order_of(new, pipe, s);

		if (r->usual[0])
			status = forget_order(l, new->rank[at], s);
		if (!status)
			status = loosen(l, &was, s);
		if (!status)
			status = put_turns(l, pipe, stage, s, ops);
		if (!status)
			status = fasten(l, &was, &now,
				(const uint32_t *const *)ops);
	}
	return status ? status : tauti_turns_read(r->w, new->rank[at],
		new->n_steps, &new->turns[at], r->err);
}

static taut_status lay_stages(struct layer *l)
{
	const struct tauti_pipes *new = l->r->new;
	uint32_t most = 1, *ops[2];
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; i < new->n * new->n_steps; i++) {
		uint32_t a = new->batches[i] * new->chunks;
		uint32_t b = l->r->old->batches[i] * l->r->old->chunks;

		most = a > most ? a : most;
		most = b > most ? b : most;
	}
	l->order = malloc(2 * (size_t)most + 1);
	l->used = malloc((size_t)most + 1);
	ops[0] = malloc(((size_t)most + 1) * sizeof *ops[0]);
	ops[1] = malloc(((size_t)most + 1) * sizeof *ops[1]);
	if (!l->order || !l->used || !ops[0] || !ops[1])
		status = no_memory(l);
	for (uint32_t i = 0; !status && i < new->n; i++)
		for (uint32_t s = 0; !status && s < new->stages; s++)
			status = lay_stage(l, i, s, ops);
	free(ops[0]);
	free(ops[1]);
	return status;
}

/* --- which recorded transfer is like one -------------------------------------------------- */

static taut_status index_pairs(struct layer *l)
{
	const struct tauti_pipes *p = l->r->old;
	uint32_t borders = p->stages * p->chunks - 1;
	size_t n = 0;

	l->base = calloc((size_t)p->n * p->n_steps + 1, sizeof *l->base);
	if (!l->base)
		return no_memory(l);
	for (uint32_t i = 0; i < p->n * p->n_steps; i++) {
		l->base[i] = (uint32_t)n;
		n += 2 * (size_t)borders * p->batches[i];
	}
	if (n >= TAUT_NONE)
		return no_memory(l);
	l->pair_of = calloc(n + 1, sizeof *l->pair_of);
	if (!l->pair_of)
		return no_memory(l);
	for (size_t i = 0; i < p->n_pairs; i++) {
		const struct tauti_pair *pair = &p->pairs[i];
		uint32_t at = pair->pipe * p->n_steps + pair->step;

		l->pair_of[l->base[at] + (pair->backward * borders +
			pair->border) * p->batches[at] + pair->batch] =
			(uint32_t)i + 1;
	}
	return TAUT_OK;
}

static const struct tauti_pair *pair_at(const struct layer *l, uint32_t at,
	bool backward, uint32_t border, uint32_t batch)
{
	const struct tauti_pipes *p = l->r->old;
	uint32_t borders = p->stages * p->chunks - 1;
	uint32_t id = l->pair_of[l->base[at] + (backward * borders + border) *
		p->batches[at] + batch];

	return id ? &p->pairs[id - 1] : NULL;
}

/* At the nearest border of the model, of the micro-batch or, where that one was
 * not recorded, of any. */
static const struct tauti_pair *like_pair(const struct layer *l, uint32_t pipe,
	uint32_t step, bool backward, uint32_t border, uint32_t batch)
{
	const struct tauti_pipes *old = l->r->old, *new = l->r->new;
	uint32_t at = pipe * old->n_steps + step;
	uint64_t n = (uint64_t)old->stages * old->chunks;
	uint64_t now = (uint64_t)new->stages * new->chunks;
	uint64_t is = (2 * (border + 1) * n + now) / (2 * now);
	const struct tauti_pair *pair = NULL;

	if (n < 2)
		return NULL;
	is = is < 1 ? 0 : is > n - 1 ? n - 2 : is - 1;
	batch = tauti_cut_anew(batch, new->batches[at], old->batches[at],
		&(bool){ false });
	pair = pair_at(l, at, backward, (uint32_t)is, batch);
	for (uint32_t b = 0; !pair && b + 1 < n; b++)
		for (uint32_t k = 0; !pair && k < old->batches[at]; k++)
			pair = pair_at(l, at, backward, b, k);
	return pair;
}

/* --- lanes of transfers ------------------------------------------------------------------ */

static taut_status find_lane(struct layer *l, uint32_t rank, uint32_t *lane)
{
	struct taut_graph_lane is = taut_edit_lane(
		l->edit, tauti_main_lane(l->r->w, rank));

	if (*lane != TAUT_NONE)
		return TAUT_OK;
	is.is_main = 0;
	is.is_comm = 1;
	return taut_edit_add_lane(l->edit, &is, lane, l->r->err);
}

static taut_status begin_cursors(struct layer *l)
{
	struct tauti_pipes *new = l->r->new;
	uint32_t n = new->n * new->stages;
	taut_status status = TAUT_OK;

	l->cursors = calloc(4 * (size_t)n + 1, sizeof *l->cursors);
	if (!l->cursors)
		return no_memory(l);
	for (uint32_t i = 0; !status && i < 4 * n; i++) {
		if (new->stages > 1)
			status = find_lane(l, new->rank[i / 4], &new->lane[i]);
		l->cursors[i] = (struct cursor){ new->lane[i], TAUT_NONE, 0 };
	}
	return status;
}

/* Past what stands before the transfers of a step. */
static void advance(const struct layer *l, struct cursor *c, uint32_t step)
{
	c->is_first = true;
	while (c->lane != TAUT_NONE) {
		uint32_t next = c->after == TAUT_NONE ?
			taut_edit_first(l->edit, c->lane) :
			taut_edit_next(l->edit, c->after), at;
		struct taut_op op;

		if (next == TAUT_NONE || !taut_edit_op(l->edit, next, &op))
			return;
		at = tauti_step_number(l->r->w, &op);
		if (op.kind != TAUT_OP_TRANSFER && at != TAUT_NONE &&
			at >= step) {
			if (at > step || !l->r->old->leads[op.like])
				return;
			c->is_first = false;
		}
		c->after = next;
	}
}

/* --- transfers ------------------------------------------------------------------------------ */

struct transfer {
	uint32_t pipe, step, border, batch;
	bool backward;
	uint32_t stage[2], index[2]; /* of who sends, who receives */
};

/* The forward computation but one before the first backward one. */
static uint32_t before_backward(const struct tauti_turns *t, uint32_t step)
{
	uint32_t n = 0;

	for (uint32_t i = t->begin[step]; i < t->begin[step + 1] &&
		!t->backward[i]; i++)
		n++;
	return n < 2 ? TAUT_NONE : t->op[t->begin[step] + n - 2];
}

static taut_status tie_to(struct layer *l, const struct tauti_pair_end *e,
	enum tauti_tie which, uint32_t from, uint32_t to)
{
	int64_t lag = e->ties >> which & 1 ? e->lag_ns[which] : 0;

	if (from == TAUT_NONE || to == TAUT_NONE)
		return TAUT_OK;
	return taut_edit_connect(
		l->edit, from, to, TAUT_EDGE_THREAD, lag, l->r->err);
}

static taut_status tie_end(struct layer *l, const struct transfer *x,
	int receives, const struct tauti_pair_end *e)
{
	const struct tauti_pipes *new = l->r->new;
	const struct tauti_turns *t =
		&new->turns[x->pipe * new->stages + x->stage[receives]];
	const struct cursor *c = &l->cursors[4 * (x->pipe * new->stages +
		x->stage[receives]) + 2 * x->backward + (uint32_t)receives];
	uint32_t index = x->index[receives];
	uint32_t own = tauti_turn_op(t, x->step, x->backward, index);
	uint32_t transfer = taut_edit_next(l->edit, e->arrive);
	taut_status status = receives ?
		tie_to(l, e, TAUTI_TIE_OWN, transfer, own) :
		tie_to(l, e, TAUTI_TIE_OWN, own, e->arrive);

	if (!status && receives && index)
		status = tie_to(l, e, TAUTI_TIE_BEFORE, tauti_turn_op(t,
			x->step, x->backward, index - 1), e->arrive);
	if (!status && receives && e->behind_ns >= 0 &&
		l->r->usual[x->backward])
		status = tie_to(l, e, TAUTI_TIE_ORDER,
			tauti_turn_before(l->r->w, own), e->arrive);
	if (!status && c->is_first && x->backward && l->r->old->first_ties)
		status = tie_to(l, e, TAUTI_TIE_FIRST,
			before_backward(t, x->step), e->arrive);
	if (!status && c->is_first)
		status = tie_to(l, e, TAUTI_TIE_STEP, t->mark[x->step],
			e->arrive);
	return status;
}

static bool keep_pair(struct layer *l, const struct tauti_pair *pair)
{
	struct tauti_pipes *new = l->r->new;
	size_t room = 2 * l->room + 64;
	struct tauti_pair *all;

	if (new->n_pairs == l->room) {
		all = TAUT_ARENA_ARRAY(l->r->w->arena, struct tauti_pair, room);
		if (!all)
			return false;
		if (new->n_pairs)
			memcpy(all, new->pairs, new->n_pairs * sizeof *all);
		new->pairs = all;
		l->room = room;
	}
	new->pairs[new->n_pairs++] = *pair;
	return true;
}

/* What one took that was recorded in another order may be much else than the
 * transfer: senders wait for what they receive in the same call. And a receive
 * that began when the stage had computed what comes before, does so again. */
static struct tauti_pair as_usual(
	const struct layer *l, const struct tauti_pair *like)
{
	const struct tauti_pair *usual = l->r->usual[like->backward];
	struct tauti_pair pair = *like;

	if (!usual)
		return pair;
	pair.is = usual->is;
	pair.way = usual->way;
	for (int e = 0; e < 2; e++) {
		pair.end[e].dur_ns = usual->end[e].dur_ns;
		pair.end[e].ties = 0;
	}
	if (pair.end[TAUTI_RECEIVES].behind_ns >= 0)
		pair.end[TAUTI_RECEIVES].gap_ns =
			pair.end[TAUTI_RECEIVES].behind_ns;
	return pair;
}

static taut_status add_pair(struct layer *l, const struct transfer *x,
	const struct tauti_pair *like)
{
	const struct tauti_pipes *new = l->r->new;
	struct tauti_pair pair = as_usual(l, like);
	struct taut_member members[2];
	struct cursor *c[2];
	uint32_t arrive[2];
	taut_status status;

	for (int e = 0; e < 2; e++) {
		c[e] = &l->cursors[4 * (x->pipe * new->stages + x->stage[e]) +
			2 * x->backward + (uint32_t)e];
		members[e] = (struct taut_member){ c[e]->lane, c[e]->after,
			pair.end[e].dur_ns, like->end[e].name };
	}
	status = taut_edit_add_collective(l->edit, &like->is, members, 2,
		&pair.collective, arrive, l->r->err);
	for (int e = 0; !status && e < 2; e++) {
		pair.end[e].arrive = arrive[e];
		status = taut_edit_set_gap(l->edit, arrive[e],
			pair.end[e].gap_ns, l->r->err);
		if (!status)
			status = tie_end(l, x, e, &pair.end[e]);
		c[e]->after = taut_edit_next(l->edit, arrive[e]);
		c[e]->is_first = false;
	}
	if (!status && pair.way.like)
		status = taut_edit_set_like(l->edit, pair.collective,
			pair.way.like - 1, l->r->err);
	if (!status)
		status = tauti_set_way(
			l->r->w, pair.collective, &pair.way, l->r->err);
	pair.pipe = x->pipe;
	pair.step = x->step;
	pair.border = x->border;
	pair.batch = x->batch;
	if (!status && !keep_pair(l, &pair))
		status = no_memory(l);
	return status;
}

/* What one stage sends in one direction, in the order of its results. */
static taut_status lay_sends(struct layer *l, uint32_t pipe, uint32_t step,
	uint32_t stage, bool backward)
{
	const struct tauti_pipes *new = l->r->new;
	struct tauti_order o = tauti_order_of(new, pipe, step);
	uint32_t places = o.stages * o.chunks;
	taut_status status = TAUT_OK;

	for (uint32_t k = 0; !status && k < o.batches * o.chunks; k++) {
		struct tauti_piece piece = tauti_piece_of(&o, backward, k);
		uint32_t place = piece.chunk * o.stages + stage, peer;
		const struct tauti_pair *like;
		struct transfer x = { pipe, step, place, piece.batch, backward,
			{ stage, 0 }, { k, 0 } };

		if (backward ? !place : place + 1 == places)
			continue;
		peer = backward ? place - 1 : place + 1;
		x.border = backward ? peer : place;
		x.stage[1] = peer % o.stages;
		piece.chunk = peer / o.stages;
		x.index[1] = tauti_piece_index(&o, backward, piece);
		like = like_pair(l, pipe, step, backward, x.border, x.batch);
		if (!like)
			return taut_error_set(l->r->err, TAUT_EINVAL, -1,
				"stages: no transfer %s between two stages was "
				"recorded: how long one takes is not known",
				backward ? "backward" : "forward");
		status = add_pair(l, &x, like);
	}
	return status;
}

static taut_status lay_pairs(struct layer *l)
{
	const struct tauti_pipes *new = l->r->new;
	taut_status status = index_pairs(l);

	if (!status)
		status = begin_cursors(l);
	for (uint32_t i = 0; !status && i < new->n && new->stages > 1; i++)
		for (uint32_t s = 0; !status && s < new->n_steps; s++) {
			uint32_t from = i * new->stages;

			for (uint32_t c = 4 * from;
				c < 4 * (from + new->stages); c++)
				advance(l, &l->cursors[c], s);
			for (uint32_t k = 0; !status && k < 2 * new->stages;
				k++)
				if (!(k & 1) || new->backward)
					status = lay_sends(l, i, s, k / 2,
						k & 1);
		}
	return status;
}

taut_status tauti_recut_lay(struct tauti_recut *r)
{
	struct layer l = { .r = r, .edit = r->w->edit };
	taut_status status = lay_stages(&l);

	if (!status)
		status = lay_pairs(&l);
	free(l.order);
	free(l.used);
	free(l.base);
	free(l.pair_of);
	free(l.cursors);
	taut_vec_free(&l.ties);
	return status;
}

/* pipes.c - the pipelines of a recording: stages by what the recording says of
 * each rank, computations by their names, transfers by what they wait for. */
#include <ctype.h>
#include <stdlib.h>

#include "whatif/pipes.h"

struct finder {
	struct tauti_whatif *w;
	const char *name; /* of the change */
	struct tauti_pipes *p;
	int32_t *replica; /* by place in p->rank */
	struct taut_error *err;
};

static taut_status refuse(const struct finder *f, const char *what)
{
	return taut_error_set(
		f->err, TAUT_EINVAL, -1, "%s: %s", f->name, what);
}

/* --- what operations are ------------------------------------------------------------ */

/* As the reader of tables has it: letters alone count. */
enum tauti_pipe_role tauti_pipe_role(const char *name)
{
	char word[32];
	size_t n = 0;

	for (; *name && n < sizeof word - 1; name++)
		if (isalpha((unsigned char)*name))
			word[n++] = (char)tolower((unsigned char)*name);
	word[n] = '\0';
	if (!strcmp(word, "forward") || !strcmp(word, "forwardcompute"))
		return TAUTI_PIPE_FORWARD;
	if (!strcmp(word, "backward") || !strcmp(word, "backwardcompute"))
		return TAUTI_PIPE_BACKWARD;
	if (!strcmp(word, "optimizer"))
		return TAUTI_PIPE_UPDATE;
	return strstr(word, "embedding") ? TAUTI_PIPE_EMBEDDING :
		TAUTI_PIPE_OTHER;
}

/* Index in graph->steps of a trace's first. */
static uint32_t first_step(const struct taut_graph *g, uint32_t trace)
{
	uint32_t lo = 0, hi = g->n_steps;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (g->steps[mid].trace < trace)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

uint32_t tauti_step_number(const struct tauti_whatif *w, const struct taut_op *op)
{
	const struct taut_graph *g = w->graph;
	uint32_t step = tauti_op_step(w, op);

	return step == TAUT_NONE ? TAUT_NONE :
		step - first_step(g, g->steps[step].trace);
}

static enum tauti_pipe_role role_of(
	const struct tauti_whatif *w, const struct taut_op *op)
{
	return tauti_is_work(op->kind) ?
		tauti_pipe_role(taut_edit_name(w->edit, op->name)) :
		TAUTI_PIPE_OTHER;
}

/* --- what a rank computes ------------------------------------------------------------- */

struct walker { /* of a main lane; twice: to count, to fill */
	struct tauti_whatif *w;
	struct tauti_turns *t;
	uint32_t step, n_steps;
	uint32_t n_of[2];
	bool fill;
};

static void open_steps(struct walker *k, uint32_t step)
{
	while (k->step < step) {
		k->step++;
		k->t->begin[k->step] = k->t->n;
		for (int d = 0; d < 2; d++)
			k->t->begin_of[d][k->step] = k->n_of[d];
	}
}

static void see_op(struct walker *k, uint32_t id, const struct taut_op *op)
{
	uint32_t step = tauti_step_number(k->w, op);
	enum tauti_pipe_role role = role_of(k->w, op);
	bool back = role == TAUTI_PIPE_BACKWARD;

	if (step == TAUT_NONE || step >= k->n_steps || step < k->step)
		return;
	open_steps(k, step);
	if (op->kind == TAUT_OP_MARK && k->t->mark[step] == TAUT_NONE)
		k->t->mark[step] = id;
	if (!back && role != TAUTI_PIPE_FORWARD)
		return;
	if (k->fill) {
		k->t->op[k->t->n] = id;
		k->t->backward[k->t->n] = back;
		k->t->of[back][k->n_of[back]] = id;
	}
	k->n_of[back]++;
	k->t->n++;
}

static void walk(struct tauti_whatif *w, uint32_t lane, uint32_t n_steps,
	struct tauti_turns *t, bool fill)
{
	struct walker k = { .w = w, .t = t, .n_steps = n_steps, .fill = fill };
	uint32_t id = lane == TAUT_NONE ? TAUT_NONE :
		taut_edit_first(w->edit, lane);

	t->n = 0;
	for (; id != TAUT_NONE; id = taut_edit_next(w->edit, id)) {
		struct taut_op op;

		if (taut_edit_op(w->edit, id, &op))
			see_op(&k, id, &op);
	}
	open_steps(&k, n_steps);
}

taut_status tauti_turns_read(struct tauti_whatif *w, uint32_t rank,
	uint32_t n_steps, struct tauti_turns *ret, struct taut_error *err)
{
	uint32_t lane = tauti_main_lane(w, rank);
	size_t room = (size_t)n_steps + 1;

	*ret = (struct tauti_turns) {
		.begin = TAUT_ARENA_ARRAY(w->arena, uint32_t, room),
		.begin_of = { TAUT_ARENA_ARRAY(w->arena, uint32_t, room),
			TAUT_ARENA_ARRAY(w->arena, uint32_t, room) },
		.mark = TAUT_ARENA_ARRAY(w->arena, uint32_t, room),
	};
	if (!ret->begin || !ret->begin_of[0] || !ret->begin_of[1] || !ret->mark)
		return tauti_no_memory(err, "a pipeline");
	for (uint32_t s = 0; s < n_steps; s++)
		ret->mark[s] = TAUT_NONE;
	walk(w, lane, n_steps, ret, false);
	room = (size_t)ret->n + 1;
	ret->op = TAUT_ARENA_ARRAY(w->arena, uint32_t, room);
	ret->backward = TAUT_ARENA_ARRAY(w->arena, uint8_t, room);
	ret->of[0] = TAUT_ARENA_ARRAY(w->arena, uint32_t, room);
	ret->of[1] = TAUT_ARENA_ARRAY(w->arena, uint32_t, room);
	if (!ret->op || !ret->backward || !ret->of[0] || !ret->of[1])
		return tauti_no_memory(err, "a pipeline");
	walk(w, lane, n_steps, ret, true);
	return TAUT_OK;
}

uint32_t tauti_turn_before(const struct tauti_whatif *w, uint32_t op)
{
	uint32_t id = op;

	while ((id = taut_edit_before(w->edit, id)) != TAUT_NONE) {
		enum tauti_pipe_role role;
		struct taut_op is;

		if (!taut_edit_op(w->edit, id, &is))
			continue;
		if (is.kind == TAUT_OP_MARK)
			break;
		role = role_of(w, &is);
		if (role == TAUTI_PIPE_FORWARD || role == TAUTI_PIPE_BACKWARD)
			return id;
	}
	return TAUT_NONE;
}

/* --- who holds what ---------------------------------------------------------------------- */

struct holder {
	uint32_t rank;
	int32_t replica, stage, tensor;
};

static int32_t fact(const struct taut_trace *t, const char *key)
{
	const char *text = taut_trace_fact(t, key);

	return text ? (int32_t)strtol(text, NULL, 10) : -1;
}

static int by_place(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;

	if (x->replica != y->replica)
		return x->replica < y->replica ? -1 : 1;
	if (x->tensor != y->tensor)
		return x->tensor < y->tensor ? -1 : 1;
	if (x->stage != y->stage)
		return x->stage < y->stage ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static taut_status list_holders(struct finder *f, struct holder *h)
{
	const struct taut_run *run = f->w->graph->run;
	uint32_t n = run->n_traces;
	bool same = taut_edit_ranks(f->w->edit) == n;

	for (uint32_t i = 0; i < n; i++) {
		h[i] = (struct holder){ i, fact(&run->traces[i], "data.rank"),
			fact(&run->traces[i], "pipeline.stage"), 0 };
		same &= taut_edit_has_rank(f->w->edit, i);
		if (h[i].stage < 0)
			return refuse(f, "the recording does not say which "
				"pipeline stage its ranks hold: expected a table "
				"of operations with a column stage");
	}
	if (!same)
		return refuse(f, "ranks came or went before: expected it "
			"before world and tensor");
	qsort(h, n, sizeof *h, by_place);
	/* ranks of one stage of one replica share its layers: each belongs to
	 * a pipeline of its own */
	for (uint32_t i = 1; i < n; i++)
		if (h[i].replica == h[i - 1].replica &&
			h[i].stage == h[i - 1].stage)
			h[i].tensor = h[i - 1].tensor + 1;
	qsort(h, n, sizeof *h, by_place);
	return TAUT_OK;
}

static taut_status place_holders(struct finder *f, const struct holder *h)
{
	struct tauti_pipes *p = f->p;
	uint32_t n = f->w->graph->run->n_traces;

	for (uint32_t i = 0; i < n; i++)
		if (h[i].stage >= (int32_t)p->stages)
			p->stages = (uint32_t)h[i].stage + 1;
	for (uint32_t i = 0; i < n; i++)
		if (h[i].stage != (int32_t)(i % p->stages) ||
			h[i].replica != h[i - i % p->stages].replica)
			return taut_error_set(f->err, TAUT_EINVAL, -1,
				"%s: replica %d lacks a rank of one of its %u "
				"stages", f->name, h[i].replica, p->stages);
	if (n % p->stages)
		return refuse(f, "the last replica lacks a stage");
	p->n = n / p->stages;
	for (uint32_t i = 0; i < n; i++) {
		p->rank[i] = h[i].rank;
		p->replica[i / p->stages] = h[i].replica;
	}
	return TAUT_OK;
}

static taut_status find_holders(struct finder *f)
{
	uint32_t n = f->w->graph->run->n_traces;
	struct holder *h = calloc((size_t)n + 1, sizeof *h);
	taut_status status;

	f->p->rank = TAUT_ARENA_ARRAY(f->w->arena, uint32_t, (size_t)n + 1);
	f->p->lane = TAUT_ARENA_ARRAY(
		f->w->arena, uint32_t, 4 * (size_t)n + 1);
	f->p->turns = TAUT_ARENA_ARRAY(
		f->w->arena, struct tauti_turns, (size_t)n + 1);
	f->p->replica = TAUT_ARENA_ARRAY(
		f->w->arena, int32_t, (size_t)n + 1);
	if (!h || !f->p->replica || !f->p->rank || !f->p->lane || !f->p->turns) {
		free(h);
		return tauti_no_memory(f->err, "a pipeline");
	}
	for (uint32_t i = 0; i < 4 * n; i++)
		f->p->lane[i] = TAUT_NONE;
	status = list_holders(f, h);
	if (!status)
		status = place_holders(f, h);
	free(h);
	return status;
}

/* --- steps and micro-batches --------------------------------------------------------------- */

/* All ranks have the same steps. */
static taut_status find_steps(struct finder *f)
{
	const struct taut_graph *g = f->w->graph;
	uint32_t n = g->run->n_traces, first = first_step(g, 1);

	f->p->n_steps = first;
	for (uint32_t i = 0; i < g->n_steps; i++)
		if (g->steps[i].id != g->steps[i % first].id)
			return refuse(f, "the ranks have not recorded the same "
				"steps");
	if (g->n_steps != n * first)
		return refuse(f, "the ranks have not recorded the same steps");
	return TAUT_OK;
}

static uint32_t count(const struct tauti_turns *t, uint32_t step, bool backward)
{
	return t->begin_of[backward][step + 1] - t->begin_of[backward][step];
}

static taut_status check_step(struct finder *f, uint32_t pipe, uint32_t step)
{
	struct tauti_pipes *p = f->p;
	const struct tauti_turns *t = &p->turns[pipe * p->stages];
	uint32_t n = count(t, step, false), back = count(t, step, true);

	for (uint32_t s = 0; s < p->stages; s++)
		if (count(&t[s], step, false) != n ||
			count(&t[s], step, true) != back ||
			t[s].mark[step] == TAUT_NONE)
			return taut_error_set(f->err, TAUT_EINVAL, -1, "%s: in "
				"step %lld stage %u has %u forward and %u "
				"backward computations, and stage 0 %u and %u",
				f->name, (long long)f->w->graph->steps[step].id,
				s, count(&t[s], step, false),
				count(&t[s], step, true), n, back);
	p->backward |= back > 0;
	if (!n || (back != n && p->backward))
		return taut_error_set(f->err, TAUT_EINVAL, -1, "%s: step %lld "
			"has %u forward and %u backward computations a stage: "
			"expected as many of each, named forward and backward",
			f->name, (long long)f->w->graph->steps[step].id, n,
			back);
	if (n % p->chunks || (p->chunks > 1 && n / p->chunks % p->stages))
		return taut_error_set(f->err, TAUT_EINVAL, -1, "%s: %u forward "
			"computations are no whole number of rounds of %u "
			"stages with %u chunks", f->name, n, p->stages,
			p->chunks);
	p->batches[pipe * p->n_steps + step] = n / p->chunks;
	return TAUT_OK;
}

static taut_status find_turns(struct finder *f)
{
	struct tauti_pipes *p = f->p;
	uint32_t n = p->n * p->stages;
	taut_status status = TAUT_OK;

	p->batches = TAUT_ARENA_ARRAY(f->w->arena, uint32_t,
		(size_t)p->n * p->n_steps + 1);
	if (!p->batches)
		return tauti_no_memory(f->err, "a pipeline");
	for (uint32_t i = 0; !status && i < n; i++)
		status = tauti_turns_read(f->w, p->rank[i], p->n_steps,
			&p->turns[i], f->err);
	for (uint32_t i = 0; !status && i < p->n; i++)
		for (uint32_t s = 0; !status && s < p->n_steps; s++)
			status = check_step(f, i, s);
	return status;
}

/* --- the order that was recorded ---------------------------------------------------------- */

struct tauti_order tauti_order_of(
	const struct tauti_pipes *p, uint32_t pipe, uint32_t step)
{
	return (struct tauti_order){ p->schedule, p->stages, p->chunks,
		p->batches[pipe * p->n_steps + step], p->backward };
}

static bool fits(const struct tauti_pipes *p, enum tauti_pipe_schedule schedule,
	uint32_t pipe, uint32_t step, uint8_t *order)
{
	struct tauti_order o = tauti_order_of(p, pipe, step);

	o.schedule = schedule;
	for (uint32_t s = 0; s < p->stages; s++) {
		const struct tauti_turns *t = &p->turns[pipe * p->stages + s];

		tauti_order_make(&o, s, order);
		if (memcmp(order, t->backward + t->begin[step],
			tauti_order_n(&o)))
			return false;
	}
	return true;
}

static bool fits_all(const struct tauti_pipes *p, enum tauti_pipe_schedule schedule,
	uint8_t *order)
{
	for (uint32_t i = 0; i < p->n; i++)
		for (uint32_t s = 0; s < p->n_steps; s++)
			if (!fits(p, schedule, i, s, order))
				return false;
	return true;
}

static taut_status find_schedule(struct finder *f)
{
	static const uint8_t of_one[] = { TAUTI_SCHEDULE_1F1B,
		TAUTI_SCHEDULE_GPIPE, TAUTI_SCHEDULE_NONE };
	static const uint8_t of_several[] = { TAUTI_SCHEDULE_INTERLEAVED,
		TAUTI_SCHEDULE_NONE };
	const uint8_t *known = f->p->chunks > 1 ? of_several : of_one;
	uint32_t most = 0;
	uint8_t *order;

	for (uint32_t i = 0; i < f->p->n * f->p->stages; i++)
		if (f->p->turns[i].n > most)
			most = f->p->turns[i].n;
	order = malloc((size_t)most + 1);
	if (!order)
		return tauti_no_memory(f->err, "a pipeline");
	while (*known && !fits_all(f->p, *known, order))
		known++;
	f->p->schedule = *known;
	free(order);
	return TAUT_OK;
}

/* --- transfers ------------------------------------------------------------------------------- */

enum { MOST_TIES = 8 };

struct slot { /* of a computation: where it stands */
	uint32_t pipe, stage, step, index;
	bool backward;
};

struct end { /* a member of a transfer, and what it hangs on */
	uint32_t arrive;
	uint32_t fed; /* slot that waits for its transfer; TAUT_NONE */
	int64_t fed_lag;
	uint32_t n, slot[MOST_TIES]; /* computations that it waits for */
	int64_t lag[MOST_TIES];
	bool meets; /* its transfer waits for the other */
	bool by_step;
	int64_t step_lag;
};

struct pairer {
	struct finder *f;
	struct slot *slots;
	uint32_t *slot_of; /* by op of the edit: + 1 */
	uint32_t n_ids;
	struct end end[2];
	uint32_t n_ends;
	struct end *at;
	size_t room, n_odd;
};

static uint32_t slot_of(const struct pairer *k, uint32_t op)
{
	return op < k->n_ids ? k->slot_of[op] - 1 : TAUT_NONE;
}

static void see_into(void *context, struct taut_wait wait)
{
	struct pairer *k = context;
	uint32_t slot = slot_of(k, wait.op);
	struct taut_op op;

	if (slot != TAUT_NONE && k->at->n < MOST_TIES) {
		k->at->slot[k->at->n] = slot;
		k->at->lag[k->at->n++] = wait.lag_ns;
	} else if (taut_edit_op(k->f->w->edit, wait.op, &op) &&
		op.kind == TAUT_OP_MARK) {
		k->at->by_step = true;
		k->at->step_lag = wait.lag_ns;
	}
}

static void see_join(void *context, struct taut_wait wait)
{
	struct pairer *k = context;

	k->at->meets |= (wait.kind & ~TAUT_EDGE_FROM_START) == TAUT_EDGE_COMM;
}

static void see_out_of(void *context, struct taut_wait wait)
{
	struct pairer *k = context;
	uint32_t slot = slot_of(k, wait.op);

	if (slot == TAUT_NONE)
		return;
	k->at->fed = slot;
	k->at->fed_lag = wait.lag_ns;
}

static void see_end(void *context, uint32_t arrive)
{
	struct pairer *k = context;
	const struct taut_edit *edit = k->f->w->edit;

	if (k->n_ends++ >= 2)
		return;
	k->at = &k->end[k->n_ends - 1];
	*k->at = (struct end){ .arrive = arrive, .fed = TAUT_NONE };
	taut_edit_each_in(edit, arrive, see_into, k);
	taut_edit_each_out(edit, taut_edit_next(edit, arrive), see_out_of, k);
	taut_edit_each_in(edit, taut_edit_next(edit, arrive), see_join, k);
}

/* By the recorded times: -1 where one of both was not recorded. */
static int64_t time_behind(const struct pairer *k, uint32_t arrive, uint32_t fed)
{
	const struct taut_graph *g = k->f->w->graph;
	uint32_t before = tauti_turn_before(k->f->w, fed);
	struct taut_op a, b;
	int64_t ns;

	if (before == TAUT_NONE ||
		!taut_edit_op(k->f->w->edit, arrive, &a) ||
		!taut_edit_op(k->f->w->edit, before, &b) ||
		a.like == TAUT_NONE || b.like == TAUT_NONE)
		return -1;
	ns = g->start_ns[a.like] - g->start_ns[b.like] - g->dur_ns[b.like];
	return ns < 0 ? -1 : ns;
}

static void tie(struct tauti_pair_end *e, enum tauti_tie which, int64_t lag_ns)
{
	e->ties |= (uint8_t)(1 << which);
	e->lag_ns[which] = lag_ns;
}

static void measure_end(const struct pairer *k, const struct end *from,
	struct tauti_pair_end *to)
{
	const struct taut_edit *edit = k->f->w->edit;
	struct taut_op op = { 0 };

	to->arrive = from->arrive;
	(void)taut_edit_op(edit, from->arrive, &op);
	to->gap_ns = op.gap_ns;
	to->name = op.name;
	(void)taut_edit_op(edit, taut_edit_next(edit, from->arrive), &op);
	to->dur_ns = op.dur_ns;
	if (from->by_step)
		tie(to, TAUTI_TIE_STEP, from->step_lag);
}

/* The computation whose result is sent: of the direction of what is fed. */
static const struct slot *find_sender(const struct pairer *k,
	const struct end *e, const struct slot *fed, int64_t *ret_lag)
{
	for (uint32_t i = 0; i < e->n; i++) {
		const struct slot *s = &k->slots[e->slot[i]];

		*ret_lag = e->lag[i];
		if (s->backward == fed->backward)
			return s;
	}
	return NULL;
}

static void tie_others(const struct pairer *k, const struct end *e,
	bool receives, bool backward, struct tauti_pair_end *to)
{
	for (uint32_t i = 0; i < e->n; i++) {
		const struct slot *s = &k->slots[e->slot[i]];

		if (s->backward != backward)
			tie(to, TAUTI_TIE_FIRST, e->lag[i]);
		else if (receives)
			tie(to, TAUTI_TIE_BEFORE, e->lag[i]);
	}
}

static uint32_t place_of(const struct tauti_pipes *p,
	const struct tauti_order *o, const struct slot *s, uint32_t *ret_batch)
{
	struct tauti_piece piece = tauti_piece_of(o, s->backward, s->index);

	*ret_batch = piece.batch;
	return piece.chunk * p->stages + s->stage;
}

static bool add_pair(struct pairer *k, const struct tauti_pair *pair)
{
	struct tauti_pipes *p = k->f->p;
	size_t room = 2 * k->room + 64;
	struct tauti_pair *all;

	if (p->n_pairs == k->room) {
		all = TAUT_ARENA_ARRAY(k->f->w->arena, struct tauti_pair, room);
		if (!all)
			return false;
		if (p->n_pairs)
			memcpy(all, p->pairs, p->n_pairs * sizeof *all);
		p->pairs = all;
		k->room = room;
	}
	p->pairs[p->n_pairs++] = *pair;
	return true;
}

static taut_status note_lane(struct pairer *k, const struct slot *s,
	bool receives, uint32_t arrive)
{
	struct tauti_pipes *p = k->f->p;
	uint32_t *lane = &p->lane[4 * (s->pipe * p->stages + s->stage) +
		2 * s->backward + receives];
	struct taut_op op;

	if (!taut_edit_op(k->f->w->edit, arrive, &op))
		return TAUT_OK;
	if (*lane != TAUT_NONE && *lane != op.lane)
		return refuse(k->f, "transfers of one direction stand on "
			"several lanes: expected one for sends and one for "
			"receives");
	*lane = op.lane;
	return TAUT_OK;
}

/* Is it a transfer between two stages whose computations are known? */
static taut_status take_pair(struct pairer *k, uint32_t collective,
	const struct taut_collective *is)
{
	const struct tauti_pipes *p = k->f->p;
	bool second = k->end[0].fed == TAUT_NONE; /* receives */
	const struct end *send = &k->end[!second], *recv = &k->end[second];
	const struct slot *from, *to;
	const struct tauti_turns *turns;
	struct tauti_pair pair = { .collective = collective, .is = *is,
		.way = tauti_way_of(k->f->w, collective) };
	uint32_t like = taut_edit_collective_like(k->f->w->edit, collective);
	struct tauti_order o;
	uint32_t batch, place[2];
	int64_t lag = 0;
	taut_status status;

	if (k->n_ends != 2 || recv->fed == TAUT_NONE || !recv->meets)
		return TAUT_OK;
	to = &k->slots[recv->fed];
	from = find_sender(k, send, to, &lag);
	if (!from || from->pipe != to->pipe || from->step != to->step)
		return TAUT_OK;
	o = tauti_order_of(p, to->pipe, to->step);
	place[0] = place_of(p, &o, from, &pair.batch);
	place[1] = place_of(p, &o, to, &batch);
	pair.backward = to->backward;
	pair.border = place[pair.backward];
	if (place[!pair.backward] != pair.border + 1 || batch != pair.batch) {
		k->n_odd++; /* nobody's business, where a model ends */
		return TAUT_OK;
	}
	pair.pipe = to->pipe;
	pair.step = to->step;
	if (!pair.way.like && like != TAUT_NONE)
		pair.way.like = like + 1;
	measure_end(k, send, &pair.end[TAUTI_SENDS]);
	measure_end(k, recv, &pair.end[TAUTI_RECEIVES]);
	turns = &p->turns[to->pipe * p->stages + to->stage];
	pair.end[TAUTI_RECEIVES].behind_ns = time_behind(k, recv->arrive,
		tauti_turn_op(turns, to->step, to->backward, to->index));
	tie_others(k, send, false, pair.backward, &pair.end[TAUTI_SENDS]);
	tie_others(k, recv, true, pair.backward, &pair.end[TAUTI_RECEIVES]);
	tie(&pair.end[TAUTI_SENDS], TAUTI_TIE_OWN, lag);
	tie(&pair.end[TAUTI_RECEIVES], TAUTI_TIE_OWN, recv->fed_lag);
	status = note_lane(k, from, false, send->arrive);
	if (!status)
		status = note_lane(k, to, true, recv->arrive);
	return status || add_pair(k, &pair) ? status :
		tauti_no_memory(k->f->err, "a pipeline");
}

static void fill_slots(struct pairer *k)
{
	const struct tauti_pipes *p = k->f->p;
	uint32_t at = 0;

	for (uint32_t i = 0; i < p->n * p->stages; i++)
		for (uint32_t s = 0; s < p->n_steps; s++)
			for (int d = 0; d < 2; d++)
				for (uint32_t j = 0; j < count(&p->turns[i], s, d);
					j++) {
					uint32_t op = tauti_turn_op(
						&p->turns[i], s, d, j);

					k->slots[at] = (struct slot){
						i / p->stages, i % p->stages, s,
						j, d };
					k->slot_of[op] = ++at;
				}
}

static taut_status take_pairs(struct pairer *k)
{
	struct tauti_whatif *w = k->f->w;
	taut_status status = TAUT_OK;

	fill_slots(k);
	for (uint32_t c = 0; !status && c < taut_edit_collectives(w->edit); c++) {
		struct taut_collective coll;

		if (!taut_edit_collective(w->edit, c, &coll) ||
			coll.n_members != 2)
			continue;
		k->n_ends = 0;
		taut_edit_each_member(w->edit, c, see_end, k);
		status = take_pair(k, c, &coll);
	}
	if (!status && k->n_odd > k->f->p->n_pairs)
		return refuse(k->f, "what is sent does not fit the order in "
			"which chunks are computed");
	return status;
}

static taut_status find_pairs(struct finder *f)
{
	const struct tauti_pipes *p = f->p;
	struct pairer k = { .f = f, .n_ids = taut_edit_ops(f->w->edit) };
	size_t n = 0;
	taut_status status;

	for (uint32_t i = 0; i < p->n * p->stages; i++)
		n += p->turns[i].n;
	k.slots = calloc(n + 1, sizeof *k.slots);
	k.slot_of = calloc((size_t)k.n_ids + 1, sizeof *k.slot_of);
	status = k.slots && k.slot_of ? take_pairs(&k) :
		tauti_no_memory(f->err, "a pipeline");
	free(k.slots);
	free(k.slot_of);
	return status;
}

/* --- what else stands on their lanes ----------------------------------------------------------- */

static bool add_stray(struct finder *f, uint32_t op)
{
	struct tauti_pipes *p = f->p;
	size_t room = p->n_strays ? 2 * p->n_strays : 64;
	uint32_t *all;

	if (!p->n_strays || (p->n_strays >= 64 &&
		!(p->n_strays & (p->n_strays - 1)))) {
		all = TAUT_ARENA_ARRAY(f->w->arena, uint32_t, room);
		if (!all)
			return false;
		if (p->n_strays)
			memcpy(all, p->strays, p->n_strays * sizeof *all);
		p->strays = all;
	}
	p->strays[p->n_strays++] = op;
	return true;
}

/* Transfers that nobody answers may stand there, and nothing else. */
static taut_status check_lane(struct finder *f, uint32_t lane,
	const uint8_t *is_pair)
{
	const struct taut_edit *edit = f->w->edit;
	uint32_t step = TAUT_NONE, begin = TAUT_NONE;

	for (uint32_t id = taut_edit_first(edit, lane); id != TAUT_NONE;
		id = taut_edit_next(edit, id)) {
		struct taut_op op;
		uint32_t at;

		if (!taut_edit_op(edit, id, &op))
			continue;
		if (op.kind != TAUT_OP_ARRIVE && op.kind != TAUT_OP_TRANSFER)
			return refuse(f, "transfers between stages stand on a "
				"lane with other work: expected lanes of their "
				"own");
		if (op.kind == TAUT_OP_ARRIVE && !is_pair[id] &&
			f->p->chunks > 1 && !add_stray(f, id))
			return tauti_no_memory(f->err, "a pipeline");
		at = tauti_step_number(f->w, &op);
		if (at != step && at != TAUT_NONE) {
			step = at;
			begin = id;
		}
		if (!is_pair[id])
			continue;
		for (; begin != id && begin != TAUT_NONE;
			begin = taut_edit_next(edit, begin))
			if (taut_edit_op(edit, begin, &op) &&
				op.like != TAUT_NONE)
				f->p->leads[op.like] = 1;
		begin = TAUT_NONE;
	}
	return TAUT_OK;
}

static taut_status find_leads(struct finder *f)
{
	struct tauti_pipes *p = f->p;
	uint8_t *is_pair = calloc((size_t)taut_edit_ops(f->w->edit) + 1, 1);
	taut_status status = TAUT_OK;

	p->leads = TAUT_ARENA_ARRAY(
		f->w->arena, uint8_t, (size_t)f->w->graph->n_ops + 1);
	if (!is_pair || !p->leads) {
		free(is_pair);
		return tauti_no_memory(f->err, "a pipeline");
	}
	for (size_t i = 0; i < p->n_pairs; i++)
		for (int e = 0; e < 2; e++) {
			is_pair[p->pairs[i].end[e].arrive] = 1;
			p->first_ties |= p->pairs[i].end[e].ties >>
				TAUTI_TIE_FIRST & 1;
		}
	for (uint32_t i = 0; !status && i < 4 * p->n * p->stages; i++)
		if (p->lane[i] != TAUT_NONE)
			status = check_lane(f, p->lane[i], is_pair);
	free(is_pair);
	return status;
}

/* --- the whole ------------------------------------------------------------------------------------ */

static uint32_t count_chunks(const struct taut_run *run)
{
	int32_t most = 1;

	for (uint32_t i = 0; i < run->n_traces; i++) {
		int32_t chunks = fact(&run->traces[i], "pipeline.chunks");

		most = chunks > most ? chunks : most;
	}
	return (uint32_t)most;
}

static bool are_all(const struct tauti_whatif *w, const struct tauti_pipes *p)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < taut_edit_ranks(w->edit); r++)
		n += taut_edit_has_rank(w->edit, r) != 0;
	for (uint32_t i = 0; i < p->n * p->stages; i++)
		n -= taut_edit_has_rank(w->edit, p->rank[i]) != 0;
	return !n;
}

taut_status tauti_pipes_find(struct tauti_whatif *w, const char *name,
	struct tauti_pipes **ret_pipes, struct taut_error *err)
{
	struct finder f = { .w = w, .name = name, .err = err };
	taut_status status;

	if (w->pipes) {
		*ret_pipes = w->pipes;
		return are_all(w, w->pipes) ? TAUT_OK : refuse(&f, "ranks "
			"came or went before: expected it before world and "
			"tensor");
	}
	f.p = TAUT_ARENA_ARRAY(w->arena, struct tauti_pipes, 1);
	if (!f.p)
		return tauti_no_memory(err, "a pipeline");
	f.p->chunks = count_chunks(w->graph->run);
	status = find_holders(&f);
	if (!status)
		status = find_steps(&f);
	if (!status)
		status = find_turns(&f);
	if (!status)
		status = find_schedule(&f);
	if (!status)
		status = find_pairs(&f);
	if (!status)
		status = find_leads(&f);
	if (!status)
		*ret_pipes = w->pipes = f.p;
	return status;
}

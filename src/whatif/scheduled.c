/* scheduled.c - the schedule of a built graph: its engine, and what it decided
 * as waits. */
#include <stdlib.h>

#include "whatif/schedule.h"

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for a schedule");
}

/* --- the engine ----------------------------------------------------------------- */

static taut_status out_of_date(struct taut_error *err)
{
	return taut_error_set(err, TAUT_EINVAL, -1, "schedule: a change behind "
		"it took its transfers away, cut them, put work behind them, "
		"or gave them to more ranks; put schedule behind it");
}

/* Nothing but the same piece of the next iteration stands behind it. */
static bool is_alone(const struct tauti_whatif *w,
	const struct tauti_team *team, size_t i)
{
	size_t each = (size_t)team->n_ranks * team->n_pieces;
	size_t all = each * team->n_iterations;
	uint32_t transfer = taut_edit_next(w->edit, team->arrive[i]);

	return taut_edit_next(w->edit, transfer) ==
		(i + each < all ? team->arrive[i + each] : TAUT_NONE);
}

static taut_status map_team(const struct tauti_whatif *w,
	const struct tauti_team *team, const struct taut_graph *built,
	const uint32_t *became, struct taut_arena *arena,
	struct tauti_team *to, struct taut_error *err)
{
	size_t n = (size_t)team->n_iterations * team->n_ranks * team->n_pieces;
	uint32_t *arrive = taut_arena_calloc(arena, n + 1, sizeof *arrive);

	if (!arrive)
		return no_memory(err);
	for (size_t i = 0; i < n; i++) {
		uint32_t op = arrive[i] = became[team->arrive[i]];

		if (op == TAUT_NONE || built->collective[op] == TAUT_NONE ||
			built->collectives[built->collective[op]].n_members !=
			team->n_ranks || !is_alone(w, team, i))
			return out_of_date(err);
	}
	*to = *team;
	to->arrive = arrive;
	return TAUT_OK;
}

taut_status tauti_schedule_engine(const struct tauti_whatif *w,
	const struct taut_graph *built, const uint32_t *became,
	struct taut_arena *arena, struct tauti_engine **ret_engine,
	struct taut_error *err)
{
	const struct tauti_schedule *s = w->schedule;
	struct tauti_team *teams = TAUT_ARENA_ARRAY(
		arena, struct tauti_team, s->n_teams + 1);
	taut_status status = teams ? TAUT_OK : no_memory(err);

	for (uint32_t t = 0; !status && t < s->n_teams; t++)
		status = map_team(w, &s->teams[t], built, became, arena,
			&teams[t], err);
	return status ? status : tauti_engine_create(built, teams, s->n_teams,
		&s->options, ret_engine, err);
}

/* --- what it decided -------------------------------------------------------------- */

struct keeper {
	struct tauti_whatif *w;
	const struct taut_graph *built;
	const struct taut_timeline *timeline;
	const uint32_t *became;
	const uint32_t *order; /* tauti_engine_order() */
	uint32_t *was; /* by op of the built graph: of the edit */
	struct taut_error *err;
};

struct known { /* does a wait for op explain this instant? */
	uint32_t op;
	int64_t start_ns, end_ns; /* of op */
	int64_t at_ns;
	bool is;
};

static void see(void *context, struct taut_wait wait)
{
	struct known *known = context;
	int64_t from_ns = wait.kind & TAUT_EDGE_FROM_START ?
		known->start_ns : known->end_ns;

	known->is |= wait.op == known->op &&
		from_ns + wait.lag_ns == known->at_ns;
}

/* When it was let go: its gap comes behind that. */
static int64_t released_ns(const struct keeper *k, uint32_t op)
{
	int64_t gap_ns = k->built->gap_ns[op];

	return k->timeline->start_ns[op] - (gap_ns > 0 ? gap_ns : 0);
}

/* An arrival that was held back waits for what let it go. */
static taut_status keep(const struct keeper *k, uint32_t arrive)
{
	const struct taut_timeline *t = k->timeline;
	uint32_t op = k->became[arrive], by = t->decided_by[op];
	int64_t at_ns = released_ns(k, op);
	struct known known;
	bool ended;

	if (by == TAUT_NONE) /* it waits for nothing */
		return at_ns == 0 ? TAUT_OK : taut_edit_set_gap(
			k->w->edit, arrive, t->start_ns[op], k->err);
	known = (struct known) { k->was[by], t->start_ns[by], t->end_ns[by],
		at_ns, false };
	known.is = known.op == taut_edit_before(k->w->edit, arrive) &&
		known.end_ns == at_ns;
	taut_edit_each_in(k->w->edit, arrive, see, &known);
	if (known.is || known.op == TAUT_NONE)
		return TAUT_OK;
	ended = t->end_ns[by] <= at_ns;
	return taut_edit_connect(k->w->edit, known.op, arrive, ended ?
		TAUT_EDGE_THREAD : TAUT_EDGE_THREAD | TAUT_EDGE_FROM_START,
		at_ns - (ended ? t->end_ns : t->start_ns)[by], k->err);
}

struct stay { /* a piece of a rank, from arrival to end */
	int64_t start_ns, end_ns;
	uint32_t arrive, order;
};

/* All ranks begin them in one order: some may take no time. */
static int by_start(const void *a, const void *b)
{
	const struct stay *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* Each behind those before it, on the first lane that is free by then: as many
 * lanes as were side by side. No time changes. */
static taut_status pack(const struct keeper *k, const struct stay *stays,
	size_t n, const uint32_t *lanes)
{
	struct stay *last = taut_arena_calloc(
		k->w->arena, n + 1, sizeof *last);
	size_t n_lanes = 0;
	taut_status status = last ? TAUT_OK : no_memory(k->err);

	for (size_t i = 0; !status && i < n; i++) {
		size_t at = 0;

		while (at < n_lanes && last[at].end_ns > stays[i].start_ns)
			at++;
		if (at == n_lanes)
			last[n_lanes++].arrive = TAUT_NONE;
		status = taut_edit_move(k->w->edit, stays[i].arrive,
			last[at].arrive == TAUT_NONE ? TAUT_NONE :
			taut_edit_next(k->w->edit, last[at].arrive),
			lanes[at], k->err);
		last[at] = stays[i];
	}
	return status;
}

static taut_status pack_member(const struct keeper *k,
	const struct tauti_team *team, uint32_t member)
{
	size_t n = 0, all = (size_t)team->n_iterations * team->n_pieces;
	struct stay *stays = taut_arena_calloc(
		k->w->arena, all + 1, sizeof *stays);
	uint32_t *lanes = taut_arena_calloc(
		k->w->arena, (size_t)team->n_pieces + 1, sizeof *lanes);
	struct taut_op is;

	if (!stays || !lanes)
		return no_memory(k->err);
	for (uint32_t i = 0; i < team->n_iterations; i++)
		for (uint32_t p = 0; p < team->n_pieces; p++) {
			uint32_t arrive = team->arrive[((size_t)i *
				team->n_ranks + member) * team->n_pieces + p];
			uint32_t op = k->became[arrive];

			stays[n++] = (struct stay) {
				released_ns(k, op),
				k->timeline->end_ns[op + 1], arrive,
				k->order[op] };
			if (taut_edit_op(k->w->edit, arrive, &is))
				lanes[p] = is.lane;
		}
	qsort(stays, n, sizeof *stays, by_start);
	return pack(k, stays, n, lanes);
}

static taut_status keep_team(
	const struct keeper *k, const struct tauti_team *team)
{
	size_t n = (size_t)team->n_iterations * team->n_ranks * team->n_pieces;
	taut_status status = TAUT_OK;

	for (size_t i = 0; !status && i < n; i++)
		status = keep(k, team->arrive[i]);
	for (uint32_t r = 0; !status && r < team->n_ranks; r++)
		status = pack_member(k, team, r);
	return status;
}

taut_status tauti_schedule_keep(struct tauti_whatif *w,
	const struct taut_graph *built, const uint32_t *became,
	const struct tauti_engine *engine,
	const struct taut_timeline *timeline, struct taut_error *err)
{
	struct keeper k = { w, built, timeline, became,
		tauti_engine_order(engine), NULL, err };
	uint32_t n = taut_edit_ops(w->edit);
	taut_status status = TAUT_OK;

	k.was = taut_arena_calloc(
		w->arena, (size_t)built->n_ops + 1, sizeof *k.was);
	if (!k.was)
		return no_memory(err);
	for (uint32_t i = 0; i < built->n_ops; i++)
		k.was[i] = TAUT_NONE;
	for (uint32_t i = 0; i < n; i++)
		if (became[i] != TAUT_NONE)
			k.was[became[i]] = i;
	for (uint32_t t = 0; !status && t < w->schedule->n_teams; t++)
		status = keep_team(&k, &w->schedule->teams[t]);
	return status;
}

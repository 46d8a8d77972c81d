/* pieces.c - buckets in pieces that may go in any order: each on a lane of its
 * own. */
#include <math.h>
#include <string.h>

#include "whatif/attach.h"
#include "whatif/schedule.h"

struct kept { /* a wait of a bucket's arrival, or for its transfer */
	uint32_t member;
	bool in;
	struct taut_wait wait;
};

struct piecer {
	struct tauti_whatif *w;
	const struct tauti_ddp *ddp;
	const uint32_t *update;
	struct tauti_schedule *schedule;
	struct taut_error *err;
	uint32_t *group; /* by place: the place of its team's first */
	uint32_t *lane, *last; /* by (place, piece): last op on it */
	uint32_t *tail_lane, *tail_last; /* by (place, task): of work behind
	                                    transfers; TAUT_NONE: none yet */
	/* the team at hand */
	struct tauti_team *team;
	uint32_t *arrive_of;
	uint32_t *places; /* by member */
	/* the bucket at hand */
	TAUT_VEC(struct kept) kept;
	TAUT_VEC(struct taut_wait) seen;
	TAUT_VEC(struct taut_member) members;
	TAUT_VEC(uint32_t) arrive;
	bool failed;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for pieces");
}

static const struct tauti_ddp_step *step_at(
	const struct piecer *p, uint32_t place, uint32_t k)
{
	return &p->ddp->steps.data[place * p->ddp->steps_a_rank + k];
}

static const struct tauti_bucket *bucket_at(
	const struct piecer *p, uint32_t place, uint32_t k, uint32_t b)
{
	return &p->ddp->buckets.data[step_at(p, place, k)->first_bucket + b];
}

/* --- teams ---------------------------------------------------------------------- */

static void find_groups(struct piecer *p)
{
	for (uint32_t i = 0; i < p->ddp->n_ranks; i++) {
		uint32_t j = 0;

		while (bucket_at(p, j, 0, 0)->collective !=
			bucket_at(p, i, 0, 0)->collective)
			j++;
		p->group[i] = j;
	}
}

/* Every step must sum the same, or it is no iteration of the same tasks. */
static taut_status check_bucket(const struct piecer *p, uint32_t place,
	uint32_t k, uint32_t b)
{
	const struct tauti_bucket *it = bucket_at(p, place, k, b);
	const struct tauti_bucket *like = bucket_at(p, place, 0, b);
	const struct tauti_bucket *with = bucket_at(p, p->group[place], k, b);

	if (it->bytes == like->bytes && it->bytes > 0 &&
		it->collective == with->collective)
		return TAUT_OK;
	return taut_error_set(p->err, TAUT_EINVAL, -1, "schedule: bucket %u of "
		"rank %u is not the same in all steps and on all ranks that "
		"sum it", b, step_at(p, place, k)->rank);
}

static taut_status check_buckets(const struct piecer *p)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; i < p->ddp->n_ranks; i++)
		for (uint32_t k = 0; k < p->ddp->steps_a_rank; k++)
			for (uint32_t b = 0; !status &&
				b < step_at(p, i, k)->n_buckets; b++)
				status = check_bucket(p, i, k, b);
	return status;
}

static bool make_tasks(struct piecer *p, uint32_t place,
	const int64_t *priorities)
{
	struct tauti_team *team = p->team;
	struct tauti_engine_task *tasks;

	team->n_tasks = step_at(p, place, 0)->n_buckets;
	team->n_iterations = p->ddp->steps_a_rank;
	tasks = TAUT_ARENA_ARRAY(
		p->w->arena, struct tauti_engine_task, team->n_tasks + 1);
	for (uint32_t b = 0; tasks && b < team->n_tasks; b++) {
		uint64_t bytes = (uint64_t)bucket_at(p, place, 0, b)->bytes;

		tasks[b] = (struct tauti_engine_task) {
			.bytes = bytes, .priority = priorities[b],
			.after = TAUT_NONE, .first_piece = team->n_pieces,
			.n_pieces = tauti_piece_count(
				&p->schedule->options.sched, bytes),
		};
		team->n_pieces += tasks[b].n_pieces;
	}
	team->tasks = tasks;
	return tasks != NULL;
}

static taut_status make_lanes(struct piecer *p, uint32_t place)
{
	uint32_t id;
	struct taut_op op;
	taut_status status = TAUT_OK;
	struct taut_graph_lane lane;

	if (!taut_edit_op(p->w->edit, bucket_at(p, place, 0, 0)->arrive, &op))
		return taut_error_set(p->err, TAUT_EINVAL, -1,
			"schedule: a bucket was removed by a change before");
	lane = taut_edit_lane(p->w->edit, op.lane);
	lane.is_comm = 1;
	for (uint32_t i = 0; !status && i < p->team->n_pieces; i++) {
		status = taut_edit_add_lane(p->w->edit, &lane, &id, p->err);
		p->lane[place * p->team->n_pieces + i] = id;
		p->last[place * p->team->n_pieces + i] = TAUT_NONE;
	}
	return status;
}

/* --- one bucket ------------------------------------------------------------------- */

static void see(void *context, struct taut_wait wait)
{
	struct piecer *p = context;

	if ((wait.kind & ~TAUT_EDGE_FROM_START) != TAUT_EDGE_COMM &&
		!taut_vec_push(&p->seen, wait))
		p->failed = true;
}

static bool keep(struct piecer *p, uint32_t member, bool in)
{
	for (size_t i = 0; i < p->seen.count; i++) {
		struct kept k = { member, in, p->seen.data[i] };

		if (!taut_vec_push(&p->kept, k))
			return false;
	}
	taut_vec_clear(&p->seen);
	return !p->failed;
}

/* Nobody waits for the bucket any more but what updates its parameters. from: its
 * transfer, or the work behind it; what waits for that is in p->seen. */
static taut_status wait_to_update(struct piecer *p, uint32_t place, uint32_t k,
	uint32_t b, uint32_t from)
{
	const struct tauti_ddp_step *s = step_at(p, place, k);
	const struct tauti_bucket *it = bucket_at(p, place, k, b);
	uint32_t first = s->first_gradient + it->first;
	taut_status status = TAUT_OK;

	for (size_t i = 0; !status && i < p->seen.count; i++)
		if (!i || p->seen.data[i].op != p->seen.data[i - 1].op)
			status = taut_edit_disconnect(p->w->edit, from,
				p->seen.data[i].op, p->err);
	taut_vec_clear(&p->seen);
	for (uint32_t g = first; !status && g < first + it->n; g++) {
		struct taut_wait wait = { p->update[g], 0, TAUT_EDGE_THREAD };
		bool known = wait.op == TAUT_NONE;

		for (size_t i = 0; i < p->seen.count; i++)
			known = known || p->seen.data[i].op == wait.op;
		if (known)
			continue;
		if (!taut_vec_push(&p->seen, wait))
			return no_memory(p->err);
		status = taut_edit_connect(p->w->edit, from, wait.op,
			TAUT_EDGE_THREAD, 0, p->err);
	}
	return status;
}

static uint32_t *slot_of(struct piecer *p, uint32_t k, uint32_t member,
	uint32_t piece)
{
	return &p->arrive_of[((size_t)k * p->team->n_ranks + member) *
		p->team->n_pieces + piece];
}

static taut_status add_tail_lane(struct piecer *p, uint32_t at, uint32_t id)
{
	struct taut_graph_lane lane;
	struct taut_op op;

	if (p->tail_lane[at] != TAUT_NONE ||
		!taut_edit_op(p->w->edit, id, &op))
		return TAUT_OK;
	lane = taut_edit_lane(p->w->edit, op.lane);
	return taut_edit_add_lane(
		p->w->edit, &lane, &p->tail_lane[at], p->err);
}

/* Work behind the transfer, to a lane of its own: it waits for all pieces. */
static taut_status move_tail(struct piecer *p, uint32_t place, uint32_t k,
	uint32_t b, uint32_t transfer, uint32_t tail)
{
	uint32_t at = place * p->team->n_tasks + b;
	struct taut_wait wait = { tail, 0, TAUT_EDGE_THREAD };
	taut_status status = add_tail_lane(p, at, tail);

	if (!status && tauti_made_behind(p->w, tail) != TAUT_NONE)
		status = taut_error_set(p->err, TAUT_EINVAL, -1, "schedule: "
			"several changes put work behind an all-reduce");
	if (!status && p->update) {
		taut_edit_each_out(p->w->edit, tail, see, p);
		status = p->failed ? no_memory(p->err) :
			wait_to_update(p, place, k, b, tail);
	}
	if (!status)
		status = taut_edit_move(p->w->edit, tail, p->tail_last[at],
			p->tail_lane[at], p->err);
	if (!status)
		status = taut_edit_connect(p->w->edit, transfer, tail,
			TAUT_EDGE_THREAD, 0, p->err);
	p->tail_last[at] = tail;
	taut_vec_clear(&p->seen);
	return status || taut_vec_push(&p->seen, wait) ? status :
		no_memory(p->err);
}

/* The recorded all-reduce is the first piece: to its own lane with it. */
static taut_status move_first(struct piecer *p, uint32_t member, uint32_t k,
	uint32_t b)
{
	uint32_t place = p->places[member];
	uint32_t piece = p->team->tasks[b].first_piece;
	uint32_t at = place * p->team->n_pieces + piece;
	uint32_t arrive = bucket_at(p, place, k, b)->arrive;
	uint32_t transfer = taut_edit_next(p->w->edit, arrive);
	uint32_t tail = tauti_made_behind(p->w, transfer);
	taut_status status = TAUT_OK;

	taut_edit_each_in(p->w->edit, arrive, see, p);
	if (!keep(p, member, true))
		return no_memory(p->err);
	if (tail == TAUT_NONE)
		taut_edit_each_out(p->w->edit, transfer, see, p);
	if (p->failed)
		return no_memory(p->err);
	if (tail != TAUT_NONE)
		status = move_tail(p, place, k, b, transfer, tail);
	else if (p->update)
		status = wait_to_update(p, place, k, b, transfer);
	if (!status && !keep(p, member, false))
		return no_memory(p->err);
	if (!status)
		status = taut_edit_move(p->w->edit, arrive, p->last[at],
			p->lane[at], p->err);
	*slot_of(p, k, member, piece) = arrive;
	p->last[at] = transfer;
	return status;
}

static taut_status connect_kept(struct piecer *p)
{
	taut_status status = TAUT_OK;

	for (size_t i = 0; !status && i < p->kept.count; i++) {
		const struct kept *k = &p->kept.data[i];
		uint32_t arrive = p->arrive.data[k->member];

		status = k->in ? taut_edit_connect(p->w->edit, k->wait.op,
			arrive, k->wait.kind, k->wait.lag_ns, p->err) :
			taut_edit_connect(p->w->edit, taut_edit_next(
			p->w->edit, arrive), k->wait.op, k->wait.kind,
			k->wait.lag_ns, p->err);
	}
	return status;
}

static taut_status add_piece(struct piecer *p, uint32_t k, uint32_t piece,
	const struct taut_collective *c, const struct tauti_way *way)
{
	uint32_t n = p->team->n_ranks, id;
	taut_status status;

	taut_vec_clear(&p->members);
	taut_vec_clear(&p->arrive);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = p->places[i] * p->team->n_pieces + piece;
		struct taut_member m = { .lane = p->lane[at],
			.after = p->last[at] };

		if (!taut_vec_push(&p->members, m))
			return no_memory(p->err);
	}
	if (!taut_vec_reserve(&p->arrive, n))
		return no_memory(p->err);
	status = taut_edit_add_collective(p->w->edit, c, p->members.data, n,
		&id, p->arrive.data, p->err);
	if (!status)
		status = tauti_set_way(p->w, id, way, p->err);
	for (uint32_t i = 0; !status && i < n; i++) {
		*slot_of(p, k, i, piece) = p->arrive.data[i];
		p->last[p->places[i] * p->team->n_pieces + piece] =
			taut_edit_next(p->w->edit, p->arrive.data[i]);
	}
	return status ? status : connect_kept(p);
}

static taut_status cut_bucket(struct piecer *p, uint32_t k, uint32_t b)
{
	const struct tauti_bucket *it = bucket_at(p, p->places[0], k, b);
	const struct tauti_engine_task *task = &p->team->tasks[b];
	struct tauti_way way = tauti_way_of(p->w, it->collective);
	struct taut_collective c;
	taut_status status = TAUT_OK;

	way.core_ns = p->schedule->piece_ns;
	taut_vec_clear(&p->kept);
	for (uint32_t i = 0; !status && i < p->team->n_ranks; i++)
		status = move_first(p, i, k, b);
	if (!status && task->n_pieces < 2 && way.core_ns > 0)
		return tauti_set_way(p->w, it->collective, &way, p->err);
	if (status || task->n_pieces < 2 ||
		!taut_edit_collective(p->w->edit, it->collective, &c))
		return status;
	c.seq = -1;
	for (uint32_t i = task->n_pieces; !status && i-- > 0;) {
		uint64_t bytes = tauti_piece_bytes(
			&p->schedule->options.sched, task->bytes, i);
		struct tauti_way part = tauti_piece_way(
			p->w, it->like, way, (double)bytes);

		c.bytes = (int64_t)bytes;
		if (i) {
			status = add_piece(
				p, k, task->first_piece + i, &c, &part);
			continue;
		}
		status = taut_edit_set_collective(
			p->w->edit, it->collective, &c, p->err);
		if (!status)
			status = tauti_set_way(
				p->w, it->collective, &part, p->err);
	}
	return status;
}

/* --- all ------------------------------------------------------------------------ */

static taut_status lay_team(struct piecer *p, uint32_t first,
	const int64_t *priorities)
{
	taut_status status = TAUT_OK;

	p->team = &p->schedule->teams[p->schedule->n_teams++];
	for (uint32_t i = first; i < p->ddp->n_ranks; i++)
		if (p->group[i] == first)
			p->places[p->team->n_ranks++] = i;
	if (!make_tasks(p, first, priorities))
		return no_memory(p->err);
	p->arrive_of = taut_arena_calloc(p->w->arena,
		(size_t)p->team->n_iterations * p->team->n_ranks *
		p->team->n_pieces + 1, sizeof *p->arrive_of);
	p->lane = taut_arena_calloc(p->w->arena, (size_t)p->ddp->n_ranks *
		p->team->n_pieces + 1, sizeof *p->lane);
	p->last = taut_arena_calloc(p->w->arena, (size_t)p->ddp->n_ranks *
		p->team->n_pieces + 1, sizeof *p->last);
	p->tail_lane = taut_arena_calloc(p->w->arena, (size_t)p->ddp->n_ranks *
		p->team->n_tasks + 1, sizeof *p->tail_lane);
	p->tail_last = taut_arena_calloc(p->w->arena, (size_t)p->ddp->n_ranks *
		p->team->n_tasks + 1, sizeof *p->tail_last);
	if (!p->arrive_of || !p->lane || !p->last || !p->tail_lane ||
		!p->tail_last)
		return no_memory(p->err);
	for (uint32_t i = 0; i < p->ddp->n_ranks * p->team->n_tasks; i++)
		p->tail_lane[i] = p->tail_last[i] = TAUT_NONE;
	p->team->arrive = p->arrive_of;
	for (uint32_t i = 0; !status && i < p->team->n_ranks; i++)
		status = make_lanes(p, p->places[i]);
	for (uint32_t k = 0; k < p->team->n_iterations; k++)
		for (uint32_t b = 0; !status && b < p->team->n_tasks; b++)
			status = cut_bucket(p, k, b);
	return status;
}

/* Each rank's buckets are there: two operations for each piece of one but its first. */
static taut_status check_size(const struct piecer *p, const char *change)
{
	double n = taut_edit_ops(p->w->edit), more = 0;

	for (size_t i = 0; i < p->ddp->buckets.count; i++) {
		int64_t bytes = p->ddp->buckets.data[i].bytes;

		if (bytes > 0)
			more += ceil((double)bytes / (double)tauti_piece_bytes(
				&p->schedule->options.sched, (uint64_t)bytes,
				0)) - 1;
	}
	return tauti_check_ops(change, n + 2 * more,
		floor((TAUTI_MOST_OPS - n) / 2), "pieces over all ranks and "
		"steps", p->err);
}

taut_status tauti_pieces_lay(struct tauti_whatif *w, const char *change,
	const struct tauti_ddp *ddp, const int64_t *priorities,
	const uint32_t *update, struct tauti_schedule *schedule,
	struct taut_error *err)
{
	struct piecer p = { .w = w, .ddp = ddp, .update = update,
		.schedule = schedule, .err = err };
	taut_status status = check_size(&p, change);

	if (status)
		return status;
	p.group = TAUT_ARENA_ARRAY(w->arena, uint32_t, ddp->n_ranks + 1);
	p.places = TAUT_ARENA_ARRAY(w->arena, uint32_t, ddp->n_ranks + 1);
	schedule->teams = TAUT_ARENA_ARRAY(
		w->arena, struct tauti_team, ddp->n_ranks + 1);
	if (!p.group || !p.places || !schedule->teams)
		return no_memory(err);
	find_groups(&p);
	status = check_buckets(&p);
	for (uint32_t i = 0; !status && i < ddp->n_ranks; i++)
		if (p.group[i] == i)
			status = lay_team(&p, i, priorities);
	taut_vec_free(&p.kept);
	taut_vec_free(&p.seen);
	taut_vec_free(&p.members);
	taut_vec_free(&p.arrive);
	return status;
}

/* engine.c - see engine.h. */
#include "engine.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

enum { ASK, OVER }; /* what a call is about: team * 2 + this */

enum { PIECE_TOLD = 1, PIECE_STARTED = 2 };

struct slot { /* a piece of a rank, in the iteration under way */
	uint64_t number;   /* of the piece, in the core's sequence */
	uint32_t arrive;
	uint8_t state;
};

struct member { /* a rank of a team */
	struct tauti_engine *engine;
	struct team *team;
	uint32_t index;     /* in the team */
	bool entered;       /* the round under way */
	bool gone;          /* what it says in that is with the others soon */
	uint64_t started_bytes, finished_bytes, n_queued; /* of pieces */
	uint64_t behind;    /* finished bytes with which that goes */
	uint32_t busy;      /* transfers under way */
	size_t next;        /* in queue: the first that has not begun */
	struct taut_sched *sched;
	struct slot *slots; /* by piece */
	uint32_t *told;     /* by task: pieces whose waits are over */
	TAUT_VEC(uint32_t) queue; /* pieces in the order of their starts */
};

struct team {
	const struct tauti_team *is;
	uint32_t number;    /* its own */
	uint32_t first_slot; /* of all arrivals of all teams */
	struct member *members;
	uint32_t *task_of;  /* by piece */
	uint64_t round, rounds;
	uint32_t n_entered, n_gone;
	TAUT_VEC(uint64_t) words, agreed;
};

struct tauti_engine {
	const struct taut_graph *graph;
	struct tauti_engine_options options;
	struct taut_dispatcher dispatcher;
	struct taut_dispatch *dispatch; /* within a callback */
	int64_t now_ns;
	struct team *teams;
	uint32_t n_teams;
	uint8_t *ops;
	uint32_t *slot_of;  /* by op: of its arrival or transfer; TAUT_NONE */
	uint32_t *order;    /* by op of an arrival: begun before it */
	uint32_t n_begun;
	uint64_t done;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory for a scheduler's engine");
}

/* --- pieces -------------------------------------------------------------------------*/

static uint64_t whole_piece(const struct taut_sched_options *options)
{
	uint64_t align = options->align_bytes ? options->align_bytes : 64;
	uint64_t bytes = options->piece_bytes / align * align;
	return bytes ? bytes : align;
}

uint32_t tauti_piece_count(
	const struct taut_sched_options *options, uint64_t task_bytes)
{
	uint64_t each = whole_piece(options);
	return options->piece_bytes ?
		(uint32_t)((task_bytes + each - 1) / each) : 1;
}

uint64_t tauti_piece_bytes(const struct taut_sched_options *options,
	uint64_t task_bytes, uint32_t i)
{
	uint64_t each = whole_piece(options), left = task_bytes - i * each;
	if (!options->piece_bytes)
		return task_bytes;
	return left < each ? left : each;
}

/* --- where an op is -----------------------------------------------------------------*/

struct place {
	struct member *member;
	uint32_t piece;
};

static struct place place_of(struct tauti_engine *e, uint32_t op)
{
	uint32_t slot = e->slot_of[op], i = 0;
	while (i + 1 < e->n_teams && e->teams[i + 1].first_slot <= slot)
		i++;
	struct team *team = &e->teams[i];
	uint32_t at = slot - team->first_slot, n = team->is->n_pieces;
	return (struct place){
		&team->members[at / n % team->is->n_ranks], at % n
	};
}

static uint64_t bytes_of(struct place at)
{
	const struct tauti_team *team = at.member->team->is;
	const struct tauti_engine_task *task =
		&team->tasks[at.member->team->task_of[at.piece]];
	return tauti_piece_bytes(&at.member->engine->options.sched, task->bytes,
		at.piece - task->first_piece);
}

/* --- what begins -------------------------------------------------------------------------*/

/* In the order of starts, as many at a time as there are lanes. */
static taut_status begin_some(struct member *m, struct taut_error *err)
{
	struct tauti_engine *e = m->engine;
	taut_status status = TAUT_OK;
	while (!status && m->next < m->queue.count &&
			(!e->options.lanes || m->busy < e->options.lanes)) {
		struct slot *slot = &m->slots[m->queue.data[m->next]];
		if (!(slot->state & PIECE_TOLD))
			break;
		m->next++;
		m->busy++;
		slot->state = 0;
		e->order[slot->arrive] = e->n_begun++;
		status = taut_dispatch_release(e->dispatch, slot->arrive, err);
	}
	if (m->next == m->queue.count) {
		m->next = 0;
		taut_vec_clear(&m->queue);
	}
	return status;
}

static taut_status note_start(struct member *m,
	const struct taut_sched_piece *piece, struct taut_error *err)
{
	const struct tauti_team *team = m->team->is;
	const struct taut_sched_options *options = &m->engine->options.sched;
	const struct tauti_engine_task *task = &team->tasks[piece->task];
	uint32_t i = options->piece_bytes ?
		(uint32_t)(piece->first_byte / whole_piece(options)) : 0;
	if (piece->iteration > team->n_iterations || i >= task->n_pieces ||
			piece->bytes != tauti_piece_bytes(
			options, task->bytes, i))
		return taut_error_set(err, TAUT_EMATCH, -1, "task %u, "
			"iteration %u: the graph has no piece of %llu bytes "
			"at %llu", (unsigned)piece->task,
			(unsigned)piece->iteration,
			(unsigned long long)piece->bytes,
			(unsigned long long)piece->first_byte);
	m->started_bytes += piece->bytes;
	m->n_queued++;
	i += task->first_piece;
	m->slots[i].number = piece->number;
	m->slots[i].arrive = team->arrive[((size_t)(piece->iteration - 1) *
		team->n_ranks + m->index) * team->n_pieces + i];
	return taut_vec_push(&m->queue, i) ? TAUT_OK : no_memory(err);
}

static taut_status start(void *context, const struct taut_sched_piece *pieces,
	size_t n, struct taut_error *err)
{
	struct member *m = context;
	taut_status status = TAUT_OK;
	for (size_t i = 0; !status && i < n; i++)
		status = note_start(m, &pieces[i], err);
	return status ? status : begin_some(m, err);
}

/* --- rounds --------------------------------------------------------------------------------*/

static taut_status call_later(struct team *team, int about,
	struct taut_error *err)
{
	struct tauti_engine *e = team->members->engine;
	int64_t messages = team->is->n_ranks > 1;
	return taut_dispatch_call(e->dispatch,
		e->now_ns + messages * e->options.message_ns,
		team->number * 2 + (uint64_t)about, err);
}

/* To the nearest piece: bytes count when all of theirs has ended. */
static uint64_t queued_before(const struct member *m)
{
	uint64_t queued = m->started_bytes - m->finished_bytes, before;

	if (!m->engine->options.steps || !m->n_queued)
		return 0;
	before = queued / m->engine->options.steps;
	queued /= 2 * m->n_queued;
	return before > queued ? before - queued : 0;
}

/* What a rank says in a round leaves it behind what is queued of its pieces. */
static taut_status say(struct member *m, struct taut_error *err)
{
	struct team *team = m->team;
	taut_status status = TAUT_OK;
	if (!m->entered || m->gone || m->finished_bytes < m->behind)
		return TAUT_OK;
	m->gone = true;
	if (++team->n_gone == 1 && team->n_entered < team->is->n_ranks)
		status = call_later(team, ASK, err);
	return !status && team->n_gone == team->is->n_ranks ?
		call_later(team, OVER, err) : status;
}

static taut_status agree(void *context, uint64_t round, const uint64_t *words,
	size_t n, struct taut_error *err)
{
	struct member *m = context;
	struct team *team = m->team;
	if (!team->n_entered) {
		team->round = round;
		taut_vec_clear(&team->words);
		for (size_t i = 0; i < n; i++) {
			if (!taut_vec_push(&team->words, words[i]))
				return no_memory(err);
		}
	}
	if (m->entered || round != team->round || n != team->words.count)
		return taut_error_set(err, TAUT_EMATCH, -1, "rank %u entered "
			"round %llu with %zu words, expected %zu of round "
			"%llu", (unsigned)m->index, (unsigned long long)round,
			n, team->words.count, (unsigned long long)team->round);
	for (size_t i = 0; i < n; i++)
		team->words.data[i] &= words[i];
	m->entered = true;
	m->behind = m->finished_bytes + queued_before(m);
	team->n_entered++;
	return say(m, err);
}

/* Those that have not entered the round under way hear of it. */
static taut_status ask(struct team *team, struct taut_error *err)
{
	uint64_t round = team->round;
	taut_status status = TAUT_OK;
	for (uint32_t i = 0; !status && i < team->is->n_ranks; i++) {
		struct member *m = &team->members[i];
		if (team->n_entered && team->round == round && !m->entered)
			status = taut_sched_asked(m->sched, round, err);
	}
	return status;
}

/* Ranks may enter the next round while they are told. */
static taut_status end_round(struct team *team, struct taut_error *err)
{
	uint64_t round = team->round;
	size_t n = team->words.count;
	taut_status status = TAUT_OK;
	taut_vec_clear(&team->agreed);
	for (size_t i = 0; i < n; i++) {
		if (!taut_vec_push(&team->agreed, team->words.data[i]))
			return no_memory(err);
	}
	team->rounds++;
	team->n_entered = team->n_gone = 0;
	for (uint32_t i = 0; i < team->is->n_ranks; i++)
		team->members[i].entered = team->members[i].gone = false;
	for (uint32_t i = 0; !status && i < team->is->n_ranks; i++)
		status = taut_sched_agreed(team->members[i].sched, round,
			team->agreed.data, n, err);
	return status;
}

static void done(void *context, uint32_t task, uint32_t iteration,
	taut_status status)
{
	struct member *m = context;
	(void)task;
	(void)iteration;
	m->engine->done += status == TAUT_OK;
}

/* --- what the replay tells ---------------------------------------------------------------------*/

static taut_status ready(void *context, struct taut_dispatch *dispatch,
	uint32_t op, int64_t now_ns, struct taut_error *err)
{
	struct tauti_engine *e = context;
	struct place at = place_of(e, op);
	struct team *team = at.member->team;
	uint32_t t = team->task_of[at.piece];
	const struct tauti_engine_task *task = &team->is->tasks[t];
	taut_status status = TAUT_OK;
	e->dispatch = dispatch;
	e->now_ns = now_ns;
	at.member->slots[at.piece].state |= PIECE_TOLD;
	if (++at.member->told[t] == task->n_pieces) {
		at.member->told[t] = 0;
		if (task->after == TAUT_NONE)
			status = taut_sched_ready(at.member->sched, t, err);
	}
	return status ? status : begin_some(at.member, err);
}

static taut_status ended(void *context, struct taut_dispatch *dispatch,
	uint32_t op, int64_t now_ns, struct taut_error *err)
{
	struct tauti_engine *e = context;
	struct place at = place_of(e, op);
	e->dispatch = dispatch;
	e->now_ns = now_ns;
	at.member->busy--;
	at.member->finished_bytes += bytes_of(at);
	at.member->n_queued--;
	taut_status status = begin_some(at.member, err);
	if (!status)
		status = say(at.member, err);
	return status ? status : taut_sched_finished(at.member->sched,
		at.member->slots[at.piece].number, err);
}

static taut_status called(void *context, struct taut_dispatch *dispatch,
	uint64_t what, int64_t now_ns, struct taut_error *err)
{
	struct tauti_engine *e = context;
	struct team *team = &e->teams[what / 2];
	e->dispatch = dispatch;
	e->now_ns = now_ns;
	return what % 2 == ASK ? ask(team, err) : end_round(team, err);
}

/* --- begin and end ---------------------------------------------------------------------------------*/

static taut_status make_sched(struct member *m, struct taut_error *err)
{
	static const struct taut_sched_engine engine = { start, agree, done };
	const struct tauti_team *team = m->team->is;
	struct taut_sched_options options = m->engine->options.sched;
	options.n_ranks = team->n_ranks;
	taut_status status = taut_sched_create(
		&options, &engine, m, &m->sched, err);
	for (uint32_t t = 0; !status && t < team->n_tasks; t++) {
		uint32_t number;
		status = taut_sched_declare(m->sched, team->tasks[t].bytes,
			team->tasks[t].priority, team->tasks[t].after, &number,
			err);
	}
	return status;
}

static taut_status make_member(struct team *team, uint32_t index,
	struct tauti_engine *e, struct taut_error *err)
{
	struct member *m = &team->members[index];
	m->engine = e;
	m->team = team;
	m->index = index;
	m->slots = calloc((size_t)team->is->n_pieces + 1, sizeof *m->slots);
	m->told = calloc((size_t)team->is->n_tasks + 1, sizeof *m->told);
	return m->slots && m->told ? make_sched(m, err) : no_memory(err);
}

static taut_status make_team(struct tauti_engine *e, uint32_t number,
	const struct tauti_team *is, struct taut_error *err)
{
	struct team *team = &e->teams[number];
	taut_status status = TAUT_OK;
	team->is = is;
	team->number = number;
	team->members = calloc((size_t)is->n_ranks + 1, sizeof *team->members);
	team->task_of = calloc((size_t)is->n_pieces + 1, sizeof *team->task_of);
	if (!team->members || !team->task_of)
		return no_memory(err);
	for (uint32_t t = 0; t < is->n_tasks; t++) {
		for (uint32_t i = 0; i < is->tasks[t].n_pieces; i++)
			team->task_of[is->tasks[t].first_piece + i] = t;
	}
	for (uint32_t i = 0; !status && i < is->n_ranks; i++)
		status = make_member(team, i, e, err);
	return status;
}

static taut_status place_ops(struct tauti_engine *e, struct taut_error *err)
{
	uint32_t slot = 0;
	for (uint32_t t = 0; t < e->n_teams; t++) {
		const struct tauti_team *is = e->teams[t].is;
		size_t n = (size_t)is->n_iterations * is->n_ranks *
			is->n_pieces;
		e->teams[t].first_slot = slot;
		for (size_t i = 0; i < n; i++, slot++) {
			uint32_t op = is->arrive[i];
			if (op >= e->graph->n_ops - 1 ||
					e->graph->lane[op] !=
					e->graph->lane[op + 1])
				return taut_error_set(err, TAUT_EINVAL, -1,
					"operation %u arrives at nothing",
					(unsigned)op);
			e->ops[op] = TAUT_HELD;
			e->ops[op + 1] = TAUT_TELL_END;
			e->slot_of[op] = e->slot_of[op + 1] = slot;
		}
	}
	return TAUT_OK;
}

taut_status tauti_engine_create(const struct taut_graph *graph,
	const struct tauti_team *teams, uint32_t n_teams,
	const struct tauti_engine_options *options,
	struct tauti_engine **ret_engine, struct taut_error *err)
{
	struct tauti_engine *e = calloc(1, sizeof *e);
	taut_status status = TAUT_OK;
	if (!e)
		return no_memory(err);
	e->graph = graph;
	e->options = *options;
	e->ops = calloc((size_t)graph->n_ops + 1, 1);
	e->slot_of = calloc((size_t)graph->n_ops + 1, sizeof *e->slot_of);
	e->order = calloc((size_t)graph->n_ops + 1, sizeof *e->order);
	e->teams = calloc((size_t)n_teams + 1, sizeof *e->teams);
	e->dispatcher = (struct taut_dispatcher){
		e->ops, e, ready, ended, called
	};
	if (!e->ops || !e->slot_of || !e->order || !e->teams)
		status = no_memory(err);
	for (uint32_t t = 0; !status && t < n_teams; t++) {
		e->n_teams++;
		status = make_team(e, t, &teams[t], err);
	}
	if (!status)
		status = place_ops(e, err);
	if (status)
		tauti_engine_destroy(e);
	else
		*ret_engine = e;
	return status;
}

void tauti_engine_destroy(struct tauti_engine *e)
{
	for (uint32_t t = 0; e && t < e->n_teams; t++) {
		struct team *team = &e->teams[t];
		for (uint32_t i = 0; team->members && i < team->is->n_ranks;
				i++) {
			struct member *m = &team->members[i];
			taut_sched_destroy(m->sched);
			taut_vec_free(&m->queue);
			free(m->slots);
			free(m->told);
		}
		taut_vec_free(&team->words);
		taut_vec_free(&team->agreed);
		free(team->members);
		free(team->task_of);
	}
	if (!e)
		return;
	free(e->teams);
	free(e->ops);
	free(e->slot_of);
	free(e->order);
	free(e);
}

const struct taut_dispatcher *tauti_engine_dispatcher(
	const struct tauti_engine *e)
{
	return &e->dispatcher;
}

const uint32_t *tauti_engine_order(const struct tauti_engine *e)
{
	return e->order;
}

struct tauti_engine_counts tauti_engine_count(const struct tauti_engine *e)
{
	struct tauti_engine_counts counts = { .done = e->done };
	for (uint32_t t = 0; t < e->n_teams; t++) {
		const struct team *team = &e->teams[t];
		counts.rounds += team->rounds;
		for (uint32_t i = 0; i < team->is->n_ranks; i++) {
			struct taut_sched_counts of;
			taut_sched_counts(team->members[i].sched, &of);
			counts.pieces += of.pieces;
			counts.overtaken += of.overtaken;
		}
	}
	return counts;
}

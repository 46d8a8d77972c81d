/* many.c - the steps of many stacks of changes: what only the recording says is
 * found once, and an edit serves several. */
#include <stdlib.h>
#include <string.h>

#include "whatif/predict.h"

enum { IN_TURN = 8 }; /* stacks that one edit is used for: its arena grows */

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory for predictions");
}

/* An edit for some stacks; their steps alone are wanted. */
static taut_status begin_turn(struct tauti_predictor *p,
	const struct tauti_prepared *ready, struct taut_error *err)
{
	taut_status status = tauti_predictor_init(p, ready->graph, ready->job,
		ready->costs, &ready->recorder, NULL, TAUTI_MOST_CHANGES, err);

	p->no_graph = true;
	return status;
}

static taut_status run_stack(struct tauti_predictor *p,
	const struct tauti_change *changes, size_t n,
	struct tauti_outcome *ret_outcome, struct taut_error *err)
{
	static const struct tauti_scenario as_believed = { TAUTI_DOUBT_NONE, 0,
		0 };

	p->changes = changes;
	p->n_changes = n;
	return tauti_scenario_run(p, &as_believed, ret_outcome, err);
}

/* --- all known beforehand ---------------------------------------------------------- */

struct many {
	struct tauti_prepared ready;
	const struct taut_stack *stacks;
	struct tauti_change **changes; /* by stack */
	size_t n;
	int64_t *after_ns;
	struct taut_arena *arena;
	struct taut_error *err;
};

static taut_status read_stacks(struct many *m)
{
	taut_status status = TAUT_OK;

	m->changes = taut_arena_calloc(
		m->arena, m->n + 1, sizeof *m->changes);
	if (!m->changes)
		return no_memory(m->err);
	for (size_t i = 0; !status && i < m->n; i++)
		status = tauti_changes_read(m->stacks[i].changes,
			m->stacks[i].n, m->arena, &m->changes[i], m->err);
	return status;
}

/* The next few, with one edit. */
static taut_status run_some(void *context, size_t some, struct taut_error *err)
{
	struct many *m = context;
	size_t first = some * IN_TURN;
	size_t end = first + IN_TURN < m->n ? first + IN_TURN : m->n;
	struct tauti_predictor p;
	taut_status status = begin_turn(&p, &m->ready, err);

	if (status)
		return status;
	for (size_t i = first; !status && i < end; i++) {
		struct tauti_outcome outcome;

		status = run_stack(&p, m->changes[i], m->stacks[i].n, &outcome,
			err);
		if (status)
			break;
		m->after_ns[i] = outcome.step_ns;
		tauti_outcome_fini(&outcome);
	}
	tauti_predictor_fini(&p);
	return status;
}

static taut_status find_steps(struct many *m, unsigned threads,
	int64_t *ret_before_ns, int64_t *ret_after_ns)
{
	taut_status status = read_stacks(m);

	m->after_ns = taut_arena_calloc(m->arena, m->n + 1, sizeof *m->after_ns);
	if (!status && !m->after_ns)
		status = no_memory(m->err);
	if (!status)
		status = taut_parallel_for((m->n + IN_TURN - 1) / IN_TURN,
			threads, run_some, m, m->err);
	if (status)
		return status;
	*ret_before_ns = m->ready.before_ns;
	memcpy(ret_after_ns, m->after_ns, m->n * sizeof *ret_after_ns);
	return TAUT_OK;
}

taut_status taut_predict_steps(const struct taut_graph *graph,
	const struct taut_stack *stacks, size_t n_stacks,
	const struct taut_whatif_options *options, int64_t *ret_before_ns,
	int64_t *ret_after_ns, struct taut_error *reterr)
{
	struct many m = { .stacks = stacks, .n = n_stacks,
		.arena = taut_arena_create(), .err = reterr };
	taut_status status = m.arena ?
		tauti_prepared_init(&m.ready, graph, reterr) :
		no_memory(reterr);

	if (!status) {
		status = find_steps(&m, options ? options->threads : 0,
			ret_before_ns, ret_after_ns);
		tauti_prepared_fini(&m.ready);
	}
	taut_arena_destroy(m.arena);
	return status;
}

/* --- one after the other -------------------------------------------------------------- */

struct taut_predictor {
	struct tauti_prepared ready;
	struct tauti_predictor turn;
	uint32_t n_turn;      /* stacks that it has run; 0: there is none */
	uint32_t steps;       /* of a rank */
};

taut_status taut_predictor_create(const struct taut_graph *graph,
	struct taut_predictor **ret_predictor, struct taut_error *reterr)
{
	struct taut_predictor *p = calloc(1, sizeof *p);
	taut_status status = p ? tauti_prepared_init(
		&p->ready, graph, reterr) : no_memory(reterr);

	if (status) {
		free(p);
		return status;
	}
	p->steps = graph->n_steps;
	if (graph->run->n_traces)
		p->steps /= (uint32_t)graph->run->n_traces;
	*ret_predictor = p;
	return TAUT_OK;
}

static void end_turn(struct taut_predictor *p)
{
	if (p->n_turn)
		tauti_predictor_fini(&p->turn);
	p->n_turn = 0;
}

void taut_predictor_destroy(struct taut_predictor *p)
{
	if (!p)
		return;
	end_turn(p);
	tauti_prepared_fini(&p->ready);
	free(p);
}

/* Of the outcome, which the edit still holds. */
static taut_status find_memory(struct taut_predictor *p,
	const struct tauti_outcome *outcome, struct taut_arena *arena,
	int64_t *ret_bytes, struct taut_error *err)
{
	struct taut_prediction told = { .memory_after = -1 };
	taut_status status = tauti_memory_predict(
		&p->turn, outcome, arena, &told, err);

	*ret_bytes = told.memory_after;
	return status;
}

static taut_status predict(struct taut_predictor *p,
	const struct tauti_change *changes, size_t n, struct taut_arena *arena,
	struct taut_predicted *ret, struct taut_error *err)
{
	struct tauti_outcome outcome;
	struct taut_predicted told = { .memory_bytes = -1 };
	taut_status status = run_stack(&p->turn, changes, n, &outcome, err);

	if (status)
		return status;
	told.step_ns = outcome.step_ns;
	told.network_bytes = outcome.moved_bytes < 0 || !p->steps ? -1 :
		(int64_t)(outcome.moved_bytes / p->steps + 0.5);
	status = find_memory(p, &outcome, arena, &told.memory_bytes, err);
	tauti_outcome_fini(&outcome);
	if (!status)
		*ret = told;
	return status;
}

taut_status taut_predictor_predict(struct taut_predictor *p,
	const char *const *changes, size_t n_changes,
	struct taut_predicted *ret_predicted, struct taut_error *reterr)
{
	struct taut_arena *arena = taut_arena_create();
	struct tauti_change *read;
	taut_status status = arena ? tauti_changes_read(changes, n_changes,
		arena, &read, reterr) : no_memory(reterr);

	if (!status && p->n_turn == IN_TURN)
		end_turn(p);
	if (!status && !p->n_turn) {
		status = begin_turn(&p->turn, &p->ready, reterr);
		p->n_turn = !status;
		if (!status)
			status = tauti_predictor_remember(
				&p->turn, &p->ready, reterr);
		if (status)
			end_turn(p);
	} else if (!status) {
		p->n_turn++;
	}
	if (!status)
		status = predict(
			p, read, n_changes, arena, ret_predicted, reterr);
	taut_arena_destroy(arena);
	return status;
}

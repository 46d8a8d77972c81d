/* planned.c - the search of a recording's plan, from its graph to what is told. */
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "plan/plan.h"
#include "plan/search.h"
#include "plan/stacks.h"

static const double usual_budget_s = 30;
/* A decision that gives less than this share of a step is left out: it is within
 * what replays can tell, and one thing more to go wrong. */
static const double least_gain = 0.002;
static const double least_of_bits = 0.01; /* of 8 bits a number over 16 */

struct owned { /* what taut_planned_destroy() frees */
	struct taut_planned planned;
	struct taut_plan plan;
	struct taut_arena *arena;
};

struct work {
	const struct taut_graph *graph;
	const struct taut_plan_options *options;
	struct owned *out;
	struct tauti_stacks *stacks;
	struct tauti_search *search;
	struct tauti_stack best;
	int64_t best_ns, start_ns; /* start: with nothing decided */
	bool is_stopped; /* by options->see: what was found is left as it is */
	struct taut_error *err;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for a plan");
}

/* --- the search ----------------------------------------------------------------------- */

/* 0: none yet, or none that may be. */
static int64_t step_of(const struct tauti_found *found)
{
	return found && found->cost.step_ns != TAUTI_NEVER ?
		found->cost.step_ns : 0;
}

static bool see(void *context, const struct tauti_search *search)
{
	struct work *k = context;
	const struct tauti_found *best = tauti_search_best(search);
	const struct tauti_found *start = tauti_search_start(search);
	struct taut_plan_progress p = {
		.before_ns = step_of(start),
		.best_ns = step_of(best),
		.n_predicted = tauti_stacks_replayed(k->stacks),
		.seconds = tauti_search_seconds(search),
	};

	if (!k->is_stopped && k->options->see)
		k->is_stopped = k->options->see(k->options->context, &p) != 0;
	return k->is_stopped;
}

/* Of what is looked at behind the search. */
static taut_status cost_of(struct work *k, const struct tauti_stack *stack,
	struct tauti_cost *ret_cost)
{
	taut_status status = tauti_stacks_cost(
		k->stacks, stack, ret_cost, k->err);

	see(k, k->search);
	return status;
}

static taut_status try_state(struct work *k, const uint8_t *options)
{
	struct tauti_cost cost;
	taut_status status = tauti_search_go(k->search, options, k->err);

	return status ? status : tauti_search_cost(k->search, &cost, k->err);
}

/* A search that its budget ends early has at least these: what is best alone, which was
 * replayed before, and a few together. Strategies begin with the job as it is. */
static taut_status try_seeds(struct work *k)
{
	uint32_t n = tauti_stacks_space(k->stacks)->n_sites;
	uint8_t *options = taut_arena_calloc(k->out->arena, n, 1);
	taut_status status = options ? TAUT_OK : no_memory(k->err);

	for (uint32_t i = 0; !status && i < n; i++)
		if (tauti_stacks_best_alone(k->stacks, i, options))
			status = try_state(k, options);
	for (uint32_t i = 0; !status && tauti_stacks_seed(k->stacks, i, options); i++)
		status = try_state(k, options);
	if (status && status != TAUT_EAGAIN)
		return status;
	memset(options, 0, n);
	return tauti_search_go(k->search, options, k->err);
}

static taut_status search(struct work *k)
{
	const struct taut_plan_options *o = k->options;
	const struct tauti_search_options how = { .began_ns = tauti_now_ns(),
		.seed = o->seed, .see = see, .context = k };
	taut_status status = tauti_stacks_create(
		k->graph, o, &k->stacks, k->err);

	if (!status)
		status = tauti_search_create(tauti_stacks_space(k->stacks),
			&how, &k->search, k->err);
	k->is_stopped = !status && tauti_stacks_is_stopped(k->stacks);
	if (!status && !k->is_stopped)
		status = try_seeds(k);
	if (status || k->is_stopped)
		return status;
	tauti_search_limit(k->search, o->budget_s > 0 ? o->budget_s : usual_budget_s);
	return tauti_search_run(k->search, o->strategy ? o->strategy : "joint", k->err);
}

/* --- what is worth deciding ------------------------------------------------------------ */

/* The stack without one of its changes, and without what goes with it. */
static void without(const struct tauti_stack *from, size_t given, size_t which,
	struct tauti_stack *ret)
{
	struct tauti_stack to = { .n = 0 };

	for (size_t i = 0; i < from->n; i++)
		if (i < given || (i != which && !tauti_plan_goes_with(
			from->changes[i], from->changes[which])))
			to.changes[to.n++] = from->changes[i];
	*ret = to;
}

/* A bucket beside Taut's exchange is a part of it. */
static bool stands_alone(const struct tauti_stack *stack, size_t which)
{
	const char *change = stack->changes[which];
	bool ours = false;

	for (size_t i = 0; i < stack->n; i++)
		ours |= tauti_plan_is_named(stack->changes[i], "schedule");
	return !tauti_plan_is_named(change, "algorithm") &&
		(!tauti_plan_is_named(change, "bucket") || !ours);
}

/* Takes the decision with the least gain out, if that is next to nothing, and what
 * stays is no slower than no change at all. */
static taut_status prune_one(struct work *k, bool *ret_pruned)
{
	size_t given = tauti_stacks_given(k->stacks);
	struct tauti_stack least = { .n = 0 };
	int64_t least_ns = TAUTI_NEVER;
	taut_status status = TAUT_OK;

	for (size_t i = given; !status && !k->is_stopped && i < k->best.n; i++) {
		struct tauti_stack shorter;
		struct tauti_cost c;

		if (!stands_alone(&k->best, i))
			continue;
		without(&k->best, given, i, &shorter);
		status = cost_of(k, &shorter, &c);
		if (!status && c.step_ns < least_ns) {
			least = shorter;
			least_ns = c.step_ns;
		}
	}
	*ret_pruned = !status && least_ns != TAUTI_NEVER &&
		least_ns <= k->start_ns && (double)(least_ns - k->best_ns) <
		least_gain * (double)k->best_ns;
	if (*ret_pruned) {
		k->best = least;
		k->best_ns = least_ns < k->best_ns ? least_ns : k->best_ns;
	}
	return status;
}

/* Takes these options where they are no longer by that share; else they become what they
 * were. */
static taut_status take_within(struct work *k, double share, uint8_t *options,
	const uint8_t *were, uint32_t n)
{
	struct tauti_stack stack;
	struct tauti_cost c;
	taut_status status = tauti_stacks_at(k->stacks, options, &stack, k->err);

	if (!status)
		status = cost_of(k, &stack, &c);
	if (status || c.step_ns == TAUTI_NEVER ||
		(double)(c.step_ns - k->best_ns) >=
		share * (double)k->best_ns) {
		memcpy(options, were, n);
		return status;
	}
	k->best = stack;
	k->best_ns = c.step_ns;
	return TAUT_OK;
}

/* 16 bits where 8 give little. */
static taut_status take_milder(struct work *k, uint8_t *options, uint8_t *were, uint32_t n)
{
	taut_status status = TAUT_OK;

	memcpy(were, options, n);
	for (uint8_t i = 0; !status && tauti_stacks_milder(k->stacks, i, options); i++)
		status = take_within(k, least_of_bits, options, were, n);
	return status;
}

/* Usual pieces where others give next to nothing, and a size of buckets again where a
 * list of them does. */
static taut_status take_simple(struct work *k, const struct tauti_found *found)
{
	uint32_t n = tauti_stacks_space(k->stacks)->n_sites;
	uint8_t *options = taut_arena_calloc(k->out->arena, n, 1);
	uint8_t *were = taut_arena_calloc(k->out->arena, n, 1);
	taut_status status = TAUT_OK;

	if (!options || !were)
		return no_memory(k->err);
	memcpy(options, found->options, n);
	memcpy(were, options, n);
	if (tauti_stacks_usual(k->stacks, options))
		status = take_within(k, least_gain, options, were, n);
	memcpy(were, options, n);
	tauti_stacks_plain(k->stacks, options);
	if (!status)
		status = take_within(k, least_gain, options, were, n);
	return status ? status : take_milder(k, options, were, n);
}

static taut_status take_best(struct work *k)
{
	const struct tauti_found *found = tauti_search_best(k->search);
	bool pruned = true;
	taut_status status;

	if (found->cost.step_ns == TAUTI_NEVER)
		return taut_error_set(k->err, TAUT_EINVAL, -1, "no plan that "
			"was tried keeps a rank's memory below what is given");
	status = tauti_stacks_at(
		k->stacks, found->options, &k->best, k->err);
	k->best_ns = found->cost.step_ns;
	if (!status && !k->is_stopped)
		status = take_simple(k, found);
	k->start_ns = tauti_search_start(k->search)->cost.step_ns;
	while (!status && pruned && !k->is_stopped)
		status = prune_one(k, &pruned);
	return status;
}

/* --- the plan --------------------------------------------------------------------------- */

static char *keep_text(struct work *k, const char *text)
{
	return taut_arena_strndup(k->out->arena, text, strlen(text));
}

static taut_status decide(struct work *k, size_t i,
	struct taut_decision *decision)
{
	const char *change = k->best.changes[i];
	const struct taut_plan_kind *kind;
	struct tauti_stack shorter;
	struct tauti_cost c;
	char name[32];
	taut_status status = TAUT_OK;

	tauti_plan_change_name(change, name, sizeof name);
	kind = tauti_plan_kind_of(name);
	*decision = (struct taut_decision){ keep_text(k, change),
		tauti_plan_numerics(kind, k->out->plan.job.n_ranks), -1 };
	if (!decision->change)
		return no_memory(k->err);
	if (!stands_alone(&k->best, i) || k->is_stopped)
		return TAUT_OK;
	without(&k->best, tauti_stacks_given(k->stacks), i, &shorter);
	status = cost_of(k, &shorter, &c);
	if (!status && c.step_ns != TAUTI_NEVER)
		decision->without_ns = c.step_ns;
	return status;
}

static taut_status decide_all(struct work *k)
{
	size_t given = tauti_stacks_given(k->stacks);
	struct taut_decision *all = TAUT_ARENA_ARRAY(
		k->out->arena, struct taut_decision, k->best.n + 1);
	taut_status status = all ? TAUT_OK : no_memory(k->err);

	for (size_t i = given; !status && i < k->best.n; i++)
		status = decide(k, i, &all[i - given]);
	k->out->plan.decisions = all;
	k->out->plan.n_decisions = (uint32_t)(k->best.n - given);
	return status;
}

/* The interval, and memory, as whatif tells them of this stack. */
static taut_status predict(struct work *k)
{
	const struct taut_whatif_options options = {
		.threads = k->options->threads, .no_graph = 1 };
	struct taut_plan *plan = &k->out->plan;
	struct taut_prediction *p;
	taut_status status = taut_predict(k->graph, k->best.changes, k->best.n,
		&options, &p, k->err);

	if (status)
		return status;
	plan->after_ns = p->after_ns;
	plan->low_ns = p->low_ns;
	plan->high_ns = p->high_ns;
	plan->memory_after = p->memory_after;
	taut_prediction_destroy(p);
	return TAUT_OK;
}

/* The job as it is may need more memory than a plan may have. */
static taut_status predict_before(struct work *k, const struct tauti_stack *start)
{
	const struct taut_whatif_options options = {
		.threads = k->options->threads, .no_graph = 1 };
	struct taut_prediction *p;
	taut_status status = taut_predict(k->graph, start->changes, start->n,
		&options, &p, k->err);

	if (status)
		return status;
	k->out->plan.before_ns = p->after_ns;
	taut_prediction_destroy(p);
	return TAUT_OK;
}

static taut_status compare(struct work *k)
{
	struct taut_plan *plan = &k->out->plan;
	struct tauti_stack start = { .n = tauti_stacks_given(k->stacks) };
	struct tauti_cost before, after;
	taut_status status;

	memcpy(start.changes, k->best.changes,
		start.n * sizeof *start.changes);
	status = tauti_stacks_cost(k->stacks, &start, &before, k->err);
	if (!status)
		status = tauti_stacks_cost(
			k->stacks, &k->best, &after, k->err);
	if (status)
		return status;
	plan->before_ns = before.step_ns;
	plan->memory_before = before.memory_bytes;
	plan->network_before = before.network_bytes;
	plan->network_after = after.network_bytes;
	return before.step_ns == TAUTI_NEVER ?
		predict_before(k, &start) : TAUT_OK;
}

static taut_status make_plan(struct work *k)
{
	struct taut_plan *plan = &k->out->plan;
	struct taut_plan_job job = *tauti_stacks_job(k->stacks);
	int64_t *bytes = TAUT_ARENA_ARRAY(
		k->out->arena, int64_t, (size_t)job.n_gradients + 1);
	taut_status status;

	if (!bytes)
		return no_memory(k->err);
	if (job.n_gradients)
		memcpy(bytes, job.gradient_bytes,
			job.n_gradients * sizeof *bytes);
	job.gradient_bytes = bytes;
	plan->job = job;
	plan->allow = k->options->allow;
	status = decide_all(k);
	if (!status)
		status = predict(k);
	return status ? status : compare(k);
}

/* --- what else was seen ------------------------------------------------------------------ */

static taut_status keep_point(struct work *k, const struct tauti_found *found,
	struct taut_plan_point *to)
{
	struct tauti_stack stack;
	size_t given = tauti_stacks_given(k->stacks);
	const char **changes;
	taut_status status = tauti_stacks_at(
		k->stacks, found->options, &stack, k->err);

	if (status)
		return status;
	changes = taut_arena_calloc(
		k->out->arena, stack.n + 1, sizeof *changes);
	for (size_t i = given; changes && i < stack.n; i++) {
		changes[i - given] = keep_text(k, stack.changes[i]);
		if (!changes[i - given])
			return no_memory(k->err);
	}
	*to = (struct taut_plan_point){ (uint32_t)(stack.n - given), changes,
		found->cost.step_ns, found->cost.memory_bytes,
		found->cost.network_bytes };
	return changes ? TAUT_OK : no_memory(k->err);
}

static taut_status keep_frontier(struct work *k)
{
	uint32_t n;
	const struct tauti_found *all = tauti_search_frontier(k->search, &n);
	struct taut_plan_point *points = TAUT_ARENA_ARRAY(
		k->out->arena, struct taut_plan_point, (size_t)n + 1);
	taut_status status = points ? TAUT_OK : no_memory(k->err);

	for (uint32_t i = 0; !status && i < n; i++)
		status = keep_point(k, &all[i], &points[i]);
	k->out->planned.points = points;
	k->out->planned.n_points = n;
	return status;
}

static taut_status keep_passes(struct work *k)
{
	const struct tauti_space *space = tauti_stacks_space(k->stacks);
	struct taut_plan_pass *passes = TAUT_ARENA_ARRAY(k->out->arena,
		struct taut_plan_pass, (size_t)space->n_sites + 1);
	uint32_t n = 0;

	if (!passes)
		return no_memory(k->err);
	for (uint32_t i = 0; i < space->n_sites; i++) {
		int64_t ns = tauti_stacks_alone(k->stacks, i);

		if (ns == TAUTI_NEVER)
			continue;
		passes[n++] = (struct taut_plan_pass){
			tauti_stacks_site_name(k->stacks, i), ns };
	}
	k->out->planned.passes = passes;
	k->out->planned.n_passes = n;
	return TAUT_OK;
}

static taut_status keep_notes(struct work *k)
{
	uint32_t n;
	const char *const *notes = tauti_stacks_notes(k->stacks, &n);
	const char **kept = taut_arena_calloc(
		k->out->arena, (size_t)n + 1, sizeof *kept);

	if (!kept)
		return no_memory(k->err);
	for (uint32_t i = 0; i < n; i++) {
		kept[i] = keep_text(k, notes[i]);
		if (!kept[i])
			return no_memory(k->err);
	}
	k->out->planned.notes = kept;
	k->out->planned.n_notes = n;
	return TAUT_OK;
}

/* --- the whole ----------------------------------------------------------------------------- */

static taut_status plan(struct work *k)
{
	taut_status status = search(k);

	if (!status)
		status = take_best(k);
	if (!status)
		status = make_plan(k);
	if (!status)
		status = keep_frontier(k);
	if (!status)
		status = keep_passes(k);
	if (!status)
		status = keep_notes(k);
	if (!status) {
		k->out->planned.plan = &k->out->plan;
		k->out->planned.n_predicted =
			tauti_stacks_replayed(k->stacks);
		k->out->planned.seconds = tauti_search_seconds(k->search);
	}
	tauti_search_destroy(k->search);
	tauti_stacks_destroy(k->stacks);
	return status;
}

taut_status taut_plan_search(const struct taut_graph *graph,
	const struct taut_plan_options *options,
	struct taut_planned **ret_planned, struct taut_error *reterr)
{
	struct taut_arena *arena = taut_arena_create();
	struct owned *out = arena ?
		TAUT_ARENA_ARRAY(arena, struct owned, 1) : NULL;
	struct work k = { .graph = graph, .options = options, .out = out,
		.err = reterr };
	taut_status status;

	if (!out) {
		taut_arena_destroy(arena);
		return no_memory(reterr);
	}
	out->arena = arena;
	status = plan(&k);
	if (status)
		taut_planned_destroy(&out->planned);
	else
		*ret_planned = &out->planned;
	return status;
}

void taut_planned_destroy(struct taut_planned *planned)
{
	struct owned *owned = (struct owned *)planned;

	if (owned)
		taut_arena_destroy(owned->arena);
}

int taut_plan_strategy(size_t i, struct taut_plan_strategy_info *ret_info)
{
	for (size_t k = 0; tauti_strategies[k]; k++) {
		const struct tauti_strategy *s = tauti_strategies[k];

		if (k != i)
			continue;
		*ret_info = (struct taut_plan_strategy_info){ s->name,
			s->summary, s->source };
		return 1;
	}
	return 0;
}

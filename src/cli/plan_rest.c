/* plan_rest.c - see plan_rest.h. */
#include "cli/plan_rest.h"

struct work {
	struct taut_predictor *predictor;
	struct taut_arena *arena;
	struct taut_error *err;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for a plan");
}

static taut_status predict(const struct work *k,
	const struct taut_decision *decisions, uint32_t n,
	struct taut_predicted *ret_told)
{
	const char **changes =
		taut_arena_calloc(k->arena, n + 1, sizeof *changes);

	if (!changes)
		return no_memory(k->err);
	for (uint32_t i = 0; i < n; i++)
		changes[i] = decisions[i].change;
	return taut_predictor_predict(k->predictor, changes, n, ret_told, k->err);
}

/* decisions are those of the plan. */
static taut_status predict_each(const struct work *k,
	const struct taut_plan *plan, int64_t memory_most,
	struct taut_decision *decisions)
{
	struct taut_decision *left = TAUT_ARENA_ARRAY(
		k->arena, struct taut_decision, plan->n_decisions + 1);
	taut_status status = left ? TAUT_OK : no_memory(k->err);

	for (uint32_t i = 0; !status && i < plan->n_decisions; i++) {
		struct taut_predicted told;

		if (decisions[i].without_ns < 0)
			continue;
		status = predict(k, left, taut_plan_without(plan, i, left), &told);
		if (!status)
			decisions[i].without_ns = memory_most &&
				told.memory_bytes > memory_most ? -1 :
				told.step_ns;
	}
	return status;
}

taut_status plan_rest(struct taut_predictor *predictor,
	const struct taut_plan *plan, uint32_t which, int64_t memory_most,
	struct taut_arena *arena, struct taut_plan *ret_rest,
	struct taut_error *err)
{
	const struct work k = { predictor, arena, err };
	struct taut_decision *left = TAUT_ARENA_ARRAY(
		arena, struct taut_decision, plan->n_decisions + 1);
	struct taut_plan rest = *plan;
	struct taut_predicted told;
	taut_status status;

	if (!left)
		return no_memory(err);
	rest.decisions = left;
	rest.n_decisions = taut_plan_without(plan, which, left);
	status = predict(&k, left, rest.n_decisions, &told);
	if (!status)
		status = predict_each(&k, &rest, memory_most, left);
	if (status)
		return status;
	rest.after_ns = rest.low_ns = rest.high_ns = told.step_ns;
	rest.memory_after = told.memory_bytes;
	rest.network_after = told.network_bytes;
	*ret_rest = rest;
	return TAUT_OK;
}

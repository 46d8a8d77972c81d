/* walk.c - dPRO's search: along the critical path, each site together with that
 * of another pass that follows it there, for fusing two operators and letting their
 * gradients travel together pay off together or not at all (its theorem 3). What is
 * proven is not tried (its theorems 1 and 2, which the space knows). */
#include "plan/strategies/all.h"

enum {
	MOST_UNCHANGED = 5, /* walks */
	THOUSANDTHS = 1,    /* of the step: less is no change */
};

/* The next one behind i along the path that is of another pass; TAUT_NONE. */
static uint32_t coupled(const struct tauti_climb *c, uint32_t i)
{
	uint32_t pass = c->space->pass[c->sites[i]];

	while (++i < c->n_critical)
		if (c->space->pass[c->sites[i]] != pass)
			return c->sites[i];
	return TAUT_NONE;
}

/* Until no option of it is better. */
static taut_status try_alone(
	struct tauti_climb *c, uint32_t site, bool *ret_any, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (uint8_t k = 0; !status && k < c->space->n_options[site]; k++) {
		bool is_better = false;

		if (k == c->here[site] || c->rules[site][k] == TAUTI_RULE_WORSE)
			continue;
		status = tauti_search_set(c->search, site, k, err);
		if (!status)
			status = tauti_climb_keep(c, &is_better, err);
		*ret_any |= is_better;
	}
	return status;
}

static taut_status walk_once(
	struct tauti_climb *c, bool *ret_any, struct taut_error *err)
{
	taut_status status;

	*ret_any = false;
	tauti_climb_list(c, TAUT_NONE);
	status = tauti_climb_take_proven(c, c->n_critical, TAUT_NONE, err);
	for (uint32_t i = 0; !status && i < c->n_critical; i++) {
		uint32_t site = c->sites[i], other = coupled(c, i);
		bool is_better = false;

		status = try_alone(c, site, ret_any, err);
		if (status || other == TAUT_NONE)
			continue;
		status = tauti_climb_pair(c, site, other, &is_better, err);
		*ret_any |= is_better;
	}
	return status;
}

static taut_status walk(struct tauti_climb *c, struct taut_error *err)
{
	taut_status status = TAUT_OK;
	uint32_t n_unchanged = 0;
	bool any = true;

	while (!status && any && n_unchanged <= MOST_UNCHANGED) {
		int64_t before_ns = c->cost.step_ns;

		status = walk_once(c, &any, err);
		if (before_ns == TAUTI_NEVER ||
			before_ns - c->cost.step_ns >
				before_ns / 1000 * THOUSANDTHS)
			n_unchanged = 0;
		else
			n_unchanged++;
	}
	return status;
}

static taut_status run(struct tauti_search *search, struct taut_error *err)
{
	struct tauti_climb climb;
	taut_status status = tauti_climb_init(&climb, search, err);

	for (int view = 0; !status && view < TAUTI_VIEWS; view++)
		if (tauti_search_view(search, (enum tauti_view)view))
			status = walk(&climb, err);
	tauti_climb_fini(&climb);
	return status;
}

const struct tauti_strategy tauti_strategy_walk = {
	"walk",
	"along the critical path, sites of two passes together",
	"Hu et al., dPRO: A Generic Performance Diagnosis and Optimization Toolkit "
	"for Expediting Distributed DNN Training, MLSys 2022",
	run,
};

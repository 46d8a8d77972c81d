/* joint.c - the default: all passes together.
 *
 *     1. passes, so that no tool that knows of one pass does better
 *     2. from the best of them on, sites of all passes, in each view: one by one,
 *        then pairs that stand near each other on the critical path
 *     3. rounds (rounds.c) from good states, until many costs found nothing better
 *
 * After each of them the best so far is what there is. */
#include "plan/strategies/rounds.h"

enum { REACH = 3 /* pairs are at most so far apart on the path */ };

static taut_status try_pairs(struct tauti_rounds *r, bool *ret_any,
	struct taut_error *err)
{
	struct tauti_climb *c = &r->climb;
	uint32_t n = c->n_critical;
	taut_status status = TAUT_OK;

	*ret_any = false;
	for (uint32_t i = 0; !status && i < n; i++)
		for (uint32_t k = i + 1; !status && k < n && k <= i + REACH;
			k++) {
			bool is_better = false;

			status = tauti_climb_pair(c, c->sites[i], c->sites[k],
				&is_better, err);
			*ret_any |= is_better;
		}
	return status;
}

static taut_status climb_pairs(struct tauti_rounds *r, struct taut_error *err)
{
	bool any = false;
	taut_status status;

	do {
		status = tauti_climb_up(&r->climb, TAUT_NONE, err);
		if (status)
			break;
		tauti_climb_list(&r->climb, TAUT_NONE);
		status = try_pairs(r, &any, err);
	} while (!status && any);
	return status;
}

static taut_status run(struct tauti_search *search, struct taut_error *err)
{
	struct tauti_rounds r;
	taut_status status = tauti_strategy_passes.run(search, err);

	if (status)
		return status;
	status = tauti_rounds_init(&r, search, err);
	if (!status)
		status = tauti_climb_from(&r.climb,
			tauti_search_best(search)->options, err);
	for (int view = 0; !status && view < TAUTI_VIEWS; view++)
		if (tauti_search_view(search, (enum tauti_view)view))
			status = climb_pairs(&r, err);
	if (!status)
		status = tauti_rounds_run(&r, err);
	tauti_rounds_fini(&r);
	return status;
}

const struct tauti_strategy tauti_strategy_joint = {
	"joint",
	"all passes together: each alone, then pairs, then rounds from the best",
	"Lourenco, Martin and Stutzle, Iterated Local Search, Handbook of "
	"Metaheuristics, 2003",
	run,
};

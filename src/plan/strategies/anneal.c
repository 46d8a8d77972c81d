/* anneal.c - simulated annealing: a random change that is worse is kept, too, the
 * less likely the worse it is and the colder it has become.
 *
 * Each of a few rounds begins at the best state so far, half as hot as the one
 * before, and cools by a constant factor. Logarithms of the machine's library would
 * make another search of it on another machine, so that chance is drawn by
 * comparisons alone. */
#include "plan/strategies/all.h"

enum {
	ROUNDS = 6,
	COOLINGS = 24,   /* in a round; to a hundredth */
	FEWEST_TRIES = 8, /* at one temperature; or the number of sites */
	HOT_PART = 50,   /* of the step, in the first round */
	UNIFORM = 1 << 30,
};

static const double cooling = 0.825; /* 0.825^24 = 0.0099 */

/* From the exponential distribution, times UNIFORM: x is taken where the first of
 * a falling run of random numbers stands before an odd number of them (von Neumann,
 * Various techniques used in connection with random digits, 1951). */
static double draw_exponential(struct tauti_search *search)
{
	for (double whole = 0;; whole += UNIFORM) {
		uint32_t first = tauti_search_random(search, UNIFORM);
		uint32_t last = first, next, n = 1;

		while ((next = tauti_search_random(search, UNIFORM)) < last) {
			last = next;
			n++;
		}
		if (n % 2)
			return whole + first;
	}
}

/* Metropolis: with likelihood exp(-worse / heat). */
static bool is_kept(struct tauti_climb *c, const struct tauti_cost *cost,
	double heat_ns)
{
	double worse_ns;

	if (cost->step_ns == TAUTI_NEVER || c->cost.step_ns == TAUTI_NEVER)
		return !tauti_cost_less(&c->cost, cost);
	worse_ns = (double)(cost->step_ns - c->cost.step_ns);
	return worse_ns <= 0 ||
		worse_ns * UNIFORM < heat_ns * draw_exponential(c->search);
}

/* A critical site as often as any. */
static uint32_t choose(struct tauti_climb *c)
{
	uint32_t n = c->n_critical && tauti_search_random(c->search, 2) ?
		c->n_critical : c->n_sites;

	return c->sites[tauti_search_random(c->search, n)];
}

static taut_status change(struct tauti_climb *c, struct taut_error *err)
{
	/* Two at a time now and then: what pays off in pairs only. */
	uint32_t n = tauti_search_random(c->search, 3) ? 1 : 2;
	taut_status status = TAUT_OK;

	while (!status && n--) {
		uint32_t site = choose(c);

		status = tauti_search_set(c->search, site,
			tauti_climb_other(c->search, site), err);
	}
	return status;
}

static taut_status try_once(
	struct tauti_climb *c, double heat_ns, struct taut_error *err)
{
	struct tauti_cost cost;
	taut_status status = change(c, err);

	if (!status)
		status = tauti_search_cost(c->search, &cost, err);
	if (status)
		return status;
	if (!is_kept(c, &cost, heat_ns))
		return tauti_search_go(c->search, c->here, err);
	tauti_climb_stay(c, &cost);
	return TAUT_OK;
}

/* At one temperature; with images or without, as chance has it. */
static taut_status try_many(
	struct tauti_climb *c, double heat_ns, struct taut_error *err)
{
	uint32_t n;
	taut_status status = TAUT_OK;

	tauti_search_view(c->search, tauti_search_random(c->search, 2) ?
		TAUTI_VIEW_MIRRORED : TAUTI_VIEW_ALL);
	c->n_sites = tauti_search_sites(c->search, TAUT_NONE, c->sites);
	c->n_critical = tauti_search_n_critical(c->search);
	n = c->n_sites > FEWEST_TRIES ? c->n_sites : FEWEST_TRIES;
	for (uint32_t i = 0; !status && c->n_sites && i < n; i++)
		status = try_once(c, heat_ns, err);
	return status;
}

static taut_status cool(struct tauti_climb *c, struct taut_error *err)
{
	const struct tauti_found *best = tauti_search_best(c->search);
	double hot = 1, hot_ns = 0;
	taut_status status = TAUT_OK;

	for (int round = 0; !status && round < ROUNDS; round++, hot /= 2) {
		double heat = hot;

		status = tauti_climb_from(c, best->options, err);
		for (int i = 0; !status && i < COOLINGS; i++) {
			/* until a step is known that can be, all is cold */
			if (hot_ns <= 0 && best->cost.step_ns != TAUTI_NEVER)
				hot_ns = (double)best->cost.step_ns / HOT_PART;
			status = try_many(c, heat * hot_ns, err);
			heat *= cooling;
		}
	}
	return status;
}

static taut_status run(struct tauti_search *search, struct taut_error *err)
{
	struct tauti_climb climb;
	taut_status status = tauti_climb_init(&climb, search, err);

	if (!status)
		status = cool(&climb, err);
	tauti_climb_fini(&climb);
	return status;
}

const struct tauti_strategy tauti_strategy_anneal = {
	"anneal",
	"random changes, worse ones kept the more seldom the colder it is",
	"Kirkpatrick, Gelatt and Vecchi, Optimization by Simulated Annealing, "
	"Science 220, 1983",
	run,
};

/* plan_search.c - what the strategies of a search find, of spaces that are small
 * enough to know, and in spaces that are not.
 *
 *     plan_search SEEDS [FIRST [COSTS]]
 *
 * small: SEEDS spaces of each kind, all states of which are costed: in how many of
 * 100 a strategy found the best one, how far it was off at worst ("inf": it found
 * none that can be), and how many states it costed, mean and as a share of all. large:
 * chains of 200 operators, COSTS states at most: the step that was reached as a share
 * of the first one, and when. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan/search.h"
#include "tests/support/plan_spaces.h"

enum { KINDS = 4 + SPACES_TABLE_KINDS };

static const char *const kinds[KINDS] = { "chain", "chain, priority",
	"chain, blocks", "chain, long", "sum, near", "sum, far", "longest",
	"coupled", "limited" };

union any {
	struct spaces_sites sites;
	struct spaces_chain chain;
	struct spaces_table table;
};

static void die(const struct taut_error *err)
{
	fprintf(stderr, "plan_search: %s\n", err->message);
	exit(1);
}

static struct tauti_space make(union any *any, int kind, uint64_t seed)
{
	struct tauti_space space;

	if (kind >= 4) {
		table_make(&any->table, seed, 14,
			(enum spaces_table_kind)(kind - 4));
		return spaces_face(&any->sites, &spaces_table_ops, 3);
	}
	chain_make(&any->chain, seed, kind == 3 ? 9 : 8, kind == 3 ? 0 : 2,
		kind == 2 ? 2 : 0, kind == 1);
	space = spaces_face(&any->sites, &spaces_chain_ops, 3);
	if (kind == 2)
		space.mirror = any->sites.mirror;
	return space;
}

static struct tauti_found run(const struct tauti_space *space, const char *how,
	const struct tauti_search_options *options, uint64_t *ret_costs,
	double *ret_s)
{
	struct taut_error err;
	struct tauti_search *s;
	struct tauti_found found;

	if (tauti_search_create(space, options, &s, &err) ||
		tauti_search_run(s, how, &err))
		die(&err);
	found = *tauti_search_best(s);
	*ret_costs = tauti_search_costs(s);
	*ret_s = tauti_search_seconds(s);
	tauti_search_destroy(s);
	return found;
}

static void compare_small(union any *any, int kind, uint64_t first, uint64_t n)
{
	int64_t *best = calloc(n, sizeof *best);
	uint64_t costs, all = 0;
	double s;

	for (uint64_t i = 0; i < n; i++) {
		struct tauti_space space = make(any, kind, first + i);
		struct tauti_search_options options = { .no_memory = true };

		best[i] = run(&space, "exhaustive", &options, &costs, &s)
			.cost.step_ns;
		all += costs;
	}
	for (int k = 0; tauti_strategies[k + 1]; k++) {
		const char *how = tauti_strategies[k]->name;
		uint64_t hits = 0, sum = 0;
		double worst = 0;

		for (uint64_t i = 0; i < n; i++) {
			struct tauti_space space = make(any, kind, first + i);
			struct tauti_search_options options = {
				.seed = first + i };
			int64_t ns = run(&space, how, &options, &costs, &s)
				.cost.step_ns;
			double off = ns == TAUTI_NEVER ? HUGE_VAL :
				(double)(ns - best[i]) / (double)best[i];

			hits += ns == best[i];
			sum += costs;
			if (off > worst)
				worst = off;
		}
		printf("%-16s %-10s %5.1f %7.2f %% %8.0f %6.2f %%\n", kinds[kind],
			how, 100.0 * (double)hits / (double)n, 100 * worst,
			(double)sum / (double)n,
			100.0 * (double)sum / (double)all);
	}
	free(best);
}

static void compare_large(
	union any *any, int kind, uint64_t first, uint64_t n, uint64_t most)
{
	for (int k = 0; tauti_strategies[k + 1]; k++) {
		const char *how = tauti_strategies[k]->name;
		double sum = 0, at_s = 0;
		uint64_t at = 0;

		for (uint64_t i = 0; i < n; i++) {
			struct tauti_search_options options = {
				.seed = first + i, .most_costs = most };
			struct tauti_space space;
			struct tauti_cost start;
			struct tauti_found found;
			uint64_t costs;
			double s;

			chain_make(&any->chain, first + i, 200, 40,
				kind == 2 ? 10 : 0, kind == 1);
			space = spaces_face(&any->sites, &spaces_chain_ops, 3);
			if (kind == 2)
				space.mirror = any->sites.mirror;
			space.ops->cost(space.self, &start, NULL);
			found = run(&space, how, &options, &costs, &s);
			sum += (double)found.cost.step_ns /
				(double)start.step_ns;
			at += found.nth;
			at_s += s;
		}
		printf("large %-16s %-10s %8.4f  best at %6.0f, %.2f s\n",
			kinds[kind], how, sum / (double)n,
			(double)at / (double)n, at_s / (double)n);
	}
}

int main(int argc, char **argv)
{
	union any *any = calloc(1, sizeof *any);
	uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
	uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	uint64_t most = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;

	for (int kind = 0; n && kind < KINDS && !most; kind++)
		compare_small(any, kind, first, n);
	for (int kind = 0; most && kind < 3; kind++)
		compare_large(any, kind, first, n, most);
	free(any);
	return 0;
}

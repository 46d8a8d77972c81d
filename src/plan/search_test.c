/* The frame of a search: what it counts, remembers and keeps, and what ends it. */
#include "plan/search.h"

#include "base/now.h"
#include "tests/support/alloc_fail.h"
#include "tests/support/plan_spaces.h"
#include "tests/support/unit.h"

static struct spaces_chain chain;
static struct spaces_table table;

static struct tauti_space make_chain(uint64_t seed)
{
	chain_make(&chain, seed, 7, 2, 0, false);
	return spaces_face(&chain.sites, &spaces_chain_ops, 3);
}

static struct tauti_space make_table(uint64_t seed, enum spaces_table_kind kind)
{
	table_make(&table, seed, 12, kind);
	return spaces_face(&table.sites, &spaces_table_ops, 3);
}

static struct tauti_search *create(const struct tauti_space *space,
	const struct tauti_search_options *options)
{
	struct tauti_search *s = NULL;
	struct taut_error err;

	assert_int_equal(
		tauti_search_create(space, options, &s, &err), TAUT_OK);
	return s;
}

static void run(struct tauti_search *s, const char *strategy)
{
	struct taut_error err;

	if (tauti_search_run(s, strategy, &err) != TAUT_OK)
		fail_msg("%s: %s", strategy, err.message);
}

static uint64_t states_of(const struct tauti_space *space)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < space->n_sites; i++)
		n *= space->n_options[i];
	return n;
}

/* --- all states --------------------------------------------------------------------*/

/* The kth state, in no order of the search's. */
static void unpack(const struct tauti_space *space, uint64_t k, uint8_t *options)
{
	for (uint32_t i = 0; i < space->n_sites; i++) {
		options[i] = (uint8_t)(k % space->n_options[i]);
		k /= space->n_options[i];
	}
}

static struct tauti_cost cost_of(
	const struct tauti_space *space, const uint8_t *options)
{
	struct tauti_cost cost;

	for (uint32_t i = 0; i < space->n_sites; i++)
		assert_int_equal(space->ops->set(space->self, i, options[i],
			NULL), TAUT_OK);
	assert_int_equal(space->ops->cost(space->self, &cost, NULL), TAUT_OK);
	return cost;
}

static bool beats(const struct tauti_cost *a, const struct tauti_cost *b)
{
	return a->step_ns <= b->step_ns && a->memory_bytes <= b->memory_bytes &&
		a->network_bytes <= b->network_bytes &&
		(a->step_ns < b->step_ns || a->memory_bytes < b->memory_bytes ||
			a->network_bytes < b->network_bytes);
}

static bool is_same(const struct tauti_cost *a, const struct tauti_cost *b)
{
	return a->step_ns == b->step_ns && a->memory_bytes == b->memory_bytes &&
		a->network_bytes == b->network_bytes;
}

/* All costs that no other beats, each once, compared with the frontier. */
static void expect_frontier(struct tauti_search *s, const struct tauti_cost *all,
	uint64_t n)
{
	uint32_t n_found, n_expected = 0;
	const struct tauti_found *found = tauti_search_frontier(s, &n_found);

	for (uint64_t i = 0; i < n; i++) {
		bool is_beaten = all[i].step_ns == TAUTI_NEVER;
		uint32_t n_there = 0;

		for (uint64_t k = 0; k < n && !is_beaten; k++)
			is_beaten = beats(&all[k], &all[i]) ||
				(k < i && is_same(&all[k], &all[i]));
		for (uint32_t k = 0; k < n_found; k++)
			n_there += is_same(&found[k].cost, &all[i]);
		if (!is_beaten)
			assert_int_equal(n_there, 1);
		n_expected += !is_beaten;
	}
	assert_int_equal(n_found, n_expected);
	assert_true(is_same(&found[0].cost, &tauti_search_best(s)->cost));
}

static void check_all_states(const struct tauti_space *space)
{
	const struct tauti_search_options options = { 0 };
	struct tauti_search *s = create(space, &options);
	uint64_t n = states_of(space);
	struct tauti_cost *all = test_calloc(n, sizeof *all);
	uint8_t state[SITES_MOST];
	const struct tauti_found *found;
	uint32_t n_found;

	run(s, "exhaustive");
	assert_int_equal(tauti_search_costs(s), n);
	for (uint64_t i = 0; i < n; i++) {
		unpack(space, i, state);
		all[i] = cost_of(space, state);
	}
	expect_frontier(s, all, n);
	found = tauti_search_frontier(s, &n_found);
	for (uint32_t i = 0; i < n_found; i++) {
		struct tauti_cost cost = cost_of(space, found[i].options);

		assert_true(is_same(&cost, &found[i].cost));
		assert_true(!i || found[i - 1].cost.step_ns <=
				found[i].cost.step_ns);
	}
	test_free(all);
	tauti_search_destroy(s);
}

static void test_all_states(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 6; seed++) {
		struct tauti_space space = make_chain(seed);

		check_all_states(&space);
		space = make_table(seed, SPACES_LIMITED);
		check_all_states(&space);
	}
}

/* --- what is remembered --------------------------------------------------------------*/

static void test_memo(void **state)
{
	const struct tauti_search_options options = { 0 };
	struct tauti_space space = make_chain(3);
	struct tauti_search *s = create(&space, &options);
	struct tauti_cost first, second;

	(void)state;
	assert_int_equal(tauti_search_costs(s), 1);
	assert_int_equal(tauti_search_set(s, 0, 1, NULL), TAUT_OK);
	assert_int_equal(tauti_search_cost(s, &first, NULL), TAUT_OK);
	assert_int_equal(tauti_search_costs(s), 2);
	assert_int_equal(tauti_search_set(s, 1, 1, NULL), TAUT_OK);
	assert_int_equal(tauti_search_cost(s, &second, NULL), TAUT_OK);
	assert_int_equal(tauti_search_set(s, 1, 0, NULL), TAUT_OK);
	assert_int_equal(tauti_search_cost(s, &second, NULL), TAUT_OK);
	assert_int_equal(tauti_search_costs(s), 3);
	assert_true(is_same(&first, &second));
	run(s, "joint");
	assert_int_equal(chain.sites.n_costs, tauti_search_costs(s));
	tauti_search_destroy(s);
}

static void test_no_memo(void **state)
{
	const struct tauti_search_options options = { .no_memory = true };
	struct tauti_space space = make_chain(3);
	struct tauti_search *s = create(&space, &options);
	struct tauti_cost cost;

	(void)state;
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(tauti_search_cost(s, &cost, NULL), TAUT_OK);
	assert_int_equal(tauti_search_costs(s), 6);
	tauti_search_destroy(s);
}

/* --- what ends it --------------------------------------------------------------------*/

static void test_most_costs(void **state)
{
	(void)state;
	for (int k = 0; tauti_strategies[k]; k++)
		for (uint64_t most = 1; most < 40; most += 6) {
			const struct tauti_search_options options = {
				.most_costs = most };
			struct tauti_space space = make_chain(k);
			struct tauti_search *s = create(&space, &options);

			run(s, tauti_strategies[k]->name);
			run(s, "exhaustive"); /* whatever comes after */
			assert_int_equal(tauti_search_costs(s), most);
			assert_int_equal(chain.sites.n_costs, most);
			assert_memory_equal(chain.sites.at,
				tauti_search_best(s)->options, space.n_sites);
			tauti_search_destroy(s);
		}
}

/* 2^40 states: nothing else would end it. */
static void test_budget(void **state)
{
	const struct tauti_search_options options = { .budget_s = 0.02 };
	struct tauti_space space;
	struct tauti_search *s;

	(void)state;
	table_make(&table, 1, 40, SPACES_SUM_FAR);
	space = spaces_face(&table.sites, &spaces_table_ops, 3);
	s = create(&space, &options);
	run(s, "exhaustive");
	assert_true(tauti_search_costs(s) > 1);
	assert_true(tauti_search_seconds(s) >= 0.02);
	tauti_search_destroy(s);
}

/* What was done before it counts; the start is known in any case. */
static void test_began_before(void **state)
{
	const struct tauti_search_options options = { .budget_s = 10,
		.began_ns = tauti_now_ns() - (int64_t)1e10 };
	struct tauti_space space;
	struct tauti_search *s;

	(void)state;
	table_make(&table, 1, 40, SPACES_SUM_FAR);
	space = spaces_face(&table.sites, &spaces_table_ops, 3);
	s = create(&space, &options);
	run(s, "exhaustive");
	assert_int_equal(tauti_search_costs(s), 1);
	assert_true(tauti_search_best(s)->after_s >= 10);
	tauti_search_destroy(s);
}

struct seen {
	uint64_t n, stop_at, n_costs;
	int64_t last_ns;
};

static bool see(void *context, const struct tauti_search *search)
{
	struct seen *seen = context;
	int64_t step_ns = tauti_search_best(search)->cost.step_ns;

	assert_true(step_ns <= seen->last_ns);
	seen->last_ns = step_ns;
	seen->n_costs = tauti_search_costs(search);
	return ++seen->n == seen->stop_at;
}

static void test_see(void **state)
{
	(void)state;
	for (uint64_t stop_at = 1; stop_at < 4; stop_at++) {
		struct seen seen = { 0, stop_at, 0, INT64_MAX };
		const struct tauti_search_options options = {
			.see = see, .context = &seen };
		struct tauti_space space = make_chain(1);
		struct tauti_search *s = create(&space, &options);

		run(s, "joint");
		assert_int_equal(seen.n, stop_at);
		run(s, "exhaustive");
		assert_int_equal(seen.n, stop_at);
		assert_int_equal(tauti_search_costs(s), seen.n_costs);
		tauti_search_destroy(s);
	}
}

static void test_unknown(void **state)
{
	const struct tauti_search_options options = { 0 };
	struct tauti_space space = make_chain(1);
	struct tauti_search *s = create(&space, &options);
	struct taut_error err;

	(void)state;
	assert_int_equal(tauti_search_run(s, "jiont", &err), TAUT_EINVAL);
	assert_non_null(strstr(err.message, "joint"));
	assert_int_equal(tauti_search_run(s, "q", &err), TAUT_EINVAL);
	assert_null(strstr(err.message, "mean"));
	tauti_search_destroy(s);
}

/* --- views ---------------------------------------------------------------------------*/

static uint32_t count_sites(struct tauti_search *s, enum tauti_view view)
{
	uint32_t sites[SITES_MOST];

	tauti_search_view(s, view);
	return tauti_search_sites(s, TAUT_NONE, sites);
}

/* Six operators in blocks of two: five fusions of which three and two are images;
 * tables' sites of one option are no sites. */
static void test_views(void **state)
{
	struct tauti_search_options options = { 0 };
	struct tauti_space space;
	struct tauti_search *s;

	(void)state;
	chain_make(&chain, 1, 6, 2, 2, false);
	chain.sites.coarse[0] = chain.sites.coarse[2] =
		chain.sites.coarse[4] = 0;
	space = spaces_face(&chain.sites, &spaces_chain_ops, 3);
	space.mirror = chain.sites.mirror;
	space.coarse = chain.sites.coarse;
	s = create(&space, &options);
	assert_int_equal(count_sites(s, TAUTI_VIEW_ALL), space.n_sites);
	assert_int_equal(count_sites(s, TAUTI_VIEW_MIRRORED), space.n_sites - 3);
	assert_int_equal(count_sites(s, TAUTI_VIEW_COARSE), space.n_sites - 4);
	assert_int_equal(tauti_search_set(s, 1, 1, NULL), TAUT_OK);
	assert_int_equal(chain.sites.at[3], 1);
	assert_int_equal(chain.sites.at[2], 0);
	tauti_search_view(s, TAUTI_VIEW_ALL);
	assert_int_equal(tauti_search_set(s, 1, 0, NULL), TAUT_OK);
	assert_int_equal(chain.sites.at[3], 1);
	tauti_search_destroy(s);
	options.no_mirror = options.no_coarse = true;
	s = create(&space, &options);
	assert_false(tauti_search_view(s, TAUTI_VIEW_COARSE));
	assert_false(tauti_search_view(s, TAUTI_VIEW_MIRRORED));
	assert_int_equal(count_sites(s, TAUTI_VIEW_COARSE), space.n_sites);
	assert_int_equal(chain.sites.at[1] + chain.sites.at[3], 0);
	tauti_search_destroy(s);
}

/* What is critical comes first, of the state where the search is, even where that
 * one is remembered and another one was costed last. */
static void test_critical(void **state)
{
	const struct tauti_search_options options = { 0 };
	struct tauti_space space = make_chain(5);
	struct tauti_search *s = create(&space, &options);
	uint32_t sites[SITES_MOST], expected[SITES_MOST], n, n_sites;
	struct tauti_cost cost;

	(void)state;
	n = space.ops->critical(space.self, expected, space.n_sites);
	for (uint32_t i = 0; i < space.n_sites; i++)
		assert_int_equal(tauti_search_set(s, i, 1, NULL), TAUT_OK);
	assert_int_equal(tauti_search_cost(s, &cost, NULL), TAUT_OK);
	for (uint32_t i = 0; i < space.n_sites; i++)
		assert_int_equal(tauti_search_set(s, i, 0, NULL), TAUT_OK);
	n_sites = tauti_search_sites(s, TAUT_NONE, sites);
	assert_int_equal(n_sites, space.n_sites);
	assert_int_equal(tauti_search_n_critical(s), n);
	assert_memory_equal(sites, expected, n * sizeof *sites);
	for (uint32_t pass = 0; pass < 3; pass++) {
		n_sites = tauti_search_sites(s, pass, sites);
		for (uint32_t i = 0; i < n_sites; i++)
			assert_int_equal(space.pass[sites[i]], pass);
	}
	tauti_search_destroy(s);
}

/* --- no memory -----------------------------------------------------------------------*/

static taut_status try_all(const struct tauti_space *space)
{
	const struct tauti_search_options options = { .most_costs = 300 };
	struct tauti_search *s;
	struct taut_error err = { 0 };
	taut_status status = tauti_search_create(space, &options, &s, &err);

	if (status) {
		assert_int_equal(err.code, status);
		return status;
	}
	for (int k = 0; !status && tauti_strategies[k]; k++)
		status = tauti_search_run(s, tauti_strategies[k]->name, &err);
	if (status)
		assert_int_equal(err.code, status);
	tauti_search_destroy(s);
	return status;
}

static void test_no_memory(void **state)
{
	long n = 0;
	taut_status status;

	(void)state;
	do {
		struct tauti_space space = make_chain(2);

		space.mirror = chain.sites.mirror;
		alloc_fail_after(n++);
		status = try_all(&space);
		alloc_fail_never();
		assert_true(status == TAUT_OK || status == TAUT_ENOMEM);
	} while (status);
	assert_true(n > 20);
}

/* A space that fails says so through every strategy, once it has begun. With this seed none
 * ends by itself before. */
static uint64_t costs_left;

static taut_status failing_cost(
	void *self, struct tauti_cost *ret_cost, struct taut_error *err)
{
	if (!costs_left--)
		return taut_error_set(err, TAUT_ENOMEM, -1, "nothing left");
	return chain_cost(self, ret_cost, err);
}

static void test_space_fails(void **state)
{
	const struct tauti_space_ops ops = { spaces_set, failing_cost,
		chain_rule, chain_critical };
	const struct tauti_search_options options = { .seed = 2 };

	(void)state;
	for (int k = 0; tauti_strategies[k]; k++)
		for (uint64_t n = 1; n < 12; n++) {
			struct tauti_space space = make_chain(4);
			struct tauti_search *s;
			struct taut_error err = { 0 };

			space.ops = &ops;
			costs_left = n;
			s = create(&space, &options);
			assert_int_equal(tauti_search_run(s,
				tauti_strategies[k]->name, &err), TAUT_ENOMEM);
			assert_string_equal(err.message, "nothing left");
			tauti_search_destroy(s);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_states),
		cmocka_unit_test(test_memo),
		cmocka_unit_test(test_no_memo),
		cmocka_unit_test(test_most_costs),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_began_before),
		cmocka_unit_test(test_see),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_views),
		cmocka_unit_test(test_critical),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_space_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

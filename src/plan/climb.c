/* climb.c - see climb.h. */
#include "plan/climb.h"

#include <stdlib.h>
#include <string.h>

enum {
	NEAR = 3,      /* on either side of a site, in the line */
	LOOK_AT = 12,  /* critical sites that a narrow sweep opens */
};

struct stand {
	uint64_t at; /* 0 .. 2^32 of its pass */
	uint32_t site;
};

static int by_place(const void *a, const void *b)
{
	const struct stand *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->site < y->site ? -1 : x->site > y->site;
}

static void stand_all(const struct tauti_space *space, struct stand *stands,
	uint32_t *n_of, uint32_t *rank)
{
	for (uint32_t i = 0; i < space->n_sites; i++)
		rank[i] = n_of[space->pass[i]]++;
	for (uint32_t i = 0; i < space->n_sites; i++)
		stands[i] = (struct stand){ ((2 * (uint64_t)rank[i] + 1) << 31) /
				n_of[space->pass[i]], i };
	qsort(stands, space->n_sites, sizeof *stands, by_place);
}

static bool make_line(struct tauti_climb *c)
{
	uint32_t n = c->space->n_sites;
	struct stand *stands = TAUT_ARENA_ARRAY(c->arena, struct stand, n + 1);
	uint32_t *n_of = TAUT_ARENA_ARRAY(
		c->arena, uint32_t, c->space->n_passes + 1);

	c->line = TAUT_ARENA_ARRAY(c->arena, uint32_t, n + 1);
	c->line_at = TAUT_ARENA_ARRAY(c->arena, uint32_t, n + 1);
	c->is_open = TAUT_ARENA_ARRAY(c->arena, uint8_t, n + 1);
	if (!stands || !n_of || !c->line || !c->line_at || !c->is_open)
		return false;
	stand_all(c->space, stands, n_of, c->line_at);
	for (uint32_t i = 0; i < n; i++) {
		c->line[i] = stands[i].site;
		c->line_at[stands[i].site] = i;
	}
	return true;
}

void tauti_climb_open(struct tauti_climb *climb, uint32_t site)
{
	uint32_t at = climb->line_at[site], last = climb->space->n_sites - 1;
	uint32_t to = last - at < NEAR ? last : at + NEAR;

	for (uint32_t i = at < NEAR ? 0 : at - NEAR; i <= to; i++)
		climb->is_open[climb->line[i]] = 1;
}

static bool make_arrays(struct tauti_climb *c)
{
	uint32_t n = c->space->n_sites;

	c->here = TAUT_ARENA_ARRAY(c->arena, uint8_t, n + 1);
	c->sites = TAUT_ARENA_ARRAY(c->arena, uint32_t, n + 1);
	c->rules = TAUT_ARENA_ARRAY(c->arena, uint8_t *, n + 1);
	c->is_tried = TAUT_ARENA_ARRAY(c->arena, uint8_t, n + 1);
	if (!c->here || !c->sites || !c->rules || !c->is_tried)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		c->rules[i] = TAUT_ARENA_ARRAY(
			c->arena, uint8_t, c->space->n_options[i]);
		if (!c->rules[i])
			return false;
		c->here[i] = tauti_search_at(c->search, i);
	}
	return make_line(c);
}

taut_status tauti_climb_init(struct tauti_climb *climb,
	struct tauti_search *search, struct taut_error *err)
{
	*climb = (struct tauti_climb){ .search = search,
		.space = tauti_search_space(search),
		.arena = taut_arena_create() };
	if (!climb->arena || !make_arrays(climb))
		return taut_error_set(
			err, TAUT_ENOMEM, -1, "no memory for a climb");
	return tauti_search_cost(search, &climb->cost, err);
}

void tauti_climb_fini(struct tauti_climb *climb)
{
	taut_arena_destroy(climb->arena);
}

taut_status tauti_climb_from(struct tauti_climb *climb, const uint8_t *options,
	struct taut_error *err)
{
	taut_status status = tauti_search_go(climb->search, options, err);

	if (!status)
		status = tauti_search_cost(climb->search, &climb->cost, err);
	if (!status)
		memmove(climb->here, options, climb->space->n_sites);
	return status;
}

void tauti_climb_stay(struct tauti_climb *climb, const struct tauti_cost *cost)
{
	climb->cost = *cost;
	for (uint32_t i = 0; i < climb->space->n_sites; i++)
		climb->here[i] = tauti_search_at(climb->search, i);
}

taut_status tauti_climb_keep(struct tauti_climb *climb, bool *ret_is_better,
	struct taut_error *err)
{
	struct tauti_cost cost;
	taut_status status = tauti_search_cost(climb->search, &cost, err);

	if (status)
		return status;
	*ret_is_better = tauti_cost_less(&cost, &climb->cost);
	if (!*ret_is_better)
		return tauti_search_go(climb->search, climb->here, err);
	tauti_climb_stay(climb, &cost);
	return TAUT_OK;
}

static bool is_tryable(const struct tauti_climb *c, uint32_t site)
{
	return !c->is_narrow || c->is_open[site];
}

static void ask_rules(struct tauti_climb *c, uint32_t site)
{
	for (uint8_t k = 0; k < c->space->n_options[site]; k++)
		c->rules[site][k] = k == c->here[site] ? TAUTI_RULE_WORSE :
			(uint8_t)tauti_search_rule(c->search, site, k);
}

void tauti_climb_list(struct tauti_climb *climb, uint32_t pass)
{
	struct tauti_search *s = climb->search;

	climb->n_sites = tauti_search_sites(s, pass, climb->sites);
	climb->n_critical = tauti_search_n_critical(s);
	for (uint32_t i = 0; i < climb->n_critical && i < LOOK_AT; i++)
		climb->is_open[climb->sites[i]] = 1;
	for (uint32_t i = 0; i < climb->n_sites; i++)
		if (is_tryable(climb, climb->sites[i]))
			ask_rules(climb, climb->sites[i]);
}

/* --- one site after the other -------------------------------------------------------*/

static taut_status set_proven(struct tauti_climb *c, uint32_t n_sites,
	uint32_t *ret_n, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	*ret_n = 0;
	for (uint32_t i = 0; !status && i < n_sites; i++) {
		uint32_t site = c->sites[i];

		if (!is_tryable(c, site))
			continue;
		for (uint8_t k = 0; k < c->space->n_options[site]; k++) {
			if (c->rules[site][k] != TAUTI_RULE_BETTER)
				continue;
			status = tauti_search_set(c->search, site, k, err);
			++*ret_n;
			break;
		}
	}
	return status;
}

taut_status tauti_climb_take_proven(struct tauti_climb *c, uint32_t n_sites,
	uint32_t pass, struct taut_error *err)
{
	struct tauti_cost cost;
	uint32_t n;
	taut_status status = set_proven(c, n_sites, &n, err);

	if (status || !n)
		return status;
	status = tauti_search_cost(c->search, &cost, err);
	if (status)
		return status;
	if (tauti_cost_less(&c->cost, &cost))
		return tauti_search_go(c->search, c->here, err);
	tauti_climb_stay(c, &cost);
	tauti_climb_list(c, pass);
	return TAUT_OK;
}

static taut_status try_site(struct tauti_climb *c, uint32_t site,
	bool *ret_is_better, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	*ret_is_better = false;
	for (uint8_t k = 0; k < c->space->n_options[site]; k++) {
		if (c->rules[site][k] == TAUTI_RULE_WORSE)
			continue;
		status = tauti_search_set(c->search, site, k, err);
		if (!status)
			status = tauti_climb_keep(c, ret_is_better, err);
		if (status || *ret_is_better)
			break;
	}
	return status;
}

/* What is critical is found anew after each change that was kept: it is what the
 * step hangs on now. A site that changed is tried again, for its other options. */
static taut_status sweep(struct tauti_climb *c, uint32_t pass, bool *ret_any,
	struct taut_error *err)
{
	taut_status status;

	*ret_any = false;
	memset(c->is_tried, 0, c->space->n_sites);
	tauti_climb_list(c, pass);
	status = tauti_climb_take_proven(c, c->n_sites, pass, err);
	for (uint32_t i = 0; !status && i < c->n_sites; i++) {
		uint32_t site = c->sites[i];
		bool is_better;

		if (c->is_tried[site] || !is_tryable(c, site))
			continue;
		status = try_site(c, site, &is_better, err);
		c->is_tried[site] = !status && !is_better;
		if (status || !is_better)
			continue;
		*ret_any = true;
		tauti_climb_open(c, site);
		tauti_climb_list(c, pass);
		i = UINT32_MAX;
	}
	return status;
}

taut_status tauti_climb_up(
	struct tauti_climb *climb, uint32_t pass, struct taut_error *err)
{
	taut_status status;
	bool any;

	do
		status = sweep(climb, pass, &any, err);
	while (!status && any);
	return status;
}

taut_status tauti_climb_views(
	struct tauti_climb *climb, uint32_t pass, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (int view = 0; !status && view < TAUTI_VIEWS; view++)
		if (tauti_search_view(climb->search, (enum tauti_view)view))
			status = tauti_climb_up(climb, pass, err);
	return status;
}

/* --- two sites --------------------------------------------------------------------- */

static taut_status try_both(struct tauti_climb *c, uint32_t a, uint8_t to_a,
	uint32_t b, uint8_t to_b, bool *ret_is_better, struct taut_error *err)
{
	taut_status status = tauti_search_set(c->search, a, to_a, err);

	if (!status)
		status = tauti_search_set(c->search, b, to_b, err);
	if (!status)
		status = tauti_climb_keep(c, ret_is_better, err);
	return status;
}

taut_status tauti_climb_pair(struct tauti_climb *climb, uint32_t a, uint32_t b,
	bool *ret_is_better, struct taut_error *err)
{
	uint8_t n_a = climb->space->n_options[a];
	uint8_t n_b = climb->space->n_options[b];
	taut_status status = TAUT_OK;

	*ret_is_better = false;
	for (uint32_t i = 0; i < (uint32_t)n_a * n_b; i++) {
		uint8_t to_a = (uint8_t)(i / n_b), to_b = (uint8_t)(i % n_b);

		if (to_a == climb->here[a] || to_b == climb->here[b])
			continue;
		status = try_both(
			climb, a, to_a, b, to_b, ret_is_better, err);
		if (status || *ret_is_better)
			break;
	}
	return status;
}

uint8_t tauti_climb_other(struct tauti_search *search, uint32_t site)
{
	uint8_t n = tauti_search_space(search)->n_options[site];
	uint8_t k = (uint8_t)tauti_search_random(search, n - 1u);

	return (uint8_t)(k + (k >= tauti_search_at(search, site)));
}

/* search.c - the frame of a search: where it is, what it has seen, the best of it,
 * and when it is over. See search.h. */
#include "plan/search.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/near.h"
#include "base/now.h"
#include "plan/frontier.h"
#include "plan/memo.h"

enum {
	SEE_EVERY_NS = 100000000,
	MEMO_BYTES = 256 << 20, /* what is remembered takes at most */
};

struct tauti_search {
	const struct tauti_space *space;
	struct tauti_search_options options;
	struct taut_arena *arena;
	/* The present state, and the same packed into few bits. */
	uint8_t *at;
	uint64_t *key, hash;
	uint32_t *first_bit; /* by site */
	bool is_fresh;       /* it is what the space costed last */
	uint32_t *image;     /* by site: the next of its images, in a ring; NULL */
	struct tauti_memo memo;
	struct tauti_found start, best;
	uint8_t *best_options;
	struct tauti_frontier frontier;
	enum tauti_view view;
	uint32_t n_critical;
	uint32_t *critical; /* what the space fills in */
	uint8_t *is_listed; /* by site */
	uint64_t n_costs, random;
	int64_t began_ns, saw_ns;
	bool is_over;
	/* Of a cost that was needed where none could be passed on. */
	taut_status failed;
	struct taut_error failure;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for a search");
}

/* --- states ------------------------------------------------------------------------*/

/* The hash of a state is the sum of its sites' hashes, so that a set costs the same
 * in a space of any size. */
static uint64_t hash_of(uint32_t site, uint8_t option)
{
	return tauti_hash_mix(((uint64_t)site << 8 | option) ^ TAUTI_HASH_A,
		TAUTI_HASH_B ^ (uint64_t)option << 32);
}

static taut_status set_one(struct tauti_search *s, uint32_t site, uint8_t option,
	struct taut_error *err)
{
	uint64_t *word = &s->key[s->first_bit[site] / 64];
	uint32_t shift = s->first_bit[site] % 64;
	taut_status status;

	assert(option < s->space->n_options[site]);
	if (s->at[site] == option)
		return TAUT_OK;
	status = s->space->ops->set(s->space->self, site, option, err);
	if (status)
		return status;
	*word += (uint64_t)option << shift;
	*word -= (uint64_t)s->at[site] << shift;
	s->hash += hash_of(site, option) - hash_of(site, s->at[site]);
	s->at[site] = option;
	s->is_fresh = false;
	return TAUT_OK;
}

static bool uses_mirrors(const struct tauti_search *s)
{
	return s->image && !s->options.no_mirror && s->view != TAUTI_VIEW_ALL;
}

taut_status tauti_search_set(struct tauti_search *search, uint32_t site,
	uint8_t option, struct taut_error *err)
{
	taut_status status = set_one(search, site, option, err);

	if (!uses_mirrors(search))
		return status;
	for (uint32_t i = search->image[site]; !status && i != site;
		i = search->image[i])
		if (option < search->space->n_options[i])
			status = set_one(search, i, option, err);
	return status;
}

taut_status tauti_search_go(struct tauti_search *search, const uint8_t *options,
	struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < search->space->n_sites; i++)
		if (search->at[i] != options[i])
			status = set_one(search, i, options[i], err);
	return status;
}

uint8_t tauti_search_at(const struct tauti_search *search, uint32_t site)
{
	return search->at[site];
}

/* --- costs -------------------------------------------------------------------------*/

static void note_best(struct tauti_search *s, const struct tauti_found *found)
{
	memcpy(s->best_options, s->at, s->space->n_sites);
	s->best = *found;
	s->best.options = s->best_options;
}

static bool sees_enough(struct tauti_search *s, bool is_better)
{
	int64_t now_ns;

	if (!s->options.see)
		return false;
	now_ns = tauti_now_ns();
	if (!is_better && now_ns - s->saw_ns < SEE_EVERY_NS)
		return false;
	s->saw_ns = now_ns;
	return s->options.see(s->options.context, s);
}

static taut_status note(struct tauti_search *s, const struct tauti_cost *cost,
	struct taut_error *err)
{
	struct tauti_found found = { s->at, *cost, s->n_costs,
		tauti_search_seconds(s) };
	bool is_better = tauti_cost_less(cost, &s->best.cost);
	taut_status status;

	if (!s->options.no_memory &&
		!tauti_memo_add(&s->memo, s->hash, s->key, cost))
		return no_memory(err);
	status = tauti_frontier_add(&s->frontier, &found, err);
	if (status)
		return status;
	if (is_better)
		note_best(s, &found);
	s->is_over = sees_enough(s, is_better);
	return TAUT_OK;
}

static taut_status over(struct tauti_search *s, struct taut_error *err)
{
	s->is_over = true;
	return taut_error_set(err, TAUT_EAGAIN, -1, "the search is over");
}

static bool is_late(const struct tauti_search *s)
{
	return s->options.budget_s > 0 &&
		tauti_search_seconds(s) >= s->options.budget_s;
}

static taut_status ask_space(struct tauti_search *s, struct tauti_cost *ret_cost,
	struct taut_error *err)
{
	taut_status status;

	if (s->options.most_costs && s->n_costs >= s->options.most_costs)
		return over(s, err);
	status = s->space->ops->cost(s->space->self, ret_cost, err);
	if (status)
		return status;
	s->n_costs++;
	s->is_fresh = true;
	return TAUT_OK;
}

taut_status tauti_search_cost(struct tauti_search *search,
	struct tauti_cost *ret_cost, struct taut_error *err)
{
	const struct tauti_cost *seen = NULL;
	struct tauti_cost cost;
	taut_status status;

	if (search->failed) {
		if (err)
			*err = search->failure;
		return search->failed;
	}
	if (search->is_over || is_late(search))
		return over(search, err);
	if (!search->options.no_memory)
		seen = tauti_memo_find(
			&search->memo, search->hash, search->key);
	if (seen) {
		*ret_cost = *seen;
		return TAUT_OK;
	}
	status = ask_space(search, &cost, err);
	if (!status)
		status = note(search, &cost, err);
	if (!status)
		*ret_cost = cost;
	return status;
}

/* For what a space knows of the state that it costed last. */
static bool make_fresh(struct tauti_search *s)
{
	struct tauti_cost cost;
	taut_status status;

	if (s->is_fresh)
		return true;
	if (s->is_over || s->failed)
		return false;
	status = ask_space(s, &cost, &s->failure);
	if (status && status != TAUT_EAGAIN)
		s->failed = status;
	return !status;
}

/* --- sites -------------------------------------------------------------------------*/

bool tauti_search_view(struct tauti_search *search, enum tauti_view view)
{
	search->view = view;
	if (view == TAUTI_VIEW_COARSE)
		return search->space->coarse && !search->options.no_coarse;
	return view == TAUTI_VIEW_ALL ||
		(search->image && !search->options.no_mirror);
}

static bool is_seen(const struct tauti_search *s, uint32_t site, uint32_t pass)
{
	const struct tauti_space *space = s->space;

	if (space->n_options[site] < 2 ||
		(pass != TAUT_NONE && space->pass[site] != pass))
		return false;
	return s->view != TAUTI_VIEW_COARSE || s->options.no_coarse ||
		!space->coarse || space->coarse[site];
}

/* Once, and none of its images. */
static void list(struct tauti_search *s, uint32_t site, uint32_t pass,
	uint32_t *sites, uint32_t *n)
{
	uint32_t i = site;

	if (s->is_listed[site] || !is_seen(s, site, pass))
		return;
	sites[(*n)++] = site;
	do {
		s->is_listed[i] = 1;
		i = uses_mirrors(s) ? s->image[i] : site;
	} while (i != site);
}

static uint32_t ask_critical(struct tauti_search *s)
{
	if (s->options.no_critical || !s->space->ops->critical ||
		!make_fresh(s))
		return TAUT_NONE;
	return s->space->ops->critical(
		s->space->self, s->critical, s->space->n_sites);
}

/* n_asked: so many of search->critical come first; TAUT_NONE: they are not known. */
static uint32_t list_all(struct tauti_search *search, uint32_t n_asked,
	uint32_t pass, uint32_t *ret_sites)
{
	uint32_t n = 0;

	memset(search->is_listed, 0, search->space->n_sites);
	for (uint32_t i = 0; n_asked != TAUT_NONE && i < n_asked; i++)
		list(search, search->critical[i], pass, ret_sites, &n);
	search->n_critical = n;
	for (uint32_t i = 0; i < search->space->n_sites; i++)
		list(search, i, pass, ret_sites, &n);
	if (n_asked == TAUT_NONE)
		search->n_critical = n;
	return n;
}

uint32_t tauti_search_sites(struct tauti_search *search, uint32_t pass,
	uint32_t *ret_sites)
{
	return list_all(search, ask_critical(search), pass, ret_sites);
}

uint32_t tauti_search_any_sites(struct tauti_search *search, uint32_t pass,
	uint32_t *ret_sites)
{
	return list_all(search, TAUT_NONE, pass, ret_sites);
}

uint32_t tauti_search_n_critical(const struct tauti_search *search)
{
	return search->n_critical;
}

enum tauti_rule tauti_search_rule(
	struct tauti_search *search, uint32_t site, uint8_t option)
{
	/* A rule speaks of one site alone. */
	if (search->options.no_rules || !search->space->ops->rule ||
		(uses_mirrors(search) && search->image[site] != site) ||
		!make_fresh(search))
		return TAUTI_RULE_NONE;
	return search->space->ops->rule(search->space->self, site, option);
}

/* SplitMix, by Steele, Lea and Flood (OOPSLA 2014); its upper half, scaled. */
uint32_t tauti_search_random(struct tauti_search *search, uint32_t n)
{
	uint64_t x = search->random += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	x ^= x >> 31;
	return (uint32_t)((x >> 32) * n >> 32);
}

/* --- life --------------------------------------------------------------------------*/

static bool join_images(struct tauti_search *s)
{
	uint32_t n = s->space->n_sites;
	uint32_t *last = TAUT_ARENA_ARRAY(s->arena, uint32_t, n + 1);

	s->image = TAUT_ARENA_ARRAY(s->arena, uint32_t, n + 1);
	if (!last || !s->image)
		return false;
	for (uint32_t i = 0; i < n; i++)
		last[i] = TAUT_NONE;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t *of = &last[s->space->mirror[i]];

		s->image[i] = i;
		if (*of != TAUT_NONE) {
			s->image[i] = s->image[*of];
			s->image[*of] = i;
		}
		*of = i;
	}
	return true;
}

static bool make_arrays(struct tauti_search *s)
{
	uint32_t n = s->space->n_sites;

	s->at = TAUT_ARENA_ARRAY(s->arena, uint8_t, n + 1);
	s->first_bit = TAUT_ARENA_ARRAY(s->arena, uint32_t, n + 1);
	s->critical = TAUT_ARENA_ARRAY(s->arena, uint32_t, n + 1);
	s->is_listed = TAUT_ARENA_ARRAY(s->arena, uint8_t, n + 1);
	s->best_options = TAUT_ARENA_ARRAY(s->arena, uint8_t, n + 1);
	s->start.options = TAUT_ARENA_ARRAY(s->arena, uint8_t, n + 1);
	if (!s->at || !s->first_bit || !s->critical || !s->is_listed ||
		!s->best_options || !s->start.options)
		return false;
	s->memo.n_words = tauti_memo_lay_out(
		s->space->n_options, n, s->first_bit);
	s->memo.most = MEMO_BYTES / (sizeof(struct tauti_memo_entry) +
		s->memo.n_words * sizeof *s->key + 4 * sizeof(uint32_t));
	s->key = TAUT_ARENA_ARRAY(s->arena, uint64_t, s->memo.n_words);
	return s->key && (!s->space->mirror || join_images(s));
}

/* Every site as it is, which is what the arrays begin with. */
static taut_status begin(struct tauti_search *s, struct taut_error *err)
{
	struct tauti_cost cost;
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; !status && i < s->space->n_sites; i++)
		status = s->space->ops->set(s->space->self, i, 0, err);
	if (!status)
		status = ask_space(s, &cost, err);
	if (status)
		return status;
	s->start.cost = cost;
	s->start.nth = s->n_costs;
	s->start.after_s = tauti_search_seconds(s);
	note_best(s, &s->start);
	s->saw_ns = tauti_now_ns();
	return note(s, &cost, err);
}

taut_status tauti_search_create(const struct tauti_space *space,
	const struct tauti_search_options *options,
	struct tauti_search **ret_search, struct taut_error *err)
{
	struct tauti_search *s = calloc(1, sizeof *s);
	taut_status status;

	if (!s)
		return no_memory(err);
	s->space = space;
	s->options = *options;
	s->random = options->seed;
	s->began_ns = options->began_ns ? options->began_ns : tauti_now_ns();
	s->arena = s->frontier.arena = taut_arena_create();
	s->frontier.n_sites = space->n_sites;
	status = s->arena && make_arrays(s) ? begin(s, err) : no_memory(err);
	if (status)
		tauti_search_destroy(s);
	else
		*ret_search = s;
	return status;
}

void tauti_search_destroy(struct tauti_search *search)
{
	if (!search)
		return;
	tauti_memo_fini(&search->memo);
	tauti_frontier_fini(&search->frontier);
	taut_arena_destroy(search->arena);
	free(search);
}

void tauti_search_limit(struct tauti_search *search, double budget_s)
{
	search->options.budget_s = budget_s;
}

/* --- runs --------------------------------------------------------------------------*/

static taut_status unknown(const char *name, struct taut_error *err)
{
	const char *names[16], *near;
	size_t n = 0;

	for (; tauti_strategies[n]; n++) {
		assert(n < sizeof names / sizeof *names);
		names[n] = tauti_strategies[n]->name;
	}
	near = tauti_nearest(name, names, n);
	return taut_error_set(err, TAUT_EINVAL, -1,
		"there is no strategy %s%s%s%s", name,
		near ? " (did you mean " : "", near ? near : "",
		near ? "?)" : "");
}

taut_status tauti_search_run(struct tauti_search *search, const char *strategy,
	struct taut_error *err)
{
	const struct tauti_strategy *const *how = tauti_strategies;
	taut_status status;

	while (*how && strcmp((*how)->name, strategy) != 0)
		how++;
	if (!*how)
		return unknown(strategy, err);
	tauti_search_view(search, TAUTI_VIEW_COARSE);
	status = (*how)->run(search, err);
	if (status && status != TAUT_EAGAIN)
		return status;
	return tauti_search_go(search, search->best_options, err);
}

/* --- what was found ----------------------------------------------------------------*/

const struct tauti_found *tauti_search_best(const struct tauti_search *search)
{
	return &search->best;
}

const struct tauti_found *tauti_search_start(const struct tauti_search *search)
{
	return &search->start;
}

uint64_t tauti_search_costs(const struct tauti_search *search)
{
	return search->n_costs;
}

double tauti_search_seconds(const struct tauti_search *search)
{
	return (double)(tauti_now_ns() - search->began_ns) / 1e9;
}

const struct tauti_found *tauti_search_frontier(
	const struct tauti_search *search, uint32_t *ret_n)
{
	*ret_n = (uint32_t)search->frontier.found.count;
	return search->frontier.found.data;
}

const struct tauti_space *tauti_search_space(const struct tauti_search *search)
{
	return search->space;
}

const struct tauti_search_options *tauti_search_options(
	const struct tauti_search *search)
{
	return &search->options;
}

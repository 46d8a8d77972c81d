/* search.h - a search of a space (space.h): the best state so far at any moment,
 * and the frontier of step time, memory and network.
 *
 *     struct tauti_search *s;
 *     tauti_search_create(&space, &options, &s, err);
 *     tauti_search_run(s, "joint", err);        // any number of strategies
 *     const struct tauti_found *best = tauti_search_best(s);
 *
 * A strategy is one file and one row of strategies.c. It moves by
 * tauti_search_set() and asks by tauti_search_cost(), which counts, remembers what
 * it has seen, keeps the best, and says when to stop; so no strategy can end with
 * less than the best that any has seen, and the first state that is costed is the
 * one with every site as it is. All random numbers are from options.seed: the same
 * seed and space give the same search wherever most_costs ends it, on any machine.
 *
 * Owner:   a search owns its states, borrows the space, and leaves it in its best
 *          state.
 * Threads: one at a time.
 * Errors:  TAUT_ENOMEM; TAUT_EINVAL: no strategy of that name (names the nearest). */
#ifndef TAUT_PLAN_SEARCH_H
#define TAUT_PLAN_SEARCH_H

#include "plan/space.h"

struct tauti_search;

struct tauti_found {
	const uint8_t *options; /* by site */
	struct tauti_cost cost;
	uint64_t nth;       /* the nth state that was costed */
	double after_s;     /* since the search began */
};

struct tauti_search_options { /* zero is every field's default */
	double budget_s;     /* 0: no limit */
	int64_t began_ns;    /* of tauti_now_ns(), where it began before; 0: now */
	uint64_t most_costs; /* 0: no limit; states that were remembered count not */
	uint64_t seed;
	/* What is not used, for ablations. */
	bool no_rules, no_critical, no_mirror, no_coarse, no_memory;
	double alpha;        /* backtrack: keeps what costs at most alpha times the
	                        best; 0: 1.05 */
	uint32_t beta;       /* backtrack: at most so many random changes at once;
	                        0: 10 */
	/* At each new best after the start, and now and then; true: stop. May be
	 * NULL. */
	bool (*see)(void *context, const struct tauti_search *search);
	void *context;
};

taut_status tauti_search_create(const struct tauti_space *space,
	const struct tauti_search_options *options,
	struct tauti_search **ret_search, struct taut_error *err);
void tauti_search_destroy(struct tauti_search *search); /* NULL is fine */
/* From now on that is its budget: what was costed before had none. */
void tauti_search_limit(struct tauti_search *search, double budget_s);

/* Runs until the strategy ends, or budget, most_costs or see() end it. */
taut_status tauti_search_run(struct tauti_search *search, const char *strategy,
	struct taut_error *err);

const struct tauti_found *tauti_search_best(const struct tauti_search *search);
/* With every site as it is. */
const struct tauti_found *tauti_search_start(const struct tauti_search *search);
uint64_t tauti_search_costs(const struct tauti_search *search);
double tauti_search_seconds(const struct tauti_search *search);
/* States of which no other seen is better in one of step, memory and network and
 * no worse in the others; by step, the shortest first, which is the best. Unknown
 * ones are alike, and of states that cost the same the first stays. */
const struct tauti_found *tauti_search_frontier(
	const struct tauti_search *search, uint32_t *ret_n);

/* --- for strategies ---------------------------------------------------------------- */
const struct tauti_space *tauti_search_space(const struct tauti_search *search);
const struct tauti_search_options *tauti_search_options(
	const struct tauti_search *search);
uint8_t tauti_search_at(const struct tauti_search *search, uint32_t site);
/* Which of the sites are seen, and whether images move together. */
enum tauti_view {
	TAUTI_VIEW_COARSE,   /* of the coarsened view, with their images */
	TAUTI_VIEW_MIRRORED, /* all, with their images */
	TAUTI_VIEW_ALL,      /* all, each by itself */
	TAUTI_VIEWS
};
/* A run begins with TAUTI_VIEW_COARSE. false: this view shows nothing that the next
 * one does not, for there is no coarsened view, or no images, or they are not used:
 * go on to the next one. */
bool tauti_search_view(struct tauti_search *search, enum tauti_view view);
/* Sets the site, and its images where mirrors are used. */
taut_status tauti_search_set(struct tauti_search *search, uint32_t site,
	uint8_t option, struct taut_error *err);
/* All sites at once; sets only those that differ. */
taut_status tauti_search_go(struct tauti_search *search, const uint8_t *options,
	struct taut_error *err);
/* TAUT_EAGAIN: the search is over, end in turn; ret_cost is untouched. */
taut_status tauti_search_cost(struct tauti_search *search,
	struct tauti_cost *ret_cost, struct taut_error *err);
/* Sites that may be tried now: of the pass (TAUT_NONE: any), of the view, one of each
 * set of images, critical ones first. Fills n_sites ids at most. Sites and rules are
 * of the present state: where that was not the last to be costed, it is costed once
 * more, so ask for all of them before the first try. */
uint32_t tauti_search_sites(struct tauti_search *search, uint32_t pass,
	uint32_t *ret_sites);
/* The same in the order of their ids, for who takes any of them alike: nothing is asked of
 * the present state, which so need not be costed. */
uint32_t tauti_search_any_sites(struct tauti_search *search, uint32_t pass,
	uint32_t *ret_sites);
/* How many of those that were filled in last are critical; they are its first. All,
 * where nothing is known of that. */
uint32_t tauti_search_n_critical(const struct tauti_search *search);
enum tauti_rule tauti_search_rule(
	struct tauti_search *search, uint32_t site, uint8_t option);
/* 0 <= x < n, from the search's seed. */
uint32_t tauti_search_random(struct tauti_search *search, uint32_t n);

struct tauti_strategy {
	const char *name, *summary, *source;
	/* Begins at the present state. Passes TAUT_EAGAIN on. */
	taut_status (*run)(struct tauti_search *search, struct taut_error *err);
};
/* NULL-terminated, in the order of the help. */
extern const struct tauti_strategy *const tauti_strategies[];

#endif /* TAUT_PLAN_SEARCH_H */

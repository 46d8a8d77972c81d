/* climb.h - what strategies share: a state that is kept, and tries from there.
 *
 * A try sets some sites and then keeps or takes back. What costs less (by step,
 * then memory, then network) is kept, and nothing else, so a climb ends.
 *
 * Owner:   whoever holds the struct; the search is borrowed.
 * Threads: one at a time.
 * Errors:  TAUT_ENOMEM; TAUT_EAGAIN: the search is over. */
#ifndef TAUT_PLAN_CLIMB_H
#define TAUT_PLAN_CLIMB_H

#include "plan/frontier.h"

struct tauti_climb {
	struct tauti_search *search;
	const struct tauti_space *space;
	struct taut_arena *arena;
	uint8_t *here;          /* the state that is kept */
	struct tauti_cost cost; /* its */
	/* Of tauti_climb_list(): the first n_critical are critical. */
	uint32_t *sites, n_sites, n_critical;
	uint8_t **rules;        /* by site, by option: enum tauti_rule */
	uint8_t *is_tried;      /* by site, in this sweep */
	/* All sites by where they stand in their pass, from its first to its last, so
	 * that sites of different passes that touch one place are near each other;
	 * and by site, where it is there. */
	uint32_t *line, *line_at;
	/* By site: a sweep tries no others. One that is kept opens those near it. */
	uint8_t *is_open;
	bool is_narrow; /* uses is_open */
};

/* Begins at the present state. fini after a failed init, too. */
taut_status tauti_climb_init(struct tauti_climb *climb,
	struct tauti_search *search, struct taut_error *err);
void tauti_climb_fini(struct tauti_climb *climb);
/* Keeps this state, whatever it costs. */
taut_status tauti_climb_from(struct tauti_climb *climb, const uint8_t *options,
	struct taut_error *err);
/* Keeps the present state, which costs that. */
void tauti_climb_stay(struct tauti_climb *climb, const struct tauti_cost *cost);
/* Keeps the present state if it costs less, or goes back. */
taut_status tauti_climb_keep(struct tauti_climb *climb, bool *ret_is_better,
	struct taut_error *err);
/* The sites of the pass (TAUT_NONE: of all) and their rules, from here. */
void tauti_climb_list(struct tauti_climb *climb, uint32_t pass);
/* All that is proven of the first n_sites of them at once, at the cost of one look: each is
 * proven by itself alone, so together they may be worse, and then each has to be tried.
 * Where they are taken, lists anew. */
taut_status tauti_climb_take_proven(struct tauti_climb *climb, uint32_t n_sites,
	uint32_t pass, struct taut_error *err);
/* Sites one by one, until no change of one alone is better. */
taut_status tauti_climb_up(
	struct tauti_climb *climb, uint32_t pass, struct taut_error *err);
/* The same in each view, the coarsest first. */
taut_status tauti_climb_views(
	struct tauti_climb *climb, uint32_t pass, struct taut_error *err);
/* Both changed, to any options. Ends at the first that is better. */
taut_status tauti_climb_pair(struct tauti_climb *climb, uint32_t a, uint32_t b,
	bool *ret_is_better, struct taut_error *err);

/* This site and those near it. */
void tauti_climb_open(struct tauti_climb *climb, uint32_t site);

/* Another option than it has now; the site has two at least. */
uint8_t tauti_climb_other(struct tauti_search *search, uint32_t site);

#endif /* TAUT_PLAN_CLIMB_H */

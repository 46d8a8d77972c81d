/* space.h - what a search sees of what it searches: sites, each of which takes one
 * of a few options. Fusing two operators, letting two gradients travel together,
 * the pieces of a gradient, the number of loader workers: each is a site.
 *
 *     strategy --set--> space --cost--> what a step takes then
 *
 * A space is a const table of functions over its own memory; a strategy knows
 * nothing else of it, and a space nothing of strategies. The state of a space is
 * what each site was set to last; option 0 is as it is. Setting a site costs what
 * that touches; setting it back leaves no trace (the costs are those of before, to
 * the nanosecond).
 *
 * Owner:   whoever made it; strategies borrow it.
 * Threads: one at a time.
 * Errors:  TAUT_ENOMEM. What cannot be, or breaks a constraint, is no error but a
 *          cost of TAUTI_NEVER.
 * Units:   nanoseconds, bytes. */
#ifndef TAUT_PLAN_SPACE_H
#define TAUT_PLAN_SPACE_H

#include <stdbool.h>

#include <taut/base.h>

#define TAUTI_NEVER INT64_MAX

struct tauti_cost {
	int64_t step_ns;       /* TAUTI_NEVER: this state cannot be */
	int64_t memory_bytes;  /* peak of the rank that needs most; -1: not known */
	int64_t network_bytes; /* sent in a step, all ranks; -1: not known */
};

enum tauti_rule {
	TAUTI_RULE_NONE,   /* it has to be tried */
	TAUTI_RULE_WORSE,  /* proven: no better than the present state */
	TAUTI_RULE_BETTER, /* proven: no worse than the present state */
};

struct tauti_space_ops {
	/* Does not look at the cost. option < n_options[site]. */
	taut_status (*set)(void *self, uint32_t site, uint8_t option,
		struct taut_error *err);
	/* Of the present state. */
	taut_status (*cost)(void *self, struct tauti_cost *ret_cost,
		struct taut_error *err);
	/* What is known, without a replay, of the present state with this site at
	 * this option instead. May be NULL: nothing ever. After a cost(). */
	enum tauti_rule (*rule)(void *self, uint32_t site, uint8_t option);
	/* The sites on which the present step's length hangs (they touch its
	 * critical path), those that matter most first; how many were written, at
	 * most `most`. May be NULL: all are alike. After a cost(). */
	uint32_t (*critical)(void *self, uint32_t *ret_sites, uint32_t most);
};

struct tauti_space {
	const struct tauti_space_ops *ops;
	void *self;
	uint32_t n_sites;
	const uint8_t *n_options; /* by site; at least 1 */
	/* By site: the pass that it is of (operator fusion, tensor fusion,
	 * partition): 0 .. n_passes - 1. */
	const uint32_t *pass;
	uint32_t n_passes;
	const char *const *pass_names;
	/* By site: sites with one number are images of each other (the same place
	 * in repeated blocks of a model), and take the same options; NULL: each
	 * stands alone. Numbers are 0 .. n_sites - 1. */
	const uint32_t *mirror;
	/* By site: 1 where the coarsened view keeps it; NULL: keeps all. */
	const uint8_t *coarse;
};

#endif /* TAUT_PLAN_SPACE_H */

/* stacks.h - the changes that a recorded job can be given, as a space of stacks:
 * each site is a thing to decide on, each option a change in the words of
 * taut/whatif.h, or nothing. The cost of a state is what the replay of the
 * recording with its stack says.
 *
 * An option that the recording refuses (no loader was seen, no gradients) is no
 * option; a note says why. States that come to the same stack are replayed once.
 *
 * Owner:   stacks own all that they point to, and borrow the graph.
 * Threads: one at a time. */
#ifndef TAUT_PLAN_STACKS_H
#define TAUT_PLAN_STACKS_H

#include "plan/plan.h"
#include "plan/space.h"

enum { TAUTI_STACK_MOST = TAUTI_MOST_CHANGES };

struct tauti_stack { /* changes in the order in which they are laid */
	const char *changes[TAUTI_STACK_MOST + 1];
	size_t n;
};

struct tauti_stacks;

/* Replays each option alone, and tells options->see of each. */
taut_status tauti_stacks_create(const struct taut_graph *graph,
	const struct taut_plan_options *options,
	struct tauti_stacks **ret_stacks, struct taut_error *err);
void tauti_stacks_destroy(struct tauti_stacks *stacks); /* NULL is fine */

const struct tauti_space *tauti_stacks_space(const struct tauti_stacks *stacks);
/* see() said stop: options that were not replayed by then are none. */
bool tauti_stacks_is_stopped(const struct tauti_stacks *stacks);
const struct taut_plan_job *tauti_stacks_job(const struct tauti_stacks *stacks);
/* What was given, and what options (by site) decide. */
taut_status tauti_stacks_at(const struct tauti_stacks *stacks,
	const uint8_t *options, struct tauti_stack *ret_stack,
	struct taut_error *err);
/* The same without what decides on gradients one by one. */
void tauti_stacks_plain(const struct tauti_stacks *stacks, uint8_t *options);
/* The same with the usual pieces, where a job's steps end with all gradients summed, so
 * that no order of them is better than another. False: it is no such job. */
bool tauti_stacks_usual(const struct tauti_stacks *stacks, uint8_t *options);
/* The same with the ith way to narrow gradients that keeps more of their bits. False:
 * there is none. */
bool tauti_stacks_milder(
	const struct tauti_stacks *stacks, uint8_t i, uint8_t *options);
/* The first of a stack's changes that was decided. */
size_t tauti_stacks_given(const struct tauti_stacks *stacks);
/* Of any stack; TAUTI_NEVER where the recording refuses it. Remembered. */
taut_status tauti_stacks_cost(struct tauti_stacks *stacks,
	const struct tauti_stack *stack, struct tauti_cost *ret_cost,
	struct taut_error *err);
/* How many stacks were replayed. */
uint64_t tauti_stacks_replayed(const struct tauti_stacks *stacks);
/* Which options there are not, and why. */
const char *const *tauti_stacks_notes(
	const struct tauti_stacks *stacks, uint32_t *ret_n);
/* What each option alone comes to: by site, the least of its options but 0;
 * TAUTI_NEVER where it has none. */
int64_t tauti_stacks_alone(const struct tauti_stacks *stacks, uint32_t site);
/* The state of that. False: it has none. */
bool tauti_stacks_best_alone(const struct tauti_stacks *stacks, uint32_t site,
	uint8_t *ret_options);
/* States worth a look before any search: what is best alone, all together, by the
 * framework's exchange (0), by Taut's (1), and by that with pieces of each size and the
 * least credit for them (2 ...): how fast the link is says which. False: there is no such
 * state. */
bool tauti_stacks_seed(const struct tauti_stacks *stacks, uint32_t which,
	uint8_t *ret_options);
/* "compress"; the same text for sites that are decided together. */
const char *tauti_stacks_site_name(
	const struct tauti_stacks *stacks, uint32_t site);

#endif /* TAUT_PLAN_STACKS_H */

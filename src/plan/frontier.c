/* frontier.c - see frontier.h. */
#include "plan/frontier.h"

#include <string.h>

void tauti_frontier_fini(struct tauti_frontier *frontier)
{
	taut_vec_free(&frontier->found);
	taut_vec_free(&frontier->spare);
}

static bool no_worse(const struct tauti_cost *a, const struct tauti_cost *b)
{
	return a->step_ns <= b->step_ns &&
		tauti_cost_size(a->memory_bytes) <=
			tauti_cost_size(b->memory_bytes) &&
		tauti_cost_size(a->network_bytes) <=
			tauti_cost_size(b->network_bytes);
}

static bool is_beaten(
	const struct tauti_frontier *frontier, const struct tauti_cost *cost)
{
	for (size_t i = 0; i < frontier->found.count; i++)
		if (no_worse(&frontier->found.data[i].cost, cost))
			return true;
	return false;
}

/* Room was made: a spare for each that may go. */
static void remove_beaten(
	struct tauti_frontier *frontier, const struct tauti_cost *by)
{
	size_t kept = 0;

	for (size_t i = 0; i < frontier->found.count; i++) {
		struct tauti_found *f = &frontier->found.data[i];

		if (no_worse(by, &f->cost))
			frontier->spare.data[frontier->spare.count++] =
				(uint8_t *)f->options;
		else
			frontier->found.data[kept++] = *f;
	}
	frontier->found.count = kept;
}

static void insert(
	struct tauti_frontier *frontier, const struct tauti_found *found)
{
	struct tauti_found *all = frontier->found.data;
	size_t at = frontier->found.count++;

	for (; at && tauti_cost_less(&found->cost, &all[at - 1].cost); at--)
		all[at] = all[at - 1];
	all[at] = *found;
}

taut_status tauti_frontier_add(struct tauti_frontier *frontier,
	const struct tauti_found *found, struct taut_error *err)
{
	struct tauti_found mine = *found;
	uint8_t *options;

	if (found->cost.step_ns == TAUTI_NEVER ||
		is_beaten(frontier, &found->cost))
		return TAUT_OK;
	if (!taut_vec_reserve(&frontier->found, 1) ||
		!taut_vec_reserve(&frontier->spare, frontier->found.count + 1))
		goto no_memory;
	if (!frontier->spare.count) {
		options = taut_arena_alloc(
			frontier->arena, frontier->n_sites + 1);
		if (!options)
			goto no_memory;
		frontier->spare.data[frontier->spare.count++] = options;
	}
	options = frontier->spare.data[--frontier->spare.count];
	memcpy(options, found->options, frontier->n_sites);
	mine.options = options;
	remove_beaten(frontier, &mine.cost);
	insert(frontier, &mine);
	return TAUT_OK;
no_memory:
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for a frontier");
}

/* exhaustive.c - every state, one site set at a time: Gray's code for sites of any
 * numbers of options, up and down again. The judge of small spaces. */
#include "plan/strategies/all.h"

#include <string.h>

/* Moves the first site that can go on in its direction, and turns those before it;
 * TAUT_NONE: there is none, all were seen. */
static uint32_t next_site(const struct tauti_search *search, int8_t *direction)
{
	const struct tauti_space *space = tauti_search_space(search);

	for (uint32_t i = 0; i < space->n_sites; i++) {
		int to = tauti_search_at(search, i) + direction[i];

		if (to >= 0 && to < space->n_options[i])
			return i;
		direction[i] = (int8_t)-direction[i];
	}
	return TAUT_NONE;
}

static taut_status visit(struct tauti_search *search, int8_t *direction,
	struct taut_error *err)
{
	struct tauti_cost cost;
	uint32_t site;
	taut_status status;

	do {
		status = tauti_search_cost(search, &cost, err);
		if (status)
			return status;
		site = next_site(search, direction);
		if (site != TAUT_NONE)
			status = tauti_search_set(search, site,
				(uint8_t)(tauti_search_at(search, site) +
					direction[site]), err);
	} while (!status && site != TAUT_NONE);
	return status;
}

static taut_status run(struct tauti_search *search, struct taut_error *err)
{
	uint32_t n = tauti_search_space(search)->n_sites;
	struct taut_arena *arena = taut_arena_create();
	int8_t *direction = arena ? taut_arena_alloc(arena, n + 1) : NULL;
	taut_status status;

	if (!direction) {
		taut_arena_destroy(arena);
		return taut_error_set(
			err, TAUT_ENOMEM, -1, "no memory for a search");
	}
	memset(direction, 1, n);
	tauti_search_view(search, TAUTI_VIEW_ALL);
	status = tauti_search_go(
		search, tauti_search_start(search)->options, err);
	if (!status)
		status = visit(search, direction, err);
	taut_arena_destroy(arena);
	return status;
}

const struct tauti_strategy tauti_strategy_exhaustive = {
	"exhaustive",
	"every state there is; for small spaces",
	"F. Gray, Pulse code communication, US patent 2632058, 1953",
	run,
};

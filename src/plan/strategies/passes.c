/* passes.c - each pass by itself, as tools do that know of one: nothing of the
 * other passes is changed. The best of them is what a search over all has to
 * beat. */
#include "plan/strategies/all.h"

#include <string.h>

static taut_status run(struct tauti_search *search, struct taut_error *err)
{
	struct tauti_climb climb;
	uint8_t *start = NULL;
	taut_status status = tauti_climb_init(&climb, search, err);

	if (status)
		goto fini;
	start = taut_arena_alloc(climb.arena, climb.space->n_sites + 1);
	if (!start) {
		status = taut_error_set(
			err, TAUT_ENOMEM, -1, "no memory for a search");
		goto fini;
	}
	memcpy(start, climb.here, climb.space->n_sites);
	for (uint32_t pass = 0; !status && pass < climb.space->n_passes; pass++) {
		status = tauti_climb_from(&climb, start, err);
		if (!status)
			status = tauti_climb_views(&climb, pass, err);
	}
fini:
	tauti_climb_fini(&climb);
	return status;
}

const struct tauti_strategy tauti_strategy_passes = {
	"passes",
	"each pass by itself, site by site; the best of them",
	"",
	run,
};

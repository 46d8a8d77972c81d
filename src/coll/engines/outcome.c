/* outcome.c - see outcome.h. */
#include "coll/engines/outcome.h"

#include <stdlib.h>

/* What each rank tells all. */
struct outcome {
	uint16_t code; /* TAUT_OK, or a status without its sign */
	uint16_t reason;
	uint32_t peer;
};

static taut_status say(const char *what, uint32_t rank, const struct outcome *of,
	struct taut_error *reterr)
{
	static const char *const reasons[TAUTI_REASONS] = {
		[TAUTI_LATE] = ": it does not answer in time",
		[TAUTI_NO_GREETING] = ": what it says is no greeting",
		[TAUTI_NO_WAY] = ": there is no way to it",
		[TAUTI_BROKEN] = ": it broke" };
	const char *reason = of->reason < TAUTI_REASONS ? reasons[of->reason] : NULL;

	if (of->code == -(int)TAUT_ENOMEM)
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"%s: rank %u has no memory to connect", what, rank);
	if (of->peer == TAUT_NONE)
		return taut_error_set(reterr, TAUT_EIO, -1,
			"%s: rank %u could not connect", what, rank);
	return taut_error_set(reterr, TAUT_EIO, -1,
		"%s: rank %u has no connection to rank %u%s", what, rank, of->peer,
		reason ? reason : "");
}

/* The first for which it went wrong, before those that it summoned. TAUT_NONE: it
 * went well. */
static uint32_t who_speaks(const struct outcome *all, uint32_t n_ranks)
{
	uint32_t summoned = TAUT_NONE;

	for (uint32_t i = 0; i < n_ranks; i++) {
		if (all[i].code && all[i].reason != TAUTI_SUMMONED)
			return i;
		if (all[i].code && summoned == TAUT_NONE)
			summoned = i;
	}
	return summoned;
}

taut_status tauti_conclude(struct tauti_meet *meet, const char *what, uint32_t rank,
	uint32_t n_ranks, const struct tauti_fault *mine, bool *ret_heard,
	struct taut_error *reterr)
{
	const struct outcome own = { (uint16_t)-(int)mine->why.code,
		(uint16_t)mine->reason, mine->peer };
	struct outcome *all = calloc(n_ranks, sizeof *all);
	uint32_t speaks = TAUT_NONE;
	taut_status status;

	if (ret_heard)
		*ret_heard = false;
	if (!all)
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "out of memory");
	status = tauti_meet_gather(meet, &own, sizeof own, all, reterr);
	if (ret_heard)
		*ret_heard = status == TAUT_OK;
	if (status == TAUT_OK)
		speaks = who_speaks(all, n_ranks);
	if (speaks == rank && mine->why.message[0]) {
		if (reterr)
			*reterr = mine->why;
		status = mine->why.code;
	} else if (speaks != TAUT_NONE) {
		status = say(what, speaks, &all[speaks], reterr);
	}
	free(all);
	return status;
}

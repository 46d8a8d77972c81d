/* drag.c - how much slower a rank computes while transfers are under way. */
#include "cost.h"

taut_status tauti_drag_measure(struct taut_costs *costs,
	const int64_t *start_ns, const int64_t *dur_ns, struct taut_error *err)
{
	(void)start_ns;
	(void)dur_ns;
	(void)err;
	costs->drag = 0;
	costs->drag_error = TAUTI_DRAG_UNKNOWN;
	costs->n_drag = 0;
	return TAUT_OK;
}

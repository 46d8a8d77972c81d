/* cost.h - what the files of this folder share.
 * Threads: as taut/cost.h. Units: nanoseconds, bytes. */
#ifndef TAUT_REPLAY_COST_COST_H
#define TAUT_REPLAY_COST_COST_H

#include <stdbool.h>

#include <taut/cost.h>

/* However many transfers are under way, computation goes on at this speed. */
#define TAUTI_LEAST_SPEED 0.1

/* Standard error of a drag of which nothing is known: twice this, 0.274, is
 * what transfers cost kernels beside them on average over models on one sort of
 * GPU (37.8 % more time: 1 - 1/1.378; Echo, arXiv 2412.12487). */
#define TAUTI_DRAG_UNKNOWN 0.137

/* --- site.c ---------------------------------------------------------------------*/
/* Where the ranks of a graph's run stand; arrays of malloc. */
taut_status tauti_site_init(const struct taut_graph *graph,
	struct taut_site *ret_site, struct taut_error *err);
void tauti_site_fini(struct taut_site *site);

/* --- sharing.c --------------------------------------------------------------------*/
static inline uint32_t tauti_member_rank(
	const struct taut_graph *graph, const struct taut_collective *c, uint32_t i)
{
	uint32_t op = graph->member_arrive[c->first_member + i];

	return graph->lanes[graph->lane[op]].trace;
}
/* Does what stands on this lane compute? Host threads of ranks without a
 * device, streams of those with one; no communication, no loader. */
bool tauti_computes(const struct taut_graph *graph, uint32_t lane,
	const uint8_t *has_device);
/* By rank: has it a stream that computes? n_ranks bytes. NULL: no memory. */
uint8_t *tauti_devices(const struct taut_graph *graph, uint32_t n_ranks);

/* --- drag.c -----------------------------------------------------------------------*/
/* Sets costs->drag, drag_error and n_drag from the recorded times; transfers
 * are filled but for core. */
taut_status tauti_drag_measure(struct taut_costs *costs,
	const int64_t *start_ns, const int64_t *dur_ns, struct taut_error *err);

#endif /* TAUT_REPLAY_COST_COST_H */

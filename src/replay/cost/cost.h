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

static inline uint32_t tauti_ranks_of(const struct taut_collective *c)
{
	return c->group_size > 0 ? (uint32_t)c->group_size : c->n_members;
}

/* --- site.c ---------------------------------------------------------------------*/
/* Where the ranks of a graph's run stand; arrays of malloc. */
taut_status tauti_site_init(const struct taut_graph *graph,
	struct taut_site *ret_site, struct taut_error *err);
void tauti_site_fini(struct taut_site *site);
/* Over how many hosts each collective of the graph is spread; ranks that were
 * not recorded count as on hosts of their own. ret_hosts_of: n_collectives. */
taut_status tauti_site_count(const struct taut_graph *graph,
	const struct taut_site *site, uint32_t *ret_hosts_of,
	struct taut_error *err);

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

/* --- law.c -----------------------------------------------------------------------*/
/* Where a law has a rank stand: the first hosts have one more where hosts do not
 * divide ranks. 0 < hosts <= ranks. */
uint32_t tauti_law_host(uint32_t ranks, uint32_t hosts, uint32_t rank);
/* An all-reduce by hosts of one size that are no power of two: its ring has a
 * formula. */
int tauti_law_is_hosts_ring(const struct taut_law_in *in);

/* --- line.c ------------------------------------------------------------------------*/
/* splitmix64: from the same seed the same draws everywhere */
uint64_t tauti_draw(uint64_t *state);
/* The kth smallest from 0 on, k < n; v is reordered: none before it is larger,
 * none behind it is smaller. */
double tauti_select(double *v, uint32_t n, uint32_t k);
/* As taut_line_fit(), for an alpha that is known; n > 0, y is changed. */
taut_status tauti_line_slope(const double *x, double *y, uint32_t n,
	double alpha, struct taut_line *ret_line, struct taut_error *err);

/* --- transfer.c -------------------------------------------------------------------*/
double tauti_link_bytes(const struct taut_law *law, int on_network);
/* What a collective of the recording moves over the link that it uses; 0:
 * nothing, or not known. */
double tauti_moved(const struct taut_costs *costs, uint32_t collective);
/* Of those that have points; NULL: there is none. */
const struct taut_cost_class *tauti_nearest_class(
	const struct taut_costs *costs, const struct taut_law_in *as);

/* --- classes.c ---------------------------------------------------------------------*/
/* When the flow of a collective was under way; INT64_MAX: it has none. */
struct tauti_flow_time {
	int64_t begin_ns, end_ns;
	uint32_t collective;
};
void tauti_flow_times(const struct taut_graph *graph,
	const struct taut_sharing *sharing, const int64_t *start_ns,
	const int64_t *dur_ns, struct tauti_flow_time *ret);
/* Transfers that overlap on a link, by way of each other, get the same number,
 * that of the first of them. By collective. */
taut_status tauti_periods_find(const struct taut_costs *costs,
	const struct tauti_flow_time *times, uint32_t *ret_period_of,
	struct taut_error *err);
/* Fills classes and class_of from the transfers, measured without latency. */
taut_status tauti_classes_find(struct taut_costs *costs,
	const uint32_t *period_of, const double *moved, struct taut_error *err);
/* Fills byte_ns from the transfers as they are. */
taut_status tauti_byte_costs(struct taut_costs *costs,
	const uint32_t *period_of, const double *moved, struct taut_error *err);
/* Messages of a class's own law: its alpha is for so many. */
double tauti_messages_of(const struct taut_cost_class *class);

/* --- drag.c -----------------------------------------------------------------------*/
/* Sets costs->drag, drag_error and n_drag from the recorded times; transfers
 * are filled but for core. */
taut_status tauti_drag_measure(struct taut_costs *costs,
	const struct tauti_flow_time *times, const int64_t *start_ns,
	const int64_t *dur_ns, struct taut_error *err);

#endif /* TAUT_REPLAY_COST_COST_H */

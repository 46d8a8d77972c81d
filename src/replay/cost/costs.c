/* costs.c - what a recording tells: of each transfer the time that it takes of
 * its link when it has it alone, split by a line for its class into latency and
 * rate; of each operation what it takes undisturbed. */
#include <stdlib.h>

#include "cost.h"

/* --- transfers as recorded -----------------------------------------------------------*/

struct learning { /* while the costs are made */
	struct taut_costs *costs;
	struct taut_timeline timeline; /* the recording, replayed */
	int64_t *span_ns;  /* by op: durations in it */
	double *amount;    /* by flow */
	int64_t *latency_ns;
	double *moved;     /* by collective */
	uint32_t *period_of;
	struct tauti_flow_time *times;
	struct taut_error *err;
};

/* A barrier moves nothing, and a group of one has nobody to talk to. */
static bool flows(const struct taut_collective *c)
{
	return c->bytes != 0 && c->kind != TAUT_COLL_BARRIER &&
		(c->n_members > 1 || c->group_size > 1);
}

static void find_transfers(struct learning *l)
{
	const struct taut_graph *g = l->costs->graph;

	for (uint32_t i = 0; i < g->n_collectives; i++) {
		struct taut_transfer *t = &l->costs->transfers[i];
		const struct taut_collective *c = &g->collectives[i];

		t->on_network = l->costs->hosts_of[i] > 1;
		t->amount = flows(c);
		l->moved[i] = tauti_moved(l->costs, i);
	}
}

static taut_status replay_recording(struct learning *l)
{
	const struct taut_graph *g = l->costs->graph;
	const struct taut_replay_edit edit = { .unordered = 1 };
	taut_status status = taut_timeline_init(&l->timeline, g, l->err);

	if (!status)
		status = taut_replay(g, &edit, &l->timeline, l->err);
	for (uint32_t i = 0; !status && i < g->n_ops; i++)
		l->span_ns[i] = l->timeline.end_ns[i] -
			l->timeline.start_ns[i];
	return status;
}

/* Amounts and durations, for the latencies and the drag that transfers have. */
static taut_status measure_with(
	struct learning *l, const struct taut_sharing *sharing)
{
	struct taut_costs *costs = l->costs;
	uint32_t flow = 0;
	taut_status status = taut_sharing_measure(costs->graph, sharing,
		l->timeline.start_ns, l->span_ns, l->amount, l->latency_ns,
		costs->dur_ns, l->err);

	for (uint32_t i = 0; !status && i < costs->graph->n_collectives; i++) {
		struct taut_transfer *t = &costs->transfers[i];

		if (!(t->amount > 0 || t->latency_ns > 0))
			continue;
		t->amount = l->amount[flow];
		t->latency_ns = l->latency_ns[flow];
		flow++;
	}
	return status;
}

/* The first time, also which transfers were under way together. */
static taut_status measure(struct learning *l, bool first)
{
	struct taut_costs *costs = l->costs;
	struct taut_sharing *sharing;
	taut_status status = taut_sharing_create(costs->graph, &costs->site,
		costs->transfers, &sharing, l->err);

	if (status)
		return status;
	if (first) {
		tauti_flow_times(costs->graph, sharing, l->timeline.start_ns,
			l->span_ns, l->times);
		status = tauti_periods_find(
			costs, l->times, l->period_of, l->err);
	}
	if (!status)
		status = measure_with(l, sharing);
	taut_sharing_destroy(sharing);
	return status;
}

static void split_off_latency(struct taut_costs *costs)
{
	for (uint32_t i = 0; i < costs->graph->n_collectives; i++) {
		struct taut_transfer *t = &costs->transfers[i];
		double alpha;

		if (costs->class_of[i] == TAUT_NONE)
			continue;
		alpha = costs->classes[costs->class_of[i]].line.alpha;
		t->latency_ns = (int64_t)(alpha < t->amount ? alpha :
			t->amount);
	}
}

static taut_status learn(struct learning *l)
{
	struct taut_costs *costs = l->costs;
	taut_status status = replay_recording(l);

	if (!status)
		status = tauti_site_count(costs->graph, &costs->site,
			costs->hosts_of, l->err);
	if (!status) {
		find_transfers(l);
		status = measure(l, true);
	}
	if (!status)
		status = tauti_classes_find(
			costs, l->period_of, l->moved, l->err);
	if (!status) {
		split_off_latency(costs);
		status = tauti_drag_measure(costs, l->times,
			l->timeline.start_ns, l->span_ns, l->err);
	}
	for (uint32_t i = 0; !status && i < costs->graph->n_collectives; i++)
		costs->transfers[i].core = costs->drag;
	if (!status)
		status = measure(l, false);
	if (!status)
		status = tauti_byte_costs(
			costs, l->period_of, l->moved, l->err);
	return status;
}

/* --- memory -----------------------------------------------------------------------------*/

static bool learning_init(struct learning *l, const struct taut_graph *g)
{
	size_t n = (size_t)g->n_collectives + 1;

	l->span_ns = calloc((size_t)g->n_ops + 1, sizeof *l->span_ns);
	l->amount = calloc(n, sizeof *l->amount);
	l->latency_ns = calloc(n, sizeof *l->latency_ns);
	l->moved = calloc(n, sizeof *l->moved);
	l->period_of = calloc(n, sizeof *l->period_of);
	l->times = calloc(n, sizeof *l->times);
	return l->span_ns && l->amount && l->latency_ns && l->moved &&
		l->period_of && l->times;
}

static void learning_fini(struct learning *l)
{
	taut_timeline_fini(&l->timeline);
	free(l->span_ns);
	free(l->amount);
	free(l->latency_ns);
	free(l->moved);
	free(l->period_of);
	free(l->times);
}

static bool get_tables(struct taut_costs *costs)
{
	size_t n = (size_t)costs->graph->n_collectives + 1;

	costs->transfers = calloc(n, sizeof *costs->transfers);
	costs->dur_ns = calloc(
		(size_t)costs->graph->n_ops + 1, sizeof *costs->dur_ns);
	costs->classes = calloc(n, sizeof *costs->classes);
	costs->class_of = malloc(n * sizeof *costs->class_of);
	costs->byte_ns = calloc(n, sizeof *costs->byte_ns);
	costs->hosts_of = calloc(n, sizeof *costs->hosts_of);
	return costs->transfers && costs->dur_ns && costs->classes &&
		costs->class_of && costs->byte_ns && costs->hosts_of;
}

taut_status taut_costs_create(const struct taut_graph *graph,
	struct taut_costs **ret_costs, struct taut_error *reterr)
{
	struct taut_costs *costs = calloc(1, sizeof *costs);
	struct learning l = { .costs = costs, .err = reterr };
	taut_status status = TAUT_ENOMEM;

	if (costs) {
		costs->graph = graph;
		status = tauti_site_init(graph, &costs->site, reterr);
	}
	if (!status && (!get_tables(costs) || !learning_init(&l, graph)))
		status = TAUT_ENOMEM;
	if (status == TAUT_ENOMEM)
		taut_error_set(reterr, status, -1,
			"no memory for the costs of %u collectives",
			(unsigned)graph->n_collectives);
	if (!status)
		status = learn(&l);
	learning_fini(&l);
	if (status) {
		taut_costs_destroy(costs);
		return status;
	}
	*ret_costs = costs;
	return TAUT_OK;
}

void taut_costs_destroy(struct taut_costs *costs)
{
	if (!costs)
		return;
	tauti_site_fini(&costs->site);
	free(costs->transfers);
	free(costs->dur_ns);
	free(costs->classes);
	free(costs->class_of);
	free(costs->byte_ns);
	free(costs->hosts_of);
	free(costs);
}

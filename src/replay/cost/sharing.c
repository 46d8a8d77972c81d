/* sharing.c - resources, uses and flows of all collectives.
 *
 * Resources, in this order: of each host the way out, of each host the way in,
 * of each rank its way to the others of its host, of each rank its core, and
 * the backbone where there is one. Ranks of one host do not share their ways to
 * each other: links between devices and copies by threads are each rank's own. */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "cost.h"

struct made { /* the sharing and what it owns */
	struct taut_sharing sharing;
	TAUT_VEC(struct taut_flow_use) uses;
	TAUT_VEC(struct taut_flow) flows;
	double *capacity;
	uint32_t *flow_of, *core_of;
};

struct maker {
	const struct taut_graph *graph;
	const struct taut_site *site;
	struct made *made;
	uint32_t *last_flow; /* by host: the last flow that uses it */
};

static uint32_t local_of(const struct taut_site *site, uint32_t rank)
{
	return 2 * site->n_hosts + rank;
}

static uint32_t core_of(const struct taut_site *site, uint32_t rank)
{
	return 2 * site->n_hosts + site->n_ranks + rank;
}

static uint32_t backbone_of(const struct taut_site *site)
{
	return 2 * site->n_hosts + 2 * site->n_ranks;
}

/* --- lanes -----------------------------------------------------------------------*/

uint8_t *tauti_devices(const struct taut_graph *graph, uint32_t n_ranks)
{
	uint8_t *has = calloc(n_ranks + 1, 1);

	for (uint32_t i = 0; has && i < graph->n_lanes; i++) {
		const struct taut_graph_lane *lane = &graph->lanes[i];

		if (lane->trace < n_ranks && !lane->is_comm &&
			lane->kind == TAUT_LANE_STREAM)
			has[lane->trace] = 1;
	}
	return has;
}

/* A worker of a loader does nothing but prepare batches. Of one that a change
 * put there nothing was recorded. */
static bool loads(const struct taut_graph *graph, uint32_t lane)
{
	const struct taut_graph_lane *l = &graph->lanes[lane];
	const struct taut_trace *t;

	if (!graph->event || !graph->run || l->is_main)
		return false;
	t = &graph->run->traces[l->trace];
	for (uint32_t op = graph->lane_begin[lane];
		op < graph->lane_begin[lane + 1]; op++)
		if (graph->event[op] != TAUT_NONE)
			return t->kind[graph->event[op]] == TAUT_KIND_LOAD;
	return true;
}

bool tauti_computes(const struct taut_graph *graph, uint32_t lane,
	const uint8_t *has_device)
{
	const struct taut_graph_lane *l = &graph->lanes[lane];

	if (l->trace == TAUT_NONE || l->is_comm)
		return false;
	if (has_device[l->trace])
		return l->kind == TAUT_LANE_STREAM;
	return l->kind == TAUT_LANE_THREAD && !loads(graph, lane);
}

static bool place_lanes(struct maker *m)
{
	const struct taut_graph *g = m->graph;
	uint8_t *has_device = tauti_devices(g, m->site->n_ranks);

	for (uint32_t i = 0; has_device && i < g->n_lanes; i++)
		m->made->core_of[i] = tauti_computes(g, i, has_device) ?
			core_of(m->site, g->lanes[i].trace) : TAUT_NONE;
	free(has_device);
	return has_device != NULL;
}

/* --- flows -----------------------------------------------------------------------*/

static bool use(struct maker *m, uint32_t resource, double weight)
{
	struct taut_flow_use u = { resource, weight };

	return taut_vec_push(&m->made->uses, u);
}

/* 1: it sends, 0: it receives, -1: both, or not known. Of two that an edit
 * made, and no recording tells of, the first sends. */
static int direction(const struct taut_graph *g,
	const struct taut_collective *c, uint32_t member)
{
	uint32_t arrive = g->member_arrive[c->first_member + member];
	const struct taut_trace *t;
	const struct taut_comm_args *args;

	if (!g->event || !g->run)
		return -1;
	if (g->event[arrive] == TAUT_NONE)
		return c->n_members == 2 ? member == 0 : -1;
	t = &g->run->traces[g->lanes[g->lane[arrive]].trace];
	args = taut_trace_comm(t, g->event[arrive]);
	if (!args || args->src_rank == args->dst_rank)
		return -1;
	return args->src_rank == t->rank ? 1 :
		args->dst_rank == t->rank ? 0 : -1;
}

/* A send takes the way out of its host and the way into the other's; of all
 * else what leaves a host also comes in. */
static bool use_host(struct maker *m, const struct taut_collective *c,
	uint32_t member, uint32_t rank, uint32_t *n_out)
{
	uint32_t host = m->site->host_of[rank], flow;
	int sends = c->kind == TAUT_COLL_SENDRECV ?
		direction(m->graph, c, member) : -1;
	bool ok = true;

	flow = (uint32_t)m->made->flows.count;
	if (m->last_flow[host] == flow)
		return true;
	m->last_flow[host] = flow;
	if (sends != 0) {
		ok = use(m, host, 1);
		++*n_out;
	}
	return ok && (sends == 1 || use(m, m->site->n_hosts + host, 1));
}

static bool use_links(struct maker *m, const struct taut_collective *c,
	bool on_network)
{
	uint32_t n_out = 0;
	bool ok = true;

	for (uint32_t i = 0; ok && i < c->n_members; i++) {
		uint32_t rank = tauti_member_rank(m->graph, c, i);

		ok = on_network ? use_host(m, c, i, rank, &n_out) :
			use(m, local_of(m->site, rank), 1);
	}
	if (ok && on_network && n_out && m->site->backbone > 0)
		ok = use(m, backbone_of(m->site), n_out);
	return ok;
}

/* The transfers that wait for the last member are one flow; who was done before
 * it came (the root of a broadcast) took his own time. */
static void set_flow(struct maker *m, const struct taut_collective *c,
	uint32_t flow)
{
	const struct taut_graph *g = m->graph;
	uint32_t *flow_of = m->made->flow_of, n = 0;

	for (uint32_t i = g->edge_begin[c->join_op];
		i < g->edge_begin[c->join_op + 1]; i++) {
		uint32_t to = g->edge_to[i];

		if (g->kind[to] == TAUT_OP_TRANSFER) {
			flow_of[to] = flow;
			n++;
		}
	}
	for (uint32_t i = 0; !n && i < c->n_members; i++)
		flow_of[g->member_arrive[c->first_member + i] + 1] = flow;
}

static bool add_flow(struct maker *m, const struct taut_collective *c,
	const struct taut_transfer *t)
{
	struct taut_flow flow = {
		.amount = t->amount, .latency_ns = t->latency_ns,
		.first_use = (uint32_t)m->made->uses.count,
	};
	bool ok = use_links(m, c, t->on_network);

	for (uint32_t i = 0; ok && t->core > 0 && i < c->n_members; i++)
		ok = use(m, core_of(m->site,
			tauti_member_rank(m->graph, c, i)), t->core);
	flow.n_uses = (uint32_t)m->made->uses.count - flow.first_use;
	set_flow(m, c, (uint32_t)m->made->flows.count);
	return ok && taut_vec_push(&m->made->flows, flow);
}

static bool add_flows(struct maker *m, const struct taut_transfer *transfers)
{
	const struct taut_graph *g = m->graph;
	bool ok = true;

	for (uint32_t i = 0; ok && i < g->n_collectives; i++)
		if (transfers[i].amount > 0 || transfers[i].latency_ns > 0)
			ok = add_flow(m, &g->collectives[i], &transfers[i]);
	return ok;
}

/* --- all of it ---------------------------------------------------------------------*/

static void set_capacities(struct made *made, const struct taut_site *site)
{
	for (uint32_t i = 0; i < site->n_hosts; i++) {
		made->capacity[i] = site->hosts[i].up;
		made->capacity[site->n_hosts + i] = site->hosts[i].down;
	}
	for (uint32_t i = 0; i < site->n_ranks; i++) {
		made->capacity[local_of(site, i)] =
			site->hosts[site->host_of[i]].local;
		made->capacity[core_of(site, i)] = site->core[i];
	}
	made->capacity[backbone_of(site)] = site->backbone;
}

static bool get_arrays(struct made *made, const struct taut_graph *graph,
	const struct taut_site *site)
{
	made->capacity = calloc(backbone_of(site) + 1, sizeof(double));
	made->flow_of = malloc(((size_t)graph->n_ops + 1) * sizeof(uint32_t));
	made->core_of = calloc((size_t)graph->n_lanes + 1, sizeof(uint32_t));
	if (!made->capacity || !made->flow_of || !made->core_of)
		return false;
	memset(made->flow_of, 0xff, (size_t)graph->n_ops * sizeof(uint32_t));
	set_capacities(made, site);
	return true;
}

static void point_to_arrays(struct made *made, const struct taut_site *site)
{
	made->sharing = (struct taut_sharing){
		.n_resources = backbone_of(site) + (site->backbone > 0),
		.n_flows = (uint32_t)made->flows.count,
		.n_uses = (uint32_t)made->uses.count,
		.capacity = made->capacity,
		.flows = made->flows.data,
		.uses = made->uses.data,
		.flow_of = made->flow_of,
		.core_of = made->core_of,
		.least_speed = TAUTI_LEAST_SPEED,
	};
}

static taut_status check_site(const struct taut_graph *graph,
	const struct taut_site *site, struct taut_error *err)
{
	for (uint32_t i = 0; i < site->n_hosts; i++)
		if (!(site->hosts[i].up > 0) || !(site->hosts[i].down > 0) ||
			!(site->hosts[i].local > 0))
			return taut_error_set(err, TAUT_EINVAL, -1,
				"host %u: a link of no rate", (unsigned)i);
	for (uint32_t i = 0; i < site->n_ranks; i++)
		if (site->host_of[i] >= site->n_hosts || !(site->core[i] > 0))
			return taut_error_set(err, TAUT_EINVAL, -1,
				"rank %u of the site has no host or no core",
				(unsigned)i);
	for (uint32_t i = 0; i < graph->n_lanes; i++)
		if (graph->lanes[i].trace != TAUT_NONE &&
			graph->lanes[i].trace >= site->n_ranks)
			return taut_error_set(err, TAUT_EINVAL, -1,
				"rank %u of the graph stands on no host",
				(unsigned)graph->lanes[i].trace);
	return TAUT_OK;
}

taut_status taut_sharing_create(const struct taut_graph *graph,
	const struct taut_site *site, const struct taut_transfer *transfers,
	struct taut_sharing **ret_sharing, struct taut_error *reterr)
{
	struct made *made;
	struct maker m = { .graph = graph, .site = site };
	taut_status status = check_site(graph, site, reterr);
	bool ok;

	if (status)
		return status;
	made = m.made = calloc(1, sizeof *made);
	m.last_flow = malloc(((size_t)site->n_hosts + 1) * sizeof(uint32_t));
	ok = made && m.last_flow;
	if (ok)
		memset(m.last_flow, 0xff, site->n_hosts * sizeof(uint32_t));
	ok = ok && get_arrays(made, graph, site) && place_lanes(&m) &&
		add_flows(&m, transfers);
	free(m.last_flow);
	if (!ok) {
		taut_sharing_destroy(made ? &made->sharing : NULL);
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"no memory for what %u collectives share",
			(unsigned)graph->n_collectives);
	}
	point_to_arrays(made, site);
	*ret_sharing = &made->sharing;
	return TAUT_OK;
}

void taut_sharing_destroy(struct taut_sharing *sharing)
{
	struct made *made = (struct made *)sharing; /* its first field */

	if (!made)
		return;
	taut_vec_free(&made->uses);
	taut_vec_free(&made->flows);
	free(made->capacity);
	free(made->flow_of);
	free(made->core_of);
	free(made);
}

/* site.c - which rank stands on which host.
 *
 * Ranks whose recordings name the same host share it. Where no host is named,
 * launchers place ranks in their order, and device d of a host is of its dth
 * rank: ranks with the same (rank - device) share a host. Where neither is
 * known, each rank has a host of its own, so that all its traffic passes the
 * network. */
#include <stdlib.h>
#include <string.h>

#include "cost.h"

/* The device of a trace's first stream; -1: it has none. */
static int64_t device_of(const struct taut_trace *t)
{
	for (uint32_t i = 0; i < t->n_lanes; i++)
		if (t->lanes[i].kind == TAUT_LANE_STREAM &&
			t->lanes[i].pid >= 0)
			return t->lanes[i].pid;
	return -1;
}

static bool is_named(const struct taut_trace *t)
{
	return t->host && t->host[0];
}

static bool same_host(const struct taut_trace *a, const struct taut_trace *b)
{
	int64_t x, y;

	if (is_named(a) || is_named(b))
		return is_named(a) && is_named(b) && !strcmp(a->host, b->host);
	x = device_of(a);
	y = device_of(b);
	return x >= 0 && y >= 0 && x != y && a->rank - x == b->rank - y;
}

/* TAUT_NONE: none yet. */
static uint32_t find_host(
	const struct taut_run *run, const uint32_t *host_of, uint32_t rank)
{
	for (uint32_t i = 0; run && i < rank; i++)
		if (same_host(&run->traces[i], &run->traces[rank]))
			return host_of[i];
	return TAUT_NONE;
}

/* A graph that no recording stands behind has those that its lanes name. */
static uint32_t count_ranks(const struct taut_graph *graph)
{
	uint32_t n = 0;

	if (graph->run)
		return graph->run->n_traces;
	for (uint32_t i = 0; i < graph->n_lanes; i++)
		if (graph->lanes[i].trace != TAUT_NONE &&
			graph->lanes[i].trace >= n)
			n = graph->lanes[i].trace + 1;
	return n;
}

taut_status tauti_site_init(const struct taut_graph *graph,
	struct taut_site *ret_site, struct taut_error *err)
{
	uint32_t n = count_ranks(graph);
	struct taut_site site = {
		.n_ranks = n,
		.hosts = calloc(n + 1, sizeof *site.hosts),
		.host_of = calloc(n + 1, sizeof *site.host_of),
		.core = calloc(n + 1, sizeof *site.core),
	};

	if (!site.hosts || !site.host_of || !site.core) {
		tauti_site_fini(&site);
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory for the hosts of %u ranks", (unsigned)n);
	}
	for (uint32_t i = 0; i < n; i++) {
		uint32_t host = find_host(graph->run, site.host_of, i);

		if (host == TAUT_NONE) {
			host = site.n_hosts++;
			site.hosts[host] = (struct taut_host){ 1, 1, 1 };
		}
		site.host_of[i] = host;
		site.core[i] = 1;
	}
	*ret_site = site;
	return TAUT_OK;
}

void tauti_site_fini(struct taut_site *site)
{
	free(site->hosts);
	free(site->host_of);
	free(site->core);
	*site = (struct taut_site){ 0 };
}

taut_status tauti_site_count(const struct taut_graph *graph,
	const struct taut_site *site, uint32_t *ret_hosts_of,
	struct taut_error *err)
{
	uint32_t *last = malloc(((size_t)site->n_hosts + 1) * sizeof *last);

	if (!last)
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory for %u hosts", (unsigned)site->n_hosts);
	memset(last, 0xff, site->n_hosts * sizeof *last);
	for (uint32_t i = 0; i < graph->n_collectives; i++) {
		const struct taut_collective *c = &graph->collectives[i];
		uint32_t n = 0, ranks = tauti_ranks_of(c);

		for (uint32_t k = 0; k < c->n_members; k++) {
			uint32_t host = site->host_of[
				tauti_member_rank(graph, c, k)];

			n += last[host] != i;
			last[host] = i;
		}
		ret_hosts_of[i] = c->n_members < ranks ?
			n + ranks - c->n_members : n;
	}
	free(last);
	return TAUT_OK;
}

/* state.c - what transformations change beside the edit: ways of collectives,
 * hosts, notes. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "whatif/whatif.h"

enum { NOTE_BYTES = 512 };

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for a change");
}

taut_status tauti_note(struct tauti_whatif *w, struct taut_error *err,
	const char *fmt, ...)
{
	char text[NOTE_BYTES];
	const char *kept;
	va_list args;

	if (w->doubt != TAUTI_DOUBT_NONE)
		return TAUT_OK;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	for (size_t i = 0; i < w->notes.count; i++)
		if (!strcmp(w->notes.data[i], text))
			return TAUT_OK;
	kept = taut_arena_strndup(w->arena, text, strlen(text));
	if (!kept || !taut_vec_push(&w->notes, kept))
		return no_memory(err);
	return TAUT_OK;
}

double tauti_range(const struct tauti_whatif *w, double low, double central,
	double high)
{
	if (w->ranged)
		w->ranged[w->applying] |= (uint8_t)
			((low != central) | (high != central) << 1);
	if (w->doubt != TAUTI_DOUBT_MODEL || w->doubted != w->applying)
		return central;
	return w->side < 0 ? low : w->side > 0 ? high : central;
}

/* --- ways ------------------------------------------------------------------- */

struct tauti_way tauti_way_of(const struct tauti_whatif *w, uint32_t collective)
{
	struct tauti_way way = { .algorithm = TAUT_ALGO_AS_RECORDED };

	if (collective < w->ways.count)
		way = w->ways.data[collective];
	if (way.wire == 0)
		way.wire = 1;
	if (way.core == 0)
		way.core = 1;
	return way;
}

taut_status tauti_set_way(struct tauti_whatif *w, uint32_t collective,
	const struct tauti_way *way, struct taut_error *err)
{
	size_t n = (size_t)collective + 1;

	if (collective == TAUT_NONE)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"no such collective");
	if (w->ways.count < n) {
		if (!taut_vec_reserve(&w->ways, n - w->ways.count))
			return no_memory(err);
		memset(w->ways.data + w->ways.count, 0,
			(n - w->ways.count) * sizeof *w->ways.data);
		w->ways.count = n;
	}
	w->ways.data[collective] = *way;
	return TAUT_OK;
}

taut_status tauti_check_ops(const char *change, double n_ops, double most,
	const char *of_what, struct taut_error *err)
{
	if (n_ops <= TAUTI_MOST_OPS)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EINVAL, -1, "%s: the job would have "
		"%.0f million operations: expected at most %.0f %s", change,
		n_ops / 1e6, most, of_what);
}

/* --- hosts ------------------------------------------------------------------- */

/* A copy of n elements with room for more; NULL: no memory. */
static void *grown(struct tauti_whatif *w, const void *from, uint32_t n,
	size_t size, uint32_t room)
{
	void *to = taut_arena_calloc(w->arena, room, size);

	if (to && n)
		memcpy(to, from, n * size);
	return to;
}

taut_status tauti_add_host(struct tauti_whatif *w, uint32_t like,
	uint32_t *ret_host, struct taut_error *err)
{
	struct taut_site *site = &w->site;

	if (like >= site->n_ranks)
		return taut_error_set(
			err, TAUT_EINVAL, -1, "no host of rank %u", like);
	if (site->n_hosts == w->hosts_room) {
		uint32_t room = 2 * site->n_hosts + 4;
		struct taut_host *hosts = grown(w, site->hosts, site->n_hosts,
			sizeof *hosts, room);

		if (!hosts)
			return no_memory(err);
		site->hosts = hosts;
		w->hosts_room = room;
	}
	site->hosts[site->n_hosts] = site->hosts[site->host_of[like]];
	*ret_host = site->n_hosts++;
	return TAUT_OK;
}

static taut_status make_room(
	struct tauti_whatif *w, uint32_t n_ranks, struct taut_error *err)
{
	struct taut_site *site = &w->site;
	uint32_t room = 2 * n_ranks + 4;
	uint32_t *host_of;
	double *core;

	if (n_ranks <= w->ranks_room)
		return TAUT_OK;
	host_of = grown(w, site->host_of, site->n_ranks, sizeof *host_of, room);
	core = grown(w, site->core, site->n_ranks, sizeof *core, room);
	if (!host_of || !core)
		return no_memory(err);
	site->host_of = host_of;
	site->core = core;
	w->ranks_room = room;
	return TAUT_OK;
}

taut_status tauti_place_rank(struct tauti_whatif *w, uint32_t rank,
	uint32_t host, double core, struct taut_error *err)
{
	struct taut_site *site = &w->site;
	taut_status status = make_room(w, rank + 1, err);

	if (status)
		return status;
	if (host >= site->n_hosts)
		return taut_error_set(err, TAUT_EINVAL, -1, "no host %u", host);
	for (; site->n_ranks <= rank; site->n_ranks++) {
		site->host_of[site->n_ranks] = host;
		site->core[site->n_ranks] = core;
	}
	site->host_of[rank] = host;
	site->core[rank] = core;
	return TAUT_OK;
}

/* As recorded again: of what is not in the edit. */
taut_status tauti_whatif_reset(struct tauti_whatif *w, struct taut_error *err)
{
	const struct taut_site *site = &w->costs->site;
	uint32_t hosts = site->n_hosts + 1, ranks = site->n_ranks + 1;

	w->site = *site;
	w->site.hosts = grown(w, site->hosts, site->n_hosts,
		sizeof *site->hosts, hosts);
	w->site.host_of = grown(w, site->host_of, site->n_ranks,
		sizeof *site->host_of, ranks);
	w->site.core = grown(w, site->core, site->n_ranks, sizeof *site->core,
		ranks);
	if (!w->site.hosts || !w->site.host_of || !w->site.core)
		return no_memory(err);
	w->hosts_room = hosts;
	w->ranks_room = ranks;
	w->latency = 1;
	w->latency_add_ns = 0;
	w->no_transfers = false;
	taut_vec_clear(&w->ways);
	w->waits = NULL;
	w->waits_room = 0;
	w->samples_factor = 1;
	w->schedule = NULL;
	w->rows = NULL;
	w->pipes = NULL;
	w->gaps = NULL;
	w->sums = NULL;
	w->again = NULL;
	w->parts = w->rounds = 1;
	w->loads_laid = false;
	w->mains = TAUT_ARENA_ARRAY(w->arena, struct tauti_mains, 1);
	if (!w->mains)
		return no_memory(err);
	for (uint32_t i = 0; w->memory && i < w->memory->n_blocks; i++)
		w->block_scale[i] = 1;
	return TAUT_OK;
}

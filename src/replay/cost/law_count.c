/* law_count.c - laws counted from schedules: what the ranks would do, and no formula
 * of it. */
#include <stdlib.h>

#include <taut/play.h>

#include "cost.h"

/* AUTO: there is none, or a formula says the same for less, for each rank has about as
 * many messages as there are ranks or hosts. */
static enum taut_coll_way way_of(const struct taut_law_in *in)
{
	bool spreads = in->kind == TAUT_COLL_BROADCAST;

	switch (in->algorithm) {
	case TAUT_ALGO_DIRECT:
		return spreads ? TAUT_WAY_DIRECT : TAUT_WAY_AUTO;
	case TAUT_ALGO_FLAT:
		return spreads ? TAUT_WAY_FLAT : TAUT_WAY_AUTO;
	case TAUT_ALGO_TREE:
		return TAUT_WAY_TREE;
	case TAUT_ALGO_HALVING_DOUBLING:
		return TAUT_WAY_HALVING;
	case TAUT_ALGO_HIERARCHICAL:
		return tauti_law_is_hosts_ring(in) ? TAUT_WAY_AUTO :
			TAUT_WAY_HOSTS;
	case TAUT_ALGO_DOUBLING:
		return TAUT_WAY_DOUBLING;
	default:
		return TAUT_WAY_AUTO;
	}
}

static enum taut_coll_verb verb_of(enum taut_coll_kind kind)
{
	switch (kind) {
	case TAUT_COLL_ALLREDUCE:
		return TAUT_ALLREDUCE;
	case TAUT_COLL_REDUCESCATTER:
		return TAUT_REDUCE_SCATTER;
	case TAUT_COLL_ALLGATHER:
		return TAUT_ALLGATHER;
	case TAUT_COLL_BROADCAST:
		return TAUT_BROADCAST;
	default:
		return TAUT_VERBS;
	}
}

/* Elements of which every way can cut its blocks and halves without a rest: below
 * 2^46, for ranks are at most 2^11. */
static uint64_t divisible(uint32_t ranks, uint32_t hosts)
{
	return (uint64_t)ranks * hosts * (ranks / hosts) *
		(2 * TAUT_COLL_RANKS);
}

static taut_status count(const struct taut_law_in *in,
	const struct taut_play_call *call, struct taut_law *ret,
	struct taut_error *err)
{
	double S = (double)call->count;
	struct taut_play_net net = { .n_ranks = in->ranks,
		.n_hosts = in->hosts };
	struct taut_play_result r;
	uint32_t *host_of = calloc(in->ranks, sizeof *host_of);
	taut_status status;

	if (!host_of)
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory to count %u ranks", (unsigned)in->ranks);
	for (uint32_t i = 0; i < in->ranks; i++)
		host_of[i] = tauti_law_host(in->ranks, in->hosts, i);
	net.host_of = host_of;
	status = taut_play_count(&net, call, &r, err);
	free(host_of);
	if (!status)
		*ret = (struct taut_law){
			.network_bytes = (double)r.network_bytes / S,
			.local_bytes = (double)r.local_bytes / S,
			.messages = r.in_succession,
			.reduced_bytes = (double)r.reduced_bytes / S,
		};
	return status;
}

taut_status taut_law_count(const struct taut_law_in *in,
	struct taut_law *ret_by_byte, struct taut_error *reterr)
{
	struct taut_law_in one = *in;
	struct taut_play_call call = { .verb = verb_of(in->kind) };

	one.bytes = 1;
	one.counted = NULL;
	one.hosts = one.hosts < 1 ? 1 :
		one.hosts > one.ranks ? one.ranks : one.hosts;
	call.way = way_of(&one);
	if (in->ranks < 2 || !taut_coll_has(call.verb, call.way)) {
		*ret_by_byte = taut_law(&one);
		return TAUT_OK;
	}
	if (in->ranks > TAUT_COLL_RANKS)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"%s: %u ranks, expected %u at most",
			taut_algorithm_name(in->algorithm),
			(unsigned)in->ranks, (unsigned)TAUT_COLL_RANKS);
	call.count = divisible(one.ranks, one.hosts);
	return count(&one, &call, ret_by_byte, reterr);
}

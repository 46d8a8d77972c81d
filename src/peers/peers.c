/* peers.c - life of the peers, and what callers ask; see taut/peers.h. */
#include "peers/peers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

enum { DEFAULT_ASKS = 256 };
static const int64_t default_ns = 10000000000;

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "peers: out of memory");
}

/* --- options -----------------------------------------------------------------------*/

/* What another version of the header has, and this one does not, is not read. */
static struct taut_peers_options copy_options(const struct taut_peers_options *given)
{
	struct taut_peers_options options = { .size = 0 };
	size_t bytes = given->size ? given->size : sizeof *given;

	memcpy(&options, given, bytes < sizeof options ? bytes : sizeof options);
	if (!options.n_ranks)
		options.n_ranks = 1;
	if (!options.n_asks)
		options.n_asks = DEFAULT_ASKS;
	if (!options.lost_after_ns)
		options.lost_after_ns = default_ns;
	if (!options.answer_within_ns)
		options.answer_within_ns = default_ns;
	return options;
}

static taut_status check_options(const struct taut_set *set,
	const struct taut_peers_options *o, struct taut_error *err)
{
	const char *what = NULL;

	if (o->rank >= o->n_ranks || o->n_ranks > TAUTI_RANKS_MOST)
		what = "rank below n_ranks, of which there are 65535 at most";
	else if (!o->cache_bytes)
		what = "cache_bytes, as the loader has them";
	else if (o->n_asks > TAUTI_PEERS_ASKS)
		what = "n_asks of 4096 at most";
	else if (o->lost_after_ns < 0 || o->answer_within_ns < 0 ||
		o->meet_within_ns < 0)
		what = "times of 0 or more";
	else if (taut_set_count(set) > TAUTI_CACHE_MOST_ITEMS)
		what = "a set of as many items as a cache may have";
	return what ? taut_error_set(err, TAUT_EINVAL, -1, "peers: expected %s", what) :
		      TAUT_OK;
}

/* --- life --------------------------------------------------------------------------*/

static uint64_t bytes_of(void *context, uint64_t item)
{
	return taut_set_at(context, item).bytes;
}

static void count_share(struct taut_peers *peers, const struct taut_set *set)
{
	uint32_t own = peers->host_of[peers->rank];

	for (uint64_t i = 0; i < peers->n_items; i++) {
		if (tauti_split_owner(&peers->split, i) != own)
			continue;
		peers->share_items++;
		peers->share_bytes += taut_set_at(set, i).bytes;
	}
}

static taut_status make_core(struct taut_peers *peers, struct taut_error *err)
{
	const struct tauti_peers_core_options options = { .rank = peers->rank,
		.n_ranks = peers->n_ranks,
		.host_of = peers->host_of,
		.n_asks_of = peers->n_asks_of,
		.n_reads = TAUTI_REMOTE_READS,
		.answer_within_ns = peers->answer_within_ns,
		.split = &peers->split };
	taut_status status = tauti_peers_core_create(
		&options, &tauti_peers_calls, peers, &peers->core, err);
	uint32_t n;

	if (status != TAUT_OK)
		return status;
	n = tauti_peers_core_serves(peers->core) + 1;
	peers->asks = calloc(peers->n_asks, sizeof *peers->asks);
	peers->asks_out = calloc(peers->n_asks, sizeof *peers->asks_out);
	peers->answers_out = calloc(n, sizeof *peers->answers_out);
	peers->reads = calloc(n, sizeof *peers->reads);
	if (!peers->asks || !peers->asks_out || !peers->answers_out || !peers->reads)
		return no_memory(err);
	for (uint32_t i = 0; i < n; i++)
		peers->answers_out[i].serve = i;
	return TAUT_OK;
}

static taut_status take_tables(struct taut_peers *peers, struct taut_error *err)
{
	uint32_t n = peers->n_ranks;

	peers->host_of = calloc(n, sizeof *peers->host_of);
	peers->n_asks_of = calloc(n, sizeof *peers->n_asks_of);
	peers->links = calloc(n, sizeof *peers->links);
	peers->byes = calloc(n, sizeof *peers->byes);
	peers->polls = calloc((size_t)n + 1, sizeof *peers->polls);
	for (uint32_t i = 0; peers->links && i < n; i++)
		peers->links[i].fd = -1;
	if (!peers->host_of || !peers->n_asks_of || !peers->links || !peers->byes ||
		!peers->polls)
		return no_memory(err);
	peers->ring_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return peers->ring_fd >= 0 ? TAUT_OK : taut_error_set(
		err, TAUT_EIO, -1, "peers: no descriptor to be woken by");
}

static taut_status make(struct taut_peers *peers, const struct taut_set *set,
	const struct taut_peers_options *options, struct taut_error *err)
{
	uint64_t *weights = NULL;
	taut_status status = take_tables(peers, err);

	if (status == TAUT_OK)
		status = tauti_peers_join(peers, options, &weights, err);
	if (status == TAUT_OK)
		status = tauti_split_init(&peers->split, peers->n_items, bytes_of,
			(void *)(uintptr_t)set, weights, peers->n_hosts, err);
	free(weights);
	if (status == TAUT_OK)
		status = make_core(peers, err);
	if (status != TAUT_OK)
		return status;
	count_share(peers, set);
	return tauti_peers_start(peers, err);
}

taut_status taut_peers_create(const struct taut_set *set,
	const struct taut_peers_options *options, struct taut_peers **ret_peers,
	struct taut_error *reterr)
{
	const struct taut_peers_options o = copy_options(options);
	taut_status status = check_options(set, &o, reterr);
	struct taut_peers *peers;

	if (status != TAUT_OK)
		return status;
	peers = calloc(1, sizeof *peers);
	if (!peers)
		return no_memory(reterr);
	*peers = (struct taut_peers){
		.remote = { tauti_peers_attach, tauti_peers_detach, tauti_peers_where,
			tauti_peers_ask },
		.rank = o.rank, .n_ranks = o.n_ranks, .n_asks = o.n_asks,
		.lost_after_ns = o.lost_after_ns,
		.answer_within_ns = o.answer_within_ns,
		.fingerprint = taut_set_fingerprint(set),
		.n_items = taut_set_count(set),
		.cache_bytes = o.cache_bytes, .ring_fd = -1 };
	tauti_origin_init(&peers->origin);
	pthread_mutex_init(&peers->lock, NULL);
	pthread_cond_init(&peers->granted, NULL);
	status = make(peers, set, &o, reterr);
	if (status != TAUT_OK) {
		taut_peers_destroy(peers);
		return status;
	}
	*ret_peers = peers;
	return TAUT_OK;
}

void taut_peers_destroy(struct taut_peers *peers)
{
	if (!peers || tauti_origin_is_copy(&peers->origin))
		return;
	tauti_peers_stop(peers);
	for (uint32_t i = 0; peers->links && i < peers->n_ranks; i++)
		tauti_peers_link_close(&peers->links[i]);
	if (peers->ring_fd >= 0)
		close(peers->ring_fd);
	tauti_peers_core_destroy(peers->core);
	tauti_split_fini(&peers->split);
	pthread_mutex_destroy(&peers->lock);
	pthread_cond_destroy(&peers->granted);
	tauti_origin_fini(&peers->origin);
	free(peers->host_of);
	free(peers->n_asks_of);
	free(peers->links);
	free(peers->byes);
	free(peers->polls);
	free(peers->asks);
	free(peers->asks_out);
	free(peers->answers_out);
	free(peers->reads);
	free(peers);
}

/* --- what callers ask --------------------------------------------------------------*/

struct taut_load_remote *taut_peers_remote(struct taut_peers *peers)
{
	return &peers->remote;
}

uint32_t taut_peers_owner(const struct taut_peers *peers, uint64_t item)
{
	return tauti_split_owner(&peers->split, item);
}

uint32_t taut_peers_host(const struct taut_peers *peers)
{
	return peers->host_of[peers->rank];
}

void taut_peers_counts(const struct taut_peers *peers, struct taut_peers_counts *ret_counts)
{
	struct tauti_peers_core_counts core;

	tauti_peers_core_counts(peers->core, &core);
	*ret_counts = (struct taut_peers_counts){ .n_hosts = peers->n_hosts,
		.n_ranks = peers->n_ranks,
		.share_items = peers->share_items,
		.share_bytes = peers->share_bytes,
		.asked = core.asked,
		.came = core.came,
		.came_bytes = core.came_bytes,
		.late = core.late,
		.served = core.served,
		.served_bytes = core.served_bytes,
		.refused = core.refused,
		.lost = peers->n_lost,
		.left = peers->n_left };
}

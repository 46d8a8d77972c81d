/* join.c - how ranks become connected: they meet at rank 0, say where their doors are and what
 * they have, then each goes to those of lower ranks on other hosts; see peers.h.
 *
 * The meeting is over when all are connected, and so are the doors: from then on nobody
 * listens. */
#include "peers/peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/hash.h"

enum { WHERE_BYTES = 296, PORT_TRIES = 16 };
static const int64_t pause_least_ns = 20000000, pause_most_ns = 500000000;

/* What each rank says to all: bytes, the same on every machine of a job. */
struct hello {
	uint64_t version, host, fingerprint, n_items, cache_bytes, n_asks;
	char where[WHERE_BYTES]; /* its door */
};

struct joining {
	struct taut_peers *peers;
	const struct taut_peers_options *options;
	const char *secret;
	int64_t within_ns;
	struct tauti_meet *meet;
	struct tauti_door *door;
	struct hello mine, *hellos; /* by rank */
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "peers: out of memory");
}

/* --- the door ----------------------------------------------------------------------*/

/* The address from which rank 0 was reached. False: unknown, or one that means another host
 * elsewhere: then rank 0 is on this one. */
static bool own_address(const struct tauti_meet *meet, char *into, size_t room)
{
	struct sockaddr_storage at;
	socklen_t bytes = sizeof at;
	const struct sockaddr_in *in = (const void *)&at;
	const struct sockaddr_in6 *in6 = (const void *)&at;
	bool is_6;
	char text[INET6_ADDRSTRLEN];

	if (getsockname(meet->links[0].fd, (struct sockaddr *)&at, &bytes) != 0)
		return false;
	is_6 = at.ss_family == AF_INET6;
	if (is_6 ? IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr) :
		ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET)
		return false;
	if (!inet_ntop(at.ss_family, is_6 ? (const void *)&in6->sin6_addr :
		(const void *)&in->sin_addr, text, sizeof text))
		return false;
	if (is_6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
		snprintf(into, room, "[%s%%%u]", text, in6->sin6_scope_id);
	else
		snprintf(into, room, is_6 ? "[%s]" : "%s", text);
	return true;
}

/* HOST without the port of HOST:PORT. */
static void host_part(const char *address, char *into, size_t room)
{
	const char *colon = strrchr(address, ':');

	snprintf(into, room, "%.*s", (int)(colon - address), address);
}

/* A port that is free now, but may be somebody's a moment later. */
static uint16_t free_port(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t bytes = sizeof at;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint16_t port = 0;

	if (fd < 0)
		return 0;
	if (bind(fd, (struct sockaddr *)&at, bytes) == 0 &&
		getsockname(fd, (struct sockaddr *)&at, &bytes) == 0)
		port = ntohs(at.sin_port);
	close(fd);
	return port;
}

static taut_status open_at(struct joining *j, struct taut_error *err)
{
	return tauti_door_open(j->mine.where, j->secret, j->peers->n_ranks, &j->door, err);
}

static taut_status open_door(struct joining *j, struct taut_error *err)
{
	char host[WHERE_BYTES - 8];
	taut_status status = TAUT_EIO;

	if (j->options->door) {
		snprintf(j->mine.where, sizeof j->mine.where, "%s", j->options->door);
		return open_at(j, err);
	}
	if (j->peers->rank == 0 || !own_address(j->meet, host, sizeof host))
		host_part(j->options->meet, host, sizeof host);
	for (int i = 0; i < PORT_TRIES && status == TAUT_EIO; i++) {
		snprintf(j->mine.where, sizeof j->mine.where, "%s:%u", host,
			free_port());
		status = open_at(j, err);
	}
	return status;
}

/* --- who is there ------------------------------------------------------------------*/

static taut_status differs(uint32_t rank, const char *what, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EMATCH, -1,
		"peers: rank %u has another %s than rank 0", rank, what);
}

static taut_status compare(const struct joining *j, struct taut_error *err)
{
	for (uint32_t i = 0; i < j->peers->n_ranks; i++) {
		const struct hello *a = &j->hellos[0], *b = &j->hellos[i];

		if (a->version != b->version)
			return differs(i, "version of Taut", err);
		if (a->fingerprint != b->fingerprint || a->n_items != b->n_items)
			return differs(i, "set (its paths count, too)", err);
		if (!memchr(b->where, '\0', sizeof b->where) || !b->n_asks ||
			b->n_asks > TAUTI_PEERS_ASKS || !b->cache_bytes)
			return taut_error_set(err, TAUT_EMATCH, -1,
				"peers: rank %u says what makes no sense", i);
	}
	return TAUT_OK;
}

/* Hosts are numbered by their first ranks. */
static taut_status number_hosts(
	struct joining *j, uint64_t *weights, struct taut_error *err)
{
	struct taut_peers *peers = j->peers;

	for (uint32_t i = 0; i < peers->n_ranks; i++) {
		uint32_t k = 0;

		while (j->hellos[k].host != j->hellos[i].host)
			k++;
		peers->host_of[i] = k < i ? peers->host_of[k] : peers->n_hosts++;
		peers->n_asks_of[i] = (uint32_t)j->hellos[i].n_asks;
		weights[peers->host_of[i]] = j->hellos[i].cache_bytes;
		if (j->hellos[i].cache_bytes != j->hellos[k].cache_bytes)
			return taut_error_set(err, TAUT_EMATCH, -1, "peers: rank %u "
				"has another cache_bytes than rank %u of its host",
				i, k);
	}
	return TAUT_OK;
}

static taut_status tell(struct joining *j, uint64_t *weights, struct taut_error *err)
{
	taut_status status;

	j->hellos = calloc(j->peers->n_ranks, sizeof *j->hellos);
	if (!j->hellos)
		return no_memory(err);
	status = tauti_meet_gather(
		j->meet, &j->mine, sizeof j->mine, j->hellos, err);
	if (status == TAUT_OK)
		status = compare(j, err);
	return status == TAUT_OK ? number_hosts(j, weights, err) : status;
}

/* --- connections -------------------------------------------------------------------*/

static bool is_far(const struct taut_peers *peers, uint32_t rank)
{
	return peers->host_of[rank] != peers->host_of[peers->rank];
}

/* The link over which this rank meets rank 0, as its host numbers it; 0: they have addresses
 * that hold on any. */
static uint32_t own_link(const struct tauti_meet *meet)
{
	struct sockaddr_storage at;
	const struct sockaddr_in6 *in6 = (const void *)&at;

	return tauti_meet_address(meet, false, &at) && at.ss_family == AF_INET6 &&
		IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) ? in6->sin6_scope_id : 0;
}

/* Where a rank's door is, from here. */
static void find_door(const struct joining *j, uint32_t rank, char *into, size_t room)
{
	const char *where = j->hellos[rank].where, *link = strchr(where, '%');
	const char *rest = link ? strchr(link, ']') : NULL;
	uint32_t own = own_link(j->meet);

	if (rest && own)
		snprintf(into, room, "%.*s%%%u%s", (int)(link - where), where, own, rest);
	else
		snprintf(into, room, "%s", where);
}

/* TAUT_EAGAIN: not now. */
static taut_status try_once(struct joining *j, uint32_t rank,
	const struct tauti_meet_options *options, int64_t until_ns, struct taut_error *why)
{
	struct tauti_link link;
	int fd = -1;
	taut_status status = tauti_address_connect(options->address, until_ns, &fd, why);

	if (status == TAUT_OK) {
		tauti_link_open(&link, fd);
		status = tauti_hello(&link, options, until_ns, why);
	}
	if (status == TAUT_OK)
		tauti_peers_link_open(&j->peers->links[rank], fd, tauti_now_ns());
	else if (fd >= 0)
		close(fd);
	return status;
}

/* A host that many call at once may answer one of them late, or send it away. */
static taut_status go_to(struct joining *j, uint32_t rank, struct taut_error *err)
{
	char where[WHERE_BYTES + 16];
	const struct tauti_meet_options options = { .rank = j->peers->rank,
		.n_ranks = j->peers->n_ranks, .address = where,
		.secret = j->secret, .within_ns = j->within_ns };
	int64_t until_ns = tauti_now_ns() + j->within_ns, pause_ns = pause_least_ns;
	struct taut_error why = { .message = "" };
	taut_status status;

	find_door(j, rank, where, sizeof where);
	status = try_once(j, rank, &options, until_ns, &why);
	while (status == TAUT_EAGAIN && tauti_now_ns() + pause_ns < until_ns &&
		tauti_meet_hear(j->meet) != TAUTI_MEET_ENDS) {
		tauti_poll(NULL, 0, pause_ns);
		pause_ns = tauti_earlier_ns(2 * pause_ns, pause_most_ns);
		status = try_once(j, rank, &options, until_ns, &why);
	}
	if (status == TAUT_OK)
		return TAUT_OK;
	return taut_error_set(err, status == TAUT_EAGAIN ? TAUT_EIO : status, -1,
		"peers: rank %u at %.200s: %.200s", rank, where, why.message);
}

static taut_status let_in(struct joining *j, int stop_fd, struct taut_error *err)
{
	struct tauti_link link;
	uint32_t rank;

	if (tauti_door_take(j->door, stop_fd, &link, &rank) != TAUT_OK)
		return taut_error_set(err, TAUT_EIO, -1,
			"peers: not all ranks came to %.200s in time", j->mine.where);
	if (rank <= j->peers->rank || !is_far(j->peers, rank) ||
		j->peers->links[rank].fd >= 0) {
		tauti_link_close(&link);
		return taut_error_set(err, TAUT_EMATCH, -1,
			"peers: rank %u came to %.200s, where it was not expected",
			rank, j->mine.where);
	}
	tauti_peers_link_open(&j->peers->links[rank], link.fd, tauti_now_ns());
	return TAUT_OK;
}

/* To lower ranks, then from higher ones: rank 0 waits for nobody else, so none waits in a
 * circle. */
static taut_status connect_all(struct joining *j, int stop_fd, struct taut_error *err)
{
	taut_status status = TAUT_OK;
	uint32_t rank = j->peers->rank;

	for (uint32_t i = 0; i < rank && status == TAUT_OK; i++)
		if (is_far(j->peers, i))
			status = go_to(j, i, err);
	for (uint32_t i = rank + 1; i < j->peers->n_ranks && status == TAUT_OK; i++)
		if (is_far(j->peers, i))
			status = let_in(j, stop_fd, err);
	return status;
}

static taut_status connect_in_time(struct joining *j, struct taut_error *err)
{
	const struct itimerspec after = { .it_value = { j->within_ns / 1000000000,
		j->within_ns % 1000000000 } };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	taut_status status;

	if (fd < 0 || timerfd_settime(fd, 0, &after, NULL) != 0)
		status = taut_error_set(err, TAUT_EIO, -1,
			"peers: the system gives no timer");
	else
		status = connect_all(j, fd, err);
	if (fd >= 0)
		close(fd);
	return status;
}

/* --- all of it ---------------------------------------------------------------------*/

static void say_what_is_here(struct joining *j)
{
	const char *host = j->options->host;

	j->mine.version = TAUTI_PEERS_VERSION;
	j->mine.host = host ? tauti_hash(host, strlen(host)) : tauti_host_id();
	j->mine.fingerprint = j->peers->fingerprint;
	j->mine.n_items = j->peers->n_items;
	j->mine.cache_bytes = j->peers->cache_bytes;
	j->mine.n_asks = j->peers->n_asks;
}

static taut_status meet(struct joining *j, uint64_t *weights, struct taut_error *err)
{
	const struct tauti_meet_options options = { .rank = j->peers->rank,
		.n_ranks = j->peers->n_ranks, .address = j->options->meet,
		.secret = j->secret, .within_ns = j->options->meet_within_ns,
		.lost_after_ns = j->options->lost_after_ns };
	uint8_t word = 1;
	taut_status status = tauti_meet_create(&options, &j->meet, err);

	if (status != TAUT_OK)
		return status;
	j->within_ns = tauti_meet_within_ns(j->meet);
	status = open_door(j, err);
	if (status == TAUT_OK)
		status = tell(j, weights, err);
	if (status == TAUT_OK)
		status = connect_in_time(j, err);
	/* All are: room for a byte of each, over what is not needed any more. */
	return status == TAUT_OK ?
		tauti_meet_gather(j->meet, &word, sizeof word, j->hellos, err) : status;
}

taut_status tauti_peers_join(struct taut_peers *peers,
	const struct taut_peers_options *options, uint64_t **ret_weights,
	struct taut_error *err)
{
	struct joining j = { .peers = peers, .options = options,
		.secret = options->secret ? options->secret : getenv("TAUT_SECRET") };
	struct taut_error why = { .offset = -1 };
	taut_status status;

	*ret_weights = calloc(peers->n_ranks, sizeof **ret_weights);
	if (!*ret_weights)
		return no_memory(err);
	say_what_is_here(&j);
	if (peers->n_ranks == 1) {
		peers->n_hosts = 1;
		peers->n_asks_of[0] = peers->n_asks;
		(*ret_weights)[0] = peers->cache_bytes;
		return TAUT_OK;
	}
	status = meet(&j, *ret_weights, &why);
	why.code = status;
	if (status != TAUT_OK && j.meet)
		tauti_meet_fail(j.meet, &why);
	tauti_meet_destroy(j.meet);
	tauti_door_close(j.door);
	free(j.hellos);
	if (status != TAUT_OK && err)
		*err = why;
	return status;
}

/* porter.c - lets workers in, on a thread of its own; see serve.h.
 *
 * Who has proven nothing costs nobody anything. One that has, and then stops in the
 * middle, holds up those behind it for pair_ns at most, the end of the server for half
 * a second (tauti_door_meet()), and nobody that is in. */
#include "server/serve.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const int64_t pair_ns = 5000000000;
static const int64_t tell_ns = 200000000;

static void refuse(
	struct tauti_link *link, uint32_t worker, const char *line)
{
	if (tauti_link_tell(link, worker, TAUT_EMATCH, line))
		tauti_links_flush(link, 1, tauti_meet_now_ns() + tell_ns);
	tauti_link_close(link);
}

/* False: it may not come, and was told why. */
static bool enter(
	struct taut_server *server, struct tauti_link *link, uint32_t worker)
{
	enum tauti_presence presence;
	struct taut_error line;

	pthread_mutex_lock(&server->mutex);
	presence = (enum tauti_presence)server->presence[worker];
	if (presence == TAUTI_EXPECTED)
		server->presence[worker] = TAUTI_JOINED;
	pthread_mutex_unlock(&server->mutex);
	if (presence == TAUTI_EXPECTED)
		return true;
	taut_error_set(&line, TAUT_EMATCH, -1, "worker %u %s", worker,
		tauti_presence_text(presence));
	refuse(link, worker, line.message);
	return false;
}

static enum taut_server_mode mode_of(const struct taut_server_options *options)
{
	bool sums = options->update.rule == TAUT_SERVER_SUM;

	if (options->async)
		return sums ? TAUT_SERVER_ADDS_ASYNC : TAUT_SERVER_TRAINS_ASYNC;
	return sums ? TAUT_SERVER_SUMS : TAUT_SERVER_TRAINS;
}

static taut_status greet(struct taut_server *server, struct tauti_pair *pair,
	struct tauti_meet *meet, struct tauti_peer *peer, uint32_t worker,
	struct taut_error *reterr)
{
	const struct tauti_greeting own = { TAUTI_WIRE_VERSION,
		server->options.index, server->options.n_servers,
		server->options.n_workers, (uint16_t)mode_of(&server->options),
		tauti_pair_says(pair, meet),
		server->options.apart ? 0 : tauti_host_id(),
		server->options.lost_after_ns };
	uint8_t mine[TAUTI_GREETING_BYTES], all[2 * TAUTI_GREETING_BYTES];
	const uint8_t *other = all + TAUTI_GREETING_BYTES;
	struct taut_error who;
	taut_status status;

	tauti_greeting_write(&own, mine);
	status = tauti_meet_gather(meet, mine, sizeof mine, all, reterr);
	if (status)
		return status;
	peer->near = tauti_greeting_is_near(&own, other);
	peer->beat_every_ns = tauti_greeting_beat_ns(&own, other);
	taut_error_set(&who, TAUT_OK, -1, "worker %u", worker);
	status = tauti_greeting_check(&own, other, who.message, reterr);
	return status ? status : tauti_pair_meet(pair, own.engine,
		tauti_greeting_engine(other), meet, 0, who.message, &peer->engine,
		reterr);
}

static struct tauti_peer *make_peer(struct taut_server *server,
	struct tauti_pair *pair, struct tauti_meet *meet, uint32_t worker,
	struct taut_error *reterr)
{
	struct tauti_peer *peer = calloc(1, sizeof *peer);

	if (!peer || greet(server, pair, meet, peer, worker, reterr)) {
		free(peer);
		return NULL;
	}
	peer->worker = worker;
	peer->link = meet->links[1];
	peer->link.allowed = tauti_kind_bit(TAUTI_BEAT) |
		tauti_kind_bit(TAUTI_LOST);
	peer->ended_at = &peer->ended;
	meet->links[1].fd = -1;
	return peer;
}

static void hand_over(struct taut_server *server, struct tauti_peer *peer)
{
	uint64_t one = 1;

	pthread_mutex_lock(&server->mutex);
	peer->next = server->arrived;
	server->arrived = peer;
	pthread_mutex_unlock(&server->mutex);
	(void)!write(server->wake_fd, &one, sizeof one);
}

/* It may try again. */
static void set_free(struct taut_server *server, uint32_t worker)
{
	pthread_mutex_lock(&server->mutex);
	server->presence[worker] = TAUTI_EXPECTED;
	pthread_mutex_unlock(&server->mutex);
}

static void admit(struct taut_server *server, struct tauti_link *link,
	uint32_t worker)
{
	struct taut_error why = { .message = "out of memory" };
	struct tauti_peer *peer = NULL;
	struct tauti_meet *meet = NULL;
	struct tauti_pair pair;

	if (!enter(server, link, worker))
		return;
	/* pair_ns begin after what takes long here, unless the other one alone asks for
	 * it; that side has done the same before it came. */
	if (!tauti_pair_open(server->want, &pair, &why)) {
		meet = tauti_door_meet(link, server->porter_fd, pair_ns,
			server->options.lost_after_ns);
		if (meet)
			peer = make_peer(server, &pair, meet, worker, &why);
		tauti_pair_close(&pair);
	}
	if (peer) {
		hand_over(server, peer);
	} else {
		set_free(server, worker);
		refuse(meet ? &meet->links[1] : link, worker, why.message);
	}
	tauti_meet_destroy(meet);
}

static void *work(void *context)
{
	struct taut_server *server = context;
	struct tauti_link link;
	uint32_t rank;

	while (tauti_door_take(server->door, server->porter_fd, &link,
		&rank) == TAUT_OK)
		admit(server, &link, rank - 1);
	return NULL;
}

taut_status tauti_porter_start(
	struct taut_server *server, struct taut_error *reterr)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&server->porter, NULL, work, server);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	server->has_porter = !error;
	return error ? taut_error_set(reterr, TAUT_EIO, -1,
		"no thread for who comes: %s", strerror(error)) : TAUT_OK;
}

void tauti_porter_stop(struct taut_server *server)
{
	uint64_t one = 1;

	if (!server->has_porter)
		return;
	(void)!write(server->porter_fd, &one, sizeof one);
	pthread_join(server->porter, NULL);
	server->has_porter = false;
}

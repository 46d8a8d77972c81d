/* serve.c - a server: what moves, who is gone, when it is over; see serve.h. */
#include "server/serve.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const int64_t default_within_ns = 60000000000;
static const int64_t default_lost_after_ns = 10000000000;
static const int64_t tell_ns = 500000000;
static const int64_t move_ns = 10000000; /* at a time: then links are looked after */

/* --- what the core asks for --------------------------------------------------------------- */

static void do_receive(void *context, uint32_t worker, uint32_t part,
	uint32_t round, void *into, size_t bytes)
{
	struct taut_server *server = context;

	tauti_peer_receive(server->peers[worker], part, round, into, bytes);
}

static void do_answer(void *context, uint32_t worker, uint32_t part,
	uint32_t round, const void *data, size_t bytes, uint32_t contributors)
{
	struct taut_server *server = context;

	tauti_peer_answer(server->peers[worker], part, round, data, bytes,
		contributors, tauti_core_place(server->core, part));
}

/* What a worker of this host has pushed lies on its board. */
static const void *do_find(void *context, uint32_t worker, uint32_t part,
	uint32_t round, size_t bytes)
{
	struct taut_server *server = context;
	const struct tauti_peer *peer = server->peers[worker];
	struct taut_server_event event = { .did = TAUT_SERVER_DID_PUSH,
		.part = part, .worker = worker, .round = round, .bytes = bytes };

	if (!peer->has_board)
		return NULL;
	if (server->options.event) {
		event.start_ns = event.end_ns = tauti_now_ns();
		server->options.event(server->options.context, &event);
	}
	return peer->board.base + tauti_core_place(server->core, part);
}

static void do_did(void *context, enum taut_server_did did, uint32_t worker,
	uint32_t part, uint32_t round, uint64_t bytes, bool begins)
{
	struct taut_server *server = context;
	const struct taut_server_event event = { .did = did, .part = part,
		.worker = worker, .round = round, .bytes = bytes,
		.start_ns = server->did_ns, .end_ns = tauti_now_ns() };

	if (begins)
		server->did_ns = event.end_ns;
	else
		server->options.event(server->options.context, &event);
}

/* --- create ---------------------------------------------------------------------------------- */

static taut_status check(
	const struct taut_server_options *options, struct taut_error *reterr)
{
	if (!options->n_servers || options->n_servers > TAUTI_SERVERS_MOST ||
		options->index >= options->n_servers)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "server %" PRIu32
			" of %" PRIu32 ": expected one below their number, at "
			"most %d", options->index, options->n_servers,
			TAUTI_SERVERS_MOST);
	if (options->meet_within_ns < 0 || options->lost_after_ns < 0)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"time to meet or to be lost: expected more than 0");
	if (!options->listen)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"a server: expected HOST:PORT to listen at");
	return TAUT_OK;
}

static taut_status make_rest(
	struct taut_server *server, struct taut_error *reterr)
{
	uint32_t n = server->options.n_workers;

	server->peers = calloc(n, sizeof *server->peers);
	server->presence = calloc(n, sizeof *server->presence);
	server->polls = calloc(2 * (size_t)n + 1, sizeof *server->polls);
	if (!server->peers || !server->presence || !server->polls)
		return taut_error_set(
			reterr, TAUT_ENOMEM, -1, "server: out of memory");
	server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	server->porter_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (server->wake_fd < 0 || server->porter_fd < 0)
		return taut_error_set(reterr, TAUT_EIO, -1, "no eventfd: %s",
			strerror(errno));
	return TAUT_OK;
}

static void set_defaults(struct taut_server *server)
{
	struct taut_server_options *options = &server->options;

	if (!options->secret)
		options->secret = getenv("TAUT_SECRET");
	if (!options->n_servers)
		options->n_servers = 1;
	if (!options->meet_within_ns)
		options->meet_within_ns = default_within_ns;
	if (!options->lost_after_ns)
		options->lost_after_ns = default_lost_after_ns;
	server->beat_every_ns = options->lost_after_ns / 4;
}

taut_status taut_server_create(const struct taut_server_options *options,
	struct taut_server **ret_server, struct taut_error *reterr)
{
	struct tauti_core_calls calls = { do_receive, do_answer,
		options->event ? do_did : NULL, do_find };
	struct taut_server *server = calloc(1, sizeof *server);
	taut_status status;

	if (!server)
		return taut_error_set(
			reterr, TAUT_ENOMEM, -1, "server: out of memory");
	server->options = *options;
	server->wake_fd = server->porter_fd = -1;
	pthread_mutex_init(&server->mutex, NULL);
	set_defaults(server);
	status = check(&server->options, reterr);
	if (!status)
		status = tauti_want_read(NULL, &server->want, reterr);
	if (!status)
		status = tauti_core_create(&server->options, &calls, server,
			&server->core, reterr);
	if (!status)
		status = make_rest(server, reterr);
	if (!status)
		status = tauti_door_open(server->options.listen,
			server->options.secret, options->n_workers + 1,
			&server->door, reterr);
	if (status) {
		taut_server_destroy(server);
		return status;
	}
	/* They are the caller's, and used no more. */
	server->options.listen = server->options.secret = NULL;
	server->begun_ns = tauti_now_ns();
	*ret_server = server;
	return TAUT_OK;
}

static void part_with(struct taut_server *server, uint32_t worker)
{
	tauti_peer_destroy(server, server->peers[worker]);
	server->peers[worker] = NULL;
}

static void part_with_arrived(struct taut_server *server)
{
	while (server->arrived) {
		struct tauti_peer *peer = server->arrived;

		server->arrived = peer->next;
		tauti_peer_destroy(server, peer);
	}
}

void taut_server_destroy(struct taut_server *server)
{
	if (!server)
		return;
	tauti_porter_stop(server);
	part_with_arrived(server);
	for (uint32_t w = 0; server->peers && w < server->options.n_workers; w++)
		part_with(server, w);
	tauti_door_close(server->door);
	tauti_core_destroy(server->core);
	if (server->wake_fd >= 0)
		close(server->wake_fd);
	if (server->porter_fd >= 0)
		close(server->porter_fd);
	pthread_mutex_destroy(&server->mutex);
	free(server->peers);
	free(server->presence);
	free(server->polls);
	free(server);
}

void taut_server_stop(struct taut_server *server)
{
	uint64_t one = 1;

	__atomic_store_n(&server->stopped, 1, __ATOMIC_SEQ_CST);
	(void)!write(server->wake_fd, &one, sizeof one);
}

void taut_server_counts(const struct taut_server *server,
	struct taut_server_counts *ret_counts)
{
	tauti_core_counts(server->core, ret_counts);
	ret_counts->refused = tauti_door_refused(server->door);
	ret_counts->sleeps = server->n_sleeps;
}

taut_status taut_server_unshared(
	const struct taut_server *server, struct taut_error *reterr)
{
	if (server->unshared.code && reterr)
		*reterr = server->unshared;
	return server->unshared.code;
}

/* --- who comes and goes ------------------------------------------------------------------------ */

static void beat_for(struct taut_server *server, const struct tauti_peer *peer)
{
	server->beat_every_ns = tauti_earlier_ns(
		server->beat_every_ns, peer->beat_every_ns);
	server->beat_ns = tauti_earlier_ns(
		server->beat_ns, peer->link.heard_ns + peer->beat_every_ns);
}

static void take_arrived(struct taut_server *server)
{
	struct tauti_peer *peer;

	pthread_mutex_lock(&server->mutex);
	peer = server->arrived;
	server->arrived = NULL;
	pthread_mutex_unlock(&server->mutex);
	while (peer) {
		struct tauti_peer *next = peer->next;
		struct taut_error err = { .message = "" };

		if (tauti_core_join(server->core, peer->worker, &err)) {
			tauti_peer_destroy(server, peer);
		} else {
			server->peers[peer->worker] = peer;
			peer->link.heard_ns = tauti_meet_now_ns();
			beat_for(server, peer);
			/* What is wrong is seen in the next look. */
			if (tauti_peer_begin(peer, &err))
				tauti_peer_doom(peer, "%s", err.message);
		}
		peer = next;
	}
}

static void mark(struct taut_server *server, uint32_t worker)
{
	pthread_mutex_lock(&server->mutex);
	server->presence[worker] = (uint8_t)tauti_core_presence(
		server->core, worker);
	pthread_mutex_unlock(&server->mutex);
}

/* What was told arrives before the connection closes: one that is closed with
 * something unread takes it back. */
static void hang_up(struct tauti_link *link, int64_t until_ns)
{
	struct tauti_frame frame;

	if (link->fd < 0)
		return;
	tauti_links_flush(link, 1, until_ns);
	link->allowed = UINT32_MAX & ~(tauti_kind_bit(TAUTI_GIVE) |
		tauti_kind_bit(TAUTI_ALL));
	for (int i = 0; i < 64; i++)
		if (tauti_link_read(link, &frame) != TAUT_OK)
			break;
	tauti_link_close(link);
}

static void lose(struct taut_server *server, uint32_t worker)
{
	struct tauti_peer *peer = server->peers[worker];
	struct taut_error why = peer->why;
	char from[sizeof peer->link.from];

	memcpy(from, peer->link.from, sizeof from);
	(void)tauti_link_tell(&peer->link, worker, TAUT_EIO, why.message);
	hang_up(&peer->link, tauti_meet_now_ns());
	part_with(server, worker);
	tauti_core_lost(server->core, worker, from, why.message);
	mark(server, worker);
}

static void let_go(struct taut_server *server, uint32_t worker)
{
	struct tauti_peer *peer = server->peers[worker];

	tauti_core_left(server->core, worker);
	mark(server, worker);
	(void)tauti_link_put(&peer->link, TAUTI_LEAVE, NULL, 0);
	hang_up(&peer->link, tauti_meet_now_ns() + tell_ns);
	part_with(server, worker);
}

/* --- links ------------------------------------------------------------------------------------- */

static void listen_to(struct tauti_peer *peer)
{
	struct tauti_frame frame;
	taut_status status = TAUT_OK;
	char line[300];

	while (!peer->doomed && status == TAUT_OK) {
		status = tauti_link_read(&peer->link, &frame);
		if (status == TAUT_OK && frame.kind == TAUTI_LOST) {
			tauti_frame_line(&frame, line, sizeof line);
			tauti_peer_doom(peer, "it says: %s", line);
		} else if (status == TAUT_OK) {
			peer->link.watched = true;
		} else if (status != TAUT_EAGAIN) {
			tauti_peer_doom(peer, "%s",
				tauti_link_why(&peer->link, status));
		}
	}
	if (!peer->doomed)
		(void)tauti_link_write(&peer->link);
}

static int64_t silent_at_ns(
	const struct taut_server *server, const struct tauti_peer *peer)
{
	int64_t limit_ns = server->options.lost_after_ns;

	if (!peer->link.watched && limit_ns < server->options.meet_within_ns)
		limit_ns = server->options.meet_within_ns;
	return peer->link.heard_ns + limit_ns;
}

/* First all that came, then who is silent: after a pause of this process, what
 * came meanwhile is heard. */
static void look_after_links(struct taut_server *server)
{
	int64_t now_ns;

	for (uint32_t w = 0; w < server->options.n_workers; w++)
		if (server->peers[w])
			listen_to(server->peers[w]);
	now_ns = tauti_now_ns();
	for (uint32_t w = 0; w < server->options.n_workers; w++) {
		struct tauti_peer *peer = server->peers[w];

		if (peer && now_ns >= silent_at_ns(server, peer))
			tauti_peer_doom(peer, "it says nothing for %.3g s",
				(double)(now_ns - peer->link.heard_ns) / 1e9);
	}
	if (now_ns < server->beat_ns)
		return;
	server->beat_ns = now_ns + server->beat_every_ns;
	for (uint32_t w = 0; w < server->options.n_workers; w++) {
		struct tauti_peer *peer = server->peers[w];

		if (peer && tauti_link_idle(&peer->link) &&
			tauti_link_put(&peer->link, TAUTI_BEAT, NULL, 0))
			(void)tauti_link_write(&peer->link);
	}
}

/* --- turns -------------------------------------------------------------------------------------- */

/* True: something moved. */
static bool move_one(
	struct taut_server *server, struct tauti_peer *peer, int64_t until_ns)
{
	struct taut_error err = { .message = "" };

	if (!peer->doomed && peer->engine.table->progress(
		peer->engine.context, &err))
		tauti_peer_doom(peer, "%s", err.message);
	return tauti_peer_settle(server, peer, until_ns);
}

/* True: there may be more, or it may be over. One worker may take all of the time: the next
 * turn begins with the one behind it. */
static bool move(struct taut_server *server)
{
	int64_t until_ns = tauti_earlier_ns(
		tauti_now_ns() + move_ns, server->beat_ns);
	uint32_t n = server->options.n_workers, n_quiet = 0;
	bool went_on = false;

	while (tauti_core_go_on(server->core)) {
		went_on = true;
		if (tauti_now_ns() >= until_ns)
			return true;
	}
	while (n_quiet < n) {
		struct tauti_peer *peer = server->peers[server->next];

		server->next = (server->next + 1) % n;
		n_quiet++;
		if (!peer || !move_one(server, peer, until_ns))
			continue;
		n_quiet = 0;
		if (tauti_now_ns() >= until_ns)
			return true;
	}
	return went_on;
}

/* Those that are gone, or may go. True: there were some, which may make others
 * move. */
static bool part_with_some(struct taut_server *server)
{
	bool some = false;

	for (uint32_t w = 0; w < server->options.n_workers; w++) {
		struct tauti_peer *peer = server->peers[w];

		if (!peer || (!peer->doomed && !(peer->leaves &&
			tauti_core_is_idle(server->core, w))))
			continue;
		some = true;
		if (peer->doomed)
			lose(server, w);
		else
			let_go(server, w);
	}
	return some;
}

static int64_t next_ns(const struct taut_server *server)
{
	int64_t at_ns = server->beat_ns;

	for (uint32_t w = 0; w < server->options.n_workers; w++)
		if (server->peers[w] && silent_at_ns(server,
			server->peers[w]) < at_ns)
			at_ns = silent_at_ns(server, server->peers[w]);
	if (tauti_core_missing(server->core) != TAUT_NONE &&
		server->begun_ns + server->options.meet_within_ns < at_ns)
		at_ns = server->begun_ns + server->options.meet_within_ns;
	return at_ns;
}

/* False: there may be something to move already. */
static bool arm_one(struct tauti_peer *peer)
{
	struct taut_error err = { .message = "" };
	taut_status status = peer->engine.table->arm(
		peer->engine.context, &err);

	if (status && status != TAUT_EAGAIN)
		tauti_peer_doom(peer, "%s", err.message);
	/* What moved while it was armed may have ended. */
	return status == TAUT_OK && !peer->ended;
}

/* busy: looks only. */
static void sleep_some(struct taut_server *server, bool busy)
{
	int64_t timeout_ns = busy ? 0 : next_ns(server) - tauti_now_ns();
	uint64_t count;
	size_t n = 0;

	server->polls[n++] = (struct pollfd){ .fd = server->wake_fd,
		.events = POLLIN };
	for (uint32_t w = 0; w < server->options.n_workers; w++) {
		struct tauti_peer *peer = server->peers[w];

		if (!peer)
			continue;
		if (!busy && !arm_one(peer))
			timeout_ns = 0;
		server->polls[n++] = (struct pollfd){ .events = POLLIN,
			.fd = peer->engine.table->fd(peer->engine.context) };
		server->polls[n++] = (struct pollfd){ .fd = peer->link.fd,
			.events = (short)(POLLIN |
				(tauti_link_idle(&peer->link) ? 0 : POLLOUT)) };
	}
	server->n_sleeps += timeout_ns > 0;
	tauti_poll(server->polls, n, timeout_ns);
	(void)!read(server->wake_fd, &count, sizeof count);
}

/* TAUT_OK: it goes on. */
static taut_status check_end(
	struct taut_server *server, struct taut_error *reterr)
{
	uint32_t missing = tauti_core_missing(server->core);

	if (tauti_core_fault(server->core, reterr))
		return tauti_core_fault(server->core, NULL);
	if (__atomic_load_n(&server->stopped, __ATOMIC_SEQ_CST))
		return taut_error_set(
			reterr, TAUT_EAGAIN, -1, "the server was stopped");
	if (missing != TAUT_NONE && tauti_now_ns() - server->begun_ns >=
		server->options.meet_within_ns)
		return taut_error_set(reterr, TAUT_EIO, -1, "worker %" PRIu32
			" did not come within %g s", missing,
			(double)server->options.meet_within_ns / 1e9);
	return TAUT_OK;
}

/* Until the other side has closed too: it does so before its engine would see this
 * one's go, which UCX 1.13 does not survive while it connects. */
static void await_close(struct tauti_link *link, int64_t until_ns)
{
	struct tauti_frame frame;
	taut_status status;

	if (link->fd < 0)
		return;
	tauti_links_flush(link, 1, until_ns);
	do
		status = tauti_link_await(link, until_ns, &frame);
	while (status == TAUT_OK);
	tauti_link_close(link);
}

static void tell_all(struct taut_server *server, const struct taut_error *why)
{
	int64_t until_ns = tauti_meet_now_ns() + tell_ns;

	/* Those too that came in at the last moment; the porter is gone. */
	for (struct tauti_peer *peer = server->arrived; peer; peer = peer->next)
		if (tauti_link_tell(&peer->link, peer->worker, TAUT_EIO,
			why->message))
			await_close(&peer->link, until_ns);
	part_with_arrived(server);
	for (uint32_t w = 0; w < server->options.n_workers; w++)
		if (server->peers[w])
			(void)tauti_link_tell(&server->peers[w]->link, w,
				TAUT_EIO, why->message);
	for (uint32_t w = 0; w < server->options.n_workers; w++) {
		if (!server->peers[w])
			continue;
		await_close(&server->peers[w]->link, until_ns);
		part_with(server, w);
	}
}

taut_status taut_server_run(struct taut_server *server, struct taut_error *reterr)
{
	struct taut_error why = { .offset = -1 };
	taut_status status = tauti_porter_start(server, &why);
	bool busy;

	while (!status && !tauti_core_over(server->core)) {
		take_arrived(server);
		/* A closed link is seen before an engine hears of it. */
		look_after_links(server);
		busy = move(server);
		if (!part_with_some(server)) {
			status = check_end(server, &why);
			if (!status)
				sleep_some(server, busy);
		}
	}
	if (!status) /* what ended it may have ended the last one, too */
		status = tauti_core_fault(server->core, &why);
	tauti_porter_stop(server);
	if (status)
		tell_all(server, &why);
	if (status && reterr)
		*reterr = why;
	return status;
}

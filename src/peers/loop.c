/* loop.c - the thread: connections, the core, what loaders ask; see peers.h. */
#include "peers/peers.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	TURN_FRAMES = 64, /* of one link, then others have theirs */
	PER_LOST = 8,     /* looks for who is silent, within lost_after_ns */
};
static const int64_t parked_ns = 1000000; /* what another process brings is looked for */
static const int64_t goodbye_ns = 1000000000;

static void ring(const struct taut_peers *peers)
{
	uint64_t one = 1;
	ssize_t n = write(peers->ring_fd, &one, sizeof one);

	(void)n; /* it is rung already */
}

/* --- what the core asks for --------------------------------------------------------*/

static void end(void *context, uint32_t number, bool came)
{
	struct taut_peers *peers = context;
	struct tauti_remote_ask *ask = peers->asks[number];

	peers->asks[number] = NULL;
	ask->status = came ? TAUT_OK : TAUT_EAGAIN;
	ask->next = peers->ended;
	peers->ended = ask;
}

static enum tauti_serve_look look(void *context, uint64_t item, uint64_t bytes, bool claim,
	void **ret_at)
{
	const struct taut_peers *peers = context;
	const struct tauti_remote_source *source = &peers->source;

	if (!source->context || bytes != source->bytes(source->context, item))
		return TAUTI_SERVE_NONE;
	if (!claim && !tauti_cache_has(source->cache, (uint32_t)item))
		return TAUTI_SERVE_MISSING;
	switch (tauti_cache_look(source->cache, (uint32_t)item, bytes, ret_at)) {
	case TAUTI_CACHE_HERE:
		return TAUTI_SERVE_HERE;
	case TAUTI_CACHE_COMING:
		return TAUTI_SERVE_COMING;
	case TAUTI_CACHE_MINE:
		break;
	}
	return *ret_at ? TAUTI_SERVE_MISSING : TAUTI_SERVE_NONE;
}

/* On a thread of the store. */
static void read_done(struct tauti_remote_read *done, bool came)
{
	struct tauti_peers_read *read = (struct tauti_peers_read *)done;
	struct taut_peers *peers = read->peers;

	read->came = came;
	pthread_mutex_lock(&peers->lock);
	read->next = peers->inbox_reads;
	peers->inbox_reads = read;
	ring(peers);
	pthread_mutex_unlock(&peers->lock);
}

static void begin_read(void *context, uint32_t serve, uint64_t item, void *at)
{
	struct taut_peers *peers = context;
	struct tauti_peers_read *read = &peers->reads[serve];

	*read = (struct tauti_peers_read){ { item, at, read_done }, peers, NULL, false };
	peers->source.read(peers->source.context, &read->read);
}

static void answer(void *context, uint32_t serve, uint32_t peer, uint32_t number,
	const void *at, uint64_t bytes)
{
	struct taut_peers *peers = context;
	const struct tauti_peers_frame frame = {
		at ? TAUTI_PEERS_ITEM : TAUTI_PEERS_NONE, number,
		tauti_peers_core_item(peers->core, serve), bytes };

	tauti_peers_link_put(
		&peers->links[peer], &peers->answers_out[serve], &frame, at);
}

const struct tauti_peers_calls tauti_peers_calls = {
	.end = end,
	.look = look,
	.read = begin_read,
	.answer = answer,
};

/* --- links -------------------------------------------------------------------------*/

static void lose(struct taut_peers *peers, uint32_t rank)
{
	struct tauti_peers_link *link = &peers->links[rank];

	if (link->has_left)
		peers->n_left++;
	else
		peers->n_lost++;
	tauti_peers_link_close(link);
	tauti_peers_core_lost(peers->core, rank);
}

/* False: nonsense. */
static bool take_item(struct taut_peers *peers, uint32_t rank,
	const struct tauti_peers_frame *frame)
{
	struct tauti_peers_link *link = &peers->links[rank];

	switch (tauti_peers_core_came(
		peers->core, rank, frame->number, frame->item, frame->bytes)) {
	case TAUTI_PEERS_TAKE:
		link->into = peers->asks[frame->number]->into;
		break;
	case TAUTI_PEERS_PASS:
		link->into = NULL;
		break;
	case TAUTI_PEERS_WRONG:
		return false;
	}
	link->number = frame->number;
	link->left = frame->bytes;
	return true;
}

/* False: the peer is to be lost. */
static bool take_frame(struct taut_peers *peers, uint32_t rank,
	const struct tauti_peers_frame *frame)
{
	switch (frame->kind) {
	case TAUTI_PEERS_ASK:
		return tauti_peers_core_asked(peers->core, rank, frame->number,
			frame->item, frame->bytes);
	case TAUTI_PEERS_ITEM:
		return take_item(peers, rank, frame);
	case TAUTI_PEERS_NONE:
		return tauti_peers_core_refused(peers->core, rank, frame->number);
	case TAUTI_PEERS_BEAT:
		return true;
	default:
		peers->links[rank].has_left = true;
		return false;
	}
}

static void hear(struct taut_peers *peers, uint32_t rank, int64_t now_ns)
{
	struct tauti_peers_link *link = &peers->links[rank];
	struct tauti_peers_frame frame;
	bool is_good = true;

	for (int i = 0; i < TURN_FRAMES && is_good; i++)
		switch (tauti_peers_link_read(link, now_ns, &frame)) {
		case TAUTI_PEERS_NOTHING:
			return;
		case TAUTI_PEERS_FRAME:
			is_good = take_frame(peers, rank, &frame);
			break;
		case TAUTI_PEERS_WHOLE:
			tauti_peers_core_whole(peers->core, link->number);
			break;
		case TAUTI_PEERS_CLOSED:
			is_good = false;
			break;
		}
	if (!is_good)
		lose(peers, rank);
}

static void gone_out(void *context, struct tauti_peers_out *out)
{
	struct taut_peers *peers = context;

	if (out->serve != TAUT_NONE)
		tauti_peers_core_answered(peers->core, out->serve);
}

static void say(struct taut_peers *peers, uint32_t rank, int64_t now_ns)
{
	if (!tauti_peers_link_write(&peers->links[rank], now_ns, gone_out, peers))
		lose(peers, rank);
}

/* Says that it lives; sees that another is silent. */
static void look_after(struct taut_peers *peers, uint32_t rank, int64_t now_ns)
{
	const struct tauti_peers_frame beat = { TAUTI_PEERS_BEAT, 0, 0, 0 };
	struct tauti_peers_link *link = &peers->links[rank];

	/* If it was this process that stood still, what they said is waiting. */
	if (now_ns - link->heard_ns > peers->lost_after_ns)
		hear(peers, rank, now_ns);
	if (link->fd >= 0 && now_ns - link->heard_ns > peers->lost_after_ns)
		lose(peers, rank);
	if (link->fd < 0 || link->beat.queued ||
		now_ns - link->said_ns < peers->lost_after_ns / PER_LOST * 2)
		return;
	link->beat.serve = TAUT_NONE;
	tauti_peers_link_put(link, &link->beat, &beat, NULL);
}

static void each_link(struct taut_peers *peers, int64_t now_ns,
	void (*visit)(struct taut_peers *peers, uint32_t rank, int64_t now_ns))
{
	for (uint32_t i = 0; i < peers->n_ranks; i++)
		if (peers->links[i].fd >= 0)
			visit(peers, i, now_ns);
}

/* --- the inbox ---------------------------------------------------------------------*/

static void begin_ask(struct taut_peers *peers, struct tauti_remote_ask *ask,
	int64_t now_ns)
{
	struct tauti_peers_frame frame = {
		TAUTI_PEERS_ASK, 0, ask->item, ask->bytes };
	int64_t late_ns = now_ns + peers->answer_within_ns;
	uint32_t peer;

	if (!tauti_peers_core_ask(peers->core, ask->item, ask->bytes, now_ns, &peer,
		&frame.number)) {
		ask->status = TAUT_EAGAIN;
		ask->next = peers->ended;
		peers->ended = ask;
		return;
	}
	peers->asks[frame.number] = ask;
	peers->asks_out[frame.number].serve = TAUT_NONE;
	tauti_peers_link_put(
		&peers->links[peer], &peers->asks_out[frame.number], &frame, NULL);
	peers->tick_ns = tauti_earlier_ns(peers->tick_ns, late_ns);
}

/* Everything that others had to say; what they wish. */
static enum tauti_peers_wish take_inbox(struct taut_peers *peers, int64_t now_ns)
{
	struct tauti_remote_ask *ask, *next_ask;
	struct tauti_peers_read *read, *next_read;
	enum tauti_peers_wish wish;

	pthread_mutex_lock(&peers->lock);
	ask = peers->inbox_asks;
	read = peers->inbox_reads;
	wish = peers->wish;
	peers->inbox_asks = NULL;
	peers->inbox_reads = NULL;
	pthread_mutex_unlock(&peers->lock);
	for (; ask; ask = next_ask) {
		next_ask = ask->next;
		begin_ask(peers, ask, now_ns);
	}
	for (; read; read = next_read) {
		next_read = read->next;
		tauti_peers_core_read(
			peers->core, (uint32_t)(read - peers->reads), read->came);
	}
	return wish;
}

/* No lock is held, and nothing is under way: done() may ask. */
static void tell_ended(struct taut_peers *peers)
{
	while (peers->ended) {
		struct tauti_remote_ask *ask = peers->ended;

		peers->ended = ask->next;
		ask->done(ask, ask->status);
	}
}

static void grant(struct taut_peers *peers)
{
	pthread_mutex_lock(&peers->lock);
	peers->wish = TAUTI_PEERS_REST;
	pthread_cond_signal(&peers->granted);
	pthread_mutex_unlock(&peers->lock);
	peers->is_granting = false;
}

static void begin_detach(struct taut_peers *peers)
{
	peers->is_detaching = true;
	tauti_peers_core_shut(peers->core);
	for (uint32_t i = 0; i < peers->n_ranks; i++)
		peers->links[i].into = NULL;
}

static void obey(struct taut_peers *peers, enum tauti_peers_wish wish)
{
	if (wish == TAUTI_PEERS_ATTACH) {
		peers->source = *peers->wished;
		tauti_peers_core_open(peers->core);
		peers->is_granting = true;
	}
	if (wish != TAUTI_PEERS_DETACH)
		return;
	if (!peers->is_detaching)
		begin_detach(peers);
	if (tauti_peers_core_reading(peers->core))
		return;
	for (uint32_t i = 0; i < peers->n_ranks; i++)
		if (peers->links[i].fd >= 0 &&
			!tauti_peers_link_detach(&peers->links[i]))
			lose(peers, i);
	peers->source.context = NULL;
	peers->is_detaching = false;
	peers->is_granting = true;
}

/* --- the thread --------------------------------------------------------------------*/

static void wait_links(struct taut_peers *peers, int64_t until_ns, int64_t now_ns)
{
	for (uint32_t i = 0; i < peers->n_ranks; i++)
		peers->polls[i] = (struct pollfd){ .fd = peers->links[i].fd,
			.events = (short)(POLLIN |
				(peers->links[i].first ? POLLOUT : 0)) };
	peers->polls[peers->n_ranks] =
		(struct pollfd){ .fd = peers->ring_fd, .events = POLLIN };
	tauti_poll(peers->polls, (size_t)peers->n_ranks + 1, until_ns - now_ns);
}

static void still(const struct taut_peers *peers)
{
	uint64_t rings;
	ssize_t n = read(peers->ring_fd, &rings, sizeof rings);

	(void)n; /* nobody rang */
}

static void hear_links(struct taut_peers *peers)
{
	int64_t now_ns = tauti_now_ns();

	if (peers->polls[peers->n_ranks].revents)
		still(peers);
	for (uint32_t i = 0; i < peers->n_ranks; i++)
		if (peers->polls[i].revents && peers->links[i].fd >= 0)
			hear(peers, i, now_ns);
}

static int64_t next_ns(const struct taut_peers *peers)
{
	int64_t at_ns = tauti_earlier_ns(peers->look_ns, peers->tick_ns);

	return tauti_peers_core_parked(peers->core) ?
		tauti_earlier_ns(at_ns, peers->again_ns) : at_ns;
}

static void keep_time(struct taut_peers *peers, int64_t now_ns)
{
	if (now_ns >= peers->tick_ns)
		peers->tick_ns = tauti_peers_core_tick(peers->core, now_ns);
	if (now_ns >= peers->look_ns) {
		each_link(peers, now_ns, look_after);
		peers->look_ns = now_ns + peers->lost_after_ns / PER_LOST;
	}
	if (now_ns >= peers->again_ns && tauti_peers_core_parked(peers->core)) {
		(void)tauti_peers_core_again(peers->core);
		peers->again_ns = now_ns + parked_ns;
	}
}

static void *run(void *context)
{
	struct taut_peers *peers = context;

	for (;;) {
		int64_t now_ns = tauti_now_ns();
		enum tauti_peers_wish wish = take_inbox(peers, now_ns);

		if (wish == TAUTI_PEERS_STOP)
			break;
		obey(peers, wish);
		keep_time(peers, now_ns);
		each_link(peers, now_ns, say);
		tell_ended(peers);
		if (peers->is_granting)
			grant(peers);
		wait_links(peers, next_ns(peers), now_ns);
		hear_links(peers);
	}
	return NULL;
}

taut_status tauti_peers_start(struct taut_peers *peers, struct taut_error *err)
{
	sigset_t all, before;
	int code;

	peers->tick_ns = INT64_MAX;
	/* Signals are for the threads of the program that this library is in. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	code = pthread_create(&peers->thread, NULL, run, peers);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	peers->has_thread = !code;
	return code ? taut_error_set(err, TAUT_EIO, -1, "peers: no thread: %s",
		strerror(code)) : TAUT_OK;
}

/* --- goodbye -----------------------------------------------------------------------*/

static void say_goodbye(struct taut_peers *peers, uint32_t rank, int64_t now_ns)
{
	const struct tauti_peers_frame bye = { TAUTI_PEERS_BYE, 0, 0, 0 };

	peers->byes[rank].serve = TAUT_NONE;
	tauti_peers_link_put(&peers->links[rank], &peers->byes[rank], &bye, NULL);
	say(peers, rank, now_ns);
}

/* What comes is passed over until the other side has closed: a connection that is closed
 * with bytes unread would take the goodbye back. */
static void pass_over(struct taut_peers *peers, uint32_t rank, int64_t now_ns)
{
	struct tauti_peers_link *link = &peers->links[rank];
	uint8_t passed[4096];
	ssize_t n;

	if (link->first)
		say(peers, rank, now_ns);
	if (link->fd < 0)
		return;
	if (!link->first)
		shutdown(link->fd, SHUT_WR);
	do
		n = recv(link->fd, passed, sizeof passed, MSG_DONTWAIT);
	while (n > 0);
	if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
		tauti_peers_link_close(link);
}

static bool any_link(const struct taut_peers *peers)
{
	for (uint32_t i = 0; i < peers->n_ranks; i++)
		if (peers->links[i].fd >= 0)
			return true;
	return false;
}

void tauti_peers_stop(struct taut_peers *peers)
{
	int64_t now_ns = tauti_now_ns(), until_ns = now_ns + goodbye_ns;

	if (!peers->has_thread)
		return;
	pthread_mutex_lock(&peers->lock);
	peers->wish = TAUTI_PEERS_STOP;
	ring(peers);
	pthread_mutex_unlock(&peers->lock);
	pthread_join(peers->thread, NULL);
	peers->has_thread = false;
	still(peers);
	each_link(peers, now_ns, say_goodbye);
	for (; any_link(peers) && now_ns < until_ns; now_ns = tauti_now_ns()) {
		each_link(peers, now_ns, pass_over);
		if (any_link(peers))
			wait_links(peers, until_ns, now_ns);
	}
}

/* --- what a loader does ------------------------------------------------------------*/

static void wish_for(struct taut_peers *peers, enum tauti_peers_wish wish)
{
	peers->wish = wish;
	ring(peers);
	while (peers->wish != TAUTI_PEERS_REST)
		pthread_cond_wait(&peers->granted, &peers->lock);
}

taut_status tauti_peers_attach(struct taut_load_remote *remote,
	const struct tauti_remote_source *source, struct taut_error *err)
{
	struct taut_peers *peers = (struct taut_peers *)remote;
	taut_status status = TAUT_OK;

	if (tauti_origin_is_copy(&peers->origin))
		return taut_error_set(err, TAUT_EIO, -1,
			"loader: its peers were made before fork(), and their thread is "
			"the parent's: make them in this process");
	if (source->fingerprint != peers->fingerprint || source->n_items != peers->n_items)
		return taut_error_set(err, TAUT_EMATCH, -1,
			"loader: its peers are for another set");
	if (source->cache_bytes != peers->cache_bytes)
		return taut_error_set(err, TAUT_EMATCH, -1,
			"loader: cache_bytes is %llu, its peers expect %llu",
			(unsigned long long)source->cache_bytes,
			(unsigned long long)peers->cache_bytes);
	if (source->n_asks > peers->n_asks)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"loader: n_remote is %u, its peers take %u asks at a time",
			source->n_asks, peers->n_asks);
	pthread_mutex_lock(&peers->lock);
	if (peers->is_attached) {
		status = taut_error_set(err, TAUT_EINVAL, -1,
			"loader: its peers are another loader's already");
	} else {
		peers->is_attached = true;
		peers->wished = source;
		wish_for(peers, TAUTI_PEERS_ATTACH);
	}
	pthread_mutex_unlock(&peers->lock);
	return status;
}

void tauti_peers_detach(struct taut_load_remote *remote)
{
	struct taut_peers *peers = (struct taut_peers *)remote;

	pthread_mutex_lock(&peers->lock);
	wish_for(peers, TAUTI_PEERS_DETACH);
	peers->is_attached = false;
	pthread_mutex_unlock(&peers->lock);
}

enum tauti_remote_where tauti_peers_where(
	const struct taut_load_remote *remote, uint64_t item)
{
	return tauti_peers_core_where(((const struct taut_peers *)remote)->core, item);
}

void tauti_peers_ask(struct taut_load_remote *remote, struct tauti_remote_ask *ask)
{
	struct taut_peers *peers = (struct taut_peers *)remote;

	ask->next = NULL;
	pthread_mutex_lock(&peers->lock);
	if (peers->inbox_asks) {
		peers->last_inbox_ask->next = ask;
	} else {
		peers->inbox_asks = ask;
		ring(peers);
	}
	peers->last_inbox_ask = ask;
	pthread_mutex_unlock(&peers->lock);
}

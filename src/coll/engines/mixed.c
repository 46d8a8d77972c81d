/* mixed.c - one engine to the ranks of this host, another to all else.
 *
 * Each message goes by one of both. To sleep on both at once, the far engine is
 * armed and its descriptor given to a helper thread, which sleeps on it while
 * wait() sleeps in the near engine, and wakes that: what comes from near comes as
 * fast as without, what comes from far costs one switch of threads more. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "coll/coll.h"

struct mixed;

/* One message to ranks of both kinds. */
struct spread {
	struct taut_coll_request near, far; /* what the two engines end */
	struct taut_coll_request *request;
	struct mixed *mixed;
	struct spread *next; /* of those unused */
	uint32_t pending;
	taut_status status;
	uint32_t peers[]; /* the near ones, then the far ones */
};

/* What comes from far, to be reduced when it is here. */
struct landing {
	struct taut_coll_request far;
	struct taut_coll_request *request;
	struct mixed *mixed;
	struct landing *next; /* of those unused */
	enum taut_type type;
	enum taut_reduction reduction;
	void *into;
	const void *from;
	size_t count, room;
	void *bytes; /* of size room */
};

struct mixed {
	struct taut_coll_engine table;
	char name[32];
	struct tauti_engine near, far;
	uint32_t n_ranks;
	bool *is_near; /* by rank */
	bool has_near, has_far;
	struct spread *spreads;   /* unused */
	struct landing *landings; /* unused */

	int epoll_fd; /* far's descriptor, once per arming, and stop_fd */
	int stop_fd;
	bool helped;
	pthread_t helper;
};

/* --- sending --------------------------------------------------------------------------*/

static void end_part(struct spread *spread, taut_status status)
{
	struct taut_coll_request *request = spread->request;

	if (spread->status == TAUT_OK)
		spread->status = status;
	if (--spread->pending)
		return;
	status = spread->status;
	spread->next = spread->mixed->spreads;
	spread->mixed->spreads = spread;
	request->done(request, status);
}

static void near_sent(struct taut_coll_request *request, taut_status status)
{
	end_part((struct spread *)(void *)((char *)request -
		offsetof(struct spread, near)), status);
}

static void far_sent(struct taut_coll_request *request, taut_status status)
{
	end_part((struct spread *)(void *)((char *)request -
		offsetof(struct spread, far)), status);
}

static struct spread *spread_begin(struct mixed *mixed,
	struct taut_coll_request *request)
{
	struct spread *spread = mixed->spreads;

	if (spread)
		mixed->spreads = spread->next;
	else
		spread = malloc(sizeof *spread +
			mixed->n_ranks * sizeof spread->peers[0]);
	if (!spread)
		return NULL;
	spread->near.done = near_sent;
	spread->far.done = far_sent;
	spread->request = request;
	spread->mixed = mixed;
	spread->pending = 2;
	spread->status = TAUT_OK;
	return spread;
}

static void spread_forget(struct spread *spread)
{
	spread->next = spread->mixed->spreads;
	spread->mixed->spreads = spread;
}

/* Those of a kind, in their order; how many. */
static uint32_t pick(const struct mixed *mixed, const uint32_t *peers,
	uint32_t n_peers, bool near, uint32_t *picked)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < n_peers; i++)
		if (mixed->is_near[peers[i]] == near)
			picked[n++] = peers[i];
	return n;
}

static taut_status send_both(struct mixed *mixed, const uint32_t *peers,
	uint32_t n_peers, uint64_t tag, const void *data, size_t bytes,
	struct taut_coll_request *request, struct taut_error *err)
{
	struct spread *spread = spread_begin(mixed, request);
	struct tauti_engine near = mixed->near, far = mixed->far;
	uint32_t n_near, n_far;
	taut_status status;

	if (!spread)
		return taut_error_set(err, TAUT_ENOMEM, -1, "out of memory");
	n_near = pick(mixed, peers, n_peers, true, spread->peers);
	n_far = pick(mixed, peers, n_peers, false, spread->peers + n_near);
	/* The far first: its way is longer. */
	status = far.table->send(far.context, spread->peers + n_near, n_far, tag,
		data, bytes, &spread->far, err);
	if (status != TAUT_OK) {
		spread_forget(spread);
		return status;
	}
	status = near.table->send(near.context, spread->peers, n_near, tag, data,
		bytes, &spread->near, err);
	if (status != TAUT_OK) /* but something began */
		end_part(spread, status);
	return TAUT_OK;
}

static struct tauti_engine *towards(struct mixed *mixed, uint32_t peer)
{
	return mixed->is_near[peer] ? &mixed->near : &mixed->far;
}

static taut_status mixed_send(void *engine, const uint32_t *peers,
	uint32_t n_peers, uint64_t tag, const void *data, size_t bytes,
	struct taut_coll_request *request, struct taut_error *err)
{
	struct mixed *mixed = engine;
	struct tauti_engine *one = towards(mixed, peers[0]);

	for (uint32_t i = 1; i < n_peers; i++)
		if (towards(mixed, peers[i]) != one)
			return send_both(mixed, peers, n_peers, tag, data, bytes,
				request, err);
	return one->table->send(one->context, peers, n_peers, tag, data, bytes,
		request, err);
}

/* --- receiving ------------------------------------------------------------------------*/

static taut_status mixed_recv(void *engine, uint32_t peer, uint64_t tag,
	void *data, size_t bytes, struct taut_coll_request *request,
	struct taut_error *err)
{
	struct tauti_engine *one = towards(engine, peer);

	return one->table->recv(one->context, peer, tag, data, bytes, request,
		err);
}

static void landing_forget(struct landing *landing)
{
	landing->next = landing->mixed->landings;
	landing->mixed->landings = landing;
}

static void landed(struct taut_coll_request *far, taut_status status)
{
	struct landing *landing = (struct landing *)far;
	struct taut_coll_request *request = landing->request;

	if (status == TAUT_OK)
		taut_reduce(landing->type, landing->reduction, landing->into,
			landing->from, landing->bytes, landing->count);
	landing_forget(landing);
	request->done(request, status);
}

/* With room for so much; kept for the next. */
static struct landing *landing_begin(struct mixed *mixed, size_t bytes)
{
	struct landing *landing = mixed->landings;
	void *room;

	if (landing)
		mixed->landings = landing->next;
	else
		landing = calloc(1, sizeof *landing);
	if (!landing)
		return NULL;
	landing->mixed = mixed;
	if (landing->room >= bytes)
		return landing;
	room = malloc(bytes);
	if (!room) {
		landing_forget(landing);
		return NULL;
	}
	free(landing->bytes);
	landing->bytes = room;
	landing->room = bytes;
	return landing;
}

static taut_status mixed_recv_reduce(void *engine, uint32_t peer, uint64_t tag,
	enum taut_type type, enum taut_reduction reduction, void *into,
	const void *from, size_t count, struct taut_coll_request *request,
	struct taut_error *err)
{
	struct mixed *mixed = engine;
	struct tauti_engine *one = towards(mixed, peer);
	size_t bytes = count * taut_type_bytes(type);
	struct landing *landing;
	taut_status status;

	if (one->table->recv_reduce)
		return one->table->recv_reduce(one->context, peer, tag, type,
			reduction, into, from, count, request, err);
	landing = landing_begin(mixed, bytes);
	if (!landing)
		return taut_error_set(err, TAUT_ENOMEM, -1, "out of memory");
	landing->far.done = landed;
	landing->request = request;
	landing->type = type;
	landing->reduction = reduction;
	landing->into = into;
	landing->from = from;
	landing->count = count;
	status = one->table->recv(one->context, peer, tag, landing->bytes, bytes,
		&landing->far, err);
	if (status != TAUT_OK)
		landing_forget(landing);
	return status;
}

static bool mixed_arrived(void *engine, uint64_t tag, uint64_t mask)
{
	struct mixed *mixed = engine;

	return mixed->near.table->arrived(mixed->near.context, tag, mask) ||
		mixed->far.table->arrived(mixed->far.context, tag, mask);
}

/* --- moving and sleeping --------------------------------------------------------------*/

static taut_status mixed_progress(void *engine, struct taut_error *err)
{
	struct mixed *mixed = engine;
	taut_status status = mixed->near.table->progress(mixed->near.context,
		err);

	if (status != TAUT_OK)
		return status;
	return mixed->far.table->progress(mixed->far.context, err);
}

/* The helper's: each arming tells once. */
static void *help(void *context)
{
	struct mixed *mixed = context;
	struct epoll_event event;

	for (;;) {
		int n = epoll_wait(mixed->epoll_fd, &event, 1, -1);

		if (n == 1 && event.data.fd == mixed->stop_fd)
			return NULL;
		if (n == 1)
			mixed->near.table->wake(mixed->near.context);
	}
}

static int watch_once(struct mixed *mixed, int operation)
{
	int fd = mixed->far.table->fd(mixed->far.context);
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT,
		.data.fd = fd };

	if (operation == EPOLL_CTL_ADD)
		event.events = EPOLLONESHOT;
	return epoll_ctl(mixed->epoll_fd, operation, fd, &event);
}

static taut_status mixed_wait(void *engine, int64_t timeout_ns,
	struct taut_error *err)
{
	struct mixed *mixed = engine;
	struct tauti_engine *near = &mixed->near, *far = &mixed->far;
	taut_status status;

	if (!mixed->has_near)
		return far->table->wait(far->context, timeout_ns, err);
	if (!mixed->has_far)
		return near->table->wait(near->context, timeout_ns, err);
	status = far->table->arm(far->context, err);
	if (status == TAUT_EAGAIN)
		timeout_ns = 0; /* but a wake() that came is taken */
	else if (status != TAUT_OK)
		return status;
	else if (watch_once(mixed, EPOLL_CTL_MOD) != 0)
		return taut_error_set(err, TAUT_EIO, -1,
			"cannot watch the connections between hosts");
	return near->table->wait(near->context, timeout_ns, err);
}

static void mixed_wake(void *engine)
{
	struct mixed *mixed = engine;
	struct tauti_engine *one = mixed->has_near ? &mixed->near : &mixed->far;

	one->table->wake(one->context);
}

/* --- life -----------------------------------------------------------------------------*/

static void stop_helper(struct mixed *mixed)
{
	uint64_t one = 1;

	if (mixed->helped) {
		(void)!write(mixed->stop_fd, &one, sizeof one);
		pthread_join(mixed->helper, NULL);
	}
	if (mixed->epoll_fd >= 0)
		close(mixed->epoll_fd);
	if (mixed->stop_fd >= 0)
		close(mixed->stop_fd);
}

static void mixed_free(struct mixed *mixed)
{
	stop_helper(mixed);
	while (mixed->spreads) {
		struct spread *spread = mixed->spreads;

		mixed->spreads = spread->next;
		free(spread);
	}
	while (mixed->landings) {
		struct landing *landing = mixed->landings;

		mixed->landings = landing->next;
		free(landing->bytes);
		free(landing);
	}
	free(mixed->is_near);
	free(mixed);
}

static void mixed_destroy(void *engine)
{
	struct mixed *mixed = engine;

	/* Before the engines that it listens to and wakes. */
	stop_helper(mixed);
	mixed->helped = false;
	mixed->epoll_fd = mixed->stop_fd = -1;
	mixed->far.table->destroy(mixed->far.context);
	mixed->near.table->destroy(mixed->near.context);
	mixed_free(mixed);
}

static taut_status start_helper(struct mixed *mixed, struct taut_error *reterr)
{
	struct epoll_event event = { .events = EPOLLIN };
	sigset_t all, before;

	mixed->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	mixed->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	event.data.fd = mixed->stop_fd;
	if (mixed->epoll_fd >= 0 && mixed->stop_fd >= 0 &&
		epoll_ctl(mixed->epoll_fd, EPOLL_CTL_ADD, mixed->stop_fd,
			&event) == 0 && watch_once(mixed, EPOLL_CTL_ADD) == 0) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		mixed->helped = pthread_create(&mixed->helper, NULL, help,
			mixed) == 0;
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	return mixed->helped ? TAUT_OK : taut_error_set(reterr, TAUT_EIO, -1,
		"no thread to watch the connections between hosts");
}

static void fill_table(struct mixed *mixed)
{
	uint64_t near = mixed->near.table->max_message_bytes;
	uint64_t far = mixed->far.table->max_message_bytes;

	snprintf(mixed->name, sizeof mixed->name, "%s+%s",
		mixed->near.table->name, mixed->far.table->name);
	mixed->table = (struct taut_coll_engine){
		.name = mixed->name,
		.max_message_bytes = !near || (far && far < near) ? far : near,
		.send = mixed_send,
		.recv = mixed_recv,
		.recv_reduce = mixed->near.table->recv_reduce ||
			mixed->far.table->recv_reduce ? mixed_recv_reduce : NULL,
		.progress = mixed_progress,
		.wait = mixed_wait,
		.wake = mixed_wake,
		.arrived = mixed_arrived,
		.destroy = mixed_destroy,
	};
}

taut_status tauti_mixed_create(uint32_t rank, uint32_t n_ranks,
	const uint32_t *host_of, struct tauti_engine near,
	struct tauti_engine far, struct tauti_engine *ret_engine,
	struct taut_error *reterr)
{
	struct mixed *mixed = calloc(1, sizeof *mixed);
	taut_status status = TAUT_OK;

	if (mixed)
		mixed->is_near = calloc(n_ranks, sizeof *mixed->is_near);
	if (!mixed || !mixed->is_near) {
		free(mixed);
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "out of memory");
	}
	mixed->near = near;
	mixed->far = far;
	mixed->n_ranks = n_ranks;
	mixed->epoll_fd = mixed->stop_fd = -1;
	for (uint32_t i = 0; i < n_ranks; i++) {
		mixed->is_near[i] = host_of[i] == host_of[rank];
		mixed->has_near |= mixed->is_near[i] && i != rank;
		mixed->has_far |= !mixed->is_near[i];
	}
	fill_table(mixed);
	if (mixed->has_near && mixed->has_far)
		status = start_helper(mixed, reterr);
	if (status != TAUT_OK) {
		mixed_free(mixed);
		return status;
	}
	*ret_engine = (struct tauti_engine){ &mixed->table, mixed };
	return TAUT_OK;
}

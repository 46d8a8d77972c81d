/* meet_watch.c - who is gone; see coll.h and meet.h. meet_left.c has who left.
 *
 * Everybody beats four times in lost_after_ns. Who beats no more is lost when
 * that time is over since its last beat, which is no later than that time after
 * it stopped. Until its first beat a rank is still being set up, and has within_ns. */
#include "coll/meet.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int64_t limit_ns(const struct tauti_meet *meet,
	const struct tauti_link *link)
{
	int64_t longer_ns = meet->within_ns > meet->lost_after_ns ?
		meet->within_ns : meet->lost_after_ns;

	return link->watched ? meet->lost_after_ns : longer_ns;
}

static void beat(struct tauti_meet *meet)
{
	for (uint32_t i = tauti_meet_first(meet); i < tauti_meet_end(meet); i++) {
		struct tauti_link *link = &meet->links[i];

		/* Where the last has not gone there is no use for another; one
		 * that broke is seen when reading. */
		if (link->fd >= 0 && tauti_link_idle(link))
			(void)tauti_link_put(link, TAUTI_BEAT, NULL, 0);
		(void)tauti_link_write(link);
	}
}

/* All that came from one. TAUT_EAGAIN: it is well, or left in peace. */
static taut_status listen_to(struct tauti_meet *meet, uint32_t peer)
{
	struct tauti_link *link = &meet->links[peer];
	struct tauti_frame frame;
	taut_status status;

	while (link->fd >= 0) {
		status = tauti_link_read(link, &frame);
		if (status == TAUT_EAGAIN)
			return status;
		if (status == TAUT_EIO && tauti_left_expects_close(meet)) {
			tauti_link_close(link);
			break;
		}
		if (status != TAUT_OK)
			return tauti_meet_lose(meet, peer, TAUT_EIO,
				tauti_link_why(link, status));
		if (frame.kind == TAUTI_LOST)
			return tauti_meet_told(meet, &frame);
		if (frame.kind != TAUTI_BEAT &&
			!tauti_left_take(meet, peer, &frame))
			return tauti_meet_lose(meet, peer, TAUT_EIO,
				tauti_link_why(link, TAUT_EFORMAT));
		link->watched = true;
	}
	return TAUT_EAGAIN;
}

static taut_status check_silence(struct tauti_meet *meet, uint32_t peer,
	int64_t now_ns)
{
	struct tauti_link *link = &meet->links[peer];
	int64_t silent_ns = now_ns - link->heard_ns;
	char why[64];

	if (link->fd < 0 || silent_ns < limit_ns(meet, link))
		return TAUT_EAGAIN;
	snprintf(why, sizeof why, "it says nothing for %.3g s",
		(double)silent_ns / 1e9);
	return tauti_meet_lose(meet, peer, TAUT_EIO, why);
}

/* First what came, then who is silent: a watcher that did not run for a while
 * must not take for silent who beat into its ear. */
static taut_status look(struct tauti_meet *meet)
{
	uint32_t first = tauti_meet_first(meet), end = tauti_meet_end(meet);
	taut_status status = TAUT_EAGAIN;
	int64_t now_ns;

	for (uint32_t i = first; i < end && status == TAUT_EAGAIN; i++)
		status = listen_to(meet, i);
	now_ns = tauti_meet_now_ns();
	for (uint32_t i = first; i < end && status == TAUT_EAGAIN; i++)
		status = check_silence(meet, i, now_ns);
	if (status == TAUT_EAGAIN)
		status = tauti_left_look(meet, now_ns);
	return status;
}

/* When the next beat is due, or somebody would have been silent for too long. */
static int64_t next_ns(const struct tauti_meet *meet, int64_t beat_ns)
{
	int64_t at_ns = beat_ns;

	for (uint32_t i = tauti_meet_first(meet); i < tauti_meet_end(meet); i++) {
		const struct tauti_link *link = &meet->links[i];
		int64_t lost_ns = link->heard_ns + limit_ns(meet, link);

		if (link->fd >= 0 && lost_ns < at_ns)
			at_ns = lost_ns;
	}
	return at_ns;
}

static void sleep_until(struct tauti_meet *meet, int64_t at_ns)
{
	uint32_t end = tauti_meet_end(meet);
	int64_t now_ns = tauti_meet_now_ns();

	for (uint32_t i = 0; i < end; i++)
		meet->polls[i] = (struct pollfd){ .fd = meet->links[i].fd,
			.events = (short)(POLLIN |
				(tauti_link_idle(&meet->links[i]) ? 0 :
				POLLOUT)) };
	meet->polls[end] = (struct pollfd){ .fd = meet->stop_fd,
		.events = POLLIN };
	tauti_poll(meet->polls, (size_t)end + 1, at_ns - now_ns);
	for (uint32_t i = 0; i < end; i++)
		if (meet->polls[i].revents & POLLOUT)
			(void)tauti_link_write(&meet->links[i]);
}

/* Whether the watch is over: this rank has left, or told that it cannot go on. */
static bool is_over(struct tauti_meet *meet)
{
	uint64_t count;
	bool stops;

	(void)!read(meet->stop_fd, &count, sizeof count);
	pthread_mutex_lock(&meet->mutex);
	stops = meet->stops;
	pthread_mutex_unlock(&meet->mutex);
	if (tauti_meet_confess(meet))
		return true;
	tauti_left_say(meet);
	return stops && tauti_left_may_go(meet, tauti_meet_now_ns());
}

/* This process stood still for a while: nobody can be blamed for that time. */
static void forgive(struct tauti_meet *meet, int64_t now_ns)
{
	for (uint32_t i = tauti_meet_first(meet); i < tauti_meet_end(meet); i++)
		meet->links[i].heard_ns = now_ns;
}

static void *watch_all(void *context)
{
	struct tauti_meet *meet = context;
	int64_t quarter_ns = meet->lost_after_ns / 4;
	int64_t now_ns = tauti_meet_now_ns();
	int64_t beat_ns = now_ns + quarter_ns, due_ns;

	do {
		if (now_ns >= beat_ns) {
			beat(meet);
			beat_ns = now_ns + quarter_ns;
		}
		if (look(meet) != TAUT_EAGAIN) {
			meet->watch.lost(meet->watch.context, &meet->fault);
			break;
		}
		if (is_over(meet))
			break;
		due_ns = next_ns(meet, beat_ns);
		sleep_until(meet, due_ns);
		now_ns = tauti_meet_now_ns();
		if (now_ns - due_ns > quarter_ns)
			forgive(meet, now_ns);
	} while (true);
	tauti_left_heard(meet, true);
	return NULL;
}

/* Signals are the caller's threads' business. */
static int start_thread(struct tauti_meet *meet)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&meet->watcher, NULL, watch_all, meet);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

static uint32_t allowed_of(const struct tauti_meet *meet)
{
	uint32_t of_all = tauti_kind_bit(TAUTI_BEAT) |
		tauti_kind_bit(TAUTI_LEAVE) | tauti_kind_bit(TAUTI_LOST);

	return of_all | tauti_kind_bit(
		meet->rank == 0 ? TAUTI_SETTLED : TAUTI_LEFT);
}

static void init_heard(struct tauti_meet *meet)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&meet->heard, &attributes);
	pthread_condattr_destroy(&attributes);
}

taut_status tauti_meet_watch(struct tauti_meet *meet,
	const struct tauti_watch *watch, struct taut_error *reterr)
{
	int error;

	if (meet->n_ranks == 1)
		return TAUT_OK;
	if (meet->fault.code) {
		if (reterr)
			*reterr = meet->fault;
		return meet->fault.code;
	}
	meet->watch = *watch;
	for (uint32_t i = tauti_meet_first(meet); i < tauti_meet_end(meet); i++)
		meet->links[i].allowed = allowed_of(meet);
	meet->left = calloc(meet->n_ranks, sizeof *meet->left);
	if (!meet->left)
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "out of memory");
	forgive(meet, tauti_meet_now_ns());
	beat(meet); /* who stands still after this is not being set up */
	meet->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (meet->stop_fd >= 0)
		init_heard(meet);
	error = meet->stop_fd < 0 ? EMFILE : start_thread(meet);
	if (error)
		return taut_error_set(reterr, TAUT_EIO, -1,
			"no thread to watch the other ranks: %s",
			strerror(error));
	meet->watching = true;
	return TAUT_OK;
}

void tauti_meet_ring(struct tauti_meet *meet)
{
	uint64_t one = 1;

	while (meet->watching && write(meet->stop_fd, &one, sizeof one) < 0 && errno == EINTR)
		;
}

void tauti_meet_unwatch(struct tauti_meet *meet)
{
	if (!meet->watching)
		return;
	pthread_mutex_lock(&meet->mutex);
	meet->stops = true;
	pthread_mutex_unlock(&meet->mutex);
	tauti_meet_ring(meet);
	pthread_join(meet->watcher, NULL);
	meet->watching = false;
}

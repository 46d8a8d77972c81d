/* meet.c - how ranks find each other, gather, and leave; see coll.h and meet.h. */
#include "coll/meet.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const int64_t default_within_ns = 60000000000;
static const int64_t default_lost_after_ns = 10000000000;
static const int64_t tell_ns = 1000000000;   /* to tell that one is lost */
static const int64_t leave_ns = 2000000000;  /* to see that others saw it */

/* --- faults ------------------------------------------------------------------------*/

void tauti_meet_tell(struct tauti_meet *meet, uint32_t rank)
{
	size_t bytes = strnlen(meet->fault.message, TAUTI_BODY_MOST - 8 - 1);
	uint32_t first = tauti_meet_first(meet), end = tauti_meet_end(meet);
	uint8_t body[TAUTI_BODY_MOST];

	tauti_put32(body, rank);
	tauti_put32(body + 4, (uint32_t)-(int)meet->fault.code);
	memcpy(body + 8, meet->fault.message, bytes);
	/* What is half gone goes first. */
	tauti_links_flush(meet->links + first, end - first,
		tauti_meet_now_ns() + tell_ns / 2);
	for (uint32_t i = first; i < end; i++)
		(void)tauti_link_put(&meet->links[i], TAUTI_LOST, body,
			8 + bytes);
	tauti_links_flush(meet->links + first, end - first,
		tauti_meet_now_ns() + tell_ns / 2);
}

taut_status tauti_meet_lose(struct tauti_meet *meet, uint32_t peer,
	taut_status status, const char *why)
{
	struct tauti_link *link = &meet->links[peer];

	taut_error_set(&meet->fault, status, -1, "rank %u (%s) is lost: %s",
		peer, link->from, why);
	/* One that only fell silent may come to, and is told too. */
	if (link->error || status != TAUT_EIO)
		tauti_link_close(link);
	if (meet->rank == 0)
		tauti_meet_tell(meet, peer);
	return status;
}

taut_status tauti_meet_told(struct tauti_meet *meet,
	const struct tauti_frame *frame)
{
	uint32_t code = tauti_get32(frame->body + 4);
	char line[TAUTI_BODY_MOST];
	size_t bytes = frame->bytes - 8;

	for (size_t i = 0; i < bytes; i++) {
		uint8_t c = frame->body[8 + i];

		line[i] = c >= ' ' && c != 127 ? (char)c : '?';
	}
	taut_error_set(&meet->fault,
		code == -(int)TAUT_EMATCH ? TAUT_EMATCH : TAUT_EIO, -1, "%.*s",
		(int)bytes, line);
	if (meet->rank == 0)
		tauti_meet_tell(meet, tauti_get32(frame->body));
	return meet->fault.code;
}

void tauti_meet_fail(struct tauti_meet *meet, const struct taut_error *why)
{
	if (meet->n_ranks == 1)
		return;
	pthread_mutex_lock(&meet->mutex);
	if (!meet->own_fault.code) {
		meet->own_fault = *why;
		if (!why->code)
			meet->own_fault.code = TAUT_EIO;
	}
	pthread_mutex_unlock(&meet->mutex);
	if (meet->watching)
		tauti_meet_ring(meet);
	else
		tauti_meet_confess(meet);
}

bool tauti_meet_confess(struct tauti_meet *meet)
{
	struct taut_error why;

	pthread_mutex_lock(&meet->mutex);
	why = meet->own_fault;
	pthread_mutex_unlock(&meet->mutex);
	if (!why.code || meet->fault.code)
		return false;
	meet->fault = why;
	tauti_meet_tell(meet, meet->rank);
	return true;
}

static taut_status fault_of(const struct tauti_meet *meet,
	struct taut_error *reterr)
{
	if (reterr)
		*reterr = meet->fault;
	return meet->fault.code;
}

/* --- create ------------------------------------------------------------------------*/

static taut_status check(const struct tauti_meet_options *options,
	struct taut_error *reterr)
{
	struct tauti_address address;

	if (!options->n_ranks || options->n_ranks > TAUTI_RANKS_MOST ||
		options->rank >= options->n_ranks)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"rank %u of %u: expected one below the number of "
			"ranks, of which there are %d at most", options->rank,
			options->n_ranks, TAUTI_RANKS_MOST);
	if (options->within_ns < 0 || options->lost_after_ns < 0)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"time to meet or to be lost: expected more than 0");
	if (options->n_ranks == 1)
		return TAUT_OK;
	if (!options->secret || !options->secret[0])
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"%u ranks need a secret: set TAUT_SECRET to the same "
			"text for each", options->n_ranks);
	return tauti_address_read(options->address, &address, reterr);
}

static void meet_free(struct tauti_meet *meet)
{
	for (uint32_t i = 0; meet->links && i < tauti_meet_end(meet); i++)
		tauti_link_close(&meet->links[i]);
	free(meet->links);
	free(meet->left);
	free(meet->polls);
	free(meet->where);
	pthread_mutex_destroy(&meet->mutex);
	if (meet->stop_fd >= 0)
		pthread_cond_destroy(&meet->heard);
	free(meet);
}

static struct tauti_meet *meet_alloc(const struct tauti_meet_options *options)
{
	struct tauti_meet *meet = calloc(1, sizeof *meet);
	size_t n;

	if (!meet)
		return NULL;
	meet->rank = options->rank;
	meet->n_ranks = options->n_ranks;
	meet->within_ns = options->within_ns ? options->within_ns :
		default_within_ns;
	meet->lost_after_ns = options->lost_after_ns ? options->lost_after_ns :
		default_lost_after_ns;
	meet->until_ns = INT64_MAX;
	meet->door_fd = meet->stop_fd = -1;
	pthread_mutex_init(&meet->mutex, NULL);
	n = tauti_meet_end(meet);
	meet->links = calloc(n, sizeof *meet->links);
	meet->polls = calloc(n + 1, sizeof *meet->polls);
	meet->where = strdup(options->address ? options->address : "");
	for (size_t i = 0; meet->links && i < n; i++)
		meet->links[i].fd = -1;
	if (meet->links && meet->polls && meet->where)
		return meet;
	meet_free(meet);
	return NULL;
}

taut_status tauti_meet_create(const struct tauti_meet_options *options,
	struct tauti_meet **ret_meet, struct taut_error *reterr)
{
	struct tauti_meet *meet;
	taut_status status = check(options, reterr);

	if (status != TAUT_OK)
		return status;
	meet = meet_alloc(options);
	if (!meet)
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "out of memory");
	if (meet->n_ranks > 1)
		status = meet->rank == 0 ?
			tauti_meet_host(meet, options, reterr) :
			tauti_meet_guest(meet, options, reterr);
	if (status != TAUT_OK) {
		meet_free(meet);
		return status;
	}
	*ret_meet = meet;
	return TAUT_OK;
}

/* --- gather ------------------------------------------------------------------------*/

/* Waits for what any of the links can do: read where its size is still wanted,
 * write where some is left. False: the time is over. */
static bool wait_links(struct tauti_meet *meet, bool to_read, int64_t until_ns)
{
	uint32_t end = tauti_meet_end(meet);
	int64_t now_ns = tauti_meet_now_ns();

	until_ns = tauti_earlier_ns(until_ns, meet->until_ns);
	if (now_ns >= until_ns)
		return false;
	for (uint32_t i = 0; i < end; i++) {
		struct tauti_link *link = &meet->links[i];
		bool idle = tauti_link_idle(link);

		meet->polls[i] = (struct pollfd){
			.fd = idle && !to_read ? -1 : link->fd,
			.events = (short)((to_read ? POLLIN : 0) |
				(idle ? 0 : POLLOUT)) };
	}
	meet->polls[end] = (struct pollfd){ .fd = meet->door_fd,
		.events = POLLIN };
	tauti_poll(meet->polls, (size_t)end + 1, until_ns - now_ns);
	if (meet->polls[end].revents)
		tauti_meet_hasten(meet);
	return true;
}

/* While frames of this kind are wanted. */
static uint32_t allowed_for(enum tauti_frame_kind wanted)
{
	return tauti_kind_bit(wanted) | tauti_kind_bit(TAUTI_LEAVE) |
		tauti_kind_bit(TAUTI_LOST) | tauti_kind_bit(TAUTI_SUMMON);
}

/* The next frame but summons: who reads is here, and rank 0 passes them on. */
static taut_status read_next(struct tauti_meet *meet, uint32_t peer,
	struct tauti_frame *ret_frame)
{
	taut_status status;

	while ((status = tauti_link_read(&meet->links[peer], ret_frame)) ==
		TAUT_OK && ret_frame->kind == TAUTI_SUMMON)
		if (meet->rank == 0)
			tauti_meet_summon(meet);
	return status;
}

/* One link of a gather. TAUT_OK: its frame came; it must be of the wanted kind. */
static taut_status hear(struct tauti_meet *meet, uint32_t peer,
	enum tauti_frame_kind wanted)
{
	struct tauti_link *link = &meet->links[peer];
	struct tauti_frame frame;
	taut_status status = read_next(meet, peer, &frame);

	if (status == TAUT_EAGAIN)
		return tauti_link_write(link) == TAUT_EIO ?
			tauti_meet_lose(meet, peer, TAUT_EIO,
				tauti_link_why(link, TAUT_EIO)) : TAUT_EAGAIN;
	if (status != TAUT_OK)
		return tauti_meet_lose(meet, peer, status == TAUT_EIO ?
			TAUT_EIO : TAUT_EMATCH, tauti_link_why(link, status));
	if (frame.kind == TAUTI_LEAVE)
		return tauti_meet_lose(meet, peer, TAUT_EIO,
			"it left before all was set up");
	if (frame.kind == TAUTI_LOST)
		return tauti_meet_told(meet, &frame);
	link->allowed &= ~tauti_kind_bit(wanted);
	return TAUT_OK;
}

/* Rank 0: the parts of the others. */
static taut_status collect(struct tauti_meet *meet, size_t bytes,
	uint8_t *all, int64_t until_ns)
{
	uint32_t missing = meet->n_ranks - 1, last = 0;

	for (uint32_t i = 1; i < meet->n_ranks; i++) {
		meet->links[i].allowed = allowed_for(TAUTI_GIVE);
		meet->links[i].bulk_in = all + i * bytes;
		meet->links[i].bulk_in_bytes = bytes;
	}
	for (;;) {
		for (uint32_t i = 1; i < meet->n_ranks; i++) {
			taut_status status = hear(meet, i, TAUTI_GIVE);

			if (status == TAUT_OK)
				missing--;
			else if (status != TAUT_EAGAIN)
				return status;
			if (meet->links[i].allowed & tauti_kind_bit(TAUTI_GIVE))
				last = i;
		}
		if (!missing)
			return TAUT_OK;
		if (!wait_links(meet, true, until_ns))
			return tauti_meet_lose(meet, last, TAUT_EIO,
				"it did not gather in time");
	}
}

/* Rank 0: all parts to each. */
static taut_status spread(struct tauti_meet *meet, size_t bytes,
	const uint8_t *all, int64_t until_ns)
{
	for (uint32_t i = 1; i < meet->n_ranks; i++)
		(void)tauti_link_put_bulk(&meet->links[i], TAUTI_ALL, all,
			bytes * meet->n_ranks);
	for (;;) {
		uint32_t slow = 0;

		for (uint32_t i = 1; i < meet->n_ranks; i++) {
			struct tauti_link *link = &meet->links[i];
			taut_status status = tauti_link_write(link);

			if (status == TAUT_EIO)
				return tauti_meet_lose(meet, i, TAUT_EIO,
					tauti_link_why(link, TAUT_EIO));
			slow = status == TAUT_OK ? slow : i;
		}
		if (!slow)
			return TAUT_OK;
		if (!wait_links(meet, false, until_ns))
			return tauti_meet_lose(meet, slow, TAUT_EIO,
				"it takes nothing");
	}
}

static taut_status exchange(struct tauti_meet *meet, const void *mine,
	size_t bytes, uint8_t *all, int64_t until_ns)
{
	struct tauti_link *link = &meet->links[0];
	taut_status status;

	link->allowed = allowed_for(TAUTI_ALL);
	link->bulk_in = all;
	link->bulk_in_bytes = bytes * meet->n_ranks;
	(void)tauti_link_put_bulk(link, TAUTI_GIVE, mine, bytes);
	(void)tauti_link_write(link); /* a fault is seen when reading */
	for (;;) {
		status = hear(meet, 0, TAUTI_ALL);
		if (status != TAUT_EAGAIN)
			return status;
		if (!wait_links(meet, true, until_ns))
			return tauti_meet_lose(meet, 0, TAUT_EIO,
				"it did not gather in time");
	}
}

/* Nothing of the caller's is used from here on. */
static void forget_bulk(struct tauti_meet *meet)
{
	for (uint32_t i = tauti_meet_first(meet); i < tauti_meet_end(meet); i++) {
		if (meet->links[i].bulk_out_bytes) /* in the middle of a frame */
			tauti_link_close(&meet->links[i]);
		meet->links[i].bulk_out_bytes = 0;
		meet->links[i].bulk_in = NULL;
		meet->links[i].bulk_in_bytes = 0;
	}
}

taut_status tauti_meet_gather(struct tauti_meet *meet, const void *mine,
	size_t bytes, void *ret_all, struct taut_error *reterr)
{
	int64_t until_ns = tauti_meet_now_ns() + meet->within_ns;
	taut_status status = TAUT_OK;

	if (bytes > UINT32_MAX / meet->n_ranks)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"gather: %zu bytes of %u ranks are too many", bytes,
			meet->n_ranks);
	if (meet->fault.code)
		return fault_of(meet, reterr);
	if (meet->rank == 0) {
		if (bytes)
			memcpy(ret_all, mine, bytes);
		status = collect(meet, bytes, ret_all, until_ns);
		if (status == TAUT_OK)
			status = spread(meet, bytes, ret_all, until_ns);
	} else {
		/* Rank 0 may begin later, and then has as long. */
		status = exchange(meet, mine, bytes, ret_all,
			until_ns + meet->within_ns);
	}
	forget_bulk(meet);
	return status == TAUT_OK ? TAUT_OK : fault_of(meet, reterr);
}

/* --- leave -------------------------------------------------------------------------*/

/* Until the others have closed too: what is on the way to them is not cut off. */
static void linger(struct tauti_meet *meet, int64_t until_ns)
{
	uint32_t first = tauti_meet_first(meet), end = tauti_meet_end(meet);
	uint8_t rest[256];

	for (;;) {
		uint32_t open = 0;

		for (uint32_t i = first; i < end; i++) {
			struct tauti_link *link = &meet->links[i];
			ssize_t n = link->fd < 0 ? 0 : recv(link->fd, rest,
				sizeof rest, MSG_DONTWAIT);

			while (n > 0)
				n = recv(link->fd, rest, sizeof rest,
					MSG_DONTWAIT);
			if (n == 0 || (errno != EAGAIN && errno != EINTR))
				tauti_link_close(link);
			open += link->fd >= 0;
		}
		if (!open || !wait_links(meet, true, until_ns))
			return;
	}
}

static void leave(struct tauti_meet *meet)
{
	uint32_t first = tauti_meet_first(meet), end = tauti_meet_end(meet);

	for (uint32_t i = first; i < end; i++)
		if (meet->said_leave ||
			tauti_link_put(&meet->links[i], TAUTI_LEAVE, NULL, 0))
			(void)tauti_link_write(&meet->links[i]);
	for (uint32_t i = first; i < end; i++) {
		if (meet->links[i].fd >= 0 && tauti_link_idle(&meet->links[i]))
			shutdown(meet->links[i].fd, SHUT_WR);
		meet->links[i].out_from = meet->links[i].out_end = 0;
	}
	if (meet->stop_fd >= 0) /* it watched, so the others answer */
		linger(meet, tauti_meet_now_ns() + leave_ns);
}

void tauti_meet_destroy(struct tauti_meet *meet)
{
	if (!meet)
		return;
	if (meet->n_ranks > 1) {
		if (meet->watching)
			tauti_meet_leave(meet, (uint32_t[TAUTI_REACHED]){ 0 });
		tauti_meet_unwatch(meet);
		if (!meet->fault.code)
			leave(meet);
		if (meet->stop_fd >= 0)
			close(meet->stop_fd);
	}
	meet_free(meet);
}

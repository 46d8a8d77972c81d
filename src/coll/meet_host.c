/* meet_host.c - rank 0 until all are there; see meet.h.
 *
 * Everything is driven by one poll(): listeners, guests (who have not proven who
 * they are) and the ranks that have. Nobody is waited for, so silence, garbage
 * and half a hello cost others nothing. */
#include "coll/meet.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GUESTS = 256 };
/* A guest must have proven itself; and where guests fill the room, the oldest
 * leaves when it has had this long. */
static const int64_t guest_ns = 5000000000, guest_least_ns = 200000000;
static const int64_t pause_ns = 20000000;

enum weight { NOTHING, NOISE, NO_SECRET, NO_MATCH }; /* which refusal is told */

struct host {
	struct tauti_meet *meet;
	const struct tauti_meet_options *options;
	int listeners[TAUTI_LISTENERS];
	struct tauti_guest *guests; /* the oldest first */
	uint32_t n_guests, n_joined;
	struct pollfd *polls;
	int64_t until_ns;
	bool starved; /* no descriptor for another guest */
	enum weight weight;
	char refused[192];
};

static void refuse(struct host *host, const struct tauti_guest *guest,
	enum weight weight, const char *why)
{
	if (weight <= host->weight)
		return;
	host->weight = weight;
	snprintf(host->refused, sizeof host->refused, "%s: %s",
		guest->link.from, why);
}

static void drop(struct host *host, uint32_t i)
{
	tauti_link_close(&host->guests[i].link);
	host->n_guests--;
	memmove(&host->guests[i], &host->guests[i + 1],
		(host->n_guests - i) * sizeof *host->guests);
}

static enum tauti_verdict judge(struct host *host,
	const struct tauti_guest *guest)
{
	struct tauti_meet *meet = host->meet;
	char why[96];

	if (guest->n_ranks != meet->n_ranks || guest->rank == 0 ||
		guest->rank >= meet->n_ranks) {
		snprintf(why, sizeof why, "says it is rank %u of %u",
			guest->rank, guest->n_ranks);
		refuse(host, guest, NO_MATCH, why);
		return TAUTI_OTHER_SIZE;
	}
	if (meet->links[guest->rank].fd >= 0) {
		snprintf(why, sizeof why, "a second rank %u", guest->rank);
		refuse(host, guest, NO_MATCH, why);
		return TAUTI_ALREADY_THERE;
	}
	return TAUTI_WELCOME_IN;
}

/* Knows the secret. True: it is one of the ranks now, and a guest no more. */
static bool admit(struct host *host, struct tauti_guest *guest)
{
	enum tauti_verdict verdict = judge(host, guest);
	struct tauti_link *link = &guest->link;

	if (!tauti_guest_welcome(guest, host->options->secret, verdict,
		host->meet->n_ranks))
		return false;
	if (tauti_link_write(link) == TAUT_EIO || verdict != TAUTI_WELCOME_IN)
		return false;
	link->allowed = tauti_kind_bit(TAUTI_LEAVE);
	host->meet->links[guest->rank] = *link;
	host->n_joined++;
	link->fd = -1;
	return true;
}

/* Reads and answers what there is. False: it goes. */
static bool serve(struct host *host, struct tauti_guest *guest)
{
	struct tauti_frame frame;
	taut_status status;

	do {
		status = tauti_link_read(&guest->link, &frame);
		if (status == TAUT_EAGAIN)
			return tauti_link_write(&guest->link) != TAUT_EIO;
		if (status != TAUT_OK) {
			refuse(host, guest,
				status == TAUT_EMATCH ? NO_MATCH : NOISE,
				tauti_link_why(&guest->link, status));
			return false;
		}
		status = tauti_guest_take(guest, &frame, host->options->secret);
	} while (status == TAUT_EAGAIN);
	if (status == TAUT_OK) {
		admit(host, guest);
		return false;
	}
	if (status == TAUT_EIO)
		refuse(host, guest, NO_SECRET, "does not know the secret");
	(void)tauti_link_write(&guest->link);
	return false;
}

/* --- what is waited for -------------------------------------------------------------*/

static bool has_room(const struct host *host, int64_t now_ns)
{
	return host->n_guests < GUESTS ||
		now_ns - host->guests[0].came_ns >= guest_least_ns;
}

static struct pollfd to_poll(const struct tauti_link *link)
{
	return (struct pollfd){ .fd = link->fd, .events = (short)(POLLIN |
		(tauti_link_idle(link) ? 0 : POLLOUT)) };
}

/* Listeners, guests, ranks. */
static size_t fill_polls(struct host *host, int64_t now_ns)
{
	size_t n = 0;
	bool room = has_room(host, now_ns) && !host->starved;

	for (int i = 0; i < TAUTI_LISTENERS; i++)
		host->polls[n++] = (struct pollfd){
			.fd = room ? host->listeners[i] : -1, .events = POLLIN };
	for (uint32_t i = 0; i < host->n_guests; i++)
		host->polls[n++] = to_poll(&host->guests[i].link);
	for (uint32_t i = 1; i < host->meet->n_ranks; i++)
		host->polls[n++] = to_poll(&host->meet->links[i]);
	return n;
}

static int64_t next_ns(const struct host *host, int64_t now_ns)
{
	int64_t at_ns = host->until_ns;

	if (host->n_guests && host->guests[0].came_ns + guest_ns < at_ns)
		at_ns = host->guests[0].came_ns + guest_ns;
	if (!has_room(host, now_ns) || host->starved)
		at_ns = now_ns + pause_ns < at_ns ? now_ns + pause_ns : at_ns;
	return at_ns;
}

/* --- what came ----------------------------------------------------------------------*/

static void take_one(struct host *host, int listener, int64_t now_ns,
	bool *ret_more)
{
	struct sockaddr_storage from;
	socklen_t bytes = sizeof from;
	struct tauti_guest *guest;
	int fd = accept4(listener, (struct sockaddr *)&from, &bytes,
		SOCK_CLOEXEC | SOCK_NONBLOCK);

	*ret_more = fd >= 0 || errno == EINTR || errno == ECONNABORTED;
	host->starved = fd < 0 && (errno == EMFILE || errno == ENFILE ||
		errno == ENOMEM || errno == ENOBUFS);
	if (fd < 0)
		return;
	if (host->n_guests == GUESTS)
		drop(host, 0);
	tauti_socket_prepare(fd);
	guest = &host->guests[host->n_guests++];
	tauti_guest_open(guest, fd, now_ns);
	if (getnameinfo((struct sockaddr *)&from, bytes, guest->link.from,
		sizeof guest->link.from, NULL, 0, NI_NUMERICHOST) != 0)
		snprintf(guest->link.from, sizeof guest->link.from, "a guest");
}

static void take_guests(struct host *host, int listener, int64_t now_ns)
{
	bool more = true;

	for (int i = 0; more && i < GUESTS && has_room(host, now_ns); i++)
		take_one(host, listener, now_ns, &more);
}

static void serve_guests(struct host *host, int64_t now_ns)
{
	const struct pollfd *polls = host->polls + TAUTI_LISTENERS;

	for (uint32_t i = host->n_guests; i-- > 0;) {
		struct tauti_guest *guest = &host->guests[i];
		bool stays = !polls[i].revents || serve(host, guest);

		if (stays && now_ns - guest->came_ns >= guest_ns) {
			refuse(host, guest, NOISE, "said no hello");
			stays = false;
		}
		if (!stays)
			drop(host, i);
	}
}

/* A rank that goes before all are there may come again. */
static void look_after(struct host *host, const struct pollfd *polls)
{
	struct tauti_frame frame;

	for (uint32_t i = 1; i < host->meet->n_ranks; i++) {
		struct tauti_link *link = &host->meet->links[i];

		if (link->fd < 0 || !polls[i - 1].revents)
			continue;
		if (tauti_link_read(link, &frame) == TAUT_EAGAIN &&
			tauti_link_write(link) != TAUT_EIO)
			continue;
		tauti_link_close(link);
		host->n_joined--;
	}
}

static void turn(struct host *host, int64_t now_ns)
{
	size_t n = fill_polls(host, now_ns);
	uint32_t n_guests = host->n_guests;

	tauti_poll(host->polls, n, next_ns(host, now_ns) - now_ns);
	now_ns = tauti_meet_now_ns();
	host->starved = false;
	/* The ranks first: who comes again finds its place free. */
	look_after(host, host->polls + TAUTI_LISTENERS + n_guests);
	serve_guests(host, now_ns);
	for (int i = 0; i < TAUTI_LISTENERS; i++)
		if (host->polls[i].revents)
			take_guests(host, host->listeners[i], now_ns);
}

/* --- the whole ----------------------------------------------------------------------*/

/* "2, 3 and 5 more" */
static void name_missing(const struct tauti_meet *meet, char *text, size_t size)
{
	uint32_t n = 0;
	size_t at = 0;

	for (uint32_t i = 1; i < meet->n_ranks; i++) {
		if (meet->links[i].fd >= 0 || ++n > 8)
			continue;
		at += (size_t)snprintf(text + at, size - at, "%s%u",
			n > 1 ? ", " : "", i);
	}
	if (n > 8)
		snprintf(text + at, size - at, " and %u more", n - 8);
}

static taut_status too_late(struct host *host, struct taut_error *reterr)
{
	struct tauti_meet *meet = host->meet;
	char missing[160];

	name_missing(meet, missing, sizeof missing);
	taut_error_set(&meet->fault,
		host->weight == NO_MATCH ? TAUT_EMATCH : TAUT_EIO, -1,
		"rank 0 at %.100s: of %u ranks did not come within %g s: %s%s%s",
		meet->where, meet->n_ranks, (double)meet->within_ns / 1e9,
		missing, host->weight ? "; refused: " : "", host->refused);
	tauti_meet_tell(meet, 0);
	if (reterr)
		*reterr = meet->fault;
	return meet->fault.code;
}

/* All are there: from here on one that goes is lost. */
static taut_status start(struct host *host, struct taut_error *reterr)
{
	struct tauti_meet *meet = host->meet;
	int64_t until_ns = tauti_meet_now_ns() + guest_ns;

	for (uint32_t i = 1; i < meet->n_ranks; i++)
		(void)tauti_link_put(&meet->links[i], TAUTI_START, NULL, 0);
	tauti_links_flush(meet->links + 1, meet->n_ranks - 1, until_ns);
	for (uint32_t i = 1; i < meet->n_ranks; i++)
		if (!tauti_link_idle(&meet->links[i])) {
			taut_status status = tauti_meet_lose(meet, i, TAUT_EIO,
				tauti_link_why(&meet->links[i], TAUT_EIO));

			if (reterr)
				*reterr = meet->fault;
			return status;
		}
	return TAUT_OK;
}

static void host_fini(struct host *host)
{
	for (int i = 0; i < TAUTI_LISTENERS; i++)
		if (host->listeners[i] >= 0)
			close(host->listeners[i]);
	while (host->n_guests)
		drop(host, host->n_guests - 1);
	free(host->guests);
	free(host->polls);
}

taut_status tauti_meet_host(struct tauti_meet *meet,
	const struct tauti_meet_options *options, struct taut_error *reterr)
{
	struct host host = { .meet = meet, .options = options,
		.listeners = { -1, -1 },
		.until_ns = tauti_meet_now_ns() + meet->within_ns };
	taut_status status;

	host.guests = calloc(GUESTS, sizeof *host.guests);
	host.polls = calloc((size_t)TAUTI_LISTENERS + GUESTS + meet->n_ranks,
		sizeof *host.polls);
	if (!host.guests || !host.polls) {
		host_fini(&host);
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "out of memory");
	}
	status = tauti_address_listen(options->address, host.until_ns,
		host.listeners, reterr);
	while (status == TAUT_OK && host.n_joined + 1 < meet->n_ranks) {
		int64_t now_ns = tauti_meet_now_ns();

		if (now_ns >= host.until_ns)
			status = too_late(&host, reterr);
		else
			turn(&host, now_ns);
	}
	if (status == TAUT_OK)
		status = start(&host, reterr);
	host_fini(&host);
	return status;
}

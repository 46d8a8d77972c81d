/* meet_door.c - a rank 0 that takes the others one by one, whenever they come; see
 * coll.h and meet.h. What they say until then is what they say to meet_host.c. */
#include "coll/meet.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GUESTS = 128 };
/* To prove itself; and where guests fill the room, the oldest leaves when it has had this
 * long. */
static const int64_t guest_ns = 5000000000, guest_least_ns = 200000000;
static const int64_t pause_ns = 20000000; /* until there is room, or a descriptor */

struct tauti_door {
	char *secret;
	uint32_t n_ranks;
	int listeners[TAUTI_LISTENERS];
	struct tauti_guest guests[GUESTS]; /* the oldest first */
	uint32_t n_guests;
	uint64_t refused;
	bool starved; /* no descriptor for another guest */
};

taut_status tauti_door_open(const char *address, const char *secret,
	uint32_t n_ranks, struct tauti_door **ret_door, struct taut_error *reterr)
{
	struct tauti_door *door;
	taut_status status;

	if (!secret || !secret[0])
		return taut_error_set(reterr, TAUT_EINVAL, -1, "no secret: set "
			"TAUT_SECRET to the same text for all");
	door = calloc(1, sizeof *door);
	if (door)
		door->secret = strdup(secret);
	if (!door || !door->secret) {
		free(door);
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "out of memory");
	}
	door->n_ranks = n_ranks;
	status = tauti_address_listen(address, tauti_meet_now_ns() + guest_ns,
		door->listeners, reterr);
	if (status != TAUT_OK) {
		free(door->secret);
		free(door);
		return status;
	}
	*ret_door = door;
	return TAUT_OK;
}

static void drop(struct tauti_door *door, uint32_t i)
{
	tauti_link_close(&door->guests[i].link);
	door->n_guests--;
	memmove(&door->guests[i], &door->guests[i + 1],
		(door->n_guests - i) * sizeof *door->guests);
}

void tauti_door_close(struct tauti_door *door)
{
	if (!door)
		return;
	while (door->n_guests)
		drop(door, door->n_guests - 1);
	for (int i = 0; i < TAUTI_LISTENERS; i++)
		if (door->listeners[i] >= 0)
			close(door->listeners[i]);
	free(door->secret);
	free(door);
}

uint64_t tauti_door_refused(const struct tauti_door *door)
{
	return door->refused;
}

/* Who fills the room goes, the oldest first, so that nobody can hold the door; but not before
 * it could speak. */
static void take_one(struct tauti_door *door, int listener)
{
	struct sockaddr_storage from;
	socklen_t bytes = sizeof from;
	struct tauti_guest *guest;
	int fd = accept4(listener, (struct sockaddr *)&from, &bytes,
		SOCK_CLOEXEC | SOCK_NONBLOCK);

	door->starved = fd < 0 && (errno == EMFILE || errno == ENFILE ||
		errno == ENOMEM || errno == ENOBUFS);
	if (fd < 0)
		return;
	if (door->n_guests == GUESTS) {
		drop(door, 0);
		door->refused++;
	}
	tauti_socket_prepare(fd);
	guest = &door->guests[door->n_guests++];
	tauti_guest_open(guest, fd, tauti_meet_now_ns());
	if (getnameinfo((struct sockaddr *)&from, bytes, guest->link.from,
		sizeof guest->link.from, NULL, 0, NI_NUMERICHOST) != 0)
		snprintf(guest->link.from, sizeof guest->link.from, "a guest");
}

/* Knows the secret. TAUT_OK: it is let in, and its link is the caller's. */
static taut_status admit(struct tauti_door *door, struct tauti_guest *guest,
	struct tauti_link *ret_link, uint32_t *ret_rank)
{
	bool fits = guest->n_ranks == door->n_ranks && guest->rank &&
		guest->rank < door->n_ranks;

	if (!tauti_guest_welcome(guest, door->secret, fits ?
		TAUTI_WELCOME_IN : TAUTI_OTHER_SIZE, door->n_ranks) ||
		tauti_link_write(&guest->link) == TAUT_EIO || !fits)
		return TAUT_EIO;
	*ret_link = guest->link;
	*ret_rank = guest->rank;
	guest->link.fd = -1;
	return TAUT_OK;
}

/* TAUT_OK: let in; TAUT_EAGAIN: it stays; TAUT_EIO: it goes. */
static taut_status serve(struct tauti_door *door, struct tauti_guest *guest,
	struct tauti_link *ret_link, uint32_t *ret_rank)
{
	struct tauti_frame frame;
	taut_status status;

	do {
		status = tauti_link_read(&guest->link, &frame);
		if (status == TAUT_EAGAIN)
			return tauti_link_write(&guest->link) == TAUT_EIO ?
				TAUT_EIO : TAUT_EAGAIN;
		if (status != TAUT_OK)
			return TAUT_EIO;
		status = tauti_guest_take(guest, &frame, door->secret);
	} while (status == TAUT_EAGAIN);
	if (status == TAUT_OK)
		return admit(door, guest, ret_link, ret_rank);
	(void)tauti_link_write(&guest->link);
	return TAUT_EIO;
}

static bool has_room(const struct tauti_door *door)
{
	return door->n_guests < GUESTS ||
		tauti_meet_now_ns() - door->guests[0].came_ns >= guest_least_ns;
}

/* The listeners, who is at the door, and what stops it. */
static size_t fill_polls(
	const struct tauti_door *door, int stop_fd, struct pollfd *polls)
{
	bool room = has_room(door) && !door->starved;
	size_t n = 0;

	for (int i = 0; i < TAUTI_LISTENERS; i++)
		polls[n++] = (struct pollfd){
			.fd = room ? door->listeners[i] : -1, .events = POLLIN };
	polls[n++] = (struct pollfd){ .fd = stop_fd, .events = POLLIN };
	for (uint32_t i = 0; i < door->n_guests; i++) {
		const struct tauti_link *link = &door->guests[i].link;

		polls[n++] = (struct pollfd){ .fd = link->fd, .events =
			(short)(POLLIN | (tauti_link_idle(link) ? 0 : POLLOUT)) };
	}
	return n;
}

static int64_t next_ns(const struct tauti_door *door)
{
	int64_t now_ns = tauti_meet_now_ns(), left_ns = INT64_C(3600000000000);

	if (door->n_guests)
		left_ns = door->guests[0].came_ns + guest_ns - now_ns;
	if ((door->starved || !has_room(door)) && left_ns > pause_ns)
		left_ns = pause_ns;
	return left_ns < 0 ? 0 : left_ns;
}

/* TAUT_OK: one is let in. */
static taut_status serve_guests(struct tauti_door *door,
	const struct pollfd *polls, struct tauti_link *ret_link,
	uint32_t *ret_rank)
{
	int64_t now_ns = tauti_meet_now_ns();

	for (uint32_t i = door->n_guests; i-- > 0;) {
		struct tauti_guest *guest = &door->guests[i];
		taut_status status = polls[i].revents ?
			serve(door, guest, ret_link, ret_rank) : TAUT_EAGAIN;

		if (status == TAUT_EAGAIN && now_ns - guest->came_ns < guest_ns)
			continue;
		door->refused += status != TAUT_OK;
		drop(door, i);
		if (status == TAUT_OK)
			return TAUT_OK;
	}
	return TAUT_EAGAIN;
}

taut_status tauti_door_take(struct tauti_door *door, int stop_fd,
	struct tauti_link *ret_link, uint32_t *ret_rank)
{
	struct pollfd polls[TAUTI_LISTENERS + 1 + GUESTS];

	for (;;) {
		size_t n = fill_polls(door, stop_fd, polls);

		tauti_poll(polls, n, next_ns(door));
		door->starved = false;
		if (polls[TAUTI_LISTENERS].revents)
			return TAUT_EAGAIN;
		if (serve_guests(door, polls + TAUTI_LISTENERS + 1, ret_link,
			ret_rank) == TAUT_OK)
			return TAUT_OK;
		for (int i = 0; i < TAUTI_LISTENERS; i++)
			if (polls[i].revents && has_room(door))
				take_one(door, door->listeners[i]);
	}
}

struct tauti_meet *tauti_door_meet(const struct tauti_link *link, int stop_fd,
	int64_t within_ns, int64_t lost_after_ns)
{
	struct tauti_meet *meet = calloc(1, sizeof *meet);

	if (!meet)
		return NULL;
	*meet = (struct tauti_meet){ .n_ranks = 2, .within_ns = within_ns,
		.lost_after_ns = lost_after_ns, .stop_fd = -1,
		.until_ns = tauti_meet_now_ns() + within_ns,
		.door_fd = stop_fd };
	meet->links = calloc(2, sizeof *meet->links);
	meet->polls = calloc(3, sizeof *meet->polls);
	if (!meet->links || !meet->polls) {
		free(meet->links);
		free(meet->polls);
		free(meet);
		return NULL;
	}
	pthread_mutex_init(&meet->mutex, NULL);
	meet->links[0].fd = -1;
	meet->links[1] = *link;
	(void)tauti_link_put(&meet->links[1], TAUTI_START, NULL, 0);
	(void)tauti_link_write(&meet->links[1]);
	return meet;
}

void tauti_meet_make_pair(struct tauti_meet *meet)
{
	meet->rank = 1;
	meet->n_ranks = 2;
}

bool tauti_link_tell(struct tauti_link *link, uint32_t rank, taut_status code,
	const char *line)
{
	size_t bytes = strnlen(line, TAUTI_BODY_MOST - 8 - 1);
	uint8_t body[TAUTI_BODY_MOST];

	tauti_put32(body, rank);
	tauti_put32(body + 4, (uint32_t)-(int)code);
	memcpy(body + 8, line, bytes);
	return tauti_link_put(link, TAUTI_LOST, body, 8 + bytes);
}

void tauti_frame_line(const struct tauti_frame *frame, char *line, size_t size)
{
	size_t n = frame->bytes > 8 ? frame->bytes - 8 : 0;

	if (n >= size)
		n = size - 1;
	for (size_t i = 0; i < n; i++) {
		uint8_t c = frame->body[8 + i];

		line[i] = c >= ' ' && c != 127 ? (char)c : '?';
	}
	line[n] = '\0';
}

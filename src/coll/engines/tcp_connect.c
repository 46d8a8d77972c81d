/* tcp_connect.c - connections between all ranks of different hosts, before there is an
 * engine; see tcp.h.
 *
 *     cards     each tells all where it listens, and a token that nobody else knows
 *     calls     to all lower ranks; who comes says which rank it is and the token of whom
 *               it calls, and is answered with its own: so both know that they are right
 *     outcome   all hear how it went
 *
 * A rank is where it is for the meeting: at the address that its end of that connection
 * has; rank 0, and whoever is on its host and told of an address within it, where the
 * caller itself has rank 0. A caller that knows no token, or says nothing, is dropped. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "coll/engines/outcome.h"
#include "coll/engines/tcp.h"

enum { TOKEN = 16, HELLO = 24, GUESTS = 64, ROOM = 1 << 20 };
static const char magic[4] = "Ttcp";
static const int64_t look_ns = 20000000; /* at the meeting, again */
/* To say who it is; and where guests fill the room, the oldest leaves when it has had this
 * long. */
static const int64_t guest_ns = 5000000000, guest_least_ns = 200000000;

/* What each rank tells all: bytes, the same on every machine of a job. */
struct card {
	uint8_t family; /* 4 or 6; 0: it has no address */
	uint8_t within; /* its host alone */
	uint8_t port[2];
	uint8_t address[16];
	uint8_t scope[4];
	uint8_t token[TOKEN];
};

enum state {
	UNWANTED, /* this rank, and those of its host */
	CALLED,   /* by this rank: the connection is being made */
	ASKED,    /* it said who it is, and waits for the answer */
	AWAITED,  /* it calls */
	STANDS,
};

struct way { /* to one rank */
	enum state state;
	int fd;
	size_t have;
	uint8_t said[HELLO];
};

struct guest { /* who has come, and has yet to say who it is */
	int fd;
	int64_t came_ns;
	size_t have;
	uint8_t said[HELLO];
};

struct joining {
	struct tauti_tcp *tcp;
	struct tauti_meet *meet;
	uint32_t rank, n_ranks;
	int listener;
	struct card own, *cards; /* by rank */
	struct way *ways;
	struct guest guests[GUESTS];
	size_t n_guests;
	int full; /* errno, as long as nobody can be let in for it; 0: they can */
	int64_t full_until_ns; /* then it is tried again */
	struct pollfd *polls; /* ways, guests, the listener */
	int64_t within_ns;
	struct tauti_fault fault;
};

/* --- addresses ------------------------------------------------------------------------*/

static void set_card(const struct sockaddr_storage *at, struct card *card)
{
	const struct sockaddr_in *four = (const void *)at;
	const struct sockaddr_in6 *six = (const void *)at;

	if (at->ss_family == AF_INET) {
		card->family = 4;
		memcpy(card->address, &four->sin_addr, 4);
	} else if (at->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
		card->family = 4;
		memcpy(card->address, six->sin6_addr.s6_addr + 12, 4);
	} else if (at->ss_family == AF_INET6) {
		card->family = 6;
		memcpy(card->address, &six->sin6_addr, 16);
		memcpy(card->scope, &six->sin6_scope_id, sizeof card->scope);
		card->within = IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) != 0;
	}
	if (card->family == 4)
		card->within = card->address[0] == 127;
}

static socklen_t address_of(const struct card *card, const uint8_t port[2],
	struct sockaddr_storage *ret)
{
	struct sockaddr_in *four = (void *)ret;
	struct sockaddr_in6 *six = (void *)ret;

	memset(ret, 0, sizeof *ret);
	if (card->family == 4) {
		four->sin_family = AF_INET;
		memcpy(&four->sin_port, port, 2);
		memcpy(&four->sin_addr, card->address, 4);
		return sizeof *four;
	}
	six->sin6_family = AF_INET6;
	memcpy(&six->sin6_port, port, 2);
	memcpy(&six->sin6_addr, card->address, 16);
	memcpy(&six->sin6_scope_id, card->scope, sizeof card->scope);
	return sizeof *six;
}

static bool is_of_link(const struct card *card)
{
	struct in6_addr six;

	memcpy(&six, card->address, sizeof six);
	return card->family == 6 && IN6_IS_ADDR_LINKLOCAL(&six);
}

/* Where this rank finds another. False: there is no such place. */
static bool find(const struct joining *j, uint32_t rank, struct sockaddr_storage *ret_at,
	socklen_t *ret_bytes)
{
	struct card at = j->cards[rank];
	struct sockaddr_storage there;

	if (rank == 0 || (at.within && !j->own.within)) {
		if (!tauti_meet_address(j->meet, true, &there))
			return false;
		memset(&at, 0, sizeof at);
		set_card(&there, &at);
	}
	if (at.family != 4 && at.family != 6)
		return false;
	/* The link over which they meet, which each host numbers by itself. */
	if (is_of_link(&at) && is_of_link(&j->own))
		memcpy(at.scope, j->own.scope, sizeof at.scope);
	*ret_bytes = address_of(&at, j->cards[rank].port, ret_at);
	return true;
}

static int listen_at_any(int family)
{
	struct sockaddr_storage any = { .ss_family = (sa_family_t)family };
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), no = 0;
	socklen_t bytes = family == AF_INET ? sizeof(struct sockaddr_in) :
		sizeof(struct sockaddr_in6);

	if (fd < 0)
		return -1;
	if (family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
	if (!bind(fd, (struct sockaddr *)&any, bytes) && !listen(fd, SOMAXCONN))
		return fd;
	close(fd);
	return -1;
}

/* Zeros of either family are "any". */
static taut_status begin_listening(struct joining *j, struct taut_error *err)
{
	struct sockaddr_storage here;
	socklen_t bytes = sizeof here;

	j->listener = listen_at_any(AF_INET6);
	if (j->listener < 0)
		j->listener = listen_at_any(AF_INET);
	memset(&here, 0, sizeof here);
	if (j->listener < 0 ||
		getsockname(j->listener, (struct sockaddr *)&here, &bytes))
		return taut_error_set(err, TAUT_EIO, -1,
			"TCP: rank %u cannot listen: %s", j->rank, strerror(errno));
	memcpy(j->own.port, here.ss_family == AF_INET ?
		(const void *)&((struct sockaddr_in *)&here)->sin_port :
		(const void *)&((struct sockaddr_in6 *)&here)->sin6_port, 2);
	return TAUT_OK;
}

/* --- who says what --------------------------------------------------------------------*/

/* Room for what comes, from the first message on: the system begins with 128 KiB, 1 ms of a
 * gigabit, and an acknowledgement stands behind all that goes the other way. Linux makes so
 * much room for who is to be woken at so many bytes, and goes on fitting it to the
 * connection, which SO_RCVBUF would end. */
static void widen(int fd)
{
	int wide = ROOM, one = 1;

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &wide, sizeof wide);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
}

/* Where nothing goes for long, a firewall does not forget that it may. */
static void keep_alive(int fd)
{
	int yes = 1, idle_s = 10;

	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof idle_s);
}

static void prepare(int fd)
{
	int yes = 1;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	keep_alive(fd);
	widen(fd);
}

/* "Ttcp", the number of who speaks, the token of who is spoken to. */
static bool say(const struct joining *j, int fd, uint32_t to)
{
	uint8_t hello[HELLO];

	memcpy(hello, magic, 4);
	for (int i = 0; i < 4; i++)
		hello[4 + i] = (uint8_t)(j->rank >> 8 * i);
	memcpy(hello + 8, j->cards[to].token, TOKEN);
	return send(fd, hello, HELLO, MSG_NOSIGNAL | MSG_DONTWAIT) == HELLO;
}

/* Takes as long for a wrong token as for the right one. */
static bool is_meant(const struct joining *j, const uint8_t said[HELLO], uint32_t *ret_who)
{
	uint8_t wrong = 0;

	*ret_who = 0;
	for (int i = 0; i < 4; i++)
		*ret_who |= (uint32_t)said[4 + i] << 8 * i;
	for (int i = 0; i < 4; i++)
		wrong |= said[i] ^ (uint8_t)magic[i];
	for (int i = 0; i < TOKEN; i++)
		wrong |= said[8 + i] ^ j->own.token[i];
	return !wrong && *ret_who < j->n_ranks;
}

/* 1: all is there; 0: not yet; -1: it closed. */
static int hear(int fd, uint8_t said[HELLO], size_t *have)
{
	ssize_t n = recv(fd, said + *have, HELLO - *have, MSG_DONTWAIT);

	if (n > 0)
		*have += (size_t)n;
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		return -1;
	return *have == HELLO;
}

/* --- calling --------------------------------------------------------------------------*/

static void fail(struct joining *j, uint32_t peer, enum tauti_reason reason, int error)
{
	if (j->fault.why.code)
		return;
	j->fault.peer = peer;
	j->fault.reason = reason;
	taut_error_set(&j->fault.why, TAUT_EIO, -1,
		"TCP: rank %u has no way to rank %u: %s", j->rank, peer,
		error ? strerror(error) : reason == TAUTI_NO_GREETING ?
		"somebody else is there" : "it has no address");
}

static void call(struct joining *j, uint32_t rank)
{
	struct way *way = &j->ways[rank];
	struct sockaddr_storage at;
	socklen_t bytes;

	if (!find(j, rank, &at, &bytes)) {
		fail(j, rank, TAUTI_NO_WAY, 0);
		return;
	}
	way->fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (way->fd < 0 || (connect(way->fd, (struct sockaddr *)&at, bytes) &&
		errno != EINPROGRESS && errno != EINTR))
		fail(j, rank, TAUTI_NO_WAY, errno);
	way->state = CALLED;
}

static void go_on_calling(struct joining *j, uint32_t rank)
{
	struct way *way = &j->ways[rank];
	int error = 0;
	socklen_t bytes = sizeof error;

	if (getsockopt(way->fd, SOL_SOCKET, SO_ERROR, &error, &bytes))
		error = errno;
	prepare(way->fd);
	if (error || !say(j, way->fd, rank))
		fail(j, rank, TAUTI_NO_WAY, error ? error : EPIPE);
	way->state = ASKED;
}

static void stand(struct joining *j, uint32_t rank, int fd)
{
	j->ways[rank].state = STANDS;
	j->ways[rank].fd = fd;
}

static void take_answer(struct joining *j, uint32_t rank)
{
	struct way *way = &j->ways[rank];
	int heard = hear(way->fd, way->said, &way->have);
	uint32_t who;

	if (heard < 0)
		fail(j, rank, TAUTI_NO_GREETING, 0);
	else if (heard && (!is_meant(j, way->said, &who) || who != rank))
		fail(j, rank, TAUTI_NO_GREETING, 0);
	else if (heard)
		stand(j, rank, way->fd);
}

/* --- being called ---------------------------------------------------------------------*/

static void drop(struct joining *j, size_t i, bool closes)
{
	if (closes)
		close(j->guests[i].fd);
	j->guests[i] = j->guests[--j->n_guests];
}

static size_t oldest_of(const struct joining *j)
{
	size_t oldest = 0;

	for (size_t i = 1; i < j->n_guests; i++)
		if (j->guests[i].came_ns < j->guests[oldest].came_ns)
			oldest = i;
	return oldest;
}

/* All ranks may call at once, and each is heard before it has to go; who finds no room waits
 * with the system. */
static bool has_room(const struct joining *j, int64_t now_ns)
{
	return j->n_guests < GUESTS ||
		now_ns - j->guests[oldest_of(j)].came_ns >= guest_least_ns;
}

/* Who is not let in for want of the system's means waits there, and is not looked for
 * meanwhile: it would end each sleep. */
static void note_full(struct joining *j, int error, int64_t now_ns)
{
	j->full = error == EMFILE || error == ENFILE || error == ENOBUFS ||
		error == ENOMEM ? error : 0;
	j->full_until_ns = j->full ? now_ns + look_ns : 0;
}

/* Who comes now stays, so this ends. */
static void let_in(struct joining *j)
{
	int64_t now_ns = tauti_now_ns();

	while (has_room(j, now_ns)) {
		int fd = accept4(j->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		note_full(j, fd < 0 ? errno : 0, now_ns);
		if (fd < 0)
			return;
		if (j->n_guests == GUESTS)
			drop(j, oldest_of(j), true);
		prepare(fd);
		j->guests[j->n_guests++] = (struct guest){ .fd = fd, .came_ns = now_ns };
	}
}

static void hear_guest(struct joining *j, size_t i)
{
	struct guest *guest = &j->guests[i];
	int heard = hear(guest->fd, guest->said, &guest->have);
	uint32_t who;

	if (heard == 0 && tauti_now_ns() - guest->came_ns < guest_ns)
		return;
	if (heard <= 0 || !is_meant(j, guest->said, &who) ||
		j->ways[who].state != AWAITED || !say(j, guest->fd, who)) {
		drop(j, i, true);
		return;
	}
	stand(j, who, guest->fd);
	drop(j, i, false);
}

/* --- until all stand ------------------------------------------------------------------*/

/* Sleeps until there is something, or for `left`. */
static void sleep_for(struct joining *j, int64_t left_ns)
{
	struct pollfd *at = j->polls;
	int64_t now_ns = tauti_now_ns();
	bool lets_in = has_room(j, now_ns) && now_ns >= j->full_until_ns;

	for (uint32_t i = 0; i < j->n_ranks; i++, at++)
		*at = (struct pollfd){ .fd = j->ways[i].state == CALLED ||
			j->ways[i].state == ASKED ? j->ways[i].fd : -1,
			.events = j->ways[i].state == CALLED ? POLLOUT : POLLIN };
	for (size_t i = 0; i < j->n_guests; i++, at++)
		*at = (struct pollfd){ .fd = j->guests[i].fd, .events = POLLIN };
	*at++ = (struct pollfd){ .events = POLLIN, .fd = lets_in ? j->listener : -1 };
	poll(j->polls, (nfds_t)(at - j->polls),
		(int)((left_ns < look_ns ? left_ns : look_ns) / 1000000) + 1);
}

static void move_on(struct joining *j, int64_t left_ns)
{
	size_t n_guests = j->n_guests;

	sleep_for(j, left_ns);
	for (uint32_t i = 0; i < j->n_ranks && !j->fault.why.code; i++) {
		if (!j->polls[i].revents)
			continue;
		if (j->ways[i].state == CALLED)
			go_on_calling(j, i);
		else
			take_answer(j, i);
	}
	/* From behind, for who goes is replaced by the last. */
	for (size_t i = n_guests; i-- > 0;)
		hear_guest(j, i);
	if (j->polls[j->n_ranks + n_guests].revents)
		let_in(j);
}

static uint32_t who_is_missing(const struct joining *j)
{
	for (uint32_t i = 0; i < j->n_ranks; i++)
		if (j->ways[i].state != UNWANTED && j->ways[i].state != STANDS)
			return i;
	return TAUT_NONE;
}

/* Without a line: another rank has it, or the meeting. */
static void give_up(struct joining *j, enum tauti_reason reason, uint32_t missing)
{
	j->fault.why.code = TAUT_EIO;
	j->fault.reason = reason;
	j->fault.peer = missing;
}

static void join(struct joining *j)
{
	int64_t until_ns = tauti_now_ns() + j->within_ns;
	uint32_t missing;

	for (uint32_t i = 0; i < j->rank && !j->fault.why.code; i++)
		if (j->ways[i].state != UNWANTED)
			call(j, i);
	while (!j->fault.why.code && (missing = who_is_missing(j)) != TAUT_NONE) {
		int64_t left_ns = until_ns - tauti_now_ns();
		enum tauti_meet_word word = tauti_meet_hear(j->meet);

		if (word == TAUTI_MEET_ENDS) {
			give_up(j, TAUTI_UNSAID, missing);
		} else if (word == TAUTI_MEET_SUMMONS) {
			give_up(j, TAUTI_SUMMONED, missing);
		} else if (left_ns <= 0) {
			give_up(j, TAUTI_LATE, missing);
			taut_error_set(&j->fault.why, TAUT_EIO, -1,
				"rank %u does not answer by TCP within %.3g s%s%s", missing,
				(double)j->within_ns / 1e9,
				j->full ? ", and nobody can be let in: " : "",
				j->full ? strerror(j->full) : "");
		} else {
			move_on(j, left_ns);
		}
	}
}

/* --- all of it ------------------------------------------------------------------------*/

static taut_status begin(struct joining *j, const uint32_t *host_of, struct taut_error *err)
{
	struct sockaddr_storage here;
	taut_status status;

	j->cards = calloc(j->n_ranks, sizeof *j->cards);
	j->ways = calloc(j->n_ranks, sizeof *j->ways);
	j->polls = calloc((size_t)j->n_ranks + GUESTS + 1, sizeof *j->polls);
	if (!j->cards || !j->ways || !j->polls)
		return taut_error_set(err, TAUT_ENOMEM, -1, "out of memory");
	for (uint32_t i = 0; i < j->n_ranks; i++) {
		bool wanted = i != j->rank &&
			(!host_of || host_of[i] != host_of[j->rank]);

		j->ways[i] = (struct way){ .fd = -1, .state = !wanted ? UNWANTED :
			i > j->rank ? AWAITED : CALLED };
	}
	if (getentropy(j->own.token, TOKEN))
		return taut_error_set(err, TAUT_EIO, -1, "the system has no randomness");
	if (tauti_meet_address(j->meet, false, &here))
		set_card(&here, &j->own);
	status = begin_listening(j, err);
	return status ? status :
		tauti_meet_gather(j->meet, &j->own, sizeof j->own, j->cards, err);
}

/* The engine has those connections then. */
static taut_status hand_over(struct joining *j, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; i < j->n_ranks && !status; i++) {
		if (j->ways[i].fd < 0)
			continue;
		status = tauti_tcp_give(j->tcp, i, j->ways[i].fd, err);
		if (!status)
			j->ways[i].fd = -1;
	}
	return status;
}

static void end(struct joining *j)
{
	for (uint32_t i = 0; j->ways && i < j->n_ranks; i++)
		if (j->ways[i].fd >= 0)
			close(j->ways[i].fd);
	while (j->n_guests)
		drop(j, 0, true);
	if (j->listener >= 0)
		close(j->listener);
	free(j->cards);
	free(j->ways);
	free(j->polls);
}

/* *ret_agreed: all ranks have heard how it went. */
static taut_status connect_all(struct joining *j, const uint32_t *host_of,
	bool *ret_agreed, struct taut_error *err)
{
	taut_status status = begin(j, host_of, err);

	if (status)
		return status;
	join(j);
	if (!j->fault.why.code)
		j->fault.why.code = hand_over(j, &j->fault.why);
	/* Who waits for this rank would do so until its time is over, which may be longer. */
	if (j->fault.why.code && j->fault.reason >= TAUTI_LATE)
		tauti_meet_summon(j->meet);
	status = tauti_conclude(j->meet, "TCP", j->rank, j->n_ranks, &j->fault,
		ret_agreed, err);
	*ret_agreed &= status == TAUT_EIO;
	return status;
}

taut_status tauti_tcp_try(struct tauti_meet *meet, uint32_t rank, uint32_t n_ranks,
	const uint32_t *host_of, int64_t within_ns, struct tauti_engine *ret_engine,
	bool *ret_without, struct taut_error *reterr)
{
	/* The others wait as long for what comes of it. */
	int64_t most_ns = tauti_meet_within_ns(meet) / 4 * 3;
	struct joining j = { .meet = meet, .rank = rank, .n_ranks = n_ranks,
		.listener = -1, .fault = { .peer = TAUT_NONE },
		.within_ns = within_ns < most_ns ? within_ns : most_ns };
	taut_status status = tauti_tcp_open(rank, n_ranks, &j.tcp, reterr);

	*ret_without = false;
	if (status)
		return status;
	status = connect_all(&j, host_of, ret_without, reterr);
	end(&j);
	if (status)
		tauti_tcp_engine.destroy(j.tcp);
	else
		*ret_engine = (struct tauti_engine){ &tauti_tcp_engine, j.tcp };
	return status;
}

taut_status tauti_tcp_create(struct tauti_meet *meet, uint32_t rank, uint32_t n_ranks,
	const uint32_t *host_of, struct tauti_engine *ret_engine,
	struct taut_error *reterr)
{
	bool without;

	return tauti_tcp_try(meet, rank, n_ranks, host_of, INT64_MAX, ret_engine,
		&without, reterr);
}

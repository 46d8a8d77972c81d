/* tcp.c - messages over TCP: what goes out, what is under way, sleep. See tcp.h. */
#include "coll/engines/tcp.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	MOVES_AT_ONCE = 16,
	PIECES = 16,         /* handed to the system at once, of one peer */
	WAKES_AT = 256 << 10,
	LOOKED_AT = 3,       /* so few peers are looked at without asking which */
};
/* What came before a connection closed was taken in, but who watches the ranks may say
 * better what has happened. */
static const int64_t doubt_ns = 300000000;
static const int64_t close_ns = 2000000000; /* for what was sent to come there */

/* --- what is under way ----------------------------------------------------------------*/

static struct tauti_tcp_op *op_begin(
	struct tauti_tcp *tcp, struct taut_coll_request *request)
{
	struct tauti_tcp_op *op = tcp->unused ? tcp->unused : malloc(sizeof *op);

	if (!op)
		return NULL;
	if (op == tcp->unused)
		tcp->unused = op->next;
	*op = (struct tauti_tcp_op){ .tcp = tcp, .request = request, .pending = 1,
		.next = &tcp->under_way, .previous = tcp->under_way.previous };
	op->previous->next = op;
	op->next->previous = op;
	return op;
}

static void op_forget(struct tauti_tcp_op *op)
{
	op->next->previous = op->previous;
	op->previous->next = op->next;
	op->next = op->tcp->unused;
	op->tcp->unused = op;
}

void tauti_tcp_end_part(struct tauti_tcp_op *op, taut_status status)
{
	struct taut_coll_request *request = op->request;

	if (!op->status)
		op->status = status;
	if (--op->pending)
		return;
	status = op->status;
	op_forget(op);
	request->done(request, status);
}

/* --- who is lost ----------------------------------------------------------------------*/

void tauti_tcp_lose(struct tauti_tcp *tcp, uint32_t peer)
{
	struct tauti_tcp_peer *it = &tcp->peers[peer];

	if (!it->gone)
		(void)epoll_ctl(tcp->epoll_fd, EPOLL_CTL_DEL, it->fd, NULL);
	it->gone = true;
	tcp->lost_some = true;
}

/* A rank that is gone, and with which something is under way; or TAUT_NONE. */
static uint32_t who_is_missed(const struct tauti_tcp *tcp)
{
	const struct tauti_tcp_op *op = tcp->under_way.next;

	for (; op != &tcp->under_way; op = op->next)
		if (op->is_receive && tcp->peers[op->peer].gone)
			return op->peer;
	for (uint32_t i = 0; i < tcp->n_ranks; i++)
		if (tcp->peers[i].gone && tcp->peers[i].first)
			return i;
	return TAUT_NONE;
}

static void see_lost(struct tauti_tcp *tcp)
{
	uint32_t missed = tcp->fault.code ? TAUT_NONE : who_is_missed(tcp);

	if (missed == TAUT_NONE) {
		tcp->lost_some = false;
		tcp->fault_at_ns = 0;
	} else if (!tcp->fault_at_ns) {
		tcp->fault_at_ns = tauti_now_ns() + doubt_ns;
	} else if (tauti_now_ns() >= tcp->fault_at_ns) {
		taut_error_set(&tcp->fault, TAUT_EIO, -1,
			"rank %u is gone: its connection closed", missed);
	}
}

static taut_status fault_of(const struct tauti_tcp *tcp, struct taut_error *err)
{
	if (tcp->fault.code && err)
		*err = tcp->fault;
	return tcp->fault.code;
}

/* --- sending --------------------------------------------------------------------------*/

static struct tauti_tcp_part *part_begin(struct tauti_tcp *tcp)
{
	struct tauti_tcp_part *part = tcp->unused_parts;

	if (part)
		tcp->unused_parts = part->next;
	else
		part = malloc(sizeof *part);
	return part;
}

static void part_forget(struct tauti_tcp *tcp, struct tauti_tcp_part *part)
{
	part->next = tcp->unused_parts;
	tcp->unused_parts = part;
}

/* What is to go out of a queue: all that the system takes, for each call is a part of the
 * link's time. Returns how many pieces. */
static size_t pieces_of(const struct tauti_tcp_peer *peer, struct iovec pieces[PIECES])
{
	size_t n = 0;

	for (struct tauti_tcp_part *part = peer->first; part && n + 2 <= PIECES;
		part = part->next) {
		size_t of_data = part->gone > TAUTI_TCP_HEAD ?
			part->gone - TAUTI_TCP_HEAD : 0;
		size_t left = part->bytes - of_data;

		if (part->gone < TAUTI_TCP_HEAD)
			pieces[n++] = (struct iovec){ part->head + part->gone,
				TAUTI_TCP_HEAD - part->gone };
		if (left)
			pieces[n++] = (struct iovec){
				(char *)part->data + of_data, left };
	}
	return n;
}

static void has_gone(struct tauti_tcp *tcp, struct tauti_tcp_peer *peer, size_t bytes)
{
	while (peer->first) {
		struct tauti_tcp_part *part = peer->first;
		size_t left = TAUTI_TCP_HEAD + part->bytes - part->gone;
		struct tauti_tcp_op *op = part->op;

		if (bytes < left) {
			part->gone += bytes;
			return;
		}
		bytes -= left;
		peer->first = part->next;
		part_forget(tcp, part);
		tauti_tcp_end_part(op, TAUT_OK);
	}
}

/* One call to the system. True: something went. */
static bool flush(struct tauti_tcp *tcp, uint32_t rank)
{
	struct tauti_tcp_peer *peer = &tcp->peers[rank];
	struct iovec pieces[PIECES];
	struct msghdr message = { .msg_iov = pieces };
	ssize_t went;

	if (!peer->first || peer->gone)
		return false;
	message.msg_iovlen = pieces_of(peer, pieces);
	went = sendmsg(peer->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (went < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
		/* What it said before it closed is still to be taken in. */
		while (tauti_tcp_take(tcp, rank))
			;
		tauti_tcp_lose(tcp, rank);
	}
	if (went > 0)
		has_gone(tcp, peer, (size_t)went);
	return went > 0;
}

static void put64(uint8_t *to, uint64_t value)
{
	for (int i = 0; i < 8; i++)
		to[i] = (uint8_t)(value >> 8 * i);
}

static void push(struct tauti_tcp_peer *peer, struct tauti_tcp_part *part)
{
	part->next = NULL;
	if (peer->first)
		peer->last->next = part;
	else
		peer->first = part;
	peer->last = part;
}

/* All parts, before one of them begins; NULL: there is no memory for all. */
static struct tauti_tcp_part *parts_begin(struct tauti_tcp *tcp, uint32_t n)
{
	struct tauti_tcp_part *all = NULL;

	while (n--) {
		struct tauti_tcp_part *part = part_begin(tcp);

		if (!part)
			break;
		part->next = all;
		all = part;
		if (!n)
			return all;
	}
	while (all) {
		struct tauti_tcp_part *next = all->next;

		part_forget(tcp, all);
		all = next;
	}
	return NULL;
}

static taut_status tcp_send(void *engine, const uint32_t *peers, uint32_t n_peers,
	uint64_t tag, const void *data, size_t bytes, struct taut_coll_request *request,
	struct taut_error *err)
{
	struct tauti_tcp *tcp = engine;
	struct tauti_tcp_op *op = op_begin(tcp, request);
	struct tauti_tcp_part *parts = op && n_peers ? parts_begin(tcp, n_peers) : NULL;

	if (!parts && (!op || n_peers)) {
		if (op)
			op_forget(op);
		return taut_error_set(err, TAUT_ENOMEM, -1, "out of memory");
	}
	op->pending += n_peers; /* and one, so that it does not end before all began */
	for (uint32_t i = 0; i < n_peers; i++) {
		struct tauti_tcp_peer *peer = &tcp->peers[peers[i]];
		struct tauti_tcp_part *part = parts;
		bool is_first = !peer->first;

		parts = part->next;
		part->op = op;
		part->data = data;
		part->bytes = bytes;
		part->gone = 0;
		put64(part->head, tag);
		put64(part->head + 8, bytes);
		push(peer, part);
		if (peer->gone)
			tcp->lost_some = true;
		else if (is_first)
			(void)flush(tcp, peers[i]);
	}
	tauti_tcp_end_part(op, TAUT_OK);
	return TAUT_OK;
}

/* --- receiving ------------------------------------------------------------------------*/

static taut_status begin_receive(struct tauti_tcp *tcp, const struct tauti_tcp_op *as,
	struct taut_coll_request *request, struct taut_error *err)
{
	struct tauti_tcp_op *op = op_begin(tcp, request);

	if (!op)
		return taut_error_set(err, TAUT_ENOMEM, -1, "out of memory");
	op->is_receive = true;
	op->reduces = as->reduces;
	op->type = as->type;
	op->reduction = as->reduction;
	op->peer = as->peer;
	op->tag = as->tag;
	op->into = as->into;
	op->from = as->from;
	op->bytes = as->bytes;
	tauti_tcp_expect(tcp, op);
	return TAUT_OK;
}

static taut_status tcp_recv(void *engine, uint32_t peer, uint64_t tag, void *data,
	size_t bytes, struct taut_coll_request *request, struct taut_error *err)
{
	const struct tauti_tcp_op as = { .peer = peer, .tag = tag, .into = data,
		.bytes = bytes };

	return begin_receive(engine, &as, request, err);
}

static taut_status tcp_recv_reduce(void *engine, uint32_t peer, uint64_t tag,
	enum taut_type type, enum taut_reduction reduction, void *into,
	const void *from, size_t count, struct taut_coll_request *request,
	struct taut_error *err)
{
	const struct tauti_tcp_op as = { .peer = peer, .tag = tag, .into = into,
		.from = from, .bytes = count * taut_type_bytes(type), .reduces = true,
		.type = (uint8_t)type, .reduction = (uint8_t)reduction };

	return begin_receive(engine, &as, request, err);
}

static bool tcp_arrived(void *engine, uint64_t tag, uint64_t mask)
{
	const struct tauti_tcp *tcp = engine;

	for (uint32_t i = 0; i < tcp->n_ranks; i++)
		for (const struct tauti_tcp_late *late = tcp->peers[i].late; late;
			late = late->next)
			if (!((late->tag ^ tag) & mask))
				return true;
	return false;
}

/* --- moving on ------------------------------------------------------------------------*/

static bool is_there(const struct tauti_tcp *tcp, uint32_t rank)
{
	return tcp->peers[rank].fd >= 0 && !tcp->peers[rank].gone;
}

/* Who sleeps is woken once so much of a message that is coming is there, and not by each
 * packet: waking takes the core from whoever computes on it. */
static void ask_for_bytes(struct tauti_tcp_peer *peer)
{
	size_t left = peer->in_body ? peer->bytes - peer->have : 1;
	int least = left < WAKES_AT ? (int)left : WAKES_AT;

	if (least != peer->wakes_at && !setsockopt(peer->fd, SOL_SOCKET, SO_RCVLOWAT,
		&least, sizeof least))
		peer->wakes_at = least;
}

/* Those that have something, of many. What the system was told for a sleep holds after it,
 * too: it is not to wait for more than what is left of a message. */
static bool take_of_ready(struct tauti_tcp *tcp)
{
	struct epoll_event events[MOVES_AT_ONCE];
	int n = epoll_wait(tcp->epoll_fd, events, MOVES_AT_ONCE, 0);
	bool moved = false;

	for (int i = 0; i < n && !tcp->fault.code; i++) {
		uint32_t rank = events[i].data.u32;

		if (is_there(tcp, rank) && events[i].events & ~(uint32_t)EPOLLOUT)
			moved |= tauti_tcp_take(tcp, rank);
		if (is_there(tcp, rank) && tcp->peers[rank].wakes_at > 1)
			ask_for_bytes(&tcp->peers[rank]);
	}
	return moved;
}

static bool take_of_all(struct tauti_tcp *tcp)
{
	bool moved = false;

	for (uint32_t i = 0; i < tcp->n_ranks && !tcp->fault.code; i++)
		if (is_there(tcp, i))
			moved |= tauti_tcp_take(tcp, i);
	return moved;
}

/* Sending and taking by turns, so that neither side waits for the other. */
static bool move(struct tauti_tcp *tcp)
{
	bool moved = false;

	for (int i = 0; i < MOVES_AT_ONCE && !tcp->fault.code; i++) {
		bool some = tcp->n_ranks <= LOOKED_AT + 1 ? take_of_all(tcp) :
			take_of_ready(tcp);

		for (uint32_t k = 0; k < tcp->n_ranks; k++)
			some |= flush(tcp, k);
		if (!some)
			break;
		moved = true;
	}
	if (tcp->lost_some)
		see_lost(tcp);
	return moved;
}

static taut_status tcp_progress(void *engine, struct taut_error *err)
{
	struct tauti_tcp *tcp = engine;

	move(tcp);
	return fault_of(tcp, err);
}

/* --- sleep ----------------------------------------------------------------------------*/

/* The descriptor also tells of room for what waits to go out. */
static void ask_for_room(struct tauti_tcp *tcp)
{
	for (uint32_t i = 0; i < tcp->n_ranks; i++) {
		struct tauti_tcp_peer *peer = &tcp->peers[i];
		bool asks = peer->first != NULL;
		struct epoll_event event = { .events = EPOLLIN |
			(asks ? (uint32_t)EPOLLOUT : 0), .data.u32 = i };

		if (!is_there(tcp, i) || asks == peer->asks_write)
			continue;
		if (!epoll_ctl(tcp->epoll_fd, EPOLL_CTL_MOD, peer->fd, &event))
			peer->asks_write = asks;
	}
}

static void ask_for_bytes_of_all(struct tauti_tcp *tcp)
{
	for (uint32_t i = 0; i < tcp->n_ranks; i++)
		if (is_there(tcp, i))
			ask_for_bytes(&tcp->peers[i]);
}

/* TAUT_EAGAIN: something moved, or nobody may sleep while there is doubt. */
static taut_status tcp_arm(void *engine, struct taut_error *err)
{
	struct tauti_tcp *tcp = engine;

	if (move(tcp))
		return TAUT_EAGAIN;
	if (tcp->fault.code)
		return fault_of(tcp, err);
	ask_for_room(tcp);
	ask_for_bytes_of_all(tcp);
	return tcp->fault_at_ns ? TAUT_EAGAIN : TAUT_OK;
}

static int tcp_fd(void *engine)
{
	const struct tauti_tcp *tcp = engine;

	return tcp->epoll_fd;
}

/* What is left of a timeout (< 0: none) until there is no doubt any more. */
static int64_t until_certain(const struct tauti_tcp *tcp, int64_t timeout_ns)
{
	int64_t left_ns = tcp->fault_at_ns - tauti_now_ns();

	if (!tcp->fault_at_ns)
		return timeout_ns;
	if (left_ns < 0)
		left_ns = 0;
	return timeout_ns < 0 || left_ns < timeout_ns ? left_ns : timeout_ns;
}

static taut_status tcp_wait(void *engine, int64_t timeout_ns, struct taut_error *err)
{
	struct tauti_tcp *tcp = engine;
	struct pollfd fds[] = { { .fd = tcp->epoll_fd, .events = POLLIN },
		{ .fd = tcp->wake_fd, .events = POLLIN } };
	struct timespec timeout;
	uint64_t count;

	if (move(tcp))
		return TAUT_OK;
	if (tcp->fault.code)
		return fault_of(tcp, err);
	ask_for_room(tcp);
	ask_for_bytes_of_all(tcp);
	timeout_ns = until_certain(tcp, timeout_ns);
	timeout = (struct timespec){ timeout_ns / 1000000000, timeout_ns % 1000000000 };
	if (timeout_ns)
		ppoll(fds, 2, timeout_ns < 0 ? NULL : &timeout, NULL);
	(void)!read(tcp->wake_fd, &count, sizeof count);
	return TAUT_OK;
}

static void tcp_wake(void *engine)
{
	const struct tauti_tcp *tcp = engine;
	uint64_t one = 1;

	while (write(tcp->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
		;
}

/* --- its beginning and its end --------------------------------------------------------*/

/* Bytes that the other side's system has yet to say it has; an end counts as one. */
static int on_the_way(const struct tauti_tcp_peer *peer)
{
	int bytes = 0;

	return ioctl(peer->fd, SIOCOUTQ, &bytes) ? 0 : bytes;
}

/* Whether a close might take back what was sent. What comes is passed over; where the other
 * side has ended, too, nothing comes that would. */
static bool must_stay(struct tauti_tcp *tcp, uint32_t rank)
{
	ssize_t n = read(tcp->peers[rank].fd, tcp->stage, TAUTI_TCP_STAGE);

	return (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) &&
		on_the_way(&tcp->peers[rank]) > 1;
}

/* A send has ended when the system had its bytes. It goes on sending after a close, but not
 * where something lies unread, or comes then: of a call in which this rank has no part. */
static void let_arrive(struct tauti_tcp *tcp)
{
	int64_t until_ns = tauti_now_ns() + close_ns;
	bool some = false;

	for (uint32_t i = 0; i < tcp->n_ranks; i++)
		if (is_there(tcp, i) && on_the_way(&tcp->peers[i])) {
			/* So that two that leave at once need not wait for each other. */
			(void)shutdown(tcp->peers[i].fd, SHUT_WR);
			some = true;
		}
	while (some && tauti_now_ns() < until_ns) {
		some = false;
		for (uint32_t i = 0; i < tcp->n_ranks; i++)
			some |= is_there(tcp, i) && must_stay(tcp, i);
		if (some)
			poll(NULL, 0, 1);
	}
}

static void close_all(struct tauti_tcp *tcp)
{
	for (uint32_t i = 0; i < tcp->n_ranks; i++) {
		struct tauti_tcp_peer *peer = &tcp->peers[i];

		while (peer->first) {
			struct tauti_tcp_part *part = peer->first;

			peer->first = part->next;
			part_forget(tcp, part);
		}
		peer->to = NULL;
		if (peer->fd >= 0)
			close(peer->fd);
	}
}

static void free_unused(struct tauti_tcp *tcp)
{
	while (tcp->unused) {
		struct tauti_tcp_op *op = tcp->unused;

		tcp->unused = op->next;
		free(op);
	}
	while (tcp->unused_parts) {
		struct tauti_tcp_part *part = tcp->unused_parts;

		tcp->unused_parts = part->next;
		free(part);
	}
}

static void tcp_destroy(void *engine)
{
	struct tauti_tcp *tcp = engine;

	if (tcp->peers && tcp->stage && !tcp->fault.code &&
		tcp->under_way.next == &tcp->under_way)
		let_arrive(tcp);
	if (tcp->peers)
		close_all(tcp);
	while (tcp->under_way.next != &tcp->under_way) {
		tcp->under_way.next->pending = 1;
		tauti_tcp_end_part(tcp->under_way.next, TAUT_EIO);
	}
	tauti_tcp_end_lates(tcp);
	free_unused(tcp);
	if (tcp->epoll_fd >= 0)
		close(tcp->epoll_fd);
	if (tcp->wake_fd >= 0)
		close(tcp->wake_fd);
	free(tcp->stage);
	free(tcp->peers);
	free(tcp);
}

const struct taut_coll_engine tauti_tcp_engine = {
	.name = "tcp",
	.send = tcp_send,
	.recv = tcp_recv,
	.recv_reduce = tcp_recv_reduce,
	.progress = tcp_progress,
	.wait = tcp_wait,
	.wake = tcp_wake,
	.fd = tcp_fd,
	.arm = tcp_arm,
	.arrived = tcp_arrived,
	.discard = tauti_tcp_discard,
	.withdraw = tauti_tcp_withdraw,
	.destroy = tcp_destroy,
};

static taut_status begin(struct tauti_tcp *tcp, struct taut_error *reterr)
{
	tcp->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	tcp->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (tcp->epoll_fd < 0 || tcp->wake_fd < 0)
		return taut_error_set(reterr, TAUT_EIO, -1,
			"no descriptor to sleep at: %s", strerror(errno));
	tcp->peers = calloc(tcp->n_ranks, sizeof *tcp->peers);
	tcp->stage = malloc(TAUTI_TCP_STAGE);
	for (uint32_t i = 0; tcp->peers && i < tcp->n_ranks; i++) {
		tcp->peers[i].fd = -1;
		tcp->peers[i].end = &tcp->peers[i].expected;
		tcp->peers[i].late_end = &tcp->peers[i].late;
	}
	return tcp->peers && tcp->stage ? TAUT_OK :
		taut_error_set(reterr, TAUT_ENOMEM, -1, "out of memory");
}

taut_status tauti_tcp_open(uint32_t rank, uint32_t n_ranks, struct tauti_tcp **ret_tcp,
	struct taut_error *reterr)
{
	struct tauti_tcp *tcp = calloc(1, sizeof *tcp);
	taut_status status;

	if (!tcp)
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "out of memory");
	tcp->rank = rank;
	tcp->n_ranks = n_ranks;
	tcp->epoll_fd = tcp->wake_fd = -1;
	tcp->under_way.next = tcp->under_way.previous = &tcp->under_way;
	status = begin(tcp, reterr);
	if (status)
		tcp_destroy(tcp);
	else
		*ret_tcp = tcp;
	return status;
}

taut_status tauti_tcp_give(
	struct tauti_tcp *tcp, uint32_t peer, int fd, struct taut_error *reterr)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = peer };

	if (epoll_ctl(tcp->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		return taut_error_set(reterr, TAUT_EIO, -1,
			"a connection cannot be watched: %s", strerror(errno));
	tcp->peers[peer].fd = fd;
	tcp->peers[peer].wakes_at = 1;
	return TAUT_OK;
}

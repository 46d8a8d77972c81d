/* link.c - frames over one connection that never blocks; see peers.h. */
#include "peers/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define TURN_BYTES (UINT64_C(1) << 20) /* then others have theirs */
enum { PASS_BYTES = 1 << 14 };

static void put64(uint8_t *to, uint64_t value)
{
	tauti_put32(to, (uint32_t)value);
	tauti_put32(to + 4, (uint32_t)(value >> 32));
}

static uint64_t get64(const uint8_t *from)
{
	return tauti_get32(from) | (uint64_t)tauti_get32(from + 4) << 32;
}

static void write_head(uint8_t *head, const struct tauti_peers_frame *frame)
{
	head[0] = 'T';
	head[1] = 'p';
	head[2] = TAUTI_PEERS_VERSION;
	head[3] = (uint8_t)frame->kind;
	tauti_put32(head + 4, frame->number);
	put64(head + 8, frame->item);
	put64(head + 16, frame->bytes);
}

static bool read_head(const uint8_t *head, struct tauti_peers_frame *ret_frame)
{
	if (head[0] != 'T' || head[1] != 'p' || head[2] != TAUTI_PEERS_VERSION ||
		!head[3] || head[3] >= TAUTI_PEERS_KINDS)
		return false;
	*ret_frame = (struct tauti_peers_frame){ (enum tauti_peers_kind)head[3],
		tauti_get32(head + 4), get64(head + 8), get64(head + 16) };
	return true;
}

void tauti_peers_link_open(struct tauti_peers_link *link, int fd, int64_t now_ns)
{
	*link = (struct tauti_peers_link){ .fd = fd,
		.heard_ns = now_ns, .said_ns = now_ns };
}

void tauti_peers_link_close(struct tauti_peers_link *link)
{
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
	for (; link->first; link->first = link->first->next)
		link->first->queued = false;
	free(link->rest);
	link->rest = NULL;
}

/* --- what goes ---------------------------------------------------------------------*/

void tauti_peers_link_put(struct tauti_peers_link *link, struct tauti_peers_out *out,
	const struct tauti_peers_frame *frame, const void *data)
{
	write_head(out->head, frame);
	out->data = data;
	out->bytes = data ? frame->bytes : 0;
	out->sent = 0;
	out->next = NULL;
	out->queued = true;
	if (link->first)
		link->last->next = out;
	else
		link->first = out;
	link->last = out;
}

/* Bytes that went; 0: none can now; < 0: it is broken. */
static ssize_t send_some(int fd, const struct tauti_peers_out *out)
{
	uint64_t of_data = out->sent > TAUTI_PEERS_HEAD ?
		out->sent - TAUTI_PEERS_HEAD : 0;
	uint64_t of_head = out->sent - of_data;
	struct iovec parts[2] = {
		{ (void *)(uintptr_t)(out->head + of_head), TAUTI_PEERS_HEAD - of_head },
		{ (void *)(uintptr_t)(out->data ? out->data + of_data : NULL),
			out->bytes - of_data },
	};
	const struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
	ssize_t n;

	do
		n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS))
		return 0;
	return n;
}

bool tauti_peers_link_write(struct tauti_peers_link *link, int64_t now_ns,
	void (*done)(void *context, struct tauti_peers_out *out), void *context)
{
	uint64_t turn = 0;

	while (link->first && turn < TURN_BYTES) {
		struct tauti_peers_out *out = link->first;
		ssize_t n = send_some(link->fd, out);

		if (n <= 0)
			return n == 0;
		link->said_ns = now_ns;
		turn += (uint64_t)n;
		out->sent += (uint64_t)n;
		if (out->sent < TAUTI_PEERS_HEAD + out->bytes)
			continue;
		if (link->rest && out->data == link->rest) {
			free(link->rest);
			link->rest = NULL;
		}
		link->first = out->next;
		out->queued = false;
		done(context, out);
	}
	return true;
}

bool tauti_peers_link_detach(struct tauti_peers_link *link)
{
	for (struct tauti_peers_out *out = link->first; out; out = out->next) {
		if (!out->data || out->data == link->rest)
			continue;
		if (!out->sent) {
			out->head[3] = TAUTI_PEERS_NONE;
			out->data = NULL;
			out->bytes = 0;
			continue;
		}
		link->rest = malloc(out->bytes); /* only the first has begun */
		if (!link->rest)
			return false;
		memcpy(link->rest, out->data, out->bytes);
		out->data = link->rest;
	}
	return true;
}

/* --- what comes --------------------------------------------------------------------*/

/* Bytes that came; 0: none now; < 0: closed or broken. */
static ssize_t take_some(struct tauti_peers_link *link, void *into, size_t bytes,
	int64_t now_ns)
{
	ssize_t n;

	do
		n = recv(link->fd, into, bytes, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		link->heard_ns = now_ns;
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return 0;
	return n > 0 ? n : -1;
}

static enum tauti_peers_heard read_body(struct tauti_peers_link *link, int64_t now_ns)
{
	uint8_t passed[PASS_BYTES];

	while (link->left) {
		uint64_t most = link->into || link->left < PASS_BYTES ?
			link->left : PASS_BYTES;
		ssize_t n = take_some(
			link, link->into ? link->into : passed, most, now_ns);

		if (n <= 0)
			return n ? TAUTI_PEERS_CLOSED : TAUTI_PEERS_NOTHING;
		link->left -= (uint64_t)n;
		if (link->into)
			link->into += n;
	}
	link->have = 0;
	return TAUTI_PEERS_WHOLE;
}

enum tauti_peers_heard tauti_peers_link_read(struct tauti_peers_link *link,
	int64_t now_ns, struct tauti_peers_frame *ret_frame)
{
	if (link->have == TAUTI_PEERS_HEAD)
		return read_body(link, now_ns);
	while (link->have < TAUTI_PEERS_HEAD) {
		ssize_t n = take_some(link, link->head + link->have,
			TAUTI_PEERS_HEAD - link->have, now_ns);

		if (n <= 0)
			return n ? TAUTI_PEERS_CLOSED : TAUTI_PEERS_NOTHING;
		link->have += (uint32_t)n;
	}
	if (!read_head(link->head, ret_frame))
		return TAUTI_PEERS_CLOSED;
	if (ret_frame->kind != TAUTI_PEERS_ITEM)
		link->have = 0;
	return TAUTI_PEERS_FRAME;
}

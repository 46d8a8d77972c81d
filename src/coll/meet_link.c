/* meet_link.c - frames over a socket that never blocks; see meet.h. */
#include "coll/meet.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What a body may have; GIVE and ALL have the size of bulk_in. */
static const struct {
	uint16_t least, most;
} body_bytes[TAUTI_FRAME_KINDS] = {
	[TAUTI_HELLO] = { 8 + TAUTI_NONCE_BYTES, 8 + TAUTI_NONCE_BYTES },
	[TAUTI_CHALLENGE] = { TAUTI_NONCE_BYTES, TAUTI_NONCE_BYTES },
	[TAUTI_ANSWER] = { TAUTI_PROOF_BYTES, TAUTI_PROOF_BYTES },
	[TAUTI_WELCOME] = { 8 + TAUTI_PROOF_BYTES, 8 + TAUTI_PROOF_BYTES },
	[TAUTI_LEAVE] = { 0, 4 * TAUTI_REACHED },
	[TAUTI_LOST] = { 9, TAUTI_BODY_MOST },
	[TAUTI_LEFT] = { 4 + 4 * TAUTI_REACHED, 4 + 4 * TAUTI_REACHED },
};

void tauti_link_open(struct tauti_link *link, int fd)
{
	*link = (struct tauti_link){ .fd = fd,
		.heard_ns = tauti_meet_now_ns() };
}

void tauti_link_close(struct tauti_link *link)
{
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
}

bool tauti_link_idle(const struct tauti_link *link)
{
	return link->out_from == link->out_end && !link->bulk_out_bytes;
}

static void put_head(uint8_t *to, enum tauti_frame_kind kind, size_t bytes)
{
	to[0] = 'T';
	to[1] = 'm';
	to[2] = TAUTI_MEET_VERSION;
	to[3] = (uint8_t)kind;
	tauti_put32(to + 4, (uint32_t)bytes);
}

bool tauti_link_put(struct tauti_link *link, enum tauti_frame_kind kind,
	const void *body, size_t bytes)
{
	if (link->out_from == link->out_end)
		link->out_from = link->out_end = 0;
	if (link->fd < 0 || link->bulk_out_bytes ||
		TAUTI_FRAME_HEAD + bytes > TAUTI_OUT_BYTES - link->out_end)
		return false;
	put_head(link->out + link->out_end, kind, bytes);
	link->out_end += TAUTI_FRAME_HEAD;
	if (bytes)
		memcpy(link->out + link->out_end, body, bytes);
	link->out_end += bytes;
	return true;
}

bool tauti_link_put_bulk(struct tauti_link *link, enum tauti_frame_kind kind,
	const void *body, size_t bytes)
{
	if (!tauti_link_put(link, kind, NULL, 0))
		return false;
	tauti_put32(link->out + link->out_end - 4, (uint32_t)bytes);
	link->bulk_out = body;
	link->bulk_out_bytes = bytes;
	return true;
}

static taut_status broken(struct tauti_link *link, int error)
{
	link->error = error;
	return TAUT_EIO;
}

/* Bytes that went; 0: none can now, or it is broken (*ret_status). */
static size_t send_some(struct tauti_link *link, const uint8_t *data,
	size_t bytes, taut_status *ret_status)
{
	ssize_t n;

	do
		n = send(link->fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return (size_t)n;
	*ret_status = errno == EAGAIN || errno == EWOULDBLOCK ||
		errno == ENOBUFS ? TAUT_EAGAIN : broken(link, errno);
	return 0;
}

taut_status tauti_link_write(struct tauti_link *link)
{
	taut_status status = TAUT_OK;

	if (link->fd < 0)
		return TAUT_EIO;
	while (status == TAUT_OK && link->out_from < link->out_end)
		link->out_from += send_some(link, link->out + link->out_from,
			link->out_end - link->out_from, &status);
	while (status == TAUT_OK && link->bulk_out_bytes) {
		size_t n = send_some(link, link->bulk_out,
			link->bulk_out_bytes, &status);

		link->bulk_out += n;
		link->bulk_out_bytes -= n;
	}
	return status;
}

/* TAUT_OK: to[0 .. bytes) is full; have counts from `from` on. */
static taut_status fill(struct tauti_link *link, uint8_t *to, size_t from,
	size_t bytes)
{
	while (link->have - from < bytes) {
		size_t have = link->have - from;
		ssize_t n = recv(link->fd, to + have, bytes - have,
			MSG_DONTWAIT);

		if (n == 0)
			return broken(link, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK ?
				TAUT_EAGAIN : broken(link, errno);
		link->have += (size_t)n;
	}
	return TAUT_OK;
}

static bool is_bulk(uint8_t kind)
{
	return kind == TAUTI_GIVE || kind == TAUTI_ALL;
}

static taut_status check_head(struct tauti_link *link, uint32_t bytes)
{
	const uint8_t *head = link->head;

	if (head[0] != 'T' || head[1] != 'm')
		return TAUT_EFORMAT;
	link->version = head[2];
	if (head[2] != TAUTI_MEET_VERSION)
		return TAUT_EMATCH;
	if (head[3] >= TAUTI_FRAME_KINDS ||
		!(link->allowed & tauti_kind_bit(head[3])))
		return TAUT_EFORMAT;
	if (is_bulk(head[3]))
		return bytes == link->bulk_in_bytes ? TAUT_OK : TAUT_EFORMAT;
	return bytes >= body_bytes[head[3]].least &&
		bytes <= body_bytes[head[3]].most ? TAUT_OK : TAUT_EFORMAT;
}

taut_status tauti_link_read(struct tauti_link *link,
	struct tauti_frame *ret_frame)
{
	uint32_t bytes;
	uint8_t *body;
	taut_status status;

	if (link->fd < 0)
		return TAUT_EIO;
	if (link->have < TAUTI_FRAME_HEAD) {
		status = fill(link, link->head, 0, TAUTI_FRAME_HEAD);
		if (status != TAUT_OK)
			return status;
	}
	bytes = tauti_get32(link->head + 4);
	status = check_head(link, bytes);
	if (status != TAUT_OK)
		return status;
	body = is_bulk(link->head[3]) ? link->bulk_in : link->body;
	status = fill(link, body, TAUTI_FRAME_HEAD, bytes);
	if (status != TAUT_OK)
		return status;
	link->have = 0;
	link->heard_ns = tauti_meet_now_ns();
	*ret_frame = (struct tauti_frame){ link->head[3], bytes, body };
	return TAUT_OK;
}

int tauti_poll(struct pollfd *polls, size_t n, int64_t timeout_ns)
{
	int64_t most_ms = 86400000, ms;
	int ready;

	ms = timeout_ns <= 0 ? 0 : (timeout_ns - 1) / 1000000 + 1;
	ready = poll(polls, n, (int)(ms < most_ms ? ms : most_ms));
	if (ready < 0) /* a signal: the caller looks at its clock and comes back */
		for (size_t i = 0; i < n; i++)
			polls[i].revents = 0;
	return ready < 0 ? 0 : ready;
}

taut_status tauti_link_await(struct tauti_link *link, int64_t until_ns,
	struct tauti_frame *ret_frame)
{
	for (;;) {
		struct pollfd entry = { .fd = link->fd, .events = POLLIN };
		taut_status status = tauti_link_read(link, ret_frame);
		int64_t now_ns = tauti_meet_now_ns();

		if (status != TAUT_EAGAIN)
			return status;
		if (tauti_link_write(link) == TAUT_EAGAIN)
			entry.events |= POLLOUT;
		if (now_ns >= until_ns)
			return TAUT_EAGAIN;
		tauti_poll(&entry, 1, until_ns - now_ns);
	}
}

void tauti_links_flush(struct tauti_link *links, uint32_t n, int64_t until_ns)
{
	for (uint32_t i = 0; i < n; i++)
		while (tauti_link_write(&links[i]) == TAUT_EAGAIN) {
			struct pollfd entry = { .fd = links[i].fd,
				.events = POLLOUT };
			int64_t now_ns = tauti_meet_now_ns();

			if (now_ns >= until_ns)
				break;
			tauti_poll(&entry, 1, until_ns - now_ns);
		}
}

const char *tauti_link_why(const struct tauti_link *link, taut_status status)
{
	if (status == TAUT_EFORMAT)
		return "what it sent is not the meeting's";
	if (status == TAUT_EMATCH)
		return "it speaks another version of the meeting";
	/* A process that ends with unread bytes resets its connection. */
	if (!link->error || link->error == ECONNRESET || link->error == EPIPE)
		return "its connection closed";
	return strerror(link->error);
}

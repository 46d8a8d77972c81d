/* meet.c - what comes over the sockets of a meeting: the first byte says to whom.
 *
 * Rank 0 before a guest has proven itself, rank 0 after (a gather, then the watch),
 * another rank that greets rank 0, and one that watches it. Everything that is read ends up inside the
 * buffers it is meant for, and no loop goes on without bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "coll/meet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 1 << 13, GATHERED = 24, FRAMES = 2000 };

/* The other side has said all of it, and listens no more. */
static int other_side(const uint8_t *data, size_t size, int *ret_other)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0)
		abort();
	if (size && send(pair[1], data, size, MSG_NOSIGNAL) != (ssize_t)size)
		abort();
	shutdown(pair[1], SHUT_WR);
	*ret_other = pair[1];
	return pair[0];
}

static void as_guest(const uint8_t *data, size_t size)
{
	struct tauti_guest guest;
	struct tauti_frame frame;
	int other, fd = other_side(data, size, &other);
	taut_status status;

	tauti_guest_open(&guest, fd, 0);
	do {
		status = tauti_link_read(&guest.link, &frame);
		if (status == TAUT_OK)
			status = tauti_guest_take(&guest, &frame, "secret") ==
				TAUT_EAGAIN ? TAUT_OK : TAUT_EIO;
		tauti_link_write(&guest.link);
	} while (status == TAUT_OK);
	tauti_link_close(&guest.link);
	close(other);
}

static void left(void *context, uint32_t rank, const uint32_t *reached)
{
	uint32_t *sum = context;

	if (rank >= 2)
		abort();
	for (int i = 0; i < TAUTI_REACHED; i++)
		*sum += reached[i];
}

/* One that rank 0 knows: what it gives is gathered, then it is watched. */
static void as_rank(const uint8_t *data, size_t size)
{
	struct tauti_link links[2] = { { .fd = -1 }, { .fd = -1 } };
	struct tauti_left list[2];
	uint32_t sum = 0;
	struct tauti_meet meet = { .n_ranks = 2, .links = links,
		.left = list, .watch = { .left = left, .context = &sum } };
	struct tauti_frame frame;
	uint8_t *bulk = malloc(GATHERED);
	int other, fd = other_side(data, size, &other);

	if (!bulk)
		abort();
	tauti_link_open(&links[1], fd);
	links[1].allowed = tauti_kind_bit(TAUTI_GIVE) |
		tauti_kind_bit(TAUTI_BEAT) | tauti_kind_bit(TAUTI_LEAVE) |
		tauti_kind_bit(TAUTI_LOST) | tauti_kind_bit(TAUTI_SETTLED) |
		tauti_kind_bit(TAUTI_SUMMON);
	links[1].bulk_in = bulk;
	links[1].bulk_in_bytes = GATHERED;
	for (int i = 0; i < FRAMES; i++) {
		if (tauti_link_read(&links[1], &frame) != TAUT_OK)
			break;
		if (frame.kind == TAUTI_LOST)
			tauti_meet_told(&meet, &frame);
		else if (frame.kind != TAUTI_GIVE && frame.kind != TAUTI_BEAT &&
			frame.kind != TAUTI_SUMMON &&
			!tauti_left_take(&meet, 1, &frame))
			abort();
	}
	for (const char *c = meet.fault.message; *c; c++)
		if ((unsigned char)*c < ' ')
			abort();
	tauti_link_close(&links[1]);
	close(other);
	free(bulk);
}

/* Rank 0, as rank 1 watches it. */
static void as_watched(const uint8_t *data, size_t size)
{
	struct tauti_link link;
	uint32_t sum = 0;
	struct tauti_meet meet = { .rank = 1, .n_ranks = 2, .links = &link,
		.watch = { .left = left, .context = &sum } };
	struct tauti_frame frame;
	int other, fd = other_side(data, size, &other);

	tauti_link_open(&link, fd);
	link.allowed = tauti_kind_bit(TAUTI_BEAT) | tauti_kind_bit(TAUTI_LEAVE) |
		tauti_kind_bit(TAUTI_LOST) | tauti_kind_bit(TAUTI_LEFT);
	for (int i = 0; i < FRAMES; i++) {
		if (tauti_link_read(&link, &frame) != TAUT_OK)
			break;
		if (frame.kind == TAUTI_LOST)
			tauti_meet_told(&meet, &frame);
		else if (frame.kind != TAUTI_BEAT &&
			!tauti_left_take(&meet, 0, &frame))
			break;
	}
	tauti_link_close(&link);
	close(other);
}

static void as_rank_0(const uint8_t *data, size_t size)
{
	struct tauti_meet_options options = { .rank = 1, .n_ranks = 2,
		.address = "127.0.0.1:1", .secret = "secret" };
	struct tauti_link link;
	int other, fd = other_side(data, size, &other);

	tauti_link_open(&link, fd);
	if (tauti_hello(&link, &options, 0, NULL) == TAUT_OK)
		abort(); /* nobody guesses the proof */
	tauti_link_close(&link);
	close(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || size > MOST)
		return 0;
	if (data[0] % 4 == 0)
		as_guest(data + 1, size - 1);
	else if (data[0] % 4 == 1)
		as_rank(data + 1, size - 1);
	else if (data[0] % 4 == 2)
		as_rank_0(data + 1, size - 1);
	else
		as_watched(data + 1, size - 1);
	return 0;
}

/* tcp_recv.c - what comes over TCP: heads, and bytes that go to where they were asked for,
 * are reduced, or are kept until somebody asks. See tcp.h. */
#include "coll/engines/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

enum {
	DIRECT = 4096,          /* from so many bytes on they are read to their place */
	FIRST_ROOM = 64 << 10,  /* of a message that is kept, at first */
	MOST_UNUSED = 16 << 20, /* bytes of memory that are kept for the next ones */
};

/* --- what is kept ---------------------------------------------------------------------*/

/* Of those that are kept: one that has the room, or else the last one, which grows. What is
 * short takes none that is long: the next long one would need another. */
static struct tauti_tcp_late **find_room(struct tauti_tcp *tcp, size_t bytes)
{
	size_t most = bytes < FIRST_ROOM / 4 ? FIRST_ROOM : 4 * bytes;
	struct tauti_tcp_late **last = NULL;

	for (struct tauti_tcp_late **at = &tcp->unused_lates; *at; at = &(*at)->next) {
		if ((*at)->room > most)
			continue;
		last = at;
		if ((*at)->room >= bytes)
			break;
	}
	return last;
}

static struct tauti_tcp_late *late_begin(struct tauti_tcp *tcp, uint64_t tag, size_t bytes)
{
	struct tauti_tcp_late **at = find_room(tcp, bytes), *late = at ? *at : NULL;

	if (late) {
		*at = late->next;
		tcp->unused_bytes -= late->room;
	} else {
		late = calloc(1, sizeof *late);
	}
	if (!late)
		return NULL;
	late->next = NULL;
	late->tag = tag;
	late->bytes = bytes;
	late->have = 0;
	return late;
}

static void late_end(struct tauti_tcp *tcp, struct tauti_tcp_late *late)
{
	if (tcp->unused_bytes + late->room > MOST_UNUSED) {
		free(late->data);
		free(late);
		return;
	}
	late->next = tcp->unused_lates;
	tcp->unused_lates = late;
	tcp->unused_bytes += late->room;
}

void tauti_tcp_end_lates(struct tauti_tcp *tcp)
{
	for (uint32_t i = 0; tcp->peers && i < tcp->n_ranks; i++)
		while (tcp->peers[i].late) {
			struct tauti_tcp_late *late = tcp->peers[i].late;

			tcp->peers[i].late = late->next;
			free(late->data);
			free(late);
		}
	while (tcp->unused_lates) {
		struct tauti_tcp_late *late = tcp->unused_lates;

		tcp->unused_lates = late->next;
		free(late->data);
		free(late);
	}
}

/* Room grows with what has come: who says that much will come has to send it. How many
 * more bytes there is room for; 0: no memory. */
static size_t make_room(struct tauti_tcp_late *late)
{
	size_t room = late->room < FIRST_ROOM ? FIRST_ROOM : 2 * late->room;
	char *data;

	if (late->have == late->room) {
		if (room > late->bytes)
			room = late->bytes;
		data = realloc(late->data, room);
		if (!data)
			return 0;
		late->data = data;
		late->room = room;
	}
	return (late->room < late->bytes ? late->room : late->bytes) - late->have;
}

/* --- where it goes --------------------------------------------------------------------*/

/* Into = from op what comes, as far as there are whole elements of it. */
static void reduce(struct tauti_tcp_peer *peer, const char *bytes, size_t n)
{
	const struct tauti_tcp_op *op = peer->to;
	size_t each = taut_type_bytes(op->type), whole;
	size_t at = peer->have - peer->n_carry;

	if (peer->n_carry) {
		size_t some = each - peer->n_carry < n ? each - peer->n_carry : n;

		memcpy(peer->carry + peer->n_carry, bytes, some);
		peer->n_carry += some;
		bytes += some;
		n -= some;
		if (peer->n_carry < each)
			return;
		taut_reduce(op->type, op->reduction, op->into + at, op->from + at,
			peer->carry, 1);
		at += each;
		peer->n_carry = 0;
	}
	whole = n / each;
	taut_reduce(op->type, op->reduction, op->into + at, op->from + at, bytes, whole);
	peer->n_carry = n - whole * each;
	memcpy(peer->carry, bytes + whole * each, peer->n_carry);
}

/* Some bytes of the message that is coming. False: no memory to keep them. */
static bool put(struct tauti_tcp_peer *peer, const char *bytes, size_t n)
{
	struct tauti_tcp_late *late = peer->kept;

	if (peer->to && peer->to->reduces)
		reduce(peer, bytes, n);
	else if (peer->to)
		memcpy(peer->to->into + peer->have, bytes, n);
	peer->have += n;
	while (late && n) {
		size_t some = make_room(late);

		if (!some)
			return false;
		some = some < n ? some : n;
		memcpy(late->data + late->have, bytes, some);
		late->have += some;
		bytes += some;
		n -= some;
	}
	return true;
}

static void end_message(struct tauti_tcp_peer *peer)
{
	struct tauti_tcp_op *op = peer->to;

	peer->in_body = false;
	peer->have = 0;
	peer->to = NULL;
	peer->kept = NULL;
	if (op)
		tauti_tcp_end_part(op, TAUT_OK);
}

/* --- heads ----------------------------------------------------------------------------*/

/* The oldest with that tag, out of the list; NULL: none is asked for. */
static struct tauti_tcp_op *find_expected(struct tauti_tcp_peer *peer, uint64_t tag)
{
	for (struct tauti_tcp_op **at = &peer->expected; *at; at = &(*at)->behind) {
		struct tauti_tcp_op *op = *at;

		if (op->tag != tag)
			continue;
		*at = op->behind;
		if (!*at)
			peer->end = at;
		return op;
	}
	return NULL;
}

static uint64_t get64(const uint8_t *from)
{
	uint64_t value = 0;

	for (int i = 0; i < 8; i++)
		value |= (uint64_t)from[i] << 8 * i;
	return value;
}

static void keep(struct tauti_tcp *tcp, struct tauti_tcp_peer *peer, uint64_t tag)
{
	struct tauti_tcp_late *late = late_begin(tcp, tag, peer->bytes);

	if (!late) {
		taut_error_set(&tcp->fault, TAUT_ENOMEM, -1, "out of memory");
		return;
	}
	*peer->late_end = late;
	peer->late_end = &late->next;
	peer->kept = late;
}

/* Its head is there. */
static void begin_message(struct tauti_tcp *tcp, uint32_t rank)
{
	struct tauti_tcp_peer *peer = &tcp->peers[rank];
	uint64_t tag = get64(peer->head), bytes = get64(peer->head + 8);
	struct tauti_tcp_op *op;

	if (tag >> TAUT_COLL_TAG_BITS || bytes > TAUTI_TCP_MOST_BYTES) {
		taut_error_set(&tcp->fault, TAUT_EFORMAT, -1,
			"what rank %u sends is no message", rank);
		return;
	}
	peer->in_body = true;
	peer->have = 0;
	peer->bytes = bytes;
	peer->n_carry = 0;
	op = find_expected(peer, tag);
	if (!op)
		keep(tcp, peer, tag);
	else if (op->bytes != bytes)
		tauti_tcp_end_part(op, TAUT_EMATCH); /* and is passed over */
	else
		peer->to = op;
	if (!bytes && !tcp->fault.code)
		end_message(peer);
}

/* n bytes that came, from a head or wherever it stands. */
static void look_at(struct tauti_tcp *tcp, uint32_t rank, const char *bytes, size_t n)
{
	struct tauti_tcp_peer *peer = &tcp->peers[rank];

	while (n && !tcp->fault.code) {
		size_t most = peer->in_body ? peer->bytes - peer->have :
			TAUTI_TCP_HEAD - peer->have;
		size_t some = n < most ? n : most;

		if (!peer->in_body) {
			memcpy(peer->head + peer->have, bytes, some);
			peer->have += some;
			if (some == most)
				begin_message(tcp, rank);
		} else if (!put(peer, bytes, some)) {
			taut_error_set(&tcp->fault, TAUT_ENOMEM, -1, "no memory for "
				"a message of %zu bytes of rank %u", peer->bytes, rank);
		} else if (some == most) {
			end_message(peer);
		}
		bytes += some;
		n -= some;
	}
}

/* --- taking in ------------------------------------------------------------------------*/

/* Where the next bytes may be read to without another copy; *ret_bytes 0: nowhere. */
static char *place_of(struct tauti_tcp_peer *peer, size_t *ret_bytes)
{
	size_t left = peer->bytes - peer->have;

	*ret_bytes = 0;
	if (!peer->in_body || left < DIRECT)
		return NULL;
	if (peer->to && !peer->to->reduces) {
		*ret_bytes = left;
		return peer->to->into + peer->have;
	}
	if (!peer->kept)
		return NULL;
	*ret_bytes = make_room(peer->kept);
	return *ret_bytes ? peer->kept->data + peer->kept->have : NULL;
}

static void has_come(struct tauti_tcp_peer *peer, size_t n)
{
	peer->have += n;
	if (peer->kept)
		peer->kept->have += n;
	if (peer->have == peer->bytes)
		end_message(peer);
}

bool tauti_tcp_take(struct tauti_tcp *tcp, uint32_t rank)
{
	struct tauti_tcp_peer *peer = &tcp->peers[rank];
	struct iovec places[2];
	size_t direct, rest = 0;
	int n = 0;
	ssize_t came;

	if (peer->gone || tcp->fault.code)
		return false;
	places[0].iov_base = place_of(peer, &direct);
	places[0].iov_len = direct;
	if (direct)
		n++;
	/* What is behind the message, where all of that has its place. */
	if (!direct || direct == peer->bytes - peer->have)
		places[n++] = (struct iovec){ tcp->stage, TAUTI_TCP_STAGE };
	came = readv(peer->fd, places, n);
	if (came < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (came <= 0) {
		tauti_tcp_lose(tcp, rank);
		return false;
	}
	if ((size_t)came > direct)
		rest = (size_t)came - direct;
	if (direct)
		has_come(peer, (size_t)came - rest);
	look_at(tcp, rank, tcp->stage, rest);
	return true;
}

/* --- asking ---------------------------------------------------------------------------*/

/* What has come of it before it was asked for. */
static void hand_over(struct tauti_tcp *tcp, struct tauti_tcp_peer *peer,
	struct tauti_tcp_late *late, struct tauti_tcp_op *op)
{
	bool is_coming = peer->kept == late;
	size_t have = late->have;

	if (is_coming)
		peer->kept = NULL;
	if (late->bytes != op->bytes) {
		tauti_tcp_end_part(op, TAUT_EMATCH);
	} else {
		struct tauti_tcp_peer whole = { .to = op, .bytes = late->bytes };

		if (have)
			(void)put(&whole, late->data, have);
		if (is_coming) {
			peer->to = op;
			peer->n_carry = whole.n_carry;
			memcpy(peer->carry, whole.carry, sizeof whole.carry);
		} else {
			tauti_tcp_end_part(op, TAUT_OK);
		}
	}
	late_end(tcp, late);
}

/* The oldest with that tag, out of the list; NULL: none has come. */
static struct tauti_tcp_late *find_late(struct tauti_tcp_peer *peer, uint64_t tag)
{
	for (struct tauti_tcp_late **at = &peer->late; *at; at = &(*at)->next) {
		struct tauti_tcp_late *late = *at;

		if (late->tag != tag)
			continue;
		*at = late->next;
		if (!*at)
			peer->late_end = at;
		return late;
	}
	return NULL;
}

void tauti_tcp_expect(struct tauti_tcp *tcp, struct tauti_tcp_op *op)
{
	struct tauti_tcp_peer *peer = &tcp->peers[op->peer];
	struct tauti_tcp_late *late = find_late(peer, op->tag);

	if (late) {
		hand_over(tcp, peer, late, op);
		return;
	}
	op->behind = NULL;
	*peer->end = op;
	peer->end = &op->behind;
	if (peer->gone)
		tcp->lost_some = true;
}

/* --- giving up -------------------------------------------------------------------------*/

bool tauti_tcp_discard(void *engine, uint32_t rank, uint64_t tag)
{
	struct tauti_tcp *tcp = engine;
	struct tauti_tcp_peer *peer = &tcp->peers[rank];
	struct tauti_tcp_late *late = find_late(peer, tag);

	if (!late)
		return false;
	if (peer->kept == late)
		peer->kept = NULL; /* the rest is passed over */
	late_end(tcp, late);
	return true;
}

void tauti_tcp_withdraw(void *engine, struct taut_coll_request *request)
{
	struct tauti_tcp *tcp = engine;
	struct tauti_tcp_op *op = tcp->under_way.next;
	struct tauti_tcp_op **at;
	struct tauti_tcp_peer *peer;

	while (op != &tcp->under_way && op->request != request)
		op = op->next;
	if (op == &tcp->under_way || !op->is_receive)
		return;
	peer = &tcp->peers[op->peer];
	for (at = &peer->expected; *at && *at != op; at = &(*at)->behind)
		;
	if (!*at)
		return;
	*at = op->behind;
	if (!*at)
		peer->end = at;
	tauti_tcp_end_part(op, TAUT_EMATCH);
}

/* tcp.h - what the files of the engine over TCP share: a connection between any two ranks
 * that it carries messages of, and nothing else between them.
 *
 *     tcp.c          sending; what is under way, what is lost, sleep
 *     tcp_recv.c     what comes
 *     tcp_connect.c  connections between all ranks
 *
 * On the wire a message is its tag and its length, 8 bytes each with the low byte first,
 * and its bytes. A send hands the system what it takes, at once; what it does not take
 * waits in the queue of its peer. What comes goes right to where it was asked for, or is
 * reduced while it is in the nearest cache; what nobody has asked for yet is kept, so that
 * what stands behind it is not held up.
 *
 * Who closes a connection has finished, or is gone: where something is under way with it,
 * progress() names it a little later, and what cannot go on ends with destroy(). */
#ifndef TAUT_COLL_TCP_H
#define TAUT_COLL_TCP_H

#include <sys/types.h>

#include "base/now.h"
#include "coll/coll.h"
#include "coll/reduce.h"

enum {
	TAUTI_TCP_HEAD = 16,
	TAUTI_TCP_STAGE = 256 << 10, /* bytes of what comes that are looked at at once */
};
#define TAUTI_TCP_MOST_BYTES (UINT64_C(1) << 40) /* of a message */

struct tauti_tcp;

/* One request: a receive, or the sends of one message to several. */
struct tauti_tcp_op {
	struct tauti_tcp_op *next, *previous; /* of those under way; unused: next alone */
	struct tauti_tcp *tcp;
	struct taut_coll_request *request;
	uint32_t pending; /* parts that have not ended */
	taut_status status;
	/* of a receive: */
	struct tauti_tcp_op *behind; /* the next that its peer is asked for */
	bool is_receive, reduces;
	uint8_t type, reduction;
	uint32_t peer;
	uint64_t tag;
	char *into;
	const char *from; /* into = from op what comes */
	size_t bytes;
};

/* A message on its way to one peer. */
struct tauti_tcp_part {
	struct tauti_tcp_part *next; /* in the queue; unused: in that list */
	struct tauti_tcp_op *op;
	const char *data;
	size_t bytes, gone; /* gone: of the head, and then of the bytes */
	uint8_t head[TAUTI_TCP_HEAD];
};

/* A message that nobody has asked for; it may still be coming. */
struct tauti_tcp_late { /* data: of room bytes, which stay its own when it is unused */
	struct tauti_tcp_late *next; /* of its peer, the oldest first; unused: in that list */
	uint64_t tag;
	size_t bytes, have, room;
	char *data;
};

struct tauti_tcp_peer {
	int fd;          /* -1: none */
	bool gone;       /* nothing comes and goes any more */
	bool asks_write; /* as epoll was told */
	int wakes_at;    /* bytes that are there, as the system was told */
	struct tauti_tcp_part *first, *last;      /* that go out */
	struct tauti_tcp_op *expected, **end;     /* asked for, the oldest first */
	struct tauti_tcp_late *late, **late_end;
	/* The message that is coming. in_body: its head is there. */
	bool in_body;
	uint8_t head[TAUTI_TCP_HEAD];
	size_t have, bytes;            /* have: of its head, or of its bytes */
	struct tauti_tcp_op *to;       /* asked for */
	struct tauti_tcp_late *kept;   /* not asked for; neither: passed over */
	uint8_t carry[TAUTI_TYPE_BYTES]; /* a part of an element that is to be reduced */
	size_t n_carry;
};

struct tauti_tcp {
	struct tauti_tcp_peer *peers; /* by rank */
	uint32_t rank, n_ranks;
	int epoll_fd, wake_fd;
	char *stage;
	struct tauti_tcp_op under_way; /* a ring */
	struct tauti_tcp_op *unused;
	struct tauti_tcp_part *unused_parts;
	struct tauti_tcp_late *unused_lates;
	size_t unused_bytes; /* of those */
	bool lost_some;      /* one is gone, and it is yet to be seen what with it */
	int64_t fault_at_ns; /* when that becomes a fault; 0: there is none */
	struct taut_error fault; /* code: nothing moves any more */
};

extern const struct taut_coll_engine tauti_tcp_engine; /* of a struct tauti_tcp */

/* With connections to nobody yet, which are then given to it one by one: fd does not
 * block. TAUT_ENOMEM, TAUT_EIO. */
TAUT_NODISCARD taut_status tauti_tcp_open(uint32_t rank, uint32_t n_ranks,
	struct tauti_tcp **ret_tcp, struct taut_error *reterr);
TAUT_NODISCARD taut_status tauti_tcp_give(
	struct tauti_tcp *tcp, uint32_t peer, int fd, struct taut_error *reterr);

/* tcp.c: one part of it has ended. */
void tauti_tcp_end_part(struct tauti_tcp_op *op, taut_status status);
void tauti_tcp_lose(struct tauti_tcp *tcp, uint32_t peer);

/* tcp_recv.c: begins a receive, which may end at once. */
void tauti_tcp_expect(struct tauti_tcp *tcp, struct tauti_tcp_op *op);
/* Takes in what is there, of one call to the system. True: something was. */
bool tauti_tcp_take(struct tauti_tcp *tcp, uint32_t peer);
/* As discard() and withdraw() of the engine. */
bool tauti_tcp_discard(void *engine, uint32_t peer, uint64_t tag);
void tauti_tcp_withdraw(void *engine, struct taut_coll_request *request);
void tauti_tcp_end_lates(struct tauti_tcp *tcp);

#endif /* TAUT_COLL_TCP_H */

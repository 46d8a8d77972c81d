/* meet.h - what the files of the meeting share.
 *
 *     meet_link.c    frames over a socket that never blocks
 *     meet_proof.c   nonces, and what proves that a secret is known
 *     meet_hello.c   who comes: both sides of the hand-shake
 *     meet_address.c where: names, listening, connecting
 *     meet_host.c    rank 0 until all are there
 *     meet_guest.c   the other ranks until then
 *     meet.c         gathering, leaving
 *     meet_watch.c   who is gone
 *     meet_door.c    rank 0 that takes the others one by one
 *     meet_engine.c  what engines ask while they connect
 *     meet_left.c    who has left in peace
 *
 * On the wire a frame is 8 bytes and a body, numbers with the low byte first:
 *
 *     'T' 'm'  version  kind  bytes of the body (4)  body
 *
 *     rank r                                 rank 0
 *     HELLO rank n_ranks nonce         ->
 *                                      <-    CHALLENGE nonce
 *     ANSWER proof                     ->              who is wrong: REFUSAL
 *                                      <-    WELCOME verdict n_ranks proof
 *                                      <-    START, when all are there
 *     GIVE bytes                       ->
 *                                      <-    ALL bytes of all
 *     BEAT, LOST rank code line      <-->   the same
 *     SUMMON                         <-->   the same, before they watch: gather now
 *     LEAVE reached                  ->
 *                                    <-     LEFT rank reached
 *     SETTLED                        ->              once rank 0 has left
 *
 * Before they watch, LEAVE goes both ways, and has no body. Who has left closes
 * its connection when rank 0 did; rank 0, which has no other way to say that it
 * leaves than LEFT, when all the others have settled or left.
 * A proof is HMAC-SHA256 under the secret of all that was said before it. Rank r
 * proves first, so that whoever finds the port learns nothing of the secret. */
#ifndef TAUT_COLL_MEET_H
#define TAUT_COLL_MEET_H

#include <pthread.h>

#include "base/now.h"
#include "coll/coll.h"

enum {
	TAUTI_MEET_VERSION = 1,
	TAUTI_NONCE_BYTES = 32,
	TAUTI_PROOF_BYTES = 32,
	TAUTI_FRAME_HEAD = 8,
	TAUTI_BODY_MOST = 512, /* but for GIVE and ALL, whose size is known */
	TAUTI_OUT_BYTES = 1024,
	TAUTI_RANKS_MOST = 65535,
};

enum tauti_frame_kind {
	TAUTI_HELLO = 1, TAUTI_CHALLENGE, TAUTI_ANSWER, TAUTI_WELCOME,
	TAUTI_REFUSAL, TAUTI_START, TAUTI_GIVE, TAUTI_ALL, TAUTI_BEAT,
	TAUTI_LEAVE, TAUTI_LOST, TAUTI_LEFT, TAUTI_SETTLED, TAUTI_SUMMON,
	TAUTI_FRAME_KINDS
};

static inline uint32_t tauti_kind_bit(enum tauti_frame_kind kind)
{
	return (uint32_t)1 << kind;
}

static inline void tauti_put32(uint8_t *to, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		to[i] = (uint8_t)(value >> 8 * i);
}

static inline uint32_t tauti_get32(const uint8_t *from)
{
	return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
		(uint32_t)from[3] << 24;
}

static inline int64_t tauti_meet_now_ns(void)
{
	return tauti_now_ns();
}

/* --- meet_link.c ------------------------------------------------------------------
 * One connection. Zero with fd -1 is none. */
struct tauti_link {
	int fd;
	uint32_t allowed; /* kinds that may come now, as tauti_kind_bit() */
	uint8_t *bulk_in; /* where a GIVE or ALL goes, of exactly this size */
	size_t bulk_in_bytes;
	const uint8_t *bulk_out; /* goes after what is in out */
	size_t bulk_out_bytes;
	int64_t heard_ns; /* when something came, monotonic */
	int error;        /* errno of what broke it; 0: the other side closed */
	uint8_t version;  /* of the other side, once a head came */
	bool watched;     /* it has begun to beat */
	bool settled;     /* of a rank that needs nobody after rank 0 left */
	uint32_t told;    /* ranks that have left, of which it knows */
	size_t have;      /* bytes of the frame that is coming */
	size_t out_from, out_end;
	uint8_t head[TAUTI_FRAME_HEAD];
	uint8_t body[TAUTI_BODY_MOST];
	uint8_t out[TAUTI_OUT_BYTES];
	char from[64]; /* address of the other side, for people */
};

struct tauti_frame {
	enum tauti_frame_kind kind;
	uint32_t bytes;
	const uint8_t *body; /* until the next read; bulk_in's for GIVE, ALL */
};

/* Takes the socket, which must not block. */
void tauti_link_open(struct tauti_link *link, int fd);
void tauti_link_close(struct tauti_link *link);
/* Copies a small frame behind what goes out; false: no room, the other side does
 * not read. */
bool tauti_link_put(struct tauti_link *link, enum tauti_frame_kind kind,
	const void *body, size_t bytes);
/* The same with a large body, which stays the caller's until it is gone. */
bool tauti_link_put_bulk(struct tauti_link *link, enum tauti_frame_kind kind,
	const void *body, size_t bytes);
bool tauti_link_idle(const struct tauti_link *link); /* all is gone */
/* TAUT_OK: all is gone; TAUT_EAGAIN: some is left; TAUT_EIO: it is broken, which
 * is seen again when reading. */
taut_status tauti_link_write(struct tauti_link *link);
/* TAUT_OK: one frame; TAUT_EAGAIN: none yet; TAUT_EIO: closed or broken, see
 * error; TAUT_EFORMAT: not a frame, or none that is allowed now; TAUT_EMATCH:
 * another version. */
TAUT_NODISCARD taut_status tauti_link_read(struct tauti_link *link,
	struct tauti_frame *ret_frame);
/* Writes, and waits for one frame; TAUT_EAGAIN: none until then. */
TAUT_NODISCARD taut_status tauti_link_await(struct tauti_link *link,
	int64_t until_ns, struct tauti_frame *ret_frame);
/* Writes what is left, of n links at once, until then at most. */
void tauti_links_flush(struct tauti_link *links, uint32_t n, int64_t until_ns);
/* "its connection closed", "Connection reset by peer", ... */
const char *tauti_link_why(const struct tauti_link *link, taut_status status);
/* poll() that goes on after signals; milliseconds rounded up, at most a day. */
struct pollfd;
int tauti_poll(struct pollfd *polls, size_t n, int64_t timeout_ns);

/* --- meet_proof.c -----------------------------------------------------------------*/
struct tauti_proof_of {
	char role; /* 'r': rank r to rank 0; '0': rank 0 to it */
	uint32_t rank, n_ranks;      /* as rank r says */
	uint32_t verdict, n_ranks_0; /* as rank 0 says; in its own proof alone */
	const uint8_t *nonce, *nonce_0;
};

/* False: the system has no randomness. */
TAUT_NODISCARD bool tauti_nonce(uint8_t ret_nonce[TAUTI_NONCE_BYTES]);
/* False: no memory. */
TAUT_NODISCARD bool tauti_prove(const char *secret,
	const struct tauti_proof_of *of, uint8_t ret_proof[TAUTI_PROOF_BYTES]);
/* As long for a wrong one as for the right one. */
TAUT_NODISCARD bool tauti_proven(const char *secret,
	const struct tauti_proof_of *of, const uint8_t *proof);

/* --- meet_hello.c -----------------------------------------------------------------*/
enum tauti_verdict {
	TAUTI_WELCOME_IN, TAUTI_ALREADY_THERE, TAUTI_OTHER_SIZE,
};

/* Who came to rank 0, and has yet to prove who it is. */
struct tauti_guest {
	struct tauti_link link;
	uint32_t rank, n_ranks; /* once it said so */
	int64_t came_ns;
	uint8_t nonce[TAUTI_NONCE_BYTES], nonce_0[TAUTI_NONCE_BYTES];
};

void tauti_guest_open(struct tauti_guest *guest, int fd, int64_t now_ns);
/* Answers one of its frames. TAUT_EAGAIN: it goes on; TAUT_OK: it knows the
 * secret, and waits for a verdict; TAUT_EIO: it does not; TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_guest_take(struct tauti_guest *guest,
	const struct tauti_frame *frame, const char *secret);
/* False: no memory. */
TAUT_NODISCARD bool tauti_guest_welcome(struct tauti_guest *guest,
	const char *secret, enum tauti_verdict verdict, uint32_t n_ranks);

/* The other side, over a connection that stands. TAUT_OK: welcome, and nothing
 * more came; TAUT_EAGAIN: not now, another try may do; TAUT_EIO: one of both
 * does not know the secret; TAUT_EMATCH: see the line. */
TAUT_NODISCARD taut_status tauti_hello(struct tauti_link *link,
	const struct tauti_meet_options *options, int64_t until_ns,
	struct taut_error *reterr);

/* --- meet_address.c ---------------------------------------------------------------*/
enum { TAUTI_LISTENERS = 2 }; /* IPv6 and IPv4 */

struct tauti_address {
	char host[256], port[6];
};

/* "10.0.0.1:29500", "[::1]:29500", "node0:29500". */
TAUT_NODISCARD taut_status tauti_address_read(const char *text,
	struct tauti_address *ret_address, struct taut_error *reterr);
/* Sockets that listen, -1 for none. A numeric address of this host is the only
 * one that is listened at; for a name, all are: it often means another address
 * on its own host than elsewhere. */
TAUT_NODISCARD taut_status tauti_address_listen(const char *text,
	int64_t until_ns, int ret_fds[TAUTI_LISTENERS],
	struct taut_error *reterr);
/* A connection; TAUT_EAGAIN: not now, and why; TAUT_EIO: nobody listens there. */
TAUT_NODISCARD taut_status tauti_address_connect(const char *text,
	int64_t until_ns, int *ret_fd, struct taut_error *reterr);
/* What every connection of a meeting has: it does not block, and waits for
 * nothing to fill a packet. */
void tauti_socket_prepare(int fd);

/* --- the meeting ------------------------------------------------------------------*/
struct tauti_left { /* one that left in peace */
	uint32_t rank, reached[TAUTI_REACHED];
};

struct tauti_meet {
	uint32_t rank, n_ranks;
	int64_t within_ns, lost_after_ns;
	int64_t until_ns;         /* of a door's: no stage goes on after it; else never */
	int door_fd;              /* readable: it has but a moment left; -1: none */
	char *where;              /* options.address */
	struct tauti_link *links; /* by rank; but rank 0 all have one, to it */
	struct pollfd *polls;     /* one a link, and one more */
	struct taut_error fault;  /* code TAUT_OK: none; else all is over */

	pthread_mutex_t mutex;      /* of what follows */
	pthread_cond_t heard;        /* left_heard has changed */
	bool left_heard;             /* all know, or never will, that it leaves */
	struct taut_error own_fault; /* of tauti_meet_fail() */
	struct tauti_left own_left;  /* of tauti_meet_leave() */
	bool leaves, stops;          /* stops: set before the last ring */

	pthread_t watcher;
	bool watching;
	int stop_fd;          /* an eventfd: any of these changed */
	struct tauti_watch watch;
	/* The watching thread's. */
	struct tauti_left *left; /* rank 0's: in the order in which it heard */
	uint32_t n_left;
	bool said_leave, told_heard;
	int64_t stay_until_ns;   /* rank 0, when it leaves */
	bool any_left, host_left; /* others have; rank 0 has */
	uint32_t left_last;       /* of them */
	bool said_settled;
	int64_t stuck_since_ns;   /* it needs who will not come, or 0 */
};

/* The links that a rank has: of rank 0 to 1 .., of another to 0 alone. */
static inline uint32_t tauti_meet_first(const struct tauti_meet *meet)
{
	return meet->rank == 0;
}

static inline uint32_t tauti_meet_end(const struct tauti_meet *meet)
{
	return meet->rank == 0 ? meet->n_ranks : 1;
}

/* meet_host.c, meet_guest.c: until all are there. */
TAUT_NODISCARD taut_status tauti_meet_host(struct tauti_meet *meet,
	const struct tauti_meet_options *options, struct taut_error *reterr);
TAUT_NODISCARD taut_status tauti_meet_guest(struct tauti_meet *meet,
	const struct tauti_meet_options *options, struct taut_error *reterr);

/* meet.c: a peer is gone, or broke the rules: the line that names it goes into
 * fault, and to all others. Returns its code. */
taut_status tauti_meet_lose(struct tauti_meet *meet, uint32_t peer,
	taut_status status, const char *why);
/* The fault that rank 0 told in a LOST frame. */
taut_status tauti_meet_told(struct tauti_meet *meet,
	const struct tauti_frame *frame);
/* Tells fault to all others in a LOST frame: rank 0 to all, the others to it. */
void tauti_meet_tell(struct tauti_meet *meet, uint32_t rank);
/* Tells own_fault, where there is one and no other before it. */
bool tauti_meet_confess(struct tauti_meet *meet);
/* meet_engine.c: door_fd is readable. */
void tauti_meet_hasten(struct tauti_meet *meet);
/* meet_watch.c: waits for the end of the watch. */
void tauti_meet_unwatch(struct tauti_meet *meet);

/* --- meet_door.c ------------------------------------------------------------------
 * For a server, whose workers come one by one: each is rank 1 .. of n_ranks in the
 * hand-shake, and then shares with it a meeting of two, in which it is rank 1. A
 * guest, for its part, calls tauti_meet_create() and then tauti_meet_make_pair().
 * Threads: one at a time. */
struct tauti_door;

/* Listens when it returns. */
TAUT_NODISCARD taut_status tauti_door_open(const char *address,
	const char *secret, uint32_t n_ranks, struct tauti_door **ret_door,
	struct taut_error *reterr);
void tauti_door_close(struct tauti_door *door); /* NULL is fine */
/* Waits for the next that proves itself, whose link is the caller's then: it waits
 * for a START (of tauti_door_meet()), or a LOST that says why not. TAUT_EAGAIN:
 * stop_fd became readable. */
TAUT_NODISCARD taut_status tauti_door_take(struct tauti_door *door, int stop_fd,
	struct tauti_link *ret_link, uint32_t *ret_rank);
/* Connections that proved nothing, or another number of ranks. */
uint64_t tauti_door_refused(const struct tauti_door *door);
/* The meeting of two over that link, for tauti_meet_gather() and engines; its
 * links[1] has it then. All its stages together have within_ns, and once stop_fd is
 * readable half a second. NULL: no memory, and the link is still the caller's. */
struct tauti_meet *tauti_door_meet(const struct tauti_link *link, int stop_fd,
	int64_t within_ns, int64_t lost_after_ns);
void tauti_meet_make_pair(struct tauti_meet *meet);
/* The line of a LOST frame, without what would command a terminal. */
void tauti_frame_line(const struct tauti_frame *frame, char *line, size_t size);
/* A LOST frame. False: no room. */
bool tauti_link_tell(struct tauti_link *link, uint32_t rank, taut_status code,
	const char *line);

/* --- meet_left.c: the watching thread's -----------------------------------------------*/
/* Lets tauti_meet_leave() return, when all know, or the watch is over. */
void tauti_left_heard(struct tauti_meet *meet, bool over);
/* Says that this rank leaves, when it does; tells what there is to tell. */
void tauti_left_say(struct tauti_meet *meet);
/* LEAVE, LEFT or SETTLED of a peer. False: nonsense. */
TAUT_NODISCARD bool tauti_left_take(struct tauti_meet *meet, uint32_t peer,
	const struct tauti_frame *frame);
/* After a rank has left: TAUT_EAGAIN, or that what this rank needs does not
 * come. */
TAUT_NODISCARD taut_status tauti_left_look(
	struct tauti_meet *meet, int64_t now_ns);
/* Whether this rank's connection to rank 0 may close now. */
bool tauti_left_expects_close(const struct tauti_meet *meet);
/* A rank that leaves: whether it needs to stay no more. */
bool tauti_left_may_go(const struct tauti_meet *meet, int64_t now_ns);

#endif /* TAUT_COLL_MEET_H */

/* peers.h - what the files of the peers share; see taut/peers.h.
 *
 *     split.c   which host has which item
 *     core.c    who is asked, what is answered, who is gone: no clock, no socket
 *     link.c    frames over one connection that never blocks
 *     join.c    how ranks become connected
 *     loop.c    the thread: connections, the core, what loaders ask
 *     peers.c   life, and what callers ask
 *
 * Only the thread is in the core and at the links. What other threads have to say (asks, reads
 * that ended, a loader that comes or goes) lies in an inbox, under the one lock, and a ring
 * wakes the thread.
 *
 * On the wire a frame is 24 bytes, numbers with the low byte first, and what follows an ITEM:
 *
 *     'T' 'p'  version  kind  number (4)  item (8)  bytes (8)  [bytes]
 *
 *     ASK number item bytes     ->
 *                               <-   ITEM number item bytes, and they
 *                               <-   or NONE number item: it is not here
 *     BEAT, BYE                <-->  the same
 *
 * Answers come in any order. */
#ifndef TAUT_PEERS_PEERS_H
#define TAUT_PEERS_PEERS_H

#include <poll.h>
#include <pthread.h>

#include <taut/peers.h>

#include "base/origin.h"
#include "coll/meet.h"
#include "load/remote.h"
#include "peers/core.h"

enum {
	TAUTI_PEERS_VERSION = 1,
	TAUTI_PEERS_HEAD = 24,
	TAUTI_PEERS_ASKS = 4096, /* of a rank, at most */
};

enum tauti_peers_kind {
	TAUTI_PEERS_ASK = 1, TAUTI_PEERS_ITEM, TAUTI_PEERS_NONE, TAUTI_PEERS_BEAT,
	TAUTI_PEERS_BYE,
	TAUTI_PEERS_KINDS
};

struct tauti_peers_frame {
	enum tauti_peers_kind kind;
	uint32_t number;
	uint64_t item, bytes;
};

/* --- link.c ------------------------------------------------------------------------*/
/* A frame that goes out, and is somebody's until it is gone. */
struct tauti_peers_out {
	struct tauti_peers_out *next;
	uint8_t head[TAUTI_PEERS_HEAD];
	const uint8_t *data; /* bytes of it; NULL: none */
	uint64_t bytes, sent; /* sent: with the head */
	uint32_t serve; /* whose answer it is; TAUT_NONE: nobody's */
	bool queued;
};

struct tauti_peers_link { /* fd -1: none */
	int fd;
	int64_t heard_ns, said_ns;
	/* What comes. */
	uint8_t head[TAUTI_PEERS_HEAD];
	uint32_t have;     /* of the head */
	uint32_t number;   /* of the body's ask */
	uint64_t left;     /* of the body */
	uint8_t *into;     /* where it goes; NULL: it is passed over */
	/* What goes. */
	struct tauti_peers_out *first, *last;
	struct tauti_peers_out beat;
	void *rest; /* a copy of what a frame in its middle has left */
	bool has_left; /* it said goodbye */
};

void tauti_peers_link_open(struct tauti_peers_link *link, int fd, int64_t now_ns);
void tauti_peers_link_close(struct tauti_peers_link *link);
void tauti_peers_link_put(struct tauti_peers_link *link, struct tauti_peers_out *out,
	const struct tauti_peers_frame *frame, const void *data);
/* Sends what can be sent, but not for ever. done: a frame is gone. False: it is broken. */
TAUT_NODISCARD bool tauti_peers_link_write(struct tauti_peers_link *link,
	int64_t now_ns, void (*done)(void *context, struct tauti_peers_out *out),
	void *context);
enum tauti_peers_heard {
	TAUTI_PEERS_NOTHING,
	TAUTI_PEERS_FRAME,  /* *ret_frame; of ITEM, link->into and left are to be set */
	TAUTI_PEERS_WHOLE,  /* the body of link->number is there */
	TAUTI_PEERS_CLOSED, /* or broken, or no frame of ours */
};
enum tauti_peers_heard tauti_peers_link_read(struct tauti_peers_link *link,
	int64_t now_ns, struct tauti_peers_frame *ret_frame);
/* Nothing of the cache's memory is read any more: answers that have not begun become NONE,
 * of one in its middle the rest is copied. False: no memory for that. */
TAUT_NODISCARD bool tauti_peers_link_detach(struct tauti_peers_link *link);

/* --- all of it ---------------------------------------------------------------------*/
enum tauti_peers_wish { TAUTI_PEERS_REST, TAUTI_PEERS_ATTACH, TAUTI_PEERS_DETACH,
	TAUTI_PEERS_STOP };

struct tauti_peers_read { /* one for each serve */
	struct tauti_remote_read read; /* first */
	struct taut_peers *peers;
	struct tauti_peers_read *next; /* in the inbox */
	bool came;
};

struct taut_peers {
	struct taut_load_remote remote; /* first */
	struct tauti_origin origin;
	uint32_t rank, n_ranks, n_hosts, n_asks;
	int64_t lost_after_ns, answer_within_ns;
	uint64_t fingerprint, n_items, cache_bytes;
	uint64_t share_items, share_bytes;
	uint32_t *host_of;   /* by rank */
	uint32_t *n_asks_of; /* by rank */
	struct tauti_split split;
	struct tauti_peers_core *core;
	struct tauti_peers_link *links; /* by rank; none to those of this host */
	struct pollfd *polls;           /* one more than ranks */
	struct tauti_remote_ask **asks; /* by number */
	struct tauti_peers_out *asks_out, *answers_out; /* by number, by serve */
	struct tauti_peers_out *byes;   /* by rank */
	struct tauti_peers_read *reads; /* by serve */

	/* The thread's. */
	struct tauti_remote_source source; /* context NULL: no loader is attached */
	struct tauti_remote_ask *ended;
	int64_t look_ns, tick_ns; /* when to look for who is silent; for what is late */
	int64_t again_ns; /* when to look at what another process brings */
	bool is_detaching, is_granting;
	_Atomic uint32_t n_lost, n_left;

	pthread_t thread;
	bool has_thread;
	int ring_fd;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t granted;
	struct tauti_remote_ask *inbox_asks, *last_inbox_ask;
	struct tauti_peers_read *inbox_reads;
	enum tauti_peers_wish wish;
	const struct tauti_remote_source *wished; /* with ATTACH */
	bool is_attached;
};

/* --- join.c: meets, says who it is, connects -----------------------------------------
 * Fills host_of, n_asks_of, n_hosts, links, and ret_weights by host, which is the
 * caller's to free, also when it fails. */
TAUT_NODISCARD taut_status tauti_peers_join(struct taut_peers *peers,
	const struct taut_peers_options *options, uint64_t **ret_weights,
	struct taut_error *err);

/* --- loop.c ------------------------------------------------------------------------*/
extern const struct tauti_peers_calls tauti_peers_calls;
TAUT_NODISCARD taut_status tauti_peers_start(
	struct taut_peers *peers, struct taut_error *err);
/* Says goodbye and ends. */
void tauti_peers_stop(struct taut_peers *peers);
/* What a loader does with it. */
taut_status tauti_peers_attach(struct taut_load_remote *remote,
	const struct tauti_remote_source *source, struct taut_error *err);
void tauti_peers_detach(struct taut_load_remote *remote);
enum tauti_remote_where tauti_peers_where(
	const struct taut_load_remote *remote, uint64_t item);
void tauti_peers_ask(struct taut_load_remote *remote, struct tauti_remote_ask *ask);

#endif /* TAUT_PEERS_PEERS_H */

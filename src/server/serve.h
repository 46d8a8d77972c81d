/* serve.h - the network around the core of a server; see server.h.
 *
 * Each worker has a link (beats, and lines about what is wrong) and an engine of two
 * ranks (all else). Both are made by the porter's thread; from then on they are
 * run()'s alone. */
#ifndef TAUT_SERVER_SERVE_H
#define TAUT_SERVER_SERVE_H

#include <poll.h>
#include <pthread.h>

#include "coll/meet.h"
#include "server/server.h"

/* Something that a peer's engine does. */
enum tauti_op_kind { TAUTI_OP_ASK, TAUTI_OP_TABLE, TAUTI_OP_PUSH,
	TAUTI_OP_GO, TAUTI_OP_ANSWER, TAUTI_OP_BOARD };

struct tauti_op;
struct tauti_request {
	struct taut_coll_request request; /* first */
	struct tauti_op *op;
};
struct tauti_op {
	struct tauti_request requests[2]; /* an answer has two */
	struct tauti_peer *peer;
	struct tauti_op *next; /* of the list that it is in */
	enum tauti_op_kind kind;
	uint32_t pending;
	taut_status status;
	uint32_t part, round;  /* of an ask: its number */
	size_t bytes;
	int64_t start_ns;
	uint8_t words[TAUTI_ASK_BYTES]; /* of an ask, a go or an answer */
};

struct tauti_peer {
	struct tauti_peer *next; /* that arrived */
	uint32_t worker;
	struct tauti_link link;
	struct tauti_engine engine;
	struct tauti_op *ended, **ended_at; /* in the order in which they were */
	struct tauti_op *unused;
	struct tauti_op *asks[TAUTI_ASKS_AHEAD]; /* that came, by number */
	uint32_t n_asked;  /* handled */
	uint8_t *table;
	uint32_t n_table;
	bool awaits_table, has_declared;
	int64_t beat_every_ns; /* as it needs it */
	bool near;         /* of this host: it is told of a board */
	bool has_board;    /* and uses it: nothing but words is sent */
	struct tauti_board board;
	uint8_t board_words[TAUTI_BOARD_BYTES];
	bool leaves;       /* once it is idle */
	bool doomed;       /* why says what is wrong with it */
	struct taut_error why;
};

struct taut_server {
	struct taut_server_options options;
	enum tauti_want want;
	struct tauti_core *core;
	struct tauti_peer **peers; /* by worker; NULL: none */
	struct pollfd *polls;      /* 2 a worker, and one */
	uint32_t next;             /* worker, that is moved first */
	uint64_t board_bytes;      /* that are shared with workers */
	struct taut_error unshared; /* why one of this host shares none; the first */
	uint64_t n_sleeps;
	int64_t begun_ns, beat_ns; /* beat: when the next is due */
	int64_t beat_every_ns;     /* as the least patient worker that came needs it */
	int64_t did_ns;            /* when what is being summed began */

	struct tauti_door *door;
	pthread_t porter;
	bool has_porter;
	int wake_fd, porter_fd;    /* eventfds: of run(), of the porter */
	int stopped;               /* atomic */
	pthread_mutex_t mutex;     /* of what follows */
	uint8_t *presence;         /* enum tauti_presence, by worker */
	struct tauti_peer *arrived;
};

/* porter.c: the thread; those that arrived stay in the list when it ends. */
TAUT_NODISCARD taut_status tauti_porter_start(
	struct taut_server *server, struct taut_error *reterr);
void tauti_porter_stop(struct taut_server *server);

/* peer.c */
/* Begins to receive what it asks for. */
TAUT_NODISCARD taut_status tauti_peer_begin(
	struct tauti_peer *peer, struct taut_error *reterr);
/* Ends all of it; frees it. */
void tauti_peer_destroy(struct taut_server *server, struct tauti_peer *peer);
/* The first reason counts. */
void tauti_peer_doom(struct tauti_peer *peer, const char *fmt, ...)
	TAUT_PRINTF(2, 3);
/* What the core calls. */
void tauti_peer_receive(struct tauti_peer *peer, uint32_t part, uint32_t round,
	void *into, size_t bytes);
/* at: of the part, on a board. */
void tauti_peer_answer(struct tauti_peer *peer, uint32_t part, uint32_t round,
	const void *data, size_t bytes, uint32_t contributors, size_t at);
/* Tells the core what has ended, until then at most. True: something had. */
bool tauti_peer_settle(
	struct taut_server *server, struct tauti_peer *peer, int64_t until_ns);

#endif /* TAUT_SERVER_SERVE_H */

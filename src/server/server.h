/* server.h - what the files of the parameter server share.
 *
 *     place.c    which server has which part
 *     update.c   the arithmetic of a push
 *     core.c  core_round.c  core_buffer.c
 *                what is summed when, who waits for which round, what happens
 *                when somebody is lost: no clock, no network, no thread
 *     wire.c     what is said, as bytes
 *     board.c    memory that a server shares with a worker of its host
 *     pair.c     over which engine the two speak
 *     porter.c   lets workers in, one after the other
 *     serve.c  peer.c
 *                the network around the core
 *     worker.c  worker_loop.c  worker_join.c
 *                the other side */
#ifndef TAUT_SERVER_SERVER_H
#define TAUT_SERVER_SERVER_H

#include <taut/server.h>

#include "base/now.h"
#include "coll/coll.h"

enum {
	TAUTI_PARTS_MOST = 1 << 20, /* of all servers; they fit in a tag */
	TAUTI_SERVERS_MOST = 1024,
	TAUTI_WORKERS_MOST = 4096,
};

/* --- update.c ------------------------------------------------------------------------- */
struct tauti_update_state {
	uint64_t step;
	double power1, power2; /* beta1^step, beta2^step, by multiplication */
	void *moments[2];      /* of the part's type and count */
};
uint32_t tauti_update_moments(const struct taut_server_update *update);
/* One step; not of SUM. float32 and float64. */
void tauti_update_apply(const struct taut_server_update *update,
	enum taut_type type, struct tauti_update_state *state, void *value,
	const void *gradient, uint64_t count);
/* Types that have a factor; data *= factor, which is rounded to the type. */
bool tauti_scales(enum taut_type type);
void tauti_scale(enum taut_type type, void *data, double factor, uint64_t count);

/* --- core.c ------------------------------------------------------------------------------
 * Threads: one at a time. Callbacks only begin things: they call nothing here; what
 *          they began ends with a later call.
 * Faults:  a status of join, declare or ask is the worker's fault: the caller
 *          tells it the line and calls lost(). When nobody can go on, fault()
 *          has the line from then on, and nothing more is begun. */
struct tauti_core;

enum tauti_ask { /* bits of what a worker asks for */
	TAUTI_ASK_PUSH = 1,
	TAUTI_ASK_PULL = 2,
	TAUTI_ASK_FIRST = 4, /* a push that is the value itself */
};

struct tauti_part_said { /* as a worker declares it */
	uint32_t part;
	enum taut_type type;
	uint64_t count, hash; /* hash: of the key's name and the part's place */
};

struct tauti_core_calls {
	/* Receive the push into this memory; then tauti_core_received(). */
	void (*receive)(void *context, uint32_t worker, uint32_t part,
		uint32_t round, void *into, size_t bytes);
	/* Send this; then tauti_core_answered(). The memory does not change until
	 * then. */
	void (*answer)(void *context, uint32_t worker, uint32_t part,
		uint32_t round, const void *data, size_t bytes,
		uint32_t contributors);
	/* Before and after a sum or an update. NULL: not wanted. */
	void (*did)(void *context, enum taut_server_did did, uint32_t worker,
		uint32_t part, uint32_t round, uint64_t bytes, bool begins);
	/* Where the push is already, in memory that does not change before the push is in
	 * the sum or the value, or the worker is gone; NULL: it is to be received. The
	 * call may be NULL. */
	const void *(*find)(void *context, uint32_t worker, uint32_t part,
		uint32_t round, size_t bytes);
};

/* Of options: n_workers, update, unordered, async, bounded, staleness, on_loss,
 * memory_bytes, landing_bytes. */
TAUT_NODISCARD taut_status tauti_core_create(
	const struct taut_server_options *options,
	const struct tauti_core_calls *calls, void *context,
	struct tauti_core **ret_core, struct taut_error *reterr);
/* Everything that was begun must be over. NULL is fine. */
void tauti_core_destroy(struct tauti_core *core);

enum tauti_presence { TAUTI_EXPECTED, TAUTI_JOINED, TAUTI_DECLARED, TAUTI_DEPARTED,
	TAUTI_GONE };
/* "is there already", ... */
const char *tauti_presence_text(enum tauti_presence presence);

/* TAUT_EMATCH: it has come before. */
TAUT_NODISCARD taut_status tauti_core_join(struct tauti_core *core,
	uint32_t worker, struct taut_error *reterr);
/* n parts by rising number; the first worker's are the truth. TAUT_EMATCH: they
 * are not those of another worker; TAUT_EINVAL: too much memory, or a type that
 * the rule does not take; TAUT_EFORMAT: not a list of parts; TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_core_declare(struct tauti_core *core,
	uint32_t worker, const struct tauti_part_said *said, size_t n,
	struct taut_error *reterr);
/* round: of a push, the worker's next of this part, from 1; of a pull alone its
 * last. An answer may be with its worker before answered() is called: what it asks for
 * meanwhile begins then. TAUT_EFORMAT: it may not ask for that now. */
TAUT_NODISCARD taut_status tauti_core_ask(struct tauti_core *core,
	uint32_t worker, uint32_t part, uint32_t ask, uint32_t round,
	struct taut_error *reterr);
void tauti_core_received(
	struct tauti_core *core, uint32_t worker, uint32_t part);
void tauti_core_answered(
	struct tauti_core *core, uint32_t worker, uint32_t part);
/* Nothing of the worker's is under way any more: its memory is free. What the others can
 * do then is for tauti_core_go_on(). why: "its connection closed". */
void tauti_core_lost(struct tauti_core *core, uint32_t worker,
	const char *where, const char *why);
/* Whether nothing of the worker's has to be received or answered. */
bool tauti_core_is_idle(const struct tauti_core *core, uint32_t worker);
/* In peace, once it is idle. */
void tauti_core_left(struct tauti_core *core, uint32_t worker);
/* Some of what can be done since a worker went, of one part: it may be about all of them,
 * which takes its time. False: that was done. */
bool tauti_core_go_on(struct tauti_core *core);

enum tauti_presence tauti_core_presence(
	const struct tauti_core *core, uint32_t worker);
/* TAUT_OK, or why nobody can go on. */
taut_status tauti_core_fault(
	const struct tauti_core *core, struct taut_error *reterr);
/* All have come and are gone, and nothing is left to be done. */
bool tauti_core_over(const struct tauti_core *core);
/* Where a part begins in memory that has all of them, one after another, each at a
 * multiple of 64 bytes; and the bytes of all. */
size_t tauti_core_place(const struct tauti_core *core, uint32_t part);
size_t tauti_core_bytes(const struct tauti_core *core);
size_t tauti_board_next(size_t at, size_t bytes);
/* The first worker that has not come, or TAUT_NONE. */
uint32_t tauti_core_missing(const struct tauti_core *core);
void tauti_core_counts(
	const struct tauti_core *core, struct taut_server_counts *ret_counts);

/* --- wire.c --------------------------------------------------------------------------------
 * Over an engine of two ranks, the server 0 and the worker 1; numbers with the low
 * byte first.
 *
 *     worker                                  server
 *     ASK  declare n                     ->
 *     TABLE n parts of 24 bytes          ->
 *                                        <-   BOARD name, where both are on one
 *                                             host
 *     ASK  board 1 or 0                  ->   whether it has it
 *     ASK  verb part round               ->
 *                                        <-   GO   part round, where the verb has a
 *                                             long push, and there is a place for it
 *     PUSH bytes of the part             ->   where it has a push; a short one at once
 *                                        <-   ANSWER part round contributors
 *                                        <-   DATA bytes of the part
 *
 * With a board none of GO, PUSH and DATA is sent: what they carry is on it, at the
 * part's place.
 *
 * An ASK names its length by what was declared, so every message has a size that
 * the receiver knows before it comes. */
enum {
	TAUTI_ASK_BYTES = 16,
	TAUTI_ANSWER_BYTES = 16,
	TAUTI_SAID_BYTES = 24,
	TAUTI_GREETING_BYTES = 40, /* of every version, so that it can be told */
	TAUTI_BOARD_BYTES = 48,
	TAUTI_BOARD_NAME_BYTES = 40, /* with its end */
	TAUTI_ASKS_AHEAD = 32, /* receives that a server has begun */
	TAUTI_AT_ONCE_BYTES = 32 << 10, /* of a push that needs no GO */
	TAUTI_AHEAD_BYTES = 8 << 20, /* of others that go to a server before their GO */
	TAUTI_WIRE_VERSION = 4,
};

enum tauti_tag { TAUTI_TAG_ASK = 1, TAUTI_TAG_TABLE, TAUTI_TAG_PUSH,
	TAUTI_TAG_ANSWER, TAUTI_TAG_DATA, TAUTI_TAG_BOARD, TAUTI_TAG_GO };

/* Of 48 bits: what, which part, the low bits of a number that rises. */
static inline uint64_t tauti_tag_of(
	enum tauti_tag what, uint32_t part, uint32_t number)
{
	return (uint64_t)what << 44 | (uint64_t)part << 20 |
		(number & 0xfffff);
}

/* part: of DECLARE how many, of LEAVE 0, of BOARD whether it has it; round: 0 */
enum { TAUTI_ASK_DECLARE = 0x80, TAUTI_ASK_LEAVE = 0x40, TAUTI_ASK_BOARD = 0x20 };
struct tauti_asked {
	uint32_t ask, part, round;
};
void tauti_asked_write(
	const struct tauti_asked *asked, uint8_t bytes[TAUTI_ASK_BYTES]);
/* False: not an ASK. Whether it may be asked now is the core's to say. */
TAUT_NODISCARD bool tauti_asked_read(
	const uint8_t bytes[TAUTI_ASK_BYTES], struct tauti_asked *ret_asked);

struct tauti_answer {
	uint32_t part, round, contributors;
};
/* A GO has the same form, without contributors. */
void tauti_answer_write(
	const struct tauti_answer *answer, uint8_t bytes[TAUTI_ANSWER_BYTES]);
TAUT_NODISCARD bool tauti_answer_read(
	const uint8_t bytes[TAUTI_ANSWER_BYTES], struct tauti_answer *ret_answer);

void tauti_said_write(
	const struct tauti_part_said *said, uint8_t bytes[TAUTI_SAID_BYTES]);
/* False: no such type, or nothing in it. */
TAUT_NODISCARD bool tauti_said_read(
	const uint8_t bytes[TAUTI_SAID_BYTES], struct tauti_part_said *ret_said);

/* What both sides must agree on before anything else. mode: enum taut_server_mode, where
 * neither side says ANY. engine: tauti_pair_says(). */
struct tauti_greeting {
	uint32_t version, index, n_servers, n_workers;
	uint16_t mode, engine;
	uint64_t host; /* tauti_host_id(); 0: nothing is shared */
	int64_t lost_after_ns; /* of silence of the other one; 0: that is not said. It goes as
	                          milliseconds */
};
void tauti_greeting_write(const struct tauti_greeting *greeting,
	uint8_t bytes[TAUTI_GREETING_BYTES]);
uint16_t tauti_greeting_mode(const uint8_t bytes[TAUTI_GREETING_BYTES]);
uint16_t tauti_greeting_engine(const uint8_t bytes[TAUTI_GREETING_BYTES]);
/* How often this side says something: four times within what the less patient of both
 * takes for a loss, as far as the other one may ask for that. */
int64_t tauti_greeting_beat_ns(const struct tauti_greeting *own,
	const uint8_t bytes[TAUTI_GREETING_BYTES]);
/* Whether both are on one host, and would share memory. */
bool tauti_greeting_is_near(const struct tauti_greeting *own,
	const uint8_t bytes[TAUTI_GREETING_BYTES]);
/* TAUT_EMATCH, and a line that says what differs. */
TAUT_NODISCARD taut_status tauti_greeting_check(
	const struct tauti_greeting *own,
	const uint8_t bytes[TAUTI_GREETING_BYTES], const char *who,
	struct taut_error *reterr);

/* name "": there is none. */
void tauti_board_write(const char *name, uint8_t bytes[TAUTI_BOARD_BYTES]);
/* False: not such a message, or another name than those of boards. */
TAUT_NODISCARD bool tauti_board_read(const uint8_t bytes[TAUTI_BOARD_BYTES],
	char ret_name[TAUTI_BOARD_NAME_BYTES]);

/* --- pair.c ------------------------------------------------------------------------------
 * Threads: one at a time. */
struct tauti_pair { /* zero is none */
	enum tauti_want want;
	struct tauti_ucx *ucx; /* NULL: not looked for, or not there */
};
/* What takes long, before the two meet. Errors as tauti_ucx_open(), where UCX was asked for. */
TAUT_NODISCARD taut_status tauti_pair_open(enum tauti_want want,
	struct tauti_pair *ret_pair, struct taut_error *reterr);
void tauti_pair_close(struct tauti_pair *pair);
/* What the other one is to know for tauti_pair_meet(), which both call. who: of whom a line
 * speaks. TAUT_EMATCH: they were told different things; else errors as of the engines. */
uint16_t tauti_pair_says(const struct tauti_pair *pair, const struct tauti_meet *meet);
TAUT_NODISCARD taut_status tauti_pair_meet(struct tauti_pair *pair, uint16_t mine,
	uint16_t others, struct tauti_meet *meet, uint32_t rank, const char *who,
	struct tauti_engine *ret_engine, struct taut_error *reterr);

/* --- board.c -----------------------------------------------------------------------------
 * The server makes it, so that nobody else can make it shorter. It has a name until
 * the worker has opened it.
 * Threads: one at a time. */
struct tauti_board { /* zero is none */
	uint8_t *base;
	size_t bytes;
	char name[TAUTI_BOARD_NAME_BYTES]; /* "": it is gone, or another's */
	int fd; /* as long as it has a name: a lock on it */
};
/* TAUT_EIO: there is no memory that can be shared, or it would be more than half of
 * what is free; *ret_board is none. */
TAUT_NODISCARD taut_status tauti_board_create(size_t bytes,
	struct tauti_board *ret_board, struct taut_error *reterr);
/* Its name is gone after that. */
TAUT_NODISCARD taut_status tauti_board_open(const char *name, size_t bytes,
	struct tauti_board *ret_board, struct taut_error *reterr);
/* The other side has opened it. */
void tauti_board_settle(struct tauti_board *board);
void tauti_board_close(struct tauti_board *board);
void tauti_board_copy(void *to, const void *from, size_t bytes);

#endif /* TAUT_SERVER_SERVER_H */

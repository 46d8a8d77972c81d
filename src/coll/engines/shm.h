/* shm.h - what the files of the shared memory's engine share.
 *
 *     shm_map.c     makes the mapping, with the other ranks of the host
 *     shm_stale.c   removes what a killed rank left before there was one
 *     shm_fifo.c    one FIFO: puts a message in, looks at the next one
 *     shm_send.c    slots, and messages for which there is no room yet
 *     shm_recv.c    what comes, and who has asked for it
 *     shm_flat.c    an all-reduce of one message from each to each
 *     shm_sleep.c   waiting, and waking others
 *     shm_copy.c    copies from cache to cache, and past it
 *     shm.c         the engine's table; its life
 *
 * A message of up to TAUTI_SHM_SHORT_BYTES stands in the FIFO from its sender to
 * its receiver. The payload of a longer one is written once, into a slot of the
 * sender's, and a line in the FIFO of each receiver names it; the slot is free
 * when all of them have read it. No locks: a FIFO has one writer and one reader.
 *
 * What has come and nobody asked for is kept: a short one is copied, a long one
 * stays in its slot until its sender runs short of slots, then it is copied too.
 * So a sender never waits for what its receivers will ask for later.
 *
 * A receiver that is busy with something else, or has left, reads nothing, and
 * what was sent to it stays. It holds a part of the slots at most, and what is for
 * others goes on beside what waits for it. */
#ifndef TAUT_COLL_ENGINES_SHM_H
#define TAUT_COLL_ENGINES_SHM_H

#include "coll/coll.h"
#include "coll/engines/shm_layout.h"

/* --- the mapping --------------------------------------------------------------------*/
#define TAUTI_SHM_PREFIX "/taut-" /* of its name; then hexadecimal digits */
enum { TAUTI_SHM_RANDOM_BYTES = 16 };

struct tauti_shm_map {
	void *base;
	struct tauti_shm_layout layout;
	uint32_t index; /* this rank's number in the host */
	bool fenced;    /* who publishes must order it before reading a bell;
	                   else who goes to sleep does that for all, at its cost */
	bool spins;     /* there is a core for every rank of the host */
};

typedef taut_status (*tauti_shm_gather_fn)(void *context, const void *mine,
	size_t bytes, void *ret_all, struct taut_error *reterr);

/* Who this rank is, and how it talks to the others before there is a mapping. */
struct tauti_shm_world {
	uint32_t rank, n_ranks;
	const uint32_t *host_of;
	tauti_shm_gather_fn gather;
	void *context;
	bool spins; /* there is a core for every rank of the host */
};

/* All ranks call it. Memory that one of them cannot share ends it on all, of every
 * host, with TAUT_EIO and the line that says whose. Any other failure (TAUT_ENOMEM;
 * TAUT_EFORMAT: a rank told nonsense; gather()'s) is this rank's alone: the others
 * hear of it as of any rank that is lost. base is NULL for a rank that is alone on
 * its host. */
TAUT_NODISCARD taut_status tauti_shm_map_create(
	const struct tauti_shm_world *world, struct tauti_shm_map *ret_map,
	struct taut_error *reterr);
void tauti_shm_map_destroy(struct tauti_shm_map *map);
/* shm_stale.c. Whether it is a name of this kind, with its slash: others tell it, and
 * no other one is opened or removed. */
TAUT_NODISCARD bool tauti_shm_is_name(const char *name);
void tauti_shm_remove_stale(void);

/* --- one FIFO ----------------------------------------------------------------------*/
struct tauti_shm_out { /* this rank writes */
	struct tauti_shm_line *lines;
	const struct tauti_shm_word *taken;
	uint64_t sent, seen_taken; /* lines */
	uint64_t payload[TAUTI_SHM_FIFO_LINES / 64]; /* a bit a line: it has some
	                                                where its number belongs */
	bool mad; /* the reader has read what was never sent */
};

struct tauti_shm_in { /* this rank reads */
	const struct tauti_shm_line *lines;
	struct tauti_shm_word *taken;
	uint64_t at, told; /* lines */
	uint64_t n_read;   /* of the sender's slots */
};

struct tauti_shm_message {
	const void *payload; /* of an inline one */
	uint64_t tag;
	uint32_t bytes, slot, lines;
};

/* Whether there is room for a message of so many bytes in the FIFO (of a slot: 0). */
bool tauti_shm_room(struct tauti_shm_out *out, uint32_t bytes);
/* There must be room. data: of an inline message. */
void tauti_shm_put(struct tauti_shm_out *out, uint64_t tag, uint32_t bytes,
	uint32_t slot, const void *data);
enum tauti_shm_seen { TAUTI_SHM_NOTHING, TAUTI_SHM_MESSAGE, TAUTI_SHM_NONSENSE };
/* The next message; it stays until it is taken. */
enum tauti_shm_seen tauti_shm_look(struct tauti_shm_in *in,
	const struct tauti_shm_layout *layout,
	struct tauti_shm_message *ret_message);
/* Whether the sender was told that there is room again. */
bool tauti_shm_take(struct tauti_shm_in *in, uint32_t lines);

/* Where the line whose number is `at` is to come: whether it has nothing yet, or
 * what stood there a time or more round the FIFO before. */
static inline bool tauti_shm_is_old(uint64_t sequence, uint64_t at)
{
	return sequence == 0 || (sequence <= at &&
		(at + 1 - sequence) % TAUTI_SHM_FIFO_LINES == 0);
}

/* A message, or nonsense. */
static inline bool tauti_shm_any(const struct tauti_shm_in *in)
{
	return !tauti_shm_is_old(atomic_load_explicit(
		&in->lines[in->at % TAUTI_SHM_FIFO_LINES].sequence,
		memory_order_acquire), in->at);
}

/* --- the engine ---------------------------------------------------------------------*/
struct tauti_shm_peer { /* another rank of the host, by its number there */
	struct tauti_shm_out out;
	struct tauti_shm_in in;
	struct tauti_shm_bell *bell;
	struct tauti_shm_word *readers; /* of its slots */
	const unsigned char *slots;
	uint32_t rank;
	uint32_t n_held; /* of its slots, by messages that nobody asked for yet */
	uint64_t n_long, seen_read; /* of this rank's slots: sent to it; read by it */
	struct tauti_shm_part *first, **end; /* what waits for room, the oldest first */
};

/* What messages are found by. */
struct tauti_shm_key {
	struct tauti_shm_key *next;
	uint64_t tag;
	uint32_t peer; /* its number in the host */
};

struct tauti_shm_asked { /* for which there was no message yet */
	struct tauti_shm_key key;
	bool reduces;
	uint8_t type, reduction;
	void *into;
	const void *from;
	size_t bytes;
	struct taut_coll_request *request;
};

struct tauti_shm_come { /* for which nobody asked yet */
	struct tauti_shm_key key;
	uint32_t bytes, slot;
	void *copy; /* of what stood in a slot; owned */
	alignas(16) unsigned char payload[TAUTI_SHM_SHORT_BYTES];
};

/* One that is here. */
struct tauti_shm_source {
	const void *payload;
	struct tauti_shm_come *kept; /* NULL: it is at the head of its FIFO */
	uint32_t peer;
	uint32_t bytes, slot, lines; /* lines: of one at the head */
};

/* An all-reduce by FLAT that is under way. */
struct tauti_shm_flat {
	struct taut_coll_request sent; /* first: of what it sends, where that waits
	                                  for room */
	struct tauti_shm_flat *next;
	struct taut_coll_flat *flat;   /* the caller's */
	const void *sum;  /* of the ranks before `at`; NULL: of none */
	uint32_t bytes;
	uint32_t at;      /* the rank whose turn it is, a number in the host */
	bool is_sent;
	taut_status status;
};

enum { TAUTI_SHM_BUCKETS = 64 };

struct tauti_shm_table {
	struct tauti_shm_key *buckets[TAUTI_SHM_BUCKETS];
	size_t n;
};

/* A message that waits for room, and what of it goes to one receiver. */
struct tauti_shm_part {
	struct tauti_shm_part *next; /* of that receiver's */
	struct tauti_shm_queued *message;
	uint32_t peer; /* its number in the host */
};

struct tauti_shm_queued {
	struct taut_coll_request *request;
	const void *data;
	uint64_t tag;
	uint32_t bytes;
	uint32_t n_parts, n_left; /* n_left: that did not go yet */
	struct tauti_shm_part parts[];
};

/* Where something was received lately: it may still be in a cache. */
struct tauti_shm_place {
	const void *into;
	uint64_t after_bytes; /* received before it */
};

enum { TAUTI_SHM_PLACES = 256 };

struct tauti_shm {
	struct tauti_shm_map map;
	struct tauti_shm_bell *bell; /* this rank's */
	struct tauti_shm_bell alone; /* bell of a rank without a mapping */
	_Atomic uint32_t woken;
	int64_t spin_ns;   /* 0: others may need the core; then it yields first */
	uint32_t n_yields;
	uint32_t rank, n_world, n_peers; /* ranks of all hosts; of this one */
	struct tauti_shm_peer *peers;    /* its own place is not used */
	uint32_t *number_of;             /* in the host, by rank; TAUT_NONE */

	unsigned char *slots;            /* this rank's */
	struct tauti_shm_word *readers;
	uint32_t n_free, n_busy, first_free;
	uint32_t free[TAUTI_SHM_MOST_SLOTS]; /* a ring: from first_free on, n_free */
	uint32_t busy[TAUTI_SHM_MOST_SLOTS]; /* the oldest first */
	uint32_t n_apart;     /* free ones that only who holds none may have */
	uint32_t most_unread; /* that one receiver may hold */
	uint32_t n_queued;    /* messages that wait for room; */
	bool has_new;         /* some since they were last tried; */
	uint64_t seen_room;   /* what the receivers had read then */
	uint32_t *going;      /* room for the numbers of all receivers */

	struct tauti_shm_table asked, come;
	struct tauti_shm_key *spare_asked, *spare_come;
	uint32_t *others;                /* all ranks but this one */
	struct tauti_shm_flat *flats, **flats_end, *spare_flats;
	uint32_t n_looks;                /* for flats alone, since what else there
	                                    is was drained on purpose */
	struct tauti_shm_place places[TAUTI_SHM_PLACES];
	uint64_t received_bytes;
	struct taut_error broken; /* code: TAUT_OK as long as it works */
};

/* --- shm_send.c --------------------------------------------------------------------*/
taut_status tauti_shm_send(void *engine, const uint32_t *peers,
	uint32_t n_peers, uint64_t tag, const void *data, size_t bytes,
	struct taut_coll_request *request, struct taut_error *err);
/* All of it, and true; or nothing, and false: there is no room. */
bool tauti_shm_send_now(struct tauti_shm *it, const uint32_t *peers,
	uint32_t n_peers, uint64_t tag, const void *data, uint32_t bytes);
/* When there is room. TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_shm_send_later(struct tauti_shm *it,
	const uint32_t *peers, uint32_t n_peers, uint64_t tag,
	const void *data, uint32_t bytes, struct taut_coll_request *request,
	struct taut_error *err);
/* Sends of what is queued what there is room for. */
taut_status tauti_shm_flush(struct tauti_shm *it);
/* Whether something of what is queued might go on. */
bool tauti_shm_flushable(struct tauti_shm *it);
/* Every queued message ends with this status. */
void tauti_shm_end_queue(struct tauti_shm *it, taut_status status);

/* --- shm_recv.c --------------------------------------------------------------------*/
taut_status tauti_shm_recv(void *engine, uint32_t peer, uint64_t tag,
	void *data, size_t bytes, struct taut_coll_request *request,
	struct taut_error *err);
taut_status tauti_shm_recv_reduce(void *engine, uint32_t peer, uint64_t tag,
	enum taut_type type, enum taut_reduction reduction, void *into,
	const void *from, size_t count, struct taut_coll_request *request,
	struct taut_error *err);
bool tauti_shm_arrived(void *engine, uint64_t tag, uint64_t mask);
/* What has come from all; also frees slots of senders that need them. */
taut_status tauti_shm_drain(struct tauti_shm *it, struct taut_error *err);
/* Whether a sender needs a slot back that an unasked message holds. */
bool tauti_shm_owes(const struct tauti_shm *it);
/* Whether the message with this tag is here, for which nobody asked. It stays, and
 * what ret_source says holds, until it is released, or the engine is broken. */
bool tauti_shm_peek(struct tauti_shm *it, uint32_t peer, uint64_t tag,
	struct tauti_shm_source *ret_source);
void tauti_shm_release(
	struct tauti_shm *it, const struct tauti_shm_source *source);
bool tauti_shm_is_kept(struct tauti_shm *it, uint32_t peer, uint64_t tag);
void tauti_shm_end_asked(struct tauti_shm *it, taut_status status);
void tauti_shm_free_nodes(struct tauti_shm *it);

/* --- shm_flat.c --------------------------------------------------------------------*/
taut_status tauti_shm_flat(
	void *engine, struct taut_coll_flat *flat, struct taut_error *err);
/* Takes what has come for those that are under way, and ends those that have all. */
void tauti_shm_advance_flats(struct tauti_shm *it);
/* Whether one of them can go on with what was taken out of its FIFO. */
bool tauti_shm_flat_kept(struct tauti_shm *it);
/* After those that wait for room. */
void tauti_shm_end_flats(struct tauti_shm *it, taut_status status);
void tauti_shm_free_flats(struct tauti_shm *it);

/* --- shm_sleep.c -------------------------------------------------------------------*/
taut_status tauti_shm_wait(void *engine, int64_t timeout_ns,
	struct taut_error *err);
void tauti_shm_wake(void *engine);
/* After something was published: wakes whose bell it is, if that wakes it. */
void tauti_shm_ring(const struct tauti_shm *it, struct tauti_shm_bell *bell,
	enum tauti_shm_sleep what);
/* This process from now on takes part in the ordering by who goes to sleep. */
bool tauti_shm_order_from_outside(void);

/* --- shm_copy.c --------------------------------------------------------------------*/
/* As memcpy(), for what other cores have written or will read. */
void tauti_shm_copy(void *to, const void *from, size_t bytes);
/* The same, past the caches where the processor can do that. */
void tauti_shm_copy_past(void *to, const void *from, size_t bytes);

/* --- shm.c -------------------------------------------------------------------------*/
extern const struct taut_coll_engine tauti_shm_table;
/* Takes map over, also when it fails. rank_of: by number in the host. */
TAUT_NODISCARD taut_status tauti_shm_engine_create(
	const struct tauti_shm_map *map, uint32_t n_world,
	const uint32_t *rank_of, struct tauti_shm **ret_engine,
	struct taut_error *reterr);
/* Without tauti_meet. */
TAUT_NODISCARD taut_status tauti_shm_create_by(
	const struct tauti_shm_world *world, struct tauti_engine *ret_engine,
	struct taut_error *reterr);
/* Ends all that is under way; returns what is in it->broken from now on. */
taut_status tauti_shm_break(struct tauti_shm *it, taut_status status,
	uint32_t peer, const char *what, struct taut_error *err);

#endif /* TAUT_COLL_ENGINES_SHM_H */

/* core.h - the mechanism of peers: who is asked for an item, what is answered, and what
 * happens when one of them is gone.
 *
 * It has no clock, no thread, no socket and no memory of items: it is told what happened and
 * says what to do next, through calls. The same code runs between hosts and in a test's made-up
 * world.
 *
 *   asks:    ask -> ASKED --came--> COMING --whole--> ended: it came
 *                     |  \--refused, lost-----------> ended: to be read from storage
 *                     '-- too late --> ended so; what comes still is passed over
 *   serves:  asked --look--> HERE ------------------------> answer --answered--> over
 *                     |----> COMING: parked, looked at again
 *                     |----> MISSING: read, when fewer than n_reads are -> done -> answer
 *                     '----> NONE: answer without bytes
 *
 * Rules:
 *
 *   Every ask ends exactly once, whatever happens to whom it was asked of: by what came, by
 *   a refusal, by a loss, or by its time.
 *   An item is asked of its owner: of one of the ranks of that host, the same for all who
 *   ask while that one lives; then of the next that lives. So a host's ranks do not read
 *   an item twice between them, and what another process of the host is bringing is
 *   waited for.
 *   A peer that is gone is never asked again; one that was too late is not before it has
 *   answered something. So whoever stands still is waited for once.
 *   Before a loader came, what is asked is parked; after it went, it is not here.
 *   A serve holds no memory but its record, of which each peer has as many as it may have
 *   asks under way. A peer that takes nothing holds its own answers alone.
 *
 * Owner:   borrows the calls' context and the split.
 * Threads: one at a time, but for where(), which any may call. Calls only begin things: they
 *          call nothing here.
 * Errors:  an answer of false means that a peer talks nonsense: it is to be lost. */
#ifndef TAUT_PEERS_CORE_H
#define TAUT_PEERS_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include <taut/base.h>

#include "load/remote.h"
#include "peers/split.h"

struct tauti_peers_core;

enum tauti_serve_look {
	TAUTI_SERVE_HERE,    /* at: its bytes, until it was answered */
	TAUTI_SERVE_COMING,  /* another process, or a loader of this one, brings it */
	TAUTI_SERVE_MISSING, /* if claimed: read() follows, into at; else as it was */
	TAUTI_SERVE_NONE,    /* there is no room for it */
};

struct tauti_peers_calls {
	/* An ask is over. came: its bytes are where they were to go. */
	void (*end)(void *context, uint32_t number, bool came);
	enum tauti_serve_look (*look)(void *context, uint64_t item, uint64_t bytes,
		bool claim, void **ret_at);
	/* Then tauti_peers_core_read(). */
	void (*read)(void *context, uint32_t serve, uint64_t item, void *at);
	/* Send it; at NULL: that it is not here. Then tauti_peers_core_answered(), unless
	 * the peer is lost first. */
	void (*answer)(void *context, uint32_t serve, uint32_t peer, uint32_t number,
		const void *at, uint64_t bytes);
};

struct tauti_peers_core_options {
	uint32_t rank, n_ranks;
	const uint32_t *host_of;   /* by rank: 0 .. n_hosts - 1; copied, as is n_asks_of */
	const uint32_t *n_asks_of; /* by rank: under way at most, of all peers */
	uint32_t n_reads;          /* for others, under way at most */
	int64_t answer_within_ns;
	const struct tauti_split *split;
};

/* TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_peers_core_create(
	const struct tauti_peers_core_options *options,
	const struct tauti_peers_calls *calls, void *context,
	struct tauti_peers_core **ret_core, struct taut_error *err);
void tauti_peers_core_destroy(struct tauti_peers_core *core); /* NULL is fine */
/* Records of serves: their numbers are below it. */
uint32_t tauti_peers_core_serves(const struct tauti_peers_core *core);

/* --- what this host asks ------------------------------------------------------------*/
enum tauti_remote_where tauti_peers_core_where(
	const struct tauti_peers_core *core, uint64_t item);
/* False: nobody is to be asked, or too much is under way. Else the peer, and the ask's number
 * below n_asks_of this rank; the bytes it is to be sent with are the caller's. */
TAUT_NODISCARD bool tauti_peers_core_ask(struct tauti_peers_core *core, uint64_t item,
	uint64_t bytes, int64_t now_ns, uint32_t *ret_peer, uint32_t *ret_number);
enum tauti_peers_came {
	TAUTI_PEERS_TAKE,  /* to where it was to go, and then whole() */
	TAUTI_PEERS_PASS,  /* nobody wants it any more: pass it over, and then whole() */
	TAUTI_PEERS_WRONG, /* nonsense */
};
/* An answer's first bytes. */
enum tauti_peers_came tauti_peers_core_came(struct tauti_peers_core *core, uint32_t peer,
	uint32_t number, uint64_t item, uint64_t bytes);
void tauti_peers_core_whole(struct tauti_peers_core *core, uint32_t number);
TAUT_NODISCARD bool tauti_peers_core_refused(
	struct tauti_peers_core *core, uint32_t peer, uint32_t number);
/* Ends what waits for too long; when to come again, or INT64_MAX. */
int64_t tauti_peers_core_tick(struct tauti_peers_core *core, int64_t now_ns);

/* --- what others ask ----------------------------------------------------------------*/
TAUT_NODISCARD bool tauti_peers_core_asked(struct tauti_peers_core *core, uint32_t peer,
	uint32_t number, uint64_t item, uint64_t bytes);
/* The cache was told. */
void tauti_peers_core_read(struct tauti_peers_core *core, uint32_t serve, bool came);
void tauti_peers_core_answered(struct tauti_peers_core *core, uint32_t serve);
uint64_t tauti_peers_core_item(const struct tauti_peers_core *core, uint32_t serve);
/* Looks again for what is parked. True: some of it still is. */
bool tauti_peers_core_again(struct tauti_peers_core *core);
bool tauti_peers_core_parked(const struct tauti_peers_core *core); /* some is */
/* Reads for others. */
uint32_t tauti_peers_core_reading(const struct tauti_peers_core *core);

/* --- who is there -------------------------------------------------------------------*/
/* Its answers that were not sent are over, and so is every ask of it. */
void tauti_peers_core_lost(struct tauti_peers_core *core, uint32_t peer);
bool tauti_peers_core_lives(const struct tauti_peers_core *core, uint32_t peer);
/* From here on what is asked is looked up, and this host asks. */
void tauti_peers_core_open(struct tauti_peers_core *core);
/* Not any more, until it is opened again. All asks end; what was coming is passed over.
 * Reads are still to be told. */
void tauti_peers_core_shut(struct tauti_peers_core *core);

struct tauti_peers_core_counts {
	uint64_t asked, came, came_bytes, late;
	uint64_t served, served_bytes, refused;
};
void tauti_peers_core_counts(const struct tauti_peers_core *core,
	struct tauti_peers_core_counts *ret_counts);

#endif /* TAUT_PEERS_CORE_H */

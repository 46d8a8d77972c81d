/* core.h - the mechanism of a loader: which item is looked for, fetched and prepared
 * next, and which batch is told.
 *
 * It has no clock, no thread, no file and no picture of its own: it is told what
 * happened and says what to do next, through an engine. The same code runs a loader
 * (threads, stores, a cache in shared memory) and a prediction (a virtual clock). One
 * supply a rank (process); several may share a cache, which is their engines' matter.
 *
 *   open -> look -+-> HERE ---------------------> at hand -> prepare -> prepared -+
 *     |           +-> COMING ... again() -> look                                  |
 *   a slot        +-> MISSING -> fetch -> fetched -> at hand                      |
 *     ^                                                                           |
 *     +------- release <- took <- ready: batches in order <- all places of it ----+
 *
 * Rules:
 *
 *   Batches have numbers from 0 on, over the ends of epochs, so that epochs follow each
 *   other without a gap. A batch is open from the moment that a slot is free for it; at
 *   most `depth` are open, ready, or with the user, together. Places that are not
 *   prepared yet wait in the order (batch, place).
 *   Look: places of open batches are looked at in that order, each when a worker or a
 *   fetch would be idle without it, and not before. While as many fetches are under way
 *   as may be, a look claims nothing, so that no process holds what another could fetch
 *   by now; a place that is MISSING then is looked at again when its turn has come.
 *   Fetch: the first place that is MISSING, when fewer than n_fetches are under way and
 *   its bytes find room: those of places from the beginning of their fetch to the end of
 *   their preparation are at most fetch_bytes together, but for one alone that is
 *   larger. What does not fit waits, and nothing behind it is fetched before it, so it
 *   is not overtaken for ever; preparation goes on, and makes the room.
 *   Far: what another host has is fetched by the same rules, with limits and an order of
 *   its own (n_far, far_bytes): neither the storage nor the network is idle because the
 *   other has too much to do.
 *   Prepare: the first place that is at hand, when fewer than n_workers are under way.
 *   So no worker is idle while a place of an open batch is known to be at hand, and a
 *   place that is slow, or COMING, keeps none but its own batch from being complete.
 *   Ready: a batch is told when all its places are prepared or left out, and those
 *   before it were told. This order is never given up: when a place takes longer than
 *   the other depth - 1 batches, the user waits for it.
 *
 * Nothing waits in a circle: a fetch is begun as soon as it is claimed; bytes and workers
 * are given back by what is under way, without any wait for the user or another process;
 * the user alone is waited for when all slots are with him, and another process alone
 * for what it is bringing. If that one dies, tauti_supply_again() has it looked for.
 *
 * Time: let a batch take t_f to be fetched (all fetches working on it), t_p to be
 * prepared, t_c to be consumed, and let f and p be the time of one fetch and of one
 * preparation, all constant; the user gives a batch back when he takes the next. If
 * fetch_bytes hold n_fetches + n_workers items, and depth * max(t_f, t_p, t_c) is at least
 * t_f + t_p + t_c + f + p, then n full batches take at least n * max(t_f, t_p, t_c) and at
 * most t_f + t_p + t_c + f + p more: the pipe is filled once and drained once, whatever
 * the number of epochs. (Of the ways through the graph of what waits for what, each way
 * back, from a slot that is given to batch b + depth, or bytes to a later item, costs no
 * more than the batches that it goes forward at the rate of the slowest.)
 *
 * Faults of an item (its fetch or its preparation failed) are told with the batch, in the
 * order of batches and places, whenever they happened. The first max_skipped are left
 * out: the batch has fewer items, and the last one that is good is moved into each hole,
 * from the first hole on. The next one is the end: batches before it are told as if
 * nothing were, its own and later ones never, and nothing more is begun.
 *
 * Checkpoint: what the user took counts, and what was only ready does not.
 *
 * Owner:   borrows the engine's context. Memory is had at creation only.
 * Threads: calls are made by one thread at a time (the caller's lock). Callbacks are made
 *          from within calls, and may call fetched(), prepared(), took(), release(),
 *          again(), tune(), stop() and whatever only reads. They are not made from within a
 *          callback's own calls: those note what happened, and the outer call goes on.
 * Errors:  TAUT_EINVAL for what is not so (a ticket that is not under way, a slot that is
 *          not with the user); the call changes nothing.
 * Cost:    O(1) amortised a place for each call, plus TAUTI_DEAL_ROUNDS for its item; the
 *          sets of places are words of 64 in levels. About 48 bytes a place of a slot. */
#ifndef TAUT_LOAD_CORE_H
#define TAUT_LOAD_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include <taut/base.h>

#include "load/order.h"

TAUT_BEGIN_DECLS

struct tauti_supply; /* opaque */

enum tauti_look {
	TAUTI_LOOK_HERE,    /* its bytes are at hand, and stay so until prepared */
	TAUTI_LOOK_COMING,  /* another (process) brings it */
	TAUTI_LOOK_MISSING, /* if claimed: fetch() follows at once */
};

struct tauti_supply_options { /* zero is an error unless said otherwise */
	struct tauti_deal deal;
	/* n_items is the deal's. first_position is of first_epoch; later epochs begin
	 * at 0. */
	struct tauti_share share;
	uint64_t first_epoch;
	uint64_t n_epochs;    /* from first_epoch on; 0: without end */
	uint32_t depth;       /* slots; those that the user holds are among them */
	uint32_t n_fetches;   /* under way at most */
	uint64_t fetch_bytes; /* see above; 0: no limit */
	uint32_t n_far;       /* far ones under way at most; only where there are any */
	uint64_t far_bytes;   /* theirs; 0: no limit */
	uint32_t n_workers;   /* preparations under way at most */
	uint64_t max_skipped; /* faulty places left out before it is the end */
};

/* What is taken where a user says nothing, in both worlds. Slots: one with the user, one that
 * is ready when he comes, one that is filled. Bytes: all fetches and workers have one item
 * of the mean size each, as the bound above asks for; 64 MiB at most. */
enum { TAUTI_SUPPLY_DEPTH = 3 };
uint64_t tauti_supply_fetch_bytes(
	double mean_bytes, uint32_t n_fetches, uint32_t n_workers);

struct tauti_supply_batch {
	uint64_t number;   /* from 0, since creation or seek */
	uint64_t epoch;
	uint64_t in_epoch; /* from 0; after a resume in its middle, from there */
	uint32_t slot;     /* < depth */
	uint32_t count;    /* items: places 0 .. count - 1 of the slot */
	bool last;         /* of its epoch */
	uint64_t next_position; /* as look() has it: no later batch asks for a lower
	                           one, but for what PAD repeats */
};

struct tauti_supply_fault {
	uint64_t number, epoch; /* of the batch */
	uint64_t item;
	uint32_t ticket;
	uint32_t place;
	taut_status status; /* as told by fetched() or prepared(); not TAUT_EAGAIN
	                       of the latter */
	bool fatal;         /* the end; else it is left out */
};

/* What the supply asks for. None may wait; bytes and look may not call back. A ticket
 * stands for one place of one batch that is open: place p of batch number b has ticket
 * (b mod depth) * batch + p (batch: of the share), and it is used again only after its
 * batch was told, or after a seek. Arrays by ticket are all that an engine needs. */
struct tauti_supply_engine {
	uint64_t (*bytes)(void *context, uint64_t item); /* raw */
	/* Exactly one HERE, or claimed MISSING, for each place (and one more for each
	 * time that it was prepared as TAUT_EAGAIN): hits and misses can be counted
	 * here. Any number of COMING before it, each followed by again() when that has
	 * changed. Without claim, MISSING leaves all as it is. keep (set for a claimed
	 * MISSING, passed on to fetch): whether the cache keeps it. position: where
	 * the item stands in the order of all epochs, epoch * n_items + its position in
	 * that epoch; UINT64_MAX where that is as much or more. */
	enum tauti_look (*look)(void *context, uint32_t ticket, uint64_t item,
		uint64_t position, bool claim, bool *ret_keep);
	/* Read it; then tauti_supply_fetched(), also at once. If a cache keeps it, it
	 * is to be there before that call (if it failed: no longer claimed). */
	void (*fetch)(void *context, uint32_t ticket, uint64_t item, bool keep);
	/* Make it place `place` of the slot; then tauti_supply_prepared(), also at
	 * once. epoch: for what is drawn (draw.h). */
	void (*prepare)(void *context, uint32_t ticket, uint64_t item,
		uint64_t epoch, uint32_t slot, uint32_t place);
	/* A copy of place `from` is to be place `to`, when it returns. Places of
	 * prepared items; from > to. Only where items are left out. */
	void (*move)(void *context, uint32_t slot, uint32_t from, uint32_t to);
	/* Before ready() of its batch, in the order of places. */
	void (*fault)(void *context, const struct tauti_supply_fault *fault);
	/* The batch is complete: it is the user's to take. */
	void (*ready)(void *context, const struct tauti_supply_batch *batch);
	/* Whether it would be fetched from afar, as it stands now; NULL: nothing is. What
	 * was looked at stays what it was, whatever is said later. */
	bool (*far)(void *context, uint64_t item);
};

/* TAUT_EINVAL: options (one line says which), or an engine that lacks one of its
 * functions. TAUT_ENOMEM. Calls nothing back: tauti_supply_start() does. */
TAUT_NODISCARD taut_status tauti_supply_create(
	const struct tauti_supply_options *options,
	const struct tauti_supply_engine *engine, void *context,
	struct tauti_supply **ret_supply, struct taut_error *reterr);
/* NULL is fine. Calls nothing back; what is under way is the engine's to end. */
void tauti_supply_destroy(struct tauti_supply *supply);

/* Begins, and goes on after a stop. */
void tauti_supply_start(struct tauti_supply *supply);
/* Nothing more is begun and nothing is told until start (from within fault(): after its
 * batch); what is under way is to be told to the supply still. */
void tauti_supply_stop(struct tauti_supply *supply);
/* Fetches and preparations under way: 0 after a stop means that the engine's memory is
 * not used. */
uint32_t tauti_supply_under_way(const struct tauti_supply *supply);
/* Goes to a position of an epoch, stopped. What was open or ready, and was not taken, is
 * forgotten with all tickets; slots with the user stay his. Batches are numbered from 0
 * anew; an end by a fault is over. n_epochs counts from this epoch. TAUT_EAGAIN: not
 * stopped, or something is under way. TAUT_EINVAL: position > n_items. */
TAUT_NODISCARD taut_status tauti_supply_seek(struct tauti_supply *supply,
	uint64_t epoch, uint64_t position, uint64_t n_epochs,
	struct taut_error *reterr);
/* One epoch of that number follows: n_items places of one rank, in batches as ever, of the
 * items that the list has, each any number of times. Borrows it until the next follow or
 * seek, which goes back to the deal. Else as seek; TAUT_EINVAL: no item. */
TAUT_NODISCARD taut_status tauti_supply_follow(struct tauti_supply *supply,
	uint64_t epoch, const uint64_t *list, uint64_t n_items,
	struct taut_error *reterr);
/* Other limits, from now on; none is 0 but fetch_bytes. What is under way beyond a lower
 * one ends as it would. TAUT_EINVAL. */
TAUT_NODISCARD taut_status tauti_supply_tune(struct tauti_supply *supply,
	uint32_t n_fetches, uint64_t fetch_bytes, uint32_t n_workers,
	struct taut_error *reterr);

/* --- what happened -----------------------------------------------------------------*/
/* status other than TAUT_OK: the item is at fault. But prepared as TAUT_EAGAIN: what was
 * at hand is gone, the place is looked at again; no fault, and no other effect. */
TAUT_NODISCARD taut_status tauti_supply_fetched(struct tauti_supply *supply,
	uint32_t ticket, taut_status status, struct taut_error *reterr);
TAUT_NODISCARD taut_status tauti_supply_prepared(struct tauti_supply *supply,
	uint32_t ticket, taut_status status, struct taut_error *reterr);
/* What look() said of an item that is COMING has changed: it is here, or who was to bring
 * it is gone, or did not keep it. It is looked at again. An item that is not waited for:
 * nothing happens. (Items that this supply itself fetches need no such call.) */
void tauti_supply_again(struct tauti_supply *supply, uint64_t item);
/* The user took the batch that was told as ready first and is not taken yet.
 * ret_slot may be NULL. TAUT_EINVAL: there is none. */
TAUT_NODISCARD taut_status tauti_supply_took(struct tauti_supply *supply,
	uint32_t *ret_slot, struct taut_error *reterr);
/* The user is done with the slot of a batch that he took; in any order. */
TAUT_NODISCARD taut_status tauti_supply_release(struct tauti_supply *supply,
	uint32_t slot, struct taut_error *reterr);

/* --- how it stands -----------------------------------------------------------------*/
/* Where to go on when all that was taken is done, on every rank: tauti_supply_seek(), or
 * first_epoch and first_position of another number of ranks and another batch. After the
 * last batch of an epoch: (the next epoch, 0). */
void tauti_supply_state(const struct tauti_supply *supply,
	uint64_t *ret_epoch, uint64_t *ret_position);
/* All batches of n_epochs were told; or the end by a fault. */
bool tauti_supply_over(const struct tauti_supply *supply);
/* Items COMING that are waited for: calls visit for each place, in no order. */
void tauti_supply_awaited(const struct tauti_supply *supply,
	void (*visit)(void *context, uint64_t item), void *context);

struct tauti_supply_counts { /* since creation */
	uint64_t here;    /* looks that found it: hits */
	uint64_t missing; /* claimed: fetches begun */
	uint64_t coming;  /* looks that found it COMING */
	uint64_t fetched_bytes; /* asked for */
	uint64_t prepared;
	uint64_t skipped; /* left out; the fatal one is not among them */
	uint64_t ready, taken; /* batches */
	uint64_t most_fetch_bytes; /* together, see fetch_bytes */
	uint64_t far; /* of missing: from afar */
	uint32_t n_far; /* now, besides n_fetching */
	uint32_t n_fetching, n_preparing, n_awaited, n_open, n_free; /* now */
};
void tauti_supply_counts(const struct tauti_supply *supply,
	struct tauti_supply_counts *ret_counts);

TAUT_END_DECLS
#endif /* TAUT_LOAD_CORE_H */

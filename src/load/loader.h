/* loader.h - what the files of the loader share; see taut/load.h.
 *
 *     loader.c         life: options, memory, threads
 *     loader_engine.c  what the mechanism (core.h) asks for: looks, reads, faults
 *     loader_work.c    threads: preparation, and who waits for other processes' items
 *     loader_user.c    what the job calls
 *     loader_lend.c    batches to frameworks
 *
 * One lock. Under it the mechanism is told what happened; what it asks for then is noted in
 * lists, and done without the lock: reads by whoever told (one at a time, so that stores may
 * end reads inside begin() without recursion), preparations by workers.
 *
 * Life. The struct and the slots are counted: by who made the loader, and by each batch that
 * is held. All else ends with taut_load_destroy(). */
#ifndef TAUT_LOAD_LOADER_H
#define TAUT_LOAD_LOADER_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include <taut/load.h>

#include "base/origin.h"
#include "load/cache.h"
#include "load/core.h"
#include "load/prepare.h"
#include "load/rooms.h"
#include "load/store.h"

enum {
	TAUTI_LOAD_SKIPPED = 1024, /* lines that are kept */
	TAUTI_NAME_BYTES = PATH_MAX + 1024,
};

/* One for each read that may be under way. */
struct tauti_load_read {
	struct tauti_store_read read; /* first */
	struct taut_load *load;
	struct tauti_load_read *next; /* of free ones */
	uint32_t ticket;
	bool kept; /* by the cache, in whose room it is read */
	char path[PATH_MAX];
};

struct tauti_load_ticket {
	uint64_t item, epoch;
	uint32_t slot, place;
	uint32_t next;     /* in the queue of work */
	const void *bytes; /* to prepare, or the cache's room to read into */
	void *room;        /* to be given back; NULL: the cache's */
	struct taut_error *why; /* its fault, until it is told; may be NULL then */
};

struct tauti_load_slot {
	struct taut_batch batch; /* first */
	struct taut_load *load;
	atomic_uint holders;
};

struct tauti_load_skip {
	uint64_t item;
	struct taut_error why;
};

struct tauti_load_worker {
	struct taut_load *load;
	pthread_t thread;
	struct tauti_prepare *prepare;
	char name[TAUTI_NAME_BYTES]; /* of the item, for lines */
};

struct taut_load {
	atomic_uint holders;
	struct tauti_origin origin;
	const struct taut_set *set;
	struct taut_load_options options; /* with defaults put in; prepare: below */
	struct taut_prepare_options prepare;
	struct taut_load_shape shape;
	uint64_t n_batches; /* of a whole epoch */
	struct tauti_share share; /* from an epoch's beginning */
	bool set_is_whole;

	/* Slots. */
	void *memory; /* mapped; also labels and items, after all data */
	size_t memory_bytes;
	struct tauti_load_slot *slots; /* depth */

	/* What works. */
	struct tauti_store store;
	struct tauti_cache *cache; /* NULL: none */
	struct tauti_rooms *rooms;
	struct tauti_load_worker *workers; /* n_started of n_workers */
	uint32_t n_started;
	pthread_t watcher;
	bool has_watcher;

	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t work;  /* for workers */
	pthread_cond_t news;  /* for the job: a batch, the end, a slot */
	pthread_cond_t watch; /* for the watcher: something is awaited */
	pthread_cond_t calm;  /* for seek and destroy: nothing is under way */
	struct tauti_supply *supply;
	bool is_closed, is_pausing, is_beginning;

	struct tauti_load_ticket *tickets; /* depth * batch */
	uint32_t first_work, last_work; /* tickets, by next; TAUT_NONE: none */
	struct tauti_load_read *reads, *free_reads;
	struct tauti_store_read *to_begin, *last_to_begin;
	uint64_t *awaited; /* room for depth * batch items */
	uint32_t n_awaited;

	struct tauti_supply_batch *ready; /* ring of depth */
	uint32_t first_ready, n_ready, n_held;
	uint32_t n_batch_skipped; /* of the batch that is told next */
	bool is_epoch_over; /* to be told by next() */
	bool has_failed;
	struct taut_error failure;

	struct taut_load_counts counts;
	uint32_t n_busy; /* workers */
	bool is_waiting; /* the job */
	int64_t marked_ns; /* of what counts.fetch_ns holds */
	struct tauti_load_skip *skips; /* ring; NULL before the first */
};

/* --- loader_engine.c ----------------------------------------------------------------*/
extern const struct tauti_supply_engine tauti_load_engine;

/* After the supply was told anything: begins the reads that it asked for, and wakes who
 * waits for calm. The lock is held; it is let go meanwhile. */
void tauti_load_settle(struct taut_load *load);
/* Path and key of an item, for a line. */
void tauti_load_name(const struct taut_load *load, uint64_t item, char *into,
	size_t room);
/* Notes why a ticket failed; the lock is held. Without memory only its status is told. */
void tauti_load_blame(
	struct taut_load *load, uint32_t ticket, const struct taut_error *why);
/* A read that was asked for ended, or never began. Not under the lock. */
void tauti_load_read_done(struct tauti_store_read *read, taut_status status);

/* --- loader_work.c ------------------------------------------------------------------*/
TAUT_NODISCARD taut_status tauti_load_start_threads(
	struct taut_load *load, struct taut_error *reterr);
/* is_closed is set, and all were woken. */
void tauti_load_join_threads(struct taut_load *load);
/* Counts until now; before each change of n_busy and is_waiting, under the lock. */
void tauti_load_mark(struct taut_load *load, int64_t now_ns);

/* --- loader.c -----------------------------------------------------------------------*/
/* Gives back what tickets hold; nothing is under way. */
void tauti_load_forget_tickets(struct taut_load *load);
/* The last who leaves frees. */
void tauti_load_let_go(struct taut_load *load);
/* TAUT_EIO in a child by fork(), with the line. */
TAUT_NODISCARD taut_status tauti_load_refuse_copy(
	const struct taut_load *load, struct taut_error *reterr);

#endif /* TAUT_LOAD_LOADER_H */

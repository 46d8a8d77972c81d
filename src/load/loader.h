/* loader.h - what the files of the loader share; see taut/load.h.
 *
 *     loader.c         life: options, memory, threads
 *     loader_engine.c  what the mechanism (core.h) asks for: looks, reads, faults
 *     loader_remote.c  items that other hosts have, and that they ask for
 *     loader_share.c   samples that the host's other loaders prepared alike
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
#include "load/kinds.h"
#include "load/remote.h"
#include "load/rooms.h"
#include "load/stage.h"
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
	bool far;  /* asked of another host */
	struct tauti_remote_ask ask;
	char path[PATH_MAX];
};

/* One for each read for other hosts. */
struct tauti_load_serve {
	struct tauti_store_read read; /* first */
	struct taut_load *load;
	struct tauti_load_serve *next; /* of free ones */
	struct tauti_remote_read *what;
	char path[PATH_MAX];
};

/* What a ticket is to the loaders that share samples. */
enum tauti_load_shared {
	TAUTI_LOAD_UNKNOWN, /* nothing yet, or somebody else makes it */
	TAUTI_LOAD_MADE,    /* here, for all: to be published or dropped */
	TAUTI_LOAD_COPIED,  /* of what another made */
	TAUTI_LOAD_ALONE,   /* here, for this loader */
};

struct tauti_load_ticket {
	uint64_t item, epoch, position;
	uint32_t slot, place;
	uint8_t shared;       /* enum tauti_load_shared */
	uint8_t waits_for;    /* enum tauti_stage_look */
	bool is_under_way;    /* read, or with a worker */
	int64_t waits_from_ns; /* 0: it does not */
	uint32_t next;     /* in the queue of work */
	const void *bytes; /* to prepare, or the cache's room to read into */
	void *room;        /* to be given back; NULL: the cache's */
	struct taut_error *why; /* its fault, until it is told; may be NULL then */
};

/* Between the last sample of a batch and the job. */
enum tauti_load_turn {
	TAUTI_LOAD_DONE,
	TAUTI_LOAD_TO_STAGE, /* samples are there, its stage has to run */
	TAUTI_LOAD_STAGING,
	TAUTI_LOAD_FAULTY, /* why has it */
};

struct tauti_load_slot {
	struct taut_batch batch; /* first */
	struct taut_load *load;
	atomic_uint holders;
	enum tauti_load_turn turn; /* of what is in the ring of ready ones */
	struct taut_error why;
};

struct tauti_load_skip {
	uint64_t item;
	struct taut_error why;
};

struct tauti_load_worker {
	struct taut_load *load;
	pthread_t thread;
	struct tauti_maker *maker;
	void *packed; /* a sample and its length, where these are shared; else NULL */
	char name[TAUTI_NAME_BYTES]; /* of the item, for lines */
};

/* When a seat of the pool was found to be taken by that generation. */
struct tauti_load_neighbour {
	int64_t asked_ns; /* 0: never */
	uint32_t generation;
};

struct tauti_load_share {
	struct tauti_stage stage;
	struct tauti_pool *pool;
	int64_t patience_ns;
	uint64_t cursor; /* this loader needs nothing before it */
	uint64_t n_here; /* looks that found a sample */
	struct tauti_load_neighbour neighbours[TAUTI_POOL_SEATS];
};

struct taut_load {
	atomic_uint holders;
	struct tauti_origin origin;
	const struct taut_set *set;
	struct taut_load_options options; /* with defaults put in; prepare: below */
	struct taut_prepare_options prepare;
	struct taut_prepare_shape shape;
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
	struct tauti_load_share *common; /* NULL: none */
	struct tauti_rooms *rooms;
	struct taut_load_remote *remote; /* attached; NULL: none */
	struct tauti_load_serve *serves; /* TAUTI_REMOTE_READS, where there is one */
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
	uint64_t *list; /* that the supply follows; NULL: none */
	bool is_closed, is_pausing, is_beginning;

	struct tauti_load_ticket *tickets; /* depth * batch */
	uint32_t first_work, last_work; /* tickets, by next; TAUT_NONE: none */
	struct tauti_load_read *reads, *free_reads; /* n_reads and n_remote */
	struct tauti_load_serve *free_serves;
	struct tauti_store_read *to_begin, *last_to_begin;
	uint64_t *awaited; /* room for depth * batch items */
	uint32_t n_awaited;

	struct tauti_supply_batch *ready; /* ring of depth */
	uint32_t first_ready, n_ready, n_held;
	uint32_t n_to_stage, n_staging; /* of the ready ones */
	uint32_t n_batch_skipped; /* of the batch that is told next */
	bool is_epoch_over; /* to be told by next() */
	bool is_unsaid; /* nobody said yet where to begin */
	bool has_failed;
	struct taut_error failure;

	struct taut_load_counts counts;
	uint32_t n_busy; /* workers */
	bool is_waiting; /* the job */
	int64_t marked_ns; /* of what counts.fetch_ns holds */
	struct tauti_load_skip *skips; /* ring; NULL before the first */
};

/* To be begun, and nobody is at it. The lock is held. */
static inline bool tauti_load_has_reads(const struct taut_load *load)
{
	return load->to_begin && !load->is_beginning;
}

/* --- loader_engine.c ----------------------------------------------------------------*/
extern const struct tauti_supply_engine tauti_load_engine;

/* After the supply was told anything: begins the reads that it asked for, and wakes who
 * waits for calm. The lock is held; it is let go meanwhile. */
void tauti_load_settle(struct taut_load *load);
/* The same in a thread of the job, which is to lose no time: a worker begins the reads, one
 * that is idle, or the first that is done with its item. */
void tauti_load_leave(struct taut_load *load);
/* Path and key of an item, for a line. */
void tauti_load_name(const struct taut_load *load, uint64_t item, char *into,
	size_t room);
/* Notes why a ticket failed; the lock is held. Without memory only its status is told. */
void tauti_load_blame(
	struct taut_load *load, uint32_t ticket, const struct taut_error *why);
/* A read that was asked for ended, or never began. Not under the lock. */
void tauti_load_read_done(struct tauti_store_read *read, taut_status status);

/* --- loader_remote.c ----------------------------------------------------------------*/
TAUT_NODISCARD taut_status tauti_load_remote_open(
	struct taut_load *load, struct taut_error *reterr);
/* Nothing is asked or served any more; the store was stopped. */
void tauti_load_remote_close(struct taut_load *load);
enum tauti_remote_where tauti_load_where(const struct taut_load *load, uint64_t item);
/* Not under the lock; the read ends as others do, perhaps by the store. */
void tauti_load_remote_ask(struct taut_load *load, struct tauti_load_read *read);

/* --- loader_work.c ------------------------------------------------------------------*/
TAUT_NODISCARD taut_status tauti_load_start_threads(
	struct taut_load *load, struct taut_error *reterr);
/* is_closed is set, and all were woken. */
void tauti_load_join_threads(struct taut_load *load);
/* Counts until now; before each change of n_busy and is_waiting, under the lock. */
void tauti_load_mark(struct taut_load *load, int64_t now_ns);

/* --- loader_share.c -----------------------------------------------------------------
 * Nothing to do where there is no share. The lock is held, but for open and close, and for
 * what a worker does with a sample. */
/* TAUT_EINVAL: too few bytes; and as tauti_pool_open() and tauti_stage_join(). */
TAUT_NODISCARD taut_status tauti_load_share_open(
	struct taut_load *load, struct taut_error *reterr);
/* Nothing is claimed any more. */
void tauti_load_share_close(struct taut_load *load);
/* The loader goes elsewhere; all tickets were forgotten. */
void tauti_load_share_go(struct taut_load *load, uint64_t epoch, uint64_t position);
/* It goes on: it needs nothing before this position. */
void tauti_load_share_move(struct taut_load *load, uint64_t position);
/* HERE: to be copied; COMING: the watcher tells; MISSING: to be made here. Without claim
 * nothing is promised to others. */
enum tauti_look tauti_load_share_look(
	struct taut_load *load, uint32_t ticket, uint64_t position, bool claim);
/* Without the lock, by the watcher: until others have done something. */
void tauti_load_share_wait(struct taut_load *load, uint32_t seen, int64_t most_ns);
/* Without the lock, by workers. TAUT_EAGAIN: it is gone. */
TAUT_NODISCARD taut_status tauti_load_share_copy(
	struct taut_load *load, const struct tauti_load_ticket *t, void *packed,
	void *sample, int64_t *length);
void tauti_load_share_publish(struct taut_load *load, const struct tauti_load_ticket *t,
	void *packed, const void *sample, const int64_t *length);
/* Of a sample with its length, where it has one. */
uint64_t tauti_load_shared_bytes(const struct taut_load *load);
/* A worker is done with it: counts, and drops what failed. */
void tauti_load_share_done(struct taut_load *load, uint32_t ticket, taut_status status);
/* It will not be made here. */
void tauti_load_share_drop(struct taut_load *load, uint32_t ticket);
/* Nothing more is begun until it goes elsewhere. What is under way may still be published. */
void tauti_load_share_end(struct taut_load *load);

/* --- loader_first.c -----------------------------------------------------------------*/
/* Where the options say as_first: reads the set's first item and takes its type and shape.
 * TAUT_EIO, TAUT_EFORMAT. */
TAUT_NODISCARD taut_status tauti_load_first(
	struct taut_load *load, struct taut_error *reterr);

/* --- loader.c -----------------------------------------------------------------------*/
/* Gives back what tickets hold; nothing is under way. */
void tauti_load_forget_tickets(struct taut_load *load);
/* The last who leaves frees. */
void tauti_load_let_go(struct taut_load *load);
/* TAUT_EIO in a child by fork(), with the line. */
TAUT_NODISCARD taut_status tauti_load_refuse_copy(
	const struct taut_load *load, struct taut_error *reterr);

#endif /* TAUT_LOAD_LOADER_H */

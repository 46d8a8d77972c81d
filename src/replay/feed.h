/* feed.h - what the files of the loader on a virtual clock share; see taut/feed.h.
 *
 *     feed.c        options and results; the loop over events
 *     feed_job.c    what the mechanism (load/core.h) asks for, and the job that consumes
 *     feed_other.c  the mechanisms of other loaders, which ask for the same
 *     feed_share.c  samples that jobs share
 *     feed_host.c   storage, cores, cache
 *
 * Whatever is under way is in one of three queues: reads in a ring, since they end in the
 * order in which they are served; what needs cores in a heap over shared time, which runs
 * at the speed that each of them has; what waits for a time in a heap over the clock. */
#ifndef TAUT_REPLAY_FEED_H
#define TAUT_REPLAY_FEED_H

#include <taut/feed.h>

#include "due.h"
#include "load/cache_words.h"
#include "load/core.h"
#include "load/draw.h"
#include "load/lru.h"
#include "load/stage.h"
#include "load/stores/slow.h"

/* Of clocks, and of one duration. Shared time has 1024 to a ns. */
#define TAUTI_FEED_LAST_NS (INT64_C(1) << 52)
#define TAUTI_FEED_MOST_NS (INT64_C(1) << 50)
enum { TAUTI_FEED_PARTS = 1024 };
/* Cores are counted in such parts of one. */
enum { TAUTI_FEED_CORE = 1 << 20 };

/* --- what is drawn -----------------------------------------------------------------*/
/* scale * (1 + slope * z)^2, z the sum of four uniform numbers as one of mean 0 and
 * deviation 1: mean 1, the given coefficient of variation, never below 0. */
struct tauti_feed_spread {
	double scale, slope;
};

struct tauti_feed_spread tauti_feed_spread(double variation);
double tauti_feed_draw(struct tauti_feed_spread spread, struct tauti_draw draw);

/* --- storage -----------------------------------------------------------------------*/
struct tauti_feed_job;

struct tauti_feed_read {
	struct tauti_feed_job *job;
	uint64_t item, bytes; /* item: of the job's set */
	int64_t end_ns; /* of one that is served */
	uint32_t ticket;
	bool keep;
};

/* Numbers count up; a read's place is its number in a ring. */
struct tauti_feed_store {
	struct tauti_slow slow;
	struct tauti_feed_read *reads; /* n_reads */
	uint32_t n_reads, n_served;    /* n_served 0: no limit */
	uint64_t ended, served, asked;
	bool too_long; /* one would end after TAUTI_FEED_LAST_NS */
};

void tauti_feed_ask(struct tauti_feed_store *store, const struct tauti_feed_read *read,
	int64_t now_ns);
/* INT64_MAX: nothing is read. */
int64_t tauti_feed_read_ends(const struct tauti_feed_store *store);
/* Takes the one that ends first. */
struct tauti_feed_read tauti_feed_read(struct tauti_feed_store *store, int64_t now_ns);

/* --- cores -------------------------------------------------------------------------*/
struct tauti_feed_cores {
	uint64_t cores, wanted; /* in parts; cores 0: no limit */
	double crowd;           /* 1: none */
	uint64_t work, time; /* so many parts of shared time pass in so much time */
	int64_t now_ns, shared; /* shared time at now_ns */
	struct due due;         /* in shared time */
};

void tauti_feed_cores_init(
	struct tauti_feed_cores *cores, const struct taut_feed_host *host);
void tauti_feed_work(struct tauti_feed_cores *cores, int64_t now_ns, uint32_t id,
	double work_ns, uint64_t wants);
int64_t tauti_feed_work_ends(const struct tauti_feed_cores *cores);
/* Takes the one that ends first, which ends by now; it had wanted so much. */
uint32_t tauti_feed_next_work(const struct tauti_feed_cores *cores);
void tauti_feed_work_done(
	struct tauti_feed_cores *cores, int64_t now_ns, uint32_t id, uint64_t wanted);

/* --- cache -------------------------------------------------------------------------*/
struct tauti_feed_cache {
	enum taut_feed_cache kind;
	struct tauti_cache_words words; /* TAUT_FEED_KEEP */
	struct tauti_lru lru;           /* the other two */
	bool *is_coming;                /* theirs: it is being read */
};

TAUT_NODISCARD taut_status tauti_feed_cache_init(struct tauti_feed_cache *cache,
	const struct taut_feed_host *host, uint64_t n_items, struct taut_arena *arena,
	struct taut_error *reterr);
void tauti_feed_cache_fini(struct tauti_feed_cache *cache);
/* As look() of struct tauti_supply_engine. item: among those of all sets. */
enum tauti_look tauti_feed_cache_look(struct tauti_feed_cache *cache, uint32_t item,
	uint64_t bytes, bool claim, bool *ret_keep);
/* A look would find it, and need not claim it. */
bool tauti_feed_cache_has(const struct tauti_feed_cache *cache, uint32_t item);
/* What is kept was read. */
void tauti_feed_cache_came(struct tauti_feed_cache *cache, uint32_t item);

/* --- jobs --------------------------------------------------------------------------*/
enum tauti_feed_phase {
	TAUTI_FEED_NEW,
	TAUTI_FEED_BEGINNING, /* an epoch, of another's loader */
	TAUTI_FEED_WAITING,
	TAUTI_FEED_TAKING,
	TAUTI_FEED_STEPPING,
};

struct tauti_feed_job {
	struct tauti_feed *feed;
	struct taut_feed_job is; /* with the defaults filled in */
	uint32_t id;
	struct tauti_supply *supply; /* one of these two */
	struct tauti_feed_other *other;
	struct tauti_feed_share *sharing; /* NULL: none */
	struct tauti_share share;
	struct tauti_deal deal;
	struct tauti_feed_spread bytes, prepare;
	uint32_t first_item; /* in the cache */
	uint32_t first_task; /* in cores: tickets, then the job's own thread */
	uint32_t n_tickets;
	uint64_t n_batches;  /* of an epoch */
	uint64_t told, taken;
	uint32_t n_preparing, n_reading, slot;
	enum tauti_feed_phase phase;
	int64_t marked_ns;   /* up to where waiting is accounted for */
	struct taut_feed_epoch *epochs;
};

struct tauti_feed {
	struct tauti_feed_store store;
	struct tauti_feed_cores cores;
	struct tauti_feed_cache cache;
	struct due alarms;   /* by job */
	struct due patience; /* by job: it waits for others' samples no longer */
	struct due idle;     /* by task: its worker is done, but not yet free */
	struct tauti_feed_job *jobs;
	uint32_t n_jobs, n_left; /* left: not done */
	bool is_sharing; /* some do */
	uint32_t *job_of; /* by task */
	bool *is_read;    /* by task: it is what a read costs on a core */
	int64_t now_ns;
};

TAUT_NODISCARD taut_status tauti_feed_job_open(
	struct tauti_feed_job *job, struct taut_error *reterr);
void tauti_feed_job_close(struct tauti_feed_job *job);
uint64_t tauti_feed_bytes(const struct tauti_feed_job *job, uint64_t item);
/* How many of its reads may be under way together. */
uint32_t tauti_feed_job_reads(const struct tauti_feed_job *job);
/* What happened now. */
void tauti_feed_came(struct tauti_feed *feed, const struct tauti_feed_read *read);
void tauti_feed_worked(struct tauti_feed *feed, uint32_t task);
void tauti_feed_idled(struct tauti_feed *feed, uint32_t task);
void tauti_feed_rang(struct tauti_feed_job *job);

/* --- other loaders -----------------------------------------------------------------*/
/* They ask for looks, fetches, and preparations as the mechanism does, with the number of a
 * worker as the ticket, through an engine's look, fetch, prepare, and ready (without its
 * batch). */
TAUT_NODISCARD taut_status tauti_feed_other_create(struct tauti_feed_job *job,
	const struct tauti_supply_engine *engine, struct tauti_feed_other **ret_other,
	struct taut_error *reterr);
void tauti_feed_other_destroy(struct tauti_feed_other *other); /* NULL is fine */
/* The next epoch; all batches of the one before were taken. */
void tauti_feed_other_begin(struct tauti_feed_other *other, uint64_t epoch);
/* The job begins to wait for a batch; it has taken one. */
void tauti_feed_other_wants(struct tauti_feed_other *other);
void tauti_feed_other_took(struct tauti_feed_other *other);
void tauti_feed_other_fetched(struct tauti_feed_other *other, uint32_t worker);
void tauti_feed_other_prepared(struct tauti_feed_other *other, uint32_t worker);
/* As tauti_supply_again(). */
void tauti_feed_other_again(struct tauti_feed_other *other, uint64_t item);

/* --- samples that are shared -------------------------------------------------------*/
/* The job's tickets are known. What was made is closed also after a failure. */
TAUT_NODISCARD taut_status tauti_feed_share_open(
	struct tauti_feed_job *job, struct taut_error *reterr);
void tauti_feed_share_close(struct tauti_feed_share *share); /* NULL is fine */
/* The job begins, and ends. */
TAUT_NODISCARD taut_status tauti_feed_share_join(
	struct tauti_feed_share *share, struct taut_error *reterr);
void tauti_feed_share_leave(struct tauti_feed_share *share);
/* As tauti_load_share_look(): MISSING is to be looked for further, and made. */
enum tauti_look tauti_feed_share_look(struct tauti_feed_share *share, uint32_t ticket,
	uint64_t position, bool claim);
bool tauti_feed_share_is_copy(const struct tauti_feed_share *share, uint32_t ticket);
/* It was made, or copied; TAUT_EAGAIN: what was copied had gone. */
TAUT_NODISCARD taut_status tauti_feed_share_made(
	struct tauti_feed_share *share, uint32_t ticket);
void tauti_feed_share_move(struct tauti_feed_share *share, uint64_t position);
/* Others did what may change what was told; look again then. */
bool tauti_feed_share_has_news(const struct tauti_feed_share *share);
void tauti_feed_share_again(struct tauti_feed_share *share);

#endif /* TAUT_REPLAY_FEED_H */

/* feed.h - what the files of the loader on a virtual clock share; see taut/feed.h.
 *
 *     feed.c        options and results; the loop over events
 *     feed_job.c    what the mechanism (load/core.h) asks for, and the job that consumes
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
	int64_t now_ns, shared; /* shared time at now_ns */
	struct due due;         /* in shared time */
};

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
/* What is kept was read. */
void tauti_feed_cache_came(struct tauti_feed_cache *cache, uint32_t item);

/* --- jobs --------------------------------------------------------------------------*/
struct tauti_feed_job {
	struct tauti_feed *feed;
	struct taut_feed_job is; /* with the defaults filled in */
	uint32_t id;
	struct tauti_supply *supply;
	struct tauti_feed_spread bytes, prepare;
	uint32_t first_item; /* in the cache */
	uint32_t first_task; /* in cores: tickets, then the step */
	uint32_t n_tickets;
	uint64_t n_batches;  /* of an epoch */
	uint64_t told, taken;
	uint32_t n_preparing, slot;
	bool is_begun, is_waiting;
	int64_t marked_ns;   /* up to where waiting is accounted for */
	struct taut_feed_epoch *epochs;
};

struct tauti_feed {
	struct tauti_feed_store store;
	struct tauti_feed_cores cores;
	struct tauti_feed_cache cache;
	struct due alarms; /* by job */
	struct tauti_feed_job *jobs;
	uint32_t n_jobs, n_left; /* left: not done */
	uint32_t *job_of; /* by task */
	int64_t now_ns;
};

TAUT_NODISCARD taut_status tauti_feed_job_open(
	struct tauti_feed_job *job, struct taut_error *reterr);
void tauti_feed_job_close(struct tauti_feed_job *job);
uint64_t tauti_feed_bytes(const struct tauti_feed_job *job, uint64_t item);
/* What happened now. */
void tauti_feed_came(struct tauti_feed *feed, const struct tauti_feed_read *read);
void tauti_feed_worked(struct tauti_feed *feed, uint32_t task);
void tauti_feed_rang(struct tauti_feed_job *job);

#endif /* TAUT_REPLAY_FEED_H */

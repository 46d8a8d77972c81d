/* taut/feed.h - a loader on a virtual clock: how long epochs take, and what the job waits
 * for, with another storage, cache, number of cores, or with other jobs beside it.
 *
 * What is looked for, fetched and prepared when is decided by the code that decides it in
 * taut/load.h, or by a model of somebody else's loader (enum taut_feed_form); only storage,
 * cores and the job itself are made up:
 *
 *   storage   Reads are served in the order in which they were asked for, n_served at a
 *             time. Their bytes come one after the other at rate_bytes_s, and each read
 *             ends latency_ns after its last byte; the latencies of reads that are served
 *             together overlap.
 *   cache     One, for the items of all sets. What is in it takes no time.
 *   cores     Preparations, steps, and what reading and handing over cost share them evenly:
 *             if together they want more than there are, each goes at cores / wanted of its
 *             speed. None is faster on more than it wants: one core, or step_cores for a
 *             step. The more cores are at work the slower is each, if crowd says so.
 *   job       Takes a batch, which costs take_ns, computes for step_ns, gives it back, and
 *             takes the next, which it waits for if it is not ready.
 *
 * The same input gives the same answer. Events of the same time: reads that end, then
 * preparations and steps, then what only waits; within each by number.
 *
 * Owner:   borrows what it is given during the call.
 * Threads: any.
 * Errors:  TAUT_EINVAL, one line that says what is outside its limits, or that more than
 *          52 days went by; TAUT_ENOMEM.
 * Units:   bytes, nanoseconds, cores.
 * Cost:    about 1 us an item and epoch; 20 to 40 bytes an item where there is a cache, and
 *          some 60 a place of a job's batches. */
#ifndef TAUT_FEED_H
#define TAUT_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <taut/load.h>

TAUT_BEGIN_DECLS

enum taut_feed_cache {
	TAUT_FEED_NONE,
	TAUT_FEED_KEEP,  /* keeps what it has room for, for good: cache_bytes of
	                    taut/load.h. Items in rooms of whole 64 bytes */
	TAUT_FEED_LRU,   /* what was used last */
	TAUT_FEED_LINUX, /* as the system's page cache, in whole items */
};

struct taut_feed_host {
	uint32_t size; /* sizeof *this, or 0: as of this header */
	uint64_t rate_bytes_s; /* 0: no limit */
	int64_t latency_ns;
	uint32_t n_served; /* reads at a time; 0: no limit */
	double cores;      /* 0: no limit; at most 65536 */
	enum taut_feed_cache cache;
	uint64_t cache_bytes;
	/* How fast a core is while all of them work, of its speed while it works alone, as
	 * they have memory and perhaps more in common; between, in proportion to those at
	 * work. 0: as fast. Above 0, at most 1; only where cores have a limit. */
	double crowd;
	/* Storage that was asked for less than its rate gives up to so much at once, as disks
	 * do whose rate is a limit (a bucket of tokens). */
	uint64_t burst_bytes;
};

/* Items. Jobs that name the same struct read, and share in the cache, the same. */
struct taut_feed_set {
	uint64_t n_items;      /* 1 .. 2^28 - 2 */
	const uint64_t *bytes; /* of each, at most 2^50; or NULL, and then they are drawn: */
	double mean_bytes;     /* at most 2^50 */
	double spread; /* coefficient of variation, 0 .. 1; the square of a bell */
	uint64_t seed;
};

/* Whose loader it is. Of the others, no worker does two things at a time: it reads an item
 * and then prepares it. Up to depth batches are begun and not taken; they come in their order.
 * Nothing of an epoch is begun before the job is through with the one before. n_workers 0:
 * the job makes each batch itself, when it takes it. */
enum taut_feed_form {
	TAUT_FEED_OURS, /* taut/load.h: load/core.h itself */
	/* PyTorch's DataLoader: batch i of an epoch is made by worker i mod n_workers. */
	TAUT_FEED_BY_BATCH,
	/* tf.data's map with num_parallel_calls: each worker takes the next item. At most
	 * n_workers are begun that are not done, or behind one that is not. */
	TAUT_FEED_BY_ITEM,
};

/* One process: a rank of a job. Zeros are the defaults of struct taut_load_options. */
struct taut_feed_job {
	uint32_t size; /* sizeof *this, or 0: as of this header */
	const struct taut_feed_set *set;
	uint32_t batch, n_ranks, rank;
	uint64_t seed;
	bool shuffle;
	enum taut_load_tail tail;
	uint32_t n_workers; /* 0: one for each of the host's cores, 1 if they have no limit */
	uint32_t depth;     /* batches; of BY_BATCH 0: two for each worker */
	uint32_t n_reads;   /* this and the next of TAUT_FEED_OURS alone */
	uint64_t read_bytes; /* UINT64_MAX: no limit */
	/* An item takes prepare_ns + prepare_ns_byte * its bytes on one core, all of it
	 * times a number drawn for (seed, epoch, item) of mean 1. */
	double prepare_ns, prepare_ns_byte; /* together at most 2^50 ns for an item */
	double prepare_spread;              /* coefficient of variation, 0 .. 1 */
	int64_t step_ns;   /* a batch, if it has the cores that it wants */
	double step_cores; /* 0: it computes elsewhere; at most 65536 */
	uint64_t epochs;   /* at least 1 */
	int64_t start_ns;  /* the loader is made */
	enum taut_feed_form form;
	/* What reading an item from the storage costs on one core, beside preparing it: at
	 * most 2^50 ns together. What reading it from a cache costs is preparation. */
	double read_cpu_ns, read_cpu_ns_byte;
	/* Handing over a batch that is ready, by the job's own thread, on one core; it counts
	 * as waiting. */
	int64_t take_ns;
	/* Of the others' loaders: an epoch begins with this, before anything is asked for
	 * (workers are made); it counts as waiting. */
	int64_t begin_ns;
	/* As share_bytes of taut/load.h: jobs of this host with the same set, seed, shuffle,
	 * and preparation prepare each item once between them, and the others copy it for
	 * copy_ns on a core. What is shared holds share_items items; 0: not shared. Of
	 * TAUT_FEED_OURS alone. */
	uint64_t share_items;
	double copy_ns;
	/* And then a worker has so long to do with an item, but not on a core: it sleeps, or
	 * asks a network. At most 2^50 ns. */
	int64_t idle_ns;
};

struct taut_feed_epoch { /* of one job */
	int64_t begin_ns, end_ns; /* from the end of the epoch before to that of its last
	                             step */
	int64_t waited_ns;  /* by the job, for its batches; take_ns is part of it */
	int64_t fetch_ns;   /* of that, while nothing of this job was prepared or taken; with
	                       another's loader, by how many of its workers wait for reads */
	int64_t prepare_ns; /* of that, all else: waited_ns - fetch_ns */
	uint64_t batches;
	uint64_t hits;       /* items that were found in the cache */
	uint64_t reads, read_bytes;
	uint64_t prepared;
	uint64_t copied; /* and not prepared: another job had it */
};

/* ret_epochs: n_epochs of them, the first job's, then the next one's; n_epochs is the sum
 * of the jobs' epochs. What is read or prepared ahead counts for the epoch that it is for.
 * Undefined on failure. */
TAUT_API TAUT_NODISCARD taut_status taut_feed_play(const struct taut_feed_host *host,
	const struct taut_feed_job *jobs, size_t n_jobs,
	struct taut_feed_epoch *ret_epochs, size_t n_epochs, struct taut_error *reterr);

TAUT_END_DECLS
#endif /* TAUT_FEED_H */

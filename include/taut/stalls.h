/* taut/stalls.h - how long a job waits for its data, and for what: measured by differences,
 * and what other hardware or another loader's settings would give.
 *
 * DS-Analyzer's technique (Mohan et al., VLDB 2021): the same job with its batches in place,
 * with its items in the page cache, and with its items in storage. `taut stalls` has one run of
 * the job go through these phases by turns, round after round, and every rank write down what
 * it saw; a round compares what ran within seconds of each other.
 *
 *     place  -> G   the job's own rate
 *     cached -> min(G, P)      what is missing to G: preparation stall
 *     cold   -> min(G, P, F)   what is missing to cached: fetch stall
 *
 *   open(folder) -> result       the rates, the stalls, with 95 % intervals over the rounds
 *   probe(folder) -> storage     of what the job reads: read again, cold, by 1 to 32 threads
 *   model(stalls, storage)       what taut/feed.h needs of both
 *   predict(model, change)       an epoch after a change, played on the virtual clock
 *   advise(model)                which change gives most
 *
 * Owner:   what is opened owns all that it gives until it is closed.
 * Threads: any, one at a time for one struct taut_stalls. probe() makes threads and joins
 *          them.
 * Errors:  TAUT_EIO: folder, file; TAUT_EFORMAT: file and line of what a rank wrote;
 *          TAUT_EINVAL; TAUT_ENOMEM; TAUT_EMATCH: ranks that contradict each other.
 * Units:   samples a second over all ranks, seconds, nanoseconds, bytes; shares 0 .. 1. */
#ifndef TAUT_STALLS_H
#define TAUT_STALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <taut/feed.h>

TAUT_BEGIN_DECLS

struct taut_stalls; /* opaque: what the ranks measured */

/* What the rank files that are in the folder hold; and, where there are FOLDER/run-2,
 * FOLDER/run-3 and so on, of these further runs of the same job. TAUT_EFORMAT also where no phase of all ranks has a step: the line says how far they came. */
TAUT_API TAUT_NODISCARD taut_status taut_stalls_open(const char *folder,
	struct taut_stalls **ret_stalls, struct taut_error *reterr);
TAUT_API void taut_stalls_close(struct taut_stalls *stalls); /* NULL is fine */

enum taut_stalls_phase {
	TAUT_STALLS_PLACE, TAUT_STALLS_HALF, TAUT_STALLS_CACHED,
	TAUT_STALLS_PART, TAUT_STALLS_COLD,
	TAUT_STALLS_PHASES,
};

/* A median over the rounds, and a 95 % interval: Student's t over the rounds, of rates on
 * logarithms, so that it holds for as few as 3; widened to hold the median. n_rounds 0: not
 * measured, and all is 0; 1: low and high are the value, for nothing is known of them.
 * Of several runs: the mean of their medians, and an interval over the runs. */
struct taut_stalls_value {
	double value, low, high;
	uint32_t n_rounds;
};

/* Minor page faults: pages that a process had to ask the system for, mostly memory that its
 * malloc had given back before. Below 0: not known. */
struct taut_stalls_faults {
	double fault_ns;   /* what one takes, by fresh memory; 0: not known */
	double step;       /* of a rank's own process, a step with its batch in place */
	double step_share; /* of the processor time of that step */
	double item;       /* of workers that are processes, an item in the page cache */
	double item_share; /* of the processor time of these workers */
};

struct taut_stalls_result {
	uint32_t n_ranks, n_hosts, n_workers; /* workers of one rank */
	uint32_t n_without;      /* ranks beside these that have no loader of their own */
	uint32_t n_runs;         /* of the job, one after another */
	bool are_unlike;         /* ranks have batches or sets of unlike sizes: means */
	uint32_t batch, depth;
	int64_t n_items;         /* of an epoch of all ranks, or of the set; -1: unknown */
	const char *loader;      /* as in the rank files */
	double others;           /* batches of other loaders in a step, of each rank */
	bool on_device;
	struct taut_stalls_value rate[TAUT_STALLS_PHASES]; /* samples/s, all ranks */
	/* Shares of the time of a step with items in storage (the first epoch). */
	struct taut_stalls_value prepare_stall, fetch_stall;
	/* The same of a step with items in the page cache (later epochs where they fit). */
	struct taut_stalls_value cached_stall;
	double mean_bytes, spread_bytes; /* of an item: read, and its variation as a
	                                    share; 0: not seen */
	double cold_share;  /* of the bytes read while cold, those that came from storage;
	                       below 0: the system does not tell, or nothing was read.
	                       Far from 1: not cold */
	double cached_share; /* of the bytes while cached. Far from 0: not cached */
	struct taut_stalls_faults faults;
};
TAUT_API void taut_stalls_result(
	const struct taut_stalls *stalls, struct taut_stalls_result *ret_result);

/* --- cold -------------------------------------------------------------------------------*/
/* Tells the system to forget the files in FOLDER/files, or the pieces of them that are cold
 * at cold_ppm (as src/stalls/control.h has it), also of files that somebody has open: for
 * those the preloaded object never sees again. What the system keeps anyway (mapped, or of
 * a file system in memory) stays. Counted in FOLDER/control. Files that are gone are passed
 * over; so is a FOLDER without such a list. TAUT_EIO, TAUT_EINVAL: above 1000000. */
TAUT_API TAUT_NODISCARD taut_status taut_stalls_forget(
	const char *folder, uint32_t cold_ppm, struct taut_error *reterr);

/* --- storage ----------------------------------------------------------------------------*/
struct taut_stalls_storage {
	double rate_bytes_s; /* with as many reads at a time as it likes best */
	int64_t latency_ns;  /* what a read takes beside its bytes */
	uint32_t n_served;   /* reads that it works on at a time */
	uint64_t burst_bytes; /* that it gives at once after it was idle; 0: none */
	double error;        /* of this model at the points measured, mean share */
	uint32_t n_points;
	struct taut_stalls_point {
		uint32_t n_threads;
		double bytes_s;
		double reads_s;
	} points[8];
};
struct taut_stalls_probe_options { /* zero is every field's default */
	uint32_t size;    /* sizeof *this, or 0 */
	int64_t limit_ns; /* for all of it; 0: 10 s */
	uint64_t seed;    /* which files */
};
/* Reads files that the job has read (FOLDER/files), after the system was told to forget
 * them. TAUT_EAGAIN: there are too few of them, or they do not become cold. */
TAUT_API TAUT_NODISCARD taut_status taut_stalls_probe(const char *folder,
	const struct taut_stalls_probe_options *options,
	struct taut_stalls_storage *ret_storage, struct taut_error *reterr);

/* --- predictions ------------------------------------------------------------------------*/
/* One host of the job, as taut/feed.h has it. Filled by taut_stalls_model(); a user may write
 * to all of it. set.bytes borrows what was measured.
 *
 * What the ranks' files do not say is taken to be so: items come shuffled; where they do not
 * say how many there are, there are those that were seen; ranks that each use more cores than
 * they may together have cores of their own; what an item costs is as spread as its size. */
struct taut_stalls_model {
	struct taut_feed_host host;
	struct taut_feed_set set;
	struct taut_feed_job job; /* of each rank; its set, rank are set when played */
	uint32_t n_ranks_host;    /* ranks on this host */
	int64_t half_step_ns;     /* a step with half the batch; 0: not measured */
	double error[3]; /* of the model where it was measured, time of a step played over
	                    measured, less 1: cached, cold, part. The last was not used
	                    to make it. 0 also where it was not measured */
};
/* storage NULL: as fast as it was for the job, if that waited for it; else without limit.
 * page_cache_bytes: memory that the system has for it; 0: none. TAUT_EINVAL: no steps in place
 * or no cached ones were measured. */
TAUT_API TAUT_NODISCARD taut_status taut_stalls_model(const struct taut_stalls *stalls,
	const struct taut_stalls_storage *storage, uint64_t page_cache_bytes,
	struct taut_stalls_model *ret_model, struct taut_error *reterr);

struct taut_stalls_change { /* zero: as it is */
	uint32_t size;          /* sizeof *this, or 0 */
	double rate;            /* storage: so many times as fast */
	double cores;           /* of the host */
	uint32_t workers;       /* of each rank; what is made ahead by worker grows too */
	bool has_cache;         /* then: */
	enum taut_feed_cache cache;
	uint64_t cache_bytes;
	uint32_t batch;         /* TAUT_EINVAL without half_step_ns */
	double device;          /* the job's own steps: so many times as fast */
	uint32_t jobs;          /* like it on the host, at once; 0: 1 */
	bool share;             /* they prepare each item once (share_bytes); by Taut's
	                           loader */
	bool taut;              /* by Taut's loader, with as many workers, or one for each
	                           core where there were none */
};
struct taut_stalls_epoch { /* of the slowest rank; of several jobs the mean */
	int64_t first_ns, later_ns; /* the first epoch, and one when the cache is as it stays */
	int64_t fetch_ns, prepare_ns; /* of the later one: waits of a rank; handing over is
	                                 part of the second */
	uint64_t read_bytes;        /* by the later one, of the host */
};
/* Sets of more than some 25,000 items are scaled down, with the cache: src/stalls/play.h says
 * how, and that it is some parts of a thousand off. TAUT_EINVAL: a change outside its limits,
 * or those of taut/feed.h. */
TAUT_API TAUT_NODISCARD taut_status taut_stalls_predict(
	const struct taut_stalls_model *model, const struct taut_stalls_change *change,
	struct taut_stalls_epoch *ret_epoch, struct taut_error *reterr);

/* What would help most. Each is a change and what it gives, best first; none that gives less
 * than 1 %, or no more than less of the same. Last what only helps several jobs. */
struct taut_stalls_advice {
	struct taut_stalls_change change;
	struct taut_stalls_epoch epoch;
	double gain; /* time of a later epoch now / after it; of several jobs: theirs now */
	char what[96];
};
enum { TAUT_STALLS_ADVICE = 12 };
/* The smallest with which a step, in the middle of a later epoch, takes at most 1 % longer than
 * with as much as one likes: each was played, and so was what is just below. */
struct taut_stalls_needs {
	double cache_share;  /* of the set, kept for good; to 1/256. 0: none is needed */
	double rate;         /* times today's storage, with today's cache; to 2 %. 0: it is
	                        not known */
	/* With all items in memory. 0: none up to 1024, or 64, is enough */
	uint32_t cores;      /* of the host, with a worker for each that steps leave */
	uint32_t workers;    /* of a rank, with today's cores */
};
TAUT_API TAUT_NODISCARD taut_status taut_stalls_advise(
	const struct taut_stalls_model *model,
	struct taut_stalls_advice ret_advice[TAUT_STALLS_ADVICE], size_t *ret_n,
	struct taut_stalls_needs *ret_needs, struct taut_error *reterr);

TAUT_END_DECLS
#endif /* TAUT_STALLS_H */

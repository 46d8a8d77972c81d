/* stalls.h - what the files of this room share; see taut/stalls.h.
 *
 *     measured.c  a rank's file         listed.c  what the job opened
 *     stalls.c    ranks together: sums of phases, rates and stalls of rounds
 *     interval.c  a median and its interval
 *     model.c     what taut/feed.h needs; calibrate.c what of it is found by playing
 *     play.c      a model on the virtual clock, the set scaled down
 *     predict.c   after a change; advise.c, needs.c which change */
#ifndef TAUT_STALLS_STALLS_H
#define TAUT_STALLS_STALLS_H

#include <taut/stalls.h>

#include "stalls/listed.h"
#include "stalls/measured.h"

struct taut_stalls {
	struct tauti_measured *ranks; /* n_ranks by number, run by run: n_runs times */
	uint32_t n_ranks, n_hosts; /* ranks: with a loader of their own */
	uint32_t n_runs;   /* of the job: FOLDER, and FOLDER/run-2 and so on */
	uint32_t n_rounds; /* of a run, of that which has most; at least 1 */
	struct tauti_listed listed;
	uint64_t *sizes; /* of what is listed and not empty; n_sizes */
	size_t n_sizes;
	double spread;   /* of sizes: coefficient of variation */
};

/* Takes over what it is given, also if it fails: n_ranks * n_runs ranks, from malloc, and
 * what those of the first run listed. Checks that they belong together. */
TAUT_NODISCARD taut_status tauti_stalls_make(struct tauti_measured *ranks, uint32_t n_ranks,
	uint32_t n_runs, struct tauti_listed *listed, struct taut_stalls **ret_stalls,
	struct taut_error *reterr);
void tauti_stalls_end_ranks(struct tauti_measured *ranks, size_t n);

/* --- one phase of one round, all ranks together ---------------------------------------*/
struct tauti_stalls_sum {
	double steps;      /* of each rank */
	double samples;    /* of all, and so are all below but */
	double step_ns;    /* wall time of a step of the slowest rank */
	double wait_ns;    /* of a step: the mean of the ranks */
	double cpu_ns, rchar;
	double own_cpu_ns; /* below 0: a rank does not tell; and so are the next two */
	double read_bytes;
	double own_ns;     /* of a step, without waiting: of the rank that waited longest */
	double own_faults, worker_faults; /* below 0: a rank does not tell */
	double opened, opened_bytes;
	double others; /* batches of other loaders, within the steps */
};
/* round: below n_rounds * n_runs, those of the first run first. False: not all ranks have
 * that phase. */
bool tauti_stalls_sum(const struct taut_stalls *stalls, uint32_t round,
	enum taut_stalls_phase phase, struct tauti_stalls_sum *ret_sum);

/* What of() makes of the sums (by phase) of a round in which each of `phases`, a set of bits,
 * is there: of each run the median over its rounds, and of these the mean; or `otherwise`.
 * of() gives no number (NAN) where it cannot be told. */
typedef double (*tauti_stalls_figure)(
	const struct tauti_stalls_sum *sums, const void *context);
double tauti_stalls_usual(const struct taut_stalls *stalls, unsigned phases,
	tauti_stalls_figure of, const void *context, double otherwise);
/* A file an item, as far as opens of files tell. */
bool tauti_stalls_by_file(const struct taut_stalls *stalls);
/* Ranks may have batches of their own sizes, as of samples that are long, and shards of their
 * own: the mean, of all runs. Items are those of an epoch of all ranks, where they say it;
 * else of the set; -1: a rank does not say. */
uint32_t tauti_stalls_batch(const struct taut_stalls *stalls);
int64_t tauti_stalls_items(const struct taut_stalls *stalls);
/* Read for an item. */
double tauti_stalls_item_bytes(const struct taut_stalls *stalls);
/* Below 0: the system does not tell. */
double tauti_stalls_from_storage(
	const struct taut_stalls *stalls, enum taut_stalls_phase phase);

/* --- intervals ------------------------------------------------------------------------
 * The median of n >= 1 values, and where their mean lies with 95 %: Student's t, on
 * logarithms if they are rates (all above 0). It is widened to hold the median; of one
 * value it is that value. Sorts the values. */
struct taut_stalls_value tauti_stalls_interval(double *values, uint32_t n, bool are_rates);
/* The mean (of rates: of their logarithms) of one value of each run in place of the median:
 * what a run happens to be is as likely to be anything between two others. Also n_rounds
 * is n. */
struct taut_stalls_value tauti_stalls_interval_of_runs(
	double *values, uint32_t n, bool are_rates);
double tauti_stalls_middle(double *values, size_t n); /* n >= 1; sorts them */

#endif /* TAUT_STALLS_STALLS_H */

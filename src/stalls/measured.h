/* measured.h - what the ranks of a job wrote down: FOLDER/rank-R.stalls, lines of text.
 *
 *     taut-stalls 1
 *     rank 0 of 2
 *     host NAME
 *     loader torch|tf.data|mxnet|taut
 *     unit batch|item        what one worker makes, from read to done, before the next
 *     workers N              processes or threads that prepare; 0: the job itself does
 *     depth N                batches made ahead, of all workers together
 *     batch N                samples of a batch of this rank
 *     items N                of the whole set, of all ranks; -1: it does not say
 *     epoch N                items that this rank alone takes in an epoch, which may be fewer
 *                            than its set has, or more; may be left out
 *     cores N                that this rank and its workers may use at once, also by the limits
 *                            of its control groups; may be left out
 *     device 0|1             1: steps are computed on a device, not on this host's cores
 *     fault_ns N             what a page fault takes that fresh memory costs; 0: it cannot be
 *                            told. May be left out
 *     phase ROUND NAME STEPS SAMPLES WALL_NS WAIT_NS CPU_NS RCHAR READ_BYTES OPENED
 *         OPENED_BYTES [OWN_CPU_NS]      (one line)
 *     step ROUND NAME WALL_NS WAIT_NS TAKE_NS    (behind their phase, in their order)
 *     faults ROUND NAME OWN WORKERS              (behind their phase; may be left out)
 *     others ROUND NAME BATCHES                  (behind their phase; left out: 0)
 *     start ROUND NAME NS                        (may be left out)
 *     ...
 *     end
 *
 * A file without `end` is of a rank that did not come to it; what it has counts.
 *
 * NAME of a phase, and what it is:
 *     place    the same batches again and again, that were there: no loader. The job's own
 *              rate
 *     half     as place, with the first half of each batch: how a step grows with the batch
 *     cold     of items that come from storage
 *     part     of items of which half (cold_ppm 500000) come from storage
 *     cached   of the same items, as soon as they were read: from the page cache
 *
 * A phase is STEPS steps in a row after its loader came to its pace; the batches that the
 * loader makes ahead when it ends are no part of it. Sums over them:
 *     WALL_NS   from the return of the first batch to that of the one after the last (with
 *               a device: when it had done all that was asked of it, at both ends)
 *     WAIT_NS   the job in the loader's next; 0 and no steps behind it: that cannot be told
 *     CPU_NS    of this rank's process and its workers, all threads
 *     RCHAR     bytes that they got from read and its like; READ_BYTES: those that came
 *               from storage (/proc/PID/io; -1: it cannot be read)
 *     OPENED, OPENED_BYTES   files opened for reading and their sizes (control.h), of all
 *               ranks of the host
 *     OWN_CPU_NS   of CPU_NS, what this rank's process took, where workers are processes of
 *               their own; left out where they are not, or it cannot be told
 * Faults: pages that the system gave without reading any (minor page faults), to this rank's
 * process, and to its workers where they are processes of their own.
 * Others: batches that other loaders of the job gave within these steps, which are waited for
 * as a part of the job's own steps.
 * A start: what making the loader of this phase took the job, before anything was asked of
 * it (workers are made).
 * A step: WALL_NS of it; of that WAIT_NS in the loader's next; TAKE_NS: of that, while a
 * batch was there already (-1: it cannot be told).
 *
 * A last line without its end is of a rank that was killed, and does not count.
 *
 * Owner:   whoever holds a struct tauti_measured ends it.
 * Threads: any, one at a time for one struct.
 * Errors:  TAUT_EFORMAT with file, line and what was expected; TAUT_EIO; TAUT_ENOMEM. */
#ifndef TAUT_STALLS_MEASURED_H
#define TAUT_STALLS_MEASURED_H

#include <taut/stalls.h>

#include "base/vec.h"

enum {
	TAUTI_MEASURED_ROUNDS = 1000,
	TAUTI_MEASURED_RUNS = 100,
	TAUTI_MEASURED_RANKS = 1 << 16,
	TAUTI_MEASURED_HOST = 256,
};

struct tauti_measured_step {
	int64_t wall_ns, wait_ns;
	int64_t take_ns; /* -1: it cannot be told */
};

struct tauti_measured_phase {
	enum taut_stalls_phase phase;
	uint32_t round;
	int64_t steps, samples, wall_ns, wait_ns, cpu_ns, rchar;
	int64_t read_bytes; /* -1: it cannot be read */
	int64_t opened, opened_bytes;
	int64_t own_cpu_ns; /* -1: it is not there */
	int64_t own_faults, worker_faults; /* -1: they are not there */
	int64_t others; /* 0: they are not there */
	size_t first_step, n_steps; /* n_steps: lines, at most `steps` */
};

struct tauti_measured_start {
	enum taut_stalls_phase phase;
	uint32_t round;
	int64_t ns;
};

struct tauti_measured {
	uint32_t rank, n_ranks;
	char host[TAUTI_MEASURED_HOST];
	const char *loader; /* static */
	bool by_item, on_device, has_ended;
	uint32_t workers, depth, batch;
	uint32_t cores; /* 0: it does not say */
	int64_t items;  /* -1: it does not say */
	int64_t epoch;  /* 0: it does not say */
	int64_t fault_ns; /* 0: it does not say */
	TAUT_VEC(struct tauti_measured_phase) phases;
	TAUT_VEC(struct tauti_measured_step) steps;
	TAUT_VEC(struct tauti_measured_start) starts;
};

/* name: of the file, for errors. *measured is to be ended whatever comes of it. */
TAUT_NODISCARD taut_status tauti_measured_parse(const char *text, size_t bytes,
	const char *name, struct tauti_measured *measured, struct taut_error *reterr);
TAUT_NODISCARD taut_status tauti_measured_read(
	const char *path, struct tauti_measured *measured, struct taut_error *reterr);
void tauti_measured_fini(struct tauti_measured *measured);

/* NULL: this rank has no such phase, or no step of it. */
const struct tauti_measured_phase *tauti_measured_find(
	const struct tauti_measured *measured, uint32_t round,
	enum taut_stalls_phase phase);
const char *tauti_measured_phase_name(enum taut_stalls_phase phase);

#endif /* TAUT_STALLS_MEASURED_H */

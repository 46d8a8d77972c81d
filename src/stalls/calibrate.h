/* calibrate.h - what of a model is found by playing it: the numbers that no counter tells.
 *
 * Cached (no storage): if the play is too fast, and a step is itself slower than it was in
 *   place, a fresh batch costs the job something: take_ns. If it still is too fast, cores
 *   were taken by others, where they were all at work (crowd); or else workers wait for what
 *   is no core and no storage, as a lock or a network (idle_ns). If it is too slow, some of the processor time that
 *   was counted was not in the way: prepare_ns, down to the half.
 * Cold: storage is so many times as slow for this job as for whoever probed it, in rate and
 *   latency alike; not looked for where the play is right to half a percent anyway.
 * A play within the doubt of what was measured is left alone: counters are steadier than
 * times beside other programs.
 * Part: nothing. What it is off by is what predictions must be thought to be off by. */
#ifndef TAUT_STALLS_CALIBRATE_H
#define TAUT_STALLS_CALIBRATE_H

#include "stalls/play.h"

/* What was measured; 0: it was not. Of a step: all ranks of one host, the slowest. */
struct tauti_seen {
	double cached_ns, cold_ns, part_ns;
	double own_ns;   /* of a cached step, without waiting; below 0: not told */
	double busy;     /* cores, of the host, while cached */
	double cached_doubt, cold_doubt; /* how far the first two may be off, as a share */
	double cold_kept, part_kept; /* share of the items that storage was not asked for */
};

/* Changes the model, and fills its error[]. */
TAUT_NODISCARD taut_status tauti_calibrate(const struct tauti_seen *seen,
	struct taut_stalls_model *model, struct taut_error *reterr);

/* The model as a scene; its page cache, storage and all. */
struct tauti_scene tauti_scene_of(const struct taut_stalls_model *model);

#endif /* TAUT_STALLS_CALIBRATE_H */

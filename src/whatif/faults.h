/* faults.h - pages that a process asks its system for in each step, because its
 * malloc gave the same memory back in the step before: minor page faults.
 *
 * taut record's processes count them, in the steps before the window and in those
 * of it, and time one. A profiler's own blocks change what malloc gives back, and so
 * a recorded step may have others than the job has. */
#ifndef TAUT_WHATIF_FAULTS_H
#define TAUT_WHATIF_FAULTS_H

#include "whatif/whatif.h"

/* The durations as they are with the job's own faults: in proportion, for where a
 * fault fell was not recorded. to may be from. *ret_ns: what was put into a
 * step of the rank that had most of it; negative: taken off. */
taut_status tauti_faults_restore(const struct taut_graph *graph,
	const struct tauti_job *job, const int64_t *from_ns, int64_t *to_ns,
	int64_t *ret_ns, struct taut_error *err);

/* By trace: the host's work of a rank's forward and backward passes, in which
 * tensors are made, in a step (ns). NULL: no memory. The caller frees it. */
double *tauti_faults_work(const struct taut_graph *graph,
	const struct tauti_job *job, const int64_t *dur_ns);
/* Is the operation of the recording such work? */
bool tauti_faults_here(const struct taut_graph *graph,
	const struct tauti_job *job, uint32_t op);

#endif /* TAUT_WHATIF_FAULTS_H */

/* within.h - all-reduces that a pass waits for: sums of activations, and of
 * their gradients, as tensor parallelism makes them. For job.c. */
#ifndef TAUT_WHATIF_WITHIN_H
#define TAUT_WHATIF_WITHIN_H

#include "whatif/spans.h"

struct tauti_within {
	const struct taut_graph *graph;
	const struct tauti_job *job;   /* phases and steps are known */
	const struct tauti_spans *spans; /* by trace */
	const uint32_t *launch_of;     /* by op; TAUT_NONE */
};

/* ret_within: by collective, 1: it is one. false: no memory. */
bool tauti_within_find(const struct tauti_within *in, uint8_t *ret_within);

#endif /* TAUT_WHATIF_WITHIN_H */

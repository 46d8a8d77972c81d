/* weights.h - what of an operation does not grow with the batch: its weights.
 *
 * A layer reads its weights whatever the batch, and writes as many gradients.
 * How long that takes is in the recording: DDP copies each gradient into its
 * bucket, which is one pass over as many bytes. */
#ifndef TAUT_WHATIF_WEIGHTS_H
#define TAUT_WHATIF_WEIGHTS_H

#include "whatif/compute.h"

struct tauti_weights {
	/* By op of the graph: the time of one pass over the weights of the
	 * layer that it is part of, as a share of the layer's forward or
	 * backward time; 0: none, or not told. */
	float *share;
	uint32_t n_layers; /* for which it is told */
};
taut_status tauti_weights_find(struct tauti_whatif *w,
	struct tauti_weights *ret_weights, struct taut_error *err);

#endif /* TAUT_WHATIF_WEIGHTS_H */

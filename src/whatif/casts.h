/* casts.h - what automatic mixed precision computes that was not there: weights and
 * what norms make are narrowed before products, gradients are widened behind them. */
#ifndef TAUT_WHATIF_CASTS_H
#define TAUT_WHATIF_CASTS_H

#include "whatif/compute.h"

struct tauti_cast { /* for one kernel of a product */
	double weights; /* kernels of weights, or of their gradients */
	double inputs;  /* of what the product reads, or its gradients */
	double weights_ns, inputs_ns; /* what those take of the device */
};
struct tauti_casts {
	struct tauti_cast *of; /* by op of the graph; in the arena */
	double host_ns; /* of a host, for one */
	/* Of the device, for what something one by one reads or writes; 0: no
	 * sizes tell. */
	double pass_ns_per_byte;
};
/* For products of the forward and backward pass that are not narrow yet. Without
 * sizes each product casts one weight, whose bytes are not known. rooflines: of the
 * graph. TAUT_ENOMEM. */
taut_status tauti_casts_find(struct tauti_whatif *w,
	const struct taut_rooflines *rooflines, struct tauti_casts *ret_casts,
	struct taut_error *err);

#endif /* TAUT_WHATIF_CASTS_H */

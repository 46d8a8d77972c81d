/* growth.h - what of each operator grows with the batch, by its sizes. */
#ifndef TAUT_WHATIF_GROWTH_H
#define TAUT_WHATIF_GROWTH_H

#include "whatif/compute.h"

struct tauti_growth {
	struct taut_rooflines *rooflines;
	int64_t batch;   /* samples, or words, of a step and rank; 0: not told */
	uint32_t n_told; /* calls whose sizes say how they grow */
	double told_ns;  /* what they took, at their medians */
	double off;      /* mean |measured / roofline - 1| of that time */
	double *factor;  /* by row of rooflines: new time / old; 0: not told */
};
/* Nothing told is no fault. */
taut_status tauti_growth_find(struct tauti_whatif *w, double factor,
	struct tauti_growth *ret_growth, struct taut_error *err);
void tauti_growth_end(struct tauti_growth *growth); /* all zero is fine */

#endif /* TAUT_WHATIF_GROWTH_H */

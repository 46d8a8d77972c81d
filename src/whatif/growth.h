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
	uint32_t *grows; /* by row: a bit for each operand */
};
/* Nothing told is no fault. */
taut_status tauti_growth_find(struct tauti_whatif *w, double factor,
	struct tauti_growth *ret_growth, struct taut_error *err);
/* Is a block of so many bytes, asked for in an operation of the graph, as large
 * whatever the batch? It is one of the operator's operands (elements of 2 or 4
 * bytes, perhaps rounded up to 512; of a recurrent layer's weights with rows that
 * are somewhat longer), and none that grows is as large. */
bool tauti_growth_is_fixed(const struct tauti_whatif *w,
	const struct tauti_growth *growth, uint32_t op, int64_t bytes);
void tauti_growth_end(struct tauti_growth *growth); /* all zero is fine */

#endif /* TAUT_WHATIF_GROWTH_H */

/* calls.h - calls of modules in a recording, and what of the graph is of each: its
 * operators in the forward pass, and what runs for them in the backward pass.
 *
 *     struct tauti_calls calls;
 *     tauti_calls_find(w, "nn.Module: blocks.*", &calls, err);
 *     calls.of[op], calls.back_of[op]: rows of calls.at; TAUT_NONE
 *     tauti_calls_end(&calls);
 *
 * A module's operators bear autograd sequence numbers; its backward pass is what
 * bears the same. Of calls within each other the outermost one counts.
 *
 * Owner:   columns live in w->arena, the vector until tauti_calls_end().
 * Errors:  TAUT_ENOMEM. That there are none is no error. */
#ifndef TAUT_WHATIF_CALLS_H
#define TAUT_WHATIF_CALLS_H

#include "whatif/compute.h"

struct tauti_call {
	uint32_t trace, row;  /* of its range */
	uint32_t first, last; /* sequence numbers in it */
	uint32_t back;        /* first host operation of its backward pass */
};
struct tauti_calls {
	TAUT_VEC(struct tauti_call) at; /* by trace, then by row */
	uint32_t *of;      /* by op of the graph: in whose range it is, or was launched */
	uint32_t *back_of; /* by op: whose backward pass it is of */
};

/* pattern: of a shell, whatever the case; of names of ranges, "nn.Module: layer1.0". */
taut_status tauti_calls_find(struct tauti_whatif *w, const char *pattern,
	struct tauti_calls *ret_calls, struct taut_error *err);
void tauti_calls_end(struct tauti_calls *calls); /* all zero is fine */

#endif /* TAUT_WHATIF_CALLS_H */

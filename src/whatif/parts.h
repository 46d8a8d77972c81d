/* parts.h - the recording's blocks of memory as changes leave them: one that is
 * not kept all the time is in as many parts as that takes.
 *
 * Owner:   a struct owns its tables and borrows from the prediction's graph.
 * Units:   bytes. */
#ifndef TAUT_WHATIF_PARTS_H
#define TAUT_WHATIF_PARTS_H

#include "whatif/whatif.h"

struct tauti_parts {
	struct taut_memory memory; /* on the graph as recorded */
	TAUT_VEC(struct taut_block) blocks; /* memory's */
	TAUT_VEC(double) scale;    /* beside blocks: bytes times that */
	TAUT_VEC(uint32_t) sum;    /* beside blocks: as w->sums */
	struct taut_memory_rank *ranks; /* memory's */
};

/* After all changes. TAUT_ENOMEM; then, too, there is something to fini. */
taut_status tauti_parts_make(const struct tauti_whatif *w,
	struct tauti_parts *ret_parts, struct taut_error *err);
void tauti_parts_fini(struct tauti_parts *p); /* all zero is fine */

#endif /* TAUT_WHATIF_PARTS_H */

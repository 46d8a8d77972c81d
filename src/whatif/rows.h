/* rows.h - gradients of embeddings, of which those rows alone are summed that some rank
 * has looked up (docs/running.md): what a recording tells of lookups, and the part of a
 * gradient that is no lookup's. */
#ifndef TAUT_WHATIF_ROWS_H
#define TAUT_WHATIF_ROWS_H

#include "whatif/ddp.h"

/* --- embeddings.c: what `taut record` has seen (docs/recording.md, embedding.*) ------- */

struct tauti_embedding {
	const char *name;   /* of the parameter */
	uint32_t rows, row_bytes;
	uint32_t looked_up; /* rows that some rank looked up in a step; where those are
	                       many, to some percent */
	uint32_t other;     /* numbers of autograd from its first lookup to what is
	                       last of its other uses to have a gradient; 0: it has
	                       none */
};
/* Those of which all ranks tell the same, in the order in which the first rank looks
 * rows up; in arena. TAUT_EINVAL: a fact is none, in a line that says which. */
taut_status tauti_embeddings(const struct taut_run *run, struct taut_arena *arena,
	struct tauti_embedding **ret_list, uint32_t *ret_n, struct taut_error *err);

/* --- rows.c ------------------------------------------------------------------------------ */

struct tauti_rowed { /* a gradient that goes by rows */
	uint32_t gradient; /* of a step */
	int64_t bytes;     /* of all of it */
};
struct tauti_rows { /* in the prediction's arena */
	uint32_t n;
	struct tauti_rowed *of;
	uint32_t room;     /* of part_of */
	uint32_t *part_of; /* by collective: of + 1 that it sums the other part of; 0 */
};
/* Whether the collective sums what is no lookup's of a gradient, and which of a step. */
bool tauti_rows_part(const struct tauti_whatif *w, uint32_t collective,
	uint32_t *ret_gradient);
/* The bucket's gradient is as large as it was, where rows are all that is sent of it. */
void tauti_rows_size(const struct tauti_whatif *w, struct tauti_ddp *ddp,
	const struct tauti_ddp_step *step, const struct tauti_bucket *bucket);

#endif /* TAUT_WHATIF_ROWS_H */

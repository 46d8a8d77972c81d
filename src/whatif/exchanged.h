/* exchanged.h - gradients that Taut's own exchange sums in the recorded job
 * (taut.tensorflow, taut run): which operation hands each one over and which waits for it
 * is told, and stands on any thread. For ddp.c. */
#ifndef TAUT_WHATIF_EXCHANGED_H
#define TAUT_WHATIF_EXCHANGED_H

#include "whatif/ddp.h"

/* Do all ranks of the recording tell it? TAUT_EINVAL: some do, and others do not. */
taut_status tauti_exchanged_is(
	const struct tauti_whatif *w, bool *ret_is, struct taut_error *err);
/* Is it a message of the exchange, of whatever gradients? */
bool tauti_exchanged_sum(
	const struct taut_graph *graph, const struct taut_collective *collective);
/* Adds the steps of a rank, with its gradients in the order in which they were
 * declared, and its buckets: of those that a change has laid with the gradients that
 * they hold, of recorded messages without. marks: tauti_gradient_marks(). TAUT_EINVAL:
 * its steps do not tell the same, in one line that says which lacks what. */
taut_status tauti_exchanged_rank(struct tauti_whatif *w, struct tauti_ddp *ddp,
	const uint8_t *marks, uint32_t rank, struct taut_error *err);
/* Where buckets are still recorded messages, which the exchange made of what it had,
 * each gradient becomes a bucket of its own; else nothing happens. */
taut_status tauti_exchanged_part(struct tauti_whatif *w,
	struct tauti_ddp **ddp, struct taut_error *err);

#endif /* TAUT_WHATIF_EXCHANGED_H */

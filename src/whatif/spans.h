/* spans.h - when a rank computes gradients, updates its weights, gets a batch:
 * the spans of its phases, from the rows of its trace. For job.c. */
#ifndef TAUT_WHATIF_SPANS_H
#define TAUT_WHATIF_SPANS_H

#include "whatif/whatif.h"

struct tauti_span {
	int64_t start, end; /* on the graph's clock */
	enum tauti_phase phase; /* DATA, BACKWARD or OPTIMIZER */
	bool aside; /* says nothing about what is around it: zero_grad(), and a
	               batch */
};

struct tauti_spans {
	TAUT_VEC(struct tauti_span) spans; /* by start; none overlaps another of
	                                      its phase */
	bool *autograd; /* by lane of the trace: a thread of backward alone */
	bool has_backward;
};

/* Does the row stand for the main thread's way to its next batch? */
bool tauti_is_batch(const struct taut_trace *trace, uint32_t row);
/* For an optimiser's zero_grad()? */
bool tauti_is_zero_grad(const struct taut_trace *trace, uint32_t row);

/* main_lane: of the trace; TAUT_NONE where there is none. */
taut_status tauti_spans_find(const struct taut_graph *graph, uint32_t trace,
	uint32_t main_lane, struct tauti_spans *ret_spans,
	struct taut_error *err);
void tauti_spans_free(struct tauti_spans *spans);

/* The phase at an instant of the main thread, in a step that ends at step_end:
 * of the span it is in; between spans FORWARD where backward comes next. */
enum tauti_phase tauti_phase_at(
	const struct tauti_spans *spans, int64_t at, int64_t step_end);

#endif /* TAUT_WHATIF_SPANS_H */

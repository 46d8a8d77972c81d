/* tensors.h - timelines of communication alone, tensor by tensor, as Horovod,
 * BytePS and ByteScheduler write them: what they hold becomes a trace.
 *
 * Nothing in such a file tells what the training thread does: its lane holds
 * the steps alone, and a step is what lies between two operations of the
 * tensor that is communicated most often, and first. Operations stand on
 * streams, each on the first one that is free when it begins. What else is
 * told of a tensor (waiting in a queue, copies) stands beside, one lane a
 * tensor.
 *
 * Threads: one at a time. */
#ifndef TAUT_TRACE_TENSORS_H
#define TAUT_TRACE_TENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "trace/builder.h"

struct tauti_tensor_span {
	int64_t start_ns, end_ns;
	uint32_t tensor; /* names; 0 none */
	uint32_t name;	 /* "ALLREDUCE"; what the event is called */
	uint32_t group;	 /* names: operations that are numbered together */
	uint32_t collective, dtype;
	int64_t elements; /* -1 not known */
	int64_t seq;	  /* set by finish */
	uint8_t flags;
	bool is_comm; /* else a phase */
};

struct tauti_tensors { /* zero: none */
	TAUT_VEC(struct tauti_tensor_span) spans;
};

TAUT_NODISCARD bool tauti_tensors_add(struct tauti_tensors *tensors,
	const struct tauti_tensor_span *span);
/* Makes the rows of all spans and of the steps. False: no memory. */
TAUT_NODISCARD bool tauti_tensors_finish(
	struct tauti_tensors *tensors, struct tauti_builder *builder);
void tauti_tensors_fini(struct tauti_tensors *tensors);

#endif /* TAUT_TRACE_TENSORS_H */

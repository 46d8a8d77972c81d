/* sums.h - gradients that Taut's exchange sums, as a recording tells of them.
 *
 * The job says when it hands a gradient over and when it waits for one; the recorder
 * says which gradients there are and, when the window ends, which pieces of them went
 * in which message, and when. A format brings all that, in any order; then
 * tauti_sums_settle() makes each message an all-reduce of the bytes of its pieces, on
 * a lane of its own. What was handed over last of them posted it; a wait was for the
 * message that brought the last piece. Calls and messages have one number then, which
 * is how requests are told (graph/requests.c).
 *
 * Ranks agree on a message before it goes, so that one that is slow to hand a gradient
 * over holds up all. As other collectives do, an all-reduce begins when its rank has
 * come to it: when it was handed over; or, where so much was under way then that the
 * message would have made it more than ever was, when the last one before it ended and
 * made room (graph/turns.c). Until the last rank has come to it, it waits; then it goes.
 *
 * Owner:   who has the struct ends it with tauti_sums_fini(); zero is a good beginning.
 * Threads: one at a time.
 * Units:   ns, on the clock of the rows: without what the builder adds (base_ns). */
#ifndef TAUT_TRACE_SUMS_H
#define TAUT_TRACE_SUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "trace/builder.h"

TAUT_BEGIN_DECLS

struct tauti_sums_gradient {
	uint32_t exchange; /* of the process, which may have several */
	int64_t task, elements;
	uint32_t dtype; /* name */
	size_t told; /* set here: the how-many-th that was */
};

struct tauti_sums_piece {
	uint32_t exchange;
	int64_t message, task, bytes;
	int64_t start_ns, end_ns; /* since 1970 */
	uint32_t group, group_ranks; /* names; together the same on all its ranks, and no
	                                other exchange's */
	int32_t group_size; /* -1: all ranks of the job */
};

struct tauti_sums_call { /* that hands a gradient over, or waits for one */
	uint32_t exchange;
	int64_t task, start_ns;
	uint32_t row;
	bool waits;
	int64_t end_ns;
};

struct tauti_sums {
	TAUT_VEC(struct tauti_sums_gradient) gradients;
	TAUT_VEC(struct tauti_sums_piece) pieces;
	TAUT_VEC(struct tauti_sums_call) calls;
};

/* True: nothing is wrong with the number of a task. */
bool tauti_sums_has_task(int64_t task);

/* What is told of a task again counts. False: no memory. What makes no sense is left
 * out, and *ret_kept is false then. */
bool tauti_sums_gradient(struct tauti_sums *sums, struct tauti_sums_gradient gradient,
	bool *ret_kept);
bool tauti_sums_piece(
	struct tauti_sums *sums, struct tauti_sums_piece piece, bool *ret_kept);
/* The call's row is of kind RUNTIME, and stays where it is. False: no memory. */
bool tauti_sums_call(struct tauti_sums *sums, struct tauti_sums_call call);

/* When all was told, and base_ns of the builder is known. Messages get lanes
 * "Taut's sums 1", .. of this pid, numbered from first_tid on. False: no memory. */
bool tauti_sums_settle(struct tauti_sums *sums, struct tauti_builder *builder,
	int64_t pid, int64_t first_tid);

void tauti_sums_fini(struct tauti_sums *sums);

TAUT_END_DECLS
#endif /* TAUT_TRACE_SUMS_H */

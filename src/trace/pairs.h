/* pairs.h - which execution trace of PyTorch belongs to which trace of a run.
 * It holds no rank, so its name tells that; the trace may tell it inside. */
#ifndef TAUT_TRACE_PAIRS_H
#define TAUT_TRACE_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/inputs.h"

TAUT_BEGIN_DECLS

/* A file of a run. */
struct tauti_pair {
	const struct tauti_input *input;
	int32_t rank_given; /* by the caller; -1: not */
	bool is_et;	    /* it is an execution trace, and nothing else */
	bool has_et;	    /* one came with it */
	size_t et; /* number of the file that is its execution trace, or
	              SIZE_MAX; set by tauti_pairs_find() */
};

/* Does the input begin as an execution trace? TAUT_EIO, TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_pairs_is_et(
	const struct tauti_input *input, bool *ret_is, struct taut_error *err);

/* Each execution trace goes to the one trace of its rank, or to the only trace
 * there is. Opens the traces whose names tell no rank. TAUT_EIO, TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_pairs_find(
	struct tauti_pair *files, size_t n, struct taut_error *err);

TAUT_END_DECLS
#endif /* TAUT_TRACE_PAIRS_H */

/* beside.h - communication that runs beside the threads, several at a time: it gets
 * lanes of its own, on which it is serial. */
#ifndef TAUT_TRACE_BESIDE_H
#define TAUT_TRACE_BESIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/builder.h"

TAUT_BEGIN_DECLS

struct tauti_beside {
	int64_t start_ns; /* of the row; set by tauti_beside() */
	uint32_t row;
};
struct tauti_beside_lanes {
	const char *name; /* "communication": of "communication 1", .. */
	int64_t pid, first_tid; /* of lanes with role THREAD; the next ones count up */
};
/* Gives the n rows their lanes; the order of what says which rows changes. False: no
 * memory. */
bool tauti_beside(struct tauti_builder *builder, struct tauti_beside *rows, size_t n,
	struct tauti_beside_lanes lanes);

TAUT_END_DECLS
#endif /* TAUT_TRACE_BESIDE_H */

/* flight.h - dumps of PyTorch's flight recorder, and what several of them say
 * together about a job that hangs. */
#ifndef TAUT_TRACE_FLIGHT_H
#define TAUT_TRACE_FLIGHT_H

#include <stddef.h>

#include <taut/trace.h>

#include "trace/lines.h"

TAUT_BEGIN_DECLS

/* Facts of a dump, one a process group: the key is this and the group's name,
 * the value "enqueued started completed description", the sequence numbers of
 * the last operation of each state, -1 where there is none. */
#define TAUTI_FLIGHT_GROUP "flight.group."

/* The fact "discovered untimed before": operations whose completion was
 * noticed; that ended without a time; that the buffer held no longer. */
#define TAUTI_FLIGHT_TIMES "flight.times"

/* Which rank is behind in which group, where ranks called different things,
 * what never completed on which ranks, and how far the times can be trusted:
 * lines, in the arena, are added to lines. Traces that are no dumps are passed
 * by. TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_flight_compare(
	const struct taut_trace *traces, size_t n_traces,
	struct taut_arena *arena, tauti_lines *lines);

TAUT_END_DECLS
#endif /* TAUT_TRACE_FLIGHT_H */

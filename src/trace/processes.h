/* processes.h - what the processes of a recording say of themselves. */
#ifndef TAUT_TRACE_PROCESSES_H
#define TAUT_TRACE_PROCESSES_H

#include <taut/trace.h>

/* Sets step_recorded_ns and what stands beside it (trace.h) of the traces whose ranks
 * folder/processes tells of. A folder without it, and files that are not what taut
 * record writes, set nothing. TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_processes_read(const char *folder,
	struct taut_arena *arena, struct taut_trace *traces, uint32_t n_traces,
	struct taut_error *err);

#endif /* TAUT_TRACE_PROCESSES_H */

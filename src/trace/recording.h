/* recording.h - what `taut record` says of a recording as a whole
 * (docs/recording.md): RUN/recording.json. */
#ifndef TAUT_TRACE_RECORDING_H
#define TAUT_TRACE_RECORDING_H

#include <taut/base.h>

#include "trace/lines.h"

TAUT_BEGIN_DECLS

#define TAUTI_RECORDING_FILE "recording.json"
#define TAUTI_RECORDING_PROCESSES "processes"

/* Adds the problems that folder/recording.json tells, one line each, to
 * lines; they lie in the arena. A folder without that file adds none. A file
 * that cannot be understood is a line too.
 * TAUT_EIO: it is there and cannot be read; TAUT_ENOMEM. */
TAUT_NODISCARD taut_status tauti_recording_problems(const char *folder,
	struct taut_arena *arena, tauti_lines *lines, struct taut_error *err);

TAUT_END_DECLS
#endif /* TAUT_TRACE_RECORDING_H */

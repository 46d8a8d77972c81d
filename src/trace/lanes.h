/* lanes.h - the lanes of one trace while it is read: (role, pid, tid) to a
 * dense id.
 * Threads: one at a time. */
#ifndef TAUT_TRACE_LANES_H
#define TAUT_TRACE_LANES_H

#include <stdint.h>

#include <taut/trace.h>

#include "base/vec.h"

TAUT_BEGIN_DECLS

/* What a lane carries. One device stream gives up to three lanes, so that
 * its items stay serial. In the order in which the lanes of a trace stand. */
enum tauti_role {
	TAUTI_ROLE_THREAD,
	TAUTI_ROLE_STREAM,
	TAUTI_ROLE_SYNC,     /* synchronisation records of a stream */
	TAUTI_ROLE_RANGE,    /* annotations projected on a stream */
	TAUTI_ROLE_OVERHEAD, /* the profiler's own */
	TAUTI_ROLE_OTHER,
	TAUTI_ROLE_TEXT, /* pid or tid is a text, not a number */
};

struct tauti_lane {
	enum tauti_role role;
	int64_t pid, tid;
	uint32_t name;
	uint32_t open;	 /* B/E: the row that is open on top; TAUT_NONE */
	int64_t last_ns; /* latest B or E */
};

struct tauti_lanes {
	TAUT_VEC(struct tauti_lane) all;
	uint32_t *slots; /* ids, TAUT_NONE: empty */
	uint32_t mask;
	uint32_t recent; /* the id that was asked for last */
};

/* The id of a lane, new or known; TAUT_NONE: no memory. */
uint32_t tauti_lanes_add(struct tauti_lanes *lanes, enum tauti_role role,
	int64_t pid, int64_t tid);
/* TAUT_NONE when there is no such lane. */
uint32_t tauti_lanes_find(const struct tauti_lanes *lanes,
	enum tauti_role role, int64_t pid, int64_t tid);
void tauti_lanes_fini(struct tauti_lanes *lanes);

/* Writes the lanes, ordered by role, pid and tid, to out[count], and the new
 * id of each old one to ret_new_id[count]. */
taut_status tauti_lanes_finish(const struct tauti_lanes *lanes,
	struct taut_lane *out, uint32_t *ret_new_id);

TAUT_END_DECLS
#endif /* TAUT_TRACE_LANES_H */

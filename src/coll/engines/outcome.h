/* outcome.h - how a stage of connecting went, as all ranks hear it: what the engines share
 * that make connections of their own between ranks that meet.
 *
 * Each rank comes to the end of a stage with a fault, or with none. Then all conclude: one
 * of those with a fault speaks for all, and every rank has its line. */
#ifndef TAUT_COLL_OUTCOME_H
#define TAUT_COLL_OUTCOME_H

#include "coll/coll.h"

enum tauti_reason {
	TAUTI_UNSAID,   /* its code says it, or the meeting does */
	TAUTI_SUMMONED, /* by another rank, for which it went wrong */
	TAUTI_LATE,     /* all see that at the same time */
	TAUTI_NO_GREETING,
	TAUTI_NO_WAY,
	TAUTI_BROKEN,
	TAUTI_REASONS
};

struct tauti_fault {
	struct taut_error why; /* code TAUT_OK: none; no message: another rank has it */
	enum tauti_reason reason;
	uint32_t peer; /* with whom it went wrong; TAUT_NONE: with nobody */
};

/* All ranks call it, and end alike. what: the engine, for lines, as "UCX". A rank that has
 * gone is found here, by the meeting, and named. *ret_heard: all have heard the same, and
 * may go on together; NULL: it does not matter. */
TAUT_NODISCARD taut_status tauti_conclude(struct tauti_meet *meet, const char *what,
	uint32_t rank, uint32_t n_ranks, const struct tauti_fault *mine, bool *ret_heard,
	struct taut_error *reterr);

#endif /* TAUT_COLL_OUTCOME_H */

/* comm.h - what comm.c and create.c share. */
#ifndef TAUT_COLL_COMM_H
#define TAUT_COLL_COMM_H

#include "coll/run.h"

struct taut_comm {
	struct tauti_hub *hub; /* with its twins */
	uint32_t channel;
	/* The last call that was checked, as it came and with all that it got;
	 * count 0: none. */
	struct taut_coll_call asked, known;
};

/* The first of a hub that is made; on failure the engine is still the caller's. */
TAUT_NODISCARD taut_status tauti_comm_make(
	const struct tauti_hub_options *options, struct taut_comm **ret_comm,
	struct taut_error *reterr);
TAUT_NODISCARD taut_status tauti_comm_add(struct tauti_hub *hub,
	struct taut_comm **ret_comm, struct taut_error *reterr);

static inline uint32_t tauti_tag_channel(uint64_t tag)
{
	return (uint32_t)(tag >> (TAUTI_PASS_BITS + TAUTI_MESSAGE_BITS));
}

#endif /* TAUT_COLL_COMM_H */

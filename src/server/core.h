/* core.h - what the files of the core share; see server.h. */
#ifndef TAUT_SERVER_CORE_H
#define TAUT_SERVER_CORE_H

#include "server/server.h"

enum tauti_push { TAUTI_NO_PUSH, TAUTI_ASKED, TAUTI_COMING, TAUTI_THERE };
enum tauti_pull { TAUTI_NO_PULL, TAUTI_WAITING, TAUTI_GOING };

/* What one worker does with one part. Synchronous: from the moment that its push is
 * in the sum it has no push, and summed holds until the round is over. */
struct tauti_seat {
	uint32_t pushed; /* rounds that it began */
	uint8_t push, pull;
	uint8_t later; /* what it asked for while its pull was GOING */
	bool first;   /* the push is the value */
	bool direct;  /* it comes right into the sum or the value */
	bool ahead;   /* its landing was taken before its turn */
	bool summed;  /* in the sum of the round that is under way */
	bool borrowed; /* landing is not the core's: see tauti_core_calls.find */
	void *landing; /* NULL: none */
};

struct tauti_core_part {
	struct tauti_part_said said;
	size_t bytes;
	size_t at;             /* tauti_core_place() */
	uint8_t *value, *sum;  /* sum: NULL when asynchronous */
	struct tauti_update_state state;
	uint32_t round;        /* synchronous: of the value */
	uint32_t contributors; /* in the value */
	uint32_t n_summed;     /* in the sum */
	uint32_t n_going;      /* answers that read the value */
	bool is_set;           /* the value is one */
	bool busy;             /* somebody receives into the sum or value */
	bool starved;          /* in the line for landings */
	struct tauti_seat *seats; /* by worker */
};

struct tauti_core {
	struct taut_server_options options;
	struct tauti_core_calls calls;
	void *context;
	uint8_t *presence; /* by worker */
	uint32_t n_left;   /* in peace */
	size_t next, n_behind; /* parts that may move on since one went, from next on */
	struct tauti_core_part *parts; /* NULL: nothing declared */
	size_t n_parts;
	struct tauti_seat *seats;      /* of all parts */
	uint32_t *line;    /* parts that wait for a landing, a ring of n_parts */
	size_t line_from, line_count;
	uint64_t turn_bytes, ahead_bytes; /* of landings */
	struct taut_error fault;
	struct taut_server_counts counts;
};

static inline bool tauti_is_here(const struct tauti_core *core, uint32_t worker)
{
	return core->presence[worker] <= TAUTI_DECLARED;
}

/* Whether the sum waits for it, or has it. */
static inline bool tauti_takes_part(const struct tauti_core *core,
	const struct tauti_core_part *part, uint32_t worker)
{
	const struct tauti_seat *seat = &part->seats[worker];

	return tauti_is_here(core, worker) || seat->push == TAUTI_THERE;
}

/* The value is what its worker gave. */
void tauti_core_set_first(struct tauti_core_part *part, struct tauti_seat *seat);

/* core_round.c: begins, sums and answers what can be, of this part. */
void tauti_core_step(struct tauti_core *core, struct tauti_core_part *part);
/* Of all parts that wait for a landing, as long as there is room. */
void tauti_core_feed(struct tauti_core *core);

/* core_buffer.c. False: no room now; the part stands in line. in_turn: the sum waits
 * for nobody but this one. */
bool tauti_landing_take(struct tauti_core *core, struct tauti_core_part *part,
	struct tauti_seat *seat, bool in_turn);
void tauti_landing_give(struct tauti_core *core, struct tauti_core_part *part,
	struct tauti_seat *seat);
/* Of its own what was borrowed: a copy. False: no memory, and the core has failed. */
bool tauti_landing_own(struct tauti_core *core, struct tauti_core_part *part,
	struct tauti_seat *seat);
/* Values, sums and state of the declared parts. */
TAUT_NODISCARD taut_status tauti_core_allocate(
	struct tauti_core *core, struct taut_error *reterr);
void tauti_core_free_parts(struct tauti_core *core);

/* The first fault counts. */
void tauti_core_fail(struct tauti_core *core, taut_status status,
	const char *fmt, ...) TAUT_PRINTF(3, 4);

#endif /* TAUT_SERVER_CORE_H */

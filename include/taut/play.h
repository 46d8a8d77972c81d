/* taut/play.h - what a collective takes: its schedules on a virtual clock.
 *
 * The schedules are those that communicators carry out (taut/coll.h); here their
 * steps become operations of a small graph, and the replay runs it. There is no
 * formula: what a way takes, asks of its links, and how many of its messages wait
 * for each other comes out of the schedules themselves.
 *
 *     a step       begins when those that it waits for are done, and its pass has
 *                  begun on its rank: the next one does when one of those under way
 *                  there, at_once at most, is done
 *     a message    leaves when its sender's step has begun and the step that
 *                  receives it has too, but for small ones (eager_bytes); those from
 *                  one rank to another leave one after the other. Its bytes move at
 *                  rates that are max-min fair among all that move: between hosts
 *                  by the way out of the one and the way into the other, in a host
 *                  by those of its ranks; then it is there after a latency
 *     a rank       sends, receives, adds up and copies: one thing at a time, first
 *                  come, first served, each for its time. Messages that move take
 *                  none of it.
 *
 * Owner:   nothing is kept; results are plain values.
 * Threads: pure functions.
 * Units:   nanoseconds, bytes; rates in bytes a nanosecond, which is GB/s. */
#ifndef TAUT_PLAY_H
#define TAUT_PLAY_H

#include <taut/coll.h>

TAUT_BEGIN_DECLS

struct taut_play_host { /* 0: it is never full */
	double out, in;  /* its link to all other hosts */
	double memory;   /* what moves within it, together */
};

/* Zero: takes no time. */
struct taut_play_net {
	uint32_t n_ranks, n_hosts;
	const uint32_t *host_of;            /* by rank, below n_hosts; NULL: all
	                                       on the first */
	const struct taut_play_host *hosts; /* NULL: none is ever full */
	double backbone;    /* what moves between hosts, together; 0: never full */
	double local;       /* a rank's way out, and its way in, within its host;
	                       0: never full */
	int64_t network_ns; /* latency of a message between hosts */
	int64_t local_ns;   /* and in a host */
	int64_t message_ns; /* of a rank's own time for each message, at either end */
	double reduce_ns;   /* of a rank's own time for a byte added up */
	double copy_ns;     /* and for one copied */
	uint64_t eager_bytes; /* up to so many are sent before they are asked for */
};

struct taut_play_call { /* zero is the default of what stands after count */
	enum taut_coll_verb verb;
	enum taut_coll_way way;
	uint64_t count;
	uint32_t element_bytes;  /* 0: 1; at most 64 */
	uint32_t root;
	uint64_t pass_bytes;     /* 0: all in one; cut as a communicator does */
	uint32_t passes_at_once; /* 0: 1 */
};

struct taut_play_result {
	int64_t time_ns;      /* from the begin of all to the last rank's end */
	uint32_t n_passes;
	uint64_t n_messages;  /* of all ranks and passes */
	uint32_t in_succession; /* messages of one pass, each of which waits for
	                           the one before: the longest such row */
	uint64_t network_bytes; /* out of, or into, the busiest host */
	uint64_t local_bytes;   /* out of, or into, the busiest rank, in its host */
	uint64_t reduced_bytes; /* added up by the rank that adds most */
	uint64_t path_messages; /* of all passes, on the way back from what ended
	                           last along what each was waiting for */
};

/* Plays one. TAUT_EINVAL: there is no such schedule, a rank stands on no host, or
 * a time or rate is negative or no number; TAUT_EMATCH: the schedules of the ranks
 * do not belong together, or wait for each other; TAUT_ENOMEM. */
TAUT_API TAUT_NODISCARD taut_status taut_play(const struct taut_play_net *net,
	const struct taut_play_call *call, struct taut_play_result *ret_result,
	struct taut_error *reterr);

/* The same but for time_ns and path_messages, which are 0: counted, and not played. */
TAUT_API TAUT_NODISCARD taut_status taut_play_count(
	const struct taut_play_net *net, const struct taut_play_call *call,
	struct taut_play_result *ret_result, struct taut_error *reterr);

/* What passes each link. Each array is the caller's, or NULL. */
struct taut_play_traffic {
	uint64_t *out, *in;             /* by host: to and from others; n_hosts */
	uint64_t *local_out, *local_in; /* by rank, in its host; n_ranks */
	uint64_t *reduced;              /* by rank: bytes that it adds up */
};
TAUT_API TAUT_NODISCARD taut_status taut_play_traffic(
	const struct taut_play_net *net, const struct taut_play_call *call,
	const struct taut_play_traffic *traffic, struct taut_error *reterr);

/* --- which way takes least ----------------------------------------------------------
 * Candidates are, of each way that there is, about 1, 2, 4, ... passes, each with
 * 1, 2, 4, ... of them at once. Of those that take as long as each other it is the
 * first: by way, passes, passes at once. Not all are played to their end: one that
 * cannot be the best any more is left, so this costs far less than playing all, and
 * gives the same. */
struct taut_play_choices { /* zero is every field's default */
	uint32_t ways;             /* bit by enum taut_coll_way: may be taken; 0:
	                              each may */
	uint32_t most_passes;      /* 0: 256 */
	uint32_t most_at_once;     /* 0: 8 */
	uint64_t least_pass_bytes; /* of more than one pass; 0: 4096 */
};

struct taut_play_best {
	struct taut_play_call call; /* as asked for, with what was chosen */
	int64_t time_ns;
	uint32_t n_candidates, n_played; /* played: to their end */
};

/* call: way AUTO, or the one that must be; passes are not read. choices NULL: all
 * defaults. Errors as taut_play(); TAUT_EINVAL: no way is left. */
TAUT_API TAUT_NODISCARD taut_status taut_play_best(
	const struct taut_play_net *net, const struct taut_play_call *call,
	const struct taut_play_choices *choices,
	struct taut_play_best *ret_best, struct taut_error *reterr);

TAUT_END_DECLS
#endif /* TAUT_PLAY_H */

/* taut/coll.h - collectives: schedules of sends, receives and reductions, and the
 * communicators that carry them out.
 *
 * What a rank does in an all-reduce is written once, as data: a schedule. A
 * communicator executes it over an engine (shared memory, UCX, MPI, a process
 * pretending to be many); the replay executes the same one on a virtual clock.
 * An algorithm is one file that writes schedules; it knows no engine, and an
 * engine knows no algorithm.
 *
 *     shape --way--> schedule --passes--> engine: send, recv, recv_reduce
 *                        \--------------> replay: operations and flows
 *
 * Element i of a result is made of elements i of the inputs alone, so a large
 * collective is cut into passes: one schedule carried out on one part of the
 * buffer after another, several at a time. That is what pipelines it.
 *
 * Units: bytes and elements, said in each name. Ranks count from 0. */
#ifndef TAUT_COLL_H
#define TAUT_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <taut/base.h>

TAUT_BEGIN_DECLS

/* --- elements ----------------------------------------------------------------------*/

enum taut_type {
	TAUT_FLOAT32, TAUT_FLOAT64, TAUT_FLOAT16, TAUT_BFLOAT16,
	TAUT_INT8, TAUT_UINT8, TAUT_INT32, TAUT_INT64, TAUT_UINT64,
	TAUT_TYPES,
	/* An element of it is a block of 32 numbers: 33 bytes (taut_narrow()). For
	 * collectives; gradients, servers and devices have none. */
	TAUT_MXINT8 = TAUT_TYPES,
	TAUT_CARRIED_TYPES
};

enum taut_reduction {
	TAUT_SUM, TAUT_PRODUCT, TAUT_MIN, TAUT_MAX,
	TAUT_BIT_AND, TAUT_BIT_OR, TAUT_BIT_XOR, /* of integers alone */
	TAUT_REDUCTIONS
};

TAUT_API size_t taut_type_bytes(enum taut_type type);
TAUT_API uint32_t taut_type_numbers(enum taut_type type); /* of an element: 1, 32 */
/* Of so many numbers, of which the last element may not be full. */
TAUT_API uint64_t taut_numbers_bytes(enum taut_type type, uint64_t count);
TAUT_API const char *taut_type_name(enum taut_type type); /* "float32" */
TAUT_API const char *taut_reduction_name(enum taut_reduction reduction);
/* False: such a reduction there is not (bits of floats; of blocks there are sums). */
TAUT_API bool taut_reduces(enum taut_type type, enum taut_reduction reduction);
/* out = a op b, element by element; out may be a or b. Floats of 16 bits are
 * computed in 32 and rounded to the nearest, ties to even; minimum and maximum
 * of a NaN are NaN; integers wrap; blocks are added up in 32 bits and narrowed
 * again. The same bits on every processor, whatever its instructions. Any alignment.
 * taut_reduces() must hold. */
TAUT_API void taut_reduce(enum taut_type type, enum taut_reduction reduction,
	void *out, const void *a, const void *b, size_t count);
/* `count` floats of 32 bits to FLOAT16, BFLOAT16 or MXINT8, and back. Narrowing
 * multiplies by factor first, in 32 bits, and then rounds once, to the nearest, ties to
 * even: what is small to denormals and zero, what is beyond the largest to infinity.
 * What is not a number becomes the quiet NaN that sums have. Widening is exact. The same
 * bits on every processor. Any alignment; no overlap.
 *
 * MXINT8 (OCP Microscaling Formats v1.0): each 32 numbers, the last ones filled up with
 * zeros, are whole 64ths of one scale, the power of two at the largest of them or next
 * below: each is off by a 128th of the scale at most, but for what would round to twice
 * the scale, by a 64th. Where one is infinite or no number, none of its block is one.
 * Scales are 2^-120 at least. */
TAUT_API void taut_narrow(enum taut_type type, void *out, const void *in,
	size_t count, float factor);
TAUT_API void taut_widen(
	enum taut_type type, void *out, const void *in, size_t count);

/* --- schedules ----------------------------------------------------------------------
 * Buffers: INPUT is only read, OUTPUT ends as the result, and both may be the
 * same memory (in place). Each holds `count` elements, for every verb:
 *
 *     ALLREDUCE       all of INPUT            -> all of OUTPUT, on each rank
 *     REDUCE_SCATTER  all of INPUT            -> block `rank` of OUTPUT; what the
 *                                                other blocks hold then is not told
 *     ALLGATHER       block `rank` of INPUT   -> all of OUTPUT, on each rank
 *     BROADCAST       all of the root's INPUT -> all of OUTPUT, on each rank
 *
 * Block i: taut_coll_block(). The blocks of an all-gather, in place, are those of
 * the reduce-scatter before it. A pass of a reduce-scatter or all-gather takes a
 * part of each block, so no step of their schedules crosses a block. */
enum taut_coll_verb {
	TAUT_ALLREDUCE, TAUT_REDUCE_SCATTER, TAUT_ALLGATHER, TAUT_BROADCAST,
	TAUT_VERBS
};

enum taut_coll_way { /* n ranks, S bytes; a: one message's latency */
	TAUT_WAY_AUTO,      /* by the communicator's table; no schedule has it */
	TAUT_WAY_DIRECT,    /* each to each: 2 steps, 2 S (n-1)/n; reduced in the
	                       order of the ranks */
	TAUT_WAY_DOUBLING,  /* recursive doubling: lg n steps of S */
	TAUT_WAY_HALVING,   /* Rabenseifner: 2 lg n steps, 2 S (n-1)/n */
	TAUT_WAY_RING,      /* 2 (n-1) steps, 2 S (n-1)/n */
	TAUT_WAY_TREE,      /* two binary trees, half of S each: a rank inside one
	                       is a leaf of the other (Sanders et al. 2009);
	                       2 lg n steps, 2 S */
	TAUT_WAY_HOSTS,     /* hierarchical: reduced in each host, between hosts
	                       block by block, spread in each host */
	TAUT_WAY_FLAT,      /* each sends all of it to each: 1 step, S (n-1);
	                       reduced in the order of the ranks */
	TAUT_WAYS
};

TAUT_API const char *taut_coll_verb_name(enum taut_coll_verb verb);
TAUT_API const char *taut_coll_way_name(enum taut_coll_way way);

/* First element and length of a block of `count` elements over n ranks; the first
 * count % n blocks have one more than the others. */
TAUT_API uint64_t taut_coll_block(uint64_t count, uint32_t n_ranks, uint32_t i,
	uint64_t *ret_length);

enum taut_coll_buffer { TAUT_INPUT, TAUT_OUTPUT, TAUT_SCRATCH };

enum taut_coll_step_kind {
	TAUT_STEP_SEND,        /* from[first ..] to each of the peers */
	TAUT_STEP_RECV,        /* into[first ..], from the one peer */
	TAUT_STEP_RECV_REDUCE, /* into[first ..] = from[first ..] op what the one
	                          peer sent */
	TAUT_STEP_COPY,        /* into[first ..] = from[first ..]; nothing when
	                          both are the same memory */
	TAUT_STEP_REDUCE,      /* into[first ..] = from[first ..] op the elements
	                          of scratch at place */
};

/* A step may be done when those that it waits for are; they stand before it. All
 * that may begin must begin: a SEND may end no earlier than each of its peers has
 * begun the step that receives it. So an engine need keep nothing that nobody has
 * asked for, and yet every schedule comes to its end.
 * In SCRATCH, element `first` lies at place. A RECV_REDUCE may put what comes at
 * `landing` of scratch first, before what it waits for is done: no other step uses
 * those `count` elements. */
struct taut_coll_step {
	uint8_t kind, from, into;      /* enums above; a SEND has no into, a RECV
	                                  no from */
	uint32_t first_peer, n_peers;  /* in peers; RECV, RECV_REDUCE: 1; COPY,
	                                  REDUCE: 0 */
	uint32_t message;              /* one number from one rank to another names
	                                  one message; below TAUT_COLL_MESSAGES */
	uint32_t first_wait, n_waits;  /* in waits */
	uint64_t first, count;         /* elements; count is never 0 */
	uint64_t place, landing;       /* elements of scratch */
};

enum {
	TAUT_COLL_MESSAGES = 1 << 12,
	TAUT_COLL_RANKS = TAUT_COLL_MESSAGES / 2, /* of one shape, at most */
};

/* One rank's part. */
struct taut_coll_schedule {
	uint32_t n_steps, n_peers, n_waits;
	const struct taut_coll_step *steps;
	const uint32_t *peers; /* ranks */
	const uint32_t *waits; /* steps */
	uint64_t scratch;      /* elements that it needs */
};

struct taut_coll_shape {
	enum taut_coll_verb verb;
	enum taut_coll_way way;
	uint32_t n_ranks, rank;
	uint32_t root;           /* of a broadcast */
	uint64_t count;
	const uint32_t *host_of; /* by rank, any numbers; HOSTS asks for it; NULL:
	                            all on one */
};

/* Whether there is such a schedule: each way has all-reduce; docs/collectives.md
 * has which of the others. */
TAUT_API bool taut_coll_has(enum taut_coll_verb verb, enum taut_coll_way way);
/* The same for the same shape, on every machine. TAUT_EINVAL: !taut_coll_has(), no
 * such rank or root, more than TAUT_COLL_RANKS, 2^48 elements or more;
 * TAUT_ENOMEM. */
TAUT_API TAUT_NODISCARD taut_status taut_coll_schedule_create(
	const struct taut_coll_shape *shape,
	struct taut_coll_schedule **ret_schedule, struct taut_error *reterr);
TAUT_API void taut_coll_schedule_destroy(struct taut_coll_schedule *schedule);

/* --- engines ---------------------------------------------------------------------------
 * What carries messages between ranks. One thread at a time is in an engine, but
 * for wake(). Nothing blocks, but wait(). Every operation that began ends with
 * one call of its request's done(), from inside any call of the engine, also the
 * one that began it; memory stays the engine's until then. done() itself calls
 * nothing of the engine. A status other than TAUT_OK of a call means that nothing
 * began.
 * Messages meet by peer and tag alone, whatever the order in which they were sent
 * and are received. Two of one sender never have the same tag while both are under
 * way. A receive ends with TAUT_EMATCH when its message has another number of bytes;
 * the send may end well. 0 bytes are a message. No message that is longer than
 * max_message_bytes is given. */
struct taut_coll_request { /* the caller's memory, until done() */
	void (*done)(struct taut_coll_request *request, taut_status status);
};

/* All of an all-reduce by FLAT, of one pass: into = ((0 op 1) op 2) .., by rank, of
 * what each rank has in `from`; into may be from. The caller's memory, until done(). */
struct taut_coll_flat {
	struct taut_coll_request request;
	uint64_t tag;
	enum taut_type type;
	enum taut_reduction reduction;
	void *into;
	const void *from;
	void *beside;  /* room for as many elements; nothing, on ranks 0 and 1 */
	uint64_t count;
	uint32_t peer; /* TAUT_NONE at first; then who is waited for, and after
	                  TAUT_EMATCH whose message has another length */
};

struct taut_coll_engine {
	const char *name;
	uint64_t max_message_bytes; /* 0: any */
	/* The same bytes to each peer, none of which is this rank. */
	taut_status (*send)(void *engine, const uint32_t *peers,
		uint32_t n_peers, uint64_t tag, const void *data, size_t bytes,
		struct taut_coll_request *request, struct taut_error *err);
	taut_status (*recv)(void *engine, uint32_t peer, uint64_t tag,
		void *data, size_t bytes, struct taut_coll_request *request,
		struct taut_error *err);
	/* into = from op what comes, without a copy of it. NULL: the engine has
	 * no such thing; the caller receives into scratch, and reduces. */
	taut_status (*recv_reduce)(void *engine, uint32_t peer, uint64_t tag,
		enum taut_type type, enum taut_reduction reduction, void *into,
		const void *from, size_t count,
		struct taut_coll_request *request, struct taut_error *err);
	/* What the schedule of FLAT does, of all ranks that the engine has, in one:
	 * the same messages, so that another rank may send and receive them one
	 * by one. NULL: the engine has no such thing; the caller takes the steps. */
	taut_status (*flat)(void *engine, struct taut_coll_flat *flat,
		struct taut_error *err);
	/* Moves what can be moved. TAUT_EIO: a peer is gone, or the engine's
	 * network; nothing moves any more. */
	taut_status (*progress)(void *engine, struct taut_error *err);
	/* Sleeps until there may be something to progress, another thread calls
	 * wake(), or the time is over; also earlier. < 0: no limit. A wake() that
	 * came before counts. */
	taut_status (*wait)(void *engine, int64_t timeout_ns,
		struct taut_error *err);
	void (*wake)(void *engine); /* any thread, any time before destroy() */
	/* Both or neither; NULL: none. For who sleeps on two engines at once: arm(),
	 * then poll fd() for reading in place of wait(). TAUT_EAGAIN: there may be
	 * something already. fd(): the same until destroy(). */
	int (*fd)(void *engine);
	taut_status (*arm)(void *engine, struct taut_error *err);
	/* Whether a message has begun to arrive whose tag is this one in the bits
	 * of mask, and for which no receive was begun. */
	bool (*arrived)(void *engine, uint64_t tag, uint64_t mask);
	/* Both or neither; NULL: none. For who sends each message by one of two engines,
	 * and finds that one has come by the other than it is asked for by.
	 * discard(): takes away a message of this peer with this tag that has begun to
	 * arrive, and for which no receive was begun. False: there is none. */
	bool (*discard)(void *engine, uint32_t peer, uint64_t tag);
	/* Ends a receive, now or in one of the next calls, with TAUT_EMATCH; but where its
	 * message is coming, that ends it. */
	void (*withdraw)(void *engine, struct taut_coll_request *request);
	/* What is under way ends with TAUT_EIO. */
	void (*destroy)(void *engine);
};
enum { TAUT_COLL_TAG_BITS = 48 }; /* that an engine must carry */

/* --- communicators -----------------------------------------------------------------------
 * Every rank of one starts the same collectives in the same order; any number may
 * be under way.
 * Threads: one at a time in all communicators of one engine, but for
 *          taut_comm_wake(). done() is called from inside these calls, and may
 *          start others, but not progress, wait, run or destroy: those are
 *          TAUT_EINVAL there, and destroy ends all, but frees nothing unless it
 *          is called again, outside. After fork() the child's copy does nothing:
 *          each call is TAUT_EIO, destroy returns.
 * Errors:  when a peer is gone, or a message is not what it should be, everything
 *          under way ends with that status and every later call gives it, with the
 *          line that names the rank, within options.lost_after_ns. A rank that
 *          fails, or destroys a communicator with calls under way, ends all
 *          others of the engine, here and on the other ranks. */
struct taut_comm;

struct taut_comm_options { /* zero is every field's default */
	uint32_t rank, n_ranks;
	const char *meet;   /* HOST:PORT at which rank 0 listens */
	const char *secret; /* of the job; who does not know it is refused. NULL:
	                       $TAUT_SECRET; one rank needs none */
	const char *engine; /* "auto": shm in a host; between hosts ucx, with Taut's
	                       own TCP for short messages where that is quicker;
	                       "shm", "ucx"; "tcp": as auto, with Taut's own TCP for ucx,
	                       and on one host alone that. NULL: $TAUT_ENGINE, or
	                       auto */
	const char *table;  /* file of measured choices; NULL: $TAUT_COLL_TABLE,
	                       or what is built in */
	int64_t meet_within_ns; /* all ranks, and each stage in which engines
	                           connect; 0: 60 s */
	int64_t lost_after_ns;  /* a peer that says nothing; 0: 10 s */
	/* taut_comm_run() and taut_comm_barrier(): a rank that is there, but does not
	 * come to the call; 0: no limit, as it may have other work to do. */
	int64_t call_within_ns;
};

/* Returns when all ranks are there, and connected. TAUT_EIO: they are not, in time,
 * or one does not know the secret; TAUT_EMATCH: ranks that do not belong together. */
TAUT_API TAUT_NODISCARD taut_status taut_comm_create(
	const struct taut_comm_options *options, struct taut_comm **ret_comm,
	struct taut_error *reterr);
/* All ranks of a job in this process, each to be used by a thread of its own:
 * ret_comms has n_ranks places. */
TAUT_API TAUT_NODISCARD taut_status taut_comm_create_inproc(uint32_t n_ranks,
	struct taut_comm **ret_comms, struct taut_error *reterr);
/* Over an engine that the caller made and destroys afterwards. host_of: by rank;
 * NULL: all on one. Both are copied. What is under way when it fails or is
 * destroyed ends then, but its memory stays the engine's until that is destroyed. */
TAUT_API TAUT_NODISCARD taut_status taut_comm_create_over(
	const struct taut_coll_engine *engine, void *context, uint32_t rank,
	uint32_t n_ranks, const uint32_t *host_of, struct taut_comm **ret_comm,
	struct taut_error *reterr);
/* Another with the same ranks and engine, whose collectives have an order of their
 * own. At most 15 at a time, made and destroyed in the same order on all ranks;
 * destroyed before the one that they come from. */
TAUT_API TAUT_NODISCARD taut_status taut_comm_twin(struct taut_comm *comm,
	struct taut_comm **ret_twin, struct taut_error *reterr);
/* What is under way ends with TAUT_EIO. With the last of the communicator and its
 * twins this rank leaves: on each other one all ends that this rank took part in;
 * then what is beyond it, and all else, with TAUT_EIO and "rank 2 has left". Rank
 * 0, by which ranks hear of each other, waits for the others to have ended that,
 * lost_after_ns at most. NULL is fine. */
TAUT_API void taut_comm_destroy(struct taut_comm *comm);

TAUT_API uint32_t taut_comm_rank(const struct taut_comm *comm);
TAUT_API uint32_t taut_comm_size(const struct taut_comm *comm);
TAUT_API const char *taut_comm_engine(const struct taut_comm *comm);

struct taut_coll_call { /* zero is the default of what stands after count */
	enum taut_coll_verb verb;
	enum taut_type type;
	const void *input; /* NULL: in place */
	void *output;
	uint64_t count;
	enum taut_reduction reduction;
	uint32_t root;
	enum taut_coll_way way;  /* AUTO: by the table */
	uint64_t pass_bytes;     /* 0: by the table */
	uint32_t passes_at_once; /* 0: by the table */
	bool ordered; /* reduced in the order of the ranks, as ((0+1)+2)+3: the same
	                 bits for any size, way and partition */
};

/* Begins; done(context, status) is called once when it is over, maybe before this
 * returns. Any other status of this call means that nothing began, and done() is
 * not called. TAUT_EINVAL: there is no such call; TAUT_ENOMEM: it may be tried
 * again. */
TAUT_API TAUT_NODISCARD taut_status taut_comm_start(struct taut_comm *comm,
	const struct taut_coll_call *call,
	void (*done)(void *context, taut_status status), void *context,
	struct taut_error *reterr);
/* Moves all communicators of the engine on; sleeps for nothing. */
TAUT_API TAUT_NODISCARD taut_status taut_comm_progress(
	struct taut_comm *comm, struct taut_error *reterr);
/* Sleeps until there may be something to progress; as the engine's wait(). */
TAUT_API TAUT_NODISCARD taut_status taut_comm_wait(struct taut_comm *comm,
	int64_t timeout_ns, struct taut_error *reterr);
TAUT_API void taut_comm_wake(struct taut_comm *comm); /* any thread */
/* Whether another rank has begun the collective that is this one's next, and it
 * sends something to this one at once, as far as progress() has seen. */
TAUT_API bool taut_comm_asked(struct taut_comm *comm);
/* Starts, progresses and returns when it is over. When it is not within
 * options.call_within_ns, it and all else ends with TAUT_EIO, on all ranks, and a
 * line that names a rank from which something is missing. */
TAUT_API TAUT_NODISCARD taut_status taut_comm_run(struct taut_comm *comm,
	const struct taut_coll_call *call, struct taut_error *reterr);
/* The same; up to 64 ranks the one that is named is one that did not come. */
TAUT_API TAUT_NODISCARD taut_status taut_comm_barrier(
	struct taut_comm *comm, struct taut_error *reterr);

/* --- what is chosen ----------------------------------------------------------------------
 * Rows of a measured table: for a verb, so many ranks on so many hosts, from so
 * many bytes on: this way. A text file, one row a line; docs/collectives.md. */
struct taut_coll_choice {
	enum taut_coll_verb verb;
	uint32_t n_ranks, n_hosts;
	uint64_t from_bytes;
	enum taut_coll_way way;
	uint64_t pass_bytes;
	uint32_t passes_at_once;
};
/* What a call of so many bytes would get. Of a verb that is none: zeros. */
TAUT_API struct taut_coll_choice taut_comm_choice(const struct taut_comm *comm,
	enum taut_coll_verb verb, uint64_t bytes);

TAUT_END_DECLS
#endif /* TAUT_COLL_H */

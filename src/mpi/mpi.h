/* mpi.h - the MPI form, libtaut-mpi-coll.so: all-reduces of an MPI program, carried
 * out by Taut where that is faster, with no change to the program.
 *
 *     wrap.c     MPI_Allreduce, MPI_Iallreduce, MPI_Wait..., MPI_Test...: whose it is
 *     setup.c    once: the MPI library below, libtaut.so, what handles mean
 *     table.c    from how many bytes on Taut is faster: text and built in
 *     agree.c    the ranks of an MPI communicator decide together
 *     comm.c     what is known of an MPI communicator, and its Taut communicator
 *     call.c     calls: those that block, and those that only begin
 *     device.c   whether there are devices, and whose memory a call's is
 *     op.c       calls in parts: copied from a device and back while others are summed
 *     rounds.c   calls by the devices of one host, which reduce each other's memory
 *     hooks.c    functions of CUDA that free memory
 *     next.c     the functions that those stand before
 *
 * The object is preloaded into any process. It needs libc alone; libtaut.so, and
 * what that needs, is opened when ranks have a use for it.
 *
 * All ranks of a communicator must decide alike, so a call is judged by what MPI
 * asks to be equal on all of them: bytes (count times the size of the type), type,
 * reduction, communicator. What differs between ranks (options, hosts, whether
 * libtaut.so is there) is gathered once a communicator, and its rank 0 decides.
 *
 *     NEW    --ASK_BYTES summed--> ask: what each can; rows   --> NEVER, or
 *     ASKED  --after_bytes summed--> a Taut communicator      --> NEVER, or
 *     READY  until it is freed
 *
 * Whose memory a call's is, the host's or a device's, each rank knows for itself, and
 * nothing is decided by it: what differs is what this rank copies before and after.
 * A communicator of which any rank has a device is cut into parts alike on all ranks.
 *
 * A communicator with processes that are not in MPI_COMM_WORLD (they were spawned, or
 * connected) is MPI's: nobody knows whether those have this object before them.
 *
 * So a communicator that sums little pays nothing. Both steps happen in a call that
 * blocks (MPI_Allreduce, MPI_Barrier): MPI_Iallreduce may not wait for others.
 *
 * While a rank waits in a Taut call it moves MPI on, too: another rank may wait for
 * a message of this one, before it comes to the same call. What was begun by
 * MPI_Iallreduce is moved by a thread of its communicator, which calls nothing of
 * MPI; its request is a generalized one, completed in the MPI_Wait or MPI_Test that
 * finds it done.
 *
 * Owner:   one state for the process (tauti_mpi_form), as there is one MPI.
 * Threads: any that the program's thread level allows. */
#ifndef TAUT_MPI_MPI_H
#define TAUT_MPI_MPI_H

#include <pthread.h>
#include <stdatomic.h>

#include <taut/coll.h>

#include "coll/coll.h"
#include "gpu/gpu.h"
#include "record/mpi/below.h"

enum {
	TAUTI_FORM_LEAST_BYTES = 1024,    /* of a call, for Taut to look at it */
	TAUTI_FORM_ASK_BYTES = 256 << 10, /* summed by such calls, to ask */
	TAUTI_FORM_AFTER_BYTES = 16 << 20, /* the default of TAUT_MPI_AFTER: about
	                                      what a communicator costs */
	TAUTI_FORM_STEPS = 16,
	TAUTI_FORM_TYPES = 32,
	TAUTI_FORM_ROW_BYTES = 128, /* of a row's text, at most */
	TAUTI_FORM_TABLE_BYTES = 1 << 16,
	TAUTI_FORM_PART_BYTES = 1 << 20, /* the default of TAUT_MPI_PART: of a call
	                                    that is copied while it is summed */
	TAUTI_FORM_PEER_BYTES = 8 << 20, /* of a round of devices */
	TAUTI_FORM_PIECES = 4,           /* parts of a call, at a time */
};

/* --- table.c -----------------------------------------------------------------------------
 * Text, one row a line; '#' begins a comment; '*' is any number:
 *
 *     # ranks hosts from_bytes who
 *         4     1      65536   taut
 *         4     1    8388608   mpi
 *
 * Of the rows that fit, those that name most (hosts more than ranks) hold alone;
 * among them the one with the most from_bytes that are not above the call's. Below
 * the first it is MPI's. Rows that end with the word "device" hold where a rank has a
 * device, and the others where none has; such a row may say "peer", too: by the devices
 * themselves, where all ranks are on one host. */
enum tauti_form_who { TAUTI_FORM_MPI, TAUTI_FORM_TAUT, TAUTI_FORM_PEER };

struct tauti_form_steps { /* by from_bytes, none twice */
	uint32_t n;
	struct {
		uint64_t from_bytes;
		uint32_t who;
	} step[TAUTI_FORM_STEPS];
};

/* TAUT_EFORMAT: "name:line: expected ...". */
TAUT_NODISCARD taut_status tauti_form_table_parse(const char *text,
	size_t bytes, const char *name, uint32_t n_ranks, uint32_t n_hosts,
	bool devices, struct tauti_form_steps *ret_steps,
	struct taut_error *reterr);
/* TAUT_EIO as well. path NULL: what is built in. */
TAUT_NODISCARD taut_status tauti_form_table_read(const char *path,
	uint32_t n_ranks, uint32_t n_hosts, bool devices,
	struct tauti_form_steps *ret_steps, struct taut_error *reterr);

static inline enum tauti_form_who tauti_form_takes(
	const struct tauti_form_steps *steps, uint64_t bytes)
{
	uint32_t i = steps->n;

	while (i && steps->step[i - 1].from_bytes > bytes)
		i--;
	return i ? (enum tauti_form_who)steps->step[i - 1].who : TAUTI_FORM_MPI;
}

/* --- setup.c -----------------------------------------------------------------------------*/

typedef tauti_mpi_handle tauti_form_handle;

/* Functions of MPI that we call ourselves, by their profiling names. */
struct tauti_form_real {
	int (*comm_rank)(tauti_form_handle comm, int *rank);
	int (*comm_size)(tauti_form_handle comm, int *size);
	int (*comm_test_inter)(tauti_form_handle comm, int *flag);
	int (*comm_group)(tauti_form_handle comm, void *ret_group);
	int (*group_translate_ranks)(tauti_form_handle group, int n,
		const int *ranks, tauti_form_handle other, int *ret_ranks);
	int (*group_free)(void *group);
	int (*comm_dup)(tauti_form_handle comm, void *ret_comm);
	int (*comm_free)(void *comm);
	int (*comm_create_keyval)(int (*copy)(tauti_form_handle comm,
			int keyval, void *extra, void *in, void *out, int *flag),
		int (*erase)(tauti_form_handle comm, int keyval, void *value,
			void *extra), int *ret_keyval, void *extra);
	int (*comm_set_attr)(tauti_form_handle comm, int keyval, void *value);
	int (*comm_get_attr)(
		tauti_form_handle comm, int keyval, void *value, int *flag);
	int (*comm_call_errhandler)(tauti_form_handle comm, int code);
	int (*type_size)(tauti_form_handle type, int *size);
	int (*gather)(const void *in, int n_in, tauti_form_handle in_type,
		void *out, int n_out, tauti_form_handle out_type, int root,
		tauti_form_handle comm);
	int (*bcast)(void *buf, int n, tauti_form_handle type, int root,
		tauti_form_handle comm);
	int (*barrier)(tauti_form_handle comm);
	int (*allreduce)(const void *in, void *out, int n,
		tauti_form_handle type, tauti_form_handle op,
		tauti_form_handle comm);
	int (*irecv)(void *buf, int n, tauti_form_handle type, int source,
		int tag, tauti_form_handle comm, void *ret_request);
	int (*isend)(const void *buf, int n, tauti_form_handle type, int to,
		int tag, tauti_form_handle comm, void *ret_request);
	int (*test)(void *request, int *flag, void *status);
	int (*testsome)(int n, void *requests, int *n_done, int *indices,
		void *statuses);
	int (*request_free)(void *request);
	int (*cancel)(void *request);
	int (*wait)(void *request, void *status);
	int (*query_thread)(int *level);
	int (*grequest_start)(int (*query)(void *extra, void *status),
		int (*release)(void *extra),
		int (*cancel)(void *extra, int complete), void *extra,
		void *ret_request);
	int (*grequest_complete)(tauti_form_handle request);
	int (*status_set_elements)(
		void *status, tauti_form_handle type, int count);
	int (*status_set_cancelled)(void *status, int flag);
};

/* Functions of libtaut.so. */
struct tauti_form_taut {
	__typeof__(&taut_comm_create) create;
	__typeof__(&taut_comm_create_over) create_over;
	__typeof__(&taut_comm_destroy) destroy;
	__typeof__(&taut_comm_start) start;
	__typeof__(&taut_comm_progress) progress;
	__typeof__(&taut_comm_wait) wait;
	__typeof__(&taut_comm_wake) wake;
	__typeof__(&taut_comm_engine) engine;
};

struct tauti_form_type {
	tauti_form_handle handle; /* 0: no more */
	enum taut_type type;
	bool wraps; /* an unsigned one that has no type of Taut's own: sums,
	               products and bits are those of the signed one */
};

struct tauti_form_comm;
struct tauti_form_request;

struct tauti_form_state {
	const struct tauti_mpi_abi *abi; /* NULL: all is MPI's */
	struct tauti_form_real real;
	struct tauti_form_type types[TAUTI_FORM_TYPES + 1];
	tauti_form_handle ops[TAUT_REDUCTIONS];
	tauti_form_handle min_op;
	/* A copy of MPI_COMM_SELF on which nothing is sent, and a receive on it: to
	 * test that moves MPI on. */
	tauti_form_handle alone, idle;
	pthread_mutex_t idle_lock;
	int keyval, level, err_other;
	bool says; /* TAUT_MPI_SAY */

	pthread_mutex_t lock; /* of what follows */
	void *library;        /* libtaut.so */
	struct tauti_form_taut taut;
	struct tauti_form_comm *oldest, *newest;
	struct tauti_form_request *pending;
	pthread_cond_t over;       /* one of pending is done */
	_Atomic uint32_t n_pending; /* not completed towards MPI */
	_Atomic uint32_t n_freed;   /* communicators: what was remembered of a
	                               handle may not hold any more */
	_Atomic(struct tauti_gpu *) gpu; /* NULL: no driver is loaded, yet */
	bool no_gpu; /* the driver that is loaded is of no use; under the lock */
	_Atomic unsigned long long n_loaded; /* objects, when that was looked at */
	_Atomic bool on;   /* from the first call that is looked at, to
	                      MPI_Finalize */
};
extern struct tauti_form_state tauti_mpi_form
	__attribute__((visibility("hidden")));

/* Whether the form works in this process: true from the first call on after which
 * MPI is there, false again from MPI_Finalize on. */
bool tauti_form_on(void);
/* Opens libtaut.so: $TAUT_LIB, or beside this object. */
taut_status tauti_form_open_taut(struct taut_error *reterr);
/* Taut's type and reduction of a call, and the bytes of an element; 0: there is no
 * such call of Taut's. */
uint32_t tauti_form_means(tauti_form_handle type, tauti_form_handle op,
	enum taut_type *ret_type, enum taut_reduction *ret_reduction);
void tauti_form_poke_mpi(void);
void tauti_form_say(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

static inline tauti_form_handle tauti_form_clean(tauti_form_handle handle)
{
	return tauti_mpi_form.abi->handle_bytes == 4 ? (uint32_t)handle : handle;
}

/* The handle that a function wrote. */
static inline tauti_form_handle tauti_form_load(const void *at)
{
	return tauti_mpi_form.abi->handle_bytes == 4 ? *(const uint32_t *)at :
		*(const tauti_form_handle *)at;
}

/* --- comm.c -------------------------------------------------------------------------------*/

enum tauti_form_phase {
	TAUTI_FORM_NEW, TAUTI_FORM_ASKED, TAUTI_FORM_READY, TAUTI_FORM_NEVER
};

struct tauti_form_comm {
	tauti_form_handle handle;
	enum tauti_form_phase phase;
	uint32_t rank, n_ranks;
	uint64_t summed;      /* bytes, of calls that are looked at */
	uint64_t after_bytes; /* agreed */
	struct tauti_form_steps steps; /* agreed */
	bool begins;          /* agreed: Taut takes calls that only begin */
	bool by_mpi;          /* agreed: over MPI's own messages, to compare */
	bool asks_peers;      /* agreed: rounds of devices are wanted */
	uint64_t part_bytes;  /* agreed: longer calls go in parts; 0: none do */
	atomic_bool complained;
	struct tauti_form_comm *older, *newer;

	/* Who is in the Taut communicator. The thread sleeps in it with the lock;
	 * who wants it says so and wakes it. */
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct taut_comm *taut;
	struct tauti_engine engine; /* by_mpi; and its own copy of the */
	tauti_form_handle copy;     /* communicator */
	struct taut_error why; /* of a failure; code 0: none */
	struct tauti_form_op *ops, **last_op; /* in parts, in the order of calls */
	uint32_t n_copies;     /* under way: to look after soon */
	struct tauti_gpu_peers *peers; /* NULL on all ranks, or on none */
	_Atomic bool broken;   /* this rank could not do its part; it leaves */
	_Atomic uint32_t n_wanted;
	_Atomic uint32_t n_begun; /* requests under way; changed inside */
	bool has_thread, ends;
	pthread_t thread;
};

/* What is kept of the communicator; NULL: nothing. */
struct tauti_form_comm *tauti_form_comm_known(tauti_form_handle comm);
/* Something is kept from now on; NULL: no memory. */
struct tauti_form_comm *tauti_form_comm_of(tauti_form_handle comm);
void tauti_form_enter(struct tauti_form_comm *it);
void tauti_form_leave(struct tauti_form_comm *it);
/* The thread that moves what was begun, if there is none yet. Inside. */
bool tauti_form_has_mover(struct tauti_form_comm *it);
/* Ends all Taut communicators, the oldest first, before MPI ends. */
void tauti_form_end(void);
int tauti_form_forget(
	tauti_form_handle comm, int keyval, void *value, void *extra);

/* --- agree.c ------------------------------------------------------------------------------*/

/* In a call that blocks on all ranks: brings the communicator on as far as what was
 * summed over it allows. Not 0: an error code of MPI. */
int tauti_form_agree(struct tauti_form_comm *it);
/* A Taut communicator over messages of MPI. */
TAUT_NODISCARD taut_status tauti_form_make_by_mpi(
	struct tauti_form_comm *it, struct taut_error *reterr);
void tauti_form_unmake(struct tauti_form_comm *it);
static inline bool tauti_form_is_due(const struct tauti_form_comm *it)
{
	return it->phase < TAUTI_FORM_READY && it->summed >=
		(it->phase == TAUTI_FORM_NEW ? TAUTI_FORM_ASK_BYTES :
			it->after_bytes);
}

/* Rounds of devices, where all ranks can; else none has them. An error code of MPI. */
int tauti_form_meet_peers(struct tauti_form_comm *it);

/* --- call.c -------------------------------------------------------------------------------*/

struct tauti_form_call {
	const void *in;
	void *out;
	uint64_t count;
	enum taut_type type;
	enum taut_reduction reduction;
	bool by_peers;
};

/* An error code of MPI. */
int tauti_form_run(
	struct tauti_form_comm *it, const struct tauti_form_call *call);
int tauti_form_begin(struct tauti_form_comm *it,
	const struct tauti_form_call *call, void *ret_request);
/* Completes the requests that are done; for one that failed its communicator's error
 * handler is called, or MPI_COMM_WORLD's where that was freed. */
void tauti_form_complete(void);
/* The error code of MPI of a request that failed, where one was in the list of a call
 * that ended on this thread; the caller clears it before. */
extern __thread int tauti_form_failure
	__attribute__((tls_model("initial-exec"), visibility("hidden")));
/* The communicator goes: what is over of its requests forgets it. */
void tauti_form_disown(struct tauti_form_comm *it);
/* Waits a little, for requests to be done; `turns` counts since the last news. */
void tauti_form_nap(uint32_t turns);

/* --- device.c -----------------------------------------------------------------------------*/

enum tauti_form_devices {
	TAUTI_FORM_DEVICES_NONE, TAUTI_FORM_DEVICES_CUDA,
	TAUTI_FORM_DEVICES_OTHER, /* whose memory we do not know: all is MPI's */
};
/* By the drivers that are loaded now. */
enum tauti_form_devices tauti_form_devices(void);
/* NULL: no driver of CUDA is loaded. It may come later; asking again costs little. */
struct tauti_gpu *tauti_form_gpu(void);

/* Whether the program, or a library of it, has begun to use CUDA, and could: that it is
 * loaded says little, where MPI's own parts load it. */
bool tauti_form_uses_devices(void);

struct tauti_form_where { /* NULL: the host's memory */
	tauti_gpu_context in, out;
};
/* gpu NULL: all is the host's. */
TAUT_NODISCARD taut_status tauti_form_where(struct tauti_gpu *gpu,
	const struct tauti_form_call *call, struct tauti_form_where *ret_where,
	struct taut_error *reterr);

/* While another thread of the program captures a graph, calls that cannot be part of one
 * are errors, and spoil it, in every thread that does not say that it is not meant. This
 * one says so, between begin and end. gpu NULL: nothing happens. */
struct tauti_form_aside {
	struct tauti_gpu *gpu; /* NULL: it did not say so */
	unsigned before;       /* the thread's mode */
};
struct tauti_form_aside tauti_form_aside_begin(struct tauti_gpu *gpu);
void tauti_form_aside_end(const struct tauti_form_aside *aside);

/* --- next.c -------------------------------------------------------------------------------
 * Functions of CUDA that stand before the real ones call those that the caller would
 * have reached otherwise: another object's that stands behind this one, the caller's
 * own run-time, or that of the process, in this order. A process may have more than one
 * run-time of CUDA, each opened for one user alone, so it depends on the caller; what
 * was found is remembered by the place of the call, as long as no object is closed: at
 * that address there may be other code afterwards.
 *
 * Threads: any, without a lock: a caller may hold the linker's. */
enum { TAUTI_FORM_KNOWN_BITS = 4,
	TAUTI_FORM_KNOWN = 1 << TAUTI_FORM_KNOWN_BITS }; /* callers, at most */

struct tauti_form_known { /* of one function; zero: nothing */
	_Atomic uint32_t sequence; /* odd: it is being changed */
	_Atomic uintptr_t caller, found;
	_Atomic unsigned long long n_closed; /* objects, when it was found */
};

/* How many objects the process has loaded, and closed, since it began: while none is
 * closed, an address of code is what it was. False: it cannot be told. */
bool tauti_form_count_objects(
	unsigned long long *ret_loaded, unsigned long long *ret_closed);
/* NULL: there is none. caller: the address that the call returns to. */
void *tauti_form_next(struct tauti_form_known known[TAUTI_FORM_KNOWN],
	const char *name, void *caller);
/* 0: it is not known. */
uintptr_t tauti_form_recall(struct tauti_form_known known[TAUTI_FORM_KNOWN],
	uintptr_t caller, unsigned long long n_closed);
void tauti_form_remember(struct tauti_form_known known[TAUTI_FORM_KNOWN],
	uintptr_t caller, unsigned long long n_closed, uintptr_t found);

/* --- op.c ---------------------------------------------------------------------------------
 * A call in parts. Each part goes through
 *
 *     FREE -> LOADING -> LOADED -> SUMMING -> SUMMED -> STORING -> FREE
 *
 * as an all-reduce of its own, where loading and storing are copies of a device's
 * memory, by way of pinned memory of the host; nothing, where that is the host's.
 * Several parts are under way: so copies go on while others are summed.
 *
 * All ranks start the same collectives in the same order, whatever they copy: parts
 * of a call in their order, and those of a later call after all of an earlier one.
 * So while a call is in parts, others wait in line behind it. Rounds start theirs
 * the same way.
 *
 * Threads: all of this inside the communicator. */
enum tauti_form_piece_state {
	TAUTI_PIECE_FREE, TAUTI_PIECE_LOADING, TAUTI_PIECE_LOADED,
	TAUTI_PIECE_SUMMING, TAUTI_PIECE_SUMMED, TAUTI_PIECE_STORING,
};

struct tauti_form_piece {
	struct tauti_form_op *op;
	enum tauti_form_piece_state state;
	uint64_t first, count; /* elements */
	struct tauti_gpu_lane *lane; /* NULL: none is needed */
	struct tauti_gpu_copy copy;
};

struct tauti_form_op { /* the caller's memory, until done() */
	struct tauti_form_comm *comm;
	struct tauti_form_op *next;
	/* may_start: its turn has come to start collectives. */
	void (*move)(struct tauti_form_op *op, bool may_start);
	struct tauti_form_call call; /* in: NULL in place */
	uint32_t element;            /* bytes */
	struct tauti_gpu_side *in_side, *out_side; /* NULL: the host's */
	uint64_t part, n_parts;      /* elements of one; how many */
	uint64_t n_taken, n_started, n_over; /* parts */
	bool started, over; /* all its collectives; it */
	taut_status status;
	struct taut_error why;
	void (*done)(void *context, taut_status status);
	void *context;
	struct tauti_form_piece piece[TAUTI_FORM_PIECES];
	/* rounds.c */
	uint32_t phase;
	struct tauti_gpu_copy copy;
	int8_t word; /* summed, to wait for all ranks */
	bool waits;
};

/* Whether a call must go this way. */
bool tauti_form_op_wanted(const struct tauti_form_comm *it,
	const struct tauti_form_call *call,
	const struct tauti_form_where *where);
/* Puts a call in line; done() is called by tauti_form_ops_move(). A failure of its
 * own breaks this rank's part, for the others have begun theirs. */
TAUT_NODISCARD taut_status tauti_form_op_begin(struct tauti_form_op *op,
	struct tauti_form_comm *it, const struct tauti_form_call *call,
	const struct tauti_form_where *where,
	void (*done)(void *context, taut_status status), void *context,
	struct taut_error *reterr);
/* Moves all on. Afterwards, where it->broken, tauti_form_break(). */
void tauti_form_ops_move(struct tauti_form_comm *it);
/* This rank cannot do its part of a collective, so it leaves: the others' calls end
 * with an error. */
void tauti_form_break(struct tauti_form_comm *it);
void tauti_form_op_fail(struct tauti_form_op *op, taut_status status,
	const struct taut_error *why, bool breaks);

/* --- rounds.c -----------------------------------------------------------------------------*/

void tauti_form_rounds_move(struct tauti_form_op *op, bool may_start);
/* The devices' memory is let go of: all ranks are in the same call. */
void tauti_form_part_peers(struct tauti_form_comm *it);

#endif /* TAUT_MPI_MPI_H */

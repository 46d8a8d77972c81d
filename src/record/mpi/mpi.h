/* mpi.h - the MPI interposer, libtaut-mpi.so: what its files share.
 *
 * The library is preloaded, so that its MPI_... functions come before those
 * of the MPI library. Each calls the one that comes next, and writes down
 * what the call was. Most of MPI's functions are also wrapped under their
 * profiling name PMPI_...: Fortran's bindings of Open MPI call those. A call
 * inside of another call is not recorded.
 *
 * No mpi.h is used: see below.h.
 *
 * Owner:   one state for the process (tauti_mpi), as there is one MPI.
 * Threads: the tables are locked when the program asked for
 *          MPI_THREAD_MULTIPLE; else MPI itself allows one thread at a time.
 * Nothing here fails towards the program: what has no room is left out. */
#ifndef TAUT_RECORD_MPI_H
#define TAUT_RECORD_MPI_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include <taut/record.h>

#include "record/mpi/below.h"

/* Functions of MPI that we call ourselves, by their profiling names. */
struct tauti_mpi_real {
	int (*comm_rank)(tauti_mpi_handle comm, int *rank);
	int (*comm_size)(tauti_mpi_handle comm, int *size);
	int (*comm_test_inter)(tauti_mpi_handle comm, int *flag);
	int (*comm_remote_size)(tauti_mpi_handle comm, int *size);
	int (*comm_group)(tauti_mpi_handle comm, tauti_mpi_handle *group);
	int (*comm_remote_group)(
		tauti_mpi_handle comm, tauti_mpi_handle *group);
	int (*group_size)(tauti_mpi_handle group, int *size);
	int (*group_translate_ranks)(tauti_mpi_handle group, int n,
		const int *ranks, tauti_mpi_handle other, int *ret_ranks);
	int (*group_free)(tauti_mpi_handle *group);
	int (*type_size)(tauti_mpi_handle type, int *size);
	int (*type_get_name)(tauti_mpi_handle type, char *name, int *len);
	int (*type_get_envelope)(tauti_mpi_handle type, int *ints, int *aints,
		int *types, int *combiner);
	int (*get_count)(const void *status, tauti_mpi_handle type, int *n);
	int (*test_cancelled)(const void *status, int *flag);
	int (*get_library_version)(char *text, int *len);
	int (*comm_get_parent)(tauti_mpi_handle *parent);
	int (*query_thread)(int *level);
	int (*comm_dup)(tauti_mpi_handle comm, tauti_mpi_handle *ret_comm);
	int (*comm_free)(tauti_mpi_handle *comm);
	int (*comm_set_errhandler)(
		tauti_mpi_handle comm, tauti_mpi_handle handler);
	int (*allgather)(const void *in, int n, tauti_mpi_handle type,
		void *out, int n_out, tauti_mpi_handle out_type,
		tauti_mpi_handle comm);
	int (*send)(const void *buf, int n, tauti_mpi_handle type, int dst,
		int tag, tauti_mpi_handle comm);
	int (*recv)(void *buf, int n, tauti_mpi_handle type, int src, int tag,
		tauti_mpi_handle comm, void *status);
};

/* Must be behind each other in this order. */
enum { TAUTI_MPI_OWN = 0, TAUTI_MPI_PROFILING = 1 };

/* Of enum taut_kind of taut/trace.h, which is not below us. */
enum {
	TAUTI_MPI_KIND_RUNTIME = 4,
	TAUTI_MPI_KIND_STEP = 11,
	TAUTI_MPI_KIND_COMM = 12,
};

/* --- abi.c: the library below -------------------------------------------- */

/* Finds out whose library it is; NULL: one that is not known. real is filled
 * as far as the library has the functions. */
const struct tauti_mpi_abi *tauti_mpi_detect(struct tauti_mpi_real *real);

/* --- the state ------------------------------------------------------------ */

enum {
	TAUTI_MPI_OPS = 16384,    /* under way at a time, and persistent ones */
	TAUTI_MPI_PAIRS = 65536,  /* (communicator, peer, tag, direction) */
	TAUTI_MPI_COMM_CHAINS = 256,
	TAUTI_MPI_TYPES = 128,
	TAUTI_MPI_NAME = 96,
};

struct tauti_mpi_op;

struct tauti_mpi_comm {
	tauti_mpi_handle handle;
	struct tauti_mpi_comm *next; /* in its chain */
	uint32_t uid;               /* never used again in this process */
	uint32_t group, group_ranks; /* texts of the log */
	int32_t size;  /* of an intercommunicator: both groups */
	int32_t rank;  /* own, in the local group */
	int32_t n_peers;
	int32_t *peers; /* rank in comm -> in MPI_COMM_WORLD, -1 unknown;
	                   NULL: the same */
	int64_t n_collectives, n_persistent, n_children;
	uint32_t refs; /* operations under way */
	bool freed;
	struct tauti_mpi_op *first, *last; /* receives without number */
	char name[TAUTI_MPI_NAME];
};

enum tauti_mpi_what { TAUTI_MPI_SEND, TAUTI_MPI_RECV, TAUTI_MPI_COLLECTIVE };

/* One operation between its call and its completion. */
struct tauti_mpi_op {
	tauti_mpi_handle request; /* or message, of a matched probe */
	uint64_t serial; /* of what was entered in the table; not 0 */
	struct tauti_mpi_op *next; /* in its chain, or of the free ones */
	struct tauti_mpi_op *order_next; /* in comm->first.., as posted */
	struct tauti_mpi_op *with; /* the other half of a send-receive */
	struct tauti_mpi_comm *comm;
	int64_t start_ns, end_ns;
	int64_t lane;
	int32_t slot;    /* lane of requests to give back; -1 */
	int32_t peer, tag; /* of the call; may be any_source, any_tag */
	uint32_t name;   /* text */
	uint32_t correlation;
	uint32_t element_bytes;
	uint8_t what;
	bool in_table;
	bool is_template; /* of a persistent request: started by a copy */
	bool in_order;   /* in the list of comm */
	bool keyed;      /* peer and tag are those of the message */
	bool numbered;
	bool done;
	bool writes;     /* was posted while the recorder wrote */
	bool cancelled;
	struct taut_log_comm args;
};

struct tauti_mpi_state {
	struct taut_log *log; /* NULL: not (or no longer) recording */
	const struct tauti_mpi_abi *abi;
	struct tauti_mpi_real real;
	int32_t rank, world_size, local_rank;
	pid_t pid;    /* who records; a child of it does not */
	bool on;      /* from the end of MPI_Init to MPI_Finalize */
	bool writes;  /* inside the window */
	bool locks;   /* MPI_THREAD_MULTIPLE */
	pthread_mutex_t lock;
	uint32_t next_correlation, next_uid;
	uint64_t n_lost; /* operations that had no room in the table */
	struct tauti_mpi_comm *comms[TAUTI_MPI_COMM_CHAINS];
	struct tauti_mpi_tables *tables;
	struct {
		bool follows; /* a framework's recorder chooses the steps */
		const int64_t *times; /* mapped: from, to; NULL: not there */
		int64_t next_look_ns;
		char folder[4096]; /* RUN/processes */
		char name[128];    /* HOST-PID */
	} window;
};
extern struct tauti_mpi_state tauti_mpi __attribute__((visibility("hidden")));

/* Enters and leaves the tables. */
static inline void tauti_mpi_lock(void)
{
	if (tauti_mpi.locks)
		pthread_mutex_lock(&tauti_mpi.lock);
}

static inline void tauti_mpi_unlock(void)
{
	if (tauti_mpi.locks)
		pthread_mutex_unlock(&tauti_mpi.lock);
}

static inline tauti_mpi_handle tauti_mpi_clean(tauti_mpi_handle handle)
{
	return tauti_mpi.abi->handle_bytes == 4 ? (uint32_t)handle : handle;
}

/* Element i of an array of handles. */
static inline tauti_mpi_handle tauti_mpi_load(const void *at, size_t i)
{
	return tauti_mpi.abi->handle_bytes == 4 ? ((const uint32_t *)at)[i] :
		((const tauti_mpi_handle *)at)[i];
}

static inline int tauti_mpi_status_int(const void *status, uint32_t at)
{
	return *(const int *)((const char *)status + at);
}

/* --- types.c --------------------------------------------------------------- */

struct tauti_mpi_type { /* count items are count * per_item elements */
	uint32_t dtype; /* text: "Float"; "Byte" where it has no name here */
	uint32_t element_bytes, per_item;
};
struct tauti_mpi_type tauti_mpi_type_of(tauti_mpi_handle type);

/* --- comms.c ---------------------------------------------------------------- */

bool tauti_mpi_comms_init(void); /* MPI_COMM_WORLD */
/* NULL: MPI_COMM_NULL, or no memory. */
struct tauti_mpi_comm *tauti_mpi_comm_of(tauti_mpi_handle comm);
/* The same number on all members of parent, when all of them call it in the
 * same order: MPI asks that of collective calls. -1: no parent. */
int64_t tauti_mpi_comm_child(tauti_mpi_handle parent);
/* created came of parent's call number `child`, or, when that is -1, of a
 * call in which only its own members took part. */
void tauti_mpi_comm_created(tauti_mpi_handle parent, int64_t child,
	const char *how, tauti_mpi_handle created);
/* created is parent's copy, some time from now. */
void tauti_mpi_comm_promised(
	tauti_mpi_handle parent, tauti_mpi_handle created);
void tauti_mpi_comm_freed(tauti_mpi_handle comm);
void tauti_mpi_comm_release(struct tauti_mpi_comm *comm);
int32_t tauti_mpi_world_rank(const struct tauti_mpi_comm *comm, int32_t rank);

/* --- order.c: numbers of sends and receives ------------------------------- */

/* Both ends count the messages of one (communicator, sender, receiver, tag),
 * so that equal numbers are one message: MPI keeps these in order. A receive
 * of any source or tag has a number only when its message is known, and with
 * it those that were posted later and might have taken the same. */
int64_t tauti_mpi_number_send(
	struct tauti_mpi_comm *comm, int32_t dst, int32_t tag);
/* op was posted: comm, peer, tag are set. */
void tauti_mpi_receive_posted(struct tauti_mpi_op *op);
/* Its message is known. */
void tauti_mpi_receive_matched(
	struct tauti_mpi_op *op, int32_t src, int32_t tag);
/* It got none. */
void tauti_mpi_receive_cancelled(struct tauti_mpi_op *op);
/* Numbers what can be, and writes those of it that are done. */
void tauti_mpi_order_sweep(struct tauti_mpi_comm *comm);

/* --- ops.c: operations under way ------------------------------------------- */

bool tauti_mpi_ops_init(void);
struct tauti_mpi_op *tauti_mpi_op_new(void); /* NULL: no room, counted */
void tauti_mpi_op_free(struct tauti_mpi_op *op);
void tauti_mpi_op_enter(struct tauti_mpi_op *op, tauti_mpi_handle request);
/* The oldest that is under way with that request, or its template. */
struct tauti_mpi_op *tauti_mpi_op_find(
	tauti_mpi_handle request, bool is_template);
/* The newest one's serial; 0: none. Before a request is given up it is that
 * of its owner; after that another thread may have it, and enter its own
 * before the old one has left. */
uint64_t tauti_mpi_op_newest(tauti_mpi_handle request);
void tauti_mpi_op_leave(struct tauti_mpi_op *op);
/* The lowest lane of requests on which nothing is under way. */
void tauti_mpi_op_take_lane(struct tauti_mpi_op *op);
/* Ends op at end_ns: writes it, or keeps it until its number is known. */
void tauti_mpi_op_done(
	struct tauti_mpi_op *op, int64_t end_ns, uint32_t correlation);
/* Writes what is left, at the end. */
void tauti_mpi_ops_fini(int64_t now_ns);
/* A counter of its own for each key; NULL: no room. */
uint32_t *tauti_mpi_pair(
	uint32_t uid, int32_t peer, int32_t tag, uint32_t direction);

/* --- calls ------------------------------------------------------------------ */

struct tauti_mpi_span {
	int64_t start_ns, end_ns;
	bool outer; /* the program's own call, while we record */
};

extern __thread int tauti_mpi_depth
	__attribute__((visibility("hidden"), tls_model("initial-exec")));

void tauti_mpi_window_look(int64_t now_ns); /* sets writes */

static inline void tauti_mpi_enter(struct tauti_mpi_span *span)
{
	span->outer = tauti_mpi.on && tauti_mpi_depth == 0;
	tauti_mpi_depth++;
	if (!span->outer)
		return;
	span->start_ns = taut_log_now();
	if (tauti_mpi.window.follows ||
		span->start_ns >= tauti_mpi.window.next_look_ns)
		tauti_mpi_window_look(span->start_ns);
}

static inline void tauti_mpi_leave(struct tauti_mpi_span *span)
{
	tauti_mpi_depth--;
	if (span->outer)
		span->end_ns = taut_log_now();
}

int64_t tauti_mpi_thread(void); /* number of the calling thread */
uint32_t tauti_mpi_text(const char *text);

/* How much a collective moves, in the callers' counts and types. */
struct tauti_mpi_coll {
	const char *collective; /* word for the log */
	tauti_mpi_handle comm;
	int64_t in, out; /* items; -1 not told */
	tauti_mpi_handle in_type, out_type;
	int root; /* in comm; -1 none */
};

void tauti_mpi_write_runtime(const char *name,
	const struct tauti_mpi_span *span, uint32_t correlation);
uint32_t tauti_mpi_correlation(void); /* never 0 */

/* A whole blocking collective. */
void tauti_mpi_collective(const char *name, const struct tauti_mpi_span *span,
	const struct tauti_mpi_coll *coll);
/* One that was begun, as request; or (persistent) only described. */
void tauti_mpi_icollective(const char *name, const struct tauti_mpi_span *span,
	const struct tauti_mpi_coll *coll, tauti_mpi_handle request,
	bool persistent);

struct tauti_mpi_message {
	int64_t n;
	tauti_mpi_handle type, comm;
	int peer, tag;
};
void tauti_mpi_send(const char *name, const struct tauti_mpi_span *span,
	const struct tauti_mpi_message *message);
void tauti_mpi_recv(const char *name, const struct tauti_mpi_span *span,
	const struct tauti_mpi_message *message, const void *status);
/* MPI_Sendrecv and its like: two operations at once, in one call. */
void tauti_mpi_sendrecv(const char *name, const struct tauti_mpi_span *span,
	const struct tauti_mpi_message *send,
	const struct tauti_mpi_message *recv, const void *status);
/* One that was begun (either may be NULL), or only described. */
void tauti_mpi_begun(const char *name, const struct tauti_mpi_span *span,
	const struct tauti_mpi_message *send,
	const struct tauti_mpi_message *recv, tauti_mpi_handle request,
	bool persistent);
void tauti_mpi_started(
	const struct tauti_mpi_span *span, tauti_mpi_handle request);
/* A probe took the message out of the queue. */
void tauti_mpi_probed(tauti_mpi_handle comm, int src, int tag,
	tauti_mpi_handle message, const void *status);
void tauti_mpi_mrecv(const char *name, const struct tauti_mpi_span *span,
	tauti_mpi_handle message, int64_t n, tauti_mpi_handle type,
	const void *status, tauti_mpi_handle request, bool begins);
/* A wait or test saw the end of a request. serial: 0, or as it was before the
 * call. True: it was one of ours. */
bool tauti_mpi_completed(const struct tauti_mpi_span *span,
	tauti_mpi_handle request, uint64_t serial, const void *status,
	uint32_t correlation);
void tauti_mpi_request_freed(
	const struct tauti_mpi_span *span, tauti_mpi_handle request);
void tauti_mpi_request_cancelled(tauti_mpi_handle request);

/* --- start.c ------------------------------------------------------------------ */

void tauti_mpi_start(int64_t init_begin_ns); /* MPI_Init is done */
void tauti_mpi_stop(const char *how); /* nothing is recorded any more */
void tauti_mpi_end(void); /* and no thread of MPI runs: closes the log */
void tauti_mpi_pcontrol(int level);

/* --- window.c ----------------------------------------------------------------- */

void tauti_mpi_window_begin(const char *run);

/* --- clocks.c: the hosts' clocks, over MPI itself ----------------------------- */

void tauti_mpi_clocks_begin(const char *run);
void tauti_mpi_clocks_end(void);

/* --- agree.c ------------------------------------------------------------------- */

/* The launcher says that all ranks are on this host. */
bool tauti_mpi_is_one_host(void);
/* True on all ranks, or on none: all of them are recorded into run. Takes two
 * seconds where the answer is no. */
bool tauti_mpi_agree(const char *run);

#endif /* TAUT_RECORD_MPI_H */

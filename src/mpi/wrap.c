/* wrap.c - the functions of MPI that are ours: each decides whose a call is. */
#include "mpi/mpi.h"
#include "record/mpi/entry.h"

typedef tauti_form_handle handle;

enum { NEEDLESS_TO_LOOK = TAUTI_FORM_LEAST_BYTES / 8 }; /* elements */

/* --- whose a call is ----------------------------------------------------------------------*/

struct judged {
	struct tauti_form_comm *comm; /* NULL: MPI's */
	struct tauti_form_call call;
	uint64_t bytes;
};

/* The communicator of a call that this thread hands on: another object behind this one may
 * come back with it, by the other name, and may be there on some ranks alone. */
static __thread handle handed_on __attribute__((tls_model("initial-exec")));

/* The communicator of a call that Taut might take one day, and the call in Taut's
 * words. Nothing here may depend on what other ranks do not know: no address. */
static bool looks_right(const void *in, void *out, int64_t count, handle type,
	handle op, handle comm, struct judged *it)
{
	if (!tauti_form_on())
		return false;
	it->bytes = (uint64_t)count * tauti_form_means(
		type, op, &it->call.type, &it->call.reduction);
	if (it->bytes < TAUTI_FORM_LEAST_BYTES)
		return false;
	it->call.in = in;
	it->call.out = out;
	it->call.count = (uint64_t)count;
	comm = tauti_form_clean(comm);
	if (comm == tauti_mpi_form.abi->comm_null || comm == handed_on)
		return false;
	it->comm = tauti_form_comm_of(comm);
	if (!it->comm) /* the others go on with it */
		tauti_mpi_form.real.comm_call_errhandler(
			comm, tauti_mpi_form.err_other);
	return it->comm && it->comm->phase != TAUTI_FORM_NEVER;
}

static bool is_tauts(struct judged *it)
{
	enum tauti_form_who who = TAUTI_FORM_MPI;

	if (it->comm->phase == TAUTI_FORM_READY)
		who = tauti_form_takes(&it->comm->steps, it->bytes);
	it->call.by_peers = who == TAUTI_FORM_PEER;
	return who != TAUTI_FORM_MPI;
}

/* --- all-reduce ---------------------------------------------------------------------------*/

#define HAND_ON(comm, call) \
	do { \
		handle before = handed_on; \
		int result; \
\
		handed_on = tauti_form_clean(comm); \
		result = call; \
		handed_on = before; \
		return result; \
	} while (0)

#define ALLREDUCE(name, number) \
	TAUTI_MPI_WRAP(name, (in, out, count, type, op, comm), \
		const void *in, void *out, number count, handle type, \
		handle op, handle comm) \
	{ \
		struct judged it; \
		int rc; \
\
		if (!tauti_mpi_fits(count)) \
			return TAUTI_MPI_TOO_LARGE; \
		if (count < NEEDLESS_TO_LOOK || !looks_right(in, out, count, \
				type, op, comm, &it)) \
			return next(in, out, count, type, op, comm); \
		it.comm->summed += it.bytes; \
		if (tauti_form_is_due(it.comm)) { \
			rc = tauti_form_agree(it.comm); \
			if (rc) \
				return rc; \
		} \
		if (is_tauts(&it)) \
			return tauti_form_run(it.comm, &it.call); \
		HAND_ON(comm, next(in, out, count, type, op, comm)); \
	}
ALLREDUCE(Allreduce, int)
ALLREDUCE(Allreduce_c, int64_t)

#define IALLREDUCE(name, number) \
	TAUTI_MPI_WRAP(name, (in, out, count, type, op, comm, request), \
		const void *in, void *out, number count, handle type, \
		handle op, handle comm, void *request) \
	{ \
		struct judged it; \
\
		if (!tauti_mpi_fits(count)) \
			return TAUTI_MPI_TOO_LARGE; \
		if (count < NEEDLESS_TO_LOOK || !looks_right(in, out, count, \
				type, op, comm, &it)) \
			return next(in, out, count, type, op, comm, request); \
		it.comm->summed += it.bytes; \
		if (is_tauts(&it) && it.comm->begins) \
			return tauti_form_begin(it.comm, &it.call, request); \
		HAND_ON(comm, next(in, out, count, type, op, comm, request)); \
	}
IALLREDUCE(Iallreduce, int)
IALLREDUCE(Iallreduce_c, int64_t)

/* A program whose all-reduces only begin comes to an agreement here. */
TAUTI_MPI_WRAP(Barrier, (comm), handle comm)
{
	struct tauti_form_comm *it = NULL;

	if (atomic_load_explicit(&tauti_mpi_form.on, memory_order_relaxed) &&
		tauti_form_clean(comm) != tauti_mpi_form.abi->comm_null)
		it = tauti_form_comm_known(comm);
	if (it && tauti_form_is_due(it)) {
		int rc = tauti_form_agree(it);

		if (rc)
			return rc;
	}
	return next(comm);
}

/* --- requests -----------------------------------------------------------------------------*/

static bool any_pending(void)
{
	return atomic_load_explicit(
		&tauti_mpi_form.n_pending, memory_order_acquire) != 0;
}

/* What a call returns in whose list a request of ours may have ended. */
static int result_of(int rc)
{
	return rc ? rc : tauti_form_failure;
}

/* Where something of ours is under way a wait is a test, again and again: in MPI's
 * own wait nobody would complete our requests. */
#define WAIT(name, tests, ends, args, test_args, test_types, ...) \
	TAUTI_MPI_WRAP(name, args, __VA_ARGS__) \
	{ \
		static void *known; \
		int (*test)test_types; \
\
		tauti_form_failure = 0; \
		for (uint32_t turns = 0; any_pending(); turns++) { \
			void *found = tauti_mpi_next(&known, "PMPI_" #tests); \
			int flag = 0, rc; \
\
			tauti_form_complete(); \
			memcpy(&test, &found, sizeof test); \
			rc = test test_args; \
			if (rc || (ends)) \
				return result_of(rc); \
			tauti_form_nap(turns); \
		} \
		return result_of(next args); \
	}
WAIT(Wait, Test, flag, (request, status), (request, &flag, status),
	(void *, int *, void *), void *request, void *status)
WAIT(Waitall, Testall, flag, (n, requests, statuses),
	(n, requests, &flag, statuses), (int, void *, int *, void *),
	int n, void *requests, void *statuses)
WAIT(Waitany, Testany, flag, (n, requests, index, status),
	(n, requests, index, &flag, status), (int, void *, int *, int *, void *),
	int n, void *requests, int *index, void *status)
WAIT(Waitsome, Testsome, ((void)flag, *n_done != 0),
	(n, requests, n_done, indices, statuses),
	(n, requests, n_done, indices, statuses),
	(int, void *, int *, int *, void *),
	int n, void *requests, int *n_done, int *indices, void *statuses)

#define TEST(name, args, ...) \
	TAUTI_MPI_WRAP(name, args, __VA_ARGS__) \
	{ \
		tauti_form_failure = 0; \
		if (any_pending()) \
			tauti_form_complete(); \
		return result_of(next args); \
	}
TEST(Test, (request, flag, status), void *request, int *flag, void *status)
TEST(Testall, (n, requests, flag, statuses),
	int n, void *requests, int *flag, void *statuses)
TEST(Testany, (n, requests, index, flag, status),
	int n, void *requests, int *index, int *flag, void *status)
TEST(Testsome, (n, requests, n_done, indices, statuses),
	int n, void *requests, int *n_done, int *indices, void *statuses)
TEST(Request_get_status, (request, flag, status),
	handle request, int *flag, void *status)
/* Of MPI 4.1. */
TEST(Request_get_status_all, (n, requests, flag, statuses),
	int n, const void *requests, int *flag, void *statuses)
TEST(Request_get_status_any, (n, requests, index, flag, status),
	int n, const void *requests, int *index, int *flag, void *status)
TEST(Request_get_status_some, (n, requests, n_done, indices, statuses),
	int n, const void *requests, int *n_done, int *indices, void *statuses)

/* --- the end ------------------------------------------------------------------------------*/

#define FINALIZE(name) \
	TAUT_API int name(void); \
	TAUT_API int name(void) \
	{ \
		typedef int fn(void); \
		static void *known; \
		void *found = tauti_mpi_next(&known, #name); \
		fn *next; \
\
		memcpy(&next, &found, sizeof next); \
		if (!found) \
			return TAUTI_MPI_NO_LIBRARY; \
		tauti_form_end(); \
		return next(); \
	}
FINALIZE(MPI_Finalize)
FINALIZE(PMPI_Finalize)
